//! Rows of commands that run in the connection: AUTH, CLIENT, HELLO and the like.

use crate::commands::Context;
use crate::commands::documentation::arguments;
use crate::commands::flag_sets::{ADMIN, CONNECTION, HANDSHAKE};
use crate::commands::greeting::Greeting;
use crate::commands::keys::{database_id, database_number};
use crate::commands::lookup::container;
use crate::commands::row::{Command, Flags, Group, InScript, InStream, Output, Policies, Row, Run};
use crate::keyspace::{Settings, Store};
use crate::resp::Args;

/// The rows of the commands here.
pub(in crate::commands) const fn rows<S: Store>() -> [Row<S>; 25] {
    [
        Run::Connection.row(Command {
            name: "ping",
            arity: -1,
            flags: Flags::FAST.and(Flags::SUBSCRIBED).and(Flags::FAILS_UNSAVED),
            since: "1.0.0",
            syntax: "[message]",
            arguments: arguments![string("message").optional()],
            complexity: "O(1)",
            summary: "Replies PONG, or the message.",
            in_stream: InStream::Nothing,
            policies: Some(Policies::SHARDS_SUCCEED),
            ..Command::of(Group::Connection)
        }),
        Run::Connection.row(Command {
            name: "echo",
            arity: 2,
            flags: Flags::LOADING.and(Flags::STALE).and(Flags::FAST),
            since: "1.0.0",
            syntax: "message",
            arguments: arguments![string("message")],
            complexity: "O(1)",
            summary: "Replies the message.",
            ..Command::of(Group::Connection)
        }),
        Run::Connection.row(Command {
            name: "select",
            arity: 2,
            flags: Flags::LOADING.and(Flags::STALE).and(Flags::FAST),
            since: "1.0.0",
            syntax: "index",
            arguments: arguments![integer("index")],
            complexity: "O(1)",
            summary: "Chooses the database of the connection.",
            in_script: InScript::Select,
            in_stream: InStream::Selects,
            context_after: Some(context_after_select),
            ..Command::of(Group::Connection)
        }),
        Run::Connection.row(Command {
            name: "quit",
            arity: -1,
            flags: HANDSHAKE.and(Flags::NOT_QUEUED).and(Flags::ENDS_QUEUE).and(Flags::SUBSCRIBED),
            since: "1.0.0",
            complexity: "O(1)",
            summary: "Replies OK and closes the connection.",
            deprecated_since: Some("7.2.0"),
            ..Command::of(Group::Connection)
        }),
        Run::Connection.row(Command {
            name: "reset",
            arity: 1,
            flags: HANDSHAKE
                .and(Flags::NOT_QUEUED)
                .and(Flags::ENDS_QUEUE)
                .and(Flags::MESSAGES)
                .and(Flags::SUBSCRIBED),
            since: "6.2.0",
            complexity: "O(1)",
            summary: "Puts the connection in its first state.",
            ..Command::of(Group::Connection)
        }),
        Run::Connection.row(Command {
            name: "hello",
            arity: -1,
            flags: HANDSHAKE,
            since: "6.0.0",
            syntax: "[protover [AUTH username password] [SETNAME clientname]]",
            arguments: arguments![
                block(
                    "arguments",
                    arguments![
                        integer("protover"),
                        block("auth", arguments![string("username"), string("password")]).after("AUTH").optional(),
                        string("clientname").after("SETNAME").optional(),
                    ],
                )
                .optional()
            ],
            complexity: "O(1)",
            summary: "Chooses the protocol version and says what the server is.",
            is_secret: is_credential_of_hello,
            context_after: Some(context_after_hello),
            ..Command::of(Group::Connection)
        }),
        Run::Connection.row(Command {
            name: "auth",
            arity: -2,
            flags: HANDSHAKE,
            since: "1.0.0",
            syntax: "[username] password",
            arguments: arguments![string("username").since("6.0.0").optional(), string("password")],
            complexity: "O(1)",
            summary: "Authenticates the connection.",
            is_secret: is_credential,
            ..Command::of(Group::Connection)
        }),
        Run::Plain(container).row(Command {
            name: "client",
            since: "2.4.0",
            summary: "Commands about connections.",
            ..Command::container_of(Group::Connection)
        }),
        Run::Connection.row(Command {
            name: "client|id",
            arity: 2,
            flags: CONNECTION,
            since: "5.0.0",
            complexity: "O(1)",
            summary: "The number of the connection.",
            ..Command::of(Group::Connection)
        }),
        Run::Connection.row(Command {
            name: "client|getname",
            arity: 2,
            flags: CONNECTION,
            since: "2.6.9",
            complexity: "O(1)",
            summary: "The name of the connection.",
            ..Command::of(Group::Connection)
        }),
        Run::Connection.row(Command {
            name: "client|setname",
            arity: 3,
            flags: CONNECTION,
            since: "2.6.9",
            syntax: "connection-name",
            arguments: arguments![string("connection-name")],
            complexity: "O(1)",
            summary: "Names the connection.",
            policies: Some(Policies::NODES_SUCCEED),
            ..Command::of(Group::Connection)
        }),
        Run::Connection.row(Command {
            name: "client|setinfo",
            arity: 4,
            flags: CONNECTION,
            since: "7.2.0",
            syntax: "<LIB-NAME libname | LIB-VER libver>",
            arguments: arguments![one_of(
                "attr",
                arguments![string("libname").after("LIB-NAME"), string("libver").after("LIB-VER")],
            )],
            complexity: "O(1)",
            summary: "Says which library the client uses.",
            policies: Some(Policies::NODES_SUCCEED),
            ..Command::of(Group::Connection)
        }),
        Run::Connection.row(Command {
            name: "client|unblock",
            arity: -3,
            flags: ADMIN.and(Flags::AFTER_REPLIES),
            since: "5.0.0",
            syntax: "client-id [TIMEOUT | ERROR]",
            arguments: arguments![
                integer("client-id"),
                one_of("unblock-type", arguments![token("timeout", "TIMEOUT"), token("error", "ERROR")]).optional(),
            ],
            complexity: "O(log N), N = connections",
            summary: "Ends the waiting of another connection.",
            ..Command::of(Group::Connection)
        }),
        Run::Connection.row(Command {
            name: "client|kill",
            arity: -3,
            flags: ADMIN.and(Flags::AFTER_REPLIES),
            since: "2.4.0",
            syntax: "<ip:port | [ID client-id] [TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [USER username] [ADDR ip:port] [LADDR ip:port] [MAXAGE seconds] [SKIPME <YES | NO>]>",
            arguments: arguments![one_of(
                "filter",
                arguments![
                    string("old-format").shown("ip:port").deprecated_since("2.8.12"),
                    one_of(
                        "new-format",
                        arguments![
                            integer("client-id").after("ID").since("2.8.12").optional(),
                            one_of(
                                "client-type",
                                arguments![
                                    token("normal", "NORMAL"),
                                    token("master", "MASTER").since("3.2.0"),
                                    token("slave", "SLAVE"),
                                    token("replica", "REPLICA").since("5.0.0"),
                                    token("pubsub", "PUBSUB"),
                                ],
                            )
                            .after("TYPE")
                            .since("2.8.12")
                            .optional(),
                            string("username").after("USER").optional(),
                            string("addr").shown("ip:port").after("ADDR").optional(),
                            string("laddr").shown("ip:port").after("LADDR").since("6.2.0").optional(),
                            integer("maxage").after("MAXAGE").since("7.4.0").optional(),
                            one_of("skipme", arguments![token("yes", "YES"), token("no", "NO")])
                                .after("SKIPME")
                                .optional(),
                        ],
                    )
                    .repeated(),
                ],
            )],
            complexity: "O(N), N = connections",
            summary: "Ends connections.",
            ..Command::of(Group::Connection)
        }),
        Run::Connection.row(Command {
            name: "client|reply",
            arity: 3,
            flags: CONNECTION,
            since: "3.2.0",
            syntax: "<ON | OFF | SKIP>",
            arguments: arguments![one_of(
                "action",
                arguments![token("on", "ON"), token("off", "OFF"), token("skip", "SKIP")],
            )],
            complexity: "O(1)",
            summary: "Lets the server reply, or not.",
            ..Command::of(Group::Connection)
        }),
        Run::Connection.row(Command {
            name: "client|pause",
            arity: -3,
            flags: ADMIN.and(Flags::AFTER_REPLIES),
            since: "3.0.0",
            syntax: "timeout [WRITE | ALL]",
            arguments: arguments![
                integer("timeout"),
                one_of("mode", arguments![token("write", "WRITE"), token("all", "ALL")]).since("6.2.0").optional(),
            ],
            complexity: "O(1)",
            summary: "Lets the requests of all connections wait. Keys expire meanwhile.",
            ..Command::of(Group::Connection)
        }),
        Run::Connection.row(Command {
            name: "client|unpause",
            arity: 2,
            flags: ADMIN,
            since: "6.2.0",
            complexity: "O(1)",
            summary: "Lets the requests of all connections go on.",
            ..Command::of(Group::Connection)
        }),
        Run::Connection.row(Command {
            name: "client|info",
            arity: 2,
            flags: CONNECTION,
            output: Output::Varies,
            since: "6.2.0",
            complexity: "O(1)",
            summary: "What is known of the connection.",
            ..Command::of(Group::Connection)
        }),
        Run::Connection.row(Command {
            name: "client|list",
            arity: -2,
            flags: ADMIN.and(Flags::AFTER_REPLIES),
            output: Output::Varies,
            since: "2.4.0",
            syntax: "[TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [ID client-id [client-id ...]]",
            arguments: arguments![
                one_of(
                    "client-type",
                    arguments![
                        token("normal", "NORMAL"),
                        token("master", "MASTER"),
                        token("replica", "REPLICA"),
                        token("pubsub", "PUBSUB"),
                    ],
                )
                .after("TYPE")
                .since("5.0.0")
                .optional(),
                integer("client-id").after("ID").since("6.2.0").repeated().optional(),
            ],
            complexity: "O(N), N = connections",
            summary: "What is known of each connection.",
            ..Command::of(Group::Connection)
        }),
        Run::Connection.row(Command {
            name: "client|no-evict",
            arity: 3,
            flags: ADMIN,
            since: "7.0.0",
            syntax: "<ON | OFF>",
            arguments: arguments![one_of("enabled", arguments![token("on", "ON"), token("off", "OFF")])],
            complexity: "O(1)",
            summary: "Keeps the connection when all take more than `maxmemory-clients`.",
            ..Command::of(Group::Connection)
        }),
        Run::Connection.row(Command {
            name: "client|no-touch",
            arity: 3,
            flags: CONNECTION,
            since: "7.2.0",
            syntax: "<ON | OFF>",
            arguments: arguments![one_of("enabled", arguments![token("on", "ON"), token("off", "OFF")])],
            complexity: "O(1)",
            summary: "Lets the connection read without marking keys as used.",
            context_after: Some(context_after_no_touch),
            ..Command::of(Group::Connection)
        }),
        Run::Connection.row(Command {
            name: "client|tracking",
            arity: -3,
            flags: CONNECTION,
            since: "6.0.0",
            syntax: "<ON | OFF> [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]",
            arguments: arguments![
                one_of("status", arguments![token("on", "ON"), token("off", "OFF")]),
                integer("client-id").after("REDIRECT").optional(),
                string("prefix").after("PREFIX").optional().repeated_with_token(),
                token("BCAST", "BCAST").optional(),
                token("OPTIN", "OPTIN").optional(),
                token("OPTOUT", "OPTOUT").optional(),
                token("NOLOOP", "NOLOOP").optional(),
            ],
            complexity: "O(P), P = prefixes",
            summary: "Tells the client of changes of the keys that it has read, or that have a prefix.",
            ..Command::of(Group::Connection)
        }),
        Run::Connection.row(Command {
            name: "client|caching",
            arity: 3,
            flags: CONNECTION,
            since: "6.0.0",
            syntax: "<YES | NO>",
            arguments: arguments![one_of("mode", arguments![token("yes", "YES"), token("no", "NO")])],
            complexity: "O(1)",
            summary: "Says whether the keys of the next request, or transaction, are tracked.",
            ..Command::of(Group::Connection)
        }),
        Run::Connection.row(Command {
            name: "client|getredir",
            arity: 2,
            flags: CONNECTION,
            since: "6.0.0",
            complexity: "O(1)",
            summary: "The number of the connection that is told of changes instead.",
            ..Command::of(Group::Connection)
        }),
        Run::Connection.row(Command {
            name: "client|trackinginfo",
            arity: 2,
            flags: CONNECTION,
            since: "6.2.0",
            complexity: "O(P), P = prefixes",
            summary: "What is tracked for the connection.",
            ..Command::of(Group::Connection)
        }),
    ]
}

/// SELECT changes the database.
fn context_after_select(settings: &Settings, context: Context, args: Args<'_>, databases: usize) -> Context {
    // In a cluster it fails.
    let number = args.get(1).filter(|_| !settings.is_cluster());
    match number.map(|number| database_number(number, databases)) {
        Some(Ok(database)) => Context { database: database_id(database), ..context },
        _ => context,
    }
}

/// HELLO changes the protocol. With a password it may fail, which is only known when the connection runs it: the
/// replies of its transaction do not change then.
fn context_after_hello(_: &Settings, context: Context, args: Args<'_>, _: usize) -> Context {
    match Greeting::parse(args) {
        Ok(Greeting { resp3: Some(resp3), credentials: None, .. }) => Context { resp3, ..context },
        _ => context,
    }
}

/// CLIENT NO-TOUCH changes whether uses of keys count.
fn context_after_no_touch(_: &Settings, context: Context, args: Args<'_>, _: usize) -> Context {
    match (args.is(2, "ON"), args.is(2, "OFF")) {
        (false, false) => context,
        (no_touch, _) => Context { no_touch, ..context },
    }
}

/// AUTH: a user and a password, or one of them.
fn is_credential(_: Args<'_>, position: usize) -> bool {
    position > 0
}

/// HELLO: the two words after AUTH.
fn is_credential_of_hello(args: Args<'_>, position: usize) -> bool {
    (2..position).rev().take(2).any(|before| args.is(before, "AUTH"))
}
