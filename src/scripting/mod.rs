//! Scripts: Redis's Lua, each script one step over every shard.
//!
//! EVAL and the like are rows of the command table like any other; their function (`commands/scripting.rs`) finds the
//! script here and runs it over the keyspace that it was lent: all of it, or only its keys if it is proved to touch no
//! others. Commands that the script calls go through the command table again. So a script is like an EXEC whose queue
//! is decided while it runs: it is atomic, isolated, and logged as one record of effects, for the same reasons.
//!
//! | room | what it is |
//! |---|---|
//! | `script_cache` | the scripts that are known, by their SHA1; shared by all threads |
//! | `functions` | the libraries of functions, by name; shared by all threads |
//! | `prover` | the commands that a script calls, as far as its source shows them |
//! | `interpreter` | a thread's Lua: compiles scripts and runs them |
//! | `sandbox.lua` | the part of Lua that a script sees: no table that outlives it can be changed |
//! | `calls` | the commands that a script calls |
//! | `natives` | functions of C: what runs a script, what calls commands, and those that are short and called often |
//! | `stack` | Lua's stack, for those |
//! | `conversions` | replies into Lua's values, and back |
//! | `raising` | errors of Rust's functions as scripts see them, and those of functions of C |
//! | `patterns` | Lua's patterns, with bounds on depth and time |
//! | `table_functions` | `table.insert` and `table.concat`, with bounds on time |
//! | `libraries` | cjson, cmsgpack, struct and bit; `math_random`, which is `math.random` |
//! | `busy` | scripts that run for too long |
//! | `server_scripts` | the parts of this that belong to one server |

pub mod busy;
mod calls;
mod conversions;
mod functions;
mod interpreter;
mod libraries;
mod natives;
mod pacing;
mod patterns;
mod prover;
mod raising;
mod script_cache;
mod server_scripts;
mod stack;
mod table_functions;

pub use calls::Calls;
pub use functions::{ChangeListener, Libraries, Library};

pub use interpreter::{Finished, Program, check, run};
pub use prover::{PROVABLE_MAX, StaticCall, static_calls};
pub use script_cache::{Script, ScriptFlags, Sha, sha_of};
pub use server_scripts::Scripting;

/// The most bytes of a text that a Rust function makes for a script: as many as Lua has memory.
const MADE_MAX: usize = 256 * 1024 * 1024;
/// The most bytes of a reply.
const REPLY_MAX: usize = 512 * 1024 * 1024;
