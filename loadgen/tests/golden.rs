//! A log that this generator wrote (`loadgen -n 4000 --rate-limiting 2000 -c 5 --ratio 1:3`), and
//! what another maker's reader found in it: `scripts/read_golden.py` says how. The reader that
//! `compare` and `merge` use must find the same, and the writer must not have changed since.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Behaviour, Stub, measure_at};

use loadgen::compare::Dump;
use loadgen::record::value_at_percentile;
use loadgen::report::hdr::write_distribution;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn read_by_python() -> serde_json::Value {
    serde_json::from_str(&fs::read_to_string(golden("read_by_python.json")).unwrap()).unwrap()
}

fn assert_same(dump: &Dump, expected: &serde_json::Value) {
    assert_eq!(expected["count"].as_u64(), Some(dump.histogram.len()));
    let values = expected["values"].as_object().unwrap();
    assert_eq!(values.len(), 10);
    for (percentile, value) in values {
        let own = value_at_percentile(&dump.histogram, percentile.parse().unwrap());
        assert_eq!(value.as_u64(), Some(own), "p{percentile}");
    }
}

#[test]
fn a_log_holds_what_another_reader_finds_in_it() {
    let expected = read_by_python();
    for log in ["run.hlog", "run.total.hlog"] {
        assert_same(&Dump::read(&golden(log), None).unwrap(), &expected["all"]);
        for tag in ["SET", "GET"] {
            assert_same(&Dump::read(&golden(log), Some(tag)).unwrap(), &expected["tags"][tag]);
        }
    }
    if std::env::var_os("SOAK").is_some_and(|soak| soak != "0") {
        python_reads_a_run_of_this_build();
    }
}

/// The long form: installs the other reader from PyPI, and has it read a new run.
fn python_reads_a_run_of_this_build() {
    let directory = tempfile::tempdir().unwrap();
    let run = |program: &Path, arguments: &[&str]| {
        let status = Command::new(program).args(arguments).status();
        assert!(status.unwrap().success(), "{} {arguments:?}", program.display());
    };
    let (venv, prefix) = (directory.path().join("venv"), directory.path().join("run"));
    run(Path::new("python3"), &["-m", "venv", venv.to_str().unwrap()]);
    run(&venv.join("bin/pip"), &["install", "--quiet", "hdrhistogram==0.10.8"]);
    let stub = Stub::start(Behaviour::default());
    let (prefix, json) = (prefix.to_str().unwrap(), format!("{}.json", prefix.display()));
    let flags = ["-n", "60000", "--rate-limiting", "6000", "-c", "10", "--ratio", "1:3", "--hdr-file-prefix", prefix];
    let result = measure_at(stub.port, &flags);
    fs::write(json, result.to_string()).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/check_hdr.py");
    run(&venv.join("bin/python"), &[script.to_str().unwrap(), prefix]);
}

#[test]
fn the_distribution_is_written_as_it_was_when_the_other_reader_checked_it() {
    let mut text = Vec::new();
    write_distribution(&mut text, &Dump::read(&golden("run.hlog"), None).unwrap().histogram).unwrap();
    let rows = |text: &str| text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>();
    let (own, checked) = (String::from_utf8(text).unwrap(), fs::read_to_string(golden("run.hgrm")).unwrap());
    assert_eq!(rows(&own), rows(&checked));
}
