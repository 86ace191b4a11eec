//! Planted bugs: both schedulers must find each of them, and for the right reason.

use crate::channels::Fault;
use crate::connection::{Death, Mix};
use crate::explore::{Scheduler, failure_of};
use crate::scenario::{self, Scenario};
use crate::{IN_PLACE, MIXED, OVERLAPPING, TIGHT};

macro_rules! fault {
    ($name:ident, $what:ident) => {
        struct $name;
        impl Fault for $name {
            const $what: bool = true;
        }
    };
}

fault!(MailboxReorders, MAILBOX_REORDERS);
fault!(RoomWakesNobody, ROOM_WAKES_NOBODY);
fault!(LastSenderLeavesSilently, LAST_SENDER_LEAVES_SILENTLY);
fault!(ReplyComesTwice, REPLY_COMES_TWICE);
fault!(ReplyWakesNobody, REPLY_WAKES_NOBODY);
fault!(LooksOnce, LOOKS_ONCE);
fault!(ConnectionDoesNotReorder, CONNECTION_DOES_NOT_REORDER);
fault!(ConnectionIgnoresItsWindow, CONNECTION_IGNORES_ITS_WINDOW);
fault!(GateComesOpen, GATE_COMES_OPEN);
fault!(ArmingWakesNobody, ARMING_WAKES_NOBODY);
fault!(RendezvousStartsEarly, RENDEZVOUS_STARTS_EARLY);
fault!(StatesGoAstray, STATES_GO_ASTRAY);
fault!(ConnectionSendsPastItsGroups, CONNECTION_SENDS_PAST_ITS_GROUPS);
fault!(ConnectionSendsAPartAgain, CONNECTION_SENDS_A_PART_AGAIN);
fault!(ConnectionScatters, CONNECTION_SCATTERS);
fault!(MailboxSeemsEmpty, MAILBOX_SEEMS_EMPTY);

/// The number of schedules within which a planted bug must be found.
const SCHEDULES: usize = 2000;

fn assert_found(expected: &[&str], scenario: impl Fn() + Send + Sync + Clone + 'static) {
    for scheduler in [Scheduler::Random, Scheduler::Pct] {
        let failure = failure_of(scheduler, SCHEDULES, scenario.clone());
        let failure = failure.unwrap_or_else(|| panic!("{scheduler:?} did not find the planted bug"));
        assert!(expected.iter().any(|text| failure.contains(text)), "{scheduler:?} found something else: {failure}");
    }
}

#[test]
fn a_port_that_registers_and_does_not_look_again_misses_its_wake_up() {
    assert_found(&["deadlock"], || TIGHT.run::<LooksOnce>());
    assert_found(&["deadlock"], scenario::one_batch::<LooksOnce>);
}

#[test]
fn a_batch_that_goes_home_silently_leaves_its_port_waiting() {
    assert_found(&["deadlock"], || TIGHT.run::<ReplyWakesNobody>());
}

#[test]
fn a_batch_that_is_given_back_twice_is_counted_twice() {
    let one_shard = Scenario { shards: 1, ..TIGHT };
    let expected = ["each batch comes home once", "the in-flight window bounds the reply queue"];
    assert_found(&expected, move || one_shard.run::<ReplyComesTwice>());
}

#[test]
fn a_mailbox_that_reorders_is_seen_by_the_shard() {
    let roomy = Scenario { mailbox_capacity: 4, window: 4, ..TIGHT };
    assert_found(&["in the order they were sent"], move || roomy.run::<MailboxReorders>());
}

#[test]
fn a_mailbox_that_does_not_tell_of_room_leaves_its_senders_waiting() {
    assert_found(&["deadlock"], || TIGHT.run::<RoomWakesNobody>());
}

#[test]
fn a_shard_that_is_not_told_of_its_last_sender_never_ends() {
    assert_found(&["deadlock"], || TIGHT.run::<LastSenderLeavesSilently>());
}

#[test]
fn replies_without_a_reorder_buffer_leave_in_the_wrong_order() {
    assert_found(&["in request order"], || TIGHT.run::<ConnectionDoesNotReorder>());
}

#[test]
fn a_connection_that_ignores_its_window_is_stopped() {
    assert_found(&["keeps within the in-flight window"], || TIGHT.run::<ConnectionIgnoresItsWindow>());
}

/// A group that is armed before its last part is placed shows effects on one shard that others do not have yet.
#[test]
fn a_group_that_is_armed_before_the_last_enqueue_is_seen_half() {
    let readers_and_groups = Scenario { mix: Mix::GROUPS, requests: 20, ..MIXED };
    assert_found(&["one order explains every shard and real time"], move || readers_and_groups.run::<GateComesOpen>());
}

#[test]
fn a_batch_in_place_that_overtakes_the_mailbox_is_seen() {
    let expected = ["one order explains every shard and real time", "in the order they were sent"];
    assert_found(&expected, || IN_PLACE.run::<MailboxSeemsEmpty>());
}

#[test]
fn a_group_that_is_scattered_is_seen_half() {
    assert_found(&["one order explains every shard and real time"], || MIXED.run::<ConnectionScatters>());
}

#[test]
fn a_group_that_is_scattered_and_given_up_is_left_half_there() {
    // It fills the mailboxes, so that the last group waits between its parts.
    let alone = Scenario { connections: 1, window: 8, slowness: 2, mix: Mix::ONLY_GROUPS, ..MIXED };
    let dying = Scenario { death: Death::InSend(3), ..alone };
    assert_found(&["on all of its shards or on none"], move || dying.run::<ConnectionScatters>());
}

#[test]
fn an_arming_that_wakes_nobody_leaves_its_shards_waiting() {
    assert_found(&["deadlock"], || MIXED.run::<ArmingWakesNobody>());
}

#[test]
fn a_shard_that_looks_once_misses_its_arming_or_its_state() {
    assert_found(&["deadlock"], scenario::one_group::<LooksOnce>);
    assert_found(&["deadlock"], scenario::one_rendezvous::<LooksOnce>);
}

#[test]
fn a_rendezvous_that_starts_before_the_last_arrives_misses_a_state() {
    assert_found(&["the last to arrive finds every state"], || OVERLAPPING.run::<RendezvousStartsEarly>());
}

#[test]
fn states_that_go_home_to_other_shards_are_seen() {
    let expected = ["a batch goes to the shard it was sent to", "every state is home at the end"];
    assert_found(&expected, || MIXED.run::<StatesGoAstray>());
    assert_found(&["every state is home at the end"], scenario::one_rendezvous::<StatesGoAstray>);
}

#[test]
fn a_port_that_sends_past_its_groups_loses_its_order() {
    assert_found(&["in the order they were sent"], || MIXED.run::<ConnectionSendsPastItsGroups>());
}

#[test]
fn a_part_that_runs_twice_is_seen_by_the_shard() {
    assert_found(&["a batch is executed once"], || MIXED.run::<ConnectionSendsAPartAgain>());
}

#[test]
fn the_same_seed_finds_the_same_failure() {
    let failure = || failure_of(Scheduler::Random, SCHEDULES, || TIGHT.run::<MailboxReorders>());
    assert_eq!(failure(), failure());
}
