//! What COMMAND DOCS says of arguments: the cluster.

use super::{Described, integer, string};

#[rustfmt::skip] // One line for each command.
pub const COMMANDS: &[Described] = &[
    ("cluster|countkeysinslot", &[integer("slot")]),
    ("cluster|getkeysinslot", &[integer("slot"), integer("count")]),
    ("cluster|keyslot", &[string("key")]),
    ("cluster|replicas", &[string("node-id")]),
    ("cluster|slaves", &[string("node-id")]),
];
