//! When keys are evicted, and how much: memory in use against `maxmemory`.
//!
//! The allocator knows how much is in use, but asking it takes some ten microseconds. So a task measures it, more often
//! the nearer the limit is, and the excess is a debt. The owners of the keys pay it: in slices on their own, and a
//! command that needs memory pays first if there is a debt. The thread that evicts counts exactly how much a slice
//! frees. So writers cannot outrun the eviction; memory exceeds the limit by what they take between two measurements.
//!
//! If nothing is evicted, writers count what they may take themselves: each thread adds up what its commands bring, and
//! when that reaches half of what was free at the last measurement, memory is measured again before more is taken. A
//! request that is accepted but has not run is in use already, in its batch, whose buffer is freed when its values are
//! stored. So near such a limit buffers are not kept for reuse: they would add to the values that they brought. The
//! buffers of the log do not count: their size is subtracted from the memory in use, and nothing is appended meanwhile.
//!
//! Each server keeps its own limit by its own eviction; but the allocator's figures are for the whole process. If that
//! has several servers, the limit of each is one on what all of them use.

use parking_lot::Mutex;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// The time between two measurements of the memory if the limit is far, or there is none.
const INTERVAL_MAX: Duration = Duration::from_millis(100);
/// Near the limit, where nothing changes.
const INTERVAL_NEAR: Duration = Duration::from_millis(10);
/// Near the limit, while memory grows or shrinks.
const INTERVAL_MIN: Duration = Duration::from_millis(1);
/// What may be written in a millisecond: within this distance, the limit is near.
const BYTES_PER_MS: u64 = 256 * 1024;
/// A measured change smaller than this counts as none.
const STILL: u64 = 16 * 1024;
/// This fraction of the limit, as a divisor, is freed beyond the excess at most, for what is written until the next
/// measurement.
const AHEAD: u64 = 256;

/// Within this fraction of the limit, as a divisor, buffers are not kept for reuse if nothing is evicted.
const TIGHT: u64 = 8;

/// Bytes that commands bring before a thread adds them to the shared count: how far it may be off for each thread.
const COUNTED_TOGETHER: u64 = 32 * 1024;
/// The least that commands may bring until the next measurement, however little is free: measurements take time.
const ALLOWANCE_MIN: u64 = 128 * 1024;
/// Bytes that a command takes besides those of its arguments, roughly.
pub const COMMAND: usize = 128;

thread_local! {
    /// Bytes that commands of this thread have brought and that are not in the count of its server, which has threads
    /// of its own.
    static UNCOUNTED: Cell<u64> = const { Cell::new(0) };
}

/// As far as is known, there is no limit, or eviction keeps it.
const FREE: u8 = 0;
/// Memory is within a limit that is only kept by refusing commands.
const GUARDED: u8 = 1;
/// More memory is in use than the limit.
const OVER: u8 = 2;

/// How far memory is over the limit, and what is done about it.
#[derive(Debug)]
pub struct Pressure {
    /// One of the three above, for commands to check.
    state: AtomicU8,
    is_tight: AtomicBool,
    /// Bytes that commands have brought while memory is guarded.
    brought: AtomicU64,
    /// How many they may have brought before the next measurement.
    brought_until: AtomicU64,
    /// Bytes that must still be freed.
    debt: AtomicI64,
    /// Keys evicted so far.
    evicted: AtomicU64,
    /// Bytes that evicting them has freed.
    freed: AtomicU64,
    has_debt: Notify,
    is_to_be_looked_at: Notify,
    looks: Mutex<Looks>,
}

/// A measurement of the memory.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// When that was, by [`uptime`](crate::base::clock::uptime).
    pub at: Duration,
    /// Bytes that commands had [brought](Pressure::brought) before it.
    pub brought: u64,
    /// Bytes in use.
    pub used: u64,
    /// The limit; 0 for none.
    pub most: u64,
    /// Whether keys are evicted above it.
    pub evicts: bool,
}

#[derive(Debug)]
struct Looks {
    /// The last measurement, and what had been freed by then.
    before: Option<(Look, u64)>,
    over_since: Option<Duration>,
    /// How long memory was over the limit, before that.
    over_before: Duration,
}

impl Default for Pressure {
    /// There is no measurement yet.
    fn default() -> Self {
        Self {
            state: AtomicU8::new(FREE),
            is_tight: AtomicBool::new(false),
            brought: AtomicU64::new(0),
            brought_until: AtomicU64::new(0),
            debt: AtomicI64::new(0),
            evicted: AtomicU64::new(0),
            freed: AtomicU64::new(0),
            has_debt: Notify::new(),
            is_to_be_looked_at: Notify::new(),
            looks: Mutex::new(Looks { before: None, over_since: None, over_before: Duration::ZERO }),
        }
    }
}

impl Pressure {
    /// Whether more memory is in use than the limit.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.state.load(Ordering::Relaxed) == OVER
    }

    /// Whether a command that needs memory may run without further checks.
    #[inline]
    pub fn is_free(&self) -> bool {
        self.state.load(Ordering::Relaxed) == FREE
    }

    /// Whether memory is so near a limit that is only kept by refusing commands that buffers are not kept for reuse.
    #[inline]
    pub fn is_tight(&self) -> bool {
        self.is_tight.load(Ordering::Relaxed)
    }

    /// Counts what a command brings that needs memory, with arguments of this many bytes. True if memory must be
    /// measured first.
    pub fn has_used_up(&self, argument_bytes: usize) -> bool {
        let uncounted = UNCOUNTED.get() + (argument_bytes + COMMAND) as u64;
        if uncounted < COUNTED_TOGETHER {
            UNCOUNTED.set(uncounted);
            return false;
        }
        UNCOUNTED.set(0);
        self.brought.fetch_add(uncounted, Ordering::Relaxed) + uncounted >= self.brought_until.load(Ordering::Relaxed)
    }

    /// Bytes that commands have brought so far. Read before a measurement of the memory: what comes meanwhile counts
    /// against what it permits.
    pub fn brought(&self) -> u64 {
        self.brought.load(Ordering::Relaxed)
    }

    /// Records a measurement; returns when to measure again.
    pub fn note(&self, look: Look) -> Duration {
        let Look { at, brought, used, most, evicts } = look;
        let is_over = most > 0 && used > most;
        let freed = self.freed.load(Ordering::Relaxed);
        let before = self.looks.lock().take_in(look, freed, is_over);
        let ahead = before.map_or(0, |(before, freed_before)| {
            let grown = (used + freed).saturating_sub(before.used + freed_before);
            let passed_ms = at.saturating_sub(before.at).as_millis().max(1);
            u64::try_from(u128::from(grown) / passed_ms)
                .expect("a part of a number of 64 bits is one")
                .min(most / AHEAD)
        });
        self.debt.store(if is_over && evicts { (used - most + ahead) as i64 } else { 0 }, Ordering::Relaxed);
        let allowance = (most.saturating_sub(used) / 2).max(ALLOWANCE_MIN);
        self.brought_until.store(brought.saturating_add(allowance), Ordering::Relaxed);
        let state = match is_over {
            true => OVER,
            false if most > 0 && !evicts => GUARDED,
            false => FREE,
        };
        self.state.store(state, Ordering::Relaxed);
        self.is_tight.store(most > 0 && !evicts && used > most - most / TIGHT, Ordering::Relaxed);
        if is_over && evicts {
            self.has_debt.notify_one();
        }
        let is_still = before.is_some_and(|(before, _)| used.abs_diff(before.used) < STILL);
        until_next_look(used, most, is_still)
    }

    /// Ends the wait for the next measurement, because the limit has changed.
    pub fn look_again(&self) {
        self.is_to_be_looked_at.notify_one();
    }

    /// Waits for the time of the next measurement.
    pub async fn next_look(&self, wait: Duration) {
        // A request to measure again that has come by then is fulfilled by this.
        let _ = tokio::time::timeout(wait, self.is_to_be_looked_at.notified()).await;
    }

    /// Bytes that must be freed; 0 or less if memory is within the limit.
    pub fn debt(&self) -> i64 {
        self.debt.load(Ordering::Relaxed)
    }

    /// Waits until there is a debt.
    pub async fn debt_to_pay(&self) -> i64 {
        loop {
            let debt = self.debt();
            if debt > 0 {
                return debt;
            }
            self.has_debt.notified().await;
        }
    }

    /// Records that this many keys were evicted, which freed this many bytes.
    pub fn pay(&self, keys: u64, freed: i64) {
        self.evicted.fetch_add(keys, Ordering::Relaxed);
        self.freed.fetch_add(freed.max(0) as u64, Ordering::Relaxed);
        if self.debt.fetch_sub(freed, Ordering::Relaxed) <= freed {
            // A concurrent measurement soon corrects this if it is wrong.
            self.state.store(FREE, Ordering::Relaxed);
        }
    }

    /// Keys evicted since the server started.
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// For how long memory has exceeded the limit by now: in all, and this time.
    pub fn exceeded(&self, now: Duration) -> (Duration, Duration) {
        let looks = self.looks.lock();
        let this_time = looks.over_since.map_or(Duration::ZERO, |since| now.saturating_sub(since));
        (looks.over_before + this_time, this_time)
    }
}

impl Looks {
    /// Stores a measurement, and returns the one before.
    fn take_in(&mut self, look: Look, freed: u64, is_over: bool) -> Option<(Look, u64)> {
        match (is_over, self.over_since) {
            (true, None) => self.over_since = Some(look.at),
            (false, Some(since)) => {
                self.over_since = None;
                self.over_before += look.at.saturating_sub(since);
            }
            _ => {}
        }
        self.before.replace((look, freed))
    }
}

fn until_next_look(used: u64, most: u64, is_still: bool) -> Duration {
    if most == 0 {
        return INTERVAL_MAX;
    }
    let near = if is_still { INTERVAL_NEAR } else { INTERVAL_MIN };
    Duration::from_millis(most.saturating_sub(used) / BYTES_PER_MS).clamp(near, INTERVAL_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    fn look(at_ms: u64, used: u64) -> Look {
        Look { at: Duration::from_millis(at_ms), brought: 0, used, most: 100 * MB, evicts: true }
    }

    #[test]
    fn a_debt_is_what_is_over_and_what_a_millisecond_will_bring() {
        let pressure = Pressure::default();
        pressure.note(look(1000, 100 * MB));
        assert_eq!((pressure.debt(), pressure.is_over()), (0, false));
        pressure.note(look(1010, 101 * MB));
        let debt = MB + MB / 10;
        assert_eq!((pressure.debt(), pressure.is_over()), (debt as i64, true));
        pressure.pay(10, MB as i64);
        assert_eq!((pressure.debt(), pressure.is_over()), ((MB / 10) as i64, true));
        pressure.pay(1, MB as i64);
        assert!(!pressure.is_over());
        assert_eq!(pressure.evicted(), 11);
        // What was freed was written again meanwhile, plus half a megabyte: 2.5 MB in 10 ms.
        pressure.note(look(1020, 101 * MB + MB / 2));
        assert_eq!(pressure.debt(), (MB + MB / 2 + MB / 4) as i64);
        // However fast memory grows, no more than a part of the limit is freed in advance.
        pressure.note(look(1021, 200 * MB));
        assert_eq!(pressure.debt(), (100 * MB + 100 * MB / AHEAD) as i64);
        pressure.note(Look { evicts: false, ..look(1022, 200 * MB) });
        assert_eq!((pressure.debt(), pressure.is_over()), (0, true));
    }

    #[test]
    fn the_time_over_the_limit_is_counted() {
        let pressure = Pressure::default();
        let exceeded = |now_ms: u64| {
            let (all, now) = pressure.exceeded(Duration::from_millis(now_ms));
            (all.as_millis(), now.as_millis())
        };
        assert_eq!(exceeded(900), (0, 0));
        pressure.note(look(1000, 101 * MB));
        pressure.note(look(1200, 102 * MB));
        assert_eq!(exceeded(1500), (500, 500));
        pressure.note(look(2000, 99 * MB));
        assert_eq!(exceeded(3000), (1000, 0));
        pressure.note(look(4000, 101 * MB));
        assert_eq!(exceeded(4500), (1500, 500));
        pressure.note(look(5000, 1));
        assert_eq!(exceeded(9000), (2000, 0));
    }

    #[test]
    fn looks_are_the_more_frequent_the_nearer_the_limit_is() {
        let look = |used, is_still| until_next_look(used, 100 * MB, is_still);
        assert_eq!(look(10 * MB, false), INTERVAL_MAX);
        assert_eq!(look(95 * MB, false), Duration::from_millis(20));
        assert_eq!((look(100 * MB, false), look(200 * MB, false)), (INTERVAL_MIN, INTERVAL_MIN));
        assert_eq!(look(100 * MB, true), INTERVAL_NEAR);
        assert_eq!(until_next_look(200 * MB, 0, false), INTERVAL_MAX);
    }

    #[test]
    fn where_nothing_is_evicted_commands_bring_half_of_what_is_free_before_the_next_look() {
        let pressure = Pressure::default();
        assert!(pressure.is_free());
        let brought_until_used_up = |used: u64| {
            pressure.note(Look { evicts: false, brought: pressure.brought(), ..look(1000, used) });
            assert!(!pressure.is_free() && !pressure.is_over());
            let mut brought = 0;
            while !pressure.has_used_up(1000 - COMMAND) {
                brought += 1000;
            }
            brought
        };
        let near = |brought: u64, wanted: u64| brought.abs_diff(wanted) <= COUNTED_TOGETHER + 1000;
        assert!(near(brought_until_used_up(60 * MB), 20 * MB));
        assert!(near(brought_until_used_up(100 * MB - 1), ALLOWANCE_MIN));
        // What came during the measurement counts.
        let before = pressure.brought();
        (0..2 * ALLOWANCE_MIN / 1000).for_each(|_| _ = pressure.has_used_up(1000 - COMMAND));
        pressure.note(Look { evicts: false, brought: before, ..look(1000, 100 * MB - 2 * COUNTED_TOGETHER) });
        assert!((0..COUNTED_TOGETHER / 500).any(|_| pressure.has_used_up(1000 - COMMAND)));
        pressure.note(Look { evicts: false, ..look(1001, 100 * MB + 1) });
        assert!(pressure.is_over() && pressure.is_tight());
        pressure.note(Look { evicts: false, ..look(1001, 87 * MB) });
        assert!(!pressure.is_tight());
        pressure.note(Look { evicts: false, ..look(1001, 88 * MB) });
        assert!(!pressure.is_over() && pressure.is_tight());
        // If eviction keeps the limit, commands run as without one.
        pressure.note(look(1002, 99 * MB));
        assert!(pressure.is_free() && !pressure.is_tight());
    }
}
