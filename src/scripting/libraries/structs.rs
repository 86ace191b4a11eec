//! `struct`: numbers and texts as bytes, by a format.
//!
//! `<` `>` little or big end first, `!n` alignment; `x` a byte of padding; `b` `h` `l` `i`n integers (capital letters:
//! unsigned), `T` a size, `f` `d` floats, `c`n n bytes, `s` a text that ends with a NUL.

use super::{Failure, Outcome, add, check_size, text};
use crate::scripting::raising::{self, truncated};
use mlua::{Lua, MultiValue, Result, Table, Value};

/// The most bytes of an integer.
const INTEGER_MAX: i32 = 32;
/// The alignment of `!` without a number.
const ALIGN: i32 = 8;

/// The library.
pub fn library(lua: &Lua) -> Result<Table> {
    let library = lua.create_table()?;
    add(lua, &library, "pack", pack)?;
    add(lua, &library, "unpack", unpack)?;
    add(lua, &library, "size", size)?;
    Ok(library)
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
        number.map_err(|_| text("integral size overflow"))
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
                    return Err(text(format!("integral size {size} is larger than limit of {INTEGER_MAX}")));
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
                    return Err(text(format!("alignment {align} is not a power of 2")));
                }
                self.align = usize::try_from(align).expect("it is positive");
            }
            _ => return Err(Failure::Argument(1, format!("invalid format option '{}'", char::from(option)))),
        }
        Ok(())
    }
}

fn is_integer(option: u8) -> bool {
    b"bBhHlLTiI".contains(&option)
}

fn pack(lua: &Lua, values: &MultiValue) -> Outcome<Value> {
    let format = raising::text(lua, values.front(), 1, "pack")?;
    let format = format.as_bytes();
    let mut format = Format::new(&format);
    let mut out = Vec::new();
    let mut next = 1;
    while let Some(option) = format.next() {
        let size = format.size_of(option)?;
        out.resize(out.len() + format.padding(out.len(), option, size), 0);
        // A missing one is nil, as in Redis.
        let argument = |position: usize| values.get(position).or(Some(&Value::Nil));
        let mut number = || {
            next += 1;
            raising::number(lua, argument(next - 1), next, "pack")
        };
        match option {
            _ if is_integer(option) => push_integer(number()?, size, format.is_big, &mut out),
            b'x' => out.push(0),
            #[expect(clippy::cast_possible_truncation, reason = "it is what f is")]
            b'f' => push_bytes((number()? as f32).to_le_bytes(), format.is_big, &mut out),
            b'd' => push_bytes(number()?.to_le_bytes(), format.is_big, &mut out),
            b'c' | b's' => {
                next += 1;
                let bytes = raising::text(lua, argument(next - 1), next, "pack")?;
                let bytes = bytes.as_bytes();
                let len = if size == 0 { bytes.len() } else { size };
                let packed = bytes.get(..len);
                out.extend_from_slice(packed.ok_or_else(|| Failure::Argument(next + 1, "string too short".into()))?);
                if option == b's' {
                    out.push(0);
                }
            }
            _ => format.control(option)?,
        }
        check_size(out.len())?;
    }
    Ok(Value::String(lua.create_string(out)?))
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

fn unpack(lua: &Lua, values: &MultiValue) -> Outcome<MultiValue> {
    const RESULTS_MAX: usize = 7900;
    let too_short = || Failure::Argument(2, "data string too short".into());
    let format = raising::text(lua, values.front(), 1, "unpack")?;
    let data = raising::text(lua, values.get(1), 2, "unpack")?;
    let (format, data) = (format.as_bytes(), data.as_bytes());
    let position = truncated(raising::number_or(lua, values.get(2), 3, "unpack", 1.0)?);
    if position == 0 {
        return Err(Failure::Argument(3, "offset must be 1 or greater".into()));
    }
    let mut at = usize::try_from(position.wrapping_sub(1).cast_unsigned()).map_err(|_| too_short())?;
    let mut format = Format::new(&format);
    let mut results: Vec<Value> = Vec::new();
    while let Some(option) = format.next() {
        let mut size = format.size_of(option)?;
        at = at.wrapping_add(format.padding(at, option, size));
        let field = |at: usize, size: usize| -> Outcome<&[u8]> {
            let end = at.checked_add(size).ok_or_else(too_short)?;
            data.get(at..end).ok_or_else(too_short)
        };
        let bytes = field(at, size)?;
        if results.len() >= RESULTS_MAX {
            return Err(text("stack overflow (too many results)"));
        }
        match option {
            _ if is_integer(option) => {
                let is_signed = option.is_ascii_lowercase();
                results.push(Value::Number(integer_of(bytes, format.is_big, is_signed)));
            }
            b'x' => {}
            b'f' => results.push(Value::Number(f32::from_le_bytes(ordered(bytes, format.is_big)).into())),
            b'd' => results.push(Value::Number(f64::from_le_bytes(ordered(bytes, format.is_big)))),
            b'c' => {
                let mut taken = bytes;
                if size == 0 {
                    let before = raising::number_of(lua, results.last())?;
                    let before = before.ok_or_else(|| text("format 'c0' needs a previous size"))?;
                    results.pop();
                    size = usize::try_from(unsigned(before)).map_err(|_| too_short())?;
                    taken = field(at, size)?;
                }
                results.push(Value::String(lua.create_string(taken)?));
            }
            b's' => {
                let end = data[at..].iter().position(|&byte| byte == 0);
                let len = end.ok_or_else(|| text("unfinished string in data"))?;
                results.push(Value::String(lua.create_string(&data[at..at + len])?));
                size = len + 1;
            }
            _ => format.control(option)?,
        }
        at += size;
    }
    results.push(Value::Integer(i64::try_from(at + 1).expect("it is in the data")));
    Ok(results.into())
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

fn size(lua: &Lua, values: &MultiValue) -> Outcome<Value> {
    let format = raising::text(lua, values.front(), 1, "size")?;
    let format = format.as_bytes();
    let mut format = Format::new(&format);
    let mut at = 0_usize;
    while let Some(option) = format.next() {
        let size = format.size_of(option)?;
        at += format.padding(at, option, size);
        match option {
            b's' => return Err(Failure::Argument(1, "option 's' has no fixed size".into())),
            b'c' if size == 0 => return Err(Failure::Argument(1, "option 'c0' has no fixed size".into())),
            _ if option.is_ascii_alphanumeric() => {}
            _ => format.control(option)?,
        }
        at = at.saturating_add(size);
    }
    Ok(Value::Integer(i64::try_from(at).unwrap_or(i64::MAX)))
}

// A test that cannot continue panics with the reason.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

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

    #[test]
    fn offsets_and_sizes_outside_of_the_data_are_refused() {
        let lua = Lua::new();
        lua.globals().set("struct", library(&lua).unwrap()).unwrap();
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
