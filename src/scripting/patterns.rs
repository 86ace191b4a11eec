//! Lua's patterns: `string.find`, `match`, `gmatch`, and the parts of `gsub`.
//!
//! Lua's own matcher recurses on the stack of C as deep as the pattern requires, and cannot be interrupted. This one
//! has a bound on recursion, and checks the time of the script regularly. The rules are those of Lua 5.1: a pattern
//! ends at its first NUL, and `%z` stands for one.

use super::MADE_MAX;
use super::busy::{TheWatchdog, Watchdog};
use super::raising;
use mlua::{Lua, LuaString, MultiValue, Result, Table, Value};
use std::cell::Cell;
use std::rc::Rc;

/// The most captures of a pattern.
const CAPTURES_MAX: usize = 32;
/// How deep repetitions and captures may be nested.
const DEPTH_MAX: usize = 1000;
/// Steps between two checks of the time.
const LOOK_EVERY: u32 = 100_000;

/// An invalid pattern, or one that takes too long.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Wrong {
    Pattern(&'static str),
    Time(&'static str),
}

type Outcome<T> = std::result::Result<T, Wrong>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Len {
    /// The capture has not been closed.
    Open,
    /// It is a position.
    Position,
    Of(usize),
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
    look: &'a dyn Fn() -> std::result::Result<(), &'static str>,
}

impl<'a> Matcher<'a> {
    fn new(text: &'a [u8], pattern: &'a [u8], look: &'a dyn Fn() -> std::result::Result<(), &'static str>) -> Self {
        let captures = [Capture { start: 0, len: Len::Open }; CAPTURES_MAX];
        Self { text, pattern, captures, level: 0, depth: 0, steps: 0, look }
    }

    fn step(&mut self) -> Outcome<()> {
        self.steps = self.steps.saturating_add(1);
        if self.steps >= LOOK_EVERY {
            self.steps = 0;
            (self.look)().map_err(Wrong::Time)?;
        }
        Ok(())
    }

    /// Counts the bytes that a match has made as steps.
    fn note_made(&mut self, bytes: usize) {
        const BYTES_OF_A_STEP: usize = 16;
        self.steps = self.steps.saturating_add(u32::try_from(bytes / BYTES_OF_A_STEP).unwrap_or(u32::MAX));
    }

    /// The byte of the pattern at a place; `None` at its end.
    fn at(&self, place: usize) -> Option<u8> {
        self.pattern.get(place).copied()
    }

    /// Where the match ends that begins at `from`, with the pattern from `place` on.
    fn matches(&mut self, from: usize, place: usize) -> Outcome<Option<usize>> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Wrong::Pattern("pattern too complex"));
        }
        let end = self.matches_here(from, place);
        self.depth -= 1;
        end
    }

    fn matches_here(&mut self, mut from: usize, mut place: usize) -> Outcome<Option<usize>> {
        loop {
            self.step()?;
            let Some(byte) = self.at(place) else { return Ok(Some(from)) };
            match (byte, self.at(place + 1)) {
                (b'(', Some(b')')) => return self.open(from, place + 2, Len::Position),
                (b'(', _) => return self.open(from, place + 1, Len::Open),
                (b')', _) => return self.close(from, place + 1),
                (b'%', Some(b'b')) => match self.balance(from, place + 2)? {
                    Some(end) => (from, place) = (end, place + 4),
                    None => return Ok(None),
                },
                (b'%', Some(b'f')) => match self.is_frontier(from, place + 2)? {
                    Some(next) => place = next,
                    None => return Ok(None),
                },
                (b'%', Some(digit)) if digit.is_ascii_digit() => match self.again(from, digit)? {
                    Some(end) => (from, place) = (end, place + 2),
                    None => return Ok(None),
                },
                (b'$', None) => return Ok((from == self.text.len()).then_some(from)),
                _ => {
                    let end = self.class_end(place)?;
                    let is_match = self.matches_one(from, place, end);
                    match self.at(end) {
                        Some(b'?') => {
                            if is_match && let Some(end) = self.matches(from + 1, end + 1)? {
                                return Ok(Some(end));
                            }
                            place = end + 1;
                        }
                        Some(b'*') => return self.most(from, place, end),
                        Some(b'+') if is_match => return self.most(from + 1, place, end),
                        Some(b'-') => return self.fewest(from, place, end),
                        _ if !is_match || self.at(end) == Some(b'+') => return Ok(None),
                        _ => (from, place) = (from + 1, end),
                    }
                }
            }
        }
    }

    /// Where the class at `place` ends.
    fn class_end(&self, place: usize) -> Outcome<usize> {
        match self.pattern[place] {
            b'%' if place + 1 >= self.pattern.len() => Err(Wrong::Pattern("malformed pattern (ends with '%')")),
            b'%' => Ok(place + 2),
            b'[' => self.set_end(place + 1),
            _ => Ok(place + 1),
        }
    }

    fn set_end(&self, mut place: usize) -> Outcome<usize> {
        const OPEN: Wrong = Wrong::Pattern("malformed pattern (missing ']')");
        if self.at(place) == Some(b'^') {
            place += 1;
        }
        loop {
            let byte = self.at(place).ok_or(OPEN)?;
            place += 1;
            if byte == b'%' && self.at(place).is_some() {
                place += 1;
            }
            if self.at(place) == Some(b']') {
                return Ok(place + 1);
            }
        }
    }

    /// Whether a byte belongs to a class.
    fn matches_one(&self, from: usize, place: usize, end: usize) -> bool {
        let Some(&byte) = self.text.get(from) else { return false };
        match self.pattern[place] {
            b'.' => true,
            b'%' => is_of_class(byte, self.pattern[place + 1]),
            b'[' => self.is_of_set(byte, place, end - 1),
            literal => literal == byte,
        }
    }

    /// Whether a byte belongs to the set between `place` and `last`, the positions of its brackets.
    fn is_of_set(&self, byte: u8, mut place: usize, last: usize) -> bool {
        let mut is_in = true;
        if self.pattern[place + 1] == b'^' {
            is_in = false;
            place += 1;
        }
        place += 1;
        while place < last {
            let here = self.pattern[place];
            if here == b'%' {
                place += 1;
                if is_of_class(byte, self.pattern[place]) {
                    return is_in;
                }
            } else if self.pattern[place + 1] == b'-' && place + 2 < last {
                place += 2;
                if (here..=self.pattern[place]).contains(&byte) {
                    return is_in;
                }
            } else if here == byte {
                return is_in;
            }
            place += 1;
        }
        !is_in
    }

    fn most(&mut self, from: usize, place: usize, end: usize) -> Outcome<Option<usize>> {
        let mut count = 0;
        while self.matches_one(from + count, place, end) {
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

    fn fewest(&mut self, mut from: usize, place: usize, end: usize) -> Outcome<Option<usize>> {
        loop {
            if let Some(end) = self.matches(from, end + 1)? {
                return Ok(Some(end));
            }
            if !self.matches_one(from, place, end) {
                return Ok(None);
            }
            from += 1;
        }
    }

    fn open(&mut self, from: usize, place: usize, len: Len) -> Outcome<Option<usize>> {
        if self.level >= CAPTURES_MAX {
            return Err(Wrong::Pattern("too many captures"));
        }
        self.captures[self.level] = Capture { start: from, len };
        self.level += 1;
        let end = self.matches(from, place)?;
        if end.is_none() {
            self.level -= 1;
        }
        Ok(end)
    }

    fn close(&mut self, from: usize, place: usize) -> Outcome<Option<usize>> {
        let open = self.captures[..self.level].iter().rposition(|capture| capture.len == Len::Open);
        let open = open.ok_or(Wrong::Pattern("invalid pattern capture"))?;
        self.captures[open].len = Len::Of(from - self.captures[open].start);
        let end = self.matches(from, place)?;
        if end.is_none() {
            self.captures[open].len = Len::Open;
        }
        Ok(end)
    }

    fn balance(&mut self, from: usize, place: usize) -> Outcome<Option<usize>> {
        let (Some(opens), Some(closes)) = (self.at(place), self.at(place + 1)) else {
            return Err(Wrong::Pattern("unbalanced pattern"));
        };
        if self.text.get(from) != Some(&opens) {
            return Ok(None);
        }
        let mut open = 1;
        for (offset, &byte) in self.text[from + 1..].iter().enumerate() {
            if byte == closes {
                open -= 1;
                if open == 0 {
                    return Ok(Some(from + offset + 2));
                }
            } else if byte == opens {
                open += 1;
            }
        }
        Ok(None)
    }

    /// Where the pattern continues if a set begins here in the text.
    fn is_frontier(&mut self, from: usize, place: usize) -> Outcome<Option<usize>> {
        if self.at(place) != Some(b'[') {
            return Err(Wrong::Pattern("missing '[' after '%f' in pattern"));
        }
        let end = self.class_end(place)?;
        let before = if from == 0 { 0 } else { self.text[from - 1] };
        let here = self.text.get(from).copied().unwrap_or(0);
        let is_here = !self.is_of_set(before, place, end - 1) && self.is_of_set(here, place, end - 1);
        Ok(is_here.then_some(end))
    }

    /// Where a repetition of a capture ends.
    fn again(&mut self, from: usize, digit: u8) -> Outcome<Option<usize>> {
        let captured = match digit.checked_sub(b'1').map(usize::from) {
            Some(index) if index < self.level => self.captures[index],
            _ => return Err(Wrong::Pattern("invalid capture index")),
        };
        let len = match captured.len {
            Len::Open => return Err(Wrong::Pattern("invalid capture index")),
            // A position is longer than any text.
            Len::Position => return Ok(None),
            Len::Of(len) => len,
        };
        let (text, wanted) = (&self.text[from..], &self.text[captured.start..captured.start + len]);
        Ok(text.starts_with(wanted).then_some(from + len))
    }

    /// The first match that begins at `from` or later; only at `from` if the pattern is anchored.
    fn find(&mut self, from: usize, is_anchored: bool) -> Outcome<Option<(usize, usize)>> {
        let last = if is_anchored { from } else { self.text.len() };
        for start in from..=last {
            self.level = 0;
            self.depth = 0;
            if let Some(end) = self.matches(start, 0)? {
                return Ok(Some((start, end)));
            }
        }
        Ok(None)
    }

    fn captured(&self, index: usize, (start, end): (usize, usize)) -> Outcome<Captured<'a>> {
        if index >= self.level {
            return match index {
                0 => Ok(Captured::Text(&self.text[start..end])),
                _ => Err(Wrong::Pattern("invalid capture index")),
            };
        }
        let Capture { start, len } = self.captures[index];
        match len {
            Len::Open => Err(Wrong::Pattern("unfinished capture")),
            Len::Position => Ok(Captured::Position(start + 1)),
            Len::Of(len) => Ok(Captured::Text(&self.text[start..start + len])),
        }
    }
}

enum Captured<'a> {
    Text(&'a [u8]),
    Position(usize),
}

impl Captured<'_> {
    fn value(&self, lua: &Lua) -> Result<Value> {
        Ok(match self {
            Self::Text(text) => Value::String(lua.create_string(text)?),
            Self::Position(position) => Value::Integer(*position as i64),
        })
    }
}

/// Whether a byte belongs to the class that a letter names, in the locale C; any other byte names itself.
fn is_of_class(byte: u8, class: u8) -> bool {
    let is_of = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => byte.is_ascii_whitespace() || byte == 0x0b,
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is_of != class.is_ascii_uppercase()
}

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

fn look_at(watchdog: &TheWatchdog) -> impl Fn() -> std::result::Result<(), &'static str> + '_ {
    || watchdog.borrow().as_ref().map_or(Ok(()), Watchdog::look)
}

fn raised(lua: &Lua, wrong: Wrong) -> mlua::Error {
    match wrong {
        Wrong::Pattern(text) => raising::error(lua, text),
        Wrong::Time(text) => raising::reply(text, false),
    }
}

/// Adds the functions to `native`.
pub fn register(lua: &Lua, native: &Table, watchdog: &TheWatchdog) -> Result<()> {
    for (name, finds) in [("find", true), ("match", false)] {
        let watchdog = Rc::clone(watchdog);
        let find = lua.create_function(move |lua, values: MultiValue| find(lua, &values, name, finds, &watchdog))?;
        native.raw_set(name, find)?;
    }
    let its = Rc::clone(watchdog);
    native.raw_set("gmatch", lua.create_function(move |lua, values: MultiValue| gmatch(lua, &values, &its))?)?;
    let its = Rc::clone(watchdog);
    native
        .raw_set("substitute", lua.create_function(move |lua, values: MultiValue| substitute(lua, &values, &its))?)?;
    native.raw_set("gsub_arguments", lua.create_function(|lua, values: MultiValue| gsub_arguments(lua, &values))?)?;
    let its = Rc::clone(watchdog);
    native
        .raw_set("next_match", lua.create_function(move |lua, values: MultiValue| next_match(lua, &values, &its))?)?;
    Ok(())
}

fn two_texts(lua: &Lua, values: &MultiValue, function: &str) -> Result<(LuaString, LuaString)> {
    Ok((raising::text(lua, values.front(), 1, function)?, raising::text(lua, values.get(1), 2, function)?))
}

/// Where a search begins: positions count from 1, negative ones from the end.
fn start_of(lua: &Lua, values: &MultiValue, len: usize, function: &str) -> Result<usize> {
    let init = raising::truncated(raising::number_or(lua, values.get(2), 3, function, 1.0)?);
    let len = i64::try_from(len).expect("a text has less than 2^63 bytes");
    let position = if init < 0 { init.saturating_add(len).saturating_add(1) } else { init };
    Ok(usize::try_from((position - 1).clamp(0, len)).expect("it is not negative"))
}

fn find(lua: &Lua, values: &MultiValue, function: &str, finds: bool, watchdog: &TheWatchdog) -> Result<MultiValue> {
    let (text, whole) = two_texts(lua, values, function)?;
    let (text, whole) = (text.as_bytes(), whole.as_bytes());
    let from = start_of(lua, values, text.len(), function)?;
    let pattern = up_to_nul(&whole);
    let is_plain = values.get(3).is_some_and(|value| !matches!(value, Value::Nil | Value::Boolean(false)));
    if finds && (is_plain || !pattern.iter().any(|byte| b"^$*+?.([%-".contains(byte))) {
        return Ok(find_plain(&text, &whole, from));
    }
    let (pattern, is_anchored) = unanchored(pattern);
    let look = look_at(watchdog);
    let mut matcher = Matcher::new(&text, pattern, &look);
    let found = matcher.find(from, is_anchored).map_err(|wrong| raised(lua, wrong))?;
    let Some(found) = found else { return Ok(MultiValue::from_iter([Value::Nil])) };
    let mut results = Vec::new();
    if finds {
        results.extend([Value::Integer(found.0 as i64 + 1), Value::Integer(found.1 as i64)]);
    }
    let count = if matcher.level == 0 && !finds { 1 } else { matcher.level };
    push_captures(lua, &matcher, count, found, &mut results)?;
    Ok(results.into())
}

fn find_plain(text: &[u8], wanted: &[u8], from: usize) -> MultiValue {
    let found = match wanted {
        [] => Some(0),
        [first, ..] => {
            let rest = &text[from..];
            let mut at = 0;
            loop {
                let Some(next) = rest[at..].iter().position(|byte| byte == first) else { break None };
                at += next;
                if rest[at..].starts_with(wanted) {
                    break Some(at);
                }
                at += 1;
            }
        }
    };
    match found {
        None => MultiValue::from_iter([Value::Nil]),
        Some(at) => {
            let start = (from + at) as i64;
            MultiValue::from_iter([Value::Integer(start + 1), Value::Integer(start + wanted.len() as i64)])
        }
    }
}

fn push_captures(
    lua: &Lua,
    matcher: &Matcher<'_>,
    count: usize,
    found: (usize, usize),
    results: &mut Vec<Value>,
) -> Result<()> {
    for index in 0..count {
        let captured = matcher.captured(index, found).map_err(|wrong| raised(lua, wrong))?;
        results.push(captured.value(lua)?);
    }
    Ok(())
}

fn gmatch(lua: &Lua, values: &MultiValue, watchdog: &TheWatchdog) -> Result<Value> {
    let (text, pattern) = two_texts(lua, values, "gmatch")?;
    let (next, watchdog) = (Cell::new(0), Rc::clone(watchdog));
    let step = lua.create_function(move |lua, _: MultiValue| {
        let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
        let look = look_at(&watchdog);
        let mut matcher = Matcher::new(&text, up_to_nul(&pattern), &look);
        if next.get() > text.len() {
            return Ok(MultiValue::from_iter([Value::Nil]));
        }
        let Some(found) = matcher.find(next.get(), false).map_err(|wrong| raised(lua, wrong))? else {
            next.set(text.len() + 1);
            return Ok(MultiValue::from_iter([Value::Nil]));
        };
        next.set(if found.1 == found.0 { found.1 + 1 } else { found.1 });
        let mut results = Vec::new();
        push_captures(lua, &matcher, matcher.level.max(1), found, &mut results)?;
        Ok(results.into())
    })?;
    Ok(Value::Function(step))
}

/// The text, the pattern, and how often is replaced at most, of arguments of `gsub` whose replacement is computed:
/// numbers are texts, too.
fn gsub_arguments(lua: &Lua, values: &MultiValue) -> Result<(LuaString, LuaString, i64)> {
    let (text, pattern) = two_texts(lua, values, "gsub")?;
    let most = replaced_at_most(lua, values, text.as_bytes().len())?;
    Ok((text, pattern, most))
}

fn replaced_at_most(lua: &Lua, values: &MultiValue, len: usize) -> Result<i64> {
    #[expect(clippy::cast_precision_loss, reason = "a text is shorter than 2^53")]
    let every = len as f64 + 1.0;
    Ok(raising::truncated(raising::number_or(lua, values.get(3), 4, "gsub", every)?))
}

/// `gsub` with a text as the replacement.
fn substitute(lua: &Lua, values: &MultiValue, watchdog: &TheWatchdog) -> Result<MultiValue> {
    let (text, whole) = two_texts(lua, values, "gsub")?;
    let (text, whole) = (text.as_bytes(), whole.as_bytes());
    let replacement = match values.get(2) {
        Some(Value::String(_) | Value::Integer(_) | Value::Number(_)) => raising::text(lua, values.get(2), 3, "gsub")?,
        _ => return Err(raising::bad_argument(lua, 3, "gsub", "string/function/table expected")),
    };
    let replacement = replacement.as_bytes();
    let most = replaced_at_most(lua, values, text.len())?;
    let (pattern, is_anchored) = unanchored(up_to_nul(&whole));
    let look = look_at(watchdog);
    let mut matcher = Matcher::new(&text, pattern, &look);
    let (mut out, mut count, mut from) = (Vec::new(), 0, 0);
    while count < most {
        let Some(found) = matcher.find(from, is_anchored).map_err(|wrong| raised(lua, wrong))? else { break };
        let before = out.len();
        out.extend_from_slice(&text[from..found.0]);
        count += 1;
        push_replacement(lua, &matcher, &replacement, found, &mut out)?;
        matcher.note_made(out.len() - before);
        if out.len() > MADE_MAX {
            return Err(raising::error(lua, "not enough memory"));
        }
        from = found.1;
        if found.0 == found.1 {
            let Some(&byte) = text.get(from) else { break };
            out.push(byte);
            from += 1;
        }
        if is_anchored {
            break;
        }
    }
    out.extend_from_slice(&text[from..]);
    Ok(MultiValue::from_iter([Value::String(lua.create_string(out)?), Value::Integer(count)]))
}

fn push_replacement(
    lua: &Lua,
    matcher: &Matcher<'_>,
    replacement: &[u8],
    found: (usize, usize),
    out: &mut Vec<u8>,
) -> Result<()> {
    let mut rest = replacement;
    while let Some(sign) = rest.iter().position(|&byte| byte == b'%') {
        out.extend_from_slice(&rest[..sign]);
        match rest.get(sign + 1) {
            Some(b'0') => out.extend_from_slice(&matcher.text[found.0..found.1]),
            Some(digit) if digit.is_ascii_digit() => {
                let captured = matcher.captured(usize::from(digit - b'1'), found);
                match captured.map_err(|wrong| raised(lua, wrong))? {
                    Captured::Text(text) => out.extend_from_slice(text),
                    Captured::Position(position) => out.extend_from_slice(position.to_string().as_bytes()),
                }
            }
            Some(&literal) => out.push(literal),
            // Lua adds the NUL at the end of the text.
            None => out.push(0),
        }
        rest = rest.get(sign + 2..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    Ok(())
}

/// For `gsub` with a computed replacement: the next match, and its captures.
fn next_match(lua: &Lua, values: &MultiValue, watchdog: &TheWatchdog) -> Result<MultiValue> {
    let (text, whole) = two_texts(lua, values, "gsub")?;
    let (text, whole) = (text.as_bytes(), whole.as_bytes());
    let from = start_of(lua, values, text.len(), "gsub")?;
    let (pattern, is_anchored) = unanchored(up_to_nul(&whole));
    let look = look_at(watchdog);
    let mut matcher = Matcher::new(&text, pattern, &look);
    let found = matcher.find(from, is_anchored).map_err(|wrong| raised(lua, wrong))?;
    let Some(found) = found else { return Ok(MultiValue::from_iter([Value::Nil])) };
    let mut results = vec![Value::Integer(found.0 as i64 + 1), Value::Integer(found.1 as i64)];
    push_captures(lua, &matcher, matcher.level.max(1), found, &mut results)?;
    Ok(results.into())
}

// A test that cannot continue panics with the reason.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

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
                outcome(&lua, "local t, p, n = ... return own.substitute(t, p, '<%0%1>', n)", &text, &pattern, most),
                outcome(&lua, "local t, p, n = ... return string.gsub(t, p, '<%0%1>', n)", &text, &pattern, most),
            );
            assert_eq!(own, theirs, "seed {seed}: gsub {} {}", text.escape_ascii(), pattern.escape_ascii());
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
