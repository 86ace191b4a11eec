//! Bugs of replication and of CLIENT TRACKING, planted in a server of a process of its own: the tests that are named
//! here fail. Two more kinds are found by tests of the library (`replication::tests`).

fn finds(bug: &str, test: &str) {
    let mut run = std::process::Command::new(std::env::current_exe().unwrap());
    run.args(["--exact", test]).env("SHARDRACE_PLANTED_BUG", bug);
    let ended = harness::run_to_its_end(&mut run);
    assert!(ended.stdout.contains("0 passed; 1 failed"), "{bug} is not found by {test}: {ended:?}");
}

#[test]
fn a_replica_that_removes_what_is_due_is_found() {
    finds("ReplicaExpires", "replica::a_replica_hides_what_is_due_and_removes_nothing");
}

#[test]
fn an_offset_that_lacks_the_length_of_a_ping_is_found() {
    finds("PingNotCounted", "replication::both_sides_count_what_the_master_says_to_show_that_it_is_there");
}

#[test]
fn an_acknowledgement_of_what_has_not_taken_effect_is_found() {
    finds("AcknowledgedEarly", "replica::the_master_is_told_of_nothing_that_readers_do_not_see");
}

#[test]
fn a_second_full_synchronization_during_a_snapshot_is_found() {
    finds("TwoSnapshots", "replication::a_replica_that_takes_no_snapshot_is_given_up_and_the_next_has_its_turn");
}

#[test]
fn a_change_that_is_told_before_the_reply_to_the_read_is_found() {
    finds("ToldBeforeReply", "tracking::no_client_keeps_what_has_changed");
}

#[test]
fn a_read_that_is_remembered_after_the_change_is_found() {
    finds("RememberedLate", "tracking::no_client_keeps_what_has_changed");
}
