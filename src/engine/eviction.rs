//! Eviction by whoever owns the keys, in slices of bounded time, as [expiration](super::expiration).

use super::expiration::TimeSlice;
use crate::base::memory::Meter;
use crate::base::pressure::COMMAND;
use crate::commands::blocking::serve_ready;
use crate::keyspace::{Evictable, Keyspace};
use std::time::Duration;

/// How long to wait where nothing could be evicted.
pub const PAUSE: Duration = Duration::from_millis(1);

/// How many bytes of a debt a command pays before it runs, which has arguments of so many bytes: twice what it takes, as
/// far as one can know, so that the debt shrinks however many write.
pub fn instalment(debt: i64, argument_bytes: usize) -> i64 {
    debt.min(2 * (argument_bytes + COMMAND) as i64)
}

/// What a slice did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Evicted {
    /// Keys evicted.
    pub keys: u64,
    /// Bytes that this freed.
    pub freed: i64,
    /// Whether there was none left to evict.
    pub is_exhausted: bool,
}

/// Evicts keys until so many bytes are freed, for one slice of time at most; and tells those who waited for them.
pub fn evict_slice<S: Evictable>(keyspace: &mut Keyspace<S>, bytes: i64) -> Evicted {
    let evicted = evict_within(keyspace, bytes, &mut TimeSlice::begin(), u64::MAX);
    keyspace.instance().pressure.pay(evicted.keys, evicted.freed);
    evicted
}

/// Evicts keys until so many bytes are freed, `most` keys or the rest of a slice at most. What was paid is told by the
/// caller.
pub fn evict_within<S: Evictable>(keyspace: &mut Keyspace<S>, bytes: i64, slice: &mut TimeSlice, most: u64) -> Evicted {
    let policy = keyspace.settings().eviction.policy();
    let mut evicted = Evicted::default();
    if !policy.evicts() || keyspace.settings().is_frozen() {
        return evicted;
    }
    let meter = Meter::start();
    let mut victim = Vec::new();
    while evicted.freed < bytes && evicted.keys < most && !slice.is_over() {
        let Some(database) = draw_database(keyspace, policy.spares_lasting()) else {
            evicted.is_exhausted = true;
            break;
        };
        keyspace.select(database);
        if !keyspace.evict_one(policy, &mut victim) {
            break;
        }
        evicted.keys += 1;
        evicted.freed = meter.freed();
    }
    if keyspace.has_ready() {
        serve_ready(keyspace);
    }
    evicted
}

/// A database at random, by its share of the keys that may be evicted.
fn draw_database<S: Evictable>(keyspace: &mut Keyspace<S>, spares_lasting: bool) -> Option<usize> {
    let count = |keyspace: &Keyspace<S>, database| keyspace.store().evictable(database, spares_lasting);
    let databases = keyspace.store().in_use();
    let total: usize = (0..databases).map(|database| count(keyspace, database)).sum();
    let mut rank = if total > 0 { keyspace.random().usize(..total) } else { return None };
    (0..databases).find(|&database| {
        let here = count(keyspace, database);
        let is_here = rank < here;
        rank = rank.saturating_sub(here);
        is_here
    })
}
