//! References: what the server does not have, driven in the same way, to compare the engines with.
//!
//! | name | what it is |
//! |---|---|
//! | `ref-mutex`, `ref-std-mutex` | the keyspace under parking_lot's mutex, or std's |
//! | `ref-combining` | flat combining over the keyspace ([`combining`]) |
//! | `ref-delegation` | a thread that owns the keyspace and serves slots, as ffwd and RCL do ([`delegation`]) |
//! | `map-mutex`, `map-std-mutex` | a plain hash map under a mutex ([`maps`]) |
//! | `map-rwlock`, `map-std-rwlock` | the same under a lock that readers share |
//!
//! All of them parse before they take the lock, run the commands of a batch under one acquisition (with `--batching
//! command` under one for each), and prefetch nodes as the engines do. All yield to other connections after a batch, as
//! the sessions of the mutex and dashmap engines do.
//!
//! Those over the keyspace run the server's own commands. They leave out: the bound on how long a batch may hold the
//! lock, the log and its positions, events of keys, and the sampling of stages. Those over a map leave out the keyspace
//! too: types, deadlines, databases, memory limits, the counts of commands; they have GET, SET, MGET and MSET.

mod combining;
mod delegation;
mod keyspace;
mod locks;
mod maps;
mod requests;
mod under_lock;

use super::measure::{Found, measure as measure_with, start_runtime};
use super::options::Options;
use combining::Combining;
use delegation::Delegation;
use keyspace::{Locked, Owned};
use maps::{Mapped, Table};
use std::sync::Arc;

/// Measures the reference that `options` name.
pub fn measure(options: &Options) -> Result<Found, String> {
    let owned = || Owned::new(options);
    match options.engine.as_str() {
        "ref-mutex" => drive(options, Locked::begin(options, parking_lot::Mutex::new(owned()))),
        "ref-std-mutex" => drive(options, Locked::begin(options, std::sync::Mutex::new(owned()))),
        "ref-combining" => {
            // The connection that fills the keyspace has a slot, too.
            let slots = options.threads * options.connections + 1;
            drive(options, Combining::begin(options, owned(), slots))
        }
        "map-mutex" => drive(options, Mapped::begin(options, parking_lot::Mutex::new(Table::default()))),
        "map-std-mutex" => drive(options, Mapped::begin(options, std::sync::Mutex::new(Table::default()))),
        "map-rwlock" => drive(options, Mapped::begin(options, parking_lot::RwLock::new(Table::default()))),
        "map-std-rwlock" => drive(options, Mapped::begin(options, std::sync::RwLock::new(Table::default()))),
        "ref-delegation" => delegate(options),
        other => Err(format!("there is no {other}")),
    }
}

fn drive<C: super::connection::Client>(options: &Options, mut begin: impl FnMut() -> C) -> Result<Found, String> {
    let runtime = start_runtime(options, options.threads, 0)?;
    let found = measure_with(options, std::slice::from_ref(&runtime), options.threads, |_| begin(), || ())?;
    runtime.shutdown_background();
    Ok(found)
}

/// The first core is the server's.
fn delegate(options: &Options) -> Result<Found, String> {
    let workers = options.threads - 1;
    let runtime = start_runtime(options, workers, 1)?;
    let delegation = Arc::new(Delegation::new(workers * options.connections + 1));
    let server = delegation.start(options)?;
    let mut begin = delegation.begin(options);
    let found = measure_with(options, std::slice::from_ref(&runtime), workers, |_| begin(), || ());
    runtime.shutdown_background();
    delegation.end();
    server.join().map_err(|_| "the server of delegation has panicked".to_owned())?;
    found
}
