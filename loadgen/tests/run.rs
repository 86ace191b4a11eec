//! Runs against a stub: what is sent, what is counted, and what is said when things go wrong.

#![allow(clippy::unwrap_used)]

mod common;

use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Behaviour, Stub, by, failure, loadgen, measure, stderr, ways};

fn plain() -> Stub {
    Stub::start(Behaviour::default())
}

#[test]
fn the_number_of_requests_is_exact_however_clients_and_threads_divide_it() {
    for io in ways() {
        for flags in [
            &["-n", "1003", "-c", "7", "-t", "2", "--pipeline", "4"][..],
            &["-n", "3", "-c", "50"],
            &["-n", "1", "-c", "2", "-t", "2"],
            &["-n", "501", "-c", "3", "-t", "2", "--rate-limiting", "5000"],
            &["-n", "1000", "-c", "1", "--pipeline", "1024"],
        ] {
            let stub = plain();
            let json = measure(&stub, &by(io, flags));
            let asked: u64 = flags[1].parse().unwrap();
            assert_eq!(json["totals"]["requests"], asked, "{flags:?}");
            assert_eq!(stub.count("SET") + stub.count("GET"), asked, "{io} {flags:?}");
            let by_second: u64 =
                json["series"].as_array().unwrap().iter().map(|row| row["ops"].as_u64().unwrap()).sum();
            assert_eq!(by_second, asked, "{flags:?}");
        }
    }
}

#[test]
fn the_ratio_is_honoured() {
    for (ratio, sets) in [("1:3", 1000), ("3:1", 3000), ("0:1", 0), ("1:0", 4000), ("2:2", 2000)] {
        let stub = plain();
        let json = measure(&stub, &["-n", "4000", "--ratio", ratio, "--pipeline", "8", "-c", "5"]);
        assert_eq!(stub.count("SET"), sets, "{ratio}");
        assert_eq!(json["commands"]["SET"]["requests"], sets, "{ratio}");
        assert_eq!(json["commands"]["GET"]["requests"], 4000 - sets, "{ratio}");
    }
}

#[test]
fn hits_and_misses_are_told_apart_and_prefill_makes_hits() {
    let flags = ["-n", "2000", "--ratio", "0:1", "--key-maximum", "1000", "--key-prefix", "k:"];
    let stub = plain();
    let json = measure(&stub, &flags);
    assert_eq!((json["totals"]["hits"].as_u64(), json["totals"]["misses"].as_u64()), (Some(0), Some(2000)));
    let json = measure(&stub, &[&flags[..], &["--prefill"]].concat());
    assert_eq!((json["totals"]["hits"].as_u64(), json["totals"]["misses"].as_u64()), (Some(2000), Some(0)));
    assert_eq!(stub.count("SET"), 1000);
    assert!(stub.seen(|seen| seen.keys.contains("k:1") && seen.keys.contains("k:1000")));
}

#[test]
fn a_run_that_measures_misses_says_so() {
    let stub = plain();
    let port = stub.port.to_string();
    let flags = ["-p", &port, "-n", "1000", "-r", "100", "--ratio", "0:1"];
    let said = stderr(&loadgen(&flags));
    assert!(said.contains("warning: 0.0 % of the keys that were read had a value") && said.contains("--prefill"));
    let said = stderr(&loadgen(&[&flags[..], &["--prefill"]].concat()));
    assert!(!said.contains("had a value"), "{said}");
    let said = stderr(&loadgen(&["-p", &port, "-n", "100", "--ratio", "1:0"]));
    assert!(!said.contains("had a value"), "nothing was read: {said}");
}

#[test]
fn flags_of_redis_benchmark_work_or_are_answered_with_ours() {
    let stub = plain();
    let port = stub.port.to_string();
    let output = loadgen(&["-p", &port, "-n", "1000", "-c", "5", "-P", "16", "-r", "100", "-d", "1k", "-q"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() == 2 && lines[0].starts_with("SET: ") && lines[1].starts_with("GET: "), "{text}");
    assert!(lines.iter().all(|line| line.contains(" requests per second, p50=")), "{text}");
    for (flags, ours) in
        [(["-h", "10.0.0.1"], "-s HOST"), (["-t", "set,get"], "--ratio 1:0"), (["-k", "0"], "--connect-storm")]
    {
        let output = loadgen(&[&flags[..], &["-p", &port]].concat());
        assert_eq!(output.status.code(), Some(1), "{flags:?}");
        assert!(stderr(&output).contains(ours) && output.stdout.is_empty(), "{flags:?}: {}", stderr(&output));
    }
    for ours in ["-h", "-hq"] {
        let help = loadgen(&[ours]);
        assert!(help.status.success() && String::from_utf8(help.stdout).unwrap().contains("Usage"), "{ours}");
    }
}

#[test]
fn a_number_of_requests_has_the_units_of_other_numbers() {
    for (text, requests) in [("2k", 2000), ("1e3", 1000), ("0.001m", 1000)] {
        let json = measure(&plain(), &["-n", text, "--pipeline", "16"]);
        assert_eq!(json["totals"]["requests"], requests, "{text}");
    }
}

#[test]
fn the_folder_of_a_prefix_is_made() {
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().join("actor/today/run1");
    let stub = plain();
    let flags = ["-p", &stub.port.to_string(), "-n", "100", "--hdr-file-prefix", prefix.to_str().unwrap()];
    let output = loadgen(&flags);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(prefix.with_extension("json").exists() && prefix.with_extension("hlog").exists());
}

/// It would have been a panic: the lab saw a signal instead of a status.
#[test]
fn an_error_that_nobody_can_be_told_is_still_the_status() {
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    let stub = plain();
    for arguments in [&["workloads"][..], &["--help"], &["-p", &stub.port.to_string(), "-n", "100"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loadgen"));
        let status = command.args(arguments).stdin(Stdio::null()).stdout(full()).stderr(full()).status().unwrap();
        assert_eq!(status.code(), Some(1), "{arguments:?}: {status}");
    }
}

#[test]
fn sequential_keys_cover_the_range_evenly() {
    for pattern in ["S:S", "P:P"] {
        let stub = plain();
        measure(
            &stub,
            &["-n", "300", "--ratio", "1:0", "--key-pattern", pattern, "--key-maximum", "300", "-c", "3", "-t", "3"],
        );
        assert_eq!(stub.seen(|seen| seen.keys.len()), 300, "{pattern}");
    }
}

#[test]
fn replies_split_at_every_byte_are_understood() {
    for io in ways() {
        let stub = Stub::start(Behaviour { bytewise: true, ..Behaviour::default() });
        let json =
            measure(&stub, &by(io, &["-n", "500", "--prefill", "--key-maximum", "50", "--pipeline", "5", "-c", "3"]));
        assert_eq!(json["totals"]["requests"], 500);
        assert_eq!(json["totals"]["misses"], 0);
    }
}

#[test]
fn values_larger_than_socket_buffers_go_through() {
    for io in ways() {
        let stub = plain();
        let flags = ["-n", "40", "--ratio", "1:1", "-d", "3000000", "--key-maximum", "2", "--pipeline", "4", "-c", "2"];
        let json = measure(&stub, &by(io, &flags));
        assert_eq!(json["totals"]["requests"], 40);
        assert!(json["commands"]["SET"]["bytes_sent"].as_u64().unwrap() > 60_000_000);
    }
}

#[test]
fn the_window_excludes_connecting_prefill_and_warm_up() {
    let stub = plain();
    let json =
        measure(&stub, &["-n", "100", "-c", "2", "-t", "2", "--warm-up", "0.8", "--prefill", "--key-maximum", "10"]);
    assert_eq!(json["totals"]["requests"], 100);
    assert!(json["duration_s"].as_f64().unwrap() < 0.8);
    assert!(stub.count("SET") + stub.count("GET") > 110);
}

#[test]
fn a_timed_run_takes_its_time() {
    for io in ways() {
        for loop_flags in [&[][..], &["--rate-limiting", "2000"]] {
            let json = measure(&plain(), &by(io, &[&["--test-time", "0.5", "-c", "2"], loop_flags].concat()));
            let duration = json["duration_s"].as_f64().unwrap();
            assert!((0.5..2.0).contains(&duration), "{duration}");
            assert!(json["totals"]["requests"].as_u64().unwrap() > 100);
        }
    }
}

#[test]
fn an_open_loop_keeps_its_rate() {
    for io in ways() {
        let json = measure(&plain(), &by(io, &["-n", "1000", "--rate-limiting", "2000", "-c", "3", "-t", "2"]));
        let duration = json["duration_s"].as_f64().unwrap();
        assert!((0.49..1.0).contains(&duration), "{duration}");
    }
}

#[test]
fn a_target_that_cannot_keep_the_rate_is_reported() {
    for io in ways() {
        let stub = Stub::start(Behaviour { delay: Duration::from_millis(10), ..Behaviour::default() });
        let port = stub.port.to_string();
        let output = loadgen(&by(io, &["-p", &port, "--test-time", "0.3", "--rate-limiting", "5000", "-c", "2"]));
        assert!(output.status.success());
        assert!(stderr(&output).contains("did not keep up with the rate"), "{}", stderr(&output));
    }
}

#[test]
fn several_targets_share_the_connections_and_are_counted_apart() {
    let stubs = [plain(), plain(), plain()];
    let addresses: Vec<String> = stubs.iter().map(|stub| format!("127.0.0.1:{}", stub.port)).collect();
    let list = addresses.join(",");
    let flags = ["-s", &list, "-n", "900", "-c", "6", "-t", "2", "--ratio", "0:1", "--prefill", "--key-maximum", "20"];
    let json = measure(&stubs[0], &flags);
    let mut total = 0;
    for (stub, (row, address)) in stubs.iter().zip(json["targets"].as_array().unwrap().iter().zip(&addresses)) {
        assert_eq!(row["address"], address.as_str());
        assert_eq!(stub.count("SET"), 20);
        let requests = row["requests"].as_u64().unwrap();
        assert_eq!((stub.count("GET"), row["hits"].as_u64()), (requests, Some(requests)));
        assert!(requests > 0);
        total += requests;
    }
    assert_eq!(total, 900);
}

#[test]
fn threads_can_be_bound_to_cpus() {
    assert_eq!(measure(&plain(), &["-n", "100", "-t", "2", "--pin-cpus", "0"])["totals"]["requests"], 100);
    let said = failure(&plain(), &["-n", "100", "--pin-cpus", "1023"]);
    assert!(said.contains("--pin-cpus"), "{said}");
}

/// Two connections that answer after 20 ms each cannot serve 400 requests a second: what is due and not sent grows.
#[test]
fn the_lateness_of_a_full_target_is_not_the_generators_lag() {
    for io in ways() {
        let stub = Stub::start(Behaviour { delay: Duration::from_millis(20), ..Behaviour::default() });
        let json = measure(&stub, &by(io, &["--test-time", "0.5", "--rate-limiting", "400", "-c", "2"]));
        let latency = json["totals"]["latency_us"]["p99"].as_f64().unwrap();
        let lag = json["generator"]["schedule_lag_us"]["p99"].as_f64().unwrap();
        // On a machine that does much else the generator lags, too: tens of milliseconds.
        assert!(latency > 300_000.0 && lag < latency / 3.0, "{lag} of {latency}");
        assert!(json["valid"].is_boolean() && json["faults"].is_array());
    }
}

#[test]
fn every_pattern_stays_within_the_range_and_inserts_go_beyond_it() {
    for pattern in ["R", "zipfian", "gaussian:H", "hotspot", "L:latest"] {
        let stub = plain();
        measure(&stub, &["-n", "300", "--key-pattern", pattern, "--key-prefix", "", "--key-maximum", "30"]);
        let within = |key: &String| (1..=30).contains(&key.parse::<u64>().unwrap());
        assert!(stub.seen(|seen| seen.keys.iter().all(within)), "{pattern}");
    }
    let stub = plain();
    let flags = ["-n", "300", "--ratio", "1:0", "--key-pattern", "I", "--key-prefix", "", "--key-maximum", "30"];
    measure(&stub, &flags);
    let inserted = |seen: &common::Seen| seen.keys.iter().map(|key| key.parse::<u64>().unwrap()).collect::<Vec<_>>();
    let mut keys = stub.seen(inserted);
    keys.sort_unstable();
    assert_eq!(keys, (31..=330).collect::<Vec<_>>());
}

#[test]
fn keys_that_expire_carry_their_time_to_live() {
    let redis = common::Redis::start();
    let flags = ["--key-maximum", "50", "--prefill", "--expiry-range", "0.05-0.1", "--ratio", "1:9"];
    let json = common::measure_at(redis.port, &[&flags[..], &["--rate-limiting", "500", "--test-time", "1"]].concat());
    let ratio = json["totals"]["hit_ratio"].as_f64().unwrap();
    // 50 SETs a second of 50 keys that live for a tenth of one at most.
    assert!((0.01..0.5).contains(&ratio), "{ratio}");
    assert_eq!(json["totals"]["errors"], 0);
}

#[test]
fn sizes_drawn_from_a_distribution_arrive() {
    let redis = common::Redis::start();
    let flags = ["-n", "2000", "--ratio", "1:1", "--data-size-list", "10:1,1000:1", "--key-maximum", "100"];
    let json = common::measure_at(redis.port, &flags);
    let bytes = json["commands"]["SET"]["bytes_sent"].as_f64().unwrap();
    // 1,000 SETs of 505 bytes on average, and 43 around them.
    assert!((bytes / 548_000.0 - 1.0).abs() < 0.1, "{bytes}");
}

/// A target that answers nothing for half a second, within a second of which the rest is busy.
#[test]
fn replies_are_counted_by_100_ms_and_a_stall_within_a_second_shows() {
    for io in ways() {
        let stall = Some((500, Duration::from_millis(500)));
        let stub = Stub::start(Behaviour { stall, ..Behaviour::default() });
        let json = measure(&stub, &by(io, &["--test-time", "1.5", "-c", "2", "-t", "2"]));
        let slices: Vec<u64> =
            json["slices_100ms"].as_array().unwrap().iter().map(|slice| slice.as_u64().unwrap()).collect();
        assert_eq!(Some(slices.iter().sum::<u64>()), json["totals"]["requests"].as_u64());
        let duration_s = json["duration_s"].as_f64().unwrap();
        assert_eq!(slices.len(), (duration_s * 10.0 - 1e-6).ceil() as usize, "{slices:?} in {duration_s} s");
        let longest = slices.split(|slice| *slice > 0).map(<[u64]>::len).max().unwrap();
        assert!((3..=6).contains(&longest), "{slices:?}");
    }
}

#[test]
fn how_evenly_connections_were_served_is_reported() {
    for io in ways() {
        let stub = Stub::start(Behaviour { delay_first: Duration::from_millis(50), ..Behaviour::default() });
        let json = measure(&stub, &by(io, &["--test-time", "0.6", "-c", "4", "-t", "2"]));
        let connections = &json["connections"];
        assert_eq!((connections["count"].as_u64(), connections["served"].as_u64()), (Some(4), Some(4)));
        let of = |what: &str, which: &str| connections[what][which].as_f64().unwrap();
        assert!(of("ops_per_sec", "min") < of("ops_per_sec", "median") / 3.0, "{connections}");
        assert!(of("ops_per_sec", "jain") < 0.85, "{connections}");
        assert!(of("mean_latency_us", "max") > 50_000.0 && of("max_latency_us", "max") > 50_000.0, "{connections}");
        assert!(of("mean_latency_us", "min") < 50_000.0, "{connections}");
    }
    let storm = measure(&plain(), &["--connect-storm", "-n", "20", "-c", "2"]);
    assert!(storm["connections"].is_null());
}

#[test]
fn several_runs_are_added_up() {
    let json = measure(&plain(), &["-n", "100", "-x", "3", "-c", "3"]);
    assert_eq!(json["totals"]["requests"], 300);
    let ends: Vec<f64> = json["series"].as_array().unwrap().iter().map(|row| row["t_s"].as_f64().unwrap()).collect();
    assert_eq!(ends.len(), 3);
    assert_eq!(json["connections"]["count"], 3);
    assert!(ends.is_sorted(), "{ends:?}");
}

#[test]
fn authentication_and_resp3_come_first() {
    let stub = plain();
    let json = measure(&stub, &["-n", "10", "-c", "1", "-a", "alice:secret", "--resp", "3"]);
    let control = stub.seen(|seen| seen.control.clone());
    assert_eq!(control, [vec!["AUTH", "alice", "secret"], vec!["HELLO", "3"]]);
    assert!(!json.to_string().contains("secret"));
}

#[test]
fn the_same_seed_asks_for_the_same_keys() {
    let keys = |seed: &str| {
        let stub = plain();
        measure(&stub, &["-n", "50", "-c", "1", "--seed", seed]);
        stub.seen(|seen| seen.keys.clone())
    };
    assert_eq!(keys("7"), keys("7"));
    assert_ne!(keys("7"), keys("8"));
}

#[test]
fn error_replies_are_counted_and_the_first_is_shown() {
    let stub = Stub::start(Behaviour { reply: Some(b"-ERR no such luck\r\n"), ..Behaviour::default() });
    assert_eq!(measure(&stub, &["-n", "20"])["totals"]["errors"], 20);
    let output = loadgen(&["-p", &stub.port.to_string(), "-n", "20"]);
    assert!(stderr(&output).contains("20 error replies, the first: ERR no such luck"), "{}", stderr(&output));
}

#[test]
fn a_refused_connection_names_the_address() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let output = loadgen(&["-p", &port.to_string(), "-n", "10"]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains(&format!("cannot connect to 127.0.0.1:{port}: ")), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn a_server_that_closes_while_in_use_is_an_error() {
    for io in ways() {
        for flags in
            [&["-c", "4", "-t", "2"][..], &["-c", "4", "--warm-up", "5"], &["-c", "4", "--rate-limiting", "1000"]]
        {
            let stub = Stub::start(Behaviour { close_after: Some(100), ..Behaviour::default() });
            let began = Instant::now();
            let said = failure(&stub, &by(io, &[&["-n", "100000"], flags].concat()));
            assert!(said.contains(&format!("127.0.0.1:{} closed the connection", stub.port)), "{said}");
            assert!(began.elapsed() < Duration::from_secs(4), "took {:?}", began.elapsed());
        }
    }
}

#[test]
fn bytes_that_are_no_reply_are_an_error() {
    for io in ways() {
        for (reply, what) in [
            (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "sent no valid reply: byte 0x48 begins no reply"),
            (b":1\r\n", "was answered by the kind Integer"),
            (b"+OK\r\n+OK\r\n", "SET was answered by the kind"),
            (b"$99999999999999\r\n", "invalid length"),
        ] {
            let stub = Stub::start(Behaviour { reply: Some(reply), ..Behaviour::default() });
            let ratio = if what.starts_with("SET") { "0:1" } else { "1:10" };
            let what = what.replace("SET", "GET");
            let said = failure(&stub, &by(io, &["-n", "1000", "-c", "2", "--ratio", ratio]));
            assert!(said.contains(&what), "{said}");
        }
    }
}

#[test]
fn a_reply_that_nothing_asked_for_is_an_error() {
    let stub = Stub::start(Behaviour { reply: Some(b"+OK\r\n+OK\r\n"), ..Behaviour::default() });
    let said = failure(&stub, &["-n", "1000", "-c", "1", "--ratio", "1:0"]);
    assert!(said.contains("a reply that no request asked for"), "{said}");
}

#[test]
fn a_silent_server_is_an_error_after_the_reply_timeout() {
    for io in ways() {
        for flags in [&[][..], &["--pipeline", "4"], &["--rate-limiting", "100"], &["--test-time", "1"]] {
            let stub = Stub::start(Behaviour { silent: true, ..Behaviour::default() });
            let said = failure(&stub, &by(io, &[&["--reply-timeout", "0.4", "-c", "3"], flags].concat()));
            assert!(said.contains("sent no reply for 0.4 s"), "{said}");
        }
    }
}

#[test]
fn a_bad_flag_says_what_and_why_and_exits_with_1() {
    for (flags, what) in [
        (&["--ratio", "x"][..], "invalid value 'x' for '--ratio'"),
        (&["--port", "abc"], "invalid value 'abc' for '--port"),
        (&["--no-such-flag"], "--no-such-flag"),
        (&["--json-out-file", "/nowhere/at/all.json"], "/nowhere/at/all.json"),
        (&["--hdr-file-prefix", "/dev/null/at/all"], "/dev/null/at"),
        (&["-n", "many"], "invalid value 'many' for '--requests"),
        (&["-n", "1.5"], "expected a number of requests, such as 100000 or 100k"),
        (&["-n", "0"], "expected a number of requests"),
        (&["compare", "one.hlog"], "compare"),
        (&["compare", "/nowhere/a.hlog", "/nowhere/b.hlog"], "/nowhere/a.hlog"),
    ] {
        let output = loadgen(flags);
        assert_eq!(output.status.code(), Some(1), "{flags:?}");
        assert!(stderr(&output).contains(what), "{flags:?}: {}", stderr(&output));
    }
}
