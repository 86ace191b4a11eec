//! Damaged logs that are repaired: the rest equals the state of the naive model.

use super::super::repair::Plan;
use super::*;
use crate::aof::disk::SystemDisk;
use crate::aof::repair::Inspection;

/// Bytes between two changed ones: not all are changed, because repairs use a real disk.
const STEP: usize = 53;

pub(super) fn state_in(dir: &Path) -> Result<Vec<String>, String> {
    let mut recovered = recover(&Log {
        disk: &SystemDisk,
        dir,
        layout: Layout { engine: "actor".into(), shards: SHARDS },
        databases: DATABASES,
        threads: THREADS,
        boot: BOOT.into(),
        now_ms: NOW_MS,
        control: LogControl::new(FsyncPolicy::No),
        instance: Arc::default(),
    })?;
    recovered.threads.into_iter().for_each(end);
    Ok(describe(&mut recovered.stores))
}

/// The log on a real disk, with one byte of a segment changed; `None` if a server would only cut it.
fn damaged(writer: &Writer, segment: usize, position: usize) -> Option<(tempfile::TempDir, Inspection)> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for (path, mut bytes) in writer.disk.files() {
        if path == segment_path(segment) {
            bytes[position] ^= 1;
        }
        std::fs::write(dir.path().join(path.file_name().expect("a file")), bytes).expect("written");
    }
    let log = Inspection::of(dir.path(), BOOT.into()).expect("the manifest is whole");
    log.chains[0].is_damaged().then_some((dir, log))
}

/// The state of all changes except those that are in one segment only and have this byte.
fn state_without(writer: &Writer, segment: usize, position: usize) -> Vec<String> {
    let ends = |change: &Change| change.ends.iter().find(|(index, _)| *index == segment).map(|(_, end)| *end);
    let hit = writer.changes.iter().position(|change| ends(change).is_some_and(|end| position < end));
    let hit = hit.filter(|&hit| {
        // Control records are between records; losing one loses no change.
        let frame = 16 + writer.changes[hit].effects.len();
        writer.changes[hit].ends.len() == 1 && position >= ends(&writer.changes[hit]).expect("it is there") - frame
    });
    naive_state(writer.changes.iter().enumerate().filter(|(index, _)| Some(*index) != hit).map(|(_, change)| change))
}

#[test]
fn a_log_that_was_damaged_anywhere_is_fixed_to_an_epoch_and_salvaged_but_for_one_record() {
    let writer = written();
    let repaired = AtomicUsize::new(0);
    at_every_byte(&writer, |segment, position, _| {
        if position % STEP != 0 {
            return;
        }
        let what = format!("segment {segment}, byte {position}");
        if let Some((dir, log)) = damaged(&writer, segment, position) {
            let plan = Plan::fix(&log);
            plan.carry_out(&log, "backup").unwrap_or_else(|error| panic!("{what}: {error}"));
            let wanted = writer.state_of_epoch(cut_lengths(&writer, segment, position));
            assert_eq!(state_in(dir.path()), Ok(wanted), "{what}, fixed: {:?}", plan.actions);
            repaired.fetch_add(1, Ordering::Relaxed);
        }
        // Bytes that a changed salt has framed cannot be recognized.
        if (8..16).contains(&position) {
            return;
        }
        if let Some((dir, log)) = damaged(&writer, segment, position) {
            let plan = Plan::salvage(&log).unwrap_or_else(|reason| panic!("{what}: {reason}"));
            plan.carry_out(&log, "backup").unwrap_or_else(|error| panic!("{what}: {error}"));
            let wanted = state_without(&writer, segment, position);
            for _ in 0..2 {
                assert_eq!(state_in(dir.path()).as_ref(), Ok(&wanted), "{what}, salvaged: {:?}", plan.actions);
            }
        }
    });
    assert!(repaired.into_inner() > 40);
}
