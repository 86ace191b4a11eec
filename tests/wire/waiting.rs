//! WAIT, which has no replicas to wait for, and DEBUG.

use harness::{EVERY_ENGINE, Embedded, RedisOracle, Value, check_script, on_every_engine, wait_until};
use std::time::{Duration, Instant};

#[test]
fn wait_for_no_replica_does_not_wait() {
    check_script(
        r#"
        WAIT 0 0
        :0
        WAIT 0 1000000
        :0
        WAIT -1 0
        :0
        WAIT 1 20
        :0
        WAIT x 0
        -ERR value is not an integer or out of range
        WAIT 1 x
        -ERR timeout is not an integer or out of range
        WAIT 1 -1
        -ERR timeout is negative
        # 7.0 waits for ever.
        !WAIT 1 9223372036854775807
        -ERR timeout is out of range
        WAIT 1
        -ERR wrong number of arguments for 'wait' command
        MULTI
        +OK
        SET k v
        +QUEUED
        WAIT 5 0
        +QUEUED
        EXEC
        *2 | +OK | :0
        "#,
    );
}

#[test]
fn wait_replies_when_its_time_is_over_and_what_follows_comes_after_it() {
    on_every_engine(|server| {
        let mut client = server.client();
        let mut other = server.client();
        let start = Instant::now();
        client.send(b"SET k v\r\nWAIT 1 1000\r\nGET k\r\n");
        assert_eq!(client.reply(), b"+OK\r\n");
        // There may be only one thread: others are served meanwhile.
        other.expect("PING", "+PONG\r\n");
        assert!(start.elapsed() < Duration::from_secs(1));
        assert_eq!(client.values(2), [Value::Integer(0), Value::Bulk(b"v".to_vec())]);
        assert!(start.elapsed() >= Duration::from_secs(1));
    });
}

#[test]
fn client_unblock_ends_a_wait() {
    on_every_engine(|server| {
        let mut client = server.client();
        let mut other = server.client();
        let id = client.value(&["CLIENT", "ID"]).integer().to_string();
        for (reason, reply) in [("TIMEOUT", ":0\r\n"), ("ERROR", "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n")]
        {
            client.send(b"WAIT 1 0\r\n");
            wait_until("the wait", || other.value(&["CLIENT", "UNBLOCK", &id, reason]) == Value::Integer(1));
            assert_eq!(client.reply(), reply.as_bytes());
        }
        client.expect("PING", "+PONG\r\n");
        // Only the one that ended with an error has failed.
        let stats = other.value(&["INFO", "commandstats"]).text();
        let wait = stats.lines().find(|line| line.starts_with("cmdstat_wait:")).expect("WAIT has run");
        assert!(wait.contains("calls=2,") && wait.ends_with("failed_calls=1"), "{wait}");
        let errors = other.value(&["INFO", "errorstats"]).text();
        assert!(errors.contains("errorstat_UNBLOCKED:count=1"), "{errors}");
    });
}

#[test]
fn waitaof_waits_for_the_disk_and_for_no_replica() {
    check_script(
        r#"
        # redis-server 7.0 does not have it: these are the replies of 7.2.
        !WAITAOF 0 0 0
        *2 | :1 | :0
        !WAITAOF 1 0 0
        *2 | :1 | :0
        SET k v
        +OK
        !WAITAOF 1 0 10000
        *2 | :1 | :0
        !WAITAOF 0 1 20
        *2 | :1 | :0
        !WAITAOF 2 0 0
        -ERR value is out of range, value must between 0 and 1
        !WAITAOF -1 0 0
        -ERR value is out of range, value must between 0 and 1
        !WAITAOF x 0 0
        -ERR value is not an integer or out of range
        !WAITAOF 1 -1 0
        -ERR value is out of range, must be positive
        !WAITAOF 1 0 x
        -ERR timeout is not an integer or out of range
        !WAITAOF 1 0 -1
        -ERR timeout is negative
        !WAITAOF 1 0
        -ERR wrong number of arguments for 'waitaof' command
        MULTI
        +OK
        SET k w
        +QUEUED
        !WAITAOF 1 1 0
        +QUEUED
        !EXEC
        *2 | +OK | *2 | :1 | :0
        "#,
    );
}

/// Under `no` there are no fsyncs, so only the timeout ends the wait; under the others the disk does.
#[test]
fn waitaof_tells_what_is_on_the_disk_under_every_policy() {
    for setup in EVERY_ENGINE {
        let data = harness::Data::new();
        for (policy, wanted) in [("always", 1), ("everysec", 1), ("no", 0)] {
            let server = data.start(setup, &["--appendfsync", policy]);
            let mut client = server.client();
            let time = if wanted == 1 { "0" } else { "100" };
            for request in [&["SET", "k", "v"][..], &["MSET", "a", "1", "b", "2", "c", "3"], &["RENAME", "a", "d"]] {
                let requests = [request.to_vec(), vec!["WAITAOF", "1", "0", time]];
                let values =
                    client.pipeline(&requests.map(|words| words.iter().map(ToString::to_string).collect::<Vec<_>>()));
                let reply = Value::Array(vec![Value::Integer(wanted), Value::Integer(0)]);
                assert_eq!(values[1], reply, "{setup:?}, {policy}, {request:?}");
            }
            let unsynced = server.info_number("aof_unsynced_length");
            // Marks of other epochs may have come since.
            assert!(wanted == 0 || unsynced <= 64 * server.info_number("aof_segments"), "{setup:?}: {unsynced}");
            // Another connection has written nothing.
            server.client().expect("WAITAOF 1 0 0", "*2\r\n:1\r\n:0\r\n");
        }
        let server = data.start(setup, &["--appendonly", "no"]);
        let refused = "-ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.\r\n";
        server.client().expect("WAITAOF 1 0 0", refused);
        server.client().expect("WAITAOF 0 0 0", "*2\r\n:0\r\n:0\r\n");
    }
}

/// Another connection's command has written it.
#[test]
fn waitaof_waits_for_the_element_that_a_wait_was_served() {
    for setup in EVERY_ENGINE {
        for (policy, wanted, time) in [("no", 0, "100"), ("always", 1, "0")] {
            let server = harness::Data::new().start(setup, &["--appendfsync", policy]);
            let (mut blocked, mut other) = (server.client(), server.client());
            for request in ["BLPOP", "BLMPOP", "BLMOVE"] {
                let words: &[&str] = match request {
                    "BLPOP" => &["BLPOP", "list", "0"],
                    "BLMPOP" => &["BLMPOP", "0", "1", "list", "LEFT"],
                    _ => &["BLMOVE", "list", "{list}other", "LEFT", "LEFT", "0"],
                };
                blocked.send(&harness::request(words));
                wait_until("the wait", || other.value(&["CLIENT", "LIST"]).text().contains(" flags=b "));
                other.expect("RPUSH list x", ":1\r\n");
                blocked.value_of_next();
                let reply = Value::Array(vec![Value::Integer(wanted), Value::Integer(0)]);
                assert_eq!(blocked.value(&["WAITAOF", "1", "0", time]), reply, "{setup:?}, {policy}, {request}");
            }
        }
    }
}

#[test]
fn client_unblock_ends_a_waitaof() {
    on_every_engine(|server| {
        let mut client = server.client();
        let mut other = server.client();
        let id = client.value(&["CLIENT", "ID"]).integer().to_string();
        for (reason, reply) in
            [("TIMEOUT", "*2\r\n:1\r\n:0\r\n"), ("ERROR", "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n")]
        {
            client.send(b"WAITAOF 0 1 0\r\n");
            wait_until("the wait", || other.value(&["CLIENT", "UNBLOCK", &id, reason]) == Value::Integer(1));
            assert_eq!(client.reply(), reply.as_bytes());
        }
        client.expect("PING", "+PONG\r\n");
    });
}

#[test]
fn debug_is_refused_unless_it_is_enabled() {
    check_script(
        r#"
        DEBUG SLEEP 0
        -ERR DEBUG command not allowed. If the enable-debug-command option is set to "local", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.
        DEBUG
        -ERR wrong number of arguments for 'debug' command
        CONFIG GET enable-debug-command
        *2 | $20 | enable-debug-command | $2 | no
        CONFIG SET enable-debug-command yes
        -ERR CONFIG SET failed (possibly related to argument 'enable-debug-command') - can't set immutable config
        MULTI
        +OK
        DEBUG SLEEP 0
        -ERR DEBUG command not allowed. If the enable-debug-command option is set to "local", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.
        EXEC
        -EXECABORT Transaction discarded because of previous errors.
        "#,
    );
}

#[test]
fn debug_does_what_it_is_asked_or_says_that_it_cannot() {
    let oracle = RedisOracle::start_with(&["--enable-debug-command", "local"]);
    let mut theirs = oracle.client();
    for (setup, flag) in EVERY_ENGINE.into_iter().zip(["local", "yes"].into_iter().cycle()) {
        let server = Embedded::start(setup, &["--enable-debug-command", flag]);
        let mut client = server.client();
        for line in ["DEBUG SLEEP 0", "DEBUG OBJECT none", "DEBUG JMAP", "DEBUG NOSUCH x", "DEBUG SET-ACTIVE-EXPIRE 1"]
        {
            let words = harness::words(line);
            assert_eq!(client.call(&words), theirs.call(&words), "{line}");
        }
        let refused = "-ERR unknown subcommand or wrong number of arguments for 'CHANGE-REPL-ID'. Try DEBUG HELP.\r\n";
        client.expect("DEBUG CHANGE-REPL-ID", refused);
        for (value, encoding) in [("12", "encoding:int"), ("text", "encoding:embstr")] {
            for client in [&mut client, &mut theirs] {
                client.call(&["SET", "k", value]);
                let object = client.value(&["DEBUG", "OBJECT", "k"]).text();
                assert!(object.starts_with("Value at:0x") && object.contains(encoding), "{object}");
            }
        }
        let start = Instant::now();
        client.send(b"DEBUG SLEEP 0.2\r\n");
        server.client().expect("PING", "+PONG\r\n");
        assert_eq!(client.reply(), b"+OK\r\n");
        assert!(start.elapsed() >= Duration::from_millis(200));
    }
}

#[test]
fn without_active_expiry_a_key_is_there_until_it_is_looked_at() {
    for setup in EVERY_ENGINE {
        let server = Embedded::start(setup, &["--enable-debug-command", "yes"]);
        let mut client = server.client();
        client.expect("DEBUG SET-ACTIVE-EXPIRE 0", "+OK\r\n");
        client.expect("SET k v PX 1", "+OK\r\n");
        std::thread::sleep(Duration::from_millis(300));
        client.expect("DBSIZE", ":1\r\n");
        client.expect("SET other v PX 1", "+OK\r\n");
        client.expect("DEBUG SET-ACTIVE-EXPIRE 1", "+OK\r\n");
        wait_until("the keys go", || client.value(&["DBSIZE"]) == Value::Integer(0));
    }
}

#[test]
fn who_waits_for_copies_that_will_never_be_is_told_so() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let server = Embedded::start(setup, &["--appendonly", "yes", "--appendfsync", "no"]);
        let (mut client, mut other) = (server.client(), server.client());
        let mut wait = |line: &str, change: &str, reply: &str| {
            client.expect("SET key value", "+OK\r\n");
            client.send(format!("{line}\r\n").as_bytes());
            wait_until("it waits", || {
                other.value(&["INFO", "clients"]).text().lines().any(|line| line == "blocked_clients:1")
            });
            other.expect(change, "+OK\r\n");
            assert_eq!(client.reply().escape_ascii().to_string(), reply.as_bytes().escape_ascii().to_string());
        };
        const UNBLOCKED: &str =
            "-UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)\r\n";
        wait(
            "WAITAOF 1 0 0",
            "CONFIG SET appendonly no",
            "-ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.\r\n",
        );
        wait("WAITAOF 0 1 0", "REPLICAOF 127.0.0.1 1", UNBLOCKED);
        server.client().expect("REPLICAOF NO ONE", "+OK\r\n");
        wait("WAIT 1 0", "REPLICAOF 127.0.0.1 1", UNBLOCKED);
    }
}
