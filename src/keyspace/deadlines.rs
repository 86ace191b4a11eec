//! When keys expire, ordered by time.
//!
//! Active expiration takes due keys from the front, so it finds every expired key at once and no other; Redis samples
//! instead. A deadline is 16 bytes and names its key by hash: the key itself is found in the table.

use crate::base::narrowing::whole_u64;
use std::collections::BTreeSet;

/// The deadlines of a part of the keyspace.
///
/// Invariants: for each node with an expiry there is a pair (expire_at, hash of its key). Two keys may share one.
/// `sum` is that of the deadlines of all pairs.
#[derive(Debug, Default)]
pub struct Deadlines {
    ordered: BTreeSet<(u64, u64)>,
    sum: u128,
}

impl Deadlines {
    /// Changes the deadline of the key with this hash.
    pub fn change(&mut self, hash: u64, old: Option<u64>, new: Option<u64>) {
        if old == new {
            return;
        }
        if let Some(at) = old {
            self.remove((at, hash));
        }
        if let Some(at) = new
            && self.ordered.insert((at, hash))
        {
            self.sum += u128::from(at);
        }
    }

    /// The sum of the deadlines.
    pub fn sum(&self) -> f64 {
        self.sum as f64
    }

    /// The earliest deadline and the hash of its key.
    pub fn first(&self) -> Option<(u64, u64)> {
        self.ordered.first().copied()
    }

    /// A random deadline. Those that are alone in a long stretch of time are more likely, and near stretches count as
    /// much as longer ones that are far, since deadlines are not spread evenly. O(log n)
    pub fn draw(&self, random: &mut fastrand::Rng) -> Option<(u64, u64)> {
        let (first, last) = (self.ordered.first()?.0, self.ordered.last()?.0);
        let span = ((last - first) as f64 + 1.0).ln();
        let at = first.saturating_add(whole_u64((random.f64() * span).exp()));
        // If many keys share it, any of them.
        let from = (at.saturating_sub(u64::from(random.bool())), random.u64(..));
        self.ordered.range(from..).next().or(self.ordered.last()).copied()
    }

    /// Removes and returns the deadlines of the keys whose hashes are chosen. O(n)
    pub fn split_off(&mut self, is_chosen: impl Fn(u64) -> bool) -> Self {
        let (chosen, rest) = std::mem::take(&mut self.ordered).into_iter().partition(|(_, hash)| is_chosen(*hash));
        let chosen = Self::of(chosen);
        self.ordered = rest;
        self.sum -= chosen.sum;
        chosen
    }

    /// Takes over the deadlines of other keys. O(n)
    pub fn unite(&mut self, mut other: Self) {
        let both = self.len() + other.len();
        self.ordered.append(&mut other.ordered);
        if self.len() == both {
            self.sum += other.sum;
        } else {
            *self = Self::of(std::mem::take(&mut self.ordered));
        }
    }

    fn of(ordered: BTreeSet<(u64, u64)>) -> Self {
        let sum = ordered.iter().map(|(at, _)| u128::from(*at)).sum();
        Self { ordered, sum }
    }

    /// Removes a deadline.
    pub fn remove(&mut self, deadline: (u64, u64)) {
        if self.ordered.remove(&deadline) {
            self.sum -= u128::from(deadline.0);
        }
    }

    /// How many keys have a deadline.
    pub fn len(&self) -> usize {
        self.ordered.len()
    }

    /// Whether no key has a deadline.
    pub fn is_empty(&self) -> bool {
        self.ordered.is_empty()
    }

    /// Removes all.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_mean_is_that_of_the_deadlines(changes: Vec<(u8, Option<u64>, Option<u64>)>, chosen: u8) {
            let mut deadlines = Deadlines::default();
            let is_right = |deadlines: &Deadlines| {
                let sum: u128 = deadlines.ordered.iter().map(|(at, _)| u128::from(*at)).sum();
                deadlines.sum == sum
            };
            for (hash, old, new) in changes {
                deadlines.change(u64::from(hash), old, new);
                prop_assert!(is_right(&deadlines));
            }
            let rest = deadlines.split_off(|hash| hash < u64::from(chosen));
            prop_assert!(is_right(&deadlines) && is_right(&rest));
            deadlines.unite(rest);
            prop_assert!(is_right(&deadlines));
        }

        #[test]
        fn a_deadline_is_drawn_where_there_is_one(all: Vec<(u64, u64)>, seed: u64) {
            let mut deadlines = Deadlines::default();
            all.iter().for_each(|&(at, hash)| deadlines.change(hash, None, Some(at)));
            let drawn = deadlines.draw(&mut fastrand::Rng::with_seed(seed));
            prop_assert!(drawn.map_or(all.is_empty(), |drawn| all.contains(&drawn)));
        }
    }

    #[test]
    fn near_and_far_deadlines_are_drawn() {
        let mut deadlines = Deadlines::default();
        // A hundred within a second, and a hundred within the year after it.
        (0..100u64).for_each(|n| deadlines.change(n, None, Some(1_000_000 + 10 * n)));
        (0..100u64).for_each(|n| deadlines.change(n, None, Some(1_001_000 + 300_000_000 * n)));
        let mut random = fastrand::Rng::with_seed(3);
        let drawn = (0..1000).filter_map(|_| deadlines.draw(&mut random));
        let near = drawn.filter(|(at, _)| *at < 1_001_000).count();
        assert!((200..400).contains(&near), "{near}");
    }
}
