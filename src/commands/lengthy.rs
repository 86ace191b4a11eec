//! Commands that visit so many elements that others of their thread should not wait for them.
//!
//! The keys of a command are its own until it ends, whether a shard runs it or a lock is held. What else runs on its
//! thread, other shards and the connections, has no reason to wait: another thread of the runtime runs it meanwhile.

use crate::base::worker;

/// Elements from which on it takes about a millisecond, many times what the change of threads costs.
const ELEMENTS_MIN: usize = 10_000;

/// Runs `work`, which visits so many elements.
#[inline]
pub(super) fn run<R>(elements: usize, work: impl FnOnce() -> R) -> R {
    if elements < ELEMENTS_MIN { work() } else { away(work) }
}

#[cold]
#[inline(never)]
fn away<R>(work: impl FnOnce() -> R) -> R {
    worker::wait(work)
}
