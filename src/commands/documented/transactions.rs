//! What COMMAND DOCS says of arguments: transactions.

use super::{Described, key};

#[rustfmt::skip] // One line for each command.
pub const COMMANDS: &[Described] = &[
    ("watch", &[key("key", 0).repeated()]),
];
