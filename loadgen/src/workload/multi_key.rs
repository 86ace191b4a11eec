//! The keys of commands over several keys, chosen so that a given share of these commands crosses shards and the rest
//! does not.
//!
//! Keys come in tags, `K` members to a tag, where `K` is the number of keys of a command:
//!
//! ```text
//! memtier-{1}:0  memtier-{1}:1      one shard: all members of one tag
//! memtier-{7}:0  memtier-{42}:1     across shards: a member each of tags drawn freely
//! ```
//!
//! Either way a command asks for the k-th member of a tag as its k-th key, and for tags as the
//! pattern has them: each key is as popular at any share, and a share only changes which keys are requested together.

use std::num::NonZeroUsize;

use crc::{CRC_16_XMODEM, Crc};
use rand::RngExt;
use rand::rngs::SmallRng;

use super::keys::{KeyRange, KeySource};
use crate::base::turns::Turns;

/// The slots that Redis Cluster divides keys into, by the hash of their tag.
pub(crate) const SLOTS: usize = 16384;

/// After this many draws of a tag, the next suitable tag of the range is taken: a pattern with hardly any tag but one
/// must not stop the generator.
const DRAWS_MAX: usize = 64;

static CRC16: Crc<u16> = Crc::<u16>::new(&CRC_16_XMODEM);

/// The commands over several keys. Keys are then named `PREFIX{tag}:member`, with as many members to a tag as a command
/// has keys.
///
/// Invariants: a command has at least two keys; the key numbers are a whole number of tags; if commands cross shards,
/// the tags are on at least two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MultiKey {
    /// Keys of a command.
    pub keys_per_command: NonZeroUsize,
    /// How many of a hundred commands take several keys.
    pub percent: u32,
    /// How many of a hundred of those have keys on several shards.
    pub cross_shard_percent: u32,
    /// Shards of the target: it owns a key by slot modulo this number.
    pub target_shards: NonZeroUsize,
}

/// The choices of one thread. Invariant: `drawn` has a place for each key of a command.
#[derive(Debug)]
pub(crate) struct MultiKeyDraw {
    sets: Choices,
    gets: Choices,
    tags: KeyRange,
    stride: u64,
    shards: NonZeroUsize,
    drawn: Vec<u64>,
}

/// Which of the SETs, or of the GETs, take several keys, and which of those cross shards. Each
/// kind has turns of its own: if they were shared, an even ratio could make all crossing commands writes.
#[derive(Debug)]
struct Choices {
    several: Turns,
    across: Turns,
}

impl MultiKeyDraw {
    /// A connection's tags are `stride` apart: 1, unless it is restricted to its own keys.
    pub(crate) fn new(multi_key: &MultiKey, tags: KeyRange, stride: u64) -> Self {
        let choices = || Choices {
            several: Turns::new(u64::from(multi_key.percent), 100),
            across: Turns::new(u64::from(multi_key.cross_shard_percent), 100),
        };
        Self {
            sets: choices(),
            gets: choices(),
            tags,
            stride,
            shards: multi_key.target_shards,
            drawn: vec![0; multi_key.keys_per_command.get()],
        }
    }

    /// A tag for each key of the next command; `None` if the next one is a command over one key.
    #[inline(never)]
    pub(crate) fn next(
        &mut self,
        is_set: bool,
        source: &mut KeySource,
        rng: &mut SmallRng,
        client: usize,
    ) -> Option<&[u64]> {
        let choices = if is_set { &mut self.sets } else { &mut self.gets };
        if !choices.several.next() {
            return None;
        }
        let is_across = choices.across.next();
        Some(self.tags(is_across, source, rng, client))
    }

    /// A tag for each key of a command over several: one for all, or tags of at least two shards.
    pub(crate) fn tags(
        &mut self,
        is_across: bool,
        source: &mut KeySource,
        rng: &mut SmallRng,
        client: usize,
    ) -> &[u64] {
        if is_across {
            self.draw_across(|| source.next(rng, client));
        } else {
            self.drawn.fill(source.next(rng, client));
        }
        &self.drawn
    }

    /// A member for a command over one key.
    pub(crate) fn member(&self, rng: &mut SmallRng) -> usize {
        rng.random_range(0..self.drawn.len())
    }

    /// Draws tags on at least two shards.
    fn draw_across(&mut self, mut draw: impl FnMut() -> u64) {
        self.drawn.fill_with(&mut draw);
        let shard = shard_of(self.drawn[0], self.shards);
        if self.drawn[1..].iter().all(|&tag| shard_of(tag, self.shards) == shard) {
            let last = self.drawn.last_mut().expect("a command over several keys has a last one");
            *last = tag_elsewhere(shard, self.shards, self.tags, self.stride, draw);
        }
    }
}

/// A tag that is not on `shard`: the first such draw. If all tags of a connection are on it, the last draw.
fn tag_elsewhere(
    shard: usize,
    shards: NonZeroUsize,
    tags: KeyRange,
    stride: u64,
    mut draw: impl FnMut() -> u64,
) -> u64 {
    let is_elsewhere = |tag: &u64| shard_of(*tag, shards) != shard;
    let mut last = tags.minimum;
    for _ in 0..DRAWS_MAX {
        last = draw();
        if is_elsewhere(&last) {
            return last;
        }
    }
    let first_own = tags.minimum + (last - tags.minimum) % stride;
    let steps = stride as usize;
    let following = (last..=tags.maximum).step_by(steps).chain((first_own..last).step_by(steps));
    following.into_iter().find(is_elsewhere).unwrap_or(last)
}

/// Whether any two of the tags are on different shards.
pub(crate) fn reach_two_shards(tags: KeyRange, shards: NonZeroUsize) -> bool {
    let shard = shard_of(tags.minimum, shards);
    (tags.minimum..=tags.maximum).any(|tag| shard_of(tag, shards) != shard)
}

/// The shard of all keys with this tag: their slot modulo the number of shards.
fn shard_of(tag: u64, shards: NonZeroUsize) -> usize {
    let mut digits = itoa::Buffer::new();
    usize::from(CRC16.checksum(digits.format(tag).as_bytes())) % SLOTS % shards
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;
    use crate::workload::keys::{Frontier, KeyPattern, Share};

    const TAGS: KeyRange = KeyRange { minimum: 1, maximum: 1000 };

    fn load(keys: usize, cross_shard_percent: u32, shards: usize) -> MultiKey {
        MultiKey {
            keys_per_command: NonZeroUsize::new(keys).expect("not zero"),
            percent: 100,
            cross_shard_percent,
            target_shards: NonZeroUsize::new(shards).expect("not zero"),
        }
    }

    fn source(pattern: KeyPattern) -> KeySource {
        let share = Share { thread: 0, threads: 1, first_client: 0, clients: 1, clients_total: 1 };
        KeySource::new(pattern, TAGS, share, &Frontier::of(TAGS))
    }

    fn shards_touched(tags: &[u64], shards: NonZeroUsize) -> usize {
        let mut touched: Vec<usize> = tags.iter().map(|&tag| shard_of(tag, shards)).collect();
        touched.sort_unstable();
        touched.dedup();
        touched.len()
    }

    #[test]
    fn slots_are_those_of_redis_cluster() {
        let slots = NonZeroUsize::new(SLOTS).expect("not zero");
        assert_eq!(shard_of(123_456_789, slots), 0x31c3);
    }

    #[test]
    fn exactly_the_share_that_was_asked_for_crosses_shards() {
        let mut rng = SmallRng::seed_from_u64(3);
        for pattern in [KeyPattern::Uniform, KeyPattern::Zipfian { exponent: 50.0 }, KeyPattern::Sequential] {
            for (keys, percent, shards) in [(2, 0, 2), (2, 1, 4), (8, 10, 2), (3, 50, 7), (2, 100, 2), (8, 100, SLOTS)]
            {
                let multi_key = load(keys, percent, shards);
                let (mut draw, mut source) = (MultiKeyDraw::new(&multi_key, TAGS, 1), source(pattern));
                let mut across = 0;
                for number in 0..2000 {
                    let tags = draw.next(number % 2 == 0, &mut source, &mut rng, 0).expect("all take several keys");
                    assert_eq!(tags.len(), keys);
                    across += u32::from(shards_touched(tags, multi_key.target_shards) > 1);
                }
                assert_eq!(across, 20 * percent, "{pattern:?}, {keys} keys, {shards} shards");
            }
        }
    }

    #[test]
    fn eight_keys_drawn_freely_reach_all_of_four_shards_most_often() {
        let multi_key = load(8, 100, 4);
        let mut rng = SmallRng::seed_from_u64(3);
        let (mut draw, mut source) = (MultiKeyDraw::new(&multi_key, TAGS, 1), source(KeyPattern::Uniform));
        let mut touched = || {
            let tags = draw.next(true, &mut source, &mut rng, 0).expect("all take several keys");
            shards_touched(tags, multi_key.target_shards) as f64
        };
        let mean = (0..10_000).map(|_| touched()).sum::<f64>() / 10_000.0;
        // 4 (1 - 0.75^8), and a little for the draws that may not all be on one shard.
        assert!((mean - 3.6).abs() < 0.05, "{mean}");
    }

    #[test]
    fn tags_that_all_lie_on_one_shard_are_found_out() {
        let four = NonZeroUsize::new(4).expect("not zero");
        assert!(reach_two_shards(TAGS, four));
        assert!(!reach_two_shards(KeyRange { minimum: 7, maximum: 7 }, four));
        assert!(!reach_two_shards(TAGS, NonZeroUsize::MIN));
    }
}
