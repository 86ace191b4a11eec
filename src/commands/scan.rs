//! SCAN: the whole keyspace, a page at a time, shard after shard; and SSCAN and HSCAN, a set or a hash likewise.

use super::arguments::{integer, is, reply_entry};
use super::keys::type_name;
use super::{CommandError, Outcome, glob};
use crate::keyspace::{Collection, Entry, Hash, Keyspace, Node, POSITION_BITS, Set, SortedSet, Store};
use crate::narrowing::size;
use crate::resp::{Args, DoubleText, Reply};

/// Where a SCAN goes on.
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
    /// The cursor that a client sends back, as C's `strtoul` reads it: it may be empty or negative, and ends at a NUL.
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

/// SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]: O(1) for each call, O(N) for the whole, N = keys of the server
pub fn scan<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let cursor = Cursor::parse(&args[1]).ok_or(CommandError::Text("ERR invalid cursor"))?;
    let filter = Filter::parse(args.from(2), true)?;
    let mut encoded = Vec::new();
    let mut keys = Reply::new(&mut encoded, reply.is_resp3());
    let mut found = 0;
    let next = next_page(keyspace, cursor, filter.count, &mut |node| {
        if filter.lets_pass(node) {
            keys.bulk(node.key());
            found += 1;
        }
    });
    reply.array(2);
    reply.bulk(itoa::Buffer::new().format(next.map_or(0, Cursor::number)).as_bytes());
    reply.array(found);
    reply.raw(&encoded);
    Ok(())
}

/// Visits the keys behind a cursor; gives where the next page begins, if there may be one. A cursor of a shard that
/// does not exist, as a client may have kept one from another layout, is at the end.
fn next_page<S: Store>(
    keyspace: &Keyspace<S>,
    cursor: Cursor,
    count: usize,
    visit: &mut dyn FnMut(&Node),
) -> Option<Cursor> {
    let Cursor { shard, position } = cursor;
    if !keyspace.store().has_shard(shard) {
        return None;
    }
    let shards = keyspace.store().shards();
    match keyspace.walk(shard, position, count, visit) {
        Some(position) => Some(Cursor { shard, position }),
        None => (shard + 1 < shards).then_some(Cursor { shard: shard + 1, position: 0 }),
    }
}

/// SSCAN key cursor [MATCH pattern] [COUNT count]: O(1) for each call, O(N) for the whole, N = members
pub fn sscan<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    scan_collection(keyspace, args, reply, |set: &Set, start, count, elements| {
        set.walk(start, count, &mut |member| {
            if elements.let_pass(member) {
                elements.add(member);
            }
        })
    })
}

/// HSCAN key cursor [MATCH pattern] [COUNT count]: O(1) for each call, O(N) for the whole, N = fields
pub fn hscan<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    scan_collection(keyspace, args, reply, |hash: &Hash, start, count, elements| {
        hash.walk(start, count, &mut |(field, value)| {
            if elements.let_pass(field) {
                elements.add(field);
                elements.add(value);
            }
        })
    })
}

/// ZSCAN key cursor [MATCH pattern] [COUNT count]: O(1) for each call, O(N) for the whole, N = members
pub fn zscan<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    scan_collection(keyspace, args, reply, |set: &SortedSet, start, count, elements| {
        // Redis prints the scores of the two encodings in two ways.
        let print = if set.is_small() { DoubleText::shortest } else { DoubleText::precise };
        set.walk(start, count, &mut |member, score| {
            if elements.let_pass(member) {
                elements.add(member);
                elements.add(Entry::Bytes(&print(score)));
            }
        })
    })
}

/// Replies the page of a collection that `walk` gives.
fn scan_collection<S: Store, C: Collection>(
    keyspace: &mut Keyspace<S>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    walk: impl FnOnce(&C, u64, usize, &mut Elements<'_>) -> Option<u64>,
) -> Outcome {
    let cursor = Cursor::parse(&args[2]).ok_or(CommandError::Text("ERR invalid cursor"))?;
    let Some(collection) = keyspace.read_collection::<C>(&args[1])? else {
        reply.array(2);
        reply.bulk(b"0");
        reply.array(0);
        return Ok(());
    };
    let filter = Filter::parse(args.from(3), false)?;
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

/// A page of elements as it is written.
struct Elements<'a> {
    filter: &'a Filter<'a>,
    page: Reply<'a>,
    count: usize,
}

impl Elements<'_> {
    fn let_pass(&self, element: Entry<'_>) -> bool {
        let pattern = self.filter.pattern;
        pattern.is_none_or(|pattern| glob::matches(pattern, element.bytes(&mut itoa::Buffer::new())))
    }

    fn add(&mut self, element: Entry<'_>) {
        reply_entry(&mut self.page, element);
        self.count += 1;
    }
}

/// Which keys a SCAN replies, out of how many that it looks at.
#[derive(Debug)]
struct Filter<'a> {
    pattern: Option<&'a [u8]>,
    type_name: Option<&'a [u8]>,
    count: usize,
}

impl<'a> Filter<'a> {
    /// Reads the options; a type is one of them where keys are walked.
    fn parse(options: Args<'a>, has_types: bool) -> Result<Self, CommandError> {
        const COUNT: usize = 10;
        let mut filter = Self { pattern: None, type_name: None, count: COUNT };
        let mut words = options.iter();
        while let Some(word) = words.next() {
            let value = words.next().ok_or(CommandError::Syntax)?;
            match word {
                _ if is(word, "MATCH") => filter.pattern = Some(value),
                _ if has_types && is(word, "TYPE") => filter.type_name = Some(value),
                _ if is(word, "COUNT") => {
                    let count = usize::try_from(integer(value)?).ok();
                    filter.count = count.filter(|&count| count > 0).ok_or(CommandError::Syntax)?;
                }
                _ => return Err(CommandError::Syntax),
            }
        }
        // A lone star is a case of its own, as for KEYS: as a pattern it would leave out the empty key.
        filter.pattern = filter.pattern.filter(|&pattern| pattern != b"*");
        Ok(filter)
    }

    fn lets_pass(&self, node: &Node) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, node.key()))
            && self.type_name.is_none_or(|name| is(name, type_name(node.value())))
    }
}
