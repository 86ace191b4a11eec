//! Rows of commands that run in the connection: replication.

use crate::commands::flag_sets::CONNECTION_FAST;
use crate::commands::row::{Categories, Command, Flags, Group, Row, Run};
use crate::keyspace::Store;

/// The rows of the commands here.
pub(in crate::commands) const fn rows<S: Store>() -> [Row<S>; 1] {
    [Row {
        run: Run::Connection,
        command: Command {
            name: "role",
            arity: 1,
            flags: CONNECTION_FAST.and(Flags::TELLS),
            group: Group::Server,
            since: "2.8.12",
            complexity: "O(1)",
            summary: "Whether the server is a master or a replica, and how far replication has come.",
            categories: Categories::ADMIN.and(Categories::DANGEROUS),
            ..Command::NONE
        },
    }]
}
