//! Connections that wait at keys: for something to take, for an entry of a stream, for a change.

use super::{
    BlockedOperation, Keyspace, LogPosition, Queued, Reader, Served, Store, Value, WaitQueues, Waiter, Watch, hash_of,
    values,
};
use crate::keyspace::values::collection::Kind;
use std::collections::HashSet;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

impl<S: Store> Keyspace<S> {
    /// Watches a key for the caller.
    pub fn watch(&mut self, key: &[u8]) {
        let hash = hash_of(key);
        let was_over = self.stored(key).is_some_and(|node| self.hides(node));
        if let Some(watch) = &self.caller.watch {
            self.store.with_key_waiters(hash, key, |key_waiters| key_waiters.watch(key, watch, was_over));
        }
    }

    /// Whether the caller can watch keys: its connection waits for the reply.
    pub fn can_watch(&self) -> bool {
        self.caller.watch.is_some()
    }

    /// Breaks a watch if the time of a key has come since it was watched.
    pub fn check_watched(&mut self, key: &[u8], watch: &Arc<Watch>) {
        let hash = hash_of(key);
        let is_over = self.stored(key).is_some_and(|node| self.hides(node));
        if is_over && !self.store.with_key_waiters(hash, key, |key_waiters| key_waiters.was_over(key, watch)) {
            watch.break_it();
        }
    }

    /// Puts the caller in the queues of keys that hold nothing to take; false if it does not wait.
    pub fn wait_in_line<'k, K>(&mut self, keys: K, operation: &BlockedOperation) -> bool
    where
        K: IntoIterator<Item = &'k [u8], IntoIter: Clone>,
    {
        let Some(waiter) = &self.caller.waiter else { return false };
        let keys = keys.into_iter();
        let may_be_there = waiter.is_queued();
        waiter.note_queues(|| WaitQueues {
            database: self.store.selected(),
            keys: keys.clone().map(Box::from).collect(),
            ends_without_key: false,
        });
        for key in keys {
            self.store.with_key_waiters(hash_of(key), key, |key_waiters| {
                key_waiters.wait(key, waiter, operation, may_be_there);
            });
        }
        true
    }

    /// Makes the caller a reader of streams that have nothing for it; false if it does not wait.
    pub fn read_in_line(&mut self, reading: &Arc<values::stream::Reading>) -> bool {
        let Some(waiter) = &self.caller.waiter else { return false };
        let may_be_there = waiter.is_queued();
        waiter.note_queues(|| WaitQueues {
            database: self.store.selected(),
            keys: reading.streams.iter().map(|(key, _)| key.clone()).collect(),
            ends_without_key: reading.group.is_some(),
        });
        for (key, _) in &reading.streams {
            self.store.with_key_waiters(hash_of(key), key, |key_waiters| {
                key_waiters.read(key, waiter, reading, may_be_there);
            });
        }
        true
    }

    /// The readers that wait for a key, in order of arrival.
    pub fn readers_of(&mut self, key: &[u8]) -> Vec<Reader> {
        self.store.with_key_waiters(hash_of(key), key, |key_waiters| key_waiters.readers(key))
    }

    /// The changed keys with waiters, with their databases, each once, in the order of first change.
    pub fn ready_keys(&self) -> Vec<(usize, Box<[u8]>)> {
        let mut seen = HashSet::new();
        self.ready.iter().filter(|ready| seen.insert(*ready)).cloned().collect()
    }

    /// Claims the caller, if it may wait; false if its wait is over.
    pub fn claim_caller(&self) -> bool {
        self.caller.waiter.as_ref().is_none_or(|waiter| waiter.claim())
    }

    /// Whether the caller has found nothing to take, and its command is run again.
    pub fn is_caller_in_line(&self) -> bool {
        self.caller.waiter.as_ref().is_some_and(|waiter| waiter.is_queued())
    }

    /// Records that a key holds something for its waiters.
    pub fn note_ready(&mut self, key: &[u8]) {
        const FEW: usize = 64;
        let ready = (self.database(), Box::from(key));
        if self.ready.back() == Some(&ready) {
            return;
        }
        self.ready.push_back(ready);
        // A script may change two keys in turns for as long as it likes.
        if self.ready.len() > self.ready_max.max(FEW) {
            self.ready = self.ready_keys().into();
            self.ready_max = 2 * self.ready.len();
        }
    }

    /// A changed key that holds something for a waiter, with the first waiter of its queue; selects its database.
    pub fn next_ready(&mut self) -> Option<(Box<[u8]>, Queued)> {
        while let Some((database, key)) = self.ready.pop_front() {
            self.store.select(database);
            self.effects.select(database);
            if let Some(first) = self.first_in_line(&key) {
                self.ready.push_front((database, key.clone()));
                return Some((key, first));
            }
        }
        None
    }

    fn first_in_line(&mut self, key: &[u8]) -> Option<Queued> {
        let kind = self.live_kind(key)?;
        self.store.with_key_waiters(hash_of(key), key, |key_waiters| key_waiters.first_in_line(key, kind))
    }

    /// Whether a key is at hand and holds something for an operation.
    pub fn holds_for(&mut self, key: &[u8], operation: &BlockedOperation) -> bool {
        self.covers(key) && self.live_kind(key).is_some_and(|kind| operation.is_for(kind))
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

    /// Drops a ready key that has nothing more to take, or not for the first waiter of its queue.
    pub fn pass_over_ready(&mut self, key: &[u8]) {
        let database = self.database();
        self.ready.retain(|(number, ready)| (*number, &**ready) != (database, key));
    }

    /// Whether a changed key may hold something for its waiters.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Records the reply of a claimed waiter: it leaves when the log permits.
    pub fn note_served(&mut self, waiter: Arc<Waiter>, reply: Vec<u8>) {
        self.served.push((waiter, reply, self.served_after.clone()));
    }

    /// Makes the waiters served from now on wait for an end as well; `None` ends that.
    pub fn serve_after(&mut self, end: Option<CancellationToken>) {
        self.served_after = end;
    }

    /// Sends the replies of the served waiters, once what they show is in the log at `log_positions`.
    pub fn deliver(&mut self, log_positions: &[LogPosition]) {
        for (waiter, reply, after) in self.served.drain(..) {
            waiter.serve(Served { reply, log_positions: log_positions.to_vec(), after });
        }
    }

    /// Whether [`deliver`](Self::deliver) has anything to send.
    pub fn has_served(&self) -> bool {
        !self.served.is_empty()
    }
}
