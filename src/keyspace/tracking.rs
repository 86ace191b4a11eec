//! CLIENT TRACKING as commands see it: whose caller they are, and whether what they read is remembered.
//!
//! What is read and changed goes among the [`Notices`](super::Notices), in order, so that the engine reports both while
//! it has the keys: a change after a read always finds that the key was read.

use super::{Keyspace, Store};

/// The connection with CLIENT TRACKING that runs a command: its number, and whether what the command reads is
/// remembered.
///
/// Layout: the lowest bit is set if reads are remembered, the others are the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tracking(u32);

impl Tracking {
    /// A connection without it.
    pub const NONE: Self = Self(0);
    /// The largest number of a connection.
    pub const NUMBER_MAX: u32 = u32::MAX >> 1;

    /// Of the connection with this number, from 1 to [`NUMBER_MAX`](Self::NUMBER_MAX).
    pub const fn new(number: u32, remembers_reads: bool) -> Self {
        assert!(number > 0 && number <= Self::NUMBER_MAX);
        Self(number << 1 | remembers_reads as u32)
    }

    /// The number of the connection; 0 for one without it.
    pub const fn number(self) -> u32 {
        self.0 >> 1
    }

    /// Whether what the command reads is remembered.
    #[inline]
    pub const fn remembers_reads(self) -> bool {
        self.0 & 1 != 0
    }
}

impl<S: Store> Keyspace<S> {
    /// Records that all keys of a database have gone, or have others' contents: whatever was read has changed.
    pub fn note_flushed(&mut self) {
        if self.settings().is_tracked() {
            self.notices.push_flushed();
        }
    }

    /// Reports to those that wait for a key, watch it, or have read it, that it was changed: by a client, or by the
    /// server itself, which is [`Tracking::NONE`]. Then the client whose command caused that is notified, too.
    #[inline]
    pub(super) fn report(&mut self, key: &[u8], by: Tracking) {
        if self.store.has_key_waiters() || self.settings().is_tracked() {
            self.report_observed(key, by);
        }
    }

    #[cold]
    fn report_observed(&mut self, key: &[u8], by: Tracking) {
        if self.settings().is_tracked() {
            self.notices.push_change(by.number(), key);
        }
        if self.store.has_key_waiters() {
            self.notify_key_waiters(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_and_the_bit_do_not_disturb_each_other() {
        for number in [1, 2, Tracking::NUMBER_MAX] {
            for remembers in [false, true] {
                let tracking = Tracking::new(number, remembers);
                assert_eq!((tracking.number(), tracking.remembers_reads()), (number, remembers));
            }
        }
        assert_eq!((Tracking::NONE.number(), Tracking::NONE.remembers_reads()), (0, false));
    }
}
