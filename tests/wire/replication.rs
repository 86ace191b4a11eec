//! Replication: what a server reports about it, and what its replicas hold.

use harness::{
    Client, EVERY_ENGINE, Proxy, RedisOracle, Server, Setup, Value, effort, on_every_engine, on_every_engine_at_once,
    request, wait_until,
};
use std::io::Read;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[test]
fn a_server_that_follows_nobody_is_a_master_with_a_stream_of_its_own() {
    on_every_engine(|server| {
        let mut client = server.client();
        client.expect("ROLE", "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n");
        let info = client.value(&["INFO", "replication"]).text();
        let field =
            |name: &str| info.lines().find_map(|line| line.strip_prefix(&format!("{name}:")).map(str::to_owned));
        assert_eq!(field("role").as_deref(), Some("master"));
        assert_eq!(field("second_repl_offset").as_deref(), Some("-1"));
        let id = field("master_replid").expect("the stream has a name");
        assert_eq!(id.len(), 40, "{id}");
        let run_id = client.value(&["INFO", "server"]).text();
        assert!(!run_id.contains(&id), "the name of the stream is not that of the run: it stays when a run ends");
    });
}

/// Flags of a master whose replicas do not wait for others.
const AT_ONCE: [&str; 6] = ["--repl-diskless-sync-delay", "0", "--enable-debug-command", "yes", "--save", ""];

/// A master of ours with a real replica.
struct Pair {
    master: Server,
    proxy: Proxy,
    replica: RedisOracle,
}

impl Pair {
    fn start(setup: Setup, flags: &[&str]) -> Self {
        println!("on {setup:?}");
        let master = Server::start(setup, &[&AT_ONCE[..], flags].concat());
        let proxy = Proxy::to(master.address());
        let replica = replica_of(proxy.address());
        let pair = Self { master, proxy, replica };
        pair.wait_for_link();
        pair
    }

    fn wait_for_link(&self) {
        wait_for_link(&self.replica);
    }

    fn wait_for_same_data(&self) {
        wait_for_same_data(&self.master, &self.replica);
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("the replica logged: {}", self.replica.replica_log());
        }
    }
}

fn replica_of(master: SocketAddr) -> RedisOracle {
    RedisOracle::start_replica(&["--replicaof", "127.0.0.1", &master.port().to_string()])
}

fn wait_for_link(replica: &RedisOracle) {
    let mut client = replica.client();
    wait_until("the link", || client.value(&["INFO", "replication"]).text().contains("master_link_status:up"));
}

fn wait_for_same_data(master: &Server, replica: &RedisOracle) {
    let (mut ours, mut theirs) = (master.client(), replica.client());
    let digest = |client: &mut Client| client.value(&["DEBUG", "DIGEST"]).text();
    wait_until("the same data", || digest(&mut ours) == digest(&mut theirs));
}

fn field(client: &mut Client, section: &str, name: &str) -> Option<String> {
    let text = client.value(&["INFO", section]).text();
    text.lines().find_map(|line| line.strip_prefix(&format!("{name}:")).map(str::to_owned))
}

#[test]
fn a_master_counts_the_bytes_to_its_replicas_and_none_from_them() {
    for setup in EVERY_ENGINE {
        let pair = Pair::start(setup, &[]);
        pair.master.client().call(&["SET", "key", &"v".repeat(1 << 20)]);
        pair.wait_for_same_data();
        let received = field(&mut pair.replica.client(), "stats", "total_net_repl_input_bytes").unwrap();
        let sent = pair.master.info_number("total_net_repl_output_bytes");
        let received: u64 = received.parse().unwrap();
        assert!(received > 1 << 20 && received.abs_diff(sent) < 1000, "{setup:?}: {received} received, {sent} sent");
        assert_eq!(pair.master.info_number("total_net_repl_input_bytes"), 0, "{setup:?}");
    }
}

#[test]
fn a_replica_is_shown_by_info_role_and_client_list() {
    for setup in EVERY_ENGINE {
        let pair = Pair::start(setup, &[]);
        let mut client = pair.master.client();
        client.expect("SET key value", "+OK\r\n");
        pair.wait_for_same_data();
        let port = pair.replica.address().port().to_string();
        let offset = field(&mut client, "replication", "master_repl_offset").unwrap();
        assert_ne!(offset, "0");
        let wanted = format!("ip=127.0.0.1,port={port},state=online,offset={offset},lag=");
        wait_until("the acknowledgement", || {
            field(&mut client, "replication", "slave0").is_some_and(|line| line.starts_with(&wanted))
        });
        assert_eq!(field(&mut client, "replication", "connected_slaves").as_deref(), Some("1"));
        let role = client.value(&["ROLE"]);
        let role = role.elements();
        assert_eq!((role[0].text(), role[1].integer().to_string()), ("master".into(), offset.clone()));
        let replica = role[2].elements()[0].elements();
        assert_eq!([replica[0].text(), replica[1].text(), replica[2].text()], ["127.0.0.1".into(), port, offset]);
        // Its last command is the acknowledgement.
        let list = client.value(&["CLIENT", "LIST", "TYPE", "replica"]).text();
        assert!(list.contains(" flags=S ") && list.contains(" cmd=replconf "), "{list}");
        assert_eq!(list.lines().count(), 1, "{list}");
        let others = client.value(&["CLIENT", "LIST", "TYPE", "normal"]).text();
        assert!(!others.contains("flags=S"), "{others}");
        client.expect("CLIENT KILL TYPE replica", ":1\r\n");
        wait_until("another link", || pair.master.info_number("sync_partial_ok") == 1);
        pair.wait_for_same_data();
        assert_eq!(pair.master.info_number("sync_full"), 1);
        assert_eq!(pair.master.info_number("sync_partial_err"), 0);
        client.expect("CONFIG RESETSTAT", "+OK\r\n");
        assert_eq!(["sync_full", "sync_partial_ok"].map(|name| pair.master.info_number(name)), [0, 0]);
    }
}

#[test]
fn wait_counts_the_replicas_that_have_all_that_was_written_before_it() {
    for setup in EVERY_ENGINE {
        let pair = Pair::start(setup, &[]);
        let mut client = pair.master.client();
        for number in 0..20 {
            let number = number.to_string();
            let replies = client.pipeline(&[
                vec!["SET", "key", &number],
                vec!["MSET", "a", &number, "b", &number],
                vec!["WAIT", "1", "0"],
            ]);
            assert_eq!(replies[2].integer(), 1);
            let theirs = pair.replica.client().pipeline(&[vec!["GET", "key"], vec!["GET", "a"], vec!["GET", "b"]]);
            assert!(theirs.iter().all(|value| value.text() == number), "{theirs:?} at {number}");
        }
        client.expect("WAIT 0 0", ":1\r\n");
        pair.proxy.stall();
        client.expect("SET key last", "+OK\r\n");
        client.expect("WAIT 1 100", ":0\r\n");
        client.expect("WAIT 0 0", ":0\r\n");
        client.send(b"*3\r\n$4\r\nWAIT\r\n$1\r\n1\r\n$1\r\n0\r\n");
        assert!(client.is_silent());
        pair.proxy.resume();
        assert_eq!(client.value_of_next().integer(), 1);
        assert_eq!(pair.replica.client().value(&["GET", "key"]).text(), "last");
    }
}

/// Keys of different shards, on any engine.
fn keys(name: &str) -> [String; 4] {
    [1, 2, 3, 4].map(|number| format!("{name}{number}"))
}

/// A script that takes some milliseconds, only on the shard of its key.
const BUSY: &str = "local sum = 0 for number = 1, 300000 do sum = sum + number end return redis.call('INCR', KEYS[1])";

/// Several clients change keys in different ways; a reader of the replica sees consistent states at any time.
#[test]
fn a_reader_of_a_replica_sees_each_change_whole_and_with_all_that_its_maker_had_seen() {
    for setup in EVERY_ENGINE {
        let pair = Pair::start(setup, &["--appendonly", "no"]);
        let is_over = AtomicBool::new(false);
        let (whole, pairs) = (keys("whole"), keys("pair"));
        // By their tags on shards of the keys above, and on others alternately.
        let chain = ["{whole2}", "other", "{whole3}", "another"].map(|name| format!("{name}chain"));
        let run = |act: &dyn Fn(&mut Client, String)| {
            let mut client = pair.master.client();
            for number in (1..).take_while(|_: &u64| !is_over.load(Ordering::SeqCst)) {
                act(&mut client, number.to_string());
            }
        };
        let fill = |client: &mut Client, keys: &[String; 4], number: &str| {
            let words: Vec<&str> = keys.iter().flat_map(|key| [key, number]).collect();
            client.call(&[&["MSET"], &words[..]].concat());
        };
        // One at a time, so that the change of a later key has seen that of the one before it.
        let follow = |client: &mut Client, keys: &[String; 4], number: &str| {
            keys.iter().for_each(|key| _ = client.call(&["SET", key, number]));
        };
        let exchange = |client: &mut Client, keys: &[String; 4], number: &str| {
            let sets = keys.iter().map(|key| vec!["SET", key, number]);
            client.pipeline(&[vec![vec!["MULTI"]], sets.collect(), vec![vec!["EXEC"]]].concat());
        };
        std::thread::scope(|scope| {
            let (whole, chain, pairs) = (&whole, &chain, &pairs);
            for _ in 0..2 {
                scope.spawn(|| run(&|client, number| fill(client, whole, &number)));
            }
            scope.spawn(|| run(&|client, number| follow(client, chain, &number)));
            scope.spawn(|| run(&|client, number| exchange(client, pairs, &number)));
            // While its shard is busy, a part of MSET waits there, and others' commands after their parts come before
            // it.
            scope.spawn(|| run(&|client, _| _ = client.call(&["EVAL", BUSY, "1", "{whole1}busy"])));
            let mut reader = pair.replica.client();
            let all = [whole, chain, pairs].into_iter().flatten().map(String::as_str);
            let request = ["MGET"].into_iter().chain(all).collect::<Vec<_>>();
            let start = Instant::now();
            let mut looks = 0;
            let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                while start.elapsed() < Duration::from_millis(effort("REPLICA_READS_MS", 1500) as u64) {
                    let values: Vec<u64> = reader
                        .value(&request)
                        .elements()
                        .iter()
                        .map(|value| if value.is_null() { 0 } else { value.text().parse().unwrap() })
                        .collect();
                    let (whole, chain, pairs) = (&values[..4], &values[4..8], &values[8..]);
                    assert!(whole.iter().all(|value| *value == whole[0]), "MSET is torn: {values:?}");
                    assert!(pairs.iter().all(|value| *value == pairs[0]), "EXEC is torn: {values:?}");
                    let is_in_order = chain.is_sorted_by(|one, next| one >= next) && chain[0] <= chain[3] + 1;
                    assert!(is_in_order, "an effect before its cause: {values:?}");
                    looks += 1;
                }
            }));
            is_over.store(true, Ordering::SeqCst);
            println!("{looks} looks");
            if let Err(panic) = seen {
                std::panic::resume_unwind(panic);
            }
        });
        pair.wait_for_same_data();
    }
}

/// A replica that says that it has its snapshot, and reads nothing.
fn stuck_replica(server: &Server) -> Client {
    let mut stuck = server.client();
    stuck.expect("REPLCONF capa eof capa psync2", "+OK\r\n");
    stuck.send(b"*3\r\n$5\r\nPSYNC\r\n$1\r\n?\r\n$2\r\n-1\r\n");
    wait_until("the snapshot", || {
        field(&mut server.client(), "replication", "slave0").is_some_and(|line| line.contains("state=send_bulk"))
    });
    stuck.send(b"*3\r\n$8\r\nREPLCONF\r\n$3\r\nACK\r\n$1\r\n0\r\n");
    stuck
}

#[test]
fn a_replica_that_takes_nothing_is_cut_at_its_limit_and_no_writer_waits_for_it() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let limit = ["--client-output-buffer-limit", "replica 2mb 0 0", "--repl-backlog-size", "16kb"];
        let server = Server::start(setup, &[&AT_ONCE[..], &limit, &["--appendonly", "no"]].concat());
        let _stuck = stuck_replica(&server);
        let mut client = server.client();
        let value = "x".repeat(100_000);
        let start = Instant::now();
        for _ in 0..400 {
            assert_eq!(client.call(&["SET", "key", &value]), b"+OK\r\n");
        }
        println!("400 writes took {:?}", start.elapsed());
        wait_until("the end of the link", || server.info_number("connected_slaves") == 0);
        server.wait_for_log("client-output-buffer-limit");
        let kept = server.info_number("repl_backlog_histlen");
        assert!(kept < 300_000, "{kept} bytes are kept for nobody");
        server.assert_serving();
    }
}

#[test]
fn what_a_replica_has_not_read_counts_once_and_is_free_when_it_is_gone() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let limit = ["--client-output-buffer-limit", "replica 200mb 0 0", "--repl-backlog-size", "16kb"];
        let server = Server::start(setup, &[&AT_ONCE[..], &limit, &["--appendonly", "no"]].concat());
        let _stuck = stuck_replica(&server);
        // In one read, so that shards hand over much at once.
        let set = request(&["SET", "key", &"x".repeat(100)]);
        server.client().call(&["SET", "key", "x"]);
        let before = server.info_number("used_memory");
        let mut client = server.client();
        client.send(&set.repeat(300_000));
        client.values(300_000);
        wait_until("it lags", || server.info_number("mem_clients_slaves") > 20_000_000);
        assert!(server.info_number("mem_clients_normal") < 1_000_000, "{setup:?}: it is no client of that kind");
        let (overhead, used) = (server.info_number("used_memory_overhead"), server.info_number("used_memory"));
        assert!(overhead < used, "{setup:?}: {overhead} of {used}");
        client.expect("CLIENT KILL TYPE replica", ":1\r\n");
        client.expect("SET key x", "+OK\r\n");
        wait_until("its memory is free", || server.info_number("used_memory") < before + 6_000_000);
    }
}

#[test]
fn a_backlog_that_is_too_short_for_what_was_missed_leads_to_a_full_synchronization() {
    for setup in EVERY_ENGINE {
        let pair = Pair::start(setup, &["--repl-backlog-size", "100kb"]);
        let mut client = pair.master.client();
        for (letter, bytes, full, partial) in [("a", 50_000, 1, 1), ("b", 400_000, 2, 1), ("c", 50_000, 2, 2)] {
            let cuts = pair.proxy.cuts();
            pair.proxy.stall();
            (0..bytes / 1000).for_each(|_| _ = client.call(&["SET", "key", &letter.repeat(1000)]));
            pair.proxy.cut_after(1);
            pair.proxy.resume();
            wait_until("the cut", || pair.proxy.cuts() > cuts);
            pair.wait_for_same_data();
            let counts = [pair.master.info_number("sync_full"), pair.master.info_number("sync_partial_ok")];
            assert_eq!(counts, [full, partial], "{bytes} bytes were missed");
        }
    }
}

#[test]
fn writes_are_refused_while_too_few_replicas_are_there() {
    const REFUSED: &str = "-NOREPLICAS Not enough good replicas to write.\r\n";
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let flags = ["--min-replicas-to-write", "1", "--min-replicas-max-lag", "2"];
        let master = Server::start(setup, &[&AT_ONCE[..], &flags].concat());
        let mut client = master.client();
        client.expect("SET key value", REFUSED);
        client.expect("GET key", "$-1\r\n");
        client.expect("MULTI", "+OK\r\n");
        client.expect("SET key value", REFUSED);
        client.expect("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n");
        let script = client.value(&["EVAL", "return redis.call('SET', KEYS[1], 'value')", "1", "key"]).text();
        assert!(script.contains("NOREPLICAS"), "{script}");
        assert!(client.value(&["EVAL", "return redis.call('GET', KEYS[1])", "1", "key"]).is_null());
        // It writes nothing that others could see, and is no reason to give a transaction up.
        client.expect("PFCOUNT key", ":0\r\n");
        client.expect("MULTI", "+OK\r\n");
        client.expect("PFCOUNT key", "+QUEUED\r\n");
        client.expect("EVAL \"return 1\" 0", "+QUEUED\r\n");
        client.expect("EXEC", "*2\r\n:0\r\n:1\r\n");
        assert_eq!(field(&mut client, "replication", "min_slaves_good_slaves").as_deref(), Some("0"));
        let proxy = Proxy::to(master.address());
        let replica = replica_of(proxy.address());
        wait_for_link(&replica);
        wait_until("a write", || client.call(&["SET", "key", "value"]) == b"+OK\r\n");
        assert_eq!(field(&mut client, "replication", "min_slaves_good_slaves").as_deref(), Some("1"));
        drop(replica);
        wait_until("a refusal", || client.call(&["SET", "key", "value"]) == REFUSED.as_bytes());
        client.expect("CONFIG SET min-replicas-to-write 0", "+OK\r\n");
        client.expect("SET key value", "+OK\r\n");
    }
}

/// A library of functions.
const ONE: &str = "#!lua name=one\nredis.register_function('f', function() return 1 end)";

#[test]
fn a_range_that_has_no_order_is_to_a_replica_and_to_the_log_what_it_was_here() {
    for setup in EVERY_ENGINE {
        let pair = Pair::start(setup, &["--appendonly", "yes"]);
        let mut client = pair.master.client();
        // By members there is an order if all scores are the same. Otherwise Redis specifies nothing, and a set with
        // another encoding has other members in the range.
        for (number, count) in [4, 300].into_iter().enumerate() {
            let key = format!("{{set}}{number}");
            for member in 0..count {
                client.call(&["ZADD", &key, &((member * 7) % 13).to_string(), &format!("m{member:03}")]);
            }
            let mut change = |words: &[&str]| _ = client.value(words).integer();
            change(&["ZRANGESTORE", "{set}stored", &key, "[m001", "(m200", "BYLEX"]);
            change(&["ZREMRANGEBYLEX", &key, "[m002", "(m150"]);
            change(&[
                "ZRANGESTORE",
                &format!("{{set}}stored{number}"),
                &key,
                "-",
                "[m100",
                "BYLEX",
                "LIMIT",
                "1",
                "50",
            ]);
            change(&["ZREMRANGEBYLEX", &key, "(m001", "+"]);
            change(&["ZREMRANGEBYLEX", &key, "-", "(m000"]);
        }
        pair.wait_for_same_data();
        let digest = client.value(&["DEBUG", "DIGEST"]).text();
        client.expect("DEBUG LOADAOF", "+OK\r\n");
        assert_eq!(client.value(&["DEBUG", "DIGEST"]).text(), digest, "{setup:?}");
    }
}

#[test]
fn libraries_and_messages_get_to_replicas() {
    const TWO: &str = "#!lua name=two\nredis.register_function('g', function() return 2 end)";
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let master = Server::start(setup, &AT_ONCE);
        let mut client = master.client();
        client.call(&["FUNCTION", "LOAD", ONE]);
        let replica = replica_of(master.address());
        wait_for_link(&replica);
        let mut theirs = replica.client();
        let names = |client: &mut Client| -> Vec<String> {
            let libraries = client.value(&["FUNCTION", "LIST"]);
            libraries.elements().iter().map(|library| library.elements()[1].text()).collect()
        };
        assert_eq!(names(&mut theirs), ["one"]);
        let mut listener = replica.client();
        listener.call(&["SUBSCRIBE", "news"]);
        client.call(&["FUNCTION", "LOAD", TWO]);
        client.call(&["FUNCTION", "DELETE", "one"]);
        client.expect("PUBLISH news first", ":0\r\n");
        client.pipeline(&[vec!["MULTI"], vec!["SET", "key", "value"], vec!["PUBLISH", "news", "second"], vec!["EXEC"]]);
        client.call(&["EVAL", "redis.call('PUBLISH', 'news', 'third')", "0"]);
        for wanted in ["first", "second", "third"] {
            let message = listener.value_of_next();
            assert_eq!(message.elements()[2].text(), wanted);
        }
        assert_eq!(names(&mut theirs), ["two"]);
        client.expect("FUNCTION FLUSH", "+OK\r\n");
        wait_until("the flush", || names(&mut theirs).is_empty());
        wait_for_same_data(&master, &replica);
    }
}

#[test]
fn a_backlog_that_nobody_asks_for_is_freed_and_the_next_stream_has_another_name() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let master = Server::start(setup, &[&AT_ONCE[..], &["--repl-backlog-ttl", "1"]].concat());
        let mut client = master.client();
        let replica = replica_of(master.address());
        wait_for_link(&replica);
        let name = field(&mut client, "replication", "master_replid");
        drop(replica);
        wait_until("the end of the backlog", || {
            field(&mut client, "replication", "repl_backlog_active").as_deref() == Some("0")
        });
        // The owners of the keys are told after that.
        wait_until("the end of what is encoded for nobody", || {
            let offset = field(&mut client, "replication", "master_repl_offset");
            client.expect("SET key value", "+OK\r\n");
            std::thread::sleep(Duration::from_millis(20));
            field(&mut client, "replication", "master_repl_offset") == offset
        });
        let replica = replica_of(master.address());
        wait_for_link(&replica);
        assert_ne!(field(&mut client, "replication", "master_replid"), name);
        client.expect("SET key other", "+OK\r\n");
        wait_for_same_data(&master, &replica);
    }
}

#[test]
fn a_key_that_expires_or_is_evicted_is_removed_by_the_master_alone() {
    for setup in EVERY_ENGINE {
        let pair = Pair::start(setup, &[]);
        let mut client = pair.master.client();
        client.expect("SET soon value PX 300", "+OK\r\n");
        client.expect("SET late value EX 1000", "+OK\r\n");
        pair.wait_for_same_data();
        wait_until("the end of a key", || pair.replica.client().value(&["DBSIZE"]).integer() == 1);
        assert_eq!(pair.master.info_number("expired_keys"), 1);
        let theirs = field(&mut pair.replica.client(), "stats", "expired_keys");
        assert_eq!(theirs.as_deref(), Some("0"), "the replica waits for its master");
        pair.wait_for_same_data();
    }
}

#[test]
fn a_snapshot_alone_is_sent_to_who_wants_no_more_in_both_forms() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let server = Server::start(setup, &AT_ONCE);
        server.client().expect("SET key value", "+OK\r\n");
        let mut old = server.client();
        old.send(b"SYNC\r\n");
        wait_until("the snapshot", || {
            let info = field(&mut server.client(), "replication", "slave0");
            info.is_some_and(|line| line.contains("state=online"))
        });
        // It is sent the stream after it.
        server.client().expect("SET key other", "+OK\r\n");
        server.client().expect("CLIENT KILL TYPE replica", ":1\r\n");
        let all = old.until_closed();
        let head = all.iter().position(|byte| *byte == b'\n').unwrap();
        let len: usize = std::str::from_utf8(&all[1..head - 1]).unwrap().parse().unwrap();
        let (snapshot, stream) = all[head + 1..].split_at(len);
        assert!(all[0] == b'$' && snapshot.starts_with(b"REDIS"));
        let wanted = [request(&["SELECT", "0"]), request(&["SET", "key", "other"])].concat();
        assert!(wanted.starts_with(stream), "{}", stream.escape_ascii());
        drop(old);
        wait_until("the end of the link", || server.info_number("connected_slaves") == 0);
        let mut alone = server.client();
        alone.expect("REPLCONF rdb-only 1 capa eof", "+OK\r\n");
        alone.send(b"SYNC\r\n");
        wait_until("the snapshot", || {
            let info = field(&mut server.client(), "replication", "slave0");
            info.is_some_and(|line| line.contains("state=rdb_transmitted"))
        });
        server.client().expect("CLIENT KILL TYPE replica", ":1\r\n");
        let all = alone.until_closed();
        let delimiter = all[5..45].to_vec();
        assert!(all.starts_with(b"$EOF:") && all[45..].starts_with(b"\r\nREDIS") && all.ends_with(&delimiter));
        wait_until("the end of the link", || server.info_number("connected_slaves") == 0);
        server.client().call(&["FUNCTION", "LOAD", ONE]);
        for (filter, has_functions) in [("functions", true), ("", false)] {
            let mut filtered = server.client();
            let words = ["REPLCONF", "rdb-only", "1", "capa", "eof", "rdb-filter-only", filter];
            assert_eq!(filtered.call(&words), b"+OK\r\n");
            filtered.send(b"SYNC\r\n");
            wait_until("the snapshot", || {
                let info = field(&mut server.client(), "replication", "slave0");
                info.is_some_and(|line| line.contains("state=rdb_transmitted"))
            });
            server.client().expect("CLIENT KILL TYPE replica", ":1\r\n");
            let all = filtered.until_closed();
            wait_until("the end of the link", || server.info_number("connected_slaves") == 0);
            let has = |word: &[u8]| all.windows(word.len()).any(|bytes| bytes == word);
            assert!(has(b"REDIS") && !has(b"other"), "{}", all.escape_ascii());
            assert_eq!(has(b"register_function"), has_functions, "{}", all.escape_ascii());
        }
    }
}

#[test]
fn replicas_that_wait_take_one_snapshot_and_then_the_same_stream() {
    const REPLICAS: usize = 3;
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        // All of them, however late they come.
        let delay = ["--repl-diskless-sync-delay", "600", "--repl-diskless-sync-max-replicas", "3"];
        let master = Server::start(setup, &[&AT_ONCE[..], &delay].concat());
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for writer in 0..2 {
                let (master, is_over) = (&master, &is_over);
                scope.spawn(move || {
                    let mut client = master.client();
                    for number in (0..100_000).take_while(|_| !is_over.load(Ordering::SeqCst)) {
                        let keys = keys(&format!("{writer}-{}-", number % 500));
                        let number = number.to_string();
                        client.call(&["MSET", &keys[0], &number, &keys[1], &number, &keys[2], &number]);
                        client.call(&["INCR", "count"]);
                    }
                });
            }
            let replicas: Vec<RedisOracle> = (0..REPLICAS).map(|_| replica_of(master.address())).collect();
            replicas.iter().for_each(wait_for_link);
            std::thread::sleep(Duration::from_millis(200));
            is_over.store(true, Ordering::SeqCst);
            replicas.iter().for_each(|replica| wait_for_same_data(&master, replica));
            let mut client = master.client();
            client.expect("WAIT 3 0", ":3\r\n");
        });
        assert_eq!(master.info_number("sync_full"), REPLICAS as u64);
        assert_eq!(master.log().matches("Starting a snapshot for SYNC").count(), 1, "{}", master.log());
    }
}

/// Twenty megabytes.
/// For a snapshot that is as large as the data.
const LARGE: [&str; 4] = ["--appendonly", "no", "--rdbcompression", "no"];

fn fill(server: &Server) {
    let value = "x".repeat(10_000);
    let sets: Vec<Vec<String>> =
        (0..2000).map(|number| ["SET", &format!("key{number}"), &value].map(str::to_owned).to_vec()).collect();
    server.client().pipeline(&sets);
}

#[test]
fn a_link_that_is_cut_within_a_snapshot_leaves_nothing_behind_and_the_next_is_whole() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let master = Server::start(setup, &[&AT_ONCE[..], &LARGE[..]].concat());
        fill(&master);
        let proxy = Proxy::to(master.address());
        proxy.cut_after(5_000_000);
        let replica = replica_of(proxy.address());
        wait_until("the cut", || proxy.cuts() == 1);
        master.client().expect("SET key0 other", "+OK\r\n");
        wait_for_link(&replica);
        wait_for_same_data(&master, &replica);
        assert_eq!(master.info_number("sync_full"), 2);
        assert_eq!(master.info_number("connected_slaves"), 1);
        wait_until("the end of the first", || master.info_number("repl_backlog_histlen") < 100_000);
        // The next snapshot can be taken.
        wait_until("a snapshot", || master.client().call(&["BGSAVE"]) == b"+Background saving started\r\n");
    }
}

#[test]
fn a_replica_that_takes_no_snapshot_is_given_up_and_the_next_has_its_turn() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let master = Server::start(setup, &[&AT_ONCE[..], &LARGE[..]].concat());
        fill(&master);
        let mut stuck = master.client();
        stuck.expect("REPLCONF capa eof capa psync2", "+OK\r\n");
        stuck.send(b"*3\r\n$5\r\nPSYNC\r\n$1\r\n?\r\n$2\r\n-1\r\n");
        wait_until("the snapshot", || {
            field(&mut master.client(), "replication", "slave0").is_some_and(|line| line.contains("state=send_bulk"))
        });
        // As Redis shows it, where a child of the master sends the snapshot.
        assert_eq!(master.info_number("rdb_bgsave_in_progress"), 1);
        master.client().expect("BGSAVE", "-ERR Background save already in progress\r\n");
        let replica = replica_of(master.address());
        let mut client = master.client();
        // The link waits for the replica already.
        std::thread::sleep(Duration::from_millis(500));
        client.expect("CONFIG SET repl-timeout 2", "+OK\r\n");
        // No writer waits for it.
        let start = Instant::now();
        (0..2000).for_each(|number| _ = client.call(&["SET", &format!("key{number}"), "changed"]));
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        wait_for_link(&replica);
        wait_for_same_data(&master, &replica);
        master.wait_for_log("it has taken nothing for repl-timeout");
        drop(stuck);
    }
}

/// A replica of an output limit of 1 MB: what has not changed is not in any buffer for it.
#[test]
fn values_that_are_larger_than_the_limit_of_a_replica_get_to_it_in_one_snapshot() {
    let limit = ["--client-output-buffer-limit", "replica 1mb 1mb 60", "--repl-backlog-size", "16kb"];
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let master = Server::start(setup, &[&AT_ONCE[..], &LARGE[..], &limit[..]].concat());
        let mut client = master.client();
        let value = "v".repeat(300_000);
        for number in 0..16 {
            client.expect(&format!("SETRANGE large{number} 3000000 x"), ":3000001\r\n");
            client.value(&["RPUSH", &format!("list{number}"), &value, &value, &value, &value, &value]);
        }
        let fields: Vec<String> = (0..20_000).map(|field| format!("field{field:0>100}")).collect();
        for fields in fields.chunks(1000) {
            let words = ["HSET", "hash"].into_iter().chain(fields.iter().flat_map(|field| [field.as_str(), "v"]));
            client.value(&words.collect::<Vec<_>>()).integer();
        }
        let replica = replica_of(master.address());
        wait_for_link(&replica);
        wait_for_same_data(&master, &replica);
        assert_eq!(master.info_number("sync_full"), 1);
    }
}

#[test]
fn what_a_replica_that_lags_needs_of_memory_does_not_count_towards_maxmemory() {
    let limit = ["--client-output-buffer-limit", "replica 100mb 100mb 300", "--repl-backlog-size", "16kb"];
    on_every_engine_at_once(|setup| {
        let master = Server::start(setup, &[&AT_ONCE[..], &limit, &["--appendonly", "no"]].concat());
        let mut client = master.client();
        client.expect("SETRANGE key 100000 x", ":100001\r\n");
        let stuck = stuck_replica(&master);
        let others = ["mem_not_counted_for_evict", "mem_clients_normal"];
        let counted = || {
            let uncounted: u64 = others.iter().map(|field| master.info_number(field)).sum();
            master.info_number("used_memory").saturating_sub(uncounted)
        };
        let before = counted();
        // Not more at once: what a connection needs for a long pipeline would be counted.
        let requests = request(&["SETRANGE", "key", "0", "0123456789"]).repeat(500);
        for _ in 0..2000 {
            client.send(&requests);
            _ = client.values(500);
        }
        wait_until("it lags", || master.info_number("repl_backlog_histlen") > 30_000_000);
        let after = counted();
        // What the threads and the shards keep for their work is counted.
        assert!(after < before + 2_000_000, "{before}, then {after}");
        assert!(master.info_number("mem_clients_slaves") > 29_000_000);
        drop(stuck);
        wait_until("nothing is kept for a replica", || master.info_number("mem_clients_slaves") == 0);
        // What is left is the free room in the blocks of the backlog: the buffers are freed at rest.
        wait_until("the buffers are freed", || master.info_number("mem_not_counted_for_evict") < 130_000);
        assert!(counted() < before + 2_000_000);
    });
}

#[test]
fn a_replica_that_says_nothing_after_its_snapshot_is_given_up_and_one_that_loads_is_not() {
    on_every_engine_at_once(|setup| {
        let master = Server::start(setup, &[&AT_ONCE[..], &["--repl-timeout", "2"]].concat());
        let [mut stuck, mut loading] = [(); 2].map(|()| {
            let mut replica = master.client();
            replica.expect("REPLCONF capa eof capa psync2", "+OK\r\n");
            replica.send(b"*3\r\n$5\r\nPSYNC\r\n$1\r\n?\r\n$2\r\n-1\r\n");
            replica
        });
        for _ in 0..8 {
            std::thread::sleep(Duration::from_millis(500));
            loading.send(b"\n");
        }
        master.wait_for_log("it has said nothing for repl-timeout after its snapshot");
        assert!(stuck.until_closed().starts_with(b"+FULLRESYNC"));
        loading.send(&request(&["REPLCONF", "ACK", "0"]));
        wait_until("it is online", || {
            let info = field(&mut master.client(), "replication", "slave0");
            info.is_some_and(|line| line.contains("state=online"))
        });
        assert_eq!(master.info_number("connected_slaves"), 1);
    });
}

/// One that takes long for a snapshot which it wants to have whole before it is sent: it has nothing to say meanwhile.
#[test]
fn a_replica_of_the_old_kind_that_was_sent_a_snapshot_for_longer_than_the_timeout_stays() {
    on_every_engine_at_once(|setup| {
        let master = Server::start(setup, &[&AT_ONCE[..], &LARGE[..], &["--repl-timeout", "2"]].concat());
        fill(&master);
        let mut replica = master.client();
        replica.send(b"*3\r\n$5\r\nPSYNC\r\n$1\r\n?\r\n$2\r\n-1\r\n");
        let is_online = || {
            let info = field(&mut master.client(), "replication", "slave0");
            info.is_some_and(|line| line.contains("state=online"))
        };
        // It takes some of it often enough, and of what is sent the sockets keep a part.
        let (begin, mut piece) = (Instant::now(), vec![0; 1 << 19]);
        while !is_online() {
            assert!(begin.elapsed() < Duration::from_secs(60), "{}", master.log());
            std::thread::sleep(Duration::from_millis(400));
            replica.stream().read_exact(&mut piece).unwrap();
        }
        assert!(begin.elapsed() > Duration::from_secs(3), "it took the snapshot in less than the timeout");
        // It is not silent for too long yet.
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(master.info_number("connected_slaves"), 1);
    });
}

#[test]
fn a_server_that_ends_in_order_lets_its_replicas_catch_up() {
    for setup in EVERY_ENGINE {
        let pair = Pair::start(setup, &["--appendonly", "no"]);
        let mut client = pair.master.client();
        pair.proxy.stall();
        let value = "x".repeat(10_000);
        (0..300).for_each(|number| _ = client.call(&["SET", &format!("key{number}"), &value]));
        let digest = client.value(&["DEBUG", "DIGEST"]).text();
        client.send(b"SHUTDOWN\r\n");
        std::thread::sleep(Duration::from_millis(200));
        pair.proxy.resume();
        let mut replica = pair.replica.client();
        pair.master.wait_for_log("bye bye");
        assert_eq!(replica.value(&["DEBUG", "DIGEST"]).text(), digest);
    }
}

#[test]
fn a_server_that_waits_for_its_replicas_serves_reads_until_its_end_is_aborted() {
    for setup in EVERY_ENGINE {
        let mut pair = Pair::start(setup, &["--appendonly", "no", "--shutdown-timeout", "300"]);
        let mut client = pair.master.client();
        client.expect("SET key value", "+OK\r\n");
        pair.wait_for_same_data();
        pair.proxy.stall();
        client.expect("SET key other", "+OK\r\n");
        let (mut first, mut second, mut writer) = (pair.master.client(), pair.master.client(), pair.master.client());
        first.send(b"SHUTDOWN\r\n");
        second.send(b"SHUTDOWN NOSAVE\r\n");
        wait_until("both wait", || {
            let left = field(&mut client, "server", "shutdown_in_milliseconds");
            let has_time_left = left.is_some_and(|left| left.parse::<u64>().unwrap() > 0);
            has_time_left && pair.master.info_number("blocked_clients") == 2
        });
        client.expect("GET key", "$5\r\nother\r\n");
        writer.send(b"SET key third\r\n");
        std::thread::sleep(Duration::from_millis(100));
        client.expect("GET key", "$5\r\nother\r\n");
        client.expect("SHUTDOWN ABORT", "+OK\r\n");
        assert_eq!(writer.value_of_next().text(), "OK");
        for mut client in [first, second] {
            assert_eq!(client.value_of_next().text(), "ERR Errors trying to SHUTDOWN. Check logs.");
        }
        client.expect("SHUTDOWN ABORT", "-ERR No shutdown in progress.\r\n");
        assert_eq!(field(&mut client, "server", "shutdown_in_milliseconds"), None);
        pair.proxy.resume();
        pair.wait_for_same_data();
        // A server that must end now waits for no replica.
        pair.proxy.stall();
        client.expect("SET key last", "+OK\r\n");
        client.send(b"SHUTDOWN NOW\r\n");
        wait_until("the end", || !pair.master.is_running());
    }
}

#[test]
fn a_signal_waits_for_replicas_unless_it_is_said_to_end_the_server_now() {
    for (setup, options) in EVERY_ENGINE.into_iter().flat_map(|setup| [(setup, "default"), (setup, "nosave now")]) {
        let flags = ["--appendonly", "no", "--shutdown-timeout", "300", "--shutdown-on-sigterm", options];
        let mut pair = Pair::start(setup, &flags);
        let mut client = pair.master.client();
        pair.wait_for_same_data();
        pair.proxy.stall();
        client.expect("SET key value", "+OK\r\n");
        pair.master.signal("TERM");
        if options == "default" {
            wait_until("it waits", || field(&mut client, "server", "shutdown_in_milliseconds").is_some());
            pair.proxy.resume();
        }
        wait_until("the end", || !pair.master.is_running());
    }
}

#[test]
fn a_server_that_has_waited_long_enough_ends_without_its_replicas() {
    for setup in EVERY_ENGINE {
        let mut pair = Pair::start(setup, &["--appendonly", "no", "--shutdown-timeout", "1"]);
        let mut client = pair.master.client();
        // The replica is up before its master has its first acknowledgement.
        pair.master.wait_for_log("Synchronization with replica");
        pair.proxy.stall();
        client.expect("SET key value", "+OK\r\n");
        client.send(b"SHUTDOWN\r\n");
        pair.master.wait_for_log("0 of 1 replicas are in sync when shutting down");
        wait_until("the end", || !pair.master.is_running());
    }
}

#[test]
fn replication_is_refused_in_words_where_parts_of_a_command_take_effect_one_by_one() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let server = Server::start(setup, &["--multi-key", "relaxed"]);
        let wanted = "-NOMASTERLINK Replication needs `--multi-key atomic`\r\n";
        server.client().expect("PSYNC ? -1", wanted);
        server.client().expect("SYNC", wanted);
    }
}

#[test]
fn a_backlog_has_at_least_16_kb_as_that_of_redis() {
    on_every_engine(|server| {
        let mut client = server.client();
        for (set, shown) in [("100", 16_384), ("16384", 16_384), ("20000", 20_000)] {
            assert_eq!(client.call(&["CONFIG", "SET", "repl-backlog-size", set]), b"+OK\r\n");
            assert_eq!(server.info_number("repl_backlog_size"), shown);
        }
    });
}

#[test]
fn both_sides_count_what_the_master_says_to_show_that_it_is_there() {
    for setup in EVERY_ENGINE {
        let pair = Pair::start(setup, &["--repl-ping-replica-period", "1", "--appendonly", "no"]);
        let mut client = pair.master.client();
        client.expect("SET key value", "+OK\r\n");
        pair.wait_for_same_data();
        let offset =
            |client: &mut Client, name: &str| field(client, "replication", name).unwrap().parse::<u64>().unwrap();
        let before = offset(&mut client, "master_repl_offset");
        wait_until("two of them", || offset(&mut client, "master_repl_offset") >= before + 2 * 14);
        client.expect("CLIENT KILL TYPE replica", ":1\r\n");
        wait_until("another link", || pair.master.info_number("sync_partial_ok") == 1);
        client.expect("SET key other", "+OK\r\n");
        client.expect("WAIT 1 0", ":1\r\n");
        pair.wait_for_same_data();
        let mut replica = pair.replica.client();
        wait_until("the same offset", || {
            offset(&mut replica, "slave_repl_offset") == offset(&mut client, "master_repl_offset")
        });
        assert_eq!(pair.master.info_number("sync_full"), 1);
    }
}

#[test]
fn a_connection_that_becomes_a_replica_takes_no_messages_any_more() {
    on_every_engine(|server| {
        let mut replica = Client::connect_resp3(server.address());
        replica.send(b"SUBSCRIBE c\r\n");
        let mut other = server.client();
        wait_until("it listens", || other.value(&["PUBLISH", "c", "m"]) == Value::Integer(1));
        replica.send(b"PSYNC ? -1\r\n");
        wait_until("it does not", || other.value(&["PUBLISH", "c", "m"]) == Value::Integer(0));
    });
}

#[test]
fn a_psync_whose_offset_is_no_number_is_an_error_with_a_line_in_the_log() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &[]);
        let mut client = server.client();
        client.expect("PSYNC replicationid offset_str", "-ERR value is not an integer or out of range\r\n");
        server.wait_for_log("asks for synchronization but with a wrong offset");
        client.expect("PING", "+PONG\r\n");
    }
}

#[test]
fn a_replica_without_a_link_has_no_offset_in_role() {
    let role = |mut client: Client| {
        client.expect("REPLICAOF 127.0.0.1 1", "+OK\r\n");
        client.value(&["ROLE"]).elements()[4].integer()
    };
    assert_eq!(role(RedisOracle::start().client()), -1);
    on_every_engine(|server| {
        assert_eq!(role(server.client()), -1);
        server.client().expect("REPLICAOF NO ONE", "+OK\r\n");
    });
}
