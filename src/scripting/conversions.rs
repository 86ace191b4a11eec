//! Converts replies to Lua's values, and Lua's values to replies.

use super::REPLY_MAX;
use super::raising::{self, truncated};
use super::stack::{Plain, Stack};
use crate::resp::{DoubleText, Reply, quoted};
use mlua::{Result, Table, Value};
use std::cell::Cell;

/// How deep tables of a reply may be nested: about as deep as Redis's Lua stack permits.
const DEPTH_MAX: usize = 1000;

/// Places on Lua's stack that one level of a nested reply may take: a table with its label, the table in it, a key and
/// a value, and those of an error.
const LEVEL: i32 = 10;

/// Values that are written between two checks of the time.
const LOOK_EVERY: u64 = 10_000;
/// Bytes, after which it is called, too: long texts take long.
const LOOK_EVERY_BYTES: usize = 1 << 20;

/// Pushes a reply as a value of Lua. It is one of our own, so it is whole and not deep.
pub fn push_reply(stack: Stack, encoded: &[u8]) {
    Reader { stack, rest: encoded }.push_value();
}

/// Owns nothing: what it pushes may leave it by `longjmp`.
struct Reader<'a> {
    stack: Stack,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn line(&mut self) -> &'a [u8] {
        let end = self.rest.windows(2).position(|pair| pair == b"\r\n").expect("a reply has whole lines");
        let (line, rest) = self.rest.split_at(end);
        self.rest = &rest[2..];
        line
    }

    fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (bytes, rest) = self.rest.split_at(len);
        self.rest = &rest[2..];
        bytes
    }

    fn push_value(&mut self) {
        let line = self.line();
        let (kind, text) = line.split_first().expect("a reply has a kind");
        let stack = self.stack;
        match kind {
            b'+' => self.push_labelled(b"ok", |_| stack.push_text(text)),
            b'-' => raising::push_error(stack, text, true),
            b':' => stack.push_number(double(text)),
            b'$' => match length(text) {
                None => stack.push_boolean(false),
                Some(len) => stack.push_text(self.bytes(len)),
            },
            b'*' | b'>' => match length(text) {
                None => stack.push_boolean(false),
                Some(len) => self.push_array(len),
            },
            b'_' => stack.push_nil(),
            b'#' => stack.push_boolean(text == b"t"),
            b',' => self.push_labelled(b"double", |_| stack.push_number(double(text))),
            b'(' => self.push_labelled(b"big_number", |_| stack.push_text(text)),
            b'=' => {
                let len = length(text).expect("a text has a length");
                self.push_labelled(b"verbatim_string", |reader| reader.push_verbatim(len));
            }
            b'%' => {
                let pairs = length(text).expect("a map has a length");
                self.push_labelled(b"map", |reader| reader.push_map(pairs));
            }
            b'~' => {
                let len = length(text).expect("a set has a length");
                self.push_labelled(b"set", |reader| reader.push_set(len));
            }
            b'|' => {
                // Scripts do not see attributes.
                for _ in 0..2 * length(text).expect("an attribute has a length") {
                    self.push_value();
                    stack.pop();
                }
                self.push_value();
            }
            _ => unreachable!("there is no such kind of reply"),
        }
    }

    fn push_labelled(&mut self, label: &[u8], push: impl FnOnce(&mut Self)) {
        self.stack.reserve(LEVEL);
        self.stack.push_table(0, 1);
        self.stack.push_text(label);
        push(self);
        self.stack.set_field();
    }

    fn push_array(&mut self, len: usize) {
        self.stack.reserve(LEVEL);
        self.stack.push_table(len, 0);
        for position in 1..=len {
            self.push_value();
            self.stack.set_element(position);
        }
    }

    fn push_map(&mut self, pairs: usize) {
        self.stack.push_table(0, pairs);
        for _ in 0..pairs {
            self.push_value();
            self.push_value();
            self.stack.set_field();
        }
    }

    fn push_set(&mut self, len: usize) {
        self.stack.push_table(0, len);
        for _ in 0..len {
            self.push_value();
            self.stack.push_boolean(true);
            self.stack.set_field();
        }
    }

    fn push_verbatim(&mut self, len: usize) {
        let bytes = self.bytes(len);
        self.stack.push_table(0, 2);
        for (label, text) in [(&b"string"[..], &bytes[4..]), (b"format", &bytes[..3])] {
            self.stack.push_text(label);
            self.stack.push_text(text);
            self.stack.set_field();
        }
    }
}

fn text_of(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("lengths and numbers are ASCII")
}

fn length(text: &[u8]) -> Option<usize> {
    text_of(text).parse().ok()
}

fn double(text: &[u8]) -> f64 {
    text_of(text).parse().expect("a reply's number is one")
}

/// Writes what a script returns as a reply. `is_resp3` is the protocol that the script has chosen for itself. A table
/// that contains itself twice is written until `look` fails.
pub fn write(value: &Value, is_resp3: bool, reply: &mut Reply<'_>, look: &dyn Fn() -> Result<()>) -> Result<()> {
    let start = reply.position();
    Writer { is_resp3, start, look, written: Cell::new(0), looked_at: Cell::new(start) }.write(value, reply, 0)
}

/// Writes what a script returns if it is no table.
pub fn write_plain(value: Plain<'_>, is_resp3: bool, reply: &mut Reply<'_>) {
    match value {
        Plain::Text(text) => reply.bulk(text),
        Plain::Boolean(value) if is_resp3 => reply.boolean(value),
        Plain::Boolean(true) => reply.integer(1),
        Plain::Number(number) => reply.integer(truncated(number)),
        Plain::Boolean(false) | Plain::Table | Plain::Other => reply.null(),
    }
}

struct Writer<'a> {
    is_resp3: bool,
    start: usize,
    look: &'a dyn Fn() -> Result<()>,
    written: Cell<u64>,
    /// Where the reply ended when a long one was last looked at.
    looked_at: Cell<usize>,
}

impl Writer<'_> {
    fn write(&self, value: &Value, reply: &mut Reply<'_>, depth: usize) -> Result<()> {
        self.written.set(self.written.get() + 1);
        let is_long = reply.position().saturating_sub(self.looked_at.get()) > LOOK_EVERY_BYTES;
        if is_long || self.written.get().is_multiple_of(LOOK_EVERY) {
            self.looked_at.set(reply.position());
            (self.look)()?;
        }
        if reply.position() - self.start > REPLY_MAX {
            return Err(raising::reply("ERR the reply of the script is larger than 512 MB", false));
        }
        match value {
            Value::Table(_) if depth >= DEPTH_MAX => reply.error("ERR reached lua stack limit"),
            Value::Table(table) => return self.write_table(table, reply, depth),
            Value::String(text) => write_plain(Plain::Text(&text.as_bytes()), self.is_resp3, reply),
            Value::Boolean(value) => write_plain(Plain::Boolean(*value), self.is_resp3, reply),
            Value::Integer(number) => reply.integer(*number),
            Value::Number(number) => write_plain(Plain::Number(*number), self.is_resp3, reply),
            _ => write_plain(Plain::Other, self.is_resp3, reply),
        }
        Ok(())
    }

    fn write_table(&self, table: &Table, reply: &mut Reply<'_>, depth: usize) -> Result<()> {
        if let Value::String(text) = table.raw_get("err")? {
            reply.error(error_line(&text.as_bytes()));
        } else if let Value::String(text) = table.raw_get("ok")? {
            write_line(reply, b'+', &cut_at_nul(&text.as_bytes()));
        } else if let Some(number) = raising_number(&table.raw_get("double")?) {
            write_double(reply, number);
        } else if let Value::String(digits) = table.raw_get("big_number")? {
            match reply.is_resp3() {
                true => write_line(reply, b'(', &cut_at_nul(&digits.as_bytes())),
                false => reply.bulk(&on_one_line(&cut_at_nul(&digits.as_bytes()))),
            }
        } else if let Some((format, text)) = verbatim(&table.raw_get("verbatim_string")?)? {
            write_verbatim(reply, &format.as_bytes(), &text.as_bytes());
        } else if let Value::Table(pairs) = table.raw_get("map")? {
            let (start, mut count) = (reply.position(), 0);
            // Not in a function called by Lua: the stack of C would be as deep as the table.
            for pair in pairs.pairs::<Value, Value>() {
                let (key, value) = pair?;
                count += 1;
                self.write(&key, reply, depth + 1)?;
                self.write(&value, reply, depth + 1)?;
            }
            reply.map_since(start, count);
        } else if let Value::Table(members) = table.raw_get("set")? {
            let (start, mut count) = (reply.position(), 0);
            for pair in members.pairs::<Value, Value>() {
                count += 1;
                self.write(&pair?.0, reply, depth + 1)?;
            }
            reply.set_since(start, count);
        } else {
            return self.write_array(table, reply, depth);
        }
        Ok(())
    }

    /// The elements up to the first missing one.
    fn write_array(&self, table: &Table, reply: &mut Reply<'_>, depth: usize) -> Result<()> {
        // Lua's length is a guess if some are missing; mostly none is.
        let guess = table.raw_len();
        let start = reply.position();
        reply.array(guess);
        let head = reply.position();
        let mut count = 0;
        loop {
            let value: Value = table.raw_get(count + 1)?;
            if value.is_nil() {
                break;
            }
            self.write(&value, reply, depth + 1)?;
            count += 1;
        }
        if count != guess {
            reply.buffer().drain(start..head);
            reply.array_since(start, count);
        }
        Ok(())
    }
}

fn raising_number(value: &Value) -> Option<f64> {
    match value {
        #[expect(clippy::cast_precision_loss, reason = "it was made of a double")]
        Value::Integer(number) => Some(*number as f64),
        Value::Number(number) => Some(*number),
        _ => None,
    }
}

fn verbatim(value: &Value) -> Result<Option<(mlua::LuaString, mlua::LuaString)>> {
    let Value::Table(table) = value else { return Ok(None) };
    match (table.raw_get("format")?, table.raw_get("string")?) {
        (Value::String(format), Value::String(text)) => Ok(Some((format, text))),
        _ => Ok(None),
    }
}

fn write_double(reply: &mut Reply<'_>, number: f64) {
    match number.is_nan() {
        // Without the sign that C prints: Redis leaves it out since 7.2.
        true => reply.double_text(b"nan"),
        false => reply.double(number),
    }
}

fn write_verbatim(reply: &mut Reply<'_>, format: &[u8], text: &[u8]) {
    if !reply.is_resp3() {
        return reply.bulk(text);
    }
    let out = reply.buffer();
    out.extend_from_slice(format!("={}\r\n", text.len() + 4).as_bytes());
    out.extend((0..3).map(|position| format.get(position).copied().unwrap_or(b' ')));
    out.push(b':');
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

fn write_line(reply: &mut Reply<'_>, kind: u8, text: &[u8]) {
    let text = on_one_line(text);
    let out = reply.buffer();
    out.push(kind);
    out.extend_from_slice(&text);
    out.extend_from_slice(b"\r\n");
}

fn on_one_line(text: &[u8]) -> Vec<u8> {
    text.iter().map(|&byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }).collect()
}

/// The text of an error as replied: without line ends at its end.
pub fn error_line(text: &[u8]) -> String {
    let text = cut_at_nul(text);
    let end = text.iter().rposition(|byte| !b"\r\n".contains(byte)).map_or(0, |last| last + 1);
    quoted(&text[..end], usize::MAX)
}

fn cut_at_nul(text: &[u8]) -> Vec<u8> {
    text.iter().copied().take_while(|&byte| byte != 0).collect()
}

/// Appends an argument of a command to `arena`; false if it is none.
pub fn write_argument(value: Plain<'_>, arena: &mut Vec<u8>) -> bool {
    match value {
        Plain::Text(text) => arena.extend_from_slice(text),
        Plain::Number(number) if number.is_nan() => {
            arena.extend_from_slice(if number.is_sign_negative() { b"-nan" } else { b"nan" });
        }
        Plain::Number(number) => arena.extend_from_slice(&DoubleText::shortest(number)),
        _ => return false,
    }
    true
}

// A test that cannot continue panics with the reason.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::scripting::stack;
    use mlua::Lua;

    fn replied(code: &str, is_resp3: bool, reply_resp3: bool) -> String {
        let lua = Lua::new();
        let value: Value = lua.load(code).eval().unwrap();
        let mut out = Vec::new();
        write(&value, is_resp3, &mut Reply::new(&mut out, reply_resp3), &|| Ok(())).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_are_cut_off_and_what_does_not_fit_is_the_smallest() {
        for (code, wanted) in [
            ("return 3.99", ":3\r\n"),
            ("return -3.99", ":-3\r\n"),
            ("return -0", ":0\r\n"),
            ("return 2^53", ":9007199254740992\r\n"),
            ("return 2^63", ":-9223372036854775808\r\n"),
            ("return 1/0", ":-9223372036854775808\r\n"),
        ] {
            assert_eq!(replied(code, false, false), wanted, "{code}");
        }
    }

    #[test]
    fn an_array_ends_where_the_first_element_is_missing() {
        assert_eq!(replied("return {1, 'a', nil, 3}", false, false), "*2\r\n:1\r\n$1\r\na\r\n");
        assert_eq!(replied("return {1, false, true}", false, false), "*3\r\n:1\r\n$-1\r\n:1\r\n");
        assert_eq!(replied("return {x = 1}", false, false), "*0\r\n");
    }

    #[test]
    fn tables_with_names_are_what_the_names_say_in_the_clients_protocol() {
        assert_eq!(replied("return {double = 0.1}", true, true), ",0.1\r\n");
        assert_eq!(replied("return {double = 0.1}", true, false), "$3\r\n0.1\r\n");
        assert_eq!(replied("return {map = {a = 1}}", true, true), "%1\r\n$1\r\na\r\n:1\r\n");
        assert_eq!(replied("return {set = {a = true}}", true, false), "*1\r\n$1\r\na\r\n");
        assert_eq!(replied("return {big_number = '12\\r3'}", true, true), "(12 3\r\n");
        assert_eq!(replied("return true", true, true), "#t\r\n");
        assert_eq!(replied("return false", false, true), "_\r\n");
        let verbatim = "return {verbatim_string = {format = 'mkd', string = 'x'}}";
        assert_eq!(replied(verbatim, true, true), "=5\r\nmkd:x\r\n");
    }

    #[test]
    fn a_table_within_itself_ends_with_an_error() {
        let reply = replied("local t = {}; t[1] = t; return t", false, false);
        assert!(reply.ends_with("*1\r\n-ERR reached lua stack limit\r\n"));
    }

    #[test]
    fn replies_become_values_and_values_the_same_replies() {
        let lua = Lua::new();
        for reply in [
            ":-5\r\n",
            "$3\r\na\0b\r\n",
            "*2\r\n:1\r\n*1\r\n+x y\r\n",
            ",1.5\r\n",
            "%1\r\n$1\r\na\r\n$1\r\nb\r\n",
            "~1\r\n$1\r\na\r\n",
            "=5\r\ntxt:x\r\n",
            "(123\r\n",
            "#f\r\n",
            "_\r\n",
            "-WRONG kind\r\n",
        ] {
            let value = stack::made(&lua, (), &mut reply.as_bytes(), |reply, stack| push_reply(stack, reply)).unwrap();
            let mut out = Vec::new();
            write(&value, true, &mut Reply::new(&mut out, true), &|| Ok(())).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), reply);
        }
    }
}
