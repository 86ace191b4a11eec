//! Rewrites of the log while it is written to: nothing is lost, nothing is there twice, whatever happens meanwhile.

use harness::{Client, Data, EVERY_ENGINE, Server, Setup, Value, request, wait_until};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Keys that exist before: a walk over them takes many slices.
const OLD_KEYS: usize = 20_000;
const DATABASES: usize = 4;

/// All data, by database and key: type, value, deadline. Unordered values are sorted.
fn everything(address: SocketAddr) -> BTreeMap<(usize, Vec<u8>), (String, Value, i64)> {
    let mut client = Client::connect(address);
    let mut all = BTreeMap::new();
    for database in 0..DATABASES {
        client.expect(&format!("SELECT {database}"), "+OK\r\n");
        let keys = client.value(&["KEYS", "*"]).byte_strings();
        let ask = |name: &'static [u8]| {
            keys.iter().map(|key| vec![name.to_vec(), key.clone()]).collect::<Vec<Vec<Vec<u8>>>>()
        };
        let types = client.pipeline(&ask(b"TYPE"));
        let deadlines = client.pipeline(&ask(b"PEXPIRETIME"));
        let reads = keys.iter().zip(&types).map(|(key, kind)| read_of(key, &kind.text())).collect::<Vec<_>>();
        let values = client.pipeline(&reads);
        for (((key, kind), deadline), value) in keys.into_iter().zip(types).zip(deadlines).zip(values) {
            all.insert((database, key), (kind.text(), in_order(&kind.text(), value), deadline.integer()));
        }
    }
    all
}

fn read_of(key: &[u8], kind: &str) -> Vec<Vec<u8>> {
    let words: &[&[u8]] = match kind {
        "string" => &[b"GET", key],
        "list" => &[b"LRANGE", key, b"0", b"-1"],
        "set" => &[b"SMEMBERS", key],
        "hash" => &[b"HGETALL", key],
        "zset" => &[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"],
        "stream" => &[b"XINFO", b"STREAM", key],
        other => panic!("{other:?} is no type"),
    };
    words.iter().map(|word| word.to_vec()).collect()
}

fn in_order(kind: &str, value: Value) -> Value {
    let step = match kind {
        "set" => 1,
        "hash" => 2,
        // The sizes of its tree are not part of its contents.
        "stream" => {
            return Value::Array(
                value
                    .elements()
                    .chunks(2)
                    .filter(|pair| !pair[0].text().starts_with("radix"))
                    .flatten()
                    .cloned()
                    .collect(),
            );
        }
        _ => return value,
    };
    let mut parts: Vec<Vec<Vec<u8>>> = value.byte_strings().chunks(step).map(<[_]>::to_vec).collect();
    parts.sort();
    Value::Array(parts.concat().into_iter().map(Value::Bulk).collect())
}

#[track_caller]
fn assert_same(
    found: &BTreeMap<(usize, Vec<u8>), (String, Value, i64)>,
    wanted: &BTreeMap<(usize, Vec<u8>), (String, Value, i64)>,
    what: &str,
) {
    for (name, value) in wanted {
        let key = name.1.escape_ascii();
        assert_eq!(found.get(name), Some(value), "{what}: {key} of database {}", name.0);
    }
    assert_eq!(found.len(), wanted.len(), "{what}: there is more than there was");
}

fn fill(client: &mut Client) {
    let words = |line: String| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let mut requests: Vec<Vec<String>> = (0..OLD_KEYS).map(|key| words(format!("SET old:{key} value:{key}"))).collect();
    for key in 0..200 {
        requests.push(words(format!("RPUSH list:{key} a b c d e")));
        requests.push(words(format!("HSET hash:{key} f 1 g two")));
        requests.push(words(format!("SADD set:{key} 1 2 three")));
        requests.push(words(format!("ZADD zset:{key} 1 a 2.5 b")));
        requests.push(words(format!("XADD stream:{key} 1-1 f v")));
        requests.push(words(format!("XGROUP CREATE stream:{key} g 0")));
        requests.push(words(format!("XREADGROUP GROUP g c STREAMS stream:{key} >")));
        requests.push(words(format!("SET expiring:{key} v PXAT 33177117420123")));
        requests.push(words(format!("APPEND old:{key} more")));
        requests.push(words("SELECT 2".into()));
        requests.push(words(format!("SET in:2:{key} {key}")));
        requests.push(words("SELECT 0".into()));
    }
    let replies = client.pipeline(&requests);
    assert!(!replies.iter().any(|reply| matches!(reply, Value::Error(_))), "the requests are right");
}

fn rewrite(server: &Server) {
    let before = server.info_number("aof_rewrites");
    server.client().expect("BGREWRITEAOF", "+Background append only file rewriting started\r\n");
    wait_until("the log is rewritten", || server.info_number("aof_rewrites") > before);
    assert_eq!(server.info()["aof_last_bgrewrite_status"], "ok");
}

fn bases(data: &Data) -> usize {
    data.log_files().iter().filter(|path| path.to_string_lossy().contains(".base-")).count()
}

const NEXT: [Setup; 5] = [EVERY_ENGINE[4], EVERY_ENGINE[3], EVERY_ENGINE[0], EVERY_ENGINE[1], EVERY_ENGINE[2]];

#[test]
fn a_rewritten_log_holds_every_key_once_and_every_engine_starts_with_it() {
    for (setup, next) in EVERY_ENGINE.into_iter().zip(NEXT) {
        let server = Server::start(setup, &[]);
        let mut client = server.client();
        for _ in 0..3 {
            fill(&mut client);
            client.expect("DEL list:0", ":1\r\n");
            (0..200).for_each(|key| client.expect(&format!("DEL stream:{key}"), ":1\r\n"));
        }
        fill(&mut client);
        let wanted = everything(server.address());
        let before = server.info_number("aof_current_size");
        rewrite(&server);
        let after = server.info_number("aof_current_size");
        assert!(after < before / 2, "{setup:?}: {after} bytes after, {before} before");
        assert_same(&everything(server.address()), &wanted, &format!("{setup:?}"));
        let data = server.kill();
        assert_eq!(bases(&data), if setup.engine == "actor" { setup.shards } else { 1 });
        let on_disk: u64 = data
            .log_files()
            .iter()
            .filter(|path| path.extension().unwrap() == "aof")
            .map(|path| std::fs::metadata(path).unwrap().len())
            .sum();
        // Another epoch may have ended.
        assert!((after..after + 2000).contains(&on_disk), "{setup:?}: {on_disk} bytes in the files, {after} in INFO");

        let server = data.start(setup, &[]);
        assert_same(&everything(server.address()), &wanted, &format!("{setup:?}, started again"));
        assert!(server.info_number("aof_base_size") > 0);
        drop(server.kill());
        let server = data.start(next, &[]);
        assert_same(&everything(server.address()), &wanted, &format!("{setup:?}, then {next:?}"));
        // The chains of both layouts become one.
        rewrite(&server);
        server.client().expect("SET later 1", "+OK\r\n");
        let server = server.kill().start(next, &[]);
        server.client().expect("GETDEL later", "$1\r\n1\r\n");
        assert_same(&everything(server.address()), &wanted, &format!("{setup:?}, then {next:?}, rewritten"));
        assert_eq!(bases(server.data()), if next.engine == "actor" { next.shards } else { 1 });
    }
}

/// Requests that must not run twice, nor on any other state than theirs.
fn change(random: &mut fastrand::Rng) -> Vec<String> {
    let old = random.usize(..OLD_KEYS);
    let (one, other) = (random.usize(..200), random.usize(..200));
    let line = match random.u32(..24) {
        0..4 => format!("APPEND old:{old} +"),
        4 => format!("INCR counter:{one}"),
        5 => format!("LPUSH list:{one} x"),
        6 => format!("RPOP list:{one}"),
        7 => format!("LMOVE list:{one} list:{other} LEFT RIGHT"),
        8 => format!("HINCRBY hash:{one} f 1"),
        9 => format!("ZINCRBY zset:{one} 1.5 a"),
        10 => format!("SMOVE set:{one} set:{other} 1"),
        11 => format!("SPOP set:{one}"),
        12 => format!("SUNIONSTORE set:{one} set:{other} set:{}", random.usize(..200)),
        13 => format!("RENAME old:{old} old:{}", random.usize(..OLD_KEYS)),
        14 => format!("COPY old:{old} old:{} REPLACE", random.usize(..OLD_KEYS)),
        15 => format!("DEL old:{old} list:{one}"),
        16 => format!("MSET old:{old} new counter:{one} 7"),
        17 => format!("PEXPIRE old:{old} 3000000"),
        18 => format!("XADD stream:{one} * f v"),
        19 => format!("MOVE old:{old} 1"),
        20 => format!("SET old:{old} short PX 1"),
        21 => format!("LSET list:{one} 0 set"),
        22 => format!("PERSIST expiring:{one}"),
        _ => format!("SET new:{} {old}", random.u32(..)),
    };
    line.split(' ').map(str::to_owned).collect()
}

fn change_until(address: SocketAddr, seed: u64, is_over: &AtomicBool) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut client = Client::connect(address);
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    while !is_over.load(Ordering::SeqCst) {
        let mut requests: Vec<Vec<String>> = (0..20).map(|_| change(&mut random)).collect();
        requests.push(words("MULTI"));
        requests.extend((0..4).map(|_| change(&mut random)));
        requests.push(words("EXEC"));
        if random.u32(..20) == 0 {
            requests.extend(["SELECT 3", "SET flushed 1", "INCR kept", "SWAPDB 3 2", "SELECT 0"].map(words));
        }
        if random.u32(..40) == 0 {
            requests.extend(["SELECT 1", "FLUSHDB", "SELECT 0"].map(words));
        }
        client.pipeline(&requests);
    }
}

#[test]
fn a_log_that_is_rewritten_under_load_leads_to_the_same_data() {
    let seed = harness::seed();
    for (setup, next) in EVERY_ENGINE.into_iter().zip(NEXT) {
        let what = format!("SEED={seed}, {setup:?}");
        let server = Server::start(setup, &[]);
        fill(&mut server.client());
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for writer in 0..3 {
                let (address, is_over) = (server.address(), &is_over);
                scope.spawn(move || change_until(address, seed.wrapping_add(writer), is_over));
            }
            for _ in 0..3 {
                rewrite(&server);
            }
            is_over.store(true, Ordering::SeqCst);
        });
        // Expiring keys are gone.
        std::thread::sleep(Duration::from_millis(5));
        let wanted = everything(server.address());
        let data = server.kill();
        let server = data.start(setup, &[]);
        assert_same(&everything(server.address()), &wanted, &format!("{what}, started again"));
        drop(server.kill());
        let server = data.start(next, &[]);
        assert_same(&everything(server.address()), &wanted, &format!("{what}, then {next:?}"));
    }
}

/// The replies to a writer that alone uses its keys.
#[derive(Debug, Clone, Copy, Default)]
struct Told {
    rounds: u64,
}

/// Each round is one transaction: a counter, a list, and a key that moves, all of them on different shards.
fn count_until_killed(address: SocketAddr, writer: usize, told: &Mutex<Told>, from: u64) {
    let mut client = Client::connect(address);
    for round in from + 1.. {
        let lines = [
            "MULTI".to_owned(),
            format!("INCR count:{writer}"),
            format!("RPUSH rounds:{writer} {round}"),
            format!("RENAME at:{writer}:{} at:{writer}:{round}", round - 1),
            "EXEC".to_owned(),
        ];
        let bytes: Vec<u8> = lines.iter().flat_map(|line| request(&line.split(' ').collect::<Vec<_>>())).collect();
        client.send_if_open(&bytes);
        match client.values_if_open(lines.len()) {
            Some(values) => assert!(!matches!(values[4], Value::Error(_)), "{values:?}"),
            None => return,
        }
        told.lock().unwrap().rounds = round;
    }
}

/// The complete rounds in the data.
fn rounds_of(client: &mut Client, writer: usize, what: &str) -> u64 {
    let count: u64 = client.value(&["GET", &format!("count:{writer}")]).text().parse().unwrap();
    let rounds = client.value(&["LRANGE", &format!("rounds:{writer}"), "0", "-1"]).byte_strings();
    let wanted: Vec<Vec<u8>> = (1..=count).map(|round| round.to_string().into_bytes()).collect();
    assert_eq!(rounds, wanted, "{what}: the list of writer {writer}");
    let keys = client.value(&["KEYS", &format!("at:{writer}:*")]).byte_strings();
    assert_eq!(keys, [format!("at:{writer}:{count}").into_bytes()], "{what}");
    count
}

#[test]
fn kills_while_the_log_is_rewritten_lose_nothing() {
    const WRITERS: usize = 3;
    let kills = harness::effort("REWRITE_KILLS", 4);
    let seed = harness::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut with_leftovers = 0;
    for setup in EVERY_ENGINE {
        for policy in ["everysec", "always"] {
            let data = Data::new();
            let flags = ["--appendfsync", policy];
            let server = data.start(setup, &flags);
            let mut client = server.client();
            fill(&mut client);
            for writer in 0..WRITERS {
                client.expect(&format!("SET count:{writer} 0"), "+OK\r\n");
                client.expect(&format!("SET at:{writer}:0 x"), "+OK\r\n");
            }
            drop(server.kill());
            let mut before = [0; WRITERS];
            for kill in 0..kills {
                let what = format!("SEED={seed}, {setup:?}, {policy}, kill {kill}");
                let server = data.start(setup, &flags);
                let told: [Mutex<Told>; WRITERS] = before.map(|rounds| Mutex::new(Told { rounds }));
                std::thread::scope(|scope| {
                    for (writer, told) in told.iter().enumerate() {
                        let (address, from) = (server.address(), before[writer]);
                        scope.spawn(move || count_until_killed(address, writer, told, from));
                    }
                    server.client().expect("BGREWRITEAOF", "+Background append only file rewriting started\r\n");
                    std::thread::sleep(Duration::from_micros(random.u64(..150_000)));
                    server.kill()
                });
                let manifest = std::fs::read_to_string(data.path().join("appendonlydir/shardrace.manifest")).unwrap();
                with_leftovers += usize::from(!manifest.contains(" base "));
                let server = data.start(setup, &flags);
                let mut client = server.client();
                for (writer, told) in told.iter().enumerate() {
                    let (told, found) = (told.lock().unwrap().rounds, rounds_of(&mut client, writer, &what));
                    assert!((told..=told + 1).contains(&found), "{what}: {found} rounds, acknowledged {told}");
                    before[writer] = found;
                }
                assert_eq!(client.value(&["GET", "old:19999"]), Value::Bulk(b"value:19999".to_vec()), "{what}");
                drop(server.kill());
            }
        }
    }
    println!("{with_leftovers} kills before the first base");
}

#[test]
fn a_log_that_has_grown_is_rewritten_by_itself() {
    for setup in [EVERY_ENGINE[0], EVERY_ENGINE[1], EVERY_ENGINE[3]] {
        let server = Server::start(setup, &["--auto-aof-rewrite-min-size", "100kb"]);
        let mut client = server.client();
        let set = |value: &str| {
            (0..300).map(|key| vec!["SET".to_owned(), format!("k{key}"), value.repeat(100)]).collect::<Vec<_>>()
        };
        client.expect("CONFIG GET auto-aof-rewrite-*", "*4\r\n$27\r\nauto-aof-rewrite-percentage\r\n$3\r\n100\r\n$25\r\nauto-aof-rewrite-min-size\r\n$6\r\n102400\r\n");
        client.pipeline(&set("one"));
        assert_eq!(server.info_number("aof_rewrites"), 0, "it is short");
        (0..3).for_each(|_| drop(client.pipeline(&set("two"))));
        wait_until("it is rewritten", || server.info_number("aof_rewrites") == 1);
        let base = server.info_number("aof_base_size");
        assert!((90_000..130_000).contains(&base), "{setup:?}: {base} bytes");
        client.expect("CONFIG SET auto-aof-rewrite-percentage 0", "+OK\r\n");
        (0..5).for_each(|_| drop(client.pipeline(&set("six"))));
        std::thread::sleep(Duration::from_millis(1500));
        assert_eq!(server.info_number("aof_rewrites"), 1, "{setup:?}: it was turned off");
        client.expect("CONFIG SET auto-aof-rewrite-percentage 50", "+OK\r\n");
        wait_until("it is rewritten again", || server.info_number("aof_rewrites") == 2);
        let server = server.kill().start(setup, &[]);
        assert_eq!(server.client().value(&["GET", "k299"]), Value::Bulk("six".repeat(100).into_bytes()));
    }
}

#[test]
fn a_log_that_grows_fast_is_rewritten_by_itself_once_in_a_second_at_most() {
    for setup in [EVERY_ENGINE[0], EVERY_ENGINE[1], EVERY_ENGINE[3]] {
        let server = Server::start(setup, &["--auto-aof-rewrite-min-size", "100kb"]);
        let mut client = server.client();
        let sets: Vec<_> = (0..300).map(|key| vec!["SET".to_owned(), format!("k{key}"), "v".repeat(1000)]).collect();
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(2500) {
            client.pipeline(&sets);
        }
        let rewrites = server.info_number("aof_rewrites");
        assert!((1..=begin.elapsed().as_secs() + 1).contains(&rewrites), "{setup:?}: {rewrites} rewrites");
    }
}

#[test]
fn a_second_request_is_refused_while_the_first_runs() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &[]);
        let mut client = server.client();
        fill(&mut client);
        let replies = client.pipeline(&[vec!["BGREWRITEAOF"], vec!["BGREWRITEAOF"]]);
        assert_eq!(replies[0], Value::Simple("Background append only file rewriting started".into()));
        assert_eq!(replies[1], Value::Error("ERR Background append only file rewriting already in progress".into()));
    }
}

#[test]
fn a_rewrite_that_a_transaction_asks_for_is_replied_scheduled_and_runs() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &[]);
        let mut client = server.client();
        client.expect("MULTI", "+OK\r\n");
        client.expect("SET k v", "+QUEUED\r\n");
        client.expect("BGREWRITEAOF", "+QUEUED\r\n");
        client.expect("EXEC", "*2\r\n+OK\r\n+Background append only file rewriting scheduled\r\n");
        wait_until("it ends", || server.info_number("aof_rewrites") == 1);
    }
}

/// Another file is in the place of the base.
#[test]
fn a_rewrite_that_fails_leaves_the_log_as_it_was() {
    for setup in [EVERY_ENGINE[0], EVERY_ENGINE[1], EVERY_ENGINE[3]] {
        let server = Server::start(setup, &[]);
        fill(&mut server.client());
        let dir = server.data().path().join("appendonlydir");
        let in_the_way = dir.join("chain-1.segment-0.base-2.aof");
        std::fs::create_dir(&in_the_way).unwrap();
        server.client().expect("BGREWRITEAOF", "+Background append only file rewriting started\r\n");
        wait_until("it fails", || server.info()["aof_last_bgrewrite_status"] == "err");
        assert!(!server.info()["aof_last_bgrewrite_error"].is_empty());
        assert!(server.log().contains("Background AOF rewrite failed"), "{}", server.log());
        let wanted = everything(server.address());
        std::fs::remove_dir(&in_the_way).unwrap();
        let copy = server.data().copy();
        assert_same(&everything(copy.start(setup, &[]).address()), &wanted, "the log as it was");
        rewrite(&server);
        let server = server.kill().start(setup, &[]);
        assert_same(&everything(server.address()), &wanted, "rewritten");
    }
}

#[test]
fn a_rewriting_leaves_no_file_of_before_open() {
    for setup in EVERY_ENGINE {
        for policy in ["no", "everysec", "always"] {
            let server = Server::start(setup, &["--appendfsync", policy]);
            let open = || std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap().count();
            server.client().expect("SET key value", "+OK\r\n");
            let before = open();
            // Directly after each other: no fsync of the log thread comes between.
            (0..3).for_each(|_| rewrite(&server));
            wait_until("the files of before are closed", || open() <= before);
        }
    }
}

#[test]
fn a_stop_while_a_rewriting_begins_leaves_a_log_that_starts() {
    for setup in EVERY_ENGINE {
        let mut data = Data::new();
        for round in 0..6 {
            let server = data.start(setup, &["--appendonly", "yes", "--save", ""]);
            let mut client = server.client();
            let before = if round == 0 { "$-1\r\n".into() } else { format!("$1\r\n{}\r\n", round - 1) };
            client.expect("GET round", &before);
            (0..50).for_each(|key| client.expect(&format!("SET key:{key} {round}"), "+OK\r\n"));
            client.expect(&format!("SET round {round}"), "+OK\r\n");
            client.expect("BGREWRITEAOF", "+Background append only file rewriting started\r\n");
            std::thread::sleep(Duration::from_millis(4 * round));
            let (status, left, log) = server.stop();
            assert_eq!(status.code(), Some(0), "{setup:?} {round}: {log}");
            data = left;
        }
    }
}
