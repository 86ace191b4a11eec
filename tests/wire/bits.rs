//! Bits of strings: SETBIT and the like, BITFIELD, and the two commands over whole strings.

use harness::{
    EVERY_ENGINE, Server, check_same_as_redis, check_script, effort, on_every_engine, on_every_process, seed,
    wait_until,
};

fn words(line: &str) -> Vec<Vec<u8>> {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

#[test]
fn bits_are_set_and_read() {
    check_script(
        r#"
        SETBIT b 7 1
        :0
        GET b
        $1 | \x01
        SETBIT b 7 1
        :1
        SETBIT b 0 0
        :0
        SETBIT b 20 0
        :0
        GET b
        $3 | \x01\x00\x00
        GETBIT b 7
        :1
        GETBIT b 6
        :0
        GETBIT b 4294967295
        :0
        GETBIT none 3
        :0
        # An integer is its digits.
        SET n 12
        +OK
        GETBIT n 2
        :1
        SETBIT n 7 0
        :1
        GET n
        $2 | 02
        SETBIT n 4294967296 1
        -ERR bit offset is not an integer or out of range
        SETBIT n -1 1
        -ERR bit offset is not an integer or out of range
        SETBIT n x 1
        -ERR bit offset is not an integer or out of range
        SETBIT n #1 1
        -ERR bit offset is not an integer or out of range
        SETBIT n 1 2
        -ERR bit is not an integer or out of range
        SETBIT n 1 -1
        -ERR bit is not an integer or out of range
        SETBIT n 1 x
        -ERR bit is not an integer or out of range
        GETBIT n 4294967296
        -ERR bit offset is not an integer or out of range
        SET e v EX 1000
        +OK
        SETBIT e 100 1
        :0
        TTL e
        :1000
        RPUSH list a
        :1
        SETBIT list 1 1
        -WRONGTYPE Operation against a key holding the wrong kind of value
        GETBIT list 1
        -WRONGTYPE Operation against a key holding the wrong kind of value
        SETBIT list x 1
        -ERR bit offset is not an integer or out of range
        SETBIT b 1
        -ERR wrong number of arguments for 'setbit' command
        "#,
    );
}

#[test]
fn bits_are_counted_and_found() {
    check_script(
        r#"
        SET k foobar
        +OK
        BITCOUNT k
        :26
        BITCOUNT k 0 0
        :4
        BITCOUNT k 1 1 BYTE
        :6
        BITCOUNT k 5 30 bit
        :17
        BITCOUNT k -2 -3 BOGUS
        :0
        BITCOUNT k 0 -1 BOGUS
        -ERR syntax error
        BITCOUNT k 0
        -ERR syntax error
        BITCOUNT k 0 x
        -ERR value is not an integer or out of range
        BITCOUNT none 0
        :0
        BITCOUNT k -9223372036854775808 9223372036854775807
        :26
        BITPOS k 1
        :1
        BITPOS k 0
        :0
        BITPOS none 1
        :-1
        BITPOS none 0
        :0
        SET ones "\xff\xff\xff"
        +OK
        BITPOS ones 0
        :24
        BITPOS ones 0 0 -1
        :-1
        BITPOS ones 0 1
        :24
        BITPOS ones 0 3
        :-1
        BITPOS ones 1 9 20 BIT
        :9
        BITPOS ones 0 9 20 BIT
        :-1
        SET empty ""
        +OK
        BITPOS empty 0
        :-1
        BITPOS empty 1
        :-1
        BITCOUNT empty
        :0
        BITPOS k 2
        -ERR The bit argument must be 1 or 0.
        BITPOS k x
        -ERR value is not an integer or out of range
        BITPOS k 1 0 1 BOGUS
        -ERR syntax error
        BITPOS k 1 0 1 BIT 1
        -ERR syntax error
        RPUSH list a
        :1
        BITCOUNT list
        -WRONGTYPE Operation against a key holding the wrong kind of value
        BITPOS list 1
        -WRONGTYPE Operation against a key holding the wrong kind of value
        "#,
    );
}

#[test]
fn strings_are_combined_on_one_shard_and_on_several() {
    check_script(
        r#"
        SET {t}a "\xff\x0f"
        +OK
        SET {t}b "\xf0\xff\xaa"
        +OK
        BITOP AND {t}d {t}a {t}b
        :3
        GET {t}d
        $3 | \xf0\x0f\x00
        BITOP or d1 {t}a {t}b none
        :3
        GET d1
        $3 | \xff\xff\xaa
        BITOP XOR d2 {t}a {t}b
        :3
        GET d2
        $3 | \x0f\xf0\xaa
        BITOP NOT d3 {t}a
        :2
        GET d3
        $2 | \x00\xf0
        # The target may be a source, of another type before, and loses its time to live.
        BITOP NOT {t}a {t}a
        :2
        RPUSH d4 x
        :1
        EXPIRE d4 1000
        :1
        BITOP AND d4 {t}a
        :2
        TTL d4
        :-1
        BITOP AND d4 none none2
        :0
        EXISTS d4
        :0
        BITOP NOT d4 none
        :0
        SET n 12
        +OK
        BITOP OR d5 n
        :2
        INCR d5
        :13
        BITOP NOT d x y
        -ERR BITOP NOT must be called with a single source key.
        BITOP NAND d x y
        -ERR syntax error
        RPUSH list a
        :1
        BITOP AND d5 n list
        -WRONGTYPE Operation against a key holding the wrong kind of value
        GET d5
        $2 | 13
        BITOP AND d
        -ERR wrong number of arguments for 'bitop' command
        COMMAND GETKEYS BITOP AND d a b
        *3 | $1 | d | $1 | a | $1 | b
        "#,
    );
}

#[test]
fn fields_are_read_and_changed() {
    check_script(
        r#"
        BITFIELD f SET i8 0 -1 GET u8 0 INCRBY u2 100 1
        *3 | :0 | :255 | :1
        BITFIELD f GET u4 0 GET i4 4 GET u63 1 GET i64 100000
        *4 | :15 | :-1 | :9151314442816847872 | :0
        BITFIELD f OVERFLOW SAT INCRBY i5 #3 100 OVERFLOW FAIL INCRBY u3 #6 9 OVERFLOW wrap SET u3 #6 9
        *3 | :15 | $-1 | :6
        BITFIELD f
        *0
        BITFIELD none GET u8 0
        *1 | :0
        EXISTS none
        :0
        # A step that fails makes room all the same.
        BITFIELD grown OVERFLOW FAIL SET u1 31 9
        *1 | $-1
        STRLEN grown
        :4
        SET n 77
        +OK
        BITFIELD n GET u8 0 SET u8 8 48
        *2 | :55 | :55
        GET n
        $2 | 70
        # Redis takes what lies far below for what lies above.
        BITFIELD s OVERFLOW SAT SET i8 0 -9223372036854775808 SET i8 0 -1000 GET i8 0
        *3 | :0 | :127 | :-128
        BITFIELD_RO f GET u8 0
        *1 | :255
        BITFIELD_RO f
        *0
        BITFIELD_RO f SET u8 0 1
        -ERR BITFIELD_RO only supports the GET subcommand
        BITFIELD f GET u64 0
        -ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
        BITFIELD f GET i65 0
        -ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
        BITFIELD f GET u0 0
        -ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
        BITFIELD f GET x8 0
        -ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
        BITFIELD f GET "" 0
        -ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
        BITFIELD f GET u8 -1
        -ERR bit offset is not an integer or out of range
        BITFIELD f GET u8 #-1
        -ERR bit offset is not an integer or out of range
        BITFIELD f GET u8 4294967296
        -ERR bit offset is not an integer or out of range
        BITFIELD f GET u8 #536870912
        -ERR bit offset is not an integer or out of range
        # 2^62 times 4, 8 and 16 are multiples of 2^64, and so wrap around to 0, but 2^60 times 8 does not.
        BITFIELD f GET i4 #4611686018427387904
        *1 | :-1
        BITFIELD f SET u8 0 x
        -ERR value is not an integer or out of range
        BITFIELD f SET u8 0
        -ERR syntax error
        BITFIELD f GET u8
        -ERR syntax error
        BITFIELD f OVERFLOW
        -ERR syntax error
        BITFIELD wrapped SET u8 #4611686018427387904 7 GET u16 #4611686018427387904
        *2 | :0 | :1792
        BITFIELD wrapped GET u8 #1152921504606846976
        -ERR bit offset is not an integer or out of range
        BITFIELD f OVERFLOW BOGUS
        -ERR Invalid OVERFLOW type specified
        BITFIELD f BOGUS
        -ERR syntax error
        RPUSH list a
        :1
        BITFIELD list GET u8 0
        -WRONGTYPE Operation against a key holding the wrong kind of value
        BITFIELD list SET u8 0 1
        -WRONGTYPE Operation against a key holding the wrong kind of value
        "#,
    );
}

#[test]
fn the_longest_common_subsequence_is_redis_s() {
    check_script(
        r#"
        MSET {t}a ohmytext {t}b mynewtext
        +OK
        LCS {t}a {t}b
        $6 | mytext
        LCS {t}a {t}b LEN
        :6
        LCS {t}a {t}b IDX
        *4 | $7 | matches | *2 | *2 | *2 | :4 | :7 | *2 | :5 | :8 | *2 | *2 | :2 | :3 | *2 | :0 | :1 | $3 | len | :6
        LCS {t}a {t}b IDX MINMATCHLEN 4 WITHMATCHLEN
        *4 | $7 | matches | *1 | *3 | *2 | :4 | :7 | *2 | :5 | :8 | :4 | $3 | len | :6
        LCS {t}a {t}b idx minmatchlen -9223372036854775808
        *4 | $7 | matches | *2 | *2 | *2 | :4 | :7 | *2 | :5 | :8 | *2 | *2 | :2 | :3 | *2 | :0 | :1 | $3 | len | :6
        LCS {t}a none
        $0 |
        LCS none none2 IDX
        *4 | $7 | matches | *0 | $3 | len | :0
        SET n 12345
        +OK
        SET m 9345
        +OK
        LCS n m
        $3 | 345
        LCS {t}a {t}b IDX LEN
        -ERR If you want both the length and indexes, please just use IDX.
        LCS {t}a {t}b MINMATCHLEN
        -ERR syntax error
        LCS {t}a {t}b MINMATCHLEN x
        -ERR value is not an integer or out of range
        LCS {t}a {t}b BOGUS
        -ERR syntax error
        SETRANGE {t}long 20000 x
        :20001
        LCS {t}long {t}long LEN
        -ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len
        RPUSH list a
        :1
        LCS list n BOGUS
        -ERR The specified keys must contain string values
        LCS n list
        -ERR The specified keys must contain string values
        SUBSTR n 1 -2
        $3 | 234
        SUBSTR none 0 -1
        $0 |
        SUBSTR n 1
        -ERR wrong number of arguments for 'substr' command
        "#,
    );
}

#[test]
fn strings_grow_as_far_as_proto_max_bulk_len_says() {
    on_every_engine(|server| {
        let mut client = server.client();
        client.expect("CONFIG SET proto-max-bulk-len 1mb", "+OK\r\n");
        client.expect("SETBIT b 8388607 1", ":0\r\n");
        client.expect("STRLEN b", ":1048576\r\n");
        client.expect("SETBIT b 8388608 1", "-ERR bit offset is not an integer or out of range\r\n");
        client.expect("APPEND b x", "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n");
        client.expect("SETRANGE c 1048576 x", "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n");
        client.expect("SETRANGE c 1048575 x", ":1048576\r\n");
        client.expect("CONFIG SET proto-max-bulk-len 2mb", "+OK\r\n");
        client.expect("APPEND b x", ":1048577\r\n");
    });
}

/// Requests over a few strings, long and short, with ranges and fields at every edge.
fn random_requests(seed: u64, count: usize) -> Vec<Vec<Vec<u8>>> {
    let mut random = fastrand::Rng::with_seed(seed);
    let key = |random: &mut fastrand::Rng| format!("{}k{}", ["", "{t}"][random.usize(..2)], random.u32(..4));
    let index = |random: &mut fastrand::Rng| match random.u32(..20) {
        0 => [i64::MIN, i64::MIN + 1, i64::MAX, i64::MAX - 1][random.usize(..4)],
        _ => random.i64(-90..90),
    };
    let value = |random: &mut fastrand::Rng| match random.u32(..3) {
        0 => random.i64(..),
        1 => random.i64(-300..300),
        _ => [i64::MIN, i64::MAX, -1, 0, 1, 1 << 62, -(1 << 62)][random.usize(..7)],
    };
    let field = |random: &mut fastrand::Rng| {
        let bits = if random.bool() { random.u32(1..65) } else { random.u32(1..10) };
        format!("{}{bits} {}{}", ["i", "u"][random.usize(..2)], ["", "#"][random.usize(..2)], random.u32(..200))
    };
    let unit = |random: &mut fastrand::Rng| ["", " BIT", " BYTE", " bit"][random.usize(..4)];
    let request = |random: &mut fastrand::Rng| match random.u32(..16) {
        0..3 => format!("SETBIT {} {} {}", key(random), random.u32(..300), random.u32(..2)),
        3 => format!("SET {} {}", key(random), value(random)),
        4 => format!("GETBIT {} {}", key(random), random.u32(..300)),
        5..7 => format!("BITCOUNT {} {} {}{}", key(random), index(random), index(random), unit(random)),
        7 => format!("BITPOS {} {} {}", key(random), random.u32(..2), index(random)),
        8..10 => {
            let bit = random.u32(..2);
            format!("BITPOS {} {bit} {} {}{}", key(random), index(random), index(random), unit(random))
        }
        10 => format!("BITOP NOT {} {}", key(random), key(random)),
        11 => {
            let operation = ["AND", "OR", "XOR"][random.usize(..3)];
            format!("BITOP {operation} {} {} {} {}", key(random), key(random), key(random), key(random))
        }
        12 => format!("GET {}", key(random)),
        13 => format!("LCS {{t}}k{} {{t}}k{} IDX WITHMATCHLEN", random.u32(..4), random.u32(..4)),
        _ => {
            let mut request = format!("BITFIELD {}", key(random));
            for _ in 0..random.u32(1..6) {
                request += &match random.u32(..4) {
                    0 => format!(" OVERFLOW {}", ["WRAP", "SAT", "FAIL"][random.usize(..3)]),
                    1 => format!(" GET {}", field(random)),
                    2 => format!(" SET {} {}", field(random), value(random)),
                    _ => format!(" INCRBY {} {}", field(random), value(random)),
                };
            }
            request
        }
    };
    (0..count).map(|_| words(&request(&mut random))).collect()
}

#[test]
fn random_bits_are_those_of_redis() {
    check_same_as_redis(&random_requests(seed(), effort("BIT_REQUESTS", 4_000)));
}

/// For clients nothing has changed: no watch breaks, there is no event, and no change is counted.
#[test]
fn a_bitfield_whose_writes_all_fail_lengthens_the_string_and_is_no_change() {
    const FAILING: &str = "BITFIELD a OVERFLOW FAIL SET u8 32 300";
    on_every_process(|server| {
        let mut client = server.client();
        let mut listener = server.client();
        client.expect("CONFIG SET notify-keyspace-events KEAn", "+OK\r\n");
        client.expect("SET a x", "+OK\r\n");
        listener.call(&["PSUBSCRIBE", "__keyevent@0__:*"]);
        let changes = server.info_number("rdb_changes_since_last_save");
        client.expect("WATCH a", "+OK\r\n");
        client.expect(FAILING, "*1\r\n$-1\r\n");
        client.expect("MULTI", "+OK\r\n");
        client.expect("PING", "+QUEUED\r\n");
        client.expect("EXEC", "*1\r\n+PONG\r\n");
        client.expect("STRLEN a", ":5\r\n");
        assert_eq!(server.info_number("rdb_changes_since_last_save"), changes);
        client.expect("BITFIELD new OVERFLOW FAIL SET u8 32 300", "*1\r\n$-1\r\n");
        client.expect("PUBLISH __keyevent@0__:end it", ":1\r\n");
        let events = [listener.value_of_next(), listener.value_of_next()];
        assert_eq!(events.map(|event| event.elements()[2].text()), ["__keyevent@0__:new", "__keyevent@0__:end"]);
    });
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &["--appendonly", "yes", "--appendfsync", "always"]);
        let replica = Server::start(setup, &["--replicaof", &server.address().to_string().replace(':', " ")]);
        let mut copy = replica.client();
        wait_until("the link", || replica.info().get("master_link_status").is_some_and(|status| status == "up"));
        let mut client = server.client();
        client.expect("SET a x", "+OK\r\n");
        client.expect(FAILING, "*1\r\n$-1\r\n");
        wait_until("the length", || copy.value(&["STRLEN", "a"]).integer() == 5);
        let again = server.kill().start(setup, &[]);
        again.client().expect("GET a", "$5\r\nx\0\0\0\0\r\n");
    }
}

#[test]
fn each_write_of_a_bitfield_counts_if_the_string_grew_or_its_value_changed() {
    on_every_process(|server| {
        let mut client = server.client();
        client.expect("SET a x", "+OK\r\n");
        let mut before = server.info_number("rdb_changes_since_last_save");
        for (line, reply, changes) in [
            ("SET u8 32 0 SET u8 0 120 INCRBY u8 8 0 GET u8 0", "*4\r\n:0\r\n:120\r\n:0\r\n:120\r\n", 3),
            ("SET u8 32 0 SET u8 0 121 INCRBY u8 8 1", "*3\r\n:0\r\n:120\r\n:1\r\n", 2),
            ("OVERFLOW FAIL SET u8 40 1 SET u8 0 300", "*2\r\n:0\r\n$-1\r\n", 1),
        ] {
            client.expect(&format!("BITFIELD a {line}"), reply);
            let now = server.info_number("rdb_changes_since_last_save");
            assert_eq!(now - before, changes, "{line}");
            before = now;
        }
    });
}
