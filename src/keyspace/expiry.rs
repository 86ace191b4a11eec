//! Keys whose time comes: where they are found, and how they go.

use super::changing::Removal;
use super::{Class, DueKeys, Keyspace, Node, Store, hash_of};

impl<S: Store> Keyspace<S> {
    /// Removes a key that a read-only command has found expired.
    pub fn remove_expired(&mut self, key: &[u8]) {
        self.locate_shown(hash_of(key), key);
    }

    /// Removes the key of the due deadline `(at, hash)` of a database, and returns whether there was one.
    pub fn expire(&mut self, database: usize, (at, hash): (u64, u64)) -> bool {
        self.select(database);
        let Some(node) = self.store.remove_due((at, hash)) else { return false };
        self.note_expired(node.key());
        self.free(node, Removal::Expired);
        true
    }

    /// The place of a key that has not expired. An expired one is removed now, or only recorded if nothing may be
    /// changed.
    #[inline]
    pub(super) fn locate_live(&mut self, hash: u64, key: &[u8]) -> Option<S::Location> {
        let location = self.store.locate(hash, key)?;
        if !self.hides(self.store.at(location, hash, key)) {
            return Some(location);
        }
        if self.due_keys != DueKeys::Kept {
            self.meet_expired(hash, key);
        }
        None
    }

    /// The same, for a command that reads: CLIENT PAUSE keeps an expired key, and so does a replica.
    #[inline]
    pub(super) fn locate_shown(&mut self, hash: u64, key: &[u8]) -> Option<S::Location> {
        let location = self.store.locate(hash, key)?;
        if !self.hides(self.store.at(location, hash, key)) {
            return Some(location);
        }
        if self.due_keys == DueKeys::Removed && !self.settings().is_frozen() {
            self.meet_expired(hash, key);
        }
        None
    }

    /// Whether a key with this deadline is removed instead of getting it. A command of the master has set it before the
    /// time had come, and what the master did next may depend on the key, however late it is applied here.
    pub fn is_over(&self, deadline: u64) -> bool {
        deadline <= if self.was_accepted_before() { 0 } else { self.now_ms }
    }

    /// Whether a node is hidden because its time has come.
    #[inline]
    pub(super) fn hides(&self, node: &Node) -> bool {
        is_due(node, self.due_ms) && !self.caller.is_master
    }

    #[cold]
    fn meet_expired(&mut self, hash: u64, key: &[u8]) {
        if self.store.is_writable() {
            if let Some(node) = self.take(hash, key) {
                self.free(node, Removal::Expired);
            }
            self.note_expired(key);
        } else {
            self.saw_expired = true;
        }
    }

    pub(super) fn note_expired(&mut self, key: &[u8]) {
        self.stats.expired += 1;
        if self.is_observed() {
            self.report_removal(key);
        }
        self.notify(Class::EXPIRED, "expired", key);
        self.add_removal(key, Removal::Expired);
    }

    pub(super) fn take(&mut self, hash: u64, key: &[u8]) -> Option<Node> {
        let node = self.store.remove(hash, key)?;
        self.change_deadline(hash, key, node.expire_at(), None);
        Some(node)
    }

    pub(super) fn change_deadline(&mut self, hash: u64, key: &[u8], old: Option<u64>, new: Option<u64>) {
        if old != new {
            self.store.with_deadlines(hash, key, |deadlines| deadlines.change(hash, old, new));
        }
    }
}

pub(super) fn is_due(node: &Node, due_ms: u64) -> bool {
    node.expire_at().is_some_and(|at| at <= due_ms)
}
