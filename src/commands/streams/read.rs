//! Reads new entries of streams: XREAD, XREADGROUP.

use super::super::arguments::{integer, is};
use super::super::blocking::{claim_own_wait, parse_timeout_ms};
use super::super::{CommandError, Outcome};
use super::log::{Owner, give, record_given, record_given_again, record_progress};
use super::{id, shown, write_entry, write_id};
use crate::keyspace::values::stream::{GroupReading, Reading, ReadingFrom, StreamId};
use crate::keyspace::{Class, Keyspace, Node, Store, Stream};
use crate::resp::{Args, Reply};
use std::sync::Arc;

/// XREAD [COUNT count] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]: O(log N + M) for each stream, N = blocks
/// of 100 entries, M = entries replied
pub fn xread<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    read(keyspace, args, reply, false)
}

/// XREADGROUP GROUP group consumer [COUNT count] [BLOCK milliseconds] [NOACK] STREAMS key [key ...] id [id ...]:
/// O(M log N) for each stream, M = entries replied, N = entries not acknowledged
pub fn xreadgroup<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    read(keyspace, args, reply, true)
}

fn read<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>, is_group: bool) -> Outcome {
    let options = Options::parse(args, is_group, keyspace.turn.now_ms())?;
    let reading = options.reading(keyspace, args)?;
    if let Some(key) = first_ready(keyspace, &reading)? {
        claim_own_wait(keyspace, &key)?;
        write_reading(keyspace, &reading, reply);
        return Ok(());
    }
    note_seen(keyspace, &reading);
    if options.waits && keyspace.turn.caller.read_in_line(&mut keyspace.store, &Arc::new(reading)) {
        return Err(CommandError::Waits);
    }
    reply.null_array();
    Ok(())
}

/// The options of XREAD and XREADGROUP.
#[derive(Debug, Default)]
struct Options<'a> {
    waits: bool,
    /// The most entries of each stream; 0 for all.
    count: usize,
    is_acknowledged: bool,
    group: Option<(&'a [u8], &'a [u8])>,
    /// The position of the first key.
    first_key: usize,
    streams: usize,
}

impl<'a> Options<'a> {
    fn parse(args: Args<'a>, is_group: bool, now_ms: u64) -> Result<Self, CommandError> {
        let mut options = Self::default();
        let mut at = 1;
        while let Some(option) = args.get(at) {
            let more = args.len() - 1 - at;
            at += match option {
                _ if is(option, "BLOCK") && more > 0 => {
                    parse_timeout_ms(&args[at + 1], now_ms)?;
                    options.waits = true;
                    2
                }
                _ if is(option, "COUNT") && more > 0 => {
                    options.count = usize::try_from(integer(&args[at + 1])?).unwrap_or(0);
                    2
                }
                _ if is(option, "STREAMS") && more > 0 => {
                    options.first_key = at + 1;
                    break;
                }
                _ if is(option, "GROUP") && more > 1 => {
                    refuse_unless(is_group, "GROUP")?;
                    options.group = args.get(at + 1).zip(args.get(at + 2));
                    3
                }
                _ if is(option, "NOACK") => {
                    refuse_unless(is_group, "NOACK")?;
                    options.is_acknowledged = true;
                    1
                }
                _ => return Err(CommandError::Syntax),
            };
        }
        options.count_streams(args, is_group)?;
        Ok(options)
    }

    fn count_streams(&mut self, args: Args<'_>, is_group: bool) -> Outcome {
        if self.first_key == 0 {
            return Err(CommandError::Syntax);
        }
        let words = args.len() - self.first_key;
        if !words.is_multiple_of(2) {
            let (name, sign) = if is_group { ("xreadgroup", '>') } else { ("xread", '$') };
            return Err(CommandError::Owned(format!(
                "ERR Unbalanced '{name}' list of streams: for each stream key an ID or '{sign}' must be specified."
            )));
        }
        if is_group && self.group.is_none() {
            return Err(CommandError::Text("ERR Missing GROUP option for XREADGROUP"));
        }
        self.streams = words / 2;
        Ok(())
    }

    /// The reading, with `$` resolved. Each key is checked before its ID.
    fn reading<S: Store>(&self, keyspace: &mut Keyspace<S>, args: Args<'_>) -> Result<Reading, CommandError> {
        let mut streams = Vec::new();
        for at in self.first_key..self.first_key + self.streams {
            let key = &args[at];
            let stream = keyspace.read_collection::<Stream>(key)?;
            if let Some((group, _)) = self.group {
                check_group(stream, key, group)?;
            }
            let from = self.from(&args[at + self.streams], stream)?;
            streams.push((key.into(), from));
        }
        let group = self.group.map(|(group, consumer)| GroupReading {
            group: group.into(),
            consumer: consumer.into(),
            is_acknowledged: self.is_acknowledged,
        });
        Ok(Reading { streams, most: if self.count == 0 { usize::MAX } else { self.count }, group })
    }

    fn from(&self, argument: &[u8], stream: Option<&Stream>) -> Result<ReadingFrom, CommandError> {
        const LAST_OF_GROUP: &str = "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the \
             history of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would \
             just return an empty result set.";
        const LAST_ENTRY_OF_GROUP: &str = "ERR The + ID is meaningless in the context of XREADGROUP: you want to read the \
             history of this consumer by specifying a proper ID, or use the > ID to get new messages. The + ID would \
             just return an empty result set.";
        const NEW_WITHOUT_GROUP: &str =
            "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.";
        match (argument, self.group.is_some()) {
            (b"$", true) => Err(CommandError::Text(LAST_OF_GROUP)),
            (b"$", false) => Ok(ReadingFrom::After(stream.map_or(StreamId::MIN, |stream| stream.last_id))),
            (b"+", true) => Err(CommandError::Text(LAST_ENTRY_OF_GROUP)),
            (b"+", false) => Ok(ReadingFrom::After(stream.map_or(StreamId::MIN, before_last_entry))),
            (b">", true) => Ok(ReadingFrom::New),
            (b">", false) => Err(CommandError::Text(NEW_WITHOUT_GROUP)),
            // Redis treats the greatest ID like `>`.
            (_, is_group) => Ok(match id(argument)? {
                StreamId::MAX if is_group => ReadingFrom::New,
                id => ReadingFrom::After(id),
            }),
        }
    }
}

/// The ID after which the last entry of a stream is the first; for an empty stream, its last ID.
fn before_last_entry(stream: &Stream) -> StreamId {
    match stream.is_empty() {
        true => stream.last_id,
        false => stream.last_entry_id().previous().expect("no entry has the lowest ID"),
    }
}

fn refuse_unless(is_group: bool, option: &str) -> Outcome {
    if is_group {
        return Ok(());
    }
    Err(CommandError::Owned(format!(
        "ERR The {option} option is only supported by XREADGROUP. You called XREAD instead."
    )))
}

fn check_group(stream: Option<&Stream>, key: &[u8], group: &[u8]) -> Outcome {
    if stream.is_some_and(|stream| stream.groups.contains_key(group)) {
        return Ok(());
    }
    let (key, group) = (shown(key), shown(group));
    Err(CommandError::Owned(format!(
        "NOGROUP No such key '{key}' or consumer group '{group}' in XREADGROUP with GROUP option"
    )))
}

/// The first key that has something for this reading. As in Redis, which looks for each key again after it has read all
/// IDs, hits, misses and uses are counted a second time.
fn first_ready<S: Store>(keyspace: &mut Keyspace<S>, reading: &Reading) -> Result<Option<Box<[u8]>>, CommandError> {
    let mut ready = None;
    for (key, from) in &reading.streams {
        if is_ready(keyspace.read_collection(key)?, key, *from, reading)? {
            ready = ready.or(Some(key.clone()));
        }
    }
    Ok(ready)
}

/// Whether there is something for this reading at a key. What its other keys are does not matter: some may be of other
/// shards.
pub fn is_ready_at<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8], reading: &Reading) -> Result<bool, CommandError> {
    let mut is_any = false;
    for (_, from) in reading.streams.iter().filter(|(own, _)| **own == *key) {
        is_any |= is_ready(keyspace.peek(key).map(Node::collection).transpose()?, key, *from, reading)?;
    }
    Ok(is_any)
}

fn is_ready(stream: Option<&Stream>, key: &[u8], from: ReadingFrom, reading: &Reading) -> Result<bool, CommandError> {
    if let Some(group) = &reading.group {
        check_group(stream, key, &group.group)?;
    }
    let Some(stream) = stream else { return Ok(false) };
    let has_after = |id: StreamId| stream.last_entry_id() > id;
    Ok(match (from, &reading.group) {
        (ReadingFrom::After(id), None) => has_after(id),
        // Its pending entries, even if there are none.
        (ReadingFrom::After(_), Some(_)) => true,
        (ReadingFrom::New, group) => {
            let group = group.as_ref().and_then(|reader| stream.groups.get(&reader.group));
            group.is_some_and(|group| has_after(group.last_id))
        }
    })
}

/// Writes the entries to read, and records their deliveries.
pub fn write_reading<S: Store>(keyspace: &mut Keyspace<S>, reading: &Reading, reply: &mut Reply<'_>) {
    let start = reply.position();
    let mut streams = 0;
    note_seen(keyspace, reading);
    for (key, from) in &reading.streams {
        let node = if keyspace.store.covers(key) { keyspace.peek(key) } else { None };
        let stream = node.and_then(|node| node.collection().ok());
        if !matches!(is_ready(stream, key, *from, reading), Ok(true)) {
            continue;
        }
        streams += 1;
        if !reply.is_resp3() {
            reply.array(2);
        }
        reply.bulk(key);
        match (&reading.group, from) {
            (None, ReadingFrom::After(id)) => write_after(keyspace, key, *id, reading.most, reply),
            (Some(reader), ReadingFrom::After(id)) => {
                let owner = Owner { key, group: &reader.group, consumer: &reader.consumer };
                write_history(keyspace, owner, *id, reading.most, reply);
            }
            (Some(reader), ReadingFrom::New) => write_new(keyspace, key, reader, reading.most, reply),
            (None, ReadingFrom::New) => unreachable!("only a group has something new"),
        }
    }
    if reply.is_resp3() {
        reply.map_since(start, streams);
    } else {
        reply.array_since(start, streams);
    }
}

const READY: &str = "the caller has found something to read";

fn stream_of<'k, S: Store>(keyspace: &'k mut Keyspace<S>, key: &[u8]) -> &'k mut Stream {
    keyspace.collection_mut_uncounted(key).ok().flatten().expect(READY)
}

fn write_after<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8], id: StreamId, most: usize, reply: &mut Reply<'_>) {
    let stream = keyspace.peek(key).and_then(|node| node.collection::<Stream>().ok()).expect(READY);
    let start = id.next().expect("an entry follows it");
    super::write_entries(stream.range(start, StreamId::MAX).take(most), reply);
}

/// Delivers to a consumer the entries that its group was not given yet.
fn write_new<S: Store>(
    keyspace: &mut Keyspace<S>,
    key: &[u8],
    reader: &GroupReading,
    most: usize,
    reply: &mut Reply<'_>,
) {
    let now_ms = keyspace.turn.now_ms() as i64;
    let stream = stream_of(keyspace, key);
    let group = &stream.groups[&reader.group];
    let (mut last_id, mut entries_read) = (group.last_id, group.entries_read);
    let mut given = Vec::new();
    let start = reply.position();
    for entry in stream.range(last_id.next().expect(READY), StreamId::MAX).take(most) {
        entries_read = stream.entries_read_at(entry.id, entries_read);
        last_id = entry.id;
        write_entry(&entry, reply);
        given.push((entry.id, 1));
    }
    reply.array_since(start, given.len());

    let group = stream.groups.get_mut(&reader.group).expect(READY);
    (group.last_id, group.entries_read) = (last_id, entries_read);
    if reader.is_acknowledged {
        given.clear();
    } else {
        give(group, &reader.consumer, &given, now_ms);
        group.consumer_mut(&reader.consumer).expect("it was seen above").active_ms = Some(now_ms);
    }
    let owner = Owner { key, group: &reader.group, consumer: &reader.consumer };
    record_given(keyspace, owner, &given, now_ms);
    record_progress(keyspace, key, &reader.group, last_id, entries_read);
    keyspace.stats.note_unwatched_change(1);
}

/// Delivers to a consumer again its pending entries after an ID.
fn write_history<S: Store>(
    keyspace: &mut Keyspace<S>,
    owner: Owner<'_>,
    id: StreamId,
    most: usize,
    reply: &mut Reply<'_>,
) {
    let now_ms = keyspace.turn.now_ms() as i64;
    let stream = stream_of(keyspace, owner.key);
    let group = &stream.groups[owner.group];
    let start = id.next().expect("the greatest ID stands for what is new");
    let mut given = Vec::new();
    let reply_start = reply.position();
    let mut count = 0;
    for (id, pending) in group.pending_of(owner.consumer, start).take(most) {
        count += 1;
        if let Some(entry) = stream.get(id) {
            write_entry(&entry, reply);
            given.push((id, pending.deliveries.wrapping_add(1)));
        } else {
            reply.array(2);
            write_id(id, reply);
            reply.null_array();
        }
    }
    reply.array_since(reply_start, count);
    if given.is_empty() {
        // Redis counts the request as a change, though there is nothing to log.
        keyspace.effects.leave_out_own();
    } else {
        give(stream.groups.get_mut(owner.group).expect(READY), owner.consumer, &given, now_ms);
        record_given_again(keyspace, owner, &given, now_ms);
    }
    keyspace.stats.note_unwatched_change(1);
}

/// Records that a consumer has sent a request; it is created if it does not exist.
fn note_seen<S: Store>(keyspace: &mut Keyspace<S>, reading: &Reading) {
    let Some(reader) = &reading.group else { return };
    let now_ms = keyspace.turn.now_ms() as i64;
    for (key, _) in &reading.streams {
        if !keyspace.store.covers(key) {
            continue;
        }
        let stream = keyspace.collection_mut_uncounted::<Stream>(key).ok().flatten();
        let Some(group) = stream.and_then(|stream| stream.groups.get_mut(&reader.group)) else { continue };
        if group.add_consumer(&reader.consumer, now_ms) {
            let owner = Owner { key, group: &reader.group, consumer: &reader.consumer };
            record_given(keyspace, owner, &[], now_ms);
            keyspace.stats.note_unwatched_change(1);
            keyspace.notify(Class::STREAM, "xgroup-createconsumer", key);
        } else {
            group.consumer_mut(&reader.consumer).expect("it is not new").seen_ms = now_ms;
        }
    }
}
