//! Which request comes next, and its bytes.
//!
//! Two kinds of load share keys, values and encoding: *pairs* are SETs and GETs (of one key or
//! several) in a ratio, from the flags; a *mix* is any commands with weights, from a TOML file.

mod encoder;
pub mod file;
pub mod mix;
mod pairs;
mod template;

use crate::commands::CommandId;
use crate::config::Config;
use crate::keys::{Frontier, Share};

use crate::verify::Expected;
pub(crate) use encoder::Encoder;
use mix::Mix;
use pairs::Pairs;
pub(crate) use template::KeyNames;

/// The endless sequence of requests of one thread; the same for the same seed.
#[derive(Debug)]
pub struct Workload(Load);

// One for each thread: nothing is gained by a smaller one.
#[allow(clippy::large_enum_variant)]
#[derive(Debug)]
enum Load {
    Pairs(Pairs),
    Mix(Mix),
}

impl Workload {
    /// The requests of one thread. All threads of a run count their inserts on one frontier.
    pub fn new(config: &Config, share: Share, frontier: &Frontier) -> Self {
        let seed = config.seed.wrapping_add((share.thread as u64) << 32);
        Self(match &config.mix {
            Some(mix) => Load::Mix(Mix::new(config, mix, share, frontier, seed)),
            None => Load::Pairs(Pairs::new(config, share, frontier, seed)),
        })
    }

    /// Appends the next requests of connection number `client` of this thread, as long as they are
    /// of one command, at least one and at most `most`. Returns which command, and how many.
    #[inline]
    pub fn append_run(&mut self, out: &mut Vec<u8>, client: usize, most: u64) -> (CommandId, u64) {
        match &mut self.0 {
            Load::Pairs(pairs) => pairs.append_run(out, client, most),
            Load::Mix(mix) => (mix.append_next(out, client), 1),
        }
    }
}

impl Workload {
    /// The expected reply to the last request; `None` if replies are not verified.
    #[inline]
    pub(crate) fn expected(&self) -> Option<Expected> {
        match &self.0 {
            Load::Pairs(pairs) => pairs.expected(),
            Load::Mix(mix) => mix.expected(),
        }
    }
}

/// Spreads a part of the requests evenly among the others: exact in every `total`, without bursts.
///
/// Invariant: `owed < total`.
#[derive(Debug)]
pub(crate) struct Turns {
    part: u64,
    total: u64,
    owed: u64,
}

impl Turns {
    /// `part` of every `total` requests, of which there is at least one.
    pub(crate) fn new(part: u64, total: u64) -> Self {
        Self { part, total, owed: 0 }
    }

    /// Whether the next request belongs to the part.
    #[inline]
    pub(crate) fn next(&mut self) -> bool {
        self.owed += self.part;
        if self.owed < self.total {
            return false;
        }
        self.owed -= self.total;
        true
    }

    /// Whether the next request belongs to the part, and how many after it are the same; at most `most` in all.
    #[inline]
    pub(crate) fn next_run(&mut self, most: u64) -> (bool, u64) {
        let is_part = self.next();
        let mut count = 1;
        while count < most && (self.owed + self.part >= self.total) == is_part {
            self.next();
            count += 1;
        }
        (is_part, count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_exact_in_every_cycle_and_spread_within_it() {
        for (part, total) in [(1, 11), (10, 11), (5, 10), (3, 10), (0, 1), (1, 1), (1, 1000)] {
            let mut turns = Turns::new(part, total);
            for _ in 0..3 {
                let taken = (0..total).filter(|_| turns.next()).count();
                assert_eq!(taken as u64, part, "{part} of {total}");
            }
        }
        let (mut runs, mut turns) = (Turns::new(3, 10), Turns::new(3, 10));
        for most in 1..100 {
            let (is_part, count) = runs.next_run(most % 7);
            assert!(count <= (most % 7).max(1) && (0..count).all(|_| turns.next() == is_part));
        }
        let mut even = Turns::new(5, 10);
        assert!((0..10).all(|n| even.next() == (n % 2 == 1)));
    }
}
