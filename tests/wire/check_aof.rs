//! `shardrace check-aof`: it explains a log, and a server starts with the log that it repaired.

use harness::{Client, Data, EVERY_ENGINE, Ended, Setup, run_to_its_end};
use shardrace::internals::aof::{Frame, Scan, cross_shard_payload, decode, frame_cross_shard_onto, frame_onto};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const MUTEX: Setup = EVERY_ENGINE[0];
const ACTOR: Setup = Setup { engine: "actor", shards: 2, threads: 2 };

fn check(data: &Data, flags: &[&str]) -> Ended {
    let mut command = Command::new(harness::server::binary());
    run_to_its_end(command.arg("check-aof").arg(data.path()).args(flags))
}

#[track_caller]
fn assert_says(ended: &Ended, code: i32, texts: &[&str]) {
    assert_eq!(ended.status.code(), Some(code), "{}{}", ended.stdout, ended.stderr);
    for text in texts {
        assert!(ended.stdout.contains(text) || ended.stderr.contains(text), "nothing of {text:?}: {ended:?}");
    }
}

fn scan(path: &PathBuf) -> Scan {
    Scan::of(&std::fs::read(path).unwrap(), path).unwrap()
}

fn now_ms() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()
}

/// Waits until a later epoch has ended in the file of every segment, also of those that hold no data: after a power
/// loss the log ends where all have one.
fn wait_for_epoch(data: &Data, than: u128) {
    let is_later = |scan: Scan| scan.epochs.iter().any(|(epoch, ..)| u128::from(*epoch) > than);
    let has_later = |path: &PathBuf| Scan::of(&std::fs::read(path).unwrap(), path).is_ok_and(is_later);
    harness::wait_until("an epoch ends everywhere", || {
        let files = data.log_files();
        let mut segments = files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "aof"));
        segments.clone().count() > 0 && segments.all(has_later)
    });
}

/// `round` for every one of many keys, each alone, and one transaction over several shards.
fn write_round(client: &mut Client, round: u32) {
    (0..20).for_each(|key| client.expect(&format!("SET key:{key} {round}"), "+OK\r\n"));
    let group: Vec<String> = (0..20).map(|key| format!("group:{key} {round}")).collect();
    client.expect(&format!("MSET {}", group.join(" ")), "+OK\r\n");
    let requests = [vec!["MULTI".to_owned()]].into_iter();
    let moves = (0..20).map(|key| vec!["RPUSH".into(), format!("list:{key}"), round.to_string()]);
    client.pipeline(&requests.chain(moves).chain([vec!["EXEC".into()]]).collect::<Vec<_>>());
}

/// Two rounds, each followed by the end of an epoch, and the time between them.
fn two_rounds(setup: Setup) -> (Data, u128) {
    let server = harness::Server::start(setup, &[]);
    let mut client = server.client();
    write_round(&mut client, 1);
    wait_for_epoch(server.data(), now_ms());
    let between = now_ms();
    std::thread::sleep(Duration::from_millis(5));
    write_round(&mut client, 2);
    wait_for_epoch(server.data(), now_ms());
    (server.kill(), between)
}

/// Changes a byte of the first record after the last epoch that ended before `time`.
fn damage_after(data: &Data, time: u128) -> PathBuf {
    let path = data.segments()[0].clone();
    let mut bytes = std::fs::read(&path).unwrap();
    let Scan { epochs, salt, .. } = scan(&path);
    let (.., mut at) = *epochs.iter().rfind(|(epoch, ..)| u128::from(*epoch) <= time).unwrap();
    while let Frame::Control(_, len) = decode(&bytes[at..], salt.unwrap()) {
        at += len;
    }
    bytes[at + 20] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    path
}

/// The values of all keys, and the lists.
fn rounds_found(client: &mut Client) -> Vec<String> {
    let texts = |client: &mut Client, prefix: &str| {
        let keys: Vec<String> = (0..20).map(|key| format!("{prefix}:{key}")).collect();
        let values = client.value(&[&["MGET".to_owned()], keys.as_slice()].concat());
        values.elements().iter().map(|value| value.text()).collect::<Vec<_>>()
    };
    let lists: Vec<String> =
        (0..20).map(|key| client.value(&["LLEN", &format!("list:{key}")]).integer().to_string()).collect();
    [texts(client, "key"), texts(client, "group"), lists].concat()
}

fn all(round: u32) -> Vec<String> {
    vec![round.to_string(); 60]
}

#[test]
fn a_whole_log_is_explained_and_a_server_that_uses_it_keeps_others_out() {
    for setup in [MUTEX, ACTOR] {
        let (data, _) = two_rounds(setup);
        let wanted = ["Chain 1", setup.engine, "records", "epochs from 20", "A server starts with it: 60 keys"];
        let before = data.log_files().iter().map(|path| std::fs::read(path).unwrap()).collect::<Vec<_>>();
        assert_says(&check(&data, &[]), 0, &wanted);
        assert_says(&check(&data, &["--fix"]), 0, &["nothing to do"]);
        let after = data.log_files().iter().map(|path| std::fs::read(path).unwrap()).collect::<Vec<_>>();
        assert_eq!(before, after, "it was only looked at");
        let _server = data.start(setup, &[]);
        assert_says(&check(&data, &[]), 1, &["in use", "another server"]);
    }
}

/// Changes a byte of the last write that a killed server has acknowledged, in the write buffer.
fn damage_buffer(data: &Data) -> PathBuf {
    let is_buffer = |path: &PathBuf| path.to_str().unwrap().ends_with(".write-buffer");
    let find = |bytes: &[u8]| bytes.windows(6).rposition(|bytes| bytes == b"a_mark");
    let with_mark = |path: PathBuf| {
        let bytes = std::fs::read(&path).unwrap();
        find(&bytes).map(|at| (path, bytes, at))
    };
    let found = data.log_files().into_iter().filter(is_buffer).find_map(with_mark);
    let (path, mut bytes, at) = found.expect("the write is in a buffer");
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn a_damaged_write_buffer_is_refused_until_it_is_repaired_and_a_power_loss_may_leave_it() {
    for setup in [MUTEX, ACTOR] {
        for repair in [Some("--fix"), Some("--salvage"), None] {
            let server = harness::Server::start(setup, &[]);
            let mut client = server.client();
            client.expect("SET before 1", "+OK\r\n");
            wait_for_epoch(server.data(), now_ms());
            client.expect("SET key a_mark", "+OK\r\n");
            let data = server.kill();
            let buffer = damage_buffer(&data);
            let buffer = buffer.to_str().unwrap();
            if let Some(repair) = repair {
                let wanted = [buffer, "is damaged: its checksum", "not started again", "check-aof"];
                let log = data.start_refused(setup, &[]).stderr;
                wanted.iter().for_each(|text| assert!(log.contains(text), "{setup:?}: {log}"));
                assert_says(&check(&data, &[]), 1, &["DAMAGED: ", "A server refuses it", buffer]);
                assert_says(&check(&data, &[repair]), 0, &["goes on without what", buffer, "Repaired"]);
                assert_says(&check(&data, &[]), 0, &["A server starts with it: 1 keys"]);
            } else {
                data.pretend_to_reboot();
            }
            let server = data.start(setup, &[]);
            server.client().expect("MGET before key", "*2\r\n$1\r\n1\r\n$-1\r\n");
        }
    }
}

#[test]
fn what_is_no_log_is_refused() {
    let data = Data::new();
    assert_says(&check(&data, &[]), 1, &["holds no log", data.path().to_str().unwrap()]);
    assert_says(&check(&data, &["--truncate-to", "soon"]), 1, &["TIME is"]);
    assert_says(&check(&data, &["--fix", "--salvage"]), 1, &["cannot be used with"]);
    assert_eq!(std::fs::read_dir(data.path()).unwrap().count(), 0);
}

#[test]
fn a_torn_end_is_explained_and_cut() {
    let (data, _) = two_rounds(MUTEX);
    let path = data.segments()[0].clone();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend_from_slice(&[7; 77]);
    std::fs::write(&path, bytes).unwrap();
    assert_says(&check(&data, &[]), 1, &["TORN: the last 77 bytes", "A server starts with it: 60 keys"]);
    assert_says(
        &check(&data, &["--fix"]),
        0,
        &["cuts 77 bytes", "Dropped: 77 bytes, 0 whole records", "before-repair-"],
    );
    assert_says(&check(&data, &[]), 0, &["60 keys"]);
    assert_eq!(rounds_found(&mut data.start(MUTEX, &[]).client()), all(2));
}

#[test]
fn damage_is_explained_and_fixed_to_a_state_that_was() {
    let (data, between) = two_rounds(ACTOR);
    let path = damage_after(&data, between);
    let whole = data.log_files();
    let name = path.file_name().unwrap().to_str().unwrap();
    assert!(data.start_refused(ACTOR, &[]).stderr.contains(name));
    assert_says(&check(&data, &[]), 1, &["DAMAGED at byte", "whole records follow", name, "A server refuses it"]);
    let damaged = std::fs::read(&path).unwrap();
    let fixed = check(&data, &["--fix"]);
    assert_says(&fixed, 0, &["whole records, of", "keys", "A server starts with it: 60 keys"]);
    assert_eq!(rounds_found(&mut data.start(ACTOR, &[]).client()), all(1));
    // The old log is kept, and can be restored.
    let mut entries = data.log_files().into_iter();
    let backup = entries.find(|path| path.is_dir()).expect("a backup");
    assert_eq!(std::fs::read(backup.join(name)).unwrap(), damaged);
    for path in whole.iter().filter(|path| path.extension().unwrap() != "lock") {
        assert!(backup.join(path.file_name().unwrap()).exists(), "{path:?} is not in the backup");
    }
}

#[test]
fn a_damaged_log_is_salvaged_but_for_what_is_damaged() {
    for setup in [MUTEX, ACTOR] {
        let (data, between) = two_rounds(setup);
        damage_after(&data, between);
        assert_says(&check(&data, &["--salvage"]), 0, &["leaves out", "no whole record", "A server starts with it"]);
        let server = data.start(setup, &[]);
        let mut client = server.client();
        let found = rounds_found(&mut client);
        let old = found.iter().filter(|value| *value == "1").count();
        // One record was lost: one for a single key, because transactions are in other segments too, or after it.
        assert_eq!(old, 1, "{setup:?}: {found:?}");
        write_round(&mut client, 3);
        let data = server.kill();
        let wanted = [vec!["3".to_owned(); 60]].concat();
        assert_eq!(rounds_found(&mut data.start(setup, &[]).client()), wanted, "{setup:?}");
    }
}

/// A transaction that is damaged in one segment is restored from another.
#[test]
fn a_damaged_transaction_is_salvaged_from_another_segment() {
    let (data, _) = two_rounds(ACTOR);
    for segment in 0..2 {
        let transactions = scan(&data.segments()[segment]).transactions;
        for &record in &transactions {
            let copy = data.copy();
            let path = copy.segments()[segment].clone();
            let mut bytes = std::fs::read(&path).unwrap();
            bytes[record + 20] ^= 1;
            std::fs::write(&path, bytes).unwrap();
            assert_says(&check(&copy, &["--salvage"]), 0, &["A server starts with it: 60 keys"]);
            assert_eq!(rounds_found(&mut copy.start(ACTOR, &[]).client()), all(2), "segment {segment}, byte {record}");
        }
    }
}

#[test]
fn a_log_is_taken_back_to_a_time() {
    for setup in [MUTEX, ACTOR] {
        let (data, between) = two_rounds(setup);
        let seconds = time::OffsetDateTime::from_unix_timestamp_nanos(between as i128 * 1_000_000).unwrap();
        let written = seconds.format(&time::format_description::well_known::Rfc3339).unwrap();
        for time in [between.to_string(), written] {
            let copy = data.copy();
            assert_says(&check(&copy, &["--truncate-to", &time]), 0, &["at the epoch that ended at 20", "Dropped: "]);
            let server = copy.start(setup, &[]);
            assert_eq!(rounds_found(&mut server.client()), all(1), "{setup:?}, {time}");
            write_round(&mut server.client(), 2);
            assert_eq!(rounds_found(&mut server.kill().start(setup, &[]).client()), all(2));
        }
        assert_says(&check(&data, &["--truncate-to", "1000"]), 1, &["no epoch that ended at that time"]);
        assert_eq!(rounds_found(&mut data.start(setup, &[]).client()), all(2), "it was left alone");
    }
}

/// `shardrace check-aof DIR --fix | true`, and the same with a full disk under its output.
#[test]
fn a_log_is_repaired_whether_or_not_anyone_reads_what_is_printed() {
    let (data, between) = two_rounds(ACTOR);
    damage_after(&data, between);
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let unread = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        writer
    };
    let check_into = |data: &Data, flags: &[&str], stdout: Stdio, stderr: Stdio| {
        let mut command = Command::new(harness::server::binary());
        command.arg("check-aof").arg(data.path()).args(flags).stdout(stdout).stderr(stderr);
        command.output().unwrap()
    };
    assert_eq!(check_into(&data, &[], unread().into(), Stdio::piped()).status.code(), Some(1), "it is damaged");
    for (stdout, stderr, code) in [
        (Stdio::from(unread()), Stdio::piped(), 0),
        (unread().into(), unread().into(), 0),
        (full().into(), Stdio::piped(), 1),
        (full().into(), full().into(), 1),
    ] {
        let copy = data.copy();
        let fixed = check_into(&copy, &["--fix"], stdout, stderr);
        assert_eq!(fixed.status.code(), Some(code), "{fixed:?}");
        let told = String::from_utf8_lossy(&fixed.stderr);
        assert!(told.is_empty() || told.contains("No space left"), "{told}");
        assert_says(&check(&copy, &[]), 0, &["A server starts with it"]);
        assert_eq!(rounds_found(&mut copy.start(ACTOR, &[]).client()), all(1));
    }
}

#[test]
fn its_usage_is_a_line_that_can_be_typed() {
    let ended = run_to_its_end(Command::new(harness::server::binary()).args(["check-aof", "--help"]));
    assert_says(&ended, 0, &["Usage: shardrace check-aof [OPTIONS] <DIR>"]);
}

/// Another engine's chain depends on the contents of the one before it.
#[test]
fn chains_after_damage_are_dropped_by_a_fix_and_kept_by_a_salvage() {
    let (data, between) = two_rounds(ACTOR);
    let server = data.start(MUTEX, &[]);
    write_round(&mut server.client(), 3);
    let data = server.kill();
    damage_after(&data, between);
    let fixed = data.copy();
    assert_says(&check(&fixed, &["--fix"]), 0, &["drops chain 2"]);
    assert_eq!(rounds_found(&mut fixed.start(MUTEX, &[]).client()), all(1));
    assert_says(&check(&data, &["--salvage"]), 0, &["A server starts with it: 60 keys"]);
    assert_eq!(rounds_found(&mut data.start(MUTEX, &[]).client()), all(3));
    // A later chain does not get the number of the repaired one.
    let server = data.start(ACTOR, &[]);
    assert_eq!(rounds_found(&mut server.client()), all(3));
    write_round(&mut server.client(), 4);
    assert_eq!(rounds_found(&mut server.kill().start(MUTEX, &[]).client()), all(4));
}

/// An effect, encoded as in a payload.
fn effect(line: &str) -> Vec<u8> {
    let words: Vec<&str> = line.split(' ').collect();
    let number = |number: usize| u32::try_from(number).unwrap().to_le_bytes();
    let arguments = words.iter().flat_map(|word| [&number(word.len())[..], word.as_bytes()].concat());
    number(words.len()).into_iter().chain(arguments).collect()
}

/// Appends a record to a segment; returns its position.
fn append(path: &Path, frame: impl FnOnce(&mut Vec<u8>, shardrace::internals::aof::Salt)) -> usize {
    let mut bytes = std::fs::read(path).unwrap();
    let Scan { salt, end, .. } = scan(&path.to_owned());
    bytes.truncate(end);
    frame(&mut bytes, salt.unwrap());
    std::fs::write(path, bytes).unwrap();
    end
}

/// A key that only this segment holds.
fn key_in(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap();
    let is_in = |key: &String| {
        let set = effect(&format!("SET {key} 1"));
        bytes.windows(set.len()).any(|window| window == set)
    };
    (0..20).map(|key| format!("key:{key}")).find(is_in).expect("a segment has some of twenty keys")
}

#[test]
fn what_cannot_be_replayed_is_told_and_left_out_by_a_salvage() {
    for setup in [MUTEX, ACTOR] {
        println!("on {setup:?}");
        let (data, _) = two_rounds(setup);
        let segments = data.segments();
        let path = segments.last().unwrap();
        let key = key_in(path);
        let effects = |lines: &[String]| lines.iter().flat_map(|line| effect(line)).collect::<Vec<u8>>();
        let half = effects(&[format!("SET {key} 7"), format!("LPUSH {key} x"), format!("APPEND {key} 7")]);
        let at = append(path, |out, salt| frame_onto(out, salt, &half));
        append(path, |out, salt| frame_onto(out, salt, &effects(&[format!("NOSUCH {key}")])));
        append(path, |out, salt| frame_onto(out, salt, &effects(&[format!("APPEND {key} 7")])));
        if let [one, other] = &segments[..] {
            let record =
                effects(&["RPUSH list:0 9".to_owned(), format!("HSET {key} f v"), "RPUSH list:1 9".to_owned()]);
            let payload = cross_shard_payload(u64::MAX, &[(0, 0), (1, 0)], &record);
            for path in [one, other] {
                append(path, |out, salt| frame_cross_shard_onto(out, salt, &payload));
            }
        }
        let before = std::fs::read(path).unwrap();

        let name = path.to_str().unwrap();
        let place = format!("record at byte {at}");
        let dir = path.parent().unwrap().to_str().unwrap();
        let advice = format!("`shardrace check-aof {dir} --salvage` leaves out what cannot be replayed");
        let refusal = data.start_refused(setup, &[]).stderr;
        for text in [name, &place, "LPUSH fails on replay: WRONGTYPE", &advice] {
            assert!(refusal.contains(text), "nothing of {text:?}: {refusal}");
        }
        let told =
            ["A server refuses it", "UNFIT: record at byte", "LPUSH fails", "holds an effect that is no write: NOSUCH"];
        assert_says(&check(&data, &[]), 1, &told);
        let fix = check(&data, &["--fix"]);
        assert_says(&fix, 1, &["Nothing was done: no file is damaged", "--salvage", "LPUSH fails"]);
        assert!(!fix.stdout.contains("nothing to do"), "{fix:?}");
        assert_eq!(std::fs::read(path).unwrap(), before);

        let salvaged = check(&data, &["--salvage"]);
        let note = format!("leaves out of the {place} of {name}: LPUSH fails on replay: WRONGTYPE");
        assert_says(&salvaged, 0, &[&note, "NOSUCH", "of 1 keys", &key, "A server starts with it: 60 keys"]);
        assert_says(&check(&data, &[]), 0, &["60 keys"]);
        assert_says(&check(&data, &["--salvage"]), 0, &["nothing to do"]);
        let server = data.start(setup, &[]);
        let mut client = server.client();
        client.expect(&format!("GET {key}"), "$3\r\n777\r\n");
        let lengths = [0, 1].map(|list| client.value(&["LLEN", &format!("list:{list}")]).integer());
        assert_eq!(lengths, [if segments.len() == 2 { 3 } else { 2 }; 2]);
        // From here on it is as strict as any other.
        client.expect("SET later 1", "+OK\r\n");
        let data = server.kill();
        for path in &data.segments() {
            append(path, |out, salt| frame_onto(out, salt, &effects(&["NOSUCH key".to_owned()])));
        }
        assert!(data.start_refused(setup, &[]).stderr.contains("NOSUCH"));
    }
}

/// Changes of a segment's file that leave a part of it.
fn damages(bytes: &[u8]) -> Vec<Vec<u8>> {
    let flipped = |at: usize| {
        let mut bytes = bytes.to_vec();
        bytes[at] ^= 1;
        bytes
    };
    let len = bytes.len();
    let flips = [0, 9, 14, 16, 40, len / 3, len / 2, len - 60, len - 2].map(flipped);
    let cuts = [17, len / 2, len - 40, len - 1].map(|at| bytes[..at].to_vec());
    flips.into_iter().chain(cuts).collect()
}

#[test]
fn what_a_repair_leaves_is_right_to_a_second_look() {
    for setup in [MUTEX, ACTOR] {
        let (data, between) = two_rounds(setup);
        let mut repaired = 0;
        for segment in 0..setup.shards {
            let path = data.segments()[segment].clone();
            let whole = std::fs::read(&path).unwrap();
            for (number, damaged) in damages(&whole[..scan(&path).end]).into_iter().enumerate() {
                for repair in [&["--fix"][..], &["--salvage"], &["--truncate-to", &between.to_string()]] {
                    let copy = data.copy();
                    std::fs::write(&copy.segments()[segment], &damaged).unwrap();
                    if check(&copy, repair).status.success() {
                        let what = format!("{setup:?}, segment {segment}, damage {number}, {repair:?}");
                        let again = check(&copy, &[]);
                        assert!(again.status.success(), "{what}: {again:?}");
                        let again = check(&copy, &["--fix"]);
                        assert!(again.stdout.contains("There is nothing to do"), "{what}: {again:?}");
                        repaired += 1;
                    }
                }
            }
        }
        assert!(repaired >= 20 * setup.shards, "{setup:?}: {repaired}");
    }
}
