//! What COMMAND DOCS says of arguments: keys.

use super::{Described, block, integer, key, one_of, pattern, string, token, unix_time};

#[rustfmt::skip] // One line for each command.
pub const COMMANDS: &[Described] = &[
    ("wait", &[integer("numreplicas"), integer("timeout")]),
    ("waitaof", &[integer("numlocal"), integer("numreplicas"), integer("timeout")]),
    ("del", &[key("key", 0).repeated()]),
    ("unlink", &[key("key", 0).repeated()]),
    ("exists", &[key("key", 0).repeated()]),
    ("touch", &[key("key", 0).repeated()]),
    ("type", &[key("key", 0)]),
    ("rename", &[key("key", 0), key("newkey", 1)]),
    ("renamenx", &[key("key", 0), key("newkey", 1)]),
    ("dump", &[key("key", 0)]),
    ("restore", &[key("key", 0), integer("ttl"), string("serialized-value"), token("replace", "REPLACE").since("3.0.0").optional(), token("absttl", "ABSTTL").since("5.0.0").optional(), integer("seconds").after("IDLETIME").since("5.0.0").optional(), integer("frequency").after("FREQ").since("5.0.0").optional()]),
    ("copy", &[key("source", 0), key("destination", 1), integer("destination-db").after("DB").optional(), token("replace", "REPLACE").optional()]),
    ("keys", &[pattern("pattern")]),
    ("scan", &[integer("cursor"), pattern("pattern").after("MATCH").optional(), integer("count").after("COUNT").optional(), string("type").after("TYPE").since("6.0.0").optional()]),
    ("move", &[key("key", 0), integer("db")]),
    ("expire", &[key("key", 0), integer("seconds"), one_of("condition", &[token("nx", "NX"), token("xx", "XX"), token("gt", "GT"), token("lt", "LT")]).since("7.0.0").optional()]),
    ("pexpire", &[key("key", 0), integer("milliseconds"), one_of("condition", &[token("nx", "NX"), token("xx", "XX"), token("gt", "GT"), token("lt", "LT")]).since("7.0.0").optional()]),
    ("expireat", &[key("key", 0), unix_time("unix-time-seconds"), one_of("condition", &[token("nx", "NX"), token("xx", "XX"), token("gt", "GT"), token("lt", "LT")]).since("7.0.0").optional()]),
    ("pexpireat", &[key("key", 0), unix_time("unix-time-milliseconds"), one_of("condition", &[token("nx", "NX"), token("xx", "XX"), token("gt", "GT"), token("lt", "LT")]).since("7.0.0").optional()]),
    ("ttl", &[key("key", 0)]),
    ("pttl", &[key("key", 0)]),
    ("expiretime", &[key("key", 0)]),
    ("pexpiretime", &[key("key", 0)]),
    ("persist", &[key("key", 0)]),
    ("sort", &[key("key", 0), pattern("by-pattern").of_key(1).shown("pattern").after("BY").optional(), block("limit", &[integer("offset"), integer("count")]).after("LIMIT").optional(), pattern("get-pattern").of_key(1).shown("pattern").after("GET").repeated_with_token().optional(), one_of("order", &[token("asc", "ASC"), token("desc", "DESC")]).optional(), token("sorting", "ALPHA").optional(), key("destination", 2).after("STORE").optional()]),
    ("sort_ro", &[key("key", 0), pattern("by-pattern").of_key(1).shown("pattern").after("BY").optional(), block("limit", &[integer("offset"), integer("count")]).after("LIMIT").optional(), pattern("get-pattern").of_key(1).shown("pattern").after("GET").repeated_with_token().optional(), one_of("order", &[token("asc", "ASC"), token("desc", "DESC")]).optional(), token("sorting", "ALPHA").optional()]),
    ("object|encoding", &[key("key", 0)]),
    ("object|refcount", &[key("key", 0)]),
    ("object|idletime", &[key("key", 0)]),
    ("object|freq", &[key("key", 0)]),
];
