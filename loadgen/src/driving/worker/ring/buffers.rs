//! The buffers that the kernel receives into. It takes them from a ring in shared memory, names the filled one in a
//! completion, and gets it back after it was read.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::Submitter;
use io_uring::types::BufRingEntry;

/// The one group of buffers of a ring.
pub(super) const GROUP: u16 = 0;
/// Replies of a deep pipeline fit into one.
const BUFFER_BYTES: usize = 16 * 1024;
/// The alignment that the kernel requires for the ring; no page is smaller.
const PAGE_BYTES: usize = 4096;

/// Invariants: the kernel has every buffer except those that a completion named and that were not returned; `memory`
/// and `entries` live until it has none.
pub(super) struct Buffers {
    entries: NonNull<BufRingEntry>,
    memory: NonNull<u8>,
    /// A power of two.
    count: u16,
    tail: u16,
}

impl Buffers {
    /// So many buffers, rounded up to a power of two; the kernel has none of them yet.
    pub(super) fn new(count: u16) -> Self {
        let count = count.next_power_of_two();
        let entries = allocate(entries_layout(count)).cast();
        Self { entries, memory: allocate(memory_layout(count)), count, tail: 0 }
    }

    /// Lends all buffers to the kernel, until [`Self::withdraw`].
    pub(super) fn lend(&mut self, submitter: &Submitter<'_>) -> io::Result<()> {
        // SAFETY: `entries` is page-aligned memory for `count` entries. It is freed only in `drop`, which the owner of
        // the ring runs only after `withdraw`.
        unsafe { submitter.register_buf_ring_with_flags(self.entries.as_ptr() as u64, self.count, GROUP, 0)? };
        (0..self.count).for_each(|id| self.give_back(id));
        Ok(())
    }

    /// Takes all buffers back. The kernel refuses none after [`Self::lend`] has succeeded.
    pub(super) fn withdraw(&mut self, submitter: &Submitter<'_>) -> io::Result<()> {
        submitter.unregister_buf_ring(GROUP)
    }

    /// The contents of a buffer, which was not returned since.
    pub(super) fn bytes(&self, id: u16, length: usize) -> &[u8] {
        assert!(id < self.count && length <= BUFFER_BYTES, "the kernel names buffers that it was lent");
        // SAFETY: within `memory`, by the assertion, and initialised, as it was allocated with zeros.
        // The kernel does not write there before `give_back`, which takes `&mut self`.
        unsafe { std::slice::from_raw_parts(self.buffer(id), length) }
    }

    /// Lets the kernel fill a buffer again.
    pub(super) fn give_back(&mut self, id: u16) {
        assert!(id < self.count, "the kernel names buffers that it was lent");
        let slot = usize::from(self.tail & (self.count - 1));
        // SAFETY: `slot` is one of `count` entries. The kernel only reads those before the tail, so this one is ours;
        // it never writes to any. The tail is in the ring's first entry, in a field that setting the others leaves
        // alone; both sides access it atomically.
        unsafe {
            let entry = &mut *self.entries.as_ptr().add(slot);
            entry.set_addr(self.buffer(id) as u64);
            entry.set_len(BUFFER_BYTES as u32);
            entry.set_bid(id);
            self.tail = self.tail.wrapping_add(1);
            let tail = BufRingEntry::tail(self.entries.as_ptr()).cast::<AtomicU16>();
            (*tail).store(self.tail, Ordering::Release);
        }
    }

    fn buffer(&self, id: u16) -> *mut u8 {
        // SAFETY: callers have checked that `id` is less than `count`.
        unsafe { self.memory.as_ptr().add(usize::from(id) * BUFFER_BYTES) }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with these layouts; the kernel has none of it any more.
        unsafe {
            dealloc(self.entries.as_ptr().cast(), entries_layout(self.count));
            dealloc(self.memory.as_ptr(), memory_layout(self.count));
        }
    }
}

fn entries_layout(count: u16) -> Layout {
    let bytes = usize::from(count) * size_of::<BufRingEntry>();
    Layout::from_size_align(bytes, PAGE_BYTES).expect("a ring of buffers is no larger than memory")
}

fn memory_layout(count: u16) -> Layout {
    let bytes = usize::from(count) * BUFFER_BYTES;
    Layout::from_size_align(bytes, PAGE_BYTES).expect("buffers are no larger than memory")
}

fn allocate(layout: Layout) -> NonNull<u8> {
    // SAFETY: no layout here has a size of zero: there is one buffer at least.
    let memory = unsafe { alloc_zeroed(layout) };
    NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout))
}
