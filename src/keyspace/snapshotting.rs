//! Snapshots: all keys as they were at one moment, taken in slices while they continue to change.
//!
//! The owner of the keys walks over them between commands. A key that changes before its turn is put into the snapshot
//! first, and a key that is created meanwhile is left out, so the snapshot is that of the moment at which it began,
//! whenever each key was added to it. A bit of each node, its parity, says which are done: a new snapshot inverts the
//! meaning of the parity, so no node has to be touched for that.
//!
//! Invariants: `left` nodes, in the tables or removed with a whole database, have the other parity than `parity`; all
//! new nodes have this one. So while no snapshot is being taken, all nodes have one parity.
//!
//! Redis forks, and the operating system keeps what changes; this is copy-on-write for keys instead of pages.

use crate::keyspace::raw::node::Node;
use std::fmt::Debug;
use std::sync::Arc;

/// When a node is added to a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    /// At its turn in the walk, which waits for room.
    InTurn,
    /// Earlier, because it is about to change: that does not wait.
    BeforeChange,
}

/// The destination of a snapshot.
pub trait SnapshotSink: Debug + Send + Sync {
    /// Announces nodes of a database that will follow, and how many of them have deadlines, so that a reader can make
    /// room for them. One call for each owner of some.
    fn announce(&self, database: usize, nodes: usize, deadlines: usize);
    /// Adds a node of a database, as it is now. O(bytes of the value)
    fn put(&self, database: usize, node: &Node, added: Added);
    /// Whether the walk may continue, or is ahead of the writer.
    fn has_room(&self) -> bool;
}

/// The encoding of a key.
pub trait Encode: Debug + Send {
    /// Records nodes of a database that will follow: see [`SnapshotSink::announce`]. For formats that say so.
    fn announce(&mut self, _database: usize, _nodes: usize, _deadlines: usize) {}
    /// Appends a node of a database. The error says why it cannot be written. O(bytes of the value)
    fn encode(&mut self, out: &mut Vec<u8>, database: usize, node: &Node) -> Result<(), String>;
}

/// Buckets, or nodes of removed databases, that are visited between two readings of the clock.
pub const STEP: usize = 32;

/// The nodes of a database that was cleared.
type Removed = Box<dyn Iterator<Item = Node> + Send + Sync>;

/// A position in the tables of an owner.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Spot {
    /// Which of the tables.
    pub table: usize,
    /// Which of its subtables; of a DashMap, which shard.
    pub subtable: usize,
    /// Which bucket of that.
    pub bucket: usize,
}

/// The snapshot that an owner of keys is taking, if any.
#[derive(Default)]
pub struct Snapshotting {
    parity: bool,
    left: usize,
    sink: Option<Arc<dyn SnapshotSink>>,
    /// The number that the database of each table had when the snapshot began.
    origins: Vec<usize>,
    /// The tables that were cleared before their turn, with the numbers of the databases.
    removed: Vec<(usize, Removed)>,
    spot: Spot,
}

impl Debug for Snapshotting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshotting").field("left", &self.left).field("spot", &self.spot).finish_non_exhaustive()
    }
}

impl Snapshotting {
    /// The parity of nodes that are done, or new.
    #[inline]
    pub fn parity(&self) -> bool {
        self.parity
    }

    /// Begins a snapshot of `nodes` nodes, in at most this many tables. O(tables)
    ///
    /// # Panics
    /// If one is being taken: it would be unknown whose nodes are done.
    pub fn begin(&mut self, sink: Arc<dyn SnapshotSink>, nodes: usize, tables: usize) {
        assert!(self.is_complete(), "a snapshot ends before the next begins");
        self.parity = !self.parity;
        self.left = nodes;
        self.sink = (nodes > 0).then_some(sink);
        self.origins = (0..tables).collect();
        self.spot = Spot::default();
    }

    /// Whether all nodes are in the snapshot, or there is none.
    pub fn is_complete(&self) -> bool {
        self.left == 0
    }

    /// Whether there is something to do and room for it.
    pub fn has_room(&self) -> bool {
        self.sink.as_ref().is_some_and(|sink| sink.has_room())
    }

    /// Puts a node of a table into the snapshot, if it is not there: called before the node is changed or removed.
    #[inline]
    pub fn keep(&mut self, table: usize, node: &mut Node) {
        if node.parity() != self.parity {
            let origin = self.origins[table];
            self.put(origin, node, Added::BeforeChange);
        }
    }

    /// The same at its turn; returns whether there is room for another one.
    #[inline]
    pub fn keep_in_turn(&mut self, table: usize, node: &mut Node) -> bool {
        if node.parity() == self.parity {
            return true;
        }
        let origin = self.origins[table];
        self.put(origin, node, Added::InTurn);
        self.has_room()
    }

    fn put(&mut self, database: usize, node: &mut Node, added: Added) {
        if let Some(sink) = &self.sink {
            sink.put(database, node, added);
        }
        node.set_parity(self.parity);
        self.left -= 1;
        if self.left == 0 {
            self.sink = None;
            self.removed.clear();
        }
    }

    /// Records that two tables have exchanged their nodes.
    pub fn swap(&mut self, one: usize, other: usize) {
        if !self.is_complete() {
            self.origins.swap(one, other);
        }
    }

    /// Takes over the nodes of a table that is cleared; must be called unless the snapshot is complete.
    pub fn take_over(&mut self, table: usize, nodes: impl Iterator<Item = Node> + Send + Sync + 'static) {
        self.removed.push((self.origins[table], Box::new(nodes)));
    }

    /// Continues with the nodes of cleared databases while there is room; false if none are left.
    pub fn keep_removed(&mut self) -> bool {
        for _ in 0..STEP {
            if !self.has_room() {
                return true;
            }
            let Some((database, nodes)) = self.removed.last_mut() else { return false };
            let database = *database;
            match nodes.next() {
                Some(mut node) if node.parity() != self.parity => self.put(database, &mut node, Added::InTurn),
                Some(_) => {}
                None => drop(self.removed.pop()),
            }
        }
        true
    }

    /// Where the walk is.
    pub fn spot(&self) -> Spot {
        self.spot
    }

    /// Sets where the walk continues. After the last spot it starts again at the first, because rebuilt tables move
    /// nodes to where the walk has been.
    pub fn go_on_at(&mut self, spot: Spot) {
        self.spot = spot;
    }
}
