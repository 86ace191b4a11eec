//! A load generator for RESP servers: cheap enough to share a machine with the server it
//! measures, and honest about when a request *should* have been sent.
//!
//! - [`resp`]: the client's side of the protocol, shared with `experiments`.
//! - [`config`], [`cli`]: what to do. [`run()`]: doing it. [`outcome`]: what came of it.
//! - [`ramp`]: several rates, one after the other.
//! - [`report`]: JSON, tables and HDR histogram files. [`compare`]: such files side by side.
//!
//! Inside, a run is `-t` threads (`worker`), each an event loop over its connections, fed by a
//! [`workload`] (which command, which key) and paced by the replies (closed loop) or by a
//! [`schedule`] (open loop). Each counts into a [`record`]er, whose intervals the main thread
//! merges once a second.

pub mod cli;
pub mod commands;
pub mod compare;
pub mod config;
mod cpu;
pub mod dump;
mod error;
mod event_loop;
pub mod foreign;
pub mod health;
pub mod interrupt;
pub mod io;
pub mod keys;
pub mod merge;
mod mirror;
mod multi_key;
pub mod outcome;
mod prefill;
pub mod ramp;
pub mod record;
pub mod report;
pub mod resp;
mod run;
pub mod schedule;
mod storm;
mod timer;
pub mod values;
mod verify;
mod worker;
pub mod workload;

pub use error::Error;
pub use run::{Observer, run};
