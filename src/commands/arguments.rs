//! Parses arguments: integers, counts and positions; and writes elements as replies.

use super::CommandError;
use crate::base::narrowing::size;
use crate::keyspace::Element;
use crate::resp::{Args, Reply, parse_i64};
use std::ops::Range;

/// An integer.
pub fn integer(argument: &[u8]) -> Result<i64, CommandError> {
    parse_i64(argument).ok_or(CommandError::NotInteger)
}

/// An integer that is not negative.
pub fn count(argument: &[u8]) -> Result<usize, CommandError> {
    const TEXT: &str = "ERR value is out of range, must be positive";
    parse_i64(argument).and_then(|count| usize::try_from(count).ok()).ok_or(CommandError::Text(TEXT))
}

/// A count that is at least one. Redis's error for anything else depends on the command.
pub fn positive(argument: &[u8], otherwise: &'static str) -> Result<usize, CommandError> {
    let count = parse_i64(argument).and_then(|count| usize::try_from(count).ok());
    count.filter(|&count| count > 0).ok_or(CommandError::Text(otherwise))
}

/// How many keys follow, as given by an argument.
pub fn number_of_keys(argument: &[u8]) -> Result<usize, CommandError> {
    positive(argument, "ERR numkeys should be greater than 0")
}

/// Replies an element of a collection.
#[inline]
pub fn reply_element(reply: &mut Reply<'_>, element: Element<'_>) {
    match element {
        Element::Bytes(bytes) => reply.bulk(bytes),
        Element::Integer(integer) => reply.bulk_integer(integer),
    }
}

/// Whether an argument is `word`, in any case.
pub fn is(argument: &[u8], word: &str) -> bool {
    argument.eq_ignore_ascii_case(word.as_bytes())
}

/// The position `index` of `len` elements; a negative one counts from the end.
pub fn position(index: i64, len: usize) -> Option<usize> {
    let from_start = if index < 0 { index + len as i64 } else { index };
    usize::try_from(from_start).ok().filter(|&position| position < len)
}

/// The positions from `start` to `stop`, both included, of `len` elements; negative ones count from the end.
pub fn positions(start: i64, stop: i64, len: usize) -> Range<usize> {
    let from_start = |index: i64| if index < 0 { index + len as i64 } else { index };
    let end = from_start(stop).saturating_add(1).clamp(0, len as i64);
    let start = from_start(start).clamp(0, end);
    size(start.unsigned_abs())..size(end.unsigned_abs())
}

/// How many members SINTERCARD or ZINTERCARD counts at most. The last LIMIT counts; 0 is for no limit.
pub fn cardinality_limit(options: Args<'_>) -> Result<usize, CommandError> {
    let mut limit = 0;
    let mut words = options.iter();
    while let Some(word) = words.next() {
        let value = words.next().filter(|_| is(word, "LIMIT")).ok_or(CommandError::Syntax)?;
        limit = count(value).map_err(|_| CommandError::Text("ERR LIMIT can't be negative"))?;
    }
    Ok(if limit == 0 { usize::MAX } else { limit })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_beyond_an_end_are_cut_off() {
        assert_eq!(positions(0, -1, 3), 0..3);
        assert_eq!(positions(-100, 100, 3), 0..3);
        assert_eq!(positions(1, 1, 3), 1..2);
        assert!(positions(2, 1, 3).is_empty());
        assert!(positions(3, 5, 3).is_empty());
        assert!(positions(0, -4, 3).is_empty());
        assert!(positions(0, -1, 0).is_empty());
        assert_eq!(positions(i64::MIN, i64::MAX, 3), 0..3);
        assert!(positions(i64::MAX, i64::MIN, 3).is_empty());
    }

    #[test]
    fn a_position_outside_is_none() {
        assert_eq!((position(0, 3), position(-3, 3), position(2, 3)), (Some(0), Some(0), Some(2)));
        assert_eq!((position(3, 3), position(-4, 3), position(0, 0), position(i64::MIN, 3)), (None, None, None, None));
    }
}
