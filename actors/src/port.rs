//! The connection side: sends batches to shards and receives them back, within a window.

use crate::channel::{Channels, Closed, FlumeChannels};
use crate::replies::Replies;
use crate::sequencer::{Placement, Work};
use crate::shard::{Ready, Router, Shard};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A shard is gone, and so are the replies to what was sent.
#[derive(Debug)]
pub struct PortClosed;

/// One connection's link to the shards.
///
/// What it sends takes effect on each shard in the order of sending, groups and rendezvous included.
///
/// Invariants: `in_flight <= window`, and the reply queue holds `window` batches, so no shard ever waits to return one;
/// while something from this port is with the sequencer, everything that is sent goes through it.
pub struct Port<S: Shard, C: Channels = FlumeChannels> {
    router: Router<S, C>,
    replies: Arc<Replies<S::Batch, C>>,
    in_flight: usize,
    window: usize,
    /// How many pieces the sequencer has not placed yet.
    unplaced: Arc<AtomicUsize>,
}

impl<S: Shard, C: Channels> Port<S, C> {
    /// A port that has at most `window` batches in flight.
    pub fn new(router: Router<S, C>, window: usize) -> Self {
        Self { router, replies: Arc::new(Replies::new(window)), in_flight: 0, window, unplaced: Arc::default() }
    }

    /// How many batches are in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// How many more batches may be sent before some must come back.
    pub fn room(&self) -> usize {
        self.window - self.in_flight
    }

    /// Sends a batch to `shard`, waiting while its mailbox is full.
    ///
    /// Dropping the future while it waits may lose the batch, and its place in the window: a caller that gives up a
    /// send must drop the port.
    ///
    /// # Panics
    /// If the window is used up: the caller checks [`room`](Self::room) before it accepts work.
    pub async fn send(&mut self, shard: usize, batch: S::Batch) -> Result<(), PortClosed> {
        if self.unplaced.load(Ordering::Acquire) > 0 {
            return self.send_group(vec![(shard, batch)]).await;
        }
        self.take_places(1);
        let ready = Ready { batch, reply_to: Some(Arc::clone(&self.replies)) };
        self.router.send(shard, ready).await.map_err(|Closed(())| PortClosed)
    }

    /// Sends a batch to `shard` unless that needs waiting; then returns it, for [`send`](Self::send).
    ///
    /// # Panics
    /// Like [`send`](Self::send).
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

    /// Runs a batch for `shard` here and now, as its shard would if it were sent and served at once. Returns the batch,
    /// to be sent, if something of this port or another must come before it, or the router has no
    /// [homes](Router::open_homes). What has run comes back as it does from a shard, but wakes nobody.
    ///
    /// # Panics
    /// Like [`send`](Self::send).
    #[inline]
    pub fn try_run_in_place(&mut self, shard: usize, batch: S::Batch) -> Result<(), S::Batch> {
        if self.unplaced.load(Ordering::Acquire) > 0 {
            return Err(batch);
        }
        self.take_places(1);
        self.router.try_run_in_place(shard, batch, &self.replies).inspect_err(|_| self.in_flight -= 1)
    }

    /// Sends a batch to each of several shards, so that all of them take effect at one point in the order: a client
    /// that sees the effect of one sees those of all.
    ///
    /// Dropping the future while it waits sends all or nothing, and the port must be dropped as for
    /// [`send`](Self::send).
    ///
    /// # Panics
    /// Like [`send`](Self::send), and if a shard has two parts: it would wait at one for room to place the other.
    pub async fn send_group(&mut self, parts: Vec<(usize, S::Batch)>) -> Result<(), PortClosed> {
        assert!(are_distinct(parts.iter().map(|&(shard, _)| shard)), "each shard has one part of a group");
        self.take_places(parts.len());
        let reply_to = Arc::clone(&self.replies);
        self.place(Work::Group { parts, reply_to }).await
    }

    /// Sends a batch that needs the state of several shards at once: [`Shard::execute_cross_shard`] executes it, and it
    /// comes back as one batch. Dropping the future has the same effect as for [`send_group`](Self::send_group).
    ///
    /// # Panics
    /// Like [`send`](Self::send), and unless there are at least two shards, each named once: a single shard is sent a
    /// batch of its own, and one that is named twice would wait for itself.
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

    /// Lets batches be executed again after one came back [unfinished](Shard::is_unfinished): the rest of all that came
    /// back is sent next, in the original order.
    ///
    /// # Panics
    /// If something is in flight: it may be left undone on one shard, and batches sent now would overtake it.
    pub fn resume(&mut self) {
        assert!(self.in_flight == 0, "a port resumes when all that it sent is back");
        self.replies.set_held(false);
    }

    /// Takes a batch that has come back, if there is one.
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
    /// It waits for ever if nothing is in flight, or if the shard that had the last batch in flight was dropped before
    /// its mailbox was empty: see the crate's trade-offs.
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
