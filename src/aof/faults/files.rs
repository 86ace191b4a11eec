//! Files of a real log that are missing, empty, cut, exchanged, or of another log: for every file and every damage a
//! server refuses to start with an error that names a file, or recovers everything that was promised; and check-aof
//! agrees with it.

use super::*;
use crate::aof::disk::SystemDisk;
use crate::aof::format::{Frame, MANIFEST, SEGMENT_HEADER, Scan, decode};
use crate::aof::{Rewriter, rehearse};
use crate::keyspace::{SnapshotSink, Store};
use std::fs;

/// How a log came to be as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Written, and stopped normally.
    Stopped,
    /// Killed: the last writes are in the write buffers.
    Killed,
    /// Killed during a rewrite.
    Rewriting,
    /// Rewritten, and stopped.
    Rewritten,
    /// Stopped, and begun again with one shard more, and stopped.
    Divided,
    /// Stopped, by a server whose manifest has no more than format 3.
    Old,
}

const KINDS: [Kind; 6] = [Kind::Stopped, Kind::Killed, Kind::Rewriting, Kind::Rewritten, Kind::Divided, Kind::Old];

/// The damage to a segment file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Damage {
    Missing,
    Empty,
    /// It ends within its header.
    InHeader,
    /// Nothing but its header is left.
    Header,
    /// The last record is missing; the last half of the records is.
    LastRecord,
    HalfOfRecords,
    /// It ends within its last record.
    Torn,
    /// It is exchanged for the same file of the next segment.
    Swapped,
    /// It is replaced by that file of another log.
    Foreign,
}

const DAMAGES: [Damage; 9] = [
    Damage::Missing,
    Damage::Empty,
    Damage::InHeader,
    Damage::Header,
    Damage::LastRecord,
    Damage::HalfOfRecords,
    Damage::Torn,
    Damage::Swapped,
    Damage::Foreign,
];

/// Keys that are set one by one, and rounds in which keys on all shards are set at once.
const KEYS: usize = 60;
const ROUND: usize = 10;

fn open(dir: &Path, shards: usize) -> Result<Recovered, String> {
    recover(&Log {
        disk: &SystemDisk,
        dir,
        layout: Layout { engine: "actor".into(), shards },
        databases: 1,
        threads: 1,
        boot: BOOT.into(),
        now_ms: NOW_MS,
        control: LogControl::new(FsyncPolicy::Everysec),
        instance: Arc::default(),
    })
}

fn key_on(shard: usize, shards: usize) -> String {
    let mut names = (0..).map(|number| format!("group{number}"));
    names.find(|name| shard_of(name.as_bytes(), shards) == shard).expect("names do not end")
}

/// Sets these keys, each to its number, and after each round one key of every shard to the round's.
fn write(log: &Recovered, numbers: std::ops::Range<usize>) {
    let shards = log.segments.len();
    let mut effects = Effects::new(true);
    effects.select(0);
    for number in numbers {
        let key = format!("k{number}");
        effects.add([b"SET".as_slice(), key.as_bytes(), number.to_string().as_bytes()]);
        let segment = &log.segments[shard_of(key.as_bytes(), shards)];
        segment.append_payload(effects.payload());
        effects.clear();
        if number % ROUND == ROUND - 1 && shards > 1 {
            let value = number.to_string();
            let keys: Vec<String> = (0..shards).map(|shard| key_on(shard, shards)).collect();
            let pairs = keys.iter().flat_map(|key| [key.as_bytes(), value.as_bytes()]);
            effects.add([b"MSET".as_slice()].into_iter().chain(pairs).collect::<Vec<_>>());
            let participants: Vec<_> = (0..shards).map(|shard| (shard, log.segments[shard].records())).collect();
            log.pending_commits
                .append(&log.segments, &cross_shard_payload(number as u64, &participants, effects.payload()));
            effects.clear();
        }
        log.segments.iter().for_each(|segment| segment.commit(segment.appended()));
        log.pending_commits.settle();
    }
}

fn rewriter(log: &Recovered, dir: &Path) -> Rewriter {
    Rewriter::new(
        &crate::keyspace::Instance::default(),
        Arc::new(SystemDisk),
        dir.to_owned(),
        log.manifest.clone(),
        log.segments.clone(),
    )
}

/// What a stopping server does.
fn stop(log: Recovered, rewriter: &Rewriter) {
    let epoch = log.segments[0].control().next_epoch(NOW_MS);
    log.segments.iter().for_each(|segment| segment.append_epoch(epoch));
    let ends: Vec<_> = log.threads.into_iter().map(|thread| thread.finish().expect("nothing fails")).collect();
    rewriter.close(&ends).expect("nothing fails");
}

fn rewrite(log: &mut Recovered, rewriter: &Rewriter, ends: bool) {
    let rewrite = rewriter.begin(NOW_MS + 10_000).expect("nothing fails");
    (0..log.segments.len()).for_each(|segment| rewrite.go_on(segment));
    if !ends {
        return;
    }
    for (store, base) in log.stores.iter_mut().zip(rewrite.bases()) {
        store.begin_snapshot(base as Arc<dyn SnapshotSink>);
    }
    // Each round walks every one of them.
    while log.stores.iter_mut().filter_map(|store| (!store.walk_snapshot(|| true)).then_some(())).count() > 0 {}
    rewrite.bases().for_each(|base| base.write_out());
    rewrite.end_walk();
    rewriter.finish(&rewrite).expect("nothing fails");
}

/// A log of this kind in a directory of its own, and the number of shards to start it with.
fn make(kind: Kind, shards: usize) -> (tempfile::TempDir, usize) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path();
    let log = open(path, shards).expect("it is new");
    let keeper = rewriter(&log, path);
    write(&log, 0..KEYS / 2);
    stop(log, &keeper);
    let next_shards = shards + usize::from(kind == Kind::Divided);
    let mut log = open(path, next_shards).expect("it is whole");
    let keeper = rewriter(&log, path);
    if matches!(kind, Kind::Rewriting | Kind::Rewritten) {
        rewrite(&mut log, &keeper, kind == Kind::Rewritten);
    }
    write(&log, KEYS / 2..KEYS);
    if matches!(kind, Kind::Killed | Kind::Rewriting) {
        let killed = copy(path);
        log.threads.into_iter().for_each(end);
        return (killed, next_shards);
    }
    stop(log, &keeper);
    if kind == Kind::Old {
        let manifest = path.join(MANIFEST);
        let text = fs::read_to_string(&manifest).expect("it is there");
        let lines = text.lines().filter(|line| !line.starts_with("check "));
        let lines = lines.map(|line| line.split(" segments ").next().expect("a line").replace("format 4", "format 3"));
        let lines = lines.map(|line| line + "\n").collect::<String>();
        fs::write(&manifest, format!("{lines}check {:08x}\n", crc32fast::hash(lines.as_bytes()))).expect("written");
    }
    (dir, next_shards)
}

fn copy(from: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().expect("a temporary directory");
    for path in files_in(from) {
        fs::copy(&path, to.path().join(name_of(&path))).expect("there is room");
    }
    to
}

fn files_in(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(dir).expect("it is there").map(|file| file.expect("readable").path()).collect();
    files.sort();
    files
}

fn name_of(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).expect("files of the log have plain names")
}

fn is_segment(path: &Path) -> bool {
    Chain::chain_of(path).is_some()
}

/// The positions after the whole records of a file.
fn record_ends(bytes: &[u8]) -> Vec<usize> {
    let scan = Scan::of(bytes, Path::new("")).expect("it is whole");
    let salt = scan.salt.expect("it is whole");
    let mut ends = vec![SEGMENT_HEADER];
    while let Frame::Record(_, len) | Frame::CrossShard(_, len) | Frame::Control(_, len) =
        decode(&bytes[ends[ends.len() - 1]..], salt)
    {
        ends.push(ends[ends.len() - 1] + len);
    }
    ends
}

/// Damages a file; false where that is no damage.
fn damage(path: &Path, damage: Damage, foreign: &Path) -> bool {
    let bytes = fs::read(path).expect("it is there");
    let ends = record_ends(&bytes);
    let cut = |len: usize| {
        fs::write(path, &bytes[..len]).expect("there is room");
        len < bytes.len()
    };
    match damage {
        Damage::Missing => fs::remove_file(path).is_ok(),
        Damage::Empty => cut(0),
        Damage::InHeader => cut(SEGMENT_HEADER - 3),
        Damage::Header => cut(SEGMENT_HEADER),
        Damage::LastRecord => ends.len() > 1 && cut(ends[ends.len() - 2]),
        Damage::HalfOfRecords => ends.len() > 2 && cut(ends[ends.len() / 2]),
        Damage::Torn => ends.len() > 1 && cut(ends[ends.len() - 1] - 3),
        Damage::Swapped => {
            let other = path.with_file_name(name_of(path).replace("segment-0", "segment-1"));
            let is_there = other != path && other.exists();
            is_there
                && fs::read(&other)
                    .and_then(|others| fs::write(path, others))
                    .and_then(|()| fs::write(other, &bytes))
                    .is_ok()
        }
        Damage::Foreign => fs::copy(foreign.join(name_of(path)), path).is_ok(),
    }
}

/// The value of each key.
fn state_in(dir: &Path, shards: usize) -> Result<HashMap<String, usize>, String> {
    let mut log = open(dir, shards)?;
    log.threads.into_iter().for_each(end);
    let lines = describe(&mut log.stores);
    let words = lines.iter().map(|line| line.split_whitespace().collect::<Vec<_>>());
    Ok(words.map(|words| (words[1].to_owned(), words[4].parse().expect("values are numbers"))).collect())
}

/// Whether everything written is there.
fn is_all(state: &HashMap<String, usize>, kind: Kind, shards: usize) -> bool {
    let groups = |shards: usize| if shards > 1 { shards } else { 0 };
    let groups = if kind == Kind::Divided {
        let both: BTreeSet<String> = [shards - 1, shards]
            .into_iter()
            .filter(|&shards| shards > 1)
            .flat_map(|shards| (0..shards).map(move |shard| key_on(shard, shards)))
            .collect();
        both.len()
    } else {
        groups(shards)
    };
    state.len() == KEYS + groups && (0..KEYS).all(|number| state.get(&format!("k{number}")) == Some(&number))
}

/// Whether a log may hold this state after the last file of a segment has lost its end: the first keys of each shard,
/// and the same keys of all shards.
fn is_consistent(state: &HashMap<String, usize>, shards: usize) -> bool {
    let is_prefix = |shard: usize| {
        let own = (0..KEYS).map(|number| format!("k{number}")).filter(|key| shard_of(key.as_bytes(), shards) == shard);
        let is_there: Vec<bool> = own.map(|key| state.contains_key(&key)).collect();
        is_there.is_sorted_by(|one, other| *one >= *other)
    };
    let groups: BTreeSet<Option<&usize>> = (0..shards).map(|shard| state.get(&key_on(shard, shards))).collect();
    (0..shards).all(is_prefix)
        && (0..KEYS / 2).all(|number| state.contains_key(&format!("k{number}")))
        && groups.len() == 1
}

/// What a server and check-aof make of a directory: the state, or the error.
fn judge(dir: &Path, shards: usize, what: &str) -> Result<HashMap<String, usize>, String> {
    let rehearsed = rehearse(dir, BOOT, NOW_MS);
    let state = state_in(dir, shards);
    assert_eq!(rehearsed.is_ok(), state.is_ok(), "{what}: check-aof says {rehearsed:?}, a server {state:?}");
    if let (Ok(rehearsed), Ok(state)) = (&rehearsed, &state) {
        assert_eq!(rehearsed.keys, state.len(), "{what}: check-aof counts other keys than a server");
    }
    if let Err(reason) = &state {
        let names = reason.contains("segment-") || reason.contains(MANIFEST);
        assert!(names && reason.contains(dir.to_str().expect("a text path")), "{what}: it names no file: {reason}");
    }
    state
}

fn every_log(check: impl Fn(Kind, usize, &Path, &Path) + Sync) {
    std::thread::scope(|scope| {
        for kind in KINDS {
            let check = &check;
            scope.spawn(move || {
                for shards in [1, 2, 7] {
                    let ((dir, shards), (foreign, _)) = (make(kind, shards), make(kind, shards));
                    check(kind, shards, dir.path(), foreign.path());
                }
            });
        }
    });
}

#[test]
fn a_log_that_nothing_has_happened_to_is_whole_whoever_wrote_it() {
    every_log(|kind, shards, dir, _| {
        let what = format!("{kind:?}, {shards} shards");
        let copy = copy(dir);
        for _ in 0..2 {
            let state = judge(copy.path(), shards, &what).unwrap_or_else(|reason| panic!("{what}: {reason}"));
            assert!(is_all(&state, kind, shards), "{what}: {state:?}");
        }
    });
}

#[test]
fn every_file_of_a_log_that_is_damaged_is_refused_by_name_or_nothing_that_was_promised_is_missing() {
    let (refused, cut) = (AtomicUsize::new(0), AtomicUsize::new(0));
    every_log(|kind, shards, dir, foreign| {
        // Those of two segments: the others are like the second.
        let is_looked_at =
            |path: &PathBuf| ["segment-0.", "segment-1."].iter().any(|part| name_of(path).contains(part));
        for file in files_in(dir).into_iter().filter(|path| is_segment(path) && is_looked_at(path)) {
            for kind_of_damage in DAMAGES {
                let damaged = copy(dir);
                let path = damaged.path().join(name_of(&file));
                if !damage(&path, kind_of_damage, foreign) {
                    continue;
                }
                let what = format!("{kind:?}, {shards} shards, {}: {kind_of_damage:?}", name_of(&file));
                match judge(damaged.path(), shards, &what) {
                    Err(_) => _ = refused.fetch_add(1, Ordering::Relaxed),
                    Ok(state) if is_all(&state, kind, shards) => {}
                    Ok(state) => {
                        // A shortened file, which looks as after a kill, is detected only if the manifest has its
                        // length: for a file that a rewrite has begun, or of an older server, the manifest has only
                        // that of the header.
                        let knows_header_only = matches!(kind, Kind::Rewriting | Kind::Old);
                        let is_end = match kind_of_damage {
                            Damage::LastRecord | Damage::HalfOfRecords | Damage::Torn => true,
                            Damage::Header => knows_header_only,
                            _ => false,
                        };
                        let may_be_short = kind == Kind::Killed || knows_header_only;
                        assert!(is_end && may_be_short, "{what}: it starts with {} keys", state.len());
                        assert!(kind == Kind::Old || is_consistent(&state, shards), "{what}: {state:?}");
                        cut.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        }
    });
    let (refused, cut) = (refused.into_inner(), cut.into_inner());
    println!("{refused} refused, {cut} cut");
    assert!(refused > 300 && cut > 5, "{refused} refused, {cut} cut");
}

#[test]
fn manifests_and_buffers_of_another_log_and_files_that_no_manifest_names_are_refused_by_name() {
    every_log(|kind, shards, dir, foreign| {
        let what = |damage: &str| format!("{kind:?}, {shards} shards: {damage}");
        let assert_refused = |damaged: &Path, damage: &str| {
            let what = what(damage);
            assert!(judge(damaged, shards, &what).is_err(), "{what}: it starts");
        };
        if kind != Kind::Old {
            let damaged = copy(dir);
            fs::copy(foreign.join(MANIFEST), damaged.path().join(MANIFEST)).expect("there is room");
            assert_refused(damaged.path(), "the manifest of another log");
        }
        let files: Vec<PathBuf> = files_in(dir).into_iter().filter(|path| is_segment(path)).collect();
        let with_records = files.iter().find(|path| {
            let bytes = write_buffer::read(&SystemDisk, path).expect("it is whole").expect("it is there");
            Scan::of(&bytes, path).expect("it is whole").records > 0
        });
        let with_records = foreign.join(name_of(with_records.expect("something was written")));
        let whole = write_buffer::read(&SystemDisk, &with_records).expect("it is whole").expect("it is there");
        for extra in ["chain-9.segment-0.aof", "chain-1.segment-99.aof", "chain-2.segment-0.incr-77.aof"] {
            if kind != Kind::Divided && extra.starts_with("chain-2") {
                continue;
            }
            let damaged = copy(dir);
            fs::write(damaged.path().join(extra), &whole).expect("there is room");
            assert_refused(damaged.path(), extra);
            assert!(damaged.path().join(extra).exists(), "{}: it was removed", what(extra));
        }
        let damaged = copy(dir);
        fs::remove_file(damaged.path().join(MANIFEST)).expect("it is there");
        let reason = state_in(damaged.path(), shards).expect_err("the manifest is missing");
        assert!(reason.contains("there is no shardrace.manifest"), "{reason}");
        for buffer in files_in(dir).iter().filter(|path| name_of(path).ends_with(".write-buffer")) {
            let damaged = copy(dir);
            fs::copy(foreign.join(name_of(buffer)), damaged.path().join(name_of(buffer))).expect("there is room");
            assert_refused(damaged.path(), "the write buffer of another log");
            // A missing one is as if the operating system had never had it.
            let damaged = copy(dir);
            fs::remove_file(damaged.path().join(name_of(buffer))).expect("it is there");
            let what = what("a write buffer that is missing");
            if let Ok(state) = judge(damaged.path(), shards, &what) {
                assert!(is_consistent(&state, shards), "{what}: {state:?}");
            }
        }
    });
}

/// What is refused can be repaired: a server starts with the rest, and check-aof accepts its own repair.
#[test]
fn what_is_refused_for_a_file_is_fixed_and_salvaged() {
    let repaired = AtomicUsize::new(0);
    every_log(|kind, shards, dir, foreign| {
        let files = files_in(dir).into_iter().filter(|path| is_segment(path) && name_of(path).contains("segment-0"));
        for file in files {
            for (kind_of_damage, salvages) in DAMAGES.into_iter().flat_map(|damage| [(damage, false), (damage, true)]) {
                let damaged = copy(dir);
                let what = format!("{kind:?}, {shards} shards, {}: {kind_of_damage:?}, {salvages}", name_of(&file));
                if !damage(&damaged.path().join(name_of(&file)), kind_of_damage, foreign)
                    || rehearse(damaged.path(), BOOT, NOW_MS).is_ok()
                {
                    continue;
                }
                // A file and a write buffer of two logs: only the operator knows which one belongs there.
                let Ok(log) = crate::aof::Inspection::of(damaged.path(), BOOT.into()) else {
                    continue;
                };
                if kind == Kind::Old && matches!(kind_of_damage, Damage::Swapped | Damage::Foreign) {
                    continue;
                }
                let plan =
                    if salvages { crate::aof::Plan::salvage(&log).expect(&what) } else { crate::aof::Plan::fix(&log) };
                assert!(!plan.is_empty(), "{what}: there is nothing to do");
                plan.carry_out(&log, "backup").expect(&what);
                let state = judge(damaged.path(), shards, &what).unwrap_or_else(|reason| panic!("{what}: {reason}"));
                // What all shards share is restored from the other shards, unless they were rewritten.
                if salvages && shards > 2 && !matches!(kind, Kind::Rewritten | Kind::Divided) {
                    let last = KEYS - 1;
                    assert!(
                        (0..shards).all(|shard| state.get(&key_on(shard, shards)) == Some(&last)),
                        "{what}: {state:?}"
                    );
                }
                repaired.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    assert!(repaired.into_inner() > 100);
}

/// Only a power loss may leave a buffer like this: without one, acknowledged writes would be missing unnoticed.
#[test]
fn a_write_buffer_with_any_byte_changed_is_refused_and_repaired_or_nothing_is_missing() {
    let repaired = AtomicUsize::new(0);
    every_log(|kind, shards, dir, _| {
        for buffer in files_in(dir).iter().filter(|path| name_of(path).ends_with(".write-buffer")) {
            let whole = fs::read(buffer).expect("it is there");
            let changed = (0..whole.len()).filter(|&at| whole[at] != 0).step_by(11).map(|at| {
                let mut bytes = whole.clone();
                bytes[at] ^= 0x80;
                (format!("byte {at}"), bytes)
            });
            let used = whole.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
            let cut = (used > 1).then(|| ("cut".to_owned(), whole[..used - 1].to_vec()));
            for (change, bytes) in changed.chain(cut) {
                let what = format!("{kind:?}, {shards} shards, {}: {change}", name_of(buffer));
                let damaged = copy(dir);
                let path = damaged.path().join(name_of(buffer));
                fs::write(&path, &bytes).expect("there is room");
                let Err(reason) = judge(damaged.path(), shards, &what).map(|state| {
                    assert!(is_all(&state, kind, shards), "{what}: {state:?}");
                }) else {
                    continue;
                };
                assert!(reason.contains(&format!("{} is damaged: ", path.display())), "{what}: {reason}");
                assert_eq!(fs::read(&path).expect("it is there"), bytes, "{what}: it was changed");
                let log = crate::aof::Inspection::of(damaged.path(), BOOT.into()).expect(&what);
                let salvages = repaired.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
                let plan =
                    if salvages { crate::aof::Plan::salvage(&log).expect(&what) } else { crate::aof::Plan::fix(&log) };
                plan.carry_out(&log, "backup").expect(&what);
                assert_eq!(fs::read(damaged.path().join("backup").join(name_of(buffer))).expect(&what), bytes);
                let state = judge(damaged.path(), shards, &what).unwrap_or_else(|reason| panic!("{what}: {reason}"));
                assert!(is_consistent(&state, shards) || salvages, "{what}: {state:?}");
            }
        }
    });
    let repaired = repaired.into_inner();
    assert!(repaired > 20, "{repaired} were refused");
}

#[test]
fn check_aof_passes_over_a_log_that_has_not_begun_as_a_start_does() {
    let (dir, _) = make(Kind::Killed, 1);
    let file = |name: &str| dir.path().join(name);
    fs::copy(file("chain-1.segment-0.aof"), file("chain-9.segment-0.aof")).expect("copied");
    rehearse(dir.path(), BOOT, NOW_MS).expect_err("nothing says why it is there");
    fs::write(file("shardrace.beginning"), "chain 9\n").expect("written");
    rehearse(dir.path(), BOOT, NOW_MS).expect("the next start removes it");
}
