//! What all segments of a log have in common: the fsync policy, and whether the log can be written.

use super::announced::{Announced, Announcements, Sending};
use crate::aof::format::FsyncPolicy;
use crate::base::tasks::Tasks;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};

/// The policy that all segments follow, which CONFIG SET changes, and what is wrong with them.
#[derive(Debug, Clone)]
pub struct LogControl {
    shared: Arc<Shared>,
    tasks: Tasks,
}

#[derive(Debug)]
struct Shared {
    policy: AtomicU8,
    /// The last epoch that has ended.
    epoch: AtomicU64,
    /// The last epoch of the log that was found at the start.
    found_epoch: AtomicU64,
    /// How many segments cannot be written.
    failing: AtomicUsize,
    /// How many reasons there are to refuse requests: each failing segment, a failed snapshot, keys of other slots.
    refusals: AtomicUsize,
    has_failed_snapshot: AtomicBool,
    /// The last error message of the operating system.
    reason: Mutex<String>,
    /// How often a write or an fsync of the log has failed.
    failures: AtomicU64,
    /// Whether no connection waits for the log any more.
    is_given_up: AtomicBool,
    /// Bytes of the log that are read at the start, and how many of them are replayed.
    loading: [AtomicU64; 2],
    /// Whether the server was stopped while it read the log.
    is_loading_given_up: AtomicBool,
    announcements: Announcements,
}

impl LogControl {
    /// The control of a log with this policy.
    pub fn new(policy: FsyncPolicy) -> Self {
        let shared = Arc::new(Shared {
            policy: AtomicU8::new(policy as u8),
            epoch: AtomicU64::new(0),
            found_epoch: AtomicU64::new(0),
            failing: AtomicUsize::new(0),
            refusals: AtomicUsize::new(0),
            has_failed_snapshot: AtomicBool::new(false),
            reason: Mutex::default(),
            failures: AtomicU64::new(0),
            is_given_up: AtomicBool::new(false),
            loading: Default::default(),
            is_loading_given_up: AtomicBool::new(false),
            announcements: Announcements::default(),
        });
        Self { shared, tasks: Tasks::System }
    }

    /// The same, of a log whose threads are run so.
    pub fn with_tasks(self, tasks: Tasks) -> Self {
        Self { tasks, ..self }
    }

    /// How the threads of the log are run.
    pub fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// The policy now.
    pub fn policy(&self) -> FsyncPolicy {
        FsyncPolicy::from_number(self.shared.policy.load(Ordering::Relaxed))
    }

    /// Changes the policy, by its position in [`FsyncPolicy::NAMES`].
    pub fn set_policy(&self, number: u8) {
        self.shared.policy.store(FsyncPolicy::from_number(number) as u8, Ordering::Relaxed);
    }

    /// The number of the epoch that ends now: the time, or more if the clock went back.
    pub fn next_epoch(&self, now_ms: u64) -> u64 {
        let next = |last: u64| now_ms.max(last.saturating_add(1));
        let last = self.shared.epoch.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)));
        next(last.expect("the update is never refused"))
    }

    /// Makes the numbers of all later epochs greater than this.
    pub fn begin_epochs_after(&self, epoch: u64) {
        self.shared.epoch.fetch_max(epoch, Ordering::Relaxed);
        self.shared.found_epoch.store(epoch, Ordering::Relaxed);
    }

    /// The last epoch of the log that was found at the start; 0 if there was none.
    pub fn found_epoch(&self) -> u64 {
        self.shared.found_epoch.load(Ordering::Relaxed)
    }

    /// The number of the last epoch that has ended.
    pub fn last_epoch(&self) -> u64 {
        self.shared.epoch.load(Ordering::Relaxed)
    }

    /// Announces that changes are about to be recorded. From then on senders attach the whole command to its parts, and
    /// everything sent before has its place in the order of all commands when this returns. A server whose role has
    /// changed announces that, too.
    pub async fn announce_recording(&self) -> Announced<'_> {
        self.shared.announcements.announce().await
    }

    /// Whether changes are about to be recorded. Asked after [`begin_sending`](Self::begin_sending).
    pub fn is_recording_announced(&self) -> bool {
        self.shared.announcements.is_announced()
    }

    /// Parts of a command are sent, without the whole command or as a master's, until the returned guard is dropped.
    pub fn begin_sending(&self) -> Sending<'_> {
        self.shared.announcements.begin_sending()
    }

    /// Why writes are refused, while they are.
    pub fn failure(&self) -> Option<String> {
        self.is_failing().then(|| self.shared.reason.lock().clone())
    }

    /// Whether a request may have to be refused: the only check made for each request.
    #[inline]
    pub fn may_refuse(&self) -> bool {
        self.shared.refusals.load(Ordering::Relaxed) > 0
    }

    /// From now on each request is checked, whatever happens to the log.
    pub fn look_at_all(&self) {
        self.shared.refusals.fetch_add(1, Ordering::Relaxed);
    }

    /// Starts or ends a time in which each request is checked.
    pub fn look_at_all_while(&self, is_so: bool) {
        match is_so {
            true => _ = self.shared.refusals.fetch_add(1, Ordering::Relaxed),
            false => _ = self.shared.refusals.fetch_sub(1, Ordering::Relaxed),
        }
    }

    /// Whether writes are refused because a snapshot could not be written.
    pub fn has_failed_snapshot(&self) -> bool {
        self.shared.has_failed_snapshot.load(Ordering::Relaxed)
    }

    /// Sets whether writes are refused because a snapshot could not be written.
    pub fn set_failed_snapshot(&self, has_failed: bool) {
        match (self.shared.has_failed_snapshot.swap(has_failed, Ordering::Relaxed), has_failed) {
            (false, true) => _ = self.shared.refusals.fetch_add(1, Ordering::Relaxed),
            (true, false) => _ = self.shared.refusals.fetch_sub(1, Ordering::Relaxed),
            _ => {}
        }
    }

    /// Whether the log cannot be written.
    #[inline]
    pub fn is_failing(&self) -> bool {
        self.shared.failing.load(Ordering::Relaxed) > 0
    }

    /// A segment cannot be written any more.
    pub fn note_failure(&self, reason: &std::io::Error) {
        *self.shared.reason.lock() = describe(reason);
        self.shared.failures.fetch_add(1, Ordering::Relaxed);
        self.shared.failing.fetch_add(1, Ordering::Relaxed);
        self.shared.refusals.fetch_add(1, Ordering::Relaxed);
    }

    /// How often a segment became unwritable.
    pub fn failures(&self) -> u64 {
        self.shared.failures.load(Ordering::Relaxed)
    }

    /// The server stops and has closed all connections: replies no longer wait for the log.
    pub fn give_up(&self) {
        self.shared.is_given_up.store(true, Ordering::Release);
    }

    /// Whether no reply can be sent any more.
    pub fn is_given_up(&self) -> bool {
        self.shared.is_given_up.load(Ordering::Acquire)
    }

    /// Adds bytes that must be replayed.
    pub fn note_to_load(&self, bytes: u64) {
        self.shared.loading[0].fetch_add(bytes, Ordering::Relaxed);
    }

    /// Adds bytes that were replayed. Called once for many of them.
    pub fn note_loaded(&self, bytes: u64) {
        self.shared.loading[1].fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes of the log that recovery has found so far, and how many of them are replayed.
    pub fn loading(&self) -> (u64, u64) {
        let [total, loaded] = &self.shared.loading;
        let loaded = loaded.load(Ordering::Relaxed);
        (total.load(Ordering::Relaxed).max(loaded), loaded)
    }

    /// Makes a start that still reads its data fail.
    pub fn give_up_loading(&self) {
        self.shared.is_loading_given_up.store(true, Ordering::Relaxed);
    }

    /// Whether the data is read in vain, because the server was stopped.
    pub fn is_loading_given_up(&self) -> bool {
        self.shared.is_loading_given_up.load(Ordering::Relaxed)
    }

    /// A segment can be written again.
    pub fn note_recovery(&self) {
        self.shared.failing.fetch_sub(1, Ordering::Relaxed);
        self.shared.refusals.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The operating system's message, without the number that Rust adds to it.
fn describe(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}
