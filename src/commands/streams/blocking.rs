//! Readers that wait for entries: XREAD and XREADGROUP with BLOCK.
//!
//! Reading removes nothing for other readers of a stream, so all readers that wait for it are checked when it changes,
//! in order of arrival; those of one group find what earlier ones have left. A reader is served where the change
//! happened, with the entries of the streams there: if its other streams change at the same time on other shards, the
//! first to claim it serves it. A reader for a group is notified when the group is gone.

use super::read::{is_ready_at, write_reading};
use crate::keyspace::{BECAME_REPLICA, KeyWaiters, Keyspace, Reader, Store, Stream, hash_of};
use crate::resp::Reply;
use std::sync::Arc;

/// Serves the readers of streams that have changed.
pub fn serve_readers<S: Store>(keyspace: &mut Keyspace<S>) {
    if keyspace.ready.is_empty() {
        return;
    }
    for (database, key) in keyspace.ready.distinct() {
        keyspace.within(database, |keyspace| {
            let readers = |key_waiters: &mut KeyWaiters| key_waiters.readers(&key);
            for reader in keyspace.store.with_key_waiters(hash_of(&key), &key, readers) {
                serve(keyspace, &key, &reader);
            }
        });
    }
}

fn serve<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8], Reader { waiter, reading }: &Reader) {
    if reading.group.is_some() && keyspace.turn.due_keys.only_master_writes() {
        // It may be over already.
        _ = waiter.refuse(BECAME_REPLICA);
        return;
    }
    let is_stream = keyspace.peek(key).is_some_and(|node| node.collection::<Stream>().is_ok());
    if !is_stream && reading.group.is_none() {
        return;
    }
    let ready = is_ready_at(keyspace, key, reading);
    if matches!(ready, Ok(false)) || !waiter.claim() {
        return;
    }
    let mut encoded = Vec::new();
    let reply = &mut Reply::new(&mut encoded, waiter.resp3());
    match ready {
        Ok(_) => write_reading(keyspace, reading, reply),
        Err(error) => {
            keyspace.instance().calls.note_error(&error);
            reply.error(error);
        }
    }
    keyspace.effects.end_serving();
    keyspace.served.push(Arc::clone(waiter), encoded);
}
