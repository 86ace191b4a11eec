//! The effects of consumers in the log.
//!
//! ```text
//! XCLAIM key group consumer 0 id … TIME ms RETRYCOUNT n FORCE JUSTID SEEN ms [ACTIVE ms]
//! XACK key group id …
//! XGROUP SETID key group last-id ENTRIESREAD n
//! ```
//!
//! SEEN and ACTIVE are only in the log: clients get an error for these options. A request of a consumer that returns
//! nothing is logged if the consumer is new; that an old one was seen again is not worth a write.

use crate::keyspace::values::stream::{Group, StreamId};
use crate::keyspace::{Keyspace, Store};

/// A consumer of a group, by names.
#[derive(Debug, Clone, Copy)]
pub struct Owner<'a> {
    pub key: &'a [u8],
    pub group: &'a [u8],
    pub consumer: &'a [u8],
}

/// The entries delivered to a consumer, each with its number of deliveries so far.
pub type Given = [(StreamId, u64)];

/// Adds the effects of which entries a consumer has since `delivered_ms`; it was seen and active now.
pub fn record_given<S: Store>(keyspace: &mut Keyspace<S>, owner: Owner<'_>, given: &Given, delivered_ms: i64) {
    record_claim(keyspace, owner, given, delivered_ms, true);
}

/// Adds the effects of which entries a consumer received again: it was seen, but not active.
pub fn record_given_again<S: Store>(keyspace: &mut Keyspace<S>, owner: Owner<'_>, given: &Given, delivered_ms: i64) {
    record_claim(keyspace, owner, given, delivered_ms, false);
}

fn record_claim<S: Store>(
    keyspace: &mut Keyspace<S>,
    owner: Owner<'_>,
    given: &Given,
    delivered_ms: i64,
    is_active: bool,
) {
    if !keyspace.effects.is_logged() {
        return;
    }
    let now_ms = keyspace.turn.now_ms().to_string();
    let head = [b"XCLAIM".as_slice(), owner.key, owner.group, owner.consumer, b"0"];
    if given.is_empty() {
        keyspace.effects.record(head.into_iter().chain([b"SEEN".as_slice(), now_ms.as_bytes()]).collect::<Vec<_>>());
    }
    let time = delivered_ms.to_string();
    for same in given.chunk_by(|one, other| one.1 == other.1) {
        let ids: Vec<String> = same.iter().map(|(id, _)| id.to_string()).collect();
        let deliveries = (same[0].1 as i64).to_string();
        let [time, deliveries, now_ms] = [&time, &deliveries, &now_ms].map(String::as_bytes);
        let tail = [b"TIME".as_slice(), time, b"RETRYCOUNT", deliveries, b"FORCE", b"JUSTID", b"SEEN", now_ms];
        let active = [b"ACTIVE".as_slice(), now_ms];
        let tail = [&tail[..], if is_active { &active } else { &[] }].concat();
        keyspace.effects.record_over(&head, ids.iter().map(String::as_bytes), &tail);
    }
}

/// Adds the effect that entries are no longer pending.
pub fn record_gone<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8], group: &[u8], ids: &[StreamId]) {
    if ids.is_empty() || !keyspace.effects.is_logged() {
        return;
    }
    let ids: Vec<String> = ids.iter().map(StreamId::to_string).collect();
    keyspace.effects.record_over(&[b"XACK", key, group], ids.iter().map(String::as_bytes), &[]);
}

/// Adds the effect of how far a group has read.
pub fn record_progress<S: Store>(
    keyspace: &mut Keyspace<S>,
    key: &[u8],
    group: &[u8],
    last_id: StreamId,
    entries_read: Option<i64>,
) {
    let (last_id, read) = (last_id.to_string(), entries_read.unwrap_or(-1).to_string());
    let effect = [b"XGROUP".as_slice(), b"SETID", key, group, last_id.as_bytes(), b"ENTRIESREAD", read.as_bytes()];
    keyspace.effects.record(effect);
}

/// Assigns entries to an existing consumer, in memory only; the caller logs it.
pub fn give(group: &mut Group, consumer: &[u8], given: &Given, delivered_ms: i64) {
    given.iter().for_each(|&(id, deliveries)| group.assign(id, consumer, delivered_ms, deliveries));
}
