//! What the logs of a run say of it: how long it measured, and what makes its latencies mean less than they seem to.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::{Behaviour, Stub, loadgen, measure, stderr};
use loadgen::compare::Dump;

const LOGS: [&str; 4] = ["hlog", "total.hlog", "service.hlog", "service.total.hlog"];

/// A run whose JSON is not beside its logs; and that JSON.
fn run(stub: &Stub, prefix: &Path, flags: &[&str]) -> serde_json::Value {
    measure(stub, &[&["--hdr-file-prefix", prefix.to_str().unwrap()], flags].concat())
}

fn log(prefix: &Path, ending: &str) -> PathBuf {
    prefix.with_extension(ending)
}

fn compare(log: &Path) -> String {
    let name = log.to_str().unwrap();
    let output = loadgen(&["compare", name, name]);
    assert!(output.status.success(), "{}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Makes it a log as earlier versions wrote it, or other programs do.
fn without_caveats(log: &Path) {
    let text = fs::read_to_string(log).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with("#[loadgen "));
    fs::write(log, lines.map(|line| format!("{line}\n")).collect::<String>()).unwrap();
}

fn write_json(prefix: &Path, json: &serde_json::Value) {
    fs::write(prefix.with_extension("json"), json.to_string()).unwrap();
}

fn assert_duration(log: &Path, run: &serde_json::Value) {
    let expected = run["duration_s"].as_f64().unwrap();
    for tag in [None, Some("GET")] {
        let duration = Dump::read(log, tag).unwrap().duration.as_secs_f64();
        assert!((duration - expected).abs() < 0.002, "{}: {duration} s, not {expected} s", log.display());
    }
}

/// A second without replies at the beginning; pauses between windows.
fn runs_with_gaps(directory: &Path) -> Vec<(PathBuf, serde_json::Value)> {
    let slow = Stub::start(Behaviour { delay: Duration::from_millis(1200), ..Behaviour::default() });
    let quick = Stub::start(Behaviour::default());
    let flags = [&["-c", "4", "-n", "4"][..], &["--test-time", "0.5", "--warm-up", "0.5", "-x", "2", "-c", "2"]];
    let run = |(stub, name, flags): (&Stub, &str, &[&str])| {
        let prefix = directory.join(name);
        let json = run(stub, &prefix, &[flags, &["--ratio", "1:1"]].concat());
        (prefix, json)
    };
    [(&slow, "slow", flags[0]), (&quick, "windows", flags[1])].into_iter().map(run).collect()
}

#[test]
fn the_rate_of_a_log_is_over_the_time_that_its_run_measured() {
    let directory = tempfile::tempdir().unwrap();
    for (prefix, json) in runs_with_gaps(directory.path()) {
        for ending in LOGS {
            assert_duration(&log(&prefix, ending), &json);
        }
    }
}

#[test]
fn a_log_that_does_not_say_how_long_it_measured_has_it_from_the_files_beside_it() {
    let directory = tempfile::tempdir().unwrap();
    for (prefix, json) in runs_with_gaps(directory.path()) {
        for ending in LOGS {
            without_caveats(&log(&prefix, ending));
            assert_duration(&log(&prefix, ending), &json);
        }
        fs::rename(log(&prefix, "total.hlog"), directory.path().join("elsewhere.hlog")).unwrap();
        write_json(&prefix, &json);
        assert_duration(&log(&prefix, "hlog"), &json);
    }
}

/// A log of its own has no more than its intervals.
#[test]
fn pauses_between_the_intervals_of_a_log_are_not_measured() {
    let directory = tempfile::tempdir().unwrap();
    let (prefix, json) = runs_with_gaps(directory.path()).remove(1);
    without_caveats(&log(&prefix, "hlog"));
    let alone = directory.path().join("alone.hlog");
    fs::rename(log(&prefix, "hlog"), &alone).unwrap();
    assert_duration(&alone, &json);
}

#[test]
fn a_run_with_error_replies_is_pointed_out_by_each_of_its_logs() {
    let stub = Stub::start(Behaviour { reply: Some(b"-OOM no room\r\n"), ..Behaviour::default() });
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().join("run");
    run(&stub, &prefix, &["-n", "100", "--ratio", "1:1"]);
    for ending in LOGS {
        let path = log(&prefix, ending);
        assert!(compare(&path).contains(&format!("; ERROR REPLIES: {}", path.display())), "{ending}");
    }
}

#[test]
fn files_are_written_though_nobody_reads_what_is_printed() {
    let stub = Stub::start(Behaviour::default());
    let directory = tempfile::tempdir().unwrap();
    let (json, page) = (directory.path().join("run.json"), directory.path().join("page.html"));
    let unread = |arguments: &[&str]| {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let loadgen = std::process::Command::new(env!("CARGO_BIN_EXE_loadgen")).args(arguments).stdout(writer).status();
        loadgen.unwrap().success()
    };
    let port = stub.port.to_string();
    let prefix = directory.path().join("run");
    let prefix = prefix.to_str().unwrap();
    assert!(unread(&["-p", &port, "-n", "100", "--hdr-file-prefix", prefix]));
    let text = fs::read_to_string(&json).unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap()["totals"]["requests"], 100);
    let log = format!("{prefix}.hlog");
    unread(&["compare", &log, &log, "--html", page.to_str().unwrap()]);
    assert!(fs::read_to_string(&page).unwrap().contains("</html>"));
}

#[test]
fn an_invalid_run_is_pointed_out_by_each_of_its_logs_and_by_the_json_of_those_that_say_nothing() {
    let stub = Stub::start(Behaviour::default());
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().join("run");
    let mut json = run(&stub, &prefix, &["-n", "100", "--ratio", "1:1"]);
    for ending in LOGS {
        let path = log(&prefix, ending);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text + "#[loadgen fault: a thread of the generator was busy 99 % of the time]\n").unwrap();
        assert!(compare(&path).contains(&format!("; INVALID: {}", path.display())), "{ending}");
    }
    json["valid"] = false.into();
    write_json(&prefix, &json);
    for ending in LOGS {
        without_caveats(&log(&prefix, ending));
        assert!(compare(&log(&prefix, ending)).contains("; INVALID: "), "{ending}");
    }
}

#[test]
fn the_json_of_an_earlier_run_says_nothing_of_a_log() {
    let stub = Stub::start(Behaviour::default());
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().join("run");
    let mut earlier = run(&stub, &prefix, &["-n", "100"]);
    earlier["valid"] = false.into();
    earlier["started_unix_ms"] = (earlier["started_unix_ms"].as_u64().unwrap() - 60_000).into();
    write_json(&prefix, &earlier);
    let text = compare(&log(&prefix, "hlog"));
    assert!(!text.contains("INVALID"), "{text}");
}

/// Two connections that answer after 10 ms each do not serve 5,000 requests a second.
fn overloaded() -> Stub {
    Stub::start(Behaviour { delay: Duration::from_millis(10), ..Behaviour::default() })
}

const OVERLOAD: [&str; 6] = ["--test-time", "0.3", "--rate-limiting", "5000", "-c", "2"];

fn unsent_text(requests: u64) -> String {
    format!("the target did not keep up with the rate: {requests} requests were due and never sent")
}

#[test]
fn requests_that_were_never_sent_are_seen_where_runs_are_compared() {
    let directory = tempfile::tempdir().unwrap();
    let (stub, prefix) = (overloaded(), directory.path().join("run"));
    let json = run(&stub, &prefix, &OVERLOAD);
    let unsent = json["unsent"].as_u64().unwrap();
    assert!(unsent > 0);
    for ending in LOGS {
        let path = log(&prefix, ending);
        let text = compare(&path);
        let told = format!("; UNSENT: {}: {}", path.display(), unsent_text(unsent));
        assert!(text.contains(&told), "{text}");
    }
    let runs = directory.path().join("runs");
    fs::create_dir(&runs).unwrap();
    for name in ["1.hlog", "2.hlog"] {
        fs::copy(log(&prefix, "hlog"), runs.join(name)).unwrap();
    }
    assert!(compare(&runs).contains(&unsent_text(2 * unsent)));
}

#[test]
fn requests_that_a_step_of_a_ramp_never_sent_are_seen_where_it_is_compared() {
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().join("ramp");
    let flags = ["--rate-steps", "5000", "--test-time", "0.3", "-c", "2", "--hdr-file-prefix"];
    measure(&overloaded(), &[&flags[..], &[prefix.to_str().unwrap()]].concat());
    let text = compare(&directory.path().join("ramp.step01-5000.hlog"));
    assert!(text.contains("; UNSENT: "), "{text}");
}

#[test]
fn what_merged_runs_lack_their_sum_lacks() {
    let (directory, stub) = (tempfile::tempdir().unwrap(), overloaded());
    let prefix = |name: &str| directory.path().join(name);
    let (a, b, out) = (prefix("a"), prefix("b"), prefix("both"));
    let [mut first, mut second] = [&a, &b].map(|prefix| run(&stub, prefix, &OVERLOAD));
    let unsent = [&first, &second].map(|json| json["unsent"].as_u64().unwrap());
    first["interrupted"] = true.into();
    first["verified"] = serde_json::json!({ "replies": 100, "mismatches": 0, "first": null });
    second["valid"] = false.into();
    second["faults"] = vec!["busy"].into();
    second["verified"] = serde_json::json!({ "replies": 50, "mismatches": 2, "first": "GET x" });
    write_json(&a, &first);
    write_json(&b, &second);
    let output = loadgen(&["merge", a.to_str().unwrap(), b.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    assert!(output.status.success(), "{}", stderr(&output));
    let (said, a, b) = (stderr(&output), a.display(), b.display());
    for told in [
        format!("warning: {a}: {}", unsent_text(unsent[0])),
        format!("warning: {b}: {}", unsent_text(unsent[1])),
        format!("warning: {a} was interrupted after "),
        format!("warning: {b} is INVALID: busy"),
        format!("warning: {b}: 2 of 50 replies are not what the model has"),
    ] {
        assert!(said.contains(&told), "{told}: {said}");
    }
    let merged: serde_json::Value = serde_json::from_str(&fs::read_to_string(log(&out, "json")).unwrap()).unwrap();
    assert_eq!(merged["unsent"], unsent[0] + unsent[1]);
    assert_eq!((&merged["interrupted"], &merged["valid"]), (&true.into(), &false.into()));
    assert_eq!(merged["verified"], serde_json::json!({ "replies": 150, "mismatches": 2, "first": "GET x" }));
    // Its logs say so where its JSON is not.
    fs::remove_file(log(&out, "json")).unwrap();
    for ending in LOGS {
        let text = compare(&log(&out, ending));
        let told = ["; INVALID: ", "; INTERRUPTED: ", &unsent_text(unsent[0] + unsent[1])];
        assert!(told.iter().all(|told| text.contains(told)), "{text}");
        assert_duration(&log(&out, ending), &merged);
    }
}
