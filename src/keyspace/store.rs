//! What an engine supplies: access to the nodes.

use super::deadlines::Deadlines;
use super::hashing::hash_of;
use super::instance::Instance;
use super::key_waiters::KeyWaiters;
use super::snapshotting::SnapshotSink;
use crate::keyspace::raw::node::Node;
use std::sync::Arc;

/// Access to the nodes of several databases, one of which is selected: the methods of [`Table`] concern that one.
pub trait Store: Table {
    /// What the stores of one server share.
    fn instance(&self) -> &Arc<Instance>;
    /// Selects an existing database.
    fn select(&mut self, database: usize);
    /// The database that is selected.
    fn selected(&self) -> usize;
    /// How many databases there are: their numbers are below this.
    fn databases(&self) -> usize;
    /// Databases that may hold keys, or key waiters, have numbers below this.
    fn in_use(&self) -> usize;
    /// Exchanges the nodes of two databases, with their deadlines. Key waiters stay where they are.
    fn swap(&mut self, one: usize, other: usize);
    /// Announces all nodes to a sink that will get them: see [`SnapshotSink::announce`].
    fn announce(&self, sink: &dyn SnapshotSink);
    /// Begins a snapshot of all nodes as they are now, in a store of every shard; no other snapshot is being taken.
    fn begin_snapshot(&mut self, sink: Arc<dyn SnapshotSink>);
}

/// Access to nodes, as wide as a command needs it: a whole table, or the locked parts of a shared one.
///
/// Hashes are those of [`hash_of`](super::hash_of). Methods for one key take the key, too: its hash may not determine
/// where it is.
pub trait Table {
    /// The location of a node. Valid until the store changes.
    type Location: Copy;

    /// Finds a key.
    fn locate(&self, hash: u64, key: &[u8]) -> Option<Self::Location>;
    /// The node of `key`, which is at `location`.
    fn at(&self, location: Self::Location, hash: u64, key: &[u8]) -> &Node;
    /// The node of `key`, which is at `location`.
    fn at_mut(&mut self, location: Self::Location, hash: u64, key: &[u8]) -> &mut Node;
    /// Adds a node whose key is not there.
    fn insert(&mut self, hash: u64, node: Node) -> &mut Node;
    /// Removes and returns the node of a key. Its deadline stays until [`with_deadlines`](Self::with_deadlines) changes
    /// it.
    fn remove(&mut self, hash: u64, key: &[u8]) -> Option<Node>;
    /// Removes and returns a node with the hash of a deadline, `(at, hash)`, whose own deadline has come by then, and
    /// removes the given deadline, whether there is one or not.
    fn remove_due(&mut self, deadline: (u64, u64)) -> Option<Node>;
    /// Changes the deadlines of the part that `key` belongs to.
    fn with_deadlines<R>(&mut self, hash: u64, key: &[u8], change: impl FnOnce(&mut Deadlines) -> R) -> R;
    /// Changes the key waiters of the part that `key` belongs to.
    fn with_key_waiters<R>(&mut self, hash: u64, key: &[u8], change: impl FnOnce(&mut KeyWaiters) -> R) -> R;
    /// Whether there are any key waiters: nearly always there are none.
    fn has_key_waiters(&self) -> bool;
    /// Visits the keys with key waiters.
    fn for_each_listened(&self, visit: &mut dyn FnMut(&[u8]));
    /// How many shards the keyspace is divided into.
    fn shards(&self) -> usize;
    /// Whether a shard's keys belong to this store.
    fn has_shard(&self, shard: usize) -> bool;
    /// Whether a key belongs to this store, or to another.
    fn covers(&self, key: &[u8]) -> bool;
    /// Whether nodes may be changed; otherwise only [`locate`](Self::locate), [`at`](Self::at) and the like are called.
    fn is_writable(&self) -> bool;
    /// How many nodes there are.
    fn len(&self) -> usize;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Removes all; `removed` gets the nodes, together or in several parts, unless a snapshot needs them yet.
    fn clear(&mut self, removed: &mut dyn FnMut(Box<dyn Send>));
    /// Visits all nodes, in no order.
    fn for_each(&self, visit: &mut dyn FnMut(&Node));
    /// Visits about `count` nodes in a fixed order of their own, from the position `start` of 48 bits on; returns where
    /// the next ones start, if there may be any.
    fn walk(&self, shard: usize, start: u64, count: usize, visit: &mut dyn FnMut(&Node)) -> Option<u64>;
    /// A random node; `draw(n)` returns a random number below `n`.
    fn random(&self, draw: &mut dyn FnMut(usize) -> usize) -> Option<&Node>;

    /// The node of a key as it is stored, though the key may have expired.
    fn stored(&self, key: &[u8]) -> Option<&Node> {
        let hash = hash_of(key);
        Some(self.at(self.locate(hash, key)?, hash, key))
    }
    /// Adds a node whose key is not there, with its deadline.
    fn insert_with_deadline(&mut self, hash: u64, node: Node) {
        self.change_deadline(hash, node.key(), None, node.expire_at());
        self.insert(hash, node);
    }
    /// Removes and returns the node of a key, with its deadline.
    fn remove_with_deadline(&mut self, hash: u64, key: &[u8]) -> Option<Node> {
        let node = self.remove(hash, key)?;
        self.change_deadline(hash, key, node.expire_at(), None);
        Some(node)
    }
    /// Changes the deadline of a key.
    #[inline]
    fn change_deadline(&mut self, hash: u64, key: &[u8], old: Option<u64>, new: Option<u64>) {
        if old != new {
            self.with_deadlines(hash, key, |deadlines| deadlines.change(hash, old, new));
        }
    }
    /// The keys with key waiters that belong to this store.
    fn listened_keys(&self) -> Vec<Vec<u8>> {
        let mut keys = Vec::new();
        if self.has_key_waiters() {
            self.for_each_listened(&mut |key| keys.push(key.to_vec()));
        }
        keys.retain(|key| self.covers(key));
        keys
    }
}
