//! Rows of commands that run in the connection: replication.

use crate::commands::documentation::arguments;
use crate::commands::flag_sets::{ADMIN, CONNECTION_FAST};
use crate::commands::row::{Categories, Command, Flags, Group, Row, Run};
use crate::keyspace::Store;

/// The flags of commands that make a replica of a connection.
const ATTACH: Flags =
    Flags::NOSCRIPT.and(Flags::ADMIN).and(Flags::NO_MULTI).and(Flags::NO_ASYNC_LOADING).and(Flags::AFTER_REPLIES);

/// The rows of the commands here.
pub(in crate::commands) const fn rows<S: Store>() -> [Row<S>; 4] {
    [
        Run::Connection.row(Command {
            name: "role",
            arity: 1,
            flags: CONNECTION_FAST.and(Flags::AFTER_REPLIES),
            since: "2.8.12",
            complexity: "O(replicas)",
            summary: "Whether the server is a master or a replica, and how far replication has come.",
            categories: Categories::ADMIN.and(Categories::DANGEROUS),
            ..Command::of(Group::Server)
        }),
        Run::Connection.row(Command {
            name: "sync",
            arity: 1,
            flags: ATTACH,
            since: "1.0.0",
            complexity: "O(N), N = bytes of all keys",
            summary: "Sends a snapshot, and then all that changes. For replicas.",
            ..Command::of(Group::Server)
        }),
        Run::Connection.row(Command {
            name: "psync",
            arity: -3,
            flags: ATTACH,
            since: "2.8.0",
            syntax: "replicationid offset",
            arguments: arguments![string("replicationid"), integer("offset")],
            complexity: "O(1); O(N), N = bytes of all keys, where what the replica lacks is not kept",
            summary: "Sends what changes from an offset on, or a snapshot first. For replicas.",
            ..Command::of(Group::Server)
        }),
        Run::Connection.row(Command {
            name: "replconf",
            arity: -1,
            flags: ADMIN.and(Flags::ALLOW_BUSY),
            since: "3.0.0",
            syntax: "[option value ...]",
            complexity: "O(1)",
            summary: "What a replica says of itself, and acknowledges.",
            is_internal: true,
            ..Command::of(Group::Server)
        }),
    ]
}
