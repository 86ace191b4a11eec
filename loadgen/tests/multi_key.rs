//! Loads of MSET and MGET against a stub: how many, of which keys, and what is counted.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::HashSet;
use std::path::Path;

use common::{Behaviour, Stub, failure, loadgen, measure, stderr};
use loadgen::compare::Dump;

const EIGHT: [&str; 6] = ["--keys-per-command", "8", "--key-maximum", "800", "--key-prefix", "k"];

fn plain() -> Stub {
    Stub::start(Behaviour::default())
}

/// How many different tags a command's keys have.
fn tags(keys: &[String]) -> usize {
    let tag = |key: &String| key.split_once('{').unwrap().1.split_once('}').unwrap().0.to_owned();
    keys.iter().map(tag).collect::<HashSet<_>>().len()
}

#[test]
fn commands_over_several_keys_take_the_places_of_set_and_get() {
    let stub = plain();
    let json = measure(&stub, &[&EIGHT[..], &["-n", "1000", "--ratio", "1:3", "-t", "2", "--pipeline", "4"]].concat());
    for (command, count) in [("MSET", 250), ("MGET", 750), ("SET", 0), ("GET", 0)] {
        assert_eq!(stub.count(command), count, "{command}");
        assert_eq!(json["commands"][command]["requests"], count, "{command}");
    }
    assert_eq!(json["totals"]["requests"], 1000);
    assert!(stub.seen(|seen| seen.together.iter().all(|keys| keys.len() == 8)));
}

#[test]
fn every_key_that_is_read_counts_as_a_hit_or_a_miss() {
    let stub = plain();
    let flags = [&EIGHT[..], &["-n", "100", "--ratio", "0:1"]].concat();
    let counts = |flags: &[&str]| {
        let json = measure(&stub, flags);
        let mget = &json["commands"]["MGET"];
        (mget["requests"].as_u64().unwrap(), mget["hits"].as_u64().unwrap(), mget["misses"].as_u64().unwrap())
    };
    assert_eq!(counts(&flags), (100, 0, 800));
    measure(&stub, &[&EIGHT[..], &["-n", "1", "--ratio", "1:0"]].concat());
    let (_, hits, misses) = counts(&[&flags[..], &["--key-pattern", "S:S"]].concat());
    assert_eq!((hits, misses), (8, 792));
    assert_eq!(counts(&[&flags[..], &["--prefill", "--cross-shard", "50"]].concat()), (100, 800, 0));
}

#[test]
fn prefill_sets_each_member_of_each_tag_once() {
    let stub = plain();
    measure(&stub, &[&EIGHT[..], &["-n", "1", "--ratio", "0:1", "--prefill"]].concat());
    assert_eq!(stub.count("SET"), 800);
    assert!(stub.seen(|seen| seen.keys.len() == 800 && seen.keys.contains("k{1}:0") && seen.keys.contains("k{100}:7")));
}

#[test]
fn the_share_of_commands_over_several_tags_is_the_share_across_shards() {
    for (percent, share) in [("0", 0), ("1", 4), ("50", 200), ("100", 400)] {
        let stub = plain();
        let flags = ["-n", "400", "--ratio", "1:1", "--target-shards", "2", "--cross-shard", percent];
        let json = measure(&stub, &[&EIGHT[..], &flags].concat());
        let across = stub.seen(|seen| seen.together.iter().filter(|keys| tags(keys) > 1).count());
        assert_eq!(across, share, "{percent} %");
        assert_eq!(json["config"]["cross-shard"].as_u64().unwrap().to_string(), percent);
    }
}

#[test]
fn commands_over_one_key_can_be_mixed_in() {
    let stub = plain();
    let json =
        measure(&stub, &[&EIGHT[..], &["-n", "1000", "--ratio", "1:1", "--multi-key", "20", "--prefill"]].concat());
    assert_eq!((stub.count("MSET"), stub.count("MGET")), (100, 100));
    assert_eq!(
        (json["commands"]["SET"]["requests"].as_u64(), json["commands"]["GET"]["hits"].as_u64()),
        (Some(400), Some(400))
    );
    assert_eq!(stub.seen(|seen| seen.keys.len()), 800);
}

#[test]
fn replies_of_several_elements_are_understood_however_they_are_split() {
    let stub = Stub::start(Behaviour { bytewise: true, ..Behaviour::default() });
    let json = measure(
        &stub,
        &[&EIGHT[..], &["-n", "200", "--ratio", "1:1", "--prefill", "--pipeline", "5", "-c", "3"]].concat(),
    );
    assert_eq!((json["totals"]["hits"].as_u64(), json["totals"]["misses"].as_u64()), (Some(800), Some(0)));
}

#[test]
fn the_logs_name_the_commands() {
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().join("run");
    let flags = ["-n", "400", "--ratio", "1:3", "--hdr-file-prefix", prefix.to_str().unwrap()];
    measure(&plain(), &[&EIGHT[..], &flags].concat());
    let count = |command| Dump::read(Path::new(&prefix.with_extension("hlog")), Some(command)).unwrap().histogram.len();
    assert_eq!((count("MSET"), count("MGET")), (100, 300));
    assert!(Dump::read(&prefix.with_extension("hlog"), Some("SET")).is_err());
}

#[test]
fn a_reply_with_a_wrong_number_of_elements_is_an_error() {
    for (reply, what) in [
        (&b"*3\r\n:1\r\n:1\r\n:1\r\n"[..], "MGET was answered by an array of 3"),
        (b"$1\r\nx\r\n", "MGET was answered by the kind Bulk"),
        (b"*-1\r\n", "MGET was answered by the kind Null"),
    ] {
        let stub = Stub::start(Behaviour { reply: Some(reply), ..Behaviour::default() });
        let said = failure(&stub, &[&EIGHT[..], &["-n", "100", "--ratio", "0:1"]].concat());
        assert!(said.contains(what), "{said}");
    }
}

const BASKETS: &str = "
name = 'baskets'
about = 'several items at once'
[flags]
key-prefix = 'item:'
key-maximum = 800
keys-per-command = 8
[prefill]
send = 'SET __key__ __data__'
[[command]]
send = 'MGET __keys__'
weight = 3
[[command]]
send = 'MSET __pairs__'
weight = 1
[[command]]
send = 'GET __key__'
weight = 1
";

fn workload(text: &str) -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("own.toml");
    std::fs::write(&path, text).unwrap();
    (directory, path.to_str().unwrap().to_owned())
}

#[test]
fn the_share_across_shards_holds_in_a_workload_file_too() {
    let (_directory, path) = workload(BASKETS);
    for (percent, across) in [("0", 0), ("25", 100), ("100", 400)] {
        let stub = plain();
        let flags = ["--workload", &path, "-n", "500", "--pipeline", "4", "--prefill", "--cross-shard", percent];
        let json = measure(&stub, &flags);
        assert_eq!((stub.count("SET"), stub.count("MGET"), stub.count("MSET")), (800, 300, 100));
        assert_eq!(json["commands"]["MGET"]["hits"], 2400, "prefill sets the very keys that are read");
        assert_eq!(json["commands"]["GET"]["hits"], 100);
        assert!(stub.seen(|seen| seen.together.iter().all(|keys| keys.len() == 8)));
        assert_eq!(stub.seen(|seen| seen.together.iter().filter(|keys| tags(keys) > 1).count()), across, "{percent} %");
        assert_eq!(json["config"]["cross-shard"].to_string(), percent);
    }
}

#[test]
fn what_a_workload_of_several_keys_cannot_mean_is_refused() {
    let with_share = BASKETS.replace("keys-per-command = 8", "keys-per-command = 8\ncross-shard = 101");
    let alone = BASKETS.replace("keys-per-command = 8\n", "");
    let prefilled = BASKETS.replace("send = 'SET __key__ __data__'", "send = 'MSET __pairs__'");
    let steps = BASKETS.replace("'MGET __keys__'", "['MGET __keys__', 'DEL __keys__']");
    let none = BASKETS.replace("'MGET __keys__'", "'GET __key__'").replace("'MSET __pairs__'", "'GET __key__'");
    for (text, flags, what) in [
        (BASKETS, &["--verify"][..], "the model"),
        (BASKETS, &["--multi-key", "50"], "--multi-key"),
        (BASKETS, &["--key-maximum", "801"], "do not come in tags of 8"),
        (&with_share, &[], "expected 0 to 100"),
        (&alone, &[], "say how many with keys-per-command"),
        (&prefilled, &[], "sets key by key"),
        (&steps, &[], "a step of its own"),
        (&none, &[], "no command takes several keys"),
        (
            &alone.replace("__keys__", "__key__").replace("__pairs__", "__key__"),
            &["--cross-shard", "10"],
            "needs --keys-per-command",
        ),
    ] {
        let (_directory, path) = workload(text);
        let output = loadgen(&[&["--workload", &path][..], flags].concat());
        let said = stderr(&output);
        assert!(output.status.code() == Some(1) && said.contains(what), "{what}: {said}");
    }
}

#[test]
fn a_gaussian_pattern_has_its_middle_among_the_tags() {
    let stub = plain();
    measure(&stub, &[&EIGHT[..], &["-n", "400", "--ratio", "0:1", "--key-pattern", "G"]].concat());
    let tag = |key: &String| key.split_once('{').unwrap().1.split_once('}').unwrap().0.parse::<u64>().unwrap();
    let drawn = stub.seen(|seen| seen.together.iter().map(|keys| tag(&keys[0])).collect::<Vec<_>>());
    let mean = drawn.iter().sum::<u64>() as f64 / drawn.len() as f64;
    assert!((45.0..56.0).contains(&mean), "of 100 tags: {mean}");
}
