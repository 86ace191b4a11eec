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
    asked: Mutex<Option<Asked>>,
    changed: Notify,
}

/// An end that was requested.
#[derive(Debug)]
struct Asked {
    request: StopRequest,
    /// Until when the server waits for its replicas, if it does: uptime in milliseconds.
    waits_until_ms: Option<u64>,
    /// Whether SHUTDOWN ABORT comes too late.
    is_settled: bool,
}

impl Stop {
    /// Requests the end; false if it was requested before. What was requested first counts, but a later one may do
    /// without the snapshot.
    pub fn ask(&self, request: StopRequest) -> bool {
        let mut asked = self.asked.lock();
        let is_first = asked.is_none();
        let counting = asked.get_or_insert(Asked { request, waits_until_ms: None, is_settled: false });
        if request.snapshot == LastSnapshot::Never {
            counting.request.snapshot = LastSnapshot::Never;
        }
        self.changed.notify_waiters();
        is_first
    }

    /// Gives up the requested end: the server continues.
    pub fn give_up(&self) {
        *self.asked.lock() = None;
        self.changed.notify_waiters();
    }

    /// Begins to wait for replicas.
    pub fn begin_wait(&self, until_ms: u64) {
        self.asked.lock().iter_mut().for_each(|asked| asked.waits_until_ms = Some(until_ms));
    }

    /// Settles whether the server ends, after it has waited for its replicas if it had to: not if that was given up.
    pub fn settle(&self) -> bool {
        let mut asked = self.asked.lock();
        asked.iter_mut().for_each(|asked| {
            asked.waits_until_ms = None;
            asked.is_settled = true;
        });
        asked.is_some()
    }

    /// Until when the server waits for its replicas.
    pub fn waits_until_ms(&self) -> Option<u64> {
        self.asked.lock().as_ref()?.waits_until_ms
    }

    /// SHUTDOWN ABORT: gives up an end that is not settled; false if there is none.
    pub fn abort(&self) -> bool {
        let is_aborted = self.asked.lock().take_if(|asked| !asked.is_settled).is_some();
        if is_aborted {
            self.changed.notify_waiters();
        }
        is_aborted
    }

    /// The request, if there is one.
    pub fn request(&self) -> Option<StopRequest> {
        self.asked.lock().as_ref().map(|asked| asked.request)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_aborted_from_its_request_until_it_is_settled() {
        let stop = Stop::default();
        assert!(!stop.abort() && !stop.settle(), "nothing was requested");
        // Before the server has begun to wait for its replicas, too.
        assert!(stop.ask(StopRequest::default()) && stop.abort() && !stop.settle());
        stop.begin_wait(5);
        assert_eq!(stop.waits_until_ms(), None);
        stop.ask(StopRequest::default());
        stop.begin_wait(5);
        assert_eq!(stop.waits_until_ms(), Some(5));
        assert!(stop.abort() && !stop.settle() && stop.request().is_none());
        stop.ask(StopRequest::default());
        stop.begin_wait(5);
        assert!(stop.settle() && !stop.abort() && stop.request().is_some());
        assert_eq!(stop.waits_until_ms(), None);
    }
}
