//! Shardrace: a Redis-compatible in-memory server whose concurrency architecture is a flag.
//!
//! [`Server::start`] runs one within another program: an embedded Redis for tests.
//!
//! The rest is internal, for the binary and the tests, which use the public rooms. Start at [`server::run`]; a request
//! is read in `connection`, runs through an `engine` and a command of `commands` over the [`keyspace`], and is logged
//! by [`aof`]. docs/ARCHITECTURE.md has the map of the rooms.

// `as` truncates silently: see `narrowing`. In tests a truncated length fails the test.
#![cfg_attr(not(test), warn(clippy::cast_possible_truncation))]

pub mod aof;
pub mod base;
mod commands;
pub mod config;
mod connection;
#[cfg(feature = "scaling")]
pub mod drive;
mod engine;
pub mod keyspace;
mod pubsub;
pub mod rdb;
mod replication;
pub mod resp;
pub mod scripting;
pub mod server;
mod snapshot;
mod state;
mod stats;
pub mod tools;

pub use config::Config;
pub use server::EmbeddedServer as Server;
