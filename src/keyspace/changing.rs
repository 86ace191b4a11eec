//! Putting in, taking out and replacing what keys hold; and what every change is reported to.

use super::{Class, Collection, Keyspace, NewValue, Node, Removal, Store, hash_of};
use crate::base::lengthy;
use crate::resp::CommandError;

impl<S: Store> Keyspace<S> {
    /// Records that the running command has made `changes` to a key. Every command calls this once for each key it
    /// changed, after the change; it notifies those that wait for the key or watch it.
    pub fn note_change(&mut self, key: &[u8], changes: usize) {
        self.stats.changes += changes as u64;
        if changes > 0 {
            self.note_touched(key);
        }
    }

    /// Records that the running command has left a key unchanged, though it breaks watches on it; or has changed it,
    /// and counts the change elsewhere.
    pub fn note_touched(&mut self, key: &[u8]) {
        self.report(key, self.turn.caller.tracking);
    }

    #[cold]
    pub(super) fn notify_key_waiters(&mut self, key: &[u8]) {
        let hash = hash_of(key);
        let is_gone = self.store.locate(hash, key).is_none();
        let has_line = self.store.with_key_waiters(hash, key, |key_waiters| key_waiters.note_change(key, is_gone));
        if has_line {
            self.ready.push(self.store.selected(), key);
        }
    }

    /// The node of a key, created with a first value if there is none.
    pub fn node_or_new<'v>(&mut self, key: &[u8], first: impl FnOnce() -> NewValue<'v>) -> &mut Node {
        let hash = hash_of(key);
        match self.locate_live(hash, key) {
            Some(location) => {
                let node = self.store.at_mut(location, hash, key);
                self.turn.note_use(node, &mut self.random);
                node
            }
            None => {
                self.notify(Class::NEW, "new", key);
                let node = self.store.insert(hash, Node::new(key, first(), None));
                self.turn.begin_use(node);
                node
            }
        }
    }

    /// The collection of a key, created empty if there is none. The caller adds an element.
    pub fn collection_or_new<C: Collection>(&mut self, key: &[u8]) -> Result<&mut C, CommandError> {
        self.node_or_new(key, || NewValue::Object(C::default().into_object())).collection_mut()
    }

    /// Sets a key to a value, whatever it was, expiring at `expire_at` if at all.
    pub fn set(&mut self, key: &[u8], value: NewValue<'_>, expire_at: Option<u64>) {
        let hash = hash_of(key);
        let Some(location) = self.locate_live(hash, key) else {
            let node = self.store.insert(hash, Node::new(key, value, expire_at));
            self.turn.begin_use(node);
            self.store.change_deadline(hash, key, None, expire_at);
            self.notify(Class::NEW, "new", key);
            return;
        };
        let node = self.store.at_mut(location, hash, key);
        let old = node.expire_at();
        let replaced = node.set(value, expire_at);
        self.turn.note_use(node, &mut self.random);
        self.store.change_deadline(hash, key, old, expire_at);
        if let Some(replaced) = replaced {
            Removal::Replaced.free(replaced, self.instance());
        }
    }

    /// Changes when a key expires; false if there is no such key.
    pub fn set_expire_at(&mut self, key: &[u8], expire_at: Option<u64>) -> bool {
        let hash = hash_of(key);
        let Some(location) = self.locate_live(hash, key) else { return false };
        let node = self.store.at_mut(location, hash, key);
        let old = node.expire_at();
        node.set_expire_at(expire_at);
        self.turn.note_use(node, &mut self.random);
        self.store.change_deadline(hash, key, old, expire_at);
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
        let Some(node) = self.store.remove_with_deadline(hash, key) else { return false };
        removal.free(node, self.instance());
        true
    }

    /// Puts the removal of a key into the effects, in place of the command's own.
    pub fn record_removal(&mut self, key: &[u8], removal: Removal) {
        self.effects.record(removal.effect(key, self.store.instance()));
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
        let Some(node) = self.store.remove_with_deadline(hash, key) else { return false };
        self.turn.begin_use(&node);
        self.within(database, |keyspace| keyspace.replace(node));
        true
    }

    /// Moves the value of a key, with its deadline, to another key, replacing that one; false if there is no such key.
    pub fn rename(&mut self, from: &[u8], to: &[u8]) -> bool {
        if !self.contains(from) {
            return false;
        }
        let Some(node) = self.store.remove_with_deadline(hash_of(from), from) else { return false };
        // As in Redis, it is a new key, however often the value was used.
        self.turn.begin_use(&node);
        self.replace(node.renamed(to));
        true
    }

    /// Copies the value of a key, with its deadline, to another key, perhaps in another database, replacing that one;
    /// false if there is no such key.
    pub fn copy(&mut self, from: &[u8], database: usize, to: &[u8]) -> bool {
        let copied = |node: &Node| lengthy::run(node.value().elements(), || node.copied(to));
        let Some(node) = self.peek(from).map(copied) else { return false };
        self.turn.begin_use(&node);
        self.within(database, |keyspace| keyspace.replace(node));
        true
    }

    /// Inserts a node in place of another of its key: a new one, not that key with another value.
    pub fn replace(&mut self, node: Node) {
        let hash = hash_of(node.key());
        self.remove(node.key(), Removal::Replaced);
        self.notify(Class::NEW, "new", node.key());
        self.store.insert_with_deadline(hash, node);
    }
}
