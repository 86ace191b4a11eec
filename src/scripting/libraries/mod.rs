//! The libraries that Redis adds to Lua: cjson, cmsgpack, struct and bit, and its random numbers.
//!
//! Their results equal Redis's, byte for byte; the nesting of values, and the size of a text, are bounded here.

mod bit;
mod cjson;
mod cmsgpack;
mod math_random;
mod structs;

pub use cjson::Config as JsonConfig;

use super::busy::{TheWatchdog, Watchdog};
use super::calls::Shared;
use super::natives;
use super::raising;
use crate::base::randomness::Randomness;
use mlua::{Lua, MultiValue, Result, Table};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Why a library function fails.
#[derive(Debug)]
enum Failure {
    /// A message.
    Text(String),
    /// An argument is wrong: its number, and how.
    Argument(usize, String),
    /// Lua itself has failed.
    Lua(mlua::Error),
}

impl From<mlua::Error> for Failure {
    fn from(error: mlua::Error) -> Self {
        Self::Lua(error)
    }
}

type Outcome<T> = std::result::Result<T, Failure>;

fn text(text: impl Into<String>) -> Failure {
    Failure::Text(text.into())
}

/// Adds a function to a library.
fn add<R: mlua::IntoLuaMulti>(
    lua: &Lua,
    library: &Table,
    name: &'static str,
    function: impl Fn(&Lua, &MultiValue) -> Outcome<R> + 'static,
) -> Result<()> {
    let function = lua.create_function(move |lua, values: MultiValue| {
        function(lua, &values).map_err(|failure| match failure {
            Failure::Text(text) => raising::error(lua, text),
            Failure::Argument(number, reason) => raising::bad_argument(lua, number, name, &reason),
            Failure::Lua(error) => error,
        })
    })?;
    library.raw_set(name, function)
}

/// Looks at the time of the running script now and then, in functions that may take long.
#[derive(Clone, Default)]
struct Pacer {
    watchdog: TheWatchdog,
    steps: Rc<Cell<u32>>,
}

/// Steps between two looks: a value is a step.
const STEPS_PER_LOOK: u32 = 1024;

impl Pacer {
    /// To be called for each step. Fails if the script must end.
    fn step(&self) -> Outcome<()> {
        let steps = self.steps.get().wrapping_add(1);
        self.steps.set(steps);
        if !steps.is_multiple_of(STEPS_PER_LOOK) {
            return Ok(());
        }
        let found = self.watchdog.borrow().as_ref().map_or(Ok(()), Watchdog::look);
        found.map_err(|reason| Failure::Lua(raising::reply(reason, false)))
    }
}

/// Adds the libraries to `native`.
pub fn register(
    lua: &Lua,
    native: &Table,
    json: &Rc<RefCell<JsonConfig>>,
    shared: &Rc<Shared>,
    randomness: &Randomness,
) -> Result<()> {
    let pacer = Pacer { watchdog: Rc::clone(&shared.watchdog), steps: Rc::default() };
    let libraries = lua.create_table()?;
    for (name, functions) in [("bit", &bit::FUNCTIONS[..]), ("struct", &structs::FUNCTIONS)] {
        let library = lua.create_table()?;
        natives::add(lua, &library, functions, shared)?;
        libraries.raw_set(name, library)?;
    }
    libraries.raw_set("cjson", cjson::library(lua, json, &pacer)?)?;
    libraries.raw_set("cmsgpack", cmsgpack::library(lua, &pacer)?)?;
    native.raw_set("libraries", libraries)?;
    math_random::register(lua, native, randomness)
}

/// Bytes for Lua: the results of a library are bounded.
fn check_size(bytes: usize) -> Outcome<()> {
    if bytes > super::MADE_MAX { Err(text("not enough memory")) } else { Ok(()) }
}

// A test that cannot continue panics with the reason.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::scripting::busy::{Busy, Registered};
    use std::sync::Arc;

    const CALLS: [&str; 4] = [
        "cjson.encode(values)",
        "cjson.decode('[' .. ('1,'):rep(3000) .. '1]')",
        "cmsgpack.pack(values)",
        r"cmsgpack.unpack('\220\11\184' .. ('\1'):rep(3000))",
    ];

    #[test]
    fn a_killed_script_ends_within_a_call_of_a_library() {
        let (lua, busy) = (Lua::new(), Arc::<Busy>::default());
        // Scripts are never busy: any can be killed.
        busy.set_threshold_ms(0);
        let watchdog = TheWatchdog::default();
        let pacer = Pacer { watchdog: Rc::clone(&watchdog), steps: Rc::default() };
        lua.globals().set("cjson", cjson::library(&lua, &Rc::default(), &pacer).unwrap()).unwrap();
        lua.globals().set("cmsgpack", cmsgpack::library(&lua, &pacer).unwrap()).unwrap();
        lua.load("values = {} for i = 1, 3000 do values[i] = i end").exec().unwrap();
        let run =
            |call: &str| lua.load(format!("return (pcall(function() return {call} end))")).eval::<bool>().unwrap();
        for call in CALLS {
            assert!(run(call), "{call}");
        }
        let place = Registered::new(&busy);
        *watchdog.borrow_mut() = Some(Watchdog::of_script(&place, [b'a'; 40]));
        busy.kill(false).unwrap();
        for call in CALLS {
            assert!(!run(call), "{call}");
        }
    }
}
