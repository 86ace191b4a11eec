//! Active expiration: removes keys whose time has come though no command reads them.
//!
//! It runs in slices of bounded time, so that a million keys expiring in one second delay other commands by a slice at
//! most. [Eviction](super::eviction) uses the same slices.

use crate::base::planted::is_planted;
use crate::commands::blocking::serve_ready;
use crate::keyspace::{Keyspace, Store};
use crate::stats::latency;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;

/// The longest that commands wait for expired keys to be removed.
const SLICE: Duration = Duration::from_micros(500);
/// Keys removed between two readings of the clock.
const KEYS_PER_LOOK: usize = 16;

/// The time between two searches for expired keys, with `hz` of them a second.
pub fn period(hz: u64) -> Duration {
    Duration::from_secs(1) / u32::try_from(hz.max(1)).expect("`hz` is at most 500")
}

/// Time in which keys may be removed.
#[derive(Debug)]
pub struct TimeSlice {
    start: Instant,
    /// How often `is_over` was called.
    asked: usize,
}

impl TimeSlice {
    /// A slice that begins now.
    pub fn begin() -> Self {
        Self { start: Instant::now(), asked: 0 }
    }

    /// Whether it is over; to be called before each key.
    pub fn is_over(&mut self) -> bool {
        self.asked += 1;
        self.asked.is_multiple_of(KEYS_PER_LOOK) && self.start.elapsed() >= SLICE
    }
}

/// What a slice left over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Slice {
    /// Whether more keys are due.
    pub more: bool,
    /// Milliseconds by which the earliest deadline had passed when the slice began.
    pub lag_ms: u64,
}

/// Removes due keys, earliest deadline first, for one slice of time, and notifies their key waiters. One key may take
/// longer than a slice: that is reported to `latency`.
pub fn expire_slice<S: Store>(
    keyspace: &mut Keyspace<S>,
    latency: &latency::Monitor,
    first: impl FnMut(&mut Keyspace<S>) -> Option<(usize, (u64, u64))>,
) -> Slice {
    let start = Instant::now();
    let slice = remove_due(keyspace, first);
    let ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
    latency.note("expire-cycle", latency::Sample { at_s: keyspace.turn.second(), ms });
    if !keyspace.ready.is_empty() {
        serve_ready(keyspace);
    }
    slice
}

fn remove_due<S: Store>(
    keyspace: &mut Keyspace<S>,
    mut first: impl FnMut(&mut Keyspace<S>) -> Option<(usize, (u64, u64))>,
) -> Slice {
    let due_ms = keyspace.turn.due_ms();
    let settings = keyspace.settings();
    let keeps = keyspace.turn.due_keys.stay() && !is_planted("ReplicaExpires");
    if !settings.expires_actively.load(Ordering::Relaxed) || settings.is_frozen() || keeps {
        return Slice::default();
    }
    let mut slice = TimeSlice::begin();
    let mut lag_ms = 0;
    loop {
        let due = first(keyspace).filter(|(_, (at, _))| *at <= due_ms);
        let Some((database, deadline)) = due else { return Slice { more: false, lag_ms } };
        lag_ms = lag_ms.max(due_ms - deadline.0);
        if slice.is_over() {
            return Slice { more: true, lag_ms };
        }
        keyspace.expire(database, deadline);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_over_after_its_time_and_looks_at_the_clock_once_in_a_while() {
        let mut old =
            TimeSlice { start: Instant::now().checked_sub(2 * SLICE).expect("it is later than that"), asked: 0 };
        let answers: Vec<bool> = (0..2 * KEYS_PER_LOOK).map(|_| old.is_over()).collect();
        let over: Vec<usize> = (0..answers.len()).filter(|&asked| answers[asked]).collect();
        assert_eq!(over, [KEYS_PER_LOOK - 1, 2 * KEYS_PER_LOOK - 1]);
        // A slice that has just begun: the thread may have been descheduled, but not every time.
        let is_over_at_once = || {
            let mut slice = TimeSlice::begin();
            (0..KEYS_PER_LOOK).any(|_| slice.is_over())
        };
        assert!((0..100).any(|_| !is_over_at_once()));
    }
}
