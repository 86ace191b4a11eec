//! `cmsgpack`: MessagePack.

use super::{Failure, Outcome, Pacer, add, check_size, text};
use crate::scripting::raising::{self, truncated};
use mlua::{Lua, MultiValue, Result, Table, Value};

/// How deep packed tables may be nested; deeper ones are packed as nil, as in Redis.
const PACKED_DEPTH_MAX: usize = 16;
/// How deep arrays and maps may be nested when read.
const READ_DEPTH_MAX: usize = 1000;
/// How many values are read at once.
const RESULTS_MAX: usize = 7900;

/// The library.
pub fn library(lua: &Lua, pacer: &Pacer) -> Result<Table> {
    let library = lua.create_table()?;
    let own = pacer.clone();
    add(lua, &library, "pack", move |lua, values| pack(lua, values, &own))?;
    let own = pacer.clone();
    add(lua, &library, "unpack", move |lua, values| unpack(lua, values, "unpack", (0, 0), &own))?;
    let own = pacer.clone();
    add(lua, &library, "unpack_one", move |lua, values| {
        let offset = truncated(raising::number_or(lua, values.get(1), 2, "unpack_one", 0.0)?);
        unpack(lua, values, "unpack_one", (1, offset), &own)
    })?;
    let own = pacer.clone();
    add(lua, &library, "unpack_limit", move |lua, values| {
        let limit = truncated(raising::number(lua, values.get(1), 2, "unpack_limit")?);
        let offset = truncated(raising::number_or(lua, values.get(2), 3, "unpack_limit", 0.0)?);
        unpack(lua, values, "unpack_limit", (limit, offset), &own)
    })?;
    for (name, value) in [
        ("_NAME", "cmsgpack"),
        ("_VERSION", "lua-cmsgpack 0.4.0"),
        ("_COPYRIGHT", "Copyright (C) 2012, Redis Ltd."),
        ("_DESCRIPTION", "MessagePack C implementation for Lua"),
    ] {
        library.raw_set(name, value)?;
    }
    Ok(library)
}

fn pack(lua: &Lua, values: &MultiValue, pacer: &Pacer) -> Outcome<Value> {
    if values.is_empty() {
        return Err(Failure::Argument(0, "MessagePack pack needs input.".into()));
    }
    let mut out = Vec::new();
    for value in values {
        push(value, 0, pacer, &mut out)?;
    }
    Ok(Value::String(lua.create_string(out)?))
}

fn push(value: &Value, depth: usize, pacer: &Pacer, out: &mut Vec<u8>) -> Outcome<()> {
    pacer.step()?;
    check_size(out.len())?;
    match value {
        Value::String(text) => push_text(&text.as_bytes(), out),
        Value::Boolean(value) => out.push(if *value { 0xc3 } else { 0xc2 }),
        Value::Integer(number) => push_integer(*number, out),
        Value::Number(number) => push_number(*number, out),
        Value::Table(table) if depth < PACKED_DEPTH_MAX => return push_table(table, depth, pacer, out),
        _ => out.push(0xc0),
    }
    Ok(())
}

fn push_text(text: &[u8], out: &mut Vec<u8>) {
    push_head(text.len(), Some((0xa0, 31)), Some(0xd9), 0xda, out);
    out.extend_from_slice(text);
}

/// The shortest head for a length: in one byte, or after one of these, with 1, 2 or 4 bytes.
fn push_head(len: usize, fixed: Option<(u8, usize)>, of_8: Option<u8>, of_16: u8, out: &mut Vec<u8>) {
    let len = u32::try_from(len).expect("what is packed is bounded");
    #[expect(clippy::cast_possible_truncation, reason = "the ranges are checked")]
    match (fixed, of_8) {
        (Some((head, most)), _) if len as usize <= most => out.push(head | len as u8),
        (_, Some(head)) if len <= 0xff => out.extend([head, len as u8]),
        _ if len <= 0xffff => {
            out.push(of_16);
            out.extend((len as u16).to_be_bytes());
        }
        _ => {
            out.push(of_16 + 1);
            out.extend(len.to_be_bytes());
        }
    }
}

fn push_integer(number: i64, out: &mut Vec<u8>) {
    let bytes = number.to_be_bytes();
    match number {
        -32..=127 => out.push(bytes[7]),
        128..=0xff => out.extend([0xcc, bytes[7]]),
        256..=0xffff => push_bytes(0xcd, &bytes[6..], out),
        0x1_0000..=0xffff_ffff => push_bytes(0xce, &bytes[4..], out),
        0x1_0000_0000.. => push_bytes(0xcf, &bytes, out),
        -128..=-33 => out.extend([0xd0, bytes[7]]),
        -32_768..=-129 => push_bytes(0xd1, &bytes[6..], out),
        -2_147_483_648..=-32_769 => push_bytes(0xd2, &bytes[4..], out),
        _ => push_bytes(0xd3, &bytes, out),
    }
}

fn push_bytes(head: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(head);
    out.extend_from_slice(bytes);
}

fn push_number(number: f64, out: &mut Vec<u8>) {
    const END: f64 = 9_223_372_036_854_775_808.0;
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked, and what f32 does not hold is seen")]
    if (-END..END).contains(&number) && number.trunc() == number {
        push_integer(number as i64, out);
    } else if f64::from(number as f32) == number {
        push_bytes(0xca, &(number as f32).to_be_bytes(), out);
    } else {
        push_bytes(0xcb, &number.to_be_bytes(), out);
    }
}

fn push_table(table: &Table, depth: usize, pacer: &Pacer, out: &mut Vec<u8>) -> Outcome<()> {
    let (mut count, mut is_array, mut most) = (0_usize, true, 0);
    table.for_each(|key: Value, _: Value| {
        count += 1;
        match key {
            Value::Integer(index) if index > 0 && index <= i32::MAX.into() => most = index.max(most),
            _ => is_array = false,
        }
        Ok(())
    })?;
    if is_array && usize::try_from(most) == Ok(count) {
        push_head(count, Some((0x90, 15)), None, 0xdc, out);
        for index in 1..=count {
            push(&table.get(index)?, depth + 1, pacer, out)?;
        }
        return Ok(());
    }
    push_head(count, Some((0x80, 15)), None, 0xde, out);
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        push(&key, depth + 1, pacer, out)?;
        push(&value, depth + 1, pacer, out)?;
    }
    Ok(())
}

/// Unpacks values: at most `limit` from `offset` on, all if both are 0.
fn unpack(
    lua: &Lua,
    values: &MultiValue,
    function: &str,
    (limit, offset): (i64, i64),
    pacer: &Pacer,
) -> Outcome<MultiValue> {
    let packed = raising::text(lua, values.front(), 1, function)?;
    let packed = packed.as_bytes();
    let len = packed.len();
    let all = limit == 0 && offset == 0;
    let (Ok(limit), Ok(start)) = (usize::try_from(limit), usize::try_from(offset)) else {
        return Err(text(format!("Invalid request to unpack with offset of {offset} and limit of {len}.")));
    };
    if start > len {
        return Err(text(format!("Start offset {start} greater than input length {len}.")));
    }
    let limit = if all { usize::MAX } else { limit };
    let mut reader = Reader { lua, pacer, rest: &packed[start..] };
    let mut results = Vec::new();
    while !reader.rest.is_empty() && results.len() < limit {
        if results.len() >= RESULTS_MAX {
            return Err(too_many());
        }
        results.push(reader.value(0)?);
    }
    if !all {
        let left = reader.rest.len();
        let next = if left == 0 { -1 } else { i64::try_from(len - left).expect("a text is not so long") };
        results.insert(0, Value::Integer(next));
    }
    Ok(results.into())
}

fn too_many() -> Failure {
    text("stack overflow (too many return values at once; use unpack_one or unpack_limit instead.)")
}

struct Reader<'a> {
    lua: &'a Lua,
    pacer: &'a Pacer,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Outcome<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or_else(|| text("Missing bytes in input."))?;
        self.rest = rest;
        Ok(taken)
    }

    fn number<const N: usize>(&mut self) -> Outcome<[u8; N]> {
        Ok(self.take(N)?.try_into().expect("as many as asked for"))
    }

    /// A length of this many bytes.
    fn len(&mut self, bytes: usize) -> Outcome<usize> {
        Ok(self.take(bytes)?.iter().fold(0, |len, &byte| len << 8 | usize::from(byte)))
    }

    fn value(&mut self, depth: usize) -> Outcome<Value> {
        self.pacer.step()?;
        if depth > READ_DEPTH_MAX {
            return Err(too_many());
        }
        let head = self.take(1)?[0];
        Ok(match head {
            0..=0x7f => Value::Integer(head.into()),
            0xe0.. => Value::Integer(head.cast_signed().into()),
            0x80..=0x8f => self.map(usize::from(head & 15), depth)?,
            0x90..=0x9f => self.array(usize::from(head & 15), depth)?,
            0xa0..=0xbf => self.text(usize::from(head & 31))?,
            0xc0 => Value::Nil,
            0xc2 => Value::Boolean(false),
            0xc3 => Value::Boolean(true),
            0xca => Value::Number(f32::from_be_bytes(self.number()?).into()),
            0xcb => Value::Number(f64::from_be_bytes(self.number()?)),
            0xcc => Value::Integer(self.number::<1>()?[0].into()),
            0xcd => Value::Integer(u16::from_be_bytes(self.number()?).into()),
            0xce => Value::Integer(u32::from_be_bytes(self.number()?).into()),
            // A value that does not fit the signed kind becomes negative, as in Redis.
            0xcf | 0xd3 => Value::Integer(i64::from_be_bytes(self.number()?)),
            0xd0 => Value::Integer(self.number::<1>()?[0].cast_signed().into()),
            0xd1 => Value::Integer(i16::from_be_bytes(self.number()?).into()),
            0xd2 => Value::Integer(i32::from_be_bytes(self.number()?).into()),
            0xd9 => {
                let len = self.len(1)?;
                self.text(len)?
            }
            0xda => {
                let len = self.len(2)?;
                self.text(len)?
            }
            0xdb => {
                let len = self.len(4)?;
                self.text(len)?
            }
            0xdc | 0xdd => {
                let len = self.len(if head == 0xdc { 2 } else { 4 })?;
                self.array(len, depth)?
            }
            0xde | 0xdf => {
                let len = self.len(if head == 0xde { 2 } else { 4 })?;
                self.map(len, depth)?
            }
            _ => return Err(text("Bad data format in input.")),
        })
    }

    fn text(&mut self, len: usize) -> Outcome<Value> {
        let bytes = self.take(len)?;
        Ok(Value::String(self.lua.create_string(bytes)?))
    }

    fn array(&mut self, len: usize, depth: usize) -> Outcome<Value> {
        let table = self.lua.create_table()?;
        for index in 1..=len {
            table.raw_set(index, self.value(depth + 1)?)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, len: usize, depth: usize) -> Outcome<Value> {
        let table = self.lua.create_table()?;
        for _ in 0..len {
            let key = self.value(depth + 1)?;
            match key {
                Value::Nil => return Err(text("table index is nil")),
                Value::Number(number) if number.is_nan() => return Err(text("table index is NaN")),
                _ => {}
            }
            table.raw_set(key, self.value(depth + 1)?)?;
        }
        Ok(Value::Table(table))
    }
}

// A test that cannot continue panics with the reason.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn packed(number: f64) -> Vec<u8> {
        let mut out = Vec::new();
        push_number(number, &mut out);
        out
    }

    #[test]
    fn numbers_take_the_shortest_form() {
        for (number, wanted) in [
            (0.0, &[0][..]),
            (127.0, &[0x7f]),
            (128.0, &[0xcc, 0x80]),
            (256.0, &[0xcd, 1, 0]),
            (65536.0, &[0xce, 0, 1, 0, 0]),
            (4_294_967_296.0, &[0xcf, 0, 0, 0, 1, 0, 0, 0, 0]),
            (-1.0, &[0xff]),
            (-33.0, &[0xd0, 0xdf]),
            (-129.0, &[0xd1, 0xff, 0x7f]),
            (-32_769.0, &[0xd2, 0xff, 0xff, 0x7f, 0xff]),
            (1.5, &[0xca, 0x3f, 0xc0, 0, 0]),
            (0.1, &[0xcb, 0x3f, 0xb9, 0x99, 0x99, 0x99, 0x99, 0x99, 0x9a]),
        ] {
            assert_eq!(packed(number), wanted, "{number}");
        }
        assert_eq!(packed(9_223_372_036_854_775_808.0)[0], 0xca);
    }

    #[test]
    fn what_is_packed_is_read_back_and_what_is_cut_off_is_an_error() {
        let lua = Lua::new();
        lua.globals().set("cmsgpack", library(&lua, &Pacer::default()).unwrap()).unwrap();
        let code = "local p = cmsgpack.pack({1, 'a', {x = -5.5, y = {true, false}}}, string.rep('z', 300), 2^40)
                    local t, z, n = cmsgpack.unpack(p)
                    assert(t[1] == 1 and t[2] == 'a' and t[3].x == -5.5 and t[3].y[1] and #z == 300 and n == 2^40)
                    for cut = 1, #p - 1 do
                      local ok, err = pcall(cmsgpack.unpack_one, p:sub(1, cut))
                      assert(ok or err)
                    end
                    assert(#cmsgpack.pack({}) == 1)
                    local next, one = cmsgpack.unpack_one('\\1\\2')
                    assert(next == 1 and one == 1)";
        lua.load(code).exec().unwrap();
    }

    #[test]
    fn depth_is_bounded_both_ways() {
        let lua = Lua::new();
        lua.globals().set("cmsgpack", library(&lua, &Pacer::default()).unwrap()).unwrap();
        lua.load("local t = {} for _ = 1, 100 do t = {t} end assert(#cmsgpack.pack(t) == 17)").exec().unwrap();
        let error = lua.load("cmsgpack.unpack(string.rep('\\145', 100000))").exec().unwrap_err().to_string();
        assert!(error.contains("too many return values"), "{error}");
    }
}
