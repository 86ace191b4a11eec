//! `cjson`: JSON, parsed and written as by lua-cjson.

use super::{Failure, Outcome, Pacer, add, check_size, text};
use crate::scripting::raising::{self, truncated};
use crate::scripting::stack::{self, Plain, Stack};
use mlua::{Lua, MultiValue, Result, Table, Value};
use std::cell::RefCell;
use std::ffi::c_int;
use std::io::Write;
use std::rc::Rc;

/// How deep arrays and objects may be nested, whatever a script configures.
const DEPTH_MAX: i64 = 1000;

/// The configuration of a script; each begins with the defaults.
#[derive(Debug, Clone)]
pub struct Config {
    sparse_is_object: bool,
    sparse_ratio: i64,
    sparse_safe: i64,
    encode_depth_max: i64,
    decode_depth_max: i64,
    precision: i64,
    keeps_buffer: bool,
    encodes_invalid: Invalid,
    decodes_invalid: bool,
}

/// How numbers without a form in JSON are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Invalid {
    Refused,
    Written,
    Null,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            sparse_is_object: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth_max: DEPTH_MAX,
            decode_depth_max: DEPTH_MAX,
            precision: 14,
            keeps_buffer: true,
            encodes_invalid: Invalid::Refused,
            decodes_invalid: true,
        }
    }
}

type TheConfig = Rc<RefCell<Config>>;

/// The library, with a configuration.
pub fn library(lua: &Lua, config: &TheConfig, pacer: &Pacer) -> Result<Table> {
    let library = lua.create_table()?;
    let (its, own) = (Rc::clone(config), pacer.clone());
    add(lua, &library, "encode", move |lua, values| encode(lua, values, &its.borrow(), &own))?;
    let (its, own) = (Rc::clone(config), pacer.clone());
    add(lua, &library, "decode", move |lua, values| decode(lua, values, &its.borrow(), &own))?;
    add_options(lua, &library, config)?;
    let own = pacer.clone();
    add(lua, &library, "new", move |lua, _| Ok(self::library(lua, &Rc::default(), &own)?))?;
    library.raw_set("null", Value::NULL)?;
    library.raw_set("_NAME", "cjson")?;
    library.raw_set("_VERSION", "2.1.0")?;
    Ok(library)
}

fn add_options(lua: &Lua, library: &Table, config: &TheConfig) -> Result<()> {
    type Field = fn(&mut Config) -> &mut i64;
    let numbers: [(&'static str, Field, i64); 3] = [
        ("encode_max_depth", |config| &mut config.encode_depth_max, i32::MAX as i64),
        ("decode_max_depth", |config| &mut config.decode_depth_max, i32::MAX as i64),
        ("encode_number_precision", |config| &mut config.precision, 14),
    ];
    for (name, field, most) in numbers {
        let its = Rc::clone(config);
        add(lua, library, name, move |lua, values| {
            count_arguments(values, 1)?;
            set_number(lua, values, 0, name, field(&mut its.borrow_mut()), (1, most))
        })?;
    }
    let its = Rc::clone(config);
    add(lua, library, "encode_sparse_array", move |lua, values| {
        count_arguments(values, 3)?;
        let config = &mut *its.borrow_mut();
        let is_object = set_flag(values, 0, &mut config.sparse_is_object)?;
        let name = "encode_sparse_array";
        let ratio = set_number(lua, values, 1, name, &mut config.sparse_ratio, (0, i32::MAX.into()))?;
        let safe = set_number(lua, values, 2, name, &mut config.sparse_safe, (0, i32::MAX.into()))?;
        Ok((is_object, ratio, safe))
    })?;
    let its = Rc::clone(config);
    add(lua, library, "encode_keep_buffer", move |_, values| {
        count_arguments(values, 1)?;
        set_flag(values, 0, &mut its.borrow_mut().keeps_buffer)
    })?;
    let its = Rc::clone(config);
    add(lua, library, "decode_invalid_numbers", move |_, values| {
        count_arguments(values, 1)?;
        set_flag(values, 0, &mut its.borrow_mut().decodes_invalid)
    })?;
    let its = Rc::clone(config);
    add(lua, library, "encode_invalid_numbers", move |lua, values| {
        count_arguments(values, 1)?;
        set_invalid(lua, values, &mut its.borrow_mut().encodes_invalid)
    })
}

fn count_arguments(values: &MultiValue, most: usize) -> Outcome<()> {
    match values.len() <= most {
        true => Ok(()),
        false => Err(Failure::Argument(most + 1, "found too many arguments".into())),
    }
}

fn set_number(
    lua: &Lua,
    values: &MultiValue,
    position: usize,
    function: &str,
    field: &mut i64,
    (least, most): (i64, i64),
) -> Outcome<i64> {
    if let Some(value) = values.get(position).filter(|value| !value.is_nil()) {
        let number = truncated(raising::number(lua, Some(value), position + 1, function)?);
        if !(least..=most).contains(&number) {
            let reason = format!("expected integer between {least} and {most}");
            // lua-cjson says so of the first argument, whichever it is.
            return Err(Failure::Argument(1, reason));
        }
        *field = number;
    }
    Ok(*field)
}

fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(word) => Some(word.to_string_lossy()),
        _ => None,
    }
}

fn set_flag(values: &MultiValue, position: usize, field: &mut bool) -> Outcome<bool> {
    match values.get(position) {
        None | Some(Value::Nil) => {}
        Some(Value::Boolean(value)) => *field = *value,
        Some(other) => {
            *field = match word(other).as_deref() {
                Some("on") => true,
                Some("off") => false,
                word => return Err(invalid_option(position, word, other)),
            }
        }
    }
    Ok(*field)
}

fn invalid_option(position: usize, word: Option<&str>, value: &Value) -> Failure {
    Failure::Argument(
        position + 1,
        match word {
            Some(word) => format!("invalid option '{word}'"),
            None => format!("string expected, got {}", raising::type_name(Some(value))),
        },
    )
}

fn set_invalid(lua: &Lua, values: &MultiValue, field: &mut Invalid) -> Outcome<Value> {
    match values.front() {
        None | Some(Value::Nil) => {}
        Some(Value::Boolean(value)) => *field = if *value { Invalid::Written } else { Invalid::Refused },
        Some(other) => {
            *field = match word(other).as_deref() {
                Some("on") => Invalid::Written,
                Some("off") => Invalid::Refused,
                Some("null") => Invalid::Null,
                word => return Err(invalid_option(0, word, other)),
            }
        }
    }
    Ok(match field {
        Invalid::Refused => Value::Boolean(false),
        Invalid::Written => Value::Boolean(true),
        Invalid::Null => Value::String(lua.create_string("null")?),
    })
}

fn encode(lua: &Lua, values: &MultiValue, config: &Config, pacer: &Pacer) -> Outcome<Value> {
    if values.len() != 1 {
        return Err(Failure::Argument(1, "expected 1 argument".into()));
    }
    let mut encoder = Encoder { config, pacer, out: Vec::new(), outcome: Ok(()) };
    stack::made::<_, ()>(lua, values, &mut encoder, |encoder, stack| encoder.outcome = encoder.push(stack, 0))?;
    encoder.outcome?;
    Ok(Value::String(lua.create_string(encoder.out)?))
}

fn refused(stack: Stack, index: c_int, reason: &str) -> Failure {
    text(format!("Cannot serialise {}: {reason}", stack.type_name(index)))
}

/// What is encoded so far.
struct Encoder<'a> {
    config: &'a Config,
    pacer: &'a Pacer,
    out: Vec<u8>,
    outcome: Outcome<()>,
}

impl Encoder<'_> {
    /// Encodes the last value of the stack.
    fn push(&mut self, stack: Stack, depth: i64) -> Outcome<()> {
        self.pacer.step()?;
        check_size(self.out.len())?;
        let out = &mut self.out;
        match stack.plain(-1) {
            Plain::Text(text) => push_text(text, out),
            Plain::Number(number) => self.push_number(number, stack, -1)?,
            Plain::Boolean(value) => out.extend_from_slice(if value { b"true" } else { b"false" }),
            Plain::Table => return self.push_table(stack, depth + 1),
            Plain::Other if stack.is_null(-1) => out.extend_from_slice(b"null"),
            Plain::Other => return Err(refused(stack, -1, "type not supported")),
        }
        Ok(())
    }

    fn push_table(&mut self, stack: Stack, depth: i64) -> Outcome<()> {
        if depth > self.config.encode_depth_max.min(DEPTH_MAX) {
            return Err(text(format!("Cannot serialise, excessive nesting ({depth})")));
        }
        // A key and its value; what is pushed for them makes room for itself.
        stack.reserve(2);
        match array_len(stack, self.config)? {
            Some(len) if len > 0 => self.push_array(stack, len, depth),
            _ => self.push_object(stack, depth),
        }
    }

    fn push_array(&mut self, stack: Stack, len: i32, depth: i64) -> Outcome<()> {
        let table = stack.len();
        self.out.push(b'[');
        for index in 1..=len {
            if index > 1 {
                self.out.push(b',');
            }
            stack.push_element(table, index);
            self.push(stack, depth)?;
            stack.pop();
        }
        self.out.push(b']');
        Ok(())
    }

    fn push_object(&mut self, stack: Stack, depth: i64) -> Outcome<()> {
        let table = stack.len();
        let mut is_first = true;
        self.out.push(b'{');
        stack.push_nil();
        while stack.next(table) {
            if !std::mem::take(&mut is_first) {
                self.out.push(b',');
            }
            self.push_key(stack)?;
            self.out.push(b':');
            self.push(stack, depth)?;
            stack.pop();
        }
        self.out.push(b'}');
        Ok(())
    }

    /// Encodes the value before the last.
    fn push_key(&mut self, stack: Stack) -> Outcome<()> {
        match stack.plain(-2) {
            Plain::Text(key) => push_text(key, &mut self.out),
            Plain::Number(key) => {
                self.pacer.step()?;
                self.out.push(b'"');
                self.push_number(key, stack, -2)?;
                self.out.push(b'"');
            }
            _ => return Err(refused(stack, -2, "table key must be a number or string")),
        }
        Ok(())
    }

    /// Encodes the number at an index.
    fn push_number(&mut self, number: f64, stack: Stack, index: c_int) -> Outcome<()> {
        let (config, out) = (self.config, &mut self.out);
        if number.is_finite() {
            push_general(number, usize::try_from(config.precision).expect("it is between 1 and 14"), out);
            return Ok(());
        }
        match config.encodes_invalid {
            Invalid::Refused => return Err(refused(stack, index, "must not be NaN or Inf")),
            Invalid::Null => out.extend_from_slice(b"null"),
            Invalid::Written => out.extend_from_slice(match (number.is_nan(), number.is_sign_negative()) {
                (true, _) => b"nan",
                (false, false) => b"inf",
                (false, true) => b"-inf",
            }),
        }
        Ok(())
    }
}

/// The length of a table that is an array, the last value of the stack; `None` for another one. lua-cjson keeps it in
/// an int of C, where a larger key becomes the least number on x86-64: with such a key the table is an object, if no
/// other key comes after it.
fn array_len(stack: Stack, config: &Config) -> Outcome<Option<i32>> {
    let table = stack.len();
    let (mut most, mut count) = (0_i32, 0_i64);
    stack.push_nil();
    while stack.next(table) {
        stack.pop();
        count += 1;
        match stack.plain(-1) {
            Plain::Number(index) if index >= 1.0 && index.floor() == index =>
            {
                #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
                if index > f64::from(i32::MAX) {
                    most = i32::MIN;
                } else if index > f64::from(most) {
                    most = index as i32;
                }
            }
            _ => {
                stack.pop();
                return Ok(None);
            }
        }
    }
    let len = i64::from(most);
    let is_sparse =
        config.sparse_ratio > 0 && len > count.saturating_mul(config.sparse_ratio) && len > config.sparse_safe;
    match is_sparse {
        true if config.sparse_is_object => Ok(None),
        true => Err(refused(stack, -1, "excessively sparse array")),
        false => Ok(Some(most)),
    }
}

/// A number with this many significant digits: C's `%.14g`.
fn push_general(number: f64, digits: usize, out: &mut Vec<u8>) {
    if let Some(number) = whole(number, digits) {
        return write!(out, "{number}").expect("writing to memory does not fail");
    }
    let scientific = format!("{number:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').expect("Rust prints an exponent");
    let exponent: i32 = exponent.parse().expect("Rust prints a number");
    let without_zeros = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    let precision = i32::try_from(digits).expect("a double has few digits");
    let shown = if exponent < -4 || exponent >= precision {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.abs())
    } else {
        let decimals = usize::try_from(precision - 1 - exponent).expect("the exponent is smaller");
        without_zeros(&format!("{number:.decimals$}"))
    };
    out.write_all(shown.as_bytes()).expect("writing to memory does not fail");
}

/// A whole number that is shown with all of its digits, as nearly all are; negative zero is shown with its sign.
fn whole(number: f64, digits: usize) -> Option<i64> {
    let most = 10_f64.powi(i32::try_from(digits).expect("a double has few digits"));
    let is_negative_zero = number == 0.0 && number.is_sign_negative();
    (number.abs() < most && number.trunc() == number && !is_negative_zero).then(|| truncated(number))
}

fn push_text(mut text: &[u8], out: &mut Vec<u8>) {
    let is_escaped = |byte: &u8| matches!(byte, b'"' | b'\\' | b'/' | 0..0x20 | 0x7f);
    out.push(b'"');
    while let Some(place) = text.iter().position(is_escaped) {
        out.extend_from_slice(&text[..place]);
        push_escaped(text[place], out);
        text = &text[place + 1..];
    }
    out.extend_from_slice(text);
    out.push(b'"');
}

fn push_escaped(byte: u8, out: &mut Vec<u8>) {
    match byte {
        b'"' => out.extend_from_slice(b"\\\""),
        b'\\' => out.extend_from_slice(b"\\\\"),
        b'/' => out.extend_from_slice(b"\\/"),
        0x08 => out.extend_from_slice(b"\\b"),
        b'\t' => out.extend_from_slice(b"\\t"),
        b'\n' => out.extend_from_slice(b"\\n"),
        0x0c => out.extend_from_slice(b"\\f"),
        b'\r' => out.extend_from_slice(b"\\r"),
        _ => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
    }
}

fn decode(lua: &Lua, values: &MultiValue, config: &Config, pacer: &Pacer) -> Outcome<Value> {
    if values.len() != 1 {
        return Err(Failure::Argument(1, "expected 1 argument".into()));
    }
    let json = raising::text(lua, values.front(), 1, "decode")?;
    let json = json.as_bytes();
    if json.len() >= 2 && json[..2].contains(&0) {
        return Err(text("JSON parser does not support UTF-16 or UTF-32"));
    }
    let end = json.iter().position(|&byte| byte == 0).unwrap_or(json.len());
    let mut parser = Parser { config, pacer, json: &json[..end], at: 0, depth: 0, text: Vec::new(), outcome: Ok(()) };
    let value = stack::made(lua, (), &mut parser, |parser, stack| parser.outcome = parser.document(stack))?;
    parser.outcome.map(|()| value)
}

/// A token of a text.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    /// It is in [`Parser::text`].
    Text,
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Wrong(&'static str),
}

impl Token {
    fn name(&self) -> &'static str {
        match self {
            Self::ObjectBegin => "T_OBJ_BEGIN",
            Self::ObjectEnd => "T_OBJ_END",
            Self::ArrayBegin => "T_ARR_BEGIN",
            Self::ArrayEnd => "T_ARR_END",
            Self::Text => "T_STRING",
            Self::Number(_) => "T_NUMBER",
            Self::Boolean(_) => "T_BOOLEAN",
            Self::Null => "T_NULL",
            Self::Colon => "T_COLON",
            Self::Comma => "T_COMMA",
            Self::End => "T_END",
            Self::Wrong(what) => what,
        }
    }
}

fn unexpected(wanted: &str, (token, at): &(Token, usize)) -> Failure {
    text(format!("Expected {wanted} but found {} at character {}", token.name(), at + 1))
}

struct Parser<'a> {
    config: &'a Config,
    pacer: &'a Pacer,
    json: &'a [u8],
    at: usize,
    depth: i64,
    /// The last token that is a text.
    text: Vec<u8>,
    outcome: Outcome<()>,
}

impl Parser<'_> {
    fn rest(&self) -> &[u8] {
        &self.json[self.at..]
    }

    fn byte(&self, offset: usize) -> u8 {
        self.json.get(self.at + offset).copied().unwrap_or(0)
    }

    /// The next token, and the position of it, or of an error in it.
    fn token(&mut self) -> (Token, usize) {
        while matches!(self.byte(0), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        let at = self.at;
        let single = match self.byte(0) {
            b'{' => Token::ObjectBegin,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayBegin,
            b']' => Token::ArrayEnd,
            b',' => Token::Comma,
            b':' => Token::Colon,
            0 => return (Token::End, at),
            _ => return self.long_token(),
        };
        self.at += 1;
        (single, at)
    }

    fn long_token(&mut self) -> (Token, usize) {
        let at = self.at;
        let first = self.byte(0);
        let (token, len) = match first {
            b'"' => return self.text_token(),
            b'-' | b'0'..=b'9' => {
                if !self.config.decodes_invalid && is_invalid_number(self.rest()) {
                    return (Token::Wrong("invalid number"), at);
                }
                return self.number_token();
            }
            _ if self.rest().starts_with(b"true") => (Token::Boolean(true), 4),
            _ if self.rest().starts_with(b"false") => (Token::Boolean(false), 5),
            _ if self.rest().starts_with(b"null") => (Token::Null, 4),
            b'+' | b'i' | b'I' | b'n' | b'N' if self.config.decodes_invalid && is_invalid_number(self.rest()) => {
                return self.number_token();
            }
            _ => return (Token::Wrong("invalid token"), at),
        };
        self.at += len;
        (token, at)
    }

    fn number_token(&mut self) -> (Token, usize) {
        let at = self.at;
        match leading_number(self.rest()) {
            None => (Token::Wrong("invalid number"), at),
            Some((number, len)) => {
                self.at += len;
                (Token::Number(number), at)
            }
        }
    }

    fn text_token(&mut self) -> (Token, usize) {
        let begin = self.at;
        self.at += 1;
        self.text.clear();
        loop {
            match self.byte(0) {
                b'"' => break,
                0 => return (Token::Wrong("unexpected end of string"), self.at),
                b'\\' => match self.byte(1) {
                    b'u' => match self.unicode() {
                        Some((character, len)) => {
                            self.text.extend_from_slice(&character);
                            self.at += len;
                        }
                        None => return (Token::Wrong("invalid unicode escape code"), self.at),
                    },
                    escaped => {
                        self.text.push(match escaped {
                            b'"' | b'\\' | b'/' => escaped,
                            b'b' => 0x08,
                            b'f' => 0x0c,
                            b'n' => b'\n',
                            b'r' => b'\r',
                            b't' => b'\t',
                            _ => return (Token::Wrong("invalid escape code"), self.at),
                        });
                        self.at += 2;
                    }
                },
                _ => {
                    let ends = |byte: &u8| matches!(byte, b'"' | b'\\' | 0);
                    let rest = &self.json[self.at..];
                    let len = rest.iter().position(ends).unwrap_or(rest.len());
                    self.text.extend_from_slice(&rest[..len]);
                    self.at += len;
                }
            }
        }
        self.at += 1;
        (Token::Text, begin)
    }

    fn hex4(&self, offset: usize) -> Option<u32> {
        (0..4).try_fold(0, |code, digit| Some(code << 4 | char::from(self.byte(offset + digit)).to_digit(16)?))
    }

    /// The character of `\u` and four hex digits, or of a surrogate pair, and how many bytes that takes.
    fn unicode(&self) -> Option<(Vec<u8>, usize)> {
        let code = self.hex4(2)?;
        if code & 0xf800 != 0xd800 {
            return Some((utf8(code), 6));
        }
        if code & 0x400 != 0 || self.byte(6) != b'\\' || self.byte(7) != b'u' {
            return None;
        }
        let low = self.hex4(8).filter(|low| low & 0xfc00 == 0xdc00)?;
        Some((utf8(((code & 0x3ff) << 10 | low & 0x3ff) + 0x1_0000), 12))
    }

    /// Pushes the value of the whole text.
    fn document(&mut self, stack: Stack) -> Outcome<()> {
        let token = self.token();
        self.value(token, stack)?;
        match self.token() {
            (Token::End, _) => Ok(()),
            token => Err(unexpected("the end", &token)),
        }
    }

    /// Pushes the value that begins with a token.
    fn value(&mut self, token: (Token, usize), stack: Stack) -> Outcome<()> {
        self.pacer.step()?;
        match token.0 {
            Token::Text => stack.push_text(&self.text),
            Token::Number(number) => stack.push_number(number),
            Token::Boolean(value) => stack.push_boolean(value),
            Token::ObjectBegin => return self.object(stack),
            Token::ArrayBegin => return self.array(stack),
            Token::Null => stack.push_null(),
            _ => return Err(unexpected("value", &token)),
        }
        Ok(())
    }

    /// Pushes a table, and makes room for what is pushed until it is an element.
    fn descend(&mut self, stack: Stack) -> Outcome<()> {
        self.depth += 1;
        if self.depth > self.config.decode_depth_max.min(DEPTH_MAX) {
            let (depth, at) = (self.depth, self.at);
            return Err(text(format!("Found too many nested data structures ({depth}) at character {at}")));
        }
        stack.reserve(3);
        // With room for nothing, as in Redis: the order in which `next` finds fields depends on how a table has grown.
        stack.push_table(0, 0);
        Ok(())
    }

    fn object(&mut self, stack: Stack) -> Outcome<()> {
        self.descend(stack)?;
        let mut token = self.token();
        if token.0 != Token::ObjectEnd {
            loop {
                if token.0 != Token::Text {
                    return Err(unexpected("object key string", &token));
                }
                stack.push_text(&self.text);
                let colon = self.token();
                if colon.0 != Token::Colon {
                    return Err(unexpected("colon", &colon));
                }
                let next = self.token();
                self.value(next, stack)?;
                stack.set_field();
                match self.token() {
                    (Token::ObjectEnd, _) => break,
                    (Token::Comma, _) => token = self.token(),
                    other => return Err(unexpected("comma or object end", &other)),
                }
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn array(&mut self, stack: Stack) -> Outcome<()> {
        self.descend(stack)?;
        let mut token = self.token();
        if token.0 != Token::ArrayEnd {
            let mut index = 0;
            loop {
                index += 1;
                self.value(token, stack)?;
                stack.set_element(index);
                match self.token() {
                    (Token::ArrayEnd, _) => break,
                    (Token::Comma, _) => token = self.token(),
                    other => return Err(unexpected("comma or array end", &other)),
                }
            }
        }
        self.depth -= 1;
        Ok(())
    }
}

/// A code point as UTF-8, also if it is not a valid one.
fn utf8(code: u32) -> Vec<u8> {
    let continued = |shift: u32| low(code >> shift & 0x3f) | 0x80;
    match code {
        0..0x80 => vec![low(code)],
        0x80..0x800 => vec![low(code >> 6) | 0xc0, continued(0)],
        0x800..0x1_0000 => vec![low(code >> 12) | 0xe0, continued(6), continued(0)],
        _ => vec![low(code >> 18) | 0xf0, continued(12), continued(6), continued(0)],
    }
}

fn low(code: u32) -> u8 {
    u8::try_from(code).expect("the caller has taken few bits")
}

/// Whether a number that C accepts is none in JSON.
fn is_invalid_number(text: &[u8]) -> bool {
    if text.first() == Some(&b'+') {
        return true;
    }
    let text = text.strip_prefix(b"-").unwrap_or(text);
    match text {
        [b'0', next, ..] => next | 0x20 == b'x' || next.is_ascii_digit(),
        [first, ..] if *first <= b'9' => false,
        _ => {
            let begins = |word: &[u8]| text.get(..3).is_some_and(|begin| begin.eq_ignore_ascii_case(word));
            begins(b"inf") || begins(b"nan")
        }
    }
}

/// The number at the start of a text, as C's `strtod` parses it, and its length.
fn leading_number(text: &[u8]) -> Option<(f64, usize)> {
    let sign = usize::from(matches!(text.first(), Some(b'+' | b'-')));
    let signed = |number: f64| if text[0] == b'-' { -number } else { number };
    let rest = &text[sign..];
    let begins = |word: &[u8]| rest.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word));
    if begins(b"infinity") || begins(b"inf") {
        return Some((signed(f64::INFINITY), sign + if begins(b"infinity") { 8 } else { 3 }));
    }
    if begins(b"nan") {
        return Some((signed(f64::NAN), sign + 3));
    }
    if begins(b"0x")
        && let Some((number, len)) = leading_hex(&rest[2..])
    {
        return Some((signed(number), sign + 2 + len));
    }
    let len = decimal_len(rest)?;
    let digits = std::str::from_utf8(&rest[..len]).expect("digits are ASCII");
    Some((signed(digits.parse().expect("its form was checked")), sign + len))
}

fn digits_len(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// The length of a decimal number.
fn decimal_len(text: &[u8]) -> Option<usize> {
    let whole = digits_len(text);
    let mut len = whole;
    if text.get(len) == Some(&b'.') {
        let part = digits_len(&text[len + 1..]);
        if whole + part > 0 {
            len += 1 + part;
        }
    }
    if len == 0 {
        return None;
    }
    if matches!(text.get(len), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(len + 1), Some(b'+' | b'-')));
        let exponent = digits_len(&text[len + 1 + sign..]);
        if exponent > 0 {
            len += 1 + sign + exponent;
        }
    }
    Some(len)
}

/// A hexadecimal number after its `0x`, perhaps with a fraction and a power of two.
fn leading_hex(text: &[u8]) -> Option<(f64, usize)> {
    let (mut number, mut scale, mut at, mut digits, mut is_part) = (0.0, 1.0, 0, 0, false);
    while let Some(&byte) = text.get(at) {
        match char::from(byte).to_digit(16) {
            Some(digit) => {
                number = number * 16.0 + f64::from(digit);
                scale *= if is_part { 16.0 } else { 1.0 };
                digits += 1;
            }
            None if byte == b'.' && !is_part => is_part = true,
            None => break,
        }
        at += 1;
    }
    if digits == 0 {
        return None;
    }
    number /= scale;
    if matches!(text.get(at), Some(b'p' | b'P')) {
        let sign = usize::from(matches!(text.get(at + 1), Some(b'+' | b'-')));
        let len = digits_len(&text[at + 1 + sign..]);
        if len > 0 {
            let exponent = std::str::from_utf8(&text[at + 1 + sign..][..len]).expect("digits are ASCII");
            let exponent: i32 = exponent.parse().unwrap_or(i32::MAX).min(100_000);
            number *= 2_f64.powi(if text[at + 1] == b'-' { -exponent } else { exponent });
            at += 1 + sign + len;
        }
    }
    Some((number, at))
}

// A test that cannot continue panics with the reason.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn run(code: &str) -> std::result::Result<String, String> {
        let lua = Lua::new();
        lua.globals().set("cjson", library(&lua, &Rc::default(), &Pacer::default()).unwrap()).unwrap();
        lua.load(code).eval::<String>().map_err(|error| error.to_string())
    }

    fn encoded(value: &str) -> String {
        run(&format!("return cjson.encode({value})")).unwrap()
    }

    #[test]
    fn values_are_written_as_lua_cjson_writes_them() {
        for (value, wanted) in [
            ("{1, 2, 'a/b', true}", r#"[1,2,"a\/b",true]"#),
            ("{}", "{}"),
            ("{[1] = 1, [3] = 3}", "[1,null,3]"),
            ("{x = cjson.null}", r#"{"x":null}"#),
            ("{[1.5] = 1}", r#"{"1.5":1}"#),
            ("{[2 ^ 31] = 1}", r#"{"2147483648":1}"#),
            ("{[2 ^ 70] = 1}", r#"{"1.1805916207174e+21":1}"#),
            ("1e20", "1e+20"),
            ("0.1 + 0.2", "0.3"),
            ("100000000000000", "1e+14"),
            ("12345678901234", "12345678901234"),
            ("-99999999999999", "-99999999999999"),
            // Of zero times a variable, because Lua has one constant for both zeros.
            ("0 * -#'x'", "-0"),
            ("{0, -7, 2.5}", "[0,-7,2.5]"),
            ("-0.00001", "-1e-05"),
            (r"'\1\127\n'", r#""\u0001\u007f\n""#),
        ] {
            assert_eq!(encoded(value), wanted, "{value}");
        }
    }

    #[test]
    fn what_json_cannot_say_is_refused_in_words() {
        for (code, wanted) in [
            ("cjson.encode(1/0)", "Cannot serialise number: must not be NaN or Inf"),
            ("cjson.encode(print)", "Cannot serialise function: type not supported"),
            ("cjson.encode({[1] = 1, [100] = 1})", "Cannot serialise table: excessively sparse array"),
            ("cjson.encode({[true] = 1})", "Cannot serialise boolean: table key must be a number or string"),
            ("local t = {} t[1] = t cjson.encode(t)", "Cannot serialise, excessive nesting (1001)"),
            ("cjson.decode('[1')", "Expected comma or array end but found T_END at character 3"),
            ("cjson.decode('x')", "Expected value but found invalid token at character 1"),
            ("cjson.decode('{1:2}')", "Expected object key string but found T_NUMBER at character 2"),
            ("cjson.decode('\"a')", "Expected value but found unexpected end of string at character 3"),
            ("cjson.decode('1 2')", "Expected the end but found T_NUMBER at character 3"),
            ("cjson.decode(string.rep('[', 1001))", "Found too many nested data structures (1001)"),
        ] {
            let error = run(code).unwrap_err();
            assert!(error.contains(wanted), "{code}: {error}");
        }
    }

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        for (text, wanted) in [
            ("12", Some((12.0, 2))),
            ("-1.5e3x", Some((-1500.0, 6))),
            ("1e", Some((1.0, 1))),
            ("1.", Some((1.0, 2))),
            ("0x1F", Some((31.0, 4))),
            ("0x", Some((0.0, 1))),
            ("0x.8p1", Some((1.0, 6))),
            ("+5", Some((5.0, 2))),
            ("-Infinity", Some((f64::NEG_INFINITY, 9))),
            ("-", None),
        ] {
            assert_eq!(leading_number(text.as_bytes()), wanted, "{text}");
        }
    }

    #[test]
    fn escapes_become_utf8() {
        assert_eq!(run(r#"return cjson.decode([["\u00e4\ud83d\ude00\/"]])"#).unwrap(), "ä😀/");
        assert!(run(r#"return cjson.decode([["\ude00"]])"#).unwrap_err().contains("invalid unicode escape code"));
    }
}
