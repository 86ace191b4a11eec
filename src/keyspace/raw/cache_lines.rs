//! Prefetches: what is needed soon is on its way while something else is done.
#![allow(unsafe_code)]

use std::ptr::NonNull;

const CACHE_LINE: usize = 64;

/// Asks the processor to bring the first `LINES` lines of memory from an address on into the cache. On processors other
/// than x86_64 and aarch64 it does nothing.
#[inline]
pub fn prefetch<const LINES: usize>(start: NonNull<u8>) {
    for line in 0..LINES {
        prefetch_line(start.as_ptr().wrapping_add(line * CACHE_LINE));
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn prefetch_line(line: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch reads nothing, whatever the address; and x86_64 always has the instruction.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast::<i8>()) };
}

#[cfg(target_arch = "aarch64")]
#[inline]
fn prefetch_line(line: *const u8) {
    // SAFETY: a prefetch reads nothing, whatever the address, and changes no register; and aarch64 always has the
    // instruction. The intrinsic for it is not stable.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{line}]", line = in(reg) line, options(nostack, preserves_flags, readonly))
    };
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn prefetch_line(_: *const u8) {}
