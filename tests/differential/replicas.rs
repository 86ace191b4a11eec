//! Random requests of every family, from several connections at once, to a master of ours with a real replica: the
//! replica ends with the same data, whatever happens to the link. The replica panics if it is sent an invalid command.
//!
//! The replica is redis-server, or the program in `REPLICA_SERVER`.

use harness::generator::parts::seed_or;
use harness::generator::requests::{Generator, Unit};
use harness::{Client, DEADLINE, EVERY_ENGINE, Proxy, RedisOracle, Server, Setup, effort, request, wait_until};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Connections that send requests at once.
const CONNECTIONS: u64 = 3;
/// The most requests that are sent together.
const UNITS_TOGETHER: usize = 20;

/// A master of ours and a replica, over a link that can be cut.
struct Pair {
    master: Server,
    replica: RedisOracle,
    proxy: Proxy,
}

impl Pair {
    fn start(setup: Setup, flags: &[&str]) -> Self {
        let all = [&["--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0"], flags].concat();
        let master = Server::start(setup, &all);
        let proxy = Proxy::to(master.address());
        let port = proxy.address().port().to_string();
        let replica = RedisOracle::start_replica(&["--replicaof", "127.0.0.1", &port]);
        let pair = Self { master, replica, proxy };
        pair.wait_for_link();
        pair
    }

    fn wait_for_link(&self) {
        let mut replica = self.replica.client();
        wait_until("the link", || replica.value(&["INFO", "replication"]).text().contains("master_link_status:up"));
    }

    /// Waits until both have the same data; fails with the difference.
    fn compare(&self, at: &str) {
        let digest = |client: &mut Client| client.value(&["DEBUG", "DIGEST"]).text();
        let (mut master, mut replica) = (self.master.client(), self.replica.client());
        let start = Instant::now();
        while digest(&mut master) != digest(&mut replica) {
            if start.elapsed() > Duration::from_secs(2) {
                // Later versions print scores in another way before they digest them.
                match self.difference() {
                    None => return,
                    Some(_) if start.elapsed() < Duration::from_secs(20) => {}
                    Some(difference) => panic!("{at}: {difference}"),
                }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The first key that differs.
    fn difference(&self) -> Option<String> {
        let (mut master, mut replica) = (self.master.client(), self.replica.client());
        for database in 0..16 {
            let number = database.to_string();
            let keys = |client: &mut Client| {
                client.call(&["SELECT", &number]);
                client.value(&["KEYS", "*"]).elements().iter().map(|key| key.bytes().to_vec()).collect::<Vec<_>>()
            };
            let mut all = [keys(&mut master), keys(&mut replica)].concat();
            all.sort();
            all.dedup();
            for key in all {
                let [ours, theirs] = [&mut master, &mut replica].map(|client| value_of(client, &key));
                if ours != theirs {
                    let name = key.escape_ascii();
                    return Some(format!("database {database}, {name}:\nours {ours}\ntheirs {theirs}"));
                }
            }
        }
        None
    }

    /// Sends requests from several connections at once.
    fn load(&self, seed: u64, units: usize) {
        std::thread::scope(|scope| {
            for connection in 0..CONNECTIONS {
                scope.spawn(move || {
                    let mut generator = Generator::new(seed.wrapping_mul(CONNECTIONS).wrapping_add(connection));
                    // With near ones few keys live long, so only one connection makes some.
                    if connection == 0 {
                        generator.source().choose_near_deadlines();
                    }
                    let mut client = self.master.client();
                    let mut left = units / CONNECTIONS as usize;
                    while left > 0 {
                        let count = 1 + generator.source().below(UNITS_TOGETHER);
                        left = left.saturating_sub(count);
                        let units: Vec<Unit> = (0..count).map(|_| generator.next(0)).collect();
                        let requests: Vec<_> =
                            units.iter().flat_map(|unit| &unit.steps).map(|step| &step.request).collect();
                        let bytes: Vec<u8> = requests.iter().flat_map(|words| request(words)).collect();
                        client.send_and_hold(&bytes);
                        client.values(requests.len());
                    }
                });
            }
        });
    }
}

/// The contents and deadline of a key: for sorted sets with the scores as numbers, for others by its digest.
fn value_of(client: &mut Client, key: &[u8]) -> String {
    let mut ask = |words: &[&[u8]]| client.value(words);
    let expiry = ask(&[b"PEXPIRETIME", key]);
    if ask(&[b"TYPE", key]).text() == "zset" {
        let elements = ask(&[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"]);
        let elements = elements.byte_strings();
        // Whether a zero keeps its sign depends on the encoding, which 7.0 chooses by the first member of ZADD, and
        // 7.2, like this server, by all of them.
        let score = |text: &[u8]| (std::str::from_utf8(text).unwrap().parse::<f64>().unwrap() + 0.0).to_bits();
        let pairs = elements.chunks(2).map(|pair| format!("{} {:x}", pair[0].escape_ascii(), score(&pair[1])));
        return format!("{} expires {expiry:?}", pairs.collect::<Vec<_>>().join(", "));
    }
    let digest = ask(&[b"DEBUG", b"DIGEST-VALUE", key]);
    format!("{digest:?} expires {expiry:?}")
}

impl Drop for Pair {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("the replica logged: {}", self.replica.replica_log());
        }
    }
}

#[test]
fn a_real_replica_ends_with_the_data_of_its_master_on_every_engine() {
    let seed = seed_or(20_261_124);
    for (number, setup) in EVERY_ENGINE.into_iter().enumerate() {
        for appendonly in ["yes", "no"] {
            println!("{setup:?}, appendonly {appendonly}");
            let pair = Pair::start(setup, &["--appendonly", appendonly, "--save", ""]);
            for round in 0..effort("REPLICA_ROUNDS", 3) as u64 {
                pair.load(seed + 100 * number as u64 + round, 1500);
                pair.compare(&format!("{setup:?}, appendonly {appendonly}, round {round}"));
            }
            assert_eq!(pair.master.info_number("sync_full"), 1);
        }
    }
}

#[test]
fn a_link_that_is_cut_at_any_byte_goes_on_where_it_was() {
    let seed = seed_or(20_261_124);
    let mut random = fastrand::Rng::with_seed(seed);
    for setup in EVERY_ENGINE {
        println!("{setup:?}");
        let pair = Pair::start(setup, &["--appendonly", "no", "--save", "", "--repl-backlog-size", "64mb"]);
        for cut in 0..effort("REPLICA_CUTS", 4) as u64 {
            let before = pair.proxy.cuts();
            pair.proxy.cut_after(random.u64(1..100_000));
            let (mut rounds, start) = (0, Instant::now());
            while pair.proxy.cuts() == before {
                assert!(start.elapsed() < DEADLINE, "the replica takes nothing any more");
                pair.load(seed + 1000 * cut + rounds, 300);
                rounds += 1;
            }
            pair.load(seed + 1000 * cut + 999, 300);
            pair.wait_for_link();
            pair.compare(&format!("{setup:?}, after cut {cut}"));
        }
        assert_eq!(pair.master.info_number("sync_full"), 1);
        assert!(pair.master.info_number("sync_partial_ok") >= pair.proxy.cuts());
    }
}

#[test]
fn a_replica_that_comes_while_all_changes_has_one_moment_and_all_after_it() {
    let seed = seed_or(20_261_124);
    for setup in EVERY_ENGINE {
        println!("{setup:?}");
        let pair = Pair::start(setup, &["--appendonly", "no", "--save", ""]);
        let port = pair.proxy.address().port().to_string();
        let mut replica = pair.replica.client();
        for round in 0..effort("REPLICA_SYNCS", 3) as u64 {
            let is_over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    // It also ends when the test fails.
                    for part in (0..1000).take_while(|_| !is_over.load(Ordering::SeqCst)) {
                        pair.load(seed + 1000 * round + part, 300);
                    }
                });
                let syncs = pair.master.info_number("sync_full");
                // Its data belongs to no stream that the master knows.
                replica.expect("REPLICAOF NO ONE", "+OK\r\n");
                replica.call(&["REPLICAOF", "127.0.0.1", &port]);
                pair.wait_for_link();
                assert_eq!(pair.master.info_number("sync_full"), syncs + 1);
                is_over.store(true, Ordering::SeqCst);
            });
            pair.compare(&format!("{setup:?}, round {round}"));
        }
    }
}
