//! Evicts one key: of a few sampled keys, the one that the policy values least, as Redis does.
//!
//! The owner of the keys calls this as often as memory requires; see `crate::base::pressure` for when that is.

use super::deadlines::Deadlines;
use super::hashing::hash_of;
use super::usage::Policy;
use super::{Class, Keyspace, Store, Tracking};
use crate::keyspace::raw::node::Node;
use std::sync::atomic::Ordering;

/// If a store holds this many keys per expiring key, drawing any key until one expires takes too long.
pub const RARE: usize = 16;
/// How many keys are drawn to find one that expires: the chance that none does, if they are not rare, is below 2 %.
const DRAWS: usize = 4 * RARE;

/// A store that keys are evicted from: all of an owner's, or the part protected by one lock.
pub trait Evictable: Store {
    /// How many keys of a database may be evicted; only expiring ones if keys without a TTL are spared.
    fn evictable(&self, database: usize, spares_lasting: bool) -> usize;
    /// A random node of the selected database that may be evicted. O(1) expected; if few keys expire, O(log n), and
    /// keys whose deadlines are far from others are more likely.
    fn sample(&self, spares_lasting: bool, random: &mut fastrand::Rng) -> Option<&Node>;
    /// The earliest deadline of the selected database, with the hash of its key.
    fn first_deadline_here(&self) -> Option<(u64, u64)>;

    /// Copies the name of the key to evict into `victim`: the worst of some samples; false if there is none.
    fn choose(&self, policy: Policy, second: u64, random: &mut fastrand::Rng, victim: &mut Vec<u8>) -> bool {
        let eviction = &self.instance().settings.eviction;
        let samples = match policy {
            Policy::AllkeysRandom | Policy::VolatileRandom => 1,
            _ => eviction.samples.load(Ordering::Relaxed),
        };
        let counting = eviction.counting();
        let mut worst = None;
        for _ in 0..samples {
            let Some(node) = self.sample(policy.spares_lasting(), random) else { break };
            let rank = match policy.counts_uses() {
                true => u32::from(u8::MAX - node.frequency(second, counting)),
                false => node.idle_seconds(second),
            };
            if worst.is_none_or(|worst| rank > worst) {
                worst = Some(rank);
                victim.clear();
                victim.extend_from_slice(node.key());
            }
        }
        worst.is_some()
    }

    /// Removes and returns the node that expires first: its deadline is known.
    fn remove_first(&mut self) -> Option<Node> {
        while let Some(deadline) = self.first_deadline_here() {
            // A deadline may be without its key.
            let node = self.remove_due(deadline);
            if node.is_some() {
                return node;
            }
        }
        None
    }
}

/// Draws a node that may be evicted from a table with these deadlines: `any` draws any node, `of_deadline` finds one.
pub fn draw<'n>(
    (nodes, deadlines): (usize, &Deadlines),
    spares_lasting: bool,
    random: &mut fastrand::Rng,
    any: impl Fn(&mut fastrand::Rng) -> Option<&'n Node>,
    of_deadline: impl Fn((u64, u64)) -> Option<&'n Node>,
) -> Option<&'n Node> {
    if !spares_lasting {
        return any(random);
    }
    if deadlines.len().saturating_mul(RARE) >= nodes {
        let mut draws = (0..DRAWS).map_while(|_| any(random));
        let found = draws.find(|node| node.expire_at().is_some());
        if found.is_some() {
            return found;
        }
    }
    of_deadline(deadlines.draw(random)?)
}

impl<S: Evictable> Keyspace<S> {
    /// Evicts one key of the selected database; false if none may be evicted. `victim` is a buffer for its name.
    /// O(samples)
    pub fn evict_one(&mut self, policy: Policy, victim: &mut Vec<u8>) -> bool {
        let node = match policy {
            Policy::Noeviction => None,
            Policy::VolatileTtl => self.store.remove_first(),
            _ if self.store.choose(policy, self.turn.second(), &mut self.random, victim) => {
                self.store.remove_with_deadline(hash_of(victim), victim)
            }
            _ => None,
        };
        let Some(node) = node else { return false };
        // A key that is evicted though its time had come has not expired, as in Redis: it is counted once.
        self.report(node.key(), Tracking::NONE);
        self.notify(Class::EVICTED, "evicted", node.key());
        self.effects.add([b"DEL".as_slice(), node.key()]);
        true
    }
}
