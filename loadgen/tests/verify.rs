//! Replies checked against the model: a real server is right, and a stub that errs is found out.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;

use common::{Behaviour, Redis, Stub, failure, measure, measure_at};

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
        &["--warm-up", "0.2", "--data-size", "100000", "--key-pattern", "G:H", "-n", "500"],
    ] {
        let requests = if flags.contains(&"-n") { &[][..] } else { &["-n", "3000"] };
        let json = measure_at(redis.port, &[&["--verify", "--key-maximum", "400"], requests, flags].concat());
        assert_eq!(json["verified"]["mismatches"], 0, "{flags:?}: {}", json["verified"]);
        let checked = json["verified"]["replies"].as_u64().unwrap();
        assert!(checked >= json["totals"]["requests"].as_u64().unwrap(), "{flags:?}");
        assert_eq!(json["totals"]["errors"], 0, "{flags:?}");
    }
}

#[test]
fn every_command_that_the_model_knows_is_followed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("all.toml");
    let commands = ["SET __key__ __data__", "GET __key__", "GETDEL __key__", "DEL __key__", "UNLINK __key__"];
    let commands = commands.iter().chain(&["EXISTS __key__", "STRLEN __key__"]);
    let entries: String = commands.map(|send| format!("[[command]]\nsend = '{send}'\nweight = 1\n")).collect();
    fs::write(&path, format!("name = 'all'\nabout = 'all'\n{entries}")).unwrap();
    let redis = Redis::start();
    let flags = ["--workload", path.to_str().unwrap(), "--verify", "--key-maximum", "60", "-n", "7000"];
    let json = measure_at(redis.port, &flags);
    assert_eq!((json["verified"]["replies"].as_u64(), json["verified"]["mismatches"].as_u64()), (Some(7000), Some(0)));
    let ratio = json["totals"]["hit_ratio"].as_f64().unwrap();
    assert!((0.05..0.9).contains(&ratio), "{ratio}");
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
    assert_eq!(measure(&stub, &flags)["verified"]["mismatches"], 0);
}

#[test]
fn a_lost_write_is_found_and_the_run_fails() {
    let stub = Stub::start(Behaviour { lost_set: Some(40), ..Behaviour::default() });
    let flags = ["--verify", "-n", "400", "--ratio", "1:3", "--key-maximum", "3", "-c", "3"];
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
