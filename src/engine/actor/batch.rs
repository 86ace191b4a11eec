//! A batch: the commands of one read for one shard on the way to it, and their replies on the way back.

use crate::aof::CommandRecord;
use crate::base::pool::{Pool, Pooled};
use crate::commands::{CommandId, Context, Transaction, command};
use crate::engine::prefetch::GROUP;
use crate::engine::snapshots::OwnerSnapshot;
use crate::keyspace::{DueKeys, Tracking};
use crate::resp::{Args, FULL, Replies, Span};
use crate::stats::slow_log::Slow;
use crate::stats::stage_latency::{Stage, Stages};
use bytes::Bytes;
use std::cell::RefCell;

/// A larger buffer of a batch, in bytes, is not kept: one large value should not keep its memory for ever.
const BUFFER_KEPT: usize = 32 * 1024;

/// From this many bytes on, a reply is large if each command is a batch of its own.
const REPLY_ALONE: usize = 64 * 1024;

thread_local! {
    /// Batches, for reuse.
    static POOL: RefCell<Pool<Box<Batch>>> = const { RefCell::new(Pool::new()) };
}

/// One command of a batch.
#[derive(Debug, Clone, Copy)]
pub struct Op {
    /// Where its reply ends; it begins where the previous one ends.
    pub reply_end: usize,
    /// The request's sequence number in its connection, counted from that of the batch's first.
    pub seq: u32,
    /// Its arguments end before this span; they begin where those of the previous command end.
    spans_end: u32,
    /// Which command.
    pub id: CommandId,
    /// The state of its connection that it depends on.
    pub context: Context,
    /// Whether it is one of several parts of a command.
    pub is_part: bool,
    /// Whether it counts as a call: a whole command, or the first part of one.
    pub counts: bool,
}

/// Connections and shards iterate over them several times.
const _: () = assert!(size_of::<Op>() == 24);

/// The work that a batch asks its shard to do.
#[derive(Debug, Default)]
enum Work {
    /// Run the commands.
    #[default]
    Commands,
    /// Remove keys whose time has come.
    Expiration { more: bool },
    /// Evict keys until this many bytes are freed.
    Eviction { bytes: i64 },
    /// The reply to `Eviction`: how many keys were evicted.
    Evicted { keys: u64 },
    /// End an epoch of the log.
    Epoch(u64),
    /// Begin a snapshot of the keys; `None` in the reply.
    Snapshot(Option<Box<OwnerSnapshot>>),
    /// Continue the snapshot.
    Walk { is_complete: bool },
}

/// Commands and their replies. It owns all its memory and is reused.
///
/// Invariant: its commands are from one read of its connection, or from a limited part of what arrived meanwhile: some
/// megabytes and one request.
#[derive(Debug, Default)]
pub struct Batch {
    work: Work,
    shard: u16,
    has_parts: bool,
    has_writes: bool,
    /// The rule that all of it runs under, if it has parts of a command that writes: the rule when it was sent, for the
    /// other parts run under it too.
    pub sent_under: Option<DueKeys>,
    /// Whether it holds one command because each is sent alone.
    is_alone: bool,
    /// The first command that has not run, if the shard stopped before the end.
    left_at: Option<u32>,
    /// Whether replies were dropped because they exceeded the output limit.
    pub overflowed: bool,
    /// What its commands tell the keyspace about CLIENT TRACKING.
    pub tracking: Tracking,
    /// The position in the shard's log that covers what the replies show.
    pub lsn: u64,
    /// The records of the commands whose parts are in this batch, with their sequence numbers.
    records: Vec<(u64, CommandRecord)>,
    /// A transaction; the batch then holds nothing else.
    pub transaction: Option<Box<Transaction>>,
    /// The arguments, unless they are in `shared`.
    arena: Vec<u8>,
    /// What was read, if it is a single large request: its arguments stay where they are. Boxed to keep the batch
    /// small.
    shared: Option<Box<Bytes>>,
    spans: Vec<Span>,
    /// The sequence number of the first command.
    first_seq: u64,
    /// In the order in which they run.
    pub ops: Vec<Op>,
    /// The replies.
    pub replies: Replies,
    /// The commands that took long.
    pub slow: Vec<Slow>,
    /// When its current stage began; 0 if it is not sampled: see [`crate::stats::stage_latency`].
    pub since: u64,
}

/// Four cache lines, which is a size class of the allocator, too. With 32 bytes more the actor engine took 6 to 9 %
/// more CPU per operation at pipelines 16 and 64.
const _: () = assert!(size_of::<Batch>() <= 256);

/// Bytes of memory that a list takes.
fn room<T>(list: &Vec<T>) -> usize {
    list.capacity() * size_of::<T>()
}

impl Pooled for Box<Batch> {
    fn held_bytes(&self) -> usize {
        size_of::<Self>()
            + size_of::<Batch>()
            + self.arena.capacity()
            + self.replies.capacity()
            + room(&self.spans)
            + room(&self.ops)
            + room(&self.records)
            + room(&self.slow)
    }
}

impl Batch {
    /// An empty batch for `shard`, from this thread's pool.
    pub fn take(shard: usize) -> Box<Self> {
        let mut batch = POOL.with_borrow_mut(Pool::take).unwrap_or_default();
        batch.shard = u16::try_from(shard).expect("`shards` is at most 1024");
        batch
    }

    /// An empty batch for `shard`, of a connection with or without CLIENT TRACKING.
    #[inline]
    pub fn take_for(shard: usize, tracking: Tracking) -> Box<Self> {
        let mut batch = Self::take(shard);
        batch.tracking = tracking;
        batch
    }

    /// A batch that asks a shard to remove keys whose time has come.
    pub fn expiration(shard: usize) -> Box<Self> {
        let mut batch = Self::take(shard);
        batch.work = Work::Expiration { more: false };
        batch
    }

    /// A batch that asks a shard to evict keys until this many bytes are freed, for a slice of time.
    pub fn eviction(shard: usize, bytes: i64) -> Box<Self> {
        let mut batch = Self::take(shard);
        batch.work = Work::Eviction { bytes };
        batch
    }

    /// A batch that asks a shard to end an epoch of the log.
    pub fn epoch(shard: usize, epoch: u64) -> Box<Self> {
        let mut batch = Self::take(shard);
        batch.work = Work::Epoch(epoch);
        batch
    }

    /// A batch that asks a shard to begin a snapshot of its keys.
    pub fn snapshot(shard: usize, snapshot: OwnerSnapshot) -> Box<Self> {
        let mut batch = Self::take(shard);
        batch.work = Work::Snapshot(Some(Box::new(snapshot)));
        batch
    }

    /// A batch that asks a shard to continue a snapshot of its keys.
    pub fn walk(shard: usize) -> Box<Self> {
        let mut batch = Self::take(shard);
        batch.work = Work::Walk { is_complete: false };
        batch
    }

    /// A batch of a transaction; `shard` is the first that it needs.
    pub fn of_transaction(shard: usize, transaction: Box<Transaction>) -> Box<Self> {
        let mut batch = Self::take(shard);
        batch.transaction = Some(transaction);
        batch
    }

    /// Returns the batch to this thread's pool.
    pub fn recycle(mut self: Box<Self>, is_tight: bool) {
        self.transaction = None;
        self.records.clear();
        self.work = Work::Commands;
        self.has_parts = false;
        self.has_writes = false;
        self.sent_under = None;
        self.is_alone = false;
        self.left_at = None;
        self.overflowed = false;
        self.tracking = Tracking::NONE;
        self.lsn = 0;
        self.since = 0;
        self.shared = None;
        self.arena.clear();
        self.arena.shrink_to(BUFFER_KEPT);
        self.spans.clear();
        self.spans.shrink_to(BUFFER_KEPT / size_of::<Span>());
        self.ops.clear();
        self.ops.shrink_to(BUFFER_KEPT / size_of::<Op>());
        self.slow.clear();
        self.replies.clear();
        self.replies.shrink_to(BUFFER_KEPT);
        POOL.with_borrow_mut(|pool| pool.give(self, is_tight));
    }

    /// Frees the batches of this thread's pool that were not needed since this was last called.
    pub fn trim_pool() {
        POOL.with_borrow_mut(Pool::trim);
    }

    /// Ends a stage and begins the next, if the batch is sampled.
    #[inline]
    pub fn end_stage(&mut self, stages: &Stages, stage: Stage) {
        if self.since != 0 {
            self.since = stages.note_since(stage, self.since);
        }
    }

    /// Records how long it took to log the turn, if the batch is sampled and was logged.
    #[inline]
    pub fn note_log(&mut self, stages: &Stages, ticks: u64) {
        if self.since != 0 && self.is_write() {
            stages.note(Stage::Log, ticks);
            self.since += ticks;
        }
    }

    /// The shard it goes to.
    pub fn shard(&self) -> usize {
        usize::from(self.shard)
    }

    /// Whether it asks for keys to be removed: for expiration, or eviction.
    pub fn is_removal(&self) -> bool {
        matches!(self.work, Work::Expiration { .. } | Work::Eviction { .. } | Work::Evicted { .. })
    }

    /// How many bytes it asks to free by evicting keys.
    pub fn evicts(&self) -> Option<i64> {
        if let Work::Eviction { bytes } = self.work { Some(bytes) } else { None }
    }

    /// Records how many keys were evicted.
    pub fn set_evicted(&mut self, keys: u64) {
        self.work = Work::Evicted { keys };
    }

    /// How many keys were evicted.
    pub fn evicted(&self) -> u64 {
        if let Work::Evicted { keys } = self.work { keys } else { 0 }
    }

    /// The epoch that it asks to end.
    pub fn ends_epoch(&self) -> Option<u64> {
        match self.work {
            Work::Epoch(epoch) => Some(epoch),
            Work::Commands
            | Work::Expiration { .. }
            | Work::Eviction { .. }
            | Work::Evicted { .. }
            | Work::Snapshot(_)
            | Work::Walk { .. } => None,
        }
    }

    /// The snapshot that it asks to begin.
    pub fn take_snapshot(&mut self) -> Option<Box<OwnerSnapshot>> {
        if let Work::Snapshot(snapshot) = &mut self.work { snapshot.take() } else { None }
    }

    /// Whether it asks to continue a snapshot.
    pub fn is_walk(&self) -> bool {
        matches!(self.work, Work::Walk { .. })
    }

    /// Records whether the snapshot is complete.
    pub fn set_snapshot_complete(&mut self, is_complete: bool) {
        self.work = Work::Walk { is_complete };
    }

    /// Whether all keys of the shard are in the snapshot.
    pub fn is_snapshot_complete(&self) -> bool {
        matches!(self.work, Work::Walk { is_complete: true })
    }

    /// Whether it holds parts of commands over several shards.
    #[inline]
    pub fn has_parts(&self) -> bool {
        self.has_parts
    }

    /// Whether some of its commands have not run.
    #[inline]
    pub fn is_unfinished(&self) -> bool {
        self.left_at.is_some()
    }

    /// Records that it holds one command because each is sent alone.
    pub fn set_alone(&mut self) {
        self.is_alone = true;
    }

    /// Whether the batches after it must not run, though it has run: if each command is a batch, many are in flight.
    #[inline]
    pub fn holds_others(&self) -> bool {
        self.is_alone && self.replies.len() >= REPLY_ALONE
    }

    /// How many commands have run.
    #[inline]
    pub fn ran(&self) -> usize {
        self.left_at.map_or(self.ops.len(), |ran| ran as usize)
    }

    /// Leaves all of it for later; false if it takes effect together with batches of other shards.
    pub fn leave(&mut self) -> bool {
        if self.has_parts {
            return false;
        }
        self.left_at = Some(0);
        self.since = 0;
        true
    }

    /// Its place among the batches of its connection.
    pub fn order(&self) -> u64 {
        // A transaction is the last batch that its connection sends before it is back.
        if self.transaction.is_some() { u64::MAX } else { self.first_seq }
    }

    /// Takes the commands that have run, with their replies, and leaves the others; `None` if none has run.
    pub fn take_run(&mut self) -> Option<Box<Self>> {
        let ran = self.left_at.take().filter(|&ran| ran > 0)? as usize;
        let mut done = Self::take(self.shard());
        done.first_seq = self.first_seq;
        done.ops.extend(self.ops.drain(..ran));
        let spans = done.ops.last().map_or(0, |op| op.spans_end);
        done.has_writes = self.has_writes;
        done.overflowed = std::mem::take(&mut self.overflowed);
        done.lsn = std::mem::take(&mut self.lsn);
        done.since = std::mem::take(&mut self.since);
        std::mem::swap(&mut done.replies, &mut self.replies);
        std::mem::swap(&mut done.slow, &mut self.slow);
        self.count_from(spans);
        Some(done)
    }

    /// Takes the commands that took long. Those that are parts have been numbered within this batch.
    pub fn note_slow(&mut self, slow: &mut Vec<Slow>) {
        slow.iter_mut().filter_map(|slow| slow.part_of.as_mut()).for_each(|seq| *seq += self.first_seq);
        self.slow.append(slow);
    }

    /// Counts from the first command that is left, whose arguments begin at span `spans`.
    fn count_from(&mut self, spans: u32) {
        let seq = self.ops.first().expect("a batch that is unfinished has commands left").seq;
        self.first_seq += u64::from(seq);
        self.spans.drain(..spans as usize);
        for op in &mut self.ops {
            op.seq -= seq;
            op.spans_end -= spans;
        }
    }

    /// Whether it may change something.
    pub fn is_write(&self) -> bool {
        self.has_writes || self.transaction.as_ref().is_some_and(|transaction| transaction.is_write())
    }

    /// Records whether more keys are due.
    pub fn set_expires_more(&mut self, more: bool) {
        self.work = Work::Expiration { more };
    }

    /// Whether more keys are due than one slice of time removed.
    pub fn expires_more(&self) -> bool {
        matches!(self.work, Work::Expiration { more: true })
    }

    /// Adds a whole command. Its arguments are copied, unless they may be shared and it is the first.
    ///
    /// Inlined where a session gathers, with [`append`](Self::append): as calls they cost a SET at pipeline 16 some 5 %
    /// more instructions.
    #[inline(always)]
    pub fn push(&mut self, id: CommandId, seq: u64, context: Context, args: Args<'_>) {
        if args.owner().is_none() && self.shared.is_none() {
            // `for_each` would be a call.
            for argument in args.iter() {
                self.append(argument);
            }
        } else {
            self.push_beside_shared(args);
        }
        self.end_op(id, seq, context, (false, true));
    }

    #[cold]
    fn push_beside_shared(&mut self, args: Args<'_>) {
        match args.owner() {
            Some(owner) if self.spans.is_empty() => {
                self.spans.extend_from_slice(args.spans());
                self.shared = Some(Box::new(owner.clone()));
            }
            _ => args.iter().for_each(|argument| self.push_argument(argument)),
        }
    }

    /// Adds an argument of the command that [`end_part`](Self::end_part) ends.
    pub fn push_argument(&mut self, argument: &[u8]) {
        if self.shared.is_some() {
            self.copy_shared();
        }
        self.append(argument);
    }

    #[inline(always)]
    fn append(&mut self, argument: &[u8]) {
        self.spans.push(Span::new(self.arena.len(), argument.len()));
        self.arena.extend_from_slice(argument);
    }

    /// A read that is shared is a single request: what follows it in the batch is of a later read, and both are copied.
    #[cold]
    fn copy_shared(&mut self) {
        let shared = self.shared.take();
        self.arena.extend_from_slice(shared.as_ref().map_or(&[], |shared| &shared[..]));
    }

    /// Ends a part of a command, whose arguments were pushed; the first part counts as the call.
    pub fn end_part(&mut self, id: CommandId, seq: u64, context: Context, is_first: bool) {
        self.has_parts = true;
        self.end_op(id, seq, context, (true, is_first));
    }

    /// Attaches the record of a command to its parts.
    pub fn attach_record(&mut self, seq: u64, record: CommandRecord) {
        self.records.push((seq, record));
    }

    /// The parts of commands that change data but lack its record, with their numbers.
    pub fn parts_without_record(&self) -> impl Iterator<Item = (u64, &Op, Args<'_>)> {
        let parts = self.ops.iter().zip(self.commands()).map(|(op, (_, args))| (self.seq_of(op), op, args));
        let has_record = |seq: u64| self.records.iter().any(|(noted, _)| *noted == seq);
        parts.filter(move |(seq, op, _)| op.is_part && command(op.id).is_write() && !has_record(*seq))
    }

    fn end_op(&mut self, id: CommandId, seq: u64, context: Context, (is_part, counts): (bool, bool)) {
        self.has_writes |= command(id).is_write();
        if self.ops.is_empty() {
            self.first_seq = seq;
        }
        let narrow = |count| u32::try_from(count).expect("a batch holds the requests of one read");
        let (seq, spans_end) = (narrow(seq - self.first_seq), narrow(self.spans.len() as u64));
        self.ops.push(Op { reply_end: 0, seq, spans_end, id, context, is_part, counts });
    }

    /// Whether arguments were pushed for a command that has not been ended.
    pub fn has_open_part(&self) -> bool {
        self.spans.len() > self.ops.last().map_or(0, |op| op.spans_end as usize)
    }

    /// The commands with their arguments.
    pub fn commands(&self) -> impl Iterator<Item = (CommandId, Args<'_>)> {
        with_args(all_args(&self.arena, self.shared.as_deref(), &self.spans), &self.ops, 0)
    }

    /// Calls `run` for each command with its arguments, and with the log payload of a part; `run` appends its reply to
    /// the batch's replies, and returns whether there is time for another command. Before each group of commands,
    /// `look_ahead` is called with the group. When the replies fill a buffer, or the time is over, the rest is left:
    /// the connection sends it again when its client has read the replies, and others have had their turn.
    pub fn run<C>(
        &mut self,
        context: &mut C,
        look_ahead: impl Fn(&mut C, &mut dyn Iterator<Item = (CommandId, Args<'_>)>),
        run: impl Fn(&mut C, &Op, Args<'_>, Option<&[u8]>, &mut Replies) -> bool,
    ) {
        let Self { arena, shared, spans, first_seq, ops, replies, records, has_parts, left_at, .. } = self;
        let all = all_args(arena, shared.as_deref(), spans);
        // A command that takes effect together with other shards is not left for later.
        let may_leave = !*has_parts;
        let (mut start, count) = (0, ops.len());
        for (group, ops) in ops.chunks_mut(GROUP).enumerate() {
            look_ahead(context, &mut with_args(all, ops, start));
            for (index, op) in ops.iter_mut().enumerate() {
                let end = op.spans_end as usize;
                let is_its = |seq: u64| op.is_part && seq == *first_seq + u64::from(op.seq);
                let record = records.iter().find(|(seq, _)| is_its(*seq)).map(|(_, record)| record.payload());
                let has_time = run(context, op, all.with_spans(&spans[start..end]), record, replies);
                op.reply_end = replies.end_reply();
                start = end;
                if may_leave && (op.reply_end >= FULL || !has_time) {
                    let next = Some(group * GROUP + index + 1).filter(|&next| next < count);
                    *left_at = next.map(|next| u32::try_from(next).expect("no command is without a span"));
                    return;
                }
            }
        }
    }

    /// Whether its replies are whole, and those of consecutive requests from `seq` on.
    pub fn is_run_from(&self, seq: u64) -> bool {
        !self.has_parts
            && self.first_seq == seq
            && self.ops.last().is_some_and(|last| last.seq as usize == self.ops.len() - 1)
    }

    /// The sequence number of one of its commands.
    #[inline]
    pub fn seq_of(&self, op: &Op) -> u64 {
        self.first_seq + u64::from(op.seq)
    }
}

/// The arguments of all commands of a batch.
fn all_args<'a>(arena: &'a [u8], shared: Option<&'a Bytes>, spans: &'a [Span]) -> Args<'a> {
    match shared {
        None => Args::new(arena, spans),
        Some(shared) => Args::new_shared(shared, spans),
    }
}

/// Commands with their arguments; the first one's begin at span `start`.
fn with_args<'a>(all: Args<'a>, ops: &'a [Op], mut start: usize) -> impl Iterator<Item = (CommandId, Args<'a>)> {
    ops.iter().map(move |op| {
        let args = all.with_spans(&all.spans()[start..op.spans_end as usize]);
        start = op.spans_end as usize;
        (op.id, args)
    })
}
