//! How much a session does before the other connections of its thread have their turn.

use crate::resp::FULL;

/// What a session has done of its quantum, which a flush begins anew, and whether replies are dropped (CLIENT REPLY).
///
/// A pipeline brings as many requests as fit into some reads, however long each takes. Where replies are read, a full
/// output ends the quantum; where they are dropped, as many bytes do; and in any case time does. The command that is
/// running is the last one then.
#[derive(Debug)]
pub struct Quantum {
    is_muted: bool,
    /// How many bytes of replies were dropped.
    dropped: usize,
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
        Self { is_muted: false, dropped: 0, spent: 0, ticks }
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
        self.note_dropped(buffer.len() - start);
        buffer.truncate(start);
    }

    /// Notes that a reply of so many bytes was dropped: to make it has taken as long as to make another one.
    pub fn note_dropped(&mut self, bytes: usize) {
        self.dropped += bytes;
    }

    /// Notes that commands have taken so many ticks.
    #[inline]
    pub fn note_spent(&mut self, ticks: u64) {
        self.spent = self.spent.saturating_add(ticks);
    }

    /// Ends it, though it was short: a shard has left commands, since their time was over there.
    pub fn end(&mut self) {
        self.dropped = FULL;
    }

    /// Whether it is over: others have their turn before more is accepted.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.dropped >= FULL || self.spent > self.ticks
    }

    /// Lets others have their turn, if it is over, and begins the next.
    pub async fn flush(&mut self) {
        let is_over = self.is_over();
        (self.dropped, self.spent) = (0, 0);
        if is_over {
            // The sockets of other connections must be polled, too.
            tokio::task::yield_now().await;
        }
    }
}
