//! How values are removed: at once or on a thread of their own, and as which command in the log.

use super::settings::FreedLater;
use super::{Instance, Node, Store, Value};
use crate::base::lengthy;
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

    /// The removal of a key as an effect: UNLINK where its value is freed later, so that a replica does the same.
    pub(super) fn effect<'k>(self, key: &'k [u8], instance: &Instance) -> [&'k [u8]; 2] {
        [if self.frees_later(&instance.settings.freed_later) { b"UNLINK" } else { b"DEL" }, key]
    }

    /// Frees a node that was removed.
    #[inline]
    pub(super) fn free(self, node: Node, instance: &Instance) {
        if matches!(node.value(), Value::Object(_)) {
            self.free_collection(node, instance);
        }
    }

    #[inline(never)]
    fn free_collection(self, node: Node, instance: &Instance) {
        let elements = node.value().elements();
        if self.frees_later(&instance.settings.freed_later) && node.value().allocations() > FREED_AT_ONCE {
            free_later(1, elements, Box::new(node), instance);
        } else {
            lengthy::run(elements, || drop(node));
        }
    }

    /// Removes all nodes of the selected database.
    pub(super) fn clear<S: Store>(self, store: &mut S) {
        let len = store.len();
        let mut removed = Vec::new();
        store.clear(&mut |nodes| removed.push(nodes));
        if removed.is_empty() {
            // A snapshot frees them as it goes on.
            return;
        }
        if self.frees_later(&store.instance().settings.freed_later) {
            free_later(len, len, Box::new(removed), store.instance());
        } else {
            lengthy::run(len, || drop(removed));
        }
    }
}

fn free_later(objects: usize, elements: usize, values: Box<dyn Send>, instance: &Instance) {
    if let Err(values) = instance.freeing.take(objects as u64, values) {
        lengthy::run(elements, || drop(values));
    }
}
