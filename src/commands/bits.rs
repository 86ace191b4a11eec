//! Strings as arrays of bits; bit 0 is the highest of the first byte.

use super::access;
use super::arguments::{integer, is};
use super::flag_sets::{READ, READ_FAST, WRITE};
use super::row::{Command, Group, Keys, Request, Row, Run};
use super::text::{lengthen, make_raw, text_of};
use super::{CommandError, Outcome};
use crate::base::lengthy;
use crate::base::narrowing::size;
use crate::commands::documentation::arguments;
use crate::keyspace::{Class, Keyspace, NewValue, Store, Value};
use crate::resp::{Args, Reply, parse_i64};
use std::ops::Range;

/// The rows of the commands here.
pub(super) const fn rows<S: Store>() -> [Row<S>; 5] {
    [
        Run::Keyspace(setbit).row(Command {
            name: "setbit",
            arity: 4,
            flags: WRITE,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "2.2.0",
            syntax: "key offset value",
            arguments: arguments![key("key", 0), integer("offset"), integer("value")],
            complexity: "O(1)",
            summary: "Sets a bit of the string of a key and replies what it was.",
            access: Some(access::READ_UPDATE),
            ..Command::of(Group::Bitmap)
        }),
        Run::Keyspace(getbit).row(Command {
            name: "getbit",
            arity: 3,
            flags: READ_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "2.2.0",
            syntax: "key offset",
            arguments: arguments![key("key", 0), integer("offset")],
            complexity: "O(1)",
            summary: "A bit of the string of a key.",
            ..Command::of(Group::Bitmap)
        }),
        Run::Keyspace(bitcount).row(Command {
            name: "bitcount",
            arity: -2,
            flags: READ,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "2.6.0",
            syntax: "key [start end [BYTE | BIT]]",
            arguments: arguments![
                key("key", 0),
                block(
                    "range",
                    arguments![
                        integer("start"),
                        integer("end"),
                        one_of("unit", arguments![token("byte", "BYTE"), token("bit", "BIT")])
                            .since("7.0.0")
                            .optional(),
                    ],
                )
                .optional(),
            ],
            complexity: "O(N), N = bytes of the range",
            summary: "How many bits of the string of a key are ones.",
            ..Command::of(Group::Bitmap)
        }),
        Run::Keyspace(bitpos).row(Command {
            name: "bitpos",
            arity: -3,
            flags: READ,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "2.8.7",
            syntax: "key bit [start [end [BYTE | BIT]]]",
            arguments: arguments![
                key("key", 0),
                integer("bit"),
                block(
                    "range",
                    arguments![
                        integer("start"),
                        block(
                            "end-unit-block",
                            arguments![
                                integer("end"),
                                one_of("unit", arguments![token("byte", "BYTE"), token("bit", "BIT")])
                                    .since("7.0.0")
                                    .optional(),
                            ],
                        )
                        .optional(),
                    ],
                )
                .optional(),
            ],
            complexity: "O(N), N = bytes of the range",
            summary: "The position of the first one, or zero, in the string of a key.",
            ..Command::of(Group::Bitmap)
        }),
        Run::Keyspace(bitop).row(Command {
            name: "bitop",
            arity: -4,
            flags: WRITE,
            keys: Keys::FROM_SECOND,
            request: Request::MultiShardView,
            since: "2.6.0",
            syntax: "<AND | OR | XOR | NOT> destkey key [key ...]",
            arguments: arguments![
                one_of(
                    "operation",
                    arguments![token("and", "AND"), token("or", "OR"), token("xor", "XOR"), token("not", "NOT"),],
                ),
                key("destkey", 0),
                key("key", 1).repeated(),
            ],
            complexity: "O(N), N = bytes of all sources",
            summary: "Combines strings bit by bit and stores the result.",
            access: Some(access::STORE),
            ..Command::of(Group::Bitmap)
        }),
    ]
}

/// The error for an invalid position of a bit.
pub const BAD_OFFSET: CommandError = CommandError::Text("ERR bit offset is not an integer or out of range");

/// The position of a bit in a string that may become `len_max` bytes long.
pub fn bit_offset(argument: &[u8], len_max: usize) -> Result<usize, CommandError> {
    parse_i64(argument).and_then(|offset| checked_offset(offset, len_max)).ok_or(BAD_OFFSET)
}

/// A position of a bit, if a string may be so long.
pub fn checked_offset(offset: i64, len_max: usize) -> Option<usize> {
    usize::try_from(offset).ok().filter(|offset| offset / 8 < len_max)
}

/// SETBIT key offset value: O(1), and the bytes by which the string grows
pub fn setbit<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (key, offset) = (&args[1], bit_offset(&args[2], keyspace.string_len_max())?);
    let bit = match parse_i64(&args[3]) {
        Some(bit @ 0..=1) => bit == 1,
        _ => return Err(CommandError::Text("ERR bit is not an integer or out of range")),
    };
    let (text, has_grown) = lengthen(keyspace.node_or_new(key, || NewValue::Text(&[])), offset / 8 + 1)?;
    let (byte, mask) = (&mut text[offset / 8], 0x80 >> (offset % 8));
    let was_set = *byte & mask != 0;
    *byte = if bit { *byte | mask } else { *byte & !mask };
    if has_grown || was_set != bit {
        keyspace.note_change(key, 1);
        keyspace.notify(Class::STRING, "setbit", key);
    }
    reply.flag(was_set);
    Ok(())
}

/// GETBIT key offset: O(1)
pub fn getbit<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let offset = bit_offset(&args[2], keyspace.string_len_max())?;
    let mut digits = itoa::Buffer::new();
    let text = match keyspace.read(&args[1]) {
        None => &[],
        Some(value) => text_of(value, &mut digits)?,
    };
    reply.flag(text.get(offset / 8).is_some_and(|byte| byte & (0x80 >> (offset % 8)) != 0));
    Ok(())
}

/// BITCOUNT key [start end [BYTE | BIT]]: O(N), N = bytes of the range
pub fn bitcount<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let Some(value) = keyspace.read(&args[1]) else {
        reply.integer(0);
        return Ok(());
    };
    let mut digits = itoa::Buffer::new();
    let text = text_of(value, &mut digits)?;
    let range = match args.len() {
        2 => Some(0..text.len() * 8).filter(|range| !range.is_empty()),
        4 | 5 => count_range(args, text.len())?,
        _ => return Err(CommandError::Syntax),
    };
    let ones = range.map_or(0, |range| lengthy::run_bytes(range.len() / 8, || ones_in(text, range)));
    reply.integer(ones as i64);
    Ok(())
}

/// The bits that BITCOUNT counts. As in Redis a range that ends before it starts is empty before its unit is parsed.
fn count_range(args: Args<'_>, len: usize) -> Result<Option<Range<usize>>, CommandError> {
    let (start, end) = (integer(&args[2])?, integer(&args[3])?);
    if start < 0 && end < 0 && start > end {
        return Ok(None);
    }
    Ok(Unit::parse(args.get(4))?.range(start, end, len))
}

/// BITPOS key bit [start [end [BYTE | BIT]]]: O(N), N = bytes of the range
pub fn bitpos<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let bit = match integer(&args[2])? {
        bit @ 0..=1 => bit == 1,
        _ => return Err(CommandError::Text("ERR The bit argument must be 1 or 0.")),
    };
    let Some(value) = keyspace.read(&args[1]) else {
        reply.integer(if bit { -1 } else { 0 });
        return Ok(());
    };
    let mut digits = itoa::Buffer::new();
    let text = text_of(value, &mut digits)?;
    let range = match args.len() {
        3 => Unit::Byte.range(0, -1, text.len()),
        4..=6 => {
            let start = integer(&args[3])?;
            let unit = Unit::parse(args.get(5))?;
            unit.range(start, args.get(4).map_or(Ok(-1), integer)?, text.len())
        }
        _ => return Err(CommandError::Syntax),
    };
    // A string is followed by infinite zeros, unless the request has an end.
    let has_zeros_after = !bit && args.len() < 5;
    let after = range.clone().filter(|_| has_zeros_after).map(|range| range.end);
    let first = |range: Range<usize>| lengthy::run_bytes(range.len() / 8, || first_in(text, range, bit));
    let position = range.and_then(first).or(after);
    reply.integer(position.map_or(-1, |position| position as i64));
    Ok(())
}

/// The unit of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Byte,
    Bit,
}

impl Unit {
    fn parse(word: Option<&[u8]>) -> Result<Self, CommandError> {
        match word {
            None => Ok(Self::Byte),
            Some(word) if is(word, "BYTE") => Ok(Self::Byte),
            Some(word) if is(word, "BIT") => Ok(Self::Bit),
            Some(_) => Err(CommandError::Syntax),
        }
    }

    /// The bits from `start` to `end`, both included, of a string of `len` bytes; negative positions count from the
    /// end. `None` if there are none.
    fn range(self, start: i64, end: i64, len: usize) -> Option<Range<usize>> {
        let bits = match self {
            Self::Byte => 8,
            Self::Bit => 1,
        };
        let total = (len * 8 / bits) as i64;
        let from_start = |index: i64| if index < 0 { (index + total).max(0) } else { index };
        let (start, end) = (from_start(start), from_start(end).min(total - 1));
        let index = |position: i64| size(position.unsigned_abs());
        (start <= end).then(|| index(start) * bits..(index(end) + 1) * bits)
    }
}

/// How many bits of a non-empty range are ones.
fn ones_in(text: &[u8], range: Range<usize>) -> u64 {
    let (first, last) = (range.start / 8, (range.end - 1) / 8);
    let before = text[first] & !(0xff >> (range.start % 8));
    let after = text[last] & (0x7f >> ((range.end - 1) % 8));
    count_ones(&text[first..=last]) - u64::from(before.count_ones() + after.count_ones())
}

fn count_ones(text: &[u8]) -> u64 {
    let (words, rest) = text.as_chunks();
    let in_words: u64 = words.iter().map(|word| u64::from(u64::from_ne_bytes(*word).count_ones())).sum();
    in_words + rest.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>()
}

/// The first bit of a non-empty range that is a one (or a zero).
fn first_in(text: &[u8], range: Range<usize>, bit: bool) -> Option<usize> {
    let (first, last) = (range.start / 8, (range.end - 1) / 8);
    let flip = if bit { 0 } else { 0xff };
    let head = (text[first] ^ flip) & (0xff >> (range.start % 8));
    let (at, byte) = match head {
        0 => {
            let at = first + 1 + first_other_than(&text[first + 1..=last], flip)?;
            (at, text[at] ^ flip)
        }
        head => (first, head),
    };
    Some(at * 8 + byte.leading_zeros() as usize).filter(|position| *position < range.end)
}

/// The first byte that is not `byte`.
fn first_other_than(text: &[u8], byte: u8) -> Option<usize> {
    const WORD: usize = 8;
    let (words, _) = text.as_chunks::<WORD>();
    let same = words.iter().take_while(|word| **word == [byte; WORD]).count() * WORD;
    text[same..].iter().position(|other| *other != byte).map(|at| same + at)
}

/// BITOP <AND | OR | XOR | NOT> destkey key [key ...]: O(N), N = bytes of all sources
pub fn bitop<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let operation = Operation::parse(&args[1])?;
    if operation == Operation::Not && args.len() != 4 {
        return Err(CommandError::Text("ERR BITOP NOT must be called with a single source key."));
    }
    let target = &args[2];
    let keys = args.from(3).iter();
    // Keys after one of another type are not looked up.
    keys.clone().try_for_each(|key| match keyspace.read(key) {
        Some(Value::Object(_)) => Err(CommandError::WrongType),
        _ => Ok(()),
    })?;
    let values: Vec<_> = keys.map(|key| keyspace.look(key)).collect();
    let bytes = values.iter().flatten().map(len_of).sum();
    let result = lengthy::run_bytes(bytes, || operation.of_all(values))?;
    if result.is_empty() {
        if keyspace.remove_stored(target) {
            keyspace.note_change(target, 1);
            keyspace.notify(Class::GENERIC, "del", target);
        }
    } else {
        keyspace.set(target, NewValue::Text(&result), None);
        keyspace.node_mut_uncounted(target).into_iter().for_each(make_raw);
        keyspace.note_change(target, 1);
        keyspace.notify(Class::STRING, "set", target);
    }
    reply.count(result.len());
    Ok(())
}

/// The bytes of a text; numbers have few.
fn len_of(value: &Value<'_>) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::Integer(_) | Value::Object(_) => 0,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    And,
    Or,
    Xor,
    Not,
}

impl Operation {
    fn parse(word: &[u8]) -> Result<Self, CommandError> {
        match word {
            _ if is(word, "AND") => Ok(Self::And),
            _ if is(word, "OR") => Ok(Self::Or),
            _ if is(word, "XOR") => Ok(Self::Xor),
            _ if is(word, "NOT") => Ok(Self::Not),
            _ => Err(CommandError::Syntax),
        }
    }

    /// Combines strings; for `Not` there is one.
    fn of_all(self, values: Vec<Option<Value<'_>>>) -> Result<Vec<u8>, CommandError> {
        let mut result = Vec::new();
        for (index, value) in values.into_iter().enumerate() {
            let mut digits = itoa::Buffer::new();
            let operand = value.map_or(Ok(&[][..]), |value| text_of(value, &mut digits))?;
            match index {
                0 => result.extend_from_slice(operand),
                _ => self.combine(&mut result, operand),
            }
        }
        if self == Self::Not {
            result.iter_mut().for_each(|byte| *byte = !*byte);
        }
        Ok(result)
    }

    /// Combines a string with another; the shorter one is padded with zeros.
    fn combine(self, result: &mut Vec<u8>, operand: &[u8]) {
        result.resize(result.len().max(operand.len()), 0);
        let (both, beyond) = result.split_at_mut(operand.len());
        let pairs = both.iter_mut().zip(operand);
        match self {
            Self::And => {
                pairs.for_each(|(byte, other)| *byte &= other);
                beyond.fill(0);
            }
            Self::Or => pairs.for_each(|(byte, other)| *byte |= other),
            Self::Xor => pairs.for_each(|(byte, other)| *byte ^= other),
            Self::Not => unreachable!("NOT has one operand"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bits(text: &[u8]) -> Vec<bool> {
        text.iter().flat_map(|byte| (0..8).map(move |bit| byte & (0x80 >> bit) != 0)).collect()
    }

    /// Mostly bytes of zeros and ones, so that there are runs to be skipped.
    fn text() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(prop_oneof![5 => Just(0), 5 => Just(0xff), 1 => any::<u8>()], 0..80)
    }

    proptest! {
        #[test]
        fn ranges_are_counted_and_searched_as_bit_by_bit(
            text in text(),
            start in -700i64..700,
            end in -700i64..700,
            in_bytes: bool,
            bit: bool,
        ) {
            let unit = if in_bytes { Unit::Byte } else { Unit::Bit };
            let width = if in_bytes { 8 } else { 1 };
            let total = (text.len() * 8 / width) as i64;
            let from_start = |index: i64| if index < 0 { (index + total).max(0) } else { index };
            let wanted: Vec<usize> = (0..text.len() * 8)
                .filter(|position| (from_start(start)..=from_start(end)).contains(&((position / width) as i64)))
                .collect();
            let range = unit.range(start, end, text.len());
            prop_assert_eq!(range.clone().unwrap_or(0..0).collect::<Vec<_>>(), wanted.clone());
            let bits = bits(&text);
            let ones = wanted.iter().filter(|position| bits[**position]).count() as u64;
            prop_assert_eq!(range.clone().map_or(0, |range| ones_in(&text, range)), ones);
            let first = wanted.iter().copied().find(|position| bits[*position] == bit);
            prop_assert_eq!(range.and_then(|range| first_in(&text, range, bit)), first);
        }

        #[test]
        fn strings_are_combined_as_byte_by_byte(
            a in proptest::collection::vec(any::<u8>(), 0..40),
            b in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let at = |text: &[u8], index: usize| text.get(index).copied().unwrap_or(0);
            let wanted = |combine: fn(u8, u8) -> u8| -> Vec<u8> {
                (0..a.len().max(b.len())).map(|index| combine(at(&a, index), at(&b, index))).collect()
            };
            for (operation, wanted) in [
                (Operation::And, wanted(|a, b| a & b)),
                (Operation::Or, wanted(|a, b| a | b)),
                (Operation::Xor, wanted(|a, b| a ^ b)),
            ] {
                let mut result = a.clone();
                operation.combine(&mut result, &b);
                prop_assert_eq!(result, wanted);
            }
        }
    }
}
