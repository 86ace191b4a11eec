//! One keyspace under a lock, without the rest of an engine.

use super::super::connection::Waits;
use super::super::options::Options;
use super::super::targets::instance;
use super::locks::Exclusive;
use super::requests::Requests;
use super::under_lock::{Data, UnderLock};
use crate::base::clock::Clock;
use crate::commands::{self, CommandId, command};
use crate::keyspace::{Databases, Effects, Keyspace, hash_of};
use crate::resp::{Args, Reply};
use std::ops::Range;

/// How many commands are prefetched together, and from how many on: as in the engines.
const GROUP: usize = 16;
const GROUP_MIN: usize = 4;

/// What the connections share: a keyspace and the clock.
pub struct Owned {
    keyspace: Keyspace<Databases>,
    clock: Clock,
    prefetches: bool,
}

impl Owned {
    /// An empty keyspace.
    pub fn new(options: &Options) -> Self {
        let (instance, clock) = (instance(options.seed), Clock::default());
        let store = Databases::of_shard(&instance, 1, 0, 1);
        let random = fastrand::Rng::with_seed(options.seed);
        let keyspace = Keyspace::new(store, clock.now_ms(), random, Effects::new(false));
        Self { keyspace, clock, prefetches: options.prefetches() }
    }

    /// Runs a range of a batch's requests.
    pub fn run(&mut self, requests: &Requests, range: Range<usize>, out: &mut Vec<u8>) {
        let Self { keyspace, clock, prefetches } = self;
        keyspace.set_now(clock.now_ms());
        keyspace.timing.start();
        for (index, (id, args)) in range.clone().zip(requests.range(range.clone())) {
            let (done, left) = (index - range.start, range.end - index);
            keyspace.select(0);
            if *prefetches && done.is_multiple_of(GROUP) && left >= GROUP_MIN {
                fetch(keyspace, requests.range(index..range.end).take(GROUP));
            }
            commands::execute(id, keyspace, args, &mut Reply::new(out, false));
            // There is no slow log here.
            keyspace.timing.slow().clear();
        }
    }
}

/// Prefetches the nodes of the first keys of the next commands.
fn fetch<'a>(keyspace: &Keyspace<Databases>, ahead: impl Iterator<Item = (CommandId, Args<'a>)>) {
    let (mut hashes, mut count) = ([0; GROUP], 0);
    for (id, args) in ahead {
        if let Some(key) = args.get(usize::from(command(id).keys.first)) {
            hashes[count] = hash_of(key);
            count += 1;
        }
    }
    keyspace.store.table().prefetch(&hashes[..count]);
}

/// A client of a keyspace under a lock.
pub type Locked<L> = UnderLock<L, Owned>;

impl<L: Exclusive<Self>> Data<L> for Owned {
    fn run(lock: &L, waits: &mut Waits, requests: &Requests, range: Range<usize>, out: &mut Vec<u8>) {
        lock.with(waits, |owned| owned.run(requests, range, out));
    }
}
