//! How much a session does before the other connections of its thread have their turn.

use crate::resp::FULL;

/// What a session has done of its quantum, and whether replies are dropped (CLIENT REPLY).
///
/// A pipeline brings as many requests as fit into some reads, however long each takes. Time ends the quantum, and so do
/// replies: not all of the time of short commands is noted, but each byte of a reply costs some. The command that is
/// running is the last one then.
#[derive(Debug)]
pub struct Quantum {
    is_muted: bool,
    /// How many bytes of replies were sent, or dropped.
    replied: usize,
    /// How many ticks it has spent.
    spent: u64,
    /// How many ticks it may spend.
    ticks: u64,
}

impl Default for Quantum {
    /// One that time does not end.
    fn default() -> Self {
        Self::of(u64::MAX)
    }
}

impl Quantum {
    /// One of so many ticks.
    pub fn of(ticks: u64) -> Self {
        Self { is_muted: false, replied: 0, spent: 0, ticks }
    }

    /// Sets whether replies are dropped from now on.
    pub fn set_muted(&mut self, is_muted: bool) {
        self.is_muted = is_muted;
    }

    /// Whether replies are dropped.
    #[inline]
    pub fn is_muted(&self) -> bool {
        self.is_muted
    }

    /// Drops a reply that begins at `start` of a buffer.
    pub fn drop_reply(&mut self, buffer: &mut Vec<u8>, start: usize) {
        self.note_replied(buffer.len() - start);
        buffer.truncate(start);
    }

    /// Notes that so many bytes of replies were sent, or dropped: to make these has taken as long.
    #[inline]
    pub fn note_replied(&mut self, bytes: usize) {
        self.replied = self.replied.saturating_add(bytes);
    }

    /// Notes that commands have taken so many ticks.
    #[inline]
    pub fn note_spent(&mut self, ticks: u64) {
        self.spent = self.spent.saturating_add(ticks);
    }

    /// Ends it, however short it was: a shard has left commands, since their time was over there or their replies fill
    /// a buffer.
    pub fn end(&mut self) {
        self.replied = FULL;
    }

    /// Whether it is over: others have their turn before more is accepted.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.replied >= FULL || self.spent > self.ticks
    }

    /// Lets others have their turn if it is over, and begins the next. Otherwise it goes on: a client that reads as
    /// fast as its replies come has many flushes.
    pub async fn flush(&mut self) {
        if self.is_over() {
            (self.replied, self.spent) = (0, 0);
            // The sockets of other connections must be polled, too.
            tokio::task::yield_now().await;
        }
    }
}
