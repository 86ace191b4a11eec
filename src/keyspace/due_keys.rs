//! What becomes of keys whose time has come: a replica leaves that to its master.

use std::sync::atomic::{AtomicU8, Ordering};

/// What becomes of keys whose time has come. No client sees them, whatever becomes of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum DueKeys {
    /// Whoever meets them removes them, and says so in the log.
    #[default]
    Removed,
    /// They stay until the master removes them: on a replica whose clients only read.
    Kept,
    /// They stay until the master removes them, or a client writes them anew: on a replica whose clients write.
    KeptUntilWritten,
}

/// What holds at present. A keyspace takes it over before commands run.
#[derive(Debug, Default)]
pub struct DueKeysRule(AtomicU8);

impl DueKeysRule {
    /// What holds now.
    #[inline]
    pub fn get(&self) -> DueKeys {
        DueKeys::from_number(self.0.load(Ordering::Relaxed))
    }

    /// Changes it, for what runs from now on; gives what held before.
    pub fn replace(&self, due_keys: DueKeys) -> DueKeys {
        DueKeys::from_number(self.0.swap(due_keys as u8, Ordering::Relaxed))
    }
}

impl DueKeys {
    #[inline]
    fn from_number(number: u8) -> Self {
        match number {
            0 => Self::Removed,
            1 => Self::Kept,
            _ => Self::KeptUntilWritten,
        }
    }
}
