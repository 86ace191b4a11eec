//! Bytes of a fixed length behind one thin pointer, with a length of one byte if they are short.
//!
//! ```text
//! | length, u8 below 255 | bytes |        | 255 | length, u32 little endian | bytes |
//! ```
//!
//! # Why unsafe
//! A large set or hash has millions of these. A `Box<[u8]>` takes eight bytes more in each slot of the table, and a
//! length of four bytes puts a member of 13 to 15 bytes into the allocator's next class, 16 bytes more. Rust has no
//! safe thin pointer to bytes. The interface is safe.
#![allow(unsafe_code)]

use super::cache_lines::prefetch;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// The first byte, if the length follows it.
const LONG: u8 = u8::MAX;
const LONG_PREFIX: usize = 1 + size_of::<u32>();

/// Owns bytes, whose number does not change.
///
/// Invariants: `pointer` came from the global allocator with `layout_for(len)`; the prefix says `len`, and as many
/// initialised bytes follow it.
pub struct ThinBytes {
    pointer: NonNull<u8>,
}

// SAFETY: it owns plain bytes, exclusively.
unsafe impl Send for ThinBytes {}
// SAFETY: through a shared reference the bytes are only read.
unsafe impl Sync for ThinBytes {}

impl ThinBytes {
    /// The longest: two of a request's arguments are not longer.
    pub const LEN_MAX: usize = u32::MAX as usize;

    /// These parts joined.
    ///
    /// # Panics
    /// If they are longer than [`LEN_MAX`](Self::LEN_MAX).
    pub fn new(parts: &[&[u8]]) -> Self {
        let len = parts.iter().map(|part| part.len()).sum::<usize>();
        let long = u32::try_from(len).expect("ThinBytes::LEN_MAX bounds all parts together").to_le_bytes();
        let layout = layout_for(len);
        // SAFETY: the layout's size is at least that of the prefix.
        let Some(pointer) = NonNull::new(unsafe { alloc(layout) }) else { handle_alloc_error(layout) };
        let mut end = 0;
        let mut put = |bytes: &[u8]| {
            // SAFETY: the allocation is new, and as long as the prefix and all parts together.
            unsafe { pointer.add(end).as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
            end += bytes.len();
        };
        match u8::try_from(len) {
            Ok(len) if len < LONG => put(&[len]),
            _ => {
                put(&[LONG]);
                put(&long);
            }
        }
        parts.iter().for_each(|part| put(part));
        Self { pointer }
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        let (start, len) = self.extent();
        // SAFETY: this many initialised bytes follow the prefix.
        unsafe { std::slice::from_raw_parts(self.pointer.add(start).as_ptr(), len) }
    }

    /// The bytes.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let (start, len) = self.extent();
        // SAFETY: as above, borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.add(start).as_ptr(), len) }
    }

    /// Asks the processor to bring the beginning of the bytes into the cache.
    #[inline]
    pub fn prefetch(&self) {
        prefetch::<1>(self.pointer);
    }

    /// Where the bytes begin, and how many there are.
    #[inline]
    fn extent(&self) -> (usize, usize) {
        // SAFETY: the prefix is initialised, and is long if its first byte says so.
        unsafe {
            match self.pointer.read() {
                LONG => (LONG_PREFIX, u32::from_le_bytes(self.pointer.add(1).cast().read()) as usize),
                len => (1, usize::from(len)),
            }
        }
    }
}

impl Drop for ThinBytes {
    fn drop(&mut self) {
        let layout = layout_for(self.extent().1);
        // SAFETY: the allocation is owned, and nothing uses it after this.
        unsafe { dealloc(self.pointer.as_ptr(), layout) };
    }
}

impl Clone for ThinBytes {
    fn clone(&self) -> Self {
        Self::new(&[self.bytes()])
    }
}

fn layout_for(len: usize) -> Layout {
    let prefix = if len < usize::from(LONG) { 1 } else { LONG_PREFIX };
    Layout::from_size_align(prefix + len, 1).expect("4 GB are far from isize::MAX")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "ThinBytes::LEN_MAX bounds all parts together")]
    fn parts_that_are_too_long_together_are_not_taken() {
        let part = vec![0_u8; 1 << 16];
        ThinBytes::new(&vec![&part[..]; 1 << 16]);
    }

    #[test]
    fn bytes_are_what_their_parts_were_whatever_their_length() {
        for len in [0, 1, 14, 254, 255, 256, 70_000] {
            let bytes: Vec<u8> = (0..len).map(|n| n as u8).collect();
            let (head, tail) = bytes.split_at(len / 3);
            let mut slim = ThinBytes::new(&[head, &[], tail]);
            let copy = slim.clone();
            assert_eq!(slim.bytes(), bytes);
            slim.bytes_mut().fill(7);
            assert_eq!((slim.bytes(), copy.bytes()), (vec![7; len].as_slice(), bytes.as_slice()));
        }
    }
}
