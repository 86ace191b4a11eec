//! Flat combining: the connection that gets the lock runs the batches of all connections that wait.
//!
//! Hendler, Incze, Shavit, Tzafrir: Flat combining and the synchronization-parallelism tradeoff (SPAA 2010). Each
//! connection puts its batch into its slot. Then either another connection runs it, or this one takes the lock and runs
//! all slots.
//!
//! It differs from the paper in four ways. Slots are in a fixed array; the paper has a list that grows, and removes
//! slots that were not used for long. The combiner goes over the slots once; the paper's repeats as long as it finds
//! some. A slot has an uncontended mutex, because this room has no unsafe code; that costs one more exchange than the
//! paper's flag. A batch of commands is one request; the paper's requests are single operations.

use super::super::connection::{Client, Replies, Waits};
use super::super::load::Batch;
use super::super::options::Options;
use super::keyspace::Owned;
use super::requests::Requests;
use crate::base::tsc;
use crate::resp::RequestParser;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

/// How often the slot is read between two attempts to take the lock.
const LOOKS_PER_ATTEMPT: usize = 64;
/// After this many attempts the thread yields its core: the holder of the lock may need it.
const ATTEMPTS_PER_YIELD: usize = 16;

/// The slot is empty.
pub const EMPTY: u8 = 0;
/// The batch in the slot waits.
pub const ASKED: u8 = 1;
/// The batch has run.
pub const DONE: u8 = 2;

/// The slot of one connection, on its own cache lines.
#[repr(align(128))]
#[derive(Debug, Default)]
pub struct Slot {
    state: AtomicU8,
    work: Mutex<Work>,
}

/// A batch and its replies.
#[derive(Debug, Default)]
struct Work {
    requests: Requests,
    replies: Vec<u8>,
}

impl Slot {
    /// Puts a batch into the slot.
    pub fn ask(&self, parser: &mut RequestParser, batch: &Batch) {
        self.work.lock().requests.take(parser, batch);
        self.state.store(ASKED, Ordering::Release);
    }

    /// Whether the batch has run.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.state.load(Ordering::Acquire) == DONE
    }

    /// Runs the batch, if there is one; returns whether there was.
    #[inline]
    pub fn serve(&self, owned: &mut Owned, is_by_read: bool) -> bool {
        if self.state.load(Ordering::Acquire) != ASKED {
            return false;
        }
        let Work { requests, replies } = &mut *self.work.lock();
        requests.ranges(is_by_read).for_each(|range| owned.run(requests, range, replies));
        self.state.store(DONE, Ordering::Release);
        true
    }

    /// Takes the replies of the batch that has run.
    pub fn take_replies(&self, out: &mut Vec<u8>) {
        let mut work = self.work.lock();
        out.extend_from_slice(&work.replies);
        work.replies.clear();
        self.state.store(EMPTY, Ordering::Relaxed);
    }
}

/// The slots; each connection takes one.
#[derive(Debug)]
pub struct Slots {
    slots: Vec<Slot>,
    taken: AtomicUsize,
}

impl Slots {
    /// This many slots.
    pub fn new(count: usize) -> Self {
        Self { slots: (0..count).map(|_| Slot::default()).collect(), taken: AtomicUsize::new(0) }
    }

    /// Takes a free slot; returns its number.
    pub fn take(&self) -> usize {
        let number = self.taken.fetch_add(1, Ordering::Relaxed);
        assert!(number < self.slots.len(), "there is a slot for each connection");
        number
    }

    /// A slot by its number.
    #[inline]
    pub fn at(&self, number: usize) -> &Slot {
        &self.slots[number]
    }

    /// Runs every batch that waits; returns how many.
    pub fn serve_all(&self, owned: &mut Owned, is_by_read: bool) -> usize {
        self.slots.iter().filter(|slot| slot.serve(owned, is_by_read)).count()
    }
}

/// A client.
pub struct Combining {
    common: Arc<Common>,
    slot: usize,
    parser: RequestParser,
    waits: Waits,
}

struct Common {
    owned: Mutex<Owned>,
    slots: Slots,
    is_by_read: bool,
}

impl Combining {
    /// Makes clients; there are this many slots for them.
    pub fn begin(options: &Options, owned: Owned, slots: usize) -> impl FnMut() -> Self + use<> {
        let common = Common { owned: Mutex::new(owned), slots: Slots::new(slots), is_by_read: options.is_by_read() };
        let common = Arc::new(common);
        move || Self {
            slot: common.slots.take(),
            common: Arc::clone(&common),
            parser: RequestParser::default(),
            waits: Waits::default(),
        }
    }

    /// Waits until the batch has run, or runs it together with those of others.
    fn complete(&mut self) {
        let Common { owned, slots, is_by_read } = &*self.common;
        let mut start = None;
        for attempt in 1usize.. {
            if let Some(mut owned) = owned.try_lock() {
                // The previous holder of the lock may have run it.
                slots.serve_all(&mut owned, *is_by_read);
                break;
            }
            start.get_or_insert_with(tsc::now);
            if (0..LOOKS_PER_ATTEMPT).any(|_| {
                std::hint::spin_loop();
                slots.at(self.slot).is_done()
            }) {
                break;
            }
            if attempt.is_multiple_of(ATTEMPTS_PER_YIELD) {
                std::thread::yield_now();
            }
        }
        debug_assert!(slots.at(self.slot).is_done(), "the holder of the lock serves all slots");
        match start {
            None => self.waits.free += 1,
            Some(start) => {
                self.waits.count += 1;
                self.waits.ticks += tsc::now().saturating_sub(start);
            }
        }
    }
}

impl Client for Combining {
    async fn call(&mut self, batch: &Batch, replies: &mut Replies) {
        self.common.slots.at(self.slot).ask(&mut self.parser, batch);
        self.complete();
        self.common.slots.at(self.slot).take_replies(replies.out.buffer());
        actors::yield_now().await;
        replies.drop_all();
    }

    fn waits(&self) -> Waits {
        self.waits
    }
}
