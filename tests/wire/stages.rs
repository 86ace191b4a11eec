//! INFO stages: a delay that is made shows up in its stage and in no other.

use crate::harness::{Client, EVERY_ENGINE, Server, Setup};
use shardrace::routing::shard_of;
use std::collections::BTreeMap;
use std::time::Duration;

/// Whoever holds the data sleeps for so long, in seconds.
const DELAY: &str = "0.4";
/// What has to show of it at least, and what nothing else may take, in microseconds.
const SHOWS_US: f64 = 200_000.0;

/// A stage as INFO tells it, field by field.
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

/// Lets one connection sleep while it holds a key, and another ask for some meanwhile.
fn hold_up(server: &Server, key: &str, requests: &[Vec<&str>]) {
    let (mut holder, mut waiter) = (server.client(), server.client());
    for request in [vec!["MULTI"], vec!["SET", key, "1"], vec!["DEBUG", "SLEEP", DELAY]] {
        holder.call(&request);
    }
    std::thread::scope(|scope| {
        scope.spawn(|| holder.call(&["EXEC"]));
        std::thread::sleep(Duration::from_millis(30));
        waiter.pipeline(requests);
    });
}

#[test]
fn a_delay_shows_in_the_stage_that_has_it() {
    for setup in EVERY_ENGINE {
        let server = start(setup, &["--stages-sample", "1"]);
        let mut client = server.client();
        client.expect("SET key 0", "+OK\r\n");
        client.expect("CONFIG RESETSTAT", "+OK\r\n");
        hold_up(&server, "key", &[vec!["GET", "key"]]);
        let stages = stages(&mut client);
        println!("on {setup:?}: {stages:#?}");
        // With one thread the connection that waits is not even read meanwhile: it waits nowhere that we see.
        let waits: &[&str] = if setup.threads == 1 { &["execute"] } else { &["queue", "execute"] };
        for (name, stage) in &stages {
            let shows = waits.contains(&name.as_str());
            // The way back from a shard that sleeps is no slower: what waits, waits before it.
            assert_eq!(stage["max"] >= SHOWS_US, shows, "{name} on {setup:?}: {stage:?}");
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
    hold_up(&server, &held, &[vec!["GET", &held], vec!["GET", &free]]);
    let stages = stages(&mut server.client());
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
