//! CLIENT PAUSE: connections take on no requests for a time. What they have taken on goes on. Keys whose time comes are
//! not seen, as ever, but removed when the pause is over: nothing changes meanwhile.
//!
//! What may change something also waits while too much of a snapshot waits to be written ([`Backlog`]).

use crate::base::clock::uptime_ms;
use crate::keyspace::Instance;
use crate::snapshot::Backlog;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// Which requests wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Paused {
    /// Those that may change something.
    Writes,
    /// All.
    All,
}

/// Whether connections are paused; times are those of [`uptime_ms`].
#[derive(Debug)]
pub struct Pause {
    instance: Arc<Instance>,
    backlog: Arc<Backlog>,
    /// Whether they may be: all that is looked at for each request.
    is_on: AtomicBool,
    /// Whether what waits is never to run: the server ends, and has made its last snapshot.
    is_final: AtomicBool,
    /// Whether the role of the server changes: what may write waits for what the last master has sent.
    is_switching: AtomicBool,
    /// Whether a replica is to take over: what may write waits for that.
    is_failing_over: AtomicBool,
    state: Mutex<Option<(Paused, u64)>>,
    ended: Notify,
}

impl Pause {
    /// None, of a server with this instance; what may change something waits where its backlog is full.
    pub fn new(instance: Arc<Instance>, backlog: Arc<Backlog>) -> Self {
        Self {
            instance,
            backlog,
            is_on: AtomicBool::new(false),
            is_final: AtomicBool::new(false),
            is_switching: AtomicBool::new(false),
            is_failing_over: AtomicBool::new(false),
            state: Mutex::default(),
            ended: Notify::new(),
        }
    }

    /// Lets requests wait for so long. Of two pauses the wider counts, for as long as the longer.
    pub fn begin(&self, paused: Paused, time_ms: u64) {
        let mut state = self.state.lock();
        let now_ms = uptime_ms();
        let until_ms = now_ms.saturating_add(time_ms);
        let before = state.filter(|&(_, until)| until > now_ms);
        let (paused, until_ms) =
            before.map_or((paused, until_ms), |(before, until)| (paused.max(before), until_ms.max(until)));
        *state = Some((paused, until_ms));
        self.instance.settings.frozen_until_ms.store(until_ms, Ordering::Relaxed);
        self.is_on.store(true, Ordering::Release);
    }

    /// Lets them go on.
    pub fn end(&self) {
        *self.state.lock() = None;
        self.instance.settings.frozen_until_ms.store(0, Ordering::Relaxed);
        self.is_on.store(self.waits_for_role(), Ordering::Release);
        self.ended.notify_waiters();
    }

    /// Lets what may write wait until [`end_switch`](Self::end_switch).
    pub fn begin_switch(&self) {
        let _state = self.state.lock();
        self.is_switching.store(true, Ordering::Release);
        self.is_on.store(true, Ordering::Release);
    }

    /// Lets it go on.
    pub fn end_switch(&self) {
        self.is_switching.store(false, Ordering::Release);
        self.ended.notify_waiters();
    }

    /// Lets what may write wait until [`end_failover`](Self::end_failover).
    pub fn begin_failover(&self) {
        let _state = self.state.lock();
        self.is_failing_over.store(true, Ordering::Release);
        self.is_on.store(true, Ordering::Release);
    }

    /// Lets it go on.
    pub fn end_failover(&self) {
        self.is_failing_over.store(false, Ordering::Release);
        self.ended.notify_waiters();
    }

    fn waits_for_role(&self) -> bool {
        self.is_switching.load(Ordering::Acquire) || self.is_failing_over.load(Ordering::Acquire)
    }

    /// What waits is never run; connections that have such requests end.
    pub fn end_for_good(&self) {
        self.is_final.store(true, Ordering::Release);
        self.ended.notify_waiters();
    }

    /// Whether it is so.
    pub fn has_ended_for_good(&self) -> bool {
        self.is_final.load(Ordering::Acquire)
    }

    /// Whether a request waits that may change something, or not.
    #[inline]
    pub fn holds(&self, may_write: impl FnOnce() -> bool) -> bool {
        (self.is_on.load(Ordering::Acquire) || self.backlog.is_full()) && self.holds_now(may_write)
    }

    #[cold]
    fn holds_now(&self, may_write: impl FnOnce() -> bool) -> bool {
        let is_switching = self.waits_for_role();
        match self.now() {
            Some((Paused::All, _)) => true,
            Some((Paused::Writes, _)) => may_write(),
            None => (is_switching || self.backlog.is_full()) && may_write(),
        }
    }

    /// What is paused, and until when.
    fn now(&self) -> Option<(Paused, u64)> {
        let now_ms = uptime_ms();
        let state = self.state.lock();
        let now = state.filter(|&(_, until)| until > now_ms);
        if now.is_none() && !self.waits_for_role() {
            self.is_on.store(false, Ordering::Release);
        }
        now
    }

    /// Waits until requests may go on.
    pub async fn ended(&self) {
        loop {
            let ended = self.ended.notified();
            if self.has_ended_for_good() {
                return;
            }
            let Some((_, until_ms)) = self.now() else {
                if !self.waits_for_role() {
                    break;
                }
                ended.await;
                continue;
            };
            let left = until_ms.saturating_sub(uptime_ms()).max(1);
            // However it ends: it is looked at again.
            let _ = tokio::time::timeout(Duration::from_millis(left), ended).await;
        }
        self.backlog.ended().await;
    }
}
