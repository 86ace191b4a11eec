//! Replies checked against the model: a real server is right, and a stub that errs is found out.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::HashSet;
use std::fs;

use common::{Behaviour, Redis, Stub, by, failure, loadgen, measure, measure_at, stderr, tampering, ways};

#[test]
fn a_server_that_answers_rightly_has_no_mismatch_in_any_load() {
    let redis = Redis::start();
    for flags in [
        &["-c", "7", "-t", "2", "--pipeline", "5", "--ratio", "1:1"][..],
        &["--prefill", "--ratio", "1:9", "--data-size-range", "0-3000", "--key-pattern", "Z:Z", "--resp", "3"],
        &["--keys-per-command", "4", "--ratio", "1:1", "--cross-shard", "50", "--target-shards", "4", "-t", "3"],
        &["--keys-per-command", "2", "--multi-key", "50", "--prefill", "--resp", "3", "--key-pattern", "P:S"],
        &["--workload", "mixed", "--prefill", "--pipeline", "3"],
        &["--workload", "write-heavy", "--resp", "3", "--rate-limiting", "5000"],
        &["--workload", "queue", "--prefill", "--pipeline", "7", "-t", "2"],
        &["--workload", "session-cache", "--prefill", "--resp", "3"],
        &["--workload", "ycsb-a", "--prefill", "--pipeline", "4"],
        &["--workload", "ycsb-b", "--resp", "3"],
        &["--workload", "ycsb-c", "--prefill", "--resp", "3", "--pipeline", "3"],
        &["--workload", "ycsb-f", "--prefill", "-t", "3"],
        &["--warm-up", "0.2", "--data-size", "100000", "--key-pattern", "G:H", "-n", "500"],
    ] {
        let requests = if flags.contains(&"-n") { &[][..] } else { &["-n", "3000"] };
        let flags = [&["--verify", "--key-maximum", "400"], requests, flags].concat();
        ways().into_iter().for_each(|io| assert_no_mismatch(redis.port, &by(io, &flags)));
    }
}

fn assert_no_mismatch(port: u16, flags: &[&str]) {
    let json = measure_at(port, flags);
    assert_eq!(json["verified"]["mismatches"], 0, "{flags:?}: {}", json["verified"]);
    let checked = json["verified"]["replies"].as_u64().unwrap();
    assert!(checked >= json["totals"]["requests"].as_u64().unwrap(), "{flags:?}");
    assert_eq!(json["totals"]["errors"], 0, "{flags:?}");
}

/// A family of commands on keys of one type, which some of them delete now and then.
const FAMILIES: [&[&str]; 6] = [
    &[
        "SET __key__ __data__",
        "SET __key__ __data__ EX 900",
        "SETNX __key__ __data__",
        "GET __key__",
        "GETDEL __key__",
        "APPEND __key__ x__random:0:99__",
        "STRLEN __key__",
        "EXISTS __key__",
        "UNLINK __key__",
        "TYPE __key__",
        "EXPIRE __key__ 700",
        "PEXPIRE __key__ 700000",
        "PERSIST __key__",
    ],
    &[
        "INCR __key__",
        "DECR __key__",
        "INCRBY __key__ __random:1:50__",
        "DECRBY __key__ 7",
        "GET __key__",
        "DEL __key__",
    ],
    &[
        "HSET __key__ f__random:0:30__ __data__ g__random:0:3__ 5",
        "HGET __key__ f__random:0:30__",
        "HMGET __key__ nothing f1 g2",
        "HGETALL __key__",
        "HDEL __key__ f__random:0:30__ g1",
        "HEXISTS __key__ g__random:0:3__",
        "HLEN __key__",
        "HINCRBY __key__ g__random:0:3__ __random:0:9__",
        "HINCRBY __key__ f__random:0:30__ 1",
    ],
    &[
        "LPUSH __key__ __data__",
        "RPUSH __key__ a __data__",
        "LPOP __key__",
        "RPOP __key__",
        "LLEN __key__",
        "LRANGE __key__ 1 -2",
        "DEL __key__",
    ],
    &[
        "SADD __key__ m__random:0:50__ __data__",
        "SREM __key__ m__random:0:50__",
        "SISMEMBER __key__ m__random:0:50__",
        "SCARD __key__",
        "SMEMBERS __key__",
    ],
    &[
        "ZADD __key__ __random:0:9__ m__random:0:30__",
        "ZINCRBY __key__ -3 m__random:0:30__",
        "ZSCORE __key__ m__random:0:30__",
        "ZREM __key__ m__random:0:30__",
        "ZCARD __key__",
        "ZRANGE __key__ 0 -1",
        "ZRANGE __key__ -3 1",
    ],
];

/// A workload file of commands that are sent equally often.
fn file(commands: &[&str]) -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("family.toml");
    let entry = |send: &&str| format!("[[command]]\nsend = '{send}'\nweight = 1\n");
    let entries: String = commands.iter().map(entry).collect();
    fs::write(&path, format!("name = 'family'\nabout = 'family'\n{entries}")).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (directory, path)
}

#[test]
fn every_command_that_the_model_knows_is_followed() {
    let redis = Redis::start();
    // All together meet keys of the wrong type.
    let all: Vec<&str> = FAMILIES.concat().into_iter().take(30).collect();
    for family in FAMILIES.into_iter().chain([&all[..]]) {
        for protocol in ["2", "3"] {
            let (_directory, path) = file(family);
            let flags =
                ["--workload", &path, "--verify", "--key-maximum", "60", "-n", "5000", "-c", "6", "--pipeline", "5"];
            let json = measure_at(redis.port, &[&flags[..], &["--resp", protocol]].concat());
            assert_eq!(json["verified"]["replies"], 5000, "{family:?}");
            assert_eq!(json["verified"]["mismatches"], 0, "{family:?}: {}", json["verified"]["first"]);
        }
    }
}

#[test]
fn one_wrong_reply_to_any_command_is_found() {
    let redis = Redis::start();
    for family in FAMILIES {
        let (_directory, path) = file(family);
        let names: HashSet<&'static str> = family.iter().filter_map(|send| send.split(' ').next()).collect();
        for name in names {
            let port = tampering(redis.port, name, 9).to_string();
            let flags = ["--verify", "-c", "1", "--key-maximum", "1", "-n", "600", "--workload", &path];
            let output = loadgen(&[&flags[..], &["-p", &port]].concat());
            let said = stderr(&output);
            let expected = format!("1 of 600 replies are not what the model has, the first: {name} was answered by");
            assert!(output.status.code() == Some(1) && said.contains(&expected), "{name}: {said}");
        }
    }
}

#[test]
fn what_was_there_before_the_run_does_not_matter() {
    let redis = Redis::start();
    measure_at(redis.port, &["--prefill", "--key-maximum", "50", "-n", "1"]);
    let json = measure_at(redis.port, &["--verify", "--key-maximum", "50", "-n", "500"]);
    assert_eq!(json["verified"]["mismatches"], 0);
}

#[test]
fn replies_split_at_every_byte_are_verified() {
    let stub = Stub::start(Behaviour { bytewise: true, ..Behaviour::default() });
    let flags = ["--verify", "-n", "300", "--ratio", "1:1", "--key-maximum", "10", "-c", "3", "--pipeline", "4"];
    for io in ways() {
        assert_eq!(measure(&stub, &by(io, &flags))["verified"]["mismatches"], 0, "{io}");
    }
}

#[test]
fn a_lost_write_is_found_and_the_run_fails() {
    let stub = Stub::start(Behaviour { lost_set: Some(40), ..Behaviour::default() });
    // One connection: among several it would be chance whether the key is set again before it is read.
    let flags = ["--verify", "-n", "400", "--ratio", "1:3", "--key-maximum", "3", "-c", "1"];
    let said = failure(&stub, &flags);
    assert!(said.contains("of 400 replies are not what the model has, the first: GET was answered by"), "{said}");
}

#[test]
fn a_wrong_or_an_error_reply_is_a_mismatch_and_the_json_is_written_all_the_same() {
    for (reply, what) in [(&b"$-1\r\n"[..], "kind Null"), (b"-ERR no\r\n", "kind Error")] {
        let stub = Stub::start(Behaviour { reply: Some(reply), ..Behaviour::default() });
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("out.json");
        let file_name = file.to_str().unwrap();
        let flags = ["--verify", "-n", "100", "--ratio", "0:1", "--prefill", "--key-maximum", "50"];
        let said = failure(&stub, &[&flags[..], &["--json-out-file", file_name]].concat());
        // Prefill refuses an error reply of its own.
        if what == "kind Null" {
            assert!(said.contains("100 of 100 replies") && said.contains(what), "{said}");
            let json: serde_json::Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
            assert_eq!(json["verified"]["mismatches"], 100);
        } else {
            assert!(said.contains("prefill was refused: ERR no"), "{said}");
        }
    }
}
