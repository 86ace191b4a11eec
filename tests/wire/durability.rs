//! Durability: acknowledged writes survive kill -9, whichever engine comes next; damaged logs are refused.

use harness::{Client, Data, EVERY_ENGINE, Server, Setup, Value, request, wait_until};
use shardrace::internals::aof::{Manifest, SystemDisk};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const MUTEX: Setup = EVERY_ENGINE[0];
/// Bytes of a segment before its first record.
const HEADER_LEN: usize = 16;

fn text(value: &str) -> Value {
    Value::Bulk(value.as_bytes().to_vec())
}

/// Writes from several connections until the server is killed; returns each key's last acknowledged number.
fn write_until_killed(server: Server) -> (Data, BTreeMap<String, u64>) {
    const WRITERS: usize = 4;
    let acknowledged = Mutex::new(BTreeMap::new());
    let is_over = AtomicBool::new(false);
    let (address, data) = std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (acknowledged, is_over, address) = (&acknowledged, &is_over, server.address());
            scope.spawn(move || write_numbers(address, writer, acknowledged, is_over));
        }
        harness::wait_until("writes are acknowledged", || acknowledged.lock().unwrap().len() >= 200);
        std::thread::sleep(Duration::from_millis(100));
        let address = server.address();
        let data = server.kill();
        is_over.store(true, Ordering::SeqCst);
        (address, data)
    });
    println!("killed {address}");
    (data, acknowledged.into_inner().unwrap())
}

fn write_numbers(
    address: std::net::SocketAddr,
    writer: usize,
    acknowledged: &Mutex<BTreeMap<String, u64>>,
    is_over: &AtomicBool,
) {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    for number in 1.. {
        let key = format!("writer:{writer}:key:{}", number % 100);
        let mut reply = [0; 5];
        let sent = stream.write_all(&request(&["SET", &key, &number.to_string()]));
        if sent.and_then(|()| stream.read_exact(&mut reply)).is_err() {
            // Only the kill may end a connection.
            harness::wait_until("the server was killed", || is_over.load(Ordering::SeqCst));
            return;
        }
        assert_eq!(&reply, b"+OK\r\n");
        acknowledged.lock().unwrap().insert(key, number);
    }
}

/// Each record of it empties the whole database when it is replayed, with keys that were set since the one before.
#[test]
fn flushdb_is_one_record_of_a_segment_whatever_parts_it_runs_in() {
    for setup in EVERY_ENGINE {
        for multi_key in ["atomic", "relaxed"] {
            let data = Data::new();
            let server = data.start(setup, &["--multi-key", multi_key]);
            let mut client = server.client();
            (0..200).for_each(|key| client.expect(&format!("SET key:{key} v"), "+OK\r\n"));
            client.expect("FLUSHDB", "+OK\r\n");
            server.kill();
            for segment in data.segments() {
                let bytes = std::fs::read(&segment).unwrap();
                let count = bytes.windows(7).filter(|word| word == b"FLUSHDB").count();
                assert_eq!(count, 1, "{setup:?}, {multi_key}: {}", segment.display());
            }
        }
    }
}

#[test]
fn every_acknowledged_write_survives_kill_9() {
    for policy in ["everysec", "always", "no"] {
        for setup in EVERY_ENGINE {
            println!("on {setup:?}, appendfsync {policy}");
            let flags = ["--appendfsync", policy];
            let (data, acknowledged) = write_until_killed(Server::start(setup, &flags));
            let server = data.start(setup, &flags);
            let keys: Vec<&str> = acknowledged.keys().map(String::as_str).collect();
            let values = server.client().value(&[&["MGET"], keys.as_slice()].concat());
            for ((key, number), value) in acknowledged.iter().zip(values.elements()) {
                let found: u64 = value.text().parse().unwrap();
                // A write whose reply the kill cut off may exist, too: it is the next of its key.
                assert!(found == *number || found == number + 100, "{key}: {found}, acknowledged {number}");
            }
        }
    }
}

/// Keys on all shards of every setup.
const SPREAD: usize = 40;

fn spread_keys() -> Vec<String> {
    (0..SPREAD).map(|key| format!("key:{key}")).collect()
}

/// A transaction that sets all spread keys to one value, and moves the element of a list to the next one.
fn spread_transaction(number: u64) -> Vec<Vec<String>> {
    let words = |line: String| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let sets = spread_keys().into_iter().map(|key| words(format!("SET {key} {number}")));
    let (from, to) = ((number + 4) % 5, number % 5);
    let moved = words(format!("LMOVE list:{from} list:{to} LEFT RIGHT"));
    [words("MULTI".into())].into_iter().chain(sets).chain([moved, words("EXEC".into())]).collect()
}

/// The number of the last of these transactions: none of them is there in part.
fn last_whole(client: &mut Client, what: &str) -> u64 {
    let values = client.value(&[&["MGET".to_owned()], spread_keys().as_slice()].concat());
    let numbers: Vec<u64> = values.elements().iter().map(|value| value.text().parse().unwrap()).collect();
    assert!(numbers.iter().all(|number| *number == numbers[0]), "{what}: a part of a transaction: {numbers:?}");
    let lengths: Vec<i64> = (0..5).map(|list| client.value(&["LLEN", &format!("list:{list}")]).integer()).collect();
    let wanted: Vec<i64> = (0..5).map(|list| i64::from(list == numbers[0] % 5)).collect();
    assert_eq!(lengths, wanted, "{what}: transaction {}", numbers[0]);
    numbers[0]
}

#[test]
fn a_transaction_over_many_shards_survives_kill_9_whole_or_not_at_all() {
    for policy in ["everysec", "always", "no"] {
        for setup in EVERY_ENGINE {
            let what = format!("{setup:?}, appendfsync {policy}");
            let flags = ["--appendfsync", policy];
            let server = Server::start(setup, &flags);
            server.client().expect("RPUSH list:4 element", ":1\r\n");
            let (data, acknowledged) = transact_until_killed(server);
            let found = last_whole(&mut data.start(setup, &flags).client(), &what);
            // The kill may have cut off the reply to one more.
            assert!((acknowledged..=acknowledged + 1).contains(&found), "{what}: {found}, acknowledged {acknowledged}");
            // And it stays so.
            assert_eq!(last_whole(&mut data.start(setup, &flags).client(), &what), found);
        }
    }
}

/// Runs transactions, one after another, until the server is killed; returns the number of the last acknowledged one.
fn transact_until_killed(server: Server) -> (Data, u64) {
    use std::sync::atomic::AtomicU64;
    let acknowledged = AtomicU64::new(0);
    let data = std::thread::scope(|scope| {
        let (acknowledged, address) = (&acknowledged, server.address());
        scope.spawn(move || {
            let mut client = Client::connect(address);
            for number in 0.. {
                let requests = spread_transaction(number);
                client.send_if_open(&requests.iter().flat_map(|words| request(words)).collect::<Vec<_>>());
                if client.values_if_open(requests.len()).is_none() {
                    return;
                }
                acknowledged.store(number, Ordering::SeqCst);
            }
        });
        harness::wait_until("transactions are acknowledged", || acknowledged.load(Ordering::SeqCst) >= 20);
        server.kill()
    });
    (data, acknowledged.into_inner())
}

/// A log whose last record in every segment is one transaction, number 2, and how long the segments were before it.
fn last_record_is_a_transaction(setup: Setup) -> (Data, Vec<(std::path::PathBuf, usize)>) {
    let server = Server::start(setup, &[]);
    let mut client = server.client();
    client.expect("RPUSH list:4 element", ":1\r\n");
    for number in 0..2 {
        client.pipeline(&spread_transaction(number));
    }
    let segments = synced_segments(&server);
    let before: Vec<_> = segments.iter().map(|path| std::fs::metadata(path).unwrap().len() as usize).collect();
    client.pipeline(&spread_transaction(2));
    assert_eq!(segments.len(), if setup.engine == "actor" { setup.shards } else { 1 }, "the keys are on all shards");
    let names = segments.iter().map(|path| path.file_name().unwrap().into());
    (server.kill().settled(), names.zip(before).collect())
}

/// The segments of a running server, with everything written so far.
fn synced_segments(server: &Server) -> Vec<std::path::PathBuf> {
    harness::wait_until("all is in the files", || server.info_number("aof_unsynced_length") == 0);
    server.data().segments()
}

fn in_log_of(data: &Data, name: &std::path::Path) -> std::path::PathBuf {
    data.path().join("appendonlydir").join(name)
}

fn cut(data: &Data, name: &std::path::Path, len: usize) {
    let file = std::fs::OpenOptions::new().write(true).open(in_log_of(data, name)).unwrap();
    file.set_len(len as u64).unwrap();
}

/// Rewrites the manifest as an older server would, without the lengths on the disk: cut files are then not refused.
fn forget_lengths(data: &Data) {
    let dir = data.path().join("appendonlydir");
    let mut manifest = Manifest::read(&SystemDisk, &dir).unwrap();
    manifest.last_mut().unwrap().known.clear();
    manifest.write(&SystemDisk, &dir).unwrap();
}

const MANY_SHARDS: [Setup; 2] = [EVERY_ENGINE[3], EVERY_ENGINE[4]];

#[test]
fn a_torn_copy_of_a_transaction_is_restored_from_another_segment() {
    for setup in MANY_SHARDS {
        let (data, segments) = last_record_is_a_transaction(setup);
        for (kept, (kept_name, _)) in segments.iter().enumerate() {
            let torn = data.copy();
            // All but one, each at a different position of its copy.
            for (index, (name, before)) in segments.iter().enumerate().filter(|(index, _)| *index != kept) {
                let len = std::fs::metadata(in_log_of(&torn, name)).unwrap().len() as usize;
                assert!(*before < len, "every segment holds a copy");
                cut(&torn, name, before + (len - before - 1) * index / segments.len());
            }
            let what = format!("{setup:?}, only {kept_name:?} is whole");
            let server = torn.start(setup, &[]);
            assert_eq!(last_whole(&mut server.client(), &what), 2);
            // Later writes follow the restored records.
            server.client().pipeline(&spread_transaction(3));
            let (name, _) = &segments[(kept + 1) % segments.len()];
            let restored = std::fs::metadata(in_log_of(&torn, name)).unwrap().len();
            server.kill().settled();
            // The restored copies are in the files: the one that was left is not needed any more.
            let whole = std::fs::metadata(in_log_of(&data, name)).unwrap().len();
            assert!(restored > whole, "{what}: {restored} bytes in {name:?}, {whole} before");
            forget_lengths(&torn);
            cut(&torn, kept_name, segments[kept].1);
            assert_eq!(last_whole(&mut torn.start(setup, &[]).client(), &format!("{what}, and then torn")), 3);
        }
    }
}

#[test]
fn a_transaction_that_every_segment_has_lost_is_not_there_at_all() {
    for setup in EVERY_ENGINE {
        let (data, segments) = last_record_is_a_transaction(setup);
        for bytes in [0, 1, 30] {
            let torn = data.copy();
            segments.iter().for_each(|(name, before)| cut(&torn, name, before + bytes));
            let what = format!("{setup:?}, {bytes} bytes of it are left");
            let server = torn.start(setup, &[]);
            assert_eq!(last_whole(&mut server.client(), &what), 1);
            server.client().pipeline(&spread_transaction(2));
            assert_eq!(last_whole(&mut server.kill().start(setup, &[]).client(), &what), 2);
        }
    }
}

/// Moving a segment away loses what only it had, which is reported; what it shared with others is restored by a
/// salvage, and later writes follow that.
#[test]
fn a_segment_that_was_moved_away_is_refused_and_gets_its_transactions_back_when_it_is_salvaged() {
    for setup in MANY_SHARDS {
        let (data, segments) = last_record_is_a_transaction(setup);
        for (name, _) in &segments {
            let moved = data.copy();
            std::fs::remove_file(in_log_of(&moved, name)).unwrap();
            let what = format!("{setup:?} without {name:?}");
            let refused = moved.start_refused(setup, &[]);
            assert!(refused.stderr.contains(in_log_of(&moved, name).to_str().unwrap()), "{what}: {refused:?}");
            let mut salvage = std::process::Command::new(harness::server::binary());
            let salvage = salvage.arg("check-aof").arg(moved.path()).arg("--salvage");
            let salvaged = harness::run_to_its_end(salvage);
            assert_eq!(salvaged.status.code(), Some(0), "{what}: {salvaged:?}");
            let server = moved.start(setup, &[]);
            let mut client = server.client();
            assert_eq!(value_of_spread(&mut client), vec![text("2"); SPREAD], "{what}");
            // Each alone, without a transaction.
            spread_keys().iter().for_each(|key| client.expect(&format!("SET {key} later"), "+OK\r\n"));
            let server = server.kill().start(setup, &[]);
            assert_eq!(value_of_spread(&mut server.client()), vec![text("later"); SPREAD], "{what}");
        }
    }
}

fn value_of_spread(client: &mut Client) -> Vec<Value> {
    client.value(&[&["MGET".to_owned()], spread_keys().as_slice()].concat()).elements().to_vec()
}

/// A segment may lose more than its copy of a transaction: the records that the transaction depends on.
#[test]
fn a_transaction_that_outlives_what_came_before_it_keeps_no_server_from_starting() {
    for setup in MANY_SHARDS {
        let server = Server::start(setup, &[]);
        let mut client = server.client();
        let keys = spread_keys();
        keys.iter().for_each(|key| client.expect(&format!("SET {key} string"), "+OK\r\n"));
        let segments = synced_segments(&server);
        let before: Vec<_> = segments.iter().map(|path| std::fs::metadata(path).unwrap().len() as usize).collect();
        keys.iter().for_each(|key| client.expect(&format!("DEL {key}"), ":1\r\n"));
        let pushes = keys.iter().map(|key| vec!["RPUSH", key, "element"]);
        client.pipeline(&[vec!["MULTI"]].into_iter().chain(pushes).chain([vec!["EXEC"]]).collect::<Vec<_>>());
        keys.iter().for_each(|key| client.expect(&format!("LSET {key} 0 other"), "+OK\r\n"));
        let data = server.kill().settled();
        for (torn_path, before) in segments.iter().zip(before) {
            let torn = data.copy();
            cut(&torn, torn_path.file_name().unwrap().as_ref(), before);
            let types = |server: &Server| {
                let mut client = server.client();
                keys.iter().map(|key| client.value(&["TYPE", key]).text()).collect::<Vec<_>>()
            };
            let server = torn.start(setup, &[]);
            server.wait_for_log("changes depend on what the log has lost, and were left out");
            let found = types(&server);
            assert!(found.contains(&"list".to_owned()) && found.contains(&"string".to_owned()), "{found:?}");
            // The same is found again, with later writes.
            server.client().expect("SET later v", "+OK\r\n");
            let server = server.kill().start(setup, &[]);
            assert_eq!(types(&server), found, "{setup:?}");
            server.client().expect("GET later", "$1\r\nv\r\n");
        }
    }
}

/// Under everysec a power loss may take the last epoch of each segment, or leave it: the result is a state that
/// existed.
#[test]
fn after_a_power_loss_all_segments_end_with_the_same_epoch_and_after_a_kill_with_their_last_record() {
    for setup in MANY_SHARDS {
        let server = Server::start(setup, &[]);
        let mut client = server.client();
        let keys = spread_keys();
        keys.iter().for_each(|key| client.expect(&format!("SET {key} old"), "+OK\r\n"));
        let fsyncs = server.info_number("aof_fsyncs");
        let segments = server.info_number("aof_segments");
        harness::wait_until("an epoch ends", || server.info_number("aof_fsyncs") >= fsyncs + segments);
        // Each write has seen the one before it.
        keys.iter().for_each(|key| client.expect(&format!("SET {key} new"), "+OK\r\n"));
        let data = server.kill();
        let killed = data.copy();
        assert_eq!(value_of_spread(&mut killed.start(setup, &[]).client()), vec![text("new"); SPREAD], "a kill");
        for lost in data.segments() {
            // The power loss takes the end of one segment and nothing of the others.
            let crashed = data.copy();
            let name = lost.file_name().unwrap();
            let len = std::fs::metadata(&lost).unwrap().len() as usize;
            cut(&crashed, name.as_ref(), len - 3);
            crashed.pretend_to_reboot();
            let server = crashed.start(setup, &[]);
            let found = value_of_spread(&mut server.client());
            let last_old = found.iter().rposition(|value| *value == text("old"));
            assert!(last_old.is_some(), "{setup:?}: something was lost: {found:?}");
            let first_new = found.iter().position(|value| *value == text("new")).unwrap_or(SPREAD);
            assert!(last_old.unwrap() < first_new || first_new == SPREAD, "{setup:?}: a write without its past");
            // And it continues from there.
            server.client().expect("SET later v", "+OK\r\n");
            server.kill().start(setup, &[]).client().expect("GET later", "$1\r\nv\r\n");
        }
    }
}

/// A clean stop ends an epoch in every segment: the machine may be turned off then.
#[test]
fn nothing_is_cut_at_another_boot_after_a_clean_stop() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &[]);
        let mut client = server.client();
        spread_keys().iter().for_each(|key| client.expect(&format!("SET {key} 1"), "+OK\r\n"));
        let (_, data, _) = server.stop();
        data.pretend_to_reboot();
        assert_eq!(value_of_spread(&mut data.start(setup, &[]).client()), vec![text("1"); SPREAD], "{setup:?}");
    }
}

/// Under always no acknowledged write may be lost, whatever its epoch.
#[test]
fn nothing_acknowledged_under_always_is_cut_at_another_boot() {
    for setup in MANY_SHARDS {
        let server = Server::start(setup, &["--appendfsync", "always"]);
        let mut client = server.client();
        spread_keys().iter().for_each(|key| client.expect(&format!("SET {key} 1"), "+OK\r\n"));
        let data = server.kill();
        data.pretend_to_reboot();
        assert_eq!(value_of_spread(&mut data.start(setup, &[]).client()), vec![text("1"); SPREAD], "{setup:?}");
    }
}

/// A group is whole in the log of each of its shards.
#[test]
fn an_mset_that_one_segment_has_lost_comes_back_whole() {
    for setup in MANY_SHARDS {
        let server = Server::start(setup, &[]);
        let mut client = server.client();
        let keys = spread_keys();
        let mset = |value: &str| -> Vec<String> {
            let pairs = keys.iter().flat_map(|key| [key.clone(), value.to_owned()]);
            ["MSET".to_owned()].into_iter().chain(pairs).collect()
        };
        assert_eq!(client.value(&mset("1")), Value::Simple("OK".into()));
        let segments = synced_segments(&server);
        let before: Vec<_> = segments.iter().map(|path| std::fs::metadata(path).unwrap().len() as usize).collect();
        assert_eq!(segments.len(), setup.shards);
        assert_eq!(client.value(&mset("2")), Value::Simple("OK".into()));
        // Another write depends on it, on one shard.
        client.expect(&format!("INCR {}", keys[0]), ":3\r\n");
        let data = server.kill().settled();
        let holds_incr = |path: &std::path::Path| std::fs::read(path).unwrap().windows(4).any(|bytes| bytes == b"INCR");
        for (path, before) in segments.iter().zip(before).filter(|(path, _)| !holds_incr(path)) {
            let torn = data.copy();
            cut(&torn, path.file_name().unwrap().as_ref(), before);
            let mut wanted = vec![text("2"); SPREAD];
            wanted[0] = text("3");
            assert_eq!(value_of_spread(&mut torn.start(setup, &[]).client()), wanted, "{setup:?}");
        }
    }
}

#[test]
fn another_engine_and_another_shard_count_find_every_transaction() {
    let actor = |shards| Setup { engine: "actor", shards, threads: 2 };
    let path = [actor(7), actor(2), EVERY_ENGINE[1], actor(3), MUTEX, actor(7)];
    let data = Data::new();
    data.start(path[0], &[]).client().expect("RPUSH list:4 element", ":1\r\n");
    for (number, setup) in path.into_iter().enumerate() {
        let server = data.start(setup, &[]);
        let mut client = server.client();
        if number > 0 {
            assert_eq!(last_whole(&mut client, &format!("step {number}, {setup:?}")), number as u64 - 1);
        }
        client.pipeline(&spread_transaction(number as u64));
        server.kill();
    }
}

/// Data of every type, with and without a deadline.
fn fill(client: &mut Client) {
    for index in 0..50 {
        client.expect(&format!("SET string:{index} {index}"), "+OK\r\n");
    }
    client.expect("SET deadline v PXAT 33177117420123", "+OK\r\n");
    client.expect("SET binary \"\\x00\\xff\\r\\n\"", "+OK\r\n");
    client.expect("RPUSH list a b c", ":3\r\n");
    client.expect("LPOP list", "$1\r\na\r\n");
    client.expect("SADD set a b c", ":3\r\n");
    client.expect("EXPIREAT set 33177117420", ":1\r\n");
    client.expect("HSET hash f v g w", ":2\r\n");
    client.expect("HINCRBY hash n 7", ":7\r\n");
    client.expect("INCRBYFLOAT float 0.1", "$3\r\n0.1\r\n");
    client.expect("INCRBYFLOAT float 0.2", "$3\r\n0.3\r\n");
    client.expect("MSET {a}1 x {b}2 y {c}3 z", "+OK\r\n");
    client.expect("DEL string:0 string:1 string:2", ":3\r\n");
}

fn check_filled(client: &mut Client, what: &str) {
    let mut check =
        |arguments: &[&str], wanted: Value| assert_eq!(client.value(arguments), wanted, "{what}: {arguments:?}");
    check(&["DBSIZE"], Value::Integer(47 + 6 + 3));
    for index in 3..50 {
        check(&["GET", &format!("string:{index}")], text(&index.to_string()));
    }
    check(&["PEXPIRETIME", "deadline"], Value::Integer(33_177_117_420_123));
    check(&["GET", "binary"], Value::Bulk(b"\x00\xff\r\n".to_vec()));
    check(&["LRANGE", "list", "0", "-1"], Value::Array(vec![text("b"), text("c")]));
    check(&["SMISMEMBER", "set", "a", "b", "c"], Value::Array(vec![Value::Integer(1); 3]));
    check(&["SCARD", "set"], Value::Integer(3));
    check(&["EXPIRETIME", "set"], Value::Integer(33_177_117_420));
    check(&["HMGET", "hash", "f", "g", "n"], Value::Array(vec![text("v"), text("w"), text("7")]));
    check(&["TTL", "hash"], Value::Integer(-1));
    check(&["GET", "float"], text("0.3"));
    check(&["MGET", "{a}1", "{b}2", "{c}3"], Value::Array(vec![text("x"), text("y"), text("z")]));
}

#[test]
fn another_engine_and_another_shard_count_find_every_key() {
    let data = Data::new();
    fill(&mut data.start(MUTEX, &[]).client());
    let actor = |shards| Setup { engine: "actor", shards, threads: 2 };
    let dashmap = Setup { engine: "dashmap", shards: 4, threads: 2 };
    let path = [actor(7), actor(2), dashmap, actor(3), MUTEX, actor(16), actor(1), dashmap, actor(7)];
    for (step, setup) in path.into_iter().enumerate() {
        let server = data.start(setup, &[]);
        let mut client = server.client();
        // The writes of the step before, in another layout, are there as well.
        if step > 0 {
            let before = (step - 1).to_string();
            assert_eq!(client.value(&["GETDEL", "step"]), text(&before), "{setup:?}");
        }
        check_filled(&mut client, &format!("step {step}, {setup:?}"));
        client.call(&["SET", "step", &step.to_string()]);
        match step % 2 {
            0 => drop(server.kill()),
            _ => assert!(server.stop().0.success()),
        }
    }
}

#[test]
fn a_flush_is_in_the_log() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &[]);
        let mut client = server.client();
        fill(&mut client);
        client.expect("FLUSHALL", "+OK\r\n");
        client.expect("SET after v", "+OK\r\n");
        let server = server.kill().start(setup, &[]);
        assert_eq!(server.client().value(&["KEYS", "*"]).byte_strings(), [b"after"], "{setup:?}");
    }
}

#[test]
fn members_drawn_at_random_stay_drawn() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &[]);
        let mut client = server.client();
        client.call(&words_with_members("SADD", 0..100));
        client.call(&["SPOP", "s", "40"]);
        (0..20).for_each(|_| drop(client.call(&["SPOP", "s"])));
        let sorted = |client: &mut Client| {
            let mut members = client.value(&["SMEMBERS", "s"]).byte_strings();
            members.sort();
            members
        };
        let before = sorted(&mut client);
        assert_eq!(before.len(), 40);
        let server = server.kill().start(setup, &[]);
        assert_eq!(sorted(&mut server.client()), before, "{setup:?}");
    }
}

fn words_with_members(command: &str, members: std::ops::Range<usize>) -> Vec<String> {
    [command.to_owned(), "s".to_owned()].into_iter().chain(members.map(|member| format!("m{member}"))).collect()
}

/// A log of three records in one segment, and its length before the last one.
fn three_records(setup: Setup) -> (Data, usize) {
    let server = Server::start(setup, &[]);
    let mut client = server.client();
    client.expect("SET {k}first 1", "+OK\r\n");
    client.expect("RPUSH {k}second a b c", ":3\r\n");
    synced_segments(&server);
    let before = segment_with_records(server.data());
    let len = std::fs::metadata(&before).unwrap().len() as usize;
    client.expect("HSET {k}third field value", ":1\r\n");
    (server.kill().settled(), len)
}

fn segment_with_records(data: &Data) -> std::path::PathBuf {
    let segments = data.segments();
    assert_eq!(segments.len(), 1, "one key tag, one segment: {segments:?}");
    segments[0].clone()
}

#[test]
fn a_torn_last_record_is_dropped_and_the_rest_survives() {
    for setup in [MUTEX, EVERY_ENGINE[1], EVERY_ENGINE[3]] {
        let (data, before) = three_records(setup);
        let whole = std::fs::read(segment_with_records(&data)).unwrap();
        assert!(whole.len() > before + HEADER_LEN);
        for len in before..whole.len() {
            let torn = data.copy();
            std::fs::write(segment_with_records(&torn), &whole[..len]).unwrap();
            let server = torn.start(setup, &[]);
            let mut client = server.client();
            let what = format!("{setup:?}, {len} of {} bytes", whole.len());
            assert_eq!(client.value(&["GET", "{k}first"]), text("1"), "{what}");
            assert_eq!(client.value(&["LLEN", "{k}second"]), Value::Integer(3), "{what}");
            assert_eq!(client.value(&["EXISTS", "{k}third"]), Value::Integer(0), "{what}");
            // The next start finds what is written after the cut.
            client.expect("SET {k}fourth 4", "+OK\r\n");
            if len > before {
                assert!(server.log().contains("cut at"), "{what}: {}", server.log());
            }
            let server = server.kill().start(setup, &[]);
            assert_eq!(server.client().value(&["DBSIZE"]), Value::Integer(3), "{what}, started again");
        }
    }
}

#[test]
fn a_tail_that_the_disk_left_as_zeros_is_cut() {
    let (data, _) = three_records(MUTEX);
    let path = segment_with_records(&data);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend_from_slice(&[0; 4096]);
    std::fs::write(&path, bytes).unwrap();
    let server = data.start(MUTEX, &[]);
    assert_eq!(server.client().value(&["DBSIZE"]), Value::Integer(3));
}

#[test]
fn a_changed_byte_before_the_last_record_is_refused_by_name() {
    for setup in [MUTEX, EVERY_ENGINE[1], EVERY_ENGINE[3]] {
        let (data, before) = three_records(setup);
        let path = segment_with_records(&data);
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let whole = std::fs::read(&path).unwrap();
        for position in 0..before {
            let mut damaged = whole.clone();
            damaged[position] ^= 0x01;
            std::fs::write(&path, damaged).unwrap();
            let ended = data.start_refused(setup, &[]);
            let what = format!("{setup:?}, byte {position}: {}", ended.stderr);
            assert_eq!(ended.status.code(), Some(1), "{what}");
            assert!(ended.stderr.contains(&name), "{what}");
            assert!(ended.stderr.contains("damaged"), "{what}");
        }
        // It refused and changed nothing.
        std::fs::write(&path, whole).unwrap();
        assert_eq!(data.start(setup, &[]).client().value(&["DBSIZE"]), Value::Integer(3));
    }
}

fn manifest_of(data: &Data) -> std::path::PathBuf {
    data.log_files().into_iter().find(|path| path.extension().unwrap() == "manifest").unwrap()
}

#[test]
fn a_damaged_manifest_is_refused_by_name() {
    let (data, _) = three_records(MUTEX);
    let manifest = manifest_of(&data);
    for text in ["", "format 99\n", "format 1\nchain 1 engine mutex shards 1\n", "\u{0}\u{0}"] {
        std::fs::write(&manifest, text).unwrap();
        let ended = data.start_refused(MUTEX, &[]);
        assert_eq!(ended.status.code(), Some(1), "{text:?}: {}", ended.stderr);
        assert!(ended.stderr.contains("shardrace.manifest"), "{text:?}: {}", ended.stderr);
    }
}

#[test]
fn a_log_without_its_manifest_is_not_taken_for_none() {
    let (data, _) = three_records(MUTEX);
    let segment = segment_with_records(&data);
    let manifest = manifest_of(&data);
    let text = std::fs::read(&manifest).unwrap();
    std::fs::remove_file(&manifest).unwrap();
    let ended = data.start_refused(MUTEX, &[]);
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    for named in [segment.to_str().unwrap(), "3 records", "shardrace.manifest"] {
        assert!(ended.stderr.contains(named), "{named}: {}", ended.stderr);
    }
    std::fs::write(&manifest, text).unwrap();
    assert_eq!(data.start(MUTEX, &[]).client().value(&["DBSIZE"]), Value::Integer(3));

    // Nor if all of it is in a write buffer.
    let server = Server::start(MUTEX, &["--appendfsync", "no"]);
    server.client().expect("SET k v", "+OK\r\n");
    let data = server.kill();
    std::fs::rename(manifest_of(&data), data.path().join("manifest")).unwrap();
    let ended = data.start_refused(MUTEX, &[]);
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    std::fs::rename(data.path().join("manifest"), data.path().join("appendonlydir/shardrace.manifest")).unwrap();
    assert_eq!(data.start(MUTEX, &[]).client().value(&["DBSIZE"]), Value::Integer(1));

    // A first start that ended before it wrote the manifest has left no records.
    let data = Server::start(MUTEX, &[]).kill();
    std::fs::remove_file(manifest_of(&data)).unwrap();
    assert_eq!(data.start(MUTEX, &[]).client().value(&["DBSIZE"]), Value::Integer(0));
}

#[test]
fn always_syncs_for_replies_and_many_clients_share_one_fsync() {
    const CLIENTS: usize = 96;
    const WRITES: usize = 10;
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &["--appendfsync", "always"]);
        let before = server.info_number("aof_fsyncs");
        server.client().expect("SET k v", "+OK\r\n");
        let after_one = server.info_number("aof_fsyncs");
        assert!(after_one > before, "{setup:?}: a reply came before its fsync");
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                let server = &server;
                scope.spawn(move || {
                    let mut connection = server.client();
                    for write in 0..WRITES {
                        connection.expect(&format!("SET key:{client} {write}"), "+OK\r\n");
                    }
                });
            }
        });
        let fsyncs = server.info_number("aof_fsyncs") - after_one;
        let writes = (CLIENTS * WRITES) as u64;
        println!("{setup:?}: {fsyncs} fsyncs for {writes} writes of {CLIENTS} clients");
        // Clients that each wait for their own fsync would need one per write.
        assert!(fsyncs < writes / 2, "{setup:?}: {fsyncs} fsyncs for {writes} writes");
        assert!(fsyncs >= WRITES as u64, "{setup:?}: {fsyncs} fsyncs cannot cover {WRITES} writes in turn");
    }
}

#[test]
fn everysec_syncs_within_seconds_and_not_per_write() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &["--appendfsync", "everysec"]);
        let mut client = server.client();
        client.pipeline(
            &(0..500)
                .map(|index| vec!["SET".into(), format!("{{k}}{index}"), "v".into()])
                .collect::<Vec<Vec<String>>>(),
        );
        // If one segment ends an epoch, all do.
        let segments = server.info_number("aof_segments");
        assert!(server.info_number("aof_fsyncs") <= segments, "{setup:?}");
        harness::wait_until("the second's fsync", || server.info_number("aof_fsyncs") >= 1);
        assert!(server.info_number("aof_fsyncs") <= 3 * segments, "{setup:?}");
    }
}

#[test]
fn the_policy_changes_while_clients_wait() {
    harness::on_every_engine(|server| {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for client in 0..4 {
                let is_over = &is_over;
                scope.spawn(move || {
                    let mut connection = server.client();
                    while !is_over.load(Ordering::SeqCst) {
                        connection.expect(&format!("INCRBY n{client} 0"), ":0\r\n");
                    }
                });
            }
            let mut admin = server.client();
            for round in 0..60 {
                let policy = ["always", "everysec", "no"][round % 3];
                admin.expect(&format!("CONFIG SET appendfsync {policy}"), "+OK\r\n");
                std::thread::sleep(Duration::from_millis(5));
            }
            is_over.store(true, Ordering::SeqCst);
        });
    });
}

#[test]
fn under_always_files_are_padded_with_zeros_which_are_no_part_of_the_log() {
    for setup in [MUTEX, EVERY_ENGINE[3]] {
        let flags = ["--appendfsync", "always"];
        let len_of = |data: &Data| std::fs::metadata(segment_with_records(data)).unwrap().len();
        let server = Server::start(setup, &flags);
        let mut client = server.client();
        (0..10).for_each(|number| client.expect(&format!("SET {{k}}{number} {number}"), "+OK\r\n"));
        assert!(len_of(server.data()) > 1_000_000, "{setup:?}: no padding");
        assert!(server.info_number("aof_current_size") < 10_000, "{setup:?}: the padding counts");
        let data = server.kill();
        // check-aof reports no more than a server: nothing.
        let mut check = std::process::Command::new(harness::server::binary());
        let said = harness::run_to_its_end(check.arg("check-aof").arg(data.path()));
        assert_eq!(said.status.code(), Some(0), "{setup:?}: {said:?}");
        let server = data.start(setup, &flags);
        assert!(!server.log().contains("cut at"), "{setup:?}: {}", server.log());
        let mut client = server.client();
        assert_eq!(client.value(&["DBSIZE"]), Value::Integer(10), "{setup:?}");
        // The next start pads the file that it continues in.
        client.expect("SET {k}10 10", "+OK\r\n");
        assert!(len_of(server.data()) > 1_000_000, "{setup:?}: no padding after the start");
        // So does a different policy.
        client.expect("CONFIG SET appendfsync everysec", "+OK\r\n");
        harness::wait_until("the padding is taken away", || {
            client.expect("SET {k}10 10", "+OK\r\n");
            len_of(server.data()) < 100_000
        });
        client.expect("CONFIG SET appendfsync always", "+OK\r\n");
        client.expect("SET {k}10 10", "+OK\r\n");
        assert!(len_of(server.data()) > 1_000_000, "{setup:?}: no padding under the policy again");
        // And so does a clean stop.
        let (_, data, _) = server.stop();
        assert!(len_of(&data) < 100_000, "{setup:?}: padding after a clean stop");
        let server = data.start(setup, &flags);
        assert_eq!(server.client().value(&["DBSIZE"]), Value::Integer(11), "{setup:?}");
    }
}

#[test]
fn without_a_log_nothing_is_written() {
    let data = Data::new();
    for setup in EVERY_ENGINE {
        let server = data.start(setup, &["--appendonly", "no"]);
        server.client().expect("SET k v", "+OK\r\n");
        server.kill();
        assert_eq!(std::fs::read_dir(data.path()).unwrap().count(), 0, "{setup:?}");
    }
}

#[test]
fn an_idle_log_gives_back_the_buffers_of_a_large_command() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &["--appendonly", "yes"]);
        let mut client = server.client();
        let members: Vec<String> = (0..200_000).map(|number| number.to_string()).collect();
        let added: Vec<&str> = ["SADD", "set"].into_iter().chain(members.iter().map(String::as_str)).collect();
        assert_eq!(client.value(&added), Value::Integer(200_000), "{setup:?}");
        assert_eq!(client.value(&["UNLINK", "set"]), Value::Integer(1), "{setup:?}");
        let buffers = || server.info_number("mem_not_counted_for_evict");
        wait_until("the buffers are small", || buffers() <= 6 * 16 * 1024);
        client.expect("SET k v", "+OK\r\n");
        assert_eq!(server.kill().start(setup, &[]).client().value(&["DBSIZE"]), Value::Integer(1), "{setup:?}");
    }
}
