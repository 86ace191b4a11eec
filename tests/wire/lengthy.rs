//! A command over many elements: what else runs on its thread is served meanwhile.

use crate::harness::{Server, Setup, request};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const MEMBERS: usize = 200_000;
/// How often the sets are intersected, in one read: without another thread nothing would be served before the last one.
const ROUNDS: usize = 20;
/// So many replies meanwhile are not those of a moment before or after.
const REPLIES_MIN: usize = 50;
/// How many connections ask, each for another key.
const CONNECTIONS: usize = 12;

/// Calls SINTERCARD again and again, and meanwhile each of the requests on a connection of its own; returns how many
/// replies each of these had until the last SINTERCARD ended.
fn replies_meanwhile(server: &Server, requests: &[Vec<u8>]) -> Vec<usize> {
    let mut client = server.client();
    for first in (0..MEMBERS).step_by(1000) {
        let members = (first..first + 1000).map(|number| format!("member:{number}"));
        let words: Vec<String> = ["SADD".to_owned(), "set".to_owned()].into_iter().chain(members).collect();
        client.value(&words);
    }
    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ask = |request| {
            let mut asking = server.client();
            let has_ended = &has_ended;
            scope.spawn(move || {
                let mut count = 0;
                loop {
                    asking.send(request);
                    asking.reply();
                    if has_ended.load(Ordering::Relaxed) {
                        return count;
                    }
                    count += 1;
                    // They are to wait for the server, and not the server for them.
                    std::thread::sleep(Duration::from_millis(1));
                }
            })
        };
        let asking: Vec<_> = requests.iter().map(|request| ask(request.as_slice())).collect();
        let begin = Instant::now();
        client.send(&request(&["SINTERCARD", "2", "set", "set"]).repeat(ROUNDS));
        let counts = client.values(ROUNDS);
        has_ended.store(true, Ordering::Relaxed);
        println!("{ROUNDS} rounds took {:?}", begin.elapsed());
        assert!(counts.iter().all(|count| count.integer() == MEMBERS as i64), "{counts:?}");
        asking.into_iter().map(|thread| thread.join().expect("a thread that asks does not panic")).collect()
    })
}

#[test]
fn the_only_thread_serves_others_while_a_command_visits_many_elements() {
    for (engine, shards) in [("mutex", 1), ("dashmap", 8), ("actor", 1)] {
        let server = Server::start(Setup { engine, shards, threads: 1 }, &[]);
        let replies = replies_meanwhile(&server, &[request(&["PING"])]);
        assert!(replies[0] >= REPLIES_MIN, "{engine}: {replies:?}");
    }
}

#[test]
fn other_shards_of_the_only_thread_go_on_while_one_visits_many_elements() {
    let server = Server::start(Setup { engine: "actor", shards: 4, threads: 1 }, &[]);
    let requests: Vec<Vec<u8>> = (0..CONNECTIONS).map(|number| request(&["GET", &format!("key:{number}")])).collect();
    let replies = replies_meanwhile(&server, &requests);
    // Those of the same shard wait.
    let served = replies.iter().filter(|&&count| count >= REPLIES_MIN).count();
    assert!(served >= 2, "{replies:?}");
}
