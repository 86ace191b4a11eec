//! A connection that waits for something to take: BLPOP and the like.
//!
//! It is in the queue of each of its keys, on all their shards. It must be claimed before it is served, so that it is
//! served exactly once, and it gives up only if it has not been claimed.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// A position in a segment of the log that a reply must wait for: the segment's index, and the position.
pub type LogPosition = (usize, u64);

/// What a waiter received.
#[derive(Debug)]
pub struct Served {
    /// The encoded reply.
    pub reply: Vec<u8>,
    /// The log positions that must be reached before the reply leaves.
    pub log_positions: Vec<LogPosition>,
    /// The transaction that served it, if its own connection has a part in that: it leaves when that has ended.
    pub after: Option<CancellationToken>,
}

impl Served {
    /// Whether what it comes after has ended.
    pub fn may_leave(&self) -> bool {
        self.after.as_ref().is_none_or(CancellationToken::is_cancelled)
    }

    /// Waits for that end. Dropping the future loses nothing.
    pub async fn until_it_may_leave(&self) {
        if let Some(end) = &self.after {
            end.cancelled().await;
        }
    }
}

/// The queues of waiters that a waiter is in.
#[derive(Debug)]
pub struct WaitQueues {
    /// The database of its keys.
    pub database: usize,
    /// The keys.
    pub keys: Vec<Box<[u8]>>,
    /// Whether the wait ends when a key is removed: that of a reader for a group.
    pub ends_without_key: bool,
}

/// The error for connections that wait for something to take when the server becomes a replica.
pub const BECAME_REPLICA: &str =
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)";

/// The state of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Wait {
    /// Nothing has come.
    Waiting,
    /// Something came that only the waiter's own command can take: it must run again. The waiter keeps its place.
    Called,
    /// It is about to be served.
    Claimed,
    /// It has its reply.
    Served,
    /// CLIENT UNBLOCK: as if its timeout had passed.
    Unblocked,
    /// CLIENT UNBLOCK ERROR.
    Failed,
    /// It has stopped waiting.
    Gone,
}

impl Wait {
    const ALL: [Self; 7] =
        [Self::Waiting, Self::Called, Self::Claimed, Self::Served, Self::Unblocked, Self::Failed, Self::Gone];
}

/// One wait of one connection.
///
/// Invariants: the state leaves `Waiting` and `Called` once, for one of the others. A waiter that was called runs its
/// command again whatever the state is then: what it was called for belongs to it, or to the next one in the queue.
#[derive(Debug)]
pub struct Waiter {
    state: AtomicU8,
    is_called: AtomicBool,
    queues: OnceLock<WaitQueues>,
    served: OnceLock<Served>,
    changed: Notify,
    resp3: bool,
}

impl Waiter {
    /// A waiter whose reply is in RESP3 or not.
    pub fn new(resp3: bool) -> Self {
        Self {
            state: AtomicU8::new(Wait::Waiting as u8),
            is_called: AtomicBool::new(false),
            queues: OnceLock::new(),
            served: OnceLock::new(),
            changed: Notify::new(),
            resp3,
        }
    }

    /// Whether its reply is in RESP3.
    pub fn resp3(&self) -> bool {
        self.resp3
    }

    /// The state of the wait.
    pub fn state(&self) -> Wait {
        Wait::ALL[usize::from(self.state.load(Ordering::Acquire))]
    }

    /// Whether it can still be served.
    pub fn is_waiting(&self) -> bool {
        matches!(self.state(), Wait::Waiting | Wait::Called)
    }

    /// Claims it; false if it is claimed already or has gone.
    #[must_use]
    pub fn claim(&self) -> bool {
        self.end_wait(Wait::Claimed)
    }

    /// Hands the reply to a claimed waiter.
    pub fn serve(&self, served: Served) {
        assert!(self.served.set(served).is_ok(), "a waiter is claimed before it is served, and once");
        self.state.store(Wait::Served as u8, Ordering::Release);
        self.changed.notify_one();
    }

    /// Ends the wait with an error; false if it is over already.
    pub fn refuse(&self, error: &str) -> bool {
        let is_claimed = self.claim();
        if is_claimed {
            self.serve(Served { reply: format!("-{error}\r\n").into_bytes(), log_positions: Vec::new(), after: None });
        }
        is_claimed
    }

    /// Asks the waiter to run its command again; false if it waits no more. Asking twice is the same as once.
    #[must_use]
    pub fn call(&self) -> bool {
        // Before the state: the code that ends the wait afterwards finds it.
        self.is_called.store(true, Ordering::Release);
        if self.change(Wait::Waiting, Wait::Called) {
            self.changed.notify_one();
            return true;
        }
        self.state() == Wait::Called
    }

    /// Records that it is in the queues of its keys. They are the same each time that its command runs.
    pub fn note_queues(&self, queues: impl FnOnce() -> WaitQueues) {
        self.queues.get_or_init(queues);
    }

    /// Whether it is, or was, in the queues of its keys.
    pub fn is_queued(&self) -> bool {
        self.queues.get().is_some()
    }

    /// The queues that it is in while it waits.
    pub fn queues(&self) -> Option<&WaitQueues> {
        self.queues.get().filter(|_| self.is_waiting())
    }

    /// Whether it was called, and its command has not begun to run again.
    pub fn is_called(&self) -> bool {
        self.is_called.load(Ordering::Acquire)
    }

    /// Whether it was called since this was last read: then the command must run again, and another call counts as new.
    pub fn take_call(&self) -> bool {
        self.change(Wait::Called, Wait::Waiting);
        self.is_called.swap(false, Ordering::AcqRel)
    }

    /// CLIENT UNBLOCK; false if it does not wait any more.
    pub fn unblock(&self, with_error: bool) -> bool {
        let unblocked = self.end_wait(if with_error { Wait::Failed } else { Wait::Unblocked });
        if unblocked {
            self.changed.notify_one();
        }
        unblocked
    }

    /// Gives the wait up; false if it has been claimed meanwhile.
    pub fn give_up(&self) -> bool {
        self.end_wait(Wait::Gone)
    }

    /// What it received.
    pub fn served(&self) -> Option<&Served> {
        self.served.get()
    }

    /// Waits until the state changes. Dropping the future loses nothing.
    pub fn changed(&self) -> impl Future<Output = ()> + Send {
        self.changed.notified()
    }

    fn end_wait(&self, to: Wait) -> bool {
        self.change(Wait::Waiting, to) || self.change(Wait::Called, to)
    }

    fn change(&self, from: Wait, to: Wait) -> bool {
        self.state.compare_exchange(from as u8, to as u8, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiter_is_claimed_once_and_not_after_it_went_away() {
        let waiter = Waiter::new(false);
        assert!(waiter.call());
        assert!(waiter.claim());
        assert!(!waiter.claim() && !waiter.give_up() && !waiter.unblock(true));
        let gone = Waiter::new(false);
        assert!(gone.give_up());
        assert!(!gone.claim());
    }

    #[test]
    fn a_call_is_not_forgotten_when_the_wait_ends() {
        let waiter = Waiter::new(false);
        assert!(waiter.call() && waiter.call());
        assert!(waiter.unblock(false));
        assert!(!waiter.call());
        assert!(waiter.take_call() && !waiter.take_call());
        assert_eq!(waiter.state(), Wait::Unblocked);
    }
}
