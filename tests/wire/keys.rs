//! Commands on keys of any type, and on the keyspace as a whole.

use crate::harness::{Value, check_script, on_every_engine};
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
