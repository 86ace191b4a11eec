//! Coordinated omission: a server with a known stall, and the percentiles that follow from it.

#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::{Behaviour, Stub, by, measure, ways};

const STALL_MS: f64 = 500.0;
const STALL_AT: u64 = 500;
const RATE: f64 = 1000.0;
const REQUESTS: f64 = 2000.0;

/// Requests are due every 1/RATE. Those due during the stall wait for its end, so their latencies
/// fall from STALL_MS in steps of 1/RATE: the n-th largest is STALL_MS - (n - 1) * 1000 / RATE. All
/// others are served at once.
fn calculated_percentile_ms(percentile: f64) -> f64 {
    let above = (REQUESTS * (1.0 - percentile / 100.0)).round();
    STALL_MS - above * 1000.0 / RATE
}

fn assert_corrected(io: &str, clients: &str, threads: &str) {
    let stub = Stub::start(Behaviour {
        stall: Some((STALL_AT, Duration::from_millis(STALL_MS as u64))),
        ..Behaviour::default()
    });
    let (rate, requests) = (RATE.to_string(), REQUESTS.to_string());
    let json = measure(&stub, &by(io, &["-c", clients, "-t", threads, "-n", &requests, "--rate-limiting", &rate]));
    for (name, percentile) in [("p90", 90.0), ("p95", 95.0), ("p99", 99.0)] {
        let corrected_ms = json["totals"]["latency_us"][name].as_f64().unwrap() / 1000.0;
        let uncorrected_ms = json["totals"]["service_us"][name].as_f64().unwrap() / 1000.0;
        let calculated_ms = calculated_percentile_ms(percentile);
        // What was late is sent as fast as the stub answers: that adds a few per cent.
        let range = calculated_ms * 0.97..calculated_ms * 1.15;
        assert!(range.contains(&corrected_ms), "{io} {name}: {corrected_ms} ms for {calculated_ms} ms");
        assert!(uncorrected_ms < calculated_ms / 4.0, "{io} uncorrected {name}: {uncorrected_ms} ms");
    }
    let longest_ms = json["totals"]["service_us"]["max"].as_f64().unwrap() / 1000.0;
    assert!(longest_ms > STALL_MS * 0.9, "the stall itself: {longest_ms} ms");
}

#[test]
fn the_corrected_percentiles_show_a_stall_and_the_uncorrected_hide_it() {
    ways().into_iter().for_each(|io| assert_corrected(io, "1", "1"));
}

#[test]
fn the_correction_holds_over_several_connections_and_threads() {
    ways().into_iter().for_each(|io| assert_corrected(io, "4", "2"));
}

#[test]
fn a_closed_loop_has_one_latency_and_it_hides_the_stall() {
    let stub = Stub::start(Behaviour {
        stall: Some((STALL_AT, Duration::from_millis(STALL_MS as u64))),
        ..Behaviour::default()
    });
    let json = measure(&stub, &["-c", "1", "-n", "2000"]);
    assert_eq!(json["totals"]["latency_us"], json["totals"]["service_us"]);
    assert!(json["totals"]["latency_us"]["p99"].as_f64().unwrap() < 100_000.0);
}
