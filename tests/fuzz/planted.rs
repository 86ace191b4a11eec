//! Shows that the fuzzers can fail: bugs planted between them and the server are found.

use super::restarting::{self, Planted};
use super::restoring;
use harness::{Client, Data, Value};
use shardrace::internals::aof::{Frame, Manifest, Salt, Scan, SystemDisk, decode, frame_onto};
use shardrace::internals::base::shard_of;
use std::time::Duration;

fn restarting_finds(planted: Planted, text: &str) {
    let failure = restarting::run(1, Duration::ZERO, planted).expect_err("the planted bug is found");
    println!("{failure}");
    assert!(failure.contains(text), "{failure}");
}

/// A record of this length that removes a missing key. A file that is only shorter than before is refused.
fn without_effect(len: usize, (shard, shards): (usize, usize)) -> Option<Vec<u8>> {
    let start = [2u32.to_le_bytes().as_slice(), &3u32.to_le_bytes(), b"DEL"].concat();
    let key_len = len.checked_sub(start.len() + size_of::<u32>()).filter(|len| *len > 0)?;
    let mut random = fastrand::Rng::with_seed(1);
    let key = std::iter::repeat_with(|| std::iter::repeat_with(|| random.u8(..)).take(key_len).collect::<Vec<u8>>())
        .find(|key| shard_of(key, shards) == shard)?;
    let key_len = u32::try_from(key_len).expect("records of tests are short").to_le_bytes();
    Some([&start[..], &key_len, &key].concat())
}

/// The position of the payload of the last record that concerns only one segment.
fn last_own_record(bytes: &[u8], salt: Salt) -> Option<std::ops::Range<usize>> {
    const HEADER: usize = 16;
    let (mut at, mut last) = (HEADER, None);
    loop {
        at += match decode(&bytes[at..], salt) {
            Frame::Record(payload, len) => {
                last = Some(at + len - payload.len()..at + len);
                len
            }
            Frame::CrossShard(_, len) | Frame::Control(_, len) => len,
            Frame::End | Frame::Broken => return last,
        };
    }
}

#[test]
fn an_effect_that_is_dropped_is_found() {
    fn drop_last_effect(data: &Data) {
        // A base is written whole, or not at all; the lost record is in an increment.
        let is_increment = |path: &std::path::PathBuf| !path.to_string_lossy().contains(".base-");
        let Some(segment) = data.segments().into_iter().rfind(is_increment) else { return };
        let manifest = Manifest::read(&SystemDisk, segment.parent().unwrap()).unwrap();
        let shards = manifest.chains().last().unwrap().layout.shards;
        let name = segment.file_name().unwrap().to_str().unwrap();
        let shard = name.split('.').find_map(|part| part.strip_prefix("segment-")).unwrap().parse().unwrap();
        let mut bytes = std::fs::read(&segment).unwrap();
        let salt = Scan::of(&bytes, &segment).unwrap().salt.unwrap();
        let Some(payload) = last_own_record(&bytes, salt) else { return };
        let Some(nothing) = without_effect(payload.len(), (shard, shards)) else { return };
        let mut framed = Vec::new();
        frame_onto(&mut framed, salt, &nothing);
        bytes[payload.end - framed.len()..payload.end].copy_from_slice(&framed);
        std::fs::write(&segment, &bytes).unwrap();
    }
    restarting_finds(Planted::InTheFiles(drop_last_effect), "the data differs");
}

#[test]
fn a_deadline_that_the_digest_does_not_tell_from_another_is_found() {
    fn move_deadline(client: &mut Client) {
        let before = client.value(&["DEBUG", "DIGEST"]);
        for key in client.value(&["KEYS", "*"]).byte_strings() {
            let deadline = client.value(&[b"PEXPIRETIME".as_slice(), &key]).integer();
            if deadline > 0 {
                let earlier = (deadline - 1).to_string();
                client.value(&[b"PEXPIREAT".as_slice(), &key, earlier.as_bytes()]);
                return assert_eq!(before, client.value(&["DEBUG", "DIGEST"]));
            }
        }
    }
    restarting_finds(Planted::InTheServer(move_deadline), "after the restart, the data differs");
}

#[test]
fn a_stream_that_is_restored_with_a_wrong_length_is_found() {
    let failure = restoring::run(
        1,
        Duration::ZERO,
        Some(|request, reply| {
            if let (b"XLEN", Value::Integer(len)) = (request[0].as_slice(), reply) {
                *len += 1;
            }
        }),
    );
    let failure = failure.expect_err("the planted bug is found");
    println!("{failure}");
    assert!(failure.contains("XLEN does not fit"), "{failure}");
}

#[test]
fn a_member_that_is_restored_twice_is_found() {
    let failure = restoring::run(
        1,
        Duration::ZERO,
        Some(|request, reply| {
            if let (b"SMEMBERS", Value::Array(members)) = (request[0].as_slice(), reply) {
                *members.last_mut().unwrap() = members[0].clone();
            }
        }),
    );
    let failure = failure.expect_err("the planted bug is found");
    assert!(failure.contains("each once does not fit"), "{failure}");
}
