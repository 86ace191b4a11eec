//! Prefetches: what is needed soon is on its way while something else is done.
#![allow(unsafe_code)]

use std::ptr::NonNull;

const CACHE_LINE: usize = 64;

/// Asks the processor to bring the first `LINES` lines of memory from an address on into the cache.
#[inline]
pub fn prefetch<const LINES: usize>(start: NonNull<u8>) {
    #[cfg(target_arch = "x86_64")]
    for line in 0..LINES {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing, whatever the address; and x86_64 always has the instruction.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(start.as_ptr().wrapping_add(line * CACHE_LINE).cast::<i8>()) };
    }
}
