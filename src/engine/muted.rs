//! What a session keeps of a client that wants no replies: CLIENT REPLY.

use crate::resp::FULL;

/// Whether replies are dropped, and how many bytes were since the session was last flushed.
///
/// To make a reply that nobody gets takes as long as to make another one. A client that reads its replies gets no more
/// work done than has room in its output; so one without replies gets as much, and then others have their turn.
#[derive(Debug, Default)]
pub struct Muted {
    is_on: bool,
    dropped: usize,
}

impl Muted {
    /// Sets whether replies are dropped from now on.
    pub fn set(&mut self, is_on: bool) {
        self.is_on = is_on;
    }

    /// Whether replies are dropped.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Drops a reply that begins at `start` of a buffer.
    pub fn drop_reply(&mut self, buffer: &mut Vec<u8>, start: usize) {
        self.note_dropped(buffer.len() - start);
        buffer.truncate(start);
    }

    /// Notes that a reply of so many bytes was dropped.
    pub fn note_dropped(&mut self, bytes: usize) {
        self.dropped += bytes;
    }

    /// Whether others have their turn before more is accepted.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.dropped >= FULL
    }

    /// Lets others have their turn, if much was dropped.
    pub async fn flush(&mut self) {
        if std::mem::take(&mut self.dropped) >= FULL {
            // The sockets of other connections must be polled, too.
            tokio::task::yield_now().await;
        }
    }
}
