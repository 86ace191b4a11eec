//! Bugs on purpose: each has to be found, by both schedulers, and for its own reason.

use crate::TIGHT;
use crate::channels::Fault;
use crate::explore::{Scheduler, failure_of};
use crate::scenario::{self, Scenario};

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

/// Schedules within which a planted bug has to show.
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

#[test]
fn the_same_seed_finds_the_same_failure() {
    let failure = || failure_of(Scheduler::Random, SCHEDULES, || TIGHT.run::<MailboxReorders>());
    assert_eq!(failure(), failure());
}
