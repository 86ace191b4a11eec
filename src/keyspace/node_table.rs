//! The table of an exclusive owner: many small hash tables instead of one large.
//!
//! A hash table that doubles moves every key at once, and a shard that does so answers no client meanwhile. Split by a
//! few bits of the hash, each subtable doubles at a time of its own and moves 1/256 of the keys.

use super::deadlines::Deadlines;
use super::eviction::draw;
use super::hashing::hash_of;
use super::key_waiters::KeyWaiters;
use super::store::Table;
use super::walk::{Homes, walk};
use crate::base::narrowing::size;
use crate::base::routing::shard_of;
use crate::keyspace::raw::node::Node;
use hashbrown::HashTable;

/// A power of two.
const SUBTABLES: usize = 256;
/// Which bits of the hash choose the subtable: not the low ones (the position in a hash table) but those below the top
/// seven (its control bytes). They choose DashMap's shards, too: each shard has the keys of one subtable, or of several
/// in a row.
const SUBTABLE_SHIFT: u32 = 57 - SUBTABLES.trailing_zeros();

/// Keys whose nodes are fetched together: about as many misses as a core keeps in flight.
const PREFETCH: usize = 16;

/// Nodes in `SUBTABLES` hash tables, and their deadlines.
#[derive(Debug)]
pub struct NodeTable {
    subtables: Box<[HashTable<Node>]>,
    len: usize,
    deadlines: Deadlines,
    key_waiters: KeyWaiters,
    /// Which shard of the keyspace this is, and of how many.
    shard: (usize, usize),
}

impl Default for NodeTable {
    fn default() -> Self {
        Self {
            subtables: empty_subtables(),
            len: 0,
            deadlines: Deadlines::default(),
            key_waiters: KeyWaiters::default(),
            shard: (0, 1),
        }
    }
}

fn empty_subtables() -> Box<[HashTable<Node>]> {
    (0..SUBTABLES).map(|_| HashTable::new()).collect()
}

impl NodeTable {
    /// An empty table for shard `index` of `count`.
    pub fn of_shard(index: usize, count: usize) -> Self {
        Self { shard: (index, count), ..Self::default() }
    }

    #[inline]
    fn subtable(hash: u64) -> usize {
        size(hash >> SUBTABLE_SHIFT) % SUBTABLES
    }

    fn take(&mut self, hash: u64, matches: impl Fn(&Node) -> bool) -> Option<Node> {
        let subtable = &mut self.subtables[Self::subtable(hash)];
        let (node, _) = subtable.find_entry(hash, matches).ok()?.remove();
        self.len -= 1;
        // A table that once held many keys should not keep their memory for ever, nor shrink and grow alternately.
        if subtable.capacity() > 64 && subtable.len() * 8 < subtable.capacity() {
            subtable.shrink_to(subtable.len() * 2, |node| hash_of(node.key()));
        }
        Some(node)
    }
}

impl Table for NodeTable {
    /// Subtable and bucket.
    type Location = (usize, usize);

    #[inline]
    fn locate(&self, hash: u64, key: &[u8]) -> Option<Self::Location> {
        let subtable = Self::subtable(hash);
        self.subtables[subtable].find_bucket_index(hash, |node| node.key() == key).map(|bucket| (subtable, bucket))
    }

    #[inline]
    fn at(&self, (subtable, bucket): Self::Location, _hash: u64, _key: &[u8]) -> &Node {
        self.subtables[subtable].get_bucket(bucket).expect("a location is used before the table changes")
    }

    #[inline]
    fn at_mut(&mut self, (subtable, bucket): Self::Location, _hash: u64, _key: &[u8]) -> &mut Node {
        self.subtables[subtable].get_bucket_mut(bucket).expect("a location is used before the table changes")
    }

    fn insert(&mut self, hash: u64, node: Node) -> &mut Node {
        self.len += 1;
        let subtable = &mut self.subtables[Self::subtable(hash)];
        subtable.insert_unique(hash, node, |node| hash_of(node.key())).into_mut()
    }

    fn remove(&mut self, hash: u64, key: &[u8]) -> Option<Node> {
        self.take(hash, |node| node.key() == key)
    }

    fn remove_due(&mut self, (at, hash): (u64, u64)) -> Option<Node> {
        self.deadlines.remove((at, hash));
        self.take(hash, |node| node.is_of_deadline((at, hash)))
    }

    fn with_deadlines<R>(&mut self, _hash: u64, _key: &[u8], change: impl FnOnce(&mut Deadlines) -> R) -> R {
        change(&mut self.deadlines)
    }

    fn with_key_waiters<R>(&mut self, _hash: u64, _key: &[u8], change: impl FnOnce(&mut KeyWaiters) -> R) -> R {
        change(&mut self.key_waiters)
    }

    fn has_key_waiters(&self) -> bool {
        !self.key_waiters.is_empty()
    }

    fn for_each_listened(&self, visit: &mut dyn FnMut(&[u8])) {
        self.key_waiters.keys().for_each(visit);
    }

    fn shards(&self) -> usize {
        self.shard.1
    }

    fn has_shard(&self, shard: usize) -> bool {
        shard == self.shard.0
    }

    fn covers(&self, key: &[u8]) -> bool {
        let (index, count) = self.shard;
        shard_of(key, count) == index
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn len(&self) -> usize {
        self.len
    }

    fn clear(&mut self, removed: &mut dyn FnMut(Box<dyn Send>)) {
        removed(Box::new(self.take_nodes()));
    }

    fn for_each(&self, visit: &mut dyn FnMut(&Node)) {
        self.subtables.iter().flat_map(HashTable::iter).for_each(visit);
    }

    fn walk(&self, _shard: usize, start: u64, count: usize, visit: &mut dyn FnMut(&Node)) -> Option<u64> {
        walk(self.subtables.iter(), SUBTABLES, start, count, visit)
    }

    fn random(&self, draw: &mut dyn FnMut(usize) -> usize) -> Option<&Node> {
        // A random subtable, weighted by its number of keys, then random buckets until one is full.
        let mut rank = draw(self.len.max(1));
        let subtable = self.subtables.iter().find(|subtable| {
            let here = rank < subtable.len();
            rank = rank.saturating_sub(subtable.len());
            here
        })?;
        loop {
            if let Some(node) = subtable.get_bucket(draw(subtable.num_buckets())) {
                return Some(node);
            }
        }
    }
}

impl NodeTable {
    /// Brings the nodes of several keys into the cache: their misses overlap instead of adding up.
    #[inline]
    pub fn prefetch(&self, hashes: &[u64]) {
        for hashes in hashes.chunks(PREFETCH) {
            let mut nodes = [None; PREFETCH];
            for (node, &hash) in nodes.iter_mut().zip(hashes) {
                *node = self.subtables[Self::subtable(hash)].iter_hash(hash).next();
            }
            nodes.into_iter().flatten().for_each(Node::prefetch);
        }
    }

    /// A random node that may be evicted: see [`Evictable`](super::Evictable).
    pub fn sample(&self, spares_lasting: bool, random: &mut fastrand::Rng) -> Option<&Node> {
        let of_deadline = |(at, hash): (u64, u64)| {
            self.subtables[Self::subtable(hash)].find(hash, |node| node.is_of_deadline((at, hash)))
        };
        let counts = (self.len, &self.deadlines);
        draw(counts, spares_lasting, random, |random| self.any(random), of_deadline)
    }

    /// A nearly random node: with many keys the subtables are about equally large.
    fn any(&self, random: &mut fastrand::Rng) -> Option<&Node> {
        const TRIES: usize = 4;
        let drawn =
            (0..TRIES).map(|_| &self.subtables[random.usize(..SUBTABLES)]).find(|subtable| !subtable.is_empty());
        let Some(subtable) = drawn else { return self.random(&mut |below| random.usize(..below)) };
        loop {
            if let Some(node) = subtable.get_bucket(random.usize(..subtable.num_buckets())) {
                return Some(node);
            }
        }
    }

    /// Drops some of the key waiters that went away: see [`KeyWaiters::sweep`].
    pub fn sweep_key_waiters(&mut self) -> bool {
        self.key_waiters.sweep()
    }

    /// The deadlines of all keys.
    pub fn deadlines(&self) -> &Deadlines {
        &self.deadlines
    }
}

impl NodeTable {
    /// All nodes, for another owner.
    pub fn into_nodes(self) -> impl Iterator<Item = Node> {
        self.subtables.into_iter().flat_map(|mut subtable| std::mem::take(&mut subtable).into_iter())
    }

    /// All nodes, in partitions that others can insert side by side: `count`, a power of two, but at most as many as
    /// subtables. The partition of a node depends on the bits of its hash that choose its subtable, the highest first.
    pub fn into_partitions(self, count: usize) -> impl Iterator<Item = impl Iterator<Item = Node> + Send> {
        let mut subtables = self.subtables.into_iter();
        let count = count.min(SUBTABLES);
        (0..count).map(move |_| {
            let partition: Vec<_> = subtables.by_ref().take(SUBTABLES / count).collect();
            partition.into_iter().flat_map(HashTable::into_iter)
        })
    }

    /// The owner, of `owners` that a table is divided among, of the keys of this hash.
    pub fn owner_of(hash: u64, owners: usize) -> usize {
        Self::subtable(hash) * owners / SUBTABLES
    }

    /// Divides the table among owners: see [`owner_of`](Self::owner_of). O(owners + D log D), D = deadlines
    pub fn split(mut self, owners: usize) -> Vec<Self> {
        let mut divided: Vec<Self> = (0..owners).map(|_| Self::of_shard(self.shard.0, self.shard.1)).collect();
        for (subtable, nodes) in self.subtables.into_iter().enumerate() {
            let owned = &mut divided[subtable * owners / SUBTABLES];
            owned.len += nodes.len();
            owned.subtables[subtable] = nodes;
        }
        for (owner, owned) in divided.iter_mut().enumerate() {
            owned.deadlines = self.deadlines.split_off(|hash| Self::owner_of(hash, owners) == owner);
        }
        divided
    }

    /// Takes over another table of the same division: no subtable has keys in both. O(D log D), D = its deadlines
    pub fn unite(&mut self, other: Self) {
        self.len += other.len;
        self.deadlines.unite(other.deadlines);
        for (subtable, nodes) in self.subtables.iter_mut().zip(other.subtables) {
            assert!(subtable.is_empty() || nodes.is_empty(), "a subtable has one owner");
            if subtable.is_empty() {
                *subtable = nodes;
            }
        }
    }

    /// Removes and returns all nodes. O(1)
    pub fn take_nodes(&mut self) -> impl Iterator<Item = Node> + Send + Sync + 'static {
        let subtables = std::mem::replace(&mut self.subtables, empty_subtables());
        self.len = 0;
        self.deadlines.clear();
        subtables.into_iter().flat_map(HashTable::into_iter)
    }

    /// Visits the nodes of the next buckets, at most `count`, from a bucket of a subtable on; returns the subtable and
    /// the bucket after them, if there is one. Nodes move when their table grows or shrinks. O(count)
    pub fn visit_buckets(
        &mut self,
        subtable: usize,
        bucket: usize,
        count: usize,
        visit: &mut dyn FnMut(&mut Node) -> bool,
    ) -> Option<(usize, usize)> {
        let nodes = self.subtables.get_mut(subtable)?;
        let buckets = if nodes.is_empty() { 0 } else { nodes.num_buckets() };
        let end = buckets.min(bucket.saturating_add(count));
        // Their misses overlap instead of adding up.
        (bucket..end).filter_map(|bucket| nodes.get_bucket(bucket)).for_each(Node::prefetch);
        let is_last = |bucket: &usize| nodes.get_bucket_mut(*bucket).is_some_and(|node| !visit(node));
        let end = (bucket..end).find(is_last).map_or(end, |last| last + 1);
        match end < buckets {
            true => Some((subtable, end)),
            false => (subtable + 1 < SUBTABLES).then_some((subtable + 1, 0)),
        }
    }

    /// Exchanges the nodes of two tables, with their deadlines.
    pub fn swap_nodes(&mut self, other: &mut Self) {
        std::mem::swap(self, other);
        std::mem::swap(&mut self.key_waiters, &mut other.key_waiters);
    }

    /// Inserts a node whose key is not there, with its deadline.
    pub fn insert_node(&mut self, node: Node) {
        let hash = hash_of(node.key());
        self.deadlines.change(hash, None, node.expire_at());
        self.insert(hash, node);
    }
}

impl Homes for HashTable<Node> {
    type Item = Node;

    fn hash(&self, item: &Node) -> u64 {
        hash_of(item.key())
    }

    fn items(&self) -> usize {
        self.len()
    }

    fn homes(&self) -> usize {
        self.num_buckets()
    }

    fn room(&self) -> usize {
        self.capacity()
    }

    fn item_at(&self, bucket: usize) -> Option<&Node> {
        self.get_bucket(bucket)
    }

    fn prefetch(node: &Node) {
        node.prefetch();
    }

    fn for_each<'a>(&'a self, visit: impl FnMut(&'a Node)) {
        self.iter().for_each(visit);
    }

    fn for_each_candidate<'a>(&'a self, hash: u64, visit: impl FnMut(&'a Node)) {
        self.iter_hash(hash).for_each(visit);
    }
}
