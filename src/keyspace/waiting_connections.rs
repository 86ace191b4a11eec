//! Connections that wait at keys: for something to take, for an entry of a stream, for a change.

use super::{
    BlockedOperation, Caller, KeyWaiters, Keyspace, Queued, Store, Turn, Value, WaitQueues, Watch, hash_of, values,
};
use crate::keyspace::values::collection::Kind;
use std::sync::Arc;

impl Turn {
    /// Watches a key for the caller.
    pub fn watch<S: Store>(&self, store: &mut S, key: &[u8]) {
        let hash = hash_of(key);
        let was_over = store.stored(key).is_some_and(|node| self.hides(node));
        if let Some(watch) = &self.caller.watch {
            store.with_key_waiters(hash, key, |key_waiters| key_waiters.watch(key, watch, was_over));
        }
    }

    /// Breaks a watch if the time of a key has come since it was watched.
    pub fn check_watched<S: Store>(&self, store: &mut S, key: &[u8], watch: &Arc<Watch>) {
        let hash = hash_of(key);
        let is_over = store.stored(key).is_some_and(|node| self.hides(node));
        if is_over && !store.with_key_waiters(hash, key, |key_waiters| key_waiters.was_over(key, watch)) {
            watch.break_it();
        }
    }
}

impl Caller {
    /// Puts the caller in the queues of keys that hold nothing to take; false if it does not wait.
    pub fn wait_in_line<'k, S: Store>(
        &self,
        store: &mut S,
        keys: impl Iterator<Item = &'k [u8]> + Clone,
        operation: &BlockedOperation,
    ) -> bool {
        let Some(waiter) = &self.waiter else { return false };
        let may_be_there = waiter.is_queued();
        waiter.note_queues(|| WaitQueues {
            database: store.selected(),
            keys: keys.clone().map(Box::from).collect(),
            ends_without_key: false,
        });
        for key in keys {
            store.with_key_waiters(hash_of(key), key, |key_waiters| {
                key_waiters.wait(key, waiter, operation, may_be_there);
            });
        }
        true
    }

    /// Makes the caller a reader of streams that have nothing for it; false if it does not wait.
    pub fn read_in_line<S: Store>(&self, store: &mut S, reading: &Arc<values::stream::Reading>) -> bool {
        let Some(waiter) = &self.waiter else { return false };
        let may_be_there = waiter.is_queued();
        waiter.note_queues(|| WaitQueues {
            database: store.selected(),
            keys: reading.streams.iter().map(|(key, _)| key.clone()).collect(),
            ends_without_key: reading.group.is_some(),
        });
        for (key, _) in &reading.streams {
            store.with_key_waiters(hash_of(key), key, |key_waiters| {
                key_waiters.read(key, waiter, reading, may_be_there);
            });
        }
        true
    }
}

impl<S: Store> Keyspace<S> {
    /// A changed key that holds something for a waiter, with the first waiter of its queue; selects its database.
    pub fn next_ready(&mut self) -> Option<(Box<[u8]>, Queued)> {
        while let Some((database, key)) = self.ready.pop() {
            self.select(database);
            let Some(kind) = self.live_kind(&key) else { continue };
            let first = |key_waiters: &mut KeyWaiters| key_waiters.first_in_line(&key, kind);
            if let Some(first) = self.store.with_key_waiters(hash_of(&key), &key, first) {
                self.ready.put_back(database, key.clone());
                return Some((key, first));
            }
        }
        None
    }

    /// Whether a key is at hand and holds something for an operation.
    pub fn holds_for(&mut self, key: &[u8], operation: &BlockedOperation) -> bool {
        self.store.covers(key) && self.live_kind(key).is_some_and(|kind| operation.is_for(kind))
    }

    /// The type of the collection of a key, if it holds one.
    fn live_kind(&mut self, key: &[u8]) -> Option<Kind> {
        let hash = hash_of(key);
        let place = self.locate_live(hash, key)?;
        match self.store.at(place, hash, key).value() {
            Value::Object(object) => Some(object.kind()),
            Value::Integer(_) | Value::Text(_) => None,
        }
    }
}
