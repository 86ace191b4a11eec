//! The commands of one read that an inline engine runs together.
//!
//! They are gathered where they were read, as positions in the bytes of the read: nothing is copied, and they run
//! before those bytes are released.

use super::shard_set::ShardSet;
use crate::aof::{Segment, frame_onto};
use crate::base::narrowing::whole_u64;
use crate::base::pool::{Pool, Pooled};
use crate::base::tsc;
use crate::commands::{CommandId, Context};
use crate::keyspace::{Effects, Keyspace, Store};
use crate::resp::{Args, Reply, SharedBulk, Span};
use std::cell::RefCell;
use std::ops::Range;

/// How many commands run under one acquisition at most.
const COMMANDS_MAX: usize = 64;
/// Bytes of requests that are gathered before they run; a longer request runs alone.
pub const BYTES_MAX: usize = 64 * 1024;
/// The longest time that one acquisition runs commands, in microseconds: then other connections have their turn. A long
/// command is the last of its acquisition.
const HELD_US_MAX: f64 = 50.0;
/// The longest time that a connection runs commands before others of its thread have their turn, in microseconds.
const QUANTUM_US: f64 = 5000.0;
/// The same for the batches of the shards of a thread, one of each. What is left of one may have to wait for other
/// shards, so few are to leave any.
const BATCH_US_MAX: f64 = 50_000.0;
/// How long a reading of the clock is used, in microseconds.
const CLOCK_US_MAX: f64 = 1000.0;
/// A larger buffer, in bytes, is not kept: one large effect should not keep its memory for ever.
const BUFFER_KEPT: usize = 32 * 1024;

thread_local! {
    /// Gathered commands, for reuse.
    static POOL: RefCell<Pool<Box<Gathered>>> = const { RefCell::new(Pool::new()) };
}

/// How the commands of one read are run: `--batching` and `--prefetch`.
#[derive(Debug, Clone, Copy)]
pub struct Batching {
    /// Whether they run together, or each alone.
    pub is_by_read: bool,
    /// Whether nodes are fetched ahead.
    pub prefetches: bool,
    /// Ticks after which an acquisition ends with the command that is running.
    pub held_ticks_max: u64,
    /// Ticks after which the clock is read again before another command runs.
    pub clock_ticks_max: u64,
    /// Ticks after which the turn of a connection ends with the command that is running.
    pub quantum_ticks: u64,
    /// Ticks after which a batch leaves the rest of its commands for later.
    pub batch_ticks_max: u64,
}

impl Batching {
    /// As the flags say, with so many shards on a thread.
    pub fn new(is_by_read: bool, prefetches: bool, shards_per_thread: usize) -> Self {
        let ticks = |us: f64| whole_u64(us * tsc::per_us());
        Self {
            is_by_read,
            prefetches,
            held_ticks_max: ticks(HELD_US_MAX),
            clock_ticks_max: ticks(CLOCK_US_MAX),
            quantum_ticks: ticks(QUANTUM_US),
            batch_ticks_max: ticks((BATCH_US_MAX / shards_per_thread as f64).max(QUANTUM_US)),
        }
    }

    /// The same where how much runs together, and at which time, does not depend on how long it takes.
    pub fn untimed(self) -> Self {
        Self {
            held_ticks_max: u64::MAX,
            clock_ticks_max: u64::MAX,
            quantum_ticks: u64::MAX,
            batch_ticks_max: u64::MAX,
            ..self
        }
    }

    /// Whether commands are gathered before they run: prefetching needs them, too.
    #[inline]
    pub fn gathers(self) -> bool {
        self.is_by_read || self.prefetches
    }
}

/// One of the commands.
#[derive(Debug, Clone, Copy)]
struct Op {
    id: CommandId,
    /// Where its request begins in the bytes of the read; its arguments count from there.
    start: u32,
    /// The range of its arguments' spans.
    spans: (u32, u32),
}

/// Commands of one connection that run next, in one database.
#[derive(Debug, Default)]
pub struct Gathered {
    context: Context,
    ops: Vec<Op>,
    spans: Vec<Span>,
    bytes: usize,
    scratch: Scratch,
}

/// Memory for running commands together.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Their changes.
    pub records: Records,
    /// The shards of a shared table that they need.
    pub shards: ShardSet,
}

impl Pooled for Box<Gathered> {
    fn held_bytes(&self) -> usize {
        size_of::<Self>()
            + size_of::<Gathered>()
            + self.ops.capacity() * size_of::<Op>()
            + self.spans.capacity() * size_of::<Span>()
            + self.scratch.records.framed.capacity()
            + self.scratch.shards.held_bytes()
    }
}

impl Gathered {
    /// An empty one, from this thread's pool.
    pub fn take() -> Box<Self> {
        POOL.with_borrow_mut(Pool::take).unwrap_or_default()
    }

    /// Returns its memory to this thread's pool.
    pub fn recycle(mut self: Box<Self>, is_tight: bool) {
        self.ops.clear();
        self.spans.clear();
        self.spans.shrink_to(BUFFER_KEPT / size_of::<Span>());
        self.bytes = 0;
        self.scratch.records.framed.shrink_to(BUFFER_KEPT);
        POOL.with_borrow_mut(|pool| pool.give(self, is_tight));
    }

    /// Adds a command whose request is at `place` in the bytes read.
    #[inline]
    pub fn push(&mut self, id: CommandId, args: Args<'_>, context: Context, place: Range<usize>) {
        debug_assert!(self.ops.is_empty() || self.context == context, "what changes it runs by itself");
        let narrow = |count: usize| u32::try_from(count).expect("what is read is bounded");
        let start = narrow(self.spans.len());
        self.spans.extend(args.spans());
        self.context = context;
        self.bytes += place.len();
        self.ops.push(Op { id, start: narrow(place.start), spans: (start, narrow(self.spans.len())) });
    }

    /// Whether they must run before another is added.
    #[inline]
    pub fn is_enough(&self) -> bool {
        self.ops.len() >= COMMANDS_MAX || self.bytes >= BYTES_MAX
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Where the request of one begins.
    pub fn start_of(&self, index: usize) -> usize {
        self.ops[index].start as usize
    }

    /// The commands, whose bytes are in `input`, and memory to run them in.
    pub fn commands<'a>(&'a mut self, input: &'a [u8]) -> (Commands<'a>, &'a mut Scratch) {
        (Commands { context: self.context, input, ops: &self.ops, spans: &self.spans }, &mut self.scratch)
    }
}

/// Some of the commands, in order.
#[derive(Debug, Clone, Copy)]
pub struct Commands<'a> {
    /// The state of their connection that they depend on.
    pub context: Context,
    input: &'a [u8],
    ops: &'a [Op],
    spans: &'a [Span],
}

impl<'a> Commands<'a> {
    /// How many there are.
    pub fn len(self) -> usize {
        self.ops.len()
    }

    /// The commands from `start` on.
    pub fn from(self, start: usize) -> Self {
        Self { ops: &self.ops[start..], ..self }
    }

    /// The first of them, at most `count`.
    pub fn first(self, count: usize) -> Self {
        Self { ops: &self.ops[..count.min(self.ops.len())], ..self }
    }

    /// Each with its arguments.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = (CommandId, Args<'a>)> + Clone {
        self.ops.iter().map(move |op| {
            let (start, end) = op.spans;
            (op.id, Args::new(&self.input[op.start as usize..], &self.spans[start as usize..end as usize]))
        })
    }
}

/// The buffer for replies, and its limit.
#[derive(Debug)]
pub struct Room<'a> {
    /// Replies are appended here.
    pub out: &'a mut Vec<u8>,
    /// At this length, no further command runs.
    pub until: usize,
    /// The last reply, if it is a shared string: no further command runs until that is taken.
    pub shared: Option<SharedBulk>,
}

impl Room<'_> {
    /// Whether another command may run.
    #[inline]
    pub fn is_left(&self) -> bool {
        self.out.len() <= self.until && self.shared.is_none()
    }

    /// The next reply.
    #[inline]
    pub fn reply(&mut self, resp3: bool) -> Reply<'_> {
        Reply::or_shared(self.out, &mut self.shared, resp3)
    }
}

/// Log records that are appended together.
#[derive(Debug, Default)]
pub struct Records {
    framed: Vec<u8>,
    count: u64,
}

impl Records {
    /// Takes the last command's changes, if any, as one record.
    #[inline]
    pub fn take(&mut self, segment: &Segment, effects: &mut Effects) {
        if !effects.payload().is_empty() {
            frame_onto(&mut self.framed, segment.salt(), effects.payload());
            effects.clear();
            self.count += 1;
        }
    }

    /// Appends them to the log; the caller excludes its other writers.
    pub fn append_to(&mut self, segment: &Segment) {
        if self.count > 0 {
            segment.append(&self.framed, std::mem::take(&mut self.count));
            self.framed.clear();
        }
    }
}

/// Whether an acquisition that began at `began` ticks must end after the command that has just run.
#[inline]
pub fn is_over<S: Store>(began: u64, keyspace: &mut Keyspace<S>, batching: Batching) -> bool {
    keyspace.timing.began_at().saturating_sub(began) > batching.held_ticks_max
}
