//! The histogram files: read back with the library's own reader, and compared.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::{Behaviour, Stub, loadgen, measure, stderr};
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use loadgen::compare::Dump;
use loadgen::record::value_at_percentile;

fn run(directory: &Path, name: &str, delay: Duration, flags: &[&str]) -> (PathBuf, serde_json::Value) {
    let stub = Stub::start(Behaviour { delay, ..Behaviour::default() });
    let prefix = directory.join(name);
    let json = measure(&stub, &[&["--hdr-file-prefix", prefix.to_str().unwrap()], flags].concat());
    (prefix.with_extension("hlog"), json)
}

fn assert_same_percentiles(dump: &Dump, json: &serde_json::Value) {
    for (name, percentile) in
        [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p99.9", 99.9), ("p99.99", 99.99), ("max", 100.0)]
    {
        let from_log_us = value_at_percentile(&dump.histogram, percentile) as f64 / 1000.0;
        assert_eq!(Some(from_log_us), json[name].as_f64(), "{name}");
    }
}

#[test]
fn the_logs_hold_the_percentiles_of_the_json() {
    let directory = tempfile::tempdir().unwrap();
    let flags = ["--test-time", "2.2", "--rate-limiting", "1000", "-c", "4", "-t", "2", "--ratio", "1:3"];
    let (path, json) = run(directory.path(), "open", Duration::ZERO, &flags);

    let latency = Dump::read(&path, None).unwrap();
    assert_eq!(Some(latency.histogram.len()), json["totals"]["requests"].as_u64());
    assert_same_percentiles(&latency, &json["totals"]["latency_us"]);
    let service = Dump::read(&directory.path().join("open.service.hlog"), None).unwrap();
    assert_same_percentiles(&service, &json["totals"]["service_us"]);
    for command in ["SET", "GET"] {
        let tagged = Dump::read(&path, Some(command)).unwrap();
        assert_same_percentiles(&tagged, &json["commands"][command]["latency_us"]);
    }
    assert!(Dump::read(&path, Some("DEL")).is_err());
}

#[test]
fn a_prefix_is_enough_for_every_file() {
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().join("all");
    let stub = Stub::start(Behaviour::default());
    let flags = ["--test-time", "2.2", "--rate-limiting", "500", "--ratio", "1:3", "--prefill", "--key-maximum", "50"];
    let port = stub.port.to_string();
    let output = loadgen(&[&["-p", &port, "--hdr-file-prefix", prefix.to_str().unwrap()], &flags[..]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let json: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(prefix.with_extension("json")).unwrap()).unwrap();
    assert_eq!(json["totals"]["hit_ratio"], 1.0);

    for (log, total, times) in
        [("hlog", "total.hlog", "latency_us"), ("service.hlog", "service.total.hlog", "service_us")]
    {
        let intervals = Dump::read(&prefix.with_extension(log), Some("GET")).unwrap();
        let total = Dump::read(&prefix.with_extension(total), Some("GET")).unwrap();
        assert_eq!(intervals.histogram.len(), total.histogram.len());
        assert_same_percentiles(&total, &json["commands"]["GET"][times]);
    }

    let csv = fs::read_to_string(prefix.with_extension("csv")).unwrap();
    let rows: Vec<Vec<f64>> =
        csv.lines().skip(1).map(|row| row.split(',').map(|cell| cell.parse().unwrap()).collect()).collect();
    assert!(csv.starts_with("t_s,ops,errors,hits,misses,mean_us,p50_us,p99_us,p99.9_us,max_us\n"));
    assert_eq!(rows.len(), 3);
    assert_eq!(Some(rows.iter().map(|row| row[1]).sum::<f64>()), json["totals"]["requests"].as_f64());
    assert_eq!(Some(rows.iter().map(|row| row[3]).sum::<f64>()), json["totals"]["hits"].as_f64());
    let max = rows.iter().map(|row| row[9]).fold(0.0, f64::max);
    assert_eq!(Some(max), json["totals"]["latency_us"]["max"].as_f64());
}

#[test]
fn a_log_has_its_header_and_an_interval_a_second() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _) = run(directory.path(), "log", Duration::ZERO, &["--test-time", "2.2", "--rate-limiting", "500"]);
    let text = fs::read(&path).unwrap();
    assert!(text.starts_with(b"#[Histogram log format version 1.3]\n"));
    let mut starts = Vec::new();
    for entry in IntervalLogIterator::new(&text) {
        if let LogEntry::Interval(interval) = entry.unwrap() {
            starts.push((interval.start_timestamp(), interval.tag().unwrap().as_str().to_owned()));
            assert!(interval.duration() <= Duration::from_secs(1));
        }
    }
    let expected = [0, 0, 1, 1, 2, 2].map(Duration::from_secs);
    assert_eq!(starts.iter().map(|(start, _)| *start).collect::<Vec<_>>(), expected);
    assert_eq!(starts[0].1, "SET");
    assert_eq!(starts[1].1, "GET");
}

/// The form that HdrHistogram's plotters read: a header, rows of four columns (the last row three),
/// three lines of summary.
#[test]
fn the_distribution_has_the_form_of_java() {
    let directory = tempfile::tempdir().unwrap();
    let (path, json) = run(directory.path(), "distribution", Duration::ZERO, &["-n", "3000", "-c", "4"]);
    let text = fs::read_to_string(path.with_extension("hgrm")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "       Value     Percentile TotalCount 1/(1-Percentile)");
    assert_eq!(lines[1], "");
    let (rows, summary) = lines[2..].split_at(lines.len() - 5);
    let mut last = [0.0; 3];
    for (number, row) in rows.iter().enumerate() {
        let columns: Vec<f64> = row.split_whitespace().map(|column| column.parse().unwrap()).collect();
        let is_last = number + 1 == rows.len();
        assert_eq!(columns.len(), if is_last { 3 } else { 4 }, "{row}");
        assert!(columns.iter().zip(last).all(|(now, before)| *now >= before), "{row}");
        if !is_last {
            let distance = 1.0 / (1.0 - columns[1]);
            assert!((columns[3] / distance - 1.0).abs() < 0.01, "{row}");
        }
        last.copy_from_slice(&columns[..3]);
    }
    assert_eq!(last[1..], [1.0, 3000.0]);
    let max_ms = json["totals"]["latency_us"]["max"].as_f64().unwrap() / 1000.0;
    assert!((last[0] - max_ms).abs() < 0.001);
    assert!(summary[0].starts_with("#[Mean    = "));
    assert_eq!(summary[1], format!("#[Max     = {max_ms:12.3}, Total count    =         3000]"));
    assert_eq!(summary[2], "#[Buckets =           32, SubBuckets     =         2048]");
}

#[test]
fn compare_shows_dumps_side_by_side_and_plots_them() {
    let directory = tempfile::tempdir().unwrap();
    let (quick, _) = run(directory.path(), "quick", Duration::ZERO, &["-n", "500", "-c", "2"]);
    let (slow, _) = run(directory.path(), "slow", Duration::from_millis(5), &["-n", "200", "-c", "2"]);
    let (quick, slow) = (quick.to_str().unwrap(), slow.to_str().unwrap());
    let svg = directory.path().join("plot.svg");
    let output = loadgen(&["compare", quick, slow, quick, "--svg", svg.to_str().unwrap()]);
    assert!(output.status.success(), "{}", stderr(&output));

    let table = String::from_utf8(output.stdout).unwrap();
    let cells = |name: &str| {
        let line = table
            .lines()
            .find(|line| line.trim_start().starts_with(name))
            .unwrap_or_else(|| panic!("{name} in {table}"));
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(cells("latency, ms")[2..], [quick, slow, "difference", quick, "difference"]);
    let p99 = cells("p99 ");
    let (first, second): (f64, f64) = (p99[1].parse().unwrap(), p99[2].parse().unwrap());
    assert!(second >= 5.0, "{p99:?}");
    let difference: f64 = p99[3].parse().unwrap();
    assert!((difference / ((second / first - 1.0) * 100.0) - 1.0).abs() < 0.05, "{p99:?}");
    assert_eq!(p99[6], "+0.0");
    let verdicts: Vec<&str> = table.split("against").nth(1).unwrap().lines().skip(2).take(9).collect();
    // One run a side says nothing about the next one, however far the two are apart.
    assert!(
        verdicts.iter().all(|line| line.contains("too few runs") && line.trim_end().ends_with("cannot tell")),
        "{table}"
    );
    assert!(table.contains("a verdict takes 3 runs on each side"), "{table}");

    let plot = fs::read_to_string(svg).unwrap();
    assert!(plot.starts_with("<svg") && plot.trim_end().ends_with("</svg>"));
    assert!(plot.contains(slow));
    assert_eq!(plot.matches("http").count(), 1, "nothing but the name of the format's namespace");
}

#[test]
fn compare_refuses_what_is_no_log() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("no.hlog");
    for text in ["", "#[comment]\n", "hello\n", "0.0,1.0,2.0,!!!\n", "0.0,1.0,2.0,AAAA\n"] {
        fs::write(&path, text).unwrap();
        let name = path.to_str().unwrap();
        let output = loadgen(&["compare", name, name]);
        assert_eq!(output.status.code(), Some(1), "{text:?}");
        assert!(stderr(&output).contains(name), "{text:?}: {}", stderr(&output));
    }
}
