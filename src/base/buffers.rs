//! Buffers that are lent while bytes pass through them.
//!
//! An idle connection keeps none, so ten thousand of them cost little; and the few that are reused stay in the cache.

use crate::base::pool::Pool;
use std::cell::RefCell;

/// A buffer above this size, in bytes, is not kept.
const KEPT: usize = 256 * 1024;

thread_local! {
    static POOL: RefCell<Pool<Vec<u8>>> = const { RefCell::new(Pool::new()) };
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer, probably with memory.
pub fn take() -> Vec<u8> {
    POOL.with_borrow_mut(Pool::take).unwrap_or_default()
}

/// Returns a buffer.
pub fn give(mut buffer: Vec<u8>, is_tight: bool) {
    buffer.clear();
    if (1..=KEPT).contains(&buffer.capacity()) {
        POOL.with_borrow_mut(|pool| pool.give(buffer, is_tight));
    }
}

/// Frees the buffers of this thread that were not needed since this was last called.
pub fn trim() {
    POOL.with_borrow_mut(Pool::trim);
}

/// Lends this many bytes of this thread to read into.
pub fn with_scratch<R>(len: usize, read: impl FnOnce(&mut [u8]) -> R) -> R {
    SCRATCH.with_borrow_mut(|scratch| {
        scratch.resize(len, 0);
        read(scratch)
    })
}
