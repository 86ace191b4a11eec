//! Shards and connections together, from the first batch to the shards' end.

use crate::channels::{Fault, Interleaved};
use crate::connection::{Connection, Death, Sent};
use crate::shard::{CheckingShard, Work};
use actors::{Mailbox, Port, Router, TurnLimit, run_shard, yield_now};
use shuttle::future::{JoinHandle, block_on, spawn};
use shuttle::rand::{Rng, thread_rng};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

/// The sizes of a scenario.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    pub connections: usize,
    pub shards: usize,
    pub mailbox_capacity: usize,
    pub window: usize,
    pub requests: u64,
    pub turn: usize,
    /// How often shard 0 lets others run while it executes a batch.
    pub slowness: usize,
    pub death: Death,
}

impl Scenario {
    /// Runs it on shuttle's executor, with every check.
    pub fn run<F: Fault>(self) {
        self.history::<F>();
    }

    /// Runs it and says which connections the shards served, in order.
    pub fn history<F: Fault>(self) -> Vec<u64> {
        block_on(self.start_and_reckon::<F>())
    }

    async fn start_and_reckon<F: Fault>(self) -> Vec<u64> {
        let (router, mailboxes, _) = Router::<CheckingShard, Interleaved<F>>::new(self.shards, self.mailbox_capacity);
        let shards: Vec<_> =
            mailboxes.into_iter().enumerate().map(|(i, mailbox)| self.spawn_shard::<F>(i, mailbox)).collect();
        let sent: Arc<[Sent]> = (0..self.shards).map(|_| Sent::default()).collect();
        let connections: Vec<_> =
            (0..self.connections).map(|i| self.spawn_connection::<F>(i, &router, &sent)).collect();
        drop(router);
        if let Death::Cancelled = self.death {
            (0..thread_rng().gen_range(0..100)).for_each(|_| shuttle::thread::yield_now());
            connections[0].abort();
        }
        for (index, connection) in connections.into_iter().enumerate() {
            let ended = connection.await;
            assert!(ended.is_ok() || index == 0, "only the first connection is ever cancelled");
        }
        let mut history = Vec::new();
        for (shard, sent) in shards.into_iter().zip(sent.iter()) {
            // It ends by itself: the router and every port are gone.
            let shard = shard.await.expect("a shard ends when its senders are gone and gives its state back");
            let range = sent.accepted.load(Ordering::Relaxed)..=sent.begun.load(Ordering::Relaxed);
            assert!(
                range.contains(&shard.executed()),
                "what a mailbox accepts is executed: {} of {range:?}",
                shard.executed()
            );
            history.extend(shard.history);
        }
        history
    }

    fn spawn_shard<F: Fault>(
        self,
        index: usize,
        mailbox: Mailbox<CheckingShard, Interleaved<F>>,
    ) -> JoinHandle<CheckingShard> {
        let slowness = if index == 0 { self.slowness } else { 0 };
        let shard = CheckingShard::new(index, self.connections, self.turn, slowness);
        spawn(run_shard::<_, Interleaved<F>>(shard, mailbox, TurnLimit(self.turn)))
    }

    fn spawn_connection<F: Fault>(
        self,
        index: usize,
        router: &Router<CheckingShard, Interleaved<F>>,
        sent: &Arc<[Sent]>,
    ) -> JoinHandle<()> {
        let mut connection =
            Connection::<F>::new(index, router.clone(), self.mailbox_capacity, self.window, Arc::clone(sent));
        spawn(async move {
            match self.death {
                Death::AfterRequest(requests) if index == 0 => connection.send_requests(requests).await,
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
    let shard = CheckingShard::new(0, 1, 1, 0);
    let shard = spawn(run_shard::<_, Interleaved<F>>(shard, mailbox, TurnLimit(1)));
    block_on(async {
        let mut port = Port::new(router, 1);
        port.send(0, work(1, 0)).await.expect("the shard lives");
        assert_eq!(port.recv().await.executed, 1);
        drop(port);
        assert_eq!(shard.await.expect("the shard ends").executed(), 1);
    });
}

/// A connection that waits for its socket too gives up waits for replies all the time.
pub fn waits_are_given_up_and_taken_up_again<F: Fault>() {
    const REQUESTS: u64 = 4;
    let (router, mut mailboxes, _) = Router::<CheckingShard, Interleaved<F>>::new(1, 1);
    let mailbox = mailboxes.pop().expect("one shard");
    let shard = spawn(run_shard::<_, Interleaved<F>>(CheckingShard::new(0, 1, 2, 0), mailbox, TurnLimit(2)));
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
                home += u64::from(poll_once(port.recv()).await.is_ready());
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
        assert_eq!(shard.await.expect("the shard ends").executed(), REQUESTS);
    });
}

/// Batches without an address are executed, those in the mailbox of a shard without senders too.
pub fn batches_that_nobody_waits_for<F: Fault>() {
    let (router, mut mailboxes, _) = Router::<CheckingShard, Interleaved<F>>::new(1, 2);
    let mailbox = mailboxes.pop().expect("one shard");
    let shard = spawn(run_shard::<_, Interleaved<F>>(CheckingShard::new(0, 1, 2, 0), mailbox, TurnLimit(2)));
    block_on(async {
        for nth in 0..5 {
            router.send_and_forget(0, work(0, nth)).await.expect("the shard lives");
        }
        drop(router);
        assert_eq!(shard.await.expect("the shard ends").executed(), 5);
    });
}

/// Whoever sends to a shard that is gone is told, also when it waits for room at that moment.
pub fn the_shard_is_cancelled<F: Fault>() {
    let (router, mut mailboxes, _) = Router::<CheckingShard, Interleaved<F>>::new(1, 1);
    let mailbox = mailboxes.pop().expect("one shard");
    let shard = spawn(run_shard::<_, Interleaved<F>>(CheckingShard::new(0, 2, 1, 0), mailbox, TurnLimit(1)));
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
        let is_refused = port.send(0, Work { connection, ..work(nth, nth) }).await.is_err();
        assert!(is_refused || !is_gone, "a shard that is gone does not come back");
        is_gone = is_refused;
    }
}

fn work(seq: u64, nth_on_shard: u64) -> Work {
    Work { connection: 0, seq, nth_on_shard, shard: 0, executed: 0, logged: 0 }
}

/// Polls a future once and drops it.
async fn poll_once<T>(future: impl Future<Output = T>) -> Poll<T> {
    let mut future = pin!(future);
    std::future::poll_fn(|context: &mut Context<'_>| Poll::Ready(future.as_mut().poll(context))).await
}
