//! The connection side: sends batches to shards and takes them back, within a window.

use crate::channel::{Channels, Closed, FlumeChannels};
use crate::replies::Replies;
use crate::sequencer::{Placement, Work};
use crate::shard::{Ready, Router, Shard};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A shard is gone, and with it the answer to what was sent.
#[derive(Debug)]
pub struct PortClosed;

/// One connection's way to the shards and back.
///
/// What it sends takes effect on each shard in the order in which it was sent, groups and rendezvous included.
///
/// Invariants: `in_flight <= window`, and the reply queue holds `window` batches, so no shard ever waits to give one
/// back; while something of this port is on its way through the sequencer, all that is sent goes that way.
pub struct Port<S: Shard, C: Channels = FlumeChannels> {
    router: Router<S, C>,
    replies: Arc<Replies<S::Batch, C>>,
    in_flight: usize,
    window: usize,
    /// What the sequencer has not placed yet.
    unplaced: Arc<AtomicUsize>,
}

impl<S: Shard, C: Channels> Port<S, C> {
    /// A port that has at most `window` batches in flight.
    pub fn new(router: Router<S, C>, window: usize) -> Self {
        Self { router, replies: Arc::new(Replies::new(window)), in_flight: 0, window, unplaced: Arc::default() }
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
    pub async fn send(&mut self, shard: usize, batch: S::Batch) -> Result<(), PortClosed> {
        if self.unplaced.load(Ordering::Acquire) > 0 {
            return self.send_group(vec![(shard, batch)]).await;
        }
        self.take_places(1);
        let ready = Ready { batch, reply_to: Some(Arc::clone(&self.replies)) };
        self.router.send(shard, ready).await.map_err(|Closed(())| PortClosed)
    }

    /// Sends a batch to `shard` unless that takes waiting; then gives it back, for [`send`](Self::send).
    ///
    /// # Panics
    /// As [`send`](Self::send).
    #[inline]
    pub fn try_send(&mut self, shard: usize, batch: S::Batch) -> Result<(), S::Batch> {
        if self.unplaced.load(Ordering::Acquire) > 0 {
            return Err(batch);
        }
        self.take_places(1);
        let ready = Ready { batch, reply_to: Some(Arc::clone(&self.replies)) };
        self.router.try_send(shard, ready).map_err(|ready| {
            self.in_flight -= 1;
            ready.batch
        })
    }

    /// Sends a batch to each of several shards, so that all of them take effect at one point of the order of things:
    /// whoever sees the effect of one sees that of all.
    ///
    /// Dropping the future while it waits sends all or nothing, and gives up the port as it does for
    /// [`send`](Self::send).
    ///
    /// # Panics
    /// As [`send`](Self::send), and when a shard has two parts: it would wait at one for room to place the other.
    pub async fn send_group(&mut self, parts: Vec<(usize, S::Batch)>) -> Result<(), PortClosed> {
        assert!(are_distinct(parts.iter().map(|&(shard, _)| shard)), "each shard has one part of a group");
        self.take_places(parts.len());
        let reply_to = Arc::clone(&self.replies);
        self.place(Work::Group { parts, reply_to }).await
    }

    /// Sends a batch that needs the state of several shards at once: it is done by [`Shard::execute_cross_shard`], and
    /// comes back as one batch. Dropping the future does what it does for [`send_group`](Self::send_group).
    ///
    /// # Panics
    /// As [`send`](Self::send), and unless there are two shards or more, each named once: one is sent a batch of its
    /// own, and one that is named twice would wait for itself.
    pub async fn send_cross_shard(&mut self, shards: Vec<usize>, batch: S::Batch) -> Result<(), PortClosed> {
        assert!(shards.len() > 1 && are_distinct(shards.iter().copied()), "shards meet, each with one state to lend");
        self.take_places(1);
        let reply_to = Arc::clone(&self.replies);
        self.place(Work::Rendezvous { shards, batch, reply_to }).await
    }

    fn take_places(&mut self, batches: usize) {
        assert!(self.in_flight + batches <= self.window, "the caller keeps within the in-flight window");
        self.in_flight += batches;
    }

    async fn place(&mut self, work: Work<S, C>) -> Result<(), PortClosed> {
        self.unplaced.fetch_add(1, Ordering::Relaxed);
        let placement = Placement { work, unplaced: Arc::clone(&self.unplaced) };
        self.router.place(placement).await.map_err(|Closed(())| PortClosed)
    }

    /// Lets batches be executed again after one came back [unfinished](Shard::is_unfinished): what is left of all that
    /// came back is sent next, in the order in which it was sent first.
    ///
    /// # Panics
    /// When something is in flight: it may be left undone on one shard, and what is sent now overtake it.
    pub fn resume(&mut self) {
        assert!(self.in_flight == 0, "a port resumes when all that it sent is back");
        self.replies.set_held(false);
    }

    /// Takes back a batch that is done, if there is one.
    pub fn try_recv(&mut self) -> Option<S::Batch> {
        if self.in_flight == 0 {
            return None;
        }
        let batch = self.replies.pop()?;
        self.in_flight -= 1;
        Some(batch)
    }

    /// Waits for a batch to come back. Dropping the future loses nothing.
    ///
    /// It waits for ever when nothing is in flight, or when the shard that had the last batch in flight was dropped
    /// before its mailbox was empty: see the crate's trade-offs.
    pub async fn recv(&mut self) -> S::Batch {
        let batch = self.replies.next().await;
        debug_assert!(self.in_flight > 0, "each batch comes home once");
        self.in_flight -= 1;
        batch
    }
}

fn are_distinct(mut shards: impl Iterator<Item = usize> + Clone) -> bool {
    // There are few: comparing all costs less than sorting.
    while let Some(shard) = shards.next() {
        if shards.clone().any(|other| other == shard) {
            return false;
        }
    }
    true
}
