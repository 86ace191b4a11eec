//! The shard: owns a keyspace and a segment of the log, runs batches, and publishes figures.

use super::super::eviction::{evict_slice, instalment};
use super::super::expiration::expire_slice;
use super::super::prefetch::{GROUP_MIN, fetch};
use super::super::snapshots::{OwnerSnapshot, slice};
use super::super::together::Batching;
use super::batch::{Batch, Op};
use crate::aof::{
    ControlRecord, PendingCommits, Segment, cross_shard_payload, frame_control_onto, frame_cross_shard_onto, frame_onto,
};
use crate::base::clock::Clock;
use crate::base::limits::Limit;
use crate::base::tsc;
use crate::commands::{self, CommandId, Flags, Transaction};
use crate::keyspace::{Databases, DueKeysRule, Effects, Keyspace, LogPosition, MultiShardView, Store, Table};
use crate::pubsub::PubSub;
use crate::resp::{Args, Replies, Reply};
use crate::stats::latency;
use crate::stats::stage_latency::Stage;
use actors::{Shard, Timeline};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// From this many commands on, a batch is large: it is served at once, while its bytes are in the cache, instead of
/// waiting for others to join the turn.
const LARGE: usize = GROUP_MIN;

/// Figures of a shard for other threads. Only the shard writes them, once per turn.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Gauges {
    pub databases: Box<[DatabaseGauges]>,
    pub hits: AtomicU64,
    pub misses: AtomicU64,
    pub expired: AtomicU64,
    pub changes: AtomicU64,
    pub commands: AtomicU64,
    pub batches: AtomicU64,
    pub in_place: AtomicU64,
    pub turns: AtomicU64,
    pub largest_batch: AtomicU64,
    pub expire_lag_ms: AtomicU64,
    /// The earliest deadline; 0 when no key expires.
    first_deadline_ms: AtomicU64,
    /// Databases with key waiters.
    listening: AtomicU64,
}

/// Figures of a shard's share of a database.
#[derive(Debug, Default)]
pub struct DatabaseGauges {
    pub keys: AtomicU64,
    pub expires: AtomicU64,
    /// The sum of their deadlines, as the bits of a float.
    pub deadlines_ms: AtomicU64,
}

impl Gauges {
    /// Figures of a shard with this many databases.
    pub fn new(databases: usize) -> Self {
        Self { databases: (0..databases).map(|_| DatabaseGauges::default()).collect(), ..Self::default() }
    }

    /// How many keys may be evicted.
    pub fn evictable(&self, spares_lasting: bool) -> u64 {
        let count = |gauges: &DatabaseGauges| match spares_lasting {
            true => gauges.expires.load(Ordering::Relaxed),
            false => gauges.keys.load(Ordering::Relaxed),
        };
        self.databases.iter().map(count).sum()
    }

    /// Whether a search for expired keys is due: a key's time has come, the last search reported a lag that may be
    /// over, or there are key waiters, some of which may have gone away.
    pub fn has_due(&self, now_ms: u64) -> bool {
        let load = |gauge: &AtomicU64| gauge.load(Ordering::Relaxed);
        let first = load(&self.first_deadline_ms);
        (first != 0 && first <= now_ms) || load(&self.expire_lag_ms) > 0 || load(&self.listening) > 0
    }
}

/// One shard's share of the figures.
pub struct GaugesOf {
    pub all: Arc<[Gauges]>,
    pub index: usize,
}

/// What all shards share.
#[derive(Clone)]
pub struct Common {
    pub pubsub: Arc<PubSub>,
    pub due_keys: Arc<DueKeysRule>,
    pub latency: Arc<latency::Monitor>,
    /// Transactions over several segments of the log.
    pub pending_commits: Arc<PendingCommits>,
    pub clock: Clock,
    pub timeline: Arc<Timeline>,
    pub reply_bytes_max: Arc<Limit>,
    /// How commands are run.
    pub batching: Batching,
}

/// The only owner of its share of the keys.
pub struct KeyspaceShard {
    keyspace: Keyspace<Databases>,
    segment: Arc<Segment>,
    pubsub: Arc<PubSub>,
    due_keys: Arc<DueKeysRule>,
    latency: Arc<latency::Monitor>,
    pending_commits: Arc<PendingCommits>,
    /// The records of the turn, framed.
    records: Vec<u8>,
    /// How many records those are.
    record_count: u64,
    /// Whether an epoch of the log ends with this turn.
    ends_epoch: bool,
    clock: Clock,
    timeline: Arc<Timeline>,
    /// Whether a part of a group runs, at the group's moment.
    is_at_moment: bool,
    reply_bytes_max: Arc<Limit>,
    /// The same for the batch that runs.
    reply_bytes_now: usize,
    /// Reasons to stop commands, in one byte that each command checks.
    obstacles: u8,
    /// Bytes to be freed by eviction.
    debt: i64,
    gauges: GaugesOf,
    commands: u64,
    batches: u64,
    turns: u64,
    largest_batch: u64,
    expire_lag_ms: u64,
    /// Whether a batch of the turn is sampled.
    has_sampled: bool,
    /// Whether nodes are fetched ahead.
    prefetches: bool,
    /// When the clock was read, in ticks.
    clock_read_at: u64,
    /// Ticks after which it is read again before another command runs.
    clock_ticks_max: u64,
    /// Ticks after which a batch leaves the rest of its commands.
    batch_ticks_max: u64,
    /// When the running batch has had as many.
    batch_ends_at: u64,
    /// Whether small batches wait for other ready connections to add to the turn.
    gathers: bool,
}

/// Bytes of memory for a turn's records that are kept: one large command should not keep its memory for ever.
const RECORDS_KEPT: usize = 64 * 1024;
/// The same where memory is near its limit.
const RECORDS_KEPT_TIGHT: usize = 16 * 1024;

/// A reply of the batch was dropped.
const OVERFLOW: u8 = 1;
/// Keys must be evicted before a command that needs memory.
const DEBT: u8 = 2;

impl KeyspaceShard {
    pub fn new(
        store: Databases,
        segment: Arc<Segment>,
        random: fastrand::Rng,
        gauges: GaugesOf,
        Common { pubsub, due_keys, latency, pending_commits, clock, timeline, reply_bytes_max, batching }: Common,
    ) -> Self {
        let effects = Effects::new(segment.is_recorded());
        let mut shard = Self {
            keyspace: Keyspace::new(store, clock.now_ms(), random, effects),
            segment,
            pubsub,
            due_keys,
            latency,
            pending_commits,
            records: Vec::new(),
            record_count: 0,
            ends_epoch: false,
            clock,
            timeline,
            is_at_moment: false,
            reply_bytes_max,
            reply_bytes_now: 0,
            obstacles: 0,
            debt: 0,
            gauges,
            commands: 0,
            batches: 0,
            turns: 0,
            largest_batch: 0,
            expire_lag_ms: 0,
            has_sampled: false,
            prefetches: batching.prefetches,
            clock_ticks_max: batching.clock_ticks_max,
            batch_ticks_max: batching.batch_ticks_max,
            batch_ends_at: 0,
            clock_read_at: 0,
            gathers: true,
        };
        shard.publish();
        shard
    }

    /// Makes small batches not wait for others. On a runtime of one thread with a first-in, first-out run queue, the
    /// connections that were ready before the shard have run before it anyway.
    pub fn set_in_order(&mut self) {
        self.gathers = false;
    }

    fn run_commands(&mut self, batch: &mut Batch) {
        self.reply_bytes_now = self.reply_bytes_max.get();
        self.batch_ends_at = self.keyspace.timing.began_at().saturating_add(self.batch_ticks_max);
        let fetches = self.prefetches && batch.ops.len() >= LARGE;
        let fetch_if_large = |shard: &mut Self, ahead: &mut dyn Iterator<Item = (CommandId, Args<'_>)>| {
            if fetches {
                fetch(&shard.keyspace.store, ahead);
            }
        };
        batch.run(self, fetch_if_large, Self::run_command);
        let ran = batch.ran() as u64;
        self.commands += ran;
        self.largest_batch = self.largest_batch.max(ran);
        batch.note_slow(self.keyspace.timing.slow());
        batch.overflowed = self.obstacles & OVERFLOW != 0;
        self.obstacles &= !OVERFLOW;
    }

    /// Runs a command of a batch, and returns whether the batch has time for another.
    fn run_command(&mut self, op: &Op, args: Args<'_>, record: Option<&[u8]>, replies: &mut Replies) -> bool {
        if self.obstacles != 0 && !self.goes_on(op, args) {
            return true;
        }
        self.catch_up();
        let start = replies.len();
        if record.is_some() {
            self.keyspace.effects.leave_out_own();
        }
        self.keyspace.select(op.context.database.into());
        self.keyspace.turn.notes_uses = !op.context.no_touch;
        let mut shared = None;
        let reply = &mut Reply::or_shared(replies.buffer(), &mut shared, op.context.resp3);
        let slow_before = op.is_part.then(|| self.keyspace.timing.slow().len());
        match op.is_part {
            true => commands::execute_part(op.id, &mut self.keyspace, args, reply, op.counts),
            false => commands::execute(op.id, &mut self.keyspace, args, reply),
        }
        if let Some(slow) = slow_before.and_then(|before| self.keyspace.timing.slow().get_mut(before)) {
            slow.part_of = Some(op.seq.into());
        }
        if let Some(bulk) = shared {
            replies.append_shared(bulk);
        }
        self.take_record();
        // What one shard refuses, every shard refuses. The log may have ended while the batch was in flight.
        if let Some(payload) = record.filter(|_| !replies.at(start..replies.len()).starts_with(b"-"))
            && self.keyspace.effects.is_logged()
        {
            frame_cross_shard_onto(&mut self.records, self.segment.salt(), payload);
            self.record_count += 1;
        }
        // The connection will be closed; until then its replies may not take memory without end.
        if replies.len() > self.reply_bytes_now {
            self.obstacles |= OVERFLOW;
            replies.truncate(start);
        }
        self.keyspace.timing.began_at() < self.batch_ends_at
    }

    /// Reads the clock again if the last command has taken so long that the time is another: a deadline could be over
    /// before it is set otherwise.
    #[inline]
    fn catch_up(&mut self) {
        let began_at = self.keyspace.timing.began_at();
        if began_at.saturating_sub(self.clock_read_at) > self.clock_ticks_max {
            self.read_clock(began_at);
        }
    }

    fn read_clock(&mut self, at: u64) {
        self.clock_read_at = at;
        let due_ms = self.keyspace.turn.due_ms();
        self.keyspace.set_now(self.clock.now_ms());
        match self.is_at_moment {
            true => self.keyspace.turn.set_due(due_ms),
            false => self.bound_due(),
        }
    }

    /// Holds back the time by which keys are due, for work over several shards that comes. After the clock is read.
    #[inline]
    fn bound_due(&mut self) {
        let bound = self.timeline.bound(self.gauges.index);
        self.keyspace.turn.set_due(self.keyspace.turn.now_ms().min(bound));
    }

    /// Whether a command runs although there is an obstacle.
    #[cold]
    fn goes_on(&mut self, op: &Op, args: Args<'_>) -> bool {
        if self.debt > 0 && commands::command(op.id).flags.has(Flags::DENYOOM) {
            self.pay(instalment(self.debt, args.byte_len()));
            // As on the other engines, evicting is no part of the command.
            self.keyspace.timing.start();
        }
        // The connection will be closed: commands after an endless reply do not run, unless another shard runs a part
        // of them too.
        self.obstacles & OVERFLOW == 0 || op.is_part
    }

    /// Evicts keys until this many bytes are freed, for a slice of time, and returns how many keys were evicted.
    fn pay(&mut self, bytes: i64) -> u64 {
        // The other shards may have paid, or a new reading of the memory may be lower.
        self.debt = self.debt.min(self.keyspace.instance().pressure.debt());
        let evicted = evict_slice(&mut self.keyspace, bytes.min(self.debt));
        // Without keys to evict the debt cannot be paid.
        self.debt = if evicted.keys == 0 { 0 } else { (self.debt - evicted.freed).max(0) };
        self.obstacles = self.obstacles & !DEBT | if self.debt > 0 { DEBT } else { 0 };
        self.take_record();
        evicted.keys
    }

    fn run_removal(&mut self, batch: &mut Batch) {
        match batch.evicts() {
            None => self.run_expiration(batch),
            Some(bytes) => {
                self.debt = bytes;
                batch.set_evicted(self.pay(bytes));
            }
        }
    }

    fn run_transaction(&mut self, transaction: &mut Transaction) {
        self.commands += transaction.len() as u64;
        if transaction.needs_all(self.keyspace.instance()) {
            // It may be a DEBUG LOADAOF, which reads the log.
            self.append_records();
        }
        transaction.run(&mut self.keyspace);
        self.take_record();
    }

    fn run_expiration(&mut self, batch: &mut Batch) {
        let slice = expire_slice(&mut self.keyspace, &self.latency, |keyspace| keyspace.store.first_deadline());
        self.expire_lag_ms = slice.lag_ms;
        batch.set_expires_more(slice.more | self.keyspace.store.sweep_key_waiters());
        self.take_record();
    }

    fn end_epoch(&mut self, epoch: u64) {
        let segment = &self.segment;
        // The log may have ended while the batch was in flight.
        if segment.is_on() {
            frame_control_onto(
                &mut self.records,
                segment.salt(),
                ControlRecord::Epoch(epoch, segment.control().policy()),
            );
            self.ends_epoch = true;
        }
    }

    /// Begins a snapshot, after logging what the turn has changed so far.
    fn begin_snapshot(&mut self, OwnerSnapshot { sink, at_moment }: OwnerSnapshot) {
        self.append_records();
        at_moment();
        self.keyspace.effects.set_logged(self.segment.is_recorded());
        if let Some(sink) = sink {
            self.keyspace.store.begin_snapshot(sink);
        }
    }

    /// Frames the last command's changes, if any, as one record of the turn.
    fn take_record(&mut self) {
        let effects = &mut self.keyspace.effects;
        if !effects.payload().is_empty() {
            frame_onto(&mut self.records, self.segment.salt(), effects.payload());
            effects.clear();
            self.record_count += 1;
        }
    }

    fn append_records(&mut self) {
        if !self.records.is_empty() {
            self.segment.append(&self.records, std::mem::take(&mut self.record_count));
            self.records.clear();
            self.records.shrink_to(if self.keyspace.instance().pressure.is_tight() {
                RECORDS_KEPT_TIGHT
            } else {
                RECORDS_KEPT
            });
            if std::mem::take(&mut self.ends_epoch) {
                self.segment.end_epoch();
            }
        }
    }

    fn publish(&mut self) {
        let gauges = &self.gauges.all[self.gauges.index];
        let stats = self.keyspace.stats;
        let store = &self.keyspace.store;
        let mut listening = 0;
        for (gauges, table) in gauges.databases.iter().zip(store.tables()) {
            listening += u64::from(table.has_key_waiters());
            gauges.keys.store(table.len() as u64, Ordering::Relaxed);
            gauges.expires.store(table.deadlines().len() as u64, Ordering::Relaxed);
            gauges.deadlines_ms.store(table.deadlines().sum().to_bits(), Ordering::Relaxed);
        }
        for (gauge, value) in [
            (&gauges.first_deadline_ms, store.first_deadline().map_or(0, |(_, (at, _))| at.max(1))),
            (&gauges.hits, stats.hits),
            (&gauges.misses, stats.misses),
            (&gauges.expired, stats.expired),
            (&gauges.changes, stats.changes),
            (&gauges.commands, self.commands),
            (&gauges.batches, self.batches),
            (&gauges.turns, self.turns),
            (&gauges.largest_batch, self.largest_batch),
            (&gauges.expire_lag_ms, self.expire_lag_ms),
            (&gauges.listening, listening),
        ] {
            gauge.store(value, Ordering::Relaxed);
        }
    }
}

/// Logs the changes of a transaction over several shards, whole, in the log of each of them: whichever survives
/// restores all of it. Returns the position of each log after that.
fn log_cross_shard(
    keyspace: &mut Keyspace<MultiShardView<'_>>,
    pending_commits: &PendingCommits,
    indexes: &[usize],
    segments: &[Arc<Segment>],
) -> Vec<LogPosition> {
    let end = |segment: &Arc<Segment>| segment.appended();
    if !keyspace.effects.payload().is_empty() {
        let number = keyspace.random.u64(..);
        let before = indexes.iter().zip(segments).map(|(&index, segment)| (index, segment.records()));
        let payload = cross_shard_payload(number, &before.collect::<Vec<_>>(), keyspace.effects.payload());
        keyspace.effects.clear();
        pending_commits.append(segments, &payload);
    }
    segments.iter().for_each(|segment| segment.commit(end(segment)));
    pending_commits.settle();
    indexes.iter().zip(segments).map(|(&index, segment)| (index, end(segment))).collect()
}

impl Shard for KeyspaceShard {
    type Batch = Box<Batch>;

    fn note_in_place(&mut self) {
        let count = &self.gauges.all[self.gauges.index].in_place;
        // The owner of the shard is the only writer.
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    fn begin_turn(&mut self) {
        self.turns += 1;
        self.read_clock(tsc::now());
    }

    fn execute(&mut self, batch: &mut Box<Batch>) {
        batch.end_stage(&self.keyspace.instance().stages, Stage::Queue);
        // For each batch: a connection's configuration applies to what it sends afterwards.
        self.keyspace.notices.set_wanted(self.pubsub.notified());
        self.keyspace.turn.due_keys = batch.sent_under.unwrap_or_else(|| self.due_keys.get());
        self.keyspace.turn.caller.tracking = batch.tracking;
        self.keyspace.timing.start();
        self.catch_up();
        if let Some(epoch) = batch.ends_epoch() {
            self.end_epoch(epoch);
        } else if batch.is_removal() {
            self.run_removal(batch);
        } else if let Some(snapshot) = batch.take_snapshot() {
            self.begin_snapshot(*snapshot);
        } else if batch.is_walk() {
            batch.set_snapshot_complete(self.keyspace.store.walk_snapshot(slice()));
        } else if let Some(transaction) = &mut batch.transaction {
            self.batches += 1;
            self.run_transaction(transaction);
            batch.slow.append(self.keyspace.timing.slow());
        } else {
            self.batches += 1;
            self.run_commands(batch);
        }
        if batch.since != 0 {
            batch.end_stage(&self.keyspace.instance().stages, Stage::Execute);
            self.has_sampled = true;
        }
    }

    fn begin_part(&mut self) {
        self.keyspace.turn.set_due(self.timeline.moment(self.gauges.index));
        self.is_at_moment = true;
    }

    fn end_sequenced(&mut self) {
        self.timeline.pass(self.gauges.index);
        self.is_at_moment = false;
        self.bound_due();
    }

    fn is_unfinished(batch: &Box<Batch>) -> bool {
        batch.is_unfinished() || batch.holds_others()
    }

    fn leave(&mut self, batch: &mut Box<Batch>) -> bool {
        batch.leave()
    }

    fn gathers(&self, first: &Box<Batch>) -> bool {
        self.gathers && first.ops.len() < LARGE
    }

    /// Small batches are prefetched together with their neighbours, a large one by its own groups of commands.
    fn look_ahead(&mut self, batch: &Box<Batch>) {
        if self.prefetches && batch.ops.len() < LARGE {
            fetch(&self.keyspace.store, batch.commands());
        }
    }

    /// Runs a transaction over the keyspaces of its shards.
    fn execute_cross_shard(shards: &mut [Box<Self>], batch: &mut Box<Batch>) {
        batch.end_stage(&shards[0].keyspace.instance().stages, Stage::Queue);
        let transaction = batch.transaction.as_mut().expect("what several shards do is a transaction");
        let count = shards[0].gauges.all.len();
        let indexes: Vec<usize> = shards.iter().map(|shard| shard.gauges.index).collect();
        let segments: Vec<Arc<Segment>> = shards.iter().map(|shard| Arc::clone(&shard.segment)).collect();
        let pubsub = Arc::clone(&shards[0].pubsub);
        let pending_commits = Arc::clone(&shards[0].pending_commits);
        let due_keys = shards[0].due_keys.get();
        let now_ms = shards[0].clock.now_ms();
        let moment_ms = shards[0].timeline.moment(indexes[0]);
        let random = shards[0].keyspace.random.fork();

        let stores = indexes.iter().copied().zip(shards.iter_mut().map(|shard| &mut shard.keyspace.store));
        let effects = Effects::new(segments[0].is_recorded());
        let mut keyspace = Keyspace::new(MultiShardView::new(count, stores), now_ms, random, effects);
        keyspace.notices.set_wanted(pubsub.notified());
        keyspace.turn.due_keys = due_keys;
        keyspace.turn.set_due(moment_ms);
        transaction.run(&mut keyspace);
        batch.slow.append(keyspace.timing.slow());
        let mut log_positions = log_cross_shard(&mut keyspace, &pending_commits, &indexes, &segments);
        keyspace.served.deliver(&log_positions);
        if !keyspace.notices.is_empty() {
            pubsub.publish_notices(&mut keyspace.notices, &log_positions);
        }
        if !transaction.is_write() {
            let mut segments = segments.iter();
            log_positions.retain(|_| !segments.next().expect("each has a position").lets_readers_pass());
        }
        transaction.log_positions = log_positions;
        let stats = keyspace.stats;

        shards[0].keyspace.stats.add(stats);
        shards[0].commands += transaction.len() as u64;
        shards.iter_mut().for_each(|shard| shard.publish());
        batch.end_stage(&shards[0].keyspace.instance().stages, Stage::Execute);
    }

    /// Logs the turn, and sets for each batch the log position that covers what its replies show: its own writes, and
    /// those of others that it read.
    fn end_turn(&mut self, batches: &mut dyn Iterator<Item = &mut Box<Batch>>) {
        let start = std::mem::take(&mut self.has_sampled).then(tsc::now);
        self.append_records();
        let took = start.map_or(0, |start| tsc::now().saturating_sub(start));
        let lsn = self.segment.appended();
        self.segment.commit(lsn);
        let (lets_readers_pass, is_logging) = (self.segment.lets_readers_pass(), self.segment.is_on());
        batches.for_each(|batch| {
            batch.lsn = if lets_readers_pass && !batch.is_write() { 0 } else { lsn };
            if is_logging {
                batch.note_log(&self.keyspace.instance().stages, took);
            }
        });
        if !self.keyspace.served.is_empty() || !self.keyspace.notices.is_empty() {
            let log_positions: Vec<LogPosition> = vec![(self.gauges.index, self.segment.appended())];
            self.keyspace.served.deliver(&log_positions);
            self.pubsub.publish_notices(&mut self.keyspace.notices, &log_positions);
        }
        self.publish();
    }
}
