//! Stops and imports on a disk that fails at each of their calls.

use super::*;
use crate::aof::write::FileEnd;
use crate::aof::{Rewriter, begin_import};

const FAILURES: [Failure; 3] = [Failure::Broken, Failure::Full, Failure::Short];

fn rewriter(disk: &SimDisk, log: &Recovered) -> Rewriter {
    Rewriter::new(
        &crate::keyspace::Instance::default(),
        Arc::new(disk.clone()),
        dir().to_owned(),
        log.manifest.clone(),
        log.segments.clone(),
    )
}

/// What a stopping server does; the error is its message.
fn stop(log: &mut Recovered, rewriter: &Rewriter) -> Result<(), String> {
    let epoch = log.segments[0].control().next_epoch(NOW_MS + 60_000);
    log.segments.iter().for_each(|segment| segment.append_epoch(epoch));
    let ends: Vec<_> = std::mem::take(&mut log.threads).into_iter().map(super::super::LogThread::finish).collect();
    let ends = ends.into_iter().collect::<Result<Vec<FileEnd>, String>>()?;
    rewriter.close(&ends).map_err(|error| error.to_string())
}

#[test]
fn a_stop_that_fails_at_any_call_says_so_and_loses_nothing_acknowledged() {
    let mut failed = 0;
    for failure in FAILURES {
        for first in 0.. {
            let what = format!("{failure:?} at call {first}");
            let mut writer = Writer::start();
            STEPS[..12].iter().for_each(|step| writer.run(step));
            assert!(writer.is_acknowledged());
            let wanted = naive_state(writer.changes.iter());
            let rewriter = rewriter(&writer.disk, &writer.log);
            writer.disk.fail(Fault { first, calls: u64::MAX, failure });
            let stopped = stop(&mut writer.log, &rewriter);
            let calls = writer.disk.heal();
            let found = state_of(&writer.disk.after_kill(), BOOT);
            assert_eq!(found.as_ref(), Ok(&wanted), "{what}, {stopped:?}");
            match stopped {
                Ok(()) => {
                    let disk = writer.disk.after_power_loss(&mut fastrand::Rng::with_seed(first));
                    assert_eq!(state_of(&disk, NEXT_BOOT).as_ref(), Ok(&wanted), "{what}: a power loss took something");
                }
                Err(_) => failed += 1,
            }
            if calls <= first {
                break;
            }
        }
    }
    assert!(failed > 10, "{failed} stops failed");
}

/// An import on two shards; the error says why it failed.
fn import(disk: &SimDisk) -> Result<(), String> {
    let (mut log, _) = begin_import(&Log {
        disk,
        dir: dir(),
        layout: Layout { engine: "actor".into(), shards: SHARDS },
        databases: DATABASES,
        threads: SHARDS,
        boot: BOOT.into(),
        now_ms: NOW_MS,
        control: LogControl::new(FsyncPolicy::No),
        instance: Arc::default(),
    })?;
    write_keys(&log);
    let rewriter = rewriter(disk, &log);
    stop(&mut log, &rewriter)
}

/// A key on each shard.
fn write_keys(log: &Recovered) {
    for (shard, segment) in log.segments.iter().enumerate() {
        let mut effects = Effects::new(true);
        effects.select(0);
        let key = with_tags(&format!("<{shard}>key"));
        effects.add([b"SET".as_slice(), key.as_bytes(), b"value"]);
        segment.append_payload(effects.payload());
        segment.commit(segment.appended());
    }
}

#[test]
fn an_import_that_fails_or_is_killed_at_any_call_is_whole_or_starts_with_nothing_and_the_next_one_is_whole() {
    let (mut failed, mut refused) = (0, 0);
    for failure in FAILURES {
        for first in 0.. {
            let what = format!("{failure:?} at call {first}");
            let disk = SimDisk::default();
            disk.fail(Fault { first, calls: u64::MAX, failure });
            let imported = import(&disk);
            let calls = disk.heal();
            let mut random = fastrand::Rng::with_seed(first);
            let left = [(disk.after_kill(), BOOT), (disk.after_power_loss(&mut random), NEXT_BOOT)];
            for (left, boot) in left {
                let again = left.after_kill();
                let found = state_of(&left, boot);
                let keys = found.as_ref().map_or(0, Vec::len);
                assert!(keys == 0 || keys == SHARDS, "{what}, {boot}, {imported:?}: a part of it: {found:?}");
                assert!(imported.is_err() || keys == SHARDS, "{what}, {boot}: it says that it is whole: {found:?}");
                refused += usize::from(found.is_err());
                // After a power loss the names in the manifest may be of records without one, which no start removes.
                if keys == 0 && boot == BOOT {
                    import(&again).unwrap_or_else(|reason| panic!("{what}: the next one: {reason}"));
                    assert_eq!(state_of(&again, boot).map(|state| state.len()), Ok(SHARDS), "{what}: the next one");
                }
            }
            failed += usize::from(imported.is_err());
            if calls <= first {
                break;
            }
        }
    }
    assert!(failed > 20 && refused > 10, "{failed} failed, {refused} refused");
}

/// Planted: a disk that never syncs segment files, though fsync succeeds.
#[test]
fn a_stop_and_an_import_that_do_not_sync_are_caught() {
    let is_caught = |end: fn(&SimDisk)| {
        (0..40).any(|seed| {
            let disk = SimDisk::default();
            disk.ignore_syncs_of("segment-");
            end(&disk);
            let disk = disk.after_power_loss(&mut fastrand::Rng::with_seed(seed));
            state_of(&disk, NEXT_BOOT).map(|state| state.len()) != Ok(SHARDS)
        })
    };
    assert!(is_caught(|disk| import(disk).expect("nothing fails")), "an import that is not on the disk");
    assert!(
        is_caught(|disk| {
            let mut log = recover_in(disk, BOOT).expect("nothing is wrong with it");
            write_keys(&log);
            let rewriter = rewriter(disk, &log);
            stop(&mut log, &rewriter).expect("nothing fails");
        }),
        "a stop that is not on the disk"
    );
}
