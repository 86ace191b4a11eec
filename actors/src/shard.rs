//! The shard side: a mailbox, and the loop that serves it in turns.

use crate::channel::{Channels, Closed, FlumeChannels, Receiver, Sender, TrySendError};
use crate::replies::Replies;
use crate::yielding::yield_now;
use std::sync::Arc;

/// The owner of a part of the state.
pub trait Shard: Send + 'static {
    /// What travels to the shard and back: work on the way there, results on the way home.
    type Batch: Send + 'static;

    /// Called before the first batch of a turn: the place to freeze a clock.
    fn begin_turn(&mut self) {}

    /// Called for a few batches of a turn before the first of them is executed: the place to fetch what they will need.
    fn look_ahead(&mut self, batch: &Self::Batch) {
        let _ = batch; // the default fetches nothing
    }

    /// Does the work of one batch and leaves the results in it.
    fn execute(&mut self, batch: &mut Self::Batch);

    /// Whether a turn that begins with this batch first lets other tasks add theirs. Small batches cost less together;
    /// a large one is best served while its bytes are in the cache.
    fn gathers(&self, first: &Self::Batch) -> bool {
        let _ = first; // the default does not tell batches apart
        true
    }

    /// Called after the last batch of a turn and before any of them goes home: the place to write a log.
    fn end_turn(&mut self, batches: &mut dyn Iterator<Item = &mut Self::Batch>) {
        let _ = batches; // the default has nothing to add to a finished batch
    }
}

/// Batches that are looked ahead at together.
const LOOK_AHEAD: usize = 16;

/// A batch on its way to a shard, with the address it goes home to.
pub struct Envelope<B: Send + 'static, C: Channels = FlumeChannels> {
    pub(crate) batch: B,
    pub(crate) reply_to: Option<Arc<Replies<B, C>>>,
}

/// The receiving end of a shard's mailbox.
pub type Mailbox<B, C = FlumeChannels> = <C as Channels>::Receiver<Envelope<B, C>>;

/// How many batches a shard takes in one turn before it gives way to other tasks.
///
/// A turn is what one log write covers and what one clock reading is good for; its bound is what other tasks on the
/// same thread wait for.
#[derive(Debug, Clone, Copy)]
pub struct TurnLimit(pub usize);

/// The sending ends of every shard's mailbox.
pub struct Router<B: Send + 'static, C: Channels = FlumeChannels> {
    mailboxes: Arc<[C::Sender<Envelope<B, C>>]>,
}

impl<B: Send + 'static, C: Channels> Clone for Router<B, C> {
    fn clone(&self) -> Self {
        Self { mailboxes: Arc::clone(&self.mailboxes) }
    }
}

impl<B: Send + 'static, C: Channels> Router<B, C> {
    /// Mailboxes for `shards` shards, each holding up to `capacity` batches.
    pub fn new(shards: usize, capacity: usize) -> (Self, Vec<Mailbox<B, C>>) {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..shards).map(|_| C::bounded(capacity)).unzip();
        (Self { mailboxes: senders.into() }, receivers)
    }

    /// How many shards there are.
    pub fn shards(&self) -> usize {
        self.mailboxes.len()
    }

    /// How many batches wait for `shard`: a gauge.
    pub fn queue_depth(&self, shard: usize) -> usize {
        self.mailboxes[shard].len()
    }

    /// Sends a batch that nobody waits for; waits while the mailbox is full.
    pub async fn send_and_forget(&self, shard: usize, batch: B) -> Result<(), Closed<B>> {
        let envelope = Envelope { batch, reply_to: None };
        self.mailboxes[shard].send(envelope).await.map_err(|Closed(envelope)| Closed(envelope.batch))
    }

    pub(crate) async fn send(&self, shard: usize, envelope: Envelope<B, C>) -> Result<(), Closed<B>> {
        // The mailbox has room nearly always, and a future that waits for it costs an allocation.
        match self.mailboxes[shard].try_send(envelope) {
            Ok(()) => Ok(()),
            Err(TrySendError::Closed(envelope)) => Err(Closed(envelope.batch)),
            Err(TrySendError::Full(envelope)) => {
                self.mailboxes[shard].send(envelope).await.map_err(|Closed(envelope)| Closed(envelope.batch))
            }
        }
    }
}

/// Serves one shard until every sender of its mailbox is gone, then gives the shard back.
///
/// After its first batch of a turn the shard lets the tasks that are ready run: connections woken by the same visit to
/// the network add their batches, and one turn serves them all.
pub async fn run_shard<S: Shard, C: Channels>(mut shard: S, mut mailbox: Mailbox<S::Batch, C>, limit: TurnLimit) -> S {
    let mut turn: Vec<Envelope<S::Batch, C>> = Vec::with_capacity(limit.0);
    while let Some(first) = mailbox.recv().await {
        let gathers = shard.gathers(&first.batch);
        turn.push(first);
        if gathers {
            yield_now().await;
        }
        loop {
            while turn.len() < limit.0
                && let Some(envelope) = mailbox.try_recv()
            {
                turn.push(envelope);
            }
            run_turn(&mut shard, &mut turn);
            let Some(next) = mailbox.try_recv() else { break };
            turn.push(next);
            yield_now().await;
        }
    }
    shard
}

fn run_turn<S: Shard, C: Channels>(shard: &mut S, turn: &mut Vec<Envelope<S::Batch, C>>) {
    shard.begin_turn();
    for group in turn.chunks_mut(LOOK_AHEAD) {
        group.iter().for_each(|envelope| shard.look_ahead(&envelope.batch));
        group.iter_mut().for_each(|envelope| shard.execute(&mut envelope.batch));
    }
    shard.end_turn(&mut turn.iter_mut().map(|envelope| &mut envelope.batch));
    for Envelope { batch, reply_to } in turn.drain(..) {
        if let Some(replies) = reply_to {
            replies.push(batch);
        }
    }
}
