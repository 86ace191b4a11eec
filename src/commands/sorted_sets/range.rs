//! Ranges by rank, by score and by member.

use super::{Shown, end_removal, is_with_scores, store_result};
use crate::base::lengthy;
use crate::commands::arguments::{integer, is, positions};
use crate::commands::double::parse_bound;
use crate::commands::{CommandError, Outcome};
use crate::keyspace::{Cut, Effects, Keyspace, SortedSet, Store};
use crate::resp::{Args, DoubleText, Reply};
use std::ops::Range;

/// The kind of a range's bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Member,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Reverse,
}

/// ZRANGE key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]: O(log N + M), M = elements replied
pub fn zrange<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply_range(keyspace, args, None, None, reply)
}

/// ZREVRANGE key start stop [WITHSCORES]: O(log N + M), M = elements replied
pub fn zrevrange<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply_range(keyspace, args, Some(By::Rank), Some(Direction::Reverse), reply)
}

/// ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count]: O(log N + M), M = elements replied
pub fn zrangebyscore<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply_range(keyspace, args, Some(By::Score), Some(Direction::Forward), reply)
}

/// ZREVRANGEBYSCORE key max min [WITHSCORES] [LIMIT offset count]: O(log N + M), M = elements replied
pub fn zrevrangebyscore<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply_range(keyspace, args, Some(By::Score), Some(Direction::Reverse), reply)
}

/// ZRANGEBYLEX key min max [LIMIT offset count]: O(log N + M), M = elements replied
pub fn zrangebylex<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply_range(keyspace, args, Some(By::Member), Some(Direction::Forward), reply)
}

/// ZREVRANGEBYLEX key max min [LIMIT offset count]: O(log N + M), M = elements replied
pub fn zrevrangebylex<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply_range(keyspace, args, Some(By::Member), Some(Direction::Reverse), reply)
}

fn reply_range<S: Store>(
    keyspace: &mut Keyspace<S>,
    args: Args<'_>,
    by: Option<By>,
    direction: Option<Direction>,
    reply: &mut Reply<'_>,
) -> Outcome {
    let query = Query::parse(args.from(2), by, direction, true)?;
    let Some(set) = keyspace.read_collection::<SortedSet>(&args[1])? else {
        reply.array(0);
        return Ok(());
    };
    let ranks = query.ranks(set);
    let len = ranks.len();
    let elements = set.range(ranks);
    let shown = Shown::with_scores(query.with_scores, reply);
    lengthy::run(len, || match query.direction {
        Direction::Forward => shown.all(elements, reply),
        Direction::Reverse => shown.all(elements.rev(), reply),
    });
    Ok(())
}

/// ZRANGESTORE dst src min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]: O(log N + M), M = elements stored
pub fn zrangestore<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let query = Query::parse(args.from(3), None, None, false)?;
    let limits = keyspace.settings().limits::<SortedSet>();
    let mut found = SortedSet::default();
    let mut is_told = false;
    if let Some(set) = keyspace.read_collection::<SortedSet>(&args[2])? {
        let mut digits = itoa::Buffer::new();
        let ranks = query.ranks(set);
        is_told = is_without_order(set, query.by);
        if query.by != By::Rank && !is_told {
            // Redis does not know how many there will be, and prepares for many. What is told member by member must
            // be what those commands make.
            found.make_large();
        }
        lengthy::run(ranks.len(), || {
            for (member, score) in set.range(ranks) {
                found.insert(limits, member.bytes(&mut digits), score);
            }
        });
    }
    if is_told {
        record_stored(&mut keyspace.effects, &args[1], &found);
    }
    store_result(keyspace, &args[1], found, ("zrangestore", 1), reply);
    Ok(())
}

/// Adds the effects of what was stored, member by member.
fn record_stored(effects: &mut Effects, key: &[u8], found: &SortedSet) {
    let mut digits = itoa::Buffer::new();
    effects.record([b"DEL", key]);
    for (member, score) in found.range(0..found.len()) {
        effects.record([b"ZADD", key, &DoubleText::shortest(score), member.bytes(&mut digits)]);
    }
}

/// The elements that a command requests.
#[derive(Debug)]
struct Query<'a> {
    by: By,
    bounds: Bounds<'a>,
    direction: Direction,
    offset: i64,
    /// Negative for all.
    limit: i64,
    with_scores: bool,
}

impl<'a> Query<'a> {
    /// Parses two bounds and the options after them; what the command's name implies is not accepted as an option.
    fn parse(
        args: Args<'a>,
        mut by: Option<By>,
        mut direction: Option<Direction>,
        may_show_scores: bool,
    ) -> Result<Self, CommandError> {
        let (mut offset, mut limit, mut with_scores) = (0, -1, false);
        let mut at = 2;
        while let Some(word) = args.get(at) {
            match word {
                _ if may_show_scores && is_with_scores(word) => with_scores = true,
                _ if is(word, "LIMIT") && args.len() - at > 2 => {
                    (offset, limit) = (integer(&args[at + 1])?, integer(&args[at + 2])?);
                    at += 2;
                }
                _ if direction.is_none() && is(word, "REV") => direction = Some(Direction::Reverse),
                _ if by.is_none() && is(word, "BYLEX") => by = Some(By::Member),
                _ if by.is_none() && is(word, "BYSCORE") => by = Some(By::Score),
                _ => return Err(CommandError::Syntax),
            }
            at += 1;
        }
        let (by, direction) = (by.unwrap_or(By::Rank), direction.unwrap_or(Direction::Forward));
        if limit != -1 && by == By::Rank {
            const TEXT: &str = "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX";
            return Err(CommandError::Text(TEXT));
        }
        if with_scores && by == By::Member {
            const TEXT: &str = "ERR syntax error, WITHSCORES not supported in combination with BYLEX";
            return Err(CommandError::Text(TEXT));
        }
        let [first, second] = [0, 1].map(|index| args.get(index).expect("the arity includes the bounds"));
        let (low, high) = match (by, direction) {
            (By::Score | By::Member, Direction::Reverse) => (second, first),
            _ => (first, second),
        };
        Ok(Self { by, bounds: Bounds::parse(by, low, high)?, direction, offset, limit, with_scores })
    }

    /// The ranks of the elements in a sorted set.
    fn ranks(&self, set: &SortedSet) -> Range<usize> {
        let ranks = self.bounds.ranks(set);
        match (&self.bounds, self.direction) {
            (Bounds::Ranks(..), Direction::Forward) => ranks,
            (Bounds::Ranks(..), Direction::Reverse) => set.len() - ranks.end..set.len() - ranks.start,
            (_, direction) => self.limited(ranks, direction),
        }
    }

    /// A negative offset selects nothing, a negative limit everything.
    fn limited(&self, Range { start, end }: Range<usize>, direction: Direction) -> Range<usize> {
        let offset = usize::try_from(self.offset).unwrap_or(usize::MAX).min(end - start);
        let count = usize::try_from(self.limit).unwrap_or(usize::MAX).min(end - start - offset);
        match direction {
            Direction::Forward => start + offset..start + offset + count,
            Direction::Reverse => end - offset - count..end - offset,
        }
    }
}

/// The start and the end of a range.
#[derive(Debug)]
enum Bounds<'a> {
    /// Ranks, both included; negative ones count from the end.
    Ranks(i64, i64),
    Cuts(Edge<'a>, Edge<'a>),
}

/// One end of a range.
#[derive(Debug, Clone, Copy)]
enum Edge<'a> {
    /// Before all elements.
    Start,
    At(Cut<'a>),
    /// After all elements.
    End,
}

impl<'a> Bounds<'a> {
    fn parse(by: By, low: &'a [u8], high: &'a [u8]) -> Result<Self, CommandError> {
        match by {
            By::Rank => Ok(Self::Ranks(integer(low)?, integer(high)?)),
            By::Score => {
                const WRONG: CommandError = CommandError::Text("ERR min or max is not a float");
                let (low, high) = (parse_score(low).ok_or(WRONG)?, parse_score(high).ok_or(WRONG)?);
                Ok(Self::Cuts(Edge::At(low.before()), Edge::At(high.after())))
            }
            By::Member => {
                const WRONG: CommandError = CommandError::Text("ERR min or max not valid string range item");
                let low = parse_member(low, |is_exclusive| is_exclusive).ok_or(WRONG)?;
                let high = parse_member(high, |is_exclusive| !is_exclusive).ok_or(WRONG)?;
                Ok(Self::Cuts(low, high))
            }
        }
    }

    fn ranks(&self, set: &SortedSet) -> Range<usize> {
        match *self {
            Self::Ranks(start, stop) => positions(start, stop, set.len()),
            Self::Cuts(low, high) => {
                let start = low.position(set);
                start..high.position(set).max(start)
            }
        }
    }
}

impl Edge<'_> {
    fn position(self, set: &SortedSet) -> usize {
        match self {
            Self::Start => 0,
            Self::At(cut) => set.position(cut),
            Self::End => set.len(),
        }
    }
}

/// `1.5`, or `(1.5` to exclude this score.
struct ScoreBound {
    score: f64,
    is_exclusive: bool,
}

impl ScoreBound {
    /// The cut of a range that begins here.
    fn before<'a>(&self) -> Cut<'a> {
        if self.is_exclusive { Cut::AfterScore(self.score) } else { Cut::BeforeScore(self.score) }
    }

    /// The cut of a range that ends here.
    fn after<'a>(&self) -> Cut<'a> {
        if self.is_exclusive { Cut::BeforeScore(self.score) } else { Cut::AfterScore(self.score) }
    }
}

fn parse_score(argument: &[u8]) -> Option<ScoreBound> {
    let (text, is_exclusive) = match argument {
        [b'(', text @ ..] => (text, true),
        text => (text, false),
    };
    Some(ScoreBound { score: parse_bound(text)?, is_exclusive })
}

/// `[member`, `(member` to exclude this member, `-` for the start, `+` for the end; `is_after` says on which side of
/// the member the cut is.
fn parse_member(argument: &[u8], is_after: impl FnOnce(bool) -> bool) -> Option<Edge<'_>> {
    let (member, is_exclusive) = match argument {
        b"-" => return Some(Edge::Start),
        b"+" => return Some(Edge::End),
        [b'[', member @ ..] => (member, false),
        [b'(', member @ ..] => (member, true),
        _ => return None,
    };
    Some(Edge::At(if is_after(is_exclusive) { Cut::AfterMember(member) } else { Cut::BeforeMember(member) }))
}

/// ZCOUNT key min max: O(log N)
pub fn zcount<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    count(keyspace, args, By::Score, reply)
}

/// ZLEXCOUNT key min max: O(log N)
pub fn zlexcount<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    count(keyspace, args, By::Member, reply)
}

fn count<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, by: By, reply: &mut Reply<'_>) -> Outcome {
    let bounds = Bounds::parse(by, &args[2], &args[3])?;
    let set = keyspace.read_collection::<SortedSet>(&args[1])?;
    reply.count(set.map_or(0, |set| bounds.ranks(set).len()));
    Ok(())
}

/// ZREMRANGEBYRANK key start stop: O(M * log N), M = elements removed
pub fn zremrangebyrank<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    remove_range(keyspace, args, By::Rank, reply)
}

/// ZREMRANGEBYSCORE key min max: O(M * log N), M = elements removed
pub fn zremrangebyscore<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    remove_range(keyspace, args, By::Score, reply)
}

/// ZREMRANGEBYLEX key min max: O(M * log N), M = elements removed
pub fn zremrangebylex<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    remove_range(keyspace, args, By::Member, reply)
}

fn remove_range<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, by: By, reply: &mut Reply<'_>) -> Outcome {
    let (key, bounds) = (&args[1], Bounds::parse(by, &args[2], &args[3])?);
    let Some(set) = keyspace.collection_mut::<SortedSet>(key)? else {
        reply.integer(0);
        return Ok(());
    };
    let ranks = bounds.ranks(set);
    let removed = ranks.len();
    let told = if is_without_order(set, by) { members(set, ranks.clone()) } else { Vec::new() };
    lengthy::run(removed, || match removed == set.len() {
        // All at once, without a search for each.
        true => *set = SortedSet::default(),
        false => set.remove_range(ranks),
    });
    let event = match by {
        By::Rank => "zremrangebyrank",
        By::Score => "zremrangebyscore",
        By::Member => "zremrangebylex",
    };
    keyspace.effects.record_over(&[b"ZREM", key], told.iter().map(Vec::as_slice), &[]);
    end_removal(keyspace, key, removed, event);
    reply.count(removed);
    Ok(())
}

/// Whether the members of a range may differ from those of the same range elsewhere: a range by members has no order
/// unless all scores are the same. Redis says that the result is unspecified, and it depends on the encoding of the
/// set: a replica, or this server when it replays its log, may find another. O(1)
fn is_without_order(set: &SortedSet, by: By) -> bool {
    let score_at = |rank: usize| set.range(rank..rank + 1).next().map(|(_, score)| score);
    by == By::Member && !set.is_empty() && score_at(0) != score_at(set.len() - 1)
}

fn members(set: &SortedSet, ranks: Range<usize>) -> Vec<Vec<u8>> {
    let mut digits = itoa::Buffer::new();
    set.range(ranks).map(|(member, _)| member.bytes(&mut digits).to_vec()).collect()
}
