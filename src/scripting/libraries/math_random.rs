//! `math.random` and `math.randomseed`: the generator of `drand48`, so that a seed means the same everywhere. Without a
//! seed each thread draws its own numbers.

use super::{Failure, Outcome, add};
use crate::base::randomness::Randomness;
use crate::scripting::raising::{self, truncated};
use mlua::{Lua, MultiValue, Result, Table};
use std::cell::Cell;
use std::rc::Rc;

const MULTIPLIER: u64 = 0x5_deec_e66d;
const ADDEND: u64 = 0xb;
const MASK: u64 = (1 << 48) - 1;

fn seeded(seed: u32) -> u64 {
    u64::from(seed) << 16 | 0x330e
}

/// The next state, and 31 random bits of it.
fn next(state: u64) -> (u64, u64) {
    let state = state.wrapping_mul(MULTIPLIER).wrapping_add(ADDEND) & MASK;
    (state, state >> 17)
}

/// Adds the functions to `native`.
pub fn register(lua: &Lua, native: &Table, randomness: &Randomness) -> Result<()> {
    let state = Rc::new(Cell::new(seeded(randomness.generator().u32(..))));
    let its = Rc::clone(&state);
    add(lua, native, "random", move |lua, values| random(lua, values, &its))?;
    add(lua, native, "randomseed", move |lua, values| {
        let seed = integer(lua, values, 0, "randomseed")?;
        state.set(seeded(seed.cast_unsigned()));
        Ok(())
    })
}

fn random(lua: &Lua, values: &MultiValue, state: &Cell<u64>) -> Outcome<f64> {
    const END: u64 = i32::MAX as u64;
    let (following, bits) = next(state.get());
    state.set(following);
    #[expect(clippy::cast_precision_loss, reason = "31 bits")]
    let part = (bits % END) as f64 / END as f64;
    match values.len() {
        0 => Ok(part),
        1 => {
            let last = integer(lua, values, 0, "random")?;
            let is_empty = last < 1;
            if is_empty { Err(Failure::Argument(1, "interval is empty".into())) } else { Ok(within(part, 1, last)) }
        }
        2 => {
            let (first, last) = (integer(lua, values, 0, "random")?, integer(lua, values, 1, "random")?);
            let is_empty = first > last;
            if is_empty { Err(Failure::Argument(2, "interval is empty".into())) } else { Ok(within(part, first, last)) }
        }
        _ => Err(super::text("wrong number of arguments")),
    }
}

fn within(part: f64, first: i32, last: i32) -> f64 {
    let count = last.wrapping_sub(first).wrapping_add(1);
    (part * f64::from(count)).floor() + f64::from(first)
}

/// An argument as an `int` of C.
fn integer(lua: &Lua, values: &MultiValue, position: usize, function: &str) -> Outcome<i32> {
    let number = truncated(raising::number(lua, values.get(position), position + 1, function)?);
    #[expect(clippy::cast_possible_truncation, reason = "as C does")]
    let narrow = number as i32;
    Ok(narrow)
}

// A test that cannot continue panics with the reason.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_the_numbers_of_drand48() {
        // The result of `srand48(0); lrand48()` in C.
        let (state, first) = next(seeded(0));
        assert_eq!((first, next(state).1), (366_850_414, 1_610_402_240));
    }

    #[test]
    fn states_without_a_seed_draw_numbers_of_their_own() {
        let drawn = || {
            let lua = Lua::new();
            let native = lua.create_table().unwrap();
            register(&lua, &native, &Randomness::System).unwrap();
            native.raw_get::<mlua::Function>("random").unwrap().call::<f64>(()).unwrap()
        };
        assert_ne!(drawn(), drawn());
    }
}
