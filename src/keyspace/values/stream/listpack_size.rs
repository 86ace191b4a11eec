//! How many bytes Redis's encoding of a block takes: a listpack, whose format is public.
//!
//! Nothing is stored in this form. A block is full when Redis's would be, because that decides what approximate
//! trimming leaves, and clients can count it.
//!
//! ```text
//! listpack: total bytes u32 | elements u16 | element … | 0xff
//! element:  encoding and data | length of these two, to walk backwards (1 to 5 bytes)
//! block:    live | deleted | names count | names … | 0 | entry …
//! entry:    flags | ms | seq | (names count | name | value …) or values … | elements of the entry
//! ```

use super::id::StreamId;
use crate::resp::parse_i64;

/// The bytes around the elements.
pub const FRAME: usize = 7;

/// The elements of a block before its entries, without the two counts.
pub fn header<'a>(count: usize, names: impl Iterator<Item = &'a [u8]>) -> usize {
    integer(count as i64) + names.map(text).sum::<usize>() + integer(0)
}

/// The elements of an entry of a block that begins at `first`.
pub fn entry<'a>(
    id: StreamId,
    first: StreamId,
    has_names: bool,
    fields: impl Iterator<Item = &'a [u8]> + Clone,
) -> usize {
    let pairs = fields.clone().count() / 2;
    let deltas = [id.ms.wrapping_sub(first.ms), id.seq.wrapping_sub(first.seq)].map(|delta| integer(delta as i64));
    let (parts, elements) = if has_names {
        (integer(pairs as i64) + fields.map(text).sum::<usize>(), 2 * pairs + 4)
    } else {
        (fields.skip(1).step_by(2).map(text).sum(), pairs + 3)
    };
    integer(0) + deltas.iter().sum::<usize>() + parts + integer(elements as i64)
}

/// An integer.
pub fn integer(value: i64) -> usize {
    with_length(match value {
        0..=0x7f => 1,
        -0x1000..=0xfff => 2,
        -0x8000..=0x7fff => 3,
        -0x80_0000..=0x7f_ffff => 4,
        -0x8000_0000..=0x7fff_ffff => 5,
        _ => 9,
    })
}

/// A text, or the integer that it is.
fn text(bytes: &[u8]) -> usize {
    if let Some(value) = parse_i64(bytes) {
        return integer(value);
    }
    with_length(match bytes.len() {
        len @ 0..0x40 => 1 + len,
        len @ 0x40..0x1000 => 2 + len,
        len => 5 + len,
    })
}

fn with_length(bytes: usize) -> usize {
    bytes
        + match bytes {
            0..0x80 => 1,
            0x80..0x3fff => 2,
            0x3fff..0x1f_ffff => 3,
            0x1f_ffff..0xfff_ffff => 4,
            _ => 5,
        }
}
