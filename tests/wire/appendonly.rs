//! `CONFIG SET appendonly`: a log that begins and ends while commands run has the right contents, and no existing file
//! is overwritten.

use crate::rdb::{assert_filled_alike, fill};
use harness::{Client, Data, EVERY_ENGINE, Server, Setup, Value, wait_until};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

const NO_LOG: [&str; 4] = ["--appendonly", "no", "--save", ""];
const LOG: [&str; 4] = ["--appendonly", "yes", "--save", ""];

fn set(client: &mut Client, value: &str) {
    client.expect(&format!("CONFIG SET appendonly {value}"), "+OK\r\n");
}

fn expect_error(client: &mut Client, line: &str, beginning: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    let reply = String::from_utf8(client.call(&words)).unwrap();
    assert!(reply.starts_with(&format!("-{beginning}")), "{line}: {reply}");
}

/// Waits until the requested log is whole.
fn wait_until_begun(server: &Server) {
    wait_until("the log", || server.log().contains("has begun"));
    assert_eq!(server.info()["aof_last_bgrewrite_status"], "ok");
    assert_eq!(server.info_number("aof_rewrite_in_progress"), 0);
}

fn wait_until_ended(server: &Server) {
    wait_until("the end of the log", || server.info_number("aof_segments") == 0);
}

#[test]
fn a_log_that_begins_while_commands_run_has_all_of_the_data_after_a_kill() {
    for setup in EVERY_ENGINE {
        for policy in ["everysec", "always", "no"] {
            let flags = [&NO_LOG[..], &["--appendfsync", policy]].concat();
            let server = Server::start(setup, &flags);
            let mut client = server.client();
            fill(&mut client);
            let (ends, counted) = (AtomicBool::new(false), AtomicI64::new(0));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut writer = server.client();
                    while !ends.load(Ordering::Relaxed) {
                        let count = writer.value(&["INCR", "counted"]).integer();
                        writer.expect(&format!("MSET {{a}}m {count} {{b}}m {count} {{c}}m {count}"), "+OK\r\n");
                        counted.store(count, Ordering::Relaxed);
                    }
                });
                wait_until("some writes", || counted.load(Ordering::Relaxed) > 10);
                set(&mut client, "yes");
                assert_eq!(server.info_number("aof_enabled"), 1, "{setup:?}");
                wait_until_begun(&server);
                let then = counted.load(Ordering::Relaxed);
                wait_until("more writes", || counted.load(Ordering::Relaxed) > then + 10);
                ends.store(true, Ordering::Relaxed);
            });
            assert!(server.info_number("aof_current_size") > 0 && server.info_number("aof_segments") > 0);
            client.expect("SET last 1", "+OK\r\n");
            let acknowledged = counted.load(Ordering::Relaxed);
            let data = server.kill();
            let server = data.start(setup, &LOG);
            let mut client = server.client();
            client.expect("GET last", "$1\r\n1\r\n");
            assert_eq!(client.value(&["GET", "counted"]).text(), acknowledged.to_string(), "{setup:?} {policy}");
            let groups = client.value(&["MGET", "{a}m", "{b}m", "{c}m"]).byte_strings();
            assert!(groups.iter().all(|value| value == acknowledged.to_string().as_bytes()), "{setup:?} {groups:?}");
            client.expect("DEL last counted {a}m {b}m {c}m", ":5\r\n");
            assert_filled_alike(&mut client, &mut filled(setup).client());
        }
    }
}

#[test]
fn a_log_whose_directory_was_removed_begins_again_on_request() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &LOG);
        let mut client = server.client();
        client.expect("SET a 1", "+OK\r\n");
        std::fs::remove_dir_all(server.data().path().join("appendonlydir")).unwrap();
        set(&mut client, "no");
        wait_until_ended(&server);
        set(&mut client, "yes");
        wait_until_begun(&server);
        client.expect("SET b 2", "+OK\r\n");
        let server = server.kill().start(setup, &LOG);
        server.client().expect("MGET a b", "*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
    }
}

/// So many keys that a snapshot of them takes a while.
const KEYS: i64 = 300_000;

fn add_keys(client: &mut Client) {
    for first in (0..KEYS).step_by(1000) {
        let pairs = (first..first + 1000).flat_map(|number| [format!("key:{number}"), "value".to_owned()]);
        client.value(&std::iter::once("MSET".to_owned()).chain(pairs).collect::<Vec<_>>());
    }
}

#[test]
fn a_signal_while_a_first_log_is_written_ends_the_server_when_that_has_all_of_the_data() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &NO_LOG);
        let mut client = server.client();
        add_keys(&mut client);
        set(&mut client, "yes");
        wait_until("the log is written", || server.info_number("aof_rewrite_in_progress") == 1);
        expect_error(&mut client, "SHUTDOWN", "ERR Errors trying to SHUTDOWN.");
        server.signal("TERM");
        let (status, data, log) = server.wait_for_end();
        assert!(status.success() && log.contains("the server ends when it is written"), "{setup:?}: {log}");
        let server = data.start(setup, &LOG);
        assert_eq!(server.client().value(&["DBSIZE"]).integer(), KEYS, "{setup:?}");
    }
}

#[test]
fn a_server_whose_first_log_waits_for_a_snapshot_ends_when_that_log_has_all_of_the_data() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &NO_LOG);
        let mut client = server.client();
        add_keys(&mut client);
        client.expect("BGSAVE", "+Background saving started\r\n");
        set(&mut client, "yes");
        expect_error(&mut client, "SHUTDOWN", "ERR Errors trying to SHUTDOWN.");
        server.signal("TERM");
        let (status, data, log) = server.wait_for_end();
        assert!(status.success() && log.contains("has begun"), "{setup:?}: {log}");
        let server = data.start(setup, &LOG);
        assert_eq!(server.client().value(&["DBSIZE"]).integer(), KEYS, "{setup:?}");
    }
}

/// Until the next try the data is in no log.
#[test]
fn a_server_whose_first_log_has_failed_does_not_end_before_another_try_has_all_of_the_data() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &NO_LOG);
        let mut client = server.client();
        client.expect("SET key value", "+OK\r\n");
        server.limit_files(0);
        set(&mut client, "yes");
        wait_until("the log has failed", || server.info()["aof_last_bgrewrite_status"] == "err");
        wait_until("it has ended", || server.info_number("aof_rewrite_in_progress") == 0);
        expect_error(&mut client, "SHUTDOWN", "ERR Errors trying to SHUTDOWN.");
        server.signal("TERM");
        server.wait_for_log("the server ends when it is written");
        server.limit_files(u64::MAX);
        let (status, data, log) = server.wait_for_end();
        assert!(status.success() && log.contains("has begun"), "{setup:?}: {log}");
        let server = data.start(setup, &LOG);
        server.client().expect("GET key", "$5\r\nvalue\r\n");
    }
}

/// A server that holds exactly what `fill` makes.
fn filled(setup: Setup) -> Server {
    let server = Server::start(setup, &NO_LOG);
    fill(&mut server.client());
    server
}

#[test]
fn a_log_that_ends_has_what_was_written_before_and_nothing_of_what_comes_after() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &LOG);
        let mut client = server.client();
        client.expect("MSET {a}1 x {b}2 y {c}3 z", "+OK\r\n");
        set(&mut client, "no");
        assert_eq!(server.info_number("aof_enabled"), 0, "{setup:?}");
        wait_until_ended(&server);
        client.expect("SET after 1", "+OK\r\n");
        client.expect("MSET {a}1 no {b}2 no {c}3 no", "+OK\r\n");
        client.expect("MULTI", "+OK\r\n");
        client.expect("SET {a}4 1", "+QUEUED\r\n");
        client.expect("SET {b}5 1", "+QUEUED\r\n");
        client.expect("EXEC", "*2\r\n+OK\r\n+OK\r\n");
        expect_error(&mut client, "WAITAOF 1 0 10", "ERR WAITAOF cannot be used");
        let server = server.kill().start(setup, &LOG);
        let mut client = server.client();
        client.expect("MGET {a}1 {b}2 {c}3", "*3\r\n$1\r\nx\r\n$1\r\ny\r\n$1\r\nz\r\n");
        assert_eq!(server.info_number("aof_enabled"), 1);
        client.expect("DBSIZE", ":3\r\n");
    }
}

#[test]
fn a_log_begins_again_where_one_has_ended_and_takes_its_place() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &[&LOG[..], &["--enable-debug-command", "yes"]].concat());
        let mut client = server.client();
        for round in 0..3 {
            client.expect(&format!("SET {{a}}logged {round}"), "+OK\r\n");
            set(&mut client, "no");
            wait_until_ended(&server);
            client.expect(&format!("SET {{b}}unlogged {round}"), "+OK\r\n");
            set(&mut client, "yes");
            let begun = |server: &Server| server.log().matches("has begun").count();
            wait_until("the log", || begun(&server) == round + 1 && server.info_number("aof_rewrite_in_progress") == 0);
            client.expect("BGREWRITEAOF", "+Background append only file rewriting started\r\n");
            wait_until("the rewriting", || {
                server.info_number("aof_rewrites") == 2 * (round as u64 + 1)
                    && server.info_number("aof_rewrite_in_progress") == 0
            });
        }
        client.expect("WAITAOF 1 0 5000", "*2\r\n:1\r\n:0\r\n");
        client.expect("DEBUG LOADAOF", "+OK\r\n");
        let log_dir = server.data().path().join("appendonlydir");
        assert!(!log_dir.with_extension("old-1").exists(), "what it has written itself is not kept");
        let (status, data, log) = server.stop();
        assert!(status.success(), "{log}");
        let server = data.start(setup, &LOG);
        server.client().expect("MGET {a}logged {b}unlogged", "*2\r\n$1\r\n2\r\n$1\r\n2\r\n");
    }
}

/// As in Redis: later changes are in no log.
#[test]
fn where_there_is_no_log_bgrewriteaof_writes_what_there_is_of_the_data() {
    for setup in EVERY_ENGINE {
        for policy in ["everysec", "always"] {
            let flags = [&NO_LOG[..], &["--enable-debug-command", "yes", "--appendfsync", policy]].concat();
            let server = Server::start(setup, &flags);
            let mut client = server.client();
            fill(&mut client);
            wait_until("what has expired is gone", || server.info_number("expired_keys") == 1);
            // The second replaces the first.
            for round in 1..=2 {
                client.expect(&format!("MSET {{a}}m {round} {{b}}m {round} {{c}}m {round}"), "+OK\r\n");
                client.expect("BGREWRITEAOF", "+Background append only file rewriting started\r\n");
                wait_until("the rewriting", || {
                    server.info_number("aof_rewrites") == round && server.info_number("aof_rewrite_in_progress") == 0
                });
                let info = server.info();
                let shown = ["aof_enabled", "aof_last_bgrewrite_status", "aof_segments"].map(|field| &info[field]);
                assert_eq!(shown, ["0", "ok", "0"], "{setup:?}");
            }
            let digest = client.value(&["DEBUG", "DIGEST"]);
            client.expect("SET after 1", "+OK\r\n");
            client.expect("DEBUG LOADAOF", "+OK\r\n");
            assert_eq!(client.value(&["DEBUG", "DIGEST"]), digest, "{setup:?} {policy}");
            client.expect("WAITAOF 0 0 1", "*2\r\n:0\r\n:0\r\n");
            expect_error(&mut client, "WAITAOF 1 0 10", "ERR WAITAOF cannot be used");
            client.expect("SET after 1", "+OK\r\n");
            let server = server.kill().start(setup, &LOG);
            let mut client = server.client();
            client.expect("GET after", "$-1\r\n");
            client.expect("DEL {a}m {b}m {c}m", ":3\r\n");
            assert_filled_alike(&mut client, &mut filled(setup).client());
        }
    }
}

#[test]
fn a_log_that_was_asked_for_meanwhile_continues_after_bgrewriteaof() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &NO_LOG);
        let mut client = server.client();
        fill(&mut client);
        let requests = [vec!["BGREWRITEAOF"], vec!["CONFIG", "SET", "appendonly", "yes"]];
        assert!(client.pipeline(&requests).iter().all(|reply| !matches!(reply, Value::Error(_))));
        wait_until("the log", || server.log().contains("has begun") && server.info_number("aof_enabled") == 1);
        client.expect("SET after 1", "+OK\r\n");
        client.expect("WAITAOF 1 0 5000", "*2\r\n:1\r\n:0\r\n");
        let server = server.kill().start(setup, &LOG);
        server.client().expect("GET after", "$1\r\n1\r\n");
    }
}

#[test]
fn bgrewriteaof_is_refused_where_there_can_be_no_log() {
    for setup in EVERY_ENGINE {
        let data = Data::new();
        std::fs::write(data.path().join("appendonlydir"), "somebody's").unwrap();
        let server = data.start(setup, &NO_LOG);
        let refusal = "-ERR Can't execute an AOF background rewriting. Please check the server logs for more \
                       information.\r\n";
        server.client().expect("BGREWRITEAOF", refusal);
        server.wait_for_log("appendonlydir");
        assert_eq!(server.info_number("aof_rewrite_in_progress"), 0);
        server.assert_serving();
    }
}

#[test]
fn what_is_in_the_directory_of_a_log_that_begins_is_kept_under_another_name() {
    for setup in EVERY_ENGINE {
        // A log of ours that this server has not read.
        let server = Server::start(setup, &LOG);
        server.client().expect("SET old 1", "+OK\r\n");
        let (_, data, _) = server.stop();
        let server = data.start(setup, &NO_LOG);
        let mut client = server.client();
        client.expect("DBSIZE", ":0\r\n");
        client.expect("SET new 1", "+OK\r\n");
        set(&mut client, "yes");
        wait_until_begun(&server);
        server.wait_for_log("it is kept as");
        let data = server.kill();
        let server = data.start(setup, &LOG);
        server.client().expect("MGET old new", "*2\r\n$-1\r\n$1\r\n1\r\n");
        let server = server.kill().start(setup, &[&LOG[..], &["--appenddirname", "appendonlydir.old-1"]].concat());
        server.client().expect("MGET old new", "*2\r\n$1\r\n1\r\n$-1\r\n");
        // Files of a Redis, whatever they hold.
        let data = Data::new();
        let dir = data.path().join("appendonlydir");
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("appendonly.aof.manifest"), "file appendonly.aof.1.incr.aof seq 1 type i\n").unwrap();
        let server = data.start(setup, &NO_LOG);
        set(&mut server.client(), "yes");
        wait_until_begun(&server);
        assert!(server.data().path().join("appendonlydir.old-1/appendonly.aof.manifest").exists());
    }
}

#[test]
fn a_kill_before_a_log_is_whole_leaves_what_there_was_before() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &NO_LOG);
        let mut client = server.client();
        let keys: Vec<Vec<String>> =
            (0..60_000).map(|key| vec!["SET".to_owned(), format!("key:{key}"), "value".to_owned()]).collect();
        keys.chunks(10_000).for_each(|chunk| drop(client.pipeline(chunk)));
        client.expect("SAVE", "+OK\r\n");
        set(&mut client, "yes");
        let note = server.data().path().join("appendonlydir/shardrace.beginning");
        wait_until("the beginning", || note.exists() || server.log().contains("has begun"));
        client.expect("SET later 1", "+OK\r\n");
        let is_whole = server.log().contains("has begun");
        let data = server.kill();
        // With a log and without one the snapshot counts, unless the log was whole after all.
        let server = data.start(setup, &LOG);
        let size = server.client().value(&["DBSIZE"]).integer();
        assert!(size == 60_000 || size == 60_001, "{setup:?}: {size}");
        assert!(size == 60_001 || !is_whole, "{setup:?}: what was acknowledged beside a whole log is there");
        assert!(!note.exists(), "{setup:?}");
    }
}

#[test]
fn config_rewrite_keeps_the_log_that_was_set() {
    for setup in EVERY_ENGINE {
        let data = Data::new();
        let file = data.path().join("redis.conf");
        std::fs::write(&file, "appendonly no\nsave \"\"\n").unwrap();
        let path = file.to_str().unwrap().to_owned();
        let start = |data: Data| {
            let mut command = std::process::Command::new(harness::server::binary());
            command.arg(&path).args(harness::server::arguments(&data, setup));
            Server::spawn(&mut command, data, setup)
        };
        let server = start(data);
        let mut client = server.client();
        client.expect("SET a 1", "+OK\r\n");
        set(&mut client, "yes");
        client.expect("CONFIG REWRITE", "+OK\r\n");
        wait_until_begun(&server);
        let server = start(server.kill());
        assert_eq!(server.info_number("aof_enabled"), 1, "{setup:?}");
        let mut client = server.client();
        client.expect("GET a", "$1\r\n1\r\n");
        set(&mut client, "no");
        client.expect("CONFIG REWRITE", "+OK\r\n");
        wait_until_ended(&server);
        let server = start(server.kill());
        assert_eq!(server.info_number("aof_enabled"), 0, "{setup:?}");
        // There is no snapshot, and the log does not count.
        server.client().expect("GET a", "$-1\r\n");
    }
}

#[test]
fn a_log_that_cannot_begin_is_refused_and_nothing_is_changed() {
    for setup in EVERY_ENGINE {
        let data = Data::new();
        std::fs::write(data.path().join("appendonlydir"), "a file").unwrap();
        let server = data.start(setup, &NO_LOG);
        let mut client = server.client();
        client.expect(
            "CONFIG SET hz 20 appendonly yes",
            "-ERR CONFIG SET failed (possibly related to argument 'appendonly') - Unable to turn on AOF. Check server \
             logs.\r\n",
        );
        client.expect("CONFIG GET hz", "*2\r\n$2\r\nhz\r\n$2\r\n10\r\n");
        client.expect("CONFIG GET appendonly", "*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n");
        server.wait_for_log("There can be no log");
        assert_eq!(server.info_number("aof_enabled"), 0);
        assert_eq!(std::fs::read(server.data().path().join("appendonlydir")).unwrap(), b"a file");
        client.expect("SET a 1", "+OK\r\n");
    }
}

#[test]
fn save_points_and_snapshots_go_on_while_a_log_begins_and_ends() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &["--appendonly", "no", "--save", "1 1"]);
        let mut client = server.client();
        client.expect("SET a 1", "+OK\r\n");
        set(&mut client, "yes");
        wait_until_begun(&server);
        wait_until("a snapshot", || server.info_number("rdb_saves") >= 1);
        client.expect("SET b 1", "+OK\r\n");
        set(&mut client, "no");
        wait_until_ended(&server);
        client.expect("SET c 1", "+OK\r\n");
        let (status, data, log) = server.stop();
        assert!(status.success(), "{log}");
        // The snapshot has everything, the log only what came before its end.
        let server = data.start(setup, &NO_LOG);
        server.client().expect("EXISTS a b c", ":3\r\n");
        let server = server.kill().start(setup, &LOG);
        server.client().expect("EXISTS a b c", ":2\r\n");
    }
}

#[test]
fn a_log_that_is_wanted_again_before_it_has_ended_begins_anew_and_info_shows_it() {
    const BUSY: &str = "local n = 0 while n < 20000000 do n = n + 1 end return redis.call('GET', 'x')";
    for setup in [EVERY_ENGINE[0], EVERY_ENGINE[1], EVERY_ENGINE[3]] {
        let server = Server::start(setup, &LOG);
        let mut client = server.client();
        client.expect("SET x 1", "+OK\r\n");
        client.expect("BGREWRITEAOF", "+Background append only file rewriting started\r\n");
        wait_until("the rewriting", || {
            server.info_number("aof_rewrites") == 1 && server.info_number("aof_rewrite_in_progress") == 0
        });
        let mut busy = server.client();
        // It holds all keys, so the log cannot end meanwhile.
        busy.send(&harness::request(&["EVAL", BUSY, "0"]));
        std::thread::sleep(std::time::Duration::from_millis(50));
        set(&mut client, "no");
        std::thread::sleep(std::time::Duration::from_millis(150));
        set(&mut client, "yes");
        assert_eq!(busy.reply(), b"$1\r\n1\r\n");
        wait_until("the log", || server.info_number("aof_rewrite_in_progress") == 0);
        client.expect("SET x 2", "+OK\r\n");
        let server = server.kill().start(setup, &LOG);
        server.client().expect("GET x", "$1\r\n2\r\n");
    }
}
