//! Work over so many elements that the other tasks of its thread should not wait for it.
//!
//! A command holds its keys until it ends: its shard runs it, or it holds a lock. The other tasks of its thread (other
//! shards, connections) need none of these keys. The runtime moves them to another thread, and the command continues
//! on its own.

use super::worker;

/// From this many elements on, other tasks move. Visiting them takes 1 to 3 ms, and the move costs about 0.1 ms.
const ELEMENTS_MIN: usize = 50_000;
/// Bytes of a string that count as one element: combining or counting them takes as long.
const BYTES_OF_ELEMENT: usize = 1024;

/// Runs `work`, which visits this many elements.
#[inline]
pub fn run<R>(elements: usize, work: impl FnOnce() -> R) -> R {
    if elements < ELEMENTS_MIN { work() } else { away(work) }
}

/// Runs `work`, which visits this many bytes of strings.
#[inline]
pub fn run_bytes<R>(bytes: usize, work: impl FnOnce() -> R) -> R {
    run(bytes / BYTES_OF_ELEMENT, work)
}

#[cold]
#[inline(never)]
fn away<R>(work: impl FnOnce() -> R) -> R {
    worker::wait(work)
}
