//! The IDs of entries: a time in milliseconds, and a number within it.

use crate::resp::parse_i64;
use std::fmt;

/// The ID of an entry of a stream; ordered by time, then by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct StreamId {
    /// Milliseconds, usually of Unix time.
    pub ms: u64,
    /// The number within the millisecond.
    pub seq: u64,
}

impl StreamId {
    /// The least ID, which no entry has.
    pub const MIN: Self = Self { ms: 0, seq: 0 };
    /// The greatest ID.
    pub const MAX: Self = Self { ms: u64::MAX, seq: u64::MAX };

    /// The next ID; none after the greatest.
    pub fn next(self) -> Option<Self> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(Self { seq, ..self }),
            None => self.ms.checked_add(1).map(|ms| Self { ms, seq: 0 }),
        }
    }

    /// The ID before; none before the least.
    pub fn previous(self) -> Option<Self> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(Self { seq, ..self }),
            None => self.ms.checked_sub(1).map(|ms| Self { ms, seq: u64::MAX }),
        }
    }

    /// Reads `ms` or `ms-seq`; `missing_seq` is the default number.
    pub fn parse(text: &[u8], missing_seq: u64) -> Option<Self> {
        match split(text)? {
            (ms, None) => Some(Self { ms: parse_part(ms)?, seq: missing_seq }),
            (ms, Some(seq)) => Some(Self { ms: parse_part(ms)?, seq: parse_part(seq)? }),
        }
    }

    /// Reads the ID of a new entry: `ms`, `ms-seq`, or `ms-*`, whose number is chosen.
    pub fn parse_chosen(text: &[u8]) -> Option<ChosenId> {
        match split(text)? {
            (ms, Some(b"*")) => Some(ChosenId::Time(parse_part(ms)?)),
            _ => Self::parse(text, 0).map(ChosenId::Whole),
        }
    }

    /// Reads an end of a range: an ID, `-` for the least, `+` for the greatest.
    pub fn parse_bound(text: &[u8], missing_seq: u64) -> Option<Self> {
        match text {
            b"-" => Some(Self::MIN),
            b"+" => Some(Self::MAX),
            _ => Self::parse(text, missing_seq),
        }
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

/// The ID that a client requests for a new entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChosenId {
    /// All of it.
    Whole(StreamId),
    /// Its time; the number is the next one.
    Time(u64),
}

/// Bytes of an ID at most, as Redis reads them.
const TEXT_MAX: usize = 127;

/// The parts before and after the first hyphen. Redis reads a C string: it ends at the first NUL.
fn split(text: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    if text.len() > TEXT_MAX {
        return None;
    }
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    Some(match text.iter().position(|&byte| byte == b'-') {
        Some(hyphen) => (&text[..hyphen], Some(&text[hyphen + 1..])),
        None => (text, None),
    })
}

/// An unsigned number as Redis reads it here: strictly if it can, else as C's `strtoull` does, which skips white space
/// and leading zeros, and negates.
fn parse_part(text: &[u8]) -> Option<u64> {
    if let Some(value) = parse_i64(text) {
        return u64::try_from(value).ok();
    }
    let text = &text[text.iter().position(|byte| !matches!(byte, b' ' | b'\t'..=b'\r'))?..];
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        _ => (false, text),
    };
    if digits.is_empty() {
        return None;
    }
    let value = digits.iter().try_fold(0u64, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit <= 9).then_some(())?;
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })?;
    Some(if is_negative { value.wrapping_neg() } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_redis_reads_it() {
        let id = |ms, seq| Some(StreamId { ms, seq });
        for (text, wanted) in [
            ("1-2", id(1, 2)),
            ("7", id(7, 9)),
            ("18446744073709551615-18446744073709551615", Some(StreamId::MAX)),
            ("01-002", id(1, 2)),
            (" 1-+2", id(1, 2)),
            ("1--01", id(1, u64::MAX)),
            ("1-2\0rest", id(1, 2)),
            ("18446744073709551616-0", None),
            ("1--1", None),
            ("1-", None),
            ("-1", None),
            ("-", None),
            ("+", None),
            ("", None),
            ("1-*", None),
            ("a-1", None),
            ("1-2-3", None),
            ("1 -2", None),
        ] {
            assert_eq!(StreamId::parse(text.as_bytes(), 9), wanted, "{text:?}");
        }
        assert_eq!(StreamId::parse(&[b'0'; 128], 0), None);
        assert_eq!(StreamId::parse(&[b'0'; 127], 0), id(0, 0));
        assert_eq!(StreamId::parse_chosen(b"5-*"), Some(ChosenId::Time(5)));
        assert_eq!(StreamId::parse_chosen(b"5"), Some(ChosenId::Whole(StreamId { ms: 5, seq: 0 })));
        assert_eq!(StreamId::parse_chosen(b"*"), None);
    }

    #[test]
    fn neighbours_cross_milliseconds_and_end_at_the_ends() {
        let end = StreamId { ms: 4, seq: u64::MAX };
        let start = StreamId { ms: 5, seq: 0 };
        assert_eq!((end.next(), start.previous()), (Some(start), Some(end)));
        assert_eq!((StreamId::MAX.next(), StreamId::MIN.previous()), (None, None));
    }
}
