//! Errors that Rust's functions raise in a script.
//!
//! Errors that cross from Rust to Lua are objects of the library in between. No script sees them: `sandbox.lua` and the
//! interpreter convert them to what Redis's functions raise, a text or a table.

use super::calls::Shared;
use super::stack::{self, Stack};
use mlua::{Error, Lua, LuaString, Result, Value};
use std::ffi::c_int;
use std::fmt;
use std::io::Write;

/// The name of chunks that belong to no script: positions in them are not shown.
pub const OWN_CHUNK: &str = "=shardrace";

/// A raised error.
#[derive(Debug, Clone)]
pub enum Raised {
    /// A text, with the location in the script if it has one.
    Text(Vec<u8>),
    /// The error of a command or of a function of `redis`, code included: a table in Lua.
    Reply {
        /// The error.
        text: Vec<u8>,
        /// Whether the counts of error replies include it already.
        is_counted: bool,
    },
}

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Text(text) | Self::Reply { text, .. }) = self;
        f.write_str(&String::from_utf8_lossy(text))
    }
}

impl std::error::Error for Raised {}

/// Why a function of C fails. It owns nothing, so that its error may be raised where it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Failed {
    /// A message.
    Text(Words),
    /// An argument is wrong: its number, and how.
    Argument(c_int, Words),
    /// An argument is none of what it must be.
    Type(c_int, &'static str),
    /// The script must end, for the reason that its watchdog has told.
    End,
}

impl From<&'static str> for Failed {
    fn from(text: &'static str) -> Self {
        Self::Text(Words::from(format_args!("{text}")))
    }
}

/// What [`Failed`] has.
pub type Outcome<T> = std::result::Result<T, Failed>;

/// A short text.
#[derive(Clone, Copy, PartialEq)]
pub struct Words {
    bytes: [u8; Self::MOST],
    len: usize,
}

impl Words {
    const MOST: usize = 80;
}

impl From<fmt::Arguments<'_>> for Words {
    fn from(text: fmt::Arguments<'_>) -> Self {
        let mut bytes = [0; Self::MOST];
        let mut rest = &mut bytes[..];
        rest.write_fmt(text).expect("what is wrong is said in few words");
        let len = Self::MOST - rest.len();
        Self { bytes, len }
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.bytes[..self.len]).expect("it was made of a text"))
    }
}

impl fmt::Debug for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Raises the error of the function that runs, which has this name.
#[cold]
pub fn raise(stack: Stack, shared: &Shared, function: &str, failed: Failed) -> ! {
    /// The name of a chunk, a line, the name of a function, and words.
    const MOST: usize = 256;
    let mut line = [0; MOST];
    let mut rest = &mut line[..];
    let written = match failed {
        Failed::Text(text) => write_error(stack, &mut rest, format_args!("{text}")),
        Failed::Argument(number, reason) => {
            write_bad_argument(stack, &mut rest, (number, function), format_args!("{reason}"))
        }
        Failed::Type(number, wanted) => {
            let got = stack.type_name(number);
            write_bad_argument(stack, &mut rest, (number, function), format_args!("{wanted} expected, got {got}"))
        }
        Failed::End => {
            let reason = shared.end().expect("the watchdog has been looked at");
            stack.clear();
            push_error(stack, reason.as_bytes(), false);
            stack.raise()
        }
    };
    written.expect("an error is a line");
    let len = MOST - rest.len();
    stack.clear();
    stack.push_text(&line[..len]);
    stack.raise()
}

/// Writes a message, with the location of the caller of the running function.
fn write_error(stack: Stack, out: &mut &mut [u8], text: fmt::Arguments<'_>) -> std::io::Result<()> {
    let caller = (1..).map_while(|level| stack.level(level)).find(|level| !level.is_own);
    if let Some((line, level)) = caller.and_then(|level| Some((level.line?, level))) {
        out.write_all(level.shown())?;
        write!(out, ":{line}: ")?;
    }
    out.write_fmt(text)
}

/// Writes the message of a bad argument. The object of a method call counts for no argument.
fn write_bad_argument(
    stack: Stack,
    out: &mut &mut [u8],
    (number, function): (c_int, &str),
    reason: fmt::Arguments<'_>,
) -> std::io::Result<()> {
    let is_method = stack.level(0).is_some_and(|level| level.is_method);
    match number - c_int::from(is_method && number > 0) {
        0 if is_method => write_error(stack, out, format_args!("calling '{function}' on bad self ({reason})")),
        number => write_error(stack, out, format_args!("bad argument #{number} to '{function}' ({reason})")),
    }
}

/// An argument as a text, as Lua converts it.
pub fn text_at<'a>(stack: Stack, number: c_int) -> Outcome<&'a [u8]> {
    stack.text(number).ok_or(Failed::Type(number, "string"))
}

/// An argument as a number, as Lua converts it.
pub fn number_at(stack: Stack, number: c_int) -> Outcome<f64> {
    stack.number(number).ok_or(Failed::Type(number, "number"))
}

/// The same, with a default for a missing or nil argument.
pub fn number_at_or(stack: Stack, number: c_int, default: f64) -> Outcome<f64> {
    if stack.is_missing(number) { Ok(default) } else { number_at(stack, number) }
}

/// Where a function of the call stack is.
pub struct Location {
    /// The name of the chunk as given.
    pub source: String,
    /// The name as shown in errors.
    pub shown: String,
    /// The line; `None` in a function of Rust or C.
    pub line: Option<usize>,
    is_c: bool,
}

fn location_at(lua: &Lua, level: usize) -> Option<Location> {
    lua.inspect_stack(level, |debug| {
        let source = debug.source();
        let text = |text: Option<std::borrow::Cow<'_, str>>| text.map(std::borrow::Cow::into_owned).unwrap_or_default();
        Location {
            source: text(source.source),
            shown: text(source.short_src),
            line: debug.current_line(),
            is_c: source.what == "C",
        }
    })
}

/// The location of the function at `level` of the stack, or of its caller if that belongs to no script.
pub fn location(lua: &Lua, level: usize, skips_c: bool) -> Option<Location> {
    let mut level = level;
    if skips_c && location_at(lua, level)?.is_c {
        level += 1;
    }
    loop {
        let location = location_at(lua, level)?;
        if location.source != OWN_CHUNK {
            return Some(location);
        }
        level += 1;
    }
}

/// An error message, with the location of the caller of the running function.
pub fn error(lua: &Lua, text: impl AsRef<[u8]>) -> Error {
    let mut whole = match location(lua, 1, false) {
        Some(Location { shown, line: Some(line), .. }) => format!("{shown}:{line}: ").into_bytes(),
        _ => Vec::new(),
    };
    whole.extend_from_slice(text.as_ref());
    Error::external(Raised::Text(whole))
}

/// The error of a function of `redis`.
pub fn reply(text: impl Into<Vec<u8>>, is_counted: bool) -> Error {
    Error::external(Raised::Reply { text: text.into(), is_counted })
}

/// The error of a bad argument. The object of a method call counts for no argument.
pub fn bad_argument(lua: &Lua, number: usize, function: &str, reason: &str) -> Error {
    let is_method = lua.inspect_stack(0, |debug| debug.names().name_what == Some("method")).unwrap_or(false);
    match number - usize::from(is_method && number > 0) {
        0 if is_method => error(lua, format!("calling '{function}' on bad self ({reason})")),
        number => error(lua, format!("bad argument #{number} to '{function}' ({reason})")),
    }
}

/// An error object as a script sees it; any other value unchanged.
pub fn shown(lua: &Lua, value: Value) -> Result<Value> {
    let Value::Error(error) = value else { return Ok(value) };
    match error.downcast_ref::<Raised>() {
        Some(Raised::Text(text)) => Ok(Value::String(lua.create_string(text)?)),
        Some(Raised::Reply { text, is_counted }) => table(lua, text, *is_counted),
        None => Ok(Value::String(lua.create_string(without_trace(&error))?)),
    }
}

/// The table of an error.
pub fn table(lua: &Lua, text: &[u8], is_counted: bool) -> Result<Value> {
    stack::made(lua, (), &mut (text, is_counted), |(text, is_counted), stack| push_error(stack, text, *is_counted))
}

/// Pushes the table of an error. One without a code gets one.
pub fn push_error(stack: Stack, text: &[u8], is_counted: bool) {
    stack.push_table(0, 2);
    stack.push_text(b"err");
    if text.contains(&b' ') {
        stack.push_text(text);
    } else {
        stack.push_text(b"ERR ");
        stack.push_text(text);
        stack.join_two();
    }
    stack.set_field();
    if is_counted {
        stack.push_text(b"ignore_error_stats_update");
        stack.push_boolean(true);
        stack.set_field();
    }
}

/// An error without its place in a chunk that belongs to no script. Lua adds it where such a chunk calls a function of
/// C with wrong arguments.
pub fn without_own_place(text: &[u8]) -> &[u8] {
    let own = &OWN_CHUNK.as_bytes()[1..];
    let after_line = |rest: &[u8]| {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        (digits > 0 && rest[digits..].starts_with(b": ")).then_some(digits + 2)
    };
    let rest = text.strip_prefix(own).and_then(|rest| rest.strip_prefix(b":"));
    rest.and_then(|rest| Some(&rest[after_line(rest)?..])).unwrap_or(text)
}

/// The message of an error that the library between Rust and Lua has found.
pub fn without_trace(error: &Error) -> String {
    match error {
        Error::CallbackError { cause, .. } => without_trace(cause),
        Error::MemoryError(_) => "not enough memory".to_owned(),
        Error::RuntimeError(text) => text.split("\nstack traceback").next().unwrap_or_default().to_owned(),
        other => other.to_string(),
    }
}

/// An argument as a text, as Lua converts it.
pub fn text(lua: &Lua, value: Option<&Value>, number: usize, function: &str) -> Result<LuaString> {
    let converted = match value {
        Some(Value::String(text)) => Some(text.clone()),
        Some(value @ (Value::Integer(_) | Value::Number(_))) => lua.coerce_string(value.clone())?,
        _ => None,
    };
    converted.ok_or_else(|| wrong_type(lua, value, number, function, "string"))
}

/// An argument as a number, as Lua converts it.
pub fn number(lua: &Lua, value: Option<&Value>, number: usize, function: &str) -> Result<f64> {
    number_of(lua, value)?.ok_or_else(|| wrong_type(lua, value, number, function, "number"))
}

/// The same, with a default for a missing or nil argument.
pub fn number_or(lua: &Lua, value: Option<&Value>, number: usize, function: &str, default: f64) -> Result<f64> {
    match value {
        None | Some(Value::Nil) => Ok(default),
        value => self::number(lua, value, number, function),
    }
}

/// A value as a number, if Lua would convert it.
pub fn number_of(lua: &Lua, value: Option<&Value>) -> Result<Option<f64>> {
    match value {
        #[expect(clippy::cast_precision_loss, reason = "it was made of a double")]
        Some(Value::Integer(number)) => Ok(Some(*number as f64)),
        Some(Value::Number(number)) => Ok(Some(*number)),
        Some(value @ Value::String(_)) => lua.coerce_number(value.clone()),
        _ => Ok(None),
    }
}

/// A number as C converts it to an integer of 64 bits: a value that does not fit becomes the smallest.
pub fn truncated(number: f64) -> i64 {
    const END: f64 = 9_223_372_036_854_775_808.0;
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
    if (-END..END).contains(&number) { number as i64 } else { i64::MIN }
}

fn wrong_type(lua: &Lua, value: Option<&Value>, number: usize, function: &str, wanted: &str) -> Error {
    bad_argument(lua, number, function, &format!("{wanted} expected, got {}", type_name(value)))
}

/// The name of a value's type in Lua.
pub fn type_name(value: Option<&Value>) -> &'static str {
    match value {
        None => "no value",
        Some(Value::Nil) => "nil",
        Some(Value::Boolean(_)) => "boolean",
        Some(Value::Integer(_) | Value::Number(_)) => "number",
        Some(Value::String(_)) => "string",
        Some(Value::Table(_)) => "table",
        Some(Value::Function(_)) => "function",
        Some(Value::Thread(_)) => "thread",
        Some(_) => "userdata",
    }
}
