//! Rows of commands that run in the connection: WAIT, WAITAOF.

use crate::commands::documentation::arguments;
use crate::commands::row::{Categories, Command, Flags, Group, Pending, Policies, Row, Run};
use crate::keyspace::Store;

/// The rows of the commands here.
pub(in crate::commands) const fn rows<S: Store>() -> [Row<S>; 2] {
    [
        Run::Connection.row(Command {
            name: "wait",
            arity: 3,
            flags: Flags::NONE,
            since: "3.0.0",
            syntax: "numreplicas timeout",
            arguments: arguments![integer("numreplicas"), integer("timeout")],
            complexity: "O(replicas)",
            summary: "Waits until so many replicas have what the connection wrote, or the time is over.",
            categories: Categories::CONNECTION,
            pending: Pending::Replicas,
            policies: Some(Policies::SHARDS_LEAST),
            ..Command::of(Group::Generic)
        }),
        Run::Connection.row(Command {
            name: "waitaof",
            arity: 4,
            flags: Flags::NOSCRIPT,
            since: "7.2.0",
            syntax: "numlocal numreplicas timeout",
            arguments: arguments![integer("numlocal"), integer("numreplicas"), integer("timeout")],
            complexity: "O(replicas)",
            summary: "Waits until what the connection wrote is on the disk of this server, and of so many replicas, or the time is over.",
            pending: Pending::Logs,
            policies: Some(Policies::SHARDS_LEAST),
            categories: Categories::CONNECTION,
            ..Command::of(Group::Generic)
        }),
    ]
}
