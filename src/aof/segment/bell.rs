//! What wakes the log thread.

use crate::aof::crowd::Crowd;
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long the log thread stays awake for a crowd at most: a few times what it would take to wake it.
const SPIN_MAX: Duration = Duration::from_micros(100);

/// Wakes the log thread. Rings are remembered, not counted.
#[derive(Debug, Default)]
pub struct Bell {
    rung: Mutex<bool>,
    /// Whether the log thread waits for a crowd: a ring does not wake it then.
    is_gathering: AtomicBool,
    condition: Condvar,
    /// Whether an fsync is wanted whatever time it is.
    pub wants_sync: AtomicBool,
    /// Whether the log thread is to end.
    pub stop: AtomicBool,
}

impl Bell {
    /// Something is to be written or synced.
    pub fn ring(&self) {
        let mut rung = self.rung.lock();
        if !std::mem::replace(&mut *rung, true) && !self.is_gathering.load(Ordering::Relaxed) {
            self.condition.notify_one();
        }
    }

    /// The crowd is large enough.
    pub fn ring_for(&self, crowd: &Crowd) {
        let _rung = self.rung.lock();
        if crowd.is_enough() && self.is_gathering.load(Ordering::Relaxed) {
            self.condition.notify_one();
        }
    }

    /// Waits until the crowd is large enough; at first awake, where that is worth it, letting whoever else wants the core
    /// have it.
    pub fn gather(&self, crowd: &Crowd, at_most: Duration, spins: bool) {
        let begin = Instant::now();
        while spins && !crowd.is_enough() && begin.elapsed() < SPIN_MAX.min(at_most) {
            std::thread::yield_now();
        }
        if crowd.is_enough() {
            return;
        }
        let mut rung = self.rung.lock();
        let end = begin + at_most;
        self.is_gathering.store(true, Ordering::Relaxed);
        while !crowd.is_enough() && !self.condition.wait_until(&mut rung, end).timed_out() {}
        self.is_gathering.store(false, Ordering::Relaxed);
    }

    /// Waits until it is rung, and leaves it so: who rings it again has nobody to wake. Tells whether it was.
    pub fn wait(&self, at_most: Duration) -> bool {
        let mut rung = self.rung.lock();
        if !*rung {
            self.condition.wait_for(&mut rung, at_most);
        }
        *rung
    }

    /// From now on a ring is a new one.
    pub fn answer(&self) {
        *self.rung.lock() = false;
    }
}
