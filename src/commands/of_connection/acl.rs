//! Rows of commands that run in the connection: users and what they may do.

use crate::commands::documentation::arguments;
use crate::commands::flag_sets::{ADMIN, CONNECTION, STATUS};
use crate::commands::lookup::container;
use crate::commands::row::{Command, Flags, Group, Policies, Row, Run};
use crate::keyspace::Store;
use crate::resp::Args;

/// The rows of the commands here.
pub(in crate::commands) const fn rows<S: Store>() -> [Row<S>; 14] {
    [
        Run::Plain(container).row(Command {
            name: "acl",
            flags: Flags::AFTER_REPLIES,
            since: "6.0.0",
            summary: "Commands about users.",
            is_secret: is_rule,
            ..Command::container_of(Group::Server)
        }),
        Run::Connection.row(Command {
            name: "acl|cat",
            arity: -2,
            flags: CONNECTION,
            since: "6.0.0",
            syntax: "[category]",
            arguments: arguments![string("category").optional()],
            complexity: "O(1)",
            summary: "The categories of commands, or the commands of one.",
            ..Command::of(Group::Server)
        }),
        Run::Connection.row(Command {
            name: "acl|deluser",
            arity: -3,
            flags: ADMIN,
            since: "6.0.0",
            syntax: "username [username ...]",
            arguments: arguments![string("username").repeated()],
            complexity: "O(N), N = connections",
            summary: "Deletes users, and ends their connections.",
            policies: Some(Policies::NODES_SUCCEED),
            ..Command::of(Group::Server)
        }),
        Run::Connection.row(Command {
            name: "acl|dryrun",
            arity: -4,
            flags: ADMIN,
            since: "7.0.0",
            syntax: "username command [arg [arg ...]]",
            arguments: arguments![string("username"), string("command"), string("arg").repeated().optional()],
            complexity: "O(1)",
            summary: "Whether a user may run a command, without running it.",
            ..Command::of(Group::Server)
        }),
        Run::Connection.row(Command {
            name: "acl|genpass",
            arity: -2,
            flags: CONNECTION,
            since: "6.0.0",
            syntax: "[bits]",
            arguments: arguments![integer("bits").optional()],
            complexity: "O(1)",
            summary: "A random password.",
            ..Command::of(Group::Server)
        }),
        Run::Connection.row(Command {
            name: "acl|getuser",
            arity: 3,
            flags: ADMIN,
            since: "6.0.0",
            syntax: "username",
            arguments: arguments![string("username")],
            complexity: "O(N), N = rules",
            summary: "The rules of a user.",
            ..Command::of(Group::Server)
        }),
        Run::Connection.row(Command {
            name: "acl|list",
            arity: 2,
            flags: ADMIN,
            since: "6.0.0",
            complexity: "O(N), N = users",
            summary: "The rules of all users, as lines of a file.",
            ..Command::of(Group::Server)
        }),
        Run::Connection.row(Command {
            name: "acl|load",
            arity: 2,
            flags: ADMIN,
            since: "6.0.0",
            complexity: "O(N), N = users",
            summary: "Takes the users of the file `aclfile`.",
            ..Command::of(Group::Server)
        }),
        Run::Connection.row(Command {
            name: "acl|log",
            arity: -2,
            flags: ADMIN,
            since: "6.0.0",
            syntax: "[count | RESET]",
            arguments: arguments![
                one_of("operation", arguments![integer("count"), token("reset", "RESET")]).optional()
            ],
            complexity: "O(N), N = entries",
            summary: "What was denied lately.",
            ..Command::of(Group::Server)
        }),
        Run::Connection.row(Command {
            name: "acl|save",
            arity: 2,
            flags: ADMIN,
            since: "6.0.0",
            complexity: "O(N), N = users",
            summary: "Writes all users into the file `aclfile`.",
            policies: Some(Policies::NODES_SUCCEED),
            ..Command::of(Group::Server)
        }),
        Run::Connection.row(Command {
            name: "acl|setuser",
            arity: -3,
            flags: ADMIN,
            since: "6.0.0",
            syntax: "username [rule [rule ...]]",
            arguments: arguments![string("username"), string("rule").repeated().optional()],
            complexity: "O(N), N = rules",
            summary: "Changes a user, or makes one.",
            is_secret: is_rule,
            policies: Some(Policies::NODES_SUCCEED),
            ..Command::of(Group::Server)
        }),
        Run::Connection.row(Command {
            name: "acl|users",
            arity: 2,
            flags: ADMIN,
            since: "6.0.0",
            complexity: "O(N), N = users",
            summary: "The names of all users.",
            ..Command::of(Group::Server)
        }),
        Run::Connection.row(Command {
            name: "acl|whoami",
            arity: 2,
            flags: CONNECTION,
            since: "6.0.0",
            complexity: "O(1)",
            summary: "The name of the connection's user.",
            ..Command::of(Group::Server)
        }),
        Run::Connection.row(Command {
            name: "acl|help",
            flags: STATUS,
            since: "6.0.0",
            ..Command::help_of(Group::Server)
        }),
    ]
}

/// ACL SETUSER: the name and the rules, some of which are passwords.
fn is_rule(args: Args<'_>, position: usize) -> bool {
    position > 1 && args.is(1, "SETUSER")
}
