//! A disk that fails under `always`: nothing that a failed write or fsync covers may be acknowledged, so the server
//! ends.

use super::crashes::{CLIENTS, read_states};
use super::history::{History, Promise, check};
use super::process::Machine;
use super::tracking::{Behaviour, Failure};
use harness::{Client, EVERY_ENGINE, Setup};
use std::time::Instant;

/// Calls after those of the start that fail in turn.
const CALLS: u64 = 16;

#[test]
fn under_always_a_disk_that_fails_at_any_call_ends_the_server_and_takes_nothing_acknowledged() {
    let setups = [EVERY_ENGINE[0], EVERY_ENGINE[3]];
    let jobs = setups.iter().flat_map(|setup| Failure::ALL.map(|failure| (*setup, failure)));
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            jobs.map(|(setup, failure)| scope.spawn(move || fail_at_every_call(setup, failure))).collect();
        threads.into_iter().for_each(|thread| thread.join().expect("the test has said why"));
    });
}

fn fail_at_every_call(setup: Setup, failure: Failure) {
    let (mut started, mut acknowledged) = (0, 0);
    for first in 0.. {
        let what = format!("{setup:?}, {failure:?} from call {first} on");
        let behaviour = Behaviour { fails_from: Some((first, failure)), ..Behaviour::default() };
        let mut machine = Machine::new(&["--appendfsync", "always"], behaviour);
        let mut histories: Vec<History> = (0..CLIENTS).map(|client| History::new(client, first)).collect();
        match machine.try_start(setup) {
            // It failed while it started, with a message.
            Err(log) => assert!(log.contains("Fatal: ") && log.contains("os error"), "{what}: {log}"),
            Ok(server) => {
                let connections: Vec<Client> = histories.iter().map(|_| server.client()).collect();
                std::thread::scope(|scope| {
                    for (history, mut connection) in histories.iter_mut().zip(connections) {
                        scope.spawn(move || history.run(&mut connection, CLIENTS));
                    }
                });
                let (status, _, log) = server.wait_for_end();
                assert_eq!(status.code(), Some(1), "{what}: {log}");
                assert!(log.contains("the append-only file"), "{what}: {log}");
                started += 1;
            }
        }
        let crashed = Instant::now();
        acknowledged += histories.iter().map(History::acknowledged).sum::<usize>();
        machine.behaviour = Behaviour::default();
        // Whether the power is lost, too, makes no difference.
        if first % 2 == 0 {
            machine.lose_power(&mut fastrand::Rng::with_seed(first));
        }
        let server = machine.start(setup);
        let found = read_states(&mut server.client());
        check(&histories, &found, Promise::All, crashed).unwrap_or_else(|broken| panic!("{what}: {broken:?}"));
        if started == CALLS {
            break;
        }
    }
    println!("{setup:?}, {failure:?}: {acknowledged} steps were acknowledged");
    assert!(acknowledged > 0, "{setup:?}, {failure:?}");
}
