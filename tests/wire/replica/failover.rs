//! FAILOVER: the role of master goes to a replica that has everything, with ours and real servers on either side.

use super::restarts::number;
use super::*;
use harness::request;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// One of our servers, or a real one.
enum Node {
    Ours(Server),
    Real(RedisOracle),
}

impl Node {
    fn start(setup: Option<Setup>) -> Self {
        match setup {
            Some(setup) => Self::Ours(Server::start(setup, &MASTER)),
            None => Self::Real(master()),
        }
    }

    fn address(&self) -> SocketAddr {
        match self {
            Self::Ours(server) => server.address(),
            Self::Real(server) => server.address(),
        }
    }

    fn client(&self) -> Client {
        match self {
            Self::Ours(server) => server.client(),
            Self::Real(server) => server.client(),
        }
    }

    fn role(&self) -> String {
        info(&mut self.client())["role"].clone()
    }
}

struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Increments a counter on a server until the test is over, or the server refuses writes; returns how often that was
/// acknowledged.
fn count_up(node: &Node, is_over: &AtomicBool) -> u64 {
    let mut client = node.client();
    let mut count = 0;
    while !is_over.load(Ordering::SeqCst) {
        match client.value(&["INCR", "count"]) {
            Value::Integer(_) => count += 1,
            refused => {
                assert!(format!("{refused:?}").contains("READONLY"), "{refused:?}");
                break;
            }
        }
    }
    count
}

fn wait_for_online(master: &mut Client) {
    wait_until("the replica is online", || {
        info(master).get("slave0").is_some_and(|replica| replica.contains("state=online"))
    });
}

fn hand_over(from: &Node, to: &Node) {
    let mut client = from.client();
    let port = to.address().port().to_string();
    wait_for_online(&mut client);
    assert_eq!(client.value(&["FAILOVER", "TO", "127.0.0.1", &port, "TIMEOUT", "60000"]).text(), "OK");
    wait_until("the failover ends", || info(&mut client)["master_failover_state"] == "no-failover");
    assert_eq!((from.role(), to.role()), ("slave".into(), "master".into()));
}

/// One node hands over to the other and back, while a client writes.
fn check(first: Option<Setup>, second: Option<Setup>) {
    println!("{first:?} to {second:?} and back");
    let nodes = [Node::start(first), Node::start(second)];
    follow(&mut nodes[1].client(), nodes[0].address());
    assert_same(&mut nodes[0].client(), &mut nodes[1].client());
    nodes[0].client().expect("INCR count", ":1\r\n");
    let mut acknowledged = 1;
    for (from, to) in [(0, 1), (1, 0), (0, 1)] {
        let (from, to) = (&nodes[from], &nodes[to]);
        let (full, partial) = (number(&mut to.client(), "sync_full"), number(&mut to.client(), "sync_partial_ok"));
        let is_over = AtomicBool::new(false);
        let before = acknowledged;
        let counted = AtomicU64::new(0);
        std::thread::scope(|scope| {
            // It also ends when the test fails.
            let _ending = Ending(&is_over);
            scope.spawn(|| counted.store(count_up(from, &is_over), Ordering::SeqCst));
            let mut client = from.client();
            wait_until("some writes", || {
                client.value(&["GET", "count"]).text().parse::<u64>().is_ok_and(|n| n > before)
            });
            hand_over(from, to);
        });
        acknowledged += counted.load(Ordering::SeqCst);
        // The link of the replica that takes over is not lost: it ends in order.
        if let Node::Ours(server) = from {
            server.wait_for_log("ended: the stream continues");
            assert!(!server.log().contains("lost: it lags"), "{}", server.log());
        }
        // No acknowledged write is lost, and no snapshot is taken.
        assert_same(&mut to.client(), &mut from.client());
        assert_eq!(to.client().value(&["GET", "count"]).text(), acknowledged.to_string());
        assert_eq!(number(&mut to.client(), "sync_full"), full);
        assert_eq!(number(&mut to.client(), "sync_partial_ok"), partial + 1);
    }
}

#[test]
fn servers_of_ours_hand_over_to_each_other_and_nothing_is_lost() {
    for setup in EVERY_ENGINE {
        check(Some(setup), Some(setup));
    }
}

#[test]
fn servers_of_ours_and_real_ones_hand_over_to_each_other_and_nothing_is_lost() {
    for setup in ENGINES {
        check(Some(setup), None);
        check(None, Some(setup));
    }
}

#[test]
fn a_failover_that_cannot_be_is_refused_in_the_words_of_redis() {
    let real = master();
    let real_replica = RedisOracle::start_replica(&["--replicaof", "127.0.0.1", &real.address().port().to_string()]);
    for setup in ENGINES {
        let ours = Server::start(setup, &MASTER);
        let replica = replica_of(ours.address(), setup, &["--appendonly", "no"]);
        let none = Server::start(setup, &[]);
        assert_same(&mut ours.client(), &mut replica.client());
        assert_same(&mut real.client(), &mut real_replica.client());
        let mut pairs =
            [(ours.client(), real.client(), "master"), (replica.client(), real_replica.client(), "replica")];
        for (ours, theirs, role) in &mut pairs {
            for line in [
                "FAILOVER ABORT",
                "FAILOVER NOW",
                "FAILOVER TO 127.0.0.1",
                "FAILOVER TO 127.0.0.1 x",
                "FAILOVER TO 127.0.0.1 1",
                "FAILOVER TO nohost 6379 TIMEOUT 10",
                "FAILOVER TIMEOUT 0",
                "FAILOVER TIMEOUT -1",
                "FAILOVER TIMEOUT x",
                "FAILOVER FORCE TIMEOUT 10",
                "FAILOVER FORCE FORCE",
                "FAILOVER TO 127.0.0.1 1 FORCE",
                "FAILOVER ABORT TIMEOUT 10",
                "PSYNC 0000000000000000000000000000000000000000 1 FAILOVER",
            ] {
                // A master that is asked for a full sync replies so itself.
                if line.starts_with("PSYNC") && *role == "master" {
                    continue;
                }
                let words: Vec<&str> = line.split(' ').collect();
                let [ours, theirs] = [&mut *ours, &mut *theirs].map(|client| client.call(&words));
                assert_eq!(ours.escape_ascii().to_string(), theirs.escape_ascii().to_string(), "{line} on a {role}");
            }
        }
        let words = ["PSYNC", &"0".repeat(40), "1", "FAILOVER"];
        assert_eq!(ours.client().call(&words), real.client().call(&words));
        let mut alone = none.client();
        alone.expect("FAILOVER", "-ERR FAILOVER requires connected replicas.\r\n");
    }
}

#[test]
fn a_failover_ends_by_its_time_or_by_abort_and_writes_go_on() {
    for setup in ENGINES {
        let ours = Server::start(setup, &MASTER);
        let proxy = Proxy::to(ours.address());
        let replica = replica_of(proxy.address(), setup, &["--appendonly", "no"]);
        let (mut client, mut theirs) = (ours.client(), replica.client());
        assert_same(&mut client, &mut theirs);
        wait_for_online(&mut client);
        proxy.stall();
        client.expect("SET late 1", "+OK\r\n");
        let port = replica.address().port().to_string();
        client.expect(&format!("FAILOVER TO 127.0.0.1 {port} TIMEOUT 200"), "+OK\r\n");
        client.expect("FAILOVER", "-ERR FAILOVER already in progress.\r\n");
        client.expect("REPLICAOF NO ONE", "-ERR REPLICAOF not allowed while failing over.\r\n");
        // It waits until the failover has ended.
        client.expect("SET later 1", "+OK\r\n");
        assert_eq!(info(&mut client)["master_failover_state"], "no-failover");
        let line = "aborted: Replica never caught up before timeout";
        wait_until("a line that says why", || ours.log().contains(line));
        client.expect(&format!("FAILOVER TO 127.0.0.1 {port} TIMEOUT 600000"), "+OK\r\n");
        let mut writer = ours.client();
        writer.send(b"SET latest 1\r\n");
        assert!(writer.is_silent());
        client.expect("GET later", "$1\r\n1\r\n");
        assert_eq!(info(&mut client)["master_failover_state"], "waiting-for-sync");
        client.expect("FAILOVER ABORT", "+OK\r\n");
        assert_eq!(writer.reply(), b"+OK\r\n");
        proxy.resume();
        assert_same(&mut client, &mut theirs);
        assert_eq!((number(&mut client, "sync_full"), info(&mut client)["role"].as_str()), (1, "master"));
    }
}

#[test]
fn a_replica_that_refuses_to_take_over_leaves_the_master_as_it_was() {
    for setup in ENGINES {
        let ours = Server::start(setup, &MASTER);
        let real = RedisOracle::start_replica(&["--replicaof", "127.0.0.1", &ours.address().port().to_string()]);
        let (mut client, mut target) = (ours.client(), real.client());
        assert_same(&mut client, &mut target);
        wait_for_online(&mut client);
        target.expect("ACL SETUSER default -psync", "+OK\r\n");
        client.expect(&format!("FAILOVER TO 127.0.0.1 {}", real.address().port()), "+OK\r\n");
        ours.wait_for_log("aborted: Failover target rejected psync request");
        wait_until("the end", || info(&mut client)["master_failover_state"] == "no-failover");
        client.expect("SET after 1", "+OK\r\n");
        assert_eq!(info(&mut client)["role"], "master");
        target.expect("ACL SETUSER default +psync", "+OK\r\n");
        assert_same(&mut client, &mut target);
        // It reconnects, and needs no snapshot.
        assert_eq!(number(&mut client, "sync_full"), 1, "{}", ours.log());
    }
}

#[test]
fn a_replica_that_can_have_no_replicas_does_not_take_over() {
    for setup in ENGINES {
        println!("on {setup:?}");
        let ours = Server::start(setup, &MASTER);
        let replica = replica_of(ours.address(), setup, &["--multi-key", "relaxed"]);
        let (mut client, mut target) = (ours.client(), replica.client());
        assert_same(&mut client, &mut target);
        wait_for_online(&mut client);
        client.expect(&format!("FAILOVER TO 127.0.0.1 {}", replica.address().port()), "+OK\r\n");
        ours.wait_for_log("aborted: Failover target rejected psync request");
        client.expect("SET after 1", "+OK\r\n");
        target.expect("SET after 2", &format!("{READONLY}\r\n"));
        assert_same(&mut client, &mut target);
    }
}

#[test]
fn no_key_expires_while_a_replica_is_about_to_take_over() {
    for setup in ENGINES {
        println!("on {setup:?}");
        let ours = Server::start(setup, &MASTER);
        let proxy = Proxy::to(ours.address());
        let replica = replica_of(proxy.address(), setup, &["--appendonly", "no"]);
        let (mut client, mut theirs) = (ours.client(), replica.client());
        assert_same(&mut client, &mut theirs);
        wait_for_online(&mut client);
        proxy.stall();
        client.expect("SET key value PX 2000", "+OK\r\n");
        let port = replica.address().port().to_string();
        client.expect(&format!("FAILOVER TO 127.0.0.1 {port} TIMEOUT 600000"), "+OK\r\n");
        wait_until("its time comes", || client.call(&["GET", "key"]) == b"$-1\r\n");
        // Some searches for expired keys.
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(number(&mut client, "expired_keys"), 0, "its DEL would be one more thing to wait for");
        client.expect("FAILOVER ABORT", "+OK\r\n");
        wait_until("it is removed", || number(&mut client, "expired_keys") == 1);
        proxy.resume();
        assert_same(&mut client, &mut theirs);
    }
}

/// A master whose `key` has a megabyte, and its replica.
fn with_a_large_value(setup: Setup) -> [Node; 2] {
    let nodes = [Node::start(Some(setup)), Node::start(Some(setup))];
    let mut client = nodes[0].client();
    assert_eq!(client.call(&["SET", "key", &"x".repeat(1 << 20)]), b"+OK\r\n");
    follow(&mut nodes[1].client(), nodes[0].address());
    assert_same(&mut client, &mut nodes[1].client());
    nodes
}

#[test]
fn a_write_that_was_accepted_before_the_role_was_handed_over_does_not_run_afterwards() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let nodes = with_a_large_value(setup);
        let mut client = nodes[0].client();
        // It takes no replies: what follows the first ones waits, with the write at its end.
        let mut slow = nodes[0].client();
        slow.send(&[request(&["GET", "key"]).repeat(64), request(&["SET", "key", "late"])].concat());
        slow.stream().peek(&mut [0]).unwrap();
        hand_over(&nodes[0], &nodes[1]);
        let replies = slow.values(65);
        assert_eq!(replies[64].text(), READONLY[1..]);
        assert_same(&mut nodes[1].client(), &mut client);
    }
}

/// Begins a transaction that sleeps for a second between these requests, with all that they need. It has one thread,
/// and a request that waits for its lock may have another.
fn begin_to_sleep_among(client: &mut Client, before: &[&str], after: &[&str]) {
    let sleep: &[&str] = &["DEBUG", "SLEEP", "1"];
    client.send(&[&["MULTI"], before, sleep, after, &["EXEC"]].map(request).concat());
    std::thread::sleep(Duration::from_millis(200));
}

#[test]
fn parts_of_a_command_that_was_accepted_before_the_role_was_handed_over_do_not_run_afterwards() {
    for setup in ENGINES {
        println!("on {setup:?}");
        let nodes = with_a_large_value(setup);
        let mut client = nodes[0].client();
        // The parts are gathered while the replies before them are out, and these are not taken.
        begin_to_sleep_among(&mut client, &["GET", "none"], &["GET", "key"]);
        let mut slow = nodes[0].client();
        slow.send(&request(&["GET", "key"]).repeat(64));
        std::thread::sleep(Duration::from_millis(200));
        let names: Vec<String> = (0..32).map(|number| format!("late{number}")).collect();
        let pairs = names.iter().flat_map(|name| [name.as_str(), "1"]);
        let set: Vec<&str> = std::iter::once("MSET").chain(pairs).collect();
        slow.send(&[request(&set), request(&["FLUSHALL"])].concat());
        _ = client.values(5);
        slow.stream().peek(&mut [0]).unwrap();
        hand_over(&nodes[0], &nodes[1]);
        let replies = slow.values(66);
        assert_eq!([replies[64].text(), replies[65].text()], [&READONLY[1..]; 2]);
        assert_same(&mut nodes[1].client(), &mut client);
        client.expect("DBSIZE", ":1\r\n");
        client.expect("GET late1", "$-1\r\n");
    }
}

#[test]
fn parts_that_wait_for_shards_when_the_server_begins_to_follow_are_whole_and_in_the_stream_or_nowhere() {
    for setup in ENGINES {
        println!("on {setup:?}");
        let master = Server::start(setup, &MASTER);
        let mut client = master.client();
        let replica = replica_of(master.address(), setup, &[]);
        client.expect("SET key value", "+OK\r\n");
        assert_same(&mut client, &mut replica.client());
        let before = number(&mut client, "sync_full");
        begin_to_sleep_among(&mut client, &["GET", "key"], &["GET", "key"]);
        let mut writer = master.client();
        let names: Vec<String> = (0..32).map(|number| format!("key{number}")).collect();
        let pairs = names.iter().flat_map(|name| [name.as_str(), "1"]);
        writer.send(&request(&std::iter::once("MSET").chain(pairs).collect::<Vec<_>>()));
        std::thread::sleep(Duration::from_millis(200));
        master.client().expect("REPLICAOF 127.0.0.1 1", "+OK\r\n");
        _ = client.values(5);
        let is_done = match writer.values(1)[0].text().as_str() {
            "OK" => true,
            refusal => {
                assert_eq!(refusal, &READONLY[1..]);
                false
            }
        };
        client.expect("DBSIZE", if is_done { ":33\r\n" } else { ":1\r\n" });
        // Its own stream has ended.
        wait_until("it looks for its master", || master.log().contains("No link to the master 127.0.0.1:1"));
        client.expect("REPLICAOF NO ONE", "+OK\r\n");
        assert_same(&mut client, &mut replica.client());
        assert_eq!(number(&mut client, "sync_full"), before, "the replica has the stream, not a snapshot");
    }
}

#[test]
fn parts_that_take_effect_one_by_one_all_do_or_none_when_the_server_begins_to_follow_and_so_they_are_logged() {
    for setup in ENGINES {
        println!("on {setup:?}");
        let flags = [&REPLICA[..], &["--multi-key", "relaxed", "--appendonly", "yes"]].concat();
        let server = Server::start(setup, &flags);
        let mut client = server.client();
        client.expect("SET key value", "+OK\r\n");
        begin_to_sleep_among(&mut client, &["GET", "key"], &["GET", "key"]);
        let mut writer = server.client();
        let names: Vec<String> = std::iter::once("key".to_owned()).chain((0..32).map(|n| format!("key{n}"))).collect();
        let pairs = names.iter().flat_map(|name| [name.as_str(), "1"]);
        writer.send(&request(&std::iter::once("MSET").chain(pairs).collect::<Vec<_>>()));
        std::thread::sleep(Duration::from_millis(200));
        server.client().expect("REPLICAOF 127.0.0.1 1", "+OK\r\n");
        _ = client.values(5);
        let is_done = match writer.values(1)[0].text().as_str() {
            "OK" => true,
            refusal => {
                assert_eq!(refusal, &READONLY[1..]);
                false
            }
        };
        let (count, value) = if is_done { (":33\r\n", "$1\r\n1\r\n") } else { (":1\r\n", "$5\r\nvalue\r\n") };
        client.expect("DBSIZE", count);
        client.expect("GET key", value);
        let (_, data, _) = server.stop();
        let server = data.start(setup, &flags);
        client = server.client();
        client.expect("DBSIZE", count);
        client.expect("GET key", value);
    }
}

#[test]
fn a_transaction_that_runs_when_the_server_begins_to_follow_is_whole_with_the_scripts_in_it() {
    for setup in ENGINES {
        println!("on {setup:?}");
        let master = Node::start(Some(setup));
        let mut client = master.client();
        let replica = replica_of(master.address(), setup, &[]);
        client.expect("SET key value", "+OK\r\n");
        assert_same(&mut client, &mut replica.client());
        begin_to_sleep_among(&mut client, &["SET", "one", "1"], &["EVAL", "return redis.call('SET', 'two', '2')", "0"]);
        master.client().expect("REPLICAOF 127.0.0.1 1", "+OK\r\n");
        let replies = client.values(5);
        let Value::Array(done) = &replies[4] else { panic!("{replies:?}") };
        assert_eq!([done[0].text(), done[2].text()], ["OK", "OK"]);
        client.expect("REPLICAOF NO ONE", "+OK\r\n");
        assert_same(&mut client, &mut replica.client());
        replica.client().expect("MGET one two", "*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
    }
}

#[test]
fn a_master_that_lacks_replicas_refuses_writes_in_other_words_once_it_follows() {
    for setup in ENGINES {
        let master = Server::start(setup, &MASTER);
        let ours = Server::start(setup, &[&MASTER[..], &["--min-replicas-to-write", "1"]].concat());
        let mut client = ours.client();
        client.expect("SET key value", "-NOREPLICAS Not enough good replicas to write.\r\n");
        follow(&mut client, master.address());
        client.expect("SET key value", &format!("{READONLY}\r\n"));
        client.expect("REPLICAOF NO ONE", "+OK\r\n");
        client.expect("SET key value", "-NOREPLICAS Not enough good replicas to write.\r\n");
    }
}
