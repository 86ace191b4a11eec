//! Snapshots are taken one after another.

use std::sync::atomic::{AtomicBool, Ordering};

/// A right that has one holder at a time.
#[derive(Debug, Default)]
pub struct Turn(AtomicBool);

impl Turn {
    /// Takes the turn, if it is free.
    pub fn take(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// Returns it.
    pub fn give_back(&self) {
        self.0.store(false, Ordering::Release);
    }
}
