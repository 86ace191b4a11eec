//! Replication: the role of the server, and the one stream of changes ([replication.md](../../docs/replication.md)).
//!
//! The stream is counted in bytes as Redis counts it. Its name and an offset identify the data of a server: two servers
//! at the same offset of the same stream hold the same keys.
//!
//! ```text
//! owners of keys ──> feed ──> merger ──> stream ──> a link to each replica
//!              (aof::write::feed)      (backlog)
//! ```

mod encode_effects;
mod failover;
mod floats;
mod following;
pub mod link;
mod merger;
mod pipe;
mod replicas;
mod stream;

pub use failover::{Failover, Successor};
pub use following::{Ends, Following, Transfer};
pub use pipe::{Outlet, Pipe, Pipes, Taken};
pub use replicas::{Continuation, Filter, Introduction, Phase, Replica, Start};
pub use stream::{Backlog, Cursor, Stream};

use crate::aof::{Fed, Feed};
use crate::base::clock::uptime_ms;
use merger::{Merged, Merger};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

/// The length of a stream's name, in hexadecimal digits.
const ID_LEN: usize = 40;
/// How long the stream may be inside of MULTI before a barrier is requested, and for how many bytes.
const INSIDE_MAX: Duration = Duration::from_millis(50);
const INSIDE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// For how long nothing was pushed when the merger frees its buffers, and those of the feed.
const REST: Duration = Duration::from_millis(100);

/// The replication state of a server.
#[derive(Debug)]
pub struct Replication {
    role: Mutex<Role>,
    history: Mutex<History>,
    /// The stream sent to replicas.
    pub stream: Arc<Stream>,
    /// The changes of the owners of keys.
    pub feed: Arc<Feed>,
    replicas: Mutex<Vec<Arc<Replica>>>,
    /// The cursors of requested barriers in the stream, once they have come from all owners.
    passed: Mutex<HashMap<u64, Option<Cursor>>>,
    has_passed: Notify,
    barriers: AtomicU64,
    /// What must be added to the stream when it is outside of MULTI.
    wants_ping: AtomicBool,
    wants_acknowledgement: AtomicBool,
    /// The positions in the feed and in the stream when the stream last held everything fed so far, outside of MULTI.
    settled: Mutex<Settled>,
    has_settled: Notify,
    /// The memory of what the merger has taken from the feed and holds back, and of its buffers.
    merging_memory: AtomicUsize,
    /// Wakes the merger.
    wakeup: Notify,
    /// Wakes the coordinator.
    coordination: Notify,
    /// Whether the stream has been inside of MULTI for too long.
    wants_barrier: AtomicBool,
    /// Whether the feed was given up.
    is_given_up: AtomicBool,
    /// Whether only changes are added to the stream.
    is_quiet: AtomicBool,
    /// Wakes those that wait for acknowledgements.
    acknowledged: Notify,
    /// Whether there are too few replicas for a write.
    lacks_replicas: AtomicBool,
    /// Counts for INFO.
    pub counts: Counts,
    /// Its state as a replica.
    following: Following,
    /// The running failover.
    failover: Mutex<Option<Failover>>,
}

/// Counters for INFO.
#[derive(Debug, Default)]
pub struct Counts {
    /// Full synchronizations.
    pub full: AtomicU64,
    /// Partial ones.
    pub partial: AtomicU64,
    /// Partial ones that were refused.
    pub refused: AtomicU64,
    /// Bytes of the stream, and of snapshots, that were sent to replicas since the start.
    pub sent_bytes: AtomicU64,
    /// Bytes that came from masters since the start.
    pub received_bytes: Arc<AtomicU64>,
}

impl Counts {
    /// CONFIG RESETSTAT. The bytes are compared with those at the last one.
    pub fn reset(&self) {
        let Self { full, partial, refused, sent_bytes: _, received_bytes: _ } = self;
        for count in [full, partial, refused] {
            count.store(0, Ordering::Relaxed);
        }
    }
}

/// A position in the feed, and the position in the stream that covers it.
#[derive(Debug, Clone, Copy, Default)]
struct Settled {
    fed: u64,
    offset: u64,
}

/// The position that replicas must reach for a waiting client: everything pushed before its wait began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reach {
    /// The position in the feed at that time, once it is known.
    fed: Option<u64>,
    /// The offset in the stream that covers that, once it is known.
    offset: Option<u64>,
}

impl Reach {
    /// Where what is waited for ends in the stream, once that is known.
    pub fn end(&self) -> Option<u64> {
        self.offset
    }
}

/// How far a replica may lag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicaLimits {
    /// Bytes beyond which it is cut at once.
    pub hard_max: u64,
    /// Bytes beyond which it is cut if it lags for longer than `soft_ms`.
    pub soft_max: u64,
    /// For how long it may lag by more than `soft_max`.
    pub soft_ms: u64,
}

impl Default for ReplicaLimits {
    fn default() -> Self {
        Self { hard_max: u64::MAX, soft_max: u64::MAX, soft_ms: 0 }
    }
}

/// Whether a server decides what is written, or follows another that does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Role {
    /// It decides.
    #[default]
    Master,
    /// It follows.
    Replica(Master),
}

/// The master that a replica follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Master {
    /// Its host, as given.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The state of the link to it.
    pub link: LinkState,
}

/// The state of the link of a replica to its master.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkState {
    /// It must be connected.
    Connect,
    /// It is being connected.
    Connecting,
    /// It is connected, and the replica introduces itself.
    Handshake,
    /// It receives all keys.
    Sync,
    /// It follows the stream.
    Connected,
}

impl LinkState {
    /// The state in ROLE.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Connecting => "connecting",
            Self::Handshake => "handshake",
            Self::Sync => "sync",
            Self::Connected => "connected",
        }
    }
}

/// Which stream the data belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// The name of the stream that continues here.
    pub id: String,
    /// The name of the stream before this server was promoted; zeros if there was none.
    pub second_id: String,
    /// The first offset that no longer belongs to the second, counted from 1 as INFO shows it.
    pub second_offset: Option<u64>,
}

impl History {
    /// A stream of its own, with this name.
    pub fn new(id: String) -> Self {
        Self { id, second_id: "0".repeat(ID_LEN), second_offset: None }
    }

    /// Whether the stream of this name and the stream here are the same before `offset`. The offset is that of the last
    /// byte, counted from 1.
    fn has(&self, id: &str, offset: u64) -> bool {
        id == self.id || (id == self.second_id && self.second_offset.is_some_and(|end| offset < end))
    }
}

impl Replication {
    /// A master with an empty stream of this name.
    pub fn new(id: String) -> Self {
        Self {
            role: Mutex::default(),
            history: Mutex::new(History::new(id)),
            stream: Arc::default(),
            feed: Arc::default(),
            replicas: Mutex::default(),
            passed: Mutex::default(),
            has_passed: Notify::new(),
            barriers: AtomicU64::new(0),
            wants_ping: AtomicBool::new(false),
            wants_acknowledgement: AtomicBool::new(false),
            settled: Mutex::default(),
            has_settled: Notify::new(),
            merging_memory: AtomicUsize::new(0),
            wakeup: Notify::new(),
            coordination: Notify::new(),
            wants_barrier: AtomicBool::new(false),
            is_given_up: AtomicBool::new(false),
            is_quiet: AtomicBool::new(false),
            acknowledged: Notify::new(),
            lacks_replicas: AtomicBool::new(false),
            counts: Counts::default(),
            following: Following::default(),
            failover: Mutex::default(),
        }
    }

    /// Whether this server is master.
    pub fn role(&self) -> Role {
        self.role.lock().clone()
    }

    /// Makes this server a master, or a replica.
    pub fn set_role(&self, role: Role) {
        *self.role.lock() = role;
    }

    /// The stream that the data belongs to.
    pub fn history(&self) -> History {
        self.history.lock().clone()
    }

    /// Continues in another stream.
    fn set_history(&self, history: History) {
        *self.history.lock() = history;
    }

    /// The end of the stream.
    pub fn offset(&self) -> u64 {
        self.stream.end()
    }

    /// Sets the end of the stream, of which nothing is kept.
    pub fn set_offset(&self, offset: u64) {
        self.stream.set_end(offset);
    }

    /// The replicas that are attached.
    pub fn replicas(&self) -> Vec<Arc<Replica>> {
        self.replicas.lock().clone()
    }

    /// How many replicas lag by this many seconds at most.
    pub fn good_replicas(&self, now_ms: u64, lag_s_max: u64) -> usize {
        let is_good = |replica: &&Arc<Replica>| replica.phase() == Phase::Online && replica.lag_s(now_ms) <= lag_s_max;
        self.replicas.lock().iter().filter(is_good).count()
    }

    /// Whether there are too few replicas for a write.
    pub fn lacks_replicas(&self) -> bool {
        self.lacks_replicas.load(Ordering::Relaxed)
    }

    /// Sets whether there are too few replicas for a write, and returns whether that is new.
    pub fn set_lacks_replicas(&self, lacks: bool) -> bool {
        self.lacks_replicas.swap(lacks, Ordering::Relaxed) != lacks
    }

    /// Bytes in memory besides the backlog, for replicas: changes add them, and they are freed without evicting
    /// anything. Those of replicas that have just gone are among them until they are freed.
    pub fn uncounted_memory(&self) -> u64 {
        let Backlog { memory, size, .. } = self.stream.backlog();
        let merging = self.merging_memory.load(Ordering::Relaxed) + self.feed.memory();
        memory.saturating_sub(size) + merging as u64
    }

    /// Attaches a replica until the returned value is dropped.
    pub fn attach(&self, replica: Arc<Replica>) -> Attached<'_> {
        self.replicas.lock().push(Arc::clone(&replica));
        self.coordination.notify_one();
        Attached { replication: self, replica }
    }

    /// The number of a new barrier.
    pub fn next_barrier(&self) -> u64 {
        self.barriers.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The number of a new barrier whose cursor [`passed`](Self::passed) waits for.
    pub fn next_cut(&self) -> u64 {
        let barrier = self.next_barrier();
        self.passed.lock().insert(barrier, None);
        barrier
    }

    /// Waits until a barrier has come from all owners, and returns its cursor. `None` if the feed was given up.
    pub async fn passed(&self, cut: u64) -> Option<Cursor> {
        loop {
            let has_passed = self.has_passed.notified();
            if self.is_given_up() || self.passed.lock().get(&cut).is_some_and(Option::is_some) {
                return self.passed.lock().remove(&cut).flatten();
            }
            has_passed.await;
        }
    }

    /// Whether the feed was given up: changes are missing in the stream.
    pub fn is_given_up(&self) -> bool {
        self.is_given_up.load(Ordering::Acquire)
    }

    /// Starts the feed again; nothing is pushed to it meanwhile.
    pub fn begin_feed_anew(&self) {
        self.feed.begin_anew();
        self.is_given_up.store(false, Ordering::Release);
        self.wakeup.notify_one();
    }

    /// Whether the stream has been inside of MULTI for long; true once per request.
    pub fn take_barrier_request(&self) -> bool {
        self.wants_barrier.swap(false, Ordering::AcqRel)
    }

    /// Adds a PING to the stream.
    pub fn ping(&self) {
        self.wants_ping.store(true, Ordering::Release);
        self.wakeup.notify_one();
    }

    /// Adds a request for acknowledgements to the stream.
    fn ask_for_acknowledgement(&self) {
        if self.has_own_stream() && !self.replicas.lock().is_empty() {
            self.wants_acknowledgement.store(true, Ordering::Release);
            self.wakeup.notify_one();
        }
    }

    /// Updates a wait: `has_executed_all` says whether everything that is waited for was executed.
    pub fn advance(&self, reach: Reach, has_executed_all: bool) -> Reach {
        let fed = reach.fed.or_else(|| has_executed_all.then(|| self.feed.pushed()));
        let settled = *self.settled.lock();
        let offset = reach.offset.or_else(|| fed.filter(|fed| settled.fed >= *fed).map(|_| settled.offset));
        // The stream may have gone back since: it was another one.
        let offset = offset.map(|offset| offset.min(self.stream.end()));
        if offset != reach.offset {
            // They acknowledge once a second anyway.
            self.ask_for_acknowledgement();
        }
        Reach { fed, offset }
    }

    /// How many replicas have everything that is waited for; on their disks, if `on_disk` is set.
    pub fn reached(&self, reach: Reach, on_disk: bool) -> u64 {
        let Some(offset) = reach.offset else { return 0 };
        let has_it = |replica: &&Arc<Replica>| {
            let has = if on_disk { replica.synced() } else { replica.acknowledged() };
            replica.phase() == Phase::Online && has >= offset
        };
        self.replicas.lock().iter().filter(has_it).count() as u64
    }

    /// Whether the stream has everything that was pushed.
    pub fn has_merged_all(&self) -> bool {
        !self.is_given_up() && self.following.is_fed() && self.settled.lock().fed == self.feed.pushed()
    }

    /// Waits until replicas may have more than when this was called, or the offset that they must reach may be known.
    pub fn heard(&self) -> impl Future<Output = ()> + '_ {
        let (acknowledged, settled) = (self.acknowledged.notified(), self.has_settled.notified());
        async {
            tokio::select! { () = acknowledged => {} () = settled => {} }
        }
    }

    /// Wakes clients that wait for copies: their wait may never succeed.
    pub fn rouse_waiting(&self) {
        self.acknowledged.notify_waiters();
    }

    /// Wakes the coordinator.
    pub fn coordinate(&self) {
        self.coordination.notify_one();
    }

    /// Waits until there is work for the coordinator.
    pub async fn needs_coordination(&self) {
        self.coordination.notified().await;
    }

    /// Records a replica's acknowledgement.
    pub fn acknowledge(&self, replica: &Replica, offset: u64, synced: Option<u64>) {
        replica.acknowledge(offset, synced, uptime_ms());
        self.acknowledged.notify_waiters();
    }

    /// Merges what the owners of keys push, on this many lanes, into the stream. Never ends.
    pub async fn merge(&self, lanes: usize) {
        let mut merger = Merger::new(lanes);
        let mut fed = Fed::default();
        let mut inside_since = None;
        let mut is_unsettled = false;
        loop {
            tokio::select! {
                () = self.feed.filled() => {}
                () = self.wakeup.notified() => {}
                () = sleep(REST), if self.merging_memory.load(Ordering::Relaxed) > 0 => {
                    fed = Fed::default();
                    self.feed.free_buffers();
                    merger.free_buffers();
                    self.merging_memory.store(merger.memory(), Ordering::Relaxed);
                    continue;
                }
            }
            loop {
                fed.clear();
                fed = self.feed.take(fed);
                self.merging_memory.store(fed.memory() + merger.memory(), Ordering::Relaxed);
                if merger.holds_too_much() {
                    self.feed.give_up();
                    fed.is_given_up = true;
                }
                if fed.is_given_up {
                    merger = Merger::new(lanes);
                    self.give_up();
                    break;
                }
                let before = self.stream.end();
                merger.take_in(&fed, &mut Output(self));
                is_unsettled |= self.stream.end() > before;
                if merger.is_settled() {
                    self.note_settled(fed.end, std::mem::take(&mut is_unsettled));
                }
                self.emit_requested(&mut merger);
                self.check_inside(&merger, &mut inside_since);
                if fed.pieces.is_empty() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
    }

    /// Changes were lost: the stream ends here, and so do its replicas.
    fn give_up(&self) {
        if !self.is_given_up.swap(true, Ordering::AcqRel) {
            tracing::error!("The queue of what is to be replicated was not taken in time: replicas have to begin anew");
        }
        self.stream.finish();
        self.has_passed.notify_waiters();
        self.coordination.notify_one();
    }

    fn emit_requested(&self, merger: &mut Merger) {
        for (requested, words) in [
            (&self.wants_ping, &[b"PING".as_slice()][..]),
            (&self.wants_acknowledgement, &[b"REPLCONF".as_slice(), b"GETACK", b"*"]),
        ] {
            if self.is_quiet.load(Ordering::Acquire) || !self.has_own_stream() {
                return;
            }
            // Cleared before it is fulfilled: a request that comes meanwhile is a new one.
            if requested.swap(false, Ordering::AcqRel) && !merger.emit(words, &mut Output(self)) {
                requested.store(true, Ordering::Release);
            }
        }
    }

    /// Whether the stream is this master's own. One that was just promoted may still apply the last group of its
    /// master, which ends at an offset that was decided before.
    fn has_own_stream(&self) -> bool {
        self.role() == Role::Master && self.following.is_fed()
    }

    /// Records that the stream holds the feed up to this position. No client waits for the other bytes added to it,
    /// such as requests for acknowledgements: if the feed added nothing to the stream, the offset stays.
    fn note_settled(&self, fed: u64, is_more: bool) {
        let mut settled = self.settled.lock();
        let offset = if is_more { self.stream.end() } else { settled.offset };
        *settled = Settled { fed, offset };
        drop(settled);
        self.has_settled.notify_waiters();
    }

    fn check_inside(&self, merger: &Merger, since: &mut Option<(Instant, u64)>) {
        if !merger.is_inside() {
            *since = None;
            return;
        }
        let (begin, offset) = *since.get_or_insert_with(|| (Instant::now(), self.stream.end()));
        if begin.elapsed() > INSIDE_MAX || self.stream.end() - offset > INSIDE_BYTES_MAX {
            *since = None;
            self.wants_barrier.store(true, Ordering::Release);
            self.coordination.notify_one();
        }
    }
}

/// The guard of an attached replica.
#[derive(Debug)]
pub struct Attached<'a> {
    replication: &'a Replication,
    /// The replica.
    pub replica: Arc<Replica>,
}

impl Drop for Attached<'_> {
    fn drop(&mut self) {
        self.replication.replicas.lock().retain(|replica| !Arc::ptr_eq(replica, &self.replica));
        self.replication.acknowledged.notify_waiters();
        // There may be too few for a write now.
        self.replication.coordinate();
    }
}

/// Receives the merged stream.
struct Output<'a>(&'a Replication);

impl Merged for Output<'_> {
    fn append(&mut self, bytes: &[u8]) {
        self.0.stream.append(bytes);
    }

    fn pass(&mut self, barrier: u64) {
        if let Some(cursor) = self.0.passed.lock().get_mut(&barrier) {
            *cursor = Some(self.0.stream.cursor_at_end());
            self.0.has_passed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Waker};

    /// Runs a test in a process with a planted bug.
    #[cfg(feature = "planted-cost")]
    fn finds(bug: &str, test: &str) {
        let mut run = std::process::Command::new(std::env::current_exe().expect("this runs"));
        run.args(["--exact", &format!("replication::{test}")]).env("SHARDRACE_PLANTED_BUG", bug);
        let ended = run.output().expect("this can run again");
        let said = String::from_utf8_lossy(&ended.stdout);
        assert!(said.contains("0 passed; 1 failed"), "{bug} is not found by {test}: {said}");
    }

    #[cfg(feature = "planted-cost")]
    #[test]
    fn planted_bugs_of_merger_and_backlog_are_found() {
        let merged = "merger::tests::a_replica_has_each_change_with_all_that_its_maker_had_seen_wherever_it_stops_\
                      outside_of_multi";
        let kept =
            "stream::tests::every_offset_of_the_backlog_reads_what_was_written_there_and_none_before_it_is_given";
        finds("NoMulti", merged);
        finds("FirstCopy", merged);
        finds("BacklogShort", kept);
    }

    #[test]
    fn a_replica_that_acknowledges_about_once_a_second_lags_by_one_second_at_most() {
        let replication = Replication::new("own".into());
        let attached = replication.attach(Arc::new(Replica::new(1, Introduction::default(), false, 0)));
        attached.replica.set_phase(Phase::Online);
        assert_eq!([1_000, 1_001, 1_999, 2_000].map(|now_ms| replication.good_replicas(now_ms, 1)), [1, 1, 1, 0]);
    }

    #[test]
    fn the_coordinator_looks_again_when_a_replica_has_gone() {
        let replication = Replication::new("own".into());
        let is_woken = || {
            let mut context = Context::from_waker(Waker::noop());
            pin!(replication.needs_coordination()).poll(&mut context).is_ready()
        };
        let attached = replication.attach(Arc::new(Replica::new(1, Introduction::default(), false, 0)));
        assert_eq!((is_woken(), is_woken()), (true, false));
        drop(attached);
        assert!(is_woken());
    }
}
