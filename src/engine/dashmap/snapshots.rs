//! Snapshots of a table that all connections share.

use super::Database;
use super::view::View;
use crate::engine::snapshots::{OwnerSnapshot, slice};
use crate::keyspace::{Node, SnapshotSink, SnapshotSpot, Snapshotting, Store};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The snapshot of all databases. The holder of a node's lock adds the node to it.
///
/// Invariant: `parity` is that of `snapshotting`. It changes under the locks of all shards of all maps, so the holder
/// of any of them sees its current value.
#[derive(Debug, Default)]
pub struct SharedSnapshotting {
    parity: AtomicBool,
    snapshotting: Mutex<Snapshotting>,
}

impl SharedSnapshotting {
    /// The parity of new nodes.
    #[inline]
    pub fn parity(&self) -> bool {
        self.parity.load(Ordering::Relaxed)
    }

    /// Adds a node of a database that will be changed or removed.
    #[inline]
    pub fn keep(&self, database: usize, node: &mut Node) {
        if node.parity() != self.parity() {
            self.snapshotting.lock().keep(database, node);
        }
    }

    /// Adds a node of a database at its turn; returns whether there is room for another one.
    pub fn keep_in_turn(&self, database: usize, node: &mut Node) -> bool {
        node.parity() == self.parity() || self.snapshotting.lock().keep_in_turn(database, node)
    }

    /// Begins a snapshot, under the locks of all shards of all maps.
    pub fn begin(&self, sink: Arc<dyn SnapshotSink>, nodes: usize, databases: usize) {
        let mut snapshotting = self.snapshotting.lock();
        snapshotting.begin(sink, nodes, databases);
        self.parity.store(snapshotting.parity(), Ordering::Relaxed);
    }

    /// Exchanges two databases.
    pub fn swap(&self, one: usize, other: usize) {
        self.snapshotting.lock().swap(one, other);
    }

    /// Adds nodes that are removed all at once; `removed` gets them if no snapshot needs them.
    pub fn take_over(
        &self,
        database: usize,
        nodes: impl Iterator<Item = Node> + Send + Sync + 'static,
        removed: &mut dyn FnMut(Box<dyn Send>),
    ) {
        let mut snapshotting = self.snapshotting.lock();
        match snapshotting.is_complete() {
            true => removed(Box::new(nodes)),
            false => snapshotting.take_over(database, nodes),
        }
    }
}

/// Begins a snapshot under all locks: the log is complete up to that point, because changes are logged under their
/// locks.
pub fn begin(databases: &[Database], owners: Vec<OwnerSnapshot>) {
    let mut everything = View::everything(databases);
    for owner in owners {
        (owner.at_moment)();
        if let Some(sink) = owner.sink {
            everything.begin_snapshot(sink);
        }
    }
}

/// Walks over the shards of all maps for a slice of time, each under its lock; returns whether the snapshot is
/// complete.
pub fn walk(databases: &[Database]) -> bool {
    let shared = &databases[0].snapshotting;
    let mut may_go_on = slice();
    loop {
        let spot = {
            let mut snapshotting = shared.snapshotting.lock();
            if snapshotting.is_complete() {
                return true;
            }
            if !snapshotting.has_room() || !may_go_on() {
                return false;
            }
            if snapshotting.keep_removed() {
                continue;
            }
            snapshotting.spot()
        };
        let next = keep_some(databases, spot, &mut may_go_on);
        shared.snapshotting.lock().go_on_at(next);
    }
}

/// Continues in one shard of a map until its end or that of the slice; returns where the next slice continues.
fn keep_some(databases: &[Database], spot: SnapshotSpot, may_go_on: &mut dyn FnMut() -> bool) -> SnapshotSpot {
    let SnapshotSpot { table, subtable: shard, mut bucket } = spot;
    if table >= databases.len() {
        return SnapshotSpot::default();
    }
    if shard >= databases[table].shards() {
        return SnapshotSpot { table: table + 1, ..SnapshotSpot::default() };
    }
    let mut view = View::shard(databases, table, shard);
    view.select(table);
    loop {
        let (next, has_room) = view.keep_buckets(bucket);
        match next {
            None => return SnapshotSpot { table, subtable: shard + 1, bucket: 0 },
            Some(next) => bucket = next,
        }
        if !has_room || !may_go_on() {
            return SnapshotSpot { table, subtable: shard, bucket };
        }
    }
}
