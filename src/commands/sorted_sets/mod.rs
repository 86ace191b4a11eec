//! Sorted sets.

mod add;
mod blocking;
mod combine;
mod pop;
mod random;
mod range;

pub use add::{ScoreOptions, add_elements, zadd, zincrby};
pub use blocking::{bzmpop, bzpopmax, bzpopmin, pop_waiting};
pub use combine::{zdiff, zdiffstore, zinter, zintercard, zinterstore, zunion, zunionstore};
pub use pop::{zmpop, zpopmax, zpopmin};
pub use random::zrandmember;
pub use range::{
    zcount, zlexcount, zrange, zrangebylex, zrangebyscore, zrangestore, zremrangebylex, zremrangebyrank,
    zremrangebyscore, zrevrange, zrevrangebylex, zrevrangebyscore,
};

use super::arguments::is;
use super::{CommandError, Outcome};
use crate::keyspace::{Class, Collection, Entry, Keyspace, NewValue, SortedSet, Store};
use crate::resp::{Args, Reply};

/// ZREM key member [member ...]: O(M * log N), M = members given
pub fn zrem<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let key = &args[1];
    let Some(set) = keyspace.collection_mut::<SortedSet>(key)? else {
        reply.integer(0);
        return Ok(());
    };
    let removed = args.from(2).iter().filter(|&member| set.remove(member).is_some()).count();
    end_removal(keyspace, key, removed, "zrem");
    reply.count(removed);
    Ok(())
}

/// Ends a command that took elements out of the sorted set of a key, which is told as `event`.
fn end_removal<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8], removed: usize, event: &'static str) {
    if removed > 0 {
        keyspace.notify(Class::ZSET, event, key);
    }
    if keyspace.collection_mut::<SortedSet>(key).ok().flatten().is_some_and(SortedSet::shrink) {
        keyspace.remove_emptied(key);
    }
    keyspace.note_change(key, removed);
}

/// ZCARD key: O(1)
pub fn zcard<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.count(keyspace.read_collection::<SortedSet>(&args[1])?.map_or(0, SortedSet::len));
    Ok(())
}

/// ZSCORE key member: O(1)
pub fn zscore<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let set = keyspace.read_collection::<SortedSet>(&args[1])?;
    reply_score(set, &args[2], reply);
    Ok(())
}

/// ZMSCORE key member [member ...]: O(N), N = members given
pub fn zmscore<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let set = keyspace.read_collection::<SortedSet>(&args[1])?;
    reply.array(args.len() - 2);
    args.from(2).iter().for_each(|member| reply_score(set, member, reply));
    Ok(())
}

fn reply_score(set: Option<&SortedSet>, member: &[u8], reply: &mut Reply<'_>) {
    match set.and_then(|set| set.score(member)) {
        Some(score) => reply.double(score),
        None => reply.null(),
    }
}

/// ZRANK key member [WITHSCORE]: O(log N)
pub fn zrank<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    rank_of(keyspace, args, reply, |rank, _| rank)
}

/// ZREVRANK key member [WITHSCORE]: O(log N)
pub fn zrevrank<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    rank_of(keyspace, args, reply, |rank, len| len - 1 - rank)
}

fn rank_of<S: Store>(
    keyspace: &mut Keyspace<S>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    count: fn(usize, usize) -> usize,
) -> Outcome {
    let with_score = match args.len() {
        3 => false,
        4 if args.is(3, "WITHSCORE") => true,
        4 => return Err(CommandError::Syntax),
        _ => return Err(CommandError::Arity(String::from_utf8_lossy(&args[0]).to_lowercase())),
    };
    let set = keyspace.read_collection::<SortedSet>(&args[1])?;
    match set.and_then(|set| Some((set.rank(&args[2])?, set.len()))) {
        Some(((rank, score), len)) if with_score => {
            reply.array(2);
            reply.count(count(rank, len));
            reply.double(score);
        }
        Some(((rank, _), len)) => reply.count(count(rank, len)),
        None if with_score => reply.null_array(),
        None => reply.null(),
    }
    Ok(())
}

/// Stores a sorted set in place of whatever a key holds, which is told as `event`, and replies its length; one that is
/// empty removes the key.
pub fn store_result<S: Store>(
    keyspace: &mut Keyspace<S>,
    key: &[u8],
    set: SortedSet,
    event: &'static str,
    reply: &mut Reply<'_>,
) {
    let len = set.len();
    if len > 0 {
        keyspace.set(key, NewValue::Object(set.into_object()), None);
        keyspace.note_change(key, len);
        keyspace.notify(Class::ZSET, event, key);
    } else if keyspace.remove(key) {
        keyspace.note_change(key, 1);
        keyspace.notify(Class::GENERIC, "del", key);
    }
    reply.count(len);
}

/// How members with scores are replied: in RESP3 pairs are arrays of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    Members,
    /// One array of members and scores in turn.
    Flat,
    /// An array of pairs.
    Pairs,
}

impl Shown {
    /// As WITHSCORES asks for.
    fn with_scores(with_scores: bool, reply: &Reply<'_>) -> Self {
        match (with_scores, reply.is_resp3()) {
            (false, _) => Self::Members,
            (true, false) => Self::Flat,
            (true, true) => Self::Pairs,
        }
    }

    fn head(self, len: usize, reply: &mut Reply<'_>) {
        reply.array(if self == Self::Flat { 2 * len } else { len });
    }

    fn element(self, member: &[u8], score: f64, reply: &mut Reply<'_>) {
        if self == Self::Pairs {
            reply.array(2);
        }
        reply.bulk(member);
        if self != Self::Members {
            reply.double(score);
        }
    }

    fn all<'a>(self, elements: impl ExactSizeIterator<Item = (Entry<'a>, f64)>, reply: &mut Reply<'_>) {
        self.head(elements.len(), reply);
        elements.for_each(|(member, score)| self.element(member.bytes(&mut itoa::Buffer::new()), score, reply));
    }
}

/// Whether an argument is WITHSCORES.
fn is_with_scores(argument: &[u8]) -> bool {
    is(argument, "WITHSCORES")
}
