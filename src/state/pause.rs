//! CLIENT PAUSE: connections accept no requests for a time. Requests accepted before continue. Keys whose time comes
//! are hidden, as always, but removed only after the pause: nothing changes meanwhile.
//!
//! Commands that may change data also wait while too much of a snapshot is unwritten ([`Backlog`]), and those that may
//! change certain keys while MIGRATE sends them.

use crate::base::clock::uptime_ms;
use crate::keyspace::Instance;
use crate::snapshot::Backlog;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// Which requests wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Paused {
    /// Those that may change data.
    Writes,
    /// All.
    All,
}

/// How long the pause of a server that stops lasts.
const FOR_EVER_MS: u64 = u64::MAX >> 1;

/// Whether connections are paused; times are those of [`uptime_ms`].
#[derive(Debug)]
pub struct Pause {
    instance: Arc<Instance>,
    backlog: Arc<Backlog>,
    /// Whether they may be: the only check made for each request.
    is_on: AtomicBool,
    /// Whether waiting requests will never run: the server ends, and has made its last snapshot.
    is_final: AtomicBool,
    /// Whether the server ends when its replicas have caught up: commands that may write wait for that.
    is_ending: AtomicBool,
    state: Mutex<State>,
    ended: Notify,
    held: Arc<HeldKeys>,
}

/// Keys with their databases.
pub type KeysOfDatabases = HashMap<Box<[u8]>, u16>;

/// Keys that do not change: commands that would change one wait.
#[derive(Debug, Default)]
struct HeldKeys {
    /// A key is held in one database at a time.
    keys: Mutex<KeysOfDatabases>,
    /// How many times some were released.
    releases: AtomicU64,
    released: Notify,
}

/// Holds some keys until it is dropped.
#[derive(Debug)]
pub struct Hold {
    held: Arc<HeldKeys>,
    keys: Vec<Box<[u8]>>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        {
            let mut held = self.held.keys.lock();
            self.keys.iter().for_each(|key| _ = held.remove(key));
            self.held.releases.fetch_add(1, Ordering::Release);
        }
        self.held.released.notify_waiters();
    }
}

/// How many times keys had been released when one was found held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldSince(u64);

/// Which requests wait, and until when.
type Until = (Paused, u64);

/// Who has paused clients.
#[derive(Debug, Default)]
struct State {
    /// The pause of CLIENT PAUSE.
    asked: Option<Until>,
    /// Whether the server makes its last snapshot, or sends its replicas the last of its stream.
    is_stopping: bool,
}

impl State {
    /// Which requests wait now, and until when.
    fn now(&self, now_ms: u64) -> Option<Until> {
        let asked = self.asked.filter(|&(_, until_ms)| until_ms > now_ms);
        match self.is_stopping {
            true => Some(widest(asked, (Paused::Writes, FOR_EVER_MS))),
            false => asked,
        }
    }
}

/// Of two pauses the wider, for the longer time.
fn widest(one: Option<Until>, (paused, until_ms): Until) -> Until {
    one.map_or((paused, until_ms), |(before, until)| (paused.max(before), until_ms.max(until)))
}

impl Pause {
    /// No pause, for a server with this instance; commands that may change data wait while its backlog is full.
    pub fn new(instance: Arc<Instance>, backlog: Arc<Backlog>) -> Self {
        Self {
            instance,
            backlog,
            is_on: AtomicBool::new(false),
            is_final: AtomicBool::new(false),
            is_ending: AtomicBool::new(false),
            state: Mutex::default(),
            ended: Notify::new(),
            held: Arc::default(),
        }
    }

    /// Holds keys, unless one of them is held: commands accepted from now on that may change one wait. O(N), N = keys
    pub fn hold(&self, database: u16, keys: Vec<Box<[u8]>>) -> Result<Hold, HeldSince> {
        // So that nobody finds that nothing is held, and turns the check off.
        let _state = self.state.lock();
        let mut held = self.held.keys.lock();
        if keys.iter().any(|key| held.contains_key(key)) {
            return Err(self.held_since());
        }
        held.extend(keys.iter().map(|key| (key.clone(), database)));
        self.is_on.store(true, Ordering::Release);
        Ok(Hold { held: Arc::clone(&self.held), keys })
    }

    fn held_since(&self) -> HeldSince {
        HeldSince(self.held.releases.load(Ordering::Acquire))
    }

    /// Whether a request must wait for keys, given whether it may change one of the held ones.
    pub fn holds_keys(&self, changes_one: impl FnOnce(&KeysOfDatabases) -> bool) -> Option<HeldSince> {
        if !self.is_on.load(Ordering::Acquire) {
            return None;
        }
        let held = self.held.keys.lock();
        (!held.is_empty() && changes_one(&held)).then(|| self.held_since())
    }

    /// Waits until keys were released, or waiting requests will never run.
    pub async fn released(&self, since: HeldSince) {
        loop {
            let released = self.held.released.notified();
            if self.held_since() != since || self.has_ended_for_good() {
                return;
            }
            released.await;
        }
    }

    /// Pauses requests for a time: CLIENT PAUSE. Of two pauses the wider counts, for the longer time.
    pub fn begin(&self, paused: Paused, time_ms: u64) {
        self.change(|state, now_ms| {
            let before = state.asked.filter(|&(_, until_ms)| until_ms > now_ms);
            state.asked = Some(widest(before, (paused, now_ms.saturating_add(time_ms))));
        });
    }

    /// Ends that pause: CLIENT UNPAUSE.
    pub fn end(&self) {
        self.change(|state, _| state.asked = None);
        self.ended.notify_waiters();
    }

    /// Makes commands that may write wait until [`end_stop`](Self::end_stop), and keys stay: the server makes its last
    /// snapshot, or sends its replicas the last of its stream. No client ends that.
    pub fn begin_stop(&self) {
        self.change(|state, _| state.is_stopping = true);
    }

    /// Ends that wait: the server continues. A pause that a client has asked for goes on.
    pub fn end_stop(&self) {
        self.change(|state, _| state.is_stopping = false);
        self.ended.notify_waiters();
    }

    /// Changes the pauses. The lock is held until all fields are set, so that a new pause is not ended by mistake.
    fn change(&self, change: impl FnOnce(&mut State, u64)) {
        let mut state = self.state.lock();
        let now_ms = uptime_ms();
        change(&mut state, now_ms);
        let now = state.now(now_ms);
        self.instance.settings.frozen_until_ms.store(now.map_or(0, |(_, until_ms)| until_ms), Ordering::Relaxed);
        self.is_on.store(now.is_some() || self.waits_for_server() || self.holds_some(), Ordering::Release);
    }

    /// Makes commands that may write wait until [`end_switch`](Self::end_switch): the role of the server changes, and
    /// the last group of the old master comes first.
    pub fn begin_switch(&self) {
        let _state = self.state.lock();
        self.instance.settings.is_switching.store(true, Ordering::Release);
        self.is_on.store(true, Ordering::Release);
    }

    /// Ends that wait.
    pub fn end_switch(&self) {
        self.instance.settings.is_switching.store(false, Ordering::Release);
        self.ended.notify_waiters();
    }

    /// Makes commands that may write wait until [`end_failover`](Self::end_failover), and keys stay.
    pub fn begin_failover(&self) {
        let _state = self.state.lock();
        self.instance.settings.is_failing_over.store(true, Ordering::Release);
        self.is_on.store(true, Ordering::Release);
    }

    /// Ends that wait.
    pub fn end_failover(&self) {
        self.instance.settings.is_failing_over.store(false, Ordering::Release);
        self.ended.notify_waiters();
    }

    /// Makes commands that may write wait: the server ends when its replicas have caught up.
    pub fn begin_ending(&self) {
        let _state = self.state.lock();
        self.is_ending.store(true, Ordering::Release);
        self.is_on.store(true, Ordering::Release);
    }

    /// Ends that wait: the server continues.
    pub fn end_ending(&self) {
        self.is_ending.store(false, Ordering::Release);
        self.ended.notify_waiters();
    }

    /// Whether commands that may write wait for the end of the server.
    pub fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Acquire)
    }

    fn holds_some(&self) -> bool {
        !self.held.keys.lock().is_empty()
    }

    fn waits_for_server(&self) -> bool {
        self.instance.settings.is_changing_role() || self.is_ending()
    }

    /// Waiting requests will never run; connections that have such requests end.
    pub fn end_for_good(&self) {
        self.is_final.store(true, Ordering::Release);
        self.ended.notify_waiters();
        self.held.released.notify_waiters();
    }

    /// Whether waiting requests will never run.
    pub fn has_ended_for_good(&self) -> bool {
        self.is_final.load(Ordering::Acquire)
    }

    /// Whether some requests may have to wait.
    #[inline]
    pub fn may_hold(&self) -> bool {
        self.is_on.load(Ordering::Acquire) || self.backlog.is_full()
    }

    /// Whether a request must wait, given whether it may change data.
    #[inline]
    pub fn holds(&self, may_write: impl FnOnce() -> bool) -> bool {
        self.may_hold() && self.holds_now(may_write)
    }

    #[cold]
    fn holds_now(&self, may_write: impl FnOnce() -> bool) -> bool {
        let waits = self.waits_for_server();
        match self.now() {
            Some((Paused::All, _)) => true,
            Some((Paused::Writes, _)) => may_write(),
            None => (waits || self.backlog.is_full()) && may_write(),
        }
    }

    /// Which requests wait, and until when.
    fn now(&self) -> Option<Until> {
        let state = self.state.lock();
        let now = state.now(uptime_ms());
        if now.is_none() && !self.waits_for_server() && !self.holds_some() {
            self.is_on.store(false, Ordering::Release);
        }
        now
    }

    /// Whether clients are paused, by CLIENT PAUSE or by a server that stops: a replica then applies nothing of its
    /// master's stream.
    pub fn is_asked_for(&self) -> bool {
        self.is_on.load(Ordering::Acquire) && self.now().is_some()
    }

    /// Waits until it has not.
    pub async fn asked_ended(&self) {
        loop {
            let ended = self.ended.notified();
            let Some((_, until_ms)) = self.now() else { return };
            let left = until_ms.saturating_sub(uptime_ms()).max(1);
            // However it ends, the state is checked again.
            let _ = tokio::time::timeout(Duration::from_millis(left), ended).await;
        }
    }

    /// Waits until requests may continue.
    pub async fn ended(&self) {
        loop {
            let ended = self.ended.notified();
            if self.has_ended_for_good() {
                return;
            }
            let Some((_, until_ms)) = self.now() else {
                if !self.waits_for_server() {
                    break;
                }
                ended.await;
                continue;
            };
            let left = until_ms.saturating_sub(uptime_ms()).max(1);
            // However it ends, the state is checked again.
            let _ = tokio::time::timeout(Duration::from_millis(left), ended).await;
        }
        self.backlog.ended().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_client_ends_the_pause_of_a_server_that_stops_nor_the_server_that_of_a_client() {
        let instance = Arc::<Instance>::default();
        let pause = Pause::new(Arc::clone(&instance), Arc::default());
        let frozen_until_ms = || instance.settings.frozen_until_ms.load(Ordering::Relaxed);
        pause.begin_stop();
        pause.end();
        assert!(pause.holds(|| true) && !pause.holds(|| false));
        assert_eq!(frozen_until_ms(), FOR_EVER_MS);
        pause.begin(Paused::All, 60_000);
        pause.end_stop();
        assert!(pause.holds(|| false));
        assert!((1..FOR_EVER_MS).contains(&frozen_until_ms()));
        pause.end();
        assert!(!pause.holds(|| true));
        assert_eq!(frozen_until_ms(), 0);
    }

    #[test]
    fn keys_stay_while_the_role_changes_or_is_handed_over() {
        let instance = Arc::<Instance>::default();
        let pause = Pause::new(Arc::clone(&instance), Arc::default());
        let is_frozen = || instance.settings.is_frozen();
        assert!(!is_frozen());
        pause.begin_failover();
        assert!(is_frozen() && pause.holds(|| true));
        pause.begin_switch();
        pause.end_switch();
        assert!(is_frozen(), "the switch is a part of the failover");
        pause.end_failover();
        assert!(!is_frozen() && !pause.holds(|| true));
    }

    #[test]
    fn what_begins_while_a_pause_ends_is_not_ended_with_it() {
        let pause = Pause::new(Arc::default(), Arc::default());
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    pause.end();
                }
            });
            let failed = (0..200_000).find(|_| {
                pause.begin_ending();
                let holds = pause.holds(|| true);
                pause.end_ending();
                !holds
            });
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(failed, None);
        });
    }
}
