//! Where there are more threads than segments, each segment is replayed by several owners: the state is the same,
//! however many they are.

use super::replays::{run_any, stores, without_seen_times};
use super::*;

fn recover_with(disk: &SimDisk, threads: usize) -> Result<Recovered, String> {
    recover(&log_of(disk, threads, LogControl::new(FsyncPolicy::No)))
}

fn log_of(disk: &SimDisk, threads: usize, control: LogControl) -> Log<'_> {
    Log {
        disk,
        dir: dir(),
        layout: Layout { engine: "dashmap".into(), shards: 1 },
        databases: DATABASES,
        threads,
        boot: BOOT.into(),
        now_ms: NOW_MS,
        control,
        instance: Arc::default(),
    }
}

fn finish(recovered: &mut Recovered) {
    std::mem::take(&mut recovered.threads).into_iter().for_each(end);
}

/// A log of the steps that the iterator yields, on one segment.
fn written(steps: impl Iterator<Item = Vec<u8>>) -> SimDisk {
    let disk = SimDisk::default();
    let mut log = recover_with(&disk, 1).expect("there is nothing wrong with it");
    let segment = Arc::clone(&log.segments[0]);
    steps.filter(|effects| !effects.is_empty()).for_each(|effects| segment.append_payload(&effects));
    segment.commit(segment.appended());
    finish(&mut log);
    disk
}

#[test]
fn a_log_leads_to_the_same_state_on_any_number_of_threads() {
    let given = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = given.unwrap_or_else(|| fastrand::u64(..));
    println!("SEED={seed}");
    for seed in (0..8).map(|round| seed.wrapping_add(round)) {
        let (mut live, mut random, mut now_ms) = (stores(1), fastrand::Rng::with_seed(seed), NOW_MS);
        let disk = written((0..600).map(|_| {
            now_ms += random.u64(..12);
            run_any(&mut live, now_ms, &mut random)
        }));
        let wanted = without_seen_times(describe(&mut live));
        for threads in [1, 2, 7] {
            let mut recovered = recover_with(&disk.after_kill(), threads).expect("the log is whole");
            finish(&mut recovered);
            assert_eq!(recovered.stores.len(), 1);
            let found = without_seen_times(describe(&mut recovered.stores));
            assert!(wanted == found, "SEED={seed}, {threads} threads: {wanted:#?}, but {found:#?}");
        }
    }
}

#[test]
fn of_several_faults_the_first_is_told_on_any_number_of_threads() {
    let effect = |command: &str| {
        let mut effects = Effects::new(true);
        effects.add(command.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        effects.payload().to_vec()
    };
    let good = (0..40).map(|number| format!("SET key:{number} 1"));
    // Each fails on replay, because the keys are strings.
    let bad = (0..40).map(|number| format!("LPUSH key:{number} 1"));
    let disk = written(good.chain(bad).map(|command| effect(&command)));
    let errors = [1, 2, 7].map(|threads| recover_with(&disk.after_kill(), threads).err().expect("it does not fit"));
    assert!(errors[0].contains("WRONGTYPE"), "{errors:?}");
    assert!(errors.iter().all(|error| *error == errors[0]), "{errors:?}");
}

/// A server that was stopped while it loads would keep its thread, its memory and the lock of its directory.
#[test]
fn a_log_that_nobody_waits_for_is_not_read_to_its_end_on_any_number_of_threads() {
    let effect = |number: usize| {
        let mut effects = Effects::new(true);
        effects.add([b"SET".as_slice(), format!("key:{number}").as_bytes(), &[b'x'; 1000]]);
        effects.payload().to_vec()
    };
    let disk = written((0..1000).map(effect));
    for threads in [1, 2, 7] {
        let control = LogControl::new(FsyncPolicy::No);
        control.give_up_loading();
        let refused = recover(&log_of(&disk.after_kill(), threads, control)).map(|mut log| finish(&mut log));
        assert!(refused.is_err_and(|reason| reason.contains("was stopped while it loaded")), "{threads} threads");
    }
}
