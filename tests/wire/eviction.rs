//! Which keys are evicted when memory is short, and which stay.

use harness::{
    Client, EVERY_ENGINE, Endpoint, RedisOracle, Server, Value, check_script, on_every_engine, on_every_process,
    wait_until,
};
use std::time::Duration;

const KB: u64 = 1 << 10;
const MB: u64 = 1 << 20;
/// By how much tests let the limit be exceeded at the end: buffers of connections come and go besides the keys.
const SLACK: u64 = MB / 2;
const OOM: &str = "OOM command not allowed when used memory > 'maxmemory'.";

#[test]
fn policies_and_their_directives_are_those_of_redis() {
    check_script(
        r#"
        CONFIG SET maxmemory-policy allkeys-mru
        -ERR CONFIG SET failed (possibly related to argument 'maxmemory-policy') - argument(s) must be one of the following: volatile-lru, volatile-lfu, volatile-random, volatile-ttl, allkeys-lru, allkeys-lfu, allkeys-random, noeviction
        CONFIG SET maxmemory-samples 0
        -ERR CONFIG SET failed (possibly related to argument 'maxmemory-samples') - argument must be between 1 and 2147483647 inclusive
        CONFIG SET lfu-log-factor -1
        -ERR CONFIG SET failed (possibly related to argument 'lfu-log-factor') - argument must be between 0 and 2147483647 inclusive
        CONFIG SET lfu-decay-time x
        -ERR CONFIG SET failed (possibly related to argument 'lfu-decay-time') - argument couldn't be parsed into an integer
        CONFIG GET lfu-decay-time
        *2 | $14 | lfu-decay-time | $1 | 1
        CONFIG GET lfu-log-factor
        *2 | $14 | lfu-log-factor | $2 | 10
        CONFIG SET maxmemory-samples 7
        +OK
        CONFIG GET maxmemory-samples
        *2 | $17 | maxmemory-samples | $1 | 7
        CONFIG SET maxmemory-policy VOLATILE-TTL
        +OK
        CONFIG GET maxmemory-policy
        *2 | $16 | maxmemory-policy | $12 | volatile-ttl
        CONFIG SET maxmemory-policy noeviction
        +OK
        "#,
    );
}

#[test]
fn a_key_that_is_evicted_when_its_time_has_come_counts_as_evicted_alone() {
    for setup in EVERY_ENGINE {
        // The buffers of a log do not count towards the limit, and are in used_memory.
        let server = Server::start(setup, &["--enable-debug-command", "yes", "--appendonly", "no"]);
        let mut client = server.client();
        client.expect("DEBUG SET-ACTIVE-EXPIRE 0", "+OK\r\n");
        let value = "v".repeat(100_000);
        for number in 0..50 {
            client.call(&["SET", &format!("k{number}"), &value, "PX", "1"]);
        }
        std::thread::sleep(Duration::from_millis(20));
        for policy in ["volatile-ttl", "volatile-random"] {
            let before = server.info_number("evicted_keys");
            client.expect(&format!("CONFIG SET maxmemory-policy {policy}"), "+OK\r\n");
            let limit = server.info_number("used_memory") - 2 * MB;
            client.expect(&format!("CONFIG SET maxmemory {limit}"), "+OK\r\n");
            wait_until("keys are evicted", || server.info_number("evicted_keys") >= before + 5);
            client.expect("CONFIG SET maxmemory 0", "+OK\r\n");
        }
        assert_eq!(server.info_number("expired_keys"), 0, "{setup:?}");
    }
}

#[test]
fn uses_are_counted_under_an_lfu_policy_alone() {
    check_script(
        r#"
        CONFIG SET maxmemory-policy volatile-lfu
        +OK
        SET key text
        +OK
        OBJECT FREQ key
        :5
        OBJECT FREQ missing
        $-1
        OBJECT IDLETIME missing
        $-1
        OBJECT IDLETIME key
        -ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.
        CONFIG SET lfu-log-factor 0
        +OK
        GET key
        $4 | text
        OBJECT FREQ key
        :6
        STRLEN key
        :4
        APPEND key x
        :5
        OBJECT FREQ key
        :8
        # Neither of these is a use.
        TTL key
        :-1
        TYPE key
        +string
        EXISTS key
        :1
        OBJECT ENCODING key
        $3 | raw
        OBJECT FREQ key
        :8
        SET key another
        +OK
        OBJECT FREQ key
        :9
        TOUCH key
        :1
        RENAME key longer-key
        +OK
        # 7.2 begins anew, as for another key.
        !OBJECT FREQ longer-key
        :5
        COPY longer-key key
        :1
        OBJECT FREQ key
        :5
        RPUSH list a
        :1
        OBJECT FREQ list
        :5
        LPUSH list b
        :2
        OBJECT FREQ list
        :6
        EXPIRE list 100
        :1
        MOVE list 1
        :1
        SELECT 1
        +OK
        !OBJECT FREQ list
        :5
        DEL list
        :1
        SELECT 0
        +OK
        SET key "\x02"
        +OK
        RESTORE low 0 "\x00\x01\x78\x0a\x00\x26\x13\x5a\xd9\x0a\xcd\x71\x6c" FREQ 3 IDLETIME 5
        -ERR syntax error
        CONFIG SET lfu-log-factor 10
        +OK
        CONFIG SET maxmemory-policy allkeys-lru
        +OK
        OBJECT FREQ key
        -ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.
        CONFIG SET maxmemory-policy noeviction
        +OK
        "#,
    );
}

#[test]
fn restore_sets_what_the_policy_goes_by() {
    on_every_engine(|server| {
        let mut client = server.client();
        client.expect("SET key text", "+OK\r\n");
        let payload = client.value(&["DUMP", "key"]).bytes().to_vec();
        let restore = |client: &mut Client, option: &str, number: &str| {
            let words: [&[u8]; 7] =
                [b"RESTORE", b"key", b"0", &payload, b"REPLACE", option.as_bytes(), number.as_bytes()];
            assert_eq!(client.call(&words), b"+OK\r\n");
        };
        restore(&mut client, "IDLETIME", "1000");
        let idle = client.value(&["OBJECT", "IDLETIME", "key"]).integer();
        assert!((1000..1030).contains(&idle), "{idle}");
        let described = client.value(&["DEBUG", "OBJECT", "key"]);
        assert!(matches!(described, Value::Error(_)), "DEBUG is for those who are allowed to");
        restore(&mut client, "FREQ", "100");
        assert!(client.value(&["OBJECT", "IDLETIME", "key"]).integer() < 30);
        client.expect("CONFIG SET maxmemory-policy allkeys-lfu", "+OK\r\n");
        restore(&mut client, "FREQ", "100");
        client.expect("OBJECT FREQ key", ":100\r\n");
        restore(&mut client, "IDLETIME", "1000");
        client.expect("OBJECT FREQ key", ":5\r\n");
    });
}

/// Runs a test on a fresh server of every engine, with a policy.
fn under(policy: &str, test: impl Fn(&Server, &mut Client)) {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}, {policy}");
        let server = Server::start(setup, &["--maxmemory-policy", policy]);
        test(&server, &mut server.client());
    }
}

/// Makes the server allocate the buffers that it keeps, which a small limit would have to include as well.
fn warm_up(client: &mut Client) {
    fill(client, "warm", 2000, |_| None);
    client.expect("FLUSHALL", "+OK\r\n");
}

/// Bytes in use that count towards the limit: without the buffers of the log, which grow while the disk is slow.
fn counted(server: &Endpoint) -> u64 {
    let info = server.info();
    let bytes = |field: &str| info[field].parse::<u64>().expect("a number of bytes");
    bytes("used_memory") - bytes("mem_not_counted_for_evict")
}

/// The same when it is stable: what the log writes meanwhile may count as in use and, a moment later, not as its
/// buffer.
fn settled(server: &Endpoint) -> u64 {
    let mut last = counted(server);
    wait_until("memory in use stays", || {
        std::thread::sleep(Duration::from_millis(50));
        let before = std::mem::replace(&mut last, counted(server));
        last.abs_diff(before) < 64 * KB
    });
    last
}

/// Sets the limit to the memory in use and `more`; returns it.
fn limit(server: &Server, client: &mut Client, more: u64) -> u64 {
    let limit = counted(server) + more;
    client.expect(&format!("CONFIG SET maxmemory {limit}"), "+OK\r\n");
    limit
}

/// Sets keys of a kilobyte, perhaps with a TTL, 20 at a time; returns how many were refused.
fn fill(client: &mut Client, prefix: &str, count: usize, ttl: impl Fn(usize) -> Option<usize>) -> usize {
    let value = "x".repeat(KB as usize);
    let set = |n: usize| {
        let mut words = vec!["SET".to_owned(), format!("{prefix}:{n}"), value.clone()];
        words.extend(ttl(n).into_iter().flat_map(|ttl| ["EX".to_owned(), ttl.to_string()]));
        words
    };
    let requests: Vec<Vec<String>> = (0..count).map(set).collect();
    let replies = requests.chunks(20).flat_map(|requests| client.pipeline(requests));
    replies
        .filter(|reply| match reply {
            Value::Error(text) => {
                assert_eq!(String::from_utf8_lossy(text), OOM);
                true
            }
            other => *other != Value::Simple(b"OK".to_vec()),
        })
        .count()
}

/// Which of the keys exist.
fn present(client: &mut Client, prefix: &str, count: usize) -> Vec<bool> {
    let requests: Vec<Vec<String>> = (0..count).map(|n| vec!["EXISTS".into(), format!("{prefix}:{n}")]).collect();
    client.pipeline(&requests).iter().map(|reply| reply.integer() == 1).collect()
}

fn count(present: &[bool]) -> usize {
    present.iter().filter(|is_there| **is_there).count()
}

fn wait_for_room(server: &Server, limit: u64) {
    wait_until("memory is within the limit", || counted(server) <= limit + SLACK);
}

#[test]
fn memory_stays_within_the_limit_and_writes_go_on() {
    for policy in ["allkeys-lru", "allkeys-lfu", "allkeys-random"] {
        under(policy, |server, client| {
            warm_up(client);
            let limit = limit(server, client, 12 * MB);
            assert_eq!(fill(client, "key", 20_000, |_| None), 0, "there is always something to evict");
            wait_for_room(server, limit);
            client.expect("CONFIG SET maxmemory 0", "+OK\r\n");
            // A concurrent eviction may have removed keys and not counted them yet.
            let mut keys = 0;
            wait_until("every key is there or was counted as evicted", || {
                keys = client.value(&["DBSIZE"]).integer() as u64;
                server.info_number("evicted_keys") + keys == 20_000
            });
            assert!(keys > 5000, "{keys} keys are left");
        });
    }
}

/// Twenty connections that set values of so many bytes, so many at a time, until each was refused; returns what counts
/// towards the limit after they and the buffers of their requests are gone.
fn burst(server: &Server, value_len: usize, pipeline: usize) -> u64 {
    const CONNECTIONS: usize = 20;
    let value = "v".repeat(value_len);
    std::thread::scope(|scope| {
        for connection in 0..CONNECTIONS {
            let value = &value;
            scope.spawn(move || {
                let mut client = server.client();
                let is_refused = (0..).any(|round| {
                    let set = |n: usize| vec!["SET".to_owned(), format!("{connection}:{round}:{n}"), value.clone()];
                    let replies = client.pipeline(&(0..pipeline).map(set).collect::<Vec<_>>());
                    replies.iter().any(|reply| matches!(reply, Value::Error(_)))
                });
                assert!(is_refused);
            });
        }
    });
    wait_until("they are gone", || server.info_number("connected_clients") == 1);
    counted(server)
}

#[test]
fn a_burst_of_writes_is_refused_within_a_tenth_of_the_limit_where_nothing_is_evicted() {
    const LIMIT: u64 = 20 * MB;
    for setup in EVERY_ENGINE {
        for (value_len, pipeline) in [(3, 1000), (64, 64), (1000, 500), (10_000, 16), (100_000, 1), (100_000, 16)] {
            let server = Server::start(setup, &["--maxmemory", "20mb", "--maxmemory-policy", "noeviction"]);
            let used = burst(&server, value_len, pipeline);
            println!("{setup:?}, {pipeline} values of {value_len} bytes at a time: {} KB", used / KB);
            // Its tables belong to the library, and those of all shards double together, without a check before.
            let doubling = if setup.engine == "dashmap" && value_len < 100 { 2 * MB } else { 0 };
            let most = LIMIT + LIMIT / 10 + doubling;
            assert!(used < most, "{setup:?}, {pipeline} values of {value_len} bytes: {used} bytes");
            assert!(used > LIMIT / 2, "{setup:?}, {pipeline} values of {value_len} bytes: {used} bytes");
            let mut client = server.client();
            client.expect("GET nosuch", "$-1\r\n");
        }
    }
}

/// A table that kept its memory would dominate what is left, and its keys would be hard to find.
#[test]
fn keys_that_are_gone_give_back_the_room_of_the_table_too() {
    const CHUNKS: usize = 300;
    on_every_process(|server| {
        let mut client = server.client();
        warm_up(&mut client);
        let chunk = |command: &str, chunk: usize, is_pair: bool| {
            let keys =
                (0..1000).flat_map(|n| [format!("{chunk}:{n}")].into_iter().chain(is_pair.then(|| "1".to_owned())));
            [command.to_owned()].into_iter().chain(keys).collect::<Vec<_>>()
        };
        let run = |client: &mut Client, command: &str, is_pair: bool, chunks: &dyn Fn(usize) -> usize| {
            (0..CHUNKS).for_each(|number| drop(client.pipeline(&[chunk(command, chunks(number), is_pair)])));
        };
        // As many requests with few keys: each thread keeps what they leave in its pools, up to a megabyte of each.
        run(&mut client, "MSET", true, &|_| 0);
        run(&mut client, "DEL", false, &|_| 0);
        let before = settled(server);
        run(&mut client, "MSET", true, &|number| number);
        let filled = settled(server);
        assert!(filled > before + 12 * MB, "{before} before, {filled} with all keys");
        run(&mut client, "DEL", false, &|number| number);
        assert_eq!(client.value(&["DBSIZE"]), Value::Integer(0));
        wait_until("the room is given back", || counted(server) < before + 2 * MB);
    });
}

#[test]
fn keys_that_do_not_expire_are_spared_by_volatile_policies() {
    for policy in ["volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"] {
        under(policy, |server, client| {
            warm_up(client);
            assert_eq!(fill(client, "lasting", 300, |_| None), 0);
            let limit = limit(server, client, 11 * MB);
            assert_eq!(fill(client, "passing", 15_000, |n| Some(10_000 + n)), 0);
            wait_for_room(server, limit);
            assert_eq!(count(&present(client, "lasting", 300)), 300);
            let left = present(client, "passing", 15_000);
            assert!((3000..12_000).contains(&count(&left)), "{}", count(&left));
            if policy == "volatile-ttl" {
                assert!(count(&left[..1000]) < 20, "those that expire first are gone");
            }
            // When only keys without a TTL are left nothing can be evicted.
            let refused = fill(client, "more", 18_000, |_| None);
            assert!(refused > 6000, "{refused}");
            assert_eq!(client.value(&["DBSIZE"]).integer() as usize, 300 + 18_000 - refused);
            assert_eq!(count(&present(client, "lasting", 300)), 300);
            // One that expires can be, though that is not sufficient.
            client.expect(&format!("CONFIG SET maxmemory {}", limit - 2 * MB), "+OK\r\n");
            client.expect("SET k v", &format!("-{OOM}\r\n"));
            client.expect("EXPIRE lasting:7 10000", ":1\r\n");
            wait_until("it is evicted", || client.value(&["EXISTS", "lasting:7"]).integer() == 0);
            client.expect("SET k v", &format!("-{OOM}\r\n"));
        });
    }
}

/// The limit is kept by refusing commands then, as by noeviction.
#[test]
fn memory_stays_at_the_limit_where_no_key_may_be_evicted() {
    for policy in ["noeviction", "volatile-ttl"] {
        under(policy, |server, client| {
            warm_up(client);
            let limit = limit(server, client, 5 * MB);
            let set = |n: usize| vec!["SET".to_owned(), format!("key:{n}"), "x".repeat(10 * KB as usize)];
            let refused = (0..10).map(|round| {
                let requests: Vec<Vec<String>> = (200 * round..200 * (round + 1)).map(set).collect();
                client.pipeline(&requests).iter().filter(|reply| matches!(reply, Value::Error(_))).count()
            });
            assert!(refused.sum::<usize>() > 1000);
            let used = settled(server);
            assert!(used < limit + MB, "{policy}: {} KB over the limit", used.saturating_sub(limit) / KB);
        });
    }
}

/// Sets keys, uses every other one, and evicts more than a quarter; returns how many of each half are left.
fn used_and_idle(server: &Server, client: &mut Client, use_keys: impl Fn(&mut Client, &[Vec<String>])) -> [usize; 2] {
    const KEYS: usize = 2000;
    assert_eq!(fill(client, "key", KEYS, |_| Some(10_000)), 0);
    let used: Vec<Vec<String>> = (0..KEYS).step_by(2).map(|n| vec!["GET".into(), format!("key:{n}")]).collect();
    use_keys(client, &used);
    // Buffers come and go, so the limit is lowered until keys have to be evicted.
    wait_until("keys are evicted", || {
        let is_enough = server.info_number("evicted_keys") > KEYS as u64 / 4;
        let lower = counted(server) - 100 * KB;
        client.expect(&format!("CONFIG SET maxmemory {}", if is_enough { 0 } else { lower }), "+OK\r\n");
        is_enough
    });
    let left = present(client, "key", KEYS);
    let of_half = |half: usize| left.iter().skip(half).step_by(2).filter(|is_there| **is_there).count();
    [of_half(0), of_half(1)]
}

#[test]
fn keys_that_were_used_lately_are_kept_far_more_often_than_idle_ones() {
    for policy in ["allkeys-lru", "volatile-lru"] {
        under(policy, |server, client| {
            let [used, idle] = used_and_idle(server, client, |client, used| {
                // The time of a use is kept in seconds.
                std::thread::sleep(Duration::from_millis(1100));
                client.pipeline(used);
            });
            assert!((1000 - used) * 4 < 1000 - idle, "{used} and {idle} of 1000");
        });
    }
}

#[test]
fn keys_that_are_used_often_are_kept_far_more_often_than_others() {
    for policy in ["allkeys-lfu", "volatile-lfu"] {
        under(policy, |server, client| {
            let [used, idle] = used_and_idle(server, client, |client, used| {
                (0..20).for_each(|_| drop(client.pipeline(used)));
            });
            assert!((1000 - used) * 4 < 1000 - idle, "{used} and {idle} of 1000");
        });
    }
}

#[test]
fn the_log_restores_what_eviction_has_left() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &["--maxmemory-policy", "allkeys-lru", "--enable-debug-command", "yes"]);
        let mut client = server.client();
        warm_up(&mut client);
        limit(&server, &mut client, 3 * MB);
        assert_eq!(fill(&mut client, "key", 4000, |n| (n % 2 == 0).then_some(10_000)), 0);
        client.expect("SELECT 3", "+OK\r\n");
        assert_eq!(fill(&mut client, "third", 1000, |_| None), 0);
        client.expect("CONFIG SET maxmemory 0", "+OK\r\n");
        assert!(server.info_number("evicted_keys") > 500);
        // Evictions in progress have finished.
        let digest = client.value(&["DEBUG", "DIGEST"]);
        let size = client.value(&["DBSIZE"]);
        let (_, data, _) = server.stop();
        let again = data.start(setup, &["--enable-debug-command", "yes"]);
        let mut client = again.client();
        assert_eq!(client.value(&["DEBUG", "DIGEST"]), digest);
        client.expect("SELECT 3", "+OK\r\n");
        assert_eq!(client.value(&["DBSIZE"]), size);
    }
}

#[test]
fn an_eviction_is_published_and_breaks_watches() {
    under("allkeys-random", |server, client| {
        client.expect("CONFIG SET notify-keyspace-events Ee", "+OK\r\n");
        let mut listener = server.client();
        listener.expect(
            "SUBSCRIBE __keyevent@0__:evicted",
            "*3\r\n$9\r\nsubscribe\r\n$22\r\n__keyevent@0__:evicted\r\n:1\r\n",
        );
        client.expect("SET key value", "+OK\r\n");
        client.expect("WATCH key", "+OK\r\n");
        let mut other = server.client();
        other.expect("CONFIG SET maxmemory 1", "+OK\r\n");
        let message = listener.value_of_next();
        assert_eq!(message.byte_strings()[2], b"key");
        client.expect("MULTI", "+OK\r\n");
        client.expect("EXEC", "*-1\r\n");
        assert_eq!(server.info_number("evicted_keys"), 1);
        // Nothing is left.
        client.expect("SET key value", &format!("-{OOM}\r\n"));
        client.expect("CONFIG RESETSTAT", "+OK\r\n");
        assert_eq!(server.info_number("evicted_keys"), 0);
        // In whole milliseconds: all of this may have taken less than one.
        wait_until("memory has been over the limit for a while", || {
            server.info_number("current_eviction_exceeded_time") > 0
        });
        // CLIENT PAUSE keeps keys where they are.
        other.expect("CONFIG SET maxmemory 0", "+OK\r\n");
        client.expect("SET key value", "+OK\r\n");
        client.expect("CLIENT PAUSE 100000 WRITE", "+OK\r\n");
        other.expect("CONFIG SET maxmemory 1", "+OK\r\n");
        std::thread::sleep(Duration::from_millis(50));
        other.expect("EXISTS key", ":1\r\n");
        other.expect("CLIENT UNPAUSE", "+OK\r\n");
        wait_until("it is evicted", || server.info_number("evicted_keys") == 1);
    });
}

#[test]
fn writers_in_deep_pipelines_do_not_outrun_eviction() {
    under("allkeys-lru", |server, client| {
        assert_eq!(fill(client, "old", 16_000, |_| None), 0);
        let limit = limit(server, client, 0);
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let mut client = server.client();
                std::thread::spawn(move || {
                    let value = "v".repeat(KB as usize);
                    let requests: Vec<Vec<String>> =
                        (0..1000).map(|n| vec!["SET".into(), format!("{writer}:{n}"), value.clone()]).collect();
                    (0..8).for_each(|_| {
                        client.pipeline(&requests).iter().for_each(|reply| assert_eq!(reply.text(), "OK"))
                    });
                })
            })
            .collect();
        let mut most = 0;
        while writers.iter().any(|writer| !writer.is_finished()) {
            most = most.max(counted(server));
            std::thread::sleep(Duration::from_millis(5));
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        println!("{} KB over the limit at most", most.saturating_sub(limit) / KB);
        // Of the 32 MB that they write, some are in their buffers and batches.
        assert!(most < limit + 16 * MB, "{} KB over the limit", (most - limit) / KB);
        wait_for_room(server, limit);
    });
}

/// The counters of the keys `a` and `b` after a command.
fn frequencies_after(client: &mut Client, line: &str) -> [Value; 2] {
    client.call(&harness::words(line));
    ["a", "b"].map(|key| client.value(&["OBJECT", "FREQ", key]))
}

#[test]
fn a_key_that_was_renamed_or_moved_is_as_new() {
    on_every_process(|server| {
        let mut client = server.client();
        client.expect("CONFIG SET maxmemory-policy allkeys-lfu lfu-log-factor 0", "+OK\r\n");
        let mut from = "k0".to_owned();
        client.expect("SET k0 v", "+OK\r\n");
        for (line, to) in [("RENAME k0 k1", "k1"), ("RENAMENX k1 k2", "k2"), ("MOVE k2 1", "k2")] {
            client.call(&["GET", &from]);
            client.call(&harness::words(line));
            from = to.to_owned();
            if line.starts_with("MOVE") {
                client.expect("SELECT 1", "+OK\r\n");
            }
            assert_eq!(client.value(&["OBJECT", "FREQ", to]), Value::Integer(5), "{line}");
        }
    });
}

#[test]
fn a_command_that_is_refused_is_a_use_of_its_key() {
    on_every_process(|server| {
        let mut client = server.client();
        client.expect("CONFIG SET maxmemory-policy allkeys-lfu lfu-log-factor 0", "+OK\r\n");
        client.expect("MSET a v b v", "+OK\r\n");
        for (line, uses) in [
            ("EXPIRE a 100 XX", [1, 0]),
            ("PERSIST a", [1, 0]),
            ("SETNX a w", [1, 0]),
            ("SET a w NX", [1, 0]),
            ("MSETNX new w b w a w", [0, 1]),
            ("INCRBYFLOAT a 1", [1, 0]),
            ("RENAME a a", [1, 0]),
            ("RENAMENX a a", [1, 0]),
            ("RENAMENX a b", [1, 1]),
            ("COPY a b", [1, 1]),
            ("RESTORE a 0 x", [1, 0]),
            ("SMOVE none b m", [0, 1]),
            ("ZPOPMIN a", [1, 0]),
            ("LMOVE a b LEFT LEFT", [1, 0]),
            ("BLPOP a b 1", [1, 0]),
            ("CLIENT NO-TOUCH ON", [0, 0]),
            ("SETNX a w", [0, 0]),
            ("CLIENT NO-TOUCH OFF", [0, 0]),
        ] {
            let before = frequencies_after(&mut client, "PING").map(|value| value.integer());
            let after = frequencies_after(&mut client, line).map(|value| value.integer());
            assert_eq!([after[0] - before[0], after[1] - before[1]], uses, "{line}");
        }
    });
}

/// However often it looks for them. Two keys of the same name are two, as in Redis.
#[test]
fn a_command_is_one_use_of_each_of_its_keys() {
    on_every_process(|server| {
        let mut client = server.client();
        client.expect("CONFIG SET maxmemory-policy allkeys-lfu lfu-log-factor 0", "+OK\r\n");
        for (first, second, line, uses) in [
            ("SET a v", "SET b v", "GETEX a EX 100", [1, 0]),
            ("SET a v", "SET b v", "BITOP OR a a b", [2, 1]),
            ("RPUSH a 1 2 3", "RPUSH b 1 2 3", "LMOVE a b LEFT RIGHT", [1, 1]),
            ("RPUSH a 1 2 3", "RPUSH b 1 2 3", "RPOPLPUSH a a", [2, 0]),
            ("RPUSH a 1 2 3", "RPUSH b 1 2 3", "BLMOVE a b LEFT LEFT 1", [1, 1]),
            ("RPUSH a 1 2 3", "RPUSH b 1 2 3", "BLPOP a b 1", [1, 0]),
            ("RPUSH a 1 2 3", "RPUSH b 1 2 3", "BLMPOP 1 2 a b LEFT", [1, 0]),
            ("SADD a 1 2", "SADD b 3 4", "SMOVE a b 1", [1, 1]),
            ("SADD a 1 2", "SADD b 3 4", "SMOVE a b 3", [1, 1]),
            ("ZADD a 1 x 2 y", "ZADD b 1 x 2 y", "ZREM a x", [1, 0]),
            ("ZADD a 1 x 2 y", "ZADD b 1 x 2 y", "ZREMRANGEBYRANK a 0 0", [1, 0]),
            ("ZADD a 1 x 2 y", "ZADD b 1 x 2 y", "ZPOPMIN a", [1, 0]),
            ("ZADD a 1 x 2 y", "ZADD b 1 x 2 y", "ZMPOP 2 a b MAX", [1, 0]),
            ("XADD a 1-1 f v", "PFADD b v", "PFCOUNT b", [0, 1]),
            ("XADD a 1-1 f v", "PFADD b v", "XADD a NOMKSTREAM 2-1 f v", [1, 0]),
            ("XADD a 1-1 f v", "PFADD b v", "XGROUP CREATE a g 0", [1, 0]),
            // Redis looks for the keys of these twice.
            ("XADD a 1-1 f v", "PFADD b v", "XREAD STREAMS a 0", [2, 0]),
            ("XADD a 1-1 f v", "PFADD b v", "XREAD STREAMS a 1-1", [2, 0]),
        ] {
            client.value(&["FLUSHALL"]);
            client.value(&harness::words(first));
            client.value(&harness::words(second));
            let before = frequencies_after(&mut client, "PING").map(|value| value.integer());
            let after = frequencies_after(&mut client, line).map(|value| value.integer());
            assert_eq!([after[0] - before[0], after[1] - before[1]], uses, "{line}");
        }
        client.value(&["XGROUP", "CREATE", "a", "g", "0"]);
        let before = frequencies_after(&mut client, "PING").map(|value| value.integer());
        let after = frequencies_after(&mut client, "XREADGROUP GROUP g c STREAMS a >").map(|value| value.integer());
        assert_eq!([after[0] - before[0], after[1] - before[1]], [2, 0]);
    });
}

/// A snapshot has what the policy goes by, here as in Redis.
#[test]
fn the_uses_of_keys_survive_a_snapshot() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let flags = |policy| {
            let debugged = ["--appendonly", "no", "--save", "60 1000000", "--enable-debug-command", "yes"];
            [&debugged[..], &["--lfu-decay-time", "0", "--maxmemory-policy", policy]].concat()
        };
        let server = Server::start(setup, &flags("allkeys-lfu"));
        let mut client = server.client();
        client.expect("SET key text", "+OK\r\n");
        let payload = client.value(&["DUMP", "key"]).bytes().to_vec();
        let restore = |client: &mut Client, option: &str, number: &str| {
            let words: [&[u8]; 7] =
                [b"RESTORE", b"key", b"0", &payload, b"REPLACE", option.as_bytes(), number.as_bytes()];
            assert_eq!(client.call(&words), b"+OK\r\n");
        };
        let is_idle = |client: &mut Client| client.value(&["OBJECT", "IDLETIME", "key"]).integer() >= 1000;
        restore(&mut client, "FREQ", "200");
        client.expect("DEBUG RELOAD", "+OK\r\n");
        client.expect("OBJECT FREQ key", ":200\r\n");
        client.expect("SAVE", "+OK\r\n");
        let (_, data, _) = server.stop();
        let server = data.start(setup, &flags("volatile-lfu"));
        let mut client = server.client();
        client.expect("OBJECT FREQ key", ":200\r\n");
        client.expect("CONFIG SET maxmemory-policy allkeys-lru", "+OK\r\n");
        restore(&mut client, "IDLETIME", "1000");
        client.expect("BGSAVE", "+Background saving started\r\n");
        wait_until("it is saved", || server.info_number("rdb_bgsave_in_progress") == 0);
        client.expect("DEBUG RELOAD", "+OK\r\n");
        assert!(is_idle(&mut client));
        let oracle = RedisOracle::start_with_snapshot(&data.path().join("dump.rdb"));
        assert!(is_idle(&mut oracle.client()), "Redis reads it");
        drop(oracle);
        let (_, data, _) = server.stop();
        let server = data.start(setup, &flags("allkeys-lru"));
        assert!(is_idle(&mut server.client()));
        // A policy that goes by neither writes neither.
        server.client().expect("CONFIG SET maxmemory-policy noeviction", "+OK\r\n");
        server.client().expect("DEBUG RELOAD", "+OK\r\n");
        assert!(!is_idle(&mut server.client()));
    }
}

#[test]
fn overwriting_a_key_without_touch_is_no_use_of_it() {
    on_every_process(|server| {
        let mut client = server.client();
        client.expect("CONFIG SET maxmemory-policy allkeys-lfu lfu-log-factor 0", "+OK\r\n");
        client.expect("MSET a v b v", "+OK\r\n");
        let six_and_five = [6, 5].map(Value::Integer);
        assert_eq!(frequencies_after(&mut client, "SET a w"), six_and_five);
        client.expect("CLIENT NO-TOUCH ON", "+OK\r\n");
        for line in ["SET a w", "GETSET b w", "MSET a w b w"] {
            assert_eq!(frequencies_after(&mut client, line), six_and_five, "{line}");
        }
    });
}
