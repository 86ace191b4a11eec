//! Shown to fail: bugs that are planted between the fuzzers and the server are found.

use super::harness::{Client, Data, Value};
use super::restarting::{self, Planted};
use super::restoring;
use shardrace::aof::Scan;
use std::time::Duration;

fn restarting_finds(planted: Planted, text: &str) {
    let failure = restarting::run(1, Duration::ZERO, planted).expect_err("the planted bug is found");
    println!("{failure}");
    assert!(failure.contains(text), "{failure}");
}

#[test]
fn an_effect_that_is_dropped_is_found() {
    fn drop_last_effect(data: &Data) {
        // A base is written whole, or not at all; what is lost is the end of an increment.
        let is_increment = |path: &std::path::PathBuf| !path.to_string_lossy().contains(".base-");
        let Some(segment) = data.segments().into_iter().rfind(is_increment) else { return };
        let bytes = std::fs::read(&segment).unwrap();
        let whole = Scan::of(&bytes, &segment).unwrap().records;
        // Shorter and shorter, until a record is missing.
        let cut = (0..bytes.len())
            .rev()
            .find(|cut| Scan::of(&bytes[..*cut], &segment).is_ok_and(|scan| scan.records < whole));
        std::fs::write(&segment, &bytes[..cut.expect("a segment has records")]).unwrap();
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
