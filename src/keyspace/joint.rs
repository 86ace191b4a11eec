//! The tables of several shards as one, for as long as a command over all of them runs.

use super::deadlines::Deadlines;
use super::listeners::Listeners;
use super::node::Node;
use super::segmented::Segmented;
use super::store::Store;
use crate::routing::shard_of;

/// The stores of some of `shards` shards, lent.
///
/// Invariant: every key that a command names lives in one of them.
pub struct Joint<'a> {
    /// For each shard, its store's position in `stores`.
    positions: Vec<Option<usize>>,
    stores: Vec<&'a mut Segmented>,
}

impl<'a> Joint<'a> {
    /// Joins the stores of some shards out of `shards`, given with their indexes.
    pub fn new(shards: usize, parts: impl IntoIterator<Item = (usize, &'a mut Segmented)>) -> Self {
        let mut positions = vec![None; shards];
        let mut stores = Vec::new();
        for (index, store) in parts {
            positions[index] = Some(stores.len());
            stores.push(store);
        }
        Self { positions, stores }
    }

    fn position(&self, key: &[u8]) -> usize {
        self.positions[shard_of(key, self.positions.len())].expect("a command touches only the keys that its row names")
    }

    fn part(&self, key: &[u8]) -> &Segmented {
        self.stores[self.position(key)]
    }

    fn part_mut(&mut self, key: &[u8]) -> &mut Segmented {
        let position = self.position(key);
        self.stores[position]
    }
}

impl Store for Joint<'_> {
    type Place = <Segmented as Store>::Place;

    fn locate(&self, hash: u64, key: &[u8]) -> Option<Self::Place> {
        self.part(key).locate(hash, key)
    }

    fn at(&self, place: Self::Place, hash: u64, key: &[u8]) -> &Node {
        self.part(key).at(place, hash, key)
    }

    fn at_mut(&mut self, place: Self::Place, hash: u64, key: &[u8]) -> &mut Node {
        self.part_mut(key).at_mut(place, hash, key)
    }

    fn insert(&mut self, hash: u64, node: Node) -> &mut Node {
        let position = self.position(node.key());
        self.stores[position].insert(hash, node)
    }

    fn remove(&mut self, hash: u64, key: &[u8]) -> Option<Node> {
        self.part_mut(key).remove(hash, key)
    }

    fn remove_due(&mut self, deadline: (u64, u64)) -> Option<Node> {
        self.stores.iter_mut().find_map(|store| store.remove_due(deadline))
    }

    fn with_deadlines<R>(&mut self, hash: u64, key: &[u8], change: impl FnOnce(&mut Deadlines) -> R) -> R {
        self.part_mut(key).with_deadlines(hash, key, change)
    }

    fn with_listeners<R>(&mut self, hash: u64, key: &[u8], change: impl FnOnce(&mut Listeners) -> R) -> R {
        self.part_mut(key).with_listeners(hash, key, change)
    }

    fn has_listeners(&self) -> bool {
        self.stores.iter().any(|store| store.has_listeners())
    }

    fn for_each_watched(&self, visit: &mut dyn FnMut(&[u8])) {
        self.stores.iter().for_each(|store| store.for_each_watched(visit));
    }

    fn shards(&self) -> usize {
        self.positions.len()
    }

    fn has_shard(&self, shard: usize) -> bool {
        self.positions.get(shard).is_some_and(Option::is_some)
    }

    fn walk(&self, shard: usize, start: u64, count: usize, visit: &mut dyn FnMut(&Node)) -> Option<u64> {
        let position = self.positions[shard].expect("the caller asks whether it has the shard");
        self.stores[position].walk(shard, start, count, visit)
    }

    fn covers(&self, key: &[u8]) -> bool {
        self.positions[shard_of(key, self.positions.len())].is_some()
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn len(&self) -> usize {
        self.stores.iter().map(|store| store.len()).sum()
    }

    fn clear(&mut self) {
        self.stores.iter_mut().for_each(|store| store.clear());
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
