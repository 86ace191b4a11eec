//! What COMMAND DOCS says of arguments: server.

use super::{Described, block, integer, key, one_of, pattern, string, token};

#[rustfmt::skip] // One line for each command.
pub const COMMANDS: &[Described] = &[
    ("psync", &[string("replicationid"), integer("offset")]),
    ("replicaof", &[one_of("args", &[block("host-port", &[string("host"), integer("port")]), block("no-one", &[token("no", "NO"), token("one", "ONE")])])]),
    ("failover", &[block("target", &[string("host"), integer("port"), token("force", "FORCE").optional()]).after("TO").optional(), token("abort", "ABORT").optional(), integer("milliseconds").after("TIMEOUT").optional()]),
    ("slaveof", &[one_of("args", &[block("host-port", &[string("host"), integer("port")]), block("no-one", &[token("no", "NO"), token("one", "ONE")])])]),
    ("info", &[string("section").repeated().optional()]),
    ("shutdown", &[one_of("save-selector", &[token("nosave", "NOSAVE"), token("save", "SAVE")]).optional(), token("now", "NOW").since("7.0.0").optional(), token("force", "FORCE").since("7.0.0").optional(), token("abort", "ABORT").since("7.0.0").optional()]),
    ("lolwut", &[integer("version").after("VERSION").optional()]),
    ("bgsave", &[token("schedule", "SCHEDULE").since("3.2.2").optional()]),
    ("flushdb", &[one_of("flush-type", &[token("async", "ASYNC").since("4.0.0"), token("sync", "SYNC").since("6.2.0")]).optional()]),
    ("flushall", &[one_of("flush-type", &[token("async", "ASYNC").since("4.0.0"), token("sync", "SYNC").since("6.2.0")]).optional()]),
    ("swapdb", &[integer("index1"), integer("index2")]),
    ("memory|usage", &[key("key", 0), integer("count").after("SAMPLES").optional()]),
    ("command|info", &[string("command-name").repeated().optional()]),
    ("command|docs", &[string("command-name").repeated().optional()]),
    ("command|getkeys", &[string("command"), string("arg").repeated().optional()]),
    ("command|getkeysandflags", &[string("command"), string("arg").repeated().optional()]),
    ("command|list", &[one_of("filterby", &[string("module-name").after("MODULE"), string("category").after("ACLCAT"), pattern("pattern").after("PATTERN")]).after("FILTERBY").optional()]),
    ("config|get", &[string("parameter").repeated()]),
    ("config|set", &[block("data", &[string("parameter"), string("value")]).repeated()]),
    ("slowlog|get", &[integer("count").optional()]),
    ("latency|history", &[string("event")]),
    ("latency|reset", &[string("event").repeated().optional()]),
    ("latency|graph", &[string("event")]),
    ("latency|histogram", &[string("command").repeated().optional()]),
];
