//! Where connections and shards run, and commands that run in place. Clients see no difference.

use crate::scripting::wait_until_busy;
use harness::{
    Client, Data, EVERY_ENGINE, EVERY_PLACEMENT, Server, Setup, Value, other_placements, request, wait_until,
};
use std::path::PathBuf;

const PINNED: [&str; 2] = ["--placement", "pinned"];
const INLINE: [&str; 4] = EVERY_PLACEMENT[2];

fn two_threads() -> Setup {
    EVERY_ENGINE.into_iter().find(|setup| setup.engine == "actor" && setup.shards == 2).unwrap()
}

/// A figure of each shard.
pub fn of_shards(server: &Server, figure: &str) -> Vec<u64> {
    let info = server.info();
    let of_shard = |shard: usize| {
        let line = &info[&format!("shard{shard}")];
        let value = line.split(&format!("{figure}=")).nth(1).and_then(|rest| rest.split(',').next());
        value.unwrap().parse().unwrap()
    };
    (0..server.setup().shards).map(of_shard).collect()
}

/// The shard that serves a key.
fn shard_of(server: &Server, client: &mut Client, key: &str) -> usize {
    let before = of_shards(server, "commands");
    client.value(&["GET", key]);
    let after = of_shards(server, "commands");
    (0..before.len()).find(|&shard| after[shard] > before[shard]).unwrap()
}

/// Two connections, on different threads.
fn connections(server: &Server) -> [Client; 2] {
    // They take the threads in turn.
    [server.client(), server.client()]
}

#[test]
fn config_and_info_tell_where_shards_run() {
    for placement in EVERY_PLACEMENT {
        let server = Server::start(two_threads(), &placement);
        let mut client = server.client();
        for pair in placement.chunks(2) {
            let name = pair[0].trim_start_matches('-');
            let reply: Vec<String> =
                client.value(&["CONFIG", "GET", name]).elements().iter().map(Value::text).collect();
            assert_eq!(reply, [name, pair[1]]);
            assert_eq!(server.info()[name], pair[1]);
            let other = EVERY_PLACEMENT
                .iter()
                .flat_map(|flags| flags.chunks(2))
                .find(|flag| flag[0] == pair[0] && flag[1] != pair[1]);
            let refused = client.value(&["CONFIG", "SET", name, other.unwrap()[1]]).text();
            let expected =
                format!("ERR CONFIG SET failed (possibly related to argument '{name}') - can't set immutable config");
            assert_eq!(refused, expected);
        }
    }
}

#[test]
fn commands_run_in_place_on_pinned_shards_alone() {
    let actor = two_threads();
    let refused = [
        (actor, &["--local", "inline"][..], "local inline needs placement pinned"),
        (actor, &["--local", "inline", "--placement", "scheduler"], "local inline needs placement pinned"),
        (EVERY_ENGINE[0], &INLINE, "local inline needs engine actor"),
        (EVERY_ENGINE[1], &INLINE, "local inline needs engine actor"),
    ];
    // With PLACEMENT the harness names a placement, and the first one lacks none.
    let lacks_none = usize::from(std::env::var_os("PLACEMENT").is_some());
    for (setup, flags, reason) in refused.into_iter().skip(lacks_none) {
        let refused = Data::new().start_refused(setup, flags);
        assert!(refused.status.code() == Some(1) && refused.stderr.contains(reason), "{flags:?}: {refused:?}");
    }
}

/// The cores that each thread of a server may use, with its name.
fn cores_of_threads(server: &Server) -> Vec<(String, String)> {
    let tasks = PathBuf::from(format!("/proc/{}/task", server.pid()));
    let of_thread = |path: PathBuf| {
        let name = std::fs::read_to_string(path.join("comm")).ok()?.trim().to_owned();
        let status = std::fs::read_to_string(path.join("status")).ok()?;
        let cores = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?.trim().to_owned();
        Some((name, cores))
    };
    std::fs::read_dir(tasks).unwrap().filter_map(|entry| of_thread(entry.unwrap().path())).collect()
}

/// Whether each worker and its spare threads have a core, different workers different ones, and all other threads every
/// core. It is not so at every moment: a thread has the name and the cores of the one that started it until it runs,
/// and a spare one that does work beside the runtime has every core as long as that takes.
fn are_placed(threads: &[(String, String)], setup: Setup) -> bool {
    let all = std::thread::available_parallelism().unwrap().get();
    let has_one = |cores: &str| cores.parse::<usize>().is_ok();
    let (workers, others): (Vec<_>, Vec<_>) = threads.iter().partition(|(name, _)| name == "worker");
    let different: std::collections::BTreeSet<_> = workers.iter().map(|(_, cores)| cores).collect();
    workers.len() >= 2 * setup.threads
        && workers.iter().all(|(_, cores)| has_one(cores))
        && different.len() == setup.threads.min(all)
        && others.iter().any(|(name, _)| name == "log")
        && (all == 1 || others.iter().all(|(_, cores)| !has_one(cores)))
}

#[test]
fn each_pinned_worker_has_a_core_and_no_other_thread_is_kept_from_any() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &PINNED);
        server.client().expect("SET k v", "+OK\r\n");
        let mut last = Vec::new();
        wait_until("each worker has a core, and no other thread is kept from any", || {
            let threads = cores_of_threads(&server);
            let is_so = are_placed(&threads, setup);
            if threads != last {
                println!("{setup:?}: {threads:?}");
                last = threads;
            }
            is_so
        });
    }
}

#[test]
fn a_command_runs_in_place_where_its_shard_is_on_the_thread_of_its_connection() {
    for placement in EVERY_PLACEMENT {
        let server = Server::start(two_threads(), &[&placement[..], &["--appendonly", "no"]].concat());
        let is_inline = placement == INLINE;
        let mut clients = connections(&server);
        let keys = ["a", "b", "c", "d", "e", "f"];
        let of_shard = |client: &mut Client, shard: usize| {
            let key = keys.iter().find(|key| shard_of(&server, client, key) == shard);
            *key.unwrap_or_else(|| panic!("no key is of shard {shard}"))
        };
        let of_each = [of_shard(&mut clients[0], 0), of_shard(&mut clients[0], 1)];
        let mut home = Vec::new();
        for client in &mut clients {
            let before = of_shards(&server, "in_place");
            for key in of_each {
                client.expect(&format!("SET {key} 1"), "+OK\r\n");
                client.expect(&format!("INCR {key}"), ":2\r\n");
            }
            let after = of_shards(&server, "in_place");
            let ran: Vec<u64> = before.iter().zip(&after).map(|(before, after)| after - before).collect();
            match is_inline {
                true => home.push(ran.iter().position(|&count| count == 2).unwrap_or_else(|| panic!("{ran:?}"))),
                false => assert_eq!(ran, [0, 0], "{placement:?}"),
            }
            assert!(ran.iter().sum::<u64>() <= 2, "a shard of another thread has its mailbox: {ran:?}");
        }
        home.sort_unstable();
        assert!(!is_inline || home == [0, 1], "connections take the threads in turn: {home:?}");
    }
}

/// A pipeline in which commands in place stand between work over both shards.
#[test]
fn a_command_in_place_runs_after_what_its_connection_has_sent_before() {
    const ROUNDS: usize = 200;
    const REPLIES: usize = 15;
    for (setup, placement) in other_placements() {
        let server = Server::start(setup, &[&placement[..], &["--appendonly", "no"]].concat());
        for mut client in connections(&server) {
            client.expect("FLUSHALL", "+OK\r\n");
            let (mut requests, mut replies) = (Vec::new(), String::new());
            for round in 0..ROUNDS {
                let number = round.to_string();
                for key in ["a", "b", "c"] {
                    requests.extend(request(&["SET", key, &number]));
                    replies += "+OK\r\n";
                }
                requests.extend(request(&["MSET", "a", "x", "b", "x", "c", "x"]));
                replies += "+OK\r\n";
                for key in ["a", "b", "c"] {
                    requests.extend(request(&["APPEND", key, &number]));
                    replies += &format!(":{}\r\n", 1 + number.len());
                }
                for words in [&["MULTI"][..], &["RENAME", "a", "d"], &["RENAME", "b", "a"], &["EXEC"]] {
                    requests.extend(request(words));
                }
                replies += "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n+OK\r\n";
                requests.extend(request(&["EXISTS", "b"]));
                requests.extend(request(&["STRLEN", "d"]));
                replies += &format!(":0\r\n:{}\r\n", 1 + number.len());
                requests.extend(request(&["EVAL", "return redis.call('incr', KEYS[1])", "1", "n"]));
                requests.extend(request(&["INCR", "n"]));
                replies += &format!(":{}\r\n:{}\r\n", 2 * round + 1, 2 * round + 2);
            }
            client.send(&requests);
            let read: Vec<Vec<u8>> = (0..ROUNDS * REPLIES).map(|_| client.reply()).collect();
            assert_eq!(String::from_utf8_lossy(&read.concat()), replies, "{setup:?}, {placement:?}");
        }
    }
}

#[test]
fn a_waiting_connection_is_served_by_a_command_in_place_and_a_watch_sees_it() {
    for (setup, placement) in other_placements() {
        let server = Server::start(setup, &[&placement[..], &["--appendonly", "no"]].concat());
        for key in ["a", "b", "c", "d"] {
            let [mut one, mut other] = connections(&server);
            one.send(&request(&["BLPOP", key, "0"]));
            wait_until("it waits", || server.info_number("blocked_clients") == 1);
            other.expect(&format!("RPUSH {key} v"), ":1\r\n");
            assert_eq!(one.value_of_next().elements().len(), 2);
            one.expect(&format!("WATCH {key}"), "+OK\r\n");
            other.expect(&format!("SET {key} 1"), "+OK\r\n");
            one.expect("MULTI", "+OK\r\n");
            one.expect(&format!("GET {key}"), "+QUEUED\r\n");
            one.expect("EXEC", "*-1\r\n");
        }
    }
}

#[test]
fn a_script_that_does_not_end_leaves_its_thread_to_others() {
    for (setup, placement) in other_placements() {
        let flags = [&placement[..], &["--busy-reply-threshold", "50", "--appendonly", "no"]].concat();
        let server = Server::start(setup, &flags);
        let [mut busy, mut other] = connections(&server);
        // One is on the thread of the script's shard.
        let mut third = server.client();
        busy.send(&request(&["EVAL", "while true do end", "1", "k"]));
        for client in [&mut other, &mut third] {
            wait_until_busy(client);
            assert!(client.value(&["GET", "k"]).text().starts_with("BUSY "));
        }
        third.expect("SCRIPT KILL", "+OK\r\n");
        assert!(busy.value_of_next().text().contains("Script killed"));
        other.expect("SET k v", "+OK\r\n");
    }
}
