//! Rows of commands that run in the connection: MULTI, DISCARD, UNWATCH.

use crate::commands::flag_sets::{AT_ONCE, CONNECTION, CONNECTION_FAST};
use crate::commands::lookup::container;
use crate::commands::row::{Command, Flags, Group, InStream, Pending, Row, Run};
use crate::keyspace::Store;

/// The rows of the commands here.
pub(in crate::commands) const fn rows<S: Store>() -> [Row<S>; 4] {
    [
        Run::Connection.row(Command {
            name: "multi",
            arity: 1,
            flags: AT_ONCE.and(Flags::ALLOW_BUSY),
            since: "1.2.0",
            complexity: "O(1)",
            summary: "Begins a transaction: the commands that follow are queued.",
            in_stream: InStream::Begins,
            ..Command::of(Group::Transactions)
        }),
        Run::Plain(container).row(Command {
            name: "exec",
            arity: 1,
            flags: CONNECTION
                .and(Flags::SKIP_SLOWLOG)
                .and(Flags::NOT_QUEUED)
                .and(Flags::RUNS_QUEUED)
                .and(Flags::ENDS_QUEUE),
            since: "1.2.0",
            complexity: "as its commands",
            summary: "Runs the queued commands as one, unless a watched key has changed.",
            pending: Pending::Exec,
            in_stream: InStream::Ends,
            ..Command::of(Group::Transactions)
        }),
        Run::Connection.row(Command {
            name: "discard",
            arity: 1,
            flags: AT_ONCE.and(Flags::ALLOW_BUSY).and(Flags::ENDS_QUEUE),
            since: "2.0.0",
            complexity: "O(N), N = queued commands",
            summary: "Forgets the queued commands.",
            ..Command::of(Group::Transactions)
        }),
        Run::Connection.row(Command {
            name: "unwatch",
            arity: 1,
            flags: CONNECTION_FAST.and(Flags::ALLOW_BUSY),
            since: "2.2.0",
            complexity: "O(1)",
            summary: "Forgets the watched keys.",
            ..Command::of(Group::Transactions)
        }),
    ]
}
