//! Sessions of the engines that run a command where it was read: in the connection task, under a lock.
//!
//! They pay for no channel and keep no reply waiting, so their part of a request is one call.

use super::eviction::{Evicted, PAUSE, instalment};
use super::expiration::{Slice, period};
use super::prefetch::{GROUP, GROUP_MIN};
use super::quantum::Quantum;
use super::snapshots::{OwnerSnapshot, pause};
use super::together::{Batching, Commands, Gathered, Room, Scratch};
use super::{Accepts, Engine, EngineComponents, Left, LogView, Metered, Session};
use crate::aof::{EPOCH, Segment};
use crate::base::buffers;
use crate::base::clock::Clock;
use crate::base::tsc;
use crate::base::worker;
use crate::commands::{self, CommandId, Context, Services, Transaction};
use crate::keyspace::{Databases, DueKeys, DueKeysRule, Effects, Instance, Keyspace, LogPosition, Store, Tracking};
use crate::pubsub::PubSub;
use crate::resp::{Args, FULL, Output, Reply};
use crate::stats::latency;
use crate::stats::slow_log::Slow;
use crate::stats::stage_latency::{Laps, Stage};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What a session lends to the engine while a command runs.
#[derive(Debug)]
pub struct Lent {
    /// Random numbers.
    pub random: fastrand::Rng,
    /// Room for the command's effects.
    pub effects: Effects,
    /// Unix time in milliseconds when the read began, or when it was read again since.
    pub now_ms: u64,
    /// That moment in ticks.
    pub clock_read_at: u64,
    /// Commands that took long.
    pub slow: Vec<Slow>,
    /// Measures the stages of a sampled read.
    pub laps: Laps,
    /// Whether the command counts as a use of its keys.
    pub notes_uses: bool,
    /// What it tells the keyspace about CLIENT TRACKING.
    pub tracking: Tracking,
}

/// What an inline engine has beside its keys.
pub struct InlineComponents {
    /// What the keyspaces of its server share.
    pub instance: Arc<Instance>,
    /// Where changes are logged.
    pub segment: Arc<Segment>,
    /// How the commands of a read are run.
    pub batching: Batching,
    /// Records what took long.
    pub latency: Arc<latency::Monitor>,
    /// The time.
    pub clock: Clock,
    pubsub: Arc<PubSub>,
    due_keys: Arc<DueKeysRule>,
}

impl InlineComponents {
    /// These, and the one store, of `engine_components`.
    pub fn new(mut engine_components: EngineComponents) -> (Self, Databases) {
        engine_components.instance.settings.has_locks.store(true, Ordering::Relaxed);
        let components = Self {
            instance: engine_components.instance,
            segment: engine_components.segments.pop().expect("an inline engine's layout has one owner"),
            batching: engine_components.batching,
            latency: engine_components.latency,
            clock: engine_components.clock,
            pubsub: engine_components.pubsub,
            due_keys: engine_components.due_keys,
        };
        (components, engine_components.stores.pop().expect("an inline engine's layout has one owner"))
    }

    /// Tells a keyspace the time if the session's is old: it has waited for a lock, or for an earlier command of its
    /// read. A deadline could be over before it is set otherwise. What runs next has begun to be timed.
    ///
    /// `is_late` says that another session may have seen one of the keys at a later time. Of several keys with one
    /// deadline some could be gone and others not otherwise.
    #[inline]
    pub fn catch_up<S: Store>(&self, keyspace: &mut Keyspace<S>, lent: &mut Lent, is_late: bool) {
        let began_at = keyspace.timing.began_at();
        if is_late || began_at.saturating_sub(lent.clock_read_at) > self.batching.clock_ticks_max {
            (lent.now_ms, lent.clock_read_at) = (self.clock.now_ms(), began_at);
            keyspace.set_now(lent.now_ms);
        }
    }

    /// A generator of random numbers of its own.
    pub fn random(&self) -> fastrand::Rng {
        self.instance.randomness.generator()
    }

    /// Room for effects, which are recorded if there is a log.
    pub fn effects(&self) -> Effects {
        Effects::new(self.segment.is_recorded())
    }

    /// Tells a keyspace what the server wants of it now: which events it notes, and what becomes of keys whose time has
    /// come.
    pub fn instruct<S: Store>(&self, keyspace: &mut Keyspace<S>) {
        keyspace.notices.set_wanted(self.pubsub.notified());
        keyspace.turn.caller.tracking = Tracking::NONE;
        keyspace.turn.due_keys = self.due_keys.get();
    }

    /// What happens to keys whose time has come, and thereby who writes.
    pub fn due_keys(&self) -> DueKeys {
        self.due_keys.get()
    }

    /// Logs what changed, and notifies its waiters. Under the lock of the changed keys: another writer of these
    /// may log first otherwise.
    pub fn log<S: Store>(&self, keyspace: &mut Keyspace<S>) {
        if !keyspace.effects.payload().is_empty() {
            self.segment.append_payload(keyspace.effects.payload());
            keyspace.effects.clear();
        }
        if !keyspace.served.is_empty() {
            keyspace.served.deliver(&self.log_positions());
        }
        if !keyspace.notices.is_empty() {
            self.pubsub.publish_notices(&mut keyspace.notices, &self.log_positions());
        }
    }

    /// The log position that covers everything executed so far.
    fn log_positions(&self) -> Vec<LogPosition> {
        vec![(0, self.segment.appended())]
    }

    fn commit(&self) {
        self.segment.commit(self.segment.appended());
    }
}

/// An engine that runs commands in the connection task.
pub trait InlineEngine: Metered {
    /// What it has beside its keys.
    fn components(&self) -> &InlineComponents;
    /// Runs one command in a database and logs what it changed.
    fn run(&self, id: CommandId, args: Args<'_>, database: usize, reply: &mut Reply<'_>, lent: &mut Lent);
    /// Runs the first of several commands, at least one, under one acquisition of the locks they need, logs their
    /// changes together, and returns how many ran.
    fn run_together(
        &self,
        commands: Commands<'_>,
        scratch: &mut Scratch,
        room: &mut Room<'_>,
        lent: &mut Lent,
    ) -> usize;
    /// Fetches the nodes of commands that run next.
    fn fetch(&self, commands: Commands<'_>);
    /// Runs a transaction and logs what it changed.
    fn run_transaction(&self, transaction: &mut Transaction, lent: &mut Lent);
    /// Evicts keys until this many bytes are freed, for a slice of time, and logs that.
    fn evict(&self, bytes: i64) -> Evicted;
    /// Whether commands over several keys, and transactions, are one step.
    fn is_atomic(&self) -> bool;
    /// Removes keys whose time has come, for a slice of time, and logs that.
    fn expire(&self, random: &mut fastrand::Rng) -> impl Future<Output = Slice> + Send;
    /// Begins a snapshot of all keys at one moment.
    fn begin_snapshot_of_all(&self, owners: Vec<OwnerSnapshot>);
    /// Walks over the keys for a slice of time; returns whether the snapshot that was begun holds all keys of its
    /// moment.
    fn walk_snapshot_of_all(&self) -> bool;
}

/// Waits while a script is busy, before the server does something of its own with the keys: their locks would block a
/// thread, perhaps the last one that could end the script.
async fn busy_script_ended(components: &InlineComponents) {
    Services::of(&components.instance).scripting.busy.ended().await;
}

/// Waits for a lock. Once a script is busy, which may hold the lock for ever, the tasks of this thread are left to
/// another one: they may be what ends the script, and no other thread takes them over where threads are pinned.
///
/// `try_for_a_moment` returns without the lock after some milliseconds at most.
#[cold]
pub fn wait_beside_scripts<G>(
    instance: &Instance,
    mut try_for_a_moment: impl FnMut() -> Option<G>,
    wait: impl FnOnce() -> G,
) -> G {
    let busy = &Services::of(instance).scripting.busy;
    while !busy.is_busy() {
        if let Some(guard) = try_for_a_moment() {
            return guard;
        }
    }
    worker::wait(wait)
}

impl<E: InlineEngine> Engine for E {
    type Session = InlineSession<E>;

    fn session(self: &Arc<Self>, _place: usize) -> InlineSession<E> {
        InlineSession::new(Arc::clone(self))
    }

    async fn expire_for_ever(self: Arc<Self>, hz: u64) {
        let (components, period) = (self.components(), period(hz));
        let mut random = components.random();
        loop {
            busy_script_ended(components).await;
            let slice = self.expire(&mut random).await;
            components.commit();
            match slice.more {
                true => tokio::task::yield_now().await,
                false => {
                    buffers::trim();
                    tokio::time::sleep(period).await;
                }
            }
        }
    }

    async fn evict_for_ever(self: Arc<Self>) {
        let components = self.components();
        loop {
            let debt = components.instance.pressure.debt_to_pay().await;
            busy_script_ended(components).await;
            let evicted = self.evict(debt);
            components.commit();
            match evicted.keys {
                0 => tokio::time::sleep(PAUSE).await,
                _ => tokio::task::yield_now().await,
            }
        }
    }

    fn owners(&self) -> usize {
        1
    }

    async fn begin_snapshot(self: Arc<Self>, owners: Vec<OwnerSnapshot>) {
        busy_script_ended(self.components()).await;
        self.begin_snapshot_of_all(owners);
    }

    async fn walk_snapshot(self: Arc<Self>, hurries: impl Fn() -> bool + Send) {
        loop {
            busy_script_ended(self.components()).await;
            if self.walk_snapshot_of_all() {
                return;
            }
            pause(hurries()).await;
        }
    }

    /// A log of one segment is consistent wherever it is cut, so appends are not excluded.
    async fn end_epochs(self: Arc<Self>) {
        let InlineComponents { segment, clock, .. } = self.components();
        loop {
            tokio::time::sleep(EPOCH).await;
            if segment.has_appended() {
                segment.append_epoch(segment.control().next_epoch(clock.now_ms()));
                self.components().commit();
            }
        }
    }
}

/// A session that has its replies at once.
pub struct InlineSession<E> {
    engine: Arc<E>,
    lent: Lent,
    is_new_read: bool,
    /// Commands that run together.
    gathered: Option<Box<Gathered>>,
    /// The gathered commands that were left over.
    left: Option<Left>,
    /// Whether a command since the last flush may have changed something.
    has_written: bool,
    /// The log position after the last write before that.
    written: u64,
    finished: Option<Box<Transaction>>,
    quantum: Quantum,
    /// The reading of the clock up to which the quantum has the time.
    timed_until: u64,
    /// How often the tasks of this thread had been left to another one when the read began.
    times_left: u32,
    /// Whether they were left since. Another thread may wait for locks with them, so a script could not leave any when
    /// it is busy: what follows runs after the task has waited, on a thread that has its tasks.
    has_left_tasks: bool,
    /// Whether the replies of a sampled read are in the output.
    has_sampled: bool,
}

impl<E: InlineEngine> InlineSession<E> {
    /// A session of `engine`.
    pub fn new(engine: Arc<E>) -> Self {
        let (random, effects) = (engine.components().random(), engine.components().effects());
        let quantum_ticks = engine.components().batching.quantum_ticks;
        Self {
            engine,
            lent: Lent {
                random,
                effects,
                now_ms: 0,
                clock_read_at: 0,
                slow: Vec::new(),
                laps: Laps::default(),
                notes_uses: true,
                tracking: Tracking::NONE,
            },
            is_new_read: true,
            gathered: None,
            left: None,
            has_written: false,
            written: 0,
            finished: None,
            quantum: Quantum::of(quantum_ticks),
            timed_until: 0,
            times_left: 0,
            has_left_tasks: false,
            has_sampled: false,
        }
    }
}

impl<E: InlineEngine> InlineSession<E> {
    fn read_clock(&mut self) {
        if self.is_new_read {
            self.lent.now_ms = self.engine.components().clock.now_ms();
            self.lent.clock_read_at = tsc::now();
            self.timed_until = self.lent.clock_read_at;
            self.times_left = worker::times_left();
            self.is_new_read = false;
        }
    }

    /// Notes how long commands have taken, if it was so long that the engine has read the clock again.
    #[inline]
    fn look_at_clock(&mut self) {
        let until = std::mem::replace(&mut self.timed_until, self.lent.clock_read_at);
        self.quantum.note_spent(self.timed_until.saturating_sub(until));
    }

    /// Checks whether a command has left the tasks of this thread to another one.
    #[inline]
    fn look_at_tasks(&mut self) {
        self.has_left_tasks |= worker::times_left() != self.times_left;
    }

    /// Runs commands while the output has room, and returns how many ran.
    fn run_into(&mut self, out: &mut Output, commands: Commands<'_>, scratch: &mut Scratch) -> usize {
        let mut ran = 0;
        loop {
            let until = out.room(FULL);
            let mut room = Room { out: out.buffer(), until, shared: None };
            ran += self.run_all(commands.from(ran), scratch, &mut room);
            let Some(bulk) = room.shared else { return ran };
            out.append_shared(bulk);
            if out.unsent() >= FULL {
                return ran;
            }
        }
    }

    /// Runs commands while there is room, and returns how many ran.
    fn run_all(&mut self, commands: Commands<'_>, scratch: &mut Scratch, room: &mut Room<'_>) -> usize {
        let Batching { is_by_read, prefetches, .. } = self.engine.components().batching;
        let mut ran = 0;
        while ran < commands.len() && room.is_left() && !self.has_left_tasks && !self.quantum.is_over() {
            let rest = commands.from(ran);
            if is_by_read && rest.len() > 1 {
                ran += self.engine.run_together(rest, scratch, room, &mut self.lent);
                self.look_at_tasks();
                self.look_at_clock();
                continue;
            }
            if prefetches && ran.is_multiple_of(GROUP) && rest.len() >= GROUP_MIN {
                self.engine.fetch(rest.first(GROUP));
            }
            self.run_first(rest, room);
            self.look_at_tasks();
            self.look_at_clock();
            ran += 1;
        }
        ran
    }

    fn run_first(&mut self, commands: Commands<'_>, room: &mut Room<'_>) {
        let Context { resp3, database, .. } = commands.context;
        let (id, args) = commands.iter().next().expect("the caller has seen it");
        self.engine.run(id, args, database.into(), &mut room.reply(resp3), &mut self.lent);
    }
}

impl<E: InlineEngine> Session for InlineSession<E> {
    #[inline]
    fn accepts(&self) -> Accepts {
        if self.gathered.as_ref().is_some_and(|gathered| gathered.is_enough()) {
            return Accepts::AfterGathered;
        }
        if self.has_left_tasks || self.quantum.is_over() { Accepts::AfterFlush } else { Accepts::Now }
    }

    fn submit(&mut self, id: CommandId, args: Args<'_>, context: Context, out: &mut Output) {
        self.read_clock();
        self.has_written |= commands::command(id).is_write();
        self.lent.notes_uses = !context.no_touch;
        let (buffer, mut shared) = (out.buffer(), None);
        let start = buffer.len();
        let reply = &mut Reply::or_shared(buffer, &mut shared, context.resp3);
        self.engine.run(id, args, context.database.into(), reply, &mut self.lent);
        self.look_at_tasks();
        self.look_at_clock();
        if self.quantum.is_muted() {
            self.quantum.drop_reply(buffer, start);
        } else if let Some(bulk) = shared {
            out.append_shared(bulk);
        }
    }

    #[inline]
    fn gather(&mut self, id: CommandId, args: Args<'_>, context: Context, place: Range<usize>) -> bool {
        if !self.engine.components().batching.gathers() || self.quantum.is_muted() {
            return false;
        }
        self.has_written |= commands::command(id).is_write();
        self.gathered.get_or_insert_with(Gathered::take).push(id, args, context, place);
        true
    }

    #[inline]
    fn has_gathered(&self) -> bool {
        self.gathered.is_some()
    }

    fn run_gathered(&mut self, input: &[u8], out: &mut Output) -> bool {
        let Some(mut gathered) = self.gathered.take() else { return true };
        self.read_clock();
        let (commands, scratch) = gathered.commands(input);
        self.lent.notes_uses = !commands.context.no_touch;
        let ran = self.run_into(out, commands, scratch);
        let left = gathered.len() - ran;
        if left > 0 {
            self.left = Some(Left { at: gathered.start_of(ran) });
        }
        gathered.recycle(self.engine.components().instance.pressure.is_tight());
        left == 0
    }

    fn take_left(&mut self) -> Option<Left> {
        self.left.take()
    }

    fn tracking(&mut self) -> &mut Tracking {
        &mut self.lent.tracking
    }

    fn set_muted(&mut self, is_muted: bool) {
        self.quantum.set_muted(is_muted);
    }

    fn note_spent(&mut self, ticks: u64) {
        self.quantum.note_spent(ticks);
    }

    fn note_sent(&mut self, bytes: usize) {
        self.quantum.note_replied(bytes);
    }

    fn reply_locally(&mut self, resp3: bool, out: &mut Vec<u8>, write: impl FnOnce(&mut Reply<'_>)) {
        let start = out.len();
        write(&mut Reply::new(out, resp3));
        if self.quantum.is_muted() {
            self.quantum.drop_reply(out, start);
        }
    }

    fn take_turn(&mut self) -> bool {
        !self.quantum.is_muted()
    }

    fn accepted(&self) -> u64 {
        0
    }

    fn replied(&self) -> u64 {
        0
    }

    fn begin(&mut self, mut transaction: Box<Transaction>) {
        self.read_clock();
        self.has_written |= transaction.is_write();
        transaction.set_tracking(self.lent.tracking);
        self.engine.run_transaction(&mut transaction, &mut self.lent);
        self.finished = Some(transaction);
    }

    fn take_finished(&mut self) -> Option<Box<Transaction>> {
        self.finished.take()
    }

    fn is_batchable(&self, _id: CommandId, _args: Args<'_>) -> bool {
        true
    }

    fn is_atomic(&self) -> bool {
        self.engine.is_atomic()
    }

    fn log(&self) -> LogView<'_> {
        LogView(std::slice::from_ref(&self.engine.components().segment))
    }

    fn written(&self) -> Vec<LogPosition> {
        match self.has_written {
            true => self.engine.components().log_positions(),
            false => vec![(0, self.written)],
        }
    }

    fn note_written(&mut self, log_positions: &[LogPosition]) {
        self.written = log_positions.iter().map(|&(_, lsn)| lsn).fold(self.written, u64::max);
    }

    fn make_room(&mut self, argument_bytes: usize) {
        let bytes = instalment(self.engine.components().instance.pressure.debt(), argument_bytes);
        if bytes > 0 {
            self.engine.evict(bytes);
        }
    }

    async fn flush(&mut self) {
        self.quantum.flush().await;
        let has_run = !std::mem::replace(&mut self.is_new_read, true);
        self.has_left_tasks = false;
        let has_written = std::mem::take(&mut self.has_written);
        let segment = &self.engine.components().segment;
        let is_sampled =
            self.lent.laps.end(&self.engine.components().instance.stages, has_run, has_written && segment.is_on());
        self.has_sampled |= is_sampled;
        // Replies that the connection makes on its own show nothing of the log.
        if !has_run {
            return;
        }
        // Everything the replies show was appended before this.
        let lsn = segment.appended();
        // Ready connections run first: then one write or fsync of the log serves all, and their replies leave one after
        // another, so that an idle client is woken once for all of them (docs/adr/0024).
        actors::yield_now().await;
        segment.commit(lsn);
        if has_written {
            self.written = lsn;
        }
        if !has_written && segment.lets_readers_pass() {
            return;
        }
        let start = is_sampled.then(tsc::now);
        segment.released(lsn).await;
        if let Some(start) = start {
            self.engine.components().instance.stages.note_since(Stage::Sync, start);
        }
    }

    fn sample(&mut self) {
        self.lent.laps.begin();
    }

    fn ticks_within(&self) -> u64 {
        self.lent.laps.sum()
    }

    fn take_sampled(&mut self) -> bool {
        std::mem::take(&mut self.has_sampled)
    }

    fn collect(&mut self, _out: &mut Output) {}

    fn slow(&mut self) -> &mut Vec<Slow> {
        &mut self.lent.slow
    }

    fn is_waiting(&self) -> bool {
        false
    }

    fn has_room(&self) -> bool {
        true
    }

    async fn wait(&mut self) {}
}
