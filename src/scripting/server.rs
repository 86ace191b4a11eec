//! The scripts and the functions of one server.

use super::busy::Busy;
use super::functions::{Functions, Libraries};
use super::registry::Registry;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What the scripts of one server have in common. Its threads have an interpreter each, which knows whose it is.
#[derive(Debug, Default)]
pub struct Scripting {
    /// The scripts that are known.
    pub scripts: Registry,
    /// The libraries of functions.
    pub functions: Functions,
    /// What runs, and whether it does for too long.
    pub busy: Arc<Busy>,
    /// Bytes that the states of Lua of all threads had in use when each last ended a script.
    lua_bytes: AtomicUsize,
}

impl Scripting {
    /// Begins with the libraries of these sources, which are kept already. The error says what is wrong with one.
    pub fn load_functions<'a>(self: &Arc<Self>, sources: impl Iterator<Item = &'a [u8]>) -> Result<(), String> {
        let libraries = Libraries::of(self, sources).map_err(|error| error.trim_start_matches("ERR ").to_owned())?;
        self.functions.change(
            |current| {
                *current = libraries;
                Ok(())
            },
            |_| Ok(()),
        )
    }

    /// Bytes that the states of Lua of all threads had in use when each last ended a script.
    pub fn lua_bytes(&self) -> usize {
        self.lua_bytes.load(Ordering::Relaxed)
    }

    /// Notes that a state has so many bytes in use, and had so many when it noted them last.
    pub(super) fn note_lua_bytes(&self, now: usize, before: usize) {
        self.lua_bytes.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
    }
}
