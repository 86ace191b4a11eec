//! The sequencer: work for several shards, at one point of one order.
//!
//! If a connection itself sends to two mailboxes, it may be overtaken between them, and others see half of its work.
//! Only the sequencer places such work, one piece after another, so any two pieces have the same order in every mailbox
//! with both of them. A piece is *armed* when it is in all of its mailboxes; a shard that reaches it earlier waits. So
//! a client that has seen its effect on one shard comes after it on all others, and the order is also that of real
//! time. With a [`Timeline`] a piece that is armed has one time on all of its shards.
//!
//! Work comes in two kinds. A *group* is a batch for each of several shards; each runs its own when it reaches it. A
//! *rendezvous* is one batch over the state of several shards: each lends its state when it reaches it, the last to
//! arrive does the work, and every state is returned. Ownership passes by message; nothing is locked. The sequencer
//! determines the order, so no two rendezvous wait for each other. Consecutive batches over the same shards that wait
//! for the sequencer share one rendezvous: the states are lent once for all of them.

use crate::channel::{Channels, FlumeChannels, Receiver, ReplyQueue, Sender};
use crate::replies::Replies;
use crate::shard::{Content, Envelope, Mailboxes, PARTS_PER_TURN, Ready, Shard};
use crate::timeline::Timeline;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A piece of work on its way to the sequencer.
pub struct Placement<S: Shard, C: Channels = FlumeChannels> {
    pub(crate) work: Work<S, C>,
    /// How many pieces of its port are not placed yet.
    pub(crate) unplaced: Arc<AtomicUsize>,
}

pub(crate) enum Work<S: Shard, C: Channels> {
    Group { parts: Vec<(usize, S::Batch)>, reply_to: Arc<Replies<S::Batch, C>> },
    Rendezvous { shards: Vec<usize>, batch: S::Batch, reply_to: Arc<Replies<S::Batch, C>> },
}

/// The most batches of one rendezvous: together they keep the shards from all other work.
const RENDEZVOUS_MAX: usize = 16;

/// Places work for several shards. One sequencer runs beside the shards.
pub struct Sequencer<S: Shard, C: Channels = FlumeChannels> {
    pub(crate) mailbox: C::Receiver<Placement<S, C>>,
    pub(crate) mailboxes: Mailboxes<S, C>,
    pub(crate) mailbox_capacity: usize,
    pub(crate) timeline: Option<Arc<Timeline>>,
}

impl<S: Shard, C: Channels> Sequencer<S, C> {
    /// Gives each piece of work one time, read from `clock`, and returns where its shards find it. Each shard then
    /// [passes](Timeline::pass) every piece at its [end](Shard::end_sequenced).
    pub fn keep_time(&mut self, clock: impl Fn() -> u64 + Send + Sync + 'static) -> Arc<Timeline> {
        // What is in a mailbox, what was taken out and waits to be armed, and what is in a turn.
        let armed_max = self.mailbox_capacity + 1 + PARTS_PER_TURN;
        let timeline = Arc::new(Timeline::new(self.mailboxes.len(), armed_max, clock));
        self.timeline = Some(Arc::clone(&timeline));
        timeline
    }

    /// Places work until every router and port is gone.
    pub async fn run(self) {
        let Self { mut mailbox, mailboxes, timeline, .. } = self;
        let mut all = AllMailboxes { mailboxes, timeline, placed: Vec::new() };
        let mut next = None;
        loop {
            let taken = match next.take() {
                Some(placement) => Some(placement),
                None => mailbox.recv().await,
            };
            let Some(Placement { work, unplaced }) = taken else { return };
            match work {
                Work::Group { parts, reply_to } => all.place_group(parts, reply_to).await,
                Work::Rendezvous { shards, batch, reply_to } => {
                    let mut agenda = vec![Ready { batch, reply_to: Some(reply_to) }];
                    let others;
                    (others, next) = take_rendezvous_of(&shards, &mut mailbox, &mut agenda);
                    all.place_rendezvous(&shards, agenda).await;
                    others.iter().for_each(is_placed);
                }
            }
            is_placed(&unplaced);
        }
    }
}

fn is_placed(unplaced: &Arc<AtomicUsize>) {
    unplaced.fetch_sub(1, Ordering::Release);
}

/// Takes waiting work over the same shards, until something else comes, which is returned with the counters of the
/// ports that sent the work taken.
fn take_rendezvous_of<S: Shard, C: Channels>(
    of: &[usize],
    mailbox: &mut C::Receiver<Placement<S, C>>,
    agenda: &mut Vec<Ready<S::Batch, C>>,
) -> (Vec<Arc<AtomicUsize>>, Option<Placement<S, C>>) {
    let mut ports = Vec::new();
    while agenda.len() < RENDEZVOUS_MAX {
        match mailbox.try_recv() {
            Some(Placement { work: Work::Rendezvous { shards, batch, reply_to }, unplaced }) if shards == of => {
                agenda.push(Ready { batch, reply_to: Some(reply_to) });
                ports.push(unplaced);
            }
            other => return (ports, other),
        }
    }
    (ports, None)
}

/// The mailboxes in which the sequencer places work.
struct AllMailboxes<S: Shard, C: Channels> {
    mailboxes: Mailboxes<S, C>,
    timeline: Option<Arc<Timeline>>,
    /// The shards that have the present piece in their mailboxes.
    placed: Vec<usize>,
}

impl<S: Shard, C: Channels> AllMailboxes<S, C> {
    async fn place_group(&mut self, mut parts: Vec<(usize, S::Batch)>, reply_to: Arc<Replies<S::Batch, C>>) {
        if parts.len() == 1 {
            let (shard, batch) = parts.remove(0);
            self.place(shard, Content::Batch(Ready { batch, reply_to: Some(reply_to) })).await;
            return self.placed.clear();
        }
        let gate = Arc::new(Gate::new(parts.len()));
        for (place, (shard, batch)) in parts.into_iter().enumerate() {
            let ready = Ready { batch, reply_to: Some(Arc::clone(&reply_to)) };
            let part = Sequenced::Part { ready, gate: Arc::clone(&gate), place };
            self.place(shard, Content::Sequenced(Box::new(part))).await;
        }
        self.give_moment();
        gate.open();
    }

    async fn place_rendezvous(&mut self, shards: &[usize], agenda: Vec<Ready<S::Batch, C>>) {
        let rendezvous = Arc::new(Rendezvous::new(shards.len(), agenda));
        for (place, &shard) in shards.iter().enumerate() {
            let invitation = Sequenced::Rendezvous { rendezvous: Arc::clone(&rendezvous), place };
            self.place(shard, Content::Sequenced(Box::new(invitation))).await;
        }
        self.give_moment();
        rendezvous.armed.push(Armed);
    }

    async fn place(&mut self, shard: usize, content: Content<S, C>) {
        // A shard that is gone has ended the process, or the process is ending: there is no waiter.
        if self.mailboxes[shard].send(Envelope(content)).await.is_ok() {
            self.placed.push(shard);
        }
    }

    /// Gives the piece that is placed its moment.
    fn give_moment(&mut self) {
        let placed = self.placed.drain(..);
        if let Some(timeline) = &self.timeline {
            timeline.arm(placed);
        }
    }
}

/// Work that is in several mailboxes.
pub(crate) enum Sequenced<S: Shard, C: Channels> {
    Part { ready: Ready<S::Batch, C>, gate: Arc<Gate<C>>, place: usize },
    Rendezvous { rendezvous: Arc<Rendezvous<S, C>>, place: usize },
}

/// Closed until the group after it is in all of its mailboxes. Each shard has a signal of its own.
pub(crate) struct Gate<C: Channels> {
    signals: Box<[Replies<(), C>]>,
}

impl<C: Channels> Gate<C> {
    fn new(shards: usize) -> Self {
        Self { signals: (0..shards).map(|_| Replies::new(1)).collect() }
    }

    fn open(&self) {
        self.signals.iter().for_each(|signal| signal.push(()));
    }

    /// Whether the shard at `place` may pass. Called until it returns true, once.
    pub(crate) fn try_pass(&self, place: usize) -> bool {
        self.signals[place].pop().is_some()
    }

    /// Waits until the shard at `place` may pass.
    pub(crate) async fn pass(&self, place: usize) {
        self.signals[place].next().await;
    }
}

/// Shards lend their states here to batches that need them all, which run in order.
///
/// It needs no gate: when the last shard arrives, the rendezvous is in all mailboxes. That shard waits until it is
/// armed.
///
/// Invariants: there is room to lend for all but one, so the one that finds none is the last to arrive; every state
/// that comes in is returned to the shard that lent it.
pub(crate) struct Rendezvous<S: Shard, C: Channels> {
    agenda: C::ReplyQueue<Ready<S::Batch, C>>,
    lent: C::ReplyQueue<(usize, Box<S>)>,
    homes: Box<[Replies<Box<S>, C>]>,
    armed: Replies<Armed, C>,
}

/// Says that a rendezvous has its moment.
struct Armed;

impl<S: Shard, C: Channels> Rendezvous<S, C> {
    fn new(shards: usize, batches: Vec<Ready<S::Batch, C>>) -> Self {
        let agenda = C::ReplyQueue::with_capacity(batches.len());
        for ready in batches {
            let is_full = agenda.push(ready).is_err();
            assert!(!is_full, "the agenda has room for its batches");
        }
        let lent = C::ReplyQueue::with_capacity(shards - 1);
        Self { agenda, lent, homes: (0..shards).map(|_| Replies::new(1)).collect(), armed: Replies::new(1) }
    }

    /// Lends the state of the shard at `place`, and returns it when the work is done.
    pub(crate) async fn attend(&self, place: usize, shard: Box<S>) -> Box<S> {
        if let Err(last) = self.lent.push((place, shard)) {
            self.armed.next().await;
            self.hold(last);
        }
        self.homes[place].next().await
    }

    fn hold(&self, last: (usize, Box<S>)) {
        let mut present: Vec<(usize, Box<S>)> = std::iter::from_fn(|| self.lent.pop()).chain([last]).collect();
        assert_eq!(present.len(), self.homes.len(), "the last to arrive finds every state");
        present.sort_unstable_by_key(|(place, _)| *place);
        let (places, mut shards): (Vec<usize>, Vec<Box<S>>) = present.into_iter().unzip();
        while let Some(Ready { mut batch, reply_to }) = self.agenda.pop() {
            S::execute_cross_shard(&mut shards, &mut batch);
            if let Some(replies) = reply_to {
                replies.push(batch);
            }
        }
        places.into_iter().zip(shards).for_each(|(place, shard)| self.homes[place].push(shard));
    }
}
