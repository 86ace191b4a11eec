//! What COMMAND DOCS says of arguments: hyperloglogs.

use super::{Described, key, string};

#[rustfmt::skip] // One line for each command.
pub const COMMANDS: &[Described] = &[
    ("pfadd", &[key("key", 0), string("element").repeated().optional()]),
    ("pfcount", &[key("key", 0).repeated()]),
    ("pfmerge", &[key("destkey", 0), key("sourcekey", 1).repeated().optional()]),
    ("pfdebug", &[string("subcommand"), key("key", 0)]),
];
