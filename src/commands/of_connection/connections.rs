//! Rows of commands that run in the connection: AUTH, CLIENT, HELLO and the like.

use crate::commands::flag_sets::{ADMIN, CONNECTION, HANDSHAKE};
use crate::commands::lookup::container;
use crate::commands::row::{Command, Flags, Group, Row, Run};
use crate::keyspace::Store;
use crate::resp::Args;

/// The rows of the commands here.
pub(in crate::commands) const fn rows<S: Store>() -> [Row<S>; 21] {
    [
        Row {
            run: Run::Connection,
            command: Command {
                name: "ping",
                arity: -1,
                flags: Flags::FAST.and(Flags::SUBSCRIBED),
                group: Group::Connection,
                since: "1.0.0",
                syntax: "[message]",
                complexity: "O(1)",
                summary: "Replies PONG, or the message.",
                ..Command::NONE
            },
        },
        Row {
            run: Run::Connection,
            command: Command {
                name: "echo",
                arity: 2,
                flags: Flags::LOADING.and(Flags::STALE).and(Flags::FAST),
                group: Group::Connection,
                since: "1.0.0",
                syntax: "message",
                complexity: "O(1)",
                summary: "Replies the message.",
                ..Command::NONE
            },
        },
        Row {
            run: Run::Connection,
            command: Command {
                name: "select",
                arity: 2,
                flags: Flags::LOADING.and(Flags::STALE).and(Flags::FAST),
                group: Group::Connection,
                since: "1.0.0",
                syntax: "index",
                complexity: "O(1)",
                summary: "Chooses the database of the connection.",
                ..Command::NONE
            },
        },
        Row {
            run: Run::Connection,
            command: Command {
                name: "quit",
                arity: -1,
                flags: HANDSHAKE.and(Flags::NOT_QUEUED).and(Flags::SUBSCRIBED),
                group: Group::Connection,
                since: "1.0.0",
                complexity: "O(1)",
                summary: "Replies OK and closes the connection.",
                ..Command::NONE
            },
        },
        Row {
            run: Run::Connection,
            command: Command {
                name: "reset",
                arity: 1,
                flags: HANDSHAKE.and(Flags::NOT_QUEUED).and(Flags::MESSAGES).and(Flags::SUBSCRIBED),
                group: Group::Connection,
                since: "6.2.0",
                complexity: "O(1)",
                summary: "Puts the connection in its first state.",
                ..Command::NONE
            },
        },
        Row {
            run: Run::Connection,
            command: Command {
                name: "hello",
                arity: -1,
                flags: HANDSHAKE,
                group: Group::Connection,
                since: "6.0.0",
                syntax: "[protover [AUTH username password] [SETNAME clientname]]",
                complexity: "O(1)",
                summary: "Chooses the protocol version and says what the server is.",
                is_secret: is_credential_of_hello,
                ..Command::NONE
            },
        },
        Row {
            run: Run::Connection,
            command: Command {
                name: "auth",
                arity: -2,
                flags: HANDSHAKE,
                group: Group::Connection,
                since: "1.0.0",
                syntax: "[username] password",
                complexity: "O(1)",
                summary: "Authenticates the connection.",
                is_secret: is_credential,
                ..Command::NONE
            },
        },
        Row {
            run: Run::Plain(container),
            command: Command {
                name: "client",
                arity: -2,
                group: Group::Connection,
                since: "2.4.0",
                syntax: "subcommand",
                complexity: "as the subcommand",
                summary: "Commands about connections.",
                ..Command::NONE
            },
        },
        Row {
            run: Run::Connection,
            command: Command {
                name: "client|id",
                arity: 2,
                flags: CONNECTION,
                group: Group::Connection,
                since: "5.0.0",
                complexity: "O(1)",
                summary: "The number of the connection.",
                ..Command::NONE
            },
        },
        Row {
            run: Run::Connection,
            command: Command {
                name: "client|getname",
                arity: 2,
                flags: CONNECTION,
                group: Group::Connection,
                since: "2.6.9",
                complexity: "O(1)",
                summary: "The name of the connection.",
                ..Command::NONE
            },
        },
        Row {
            run: Run::Connection,
            command: Command {
                name: "client|setname",
                arity: 3,
                flags: CONNECTION,
                group: Group::Connection,
                since: "2.6.9",
                syntax: "connection-name",
                complexity: "O(1)",
                summary: "Names the connection.",
                ..Command::NONE
            },
        },
        Row {
            run: Run::Connection,
            command: Command {
                name: "client|setinfo",
                arity: 4,
                flags: CONNECTION,
                group: Group::Connection,
                since: "7.2.0",
                syntax: "<LIB-NAME libname | LIB-VER libver>",
                complexity: "O(1)",
                summary: "Says which library the client uses.",
                ..Command::NONE
            },
        },
        Row {
            run: Run::Connection,
            command: Command {
                name: "client|unblock",
                arity: -3,
                flags: ADMIN,
                group: Group::Connection,
                since: "5.0.0",
                syntax: "client-id [TIMEOUT | ERROR]",
                complexity: "O(log N), N = connections",
                summary: "Ends the waiting of another connection.",
                ..Command::NONE
            },
        },
        Row {
            run: Run::Connection,
            command: Command {
                name: "client|kill",
                arity: -3,
                flags: ADMIN,
                group: Group::Connection,
                since: "2.4.0",
                syntax: "<ip:port | [ID client-id] [TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [USER username] [ADDR ip:port] [LADDR ip:port] [SKIPME <YES | NO>]>",
                complexity: "O(N), N = connections",
                summary: "Ends connections.",
                ..Command::NONE
            },
        },
        Row {
            run: Run::Connection,
            command: Command {
                name: "client|reply",
                arity: 3,
                flags: CONNECTION,
                group: Group::Connection,
                since: "3.2.0",
                syntax: "<ON | OFF | SKIP>",
                complexity: "O(1)",
                summary: "Lets the server reply, or not.",
                ..Command::NONE
            },
        },
        Row {
            run: Run::Connection,
            command: Command {
                name: "client|pause",
                arity: -3,
                flags: ADMIN,
                group: Group::Connection,
                since: "3.0.0",
                syntax: "timeout [WRITE | ALL]",
                complexity: "O(1)",
                summary: "Lets the requests of all connections wait. Keys expire meanwhile.",
                ..Command::NONE
            },
        },
        Row {
            run: Run::Connection,
            command: Command {
                name: "client|unpause",
                arity: 2,
                flags: ADMIN,
                group: Group::Connection,
                since: "6.2.0",
                complexity: "O(1)",
                summary: "Lets the requests of all connections go on.",
                ..Command::NONE
            },
        },
        Row {
            run: Run::Connection,
            command: Command {
                name: "client|info",
                arity: 2,
                flags: CONNECTION,
                group: Group::Connection,
                since: "6.2.0",
                complexity: "O(1)",
                summary: "What is known of the connection.",
                ..Command::NONE
            },
        },
        Row {
            run: Run::Connection,
            command: Command {
                name: "client|list",
                arity: -2,
                flags: ADMIN,
                group: Group::Connection,
                since: "2.4.0",
                syntax: "[TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [ID client-id [client-id ...]]",
                complexity: "O(N), N = connections",
                summary: "What is known of each connection.",
                ..Command::NONE
            },
        },
        Row {
            run: Run::Connection,
            command: Command {
                name: "client|no-evict",
                arity: 3,
                flags: ADMIN,
                group: Group::Connection,
                since: "7.0.0",
                syntax: "<ON | OFF>",
                complexity: "O(1)",
                summary: "Keeps the connection when memory is short.",
                ..Command::NONE
            },
        },
        Row {
            run: Run::Connection,
            command: Command {
                name: "client|no-touch",
                arity: 3,
                flags: CONNECTION,
                group: Group::Connection,
                since: "7.2.0",
                syntax: "<ON | OFF>",
                complexity: "O(1)",
                summary: "Lets the connection read without marking keys as used.",
                ..Command::NONE
            },
        },
    ]
}

/// AUTH: a user and a password, or one of them.
fn is_credential(_: Args<'_>, position: usize) -> bool {
    position > 0
}

/// HELLO: the two words after AUTH.
fn is_credential_of_hello(args: Args<'_>, position: usize) -> bool {
    (2..position).rev().take(2).any(|before| args.is(before, "AUTH"))
}
