//! Replies, written directly into the buffer for the socket.

use super::{DoubleText, SharedBulk};
use crate::base::narrowing::low_u8;

/// The end of a line.
const END: &[u8] = b"\r\n";

/// Appends replies to a buffer, in the protocol version of the connection.
#[derive(Debug)]
pub struct Reply<'a> {
    out: &'a mut Vec<u8>,
    resp3: bool,
    /// Where a shared string goes that is the whole reply, if there is a place.
    shared: Option<&'a mut Option<SharedBulk>>,
}

impl<'a> Reply<'a> {
    /// Replies appended to `out`.
    pub fn new(out: &'a mut Vec<u8>, resp3: bool) -> Self {
        Self { out, resp3, shared: None }
    }

    /// A reply appended to `out`, or put into `shared`, which is empty.
    #[inline]
    pub fn or_shared(out: &'a mut Vec<u8>, shared: &'a mut Option<SharedBulk>, resp3: bool) -> Self {
        Self { out, resp3, shared: Some(shared) }
    }

    /// Whether the connection speaks RESP3.
    pub fn is_resp3(&self) -> bool {
        self.resp3
    }

    /// The protocol version for what follows.
    pub fn set_resp3(&mut self, resp3: bool) {
        self.resp3 = resp3;
    }

    /// How many bytes the buffer holds: a position for [`truncate`](Self::truncate).
    pub fn position(&self) -> usize {
        self.out.len()
    }

    /// Removes what was appended after `start`, and a shared string.
    pub fn truncate(&mut self, start: usize) {
        self.out.truncate(start);
        if let Some(place) = &mut self.shared {
            **place = None;
        }
    }

    /// `+OK`.
    pub fn ok(&mut self) {
        self.out.extend_from_slice(b"+OK\r\n");
    }

    /// A simple string: one line, for words of the server's own.
    pub fn simple(&mut self, text: &str) {
        self.out.push(b'+');
        self.out.extend_from_slice(text.as_bytes());
        self.end();
    }

    /// An error: its code, a space, its text. Each character of the text is a byte (see [`quoted`]);
    /// characters that would break the line become spaces.
    pub fn error(&mut self, text: impl std::fmt::Display) {
        use std::fmt::Write;
        self.out.push(b'-');
        write!(ErrorLine(self.out), "{text}").expect("writing to memory does not fail");
        self.end();
    }

    /// An integer.
    pub fn integer(&mut self, value: i64) {
        self.header(b':', value);
    }

    /// A boolean as Redis's commands reply it: 1 or 0.
    pub fn flag(&mut self, value: bool) {
        self.out.extend_from_slice(if value { b":1\r\n" } else { b":0\r\n" });
    }

    /// A count.
    pub fn count(&mut self, value: usize) {
        self.integer(value as i64);
    }

    /// A bulk string.
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.header(b'$', bytes.len() as i64);
        // Including its end: reserving that separately would double the buffer, and copy all of it.
        self.out.reserve(bytes.len() + END.len());
        self.out.extend_from_slice(bytes);
        self.end();
    }

    /// A bulk string that is the whole reply; it is not copied if there is a place for it.
    #[cold]
    pub fn shared_bulk(&mut self, bulk: &SharedBulk) {
        match &mut self.shared {
            Some(place) => **place = Some(bulk.clone()),
            None => self.raw(bulk.encoded()),
        }
    }

    /// An integer as a bulk string.
    pub fn bulk_integer(&mut self, value: i64) {
        self.bulk(itoa::Buffer::new().format(value).as_bytes());
    }

    /// A double; a bulk string in RESP2.
    pub fn double(&mut self, value: f64) {
        self.double_text(&DoubleText::shortest(value));
    }

    /// A double in digits of the command's own; a bulk string in RESP2.
    pub fn double_text(&mut self, text: &[u8]) {
        if self.resp3 {
            self.out.push(b',');
            self.out.extend_from_slice(text);
            self.end();
        } else {
            self.bulk(text);
        }
    }

    /// An integer of any length; a bulk string in RESP2.
    pub fn big_number(&mut self, digits: &str) {
        if self.resp3 {
            self.out.push(b'(');
            self.out.extend_from_slice(digits.as_bytes());
            self.end();
        } else {
            self.bulk(digits.as_bytes());
        }
    }

    /// A boolean of the protocol; an integer in RESP2.
    pub fn boolean(&mut self, value: bool) {
        match self.resp3 {
            true => self.out.extend_from_slice(if value { b"#t\r\n" } else { b"#f\r\n" }),
            false => self.flag(value),
        }
    }

    /// The head of a map that precedes a reply and describes it; RESP3 only.
    pub fn attribute(&mut self, pairs: usize) {
        self.header(b'|', pairs as i64);
    }

    /// A text with its format; a bulk string in RESP2.
    pub fn verbatim(&mut self, text: &str) {
        if self.resp3 {
            self.header(b'=', text.len() as i64 + 4);
            self.out.extend_from_slice(b"txt:");
            self.out.extend_from_slice(text.as_bytes());
            self.end();
        } else {
            self.bulk(text.as_bytes());
        }
    }

    /// A missing value.
    pub fn null(&mut self) {
        self.out.extend_from_slice(if self.resp3 { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// A missing array.
    pub fn null_array(&mut self) {
        self.out.extend_from_slice(if self.resp3 { b"_\r\n" } else { b"*-1\r\n" });
    }

    /// The value, or null.
    pub fn bulk_or_null(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// The head of an array; its elements follow.
    pub fn array(&mut self, len: usize) {
        self.header(b'*', len as i64);
    }

    /// The head of a push, which is no reply to a request; its elements follow. An array in RESP2.
    pub fn push(&mut self, len: usize) {
        self.header(if self.resp3 { b'>' } else { b'*' }, len as i64);
    }

    /// Inserts the head of an array whose elements have been appended since `start`, if their number was not known
    /// before. O(N), N = bytes appended since.
    pub fn array_since(&mut self, start: usize, len: usize) {
        self.head_since(start, |reply| reply.array(len));
    }

    /// Inserts the head of a map whose keys and values have been appended since `start`. O(N), N = bytes appended since
    pub fn map_since(&mut self, start: usize, pairs: usize) {
        self.head_since(start, |reply| reply.map(pairs));
    }

    /// Inserts the head of a set whose members have been appended since `start`. O(N), N = bytes appended since.
    pub fn set_since(&mut self, start: usize, len: usize) {
        self.head_since(start, |reply| reply.set(len));
    }

    fn head_since(&mut self, start: usize, write: impl FnOnce(&mut Self)) {
        let end = self.out.len();
        write(self);
        let head = self.out.len() - end;
        self.out[start..].rotate_right(head);
    }

    /// The head of a map; its keys and values follow. A flat array in RESP2.
    pub fn map(&mut self, pairs: usize) {
        if self.resp3 {
            self.header(b'%', pairs as i64);
        } else {
            self.header(b'*', 2 * pairs as i64);
        }
    }

    /// The head of a set; its members follow. An array in RESP2.
    pub fn set(&mut self, len: usize) {
        self.header(if self.resp3 { b'~' } else { b'*' }, len as i64);
    }

    /// The buffer itself: for encoded data between replies.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        self.out
    }

    /// An encoded reply.
    pub fn raw(&mut self, encoded: &[u8]) {
        self.out.extend_from_slice(encoded);
    }

    fn header(&mut self, kind: u8, value: i64) {
        let digit = |value: i64| b'0' + low_u8(value.cast_unsigned());
        match value {
            0..10 => self.out.extend_from_slice(&[kind, digit(value), b'\r', b'\n']),
            10..100 => self.out.extend_from_slice(&[kind, digit(value / 10), digit(value % 10), b'\r', b'\n']),
            _ => {
                self.out.push(kind);
                self.out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
                self.end();
            }
        }
    }

    fn end(&mut self) {
        self.out.extend_from_slice(END);
    }
}

/// Writes each character as the byte with its number.
struct ErrorLine<'a>(&'a mut Vec<u8>);

impl std::fmt::Write for ErrorLine<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.extend(text.chars().map(|character| match character {
            '\r' | '\n' => b' ',
            _ => u8::try_from(character).unwrap_or(b'?'),
        }));
        Ok(())
    }
}

/// A client's bytes for the text of an error, as C prints a string of at most `most` bytes: up to the first NUL. A
/// character stands for a byte, so that [`Reply::error`] replies the very bytes.
pub fn quoted(bytes: &[u8], most: usize) -> String {
    let printed = bytes.iter().take(most).take_while(|&&byte| byte != 0);
    printed.copied().map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(resp3: bool, write: impl Fn(&mut Reply<'_>)) -> String {
        let mut out = Vec::new();
        write(&mut Reply::new(&mut out, resp3));
        String::from_utf8(out).expect("the test writes text")
    }

    #[test]
    fn each_version_has_its_own_nulls_maps_and_sets() {
        assert_eq!(encoded(false, |reply| reply.null()), "$-1\r\n");
        assert_eq!(encoded(true, |reply| reply.null()), "_\r\n");
        assert_eq!(encoded(false, |reply| reply.map(2)), "*4\r\n");
        assert_eq!(encoded(true, |reply| reply.map(2)), "%2\r\n");
        assert_eq!(encoded(false, |reply| reply.set(12)), "*12\r\n");
        assert_eq!(encoded(true, |reply| reply.set(12)), "~12\r\n");
    }

    #[test]
    fn each_version_has_its_own_texts_pushes_and_empty_arrays() {
        assert_eq!(encoded(false, |reply| reply.verbatim("a text")), "$6\r\na text\r\n");
        assert_eq!(encoded(true, |reply| reply.verbatim("a text")), "=10\r\ntxt:a text\r\n");
        assert_eq!(
            encoded(false, |reply| reply.big_number("-12345678901234567890")),
            "$21\r\n-12345678901234567890\r\n"
        );
        assert_eq!(encoded(true, |reply| reply.big_number("-12345678901234567890")), "(-12345678901234567890\r\n");
        assert_eq!(encoded(false, |reply| reply.push(3)), "*3\r\n");
        assert_eq!(encoded(true, |reply| reply.push(3)), ">3\r\n");
        assert_eq!(encoded(false, |reply| reply.null_array()), "*-1\r\n");
        assert_eq!(encoded(true, |reply| reply.null_array()), "_\r\n");
    }

    #[test]
    fn what_is_taken_back_leaves_no_shared_string() {
        let bulk = SharedBulk::around(&bytes::Bytes::from_static(b"$1\r\nx\r\n"), 4..5).expect("it is encoded");
        let (mut out, mut shared) = (Vec::new(), None);
        let mut reply = Reply::or_shared(&mut out, &mut shared, false);
        let start = reply.position();
        reply.shared_bulk(&bulk);
        reply.truncate(start);
        reply.null();
        assert_eq!((&out[..], shared.is_none()), (&b"$-1\r\n"[..], true));
    }

    #[test]
    fn a_large_string_takes_no_more_room_than_it_has_bytes() {
        let mut out = Vec::new();
        Reply::new(&mut out, false).bulk(&vec![b'x'; 1_000_000]);
        assert!(out.capacity() <= out.len() + 64, "{} for {}", out.capacity(), out.len());
    }

    #[test]
    fn a_head_can_come_after_its_elements() {
        let reply = encoded(true, |reply| {
            reply.bulk(b"before");
            let start = reply.position();
            (0..12).for_each(|number| reply.integer(number));
            reply.array_since(start, 12);
        });
        assert!(reply.starts_with("$6\r\nbefore\r\n*12\r\n:0\r\n") && reply.ends_with(":11\r\n"), "{reply}");
        assert_eq!(encoded(false, |reply| reply.map_since(0, 0)), "*0\r\n");
    }

    #[test]
    fn an_error_stays_one_line_whatever_it_quotes() {
        assert_eq!(encoded(false, |reply| reply.error("ERR a\r\nb")), "-ERR a  b\r\n");
        assert_eq!(encoded(false, |reply| reply.error(quoted(b"a\r\0b", 9))), "-a \r\n");
        let mut out = Vec::new();
        Reply::new(&mut out, false).error(quoted(b"\xff\xc3\xa4", 2));
        assert_eq!(out, b"-\xff\xc3\r\n");
    }
}
