//! Transactions over several segments on their way to the disk.
//!
//! What a shard shows after such a transaction may depend on what the others held before it. So it is released only
//! when the transaction is in the segments of all of them: otherwise a power loss could keep an acknowledged write and
//! lose the data it was made from.

use super::segment::Segment;
use crate::aof::format::framed_len;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// A transaction in the log.
#[derive(Debug, Clone)]
struct Placed {
    /// Where its record ends in each of its segments.
    ends: Vec<(Arc<Segment>, u64)>,
    /// The length of its record.
    len: u64,
}

/// The transactions that are not yet where the fsync policy wants them, in order.
///
/// Invariant: two transactions with a segment in common have the order here that they have in it.
#[derive(Debug, Default)]
pub struct PendingCommits {
    open: Mutex<VecDeque<Placed>>,
    count: AtomicUsize,
    /// All segments of the log.
    segments: OnceLock<Vec<Weak<Segment>>>,
    /// Held by the thread that tries unwritten records again.
    trying: Mutex<()>,
}

impl PendingCommits {
    /// Sets the segments of the log.
    ///
    /// # Panics
    /// If they were set before.
    pub fn begin(&self, segments: &[Arc<Segment>]) {
        let segments = segments.iter().map(Arc::downgrade).collect();
        assert!(self.segments.set(segments).is_ok(), "a log has its segments from the start");
    }

    /// Appends the record of a transaction to each of its segments, and holds back what follows it there until it is in
    /// all of them; without a log, only feeds it to replication. The caller holds exclusive access to all of them, and
    /// calls this before it shows any result. O(segments * payload)
    pub fn append(&self, segments: &[Arc<Segment>], payload: &[u8]) {
        let Some(first) = segments.first() else { return };
        first.feed_cross_shard_payload(payload);
        if !first.is_on() {
            return;
        }
        // Under the lock: `write_in_order` must know every transaction that it reaches.
        let mut open = self.open.lock();
        let ends = segments.iter().map(|segment| {
            segment.append_cross_shard_payload(payload);
            let end = segment.appended();
            segment.hold_from(end);
            (Arc::clone(segment), end)
        });
        let placed = Placed { ends: ends.collect(), len: framed_len(payload) };
        open.push_back(placed);
        self.count.store(open.len(), Ordering::Release);
    }

    /// Releases what need not be held any more. Called when a segment has made progress.
    pub fn settle(&self) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut settled = Vec::new();
        {
            let mut open = self.open.lock();
            let is_settled = |placed: &mut Placed| placed.ends.iter().all(|(segment, lsn)| segment.has_reached(*lsn));
            while let Some(placed) = open.pop_front_if(is_settled) {
                placed.ends.iter().for_each(|(segment, lsn)| segment.let_go(*lsn));
                settled.push(placed);
            }
            self.count.store(open.len(), Ordering::Release);
        }
        settled.iter().flat_map(|placed| &placed.ends).for_each(|(segment, _)| segment.wake_released());
    }

    /// Tries to write what waits in all segments while one of them is failing, and ends the failing state when all is
    /// written.
    ///
    /// A transaction is written only after everything that it may have seen is written, in every segment that it
    /// covers. So a kill between any two writes leaves a consistent cut. A segment that cannot be written stops the
    /// segments that share a transaction with it, at that transaction; the others are written to their ends.
    pub fn write_in_order(&self) {
        let _trying = self.trying.lock();
        let Some(segments) = self.segments.get() else { return };
        let segments: Vec<Arc<Segment>> = segments.iter().filter_map(Weak::upgrade).collect();
        while self.write_what_waits(&segments) && !Segment::end_failing_if_all_is_written(&segments) {}
        self.settle();
        segments.iter().for_each(|segment| segment.wake_released());
    }

    /// Writes what is appended now, and returns whether all of it is written.
    fn write_what_waits(&self, segments: &[Arc<Segment>]) -> bool {
        let (placed, ends): (Vec<Placed>, Vec<u64>) = {
            let open = self.open.lock();
            (open.iter().cloned().collect(), segments.iter().map(|segment| segment.appended()).collect())
        };
        let mut stopped: Vec<&Arc<Segment>> = Vec::new();
        for Placed { ends, len } in &placed {
            for (segment, end) in ends {
                write_or_stop(&mut stopped, segment, end - len);
            }
            if ends.iter().any(|(segment, _)| is_among(&stopped, segment)) {
                stopped.extend(ends.iter().map(|(segment, _)| segment));
            }
            for (segment, end) in ends {
                write_or_stop(&mut stopped, segment, *end);
            }
        }
        for (segment, end) in segments.iter().zip(ends) {
            write_or_stop(&mut stopped, segment, end);
        }
        stopped.is_empty()
    }
}

fn is_among(stopped: &[&Arc<Segment>], segment: &Arc<Segment>) -> bool {
    stopped.iter().any(|other| Arc::ptr_eq(other, segment))
}

/// Writes a segment up to a position, unless it is stopped; if that fails, stops it.
fn write_or_stop<'a>(stopped: &mut Vec<&'a Arc<Segment>>, segment: &'a Arc<Segment>, limit: u64) {
    if !is_among(stopped, segment) && !segment.write_up_to(limit) {
        stopped.push(segment);
    }
}
