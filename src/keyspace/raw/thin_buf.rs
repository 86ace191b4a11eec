//! A buffer of bytes that begins with its own length, owned through one thin pointer.
//!
//! ```text
//! | length of all, u32 little endian | the rest |
//! ```
//!
//! Listpacks begin so anyway; other contents need no extra field for a length either. How much is allocated follows
//! from the length, so no capacity is stored: the sizes are those of jemalloc's classes, four to a doubling, and a
//! buffer that grows byte by byte moves O(log n) times.
//!
//! # Why unsafe
//! A small list, set or hash is one such buffer, and there are millions of them: a `Vec<u8>` takes 16 bytes more in
//! each, a `Box<[u8]>` eight, and an allocation that is moved at every push. Rust has no safe thin pointer to bytes.
//! The interface is safe: nothing but this file writes the length.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error, realloc};
use std::ptr::NonNull;

/// The size of the length.
const LENGTH: usize = size_of::<u32>();
const ALIGN: usize = 8;

/// Owns a buffer that begins with its length.
///
/// Invariants: `pointer` came from the global allocator with `layout_for(len)`; all of the `len` bytes are initialised;
/// the first four say `len`, which is at least four.
///
/// It may be at any address: see [`PackedBox`](super::compact::PackedBox).
#[repr(C, packed)]
pub struct ThinBuf {
    pointer: NonNull<u8>,
}

// SAFETY: it owns plain bytes, exclusively.
unsafe impl Send for ThinBuf {}
// SAFETY: through a shared reference the bytes are only read.
unsafe impl Sync for ThinBuf {}

impl ThinBuf {
    /// The longest buffer: two of a request's arguments fit.
    pub const LEN_MAX: usize = u32::MAX as usize;

    /// A buffer of the length, followed by these parts.
    ///
    /// # Panics
    /// If it would be longer than [`LEN_MAX`](Self::LEN_MAX).
    pub fn new(parts: &[&[u8]]) -> Self {
        let len = LENGTH + parts.iter().map(|part| part.len()).sum::<usize>();
        assert!(len <= Self::LEN_MAX, "the caller bounds the length");
        let layout = layout_for(len);
        // SAFETY: the layout's size is at least that of the length.
        let Some(pointer) = NonNull::new(unsafe { alloc(layout) }) else { handle_alloc_error(layout) };
        let mut end = LENGTH;
        for part in parts {
            // SAFETY: the allocation is new, and long enough for the length and all parts.
            unsafe { pointer.add(end).as_ptr().copy_from_nonoverlapping(part.as_ptr(), part.len()) };
            end += part.len();
        }
        let mut thin = Self { pointer };
        thin.write_len(len);
        thin
    }

    #[inline]
    fn start(&self) -> NonNull<u8> {
        self.pointer
    }

    /// How many bytes there are, including the length.
    #[inline]
    pub fn len(&self) -> usize {
        // SAFETY: there are four initialised bytes at the beginning, aligned to eight.
        u32::from_le(unsafe { self.start().cast::<u32>().read() }) as usize
    }

    /// All bytes, including the length.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `len` bytes are initialised.
        unsafe { std::slice::from_raw_parts(self.start().as_ptr(), self.len()) }
    }

    /// The bytes after the length.
    #[inline]
    pub fn rest_mut(&mut self) -> &mut [u8] {
        // SAFETY: `len` bytes are initialised and borrowed exclusively; the length is not among them.
        unsafe { std::slice::from_raw_parts_mut(self.start().add(LENGTH).as_ptr(), self.len() - LENGTH) }
    }

    /// The number of allocated bytes.
    pub fn allocated(&self) -> usize {
        size_for(self.len())
    }

    /// Replaces the `removed` bytes at `at` by `inserted` others, and returns those for the caller to overwrite. O(N),
    /// N = bytes after `at`.
    ///
    /// # Panics
    /// If the range is not after the length, or the buffer would become longer than [`LEN_MAX`](Self::LEN_MAX).
    pub fn splice(&mut self, at: usize, removed: usize, inserted: usize) -> &mut [u8] {
        let old = self.len();
        let tail =
            at.checked_add(removed).filter(|&tail| at >= LENGTH && tail <= old).expect("the range is in the rest");
        let new = old - removed + inserted;
        assert!(new <= Self::LEN_MAX, "the caller bounds the length");
        if inserted > removed {
            self.reallocate(old, new);
            // SAFETY: what grew is allocated now; it becomes initialised before anything reads it.
            unsafe { self.start().add(old).as_ptr().write_bytes(0, new - old) };
        }
        // SAFETY: both ranges are within the larger of the two lengths, which is allocated.
        unsafe {
            let start = self.start().as_ptr();
            start.add(tail).copy_to(start.add(at + inserted), old - tail);
        }
        if inserted < removed {
            self.reallocate(old, new);
        }
        self.write_len(new);
        &mut self.rest_mut()[at - LENGTH..][..inserted]
    }

    fn reallocate(&mut self, old: usize, new: usize) {
        let (layout, wanted) = (layout_for(old), layout_for(new));
        if layout == wanted {
            return;
        }
        // SAFETY: the pointer came from this allocator with `layout`; the new size is not zero.
        let moved = unsafe { realloc(self.start().as_ptr(), layout, wanted.size()) };
        let Some(moved) = NonNull::new(moved) else { handle_alloc_error(wanted) };
        self.pointer = moved;
    }

    fn write_len(&mut self, len: usize) {
        let len = u32::try_from(len).expect("ThinBuf::LEN_MAX bounds the length");
        // SAFETY: there is room for the length at the beginning, aligned to eight.
        unsafe { self.start().cast::<u32>().write(len.to_le()) };
    }
}

impl Drop for ThinBuf {
    fn drop(&mut self) {
        let layout = layout_for(self.len());
        // SAFETY: the buffer owns its allocation, and nothing uses it after this.
        unsafe { dealloc(self.start().as_ptr(), layout) };
    }
}

impl Clone for ThinBuf {
    fn clone(&self) -> Self {
        Self::new(&[&self.bytes()[LENGTH..]])
    }
}

fn layout_for(len: usize) -> Layout {
    Layout::from_size_align(size_for(len), ALIGN).expect("LEN_MAX keeps the size far from isize::MAX")
}

/// The size of jemalloc's class for `len` bytes.
fn size_for(len: usize) -> usize {
    const QUANTUM: usize = 16;
    const CLASSES_PER_DOUBLING: usize = 4;
    if len <= ALIGN {
        return ALIGN;
    }
    let doubling = (len - 1).ilog2();
    let step = (1 << doubling) / CLASSES_PER_DOUBLING;
    len.next_multiple_of(step.max(QUANTUM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sizes_are_the_classes_of_jemalloc() {
        for (len, size) in [
            (4, 8),
            (8, 8),
            (9, 16),
            (16, 16),
            (17, 32),
            (97, 112),
            (128, 128),
            (129, 160),
            (161, 192),
            (257, 320),
            (8192, 8192),
            (8193, 10240),
        ] {
            assert_eq!(size_for(len), size, "{len}");
        }
    }

    #[test]
    fn a_buffer_that_its_length_could_not_tell_is_not_made() {
        let part = vec![0_u8; 1 << 16];
        assert!(std::panic::catch_unwind(|| ThinBuf::new(&vec![&part[..]; 1 << 16])).is_err());
        let grow = || ThinBuf::new(&[b"some"]).splice(LENGTH, 0, ThinBuf::LEN_MAX - LENGTH).len();
        assert!(std::panic::catch_unwind(grow).is_err());
    }

    #[test]
    fn a_splice_does_what_that_of_a_vector_does() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut thin = ThinBuf::new(&[b"some", b" bytes"]);
        let mut model = b"....some bytes".to_vec();
        for _ in 0..2_000 {
            let at = random.usize(LENGTH..=model.len());
            let removed = random.usize(..=(model.len() - at).min(60));
            let inserted = random.usize(..50);
            let value = random.u8(..);
            thin.splice(at, removed, inserted).fill(value);
            model.splice(at..at + removed, std::iter::repeat_n(value, inserted));
            assert_eq!(thin.bytes()[LENGTH..], model[LENGTH..]);
            assert_eq!(thin.len(), model.len());
        }
        assert_eq!(thin.clone().bytes(), thin.bytes());
    }
}
