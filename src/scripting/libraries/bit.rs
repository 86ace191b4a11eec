//! `bit`: operations on numbers as 32 bits.

use super::{Outcome, add};
use crate::scripting::raising;
use mlua::{Lua, MultiValue, Result, Table};

/// The low 32 bits of a number, rounded to an integer.
fn bits(number: f64) -> u32 {
    // Adding this leaves the integer in the low bits of the mantissa.
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    #[expect(clippy::cast_possible_truncation, reason = "the low half is wanted")]
    let low = (number + SHIFT).to_bits() as u32;
    low
}

fn shown(bits: u32) -> f64 {
    f64::from(bits.cast_signed())
}

/// The library.
pub fn library(lua: &Lua) -> Result<Table> {
    let library = lua.create_table()?;
    let one = |name: &'static str, act: fn(u32) -> u32| {
        add(lua, &library, name, move |lua, values| Ok(shown(act(argument(lua, values, 0, name)?))))
    };
    one("tobit", |bits| bits)?;
    one("bnot", |bits| !bits)?;
    one("bswap", u32::swap_bytes)?;
    let fold = |name: &'static str, act: fn(u32, u32) -> u32| {
        add(lua, &library, name, move |lua, values| {
            let mut result = argument(lua, values, 0, name)?;
            for position in (1..values.len()).rev() {
                result = act(result, argument(lua, values, position, name)?);
            }
            Ok(shown(result))
        })
    };
    fold("band", |one, other| one & other)?;
    fold("bor", |one, other| one | other)?;
    fold("bxor", |one, other| one ^ other)?;
    let shift = |name: &'static str, act: fn(u32, u32) -> u32| {
        add(lua, &library, name, move |lua, values| {
            let bits = argument(lua, values, 0, name)?;
            Ok(shown(act(bits, argument(lua, values, 1, name)? & 31)))
        })
    };
    shift("lshift", |bits, by| bits << by)?;
    shift("rshift", |bits, by| bits >> by)?;
    shift("arshift", |bits, by| (bits.cast_signed() >> by).cast_unsigned())?;
    shift("rol", u32::rotate_left)?;
    shift("ror", u32::rotate_right)?;
    add(lua, &library, "tohex", |lua, values| {
        let bits = argument(lua, values, 0, "tohex")?;
        let digits = if values.len() < 2 { 8 } else { argument(lua, values, 1, "tohex")?.cast_signed() };
        Ok(hex(bits, digits))
    })?;
    Ok(library)
}

fn argument(lua: &Lua, values: &MultiValue, position: usize, function: &str) -> Outcome<u32> {
    Ok(bits(raising::number(lua, values.get(position), position + 1, function)?))
}

/// So many digits; in capital letters if their number is negative.
fn hex(bits: u32, digits: i32) -> String {
    let count = digits.unsigned_abs().min(8) as usize;
    let all = if digits < 0 { format!("{bits:08X}") } else { format!("{bits:08x}") };
    all[8 - count..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(shown(0x8000_0000), -2_147_483_648.0);
    }

    #[test]
    fn hex_has_as_many_digits_as_asked_for() {
        assert_eq!(hex(0xab, 8), "000000ab");
        assert_eq!(hex(0xab, -4), "00AB");
        assert_eq!(hex(0x1234_5678, 3), "678");
        assert_eq!(hex(1, 100), "00000001");
        assert_eq!(hex(1, 0), "");
    }
}
