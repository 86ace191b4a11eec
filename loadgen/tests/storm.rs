//! Connections as the load.

#![allow(clippy::unwrap_used)]

mod common;

use std::net::TcpListener;
use std::time::Duration;

use common::{Behaviour, Redis, Stub, failure, loadgen, measure, measure_at, stderr};

#[test]
fn every_connection_is_made_greeted_and_counted() {
    for flags in [
        &["-c", "8", "-t", "2", "--pipeline", "1"][..],
        &["-c", "3", "--resp", "3", "-a", "u:p"],
        &["--rate-limiting", "1000"],
    ] {
        let stub = Stub::start(Behaviour::default());
        let json = measure(&stub, &[&["--connect-storm", "-n", "301"], flags].concat());
        assert_eq!(json["commands"]["CONNECT"]["requests"], 301, "{flags:?}");
        assert_eq!(json["totals"]["errors"], 0, "{flags:?}");
        assert_eq!(stub.count("PING"), 301, "{flags:?}");
        let greeted = if flags.contains(&"3") { 301 } else { 0 };
        let by_name = flags.contains(&"--resp");
        assert_eq!((stub.count("AUTH"), stub.count("HELLO")), if by_name { (greeted, greeted) } else { (0, 0) });
    }
}

#[test]
fn an_open_loop_of_connections_keeps_its_rate_and_counts_from_the_schedule() {
    let json = measure_at(Redis::start().port, &["--connect-storm", "--rate-limiting", "400", "--test-time", "0.5"]);
    assert_eq!(json["totals"]["requests"], 200);
    let stub = Stub::start(Behaviour { delay: Duration::from_millis(20), ..Behaviour::default() });
    // One connection at a time, 20 ms each: of 20 due in 100 ms the last begins 300 ms late.
    let flags = ["--connect-storm", "-c", "1", "-n", "20", "--rate-limiting", "200"];
    let json = measure(&stub, &flags);
    let ms = |times: &str| json["totals"][times]["max"].as_f64().unwrap() / 1000.0;
    assert!(ms("latency_us") > 280.0, "{}", json["totals"]);
    assert!(ms("service_us") < ms("latency_us") / 2.0, "{}", json["totals"]);
}

#[test]
fn connections_that_fail_are_errors_and_a_storm_of_failures_fails() {
    let redis = Redis::start();
    let limited = loadgen(&["-p", &redis.port.to_string(), "--connect-storm", "-n", "50", "-a", "nobody:wrong"]);
    assert_eq!(limited.status.code(), Some(1), "no connection is let in");
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let refused = loadgen(&["-p", &port.to_string(), "--connect-storm", "-n", "5"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains(&format!("cannot connect to 127.0.0.1:{port}")), "{}", stderr(&refused));
    let silent = Stub::start(Behaviour { silent: true, ..Behaviour::default() });
    let said = failure(&silent, &["--connect-storm", "-n", "5", "--reply-timeout", "0.3"]);
    assert!(said.contains("sent no reply for 0.3 s"), "{said}");
}
