//! Rows of commands that run in the connection: which master a server follows.

use crate::commands::documentation::{Argument, arguments};
use crate::commands::row::{Command, Flags, Group, Row, Run};
use crate::keyspace::Store;

/// What earlier requests of the connection have changed is their part of the stream that this ends or begins.
const FLAGS: Flags = Flags::ADMIN.and(Flags::NOSCRIPT).and(Flags::STALE).and(Flags::AFTER_REPLIES);
const FOLLOW: Flags = FLAGS.and(Flags::NO_ASYNC_LOADING);

/// The master to follow, or none.
const MASTER: &[Argument] = arguments![one_of(
    "args",
    arguments![
        block("host-port", arguments![string("host"), integer("port")]),
        block("no-one", arguments![token("no", "NO"), token("one", "ONE")]),
    ],
)];

/// The rows of the commands here.
pub(in crate::commands) const fn rows<S: Store>() -> [Row<S>; 3] {
    [
        Run::Connection.row(Command {
            name: "failover",
            arity: -1,
            flags: FLAGS,
            since: "6.2.0",
            syntax: "[TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]",
            arguments: arguments![
                block("target", arguments![string("host"), integer("port"), token("force", "FORCE").optional()],)
                    .after("TO")
                    .optional(),
                token("abort", "ABORT").optional(),
                integer("milliseconds").after("TIMEOUT").optional(),
            ],
            complexity: "O(1)",
            summary: "Hands the role of master over to a replica that has everything.",
            ..Command::of(Group::Server)
        }),
        Run::Connection.row(Command {
            name: "replicaof",
            arity: 3,
            flags: FOLLOW,
            since: "5.0.0",
            syntax: "<host port | NO ONE>",
            arguments: MASTER,
            complexity: "O(1)",
            summary: "Makes the server a replica of another, whose data it takes over; or a master, with the data that it has.",
            ..Command::of(Group::Server)
        }),
        Run::Connection.row(Command {
            name: "slaveof",
            arity: 3,
            flags: FOLLOW,
            since: "1.0.0",
            syntax: "<host port | NO ONE>",
            arguments: MASTER,
            deprecated_since: Some("5.0.0"),
            complexity: "O(1)",
            summary: "The old name of REPLICAOF.",
            ..Command::of(Group::Server)
        }),
    ]
}
