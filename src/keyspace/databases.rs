//! The databases of an exclusive owner: one table each, of which one is selected.

use super::deadlines::Deadlines;
use super::eviction::Evictable;
use super::instance::Instance;
use super::key_waiters::KeyWaiters;
use super::node_table::NodeTable;
use super::snapshotting::{STEP, SnapshotSink, Snapshotting, Spot};
use super::store::{Store, Table};
use crate::keyspace::raw::node::Node;
use std::sync::Arc;

/// One owner's share of each database. All table methods concern the selected database.
///
/// Invariants: there is a table for every database up to the highest that was ever selected, and for number 0; nearly
/// always that is the only one.
#[derive(Debug)]
pub struct Databases {
    tables: Vec<NodeTable>,
    selected: usize,
    /// How many databases there are.
    count: usize,
    /// Which shard of the keyspace this is, and of how many.
    shard: (usize, usize),
    snapshotting: Snapshotting,
    instance: Arc<Instance>,
}

impl Databases {
    /// `count` empty databases of a server, for shard `index` of `shards`.
    pub fn of_shard(instance: &Arc<Instance>, count: usize, index: usize, shards: usize) -> Self {
        let tables = vec![NodeTable::of_shard(index, shards)];
        Self {
            tables,
            selected: 0,
            count,
            shard: (index, shards),
            snapshotting: Snapshotting::default(),
            instance: Arc::clone(instance),
        }
    }

    /// The selected table.
    #[inline]
    pub fn table(&self) -> &NodeTable {
        &self.tables[self.selected]
    }

    #[inline]
    fn table_mut(&mut self) -> &mut NodeTable {
        &mut self.tables[self.selected]
    }

    /// The existing tables, from database 0 on.
    pub fn tables(&self) -> &[NodeTable] {
        &self.tables
    }

    /// How many keys there are in all databases.
    pub fn keys(&self) -> usize {
        self.tables.iter().map(Table::len).sum()
    }

    /// The database with the earliest deadline, and that deadline with the hash of its key.
    pub fn first_deadline(&self) -> Option<(usize, (u64, u64))> {
        let firsts = self.tables.iter().enumerate();
        firsts.filter_map(|(number, table)| Some((number, table.deadlines().first()?))).min_by_key(|(_, first)| *first)
    }

    /// Drops some of the key waiters that went away, in each database: see
    /// [`KeyWaiters::sweep`](super::KeyWaiters::sweep). O(databases)
    pub fn sweep_key_waiters(&mut self) -> bool {
        let mut more = false;
        for table in &mut self.tables {
            more |= table.sweep_key_waiters();
        }
        more
    }

    /// All nodes with their databases, for another owner.
    pub fn into_nodes(self) -> impl Iterator<Item = (usize, Node)> {
        let tables = self.tables.into_iter().enumerate();
        tables.flat_map(|(number, table)| table.into_nodes().map(move |node| (number, node)))
    }

    /// All nodes, in partitions of one database each that other owners can insert side by side: see
    /// [`NodeTable::into_partitions`].
    pub fn into_partitions(self, count: usize) -> Vec<(usize, impl Iterator<Item = Node> + Send)> {
        let tables = self.tables.into_iter().enumerate();
        tables.flat_map(|(number, table)| table.into_partitions(count).map(move |nodes| (number, nodes))).collect()
    }

    /// Divides the nodes among owners by their hashes: see [`NodeTable::owner_of`]. O(owners * databases + D log D), D
    /// = deadlines
    pub fn split(self, owners: usize) -> Vec<Self> {
        if owners == 1 {
            return vec![self];
        }
        let (index, shards) = self.shard;
        let mut divided: Vec<Self> =
            (0..owners).map(|_| Self::of_shard(&self.instance, self.count, index, shards)).collect();
        divided.iter_mut().for_each(|owner| owner.tables.clear());
        for table in self.tables {
            divided.iter_mut().zip(table.split(owners)).for_each(|(owner, table)| owner.tables.push(table));
        }
        divided
    }

    /// Takes over the tables of another owner of the same division. O(databases + D log D), D = its deadlines
    pub fn unite(&mut self, other: Self) {
        for (number, table) in other.tables.into_iter().enumerate() {
            self.select(number);
            self.table_mut().unite(table);
        }
    }

    /// Inserts a node whose key is not there, with its deadline.
    pub fn insert_node(&mut self, database: usize, mut node: Node) {
        self.select(database);
        node.set_parity(self.snapshotting.parity());
        self.table_mut().insert_node(node);
    }

    /// Continues the snapshot while `may_go_on` returns true, and returns whether it is complete. O(N), N = calls of
    /// `may_go_on`
    pub fn walk_snapshot(&mut self, mut may_go_on: impl FnMut() -> bool) -> bool {
        while !self.snapshotting.is_complete() && self.snapshotting.has_room() && may_go_on() {
            if !self.snapshotting.keep_removed() {
                self.keep_some();
            }
        }
        self.snapshotting.is_complete()
    }

    /// Adds the nodes of a few buckets to the snapshot.
    fn keep_some(&mut self) {
        let Self { tables, snapshotting, .. } = self;
        let Spot { table, subtable, bucket } = snapshotting.spot();
        let next = match tables.get_mut(table) {
            None => Spot::default(),
            Some(nodes) => {
                let mut keep = |node: &mut Node| snapshotting.keep_in_turn(table, node);
                match nodes.visit_buckets(subtable, bucket, STEP, &mut keep) {
                    Some((subtable, bucket)) => Spot { table, subtable, bucket },
                    None => Spot { table: table + 1, ..Spot::default() },
                }
            }
        };
        snapshotting.go_on_at(next);
    }
}

impl Store for Databases {
    #[inline]
    fn instance(&self) -> &Arc<Instance> {
        &self.instance
    }

    #[inline]
    fn select(&mut self, database: usize) {
        self.selected = database;
        if database >= self.tables.len() {
            let (index, shards) = self.shard;
            self.tables.resize_with(database + 1, || NodeTable::of_shard(index, shards));
        }
    }

    fn selected(&self) -> usize {
        self.selected
    }

    fn databases(&self) -> usize {
        self.count
    }

    fn in_use(&self) -> usize {
        self.tables.len()
    }

    fn swap(&mut self, one: usize, other: usize) {
        let (low, high) = (one.min(other), one.max(other));
        let selected = self.selected;
        self.select(high);
        self.selected = selected;
        if low != high {
            let (lows, highs) = self.tables.split_at_mut(high);
            lows[low].swap_nodes(&mut highs[0]);
            self.snapshotting.swap(low, high);
        }
    }

    /// O(databases)
    fn announce(&self, sink: &dyn SnapshotSink) {
        for (number, table) in self.tables.iter().enumerate().filter(|(_, table)| !table.is_empty()) {
            sink.announce(number, table.len(), table.deadlines().len());
        }
    }

    /// O(databases)
    fn begin_snapshot(&mut self, sink: Arc<dyn SnapshotSink>) {
        self.announce(&*sink);
        self.snapshotting.begin(sink, self.keys(), self.count);
    }
}

impl Table for Databases {
    type Location = <NodeTable as Table>::Location;

    #[inline]
    fn locate(&self, hash: u64, key: &[u8]) -> Option<Self::Location> {
        self.table().locate(hash, key)
    }

    #[inline]
    fn at(&self, location: Self::Location, hash: u64, key: &[u8]) -> &Node {
        self.table().at(location, hash, key)
    }

    #[inline]
    fn at_mut(&mut self, location: Self::Location, hash: u64, key: &[u8]) -> &mut Node {
        let Self { tables, snapshotting, selected, .. } = self;
        let node = tables[*selected].at_mut(location, hash, key);
        snapshotting.keep(*selected, node);
        node
    }

    fn insert(&mut self, hash: u64, mut node: Node) -> &mut Node {
        node.set_parity(self.snapshotting.parity());
        self.table_mut().insert(hash, node)
    }

    fn remove(&mut self, hash: u64, key: &[u8]) -> Option<Node> {
        let mut node = self.table_mut().remove(hash, key)?;
        self.snapshotting.keep(self.selected, &mut node);
        Some(node)
    }

    fn remove_due(&mut self, deadline: (u64, u64)) -> Option<Node> {
        let mut node = self.table_mut().remove_due(deadline)?;
        self.snapshotting.keep(self.selected, &mut node);
        Some(node)
    }

    fn with_deadlines<R>(&mut self, hash: u64, key: &[u8], change: impl FnOnce(&mut Deadlines) -> R) -> R {
        self.table_mut().with_deadlines(hash, key, change)
    }

    fn with_key_waiters<R>(&mut self, hash: u64, key: &[u8], change: impl FnOnce(&mut KeyWaiters) -> R) -> R {
        self.table_mut().with_key_waiters(hash, key, change)
    }

    fn has_key_waiters(&self) -> bool {
        self.table().has_key_waiters()
    }

    fn for_each_listened(&self, visit: &mut dyn FnMut(&[u8])) {
        self.table().for_each_listened(visit);
    }

    fn shards(&self) -> usize {
        self.table().shards()
    }

    fn has_shard(&self, shard: usize) -> bool {
        self.table().has_shard(shard)
    }

    fn covers(&self, key: &[u8]) -> bool {
        self.table().covers(key)
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn len(&self) -> usize {
        self.table().len()
    }

    fn clear(&mut self, removed: &mut dyn FnMut(Box<dyn Send>)) {
        let nodes = self.table_mut().take_nodes();
        match self.snapshotting.is_complete() {
            true => removed(Box::new(nodes)),
            false => self.snapshotting.take_over(self.selected, nodes),
        }
    }

    fn for_each(&self, visit: &mut dyn FnMut(&Node)) {
        self.table().for_each(visit);
    }

    fn walk(&self, shard: usize, start: u64, count: usize, visit: &mut dyn FnMut(&Node)) -> Option<u64> {
        self.table().walk(shard, start, count, visit)
    }

    fn random(&self, draw: &mut dyn FnMut(usize) -> usize) -> Option<&Node> {
        self.table().random(draw)
    }
}

impl Evictable for Databases {
    fn evictable(&self, database: usize, spares_lasting: bool) -> usize {
        self.tables.get(database).map_or(0, |table| match spares_lasting {
            true => table.deadlines().len(),
            false => table.len(),
        })
    }

    fn sample(&self, spares_lasting: bool, random: &mut fastrand::Rng) -> Option<&Node> {
        self.table().sample(spares_lasting, random)
    }

    fn first_deadline_here(&self) -> Option<(u64, u64)> {
        self.table().deadlines().first()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{NewValue, hash_of};
    use super::*;

    fn holds(databases: &mut Databases, database: usize, key: &[u8]) -> bool {
        databases.select(database);
        databases.locate(hash_of(key), key).is_some()
    }

    #[test]
    fn a_key_lives_in_the_database_that_was_selected() {
        let mut databases = Databases::of_shard(&Arc::default(), 16, 0, 1);
        databases.insert_node(3, Node::new(b"k", NewValue::Integer(1), None));
        assert!(holds(&mut databases, 3, b"k"));
        assert!([0, 1, 2, 4].into_iter().all(|other| !holds(&mut databases, other, b"k")));
        assert_eq!(databases.keys(), 1);
    }

    #[test]
    fn databases_that_were_divided_are_what_they_were_when_united() {
        for owners in [1, 2, 7, 256] {
            let mut databases = Databases::of_shard(&Arc::default(), 16, 0, 1);
            let keys: Vec<String> = (0..1000).map(|number| format!("key:{number}")).collect();
            for (number, key) in keys.iter().enumerate() {
                let expire_at = number.is_multiple_of(3).then_some(number as u64);
                databases.insert_node(number % 5, Node::new(key.as_bytes(), NewValue::Integer(1), expire_at));
            }
            let divided = databases.split(owners);
            assert_eq!(divided.len(), owners);
            for (owner, databases) in divided.iter().enumerate() {
                let is_own = |node: &Node| NodeTable::owner_of(hash_of(node.key()), owners) == owner;
                databases.tables.iter().for_each(|table| table.for_each(&mut |node| assert!(is_own(node))));
            }
            let mut united = Databases::of_shard(&Arc::default(), 16, 0, 1);
            divided.into_iter().for_each(|databases| united.unite(databases));
            assert_eq!(united.keys(), keys.len());
            let has = |(number, key): (usize, &String)| holds(&mut united, number % 5, key.as_bytes());
            assert!(keys.iter().enumerate().all(has));
            let deadlines: usize = united.tables.iter().map(|table| table.deadlines().len()).sum();
            assert_eq!(deadlines, 334, "of a third of the keys");
            assert_eq!(united.first_deadline(), Some((0, (0, hash_of(b"key:0")))));
        }
    }

    #[test]
    fn databases_swap_their_nodes_and_deadlines() {
        let mut databases = Databases::of_shard(&Arc::default(), 16, 0, 1);
        databases.insert_node(0, Node::new(b"a", NewValue::Integer(1), Some(9)));
        databases.insert_node(2, Node::new(b"b", NewValue::Integer(1), Some(5)));
        assert_eq!(databases.first_deadline(), Some((2, (5, hash_of(b"b")))));
        databases.swap(2, 0);
        assert!(holds(&mut databases, 2, b"a") && holds(&mut databases, 0, b"b"));
        assert_eq!(databases.first_deadline(), Some((0, (5, hash_of(b"b")))));
        databases.swap(0, 7);
        assert!(holds(&mut databases, 7, b"b") && !holds(&mut databases, 0, b"b"));
    }
}
