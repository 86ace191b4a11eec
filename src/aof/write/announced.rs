//! How recording begins while commands are in flight.
//!
//! A command over several owners of keys is recorded as one step: where changes are recorded, its parts are sent with
//! the whole command. A command that was sent before that, but comes after it in the order of all commands, would be
//! recorded by its parts: torn, and a FLUSHALL as one for each owner. So recording is announced before it begins, and
//! the announcement waits until connections that had not seen it have finished sending:
//!
//! ```text
//! connection:  begin_sending | is anything recorded, or announced? tell the parts | place the group | drop
//! beginner:    announce | wait until no sender is left that may have seen nothing | place the beginning
//! ```
//!
//! A master that becomes a replica announces in the same way: parts say under which role they were sent, and all of
//! those that were sent as a master's have their place before its stream ends, and before it takes over other data.

use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Notify;

/// Counts the announcements, and the connections that are sending.
#[derive(Debug, Default)]
pub(super) struct Announcements {
    announced: AtomicUsize,
    sending: AtomicUsize,
    has_sent: Notify,
}

/// Recording is announced until this is dropped.
#[derive(Debug)]
pub struct Announced<'a>(&'a Announcements);

/// Parts are being sent until this is dropped.
#[derive(Debug)]
pub struct Sending<'a>(&'a Announcements);

impl Announcements {
    /// Announces that changes are about to be recorded, and waits until all parts are sent whose senders may not know
    /// of it. The sequential orders make one of two things true: a sender sees the announcement, or it is waited for.
    pub(super) async fn announce(&self) -> Announced<'_> {
        self.announced.fetch_add(1, Ordering::SeqCst);
        let announced = Announced(self);
        loop {
            let has_sent = self.has_sent.notified();
            if self.sending.load(Ordering::SeqCst) == 0 {
                return announced;
            }
            has_sent.await;
        }
    }

    pub(super) fn is_announced(&self) -> bool {
        self.announced.load(Ordering::SeqCst) > 0
    }

    pub(super) fn begin_sending(&self) -> Sending<'_> {
        self.sending.fetch_add(1, Ordering::SeqCst);
        Sending(self)
    }
}

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        self.0.announced.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        if self.0.sending.fetch_sub(1, Ordering::SeqCst) == 1 && self.0.is_announced() {
            self.0.has_sent.notify_waiters();
        }
    }
}
