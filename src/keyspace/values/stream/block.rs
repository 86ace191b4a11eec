//! Blocks: neighbouring entries of a stream, packed into one piece of memory.
//!
//! ```text
//! block:  field names | entry | entry | …
//! names:  count | (length | bytes) for each
//! entry:  state u8 | milliseconds since the block's ID | number | fields
//!         number:  since that of the block's ID where the millisecond is the same
//!         fields:  count | (length | name | length | value) for each        HAS_NAMES
//!                  (length | value) for each of the block's names           otherwise
//! ```
//!
//! All numbers are LEB128. The names are those of the first entry: entries of a stream tend to have the same. A deleted
//! entry is marked, and its memory is freed with the block, as in Redis. Because Redis's approximate trimming counts
//! blocks, a block here is as full as Redis's would be: [`listpack_size`] computes how full that is.

use super::id::StreamId;
use super::{ENTRY_BYTES_MAX, listpack_size};
use crate::base::narrowing::{low_u8, size};

/// The entry is deleted.
const IS_DELETED: u8 = 1;
/// The entry does not have the names of the block.
const HAS_NAMES: u8 = 2;

/// How full a block may be.
#[derive(Debug, Clone, Copy)]
pub struct BlockLimits {
    /// Bytes, as Redis counts them.
    pub bytes: usize,
    /// Entries, including the deleted ones; 0 for any number.
    pub entries: usize,
}

impl BlockLimits {
    /// From the values of the directives: 0 for no limit.
    pub fn of(bytes: usize, entries: usize) -> Self {
        let bytes = if bytes == 0 { ENTRY_BYTES_MAX } else { bytes.min(ENTRY_BYTES_MAX) };
        Self { bytes, entries }
    }
}

/// Neighbouring entries.
///
/// Invariants: IDs grow; `live` and `deleted` count the entries by their states.
#[derive(Debug, Clone)]
pub struct Block {
    /// The ID of its first entry.
    first: StreamId,
    /// The ID of the last entry, deleted or not.
    last: StreamId,
    live: u32,
    deleted: u32,
    /// Bytes that Redis's encoding of the same takes, without the two counts.
    redis_bytes: usize,
    packed: Vec<u8>,
}

impl Block {
    /// A block with its first entry: alternating names and values.
    pub fn new<'a>(id: StreamId, fields: impl Iterator<Item = &'a [u8]> + Clone) -> Self {
        let mut block = Self::with_names(id, fields.clone().step_by(2));
        block.push(id, fields);
        block
    }

    /// A block without entries; most of its entries will have these names.
    pub fn with_names<'a>(first: StreamId, names: impl Iterator<Item = &'a [u8]> + Clone) -> Self {
        let count = names.clone().count();
        let mut packed = Vec::new();
        push_number(&mut packed, count as u64);
        names.clone().for_each(|name| push_bytes(&mut packed, name));
        let redis_bytes = listpack_size::FRAME + listpack_size::header(count, names);
        Self { first, last: first, live: 0, deleted: 0, redis_bytes, packed }
    }

    /// The ID of its first entry.
    pub fn first(&self) -> StreamId {
        self.first
    }

    /// The ID of the last entry, deleted or not.
    pub fn last(&self) -> StreamId {
        self.last
    }

    /// How many entries are not deleted.
    pub fn live(&self) -> usize {
        self.live as usize
    }

    /// How many entries are deleted.
    pub fn deleted(&self) -> usize {
        self.deleted as usize
    }

    /// Whether another entry with this many bytes of names and values must go to the next block.
    pub fn is_full_for(&self, bytes: usize, limits: BlockLimits) -> bool {
        let counts = listpack_size::integer(self.live.into()) + listpack_size::integer(self.deleted.into());
        self.redis_bytes + counts + bytes >= limits.bytes
            || (limits.entries > 0 && (self.live + self.deleted) as usize >= limits.entries)
    }

    /// Adds an entry after the others: alternating names and values.
    pub fn push<'a>(&mut self, id: StreamId, fields: impl Iterator<Item = &'a [u8]> + Clone) {
        let has_names = !fields.clone().step_by(2).eq(self.names());
        self.push_fields(id, fields, has_names);
    }

    /// Adds an entry with the block's names: as many values as there are names.
    pub fn push_values<'a>(&mut self, id: StreamId, values: impl Iterator<Item = &'a [u8]> + Clone) {
        // The names are not read.
        self.push_fields(id, values.flat_map(|value| [b"".as_slice(), value]), false);
    }

    fn push_fields<'a>(&mut self, id: StreamId, fields: impl Iterator<Item = &'a [u8]> + Clone, has_names: bool) {
        self.redis_bytes += listpack_size::entry(id, self.first, has_names, fields.clone());
        self.packed.push(if has_names { HAS_NAMES } else { 0 });
        push_number(&mut self.packed, id.ms - self.first.ms);
        push_number(&mut self.packed, id.seq - if id.ms == self.first.ms { self.first.seq } else { 0 });
        if has_names {
            push_number(&mut self.packed, (fields.clone().count() / 2) as u64);
            fields.for_each(|part| push_bytes(&mut self.packed, part));
        } else {
            fields.skip(1).step_by(2).for_each(|value| push_bytes(&mut self.packed, value));
        }
        self.last = id;
        self.live += 1;
    }

    /// Frees the memory that was kept for more entries: no more come.
    pub fn close(&mut self) {
        self.packed.shrink_to_fit();
    }

    /// The entries that are not deleted, in order. O(1) for each, including the deleted ones.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        self.with_states().filter(|(entry, _)| !entry.is_deleted).map(|(entry, _)| entry)
    }

    /// Marks an entry as deleted; false if there is none. O(N), N = entries of the block.
    pub fn delete(&mut self, id: StreamId) -> bool {
        let found = self.with_states().find(|(entry, _)| entry.id >= id);
        match found.filter(|(entry, _)| entry.id == id && !entry.is_deleted) {
            Some((_, state_at)) => {
                self.set_deleted(state_at);
                true
            }
            None => false,
        }
    }

    /// Marks entries from the first on as deleted while `goes` returns true for the ID and the number removed before;
    /// returns how many.
    pub fn delete_while(&mut self, mut goes: impl FnMut(StreamId, usize) -> bool) -> usize {
        let mut states = Vec::new();
        for (entry, state_at) in self.with_states() {
            if !goes(entry.id, states.len()) {
                break;
            }
            if !entry.is_deleted {
                states.push(state_at);
            }
        }
        states.iter().for_each(|&state_at| self.set_deleted(state_at));
        states.len()
    }

    /// Marks what `push` adds as deleted.
    pub fn push_deleted(&mut self, push: impl FnOnce(&mut Self)) {
        let state_at = self.packed.len();
        push(self);
        self.set_deleted(state_at);
    }

    fn set_deleted(&mut self, state_at: usize) {
        self.packed[state_at] |= IS_DELETED;
        self.live -= 1;
        self.deleted += 1;
    }

    /// All entries in order, including the deleted ones.
    pub fn all_entries(&self) -> impl Iterator<Item = Entry<'_>> {
        self.with_states().map(|(entry, _)| entry)
    }

    /// The names that most entries have.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        let mut reader = Reader { packed: &self.packed, at: 0 };
        let count = reader.number();
        (0..count).map(move |_| reader.bytes())
    }

    /// Every entry, and the position of its state.
    fn with_states(&self) -> impl Iterator<Item = (Entry<'_>, usize)> {
        let mut reader = Reader { packed: &self.packed, at: 0 };
        let names_count = reader.number();
        let names = Reader { ..reader };
        (0..names_count).for_each(|_| reader.pass_over());
        std::iter::from_fn(move || {
            let state_at = reader.at;
            let state = *self.packed.get(state_at)?;
            reader.at += 1;
            let ms = self.first.ms + reader.number();
            let seq = reader.number() + if ms == self.first.ms { self.first.seq } else { 0 };
            let names = if state & HAS_NAMES == 0 { Some(names) } else { None };
            let count = if names.is_some() { names_count } else { reader.number() };
            let fields = Fields { names, parts: reader, left: size(count) };
            (0..count * if names.is_some() { 1 } else { 2 }).for_each(|_| reader.pass_over());
            Some((Entry { id: StreamId { ms, seq }, is_deleted: state & IS_DELETED != 0, fields }, state_at))
        })
    }
}

/// One entry in its block.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// Its ID.
    pub id: StreamId,
    is_deleted: bool,
    fields: Fields<'a>,
}

impl<'a> Entry<'a> {
    /// Whether it was deleted: visible only through a block.
    pub fn is_deleted(&self) -> bool {
        self.is_deleted
    }

    /// Whether its names are those of its block.
    pub fn has_names_of_block(&self) -> bool {
        self.fields.names.is_some()
    }

    /// Its fields: names and values.
    pub fn fields(&self) -> Fields<'a> {
        self.fields
    }
}

/// The fields of an entry: names and values.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'a> {
    /// The position of the names, if they are those of the block.
    names: Option<Reader<'a>>,
    parts: Reader<'a>,
    left: usize,
}

impl<'a> Iterator for Fields<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let name = self.names.as_mut().unwrap_or(&mut self.parts).bytes();
        Some((name, self.parts.bytes()))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Fields<'_> {}

/// Reads the packed bytes of a block.
#[derive(Debug, Clone, Copy)]
struct Reader<'a> {
    packed: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn number(&mut self) -> u64 {
        let mut number = 0;
        for shift in (0..).step_by(7) {
            let byte = self.packed[self.at];
            self.at += 1;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        number
    }

    fn bytes(&mut self) -> &'a [u8] {
        let len = size(self.number());
        let bytes = &self.packed[self.at..][..len];
        self.at += len;
        bytes
    }

    fn pass_over(&mut self) {
        self.at += size(self.number());
    }
}

fn push_number(packed: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        packed.push(low_u8(number) | 0x80);
        number >>= 7;
    }
    packed.push(low_u8(number));
}

fn push_bytes(packed: &mut Vec<u8>, bytes: &[u8]) {
    push_number(packed, bytes.len() as u64);
    packed.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_LIMITS: BlockLimits = BlockLimits { bytes: usize::MAX, entries: 0 };

    fn id(ms: u64, seq: u64) -> StreamId {
        StreamId { ms, seq }
    }

    type Held<'a> = (StreamId, Vec<(&'a [u8], &'a [u8])>);

    fn held(block: &Block) -> Vec<Held<'_>> {
        block.entries().map(|entry| (entry.id, entry.fields().collect())).collect()
    }

    #[test]
    fn entries_come_out_as_they_went_in() {
        let long = vec![b'x'; 300];
        let entries: [(StreamId, Vec<&[u8]>); 5] = [
            (id(5, 7), vec![b"name", b"one", b"", b"1"]),
            (id(5, 9), vec![b"name", b"two", b"", b"2"]),
            (id(5, u64::MAX), vec![b"other", b"three"]),
            (id(6, 0), vec![b"name", &long, b"", b""]),
            (id(u64::MAX, u64::MAX), vec![b"name", b"\x80\xff", b"name", b"2"]),
        ];
        let mut block = Block::new(entries[0].0, entries[0].1.iter().copied());
        entries[1..].iter().for_each(|(id, fields)| block.push(*id, fields.iter().copied()));
        let wanted: Vec<_> = entries
            .iter()
            .map(|(id, fields)| (*id, fields.chunks(2).map(|pair| (pair[0], pair[1])).collect::<Vec<_>>()))
            .collect();
        assert_eq!(held(&block), wanted);
        assert_eq!((block.first(), block.last(), block.live()), (id(5, 7), StreamId::MAX, 5));
    }

    #[test]
    fn deleted_entries_are_passed_over_and_still_fill_the_block() {
        let fields = || [b"f".as_slice(), b"v"].into_iter();
        let mut block = Block::new(id(1, 0), fields());
        (2..=4).for_each(|ms| block.push(id(ms, 0), fields()));
        assert!(block.delete(id(3, 0)) && !block.delete(id(3, 0)) && !block.delete(id(3, 1)));
        assert_eq!(block.delete_while(|id, _| id.ms < 2), 1);
        assert_eq!(held(&block).iter().map(|(id, _)| id.ms).collect::<Vec<_>>(), [2, 4]);
        assert!(block.is_full_for(2, BlockLimits { entries: 4, ..NO_LIMITS }));
        assert!(!block.is_full_for(2, BlockLimits { entries: 5, ..NO_LIMITS }));
    }
}
