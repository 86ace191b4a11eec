//! The connection side: sends batches to shards and takes them back, within a window.

use crate::channel::{Channels, Closed, FlumeChannels};
use crate::replies::Replies;
use crate::shard::{Envelope, Router};
use std::sync::Arc;

/// A shard is gone, and with it the answer to what was sent.
#[derive(Debug)]
pub struct PortClosed;

/// One connection's way to the shards and back.
///
/// Invariant: `in_flight <= window`, and the reply queue holds `window` batches, so no shard ever waits to give one
/// back.
pub struct Port<B: Send + 'static, C: Channels = FlumeChannels> {
    router: Router<B, C>,
    replies: Arc<Replies<B, C>>,
    in_flight: usize,
    window: usize,
}

impl<B: Send + 'static, C: Channels> Port<B, C> {
    /// A port that has at most `window` batches in flight.
    pub fn new(router: Router<B, C>, window: usize) -> Self {
        Self { router, replies: Arc::new(Replies::new(window)), in_flight: 0, window }
    }

    /// How many batches are out.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// How many more batches may be sent before some must come back.
    pub fn room(&self) -> usize {
        self.window - self.in_flight
    }

    /// Sends a batch to `shard`, waiting while its mailbox is full.
    ///
    /// Dropping the future while it waits may lose the batch, and its place in the window with it: whoever gives up a
    /// send gives up the port.
    ///
    /// # Panics
    /// When the window is used up: the caller asks [`room`](Self::room) before it takes on work.
    pub async fn send(&mut self, shard: usize, batch: B) -> Result<(), PortClosed> {
        assert!(self.in_flight < self.window, "the caller keeps within the in-flight window");
        self.in_flight += 1;
        let envelope = Envelope { batch, reply_to: Some(Arc::clone(&self.replies)) };
        self.router.send(shard, envelope).await.map_err(|Closed(_)| PortClosed)
    }

    /// Takes back a batch that is done, if there is one.
    pub fn try_recv(&mut self) -> Option<B> {
        let batch = self.replies.pop()?;
        debug_assert!(self.in_flight > 0, "each batch comes home once");
        self.in_flight -= 1;
        Some(batch)
    }

    /// Waits for a batch to come back. Dropping the future loses nothing.
    ///
    /// It waits for ever when nothing is in flight, or when the shard that had the last batch in flight was dropped
    /// before its mailbox was empty: see the crate's trade-offs.
    pub async fn recv(&mut self) -> B {
        let batch = self.replies.next().await;
        debug_assert!(self.in_flight > 0, "each batch comes home once");
        self.in_flight -= 1;
        batch
    }
}
