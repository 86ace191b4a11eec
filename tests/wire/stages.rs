//! INFO stages: an injected delay shows in its stage and in no other.

use harness::{Client, EVERY_ENGINE, Server, Setup};
use shardrace::internals::base::shard_of;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The owner of the data sleeps for so long, in seconds.
const DELAY: &str = "0.4";
/// The least that must show of it, and the most for anything else, in microseconds.
const SHOWS_US: f64 = 200_000.0;

/// A stage from INFO, field by field.
type Stage = BTreeMap<String, f64>;

fn stages(client: &mut Client) -> BTreeMap<String, Stage> {
    let text = client.value(&["INFO", "stages"]).text();
    let stage = |line: &str| {
        let (name, fields) = line.strip_prefix("stage_")?.split_once(':')?;
        let field = |field: &str| field.split_once('=').map(|(name, value)| (name.to_owned(), value.parse().unwrap()));
        Some((name.to_owned(), fields.split(',').map(|text| field(text).expect("name=value")).collect()))
    };
    text.lines().filter_map(stage).collect()
}

fn start(setup: Setup, flags: &[&str]) -> Server {
    Server::start(setup, &[&["--enable-debug-command", "yes"], flags].concat())
}

/// Connections that send long pipelines all the time: the runtime polls the network only while a thread is awake, and
/// what arrives while the only thread sleeps is not even read.
const WAITERS: usize = 4;
const REPEATED: usize = 200;
/// How often it is tried again if nothing was read meanwhile: of the tries with mutex and dashmap, 4 of 10.
const TRIES: usize = 20;

/// Makes one connection sleep while it holds a key, and send requests for it directly afterwards; others send requests
/// before, meanwhile and afterwards. With shards that own their data, the requests that follow certainly wait; with
/// locks, only the others wait.
fn hold_up(server: &Server, key: &str, requests: &[Vec<&str>]) {
    let mut holder = server.client();
    for request in [vec!["MULTI"], vec!["SET", key, "1"], vec!["DEBUG", "SLEEP", DELAY]] {
        holder.call(&request);
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..WAITERS {
            scope.spawn(|| {
                let mut waiter = server.client();
                let requests = vec![requests; REPEATED].concat();
                while !is_over.load(Ordering::Relaxed) {
                    waiter.pipeline(&requests);
                }
            });
        }
        std::thread::sleep(Duration::from_millis(50));
        holder.pipeline(&[&[vec!["EXEC"]], requests].concat());
        is_over.store(true, Ordering::Relaxed);
    });
}

/// The stages after a try in which a request waited for the key, or after the last try.
fn hold_up_until_somebody_waits(server: &Server, key: &str, requests: &[Vec<&str>]) -> BTreeMap<String, Stage> {
    let mut found = BTreeMap::new();
    for _ in 0..TRIES {
        hold_up(server, key, requests);
        found = stages(&mut server.client());
        if found["queue"]["max"] >= SHOWS_US {
            break;
        }
    }
    found
}

#[test]
fn a_delay_shows_in_the_stage_that_has_it() {
    for setup in EVERY_ENGINE {
        let server = start(setup, &["--stages-sample", "1"]);
        let mut client = server.client();
        client.expect("SET key 0", "+OK\r\n");
        client.expect("CONFIG RESETSTAT", "+OK\r\n");
        let stages = hold_up_until_somebody_waits(&server, "key", &[vec!["GET", "key"]]);
        println!("on {setup:?}: {stages:#?}");
        for (name, stage) in &stages {
            let shows = stage["max"] >= SHOWS_US;
            let is_right = match name.as_str() {
                "execute" => shows,
                "queue" => shows,
                // Earlier batches of the same turn of the shard wait for its end.
                "return" => !shows || setup.engine == "actor",
                _ => !shows,
            };
            assert!(is_right, "{name} on {setup:?}: {stage:?}");
        }
        for name in ["read", "parse", "queue", "execute", "log", "sync", "write"] {
            let stage = &stages[name];
            let order = ["p50", "p99", "p999", "max"].map(|field| stage[field]);
            assert!(stage["count"] > 0.0 && order.is_sorted(), "{name} on {setup:?}: {stage:?}");
            assert!(stage["mean"] <= stage["max"], "{name} on {setup:?}: {stage:?}");
        }
        let is_actor = setup.engine == "actor";
        assert_eq!([stages["return"]["count"] > 0.0, stages["reorder"]["count"] > 0.0], [is_actor; 2], "on {setup:?}");
    }
}

#[test]
fn a_reply_that_waits_for_another_shard_waits_in_reorder() {
    let server = start(Setup { engine: "actor", shards: 2, threads: 3 }, &["--stages-sample", "1"]);
    let on_shard = |shard: usize| {
        let is_there = |key: &String| shard_of(key.as_bytes(), 2) == shard;
        (0..).map(|number: u32| format!("key{number}")).find(is_there).expect("keys are on all shards")
    };
    let (held, free) = (on_shard(0), on_shard(1));
    let stages = hold_up_until_somebody_waits(&server, &held, &[vec!["GET", &held], vec!["GET", &free]]);
    for name in ["queue", "reorder"] {
        assert!(stages[name]["max"] >= SHOWS_US, "{name}: {:?}", stages[name]);
    }
}

#[test]
fn without_samples_nothing_is_counted_and_a_change_takes_effect_at_once() {
    for setup in EVERY_ENGINE {
        let server = start(setup, &["--stages-sample", "0"]);
        let mut client = server.client();
        let count = |client: &mut Client| stages(client).values().map(|stage| stage["count"]).sum::<f64>();
        for value in 0..50 {
            client.call(&["SET", "key", &value.to_string()]);
        }
        assert_eq!(count(&mut client), 0.0, "on {setup:?}");
        client.expect("CONFIG SET stages-sample 1", "+OK\r\n");
        for value in 0..50 {
            client.call(&["SET", "key", &value.to_string()]);
        }
        assert_eq!(stages(&mut client)["execute"]["count"], 50.0, "on {setup:?}");
        client.expect("CONFIG SET stages-sample 0", "+OK\r\n");
        client.expect("CONFIG RESETSTAT", "+OK\r\n");
        client.call(&["GET", "key"]);
        assert_eq!(count(&mut client), 0.0, "on {setup:?}");
        assert!(!client.value(&["INFO"]).text().contains("stage_"), "it is shown where it is asked for");
    }
}
