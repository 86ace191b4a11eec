//! Transactions over several segments on their way to the disk.
//!
//! What a shard shows after such a transaction may depend on what the others held before it, so it is released only
//! when the transaction is in the segments of all of them: otherwise a power loss could leave a write that was
//! acknowledged and take what it was made from.

use super::segment::Segment;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Where a transaction ends in each of its segments.
type Ends = Vec<(Arc<Segment>, u64)>;

/// The transactions that are not yet where the fsync policy wants them, in order.
///
/// Invariant: two transactions with a segment in common stand in the order that they have there.
#[derive(Debug, Default)]
pub struct Joints {
    open: Mutex<VecDeque<Ends>>,
    count: AtomicUsize,
}

impl Joints {
    /// Holds back what comes behind a transaction in each of its segments, until it is in all of them. Called by who
    /// has the exclusion of all of them, before it shows anything.
    pub fn hold(&self, ends: Ends) {
        let mut open = self.open.lock();
        ends.iter().for_each(|(segment, lsn)| segment.hold_from(*lsn));
        open.push_back(ends);
        self.count.store(open.len(), Ordering::Release);
    }

    /// Lets go of what need not be held any more. Called where a segment has got further.
    pub fn settle(&self) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut settled = Vec::new();
        {
            let mut open = self.open.lock();
            while let Some(ends) = open.pop_front_if(|ends| ends.iter().all(|(segment, lsn)| segment.has_reached(*lsn)))
            {
                ends.iter().for_each(|(segment, lsn)| segment.let_go(*lsn));
                settled.push(ends);
            }
            self.count.store(open.len(), Ordering::Release);
        }
        settled.iter().flatten().for_each(|(segment, _)| segment.wake_released());
    }
}
