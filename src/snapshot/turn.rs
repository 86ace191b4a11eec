//! Snapshots are taken one after the other.

use std::sync::atomic::{AtomicBool, Ordering};

/// Something that one at a time may do.
#[derive(Debug, Default)]
pub struct Turn(AtomicBool);

impl Turn {
    /// Takes the turn, if nobody has it.
    pub fn take(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// Gives it back.
    pub fn give_back(&self) {
        self.0.store(false, Ordering::Release);
    }
}
