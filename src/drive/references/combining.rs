//! Flat combining: whoever gets the lock runs the batches of all who wait for it.
//!
//! Hendler, Incze, Shavit, Tzafrir: Flat combining and the synchronization-parallelism tradeoff (SPAA 2010). Each
//! connection has a slot, which it fills; then it either sees its batch done, or takes the lock and goes over the slots.
//!
//! What this leaves out of the paper: slots are in an array and stay in it, where the paper has a list that grows and is
//! swept of those that have not asked for long; the combiner goes over the slots once, not as long as it finds some; a slot
//! is guarded by a mutex that nobody waits for, since the project has no unsafe code here, which costs one exchange more
//! than the paper's flag. What it has more: a batch of commands is one request.

use super::super::connection::{Client, Replies, Waits};
use super::super::load::Batch;
use super::super::options::Options;
use super::keyspace::Owned;
use super::requests::Requests;
use crate::base::ticks;
use crate::resp::RequestParser;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

/// Looks at the slot between two attempts at the lock.
const LOOKS_PER_ATTEMPT: usize = 64;
/// Attempts after which the core is given to others: whoever holds the lock may be one of them.
const ATTEMPTS_PER_YIELD: usize = 16;

/// Nothing is asked for.
pub const EMPTY: u8 = 0;
/// The batch in the slot is to run.
pub const ASKED: u8 = 1;
/// It has run.
pub const DONE: u8 = 2;

/// Where one connection asks, on cache lines of its own.
#[repr(align(128))]
#[derive(Debug, Default)]
pub struct Slot {
    state: AtomicU8,
    work: Mutex<Work>,
}

/// What is asked for, and what came of it.
#[derive(Debug, Default)]
struct Work {
    requests: Requests,
    replies: Vec<u8>,
}

impl Slot {
    /// Asks for a batch.
    pub fn ask(&self, parser: &mut RequestParser, batch: &Batch) {
        self.work.lock().requests.take(parser, batch);
        self.state.store(ASKED, Ordering::Release);
    }

    /// Whether the batch has run.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.state.load(Ordering::Acquire) == DONE
    }

    /// Runs the batch, if there is one; gives whether there was.
    #[inline]
    pub fn serve(&self, owned: &mut Owned, is_by_read: bool) -> bool {
        if self.state.load(Ordering::Acquire) != ASKED {
            return false;
        }
        let Work { requests, replies } = &mut *self.work.lock();
        requests.parts(is_by_read).for_each(|part| owned.run(requests, part, replies));
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

/// Slots, of which each connection takes one.
#[derive(Debug)]
pub struct Slots {
    slots: Vec<Slot>,
    taken: AtomicUsize,
}

impl Slots {
    /// So many.
    pub fn new(count: usize) -> Self {
        Self { slots: (0..count).map(|_| Slot::default()).collect(), taken: AtomicUsize::new(0) }
    }

    /// The number of one that nobody has.
    pub fn take(&self) -> usize {
        let number = self.taken.fetch_add(1, Ordering::Relaxed);
        assert!(number < self.slots.len(), "there is a slot for each connection");
        number
    }

    /// One by its number.
    #[inline]
    pub fn at(&self, number: usize) -> &Slot {
        &self.slots[number]
    }

    /// Runs every batch that is asked for; gives how many.
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
    /// Makes clients, for which there are so many slots.
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

    /// Waits until the batch has run, or runs it, and what others ask for with it.
    fn complete(&mut self) {
        let Common { owned, slots, is_by_read } = &*self.common;
        let mut start = None;
        for attempt in 1usize.. {
            if let Some(mut owned) = owned.try_lock() {
                // It may have been run by whoever had the lock before.
                slots.serve_all(&mut owned, *is_by_read);
                break;
            }
            start.get_or_insert_with(ticks::now);
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
        debug_assert!(slots.at(self.slot).is_done(), "whoever has the lock serves all slots");
        match start {
            None => self.waits.free += 1,
            Some(start) => {
                self.waits.count += 1;
                self.waits.ticks += ticks::now().saturating_sub(start);
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
