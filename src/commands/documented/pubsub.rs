//! What COMMAND DOCS says of arguments: pubsub.

use super::{Described, pattern, string};

#[rustfmt::skip] // One line for each command.
pub const COMMANDS: &[Described] = &[
    ("publish", &[string("channel"), string("message")]),
    ("subscribe", &[string("channel").repeated()]),
    ("unsubscribe", &[string("channel").repeated().optional()]),
    ("psubscribe", &[pattern("pattern").repeated()]),
    ("punsubscribe", &[pattern("pattern").repeated().optional()]),
    ("spublish", &[string("shardchannel"), string("message")]),
    ("ssubscribe", &[string("shardchannel").repeated()]),
    ("sunsubscribe", &[string("shardchannel").repeated().optional()]),
    ("pubsub|channels", &[pattern("pattern").optional()]),
    ("pubsub|numsub", &[string("channel").repeated().optional()]),
    ("pubsub|shardchannels", &[pattern("pattern").optional()]),
    ("pubsub|shardnumsub", &[string("shardchannel").repeated().optional()]),
];
