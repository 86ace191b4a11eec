//! Real threads and real channels: this tests what the explored schedules cannot (memory orderings, flume and tokio's
//! channels themselves).
//!
//! One second in `cargo test`; `SOAK_SECONDS=600 cargo test -p actors --release --test stress -- --nocapture` for
//! longer. `STRESS_SEED` chooses the sizes of the rounds; a failure prints it.

mod ledger;

use actors::{
    Channels, FlumeChannels, Port, ReorderBuffer, Router, Shard, TokioChannels, TurnLimit, run_shard, yield_now,
};
use fastrand::Rng;
use ledger::{Id, Ledger, Place, Visit};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// A round that takes longer has lost a wake-up.
const ROUND_SECONDS_MAX: u64 = 60;

/// One request, or the part of it for one shard.
#[derive(Debug, Clone)]
struct Work {
    id: Id,
    is_write: bool,
    places: Vec<Place>,
    executed: u32,
}

/// One register, which holds the name of its last writer.
struct RegisterShard {
    index: usize,
    executed_of: Vec<u64>,
    register: Option<Id>,
    history: Vec<Visit>,
}

impl RegisterShard {
    fn visit(&mut self, id: Id, is_write: bool, place: &mut Place) {
        assert_eq!(place.shard, self.index, "a batch goes to the shard it was sent to");
        let executed = &mut self.executed_of[id.connection];
        assert_eq!(place.nth_on_shard, *executed, "batches of one port are executed in the order they were sent");
        *executed += 1;
        place.seen = self.register;
        if is_write {
            self.register = Some(id);
        }
        self.history.push(Visit { id, is_write });
    }
}

impl Shard for RegisterShard {
    type Batch = Work;

    fn execute(&mut self, work: &mut Work) {
        let [place] = &mut work.places[..] else { panic!("a batch that is not cross-shard is for one shard") };
        self.visit(work.id, work.is_write, place);
        work.executed += 1;
    }

    fn gathers(&self, first: &Work) -> bool {
        first.id.seq.is_multiple_of(2)
    }

    fn execute_cross_shard(shards: &mut [Box<Self>], work: &mut Work) {
        assert_eq!(shards.len(), work.places.len(), "a rendezvous sees every state that is lent");
        for (shard, place) in shards.iter_mut().zip(&mut work.places) {
            shard.visit(work.id, work.is_write, place);
        }
        work.executed += 1;
    }
}

#[derive(Debug, Clone, Copy)]
struct Round {
    shards: usize,
    connections: usize,
    mailbox_capacity: usize,
    window: usize,
    turn: usize,
    requests: u64,
    /// Of a hundred requests, how many go to several shards; half of these are rendezvous.
    across: u8,
}

impl Round {
    fn any(random: &mut Rng) -> Self {
        Self {
            shards: random.usize(1..=4),
            connections: random.usize(1..=16),
            mailbox_capacity: *random.choice(&[1, 2, 8, 128]).expect("there is a choice"),
            window: random.usize(1..=8),
            turn: *random.choice(&[1, 3, 64]).expect("there is a choice"),
            requests: random.u64(1..=500),
            across: *random.choice(&[0, 5, 50, 100]).expect("there is a choice"),
        }
    }

    /// Runs it to the end and returns how many requests were executed.
    async fn run<C: Channels>(self, random: &mut Rng) -> usize {
        let (router, mailboxes, sequencer) = Router::<RegisterShard, C>::new(self.shards, self.mailbox_capacity);
        let start = |(index, mailbox)| {
            let executed_of = vec![0; self.connections];
            let shard = RegisterShard { index, executed_of, register: None, history: Vec::new() };
            tokio::spawn(run_shard::<_, C>(shard, mailbox, TurnLimit(self.turn)))
        };
        let shards: Vec<_> = mailboxes.into_iter().enumerate().map(start).collect();
        let sequencer = tokio::spawn(sequencer.run());
        let ledger = Arc::new(Ledger::new(self.connections));
        let connections: Vec<_> = (0..self.connections)
            .map(|index| {
                let connection = Connection::new(index, router.clone(), self.window, Arc::clone(&ledger));
                tokio::spawn(connection.run(self, random.fork()))
            })
            .collect();
        drop(router);
        await_all(connections, random).await;
        sequencer.await.expect("the sequencer ends when its senders are gone");
        let mut histories = Vec::new();
        for (index, shard) in shards.into_iter().enumerate() {
            let shard = shard.await.expect("a shard gives its state back");
            assert_eq!(shard.index, index, "every state is home at the end");
            histories.push(shard.history);
        }
        ledger.reckon(&histories)
    }
}

/// Every fourth connection may be cancelled at any point.
async fn await_all(connections: Vec<JoinHandle<()>>, random: &mut Rng) {
    for connection in connections.iter().step_by(4) {
        if random.bool() {
            tokio::time::sleep(Duration::from_micros(random.u64(0..200))).await;
            connection.abort();
        }
    }
    for connection in connections {
        if let Err(error) = connection.await {
            assert!(error.is_cancelled(), "{error}");
        }
    }
}

struct Connection<C: Channels> {
    index: usize,
    port: Port<RegisterShard, C>,
    ledger: Arc<Ledger>,
    sent_to: Vec<u64>,
    next_seq: u64,
    /// For incomplete requests: how many batches are missing, and what the others saw.
    gathering: HashMap<u64, (usize, Vec<Place>)>,
    reorder: ReorderBuffer<u64>,
    released: u64,
}

impl<C: Channels> Connection<C> {
    fn new(index: usize, router: Router<RegisterShard, C>, window: usize, ledger: Arc<Ledger>) -> Self {
        let sent_to = vec![0; router.shards()];
        let port = Port::new(router, window);
        let (gathering, reorder) = (HashMap::new(), ReorderBuffer::default());
        Self { index, port, ledger, sent_to, next_seq: 0, gathering, reorder, released: 0 }
    }

    async fn run(mut self, round: Round, mut random: Rng) {
        for _ in 0..round.requests {
            let is_across = random.u8(0..100) < round.across;
            match random.bool() {
                true if is_across && round.shards > 1 => self.send_cross_shard(&mut random).await,
                false if is_across => self.send_group(round.window, &mut random).await,
                _ => self.send(&mut random).await,
            }
            while let Some(work) = self.port.try_recv() {
                self.accept(work);
            }
            if random.u8(0..8) == 0 {
                yield_now().await;
            }
        }
        while self.port.in_flight() > 0 {
            let work = self.port.recv().await;
            self.accept(work);
        }
        assert!(self.port.try_recv().is_none(), "each batch comes home once");
        assert_eq!(self.released, self.next_seq, "every reply is released");
    }

    async fn send(&mut self, random: &mut Rng) {
        self.make_room(1).await;
        let work = self.begin(1, 1, random);
        let id = work.id;
        self.port.send(work.places[0].shard, work).await.expect("shards outlive connections");
        self.ledger.accept(id);
    }

    async fn send_group(&mut self, window: usize, random: &mut Rng) {
        let parts = random.usize(1..=self.sent_to.len().min(window));
        self.make_room(parts).await;
        let work = self.begin(parts, parts, random);
        let part = |place: &Place| (place.shard, Work { places: vec![place.clone()], ..work });
        let parts = work.places.iter().map(part).collect();
        self.port.send_group(parts).await.expect("shards outlive connections");
        self.ledger.accept(work.id);
    }

    async fn send_cross_shard(&mut self, random: &mut Rng) {
        self.make_room(1).await;
        let work = self.begin(random.usize(2..=self.sent_to.len()), 1, random);
        let id = work.id;
        let shards = work.places.iter().map(|place| place.shard).collect();
        self.port.send_cross_shard(shards, work).await.expect("shards outlive connections");
        self.ledger.accept(id);
    }

    async fn make_room(&mut self, places: usize) {
        while self.port.room() < places {
            let work = self.port.recv().await;
            self.accept(work);
        }
    }

    /// Registers a request to `shards` different shards, of which `batches` batches will come back.
    fn begin(&mut self, shards: usize, batches: usize, random: &mut Rng) -> Work {
        let id = Id { connection: self.index, seq: self.next_seq };
        self.next_seq += 1;
        let shards = random.choose_multiple(0..self.sent_to.len(), shards);
        let mut place = |&shard: &usize| {
            self.sent_to[shard] += 1;
            Place { shard, nth_on_shard: self.sent_to[shard] - 1, seen: None }
        };
        let places = shards.iter().map(&mut place).collect();
        self.gathering.insert(id.seq, (batches, Vec::new()));
        self.ledger.begin(id, shards);
        Work { id, is_write: random.bool(), places, executed: 0 }
    }

    fn accept(&mut self, work: Work) {
        assert_eq!((work.id.connection, work.executed), (self.index, 1));
        let (missing, seen) = self.gathering.get_mut(&work.id.seq).expect("each batch comes home once");
        seen.extend(work.places);
        *missing -= 1;
        if *missing > 0 {
            return;
        }
        let (_, seen) = self.gathering.remove(&work.id.seq).expect("it was just there");
        self.ledger.end(work.id, seen);
        self.reorder.insert(work.id.seq, work.id.seq);
        while let Some(seq) = self.reorder.pop_ready() {
            assert_eq!(seq, self.released, "replies are released in request order");
            self.released += 1;
        }
    }
}

#[test]
fn rounds_of_every_size_on_real_threads_lose_nothing_and_have_one_order() {
    let number = |variable: &str, default: u64| match std::env::var(variable) {
        Ok(value) => value.parse().unwrap_or_else(|error| panic!("{variable}={value}: {error}")),
        Err(_) => default,
    };
    let seed = number("STRESS_SEED", fastrand::u64(..));
    let end = Instant::now() + Duration::from_secs(number("SOAK_SECONDS", 1));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build().expect("a runtime");
    let mut random = Rng::with_seed(seed);
    let (mut rounds, mut executed) = (0, 0);
    while rounds < 2 || Instant::now() < end {
        let round = Round::any(&mut random);
        let is_flume = rounds % 2 == 0;
        println!("STRESS_SEED={seed} round {rounds}: {round:?} over {}", if is_flume { "flume" } else { "tokio" });
        let run = async {
            match is_flume {
                true => round.run::<FlumeChannels>(&mut random).await,
                false => round.run::<TokioChannels>(&mut random).await,
            }
        };
        let run = async { tokio::time::timeout(Duration::from_secs(ROUND_SECONDS_MAX), run).await };
        executed += runtime.block_on(run).expect("no wake-up is lost");
        rounds += 1;
    }
    println!("{rounds} rounds, {executed} requests");
}
