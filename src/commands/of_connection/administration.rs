//! Rows of commands that run in the connection: about the server.

use crate::commands::documentation::arguments;
use crate::commands::flag_sets::{ADMIN, SLOW_LOG, STATUS};
use crate::commands::lookup::container;
use crate::commands::row::{Categories, Command, Flags, Group, InScript, Output, Pending, Policies, Row, Run};
use crate::keyspace::Store;
use crate::resp::Args;

/// The rows of the commands here.
pub(in crate::commands) const fn rows<S: Store>() -> [Row<S>; 26] {
    [
        Run::Plain(container).row(Command {
            name: "config",
            flags: Flags::AFTER_REPLIES,
            since: "2.0.0",
            summary: "Commands about the configuration.",
            is_secret: is_secret_value,
            ..Command::container_of(Group::Server)
        }),
        Run::Plain(container).row(Command {
            name: "latency",
            flags: Flags::AFTER_REPLIES,
            since: "2.8.13",
            summary: "Commands about what took long.",
            ..Command::container_of(Group::Server)
        }),
        Run::Plain(container).row(Command {
            name: "slowlog",
            flags: Flags::AFTER_REPLIES,
            since: "2.2.12",
            summary: "Commands about commands that took long.",
            ..Command::container_of(Group::Server)
        }),
        Run::Connection.row(Command {
            name: "info",
            arity: -1,
            flags: STATUS.and(Flags::AFTER_REPLIES),
            output: Output::Varies,
            since: "1.0.0",
            syntax: "[section [section ...]]",
            arguments: arguments![string("section").repeated().optional()],
            complexity: "O(1)",
            summary: "What the server is, does and holds.",
            categories: Categories::DANGEROUS,
            policies: Some(Policies::SHARDS_SPECIAL),
            ..Command::of(Group::Server)
        }),
        Run::Connection.row(Command {
            name: "stats",
            arity: 1,
            flags: STATUS.and(Flags::FAST).and(Flags::AFTER_REPLIES),
            since: "0.1.0 of Shardrace",
            complexity: "O(shards)",
            summary: "The engine's metrics in one reply.",
            in_script: InScript::QueriesOwners,
            ..Command::of(Group::Server)
        }),
        Run::Connection.row(Command {
            name: "monitor",
            arity: 1,
            flags: ADMIN.and(Flags::MESSAGES),
            since: "1.0.0",
            complexity: "O(1)",
            summary: "Shows the commands of all connections.",
            ..Command::of(Group::Server)
        }),
        Run::Connection.row(Command {
            name: "shutdown",
            arity: -1,
            flags: ADMIN.and(Flags::NO_MULTI).and(Flags::ALLOW_BUSY),
            since: "1.0.0",
            syntax: "[NOSAVE | SAVE] [NOW] [FORCE] [ABORT]",
            arguments: arguments![
                one_of("save-selector", arguments![token("nosave", "NOSAVE"), token("save", "SAVE")]).optional(),
                token("now", "NOW").since("7.0.0").optional(),
                token("force", "FORCE").since("7.0.0").optional(),
                token("abort", "ABORT").since("7.0.0").optional(),
            ],
            complexity: "O(N), N = bytes of the log not yet written, and of all keys where a snapshot is made",
            summary: "Writes the log out, makes a snapshot where `save` or the command asks for one, and ends the server.",
            pending: Pending::Shutdown,
            suits_busy_script,
            ..Command::of(Group::Server)
        }),
        Run::Connection.row(Command {
            name: "lolwut",
            arity: -1,
            flags: Flags::READONLY.and(Flags::FAST),
            since: "5.0.0",
            syntax: "[VERSION version]",
            arguments: arguments![integer("version").after("VERSION").optional()],
            complexity: "O(1)",
            summary: "The version.",
            ..Command::of(Group::Server)
        }),
        Run::Connection.row(Command {
            name: "time",
            arity: 1,
            flags: STATUS.and(Flags::FAST),
            output: Output::Varies,
            since: "2.6.0",
            complexity: "O(1)",
            summary: "Unix time: seconds, and microseconds of this second.",
            in_script: InScript::Time,
            ..Command::of(Group::Server)
        }),
        Run::Connection.row(Command {
            name: "bgrewriteaof",
            arity: 1,
            flags: Flags::ADMIN.and(Flags::NOSCRIPT).and(Flags::NO_ASYNC_LOADING),
            since: "1.0.0",
            complexity: "O(1)",
            summary: "Lets the log be rewritten, while commands run: every key once in place of all that led to it. Where there is no log, one is written that ends when it is whole.",
            ..Command::of(Group::Server)
        }),
        Run::Connection.row(Command {
            name: "config|get",
            arity: -3,
            flags: ADMIN,
            since: "2.0.0",
            syntax: "parameter [parameter ...]",
            arguments: arguments![string("parameter").repeated()],
            complexity: "O(N), N = directives",
            summary: "Values of the configuration.",
            ..Command::of(Group::Server)
        }),
        Run::Connection.row(Command {
            name: "config|set",
            arity: -4,
            flags: ADMIN,
            since: "2.0.0",
            syntax: "parameter value [parameter value ...]",
            arguments: arguments![block("data", arguments![string("parameter"), string("value")]).repeated()],
            complexity: "O(N), N = directives given",
            summary: "Changes the configuration.",
            is_secret: is_secret_value,
            policies: Some(Policies::NODES_SUCCEED),
            ..Command::of(Group::Server)
        }),
        Run::Connection.row(Command {
            name: "slowlog|get",
            arity: -2,
            flags: SLOW_LOG,
            output: Output::Varies,
            since: "2.2.12",
            syntax: "[count]",
            arguments: arguments![integer("count").optional()],
            complexity: "O(N), N = entries replied",
            summary: "The last commands that took long.",
            policies: Some(Policies::NODES),
            ..Command::of(Group::Server)
        }),
        Run::Connection.row(Command {
            name: "slowlog|len",
            arity: 2,
            flags: SLOW_LOG,
            output: Output::Varies,
            since: "2.2.12",
            complexity: "O(1)",
            summary: "How many entries the slow log has.",
            policies: Some(Policies::NODES_SUM),
            ..Command::of(Group::Server)
        }),
        Run::Connection.row(Command {
            name: "slowlog|reset",
            arity: 2,
            flags: SLOW_LOG,
            since: "2.2.12",
            complexity: "O(N), N = entries",
            summary: "Forgets the entries of the slow log.",
            policies: Some(Policies::NODES_SUCCEED),
            ..Command::of(Group::Server)
        }),
        Run::Connection.row(Command {
            name: "slowlog|help",
            since: "6.2.0",
            ..Command::help_of(Group::Server)
        }),
        Run::Connection.row(Command {
            name: "latency|latest",
            arity: 2,
            flags: ADMIN,
            output: Output::Varies,
            since: "2.8.13",
            complexity: "O(1)",
            summary: "The last time that each kind of event took long.",
            policies: Some(Policies::NODES_SPECIAL),
            ..Command::of(Group::Server)
        }),
        Run::Connection.row(Command {
            name: "latency|history",
            arity: 3,
            flags: ADMIN,
            output: Output::Varies,
            since: "2.8.13",
            syntax: "event",
            arguments: arguments![string("event")],
            complexity: "O(1)",
            summary: "When events of a kind took how long.",
            policies: Some(Policies::NODES_SPECIAL),
            ..Command::of(Group::Server)
        }),
        Run::Connection.row(Command {
            name: "latency|reset",
            arity: -2,
            flags: ADMIN,
            since: "2.8.13",
            syntax: "[event [event ...]]",
            arguments: arguments![string("event").repeated().optional()],
            complexity: "O(1)",
            summary: "Forgets what took long.",
            policies: Some(Policies::NODES_SUM),
            ..Command::of(Group::Server)
        }),
        Run::Connection.row(Command {
            name: "latency|doctor",
            arity: 2,
            flags: ADMIN,
            output: Output::Varies,
            since: "2.8.13",
            complexity: "O(1)",
            summary: "What took long, in sentences.",
            policies: Some(Policies::NODES_SPECIAL),
            ..Command::of(Group::Server)
        }),
        Run::Connection.row(Command {
            name: "latency|graph",
            arity: 3,
            flags: ADMIN,
            output: Output::Varies,
            since: "2.8.13",
            syntax: "event",
            arguments: arguments![string("event")],
            complexity: "O(1)",
            summary: "The last times of a kind of event, drawn with characters.",
            policies: Some(Policies::NODES_SPECIAL),
            ..Command::of(Group::Server)
        }),
        Run::Connection.row(Command {
            name: "latency|histogram",
            arity: -2,
            flags: ADMIN,
            output: Output::Varies,
            since: "7.0.0",
            syntax: "[command [command ...]]",
            arguments: arguments![string("command").repeated().optional()],
            complexity: "O(N), N = commands",
            summary: "How often commands took how long.",
            policies: Some(Policies::NODES_SPECIAL),
            ..Command::of(Group::Server)
        }),
        Run::Connection.row(Command {
            name: "latency|help",
            since: "2.8.13",
            ..Command::help_of(Group::Server)
        }),
        Run::Connection.row(Command {
            name: "memory|stats",
            arity: 2,
            flags: Flags::AFTER_REPLIES,
            output: Output::Varies,
            since: "4.0.0",
            complexity: "O(shards)",
            summary: "What memory is used for.",
            in_script: InScript::QueriesOwners,
            policies: Some(Policies::SHARDS_SPECIAL),
            ..Command::of(Group::Server)
        }),
        Run::Connection.row(Command {
            name: "config|rewrite",
            arity: 2,
            flags: ADMIN,
            since: "2.8.0",
            complexity: "O(N), N = directives",
            summary: "Writes the configuration into its file.",
            policies: Some(Policies::NODES_SUCCEED),
            ..Command::of(Group::Server)
        }),
        Run::Connection.row(Command {
            name: "config|resetstat",
            arity: 2,
            flags: ADMIN,
            since: "2.0.0",
            complexity: "O(1)",
            summary: "Starts the counts of INFO anew.",
            policies: Some(Policies::NODES_SUCCEED),
            ..Command::of(Group::Server)
        }),
    ]
}

/// CONFIG SET: the values of what opens this server, or its master.
fn is_secret_value(args: Args<'_>, position: usize) -> bool {
    position > 2 && ["requirepass", "masterauth", "masteruser"].iter().any(|name| args.is(position - 1, name))
}

/// SHUTDOWN: no snapshot can be taken while a script holds all data. An end that waits for replicas can be aborted.
fn suits_busy_script(args: Args<'_>) -> bool {
    let is_such = |option: &[u8]| option.eq_ignore_ascii_case(b"NOSAVE") || option.eq_ignore_ascii_case(b"ABORT");
    args.from(1).iter().any(is_such)
}
