//! Putting in, taking out and replacing what keys hold, one by one and all together; and what every change is reported
//! to.

use super::settings::FreedLater;
use super::{Class, Collection, Keyspace, NewValue, Node, Store, Value, hash_of};
use crate::base::lengthy;
use crate::resp::CommandError;
use std::sync::atomic::Ordering;

/// A value of no more allocations is freed at once, however it is removed: sending it to another thread would take as
/// long. Redis has the same limit.
const FREED_AT_ONCE: usize = 64;

/// How a value is removed. It decides whether a large one is freed at once or on a thread of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// By a command that is there to remove it.
    Deleted,
    /// By UNLINK, or by a flush with ASYNC.
    Unlinked,
    /// By a flush.
    Flushed,
    /// By a flush with SYNC.
    FlushedAtOnce,
    /// By a command that puts something else in its place, or that takes all elements out of it.
    Replaced,
    /// Because its time has come.
    Expired,
    /// By a full synchronization.
    Synchronized,
}

impl Removal {
    fn frees_later(self, settings: &FreedLater) -> bool {
        let setting = match self {
            Self::Unlinked => return true,
            Self::FlushedAtOnce => return false,
            Self::Deleted => &settings.deleted,
            Self::Flushed => &settings.flushed,
            Self::Replaced => &settings.replaced,
            Self::Expired => &settings.expired,
            Self::Synchronized => &settings.synchronized,
        };
        setting.load(Ordering::Relaxed)
    }
}

impl<S: Store> Keyspace<S> {
    /// Records that the running command has made `changes` to a key. Every command calls this once for each key it
    /// changed, after the change; it notifies those that wait for the key or watch it.
    pub fn note_change(&mut self, key: &[u8], changes: usize) {
        self.dirty += changes as u64;
        if changes > 0 && self.is_observed() {
            self.report_change(key);
        }
    }

    /// Records that the running command has left a key unchanged, though it breaks watches on it; or has changed it,
    /// and counts the change elsewhere.
    pub fn note_touched(&mut self, key: &[u8]) {
        if self.is_observed() {
            self.report_change(key);
        }
    }

    /// Records changes that break no watch and wake no waiter: those of the groups of a stream, as in Redis.
    pub fn note_unwatched_change(&mut self, changes: usize) {
        self.dirty += changes as u64;
    }

    /// Makes the waiters of a key check it again, though no watch on it breaks.
    pub fn wake_line(&mut self, key: &[u8]) {
        if self.store.has_key_waiters()
            && self.store.with_key_waiters(hash_of(key), key, |key_waiters| key_waiters.is_awaited(key))
        {
            self.note_ready(key);
        }
    }

    #[cold]
    pub(super) fn notify_key_waiters(&mut self, key: &[u8]) {
        let hash = hash_of(key);
        let is_gone = self.store.locate(hash, key).is_none();
        let has_line = self.store.with_key_waiters(hash, key, |key_waiters| key_waiters.note_change(key, is_gone));
        if has_line {
            self.note_ready(key);
        }
    }

    /// The node of a key, created with a first value if there is none.
    pub fn node_or_new<'v>(&mut self, key: &[u8], first: impl FnOnce() -> NewValue<'v>) -> &mut Node {
        let hash = hash_of(key);
        match self.locate_live(hash, key) {
            Some(location) => {
                let node = self.store.at_mut(location, hash, key);
                if self.notes_uses {
                    node.touch(self.usage, self.second, &mut self.random);
                }
                node
            }
            None => {
                self.notify(Class::NEW, "new", key);
                let node = self.store.insert(hash, Node::new(key, first(), None));
                node.begin_use(self.usage, self.second);
                node
            }
        }
    }

    /// The collection of a key, created empty if there is none. The caller adds an element.
    pub fn collection_or_new<C: Collection>(&mut self, key: &[u8]) -> Result<&mut C, CommandError> {
        let node = self.node_or_new(key, || NewValue::Object(C::default().into_object()));
        node.object_mut().and_then(C::of_mut).ok_or(CommandError::WrongType)
    }

    /// Sets a key to a value, whatever it was, expiring at `expire_at` if at all.
    pub fn set(&mut self, key: &[u8], value: NewValue<'_>, expire_at: Option<u64>) {
        let hash = hash_of(key);
        let Some(location) = self.locate_live(hash, key) else {
            self.store.insert(hash, Node::new(key, value, expire_at)).begin_use(self.usage, self.second);
            self.change_deadline(hash, key, None, expire_at);
            self.notify(Class::NEW, "new", key);
            return;
        };
        let node = self.store.at_mut(location, hash, key);
        let old = node.expire_at();
        let replaced = node.set(value, expire_at);
        if self.notes_uses {
            node.touch(self.usage, self.second, &mut self.random);
        }
        self.change_deadline(hash, key, old, expire_at);
        if let Some(replaced) = replaced {
            self.free(replaced, Removal::Replaced);
        }
    }

    /// Changes when a key expires; false if there is no such key.
    pub fn set_expire_at(&mut self, key: &[u8], expire_at: Option<u64>) -> bool {
        let hash = hash_of(key);
        let Some(location) = self.locate_live(hash, key) else { return false };
        let node = self.store.at_mut(location, hash, key);
        let old = node.expire_at();
        node.set_expire_at(expire_at);
        if self.notes_uses {
            node.touch(self.usage, self.second, &mut self.random);
        }
        self.change_deadline(hash, key, old, expire_at);
        true
    }

    /// Removes a key; false if there is no such key.
    pub fn remove(&mut self, key: &[u8], removal: Removal) -> bool {
        let hash = hash_of(key);
        self.locate_live(hash, key).is_some() && self.drop_node(hash, key, removal)
    }

    /// Removes a key as it is stored, though its time may have come, for something in its place; false if there is
    /// none.
    pub fn remove_stored(&mut self, key: &[u8]) -> bool {
        self.drop_node(hash_of(key), key, Removal::Replaced)
    }

    fn drop_node(&mut self, hash: u64, key: &[u8], removal: Removal) -> bool {
        let Some(node) = self.take(hash, key) else { return false };
        self.free(node, removal);
        true
    }

    /// Puts the removal of a key into the effects: as UNLINK where its value is freed later, so that a replica does the
    /// same.
    pub fn record_removal(&mut self, key: &[u8], removal: Removal) {
        self.effects.leave_out_own();
        self.add_removal(key, removal);
    }

    /// The same besides the command's own effects.
    pub(super) fn add_removal(&mut self, key: &[u8], removal: Removal) {
        let command = if removal.frees_later(&self.settings().freed_later) { "UNLINK" } else { "DEL" };
        self.effects.add([command.as_bytes(), key]);
    }

    /// Frees a node that was removed.
    #[inline]
    pub(super) fn free(&self, node: Node, removal: Removal) {
        if matches!(node.value(), Value::Object(_)) {
            self.free_collection(node, removal);
        }
    }

    #[inline(never)]
    fn free_collection(&self, node: Node, removal: Removal) {
        let elements = node.value().elements();
        if removal.frees_later(&self.settings().freed_later) && node.value().allocations() > FREED_AT_ONCE {
            self.free_later(1, elements, Box::new(node));
        } else {
            lengthy::run(elements, || drop(node));
        }
    }

    fn free_later(&self, objects: usize, elements: usize, values: Box<dyn Send>) {
        if let Err(values) = self.instance().freeing.take(objects as u64, values) {
            lengthy::run(elements, || drop(values));
        }
    }

    /// Removes the key of a collection that has become empty, with its event.
    pub fn remove_emptied(&mut self, key: &[u8]) {
        self.remove(key, Removal::Replaced);
        self.notify(Class::GENERIC, "del", key);
    }

    /// Moves a key to another database, which has no such key; false if there is none here.
    pub fn move_to(&mut self, key: &[u8], database: usize) -> bool {
        let hash = hash_of(key);
        if self.locate_live(hash, key).is_none() {
            return false;
        }
        let Some(node) = self.take(hash, key) else { return false };
        node.begin_use(self.usage, self.second);
        self.within(database, |keyspace| keyspace.replace(node));
        true
    }

    /// Moves the value of a key, with its deadline, to another key, replacing that one; false if there is no such key.
    pub fn rename(&mut self, from: &[u8], to: &[u8]) -> bool {
        if !self.contains(from) {
            return false;
        }
        let Some(node) = self.take(hash_of(from), from) else { return false };
        // As in Redis, it is a new key, however often the value was used.
        node.begin_use(self.usage, self.second);
        self.replace(node.renamed(to));
        true
    }

    /// Copies the value of a key, with its deadline, to another key, perhaps in another database, replacing that one;
    /// false if there is no such key.
    pub fn copy(&mut self, from: &[u8], database: usize, to: &[u8]) -> bool {
        let copied = |node: &Node| lengthy::run(node.value().elements(), || node.copied(to));
        let Some(node) = self.peek(from).map(copied) else { return false };
        node.begin_use(self.usage, self.second);
        self.within(database, |keyspace| keyspace.replace(node));
        true
    }

    /// Inserts a node in place of another of its key: a new one, not that key with another value.
    pub fn replace(&mut self, node: Node) {
        let hash = hash_of(node.key());
        self.remove(node.key(), Removal::Replaced);
        self.change_deadline(hash, node.key(), None, node.expire_at());
        self.notify(Class::NEW, "new", node.key());
        self.store.insert(hash, node);
    }

    /// How many keys there are, including expired ones that have not been removed.
    pub fn len(&self) -> usize {
        self.store.len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all keys of the database; each counts as a change.
    pub fn clear(&mut self, removal: Removal) {
        self.dirty += self.store.len() as u64;
        for key in self.listened_keys() {
            if self.contains(&key) {
                self.notify_key_waiters(&key);
            }
        }
        self.clear_store(removal);
    }

    fn clear_store(&mut self, removal: Removal) {
        let len = self.store.len();
        let mut removed = Vec::new();
        self.store.clear(&mut |nodes| removed.push(nodes));
        if removed.is_empty() {
            // A snapshot frees them as it goes on.
            return;
        }
        if removal.frees_later(&self.settings().freed_later) {
            self.free_later(len, len, Box::new(removed));
        } else {
            lengthy::run(len, || drop(removed));
        }
    }

    /// Removes all keys of all databases; each counts as a change.
    pub fn clear_all(&mut self, removal: Removal) {
        for database in 0..self.store.in_use() {
            self.within(database, |keyspace| keyspace.clear(removal));
        }
    }

    /// Replaces all nodes by others with their databases and uses. Their contents are the same: there are no
    /// notifications, and nothing is logged. O(N)
    pub fn replace_all(&mut self, nodes: impl Iterator<Item = (usize, Node)>) {
        for database in 0..self.store.in_use() {
            self.within(database, |keyspace| keyspace.clear_store(Removal::Synchronized));
        }
        for (database, node) in nodes {
            self.within(database, |keyspace| {
                let hash = hash_of(node.key());
                keyspace.change_deadline(hash, node.key(), None, node.expire_at());
                keyspace.store.insert(hash, node);
            });
        }
    }

    /// Replaces all nodes by different ones with their databases, and notifies the key waiters of each key that existed
    /// before or does now. Nothing is logged. O(N)
    pub fn replace_by_others(&mut self, nodes: impl Iterator<Item = (usize, Node)>) {
        self.note_flushed();
        self.notify_all_key_waiters();
        self.replace_all(nodes);
        self.notify_all_key_waiters();
    }

    /// Notifies the key waiters of all existing keys.
    fn notify_all_key_waiters(&mut self) {
        for database in 0..self.store.in_use() {
            self.within(database, |keyspace| {
                for key in keyspace.listened_keys() {
                    if keyspace.contains(&key) {
                        keyspace.notify_key_waiters(&key);
                    }
                }
            });
        }
    }

    /// Exchanges two databases, and notifies the key waiters of each key that exists before or after.
    pub fn swap_databases(&mut self, one: usize, other: usize) {
        self.dirty += 1;
        // Exchanging a database with itself changes nothing: there are no notifications.
        if one == other {
            return;
        }
        // Expired keys are removed first, so that their removal is seen in the right database.
        for key in [one, other].map(|database| self.within(database, |keyspace| keyspace.listened_keys())).concat() {
            for database in [one, other] {
                self.within(database, |keyspace| keyspace.contains(&key));
            }
        }
        self.store.swap(one, other);
        self.note_flushed();
        for (database, swapped) in [(one, other), (other, one)] {
            for key in self.within(database, |keyspace| keyspace.listened_keys()) {
                let was_there = self.within(swapped, |keyspace| keyspace.contains(&key));
                self.within(database, |keyspace| {
                    if keyspace.contains(&key) || was_there {
                        keyspace.notify_key_waiters(&key);
                    }
                });
            }
        }
    }

    /// The keys of the store with key waiters.
    fn listened_keys(&self) -> Vec<Vec<u8>> {
        let mut keys = Vec::new();
        if self.store.has_key_waiters() {
            self.store.for_each_listened(&mut |key| keys.push(key.to_vec()));
        }
        keys.retain(|key| self.covers(key));
        keys
    }
}
