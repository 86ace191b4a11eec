//! What COMMAND DOCS says of arguments: the cluster.

use super::{Described, block, integer, one_of, string, token};

#[rustfmt::skip] // One line for each command.
pub const COMMANDS: &[Described] = &[
    ("cluster|addslots", &[integer("slot").repeated()]),
    ("cluster|addslotsrange", &[block("range", &[integer("start-slot"), integer("end-slot")]).repeated()]),
    ("cluster|count-failure-reports", &[string("node-id")]),
    ("cluster|countkeysinslot", &[integer("slot")]),
    ("cluster|delslots", &[integer("slot").repeated()]),
    ("cluster|delslotsrange", &[block("range", &[integer("start-slot"), integer("end-slot")]).repeated()]),
    ("cluster|failover", &[one_of("options", &[token("force", "FORCE"), token("takeover", "TAKEOVER")]).optional()]),
    ("cluster|forget", &[string("node-id")]),
    ("cluster|getkeysinslot", &[integer("slot"), integer("count")]),
    ("cluster|keyslot", &[string("key")]),
    ("cluster|meet", &[string("ip"), integer("port"), integer("cluster-bus-port").optional().since("4.0.0")]),
    ("cluster|replicas", &[string("node-id")]),
    ("cluster|replicate", &[string("node-id")]),
    ("cluster|reset", &[one_of("reset-type", &[token("hard", "HARD"), token("soft", "SOFT")]).optional()]),
    ("cluster|set-config-epoch", &[integer("config-epoch")]),
    ("cluster|setslot", &[integer("slot"), one_of("subcommand", &[string("importing").shown("node-id").after("IMPORTING"), string("migrating").shown("node-id").after("MIGRATING"), string("node").shown("node-id").after("NODE"), token("stable", "STABLE")])]),
    ("cluster|slaves", &[string("node-id")]),
];
