//! The hash commands.

use crate::harness::{Value, check_script, on_every_engine};

#[test]
fn fields_are_set_read_and_removed() {
    check_script(
        r#"
        HSET h a 1 b 2
        :2
        HSET h a 3 c 4
        :1
        HGET h a
        $1 | 3
        HGET h z
        $-1
        HGET missing a
        $-1
        HMGET h a z c a
        *4 | $1 | 3 | $-1 | $1 | 4 | $1 | 3
        HMGET missing a b
        *2 | $-1 | $-1
        HMSET h d 5 e 6
        +OK
        HLEN h
        :5
        HLEN missing
        :0
        HEXISTS h a
        :1
        HEXISTS h z
        :0
        HEXISTS missing a
        :0
        HSETNX h a x
        :0
        HSETNX h f 7
        :1
        HGETALL h
        *12 | $1 | a | $1 | 3 | $1 | b | $1 | 2 | $1 | c | $1 | 4 | $1 | d | $1 | 5 | $1 | e | $1 | 6 | $1 | f | $1 | 7
        HKEYS h
        *6 | $1 | a | $1 | b | $1 | c | $1 | d | $1 | e | $1 | f
        HVALS h
        *6 | $1 | 3 | $1 | 2 | $1 | 4 | $1 | 5 | $1 | 6 | $1 | 7
        HGETALL missing
        *0
        HKEYS missing
        *0
        HVALS missing
        *0
        HDEL h a z b
        :2
        HDEL missing a
        :0
        HDEL h c d e f
        :4
        EXISTS h
        :0
        HSET bin "" "" "\x00\r\n" "\xff"
        :2
        HGET bin ""
        $0 |
        HGET bin "\x00\r\n"
        $1 | \xff
        HSET twice f 1 f 2
        :1
        HGET twice f
        $1 | 2
        "#,
    );
}

#[test]
fn hash_commands_refuse_what_makes_no_sense() {
    check_script(
        r#"
        HSET h a
        -ERR wrong number of arguments for 'hset' command
        HSET h a 1 b
        -ERR wrong number of arguments for 'hset' command
        HMSET h a 1 b
        -ERR wrong number of arguments for 'hmset' command
        HMGET h
        -ERR wrong number of arguments for 'hmget' command
        HDEL h
        -ERR wrong number of arguments for 'hdel' command
        SET k v
        +OK
        HSET k a 1
        -WRONGTYPE Operation against a key holding the wrong kind of value
        HMSET k a 1
        -WRONGTYPE Operation against a key holding the wrong kind of value
        HSETNX k a 1
        -WRONGTYPE Operation against a key holding the wrong kind of value
        HGET k a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        HMGET k a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        HGETALL k
        -WRONGTYPE Operation against a key holding the wrong kind of value
        HKEYS k
        -WRONGTYPE Operation against a key holding the wrong kind of value
        HVALS k
        -WRONGTYPE Operation against a key holding the wrong kind of value
        HDEL k a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        HLEN k
        -WRONGTYPE Operation against a key holding the wrong kind of value
        HEXISTS k a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        HINCRBY k a 1
        -WRONGTYPE Operation against a key holding the wrong kind of value
        EXISTS h
        :0
        "#,
    );
}

#[test]
fn hincrby_counts_and_refuses_to_overflow() {
    check_script(
        r#"
        HINCRBY h n 5
        :5
        HINCRBY h n -10
        :-5
        HGET h n
        $2 | -5
        HINCRBY h n x
        -ERR value is not an integer or out of range
        HSET h n 9223372036854775807
        :0
        HINCRBY h n 1
        -ERR increment or decrement would overflow
        HINCRBY h n -1
        :9223372036854775806
        HSET h s abc
        :1
        HINCRBY h s 1
        -ERR hash value is not an integer
        HSET h s ""
        :0
        HINCRBY h s 1
        -ERR hash value is not an integer
        HSET h s " 1"
        :0
        HINCRBY h s 1
        -ERR hash value is not an integer
        HSET h s 1.5
        :0
        HINCRBY h s 1
        -ERR hash value is not an integer
        HINCRBY h n
        -ERR wrong number of arguments for 'hincrby' command
        "#,
    );
}

#[test]
fn a_large_hash_keeps_every_field() {
    on_every_engine(|server| {
        let mut client = server.client();
        for start in (0..20_000).step_by(2_000) {
            let mut set = vec!["HSET".to_owned(), "h".to_owned()];
            set.extend((start..start + 2_000).flat_map(|index| [format!("field {index}"), format!("value {index}")]));
            assert_eq!(client.value(&set), Value::Integer(2_000));
        }
        let all = client.value(&["HGETALL", "h"]);
        assert_eq!(all.elements().len(), 40_000);
        assert!(all.byte_strings().chunks(2).all(|pair| pair[0][6..] == pair[1][6..]), "each field with its value");
        let mut fields = client.value(&["HKEYS", "h"]).byte_strings();
        fields.sort();
        fields.dedup();
        assert_eq!(fields.len(), 20_000);
    });
}
