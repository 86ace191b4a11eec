//! Values of every type in every encoding that a payload may have, without version and checksum: from a redis-server,
//! and by hand for encodings that are too new for it.

use crc::{CRC_64_REDIS, Crc};
use harness::{RedisOracle, words};
use shardrace::internals::keyspace::{Element, Listpack, Settings};

static CRC64: Crc<u64> = Crc::<u64>::new(&CRC_64_REDIS);
/// Bytes of version and checksum.
const FOOTER_LEN: usize = 10;
/// The newest accepted version.
const VERSION: u8 = 11;

/// The payload of a value.
pub fn payload(value: &[u8]) -> Vec<u8> {
    let payload = [value, &[VERSION, 0]].concat();
    [&payload[..], &CRC64.checksum(&payload).to_le_bytes()].concat()
}

/// All of them. Groups and consumers have the names that random commands use.
pub fn corpus() -> Vec<Vec<u8>> {
    let mut values = of_redis();
    let streams: Vec<Vec<u8>> = values.iter().filter(|value| value[0] == 19).map(|value| as_of_7_2(value)).collect();
    values.extend(streams);
    values.extend(by_hand());
    values
}

/// Payloads dumped by redis-server 7.0.
fn of_redis() -> Vec<Vec<u8>> {
    let oracle = RedisOracle::start_with(&["--enable-debug-command", "yes"]);
    let mut client = oracle.client();
    let mut values = Vec::new();
    let many = |first: &str, item: &dyn Fn(usize) -> String, count: usize| {
        (0..count).fold(first.to_owned(), |line, index| format!("{line} {}", item(index)))
    };
    let long = "abc".repeat(60);
    for limits in ["512 64 128 64 512 -2 100", "0 0 0 0 0 2 3"] {
        let names = [
            "hash-max-listpack-entries",
            "hash-max-listpack-value",
            "zset-max-listpack-entries",
            "zset-max-listpack-value",
            "set-max-intset-entries",
            "list-max-listpack-size",
            "stream-node-max-entries",
        ];
        for (name, limit) in names.iter().zip(limits.split(' ')) {
            client.expect(&format!("CONFIG SET {name} {limit}"), "+OK\r\n");
        }
        client.expect("FLUSHALL", "+OK\r\n");
        for line in [
            "SET empty \"\"".to_owned(),
            "SET text text".to_owned(),
            "SET i8 -1".to_owned(),
            "SET i16 1000".to_owned(),
            "SET i32 -100000".to_owned(),
            "SET i64 9223372036854775807".to_owned(),
            format!("SET repeated {long}{long}"),
            format!("RPUSH list a 1 -7 \"\" {} -70000 {long} 9223372036854775807", "x".repeat(64)),
            many("RPUSH long-list", &|index| format!("element:{index}"), 40),
            "SADD i16s 1 2 -300".to_owned(),
            "SADD i32s 1 2 300000".to_owned(),
            "SADD i64s 1 -2 9223372036854775807".to_owned(),
            format!("SADD members a b 3 {long}"),
            format!("HSET hash a 1 2 b c {long} d -70000"),
            many("HSET long-hash", &|index| format!("field:{index} {index}"), 30),
            "ZADD zset 1.5 a -inf b 3 c 0.1 d 1e300 5 +inf f -0 g".to_owned(),
            many("ZADD long-zset", &|index| format!("{}.25 member:{index}", index % 7), 30),
            "PFADD hll a b c".to_owned(),
            "XADD stream 1-1 a 1 b 2".to_owned(),
            "XADD stream 1-2 a 1 b 3".to_owned(),
            "XADD stream 5-3 a 1".to_owned(),
            "XADD stream 7-0 other 1".to_owned(),
            format!("XADD stream 9223372036854775808-18446744073709551615 a {long} b 4"),
            "XDEL stream 5-3".to_owned(),
            "XGROUP CREATE stream g1 0".to_owned(),
            "XGROUP CREATE stream g2 1-2 ENTRIESREAD 1".to_owned(),
            "XREADGROUP GROUP g1 alice COUNT 2 STREAMS stream >".to_owned(),
            "XREADGROUP GROUP g1 bob COUNT 1 STREAMS stream >".to_owned(),
            "XADD bare 1-1 a 1".to_owned(),
            "XADD bare 2-1 a 2".to_owned(),
            "XADD hollow 1-1 a 1".to_owned(),
            "XDEL hollow 1-1".to_owned(),
        ] {
            let reply = client.call(&words(&line));
            assert!(!reply.starts_with(b"-"), "{line}: {}", reply.escape_ascii());
        }
        let names = client.value(&["KEYS", "*"]).byte_strings();
        for name in names {
            let payload = client.value(&[b"DUMP".as_slice(), &name]).bytes().to_vec();
            values.push(payload[..payload.len() - FOOTER_LEN].to_vec());
        }
    }
    values
}

/// A stream as dumped by Redis 7.2.
fn as_of_7_2(value: &[u8]) -> Vec<u8> {
    let loaded = shardrace::internals::rdb::undump(&payload(value), &Settings::default()).expect("Redis has dumped it");
    let payload = shardrace::internals::rdb::dump_exactly(loaded.into_node(b"key", None).value());
    payload[..payload.len() - FOOTER_LEN].to_vec()
}

/// Forms that Redis 7.0 reads but does not write.
fn by_hand() -> Vec<Vec<u8>> {
    let medium = [&b"\x40\x46"[..], &[b'b'; 70]].concat();
    let lists = ziplist(&[
        b"\x01a",
        b"\xf6",
        b"\xfe\x80",
        b"\xc0\x00\x10",
        &medium,
        b"\xd0\x00\x00\x00\x10",
        b"\xe0\0\0\0\0\0\0\0\x10",
        b"\xf0\x00\x00\x10",
    ]);
    let pairs = ziplist(&[b"\x01a", b"\xf2", b"\x01b", b"\xf4", b"\x03\x31.5", b"\xfe\x07"]);
    let mut packed = Listpack::new();
    for element in [&b"a"[..], b"5", b"-70000", b"member", &[b'x'; 70]] {
        packed.push_back(Element::of(element));
    }
    let mut block = Listpack::new();
    let block_of: [&[u8]; 17] = [
        b"2", b"0", b"1", b"name", b"0", // live, deleted, names, the name, the end of the names
        b"2", b"0", b"0", b"value", b"4", // with the names of the block
        b"0", b"1", b"0", b"1", b"other", b"value", b"6", // with one of its own
    ];
    block_of.iter().for_each(|element| block.push_back(Element::of(element)));
    let mut id = [0; 16];
    (id[7], id[15]) = (5, 1);
    let stream = [&[15, 1, 16][..], &id, &string(block.as_bytes()), &[2, 6, 1]].concat();
    let group = [&b"\x01\x02g1\x05\x01\x01"[..], &id, &[0; 8], b"\x01\x01\x03bob", &[0; 8], &[1], &id].concat();
    let list = [&[10][..], &string(&lists)].concat();
    vec![
        list.clone(),
        [&[14, 2][..], &list[1..], &list[1..]].concat(),
        [&[13][..], &string(&pairs)].concat(),
        [&[12][..], &string(&ziplist(&[b"\x01a", b"\xf2", b"\x01b", b"\x031.5"]))].concat(),
        [&[20][..], &string(packed.as_bytes())].concat(),
        [&[18, 2, 1][..], &string(b"alone"), &[2], &string(packed.as_bytes())].concat(),
        b"\x01\x03\x01a\xc0\x05\xc1\x00\x10".to_vec(),
        b"\x03\x03\x01a\x031.5\x01b\xfe\x01c\x02-1".to_vec(),
        b"\x09\x1a\x02\x03foo\x03\x00bar\x05hello\x05\x02world..\xff".to_vec(),
        b"\x00\xc3\x06\x40\x64\x01aa\xe0\x59\x00".to_vec(),
        [&stream[..], &[0]].concat(),
        [&stream[..], &group].concat(),
    ]
}

fn string(bytes: &[u8]) -> Vec<u8> {
    [&[0x80], &(bytes.len() as u32).to_be_bytes()[..], bytes].concat()
}

fn ziplist(elements: &[&[u8]]) -> Vec<u8> {
    const HEADER_LEN: usize = 10;
    let (mut body, mut before, mut last_at) = (Vec::new(), 0u8, HEADER_LEN);
    for element in elements {
        last_at = HEADER_LEN + body.len();
        body.push(before);
        body.extend_from_slice(element);
        before = element.len() as u8 + 1;
    }
    let len = (HEADER_LEN + body.len() + 1) as u32;
    let header = [&len.to_le_bytes()[..], &(last_at as u32).to_le_bytes(), &(elements.len() as u16).to_le_bytes()];
    [&header.concat()[..], &body, &[0xff]].concat()
}

#[test]
fn every_value_of_the_corpus_is_whole() {
    let corpus = corpus();
    for value in &corpus {
        assert!(
            shardrace::internals::rdb::undump(&payload(value), &Settings::default()).is_ok(),
            "{}",
            value.escape_ascii()
        );
    }
    for kind in super::mutation::KINDS.into_iter().chain([super::mutation::STREAM_3]) {
        assert!(corpus.iter().any(|value| value[0] == kind), "no value of type {kind}");
    }
}
