//! A replica of ours has the data of its master, a real redis-server, whatever happens to the link between them.

mod chains;
mod cuts;
mod deadlines;
mod failover;
mod lies;
mod load;
mod near;
mod restarts;
mod sentinel;

use crate::rdb::requests_for_every_type;
use crate::scripting::{HOLDS_ALL_KEYS, end_what_holds_all_keys, one_thread_or_more};
use harness::{
    Client, Data, EVERY_ENGINE, Proxy, RedisOracle, Server, Setup, Value, effort, run_to_its_end, seed, wait_until,
    words,
};
use load::Load;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::time::Duration;

/// Masters start to send a snapshot at once.
const MASTER: [&str; 6] =
    ["--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0", "--repl-backlog-size", "64mb"];
const REPLICA: [&str; 2] = ["--enable-debug-command", "yes"];
const READONLY: &str = "-READONLY You can't write against a read only replica.";
/// One setup of each engine.
const ENGINES: [Setup; 3] = [EVERY_ENGINE[0], EVERY_ENGINE[1], EVERY_ENGINE[4]];

fn master() -> RedisOracle {
    RedisOracle::start_with(&MASTER)
}

/// A replica of this master from its start on.
fn replica_of(master: SocketAddr, setup: Setup, flags: &[&str]) -> Server {
    let port = master.port().to_string();
    let follow = ["--replicaof", "127.0.0.1", &port];
    Server::start(setup, &[&REPLICA[..], &follow, flags].concat())
}

fn info(client: &mut Client) -> HashMap<String, String> {
    let text = client.value(&["INFO"]).text();
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn follow(replica: &mut Client, master: SocketAddr) {
    let port = master.port().to_string();
    assert_eq!(replica.value(&["REPLICAOF", "127.0.0.1", &port]).text(), "OK");
}

fn is_linked(replica: &mut Client) -> bool {
    info(replica).get("master_link_status").is_some_and(|status| status == "up")
}

/// Waits until the replica has everything that the master has.
#[track_caller]
fn wait_for_sync(master: &mut Client, replica: &mut Client) {
    wait_until("the replica has what the master has", || {
        let (theirs, ours) = (info(master), info(replica));
        let is_up = ours.get("master_link_status").is_some_and(|status| status == "up");
        is_up && theirs["master_repl_offset"] == ours["slave_repl_offset"]
    });
}

/// Waits until the log has all received data: it begins again after a snapshot.
fn wait_for_whole_log(replica: &mut Client) {
    wait_until("the log is whole", || {
        let info = info(replica);
        info["aof_rewrite_in_progress"] == "0" && info["aof_rewrite_scheduled"] == "0"
    });
}

/// Compares all data of a master and its replica. Expired keys that still exist are in neither.
#[track_caller]
fn assert_same(master: &mut Client, replica: &mut Client) {
    wait_for_sync(master, replica);
    let digest = |client: &mut Client| client.value(&["DEBUG", "DIGEST"]).text();
    // The master may remove an expired key, or propagate its removal, at any time.
    for attempt in 0..50 {
        if digest(master) == digest(replica) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10 * attempt));
        wait_for_sync(master, replica);
    }
    let differences = differences(master, replica);
    assert!(differences.is_empty(), "the data differs: {differences}");
}

/// The same for a master whose digest uses other forms of numbers.
#[track_caller]
fn assert_same_in_other_words(master: &mut Client, replica: &mut Client) {
    // Nothing is due any more, and the master has propagated that.
    std::thread::sleep(Duration::from_millis(300));
    wait_for_sync(master, replica);
    for database in 0..16 {
        for client in [&mut *master, &mut *replica] {
            client.value(&["SELECT", &database.to_string()]);
        }
        let (mut ours, mut theirs) = (keys_in_words(replica), keys_in_words(master));
        ours.retain(|key, words| theirs.get(key) != Some(words) || theirs.remove(key).is_none());
        assert_eq!(ours, theirs, "database {database}");
    }
    for client in [master, replica] {
        client.value(&["SELECT", "0"]);
    }
}

/// The keys of a database, each with its contents and deadline.
fn keys_in_words(client: &mut Client) -> BTreeMap<String, Vec<String>> {
    let keys = client.value(&["KEYS", "*"]).elements().iter().map(|key| key.bytes().to_vec()).collect::<Vec<_>>();
    keys.into_iter()
        .map(|key| {
            let words = words_of(client, &key).iter().map(|word| word.escape_ascii().to_string()).collect();
            (key.escape_ascii().to_string(), words)
        })
        .collect()
}

fn words_of(client: &mut Client, key: &[u8]) -> Vec<Vec<u8>> {
    let kind = client.value(&[b"TYPE".as_slice(), key]).text();
    let mut ask = |words: &[&str]| {
        let request: Vec<&[u8]> = words.iter().map(|word| if *word == "KEY" { key } else { word.as_bytes() }).collect();
        client.value(&request)
    };
    let bytes = |value: Value| value.elements().iter().map(|element| element.bytes().to_vec()).collect::<Vec<_>>();
    let mut words = match kind.as_str() {
        "string" => vec![ask(&["GET", "KEY"]).bytes().to_vec()],
        "list" => bytes(ask(&["LRANGE", "KEY", "0", "-1"])),
        "set" => {
            let mut members = bytes(ask(&["SMEMBERS", "KEY"]));
            members.sort();
            members
        }
        "hash" => {
            let pairs = bytes(ask(&["HGETALL", "KEY"]));
            let mut pairs: Vec<_> = pairs.chunks(2).map(|pair| pair.to_vec()).collect();
            pairs.sort();
            pairs.concat()
        }
        "zset" => {
            let mut words = bytes(ask(&["ZRANGE", "KEY", "0", "-1", "WITHSCORES"]));
            // Servers write numbers in different forms.
            words.chunks_mut(2).for_each(|pair| {
                let score = String::from_utf8_lossy(&pair[1]).parse::<f64>().expect("a score is a number");
                pair[1] = format!("{:?}", score + 0.0).into_bytes();
            });
            words
        }
        _ => vec![format!("{:?} {}", ask(&["XRANGE", "KEY", "-", "+"]), groups_of(client, key)).into_bytes()],
    };
    words.push(format!("{kind} {:?}", client.value(&[b"PEXPIRETIME".as_slice(), key])).into_bytes());
    words
}

/// The groups of a stream, with what is pending, but not their consumers: masters create some that receive nothing,
/// without propagating that. Nor how many entries they have read, which XCLAIM, the propagated form of XREADGROUP, does
/// not say.
fn groups_of(client: &mut Client, key: &[u8]) -> String {
    let stream = client.value(&[b"XINFO".as_slice(), b"STREAM", key, b"FULL", b"COUNT", b"0"]);
    let shown = |group: &Value| {
        ["name", "last-delivered-id", "pending"].map(|name| format!("{:?}", group.field(name).unwrap()))
    };
    format!("{:?}", stream.field("groups").unwrap().elements().iter().map(shown).collect::<Vec<_>>())
}

/// The keys that differ.
fn differences(master: &mut Client, replica: &mut Client) -> String {
    let mut differences = Vec::new();
    for database in 0..16 {
        let mut keys = Vec::new();
        for client in [&mut *master, &mut *replica] {
            client.value(&["SELECT", &database.to_string()]);
            keys.extend(client.value(&["KEYS", "*"]).byte_strings());
        }
        keys.sort();
        keys.dedup();
        for key in keys {
            let digests = [&mut *master, &mut *replica]
                .map(|client| client.value(&[b"DEBUG".as_slice(), b"DIGEST-VALUE", &key]).elements()[0].text());
            let kind = master.value(&[b"TYPE".as_slice(), &key]).text();
            // The digest of a stream does not have its groups. A score of -0 is 0 in a small sorted set, and each
            // server decides which sets are small.
            let is_told = digests[0] == digests[1] && kind != "stream";
            if !is_told && words_of(master, &key) != words_of(replica, &key) {
                let words = [&mut *master, &mut *replica].map(|client| {
                    words_of(client, &key).iter().map(|word| word.escape_ascii().to_string()).collect::<Vec<_>>()
                });
                differences.push(format!("{database}:{} {kind} {words:?}", key.escape_ascii()));
            }
        }
    }
    differences.join(", ")
}

#[test]
fn a_link_that_client_kill_ends_goes_on_where_it_was() {
    for setup in ENGINES {
        println!("on {setup:?}");
        let master = master();
        let (mut theirs, address) = (master.client(), master.address());
        theirs.call(&["SET", "key", "0"]);
        let replica = replica_of(address, setup, &[]);
        let mut ours = replica.client();
        wait_for_sync(&mut theirs, &mut ours);
        let kills = [
            (vec!["CLIENT", "KILL", "TYPE", "master"], ":1\r\n"),
            (vec!["CLIENT", "KILL", "TYPE", "master", "USER", "default"], ":0\r\n"),
        ];
        for (number, (words, wanted)) in kills.iter().enumerate() {
            assert_eq!(String::from_utf8_lossy(&ours.call(words)), *wanted, "{words:?}");
            theirs.call(&["INCR", "key"]);
            wait_for_sync(&mut theirs, &mut ours);
            assert_eq!(ours.value(&["GET", "key"]).text(), (number + 1).to_string());
        }
        let by_address = format!("{address}");
        assert_eq!(ours.call(&["CLIENT", "KILL", &by_address]), b"+OK\r\n");
        theirs.call(&["INCR", "key"]);
        wait_for_sync(&mut theirs, &mut ours);
        let counts = info(&mut theirs);
        let wanted = ("1".to_owned(), "2".to_owned());
        assert_eq!((counts["sync_full"].clone(), counts["sync_partial_ok"].clone()), wanted, "{counts:?}");
        ours.expect("REPLICAOF NO ONE", "+OK\r\n");
        ours.expect("CLIENT KILL TYPE master", ":0\r\n");
    }
}

#[test]
fn the_link_to_a_master_is_in_client_list_and_ends_by_its_number() {
    for setup in ENGINES {
        println!("on {setup:?}");
        let master = master();
        let mut theirs = master.client();
        let replica = replica_of(master.address(), setup, &[]);
        let mut ours = replica.client();
        wait_for_sync(&mut theirs, &mut ours);
        let mut listed = |words: &[&str]| ours.value(&[&["CLIENT", "LIST"], words].concat()).text();
        let line = listed(&["TYPE", "master"]);
        let wanted = format!(" addr={} ", master.address());
        assert!(line.contains(&wanted) && line.contains(" flags=M ") && line.lines().count() == 1, "{line}");
        let id = line.split([' ', '=']).nth(1).unwrap().to_owned();
        assert_eq!(listed(&["ID", &id]), line);
        assert!(listed(&[]).contains(" flags=M ") && !listed(&["TYPE", "normal"]).contains(" flags=M "));
        assert_eq!(ours.call(&["CLIENT", "KILL", "ID", &id]), b":1\r\n");
        wait_until("another link", || info(&mut theirs)["sync_partial_ok"] == "1");
        ours.expect("REPLICAOF NO ONE", "+OK\r\n");
        assert_eq!(ours.value(&["CLIENT", "LIST", "TYPE", "master"]).text(), "");
    }
}

#[test]
fn a_link_is_down_since_it_was_up() {
    for setup in ENGINES {
        let server = Server::start(setup, &["--replicaof", "127.0.0.1", "1"]);
        let mut ours = server.client();
        let down_s = |client: &mut Client| info(client).get("master_link_down_since_seconds").cloned();
        assert_eq!(down_s(&mut ours).as_deref(), Some("-1"));
        let master = master();
        follow(&mut ours, master.address());
        wait_for_sync(&mut master.client(), &mut ours);
        assert_eq!(down_s(&mut ours), None);
        follow(&mut ours, "127.0.0.1:1".parse().unwrap());
        wait_until("a second has passed", || down_s(&mut ours).is_some_and(|s| s.parse::<u64>().unwrap() >= 1));
        ours.expect("REPLICAOF NO ONE", "+OK\r\n");
        follow(&mut ours, "127.0.0.1:1".parse().unwrap());
        assert_eq!(down_s(&mut ours).as_deref(), Some("-1"));
    }
}

#[test]
fn a_replica_whose_clients_are_paused_reads_and_applies_what_came_afterwards() {
    for setup in ENGINES {
        println!("on {setup:?}");
        let master = master();
        let (mut theirs, address) = (master.client(), master.address());
        theirs.call(&["SET", "key", "before"]);
        let replica = replica_of(address, setup, &[]);
        let mut ours = replica.client();
        wait_for_sync(&mut theirs, &mut ours);
        for mode in ["WRITE", "ALL"] {
            // With ALL, INFO and GET would wait, too: it is looked at afterwards.
            let time = if mode == "WRITE" { "100000" } else { "500" };
            assert_eq!(ours.call(&["CLIENT", "PAUSE", time, mode]), b"+OK\r\n");
            theirs.call(&["SET", "key", mode]);
            if mode == "WRITE" {
                let end = info(&mut theirs)["master_repl_offset"].clone();
                wait_until("it is read", || info(&mut ours)["slave_read_repl_offset"] == end);
                assert_ne!(info(&mut ours)["slave_repl_offset"], end);
                assert_eq!(ours.value(&["GET", "key"]).text(), "before");
                ours.expect("CLIENT UNPAUSE", "+OK\r\n");
            }
            wait_for_sync(&mut theirs, &mut ours);
            assert_eq!(ours.value(&["GET", "key"]).text(), mode);
        }
    }
}

#[test]
fn a_replica_whose_script_does_not_end_reads_and_applies_what_came_afterwards() {
    for setup in one_thread_or_more() {
        println!("on {setup:?}");
        let master = master();
        let (mut theirs, address) = (master.client(), master.address());
        let replica = replica_of(address, setup, &[]);
        wait_for_sync(&mut theirs, &mut replica.client());
        end_what_holds_all_keys(&replica, HOLDS_ALL_KEYS, || {
            (0..100).for_each(|number| _ = theirs.call(&["SET", "key", &number.to_string()]));
        });
        wait_for_sync(&mut theirs, &mut replica.client());
        assert_eq!(replica.client().value(&["GET", "key"]).text(), "99");
    }
}

#[test]
fn a_replica_has_what_its_master_had_and_what_it_writes() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let master = master();
        let mut load = Load::new(seed());
        let mut theirs = master.client();
        load.send(&mut theirs, 2_000);
        let server = Server::start(setup, &REPLICA);
        let mut ours = server.client();
        // Its own data is gone.
        ours.expect("SET own data", "+OK\r\n");
        follow(&mut ours, master.address());
        assert_same(&mut theirs, &mut ours);
        for _ in 0..effort("ROUNDS", 3) {
            load.send(&mut theirs, 2_000);
            assert_same(&mut theirs, &mut ours);
        }
        assert!(!server.log().contains("REPLICATION HAS ENDED"), "{}", server.log());
        // And a start finds the same, once the log of the new data is whole.
        wait_for_whole_log(&mut ours);
        let data = server.kill();
        let again = data.start(setup, &REPLICA);
        let mut ours = again.client();
        let differences = differences(&mut theirs, &mut ours);
        assert!(differences.is_empty(), "the data differs: {differences}");
    }
}

#[test]
fn what_only_older_masters_accept_is_applied_and_replayed() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        // One of version 7.0, which the tests' machine has: later ones refuse an ID below that of a deleted entry.
        let master = master();
        let mut theirs = master.client();
        let version = info(&mut theirs)["redis_version"].clone();
        if !version.starts_with("7.0.") {
            println!("the master is of version {version}, which refuses it, too");
        }
        let server = replica_of(master.address(), setup, &[]);
        let mut ours = server.client();
        wait_for_sync(&mut theirs, &mut ours);
        wait_for_whole_log(&mut ours);
        for line in ["XADD s 5-0 f v", "XDEL s 5-0", "XSETID s 3-0", "XADD s 4-0 f v"] {
            theirs.call(&words(line));
        }
        assert_same(&mut theirs, &mut ours);
        let last_id = |client: &mut Client| field_of_stream(client, "s", "last-generated-id");
        let wanted = last_id(&mut theirs);
        assert_eq!(last_id(&mut ours), wanted, "{}", server.log());
        assert_eq!(info(&mut theirs)["sync_full"], "1", "{}", server.log());
        let again = server.kill().start(setup, &REPLICA);
        assert_eq!(last_id(&mut again.client()), wanted, "{}", again.log());
        if version.starts_with("7.0.") {
            assert_eq!(wanted, "4-0");
            // Its own clients' commands are checked as before.
            let refused = "-ERR The ID specified in XSETID is smaller than current max_deleted_entry_id\r\n";
            again.client().expect("XSETID s 4-0", refused);
        }
    }
}

fn field_of_stream(client: &mut Client, key: &str, field: &str) -> String {
    let reply = client.value(&["XINFO", "STREAM", key]);
    let fields = reply.elements().chunks(2).map(|pair| (pair[0].text(), &pair[1]));
    fields.into_iter().find(|(name, _)| name == field).expect("it is a field").1.text()
}

#[test]
fn what_a_full_synchronization_replaces_is_freed_on_another_thread_where_the_configuration_says_so() {
    const KEYS: u64 = 100;
    let master = master();
    for setup in ENGINES {
        for (value, expected) in [("no", 0), ("yes", KEYS)] {
            let server = Server::start(setup, &[&REPLICA[..], &["--replica-lazy-flush", value]].concat());
            let mut replica = server.client();
            for number in 0..KEYS {
                replica.expect(&format!("SET key:{number} v"), "+OK\r\n");
            }
            follow(&mut replica, master.address());
            wait_for_sync(&mut master.client(), &mut replica);
            wait_until("all is freed", || server.info_number("lazyfree_pending_objects") == 0);
            assert_eq!(server.info_number("lazyfreed_objects"), expected, "{setup:?}, {value}");
        }
    }
}

#[test]
fn a_link_that_is_cut_anywhere_is_taken_up_where_it_was() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let master = master();
        let proxy = Proxy::to(master.address());
        let server = replica_of(proxy.address(), setup, &["--appendonly", "no"]);
        let (mut theirs, mut ours) = (master.client(), server.client());
        let mut load = Load::new(seed());
        assert_same(&mut theirs, &mut ours);
        let cuts = effort("CUTS", 8);
        for _ in 0..cuts {
            let links = proxy.links();
            proxy.cut_after(load.below(20_000) as u64);
            load.send(&mut theirs, 500);
            proxy.cut();
            wait_until("the replica comes again", || proxy.links() > links && is_linked(&mut ours));
        }
        assert_same(&mut theirs, &mut ours);
        let figures = info(&mut theirs);
        assert_eq!(figures["sync_full"], "1", "nothing but the first is taken over as a whole: {}", server.log());
        assert!(figures["sync_partial_ok"].parse::<usize>().unwrap() >= cuts, "{figures:?}");
        assert!(!server.log().contains("REPLICATION HAS ENDED"), "{}", server.log());
    }
}

#[test]
fn the_master_is_told_of_nothing_that_readers_do_not_see() {
    for setup in EVERY_ENGINE {
        let master = master();
        let server = replica_of(master.address(), setup, &[]);
        let (mut theirs, mut ours) = (master.client(), server.client());
        wait_for_sync(&mut theirs, &mut ours);
        for number in 0..effort("ACKNOWLEDGED", 300) {
            let keys: Vec<String> = (0..20).map(|key| format!("key:{key}")).collect();
            let mut request = vec!["MSET".to_owned()];
            request.extend(keys.iter().flat_map(|key| [key.clone(), number.to_string()]));
            theirs.value(&request);
            assert_eq!(theirs.value(&["WAIT", "1", "5000"]), Value::Integer(1));
            let request: Vec<String> = std::iter::once("MGET".to_owned()).chain(keys).collect();
            let seen = ours.value(&request);
            assert!(seen.elements().iter().all(|value| value.text() == number.to_string()), "{number}: {seen:?}");
        }
    }
}

#[test]
fn readers_see_prefixes_of_what_the_master_did() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let master = master();
        let server = replica_of(master.address(), setup, &["--appendonly", "no"]);
        let (mut theirs, mut ours) = (master.client(), server.client());
        wait_for_sync(&mut theirs, &mut ours);
        let writes = effort("WRITES", 20_000);
        let writer = std::thread::spawn(move || {
            for start in (0..writes).step_by(100) {
                // One after another, on different shards: a client that sees a later one sees those before it.
                let requests: Vec<Vec<String>> = (start..start + 100)
                    .map(|number| vec!["SET".into(), format!("key:{}", number % 3), number.to_string()])
                    .collect();
                theirs.pipeline(&requests);
            }
        });
        let mut last = [0u64; 3];
        while !writer.is_finished() {
            let seen = ours.value(&["MGET", "key:0", "key:1", "key:2"]);
            let read = |value: &Value| if *value == Value::NullBulk { 0 } else { value.text().parse::<u64>().unwrap() };
            let seen: Vec<u64> = seen.elements().iter().map(read).collect();
            let newest = seen.iter().max().unwrap();
            assert!(seen.iter().all(|number| newest - number <= 2), "no prefix: {seen:?}");
            assert!(seen.iter().zip(last).all(|(now, before)| *now >= before), "it goes back: {seen:?} after {last:?}");
            last = [seen[0], seen[1], seen[2]];
        }
        writer.join().unwrap();
    }
}

#[test]
fn what_a_master_has_kept_in_time_is_kept_by_a_replica_that_is_late() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let master = master();
        let proxy = Proxy::to(master.address());
        let server = replica_of(proxy.address(), setup, &[]);
        let (mut theirs, mut ours) = (master.client(), server.client());
        theirs.expect("SET source v", "+OK\r\n");
        wait_for_sync(&mut theirs, &mut ours);
        proxy.stall();
        let Value::Bulk(payload) = theirs.value(&["DUMP", "source"]) else { panic!("a dump") };
        // In one write, so that the master does all of it before the time has come.
        let keys = ["later", "lasting", "counted", "read", "copied"];
        let short = keys.iter().flat_map(|key| [words(&format!("SET {key} 5")), words(&format!("PEXPIRE {key} 300"))]);
        let kept = [
            "PEXPIRE later 1000000",
            "PERSIST lasting",
            "INCR counted",
            "PERSIST counted",
            "GETEX read PX 250",
            "GETEX read PERSIST",
            "COPY copied copy",
            "PERSIST copy",
        ];
        let mut requests: Vec<Vec<Vec<u8>>> = short.chain(kept.map(words)).collect();
        requests.push(vec![b"RESTORE".to_vec(), b"restored".to_vec(), b"300".to_vec(), payload]);
        requests.push(vec![b"PERSIST".to_vec(), b"restored".to_vec()]);
        theirs.pipeline(&requests);
        std::thread::sleep(Duration::from_millis(400));
        proxy.resume();
        assert_same(&mut theirs, &mut ours);
        for (key, value) in
            [("later", "5"), ("lasting", "5"), ("counted", "6"), ("read", "5"), ("copy", "5"), ("restored", "v")]
        {
            assert_eq!(ours.value(&["GET", key]).text(), value, "{key}");
        }
        assert_eq!(info(&mut theirs)["sync_full"], "1", "{}", server.log());
    }
}

#[test]
fn a_replica_hides_what_is_due_and_removes_nothing() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let master = master();
        let proxy = Proxy::to(master.address());
        let server = replica_of(proxy.address(), setup, &["--appendonly", "no"]);
        let (mut theirs, mut ours) = (master.client(), server.client());
        for number in 0..50 {
            theirs.value(&["SET", &format!("due:{number}"), "v", "PX", "700"]);
        }
        theirs.expect("SET stays v", "+OK\r\n");
        wait_for_sync(&mut theirs, &mut ours);
        proxy.stall();
        std::thread::sleep(Duration::from_millis(1000));
        for _ in 0..3 {
            ours.expect("GET due:1", "$-1\r\n");
            ours.expect("EXISTS due:2", ":0\r\n");
            ours.expect("MGET due:3 stays", "*2\r\n$-1\r\n$1\r\nv\r\n");
            ours.expect("TTL due:4", ":-2\r\n");
            ours.expect("KEYS due:*", "*0\r\n");
            ours.expect("EVAL 'return redis.call(\"get\",\"due:5\")' 0", "$-1\r\n");
            ours.expect("DBSIZE", ":51\r\n");
            std::thread::sleep(Duration::from_millis(150));
        }
        assert_eq!(info(&mut ours)["expired_keys"], "0");
        ours.expect("DEBUG RELOAD", "+OK\r\n");
        ours.expect("DBSIZE", ":51\r\n");
        // The master's commands find such a key present.
        proxy.resume();
        wait_until("the master has removed them", || ours.value(&["DBSIZE"]) == Value::Integer(1));
        assert_same(&mut theirs, &mut ours);
        // A master decides for itself.
        theirs.value(&["SET", "due:1", "v", "PX", "300"]);
        wait_for_sync(&mut theirs, &mut ours);
        proxy.stall();
        ours.expect("REPLICAOF NO ONE", "+OK\r\n");
        wait_until("it has removed the key", || ours.value(&["DBSIZE"]) == Value::Integer(1));
        assert_eq!(info(&mut ours)["expired_keys"], "1");
    }
}

#[test]
fn clients_of_a_replica_read_and_do_not_write() {
    for setup in EVERY_ENGINE {
        let master = master();
        let server = replica_of(master.address(), setup, &[]);
        let (mut theirs, mut ours) = (master.client(), server.client());
        theirs.expect("SET key value", "+OK\r\n");
        theirs.expect("PFADD hll a b", ":1\r\n");
        wait_for_sync(&mut theirs, &mut ours);
        for line in
            ["SET key other", "DEL key", "FLUSHALL", "BLPOP list 1", "XGROUP CREATE s g 0 MKSTREAM", "EXPIRE key 1"]
        {
            ours.expect(line, &format!("{READONLY}\r\n"));
        }
        ours.expect("GET key", "$5\r\nvalue\r\n");
        ours.expect("PFCOUNT hll", ":2\r\n");
        ours.expect("PUBLISH channel message", ":0\r\n");
        ours.expect("MULTI", "+OK\r\n");
        ours.expect("SET key other", &format!("{READONLY}\r\n"));
        ours.expect("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n");
        let said = ours.value(&["EVAL", "return redis.call('set', 'key', 'other')", "0"]).text();
        assert!(said.contains("READONLY You can't write against a read only replica."), "{said}");
        let said = ours.value(&["EVAL", "#!lua\nreturn 1", "0"]).text();
        assert_eq!(format!("-{said}"), READONLY);
        // Queued while it was a master.
        ours.expect("REPLICAOF NO ONE", "+OK\r\n");
        ours.expect("MULTI", "+OK\r\n");
        ours.expect("EVAL '#!lua\nreturn 1' 0", "+QUEUED\r\n");
        follow(&mut server.client(), master.address());
        let refusal = READONLY.trim_start_matches('-');
        ours.expect("EXEC", &format!("-EXECABORT Transaction discarded because of: {refusal}\r\n"));
        wait_for_sync(&mut theirs, &mut ours);
        ours.expect("EVAL 'return redis.call(\"get\",\"key\")' 0", "$5\r\nvalue\r\n");
        assert_eq!(ours.value(&["ROLE"]).elements()[0].text(), "slave");
        // The configuration may allow it.
        ours.expect("CONFIG SET replica-read-only no", "+OK\r\n");
        ours.expect("SET own value", "+OK\r\n");
        ours.expect("CONFIG SET replica-read-only yes", "+OK\r\n");
        ours.expect("SET own other", &format!("{READONLY}\r\n"));
        ours.expect("REPLICAOF NO ONE", "+OK\r\n");
        ours.expect("SET key other", "+OK\r\n");
        assert_eq!(ours.value(&["ROLE"]).elements()[0].text(), "master");
    }
}

/// Clients that wait for a list, for a sorted set, for a stream, and for copies, each on a connection of its own.
fn begin_to_wait(connect: impl Fn() -> Client, requests: &[&str]) -> Vec<Client> {
    let waiting: Vec<Client> = requests.iter().map(|request| begun(connect(), request)).collect();
    let count = requests.len().to_string();
    let mut client = connect();
    wait_until("all wait", || info(&mut client)["blocked_clients"] == count);
    waiting
}

fn begun(mut client: Client, request: &str) -> Client {
    client.send(format!("{request}\r\n").as_bytes());
    client
}

/// What clients that wait are told when a server follows a master, and when it follows another.
fn told_when_it_follows(connect: &dyn Fn() -> Client, masters: [SocketAddr; 2]) -> Vec<String> {
    const TAKE_AND_READ: [&str; 4] =
        ["BLPOP list 0", "BZMPOP 0 1 zset MIN", "XREADGROUP GROUP g c BLOCK 0 STREAMS groups >", "WAIT 1 0"];
    const READ: [&str; 2] = ["XREAD BLOCK 0 STREAMS stream $", "XREAD BLOCK 10000000 STREAMS stream other $ $"];
    let mut client = connect();
    client.expect("XGROUP CREATE groups g $ MKSTREAM", "+OK\r\n");
    let mut waiting = begin_to_wait(connect, &[&TAKE_AND_READ[..], &READ].concat());
    follow(&mut client, masters[0]);
    let mut told: Vec<String> = waiting.iter_mut().map(|client| client.value_of_next().text()).collect();
    wait_until("it is linked", || is_linked(&mut client));
    let mut waiting = begin_to_wait(connect, &READ);
    follow(&mut client, masters[1]);
    told.extend(waiting.iter_mut().map(|client| client.value_of_next().text()));
    wait_until("it is linked", || is_linked(&mut client));
    told
}

#[test]
fn who_waits_is_told_when_the_server_follows_another_as_by_redis() {
    const TEXT: &str = "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)";
    let masters = [master(), master()];
    let addresses = [masters[0].address(), masters[1].address()];
    let real = master();
    assert_eq!(told_when_it_follows(&|| real.client(), addresses), [TEXT; 8]);
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let server = Server::start(setup, &REPLICA);
        assert_eq!(told_when_it_follows(&|| server.client(), addresses), [TEXT; 8]);
        // On a replica who only reads can wait for what the master writes.
        let mut reader = begin_to_wait(|| server.client(), &["XREAD BLOCK 0 STREAMS stream $"]).remove(0);
        let (mut theirs, mut ours) = (masters[1].client(), server.client());
        theirs.value(&["XADD", "stream", "*", "a", "b"]);
        assert!(reader.value_of_next().elements().len() == 1, "it reads the entry");
        assert_same(&mut theirs, &mut ours);
    }
}

#[test]
fn a_host_that_is_no_word_is_refused_and_a_replica_cannot_name_one() {
    for setup in ENGINES {
        let server = Server::start(setup, &MASTER);
        let mut client = server.client();
        for host in ["", " ", "a b", "a\nb", "\u{a0}", "\0a", "a\"b", "'", "a\\b"] {
            assert_eq!(client.value(&["REPLICAOF", host, "6379"]).text(), "ERR Invalid master host", "{host:?}");
            let told = client.value(&["REPLCONF", "ip-address", host]).text();
            assert_eq!(told == "OK", host.is_empty(), "{host:?}: {told}");
        }
        assert_eq!(client.value(&["ROLE"]).elements()[0].text(), "master");
        // Without its own address it is known by that of its connection.
        let replica = replica_of(server.address(), setup, &["--replica-announce-ip", "a b"]);
        let mut theirs = replica.client();
        assert_same(&mut client, &mut theirs);
        client.expect("FAILOVER", "+OK\r\n");
        wait_until("the roles are exchanged", || client.value(&["ROLE"]).elements()[0].text() == "slave");
        assert_same(&mut theirs, &mut client);
    }
}

#[test]
fn data_that_may_be_old_is_not_shown_where_the_configuration_says_so() {
    const DOWN: &str = "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n";
    for setup in ENGINES {
        let master = master();
        let proxy = Proxy::to(master.address());
        let server = replica_of(proxy.address(), setup, &["--replica-serve-stale-data", "no"]);
        let (mut theirs, mut ours) = (master.client(), server.client());
        theirs.expect("SET key value", "+OK\r\n");
        wait_for_sync(&mut theirs, &mut ours);
        ours.expect("GET key", "$5\r\nvalue\r\n");
        let scripts = ["return redis.call('get', 'key')", "#!lua flags=no-writes\nreturn 1"];
        let mut queued = scripts.map(|script| {
            let mut client = server.client();
            client.expect("MULTI", "+OK\r\n");
            assert_eq!(client.value(&["EVAL", script, "0"]).text(), "QUEUED");
            client
        });
        drop(master);
        wait_until("the link is down", || !is_linked(&mut ours));
        ours.expect("GET key", DOWN);
        ours.expect("EVAL 'return 1' 0", DOWN);
        queued[0].expect("EXEC", &format!("*1\r\n{DOWN}"));
        queued[1].expect("EXEC", &format!("-EXECABORT Transaction discarded because of: {}", &DOWN[1..]));
        ours.expect(
            "EVALSHA 0123456789012345678901234567890123456789 0",
            "-NOSCRIPT No matching script. Please use EVAL.\r\n",
        );
        ours.expect("FCALL none 0", "-ERR Function not found\r\n");
        // As Sentinel has it, whose master is down.
        for (request, reply) in [
            ("MULTI", "+OK\r\n"),
            ("CONFIG GET replica-serve-stale-data", "+QUEUED\r\n"),
            ("CLIENT NO-EVICT off", "+QUEUED\r\n"),
            ("EXEC", "*2\r\n*2\r\n$24\r\nreplica-serve-stale-data\r\n$2\r\nno\r\n+OK\r\n"),
        ] {
            ours.expect(request, reply);
        }
        let mut stale =
            |call: &str| ours.value(&["EVAL", &format!("#!lua flags=allow-stale,no-writes\nreturn {call}"), "0"]);
        assert_eq!(stale("redis.call('echo', 'shown')").text(), "shown");
        let said = stale("redis.call('get', 'key')").text();
        assert!(said.starts_with("ERR Can not execute the command on a stale replica"), "{said}");
        ours.expect("PING", DOWN);
        assert_eq!(ours.value(&["ROLE"]).elements()[0].text(), "slave");
        let down_s = info(&mut ours)["master_link_down_since_seconds"].parse::<u64>().unwrap();
        assert!(down_s < 60, "{down_s}");
        ours.expect("CONFIG SET replica-serve-stale-data yes", "+OK\r\n");
        ours.expect("GET key", "$5\r\nvalue\r\n");
    }
}

#[test]
fn a_master_that_wants_a_password_gets_it() {
    for setup in ENGINES {
        let master = master();
        let mut theirs = master.client();
        theirs.expect("CONFIG SET requirepass secret", "+OK\r\n");
        theirs.expect("ACL SETUSER replica on >other +psync +replconf +ping", "+OK\r\n");
        theirs.expect("SET key value", "+OK\r\n");
        let server = replica_of(master.address(), setup, &[]);
        let mut ours = server.client();
        server.wait_for_log("NOAUTH");
        ours.expect("CONFIG SET masterauth wrong", "+OK\r\n");
        server.wait_for_log("Unable to AUTH to MASTER");
        ours.expect("CONFIG SET masterauth secret", "+OK\r\n");
        wait_for_sync(&mut theirs, &mut ours);
        let server = replica_of(master.address(), setup, &["--masteruser", "replica", "--masterauth", "other"]);
        let mut ours = server.client();
        wait_for_sync(&mut theirs, &mut ours);
        ours.expect("GET key", "$5\r\nvalue\r\n");
    }
}

#[test]
fn whom_a_server_follows_stands_in_its_configuration() {
    let master = master();
    let port = master.address().port().to_string();
    for setup in ENGINES {
        let data = Data::new();
        let path = data.path().join("shardrace.conf");
        std::fs::write(&path, format!("# mine\nslaveof 127.0.0.1 {port}\nmasterauth x\n")).unwrap();
        let path = path.to_str().unwrap();
        let server = data.start(setup, &[path]);
        let mut ours = server.client();
        assert_eq!(ours.value(&["CONFIG", "GET", "replicaof"]).elements()[1].text(), format!("127.0.0.1 {port}"));
        ours.expect(
            "CONFIG SET replicaof x",
            "-ERR CONFIG SET failed (possibly related to argument 'replicaof') - wrong number of arguments\r\n",
        );
        ours.expect(
            "CONFIG SET replicaof 'h 1'",
            "-ERR CONFIG SET failed (possibly related to argument 'replicaof') - can't set immutable config\r\n",
        );
        ours.expect("REPLICAOF NO ONE", "+OK\r\n");
        ours.expect("CONFIG REWRITE", "+OK\r\n");
        assert_eq!(std::fs::read_to_string(path).unwrap().lines().next(), Some("# mine"));
        assert!(!std::fs::read_to_string(path).unwrap().contains("replicaof"));
        ours.expect(&format!("SLAVEOF 127.0.0.1 {port}"), "+OK\r\n");
        ours.expect(&format!("REPLICAOF 127.0.0.1 {port}"), "+OK Already connected to specified master\r\n");
        ours.expect("REPLICAOF 127.0.0.1 x", "-ERR Invalid master port\r\n");
        ours.expect("CONFIG REWRITE", "+OK\r\n");
        assert!(std::fs::read_to_string(path).unwrap().contains(&format!("\nreplicaof 127.0.0.1 {port}\n")));
        let ended = data.copy().start_refused(setup, &["--replicaof", "localhost", "x"]);
        assert!(ended.stderr.contains("Invalid master port"), "{}", ended.stderr);
    }
}

#[test]
fn a_replica_links_from_the_address_that_is_set_and_from_any_if_it_cannot() {
    for setup in ENGINES {
        // 203.0.113.1 is an address of no machine.
        for (source, seen) in [("127.0.0.2", "ip=127.0.0.2,"), ("203.0.113.1", "ip=127.0.0.1,")] {
            let master = master();
            // Redis takes 127.0.0.2 for another machine.
            master.client().expect("CONFIG SET protected-mode no", "+OK\r\n");
            let server = replica_of(master.address(), setup, &["--bind-source-addr", source]);
            let mut ours = server.client();
            wait_until("it is linked", || is_linked(&mut ours));
            let line = info(&mut master.client())["slave0"].clone();
            assert!(line.contains(seen), "{setup:?}, {source}: {line}");
        }
    }
}

#[test]
fn a_replica_counts_the_bytes_from_its_master() {
    for setup in ENGINES {
        let master = master();
        let mut theirs = master.client();
        theirs.value(&["SET", "before", &"v".repeat(1 << 20)]);
        let server = replica_of(master.address(), setup, &[]);
        let mut ours = server.client();
        wait_until("it is linked", || is_linked(&mut ours));
        theirs.value(&["SET", "after", &"v".repeat(1 << 20)]);
        wait_for_sync(&mut theirs, &mut ours);
        let received = server.info_number("total_net_repl_input_bytes");
        let sent: u64 = info(&mut theirs)["total_net_repl_output_bytes"].parse().unwrap();
        assert!(received > 1 << 20 && received.abs_diff(sent) < 1000, "{setup:?}: {received} received, {sent} sent");
        assert!(server.info_number("total_net_input_bytes") > received, "{setup:?}: requests count, too");
        assert_eq!(server.info_number("total_net_repl_output_bytes"), 0, "{setup:?}");
        ours.expect("CONFIG RESETSTAT", "+OK\r\n");
        assert!(server.info_number("total_net_repl_input_bytes") < 1000, "{setup:?}");
    }
}

#[test]
fn functions_and_messages_come_with_the_stream() {
    for setup in EVERY_ENGINE {
        let master = master();
        let mut theirs = master.client();
        let library = |number: u32| {
            format!("#!lua name=lib{number}\nredis.register_function('f{number}', function() return {number} end)")
        };
        theirs.value(&["FUNCTION", "LOAD", &library(1)]);
        let server = replica_of(master.address(), setup, &[]);
        let mut ours = server.client();
        wait_for_sync(&mut theirs, &mut ours);
        ours.expect("FCALL f1 0", &format!("{READONLY}\r\n"));
        theirs.value(&["FUNCTION", "LOAD", &library(2)]);
        let mut listener = server.client();
        listener.value(&["SUBSCRIBE", "channel"]);
        theirs.value(&["PUBLISH", "channel", "message"]);
        assert_eq!(listener.value_of_next().elements()[2].text(), "message");
        wait_for_sync(&mut theirs, &mut ours);
        theirs.value(&["FUNCTION", "DELETE", "lib1"]);
        wait_for_sync(&mut theirs, &mut ours);
        let listed = ours.value(&["FUNCTION", "LIST"]);
        assert_eq!(listed.elements().len(), 1, "{listed:?}");
        ours.expect("REPLICAOF NO ONE", "+OK\r\n");
        ours.expect("FCALL f2 0", ":2\r\n");
    }
}

/// Newer masters, if they are on this machine: the environment says where.
#[test]
fn newer_masters_are_followed() {
    for name in ["VALKEY_SERVER", "REDIS_8_SERVER"] {
        let Ok(program) = std::env::var(name) else {
            println!("NOT TRIED: {name} is not set");
            continue;
        };
        let version = run_to_its_end(std::process::Command::new(&program).arg("--version"));
        println!("{name}: {}", version.stdout.trim());
        for setup in ENGINES {
            let master = RedisOracle::start_master(&program, &MASTER);
            let proxy = Proxy::to(master.address());
            let mut theirs = master.client();
            theirs.pipeline(&requests_for_every_type());
            let server = replica_of(proxy.address(), setup, &["--appendonly", "no"]);
            let mut ours = server.client();
            assert_same_in_other_words(&mut theirs, &mut ours);
            // What came in the snapshot also comes in the stream.
            theirs.expect("FLUSHALL", "+OK\r\n");
            proxy.cut();
            theirs.pipeline(&requests_for_every_type());
            assert_same_in_other_words(&mut theirs, &mut ours);
            if name == "VALKEY_SERVER" {
                let mut load = Load::new(seed());
                for _ in 0..effort("ROUNDS", 3) {
                    load.send(&mut theirs, 2_000);
                    proxy.cut();
                    load.send(&mut theirs, 500);
                    assert_same_in_other_words(&mut theirs, &mut ours);
                }
            }
            theirs.value(&["DEL", "hash"]);
            theirs.value(&["HSET", "hash", "f", "1"]);
            theirs.value(&["HINCRBYFLOAT", "hash", "f", "0.5"]);
            wait_for_sync(&mut theirs, &mut ours);
            ours.expect("HGET hash f", "$3\r\n1.5\r\n");
            assert!(!server.log().contains("REPLICATION HAS ENDED"), "{}", server.log());
            theirs.value(&["HEXPIRE", "hash", "1000", "FIELDS", "1", "f"]);
            server.wait_for_log("REPLICATION HAS ENDED");
        }
    }
}
