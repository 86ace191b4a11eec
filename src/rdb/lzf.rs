//! LZF, with which Redis compresses long strings. (Its crate is deprecated.)
//!
//! ```text
//! 000nnnnn                      n + 1 bytes follow as they are
//! nnnooooo oooooooo             n + 2 bytes from o + 1 bytes before, for n from 1 to 6
//! 111ooooo nnnnnnnn oooooooo    n + 9 bytes from o + 1 bytes before
//! ```
//!
//! A copy may overlap what it writes: it repeats. <http://oldhome.schmorp.de/marc/liblzf.html> has the format.

use crate::base::narrowing::{low_u8, low_u32};

/// The most bytes that three bytes expand to.
const COPY_MAX: usize = 264;
/// The fewest bytes that are copied.
const COPY_MIN: usize = 3;
/// How far back a copy reaches.
const DISTANCE_MAX: usize = 1 << 13;
/// The most bytes that follow one instruction as they are.
const LITERAL_MAX: usize = 32;
/// The copies whose length is in their first byte are shorter, by this and what is subtracted from every length.
const LONG: usize = 7;
const LEN_OFFSET: usize = 2;

/// How many bits of a hash choose a place, in 64 KB of places.
const HASH_BITS: u32 = 14;
/// Bytes without a copy after which every second byte alone is looked at, then every third, and so on: what cannot be
/// compressed costs less then.
const PATIENCE: usize = 256;

/// A compressor.
#[derive(Debug)]
pub struct Compressor {
    /// Where three bytes with each hash were seen last. A position may come from an earlier string: so the bytes at it
    /// are compared before they are copied.
    places: Box<[u32]>,
}

impl Default for Compressor {
    fn default() -> Self {
        Self { places: vec![0; 1 << HASH_BITS].into() }
    }
}

impl Compressor {
    /// Appends the compressed text to `out`, if that takes at most `len_max` bytes; otherwise it returns false, and
    /// `out` is as before.
    pub fn compress(&mut self, text: &[u8], out: &mut Vec<u8>, len_max: usize) -> bool {
        let start = out.len();
        let (mut at, mut literal) = (0, 0);
        while let Some(next) = text.get(at..).and_then(<[u8]>::first_chunk) {
            match self.earlier(text, at, *next) {
                Some(from) => {
                    let len = equal_len(text, from, at);
                    write_literal(out, &text[literal..at]);
                    write_copy(out, at - from, len);
                    at += len;
                    literal = at;
                }
                None => at += 1 + (at - literal) / PATIENCE,
            }
        }
        write_literal(out, &text[literal..]);
        let is_short = out.len() - start <= len_max;
        if !is_short {
            out.truncate(start);
        }
        is_short
    }

    /// Where the next bytes occurred before, near enough for a copy.
    fn earlier(&mut self, text: &[u8], at: usize, next: [u8; COPY_MIN]) -> Option<usize> {
        let [first, second, third] = next;
        // Fibonacci hashing.
        let hash = u32::from_le_bytes([first, second, third, 0]).wrapping_mul(0x9E37_79B1) >> (u32::BITS - HASH_BITS);
        let from = std::mem::replace(&mut self.places[hash as usize], low_u32(at as u64)) as usize;
        let is_near = from < at && at - from <= DISTANCE_MAX;
        (is_near && text[from..].starts_with(&next)).then_some(from)
    }
}

/// How many bytes, from [`COPY_MIN`] to [`COPY_MAX`], are the same from both positions.
fn equal_len(text: &[u8], from: usize, at: usize) -> usize {
    let end = text.len().min(at + COPY_MAX);
    let pairs = text[from + COPY_MIN..].iter().zip(&text[at + COPY_MIN..end]);
    COPY_MIN + pairs.take_while(|(earlier, later)| earlier == later).count()
}

fn write_literal(out: &mut Vec<u8>, literal: &[u8]) {
    for part in literal.chunks(LITERAL_MAX) {
        out.push(low_u8(part.len() as u64 - 1));
        out.extend_from_slice(part);
    }
}

fn write_copy(out: &mut Vec<u8>, distance: usize, len: usize) {
    let (offset, count) = (distance as u64 - 1, len - LEN_OFFSET);
    let high = low_u8(offset >> 8);
    out.push(low_u8((count.min(LONG) as u64) << 5) | high);
    if count >= LONG {
        out.push(low_u8((count - LONG) as u64));
    }
    out.push(low_u8(offset));
}

/// The `len` bytes that `packed` expands to, if it has that length. Memory is allocated as bytes come, not according to
/// `len`.
pub fn decompress(packed: &[u8], len: usize) -> Option<Vec<u8>> {
    if len > packed.len().checked_mul(COPY_MAX)? {
        return None;
    }
    let mut out = Vec::new();
    let mut rest = packed;
    while let Some((&control, after)) = rest.split_first() {
        rest = if control < 0b10_0000 {
            let (literal, after) = after.split_at_checked(usize::from(control) + 1)?;
            out.extend_from_slice(literal);
            after
        } else {
            copy(control, after, &mut out)?
        };
        if out.len() > len {
            return None;
        }
    }
    (out.len() == len).then_some(out)
}

/// Repeats a part of the output; returns the input after the instruction.
fn copy<'a>(control: u8, rest: &'a [u8], out: &mut Vec<u8>) -> Option<&'a [u8]> {
    let short = usize::from(control >> 5);
    let (more, rest) = if short == LONG { rest.split_first()? } else { (&0, rest) };
    let (&low, rest) = rest.split_first()?;
    let distance = (usize::from(control & 0b1_1111) << 8 | usize::from(low)) + 1;
    let count = short + usize::from(*more) + LEN_OFFSET;
    let start = out.len().checked_sub(distance)?;
    for index in start..start + count {
        let byte = out[index];
        out.push(byte);
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_redis_compressed_comes_back() {
        // "a" and a copy of 99 more from one byte before, as Redis stores 100 of them.
        assert_eq!(decompress(b"\x01aa\xE0\x59\x00", 100), Some(vec![b'a'; 100]));
        assert_eq!(decompress(b"\x02abc\x20\x02", 6), Some(b"abcabc".to_vec()));
        assert_eq!(decompress(b"", 0), Some(Vec::new()));
    }

    #[test]
    fn repeated_text_becomes_short() {
        let mut out = b"before".to_vec();
        assert!(Compressor::default().compress(&[b'a'; 100], &mut out, 96));
        assert_eq!(out, b"before\x00a\xE0\x5A\x00");
        let json = br#"{"id":17,"name":"one"},{"id":18,"name":"two"},{"id":19,"name":"six"}"#;
        let mut out = Vec::new();
        assert!(Compressor::default().compress(json, &mut out, json.len() * 3 / 4), "{} bytes", out.len());
    }

    #[test]
    fn what_does_not_become_short_enough_is_left_out() {
        let mut out = b"before".to_vec();
        assert!(!Compressor::default().compress(b"abcdefghijklmnopqrstuvwxyz", &mut out, 22));
        assert!(!Compressor::default().compress(&[b'a'; 100], &mut out, 4));
        assert_eq!(out, b"before");
    }

    #[test]
    fn what_is_no_lzf_is_refused() {
        for (packed, len) in [
            (b"\x01a".as_slice(), 2),
            (b"\x00a\x20", 4),
            (b"\x00a\x20\x05", 4),
            (b"\x00a\xE0", 10),
            (b"\x00a", 2),
            (b"\x01ab", 1),
            (b"\x00a", usize::MAX),
            (b"", 1),
        ] {
            assert_eq!(decompress(packed, len), None, "{packed:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn compressed_text_comes_back(
            words in proptest::collection::vec((0..40usize, any::<u8>(), 0..600usize), 0..60),
            seed in any::<u64>(),
        ) {
            // Random bytes, runs of one byte, and copies of bytes at most so far back.
            let (mut random, mut text) = (fastrand::Rng::with_seed(seed), Vec::new());
            for (kind, byte, len) in words {
                match kind {
                    0..10 => text.extend(std::iter::repeat_with(|| random.u8(..)).take(len)),
                    10..20 => text.resize(text.len() + len, byte),
                    _ => text.extend_from_within(text.len().saturating_sub(len * kind)..text.len().saturating_sub(len * kind) + len.min(text.len())),
                }
            }
            let mut compressor = Compressor::default();
            // What a compressor has seen before changes no text.
            for text in [&text[text.len() / 2..], &text] {
                let mut out = Vec::new();
                prop_assert!(compressor.compress(text, &mut out, usize::MAX));
                prop_assert!(out.len() <= text.len() + text.len().div_ceil(LITERAL_MAX));
                prop_assert!(decompress(&out, text.len()).as_deref() == Some(text));
            }
        }

        #[test]
        fn any_bytes_give_so_many_or_none(packed in proptest::collection::vec(any::<u8>(), 0..200), len in 0..4000usize) {
            prop_assert!(decompress(&packed, len).is_none_or(|out| out.len() == len));
        }
    }
}
