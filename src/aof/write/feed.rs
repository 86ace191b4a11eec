//! The feed: what all owners of keys have changed, in one queue, for replication.
//!
//! Each owner pushes the records of its turn before any client sees what they changed. So a change made after seeing
//! another one follows it in the queue, whichever owners the two have. There is one exception: the parts of a command
//! over several shards take effect on each shard in its own time, and the consumer of the queue joins them again (see
//! `replication::merger`).
//!
//! A push copies the bytes of the records into memory and never waits. A queue that is not taken in time is given up:
//! it holds [`WAITING_MAX`] at most, and one piece more.

use super::segment::Segment;
use crate::aof::format::{Salt, frame_cross_shard_onto, frame_onto};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::Notify;

/// The most bytes that may wait. If more are pushed, the feed is abandoned.
const WAITING_MAX: usize = if cfg!(test) { 4096 } else { 256 * 1024 * 1024 };

/// The queue between the owners of keys and the merger of their changes.
#[derive(Debug, Default)]
pub struct Feed {
    queue: Mutex<Fed>,
    /// How many bytes were pushed since the server started.
    pushed: AtomicU64,
    /// Whether it accepts records that no owner of keys has made. It changes, and is read, under the lock of the queue:
    /// no such record follows the barriers at the end.
    is_open: AtomicBool,
    wakeup: Notify,
}

/// What was pushed and not taken yet.
#[derive(Debug, Default)]
pub struct Fed {
    /// Records, framed as in the log, one piece after the other.
    pub bytes: Vec<u8>,
    /// The pieces, in order.
    pub pieces: Vec<Piece>,
    /// How many bytes were pushed up to the end of these.
    pub end: u64,
    /// Whether data was lost because too much waited.
    pub is_given_up: bool,
}

/// What one owner pushed in one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece {
    /// Records of a lane.
    Records {
        /// The owner's number.
        lane: usize,
        /// How many bytes.
        len: usize,
    },
    /// A record over several lanes, all of which stood still while it was pushed.
    CrossShard {
        /// How many bytes.
        len: usize,
    },
    /// On this lane, the end of what precedes the barrier of this number.
    Barrier {
        /// The owner's number.
        lane: usize,
        /// Which barrier: all lanes have it at one point in the order of all commands.
        number: u64,
    },
    /// Effects that belong to no key: they may be anywhere.
    Free {
        /// How many bytes.
        len: usize,
    },
}

impl Feed {
    /// Pushes records to a lane.
    pub(super) fn push_records(&self, lane: usize, records: &[u8]) {
        self.push(Piece::Records { lane, len: records.len() }, |bytes| bytes.extend_from_slice(records));
    }

    /// Pushes a record with this payload to a lane.
    pub(super) fn push_payload(&self, lane: usize, salt: Salt, payload: &[u8]) {
        self.push(Piece::Records { lane, len: 0 }, |bytes| frame_onto(bytes, salt, payload));
    }

    /// Pushes a record over several lanes, whose owners wait meanwhile.
    pub(super) fn push_cross_shard(&self, salt: Salt, payload: &[u8]) {
        self.push(Piece::CrossShard { len: 0 }, |bytes| frame_cross_shard_onto(bytes, salt, payload));
    }

    /// Pushes a record to a lane, unless the feed has ended; its effects belong to no key and keep their order.
    pub fn push_effects(&self, lane: usize, payload: &[u8]) {
        let queue = self.queue.lock();
        if self.is_open.load(Ordering::Relaxed) {
            self.push_onto(queue, Piece::Records { lane, len: 0 }, |bytes| frame_onto(bytes, Salt(0), payload));
        }
    }

    /// Pushes effects that belong to no key, encoded as the payload of a record, unless the feed has ended.
    pub fn push_free(&self, payload: &[u8]) {
        let queue = self.queue.lock();
        if self.is_open.load(Ordering::Relaxed) {
            self.push_onto(queue, Piece::Free { len: 0 }, |bytes| bytes.extend_from_slice(payload));
        }
    }

    /// Pushes a barrier to a lane; from it on, what comes from no owner is taken or not.
    fn push_barrier(&self, lane: usize, number: u64, is_open: bool) {
        let queue = self.queue.lock();
        self.is_open.store(is_open, Ordering::Relaxed);
        self.push_onto(queue, Piece::Barrier { lane, number }, |_| {});
    }

    fn push(&self, piece: Piece, write: impl FnOnce(&mut Vec<u8>)) {
        self.push_onto(self.queue.lock(), piece, write);
    }

    fn push_onto(&self, mut queue: MutexGuard<'_, Fed>, piece: Piece, write: impl FnOnce(&mut Vec<u8>)) {
        if queue.bytes.len() >= WAITING_MAX {
            queue.give_up();
            drop(queue);
            return self.wakeup.notify_one();
        }
        if queue.is_given_up {
            return;
        }
        let before = queue.bytes.len();
        write(&mut queue.bytes);
        let added = queue.bytes.len() - before;
        match (queue.pieces.last_mut(), piece) {
            (Some(Piece::Records { lane: last, len }), Piece::Records { lane, .. }) if *last == lane => *len += added,
            _ => queue.pieces.push(piece.of_len(added)),
        }
        queue.end += added as u64;
        self.pushed.store(queue.end, Ordering::Release);
        let is_first = before == 0 || queue.pieces.len() == 1;
        drop(queue);
        if is_first {
            self.wakeup.notify_one();
        }
    }

    /// Takes everything that was pushed, and leaves an empty buffer in its place.
    pub fn take(&self, buffers: Fed) -> Fed {
        let mut queue = self.queue.lock();
        let end = queue.end;
        let is_given_up = queue.is_given_up;
        std::mem::replace(&mut queue, Fed { end, is_given_up, ..buffers })
    }

    /// Drops what waits, and what is pushed from now on.
    pub fn give_up(&self) {
        self.queue.lock().give_up();
    }

    /// Starts again after data was lost. Nothing is pushed meanwhile.
    pub fn begin_anew(&self) {
        let mut queue = self.queue.lock();
        *queue = Fed { end: queue.end, ..Fed::default() };
    }

    /// Frees the memory of the queue, if nothing waits in it.
    pub fn free_buffers(&self) {
        let mut queue = self.queue.lock();
        if queue.pieces.is_empty() {
            (queue.bytes, queue.pieces) = (Vec::new(), Vec::new());
        }
    }

    /// The memory of what waits to be taken.
    pub fn memory(&self) -> usize {
        self.queue.lock().memory()
    }

    /// How many bytes were pushed since the server started. Every change to a fed lane that a client has seen is before
    /// this position.
    pub fn pushed(&self) -> u64 {
        self.pushed.load(Ordering::Acquire)
    }

    /// Waits until something was pushed.
    pub async fn filled(&self) {
        self.wakeup.notified().await;
    }
}

impl Fed {
    fn give_up(&mut self) {
        *self = Self { end: self.end, is_given_up: true, ..Self::default() };
    }

    /// The memory that it takes, whatever part of that is used.
    pub fn memory(&self) -> usize {
        self.bytes.capacity() + self.pieces.capacity() * size_of::<Piece>()
    }

    /// Drops what was taken, and keeps its memory unless it is large.
    pub fn clear(&mut self) {
        const KEPT: usize = 1024 * 1024;
        self.bytes.clear();
        self.bytes.shrink_to(KEPT);
        self.pieces.clear();
    }
}

impl Piece {
    /// How many of the bytes it covers.
    pub fn len(&self) -> usize {
        match *self {
            Self::Records { len, .. } | Self::CrossShard { len } | Self::Free { len } => len,
            Self::Barrier { .. } => 0,
        }
    }

    fn of_len(self, added: usize) -> Self {
        match self {
            Self::Records { lane, .. } => Self::Records { lane, len: added },
            Self::CrossShard { .. } => Self::CrossShard { len: added },
            Self::Free { .. } => Self::Free { len: added },
            Self::Barrier { .. } => self,
        }
    }
}

/// Where a segment pushes what is appended to it.
#[derive(Debug)]
pub(super) struct Outlet {
    pub(super) feed: Arc<Feed>,
    pub(super) lane: usize,
}

impl Segment {
    /// Sets the feed, and the lane in it, that it pushes to while it is fed.
    ///
    /// # Panics
    /// If they were set before.
    pub fn flow_into(&self, feed: Arc<Feed>, lane: usize) {
        assert!(self.outlet.set(Outlet { feed, lane }).is_ok(), "a segment has one feed");
    }

    /// From this point in the order of all commands on, all changes are pushed to the feed. The caller excludes all
    /// appends, and pushes the barrier to every segment's lane at that point.
    pub fn begin_feed(&self, barrier: u64) {
        self.set_fed(true);
        let Outlet { feed, lane } = self.outlet();
        feed.push_barrier(*lane, barrier, true);
    }

    /// From this point in the order of all commands on, nothing is pushed.
    pub fn end_feed(&self, barrier: u64) {
        let Outlet { feed, lane } = self.outlet();
        feed.push_barrier(*lane, barrier, false);
        self.set_fed(false);
    }

    pub(super) fn outlet(&self) -> &Outlet {
        self.outlet.get().expect("a segment that is fed has been told where to")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_nobody_takes_is_given_up_whole_and_takes_nothing_until_it_begins_anew() {
        let feed = Feed::default();
        let record = [7; 100];
        (0..WAITING_MAX / record.len() + 1).for_each(|_| feed.push_records(0, &record));
        assert!(!feed.take(Fed::default()).is_given_up, "what was pushed is within its bounds");
        (0..WAITING_MAX / record.len() + 2).for_each(|_| feed.push_records(0, &record));
        let pushed = feed.pushed();
        let fed = feed.take(Fed::default());
        assert!(fed.is_given_up && fed.bytes.is_empty() && fed.pieces.is_empty());
        feed.push_records(0, &record);
        assert_eq!((feed.take(Fed::default()).pieces, feed.pushed()), (Vec::new(), pushed));
        feed.begin_anew();
        feed.push_records(1, &record);
        let fed = feed.take(Fed::default());
        assert_eq!(fed.pieces, [Piece::Records { lane: 1, len: record.len() }]);
        assert_eq!((fed.end, feed.pushed()), (pushed + 100, pushed + 100));
    }

    #[test]
    fn what_comes_from_no_owner_of_keys_is_not_taken_after_the_end() {
        let feed = Feed::default();
        let push_both = || {
            feed.push_free(&[1; 10]);
            feed.push_effects(0, &[1; 10]);
            feed.take(Fed::default()).pieces.len()
        };
        assert_eq!(push_both(), 0, "nothing is fed yet");
        feed.push_barrier(0, 1, true);
        assert_eq!(push_both(), 3);
        feed.push_barrier(0, 2, false);
        assert_eq!(push_both(), 1, "the barrier alone");
    }

    #[test]
    fn records_of_one_lane_in_a_row_are_one_piece() {
        let feed = Feed::default();
        for lane in [0, 0, 1, 0] {
            feed.push_records(lane, &[1; 10]);
        }
        feed.push(Piece::Barrier { lane: 0, number: 3 }, |_| {});
        feed.push_records(0, &[1; 10]);
        let lens = feed.take(Fed::default()).pieces.iter().map(Piece::len).collect::<Vec<_>>();
        assert_eq!(lens, [20, 10, 10, 0, 10]);
    }
}
