//! The dashmap engine: one DashMap shared by all connections.
//!
//! A command runs in the connection task under the locks of its keys' shards: one for one key, several in index order
//! (so that no two commands wait for each other), all of them for a command over the whole keyspace. Reading commands
//! take read locks. Commands of one read run together under the locks of all their keys, taken in the same order: read
//! locks where none of them writes.

mod snapshots;
mod view;

use super::eviction::{Evicted, evict_within};
use super::expiration::{Slice, TimeSlice, expire_slice};
use super::gather::Gather;
use super::inline::{InlineComponents, InlineEngine, Lent};
use super::metrics::{DatabaseMetrics, EngineMetrics, ShardMetrics, log_metrics};
use super::prefetch::{GROUP, GROUP_MIN, fetch, first_key};
use super::shard_set::ShardSet;
use super::snapshots::OwnerSnapshot;
use super::together::{Commands, Room, Scratch, is_over};
use super::{EngineComponents, Metered};
use crate::aof::Segment;
use crate::base::narrowing::size;
use crate::base::parallel::in_parallel;
use crate::commands::{self, CommandId, Context, Crossing, Flags, Request, Transaction};
use crate::keyspace::{
    Deadlines, DueKeys, Instance, KeyWaiters, Keyspace, KeyspaceStats, Node, ProcessHash, Store, Table, hash_of,
};
use crate::resp::{Args, Reply};
use crate::stats::stage_latency::Stage;
use dashmap::DashMap;
use parking_lot::Mutex;
use snapshots::SharedSnapshotting;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use view::View;

/// The table: the node is key and value, so the map's own value is empty.
type Map = DashMap<Node, (), ProcessHash>;

/// The data beside the nodes of each of the map's shards.
struct Sides {
    /// Locked only under the lock of the map's shard, or for reading figures.
    all: Box<[Mutex<Side>]>,
    /// How many of them have key waiters.
    listening: AtomicUsize,
}

#[derive(Debug, Default)]
struct Side {
    deadlines: Deadlines,
    key_waiters: KeyWaiters,
}

/// One database.
struct Database {
    map: Map,
    sides: Sides,
    /// The snapshot of all databases.
    snapshotting: Arc<SharedSnapshotting>,
    instance: Arc<Instance>,
    /// Whether threads keep their tasks. Then a thread that waits for a lock also checks for busy scripts.
    is_pinned: bool,
}

impl Database {
    /// A database with room for this many keys.
    fn new(
        shards: usize,
        keys: usize,
        snapshotting: Arc<SharedSnapshotting>,
        instance: Arc<Instance>,
        is_pinned: bool,
    ) -> Self {
        let map = Map::with_capacity_and_hasher_and_shard_amount(keys, ProcessHash, shards);
        let all = (0..shards).map(|_| Mutex::default()).collect();
        Self { map, sides: Sides { all, listening: AtomicUsize::new(0) }, snapshotting, instance, is_pinned }
    }

    /// The shard of the map that holds the keys of a hash.
    fn shard_of(&self, hash: u64) -> usize {
        self.map.determine_shard(size(hash))
    }

    /// How many shards the map has.
    fn shards(&self) -> usize {
        self.sides.all.len()
    }

    /// How many keys of a shard of the map may be evicted.
    fn evictable(&self, index: usize, spares_lasting: bool) -> u64 {
        let count = match spares_lasting {
            true => self.sides.all[index].lock().deadlines.len(),
            false => self.map.shards()[index].read().len(),
        };
        count as u64
    }

    fn metrics(&self) -> DatabaseMetrics {
        let mut metrics = DatabaseMetrics { keys: self.map.len() as u64, ..DatabaseMetrics::default() };
        for side in &self.sides.all {
            let side = side.lock();
            metrics.expires += side.deadlines.len() as u64;
            metrics.deadlines_ms += side.deadlines.sum();
        }
        metrics
    }
}

/// Keys evicted under one lock.
const EVICTED_TOGETHER: u64 = 4;

/// One DashMap per database.
pub struct DashmapEngine {
    components: InlineComponents,
    databases: Box<[Database]>,
    is_multi_key_atomic: bool,
    counters: Counters,
}

#[derive(Debug, Default)]
struct Counters {
    commands: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
    expired: AtomicU64,
    changes: AtomicU64,
    expire_lag_ms: AtomicU64,
}

impl DashmapEngine {
    /// An engine over the one store of `engine_components`.
    pub fn new(engine_components: EngineComponents) -> Self {
        let shards = engine_components.map_shards.get().next_power_of_two().max(2);
        let is_multi_key_atomic = engine_components.is_multi_key_atomic;
        let is_pinned = engine_components.tasks.places() > 1;
        let (components, store) = InlineComponents::new(engine_components);
        let snapshotting = Arc::new(SharedSnapshotting::default());
        let databases = (0..store.databases()).map(|number| {
            let keys = store.tables().get(number).map_or(0, Table::len);
            Database::new(shards, keys, Arc::clone(&snapshotting), Arc::clone(store.instance()), is_pinned)
        });
        let engine =
            Self { components, databases: databases.collect(), is_multi_key_atomic, counters: Counters::default() };
        // One partition for each shard of a map: no thread waits for another's lock.
        in_parallel(store.into_partitions(shards), |(database, nodes)| {
            View::insert_recovered(&engine.databases, database, nodes);
        });
        engine
    }

    /// Locks what the command needs, and selects the database.
    fn view(&self, id: CommandId, args: Args<'_>, database: usize, is_writable: bool) -> View<'_> {
        let command = commands::command(id);
        if command.flags.has(Flags::CROSSES) {
            return self.view_across(id, args, database);
        }
        match command.request {
            _ if command.needs_all(args, &self.components.instance) => {
                View::all(&self.databases, database, is_writable)
            }
            Request::AllShards | Request::Cursor => unreachable!("they need all shards"),
            Request::MultiShard | Request::MultiShardView => {
                let keys = command.keys.positions(args).map(|position| (database, hash_of(&args[position])));
                View::several(&self.databases, database, keys, is_writable)
            }
            Request::OneShard => {
                let hash = hash_of(&args[usize::from(command.keys.first)]);
                View::one(&self.databases, database, hash, is_writable)
            }
            Request::Local => unreachable!("the connection runs local commands"),
        }
    }

    /// Locks the keys of a command that may concern other databases than the selected one.
    #[cold]
    fn view_across(&self, id: CommandId, args: Args<'_>, database: usize) -> View<'_> {
        let other = match commands::crossing(id, args, self.databases.len(), &self.components.instance) {
            Crossing::Everywhere => return View::everything(&self.databases).selecting(database),
            Crossing::To(other) => Some(other),
            Crossing::Nowhere => None,
        };
        let hashes = commands::command(id).keys.positions(args).map(|position| hash_of(&args[position]));
        let keys = hashes.flat_map(|hash| std::iter::once(database).chain(other).map(move |number| (number, hash)));
        View::several(&self.databases, database, keys, true)
    }

    /// Runs a command over the locked view and logs its changes, still under the locks. False if it met an expired key
    /// that it may not remove under read locks.
    ///
    /// `view` locks what the command needs.
    fn run_over<'a>(
        &'a self,
        view: impl FnOnce() -> View<'a>,
        (id, part): (CommandId, Option<Part>),
        args: Args<'_>,
        reply: &mut Reply<'_>,
        lent: &mut Lent,
    ) -> bool {
        let mut start = lent.laps.start();
        let view = view();
        lent.laps.lap(Stage::Queue, &mut start);
        let mut effects = std::mem::take(&mut lent.effects);
        // Under the locks: a log begins and ends under all of them.
        effects.set_logged(self.components.segment.is_recorded());
        let database = view.selected();
        let mut keyspace = Keyspace::new(view, lent.now_ms, lent.random.fork(), effects);
        keyspace.select(database);
        keyspace.turn.notes_uses = lent.notes_uses;
        self.components.instruct(&mut keyspace);
        keyspace.turn.caller.tracking = lent.tracking;
        if let Some(Part { runs_under: Some(runs_under), .. }) = part {
            keyspace.turn.due_keys = runs_under;
        }
        let has_several_keys = part.is_none() && commands::command(id).request != Request::OneShard;
        self.components.catch_up(&mut keyspace, lent, has_several_keys);
        let counts = part.is_none_or(|part| part.is_first);
        commands::execute_part(id, &mut keyspace, args, reply, counts);
        let complete = !keyspace.saw_expired();
        lent.laps.lap(Stage::Execute, &mut start);
        if complete {
            lent.slow.append(keyspace.timing.slow());
            self.components.log(&mut keyspace);
            lent.laps.lap(Stage::Log, &mut start);
        }
        let stats = keyspace.stats;
        lent.effects = std::mem::take(&mut keyspace.effects);
        if complete {
            self.counters.add(stats);
        }
        complete
    }

    /// Whether a command needs only the locks of its keys, so that others can run together with it.
    fn joins(&self, id: CommandId, args: Args<'_>) -> bool {
        let command = commands::command(id);
        match command.request {
            // First: of a script it takes a look to find out what it needs.
            _ if command.flags.has(Flags::CROSSES) => self.joins_across(id, args),
            Request::OneShard => true,
            Request::MultiShard => self.is_multi_key_atomic,
            Request::MultiShardView => !command.needs_all(args, &self.components.instance),
            Request::AllShards | Request::Cursor | Request::Local => false,
        }
    }

    /// The same for a command that may concern other databases, and for scripts.
    ///
    /// A script that only reads runs alone: under read locks it would run again when it meets an expired key.
    fn joins_across(&self, id: CommandId, args: Args<'_>) -> bool {
        commands::command(id).is_write()
            && commands::crossing(id, args, self.databases.len(), &self.components.instance) == Crossing::Nowhere
    }

    /// Locks what the commands need.
    fn view_of_all(&self, commands: Commands<'_>, shards: &mut ShardSet) -> View<'_> {
        let number = usize::from(commands.context.database);
        let database = &self.databases[number];
        shards.clear(database.shards());
        for (id, args) in commands.iter() {
            let command = commands::command(id);
            let is_write = command.is_write();
            let mut add = |key: &[u8]| shards.add(database.shard_of(hash_of(key)), is_write);
            match command.request {
                Request::OneShard => add(&args[usize::from(command.keys.first)]),
                _ => command.keys.positions(args).for_each(|position| add(&args[position])),
            }
        }
        View::of_shards(&self.databases, number, shards)
    }

    /// Runs commands under the locks of all of them, for as long as these may be held, and returns how many ran. It
    /// also stops before a command that met an expired key it may not remove.
    fn run_held(
        &self,
        keyspace: &mut Keyspace<View<'_>>,
        commands: Commands<'_>,
        scratch: &mut Scratch,
        room: &mut Room<'_>,
    ) -> (usize, KeyspaceStats) {
        let began = keyspace.timing.began_at();
        let mut stats = KeyspaceStats::default();
        for (index, (id, args)) in commands.iter().enumerate() {
            keyspace.select(commands.context.database.into());
            if self.components.batching.prefetches && index.is_multiple_of(GROUP) && commands.len() - index >= GROUP_MIN
            {
                fetch(&keyspace.store, commands.from(index).iter());
            }
            let (start, told) = (room.out.len(), keyspace.notices.len());
            keyspace.store.set_writable(commands::command(id).is_write());
            commands::execute(id, keyspace, args, &mut room.reply(commands.context.resp3));
            if keyspace.saw_expired() {
                // It runs again, and tells its events then.
                room.out.truncate(start);
                keyspace.notices.truncate(told);
                return (index, stats);
            }
            scratch.records.take(&self.components.segment, &mut keyspace.effects);
            stats = keyspace.stats;
            if !room.is_left() || is_over(began, keyspace, self.components.batching) {
                return (index + 1, stats);
            }
        }
        (commands.len(), stats)
    }

    /// Locks the keys of a transaction for writing: even one that only reads may meet expired keys.
    fn transaction_view(&self, transaction: &Transaction) -> View<'_> {
        if transaction.needs_all(&self.components.instance) {
            return View::everything(&self.databases);
        }
        let mut keys = Vec::new();
        transaction.for_each_key(&self.components.instance, |database, key| keys.push((database, hash_of(key))));
        View::several(&self.databases, 0, keys.iter().copied(), true)
    }

    /// Runs on each key, or each shard of the map, separately: nothing is promised about other commands in between.
    fn run_relaxed<'a>(
        &'a self,
        id: CommandId,
        args: Args<'_>,
        database: usize,
        reply: &mut Reply<'_>,
        lent: &mut Lent,
    ) {
        let command = commands::command(id);
        let mut encoded = Vec::new();
        let is_resp3 = reply.is_resp3();
        let slow_before = lent.slow.len();
        // Held until the last part has run: a server that becomes a replica waits for it.
        let _sending = command.is_write().then(|| self.components.segment.control().begin_sending());
        let runs_under = command.is_write().then(|| self.components.due_keys());
        let mut is_first = true;
        let mut run = |view: &dyn Fn() -> View<'a>, args: Args<'_>, lent: &mut Lent| {
            encoded.clear();
            let part = Part { is_first: std::mem::replace(&mut is_first, false), runs_under };
            self.run_over(view, (id, Some(part)), args, &mut Reply::new(&mut encoded, is_resp3), lent);
            encoded.clone()
        };
        let parts: Vec<Vec<u8>> = if command.request == Request::AllShards {
            let run = |index| run(&|| View::shard(&self.databases, database, index), args, lent);
            (0..self.shards()).map(run).collect()
        } else {
            let step = usize::from(command.keys.step);
            let positions = command.keys.positions(args);
            positions
                .map(|position| {
                    let view = || View::one(&self.databases, database, hash_of(&args[position]), true);
                    let spans = args.spans_of(std::iter::once(0).chain(position..position + step));
                    run(&view, args.with_spans(&spans), lent)
                })
                .collect()
        };
        let key_shards = (0..parts.len()).collect();
        let mut gather = Gather::new(command.response, reply.is_resp3(), key_shards, parts.len());
        parts.iter().enumerate().for_each(|(part, encoded)| _ = gather.add(part, encoded));
        let mut whole = Vec::new();
        let keys_of = |shard: usize| self.databases[database].map.shards()[shard].read().len() as u64;
        lent.slow.drain(slow_before..).for_each(|part| gather.note_slow(part));
        lent.slow.extend(gather.take_slow());
        gather.write(&mut whole, keys_of, |below| lent.random.u64(..below));
        reply.raw(&whole);
    }

    /// How many shards each map has.
    fn shards(&self) -> usize {
        self.databases[0].shards()
    }

    /// Drops some of the key waiters of one shard of a map that went away, and removes due keys for a slice of time.
    fn expire_shard(&self, database: usize, index: usize, random: &mut fastrand::Rng) -> Slice {
        let sides = &self.databases[database].sides;
        let more = sides.listening.load(Ordering::Relaxed) > 0
            && !sides.all[index].lock().key_waiters.is_empty()
            && View::shard(&self.databases, database, index).sweep_key_waiters();
        let slice = self.remove_due(database, index, random);
        Slice { more: slice.more || more, ..slice }
    }

    fn remove_due(&self, database: usize, index: usize, random: &mut fastrand::Rng) -> Slice {
        let now_ms = self.components.clock.now_ms();
        let first = || self.databases[database].sides.all[index].lock().deadlines.first();
        if first().is_none_or(|(at, _)| at > now_ms) {
            return Slice::default();
        }
        let view = View::shard(&self.databases, database, index);
        let mut keyspace = Keyspace::new(view, now_ms, random.fork(), self.components.effects());
        self.components.instruct(&mut keyspace);
        let slice =
            expire_slice(&mut keyspace, &self.components.latency, |_| first().map(|deadline| (database, deadline)));
        self.components.log(&mut keyspace);
        self.counters.add(keyspace.stats);
        slice
    }
}

/// A part of a command that runs on each key, or each shard of the map, separately.
#[derive(Clone, Copy)]
struct Part {
    is_first: bool,
    /// The rule that all parts run under, if the command writes.
    runs_under: Option<DueKeys>,
}

/// One shard of a database's map, and how many of its keys may be evicted.
type Share = ((usize, usize), u64);

impl DashmapEngine {
    fn shares(&self, spares_lasting: bool) -> Vec<Share> {
        let numbered = self.databases.iter().enumerate();
        let shares = numbered.flat_map(|(number, database)| {
            (0..self.shards()).map(move |index| ((number, index), database.evictable(index, spares_lasting)))
        });
        shares.filter(|(_, count)| *count > 0).collect()
    }

    /// Evicts a few keys of one shard of a map.
    fn evict_of(
        &self,
        (database, index): (usize, usize),
        bytes: i64,
        slice: &mut TimeSlice,
        random: &mut fastrand::Rng,
    ) -> Evicted {
        let view = View::shard(&self.databases, database, index);
        let effects = self.components.effects();
        let mut keyspace = Keyspace::new(view, self.components.clock.now_ms(), random.fork(), effects);
        self.components.instruct(&mut keyspace);
        let evicted = evict_within(&mut keyspace, bytes, slice, EVICTED_TOGETHER);
        self.components.log(&mut keyspace);
        self.counters.add(keyspace.stats);
        evicted
    }
}

/// Draws one, weighted by its share of the `total` keys.
fn draw_share<'s>(shares: &'s mut [Share], total: u64, random: &mut fastrand::Rng) -> Option<&'s mut Share> {
    let mut rank = if total > 0 { random.u64(..total) } else { return None };
    shares.iter_mut().find(|(_, count)| {
        let is_here = rank < *count;
        rank = rank.saturating_sub(*count);
        is_here
    })
}

impl Counters {
    fn add(&self, stats: KeyspaceStats) {
        for (counter, value) in [
            (&self.hits, stats.hits),
            (&self.misses, stats.misses),
            (&self.expired, stats.expired),
            (&self.changes, stats.changes),
        ] {
            if value > 0 {
                counter.fetch_add(value, Ordering::Relaxed);
            }
        }
    }
}

impl DashmapEngine {
    fn run_joined(&self, commands: Commands<'_>, scratch: &mut Scratch, room: &mut Room<'_>, lent: &mut Lent) -> usize {
        let mut start = lent.laps.start();
        let view = self.view_of_all(commands, &mut scratch.shards);
        lent.laps.lap(Stage::Queue, &mut start);
        let mut effects = std::mem::take(&mut lent.effects);
        // Under the locks: a log begins and ends under all of them.
        effects.set_logged(self.components.segment.is_recorded());
        let mut keyspace = Keyspace::new(view, lent.now_ms, lent.random.fork(), effects);
        keyspace.turn.notes_uses = lent.notes_uses;
        self.components.instruct(&mut keyspace);
        keyspace.turn.caller.tracking = lent.tracking;
        // To look whether one of the commands has several keys would cost more.
        self.components.catch_up(&mut keyspace, lent, true);
        let (ran, stats) = self.run_held(&mut keyspace, commands, scratch, room);
        lent.slow.append(keyspace.timing.slow());
        lent.laps.lap(Stage::Execute, &mut start);
        // Under the locks: another writer of these keys may log first otherwise.
        scratch.records.append_to(&self.components.segment);
        self.components.log(&mut keyspace);
        lent.laps.lap(Stage::Log, &mut start);
        lent.effects = keyspace.effects;
        drop(keyspace.store);
        self.counters.add(stats);
        self.counters.commands.fetch_add(ran as u64, Ordering::Relaxed);
        ran
    }
}

/// Whether `--multi-key relaxed` lets a command lock its keys, or shards, one by one. FLUSHDB does not: its record in
/// the log is that of the whole database, so a key that is set between two shards would be in the map and not in the
/// log.
fn is_scattered(id: CommandId) -> bool {
    let command = commands::command(id);
    let is_of_parts = match command.request {
        Request::MultiShard => true,
        Request::AllShards => !command.is_write(),
        _ => false,
    };
    is_of_parts && !command.flags.has(Flags::CROSSES)
}

impl InlineEngine for DashmapEngine {
    fn components(&self) -> &InlineComponents {
        &self.components
    }

    fn run_transaction(&self, transaction: &mut Transaction, lent: &mut Lent) {
        self.counters.commands.fetch_add(transaction.len() as u64, Ordering::Relaxed);
        let mut start = lent.laps.start();
        let view = self.transaction_view(transaction);
        lent.laps.lap(Stage::Queue, &mut start);
        let mut effects = std::mem::take(&mut lent.effects);
        // Under the locks: a log begins and ends under all of them.
        effects.set_logged(self.components.segment.is_recorded());
        let mut keyspace = Keyspace::new(view, lent.now_ms, lent.random.fork(), effects);
        self.components.instruct(&mut keyspace);
        self.components.catch_up(&mut keyspace, lent, true);
        transaction.run(&mut keyspace);
        lent.slow.append(keyspace.timing.slow());
        lent.laps.lap(Stage::Execute, &mut start);
        self.components.log(&mut keyspace);
        lent.laps.lap(Stage::Log, &mut start);
        self.counters.add(keyspace.stats);
        lent.effects = keyspace.effects;
    }

    /// A few keys at a time from one shard of a map after another, drawn by how many keys they have.
    fn evict(&self, bytes: i64) -> Evicted {
        let mut random = self.components.random();
        let mut shares = self.shares(self.components.instance.settings.eviction.policy().spares_lasting());
        let mut total: u64 = shares.iter().map(|(_, count)| count).sum();
        let mut slice = TimeSlice::begin();
        let mut all = Evicted { is_exhausted: total == 0, ..Evicted::default() };
        while all.freed < bytes && !slice.is_over() {
            let Some((table, count)) = draw_share(&mut shares, total, &mut random) else { break };
            let evicted = self.evict_of(*table, bytes - all.freed, &mut slice, &mut random);
            if evicted.keys == 0 {
                break;
            }
            all.keys += evicted.keys;
            all.freed += evicted.freed;
            // Others may have added keys, or removed some.
            let gone = evicted.keys.min(*count);
            *count -= gone;
            total -= gone;
        }
        self.components.instance.pressure.pay(all.keys, all.freed);
        all
    }

    fn is_atomic(&self) -> bool {
        self.is_multi_key_atomic
    }

    fn run(&self, id: CommandId, args: Args<'_>, database: usize, reply: &mut Reply<'_>, lent: &mut Lent) {
        self.counters.commands.fetch_add(1, Ordering::Relaxed);
        if !self.is_multi_key_atomic && is_scattered(id) {
            return self.run_relaxed(id, args, database, reply, lent);
        }
        let start = reply.position();
        let is_write = commands::command(id).is_write();
        if !self.run_over(|| self.view(id, args, database, is_write), (id, None), args, reply, lent) {
            // Runs the command again, permitted to remove expired keys.
            reply.truncate(start);
            self.run_over(|| self.view(id, args, database, true), (id, None), args, reply, lent);
        }
    }

    /// Commands that join each other run under the locks of all of them; another runs alone.
    fn run_together(
        &self,
        commands: Commands<'_>,
        scratch: &mut Scratch,
        room: &mut Room<'_>,
        lent: &mut Lent,
    ) -> usize {
        let count = commands.iter().take_while(|&(id, args)| self.joins(id, args)).count();
        let ran = if count > 1 { self.run_joined(commands.first(count), scratch, room, lent) } else { 0 };
        if ran > 0 {
            return ran;
        }
        let (id, args) = commands.iter().next().expect("the caller has at least one");
        let Context { resp3, database, .. } = commands.context;
        self.run(id, args, database.into(), &mut room.reply(resp3), lent);
        1
    }

    fn fetch(&self, commands: Commands<'_>) {
        let database = usize::from(commands.context.database);
        let keys = commands.iter().filter_map(first_key).map(|key| (database, hash_of(key)));
        let view = View::several(&self.databases, database, keys, false);
        fetch(&view, commands.iter());
    }

    fn begin_snapshot_of_all(&self, owners: Vec<OwnerSnapshot>) {
        snapshots::begin(&self.databases, owners);
    }

    fn walk_snapshot_of_all(&self) -> bool {
        snapshots::walk(&self.databases)
    }

    async fn expire(&self, random: &mut fastrand::Rng) -> Slice {
        let mut all = Slice::default();
        for database in 0..self.databases.len() {
            for index in 0..self.shards() {
                let slice = self.expire_shard(database, index, random);
                all = Slice { more: all.more || slice.more, lag_ms: all.lag_ms.max(slice.lag_ms) };
                if slice.more {
                    tokio::task::yield_now().await;
                }
            }
        }
        self.counters.expire_lag_ms.store(all.lag_ms, Ordering::Relaxed);
        all
    }
}

impl Metered for DashmapEngine {
    fn evictable(&self, spares_lasting: bool) -> u64 {
        self.shares(spares_lasting).iter().map(|(_, count)| count).sum()
    }

    fn segments(&self) -> &[Arc<Segment>] {
        std::slice::from_ref(&self.components.segment)
    }

    fn metrics(&self) -> EngineMetrics {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let databases: Vec<DatabaseMetrics> = self.databases.iter().map(Database::metrics).collect();
        EngineMetrics {
            engine: "dashmap",
            shards: vec![ShardMetrics {
                keys: databases.iter().map(|database| database.keys).sum(),
                expires: databases.iter().map(|database| database.expires).sum(),
                commands: load(&self.counters.commands),
                ..ShardMetrics::default()
            }],
            databases,
            map_shards: self.shards(),
            keyspace: KeyspaceStats {
                hits: load(&self.counters.hits),
                misses: load(&self.counters.misses),
                expired: load(&self.counters.expired),
                changes: load(&self.counters.changes),
            },
            expire_lag_ms: load(&self.counters.expire_lag_ms),
            lock_waits: None,
            lock_free: 0,
            segments: log_metrics(self.segments()),
        }
    }
}
