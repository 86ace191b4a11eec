//! What COMMAND DOCS says of arguments: streams.

use super::{Described, block, integer, key, one_of, string, token, unix_time};

#[rustfmt::skip] // One line for each command.
pub const COMMANDS: &[Described] = &[
    ("xadd", &[key("key", 0), token("nomkstream", "NOMKSTREAM").since("6.2.0").optional(), block("trim", &[one_of("strategy", &[token("maxlen", "MAXLEN"), token("minid", "MINID").since("6.2.0")]), one_of("operator", &[token("equal", "="), token("approximately", "~")]).optional(), string("threshold"), integer("count").after("LIMIT").since("6.2.0").optional()]).optional(), one_of("id-selector", &[token("auto-id", "*"), string("id")]), block("data", &[string("field"), string("value")]).repeated()]),
    ("xlen", &[key("key", 0)]),
    ("xrange", &[key("key", 0), string("start"), string("end"), integer("count").after("COUNT").optional()]),
    ("xrevrange", &[key("key", 0), string("end"), string("start"), integer("count").after("COUNT").optional()]),
    ("xdel", &[key("key", 0), string("id").repeated()]),
    ("xtrim", &[key("key", 0), block("trim", &[one_of("strategy", &[token("maxlen", "MAXLEN"), token("minid", "MINID").since("6.2.0")]), one_of("operator", &[token("equal", "="), token("approximately", "~")]).optional(), string("threshold"), integer("count").after("LIMIT").since("6.2.0").optional()])]),
    ("xsetid", &[key("key", 0), string("last-id"), integer("entries-added").after("ENTRIESADDED").since("7.0.0").optional(), string("max-deleted-id").after("MAXDELETEDID").since("7.0.0").optional()]),
    ("xread", &[integer("count").after("COUNT").optional(), integer("milliseconds").after("BLOCK").optional(), block("streams", &[key("key", 0).repeated(), string("id").repeated()]).after("STREAMS")]),
    ("xreadgroup", &[block("group-block", &[string("group"), string("consumer")]).after("GROUP"), integer("count").after("COUNT").optional(), integer("milliseconds").after("BLOCK").optional(), token("noack", "NOACK").optional(), block("streams", &[key("key", 0).repeated(), string("id").repeated()]).after("STREAMS")]),
    ("xack", &[key("key", 0), string("group"), string("id").repeated()]),
    ("xpending", &[key("key", 0), string("group"), block("filters", &[integer("min-idle-time").after("IDLE").since("6.2.0").optional(), string("start"), string("end"), integer("count"), string("consumer").optional()]).optional()]),
    ("xclaim", &[key("key", 0), string("group"), string("consumer"), string("min-idle-time"), string("id").repeated(), integer("ms").after("IDLE").optional(), unix_time("unix-time-milliseconds").after("TIME").optional(), integer("count").after("RETRYCOUNT").optional(), token("force", "FORCE").optional(), token("justid", "JUSTID").optional(), string("lastid").after("LASTID").optional()]),
    ("xautoclaim", &[key("key", 0), string("group"), string("consumer"), string("min-idle-time"), string("start"), integer("count").after("COUNT").optional(), token("justid", "JUSTID").optional()]),
    ("xgroup|create", &[key("key", 0), string("group"), one_of("id-selector", &[string("id"), token("new-id", "$")]), token("mkstream", "MKSTREAM").optional(), integer("entries-read").after("ENTRIESREAD").optional()]),
    ("xgroup|setid", &[key("key", 0), string("group"), one_of("id-selector", &[string("id"), token("new-id", "$")]), integer("entriesread").shown("entries-read").after("ENTRIESREAD").optional()]),
    ("xgroup|createconsumer", &[key("key", 0), string("group"), string("consumer")]),
    ("xgroup|delconsumer", &[key("key", 0), string("group"), string("consumer")]),
    ("xgroup|destroy", &[key("key", 0), string("group")]),
    ("xinfo|stream", &[key("key", 0), block("full-block", &[token("full", "FULL"), integer("count").after("COUNT").optional()]).optional()]),
    ("xinfo|groups", &[key("key", 0)]),
    ("xinfo|consumers", &[key("key", 0), string("group")]),
];
