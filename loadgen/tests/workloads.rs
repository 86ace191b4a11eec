//! Workload files: those that ship against redis-server, and one of our own against the stub.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;

use common::{Behaviour, Redis, Stub, failure, loadgen, measure, measure_at, stderr};
use loadgen::workload::file::WorkloadFile;

#[test]
fn every_workload_that_ships_runs_without_an_error_reply() {
    let redis = Redis::start();
    for workload in WorkloadFile::shipped() {
        let name = workload.name.as_str();
        let mut flags = vec!["--workload", name, "-n", "2000", "-c", "5", "--pipeline", "4", "--key-maximum", "500"];
        if workload.prefill.is_some() {
            flags.push("--prefill");
        }
        for protocol in ["2", "3"] {
            let json = measure_at(redis.port, &[&flags[..], &["--resp", protocol]].concat());
            assert_eq!(json["totals"]["requests"], 2000, "{name}");
            assert_eq!(json["totals"]["errors"], 0, "{name}");
            assert_eq!(json["config"]["workload"], name);
        }
    }
}

/// The blocks of TOML in the generator's README.
fn examples() -> Vec<String> {
    let readme = include_str!("../README.md");
    let blocks = readme.split("```toml\n").skip(1).filter_map(|rest| rest.split_once("```"));
    blocks.map(|(block, _)| block.to_owned()).collect()
}

#[test]
fn every_workload_in_the_readme_runs_without_an_error_reply() {
    let redis = Redis::start();
    assert_eq!(examples().len(), 2);
    for example in examples() {
        let (_directory, path) = file(&example);
        let flags = ["--workload", &path, "-n", "400", "-c", "2", "--key-maximum", "128"];
        let prefill = example.contains("[prefill]").then_some("--prefill");
        let json = measure_at(redis.port, &flags.into_iter().chain(prefill).collect::<Vec<_>>());
        assert_eq!((&json["totals"]["requests"], &json["totals"]["errors"]), (&400.into(), &0.into()), "{example}");
    }
}

#[test]
fn a_prefilled_ycsb_load_reads_what_is_there() {
    let redis = Redis::start();
    for name in ["ycsb-a", "ycsb-c", "ycsb-e"] {
        let flags = ["--workload", name, "--prefill", "-n", "2000", "--key-maximum", "300"];
        let json = measure_at(redis.port, &flags);
        assert_eq!(json["totals"]["hit_ratio"], 1.0, "{name}");
    }
    let json = measure_at(redis.port, &["--workload", "ycsb-d", "--prefill", "-n", "4000", "--key-maximum", "300"]);
    // A read may overtake the insert of its key; 5 % are inserts.
    assert_eq!(json["commands"]["INSERT"]["requests"], 200);
    assert!(json["totals"]["hit_ratio"].as_f64().unwrap() > 0.9, "{}", json["totals"]);
}

fn file(text: &str) -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("load.toml");
    fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (directory, path)
}

const OWN: &str = "
name = 'own'
about = 'for this test'
[flags]
key-prefix = 'x:'
key-maximum = 10
data-size = 5
[prefill]
send = ['SET __key__ __data__', 'SET second:__key__ 1']
keys = 4
[[command]]
send = 'GET __key__'
weight = 6
[[command]]
send = ['INCR a:__number__', 'EXPIRE a:__number__ 7']
weight = 4
";

#[test]
fn weights_are_exact_and_steps_follow_each_other_with_the_same_key() {
    let (_directory, path) = file(OWN);
    let stub = Stub::start(Behaviour::default());
    let json = measure(&stub, &["--workload", &path, "-n", "1400", "-c", "1", "--pipeline", "7", "--prefill"]);
    assert_eq!((stub.count("GET"), stub.count("INCR"), stub.count("EXPIRE")), (600, 400, 400));
    assert_eq!(stub.count("SET"), 8);
    for (command, count) in [("GET", 600), ("INCR", 400), ("EXPIRE", 400)] {
        assert_eq!(json["commands"][command]["requests"], count);
    }
    assert!(stub.seen(|seen| seen.keys.contains("second:x:4") && !seen.keys.contains("second:x:5")));
    let steps = stub.seen(|seen| seen.control.clone());
    assert_eq!(steps.len(), 800);
    for pair in steps.chunks(2) {
        assert_eq!((pair[0][0].as_str(), pair[1][0].as_str()), ("INCR", "EXPIRE"));
        assert_eq!(pair[0][1], pair[1][1]);
        assert_eq!(pair[1][2], "7");
    }
}

#[test]
fn flags_go_before_what_the_file_says() {
    let (_directory, path) = file(OWN);
    let stub = Stub::start(Behaviour::default());
    let json = measure(&stub, &["--workload", &path, "-n", "500", "--key-prefix", "y:", "--key-maximum", "3"]);
    assert!(stub.seen(|seen| seen.keys.iter().all(|key| ["y:1", "y:2", "y:3"].contains(&key.as_str()))));
    assert_eq!((json["config"]["key-maximum"].as_u64(), json["config"]["data-size"].as_u64()), (Some(3), Some(5)));
}

#[test]
fn a_bad_file_says_what_is_wrong_with_it() {
    let head = "name = 'x'\nabout = 'y'\n";
    for (text, what) in [
        ("", "missing field `name`"),
        ("name = 'x'\nabout = 'y'\nno = 1\n", "unknown field `no`"),
        ("[[command]]\nsend = 'GET __nothing__'\nweight = 1", "unknown placeholder __nothing__"),
        ("[[command]]\nsend = 'GET __key__'\nweight = 0", "no command has a weight"),
        ("[[command]]\nsend = []\nweight = 1", "sends nothing"),
        ("[[command]]\nsend = 'GET k'\nweight = 1\nkeys = 'nearby'", "unknown key pattern \"nearby\""),
        ("[[command]]\nsend = 'GET k'\nweight = 1\nname = 'a b'", "has a space"),
        (
            "[[command]]\nsend = 'GET k'\nweight = 1\nname = 'A'\n[[command]]\nsend = 'SET k v'\nweight = 1\nname = 'A'",
            "two different commands",
        ),
        ("[flags]\nclients = 3\n[[command]]\nsend = 'GET k'\nweight = 1", "unknown field `clients`"),
        ("[[command]]\nsend = 'GET k'\nweight = 100001\n[[command]]\nsend = 'GET l'\nweight = 1", "more than 100000"),
    ] {
        let text = if text.is_empty() || text.starts_with("name") { text.to_owned() } else { format!("{head}{text}") };
        let (_directory, path) = file(&text);
        let output = loadgen(&["--workload", &path]);
        assert_eq!(output.status.code(), Some(1), "{text}");
        let said = stderr(&output);
        assert!(said.contains(what) && said.contains(&path), "{text}: {said}");
    }
    assert!(stderr(&loadgen(&["--workload", "nosuch"])).contains("ycsb-a, ycsb-b"));
}

#[test]
fn a_reply_that_cannot_answer_a_command_of_the_file_is_an_error() {
    let stub = Stub::start(Behaviour { reply: Some(b":1\r\n"), ..Behaviour::default() });
    let said = failure(&stub, &["--workload", "mixed", "-n", "100"]);
    assert!(said.contains("GET was answered by the kind Integer"), "{said}");
}

#[test]
fn the_workloads_are_listed() {
    let output = loadgen(&["workloads"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), WorkloadFile::shipped().len());
    assert!(text.contains("ycsb-f") && text.contains("rate-limiter"));
}
