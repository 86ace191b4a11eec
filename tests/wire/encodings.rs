//! OBJECT, and the encodings that it shows: those of Redis 7.2, where the oracle, 7.0, has others for lists and sets.

use harness::{Client, RedisOracle, Value, check_script, on_every_engine, on_every_process};
use shardrace::internals::keyspace::{Element, Intset, Listpack};
use std::collections::BTreeSet;

#[test]
fn object_tells_how_strings_are_kept() {
    check_script(
        r#"
        SET int 12345
        +OK
        OBJECT ENCODING int
        $3 | int
        OBJECT REFCOUNT int
        :1
        SET small 9999
        +OK
        OBJECT REFCOUNT small
        :2147483647
        SET short aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
        +OK
        OBJECT ENCODING short
        $6 | embstr
        SET long aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
        +OK
        OBJECT ENCODING long
        $3 | raw
        APPEND short b
        :45
        SET short ab
        +OK
        OBJECT ENCODING short
        $6 | embstr
        APPEND short c
        :3
        OBJECT ENCODING short
        $3 | raw
        COPY short copy
        :1
        OBJECT ENCODING copy
        $3 | raw
        SETRANGE new 0 abc
        :3
        OBJECT ENCODING new
        $3 | raw
        APPEND another abc
        :3
        OBJECT ENCODING another
        $6 | embstr
        APPEND int 6
        :6
        OBJECT ENCODING int
        $3 | raw
        INCR int
        :123457
        OBJECT ENCODING int
        $3 | int
        OBJECT ENCODING missing
        $-1
        SET number 1234
        +OK
        SETRANGE number 9 ""
        :4
        OBJECT ENCODING number
        $3 | int
        SETRANGE number 0 2
        :4
        OBJECT ENCODING number
        $3 | raw
        INCRBYFLOAT sum 8
        $1 | 8
        OBJECT ENCODING sum
        $6 | embstr
        PFADD sketch a
        :1
        OBJECT ENCODING sketch
        $3 | raw
        PFADD sketch b
        :1
        OBJECT ENCODING sketch
        $3 | raw
        BITOP NOT bits sum
        :1
        OBJECT ENCODING bits
        $3 | raw
        MULTI
        +OK
        OBJECT NOTHING x
        -ERR unknown subcommand 'NOTHING'. Try OBJECT HELP.
        DISCARD
        +OK
        OBJECT IDLETIME missing
        $-1
        STRLEN int
        :6
        OBJECT IDLETIME int
        :0
        OBJECT REFCOUNT missing
        $-1
        OBJECT FREQ missing
        $-1
        OBJECT FREQ int
        -ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.
        OBJECT ENCODING
        -ERR wrong number of arguments for 'object\x7cencoding' command
        OBJECT FREQ a b
        -ERR wrong number of arguments for 'object\x7cfreq' command
        OBJECT HELP x
        -ERR wrong number of arguments for 'object\x7chelp' command
        OBJECT NOTHING x
        -ERR unknown subcommand 'NOTHING'. Try OBJECT HELP.
        OBJECT
        -ERR wrong number of arguments for 'object' command
        !OBJECT HELP
        *15 | +OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are: | +ENCODING <key> | +    Return the kind of internal representation used in order to store the value | +    associated with a <key>. | +FREQ <key> | +    Return the access frequency index of the <key>. The returned integer is | +    proportional to the logarithm of the recent access frequency of the key. | +IDLETIME <key> | +    Return the idle time of the <key>, that is the approximated number of | +    seconds elapsed since the last access to the key. | +REFCOUNT <key> | +    Return the number of references of the value associated with the specified | +    <key>. | +HELP | +    Print this help.
        "#,
    );
}

#[test]
fn a_hash_is_a_listpack_until_it_is_too_large_in_either_way() {
    check_script(
        r#"
        CONFIG SET hash-max-listpack-entries 3 hash-max-ziplist-value 8
        +OK
        CONFIG GET hash-max-ziplist-entries
        *2 | $24 | hash-max-ziplist-entries | $1 | 3
        HSET h a 1 b 2 c 3
        :3
        OBJECT ENCODING h
        $8 | listpack
        HSET h c 4
        :0
        OBJECT ENCODING h
        $8 | listpack
        HSET h d 4
        :1
        OBJECT ENCODING h
        $9 | hashtable
        HDEL h b c d
        :3
        OBJECT ENCODING h
        $9 | hashtable
        # A limit that has become lower counts when a field changes, too.
        HSET lowered a 1 b 2 c 3
        :3
        CONFIG SET hash-max-listpack-entries 2
        +OK
        OBJECT ENCODING lowered
        $8 | listpack
        HSET lowered a 4
        :0
        OBJECT ENCODING lowered
        $9 | hashtable
        CONFIG SET hash-max-listpack-entries 3
        +OK
        HSET g a 12345678
        :1
        OBJECT ENCODING g
        $8 | listpack
        HSET g a 123456789
        :0
        OBJECT ENCODING g
        $9 | hashtable
        HSETNX i 123456789 a
        :1
        OBJECT ENCODING i
        $9 | hashtable
        HINCRBY j a 123456789
        :123456789
        OBJECT ENCODING j
        $9 | hashtable
        CONFIG SET hash-max-listpack-entries 512 hash-max-listpack-value 64
        +OK
        "#,
    );
}

#[test]
fn a_set_is_an_intset_or_a_listpack_until_it_is_too_large() {
    check_script(
        r#"
        SADD ints 1 2 3
        :3
        OBJECT ENCODING ints
        $6 | intset
        SADD ints x
        :1
        !OBJECT ENCODING ints
        $8 | listpack
        SADD words a b c
        :3
        !OBJECT ENCODING words
        $8 | listpack
        SREM ints x
        :1
        !OBJECT ENCODING ints
        $8 | listpack
        SUNIONSTORE all ints
        :3
        !OBJECT ENCODING all
        $6 | intset
        SINTERSTORE common ints ints
        :3
        !OBJECT ENCODING common
        $6 | intset
        SADD long aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
        :1
        OBJECT ENCODING long
        $9 | hashtable
        !CONFIG SET set-max-listpack-entries 3 set-max-listpack-value 2
        +OK
        !SADD small a b c
        :3
        !OBJECT ENCODING small
        $8 | listpack
        !SADD small d
        :1
        !OBJECT ENCODING small
        $9 | hashtable
        !SADD many a b c d
        :4
        !OBJECT ENCODING many
        $9 | hashtable
        !SADD numbers 100 200
        :2
        !SADD numbers a
        :1
        !OBJECT ENCODING numbers
        $9 | hashtable
        CONFIG SET set-max-intset-entries 2
        +OK
        SADD few 1 2
        :2
        OBJECT ENCODING few
        $6 | intset
        SADD few 3
        :1
        OBJECT ENCODING few
        $9 | hashtable
        CONFIG SET set-max-intset-entries 512
        +OK
        !CONFIG SET set-max-listpack-entries 128 set-max-listpack-value 64
        +OK
        "#,
    );
}

/// As in Redis 7.2: a sixth or less of a set that is left becomes a new one.
#[test]
fn spop_of_most_members_leaves_a_small_set() {
    on_every_engine(|server| {
        let mut client = server.client();
        let members = |count: usize| (0..count).map(|number| format!("member:{number}"));
        for (count, taken, encoding) in [(600, 500, "listpack"), (600, 499, "hashtable"), (1200, 1071, "hashtable")] {
            client.expect("FLUSHALL", "+OK\r\n");
            client.call(&["SADD".to_owned(), "s".to_owned()].into_iter().chain(members(count)).collect::<Vec<_>>());
            let popped = client.value(&["SPOP", "s", &taken.to_string()]);
            assert_eq!(popped.elements().len(), taken);
            assert_eq!(client.value(&["OBJECT", "ENCODING", "s"]).text(), encoding, "{taken} of {count}");
            let left = client.value(&["SMEMBERS", "s"]);
            let all: BTreeSet<String> = popped.elements().iter().chain(left.elements()).map(Value::text).collect();
            assert_eq!((left.elements().len(), all.len()), (count - taken, count), "each member is in one place");
        }
        let numbers = (0..1200).map(|number| number.to_string());
        client.call(&["SADD".to_owned(), "n".to_owned()].into_iter().chain(numbers).collect::<Vec<_>>());
        client.value(&["SPOP", "n", "1190"]);
        assert_eq!(client.value(&["OBJECT", "ENCODING", "n"]).text(), "listpack", "though all are integers");
        let long = "x".repeat(65);
        client.call(&["SADD".to_owned(), "long".to_owned(), long].into_iter().chain(members(5)).collect::<Vec<_>>());
        client.value(&["SPOP", "long", "5"]);
        let is_long = client.value(&["SMEMBERS", "long"]).elements()[0].text().len() > 64;
        let encoding = if is_long { "hashtable" } else { "listpack" };
        assert_eq!(client.value(&["OBJECT", "ENCODING", "long"]).text(), encoding);
    });
}

#[test]
fn a_list_is_a_listpack_until_its_size_or_its_length_says_otherwise() {
    check_script(
        r#"
        !RPUSH l a b c
        :3
        !OBJECT ENCODING l
        $8 | listpack
        !CONFIG SET list-max-listpack-size 4
        +OK
        !RPUSH l d
        :4
        !OBJECT ENCODING l
        $8 | listpack
        !RPUSH l e
        :5
        !OBJECT ENCODING l
        $9 | quicklist
        !RPOP l
        $1 | e
        !RPOP l
        $1 | d
        !OBJECT ENCODING l
        $9 | quicklist
        !RPOP l
        $1 | c
        !OBJECT ENCODING l
        $8 | listpack
        !LRANGE l 0 -1
        *2 | $1 | a | $1 | b
        !CONFIG SET list-max-ziplist-size -2
        +OK
        CONFIG GET list-max-listpack-size
        *2 | $22 | list-max-listpack-size | $2 | -2
        CONFIG SET list-max-listpack-size x
        -ERR CONFIG SET failed (possibly related to argument 'list-max-listpack-size') - argument couldn't be parsed into an integer
        "#,
    );
}

#[test]
fn idletime_counts_from_the_last_use_and_looking_is_no_use() {
    on_every_engine(|server| {
        let client = &mut server.client();
        for key in ["used", "unused"] {
            client.call(&["SET", key, "value"]);
        }
        let idle = |client: &mut harness::Client, key: &str| {
            let reply = String::from_utf8(client.call(&["OBJECT", "IDLETIME", key])).unwrap();
            reply.trim_matches([':', '\r', '\n']).parse::<u64>().unwrap()
        };
        let start = std::time::Instant::now();
        while start.elapsed() < std::time::Duration::from_millis(1_100) {
            client.call(&["GET", "used"]);
            client.call(&["TYPE", "unused"]);
            client.call(&["EXISTS", "unused"]);
            client.call(&["TTL", "unused"]);
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        client.call(&["GET", "used"]);
        assert!(idle(client, "used") <= idle(client, "unused"));
        assert!((1..30).contains(&idle(client, "unused")), "looking is no use");
        client.call(&["TOUCH", "unused"]);
        assert!(idle(client, "unused") <= 1);
    });
}

/// The value's bytes in Redis's dump of a small collection: after the type, and the length in one of three forms.
fn dumped(redis: &mut Client, key: &str) -> Vec<u8> {
    let dump = redis.value(&["DUMP", key]).bytes().to_vec();
    let (start, len) = match dump[1] >> 6 {
        0 => (2, usize::from(dump[1])),
        1 => (3, usize::from(dump[1] & 0x3F) << 8 | usize::from(dump[2])),
        _ => (6, u32::from_be_bytes(dump[2..6].try_into().unwrap()) as usize),
    };
    dump[start..start + len].to_vec()
}

#[test]
fn listpacks_and_intsets_are_byte_for_byte_those_of_redis() {
    let oracle = RedisOracle::start();
    let mut redis = oracle.client();
    redis.call(&["CONFIG", "SET", "rdbcompression", "no"]);
    redis.call(&["CONFIG", "SET", "hash-max-listpack-entries", "1000", "hash-max-listpack-value", "100000"]);
    let integers =
        (0..64).flat_map(|shift| [1_i64 << shift, -(1_i64 << shift.min(62)), (1_i64 << shift).wrapping_sub(1)]);
    let integers: Vec<String> = integers.map(|integer| integer.to_string()).collect();
    let lengths = [0, 1, 62, 63, 64, 65, 124, 125, 126, 4_094, 4_095, 4_096, 16_376, 16_377, 16_378, 16_379, 16_384];
    let mut listpack = Listpack::new();
    for (n, value) in integers.iter().cloned().chain(lengths.map(|len| "x".repeat(len))).enumerate() {
        let field = format!("field:{n}");
        redis.call(&["HSET", "h", &field, &value]);
        listpack.push_back(Element::of(field.as_bytes()));
        listpack.push_back(Element::of(value.as_bytes()));
    }
    assert_eq!(redis.value(&["OBJECT", "ENCODING", "h"]).text(), "listpack");
    let bytes = dumped(&mut redis, "h");
    assert!(bytes == listpack.as_bytes(), "{} bytes of Redis, {} here", bytes.len(), listpack.byte_len());
    assert!(Listpack::from_untrusted(&bytes).is_some());
    for width in [15, 31, 63] {
        redis.call(&["DEL", "s"]);
        let mut intset = Intset::new();
        for integer in
            integers.iter().filter_map(|text| text.parse::<i64>().ok()).filter(|n| n.unsigned_abs() >> width == 0)
        {
            redis.call(&["SADD", "s", &integer.to_string()]);
            intset.insert(integer);
        }
        assert_eq!(dumped(&mut redis, "s"), intset.to_bytes());
    }
}

#[test]
fn a_member_that_is_there_leaves_an_intset_above_a_lowered_limit() {
    on_every_process(|server| {
        let mut client = server.client();
        client.expect("SADD s 1 2 3", ":3\r\n");
        client.expect("CONFIG SET set-max-intset-entries 2", "+OK\r\n");
        client.expect("SADD s 2", ":0\r\n");
        assert_eq!(client.value(&["OBJECT", "ENCODING", "s"]).text(), "intset");
        client.expect("SADD s 4", ":1\r\n");
        assert_eq!(client.value(&["OBJECT", "ENCODING", "s"]).text(), "hashtable");
    });
}

#[test]
fn lset_makes_room_before_it_finds_that_there_is_no_such_element() {
    on_every_process(|server| {
        let mut client = server.client();
        client.expect("RPUSH l a", ":1\r\n");
        client.expect("LSET l 9 b", "-ERR index out of range\r\n");
        assert_eq!(client.value(&["OBJECT", "ENCODING", "l"]).text(), "listpack");
        client.expect(&format!("LSET l x {}", "b".repeat(9000)), "-ERR value is not an integer or out of range\r\n");
        assert_eq!(client.value(&["OBJECT", "ENCODING", "l"]).text(), "listpack");
        client.expect(&format!("LSET l 9 {}", "b".repeat(9000)), "-ERR index out of range\r\n");
        assert_eq!(client.value(&["OBJECT", "ENCODING", "l"]).text(), "quicklist");
        client.expect("LRANGE l 0 -1", "*1\r\n$1\r\na\r\n");
        client.expect("LSET l 0 b", "+OK\r\n");
        assert_eq!(client.value(&["OBJECT", "ENCODING", "l"]).text(), "listpack");
    });
}
