//! The shard side: a mailbox, and the loop that serves it in turns.

use crate::channel::{Channels, Closed, FlumeChannels, Receiver, Sender, TrySendError};
use crate::replies::Replies;
use crate::sequencer::{Placement, Sequenced, Sequencer};
use crate::yielding::yield_now;
use std::sync::Arc;

/// The owner of a part of the state.
pub trait Shard: Send + 'static {
    /// What travels to the shard and back: work on the way there, results on the way home.
    type Batch: Send + 'static;

    /// Called before the first batch of a turn: the place to freeze a clock.
    fn begin_turn(&mut self) {}

    /// Called for each of several batches of a turn before the first of them is executed: the place to fetch what they
    /// will need. Not for the last of a turn, where they are few.
    fn look_ahead(&mut self, batch: &Self::Batch) {
        let _ = batch; // the default fetches nothing
    }

    /// Does the work of one batch and leaves the results in it.
    fn execute(&mut self, batch: &mut Self::Batch);

    /// Whether the shard stopped within the batch, because its results have grown large, say. It goes home as it is,
    /// and what its port has sent after it is [left](Self::leave), until the port says [`resume`](crate::Port::resume).
    fn is_unfinished(batch: &Self::Batch) -> bool {
        let _ = batch; // the default finishes every batch
        false
    }

    /// Leaves a batch undone, to go home as it is: an earlier one of its port is unfinished. False where it has to be
    /// executed all the same, since it takes effect together with others.
    fn leave(&mut self, batch: &mut Self::Batch) -> bool {
        let _ = batch; // the default finishes every batch
        false
    }

    /// Whether a turn that begins with this batch first lets other tasks add theirs. Small batches cost less together;
    /// a large one is best served while its bytes are in the cache.
    fn gathers(&self, first: &Self::Batch) -> bool {
        let _ = first; // the default does not tell batches apart
        true
    }

    /// Does the work of a batch that needs the state of several shards, which they have lent: in the order in which
    /// the batch named them. It is a turn of its own for each of them: nothing else is called for it.
    fn execute_cross_shard(shards: &mut [Self], batch: &mut Self::Batch)
    where
        Self: Sized,
    {
        let _ = (shards, batch);
        panic!("this kind of shard has no work over several shards");
    }

    /// Called after the last batch of a turn and before any of them goes home: the place to write a log.
    fn end_turn(&mut self, batches: &mut dyn Iterator<Item = &mut Self::Batch>) {
        let _ = batches; // the default has nothing to add to a finished batch
    }
}

/// Batches that are looked ahead at together.
const LOOK_AHEAD: usize = 16;
/// For fewer, looking ahead was not found to pay, over 100,000 keys or 3,000,000.
const LOOK_AHEAD_MIN: usize = 4;

/// A batch that may run, with the address it goes home to.
pub(crate) struct Ready<B: Send + 'static, C: Channels> {
    pub(crate) batch: B,
    pub(crate) reply_to: Option<Arc<Replies<B, C>>>,
}

/// What a mailbox holds.
pub struct Envelope<S: Shard, C: Channels = FlumeChannels>(pub(crate) Content<S, C>);

/// A batch of this shard alone, or work that stands in other mailboxes too.
pub(crate) enum Content<S: Shard, C: Channels> {
    Batch(Ready<S::Batch, C>),
    Sequenced(Box<Sequenced<S, C>>),
}

/// The receiving end of a shard's mailbox.
pub type Mailbox<S, C = FlumeChannels> = <C as Channels>::Receiver<Envelope<S, C>>;

/// The sending ends of all mailboxes.
pub(crate) type Mailboxes<S, C> = Arc<[<C as Channels>::Sender<Envelope<S, C>>]>;

/// How many batches a shard takes in one turn before it gives way to other tasks.
///
/// A turn is what one log write covers and what one clock reading is good for; its bound is what other tasks on the
/// same thread wait for.
#[derive(Debug, Clone, Copy)]
pub struct TurnLimit(pub usize);

/// The sending ends of every shard's mailbox, and of the sequencer's.
pub struct Router<S: Shard, C: Channels = FlumeChannels> {
    mailboxes: Mailboxes<S, C>,
    sequencer: C::Sender<Placement<S, C>>,
}

impl<S: Shard, C: Channels> Clone for Router<S, C> {
    fn clone(&self) -> Self {
        Self { mailboxes: Arc::clone(&self.mailboxes), sequencer: self.sequencer.clone() }
    }
}

impl<S: Shard, C: Channels> Router<S, C> {
    /// Mailboxes for `shards` shards and for the sequencer, each holding up to `capacity` batches.
    pub fn new(shards: usize, capacity: usize) -> (Self, Vec<Mailbox<S, C>>, Sequencer<S, C>) {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..shards).map(|_| C::bounded(capacity)).unzip();
        let mailboxes: Mailboxes<S, C> = senders.into();
        let (sequencer, mailbox) = C::bounded(capacity);
        let router = Self { mailboxes: Arc::clone(&mailboxes), sequencer };
        (router, receivers, Sequencer { mailbox, mailboxes })
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
    pub async fn send_and_forget(&self, shard: usize, batch: S::Batch) -> Result<(), Closed<()>> {
        self.send(shard, Ready { batch, reply_to: None }).await
    }

    /// Gives the batch back when the mailbox is full, or its shard is gone.
    #[inline]
    pub(crate) fn try_send(&self, shard: usize, ready: Ready<S::Batch, C>) -> Result<(), Ready<S::Batch, C>> {
        self.mailboxes[shard].try_send(Envelope(Content::Batch(ready))).map_err(|error| {
            let (TrySendError::Full(Envelope(content)) | TrySendError::Closed(Envelope(content))) = error;
            match content {
                Content::Batch(ready) => ready,
                Content::Sequenced(_) => unreachable!("a batch was sent"),
            }
        })
    }

    pub(crate) async fn send(&self, shard: usize, ready: Ready<S::Batch, C>) -> Result<(), Closed<()>> {
        // The mailbox has room nearly always, and a future that waits for it costs an allocation.
        match self.try_send(shard, ready) {
            Ok(()) => Ok(()),
            Err(ready) => {
                let envelope = Envelope(Content::Batch(ready));
                self.mailboxes[shard].send(envelope).await.map_err(|Closed(_)| Closed(()))
            }
        }
    }

    pub(crate) async fn place(&self, placement: Placement<S, C>) -> Result<(), Closed<()>> {
        match self.sequencer.try_send(placement) {
            Ok(()) => Ok(()),
            Err(TrySendError::Closed(_)) => Err(Closed(())),
            Err(TrySendError::Full(placement)) => self.sequencer.send(placement).await.map_err(|Closed(_)| Closed(())),
        }
    }
}

/// Serves one shard until every sender of its mailbox is gone, then gives the shard back.
///
/// After its first batch of a turn the shard lets the tasks that are ready run: connections woken by the same visit to
/// the network add their batches, and one turn serves them all.
///
/// # Panics
/// When a turn may hold no batch.
pub async fn run_shard<S: Shard, C: Channels>(mut shard: S, mut mailbox: Mailbox<S, C>, limit: TurnLimit) -> S {
    assert!(limit.0 > 0, "a turn has room for a batch");
    let mut turn: Vec<Ready<S::Batch, C>> = Vec::with_capacity(limit.0);
    while let Some(first) = mailbox.recv().await {
        if gathers(&shard, &first) {
            yield_now().await;
        }
        let mut next = Some(first);
        loop {
            let barrier = fill_turn(&mut turn, next.take(), &mut mailbox, limit);
            if !turn.is_empty() {
                run_turn(&mut shard, &mut turn);
            }
            if let Some(sequenced) = barrier {
                shard = pass(sequenced, shard, &mut turn).await;
            }
            if turn.is_empty() {
                next = mailbox.try_recv();
                if next.is_none() {
                    break;
                }
                yield_now().await;
            }
        }
    }
    shard
}

fn gathers<S: Shard, C: Channels>(shard: &S, Envelope(content): &Envelope<S, C>) -> bool {
    match content {
        Content::Batch(ready) => shard.gathers(&ready.batch),
        Content::Sequenced(_) => false,
    }
}

/// Takes batches into the turn until it is full, the mailbox is empty, or work comes that has to be waited for.
fn fill_turn<S: Shard, C: Channels>(
    turn: &mut Vec<Ready<S::Batch, C>>,
    mut next: Option<Envelope<S, C>>,
    mailbox: &mut Mailbox<S, C>,
    limit: TurnLimit,
) -> Option<Sequenced<S, C>> {
    while turn.len() < limit.0 {
        let Envelope(content) = next.take().or_else(|| mailbox.try_recv())?;
        match content {
            Content::Batch(ready) => turn.push(ready),
            Content::Sequenced(sequenced) => match *sequenced {
                Sequenced::Part { ready, gate, place } if gate.try_pass(place) => turn.push(ready),
                sequenced => return Some(sequenced),
            },
        }
    }
    None
}

/// Waits until sequenced work is armed: a part joins the next turn, a rendezvous is held.
async fn pass<S: Shard, C: Channels>(sequenced: Sequenced<S, C>, shard: S, turn: &mut Vec<Ready<S::Batch, C>>) -> S {
    match sequenced {
        Sequenced::Part { ready, gate, place } => {
            gate.pass(place).await;
            turn.push(ready);
            shard
        }
        Sequenced::Rendezvous { rendezvous, place } => rendezvous.attend(place, shard).await,
    }
}

fn run_batch<S: Shard, C: Channels>(shard: &mut S, Ready { batch, reply_to }: &mut Ready<S::Batch, C>) {
    let is_held = reply_to.as_ref().is_some_and(|replies| replies.is_held());
    if is_held && shard.leave(batch) {
        return;
    }
    shard.execute(batch);
    if S::is_unfinished(batch)
        && let Some(replies) = reply_to
    {
        replies.set_held(true);
    }
}

fn run_turn<S: Shard, C: Channels>(shard: &mut S, turn: &mut Vec<Ready<S::Batch, C>>) {
    shard.begin_turn();
    for group in turn.chunks_mut(LOOK_AHEAD) {
        // What the next batch needs is there no sooner for being asked for.
        if group.len() >= LOOK_AHEAD_MIN {
            group.iter().for_each(|ready| shard.look_ahead(&ready.batch));
        }
        group.iter_mut().for_each(|ready| run_batch(shard, ready));
    }
    shard.end_turn(&mut turn.iter_mut().map(|ready| &mut ready.batch));
    for Ready { batch, reply_to } in turn.drain(..) {
        if let Some(replies) = reply_to {
            replies.push(batch);
        }
    }
}
