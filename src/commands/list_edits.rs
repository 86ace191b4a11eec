//! Commands that edit lists: LINSERT, LREM, LTRIM, LPOS.

use super::access;
use super::arguments::{integer, is, positions};
use super::flag_sets::{READ, SHRINK, WRITE};
use super::row::{Command, Group, Keys, Request, Row, Run};
use super::{CommandError, Outcome};
use crate::base::lengthy;
use crate::commands::documentation::arguments;
use crate::keyspace::{Class, Collection, Element, End, Keyspace, List, ListLimits, Store};
use crate::resp::{Args, Reply};

/// The rows of the commands here.
pub(super) const fn rows<S: Store>() -> [Row<S>; 4] {
    [
        Run::Keyspace(linsert).row(Command {
            name: "linsert",
            arity: 5,
            flags: WRITE,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "2.2.0",
            syntax: "key <BEFORE | AFTER> pivot element",
            arguments: arguments![
                key("key", 0),
                one_of("where", arguments![token("before", "BEFORE"), token("after", "AFTER")]),
                string("pivot"),
                string("element"),
            ],
            complexity: "O(N), N = elements before the pivot",
            summary: "Adds an element beside another of a list.",
            access: Some(access::INSERT),
            ..Command::of(Group::List)
        }),
        Run::Keyspace(lrem).row(Command {
            name: "lrem",
            arity: 4,
            flags: SHRINK,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "1.0.0",
            syntax: "key count element",
            arguments: arguments![key("key", 0), integer("count"), string("element")],
            complexity: "O(N), N = elements",
            summary: "Removes elements that are equal to one from a list.",
            access: Some(access::DELETE),
            ..Command::of(Group::List)
        }),
        Run::Keyspace(ltrim).row(Command {
            name: "ltrim",
            arity: 4,
            flags: SHRINK,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "1.0.0",
            syntax: "key start stop",
            arguments: arguments![key("key", 0), integer("start"), integer("stop")],
            complexity: "O(N), N = elements removed",
            summary: "Keeps a range of the elements of a list.",
            access: Some(access::DELETE),
            ..Command::of(Group::List)
        }),
        Run::Keyspace(lpos).row(Command {
            name: "lpos",
            arity: -3,
            flags: READ,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "6.0.6",
            syntax: "key element [RANK rank] [COUNT num-matches] [MAXLEN len]",
            arguments: arguments![
                key("key", 0),
                string("element"),
                integer("rank").after("RANK").optional(),
                integer("num-matches").after("COUNT").optional(),
                integer("len").after("MAXLEN").optional(),
            ],
            complexity: "O(N), N = elements compared",
            summary: "The positions of elements of a list that are equal to one.",
            ..Command::of(Group::List)
        }),
    ]
}

/// LINSERT key <BEFORE | AFTER> pivot element: O(N), N = elements before the pivot
pub fn linsert<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let side = match &args[2] {
        word if is(word, "BEFORE") => End::Head,
        word if is(word, "AFTER") => End::Tail,
        _ => return Err(CommandError::Syntax),
    };
    let (key, pivot, element) = (&args[1], Element::of(&args[3]), &args[4]);
    let limits = keyspace.settings().limits::<List>();
    let Some(list) = keyspace.collection_mut::<List>(key)? else {
        reply.integer(0);
        return Ok(());
    };
    list.prepare(limits, std::iter::once(element));
    let found = std::iter::successors(list.edge(End::Head), |&at| list.step(at, End::Tail))
        .find(|&position| list.at(position).is_same(pivot));
    let Some(position) = found else {
        reply.integer(-1);
        return Ok(());
    };
    list.insert(limits, position, element, side);
    reply.count(list.len());
    keyspace.note_change(key, 1);
    keyspace.notify(Class::LIST, "linsert", key);
    Ok(())
}

/// LREM key count element: O(N), N = elements
pub fn lrem<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (key, count, element) = (&args[1], integer(&args[2])?, Element::of(&args[3]));
    let limits = keyspace.settings().limits::<List>();
    let Some(list) = keyspace.collection_mut::<List>(key)? else {
        reply.integer(0);
        return Ok(());
    };
    let most = if count == 0 { u64::MAX } else { count.unsigned_abs() };
    let towards = if count < 0 { End::Head } else { End::Tail };
    let removed = lengthy::run(list.len(), || remove_equal(limits, list, element, most, towards));
    if removed > 0 {
        let is_empty = list.shrink(limits);
        keyspace.notify(Class::LIST, "lrem", key);
        if is_empty {
            keyspace.remove_emptied(key);
        }
    }
    keyspace.note_change(key, removed);
    reply.count(removed);
    Ok(())
}

/// Removes at most `count` elements equal to one, starting at an end; returns how many.
fn remove_equal(limits: ListLimits, list: &mut List, element: Element<'_>, most: u64, towards: End) -> usize {
    let start = match towards {
        End::Head => End::Tail,
        End::Tail => End::Head,
    };
    let mut removed = 0;
    let mut next = list.edge(start);
    while let Some(position) = next.filter(|_| (removed as u64) < most) {
        next = if list.at(position).is_same(element) {
            removed += 1;
            list.remove(limits, position, towards)
        } else {
            list.step(position, towards)
        };
    }
    removed
}

/// LTRIM key start stop: O(N), N = elements removed
pub fn ltrim<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (key, start, stop) = (&args[1], integer(&args[2])?, integer(&args[3])?);
    let limits = keyspace.settings().limits::<List>();
    if let Some(list) = keyspace.collection_mut::<List>(key)? {
        let len = list.len();
        let kept = positions(start, stop, len);
        lengthy::run(len - kept.len(), || {
            list.truncate(len - kept.end, End::Tail);
            list.truncate(kept.start, End::Head);
        });
        let removed = len - list.len();
        let is_empty = list.shrink(limits);
        // Even if nothing was cut off.
        keyspace.notify(Class::LIST, "ltrim", key);
        if is_empty {
            keyspace.remove_emptied(key);
        }
        match removed {
            // As in Redis, watches on the key break nevertheless.
            0 => keyspace.note_touched(key),
            removed => keyspace.note_change(key, removed),
        }
    }
    reply.ok();
    Ok(())
}

/// LPOS key element [RANK rank] [COUNT num-matches] [MAXLEN len]: O(N), N = elements compared
pub fn lpos<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let search = Search::parse(args)?;
    let list = keyspace.read_collection::<List>(&args[1])?;
    let mut matches = list.map(|list| search.matches(list, Element::of(&args[2]))).into_iter().flatten();
    let Some(count) = search.count else {
        match matches.next() {
            Some(index) => reply.count(index),
            None => reply.null(),
        }
        return Ok(());
    };
    let most = if count == 0 { usize::MAX } else { count };
    let found: Vec<usize> = matches.take(most).collect();
    reply.array(found.len());
    found.into_iter().for_each(|index| reply.count(index));
    Ok(())
}

/// The arguments of LPOS.
struct Search {
    /// The first match that counts; negative from the tail.
    rank: i64,
    /// How many matches; 0 for all. Without it, a single match is replied.
    count: Option<usize>,
    /// How many elements are compared; 0 for all.
    elements: usize,
}

impl Search {
    fn parse(args: Args<'_>) -> Result<Self, CommandError> {
        let mut search = Self { rank: 1, count: None, elements: 0 };
        let mut words = args.from(3).iter();
        while let Some(word) = words.next() {
            let value = words.next().ok_or(CommandError::Syntax)?;
            match word {
                _ if is(word, "RANK") => search.rank = rank(value)?,
                _ if is(word, "COUNT") => search.count = Some(not_negative(value, "ERR COUNT can't be negative")?),
                _ if is(word, "MAXLEN") => search.elements = not_negative(value, "ERR MAXLEN can't be negative")?,
                _ => return Err(CommandError::Syntax),
            }
        }
        Ok(search)
    }

    /// The indexes of the matching elements, without those before the rank.
    fn matches<'a>(&self, list: &'a List, element: Element<'a>) -> impl Iterator<Item = usize> + use<'a> {
        let len = list.len();
        let compared = if self.elements == 0 { len } else { self.elements.min(len) };
        let is_backwards = self.rank < 0;
        let elements = match is_backwards {
            true => list.range_back(len - compared..len),
            false => list.range(0..compared),
        };
        let passed_over = usize::try_from(self.rank.unsigned_abs() - 1).unwrap_or(usize::MAX);
        let matches = elements.enumerate().filter(move |(_, other)| other.is_same(element)).skip(passed_over);
        matches.map(move |(index, _)| if is_backwards { len - 1 - index } else { index })
    }
}

fn rank(argument: &[u8]) -> Result<i64, CommandError> {
    const ZERO: &str = "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use \
                        negative to start from the end of the list";
    const RANGE: &str = "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807";
    match integer(argument)? {
        0 => Err(CommandError::Text(ZERO)),
        i64::MIN => Err(CommandError::Text(RANGE)),
        rank => Ok(rank),
    }
}

fn not_negative(argument: &[u8], otherwise: &'static str) -> Result<usize, CommandError> {
    let count = integer(argument).ok().and_then(|count| usize::try_from(count).ok());
    count.ok_or(CommandError::Text(otherwise))
}
