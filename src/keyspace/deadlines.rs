//! When keys expire, in order of time.
//!
//! Active expiration takes what is due from the front, so it finds every expired key at once and none that is not;
//! Redis samples instead. An entry is 16 bytes and names its key by hash: the key itself is found in the table.

use std::collections::BTreeSet;

/// The deadlines of a part of the keyspace.
///
/// Invariant: for each node with an expiry there is an entry (expire_at, hash of its key). Two keys may share one.
#[derive(Debug, Default)]
pub struct Deadlines(BTreeSet<(u64, u64)>);

impl Deadlines {
    /// Notes that the deadline of the key with this hash changes.
    pub fn change(&mut self, hash: u64, old: Option<u64>, new: Option<u64>) {
        if old == new {
            return;
        }
        if let Some(at) = old {
            self.0.remove(&(at, hash));
        }
        if let Some(at) = new {
            self.0.insert((at, hash));
        }
    }

    /// The earliest deadline and the hash of its key.
    pub fn first(&self) -> Option<(u64, u64)> {
        self.0.first().copied()
    }

    /// Forgets an entry.
    pub fn remove(&mut self, deadline: (u64, u64)) {
        self.0.remove(&deadline);
    }

    /// How many keys have a deadline.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no key has a deadline.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}
