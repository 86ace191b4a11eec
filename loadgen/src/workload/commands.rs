//! The commands of a load: their names, and how their replies are judged.

use crate::resp::{Elements, ReplyKind};

/// How many different commands a load may have.
pub(crate) const COMMANDS_MAX: usize = 32;

/// The place of a command in its load: below [`COMMANDS_MAX`].
pub(crate) type CommandId = u8;

/// `SET key value`, in a load of pairs.
pub(crate) const SET: CommandId = 0;
/// `GET key`, in a load of pairs.
pub(crate) const GET: CommandId = 1;
/// `MSET key value [key value ...]`, in a load of pairs.
pub(crate) const MSET: CommandId = 2;
/// `MGET key [key ...]`, in a load of pairs.
pub(crate) const MGET: CommandId = 3;

/// A command of a load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandSpec {
    /// Its name in reports, and the tag of its histograms.
    pub name: String,
    /// How its replies are judged.
    pub replies: ReplyRule,
}

/// What the replies to a command may be, and which of them are hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyRule {
    /// A status: SET.
    Status,
    /// A string or a null: GET.
    Value,
    /// An array with an element for each of this many keys: MGET.
    Values(u64),
    /// Any reply; a null or an empty aggregate is a miss, everything else a hit: HGETALL, LPOP, ZRANGE.
    Lookup,
    /// An array whose nulls are misses: HMGET.
    Fields,
    /// Any reply, neither a hit nor a miss.
    Any,
}

/// The verdict of a reply on its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Done,
    Found { hits: u64, misses: u64 },
    Error,
}

/// Commands for which every reply except an empty one is a hit.
const LOOKUPS: [&str; 34] = [
    "GETDEL",
    "GETEX",
    "GETRANGE",
    "HGET",
    "HGETALL",
    "HKEYS",
    "HRANDFIELD",
    "HVALS",
    "LINDEX",
    "LPOP",
    "LRANGE",
    "RPOP",
    "SDIFF",
    "SINTER",
    "SMEMBERS",
    "SPOP",
    "SRANDMEMBER",
    "SUNION",
    "XRANGE",
    "XREAD",
    "XREVRANGE",
    "ZPOPMAX",
    "ZPOPMIN",
    "ZRANDMEMBER",
    "ZRANGE",
    "ZRANGEBYLEX",
    "ZRANGEBYSCORE",
    "ZRANK",
    "ZREVRANGE",
    "ZREVRANGEBYSCORE",
    "ZREVRANK",
    "ZSCORE",
    "RPOPLPUSH",
    "LMOVE",
];

impl ReplyRule {
    /// The rule of a command with this first word, in capitals.
    pub(crate) fn of(word: &str) -> Self {
        match word {
            "GET" => Self::Value,
            "MGET" | "HMGET" => Self::Fields,
            _ if LOOKUPS.contains(&word) => Self::Lookup,
            _ => Self::Any,
        }
    }

    /// The verdict on a reply; `None` if it cannot answer the command.
    #[inline]
    pub(crate) fn judge(self, reply: ReplyKind, elements: impl Fn() -> Elements) -> Option<Verdict> {
        const HIT: Option<Verdict> = Some(Verdict::Found { hits: 1, misses: 0 });
        const MISS: Option<Verdict> = Some(Verdict::Found { hits: 0, misses: 1 });
        match (self, reply) {
            (_, ReplyKind::Error) => Some(Verdict::Error),
            (Self::Status, ReplyKind::Simple) => Some(Verdict::Done),
            (Self::Value | Self::Lookup, ReplyKind::Null) => MISS,
            (Self::Value, ReplyKind::Bulk) => HIT,
            (Self::Values(keys), ReplyKind::Array) => {
                let Elements { count, nulls } = elements();
                (count == keys).then_some(Verdict::Found { hits: count - nulls, misses: nulls })
            }
            (Self::Lookup, ReplyKind::Array | ReplyKind::Aggregate) if elements().count == 0 => MISS,
            (Self::Lookup, _) => HIT,
            (Self::Fields, ReplyKind::Array) => {
                let Elements { count, nulls } = elements();
                Some(Verdict::Found { hits: count - nulls, misses: nulls })
            }
            (Self::Any, _) => Some(Verdict::Done),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(word: &str, reply: ReplyKind, count: u64, nulls: u64) -> Option<Verdict> {
        ReplyRule::of(word).judge(reply, || Elements { count, nulls })
    }

    #[test]
    fn hits_are_what_a_command_finds() {
        let found = |hits, misses| Some(Verdict::Found { hits, misses });
        assert_eq!(judge("GET", ReplyKind::Bulk, 0, 0), found(1, 0));
        assert_eq!(judge("GET", ReplyKind::Null, 0, 0), found(0, 1));
        assert_eq!(judge("GET", ReplyKind::Integer, 0, 0), None);
        assert_eq!(judge("HGETALL", ReplyKind::Array, 0, 0), found(0, 1));
        assert_eq!(judge("HGETALL", ReplyKind::Aggregate, 4, 0), found(1, 0));
        assert_eq!(judge("ZRANK", ReplyKind::Integer, 0, 0), found(1, 0));
        assert_eq!(judge("HMGET", ReplyKind::Array, 5, 2), found(3, 2));
        assert_eq!(judge("HSET", ReplyKind::Integer, 0, 0), Some(Verdict::Done));
        assert_eq!(judge("HGETALL", ReplyKind::Error, 0, 0), Some(Verdict::Error));
        assert_eq!(ReplyRule::Values(3).judge(ReplyKind::Array, || Elements { count: 2, nulls: 0 }), None);
    }
}
