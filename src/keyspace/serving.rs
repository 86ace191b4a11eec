//! What a change does for connections that wait: the keys that may hold something for them, and the replies of those
//! that were served.

use super::waiter::{LogPosition, Served, Waiter};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Changed keys with waiters, with their databases, in the order of change.
#[derive(Debug, Default)]
pub struct ReadyKeys {
    keys: VecDeque<(usize, Box<[u8]>)>,
    /// With more of them, those that are there twice go.
    len_max: usize,
}

impl ReadyKeys {
    /// Records that a key holds something for its waiters.
    pub fn push(&mut self, database: usize, key: &[u8]) {
        const FEW: usize = 64;
        let ready = (database, Box::from(key));
        if self.keys.back() == Some(&ready) {
            return;
        }
        self.keys.push_back(ready);
        // A script may change two keys in turns for as long as it likes.
        if self.keys.len() > self.len_max.max(FEW) {
            self.keys = self.distinct().into();
            self.len_max = 2 * self.keys.len();
        }
    }

    /// Each of the keys once, in the order of first change.
    pub fn distinct(&self) -> Vec<(usize, Box<[u8]>)> {
        let mut seen = HashSet::new();
        self.keys.iter().filter(|ready| seen.insert(*ready)).cloned().collect()
    }

    /// Takes the first key.
    pub fn pop(&mut self) -> Option<(usize, Box<[u8]>)> {
        self.keys.pop_front()
    }

    /// Makes a key the first again: it has something for a waiter.
    pub fn put_back(&mut self, database: usize, key: Box<[u8]>) {
        self.keys.push_front((database, key));
    }

    /// Drops a key that has nothing more to take, or not for the first waiter of its queue.
    pub fn pass_over(&mut self, database: usize, key: &[u8]) {
        self.keys.retain(|(number, ready)| (*number, &**ready) != (database, key));
    }

    /// Whether no changed key may hold something for its waiters.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

/// The waiters that the running command served, with their replies.
#[derive(Debug, Default)]
pub struct ServedWaiters {
    all: Vec<(Arc<Waiter>, Vec<u8>, Option<CancellationToken>)>,
    /// What those served from now on must wait for.
    pub after: Option<CancellationToken>,
}

impl ServedWaiters {
    /// Records the reply of a claimed waiter: it leaves when the log permits.
    pub fn push(&mut self, waiter: Arc<Waiter>, reply: Vec<u8>) {
        self.all.push((waiter, reply, self.after.clone()));
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Sends the replies, once what they show is in the log at `log_positions`.
    pub fn deliver(&mut self, log_positions: &[LogPosition]) {
        for (waiter, reply, after) in self.all.drain(..) {
            waiter.serve(Served { reply, log_positions: log_positions.to_vec(), after });
        }
    }
}
