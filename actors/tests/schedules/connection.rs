//! A connection as the scenarios run it: sends within its window, puts replies in request order, checks both.

use crate::channels::{Fault, Interleaved};
use crate::shard::CheckingShard;
use crate::shard::Work;
use actors::{Port, ReorderBuffer, Router};
use shuttle::rand::{Rng, thread_rng};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How the first connection of a scenario ends.
#[derive(Debug, Clone, Copy)]
pub enum Death {
    /// It has all its replies.
    Never,
    /// It is dropped when it has sent so many requests, with what is in flight.
    AfterRequest(u64),
    /// Its task is cancelled, wherever it waits.
    Cancelled,
}

/// What a connection has handed to a shard, for the reckoning at the end.
#[derive(Debug, Default)]
pub struct Sent {
    pub begun: AtomicU64,
    pub accepted: AtomicU64,
}

pub struct Connection<F: Fault> {
    index: usize,
    port: Port<CheckingShard, Interleaved<F>>,
    router: Router<CheckingShard, Interleaved<F>>,
    mailbox_capacity: usize,
    window: usize,
    sent: Arc<[Sent]>,
    sent_to: Vec<u64>,
    next_seq: u64,
    reorder: ReorderBuffer<u64>,
    released: Vec<u64>,
}

impl<F: Fault> Connection<F> {
    pub fn new(
        index: usize,
        router: Router<CheckingShard, Interleaved<F>>,
        mailbox_capacity: usize,
        window: usize,
        sent: Arc<[Sent]>,
    ) -> Self {
        Self {
            index,
            port: Port::new(router.clone(), window),
            sent_to: vec![0; router.shards()],
            router,
            mailbox_capacity,
            window,
            sent,
            next_seq: 0,
            reorder: ReorderBuffer::default(),
            released: Vec::new(),
        }
    }

    /// Sends `requests` requests, each to any shard.
    pub async fn send_requests(&mut self, requests: u64) {
        for _ in 0..requests {
            while self.port.room() == 0 && !F::CONNECTION_IGNORES_ITS_WINDOW {
                let work = self.port.recv().await;
                self.accept(work);
            }
            let shard = thread_rng().gen_range(0..self.router.shards());
            self.send(shard).await;
            while let Some(work) = self.port.try_recv() {
                self.accept(work);
            }
        }
    }

    /// Takes in every reply and checks that they stand in request order.
    pub async fn finish(mut self) {
        while self.port.in_flight() > 0 {
            let work = self.port.recv().await;
            self.accept(work);
        }
        assert!(self.port.try_recv().is_none(), "each batch comes home once");
        assert_eq!(self.released, (0..self.next_seq).collect::<Vec<_>>(), "every reply is released, in request order");
    }

    async fn send(&mut self, shard: usize) {
        let work = Work {
            connection: self.index,
            seq: self.next_seq,
            nth_on_shard: self.sent_to[shard],
            shard,
            executed: 0,
            logged: 0,
        };
        self.next_seq += 1;
        self.sent_to[shard] += 1;
        self.sent[shard].begun.fetch_add(1, Ordering::Relaxed);
        self.port.send(shard, work).await.expect("shards outlive connections");
        self.sent[shard].accepted.fetch_add(1, Ordering::Relaxed);
        assert!(self.router.queue_depth(shard) <= self.mailbox_capacity, "mailboxes are bounded");
        self.check_window();
    }

    fn accept(&mut self, work: Work) {
        assert_eq!(work.connection, self.index, "a batch comes home to the port that sent it");
        assert_eq!((work.executed, work.logged), (1, 1), "a batch is executed and logged once");
        assert!(work.seq >= self.reorder.next_seq(), "each batch comes home once");
        if F::CONNECTION_DOES_NOT_REORDER {
            return self.released.push(work.seq);
        }
        self.reorder.insert(work.seq, work.seq);
        self.released.extend(std::iter::from_fn(|| self.reorder.pop_ready()));
        self.check_window();
    }

    fn check_window(&self) {
        assert!(self.port.in_flight() <= self.window, "no more batches are in flight than the window allows");
        assert_eq!(self.port.in_flight() + self.port.room(), self.window);
    }
}
