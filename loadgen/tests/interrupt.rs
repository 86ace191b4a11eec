//! Ctrl-C: earlier files stay whole, and what was measured so far is written.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::{Behaviour, Stub, by, loadgen, stderr, ways};
use loadgen::compare::Dump;
use serde_json::Value as Json;

const WAIT_MAX: Duration = Duration::from_secs(20);

/// Starts it with the disposition of SIGHUP that a terminal gives, whatever these tests were started by.
fn start(arguments: &[&str]) -> Child {
    Command::new("env")
        .args(["--default-signal=HUP", env!("CARGO_BIN_EXE_loadgen")])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary is built")
}

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([name, &child.id().to_string()]).status().expect("kill is installed");
    assert!(status.success());
}

/// Waits until the stub has seen this many requests of the load, and a little longer.
fn wait_for_requests(stub: &Stub, requests: u64) {
    let began = Instant::now();
    while stub.count("SET") + stub.count("GET") < requests {
        assert!(began.elapsed() < WAIT_MAX, "no requests");
        thread::sleep(Duration::from_millis(5));
    }
    thread::sleep(Duration::from_millis(300));
}

fn ended(child: Child) -> (Output, Duration) {
    let began = Instant::now();
    let output = child.wait_with_output().expect("a child");
    (output, began.elapsed())
}

fn read_json(path: &Path) -> Json {
    serde_json::from_str(&fs::read_to_string(path).expect("written")).expect("JSON")
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn an_interrupted_run_writes_what_it_measured() {
    for io in ways() {
        for (signal_name, flags) in [
            ("-INT", &["--test-time", "60"][..]),
            ("-TERM", &["-n", "100000000"]),
            ("-HUP", &["--test-time", "60"]),
            ("-INT", &["--test-time", "60", "--rate-limiting", "500"]),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let prefix = directory.path().join("run");
            let stub = Stub::start(Behaviour::default());
            let files = ["--hdr-file-prefix", prefix.to_str().unwrap(), "-c", "3", "-t", "2"];
            let port = stub.port.to_string();
            let child = start(&by(io, &[&["-p", &port], &files[..], flags].concat()));
            wait_for_requests(&stub, 100);
            signal(&child, signal_name);
            let (output, took) = ended(child);
            assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
            assert!(took < Duration::from_secs(5) && stderr(&output).contains("interrupted after"), "{took:?}");
            let json = read_json(&prefix.with_extension("json"));
            assert_eq!(json["interrupted"], true);
            let (requests, duration_s) = (json["totals"]["requests"].as_u64(), json["duration_s"].as_f64().unwrap());
            assert!(requests.unwrap() >= 100 && (0.2..10.0).contains(&duration_s), "{requests:?} in {duration_s} s");
            assert_eq!(requests, Some(stub.count("SET") + stub.count("GET")), "{io} {flags:?}");
            let log = Dump::read(&prefix.with_extension("hlog"), None).unwrap();
            assert_eq!(Some(log.histogram.len()), requests);
            assert_eq!(json["unsent"], 0, "what was not due yet is not missing");
            assert!(names(directory.path()).iter().all(|name| !name.ends_with(".partial")));
        }
    }
}

#[test]
fn a_run_under_nohup_outlives_its_terminal() {
    let stub = Stub::start(Behaviour::default());
    let mut command = Command::new("nohup");
    command.arg(env!("CARGO_BIN_EXE_loadgen")).args(["-p", &stub.port.to_string(), "--test-time", "2"]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_requests(&stub, 100);
    signal(&child, "-HUP");
    let (output, _) = ended(child);
    assert!(output.status.success() && !stderr(&output).contains("interrupted"), "{}", stderr(&output));
}

/// Whether its JSON is beside them or not.
#[test]
fn each_log_of_an_interrupted_run_says_so_where_it_is_compared() {
    let directory = tempfile::tempdir().unwrap();
    let (prefix, json) = (directory.path().join("run"), directory.path().join("elsewhere.json"));
    let stub = Stub::start(Behaviour::default());
    let files = ["--hdr-file-prefix", prefix.to_str().unwrap(), "--json-out-file", json.to_str().unwrap()];
    let child = start(&[&["-p", &stub.port.to_string(), "--test-time", "60", "-c", "2"], &files[..]].concat());
    wait_for_requests(&stub, 100);
    signal(&child, "-INT");
    assert_eq!(ended(child).0.status.code(), Some(130));
    for ending in ["hlog", "total.hlog", "service.hlog", "service.total.hlog"] {
        let log = prefix.with_extension(ending);
        let output = loadgen(&["compare", log.to_str().unwrap(), log.to_str().unwrap()]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(&format!("; INTERRUPTED: {}", log.display())), "{text}");
    }
}

/// The target answers nothing any more: the run does not wait for it.
#[test]
fn an_interrupted_run_does_not_wait_for_a_target_that_is_silent() {
    for io in ways() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("out.json");
        let stub = Stub::start(Behaviour { stall: Some((200, Duration::from_secs(30))), ..Behaviour::default() });
        let port = stub.port.to_string();
        let flags = ["-p", &port, "--test-time", "60", "-c", "2", "--json-out-file", file.to_str().unwrap()];
        let child = start(&by(io, &flags));
        wait_for_requests(&stub, 200);
        signal(&child, "-INT");
        let (output, took) = ended(child);
        assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
        assert!(took < Duration::from_secs(8), "{took:?}");
        assert!(read_json(&file)["totals"]["requests"].as_u64().unwrap() >= 190);
    }
}

#[test]
fn files_of_an_earlier_run_stay_whole_until_the_next_one_is_complete() {
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().join("run");
    let stub = Stub::start(Behaviour::default());
    let port = stub.port.to_string();
    let flags = ["-p", &port, "-n", "500", "--hdr-file-prefix", prefix.to_str().unwrap()];
    assert!(loadgen(&flags).status.success());
    let contents = || -> Vec<_> {
        let files = names(directory.path()).into_iter().filter(|name| !name.ends_with(".partial"));
        files.map(|name| (name.clone(), fs::read(directory.path().join(name)).unwrap())).collect()
    };
    let before = contents();
    assert_eq!(before.len(), 7);
    // A run that goes on, and is killed, changes nothing.
    let mut child = start(&["-p", &port, "--test-time", "60", "--hdr-file-prefix", prefix.to_str().unwrap()]);
    wait_for_requests(&stub, 1000);
    assert_eq!(contents(), before);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(contents(), before);
    // So do one that fails, and one that is interrupted before its window opens.
    let gone = Stub::start(Behaviour { close_after: Some(100), ..Behaviour::default() });
    let port_gone = gone.port.to_string();
    let failed = loadgen(&["-p", &port_gone, "-n", "5000", "--hdr-file-prefix", prefix.to_str().unwrap()]);
    assert_eq!(failed.status.code(), Some(1));
    let flags = ["-p", &port, "-n", "500", "--warm-up", "60", "--hdr-file-prefix", prefix.to_str().unwrap()];
    let warming = start(&flags);
    wait_for_requests(&stub, stub.count("SET") + stub.count("GET") + 100);
    signal(&warming, "-INT");
    assert_eq!(ended(warming).0.status.code(), Some(130));
    assert_eq!(contents(), before);
    assert_eq!(names(directory.path()).len(), 7, "nothing is left over: {:?}", names(directory.path()));
}

#[test]
fn a_file_that_is_no_regular_one_is_written_to() {
    let stub = Stub::start(Behaviour::default());
    let port = stub.port.to_string();
    let output = loadgen(&["-p", &port, "-n", "50", "--quiet", "--json-out-file", "/dev/stdout"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let json: Json = serde_json::from_slice(&output.stdout).expect("JSON on stdout");
    assert_eq!(json["totals"]["requests"], 50);
}

#[test]
fn an_interrupted_ramp_writes_its_steps() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ramp.json");
    let stub = Stub::start(Behaviour::default());
    let port = stub.port.to_string();
    let files = ["--json-out-file", file.to_str().unwrap()];
    let child = start(&[&["-p", &port, "--rate-steps", "1000,500", "--test-time", "1"], &files[..]].concat());
    wait_for_requests(&stub, 1050);
    signal(&child, "-INT");
    assert_eq!(ended(child).0.status.code(), Some(130));
    let json = read_json(&file);
    assert_eq!((&json["interrupted"], &json["steps"][0]["requests"]), (&Json::Bool(true), &Json::from(1000)));
    assert_eq!(json["steps"][1]["failures"][0], "interrupted");
}
