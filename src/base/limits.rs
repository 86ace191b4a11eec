//! Limits that change while they are looked at.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The longest key or text, in bytes: what `proto-max-bulk-len` may be set to at most fits. What takes strings in from
/// elsewhere than requests refuses longer ones by this.
pub const LEN_MAX: usize = u32::MAX as usize / 2;

/// A number that may change at any time; whoever reads it goes by what it was then.
#[derive(Debug)]
pub struct Limit(AtomicUsize);

impl Limit {
    /// A limit.
    pub fn new(limit: u64) -> Self {
        let new = Self(AtomicUsize::new(0));
        new.set(limit);
        new
    }

    /// The limit as it is now.
    pub fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Changes it, for what begins from now on.
    pub fn set(&self, limit: u64) {
        self.0.store(usize::try_from(limit).unwrap_or(usize::MAX), Ordering::Relaxed);
    }
}
