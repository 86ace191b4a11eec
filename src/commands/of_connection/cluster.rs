//! Rows of commands that run in the connection: CLUSTER and other commands of clients of a cluster.

use crate::commands::documentation::arguments;
use crate::commands::flag_sets::STATUS;
use crate::commands::lookup::container;
use crate::commands::row::{Categories, Command, Flags, Group, Output, Row, Run};
use crate::keyspace::Store;

/// The flags of commands that would change the cluster.
const CHANGE: Flags = Flags::ADMIN.and(Flags::STALE).and(Flags::NO_ASYNC_LOADING);

/// The rows of the commands here.
pub(in crate::commands) const fn rows<S: Store>() -> [Row<S>; 30] {
    [
        Run::Plain(container).row(Command {
            name: "cluster",
            since: "3.0.0",
            summary: "Commands about the cluster that this server is the one node of.",
            ..Command::container_of(Group::Cluster)
        }),
        Run::Connection.row(Command {
            name: "readonly",
            arity: 1,
            flags: STATUS.and(Flags::FAST),
            since: "3.0.0",
            complexity: "O(1)",
            summary: "Replies OK in a cluster, whose one node serves all reads.",
            categories: Categories::CONNECTION,
            ..Command::of(Group::Cluster)
        }),
        Run::Connection.row(Command {
            name: "readwrite",
            arity: 1,
            flags: STATUS.and(Flags::FAST),
            since: "3.0.0",
            complexity: "O(1)",
            summary: "Replies OK in a cluster, whose one node serves all reads.",
            categories: Categories::CONNECTION,
            ..Command::of(Group::Cluster)
        }),
        Run::Connection.row(Command {
            name: "asking",
            arity: 1,
            flags: Flags::FAST,
            since: "3.0.0",
            complexity: "O(1)",
            summary: "Replies OK in a cluster: no slot moves.",
            categories: Categories::CONNECTION,
            ..Command::of(Group::Cluster)
        }),
        Run::Connection.row(Command {
            name: "cluster|slots",
            arity: 2,
            flags: STATUS,
            output: Output::Varies,
            since: "3.0.0",
            deprecated_since: Some("7.0.0"),
            complexity: "O(1)",
            summary: "Which node has which slots.",
            ..Command::of(Group::Cluster)
        }),
        Run::Connection.row(Command {
            name: "cluster|shards",
            arity: 2,
            flags: STATUS,
            output: Output::Varies,
            since: "7.0.0",
            complexity: "O(1)",
            summary: "Which shard has which slots and nodes.",
            ..Command::of(Group::Cluster)
        }),
        Run::Connection.row(Command {
            name: "cluster|nodes",
            arity: 2,
            flags: Flags::STALE,
            output: Output::Varies,
            since: "3.0.0",
            complexity: "O(1)",
            summary: "The nodes, a line each.",
            ..Command::of(Group::Cluster)
        }),
        Run::Connection.row(Command {
            name: "cluster|info",
            arity: 2,
            flags: Flags::STALE,
            output: Output::Varies,
            since: "3.0.0",
            complexity: "O(1)",
            summary: "How the cluster is.",
            ..Command::of(Group::Cluster)
        }),
        Run::Connection.row(Command {
            name: "cluster|myid",
            arity: 2,
            flags: Flags::STALE,
            since: "3.0.0",
            complexity: "O(1)",
            summary: "The name of the node, which it keeps.",
            ..Command::of(Group::Cluster)
        }),
        Run::Connection.row(Command {
            name: "cluster|myshardid",
            arity: 2,
            flags: Flags::STALE,
            output: Output::Varies,
            since: "7.2.0",
            complexity: "O(1)",
            summary: "The name of the node's shard.",
            ..Command::of(Group::Cluster)
        }),
        Run::Connection.row(Command {
            name: "cluster|keyslot",
            arity: 3,
            flags: Flags::STALE,
            since: "3.0.0",
            syntax: "key",
            arguments: arguments![string("key")],
            complexity: "O(N), N = bytes of the key",
            summary: "The slot of a key.",
            ..Command::of(Group::Cluster)
        }),
        Run::Connection.row(Command {
            name: "cluster|links",
            arity: 2,
            flags: Flags::STALE,
            output: Output::Varies,
            since: "7.0.0",
            complexity: "O(1)",
            summary: "The links between nodes: none.",
            ..Command::of(Group::Cluster)
        }),
        Run::Connection.row(Command {
            name: "cluster|replicas",
            arity: 3,
            flags: Flags::ADMIN.and(Flags::STALE),
            output: Output::Varies,
            since: "5.0.0",
            syntax: "node-id",
            arguments: arguments![string("node-id")],
            complexity: "O(1)",
            summary: "The replicas of a node: none.",
            ..Command::of(Group::Cluster)
        }),
        Run::Connection.row(Command {
            name: "cluster|slaves",
            arity: 3,
            flags: Flags::ADMIN.and(Flags::STALE),
            output: Output::Varies,
            since: "3.0.0",
            syntax: "node-id",
            arguments: arguments![string("node-id")],
            deprecated_since: Some("5.0.0"),
            complexity: "O(1)",
            summary: "The replicas of a node; an old name.",
            ..Command::of(Group::Cluster)
        }),
        Run::Connection.row(Command {
            name: "cluster|meet",
            arity: -4,
            flags: CHANGE,
            since: "3.0.0",
            syntax: "ip port [bus-port]",
            arguments: arguments![
                string("ip"),
                integer("port"),
                integer("cluster-bus-port").optional().since("4.0.0"),
            ],
            complexity: "O(1)",
            summary: "Refused: there is no bus.",
            ..Command::of(Group::Cluster)
        }),
        Run::Connection.row(Command {
            name: "cluster|addslots",
            arity: -3,
            flags: CHANGE,
            since: "3.0.0",
            syntax: "slot [slot ...]",
            arguments: arguments![integer("slot").repeated()],
            complexity: "O(N), N = slots",
            summary: "Refused: all slots are taken.",
            ..Command::of(Group::Cluster)
        }),
        Run::Connection.row(Command {
            name: "cluster|addslotsrange",
            arity: -4,
            flags: CHANGE,
            since: "7.0.0",
            syntax: "start-slot end-slot [start-slot end-slot ...]",
            arguments: arguments![
                block("range", arguments![integer("start-slot"), integer("end-slot")]).repeated()
            ],
            complexity: "O(N), N = ranges",
            summary: "Refused: all slots are taken.",
            ..Command::of(Group::Cluster)
        }),
        Run::Connection.row(Command {
            name: "cluster|delslots",
            arity: -3,
            flags: CHANGE,
            since: "3.0.0",
            syntax: "slot [slot ...]",
            arguments: arguments![integer("slot").repeated()],
            complexity: "O(N), N = slots",
            summary: "Refused: the node keeps all slots.",
            ..Command::of(Group::Cluster)
        }),
        Run::Connection.row(Command {
            name: "cluster|delslotsrange",
            arity: -4,
            flags: CHANGE,
            since: "7.0.0",
            syntax: "start-slot end-slot [start-slot end-slot ...]",
            arguments: arguments![
                block("range", arguments![integer("start-slot"), integer("end-slot")]).repeated()
            ],
            complexity: "O(N), N = ranges",
            summary: "Refused: the node keeps all slots.",
            ..Command::of(Group::Cluster)
        }),
        Run::Connection.row(Command {
            name: "cluster|flushslots",
            arity: 2,
            flags: CHANGE,
            since: "3.0.0",
            complexity: "O(1)",
            summary: "Refused: the node keeps all slots.",
            ..Command::of(Group::Cluster)
        }),
        Run::Connection.row(Command {
            name: "cluster|forget",
            arity: 3,
            flags: CHANGE,
            since: "3.0.0",
            syntax: "node-id",
            arguments: arguments![string("node-id")],
            complexity: "O(1)",
            summary: "Refused: there is no other node.",
            ..Command::of(Group::Cluster)
        }),
        Run::Connection.row(Command {
            name: "cluster|replicate",
            arity: 3,
            flags: CHANGE,
            since: "3.0.0",
            syntax: "node-id",
            arguments: arguments![string("node-id")],
            complexity: "O(1)",
            summary: "Refused: there is no other node.",
            ..Command::of(Group::Cluster)
        }),
        Run::Connection.row(Command {
            name: "cluster|count-failure-reports",
            arity: 3,
            flags: Flags::ADMIN.and(Flags::STALE),
            output: Output::Varies,
            since: "3.0.0",
            syntax: "node-id",
            arguments: arguments![string("node-id")],
            complexity: "O(1)",
            summary: "How many reports of a failure of a node there are: none.",
            ..Command::of(Group::Cluster)
        }),
        Run::Connection.row(Command {
            name: "cluster|failover",
            arity: -2,
            flags: CHANGE,
            since: "3.0.0",
            syntax: "[FORCE | TAKEOVER]",
            arguments: arguments![
                one_of("options", arguments![token("force", "FORCE"), token("takeover", "TAKEOVER")]).optional()
            ],
            complexity: "O(1)",
            summary: "Refused: the one node of a cluster has no other to take its place.",
            ..Command::of(Group::Cluster)
        }),
        Run::Connection.row(Command {
            name: "cluster|setslot",
            arity: -4,
            flags: CHANGE,
            since: "3.0.0",
            syntax: "slot <IMPORTING node-id | MIGRATING node-id | NODE node-id | STABLE>",
            arguments: arguments![
                integer("slot"),
                one_of(
                    "subcommand",
                    arguments![
                        string("importing").shown("node-id").after("IMPORTING"),
                        string("migrating").shown("node-id").after("MIGRATING"),
                        string("node").shown("node-id").after("NODE"),
                        token("stable", "STABLE"),
                    ],
                ),
            ],
            complexity: "O(1)",
            summary: "Whose a slot is: of this node, and no other.",
            ..Command::of(Group::Cluster)
        }),
        Run::Connection.row(Command {
            name: "cluster|bumpepoch",
            arity: 2,
            flags: CHANGE,
            output: Output::Varies,
            since: "3.0.0",
            complexity: "O(1)",
            summary: "The epoch stays: one node has the greatest.",
            ..Command::of(Group::Cluster)
        }),
        Run::Connection.row(Command {
            name: "cluster|set-config-epoch",
            arity: 3,
            flags: CHANGE,
            since: "3.0.0",
            syntax: "config-epoch",
            arguments: arguments![integer("config-epoch")],
            complexity: "O(1)",
            summary: "Refused: the node has an epoch.",
            ..Command::of(Group::Cluster)
        }),
        Run::Connection.row(Command {
            name: "cluster|saveconfig",
            arity: 2,
            flags: CHANGE,
            since: "3.0.0",
            complexity: "O(1)",
            summary: "Replies OK: the name of the node is on the disk.",
            ..Command::of(Group::Cluster)
        }),
        Run::Connection.row(Command {
            name: "cluster|reset",
            arity: -2,
            flags: Flags::ADMIN.and(Flags::STALE).and(Flags::NOSCRIPT),
            since: "3.0.0",
            syntax: "[HARD | SOFT]",
            arguments: arguments![
                one_of("reset-type", arguments![token("hard", "HARD"), token("soft", "SOFT")]).optional()
            ],
            complexity: "O(1)",
            summary: "Refused: the node keeps all slots.",
            ..Command::of(Group::Cluster)
        }),
        Run::Connection.row(Command {
            name: "cluster|help",
            since: "5.0.0",
            ..Command::help_of(Group::Cluster)
        }),
    ]
}
