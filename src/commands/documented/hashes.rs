//! What COMMAND DOCS says of arguments: hashes.

use super::{Described, block, double, integer, key, pattern, string, token};

#[rustfmt::skip] // One line for each command.
pub const COMMANDS: &[Described] = &[
    ("hset", &[key("key", 0), block("data", &[string("field"), string("value")]).repeated()]),
    ("hmset", &[key("key", 0), block("data", &[string("field"), string("value")]).repeated()]),
    ("hget", &[key("key", 0), string("field")]),
    ("hmget", &[key("key", 0), string("field").repeated()]),
    ("hgetall", &[key("key", 0)]),
    ("hdel", &[key("key", 0), string("field").repeated()]),
    ("hexists", &[key("key", 0), string("field")]),
    ("hlen", &[key("key", 0)]),
    ("hkeys", &[key("key", 0)]),
    ("hvals", &[key("key", 0)]),
    ("hincrby", &[key("key", 0), string("field"), integer("increment")]),
    ("hincrbyfloat", &[key("key", 0), string("field"), double("increment")]),
    ("hstrlen", &[key("key", 0), string("field")]),
    ("hrandfield", &[key("key", 0), block("options", &[integer("count"), token("withvalues", "WITHVALUES").optional()]).optional()]),
    ("hscan", &[key("key", 0), integer("cursor"), pattern("pattern").after("MATCH").optional(), integer("count").after("COUNT").optional(), token("novalues", "NOVALUES").since("7.4.0").optional()]),
    ("hsetnx", &[key("key", 0), string("field"), string("value")]),
];
