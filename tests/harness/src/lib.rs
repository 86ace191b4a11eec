//! Servers to test, sockets to test them through, and the oracle that knows Redis's replies: what the tests over the
//! wire, of consistency, crashes, random requests and hostile input have in common.

// A test that cannot continue panics with the reason.
#![allow(clippy::unwrap_used, missing_docs)]

mod authority;
mod client;
mod flow;
pub mod generator;
mod oracle;
mod proxy;
mod script;
pub mod server;
mod value;

pub use authority::{Authority, Signed, TlsClient, free_port, of_version_1};
pub use client::{Client, DEADLINE, request, script_of};
pub use flow::{check_flow, check_flow_of_7_2};
pub use oracle::RedisOracle;
pub use proxy::Proxy;
pub use script::{check_same_as_redis, check_script, same_in_any_order, words};
pub use server::{
    Data, EVERY_BATCHING, EVERY_ENGINE, EVERY_PLACEMENT, Embedded, Ended, Endpoint, Server, Setup, another_batching,
    arguments, binary, on_every_engine, on_every_engine_at_once, on_every_process, other_placements, run_to_its_end,
};
pub use value::Value;

use std::time::{Duration, Instant};

/// Polls until `condition` holds; panics if it does not before the deadline.
pub fn wait_until(what: &str, condition: impl FnMut() -> bool) {
    wait_until_within(DEADLINE, what, condition);
}

/// The same for conditions that take long.
#[track_caller]
pub fn wait_until_within(limit: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < limit, "{what}: not within {limit:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A number from the environment, for the length of tests that may run long; `SOAK=1` multiplies the default by 50.
pub fn effort(variable: &str, default: usize) -> usize {
    let read = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<usize>().ok());
    let soak = if read("SOAK").unwrap_or(0) > 0 { 50 } else { 1 };
    read(variable).unwrap_or(default * soak)
}

/// The seed of a random test: `SEED` of the environment, or a new one. Printed, so that a failure can be repeated.
pub fn seed() -> u64 {
    let given = std::env::var("SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    println!("SEED={seed}");
    seed
}
