//! Effects of a connection on others and itself: CLIENT KILL, REPLY and PAUSE, MONITOR, SHUTDOWN.

use harness::{
    Client, EVERY_ENGINE, Embedded, RedisOracle, Server, Setup, check_same_as_redis, check_script, on_every_engine,
    wait_until, words,
};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

#[test]
fn there_are_no_modules_as_in_a_redis_that_permits_none() {
    let requests = [
        "MODULE LIST",
        "MODULE LIST x",
        "MODULE LOAD",
        "MODULE LOAD /x.so",
        "MODULE LOAD /x.so a b",
        "MODULE LOADEX /x.so",
        "MODULE LOADEX /x.so CONFIG a b ARGS c",
        "MODULE UNLOAD",
        "MODULE UNLOAD x",
        "MODULE UNLOAD x y",
        "MODULE",
        "MODULE nope",
    ];
    check_same_as_redis(&requests.map(words));
}

#[test]
fn refusals_are_redis_s() {
    check_script(
        r#"
        CLIENT KILL
        -ERR wrong number of arguments for 'client\x7ckill' command
        CLIENT KILL 1.2.3.4:5
        -ERR No such client
        CLIENT KILL ID 10 more
        -ERR syntax error
        CLIENT KILL ID x
        -ERR client-id should be greater than 0
        CLIENT KILL ID 0
        -ERR client-id should be greater than 0
        !CLIENT KILL MAXAGE x
        -ERR maxage is not an integer or out of range
        !CLIENT KILL MAXAGE 0
        -ERR maxage should be greater than 0
        CLIENT KILL TYPE none
        -ERR Unknown client type 'none'
        CLIENT KILL USER none
        -ERR No such user 'none'
        CLIENT KILL SKIPME perhaps
        -ERR syntax error
        CLIENT KILL ID 99999
        :0
        CLIENT KILL TYPE replica ADDR 1.2.3.4:5
        :0
        CLIENT REPLY perhaps
        -ERR syntax error
        CLIENT PAUSE x
        -ERR timeout is not an integer or out of range
        CLIENT PAUSE -1
        -ERR timeout is negative
        CLIENT PAUSE 0 x
        -ERR CLIENT PAUSE mode must be WRITE or ALL
        CLIENT UNPAUSE
        +OK
        SHUTDOWN x
        -ERR syntax error
        SHUTDOWN SAVE NOSAVE
        -ERR syntax error
        SHUTDOWN ABORT NOW
        -ERR syntax error
        SHUTDOWN ABORT
        -ERR No shutdown in progress.
        SHUTDOWN ABORT abort
        -ERR No shutdown in progress.
        MULTI
        +OK
        SHUTDOWN
        -ERR Command not allowed inside a transaction
        DISCARD
        +OK
        "#,
    );
}

#[test]
fn connections_are_killed_by_what_is_known_of_them() {
    on_every_engine(|server| {
        let mut me = server.client();
        let mut others = [server.client(), server.client(), server.client()];
        let id = others[0].value(&["CLIENT", "ID"]).integer().to_string();
        others[1].call(&["SUBSCRIBE", "c"]);
        others[2].expect("PING", "+PONG\r\n");
        // The last filter of a kind counts.
        me.expect(&format!("CLIENT KILL ID {id} ID 99999"), ":0\r\n");
        me.expect(&format!("CLIENT KILL ID 99999 TYPE replica ID {id} TYPE normal"), ":1\r\n");
        me.expect(&format!("CLIENT KILL ID {id}"), ":0\r\n");
        me.expect("CLIENT KILL TYPE normal TYPE pubsub", ":1\r\n");
        let address = others[2].stream().local_addr().expect("connected").to_string();
        me.expect(&format!("CLIENT KILL {address}"), "+OK\r\n");
        assert!(others.iter_mut().all(Client::is_closed));
        assert_eq!(server.info_number("connected_clients"), 2, "this one and that which asks");
        let mut old = server.client();
        std::thread::sleep(Duration::from_millis(1100));
        let mut young = server.client();
        me.expect("CLIENT KILL MAXAGE 3600", ":0\r\n");
        me.expect("CLIENT KILL MAXAGE 1", ":1\r\n");
        assert!(old.is_closed());
        young.expect("PING", "+PONG\r\n");
        drop(young);
        wait_until("it is gone", || server.info_number("connected_clients") == 2);
        // It gets no replies to later requests.
        me.send(b"CLIENT KILL SKIPME no\r\nPING\r\n");
        // The connection that requested the number may still exist.
        let reply = me.until_closed();
        assert!(reply == b":1\r\n" || reply == b":2\r\n", "{}", reply.escape_ascii());
        server.assert_serving();
    });
}

#[test]
fn a_monitor_that_quits_is_shown_nothing_after_its_reply() {
    on_every_engine(|server| {
        let (mut monitor, mut other) = (server.client(), server.client());
        monitor.expect("MONITOR", "+OK\r\n");
        other.expect("MONITOR", "+OK\r\n");
        server.client().expect("SET k v", "+OK\r\n");
        monitor.send(b"PING\r\nQUIT\r\n");
        let shown = String::from_utf8(monitor.until_closed()).expect("text");
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines[0].ends_with("\"SET\" \"k\" \"v\""), "{shown}");
        assert!(lines.ends_with(&["+OK"]) && !shown.contains("QUIT"), "{shown}");
        assert!((0..3).any(|_| other.value_of_next().text().ends_with("\"PING\"")));
        assert!(other.value_of_next().text().ends_with("\"QUIT\""));
    });
}

#[test]
fn replies_that_nobody_wants_are_left_out_and_the_others_keep_their_order() {
    const REQUESTS: &str = "SET a 1|CLIENT REPLY SKIP|GET a|GET a|CLIENT REPLY SKIP|CLIENT REPLY ON|MGET a b|\
        CLIENT REPLY OFF|SET b 2|MGET a b|NOSUCH|MSET a 5 c 6|MULTI|INCR a|EXEC|BLPOP list 0.01|CLIENT REPLY SKIP|PING|\
        CLIENT REPLY ON|MGET a b c|CLIENT REPLY SKIP|MULTI|INCR a|CLIENT REPLY SKIP|EXEC|GET a|\
        CLIENT REPLY OFF|SUBSCRIBE c|CLIENT REPLY ON|PING|UNSUBSCRIBE c|CLIENT REPLY ON|PING last";
    let bytes: Vec<u8> = REQUESTS.split('|').flat_map(|line| harness::request(&words(line))).collect();
    let end = b"$4\r\nlast\r\n";
    let replies = |mut client: Client| {
        client.send(&bytes);
        let mut replies = Vec::new();
        while !replies.ends_with(end) {
            replies.extend(client.reply());
        }
        String::from_utf8(replies).expect("text")
    };
    let oracle = RedisOracle::start();
    let expected = replies(oracle.client());
    on_every_engine(|server| assert_eq!(replies(server.client()), expected));
}

#[test]
fn reset_ends_an_off_an_empty_request_ends_a_skip_and_a_transaction_may_switch_between_two_replies() {
    let cases = [
        "CLIENT REPLY OFF|RESET|ECHO a",
        "CLIENT REPLY OFF|RESET x|ECHO a",
        "CLIENT REPLY SKIP|RESET|ECHO a",
        "CLIENT REPLY OFF|CLIENT REPLY SKIP|RESET|ECHO a",
        "CLIENT REPLY SKIP||PING|ECHO a",
        "CLIENT REPLY SKIP|*0|PING|ECHO a",
        "CLIENT REPLY SKIP|*-1|PING|ECHO a",
        "CLIENT REPLY OFF||*0|PING",
        "GET a|CLIENT REPLY SKIP|*0|GET a|CLIENT REPLY SKIP|GET a|ECHO a",
        "MULTI|CLIENT REPLY OFF|PING|EXEC|PING",
        "MULTI|SET a 1|CLIENT REPLY OFF|GET a|CLIENT REPLY ON|GET a|EXEC|PING",
        "MULTI|PING|CLIENT REPLY SKIP|PING|EXEC|PING|ECHO a",
        "CLIENT REPLY OFF|MULTI|CLIENT REPLY ON|GET a|EXEC|PING",
        "CLIENT REPLY OFF|MULTI|GET a|EXEC|MULTI|CLIENT REPLY ON|DISCARD|PING",
        "CLIENT REPLY SKIP|MULTI|CLIENT REPLY ON|PING|CLIENT REPLY SKIP|EXEC|PING|ECHO a",
        "CLIENT REPLY OFF|SUBSCRIBE|PING",
        "CLIENT REPLY OFF|MULTI|SUBSCRIBE c|SET a 1|UNSUBSCRIBE c|EXEC|PING",
        "CLIENT REPLY SKIP|PING|*x",
        "CLIENT REPLY SKIP|*x",
        "CLIENT REPLY OFF|*x",
    ];
    let replies = |case: &str, mut client: Client| {
        client.send(format!("DEL a\r\n{}\r\nCLIENT REPLY ON\r\nQUIT\r\n", case.replace('|', "\r\n")).as_bytes());
        client.until_closed().escape_ascii().to_string()
    };
    let oracle = RedisOracle::start();
    let expected = cases.map(|case| replies(case, oracle.client()));
    assert!(expected[0].contains("RESET") && !expected[2].contains("RESET"), "{expected:?}");
    for (setup, multi_key) in EVERY_ENGINE.into_iter().flat_map(|setup| [(setup, "atomic"), (setup, "relaxed")]) {
        let server = Embedded::start(setup, &["--multi-key", multi_key]);
        for (case, expected) in cases.iter().zip(&expected) {
            assert_eq!(replies(case, server.client()), *expected, "{setup:?}, {multi_key}: {case}");
        }
    }
}

#[test]
fn a_pause_holds_writes_or_everything_and_ends() {
    on_every_engine(|server| {
        let (mut me, mut writer, mut reader) = (server.client(), server.client(), server.client());
        me.expect("CLIENT PAUSE 100000 WRITE", "+OK\r\n");
        reader.expect("GET a", "$-1\r\n");
        writer.send(b"GET a\r\nSET a 1\r\nGET a\r\n");
        assert_eq!(writer.reply(), b"$-1\r\n");
        assert!(writer.is_silent());
        wait_until("the writer is blocked", || server.info_number("blocked_clients") == 1);
        reader.expect("GET a", "$-1\r\n");
        me.expect("CLIENT UNPAUSE", "+OK\r\n");
        assert_eq!(writer.reply(), b"+OK\r\n");
        assert_eq!(writer.reply(), b"$1\r\n1\r\n");
        let start = Instant::now();
        me.expect("CLIENT PAUSE 60", "+OK\r\n");
        reader.expect("PING", "+PONG\r\n");
        assert!(start.elapsed() >= Duration::from_millis(55));
        assert_eq!(server.info_number("blocked_clients"), 0);
    });
}

#[test]
fn a_write_that_a_pause_holds_does_not_run_for_a_client_that_was_killed_or_has_closed() {
    on_every_engine(|server| {
        let (mut me, mut killed, mut closed) = (server.client(), server.client(), server.client());
        let id = killed.value(&["CLIENT", "ID"]).integer();
        me.expect("CLIENT PAUSE 100000 WRITE", "+OK\r\n");
        killed.send(b"SET killed 1\r\n");
        closed.send(b"SET closed 1\r\n");
        wait_until("both are blocked", || server.info_number("blocked_clients") == 2);
        me.expect(&format!("CLIENT KILL ID {id}"), ":1\r\n");
        drop(closed);
        wait_until("both are gone", || {
            server.info_number("blocked_clients") == 0 && server.info_number("connected_clients") <= 2
        });
        me.expect("CLIENT UNPAUSE", "+OK\r\n");
        me.expect("SET kept 1", "+OK\r\n");
        me.expect("EXISTS killed closed kept", ":1\r\n");
    });
}

/// The pause ends before anything of the killed connection can be seen to end.
#[test]
fn what_a_pause_holds_does_not_run_when_its_client_is_killed_and_the_pause_ends_at_once() {
    on_every_engine(|server| {
        let (mut me, mut killed) = (server.client(), server.client());
        let id = killed.value(&["CLIENT", "ID"]).integer();
        for round in 0..20 {
            let mut killed = if round == 0 { std::mem::replace(&mut killed, server.client()) } else { server.client() };
            let id = if round == 0 { id } else { killed.value(&["CLIENT", "ID"]).integer() };
            me.expect("CLIENT PAUSE 100000 WRITE", "+OK\r\n");
            killed.send(b"SET killed 1\r\n");
            wait_until("it is blocked", || server.info_number("blocked_clients") == 1);
            me.send(format!("CLIENT KILL ID {id}\r\nCLIENT UNPAUSE\r\n").as_bytes());
            assert_eq!(me.values(2).len(), 2);
            assert!(killed.is_closed());
            me.expect("EXISTS killed", ":0\r\n");
        }
    });
}

#[test]
fn what_a_muted_client_has_sent_before_it_was_killed_does_not_go_on() {
    /// Of a read, which may be under way when it is killed, and of one before.
    const LATE_MAX: i64 = 2 * 64 * 1024 / 8;
    on_every_engine(|server| {
        let (mut me, mut killed) = (server.client(), server.client());
        let id = killed.value(&["CLIENT", "ID"]).integer();
        killed.send(b"CLIENT REPLY OFF\r\n");
        let requests = b"INCR x\r\n".repeat(1_000_000);
        let mut stream = killed.stream().try_clone().unwrap();
        // It ends with an error when the connection does.
        let writer = std::thread::spawn(move || std::io::Write::write_all(&mut stream, &requests));
        wait_until("it has begun", || me.value(&["EXISTS", "x"]).integer() == 1);
        me.send(format!("CLIENT KILL ID {id}\r\nINCRBY x 0\r\n").as_bytes());
        let replies: Vec<i64> = me.values(2).iter().map(harness::Value::integer).collect();
        let _ = writer.join().unwrap();
        std::thread::sleep(Duration::from_millis(300));
        let late = me.value(&["INCRBY", "x", "0"]).integer() - replies[1];
        assert!(replies[0] == 1 && late <= LATE_MAX, "{late} after it was killed");
    });
}

#[test]
fn a_pause_lets_no_key_expire_and_no_message_go() {
    on_every_engine(|server| {
        let (mut me, mut publisher) = (server.client(), server.client());
        me.expect("SET a 1 PX 500", "+OK\r\n");
        me.expect("SET b 1 PX 500", "+OK\r\n");
        me.expect("CLIENT PAUSE 100000 WRITE", "+OK\r\n");
        publisher.send(b"PUBLISH c m\r\n");
        wait_until("the publisher is blocked", || server.info_number("blocked_clients") == 1);
        wait_until("their time has come", || me.call(&["MGET", "a", "b"]) == b"*2\r\n$-1\r\n$-1\r\n");
        std::thread::sleep(Duration::from_millis(150));
        assert_eq!(server.info_number("expired_keys"), 0);
        me.expect("DBSIZE", ":2\r\n");
        me.expect("CLIENT UNPAUSE", "+OK\r\n");
        assert_eq!(publisher.reply(), b":0\r\n");
        me.expect("GET a", "$-1\r\n");
        wait_until("the other goes by itself", || server.info_number("expired_keys") == 2);
    });
}

#[test]
fn a_monitor_sees_the_commands_of_all() {
    on_every_engine(|server| {
        let mut monitor = server.client();
        monitor.expect("MONITOR", "+OK\r\n");
        let mut client = server.client();
        let address = client.stream().local_addr().expect("connected").to_string();
        client.expect("SET foo \"a b\\n\\x00\"", "+OK\r\n");
        client.expect("SELECT 3", "+OK\r\n");
        client.call(&["AUTH", "user", "password"]);
        client.call(&["CONFIG", "GET", "port"]);
        client.call(&["NOSUCH"]);
        client.expect("CONFIG SET slowlog-log-slower-than 0", "+OK\r\n");
        client.expect("CONFIG SET masterauth hidden masteruser hidden hz 11 requirepass \"\"", "+OK\r\n");
        client.expect("CONFIG SET slowlog-log-slower-than -1 masterauth \"\" masteruser \"\"", "+OK\r\n");
        let logged = String::from_utf8(client.call(&["SLOWLOG", "GET"])).expect("text");
        assert!(!logged.contains("hidden") && logged.contains("(redacted)") && logged.contains("11"), "{logged}");
        for line in ["MULTI", "GET foo", "EXEC", "PING"] {
            client.call(&words(line));
        }
        for (database, wanted) in [
            (0, r#""SET" "foo" "a b\n\x00""#),
            (3, r#""SELECT" "3""#),
            (3, r#""AUTH" "(redacted)" "(redacted)""#),
            (3, r#""MULTI""#),
            (3, r#""GET" "foo""#),
            (3, r#""EXEC""#),
            (3, r#""PING""#),
        ] {
            let line = String::from_utf8(monitor.reply()).expect("text");
            let (time, shown) = line.split_once(' ').expect("a time");
            assert!(time.starts_with("+1") && time.contains('.'), "{line}");
            assert_eq!(shown, format!("[{database} {address}] {wanted}\r\n"));
        }
        assert!(client.value(&["CLIENT", "LIST"]).text().contains("flags=O"));
        for refused in ["GET foo", "SET foo 1", "PUBLISH c m", "SPUBLISH c m", "EVAL \"return 1\" 0", "PFCOUNT foo"] {
            monitor.expect(refused, "-ERR Replica can't interact with the keyspace\r\n");
        }
        monitor.expect("PING", "+PONG\r\n");
        assert!(String::from_utf8(monitor.reply()).expect("text").ends_with("\"PING\"\r\n"));
        monitor.expect("RESET", "+RESET\r\n");
        client.expect("PING", "+PONG\r\n");
        assert!(monitor.is_silent());
    });
}

#[test]
fn a_monitor_that_reads_nothing_has_the_limit_of_clients_without_a_subscription() {
    on_every_engine(|server| {
        let mut client = server.client();
        // Pages that fill the buffers of the sockets come first.
        let line = "x".repeat(64 << 10);
        client.expect("CONFIG SET client-output-buffer-limit \"pubsub 0 0 0 normal 1000000 0 0\"", "+OK\r\n");
        let mut monitor = server.client();
        let id = monitor.value(&["CLIENT", "ID"]).integer().to_string();
        monitor.expect("MONITOR", "+OK\r\n");
        let is_there = |client: &mut Client| !client.value(&["CLIENT", "LIST", "ID", &id]).text().is_empty();
        let sent = (0..2000).find(|_| {
            client.call(&["ECHO", &line]);
            !is_there(&mut client)
        });
        assert!(sent.is_some(), "it has 128 MB to read");
        client.expect("CONFIG SET client-output-buffer-limit \"normal 0 0 0 pubsub 32mb 8mb 60\"", "+OK\r\n");
    });
}

#[test]
fn a_monitor_sees_of_a_transaction_what_runs_when_it_runs_and_then_exec() {
    on_every_engine(|server| {
        let mut monitor = server.client();
        monitor.expect("MONITOR", "+OK\r\n");
        let mut client = server.client();
        let address = client.stream().local_addr().expect("connected").to_string();
        let mut shown = |wanted: &[(&str, &str)]| {
            for (place, wanted) in wanted {
                let line = String::from_utf8(monitor.reply()).expect("text");
                let shown = line.split_once(' ').expect("a time").1.trim_end();
                let place = place.replace("me", &address);
                assert_eq!(shown, format!("[{place}] {wanted}"));
            }
        };
        let send = |client: &mut Client, lines: &[&str]| {
            for line in lines {
                client.call(&words(line));
            }
        };
        send(&mut client, &["MULTI", "SELECT 2", "SET a 1", r#"EVAL "redis.call('incr','a')" 0"#, "PING", "exec"]);
        shown(&[
            ("0 me", r#""MULTI""#),
            ("2 me", r#""SELECT" "2""#),
            ("2 me", r#""SET" "a" "1""#),
            ("2 me", r#""EVAL" "redis.call('incr','a')" "0""#),
            ("2 lua", r#""incr" "a""#),
            ("2 me", r#""PING""#),
            ("2 me", r#""exec""#),
        ]);
        // What does not run is not shown.
        send(&mut client, &["WATCH a", "SET a 2", "MULTI", "SET b 3", "EXEC"]);
        shown(&[
            ("2 me", r#""WATCH" "a""#),
            ("2 me", r#""SET" "a" "2""#),
            ("2 me", r#""MULTI""#),
            ("2 me", r#""EXEC""#),
        ]);
        send(&mut client, &["MULTI", "SET b 3", "NOSUCH", "EXEC", "EXEC", "PING"]);
        shown(&[("2 me", r#""MULTI""#), ("2 me", r#""EXEC""#), ("2 me", r#""EXEC""#), ("2 me", r#""PING""#)]);
    });
}

#[test]
fn a_monitor_sees_a_transaction_whose_commands_take_effect_one_by_one_as_any_other() {
    for setup in EVERY_ENGINE {
        let server = Embedded::start(setup, &["--multi-key", "relaxed"]);
        let mut monitor = server.client();
        monitor.expect("MONITOR", "+OK\r\n");
        let mut client = server.client();
        for line in ["MULTI", "SET a 1", "SELECT 2", "INCR c", "PING", "EXEC"] {
            client.call(&words(line));
        }
        let wanted = [
            ("0", r#""MULTI""#),
            ("0", r#""SET" "a" "1""#),
            ("2", r#""SELECT" "2""#),
            ("2", r#""INCR" "c""#),
            ("2", r#""PING""#),
            ("2", r#""EXEC""#),
        ];
        for (database, wanted) in wanted {
            let line = String::from_utf8(monitor.reply()).expect("text");
            assert!(line.contains(&format!(" [{database} ")) && line.trim_end().ends_with(wanted), "{line}, {wanted}");
        }
    }
}

#[test]
fn a_monitor_sees_a_script_and_then_what_it_calls() {
    on_every_engine(|server| {
        let mut monitor = server.client();
        monitor.expect("MONITOR", "+OK\r\n");
        let script =
            "redis.call('set', 'a', 1) redis.call('select', 3) redis.pcall('get') return redis.call('get', 'a')";
        server.client().value(&["EVAL", script, "0"]);
        let mut next = || {
            let line = String::from_utf8(monitor.reply()).expect("text");
            line.split_once(' ').expect("a time").1.trim_end().to_owned()
        };
        assert!(next().ends_with(" \"0\""));
        for wanted in [r#"[0 lua] "set" "a" "1""#, r#"[3 lua] "select" "3""#, r#"[3 lua] "get" "a""#] {
            assert_eq!(next(), wanted);
        }
    });
}

#[test]
fn shutdown_ends_the_server_and_keeps_the_data() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &[]);
        let mut client = server.client();
        client.expect("SET a 1", "+OK\r\n");
        client.expect("CLIENT PAUSE 100000 WRITE", "+OK\r\n");
        let mut paused = server.client();
        paused.send(b"SET b 1\r\n");
        wait_until("it is paused", || server.info_number("blocked_clients") == 1);
        client.send(b"SHUTDOWN NOSAVE\r\n");
        assert_eq!(client.until_closed(), b"");
        // Whoever pauses writes may go on elsewhere: what waits is not acknowledged.
        assert_eq!(paused.until_closed(), b"", "{setup:?}");
        let (status, data, log) = server.wait_for_end();
        assert!(status.success(), "{log}");
        let server = data.start(setup, &[]);
        server.client().expect("GET a", "$1\r\n1\r\n");
        server.client().expect("EXISTS b", ":0\r\n");
    }
}

#[test]
fn commands_that_need_memory_are_refused_above_the_limit() {
    check_script(
        r#"
        SET a 1
        +OK
        CONFIG SET maxmemory 1
        +OK
        SET a 2
        -OOM command not allowed when used memory > 'maxmemory'.
        GET a
        $1 | 1
        MULTI
        +OK
        LPUSH list x
        -OOM command not allowed when used memory > 'maxmemory'.
        EXEC
        -EXECABORT Transaction discarded because of previous errors.
        # A queue takes memory, whatever is in it.
        MULTI
        +OK
        GET a
        -OOM command not allowed when used memory > 'maxmemory'.
        PING
        -OOM command not allowed when used memory > 'maxmemory'.
        EVAL "return 1" 0
        -OOM command not allowed when used memory > 'maxmemory'.
        MULTI
        -OOM command not allowed when used memory > 'maxmemory'.
        WATCH a
        -OOM command not allowed when used memory > 'maxmemory'.
        SAVE
        -ERR Command not allowed inside a transaction
        OBJECT NOSUCH
        -ERR unknown subcommand 'NOSUCH'. Try OBJECT HELP.
        EXEC
        -EXECABORT Transaction discarded because of previous errors.
        MULTI
        +OK
        EXEC
        *0
        MULTI
        +OK
        DISCARD
        +OK
        EVAL "return 1" 0
        :1
        CONFIG SET maxmemory 0
        +OK
        MULTI
        +OK
        SET a 3
        +QUEUED
        GET a
        +QUEUED
        EXEC
        *2 | +OK | $1 | 3
        "#,
    );
    // Commands queued before are refused when they would run.
    let server = Embedded::start(EVERY_ENGINE[0], &[]);
    let (mut client, mut other) = (server.client(), server.client());
    client.expect("MULTI", "+OK\r\n");
    client.expect("SET a 1", "+QUEUED\r\n");
    other.expect("CONFIG SET maxmemory 1", "+OK\r\n");
    let refusal =
        "-EXECABORT Transaction discarded because of: OOM command not allowed when used memory > 'maxmemory'.";
    client.expect("EXEC", &format!("{refusal}\r\n"));
    other.expect("DEL a", ":0\r\n");
}

#[test]
fn the_configuration_is_written_into_its_file() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), "# mine\nmaxclients 77\n").expect("written");
    let path = file.path().to_str().expect("a text path");
    let server = Server::start(EVERY_ENGINE[0], &[path]);
    let mut client = server.client();
    client.expect("CONFIG SET maxclients 78 hz 20", "+OK\r\n");
    client.expect("CONFIG REWRITE", "+OK\r\n");
    let text = std::fs::read_to_string(file.path()).expect("it is there");
    assert!(text.starts_with("# mine\nmaxclients 78\n# Generated by CONFIG REWRITE\n"), "{text}");
    assert!(text.contains("\nhz 20\n"), "{text}");
    // It can hold a password: who could not read it before cannot now.
    for mode in [0o600, 0o640, 0o644] {
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).expect("ours");
        client.expect("CONFIG REWRITE", "+OK\r\n");
        let after = std::fs::metadata(file.path()).expect("it is there").permissions().mode();
        assert_eq!(after & 0o777, mode, "{after:o}");
    }
    let without = Embedded::start(EVERY_ENGINE[0], &[]);
    without.client().expect("CONFIG REWRITE", "-ERR The server is running without a config file\r\n");
}

#[test]
fn a_client_killed_as_its_wait_ends_leaves_no_task_behind_and_the_server_ends() {
    for setup in EVERY_ENGINE {
        let server = Server::start(Setup { threads: 1, ..setup }, &["--enable-debug-command", "yes"]);
        let mut waiting = server.client();
        let id = waiting.value(&["CLIENT", "ID"]).integer();
        waiting.send(b"BLPOP nothing 0.3\r\n");
        let mut me = server.client();
        wait_until("it waits", || server.info_number("blocked_clients") == 1);
        // The one thread sleeps until the wait is over.
        me.send(format!("CLIENT KILL ID {id}\r\nMULTI\r\nDEBUG SLEEP 0.5\r\nEXEC\r\n").as_bytes());
        for reply in [&b":1\r\n"[..], b"+OK\r\n", b"+QUEUED\r\n", b"*1\r\n+OK\r\n"] {
            assert_eq!(me.reply(), reply, "{setup:?}");
        }
        assert!(waiting.is_closed());
        let (status, ..) = server.stop();
        assert_eq!(status.code(), Some(0), "{setup:?}");
    }
}

#[test]
fn a_monitor_does_not_see_what_is_refused_but_a_key_without_a_value() {
    const REFUSED: [&str; 12] = [
        "COMMAND FOO",
        "COMMAND HELP x",
        "CONFIG FOO",
        "CONFIG GET",
        "LATENCY FOO",
        "LATENCY HISTORY",
        "PUBSUB FOO",
        "PUBSUB NUMPAT x",
        "CLIENT FOO",
        "CLIENT ID x",
        "SLOWLOG FOO",
        "XGROUP DESTROY a b c",
    ];
    on_every_engine(|server| {
        let mut monitor = server.client();
        monitor.expect("MONITOR", "+OK\r\n");
        let mut client = server.client();
        for line in REFUSED {
            assert!(client.call(&words(line)).starts_with(b"-"), "{line}");
        }
        client.call(&words("MSET a 1 b"));
        client.expect("PING", "+PONG\r\n");
        for wanted in ["\"MSET\" \"a\" \"1\" \"b\"\r\n", "\"PING\"\r\n"] {
            let line = String::from_utf8(monitor.reply()).expect("text");
            assert!(line.ends_with(wanted), "{line}");
        }
    });
}
