//! Records: framed and checksummed, so that what is read is what was written, or is seen not to be.
//!
//! ```text
//! record:  length u32 | CRC-32 of payload u32 | payload
//! payload: effects of one command (see `keyspace::Effects`)                (all integers little endian)
//! ```

use crate::resp::Span;

const FRAME_HEADER: usize = 8;

/// Appends a record with this payload.
pub fn frame_onto(out: &mut Vec<u8>, payload: &[u8]) {
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&crc32fast::hash(payload).to_le_bytes());
    out.extend_from_slice(payload);
}

/// What stands at the start of some bytes of a segment.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A whole record, and how many bytes it takes.
    Record(&'a [u8], usize),
    /// Nothing: the end.
    End,
    /// A record that the bytes end within.
    Torn,
    /// A record of this many bytes whose checksum is not that of its payload.
    Corrupt(usize),
}

/// Reads the record at the start of `bytes`.
pub fn decode(bytes: &[u8]) -> Frame<'_> {
    if bytes.is_empty() {
        return Frame::End;
    }
    let Some((header, rest)) = bytes.split_at_checked(FRAME_HEADER) else { return Frame::Torn };
    let len = u32_at(header, 0) as usize;
    let Some(payload) = rest.get(..len) else { return Frame::Torn };
    // No command has an empty effect: a zero length is a file that was grown but not written.
    if len == 0 || crc32fast::hash(payload) != u32_at(header, 4) {
        return Frame::Corrupt(FRAME_HEADER + len);
    }
    Frame::Record(payload, FRAME_HEADER + len)
}

/// Calls `apply` with the arguments of each effect of a payload: `(bytes, spans)` as `Args` takes them.
/// `None` when the payload is not a list of effects.
pub fn for_each_effect(payload: &[u8], spans: &mut Vec<Span>, mut apply: impl FnMut(&[u8], &[Span])) -> Option<()> {
    let mut position = 0;
    while position < payload.len() {
        let count = u32_at(payload.get(position..position + 4)?, 0);
        position += 4;
        spans.clear();
        for _ in 0..count {
            let len = u32_at(payload.get(position..position + 4)?, 0);
            position += 4;
            payload.get(position..position + len as usize)?;
            spans.push(Span { start: position as u32, len });
            position += len as usize;
        }
        apply(payload, spans);
    }
    Some(())
}

fn u32_at(bytes: &[u8], start: usize) -> u32 {
    let four = bytes[start..].first_chunk::<4>().expect("the caller holds four bytes");
    u32::from_le_bytes(*four)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_back_and_a_cut_or_changed_one_does_not() {
        let mut bytes = Vec::new();
        frame_onto(&mut bytes, b"payload");
        let whole = bytes.len();
        assert_eq!(decode(&bytes), Frame::Record(b"payload", whole));
        assert_eq!(decode(&[]), Frame::End);
        for cut in 1..whole {
            assert_eq!(decode(&bytes[..cut]), Frame::Torn, "cut at {cut}");
        }
        for position in 4..whole {
            let mut damaged = bytes.clone();
            damaged[position] ^= 1;
            assert_eq!(decode(&damaged), Frame::Corrupt(whole), "byte {position}");
        }
        assert_eq!(decode(&[0; 100]), Frame::Corrupt(8));
    }
}
