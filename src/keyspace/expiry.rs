//! Keys whose time comes: where they are found, and how they go.

use super::{Class, DueKeys, Keyspace, Removal, Store, Tracking};

impl<S: Store> Keyspace<S> {
    /// Removes the key of the due deadline `(at, hash)` of a database, and returns whether there was one.
    pub fn expire(&mut self, database: usize, (at, hash): (u64, u64)) -> bool {
        self.select(database);
        let Some(node) = self.store.remove_due((at, hash)) else { return false };
        self.note_expired(node.key());
        Removal::Expired.free(node, self.instance());
        true
    }

    /// The place of a key that has not expired. An expired one is removed now, or only recorded if nothing may be
    /// changed.
    #[inline]
    pub(super) fn locate_live(&mut self, hash: u64, key: &[u8]) -> Option<S::Location> {
        let location = self.store.locate(hash, key)?;
        if !self.turn.hides(self.store.at(location, hash, key)) {
            return Some(location);
        }
        if self.turn.due_keys != DueKeys::Kept {
            self.meet_expired(hash, key);
        }
        None
    }

    /// The same, for a command that reads: CLIENT PAUSE keeps an expired key, and so does a replica.
    #[inline]
    pub(super) fn locate_shown(&mut self, hash: u64, key: &[u8]) -> Option<S::Location> {
        let location = self.store.locate(hash, key)?;
        if !self.turn.hides(self.store.at(location, hash, key)) {
            return Some(location);
        }
        if self.turn.due_keys == DueKeys::Removed && !self.settings().is_frozen() {
            self.meet_expired(hash, key);
        }
        None
    }

    #[cold]
    fn meet_expired(&mut self, hash: u64, key: &[u8]) {
        if self.store.is_writable() {
            if let Some(node) = self.store.remove_with_deadline(hash, key) {
                Removal::Expired.free(node, self.instance());
            }
            self.note_expired(key);
        } else {
            self.saw_expired = true;
        }
    }

    fn note_expired(&mut self, key: &[u8]) {
        self.stats.expired += 1;
        self.report(key, Tracking::NONE);
        self.notify(Class::EXPIRED, "expired", key);
        self.effects.add(Removal::Expired.effect(key, self.store.instance()));
    }
}
