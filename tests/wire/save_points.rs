//! Automatic snapshots (`save`), those of a server that ends, and what is refused when one fails.

use harness::{
    Client, Data, EVERY_ENGINE, RedisOracle, Server, Value, check_script, on_every_engine, on_every_engine_at_once,
    on_every_process, request, wait_until, words,
};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn snapshot(data: &Data) -> PathBuf {
    data.path().join("dump.rdb")
}

#[test]
fn a_snapshot_is_made_by_itself_when_its_time_is_over_and_so_much_has_changed() {
    on_every_engine_at_once(|setup| {
        for log in ["yes", "no"] {
            let server = Server::start(setup, &["--appendonly", log, "--save", "1 3"]);
            let mut client = server.client();
            client.expect("MSET a 1 b 2", "+OK\r\n");
            std::thread::sleep(Duration::from_millis(2200));
            assert_eq!(server.info_number("rdb_saves"), 0, "{setup:?}: two changes are not three");
            client.expect("SET c 3", "+OK\r\n");
            wait_until("the snapshot", || server.info_number("rdb_saves") == 1);
            assert_eq!(server.info_number("rdb_changes_since_last_save"), 0);
            server.wait_for_log("3 changes in 1 seconds. Saving...");
            let oracle = RedisOracle::start_with_snapshot(&snapshot(server.data()));
            oracle.client().expect("MGET a b c", "*3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n");
            // Another one, as CONFIG SET says now, and none when it is empty.
            client.expect("INCR c", ":4\r\n");
            assert_eq!(client.value(&["CONFIG", "SET", "save", "3600 1 1 1"]), Value::Simple(b"OK".to_vec()));
            wait_until("the second snapshot", || server.info_number("rdb_saves") == 2);
            assert_eq!(client.value(&["CONFIG", "SET", "save", ""]), Value::Simple(b"OK".to_vec()));
            client.expect("INCR c", ":5\r\n");
            std::thread::sleep(Duration::from_millis(2200));
            assert_eq!(server.info_number("rdb_saves"), 2, "{setup:?}");
        }
    });
}

#[test]
fn save_is_shown_and_set_as_redis_does() {
    check_script(
        r#"
        CONFIG SET save ""
        +OK
        CONFIG GET save
        *2 | $4 | save | $0 |
        CONFIG SET save "3600 1 300 100"
        +OK
        CONFIG GET save
        *2 | $4 | save | $14 | 3600 1 300 100
        CONFIG SET save 60
        -ERR CONFIG SET failed (possibly related to argument 'save') - Invalid save parameters
        CONFIG SET save "0 1"
        -ERR CONFIG SET failed (possibly related to argument 'save') - Invalid save parameters
        CONFIG SET save "60 -1"
        -ERR CONFIG SET failed (possibly related to argument 'save') - Invalid save parameters
        CONFIG SET save "60 x"
        -ERR CONFIG SET failed (possibly related to argument 'save') - Invalid save parameters
        CONFIG GET save
        *2 | $4 | save | $14 | 3600 1 300 100
        CONFIG SET save "10 0"
        +OK
        CONFIG GET save
        *2 | $4 | save | $4 | 10 0
        CONFIG SET save ""
        +OK
        CONFIG GET stop-writes-on-bgsave-error
        *2 | $27 | stop-writes-on-bgsave-error | $3 | yes
        "#,
    );
    let saved = |flags: &[&str]| {
        let server = Server::start(EVERY_ENGINE[0], flags);
        server.client().value(&["CONFIG", "GET", "save"]).field("save").unwrap().text()
    };
    // The log has everything; without one it is as in Redis.
    assert_eq!(saved(&[]), "");
    assert_eq!(saved(&["--appendonly", "no"]), "3600 1 300 100 60 10000");
    assert_eq!(saved(&["--appendonly", "no", "--save", ""]), "");
    assert_eq!(saved(&["--save", "60 1", "--save", "30 5"]), "60 1 30 5");
}

/// What each of these adds to the count of changes.
#[test]
fn changes_are_counted_as_redis_counts_them() {
    let lines = [
        "SET a 1",
        "SET a 1",
        "SETNX a 2",
        "GET a",
        "GETSET a 2",
        "APPEND a x",
        "MSET b 1 c 2 d 3",
        "MSETNX b 1 x 2",
        "INCR b",
        "INCRBYFLOAT b 0.5",
        "SETRANGE b 3 xx",
        "SETBIT bits 5 1",
        "SETBIT bits 5 1",
        "EXPIRE c 100",
        "EXPIRE nothing 100",
        "PERSIST c",
        "PERSIST c",
        "DEL c d nothing",
        "DEL nothing",
        "UNLINK b",
        "RPUSH l 1 2 3 4 5",
        "LPOP l",
        "RPOP l 2",
        "LPOP nothing",
        "LSET l 0 x",
        "LINSERT l BEFORE x y",
        "LREM l 0 x",
        "LTRIM l 0 0",
        "RPOPLPUSH l other",
        "SADD s 1 2 3",
        "SADD s 3 4",
        "SREM s 1 9",
        "SMOVE s t 4",
        "SPOP s",
        "SUNIONSTORE u s t",
        "SINTERSTORE u s nothing",
        "HSET h f 1 g 2",
        "HSET h f 3",
        "HINCRBY h f 2",
        "HDEL h f nothing",
        "HSETNX h g 1",
        "ZADD z 1 a 2 b 3 c",
        "ZADD z 1 a",
        "ZADD z 5 a 6 d",
        "ZINCRBY z 1 a",
        "ZREM z a nothing",
        "ZPOPMIN z 2",
        "ZRANGESTORE zz z 0 -1",
        "ZUNIONSTORE zu 1 z",
        "PFADD hll a b c",
        "PFADD hll a",
        "XADD x 1-1 f v",
        "XADD x MAXLEN 1 2-1 f v",
        "XGROUP CREATE x g 0",
        "XREADGROUP GROUP g c STREAMS x >",
        "XACK x g 2-1",
        "XTRIM x MAXLEN 0",
        "XDEL x 2-1",
        "RENAME a aa",
        "COPY aa ab",
        "MOVE ab 5",
        "SORT l STORE sorted",
        "GEOADD geo 1 1 m",
        "BITOP NOT bits2 bits",
        "BITFIELD bits SET u8 0 1",
        "GETDEL aa",
        "SET k v EX 100",
        "GETEX k PERSIST",
        "GETEX k",
        "SWAPDB 0 1",
        "SWAPDB 0 1",
        "FLUSHDB",
        "SET k v",
        "FLUSHALL",
        "FLUSHALL",
    ];
    let oracle = RedisOracle::start();
    on_every_engine(|server| {
        let (mut ours, mut theirs) = (server.client(), oracle.client());
        theirs.call(&["FLUSHALL"]);
        let count = |client: &mut Client| {
            let text = client.value(&["INFO", "persistence"]).text();
            let line = text.lines().find_map(|line| line.strip_prefix("rdb_changes_since_last_save:"));
            line.unwrap().parse::<u64>().unwrap()
        };
        for line in lines {
            let before = [count(&mut ours), count(&mut theirs)];
            for client in [&mut ours, &mut theirs] {
                client.call(&words(line));
            }
            let added = [count(&mut ours) - before[0], count(&mut theirs) - before[1]];
            assert_eq!(added[0], added[1], "{line} on {:?}", server.setup());
        }
        // In a transaction, and for a waiting client.
        for client in [&mut ours, &mut theirs] {
            client.expect("SET k 1", "+OK\r\n");
        }
        let mut waiting = [server.client(), Client::connect(oracle.address())];
        waiting.iter_mut().for_each(|client| client.send(&request(&["BLPOP", "queue", "0"])));
        wait_until("both wait", || {
            [&mut ours, &mut theirs]
                .into_iter()
                .all(|client| client.value(&["INFO", "clients"]).text().contains("blocked_clients:1"))
        });
        let before = [count(&mut ours), count(&mut theirs)];
        for client in [&mut ours, &mut theirs] {
            ["MULTI", "INCR k", "RPUSH queue a b", "DEL nothing", "EXEC"]
                .iter()
                .for_each(|line| _ = client.call(&words(line)));
        }
        waiting.iter_mut().for_each(|client| assert_eq!(client.value_of_next().elements().len(), 2));
        // Redis 7.2 runs the command of the waiting client again, and counts what it took; 7.0 did not.
        let added = [count(&mut ours) - before[0], count(&mut theirs) - before[1]];
        assert_eq!(added, [4, 3], "{:?}", server.setup());
    });
}

const REFUSED: &str = "-MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. \
                       Commands that may modify the data set are disabled, because this instance is configured to report \
                       errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check \
                       the Redis logs for details about the RDB error.\r\n";

/// Puts a directory in the place of a server's snapshot: no file can have that name.
fn put_in_the_way(server: &Server) -> PathBuf {
    let path = server.data().path().join(format!("temp-{}-dump.rdb", server.pid()));
    std::fs::create_dir(&path).unwrap();
    path
}

#[test]
fn a_snapshot_that_fails_refuses_writes_until_one_succeeds_by_itself() {
    on_every_engine_at_once(|setup| {
        let server = Server::start(setup, &["--appendonly", "no", "--save", "1 1"]);
        let in_the_way = put_in_the_way(&server);
        let mut client = server.client();
        client.expect("SET k v", "+OK\r\n");
        wait_until("it fails", || server.info()["rdb_last_bgsave_status"] == "err");
        for line in ["SET k w", "DEL k", "PING", "MSET k 1 l 2", "LPUSH list x"] {
            client.expect(line, REFUSED);
        }
        client.expect("GET k", "$1\r\nv\r\n");
        client.expect("MULTI", "+OK\r\n");
        client.expect("SET k w", REFUSED);
        client.expect("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n");
        client.expect("CONFIG SET stop-writes-on-bgsave-error no", "+OK\r\n");
        client.expect("SET k w", "+OK\r\n");
        client.expect("CONFIG SET stop-writes-on-bgsave-error yes", "+OK\r\n");
        client.expect("SET k x", REFUSED);
        let points = client.value(&["CONFIG", "SET", "save", ""]);
        assert_eq!(points, Value::Simple(b"OK".to_vec()));
        client.expect("SET k y", "+OK\r\n");
        client.value(&["CONFIG", "SET", "save", "1 1"]);
        client.expect("SET k z", REFUSED);
        std::fs::remove_dir(in_the_way).unwrap();
        server.wait_for_log("Can't write the snapshot");
        let failures = |server: &Server| server.log().matches("Can't write the snapshot").count();
        let before = failures(&server);
        wait_until("it is tried again", || server.info()["rdb_last_bgsave_status"] == "ok");
        assert_eq!(failures(&server), before, "{setup:?}: it is tried again too soon");
        client.expect("PING", "+PONG\r\n");
        client.expect("SET k z", "+OK\r\n");
    });
}

#[test]
fn a_server_that_ends_makes_a_snapshot_where_it_has_save_points() {
    on_every_engine_at_once(|setup| {
        for (flags, end, is_made) in [
            (&["--appendonly", "no"][..], "TERM", true),
            (&["--appendonly", "no"], "INT", true),
            (&["--appendonly", "no"], "SHUTDOWN", true),
            (&["--appendonly", "no"], "SHUTDOWN NOSAVE", false),
            (&["--appendonly", "no", "--save", ""], "TERM", false),
            (&["--appendonly", "no", "--save", ""], "SHUTDOWN", false),
            (&["--appendonly", "no", "--save", ""], "SHUTDOWN SAVE", true),
            (&["--appendonly", "no", "--shutdown-on-sigterm", "nosave"], "TERM", false),
            (&["--appendonly", "no", "--shutdown-on-sigterm", "nosave"], "INT", true),
            (&["--appendonly", "no", "--save", "", "--shutdown-on-sigint", "now", "save"], "INT", true),
            (&["--appendonly", "no", "--save", "", "--shutdown-on-sigint", "now", "save"], "TERM", false),
            (&["--appendonly", "yes"], "TERM", false),
            (&["--appendonly", "yes", "--save", "60 1"], "TERM", true),
        ] {
            let server = Server::start(setup, flags);
            let mut client = server.client();
            client.expect("SET k v", "+OK\r\n");
            if end.starts_with("SHUTDOWN") {
                client.send(&request(&words(end)));
                assert_eq!(client.until_closed(), b"", "{setup:?} {flags:?} {end}");
            } else {
                server.signal(end);
            }
            let (status, data, log) = server.wait_for_end();
            assert!(status.success() && log.contains("bye bye"), "{setup:?} {flags:?} {end}: {log}");
            assert_eq!(snapshot(&data).exists(), is_made, "{setup:?} {flags:?} {end}");
            if is_made {
                let oracle = RedisOracle::start_with_snapshot(&snapshot(&data));
                oracle.client().expect("GET k", "$1\r\nv\r\n");
            }
        }
    });
}

#[test]
fn what_was_replied_before_the_end_is_in_the_last_snapshot() {
    const CLIENTS: usize = 4;
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &["--appendonly", "no"]);
        let is_stopped = AtomicBool::new(false);
        let counts: Vec<i64> = std::thread::scope(|scope| {
            let count = |number: usize| {
                let mut client = server.client();
                let (key, is_stopped) = (format!("counter:{number}"), &is_stopped);
                move || {
                    let mut last = 0;
                    while !is_stopped.load(Ordering::Relaxed) {
                        client.send_if_open(&request(&["INCR", &key]));
                        match client.values_if_open(1) {
                            Some(values) => last = values[0].integer(),
                            None => break,
                        }
                    }
                    last
                }
            };
            let counting: Vec<_> = (0..CLIENTS).map(|number| scope.spawn(count(number))).collect();
            std::thread::sleep(Duration::from_millis(300));
            server.signal("TERM");
            counting.into_iter().map(|counting| counting.join().unwrap()).collect()
        });
        let (status, data, log) = server.wait_for_end();
        assert!(status.success(), "{setup:?}: {log}");
        let server = data.start(setup, &["--appendonly", "no"]);
        let mut client = server.client();
        for (number, count) in counts.into_iter().enumerate() {
            assert!(count > 10, "{setup:?}: {count}");
            let there: i64 = client.value(&["GET", &format!("counter:{number}")]).text().parse().unwrap();
            assert!((count..=count + 1).contains(&there), "{setup:?}: {there} for {count}");
        }
    }
}

#[test]
fn the_line_on_a_snapshot_has_the_length_of_its_file() {
    on_every_process(|server| {
        server.client().expect("SET k v", "+OK\r\n");
        server.client().expect("SAVE", "+OK\r\n");
        let path = server.data().path().join("dump.rdb");
        let len = std::fs::metadata(&path).unwrap().len();
        server.wait_for_log(&format!("DB saved on disk: {}, {len} bytes", path.display()));
    });
}

#[test]
fn a_server_that_cannot_make_its_last_snapshot_goes_on_unless_it_is_forced() {
    on_every_process(|server| {
        let mut client = server.client();
        client.value(&["CONFIG", "SET", "save", "3600 1"]);
        client.expect("SET k v", "+OK\r\n");
        let in_the_way = put_in_the_way(server);
        server.signal("TERM");
        server.wait_for_log("Error trying to save the DB, can't exit.");
        client.expect("PING", "+PONG\r\n");
        client.expect("SHUTDOWN", "-ERR Errors trying to SHUTDOWN. Check logs.\r\n");
        // Writes continue: a requested snapshot has reported its failure.
        client.expect("INCR counter", ":1\r\n");
        client.expect("SAVE", "-ERR\r\n");
        client.expect("INCR counter", ":2\r\n");
        assert_eq!(server.info()["rdb_last_bgsave_status"], "ok");
        server.client().expect("GET k", "$1\r\nv\r\n");
        std::fs::remove_dir(in_the_way).unwrap();
    });
    for (setup, is_signal) in EVERY_ENGINE.into_iter().flat_map(|setup| [(setup, false), (setup, true)]) {
        let server = Server::start(setup, &["--appendonly", "no"]);
        let mut client = server.client();
        client.expect("SET k v", "+OK\r\n");
        put_in_the_way(&server);
        if is_signal {
            // What holds at the time of the signal counts.
            assert_eq!(client.call(&["CONFIG", "SET", "shutdown-on-sigterm", "force"]), b"+OK\r\n");
            server.signal("TERM");
        } else {
            client.send(&request(&["SHUTDOWN", "FORCE"]));
        }
        assert_eq!(client.until_closed(), b"");
        let (status, data, log) = server.wait_for_end();
        assert!(status.success() && log.contains("Error trying to save the DB. Exit anyway."), "{setup:?}: {log}");
        assert!(!snapshot(&data).exists());
    }
}

#[test]
fn what_all_data_was_flushed_from_is_saved_before_the_reply() {
    on_every_engine_at_once(|setup| {
        let server = Server::start(setup, &["--appendonly", "no"]);
        let mut client = server.client();
        client.expect("MSET {a}k v {b}k v {c}k v", "+OK\r\n");
        client.expect("SAVE", "+OK\r\n");
        client.expect("SELECT 3", "+OK\r\n");
        client.expect("SET {a}k v", "+OK\r\n");
        client.expect("FLUSHALL", "+OK\r\n");
        assert_eq!((server.info_number("rdb_saves"), server.info_number("rdb_changes_since_last_save")), (2, 0));
        let server = server.kill().start(setup, &["--appendonly", "no"]);
        let mut client = server.client();
        client.expect("DBSIZE", ":0\r\n");
        // In a transaction the snapshot comes after it.
        client.expect("SET k v", "+OK\r\n");
        client.expect("SAVE", "+OK\r\n");
        client.expect("MULTI", "+OK\r\n");
        client.expect("FLUSHALL", "+QUEUED\r\n");
        client.expect("SET l v", "+QUEUED\r\n");
        client.expect("EXEC", "*2\r\n+OK\r\n+OK\r\n");
        wait_until("the snapshot", || server.info_number("rdb_saves") == 2);
        let server = server.kill().start(setup, &["--appendonly", "no"]);
        server.client().expect("KEYS *", "*1\r\n$1\r\nl\r\n");
        // Without save points nothing is saved.
        assert_eq!(server.client().call(&["CONFIG", "SET", "save", ""]), b"+OK\r\n");
        server.client().expect("FLUSHALL", "+OK\r\n");
        assert_eq!(server.info_number("rdb_saves"), 0);
        assert!(server.info_number("rdb_changes_since_last_save") > 0);
    });
}
