//! The production code under chosen schedules, not accidental ones.
//!
//! `run_shard`, `Port`, `Router` and the check-register-check of a waiting port run on shuttle's executor over channels
//! that shuttle can interrupt at each step ([`channels`]). Each scenario is checked under random schedules and under
//! PCT ([`explore`] says how to choose a seed and how to replay a failure). [`planted`] shows that the checks can fail.

mod channels;
mod connection;
mod explore;
#[path = "../ledger/mod.rs"]
mod ledger;
mod planted;
mod scenario;
mod shard;

use channels::{Sound, StepsAtGates, StepsInRendezvous, Witness};
use connection::{Death, Mix};
use explore::{explore, explore_all};
use scenario::Scenario;

/// Two shards, three connections, and as little room as possible.
const TIGHT: Scenario = Scenario {
    connections: 3,
    shards: 2,
    mailbox_capacity: 1,
    window: 2,
    requests: 4,
    mix: Mix::SINGLES,
    turn: 2,
    slowness: 0,
    death: Death::Never,
    in_place: false,
};

/// Batches run in place where that is possible, from any thread.
const IN_PLACE: Scenario = Scenario { in_place: true, mailbox_capacity: 2, ..MIXED };

/// Groups and rendezvous among single batches, over two shards.
const MIXED: Scenario = Scenario { mix: Mix::ALL, window: 3, ..TIGHT };

/// The same over three: groups and rendezvous of two of them overlap in one.
const OVERLAPPING: Scenario = Scenario { shards: 3, window: 4, ..MIXED };

#[test]
fn every_batch_comes_home_once_and_replies_keep_request_order() {
    explore(400, || TIGHT.run::<Sound>());
}

#[test]
fn room_of_every_size_gives_the_same_results() {
    for (mailbox_capacity, window, turn) in [(1, 1, 1), (1, 4, 1), (2, 3, 2), (4, 1, 8), (8, 8, 8)] {
        explore(80, move || Scenario { mailbox_capacity, window, turn, ..TIGHT }.run::<Sound>());
    }
}

#[test]
fn a_turn_longer_than_a_look_ahead_group_serves_every_batch() {
    let long_turn =
        Scenario { connections: 2, shards: 1, mailbox_capacity: 20, window: 20, requests: 20, turn: 40, ..TIGHT };
    explore(30, move || long_turn.run::<Sound>());
}

#[test]
fn a_connection_that_dies_after_any_request_holds_up_nobody() {
    for requests in 0..=TIGHT.requests {
        explore(80, move || Scenario { death: Death::AfterRequest(requests), ..TIGHT }.run::<Sound>());
    }
}

#[test]
fn a_connection_that_is_cancelled_anywhere_holds_up_nobody() {
    explore(400, || Scenario { death: Death::Cancelled, ..TIGHT }.run::<Sound>());
}

#[test]
fn a_batch_in_place_comes_after_what_was_in_the_mailbox() {
    let (in_place, not_in_place) = (Witness::of_batches_in_place(), Witness::of_batches_not_in_place());
    explore(400, || IN_PLACE.run::<Sound>());
    explore(200, || Scenario { in_place: true, ..OVERLAPPING }.run::<Sound>());
    explore(200, || Scenario { slowness: 5, mix: Mix::GROUPS, requests: 8, ..IN_PLACE }.run::<Sound>());
    in_place.assert_seen();
    not_in_place.assert_seen();
}

#[test]
fn a_connection_that_is_cancelled_leaves_every_state_at_home() {
    explore(300, || Scenario { death: Death::Cancelled, ..IN_PLACE }.run::<Sound>());
}

#[test]
fn a_slow_shard_only_delays() {
    explore(150, || Scenario { slowness: 5, ..TIGHT }.run::<Sound>());
}

#[test]
fn a_full_mailbox_only_delays() {
    let crowd = Scenario { connections: 4, shards: 1, window: 3, requests: 3, slowness: 2, ..TIGHT };
    let waits = Witness::of_waits_for_room();
    explore(150, move || crowd.run::<Sound>());
    waits.assert_seen();
}

#[test]
fn a_batch_that_comes_between_look_and_registration_is_found() {
    let alone = Scenario { connections: 1, shards: 1, window: 1, requests: 3, ..TIGHT };
    let second_looks = Witness::of_second_looks();
    explore(300, move || alone.run::<Sound>());
    second_looks.assert_seen();
}

/// Only the way back, small enough for all of its schedules.
#[test]
fn no_schedule_of_one_batch_loses_its_wake_up() {
    assert_all_pass(scenario::one_batch::<Sound>);
}

#[test]
fn no_schedule_of_one_group_loses_its_arming() {
    assert_all_pass(scenario::one_group::<StepsAtGates>);
}

#[test]
fn no_schedule_of_one_rendezvous_loses_a_state() {
    assert_all_pass(scenario::one_rendezvous::<StepsInRendezvous>);
}

fn assert_all_pass(scenario: fn()) {
    let schedules = explore_all(scenario);
    println!("{schedules} schedules");
    let is_replay = std::env::var("SHUTTLE_REPLAY").is_ok();
    assert!(schedules > 100 || is_replay, "only {schedules} schedules: the steps are not interleaved");
}

/// A group and a rendezvous have more than a million schedules each. The tests above only have the steps at gates, or
/// those of states; this one has all steps, and some schedules.
#[test]
fn one_group_and_one_rendezvous_pass_with_every_step_interleaved() {
    explore(500, scenario::one_group::<Sound>);
    explore(500, scenario::one_rendezvous::<Sound>);
}

#[test]
fn a_wait_that_is_given_up_and_taken_up_again_loses_nothing() {
    explore(300, scenario::waits_are_given_up_and_taken_up_again::<Sound>);
}

#[test]
fn shards_finish_what_was_sent_before_they_end() {
    explore(300, scenario::batches_that_nobody_waits_for::<Sound>);
}

#[test]
fn a_shard_that_is_gone_refuses_what_is_sent() {
    explore(300, scenario::the_shard_is_cancelled::<Sound>);
}

#[test]
fn a_sequencer_that_is_gone_refuses_what_is_sent() {
    explore(300, scenario::the_sequencer_is_cancelled::<Sound>);
}

#[test]
fn the_same_seed_gives_the_same_schedules() {
    let traces = |scenario: Scenario| explore::traces(20, move || scenario.history::<Sound>());
    assert_eq!(traces(TIGHT), traces(TIGHT));
    assert_eq!(traces(OVERLAPPING), traces(OVERLAPPING));
}

#[test]
fn groups_and_rendezvous_take_effect_at_one_point() {
    let (at_gates, in_rendezvous) = (Witness::of_waits_at_gates(), Witness::of_waits_in_rendezvous());
    for mix in [Mix::GROUPS, Mix::RENDEZVOUS, Mix::ALL] {
        explore_mixed(200, move |scenario| Scenario { mix, requests: 8, ..scenario });
    }
    at_gates.assert_seen();
    in_rendezvous.assert_seen();
}

#[test]
fn room_of_every_size_keeps_them_at_one_point() {
    for (mailbox_capacity, window, turn) in [(1, 1, 1), (1, 4, 1), (2, 3, 2), (4, 1, 8), (8, 8, 8)] {
        explore_mixed(60, move |scenario| Scenario { mailbox_capacity, window, turn, ..scenario });
    }
}

#[test]
fn full_mailboxes_keep_them_at_one_point() {
    for mix in [Mix::ONLY_GROUPS, Mix::ONLY_RENDEZVOUS] {
        let (at_shards, at_sequencer) = (Witness::of_waits_for_room(), Witness::of_waits_for_the_sequencer());
        explore_mixed(80, move |scenario| Scenario { mix, slowness: 2, window: 8, ..scenario });
        at_shards.assert_seen();
        at_sequencer.assert_seen();
    }
}

#[test]
fn a_slow_shard_keeps_them_at_one_point() {
    explore_mixed(150, |scenario| Scenario { slowness: 5, ..scenario });
}

#[test]
fn a_connection_that_dies_after_any_group_or_rendezvous_leaves_it_whole() {
    for requests in 0..=MIXED.requests {
        explore_mixed(60, move |scenario| Scenario { death: Death::AfterRequest(requests), ..scenario });
    }
}

#[test]
fn a_send_that_is_given_up_leaves_all_or_nothing() {
    for mix in [Mix::ONLY_GROUPS, Mix::ONLY_RENDEZVOUS, Mix::ALL] {
        let given_up = Witness::of_sends_given_up();
        for requests in 0..MIXED.requests {
            explore_mixed(40, move |scenario| Scenario { mix, death: Death::InSend(requests), ..scenario });
        }
        given_up.assert_seen();
    }
}

#[test]
fn a_connection_that_is_cancelled_anywhere_leaves_all_or_nothing() {
    for mix in [Mix::ONLY_GROUPS, Mix::ONLY_RENDEZVOUS, Mix::ALL] {
        let cancelled = Witness::of_cancellations();
        explore_mixed(150, move |scenario| Scenario { mix, death: Death::Cancelled, ..scenario });
        cancelled.assert_seen();
    }
}

fn explore_mixed(schedules: usize, change: impl Fn(Scenario) -> Scenario) {
    for scenario in [change(MIXED), change(OVERLAPPING)] {
        explore(schedules, move || scenario.run::<Sound>());
    }
}
