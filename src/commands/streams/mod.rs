//! Streams.
//!
//! Effects are logged: for XADD its ID, for approximate trimming the remaining length, and for commands that deliver
//! entries to consumers (XREADGROUP, XCLAIM, XAUTOCLAIM) which consumer has which entry since when, as XCLAIM; see
//! [`log`]. The groups of a stream are stored beside its entries: changing them breaks no WATCH, as in Redis.

mod add;
mod blocking;
mod claim;
mod group;
mod log;
mod pending;
mod range;
mod read;
mod xinfo;

pub use add::{xadd, xdel, xsetid, xtrim};
pub use blocking::serve_readers;
pub use claim::{xautoclaim, xclaim};
pub use group::{
    xack, xgroup_create, xgroup_createconsumer, xgroup_delconsumer, xgroup_destroy, xgroup_help, xgroup_setid,
};
pub use pending::xpending;
pub use range::{xlen, xrange, xrevrange};
pub use read::{xread, xreadgroup};
pub use xinfo::{xinfo_consumers, xinfo_groups, xinfo_help, xinfo_stream};

use super::CommandError;
use super::flag_sets::{READ, READ_FAST, SHRINK, SHRINK_FAST, WAITING_READ, WAITING_TAKE, WRITE, WRITE_FAST};
use super::lookup::container;
use super::row::{self, Command, Keys, Output, Pending, Request, Row, Run};
use crate::commands::access;
use crate::commands::documentation::{Argument, arguments};
use crate::keyspace::values::stream::{Entry, Group, StreamId};
use crate::keyspace::{Store, Stream};
use crate::resp::{Args, Reply, quoted};

/// How a stream is shortened.
const TRIM: &[Argument] = arguments![
    one_of("strategy", arguments![token("maxlen", "MAXLEN"), token("minid", "MINID").since("6.2.0")]),
    one_of("operator", arguments![token("equal", "="), token("approximately", "~")]).optional(),
    string("threshold"),
    integer("count").after("LIMIT").since("6.2.0").optional(),
];

/// The rows of the commands here.
pub(in crate::commands) const fn rows<S: Store>() -> [Row<S>; 25] {
    [
        Run::Plain(container).row(Command {
            name: "xgroup",
            since: "5.0.0",
            summary: "Commands about the groups of a stream.",
            ..Command::container_of(row::Group::Stream)
        }),
        Run::Plain(container).row(Command {
            name: "xinfo",
            since: "5.0.0",
            summary: "Commands that describe a stream.",
            ..Command::container_of(row::Group::Stream)
        }),
        Run::Keyspace(xadd).row(Command {
            name: "xadd",
            arity: -5,
            flags: WRITE_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            output: Output::Varies,
            since: "5.0.0",
            syntax: "key [NOMKSTREAM] [<MAXLEN | MINID> [= | ~] threshold [LIMIT count]] <* | id> field value [field value ...]",
            arguments: arguments![
                key("key", 0),
                token("nomkstream", "NOMKSTREAM").since("6.2.0").optional(),
                block("trim", TRIM).optional(),
                one_of("id-selector", arguments![token("auto-id", "*"), string("id")]),
                block("data", arguments![string("field"), string("value")]).repeated(),
            ],
            complexity: "O(1), and O(N), N = entries trimmed",
            summary: "Adds an entry to a stream.",
            ..Command::of(row::Group::Stream)
        }),
        Run::Keyspace(xlen).row(Command {
            name: "xlen",
            arity: 2,
            flags: READ_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "5.0.0",
            syntax: "key",
            arguments: arguments![key("key", 0)],
            complexity: "O(1)",
            summary: "How many entries a stream has.",
            access: Some(access::LOOK),
            ..Command::of(row::Group::Stream)
        }),
        Run::Keyspace(xrange).row(Command {
            name: "xrange",
            arity: -4,
            flags: READ,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "5.0.0",
            syntax: "key start end [COUNT count]",
            arguments: arguments![
                key("key", 0),
                string("start"),
                string("end"),
                integer("count").after("COUNT").optional(),
            ],
            complexity: "O(log N + M), N = blocks of 100 entries, M = entries replied",
            summary: "The entries of a stream in a range of IDs.",
            ..Command::of(row::Group::Stream)
        }),
        Run::Keyspace(xrevrange).row(Command {
            name: "xrevrange",
            arity: -4,
            flags: READ,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "5.0.0",
            syntax: "key end start [COUNT count]",
            arguments: arguments![
                key("key", 0),
                string("end"),
                string("start"),
                integer("count").after("COUNT").optional(),
            ],
            complexity: "O(log N + M), N = blocks of 100 entries, M = entries replied",
            summary: "The entries of a stream in a range of IDs, the last one first.",
            ..Command::of(row::Group::Stream)
        }),
        Run::Keyspace(xdel).row(Command {
            name: "xdel",
            arity: -3,
            flags: SHRINK_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "5.0.0",
            syntax: "key id [id ...]",
            arguments: arguments![key("key", 0), string("id").repeated()],
            complexity: "O(M log N), M = IDs, N = blocks of 100 entries",
            summary: "Removes entries from a stream.",
            access: Some(access::DELETE),
            ..Command::of(row::Group::Stream)
        }),
        Run::Keyspace(xtrim).row(Command {
            name: "xtrim",
            arity: -4,
            flags: SHRINK,
            keys: Keys::ONE,
            request: Request::OneShard,
            output: Output::Varies,
            since: "5.0.0",
            syntax: "key <MAXLEN | MINID> [= | ~] threshold [LIMIT count]",
            arguments: arguments![key("key", 0), block("trim", TRIM)],
            complexity: "O(N), N = entries trimmed",
            summary: "Removes entries from the beginning of a stream.",
            access: Some(access::DELETE),
            ..Command::of(row::Group::Stream)
        }),
        Run::Keyspace(xsetid).row(Command {
            name: "xsetid",
            arity: -3,
            flags: WRITE_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "5.0.0",
            syntax: "key last-id [ENTRIESADDED entries-added] [MAXDELETEDID max-deleted-id]",
            arguments: arguments![
                key("key", 0),
                string("last-id"),
                integer("entries-added").after("ENTRIESADDED").since("7.0.0").optional(),
                string("max-deleted-id").after("MAXDELETEDID").since("7.0.0").optional(),
            ],
            complexity: "O(1)",
            summary: "Sets what a stream knows of its past.",
            ..Command::of(row::Group::Stream)
        }),
        Run::Keyspace(xread).row(Command {
            name: "xread",
            arity: -4,
            flags: WAITING_READ,
            keys: Keys::STREAMS,
            request: Request::MultiShardView,
            since: "5.0.0",
            syntax: "[COUNT count] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]",
            arguments: arguments![
                integer("count").after("COUNT").optional(),
                integer("milliseconds").after("BLOCK").optional(),
                block("streams", arguments![key("key", 0).repeated(), string("id").repeated()]).after("STREAMS"),
            ],
            complexity: "O(log N + M) for each stream, N = blocks of 100 entries, M = entries replied",
            summary: "The entries of streams after given IDs, or waits for one.",
            pending: Pending::AtKeys(super::blocking::timeout_of_streams),
            ..Command::of(row::Group::Stream)
        }),
        Run::Keyspace(xreadgroup).row(Command {
            name: "xreadgroup",
            arity: -7,
            flags: WAITING_TAKE,
            keys: Keys::GROUP_STREAMS,
            request: Request::MultiShardView,
            since: "5.0.0",
            syntax: "GROUP group consumer [COUNT count] [BLOCK milliseconds] [NOACK] STREAMS key [key ...] id [id ...]",
            arguments: arguments![
                block("group-block", arguments![string("group"), string("consumer")]).after("GROUP"),
                integer("count").after("COUNT").optional(),
                integer("milliseconds").after("BLOCK").optional(),
                token("noack", "NOACK").optional(),
                block("streams", arguments![key("key", 0).repeated(), string("id").repeated()]).after("STREAMS"),
            ],
            complexity: "O(M log N) for each stream, M = entries replied, N = entries not acknowledged",
            summary: "The entries of streams that no consumer of a group was given, or waits for one; or those that this consumer was given and did not acknowledge.",
            // It writes beside the entries.
            access: Some(access::READ),
            pending: Pending::AtKeys(super::blocking::timeout_of_streams),
            ..Command::of(row::Group::Stream)
        }),
        Run::Keyspace(xack).row(Command {
            name: "xack",
            arity: -4,
            flags: SHRINK_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "5.0.0",
            syntax: "key group id [id ...]",
            arguments: arguments![key("key", 0), string("group"), string("id").repeated()],
            complexity: "O(M log N), M = IDs, N = entries not acknowledged",
            summary: "Acknowledges entries that a consumer of a group was given.",
            ..Command::of(row::Group::Stream)
        }),
        Run::Keyspace(xpending).row(Command {
            name: "xpending",
            arity: -3,
            flags: READ,
            keys: Keys::ONE,
            request: Request::OneShard,
            output: Output::Varies,
            since: "5.0.0",
            syntax: "key group [[IDLE min-idle-time] start end count [consumer]]",
            arguments: arguments![
                key("key", 0),
                string("group"),
                block(
                    "filters",
                    arguments![
                        integer("min-idle-time").after("IDLE").since("6.2.0").optional(),
                        string("start"),
                        string("end"),
                        integer("count"),
                        string("consumer").optional(),
                    ]
                )
                .optional(),
            ],
            complexity: "O(log N + M), N = entries not acknowledged, M = those replied or passed over by IDLE; O(C) without a range, C = consumers",
            summary: "The entries that consumers of a group were given and did not acknowledge.",
            ..Command::of(row::Group::Stream)
        }),
        Run::Keyspace(xclaim).row(Command {
            name: "xclaim",
            arity: -6,
            flags: SHRINK_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            output: Output::Varies,
            since: "5.0.0",
            syntax: "key group consumer min-idle-time id [id ...] [IDLE ms] [TIME unix-time-milliseconds] [RETRYCOUNT count] [FORCE] [JUSTID] [LASTID lastid]",
            arguments: arguments![
                key("key", 0),
                string("group"),
                string("consumer"),
                string("min-idle-time"),
                string("id").repeated(),
                integer("ms").after("IDLE").optional(),
                unix_time("unix-time-milliseconds").after("TIME").optional(),
                integer("count").after("RETRYCOUNT").optional(),
                token("force", "FORCE").optional(),
                token("justid", "JUSTID").optional(),
                string("lastid").after("LASTID").optional(),
            ],
            complexity: "O(M log N), M = IDs, N = entries not acknowledged",
            summary: "Gives entries of a group to another consumer.",
            ..Command::of(row::Group::Stream)
        }),
        Run::Keyspace(xautoclaim).row(Command {
            name: "xautoclaim",
            arity: -6,
            flags: SHRINK_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            output: Output::Varies,
            since: "6.2.0",
            syntax: "key group consumer min-idle-time start [COUNT count] [JUSTID]",
            arguments: arguments![
                key("key", 0),
                string("group"),
                string("consumer"),
                string("min-idle-time"),
                string("start"),
                integer("count").after("COUNT").optional(),
                token("justid", "JUSTID").optional(),
            ],
            complexity: "O(M log N), M = entries looked at, N = entries not acknowledged",
            summary: "Gives entries of a group that wait long to another consumer.",
            access: Some(access::DELETE),
            ..Command::of(row::Group::Stream)
        }),
        Run::Keyspace(xgroup_create).row(Command {
            name: "xgroup|create",
            arity: -5,
            flags: WRITE,
            keys: Keys::OF_SUBCOMMAND,
            request: Request::OneShard,
            since: "5.0.0",
            syntax: "key group <id | $> [MKSTREAM] [ENTRIESREAD entries-read]",
            arguments: arguments![
                key("key", 0),
                string("group"),
                one_of("id-selector", arguments![string("id"), token("new-id", "$")]),
                token("mkstream", "MKSTREAM").optional(),
                integer("entries-read").after("ENTRIESREAD").optional(),
            ],
            complexity: "O(1)",
            summary: "Makes a group.",
            access: Some(access::INSERT),
            ..Command::of(row::Group::Stream)
        }),
        Run::Keyspace(xgroup_setid).row(Command {
            name: "xgroup|setid",
            arity: -5,
            flags: SHRINK,
            keys: Keys::OF_SUBCOMMAND,
            request: Request::OneShard,
            since: "5.0.0",
            syntax: "key group <id | $> [ENTRIESREAD entries-read]",
            arguments: arguments![
                key("key", 0),
                string("group"),
                one_of("id-selector", arguments![string("id"), token("new-id", "$")]),
                integer("entriesread").shown("entries-read").after("ENTRIESREAD").optional(),
            ],
            complexity: "O(1)",
            summary: "Sets what a group was given last.",
            ..Command::of(row::Group::Stream)
        }),
        Run::Keyspace(xgroup_createconsumer).row(Command {
            name: "xgroup|createconsumer",
            arity: 5,
            flags: WRITE,
            keys: Keys::OF_SUBCOMMAND,
            request: Request::OneShard,
            since: "6.2.0",
            syntax: "key group consumer",
            arguments: arguments![key("key", 0), string("group"), string("consumer")],
            complexity: "O(1)",
            summary: "Makes a consumer of a group.",
            access: Some(access::INSERT),
            ..Command::of(row::Group::Stream)
        }),
        Run::Keyspace(xgroup_delconsumer).row(Command {
            name: "xgroup|delconsumer",
            arity: 5,
            flags: SHRINK,
            keys: Keys::OF_SUBCOMMAND,
            request: Request::OneShard,
            since: "5.0.0",
            syntax: "key group consumer",
            arguments: arguments![key("key", 0), string("group"), string("consumer")],
            complexity: "O(M log N), M = entries it did not acknowledge, N = those of the group",
            summary: "Removes a consumer from a group, with what it did not acknowledge.",
            access: Some(access::DELETE),
            ..Command::of(row::Group::Stream)
        }),
        Run::Keyspace(xgroup_destroy).row(Command {
            name: "xgroup|destroy",
            arity: 4,
            flags: SHRINK,
            keys: Keys::OF_SUBCOMMAND,
            request: Request::OneShard,
            since: "5.0.0",
            syntax: "key group",
            arguments: arguments![key("key", 0), string("group")],
            complexity: "O(N), N = entries not acknowledged",
            summary: "Removes a group.",
            access: Some(access::DELETE),
            ..Command::of(row::Group::Stream)
        }),
        Run::Keyspace(xinfo_stream).row(Command {
            name: "xinfo|stream",
            arity: -3,
            flags: READ,
            keys: Keys::OF_SUBCOMMAND,
            request: Request::OneShard,
            since: "5.0.0",
            syntax: "key [FULL [COUNT count]]",
            arguments: arguments![
                key("key", 0),
                block("full-block", arguments![token("full", "FULL"), integer("count").after("COUNT").optional()])
                    .optional(),
            ],
            complexity: "O(1), and O(N) with FULL, N = what is replied",
            summary: "What is known of a stream.",
            ..Command::of(row::Group::Stream)
        }),
        Run::Keyspace(xinfo_groups).row(Command {
            name: "xinfo|groups",
            arity: 3,
            flags: READ,
            keys: Keys::OF_SUBCOMMAND,
            request: Request::OneShard,
            since: "5.0.0",
            syntax: "key",
            arguments: arguments![key("key", 0)],
            complexity: "O(N), N = groups",
            summary: "The groups of a stream.",
            ..Command::of(row::Group::Stream)
        }),
        Run::Keyspace(xinfo_consumers).row(Command {
            name: "xinfo|consumers",
            arity: 4,
            flags: READ,
            keys: Keys::OF_SUBCOMMAND,
            request: Request::OneShard,
            output: Output::Varies,
            since: "5.0.0",
            syntax: "key group",
            arguments: arguments![key("key", 0), string("group")],
            complexity: "O(N), N = consumers",
            summary: "The consumers of a group.",
            ..Command::of(row::Group::Stream)
        }),
        Run::Plain(xgroup_help).row(Command {
            name: "xgroup|help",
            since: "5.0.0",
            ..Command::help_of(row::Group::Stream)
        }),
        Run::Plain(xinfo_help).row(Command {
            name: "xinfo|help",
            since: "5.0.0",
            ..Command::help_of(row::Group::Stream)
        }),
    ]
}

const INVALID_ID: CommandError = CommandError::Text("ERR Invalid stream ID specified as stream command argument");

/// An ID, with number 0 if it has none.
fn id(argument: &[u8]) -> Result<StreamId, CommandError> {
    StreamId::parse(argument, 0).ok_or(INVALID_ID)
}

fn ids(arguments: Args<'_>) -> Result<Vec<StreamId>, CommandError> {
    arguments.iter().map(id).collect()
}

/// The first ID of an interval, which `(` excludes.
fn interval_start(argument: &[u8]) -> Result<StreamId, CommandError> {
    match argument {
        [b'(', rest @ ..] if !rest.is_empty() => {
            id(rest)?.next().ok_or(CommandError::Text("ERR invalid start ID for the interval"))
        }
        _ => StreamId::parse_bound(argument, 0).ok_or(INVALID_ID),
    }
}

/// The last ID of an interval, which `(` excludes.
fn interval_end(argument: &[u8]) -> Result<StreamId, CommandError> {
    match argument {
        [b'(', rest @ ..] if !rest.is_empty() => {
            let id = StreamId::parse(rest, u64::MAX).ok_or(INVALID_ID)?;
            id.previous().ok_or(CommandError::Text("ERR invalid end ID for the interval"))
        }
        _ => StreamId::parse_bound(argument, u64::MAX).ok_or(INVALID_ID),
    }
}

/// A client's bytes in the text of an error.
fn shown(bytes: &[u8]) -> String {
    quoted(bytes, usize::MAX)
}

/// The error for a subcommand with unknown arguments.
fn unknown_arguments(args: Args<'_>, container: &str) -> CommandError {
    let name = quoted(&args[1], 128);
    CommandError::Owned(format!(
        "ERR unknown subcommand or wrong number of arguments for '{name}'. Try {container} HELP."
    ))
}

/// The group of a stream that may not exist.
fn group_of<'s>(stream: Option<&'s Stream>, key: &[u8], name: &[u8]) -> Result<&'s Group, CommandError> {
    stream.and_then(|stream| stream.groups.get(name)).ok_or_else(|| no_such_group(key, name))
}

fn no_such_group(key: &[u8], name: &[u8]) -> CommandError {
    CommandError::Owned(format!("NOGROUP No such key '{}' or consumer group '{}'", shown(key), shown(name)))
}

/// The most bytes of an ID: two numbers of 64 bits and a hyphen.
const ID_TEXT_MAX: usize = 41;

fn write_id(id: StreamId, reply: &mut Reply<'_>) {
    let mut text = [0; ID_TEXT_MAX];
    let mut len = 0;
    let mut push = |part: &[u8]| {
        text[len..len + part.len()].copy_from_slice(part);
        len += part.len();
    };
    let mut digits = itoa::Buffer::new();
    push(digits.format(id.ms).as_bytes());
    push(b"-");
    push(digits.format(id.seq).as_bytes());
    reply.bulk(&text[..len]);
}

/// An entry: its ID and its fields.
fn write_entry(entry: &Entry<'_>, reply: &mut Reply<'_>) {
    let fields = entry.fields();
    reply.array(2);
    write_id(entry.id, reply);
    reply.array(2 * fields.len());
    for (name, value) in fields {
        reply.bulk(name);
        reply.bulk(value);
    }
}

/// Entries as an array.
fn write_entries<'s>(entries: impl Iterator<Item = Entry<'s>>, reply: &mut Reply<'_>) {
    write_all(entries, reply, |entry, reply| write_entry(&entry, reply));
}

/// An array of elements whose number is not known beforehand.
fn write_all<T>(elements: impl Iterator<Item = T>, reply: &mut Reply<'_>, write: impl Fn(T, &mut Reply<'_>)) {
    let start = reply.position();
    let mut count = 0;
    for element in elements {
        write(element, reply);
        count += 1;
    }
    reply.array_since(start, count);
}
