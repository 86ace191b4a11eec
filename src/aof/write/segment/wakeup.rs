//! Wakes the log thread.

use crate::aof::write::group_commit::GroupCommit;
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long the log thread stays awake for a group of writers at most: a few times the cost of waking it.
const SPIN_MAX: Duration = Duration::from_micros(100);

/// Wakes the log thread. Signals are remembered, not counted.
#[derive(Debug, Default)]
pub struct Wakeup {
    is_woken: Mutex<bool>,
    /// Whether the log thread waits for a group of writers: a signal does not wake it then.
    is_gathering: AtomicBool,
    condition: Condvar,
    /// Whether an fsync is wanted regardless of the time.
    pub wants_sync: AtomicBool,
    /// Whether the log thread must end.
    pub stop: AtomicBool,
}

impl Wakeup {
    /// Wakes it to write or sync.
    pub fn wake(&self) {
        let mut is_woken = self.is_woken.lock();
        if !std::mem::replace(&mut *is_woken, true) && !self.is_gathering.load(Ordering::Relaxed) {
            self.condition.notify_one();
        }
    }

    /// Wakes it because the group is large enough.
    pub fn wake_for(&self, group: &GroupCommit) {
        let _guard = self.is_woken.lock();
        if group.is_enough() && self.is_gathering.load(Ordering::Relaxed) {
            self.condition.notify_one();
        }
    }

    /// Waits until the group is large enough. It stays awake at first, where that is worth it, and yields the core.
    pub fn gather(&self, group: &GroupCommit, at_most: Duration, spins: bool) {
        let begin = Instant::now();
        while spins && !group.is_enough() && begin.elapsed() < SPIN_MAX.min(at_most) {
            std::thread::yield_now();
        }
        if group.is_enough() {
            return;
        }
        let mut is_woken = self.is_woken.lock();
        let end = begin + at_most;
        self.is_gathering.store(true, Ordering::Relaxed);
        while !group.is_enough() && !self.condition.wait_until(&mut is_woken, end).timed_out() {}
        self.is_gathering.store(false, Ordering::Relaxed);
    }

    /// Waits until it is woken, and leaves the signal set, so that further signals make no system call. Returns whether
    /// it was woken.
    pub fn wait(&self, at_most: Duration) -> bool {
        let mut is_woken = self.is_woken.lock();
        if !*is_woken && !at_most.is_zero() {
            self.condition.wait_for(&mut is_woken, at_most);
        }
        *is_woken
    }

    /// Clears the signal, so that the next one counts as new.
    pub fn clear(&self) {
        *self.is_woken.lock() = false;
    }
}
