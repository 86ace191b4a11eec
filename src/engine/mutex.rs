//! The mutex engine: one keyspace and one lock, taken once for the commands of a read or once for each command. The
//! baseline that everyone builds first.

use super::eviction::{Evicted, evict_slice};
use super::expiration::{expire_slice, period};
use super::inline::{self, InlineEngine, InlineSession, Lent, marks};
use super::metrics::{DatabaseMetrics, EngineMetrics, LatencySummary, ShardMetrics, log_metrics};
use super::prefetch::{GROUP, GROUP_MIN, fetch};
use super::snapshots::{PAUSE, SnapshotPart, slice};
use super::together::{Batching, Commands, Room, Scratch, is_over};
use super::{Engine, EngineParts, Metered};
use crate::aof::Segment;
use crate::base::clock::Clock;
use crate::base::narrowing::clamped_u64;
use crate::commands::{self, CommandId, Services, Transaction};
use crate::keyspace::{Databases, DueKeysRule, Effects, Evictable, Instance, Keyspace, Store};
use crate::pubsub::PubSub;
use crate::resp::{Args, Reply};
use crate::stats::latency;
use crate::stats::stages::Stage;
use hdrhistogram::Histogram;
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::time::Instant;

/// Longer waits count as this: a minute.
const WAIT_NS_MAX: u64 = 60_000_000_000;

/// One keyspace protected by one mutex.
pub struct MutexEngine {
    instance: Arc<Instance>,
    owned: Mutex<Owned>,
    segment: Arc<Segment>,
    batching: Batching,
    pubsub: Arc<PubSub>,
    due_keys: Arc<DueKeysRule>,
    latency: Arc<latency::Monitor>,
    clock: Clock,
    seeds: Mutex<fastrand::Rng>,
}

/// What the lock protects.
struct Owned {
    keyspace: Keyspace<Databases>,
    commands: u64,
    uncontended: u64,
    waits_ns: Histogram<u64>,
    expire_lag_ms: u64,
}

impl MutexEngine {
    /// An engine over the one store of `engine_parts`.
    pub fn new(mut engine_parts: EngineParts) -> Self {
        let mut seeds = fastrand::Rng::with_seed(engine_parts.seed);
        let segment = engine_parts.segments.pop().expect("the mutex engine's layout has one owner");
        let store = engine_parts.stores.pop().expect("the mutex engine's layout has one owner");
        let keyspace =
            Keyspace::new(store, engine_parts.clock.now_ms(), seeds.fork(), Effects::new(segment.is_recorded()));
        Self {
            owned: Mutex::new(Owned {
                keyspace,
                commands: 0,
                uncontended: 0,
                waits_ns: Histogram::new_with_max(WAIT_NS_MAX, 2).expect("two digits up to that are within its range"),
                expire_lag_ms: 0,
            }),
            segment,
            instance: engine_parts.instance,
            batching: engine_parts.batching,
            pubsub: engine_parts.pubsub,
            due_keys: engine_parts.due_keys,
            latency: engine_parts.latency,
            clock: engine_parts.clock,
            seeds: Mutex::new(seeds),
        }
    }

    /// Takes the lock. Waiting is timed; an acquisition without waiting does not read the clock.
    fn lock(&self) -> MutexGuard<'_, Owned> {
        #[cfg(feature = "planted-cost")]
        spend_planted_cost();
        if let Some(mut owned) = self.owned.try_lock() {
            owned.uncontended += 1;
            #[cfg(feature = "planted-cost")]
            spend_planted_cost_under_the_lock();
            return owned;
        }
        let start = Instant::now();
        let mut owned = self.owned.lock();
        owned.waits_ns.saturating_record(clamped_u64(start.elapsed().as_nanos()));
        #[cfg(feature = "planted-cost")]
        spend_planted_cost_under_the_lock();
        owned
    }

    fn log(&self, keyspace: &mut Keyspace<Databases>) {
        if !keyspace.effects().payload().is_empty() {
            // Under the lock: another writer of this key may log first otherwise.
            self.segment.append_payload(keyspace.effects().payload());
            keyspace.effects().clear();
        }
        if keyspace.has_served() {
            keyspace.deliver(&marks(&self.segment));
        }
        if !keyspace.notices().is_empty() {
            self.pubsub.publish_notices(keyspace.notices(), &marks(&self.segment));
        }
    }
}

/// Wastes as many nanoseconds as the environment asks for before the lock is taken.
#[cfg(feature = "planted-cost")]
fn spend_planted_cost() {
    static PLANTED_NS: std::sync::LazyLock<u64> = std::sync::LazyLock::new(|| planted_ns("SHARDRACE_PLANTED_NS"));
    waste(*PLANTED_NS);
}

/// The same while the lock is held, where it asks for that.
#[cfg(feature = "planted-cost")]
fn spend_planted_cost_under_the_lock() {
    static PLANTED_NS: std::sync::LazyLock<u64> = std::sync::LazyLock::new(|| planted_ns("SHARDRACE_PLANTED_HELD_NS"));
    waste(*PLANTED_NS);
}

#[cfg(feature = "planted-cost")]
fn planted_ns(variable: &str) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(feature = "planted-cost")]
fn waste(planted_ns: u64) {
    if planted_ns > 0 {
        let start = Instant::now();
        while start.elapsed().as_nanos() < u128::from(planted_ns) {
            std::hint::spin_loop();
        }
    }
}

impl MutexEngine {
    /// Runs commands for as long as the lock may be held, and returns how many ran.
    fn run_held(
        &self,
        keyspace: &mut Keyspace<Databases>,
        commands: Commands<'_>,
        scratch: &mut Scratch,
        room: &mut Room<'_>,
    ) -> usize {
        let began = keyspace.timing().began_at();
        for (index, (id, args)) in commands.iter().enumerate() {
            keyspace.select(commands.context.database.into());
            if self.batching.prefetches && index.is_multiple_of(GROUP) && commands.len() - index >= GROUP_MIN {
                fetch(keyspace.store(), commands.from(index).iter());
            }
            commands::execute(id, keyspace, args, &mut room.reply(commands.context.resp3));
            scratch.records.take(&self.segment, keyspace.effects());
            if !room.is_left() || is_over(began, keyspace, self.batching) {
                return index + 1;
            }
        }
        commands.len()
    }
}

impl InlineEngine for MutexEngine {
    fn instance(&self) -> &Arc<Instance> {
        &self.instance
    }

    fn run_transaction(&self, transaction: &mut Transaction, lent: &mut Lent) {
        let mut start = lent.laps.start();
        let mut owned = self.lock();
        lent.laps.lap(Stage::Queue, &mut start);
        owned.commands += transaction.len() as u64;
        let keyspace = &mut owned.keyspace;
        keyspace.set_now(lent.now_ms);
        keyspace.notices().set_wanted(self.pubsub.notified());
        keyspace.set_due_keys(self.due_keys.get());
        keyspace.timing().start();
        transaction.run(keyspace);
        lent.slow.append(keyspace.timing().slow());
        lent.laps.lap(Stage::Execute, &mut start);
        self.log(keyspace);
        lent.laps.lap(Stage::Log, &mut start);
    }

    fn evict(&self, bytes: i64) -> Evicted {
        let mut owned = self.owned.lock();
        let keyspace = &mut owned.keyspace;
        keyspace.set_now(self.clock.now_ms());
        keyspace.notices().set_wanted(self.pubsub.notified());
        keyspace.set_due_keys(self.due_keys.get());
        let evicted = evict_slice(keyspace, bytes);
        self.log(keyspace);
        evicted
    }

    /// One lock for all keys: it cannot be otherwise.
    fn is_atomic(&self) -> bool {
        true
    }

    fn run(&self, id: CommandId, args: Args<'_>, database: usize, reply: &mut Reply<'_>, lent: &mut Lent) {
        let mut start = lent.laps.start();
        let mut owned = self.lock();
        lent.laps.lap(Stage::Queue, &mut start);
        owned.commands += 1;
        let keyspace = &mut owned.keyspace;
        keyspace.set_now(lent.now_ms);
        keyspace.select(database);
        keyspace.set_notes_uses(lent.notes_uses);
        keyspace.notices().set_wanted(self.pubsub.notified());
        keyspace.set_due_keys(self.due_keys.get());
        keyspace.timing().start();
        commands::execute(id, keyspace, args, reply);
        lent.slow.append(keyspace.timing().slow());
        lent.laps.lap(Stage::Execute, &mut start);
        self.log(keyspace);
        lent.laps.lap(Stage::Log, &mut start);
    }

    fn run_together(
        &self,
        commands: Commands<'_>,
        scratch: &mut Scratch,
        room: &mut Room<'_>,
        lent: &mut Lent,
    ) -> usize {
        let mut start = lent.laps.start();
        let mut owned = self.lock();
        lent.laps.lap(Stage::Queue, &mut start);
        let keyspace = &mut owned.keyspace;
        keyspace.set_now(lent.now_ms);
        keyspace.set_notes_uses(lent.notes_uses);
        keyspace.notices().set_wanted(self.pubsub.notified());
        keyspace.set_due_keys(self.due_keys.get());
        keyspace.timing().start();
        let ran = self.run_held(keyspace, commands, scratch, room);
        lent.slow.append(keyspace.timing().slow());
        lent.laps.lap(Stage::Execute, &mut start);
        scratch.records.append_to(&self.segment);
        self.log(keyspace);
        lent.laps.lap(Stage::Log, &mut start);
        owned.commands += ran as u64;
        ran
    }

    fn fetch(&self, commands: Commands<'_>) {
        let mut owned = self.lock();
        owned.keyspace.select(commands.context.database.into());
        fetch(owned.keyspace.store(), commands.iter());
    }

    fn batching(&self) -> Batching {
        self.batching
    }

    fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }
}

impl Engine for MutexEngine {
    type Session = InlineSession<Self>;

    fn session(self: &Arc<Self>, _place: usize) -> Self::Session {
        let random = self.seeds.lock().fork();
        InlineSession::new(Arc::clone(self), random)
    }

    async fn end_epochs(self: Arc<Self>) {
        inline::end_epochs(self.segment.clone(), self.clock.clone()).await;
    }

    fn owners(&self) -> usize {
        1
    }

    async fn begin_snapshot(self: Arc<Self>, parts: Vec<SnapshotPart>) {
        // Changes are logged under the lock.
        let mut owned = self.owned.lock();
        for part in parts {
            (part.at_moment)();
            owned.keyspace.effects().set_logged(self.segment.is_recorded());
            if let Some(sink) = part.sink {
                owned.keyspace.store_mut().begin_snapshot(sink);
            }
        }
    }

    async fn walk_snapshot(self: Arc<Self>) {
        while !self.owned.lock().keyspace.store_mut().walk_snapshot(slice()) {
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn evict_for_ever(self: Arc<Self>) {
        inline::evict_for_ever(self).await;
    }

    async fn expire_for_ever(self: Arc<Self>, hz: u64) {
        let period = period(hz);
        loop {
            Services::of(self.instance()).scripting.busy.ended().await;
            let slice = {
                let mut owned = self.owned.lock();
                let keyspace = &mut owned.keyspace;
                keyspace.set_now(self.clock.now_ms());
                keyspace.notices().set_wanted(self.pubsub.notified());
                keyspace.set_due_keys(self.due_keys.get());
                let slice = expire_slice(keyspace, &self.latency, |keyspace| keyspace.store().first_deadline());
                self.log(keyspace);
                owned.expire_lag_ms = slice.lag_ms;
                slice
            };
            self.segment.commit(self.segment.appended());
            match slice.more {
                true => tokio::task::yield_now().await,
                false => tokio::time::sleep(period).await,
            }
        }
    }
}

impl Metered for MutexEngine {
    fn evictable(&self, spares_lasting: bool) -> u64 {
        let owned = self.owned.lock();
        let store = owned.keyspace.store();
        (0..store.in_use()).map(|database| store.evictable(database, spares_lasting) as u64).sum()
    }

    fn segments(&self) -> &[Arc<Segment>] {
        std::slice::from_ref(&self.segment)
    }

    fn metrics(&self) -> EngineMetrics {
        let owned = self.owned.lock();
        let databases: Vec<DatabaseMetrics> = owned.keyspace.store().tables().iter().map(DatabaseMetrics::of).collect();
        EngineMetrics {
            engine: "mutex",
            shards: vec![ShardMetrics {
                keys: owned.keyspace.store().keys() as u64,
                expires: databases.iter().map(|database| database.expires).sum(),
                commands: owned.commands,
                ..ShardMetrics::default()
            }],
            databases,
            map_shards: 0,
            keyspace: owned.keyspace.stats(),
            expire_lag_ms: owned.expire_lag_ms,
            lock_waits: Some(LatencySummary::of(&owned.waits_ns)),
            lock_free: owned.uncontended,
            segments: log_metrics(self.segments()),
        }
    }
}
