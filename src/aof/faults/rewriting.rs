//! Rewriting on a disk that fails, or loses power, at each of its calls; and two planted bugs which show that these
//! tests would detect them.

use super::repairs::state_in;
use super::*;
use crate::aof::write::{Base, Records};
use crate::aof::{Frame, Inspection, Plan, Rewrite, Rewriter, decode};
use crate::base::tasks::MayWait;
use crate::commands::Services;
use crate::keyspace::{Encode, Instance, SnapshotSink, Store};

/// Steps before the rewrite begins; the others run during it and after it.
const STEPS_BEFORE: usize = 20;
/// Steps while it runs.
const STEPS_MEANWHILE: usize = 18;
/// Calls that walk a few buckets, between two of these steps: 256 buckets are a table.
const LOOKS: usize = 40;

/// A deliberate bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bug {
    None,
    /// The base is not on the disk when the manifest names it.
    UnsyncedBase,
    /// The snapshot begins after the point at which the segments continue.
    LateSnapshot,
}

/// A log that is written to and rewritten, and what may be left of it.
struct Scenario {
    writer: Writer,
    rewriter: Rewriter,
    /// The states after each number of changes.
    states: Vec<Vec<String>>,
    /// How many changes are in the log, whatever happens to the process.
    acknowledged: usize,
    /// How many are on the disk.
    synced: usize,
    /// Numbers of changes at which an epoch ended.
    marks: Vec<usize>,
}

impl Scenario {
    /// The steps before, all of them on the disk.
    fn begin() -> Self {
        let writer = Writer::start();
        let disk = Arc::new(writer.disk.clone());
        let (manifest, segments) = (writer.log.manifest.clone(), writer.log.segments.clone());
        let rewriter = Rewriter::new(&crate::keyspace::Instance::default(), disk, dir().to_owned(), manifest, segments);
        let mut scenario =
            Self { writer, rewriter, states: vec![Vec::new()], acknowledged: 0, synced: 0, marks: vec![0] };
        STEPS[..STEPS_BEFORE].iter().for_each(|step| scenario.step(step));
        scenario.end_epoch();
        let segments = scenario.writer.log.segments.clone();
        wait_until("all is synced", || segments.iter().all(|segment| segment.metrics().unsynced_bytes == 0));
        scenario.synced = scenario.writer.changes.len();
        scenario
    }

    fn step(&mut self, step: &str) {
        match step {
            "EPOCH" => self.end_epoch(),
            _ => {
                self.writer.run(step);
                self.states.push(describe(&mut self.writer.log.stores));
            }
        }
        self.note_acknowledged();
    }

    fn end_epoch(&mut self) {
        self.writer.end_epoch();
        self.marks.push(self.writer.changes.len());
    }

    fn note_acknowledged(&mut self) {
        if self.writer.is_acknowledged() && !self.writer.control.is_failing() {
            self.acknowledged = self.writer.changes.len();
        }
    }

    /// Rewrites while steps run, and returns the outcome.
    fn rewrite(&mut self, bug: Bug, steps: &[&str]) -> Result<(), String> {
        let epoch = self.writer.control.next_epoch(NOW_MS + 1000 * self.writer.changes.len() as u64);
        let rewrite = match self.rewriter.begin(epoch) {
            Ok(rewrite) => rewrite,
            Err(error) => {
                steps.iter().for_each(|step| self.step(step));
                return Err(error.to_string());
            }
        };
        (0..SHARDS).for_each(|segment| rewrite.go_on(segment));
        self.marks.push(self.writer.changes.len());
        if bug == Bug::LateSnapshot {
            self.step("RPUSH <0>planted x");
        }
        for (store, base) in self.writer.log.stores.iter_mut().zip(rewrite.bases()) {
            store.begin_snapshot(base as Arc<dyn SnapshotSink>);
        }
        for step in steps {
            self.step(step);
            self.walk(&rewrite, LOOKS);
        }
        while !self.walk(&rewrite, LOOKS) {}
        rewrite.end_walk();
        self.rewriter.finish(&rewrite)
    }

    /// Walks some of the keys, and returns whether all are in the snapshot.
    fn walk(&mut self, rewrite: &Rewrite, looks: usize) -> bool {
        let mut is_complete = true;
        for store in &mut self.writer.log.stores {
            let mut left = looks;
            is_complete &= store.walk_snapshot(|| {
                left -= 1;
                left > 0
            });
        }
        rewrite.bases().for_each(|base: Arc<Base>| base.write_out());
        is_complete
    }

    /// Checks what a kill now, and a power loss now, would leave. The error says what is wrong with it.
    fn judge(&self, seeds: std::ops::Range<u64>) -> Result<(), String> {
        let state = state_of(&self.writer.disk.after_kill(), BOOT)?;
        if !self.states[self.acknowledged..].contains(&state) && !self.is_of_consistent_cut(&state) {
            return Err(format!("after a kill, with {} changes acknowledged: {state:?}", self.acknowledged));
        }
        let legal: Vec<&Vec<String>> =
            self.marks.iter().filter(|mark| **mark >= self.synced).map(|mark| &self.states[*mark]).collect();
        for seed in seeds {
            let disk = self.writer.disk.after_power_loss(&mut fastrand::Rng::with_seed(seed));
            let state = state_of(&disk, NEXT_BOOT).map_err(|reason| format!("without power, seed {seed}: {reason}"))?;
            if !legal.contains(&&state) {
                return Err(format!("without power, seed {seed}: {state:?}"));
            }
            let again = state_of(&disk, NEXT_BOOT)?;
            if again != state {
                return Err(format!("without power, seed {seed}, once more: {again:?}, not {state:?}"));
            }
        }
        Ok(())
    }

    /// Whether a state has everything acknowledged, a prefix of each segment, and for each change over several segments
    /// everything that it may have seen.
    fn is_of_consistent_cut(&self, state: &[String]) -> bool {
        let changes = &self.writer.changes;
        let is_in = |change: &Change, segment: usize| change.ends.iter().any(|(other, _)| *other == segment);
        let points = self.acknowledged..=changes.len();
        let cuts = points.clone().flat_map(|one| points.clone().map(move |other| [one, other]));
        let kept = cuts.filter_map(|cut: [usize; SHARDS]| {
            let kept = changes.iter().enumerate();
            let kept =
                kept.map(|(index, change)| (0..SHARDS).any(|segment| is_in(change, segment) && index < cut[segment]));
            let kept: Vec<bool> = kept.collect();
            let is_consistent = (0..changes.len()).all(|index| {
                let is_cross_shard = changes[index].ends.len() > 1;
                !(is_cross_shard && kept[index]) || kept[..index].iter().all(|is_kept| *is_kept)
            });
            is_consistent.then_some(kept)
        });
        kept.collect::<BTreeSet<_>>().into_iter().any(|kept| self.writer.state_of(kept) == state)
    }

    fn finish(&mut self) {
        self.writer.finish();
    }
}

fn steps() -> (&'static [&'static str], &'static [&'static str]) {
    STEPS[STEPS_BEFORE..].split_at(STEPS_MEANWHILE)
}

#[test]
fn a_rewritten_log_recovers_as_it_was_written_and_holds_no_more_files_than_it_needs() {
    let (meanwhile, afterwards) = steps();
    let mut scenario = Scenario::begin();
    scenario.rewrite(Bug::None, meanwhile).expect("nothing fails");
    afterwards.iter().for_each(|step| scenario.step(step));
    scenario.judge(0..20).expect("it is as it was");
    // Once more, from a base.
    scenario.rewrite(Bug::None, &["SET <0>later 1", "SET <1>later 2"]).expect("nothing fails");
    scenario.step("APPEND <0>later +; APPEND <1>later +");
    scenario.judge(0..20).expect("it is as it was");
    scenario.finish();
    let names: Vec<String> = scenario
        .writer
        .disk
        .files()
        .keys()
        .map(|path| path.file_name().expect("a file").to_string_lossy().into_owned())
        .collect();
    let wanted = [
        "chain-1.segment-0.base-3.aof",
        "chain-1.segment-0.incr-3.aof",
        "chain-1.segment-1.base-3.aof",
        "chain-1.segment-1.incr-3.aof",
        "shardrace.manifest",
    ];
    assert_eq!(names, wanted);
}

/// Runs everything with calls that fail from one on, and returns whether there were this many calls.
fn fail_from(failure: Failure, first: u64) -> bool {
    let what = format!("{failure:?} at call {first}");
    let (meanwhile, afterwards) = steps();
    let mut scenario = Scenario::begin();
    scenario.writer.disk.fail(Fault { first, calls: u64::MAX, failure });
    let outcome = scenario.rewrite(Bug::None, meanwhile);
    afterwards.iter().for_each(|step| scenario.step(step));
    scenario.judge(first..first + 4).unwrap_or_else(|reason| panic!("{what}, {outcome:?}: {reason}"));
    let syncs = scenario.writer.disk.failed().1;
    let calls = scenario.writer.disk.heal();
    let control = scenario.writer.control.clone();
    if !control.is_failing() || syncs == 0 {
        wait_until(&format!("{what}: the log is written again"), || !control.is_failing());
        scenario.note_acknowledged();
        // The files left by the failed one do no harm.
        let outcome = scenario.rewrite(Bug::None, &["SET <0>later 1", "INCR <0>later", "MSET <0>m 1 <1>m 2"]);
        scenario.step("INCR <0>later");
        if syncs == 0 {
            outcome.unwrap_or_else(|reason| panic!("{what}, mended: {reason}"));
        }
        scenario.judge(first..first + 4).unwrap_or_else(|reason| panic!("{what}, mended: {reason}"));
    }
    scenario.finish();
    calls > first
}

#[test]
fn a_rewrite_that_fails_at_any_call_leaves_a_log_with_all_that_was_acknowledged() {
    let reached = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for failure in [Failure::Broken, Failure::Full, Failure::Short] {
            let reached = &reached;
            scope.spawn(move || {
                let calls = (0..).take_while(|first| fail_from(failure, *first)).count();
                reached.fetch_add(calls, Ordering::Relaxed);
            });
        }
    });
    let reached = reached.into_inner();
    assert!(reached > 100, "{reached} calls");
}

/// One call fails, and the calls after it succeed.
#[test]
fn a_single_failure_at_any_call_of_a_rewrite_loses_nothing() {
    let (meanwhile, afterwards) = steps();
    let mut failed = 0;
    for first in 0.. {
        let mut scenario = Scenario::begin();
        scenario.writer.disk.fail(Fault { first, calls: 1, failure: Failure::Full });
        let outcome = scenario.rewrite(Bug::None, meanwhile);
        failed += usize::from(outcome.is_err());
        afterwards.iter().for_each(|step| scenario.step(step));
        scenario.judge(first..first + 4).unwrap_or_else(|reason| panic!("at call {first}, {outcome:?}: {reason}"));
        let calls = scenario.writer.disk.heal();
        scenario.finish();
        if calls <= first {
            break;
        }
    }
    assert!(failed > 10, "{failed} rewrites failed");
}

/// A collection that is longer than a record is in several records, and is restored as it was.
#[test]
fn a_collection_that_is_longer_than_a_record_is_written_in_pieces() {
    const PIECE: usize = 40;
    let mut writer = Writer::start();
    let words = |count: usize, word: fn(usize) -> String| (0..count).map(word).collect::<Vec<_>>().join(" ");
    writer.run(&format!("RPUSH <0>list {}", words(100, |number| format!("{}", number % 7))));
    writer.run(&format!("SADD <0>numbers {}; PEXPIRE <0>numbers 5000", words(100, |number| number.to_string())));
    writer.run(&format!("SADD <0>set {}", words(100, |number| format!("m{number}"))));
    writer.run(&format!("HSET <0>hash {}", words(100, |number| format!("f{number} {number}"))));
    writer.run(&format!(
        "ZADD <0>sorted {} inf top -inf bottom",
        words(100, |number| format!("{}.1 m{number}", number / 3))
    ));
    writer.run("SET <0>text x; RPUSH <0>short x; RPUSH <0>empty ");
    writer.run(&format!("RPUSH <0>empties{}", " ".repeat(400)));
    writer.run("MOVE <0>short 2");
    (1..20).for_each(|number| writer.run(&format!("XADD <0>stream {number}-{number} field {number} other x")));
    writer.run("XGROUP CREATE <0>stream one 0; XGROUP CREATE <0>stream two 7-7 ENTRIESREAD 7");
    writer.run("XGROUP CREATE <0>stream three 0; XGROUP CREATECONSUMER <0>stream one idle");
    writer.run("XREADGROUP GROUP one ann COUNT 12 STREAMS <0>stream >");
    writer.run("XREADGROUP GROUP one bob COUNT 4 STREAMS <0>stream >");
    writer.run("XCLAIM <0>stream one bob 0 3-3 5-5; XACK <0>stream one 8-8");
    writer.run("XREADGROUP GROUP two bob COUNT 1 STREAMS <0>stream >");
    writer.run("XDEL <0>stream 5-5 11-11 19-19; XTRIM <0>stream MAXLEN 13; PEXPIRE <0>stream 5000");
    writer.run("XADD <0>gone 5-1 f v; XGROUP CREATE <0>gone g 0; XREADGROUP GROUP g c STREAMS <0>gone >");
    writer.run("XTRIM <0>gone MAXLEN 0; XGROUP CREATE <0>none a 0 MKSTREAM");
    writer.finish();
    let wanted = describe(&mut writer.log.stores);
    let salt = crate::aof::Salt(7);
    let (mut records, mut bytes) = (Records::with_limits(salt, PIECE, PIECE), Vec::new());
    for (database, table) in writer.log.stores[0].tables().iter().enumerate() {
        table.for_each(&mut |node| records.encode(&mut bytes, database, node).expect("it fits"));
    }
    let mut stores = [Databases::of_shard(&Arc::default(), DATABASES, 0, 1)];
    let mut replay = Replay::new();
    let (mut rest, mut count) = (&bytes[..], 0);
    while let Frame::Record(payload, len) = decode(rest, salt) {
        assert!(payload.len() < 8 * PIECE, "{} bytes in one record", payload.len());
        replay.apply(payload, MultiShardView::new(1, stores.iter_mut().enumerate()), None).expect("they are effects");
        rest = &rest[len..];
        count += 1;
    }
    assert!(rest.is_empty() && count > 30, "{count} records");
    assert_eq!(describe(&mut stores), wanted);
}

fn is_caught(bug: Bug) -> bool {
    let (meanwhile, afterwards) = steps();
    let mut scenario = Scenario::begin();
    if bug == Bug::UnsyncedBase {
        scenario.writer.disk.ignore_syncs_of(".base-");
    }
    scenario.rewrite(bug, meanwhile).expect("nothing fails");
    afterwards.iter().for_each(|step| scenario.step(step));
    let verdict = scenario.judge(0..40);
    scenario.finish();
    verdict.is_err()
}

#[test]
fn planted_bugs_are_caught() {
    assert!(!is_caught(Bug::None));
    assert!(is_caught(Bug::UnsyncedBase), "a manifest that names what is not on the disk");
    assert!(is_caught(Bug::LateSnapshot), "keys that changed before they were kept");
}

#[test]
fn a_kill_between_two_segments_going_on_loses_nothing() {
    let mut scenario = Scenario::begin();
    let epoch = scenario.writer.control.next_epoch(NOW_MS * 2);
    let rewrite = scenario.rewriter.begin(epoch).expect("nothing fails");
    rewrite.go_on(1);
    for step in ["SET <1>afterwards 1", "SET <0>before 1", "APPEND <1>afterwards x", "RPUSH <0>l2 a b"] {
        scenario.step(step);
    }
    scenario.judge(0..0).expect("it is as it was");
    let killed = scenario.writer.disk.after_kill();
    scenario.finish();
    // The next server continues in both, and is killed too.
    for _ in 0..2 {
        let recovered = recover_in(&killed, BOOT).expect("it is whole");
        recovered.segments.iter().for_each(|segment| assert!(segment.file_bytes() > 0));
        recovered.threads.into_iter().for_each(end);
    }
    assert_eq!(state_of(&killed, BOOT).as_ref(), Ok(scenario.states.last().expect("there are states")));
}

#[test]
fn a_base_that_is_damaged_or_cut_anywhere_is_refused() {
    let (meanwhile, _) = steps();
    let mut scenario = Scenario::begin();
    scenario.rewrite(Bug::None, meanwhile).expect("nothing fails");
    scenario.finish();
    let path = Chain::base_path(dir(), 1, 0, 2);
    let whole = scenario.writer.disk.files()[&path].clone();
    for position in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[position] ^= 1;
        for bytes in [&whole[..position], &damaged] {
            let disk = scenario.writer.disk.after_kill();
            disk.put(&path, bytes);
            for boot in [BOOT, NEXT_BOOT] {
                let refused = state_of(&disk, boot).expect_err("the base is damaged");
                assert!(refused.contains("base-2"), "byte {position}: {refused}");
                assert_eq!(disk.files()[&path], bytes, "it refused and changed the file");
            }
        }
    }
}

/// Keys that a record of a base, or a record after it, may concern, including those that depend on them.
const LOST_MAX: usize = 6;

#[test]
fn a_rewritten_log_that_is_damaged_anywhere_is_fixed_to_an_epoch_and_salvaged_but_for_one_record() {
    /// Bytes between two changed ones: not all are changed, because repairs use a real disk.
    const STEP: usize = 61;
    let (meanwhile, afterwards) = steps();
    let mut scenario = Scenario::begin();
    scenario.rewrite(Bug::None, meanwhile).expect("nothing fails");
    scenario.end_epoch();
    afterwards.iter().for_each(|step| scenario.step(step));
    scenario.finish();
    let files = scenario.writer.disk.files();
    let mut repaired = [0, 0];
    for (damaged, bytes) in files.iter().filter(|(path, _)| Chain::chain_of(path).is_some()) {
        let is_base = damaged.to_string_lossy().contains("base");
        for position in (16..bytes.len()).step_by(STEP) {
            for salvages in [false, true] {
                let dir = tempfile::tempdir().expect("a temporary directory");
                for (path, bytes) in &files {
                    let mut bytes = bytes.clone();
                    if path == damaged {
                        bytes[position] ^= 1;
                    }
                    std::fs::write(dir.path().join(path.file_name().expect("a file")), bytes).expect("written");
                }
                let log = Inspection::of(dir.path(), BOOT.into()).expect("the manifest is whole");
                if !log.chains[0].is_damaged() {
                    assert!(!is_base, "damage of a base is damage, wherever it is");
                    continue;
                }
                let what = format!("{}, byte {position}, salvaged: {salvages}", damaged.display());
                let plan = if salvages { Plan::salvage(&log).expect(&what) } else { Plan::fix(&log) };
                plan.carry_out(&log, "backup").expect(&what);
                let state = state_in(dir.path()).unwrap_or_else(|reason| panic!("{what}: {reason}"));
                match (salvages, is_base) {
                    (true, _) => {
                        let whole = scenario.states.last().expect("there are states");
                        let lost = whole.iter().filter(|line| !state.contains(line)).count();
                        assert!(lost <= LOST_MAX, "{what}: {lost} keys are lost: {:?}", plan.actions);
                    }
                    // Without its base there is no state that the rest continues.
                    (false, true) => assert_eq!(state, [""; 0], "{what}"),
                    (false, false) => {
                        let is_mark = scenario.marks.iter().any(|mark| scenario.states[*mark] == state);
                        assert!(is_mark, "{what}: {state:?}");
                    }
                }
                repaired[usize::from(salvages)] += 1;
            }
        }
    }
    assert!(repaired.iter().all(|count| *count > 20), "{repaired:?}");
}

/// Begins a rewrite that nothing disturbs.
fn begun(scenario: &mut Scenario) -> Rewrite {
    let rewrite = scenario.rewriter.begin(scenario.writer.control.next_epoch(NOW_MS * 2)).expect("nothing fails");
    (0..SHARDS).for_each(|segment| rewrite.go_on(segment));
    scenario.marks.push(scenario.writer.changes.len());
    for (store, base) in scenario.writer.log.stores.iter_mut().zip(rewrite.bases()) {
        store.begin_snapshot(base as Arc<dyn SnapshotSink>);
    }
    rewrite
}

fn bases_on(disk: &SimDisk) -> usize {
    disk.files().keys().filter(|path| path.to_string_lossy().contains(".base-")).count()
}

#[test]
fn bases_that_cannot_be_written_are_gone_before_the_walk_ends() {
    let mut scenario = Scenario::begin();
    let rewrite = begun(&mut scenario);
    assert_eq!(bases_on(&scenario.writer.disk), SHARDS);
    scenario.writer.disk.fill(".base-2");
    while !scenario.walk(&rewrite, LOOKS) {}
    assert!(scenario.rewriter.write_out(&rewrite, 0, MayWait(false)), "the walk has not ended");
    assert_eq!(bases_on(&scenario.writer.disk), 0, "the disk stays full");
    rewrite.end_walk();
    let reason = scenario.rewriter.finish(&rewrite).expect_err("the disk is full");
    assert!(reason.contains("space"), "{reason}");
    scenario.writer.disk.heal();
    scenario.rewrite(Bug::None, &["SET <0>later 1", "INCR <1>later"]).expect("there is room again");
    scenario.judge(0..8).expect("nothing is lost");
    scenario.finish();
}

#[test]
fn bases_whose_end_cannot_be_written_are_removed() {
    let mut scenario = Scenario::begin();
    let rewrite = begun(&mut scenario);
    while !scenario.walk(&rewrite, LOOKS) {}
    rewrite.end_walk();
    scenario.writer.disk.fill(".base-2");
    scenario.rewriter.finish(&rewrite).expect_err("the disk is full");
    assert_eq!(bases_on(&scenario.writer.disk), 0, "the disk stays full");
    scenario.judge(0..8).expect("nothing is lost");
    scenario.finish();
}

/// Begins a rewrite while this call fails; returns whether it failed, and how many calls there were.
fn begin_failing(scenario: &Scenario, first: u64) -> (bool, u64) {
    scenario.writer.disk.fail(Fault { first, calls: 1, failure: Failure::Broken });
    let outcome = scenario.rewriter.begin(scenario.writer.control.next_epoch(NOW_MS * 2));
    (outcome.is_err(), scenario.writer.disk.heal())
}

/// The last increment that the manifest on a disk names.
fn last_increment(disk: &SimDisk) -> u32 {
    Manifest::read(disk, dir()).expect("it is whole").chains()[0].last
}

/// The fsync of the directory fails after the manifest got its name: what it names must stay.
#[test]
fn a_rewriting_that_is_tried_again_leaves_the_increments_that_the_manifest_may_name() {
    let names_them = |first: &u64| {
        let mut scenario = Scenario::begin();
        let (has_failed, _) = begin_failing(&scenario, *first);
        let last = last_increment(&scenario.writer.disk);
        scenario.finish();
        has_failed && last == 2
    };
    let first = (0..100).find(names_them).expect("the last call syncs the directory");
    for second in 0.. {
        let mut scenario = Scenario::begin();
        assert!(begin_failing(&scenario, first).0, "the directory is not synced");
        assert_eq!(last_increment(&scenario.writer.disk), 2);
        let buffers = |disk: &SimDisk| {
            disk.files().keys().filter(|path| path.to_string_lossy().ends_with(".write-buffer")).count()
        };
        let before = buffers(&scenario.writer.disk);
        let (has_failed, calls) = begin_failing(&scenario, second);
        scenario.judge(0..4).unwrap_or_else(|reason| panic!("call {second} fails: {reason}"));
        assert!(!has_failed || buffers(&scenario.writer.disk) <= before, "call {second} fails: a buffer is left");
        scenario.finish();
        if calls <= second {
            assert!(second > 10, "{second} calls");
            break;
        }
    }
}

#[test]
fn an_earlier_log_keeps_its_libraries_until_the_next_one_is_whole_and_no_attempt_reuses_a_name() {
    const LIBRARY: &[u8] = b"#!lua name=l\nredis.register_function('f', function() return 1 end)";
    let mut writer = Writer::start();
    let (disk, segments, control) = (writer.disk.clone(), writer.log.segments.clone(), writer.control.clone());
    let rewriter_of = |instance: &Instance, manifest: &Manifest| {
        Rewriter::new(instance, Arc::new(disk.clone()), dir().to_owned(), manifest.clone(), segments.clone())
    };
    let instance = Instance::default();
    let scripting = &Services::of(&instance).scripting;
    scripting.load_functions([LIBRARY].into_iter()).expect("it is a library");
    let earlier = rewriter_of(&instance, &writer.log.manifest);
    scripting.functions.hold(|libraries| earlier.keep_functions(libraries, None)).expect("nothing fails");
    writer.run("SET <0>k 1");
    let epoch = control.next_epoch(NOW_MS * 2);
    segments.iter().for_each(|segment| segment.end_log(epoch));
    wait_until("the end is on the disk", || segments.iter().all(|segment| segment.is_all_synced()));
    earlier.close(&segments.iter().map(|segment| segment.leave_file().0).collect::<Vec<_>>()).expect("nothing fails");
    let manifest = Manifest::read(&disk, dir()).expect("it is whole");
    let library = manifest.functions(dir()).expect("it names the library");

    // Of a server that has no libraries by now.
    let next = rewriter_of(&Instance::default(), &manifest);
    let begin = || {
        let layout = Layout { engine: "actor".into(), shards: SHARDS };
        next.begin_log(control.next_epoch(NOW_MS * 2), &layout).expect("nothing fails")
    };
    drop(begin());
    let rewrite = begin();
    assert_eq!(Manifest::read(&disk, dir()), Ok(manifest));
    assert!(disk.files().contains_key(&library), "the start after a kill needs it");
    let chains = disk.files().keys().filter_map(|path| Chain::chain_of(path)).collect::<BTreeSet<_>>();
    assert_eq!(chains, BTreeSet::from([1, 3]), "the second attempt has the names of the first");
    state_of(&disk.after_kill(), BOOT).expect("the earlier log is whole");

    (0..SHARDS).for_each(|segment| rewrite.go_on(segment));
    for (store, base) in writer.log.stores.iter_mut().zip(rewrite.bases()) {
        store.begin_snapshot(base as Arc<dyn SnapshotSink>);
        while !store.walk_snapshot(|| true) {}
    }
    rewrite.end_walk();
    next.finish(&rewrite).expect("nothing fails");
    assert!(!disk.files().contains_key(&library), "no manifest names it any more");
    assert_eq!(state_of(&disk.after_kill(), BOOT), Ok(describe(&mut writer.log.stores)));
    writer.finish();
}
