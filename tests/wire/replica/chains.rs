//! Replicas of replicas, and their fate when one is promoted.

use super::load::Load;
use super::{ENGINES, MASTER, assert_same, follow, info, master, replica_of, wait_for_sync};
use harness::{EVERY_ENGINE, Proxy, RedisOracle, Server, request, seed, wait_until};
use std::time::{Duration, Instant};

const FLAGS: [&str; 2] = ["--repl-diskless-sync-delay", "0"];

/// A real redis-server that follows a master.
fn redis_of(master: std::net::SocketAddr) -> RedisOracle {
    let redis = RedisOracle::start_with(&[&MASTER[..], &["--propagation-error-behavior", "panic"]].concat());
    follow(&mut redis.client(), master);
    redis
}

#[test]
fn a_promotion_does_not_wait_for_a_replica_that_reads_nothing_of_its_snapshot() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let top = master();
        let mut theirs = top.client();
        let middle = replica_of(top.address(), setup, &FLAGS);
        let mut between = middle.client();
        // More than sockets hold, and nothing that could be compressed.
        let mut random = fastrand::Rng::with_seed(1);
        for number in 0..64 {
            let value: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(1 << 20).collect();
            theirs.call(&[b"SET", format!("key:{number}").as_bytes(), &value]);
        }
        wait_for_sync(&mut theirs, &mut between);
        let mut stuck = middle.client();
        stuck.expect("REPLCONF capa eof", "+OK\r\n");
        stuck.send(b"PSYNC ? -1\r\n");
        wait_until("it is a replica", || info(&mut between)["connected_slaves"] == "1");
        std::thread::sleep(Duration::from_secs(1));
        between.expect("REPLICAOF NO ONE", "+OK\r\n");
        let begun = Instant::now();
        between.expect("SET k v", "+OK\r\n");
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }
}

#[test]
fn a_master_that_follows_another_for_a_moment_keeps_no_change_from_its_replicas() {
    for setup in EVERY_ENGINE.into_iter().filter(|setup| setup.threads > 1) {
        println!("on {setup:?}");
        let top = Server::start(setup, &MASTER);
        let (mut theirs, mut busy) = (top.client(), top.client());
        let replica = replica_of(top.address(), setup, &[]);
        let mut ours = replica.client();
        theirs.expect("SET counter 0", "+OK\r\n");
        wait_for_sync(&mut theirs, &mut ours);
        // It has all keys, and so the feed of changes cannot end meanwhile.
        busy.send(&request(&["EVAL", "redis.call('get', 'counter') for n = 1, 150000000 do end", "0"]));
        std::thread::sleep(Duration::from_millis(50));
        theirs.expect("REPLICAOF 127.0.0.1 1", "+OK\r\n");
        std::thread::sleep(Duration::from_millis(150));
        theirs.expect("REPLICAOF NO ONE", "+OK\r\n");
        for _ in 0..300 {
            theirs.value(&["INCR", "counter"]);
            std::thread::sleep(Duration::from_millis(2));
        }
        wait_for_sync(&mut theirs, &mut ours);
        assert_eq!(theirs.value(&["GET", "counter"]), ours.value(&["GET", "counter"]));
    }
}

#[test]
fn a_replica_is_told_the_name_of_the_stream_that_its_place_is_in_though_the_data_is_replaced_before_it_takes_replies() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let masters = [Server::start(setup, &MASTER), Server::start(setup, &MASTER)];
        let mut clients = masters.each_ref().map(|master| master.client());
        clients[0].value(&["SET", "key", &"x".repeat(256 << 10)]);
        let middle = replica_of(masters[0].address(), setup, &FLAGS);
        let mut between = middle.client();
        wait_for_sync(&mut clients[0], &mut between);
        let id = info(&mut between)["master_replid"].clone();
        let next = info(&mut between)["slave_repl_offset"].parse::<u64>().unwrap() + 1;
        let mut slow = middle.client();
        slow.expect("REPLCONF capa psync2", "+OK\r\n");
        slow.expect("CLIENT SETNAME slow", "+OK\r\n");
        // It takes no replies, so that the answer to its last request waits when that is executed.
        let mut count = 0;
        wait_until("a reply waits", || {
            slow.send(&request(&["GET", "key"]));
            count += 1;
            std::thread::sleep(Duration::from_millis(30));
            let list = between.value(&["CLIENT", "LIST"]).text();
            list.lines().any(|line| line.contains("name=slow ") && !line.contains(" omem=0 "))
        });
        slow.send(&request(&["PSYNC", &id, &next.to_string()]));
        wait_until("it is executed", || {
            between.value(&["INFO", "commandstats"]).text().contains("cmdstat_psync:calls=1")
        });
        follow(&mut between, masters[1].address());
        wait_for_sync(&mut clients[1], &mut between);
        assert!(slow.values(count).iter().all(|value| value.bytes().len() == 256 << 10));
        assert_eq!(slow.reply(), format!("+CONTINUE {id}\r\n").into_bytes());
    }
}

#[test]
fn replicas_of_a_replica_get_the_stream_of_its_master_unchanged() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let top = master();
        let mut theirs = top.client();
        let mut load = Load::new(seed());
        load.send(&mut theirs, 500);
        let middle = replica_of(top.address(), setup, &FLAGS);
        let mut between = middle.client();
        wait_for_sync(&mut theirs, &mut between);
        // One begins while the stream has a database selected, and does not select it again.
        theirs.expect("SELECT 3", "+OK\r\n");
        theirs.expect("SET selected yes", "+OK\r\n");
        theirs.value(&[
            "FUNCTION",
            "LOAD",
            "#!lua name=early\nredis.register_function('early', function() return 1 end)",
        ]);
        let real = redis_of(middle.address());
        let ours = replica_of(middle.address(), setup, &["--appendonly", "no"]);
        let (mut real_end, mut our_end) = (real.client(), ours.client());
        wait_until("both are linked", || {
            [&mut real_end, &mut our_end].into_iter().all(|client| info(client)["master_link_status"] == "up")
        });
        theirs.expect("SET selected still", "+OK\r\n");
        theirs.value(&[
            "FUNCTION",
            "LOAD",
            "#!lua name=late\nredis.register_function('late', function() return 1 end)",
        ]);
        for _ in 0..3 {
            load.send(&mut theirs, 1_000);
            for end in [&mut between, &mut real_end, &mut our_end] {
                assert_same(&mut theirs, end);
            }
        }
        let id = info(&mut theirs)["master_replid"].clone();
        for end in [&mut between, &mut real_end, &mut our_end] {
            let fields = info(end);
            assert_eq!((&fields["master_replid"], &fields["role"]), (&id, &"slave".to_owned()));
            for library in ["early", "late"] {
                let listed = end.value(&["FUNCTION", "LIST", "LIBRARYNAME", library]);
                assert_eq!(listed.elements().len(), 1, "{library}");
            }
        }
        for server in [&middle, &ours] {
            assert!(!server.log().contains("REPLICATION HAS ENDED"), "{}", server.log());
        }
    }
}

#[test]
fn a_promoted_replica_goes_on_with_the_stream_for_those_who_followed_it_too() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let top = master();
        let mut theirs = top.client();
        let mut load = Load::new(seed());
        let next = replica_of(top.address(), setup, &FLAGS);
        let mut promoted = next.client();
        wait_for_sync(&mut theirs, &mut promoted);
        let below = replica_of(next.address(), setup, &FLAGS);
        let mut below_end = below.client();
        let real = redis_of(top.address());
        let mut real_end = real.client();
        load.send(&mut theirs, 1_000);
        for end in [&mut promoted, &mut real_end, &mut below_end] {
            assert_same(&mut theirs, end);
        }
        let id = info(&mut theirs)["master_replid"].clone();
        drop(top);
        promoted.expect("REPLICAOF NO ONE", "+OK\r\n");
        // Nothing written after the reply is missing.
        promoted.expect("SET first write", "+OK\r\n");
        follow(&mut real_end, next.address());
        load.send(&mut promoted, 1_000);
        for end in [&mut real_end, &mut below_end] {
            assert_same(&mut promoted, end);
        }
        let fields = info(&mut promoted);
        assert_eq!(fields["master_replid2"], id);
        assert_ne!(fields["master_replid"], id);
        // The lower one needed one full sync; afterwards there were no others.
        assert_eq!(fields["sync_full"], "1", "{}", next.log());
        assert_eq!(fields["sync_partial_ok"], "2", "{}", next.log());
    }
}

#[test]
fn a_master_that_becomes_a_replica_takes_over_what_its_master_has_and_so_do_its_own() {
    for setup in ENGINES {
        println!("on {setup:?}");
        let ours = Server::start(setup, &[&super::REPLICA[..], &FLAGS].concat());
        let mut client = ours.client();
        client.expect("SET own data", "+OK\r\n");
        let below = redis_of(ours.address());
        let mut below_end = below.client();
        wait_for_sync(&mut ours.client(), &mut below_end);
        let top = master();
        let mut theirs = top.client();
        let mut load = Load::new(seed());
        load.send(&mut theirs, 1_000);
        follow(&mut client, top.address());
        assert_same(&mut theirs, &mut client);
        load.send(&mut theirs, 1_000);
        assert_same(&mut theirs, &mut client);
        assert_same(&mut theirs, &mut below_end);
    }
}

#[test]
fn servers_that_follow_each_other_or_themselves_serve_what_they_have_until_one_is_master() {
    for setup in ENGINES {
        let one = Server::start(setup, &[&super::REPLICA[..], &FLAGS].concat());
        let other = Server::start(setup, &[&super::REPLICA[..], &FLAGS].concat());
        let (mut first, mut second) = (one.client(), other.client());
        first.expect("SET of first", "+OK\r\n");
        second.expect("SET of second", "+OK\r\n");
        follow(&mut first, other.address());
        follow(&mut second, one.address());
        one.wait_for_log("it has nothing to give just now");
        other.wait_for_log("it has nothing to give just now");
        assert_eq!(info(&mut first)["master_link_status"], "down");
        // The first one may have received some of it.
        let data = first.value(&["GET", "of"]);
        first.expect("REPLICAOF NO ONE", "+OK\r\n");
        assert_same(&mut first, &mut second);
        assert_eq!(second.value(&["GET", "of"]), data);
        // Of itself.
        follow(&mut first, one.address());
        std::thread::sleep(std::time::Duration::from_millis(1500));
        assert_eq!(info(&mut first)["master_link_status"], "down");
        assert_eq!(first.value(&["GET", "of"]), data);
    }
}

#[test]
fn a_master_whose_stream_has_another_name_is_taken_over_anew() {
    for setup in ENGINES {
        let top = master();
        let proxy = Proxy::to(top.address());
        let server = replica_of(proxy.address(), setup, &["--appendonly", "no"]);
        let (mut theirs, mut ours) = (top.client(), server.client());
        theirs.expect("SET key value", "+OK\r\n");
        assert_same(&mut theirs, &mut ours);
        // The same data in a stream of another name, and none of the old one.
        theirs.value(&["DEBUG", "CHANGE-REPL-ID"]);
        proxy.cut();
        theirs.expect("SET key other", "+OK\r\n");
        assert_same(&mut theirs, &mut ours);
        assert_eq!(info(&mut theirs)["sync_full"], "2");
        ours.expect("GET key", "$5\r\nother\r\n");
    }
}
