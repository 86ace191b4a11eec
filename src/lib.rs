//! Shardrace: a Redis-compatible in-memory server whose concurrency architecture is a flag.
//!
//! [`Server::start`] runs one within another program: an embedded Redis for tests.
//!
//! The rest is internal. Start at `server::run`; a request is read in `connection`, runs through an `engine` and a
//! command of `commands` over the `keyspace`, and is logged by `aof`. docs/ARCHITECTURE.md has the map of the rooms.

// Links between rooms are for their developers.
#![allow(rustdoc::private_intra_doc_links)]
// `as` truncates silently: see `narrowing`. In tests a truncated length fails the test.
#![cfg_attr(not(test), warn(clippy::cast_possible_truncation))]

mod acl;
mod aof;
mod base;
mod commands;
mod config;
mod connection;
#[cfg(feature = "scaling")]
mod drive;
mod engine;
mod keyspace;
mod pubsub;
mod rdb;
mod replication;
mod resp;
mod scripting;
mod server;
mod snapshot;
mod state;
mod stats;
mod tools;

pub use config::Config;
pub use server::EmbeddedServer as Server;

/// What the binaries and the tests of this repository use of the rooms. It changes as they do.
#[doc(hidden)]
pub mod internals {
    pub mod aof {
        pub use crate::aof::{
            DirLock, Disk, Frame, LogFile, Manifest, MappedFile, Mapping, Salt, Scan, SystemDisk, cross_shard_payload,
            decode, frame_cross_shard_onto, frame_onto, settle,
        };
    }
    pub mod base {
        pub use crate::base::allocator::ALLOCATOR;
        pub use crate::base::clock::Clock;
        pub use crate::base::network::{
            Acceptor, Address, Arrival, Connecting, Listener, Network, Stream, SystemNetwork, Transport,
        };
        pub use crate::base::randomness::Randomness;
        pub use crate::base::routing::shard_of;
        pub use crate::base::runtime::has_ended;
        pub use crate::base::tasks::{Scheduler, Tasks};
    }
    pub mod config {
        pub use crate::config::{CommandLineEnd, logging};
    }
    #[cfg(feature = "scaling")]
    pub mod drive {
        pub use crate::drive::{Options, run};
    }
    pub mod keyspace {
        pub use crate::keyspace::{Element, Intset, Listpack, Settings, choose_hash_seed};
    }
    pub mod rdb {
        pub use crate::rdb::{dump_exactly, read_file, undump};
    }
    pub mod resp {
        pub use crate::resp::{Limits, ProtocolError, RequestParser, Step, split_line};
    }
    pub mod scripting {
        pub use crate::scripting::{sha_of, static_calls};
    }
    pub mod server {
        pub use crate::server::{Platform, daemon, run, run_within};
    }
    pub mod tools {
        pub use crate::tools::{check_aof, import, output};
    }
}
