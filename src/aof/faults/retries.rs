//! The order in which unwritten records are tried again: a kill may come between any two of those writes.

use super::*;

/// Commands over one shard and over both, after the first of which segment 0 cannot be written.
const STEPS: [&str; 9] = [
    "RPUSH <0>seen x",
    "RPUSH <1>seen x",
    "SET <1>shared 1; SET <0>shared 1",
    "APPEND <0>shared +",
    "APPEND <1>shared +",
    "RPUSH <1>seen y",
    "RENAME <1>shared <0>shared",
    "RPUSH <0>seen y",
    "LMOVE <0>seen <1>seen LEFT RIGHT",
];

/// Whether every transaction is there with everything that it may have seen.
fn is_consistent_cut(writer: &Writer, lengths: [usize; SHARDS]) -> bool {
    let is_kept = |change: &Change| change.ends.iter().any(|&(segment, end)| end <= lengths[segment]);
    let share = |one: &Change, other: &Change| {
        one.ends.iter().any(|(segment, _)| other.ends.iter().any(|(other, _)| segment == other))
    };
    writer.changes.iter().enumerate().all(|(index, change)| {
        let is_cross_shard = change.ends.len() > 1;
        !is_cross_shard || !is_kept(change) || {
            writer.changes[..index].iter().filter(|before| share(before, change)).all(is_kept)
        }
    })
}

/// Checks what a kill after each of the writes so far would have left.
fn judge(writer: &Writer, moments: &[SimDisk], what: &str) {
    for (number, disk) in moments.iter().enumerate() {
        let lengths = lengths_of(disk);
        assert!(is_consistent_cut(writer, lengths), "{what}, after write {number}: {lengths:?}");
        let state = state_of(disk, BOOT).unwrap_or_else(|reason| panic!("{what}, after write {number}: {reason}"));
        assert_eq!(state, writer.state_of_lengths(lengths), "{what}, after write {number}");
    }
}

/// Which segment fails, and at which step, changes the order in which log threads reach it.
#[test]
fn what_could_not_be_written_is_tried_again_in_an_order_that_leaves_a_consistent_cut_at_every_write() {
    std::thread::scope(|scope| {
        for full in [".segment-0", ".segment-1"] {
            (0..STEPS.len()).for_each(|first| drop(scope.spawn(move || fail_and_heal(full, first))));
        }
    });
}

fn fail_and_heal(full: &'static str, first: usize) {
    let what = format!("{full} is full from step {first} on");
    let mut writer = Writer::start();
    writer.run("MSET <0>seen0 1 <1>seen1 1");
    writer.disk.keep_moments();
    for (number, step) in STEPS.iter().enumerate() {
        if number == first {
            writer.disk.fill(full);
        }
        writer.run(step);
    }
    // Both log threads wake up and try.
    writer.end_epoch();
    let failed = writer.disk.failed().0;
    wait_until("it is tried again", || writer.disk.failed().0 > failed + 2);
    judge(&writer, &writer.disk.take_moments(), &format!("{what}, still failing"));
    assert!(writer.control.is_failing(), "{what}");

    writer.disk.heal();
    wait_until(&format!("{what}: writes are accepted again"), || !writer.control.is_failing());
    let waits = |segment: &Arc<Segment>| segment.metrics().buffered_bytes > 0;
    assert!(!writer.log.segments.iter().any(waits), "{what}: writes are accepted while some wait to be written");
    judge(&writer, &writer.disk.take_moments(), &format!("{what}, mended"));
    writer.finish();
    let state = state_of(&writer.disk.after_kill(), BOOT).expect("it is whole");
    assert_eq!(state, naive_state(writer.changes.iter()), "{what}");
}
