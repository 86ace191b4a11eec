//! Eviction by the owners of the keys, in slices of bounded time, like [expiration](super::expiration).

use super::expiration::TimeSlice;
use crate::base::allocator::Meter;
use crate::base::pressure::COMMAND;
use crate::commands::blocking::serve_ready;
use crate::keyspace::{Evictable, Keyspace};
use std::time::Duration;

/// How long to wait if nothing could be evicted.
pub const PAUSE: Duration = Duration::from_millis(1);

/// How many bytes of a debt a command pays before it runs, given the size of its arguments: about twice what it takes,
/// so that the debt shrinks however many clients write.
pub fn instalment(debt: i64, argument_bytes: usize) -> i64 {
    debt.min(2 * (argument_bytes + COMMAND) as i64)
}

/// The result of a slice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Evicted {
    /// Keys evicted.
    pub keys: u64,
    /// Bytes that this freed.
    pub freed: i64,
    /// Whether no key was left to evict.
    pub is_exhausted: bool,
}

/// Evicts keys until this many bytes are freed, for one slice of time at most, and notifies their key waiters.
pub fn evict_slice<S: Evictable>(keyspace: &mut Keyspace<S>, bytes: i64) -> Evicted {
    let evicted = evict_within(keyspace, bytes, &mut TimeSlice::begin(), u64::MAX);
    keyspace.instance().pressure.pay(evicted.keys, evicted.freed);
    evicted
}

/// Evicts keys until this many bytes are freed, at most `most` keys and for the rest of a slice. The caller reports
/// what was freed.
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
    if !keyspace.ready.is_empty() {
        serve_ready(keyspace);
    }
    evicted
}

/// A random database, weighted by its number of evictable keys.
fn draw_database<S: Evictable>(keyspace: &mut Keyspace<S>, spares_lasting: bool) -> Option<usize> {
    let count = |keyspace: &Keyspace<S>, database| keyspace.store.evictable(database, spares_lasting);
    let databases = keyspace.store.in_use();
    let total: usize = (0..databases).map(|database| count(keyspace, database)).sum();
    let mut rank = if total > 0 { keyspace.random.usize(..total) } else { return None };
    (0..databases).find(|&database| {
        let here = count(keyspace, database);
        let is_here = rank < here;
        rank = rank.saturating_sub(here);
        is_here
    })
}
