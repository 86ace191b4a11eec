//! A segment: records, written in order by one owner of data and synced by a thread of its own. They go to one file
//! after another: each rewrite of the log begins a new one.
//!
//! Positions in the log are counted in bytes appended since the server started ("lsn"). They pass three watermarks,
//! always in this order: appended (in memory), written (in the operating system: survives a kill), synced (on the disk:
//! survives a power loss). A reply leaves when the watermark that the fsync policy asks for has passed what it shows,
//! and when every transaction over several segments that it may depend on is in all of them.
//!
//! Without a log there are segments, too, but nothing is appended to them: see `phase`.
//!
//! While one segment cannot be written, none is written on its own: what waits in all of them is tried again in an
//! order that keeps what survives a kill consistent (see `PendingCommits::write_in_order`).

mod commit_notifier;
mod log_thread;
mod phase;
mod wakeup;
mod writing;

pub use log_thread::LogThread;

use super::control::LogControl;
use super::feed::Outlet;
use super::group_commit::GroupCommit;
use super::pending_commits::PendingCommits;
use crate::aof::disk::{LogFile, NoFile};
use crate::aof::format::{
    ControlRecord, FsyncPolicy, SEGMENT_HEADER, Salt, frame_control_onto, frame_cross_shard_onto, frame_onto,
};
use commit_notifier::CommitNotifier;
use hdrhistogram::Histogram;
use parking_lot::{Mutex, MutexGuard};
use phase::Phase;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};
use std::time::Duration;
use wakeup::Wakeup;
use writing::Writer;

/// How long the runtime's thread stays awake for the next fsync at most.
const SPIN_MAX: Duration = Duration::from_millis(1);
/// How long an epoch lasts: with the fsync at its end, a power loss under `everysec` should cost at most a second.
pub const EPOCH: Duration = Duration::from_millis(800);
/// The position after everything: nothing is held.
const NOWHERE: u64 = u64::MAX;

/// Figures of a segment for INFO.
#[derive(Debug, Clone, Default)]
pub struct SegmentMetrics {
    /// Bytes in its files, those of the base among them.
    pub file_bytes: u64,
    /// Bytes appended and not yet written.
    pub buffered_bytes: u64,
    /// Bytes appended and not yet synced.
    pub unsynced_bytes: u64,
    /// Whether an fsync is being done.
    pub is_syncing: bool,
    /// How often writers had to wait for a slow disk under `everysec`.
    pub stalls: u64,
    /// fsyncs done.
    pub fsyncs: u64,
    /// Duration of an fsync in microseconds: median, 99th percentile, largest.
    pub fsync_us: [u64; 3],
    /// Bytes that one fsync covered: median, 99th percentile, largest.
    pub fsync_bytes: [u64; 3],
}

/// Appends, writes and syncs records.
///
/// Invariant: synced <= written <= appended.
///
/// The mutexes are held for a copy or a write, never across an await; the actor engine takes them once per turn, not
/// per command (docs/adr/0003).
#[derive(Debug)]
pub struct Segment {
    /// Whether there is a log.
    phase: Phase,
    /// It changes when a log begins; the caller then excludes all appends.
    salt: AtomicU32,
    /// How many records it holds, without control records.
    records: AtomicU64,
    /// Bytes in its files, without those written since the server started.
    other_bytes: AtomicI64,
    base_bytes: AtomicU64,
    control: LogControl,
    queue: Mutex<Queue>,
    writer: Mutex<Writer>,
    /// Bytes that the writer's buffer takes in memory.
    taken_room: AtomicU64,
    appended: AtomicU64,
    written: AtomicU64,
    synced: AtomicU64,
    /// Where this segment ended at the end of the last two epochs, the later first.
    epoch_ends: Mutex<[u64; 2]>,
    /// The position of the last mark of an epoch.
    mark: AtomicU64,
    /// Whether the disk is still busy with data older than two epochs: writers wait.
    is_stalled: AtomicBool,
    stalls: AtomicU64,
    is_syncing: AtomicBool,
    /// Whether a write failed and not all of the log has been written since.
    is_unwritable: AtomicBool,
    /// Whether an fsync failed: what it should have covered may be lost, and no later fsync would report it.
    is_broken: AtomicBool,
    pending_commits: Arc<PendingCommits>,
    /// Where appended records are pushed for replication; unset until the data is loaded.
    pub(super) outlet: OnceLock<Outlet>,
    /// The ends of transactions that hold back what follows them.
    held: Mutex<VecDeque<u64>>,
    held_from: AtomicU64,
    waiters: Mutex<Vec<(u64, Waker)>>,
    /// Wakers of those that wait for the disk, whatever the policy.
    sync_waiters: Mutex<Vec<(u64, Waker)>>,
    /// The task that wakes them all.
    notifier: CommitNotifier,
    /// The `waiters` that the next fsync is for.
    group_commit: GroupCommit,
    wakeup: Wakeup,
    fsyncs: Mutex<Fsyncs>,
}

/// Appended records that the writer has not taken.
#[derive(Debug, Default)]
struct Queue {
    bytes: Vec<u8>,
    /// The last position that the log says is on the disk.
    noted: u64,
    /// Added to a position in the log, it is the position in the file.
    file_offset: i64,
    /// Where the file begins: everything before is in other files.
    file_begin: u64,
    /// Whether the last epoch has ended: nothing is appended any more.
    is_closed: bool,
}

#[derive(Debug)]
struct Fsyncs {
    us: Histogram<u64>,
    bytes: Histogram<u64>,
}

/// The file that a segment continues in.
#[derive(Debug)]
pub struct NextFile {
    /// Its number among the increments of the segment.
    pub increment: u32,
    /// Its name.
    pub path: PathBuf,
    /// The file, which has a header with the segment's salt, and nothing else.
    pub file: Arc<dyn LogFile>,
}

/// Where a segment ended.
#[derive(Debug)]
pub struct FileEnd {
    /// Its last file.
    pub path: PathBuf,
    /// How long that is.
    pub len: u64,
}

/// What a segment is opened with.
#[derive(Debug)]
pub struct Opened {
    /// Its name.
    pub path: PathBuf,
    /// The file, which has a header.
    pub file: Arc<dyn LogFile>,
    /// Its length, all of it synced.
    pub len: u64,
    /// How long the base and the increments before it are.
    pub before: u64,
    /// How long the base is.
    pub base: u64,
    /// What its records are framed with.
    pub salt: Salt,
    /// How many it holds.
    pub records: u64,
}

/// fsyncs that take longer count as so long: an hour.
const FSYNC_US_MAX: u64 = 3_600_000_000;
/// fsyncs that cover more count as this many.
const FSYNC_BYTES_MAX: u64 = 1 << 40;

impl Segment {
    /// Appends to a file that a manifest names; starts the log thread.
    pub fn start(
        opened: Opened,
        control: LogControl,
        pending_commits: Arc<PendingCommits>,
    ) -> Result<(Arc<Self>, LogThread), String> {
        Self::start_in(Phase::named(), opened, control, pending_commits)
    }

    /// Starts a segment that nothing is appended to until a log begins, and its log thread.
    pub fn start_without_log(
        control: LogControl,
        pending_commits: Arc<PendingCommits>,
    ) -> Result<(Arc<Self>, LogThread), String> {
        let (path, file) = (PathBuf::new(), Arc::new(NoFile));
        let opened = Opened { path, file, len: 0, before: 0, base: 0, salt: Salt(0), records: 0 };
        Self::start_in(Phase::off(), opened, control, pending_commits)
    }

    fn start_in(
        phase: Phase,
        opened: Opened,
        control: LogControl,
        pending_commits: Arc<PendingCommits>,
    ) -> Result<(Arc<Self>, LogThread), String> {
        let up_to = |most| Histogram::new_with_max(most, 2).expect("two digits up to that are within its range");
        let segment = Arc::new(Self {
            phase,
            salt: AtomicU32::new(opened.salt.0),
            records: AtomicU64::new(opened.records),
            other_bytes: AtomicI64::new((opened.before + opened.len) as i64),
            base_bytes: AtomicU64::new(opened.base),
            control,
            queue: Mutex::new(Queue { file_offset: opened.len as i64, ..Queue::default() }),
            writer: Mutex::new(Writer::new(opened.path, opened.file)),
            taken_room: AtomicU64::new(0),
            appended: AtomicU64::new(0),
            written: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            epoch_ends: Mutex::new([0; 2]),
            mark: AtomicU64::new(0),
            is_stalled: AtomicBool::new(false),
            stalls: AtomicU64::new(0),
            is_syncing: AtomicBool::new(false),
            is_unwritable: AtomicBool::new(false),
            is_broken: AtomicBool::new(false),
            pending_commits,
            outlet: OnceLock::new(),
            held: Mutex::default(),
            held_from: AtomicU64::new(NOWHERE),
            waiters: Mutex::default(),
            sync_waiters: Mutex::default(),
            notifier: CommitNotifier::default(),
            group_commit: GroupCommit::default(),
            wakeup: Wakeup::default(),
            fsyncs: Mutex::new(Fsyncs { us: up_to(FSYNC_US_MAX), bytes: up_to(FSYNC_BYTES_MAX) }),
        });
        Ok((Arc::clone(&segment), LogThread::start(segment)?))
    }

    /// What all segments of the log have in common.
    pub fn control(&self) -> &LogControl {
        &self.control
    }

    /// What records of this segment are framed with.
    #[inline]
    pub fn salt(&self) -> Salt {
        Salt(self.salt.load(Ordering::Relaxed))
    }

    /// The position after everything appended so far: whatever a command has shown is before it.
    pub fn appended(&self) -> u64 {
        self.appended.load(Ordering::Acquire)
    }

    /// Memory in use as `used` measures it, less the buffers of unwritten records with their free room. Nothing is
    /// appended meanwhile: a buffer that grew after the measurement would count as free memory.
    pub fn used_beside_buffers(segments: &[Arc<Self>], used: impl FnOnce() -> u64) -> u64 {
        let queues: Vec<_> = segments.iter().map(|segment| segment.queue.lock()).collect();
        let buffers = Self::buffers(segments, queues.iter().map(|queue| queue.bytes.capacity()));
        used().saturating_sub(buffers)
    }

    /// Bytes of memory that unwritten records take, with the free room of their buffers.
    pub fn buffers_of(segments: &[Arc<Self>]) -> u64 {
        Self::buffers(segments, segments.iter().map(|segment| segment.queue.lock().bytes.capacity()))
    }

    fn buffers(segments: &[Arc<Self>], queues: impl Iterator<Item = usize>) -> u64 {
        let taken = segments.iter().map(|segment| segment.taken_room.load(Ordering::Relaxed));
        queues.map(|capacity| capacity as u64).chain(taken).sum()
    }

    /// How many records it holds.
    pub fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    /// Appends `count` framed records. The caller excludes other writers of the same keys, so the order here is the
    /// order of execution.
    pub fn append(&self, records: &[u8], count: u64) {
        let (is_fed, is_on) = self.ways();
        if is_fed {
            let Outlet { feed, lane } = self.outlet();
            feed.push_records(*lane, records);
        }
        if is_on {
            self.append_with(count, |bytes| bytes.extend_from_slice(records), false);
        }
    }

    /// Appends one record with this payload; the caller excludes others, as for [`append`](Self::append).
    pub fn append_payload(&self, payload: &[u8]) {
        let (is_fed, is_on) = self.ways();
        if is_fed {
            let Outlet { feed, lane } = self.outlet();
            feed.push_payload(*lane, self.salt(), payload);
        }
        if is_on {
            self.append_with(1, |bytes| frame_onto(bytes, self.salt(), payload), false);
        }
    }

    /// Pushes a record of several segments to the feed, once for all of them. The caller excludes all appends to them.
    pub(super) fn feed_cross_shard_payload(&self, payload: &[u8]) {
        if self.is_fed() {
            self.outlet().feed.push_cross_shard(self.salt(), payload);
        }
    }

    /// Appends one copy of a record of several segments: see [`PendingCommits::append`].
    pub(super) fn append_cross_shard_payload(&self, payload: &[u8]) {
        self.append_with(1, |bytes| frame_cross_shard_onto(bytes, self.salt(), payload), false);
    }

    /// Ends an epoch. The caller excludes all appends to every segment of the log, as for a transaction over all of
    /// them.
    pub fn append_epoch(&self, epoch: u64) {
        let policy = self.control.policy();
        self.mark.store(self.appended(), Ordering::Release);
        self.append_with(0, |bytes| frame_control_onto(bytes, self.salt(), ControlRecord::Epoch(epoch, policy)), false);
        self.end_epoch();
    }

    /// Ends the last epoch of a server that stops, and closes the segment, which may have no log. What still runs
    /// beside the connections, as expiration and a rewrite that begins, changes nothing in the log from now on.
    pub fn append_last_epoch(&self, epoch: u64) {
        let policy = self.control.policy();
        let mut queue = self.queue.lock();
        if self.is_on() {
            self.mark.store(self.appended(), Ordering::Release);
            let mark = ControlRecord::Epoch(epoch, policy);
            self.append_to(&mut queue, 0, |bytes| frame_control_onto(bytes, self.salt(), mark), false);
            self.append_to(&mut queue, 0, |_| {}, true);
        }
        queue.is_closed = true;
    }

    /// Records that an epoch ends with what is appended so far, and makes sure that it is synced.
    pub fn end_epoch(&self) {
        self.append_with(0, |_| {}, true);
        let mut ends = self.epoch_ends.lock();
        *ends = [self.appended(), ends[0]];
        // After a failed fsync there is none to wait for.
        let disk_lags = self.synced.load(Ordering::Acquire) < ends[1] && !self.is_broken.load(Ordering::Acquire);
        if disk_lags && self.control.policy() == FsyncPolicy::Everysec {
            self.stalls.fetch_add(1, Ordering::Relaxed);
            self.is_stalled.store(true, Ordering::Release);
        }
        drop(ends);
        if self.control.policy() != FsyncPolicy::No {
            self.wakeup.wants_sync.store(true, Ordering::Release);
            self.wakeup.wake();
        }
    }

    /// Whether something was appended since the last epoch.
    pub fn has_appended(&self) -> bool {
        self.epoch_ends.lock()[0] < self.appended()
    }

    fn append_with(&self, records: u64, frame: impl FnOnce(&mut Vec<u8>), notes_synced: bool) {
        let mut queue = self.queue.lock();
        if !queue.is_closed {
            self.append_to(&mut queue, records, frame, notes_synced);
        }
    }

    #[inline]
    fn append_to(
        &self,
        queue: &mut MutexGuard<'_, Queue>,
        records: u64,
        frame: impl FnOnce(&mut Vec<u8>),
        notes_synced: bool,
    ) {
        let before = queue.bytes.len();
        // All callers hold the lock: this saves two locked instructions for each command.
        self.records.store(self.records() + records, Ordering::Relaxed);
        if notes_synced || self.control.policy() == FsyncPolicy::Always {
            self.note_synced(queue);
        }
        frame(&mut queue.bytes);
        self.note_appended(queue, before);
    }

    /// Accounts for bytes appended to a queue that had `before` bytes.
    fn note_appended(&self, queue: &MutexGuard<'_, Queue>, before: usize) {
        let added = (queue.bytes.len() - before) as u64;
        self.appended.store(self.appended.load(Ordering::Relaxed) + added, Ordering::Release);
    }

    /// Records in the log how much of it is on the disk: damage before this position is real damage, not a tail that a
    /// power loss tore.
    fn note_synced(&self, queue: &mut Queue) {
        let synced = self.synced.load(Ordering::Acquire);
        if synced > queue.noted.max(queue.file_begin) {
            queue.noted = synced;
            let position = synced.wrapping_add_signed(queue.file_offset);
            frame_control_onto(&mut queue.bytes, self.salt(), ControlRecord::Synced(position));
        }
    }

    /// Sends records up to `lsn` where the policy wants them: they are written before this returns, or, under `always`,
    /// on their way to the disk.
    pub fn commit(&self, lsn: u64) {
        match self.control.policy() {
            FsyncPolicy::Always if self.synced.load(Ordering::Acquire) < lsn => self.wakeup.wake(),
            FsyncPolicy::Always => {}
            // The log thread tries again where the disk is full.
            FsyncPolicy::Everysec | FsyncPolicy::No if self.control.is_failing() => {}
            FsyncPolicy::Everysec | FsyncPolicy::No => {
                if self.written.load(Ordering::Acquire) < lsn {
                    self.write_out();
                }
            }
        }
    }

    /// Whether records up to `lsn` are where the policy wants them.
    #[inline]
    pub fn has_reached(&self, lsn: u64) -> bool {
        let is_strict = match self.control.policy() {
            FsyncPolicy::Always => true,
            FsyncPolicy::Everysec => self.is_stalled.load(Ordering::Acquire),
            FsyncPolicy::No => false,
        };
        let watermark = if is_strict { &self.synced } else { &self.written };
        watermark.load(Ordering::Acquire) >= lsn
    }

    /// Whether connections that only read need not wait for the log: it cannot be written, or writers wait for a slow
    /// disk and what they are shown is promised to no client. [`commit`](Self::commit) comes first.
    pub fn lets_readers_pass(&self) -> bool {
        let is_stalled = || self.is_stalled.load(Ordering::Acquire);
        self.control.is_failing() || (self.control.policy() == FsyncPolicy::Everysec && is_stalled())
    }

    /// Whether replies that show records up to `lsn` may leave, or no client is left to receive them.
    #[inline]
    pub fn is_released(&self, lsn: u64) -> bool {
        (self.has_reached(lsn) && lsn < self.held_from.load(Ordering::Acquire)) || self.control.is_given_up()
    }

    /// Waits until replies that show records up to `lsn` may leave. [`commit`](Self::commit) comes first.
    pub async fn released(&self, lsn: u64) {
        poll_fn(|context| {
            if self.is_released(lsn) {
                return Poll::Ready(());
            }
            self.waiters.lock().push((lsn, context.waker().clone()));
            if self.group_commit.join() {
                self.wakeup.wake_for(&self.group_commit);
            }
            // The watermark may have moved between the check and the registration.
            if self.is_released(lsn) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Whether records up to `lsn` are on the disk, in a log that a manifest names.
    pub fn is_synced(&self, lsn: u64) -> bool {
        self.phase.is_named() && self.synced.load(Ordering::Acquire) >= lsn
    }

    /// Waits until records up to `lsn` are on the disk, without asking for that. Dropping the future loses nothing.
    pub async fn synced(&self, lsn: u64) {
        poll_fn(|context| {
            if self.is_synced(lsn) {
                return Poll::Ready(());
            }
            self.sync_waiters.lock().push((lsn, context.waker().clone()));
            // The watermark may have moved between the check and the registration.
            if self.is_synced(lsn) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Holds back replies that show what is at `lsn` or after it.
    pub fn hold_from(&self, lsn: u64) {
        let mut held = self.held.lock();
        held.push_back(lsn);
        self.held_from.store(held[0], Ordering::Release);
    }

    /// Ends a [`hold_from`](Self::hold_from), the first that has not ended.
    pub fn let_go(&self, lsn: u64) {
        let mut held = self.held.lock();
        let first = held.pop_front();
        assert_eq!(first, Some(lsn), "transactions settle in their order");
        self.held_from.store(held.front().copied().unwrap_or(NOWHERE), Ordering::Release);
    }

    /// Wakes the connections whose replies may leave now.
    pub fn wake_released(&self) {
        if !self.notifier.notify() {
            self.wake_waiters();
        }
    }

    /// Wakes connections for the log thread, which would need a system call for each: it notifies this task, and the
    /// task wakes them on their own thread. Never ends; if it does not run, the log thread wakes them all. With a spare
    /// core it stays awake between fsyncs that follow each other closely.
    pub async fn notify_commits(self: Arc<Self>, has_spare_core: bool) {
        let awake_at_most = if has_spare_core { SPIN_MAX } else { Duration::ZERO };
        loop {
            self.notifier.notified(awake_at_most).await;
            self.wake_waiters();
        }
    }

    fn wake_waiters(&self) {
        let mut waiters = self.waiters.lock();
        let released = waiters.extract_if(.., |(lsn, _)| self.is_released(*lsn)).collect::<Vec<_>>();
        drop(waiters);
        released.into_iter().for_each(|(_, waker)| waker.wake());
        let synced = { self.sync_waiters.lock() }.extract_if(.., |(lsn, _)| self.is_synced(*lsn)).collect::<Vec<_>>();
        synced.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Continues in another file, starting with a mark of this epoch. The caller excludes all appends, at one point in
    /// time for all segments. Returns how many records precede the mark. The error says why the segment stays in its
    /// file.
    pub fn go_on_in(&self, next: NextFile, epoch: u64) -> std::io::Result<u64> {
        let policy = self.control.policy();
        let mut writer = self.writer.lock();
        // What could not be written yet belongs to this file, or to an earlier one.
        if self.control.is_failing() || !writer.buffer.is_empty() {
            return Err(std::io::Error::other("what was appended before cannot be written"));
        }
        {
            let mut queue = self.queue.lock();
            if queue.is_closed {
                return Err(std::io::Error::other("the server stops"));
            }
            let add = |queue: &mut MutexGuard<'_, Queue>, record| {
                let before = queue.bytes.len();
                frame_control_onto(&mut queue.bytes, self.salt(), record);
                self.note_appended(queue, before);
            };
            add(&mut queue, ControlRecord::GoesOn(next.increment.into()));
            self.swap_buffers(&mut queue, &mut writer);
            let begin = self.appended();
            writer.end = begin;
            queue.file_begin = begin;
            queue.file_offset = SEGMENT_HEADER as i64 - begin as i64;
            add(&mut queue, ControlRecord::Epoch(epoch, policy));
        }
        self.other_bytes.fetch_add(SEGMENT_HEADER as i64, Ordering::Relaxed);
        writer.next = Some(next);
        self.write_taken_unless_failing(&mut writer);
        Ok(self.records())
    }

    /// Writes pending records to the file that it continues in, and syncs it: the beginning of that file is then on the
    /// disk. The watermarks do not move.
    pub fn settle_in_file(&self) -> std::io::Result<()> {
        self.write_out();
        let file = {
            let writer = self.writer.lock();
            if !writer.buffer.is_empty() || self.is_broken.load(Ordering::Acquire) {
                return Err(std::io::Error::other("the log cannot be written"));
            }
            Arc::clone(&writer.file)
        };
        // Neither is tried again as if nothing had happened.
        if !self.drain(std::slice::from_ref(&file), |file| file.drain()) {
            return Err(std::io::Error::other("the log cannot be written"));
        }
        file.sync().inspect_err(|error| self.note_sync_failure(error))
    }

    /// A base of this length has replaced the files before the current one.
    pub fn note_base(&self, len: u64) {
        let begin = self.queue.lock().file_begin;
        self.base_bytes.store(len, Ordering::Relaxed);
        self.other_bytes.store((len + SEGMENT_HEADER as u64) as i64 - begin as i64, Ordering::Relaxed);
    }

    /// Bytes in its files.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes_at(self.written.load(Ordering::Acquire))
    }

    fn file_bytes_at(&self, written: u64) -> u64 {
        written.saturating_add_signed(self.other_bytes.load(Ordering::Relaxed))
    }

    /// Bytes in its base.
    pub fn base_bytes(&self) -> u64 {
        self.base_bytes.load(Ordering::Relaxed)
    }

    /// Figures for INFO.
    pub fn metrics(&self) -> SegmentMetrics {
        let written = self.written.load(Ordering::Acquire);
        let fsyncs = self.fsyncs.lock();
        let summary = |histogram: &Histogram<u64>| {
            [histogram.value_at_quantile(0.5), histogram.value_at_quantile(0.99), histogram.max()]
        };
        SegmentMetrics {
            file_bytes: self.file_bytes_at(written),
            buffered_bytes: self.appended() - written,
            unsynced_bytes: self.appended() - self.synced.load(Ordering::Acquire),
            is_syncing: self.is_syncing.load(Ordering::Relaxed),
            stalls: self.stalls.load(Ordering::Relaxed),
            fsyncs: fsyncs.us.len(),
            fsync_us: summary(&fsyncs.us),
            fsync_bytes: summary(&fsyncs.bytes),
        }
    }
}
