//! Streams.
//!
//! What is logged are effects: XADD its ID, approximate trimming the length that it left, and whatever gives entries to
//! consumers (XREADGROUP, XCLAIM, XAUTOCLAIM) who has which entry since when, as XCLAIM; see [`log`]. The groups of a
//! stream are beside its entries: changing them breaks no WATCH, as in Redis.

mod add;
mod claim;
mod group;
mod info;
mod log;
mod pending;
mod range;
mod read;
mod waiting;

pub use add::{xadd, xdel, xsetid, xtrim};
pub use claim::{xautoclaim, xclaim};
pub use group::{
    xack, xgroup_create, xgroup_createconsumer, xgroup_delconsumer, xgroup_destroy, xgroup_help, xgroup_setid,
};
pub use info::{xinfo_consumers, xinfo_groups, xinfo_help, xinfo_stream};
pub use pending::xpending;
pub use range::{xlen, xrange, xrevrange};
pub use read::{xread, xreadgroup};
pub use waiting::serve_readers;

use super::CommandError;
use crate::keyspace::Stream;
use crate::keyspace::values::stream::{Entry, Group, StreamId};
use crate::resp::{Args, Reply, quoted};

const INVALID_ID: CommandError = CommandError::Text("ERR Invalid stream ID specified as stream command argument");

/// An ID, whose number is 0 where there is none.
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

/// What is wrong where a subcommand has arguments that it does not know.
fn unknown_arguments(args: Args<'_>, container: &str) -> CommandError {
    let name = quoted(&args[1], 128);
    CommandError::Owned(format!(
        "ERR unknown subcommand or wrong number of arguments for '{name}'. Try {container} HELP."
    ))
}

/// The group of a stream that may not be there.
fn group_of<'s>(stream: Option<&'s Stream>, key: &[u8], name: &[u8]) -> Result<&'s Group, CommandError> {
    stream.and_then(|stream| stream.groups.get(name)).ok_or_else(|| no_such_group(key, name))
}

fn no_such_group(key: &[u8], name: &[u8]) -> CommandError {
    CommandError::Owned(format!("NOGROUP No such key '{}' or consumer group '{}'", shown(key), shown(name)))
}

/// Bytes of an ID at most: two numbers of 64 bits and a hyphen.
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

/// An array of elements whose number is not known before.
fn write_all<T>(elements: impl Iterator<Item = T>, reply: &mut Reply<'_>, write: impl Fn(T, &mut Reply<'_>)) {
    let mark = reply.mark();
    let mut count = 0;
    for element in elements {
        write(element, reply);
        count += 1;
    }
    reply.array_since(mark, count);
}
