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
}

/// Whether a server must end.
#[derive(Debug, Default)]
pub struct Stop {
    asked: Mutex<Option<StopRequest>>,
    changed: Notify,
}

impl Stop {
    /// Requests the end; false if it was requested before.
    pub fn ask(&self, request: StopRequest) -> bool {
        let mut asked = self.asked.lock();
        let is_first = asked.is_none();
        asked.get_or_insert(request);
        self.changed.notify_waiters();
        is_first
    }

    /// Gives up the requested end: the server continues.
    pub fn give_up(&self) {
        *self.asked.lock() = None;
        self.changed.notify_waiters();
    }

    /// The request, if there is one.
    pub fn request(&self) -> Option<StopRequest> {
        *self.asked.lock()
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
