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
use super::flag_sets::{READ, READ_FAST, SHRINK, SHRINK_FAST, WAITING_TAKE, WRITE, WRITE_FAST};
use super::row::{Command, Flags, Group, Keys, Output, Pending, Request, Row, Run};
use super::{CommandError, Outcome};
use crate::commands::access;
use crate::commands::documentation::{Argument, arguments};
use crate::keyspace::{Class, Collection, Element, Keyspace, NewValue, SortedSet, Store};
use crate::resp::{Args, Reply};

/// How scores of several sets become one.
const AGGREGATES: &[Argument] = arguments![token("sum", "SUM"), token("min", "MIN"), token("max", "MAX")];

/// The arguments of ZUNION and ZINTER.
const COMBINED: &[Argument] = arguments![
    integer("numkeys"),
    key("key", 0).repeated(),
    integer("weight").after("WEIGHTS").repeated().optional(),
    one_of("aggregate", AGGREGATES).after("AGGREGATE").optional(),
    token("withscores", "WITHSCORES").optional(),
];
/// The arguments of ZUNIONSTORE and ZINTERSTORE.
const STORED: &[Argument] = arguments![
    key("destination", 0),
    integer("numkeys"),
    key("key", 1).repeated(),
    integer("weight").after("WEIGHTS").repeated().optional(),
    one_of("aggregate", AGGREGATES).after("AGGREGATE").optional(),
];

/// The rows of the commands here.
pub(super) const fn rows<S: Store>() -> [Row<S>; 34] {
    [
        Run::Keyspace(zadd).row(Command {
            name: "zadd",
            arity: -4,
            flags: WRITE_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "1.2.0",
            syntax: "key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]",
            arguments: arguments![
                key("key", 0),
                one_of("condition", arguments![token("nx", "NX"), token("xx", "XX")]).since("3.0.2").optional(),
                one_of("comparison", arguments![token("gt", "GT"), token("lt", "LT")]).since("6.2.0").optional(),
                token("change", "CH").since("3.0.2").optional(),
                token("increment", "INCR").since("3.0.2").optional(),
                block("data", arguments![double("score"), string("member")]).repeated(),
            ],
            complexity: "O(M * log N), M = members given",
            summary: "Gives members scores.",
            ..Command::of(Group::SortedSet)
        }),
        Run::Keyspace(zincrby).row(Command {
            name: "zincrby",
            arity: 4,
            flags: WRITE_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "1.2.0",
            syntax: "key increment member",
            arguments: arguments![key("key", 0), integer("increment"), string("member")],
            complexity: "O(log N)",
            summary: "Adds to the score of a member.",
            access: Some(access::READ_UPDATE),
            ..Command::of(Group::SortedSet)
        }),
        Run::Keyspace(zrem).row(Command {
            name: "zrem",
            arity: -3,
            flags: SHRINK_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "1.2.0",
            syntax: "key member [member ...]",
            arguments: arguments![key("key", 0), string("member").repeated()],
            complexity: "O(M * log N), M = members given",
            summary: "Removes members from a sorted set.",
            access: Some(access::DELETE),
            ..Command::of(Group::SortedSet)
        }),
        Run::Keyspace(zcard).row(Command {
            name: "zcard",
            arity: 2,
            flags: READ_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "1.2.0",
            syntax: "key",
            arguments: arguments![key("key", 0)],
            complexity: "O(1)",
            summary: "How many members a sorted set has.",
            access: Some(access::LOOK),
            ..Command::of(Group::SortedSet)
        }),
        Run::Keyspace(zscore).row(Command {
            name: "zscore",
            arity: 3,
            flags: READ_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "1.2.0",
            syntax: "key member",
            arguments: arguments![key("key", 0), string("member")],
            complexity: "O(1)",
            summary: "The score of a member.",
            ..Command::of(Group::SortedSet)
        }),
        Run::Keyspace(zmscore).row(Command {
            name: "zmscore",
            arity: -3,
            flags: READ_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "6.2.0",
            syntax: "key member [member ...]",
            arguments: arguments![key("key", 0), string("member").repeated()],
            complexity: "O(N), N = members given",
            summary: "The scores of several members.",
            ..Command::of(Group::SortedSet)
        }),
        Run::Keyspace(zrank).row(Command {
            name: "zrank",
            arity: -3,
            flags: READ_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "2.0.0",
            syntax: "key member [WITHSCORE]",
            arguments: arguments![key("key", 0), string("member"), token("withscore", "WITHSCORE").optional()],
            complexity: "O(log N)",
            summary: "How many members come before a member.",
            ..Command::of(Group::SortedSet)
        }),
        Run::Keyspace(zrevrank).row(Command {
            name: "zrevrank",
            arity: -3,
            flags: READ_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "2.0.0",
            syntax: "key member [WITHSCORE]",
            arguments: arguments![key("key", 0), string("member"), token("withscore", "WITHSCORE").optional()],
            complexity: "O(log N)",
            summary: "How many members come after a member.",
            ..Command::of(Group::SortedSet)
        }),
        Run::Keyspace(zcount).row(Command {
            name: "zcount",
            arity: 4,
            flags: READ_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "2.0.0",
            syntax: "key min max",
            arguments: arguments![key("key", 0), double("min"), double("max")],
            complexity: "O(log N)",
            summary: "How many members have scores in a range.",
            ..Command::of(Group::SortedSet)
        }),
        Run::Keyspace(zlexcount).row(Command {
            name: "zlexcount",
            arity: 4,
            flags: READ_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "2.8.9",
            syntax: "key min max",
            arguments: arguments![key("key", 0), string("min"), string("max")],
            complexity: "O(log N)",
            summary: "How many members are in a range.",
            ..Command::of(Group::SortedSet)
        }),
        Run::Keyspace(zrange).row(Command {
            name: "zrange",
            arity: -4,
            flags: READ,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "1.2.0",
            syntax: "key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]",
            arguments: arguments![
                key("key", 0),
                string("start"),
                string("stop"),
                one_of("sortby", arguments![token("byscore", "BYSCORE"), token("bylex", "BYLEX")])
                    .since("6.2.0")
                    .optional(),
                token("rev", "REV").since("6.2.0").optional(),
                block("limit", arguments![integer("offset"), integer("count")])
                    .after("LIMIT")
                    .since("6.2.0")
                    .optional(),
                token("withscores", "WITHSCORES").optional(),
            ],
            complexity: "O(log N + M), M = members replied",
            summary: "The members of a range of ranks, of scores, or of members.",
            ..Command::of(Group::SortedSet)
        }),
        Run::Keyspace(zrangestore).row(Command {
            name: "zrangestore",
            arity: -5,
            flags: WRITE,
            keys: Keys::TWO,
            request: Request::MultiShardView,
            since: "6.2.0",
            syntax: "dst src min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]",
            arguments: arguments![
                key("dst", 0),
                key("src", 1),
                string("min"),
                string("max"),
                one_of("sortby", arguments![token("byscore", "BYSCORE"), token("bylex", "BYLEX")]).optional(),
                token("rev", "REV").optional(),
                block("limit", arguments![integer("offset"), integer("count")]).after("LIMIT").optional(),
            ],
            complexity: "O(log N + M), M = members stored",
            summary: "Stores the members of a range.",
            access: Some(access::STORE),
            ..Command::of(Group::SortedSet)
        }),
        Run::Keyspace(zrevrange).row(Command {
            name: "zrevrange",
            arity: -4,
            flags: READ,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "1.2.0",
            syntax: "key start stop [WITHSCORES]",
            arguments: arguments![
                key("key", 0),
                integer("start"),
                integer("stop"),
                token("withscores", "WITHSCORES").optional(),
            ],
            deprecated_since: Some("6.2.0"),
            complexity: "O(log N + M), M = members replied",
            summary: "The members of a range of ranks, from the highest score down.",
            ..Command::of(Group::SortedSet)
        }),
        Run::Keyspace(zrangebyscore).row(Command {
            name: "zrangebyscore",
            arity: -4,
            flags: READ,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "1.0.5",
            syntax: "key min max [WITHSCORES] [LIMIT offset count]",
            arguments: arguments![
                key("key", 0),
                double("min"),
                double("max"),
                token("withscores", "WITHSCORES").since("2.0.0").optional(),
                block("limit", arguments![integer("offset"), integer("count")]).after("LIMIT").optional(),
            ],
            deprecated_since: Some("6.2.0"),
            complexity: "O(log N + M), M = members replied",
            summary: "The members with scores in a range.",
            ..Command::of(Group::SortedSet)
        }),
        Run::Keyspace(zrevrangebyscore).row(Command {
            name: "zrevrangebyscore",
            arity: -4,
            flags: READ,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "2.2.0",
            syntax: "key max min [WITHSCORES] [LIMIT offset count]",
            arguments: arguments![
                key("key", 0),
                double("max"),
                double("min"),
                token("withscores", "WITHSCORES").optional(),
                block("limit", arguments![integer("offset"), integer("count")]).after("LIMIT").optional(),
            ],
            deprecated_since: Some("6.2.0"),
            complexity: "O(log N + M), M = members replied",
            summary: "The members with scores in a range, from the highest score down.",
            ..Command::of(Group::SortedSet)
        }),
        Run::Keyspace(zrangebylex).row(Command {
            name: "zrangebylex",
            arity: -4,
            flags: READ,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "2.8.9",
            syntax: "key min max [LIMIT offset count]",
            arguments: arguments![
                key("key", 0),
                string("min"),
                string("max"),
                block("limit", arguments![integer("offset"), integer("count")]).after("LIMIT").optional(),
            ],
            deprecated_since: Some("6.2.0"),
            complexity: "O(log N + M), M = members replied",
            summary: "The members in a range, where all scores are the same.",
            ..Command::of(Group::SortedSet)
        }),
        Run::Keyspace(zrevrangebylex).row(Command {
            name: "zrevrangebylex",
            arity: -4,
            flags: READ,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "2.8.9",
            syntax: "key max min [LIMIT offset count]",
            arguments: arguments![
                key("key", 0),
                string("max"),
                string("min"),
                block("limit", arguments![integer("offset"), integer("count")]).after("LIMIT").optional(),
            ],
            deprecated_since: Some("6.2.0"),
            complexity: "O(log N + M), M = members replied",
            summary: "The members in a range, the last first, where all scores are the same.",
            ..Command::of(Group::SortedSet)
        }),
        Run::Keyspace(zremrangebyrank).row(Command {
            name: "zremrangebyrank",
            arity: 4,
            flags: SHRINK,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "2.0.0",
            syntax: "key start stop",
            arguments: arguments![key("key", 0), integer("start"), integer("stop")],
            complexity: "O(M * log N), M = members removed",
            summary: "Removes the members of a range of ranks.",
            access: Some(access::DELETE),
            ..Command::of(Group::SortedSet)
        }),
        Run::Keyspace(zremrangebyscore).row(Command {
            name: "zremrangebyscore",
            arity: 4,
            flags: SHRINK,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "1.2.0",
            syntax: "key min max",
            arguments: arguments![key("key", 0), double("min"), double("max")],
            complexity: "O(M * log N), M = members removed",
            summary: "Removes the members with scores in a range.",
            access: Some(access::DELETE),
            ..Command::of(Group::SortedSet)
        }),
        Run::Keyspace(zremrangebylex).row(Command {
            name: "zremrangebylex",
            arity: 4,
            flags: SHRINK,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "2.8.9",
            syntax: "key min max",
            arguments: arguments![key("key", 0), string("min"), string("max")],
            complexity: "O(M * log N), M = members removed",
            summary: "Removes the members in a range, where all scores are the same.",
            access: Some(access::DELETE),
            ..Command::of(Group::SortedSet)
        }),
        Run::Keyspace(zpopmin).row(Command {
            name: "zpopmin",
            arity: -2,
            flags: SHRINK_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "5.0.0",
            syntax: "key [count]",
            arguments: arguments![key("key", 0), integer("count").optional()],
            complexity: "O(M * log N), M = members taken",
            summary: "Takes the members with the lowest scores.",
            access: Some(access::TAKE),
            ..Command::of(Group::SortedSet)
        }),
        Run::Keyspace(zpopmax).row(Command {
            name: "zpopmax",
            arity: -2,
            flags: SHRINK_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "5.0.0",
            syntax: "key [count]",
            arguments: arguments![key("key", 0), integer("count").optional()],
            complexity: "O(M * log N), M = members taken",
            summary: "Takes the members with the highest scores.",
            access: Some(access::TAKE),
            ..Command::of(Group::SortedSet)
        }),
        Run::Keyspace(zmpop).row(Command {
            name: "zmpop",
            arity: -4,
            flags: SHRINK,
            keys: Keys::COUNTED,
            request: Request::MultiShardView,
            since: "7.0.0",
            syntax: "numkeys key [key ...] <MIN | MAX> [COUNT count]",
            arguments: arguments![
                integer("numkeys"),
                key("key", 0).repeated(),
                one_of("where", arguments![token("min", "MIN"), token("max", "MAX")]),
                integer("count").after("COUNT").optional(),
            ],
            complexity: "O(K) + O(M * log N), K = keys, M = members taken",
            summary: "Takes members from the first sorted set that exists.",
            access: Some(access::TAKE),
            ..Command::of(Group::SortedSet)
        }),
        Run::Keyspace(bzpopmin).row(Command {
            name: "bzpopmin",
            arity: -3,
            flags: WAITING_TAKE.and(Flags::FAST),
            keys: Keys::BUT_LAST,
            request: Request::MultiShardView,
            since: "5.0.0",
            syntax: "key [key ...] timeout",
            arguments: arguments![key("key", 0).repeated(), double("timeout")],
            complexity: "O(K + log N), K = keys",
            summary: "Takes the member with the lowest score of the first sorted set that has one, or waits for one.",
            access: Some(access::TAKE),
            pending: Pending::AtKeys(super::blocking::timeout_last),
            ..Command::of(Group::SortedSet)
        }),
        Run::Keyspace(bzpopmax).row(Command {
            name: "bzpopmax",
            arity: -3,
            flags: WAITING_TAKE.and(Flags::FAST),
            keys: Keys::BUT_LAST,
            request: Request::MultiShardView,
            since: "5.0.0",
            syntax: "key [key ...] timeout",
            arguments: arguments![key("key", 0).repeated(), double("timeout")],
            complexity: "O(K + log N), K = keys",
            summary: "Takes the member with the highest score of the first sorted set that has one, or waits for one.",
            access: Some(access::TAKE),
            pending: Pending::AtKeys(super::blocking::timeout_last),
            ..Command::of(Group::SortedSet)
        }),
        Run::Keyspace(bzmpop).row(Command {
            name: "bzmpop",
            arity: -5,
            flags: WAITING_TAKE,
            keys: Keys::COUNTED_SECOND,
            request: Request::MultiShardView,
            since: "7.0.0",
            syntax: "timeout numkeys key [key ...] <MIN | MAX> [COUNT count]",
            arguments: arguments![
                double("timeout"),
                integer("numkeys"),
                key("key", 0).repeated(),
                one_of("where", arguments![token("min", "MIN"), token("max", "MAX")]),
                integer("count").after("COUNT").optional(),
            ],
            complexity: "O(K) + O(M * log N), K = keys, M = members taken",
            summary: "Takes members from the first sorted set that has some, or waits for some.",
            access: Some(access::TAKE),
            pending: Pending::AtKeys(super::blocking::timeout_first),
            ..Command::of(Group::SortedSet)
        }),
        Run::Keyspace(zrandmember).row(Command {
            name: "zrandmember",
            arity: -2,
            flags: READ,
            keys: Keys::ONE,
            request: Request::OneShard,
            output: Output::Varies,
            since: "6.2.0",
            syntax: "key [count [WITHSCORES]]",
            arguments: arguments![
                key("key", 0),
                block("options", arguments![integer("count"), token("withscores", "WITHSCORES").optional()]).optional(),
            ],
            complexity: "O(M * log N), M = members replied",
            summary: "Random members of a sorted set.",
            ..Command::of(Group::SortedSet)
        }),
        Run::Keyspace(zunion).row(Command {
            name: "zunion",
            arity: -3,
            flags: READ,
            keys: Keys::COUNTED,
            request: Request::MultiShardView,
            since: "6.2.0",
            syntax: "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>] [WITHSCORES]",
            arguments: COMBINED,
            complexity: "O(N * log N), N = members of all",
            summary: "The members that any of several sorted sets has.",
            ..Command::of(Group::SortedSet)
        }),
        Run::Keyspace(zunionstore).row(Command {
            name: "zunionstore",
            arity: -4,
            flags: WRITE,
            keys: Keys::ONE_AND_COUNTED,
            request: Request::MultiShardView,
            since: "2.0.0",
            syntax: "destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>]",
            arguments: STORED,
            complexity: "O(N * log N), N = members of all",
            summary: "Stores the members that any of several sorted sets has.",
            access: Some(access::STORE),
            ..Command::of(Group::SortedSet)
        }),
        Run::Keyspace(zinter).row(Command {
            name: "zinter",
            arity: -3,
            flags: READ,
            keys: Keys::COUNTED,
            request: Request::MultiShardView,
            since: "6.2.0",
            syntax: "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>] [WITHSCORES]",
            arguments: COMBINED,
            complexity: "O(N * K), N = members of the smallest, K = keys",
            summary: "The members that all of several sorted sets have.",
            ..Command::of(Group::SortedSet)
        }),
        Run::Keyspace(zinterstore).row(Command {
            name: "zinterstore",
            arity: -4,
            flags: WRITE,
            keys: Keys::ONE_AND_COUNTED,
            request: Request::MultiShardView,
            since: "2.0.0",
            syntax: "destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>]",
            arguments: STORED,
            complexity: "O(N * K), N = members of the smallest, K = keys",
            summary: "Stores the members that all of several sorted sets have.",
            access: Some(access::STORE),
            ..Command::of(Group::SortedSet)
        }),
        Run::Keyspace(zdiff).row(Command {
            name: "zdiff",
            arity: -3,
            flags: READ,
            keys: Keys::COUNTED,
            request: Request::MultiShardView,
            since: "6.2.0",
            syntax: "numkeys key [key ...] [WITHSCORES]",
            arguments: arguments![
                integer("numkeys"),
                key("key", 0).repeated(),
                token("withscores", "WITHSCORES").optional(),
            ],
            complexity: "O(N * K), N = members of the first, K = keys",
            summary: "The members of the first sorted set that no other has.",
            ..Command::of(Group::SortedSet)
        }),
        Run::Keyspace(zdiffstore).row(Command {
            name: "zdiffstore",
            arity: -4,
            flags: WRITE,
            keys: Keys::ONE_AND_COUNTED,
            request: Request::MultiShardView,
            since: "6.2.0",
            syntax: "destination numkeys key [key ...]",
            arguments: arguments![key("destination", 0), integer("numkeys"), key("key", 1).repeated()],
            complexity: "O(N * K), N = members of the first, K = keys",
            summary: "Stores the members of the first sorted set that no other has.",
            access: Some(access::STORE),
            ..Command::of(Group::SortedSet)
        }),
        Run::Keyspace(zintercard).row(Command {
            name: "zintercard",
            arity: -3,
            flags: READ,
            keys: Keys::COUNTED,
            request: Request::MultiShardView,
            since: "7.0.0",
            syntax: "numkeys key [key ...] [LIMIT limit]",
            arguments: arguments![
                integer("numkeys"),
                key("key", 0).repeated(),
                integer("limit").after("LIMIT").optional(),
            ],
            complexity: "O(N * K), N = members of the smallest, K = keys",
            summary: "How many members all of several sorted sets have.",
            ..Command::of(Group::SortedSet)
        }),
    ]
}

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

/// Ends a command that removed elements from the sorted set of a key, with `event` as its event.
fn end_removal<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8], removed: usize, event: &'static str) {
    if removed > 0 {
        keyspace.notify(Class::ZSET, event, key);
    }
    let limits = keyspace.settings().limits::<SortedSet>();
    if keyspace.collection_mut_uncounted::<SortedSet>(key).ok().flatten().is_some_and(|set| set.shrink(limits)) {
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

/// Stores a sorted set, replacing a key, with `event` as its event, and replies its length; an empty one removes the
/// key. It counts as this many `changes`.
pub fn store_result<S: Store>(
    keyspace: &mut Keyspace<S>,
    key: &[u8],
    set: SortedSet,
    (event, changes): (&'static str, usize),
    reply: &mut Reply<'_>,
) {
    let len = set.len();
    if len > 0 {
        keyspace.set(key, NewValue::Object(set.into_object()), None);
        keyspace.note_change(key, changes);
        keyspace.notify(Class::ZSET, event, key);
    } else if keyspace.remove_stored(key) {
        keyspace.note_change(key, 1);
        keyspace.notify(Class::GENERIC, "del", key);
    }
    reply.count(len);
}

/// How members with scores are replied: as pairs in RESP3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    Members,
    /// One array of alternating members and scores.
    Flat,
    /// An array of pairs.
    Pairs,
}

impl Shown {
    /// As requested by WITHSCORES.
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

    fn all<'a>(self, elements: impl ExactSizeIterator<Item = (Element<'a>, f64)>, reply: &mut Reply<'_>) {
        self.head(elements.len(), reply);
        elements.for_each(|(member, score)| self.element(member.bytes(&mut itoa::Buffer::new()), score, reply));
    }
}

/// Whether an argument is WITHSCORES.
fn is_with_scores(argument: &[u8]) -> bool {
    is(argument, "WITHSCORES")
}
