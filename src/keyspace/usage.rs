//! How recently, or how often, a key is used, in 27 bits of its node; and which of two keys is evicted first.
//!
//! Under most policies the bits are the second of the last use. Under the LFU policies they are a counter of 8 bits,
//! and the minute in which it was last read. The counter is logarithmic, as that of R. Morris ("Counting large numbers
//! of events in small registers", 1978), with Redis's parameters: a use adds one with probability `1 / ((counter - 5) *
//! lfu-log-factor + 1)`, and every `lfu-decay-time` minutes without a use take one away. If the policy changes between
//! the two kinds, the bits are misread until the key is used again.

use crate::base::narrowing::{low_u8, low_u32, size};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// How many bits there are.
pub const BITS: u32 = u32::BITS - 5;
const MASK: u32 = (1 << BITS) - 1;
const COUNTER_BITS: u32 = 8;
const MINUTE_MASK: u32 = MASK >> COUNTER_BITS;

/// `maxmemory-policy`: which keys are evicted first when memory is short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Policy {
    /// Of the expiring keys, those unused for longest.
    VolatileLru,
    /// Of the expiring keys, those used least often.
    VolatileLfu,
    /// Of the expiring keys, any.
    VolatileRandom,
    /// Of the expiring keys, those that expire first.
    VolatileTtl,
    /// Those unused for longest.
    AllkeysLru,
    /// Those used least often.
    AllkeysLfu,
    /// Any.
    AllkeysRandom,
    /// None.
    Noeviction,
}

/// Which keys of a server are evicted first when memory is short.
#[derive(Debug)]
pub struct Eviction {
    policy: AtomicU8,
    /// `maxmemory-samples`: how many keys are sampled to find one to evict.
    pub samples: AtomicU32,
    /// `lfu-log-factor`
    pub lfu_log_factor: AtomicU32,
    /// `lfu-decay-time`, in minutes; 0 for never.
    pub lfu_decay_time: AtomicU32,
}

impl Default for Eviction {
    fn default() -> Self {
        Self {
            policy: AtomicU8::new(Policy::Noeviction as u8),
            samples: AtomicU32::new(5),
            lfu_log_factor: AtomicU32::new(10),
            lfu_decay_time: AtomicU32::new(1),
        }
    }
}

impl Eviction {
    /// The current policy.
    #[inline]
    pub fn policy(&self) -> Policy {
        Policy::ALL[usize::from(self.policy.load(Ordering::Relaxed))]
    }

    /// Sets the policy.
    pub fn set_policy(&self, policy: Policy) {
        self.policy.store(policy as u8, Ordering::Relaxed);
    }

    /// How uses of keys are recorded now.
    #[inline]
    pub fn usage(&self) -> Usage {
        if self.policy().counts_uses() { Usage::Counter(self.counting()) } else { Usage::LastUse }
    }

    /// The same, if the policy depends on it.
    pub fn needed_usage(&self) -> Option<Usage> {
        let policy = self.policy();
        (policy.counts_uses() || policy.needs_last_use()).then(|| self.usage())
    }

    /// The parameters for counting uses.
    pub fn counting(&self) -> Counting {
        Counting {
            log_factor: self.lfu_log_factor.load(Ordering::Relaxed),
            decay_time: self.lfu_decay_time.load(Ordering::Relaxed),
        }
    }
}

/// What the bits of a node say about its uses, under the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    /// The second of the last one.
    LastUse,
    /// How often it is used.
    Counter(Counting),
}

/// The parameters for counting uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counting {
    /// See [`Eviction::lfu_log_factor`].
    pub log_factor: u32,
    /// See [`Eviction::lfu_decay_time`].
    pub decay_time: u32,
}

impl Policy {
    const ALL: [Self; 8] = [
        Self::VolatileLru,
        Self::VolatileLfu,
        Self::VolatileRandom,
        Self::VolatileTtl,
        Self::AllkeysLru,
        Self::AllkeysLfu,
        Self::AllkeysRandom,
        Self::Noeviction,
    ];

    /// All names, in the order in which Redis lists them. An allocator that does not report freed memory would not know
    /// when to stop.
    pub const NAMES: &[&str] = if cfg!(feature = "jemalloc") {
        &[
            "volatile-lru",
            "volatile-lfu",
            "volatile-random",
            "volatile-ttl",
            "allkeys-lru",
            "allkeys-lfu",
            "allkeys-random",
            "noeviction",
        ]
    } else {
        &["noeviction"]
    };

    /// The policy at this position of [`NAMES`](Self::NAMES).
    pub fn from_number(number: u64) -> Self {
        let others = Self::ALL.len() - Self::NAMES.len();
        Self::ALL[(size(number) + others).min(Self::ALL.len() - 1)]
    }

    /// Whether it evicts anything.
    pub fn evicts(self) -> bool {
        self != Self::Noeviction
    }

    /// Whether it evicts only keys that expire.
    pub fn spares_lasting(self) -> bool {
        matches!(self, Self::VolatileLru | Self::VolatileLfu | Self::VolatileRandom | Self::VolatileTtl)
    }

    /// Whether it depends on how long a key has not been used.
    fn needs_last_use(self) -> bool {
        matches!(self, Self::VolatileLru | Self::AllkeysLru)
    }

    /// Whether it depends on how often a key is used.
    #[inline]
    pub fn counts_uses(self) -> bool {
        matches!(self, Self::VolatileLfu | Self::AllkeysLfu)
    }
}

/// What a snapshot, or RESTORE, says about the uses of a key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FormerUse {
    /// For how many seconds the key counts as unused.
    pub idle_s: Option<u64>,
    /// The value of its counter of uses.
    pub frequency: Option<u8>,
}

/// A counter of uses, and when it was last read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frequency {
    counter: u8,
    minute: u32,
}

impl Frequency {
    /// The counter of a new key: an unused key goes to 0, and a new one has a chance before that.
    pub const FIRST: u8 = 5;

    /// A counter with its value in this second of Unix time.
    pub fn new(counter: u8, second: u64) -> Self {
        Self { counter, minute: minute_of(second) }
    }

    /// The counter with these [`bits`](Self::bits).
    pub fn from_bits(bits: u32) -> Self {
        Self { counter: low_u8(bits.into()), minute: bits >> COUNTER_BITS & MINUTE_MASK }
    }

    /// The counter in 27 bits.
    pub fn bits(self) -> u32 {
        self.minute << COUNTER_BITS | u32::from(self.counter)
    }

    /// The decayed value of the counter in this second.
    pub fn at(self, second: u64, counting: Counting) -> u8 {
        self.decayed(second, counting.decay_time)
    }

    /// The counter after a use in this second.
    pub fn used(self, second: u64, counting: Counting, random: &mut fastrand::Rng) -> Self {
        let counter = self.at(second, counting);
        let is_counted = random.f64() < chance(counter, counting.log_factor);
        Self::new(counter.saturating_add(u8::from(is_counted)), second)
    }

    fn decayed(self, second: u64, minutes_per_step: u32) -> u8 {
        let minutes = passed(self.minute, minute_of(second), MINUTE_MASK);
        let steps = minutes.checked_div(minutes_per_step).unwrap_or(0);
        self.counter.saturating_sub(u8::try_from(steps).unwrap_or(u8::MAX))
    }
}

/// The probability that a use counts.
fn chance(counter: u8, log_factor: u32) -> f64 {
    let above = counter.saturating_sub(Frequency::FIRST);
    1.0 / (f64::from(above) * f64::from(log_factor) + 1.0)
}

fn minute_of(second: u64) -> u32 {
    low_u32(second / 60) & MINUTE_MASK
}

/// For how many seconds a key has not been used, if its bits are the second of its last use.
pub fn idle_seconds(bits: u32, second: u64) -> u32 {
    passed(bits, low_u32(second), MASK)
}

/// How much has passed since `before`, if only the lower bits of times are known. A time ahead of now, by up to an
/// eighth of the range, is not long ago: the clock was set back.
fn passed(before: u32, now: u32, mask: u32) -> u32 {
    let passed = now.wrapping_sub(before) & mask;
    if passed > mask - mask / 8 { 0 } else { passed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const COUNTING: Counting = Counting { log_factor: 10, decay_time: 1 };

    /// Redis's table for a factor of 10: 100 uses bring the counter to about 10, 1000 to about 18, 100,000 to about
    /// 142.
    #[test]
    fn the_counter_grows_with_the_logarithm_of_the_uses() {
        for (uses, expected) in [(100, 8..=13), (1000, 15..=21), (100_000, 125..=160), (1_000_000, 254..=255)] {
            let mut random = fastrand::Rng::with_seed(7);
            let mut frequency = Frequency::new(Frequency::FIRST, 0);
            (0..uses).for_each(|_| frequency = frequency.used(0, COUNTING, &mut random));
            assert!(expected.contains(&frequency.at(0, COUNTING)), "{uses} uses: {}", frequency.at(0, COUNTING));
        }
    }

    #[test]
    fn a_time_ahead_is_none_long_ago() {
        const NOW: u64 = 1_700_000_000;
        const HOUR: u64 = 3600;
        for (used, idle) in [(NOW, 0), (NOW - HOUR, 3600), (NOW + HOUR, 0), (NOW + 4000 * HOUR, 0)] {
            assert_eq!(idle_seconds(used as u32 & MASK, NOW), idle, "used {used}");
        }
        assert_eq!(Frequency::new(77, NOW + HOUR).decayed(NOW, 1), 77);
        assert_eq!(Frequency::new(77, NOW - HOUR).decayed(NOW, 1), 17);
    }

    #[test]
    fn a_use_counts_with_the_probability_of_the_formula() {
        assert_eq!([chance(0, 10), chance(5, 10), chance(255, 0)], [1.0; 3]);
        assert_eq!([chance(6, 10), chance(15, 10), chance(15, 1)], [1.0 / 11.0, 1.0 / 101.0, 1.0 / 11.0]);
    }

    #[test]
    fn a_policy_is_the_one_that_its_name_says() {
        let policies: Vec<Policy> = (0..Policy::NAMES.len() as u64).map(Policy::from_number).collect();
        assert_eq!(policies.last(), Some(&Policy::Noeviction));
        for (policy, name) in policies.into_iter().zip(Policy::NAMES) {
            assert_eq!(policy.spares_lasting(), name.starts_with("volatile"));
            assert_eq!(policy.counts_uses(), name.ends_with("lfu"));
            assert_eq!(policy.needs_last_use(), name.ends_with("lru"));
        }
    }

    proptest! {
        #[test]
        fn bits_keep_a_counter(counter: u8, second in 0u64..1 << 40) {
            let frequency = Frequency::new(counter, second);
            prop_assert!(frequency.bits() <= MASK);
            prop_assert_eq!(Frequency::from_bits(frequency.bits()), frequency);
        }

        #[test]
        fn every_step_of_minutes_takes_one_away(counter: u8, start in 0u64..1 << 33, minutes in 0u64..1000, step in 0u32..9) {
            let frequency = Frequency::new(counter, start * 60);
            let steps = if step == 0 { 0 } else { minutes / u64::from(step) };
            let left = u64::from(counter).saturating_sub(steps) as u8;
            prop_assert_eq!(frequency.decayed((start + minutes) * 60, step), left);
        }

        #[test]
        fn a_use_adds_one_at_most_and_takes_nothing(counter: u8, seed: u64) {
            let mut random = fastrand::Rng::with_seed(seed);
            let used = Frequency::new(counter, 60).used(60, COUNTING, &mut random);
            prop_assert!((counter..=counter.saturating_add(1)).contains(&used.counter));
            if counter <= Frequency::FIRST {
                prop_assert_eq!(used.counter, counter + 1);
            }
        }
    }
}
