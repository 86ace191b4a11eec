//! What a client can see, over the wire, on every engine: real servers, real sockets, and a real redis-server beside
//! them as the reference.
//!
//! One crate of modules, so that it links once. What starts servers and speaks to them is the crate `harness`
//! (tests/harness).

// A test that cannot continue panics with the reason.
#![allow(clippy::unwrap_used, missing_docs)]

mod acl;
mod administration;
#[cfg(feature = "jemalloc")]
mod allocations;
mod appendonly;
mod batching;
mod bits;
mod blocking;
mod check_aof;
mod client_eviction;
mod clients;
mod clock;
mod cluster;
mod configuration;
mod connections;
mod conversation;
mod databases;
mod debug;
mod durability;
mod encodings;
#[cfg(feature = "jemalloc")]
mod eviction;
mod expiry;
mod files;
mod flows;
mod freeing;
mod functions;
mod geo;
mod hashes;
mod hostile;
mod hostile_scripts;
mod hyperloglog;
mod info;
mod introspection;
mod keys;
mod large_requests;
mod lengthy;
mod lists;
mod migration;
mod newer_versions;
mod notifications;
mod observing;
mod order;
mod placement;
#[cfg(feature = "planted-cost")]
mod planted;
mod process;
mod pubsub;
mod randomness;
mod rdb;
mod redis_directories;
mod replays;
mod replica;
mod replication;
mod rewriting;
mod save_points;
mod scripting;
mod sets;
mod several;
mod slow_readers;
mod sort;
mod sorted_sets;
mod stages;
mod streams;
mod strings;
mod tls;
mod tracking;
mod transactions;
mod waiting;
