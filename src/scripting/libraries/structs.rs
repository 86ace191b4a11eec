//! `struct`: numbers and texts as bytes, by a format.
//!
//! `<` `>` little or big end first, `!n` alignment; `x` a byte of padding; `b` `h` `l` `i`n integers (capital letters:
//! unsigned), `T` a size, `f` `d` floats, `c`n n bytes, `s` a text that ends with a NUL.

use crate::scripting::MADE_MAX;
use crate::scripting::natives::{Call, Native};
use crate::scripting::raising::{Failed, Outcome, Words, number_at, number_at_or, text_at, truncated};
use crate::scripting::stack::Stack;
use std::ffi::c_int;

/// The most bytes of an integer.
const INTEGER_MAX: i32 = 32;
/// The alignment of `!` without a number.
const ALIGN: i32 = 8;

/// The functions.
pub static FUNCTIONS: [Native; 3] =
    [Native { name: "pack", run: pack }, Native { name: "unpack", run: unpack }, Native { name: "size", run: size }];

fn wrong_argument(number: c_int, reason: &'static str) -> Failed {
    Failed::Argument(number, Words::from(format_args!("{reason}")))
}

/// A format being parsed.
struct Format<'a> {
    rest: &'a [u8],
    is_big: bool,
    align: usize,
}

impl<'a> Format<'a> {
    fn new(format: &'a [u8]) -> Self {
        let end = format.iter().position(|&byte| byte == 0).unwrap_or(format.len());
        Self { rest: &format[..end], is_big: false, align: 1 }
    }

    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn number(&mut self, default: i32) -> Outcome<i32> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return Ok(default);
        }
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        let number = std::str::from_utf8(number).expect("digits").parse();
        number.map_err(|_| "integral size overflow".into())
    }

    /// The size of an option's value.
    fn size_of(&mut self, option: u8) -> Outcome<usize> {
        let size = match option {
            b'b' | b'B' | b'x' => 1,
            b'h' | b'H' => 2,
            b'l' | b'L' | b'T' | b'd' => 8,
            b'f' => 4,
            b'c' => self.number(1)?,
            b'i' | b'I' => {
                let size = self.number(4)?;
                if size > INTEGER_MAX {
                    let reason = format_args!("integral size {size} is larger than limit of {INTEGER_MAX}").into();
                    return Err(Failed::Text(reason));
                }
                size
            }
            _ => 0,
        };
        Ok(usize::try_from(size).expect("numbers in formats have no sign"))
    }

    /// How many bytes of padding precede an option at a place.
    fn padding(&self, at: usize, option: u8, size: usize) -> usize {
        if size == 0 || option == b'c' {
            return 0;
        }
        let size = size.min(self.align);
        size.wrapping_sub(at & (size - 1)) & (size - 1)
    }

    /// An option without a value.
    fn control(&mut self, option: u8) -> Outcome<()> {
        match option {
            b' ' => {}
            b'>' => self.is_big = true,
            b'<' => self.is_big = false,
            b'!' => {
                let align = self.number(ALIGN)?;
                if align <= 0 || align & (align - 1) != 0 {
                    return Err(Failed::Text(format_args!("alignment {align} is not a power of 2").into()));
                }
                self.align = usize::try_from(align).expect("it is positive");
            }
            _ => {
                let reason = format_args!("invalid format option '{}'", char::from(option)).into();
                return Err(Failed::Argument(1, reason));
            }
        }
        Ok(())
    }
}

fn is_integer(option: u8) -> bool {
    b"bBhHlLTiI".contains(&option)
}

fn pack(call: Call<'_>) -> Outcome<c_int> {
    let Call { stack, shared, .. } = call;
    let mut format = Format::new(text_at(stack, 1)?);
    // A missing argument is nil, as in Redis.
    stack.push_nil();
    shared.make(Vec::clear);
    let mut last = 1;
    while let Some(option) = format.next() {
        let size = format.size_of(option)?;
        shared.make(|out| out.resize(out.len() + format.padding(out.len(), option, size), 0));
        let mut number = || {
            last += 1;
            number_at(stack, last)
        };
        let is_big = format.is_big;
        match option {
            _ if is_integer(option) => {
                let number = number()?;
                shared.make(|out| push_integer(number, size, is_big, out));
            }
            b'x' => shared.make(|out| out.push(0)),
            b'f' => {
                #[expect(clippy::cast_possible_truncation, reason = "it is what f is")]
                let number = number()? as f32;
                shared.make(|out| push_bytes(number.to_le_bytes(), is_big, out));
            }
            b'd' => {
                let number = number()?;
                shared.make(|out| push_bytes(number.to_le_bytes(), is_big, out));
            }
            b'c' | b's' => {
                last += 1;
                let bytes = text_at(stack, last)?;
                let packed = if size == 0 { Some(bytes) } else { bytes.get(..size) };
                let packed = packed.ok_or_else(|| wrong_argument(last + 1, "string too short"))?;
                shared.make(|out| out.extend_from_slice(packed));
                if option == b's' {
                    shared.make(|out| out.push(0));
                }
            }
            _ => format.control(option)?,
        }
        if shared.make(|out| out.len()) > MADE_MAX {
            return Err("not enough memory".into());
        }
    }
    call.push_made();
    Ok(1)
}

/// An integer's bytes; those after the eighth are zeros.
fn push_integer(number: f64, size: usize, is_big: bool, out: &mut Vec<u8>) {
    let value = if number < 0.0 { truncated(number).cast_unsigned() } else { unsigned(number) };
    let start = out.len();
    out.extend_from_slice(&value.to_le_bytes()[..size.min(8)]);
    out.resize(start + size, 0);
    if is_big {
        out[start..].reverse();
    }
}

/// A number as C converts it to an unsigned integer of 64 bits.
fn unsigned(number: f64) -> u64 {
    const END: f64 = 18_446_744_073_709_551_616.0;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
    if (0.0..END).contains(&number) { number as u64 } else { 0 }
}

fn push_bytes<const N: usize>(mut bytes: [u8; N], is_big: bool, out: &mut Vec<u8>) {
    if is_big {
        bytes.reverse();
    }
    out.extend_from_slice(&bytes);
}

fn unpack(Call { stack, .. }: Call<'_>) -> Outcome<c_int> {
    /// The most values of a result, and of its end.
    const ROOM: c_int = 2;
    let too_short = || wrong_argument(2, "data string too short");
    let mut format = Format::new(text_at(stack, 1)?);
    let data = text_at(stack, 2)?;
    let position = truncated(number_at_or(stack, 3, 1.0)?);
    if position == 0 {
        return Err(wrong_argument(3, "offset must be 1 or greater"));
    }
    let mut at = usize::try_from(position.wrapping_sub(1).cast_unsigned()).map_err(|_| too_short())?;
    let mut results = 0;
    while let Some(option) = format.next() {
        let mut size = format.size_of(option)?;
        at = at.wrapping_add(format.padding(at, option, size));
        let field = |at: usize, size: usize| -> Outcome<&[u8]> {
            let end = at.checked_add(size).ok_or_else(too_short)?;
            data.get(at..end).ok_or_else(too_short)
        };
        let bytes = field(at, size)?;
        if !stack.has_room(ROOM) {
            return Err("stack overflow (too many results)".into());
        }
        let before = results;
        results += 1;
        match option {
            _ if is_integer(option) => {
                stack.push_number(integer_of(bytes, format.is_big, option.is_ascii_lowercase()));
            }
            b'f' => stack.push_number(f32::from_le_bytes(ordered(bytes, format.is_big)).into()),
            b'd' => stack.push_number(f64::from_le_bytes(ordered(bytes, format.is_big))),
            b'c' => {
                let mut taken = bytes;
                if size == 0 {
                    let number = if before == 0 { None } else { stack.number(-1) };
                    let number = number.ok_or(Failed::from("format 'c0' needs a previous size"))?;
                    stack.pop();
                    results = before;
                    // In C a negative one becomes a size that no text has.
                    let number = if number <= -1.0 { None } else { Some(unsigned(number)) };
                    size = number.and_then(|size| usize::try_from(size).ok()).ok_or_else(too_short)?;
                    taken = field(at, size)?;
                }
                stack.push_text(taken);
            }
            b's' => {
                let end = data[at..].iter().position(|&byte| byte == 0);
                let len = end.ok_or(Failed::from("unfinished string in data"))?;
                stack.push_text(&data[at..at + len]);
                size = len + 1;
            }
            _ => {
                results = before;
                if option != b'x' {
                    format.control(option)?;
                }
            }
        }
        at += size;
    }
    push_count(stack, at + 1);
    Ok(results + 1)
}

#[expect(clippy::cast_precision_loss, reason = "Lua's numbers are doubles")]
fn push_count(stack: Stack, count: usize) {
    stack.push_number(count as f64);
}

fn ordered<const N: usize>(bytes: &[u8], is_big: bool) -> [u8; N] {
    let mut bytes: [u8; N] = bytes.try_into().expect("the size is the option's");
    if is_big {
        bytes.reverse();
    }
    bytes
}

/// The integer of some bytes: if there are more than eight, only the last eight that are read count.
fn integer_of(bytes: &[u8], is_big: bool, is_signed: bool) -> f64 {
    let push = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    let value = if is_big { bytes.iter().fold(0, push) } else { bytes.iter().rev().fold(0, push) };
    #[expect(clippy::cast_precision_loss, reason = "Lua's numbers are doubles")]
    if !is_signed {
        value as f64
    } else {
        let len = u32::try_from(bytes.len()).expect("a format has at most 32 bytes");
        let shift = len.wrapping_mul(8).wrapping_sub(1);
        let mask = u64::MAX.wrapping_shl(shift);
        let value = if value & mask == 0 { value } else { value | mask };
        value.cast_signed() as f64
    }
}

fn size(Call { stack, .. }: Call<'_>) -> Outcome<c_int> {
    let mut format = Format::new(text_at(stack, 1)?);
    let mut at = 0_usize;
    while let Some(option) = format.next() {
        let size = format.size_of(option)?;
        at += format.padding(at, option, size);
        match option {
            b's' => return Err(wrong_argument(1, "option 's' has no fixed size")),
            b'c' if size == 0 => return Err(wrong_argument(1, "option 'c0' has no fixed size")),
            _ if option.is_ascii_alphanumeric() => {}
            _ => format.control(option)?,
        }
        at = at.saturating_add(size);
    }
    push_count(stack, at);
    Ok(1)
}

// A test that cannot continue panics with the reason.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::scripting::natives;
    use mlua::Lua;
    use std::rc::Rc;

    fn packed(number: f64, size: usize, is_big: bool) -> Vec<u8> {
        let mut out = Vec::new();
        push_integer(number, size, is_big, &mut out);
        out
    }

    #[test]
    fn integers_are_packed_and_read_back() {
        assert_eq!(packed(258.0, 2, true), [1, 2]);
        assert_eq!(packed(-2.0, 4, false), [0xfe, 0xff, 0xff, 0xff]);
        assert_eq!(packed(-1.0, 9, false), [255, 255, 255, 255, 255, 255, 255, 255, 0]);
        for number in [0.0, 1.0, -1.0, 127.0, -128.0] {
            for size in [1, 3, 4, 8] {
                for is_big in [false, true] {
                    assert_eq!(integer_of(&packed(number, size, is_big), is_big, true), number);
                }
            }
        }
        assert_eq!(integer_of(&[0xff, 0xff], false, false), 65535.0);
    }

    #[test]
    fn padding_fills_up_to_the_alignment() {
        let mut format = Format::new(b"!4");
        let option = format.next().unwrap();
        format.control(option).unwrap();
        assert_eq!(format.padding(1, b'i', 4), 3);
        assert_eq!(format.padding(1, b'l', 8), 3);
        assert_eq!(format.padding(1, b'c', 8), 0);
    }

    fn lua() -> Lua {
        let lua = Lua::new();
        let library = lua.create_table().unwrap();
        natives::add(&lua, &library, &FUNCTIONS, &Rc::default()).unwrap();
        lua.globals().set("struct", library).unwrap();
        lua
    }

    #[test]
    fn what_a_call_that_fails_has_packed_is_not_in_the_next() {
        let lua = lua();
        let packed = lua.load(
            "assert(not pcall(struct.pack, 'sb', 'abc')) assert(not pcall(struct.pack, 'c99999b', ('x'):rep(99999))) \
             assert(#struct.pack('c0', ('x'):rep(99999)) == 99999) return struct.pack('sBd', 12, '34', -0.0)",
        );
        let packed: mlua::LuaString = packed.eval().unwrap();
        assert_eq!(&*packed.as_bytes(), b"12\0\x22\0\0\0\0\0\0\0\x80");
    }

    #[test]
    fn many_values_are_packed_and_unpacked_and_too_many_are_refused() {
        let lua = lua();
        let program = "local t = {} for i = 1, ... do t[i] = i % 100 end local f = ('b'):rep(...) \
                       local u = {struct.unpack(f, struct.pack(f, unpack(t)))} for i = 1, ... do assert(t[i] == u[i]) end \
                       return #u, u[#u]";
        let run = |count: i64| lua.load(program).call::<(i64, i64)>(count);
        for count in [1, 19, 20, 21, 200, 7000] {
            assert_eq!(run(count).unwrap(), (count + 1, count + 1));
        }
        let all = "return pcall(struct.unpack, ('b'):rep(8000), ('x'):rep(8000))";
        let (is_done, error): (bool, String) = lua.load(all).eval().unwrap();
        assert_eq!((is_done, &*error), (false, "stack overflow (too many results)"));
    }

    #[test]
    fn offsets_and_sizes_outside_of_the_data_are_refused() {
        let lua = lua();
        for code in [
            "struct.unpack('d', 'short')",
            "struct.unpack('b', 'x', 2^31)",
            "struct.unpack('b', 'x', -2^31)",
            "struct.unpack('I4c0', '\\255\\255\\255\\255x')",
            "struct.unpack('c2147483647', 'x')",
        ] {
            let error = lua.load(code).exec().unwrap_err().to_string();
            assert!(error.contains("data string too short"), "{code}: {error}");
        }
        assert!(lua.load("struct.pack('I33', 1)").exec().unwrap_err().to_string().contains("larger than limit of 32"));
        assert!(lua.load("struct.size('c2147483648')").exec().unwrap_err().to_string().contains("size overflow"));
    }
}
