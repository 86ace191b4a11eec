//! Shardrace: a Redis-compatible in-memory server whose concurrency architecture is a flag.
//!
//! This is the server's inside, for its binary and its tests. Start at [`server::run`]; a request is read in
//! [`connection`], runs through an [`engine`] and a command of [`commands`] over the [`keyspace`], and is logged by
//! [`aof`].

// `as` cuts what does not fit without a word: see `narrowing`. In tests a length that was cut fails the test.
#![cfg_attr(not(test), warn(clippy::cast_possible_truncation))]

pub mod aof;
pub mod background;
mod buffers;
pub mod bus_error;
pub mod calls;
pub mod check_aof;
pub mod clients;
pub mod clock;
pub mod commands;
pub mod config;
mod config_file;
pub mod connection;
mod deferred;
pub mod docs;
pub mod engine;
pub mod eviction;
pub mod histogram;
pub mod hyperloglog;
pub mod import;
pub mod info;
pub mod keyspace;
pub mod latency;
pub mod limits;
pub mod listening;
pub mod log_switch;
pub mod logging;
pub mod memory;
mod monitor;
mod narrowing;
mod node_id;
mod parallel;
pub mod pause;
mod pid_file;
mod pool;
pub mod pubsub;
pub mod rdb;
mod replies;
pub mod resp;
pub mod rewriting;
pub mod routing;
pub mod save_points;
pub mod server;
pub mod slowlog;
pub mod spool;
pub mod stages;
pub mod stopping;
pub mod stream;
pub mod supervision;
pub mod ticks;
