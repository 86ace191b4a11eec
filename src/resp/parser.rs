//! The request parser: incremental, allocating nothing per request, believing no length before its bytes are there.
//!
//! A request is either a multibulk, as clients send it,
//!
//! ```text
//! *2\r\n$3\r\nGET\r\n$3\r\nkey\r\n
//! ```
//!
//! or an inline command, as a user types it: words up to a newline, with quotes. The rules and limits are those of
//! Redis 7.2's `processInlineBuffer` and `processMultibulkBuffer`; like them, this parser looks for the `\r` of a line
//! and skips the byte after it, whatever it is.

use super::args::{Args, SHARED_MIN, Span};
use super::number::parse_i64;
use crate::base::narrowing::{low_u8, low_u32, size};

/// The longest inline request, and the longest line that holds a length.
const LINE_MAX: usize = 64 * 1024;
/// The most arguments a request may have. What they take is bounded by `client-query-buffer-limit`, and by the
/// positions of a request.
const MULTIBULK_MAX: i64 = i32::MAX as i64;
/// Arguments a connection may send before it has authenticated.
const UNAUTHENTICATED_MULTIBULK_MAX: i64 = 10;
/// Length of an argument a connection may send before it has authenticated.
const UNAUTHENTICATED_BULK_MAX: i64 = 16384;
/// The end of the last argument of the longest request, for which 32-bit positions are sufficient.
/// `client-query-buffer-limit` keeps clients' requests far below it; a file may hold anything.
const POSITION_MAX: usize = u32::MAX as usize;
/// Capacity for spans that is kept from one request to the next.
const SPANS_KEPT: usize = 1024;

/// Bytes that are no request. The text follows `ERR Protocol error: ` in the reply, after which the connection closes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProtocolError {
    /// The argument count is no number, or too large.
    InvalidMultibulkLength,
    /// The argument's length is no number, negative, or over `proto-max-bulk-len`.
    InvalidBulkLength,
    /// An argument does not begin with `$`.
    ExpectedDollar(u8),
    /// An inline request without a newline within the limit.
    TooBigInline,
    /// An argument count without an end of line within the limit.
    TooBigCountString,
    /// A length of an argument without an end of line within the limit.
    TooBigBulkCountString,
    /// An inline request whose quotes do not close.
    UnbalancedQuotes,
    /// Too many arguments before authentication.
    UnauthenticatedMultibulkLength,
    /// Too long an argument before authentication.
    UnauthenticatedBulkLength,
}

impl std::fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = match self {
            Self::InvalidMultibulkLength => "invalid multibulk length",
            Self::InvalidBulkLength => "invalid bulk length",
            Self::ExpectedDollar(byte) => return write!(f, "expected '$', got '{}'", char::from(*byte)),
            Self::TooBigInline => "too big inline request",
            Self::TooBigCountString => "too big mbulk count string",
            Self::TooBigBulkCountString => "too big bulk count string",
            Self::UnbalancedQuotes => "unbalanced quotes in request",
            Self::UnauthenticatedMultibulkLength => "unauthenticated multibulk length",
            Self::UnauthenticatedBulkLength => "unauthenticated bulk length",
        };
        f.write_str(text)
    }
}

/// The limits of a request.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The longest argument, in bytes.
    pub bulk_len_max: usize,
    /// Whether the connection may send requests of full size.
    pub authenticated: bool,
}

/// What the parser found at the start of its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A whole request of this many bytes; [`RequestParser::args`] has its arguments.
    Request(usize),
    /// This many bytes without a request: an empty line, or no arguments.
    Nothing(usize),
    /// A request may follow when more bytes have come. The parser remembers how far it got.
    Incomplete,
}

/// What comes next in a multibulk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Expect {
    #[default]
    Start,
    ArgumentLength,
    Argument {
        len: usize,
    },
}

/// How far a request has been parsed.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    expect: Expect,
    position: usize,
    arguments_left: usize,
}

/// Parses one request after another.
///
/// Invariants: between calls that return [`Step::Incomplete`] the input only grows at its end; positions count from the
/// first byte of the request, so the owner may move the bytes as a whole.
///
/// ```
/// use shardrace::internals::resp::{Limits, RequestParser, Step};
///
/// let limits = Limits { bulk_len_max: 512 << 20, authenticated: true };
/// let mut parser = RequestParser::default();
/// assert_eq!(parser.parse(b"*2\r\n$3\r\nGET\r\n$3\r\nk", limits), Ok(Step::Incomplete));
/// let input = b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\nPING\r\n";
/// assert_eq!(parser.parse(input, limits), Ok(Step::Request(22)));
/// assert_eq!(parser.args(input).iter().collect::<Vec<_>>(), [b"GET", b"key"]);
/// assert_eq!(parser.parse(&input[22..], limits), Ok(Step::Request(6)));
/// ```
#[derive(Debug, Default)]
pub struct RequestParser {
    progress: Progress,
    spans: Vec<Span>,
    /// An inline request's words with quotes and escapes resolved; empty for a multibulk.
    words: Vec<u8>,
    is_inline: bool,
}

impl RequestParser {
    /// Continues to parse where the last call stopped. `input` begins with the first byte of the current request.
    pub fn parse(&mut self, input: &[u8], limits: Limits) -> Result<Step, ProtocolError> {
        if self.progress.expect == Expect::Start {
            match input.first() {
                None => return Ok(Step::Incomplete),
                Some(b'*') => self.start_request(),
                Some(_) => return self.parse_inline(input),
            }
        }
        self.progress.parse_multibulk(input, limits, &mut self.spans)
    }

    /// The arguments of the request that [`parse`](Self::parse) just found in `input`.
    pub fn args<'a>(&'a self, input: &'a [u8]) -> Args<'a> {
        Args::new(if self.is_inline { &self.words } else { input }, &self.spans)
    }

    /// Whether the arguments of that request are in `input` itself: not those of an inline one, whose quotes are
    /// removed.
    #[inline]
    pub fn stands_in_input(&self) -> bool {
        !self.is_inline
    }

    /// How many bytes of the current request will certainly still come; 0 if unknown.
    pub fn bytes_wanted(&self, have: usize) -> usize {
        match self.progress.expect {
            Expect::Argument { len } => (self.progress.position + len + 2).saturating_sub(have),
            _ => 0,
        }
    }

    /// How many bytes of the current argument will still come, if that is large and nearly all of its request so far.
    pub fn bytes_wanted_of_large(&self, have: usize) -> Option<usize> {
        let Progress { expect, position, .. } = self.progress;
        match expect {
            Expect::Argument { len } if len >= SHARED_MIN && position <= len / 8 => Some(self.bytes_wanted(have)),
            _ => None,
        }
    }

    /// Whether the current request ends with the byte before position `end`, if its arguments are as announced.
    pub fn ends_at(&self, end: usize) -> bool {
        let Progress { expect, position, arguments_left } = self.progress;
        matches!(expect, Expect::Argument { len } if arguments_left == 1 && position + len + 2 == end)
    }

    /// Forgets the request that has begun: parsing continues at the start of an earlier one.
    pub fn go_back(&mut self) {
        self.progress.expect = Expect::Start;
    }

    fn start_request(&mut self) {
        self.progress.position = 0;
        self.spans.clear();
        self.spans.shrink_to(SPANS_KEPT);
        self.is_inline = false;
    }

    fn parse_inline(&mut self, input: &[u8]) -> Result<Step, ProtocolError> {
        // `position` is how far an earlier call has searched for the newline.
        let Some(newline) = input[self.progress.position..].iter().position(|&byte| byte == b'\n') else {
            self.progress.position = input.len();
            return match input.len() > LINE_MAX {
                true => Err(ProtocolError::TooBigInline),
                false => Ok(Step::Incomplete),
            };
        };
        let end = self.progress.position + newline;
        self.start_request();
        self.is_inline = true;
        let text = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
        split_words(text, &mut self.words, &mut self.spans).ok_or(ProtocolError::UnbalancedQuotes)?;
        Ok(if self.spans.is_empty() { Step::Nothing(end + 1) } else { Step::Request(end + 1) })
    }
}

impl Progress {
    #[inline]
    fn parse_multibulk(&mut self, input: &[u8], limits: Limits, spans: &mut Vec<Span>) -> Result<Step, ProtocolError> {
        if self.expect == Expect::Start {
            match self.parse_count(input, limits)? {
                None => return Ok(Step::Incomplete),
                Some(0) => return Ok(Step::Nothing(self.end_request())),
                Some(count) => {
                    self.arguments_left = count;
                    self.expect = Expect::ArgumentLength;
                }
            }
        }
        loop {
            self.take_short_arguments(input, limits, spans);
            if self.arguments_left == 0 {
                return Ok(Step::Request(self.end_request()));
            }
            if !self.take_argument(input, limits, spans)? {
                return Ok(Step::Incomplete);
            }
        }
    }

    /// Takes the next arguments while they have come whole and their lengths have few digits, as nearly all do.
    #[inline]
    fn take_short_arguments(&mut self, input: &[u8], limits: Limits, spans: &mut Vec<Span>) {
        if self.expect != Expect::ArgumentLength || input.len() > POSITION_MAX {
            return;
        }
        // In registers.
        let (mut position, mut left) = (self.position, self.arguments_left);
        while left > 0
            && let Some((len, start)) = short_argument(input, position)
            && len <= limits.bulk_len_max
            && start + len + 2 <= input.len()
        {
            spans.push(Span { start: low_u32(start as u64), len: low_u32(len as u64) });
            position = start + len + 2;
            left -= 1;
        }
        (self.position, self.arguments_left) = (position, left);
    }

    /// Takes the next argument, or its length; false if more bytes must come.
    #[inline(never)]
    fn take_argument(&mut self, input: &[u8], limits: Limits, spans: &mut Vec<Span>) -> Result<bool, ProtocolError> {
        let len = match self.expect {
            Expect::Argument { len } => len,
            Expect::Start | Expect::ArgumentLength => {
                let Some(len) = self.parse_argument_len(input, limits)? else { return Ok(false) };
                self.expect = Expect::Argument { len };
                len
            }
        };
        if input.len() < self.position + len + 2 {
            return Ok(false);
        }
        spans.push(Span::new(self.position, len));
        self.position += len + 2;
        self.arguments_left -= 1;
        self.expect = Expect::ArgumentLength;
        Ok(true)
    }

    #[inline]
    fn parse_count(&mut self, input: &[u8], limits: Limits) -> Result<Option<usize>, ProtocolError> {
        let Some((count, next)) = number_line(input, 1) else {
            return too_long(input.len(), ProtocolError::TooBigCountString);
        };
        let count = count.filter(|&n| n <= MULTIBULK_MAX).ok_or(ProtocolError::InvalidMultibulkLength)?;
        if !limits.authenticated && count > UNAUTHENTICATED_MULTIBULK_MAX {
            return Err(ProtocolError::UnauthenticatedMultibulkLength);
        }
        self.position = next;
        Ok(Some(usize::try_from(count).unwrap_or(0)))
    }

    fn parse_argument_len(&mut self, input: &[u8], limits: Limits) -> Result<Option<usize>, ProtocolError> {
        let Some(&first) = input.get(self.position) else { return Ok(None) };
        // Redis looks for the end of the line first, and only then at its first byte.
        let Some((len, next)) = number_line(input, self.position + 1) else {
            return too_long(input.len() - self.position, ProtocolError::TooBigBulkCountString);
        };
        if first != b'$' {
            return Err(ProtocolError::ExpectedDollar(first));
        }
        let len = len.ok_or(ProtocolError::InvalidBulkLength)?;
        if len < 0 || len > limits.bulk_len_max as i64 || next + size(len.cast_unsigned()) > POSITION_MAX {
            return Err(ProtocolError::InvalidBulkLength);
        }
        if !limits.authenticated && len > UNAUTHENTICATED_BULK_MAX {
            return Err(ProtocolError::UnauthenticatedBulkLength);
        }
        self.position = next;
        Ok(Some(size(len.cast_unsigned())))
    }

    /// Resets for the next request, and returns the length of this one.
    #[inline]
    fn end_request(&mut self) -> usize {
        self.expect = Expect::Start;
        std::mem::take(&mut self.position)
    }
}

/// The line that begins at `start`, and where the next one begins; `None` until both bytes of its end have come.
fn line(input: &[u8], start: usize) -> Option<(&[u8], usize)> {
    // Lengths are a few digits: a loop is faster than a library's vector search.
    let rest = input.get(start..)?;
    let len = rest.iter().position(|&byte| byte == b'\r')?;
    (start + len + 1 < input.len()).then_some((&rest[..len], start + len + 2))
}

/// The number in the line at `start`, if it is one, and where the next line begins; `None` until both bytes of its end
/// have come.
#[inline]
fn number_line(input: &[u8], start: usize) -> Option<(Option<i64>, usize)> {
    match short_number(input, start) {
        Some((number, next)) => Some((Some(number), next)),
        None => line(input, start).map(|(text, next)| (parse_i64(text), next)),
    }
}

/// The number of one or two digits at `start`, which most lengths have, and where the line after it begins.
#[inline]
fn short_number(input: &[u8], start: usize) -> Option<(i64, usize)> {
    let value = |digit: u8| i64::from(digit - b'0');
    match *input.get(start..)? {
        [one @ b'0'..=b'9', b'\r', _, ..] => Some((value(one), start + 3)),
        [ten @ b'1'..=b'9', one @ b'0'..=b'9', b'\r', _, ..] => Some((10 * value(ten) + value(one), start + 4)),
        _ => None,
    }
}

/// The length of the argument announced at `position`, if that has one to four digits, and where its first byte is.
///
/// An unauthenticated connection, too, may announce so little.
#[inline]
fn short_argument(input: &[u8], position: usize) -> Option<(usize, usize)> {
    // Shorter arguments than an empty one have not come whole.
    let digits_of: &[u8; 6] = input.get(position..)?.first_chunk()?;
    let [b'$', first, rest @ ..] = digits_of else { return None };
    let digit = |byte: u8| Some(usize::from(byte.wrapping_sub(b'0'))).filter(|&digit| digit < 10);
    let mut len = digit(*first)?;
    for (index, &byte) in rest.iter().enumerate() {
        if byte == b'\r' {
            return Some((len, position + index + 4));
        }
        if len == 0 {
            return None;
        }
        len = 10 * len + digit(byte)?;
    }
    None
}

fn too_long<T>(len: usize, error: ProtocolError) -> Result<Option<T>, ProtocolError> {
    if len > LINE_MAX { Err(error) } else { Ok(None) }
}

/// Splits an inline request into words; `None` if quotes do not close or a closing quote is directly followed by a
/// word.
///
/// Double quotes know the escapes `\n \r \t \b \a \xHH`; single quotes know `\'`.
fn split_words(text: &[u8], words: &mut Vec<u8>, spans: &mut Vec<Span>) -> Option<()> {
    words.clear();
    let mut rest = text;
    loop {
        let skipped = rest.iter().position(|byte| !is_space(*byte)).unwrap_or(rest.len());
        rest = &rest[skipped..];
        if rest.is_empty() {
            return Some(());
        }
        let start = words.len();
        rest = take_word(rest, words)?;
        spans.push(Span::new(start, words.len() - start));
    }
}

/// Splits a line into words by the same quoting rules, for config files; `None` if quotes do not close.
pub fn split_line(text: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (mut words, mut spans) = (Vec::new(), Vec::new());
    split_words(text, &mut words, &mut spans)?;
    Some(Args::new(&words, &spans).iter().map(<[u8]>::to_vec).collect())
}

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

fn take_word<'a>(mut rest: &'a [u8], words: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match rest {
            [] | [0, ..] => return Some(&[]),
            [byte, ..] if is_space(*byte) => return Some(rest),
            [b'"', quoted @ ..] => return end_of_quotes(take_double_quoted(quoted, words)?),
            [b'\'', quoted @ ..] => return end_of_quotes(take_single_quoted(quoted, words)?),
            [byte, tail @ ..] => {
                words.push(*byte);
                rest = tail;
            }
        }
    }
}

fn end_of_quotes(rest: &[u8]) -> Option<&[u8]> {
    match rest.first() {
        Some(&byte) if !is_space(byte) => None,
        _ => Some(rest),
    }
}

fn take_double_quoted<'a>(mut rest: &'a [u8], words: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match rest {
            [] => return None,
            [b'"', tail @ ..] => return Some(tail),
            [b'\\', b'x', high, low, tail @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                words.push(hex(*high) << 4 | hex(*low));
                rest = tail;
            }
            [b'\\', escaped, tail @ ..] => {
                words.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                });
                rest = tail;
            }
            [byte, tail @ ..] => {
                words.push(*byte);
                rest = tail;
            }
        }
    }
}

fn take_single_quoted<'a>(mut rest: &'a [u8], words: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match rest {
            [] => return None,
            [b'\'', tail @ ..] => return Some(tail),
            [b'\\', b'\'', tail @ ..] => {
                words.push(b'\'');
                rest = tail;
            }
            [byte, tail @ ..] => {
                words.push(*byte);
                rest = tail;
            }
        }
    }
}

fn hex(digit: u8) -> u8 {
    low_u8(char::from(digit).to_digit(16).expect("the caller checked for a hexadecimal digit").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: Limits = Limits { bulk_len_max: 512 * 1024 * 1024, authenticated: true };

    #[test]
    fn a_short_number_is_read_as_any_other_line_is() {
        const BYTES: &[u8] = b"0189-\r\nx";
        let mut inputs: Vec<Vec<u8>> = vec![Vec::new()];
        for len in 0..5 {
            let longer: Vec<Vec<u8>> = inputs.iter().filter(|input| input.len() == len).cloned().collect();
            inputs
                .extend(longer.iter().flat_map(|input| BYTES.iter().map(move |&byte| [&input[..], &[byte]].concat())));
        }
        for input in &inputs {
            let slow = line(input, 0).map(|(text, next)| (parse_i64(text), next));
            assert_eq!(number_line(input, 0), slow, "{input:?}");
        }
        assert!(inputs.iter().filter(|input| short_number(input, 0).is_some()).count() > 1000);
    }

    #[test]
    fn a_short_argument_is_found_as_any_other_is() {
        let parse = |text: &[u8]| {
            let input = [b"*1\r\n", text, &[b'x'; 10_010]].concat();
            let mut slow = Progress { expect: Expect::ArgumentLength, position: 4, arguments_left: 1 };
            let slow = slow.parse_argument_len(&input, OPEN).map(|len| len.map(|len| (len, slow.position)));
            (short_argument(&input, 4), slow)
        };
        let mut found = 0;
        let texts = (0..=10_001).map(|len| len.to_string());
        let texts = texts.chain(["", "-1", "00", "01", "1x", "x1", "+1", "1 ", "12345"].map(String::from));
        for text in texts.flat_map(|text| [format!("${text}\r\n"), format!("{text}\r\n"), format!("${text}\n\r")]) {
            let (short, slow) = parse(text.as_bytes());
            assert!(short.is_none() || slow == Ok(short), "{text:?}: {short:?}, {slow:?}");
            found += usize::from(short.is_some());
        }
        assert_eq!(found, 10_000);
    }

    #[test]
    fn a_request_that_positions_of_32_bits_could_not_tell_is_refused_before_its_bytes_come() {
        let limits = Limits { bulk_len_max: usize::MAX >> 1, authenticated: true };
        let parse = |len: usize| {
            let start = format!("*2\r\n$1\r\na\r\n${len}\r\n");
            (RequestParser::default().parse(start.as_bytes(), limits), start.len())
        };
        let (_, before) = parse(0);
        // The digits of the length are nine more.
        let longest = POSITION_MAX - before - 9;
        assert_eq!(parse(longest).0, Ok(Step::Incomplete));
        for len in [longest + 1, POSITION_MAX, POSITION_MAX + 6, i64::MAX as usize] {
            assert_eq!(parse(len).0, Err(ProtocolError::InvalidBulkLength), "{len}");
        }
    }

    /// Every request of `input`, fed in pieces that end where `cuts` says, and the error that ended it.
    fn requests_fed(input: &[u8], cuts: &[usize], limits: Limits) -> (Vec<Vec<Vec<u8>>>, Option<ProtocolError>) {
        let mut parser = RequestParser::default();
        let mut found = Vec::new();
        let mut held: Vec<u8> = Vec::new();
        let mut from = 0;
        for &to in cuts.iter().chain([&input.len()]) {
            held.extend_from_slice(&input[from..to]);
            from = to;
            loop {
                match parser.parse(&held, limits) {
                    Err(error) => return (found, Some(error)),
                    Ok(Step::Incomplete) => break,
                    Ok(Step::Nothing(consumed)) => drop(held.drain(..consumed)),
                    Ok(Step::Request(consumed)) => {
                        found.push(parser.args(&held).iter().map(<[u8]>::to_vec).collect());
                        held.drain(..consumed);
                    }
                }
            }
        }
        (found, None)
    }

    fn requests(input: &[u8]) -> (Vec<Vec<Vec<u8>>>, Option<ProtocolError>) {
        requests_fed(input, &[], OPEN)
    }

    fn words(line: &str) -> Option<Vec<String>> {
        let (found, error) = requests(format!("{line}\r\n").as_bytes());
        if error.is_some() {
            return None;
        }
        Some(found.concat().iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect())
    }

    #[test]
    fn a_split_at_every_byte_gives_the_same_requests_as_one_feed() {
        let input = b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n*0\r\n\r\nSET \"a b\" 'c'\r\n*1\r\n$4\r\nPING\r\n*3\r\n$3\r\nSET\r\n$0\r\n\r\n$2\r\n\r\n\r\n";
        let whole = requests(input);
        assert_eq!(whole.0.len(), 4);
        assert_eq!(whole.1, None);
        for cut in 0..=input.len() {
            assert_eq!(requests_fed(input, &[cut], OPEN), whole, "cut at {cut}");
        }
        let every: Vec<usize> = (0..=input.len()).collect();
        assert_eq!(requests_fed(input, &every, OPEN), whole);
    }

    #[test]
    fn inline_words_follow_the_quoting_rules_of_redis() {
        assert_eq!(words("  set  a\tb "), Some(vec!["set".into(), "a".into(), "b".into()]));
        assert_eq!(words(r#"set "a\x41\n" 'it\'s'"#), Some(vec!["set".into(), "aA\n".into(), "it's".into()]));
        assert_eq!(words(r#"set "" x"#), Some(vec!["set".into(), "".into(), "x".into()]));
        for unbalanced in [r#"set "a"#, "set 'a", r#"set "a"b"#, "set 'a'b"] {
            assert_eq!(requests(format!("{unbalanced}\r\n").as_bytes()).1, Some(ProtocolError::UnbalancedQuotes));
        }
    }

    #[test]
    fn bytes_that_are_no_request_are_refused_in_words_of_redis() {
        let cases: &[(&[u8], &str)] = &[
            (b"*x\r\n", "invalid multibulk length"),
            (b"*2147483648\r\n", "invalid multibulk length"),
            (b"*99999999999999999999\r\n", "invalid multibulk length"),
            (b"*1\r\n:1\r\n", "expected '$', got ':'"),
            (b"*1\r\n$-1\r\n", "invalid bulk length"),
            (b"*1\r\n$536870913\r\n", "invalid bulk length"),
            (b"*1\r\n$1x\r\n", "invalid bulk length"),
        ];
        for (input, text) in cases {
            assert_eq!(requests(input).1.map(|error| error.to_string()).as_deref(), Some(*text));
        }
        assert_eq!(requests(&[b'a'; LINE_MAX + 1]).1, Some(ProtocolError::TooBigInline));
        assert_eq!(
            requests(&[b"*".as_slice(), &[b'1'; LINE_MAX + 1]].concat()).1,
            Some(ProtocolError::TooBigCountString)
        );
    }

    #[test]
    fn an_unauthenticated_connection_may_ask_for_little() {
        let closed = Limits { authenticated: false, ..OPEN };
        assert_eq!(requests_fed(b"*11\r\n", &[], closed).1, Some(ProtocolError::UnauthenticatedMultibulkLength));
        assert_eq!(requests_fed(b"*1\r\n$16385\r\n", &[], closed).1, Some(ProtocolError::UnauthenticatedBulkLength));
    }

    #[test]
    fn an_inline_request_is_all_of_its_line() {
        for (input, step) in
            [("PING\r\n", Step::Request(6)), ("PING\nGET", Step::Request(5)), ("\r\nGET", Step::Nothing(2))]
        {
            assert_eq!(RequestParser::default().parse(input.as_bytes(), OPEN), Ok(step), "{input:?}");
        }
    }

    #[test]
    fn a_large_argument_has_its_room_at_once_only_where_it_is_nearly_all_of_its_request() {
        let wanted = |begun: &[u8]| {
            let mut parser = RequestParser::default();
            assert_eq!(parser.parse(begun, OPEN), Ok(Step::Incomplete));
            parser.bytes_wanted_of_large(begun.len())
        };
        assert_eq!(wanted(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$32768\r\nbeginning"), Some(32768 + 2 - 9));
        assert_eq!(wanted(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$32767\r\nbeginning"), None, "it is small");
        assert_eq!(wanted(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n"), None, "its length has not come");
        // Room for each of many arguments at a time would copy those before it as often as there are others.
        let many = [&b"*3\r\n$3\r\nSET\r\n$5000\r\n"[..], &[b'k'; 5000], b"\r\n$32768\r\nbeginning"].concat();
        assert_eq!(wanted(&many), None, "much comes before it");
    }

    #[test]
    fn the_bytes_that_a_begun_argument_still_needs_are_known() {
        let begun = b"*2\r\n$3\r\nGET\r\n$100\r\nabc";
        let mut parser = RequestParser::default();
        assert_eq!(parser.bytes_wanted(0), 0);
        assert_eq!(parser.parse(begun, OPEN), Ok(Step::Incomplete));
        // 97 of the argument, and the end of its line.
        assert_eq!(parser.bytes_wanted(begun.len()), 99);
        assert_eq!(parser.bytes_wanted(begun.len() + 200), 0);
    }

    #[test]
    fn a_promised_length_takes_no_memory() {
        let mut parser = RequestParser::default();
        assert_eq!(parser.parse(b"*1048576\r\n$536870912\r\nabc", OPEN), Ok(Step::Incomplete));
        assert!(parser.spans.capacity() <= SPANS_KEPT);
    }

    #[test]
    fn a_negative_count_asks_for_nothing() {
        assert_eq!(requests(b"*-1\r\n*-7\r\nPING\r\n").0.len(), 1);
    }
}
