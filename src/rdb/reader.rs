//! Reads the building blocks of the format: lengths and strings.

use super::Malformed;
use super::lzf;
use crate::base::limits::LEN_MAX;
use std::borrow::Cow;

/// Bytes that are read from front to back. Nothing is allocated for a length alone.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
    /// How many bytes compressed strings may still expand to.
    budget: usize,
    /// Whether Valkey wrote them, which has types of its own.
    pub is_of_valkey: bool,
}

/// The beginning of a string.
enum Prefix {
    Length(u64),
    /// A string in another form.
    Form(u8),
}

impl<'a> Reader<'a> {
    /// Reads these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self::within(bytes, usize::MAX)
    }

    /// Reads these bytes; their compressed strings may expand to `budget` bytes together.
    pub fn within(bytes: &'a [u8], budget: usize) -> Self {
        Self { rest: bytes, budget, is_of_valkey: false }
    }

    /// How many bytes are left.
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// The next bytes.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(Malformed::Bad)?;
        self.rest = rest;
        Ok(taken)
    }

    /// The next bytes, as many as the caller's type requires.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let taken = self.take(N)?;
        Ok(taken.try_into().expect("as many were taken"))
    }

    /// The next byte.
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        self.array().map(|[byte]| byte)
    }

    /// A length, or a count.
    pub fn length(&mut self) -> Result<u64, Malformed> {
        match self.prefix()? {
            Prefix::Length(length) => Ok(length),
            Prefix::Form(_) => Err(Malformed::Bad),
        }
    }

    fn prefix(&mut self) -> Result<Prefix, Malformed> {
        let first = self.byte()?;
        let low = first & 0b11_1111;
        Ok(match first >> 6 {
            0 => Prefix::Length(low.into()),
            1 => Prefix::Length(u64::from(low) << 8 | u64::from(self.byte()?)),
            2 if first == 0x80 => Prefix::Length(u32::from_be_bytes(self.array()?).into()),
            2 if first == 0x81 => Prefix::Length(u64::from_be_bytes(self.array()?)),
            3 => Prefix::Form(low),
            _ => return Err(Malformed::Bad),
        })
    }

    /// A string. One that is longer than a key or a value may be is refused before any of it is read.
    pub fn string(&mut self) -> Result<Cow<'a, [u8]>, Malformed> {
        let integer = |integer: i64| Ok(Cow::Owned(integer.to_string().into_bytes()));
        match self.prefix()? {
            Prefix::Length(length) => self.take(string_length(length)?).map(Cow::Borrowed),
            Prefix::Form(0) => integer(i8::from_le_bytes(self.array()?).into()),
            Prefix::Form(1) => integer(i16::from_le_bytes(self.array()?).into()),
            Prefix::Form(2) => integer(i32::from_le_bytes(self.array()?).into()),
            Prefix::Form(3) => self.compressed().map(Cow::Owned),
            Prefix::Form(_) => Err(Malformed::Bad),
        }
    }

    /// A string that is not compressed, if it is stored as text; `None` for an integer.
    pub fn plain_string(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        match self.prefix()? {
            Prefix::Length(length) => self.take(string_length(length)?).map(Some),
            Prefix::Form(form @ 0..=2) => self.take(1 << form).map(|_| None),
            Prefix::Form(_) => Err(Malformed::Bad),
        }
    }

    fn compressed(&mut self) -> Result<Vec<u8>, Malformed> {
        let packed_len = usize::try_from(self.length()?).map_err(|_| Malformed::Bad)?;
        let len = string_length(self.length()?)?;
        self.budget = self.budget.checked_sub(len).ok_or(Malformed::Bad)?;
        lzf::decompress(self.take(packed_len)?, len).ok_or(Malformed::Bad)
    }

    /// A score as text.
    pub fn text_score(&mut self) -> Result<f64, Malformed> {
        match self.byte()? {
            253 => Ok(f64::NAN),
            254 => Ok(f64::INFINITY),
            255 => Ok(f64::NEG_INFINITY),
            len => parse_score(self.take(len.into())?),
        }
    }

    /// A score in its binary form.
    pub fn score(&mut self) -> Result<f64, Malformed> {
        self.array().map(f64::from_le_bytes)
    }
}

/// The length of a string that is not too long.
fn string_length(length: u64) -> Result<usize, Malformed> {
    usize::try_from(length).ok().filter(|&length| length <= LEN_MAX).ok_or(Malformed::TooLong(length))
}

/// A score from its text.
pub fn parse_score(text: &[u8]) -> Result<f64, Malformed> {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or(Malformed::Bad)
}
