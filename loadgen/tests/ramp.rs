//! Steps of rates, and the search for the knee of a stub whose knee is known.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::time::Duration;

use common::{Behaviour, Stub, failure, loadgen, measure, stderr};

#[test]
fn every_step_is_run_at_its_rate_and_has_files_of_its_own() {
    let stub = Stub::start(Behaviour::default());
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().join("ramp");
    let flags = ["--rate-steps", "200-600:200,100", "--shuffle-steps", "--test-time", "0.5", "--ratio", "0:1"];
    let files = ["--prefill", "--key-maximum", "10", "--hdr-file-prefix", prefix.to_str().unwrap()];
    let json = measure(&stub, &[&flags[..], &files].concat());
    assert_eq!(stub.count("SET"), 10, "prefilled once");
    let steps = json["steps"].as_array().unwrap();
    let mut rates: Vec<f64> = steps.iter().map(|step| step["rate"].as_f64().unwrap()).collect();
    for (number, step) in (1..).zip(steps) {
        let (rate, requests) = (step["rate"].as_f64().unwrap(), step["requests"].as_f64().unwrap());
        assert_eq!(requests, rate * 0.5);
        assert_eq!((step["hits"].as_f64(), step["hit_ratio"].as_f64()), (Some(requests), Some(1.0)));
        assert!(directory.path().join(format!("ramp.step{number:02}-{rate}.hlog")).exists());
    }
    rates.sort_by(f64::total_cmp);
    assert_eq!(rates, [100.0, 200.0, 400.0, 600.0]);
    let csv = fs::read_to_string(directory.path().join("ramp.steps.csv")).unwrap();
    assert_eq!(csv.lines().count(), 5);
}

/// Two connections that answer after 20 ms each serve 100 requests a second. Of 200 a second, the
/// last ones of a second wait half of it. What else a busy machine does takes tens of milliseconds.
#[test]
fn the_knee_lies_where_the_target_is_full() {
    let stub = Stub::start(Behaviour { delay: Duration::from_millis(20), ..Behaviour::default() });
    let flags = ["--find-knee", "--p99-limit", "300", "--rate-limiting", "50", "--knee-precision", "50"];
    let json = measure(&stub, &[&flags[..], &["--test-time", "0.8", "-c", "2"]].concat());
    let (holds, fails) = (json["knee"]["holds"].as_f64().unwrap(), json["knee"]["fails"].as_f64().unwrap());
    assert!((50.0..200.0).contains(&holds) && fails > holds && fails / holds <= 1.5, "{}", json["knee"]);
    let failed = |step: &&serde_json::Value| !step["failures"].as_array().unwrap().is_empty();
    assert!(json["steps"].as_array().unwrap().iter().filter(failed).count() >= 2, "a failure is tried again");
}

/// No generator wakes within a microsecond, a hundred times a second.
#[test]
fn a_limit_below_the_generators_own_lag_is_refused() {
    let stub = Stub::start(Behaviour::default());
    let flags = ["--find-knee", "--p99-limit", "0.001", "--rate-limiting", "100", "--test-time", "0.5", "-c", "2"];
    let said = failure(&stub, &flags);
    assert!(said.contains("'0.001' for '--p99-limit': the generator's own lag is above it"), "{said}");
    assert_eq!(stub.count("SET") + stub.count("GET"), 100, "one try, and one more");
}

#[test]
fn the_generators_own_lag_is_part_of_what_the_search_says() {
    let stub = Stub::start(Behaviour { delay: Duration::from_millis(20), ..Behaviour::default() });
    let flags = ["--find-knee", "--p99-limit", "500", "--rate-limiting", "60", "--knee-precision", "100"];
    let json = measure(&stub, &[&flags[..], &["--test-time", "0.5", "-c", "2"]].concat());
    let lag_us = json["knee"]["lag_p99_us"].as_f64().unwrap();
    assert!(lag_us > 0.0 && lag_us < 500_000.0, "{}", json["knee"]);
    assert!(json["steps"][0]["lag_p99_us"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_ramp_is_shown_as_a_table_by_rate() {
    let stub = Stub::start(Behaviour::default());
    let output = loadgen(&["-p", &stub.port.to_string(), "--rate-steps", "300,100", "--test-time", "0.2"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let firsts: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(firsts, ["ops/s", "100", "300"]);
}

#[test]
fn steps_that_measure_misses_say_so_once_and_those_of_a_prefilled_server_do_not() {
    let stub = Stub::start(Behaviour::default());
    let port = stub.port.to_string();
    let flags = ["-p", &port, "--rate-steps", "100,200", "--test-time", "0.2", "--ratio", "0:1", "-r", "10"];
    let said = stderr(&loadgen(&flags));
    assert_eq!(said.matches("warning").count(), 1, "{said}");
    assert!(said.contains("warning: 0.0 % of the keys that were read at 100 ops/s had a value"), "{said}");
    assert!(said.contains("this measures misses; --prefill sets every key first"), "{said}");
    let said = stderr(&loadgen(&[&flags[..], &["--prefill"]].concat()));
    assert!(!said.contains("misses"), "{said}");
}
