//! What recovery makes of cut, changed and failing files: compared with a naive model, which applies every record that
//! a file still holds whole, in the order of writing.

mod ends;
mod files;
mod owners;
mod repairs;
mod replays;
mod retries;
mod rewriting;
mod steps;

use super::{Segment, cross_shard_payload};
use crate::aof::disk::{Failure, Fault, SimDisk};
use crate::aof::format::{BEGIN_LEN, Chain, FsyncPolicy, Layout, Manifest, write_buffer};
use crate::aof::recover::{Log, Recovered, Replay, recover};
use crate::aof::write::LogControl;
use crate::base::routing::shard_of;
use crate::commands::{self, Request};
use crate::keyspace::{Databases, Effects, Keyspace, MultiShardView, Table, Value};
use crate::rdb;
use crate::resp::{Args, Reply, Span};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use steps::every_write_command;

const SHARDS: usize = 2;
const DATABASES: usize = 4;
/// Threads in tests where a segment has several owners.
const THREADS: usize = 3 * SHARDS;
/// The size of a mark that ends an epoch.
const EPOCH_LEN: usize = 26;
const NOW_MS: u64 = 1_800_000_000_000;
/// The boot in which logs are written here, and the one after a power loss.
const BOOT: &str = "boot-1";
const NEXT_BOOT: &str = "boot-2";

fn dir() -> &'static Path {
    Path::new("/log")
}

fn segment_path(segment: usize) -> PathBuf {
    Manifest::segment_path(dir(), 1, segment)
}

fn recover_in(disk: &SimDisk, boot: &str) -> Result<Recovered, String> {
    recover(&Log {
        disk,
        dir: dir(),
        layout: Layout { engine: "actor".into(), shards: SHARDS },
        databases: DATABASES,
        threads: SHARDS,
        boot: boot.into(),
        now_ms: NOW_MS,
        control: LogControl::new(FsyncPolicy::Everysec),
        instance: Arc::default(),
    })
}

/// Ends a log thread; it may leave data unwritten on a failing disk.
fn end(thread: super::LogThread) {
    drop(thread.finish());
}

/// Recovers, closes the log again, and returns what it held.
fn state_of(disk: &SimDisk, boot: &str) -> Result<Vec<String>, String> {
    let mut recovered = recover_in(disk, boot)?;
    recovered.threads.into_iter().for_each(end);
    Ok(describe(&mut recovered.stores))
}

/// All keys of all databases with their types, values and deadlines, in order.
fn describe(stores: &mut [Databases]) -> Vec<String> {
    let mut described = Vec::new();
    for database in 0..DATABASES {
        let mut keys = Vec::new();
        for table in stores.iter().filter_map(|store| store.tables().get(database)) {
            table.for_each(&mut |node| keys.push(String::from_utf8_lossy(node.key()).into_owned()));
        }
        keys.sort();
        described.extend(keys.iter().map(|key| format!("{database} {key} {}", describe_key(stores, database, key))));
    }
    described
}

fn describe_key(stores: &mut [Databases], database: usize, key: &str) -> String {
    let mut read = |command: &str| {
        let store = MultiShardView::new(stores.len(), stores.iter_mut().enumerate());
        let mut keyspace = Keyspace::of_replay(store);
        keyspace.select(database);
        execute(&mut keyspace, &command.replace("KEY", key))
    };
    let kind = read("TYPE KEY");
    let value = match kind.trim() {
        "+string" => read("GET KEY"),
        "+list" => read("LRANGE KEY 0 -1"),
        "+set" => read("SORT KEY ALPHA"),
        "+zset" => read("ZRANGE KEY 0 -1 WITHSCORES"),
        // Pairs, in any order.
        "+hash" => {
            let all = read("HGETALL KEY");
            let lines: Vec<&str> = all.split("\r\n").skip(1).collect();
            let mut fields: Vec<String> = lines.chunks(4).map(|field| field.join(" ")).collect();
            fields.sort();
            fields.join(" ")
        }
        "+stream" => read("XRANGE KEY - +") + &read("XINFO STREAM KEY FULL"),
        other => panic!("{other:?} is no type"),
    };
    format!("{kind} {value} {}", read("PEXPIRETIME KEY")).replace("\r\n", " ")
}

fn parse(command: &str) -> (Vec<u8>, Vec<Span>) {
    let (mut bytes, mut spans) = (Vec::new(), Vec::new());
    for word in command.split(' ') {
        let start = bytes.len() as u32;
        match word {
            "<dump>" => bytes.extend(rdb::dump(Value::Text(b"restored"))),
            _ => bytes.extend_from_slice(word.as_bytes()),
        }
        spans.push(Span { start, len: bytes.len() as u32 - start });
    }
    (bytes, spans)
}

fn execute(keyspace: &mut Keyspace<MultiShardView<'_>>, command: &str) -> String {
    let (bytes, spans) = parse(command);
    let args = Args::new(&bytes, &spans);
    let id = commands::find_of(args).expect("the command is right").unwrap_or_else(|| panic!("no command: {command}"));
    let mut reply = Vec::new();
    commands::execute(id, keyspace, args, &mut Reply::new(&mut reply, false));
    let reply = String::from_utf8_lossy(&reply).into_owned();
    assert!(!reply.starts_with('-'), "{command}: {reply}");
    reply
}

/// The shards that a command needs.
fn shards_of(command: &str) -> BTreeSet<usize> {
    let (bytes, spans) = parse(command);
    let args = Args::new(&bytes, &spans);
    let id = commands::find_of(args).expect("the command is right").expect("there is one");
    let row = commands::command(id);
    match row.request {
        Request::AllShards => (0..SHARDS).collect(),
        _ => row.keys.positions(args).map(|position| shard_of(&args[position], SHARDS)).collect(),
    }
}

/// The changes of one step.
#[derive(Debug, Clone)]
struct Change {
    effects: Vec<u8>,
    /// Where it ends in the file of each of its segments.
    ends: Vec<(usize, usize)>,
}

/// A log that is written to as by an engine with two shards.
struct Writer {
    disk: SimDisk,
    control: LogControl,
    log: Recovered,
    changes: Vec<Change>,
    /// How many changes each epoch holds, and where it ends in each segment.
    epochs: Vec<(usize, Vec<usize>)>,
    /// States by the changes that lead to them: most cuts lead to the same state as the cut before.
    states: Mutex<HashMap<Vec<bool>, Vec<String>>>,
}

impl Writer {
    fn start() -> Self {
        let disk = SimDisk::default();
        let log = recover_in(&disk, BOOT).expect("there is nothing wrong with it");
        let control = log.segments[0].control().clone();
        let ends = log.segments.iter().map(|segment| end_of(segment)).collect();
        Self { disk, control, log, changes: Vec::new(), epochs: vec![(0, ends)], states: Mutex::default() }
    }

    /// Runs commands as one step. `<0>` and `<1>` stand for tags of keys on the two shards.
    fn run(&mut self, commands: &str) {
        let commands: Vec<String> = commands.split("; ").map(with_tags).collect();
        let shards: BTreeSet<usize> = commands.iter().flat_map(|command| shards_of(command)).collect();
        let Recovered { stores, segments, pending_commits, .. } = &mut self.log;
        let lent = stores.iter_mut().enumerate().filter(|(index, _)| shards.contains(index));
        let random = fastrand::Rng::with_seed(self.changes.len() as u64);
        let mut keyspace = Keyspace::new(MultiShardView::new(SHARDS, lent), NOW_MS, random, Effects::new(true));
        keyspace.select(0);
        commands.iter().for_each(|command| drop(execute(&mut keyspace, command)));
        let effects = keyspace.effects.payload().to_vec();
        assert!(!effects.is_empty(), "{commands:?} changes something");
        let own: Vec<&Arc<Segment>> = shards.iter().map(|&shard| &segments[shard]).collect();
        if let [segment] = own[..] {
            segment.append_payload(&effects);
        } else {
            let before: Vec<_> = shards.iter().map(|&shard| (shard, segments[shard].records())).collect();
            let payload = cross_shard_payload(fastrand::u64(..), &before, &effects);
            pending_commits.append(&own.iter().map(|segment| Arc::clone(segment)).collect::<Vec<_>>(), &payload);
        }
        own.iter().for_each(|segment| segment.commit(segment.appended()));
        pending_commits.settle();
        let ends = shards.iter().map(|&shard| (shard, end_of(&segments[shard]))).collect();
        self.changes.push(Change { effects, ends });
    }

    fn end_epoch(&mut self) {
        let epoch = self.control.next_epoch(NOW_MS + 1000 * self.epochs.len() as u64);
        let before: Vec<usize> = self.log.segments.iter().map(|segment| end_of(segment)).collect();
        self.log.segments.iter().for_each(|segment| segment.append_epoch(epoch));
        // A control record about the fsync follows, and may be missing.
        let ends = before.iter().map(|end| end + EPOCH_LEN).collect();
        self.epochs.push((self.changes.len(), ends));
    }

    /// Whether all that was appended may be acknowledged.
    fn is_acknowledged(&self) -> bool {
        self.log.segments.iter().all(|segment| segment.is_released(segment.appended()))
    }

    fn finish(&mut self) {
        std::mem::take(&mut self.log.threads).into_iter().for_each(end);
    }

    /// The state after the changes that are whole in one of their segments, with segments of these lengths.
    fn state_of_lengths(&self, lengths: [usize; SHARDS]) -> Vec<String> {
        let is_kept = |change: &Change| change.ends.iter().any(|&(segment, end)| end <= lengths[segment]);
        self.state_of(self.changes.iter().map(is_kept).collect())
    }

    /// The state after these changes.
    fn state_of(&self, kept: Vec<bool>) -> Vec<String> {
        let mut states = self.states.lock().expect("nobody panics with the states");
        let changes = || self.changes.iter().zip(&kept).filter(|(_, is_kept)| **is_kept).map(|(change, _)| change);
        let state = states.get(&kept).cloned().unwrap_or_else(|| naive_state(changes()));
        states.entry(kept).or_insert(state).clone()
    }

    /// The state at the end of the last epoch that segments of this length hold.
    fn state_of_epoch(&self, lengths: [usize; SHARDS]) -> Vec<String> {
        let is_whole = |ends: &[usize]| ends.iter().zip(lengths).all(|(end, len)| *end <= len);
        let kept = self.epochs.iter().rev().find(|(_, ends)| is_whole(ends)).map_or(0, |(kept, _)| *kept);
        self.state_of((0..self.changes.len()).map(|index| index < kept).collect())
    }
}

/// Where a segment ends when all of it is written.
fn end_of(segment: &Segment) -> usize {
    let metrics = segment.metrics();
    (metrics.file_bytes + metrics.buffered_bytes) as usize
}

fn with_tags(command: &str) -> String {
    let tag = |shard: usize| {
        let names = ('a'..='z').map(|letter| format!("{{{letter}}}"));
        { names }.find(|name| shard_of(name.as_bytes(), SHARDS) == shard).expect("26 names are on both shards")
    };
    command.replace("<0>", &tag(0)).replace("<1>", &tag(1))
}

fn naive_state<'a>(changes: impl Iterator<Item = &'a Change>) -> Vec<String> {
    let mut stores = [Databases::of_shard(&Arc::default(), DATABASES, 0, 1)];
    let mut replay = Replay::tolerant();
    for change in changes {
        replay
            .apply(&change.effects, MultiShardView::new(1, stores.iter_mut().enumerate()), None)
            .expect("they are effects");
    }
    describe(&mut stores)
}

/// Commands of every kind; each line is one step.
const STEPS: [&str; 45] = [
    "SET <0>s one",
    "SET <1>s two EX 100",
    "APPEND <0>s more",
    "MSET <0>m 1 <1>m 2",
    "INCRBY <0>m 5",
    "INCRBYFLOAT <1>m 0.5",
    "SETRANGE <1>s 2 xx",
    "GETEX <0>m PERSIST; PEXPIRE <0>m 5000",
    "SETBIT <0>bits 9 1",
    "BITFIELD <0>bits SET u8 0 7",
    "BITOP NOT <1>bits <0>bits",
    "PFADD <0>hll a b c",
    "RPUSH <0>l a b c d e",
    "LPOP <0>l",
    "LINSERT <0>l AFTER c x",
    "LMOVE <0>l <1>l LEFT RIGHT",
    "LTRIM <0>l 0 2",
    "LSET <0>l 0 set; LREM <0>l 1 x",
    "SADD <0>set a b c d",
    "EPOCH",
    "SPOP <0>set",
    "SMOVE <0>set <1>set a; SADD <1>set z",
    "SUNIONSTORE <1>union <0>set <1>set",
    "HSET <1>h f 1 g 2",
    "HINCRBY <1>h f 4",
    "HDEL <1>h g",
    "XADD <0>x * f v",
    "XADD <0>x * g w; XTRIM <0>x MAXLEN 1",
    "XGROUP CREATE <0>x group 0",
    "COPY <0>l <1>copied",
    "RENAME <1>l <0>moved",
    "EXPIREAT <0>set 4000000000",
    "ZADD <0>z 1 a 2 b 3.5 c",
    "ZINCRBY <0>z 0.1 a; ZREM <0>z b",
    "ZRANGESTORE <1>z <0>z 0 -1",
    "ZPOPMAX <0>z",
    "GEOADD <1>geo 13.361389 38.115556 Palermo",
    "MOVE <1>union 2",
    "SET <0>a 1; SET <1>a 2; RPUSH <1>b 3; DEL <0>s",
    "EPOCH",
    "DEL <1>s",
    "SORT <0>set ALPHA STORE <1>sorted",
    "SET <0>late 1",
    "PERSIST <0>set",
    "SET <1>late 2; SET <0>late 2",
];

fn written() -> Writer {
    written_in(STEPS)
}

fn written_in(steps: impl IntoIterator<Item = &'static str>) -> Writer {
    let mut writer = Writer::start();
    for step in steps {
        match step {
            "EPOCH" => writer.end_epoch(),
            _ => writer.run(step),
        }
    }
    writer.finish();
    writer
}

/// A disk with the log of `writer`, except that one segment holds these bytes.
fn disk_with(writer: &Writer, segment: usize, bytes: &[u8]) -> SimDisk {
    let disk = SimDisk::default();
    writer.disk.files().iter().for_each(|(path, bytes)| disk.put(path, bytes));
    disk.put(&segment_path(segment), bytes);
    disk
}

/// The lengths of the segments, including their buffers.
fn lengths_of(disk: &SimDisk) -> [usize; SHARDS] {
    let read = |segment| write_buffer::read(disk, &segment_path(segment)).expect("nothing fails any more");
    std::array::from_fn(|segment| read(segment).map_or(0, |bytes| bytes.len()))
}

/// Runs `check` for every position of every segment's file, on two threads.
fn at_every_byte(writer: &Writer, check: impl Fn(usize, usize, &[u8]) + Sync) {
    let files = writer.disk.files();
    std::thread::scope(|scope| {
        for segment in 0..SHARDS {
            let (bytes, check) = (&files[&segment_path(segment)], &check);
            scope.spawn(move || (0..bytes.len()).for_each(|position| check(segment, position, bytes)));
        }
    });
}

/// The lengths of the segments when one of them is cut.
fn cut_lengths(writer: &Writer, segment: usize, len: usize) -> [usize; SHARDS] {
    let mut lengths = lengths_of(&writer.disk);
    lengths[segment] = len;
    lengths
}

#[test]
fn a_log_recovers_as_it_was_written() {
    let mut writer = written_in(every_write_command());
    let wanted = naive_state(writer.changes.iter());
    assert!(wanted.len() > 12, "{wanted:?}");
    assert_eq!(describe(&mut writer.log.stores), wanted, "the model agrees with what the commands did");
    let disk = writer.disk.after_kill();
    (0..3).for_each(|_| assert_eq!(state_of(&disk, BOOT).expect("it is whole"), wanted));
}

/// Large enough that its segments are replayed side by side, with a rendezvous for transactions.
#[test]
fn a_large_log_recovers_as_it_was_written() {
    let mut writer = Writer::start();
    let value = "v".repeat(20_000);
    for round in 0..3 {
        for key in 0..80 {
            writer.run(&format!("SET <0>k{key} {round}{value}"));
            writer.run(&format!("APPEND <1>k{key} {round}{value}"));
        }
        writer.run("RPUSH <0>l a b; LMOVE <0>l <1>l LEFT RIGHT");
        writer.end_epoch();
    }
    writer.finish();
    assert!(lengths_of(&writer.disk).iter().all(|len| *len > 4_000_000));
    let wanted = describe(&mut writer.log.stores);
    assert_eq!(wanted.len(), 162);
    for boot in [BOOT, NEXT_BOOT] {
        assert!(state_of(&writer.disk.after_kill(), boot).expect("it is whole") == wanted, "{boot}");
    }
}

/// A file that was on the disk before the manifest named it can only have been removed, whatever happened to the
/// machine.
fn assert_refused(disk: &SimDisk, boot: &str, segment: usize, bytes: &[u8]) {
    let reason = state_of(disk, boot).expect_err("it was on the disk");
    assert!(reason.contains(&format!("segment-{segment}.aof")), "it names no file: {reason}");
    assert_eq!(disk.files()[&segment_path(segment)], bytes, "it refused and changed the file");
}

#[test]
fn a_log_that_is_cut_anywhere_recovers_to_what_it_holds_whole() {
    let writer = written_in(every_write_command());
    at_every_byte(&writer, |segment, len, bytes| {
        let lengths = cut_lengths(&writer, segment, len);
        let disk = disk_with(&writer, segment, &bytes[..len]);
        let what = format!("segment {segment}, {len} bytes");
        if len < BEGIN_LEN {
            return assert_refused(&disk, BOOT, segment, &bytes[..len]);
        }
        let state = state_of(&disk, BOOT).unwrap_or_else(|reason| panic!("{what}: {reason}"));
        assert_eq!(state, writer.state_of_lengths(lengths), "{what}");
        // The mended log is whole; testing every seventh is enough to see that.
        if len % 7 == 0 {
            assert_eq!(state_of(&disk, BOOT).as_ref(), Ok(&state), "{what}, once more");
        }
    });
}

#[test]
fn a_log_that_a_power_loss_cut_anywhere_recovers_to_the_end_of_an_epoch() {
    let writer = written_in(every_write_command());
    at_every_byte(&writer, |segment, len, bytes| {
        let lengths = cut_lengths(&writer, segment, len);
        let disk = disk_with(&writer, segment, &bytes[..len]);
        let what = format!("segment {segment}, {len} bytes");
        if len < BEGIN_LEN {
            return assert_refused(&disk, NEXT_BOOT, segment, &bytes[..len]);
        }
        let state = state_of(&disk, NEXT_BOOT).unwrap_or_else(|reason| panic!("{what}: {reason}"));
        assert_eq!(state, writer.state_of_epoch(lengths), "{what}");
    });
}

#[test]
fn a_log_with_any_byte_changed_is_refused_or_recovers_to_what_stands_before_it() {
    let writer = written_in(every_write_command());
    let (refused, recovered) = (AtomicUsize::new(0), AtomicUsize::new(0));
    at_every_byte(&writer, |segment, position, bytes| {
        let mut damaged = bytes.to_vec();
        damaged[position] ^= 1 << (position % 8);
        let lengths = cut_lengths(&writer, segment, position);
        for (boot, wanted) in [(BOOT, Writer::state_of_lengths as fn(&_, _) -> _), (NEXT_BOOT, Writer::state_of_epoch)]
        {
            let disk = disk_with(&writer, segment, &damaged);
            match state_of(&disk, boot) {
                Ok(state) => {
                    assert_eq!(state, wanted(&writer, lengths), "segment {segment}, byte {position}, {boot}");
                    recovered.fetch_add(1, Ordering::Relaxed);
                }
                Err(reason) => {
                    assert!(reason.contains("segment-"), "it names no file: {reason}");
                    assert_eq!(disk.files()[&segment_path(segment)], damaged, "it refused and changed the file");
                    refused.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    });
    let (refused, recovered) = (refused.into_inner(), recovered.into_inner());
    assert!(refused > 1000 && recovered > 20, "{refused} refused, {recovered} recovered");
}

#[test]
fn a_manifest_with_any_byte_changed_is_refused() {
    let writer = written();
    let path = dir().join("shardrace.manifest");
    let whole = writer.disk.files()[&path].clone();
    for position in 0..whole.len() {
        for bit in 0..8 {
            let mut damaged = whole.clone();
            damaged[position] ^= 1 << bit;
            let disk = writer.disk.after_kill();
            disk.put(&path, &damaged);
            let reason = state_of(&disk, BOOT).expect_err("it is damaged");
            assert!(reason.contains("shardrace.manifest"), "{reason}");
        }
    }
}

/// A recovery that mends a torn segment fails, or is killed, or loses power, at each of its calls.
#[test]
fn a_recovery_that_fails_at_any_call_loses_nothing_for_the_next_one() {
    let writer = written();
    let files = writer.disk.files();
    let torn = &files[&segment_path(1)];
    let torn = &torn[..writer.changes.last().expect("there are changes").ends[1].1 - 3];
    let lengths = cut_lengths(&writer, 1, torn.len());
    let (wanted, of_epoch) = (writer.state_of_lengths(lengths), writer.state_of_epoch(lengths));
    let mut failed = 0;
    for failure in [Failure::Broken, Failure::Full, Failure::Short] {
        for first in 0.. {
            let disk = disk_with(&writer, 1, torn);
            disk.fail(Fault { first, calls: u64::MAX, failure });
            let result = recover_in(&disk, BOOT);
            let is_over = disk.heal() <= first;
            let what = format!("{failure:?} at call {first}");
            let (after_kill, mut random) = (disk.after_kill(), fastrand::Rng::with_seed(first));
            for _ in 0..4 {
                let state = state_of(&disk.after_power_loss(&mut random), NEXT_BOOT);
                let state = state.unwrap_or_else(|reason| panic!("{what}, without power: {reason}"));
                assert!(state == wanted || state == of_epoch, "{what}, without power: {state:?}");
            }
            assert_eq!(state_of(&after_kill, BOOT).as_ref(), Ok(&wanted), "{what}");
            match result {
                Ok(recovered) => recovered.threads.into_iter().for_each(end),
                Err(_) => failed += 1,
            }
            if is_over {
                break;
            }
        }
    }
    assert!(failed > 20, "{failed} recoveries failed");
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Every call of a log that is written to fails from one call on, until the disk is repaired.
#[test]
fn a_disk_that_fails_at_any_call_loses_no_acknowledged_write_and_writes_are_refused_until_it_is_mended() {
    const CALLS: u64 = 36;
    std::thread::scope(|scope| {
        for failure in [Failure::Broken, Failure::Full, Failure::Short] {
            (0..CALLS).for_each(|first| drop(scope.spawn(move || fail_while_writing(failure, first))));
        }
    });
}

fn fail_while_writing(failure: Failure, first: u64) {
    let what = format!("{failure:?} at call {first}");
    let mut writer = Writer::start();
    writer.disk.fail(Fault { first, calls: u64::MAX, failure });
    let mut acknowledged = 0;
    for step in STEPS {
        match step {
            "EPOCH" => writer.end_epoch(),
            _ => writer.run(step),
        }
        if writer.is_acknowledged() && !writer.control.is_failing() {
            acknowledged = writer.changes.len();
        }
    }
    let (writes, syncs) = writer.disk.failed();
    assert!(writes + syncs > 0, "{what}: there were fewer calls");
    let control = writer.control.clone();
    wait_until(&format!("{what}: writes are refused"), || control.is_failing());
    let reason = control.failure().unwrap_or_default();
    assert!(reason.contains("No space") || reason.contains("Input/output") || syncs > 0, "{what}: {reason}");
    check_survivors(&writer, acknowledged, &format!("{what}, still failing"));

    let syncs = writer.disk.failed().1;
    writer.disk.heal();
    if syncs == 0 {
        wait_until(&format!("{what}: writes are accepted again"), || !control.is_failing());
        wait_until(&format!("{what}: all is written"), || writer.is_acknowledged());
        acknowledged = writer.changes.len();
    } else {
        // The kernel may have dropped pages that it could not write.
        std::thread::sleep(Duration::from_millis(300));
        assert!(control.is_failing(), "{what}: a failed fsync was forgotten");
    }
    check_survivors(&writer, acknowledged, &format!("{what}, mended"));
    writer.finish();
}

/// Checks what a kill and a power loss leave of a log.
fn check_survivors(writer: &Writer, acknowledged: usize, what: &str) {
    let disk = writer.disk.after_kill();
    let lengths = lengths_of(&disk);
    let is_whole = |change: &Change| change.ends.iter().any(|&(segment, end)| end <= lengths[segment]);
    assert!(writer.changes[..acknowledged].iter().all(is_whole), "{what}: an acknowledged write is not in the file");
    let state = state_of(&disk, BOOT).unwrap_or_else(|reason| panic!("{what}: {reason}"));
    assert_eq!(state, writer.state_of_lengths(lengths), "{what}");

    let states: Vec<Vec<String>> =
        writer.epochs.iter().map(|(kept, _)| naive_state(writer.changes[..*kept].iter())).collect();
    for seed in 0..3 {
        let disk = writer.disk.after_power_loss(&mut fastrand::Rng::with_seed(seed));
        let state = state_of(&disk, NEXT_BOOT).unwrap_or_else(|reason| panic!("{what}, without power: {reason}"));
        assert!(states.contains(&state), "{what}, without power: {state:?}");
    }
}
