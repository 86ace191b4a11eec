//! A segment: one file of records, written in order by one owner of data and synced by a thread of its own.
//!
//! Positions in the log are counted in bytes appended since the server started ("lsn"). They pass three marks, always
//! in this order: appended (in memory), written (in the operating system: survives a kill), synced (on the disk:
//! survives a power loss). A reply leaves when the mark that the fsync policy asks for has passed what it shows.

use super::record::{Salt, frame_joint_onto};
use hdrhistogram::Histogram;
use parking_lot::{Condvar, Mutex};
use std::fs::File;
use std::future::poll_fn;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

/// How long a written record may wait for its fsync under `everysec`.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// Buffers above this size are given back after they are written.
const BUFFER_KEPT: usize = 1024 * 1024;

/// When records go to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum FsyncPolicy {
    /// Once a second.
    Everysec,
    /// Before the reply.
    Always,
    /// When the operating system likes.
    No,
}

impl FsyncPolicy {
    /// The policies as `--appendfsync` names them, in the order of their numbers.
    pub const NAMES: [&'static str; 3] = ["everysec", "always", "no"];

    /// The policy at this position of [`NAMES`](Self::NAMES).
    pub fn from_number(number: u8) -> Self {
        [Self::Everysec, Self::Always, Self::No][usize::from(number)]
    }
}

/// The policy that all segments follow; CONFIG SET changes it.
#[derive(Debug, Clone)]
pub struct SharedPolicy(Arc<AtomicU8>);

impl SharedPolicy {
    /// A policy to share.
    pub fn new(policy: FsyncPolicy) -> Self {
        Self(Arc::new(AtomicU8::new(policy as u8)))
    }

    /// The policy now.
    pub fn get(&self) -> FsyncPolicy {
        FsyncPolicy::from_number(self.0.load(Ordering::Relaxed))
    }

    /// Changes the policy, by its position in [`FsyncPolicy::NAMES`].
    pub fn set(&self, number: u8) {
        self.0.store(FsyncPolicy::from_number(number) as u8, Ordering::Relaxed);
    }
}

/// Figures of a segment for INFO.
#[derive(Debug, Clone, Default)]
pub struct SegmentMetrics {
    /// Bytes in the file.
    pub file_bytes: u64,
    /// Bytes appended and not yet written.
    pub buffered_bytes: u64,
    /// fsyncs done.
    pub fsyncs: u64,
    /// Duration of an fsync in microseconds: median, 99th percentile, largest.
    pub fsync_us: [u64; 3],
}

/// Appends, writes and syncs records.
///
/// Invariant: synced <= written <= appended.
///
/// The mutexes are held for a copy or a write, never across an await; the actor engine takes them once per turn, not
/// per command (docs/adr/0003).
#[derive(Debug)]
pub struct Segment {
    path: PathBuf,
    policy: SharedPolicy,
    salt: Salt,
    queue: Mutex<Vec<u8>>,
    writer: Mutex<Writer>,
    appended: AtomicU64,
    written: AtomicU64,
    synced: AtomicU64,
    waiters: Mutex<Vec<(u64, Waker)>>,
    bell: Bell,
    fsync_us: Mutex<Histogram<u64>>,
    file_start: u64,
}

#[derive(Debug)]
struct Writer {
    file: File,
    /// Swapped with the queue, so that appending goes on while this is written.
    buffer: Vec<u8>,
}

/// Wakes the log thread. Rings are remembered, not counted.
#[derive(Debug, Default)]
struct Bell {
    rung: Mutex<bool>,
    condition: Condvar,
    stop: AtomicBool,
}

impl Bell {
    fn ring(&self) {
        let mut rung = self.rung.lock();
        if !*rung {
            *rung = true;
            self.condition.notify_one();
        }
    }

    fn wait(&self, at_most: Duration) {
        let mut rung = self.rung.lock();
        if !*rung {
            self.condition.wait_for(&mut rung, at_most);
        }
        *rung = false;
    }
}

impl Segment {
    /// Appends to `file`, which is `file_bytes` long; starts the log thread.
    pub fn start(
        path: PathBuf,
        file: File,
        file_bytes: u64,
        salt: Salt,
        policy: SharedPolicy,
    ) -> (Arc<Self>, LogThread) {
        let segment = Arc::new(Self {
            path,
            policy,
            salt,
            queue: Mutex::default(),
            writer: Mutex::new(Writer { file, buffer: Vec::new() }),
            appended: AtomicU64::new(0),
            written: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            waiters: Mutex::default(),
            bell: Bell::default(),
            fsync_us: Mutex::new(Histogram::new(2).expect("two significant digits are within the histogram's range")),
            file_start: file_bytes,
        });
        let shared = Arc::clone(&segment);
        let thread = std::thread::Builder::new()
            .name("log".into())
            .spawn(move || shared.run_log_thread())
            .expect("the operating system starts threads at start-up");
        (Arc::clone(&segment), LogThread { segment, thread })
    }

    /// Appends framed records. The caller excludes other writers of the same keys, so order here is order of execution.
    pub fn append(&self, records: &[u8]) {
        let mut queue = self.queue.lock();
        queue.extend_from_slice(records);
        self.appended.fetch_add(records.len() as u64, Ordering::Release);
    }

    /// Appends one record with this payload; the caller excludes others, as for [`append`](Self::append).
    pub fn append_payload(&self, payload: &[u8]) {
        let mut queue = self.queue.lock();
        let before = queue.len();
        super::frame_onto(&mut queue, self.salt, payload);
        self.appended.fetch_add((queue.len() - before) as u64, Ordering::Release);
    }

    /// Appends the copy of a record that stands in several segments; the caller has all of their owners' exclusion.
    pub fn append_joint_payload(&self, payload: &[u8]) {
        let mut queue = self.queue.lock();
        let before = queue.len();
        frame_joint_onto(&mut queue, self.salt, payload);
        self.appended.fetch_add((queue.len() - before) as u64, Ordering::Release);
    }

    /// What records of this segment are framed with.
    pub fn salt(&self) -> Salt {
        self.salt
    }

    /// The position after everything appended so far: whatever a command has shown stands before it.
    pub fn appended(&self) -> u64 {
        self.appended.load(Ordering::Acquire)
    }

    /// Sees to it that records up to `lsn` go where the policy wants them: written before this returns, or, under
    /// `always`, on their way to the disk.
    pub fn commit(&self, lsn: u64) {
        match self.policy.get() {
            FsyncPolicy::Always if self.synced.load(Ordering::Acquire) < lsn => self.bell.ring(),
            FsyncPolicy::Always => {}
            FsyncPolicy::Everysec | FsyncPolicy::No => {
                if self.written.load(Ordering::Acquire) < lsn {
                    self.write_out();
                }
            }
        }
    }

    /// Whether replies that show records up to `lsn` may leave.
    pub fn is_released(&self, lsn: u64) -> bool {
        let mark = if self.policy.get() == FsyncPolicy::Always { &self.synced } else { &self.written };
        mark.load(Ordering::Acquire) >= lsn
    }

    /// Waits until replies that show records up to `lsn` may leave. [`commit`](Self::commit) comes first.
    pub async fn released(&self, lsn: u64) {
        poll_fn(|context| {
            if self.is_released(lsn) {
                return Poll::Ready(());
            }
            self.waiters.lock().push((lsn, context.waker().clone()));
            // The mark may have moved between the look and the registration.
            if self.is_released(lsn) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Figures for INFO.
    pub fn metrics(&self) -> SegmentMetrics {
        let written = self.written.load(Ordering::Acquire);
        let fsync_us = self.fsync_us.lock();
        SegmentMetrics {
            file_bytes: self.file_start + written,
            buffered_bytes: self.appended() - written,
            fsyncs: fsync_us.len(),
            fsync_us: [fsync_us.value_at_quantile(0.5), fsync_us.value_at_quantile(0.99), fsync_us.max()],
        }
    }

    /// Where the records are.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes everything appended so far; gives the position it reaches.
    fn write_out(&self) -> u64 {
        let mut writer = self.writer.lock();
        let end = {
            let mut queue = self.queue.lock();
            std::mem::swap(&mut *queue, &mut writer.buffer);
            self.appended()
        };
        let Writer { file, buffer } = &mut *writer;
        if let Err(error) = file.write_all(buffer) {
            self.fail("write", &error);
        }
        buffer.clear();
        buffer.shrink_to(BUFFER_KEPT);
        self.written.store(end, Ordering::Release);
        end
    }

    fn run_log_thread(&self) {
        let file = self.writer.lock().file.try_clone().unwrap_or_else(|error| self.fail("duplicate", &error));
        let mut last_sync = Instant::now();
        while !self.bell.stop.load(Ordering::Acquire) {
            self.bell.wait(SYNC_INTERVAL);
            let due = match self.policy.get() {
                FsyncPolicy::Always => true,
                FsyncPolicy::Everysec => last_sync.elapsed() >= SYNC_INTERVAL,
                // A change of policy may have left replies waiting.
                FsyncPolicy::No => !self.waiters.lock().is_empty(),
            };
            if due {
                self.sync(&file);
                last_sync = Instant::now();
            }
        }
        self.sync(&file);
    }

    fn sync(&self, file: &File) {
        let end = self.write_out();
        if end == self.synced.load(Ordering::Acquire) {
            return;
        }
        let start = Instant::now();
        if let Err(error) = file.sync_data() {
            // The kernel may have dropped what it could not write: a second fsync would lie.
            self.fail("fsync", &error);
        }
        self.fsync_us.lock().saturating_record(start.elapsed().as_micros() as u64);
        self.synced.store(end, Ordering::Release);
        self.wake_released(end);
    }

    fn wake_released(&self, end: u64) {
        let mut waiters = self.waiters.lock();
        let released = waiters.extract_if(.., |(lsn, _)| *lsn <= end).collect::<Vec<_>>();
        drop(waiters);
        released.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// The log cannot be trusted any more: nothing that it covers may be acknowledged.
    fn fail(&self, what: &str, error: &std::io::Error) -> ! {
        tracing::error!("Can't {what} the append-only file {}: {error}. Exiting.", self.path.display());
        std::process::exit(1);
    }
}

/// Ends the log thread of a segment, with all written and synced.
#[derive(Debug)]
pub struct LogThread {
    segment: Arc<Segment>,
    thread: std::thread::JoinHandle<()>,
}

impl LogThread {
    /// Writes and syncs what is left, and waits for that.
    pub fn finish(self) {
        self.segment.bell.stop.store(true, Ordering::Release);
        self.segment.bell.ring();
        self.thread.join().expect("the log thread does not panic");
    }
}
