//! Images of a table that all connections share.

use super::Database;
use super::view::View;
use crate::engine::images::{ImagePart, PAUSE, slice};
use crate::keyspace::{ImageSink, ImageSpot, Imaging, Node, Store};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The image of all databases. Whoever has the lock of a node keeps it.
///
/// Invariant: `mark` is that of `imaging`. It changes under the locks of all shards of all maps, so whoever has one of
/// them sees what it is.
#[derive(Debug, Default)]
pub struct SharedImaging {
    mark: AtomicBool,
    imaging: Mutex<Imaging>,
}

impl SharedImaging {
    /// The mark of new nodes.
    #[inline]
    pub fn mark(&self) -> bool {
        self.mark.load(Ordering::Relaxed)
    }

    /// Keeps a node of a database that changes or goes.
    #[inline]
    pub fn keep(&self, database: usize, node: &mut Node) {
        if node.mark() != self.mark() {
            self.imaging.lock().keep(database, node);
        }
    }

    /// Begins an image, under the locks of all shards of all maps.
    pub fn begin(&self, sink: Arc<dyn ImageSink>, nodes: usize, databases: usize) {
        let mut imaging = self.imaging.lock();
        imaging.begin(sink, nodes, databases);
        self.mark.store(imaging.mark(), Ordering::Relaxed);
    }

    /// Exchanges two databases.
    pub fn swap(&self, one: usize, other: usize) {
        self.imaging.lock().swap(one, other);
    }

    /// Takes over nodes that are removed all at once.
    pub fn take_over(&self, database: usize, nodes: impl Iterator<Item = Node> + Send + Sync + 'static) {
        let mut imaging = self.imaging.lock();
        // Otherwise they go with the iterator.
        if !imaging.is_complete() {
            imaging.take_over(database, nodes);
        }
    }
}

/// Begins an image, under the locks of everything: the log is complete up to there, for what changes is logged under
/// its locks.
pub fn begin(databases: &[Database], parts: Vec<ImagePart>) {
    let mut everything = View::everything(databases);
    for part in parts {
        (part.at_moment)();
        if let Some(sink) = part.sink {
            everything.begin_image(sink);
        }
    }
}

/// Walks over all shards of all maps in slices, each under the lock of one shard.
pub async fn walk(databases: &[Database]) {
    let shared = &databases[0].imaging;
    while !walk_slice(databases, shared) {
        tokio::time::sleep(PAUSE).await;
    }
}

/// A slice of time; gives whether the image is complete.
fn walk_slice(databases: &[Database], shared: &SharedImaging) -> bool {
    let mut may_go_on = slice();
    loop {
        let spot = {
            let mut imaging = shared.imaging.lock();
            if imaging.is_complete() {
                return true;
            }
            if !imaging.has_room() || !may_go_on() {
                return false;
            }
            if imaging.keep_removed() {
                continue;
            }
            imaging.spot()
        };
        let next = keep_some(databases, spot, &mut may_go_on);
        shared.imaging.lock().go_on_at(next);
    }
}

/// Goes on in one shard of a map until its end or that of the slice; gives where the next one goes on.
fn keep_some(databases: &[Database], spot: ImageSpot, may_go_on: &mut dyn FnMut() -> bool) -> ImageSpot {
    let ImageSpot { table, part, mut bucket } = spot;
    if table >= databases.len() {
        return ImageSpot::default();
    }
    if part >= databases[table].shards() {
        return ImageSpot { table: table + 1, ..ImageSpot::default() };
    }
    let mut view = View::shard(databases, table, part);
    view.select(table);
    loop {
        match view.keep_buckets(bucket) {
            None => return ImageSpot { table, part: part + 1, bucket: 0 },
            Some(next) => bucket = next,
        }
        if !may_go_on() {
            return ImageSpot { table, part, bucket };
        }
    }
}
