//! The scripts and the functions of one server.

use super::busy::Busy;
use super::functions::{Functions, Libraries};
use super::script_cache::Registry;
use crate::base::randomness::Randomness;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The scripts and functions that the threads of one server share. Each thread has an interpreter, which knows its
/// server.
#[derive(Debug, Default)]
pub struct Scripting {
    /// The known scripts.
    pub scripts: Registry,
    /// The libraries of functions.
    pub functions: Functions,
    /// The running scripts, and whether any has run for too long.
    pub busy: Arc<Busy>,
    /// What `math.random` of each thread begins with.
    pub(super) randomness: Randomness,
    /// Bytes in use by the Lua states of all threads, each at the end of its last script.
    lua_bytes: AtomicUsize,
}

impl Scripting {
    /// No scripts yet.
    pub fn new(randomness: Randomness) -> Self {
        Self { randomness, ..Self::default() }
    }

    /// Begins with the libraries of these sources, which are on the disk already. The error says why one is invalid.
    pub fn load_functions<'a>(self: &Arc<Self>, sources: impl Iterator<Item = &'a [u8]>) -> Result<(), String> {
        let libraries =
            Libraries::of(self, sources, false).map_err(|error| error.trim_start_matches("ERR ").to_owned())?;
        self.functions.change(
            |current| {
                *current = libraries;
                Ok(())
            },
            |_| Ok(()),
        )
    }

    /// Bytes in use by the Lua states of all threads, each at the end of its last script.
    pub fn lua_bytes(&self) -> usize {
        self.lua_bytes.load(Ordering::Relaxed)
    }

    /// Records the bytes that a state has in use, and replaces its last record.
    pub(super) fn note_lua_bytes(&self, now: usize, before: usize) {
        self.lua_bytes.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
    }
}
