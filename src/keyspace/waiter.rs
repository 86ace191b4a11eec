//! A connection that waits for something to take: BLPOP and its kin.
//!
//! It stands in the line of each of its keys, on whatever shards they are. Whoever serves it claims it first, so that
//! exactly one does, and it gives up only where nobody has claimed it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};
use tokio::sync::Notify;

/// A position in a segment of the log that a reply must wait for: the segment's index, and the position.
pub type LogMark = (usize, u64);

/// What a waiter was served.
#[derive(Debug)]
pub struct Served {
    /// The encoded reply.
    pub reply: Vec<u8>,
    /// What must be in the log before the reply leaves.
    pub marks: Vec<LogMark>,
}

/// How a wait stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Wait {
    /// Nothing has come.
    Waiting,
    /// Something came that only the waiter's own command can take: it should be run again. It keeps its place.
    Called,
    /// Somebody is about to serve it.
    Claimed,
    /// It has its reply.
    Served,
    /// CLIENT UNBLOCK: as if its time were over.
    Unblocked,
    /// CLIENT UNBLOCK ERROR.
    Failed,
    /// It waits no more.
    Gone,
}

impl Wait {
    const ALL: [Self; 7] =
        [Self::Waiting, Self::Called, Self::Claimed, Self::Served, Self::Unblocked, Self::Failed, Self::Gone];
}

/// One wait of one connection.
///
/// Invariant: the state leaves `Waiting` and `Called` once for each of the others.
#[derive(Debug)]
pub struct Waiter {
    state: AtomicU8,
    served: OnceLock<Served>,
    changed: Notify,
    resp3: bool,
}

impl Waiter {
    /// A waiter whose replies are in RESP3 or not.
    pub fn new(resp3: bool) -> Self {
        Self { state: AtomicU8::new(Wait::Waiting as u8), served: OnceLock::new(), changed: Notify::new(), resp3 }
    }

    /// Whether its reply is in RESP3.
    pub fn resp3(&self) -> bool {
        self.resp3
    }

    /// How the wait stands.
    pub fn state(&self) -> Wait {
        Wait::ALL[usize::from(self.state.load(Ordering::Acquire))]
    }

    /// Whether it can still be served.
    pub fn is_waiting(&self) -> bool {
        matches!(self.state(), Wait::Waiting | Wait::Called)
    }

    /// Takes the right to serve it; false when it is somebody else's or it has gone.
    #[must_use]
    pub fn claim(&self) -> bool {
        self.end_wait(Wait::Claimed)
    }

    /// Gives the reply to a waiter that was claimed.
    pub fn serve(&self, served: Served) {
        assert!(self.served.set(served).is_ok(), "a waiter is claimed before it is served, and once");
        self.state.store(Wait::Served as u8, Ordering::Release);
        self.changed.notify_one();
    }

    /// Asks the waiter to run its command again. Asking twice is asking once.
    pub fn call(&self) {
        if self.change(Wait::Waiting, Wait::Called) {
            self.changed.notify_one();
        }
    }

    /// The waiter runs its command again: another call counts anew. False when it was not called.
    pub fn note_called(&self) -> bool {
        self.change(Wait::Called, Wait::Waiting)
    }

    /// CLIENT UNBLOCK; false when it does not wait any more, or was called and is about to be served.
    pub fn unblock(&self, with_error: bool) -> bool {
        let unblocked = self.change(Wait::Waiting, if with_error { Wait::Failed } else { Wait::Unblocked });
        self.changed.notify_one();
        unblocked
    }

    /// The waiter goes away; false when somebody has claimed it meanwhile.
    pub fn give_up(&self) -> bool {
        self.end_wait(Wait::Gone)
    }

    /// The waiter goes away, unless it was claimed, or called: then it runs its command first, because those behind it
    /// in the line wait for that.
    pub fn give_up_uncalled(&self) -> bool {
        self.change(Wait::Waiting, Wait::Gone)
    }

    /// What it was served.
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
        waiter.call();
        assert!(waiter.claim());
        assert!(!waiter.claim() && !waiter.give_up() && !waiter.unblock(true));
        let gone = Waiter::new(false);
        assert!(gone.give_up());
        assert!(!gone.claim());
    }
}
