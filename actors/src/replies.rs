//! The way home: finished batches, from any shard to one connection.
//!
//! A bounded lock-free queue and one waker. The mailboxes are flume channels; for the way home flume allocates a hook
//! each time the connection waits and takes its mutex three times per batch, which a connection that sends one command
//! at a time pays for each of them (docs/adr/0002).

use atomic_waker::AtomicWaker;
use crossbeam_queue::ArrayQueue;
use std::future::poll_fn;
use std::task::Poll;

/// Finished batches that their connection has not taken.
///
/// Invariant: there is room for every batch that the connection has in flight.
#[derive(Debug)]
pub(crate) struct Replies<B> {
    queue: ArrayQueue<B>,
    waiting: AtomicWaker,
}

impl<B> Replies<B> {
    pub(crate) fn new(window: usize) -> Self {
        Self { queue: ArrayQueue::new(window), waiting: AtomicWaker::new() }
    }

    /// Gives a batch back and wakes the connection. It may be gone, and nobody will take the batch then.
    pub(crate) fn push(&self, batch: B) {
        let rejected = self.queue.push(batch).is_err();
        assert!(!rejected, "the in-flight window bounds the reply queue");
        self.waiting.wake();
    }

    pub(crate) fn pop(&self) -> Option<B> {
        self.queue.pop()
    }

    pub(crate) async fn next(&self) -> B {
        poll_fn(|context| {
            if let Some(batch) = self.pop() {
                return Poll::Ready(batch);
            }
            self.waiting.register(context.waker());
            // A batch may have come between the look and the registration.
            self.pop().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}
