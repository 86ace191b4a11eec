//! Shards and connections together, from the first batch to the shards' end.

use crate::channels::{Fault, Interleaved, note_cancellation, note_send_given_up};
use crate::connection::{Connection, Death, Mix};
use crate::ledger::{Id, Ledger, Place};
use crate::shard::{CheckingShard, Work};
use actors::{Home, Mailbox, Port, Router, TurnLimit, run_shard, run_shard_at_home, yield_now};
use shuttle::future::{JoinHandle, block_on, spawn};
use shuttle::rand::{Rng, thread_rng};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

/// The sizes of a scenario.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    pub connections: usize,
    pub shards: usize,
    pub mailbox_capacity: usize,
    pub window: usize,
    pub requests: u64,
    pub mix: Mix,
    pub turn: usize,
    /// How often shard 0 yields while it executes a batch.
    pub slowness: usize,
    pub death: Death,
    /// Whether connections run batches in place where they can.
    pub in_place: bool,
}

impl Scenario {
    /// Runs it on shuttle's executor, with every check.
    pub fn run<F: Fault>(self) {
        self.history::<F>();
    }

    /// Runs it and returns the connections that the shards served, in order.
    pub fn history<F: Fault>(self) -> Vec<u64> {
        block_on(self.start_and_reckon::<F>())
    }

    async fn start_and_reckon<F: Fault>(self) -> Vec<u64> {
        let (mut router, mailboxes, sequencer) =
            Router::<CheckingShard, Interleaved<F>>::new(self.shards, self.mailbox_capacity);
        let homes = self.in_place.then(|| router.open_homes());
        let home = |shard: usize| homes.as_ref().map(|homes| homes[shard].clone());
        let shards: Vec<_> =
            mailboxes.into_iter().enumerate().map(|(i, mailbox)| self.spawn_shard::<F>(i, mailbox, home(i))).collect();
        let sequencer = spawn(sequencer.run());
        let ledger = Arc::new(Ledger::new(self.connections));
        let connections: Vec<_> =
            (0..self.connections).map(|i| self.spawn_connection::<F>(i, &router, &ledger)).collect();
        drop(router);
        if let Death::Cancelled = self.death {
            (0..thread_rng().gen_range(0..100)).for_each(|_| shuttle::thread::yield_now());
            connections[0].abort();
        }
        for (index, connection) in connections.into_iter().enumerate() {
            let ended = connection.await;
            assert!(ended.is_ok() || index == 0, "only the first connection is ever cancelled");
            if ended.is_err() {
                note_cancellation();
            }
        }
        // They end on their own: the router and every port are gone.
        sequencer.await.expect("the sequencer ends when its senders are gone");
        let mut histories = Vec::new();
        for (index, shard) in shards.into_iter().enumerate() {
            let shard = shard.await.expect("a shard ends when its senders are gone and gives its state back");
            assert_eq!(shard.index, index, "every state is home at the end");
            histories.push(shard.history);
        }
        ledger.reckon(&histories);
        histories.iter().flatten().map(|visit| visit.id.connection as u64).collect()
    }

    fn spawn_shard<F: Fault>(
        self,
        index: usize,
        mailbox: Mailbox<CheckingShard, Interleaved<F>>,
        home: Option<Home<CheckingShard, Interleaved<F>>>,
    ) -> JoinHandle<CheckingShard> {
        let slowness = if index == 0 { self.slowness } else { 0 };
        let shard = CheckingShard::new(index, self.connections, self.turn, slowness, F::STATES_GO_ASTRAY);
        match home {
            Some(home) => spawn(run_shard_at_home(shard, home, mailbox, TurnLimit(self.turn))),
            None => spawn(run_shard::<_, Interleaved<F>>(shard, mailbox, TurnLimit(self.turn))),
        }
    }

    fn spawn_connection<F: Fault>(
        self,
        index: usize,
        router: &Router<CheckingShard, Interleaved<F>>,
        ledger: &Arc<Ledger>,
    ) -> JoinHandle<()> {
        let ledger = Arc::clone(ledger);
        let mut connection =
            Connection::<F>::new(index, router.clone(), self.mailbox_capacity, self.window, self.mix, ledger)
                .running_in_place(self.in_place);
        spawn(async move {
            match self.death {
                Death::AfterRequest(requests) if index == 0 => connection.send_requests(requests).await,
                Death::InSend(requests) if index == 0 => {
                    connection.send_requests(requests).await;
                    let request = connection.choose();
                    connection.make_room(&request).await;
                    let polls = thread_rng().gen_range(1..4);
                    if poll_a_few_times(polls, connection.send(request)).await.is_pending() {
                        note_send_given_up();
                    }
                }
                _ => {
                    connection.send_requests(self.requests).await;
                    connection.finish().await;
                }
            }
        })
    }
}

/// One batch to one shard and back: the smallest scenario there is.
pub fn one_batch<F: Fault>() {
    let (router, mut mailboxes, _) = Router::<CheckingShard, Interleaved<F>>::new(1, 1);
    let mailbox = mailboxes.pop().expect("one shard");
    let shard = checking_shard(1, 1);
    let shard = spawn(run_shard::<_, Interleaved<F>>(shard, mailbox, TurnLimit(1)));
    block_on(async {
        let mut port = Port::new(router, 1);
        port.send(0, work(1, 0)).await.expect("the shard lives");
        assert_eq!(port.recv().await.executed, 1);
        drop(port);
        assert_eq!(shard.await.expect("the shard ends").history.len() as u64, 1);
    });
}

/// One group over two shards, whose connection is gone. One shard reaches it at any time, the other at the end.
pub fn one_group<F: Fault>() {
    let (router, mailboxes, sequencer) = Router::<CheckingShard, Interleaved<F>>::new(2, 1);
    block_on(async {
        let part = |shard| (shard, Work { places: vec![place(shard, 0)], ..work(0, 0) });
        let parts = vec![part(0), part(1)];
        Port::new(router, 2).send_group(parts).await.expect("the sequencer lives");
        let [early, late] = in_pairs::<F>(mailboxes)
            .map(|(shard, mailbox)| run_shard::<_, Interleaved<F>>(shard, mailbox, TurnLimit(1)));
        let early = spawn(early);
        sequencer.run().await;
        assert_eq!(late.await.history.len(), 1);
        assert_eq!(early.await.expect("a shard ends").history.len(), 1);
    });
}

/// One rendezvous of two shards, whose connection is gone.
pub fn one_rendezvous<F: Fault>() {
    let (router, mailboxes, sequencer) = Router::<CheckingShard, Interleaved<F>>::new(2, 1);
    block_on(async {
        let work = Work { places: vec![place(0, 0), place(1, 0)], is_cross_shard: true, ..work(0, 0) };
        Port::new(router, 1).send_cross_shard(vec![0, 1], work).await.expect("the sequencer lives");
        let shards = in_pairs::<F>(mailboxes)
            .map(|(shard, mailbox)| spawn(run_shard::<_, Interleaved<F>>(shard, mailbox, TurnLimit(1))));
        sequencer.run().await;
        for (index, shard) in shards.into_iter().enumerate() {
            let shard = shard.await.expect("a shard ends");
            assert_eq!((shard.index, shard.history.len()), (index, 1), "every state is home at the end");
        }
    });
}

/// Sending to several shards through a sequencer that is gone fails, also while waiting for room.
pub fn the_sequencer_is_cancelled<F: Fault>() {
    let (router, mailboxes, sequencer) = Router::<CheckingShard, Interleaved<F>>::new(2, 1);
    let sequencer = spawn(sequencer.run());
    let sender = spawn(async move {
        let mut port = Port::new(router, 64);
        let part = |shard, nth| (shard, Work { places: vec![place(shard, nth)], ..work(nth, nth) });
        let mut nth = 0;
        while port.send_group(vec![part(0, nth), part(1, nth)]).await.is_ok() {
            nth += 1;
        }
        let work = Work { is_cross_shard: true, places: vec![place(0, nth), place(1, nth)], ..work(nth, nth) };
        assert!(port.send_cross_shard(vec![0, 1], work).await.is_err(), "a sequencer that is gone does not come back");
    });
    block_on(async {
        (0..thread_rng().gen_range(0..50)).for_each(|_| shuttle::thread::yield_now());
        sequencer.abort();
        assert!(sequencer.await.is_err(), "the router is here, so the sequencer does not end by itself");
        sender.await.expect("the sender is told and ends");
        drop(mailboxes);
    });
}

/// A shard for each of two mailboxes.
fn in_pairs<F: Fault>(
    mailboxes: Vec<Mailbox<CheckingShard, Interleaved<F>>>,
) -> [(CheckingShard, Mailbox<CheckingShard, Interleaved<F>>); 2] {
    let shards = (0..2).map(|index| CheckingShard::new(index, 1, 1, 0, F::STATES_GO_ASTRAY));
    let pairs: Vec<_> = shards.zip(mailboxes).collect();
    pairs.try_into().unwrap_or_else(|_| unreachable!("there are two mailboxes"))
}

/// A connection that also waits for its socket often drops a wait for replies, and waits again.
pub fn waits_are_given_up_and_taken_up_again<F: Fault>() {
    const REQUESTS: u64 = 4;
    let (router, mut mailboxes, _) = Router::<CheckingShard, Interleaved<F>>::new(1, 1);
    let mailbox = mailboxes.pop().expect("one shard");
    let shard = spawn(run_shard::<_, Interleaved<F>>(checking_shard(1, 2), mailbox, TurnLimit(2)));
    block_on(async {
        let mut port = Port::new(router, 2);
        let mut home = 0;
        for nth in 0..REQUESTS {
            if port.room() == 0 {
                port.recv().await;
                home += 1;
            }
            port.send(0, work(0, nth)).await.expect("the shard lives");
            for _ in 0..2 {
                home += u64::from(poll_a_few_times(1, port.recv()).await.is_ready());
                if port.in_flight() == 0 {
                    break;
                }
                yield_now().await;
            }
        }
        while port.in_flight() > 0 {
            port.recv().await;
            home += 1;
        }
        assert_eq!(home, REQUESTS);
        drop(port);
        assert_eq!(shard.await.expect("the shard ends").history.len() as u64, REQUESTS);
    });
}

/// Batches without an address are executed, including those in the mailbox of a shard without senders.
pub fn batches_that_nobody_waits_for<F: Fault>() {
    let (router, mut mailboxes, _) = Router::<CheckingShard, Interleaved<F>>::new(1, 2);
    let mailbox = mailboxes.pop().expect("one shard");
    let shard = spawn(run_shard::<_, Interleaved<F>>(checking_shard(1, 2), mailbox, TurnLimit(2)));
    block_on(async {
        for nth in 0..5 {
            router.send_and_forget(0, work(0, nth)).await.expect("the shard lives");
        }
        drop(router);
        assert_eq!(shard.await.expect("the shard ends").history.len() as u64, 5);
    });
}

/// Sending to a shard that is gone fails, also while waiting for room at that moment.
pub fn the_shard_is_cancelled<F: Fault>() {
    let (router, mut mailboxes, _) = Router::<CheckingShard, Interleaved<F>>::new(1, 1);
    let mailbox = mailboxes.pop().expect("one shard");
    let shard = spawn(run_shard::<_, Interleaved<F>>(checking_shard(2, 1), mailbox, TurnLimit(1)));
    let senders: Vec<_> = (0..2).map(|connection| spawn(send_to_the_end(router.clone(), connection))).collect();
    block_on(async {
        (0..thread_rng().gen_range(0..50)).for_each(|_| shuttle::thread::yield_now());
        shard.abort();
        assert!(shard.await.is_err(), "the router is here, so the shard does not end by itself");
        for sender in senders {
            sender.await.expect("a sender is told and ends");
        }
        assert!(router.send_and_forget(0, work(0, 0)).await.is_err());
    });
}

async fn send_to_the_end<F: Fault>(router: Router<CheckingShard, Interleaved<F>>, connection: usize) {
    const REQUESTS: u64 = 8;
    let mut port = Port::new(router, REQUESTS as usize);
    let mut is_gone = false;
    for nth in 0..REQUESTS {
        let is_refused = port.send(0, Work { id: Id { connection, seq: nth }, ..work(nth, nth) }).await.is_err();
        assert!(is_refused || !is_gone, "a shard that is gone does not come back");
        is_gone = is_refused;
    }
}

fn checking_shard(connections: usize, turn: usize) -> CheckingShard {
    CheckingShard::new(0, connections, turn, 0, false)
}

fn work(seq: u64, nth_on_shard: u64) -> Work {
    let id = Id { connection: 0, seq };
    Work { id, is_write: true, is_cross_shard: false, places: vec![place(0, nth_on_shard)], executed: 0, logged: 0 }
}

fn place(shard: usize, nth_on_shard: u64) -> Place {
    Place { shard, nth_on_shard, seen: None }
}

/// Polls a future up to this many times, each time after other tasks have run, and drops it.
async fn poll_a_few_times<T>(times: usize, future: impl Future<Output = T>) -> Poll<T> {
    let mut future = pin!(future);
    for _ in 1..times {
        let poll = poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await;
        if poll.is_ready() {
            return poll;
        }
        yield_now().await;
    }
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}
