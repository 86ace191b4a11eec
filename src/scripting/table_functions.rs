//! Functions of `table` that handle many elements in one call, and so look at the time meanwhile.

use super::natives::{Call, Native};
use super::raising::{self, Failed, Outcome, Words};
use super::stack::{Gathered, Plain, Stack};
use std::ffi::c_int;

/// The functions of `native`.
pub static FUNCTIONS: [Native; 2] = [Native { name: "insert", run: insert }, Native { name: "concat", run: concat }];

const TABLE: c_int = 1;
/// Places before a table that an insertion may name: it moves as many elements that are not there.
const BEFORE_MAX: f64 = 1_000_000.0;
/// After this many elements the time is looked at: making a text of a number takes a quarter of a microsecond.
const LOOK_EVERY: c_int = 1 << 14;

fn insert(call: Call<'_>) -> Outcome<c_int> {
    let stack = call.stack;
    check_table(stack)?;
    let end = stack.elements(TABLE).saturating_add(1);
    let place = match stack.len() {
        2 => end,
        3 => place_at(stack, 2)?,
        _ => return Err("wrong number of arguments to 'insert'".into()),
    };
    for moved in (place.saturating_add(1)..=end).rev() {
        stack.push_element(TABLE, moved - 1);
        stack.set_element_of(TABLE, moved);
        look_now_and_then(call, moved)?;
    }
    stack.set_element_of(TABLE, place);
    Ok(0)
}

fn concat(call: Call<'_>) -> Outcome<c_int> {
    let stack = call.stack;
    let separator = if stack.is_missing(2) { &[] } else { raising::text_at(stack, 2)? };
    check_table(stack)?;
    let first = integer_at_or(stack, 3, 1.0)?;
    let last = integer_at_or(stack, 4, f64::from(stack.elements(TABLE)))?;
    let mut joined = Gathered::new(stack);
    for place in first..=last {
        stack.push_element(TABLE, place);
        let Some(text) = stack.text(-1) else {
            let kind = stack.type_name(-1);
            let why = format_args!("invalid value ({kind}) at index {place} in table for 'concat'");
            return Err(Failed::Text(Words::from(why)));
        };
        joined.extend(text);
        if place < last {
            joined.extend(separator);
        }
        stack.pop();
        look_now_and_then(call, place)?;
    }
    joined.push();
    call.note_made(joined.len());
    Ok(1)
}

fn check_table(stack: Stack) -> Outcome<()> {
    if stack.plain(TABLE) == Plain::Table { Ok(()) } else { Err(Failed::Type(TABLE, "table")) }
}

fn look_now_and_then(call: Call<'_>, place: c_int) -> Outcome<()> {
    if place % LOOK_EVERY == 0 { call.shared.look().map_err(|_| Failed::End) } else { Ok(()) }
}

/// An argument as a place in a table.
fn place_at(stack: Stack, number: c_int) -> Outcome<c_int> {
    let place = raising::number_at(stack, number)?;
    if !(-BEFORE_MAX..=f64::from(c_int::MAX)).contains(&place) {
        return Err("position out of bounds".into());
    }
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
    Ok(place as c_int)
}

/// An argument as an integer, as Lua's own function reads it.
fn integer_at_or(stack: Stack, number: c_int, default: f64) -> Outcome<c_int> {
    let wide = raising::truncated(raising::number_at_or(stack, number, default)?);
    #[expect(clippy::cast_possible_truncation, reason = "as C does")]
    Ok(wide as c_int)
}
