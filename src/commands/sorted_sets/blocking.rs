//! BZPOPMIN, BZPOPMAX and BZMPOP: see [`crate::commands::blocking`].

use super::pop::{end_and_count, reply_with_key, take};
use crate::commands::arguments::number_of_keys;
use crate::commands::blocking::{claim_own_wait, parse_timeout, wait_for};
use crate::commands::{CommandError, Outcome};
use crate::keyspace::{BlockedOperation, End, Keyspace, SortedSet, Store};
use crate::resp::{Args, Reply};

/// BZPOPMIN key [key ...] timeout: O(K + log N), K = keys
pub fn bzpopmin<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    pop_first(keyspace, args, End::Head, reply)
}

/// BZPOPMAX key [key ...] timeout: O(K + log N), K = keys
pub fn bzpopmax<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    pop_first(keyspace, args, End::Tail, reply)
}

fn pop_first<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, end: End, reply: &mut Reply<'_>) -> Outcome {
    let last = args.len() - 1;
    parse_timeout(&args[last], keyspace.turn.now_ms())?;
    let keys = args.from(1).iter().take(last - 1);
    pop_or_wait(keyspace, keys, &BlockedOperation::PopElement(end), reply)
}

/// BZMPOP timeout numkeys key [key ...] <MIN | MAX> [COUNT count]: O(K) + O(M * log N), K = keys, M = elements taken
pub fn bzmpop<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let keys = number_of_keys(&args[2])?;
    let (end, most) = end_and_count(args, keys.saturating_add(3))?;
    parse_timeout(&args[1], keyspace.turn.now_ms())?;
    pop_or_wait(keyspace, args.from(3).iter().take(keys), &BlockedOperation::PopElements(end, most), reply)
}

fn pop_or_wait<'k, S: Store>(
    keyspace: &mut Keyspace<S>,
    keys: impl Iterator<Item = &'k [u8]> + Clone,
    operation: &BlockedOperation,
    reply: &mut Reply<'_>,
) -> Outcome {
    for key in keys.clone() {
        if has_elements(keyspace, key)? {
            claim_own_wait(keyspace, key)?;
            pop_waiting(keyspace, key, operation, reply);
            return Ok(());
        }
    }
    wait_for(keyspace, keys, operation, reply)
}

fn has_elements<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8]) -> Result<bool, CommandError> {
    Ok(keyspace.collection_mut::<SortedSet>(key)?.is_some())
}

/// Performs an operation on the sorted set of a key, which has elements.
pub fn pop_waiting<S: Store>(
    keyspace: &mut Keyspace<S>,
    key: &[u8],
    operation: &BlockedOperation,
    reply: &mut Reply<'_>,
) {
    match *operation {
        BlockedOperation::PopElement(end) => {
            let taken = take(keyspace, key, end, 1);
            let (member, score) = taken.only();
            reply.array(3);
            reply.bulk(key);
            reply.bulk(member);
            reply.double(score);
        }
        BlockedOperation::PopElements(end, most) => reply_with_key(keyspace, key, end, most, reply),
        BlockedOperation::Pop(_) | BlockedOperation::PopMany(..) | BlockedOperation::Move(..) => {
            unreachable!("the operation is for a sorted set")
        }
    }
}
