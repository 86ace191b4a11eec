//! One time for work over several shards.
//!
//! Each shard reads the clock for itself, at its own moment. So that all parts of a group, or all states of a
//! rendezvous, see the same time, such work has a *moment*: the sequencer reads it when it arms the work, that is when
//! the work is in all of its mailboxes. Each shard runs its part at the moment, and whatever is before it in the
//! mailbox no later than that. What is before it was sent before the moment, so no time is earlier than its sending:
//! the order of times is an order of all work, and that of real time.
//!
//! A shard must not adopt a later time than a moment that it does not know yet. Therefore it reads the clock first, and
//! then looks whether a moment is being decided. While one is, no shard goes beyond it, whether it takes part or not,
//! until those that do have it in their lines. Nobody waits for the sequencer: whoever needs the moment before the
//! sequencer has read the clock decides it in its place.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

/// No moment: later than any time.
pub const NO_MOMENT: u64 = u64::MAX >> 1;
/// The bit of a moment that is to be decided; the others have its number.
const UNDECIDED: u64 = 1 << 63;

/// The moments of work that is armed and has not run.
pub struct Timeline {
    clock: Box<dyn Fn() -> u64 + Send + Sync>,
    /// The moment that is being decided or given to the shards, or [`NO_MOMENT`].
    current: AtomicU64,
    /// How many moments have been decided. Only the sequencer uses it.
    decided: AtomicU64,
    lines: Box<[Line]>,
}

impl Timeline {
    /// A timeline of so many shards, each of which has at most `capacity` pieces of armed work that have not run;
    /// `clock` returns the time in a unit of the caller.
    pub(crate) fn new(shards: usize, capacity: usize, clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self {
            clock: Box::new(clock),
            current: AtomicU64::new(NO_MOMENT),
            decided: AtomicU64::new(0),
            lines: (0..shards).map(|_| Line::new(capacity)).collect(),
        }
    }

    /// The time that a shard may adopt, at most: it reads the clock, and then this.
    #[inline]
    pub fn bound(&self, shard: usize) -> u64 {
        // The clock is read before `current`, so that a moment which is not seen there is a later time.
        fence(Ordering::Acquire);
        let current = self.current.load(Ordering::SeqCst);
        let current = if current & UNDECIDED == 0 { current } else { self.decide(current) };
        // In this order: a moment leaves `current` when it is in the lines.
        current.min(self.moment(shard))
    }

    /// The moment of the first armed work that a shard has not run.
    #[inline]
    pub fn moment(&self, shard: usize) -> u64 {
        self.lines[shard].first()
    }

    /// A shard has run the first armed work of its line.
    pub fn pass(&self, shard: usize) {
        self.lines[shard].pass();
    }

    /// Gives the shards a moment for work that is in all of their mailboxes. Only the sequencer does that.
    pub(crate) fn arm(&self, shards: impl Iterator<Item = usize>) {
        let number = self.decided.load(Ordering::Relaxed);
        self.decided.store(number + 1, Ordering::Relaxed);
        self.current.store(UNDECIDED | number, Ordering::SeqCst);
        let moment = self.decide(UNDECIDED | number);
        shards.for_each(|shard| self.lines[shard].push(moment));
        self.current.store(NO_MOMENT, Ordering::SeqCst);
    }

    /// Decides a moment, unless another has, and returns it. The clock is read when the moment is known to be
    /// undecided. The number keeps a slow thread from deciding a later one with its old time.
    #[cold]
    fn decide(&self, mut current: u64) -> u64 {
        while current & UNDECIDED != 0 {
            let now = (self.clock)().min(NO_MOMENT - 1);
            current = match self.current.compare_exchange(current, now, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => now,
                Err(other) => other,
            };
        }
        current
    }
}

impl fmt::Debug for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timeline").field("current", &self.current).finish_non_exhaustive()
    }
}

/// The moments of the armed work of one shard, in order: a ring that the sequencer fills and the shard empties.
///
/// Invariant: places that hold no moment hold [`NO_MOMENT`].
#[repr(align(128))]
struct Line {
    /// Their number is a power of two.
    ring: Box<[AtomicU64]>,
    /// How many moments came; the sequencer's.
    pushed: AtomicUsize,
    /// How many went; the shard's.
    passed: AtomicUsize,
}

impl Line {
    fn new(capacity: usize) -> Self {
        let ring = (0..capacity.next_power_of_two()).map(|_| AtomicU64::new(NO_MOMENT)).collect();
        Self { ring, pushed: AtomicUsize::new(0), passed: AtomicUsize::new(0) }
    }

    #[inline]
    fn at(&self, number: usize) -> &AtomicU64 {
        &self.ring[number & (self.ring.len() - 1)]
    }

    #[inline]
    fn first(&self) -> u64 {
        self.at(self.passed.load(Ordering::Relaxed)).load(Ordering::Acquire)
    }

    fn push(&self, moment: u64) {
        let number = self.pushed.load(Ordering::Relaxed);
        let before = self.at(number).swap(moment, Ordering::AcqRel);
        assert_eq!(before, NO_MOMENT, "the mailbox and the turn bound the armed work");
        self.pushed.store(number + 1, Ordering::Relaxed);
    }

    fn pass(&self) {
        let number = self.passed.load(Ordering::Relaxed);
        // Before the place may be used again: that needs work which is placed after this is over.
        self.at(number).store(NO_MOMENT, Ordering::Release);
        self.passed.store(number + 1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    /// A clock that a test sets.
    fn manual() -> (Arc<AtomicU64>, Timeline) {
        let now = Arc::new(AtomicU64::new(100));
        let clock = Arc::clone(&now);
        (now, Timeline::new(2, 4, move || clock.load(Ordering::Relaxed)))
    }

    #[test]
    fn a_shard_stays_at_the_moment_of_armed_work_until_it_has_run_it() {
        let (now, timeline) = manual();
        assert_eq!([0, 1].map(|shard| timeline.bound(shard)), [NO_MOMENT; 2]);
        timeline.arm([0].into_iter());
        now.store(200, Ordering::Relaxed);
        timeline.arm([0, 1].into_iter());
        assert_eq!([0, 1].map(|shard| timeline.bound(shard)), [100, 200]);
        timeline.pass(0);
        assert_eq!([0, 1].map(|shard| timeline.bound(shard)), [200, 200]);
        timeline.pass(0);
        assert_eq!([0, 1].map(|shard| timeline.bound(shard)), [NO_MOMENT, 200]);
    }

    #[test]
    fn a_shard_that_finds_a_moment_undecided_decides_it() {
        let (now, timeline) = manual();
        timeline.current.store(UNDECIDED | 7, Ordering::SeqCst);
        assert_eq!(timeline.bound(0), 100);
        now.store(200, Ordering::Relaxed);
        assert_eq!(timeline.bound(1), 100, "both go by the same moment");
        assert_eq!(timeline.decide(UNDECIDED | 7), 100, "and so does the sequencer");
    }

    /// Shards read a clock that runs all the time and check that no moment is earlier than a time that they adopted
    /// before they came to it.
    #[test]
    fn no_shard_adopts_a_later_time_than_that_of_work_it_has_not_run() {
        const SHARDS: usize = 2;
        const ROUNDS: usize = 2_000;
        let now = Arc::new(AtomicU64::new(1));
        let clock = Arc::clone(&now);
        let timeline = Timeline::new(SHARDS, 4, move || clock.fetch_add(1, Ordering::SeqCst));
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for shard in 0..SHARDS {
                let (timeline, now, is_over) = (&timeline, &now, &is_over);
                scope.spawn(move || {
                    let mut adopted = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        let time = now.fetch_add(1, Ordering::SeqCst);
                        adopted = time.min(timeline.bound(shard)).max(adopted);
                        let moment = timeline.moment(shard);
                        if moment != NO_MOMENT {
                            assert!(adopted <= moment, "{adopted} was adopted before {moment}");
                            timeline.pass(shard);
                        }
                        std::thread::yield_now();
                    }
                });
            }
            for _ in 0..ROUNDS {
                while (0..SHARDS).any(|shard| timeline.moment(shard) != NO_MOMENT) {
                    std::thread::yield_now();
                }
                timeline.arm(0..SHARDS);
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }
}
