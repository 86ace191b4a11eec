//! Real threads, real channels: what the explored schedules cannot show (memory orderings, flume itself).
//!
//! One second in `cargo test`; `SOAK_SECONDS=600 cargo test -p actors --release --test stress -- --nocapture` for as
//! long as it takes. `STRESS_SEED` chooses the sizes of the rounds; a failure prints it.

use actors::{FlumeChannels, Port, ReorderBuffer, Router, Shard, TurnLimit, run_shard, yield_now};
use fastrand::Rng;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A round that takes longer has lost a wake-up.
const ROUND_SECONDS_MAX: u64 = 60;

#[derive(Debug)]
struct Work {
    connection: usize,
    nth_on_shard: u64,
    seqs: std::ops::Range<u64>,
    executed: u32,
}

struct CountingShard {
    executed_of: Vec<u64>,
    turn: u64,
    last_turn_of: Vec<u64>,
}

impl Shard for CountingShard {
    type Batch = Work;

    fn begin_turn(&mut self) {
        self.turn += 1;
    }

    fn execute(&mut self, work: &mut Work) {
        let executed = &mut self.executed_of[work.connection];
        assert_eq!(work.nth_on_shard, *executed, "batches of one port are executed in the order they were sent");
        *executed += 1;
        work.executed += 1;
        self.last_turn_of[work.connection] = self.turn;
    }

    fn gathers(&self, first: &Work) -> bool {
        first.seqs.end - first.seqs.start < 8
    }
}

#[derive(Debug, Clone, Copy)]
struct Round {
    shards: usize,
    connections: usize,
    mailbox_capacity: usize,
    window: usize,
    turn: usize,
    batches: u64,
}

impl Round {
    fn any(random: &mut Rng) -> Self {
        Self {
            shards: random.usize(1..=4),
            connections: random.usize(1..=16),
            mailbox_capacity: *random.choice(&[1, 2, 8, 128]).expect("there is a choice"),
            window: random.usize(1..=8),
            turn: *random.choice(&[1, 3, 64]).expect("there is a choice"),
            batches: random.u64(1..=500),
        }
    }

    /// Runs it to the end and returns how many batches were executed.
    async fn run(self, random: &mut Rng) -> u64 {
        let (router, mailboxes, _) = Router::<CountingShard>::new(self.shards, self.mailbox_capacity);
        let connections = self.connections;
        let shards: Vec<_> = mailboxes
            .into_iter()
            .map(|mailbox| {
                let zeros = || vec![0; connections];
                let shard = CountingShard { executed_of: zeros(), turn: 0, last_turn_of: zeros() };
                tokio::spawn(run_shard::<_, FlumeChannels>(shard, mailbox, TurnLimit(self.turn)))
            })
            .collect();
        let begun = Arc::new(AtomicU64::new(0));
        let accepted = Arc::new(AtomicU64::new(0));
        let tasks: Vec<_> = (0..connections)
            .map(|index| {
                let counts = (Arc::clone(&begun), Arc::clone(&accepted));
                tokio::spawn(self.connection(index, router.clone(), counts, random.fork()))
            })
            .collect();
        drop(router);
        // Every fourth connection dies somewhere on its way.
        for task in tasks.iter().step_by(4) {
            if random.bool() {
                tokio::time::sleep(Duration::from_micros(random.u64(0..200))).await;
                task.abort();
            }
        }
        for task in tasks {
            if let Err(error) = task.await {
                assert!(error.is_cancelled(), "{error}");
            }
        }
        let mut executed = 0;
        for shard in shards {
            let shard = shard.await.expect("a shard gives its state back");
            executed += shard.executed_of.iter().sum::<u64>();
            assert!(shard.last_turn_of.iter().all(|&turn| turn <= shard.turn));
        }
        let range = accepted.load(Ordering::Relaxed)..=begun.load(Ordering::Relaxed);
        assert!(range.contains(&executed), "what a mailbox accepts is executed: {executed} of {range:?}");
        executed
    }

    async fn connection(
        self,
        connection: usize,
        router: Router<CountingShard>,
        (begun, accepted): (Arc<AtomicU64>, Arc<AtomicU64>),
        mut random: Rng,
    ) {
        let mut sent_to = vec![0; router.shards()];
        let mut port = Port::new(router, self.window);
        let mut replies = Replies { connection, reorder: ReorderBuffer::default(), released: 0 };
        let mut next_seq = 0;
        for _ in 0..self.batches {
            while port.room() == 0 {
                replies.accept(port.recv().await);
            }
            let shard = random.usize(0..sent_to.len());
            let seqs = next_seq..next_seq + random.u64(1..16);
            next_seq = seqs.end;
            begun.fetch_add(1, Ordering::Relaxed);
            let work = Work { connection, nth_on_shard: sent_to[shard], seqs, executed: 0 };
            port.send(shard, work).await.expect("shards outlive connections");
            accepted.fetch_add(1, Ordering::Relaxed);
            sent_to[shard] += 1;
            while let Some(work) = port.try_recv() {
                replies.accept(work);
            }
            if random.u8(0..8) == 0 {
                yield_now().await;
            }
        }
        while port.in_flight() > 0 {
            replies.accept(port.recv().await);
        }
        assert!(port.try_recv().is_none(), "each batch comes home once");
        assert_eq!(replies.released, next_seq, "every reply is released");
    }
}

struct Replies {
    connection: usize,
    reorder: ReorderBuffer<u64>,
    released: u64,
}

impl Replies {
    fn accept(&mut self, work: Work) {
        assert_eq!((work.connection, work.executed), (self.connection, 1));
        work.seqs.for_each(|seq| self.reorder.insert(seq, seq));
        while let Some(seq) = self.reorder.pop_ready() {
            assert_eq!(seq, self.released, "replies are released in request order");
            self.released += 1;
        }
    }
}

#[test]
fn rounds_of_every_size_on_real_threads_lose_nothing() {
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
    while rounds == 0 || Instant::now() < end {
        let round = Round::any(&mut random);
        println!("STRESS_SEED={seed} round {rounds}: {round:?}");
        let run = async { tokio::time::timeout(Duration::from_secs(ROUND_SECONDS_MAX), round.run(&mut random)).await };
        executed += runtime.block_on(run).expect("no wake-up is lost");
        rounds += 1;
    }
    println!("{rounds} rounds, {executed} batches");
}
