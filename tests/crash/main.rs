//! The effects of kills and power losses: many clients write, the server is killed at random, the files perhaps lose
//! what was not synced, and the data that a new server recovers is compared with the replies of the clients.
//!
//! | module | what it is |
//! |---|---|
//! | `book`, `tracking` | a disk that keeps book of what was synced, files and names, and what a power loss leaves of it |
//! | `process` | the server on such a disk: this executable once more |
//! | `model`, `history` | what clients do, what they were told, and what must be left of it |
//! | `crashes` | the loop, on every engine under every policy; and that it finds what it must find |
//! | `failing` | EIO, ENOSPC and short writes at every call, where the server has to end |
//! | `slow` | an fsync that takes seconds |
//! | `loading` | what is replied while the log is read |
//! | `order` | no reply before its fsync, as strace sees it |
//!
//! Short by default; `SOAK=1 SOAK_SECONDS=n` for n seconds per test. `SEED=n` repeats the choices.

// A test that cannot continue panics with the reason.
#![allow(clippy::unwrap_used, missing_docs)]

mod book;
mod crashes;
mod failing;
mod history;
mod loading;
mod model;
mod order;
mod process;
mod slow;
mod tracking;
