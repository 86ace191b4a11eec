//! The actor engine: N shards, each the only owner of a table and a segment of the log; no locks on the data.
//!
//! A connection's session gathers the commands of one read into one batch per shard, sends the batches through bounded
//! channels, and puts the replies that come back in request order. See the `actors` crate for the moving parts.

mod batch;
mod session;
mod shard;

use super::eviction::PAUSE as EVICTION_PAUSE;
use super::expiration;
use super::images::{ImagePart, PAUSE};
use super::metrics::{DatabaseMetrics, EngineMetrics, ShardMetrics, log_metrics};
use super::{Batching, Engine, Foundation, Metered, released};
use crate::aof::{EPOCH, Segment};
use crate::base::clock::Clock;
use crate::base::pressure::PRESSURE;
use crate::keyspace::{KeyspaceStats, Policy, Store};
use crate::pubsub::PubSub;
use actors::{Channels, Mailbox, Port, Router, Sequencer, TurnLimit, run_shard};
use batch::Batch;
use parking_lot::Mutex;
use session::ActorSession;
use shard::{Gauges, KeyspaceShard};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::runtime::{Handle, RuntimeFlavor};

/// The way to the shards, through mailboxes of a family of channels.
pub struct ActorEngine<C: Channels> {
    router: Router<KeyspaceShard, C>,
    gauges: Arc<[Gauges]>,
    segments: Vec<Arc<Segment>>,
    pubsub: Arc<PubSub>,
    clock: Clock,
    is_multi_key_atomic: bool,
    batching: Batching,
    turn_limit: TurnLimit,
    /// Reads of a connection whose batches may be out at once, for each shard.
    reads_in_flight: usize,
    /// What has not been started yet.
    unstarted: Mutex<Option<Unstarted<C>>>,
}

struct Unstarted<C: Channels> {
    shards: Vec<(KeyspaceShard, Mailbox<KeyspaceShard, C>)>,
    sequencer: Sequencer<KeyspaceShard, C>,
}

impl<C: Channels> ActorEngine<C> {
    /// An engine with one shard per store of `foundation`.
    pub fn new(foundation: Foundation) -> Self {
        let Foundation {
            stores,
            segments,
            joints,
            clock,
            seed,
            mailbox_capacity,
            reply_bytes_max,
            pubsub,
            due_keys,
            latency,
            ..
        } = foundation;
        let is_multi_key_atomic = foundation.is_multi_key_atomic;
        let batching = foundation.batching;
        let turn_limit = TurnLimit(foundation.turn_batches.get());
        let reads_in_flight = foundation.reads_in_flight.get();
        let gauges: Arc<[Gauges]> = stores.iter().map(|store| Gauges::new(store.databases())).collect();
        let (router, mailboxes, sequencer) = Router::new(stores.len(), mailbox_capacity.get());
        let mut seeds = fastrand::Rng::with_seed(seed);
        let common = shard::Common {
            pubsub: Arc::clone(&pubsub),
            due_keys,
            latency,
            joints,
            clock: clock.clone(),
            reply_bytes_max,
            prefetches: batching.prefetches,
        };
        let shards = stores.into_iter().enumerate().map(|(index, store)| {
            let segment = Arc::clone(&segments[index]);
            KeyspaceShard::new(
                store,
                segment,
                seeds.fork(),
                shard::GaugesOf { all: Arc::clone(&gauges), index },
                common.clone(),
            )
        });
        let unstarted = Mutex::new(Some(Unstarted { shards: shards.zip(mailboxes).collect(), sequencer }));
        Self {
            router,
            gauges,
            segments,
            pubsub,
            clock,
            is_multi_key_atomic,
            batching,
            turn_limit,
            reads_in_flight,
            unstarted,
        }
    }

    /// Starts the shards and the sequencer on the current runtime.
    pub fn start(&self) {
        let Unstarted { shards, sequencer } = self.unstarted.lock().take().expect("the engine is started once");
        let limit = self.turn_limit;
        let runtime = Handle::current();
        let is_plain = runtime.runtime_flavor() == RuntimeFlavor::CurrentThread;
        let runs_in_order = runtime.metrics().num_workers() == 1 && (is_plain || cfg!(tokio_unstable));
        for (mut shard, mailbox) in shards {
            if runs_in_order {
                shard.set_in_order();
            }
            tokio::spawn(async move {
                run_shard::<_, C>(shard, mailbox, limit).await;
            });
        }
        tokio::spawn(sequencer.run());
    }

    fn shards(&self) -> usize {
        self.router.shards()
    }

    /// Whether there is a log.
    fn is_logging(&self) -> bool {
        self.segments[0].is_on()
    }

    /// Whether what changes is recorded: that begins and ends for all shards at one point of the order of all commands.
    fn is_recording(&self) -> bool {
        self.segments[0].is_recorded()
    }

    /// Whether the log allows to show the replies of a batch.
    fn is_released(&self, batch: &Batch) -> bool {
        let segment = &self.segments[batch.shard()];
        let marks = batch.transaction.iter().flat_map(|transaction| &transaction.marks);
        segment.is_released(batch.lsn) && { marks }.all(|&(index, lsn)| self.segments[index].is_released(lsn))
    }

    /// Waits until the log allows to show the replies of a batch.
    async fn released(&self, batch: &Batch) {
        self.segments[batch.shard()].released(batch.lsn).await;
        if let Some(transaction) = &batch.transaction {
            released(&self.segments, &transaction.marks).await;
        }
    }
}

impl<C: Channels> Engine for ActorEngine<C> {
    type Session = ActorSession<C>;

    fn session(self: &Arc<Self>) -> ActorSession<C> {
        ActorSession::new(Arc::clone(self))
    }

    /// Ends epochs as a group over all shards: a point of the order of all commands, so that what stands before it on one
    /// shard has seen nothing that stands behind it on another.
    async fn end_epochs(self: Arc<Self>) {
        let mut port = Port::new(self.router.clone(), self.shards());
        loop {
            tokio::time::sleep(EPOCH).await;
            if !self.segments.iter().any(|segment| segment.has_news()) {
                continue;
            }
            let epoch = self.segments[0].control().next_epoch(self.clock.now_ms());
            let parts = (0..self.shards()).map(|shard| (shard, Batch::epoch(shard, epoch))).collect();
            if port.send_group(parts).await.is_err() {
                return;
            }
            for _ in 0..self.shards() {
                port.recv().await.recycle();
            }
        }
    }

    fn owners(&self) -> usize {
        self.shards()
    }

    /// As a group over all shards: a point of the order of all commands, as epochs are.
    async fn begin_image(self: Arc<Self>, parts: Vec<ImagePart>) {
        let mut port = Port::new(self.router.clone(), self.shards());
        let parts = parts.into_iter().enumerate().map(|(shard, part)| (shard, Batch::image(shard, part))).collect();
        if port.send_group(parts).await.is_ok() {
            for _ in 0..self.shards() {
                port.recv().await.recycle();
            }
        }
    }

    async fn walk_image(self: Arc<Self>) {
        let mut port = Port::new(self.router.clone(), self.shards());
        let mut incomplete: VecDeque<usize> = (0..self.shards()).collect();
        // Several slices on one thread would be as long as all of them together.
        let threads = Handle::current().metrics().num_workers();
        while !incomplete.is_empty() {
            let asked = incomplete.len().min(threads);
            for shard in incomplete.drain(..asked) {
                if port.send(shard, Batch::walk(shard)).await.is_err() {
                    return;
                }
            }
            for _ in 0..asked {
                let batch = port.recv().await;
                if !batch.is_image_complete() {
                    incomplete.push_back(batch.shard());
                }
                batch.recycle();
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Sends each shard a batch that asks it to pay its share of the debt, again and again while there is one.
    async fn evict_for_ever(self: Arc<Self>) {
        let mut port = Port::new(self.router.clone(), self.shards());
        loop {
            let debt = PRESSURE.debt_to_pay().await;
            let spares_lasting = Policy::now().spares_lasting();
            let counts: Vec<u64> = self.gauges.iter().map(|gauges| gauges.evictable(spares_lasting)).collect();
            let total: u64 = counts.iter().sum();
            let mut asked = 0;
            for (shard, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
                let share = i128::from(debt) * i128::from(count) / i128::from(total) + 1;
                let share = i64::try_from(share).expect("it is a part of the debt, and one byte");
                if port.send(shard, Batch::eviction(shard, share)).await.is_err() {
                    return;
                }
                asked += 1;
            }
            let mut keys = 0;
            for _ in 0..asked {
                let batch = port.recv().await;
                keys += batch.evicted();
                batch.recycle();
            }
            if keys == 0 {
                tokio::time::sleep(EVICTION_PAUSE).await;
            }
        }
    }

    /// Sends each shard a batch that asks it to remove what is due, again and again while more is due.
    async fn expire_for_ever(self: Arc<Self>, hz: u64) {
        let period = expiration::period(hz);
        let mut port = Port::new(self.router.clone(), self.shards());
        let mut asked: Vec<usize> = Vec::new();
        loop {
            if asked.is_empty() {
                tokio::time::sleep(period).await;
                // A shard with nothing to do is not woken.
                let now_ms = self.clock.now_ms();
                asked.extend((0..self.shards()).filter(|&shard| self.gauges[shard].has_due(now_ms)));
            }
            for &shard in &asked {
                if port.send(shard, Batch::expiration(shard)).await.is_err() {
                    return;
                }
            }
            let mut more = Vec::new();
            for _ in asked.drain(..) {
                let batch = port.recv().await;
                if batch.expires_more() {
                    more.push(batch.shard());
                }
                batch.recycle();
            }
            asked = more;
        }
    }
}

impl<C: Channels> Metered for ActorEngine<C> {
    fn evictable(&self, spares_lasting: bool) -> u64 {
        self.gauges.iter().map(|gauges| gauges.evictable(spares_lasting)).sum()
    }

    fn segments(&self) -> &[Arc<Segment>] {
        &self.segments
    }

    fn metrics(&self) -> EngineMetrics {
        let sum = |figure: fn(&Gauges) -> u64| self.gauges.iter().map(figure).sum();
        EngineMetrics {
            engine: "actor",
            shards: self.gauges.iter().enumerate().map(|(index, gauges)| self.shard_metrics(index, gauges)).collect(),
            databases: self.databases(),
            map_shards: 0,
            keyspace: KeyspaceStats {
                hits: sum(|gauges| gauges.hits.load(Ordering::Relaxed)),
                misses: sum(|gauges| gauges.misses.load(Ordering::Relaxed)),
                expired: sum(|gauges| gauges.expired.load(Ordering::Relaxed)),
                changes: sum(|gauges| gauges.changes.load(Ordering::Relaxed)),
            },
            expire_lag_ms: self.gauges.iter().map(|g| g.expire_lag_ms.load(Ordering::Relaxed)).max().unwrap_or(0),
            lock_waits: None,
            lock_free: 0,
            segments: log_metrics(&self.segments),
        }
    }
}

impl<C: Channels> ActorEngine<C> {
    fn databases(&self) -> Vec<DatabaseMetrics> {
        let count = self.gauges[0].databases.len();
        let mut databases = vec![DatabaseMetrics::default(); count];
        for gauges in self.gauges.iter() {
            for (total, part) in databases.iter_mut().zip(&gauges.databases) {
                total.keys += part.keys.load(Ordering::Relaxed);
                total.expires += part.expires.load(Ordering::Relaxed);
                total.deadlines_ms += f64::from_bits(part.deadlines_ms.load(Ordering::Relaxed));
            }
        }
        databases
    }

    fn shard_metrics(&self, index: usize, gauges: &Gauges) -> ShardMetrics {
        ShardMetrics {
            keys: gauges.databases.iter().map(|database| database.keys.load(Ordering::Relaxed)).sum(),
            expires: gauges.databases.iter().map(|database| database.expires.load(Ordering::Relaxed)).sum(),
            commands: gauges.commands.load(Ordering::Relaxed),
            queue_depth: self.router.queue_depth(index) as u64,
            largest_batch: gauges.largest_batch.load(Ordering::Relaxed),
            turns: gauges.turns.load(Ordering::Relaxed),
            batches: gauges.batches.load(Ordering::Relaxed),
        }
    }
}
