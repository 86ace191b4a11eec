//! What COMMAND DOCS says of arguments: strings.

use super::{Described, block, double, integer, key, one_of, string, token, unix_time};

#[rustfmt::skip] // One line for each command.
pub const COMMANDS: &[Described] = &[
    ("set", &[key("key", 0), string("value"), one_of("condition", &[token("nx", "NX"), token("xx", "XX")]).since("2.6.12").optional(), token("get", "GET").since("6.2.0").optional(), one_of("expiration", &[integer("seconds").after("EX").since("2.6.12"), integer("milliseconds").after("PX").since("2.6.12"), unix_time("unix-time-seconds").after("EXAT").since("6.2.0"), unix_time("unix-time-milliseconds").after("PXAT").since("6.2.0"), token("keepttl", "KEEPTTL").since("6.0.0")]).optional()]),
    ("get", &[key("key", 0)]),
    ("getset", &[key("key", 0), string("value")]),
    ("getdel", &[key("key", 0)]),
    ("getex", &[key("key", 0), one_of("expiration", &[integer("seconds").after("EX"), integer("milliseconds").after("PX"), unix_time("unix-time-seconds").after("EXAT"), unix_time("unix-time-milliseconds").after("PXAT"), token("persist", "PERSIST")]).optional()]),
    ("setnx", &[key("key", 0), string("value")]),
    ("setex", &[key("key", 0), integer("seconds"), string("value")]),
    ("psetex", &[key("key", 0), integer("milliseconds"), string("value")]),
    ("mget", &[key("key", 0).repeated()]),
    ("mset", &[block("data", &[key("key", 0), string("value")]).repeated()]),
    ("msetnx", &[block("data", &[key("key", 0), string("value")]).repeated()]),
    ("append", &[key("key", 0), string("value")]),
    ("strlen", &[key("key", 0)]),
    ("incr", &[key("key", 0)]),
    ("decr", &[key("key", 0)]),
    ("incrby", &[key("key", 0), integer("increment")]),
    ("decrby", &[key("key", 0), integer("decrement")]),
    ("incrbyfloat", &[key("key", 0), double("increment")]),
    ("getrange", &[key("key", 0), integer("start"), integer("end")]),
    ("setrange", &[key("key", 0), integer("offset"), string("value")]),
    ("substr", &[key("key", 0), integer("start"), integer("end")]),
    ("lcs", &[key("key1", 0), key("key2", 0), token("len", "LEN").optional(), token("idx", "IDX").optional(), integer("min-match-len").after("MINMATCHLEN").optional(), token("withmatchlen", "WITHMATCHLEN").optional()]),
];
