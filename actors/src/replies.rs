//! The way back: finished batches, from any shard to one connection.
//!
//! A bounded lock-free queue and one waker. The mailboxes are flume channels; for the way back flume would allocate a
//! hook each time the connection waits and lock its mutex three times per batch, for each command of a connection that
//! sends one at a time (docs/adr/0002).

use crate::channel::{Channels, ReplyQueue};
use atomic_waker::AtomicWaker;
use crossbeam_queue::ArrayQueue;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};

/// Finished batches that their connection has not taken.
///
/// Invariant: there is room for every batch that the connection has in flight.
pub(crate) struct Replies<B: Send + 'static, C: Channels> {
    queue: C::ReplyQueue<B>,
    /// Whether a batch came back unfinished, and its rest was not sent again. Every thread that must see a change of
    /// this runs after it, through a mailbox or this queue.
    is_held: AtomicBool,
}

impl<B: Send + 'static, C: Channels> Replies<B, C> {
    pub(crate) fn new(window: usize) -> Self {
        Self { queue: C::ReplyQueue::with_capacity(window), is_held: AtomicBool::new(false) }
    }

    /// Returns a batch and wakes the connection. If the connection is gone, the batch is never taken.
    pub(crate) fn push(&self, batch: B) {
        self.push_quietly(batch);
        self.queue.wake();
    }

    /// Returns a batch that the connection has run itself.
    pub(crate) fn push_quietly(&self, batch: B) {
        let rejected = self.queue.push(batch).is_err();
        assert!(!rejected, "the in-flight window bounds the reply queue");
    }

    /// Whether batches from the connection are returned undone.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.is_held.load(Ordering::Relaxed)
    }

    pub(crate) fn set_held(&self, is_held: bool) {
        self.is_held.store(is_held, Ordering::Relaxed);
    }

    pub(crate) fn pop(&self) -> Option<B> {
        self.queue.pop()
    }

    pub(crate) async fn next(&self) -> B {
        // A waiting connection has just checked; one that was woken must check before it registers again.
        let mut was_woken = false;
        poll_fn(|context| {
            if std::mem::replace(&mut was_woken, true)
                && let Some(batch) = self.pop()
            {
                return Poll::Ready(batch);
            }
            self.register_and_pop(context.waker()).map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Registers a waker, and takes a value that has come between the last check and that.
    pub(crate) fn register_and_pop(&self, waker: &Waker) -> Option<B> {
        self.queue.register(waker);
        self.pop()
    }
}

/// A lock-free array queue and an atomic waker.
#[derive(Debug)]
pub struct LockFreeReplyQueue<T> {
    queue: ArrayQueue<T>,
    waiting: AtomicWaker,
}

impl<T: Send + 'static> ReplyQueue<T> for LockFreeReplyQueue<T> {
    fn with_capacity(capacity: usize) -> Self {
        Self { queue: ArrayQueue::new(capacity), waiting: AtomicWaker::new() }
    }

    fn push(&self, value: T) -> Result<(), T> {
        self.queue.push(value)
    }

    fn pop(&self) -> Option<T> {
        self.queue.pop()
    }

    fn register(&self, waker: &Waker) {
        self.waiting.register(waker);
    }

    fn wake(&self) {
        self.waiting.wake();
    }
}
