//! The engines: how the data is owned, and how a command gets to it.
//!
//! Everything else is shared, so that a measured difference is the engine's. A connection reaches its engine through a
//! [`Session`]: it submits requests in order, and replies come out in the same order.

mod actor;
mod dashmap;
mod eviction;
mod expiration;
mod gather;
mod inline;
mod loading;
mod metrics;
mod mutex;
mod prefetch;
mod quantum;
mod shard_set;
mod snapshots;
mod together;

pub use actor::ActorEngine;
pub use dashmap::DashmapEngine;
pub use loading::LoadingSession;
pub use metrics::{DatabaseMetrics, EngineMetrics, LatencySummary, ShardMetrics};
pub use mutex::MutexEngine;
pub use snapshots::OwnerSnapshot;
pub use together::{BYTES_MAX as GATHERED_BYTES_MAX, Batching};

use crate::aof::{LogControl, LogThread, PendingCommits, Rewriter, Segment};
use crate::base::clock::Clock;
use crate::base::limits::Limit;
use crate::base::tasks::Tasks;
use crate::commands::{CommandId, Context, Transaction};
use crate::keyspace::{Databases, DueKeysRule, Instance, LogPosition, Tracking};
use crate::pubsub::PubSub;
use crate::resp::{Args, Output, Reply};
use crate::stats::latency;
use crate::stats::slow_log::Slow;
use std::future::Future;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;

/// What an engine is built from.
pub struct EngineComponents {
    /// What the keyspaces of the server share.
    pub instance: Arc<Instance>,
    /// The data recovered from the log, one store per owner; empty stores without a log.
    pub stores: Vec<Databases>,
    /// The segment of each owner: without a log nothing is appended to it.
    pub segments: Vec<Arc<Segment>>,
    /// Transactions over several segments.
    pub pending_commits: Arc<PendingCommits>,
    /// The source of time.
    pub clock: Clock,
    /// How several things run at once.
    pub tasks: Tasks,
    /// Whether a batch for a shard at the place of its connection runs there, without a mailbox; see `local`.
    pub runs_in_place: bool,
    /// How many batches may wait for a shard.
    pub mailbox_capacity: NonZeroUsize,
    /// How many batches a shard serves in one turn at most.
    pub turn_batches: NonZeroUsize,
    /// From how many reads of a connection batches may be in flight at once, for each shard.
    pub reads_in_flight: NonZeroUsize,
    /// Shards of the dashmap engine's table.
    pub map_shards: NonZeroUsize,
    /// Whether commands over several keys, and transactions, are one step; see `multi-key`.
    pub is_multi_key_atomic: bool,
    /// How the commands of one read are run.
    pub batching: Batching,
    /// Where events of keys are published.
    pub pubsub: Arc<PubSub>,
    /// The rule for keys whose time has come.
    pub due_keys: Arc<DueKeysRule>,
    /// Records what took long.
    pub latency: Arc<latency::Monitor>,
    /// Bytes of replies at which a batch's connection is given up; see `client-output-buffer-limit`.
    pub reply_bytes_max: Arc<Limit>,
}

/// Gathered commands that have not run because the output has no room: as if they had not been read.
#[derive(Debug, Clone, Copy)]
pub struct Left {
    /// Where the first of these requests begins in the bytes read.
    pub at: usize,
}

/// When a session accepts the next command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepts {
    /// Now.
    Now,
    /// After [`run_gathered`](Session::run_gathered): no more can run together with the gathered ones.
    AfterGathered,
    /// After a [`flush`](Session::flush).
    AfterFlush,
    /// When the replies to earlier commands are back: those that the connection made itself wait for them, and are many
    /// bytes.
    AfterReplies,
}

/// An engine that serves connections.
pub trait Engine: Metered {
    /// A connection's interface to the data.
    type Session: Session;
    /// A session for a new connection that runs at a place: see [`Tasks::spawn_at`].
    fn session(self: &Arc<Self>, place: usize) -> Self::Session;
    /// Runs until the runtime ends: removes keys whose time has come, `hz` times a second.
    fn expire_for_ever(self: Arc<Self>, hz: u64) -> impl Future<Output = ()> + Send;
    /// Runs until the runtime ends: evicts keys while memory asks for it.
    fn evict_for_ever(self: Arc<Self>) -> impl Future<Output = ()> + Send;
    /// How many owners the keys have.
    fn owners(&self) -> usize;
    /// Begins a snapshot of all keys at one point in the order of all commands, with what each owner does for it; one
    /// without a sink begins none.
    fn begin_snapshot(self: Arc<Self>, owners: Vec<OwnerSnapshot>) -> impl Future<Output = ()> + Send;
    /// Walks over the keys, in slices between commands, until the snapshot that was begun holds all keys of its moment.
    /// It pauses after each slice unless `hurries` says that commands wait for its end.
    fn walk_snapshot(self: Arc<Self>, hurries: impl Fn() -> bool + Send) -> impl Future<Output = ()> + Send;
    /// Runs until the runtime ends: ends one epoch of the log after another, whenever something was logged.
    fn end_epochs(self: Arc<Self>) -> impl Future<Output = ()> + Send;
}

/// An engine as INFO and STATS see it.
pub trait Metered: Send + Sync + 'static {
    /// The current figures.
    fn metrics(&self) -> EngineMetrics;
    /// How many keys may be evicted; only expiring ones if keys without a TTL are spared.
    fn evictable(&self, spares_lasting: bool) -> u64;
    /// The segments of the owners: without a log nothing is appended to them.
    fn segments(&self) -> &[Arc<Segment>];
}

/// A connection's interface to the data.
///
/// Invariant: each request submitted, and each reply made locally, takes the next sequence number; replies leave
/// through [`collect`](Self::collect) in the order of these numbers, one for each.
pub trait Session: Send + Sync + 'static {
    /// Whether the data is not loaded yet, so that commands over it are refused.
    const IS_LOADING: bool = false;

    /// When it accepts the next command.
    fn accepts(&self) -> Accepts {
        Accepts::Now
    }

    /// Accepts a command over the keyspace. Its reply may be appended to `out` now, or come later.
    fn submit(&mut self, id: CommandId, args: Args<'_>, context: Context, out: &mut Output);

    /// Accepts a command as [`submit`](Self::submit) does, to run together with those after it in the same read; its
    /// request is at `place` in the bytes read. False if the session gathers no commands.
    ///
    /// Between this and [`run_gathered`](Self::run_gathered) no other method of the session is called.
    fn gather(&mut self, _id: CommandId, _args: Args<'_>, _context: Context, _place: Range<usize>) -> bool {
        false
    }

    /// Whether gathered commands have not run yet.
    fn has_gathered(&self) -> bool {
        false
    }

    /// Runs the gathered commands of `input`; false if `out` had no room for some of them: see
    /// [`take_left`](Self::take_left).
    fn run_gathered(&mut self, _input: &[u8], _out: &mut Output) -> bool {
        true
    }

    /// The gathered commands that have not run.
    fn take_left(&mut self) -> Option<Left> {
        None
    }

    /// Makes a reply that needs no data, at its place in the order.
    fn reply_locally(&mut self, resp3: bool, out: &mut Vec<u8>, write: impl FnOnce(&mut Reply<'_>));

    /// Takes the next sequence number for a reply that the caller writes to the output itself, when the replies of all
    /// earlier requests are there. False if the reply must be dropped.
    fn take_turn(&mut self) -> bool;

    /// Whether [`submit`](Self::submit) accepts a command. A command that needs several shards together must be begun
    /// as a transaction of one command.
    fn is_batchable(&self, id: CommandId, args: Args<'_>) -> bool;

    /// What requests tell the keyspace about CLIENT TRACKING. It is changed while no request is under way.
    fn tracking(&mut self) -> &mut Tracking;

    /// Sets whether the replies to requests accepted from now on are dropped.
    fn set_muted(&mut self, is_muted: bool);

    /// Notes that the connection has run something itself, which took so many ticks.
    fn note_spent(&mut self, ticks: u64);

    /// Notes that the connection has sent so many bytes of replies.
    fn note_sent(&mut self, bytes: usize);

    /// How many requests have taken a sequence number so far. 0 for a session that keeps no reply waiting.
    fn accepted(&self) -> u64;

    /// How many of them have their replies in the output.
    fn replied(&self) -> u64;

    /// Accepts a transaction, to run after everything that was submitted. Nothing else is submitted until the
    /// transaction is taken back.
    fn begin(&mut self, transaction: Box<Transaction>);

    /// Returns the transaction when it has run and every earlier reply was collected.
    fn take_finished(&mut self) -> Option<Box<Transaction>>;

    /// Whether commands over several keys, and transactions, are one step.
    fn is_atomic(&self) -> bool;

    /// How far the log has come.
    fn log(&self) -> LogView<'_>;

    /// The log positions that cover this connection's acknowledged writes; further on if other connections wrote at the
    /// same time.
    fn written(&self) -> Vec<LogPosition>;

    /// Notes that another connection has written for this one: it served it with what it waited for.
    fn note_written(&mut self, log_positions: &[LogPosition]);

    /// Whether the events of keys that a command makes come after those of earlier commands.
    fn keeps_events_in_order(&self, _id: CommandId, _args: Args<'_>) -> bool {
        true
    }

    /// Whether there is something to [`flush`](Self::flush) that had to wait: commands whose replies had no room, if
    /// the output has room now, or commands that must not overtake them.
    fn goes_on(&mut self, _has_output_room: bool) -> bool {
        false
    }

    /// Drops the rest of the accepted commands: their replies will not be read. What is begun from now on need not wait
    /// for them.
    fn forget_rest(&mut self) {}

    /// Evicts keys before a command that needs memory, with arguments of this many bytes, unless the owners of the keys
    /// do that.
    fn make_room(&mut self, _argument_bytes: usize) {}

    /// Sends what was submitted since the last call.
    fn flush(&mut self) -> impl Future<Output = ()> + Send;

    /// Moves the replies whose turn has come to `out`, or abandons the output if some were dropped.
    fn collect(&mut self, out: &mut Output);

    /// The commands with a reply that took long, to be taken by the caller.
    fn slow(&mut self) -> &mut Vec<Slow>;

    /// Times the stages of what is submitted until the next flush: see [`crate::stats::stage_latency`].
    fn sample(&mut self) {}

    /// The ticks that stages other than parsing took during what was submitted since [`sample`](Self::sample).
    fn ticks_within(&self) -> u64 {
        0
    }

    /// Whether sampled replies have reached the output since the last call.
    fn take_sampled(&mut self) -> bool {
        false
    }

    /// Whether replies are still to come.
    fn is_waiting(&self) -> bool;

    /// Whether the session accepts another read's worth of requests.
    fn has_room(&self) -> bool;

    /// Waits until [`collect`](Self::collect) may have more replies. Dropping the future loses nothing.
    fn wait(&mut self) -> impl Future<Output = ()> + Send;
}

/// What a session sees of the log: how far its segments have come.
#[derive(Debug, Clone, Copy)]
pub struct LogView<'a>(&'a [Arc<Segment>]);

impl LogView<'_> {
    /// Whether the records at these positions may be shown.
    pub fn is_released(self, log_positions: &[LogPosition]) -> bool {
        log_positions.iter().all(|&(segment, lsn)| self.0[segment].is_released(lsn))
    }

    /// Waits until the records at these positions may be shown. Dropping the future loses nothing.
    pub async fn released(self, log_positions: &[LogPosition]) {
        for &(segment, lsn) in log_positions {
            self.0[segment].commit(lsn);
            self.0[segment].released(lsn).await;
        }
    }

    /// Whether the records at these positions are on the disk.
    pub fn is_synced(self, log_positions: &[LogPosition]) -> bool {
        log_positions.iter().all(|&(segment, lsn)| self.0[segment].is_synced(lsn))
    }

    /// Waits until the records at these positions are on the disk. Dropping the future loses nothing.
    pub async fn synced(self, log_positions: &[LogPosition]) {
        for &(segment, lsn) in log_positions {
            self.0[segment].synced(lsn).await;
        }
    }
}

/// The log threads of an engine, ended in order when the server stops.
pub struct Logs {
    /// One per segment.
    pub threads: Vec<LogThread>,
    /// The control that the segments share.
    pub control: LogControl,
    /// The source of time.
    pub clock: Clock,
}

impl Logs {
    /// Writes and syncs the rest of every segment. Nothing is appended any more, so all end with one epoch: nothing is
    /// cut after that, whatever happens to the machine. `rewriter` records that in the manifest, if there is one. The
    /// error says what is not written, and to which file.
    pub fn finish(self, rewriter: Option<Arc<Rewriter>>) -> Result<(), String> {
        let epoch = self.control.next_epoch(self.clock.now_ms());
        self.threads.iter().for_each(|thread| thread.segment().append_last_epoch(epoch));
        let (mut ends, mut failures) = (Vec::new(), Vec::new());
        for thread in self.threads {
            match thread.finish() {
                Ok(end) => ends.push(end),
                Err(reason) => failures.push(reason),
            }
        }
        if !failures.is_empty() {
            return Err(failures.join("; "));
        }
        let Some(rewriter) = rewriter.filter(|rewriter| rewriter.is_named()) else { return Ok(()) };
        let dir = rewriter.dir().display();
        rewriter
            .close(&ends)
            .map_err(|error| format!("all of the append-only file is written, but not its manifest in {dir}: {error}"))
    }
}
