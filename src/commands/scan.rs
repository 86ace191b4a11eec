//! SCAN: the whole keyspace, a page at a time, shard after shard; and SSCAN and HSCAN, the same for a set or a hash.
//!
//! A page ends after COUNT keys, not at the end of a shard: a database of few keys is one page. If the shards are
//! separate, [`pages`] says which part of a page each of them must read.

use super::arguments::{integer, is, reply_element};
use super::flag_sets::READ;
use super::keys::type_name;
use super::row::{Command, Group, Keys, Output, Request, Response, Row, Run};
use super::{CommandError, Outcome};
use crate::base::glob;
use crate::base::narrowing::{low_u64, size};
use crate::commands::documentation::arguments;
use crate::keyspace::{Collection, Element, Hash, Keyspace, KeyspaceStats, Node, POSITION_BITS, Set, SortedSet, Store};
use crate::resp::{Args, DoubleText, Reply};

/// The rows of the commands here.
pub(super) const fn rows<S: Store>() -> [Row<S>; 4] {
    [
        Run::Keyspace(scan).row(Command {
            name: "scan",
            arity: -2,
            flags: READ,
            request: Request::Cursor,
            response: Response::Page,
            output: Output::Varies,
            since: "2.8.0",
            syntax: "cursor [MATCH pattern] [COUNT count] [TYPE type]",
            arguments: arguments![
                integer("cursor"),
                pattern("pattern").after("MATCH").optional(),
                integer("count").after("COUNT").optional(),
                string("type").after("TYPE").since("6.0.0").optional(),
            ],
            complexity: "O(1) for each call, O(N) for the whole, N = keys of the database",
            summary: "Walks over the keys, a page at a time.",
            ..Command::of(Group::Generic)
        }),
        Run::Keyspace(sscan).row(Command {
            name: "sscan",
            arity: -3,
            flags: READ,
            keys: Keys::ONE,
            request: Request::OneShard,
            output: Output::Varies,
            since: "2.8.0",
            syntax: "key cursor [MATCH pattern] [COUNT count]",
            arguments: arguments![
                key("key", 0),
                integer("cursor"),
                pattern("pattern").after("MATCH").optional(),
                integer("count").after("COUNT").optional(),
            ],
            complexity: "O(1) for each call, O(N) for the whole, N = members",
            summary: "Walks over the members of a set, a page at a time.",
            ..Command::of(Group::Set)
        }),
        Run::Keyspace(hscan).row(Command {
            name: "hscan",
            arity: -3,
            flags: READ,
            keys: Keys::ONE,
            request: Request::OneShard,
            output: Output::Varies,
            since: "2.8.0",
            syntax: "key cursor [MATCH pattern] [COUNT count] [NOVALUES]",
            arguments: arguments![
                key("key", 0),
                integer("cursor"),
                pattern("pattern").after("MATCH").optional(),
                integer("count").after("COUNT").optional(),
                token("novalues", "NOVALUES").since("7.4.0").optional(),
            ],
            complexity: "O(1) for each call, O(N) for the whole, N = fields",
            summary: "Walks over the fields of a hash, a page at a time.",
            ..Command::of(Group::Hash)
        }),
        Run::Keyspace(zscan).row(Command {
            name: "zscan",
            arity: -3,
            flags: READ,
            keys: Keys::ONE,
            request: Request::OneShard,
            output: Output::Varies,
            since: "2.8.0",
            syntax: "key cursor [MATCH pattern] [COUNT count] [NOSCORES]",
            arguments: arguments![
                key("key", 0),
                integer("cursor"),
                pattern("pattern").after("MATCH").optional(),
                integer("count").after("COUNT").optional(),
                token("noscores", "NOSCORES").optional(),
            ],
            complexity: "O(1) for each call, O(N) for the whole, N = members",
            summary: "Walks over the members of a sorted set, a page at a time.",
            ..Command::of(Group::SortedSet)
        }),
    ]
}

/// The position where a SCAN continues.
///
/// ```text
/// | shard, 16 bits | position in its keyspace, 48 bits |
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// The shard.
    pub shard: usize,
    position: u64,
}

impl Cursor {
    /// The cursor that a client sends back, as C's `strtoul` reads it: it may be empty or negative, and it ends at a
    /// NUL.
    pub fn parse(argument: &[u8]) -> Option<Self> {
        let text = argument.split(|byte| *byte == 0).next().unwrap_or_default();
        let text = std::str::from_utf8(text).ok()?;
        let number = match text.strip_prefix('-') {
            _ if text.is_empty() => 0,
            Some(digits) if digits.starts_with(|first: char| first.is_ascii_digit()) => {
                digits.parse::<u64>().ok()?.wrapping_neg()
            }
            Some(_) => return None,
            None => text.parse::<u64>().ok()?,
        };
        let (shard, position) = (number >> POSITION_BITS, number & ((1 << POSITION_BITS) - 1));
        Some(Self { shard: size(shard), position })
    }

    fn number(self) -> u64 {
        (self.shard as u64) << POSITION_BITS | self.position
    }
}

/// A part of a page of SCAN, for one shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PagePart {
    /// Where it begins.
    cursor: Cursor,
    /// How many keys to visit.
    count: u64,
}

impl PagePart {
    /// Its shard.
    pub fn shard(self) -> usize {
        self.cursor.shard
    }

    /// Pushes the arguments of the SCAN that reads it, given those of the whole.
    pub fn push(self, args: Args<'_>, mut push: impl FnMut(&[u8])) {
        push(&args[0]);
        push(itoa::Buffer::new().format(self.cursor.number()).as_bytes());
        args.from(2).iter().for_each(&mut push);
        // The last COUNT is the one that counts.
        push(b"COUNT");
        push(itoa::Buffer::new().format(self.count).as_bytes());
    }
}

/// The parts of the page that a SCAN requests, on consecutive ones of `shards`: COUNT keys altogether, as far as
/// `keys_of` knows how many a shard has. An outdated figure only makes the page shorter, or a part of it useless. Empty
/// if the request is refused.
pub fn pages(args: Args<'_>, shards: usize, keys_of: impl Fn(usize) -> u64) -> Vec<PagePart> {
    let (Some(start), Ok(filter)) = (Cursor::parse(&args[1]), Filter::parse(args.from(2), Options::Types)) else {
        return Vec::new();
    };
    let mut parts = Vec::new();
    let mut left = filter.count as u64;
    for shard in start.shard..shards {
        let position = if shard == start.shard { start.position } else { 0 };
        let keys = keys_after(position, keys_of(shard));
        if left == 0 && keys > 0 {
            break;
        }
        parts.push(PagePart { cursor: Cursor { shard, position }, count: left.max(1) });
        if keys > left {
            break;
        }
        left -= keys;
    }
    parts
}

/// How many of the keys of a shard follow a position: they are spread evenly over the positions.
fn keys_after(position: u64, keys: u64) -> u64 {
    let rest = u128::from((1 << POSITION_BITS) - position);
    low_u64((u128::from(keys) * rest) >> POSITION_BITS)
}

/// Joins the parts of a page of SCAN, in the order of their shards: up to the first that has not reached the end of its
/// shard. Returns the next cursor, and how many of the parts are in the page.
pub fn joined<'a>(cursors: impl Iterator<Item = (usize, &'a [u8])>) -> (&'a [u8], usize) {
    let mut end = (b"0".as_slice(), 0);
    for (shard, cursor) in cursors {
        end = (cursor, end.1 + 1);
        if Cursor::parse(cursor) != Some(Cursor { shard: shard + 1, position: 0 }) {
            break;
        }
    }
    end
}

/// SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]: O(1) for each call, O(N) for the whole, N = keys of the
/// server
pub fn scan<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let cursor = Cursor::parse(&args[1]).ok_or(CommandError::Text("ERR invalid cursor"))?;
    let filter = Filter::parse(args.from(2), Options::Types)?;
    let mut encoded = Vec::new();
    let mut keys = Reply::new(&mut encoded, reply.is_resp3());
    let (mut found, mut looked_at) = (0, 0);
    let mut expired: Vec<Box<[u8]>> = Vec::new();
    let next = next_page(keyspace, cursor, filter.count, &mut |node, has_expired| {
        if has_expired {
            expired.extend(filter.matches(node).then(|| node.key().into()));
        } else if filter.matches(node) {
            looked_at += 1;
            if filter.has_type_of(node) {
                keys.bulk(node.key());
                found += 1;
            }
        }
    });
    if filter.type_name.is_some() {
        // Redis looks a key up for its type.
        keyspace.stats.add(KeyspaceStats { hits: looked_at, misses: expired.len() as u64, ..KeyspaceStats::default() });
    }
    // Looking for them removes them.
    expired.iter().for_each(|key| _ = keyspace.peek(key));
    reply.array(2);
    reply.bulk(itoa::Buffer::new().format(next.map_or(0, Cursor::number)).as_bytes());
    reply.array(found);
    reply.raw(&encoded);
    Ok(())
}

/// Visits the keys after a cursor, each with whether it has expired; returns where the next page begins, if there may
/// be one. A cursor of a shard that does not exist, which a client may have kept from another layout, is at the end.
fn next_page<S: Store>(
    keyspace: &Keyspace<S>,
    cursor: Cursor,
    count: usize,
    visit: &mut dyn FnMut(&Node, bool),
) -> Option<Cursor> {
    let Cursor { mut shard, mut position } = cursor;
    let shards = keyspace.store.shards();
    let mut left = count;
    while keyspace.store.has_shard(shard) {
        let mut seen = 0;
        // A full page ends before the next key, wherever that is.
        let next = keyspace.store.walk(shard, position, left, &mut |node| {
            seen += 1;
            visit(node, keyspace.turn.hides(node));
        });
        if let Some(position) = next {
            return Some(Cursor { shard, position });
        }
        left = left.saturating_sub(seen);
        (shard, position) = (shard + 1, 0);
    }
    (shard < shards).then_some(Cursor { shard, position })
}

/// SSCAN key cursor [MATCH pattern] [COUNT count]: O(1) for each call, O(N) for the whole, N = members
pub fn sscan<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    scan_collection(keyspace, args, reply, Options::Common, |set: &Set, start, count, elements| {
        set.walk(start, count, &mut |member| {
            if elements.let_pass(member) {
                elements.add(member);
            }
        })
    })
}

/// HSCAN key cursor [MATCH pattern] [COUNT count] [NOVALUES]: O(1) for each call, O(N) for the whole, N = fields
pub fn hscan<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    scan_collection(keyspace, args, reply, Options::NoValues, |hash: &Hash, start, count, elements| {
        hash.walk(start, count, &mut |(field, value)| {
            if elements.let_pass(field) {
                elements.add(field);
                elements.add_value(value);
            }
        })
    })
}

/// ZSCAN key cursor [MATCH pattern] [COUNT count] [NOSCORES]: O(1) for each call, O(N) for the whole, N = members
pub fn zscan<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    scan_collection(keyspace, args, reply, Options::NoScores, |set: &SortedSet, start, count, elements| {
        // Redis prints the scores of the two encodings in two ways.
        let print = if set.is_small() { DoubleText::shortest } else { DoubleText::precise };
        set.walk(start, count, &mut |member, score| {
            if elements.let_pass(member) {
                elements.add(member);
                elements.add_value(Element::Bytes(&print(score)));
            }
        })
    })
}

/// Replies the page of a collection that `walk` visits.
fn scan_collection<S: Store, C: Collection>(
    keyspace: &mut Keyspace<S>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    options: Options,
    walk: impl FnOnce(&C, u64, usize, &mut Elements<'_>) -> Option<u64>,
) -> Outcome {
    let cursor = Cursor::parse(&args[2]).ok_or(CommandError::Text("ERR invalid cursor"))?;
    let Some(collection) = keyspace.read_collection::<C>(&args[1])? else {
        reply.array(2);
        reply.bulk(b"0");
        reply.array(0);
        return Ok(());
    };
    let filter = Filter::parse(args.from(3), options)?;
    let mut encoded = Vec::new();
    let page = Reply::new(&mut encoded, reply.is_resp3());
    let mut elements = Elements { filter: &filter, page, count: 0 };
    let next = walk(collection, cursor.number(), filter.count, &mut elements);
    let count = elements.count;
    reply.array(2);
    reply.bulk(itoa::Buffer::new().format(next.unwrap_or(0)).as_bytes());
    reply.array(count);
    reply.raw(&encoded);
    Ok(())
}

/// A page of elements being written.
struct Elements<'a> {
    filter: &'a Filter<'a>,
    page: Reply<'a>,
    count: usize,
}

impl Elements<'_> {
    fn let_pass(&self, element: Element<'_>) -> bool {
        let pattern = self.filter.pattern;
        pattern.is_none_or(|pattern| glob::matches(pattern, element.bytes(&mut itoa::Buffer::new())))
    }

    fn add(&mut self, element: Element<'_>) {
        reply_element(&mut self.page, element);
        self.count += 1;
    }

    fn add_value(&mut self, value: Element<'_>) {
        if !self.filter.leaves_out_values {
            self.add(value);
        }
    }
}

/// The options of a command besides MATCH and COUNT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Options {
    /// No others: SSCAN.
    Common,
    /// TYPE: SCAN.
    Types,
    /// NOVALUES: HSCAN.
    NoValues,
    /// NOSCORES: ZSCAN. Valkey has it, Redis does not.
    NoScores,
}

/// Which of the visited keys a SCAN replies.
#[derive(Debug)]
struct Filter<'a> {
    pattern: Option<&'a [u8]>,
    type_name: Option<&'a [u8]>,
    count: usize,
    leaves_out_values: bool,
}

impl<'a> Filter<'a> {
    fn parse(words: Args<'a>, options: Options) -> Result<Self, CommandError> {
        const COUNT: usize = 10;
        const NOT_OF_HASHES: &str = "ERR NOVALUES option can only be used in HSCAN";
        let mut filter = Self { pattern: None, type_name: None, count: COUNT, leaves_out_values: false };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if is(word, "NOVALUES") {
                filter.leaves_out_values = options == Options::NoValues;
                if !filter.leaves_out_values {
                    return Err(CommandError::Text(NOT_OF_HASHES));
                }
                continue;
            }
            if options == Options::NoScores && is(word, "NOSCORES") {
                filter.leaves_out_values = true;
                continue;
            }
            let value = words.next().ok_or(CommandError::Syntax)?;
            match word {
                _ if is(word, "MATCH") => filter.pattern = Some(value),
                _ if options == Options::Types && is(word, "TYPE") => filter.type_name = Some(value),
                _ if is(word, "COUNT") => {
                    let count = usize::try_from(integer(value)?).ok();
                    filter.count = count.filter(|&count| count > 0).ok_or(CommandError::Syntax)?;
                }
                _ => return Err(CommandError::Syntax),
            }
        }
        // A lone star is a special case, as for KEYS: as a pattern it would leave out the empty key.
        filter.pattern = filter.pattern.filter(|&pattern| pattern != b"*");
        Ok(filter)
    }

    fn has_type_of(&self, node: &Node) -> bool {
        self.type_name.is_none_or(|name| is(name, type_name(node.value())))
    }

    /// Whether a key matches the pattern. For an expired key nothing else is checked, as in Redis: it is removed.
    fn matches(&self, node: &Node) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, node.key()))
    }
}
