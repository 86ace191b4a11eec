//! The string commands.

use harness::{Value, check_script, on_every_engine};

#[test]
fn set_obeys_its_options() {
    check_script(
        r#"
        SET k v
        +OK
        GET k
        $1 | v
        SET k w NX
        $-1
        SET new w NX
        +OK
        SET k w XX
        +OK
        SET missing w XX
        $-1
        EXISTS missing
        :0
        SET k x GET
        $1 | w
        SET none x GET
        $-1
        GET none
        $1 | x
        SET k y NX GET
        $1 | x
        GET k
        $1 | x
        SET absent y XX GET
        $-1
        EXISTS absent
        :0
        SET k v EX 100
        +OK
        TTL k
        :100
        SET k v KEEPTTL
        +OK
        TTL k
        :100
        SET k v
        +OK
        TTL k
        :-1
        set k v px 100000 nx
        $-1
        SET k v PX 100000
        +OK
        TTL k
        :100
        SET k v EXAT 33177117420
        +OK
        EXPIRETIME k
        :33177117420
        SET k v PXAT 33177117420123
        +OK
        PEXPIRETIME k
        :33177117420123
        SET k v EXAT 1
        +OK
        GET k
        $-1
        RPUSH list a
        :1
        SET list v
        +OK
        TYPE list
        +string
        RPUSH other a
        :1
        SET other v GET
        -WRONGTYPE Operation against a key holding the wrong kind of value
        TYPE other
        +list
        "#,
    );
}

#[test]
fn set_refuses_options_that_make_no_sense() {
    check_script(
        r#"
        SET k
        -ERR wrong number of arguments for 'set' command
        SET k v NX XX
        -ERR syntax error
        SET k v XX NX
        -ERR syntax error
        SET k v EX
        -ERR syntax error
        SET k v EX 10 PX 10
        -ERR syntax error
        SET k v EX 10 KEEPTTL
        -ERR syntax error
        SET k v KEEPTTL EXAT 10
        -ERR syntax error
        SET k v PERSIST
        -ERR syntax error
        SET k v BOGUS
        -ERR syntax error
        SET k v EX x
        -ERR value is not an integer or out of range
        SET k v EX 1.5
        -ERR value is not an integer or out of range
        SET k v EX 0
        -ERR invalid expire time in 'set' command
        SET k v PX -1
        -ERR invalid expire time in 'set' command
        SET k v EX 9223372036854775807
        -ERR invalid expire time in 'set' command
        SET k v EX 9223372036854775808
        -ERR value is not an integer or out of range
        SET k v PXAT 0
        -ERR invalid expire time in 'set' command
        SET k v EX 0 BOGUS
        -ERR syntax error
        EXISTS k
        :0
        "#,
    );
}

#[test]
fn get_and_its_kin_read_and_replace() {
    check_script(
        r#"
        GET missing
        $-1
        GET
        -ERR wrong number of arguments for 'get' command
        GET a b
        -ERR wrong number of arguments for 'get' command
        SET k ""
        +OK
        GET k
        $0 |
        SET "\x00\xff key" "\r\n\x00\xfe"
        +OK
        GET "\x00\xff key"
        $4 | \r\n\x00\xfe
        GETSET k one
        $0 |
        GETSET k two
        $3 | one
        GETSET fresh one
        $-1
        EXPIRE k 100
        :1
        GETSET k three
        $3 | two
        TTL k
        :-1
        GETDEL k
        $5 | three
        GETDEL k
        $-1
        SADD s m
        :1
        GET s
        -WRONGTYPE Operation against a key holding the wrong kind of value
        GETSET s v
        -WRONGTYPE Operation against a key holding the wrong kind of value
        GETDEL s
        -WRONGTYPE Operation against a key holding the wrong kind of value
        GETEX s
        -WRONGTYPE Operation against a key holding the wrong kind of value
        GETEX s BOGUS
        -ERR syntax error
        GETEX missing EX 10
        $-1
        SET k v
        +OK
        GETEX k
        $1 | v
        TTL k
        :-1
        GETEX k EX 100
        $1 | v
        TTL k
        :100
        GETEX k PERSIST
        $1 | v
        TTL k
        :-1
        GETEX k PX 100000
        $1 | v
        TTL k
        :100
        GETEX k PXAT 33177117420123
        $1 | v
        PEXPIRETIME k
        :33177117420123
        GETEX k EX 10 PERSIST
        -ERR syntax error
        GETEX k KEEPTTL
        -ERR syntax error
        GETEX k NX
        -ERR syntax error
        GETEX k EX 0
        -ERR invalid expire time in 'getex' command
        GETEX k EX x
        -ERR value is not an integer or out of range
        GETEX k EXAT 1
        $1 | v
        EXISTS k
        :0
        "#,
    );
}

#[test]
fn setnx_setex_psetex_set_on_their_conditions() {
    check_script(
        r#"
        SETNX k v
        :1
        SETNX k w
        :0
        GET k
        $1 | v
        LPUSH list a
        :1
        SETNX list w
        :0
        SETEX k 100 w
        +OK
        TTL k
        :100
        SETEX k 0 w
        -ERR invalid expire time in 'setex' command
        SETEX k -5 w
        -ERR invalid expire time in 'setex' command
        SETEX k x w
        -ERR value is not an integer or out of range
        PSETEX k 100000 w
        +OK
        TTL k
        :100
        PSETEX k 0 w
        -ERR invalid expire time in 'psetex' command
        PSETEX k 9223372036854775807 w
        -ERR invalid expire time in 'psetex' command
        SETEX list 100 w
        +OK
        TYPE list
        +string
        SETEX k 100
        -ERR wrong number of arguments for 'setex' command
        "#,
    );
}

#[test]
fn mget_and_mset_work_over_all_shards() {
    check_script(
        r#"
        MSET a 1 b 2 c 3 d 4 e 5 f 6 g 7 h 8
        +OK
        MGET a b c d e f g h
        *8 | $1 | 1 | $1 | 2 | $1 | 3 | $1 | 4 | $1 | 5 | $1 | 6 | $1 | 7 | $1 | 8
        MGET h nope a h
        *4 | $1 | 8 | $-1 | $1 | 1 | $1 | 8
        LPUSH list x
        :1
        MGET list a
        *2 | $-1 | $1 | 1
        MSET a first a last
        +OK
        GET a
        $4 | last
        EXPIRE a 100
        :1
        MSET a 1 list 2
        +OK
        TTL a
        :-1
        TYPE list
        +string
        MSET a
        -ERR wrong number of arguments for 'mset' command
        MSET a 1 b
        -ERR wrong number of arguments for 'mset' command
        MGET
        -ERR wrong number of arguments for 'mget' command
        MSET {tag}a 1 {tag}b 2
        +OK
        MGET {tag}b {tag}a
        *2 | $1 | 2 | $1 | 1
        "#,
    );
}

#[test]
fn counters_count_and_refuse_to_overflow() {
    check_script(
        r#"
        INCR n
        :1
        INCRBY n 41
        :42
        DECR n
        :41
        DECRBY n 100
        :-59
        INCRBY n -1
        :-60
        GET n
        $3 | -60
        EXPIRE n 100
        :1
        INCR n
        :-59
        TTL n
        :100
        SET n 9223372036854775807
        +OK
        INCR n
        -ERR increment or decrement would overflow
        INCRBY n -1
        :9223372036854775806
        SET n -9223372036854775808
        +OK
        DECR n
        -ERR increment or decrement would overflow
        DECRBY n -9223372036854775808
        -ERR decrement would overflow
        INCRBY n 9223372036854775808
        -ERR value is not an integer or out of range
        SET n " 1"
        +OK
        INCR n
        -ERR value is not an integer or out of range
        SET n 1.5
        +OK
        INCR n
        -ERR value is not an integer or out of range
        SET n ""
        +OK
        INCR n
        -ERR value is not an integer or out of range
        SET n 007
        +OK
        INCR n
        -ERR value is not an integer or out of range
        SET n +1
        +OK
        INCR n
        -ERR value is not an integer or out of range
        SET n -0
        +OK
        INCR n
        -ERR value is not an integer or out of range
        INCRBY n x
        -ERR value is not an integer or out of range
        SADD s a
        :1
        INCR s
        -WRONGTYPE Operation against a key holding the wrong kind of value
        INCR
        -ERR wrong number of arguments for 'incr' command
        "#,
    );
}

#[test]
fn incrbyfloat_prints_what_redis_prints() {
    check_script(
        r#"
        SET f 0.1
        +OK
        INCRBYFLOAT f 0.2
        $3 | 0.3
        INCRBYFLOAT f -0.3
        $1 | 0
        SET f 10.50
        +OK
        INCRBYFLOAT f 0.1
        $4 | 10.6
        INCRBYFLOAT f -5
        $3 | 5.6
        SET f 5.0e3
        +OK
        INCRBYFLOAT f 2.0e2
        $4 | 5200
        SET f 3
        +OK
        INCRBYFLOAT f 1.0e-5
        $7 | 3.00001
        INCRBYFLOAT fresh 3.0
        $1 | 3
        INCRBYFLOAT f x
        -ERR value is not a valid float
        INCRBYFLOAT f ""
        -ERR value is not a valid float
        INCRBYFLOAT f " 1"
        -ERR value is not a valid float
        INCRBYFLOAT f nan
        -ERR value is not a valid float
        INCRBYFLOAT f inf
        -ERR increment would produce NaN or Infinity
        SET f abc
        +OK
        INCRBYFLOAT f 1
        -ERR value is not a valid float
        LPUSH l a
        :1
        INCRBYFLOAT l 1
        -WRONGTYPE Operation against a key holding the wrong kind of value
        SET f 1
        +OK
        EXPIRE f 100
        :1
        INCRBYFLOAT f 1.5
        $3 | 2.5
        TTL f
        :100
        "#,
    );
}

#[test]
fn append_strlen_getrange_setrange_work_on_bytes() {
    check_script(
        r#"
        APPEND k Hello
        :5
        APPEND k ""
        :5
        APPEND k " World"
        :11
        GET k
        $11 | Hello World
        STRLEN k
        :11
        STRLEN missing
        :0
        GETRANGE k 0 4
        $5 | Hello
        GETRANGE k -5 -1
        $5 | World
        GETRANGE k 0 -1
        $11 | Hello World
        GETRANGE k 6 100
        $5 | World
        GETRANGE k 5 4
        $0 |
        GETRANGE k -100 0
        $1 | H
        GETRANGE k -1 -5
        $0 |
        GETRANGE k -100 -50
        $1 | H
        GETRANGE missing 0 -1
        $0 |
        GETRANGE k 100 200
        $0 |
        GETRANGE k x 1
        -ERR value is not an integer or out of range
        GETRANGE k 0 9223372036854775808
        -ERR value is not an integer or out of range
        SETRANGE k 6 Redis
        :11
        GET k
        $11 | Hello Redis
        SETRANGE k 13 !
        :14
        GET k
        $14 | Hello Redis\x00\x00!
        SETRANGE fresh 2 ""
        :0
        EXISTS fresh
        :0
        SETRANGE fresh 2 a
        :3
        GET fresh
        $3 | \x00\x00a
        SETRANGE k 100 ""
        :14
        SETRANGE k -1 a
        -ERR offset is out of range
        SETRANGE k x a
        -ERR value is not an integer or out of range
        SETRANGE k 536870912 a
        -ERR string exceeds maximum allowed size (proto-max-bulk-len)
        SETRANGE k 9223372036854775807 a
        -ERR string exceeds maximum allowed size (proto-max-bulk-len)
        SET n 12
        +OK
        APPEND n 3
        :3
        INCR n
        :124
        SETRANGE n 0 9
        :3
        GET n
        $3 | 924
        STRLEN n
        :3
        SADD s a
        :1
        APPEND s x
        -WRONGTYPE Operation against a key holding the wrong kind of value
        STRLEN s
        -WRONGTYPE Operation against a key holding the wrong kind of value
        GETRANGE s 0 1
        -WRONGTYPE Operation against a key holding the wrong kind of value
        SETRANGE s 0 x
        -WRONGTYPE Operation against a key holding the wrong kind of value
        SET e v EX 100
        +OK
        APPEND e w
        :2
        SETRANGE e 0 x
        :2
        TTL e
        :100
        "#,
    );
}

#[test]
fn values_of_every_size_come_back_whole() {
    on_every_engine(|server| {
        let mut client = server.client();
        let sizes = [0, 1, 31, 32, 33, 44, 45, 255, 256, 4095, 16384, 65535, 65536, 65537, 1 << 20, 9_000_001];
        for size in sizes {
            let value: Vec<u8> = (0..size).map(|index| (index % 251) as u8).collect();
            let key = format!("size:{size}").into_bytes();
            assert_eq!(client.value(&[b"SET".to_vec(), key.clone(), value.clone()]), Value::Simple(b"OK".to_vec()));
            assert_eq!(client.value(&[b"STRLEN".to_vec(), key.clone()]), Value::Integer(size));
            let read = client.value(&[b"GET".to_vec(), key]);
            assert!(read.bytes() == value, "{size} bytes");
        }
    });
}

#[test]
fn msetnx_sets_all_or_nothing() {
    check_script(
        r#"
        MSETNX a 1 b 2
        :1
        MSETNX c 3 b 4
        :0
        MGET a b c
        *3 | $1 | 1 | $1 | 2 | $-1
        # A key twice: the last value.
        MSETNX d 1 d x
        :1
        GET d
        $1 | x
        RPUSH l e
        :1
        MSETNX l 1 e 1
        :0
        EXISTS e
        :0
        MSETNX a
        -ERR wrong number of arguments for 'msetnx' command
        MSETNX a 1 b
        -ERR wrong number of arguments for 'msetnx' command
        "#,
    );
}

#[test]
fn a_setrange_that_is_refused_leaves_an_integer_an_integer_and_lolwut_wants_a_version_that_is_a_number() {
    check_script(
        r#"
        SET k 42
        +OK
        SETRANGE k 536870911 xx
        -ERR string exceeds maximum allowed size (proto-max-bulk-len)
        OBJECT ENCODING k
        $3 | int
        SETRANGE k 1 3
        :2
        OBJECT ENCODING k
        $3 | raw
        LOLWUT VERSION abc
        -ERR value is not an integer or out of range
        "#,
    );
}
