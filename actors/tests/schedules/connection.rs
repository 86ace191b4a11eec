//! A connection of the scenarios: sends within its window, puts replies into request order, and checks both.

use crate::channels::{Fault, Interleaved, note_in_place};
use crate::ledger::{Id, Ledger, Place};
use crate::shard::{CheckingShard, Work};
use actors::{Port, ReorderBuffer, Router};
use shuttle::rand::{Rng, thread_rng};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How the first connection of a scenario ends.
#[derive(Debug, Clone, Copy)]
pub enum Death {
    /// It receives all its replies.
    Never,
    /// It is dropped after this many requests, with batches in flight.
    AfterRequest(u64),
    /// It gives up a waiting send after this many requests, and is dropped.
    InSend(u64),
    /// Its task is cancelled, wherever it waits.
    Cancelled,
}

/// The weights of each kind of request.
#[derive(Debug, Clone, Copy)]
pub struct Mix {
    pub singles: u32,
    pub groups: u32,
    pub rendezvous: u32,
}

impl Mix {
    pub const SINGLES: Self = Self { singles: 1, groups: 0, rendezvous: 0 };
    pub const ALL: Self = Self { singles: 2, groups: 1, rendezvous: 1 };
    pub const GROUPS: Self = Self { singles: 2, groups: 1, rendezvous: 0 };
    pub const RENDEZVOUS: Self = Self { singles: 2, groups: 0, rendezvous: 1 };
    pub const ONLY_RENDEZVOUS: Self = Self { singles: 0, groups: 0, rendezvous: 1 };
    pub const ONLY_GROUPS: Self = Self { singles: 0, groups: 1, rendezvous: 0 };

    fn choose(self) -> Kind {
        let choice = thread_rng().gen_range(0..self.singles + self.groups + self.rendezvous);
        match choice {
            choice if choice < self.singles => Kind::Single,
            choice if choice < self.singles + self.groups => Kind::Group,
            _ => Kind::Rendezvous,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Single,
    Group,
    Rendezvous,
}

/// A request to be sent.
#[derive(Debug)]
pub struct Request {
    kind: Kind,
    shards: Vec<usize>,
}

impl Request {
    /// The places that it takes in the window.
    fn places(&self) -> usize {
        if let Kind::Group = self.kind { self.shards.len() } else { 1 }
    }
}

pub struct Connection<F: Fault> {
    index: usize,
    port: Port<CheckingShard, Interleaved<F>>,
    /// A second port, for sending past the connection's own order.
    other_port: Option<Port<CheckingShard, Interleaved<F>>>,
    router: Router<CheckingShard, Interleaved<F>>,
    mailbox_capacity: usize,
    window: usize,
    mix: Mix,
    ledger: Arc<Ledger>,
    runs_in_place: bool,
    sent_to: Vec<u64>,
    next_seq: u64,
    /// The parts that have come back of incomplete requests.
    gathering: BTreeMap<u64, Gathering>,
    reorder: ReorderBuffer<u64>,
    released: Vec<u64>,
}

struct Gathering {
    missing: usize,
    seen: Vec<Place>,
}

impl<F: Fault> Connection<F> {
    pub fn new(
        index: usize,
        router: Router<CheckingShard, Interleaved<F>>,
        mailbox_capacity: usize,
        window: usize,
        mix: Mix,
        ledger: Arc<Ledger>,
    ) -> Self {
        Self {
            index,
            port: Port::new(router.clone(), window),
            other_port: F::CONNECTION_SENDS_PAST_ITS_GROUPS.then(|| Port::new(router.clone(), 1)),
            sent_to: vec![0; router.shards()],
            router,
            mailbox_capacity,
            window,
            mix,
            ledger,
            runs_in_place: false,
            next_seq: 0,
            gathering: BTreeMap::new(),
            reorder: ReorderBuffer::default(),
            released: Vec::new(),
        }
    }

    /// The same, running batches in place where it can.
    pub fn running_in_place(self, runs_in_place: bool) -> Self {
        Self { runs_in_place, ..self }
    }

    /// Sends `requests` requests, each to random shards. Sometimes it waits for all replies before it sends more.
    pub async fn send_requests(&mut self, requests: u64) {
        for _ in 0..requests {
            let request = self.choose();
            self.make_room(&request).await;
            self.send(request).await;
            while let Some(work) = self.port.try_recv() {
                self.accept(work);
            }
            if self.mix.groups + self.mix.rendezvous > 0 && thread_rng().gen_bool(0.5) {
                self.wait_for_all().await;
            }
        }
    }

    /// A request of a random kind to random shards.
    pub fn choose(&self) -> Request {
        let kind = self.mix.choose();
        let shards = match kind {
            Kind::Single => 1,
            // As many parts as possible.
            Kind::Group => thread_rng().gen_range(1..=self.router.shards().min(self.window)),
            Kind::Rendezvous => thread_rng().gen_range(2..=self.router.shards()),
        };
        Request { kind, shards: any_shards(self.router.shards(), shards) }
    }

    /// Waits until the request may be sent, and no longer: earlier ones may still be in flight.
    pub async fn make_room(&mut self, request: &Request) {
        while self.port.room() < request.places() && !F::CONNECTION_IGNORES_ITS_WINDOW {
            let work = self.port.recv().await;
            self.accept(work);
        }
    }

    /// Receives every reply and checks that they are in request order.
    pub async fn finish(mut self) {
        self.wait_for_all().await;
        assert!(self.port.try_recv().is_none(), "each batch comes home once");
        assert_eq!(self.released, (0..self.next_seq).collect::<Vec<_>>(), "every reply is released, in request order");
    }

    /// Sends a request for which there is room.
    pub async fn send(&mut self, Request { kind, shards }: Request) {
        let work = self.begin(kind, &shards);
        let id = work.id;
        match kind {
            Kind::Single => self.send_single(shards[0], work).await,
            Kind::Group => self.send_group(&shards, &work).await,
            Kind::Rendezvous => {
                self.port.send_cross_shard(shards.clone(), work).await.expect("shards outlive connections")
            }
        }
        self.ledger.accept(id);
        for shard in shards {
            assert!(self.router.queue_depth(shard) <= self.mailbox_capacity, "mailboxes are bounded");
        }
        self.check_window();
    }

    fn begin(&mut self, kind: Kind, shards: &[usize]) -> Work {
        let id = Id { connection: self.index, seq: self.next_seq };
        self.next_seq += 1;
        let mut place = |&shard: &usize| {
            let sent_to = &mut self.sent_to[shard];
            *sent_to += 1;
            Place { shard, nth_on_shard: *sent_to - 1, seen: None }
        };
        let places = shards.iter().map(&mut place).collect();
        let missing = if let Kind::Group = kind { shards.len() } else { 1 };
        self.gathering.insert(id.seq, Gathering { missing, seen: Vec::new() });
        self.ledger.begin(id, shards.to_vec());
        let is_write = thread_rng().gen_bool(0.5);
        Work { id, is_write, is_cross_shard: kind == Kind::Rendezvous, places, executed: 0, logged: 0 }
    }

    async fn send_single(&mut self, shard: usize, work: Work) {
        if let Some(other_port) = &mut self.other_port {
            other_port.send(shard, work).await.expect("shards outlive connections");
            let work = other_port.recv().await;
            return self.accept(work);
        }
        let work = match self.runs_in_place {
            true => self.port.try_run_in_place(shard, work).err(),
            false => Some(work),
        };
        if self.runs_in_place {
            note_in_place(work.is_none());
        }
        let Some(work) = work else { return };
        self.port.send(shard, work).await.expect("shards outlive connections");
    }

    async fn send_group(&mut self, shards: &[usize], work: &Work) {
        let part = |(&shard, place): (&usize, &Place)| (shard, Work { places: vec![place.clone()], ..work.clone() });
        let parts: Vec<(usize, Work)> = shards.iter().zip(&work.places).map(part).collect();
        if F::CONNECTION_SCATTERS {
            for (shard, part) in parts {
                self.port.send(shard, part).await.expect("shards outlive connections");
            }
            return;
        }
        let again = F::CONNECTION_SENDS_A_PART_AGAIN.then(|| parts[0].clone());
        self.port.send_group(parts).await.expect("shards outlive connections");
        if let Some((shard, part)) = again {
            self.wait_for_all().await;
            self.router.send_and_forget(shard, part).await.expect("shards outlive connections");
        }
    }

    async fn wait_for_all(&mut self) {
        while self.port.in_flight() > 0 {
            let work = self.port.recv().await;
            self.accept(work);
        }
    }

    fn accept(&mut self, work: Work) {
        let Id { connection, seq } = work.id;
        assert_eq!(connection, self.index, "a batch comes home to the port that sent it");
        let logged = u32::from(!work.is_cross_shard); // A rendezvous is no turn.
        assert_eq!((work.executed, work.logged), (1, logged), "a batch is executed and logged once");
        let gathering = self.gathering.get_mut(&seq).expect("each batch comes home once");
        gathering.seen.extend(work.places);
        gathering.missing -= 1;
        if gathering.missing == 0 {
            let whole = self.gathering.remove(&seq).expect("it was just there");
            self.ledger.end(work.id, whole.seen);
            self.release(seq);
        }
        self.check_window();
    }

    fn release(&mut self, seq: u64) {
        if F::CONNECTION_DOES_NOT_REORDER {
            return self.released.push(seq);
        }
        self.reorder.insert(seq, seq);
        self.released.extend(std::iter::from_fn(|| self.reorder.pop_ready()));
    }

    fn check_window(&self) {
        assert!(self.port.in_flight() <= self.window, "no more batches are in flight than the window allows");
        assert_eq!(self.port.in_flight() + self.port.room(), self.window);
    }
}

/// So many different shards, in any order.
fn any_shards(all: usize, count: usize) -> Vec<usize> {
    let mut left: Vec<usize> = (0..all).collect();
    (0..count).map(|_| left.swap_remove(thread_rng().gen_range(0..left.len()))).collect()
}
