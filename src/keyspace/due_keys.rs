//! What happens to keys whose time has come: a replica leaves them to its master.

use std::sync::atomic::{AtomicU8, Ordering};

/// What happens to keys whose time has come. In all cases clients do not see them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum DueKeys {
    /// The first command that finds them removes them, and logs it.
    #[default]
    Removed,
    /// They stay until the master removes them: on a replica whose clients only read.
    Kept,
    /// They stay until the master removes them, or a client writes them again: on a replica whose clients write.
    KeptUntilWritten,
}

/// The current rule. A keyspace copies it before commands run.
///
/// In the sequential order, because a change of the role waits for those that still send parts under the old rule
/// (`aof/write/announced.rs`): a sender sees the change, or is waited for.
#[derive(Debug, Default)]
pub struct DueKeysRule(AtomicU8);

impl DueKeysRule {
    /// The current rule.
    #[inline]
    pub fn get(&self) -> DueKeys {
        DueKeys::from_number(self.0.load(Ordering::SeqCst))
    }

    /// Changes the rule for later commands, and returns the old one.
    pub fn replace(&self, due_keys: DueKeys) -> DueKeys {
        DueKeys::from_number(self.0.swap(due_keys as u8, Ordering::SeqCst))
    }
}

impl DueKeys {
    /// Whether only the master removes keys whose time has come.
    pub fn stay(self) -> bool {
        self != Self::Removed
    }

    /// Whether only the master writes, and removes elements: connections that wait for one wait in vain. Requests are
    /// checked when they are accepted; this is for those that were accepted before the server became a replica.
    #[inline]
    pub fn only_master_writes(self) -> bool {
        self == Self::Kept
    }

    #[inline]
    fn from_number(number: u8) -> Self {
        match number {
            0 => Self::Removed,
            1 => Self::Kept,
            _ => Self::KeptUntilWritten,
        }
    }
}
