//! The hash commands.

use harness::{Value, check_script, on_every_engine};
use std::collections::HashSet;

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

#[test]
fn hstrlen_and_hincrbyfloat_tell_what_a_field_holds() {
    check_script(
        r#"
        HSET h a hello n 12345 f 10.5 e ""
        :4
        HSTRLEN h a
        :5
        HSTRLEN h n
        :5
        HSTRLEN h e
        :0
        HSTRLEN h missing
        :0
        HSTRLEN missing a
        :0
        HINCRBYFLOAT h f 0.1
        $4 | 10.6
        HINCRBYFLOAT h n 1
        $5 | 12346
        HINCRBYFLOAT h new 0.1
        $3 | 0.1
        HINCRBYFLOAT h new 0.2
        $3 | 0.3
        HINCRBYFLOAT h new 5.0e3
        $22 | 5000.29999999999999982
        HGET h new
        $22 | 5000.29999999999999982
        HINCRBYFLOAT h a 1
        -ERR hash value is not a float
        HINCRBYFLOAT h n x
        -ERR value is not a valid float
        HINCRBYFLOAT h n inf
        -ERR value is NaN or Infinity
        HINCRBYFLOAT h n nan
        -ERR value is not a valid float
        HINCRBYFLOAT g n 1.5
        $3 | 1.5
        SET s v
        +OK
        HSTRLEN s a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        HINCRBYFLOAT s a 1
        -WRONGTYPE Operation against a key holding the wrong kind of value
        HRANDFIELD s
        -WRONGTYPE Operation against a key holding the wrong kind of value
        "#,
    );
}

#[test]
fn random_fields_with_a_determined_outcome() {
    check_script(
        r#"
        HSET h a 1
        :1
        HRANDFIELD h
        $1 | a
        HRANDFIELD h 1
        *1 | $1 | a
        HRANDFIELD h 5 WITHVALUES
        *2 | $1 | a | $1 | 1
        HRANDFIELD h -3 withvalues
        *6 | $1 | a | $1 | 1 | $1 | a | $1 | 1 | $1 | a | $1 | 1
        HRANDFIELD h -2
        *2 | $1 | a | $1 | a
        HRANDFIELD h 0
        *0
        HRANDFIELD h 9223372036854775807
        *1 | $1 | a
        HRANDFIELD h 9223372036854775807 WITHVALUES
        -ERR value is out of range
        HRANDFIELD h -9223372036854775807 WITHVALUES
        -ERR value is out of range
        HRANDFIELD h 4611686018427387903 WITHVALUES
        *2 | $1 | a | $1 | 1
        HRANDFIELD h 9223372036854775808
        -ERR value is not an integer or out of range
        HRANDFIELD h -9223372036854775808
        -ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807
        HRANDFIELD h x
        -ERR value is not an integer or out of range
        HRANDFIELD h 1 VALUES
        -ERR syntax error
        HRANDFIELD h 1 WITHVALUES 1
        -ERR syntax error
        HRANDFIELD missing
        $-1
        HRANDFIELD missing 2
        *0
        HRANDFIELD missing 2 WITHVALUES
        *0
        HSET h b 2 c 3
        :2
        HRANDFIELD h 3
        *3 | $1 | a | $1 | b | $1 | c
        "#,
    );
}

#[test]
fn a_small_hash_is_scanned_in_one_page() {
    check_script(
        r#"
        HSET h a 1 b 2 c hello
        :3
        HSCAN h 0
        *2 | $1 | 0 | *6 | $1 | a | $1 | 1 | $1 | b | $1 | 2 | $1 | c | $5 | hello
        HSCAN h 77 COUNT 1
        *2 | $1 | 0 | *6 | $1 | a | $1 | 1 | $1 | b | $1 | 2 | $1 | c | $5 | hello
        HSCAN h 0 MATCH [ac]
        *2 | $1 | 0 | *4 | $1 | a | $1 | 1 | $1 | c | $5 | hello
        HSCAN missing 0
        *2 | $1 | 0 | *0
        HSCAN missing 0 NOTHING
        *2 | $1 | 0 | *0
        HSCAN h x
        -ERR invalid cursor
        HSCAN h 0 COUNT 0
        -ERR syntax error
        HSCAN h 0 COUNT x
        -ERR value is not an integer or out of range
        HSCAN h 0 TYPE hash
        -ERR syntax error
        SET s v
        +OK
        HSCAN s 0
        -WRONGTYPE Operation against a key holding the wrong kind of value
        "#,
    );
}

/// Redis has this since 7.4; replies and errors are those of redis-server 8.2.
#[test]
fn hscan_leaves_out_values_and_zscan_scores_where_they_are_told_so() {
    check_script(
        r#"
        !HSET h a 1 b 2 c hello
        :3
        !HSCAN h 0 NOVALUES
        *2 | $1 | 0 | *3 | $1 | a | $1 | b | $1 | c
        !HSCAN h 0 novalues MATCH [ac] COUNT 5
        *2 | $1 | 0 | *2 | $1 | a | $1 | c
        !SCAN 0 NOVALUES
        -ERR NOVALUES option can only be used in HSCAN
        !SADD s m
        :1
        !SSCAN s 0 NOVALUES
        -ERR NOVALUES option can only be used in HSCAN
        !ZADD z 1 m
        :1
        !ZSCAN z 0 NOVALUES
        -ERR NOVALUES option can only be used in HSCAN
        # Valkey has this since 8.1, Redis has not.
        !ZSCAN z 0 NOSCORES
        *2 | $1 | 0 | *1 | $1 | m
        !ZSCAN z 0 MATCH n NOSCORES COUNT 3
        *2 | $1 | 0 | *0
        !SSCAN s 0 NOSCORES
        -ERR syntax error
        SCAN 0 NOSCORES
        -ERR syntax error
        !HSCAN h 0 NOVALUES x
        -ERR syntax error
        "#,
    );
}

#[test]
fn a_field_that_stays_is_scanned_whatever_is_added_and_removed_meanwhile() {
    on_every_engine(|server| {
        let client = &mut server.client();
        client.call(&["DEL", "h"]);
        for n in 0..1_000 {
            client.call(&["HSET", "h", &format!("staying:{n}"), &n.to_string()]);
        }
        let (mut cursor, mut seen, mut pages) = ("0".to_owned(), HashSet::new(), 0);
        loop {
            let page = client.value(&["HSCAN", "h", &cursor, "COUNT", "20"]);
            let Value::Array(page) = page else { panic!("a page is an array") };
            let [Value::Bulk(next), Value::Array(pairs)] = &page[..] else { panic!("a cursor and elements: {page:?}") };
            for pair in pairs.chunks(2) {
                let [Value::Bulk(field), Value::Bulk(value)] = pair else { panic!("a field and its value: {pair:?}") };
                let field = String::from_utf8(field.clone()).unwrap();
                if let Some(n) = field.strip_prefix("staying:") {
                    assert_eq!(n.as_bytes(), value);
                    seen.insert(field);
                }
            }
            pages += 1;
            for n in 0..60 {
                let field = format!("passing:{}", 60 * (pages % 40) + n);
                client.call(&if pages < 40 { vec!["HSET", "h", &field, "v"] } else { vec!["HDEL", "h", &field] });
            }
            cursor = String::from_utf8(next.clone()).unwrap();
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(seen.len(), 1_000, "after {pages} pages");
        assert!(pages > 20, "{pages} pages of 20");
    });
}
