//! HyperLogLogs: the same elements lead to the same bytes as in Redis, whichever server wrote them.

use harness::{EVERY_ENGINE, RedisOracle, Server, Value, check_same_as_redis, check_script, on_every_engine, seed};

#[test]
fn commands_over_hyperloglogs_are_those_of_redis() {
    check_script(
        r#"
        PFADD {t}h a b c d e f g
        :1
        PFADD {t}h a b
        :0
        PFCOUNT {t}h
        :7
        PFCOUNT {t}h
        :7
        PFADD {t}empty
        :1
        PFADD {t}empty
        :0
        PFCOUNT {t}empty
        :0
        PFCOUNT none
        :0
        PFCOUNT none {t}h far none2
        :7
        PFADD far x y z a
        :1
        PFCOUNT {t}h far
        :10
        PFMERGE d {t}h far none
        +OK
        PFCOUNT d
        :10
        PFMERGE d
        +OK
        PFMERGE new
        +OK
        PFCOUNT new
        :0
        TYPE d
        +string
        EXPIRE d 1000
        :1
        PFADD d more
        :1
        PFMERGE d far
        +OK
        TTL d
        :1000
        PFDEBUG ENCODING d
        +sparse
        PFDEBUG DECODE {t}empty
        $7 | Z:16384
        PFDEBUG TODENSE {t}empty
        :1
        PFDEBUG TODENSE {t}empty
        :0
        PFDEBUG encoding {t}empty
        +dense
        PFDEBUG DECODE {t}empty
        -ERR HLL encoding is not sparse
        STRLEN {t}empty
        :12304
        # What is merged with a dense one is dense.
        PFMERGE {t}h {t}empty
        +OK
        PFDEBUG ENCODING {t}h
        +dense
        PFCOUNT {t}h
        :7
        PFDEBUG BOGUS {t}h
        -ERR Unknown PFDEBUG subcommand 'BOGUS'
        PFDEBUG ENCODING none
        -ERR The specified key does not exist
        PFDEBUG GETREG
        -ERR wrong number of arguments for 'pfdebug' command
        PFSELFTEST
        +OK
        SET n 12
        +OK
        PFADD n a
        -WRONGTYPE Key is not a valid HyperLogLog string value.
        SET s HYLL
        +OK
        PFADD s a
        -WRONGTYPE Key is not a valid HyperLogLog string value.
        PFCOUNT s
        -WRONGTYPE Key is not a valid HyperLogLog string value.
        PFCOUNT none s
        -WRONGTYPE Key is not a valid HyperLogLog string value.
        PFMERGE dest s
        -WRONGTYPE Key is not a valid HyperLogLog string value.
        EXISTS dest
        :0
        RPUSH list a
        :1
        PFADD list a
        -WRONGTYPE Operation against a key holding the wrong kind of value
        PFCOUNT list
        -WRONGTYPE Operation against a key holding the wrong kind of value
        PFMERGE list far
        -WRONGTYPE Operation against a key holding the wrong kind of value
        "#,
    );
}

#[test]
fn what_is_corrupt_is_told() {
    check_script(
        r#"
        # Registers are missing; there are too many; the encoding is unknown; dense, but too short.
        SET a "HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x00"
        +OK
        PFCOUNT a
        -INVALIDOBJ Corrupted HLL object detected
        PFADD a x
        -INVALIDOBJ Corrupted HLL object detected
        PFCOUNT a none
        -INVALIDOBJ Corrupted HLL object detected
        PFMERGE d a
        -INVALIDOBJ Corrupted HLL object detected
        PFDEBUG GETREG a
        -INVALIDOBJ Corrupted HLL object detected
        PFDEBUG TODENSE a
        -INVALIDOBJ Corrupted HLL object detected
        SET b "HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x7f\xff\x00"
        +OK
        PFCOUNT b
        -INVALIDOBJ Corrupted HLL object detected
        SET c "HYLL\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x7f\xff"
        +OK
        PFCOUNT c
        -WRONGTYPE Key is not a valid HyperLogLog string value.
        SET c "HYLL\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x7f\xff"
        +OK
        PFADD c a
        -WRONGTYPE Key is not a valid HyperLogLog string value.
        SET e "HYLL\x01\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00"
        +OK
        # The cached count is believed.
        PFCOUNT e
        :5
        "#,
    );
}

/// PFADDs of random elements to a few keys, merges and counts; sometimes the bytes.
fn random_requests(seed: u64, count: usize) -> Vec<Vec<Vec<u8>>> {
    let mut random = fastrand::Rng::with_seed(seed);
    let key = |random: &mut fastrand::Rng| format!("{}h{}", ["", "{t}"][random.usize(..2)], random.u32(..4));
    let words = |line: String| line.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
    (0..count)
        .map(|_| match random.u32(..40) {
            0 => words(format!("PFMERGE {} {} {}", key(&mut random), key(&mut random), key(&mut random))),
            1 => words(format!("PFCOUNT {} {}", key(&mut random), key(&mut random))),
            2..6 => words(format!("PFCOUNT {}", key(&mut random))),
            6..10 => words(format!("GET {}", key(&mut random))),
            10 => words(format!("DEL {}", key(&mut random))),
            11 => words(format!("PFDEBUG DECODE {}", key(&mut random))),
            12 => words(format!("PFDEBUG GETREG {}", key(&mut random))),
            _ => {
                let mut request = words(format!("PFADD {}", key(&mut random)));
                for _ in 0..random.u32(..40) {
                    let len = random.usize(..30);
                    request.push((0..len).map(|_| random.u8(..)).collect());
                }
                request
            }
        })
        .collect()
}

#[test]
fn the_bytes_are_those_of_redis_after_every_command() {
    check_same_as_redis(&random_requests(seed(), 1_500));
}

/// The same, with bytes overwritten and appended: opcodes at invalid places, too many registers, too few.
///
/// A change to a value that ends within an XZERO makes Redis write its last byte over the zero that C has after the
/// string, where later reads of an opcode find it: the same value, as returned by GET, is then read differently. So
/// such a value, as reported by Redis, gets at most one change and is deleted afterwards.
fn random_damage(seed: u64, count: usize) -> Vec<Vec<Vec<u8>>> {
    const BYTES: [u8; 9] = [0, 0x3f, 0x40, 0x7e, 0x7f, 0x80, 0x83, 0x84, 0xff];
    let oracle = RedisOracle::start();
    let mut redis = oracle.client();
    let mut random = fastrand::Rng::with_seed(seed);
    let request = |words: &[&str], last: &[u8]| {
        words.iter().map(|word| word.as_bytes().to_vec()).chain([last.to_vec()]).collect::<Vec<_>>()
    };
    let mut requests = Vec::new();
    for number in 0..count {
        let key = format!("h{}", number / 8);
        let is_cut = ends_within_an_opcode(&redis.value(&["GET", &key]));
        let damage: Vec<u8> = (0..random.usize(1..4))
            .map(|_| if random.bool() { BYTES[random.usize(..BYTES.len())] } else { random.u8(..) })
            .collect();
        let mut step = vec![match random.u32(..10) {
            0 => request(&["APPEND", &key], &damage),
            1..5 => request(&["SETRANGE", &key, &random.usize(15..32).to_string()], &damage),
            5 => request(&["PFCOUNT"], key.as_bytes()),
            6 if !is_cut => request(&["PFMERGE", &key], format!("h{}", random.usize(..=number / 8)).as_bytes()),
            _ => {
                let element_count = if is_cut { 1 } else { random.usize(1..20) };
                let elements = (0..element_count).map(|_| format!("e{}", random.u32(..300)).into_bytes());
                request(&["PFADD"], key.as_bytes()).into_iter().chain(elements).collect()
            }
        }];
        let is_changed = step[0][0] == b"PFADD";
        step.push(request(&["GET"], key.as_bytes()));
        if is_cut && is_changed {
            step.push(request(&["DEL"], key.as_bytes()));
        }
        step.push(request(&["PFDEBUG", "DECODE"], key.as_bytes()));
        redis.pipeline(&step);
        requests.append(&mut step);
    }
    requests
}

/// Whether a value is a sparse HyperLogLog whose last byte is the first of an XZERO's two.
fn ends_within_an_opcode(value: &Value) -> bool {
    const HEADER_LEN: usize = 16;
    let Value::Bulk(bytes) = value else { return false };
    if bytes.len() < HEADER_LEN || !bytes.starts_with(b"HYLL\x01") {
        return false;
    }
    let mut at = HEADER_LEN;
    while at < bytes.len() {
        at += if bytes[at] & 0xc0 == 0x40 { 2 } else { 1 };
    }
    at > bytes.len()
}

#[test]
fn what_is_damaged_has_the_bytes_of_redis_after_every_command() {
    let requests = random_damage(seed(), 2_000);
    let deletes = requests.iter().filter(|request| request[0] == b"DEL").count();
    println!("{deletes} values that ended within an opcode were changed");
    check_same_as_redis(&requests);
}

#[test]
fn what_was_added_before_damage_was_met_is_there_after_a_restart_and_breaks_no_watch() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &["--appendfsync", "always"]);
        let (mut client, mut watcher) = (server.client(), server.client());
        // Half of the registers.
        client
            .expect("SET h \"HYLL\\x01\\x00\\x00\\x00\\x05\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x5f\\xff\"", "+OK\r\n");
        client.expect("PEXPIRE h 1000000", ":1\r\n");
        watcher.expect("WATCH h", "+OK\r\n");
        let before = client.value(&["GET", "h"]);
        client.expect("PFADD h 1 2 3 4 5 6 7 8", "-INVALIDOBJ Corrupted HLL object detected\r\n");
        let added = client.value(&["GET", "h"]);
        assert!(added != before, "some of them have their register in the half that is there");
        watcher.expect("MULTI", "+OK\r\n");
        watcher.expect("EXEC", "*0\r\n");
        let server = server.kill().start(setup, &[]);
        let mut client = server.client();
        assert!(client.value(&["GET", "h"]) == added, "{setup:?}");
        assert!(client.value(&["PTTL", "h"]).integer() > 0);
    }
}

#[test]
fn a_value_written_here_is_read_by_redis_and_the_other_way_round() {
    let oracle = RedisOracle::start();
    on_every_engine(|server| {
        let (mut ours, mut theirs) = (server.client(), oracle.client());
        for (count, encoding) in [(50, "+sparse\r\n"), (20_000, "+dense\r\n")] {
            let mut elements: Vec<String> = (0..count).map(|number| format!("element:{number}")).collect();
            for client in [&mut ours, &mut theirs] {
                client.call(&["DEL", "h", "g"]);
                for part in elements.chunks(1_000) {
                    let words = ["PFADD", "h"].into_iter().chain(part.iter().map(String::as_str));
                    client.call(&words.collect::<Vec<_>>());
                }
            }
            let (here, there) = (ours.value(&["GET", "h"]), theirs.value(&["GET", "h"]));
            assert!(here == there, "{count} elements make the same bytes");
            assert_eq!(ours.call(&["PFDEBUG", "ENCODING", "h"]), encoding.as_bytes());
            theirs.call(&[b"SET".as_slice(), b"g", here.bytes()]);
            ours.call(&[b"SET".as_slice(), b"g", there.bytes()]);
            elements.push("one more".to_owned());
            for client in [&mut ours, &mut theirs] {
                client.call(&["PFADD", "g", "one more"]);
            }
            assert_eq!(ours.call(&["PFCOUNT", "g"]), theirs.call(&["PFCOUNT", "g"]));
            let count = ours.value(&["PFCOUNT", "g"]).integer();
            assert!((count - elements.len() as i64).abs() * 20 <= elements.len() as i64, "{count}");
            assert!(ours.value(&["GET", "g"]) == theirs.value(&["GET", "g"]));
        }
    });
}

#[test]
fn the_sparse_encoding_ends_where_the_configuration_says() {
    on_every_engine(|server| {
        let mut client = server.client();
        client.expect("CONFIG GET hll-sparse-max-bytes", "*2\r\n$20\r\nhll-sparse-max-bytes\r\n$4\r\n3000\r\n");
        client.expect("CONFIG SET hll-sparse-max-bytes 20", "+OK\r\n");
        client.expect("PFADD h a", ":1\r\n");
        client.expect("PFDEBUG ENCODING h", "+dense\r\n");
        client.expect("CONFIG SET hll-sparse-max-bytes 30", "+OK\r\n");
        client.expect("PFADD g a", ":1\r\n");
        client.expect("PFDEBUG ENCODING g", "+sparse\r\n");
        client.expect("PFCOUNT g h", ":1\r\n");
    });
}

#[test]
fn a_restart_keeps_counts_and_bytes() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &["--appendfsync", "always"]);
        let mut client = server.client();
        client.call(&["PFADD", "a", "1", "2", "3"]);
        client.call(&["PFADD", "b", "3", "4"]);
        client.call(&["PFMERGE", "d", "a", "b"]);
        client.call(&["PFCOUNT", "d"]);
        client.call(&["PFDEBUG", "GETREG", "b"]);
        let before: Vec<_> = ["a", "b", "d"].map(|key| client.value(&["GET", key])).into();
        let server = server.kill().start(setup, &[]);
        let mut client = server.client();
        let after: Vec<_> = ["a", "b", "d"].map(|key| client.value(&["GET", key])).into();
        assert!(before == after, "{setup:?}");
    }
}
