//! Streams: entries in the order of their IDs, and groups of consumers that share them.
//!
//! Entries are stored in [`Block`]s, as Redis's are in the nodes of its radix tree: a block takes entries until it is
//! full, approximate trimming removes whole blocks, and so a trimmed stream has the same length here as there. The
//! blocks form a queue: entries are added at one end and trimmed at the other, and a binary search finds an ID.

mod block;
mod group;
mod id;
mod listpack_size;
mod read_request;
#[cfg(test)]
mod tests;

pub use block::{Block, BlockLimits, Entry};
pub use group::{Consumer, Group, Pending};
pub use id::{ChosenId, StreamId};
pub use read_request::{GroupReading, Reading, ReadingFrom};

use super::collection::{Bytes, Collection, Object};
use crate::keyspace::raw::packed_box::PackedBox;
use crate::keyspace::settings::Settings;
use std::collections::{BTreeMap, VecDeque};

/// Bytes of names and values of an entry at most; also of a block without a limit.
pub const ENTRY_BYTES_MAX: usize = 1 << 30;

/// A stream.
///
/// Invariants: the IDs of entries grow, and none is above `last_id`; `len` is the number of entries; `first_id` and
/// `last_entry` are the IDs of the first and the last of them, 0-0 if there is none.
#[derive(Debug, Clone, Default)]
pub struct Stream {
    blocks: VecDeque<Block>,
    len: usize,
    first_id: StreamId,
    last_entry: StreamId,
    /// The last ID that was given out: new ones are above it.
    pub last_id: StreamId,
    /// The greatest ID that was deleted by name.
    pub max_deleted_id: StreamId,
    /// How many entries there ever were.
    pub entries_added: u64,
    /// Its groups, by name.
    pub groups: BTreeMap<Bytes, Group>,
}

/// What trimming leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// At most this many entries.
    Len(usize),
    /// Entries from an ID on.
    From(StreamId),
}

/// How a stream is trimmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trim {
    /// What it leaves.
    pub rest: Rest,
    /// Whether only whole blocks are removed.
    pub is_approximate: bool,
    /// How many entries are removed at most; 0 for any number.
    pub limit: usize,
}

impl Stream {
    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none. The key stays.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many blocks there are.
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// The blocks in order.
    pub fn each_block(&self) -> impl ExactSizeIterator<Item = &Block> {
        self.blocks.iter()
    }

    /// Adds a block after the others, with IDs above theirs; a block with only deleted entries is dropped.
    pub fn push_block(&mut self, mut block: Block) {
        let last = self.blocks.back().map(Block::last);
        assert!(last.is_none_or(|last| last < block.first()), "the caller has compared the IDs");
        if block.live() == 0 {
            return;
        }
        block.close();
        self.len += block.live();
        self.last_id = self.last_id.max(block.last());
        let last = block.entries().last();
        self.last_entry = last.map_or(self.last_entry, |entry| entry.id);
        self.blocks.push_back(block);
        if self.first_id == StreamId::MIN {
            self.find_first();
        }
    }

    /// The ID of the first entry; 0-0 if there is none.
    pub fn first_id(&self) -> StreamId {
        self.first_id
    }

    /// The ID of the last entry; 0-0 if there is none.
    pub fn last_entry_id(&self) -> StreamId {
        self.last_entry
    }

    /// The ID of a new entry at a time; none if there are no more. If the clock went back, IDs continue.
    pub fn next_id(&self, now_ms: u64) -> Option<StreamId> {
        if now_ms > self.last_id.ms { Some(StreamId { ms: now_ms, seq: 0 }) } else { self.last_id.next() }
    }

    /// Adds an entry: alternating names and values. Its ID must be above `last_id`. O(1), amortised.
    pub fn push<'a>(&mut self, limits: BlockLimits, id: StreamId, fields: impl Iterator<Item = &'a [u8]> + Clone) {
        assert!(id > self.last_id, "the caller has compared the ID");
        let bytes = fields.clone().map(<[u8]>::len).sum();
        match self.blocks.back_mut() {
            Some(block) if !block.is_full_for(bytes, limits) => block.push(id, fields),
            last => {
                if let Some(block) = last {
                    block.close();
                }
                self.blocks.push_back(Block::new(id, fields));
            }
        }
        self.len += 1;
        self.entries_added = self.entries_added.saturating_add(1);
        self.last_id = id;
        self.last_entry = id;
        if self.len == 1 {
            self.first_id = id;
        }
    }

    /// The entries from `start` to `end`, both included. O(log N + M), N = blocks, M = entries of a block and those
    /// taken.
    pub fn range(&self, start: StreamId, end: StreamId) -> impl Iterator<Item = Entry<'_>> {
        let from = self.block_of(start).unwrap_or(0);
        let entries = self.blocks.range(from..).flat_map(Block::entries);
        entries.skip_while(move |entry| entry.id < start).take_while(move |entry| entry.id <= end)
    }

    /// The entries from `end` down to `start`, both included. O(log N + M), N = blocks, M = entries of a block and
    /// those taken.
    pub fn range_reversed(&self, start: StreamId, end: StreamId) -> impl Iterator<Item = Entry<'_>> {
        let blocks = self.block_of(end).map_or(0, |block| block + 1);
        let entries = self.blocks.range(..blocks).rev().flat_map(|block| {
            let entries: Vec<Entry<'_>> = block.entries().collect();
            entries.into_iter().rev()
        });
        entries.skip_while(move |entry| entry.id > end).take_while(move |entry| entry.id >= start)
    }

    /// An entry. O(log N + M), N = blocks, M = entries of a block.
    pub fn get(&self, id: StreamId) -> Option<Entry<'_>> {
        self.range(id, id).next()
    }

    /// The position of the block in which an ID would be; none if it is before all.
    fn block_of(&self, id: StreamId) -> Option<usize> {
        self.blocks.partition_point(|block| block.first() <= id).checked_sub(1)
    }

    /// Deletes an entry by name; false if there is none. O(log N + M), N = blocks, M = entries of a block; if it was
    /// the last of its block also the blocks up to the nearer end.
    pub fn delete(&mut self, id: StreamId) -> bool {
        let Some(at) = self.block_of(id) else { return false };
        let block = &mut self.blocks[at];
        if !block.delete(id) {
            return false;
        }
        if block.live() == 0 {
            self.blocks.remove(at);
        }
        self.len -= 1;
        self.max_deleted_id = self.max_deleted_id.max(id);
        if id == self.last_entry {
            let last = self.range_reversed(StreamId::MIN, StreamId::MAX).next();
            self.last_entry = last.map_or(StreamId::MIN, |entry| entry.id);
        }
        if id == self.first_id {
            self.find_first();
        }
        true
    }

    /// Trims the stream at its beginning, and returns how many entries were removed. O(N), N = removed blocks, and
    /// entries of one.
    pub fn trim(&mut self, trim: &Trim) -> usize {
        let mut gone = 0;
        while let Some(block) = self.blocks.front_mut() {
            let live = block.live();
            let goes_whole = match trim.rest {
                Rest::Len(most) if self.len <= most => break,
                Rest::Len(most) => self.len - live >= most,
                Rest::From(id) => block.last() < id,
            };
            if trim.limit > 0 && gone + live > trim.limit {
                break;
            }
            if goes_whole {
                self.blocks.pop_front();
                self.len -= live;
                gone += live;
                continue;
            }
            if !trim.is_approximate {
                let len = self.len;
                let here = block.delete_while(|id, before| match trim.rest {
                    Rest::Len(most) => len - before > most,
                    Rest::From(first) => id < first,
                });
                self.len -= here;
                gone += here;
            }
            break;
        }
        if gone > 0 {
            self.find_first();
        }
        if self.is_empty() {
            self.last_entry = StreamId::MIN;
        }
        gone
    }

    fn find_first(&mut self) {
        let first = self.blocks.iter().flat_map(Block::entries).next();
        self.first_id = first.map_or(StreamId::MIN, |entry| entry.id);
    }

    /// Whether an entry from `start` on was deleted by name.
    fn has_gaps_from(&self, start: StreamId) -> bool {
        !self.is_empty()
            && self.max_deleted_id != StreamId::MIN
            && self.first_id <= self.max_deleted_id
            && start <= self.max_deleted_id
    }

    /// How many entries there ever were up to and including an ID; `None` if that is unknown, or exceeds what a count
    /// of entries read can be. O(1)
    pub fn entries_up_to(&self, id: StreamId) -> Option<i64> {
        i64::try_from(self.counted_up_to(id)?).ok()
    }

    fn counted_up_to(&self, id: StreamId) -> Option<u64> {
        let added = self.entries_added;
        if added == 0 || id == self.last_id || (self.is_empty() && id < self.last_id) {
            return Some(added);
        }
        let is_whole = self.max_deleted_id == StreamId::MIN || self.max_deleted_id < self.first_id;
        if id > self.last_id || !is_whole {
            return None;
        }
        // A client may claim that fewer were added to a stream than it has.
        let before_first = added.checked_sub(self.len as u64)?;
        match id.cmp(&self.first_id) {
            std::cmp::Ordering::Less => Some(before_first),
            std::cmp::Ordering::Equal => before_first.checked_add(1),
            std::cmp::Ordering::Greater => None,
        }
    }

    /// A group's count of entries read after it is given the entry `id`, the next one. O(1)
    pub fn entries_read_at(&self, id: StreamId, before: Option<i64>) -> Option<i64> {
        match before {
            // Beyond the greatest count it is unknown: any number would be wrong, and a negative one is no count.
            Some(count) if !self.has_gaps_from(id) => count.checked_add(1),
            _ if self.entries_added > 0 => self.entries_up_to(id),
            _ => before,
        }
    }

    /// How many entries a group has still to read; `None` if that is unknown. O(1)
    pub fn lag(&self, group: &Group) -> Option<i64> {
        if self.entries_added == 0 {
            return Some(0);
        }
        let read = group.entries_read.filter(|_| !self.has_gaps_from(group.last_id));
        let read = read.or_else(|| self.entries_up_to(group.last_id))?;
        i64::try_from(i128::from(self.entries_added) - i128::from(read)).ok()
    }
}

impl Collection for Stream {
    type Limits = BlockLimits;

    fn limits(settings: &Settings) -> BlockLimits {
        settings.block_limits()
    }

    fn of(object: &Object) -> Option<&Self> {
        match object {
            Object::Stream(stream) => Some(stream),
            _ => None,
        }
    }

    fn of_mut(object: &mut Object) -> Option<&mut Self> {
        match object {
            Object::Stream(stream) => Some(stream),
            _ => None,
        }
    }

    fn into_object(self) -> Object {
        Object::Stream(PackedBox::new(self))
    }

    /// False: the key of an empty stream stays.
    fn shrink(&mut self, _limits: BlockLimits) -> bool {
        false
    }
}
