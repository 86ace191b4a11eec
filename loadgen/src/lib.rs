//! A load generator for RESP servers: cheap enough to share a machine with the server it
//! measures, and honest about when a request *should* have been sent.
//!
//! - [`resp`]: the client's side of the protocol, shared with `experiments`.
//! - [`cli`], [`config`]: what to do. [`run()`], or [`run_ramp()`] at several rates: doing it. [`record`]: what came of
//!   it.
//! - [`report`]: JSON, tables and HDR histogram files. [`compare`]: such files side by side. [`merge`]: as one run.
//!
//! Inside, a run is `-t` threads (`driving`), each an event loop over its connections, fed by
//! [`requests`] (which command of the [`workload`], which key) and paced by the replies (closed loop) or by a
//! schedule (open loop). Each counts into a recorder, whose intervals the main thread
//! merges once a second. `model` knows the reply to each request, for `--verify`.
//!
//! The code map in loadgen/README.md says which of these modules may use which.

pub mod base;
pub mod cli;
pub mod compare;
pub mod config;
mod driving;
pub mod merge;
mod model;
pub mod record;
pub mod report;
pub mod requests;
pub mod resp;
pub mod workload;

pub use base::Error;
pub use driving::{Observer, io_uring_refusal, run, run_ramp};
