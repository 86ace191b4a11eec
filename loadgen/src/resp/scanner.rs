//! The incremental reply scanner: finds where each reply ends, and its kind.
//!
//! ```text
//! +text\r\n  -text\r\n  :12\r\n  _\r\n  #t\r\n  ,1.5\r\n  (123\r\n      one line
//! $5\r\nhello\r\n  =9\r\ntxt:hello\r\n  !5\r\nERR x\r\n  $-1\r\n        a length, then bytes
//! *2\r\n…  ~2\r\n…  >2\r\n…  %1\r\n…  |1\r\n…  *-1\r\n                a count, then elements
//! ```
//!
//! It is a state machine over bytes that keeps no input: a reply may be split anywhere, and the
//! caller may reuse its buffer at once. Scanning allocates nothing, and a length or count that a server
//! promises costs no memory.

/// How deep aggregates may nest before the scanner refuses them.
pub const MAX_DEPTH: usize = 32;

const LINE_BYTES_MAX: u32 = 64 * 1024;
const BULK_BYTES_MAX: u64 = 512 * 1024 * 1024;
const ELEMENTS_MAX: u64 = u32::MAX as u64;
const ERROR_TEXT_BYTES_MAX: usize = 128;

/// The kind of a complete top-level reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyKind {
    /// `+OK`
    Simple,
    /// `-ERR …`, or RESP3's `!`
    Error,
    /// `:1`
    Integer,
    /// `$…` that is there, or RESP3's verbatim string
    Bulk,
    /// `$-1`, `*-1` or `_`
    Null,
    /// `*…`
    Array,
    /// `>…`: out of band, not a reply to a request
    Push,
    /// RESP3's maps and sets
    Aggregate,
    /// RESP3's booleans, doubles and big numbers
    Other,
}

/// What [`ReplyScanner::scan`] found at the start of its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scanned {
    /// A reply ended `length` bytes into the input.
    Reply {
        /// Its kind.
        kind: ReplyKind,
        /// Bytes of this input that belong to it; earlier inputs may hold its beginning.
        length: usize,
    },
    /// All input was consumed, and the reply (if any began) is not yet complete.
    Incomplete,
}

/// Consecutive replies of one kind and one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyRun {
    /// Their kind.
    pub kind: ReplyKind,
    /// How many they are.
    pub count: u64,
    /// Bytes of this input that belong to them; earlier inputs may hold the beginning of the first.
    pub length: usize,
}

/// The elements of an array, a set or a map, without those of arrays inside it. A pair counts as two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Elements {
    /// How many elements.
    pub count: u64,
    /// How many of them are null.
    pub nulls: u64,
}

/// Bytes that are not RESP, or that no client should accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScanError {
    /// The first byte of a reply or element names no type.
    #[error("byte {0:#04x} begins no reply")]
    UnknownType(u8),
    /// A byte that is invalid at its place.
    #[error("byte {0:#04x} in a {1}")]
    UnexpectedByte(u8, &'static str),
    /// A length or count beyond the limits, or a negative one other than -1.
    #[error("invalid length")]
    InvalidLength,
    /// A line of more than 64 KiB.
    #[error("line too long")]
    LineTooLong,
    /// More than [`MAX_DEPTH`] nested aggregates.
    #[error("aggregates nest deeper than {MAX_DEPTH}")]
    TooDeep,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Type,
    Line { rule: LineRule, length: u32 },
    LineFeed,
    Length { of: Prefixed, negative: bool, digits: u8, value: u64 },
    LengthFeed { of: Prefixed, length: Option<u64> },
    Body { remaining: u64 },
    BodyReturn,
    BodyFeed,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum LineRule {
    Text,
    ErrorText,
    Integer,
    Double,
    Boolean,
    Null,
}

/// The types that begin with a length or a count.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Prefixed {
    Bulk,
    ErrorBulk,
    Elements,
    Pairs,
    Attribute,
}

/// An aggregate whose elements are being read. Invariant: `remaining > 0`.
#[derive(Clone, Copy, Debug)]
struct Frame {
    remaining: u64,
    attribute: bool,
}

/// Scans the replies of one connection.
///
/// Invariants: between two replies it is in its initial state; `depth <= MAX_DEPTH`. After an
/// error its state is meaningless: close the connection.
#[derive(Clone, Debug)]
pub struct ReplyScanner {
    state: State,
    kind: ReplyKind,
    /// The elements of the top-level aggregate that began last.
    elements: Elements,
    depth: usize,
    error_text_length: usize,
    /// Boxed, so that the fields used by every reply are close together.
    seldom: Box<Seldom>,
}

/// The state that only arrays and errors need.
#[derive(Clone, Debug)]
struct Seldom {
    frames: [Frame; MAX_DEPTH],
    error_text: [u8; ERROR_TEXT_BYTES_MAX],
}

impl Default for ReplyScanner {
    fn default() -> Self {
        Self::new()
    }
}

impl ReplyScanner {
    /// A scanner before the first byte of a connection.
    pub fn new() -> Self {
        let frame = Frame { remaining: 0, attribute: false };
        Self {
            state: State::Type,
            kind: ReplyKind::Null,
            elements: Elements::default(),
            depth: 0,
            error_text_length: 0,
            seldom: Box::new(Seldom { frames: [frame; MAX_DEPTH], error_text: [0; ERROR_TEXT_BYTES_MAX] }),
        }
    }

    /// Consumes input up to the end of one reply, or all of it.
    ///
    /// Call again with what follows `length` until it returns [`Scanned::Incomplete`].
    #[inline]
    pub fn scan(&mut self, input: &[u8]) -> Result<Scanned, ScanError> {
        Ok(match self.scan_run(input, 1)? {
            Some(ReplyRun { kind, length, .. }) => Scanned::Reply { kind, length },
            None => Scanned::Incomplete,
        })
    }

    /// Consumes input up to the end of one reply and of equal ones that follow, `most` in all (at least one); `None` if
    /// all input was consumed without the end of a reply.
    ///
    /// A reply to a pipelined batch mostly resembles the one before it: the same status, or a string of the same
    /// length. Recognizing it by its first bytes costs a fraction of scanning it.
    #[inline]
    pub fn scan_run(&mut self, input: &[u8], most: u64) -> Result<Option<ReplyRun>, ScanError> {
        if matches!(self.state, State::Type)
            && self.depth == 0
            && let Some(Whole { kind, head, length }) = whole_reply(input)
        {
            self.kind = kind;
            let count = 1 + following_alike(input, head, length, most);
            return Ok(Some(ReplyRun { kind, count: count as u64, length: count * length }));
        }
        match self.scan_states(input)? {
            Scanned::Reply { kind, length } => Ok(Some(ReplyRun { kind, count: 1, length })),
            Scanned::Incomplete => Ok(None),
        }
    }

    /// [`Self::scan_run`] for input that is not a whole short reply: a split, nested or invalid one.
    fn scan_states(&mut self, input: &[u8]) -> Result<Scanned, ScanError> {
        let mut at = 0;
        while at < input.len() {
            let complete = match self.state {
                State::Type => self.type_byte(input[at], &mut at)?,
                State::Line { rule, length } => self.line(input, &mut at, rule, length)?,
                State::Length { of, negative, digits, value } => {
                    self.length(input, &mut at, of, negative, digits, value)?
                }
                State::Body { remaining } => {
                    self.body(input, &mut at, remaining);
                    false
                }
                State::LineFeed => {
                    expect_byte(input[at], b'\n', "line end")?;
                    at += 1;
                    self.element_complete()
                }
                State::LengthFeed { of, length } => {
                    expect_byte(input[at], b'\n', "length")?;
                    at += 1;
                    self.begin_prefixed(of, length)?
                }
                State::BodyReturn => {
                    expect_byte(input[at], b'\r', "bulk end")?;
                    at += 1;
                    self.state = State::BodyFeed;
                    false
                }
                State::BodyFeed => {
                    expect_byte(input[at], b'\n', "bulk end")?;
                    at += 1;
                    self.element_complete()
                }
            };
            if complete {
                return Ok(Scanned::Reply { kind: self.kind, length: at });
            }
        }
        Ok(Scanned::Incomplete)
    }

    /// The elements of the last reply of the kind [`ReplyKind::Array`] or [`ReplyKind::Aggregate`].
    pub fn elements(&self) -> Elements {
        self.elements
    }

    /// The text of the last error reply, cut at 128 bytes.
    pub fn error_text(&self) -> String {
        String::from_utf8_lossy(&self.seldom.error_text[..self.error_text_length]).into_owned()
    }

    #[inline]
    fn type_byte(&mut self, byte: u8, at: &mut usize) -> Result<bool, ScanError> {
        let line = |rule| State::Line { rule, length: 0 };
        let prefixed = |of| State::Length { of, negative: false, digits: 0, value: 0 };
        let (kind, state) = match byte {
            b'$' => (ReplyKind::Bulk, prefixed(Prefixed::Bulk)),
            b'+' => (ReplyKind::Simple, line(LineRule::Text)),
            b':' => (ReplyKind::Integer, line(LineRule::Integer)),
            b'-' => (ReplyKind::Error, line(LineRule::ErrorText)),
            b'*' => (ReplyKind::Array, prefixed(Prefixed::Elements)),
            b'_' => (ReplyKind::Null, line(LineRule::Null)),
            b'#' => (ReplyKind::Other, line(LineRule::Boolean)),
            b',' => (ReplyKind::Other, line(LineRule::Double)),
            b'(' => (ReplyKind::Other, line(LineRule::Integer)),
            b'=' => (ReplyKind::Bulk, prefixed(Prefixed::Bulk)),
            b'!' => (ReplyKind::Error, prefixed(Prefixed::ErrorBulk)),
            b'~' => (ReplyKind::Aggregate, prefixed(Prefixed::Elements)),
            b'>' => (ReplyKind::Push, prefixed(Prefixed::Elements)),
            b'%' => (ReplyKind::Aggregate, prefixed(Prefixed::Pairs)),
            b'|' => (ReplyKind::Other, prefixed(Prefixed::Attribute)),
            _ => return Err(ScanError::UnknownType(byte)),
        };
        if self.depth == 0 {
            self.kind = kind;
            if kind == ReplyKind::Error {
                self.error_text_length = 0;
            }
        } else if kind == ReplyKind::Null {
            self.count_null();
        }
        self.state = state;
        *at += 1;
        Ok(false)
    }

    #[inline]
    fn line(&mut self, input: &[u8], at: &mut usize, rule: LineRule, mut length: u32) -> Result<bool, ScanError> {
        while let Some(&byte) = input.get(*at) {
            *at += 1;
            if byte == b'\r' {
                check_line_end(rule, length)?;
                self.state = State::LineFeed;
                return Ok(false);
            }
            check_line_byte(rule, byte, length)?;
            if rule == LineRule::ErrorText {
                self.keep_error_byte(byte);
            }
            // A sign alone is no number: it does not count.
            let sign = rule == LineRule::Integer && matches!(byte, b'-' | b'+');
            length = if sign { SIGN_SEEN } else { (length & !SIGN_SEEN) + 1 };
            if length & !SIGN_SEEN > LINE_BYTES_MAX {
                return Err(ScanError::LineTooLong);
            }
        }
        self.state = State::Line { rule, length };
        Ok(false)
    }

    #[inline]
    fn length(
        &mut self,
        input: &[u8],
        at: &mut usize,
        of: Prefixed,
        mut negative: bool,
        mut digits: u8,
        mut value: u64,
    ) -> Result<bool, ScanError> {
        while let Some(&byte) = input.get(*at) {
            *at += 1;
            match byte {
                b'0'..=b'9' if digits < 10 => {
                    digits += 1;
                    value = value * 10 + u64::from(byte - b'0');
                }
                b'-' if digits == 0 && !negative => negative = true,
                b'\r' if digits > 0 => {
                    let length = checked_length(of, negative, value)?;
                    self.state = State::LengthFeed { of, length };
                    return Ok(false);
                }
                b'0'..=b'9' => return Err(ScanError::InvalidLength),
                _ => return Err(ScanError::UnexpectedByte(byte, "length")),
            }
        }
        self.state = State::Length { of, negative, digits, value };
        Ok(false)
    }

    #[inline]
    fn begin_prefixed(&mut self, of: Prefixed, length: Option<u64>) -> Result<bool, ScanError> {
        let Some(length) = length else {
            if self.depth == 0 {
                self.kind = ReplyKind::Null;
            }
            self.count_null();
            return Ok(self.element_complete());
        };
        match of {
            Prefixed::Bulk | Prefixed::ErrorBulk => {
                self.state = State::Body { remaining: length };
                Ok(false)
            }
            Prefixed::Elements => self.begin_aggregate(length, false),
            Prefixed::Pairs => self.begin_aggregate(length * 2, false),
            Prefixed::Attribute => self.begin_aggregate(length * 2, true),
        }
    }

    fn begin_aggregate(&mut self, elements: u64, attribute: bool) -> Result<bool, ScanError> {
        self.state = State::Type;
        if self.depth == 0 {
            self.elements = Elements { count: elements, nulls: 0 };
        }
        if elements == 0 {
            return Ok(!attribute && self.element_complete());
        }
        if self.depth == MAX_DEPTH {
            return Err(ScanError::TooDeep);
        }
        self.seldom.frames[self.depth] = Frame { remaining: elements, attribute };
        self.depth += 1;
        Ok(false)
    }

    fn count_null(&mut self) {
        if self.depth == 1 {
            self.elements.nulls += 1;
        }
    }

    #[inline]
    fn body(&mut self, input: &[u8], at: &mut usize, remaining: u64) {
        let here = (input.len() - *at).min(usize::try_from(remaining).unwrap_or(usize::MAX));
        if self.kind == ReplyKind::Error && self.depth == 0 {
            for &byte in &input[*at..*at + here] {
                self.keep_error_byte(byte);
            }
        }
        *at += here;
        let remaining = remaining - here as u64;
        self.state = if remaining == 0 { State::BodyReturn } else { State::Body { remaining } };
    }

    fn keep_error_byte(&mut self, byte: u8) {
        if self.depth == 0 && self.error_text_length < ERROR_TEXT_BYTES_MAX {
            self.seldom.error_text[self.error_text_length] = byte;
            self.error_text_length += 1;
        }
    }

    /// Ends one element. True if that ended the whole reply.
    #[inline]
    fn element_complete(&mut self) -> bool {
        self.state = State::Type;
        while self.depth > 0 {
            let frame = &mut self.seldom.frames[self.depth - 1];
            frame.remaining -= 1;
            if frame.remaining > 0 {
                return false;
            }
            self.depth -= 1;
            if frame.attribute {
                // The annotated value comes next.
                return false;
            }
        }
        true
    }
}

/// The reply at the start of the input, if it is a complete bulk string, null bulk string or OK: nearly every reply of
/// a load, at a tenth of the cost of the states. `None` says nothing about the input.
#[inline]
fn whole_reply(input: &[u8]) -> Option<Whole> {
    match input {
        [b'+', b'O', b'K', b'\r', b'\n', ..] => Some(Whole { kind: ReplyKind::Simple, head: 5, length: 5 }),
        [b'$', b'-', b'1', b'\r', b'\n', ..] => Some(Whole { kind: ReplyKind::Null, head: 5, length: 5 }),
        [b'$', rest @ ..] => {
            let (mut length, mut digits) = (0, 0);
            while let Some(digit) = rest.get(digits).map(|byte| byte.wrapping_sub(b'0')).filter(|digit| *digit < 10) {
                length = length * 10 + usize::from(digit);
                digits += 1;
                if digits > WHOLE_DIGITS_MAX {
                    return None;
                }
            }
            let body = rest.get(digits..)?.strip_prefix(b"\r\n")?;
            let is_whole = digits > 0 && body.get(length..length + 2) == Some(b"\r\n");
            let head = 1 + digits + 2;
            is_whole.then_some(Whole { kind: ReplyKind::Bulk, head, length: head + length + 2 })
        }
        _ => None,
    }
}

/// A complete reply. Its first `head` bytes determine its length, and it ends with a line end.
struct Whole {
    kind: ReplyKind,
    head: usize,
    length: usize,
}

/// How many replies equal to the input's first follow it, `most` including that one.
///
/// Heads of the usual lengths are compared as constants: a call for each reply would cost more than
/// the comparison.
#[inline]
fn following_alike(input: &[u8], head: usize, length: usize, most: u64) -> usize {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let following = input[length..].chunks_exact(length).take(most.saturating_sub(1));
    match head {
        4 => count_alike(following, fixed::<4>(input)),
        5 => count_alike(following, fixed::<5>(input)),
        6 => count_alike(following, fixed::<6>(input)),
        _ => following.take_while(|next| next[..head] == input[..head] && next.ends_with(b"\r\n")).count(),
    }
}

fn fixed<const HEAD: usize>(input: &[u8]) -> &[u8; HEAD] {
    input.first_chunk().expect("a whole reply is as long as its head")
}

#[inline]
fn count_alike<'a, const HEAD: usize>(following: impl Iterator<Item = &'a [u8]>, head: &[u8; HEAD]) -> usize {
    following.take_while(|next| next.first_chunk() == Some(head) && next.ends_with(b"\r\n")).count()
}

/// The most digits of the length of a bulk string that is recognized as a whole: far below its limit.
const WHOLE_DIGITS_MAX: usize = 7;

/// Marks, in the length of an integer's line, that a sign came but no digit yet.
const SIGN_SEEN: u32 = 1 << 31;

#[inline]
fn expect_byte(byte: u8, expected: u8, place: &'static str) -> Result<(), ScanError> {
    if byte == expected { Ok(()) } else { Err(ScanError::UnexpectedByte(byte, place)) }
}

#[inline]
fn check_line_byte(rule: LineRule, byte: u8, length: u32) -> Result<(), ScanError> {
    let (allowed, place) = match rule {
        LineRule::Text | LineRule::ErrorText => (byte != b'\n', "line"),
        LineRule::Integer => {
            let sign = length == 0 && matches!(byte, b'-' | b'+');
            (sign || byte.is_ascii_digit(), "number")
        }
        LineRule::Double => {
            (byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.') || byte.is_ascii_alphabetic(), "double")
        }
        LineRule::Boolean => (length == 0 && matches!(byte, b't' | b'f'), "boolean"),
        LineRule::Null => (false, "null"),
    };
    if allowed { Ok(()) } else { Err(ScanError::UnexpectedByte(byte, place)) }
}

#[inline]
fn check_line_end(rule: LineRule, length: u32) -> Result<(), ScanError> {
    let needs_content = matches!(rule, LineRule::Integer | LineRule::Double | LineRule::Boolean);
    if needs_content && (length == 0 || length & SIGN_SEEN != 0) {
        return Err(ScanError::UnexpectedByte(b'\r', "number"));
    }
    Ok(())
}

#[inline]
fn checked_length(of: Prefixed, negative: bool, value: u64) -> Result<Option<u64>, ScanError> {
    let maximum = match of {
        Prefixed::Bulk | Prefixed::ErrorBulk => BULK_BYTES_MAX,
        _ => ELEMENTS_MAX,
    };
    match (negative, value) {
        (false, value) if value <= maximum => Ok(Some(value)),
        (true, 1) if matches!(of, Prefixed::Bulk | Prefixed::Elements) => Ok(None),
        _ => Err(ScanError::InvalidLength),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(input: &[u8]) -> Result<Vec<ReplyKind>, ScanError> {
        let mut scanner = ReplyScanner::new();
        let mut at = 0;
        let mut kinds = Vec::new();
        while let Scanned::Reply { kind, length } = scanner.scan(&input[at..])? {
            at += length;
            kinds.push(kind);
        }
        Ok(kinds)
    }

    #[test]
    fn every_type_is_recognised() {
        use ReplyKind::*;
        let input = b"+OK\r\n-ERR no\r\n:-12\r\n$2\r\nhi\r\n$-1\r\n$0\r\n\r\n*-1\r\n*0\r\n_\r\n#t\r\n,-1.5e3\r\n\
            (123456789012345678901234567890\r\n=6\r\ntxt:hi\r\n!3\r\nERR\r\n~1\r\n:1\r\n>1\r\n+x\r\n%1\r\n+k\r\n*1\r\n_\r\n,inf\r\n";
        let expected = vec![
            Simple, Error, Integer, Bulk, Null, Bulk, Null, Array, Null, Other, Other, Other, Bulk, Error, Aggregate,
            Push, Aggregate, Other,
        ];
        assert_eq!(all(input), Ok(expected));
    }

    #[test]
    fn an_attribute_is_part_of_the_reply_it_annotates() {
        assert_eq!(all(b"|1\r\n+ttl\r\n:9\r\n$1\r\nx\r\n"), Ok(vec![ReplyKind::Bulk]));
        assert_eq!(all(b"*1\r\n|1\r\n+ttl\r\n:9\r\n$1\r\nx\r\n:1\r\n"), Ok(vec![ReplyKind::Array, ReplyKind::Integer]));
        assert_eq!(all(b"|0\r\n:1\r\n"), Ok(vec![ReplyKind::Integer]));
    }

    #[test]
    fn the_elements_of_an_array_and_the_nulls_among_them_are_counted() {
        for (input, count, nulls) in [
            (&b"*0\r\n"[..], 0, 0),
            (b"*3\r\n$-1\r\n$2\r\nhi\r\n$-1\r\n", 3, 2),
            (b"*2\r\n_\r\n*2\r\n_\r\n$-1\r\n", 2, 1),
            (b"|1\r\n+a\r\n_\r\n*2\r\n|1\r\n+b\r\n_\r\n:1\r\n_\r\n", 2, 1),
        ] {
            for at in 0..input.len() {
                let mut scanner = ReplyScanner::new();
                scanner.scan(&input[..at]).expect("valid");
                scanner.scan(&input[at..]).expect("valid");
                assert_eq!(scanner.elements(), Elements { count, nulls }, "{}", String::from_utf8_lossy(input));
            }
        }
    }

    #[test]
    fn what_is_not_resp_is_refused() {
        for bad in [
            &b"HTTP/1.1 400\r\n"[..],
            b"\r\n",
            b":\r\n",
            b":-\r\n",
            b":1x\r\n",
            b"+a\nb\r\n",
            b"+a\rb",
            b"$x\r\n",
            b"$-2\r\n",
            b"$\r\n",
            b"$2\r\nabc\r\n",
            b"$99999999999\r\n",
            b"$536870913\r\n",
            b"*4294967296\r\n",
            b"#x\r\n",
            b"_x\r\n",
            b"#\r\n",
            b"%-1\r\n",
            b"$--1\r\n",
        ] {
            assert!(all(bad).is_err(), "{:?} was accepted", String::from_utf8_lossy(bad));
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let mut input = b"*1\r\n".repeat(MAX_DEPTH);
        assert!(all(&input).is_ok());
        input.extend_from_slice(b"*1\r\n");
        assert_eq!(all(&input), Err(ScanError::TooDeep));
    }

    #[test]
    fn the_text_of_an_error_reply_is_kept_and_bounded() {
        let mut scanner = ReplyScanner::new();
        scanner.scan(b"-ERR un").expect("valid");
        scanner.scan(b"known\r\n").expect("valid");
        assert_eq!(scanner.error_text(), "ERR unknown");
        let long = [b"-", "x".repeat(1000).as_bytes(), b"\r\n"].concat();
        scanner.scan(&long).expect("valid");
        assert_eq!(scanner.error_text().len(), ERROR_TEXT_BYTES_MAX);
    }
}
