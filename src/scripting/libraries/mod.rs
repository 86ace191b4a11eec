//! The libraries that Redis adds to Lua: cjson, cmsgpack, struct and bit, and its random numbers.
//!
//! Their results equal Redis's, byte for byte; the nesting of values, and the size of a text, are bounded here.

mod bit;
mod cjson;
mod cmsgpack;
mod math_random;
mod structs;

pub use cjson::Config as JsonConfig;

use super::raising;
use mlua::{Lua, MultiValue, Result, Table};
use std::cell::RefCell;
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

/// Adds the libraries to `native`.
pub fn register(lua: &Lua, native: &Table, json: &Rc<RefCell<JsonConfig>>) -> Result<()> {
    let libraries = lua.create_table()?;
    libraries.raw_set("bit", bit::library(lua)?)?;
    libraries.raw_set("cjson", cjson::library(lua, json)?)?;
    libraries.raw_set("cmsgpack", cmsgpack::library(lua)?)?;
    libraries.raw_set("struct", structs::library(lua)?)?;
    native.raw_set("libraries", libraries)?;
    math_random::register(lua, native)
}

/// Bytes for Lua: the results of a library are bounded.
fn check_size(bytes: usize) -> Outcome<()> {
    if bytes > super::MADE_MAX { Err(text("not enough memory")) } else { Ok(()) }
}
