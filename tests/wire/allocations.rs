//! The server's use of the allocator: a command that changes no size allocates nothing, however many connections there
//! are, and free memory is returned.

use harness::server::{arguments, binary};
use harness::{Client, Data, EVERY_ENGINE, Server, Setup, request, wait_until};
use std::process::Command;

/// More connections than a thread keeps buffers for.
const CLIENTS: usize = 50;
/// What the housekeeping, the runtime and growing buffers may allocate, for each command.
const SPARE: f64 = 0.3;
/// A shard with an empty mailbox waits in flume, which allocates a hook each time. Of many shards, most wait for each
/// command; a single one serves all ready connections before it waits again.
const HOOK: f64 = 0.5;

/// Allocations over the life of a server that serves so many rounds to each of its clients.
fn requests_of_allocator(setup: Setup, rounds: usize, pipeline: usize) -> u64 {
    let data = Data::new();
    let mut command = Command::new(binary());
    command.args(arguments(&data, setup)).args(["--appendonly", "no"]).env("_RJEM_MALLOC_CONF", "stats_print:true");
    let server = Server::spawn(&mut command, data, setup);
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.client()).collect();
    for _ in 0..rounds {
        // All are ready at once, however slowly they can send on this machine.
        server.pause();
        for (number, client) in clients.iter_mut().enumerate() {
            client.send(&request_of(number).repeat(pipeline));
        }
        server.signal("CONT");
        for client in &mut clients {
            client.values(pipeline);
        }
    }
    drop(clients);
    let (status, _, log) = server.stop();
    assert!(status.success(), "{log}");
    // allocated, then nmalloc, ndalloc and nrequests, each with its rate.
    let total = log.lines().find_map(|line| line.strip_prefix("total:")).expect("jemalloc prints its figures");
    total.split_whitespace().nth(5).and_then(|number| number.parse().ok()).expect("nrequests is a number")
}

/// A command that changes no size.
fn request_of(client: usize) -> Vec<u8> {
    let (key, value) = (format!("key:{client}"), "v".repeat(64));
    match client % 4 {
        0 => request(&["SET", &key, &value]),
        1 => request(&["GET", &key]),
        2 => request(&["INCR", &key]),
        _ => request(&["HSET", &key, "field", &value]),
    }
}

#[test]
fn a_command_that_changes_no_size_allocates_nothing() {
    for setup in EVERY_ENGINE {
        for (rounds, pipeline) in [(200, 1), (20, 16)] {
            let few = requests_of_allocator(setup, rounds, pipeline);
            let many = requests_of_allocator(setup, 3 * rounds, pipeline);
            let each = (many as f64 - few as f64) / (2 * rounds * CLIENTS * pipeline) as f64;
            println!("{setup:?} pipeline {pipeline}: {each:.4} for each command");
            let has_many_mailboxes = setup.engine == "actor" && setup.shards > 1;
            let spare = if has_many_mailboxes { SPARE + HOOK } else { SPARE };
            assert!(each < spare, "{setup:?} pipeline {pipeline}: {each} for each command");
        }
    }
}

/// Bytes of the values that are added and removed.
const FILLED: u64 = 64 << 20;

#[test]
fn what_is_free_goes_back_to_the_system_though_nobody_allocates() {
    const LEN: usize = 16 << 10;
    for setup in EVERY_ENGINE {
        let data = Data::new();
        let mut command = Command::new(binary());
        // Not ten seconds, the default.
        let decay = "dirty_decay_ms:100,muzzy_decay_ms:0";
        command.args(arguments(&data, setup)).args(["--appendonly", "no"]).env("_RJEM_MALLOC_CONF", decay);
        let server = Server::spawn(&mut command, data, setup);
        let empty = server.resident_bytes();
        let mut client = server.client();
        let value = "v".repeat(LEN);
        for part in 0..FILLED / (LEN as u64 * 64) {
            let sets: Vec<_> = (0..64).map(|n| vec!["SET".to_owned(), format!("{part}:{n}"), value.clone()]).collect();
            client.pipeline(&sets);
        }
        let full = server.resident_bytes();
        assert!(full > empty + FILLED, "{setup:?}: {full} bytes with {FILLED} in values");
        client.call(&["FLUSHALL"]);
        wait_until("a half is given back", || server.resident_bytes() < empty + FILLED / 2);
    }
}
