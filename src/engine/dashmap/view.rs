//! The locked parts of a DashMap, as a store that commands run over.
//!
//! # Why unsafe
//! Iterating and drawing at random go over the buckets of the map's raw tables, whose accessors are unsafe because a
//! table may change meanwhile. Here the shard's guard is held for as long as a bucket is looked at. The map's own
//! iterators would take the locks one by one, and a command over the whole keyspace would not be atomic.
#![allow(unsafe_code)]

use super::{Map, Side, Sides};
use crate::keyspace::{Deadlines, Homes, Listeners, Node, Store, hash_of, walk};
use dashmap::{RwLockReadGuard, RwLockWriteGuard, SharedValue};
use hashbrown_for_dashmap::raw::RawTable;
use parking_lot::Mutex;
use std::sync::atomic::Ordering;

type Table = RawTable<(Node, SharedValue<()>)>;

/// The lock of one of the map's shards, held.
enum Guard<'a> {
    Read(RwLockReadGuard<'a, Table>),
    Write(RwLockWriteGuard<'a, Table>),
}

impl Guard<'_> {
    fn table(&self) -> &Table {
        match self {
            Self::Read(table) => table,
            Self::Write(table) => table,
        }
    }

    fn table_mut(&mut self) -> &mut Table {
        match self {
            Self::Read(_) => panic!("a command without the write flag changes nothing"),
            Self::Write(table) => table,
        }
    }
}

/// Some shards of the map, locked.
///
/// Invariants: `guards` are in the order of their shards, which is the order they were locked in; every key that the
/// command names lives in one of them; all are write locks, or none.
pub struct View<'a> {
    map: &'a Map,
    sides: &'a Sides,
    guards: Guards<'a>,
    is_writable: bool,
}

/// One guard without an allocation, or several.
enum Guards<'a> {
    One(usize, Guard<'a>),
    Several(Vec<(usize, Guard<'a>)>),
}

impl<'a> View<'a> {
    /// The shard of one key.
    pub fn one(map: &'a Map, sides: &'a Sides, hash: u64, is_writable: bool) -> Self {
        let index = map.determine_shard(hash as usize);
        Self { map, sides, guards: Guards::One(index, lock(map, index, is_writable)), is_writable }
    }

    /// One shard, to change it.
    pub fn shard(map: &'a Map, sides: &'a Sides, index: usize) -> Self {
        Self { map, sides, guards: Guards::One(index, lock(map, index, true)), is_writable: true }
    }

    /// The shards of several keys, in index order.
    pub fn several(map: &'a Map, sides: &'a Sides, hashes: impl Iterator<Item = u64>, is_writable: bool) -> Self {
        let mut indexes: Vec<usize> = hashes.map(|hash| map.determine_shard(hash as usize)).collect();
        indexes.sort_unstable();
        indexes.dedup();
        let guards = indexes.into_iter().map(|index| (index, lock(map, index, is_writable))).collect();
        Self { map, sides, guards: Guards::Several(guards), is_writable }
    }

    /// Every shard.
    pub fn all(map: &'a Map, sides: &'a Sides, is_writable: bool) -> Self {
        let guards = (0..sides.parts.len()).map(|index| (index, lock(map, index, is_writable))).collect();
        Self { map, sides, guards: Guards::Several(guards), is_writable }
    }

    /// Takes in a node that the log held, with its deadline.
    pub fn insert_recovered(&mut self, node: Node) {
        let hash = hash_of(node.key());
        self.side_of(hash).lock().deadlines.change(hash, None, node.expire_at());
        self.insert(hash, node);
    }

    fn guard(&self, hash: u64) -> &Guard<'a> {
        let index = self.map.determine_shard(hash as usize);
        match &self.guards {
            Guards::One(locked, guard) => {
                assert_eq!(*locked, index, "a command touches only the keys that its row names");
                guard
            }
            Guards::Several(guards) => &guards[position(guards, index)].1,
        }
    }

    fn guard_mut(&mut self, hash: u64) -> &mut Guard<'a> {
        let index = self.map.determine_shard(hash as usize);
        match &mut self.guards {
            Guards::One(locked, guard) => {
                assert_eq!(*locked, index, "a command touches only the keys that its row names");
                guard
            }
            Guards::Several(guards) => {
                let position = position(guards, index);
                &mut guards[position].1
            }
        }
    }

    fn side_of(&self, hash: u64) -> &'a Mutex<Side> {
        &self.sides.parts[self.map.determine_shard(hash as usize)]
    }

    fn take(&mut self, hash: u64, matches: impl Fn(&Node) -> bool) -> Option<Node> {
        let table = self.guard_mut(hash).table_mut();
        table.remove_entry(hash, |(node, _)| matches(node)).map(|(node, _)| node)
    }

    fn tables(&self) -> impl Iterator<Item = &Table> {
        let (one, several) = match &self.guards {
            Guards::One(_, guard) => (Some(guard), [].as_slice()),
            Guards::Several(guards) => (None, guards.as_slice()),
        };
        one.into_iter().chain(several.iter().map(|(_, guard)| guard)).map(Guard::table)
    }
}

fn position(guards: &[(usize, Guard<'_>)], index: usize) -> usize {
    guards
        .binary_search_by_key(&index, |(index, _)| *index)
        .expect("a command touches only the keys that its row names")
}

fn lock(map: &Map, index: usize, is_writable: bool) -> Guard<'_> {
    let shard = &map.shards()[index];
    if is_writable { Guard::Write(shard.write()) } else { Guard::Read(shard.read()) }
}

impl Store for View<'_> {
    /// The map's tables have no safe way to name a bucket, so a place is only the knowledge that the key is there.
    type Place = ();

    fn locate(&self, hash: u64, key: &[u8]) -> Option<()> {
        self.guard(hash).table().get(hash, |(node, _)| node.key() == key).map(|_| ())
    }

    fn at(&self, (): (), hash: u64, key: &[u8]) -> &Node {
        let found = self.guard(hash).table().get(hash, |(node, _)| node.key() == key);
        &found.expect("a place is used before the table changes").0
    }

    fn at_mut(&mut self, (): (), hash: u64, key: &[u8]) -> &mut Node {
        let found = self.guard_mut(hash).table_mut().get_mut(hash, |(node, _)| node.key() == key);
        &mut found.expect("a place is used before the table changes").0
    }

    fn insert(&mut self, hash: u64, node: Node) -> &mut Node {
        let table = self.guard_mut(hash).table_mut();
        let entry = (node, SharedValue::new(()));
        &mut table.insert_entry(hash, entry, |(node, _)| hash_of(node.key())).0
    }

    fn remove(&mut self, hash: u64, key: &[u8]) -> Option<Node> {
        self.take(hash, |node| node.key() == key)
    }

    fn remove_due(&mut self, (at, hash): (u64, u64)) -> Option<Node> {
        self.side_of(hash).lock().deadlines.remove((at, hash));
        self.take(hash, |node| node.is_of_deadline((at, hash)))
    }

    fn with_deadlines<R>(&mut self, hash: u64, _key: &[u8], change: impl FnOnce(&mut Deadlines) -> R) -> R {
        change(&mut self.side_of(hash).lock().deadlines)
    }

    fn with_listeners<R>(&mut self, hash: u64, _key: &[u8], change: impl FnOnce(&mut Listeners) -> R) -> R {
        let mut side = self.side_of(hash).lock();
        let was_empty = side.listeners.is_empty();
        let result = change(&mut side.listeners);
        // Under the shard's lock, as whoever changes the key looks under it: nobody who listens is overlooked.
        match (was_empty, side.listeners.is_empty()) {
            (true, false) => _ = self.sides.listening.fetch_add(1, Ordering::Relaxed),
            (false, true) => _ = self.sides.listening.fetch_sub(1, Ordering::Relaxed),
            _ => {}
        }
        result
    }

    fn has_listeners(&self) -> bool {
        self.sides.listening.load(Ordering::Relaxed) > 0
    }

    fn for_each_watched(&self, visit: &mut dyn FnMut(&[u8])) {
        self.sides.parts.iter().for_each(|side| side.lock().listeners.watched_keys().for_each(&mut *visit));
    }

    fn shards(&self) -> usize {
        1
    }

    fn has_shard(&self, shard: usize) -> bool {
        shard == 0
    }

    fn covers(&self, key: &[u8]) -> bool {
        let index = self.map.determine_shard(hash_of(key) as usize);
        match &self.guards {
            Guards::One(locked, _) => *locked == index,
            Guards::Several(guards) => guards.binary_search_by_key(&index, |(index, _)| *index).is_ok(),
        }
    }

    fn is_writable(&self) -> bool {
        self.is_writable
    }

    fn len(&self) -> usize {
        self.tables().map(RawTable::len).sum()
    }

    fn clear(&mut self) {
        let clear = |index: usize, guard: &mut Guard<'_>| {
            *guard.table_mut() = RawTable::new();
            self.sides.parts[index].lock().deadlines.clear();
        };
        match &mut self.guards {
            Guards::One(index, guard) => clear(*index, guard),
            Guards::Several(guards) => guards.iter_mut().for_each(|(index, guard)| clear(*index, guard)),
        }
    }

    fn for_each(&self, visit: &mut dyn FnMut(&Node)) {
        self.tables().for_each(|table| Homes::for_each(table, &mut *visit));
    }

    /// The map's shards are chosen by bits of the hash below the seven on top: a segment each.
    fn walk(&self, _shard: usize, start: u64, count: usize, visit: &mut dyn FnMut(&Node)) -> Option<u64> {
        assert_eq!(self.tables().count(), self.sides.parts.len(), "a walk is over all shards");
        walk(self.tables(), self.sides.parts.len(), start, count, visit)
    }

    fn random(&self, draw: &mut dyn FnMut(usize) -> usize) -> Option<&Node> {
        let mut rank = draw(self.len().max(1));
        let table = self.tables().find(|table| {
            let here = rank < table.len();
            rank = rank.saturating_sub(table.len());
            here
        })?;
        loop {
            let bucket = draw(table.buckets());
            // SAFETY: `bucket` is below the number of buckets, a full bucket holds an initialised entry, and the guard
            // is held for as long as the reference that is returned borrows `self`.
            unsafe {
                if table.is_bucket_full(bucket) {
                    return Some(&table.bucket(bucket).as_ref().0);
                }
            }
        }
    }
}

impl Homes for Table {
    type Item = Node;

    fn hash(item: &Node) -> u64 {
        hash_of(item.key())
    }

    fn items(&self) -> usize {
        self.len()
    }

    fn homes(&self) -> usize {
        self.buckets()
    }

    fn for_each<'a>(&'a self, mut visit: impl FnMut(&'a Node)) {
        // SAFETY: the table is borrowed, so it neither changes nor moves during the loop, nor while a node is looked at.
        unsafe { self.iter().for_each(|bucket| visit(&bucket.as_ref().0)) }
    }

    fn for_each_candidate(&self, hash: u64, mut visit: impl FnMut(&Node)) {
        // SAFETY: as above.
        unsafe { self.iter_hash(hash).for_each(|bucket| visit(&bucket.as_ref().0)) }
    }
}
