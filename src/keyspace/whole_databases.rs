//! Changes of whole databases: flushing, replacing and exchanging them, with those that wait for their keys.

use super::{Keyspace, Node, Removal, Store, hash_of};

/// Removes all keys of the selected database; each counts as a change.
pub fn clear_database<S: Store>(keyspace: &mut Keyspace<S>, removal: Removal) {
    keyspace.stats.changes += keyspace.store.len() as u64;
    notify_all_key_waiters(keyspace);
    removal.clear(&mut keyspace.store);
}

/// Replaces all nodes by others with their databases and uses. Their contents are the same: there are no notifications,
/// and nothing is logged. O(N)
pub fn replace_all<S: Store>(keyspace: &mut Keyspace<S>, nodes: impl Iterator<Item = (usize, Node)>) {
    keyspace.within_each(|keyspace| Removal::Synchronized.clear(&mut keyspace.store));
    for (database, node) in nodes {
        keyspace.within(database, |keyspace| keyspace.store.insert_with_deadline(hash_of(node.key()), node));
    }
}

/// Replaces all nodes by different ones with their databases, and notifies the key waiters of each key that existed
/// before or does now. Nothing is logged. O(N)
pub fn replace_by_others<S: Store>(keyspace: &mut Keyspace<S>, nodes: impl Iterator<Item = (usize, Node)>) {
    keyspace.note_flushed();
    keyspace.within_each(notify_all_key_waiters);
    replace_all(keyspace, nodes);
    keyspace.within_each(notify_all_key_waiters);
}

/// Notifies the key waiters of all existing keys of the selected database.
fn notify_all_key_waiters<S: Store>(keyspace: &mut Keyspace<S>) {
    for key in keyspace.store.listened_keys() {
        if keyspace.contains(&key) {
            keyspace.notify_key_waiters(&key);
        }
    }
}

/// Exchanges two databases, and notifies the key waiters of each key that exists before or after.
pub fn swap_databases<S: Store>(keyspace: &mut Keyspace<S>, one: usize, other: usize) {
    keyspace.stats.changes += 1;
    // Exchanging a database with itself changes nothing: there are no notifications.
    if one == other {
        return;
    }
    // Expired keys are removed first, so that their removal is seen in the right database.
    let listened = [one, other].map(|database| keyspace.within(database, |keyspace| keyspace.store.listened_keys()));
    for key in listened.concat() {
        for database in [one, other] {
            keyspace.within(database, |keyspace| keyspace.contains(&key));
        }
    }
    keyspace.store.swap(one, other);
    keyspace.note_flushed();
    for (database, swapped) in [(one, other), (other, one)] {
        for key in keyspace.within(database, |keyspace| keyspace.store.listened_keys()) {
            let was_there = keyspace.within(swapped, |keyspace| keyspace.contains(&key));
            keyspace.within(database, |keyspace| {
                if keyspace.contains(&key) || was_there {
                    keyspace.notify_key_waiters(&key);
                }
            });
        }
    }
}
