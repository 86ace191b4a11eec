//! The mutex engine: one keyspace and one lock, taken once for the commands of a read or once for each command. The
//! baseline that everyone builds first.

use super::eviction::{Evicted, evict_slice};
use super::expiration::{Slice, expire_slice};
use super::inline::{InlineComponents, InlineEngine, Lent, wait_beside_scripts};
use super::metrics::{DatabaseMetrics, EngineMetrics, LatencySummary, ShardMetrics, log_metrics};
use super::prefetch::{GROUP, GROUP_MIN, fetch};
use super::snapshots::{OwnerSnapshot, slice};
use super::together::{Commands, Room, Scratch, is_over};
use super::{EngineComponents, Metered};
use crate::aof::Segment;
use crate::base::narrowing::clamped_u64;
use crate::commands::{self, CommandId, Transaction};
use crate::keyspace::{Databases, Evictable, Keyspace, Store};
use crate::resp::{Args, Reply};
use crate::stats::stage_latency::Stage;
use hdrhistogram::Histogram;
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longer waits count as this: a minute.
const WAIT_NS_MAX: u64 = 60_000_000_000;

/// One keyspace protected by one mutex.
pub struct MutexEngine {
    components: InlineComponents,
    owned: Mutex<Owned>,
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
    /// An engine over the one store of `engine_components`.
    pub fn new(engine_components: EngineComponents) -> Self {
        let (components, store) = InlineComponents::new(engine_components);
        let keyspace = Keyspace::new(store, components.clock.now_ms(), components.random(), components.effects());
        let owned = Owned {
            keyspace,
            commands: 0,
            uncontended: 0,
            waits_ns: Histogram::new_with_max(WAIT_NS_MAX, 2).expect("two digits up to that are within its range"),
            expire_lag_ms: 0,
        };
        Self { components, owned: Mutex::new(owned) }
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
        let mut owned = self.wait_for_lock();
        owned.waits_ns.saturating_record(clamped_u64(start.elapsed().as_nanos()));
        #[cfg(feature = "planted-cost")]
        spend_planted_cost_under_the_lock();
        owned
    }

    /// Takes the lock for the server itself: these are not counted.
    fn lock_uncounted(&self) -> MutexGuard<'_, Owned> {
        self.owned.try_lock().unwrap_or_else(|| self.wait_for_lock())
    }

    fn wait_for_lock(&self) -> MutexGuard<'_, Owned> {
        const MOMENT: Duration = Duration::from_millis(10);
        wait_beside_scripts(&self.components.instance, || self.owned.try_lock_for(MOMENT), || self.owned.lock())
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
        let began = keyspace.timing.began_at();
        for (index, (id, args)) in commands.iter().enumerate() {
            keyspace.select(commands.context.database.into());
            if self.components.batching.prefetches && index.is_multiple_of(GROUP) && commands.len() - index >= GROUP_MIN
            {
                fetch(&keyspace.store, commands.from(index).iter());
            }
            commands::execute(id, keyspace, args, &mut room.reply(commands.context.resp3));
            scratch.records.take(&self.components.segment, &mut keyspace.effects);
            if !room.is_left() || is_over(began, keyspace, self.components.batching) {
                return index + 1;
            }
        }
        commands.len()
    }
}

impl InlineEngine for MutexEngine {
    fn components(&self) -> &InlineComponents {
        &self.components
    }

    fn run_transaction(&self, transaction: &mut Transaction, lent: &mut Lent) {
        let mut start = lent.laps.start();
        let mut owned = self.lock();
        lent.laps.lap(Stage::Queue, &mut start);
        owned.commands += transaction.len() as u64;
        let keyspace = &mut owned.keyspace;
        let is_late = keyspace.turn.now_ms() > lent.now_ms;
        keyspace.set_now(lent.now_ms);
        self.components.instruct(keyspace);
        keyspace.timing.start();
        self.components.catch_up(keyspace, lent, is_late);
        transaction.run(keyspace);
        lent.slow.append(keyspace.timing.slow());
        lent.laps.lap(Stage::Execute, &mut start);
        self.components.log(keyspace);
        lent.laps.lap(Stage::Log, &mut start);
    }

    fn evict(&self, bytes: i64) -> Evicted {
        let mut owned = self.lock_uncounted();
        let keyspace = &mut owned.keyspace;
        keyspace.set_now(self.components.clock.now_ms());
        self.components.instruct(keyspace);
        let evicted = evict_slice(keyspace, bytes);
        self.components.log(keyspace);
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
        let is_late = keyspace.turn.now_ms() > lent.now_ms;
        keyspace.set_now(lent.now_ms);
        keyspace.select(database);
        keyspace.turn.notes_uses = lent.notes_uses;
        self.components.instruct(keyspace);
        keyspace.turn.caller.tracking = lent.tracking;
        keyspace.timing.start();
        self.components.catch_up(keyspace, lent, is_late);
        commands::execute(id, keyspace, args, reply);
        lent.slow.append(keyspace.timing.slow());
        lent.laps.lap(Stage::Execute, &mut start);
        self.components.log(keyspace);
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
        let is_late = keyspace.turn.now_ms() > lent.now_ms;
        keyspace.set_now(lent.now_ms);
        keyspace.turn.notes_uses = lent.notes_uses;
        self.components.instruct(keyspace);
        keyspace.turn.caller.tracking = lent.tracking;
        keyspace.timing.start();
        self.components.catch_up(keyspace, lent, is_late);
        let ran = self.run_held(keyspace, commands, scratch, room);
        lent.slow.append(keyspace.timing.slow());
        lent.laps.lap(Stage::Execute, &mut start);
        scratch.records.append_to(&self.components.segment);
        self.components.log(keyspace);
        lent.laps.lap(Stage::Log, &mut start);
        owned.commands += ran as u64;
        ran
    }

    fn fetch(&self, commands: Commands<'_>) {
        let mut owned = self.lock();
        owned.keyspace.select(commands.context.database.into());
        fetch(&owned.keyspace.store, commands.iter());
    }

    fn begin_snapshot_of_all(&self, owners: Vec<OwnerSnapshot>) {
        // Changes are logged under the lock.
        let mut owned = self.lock_uncounted();
        for owner in owners {
            (owner.at_moment)();
            owned.keyspace.effects.set_logged(self.components.segment.is_recorded());
            if let Some(sink) = owner.sink {
                owned.keyspace.store.begin_snapshot(sink);
            }
        }
    }

    fn walk_snapshot_of_all(&self) -> bool {
        self.lock_uncounted().keyspace.store.walk_snapshot(slice())
    }

    async fn expire(&self, _random: &mut fastrand::Rng) -> Slice {
        let mut owned = self.lock_uncounted();
        let keyspace = &mut owned.keyspace;
        keyspace.set_now(self.components.clock.now_ms());
        self.components.instruct(keyspace);
        let mut slice = expire_slice(keyspace, &self.components.latency, |keyspace| keyspace.store.first_deadline());
        slice.more |= keyspace.store.sweep_key_waiters();
        self.components.log(keyspace);
        owned.expire_lag_ms = slice.lag_ms;
        slice
    }
}

impl Metered for MutexEngine {
    fn evictable(&self, spares_lasting: bool) -> u64 {
        let owned = self.lock_uncounted();
        let store = &owned.keyspace.store;
        (0..store.in_use()).map(|database| store.evictable(database, spares_lasting) as u64).sum()
    }

    fn segments(&self) -> &[Arc<Segment>] {
        std::slice::from_ref(&self.components.segment)
    }

    fn metrics(&self) -> EngineMetrics {
        let owned = self.lock_uncounted();
        let databases: Vec<DatabaseMetrics> = owned.keyspace.store.tables().iter().map(DatabaseMetrics::of).collect();
        EngineMetrics {
            engine: "mutex",
            shards: vec![ShardMetrics {
                keys: owned.keyspace.store.keys() as u64,
                expires: databases.iter().map(|database| database.expires).sum(),
                commands: owned.commands,
                ..ShardMetrics::default()
            }],
            databases,
            map_shards: 0,
            keyspace: owned.keyspace.stats,
            expire_lag_ms: owned.expire_lag_ms,
            lock_waits: Some(LatencySummary::of(&owned.waits_ns)),
            lock_free: owned.uncontended,
            segments: log_metrics(self.segments()),
        }
    }
}
