//! Consumer groups: how far a group has read, which entries its consumers were given, and which they have not
//! acknowledged.

use super::id::StreamId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The name of a consumer, shared by all of its pending entries.
pub type Name = Arc<[u8]>;

/// A consumer group.
///
/// Invariants: each pending entry is in the pending entries of its consumer, and of no other; `entries_read` is not
/// negative: XGROUP, which logs it, accepts no such count.
#[derive(Debug, Clone)]
pub struct Group {
    /// The last entry that was given to any consumer.
    pub last_id: StreamId,
    /// How many entries of the stream come up to `last_id`, including deleted ones; `None` if unknown.
    pub entries_read: Option<i64>,
    pending: BTreeMap<StreamId, Pending>,
    consumers: BTreeMap<Name, Consumer>,
}

/// An entry that a consumer was given and has not acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// Its consumer.
    pub consumer: Name,
    /// When it was last delivered: Unix time in milliseconds.
    pub delivered_ms: i64,
    /// How often it was delivered.
    pub deliveries: u64,
}

/// A consumer of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consumer {
    /// When it last sent a request: Unix time in milliseconds.
    pub seen_ms: i64,
    /// When it last received an entry, if ever.
    pub active_ms: Option<i64>,
    pending: BTreeSet<StreamId>,
}

impl Consumer {
    /// How many entries it has not acknowledged.
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }
}

impl Group {
    /// A group that has read up to `last_id`.
    pub fn new(last_id: StreamId, entries_read: Option<i64>) -> Self {
        Self { last_id, entries_read, pending: BTreeMap::new(), consumers: BTreeMap::new() }
    }

    /// Its consumers, by name.
    pub fn consumers(&self) -> impl ExactSizeIterator<Item = (&Name, &Consumer)> {
        self.consumers.iter()
    }

    /// A consumer. O(log N), N = consumers.
    pub fn consumer(&self, name: &[u8]) -> Option<&Consumer> {
        self.consumers.get(name)
    }

    /// A consumer, to change when it was seen. O(log N), N = consumers.
    pub fn consumer_mut(&mut self, name: &[u8]) -> Option<&mut Consumer> {
        self.consumers.get_mut(name)
    }

    /// Adds a consumer; false if it is there. O(log N), N = consumers.
    pub fn add_consumer(&mut self, name: &[u8], now_ms: i64) -> bool {
        let is_new = !self.consumers.contains_key(name);
        if is_new {
            let consumer = Consumer { seen_ms: now_ms, active_ms: None, pending: BTreeSet::new() };
            self.consumers.insert(name.into(), consumer);
        }
        is_new
    }

    /// Removes a consumer with its unacknowledged entries, and returns how many those were. O(M log N), M = these, N =
    /// pending entries.
    pub fn remove_consumer(&mut self, name: &[u8]) -> Option<usize> {
        let consumer = self.consumers.remove(name)?;
        consumer.pending.iter().for_each(|id| _ = self.pending.remove(id));
        Some(consumer.pending.len())
    }

    /// How many entries are pending.
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// The pending entries from `start` on, in order.
    pub fn pending_from(&self, start: StreamId) -> impl DoubleEndedIterator<Item = (StreamId, &Pending)> {
        self.pending.range(start..).map(|(id, pending)| (*id, pending))
    }

    /// The pending entries of a consumer from `start` on, in order.
    pub fn pending_of(&self, consumer: &[u8], start: StreamId) -> impl Iterator<Item = (StreamId, &Pending)> {
        let ids = self.consumers.get(consumer).into_iter().flat_map(move |consumer| consumer.pending.range(start..));
        ids.map(|id| (*id, &self.pending[id]))
    }

    /// A pending entry. O(log N), N = pending entries.
    pub fn pending(&self, id: StreamId) -> Option<&Pending> {
        self.pending.get(&id)
    }

    /// Assigns an entry to an existing consumer, whichever had it before. O(log N), N = pending entries.
    pub fn assign(&mut self, id: StreamId, consumer: &[u8], delivered_ms: i64, deliveries: u64) {
        if let Some(pending) = self.pending.get_mut(&id)
            && *pending.consumer == *consumer
        {
            (pending.delivered_ms, pending.deliveries) = (delivered_ms, deliveries);
            return;
        }
        self.acknowledge(id);
        let name = self.consumers.get_key_value(consumer).map(|(name, _)| Arc::clone(name));
        let name = name.expect("the caller has added the consumer");
        let consumer = self.consumers.get_mut(&name).expect("its name was just found");
        consumer.pending.insert(id);
        self.pending.insert(id, Pending { consumer: name, delivered_ms, deliveries });
    }

    /// Removes a pending entry; false if there is none. O(log N), N = pending entries.
    pub fn acknowledge(&mut self, id: StreamId) -> bool {
        let Some(pending) = self.pending.remove(&id) else { return false };
        let consumer = self.consumers.get_mut(&pending.consumer).expect("a pending entry has its consumer");
        consumer.pending.remove(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(ms: u64) -> StreamId {
        StreamId { ms, seq: 0 }
    }

    #[test]
    fn an_entry_is_pending_for_one_consumer() {
        let mut group = Group::new(StreamId::MIN, None);
        assert!(group.add_consumer(b"a", 1) && group.add_consumer(b"b", 1) && !group.add_consumer(b"a", 2));
        group.assign(id(1), b"a", 10, 1);
        group.assign(id(2), b"a", 10, 1);
        group.assign(id(1), b"b", 20, 2);
        let of = |group: &Group, name: &[u8]| group.pending_of(name, StreamId::MIN).map(|(id, _)| id.ms).collect();
        let of_a: Vec<u64> = of(&group, b"a");
        let of_b: Vec<u64> = of(&group, b"b");
        assert_eq!((of_a, of_b, group.pending_len()), (vec![2], vec![1], 2));
        assert_eq!(group.pending(id(1)).map(|pending| (pending.delivered_ms, pending.deliveries)), Some((20, 2)));
        assert_eq!((group.remove_consumer(b"b"), group.remove_consumer(b"b")), (Some(1), None));
        assert!(group.pending(id(1)).is_none() && group.acknowledge(id(2)) && !group.acknowledge(id(2)));
        assert_eq!((group.pending_len(), group.consumer(b"a").map(Consumer::pending_len)), (0, Some(0)));
    }
}
