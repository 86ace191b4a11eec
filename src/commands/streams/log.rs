//! What the log is told of consumers.
//!
//! ```text
//! XCLAIM key group consumer 0 id … TIME ms RETRYCOUNT n FORCE JUSTID SEEN ms ACTIVE ms
//! XACK key group id …
//! XGROUP SETID key group last-id ENTRIESREAD n
//! ```
//!
//! SEEN and ACTIVE are of the log alone: clients are told that there is no such option. A consumer that asks and gets
//! nothing is logged when it is new; that an old one was seen again is not worth a write.

use crate::keyspace::stream::{Group, StreamId};
use crate::keyspace::{Keyspace, Store};

/// A consumer of a group, by names.
#[derive(Debug, Clone, Copy)]
pub struct Owner<'a> {
    pub key: &'a [u8],
    pub group: &'a [u8],
    pub consumer: &'a [u8],
}

/// What a consumer was given: the entries, each with how often it was given by now.
pub type Given = [(StreamId, u64)];

/// Tells which entries a consumer has since `delivered_ms`, and when it was seen and active.
pub fn tell_given<S: Store>(keyspace: &mut Keyspace<S>, owner: Owner<'_>, given: &Given, delivered_ms: i64) {
    if !keyspace.effects().is_logged() {
        return;
    }
    let now_ms = keyspace.now_ms().to_string();
    if given.is_empty() {
        keyspace.effects().tell(claim_of(owner, &[b"SEEN", now_ms.as_bytes()]));
    }
    let time = delivered_ms.to_string();
    for same in given.chunk_by(|one, other| one.1 == other.1) {
        let ids: Vec<String> = same.iter().map(|(id, _)| id.to_string()).collect();
        let deliveries = (same[0].1 as i64).to_string();
        let mut effect: Vec<&[u8]> = ids.iter().map(String::as_bytes).collect();
        effect.extend([b"TIME".as_slice(), time.as_bytes(), b"RETRYCOUNT", deliveries.as_bytes()]);
        effect.extend([b"FORCE".as_slice(), b"JUSTID", b"SEEN", now_ms.as_bytes(), b"ACTIVE", now_ms.as_bytes()]);
        keyspace.effects().tell(claim_of(owner, &effect));
    }
}

fn claim_of<'a>(owner: Owner<'a>, rest: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let mut effect: Vec<&[u8]> = vec![b"XCLAIM", owner.key, owner.group, owner.consumer, b"0"];
    effect.extend_from_slice(rest);
    effect
}

/// Tells that entries are no longer pending.
pub fn tell_gone<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8], group: &[u8], ids: &[StreamId]) {
    if ids.is_empty() || !keyspace.effects().is_logged() {
        return;
    }
    let ids: Vec<String> = ids.iter().map(StreamId::to_string).collect();
    let mut effect: Vec<&[u8]> = vec![b"XACK", key, group];
    effect.extend(ids.iter().map(String::as_bytes));
    keyspace.effects().tell(effect);
}

/// Tells how far a group has read.
pub fn tell_progress<S: Store>(
    keyspace: &mut Keyspace<S>,
    key: &[u8],
    group: &[u8],
    last_id: StreamId,
    entries_read: Option<i64>,
) {
    let (last_id, read) = (last_id.to_string(), entries_read.unwrap_or(-1).to_string());
    let effect = [b"XGROUP".as_slice(), b"SETID", key, group, last_id.as_bytes(), b"ENTRIESREAD", read.as_bytes()];
    keyspace.effects().tell(effect);
}

/// Gives entries to a consumer that is there, in memory; the caller tells the log.
pub fn give(group: &mut Group, consumer: &[u8], given: &Given, delivered_ms: i64) {
    given.iter().for_each(|&(id, deliveries)| group.assign(id, consumer, delivered_ms, deliveries));
}
