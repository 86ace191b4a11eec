//! A member with its score, in one allocation that several owners share through one pointer.
//!
//! ```text
//! | owners u32 | length u32 | score f64 | member |
//! ```
//!
//! # Why unsafe
//! A large sorted set knows each member twice, by its place in the order and by its hash, and must not store it twice.
//! The shared pointers that exist are twice as wide (`Arc<[u8]>`) or have headers twice as long (`triomphe::ThinArc`):
//! a member of 10 to 16 bytes then takes 48 bytes instead of 32. Everything unsafe about that is in this file; its
//! interface is safe.
#![allow(unsafe_code)]

use super::cache_lines::prefetch;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, fence};

#[repr(C)]
struct Header {
    owners: AtomicU32,
    len: u32,
    score: f64,
}

/// Shares one member and its score. A clone is another owner, not a copy.
///
/// Invariants: `pointer` came from the global allocator with [`layout_of`] the length; what it points to is initialised
/// and lives for as long as it has owners; the score changes only while there is one.
pub struct Scored {
    pointer: NonNull<Header>,
}

// SAFETY: owners on several threads only read, and count themselves atomically.
unsafe impl Send for Scored {}
// SAFETY: as above.
unsafe impl Sync for Scored {}

impl Scored {
    /// A member with one owner.
    ///
    /// # Panics
    /// If the member is longer than 4 GB: neither a request's arguments nor anything read from a file is.
    pub fn new(member: &[u8], score: f64) -> Self {
        let len = held(member.len());
        let layout = layout_of(len);
        // SAFETY: the layout's size is at least the header's, which is not zero.
        let Some(pointer) = NonNull::new(unsafe { alloc(layout) }) else { handle_alloc_error(layout) };
        let shared = Self { pointer: pointer.cast() };
        // SAFETY: the allocation has room for the header and the member after it, and overlaps no argument.
        unsafe {
            shared.pointer.write(Header { owners: AtomicU32::new(1), len, score });
            shared.pointer.add(1).cast::<u8>().copy_from_nonoverlapping(NonNull::from(member).cast(), member.len());
        }
        shared
    }

    /// The member.
    #[inline]
    pub fn member(&self) -> &[u8] {
        let len = self.header().len as usize;
        // SAFETY: this many initialised bytes follow the header.
        unsafe { std::slice::from_raw_parts(self.pointer.add(1).cast().as_ptr(), len) }
    }

    /// Asks the processor to bring the score and the beginning of the member into the cache.
    #[inline]
    pub fn prefetch(&self) {
        prefetch::<1>(self.pointer.cast());
    }

    /// The score.
    #[inline]
    pub fn score(&self) -> f64 {
        self.header().score
    }

    /// Changes the score.
    ///
    /// # Panics
    /// If there are other owners.
    pub fn set_score(&mut self, score: f64) {
        assert_eq!(
            self.header().owners.load(Ordering::Acquire),
            1,
            "the order releases a member before its score changes"
        );
        // SAFETY: there is one owner, and it is borrowed exclusively.
        unsafe { self.pointer.as_mut().score = score };
    }

    #[inline]
    fn header(&self) -> &Header {
        // SAFETY: the header is initialised for as long as there are owners, and this is one.
        unsafe { self.pointer.as_ref() }
    }
}

impl Clone for Scored {
    fn clone(&self) -> Self {
        let owners = self.header().owners.fetch_add(1, Ordering::Relaxed);
        assert!(owners < u32::MAX / 2, "a member has few owners");
        Self { pointer: self.pointer }
    }
}

impl Drop for Scored {
    fn drop(&mut self) {
        if self.header().owners.fetch_sub(1, Ordering::Release) > 1 {
            return;
        }
        // What other owners did to the member happened before this one ends it.
        fence(Ordering::Acquire);
        let layout = layout_of(self.header().len);
        // SAFETY: this was the last owner, so nothing uses the allocation after this.
        unsafe { dealloc(self.pointer.as_ptr().cast(), layout) };
    }
}

impl std::fmt::Debug for Scored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.score(), self.member().escape_ascii())
    }
}

/// A length as a header holds it.
fn held(len: usize) -> u32 {
    u32::try_from(len).expect("LEN_MAX bounds a member")
}

fn layout_of(len: u32) -> Layout {
    let size = size_of::<Header>() + len as usize;
    Layout::from_size_align(size, align_of::<Header>()).expect("4 GB are far from isize::MAX")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_holds_what_it_was_given_until_its_last_owner_goes() {
        for len in [0, 1, 7, 8, 100] {
            let member = vec![b'm'; len];
            let shared = Scored::new(&member, 1.5);
            let other = shared.clone();
            drop(shared);
            assert_eq!((other.member(), other.score()), (member.as_slice(), 1.5));
        }
    }

    #[test]
    fn a_length_is_held_as_it_is_or_not_at_all() {
        assert_eq!([held(0), held(u32::MAX as usize)], [0, u32::MAX]);
        for len in [1 << 32, (1 << 32) + 5, usize::MAX] {
            assert!(std::panic::catch_unwind(|| held(len)).is_err(), "{len}");
        }
    }

    #[test]
    fn a_sole_owner_changes_the_score() {
        let mut shared = Scored::new(b"m", 1.0);
        shared.set_score(-2.0);
        assert_eq!((shared.member(), shared.score()), (b"m".as_slice(), -2.0));
    }

    #[test]
    #[should_panic(expected = "before its score changes")]
    fn a_shared_score_does_not_change() {
        let mut shared = Scored::new(b"m", 1.0);
        let _other = shared.clone();
        shared.set_score(2.0);
    }

    #[test]
    fn owners_may_be_on_several_threads() {
        let shared = Scored::new(b"member", 1.0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                let shared = shared.clone();
                scope.spawn(move || assert_eq!(shared.member(), b"member"));
            }
        });
        assert_eq!(shared.score(), 1.0);
    }
}
