//! A turn: what holds for the commands that run together, their time and their caller, and what that means for keys
//! whose time has come and for the uses of keys.

use super::due_keys::DueKeys;
use super::key_waiters::Watch;
use super::permissions::Permissions;
use super::tracking::Tracking;
use super::usage::Usage;
use super::waiter::Waiter;
use crate::keyspace::raw::node::Node;
use std::sync::Arc;

/// What a connection passes to commands that need more than their arguments.
#[derive(Debug, Default, Clone)]
pub struct Caller {
    /// The watch that breaks when a watched key changes.
    pub watch: Option<Arc<Watch>>,
    /// Waits if a command finds nothing to take; without it, commands do not wait.
    pub waiter: Option<Arc<Waiter>>,
    /// Whether its commands are those of EXEC.
    pub is_in_exec: bool,
    /// Whether its commands are called by a script.
    pub is_in_script: bool,
    /// Whether its command has access to all keys, and must save what it leaves of them: FLUSHALL.
    pub saves: bool,
    /// What its user may do, unless that is everything.
    pub permissions: Option<Arc<dyn Permissions>>,
    /// Whether it is the master, whose commands have run there: for them keys whose time has come are like others, and
    /// the limits of clients do not apply.
    pub is_master: bool,
    /// The connection with CLIENT TRACKING that it is.
    pub tracking: Tracking,
}

impl Caller {
    /// Claims the caller, if it may wait; false if its wait is over.
    pub fn claim(&self) -> bool {
        self.waiter.as_ref().is_none_or(|waiter| waiter.claim())
    }

    /// Whether it has found nothing to take, and its command is run again.
    pub fn is_in_line(&self) -> bool {
        self.waiter.as_ref().is_some_and(|waiter| waiter.is_queued())
    }
}

/// What holds for the commands of a turn.
///
/// Invariant: time stands still between calls of [`Keyspace::set_now`](super::Keyspace::set_now).
#[derive(Debug)]
pub struct Turn {
    /// The caller whose commands run.
    pub caller: Caller,
    /// What happens to keys whose time has come.
    pub due_keys: DueKeys,
    /// Whether commands count as uses of their keys. Those of a connection with CLIENT NO-TOUCH do not.
    pub notes_uses: bool,
    is_replaying: bool,
    now_ms: u64,
    /// Keys with deadlines up to then are due.
    due_ms: u64,
    /// The second of `now_ms`.
    second: u64,
    /// How uses of keys are recorded at that time.
    usage: Usage,
}

impl Turn {
    pub(super) fn new(now_ms: u64, usage: Usage, is_replaying: bool) -> Self {
        Self {
            caller: Caller::default(),
            due_keys: DueKeys::default(),
            notes_uses: true,
            is_replaying,
            now_ms,
            due_ms: now_ms,
            second: now_ms / 1000,
            usage,
        }
    }

    #[inline]
    pub(super) fn set_now(&mut self, now_ms: u64, usage: Usage) {
        self.now_ms = now_ms;
        self.due_ms = now_ms;
        self.second = now_ms / 1000;
        self.usage = usage;
    }

    /// Unix time in milliseconds.
    #[inline]
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// The second of that time.
    pub fn second(&self) -> u64 {
        self.second
    }

    /// The time by which keys are due.
    pub fn due_ms(&self) -> u64 {
        self.due_ms
    }

    /// Sets the time by which keys are due. It is earlier than now where a command over several shards has waited for
    /// one of them. New deadlines and displayed times count from now.
    #[inline]
    pub fn set_due(&mut self, due_ms: u64) {
        self.due_ms = due_ms;
    }

    /// Whether the effects of a log are replayed.
    pub fn is_replaying(&self) -> bool {
        self.is_replaying
    }

    /// Whether commands have been accepted before, by a master or before a replay: limits of clients do not apply to
    /// them, nor what this version checks and the master's does not.
    pub fn was_accepted_before(&self) -> bool {
        self.is_replaying || self.caller.is_master
    }

    /// Whether a key with this deadline is removed instead of getting it. A command of the master has set it before the
    /// time had come, and what the master did next may depend on the key, however late it is applied here.
    pub fn is_over(&self, deadline: u64) -> bool {
        deadline <= if self.was_accepted_before() { 0 } else { self.now_ms }
    }

    /// Whether a node is hidden because its time has come.
    #[inline]
    pub fn hides(&self, node: &Node) -> bool {
        node.expire_at().is_some_and(|at| at <= self.due_ms) && !self.caller.is_master
    }

    /// How uses of keys are recorded.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Records a use of a node, if commands count as such.
    #[inline]
    pub fn note_use(&self, node: &Node, random: &mut fastrand::Rng) {
        if self.notes_uses {
            node.touch(self.usage, self.second, random);
        }
    }

    /// Records the first use of a node, as of a new key.
    #[inline]
    pub fn begin_use(&self, node: &Node) {
        node.begin_use(self.usage, self.second);
    }
}
