//! Histories: the operations of concurrent clients, and their times.

use crate::scenario::Running;
use harness::Client;
use std::sync::Barrier;
use std::time::Instant;

/// Clients that work at the same time.
pub const CLIENTS: usize = 16;

/// An operation of a client, between two times.
///
/// Invariant: `invoked_ns <= returned_ns`, both from the one clock of the history, so that the times of different
/// clients compare.
#[derive(Debug, Clone)]
pub struct Recorded<T> {
    pub client: usize,
    pub invoked_ns: u64,
    pub returned_ns: u64,
    pub what: T,
}

/// What one client needs to take part.
pub struct Participant {
    pub number: usize,
    pub connection: Client,
    pub random: fastrand::Rng,
    clock: Instant,
}

impl Participant {
    /// Runs an operation and records its times.
    pub fn record<T>(&mut self, act: impl FnOnce(&mut Client) -> T) -> Recorded<T> {
        let invoked_ns = self.now_ns();
        let what = act(&mut self.connection);
        Recorded { client: self.number, invoked_ns, returned_ns: self.now_ns(), what }
    }

    fn now_ns(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }
}

/// Runs all clients at once, and returns the result of each, client by client.
pub fn on_every_client<T: Send>(
    running: &Running,
    clients: usize,
    seed: u64,
    play: impl Fn(Participant) -> T + Sync,
) -> Vec<T> {
    let (clock, barrier) = (Instant::now(), Barrier::new(clients));
    let participants = (0..clients).map(|number| {
        let random = fastrand::Rng::with_seed(seed.wrapping_mul(31).wrapping_add(number as u64));
        Participant { number, connection: running.client(), random, clock }
    });
    let participants: Vec<_> = participants.collect();
    let take_part = |participant| {
        barrier.wait();
        play(participant)
    };
    std::thread::scope(|scope| {
        let take_part = &take_part;
        let spawn = |participant| scope.spawn(move || take_part(participant));
        let threads: Vec<_> = participants.into_iter().map(spawn).collect();
        threads.into_iter().map(|thread| thread.join().expect("a client panicked")).collect()
    })
}

/// The beginning or the end of an operation, for checkers that read a history as a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Invoked,
    Returned,
}

/// Both ends of all operations, ordered by time, each with the index of the operation.
///
/// An invocation at the very moment of another operation's return counts as concurrent with it: the clock cannot
/// distinguish them.
pub fn in_order_of_time<T>(history: &[Recorded<T>]) -> Vec<(usize, End)> {
    let ends = history.iter().enumerate().flat_map(|(index, recorded)| {
        [(recorded.invoked_ns, 0, index, End::Invoked), (recorded.returned_ns, 1, index, End::Returned)]
    });
    let mut ends: Vec<_> = ends.collect();
    ends.sort_by_key(|&(at_ns, rank, index, _)| (at_ns, rank, index));
    ends.into_iter().map(|(_, _, index, end)| (index, end)).collect()
}

/// Whether some order of all operations keeps real time and is accepted: tries every order, so only for a few. The
/// checkers are compared with this. `accepts` judges the beginning of an order; one that it refuses is not continued.
pub fn some_order_is_accepted<T>(history: &[Recorded<T>], accepts: impl Fn(&[&T]) -> bool) -> bool {
    continue_order(history, &mut Vec::new(), &accepts)
}

fn continue_order<T>(history: &[Recorded<T>], order: &mut Vec<usize>, accepts: &impl Fn(&[&T]) -> bool) -> bool {
    let chosen: Vec<&T> = order.iter().map(|&index| &history[index].what).collect();
    if !accepts(&chosen) {
        return false;
    }
    let left: Vec<usize> = (0..history.len()).filter(|index| !order.contains(index)).collect();
    let first_return_ns = left.iter().map(|&index| history[index].returned_ns).min();
    left.is_empty()
        || left.iter().any(|&index| {
            // Operations that returned before this one was invoked must come first.
            if Some(history[index].invoked_ns) > first_return_ns {
                return false;
            }
            order.push(index);
            let is_accepted = continue_order(history, order, accepts);
            order.pop();
            is_accepted
        })
}
