//! Images are taken one after the other.

use std::sync::atomic::{AtomicBool, Ordering};

/// Who takes an image of the keys of this process, which has one keyspace: one at a time.
pub static IMAGE: Turn = Turn(AtomicBool::new(false));

/// Something that one at a time may do.
#[derive(Debug)]
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
