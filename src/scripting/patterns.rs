//! Lua's patterns: `string.find`, `match`, `gmatch` and `gsub`.
//!
//! Lua's own matcher recurses on the stack of C as deep as the pattern requires, and cannot be interrupted. This one
//! has a bound on recursion, and checks the time of the script regularly. The rules are those of Lua 5.1: a pattern
//! ends at its first NUL, and `%z` stands for one.

use super::MADE_MAX;
use super::calls::Shared;
use super::natives::{self, Call, Native};
use super::raising::{self, Failed, Outcome, Words, number_at_or, text_at};
use super::stack::{Gathered, Plain, Stack};
use mlua::{Lua, Result, Table};
use std::ffi::c_int;
use std::io::Write;
use std::rc::Rc;

/// The most captures of a pattern.
const CAPTURES_MAX: usize = 32;
/// How deep repetitions and captures may be nested.
const DEPTH_MAX: usize = 1000;
/// Steps between two checks of the time.
const LOOK_EVERY: u32 = 100_000;

/// Why a match fails: an invalid pattern, or too much of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Complex,
    EndsInEscape,
    NoSetEnd,
    NoFrontierSet,
    Unbalanced,
    NoCapture,
    NoOpenCapture,
    OpenCapture,
    Captures,
    Memory,
    Time,
}

impl From<Wrong> for Failed {
    fn from(wrong: Wrong) -> Self {
        Self::from(match wrong {
            Wrong::Complex => "pattern too complex",
            Wrong::EndsInEscape => "malformed pattern (ends with '%')",
            Wrong::NoSetEnd => "malformed pattern (missing ']')",
            Wrong::NoFrontierSet => "missing '[' after '%f' in pattern",
            Wrong::Unbalanced => "unbalanced pattern",
            Wrong::NoCapture => "invalid capture index",
            Wrong::NoOpenCapture => "invalid pattern capture",
            Wrong::OpenCapture => "unfinished capture",
            Wrong::Captures => "too many captures",
            Wrong::Memory => "not enough memory",
            Wrong::Time => return Self::End,
        })
    }
}

type Matched<T> = std::result::Result<T, Wrong>;

/// Where a match begins, and where it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Found {
    start: usize,
    end: usize,
}

/// How long a capture is, and two more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Len(usize);

impl Len {
    /// The capture has not been closed. All captures of a match that begins are such, in zeros.
    const OPEN: Self = Self(0);
    /// It is a position.
    const POSITION: Self = Self(1);

    fn of(len: usize) -> Self {
        Self(len + 2)
    }
}

#[derive(Debug, Clone, Copy)]
struct Capture {
    start: usize,
    len: Len,
}

/// One attempt to match.
struct Matcher<'a> {
    text: &'a [u8],
    pattern: &'a [u8],
    captures: [Capture; CAPTURES_MAX],
    level: usize,
    depth: usize,
    steps: u32,
    shared: &'a Shared,
}

impl<'a> Matcher<'a> {
    fn new(text: &'a [u8], pattern: &'a [u8], shared: &'a Shared) -> Self {
        let captures = [Capture { start: 0, len: Len::OPEN }; CAPTURES_MAX];
        Self { text, pattern, captures, level: 0, depth: 0, steps: 0, shared }
    }

    fn step(&mut self) -> Matched<()> {
        self.steps = self.steps.saturating_add(1);
        if self.steps >= LOOK_EVERY {
            self.steps = 0;
            self.shared.look().map_err(|_| Wrong::Time)?;
        }
        Ok(())
    }

    /// Counts bytes that were read or made at once as steps.
    fn note_bytes(&mut self, bytes: usize) {
        const BYTES_OF_A_STEP: usize = 16;
        self.steps = self.steps.saturating_add(u32::try_from(bytes / BYTES_OF_A_STEP).unwrap_or(u32::MAX));
    }

    /// The byte of the pattern at a position; `None` at its end.
    fn at(&self, position: usize) -> Option<u8> {
        self.pattern.get(position).copied()
    }

    /// Where the match ends that begins at `from`, with the pattern from `position` on.
    fn matches(&mut self, from: usize, position: usize) -> Matched<Option<usize>> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Wrong::Complex);
        }
        let end = self.matches_here(from, position);
        self.depth -= 1;
        end
    }

    fn matches_here(&mut self, mut from: usize, mut position: usize) -> Matched<Option<usize>> {
        loop {
            self.step()?;
            let Some(byte) = self.at(position) else { return Ok(Some(from)) };
            match (byte, self.at(position + 1)) {
                (b'(', Some(b')')) => return self.open(from, position + 2, Len::POSITION),
                (b'(', _) => return self.open(from, position + 1, Len::OPEN),
                (b')', _) => return self.close(from, position + 1),
                (b'%', Some(b'b')) => match self.balance(from, position + 2)? {
                    Some(end) => (from, position) = (end, position + 4),
                    None => return Ok(None),
                },
                (b'%', Some(b'f')) => match self.is_frontier(from, position + 2)? {
                    Some(next) => position = next,
                    None => return Ok(None),
                },
                (b'%', Some(digit)) if digit.is_ascii_digit() => match self.again(from, digit)? {
                    Some(end) => (from, position) = (end, position + 2),
                    None => return Ok(None),
                },
                (b'$', None) => return Ok((from == self.text.len()).then_some(from)),
                _ => {
                    let end = self.class_end(position)?;
                    let class = self.class(position, end);
                    let is_match = self.is_of(from, class);
                    match self.at(end) {
                        Some(b'?') => {
                            if is_match && let Some(end) = self.matches(from + 1, end + 1)? {
                                return Ok(Some(end));
                            }
                            position = end + 1;
                        }
                        Some(b'*') => return self.most(from, class, end),
                        Some(b'+') if is_match => return self.most(from + 1, class, end),
                        Some(b'-') => return self.fewest(from, class, end),
                        _ if !is_match || self.at(end) == Some(b'+') => return Ok(None),
                        _ => (from, position) = (from + 1, end),
                    }
                }
            }
        }
    }

    /// Where the class at `position` ends.
    fn class_end(&self, position: usize) -> Matched<usize> {
        match self.pattern[position] {
            b'%' if position + 1 >= self.pattern.len() => Err(Wrong::EndsInEscape),
            b'%' => Ok(position + 2),
            b'[' => self.set_end(position + 1),
            _ => Ok(position + 1),
        }
    }

    fn set_end(&self, mut position: usize) -> Matched<usize> {
        if self.at(position) == Some(b'^') {
            position += 1;
        }
        loop {
            let byte = self.at(position).ok_or(Wrong::NoSetEnd)?;
            position += 1;
            if byte == b'%' && self.at(position).is_some() {
                position += 1;
            }
            if self.at(position) == Some(b']') {
                return Ok(position + 1);
            }
        }
    }

    /// The class from `position` to `end`.
    fn class(&self, position: usize, end: usize) -> Class {
        match self.pattern[position] {
            b'.' => Class::Any,
            b'%' => Class::named(self.pattern[position + 1]),
            b'[' => Class::Set(position, end - 1),
            literal => Class::Byte(literal),
        }
    }

    /// Whether the byte of the text at a position belongs to a class.
    fn is_of(&mut self, from: usize, class: Class) -> bool {
        let Some(&byte) = self.text.get(from) else { return false };
        match class {
            Class::Any => true,
            Class::Byte(literal) => literal == byte,
            Class::Named(named) => named.has(byte),
            Class::Set(position, last) => {
                self.note_bytes(last - position);
                self.is_of_set(byte, position, last)
            }
        }
    }

    /// Whether a byte belongs to the set between `position` and `last`, the positions of its brackets.
    fn is_of_set(&self, byte: u8, mut position: usize, last: usize) -> bool {
        let mut is_in = true;
        if self.pattern[position + 1] == b'^' {
            is_in = false;
            position += 1;
        }
        position += 1;
        while position < last {
            let here = self.pattern[position];
            if here == b'%' {
                position += 1;
                let is_of = match Class::named(self.pattern[position]) {
                    Class::Named(named) => named.has(byte),
                    _ => self.pattern[position] == byte,
                };
                if is_of {
                    return is_in;
                }
            } else if self.pattern[position + 1] == b'-' && position + 2 < last {
                position += 2;
                if (here..=self.pattern[position]).contains(&byte) {
                    return is_in;
                }
            } else if here == byte {
                return is_in;
            }
            position += 1;
        }
        !is_in
    }

    fn most(&mut self, from: usize, class: Class, end: usize) -> Matched<Option<usize>> {
        let mut count = 0;
        while self.is_of(from + count, class) {
            self.step()?;
            count += 1;
        }
        loop {
            if let Some(end) = self.matches(from + count, end + 1)? {
                return Ok(Some(end));
            }
            if count == 0 {
                return Ok(None);
            }
            count -= 1;
        }
    }

    fn fewest(&mut self, mut from: usize, class: Class, end: usize) -> Matched<Option<usize>> {
        loop {
            if let Some(end) = self.matches(from, end + 1)? {
                return Ok(Some(end));
            }
            if !self.is_of(from, class) {
                return Ok(None);
            }
            from += 1;
            self.step()?;
        }
    }

    fn open(&mut self, from: usize, position: usize, len: Len) -> Matched<Option<usize>> {
        if self.level >= CAPTURES_MAX {
            return Err(Wrong::Captures);
        }
        self.captures[self.level] = Capture { start: from, len };
        self.level += 1;
        let end = self.matches(from, position)?;
        if end.is_none() {
            self.level -= 1;
        }
        Ok(end)
    }

    fn close(&mut self, from: usize, position: usize) -> Matched<Option<usize>> {
        let open = self.captures[..self.level].iter().rposition(|capture| capture.len == Len::OPEN);
        let open = open.ok_or(Wrong::NoOpenCapture)?;
        self.captures[open].len = Len::of(from - self.captures[open].start);
        let end = self.matches(from, position)?;
        if end.is_none() {
            self.captures[open].len = Len::OPEN;
        }
        Ok(end)
    }

    fn balance(&mut self, from: usize, position: usize) -> Matched<Option<usize>> {
        let (Some(opens), Some(closes)) = (self.at(position), self.at(position + 1)) else {
            return Err(Wrong::Unbalanced);
        };
        if self.text.get(from) != Some(&opens) {
            return Ok(None);
        }
        let mut open = 1;
        for (offset, &byte) in self.text[from + 1..].iter().enumerate() {
            if byte == closes {
                open -= 1;
                if open == 0 {
                    self.note_bytes(offset);
                    return Ok(Some(from + offset + 2));
                }
            } else if byte == opens {
                open += 1;
            }
        }
        self.note_bytes(self.text.len() - from);
        Ok(None)
    }

    /// Where the pattern continues if a set begins here in the text.
    fn is_frontier(&mut self, from: usize, position: usize) -> Matched<Option<usize>> {
        if self.at(position) != Some(b'[') {
            return Err(Wrong::NoFrontierSet);
        }
        let end = self.class_end(position)?;
        self.note_bytes(end - position);
        let before = if from == 0 { 0 } else { self.text[from - 1] };
        let here = self.text.get(from).copied().unwrap_or(0);
        let is_here = !self.is_of_set(before, position, end - 1) && self.is_of_set(here, position, end - 1);
        Ok(is_here.then_some(end))
    }

    /// Where a repetition of a capture ends.
    fn again(&mut self, from: usize, digit: u8) -> Matched<Option<usize>> {
        let captured = match digit.checked_sub(b'1').map(usize::from) {
            Some(index) if index < self.level => self.captures[index],
            _ => return Err(Wrong::NoCapture),
        };
        let len = match captured.len {
            Len::OPEN => return Err(Wrong::NoCapture),
            // A position is longer than any text.
            Len::POSITION => return Ok(None),
            Len(more) => more - 2,
        };
        self.note_bytes(len);
        let (text, wanted) = (&self.text[from..], &self.text[captured.start..captured.start + len]);
        Ok(text.starts_with(wanted).then_some(from + len))
    }

    /// The first match that begins at `from` or later; only at `from` if the pattern is anchored.
    fn find(&mut self, from: usize, is_anchored: bool) -> Matched<Option<Found>> {
        let last = if is_anchored { from } else { self.text.len() };
        for start in from..=last {
            self.level = 0;
            self.depth = 0;
            if let Some(end) = self.matches(start, 0)? {
                return Ok(Some(Found { start, end }));
            }
        }
        Ok(None)
    }

    fn captured(&self, index: usize, found: Found) -> Matched<Captured<'a>> {
        if index >= self.level {
            return match index {
                0 => Ok(Captured::Text(self.whole(found))),
                _ => Err(Wrong::NoCapture),
            };
        }
        let Capture { start, len } = self.captures[index];
        match len {
            Len::OPEN => Err(Wrong::OpenCapture),
            Len::POSITION => Ok(Captured::Position(start + 1)),
            Len(more) => Ok(Captured::Text(&self.text[start..start + more - 2])),
        }
    }

    fn whole(&self, Found { start, end }: Found) -> &'a [u8] {
        &self.text[start..end]
    }

    fn push_capture(&self, index: usize, found: Found, stack: Stack) -> Matched<()> {
        match self.captured(index, found)? {
            Captured::Text(text) => stack.push_text(text),
            Captured::Position(position) => push_position(stack, position),
        }
        Ok(())
    }

    /// Pushes the captures, or the whole match if there are none but must be; returns how many these are.
    fn push_captures(&self, found: Found, at_least: usize, stack: Stack) -> Outcome<c_int> {
        /// What is pushed besides.
        const OTHERS: c_int = 4;
        let count = self.level.max(at_least);
        let values = c_int::try_from(count).expect("captures are few");
        if !stack.has_room(values + OTHERS) {
            return Err("stack overflow (too many captures)".into());
        }
        for index in 0..count {
            self.push_capture(index, found, stack)?;
        }
        Ok(values)
    }
}

fn push_position(stack: Stack, position: usize) {
    #[expect(clippy::cast_precision_loss, reason = "a text is shorter than 2^53")]
    stack.push_number(position as f64);
}

enum Captured<'a> {
    Text(&'a [u8]),
    Position(usize),
}

/// What one byte of a text may be.
#[derive(Debug, Clone, Copy)]
enum Class {
    Any,
    Byte(u8),
    Named(Named),
    /// The positions of the brackets.
    Set(usize, usize),
}

impl Class {
    /// The class that a letter names; any other byte names itself.
    fn named(letter: u8) -> Self {
        let kinds = KINDS_OF_LETTERS[usize::from(letter.to_ascii_lowercase())];
        if kinds == 0 { Self::Byte(letter) } else { Self::Named(Named { kinds, is_in: letter.is_ascii_lowercase() }) }
    }
}

/// The bytes that are of one of these kinds, or those that are of none.
#[derive(Debug, Clone, Copy)]
struct Named {
    kinds: u8,
    is_in: bool,
}

impl Named {
    fn has(self, byte: u8) -> bool {
        (KINDS[usize::from(byte)] & self.kinds != 0) == self.is_in
    }
}

const LOWER: u8 = 1;
const UPPER: u8 = 1 << 1;
const DIGIT: u8 = 1 << 2;
const PUNCTUATION: u8 = 1 << 3;
const SPACE: u8 = 1 << 4;
const CONTROL: u8 = 1 << 5;
const HEX: u8 = 1 << 6;
const ZERO: u8 = 1 << 7;

/// The kinds of which each byte is, in the locale C.
static KINDS: [u8; 256] = {
    let mut kinds = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        #[expect(clippy::cast_possible_truncation, reason = "there are 256 bytes")]
        let it = byte as u8;
        let is_space = it.is_ascii_whitespace() || it == 0x0b;
        kinds[byte] = if it.is_ascii_lowercase() { LOWER } else { 0 }
            | if it.is_ascii_uppercase() { UPPER } else { 0 }
            | if it.is_ascii_digit() { DIGIT } else { 0 }
            | if it.is_ascii_punctuation() { PUNCTUATION } else { 0 }
            | if is_space { SPACE } else { 0 }
            | if it.is_ascii_control() { CONTROL } else { 0 }
            | if it.is_ascii_hexdigit() { HEX } else { 0 }
            | if it == 0 { ZERO } else { 0 };
        byte += 1;
    }
    kinds
};

/// The kinds that small letters name.
static KINDS_OF_LETTERS: [u8; 256] = {
    let mut kinds = [0; 256];
    kinds[b'a' as usize] = LOWER | UPPER;
    kinds[b'c' as usize] = CONTROL;
    kinds[b'd' as usize] = DIGIT;
    kinds[b'l' as usize] = LOWER;
    kinds[b'p' as usize] = PUNCTUATION;
    kinds[b's' as usize] = SPACE;
    kinds[b'u' as usize] = UPPER;
    kinds[b'w' as usize] = LOWER | UPPER | DIGIT;
    kinds[b'x' as usize] = HEX;
    kinds[b'z' as usize] = ZERO;
    kinds
};

/// A pattern up to its first NUL.
fn up_to_nul(pattern: &[u8]) -> &[u8] {
    &pattern[..pattern.iter().position(|&byte| byte == 0).unwrap_or(pattern.len())]
}

/// A pattern without its `^`, and whether it has one.
fn unanchored(pattern: &[u8]) -> (&[u8], bool) {
    match pattern.strip_prefix(b"^") {
        Some(rest) => (rest, true),
        None => (pattern, false),
    }
}

/// The functions.
static FUNCTIONS: [Native; 4] = [
    Native { name: "find", run: find },
    Native { name: "match", run: first_match },
    Native { name: "gmatch", run: gmatch },
    Native { name: "gsub", run: gsub },
];

/// Adds the functions to `native`.
pub fn register(lua: &Lua, native: &Table, shared: &Rc<Shared>) -> Result<()> {
    natives::add(lua, native, &FUNCTIONS, shared)
}

fn two_texts<'a>(stack: Stack) -> Outcome<(&'a [u8], &'a [u8])> {
    Ok((text_at(stack, 1)?, text_at(stack, 2)?))
}

/// Where a search begins: positions count from 1, negative ones from the end.
fn start_of(stack: Stack, len: usize) -> Outcome<usize> {
    let init = raising::truncated(number_at_or(stack, 3, 1.0)?);
    let len = i64::try_from(len).expect("a text has less than 2^63 bytes");
    let position = if init < 0 { init.saturating_add(len).saturating_add(1) } else { init };
    Ok(usize::try_from((position - 1).clamp(0, len)).expect("it is not negative"))
}

/// Pushes nil: nothing is found.
fn push_nothing(stack: Stack) -> Outcome<c_int> {
    stack.push_nil();
    Ok(1)
}

fn push_range(stack: Stack, Found { start, end }: Found) {
    push_position(stack, start + 1);
    push_position(stack, end);
}

fn find(Call { stack, shared, .. }: Call<'_>) -> Outcome<c_int> {
    let (text, whole) = two_texts(stack)?;
    let from = start_of(stack, text.len())?;
    if stack.is_true(4) || is_plain(whole) {
        let Some(found) = find_plain(text, whole, from) else { return push_nothing(stack) };
        push_range(stack, found);
        return Ok(2);
    }
    let (pattern, is_anchored) = unanchored(up_to_nul(whole));
    let mut matcher = Matcher::new(text, pattern, shared);
    let Some(found) = matcher.find(from, is_anchored)? else { return push_nothing(stack) };
    push_range(stack, found);
    Ok(2 + matcher.push_captures(found, 0, stack)?)
}

/// `string.match`
fn first_match(Call { stack, shared, .. }: Call<'_>) -> Outcome<c_int> {
    let (text, whole) = two_texts(stack)?;
    let from = start_of(stack, text.len())?;
    let (pattern, is_anchored) = unanchored(up_to_nul(whole));
    let mut matcher = Matcher::new(text, pattern, shared);
    let Some(found) = matcher.find(from, is_anchored)? else { return push_nothing(stack) };
    matcher.push_captures(found, 1, stack)
}

/// Whether nothing in a pattern stands for anything else.
fn is_plain(pattern: &[u8]) -> bool {
    let stands = |byte: &u8| matches!(byte, b'^' | b'$' | b'*' | b'+' | b'?' | b'.' | b'(' | b'[' | b'%' | b'-' | 0);
    pattern.iter().find(|byte| stands(byte)).is_none_or(|&byte| byte == 0)
}

fn find_plain(text: &[u8], wanted: &[u8], from: usize) -> Option<Found> {
    /// From this many bytes on, a search whose time is linear in the texts is worth its preparation.
    const LONG: usize = 32;
    let Some(first) = wanted.first() else { return Some(Found { start: from, end: from }) };
    if wanted.len() >= LONG {
        let start = from + memchr::memmem::find(&text[from..], wanted)?;
        return Some(Found { start, end: start + wanted.len() });
    }
    let mut start = from;
    loop {
        start += text[start..].iter().position(|byte| byte == first)?;
        if text[start..].starts_with(wanted) {
            return Some(Found { start, end: start + wanted.len() });
        }
        start += 1;
    }
}

/// What `gmatch` returns. Its own values are the text, the pattern, and where the next search begins.
static NEXT_MATCH: Native = Native { name: "gmatch", run: next_match };

fn gmatch(call: Call<'_>) -> Outcome<c_int> {
    let stack = call.stack;
    let (_, whole) = two_texts(stack)?;
    stack.set_len(2);
    stack.push_text(up_to_nul(whole));
    stack.replace(2);
    stack.push_number(0.0);
    call.push_closure(&NEXT_MATCH);
    Ok(1)
}

fn next_match(Call { stack, shared, .. }: Call<'_>) -> Outcome<c_int> {
    const NEXT: c_int = Call::own(2);
    let text = stack.text(Call::own(0)).expect("`gmatch` keeps a text");
    let pattern = stack.text(Call::own(1)).expect("`gmatch` keeps a pattern");
    let from = raising::truncated(stack.number(NEXT).expect("`gmatch` keeps a position"));
    let from = usize::try_from(from).expect("it is a position");
    stack.clear();
    let mut matcher = Matcher::new(text, pattern, shared);
    let found = if from > text.len() { None } else { matcher.find(from, false)? };
    push_position(stack, found.map_or(text.len() + 1, next_from));
    stack.replace(NEXT);
    match found {
        None => Ok(0),
        Some(found) => matcher.push_captures(found, 1, stack),
    }
}

/// Where the search after a match begins.
fn next_from(Found { start, end }: Found) -> usize {
    if start == end { end + 1 } else { end }
}

/// The matches of `gsub`.
struct Substitution<'a> {
    matcher: Matcher<'a>,
    is_anchored: bool,
    /// How many may be replaced, and how many have been.
    most: i64,
    count: i64,
    /// Where the next search begins; after the text there is none.
    from: usize,
    /// Where the text begins that no match precedes.
    rest: usize,
}

impl<'a> Substitution<'a> {
    /// The next match, and the text before it.
    fn next(&mut self) -> Matched<Option<(&'a [u8], Found)>> {
        let text = self.matcher.text;
        if self.count >= self.most || self.from > text.len() {
            return Ok(None);
        }
        let Some(found) = self.matcher.find(self.from, self.is_anchored)? else { return Ok(None) };
        let before = &text[self.rest..found.start];
        self.count += 1;
        self.rest = found.end;
        self.from = if self.is_anchored { text.len() + 1 } else { next_from(found) };
        Ok(Some((before, found)))
    }

    /// The text after the last match.
    fn rest(&self) -> &'a [u8] {
        &self.matcher.text[self.rest..]
    }

    /// Notes that the text so far has grown.
    fn note_made(&mut self, from: usize, to: usize) -> Matched<()> {
        self.matcher.note_bytes(to - from);
        if to > MADE_MAX { Err(Wrong::Memory) } else { Ok(()) }
    }
}

fn gsub(call: Call<'_>) -> Outcome<c_int> {
    let stack = call.stack;
    let (text, whole) = two_texts(stack)?;
    #[expect(clippy::cast_precision_loss, reason = "a text is shorter than 2^53")]
    let every = text.len() as f64 + 1.0;
    let most = raising::truncated(number_at_or(stack, 4, every)?);
    let (pattern, is_anchored) = unanchored(up_to_nul(whole));
    let matcher = Matcher::new(text, pattern, call.shared);
    let mut matches = Substitution { matcher, is_anchored, most, count: 0, from: 0, rest: 0 };
    match stack.plain(3) {
        Plain::Text(_) | Plain::Number(_) => {
            let replacement = text_at(stack, 3)?;
            call.shared.make(|out| substitute(&mut matches, replacement, out))?;
            call.push_made();
        }
        Plain::Table => call.note_made(substitute_computed(&mut matches, stack, push_element)?),
        _ if stack.is_function(3) => call.note_made(substitute_computed(&mut matches, stack, push_result)?),
        _ => return Err(Failed::Argument(3, Words::from(format_args!("string/function/table expected")))),
    }
    #[expect(clippy::cast_precision_loss, reason = "a text is shorter than 2^53")]
    stack.push_number(matches.count as f64);
    Ok(2)
}

/// Replaces matches by a text.
fn substitute(matches: &mut Substitution<'_>, replacement: &[u8], out: &mut Vec<u8>) -> Matched<()> {
    out.clear();
    while let Some((before, found)) = matches.next()? {
        let start = out.len();
        out.extend_from_slice(before);
        push_replacement(&matches.matcher, replacement, found, out)?;
        matches.note_made(start, out.len())?;
    }
    out.extend_from_slice(matches.rest());
    Ok(())
}

fn push_replacement(matcher: &Matcher<'_>, replacement: &[u8], found: Found, out: &mut Vec<u8>) -> Matched<()> {
    let mut rest = replacement;
    while let Some(sign) = rest.iter().position(|&byte| byte == b'%') {
        out.extend_from_slice(&rest[..sign]);
        match rest.get(sign + 1) {
            Some(b'0') => out.extend_from_slice(matcher.whole(found)),
            Some(digit) if digit.is_ascii_digit() => match matcher.captured(usize::from(digit - b'1'), found)? {
                Captured::Text(text) => out.extend_from_slice(text),
                Captured::Position(position) => write!(out, "{position}").expect("memory takes what is written"),
            },
            Some(&literal) => out.push(literal),
            // Lua adds the NUL at the end of the text.
            None => out.push(0),
        }
        rest = rest.get(sign + 2..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    Ok(())
}

/// Replaces matches by what `push` pushes for them, if that is true, and pushes the text, whose length it returns.
/// Whatever `push` runs may leave all this.
fn substitute_computed(
    matches: &mut Substitution<'_>,
    stack: Stack,
    push: fn(&Matcher<'_>, Found, Stack) -> Outcome<()>,
) -> Outcome<usize> {
    let mut out = Gathered::new(stack);
    while let Some((before, found)) = matches.next()? {
        let start = out.len();
        out.extend(before);
        push(&matches.matcher, found, stack)?;
        match stack.text(-1) {
            Some(text) => out.extend(text),
            None if !stack.is_true(-1) => out.extend(matches.matcher.whole(found)),
            None => {
                let kind = stack.type_name(-1);
                return Err(Failed::Text(Words::from(format_args!("invalid replacement value (a {kind})"))));
            }
        }
        stack.pop();
        matches.note_made(start, out.len())?;
    }
    out.extend(matches.rest());
    out.push();
    Ok(out.len())
}

/// Pushes what the table has that replaces matches.
fn push_element(matcher: &Matcher<'_>, found: Found, stack: Stack) -> Outcome<()> {
    matcher.push_capture(0, found, stack)?;
    stack.index(3);
    Ok(())
}

/// Pushes what the function returns that replaces matches.
fn push_result(matcher: &Matcher<'_>, found: Found, stack: Stack) -> Outcome<()> {
    stack.push_copy(3);
    let arguments = matcher.push_captures(found, 1, stack)?;
    stack.call(arguments);
    Ok(())
}

// A test that cannot continue panics with the reason.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::scripting::busy::{Busy, Registered, Watchdog};
    use mlua::{MultiValue, Value};
    use std::sync::Arc;

    /// A state with Lua's own functions, and ours in a table `own`.
    fn lua() -> Lua {
        let lua = Lua::new();
        let own = lua.create_table().unwrap();
        register(&lua, &own, &Rc::default()).unwrap();
        lua.globals().set("own", own).unwrap();
        lua
    }

    fn random_text(random: &mut fastrand::Rng, bytes: &[u8], most: usize) -> Vec<u8> {
        (0..random.usize(..=most)).map(|_| bytes[random.usize(..bytes.len())]).collect()
    }

    /// The result of a call, or its error without the parts that depend on how it is raised.
    fn outcome(lua: &Lua, code: &str, text: &[u8], pattern: &[u8], init: i64) -> String {
        let lua_text = |bytes: &[u8]| lua.create_string(bytes).unwrap();
        let run: mlua::Function = lua.load(code).into_function().unwrap();
        match run.call::<MultiValue>((lua_text(text), lua_text(pattern), init)) {
            Ok(values) => format!("{:?}", values.iter().map(|value| value.to_string().unwrap()).collect::<Vec<_>>()),
            Err(error) => {
                let error = error.to_string();
                let kinds = [
                    "malformed pattern (ends with '%')",
                    "malformed pattern (missing ']')",
                    "missing '[' after '%f' in pattern",
                    "unbalanced pattern",
                    "invalid capture index",
                    "invalid pattern capture",
                    "unfinished capture",
                    "too many captures",
                ];
                kinds.iter().find(|kind| error.contains(**kind)).map_or(error.clone(), |kind| (*kind).to_owned())
            }
        }
    }

    #[test]
    fn random_patterns_find_what_luas_own_matcher_finds() {
        let lua = lua();
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..20_000 {
            let text = random_text(&mut random, b"aabbc(1 -]\0%", 12);
            let pattern = random_text(&mut random, b"aab.%%[]()^$*+-?bfdz12a-c ", 9);
            let init = random.i64(-14..14);
            for function in ["find", "match"] {
                let run =
                    |module: &str| outcome(&lua, &format!("return {module}.{function}(...)"), &text, &pattern, init);
                let (own, theirs) = (run("own"), run("string"));
                assert_eq!(own, theirs, "seed {seed}: {function} {} {}", text.escape_ascii(), pattern.escape_ascii());
            }
            let all = |module: &str| {
                let code = format!(
                    "local t, p = ... local r = {{}} for a, b in {module}.gmatch(t, p) do r[#r + 1] = tostring(a) .. ',' \
                     .. tostring(b) end return table.concat(r, ';')"
                );
                outcome(&lua, &code, &text, &pattern, init)
            };
            assert_eq!(all("own"), all("string"), "seed {seed}: {} {}", text.escape_ascii(), pattern.escape_ascii());
            let most = random.i64(-1..4);
            let (own, theirs) = (
                outcome(&lua, "local t, p, n = ... return own.gsub(t, p, '<%0%1>', n)", &text, &pattern, most),
                outcome(&lua, "local t, p, n = ... return string.gsub(t, p, '<%0%1>', n)", &text, &pattern, most),
            );
            assert_eq!(own, theirs, "seed {seed}: gsub {} {}", text.escape_ascii(), pattern.escape_ascii());
            for by in [
                "function(a, ...) if a ~= 'b' then return select('#', ...) .. tostring(a) end end",
                "{a = 'x', b = false, c = 7, [2] = '<2>', [''] = '-'}",
            ] {
                let run = |module: &str| {
                    let code = format!("local t, p, n = ... return {module}.gsub(t, p, {by}, n)");
                    outcome(&lua, &code, &text, &pattern, most)
                };
                let (own, theirs) = (run("own"), run("string"));
                assert_eq!(own, theirs, "seed {seed}: {by} {} {}", text.escape_ascii(), pattern.escape_ascii());
            }
        }
    }

    #[test]
    fn every_class_has_the_bytes_that_it_has_in_lua() {
        let lua = lua();
        let program = "local all = {} for i = 0, 255 do all[i] = string.char(i) end \
                       for i = 1, 255 do for _, p in ipairs({'%' .. all[i], '[%' .. all[i] .. ']', '[^%' .. all[i] .. ']'}) do \
                       for _, text in pairs(all) do \
                       local ok, own = pcall(own.find, text, p) local is, theirs = pcall(string.find, text, p) \
                       assert(ok == is and (not ok or own == theirs), p .. text) end end end";
        lua.load(program).exec().unwrap();
    }

    /// What a program returns with a module `m` of these functions and of Lua's own, errors and their places included.
    fn both(program: &str) -> [String; 2] {
        ["own", "string"].map(|module| {
            let lua = lua();
            let code = format!(
                "local m = {module} if m ~= string then setmetatable(m, {{__index = string}}) end \
                 getmetatable('').__index = m\n{program}"
            );
            let values = lua.load(code).set_name("=script").call::<MultiValue>(());
            let values = values.unwrap_or_else(|error| panic!("{program}: {error}"));
            format!("{:?}", values.iter().map(|value| value.to_string().unwrap()).collect::<Vec<_>>())
        })
    }

    #[test]
    fn programs_find_what_luas_own_functions_find_errors_included() {
        for program in [
            // Bad arguments, by a call and by a method.
            "return pcall(function() return m.find() end)",
            "return pcall(function() return m.find('a') end)",
            "return pcall(function() return m.find(nil, 'a') end)",
            "return pcall(function() return m.match('a', {}) end)",
            "return pcall(function() return m.gmatch('a', print) end)",
            "return pcall(function() return m.gsub('a', 'a') end)",
            "return pcall(function() return m.gsub('a', 'a', true) end)",
            "return pcall(function() return m.gsub('a', 'a', nil, 'x') end)",
            "return pcall(function() return m.find('a', 'a', 'x') end)",
            "return pcall(m.find, 'a', 'a', nil, true)",
            "return pcall(function() return 1, m.find() end)",
            "return pcall(function() return ('x'):find() end)",
            "return pcall(function() return ('x'):match({}) end)",
            "return pcall(function() return ('x'):gsub('x', 1, {}) end)",
            "return pcall(function() return ('x'):gsub('x') end)",
            "return pcall(function() return m.find(setmetatable({}, {__index = m}), 'x') end)",
            "return pcall(function() return setmetatable({}, {__index = m}):find('x') end)",
            "return pcall(function() for _ in m.gmatch('a', '%') do end end)",
            // A coroutine's error gets its location once more.
            "return pcall(coroutine.wrap(function() m.find('a', '[a') end))",
            // Numbers are texts, and texts are numbers.
            "return m.find(12345, 34)",
            "return m.match(-0.5, '%d+', '-2')",
            "return m.gsub(0 * -1, '^', '')",
            "return m.gsub(1e15, '%d', '<%0>', '3')",
            "return m.gsub('aaa', 'a', 7, 2.9)",
            "return m.find('abc', 'b', -1e300)",
            "return m.find('abc', '', 1e300)",
            "return m.find('a\\0b', 'b')",
            "return m.find('a\\0b', '\\0b', 1, true)",
            "return m.find('a\\0b', 'a\\0c')",
            "return m.find('abc', '', 4), m.find('abc', '', 5)",
            // 32 captures are all there may be.
            "return m.find(('a'):rep(40), ('(a)'):rep(32))",
            "return m.match(('a'):rep(40), ('()'):rep(32))",
            "return pcall(m.find, ('a'):rep(40), ('(a)'):rep(33))",
            "return m.gsub(('a'):rep(64), ('(.)'):rep(32), function(...) return select('#', ...) end)",
            "return m.gsub('abc', '(a)(b)(c)', '%3%2%1%0')",
            "return pcall(m.gsub, 'abc', '(a)', '%2')",
            "return pcall(m.gsub, 'abc', '(a', '%1')",
            "return pcall(m.gsub, 'abc', '(a)(b', {a = 'x'})",
            "return pcall(m.gsub, 'abc', '(a)(b', print)",
            // An anchor is a byte like any other for `gmatch`.
            "local r = {} for a in m.gmatch('aa^a', '^a') do r[#r + 1] = a end return #r, r[1]",
            "local r = {} for a, b in m.gmatch('a=b, c=d', '(%w)=(%w)') do r[#r + 1] = b .. a end return unpack(r)",
            "local r = {} for a in m.gmatch('abc', '()') do r[#r + 1] = a end return unpack(r)",
            "local r = {} for a in m.gmatch('abc', 'x*') do r[#r + 1] = a .. '.' end return unpack(r)",
            "local r = {} for a in m.gmatch('a\\0a', 'a\\0b') do r[#r + 1] = a end return unpack(r)",
            "local f = m.gmatch('ab', '.') return f(1, 2, 3), f(), f(), f()",
            "local f, g = m.gmatch('ab', '.'), m.gmatch(12, '.') return f(), g(), f(), g()",
            // Replacements that are computed.
            "return m.gsub('hello', '', {[''] = '-'})",
            "return m.gsub('abc', '^%w', function(c) return c:upper() end)",
            "return m.gsub('abc abc', 'abc', function() return nil end)",
            "return m.gsub('abc', '(b)', setmetatable({}, {__index = function(_, key) return key .. key end}))",
            "return pcall(m.gsub, 'abc', 'b', function() return {} end)",
            "return pcall(function() local s = m.gsub('abc', 'b', {b = true}) return s end)",
            "return m.gsub(('x'):rep(300), '.', function(x) collectgarbage() return ('yz'):rep(99) end, 40)",
            "return m.gsub(('x'):rep(3000), 'x', {x = ('y'):rep(10)})",
            "return m.gsub('x', 'x', function() return ('y'):rep(100000) end)",
            // What a replacement raises passes `gsub`, at any point and depth.
            "local n = 0 return pcall(m.gsub, 'abc', '.', function(c) n = n + 1 if n == 2 then error('so', 0) end end)",
            "return pcall(m.gsub, 'abc', '.', function() error({}, 0) end) == false",
            "local function f(c) if c == 'c' then return (c:gsub('c', 'd')) end return (('c'):gsub('.', f)) end \
             return m.gsub('abc', '.', f)",
            "return m.gsub('a b', '%a', function(c) return pcall(m.gsub, c, '.', function() error('x') end) and 1 or 2 end)",
            "return m.gsub('ab', '.', function(c) local t = {} for d in m.gmatch('xy', '.') do t[#t + 1] = c .. d end \
             return table.concat(t) end)",
            // A function of C does not yield.
            "local c = coroutine.create(function() m.gsub('a', 'a', coroutine.yield) end) return coroutine.resume(c)",
            "local c = coroutine.wrap(function() return m.gsub('ab', '.', function(c) return coroutine.wrap(function() \
             coroutine.yield(c .. c) end)() end) end) return c()",
            // The calls of C nest to a depth.
            "local function f() return m.gsub('x', 'x', f) end return (pcall(f))",
            "return pcall(function(...) return m.find('ab', '()()', ...) end, unpack({}, 1, 7000))",
        ] {
            let [own, theirs] = both(program);
            assert_eq!(own, theirs, "{program}");
        }
    }

    #[test]
    fn memory_that_ends_within_a_substitution_is_an_error_and_the_state_goes_on() {
        let lua = lua();
        lua.load("long = ('x'):rep(1500000) short = ('x'):rep(1000)").exec().unwrap();
        for by in ["function() return 'y' end", "{x = 'y'}", "'y'"] {
            let run = |text: &str| {
                lua.gc_collect().unwrap();
                lua.set_memory_limit(lua.used_memory() + 1_000_000).unwrap();
                let code =
                    format!("local _, s = pcall(own.gsub, {text}, '.', {by}) return #s == #{text} and 'as long' or s");
                let outcome = lua.load(code).eval::<String>().unwrap();
                lua.set_memory_limit(0).unwrap();
                outcome
            };
            for _ in 0..3 {
                assert_eq!(run("long"), "not enough memory", "{by}");
                assert_eq!(run("short"), "as long", "{by}");
            }
        }
    }

    #[test]
    fn a_killed_script_ends_within_a_call() {
        let (lua, busy, shared) = (Lua::new(), Arc::<Busy>::default(), Rc::<Shared>::default());
        // Scripts are never busy: any can be killed.
        busy.set_threshold_ms(0);
        register(&lua, &lua.globals(), &shared).unwrap();
        lua.load("long = ('a'):rep(200000)").exec().unwrap();
        let calls = [
            "find(long, '.-b')",
            "match(long, '(a*)a*b')",
            "gmatch(long, 'a*b')()",
            "gsub(long, 'a', '')",
            "gsub(long, 'a', {})",
            "gsub(long, 'a', tostring)",
            "gsub(long:sub(1, 100), 'a', long)",
        ];
        let run =
            |call: &str| lua.load(format!("return pcall(function() {call} end)")).eval::<(bool, Value)>().unwrap();
        // The others have too many ways to match.
        for call in &calls[3..] {
            assert!(run(call).0, "{call}");
        }
        let position = Registered::new(&busy);
        *shared.watchdog.borrow_mut() = Some(Watchdog::of_script(&position, [b'a'; 40]));
        busy.kill(false).unwrap();
        for call in calls {
            let (is_done, error) = run(call);
            assert!(!is_done, "{call}");
            let error: String = error.as_table().unwrap().get("err").unwrap();
            assert!(error.contains("killed by user"), "{call}: {error}");
        }
    }

    #[test]
    fn a_pattern_that_would_need_the_stack_of_c_is_refused() {
        let lua = lua();
        let code = "return own.find(string.rep('a', 400000), string.rep('a?', 400000) .. 'b')";
        let error = lua.load(code).exec().unwrap_err().to_string();
        assert!(error.contains("pattern too complex"), "{error}");
    }
}
