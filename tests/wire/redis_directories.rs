//! Starts in the directory of a Redis, or with a snapshot of its own: the server never comes up empty silently, and
//! never overwrites a foreign file.

use crate::rdb::{assert_filled_alike, fill};
use harness::server::{arguments, binary};
use harness::{
    Client, Data, EVERY_ENGINE, RedisOracle, Server, Setup, Value, on_every_process, run_to_its_end, wait_until,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// One setup of each engine, the actor engine with several segments.
const ENGINES: [Setup; 3] = [EVERY_ENGINE[0], EVERY_ENGINE[1], EVERY_ENGINE[4]];

const NO_LOG: [&str; 4] = ["--appendonly", "no", "--save", ""];

/// The contents of every file below a directory, except the lock of one of our servers.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(contents(&path));
        } else if path.file_name().unwrap() != "shardrace.lock" {
            let bytes = std::fs::read(&path).unwrap();
            files.insert(path, bytes);
        }
    }
    files
}

/// The files of a directory by their names.
fn by_name(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let names = contents(dir).into_iter();
    names.map(|(path, bytes)| (path.strip_prefix(dir).unwrap().display().to_string(), bytes)).collect()
}

fn copy_all(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for (name, bytes) in by_name(from) {
        let path = to.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}

/// A directory with copies of these files of another.
fn directory_with(from: &Path, names: &[&str]) -> Data {
    let data = Data::new();
    for name in names {
        let (from, to) = (from.join(name), data.path().join(name));
        if from.is_dir() { copy_all(&from, &to) } else { _ = std::fs::copy(from, to).unwrap() }
    }
    data
}

/// A filled Redis with a log, part of it rewritten.
fn redis_with_log(preamble: &str) -> RedisOracle {
    let log = ["--appendonly", "yes", "--appendfsync", "always", "--aof-use-rdb-preamble", preamble];
    let oracle = RedisOracle::start_with(&log);
    let mut client = oracle.client();
    client.expect("SET before 1", "+OK\r\n");
    client.expect("BGREWRITEAOF", "+Background append only file rewriting started\r\n");
    let persistence = |client: &mut Client| client.value(&["INFO", "persistence"]).text();
    wait_until("the rewriting", || persistence(&mut client).contains("aof_rewrite_in_progress:0\r\n"));
    client.expect("DEL before", ":1\r\n");
    fill(&mut client);
    oracle
}

fn redis_with_snapshot() -> RedisOracle {
    let oracle = RedisOracle::start_with(&["--enable-debug-command", "yes"]);
    let mut client = oracle.client();
    client.expect("DEBUG SET-ACTIVE-EXPIRE 0", "+OK\r\n");
    fill(&mut client);
    std::thread::sleep(Duration::from_millis(5));
    client.expect("SAVE", "+OK\r\n");
    oracle
}

#[test]
fn without_a_log_a_snapshot_is_what_there_is_at_the_next_start() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &NO_LOG);
        fill(&mut server.client());
        server.client().expect("SAVE", "+OK\r\n");
        server.client().expect("SET behind v", "+OK\r\n");
        let file = std::fs::read(server.data().path().join("dump.rdb")).unwrap();
        let keys = shardrace::internals::rdb::read_file(
            &file,
            &shardrace::internals::keyspace::Settings::default(),
            &mut |_| Ok(()),
        )
        .unwrap()
        .keys;
        assert!(keys > 50, "{keys}");
        let server = server.kill().start(setup, &NO_LOG);
        server.wait_for_log("DB loaded from disk: ");
        let loaded = server.info_number("rdb_last_load_keys_loaded") + server.info_number("rdb_last_load_keys_expired");
        assert_eq!(loaded, keys, "{setup:?}");
        assert_eq!(server.info_number("rdb_changes_since_last_save"), 0, "{setup:?}");
        let mut client = server.client();
        client.expect("EXISTS behind", ":0\r\n");
        let oracle = RedisOracle::start_with_snapshot(&server.data().path().join("dump.rdb"));
        assert_filled_alike(&mut client, &mut oracle.client());
        client.expect("SELECT 0", "+OK\r\n");
        client.expect("SET behind v", "+OK\r\n");
        client.expect("SAVE", "+OK\r\n");
        let names: Vec<String> = by_name(server.data().path()).into_keys().collect();
        assert_eq!(names, ["dump.rdb"], "{setup:?}: its own snapshot is replaced");
        server.kill().start(setup, &NO_LOG).client().expect("GET behind", "$1\r\nv\r\n");
    }
}

#[test]
fn without_a_log_the_snapshot_of_a_redis_is_loaded_and_saved_over_as_redis_does() {
    let oracle = redis_with_snapshot();
    for setup in EVERY_ENGINE {
        let data = directory_with(oracle.dir(), &["dump.rdb"]);
        let server = data.start(setup, &NO_LOG);
        assert!(server.log().contains("of Redis 7.0.15 (RDB 10)"), "{}", server.log());
        assert_filled_alike(&mut server.client(), &mut oracle.client());
        assert_eq!(server.info_number("rdb_last_load_keys_expired"), 1, "{setup:?}");
        assert_eq!(server.info()["loading"], "0");
        server.client().expect("SAVE", "+OK\r\n");
        assert_eq!(by_name(data.path()).into_keys().collect::<Vec<_>>(), ["dump.rdb"], "{setup:?}");
        assert_filled_alike(&mut server.kill().start(setup, &NO_LOG).client(), &mut oracle.client());
    }
}

/// Snapshots that cannot be loaded, and their errors.
fn bad_snapshots() -> Vec<(Vec<u8>, &'static str)> {
    let oracle = RedisOracle::start();
    oracle.client().expect("SET key value", "+OK\r\n");
    oracle.client().expect("SAVE", "+OK\r\n");
    let whole = std::fs::read(oracle.dir().join("dump.rdb")).unwrap();
    let mut changed = whole.clone();
    let value = whole.windows(5).position(|bytes| bytes == b"value").unwrap();
    changed[value] ^= 1;
    vec![
        (changed, "its checksum is wrong (CRC error)"),
        (whole[..whole.len() - 12].to_vec(), "it is damaged, or ends"),
        (b"REDIS0099\xFF".to_vec(), "it is of RDB version 99"),
        (
            b"REDIS0010\x00\x01a\x01b\x00\x01a\x01c\xFF\0\0\0\0\0\0\0\0".to_vec(),
            "the key a of database 0 is there twice",
        ),
        (b"REDIS0010\xFE\x20\x00\x01a\x01b\xFF\0\0\0\0\0\0\0\0".to_vec(), "it has a database 32"),
        (b"REDIS0010\x63\x01a\x01b\xFF".to_vec(), "a value of type 99"),
        (
            b"REDIS0010\x07\x03mod\x81\x25\x9c\x8a\xb6\xa8\x2f\x0c\x01\x02\x05\x00\xFF\0\0\0\0\0\0\0\0".to_vec(),
            "the key mod holds a value of the module ",
        ),
        (b"nonsense".to_vec(), ""),
        (Vec::new(), ""),
    ]
}

#[test]
fn a_damaged_or_unknown_snapshot_refuses_the_start_with_its_path_the_place_and_the_reason_and_stays_as_it_is() {
    let bad = bad_snapshots();
    for setup in ENGINES {
        for flags in [&NO_LOG[..], &[]] {
            for (bytes, wanted) in &bad {
                let data = Data::new();
                let path = data.path().join("dump.rdb");
                std::fs::write(&path, bytes).unwrap();
                let before = contents(data.path());
                let ended = data.start_refused(setup, flags);
                assert_eq!(ended.status.code(), Some(1), "{setup:?} {flags:?} {wanted}: {ended:?}");
                let fatal = ended.stderr.lines().find(|line| line.contains("Fatal: ")).unwrap_or_default();
                let says_where = fatal.contains("at byte ") || bytes.len() < 12 || wanted.contains("version");
                let is_told = fatal.contains(path.to_str().unwrap()) && fatal.contains(wanted);
                assert!(is_told && (says_where || wanted.contains("module")), "{setup:?}: {wanted}: {fatal}");
                assert_eq!(contents(data.path()), before, "{setup:?}, {flags:?}");
                if !flags.is_empty() {
                    continue;
                }
                // The suggested command lets it start.
                let words = fatal.split("move it away: ").nth(1).unwrap_or_else(|| panic!("{fatal}"));
                assert!(Command::new("sh").args(["-c", words]).status().unwrap().success(), "{words}");
                assert_eq!(data.start(setup, flags).client().value(&["DBSIZE"]), Value::Integer(0));
            }
        }
    }
}

#[test]
fn with_a_log_the_snapshot_of_a_redis_is_taken_over_and_kept_under_another_name() {
    let oracle = redis_with_snapshot();
    let original = std::fs::read(oracle.dir().join("dump.rdb")).unwrap();
    for setup in EVERY_ENGINE {
        let data = directory_with(oracle.dir(), &["dump.rdb"]);
        let server = data.start(setup, &[]);
        assert_filled_alike(&mut server.client(), &mut oracle.client());
        let log = server.log();
        assert!(log.contains("taking over ") && log.contains("dump.rdb was taken over, and is kept as "), "{log}");
        let aside = data.path().join("dump.rdb.redis-1");
        assert_eq!(std::fs::read(&aside).unwrap(), original, "{setup:?}");
        assert!(!data.path().join("dump.rdb").exists());
        server.client().expect("SET behind v", "+OK\r\n");
        server.client().expect("SAVE", "+OK\r\n");
        let server = server.kill().start(setup, &[]);
        server.client().expect("GET behind", "$1\r\nv\r\n");
        server.client().expect("DEL behind", ":1\r\n");
        assert_filled_alike(&mut server.client(), &mut oracle.client());
        assert!(!server.log().contains("taking over"), "{setup:?}: once is enough");
        assert_eq!(std::fs::read(&aside).unwrap(), original, "{setup:?}");
        let names: Vec<String> =
            by_name(data.path()).into_keys().filter(|name| !name.starts_with("appendonlydir")).collect();
        assert_eq!(names, ["dump.rdb", "dump.rdb.redis-1"], "{setup:?}");
    }
}

#[test]
fn with_a_log_the_log_of_a_redis_is_taken_over_and_kept_so_that_the_redis_starts_with_it() {
    for (preamble, setups) in [("yes", &EVERY_ENGINE[..]), ("no", &ENGINES[..])] {
        let oracle = redis_with_log(preamble);
        // The Redis continues, and records what expires.
        let copy = directory_with(oracle.dir(), &["appendonlydir"]);
        let original = by_name(&copy.path().join("appendonlydir"));
        for &setup in setups {
            let data = directory_with(copy.path(), &["appendonlydir"]);
            let server = data.start(setup, &[]);
            assert_filled_alike(&mut server.client(), &mut oracle.client());
            let aside = data.path().join("appendonlydir.redis-1");
            assert_eq!(by_name(&aside), original, "{setup:?}");
            let left: Vec<String> = by_name(&data.path().join("appendonlydir")).into_keys().collect();
            assert!(left.iter().all(|name| name.starts_with("shardrace.") || name.starts_with("chain-")), "{left:?}");
            let server = server.kill().start(setup, &[]);
            assert_filled_alike(&mut server.client(), &mut oracle.client());
            assert_eq!(by_name(&aside), original, "{setup:?}");
        }
    }
}

#[test]
fn the_log_of_an_old_redis_in_one_file_is_taken_over_before_a_snapshot_which_is_never_written_over() {
    let log = b"*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n*2\r\n$3\r\nDE";
    let oracle = redis_with_snapshot();
    let snapshot = std::fs::read(oracle.dir().join("dump.rdb")).unwrap();
    for setup in ENGINES {
        let data = directory_with(oracle.dir(), &["dump.rdb"]);
        std::fs::write(data.path().join("appendonly.aof"), log).unwrap();
        let server = data.start(setup, &[]);
        let mut client = server.client();
        client.expect("DBSIZE", ":0\r\n");
        client.expect("SELECT 3", "+OK\r\n");
        client.expect("GET a", "$1\r\n1\r\n");
        assert!(server.log().contains("; the last 10 bytes are no whole command"), "{}", server.log());
        assert!(server.log().contains("dump.rdb is of another server, and not loaded"), "{}", server.log());
        client.expect("SAVE", "+OK\r\n");
        client.expect("SAVE", "+OK\r\n");
        let mut files = by_name(data.path());
        files.retain(|name, _| !name.starts_with("appendonlydir"));
        let names: Vec<&str> = files.keys().map(String::as_str).collect();
        assert_eq!(names, ["appendonly.aof.redis-1", "dump.rdb", "dump.rdb.redis-1"], "{setup:?}");
        assert_eq!((files["appendonly.aof.redis-1"].as_slice(), &files["dump.rdb.redis-1"]), (&log[..], &snapshot));
    }
}

#[test]
fn a_log_of_a_newer_redis_with_limits_of_trimming_and_fields_with_deadlines_is_taken_over() {
    let lines = [
        "SELECT 0",
        "XADD s MAXLEN = 1 LIMIT 100 1-1 f v",
        "XADD s MAXLEN = 1 LIMIT 100 2-1 f v",
        "HSETEX h KEEPTTL FIELDS 1 f 1.5",
    ];
    let encoded = lines.map(|line| {
        let words = line.split(' ').map(|word| format!("${}\r\n{word}\r\n", word.len()));
        format!("*{}\r\n{}", line.split(' ').count(), words.collect::<String>())
    });
    for setup in ENGINES {
        let data = Data::new();
        std::fs::write(data.path().join("appendonly.aof"), encoded.concat()).unwrap();
        let server = data.start(setup, &[]);
        let mut client = server.client();
        client.expect("XLEN s", ":1\r\n");
        client.expect("HGET h f", "$3\r\n1.5\r\n");
    }
}

#[test]
fn a_log_of_a_redis_that_cannot_be_read_refuses_the_start_and_stays_as_it_is() {
    let oracle = redis_with_log("yes");
    let log_dir = |data: &Data| data.path().join("appendonlydir");
    let incr = |data: &Data| {
        let mut files = by_name(&log_dir(data)).into_keys();
        log_dir(data).join(files.rfind(|name| name.ends_with(".incr.aof")).unwrap())
    };
    type Damage<'a> = (&'a str, &'a dyn Fn(&Data));
    let damages: [Damage<'_>; 4] = [
        ("No such file", &|data| std::fs::remove_file(incr(data)).unwrap()),
        ("at byte ", &|data| {
            let mut bytes = std::fs::read(incr(data)).unwrap();
            bytes[200] = b'\xFF';
            bytes[0] = b'x';
            std::fs::write(incr(data), bytes).unwrap();
        }),
        ("the command EVAL is not known here", &|data| {
            let mut bytes = std::fs::read(incr(data)).unwrap();
            bytes.extend(b"*3\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n$1\r\n0\r\n");
            std::fs::write(incr(data), bytes).unwrap();
        }),
        ("not understood", &|data| {
            std::fs::write(log_dir(data).join("appendonly.aof.manifest"), "file nonsense\n").unwrap();
        }),
    ];
    for setup in ENGINES {
        for (wanted, damage) in &damages {
            let data = directory_with(oracle.dir(), &["appendonlydir"]);
            damage(&data);
            let before = contents(data.path());
            let ended = data.start_refused(setup, &[]);
            let fatal = ended.stderr.lines().find(|line| line.contains("Fatal: ")).unwrap_or_default();
            let dir = log_dir(&data);
            assert!(fatal.contains(wanted) && fatal.contains(dir.to_str().unwrap()), "{setup:?} {wanted}: {ended:?}");
            assert_eq!(contents(data.path()), before, "{setup:?} {wanted}");
            let words = fatal.split("move it away: ").nth(1).unwrap_or_else(|| panic!("{fatal}"));
            assert!(Command::new("sh").args(["-c", words]).status().unwrap().success(), "{words}");
            assert_eq!(data.start(setup, &[]).client().value(&["DBSIZE"]), Value::Integer(0));
        }
    }
}

#[test]
fn libraries_of_functions_are_taken_over_from_a_snapshot_and_from_a_log() {
    let oracle = RedisOracle::start_with(&["--appendonly", "yes"]);
    let mut client = oracle.client();
    let code = |name: &str, function: &str| {
        format!("#!lua name={name}\nredis.register_function('{function}', function() return '{name}' end)")
    };
    assert_eq!(client.value(&["FUNCTION", "LOAD", &code("mylib", "f")]).text(), "mylib");
    client.expect("SET key value", "+OK\r\n");
    client.expect("SAVE", "+OK\r\n");
    client.value(&["FUNCTION", "LOAD", &code("other", "g")]);
    client.value(&["FUNCTION", "LOAD", &code("gone", "h")]);
    client.value(&["FUNCTION", "DELETE", "gone"]);
    let check = |server: &Server, has_other: bool| {
        let mut client = server.client();
        client.expect("GET key", "$5\r\nvalue\r\n");
        client.expect("FCALL f 0", "$5\r\nmylib\r\n");
        let other = client.value(&["FCALL", "g", "0"]).text();
        assert_eq!(other, if has_other { "other" } else { "ERR Function not found" });
        client.expect("FCALL h 0", "-ERR Function not found\r\n");
    };
    for setup in ENGINES {
        for flags in [&NO_LOG[..], &[]] {
            check(&directory_with(oracle.dir(), &["dump.rdb"]).start(setup, flags), false);
        }
        let server = directory_with(oracle.dir(), &["appendonlydir"]).start(setup, &[]);
        check(&server, true);
        check(&server.kill().start(setup, &[]), true);
    }
    let data = Data::new();
    let mut import = Command::new(binary());
    import.arg("import").arg(oracle.dir().join("dump.rdb")).arg("--dir").arg(data.path());
    let ended = run_to_its_end(&mut import);
    assert!(ended.status.success(), "{ended:?}");
    check(&data.start(ENGINES[0], &[]), false);
}

/// A snapshot of another server that was never loaded is not an older one of ours.
#[test]
fn a_snapshot_of_another_server_beside_a_log_gets_another_name_before_the_first_save() {
    let oracle = redis_with_snapshot();
    let original = std::fs::read(oracle.dir().join("dump.rdb")).unwrap();
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &[]);
        server.client().expect("SET ours 1", "+OK\r\n");
        server.client().expect("SAVE", "+OK\r\n");
        let (_, data, _) = server.stop();
        let path = data.path().join("dump.rdb");
        let ours = std::fs::read(&path).unwrap();
        std::fs::write(&path, &original).unwrap();
        let server = data.start(setup, &[]);
        assert!(server.log().contains("dump.rdb is of another server, and not loaded"), "{}", server.log());
        let mut client = server.client();
        assert_eq!(client.value(&["DBSIZE"]), Value::Integer(1), "{setup:?}");
        client.expect("BGSAVE", "+Background saving started\r\n");
        wait_until("the snapshot", || server.info_number("rdb_bgsave_in_progress") == 0);
        server.wait_for_log("keeping it as ");
        // One that appears while the server runs is kept, too.
        std::fs::write(&path, &original[..100]).unwrap();
        client.expect("SAVE", "+OK\r\n");
        client.expect("SAVE", "+OK\r\n");
        let mut files = by_name(data.path());
        files.retain(|name, _| !name.starts_with("appendonlydir"));
        let names: Vec<&str> = files.keys().map(String::as_str).collect();
        assert_eq!(names, ["dump.rdb", "dump.rdb.redis-1", "dump.rdb.redis-2"], "{setup:?}");
        assert_eq!((&files["dump.rdb.redis-1"], files["dump.rdb.redis-2"].as_slice()), (&original, &original[..100]));
        assert_eq!(files["dump.rdb"].len(), ours.len());
        let log = data.clone();
        drop(server.kill());
        assert!(!log.start(setup, &[]).log().contains("not loaded"), "{setup:?}: its own is no other server's");
    }
}

/// A server was run without a log for a while, or a Redis beside ours: what came then is not in the log.
#[test]
fn data_newer_than_the_log_is_told_of_with_both_times_and_never_written_over() {
    let an_hour_on = std::time::SystemTime::now() + Duration::from_secs(3600);
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &[]);
        server.client().expect("SET ours 1", "+OK\r\n");
        server.client().expect("SAVE", "+OK\r\n");
        let (_, data, _) = server.stop();
        let in_dir = |name: &str| data.path().join(name);
        let snapshot = std::fs::read(in_dir("dump.rdb")).unwrap();
        std::fs::create_dir(in_dir("other")).unwrap();
        for name in ["appendonly.aof", "other/appendonly.aof.manifest"] {
            std::fs::write(in_dir(name), "file x seq 1 type b\n").unwrap();
        }
        for name in ["dump.rdb", "appendonly.aof", "other/appendonly.aof.manifest"] {
            std::fs::File::options().write(true).open(in_dir(name)).unwrap().set_modified(an_hour_on).unwrap();
        }
        let before = contents(data.path());
        let server = data.start(setup, &[]);
        let log = server.log();
        for name in ["dump.rdb", "appendonly.aof", "other"] {
            let begin = format!("{} is not loaded: the log in ", in_dir(name).display());
            let line = log.lines().find(|line| line.contains(&begin)).unwrap_or_else(|| panic!("{name}: {log}"));
            let (_, times) = line.split_once("It is NEWER than the log: it was written ").unwrap();
            let times: Vec<&str> = times.splitn(2, ", the log ").collect();
            assert!(times[0].len() == 20 && times[1].as_bytes()[20] == b'.', "{line}");
        }
        server.client().expect("SAVE", "+OK\r\n");
        server.client().expect("SAVE", "+OK\r\n");
        let after = contents(data.path());
        assert_eq!(after[&in_dir("dump.rdb.old-1")], snapshot, "{setup:?}");
        assert!(!after.contains_key(&in_dir("dump.rdb.old-2")), "{setup:?}: what it wrote itself is replaced");
        for name in ["appendonly.aof", "other/appendonly.aof.manifest"] {
            assert_eq!(after[&in_dir(name)], before[&in_dir(name)], "{setup:?}");
        }
        // What is older than the log is not worth a line.
        let long_ago = an_hour_on - Duration::from_secs(86_400);
        for name in ["dump.rdb", "appendonly.aof", "other/appendonly.aof.manifest"] {
            std::fs::File::options().write(true).open(in_dir(name)).unwrap().set_modified(long_ago).unwrap();
        }
        let (_, data, _) = server.stop();
        let log = data.start(setup, &[]).log();
        assert!(!log.contains("not loaded"), "{setup:?}: {log}");
    }
}

#[test]
fn a_start_without_a_log_tells_of_a_log_that_is_newer_than_the_snapshot() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &[]);
        server.client().expect("SET ours 1", "+OK\r\n");
        let data = server.kill();
        let server = data.start(setup, &NO_LOG);
        let log = server.log();
        let said = format!("There is a log in {} (last written ", data.path().join("appendonlydir").display());
        assert!(log.contains(&said) && log.contains("so the server begins empty"), "{setup:?}: {log}");
        server.client().expect("SAVE", "+OK\r\n");
        drop(server);
        let log = data.start(setup, &NO_LOG).log();
        assert!(!log.contains("There is a log"), "{setup:?}: the snapshot is newer: {log}");
    }
}

#[test]
fn a_log_of_a_redis_beside_a_log_of_ours_refuses_the_start_and_both_ways_out_work() {
    let oracle = redis_with_log("yes");
    for setup in ENGINES {
        for (way_out, keys) in [("To go on with the log of this server", 1), ("To go on with that of the Redis", 0)] {
            let server = Server::start(setup, &[]);
            server.client().expect("SET ours 1", "+OK\r\n");
            let data = server.kill();
            copy_all(&oracle.dir().join("appendonlydir"), &data.path().join("appendonlydir"));
            let before = contents(data.path());
            let ended = data.start_refused(setup, &[]);
            let fatal = ended.stderr.lines().find(|line| line.contains("Fatal: ")).unwrap_or_default();
            assert!(fatal.contains("names a log of Redis beside a log of this server"), "{ended:?}");
            assert!(
                fatal.contains(" Its log was last written ") && fatal.contains(", that of this server "),
                "{fatal}"
            );
            assert_eq!(contents(data.path()), before, "{setup:?}");
            let words = fatal.split(way_out).nth(1).and_then(|rest| rest.split(": ").nth(1)).unwrap();
            let words = words.split(". ").next().unwrap();
            assert!(Command::new("sh").args(["-c", words]).status().unwrap().success(), "{words}");
            let server = data.start(setup, &[]);
            assert_eq!(server.client().value(&["EXISTS", "ours"]), Value::Integer(keys), "{setup:?}: {words}");
            if keys == 0 {
                assert_filled_alike(&mut server.client(), &mut oracle.client());
            }
        }
    }
}

#[test]
fn data_in_the_directory_of_the_start_that_is_not_that_of_the_data_is_told_of() {
    let oracle = redis_with_snapshot();
    let data = directory_with(oracle.dir(), &["dump.rdb"]);
    let setup = EVERY_ENGINE[0];
    let mut command = Command::new(binary());
    command.args(["--port", "0", "--engine", "mutex"]).current_dir(data.path()).env_remove("RUST_LOG");
    let server = Server::spawn(&mut command, data.clone(), setup);
    assert!(
        server.log().contains("There is dump.rdb in the directory that the server was started in"),
        "{}",
        server.log()
    );
    assert!(!data.start(setup, &[]).log().contains("that the server was started in"));
}

/// Whether the manifest names a log of ours.
fn is_taken_over(data: &Data) -> bool {
    let manifest = std::fs::read_to_string(data.path().join("appendonlydir/shardrace.manifest"));
    manifest.is_ok_and(|text| text.contains("\nchain "))
}

#[test]
fn a_kill_at_any_moment_of_a_takeover_leaves_the_original_or_the_takeover_whole() {
    const KEYS: usize = 12_000;
    const KILLS: u32 = 16;
    let oracle = RedisOracle::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let sets = (0..KEYS).map(|key| vec!["SET".to_owned(), format!("key:{key}"), "x".repeat(100)]);
    oracle.client().pipeline(&sets.collect::<Vec<_>>());
    oracle.client().expect("SAVE", "+OK\r\n");
    for setup in ENGINES {
        for what in ["appendonlydir", "dump.rdb"] {
            let original = directory_with(oracle.dir(), &[what]);
            let start = Instant::now();
            drop(directory_with(oracle.dir(), &[what]).start(setup, &[]));
            let takes = start.elapsed();
            let (mut early, mut late) = (0, 0);
            for kill in 0..KILLS {
                let data = directory_with(original.path(), &[what]);
                let mut command = Command::new(binary());
                command.args(arguments(&data, setup)).stderr(Stdio::null()).current_dir(data.path());
                let mut child = command.spawn().unwrap();
                std::thread::sleep(takes * kill / KILLS);
                child.kill().unwrap();
                child.wait().unwrap();
                let at = format!("{setup:?}, {what}, killed at {kill}/{KILLS} of {takes:?}");
                if is_taken_over(&data) {
                    late += 1;
                } else {
                    early += 1;
                    let files = by_name(data.path());
                    let is_whole = by_name(original.path()).iter().all(|(name, bytes)| files.get(name) == Some(bytes));
                    assert!(is_whole, "{at}: {:?}", files.keys());
                }
                let server = data.start(setup, &[]);
                assert_eq!(server.client().value(&["DBSIZE"]), Value::Integer(KEYS as i64), "{at}");
                let aside = data.path().join(format!("{what}.redis-1"));
                let kept = if aside.is_dir() {
                    by_name(&aside)
                } else {
                    [(what.into(), std::fs::read(aside).unwrap())].into()
                };
                let wanted = original.path().join(what);
                let wanted = if wanted.is_dir() { by_name(&wanted) } else { by_name(original.path()) };
                assert_eq!(kept, wanted, "{at}");
                assert!(!data.path().join("appendonlydir/shardrace.takeover").exists(), "{at}");
            }
            assert!(early > 0, "{setup:?}: no kill came before the end");
            println!("{setup:?}, {what}: {early} kills before the takeover, {late} after it");
        }
    }
}

/// After a takeover was begun, a manual import does what it was told, and no file is moved that it did not read.
#[test]
fn an_import_after_a_takeover_that_was_killed_moves_nothing() {
    let oracle = redis_with_snapshot();
    let setup = EVERY_ENGINE[0];
    let data = directory_with(oracle.dir(), &["dump.rdb"]);
    let log_dir = data.path().join("appendonlydir");
    std::fs::create_dir(&log_dir).unwrap();
    let with_check = |lines: &str| format!("{lines}check {:08x}\n", crc32fast::hash(lines.as_bytes()));
    std::fs::write(log_dir.join("shardrace.manifest"), with_check("format 4\nunfinished import\n")).unwrap();
    std::fs::write(log_dir.join("shardrace.takeover"), "dump.rdb\ndump.rdb.redis-1\n").unwrap();
    let checked = run_to_its_end(Command::new(binary()).arg("check-aof").arg(data.path()));
    assert!(checked.stderr.contains("that took over the data of a Redis"), "{checked:?}");
    assert!(!checked.stderr.contains("remove the directory"), "{checked:?}");
    let other = Data::new();
    std::fs::write(other.path().join("log"), b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n").unwrap();
    let mut import = Command::new(binary());
    import.arg("import").arg(other.path().join("log")).arg("--dir").arg(data.path());
    let ended = run_to_its_end(import.args(["--engine", "mutex"]));
    assert!(ended.status.success(), "{ended:?}");
    let server = data.start(setup, &[]);
    server.client().expect("GET a", "$1\r\n1\r\n");
    assert!(data.path().join("dump.rdb").exists() && !data.path().join("dump.rdb.redis-1").exists());
}

#[test]
fn a_takeover_onto_a_full_disk_is_refused_and_the_original_stays() {
    let oracle = redis_with_snapshot();
    let original = std::fs::read(oracle.dir().join("dump.rdb")).unwrap();
    for setup in ENGINES {
        let mut refused = 0;
        for blocks in [0, 1, 40, 300] {
            let data = directory_with(oracle.dir(), &["dump.rdb"]);
            let words: Vec<String> = [vec![binary().to_owned()], arguments(&data, setup)].concat();
            let mut command = Command::new("sh");
            command.args(["-c", &format!("ulimit -f {blocks} && exec \"$0\" \"$@\"")]).args(&words);
            if let Err(log) = Server::try_spawn(&mut command, data.clone(), setup) {
                refused += 1;
                assert!(log.contains("Fatal: ") && log.contains(data.path().to_str().unwrap()), "{blocks}: {log}");
            }
            let kept = ["dump.rdb", "dump.rdb.redis-1"].map(|name| std::fs::read(data.path().join(name)).ok());
            assert!(kept.contains(&Some(original.clone())), "{setup:?}, {blocks} blocks");
            let server = data.start(setup, &[]);
            assert_filled_alike(&mut server.client(), &mut oracle.client());
        }
        assert!(refused > 0, "{setup:?}");
    }
}

#[test]
fn a_server_with_nothing_to_take_over_says_nothing_of_it() {
    on_every_process(|server| {
        assert!(!server.log().contains("taking over") && !server.log().contains("not loaded"), "{}", server.log());
    });
}
