//! The libraries that Redis adds to Lua: cjson, cmsgpack, struct and bit, and its random numbers.
//!
//! What each of them makes is that of Redis's, byte for byte; how deep values may lie within each other, and how large a
//! text may become, is bounded here.

mod bit;
mod cjson;
mod cmsgpack;
mod random;
mod structs;

pub use cjson::Config as JsonConfig;

use super::raising;
use mlua::{Lua, MultiValue, Result, Table};
use std::cell::RefCell;
use std::rc::Rc;

/// Why a library does not do what it is asked.
#[derive(Debug)]
enum Failure {
    /// In words.
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
    random::register(lua, native)
}

/// Bytes as Lua sees them: what a library has made is bounded.
fn check_size(bytes: usize) -> Outcome<()> {
    if bytes > super::MADE_MAX { Err(text("not enough memory")) } else { Ok(()) }
}
