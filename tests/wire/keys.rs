//! Commands on keys of any type, and on the keyspace as a whole.

use harness::{Client, EVERY_ENGINE, Embedded, Value, check_script, on_every_engine};
use std::collections::HashSet;

#[test]
fn del_exists_touch_count_over_all_shards() {
    check_script(
        r#"
        MSET a 1 b 2 c 3 d 4 e 5 f 6
        +OK
        EXISTS a b c nope
        :3
        EXISTS a a a
        :3
        TOUCH a b nope
        :2
        DEL a a nope
        :1
        DEL a
        :0
        UNLINK b c nope
        :2
        EXISTS a b c d e f
        :3
        RPUSH l x
        :1
        SADD s x
        :1
        HSET h x y
        :1
        DEL l s h d e f
        :6
        DBSIZE
        :0
        DEL
        -ERR wrong number of arguments for 'del' command
        UNLINK
        -ERR wrong number of arguments for 'unlink' command
        EXISTS
        -ERR wrong number of arguments for 'exists' command
        "#,
    );
}

#[test]
fn type_names_the_type() {
    check_script(
        r#"
        TYPE k
        +none
        SET k v
        +OK
        TYPE k
        +string
        RPUSH l x
        :1
        TYPE l
        +list
        SADD s x
        :1
        TYPE s
        +set
        HSET h x y
        :1
        TYPE h
        +hash
        TYPE
        -ERR wrong number of arguments for 'type' command
        "#,
    );
}

#[test]
fn keys_follows_the_patterns_of_redis() {
    check_script(
        r#"
        MSET hello 1 hallo 2 hxllo 3 heello 4 hllo 5 h*llo 6 h[llo 7 user:1:name 8 user:2:name 9 "a\\b" 10 "" 11
        +OK
        KEYS h?llo
        *5 | $5 | hello | $5 | hallo | $5 | hxllo | $5 | h*llo | $5 | h[llo
        KEYS h*llo
        *7 | $5 | hello | $5 | hallo | $5 | hxllo | $5 | h*llo | $5 | h[llo | $4 | hllo | $6 | heello
        KEYS h[ae]llo
        *2 | $5 | hello | $5 | hallo
        KEYS h[^e]llo
        *4 | $5 | hallo | $5 | hxllo | $5 | h*llo | $5 | h[llo
        KEYS h[a-b]llo
        *1 | $5 | hallo
        KEYS h[b-a]llo
        *1 | $5 | hallo
        KEYS "h\\*llo"
        *1 | $5 | h*llo
        KEYS "h\\[llo"
        *1 | $5 | h[llo
        KEYS user:*:name
        *2 | $11 | user:1:name | $11 | user:2:name
        KEYS ""
        *1 | $0 |
        KEYS "a\\\\b"
        *1 | $3 | a\\b
        KEYS HELLO
        *0
        KEYS nothing*
        *0
        KEYS "h[el"
        *0
        KEYS "h["
        *0
        KEYS
        -ERR wrong number of arguments for 'keys' command
        KEYS a b
        -ERR wrong number of arguments for 'keys' command
        DBSIZE
        :11
        "#,
    );
}

#[test]
fn flushing_empties_every_shard() {
    check_script(
        r#"
        MSET a 1 b 2 c 3 d 4
        +OK
        FLUSHDB
        +OK
        DBSIZE
        :0
        MSET a 1 b 2 c 3 d 4
        +OK
        FLUSHALL SYNC
        +OK
        KEYS *
        *0
        SET a 1 EX 100
        +OK
        FLUSHALL ASYNC
        +OK
        SET a 1
        +OK
        TTL a
        :-1
        FLUSHDB async
        +OK
        FLUSHALL NOW
        -ERR syntax error
        FLUSHDB SYNC ASYNC
        -ERR syntax error
        RANDOMKEY
        $-1
        DBSIZE x
        -ERR wrong number of arguments for 'dbsize' command
        "#,
    );
}

#[test]
fn randomkey_reaches_every_key() {
    on_every_engine(|server| {
        let mut client = server.client();
        let names: HashSet<Vec<u8>> = (0..20).map(|index| format!("key:{index}").into_bytes()).collect();
        for name in &names {
            client.call(&[b"SET".as_slice(), name, b"v"]);
        }
        let draws = client.pipeline(&vec![vec!["RANDOMKEY"]; 2000]);
        let drawn: HashSet<Vec<u8>> = draws.iter().map(|value| value.bytes().to_vec()).collect();
        assert_eq!(drawn, names, "2000 draws reach all of 20 keys");
    });
}

#[test]
fn a_hostile_pattern_does_not_keep_a_shard_busy_for_ever() {
    on_every_engine(|server| {
        let mut client = server.client();
        client.call(&["SET".to_owned(), "a".repeat(1000), "v".to_owned()]);
        let pattern = "a*".repeat(300) + "b";
        assert_eq!(client.value(&["KEYS", &pattern]), Value::Array(vec![]));
    });
}

#[test]
fn a_key_is_renamed_with_all_it_holds() {
    check_script(
        r#"
        SET a v EX 1000
        +OK
        RENAME a longer
        +OK
        EXISTS a
        :0
        GET longer
        $1 | v
        TTL longer
        :1000
        RPUSH l 1 2
        :2
        # What the new key held is gone, its deadline included.
        RENAME l longer
        +OK
        LRANGE longer 0 -1
        *2 | $1 | 1 | $1 | 2
        TTL longer
        :-1
        RENAME longer longer
        +OK
        RENAME none a
        -ERR no such key
        RENAME none none
        -ERR no such key
        RENAMENX none a
        -ERR no such key
        RENAMENX longer longer
        :0
        SADD s m
        :1
        RENAMENX longer s
        :0
        RENAMENX longer new
        :1
        TYPE new
        +list
        INCR n
        :1
        EXPIRE n 1000
        :1
        RENAMENX n m
        :1
        INCR m
        :2
        TTL m
        :1000
        RENAME a
        -ERR wrong number of arguments for 'rename' command
        DBSIZE
        :3
        "#,
    );
}

#[test]
fn a_copy_is_a_value_of_its_own() {
    check_script(
        r#"
        RPUSH a 1 2
        :2
        EXPIRE a 1000
        :1
        COPY a b
        :1
        TTL b
        :1000
        RPUSH b 3
        :3
        LLEN a
        :2
        SET s text
        +OK
        COPY s b
        :0
        COPY s b REPLACE
        :1
        APPEND b !
        :5
        MGET s b
        *2 | $4 | text | $5 | text!
        TTL b
        :-1
        COPY none b REPLACE
        :0
        COPY s c DB 0
        :1
        COPY s d db 0 replace replace db 0
        :1
        HSET h f v
        :1
        COPY h h2
        :1
        HGETALL h2
        *2 | $1 | f | $1 | v
        COPY s s
        -ERR source and destination objects are the same
        COPY none none REPLACE
        -ERR source and destination objects are the same
        COPY s e DB 16
        -ERR DB index is out of range
        COPY s e DB -1
        -ERR DB index is out of range
        COPY s e DB x
        -ERR value is not an integer or out of range
        COPY s e DB 99999999999
        -ERR value is out of range, value must between -2147483648 and 2147483647
        COPY s e DB
        -ERR syntax error
        COPY s s BOGUS
        -ERR syntax error
        COPY s
        -ERR wrong number of arguments for 'copy' command
        "#,
    );
}

#[test]
fn scan_refuses_what_redis_refuses() {
    check_script(
        r#"
        SCAN
        -ERR wrong number of arguments for 'scan' command
        SCAN x
        -ERR invalid cursor
        SCAN 1x
        -ERR invalid cursor
        SCAN 18446744073709551616
        -ERR invalid cursor
        SCAN -
        -ERR invalid cursor
        SCAN -x
        -ERR invalid cursor
        SCAN -18446744073709551616
        -ERR invalid cursor
        SCAN -1 MATCH nosuch COUNT 100
        *2 | $1 | 0 | *0
        SCAN "-1\x00x" MATCH nosuch COUNT 100
        *2 | $1 | 0 | *0
        SCAN " 0"
        -ERR invalid cursor
        SCAN 0 COUNT 0
        -ERR syntax error
        SCAN 0 COUNT -1
        -ERR syntax error
        SCAN 0 COUNT x
        -ERR value is not an integer or out of range
        SCAN 0 COUNT
        -ERR syntax error
        SCAN 0 MATCH
        -ERR syntax error
        SCAN 0 BOGUS x
        -ERR syntax error
        SCAN x COUNT x
        -ERR invalid cursor
        # A shard that no setup has.
        !SCAN 18446744073709551615
        *2 | $1 | 0 | *0
        !SCAN 281474976710656000
        *2 | $1 | 0 | *0
        "#,
    );
}

/// All keys that a walk with these options returns, and in how many calls.
fn scan(client: &mut Client, options: &[&str], mut between: impl FnMut(&mut Client)) -> (Vec<Vec<u8>>, usize) {
    const CALLS_MAX: usize = 100_000;
    let mut keys = Vec::new();
    let mut cursor = "0".to_owned();
    for calls in 1..CALLS_MAX {
        let reply = client.value(&[&["SCAN", &cursor], options].concat());
        cursor = reply.elements()[0].text();
        keys.extend(reply.elements()[1].byte_strings());
        if cursor == "0" {
            return (keys, calls);
        }
        between(client);
    }
    panic!("SCAN does not end");
}

#[test]
fn scan_gives_every_key_that_stays_exactly_once_whatever_comes_and_goes() {
    const STAYING: usize = 3_000;
    const PASSING: usize = 500;
    on_every_engine(|server| {
        let mut client = server.client();
        let staying: Vec<Vec<u8>> = (0..STAYING).map(|n| format!("staying:{n}").into_bytes()).collect();
        client
            .pipeline(&staying.iter().map(|key| vec![b"SET".to_vec(), key.clone(), b"v".to_vec()]).collect::<Vec<_>>());
        for count in ["7", "100", "100000"] {
            let mut round = 0;
            let (mut keys, _) = scan(&mut client, &["COUNT", count], |client| {
                // Grows for five pages, shrinks for five: tables double and halve under the walk.
                let name = if round % 10 < 5 { "SET" } else { "DEL" };
                let names = (0..PASSING).map(|n| format!("passing:{}:{n}", round % 5));
                let request = |key: String| match name {
                    "SET" => vec![name.to_owned(), key, "v".to_owned()],
                    _ => vec![name.to_owned(), key],
                };
                if round < 40 {
                    client.pipeline(&names.map(request).collect::<Vec<_>>());
                }
                round += 1;
            });
            keys.retain(|key| key.starts_with(b"staying"));
            keys.sort();
            let mut wanted = staying.clone();
            wanted.sort();
            assert!(keys == wanted, "COUNT {count}: {} keys, not {STAYING}", keys.len());
        }
    });
}

#[test]
fn scan_looks_at_as_many_keys_as_count_says_and_gives_those_that_match() {
    on_every_engine(|server| {
        let mut client = server.client();
        assert_eq!(scan(&mut client, &[], |_| {}).0, Vec::<Vec<u8>>::new());
        for n in 0..500 {
            client.call(&["SET".to_owned(), format!("string:{n}"), "v".to_owned()]);
            client.call(&["SADD".to_owned(), format!("set:{n}"), "v".to_owned()]);
        }
        client.call(&["SET", "", "an empty key"]);
        client.call(&["SET", "gone", "soon", "PX", "1"]);
        std::thread::sleep(std::time::Duration::from_millis(5));
        let sorted = |mut keys: Vec<Vec<u8>>| {
            keys.sort();
            keys
        };
        let (keys, calls) = scan(&mut client, &["COUNT", "20"], |_| {});
        assert_eq!(keys.len(), 1001);
        assert!((1001 / 40..=1001 / 20 + 2 * server.setup().shards).contains(&calls), "{calls} calls");
        // A key whose time has come is no page more or less once it is removed.
        harness::wait_until("it is removed", || client.call(&["DBSIZE"]) == b":1001\r\n");
        let calls = scan(&mut client, &["COUNT", "20"], |_| {}).1;
        let (keys, filtered_calls) = scan(&mut client, &["MATCH", "set:*", "COUNT", "20"], |_| {});
        let sets = sorted((0..500).map(|n| format!("set:{n}").into_bytes()).collect());
        assert_eq!((sorted(keys), filtered_calls), (sets.clone(), calls));
        assert_eq!(sorted(scan(&mut client, &["TYPE", "SET"], |_| {}).0), sets);
        assert_eq!(scan(&mut client, &["TYPE", "set", "MATCH", "*:7"], |_| {}).0, [b"set:7"]);
        assert_eq!(scan(&mut client, &["TYPE", "bogus"], |_| {}).0, Vec::<Vec<u8>>::new());
        assert_eq!(scan(&mut client, &["MATCH", "*", "COUNT", "9223372036854775807"], |_| {}).0.len(), 1001);
        assert_eq!(scan(&mut client, &["MATCH", ""], |_| {}).0, [b""]);
    });
}

/// The cursor and the number of keys of one page.
fn page(client: &mut Client, request: &[&str]) -> (String, usize) {
    let reply = client.value(request);
    (reply.elements()[0].text(), reply.elements()[1].elements().len())
}

#[test]
fn a_database_of_few_keys_is_one_page_of_scan() {
    on_every_engine(|server| {
        let mut client = server.client();
        for database in ["0", "7"] {
            client.call(&["SELECT", database]);
            assert_eq!(page(&mut client, &["SCAN", "0"]), ("0".to_owned(), 0));
            for keys in 1..=10 {
                client.call(&["SET".to_owned(), format!("key:{keys}"), "v".to_owned()]);
                assert_eq!(page(&mut client, &["SCAN", "0"]), ("0".to_owned(), keys), "of {keys} keys");
            }
            assert_eq!(page(&mut client, &["SCAN", "0", "COUNT", "10", "MATCH", "key:?"]), ("0".to_owned(), 9));
            assert_eq!(page(&mut client, &["SCAN", "0", "TYPE", "list"]), ("0".to_owned(), 0));
            assert_ne!(page(&mut client, &["SCAN", "0", "COUNT", "1"]).0, "0");
            // A transaction, and a pipeline whose keys are not counted yet.
            client.call(&["MULTI"]);
            client.call(&["SCAN", "0"]);
            let whole = client.value(&["EXEC"]);
            assert_eq!(whole.elements()[0].elements()[0].text(), "0");
            client.call(&["FLUSHDB"]);
            let sets = (0..10).map(|n| vec!["SET".to_owned(), format!("again:{n}"), "v".to_owned()]);
            let replies = client.pipeline(&sets.chain([vec!["SCAN".to_owned(), "0".to_owned()]]).collect::<Vec<_>>());
            let last = replies[10].elements();
            assert_eq!((last[0].text(), last[1].elements().len()), ("0".to_owned(), 10));
        }
    });
}

#[test]
fn a_page_of_scan_is_as_long_as_count_says_though_shards_are_shorter() {
    on_every_engine(|server| {
        let mut client = server.client();
        let sets = (0..1000).map(|n| vec!["SET".to_owned(), format!("key:{n}"), "v".to_owned()]);
        client.pipeline(&sets.collect::<Vec<_>>());
        let (cursor, keys) = page(&mut client, &["SCAN", "0", "COUNT", "600"]);
        assert!((600..632).contains(&keys), "{keys} keys");
        let (cursor, rest) = page(&mut client, &["SCAN", &cursor, "COUNT", "600"]);
        assert_eq!((cursor.as_str(), keys + rest), ("0", 1000));
        assert_eq!(page(&mut client, &["SCAN", "0", "COUNT", "1000"]), ("0".to_owned(), 1000));
    });
}

#[test]
fn scan_removes_the_expired_keys_that_it_would_have_replied() {
    let left = |client: &mut Client| client.value(&["DBSIZE"]).integer();
    for setup in EVERY_ENGINE {
        let server = Embedded::start(setup, &["--enable-debug-command", "yes"]);
        let mut client = server.client();
        client.call(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
        for n in 0..100 {
            client.call(&["SET".to_owned(), format!("lasting:{n}"), "v".to_owned()]);
            client.call(&["SET".to_owned(), format!("passing:{n}"), "v".to_owned(), "PX".to_owned(), "1".to_owned()]);
        }
        client.call(&["SET", "other", "v", "PX", "1"]);
        client.call(&["HSET", "hash", "f", "v"]);
        client.call(&["PEXPIRE", "hash", "1"]);
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert_eq!(left(&mut client), 202, "{setup:?}");
        assert_eq!(scan(&mut client, &["MATCH", "lasting:*"], |_| {}).0.len(), 100);
        assert_eq!(left(&mut client), 202, "{setup:?}: what does not match stays");
        assert_eq!(scan(&mut client, &["TYPE", "string", "MATCH", "?a*"], |_| {}).0.len(), 100);
        assert_eq!(left(&mut client), 101, "{setup:?}: whatever its type, one that matches goes");
        assert_eq!(scan(&mut client, &["TYPE", "bogus"], |_| {}).0.len(), 0);
        assert_eq!(left(&mut client), 100, "{setup:?}: also where no type has the name");
    }
}
