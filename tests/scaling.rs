//! The driver without sockets finds a cost that is planted under the lock of one engine, there and in no other.
//!
//! This is the short form: a cost that is many times a batch, since debug builds on machines that do other things show
//! no small one. `make scaling-planted` plants 100 ns and measures with intervals.

use std::process::Command;

/// Nanoseconds that are wasted under the lock.
const PLANTED_NS: u64 = 300_000;

/// Nanoseconds that a thread takes for a batch of one request.
fn batch_ns(engine: &str, threads: u64, planted_ns: u64) -> f64 {
    let output = Command::new(env!("CARGO_BIN_EXE_shardrace-scaling"))
        .args(["--engine", engine, "--threads", &threads.to_string(), "--batch", "1", "--keys", "100"])
        .args(["--connections", "2", "--seconds", "0.3", "--warm-up", "0.05"])
        .env("SHARDRACE_PLANTED_HELD_NS", planted_ns.to_string())
        .output()
        .expect("the driver is built beside its tests");
    let line = String::from_utf8(output.stdout).expect("it prints text");
    let number = |field: &str| {
        let (_, rest) = line.split_once(&format!("\"{field}\":")).unwrap_or_else(|| panic!("no {field}: {line}"));
        rest[..rest.find([',', '}']).expect("a value ends")].parse::<f64>().expect("it is a number")
    };
    threads as f64 * number("seconds") * 1e9 / number("batches")
}

#[test]
fn a_cost_under_the_lock_is_found_in_its_engine_and_counts_once_for_each_thread() {
    let planted = PLANTED_NS as f64;
    let more = batch_ns("mutex", 1, PLANTED_NS) - batch_ns("mutex", 1, 0);
    assert!(more > planted * 0.8, "{more} ns more, of {planted}");
    // Two threads cannot waste it at the same time: a thread waits for the other's.
    let more = batch_ns("mutex", 2, PLANTED_NS) - batch_ns("mutex", 2, 0);
    assert!(more > planted * 1.6, "{more} ns more, of {planted} twice");
}

#[test]
fn a_cost_under_the_lock_of_one_engine_is_not_found_in_others() {
    for engine in ["dashmap", "actor", "ref-mutex"] {
        let with = batch_ns(engine, 1, PLANTED_NS);
        assert!(with < PLANTED_NS as f64, "{engine}: {with} ns");
    }
}
