//! Snapshots of all keys, in every engine: one moment for all owners, then slices between commands.

use crate::keyspace::SnapshotSink;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The longest that commands wait for a walk, but for a key that takes longer.
const SLICE: Duration = Duration::from_micros(125);
/// The pause between two slices on a thread. The runtime's timer counts milliseconds and rounds up, so that a slice
/// begins once a millisecond: the walk takes an eighth of the thread's time. A pause of a whole one would last until
/// the next but one.
const PAUSE: Duration = Duration::from_micros(500);

/// Lets commands run between two slices: for a while, or only those that are ready.
pub async fn pause(hurries: bool) {
    match hurries {
        true => tokio::task::yield_now().await,
        false => tokio::time::sleep(PAUSE).await,
    }
}

/// What one owner does for a snapshot, or of a moment at which no snapshot begins.
pub struct OwnerSnapshot {
    /// The sink of its keys, if a snapshot begins.
    pub sink: Option<Arc<dyn SnapshotSink>>,
    /// Called at the moment of the snapshot: every earlier change has been appended to the owner's segment of the log,
    /// and no later change has. A log may begin or end then.
    pub at_moment: Box<dyn FnOnce() + Send + Sync>,
}

impl std::fmt::Debug for OwnerSnapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OwnerSnapshot").field("sink", &self.sink).finish_non_exhaustive()
    }
}

/// Whether a slice that begins now may continue.
pub fn slice() -> impl FnMut() -> bool {
    let start = Instant::now();
    move || start.elapsed() < SLICE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_walk_takes_its_time_unless_commands_wait_for_its_end() {
        let start = Instant::now();
        pause(true).await;
        assert!(start.elapsed().is_zero());
        pause(false).await;
        assert!(start.elapsed() >= PAUSE);
    }
}
