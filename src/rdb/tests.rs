//! What is written can be read; changed bytes are refused, or are another value, but never cause a panic.

use super::*;
use crate::base::limits::LEN_MAX;
use crate::keyspace::EncodingLimits;
use crate::keyspace::values::stream::StreamId;
use crate::keyspace::{
    Collection, Databases, Effects, Encode, End, Hash, Keyspace, List, NewValue, Node, Set, Settings, SortedSet, Store,
    Stream, Table, Value,
};
use proptest::prelude::*;

const KEY: &[u8] = b"key";

fn keyspace() -> Keyspace<Databases> {
    Keyspace::new(
        Databases::of_shard(&std::sync::Arc::default(), 16, 0, 1),
        1_000,
        fastrand::Rng::with_seed(1),
        Effects::new(false),
    )
}

/// The payload of a value in a keyspace.
fn dumped(keyspace: &mut Keyspace<Databases>) -> Vec<u8> {
    dump(keyspace.peek(KEY).expect("the key is there").value())
}

fn with_crc(mut payload: Vec<u8>) -> Vec<u8> {
    payload.truncate(payload.len() - 8);
    let crc = CRC64.checksum(&payload);
    payload.extend_from_slice(&crc.to_le_bytes());
    payload
}

fn undump(payload: &[u8]) -> Result<Loaded, Refusal> {
    super::undump(payload, &Settings::default())
}

fn read_file(bytes: &[u8], take: &mut dyn FnMut(FileKey<'_>) -> Result<(), String>) -> Result<FileSummary, String> {
    super::read_file(bytes, &Settings::default(), take)
}

/// The part that does not depend on the order of a hash table, which differs between tables.
fn in_any_order(payload: &[u8]) -> Vec<u8> {
    let mut bytes = payload[..payload.len() - 8].to_vec();
    bytes.sort_unstable();
    bytes
}

/// One value of each type and encoding.
fn values() -> Vec<Vec<u8>> {
    let limits = EncodingLimits::default();
    let long = |n: usize| format!("{n:0100}").into_bytes();
    let short = |n: usize| format!("element:{n}").into_bytes();
    let list = |elements: &mut dyn Iterator<Item = Vec<u8>>| {
        let mut list = List::default();
        elements.for_each(|element| {
            list.prepare(limits.of_lists(), std::iter::once(element.as_slice()));
            list.push(limits.of_lists(), &element, End::Tail);
        });
        list.into_object()
    };
    let set = |members: &mut dyn Iterator<Item = Vec<u8>>| {
        let mut set = None;
        members.for_each(|member| {
            set.get_or_insert_with(|| Set::for_members(limits.of_sets(), &member, 1)).insert(limits.of_sets(), &member);
        });
        set.unwrap_or_default().into_object()
    };
    let hash = |count: usize| {
        let mut hash = Hash::default();
        (0..count).for_each(|n| _ = hash.set(limits.of_hashes(), &short(n), n.to_string().as_bytes()));
        hash.into_object()
    };
    let sorted_set = |count: usize| {
        let mut set = SortedSet::default();
        (0..count).for_each(|n| _ = set.insert(limits.of_sorted_sets(), &short(n), n as f64 / 3.0 - 5.0));
        set.into_object()
    };
    let objects = [
        list(&mut (0..10).map(short)),
        list(&mut (0..300).map(long).chain([vec![b'x'; 20_000]])),
        set(&mut (0..100).map(|n: usize| (n * n * n).to_string().into_bytes())),
        set(&mut (0..10).map(short)),
        set(&mut (0..200).map(short)),
        hash(10),
        hash(600),
        sorted_set(10),
        sorted_set(200),
        stream().into_object(),
    ];
    let objects = objects.into_iter().map(NewValue::Object);
    let texts =
        [NewValue::Integer(-1), NewValue::Integer(i64::MAX), NewValue::Integer(70_000), NewValue::Text(b"text")];
    let dumped_one = |value| {
        let mut keyspace = keyspace();
        keyspace.set(KEY, value, None);
        dumped(&mut keyspace)
    };
    texts.into_iter().chain(objects).map(dumped_one).collect()
}

fn stream() -> Stream {
    let mut stream = Stream::default();
    let id = |ms| StreamId { ms, seq: ms % 3 };
    for ms in 1..250 {
        let fields: Vec<Vec<u8>> = match ms % 50 {
            0 => vec![b"other".to_vec(), b"1".to_vec(), b"more".to_vec(), vec![b'v'; 100]],
            _ => vec![b"name".to_vec(), ms.to_string().into_bytes()],
        };
        stream.push(Settings::default().block_limits(), id(ms), fields.iter().map(Vec::as_slice));
    }
    (1..20).chain([100, 150, 249]).for_each(|ms| assert!(stream.delete(id(ms))));
    let mut group = crate::keyspace::values::stream::Group::new(id(120), Some(120));
    assert!(group.add_consumer(b"one", 5) && group.add_consumer(b"two", 6));
    (30..60).for_each(|ms| group.assign(id(ms), if ms % 2 == 0 { b"one" } else { b"two" }, 7, ms));
    stream.groups.insert(b"group".as_slice().into(), group);
    stream.groups.insert(b"idle".as_slice().into(), crate::keyspace::values::stream::Group::new(StreamId::MIN, None));
    stream
}

#[test]
fn every_value_reads_back_as_it_was_written() {
    for payload in values() {
        let mut keyspace = keyspace();
        undump(&payload).expect("it was written").store_in(&mut keyspace, KEY, None);
        assert!(in_any_order(&dumped(&mut keyspace)) == in_any_order(&payload), "type {}", payload[0]);
    }
}

#[test]
fn the_bytes_are_those_of_redis() {
    for (value, wanted) in [
        (NewValue::Integer(10), b"\x00\xC0\x0A\x0A\x00".as_slice()),
        (NewValue::Text(b"hello"), b"\x00\x05hello\x0A\x00"),
        (NewValue::Integer(1 << 40), b"\x00\x0D1099511627776\x0A\x00"),
    ] {
        let mut keyspace = keyspace();
        keyspace.set(KEY, value, None);
        let payload = dumped(&mut keyspace);
        assert_eq!(payload[..payload.len() - 8], *wanted);
        assert_eq!(with_crc(payload.clone()), payload);
    }
    assert_eq!(CRC64.checksum(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
}

#[test]
fn a_payload_of_a_newer_version_or_with_another_checksum_is_refused() {
    let payload = dump(Value::Integer(1));
    let mut newer = payload.clone();
    newer[3] = VERSION_MAX as u8;
    assert!(undump(&with_crc(newer.clone())).is_ok());
    newer[3] += 1;
    assert_eq!(undump(&with_crc(newer)).err(), Some(Refusal::Footer));
    for at in 0..payload.len() {
        let mut other = payload.clone();
        other[at] ^= 1;
        assert_eq!(undump(&other).err(), Some(Refusal::Footer), "byte {at}");
    }
    (0..payload.len()).for_each(|cut| assert_eq!(undump(&payload[..cut]).err(), Some(Refusal::Footer)));
}

#[test]
fn a_collection_without_elements_or_with_the_same_twice_is_refused() {
    let twice: [&[u8]; 4] =
        [b"\x02\x02\x01a\x01a", b"\x04\x02\x01a\x01b\x01a\x01b", b"\x03\x02\x01a\x011\x01a\x012", b"\x03\x01\x01a\xFD"];
    let empty: [&[u8]; 4] = [b"\x01\x00", b"\x02\x00", b"\x04\x00", b"\x05\x00"];
    for value in twice.iter().chain(&empty) {
        let payload = with_crc([*value, &[10, 0], &[0; 8]].concat());
        assert!(matches!(undump(&payload), Err(Refusal::Value(_))), "{value:?}");
    }
}

#[test]
fn counts_that_are_only_said_cost_nothing() {
    const MANY: &[u8] = b"\x81\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF";
    const LZF: &[u8] = b"\xC3\x01\x81\x00\x00\x00\x00\x3F\xFF\xFF\xFF\x00";
    for kind in 0..=30 {
        for rest in [MANY, &[MANY, b"\x01a"].concat(), &[b"\x01\x1Fa", MANY].concat(), LZF] {
            if kind == kind::STRING && rest.len() == MANY.len() + 3 {
                continue; // A string with bytes after it, which Redis accepts, too.
            }
            let payload = with_crc([&[kind], rest, &[10, 0], &[0; 8]].concat());
            assert!(matches!(undump(&payload), Err(Refusal::Value(_))), "type {kind}");
        }
    }
}

fn snapshot(keyspace: &mut Keyspace<Databases>, compresses: bool) -> Vec<u8> {
    let file = FileWriter::begin(Vec::new(), keyspace.turn.second(), std::iter::empty()).expect("memory takes it");
    let mut file = file.compressing(compresses);
    let mut keys = FileKeys::default();
    let mut bytes = Vec::new();
    for database in 0..keyspace.store.in_use() {
        keyspace.within(database, |keyspace| {
            let mut put = |node: &Node| keys.encode(&mut bytes, database, node).expect("every value can be written");
            keyspace.store.for_each(&mut put);
        });
    }
    file.write(&bytes).expect("memory takes it");
    file.end().expect("memory takes it");
    file.out().clone()
}

#[test]
fn a_snapshot_holds_every_key_of_every_database_and_those_that_are_due() {
    let mut keyspace = keyspace();
    for (number, payload) in values().iter().enumerate() {
        keyspace.select(number % 3 * 5);
        let expire_at = (number % 2 == 0).then_some(5_000 + number as u64);
        undump(payload).expect("it was written").store_in(&mut keyspace, format!("key:{number}").as_bytes(), expire_at);
    }
    keyspace.set(b"expired", NewValue::Integer(1), Some(900));
    let sizes = [false, true].map(|compresses| a_snapshot_reads_back(&mut keyspace, compresses));
    assert!(sizes[1] * 2 < sizes[0], "plain and compressed: {sizes:?}");
}

/// Returns its length.
fn a_snapshot_reads_back(keyspace: &mut Keyspace<Databases>, compresses: bool) -> usize {
    let bytes = snapshot(keyspace, compresses);
    let mut count = 0;
    let summary = read_file(&[&bytes[..], b"behind"].concat(), &mut |found| {
        keyspace.select(found.database as usize);
        count += 1;
        if found.key == b"expired".as_slice() {
            assert_eq!(found.expire_at, Some(900));
            return Ok(());
        }
        let node = keyspace.peek(&found.key).expect("it was there");
        assert_eq!(node.expire_at(), found.expire_at);
        let payload = dump(node.value());
        found.value.store_in(keyspace, KEY, None);
        assert!(in_any_order(&dumped(keyspace)) == in_any_order(&payload), "type {}", payload[0]);
        keyspace.remove_stored(KEY);
        Ok(())
    });
    let summary = summary.expect("it was written");
    assert_eq!((summary.version, summary.keys, summary.len, count), (10, 15, bytes.len(), 15));
    for at in [5, 50, 500, bytes.len() - 1] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert!(read_file(&damaged, &mut |_| Ok(())).is_err(), "byte {at}");
        assert!(read_file(&bytes[..at], &mut |_| Ok(())).is_err(), "cut at {at}");
    }
    bytes.len()
}

/// Lengths in a file without the bytes: strings that are too long are refused before their bytes are read.
#[test]
fn a_string_of_a_file_that_is_longer_than_what_is_held_is_refused_by_the_name_of_its_key() {
    let plain = |len: u64| [&[0x81][..], &len.to_be_bytes()].concat();
    let compressed = |len: u64| [&[0xC3, 0x01][..], &plain(len), b"x"].concat();
    let said = |kind: u8, before: &[u8], string: &[u8]| {
        let file = [b"REDIS0010".as_slice(), &[kind, 3], b"big", before, string].concat();
        read_file(&file, &mut |_| panic!("nothing can be taken")).expect_err("the file ends within the string")
    };
    for len in [LEN_MAX as u64 + 1, 1 << 31, 1 << 32, (1 << 32) + 5, u64::MAX] {
        for string in [plain(len), compressed(len)] {
            for (kind, before) in [
                (kind::STRING, b"".as_slice()),
                (kind::LIST, b"\x01"),
                (kind::SET, b"\x01"),
                (kind::HASH, b"\x01"),
                (kind::HASH, b"\x01\x01f"),
                (kind::SORTED_SET, b"\x01"),
            ] {
                let said = said(kind, before, &string);
                let wanted = format!("at byte 9: the value of the key big: a string of {len} bytes");
                assert!(said.starts_with(&wanted) && said.ends_with(" 2147483647 bytes are held at most"), "{said}");
            }
        }
        let file = [b"REDIS0010\x00".as_slice(), &plain(len)].concat();
        let said = read_file(&file, &mut |_| Ok(())).expect_err("it is the key");
        assert!(said.starts_with(&format!("at byte 9: a string of {len} bytes")), "{said}");
        // A client gets Redis's error for a payload that is none.
        let payload = with_crc([&[kind::STRING][..], &compressed(len), &[10, 0], &[0; 8]].concat());
        assert!(matches!(undump(&payload), Err(Refusal::Value(_))));
    }
    // A string that is not too long is read.
    assert!(said(kind::STRING, b"", &plain(LEN_MAX as u64)).contains("it is damaged, or ends"));
}

/// Reads a payload of any bytes; if it is a value, it must be usable and writable.
fn use_it(payload: &[u8]) {
    let Ok(loaded) = undump(payload) else { return };
    let mut keyspace = keyspace();
    loaded.store_in(&mut keyspace, KEY, None);
    let again = dumped(&mut keyspace);
    let mut second = self::keyspace();
    undump(&again).expect("what was read is written well").store_in(&mut second, KEY, None);
    assert_eq!(dumped(&mut second).len(), again.len());
    if let Some(stream) = keyspace.node_mut(KEY).and_then(|node| node.object_mut()).and_then(Stream::of_mut) {
        let entries = stream.range(StreamId::MIN, StreamId::MAX);
        let fields: Vec<_> = entries.map(|entry| entry.fields().collect::<Vec<_>>()).collect();
        assert_eq!(fields.len(), stream.len());
        if let Some(next) = stream.next_id(1) {
            stream.push(Settings::default().block_limits(), next, [b"n".as_slice(), b"v"].into_iter());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]
    #[test]
    fn changed_payloads_are_refused_or_are_values(
        which in 0..14usize,
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..5),
        cut in proptest::option::of(any::<proptest::sample::Index>()),
        kind in proptest::option::of(0..25u8),
    ) {
        static VALUES: std::sync::LazyLock<Vec<Vec<u8>>> = std::sync::LazyLock::new(values);
        let whole = &VALUES[which];
        let mut value = whole[..whole.len() - 10].to_vec();
        if let Some(cut) = cut {
            value.truncate(cut.index(value.len()).max(1));
        }
        for (at, byte) in changes {
            let at = at.index(value.len());
            value[at] = byte;
        }
        if let Some(kind) = kind {
            value[0] = kind;
        }
        use_it(&with_crc([&value[..], &[10, 0], &[0; 8]].concat()));
    }

    #[test]
    fn any_bytes_are_refused_or_are_values(kind in 0..25u8, bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        use_it(&with_crc([&[kind][..], &bytes, &[11, 0], &[0; 8]].concat()));
        // One string that is the whole value: listpacks and the like.
        use_it(&with_crc([&[kind, bytes.len() as u8][..], &bytes, &[11, 0], &[0; 8]].concat()));
        assert!(read_file(&bytes, &mut |_| Ok(())).is_err());
        let _any_outcome = read_file(&[b"REDIS0010".as_slice(), &bytes].concat(), &mut |_| Ok(()));
    }
}
