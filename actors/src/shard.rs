//! The shard side: a mailbox, and the loop that serves it in turns.

use crate::channel::{Channels, Closed, FlumeChannels, Receiver, Sender, TrySendError};
use crate::home::Home;
use crate::replies::Replies;
use crate::sequencer::{Placement, Sequenced, Sequencer};
use crate::yielding::yield_now;
use std::sync::Arc;

/// The owner of a part of the state.
pub trait Shard: Send + 'static {
    /// What travels to the shard and back: work on the way to it, results on the way back.
    type Batch: Send + 'static;

    /// Called before a turn of one batch that a port runs [in place](crate::Port::try_run_in_place).
    fn note_in_place(&mut self) {}

    /// Called before the first batch of a turn; may freeze a clock.
    fn begin_turn(&mut self) {}

    /// Called for each of several batches of a turn before the first of them is executed; may prefetch what they will
    /// need. Not called for the last batches of a turn if they are few.
    fn look_ahead(&mut self, batch: &Self::Batch) {
        let _ = batch; // By default, fetches nothing.
    }

    /// Executes one batch and leaves the results in it.
    fn execute(&mut self, batch: &mut Self::Batch);

    /// Called before a batch that is part of a group, at the group's [moment](crate::Timeline::moment).
    fn begin_part(&mut self) {}

    /// Called after the shard's part of a group, or after a rendezvous. With a timeline the shard
    /// [passes](crate::Timeline::pass) the piece.
    fn end_sequenced(&mut self) {}

    /// Whether the shard stopped within the batch, for example because its results have grown large. The batch is
    /// returned as it is, and later batches of its port are [left](Self::leave), until the port calls
    /// [`resume`](crate::Port::resume).
    fn is_unfinished(batch: &Self::Batch) -> bool {
        let _ = batch; // By default, every batch is finished.
        false
    }

    /// Leaves a batch undone, to be returned as it is, because an earlier one of its port is unfinished. False if it
    /// must be executed nevertheless, because it takes effect together with others.
    fn leave(&mut self, batch: &mut Self::Batch) -> bool {
        let _ = batch; // By default, every batch is finished.
        false
    }

    /// Whether a turn that begins with this batch first lets other tasks add theirs. Small batches cost less together;
    /// a large one is best executed while its bytes are in the cache.
    fn gathers(&self, first: &Self::Batch) -> bool {
        let _ = first; // By default, batches are not distinguished.
        true
    }

    /// Executes a batch that needs the state of several shards, which they have lent, in the order in which the batch
    /// named them, at the [moment](crate::Timeline::moment) of the rendezvous. It is a turn of its own for each of
    /// them: no other method is called for it.
    fn execute_cross_shard(shards: &mut [Box<Self>], batch: &mut Self::Batch)
    where
        Self: Sized,
    {
        let _ = (shards, batch);
        panic!("this kind of shard has no work over several shards");
    }

    /// Called after the last batch of a turn and before any of them is returned; may write a log.
    fn end_turn(&mut self, batches: &mut dyn Iterator<Item = &mut Self::Batch>) {
        let _ = batches; // By default, adds nothing to a finished batch.
    }
}

/// How many batches are prefetched for together.
const LOOK_AHEAD: usize = 16;
/// With fewer batches, measurements over 100,000 keys and 3,000,000 found no gain.
const LOOK_AHEAD_MIN: usize = 4;

/// The most parts of groups in one turn.
pub(crate) const PARTS_PER_TURN: usize = 256;

/// A batch of a turn.
pub(crate) struct Taken<B: Send + 'static, C: Channels> {
    ready: Ready<B, C>,
    /// Whether it is part of a group.
    is_part: bool,
}

/// A batch that may run, with the address to which it is returned.
pub(crate) struct Ready<B: Send + 'static, C: Channels> {
    pub(crate) batch: B,
    pub(crate) reply_to: Option<Arc<Replies<B, C>>>,
}

/// The contents of a mailbox.
pub struct Envelope<S: Shard, C: Channels = FlumeChannels>(pub(crate) Content<S, C>);

/// A batch of this shard alone, or work that is also in other mailboxes.
pub(crate) enum Content<S: Shard, C: Channels> {
    Batch(Ready<S::Batch, C>),
    Sequenced(Box<Sequenced<S, C>>),
}

/// The receiving end of a shard's mailbox.
pub type Mailbox<S, C = FlumeChannels> = <C as Channels>::Receiver<Envelope<S, C>>;

/// The sending ends of all mailboxes.
pub(crate) type Mailboxes<S, C> = Arc<[<C as Channels>::Sender<Envelope<S, C>>]>;

/// How many batches a shard takes in one turn before it yields to other tasks.
///
/// A turn shares one log write and one clock reading; its bound is how long other tasks on the same thread wait.
#[derive(Debug, Clone, Copy)]
pub struct TurnLimit(pub usize);

/// The sending ends of every shard's mailbox, and of the sequencer's.
pub struct Router<S: Shard, C: Channels = FlumeChannels> {
    mailboxes: Mailboxes<S, C>,
    sequencer: C::Sender<Placement<S, C>>,
    /// Where the states are, if ports may run batches in place.
    homes: Option<Arc<[Home<S, C>]>>,
}

impl<S: Shard, C: Channels> Clone for Router<S, C> {
    fn clone(&self) -> Self {
        Self { mailboxes: Arc::clone(&self.mailboxes), sequencer: self.sequencer.clone(), homes: self.homes.clone() }
    }
}

impl<S: Shard, C: Channels> Router<S, C> {
    /// Mailboxes for `shards` shards and for the sequencer, each holding up to `capacity` batches.
    pub fn new(shards: usize, capacity: usize) -> (Self, Vec<Mailbox<S, C>>, Sequencer<S, C>) {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..shards).map(|_| C::bounded(capacity)).unzip();
        let mailboxes: Mailboxes<S, C> = senders.into();
        let (sequencer, mailbox) = C::bounded(capacity);
        let router = Self { mailboxes: Arc::clone(&mailboxes), sequencer, homes: None };
        (router, receivers, Sequencer { mailbox, mailboxes, mailbox_capacity: capacity, timeline: None })
    }

    /// Lets ports of this router run batches in place. Each shard is to be served at its home, by
    /// [`run_shard_at_home`].
    pub fn open_homes(&mut self) -> Vec<Home<S, C>> {
        let homes: Vec<Home<S, C>> = self.mailboxes.iter().map(|_| Home::new()).collect();
        self.homes = Some(homes.clone().into());
        homes
    }

    /// How many shards there are.
    pub fn shards(&self) -> usize {
        self.mailboxes.len()
    }

    /// How many batches wait for `shard`: a gauge.
    pub fn queue_depth(&self, shard: usize) -> usize {
        self.mailboxes[shard].len()
    }

    /// Sends a batch whose results are not needed; waits while the mailbox is full.
    pub async fn send_and_forget(&self, shard: usize, batch: S::Batch) -> Result<(), Closed<()>> {
        self.send(shard, Ready { batch, reply_to: None }).await
    }

    /// Returns the batch if the mailbox is full, or its shard is gone.
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
        // The mailbox nearly always has room, and a future that waits for it costs an allocation.
        match self.try_send(shard, ready) {
            Ok(()) => Ok(()),
            Err(ready) => {
                let envelope = Envelope(Content::Batch(ready));
                self.mailboxes[shard].send(envelope).await.map_err(|Closed(_)| Closed(()))
            }
        }
    }

    /// Runs a batch in place, if the state of its shard is at home and nothing waits in the mailbox; otherwise returns
    /// the batch.
    pub(crate) fn try_run_in_place(
        &self,
        shard: usize,
        mut batch: S::Batch,
        replies: &Replies<S::Batch, C>,
    ) -> Result<(), S::Batch> {
        let Some(home) = self.homes.as_ref().map(|homes| &homes[shard]) else { return Err(batch) };
        let Some(mut state) = home.take() else { return Err(batch) };
        // In this order: nothing leaves the mailbox while the state is here.
        if !self.mailboxes[shard].is_empty() {
            home.give_back(state);
            return Err(batch);
        }
        state.note_in_place();
        state.begin_turn();
        run_batch(&mut *state, &mut batch, Some(replies));
        state.end_turn(&mut std::iter::once(&mut batch));
        home.give_back(state);
        replies.push_quietly(batch);
        Ok(())
    }

    pub(crate) async fn place(&self, placement: Placement<S, C>) -> Result<(), Closed<()>> {
        match self.sequencer.try_send(placement) {
            Ok(()) => Ok(()),
            Err(TrySendError::Closed(_)) => Err(Closed(())),
            Err(TrySendError::Full(placement)) => self.sequencer.send(placement).await.map_err(|Closed(_)| Closed(())),
        }
    }
}

/// Serves one shard until every sender of its mailbox is gone, then returns the shard.
///
/// After its first batch of a turn the shard lets ready tasks run: connections woken by the same poll of the network
/// add their batches, and one turn serves them all.
///
/// # Panics
/// If a turn may hold no batch.
pub async fn run_shard<S: Shard, C: Channels>(shard: S, mut mailbox: Mailbox<S, C>, limit: TurnLimit) -> S {
    let mut shard = Box::new(shard);
    let mut turn = empty_turn(limit);
    while let Some(first) = mailbox.recv().await {
        shard = serve(shard, first, &mut mailbox, &mut turn, limit).await;
    }
    *shard
}

/// Serves one shard as [`run_shard`] does. While its mailbox is empty, its state is at home, where ports find it to run
/// batches [in place](crate::Port::try_run_in_place).
///
/// # Panics
/// If a turn may hold no batch.
pub async fn run_shard_at_home<S: Shard, C: Channels>(
    shard: S,
    home: Home<S, C>,
    mut mailbox: Mailbox<S, C>,
    limit: TurnLimit,
) -> S {
    home.put(Box::new(shard));
    let mut turn = empty_turn(limit);
    loop {
        let (shard, first) = home.next(&mut mailbox).await;
        let Some(first) = first else { return *shard };
        home.put(serve(shard, first, &mut mailbox, &mut turn, limit).await);
    }
}

fn empty_turn<B: Send + 'static, C: Channels>(limit: TurnLimit) -> Vec<Taken<B, C>> {
    assert!(limit.0 > 0, "a turn has room for a batch");
    Vec::with_capacity(limit.0)
}

/// Serves a mailbox, from something that was in it until it is empty.
async fn serve<S: Shard, C: Channels>(
    mut shard: Box<S>,
    first: Envelope<S, C>,
    mailbox: &mut Mailbox<S, C>,
    turn: &mut Vec<Taken<S::Batch, C>>,
    limit: TurnLimit,
) -> Box<S> {
    if gathers(&*shard, &first) {
        yield_now().await;
    }
    let mut next = Some(first);
    loop {
        let sequenced = fill_turn(turn, next.take(), mailbox, limit);
        if !turn.is_empty() {
            run_turn(&mut *shard, turn);
        }
        if let Some(sequenced) = sequenced {
            shard = pass(sequenced, shard, turn).await;
        }
        if turn.is_empty() {
            next = mailbox.try_recv();
            if next.is_none() {
                return shard;
            }
            yield_now().await;
        }
    }
}

fn gathers<S: Shard, C: Channels>(shard: &S, Envelope(content): &Envelope<S, C>) -> bool {
    match content {
        Content::Batch(ready) => shard.gathers(&ready.batch),
        Content::Sequenced(_) => false,
    }
}

/// Takes batches into the turn until it is full, the mailbox is empty, or work comes that must be waited for.
fn fill_turn<S: Shard, C: Channels>(
    turn: &mut Vec<Taken<S::Batch, C>>,
    mut next: Option<Envelope<S, C>>,
    mailbox: &mut Mailbox<S, C>,
    limit: TurnLimit,
) -> Option<Sequenced<S, C>> {
    let mut parts = turn.iter().filter(|taken| taken.is_part).count();
    while turn.len() < limit.0 && parts < PARTS_PER_TURN {
        let Envelope(content) = next.take().or_else(|| mailbox.try_recv())?;
        match content {
            Content::Batch(ready) => turn.push(Taken { ready, is_part: false }),
            Content::Sequenced(sequenced) => match *sequenced {
                Sequenced::Part { ready, gate, place } if gate.try_pass(place) => {
                    turn.push(Taken { ready, is_part: true });
                    parts += 1;
                }
                sequenced => return Some(sequenced),
            },
        }
    }
    None
}

/// Waits until sequenced work is armed: a part joins the next turn, a rendezvous is held.
async fn pass<S: Shard, C: Channels>(
    sequenced: Sequenced<S, C>,
    shard: Box<S>,
    turn: &mut Vec<Taken<S::Batch, C>>,
) -> Box<S> {
    match sequenced {
        Sequenced::Part { ready, gate, place } => {
            gate.pass(place).await;
            turn.push(Taken { ready, is_part: true });
            shard
        }
        Sequenced::Rendezvous { rendezvous, place } => {
            let mut shard = rendezvous.attend(place, shard).await;
            shard.end_sequenced();
            shard
        }
    }
}

fn run_batch<S: Shard, C: Channels>(shard: &mut S, batch: &mut S::Batch, reply_to: Option<&Replies<S::Batch, C>>) {
    let is_held = reply_to.is_some_and(Replies::is_held);
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

fn run_taken<S: Shard, C: Channels>(shard: &mut S, Taken { ready, is_part }: &mut Taken<S::Batch, C>) {
    let Ready { batch, reply_to } = ready;
    if !*is_part {
        return run_batch(shard, batch, reply_to.as_deref());
    }
    shard.begin_part();
    run_batch(shard, batch, reply_to.as_deref());
    shard.end_sequenced();
}

fn run_turn<S: Shard, C: Channels>(shard: &mut S, turn: &mut Vec<Taken<S::Batch, C>>) {
    shard.begin_turn();
    for group in turn.chunks_mut(LOOK_AHEAD) {
        // Prefetching so few batches would come too late.
        if group.len() >= LOOK_AHEAD_MIN {
            group.iter().for_each(|taken| shard.look_ahead(&taken.ready.batch));
        }
        group.iter_mut().for_each(|taken| run_taken(shard, taken));
    }
    shard.end_turn(&mut turn.iter_mut().map(|taken| &mut taken.ready.batch));
    for Taken { ready: Ready { batch, reply_to }, .. } in turn.drain(..) {
        if let Some(replies) = reply_to {
            replies.push(batch);
        }
    }
}
