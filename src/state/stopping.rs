//! The end of a server: asked for by a signal or by SHUTDOWN, and given up where the last snapshot cannot be written.

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Whether a server that ends makes a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LastSnapshot {
    /// Where snapshots are made by themselves, too: see `save`.
    #[default]
    AsConfigured,
    /// In any case.
    Always,
    /// In no case.
    Never,
}

/// How a server is to end.
#[derive(Debug, Clone, Copy, Default)]
pub struct StopRequest {
    /// Whether it makes a snapshot.
    pub snapshot: LastSnapshot,
    /// Whether it ends though that cannot be written.
    pub is_forced: bool,
}

/// Whether a server is to end.
#[derive(Debug, Default)]
pub struct Stop {
    asked: Mutex<Option<StopRequest>>,
    changed: Notify,
}

impl Stop {
    /// Asks for the end; false where somebody has asked before.
    pub fn ask(&self, request: StopRequest) -> bool {
        let mut asked = self.asked.lock();
        let is_first = asked.is_none();
        asked.get_or_insert(request);
        self.changed.notify_waiters();
        is_first
    }

    /// The server cannot end as it was asked to, and goes on.
    pub fn give_up(&self) {
        *self.asked.lock() = None;
        self.changed.notify_waiters();
    }

    /// How it is to end, if it is.
    pub fn request(&self) -> Option<StopRequest> {
        *self.asked.lock()
    }

    /// Waits until the end is asked for.
    pub async fn asked(&self) -> StopRequest {
        loop {
            let changed = self.changed.notified();
            if let Some(request) = self.request() {
                return request;
            }
            changed.await;
        }
    }

    /// Waits while the end is asked for: for ever, where it comes.
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
