//! A large string in its encoding: in the bulk string that brought it, or in one of its own.

use bytes::Bytes;
use std::ops::Range;

/// What follows a length, and a string.
const END: &[u8] = b"\r\n";

/// A string in encoded form (`$`, length, `\r\n`, the string, `\r\n`), in bytes that have several owners: stored, and
/// replied, without being copied.
///
/// Invariant: it is encoded as a reply is.
#[derive(Debug, Clone)]
pub struct SharedBulk(Bytes);

impl SharedBulk {
    /// A copy of a string, and its encoding.
    #[cold]
    pub fn new(text: &[u8]) -> Self {
        let mut length = itoa::Buffer::new();
        Self([b"$", length.format(text.len()).as_bytes(), END, text, END].concat().into())
    }

    /// The string at `range` of `bytes`, if what is around it is its encoding. A client may send other bytes in place
    /// of line feeds, and of the end: the parser skips them.
    pub fn around(bytes: &Bytes, range: Range<usize>) -> Option<Self> {
        let mut length = itoa::Buffer::new();
        let head = [b"$", length.format(range.len()).as_bytes(), END];
        let start = range.start.checked_sub(head.iter().map(|part| part.len()).sum())?;
        let end = range.end + END.len();
        let is_encoded = bytes.get(start..range.start)? == head.concat() && bytes.get(range.end..end)? == END;
        is_encoded.then(|| Self(bytes.slice(start..end)))
    }

    /// The string. O(1)
    pub fn text(&self) -> &[u8] {
        let line = self.0.iter().position(|&byte| byte == b'\r').expect("an encoded string begins with its length");
        &self.0[line + END.len()..self.0.len() - END.len()]
    }

    /// The encoded string.
    pub fn into_encoded(self) -> Bytes {
        self.0
    }

    /// The encoded string.
    pub fn encoded(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_is_shared_only_in_its_own_encoding() {
        let at = |request: &'static [u8], range| SharedBulk::around(&Bytes::from_static(request), range);
        let whole = at(b"*2\r\n$3\r\nGET\r\n$11\r\nhello world\r\n", 18..29).expect("it is encoded");
        assert_eq!((whole.text(), whole.encoded()), (&b"hello world"[..], &b"$11\r\nhello world\r\n"[..]));
        assert!(at(b"$11\r hello world\r\n", 5..16).is_none(), "the parser skips the byte after a carriage return");
        assert!(at(b"$11\r\nhello world..", 5..16).is_none(), "and what is after an argument");
        assert!(at(b"$5\r\nhello world\r\n", 4..15).is_none());
        assert!(at(b"$5\r\nhello", 4..9).is_none() && at(b"hello\r\n", 0..5).is_none(), "something is missing");
        let copied = SharedBulk::new(b"hello world");
        assert_eq!((copied.text(), copied.encoded()), (whole.text(), whole.encoded()));
        let empty = at(b"$0\r\n\r\n", 4..4).expect("it is encoded");
        assert!(empty.text().is_empty() && empty.into_encoded().len() == 6);
    }
}
