//! The end of a server: requested by a signal or by SHUTDOWN, and given up if the last snapshot cannot be written.

use crate::config::OnSignal;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
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
    /// Whether a client asked. It gets an error if the server cannot stop now.
    pub is_of_client: bool,
}

impl StopRequest {
    /// That of a signal.
    pub fn on_signal(how: OnSignal) -> Self {
        let snapshot = match how.saves {
            None => LastSnapshot::AsConfigured,
            Some(true) => LastSnapshot::Always,
            Some(false) => LastSnapshot::Never,
        };
        Self { snapshot, is_forced: how.is_forced, is_now: how.is_now, is_of_client: false }
    }
}

/// Whether a server must end.
#[derive(Debug, Default)]
pub struct Stop {
    asked: Mutex<Option<Asked>>,
    /// Whether the embedding program asked. That request cannot be withdrawn.
    is_of_owner: AtomicBool,
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
    /// Whether somebody said NOSAVE, then or later.
    may_lose_data: bool,
}

impl Asked {
    fn of_owner() -> Self {
        let request = StopRequest { is_forced: true, ..StopRequest::default() };
        Self { request, waits_until_ms: None, is_settled: false, may_lose_data: false }
    }
}

impl Stop {
    /// Requests the end; false if it was requested before. What was requested first counts, but for
    /// [`may_lose_data`](Self::may_lose_data).
    pub fn ask(&self, request: StopRequest) -> bool {
        let mut asked = self.asked.lock();
        let is_first = asked.is_none();
        let first = Asked { request, waits_until_ms: None, is_settled: false, may_lose_data: false };
        asked.get_or_insert(first).may_lose_data |= request.snapshot == LastSnapshot::Never;
        self.changed.notify_waiters();
        is_first
    }

    /// Requests the end for the program that the server is embedded in, whatever a client has requested before.
    pub fn ask_for_owner(&self) {
        let mut asked = self.asked.lock();
        self.is_of_owner.store(true, Ordering::Relaxed);
        match &mut *asked {
            Some(asked) => asked.request = StopRequest { is_forced: true, is_of_client: false, ..asked.request },
            None => *asked = Some(Asked::of_owner()),
        }
        self.changed.notify_waiters();
    }

    /// Gives up the requested end: the server continues, unless its owner has requested the end meanwhile.
    pub fn give_up(&self) {
        let mut asked = self.asked.lock();
        *asked = self.is_of_owner.load(Ordering::Relaxed).then(Asked::of_owner);
        self.changed.notify_waiters();
    }

    /// Begins to wait for replicas.
    pub fn begin_wait(&self, until_ms: u64) {
        self.asked.lock().iter_mut().for_each(|asked| asked.waits_until_ms = Some(until_ms));
    }

    /// Settles whether the server ends, and how, after it has waited for its replicas if it had to: not if that was
    /// given up.
    pub fn settle(&self) -> Option<StopRequest> {
        let mut asked = self.asked.lock();
        let asked = asked.as_mut()?;
        asked.waits_until_ms = None;
        asked.is_settled = true;
        Some(asked.request)
    }

    /// Until when the server waits for its replicas.
    pub fn waits_until_ms(&self) -> Option<u64> {
        self.asked.lock().as_ref()?.waits_until_ms
    }

    /// SHUTDOWN ABORT: gives up an end that is not settled; false if there is none. The line is in the log before any
    /// client is told.
    pub fn abort(&self) -> bool {
        let may_abort = |asked: &mut Asked| !asked.is_settled && !self.is_of_owner.load(Ordering::Relaxed);
        let is_aborted = self.asked.lock().take_if(may_abort).is_some();
        if is_aborted {
            tracing::info!("Shutdown manually aborted.");
            self.changed.notify_waiters();
        }
        is_aborted
    }

    /// The request, if there is one.
    pub fn request(&self) -> Option<StopRequest> {
        self.asked.lock().as_ref().map(|asked| asked.request)
    }

    /// Whether a last snapshot that cannot be made is given up.
    pub fn may_lose_data(&self) -> bool {
        self.asked.lock().as_ref().is_some_and(|asked| asked.may_lose_data)
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
    fn nobody_gives_up_the_end_that_the_owner_has_requested() {
        let stop = Stop::default();
        stop.ask(StopRequest { is_of_client: true, snapshot: LastSnapshot::Always, ..StopRequest::default() });
        stop.ask_for_owner();
        assert!(!stop.abort());
        let request = stop.settle().expect("it was requested");
        assert!(request.is_forced && !request.is_of_client && request.snapshot == LastSnapshot::Always);
        stop.give_up();
        assert!(stop.request().is_some_and(|request| request.is_forced), "the client's snapshot could not be made");
        assert!(!stop.abort());
    }

    #[test]
    fn an_end_is_aborted_from_its_request_until_it_is_settled() {
        let stop = Stop::default();
        assert!(!stop.abort() && stop.settle().is_none(), "nothing was requested");
        // Before the server has begun to wait for its replicas, too.
        assert!(stop.ask(StopRequest::default()) && stop.abort() && stop.settle().is_none());
        stop.begin_wait(5);
        assert_eq!(stop.waits_until_ms(), None);
        stop.ask(StopRequest::default());
        stop.begin_wait(5);
        assert_eq!(stop.waits_until_ms(), Some(5));
        assert!(stop.abort() && stop.settle().is_none() && stop.request().is_none());
        stop.ask(StopRequest::default());
        stop.begin_wait(5);
        assert!(stop.settle().is_some() && !stop.abort() && stop.request().is_some());
        assert_eq!(stop.waits_until_ms(), None);
    }

    #[test]
    fn the_first_request_counts_and_a_later_nosave_only_permits_that_data_is_lost() {
        let stop = Stop::default();
        let with = |snapshot| StopRequest { snapshot, ..StopRequest::default() };
        assert!(stop.ask(with(LastSnapshot::Always)) && !stop.may_lose_data());
        assert!(!stop.ask(with(LastSnapshot::Never)) && stop.may_lose_data());
        assert_eq!(stop.settle().map(|request| request.snapshot), Some(LastSnapshot::Always));
        // An end that was aborted leaves nothing to the next.
        stop.give_up();
        assert!(stop.ask(with(LastSnapshot::AsConfigured)) && !stop.may_lose_data());
        assert_eq!(stop.settle().map(|request| request.snapshot), Some(LastSnapshot::AsConfigured));
    }
}
