//! Streams: blocks of entries as listpacks, and groups and consumers.
//!
//! ```text
//! stream:   blocks | (ID of the block, 16 bytes | listpack) … | entries | last ID
//!           | first ID | greatest deleted ID | entries ever          from version 2 on
//!           | groups | group …
//! group:    name | last ID | entries read (version 2)
//!           | pending | (ID, 16 bytes | given, i64 | how often) … | consumers | consumer …
//! consumer: name | seen, i64 | active, i64 (version 3) | pending | (ID, 16 bytes) …
//!
//! block:    live | deleted | names | name … | 0 | entry …
//! entry:    flags | milliseconds | number, both since the block's ID | names | (name, value) … | elements before
//!           flags | milliseconds | number | value … | elements before       where the names are the block's
//! ```
//!
//! IDs of 16 bytes are big endian; others are two lengths.

use super::encode::{write_length, write_raw};
use super::reader::Reader;
use super::{Malformed, decode, kind};
use crate::base::narrowing::low_u64;
use crate::keyspace::values::stream::{Block, Entry, Group, StreamId};
use crate::keyspace::{Element, Listpack, Stream};
use std::collections::BTreeMap;

/// The entry is deleted.
const IS_DELETED: i64 = 1;
/// The entry has the names of its block.
const HAS_NAMES_OF_BLOCK: i64 = 2;
const BAD_BLOCK: Malformed = Malformed::Because("Stream listpack integrity check failed.");
/// The count of entries read by a group, if unknown.
const UNKNOWN: u64 = u64::MAX;

/// Writes a stream, in version 2. O(N)
pub fn write(out: &mut Vec<u8>, stream: &Stream) {
    write_of(out, stream, kind::STREAM_2);
}

/// Writes a stream, in version 2 or 3. O(N)
pub fn write_of(out: &mut Vec<u8>, stream: &Stream, kind: u8) {
    write_length(out, stream.blocks() as u64);
    for block in stream.each_block() {
        write_raw(out, &id_bytes(block.first()));
        write_raw(out, packed(block).as_bytes());
    }
    write_length(out, stream.len() as u64);
    for id in [stream.last_id, stream.first_id(), stream.max_deleted_id] {
        write_id(out, id);
    }
    write_length(out, stream.entries_added);
    write_length(out, stream.groups.len() as u64);
    for (name, group) in &stream.groups {
        write_raw(out, name);
        write_group(out, group, kind);
    }
}

fn write_group(out: &mut Vec<u8>, group: &Group, kind: u8) {
    write_id(out, group.last_id);
    write_length(out, group.entries_read.map_or(UNKNOWN, |read| read as u64));
    write_length(out, group.pending_len() as u64);
    for (id, pending) in group.pending_from(StreamId::MIN) {
        out.extend_from_slice(&id_bytes(id));
        out.extend_from_slice(&pending.delivered_ms.to_le_bytes());
        write_length(out, pending.deliveries);
    }
    write_length(out, group.consumers().len() as u64);
    for (name, consumer) in group.consumers() {
        write_raw(out, name);
        out.extend_from_slice(&consumer.seen_ms.to_le_bytes());
        if kind == kind::STREAM_3 {
            out.extend_from_slice(&consumer.active_ms.unwrap_or(-1).to_le_bytes());
        }
        write_length(out, consumer.pending_len() as u64);
        group.pending_of(name, StreamId::MIN).for_each(|(id, _)| out.extend_from_slice(&id_bytes(id)));
    }
}

fn write_id(out: &mut Vec<u8>, id: StreamId) {
    write_length(out, id.ms);
    write_length(out, id.seq);
}

fn id_bytes(id: StreamId) -> [u8; 16] {
    (u128::from(id.ms) << 64 | u128::from(id.seq)).to_be_bytes()
}

fn packed(block: &Block) -> Listpack {
    let mut listpack = Listpack::new();
    let mut push = |element: Element<'_>| listpack.push_back(element);
    push(Element::Integer(block.live() as i64));
    push(Element::Integer(block.deleted() as i64));
    push(Element::Integer(block.names().count() as i64));
    block.names().for_each(|name| push(Element::of(name)));
    push(Element::Integer(0));
    block.all_entries().for_each(|entry| pack_entry(&mut push, block.first(), &entry));
    listpack
}

fn pack_entry(push: &mut impl FnMut(Element<'_>), first: StreamId, entry: &Entry<'_>) {
    let has_names_of_block = entry.has_names_of_block();
    let deleted = if entry.is_deleted() { IS_DELETED } else { 0 };
    push(Element::Integer(deleted | if has_names_of_block { HAS_NAMES_OF_BLOCK } else { 0 }));
    push(Element::Integer(entry.id.ms.wrapping_sub(first.ms) as i64));
    push(Element::Integer(entry.id.seq.wrapping_sub(first.seq) as i64));
    let count = entry.fields().len() as i64;
    if !has_names_of_block {
        push(Element::Integer(count));
    }
    for (name, value) in entry.fields() {
        if !has_names_of_block {
            push(Element::of(name));
        }
        push(Element::of(value));
    }
    push(Element::Integer(if has_names_of_block { count + 3 } else { 2 * count + 4 }));
}

/// Reads a stream of a version.
pub fn read(kind: u8, reader: &mut Reader<'_>) -> Result<Stream, Malformed> {
    let mut stream = Stream::default();
    let mut last = None;
    for _ in 0..reader.length()? {
        let first = id_of(&reader.string()?)?;
        if last.is_some_and(|last| last >= first) {
            return Err(Malformed::Bad);
        }
        let listpack = decode::listpack(&reader.string()?);
        let block = listpack.and_then(|listpack| unpacked(first, &listpack)).map_err(|_| BAD_BLOCK)?;
        last = Some(block.last());
        stream.push_block(block);
    }
    if reader.length()? > 0 && last.is_none() {
        return Err(Malformed::Because("Stream length inconsistent with rax entries"));
    }
    stream.last_id = stream.last_id.max(read_id(reader)?);
    stream.entries_added = stream.len() as u64;
    if kind != kind::STREAM {
        let _first_id = read_id(reader)?;
        stream.max_deleted_id = read_id(reader)?;
        stream.entries_added = reader.length()?;
    }
    for _ in 0..reader.length()? {
        let name = reader.string()?;
        let group = read_group(kind, reader, &stream)?;
        if stream.groups.insert(name.as_ref().into(), group).is_some() {
            return Err(Malformed::Bad);
        }
    }
    Ok(stream)
}

fn read_id(reader: &mut Reader<'_>) -> Result<StreamId, Malformed> {
    Ok(StreamId { ms: reader.length()?, seq: reader.length()? })
}

fn id_of(bytes: &[u8]) -> Result<StreamId, Malformed> {
    let number = u128::from_be_bytes(bytes.try_into().map_err(|_| Malformed::Bad)?);
    Ok(StreamId { ms: low_u64(number >> 64), seq: low_u64(number) })
}

fn unpacked(first: StreamId, listpack: &Listpack) -> Result<Block, Malformed> {
    let mut elements = listpack.iter();
    let counts_said = (integer(&mut elements)?, integer(&mut elements)?);
    let names = texts(&mut elements, 1)?;
    if integer(&mut elements)? != 0 {
        return Err(Malformed::Bad);
    }
    let mut block = Block::with_names(first, names.iter().map(Vec::as_slice));
    let mut last = None;
    while let Some(flags) = elements.next() {
        let flags = flags.integer().ok_or(Malformed::Bad)?;
        let ms = first.ms.wrapping_add(integer(&mut elements)? as u64);
        let id = StreamId { ms, seq: first.seq.wrapping_add(integer(&mut elements)? as u64) };
        if id < first || last.is_some_and(|last| id <= last) {
            return Err(Malformed::Bad);
        }
        last = Some(id);
        let has_names_of_block = flags & HAS_NAMES_OF_BLOCK != 0;
        let parts = match has_names_of_block {
            true => take_texts(&mut elements, names.len() as u64)?,
            false => texts(&mut elements, 2)?,
        };
        let count = parts.len() as i64 + if has_names_of_block { 3 } else { 4 };
        if integer(&mut elements)? != count {
            return Err(Malformed::Bad);
        }
        let parts = parts.iter().map(Vec::as_slice);
        let push = |block: &mut Block| match has_names_of_block {
            true => block.push_values(id, parts),
            false => block.push(id, parts),
        };
        if flags & IS_DELETED == 0 { push(&mut block) } else { block.push_deleted(push) }
    }
    if counts_said == (block.live() as i64, block.deleted() as i64) { Ok(block) } else { Err(Malformed::Bad) }
}

fn integer<'a>(elements: &mut impl Iterator<Item = Element<'a>>) -> Result<i64, Malformed> {
    elements.next().and_then(Element::integer).ok_or(Malformed::Bad)
}

/// As many texts as the integer before them says, times `each`.
fn texts<'a>(elements: &mut impl Iterator<Item = Element<'a>>, each: u64) -> Result<Vec<Vec<u8>>, Malformed> {
    let count = u64::try_from(integer(elements)?).map_err(|_| Malformed::Bad)?;
    take_texts(elements, count.checked_mul(each).ok_or(Malformed::Bad)?)
}

fn take_texts<'a>(elements: &mut impl Iterator<Item = Element<'a>>, count: u64) -> Result<Vec<Vec<u8>>, Malformed> {
    (0..count).map(|_| elements.next().map(Element::to_vec).ok_or(Malformed::Bad)).collect()
}

fn read_group(kind: u8, reader: &mut Reader<'_>, stream: &Stream) -> Result<Group, Malformed> {
    let last_id = read_id(reader)?;
    let entries_read = match kind {
        kind::STREAM => stream.entries_up_to(last_id),
        // An invalid count is as unknown as the special number.
        _ => i64::try_from(reader.length()?).ok(),
    };
    let mut group = Group::new(last_id, entries_read);
    let mut pending = BTreeMap::new();
    for _ in 0..reader.length()? {
        let id = id_of(reader.take(16)?)?;
        let delivery = (i64::from_le_bytes(reader.array()?), reader.length()?);
        if pending.insert(id, delivery).is_some() {
            return Err(Malformed::Bad);
        }
    }
    for _ in 0..reader.length()? {
        read_consumer(kind, reader, &mut group, &mut pending)?;
    }
    // A pending entry has a consumer.
    if pending.is_empty() { Ok(group) } else { Err(Malformed::Bad) }
}

fn read_consumer(
    kind: u8,
    reader: &mut Reader<'_>,
    group: &mut Group,
    pending: &mut BTreeMap<StreamId, (i64, u64)>,
) -> Result<(), Malformed> {
    let name = reader.string()?;
    let seen_ms = i64::from_le_bytes(reader.array()?);
    let active_ms = if kind == kind::STREAM_3 { i64::from_le_bytes(reader.array()?) } else { seen_ms };
    if !group.add_consumer(&name, seen_ms) {
        return Err(Malformed::Because("Duplicate stream consumer detected"));
    }
    let consumer = group.consumer_mut(&name).expect("it was just added");
    consumer.active_ms = Some(active_ms).filter(|&active_ms| active_ms != -1);
    for _ in 0..reader.length()? {
        let id = id_of(reader.take(16)?)?;
        let (delivered_ms, deliveries) = pending.remove(&id).ok_or(Malformed::Bad)?;
        group.assign(id, &name, delivered_ms, deliveries);
    }
    Ok(())
}
