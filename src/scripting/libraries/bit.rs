//! `bit`: operations on numbers as 32 bits.

use crate::scripting::natives::{Call, Native};
use crate::scripting::raising::{self, Outcome};
use std::ffi::c_int;

/// The low 32 bits of a number, rounded to an integer.
fn bits(number: f64) -> u32 {
    // Adding this leaves the integer in the low bits of the mantissa.
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    #[expect(clippy::cast_possible_truncation, reason = "the low half is wanted")]
    let low = (number + SHIFT).to_bits() as u32;
    low
}

/// The functions.
pub static FUNCTIONS: [Native; 12] = [
    Native { name: "tobit", run: |call| one(call, |bits| bits) },
    Native { name: "bnot", run: |call| one(call, |bits| !bits) },
    Native { name: "bswap", run: |call| one(call, u32::swap_bytes) },
    Native { name: "band", run: |call| fold(call, |one, other| one & other) },
    Native { name: "bor", run: |call| fold(call, |one, other| one | other) },
    Native { name: "bxor", run: |call| fold(call, |one, other| one ^ other) },
    Native { name: "lshift", run: |call| shift(call, |bits, by| bits << by) },
    Native { name: "rshift", run: |call| shift(call, |bits, by| bits >> by) },
    Native { name: "arshift", run: |call| shift(call, |bits, by| (bits.cast_signed() >> by).cast_unsigned()) },
    Native { name: "rol", run: |call| shift(call, u32::rotate_left) },
    Native { name: "ror", run: |call| shift(call, u32::rotate_right) },
    Native { name: "tohex", run: tohex },
];

fn argument(call: Call<'_>, number: c_int) -> Outcome<u32> {
    Ok(bits(raising::number_at(call.stack, number)?))
}

fn shown(call: Call<'_>, bits: u32) -> Outcome<c_int> {
    call.stack.push_number(f64::from(bits.cast_signed()));
    Ok(1)
}

fn one(call: Call<'_>, act: impl FnOnce(u32) -> u32) -> Outcome<c_int> {
    shown(call, act(argument(call, 1)?))
}

fn fold(call: Call<'_>, act: impl Fn(u32, u32) -> u32) -> Outcome<c_int> {
    let mut result = argument(call, 1)?;
    for number in (2..=call.stack.len()).rev() {
        result = act(result, argument(call, number)?);
    }
    shown(call, result)
}

fn shift(call: Call<'_>, act: impl FnOnce(u32, u32) -> u32) -> Outcome<c_int> {
    let bits = argument(call, 1)?;
    shown(call, act(bits, argument(call, 2)? & 31))
}

fn tohex(call: Call<'_>) -> Outcome<c_int> {
    let bits = argument(call, 1)?;
    let digits = if call.stack.len() < 2 { 8 } else { argument(call, 2)?.cast_signed() };
    call.stack.push_text(hex(bits, digits, &mut [0; 8]));
    Ok(1)
}

/// So many digits; in capital letters if their number is negative.
fn hex(bits: u32, digits: i32, all: &mut [u8; 8]) -> &[u8] {
    let letters = if digits < 0 { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
    for (place, digit) in (0..8).rev().zip(all.iter_mut()) {
        *digit = letters[(bits >> (4 * place) & 15) as usize];
    }
    &all[8 - digits.unsigned_abs().min(8) as usize..]
}

// A test that cannot continue panics with the reason.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::scripting::natives;
    use mlua::Lua;
    use std::rc::Rc;

    #[test]
    fn numbers_become_the_bits_of_the_nearest_integer() {
        for (number, wanted) in [
            (0.0, 0),
            (-1.0, u32::MAX),
            (4_294_967_296.0, 0),
            (2_147_483_648.0, 0x8000_0000),
            (1.5, 2),
            (2.5, 2),
            (-0.4, 0),
        ] {
            assert_eq!(bits(number), wanted, "{number}");
        }
    }

    #[test]
    fn functions_take_numbers_and_texts_of_numbers_and_name_the_argument_that_is_none() {
        let lua = Lua::new();
        let library = lua.create_table().unwrap();
        natives::add(&lua, &library, &FUNCTIONS, &Rc::default()).unwrap();
        lua.globals().set("bit", library).unwrap();
        for (call, wanted) in [
            ("bit.tobit(0xffffffff)", "-1"),
            ("bit.bnot('0x0f')", "-16"),
            ("bit.bswap(1)", "16777216"),
            ("bit.band(255, 15, 9)", "9"),
            ("bit.bor(0, 1, 2, unpack({4, 8, 16, 32}))", "63"),
            ("bit.bxor(7)", "7"),
            ("bit.lshift(1, 33)", "2"),
            ("bit.rshift(-1, 28)", "15"),
            ("bit.arshift(-16, 2)", "-4"),
            ("bit.rol(0x80000001, 1)", "3"),
            ("bit.ror(3, 1)", "-2147483647"),
            ("bit.tohex(-1)", "ffffffff"),
            ("bit.tohex(255, -2)", "FF"),
            ("bit.band()", "s:1: bad argument #1 to 'band' (number expected, got no value)"),
            ("bit.bor(1, 2, {}, 4)", "s:1: bad argument #3 to 'bor' (number expected, got table)"),
            ("bit.bor(1, nil, {}, 4)", "s:1: bad argument #3 to 'bor' (number expected, got table)"),
            ("bit.lshift(1, '')", "s:1: bad argument #2 to 'lshift' (number expected, got string)"),
            ("bit:band(1)", "s:1: calling 'band' on bad self (number expected, got table)"),
            ("bit.tohex(1, nil)", "s:1: bad argument #2 to 'tohex' (number expected, got nil)"),
        ] {
            let code = format!("return tostring((select(2, pcall(function() return {call} end))))");
            assert_eq!(lua.load(code).set_name("=s").eval::<String>().unwrap(), wanted, "{call}");
        }
    }

    #[test]
    fn hex_has_as_many_digits_as_asked_for() {
        assert_eq!(hex(0xab, 8, &mut [0; 8]), b"000000ab");
        assert_eq!(hex(0xab, -4, &mut [0; 8]), b"00AB");
        assert_eq!(hex(0x1234_5678, 3, &mut [0; 8]), b"678");
        assert_eq!(hex(1, 100, &mut [0; 8]), b"00000001");
        assert_eq!(hex(1, 0, &mut [0; 8]), b"");
    }
}
