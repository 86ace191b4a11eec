//! Expiration: the commands, and the removal of keys.

use harness::{Client, Value, check_script, effort, on_every_engine, request, wait_until, wait_until_within};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[test]
fn expire_and_its_kin_set_and_read_deadlines() {
    check_script(
        r#"
        SET k v
        +OK
        TTL k
        :-1
        PTTL k
        :-1
        EXPIRETIME k
        :-1
        PEXPIRETIME k
        :-1
        TTL missing
        :-2
        PTTL missing
        :-2
        EXPIRETIME missing
        :-2
        PEXPIRETIME missing
        :-2
        EXPIRE k 100
        :1
        TTL k
        :100
        EXPIRE missing 100
        :0
        PEXPIRE k 200000
        :1
        TTL k
        :200
        EXPIREAT k 33177117420
        :1
        EXPIRETIME k
        :33177117420
        PEXPIRETIME k
        :33177117420000
        PEXPIREAT k 33177117420123
        :1
        PEXPIRETIME k
        :33177117420123
        EXPIRETIME k
        :33177117420
        PERSIST k
        :1
        PERSIST k
        :0
        PERSIST missing
        :0
        TTL k
        :-1
        EXPIRE k 0
        :1
        EXISTS k
        :0
        SET k v
        +OK
        EXPIRE k -1
        :1
        EXISTS k
        :0
        SET k v
        +OK
        EXPIREAT k 1
        :1
        EXISTS k
        :0
        SET k v
        +OK
        PEXPIREAT k -1
        :1
        EXISTS k
        :0
        RPUSH l a
        :1
        EXPIRE l 100
        :1
        RPUSH l b
        :2
        TTL l
        :100
        "#,
    );
}

#[test]
fn expire_obeys_its_conditions() {
    check_script(
        r#"
        SET k v
        +OK
        EXPIRE k 100 XX
        :0
        EXPIRE k 100 GT
        :0
        TTL k
        :-1
        EXPIRE k 100 LT
        :1
        EXPIRE k 200 NX
        :0
        EXPIRE k 50 GT
        :0
        EXPIRE k 200 GT
        :1
        TTL k
        :200
        EXPIRE k 300 LT
        :0
        EXPIRE k 100 lt
        :1
        EXPIRE k 300 XX
        :1
        TTL k
        :300
        EXPIRE k 400 XX GT
        :1
        EXPIRE k 300 XX LT
        :1
        PERSIST k
        :1
        EXPIRE k 100 NX
        :1
        PEXPIRE k 50000 GT
        :0
        EXPIREAT k 33177117420 GT
        :1
        PEXPIREAT k 33177117420000 GT
        :0
        PEXPIREAT k 33177117420000 LT
        :0
        EXPIRE k -1 GT
        :0
        EXISTS k
        :1
        EXPIRE missing 100 NX
        :0
        "#,
    );
}

#[test]
fn expire_refuses_what_makes_no_sense() {
    check_script(
        r#"
        SET k v
        +OK
        EXPIRE k x
        -ERR value is not an integer or out of range
        EXPIRE k 1.5
        -ERR value is not an integer or out of range
        EXPIRE missing x
        -ERR value is not an integer or out of range
        EXPIRE k 9223372036854775807
        -ERR invalid expire time in 'expire' command
        EXPIRE k -9223372036854775808
        -ERR invalid expire time in 'expire' command
        EXPIRE k 9223372036854775808
        -ERR value is not an integer or out of range
        PEXPIRE k 9223372036854775807
        -ERR invalid expire time in 'pexpire' command
        EXPIREAT k 9223372036854775807
        -ERR invalid expire time in 'expireat' command
        EXPIRE k 100 BOGUS
        -ERR Unsupported option BOGUS
        EXPIRE k 100 NX XX
        -ERR NX and XX, GT or LT options at the same time are not compatible
        EXPIRE k 100 NX GT
        -ERR NX and XX, GT or LT options at the same time are not compatible
        EXPIRE k 100 GT LT
        -ERR GT and LT options at the same time are not compatible
        EXPIRE k x BOGUS
        -ERR Unsupported option BOGUS
        EXPIRE k
        -ERR wrong number of arguments for 'expire' command
        TTL k
        :-1
        TTL k x
        -ERR wrong number of arguments for 'ttl' command
        "#,
    );
}

#[test]
fn what_replaces_a_value_drops_its_deadline_and_what_changes_it_keeps_it() {
    check_script(
        r#"
        SET k 1 EX 100
        +OK
        INCR k
        :2
        TTL k
        :100
        SET k 1
        +OK
        TTL k
        :-1
        HSET h a 1
        :1
        EXPIRE h 100
        :1
        HDEL h a
        :1
        HSET h a 1
        :1
        TTL h
        :-1
        SADD s a
        :1
        EXPIRE s 100
        :1
        SADD s b
        :1
        TTL s
        :100
        SPOP s 2
        *2 | $1 | a | $1 | b
        SADD s a
        :1
        TTL s
        :-1
        "#,
    );
}

#[test]
fn an_expired_key_is_gone_for_every_command_at_once() {
    on_every_engine(|server| {
        let mut client = server.client();
        client.pipeline(&[
            vec!["SET", "string", "v"],
            vec!["RPUSH", "list", "a"],
            vec!["SADD", "set", "a"],
            vec!["HSET", "hash", "f", "v"],
            vec!["SET", "live", "v"],
        ]);
        for key in ["string", "list", "set", "hash"] {
            client.call(&["PEXPIRE", key, "20"]);
        }
        std::thread::sleep(Duration::from_millis(25));
        let null = b"$-1\r\n".to_vec();
        assert_eq!(client.call(&["GET", "string"]), null);
        assert_eq!(client.value(&["LRANGE", "list", "0", "-1"]), Value::Array(vec![]));
        assert_eq!(client.value(&["SCARD", "set"]), Value::Integer(0));
        assert_eq!(client.call(&["HGET", "hash", "f"]), null);
        assert_eq!(client.value(&["TTL", "hash"]), Value::Integer(-2));
        assert_eq!(client.value(&["EXISTS", "string", "list", "set", "hash", "live"]), Value::Integer(1));
        assert_eq!(client.value(&["KEYS", "*"]).byte_strings(), [b"live"]);
        assert_eq!(client.value(&["RANDOMKEY"]).bytes(), b"live");
        assert_eq!(client.value(&["DBSIZE"]), Value::Integer(1));
        // A key that is set again is a new one.
        assert_eq!(client.value(&["RPUSH", "string", "a"]), Value::Integer(1));
        assert_eq!(client.value(&["TTL", "string"]), Value::Integer(-1));
    });
}

fn set_to_expire_together(client: &mut Client, count: usize, after_ms: u64) {
    let now = client.value(&["TIME"]).byte_strings();
    let number = |index: usize| String::from_utf8(now[index].clone()).unwrap().parse::<u64>().unwrap();
    let deadline = (number(0) * 1000 + number(1) / 1000 + after_ms).to_string();
    let sets: Vec<Vec<String>> = (0..count)
        .map(|index| vec!["SET".into(), format!("due:{index}"), "v".into(), "PXAT".into(), deadline.clone()])
        .collect();
    let replies = client.pipeline(&sets);
    assert!(replies.iter().all(|reply| *reply == Value::Simple(b"OK".to_vec())));
}

const TOGETHER: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

/// Requests that show which of [`TOGETHER`] are there, and how many replies each has.
fn looks() -> [(Vec<u8>, usize); 4] {
    let with_keys = |words: &[&str]| request(&[words, &TOGETHER].concat());
    let exec = [with_keys(&["MGET"]), with_keys(&["EXISTS"]), request(&["EXEC"])].concat();
    // A script that declares no key has all of them.
    let script = "return redis.call('EXISTS', unpack(ARGV))";
    [
        (with_keys(&["MGET"]), 1),
        (with_keys(&["EXISTS"]), 1),
        ([request(&["MULTI"]), exec].concat(), 4),
        (with_keys(&["EVAL", script, "0"]), 1),
    ]
}

/// How many of the keys a reply shows.
fn shown(reply: &Value) -> Vec<usize> {
    match reply {
        Value::Integer(count) => vec![*count as usize],
        Value::Array(parts) if parts.len() == TOGETHER.len() => {
            vec![parts.iter().filter(|part| !part.is_null()).count()]
        }
        Value::Array(parts) => parts.iter().flat_map(shown).collect(),
        _ => Vec::new(),
    }
}

fn assert_whole(replies: &[Value]) {
    let counts: Vec<usize> = replies.iter().flat_map(shown).collect();
    let first = counts[0];
    assert!(first == 0 || first == TOGETHER.len(), "some keys of one deadline are gone, others not: {replies:?}");
    assert!(counts.iter().all(|&count| count == first), "one step saw two times: {replies:?}");
}

fn set_together(client: &mut Client, after_ms: u64) {
    let now = client.value(&["TIME"]).byte_strings();
    let number = |index: usize| String::from_utf8(now[index].clone()).unwrap().parse::<u64>().unwrap();
    let deadline = (number(0) * 1000 + number(1) / 1000 + after_ms).to_string();
    let sets = TOGETHER.map(|key| vec!["SET", key, "v", "PXAT", &deadline]);
    let requests: Vec<_> = [vec!["MULTI"]].into_iter().chain(sets).chain([vec!["EXEC"]]).collect();
    client.pipeline(&requests);
}

/// A shard that is busy comes to its part when the deadline has passed, and the others long before.
#[test]
fn keys_of_one_deadline_are_gone_together_though_it_passes_while_a_shard_is_busy() {
    const DEADLINE_MS: u64 = 200;
    on_every_engine(|server| {
        let (mut client, mut busy, mut single) = (server.client(), server.client(), server.client());
        let mut readers = looks().map(|look| (server.client(), look));
        let mut steps: u64 = 100_000;
        wait_until_within(Duration::from_secs(60), "a deadline passes while replies are made", || {
            set_together(&mut client, DEADLINE_MS);
            let start = Instant::now();
            let script = "local n = 0 for i = 1, tonumber(ARGV[1]) do n = n + i end return n";
            busy.send(&request(&["EVAL", script, "1", TOGETHER[0], &steps.to_string()]));
            std::thread::sleep(Duration::from_millis(20));
            // The first of them is before the others in the mailbox of the busy shard.
            single.send(&request(&["GET", TOGETHER[0]]));
            for (reader, (look, _)) in &mut readers {
                reader.send(look);
            }
            let sent = start.elapsed();
            for (reader, (_, replies)) in &mut readers {
                assert_whole(&reader.values(*replies));
            }
            single.reply();
            busy.reply();
            let deadline = Duration::from_millis(DEADLINE_MS);
            if start.elapsed() < 2 * deadline {
                steps *= 2;
            }
            sent < deadline && start.elapsed() > 2 * deadline
        });
    });
}

#[test]
fn keys_of_one_deadline_are_gone_together_for_whoever_looks_at_that_moment() {
    let rounds = effort("DEADLINE_ROUNDS", 30);
    on_every_engine(|server| {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for (look, replies) in looks() {
                let is_over = &is_over;
                scope.spawn(move || {
                    let mut reader = server.client();
                    while !is_over.load(Ordering::Relaxed) {
                        reader.send(&look);
                        assert_whole(&reader.values(replies));
                    }
                });
            }
            // One that finds a key expired removes it.
            let noisy = &is_over;
            scope.spawn(move || {
                let mut single = server.client();
                while !noisy.load(Ordering::Relaxed) {
                    single.pipeline(&TOGETHER.map(|key| vec!["GET", key]));
                }
            });
            let mut client = server.client();
            for _ in 0..rounds {
                set_together(&mut client, 10);
                std::thread::sleep(Duration::from_millis(15));
            }
            is_over.store(true, Ordering::Relaxed);
        });
    });
}

#[test]
fn keys_disappear_without_being_looked_at() {
    const KEYS: usize = 10_000;
    on_every_engine(|server| {
        let mut client = server.client();
        client.call(&["SET", "stays", "v"]);
        set_to_expire_together(&mut client, KEYS, 1000);
        // DBSIZE accesses no key: keys that it no longer counts were removed actively.
        wait_until("10,000 keys expire", || client.value(&["DBSIZE"]) == Value::Integer(1));
        assert_eq!(server.info_number("expired_keys"), KEYS as u64);
        let info = server.info();
        assert_eq!(info["db0"], "keys=1,expires=0,avg_ttl=0");
        assert!(info.contains_key("expire_lag_ms"));
        wait_until("the lag is over", || server.info_number("expire_lag_ms") == 0);
    });
}

#[test]
fn other_clients_are_served_while_many_keys_expire() {
    on_every_engine(|server| {
        let mut client = server.client();
        set_to_expire_together(&mut client, 50_000, 700);
        let mut slowest = Duration::ZERO;
        wait_until("50,000 keys expire", || {
            let start = std::time::Instant::now();
            let size = client.value(&["DBSIZE"]);
            slowest = slowest.max(start.elapsed());
            size == Value::Integer(0)
        });
        // A slice is half a millisecond; the machine is shared.
        assert!(slowest < Duration::from_millis(500), "a command waited {slowest:?}");
    });
}

#[test]
fn expired_keys_stay_gone_after_a_restart() {
    for setup in harness::EVERY_ENGINE {
        let data = {
            let server = harness::Server::start(setup, &[]);
            let mut client = server.client();
            client.call(&["SET", "soon", "v", "PX", "150"]);
            client.call(&["SET", "later", "v", "EX", "1000"]);
            client.call(&["SET", "never", "v"]);
            server.kill()
        };
        std::thread::sleep(Duration::from_millis(160));
        let server = data.start(setup, &[]);
        let mut client = server.client();
        assert_eq!(client.value(&["EXISTS", "soon"]), Value::Integer(0), "{setup:?}");
        assert_eq!(client.value(&["EXISTS", "later", "never"]), Value::Integer(2), "{setup:?}");
        let ttl = client.value(&["TTL", "later"]).integer();
        assert!((900..=1000).contains(&ttl), "{setup:?}: a deadline is a moment, not a duration: {ttl}");
    }
}
