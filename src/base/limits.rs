//! Limits that change while they are in use.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The longest key or text, in bytes: the largest permitted `proto-max-bulk-len` fits. Longer strings from other
/// sources than requests are refused by this limit.
pub const LEN_MAX: usize = u32::MAX as usize / 2;

/// A number that may change at any time; readers use the value that they read.
#[derive(Debug)]
pub struct Limit(AtomicUsize);

impl Limit {
    /// A limit.
    pub fn new(limit: u64) -> Self {
        let new = Self(AtomicUsize::new(0));
        new.set(limit);
        new
    }

    /// The current limit.
    pub fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Changes it, for later readers.
    pub fn set(&self, limit: u64) {
        self.0.store(usize::try_from(limit).unwrap_or(usize::MAX), Ordering::Relaxed);
    }
}
