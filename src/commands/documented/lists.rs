//! What COMMAND DOCS says of arguments: lists.

use super::{Described, double, integer, key, one_of, string, token};

#[rustfmt::skip] // One line for each command.
pub const COMMANDS: &[Described] = &[
    ("blpop", &[key("key", 0).repeated(), double("timeout")]),
    ("brpop", &[key("key", 0).repeated(), double("timeout")]),
    ("blmpop", &[double("timeout"), integer("numkeys"), key("key", 0).repeated(), one_of("where", &[token("left", "LEFT"), token("right", "RIGHT")]), integer("count").after("COUNT").optional()]),
    ("blmove", &[key("source", 0), key("destination", 1), one_of("wherefrom", &[token("left", "LEFT"), token("right", "RIGHT")]), one_of("whereto", &[token("left", "LEFT"), token("right", "RIGHT")]), double("timeout")]),
    ("brpoplpush", &[key("source", 0), key("destination", 1), double("timeout")]),
    ("lpush", &[key("key", 0), string("element").repeated()]),
    ("rpush", &[key("key", 0), string("element").repeated()]),
    ("lpushx", &[key("key", 0), string("element").repeated()]),
    ("rpushx", &[key("key", 0), string("element").repeated()]),
    ("lpop", &[key("key", 0), integer("count").since("6.2.0").optional()]),
    ("rpop", &[key("key", 0), integer("count").since("6.2.0").optional()]),
    ("lmpop", &[integer("numkeys"), key("key", 0).repeated(), one_of("where", &[token("left", "LEFT"), token("right", "RIGHT")]), integer("count").after("COUNT").optional()]),
    ("rpoplpush", &[key("source", 0), key("destination", 1)]),
    ("lmove", &[key("source", 0), key("destination", 1), one_of("wherefrom", &[token("left", "LEFT"), token("right", "RIGHT")]), one_of("whereto", &[token("left", "LEFT"), token("right", "RIGHT")])]),
    ("lrange", &[key("key", 0), integer("start"), integer("stop")]),
    ("llen", &[key("key", 0)]),
    ("lindex", &[key("key", 0), integer("index")]),
    ("lset", &[key("key", 0), integer("index"), string("element")]),
    ("linsert", &[key("key", 0), one_of("where", &[token("before", "BEFORE"), token("after", "AFTER")]), string("pivot"), string("element")]),
    ("lrem", &[key("key", 0), integer("count"), string("element")]),
    ("ltrim", &[key("key", 0), integer("start"), integer("stop")]),
    ("lpos", &[key("key", 0), string("element"), integer("rank").after("RANK").optional(), integer("num-matches").after("COUNT").optional(), integer("len").after("MAXLEN").optional()]),
];
