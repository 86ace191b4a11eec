//! Scripts: Redis's Lua, each script one step over every shard.
//!
//! EVAL and its kin are rows of the command table like any other; their function (`commands/scripting.rs`) finds the
//! script here and runs it over the keyspace that it was lent: all of it, or that of its keys where it is proved to touch
//! no others. What the script calls goes through the command table again. So a script is an EXEC whose queue is decided while it runs: it is atomic, isolated, and
//! logged as one record of effects, for the same reasons.
//!
//! | room | what it is |
//! |---|---|
//! | `registry` | the scripts that are known, by their SHA1; shared by all threads |
//! | `functions` | the libraries of functions, by name; shared by all threads |
//! | `prover` | what a script calls, as far as its source shows that |
//! | `interpreter` | a thread's Lua: compiles scripts and runs them |
//! | `sandbox.lua` | what a script sees of Lua: no table that outlives it can be changed |
//! | `conversions` | replies into Lua's values, and back |
//! | `raising` | errors of Rust's functions as scripts see them |
//! | `patterns` | Lua's patterns, with bounds on depth and time |
//! | `libraries` | cjson, cmsgpack, struct and bit |
//! | `busy` | scripts that run for too long |
//! | `server` | what of this a server has for itself |

pub mod busy;
mod conversions;
mod functions;
mod interpreter;
mod libraries;
mod patterns;
mod prover;
mod raising;
mod registry;
mod server;

pub use functions::{Libraries, Library, Watcher};
pub use interpreter::{Calls, Finished, Program, check, run};
pub use prover::{PROVABLE_MAX, StaticCall, static_calls};
pub use registry::{Script, ScriptFlags, Sha, sha_of};
pub use server::Scripting;

/// Bytes of a text that a function of Rust makes for a script at most: as many as Lua has memory.
const MADE_MAX: usize = 256 * 1024 * 1024;
/// Bytes of a reply at most.
const REPLY_MAX: usize = 512 * 1024 * 1024;
