//! `--verify`: what every reply must be, from a model of the keys.
//!
//! So that each reply has exactly one right answer, every connection is restricted to its own keys (the pattern still
//! chooses, and the chosen key is replaced by the nearest one of the connection's), and all keys are deleted before the
//! run, or set by `--prefill`. Values begin with a stamp of key and version, so an old value, or another key's, is
//! detected.
//!
//! The expected reply itself is not kept, only its hash (FNV-1a) when the request is made.
//!
//! [`Model`] is for SETs and GETs, and small enough for many keys; [`Mirror`] is for the commands of
//! workload files.

mod expected;
mod mirror;
mod pairs;

pub(crate) use expected::Expected;
pub(crate) use mirror::Mirror;
pub(crate) use pairs::{Model, PrefillSizes, first_version};
