//! Snapshots of all keys, in every engine: one moment for all owners, then slices between commands.

use crate::keyspace::SnapshotSink;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The longest that commands wait for a walk.
const SLICE: Duration = Duration::from_micros(100);
/// The pause between two slices on a thread: the walk takes an eleventh of its time at most.
pub const PAUSE: Duration = Duration::from_millis(1);

/// One owner's part of a snapshot, or of a moment at which no snapshot begins.
pub struct SnapshotPart {
    /// The sink of its keys, if a snapshot begins.
    pub sink: Option<Arc<dyn SnapshotSink>>,
    /// Called at the moment of the snapshot: every earlier change has been appended to the owner's segment of the log,
    /// and no later change has. A log may begin or end then.
    pub at_moment: Box<dyn FnOnce() + Send + Sync>,
}

impl std::fmt::Debug for SnapshotPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SnapshotPart").field("sink", &self.sink).finish_non_exhaustive()
    }
}

/// Whether a slice that begins now may continue.
pub fn slice() -> impl FnMut() -> bool {
    let start = Instant::now();
    move || start.elapsed() < SLICE
}
