//! The end of a server: requested by a signal or by SHUTDOWN, and given up if the last snapshot cannot be written.

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Whether a server that ends makes a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LastSnapshot {
    /// If snapshots are also made automatically: see `save`.
    #[default]
    AsConfigured,
    /// In any case.
    Always,
    /// In no case.
    Never,
}

/// How a server must end.
#[derive(Debug, Clone, Copy, Default)]
pub struct StopRequest {
    /// Whether it makes a snapshot.
    pub snapshot: LastSnapshot,
    /// Whether it ends even if that cannot be written.
    pub is_forced: bool,
    /// Whether it ends without waiting for replicas.
    pub is_now: bool,
}

/// Whether a server must end.
#[derive(Debug, Default)]
pub struct Stop {
    asked: Mutex<Option<StopRequest>>,
    /// Until when the server waits for its replicas (uptime in milliseconds): SHUTDOWN ABORT can end that wait.
    waits_until_ms: Mutex<Option<u64>>,
    changed: Notify,
}

impl Stop {
    /// Requests the end; false if it was requested before. What was requested first counts, but a later one may do
    /// without the snapshot.
    pub fn ask(&self, request: StopRequest) -> bool {
        let mut asked = self.asked.lock();
        let is_first = asked.is_none();
        let counting = asked.get_or_insert(request);
        if request.snapshot == LastSnapshot::Never {
            counting.snapshot = LastSnapshot::Never;
        }
        self.changed.notify_waiters();
        is_first
    }

    /// Gives up the requested end: the server continues.
    pub fn give_up(&self) {
        *self.asked.lock() = None;
        self.changed.notify_waiters();
    }

    /// Begins to wait for replicas; the end can be given up meanwhile.
    pub fn begin_wait(&self, until_ms: u64) {
        *self.waits_until_ms.lock() = Some(until_ms);
    }

    /// Ends that wait, and returns whether the server must end: not if that was given up.
    pub fn end_wait(&self) -> bool {
        self.waits_until_ms.lock().take().is_some()
    }

    /// Until when the server waits for its replicas.
    pub fn waits_until_ms(&self) -> Option<u64> {
        *self.waits_until_ms.lock()
    }

    /// SHUTDOWN ABORT: gives up the end of a server that waits for its replicas; false if it does not wait.
    pub fn abort(&self) -> bool {
        let is_aborted = self.end_wait();
        if is_aborted {
            self.give_up();
        }
        is_aborted
    }

    /// The request, if there is one.
    pub fn request(&self) -> Option<StopRequest> {
        *self.asked.lock()
    }

    /// Whether the last request says that no snapshot is made.
    pub fn is_without_snapshot(&self) -> bool {
        self.request().is_some_and(|request| request.snapshot == LastSnapshot::Never)
    }

    /// Waits until the end is requested.
    pub async fn asked(&self) -> StopRequest {
        loop {
            let changed = self.changed.notified();
            if let Some(request) = self.request() {
                return request;
            }
            changed.await;
        }
    }

    /// Waits until the end is given up: for ever, if it comes.
    pub async fn given_up(&self) {
        loop {
            let changed = self.changed.notified();
            if self.request().is_none() {
                return;
            }
            changed.await;
        }
    }
}
