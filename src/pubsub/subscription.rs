//! The subscriptions of one connection.

use super::{Kind, PubSub, Subscriber};
use crate::keyspace::{LogPosition, ProcessHash};
use indexmap::IndexSet;
use std::sync::Arc;

/// The names that a connection is subscribed to, and its queue. Dropping it removes it from the registry completely.
///
/// Invariant: the registry has the subscriber under exactly the names that are here.
#[derive(Debug)]
pub struct Subscription {
    pubsub: Arc<PubSub>,
    subscriber: Arc<Subscriber>,
    names: [IndexSet<Arc<[u8]>, ProcessHash>; 3],
    name_bytes: usize,
    /// The log positions that must be reached before the taken messages are sent.
    log_positions: Vec<LogPosition>,
    is_monitor: bool,
}

impl Subscription {
    /// An empty subscription with a queue.
    pub fn new(pubsub: Arc<PubSub>, subscriber: Arc<Subscriber>) -> Self {
        Self {
            pubsub,
            subscriber,
            names: Default::default(),
            name_bytes: 0,
            log_positions: Vec::new(),
            is_monitor: false,
        }
    }

    /// The queue.
    pub fn subscriber(&self) -> &Arc<Subscriber> {
        &self.subscriber
    }

    /// Whether it is subscribed to anything.
    pub fn is_active(&self) -> bool {
        self.names.iter().any(|names| !names.is_empty())
    }

    /// Whether it is a monitor.
    pub fn is_monitor(&self) -> bool {
        self.is_monitor
    }

    /// Becomes a monitor: O(1).
    pub fn monitor(&mut self) {
        self.pubsub.add_monitor(&self.subscriber);
        self.is_monitor = true;
    }

    /// How many names the replies about a kind count: channels and patterns together, shard channels separately.
    pub fn count(&self, kind: Kind) -> usize {
        let len = |kind: Kind| self.names[kind as usize].len();
        match kind {
            Kind::Channel | Kind::Pattern => len(Kind::Channel) + len(Kind::Pattern),
            Kind::ShardChannel => len(Kind::ShardChannel),
        }
    }

    /// Subscribes to a name, unless it is already: O(1).
    pub fn add(&mut self, kind: Kind, name: &[u8]) {
        if !self.names[kind as usize].contains(name) {
            let name = self.pubsub.add(kind, name, &self.subscriber);
            self.name_bytes += name.len();
            self.names[kind as usize].insert(name);
            self.send_names(kind);
        }
    }

    /// Unsubscribes from a name: O(1). None of its messages are put into the queue afterwards.
    pub fn remove(&mut self, kind: Kind, name: &[u8]) {
        if self.names[kind as usize].swap_remove(name) {
            self.pubsub.remove(kind, name, self.subscriber.id());
            self.name_bytes -= name.len();
            self.send_names(kind);
        }
    }

    /// The name of a kind that was added last.
    pub fn last(&self, kind: Kind) -> Option<Arc<[u8]>> {
        self.names[kind as usize].last().cloned()
    }

    /// Is no monitor any more; returns whether it was one. O(1)
    pub fn end_monitoring(&mut self) -> bool {
        let was_monitor = std::mem::take(&mut self.is_monitor);
        if was_monitor {
            self.pubsub.remove_monitor(self.subscriber.id());
        }
        was_monitor
    }

    /// Unsubscribes from everything.
    pub fn clear(&mut self) {
        self.end_monitoring();
        for kind in Kind::ALL {
            for name in std::mem::take(&mut self.names[kind as usize]) {
                self.pubsub.remove(kind, &name, self.subscriber.id());
                self.name_bytes -= name.len();
            }
            self.send_names(kind);
        }
    }

    /// Appends messages to `out`: see [`Subscriber::take`]. They may be sent when the log has reached
    /// [`take_log_positions`](Self::take_log_positions).
    pub fn take_messages(&mut self, last: u64, resp3: bool, out: &mut Vec<u8>, room: usize) -> bool {
        self.subscriber.take(last, resp3, out, room, &mut self.log_positions)
    }

    /// Appends all messages in the queue.
    pub fn take_all_messages(&mut self, resp3: bool, out: &mut Vec<u8>) {
        let (last, is_empty) = self.subscriber.received();
        if !is_empty {
            self.take_messages(last, resp3, out, usize::MAX);
        }
    }

    /// The log positions that must be reached before anything else is sent.
    pub fn take_log_positions(&mut self) -> Vec<LogPosition> {
        std::mem::take(&mut self.log_positions)
    }

    fn send_names(&self, kind: Kind) {
        self.subscriber.set_names(kind, self.names[kind as usize].len(), self.name_bytes);
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.clear();
    }
}
