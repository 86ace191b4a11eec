//! Joins the tables of several shards into one while a command over all of them runs.

use super::databases::Databases;
use super::deadlines::Deadlines;
use super::hashing::hash_of;
use super::instance::Instance;
use super::key_waiters::KeyWaiters;
use super::node_table::NodeTable;
use super::snapshotting::SnapshotSink;
use super::store::{Store, Table};
use crate::base::routing::shard_of;
use crate::keyspace::raw::node::Node;
use std::sync::Arc;

/// The stores of some of `shards` shards, lent; nearly always each shard has one owner.
///
/// Invariants: every key that a command names is in one of them; there is at least one, and all have the same database
/// selected.
pub struct MultiShardView<'a> {
    /// Into how many owners each shard is divided.
    owners: usize,
    /// For each shard and owner, the position of their store in `stores`.
    positions: Vec<Option<usize>>,
    stores: Vec<&'a mut Databases>,
}

impl<'a> MultiShardView<'a> {
    /// Joins the stores of some shards out of `shards`, given with their indexes.
    pub fn new(shards: usize, lent: impl IntoIterator<Item = (usize, &'a mut Databases)>) -> Self {
        let mut positions = vec![None; shards];
        let mut stores = Vec::new();
        for (index, store) in lent {
            positions[index] = Some(stores.len());
            stores.push(store);
        }
        Self { owners: 1, positions, stores }
    }

    /// Joins some stores of shards that are divided among `owners` each, given with the index of the shard times the
    /// number of owners plus that of the owner. They have no order of keys to walk in.
    pub fn of_divided(
        shards: usize,
        owners: usize,
        lent: impl IntoIterator<Item = (usize, &'a mut Databases)>,
    ) -> Self {
        Self { owners, ..Self::new(shards * owners, lent) }
    }

    fn location(&self, key: &[u8]) -> Option<usize> {
        let shard = shard_of(key, self.shards());
        let index = match self.owners {
            1 => shard,
            owners => shard * owners + NodeTable::owner_of(hash_of(key), owners),
        };
        self.positions[index]
    }

    fn position(&self, key: &[u8]) -> usize {
        self.location(key).expect("a command touches only the keys that its row names")
    }

    fn store_of(&self, key: &[u8]) -> &Databases {
        self.stores[self.position(key)]
    }

    fn store_of_mut(&mut self, key: &[u8]) -> &mut Databases {
        let position = self.position(key);
        self.stores[position]
    }
}

impl Store for MultiShardView<'_> {
    fn instance(&self) -> &Arc<Instance> {
        self.stores[0].instance()
    }

    fn select(&mut self, database: usize) {
        self.stores.iter_mut().for_each(|store| store.select(database));
    }

    fn selected(&self) -> usize {
        self.stores[0].selected()
    }

    fn databases(&self) -> usize {
        self.stores[0].databases()
    }

    fn in_use(&self) -> usize {
        self.stores.iter().map(|store| store.in_use()).max().expect("a command runs over some store")
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.stores.iter_mut().for_each(|store| store.swap(one, other));
    }

    fn announce(&self, sink: &dyn SnapshotSink) {
        self.stores.iter().for_each(|store| store.announce(sink));
    }

    fn begin_snapshot(&mut self, sink: Arc<dyn SnapshotSink>) {
        self.stores.iter_mut().for_each(|store| store.begin_snapshot(Arc::clone(&sink)));
    }
}

impl Table for MultiShardView<'_> {
    type Location = <Databases as Table>::Location;

    fn locate(&self, hash: u64, key: &[u8]) -> Option<Self::Location> {
        self.store_of(key).locate(hash, key)
    }

    fn at(&self, location: Self::Location, hash: u64, key: &[u8]) -> &Node {
        self.store_of(key).at(location, hash, key)
    }

    fn at_mut(&mut self, location: Self::Location, hash: u64, key: &[u8]) -> &mut Node {
        self.store_of_mut(key).at_mut(location, hash, key)
    }

    fn insert(&mut self, hash: u64, node: Node) -> &mut Node {
        let position = self.position(node.key());
        self.stores[position].insert(hash, node)
    }

    fn remove(&mut self, hash: u64, key: &[u8]) -> Option<Node> {
        self.store_of_mut(key).remove(hash, key)
    }

    fn remove_due(&mut self, deadline: (u64, u64)) -> Option<Node> {
        self.stores.iter_mut().find_map(|store| store.remove_due(deadline))
    }

    fn with_deadlines<R>(&mut self, hash: u64, key: &[u8], change: impl FnOnce(&mut Deadlines) -> R) -> R {
        self.store_of_mut(key).with_deadlines(hash, key, change)
    }

    fn with_key_waiters<R>(&mut self, hash: u64, key: &[u8], change: impl FnOnce(&mut KeyWaiters) -> R) -> R {
        self.store_of_mut(key).with_key_waiters(hash, key, change)
    }

    fn has_key_waiters(&self) -> bool {
        self.stores.iter().any(|store| store.has_key_waiters())
    }

    fn for_each_listened(&self, visit: &mut dyn FnMut(&[u8])) {
        self.stores.iter().for_each(|store| store.for_each_listened(visit));
    }

    fn shards(&self) -> usize {
        self.positions.len() / self.owners
    }

    fn has_shard(&self, shard: usize) -> bool {
        self.positions.get(shard * self.owners).is_some_and(Option::is_some)
    }

    fn walk(&self, shard: usize, start: u64, count: usize, visit: &mut dyn FnMut(&Node)) -> Option<u64> {
        assert_eq!(self.owners, 1, "nobody walks what is divided");
        let position = self.positions[shard].expect("the caller asks whether it has the shard");
        self.stores[position].walk(shard, start, count, visit)
    }

    fn covers(&self, key: &[u8]) -> bool {
        self.location(key).is_some()
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn len(&self) -> usize {
        self.stores.iter().map(|store| store.len()).sum()
    }

    fn clear(&mut self, removed: &mut dyn FnMut(Box<dyn Send>)) {
        self.stores.iter_mut().for_each(|store| store.clear(removed));
    }

    fn for_each(&self, visit: &mut dyn FnMut(&Node)) {
        self.stores.iter().for_each(|store| store.for_each(visit));
    }

    fn random(&self, draw: &mut dyn FnMut(usize) -> usize) -> Option<&Node> {
        let mut rank = draw(self.len().max(1));
        let store = self.stores.iter().find(|store| {
            let here = rank < store.len();
            rank = rank.saturating_sub(store.len());
            here
        })?;
        store.random(draw)
    }
}
