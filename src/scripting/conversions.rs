//! Converts replies to Lua's values, and Lua's values to replies.

use super::REPLY_MAX;
use super::raising::{self, truncated};
use crate::resp::{DoubleText, Reply, quoted};
use mlua::{Lua, Result, Table, Value};
use std::cell::Cell;

/// How deep tables of a reply may be nested: about as deep as Redis's Lua stack permits.
const DEPTH_MAX: usize = 1000;

/// Values that are written between two checks of the time.
const LOOK_EVERY: u64 = 10_000;

/// A reply as a value of Lua. It is one of our own, so it is whole and not deep.
pub fn lua_of(lua: &Lua, encoded: &[u8]) -> Result<Value> {
    let mut reader = Reader { lua, rest: encoded };
    reader.value()
}

struct Reader<'a> {
    lua: &'a Lua,
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

    fn value(&mut self) -> Result<Value> {
        let line = self.line();
        let (kind, text) = line.split_first().expect("a reply has a kind");
        let lua = self.lua;
        match kind {
            b'+' => self.labelled("ok", Value::String(lua.create_string(text)?)),
            b'-' => raising::table(lua, &error_text(text), true),
            b':' => Ok(Value::Number(double(text))),
            b'$' => match length(text) {
                None => Ok(Value::Boolean(false)),
                Some(len) => Ok(Value::String(lua.create_string(self.bytes(len))?)),
            },
            b'*' | b'>' => match length(text) {
                None => Ok(Value::Boolean(false)),
                Some(len) => self.array(len),
            },
            b'_' => Ok(Value::Nil),
            b'#' => Ok(Value::Boolean(text == b"t")),
            b',' => self.labelled("double", Value::Number(double(text))),
            b'(' => self.labelled("big_number", Value::String(lua.create_string(text)?)),
            b'=' => self.verbatim(length(text).expect("a text has a length")),
            b'%' => self.map(length(text).expect("a map has a length")),
            b'~' => self.set(length(text).expect("a set has a length")),
            b'|' => {
                // Scripts do not see attributes.
                for _ in 0..2 * length(text).expect("an attribute has a length") {
                    self.value()?;
                }
                self.value()
            }
            _ => unreachable!("there is no such kind of reply"),
        }
    }

    fn labelled(&self, label: &str, value: Value) -> Result<Value> {
        let table = self.lua.create_table_with_capacity(0, 1)?;
        table.raw_set(label, value)?;
        Ok(Value::Table(table))
    }

    fn array(&mut self, len: usize) -> Result<Value> {
        let table = self.lua.create_table_with_capacity(len, 0)?;
        for position in 1..=len {
            let value = self.value()?;
            table.raw_set(position, value)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, pairs: usize) -> Result<Value> {
        let table = self.lua.create_table_with_capacity(0, pairs)?;
        for _ in 0..pairs {
            let key = self.value()?;
            let value = self.value()?;
            table.raw_set(key, value)?;
        }
        self.labelled("map", Value::Table(table))
    }

    fn set(&mut self, len: usize) -> Result<Value> {
        let table = self.lua.create_table_with_capacity(0, len)?;
        for _ in 0..len {
            let member = self.value()?;
            table.raw_set(member, true)?;
        }
        self.labelled("set", Value::Table(table))
    }

    fn verbatim(&mut self, len: usize) -> Result<Value> {
        let bytes = self.bytes(len);
        let table = self.lua.create_table_with_capacity(0, 2)?;
        table.raw_set("string", self.lua.create_string(&bytes[4..])?)?;
        table.raw_set("format", self.lua.create_string(&bytes[..3])?)?;
        self.labelled("verbatim_string", Value::Table(table))
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

/// An error as in the error table: one without a code gets one.
pub fn error_text(text: &[u8]) -> Vec<u8> {
    match text.contains(&b' ') {
        true => text.to_vec(),
        false => [b"ERR ", text].concat(),
    }
}

/// Writes what a script returns as a reply. `is_resp3` is the protocol that the script has chosen for itself. A table
/// that contains itself twice is written until `look` fails.
pub fn write(value: &Value, is_resp3: bool, reply: &mut Reply<'_>, look: &dyn Fn() -> Result<()>) -> Result<()> {
    let start = reply.mark();
    Writer { is_resp3, start, look, written: Cell::new(0) }.write(value, reply, 0)
}

struct Writer<'a> {
    is_resp3: bool,
    start: usize,
    look: &'a dyn Fn() -> Result<()>,
    written: Cell<u64>,
}

impl Writer<'_> {
    fn write(&self, value: &Value, reply: &mut Reply<'_>, depth: usize) -> Result<()> {
        self.written.set(self.written.get() + 1);
        if self.written.get().is_multiple_of(LOOK_EVERY) {
            (self.look)()?;
        }
        if reply.mark() - self.start > REPLY_MAX {
            return Err(raising::reply("ERR the reply of the script is larger than 512 MB", false));
        }
        match value {
            Value::String(text) => reply.bulk(&text.as_bytes()),
            Value::Boolean(value) if self.is_resp3 => reply.boolean(*value),
            Value::Boolean(true) => reply.integer(1),
            Value::Integer(number) => reply.integer(*number),
            Value::Number(number) => reply.integer(truncated(*number)),
            Value::Table(_) if depth >= DEPTH_MAX => reply.error("ERR reached lua stack limit"),
            Value::Table(table) => return self.write_table(table, reply, depth),
            _ => reply.null(),
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
            let (mark, mut count) = (reply.mark(), 0);
            // Not in a function called by Lua: the stack of C would be as deep as the table.
            for pair in pairs.pairs::<Value, Value>() {
                let (key, value) = pair?;
                count += 1;
                self.write(&key, reply, depth + 1)?;
                self.write(&value, reply, depth + 1)?;
            }
            reply.map_since(mark, count);
        } else if let Value::Table(members) = table.raw_get("set")? {
            let (mark, mut count) = (reply.mark(), 0);
            for pair in members.pairs::<Value, Value>() {
                count += 1;
                self.write(&pair?.0, reply, depth + 1)?;
            }
            reply.set_since(mark, count);
        } else {
            return self.write_array(table, reply, depth);
        }
        Ok(())
    }

    /// The elements up to the first missing one.
    fn write_array(&self, table: &Table, reply: &mut Reply<'_>, depth: usize) -> Result<()> {
        // Lua's length is a guess if some are missing; mostly none is.
        let guess = table.raw_len();
        let mark = reply.mark();
        reply.array(guess);
        let head = reply.mark();
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
            reply.buffer().drain(mark..head);
            reply.array_since(mark, count);
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
        true => reply.double_text(if number.is_sign_negative() { b"-nan" } else { b"nan" }),
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

/// Appends an argument of a command to `arena`. The error is a message.
pub fn write_argument(lua: &Lua, value: &Value, arena: &mut Vec<u8>) -> Result<bool> {
    match value {
        Value::String(text) => arena.extend_from_slice(&text.as_bytes()),
        Value::Integer(_) | Value::Number(_) => {
            let number = raising::number_of(lua, Some(value))?.expect("it is a number");
            match number.is_nan() {
                true => arena.extend_from_slice(if number.is_sign_negative() { b"-nan" } else { b"nan" }),
                false => arena.extend_from_slice(&DoubleText::shortest(number)),
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}

// A test that cannot continue panics with the reason.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

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
            let value = lua_of(&lua, reply.as_bytes()).unwrap();
            let mut out = Vec::new();
            write(&value, true, &mut Reply::new(&mut out, true), &|| Ok(())).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), reply);
        }
    }
}
