//! What the connections asked for, and the reckoning at the end.
//!
//! Each shard tells the requests that it has executed, in order. All was well when there is one order of all requests
//! that agrees with every shard and with real time, and in which each request sees what it saw: strict serializability.
//! Every executed request takes part, also one that died on its way and whose connection never knew.

use crate::shard::{Id, Place, Visit};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Shared by the connections of a scenario.
#[derive(Debug, Default)]
pub struct Ledger(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    /// Counts what is entered. One task runs at a time, so this is real time.
    now: u64,
    requests: BTreeMap<Id, Request>,
}

#[derive(Debug)]
struct Request {
    shards: Vec<usize>,
    begun: u64,
    is_accepted: bool,
    end: Option<End>,
}

#[derive(Debug)]
struct End {
    at: u64,
    seen: Vec<Place>,
}

impl Ledger {
    /// A connection is about to send a request.
    pub fn begin(&self, id: Id, shards: Vec<usize>) {
        let mut entries = self.entries();
        entries.now += 1;
        let request = Request { shards, begun: entries.now, is_accepted: false, end: None };
        let previous = entries.requests.insert(id, request);
        assert!(previous.is_none(), "each request has a number of its own");
    }

    /// The port has taken it.
    pub fn accept(&self, id: Id) {
        self.entries().requests.get_mut(&id).expect("it was begun").is_accepted = true;
    }

    /// All of it is home, with what it saw.
    pub fn end(&self, id: Id, seen: Vec<Place>) {
        let mut entries = self.entries();
        entries.now += 1;
        let at = entries.now;
        let previous = entries.requests.get_mut(&id).expect("it was begun").end.replace(End { at, seen });
        assert!(previous.is_none(), "a request ends once");
    }

    /// Checks everything, when the shards have ended.
    pub fn reckon(&self, histories: &[Vec<Visit>]) {
        let Entries { requests, .. } = &*self.entries();
        let mut executed: BTreeMap<Id, Vec<Option<usize>>> = BTreeMap::new();
        for (shard, history) in histories.iter().enumerate() {
            for (position, visit) in history.iter().enumerate() {
                let positions = executed.entry(visit.id).or_insert_with(|| vec![None; histories.len()]);
                let previous = positions[shard].replace(position);
                assert!(previous.is_none(), "a batch is executed once: {:?} on shard {shard}", visit.id);
            }
        }
        for (id, request) in requests {
            request.check_is_whole(*id, executed.get(id));
        }
        check_relative_order(&executed);
        replay_in_one_order(requests, executed, histories);
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Request {
    fn check_is_whole(&self, id: Id, positions: Option<&Vec<Option<usize>>>) {
        let Some(positions) = positions else {
            return assert!(!self.is_accepted, "what a mailbox accepts is executed: {id:?} is not");
        };
        for (shard, position) in positions.iter().enumerate() {
            let (is, should_be) = (position.is_some(), self.shards.contains(&shard));
            assert_eq!(is, should_be, "a request is executed on all of its shards or on none: {id:?} on shard {shard}");
        }
    }

    /// Whether it was over before `other` began.
    fn precedes(&self, other: &Self) -> bool {
        self.end.as_ref().is_some_and(|end| end.at < other.begun)
    }
}

fn check_relative_order(executed: &BTreeMap<Id, Vec<Option<usize>>>) {
    for (id, positions) in executed {
        for (other, others) in executed.range(..id) {
            let mut orders = positions.iter().zip(others).filter_map(|(a, b)| Some(a.as_ref()? < b.as_ref()?));
            let first = orders.next();
            assert!(
                orders.all(|order| Some(order) == first),
                "two requests stand in the same order on every shard that has both: {id:?} and {other:?}"
            );
        }
    }
}

/// Takes request after request that nothing has to come before, and executes it again on registers of its own.
fn replay_in_one_order(
    requests: &BTreeMap<Id, Request>,
    mut left: BTreeMap<Id, Vec<Option<usize>>>,
    histories: &[Vec<Visit>],
) {
    let mut next = vec![0; histories.len()];
    let mut registers = vec![None; histories.len()];
    while !left.is_empty() {
        let is_next = |positions: &[Option<usize>]| {
            positions.iter().zip(&next).all(|(position, next)| position.is_none_or(|position| position == *next))
        };
        let is_begun_before_others_end =
            |id: &Id| !left.keys().any(|other| requests[other].precedes(&requests[id]) && other != id);
        let (&id, _) =
            left.iter().find(|(id, positions)| is_next(positions) && is_begun_before_others_end(id)).unwrap_or_else(
                || panic!("one order explains every shard and real time: none does from {next:?} of {histories:?}"),
            );
        left.remove(&id);
        for place in requests[&id].end.iter().flat_map(|end| &end.seen) {
            assert_eq!(place.seen, registers[place.shard], "a request sees what was written last: {id:?} {place:?}");
        }
        for &shard in &requests[&id].shards {
            if histories[shard][next[shard]].is_write {
                registers[shard] = Some(id);
            }
            next[shard] += 1;
        }
    }
}
