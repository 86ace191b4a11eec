//! Several generators merged into one run, and directories of runs compared.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use common::{Behaviour, Stub, loadgen, stderr};
use loadgen::compare::Dump;
use loadgen::record::value_at_percentile;

fn run(stub: &Stub, prefix: &Path, flags: &[&str]) {
    let port = stub.port.to_string();
    let output = loadgen(&[&["-p", &port, "--hdr-file-prefix", prefix.to_str().unwrap()], flags].concat());
    assert!(output.status.success(), "{}", stderr(&output));
}

fn json(path: &Path) -> serde_json::Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn merged_generators_are_one_run() {
    let stub = Stub::start(Behaviour::default());
    let directory = tempfile::tempdir().unwrap();
    let prefix = |name: &str| directory.path().join(name);
    let flags = ["--test-time", "1.5", "--prefill", "--key-maximum", "20", "--ratio", "1:3"];
    thread::scope(|scope| {
        for (name, rate) in [("a", "400"), ("b", "800")] {
            let flags = [&flags[..], &["--rate-limiting", rate]].concat();
            let (stub, prefix) = (&stub, prefix(name));
            scope.spawn(move || run(stub, &prefix, &flags));
        }
    });
    let (a, b, out) = (prefix("a"), prefix("b"), prefix("both"));
    let output = loadgen(&["merge", a.to_str().unwrap(), b.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    assert!(output.status.success(), "{}", stderr(&output));

    let merged = json(&out.with_extension("json"));
    let parts = [json(&a.with_extension("json")), json(&b.with_extension("json"))];
    for count in ["requests", "hits", "misses", "errors", "bytes_sent", "bytes_received"] {
        let sum: u64 = parts.iter().map(|part| part["commands"]["GET"][count].as_u64().unwrap()).sum();
        assert_eq!(merged["commands"]["GET"][count], sum, "{count}");
    }
    assert_eq!(merged["totals"]["requests"], 1800);
    let rate = merged["totals"]["ops_per_sec"].as_f64().unwrap();
    assert!((600.0..1210.0).contains(&rate), "{rate}");
    assert_eq!(merged["format"], "shardrace-loadgen/1");
    assert_eq!(merged["merged"].as_array().unwrap().len(), 2);

    // The merged logs hold the values of both, and the merged JSON their percentiles.
    for (suffix, times) in [("hlog", "latency_us"), ("total.hlog", "latency_us"), ("service.hlog", "service_us")] {
        let dump = |prefix: &Path| Dump::read(&prefix.with_extension(suffix), None).unwrap().histogram;
        let mut both = dump(&a);
        both.add(dump(&b)).unwrap();
        let own = dump(&out);
        assert_eq!(own.len(), both.len());
        for (name, percentile) in [("p50", 50.0), ("p99", 99.0), ("max", 100.0)] {
            let expected = value_at_percentile(&both, percentile);
            assert_eq!(value_at_percentile(&own, percentile), expected, "{suffix} {name}");
            assert_eq!(merged["totals"][times][name].as_f64(), Some(expected as f64 / 1000.0), "{suffix} {name}");
        }
    }
    let csv = fs::read_to_string(out.with_extension("csv")).unwrap();
    let column =
        |n: usize| csv.lines().skip(1).map(|row| row.split(',').nth(n).unwrap().parse::<u64>().unwrap()).sum::<u64>();
    assert_eq!((column(1), Some(column(3))), (1800, merged["totals"]["hits"].as_u64()));
    assert!(out.with_extension("hgrm").exists());
}

#[test]
fn what_cannot_be_merged_is_refused_and_what_did_not_overlap_is_said() {
    let stub = Stub::start(Behaviour::default());
    let directory = tempfile::tempdir().unwrap();
    let (a, b, out) = (directory.path().join("a"), directory.path().join("b"), directory.path().join("out"));
    let (a_name, b_name, out_name) = (a.to_str().unwrap(), b.to_str().unwrap(), out.to_str().unwrap());
    run(&stub, &a, &["-n", "100"]);
    let missing = loadgen(&["merge", a_name, b_name, "-o", out_name]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(stderr(&missing).contains("b.json"), "{}", stderr(&missing));
    run(&stub, &b, &["-n", "100"]);
    let apart = loadgen(&["merge", a_name, b_name, "-o", out_name]);
    assert!(apart.status.success());
    assert!(stderr(&apart).contains("ran together in only 0 %"), "{}", stderr(&apart));
    fs::copy(b.with_extension("json"), a.with_extension("json")).unwrap();
    run(&stub, &b, &["-n", "50"]);
    fs::copy(a.with_extension("json"), b.with_extension("json")).unwrap();
    let strange = loadgen(&["merge", a_name, b_name, "-o", out_name]);
    assert!(stderr(&strange).contains("are they of the same runs?"), "{}", stderr(&strange));
}

/// The column of numbers of a CSV.
fn column(csv: &Path, name: &str) -> Vec<u64> {
    let text = fs::read_to_string(csv).unwrap();
    let mut rows = text.lines().map(|row| row.split(','));
    let place = rows.next().unwrap().position(|header| header == name).unwrap();
    rows.map(|mut row| row.nth(place).unwrap().parse().unwrap()).collect()
}

#[test]
fn errors_and_misses_are_in_the_seconds_of_their_requests_whatever_the_offset_of_the_runs() {
    let stub = Stub::start(Behaviour::default());
    let refusing = Stub::start(Behaviour { reply: Some(b"-ERR no\r\n"), ..Behaviour::default() });
    let directory = tempfile::tempdir().unwrap();
    let prefix = |name: &str| directory.path().join(name);
    let flags = ["--test-time", "2", "--rate-limiting", "200", "--ratio", "0:1"];
    for (folder, stub, counted) in [("errors", &refusing, "errors"), ("misses", &stub, "misses")] {
        let (a, b, out) = (prefix(folder).join("a"), prefix(folder).join("b"), prefix(folder).join("both"));
        thread::scope(|scope| {
            for (prefix, later) in [(&a, 0), (&b, 600)] {
                scope.spawn(move || {
                    thread::sleep(Duration::from_millis(later));
                    run(stub, prefix, &flags);
                });
            }
        });
        let output = loadgen(&["merge", a.to_str().unwrap(), b.to_str().unwrap(), "--out", out.to_str().unwrap()]);
        assert!(output.status.success(), "{}", stderr(&output));
        let csv = out.with_extension("csv");
        let (requests, counts) = (column(&csv, "ops"), column(&csv, counted));
        assert_eq!(requests.iter().sum::<u64>(), 800, "{counted}");
        assert_eq!(requests, counts, "every request is one of the {counted}");
    }
}

#[test]
fn runs_of_several_windows_are_not_merged() {
    let stub = Stub::start(Behaviour::default());
    let directory = tempfile::tempdir().unwrap();
    let (a, b, out) = (directory.path().join("a"), directory.path().join("b"), directory.path().join("both"));
    run(&stub, &a, &["-n", "100"]);
    run(&stub, &b, &["-n", "100", "-x", "2"]);
    let output = loadgen(&["merge", a.to_str().unwrap(), b.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("b.json: a run with --run-count above 1: its windows are not at the same time"), "{said}");
    assert!(!out.with_extension("json").exists());
}

#[test]
fn one_run_is_not_merged_with_itself() {
    let stub = Stub::start(Behaviour::default());
    let directory = tempfile::tempdir().unwrap();
    let (a, out) = (directory.path().join("a"), directory.path().join("both"));
    run(&stub, &a, &["-n", "100"]);
    let by_another_path = directory.path().join("../").join(directory.path().file_name().unwrap()).join("a");
    let link = directory.path().join("link");
    for suffix in ["json", "hlog", "service.hlog"] {
        std::os::unix::fs::symlink(a.with_extension(suffix), link.with_extension(suffix)).unwrap();
    }
    for other in [&a, &by_another_path, &link] {
        let output = loadgen(&["merge", a.to_str().unwrap(), other.to_str().unwrap(), "--out", out.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(1), "{}", other.display());
        let told = format!("{} and {} are one run", a.display(), other.display());
        assert!(stderr(&output).contains(&told), "{}", stderr(&output));
        assert!(!out.with_extension("json").exists());
    }
}

#[test]
fn a_run_is_not_overwritten_with_the_sum() {
    let stub = Stub::start(Behaviour::default());
    let directory = tempfile::tempdir().unwrap();
    let (a, b) = (directory.path().join("a"), directory.path().join("b"));
    run(&stub, &a, &["-n", "100"]);
    run(&stub, &b, &["-n", "100"]);
    let before = fs::read(a.with_extension("json")).unwrap();
    let output = loadgen(&["merge", a.to_str().unwrap(), b.to_str().unwrap(), "--out", a.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains(&format!("--out is {}, one of the runs", a.display())), "{}", stderr(&output));
    assert_eq!(fs::read(a.with_extension("json")).unwrap(), before);
}

#[test]
fn directories_of_runs_are_compared_with_intervals_and_a_verdict() {
    let directory = tempfile::tempdir().unwrap();
    let (quick, slow) = (directory.path().join("quick"), directory.path().join("slow"));
    for (folder, delay) in [(&quick, 1), (&slow, 30)] {
        fs::create_dir(folder).unwrap();
        let stub = Stub::start(Behaviour { delay: Duration::from_millis(delay), ..Behaviour::default() });
        for name in ["1", "2", "3", "4", "5"] {
            run(&stub, &folder.join(name), &["-n", "100", "-c", "4"]);
        }
    }
    let html = directory.path().join("page.html");
    let (quick, slow) = (quick.to_str().unwrap(), slow.to_str().unwrap());
    let output = loadgen(&["compare", quick, slow, "--html", html.to_str().unwrap()]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let verdicts = text.split("against").nth(1).unwrap();
    // Not the upper percentiles: what else the machine does shows there.
    let line = verdicts.lines().find(|line| line.trim_start().starts_with("p50")).unwrap();
    assert!(line.trim_end().ends_with("slower"), "{text}");
    assert!(text.contains("500 requests in 5 runs"), "{text}");
    let page = fs::read_to_string(html).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    assert!(page.contains("<svg") && page.contains("class=\"slower\""));
    assert_eq!(page.matches("http").count(), page.matches("xmlns").count(), "nothing but the name of SVG's namespace");
    assert!(page.contains("prefers-color-scheme:dark") && page.contains("max-width:640px"));
    // A band for each side, in the picture for screens and in that for phones.
    assert_eq!(page.matches("<path class=\"band").count(), 4);
    assert!(!page.contains("<script") && !page.contains("src="));
}

#[test]
fn an_invalid_run_is_pointed_out() {
    let stub = Stub::start(Behaviour::default());
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().join("run");
    run(&stub, &prefix, &["-n", "200"]);
    let path = prefix.with_extension("json");
    let mut result = json(&path);
    result["valid"] = false.into();
    fs::write(&path, result.to_string()).unwrap();
    let log = prefix.with_extension("hlog");
    let output = loadgen(&["compare", log.to_str().unwrap(), log.to_str().unwrap()]);
    assert!(String::from_utf8(output.stdout).unwrap().contains("INVALID"));
    let empty = directory.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let output = loadgen(&["compare", empty.to_str().unwrap(), log.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no .hlog files"), "{}", stderr(&output));
}
