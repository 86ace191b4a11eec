//! What COMMAND DOCS says of arguments: sets.

use super::{Described, integer, key, pattern, string};

#[rustfmt::skip] // One line for each command.
pub const COMMANDS: &[Described] = &[
    ("sadd", &[key("key", 0), string("member").repeated()]),
    ("srem", &[key("key", 0), string("member").repeated()]),
    ("smembers", &[key("key", 0)]),
    ("sismember", &[key("key", 0), string("member")]),
    ("smismember", &[key("key", 0), string("member").repeated()]),
    ("scard", &[key("key", 0)]),
    ("spop", &[key("key", 0), integer("count").since("3.2.0").optional()]),
    ("srandmember", &[key("key", 0), integer("count").since("2.6.0").optional()]),
    ("sscan", &[key("key", 0), integer("cursor"), pattern("pattern").after("MATCH").optional(), integer("count").after("COUNT").optional()]),
    ("smove", &[key("source", 0), key("destination", 1), string("member")]),
    ("sinter", &[key("key", 0).repeated()]),
    ("sinterstore", &[key("destination", 0), key("key", 1).repeated()]),
    ("sunion", &[key("key", 0).repeated()]),
    ("sunionstore", &[key("destination", 0), key("key", 1).repeated()]),
    ("sdiff", &[key("key", 0).repeated()]),
    ("sdiffstore", &[key("destination", 0), key("key", 1).repeated()]),
    ("sintercard", &[integer("numkeys"), key("key", 0).repeated(), integer("limit").after("LIMIT").optional()]),
];
