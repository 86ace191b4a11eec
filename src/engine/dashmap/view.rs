//! The locked shards of a DashMap, as a store that commands run over.
//!
//! # Why unsafe
//! Finding keys, iterating and drawing at random go over the buckets of the map's raw tables, whose accessors are
//! unsafe because a table may change meanwhile. Here the shard's guard is held while a bucket is read, and a bucket
//! that is named by its number is checked to exist and to be full. The map's own iterators would take the locks one by
//! one, and a command over the whole keyspace would not be atomic.
#![allow(unsafe_code)]

use super::super::inline::wait_beside_scripts;
use super::super::prefetch::{Fetch, GROUP};
use super::super::shard_set::ShardSet;
use super::{Database, Side};
use crate::base::narrowing::size;
use crate::keyspace::{
    Deadlines, Evictable, Homes, Instance, KeyWaiters, Node, SNAPSHOT_STEP, SnapshotSink, Store, Table, draw_evictable,
    hash_of, walk,
};
use dashmap::{RwLock, RwLockReadGuard, RwLockWriteGuard, SharedValue};
use hashbrown_for_dashmap::raw::RawTable;
use parking_lot::Mutex;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

type RawNodes = RawTable<(Node, SharedValue<()>)>;

const PLACE_IS_CURRENT: &str = "a location is used before the table changes";

/// The lock of one of the map's shards, held.
enum Guard<'a> {
    Read(RwLockReadGuard<'a, RawNodes>),
    Write(RwLockWriteGuard<'a, RawNodes>),
}

impl Guard<'_> {
    fn table(&self) -> &RawNodes {
        match self {
            Self::Read(table) => table,
            Self::Write(table) => table,
        }
    }

    fn table_mut(&mut self) -> &mut RawNodes {
        match self {
            Self::Read(_) => panic!("a command without the write flag changes nothing"),
            Self::Write(table) => table,
        }
    }
}

/// Recovered nodes that are fetched together: about as many misses as a core keeps in flight.
const PREFETCH: usize = 16;

/// A shard of a database's map; they are locked in their order. One number, because they are compared for each key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct TableIndex(u64);

impl TableIndex {
    fn new(database: usize, index: usize) -> Self {
        Self((database as u64) << 32 | index as u64)
    }

    fn database(self) -> usize {
        size(self.0 >> 32)
    }

    fn index(self) -> usize {
        size(self.0 & u64::from(u32::MAX))
    }
}

/// Some shards of the maps, locked, with one database selected.
///
/// Invariants: `guards` are in the order of their shards, which is the order they were locked in; every key that the
/// command names is in one of them; it is a write lock if the command may change data.
pub struct View<'a> {
    databases: &'a [Database],
    selected: usize,
    guards: Guards<'a>,
    /// Whether the command that runs may change data.
    is_writable: bool,
    /// Where in `guards` the last key was found: the next lookup is nearly always for the same key.
    last: Cell<usize>,
}

/// One guard without an allocation, or several guards.
enum Guards<'a> {
    One(TableIndex, Guard<'a>),
    Several(Vec<(TableIndex, Guard<'a>)>),
}

impl<'a> View<'a> {
    /// The shard of one key.
    #[inline]
    pub fn one(databases: &'a [Database], selected: usize, hash: u64, is_writable: bool) -> Self {
        let table = TableIndex::new(selected, databases[selected].shard_of(hash));
        Self::new(databases, selected, Guards::One(table, lock(databases, table, is_writable)), is_writable)
    }

    #[inline]
    fn new(databases: &'a [Database], selected: usize, guards: Guards<'a>, is_writable: bool) -> Self {
        Self { databases, selected, guards, is_writable, last: Cell::new(0) }
    }

    /// One shard, locked for writing.
    pub fn shard(databases: &'a [Database], selected: usize, index: usize) -> Self {
        let table = TableIndex::new(selected, index);
        Self::new(databases, selected, Guards::One(table, lock(databases, table, true)), true)
    }

    /// The shards of several keys, given by their databases and hashes, in the order of locking.
    pub fn several(
        databases: &'a [Database],
        selected: usize,
        keys: impl Iterator<Item = (usize, u64)> + Clone,
        is_writable: bool,
    ) -> Self {
        let tables = keys.map(|(number, hash)| TableIndex::new(number, databases[number].shard_of(hash)));
        let mut others = tables.clone();
        // Often there is one key.
        if let Some(first) = others.next()
            && others.all(|table| table == first)
        {
            return Self::new(
                databases,
                selected,
                Guards::One(first, lock(databases, first, is_writable)),
                is_writable,
            );
        }
        let mut tables: Vec<TableIndex> = tables.collect();
        tables.sort_unstable();
        tables.dedup();
        Self::of_tables(databases, selected, tables.into_iter(), is_writable)
    }

    /// Every shard of a database.
    pub fn all(databases: &'a [Database], selected: usize, is_writable: bool) -> Self {
        let tables = (0..databases[selected].shards()).map(|index| TableIndex::new(selected, index));
        Self::of_tables(databases, selected, tables, is_writable)
    }

    /// Every shard of every database, locked for writing. There are many, and some scripts need them each time.
    pub fn everything(databases: &'a [Database]) -> Self {
        let mut guards = Vec::with_capacity(databases.iter().map(Database::shards).sum());
        for (number, database) in databases.iter().enumerate() {
            let shards = database.map.shards().iter().enumerate();
            guards.extend(shards.map(|(index, shard)| (TableIndex::new(number, index), database.lock_to_write(shard))));
        }
        Self::new(databases, 0, Guards::Several(guards), true)
    }

    /// The shards of the keys of several commands, each locked for writing if one of them writes there.
    pub fn of_shards(databases: &'a [Database], selected: usize, shards: &ShardSet) -> Self {
        let mut guards = Vec::with_capacity(shards.len());
        guards.extend(shards.iter().map(|(index, is_changed)| {
            let table = TableIndex::new(selected, index);
            (table, lock(databases, table, is_changed))
        }));
        Self::new(databases, selected, Guards::Several(guards), false)
    }

    /// Sets whether the command that runs next may change data; its keys must then be locked for writing.
    #[inline]
    pub fn set_writable(&mut self, is_writable: bool) {
        self.is_writable = is_writable;
    }

    fn of_tables(
        databases: &'a [Database],
        selected: usize,
        tables: impl Iterator<Item = TableIndex>,
        is_writable: bool,
    ) -> Self {
        let guards = tables.map(|table| (table, lock(databases, table, is_writable))).collect();
        Self::new(databases, selected, Guards::Several(guards), is_writable)
    }

    /// The view with another database selected.
    pub fn selecting(mut self, database: usize) -> Self {
        self.selected = database;
        self
    }

    /// Inserts nodes from the log, with their deadlines; consecutive nodes are nearly always of one shard.
    pub fn insert_recovered(databases: &'a [Database], database: usize, mut nodes: impl Iterator<Item = Node>) {
        let mut view: Option<Self> = None;
        let mut fetched = Vec::with_capacity(PREFETCH);
        loop {
            // Their misses overlap instead of adding up.
            fetched.extend(nodes.by_ref().take(PREFETCH).inspect(Node::prefetch));
            if fetched.is_empty() {
                break;
            }
            for node in fetched.drain(..) {
                let hash = hash_of(node.key());
                if let Some(locked) = view.take() {
                    view = Some(locked).filter(|locked| locked.only().0 == locked.table_of(hash));
                }
                let view = view.get_or_insert_with(|| Self::one(databases, database, hash, true));
                view.side_of(hash).lock().deadlines.change(hash, None, node.expire_at());
                view.insert(hash, node);
            }
        }
    }

    fn database(&self) -> &'a Database {
        &self.databases[self.selected]
    }

    fn table_of(&self, hash: u64) -> TableIndex {
        TableIndex::new(self.selected, self.database().shard_of(hash))
    }

    /// The position of the guard of a shard.
    #[inline]
    fn find(&self, table: TableIndex) -> Option<usize> {
        match &self.guards {
            Guards::One(locked, _) => (*locked == table).then_some(0),
            Guards::Several(guards) => position(guards, &self.last, table),
        }
    }

    #[inline]
    fn position_of(&self, table: TableIndex) -> usize {
        self.find(table).expect("a command touches only the keys that its row names")
    }

    #[inline]
    fn guard_at(&self, position: usize) -> &Guard<'a> {
        match &self.guards {
            Guards::One(_, guard) => guard,
            Guards::Several(guards) => &guards[position].1,
        }
    }

    #[inline]
    fn guard_at_mut(&mut self, position: usize) -> &mut Guard<'a> {
        match &mut self.guards {
            Guards::One(_, guard) => guard,
            Guards::Several(guards) => &mut guards[position].1,
        }
    }

    fn guard_mut(&mut self, hash: u64) -> &mut Guard<'a> {
        let table = self.table_of(hash);
        self.guard_of_mut(table)
    }

    fn guard_of_mut(&mut self, table: TableIndex) -> &mut Guard<'a> {
        self.guard_at_mut(self.position_of(table))
    }

    fn side_of(&self, hash: u64) -> &'a Mutex<Side> {
        let database = self.database();
        &database.sides.all[database.shard_of(hash)]
    }

    fn side_of_table(&self, table: TableIndex) -> &'a Mutex<Side> {
        &self.databases[table.database()].sides.all[table.index()]
    }

    fn take(&mut self, hash: u64, matches: impl Fn(&Node) -> bool) -> Option<Node> {
        let table = self.guard_mut(hash).table_mut();
        let (mut node, _) = table.remove_entry(hash, |(node, _)| matches(node))?;
        // A table that once held many keys should not keep its memory for ever: a random node is found by drawing
        // buckets until one is full.
        if table.capacity() > 64 && table.len() * 8 < table.capacity() {
            table.shrink_to(table.len() * 2, |(node, _)| hash_of(node.key()));
        }
        self.database().snapshotting.keep(self.selected, &mut node);
        Some(node)
    }

    /// How many nodes there are in the locked shards, of all databases.
    pub fn nodes(&self) -> usize {
        match &self.guards {
            Guards::One(_, guard) => guard.table().len(),
            Guards::Several(guards) => guards.iter().map(|(_, guard)| guard.table().len()).sum(),
        }
    }

    /// The one locked shard.
    fn only(&self) -> (TableIndex, &Guard<'a>) {
        let Guards::One(table, guard) = &self.guards else { panic!("keys are evicted from one shard") };
        (*table, guard)
    }

    /// Adds the nodes of the next buckets of the one locked shard to the snapshot, from `bucket` on, while there is
    /// room; returns the bucket after them, if there is one, and whether there still is room.
    pub fn keep_buckets(&mut self, bucket: usize) -> (Option<usize>, bool) {
        let Guards::One(table, guard) = &mut self.guards else { panic!("a walk locks one shard") };
        let number = table.database();
        let snapshotting = &self.databases[number].snapshotting;
        let table = guard.table_mut();
        let buckets = if table.is_empty() { 0 } else { table.buckets() };
        let end = buckets.min(bucket.saturating_add(SNAPSHOT_STEP));
        // Their misses overlap instead of adding up.
        (bucket..end).for_each(|bucket| node_in_mut(table, bucket).into_iter().for_each(|node| node.prefetch()));
        let is_last =
            |bucket: &usize| node_in_mut(table, *bucket).is_some_and(|node| !snapshotting.keep_in_turn(number, node));
        let last = (bucket..end).find(is_last);
        let next = last.map_or(end, |last| last + 1);
        ((next < buckets).then_some(next), last.is_none())
    }

    /// The locked tables of the selected database.
    fn tables(&self) -> impl Iterator<Item = &RawNodes> {
        let (one, several) = match &self.guards {
            Guards::One(table, guard) => (Some(guard).filter(|_| table.database() == self.selected), [].as_slice()),
            Guards::Several(guards) => {
                let start = guards.partition_point(|(table, _)| table.database() < self.selected);
                let end = guards.partition_point(|(table, _)| table.database() <= self.selected);
                (None, &guards[start..end])
            }
        };
        one.into_iter().chain(several.iter().map(|(_, guard)| guard)).map(Guard::table)
    }
}

#[inline]
fn position(guards: &[(TableIndex, Guard<'_>)], last: &Cell<usize>, table: TableIndex) -> Option<usize> {
    if guards.get(last.get()).is_some_and(|(locked, _)| *locked == table) {
        return Some(last.get());
    }
    let found = guards.binary_search_by_key(&table, |(table, _)| *table).ok()?;
    last.set(found);
    Some(found)
}

fn lock(databases: &[Database], table: TableIndex, is_writable: bool) -> Guard<'_> {
    let database = &databases[table.database()];
    let shard = &database.map.shards()[table.index()];
    if is_writable { database.lock_to_write(shard) } else { database.lock_to_read(shard) }
}

impl Database {
    #[inline]
    fn lock_to_write<'a>(&self, shard: &'a RwLock<RawNodes>) -> Guard<'a> {
        let guard = shard.try_write();
        Guard::Write(guard.unwrap_or_else(|| self.wait(|| shard.try_write(), || shard.write())))
    }

    #[inline]
    fn lock_to_read<'a>(&self, shard: &'a RwLock<RawNodes>) -> Guard<'a> {
        let guard = shard.try_read();
        Guard::Read(guard.unwrap_or_else(|| self.wait(|| shard.try_read(), || shard.read())))
    }

    /// Waits for a lock. These locks have no limit of time, so a thread that must look for busy scripts meanwhile tries
    /// again and again.
    #[cold]
    fn wait<G>(&self, try_lock: impl Fn() -> Option<G>, lock: impl FnOnce() -> G) -> G {
        if !self.is_pinned {
            return lock();
        }
        // They are held for some microseconds nearly always.
        const AWAKE: u32 = 100;
        const ASLEEP: Duration = Duration::from_micros(100);
        let mut tries = 0_u32;
        let try_for_a_moment = || {
            match tries < AWAKE {
                true => std::thread::yield_now(),
                false => std::thread::sleep(ASLEEP),
            }
            tries = tries.saturating_add(1);
            try_lock()
        };
        wait_beside_scripts(&self.instance, try_for_a_moment, lock)
    }
}

/// The node in a bucket, if there is such a bucket and it is full.
#[inline]
fn node_in(table: &RawNodes, bucket: usize) -> Option<&Node> {
    // SAFETY: the bucket is below the number of buckets; a full one holds an initialised entry; and the table is
    // borrowed for as long as the reference.
    unsafe { (bucket < table.buckets() && table.is_bucket_full(bucket)).then(|| &table.bucket(bucket).as_ref().0) }
}

/// The same, to be changed.
#[inline]
fn node_in_mut(table: &mut RawNodes, bucket: usize) -> Option<&mut Node> {
    // SAFETY: as above; the table is borrowed exclusively.
    unsafe { (bucket < table.buckets() && table.is_bucket_full(bucket)).then(|| &mut table.bucket(bucket).as_mut().0) }
}

impl View<'_> {
    /// Drops some of the key waiters that went away, where one shard is locked: see [`KeyWaiters::sweep`].
    pub fn sweep_key_waiters(&self) -> bool {
        let Guards::One(table, _) = &self.guards else { unreachable!("shards are swept one by one") };
        self.change_key_waiters(self.side_of_table(*table), KeyWaiters::sweep)
    }

    fn change_key_waiters<R>(&self, side: &Mutex<Side>, change: impl FnOnce(&mut KeyWaiters) -> R) -> R {
        let listening = &self.database().sides.listening;
        let mut side = side.lock();
        let was_empty = side.key_waiters.is_empty();
        let result = change(&mut side.key_waiters);
        // Under the shard's lock, under which key waiters are also checked when the key changes: none is overlooked.
        match (was_empty, side.key_waiters.is_empty()) {
            (true, false) => _ = listening.fetch_add(1, Ordering::Relaxed),
            (false, true) => _ = listening.fetch_sub(1, Ordering::Relaxed),
            _ => {}
        }
        result
    }
}

impl Store for View<'_> {
    #[inline]
    fn instance(&self) -> &Arc<Instance> {
        &self.databases[self.selected].instance
    }

    fn select(&mut self, database: usize) {
        self.selected = database;
    }

    fn selected(&self) -> usize {
        self.selected
    }

    fn databases(&self) -> usize {
        self.databases.len()
    }

    fn in_use(&self) -> usize {
        self.databases.len()
    }

    fn swap(&mut self, one: usize, other: usize) {
        for index in 0..self.database().shards() {
            let mut take =
                |number, nodes| std::mem::replace(self.guard_of_mut(TableIndex::new(number, index)).table_mut(), nodes);
            let nodes = take(one, RawNodes::new());
            let nodes = take(other, nodes);
            take(one, nodes);

            let side = |number: usize| self.databases[number].sides.all[index].lock();
            let deadlines = std::mem::take(&mut side(one).deadlines);
            let deadlines = std::mem::replace(&mut side(other).deadlines, deadlines);
            side(one).deadlines = deadlines;
        }
        self.database().snapshotting.swap(one, other);
    }

    fn announce(&self, sink: &dyn SnapshotSink) {
        if let Guards::Several(guards) = &self.guards {
            for (table, guard) in guards.iter().filter(|(_, guard)| !guard.table().is_empty()) {
                let deadlines = self.side_of_table(*table).lock().deadlines.len();
                sink.announce(table.database(), guard.table().len(), deadlines);
            }
        }
    }

    fn begin_snapshot(&mut self, sink: Arc<dyn SnapshotSink>) {
        self.announce(&*sink);
        self.databases[0].snapshotting.begin(sink, self.nodes(), self.databases.len());
    }
}

/// For a view of one shard.
impl Evictable for View<'_> {
    fn evictable(&self, database: usize, spares_lasting: bool) -> usize {
        let (table, guard) = self.only();
        match (table.database() == database, spares_lasting) {
            (false, _) => 0,
            (true, true) => self.side_of_table(table).lock().deadlines.len(),
            (true, false) => guard.table().len(),
        }
    }

    fn sample(&self, spares_lasting: bool, random: &mut fastrand::Rng) -> Option<&Node> {
        let (table, guard) = self.only();
        let side = self.side_of_table(table).lock();
        let table = guard.table();
        let of_deadline =
            |(at, hash): (u64, u64)| table.get(hash, |(node, _)| node.is_of_deadline((at, hash))).map(|(node, _)| node);
        let any = |random: &mut fastrand::Rng| self.random(&mut |below| random.usize(..below));
        draw_evictable((table.len(), &side.deadlines), spares_lasting, random, any, of_deadline)
    }

    fn first_deadline_here(&self) -> Option<(u64, u64)> {
        let (table, _) = self.only();
        self.side_of_table(table).lock().deadlines.first()
    }
}

impl Table for View<'_> {
    /// The position of the guard, and the bucket.
    type Location = (usize, usize);

    #[inline]
    fn locate(&self, hash: u64, key: &[u8]) -> Option<Self::Location> {
        let position = self.position_of(self.table_of(hash));
        let table = self.guard_at(position).table();
        let bucket = table.find(hash, |(node, _)| node.key() == key)?;
        // SAFETY: the bucket is one of this table, which is borrowed.
        Some((position, unsafe { table.bucket_index(&bucket) }))
    }

    #[inline]
    fn at(&self, (position, bucket): Self::Location, _hash: u64, key: &[u8]) -> &Node {
        let node = node_in(self.guard_at(position).table(), bucket).expect(PLACE_IS_CURRENT);
        debug_assert_eq!(node.key(), key, "{PLACE_IS_CURRENT}");
        node
    }

    #[inline]
    fn at_mut(&mut self, (position, bucket): Self::Location, _hash: u64, key: &[u8]) -> &mut Node {
        let (snapshotting, selected) = (&self.database().snapshotting, self.selected);
        let node = node_in_mut(self.guard_at_mut(position).table_mut(), bucket).expect(PLACE_IS_CURRENT);
        debug_assert_eq!(node.key(), key, "{PLACE_IS_CURRENT}");
        snapshotting.keep(selected, node);
        node
    }

    fn insert(&mut self, hash: u64, mut node: Node) -> &mut Node {
        node.set_parity(self.database().snapshotting.parity());
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

    fn with_key_waiters<R>(&mut self, hash: u64, _key: &[u8], change: impl FnOnce(&mut KeyWaiters) -> R) -> R {
        self.change_key_waiters(self.side_of(hash), change)
    }

    fn has_key_waiters(&self) -> bool {
        self.database().sides.listening.load(Ordering::Relaxed) > 0
    }

    fn for_each_listened(&self, visit: &mut dyn FnMut(&[u8])) {
        self.database().sides.all.iter().for_each(|side| side.lock().key_waiters.keys().for_each(&mut *visit));
    }

    fn shards(&self) -> usize {
        1
    }

    fn has_shard(&self, shard: usize) -> bool {
        shard == 0
    }

    fn covers(&self, key: &[u8]) -> bool {
        let Some(position) = self.find(self.table_of(hash_of(key))) else { return false };
        !self.is_writable || matches!(self.guard_at(position), Guard::Write(_))
    }

    fn is_writable(&self) -> bool {
        self.is_writable
    }

    fn len(&self) -> usize {
        self.tables().map(RawNodes::len).sum()
    }

    fn clear(&mut self, removed: &mut dyn FnMut(Box<dyn Send>)) {
        let (selected, Database { sides, snapshotting, .. }) = (self.selected, self.database());
        let mut clear = |(table, guard): (TableIndex, &mut Guard<'_>)| {
            if table.database() == selected {
                let nodes = std::mem::replace(guard.table_mut(), RawNodes::new());
                snapshotting.take_over(selected, nodes.into_iter().map(|(node, _)| node), removed);
                sides.all[table.index()].lock().deadlines.clear();
            }
        };
        match &mut self.guards {
            Guards::One(table, guard) => clear((*table, guard)),
            Guards::Several(guards) => guards.iter_mut().map(|(table, guard)| (*table, guard)).for_each(clear),
        }
    }

    fn for_each(&self, visit: &mut dyn FnMut(&Node)) {
        self.tables().for_each(|table| Homes::for_each(table, &mut *visit));
    }

    /// The map's shards are chosen by bits of the hash below the seven on top: a subtable each.
    fn walk(&self, _shard: usize, start: u64, count: usize, visit: &mut dyn FnMut(&Node)) -> Option<u64> {
        let shards = self.database().shards();
        assert_eq!(self.tables().count(), shards, "a walk is over all shards");
        walk(self.tables(), shards, start, count, visit)
    }

    fn random(&self, draw: &mut dyn FnMut(usize) -> usize) -> Option<&Node> {
        let mut rank = draw(self.len().max(1));
        let table = self.tables().find(|table| {
            let here = rank < table.len();
            rank = rank.saturating_sub(table.len());
            here
        })?;
        loop {
            if let Some(node) = node_in(table, draw(table.buckets())) {
                return Some(node);
            }
        }
    }
}

impl Fetch for View<'_> {
    /// Two steps, as for the tables of the other engines: the positions of the nodes, then their contents.
    fn fetch(&self, hashes: &[u64]) {
        let mut nodes: [Option<&Node>; GROUP] = [None; GROUP];
        for (node, &hash) in nodes.iter_mut().zip(hashes) {
            // An argument that is no key may belong to a shard that is not locked.
            let Some(position) = self.find(self.table_of(hash)) else { continue };
            let table = self.guard_at(position).table();
            // SAFETY: the shard's guard is held for as long as the reference is used.
            *node = unsafe { table.iter_hash(hash).next().map(|bucket| &bucket.as_ref().0) };
        }
        nodes.into_iter().flatten().for_each(Node::prefetch);
    }
}

impl Homes for RawNodes {
    type Item = Node;

    fn hash(&self, item: &Node) -> u64 {
        hash_of(item.key())
    }

    fn items(&self) -> usize {
        self.len()
    }

    fn homes(&self) -> usize {
        self.buckets()
    }

    fn room(&self) -> usize {
        self.capacity()
    }

    fn item_at(&self, bucket: usize) -> Option<&Node> {
        assert!(bucket < self.buckets(), "a walk stays within the table");
        // SAFETY: the bucket exists and is full, and the table is borrowed.
        unsafe { self.is_bucket_full(bucket).then(|| &self.bucket(bucket).as_ref().0) }
    }

    fn prefetch(node: &Node) {
        node.prefetch();
    }

    fn for_each<'a>(&'a self, mut visit: impl FnMut(&'a Node)) {
        // SAFETY: the table is borrowed, so it neither changes nor moves during the loop, nor while a node is read.
        unsafe { self.iter().for_each(|bucket| visit(&bucket.as_ref().0)) }
    }

    fn for_each_candidate<'a>(&'a self, hash: u64, mut visit: impl FnMut(&'a Node)) {
        // SAFETY: as above.
        unsafe { self.iter_hash(hash).for_each(|bucket| visit(&bucket.as_ref().0)) }
    }
}
