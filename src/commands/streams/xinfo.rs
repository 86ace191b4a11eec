//! XINFO: information about streams.

use super::super::arguments::integer;
use super::super::{CommandError, Outcome, Services};
use super::{shown, unknown_arguments, write_all, write_entries, write_entry, write_id};
use crate::keyspace::values::stream::{Consumer, Entry, Group, StreamId};
use crate::keyspace::{Keyspace, Store, Stream};
use crate::resp::{Args, Reply};

/// XINFO STREAM key [FULL [COUNT count]]: O(1), and O(N) with FULL, N = elements of the reply
///
/// Redis's radix tree has blocks of entries under keys. There is no such tree here: its nodes correspond to the blocks
/// and their queue.
pub fn xinfo_stream<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let stream = keyspace.read_collection::<Stream>(&args[2])?.ok_or(CommandError::NoSuchKey)?;
    let full = match args.len() {
        3 => None,
        4 if args.is(3, "FULL") => Some(10),
        6 if args.is(3, "FULL") && args.is(4, "COUNT") => Some(integer(&args[5])?),
        _ => return Err(unknown_arguments(args, "XINFO")),
    };
    reply.map(if full.is_some() { 9 } else { 10 });
    write_count("length", stream.len(), reply);
    write_count("radix-tree-keys", stream.blocks(), reply);
    write_count("radix-tree-nodes", stream.blocks() + 1, reply);
    write_id_of("last-generated-id", stream.last_id, reply);
    write_id_of("max-deleted-entry-id", stream.max_deleted_id, reply);
    write_integer("entries-added", stream.entries_added as i64, reply);
    write_id_of("recorded-first-entry-id", stream.first_id(), reply);
    match full {
        None => {
            write_count("groups", stream.groups.len(), reply);
            write_edge("first-entry", stream.range(StreamId::MIN, StreamId::MAX).next(), reply);
            write_edge("last-entry", stream.range_reversed(StreamId::MIN, StreamId::MAX).next(), reply);
        }
        Some(count) => write_full(stream, most(count), reply),
    }
    Ok(())
}

/// How many of each kind: 0 stands for all, and a negative count for 10.
fn most(count: i64) -> usize {
    match count {
        0 => usize::MAX,
        count => usize::try_from(count).unwrap_or(10),
    }
}

fn write_edge(field: &str, entry: Option<Entry<'_>>, reply: &mut Reply<'_>) {
    reply.bulk(field.as_bytes());
    match entry {
        Some(entry) => write_entry(&entry, reply),
        None => reply.null(),
    }
}

fn write_full(stream: &Stream, most: usize, reply: &mut Reply<'_>) {
    reply.bulk(b"entries");
    write_entries(stream.range(StreamId::MIN, StreamId::MAX).take(most), reply);
    reply.bulk(b"groups");
    reply.array(stream.groups.len());
    for (name, group) in &stream.groups {
        reply.map(7);
        write_bytes("name", name, reply);
        write_progress(stream, group, reply);
        write_count("pel-count", group.pending_len(), reply);
        reply.bulk(b"pending");
        write_all(group.pending_from(StreamId::MIN).take(most), reply, |(id, pending), reply| {
            reply.array(4);
            write_id(id, reply);
            reply.bulk(&pending.consumer);
            reply.integer(pending.delivered_ms);
            reply.integer(pending.deliveries as i64);
        });
        reply.bulk(b"consumers");
        reply.array(group.consumers().len());
        group.consumers().for_each(|(name, consumer)| write_full_consumer(group, name, consumer, most, reply));
    }
}

fn write_full_consumer(group: &Group, name: &[u8], consumer: &Consumer, most: usize, reply: &mut Reply<'_>) {
    reply.map(5);
    write_bytes("name", name, reply);
    write_integer("seen-time", consumer.seen_ms, reply);
    write_integer("active-time", consumer.active_ms.unwrap_or(-1), reply);
    write_count("pel-count", consumer.pending_len(), reply);
    reply.bulk(b"pending");
    write_all(group.pending_of(name, StreamId::MIN).take(most), reply, |(id, pending), reply| {
        reply.array(3);
        write_id(id, reply);
        reply.integer(pending.delivered_ms);
        reply.integer(pending.deliveries as i64);
    });
}

/// How far a group has read.
fn write_progress(stream: &Stream, group: &Group, reply: &mut Reply<'_>) {
    write_id_of("last-delivered-id", group.last_id, reply);
    write_integer_or_null("entries-read", group.entries_read, reply);
    write_integer_or_null("lag", stream.lag(group), reply);
}

/// XINFO GROUPS key: O(N), N = groups
pub fn xinfo_groups<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let stream = keyspace.read_collection::<Stream>(&args[2])?.ok_or(CommandError::NoSuchKey)?;
    reply.array(stream.groups.len());
    for (name, group) in &stream.groups {
        reply.map(6);
        write_bytes("name", name, reply);
        write_count("consumers", group.consumers().len(), reply);
        write_count("pending", group.pending_len(), reply);
        write_progress(stream, group, reply);
    }
    Ok(())
}

/// XINFO CONSUMERS key group: O(N), N = consumers
pub fn xinfo_consumers<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let now_ms = keyspace.turn.now_ms() as i64;
    let (key, name) = (&args[2], &args[3]);
    let stream = keyspace.read_collection::<Stream>(key)?.ok_or(CommandError::NoSuchKey)?;
    let group = stream.groups.get(name).ok_or_else(|| {
        CommandError::Owned(format!("NOGROUP No such consumer group '{}' for key name '{}'", shown(name), shown(key)))
    })?;
    // If the clock was set back, times may be in the future.
    let idle_ms = |since_ms: i64| now_ms.saturating_sub(since_ms).max(0);
    reply.array(group.consumers().len());
    for (name, consumer) in group.consumers() {
        reply.map(4);
        write_bytes("name", name, reply);
        write_count("pending", consumer.pending_len(), reply);
        write_integer("idle", idle_ms(consumer.seen_ms), reply);
        write_integer("inactive", consumer.active_ms.map_or(-1, idle_ms), reply);
    }
    Ok(())
}

fn write_count(field: &str, count: usize, reply: &mut Reply<'_>) {
    write_integer(field, count as i64, reply);
}

fn write_integer(field: &str, value: i64, reply: &mut Reply<'_>) {
    reply.bulk(field.as_bytes());
    reply.integer(value);
}

fn write_integer_or_null(field: &str, value: Option<i64>, reply: &mut Reply<'_>) {
    match value {
        Some(value) => write_integer(field, value, reply),
        None => {
            reply.bulk(field.as_bytes());
            reply.null();
        }
    }
}

fn write_id_of(field: &str, id: StreamId, reply: &mut Reply<'_>) {
    reply.bulk(field.as_bytes());
    write_id(id, reply);
}

fn write_bytes(field: &str, bytes: &[u8], reply: &mut Reply<'_>) {
    reply.bulk(field.as_bytes());
    reply.bulk(bytes);
}

/// XINFO HELP: O(1)
pub fn xinfo_help(_services: &Services, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let lines = [
        "CONSUMERS <key> <groupname>",
        "    Show consumers of <groupname>.",
        "GROUPS <key>",
        "    Show the stream consumer groups.",
        "STREAM <key> [FULL [COUNT <count>]",
        "    Show information about the stream.",
    ];
    write_help("XINFO", &lines, reply);
    Ok(())
}

/// The help of a container in Redis's frame.
pub fn write_help(container: &str, lines: &[&str], reply: &mut Reply<'_>) {
    reply.array(lines.len() + 3);
    reply.simple(&format!("{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    lines.iter().for_each(|line| reply.simple(line));
    reply.simple("HELP");
    reply.simple("    Print this help.");
}
