//! `cmsgpack`: MessagePack.

use super::{Failure, Outcome, Pacer, add, check_size, text};
use crate::scripting::raising::{self, truncated};
use crate::scripting::stack::{self, Plain, Stack};
use mlua::{Lua, MultiValue, Result, Table, Value};
use std::ffi::c_int;

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
    let mut packer = Packer { pacer, out: Vec::new(), outcome: Ok(()) };
    for value in values {
        stack::made::<_, ()>(lua, value, &mut packer, |packer, stack| packer.outcome = packer.push(stack, 1, 0))?;
        std::mem::replace(&mut packer.outcome, Ok(()))?;
    }
    Ok(Value::String(lua.create_string(packer.out)?))
}

/// What is packed so far.
struct Packer<'a> {
    pacer: &'a Pacer,
    out: Vec<u8>,
    outcome: Outcome<()>,
}

impl Packer<'_> {
    /// Packs the value at an index.
    fn push(&mut self, stack: Stack, index: c_int, depth: usize) -> Outcome<()> {
        self.pacer.step()?;
        check_size(self.out.len())?;
        let out = &mut self.out;
        match stack.plain(index) {
            Plain::Text(text) => push_text(text, out),
            Plain::Boolean(value) => out.push(if value { 0xc3 } else { 0xc2 }),
            Plain::Number(number) => push_number(number, out),
            Plain::Table if depth < PACKED_DEPTH_MAX => return self.push_table(stack, index, depth),
            _ => out.push(0xc0),
        }
        Ok(())
    }

    fn push_table(&mut self, stack: Stack, table: c_int, depth: usize) -> Outcome<()> {
        // A key and its value; what is pushed for them makes room for itself.
        stack.reserve(2);
        let (count, is_array) = count(stack, table);
        if is_array {
            push_head(count, Some((0x90, 15)), None, 0xdc, &mut self.out);
            for position in 1..=count {
                stack.push_element(table, c_int::try_from(position).expect("as large as a key that is an int"));
                self.push(stack, stack.len(), depth + 1)?;
                stack.pop();
            }
            return Ok(());
        }
        push_head(count, Some((0x80, 15)), None, 0xde, &mut self.out);
        stack.push_nil();
        while stack.next(table) {
            let value = stack.len();
            self.push(stack, value - 1, depth + 1)?;
            self.push(stack, value, depth + 1)?;
            stack.pop();
        }
        Ok(())
    }
}

/// How many fields a table has, and whether they are the elements of an array.
fn count(stack: Stack, table: c_int) -> (usize, bool) {
    let (mut count, mut is_array, mut most) = (0_usize, true, 0.0);
    stack.push_nil();
    while stack.next(table) {
        stack.pop();
        count += 1;
        match stack.plain(-1) {
            Plain::Number(index) if index > 0.0 && index <= i32::MAX.into() && index.trunc() == index => {
                most = index.max(most);
            }
            _ => is_array = false,
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "memory holds fewer than 2^53")]
    (count, is_array && most == count as f64)
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
    let mut reader = Reader { pacer, rest: &packed[start..], limit, outcome: Ok(()) };
    let mut results: MultiValue =
        stack::made(lua, (), &mut reader, |reader, stack| reader.outcome = reader.values(stack))?;
    reader.outcome?;
    if !all {
        let left = reader.rest.len();
        let next = if left == 0 { -1 } else { i64::try_from(len - left).expect("a text is not so long") };
        results.push_front(Value::Integer(next));
    }
    Ok(results)
}

fn too_many() -> Failure {
    text("stack overflow (too many return values at once; use unpack_one or unpack_limit instead.)")
}

struct Reader<'a> {
    pacer: &'a Pacer,
    rest: &'a [u8],
    /// The most values that are read.
    limit: usize,
    outcome: Outcome<()>,
}

impl<'a> Reader<'a> {
    /// Pushes all values.
    fn values(&mut self, stack: Stack) -> Outcome<()> {
        let mut count = 0;
        while !self.rest.is_empty() && count < self.limit {
            if count >= RESULTS_MAX {
                return Err(too_many());
            }
            self.value(stack, 0)?;
            count += 1;
        }
        Ok(())
    }

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

    /// Pushes the next value.
    fn value(&mut self, stack: Stack, depth: usize) -> Outcome<()> {
        self.pacer.step()?;
        if depth > READ_DEPTH_MAX || !stack.has_room(1) {
            return Err(too_many());
        }
        let head = self.take(1)?[0];
        match head {
            0..=0x7f => stack.push_number(head.into()),
            0xe0.. => stack.push_number(head.cast_signed().into()),
            0x80..=0x8f => return self.map(usize::from(head & 15), stack, depth),
            0x90..=0x9f => return self.array(usize::from(head & 15), stack, depth),
            0xa0..=0xbf => stack.push_text(self.take(usize::from(head & 31))?),
            0xc0 => stack.push_nil(),
            0xc2 => stack.push_boolean(false),
            0xc3 => stack.push_boolean(true),
            0xca => stack.push_number(f32::from_be_bytes(self.number()?).into()),
            0xcb => stack.push_number(f64::from_be_bytes(self.number()?)),
            0xcc => stack.push_number(self.number::<1>()?[0].into()),
            0xcd => stack.push_number(u16::from_be_bytes(self.number()?).into()),
            0xce => stack.push_number(u32::from_be_bytes(self.number()?).into()),
            // A value that does not fit the signed kind becomes negative, as in Redis.
            #[expect(clippy::cast_precision_loss, reason = "Lua's numbers are doubles")]
            0xcf | 0xd3 => stack.push_number(i64::from_be_bytes(self.number()?) as f64),
            0xd0 => stack.push_number(self.number::<1>()?[0].cast_signed().into()),
            0xd1 => stack.push_number(i16::from_be_bytes(self.number()?).into()),
            0xd2 => stack.push_number(i32::from_be_bytes(self.number()?).into()),
            0xd9..=0xdb => {
                let len = self.len(1 << (head - 0xd9))?;
                stack.push_text(self.take(len)?);
            }
            0xdc | 0xdd => {
                let len = self.len(if head == 0xdc { 2 } else { 4 })?;
                return self.array(len, stack, depth);
            }
            0xde | 0xdf => {
                let len = self.len(if head == 0xde { 2 } else { 4 })?;
                return self.map(len, stack, depth);
            }
            _ => return Err(text("Bad data format in input.")),
        }
        Ok(())
    }

    // A table is made with room for nothing, as in Redis: what `#` is of an array with nil, and the order in which
    // `next` finds fields, depend on how it has grown.

    fn array(&mut self, len: usize, stack: Stack, depth: usize) -> Outcome<()> {
        stack.push_table(0, 0);
        for position in 1..=len {
            self.value(stack, depth + 1)?;
            stack.set_element(position);
        }
        Ok(())
    }

    fn map(&mut self, len: usize, stack: Stack, depth: usize) -> Outcome<()> {
        stack.push_table(0, 0);
        for _ in 0..len {
            self.value(stack, depth + 1)?;
            self.value(stack, depth + 1)?;
            stack.set_field();
        }
        Ok(())
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
