//! A distribution of durations: the one histogram for the server's own times.
//!
//! Durations are in ticks ([`crate::base::tsc`]). The buckets are those of HDR histograms, eight to a doubling, so
//! that a bucket is an eighth of its value wide at most; a count is an index from the position of the highest bit and
//! the three bits below it.

use crate::base::narrowing::{size, whole_u64};
use crate::base::tsc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Eight for each doubling, up to 2^41 ticks.
const BUCKETS: usize = 312;

/// Counts of durations that are recorded while other threads read them.
#[derive(Debug)]
pub struct Counts([AtomicU64; BUCKETS]);

/// Counts of durations at one time.
#[derive(Debug, Default, Clone)]
pub struct Histogram(Vec<u64>);

/// Adds to a counter that only this thread changes.
#[inline]
pub fn add(counter: &AtomicU64, value: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(value), Ordering::Relaxed);
}

impl Default for Counts {
    fn default() -> Self {
        Self::new()
    }
}

impl Counts {
    /// No durations.
    pub const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; BUCKETS])
    }

    /// Records a duration. Only one thread may call this. O(1), no shared cache line.
    #[inline]
    pub fn note(&self, ticks: u64) {
        add(&self.0[bucket_of(ticks)], 1);
    }

    /// Records a duration from one of several threads. O(1)
    #[inline]
    pub fn note_among_others(&self, ticks: u64) {
        self.0[bucket_of(ticks)].fetch_add(1, Ordering::Relaxed);
    }

    /// Removes all durations that were recorded by [`note_among_others`](Self::note_among_others).
    pub fn reset(&self) {
        self.0.iter().for_each(|count| count.store(0, Ordering::Relaxed));
    }
}

impl Histogram {
    /// Adds what was counted.
    pub fn add(&mut self, counts: &Counts) {
        self.0.resize(BUCKETS, 0);
        self.0.iter_mut().zip(&counts.0).for_each(|(sum, count)| *sum += count.load(Ordering::Relaxed));
    }

    /// Subtracts other counts, of about the same time or of an earlier one.
    pub fn take_off(&mut self, before: &Self) {
        self.0.iter_mut().zip(&before.0).for_each(|(count, before)| *count = count.saturating_sub(*before));
    }

    /// How many durations were counted.
    pub fn len(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The duration in ticks that this share of all durations does not exceed, to an eighth.
    pub fn quantile(&self, share: f64) -> u64 {
        let wanted = whole_u64((self.len() as f64 * share).ceil()).max(1);
        let mut seen = 0;
        let bucket = self.0.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        bucket.map_or(0, |bucket| start_of(bucket + 1) - 1)
    }

    /// For each of Redis's bounds in microseconds, from the first with a duration to the last: how many certainly took
    /// no longer. A bucket with durations on both sides of a bound counts for the next one.
    pub fn by_bounds(&self) -> Vec<(u64, u64)> {
        self.by_bounds_at(tsc::per_us() / 1000.0)
    }

    fn by_bounds_at(&self, ticks_per_ns: f64) -> Vec<(u64, u64)> {
        let mut bounds: Vec<(u64, u64)> = Vec::new();
        let mut seen = 0;
        for (bucket, count) in self.0.iter().enumerate().filter(|(_, count)| **count > 0) {
            seen += count;
            let longest_ns = whole_u64(((start_of(bucket + 1) - 1) as f64 / ticks_per_ns).ceil());
            let bound_us = bound_ns(longest_ns) / 1000;
            match bounds.last_mut() {
                Some((last, sum)) if *last == bound_us => *sum = seen,
                _ => bounds.push((bound_us, seen)),
            }
        }
        bounds
    }
}

/// The least of Redis's bounds that a duration does not exceed. Its histogram keeps two digits of a number of
/// nanoseconds, where 1024 to 1031 are the same; its bounds are the last of these, and of those of each doubling.
fn bound_ns(ns: u64) -> u64 {
    const PAST_FIRST_NS: u64 = 1032;
    PAST_FIRST_NS * (ns + 1).div_ceil(PAST_FIRST_NS).next_power_of_two() - 1
}

/// The bucket of a duration.
#[inline]
fn bucket_of(ticks: u64) -> usize {
    if ticks < 8 {
        return size(ticks);
    }
    let shift = (60 - ticks.leading_zeros()) as usize;
    ((shift << 3) + size(ticks >> shift)).min(BUCKETS - 1)
}

/// The least duration of a bucket.
fn start_of(bucket: usize) -> u64 {
    if bucket < 16 {
        return bucket as u64;
    }
    (8 + (bucket & 7) as u64) << ((bucket >> 3) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_lies_in_its_bucket() {
        for ticks in (0..5000).chain([1 << 20, (1 << 33) + 12345, 1 << 40]) {
            let bucket = bucket_of(ticks);
            assert!(start_of(bucket) <= ticks && ticks < start_of(bucket + 1), "{ticks} in {bucket}");
            assert!(start_of(bucket + 1) - start_of(bucket) <= 1 + ticks / 8, "{bucket} is too wide");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn bounds_are_those_of_redis_and_no_counted_duration_exceeds_its_own() {
        const REDIS_US: [u64; 13] = [1, 2, 4, 8, 16, 33, 66, 132, 264, 528, 1056, 2113, 4227];
        let bound_us = |us: u64| bound_ns(us * 1000) / 1000;
        assert_eq!(REDIS_US.map(bound_us), REDIS_US);
        assert_eq!([0, 1031, 1032, 33_023, 33_024].map(bound_ns), [1031, 1031, 2063, 33_023, 66_047]);
        let mut histogram = Histogram(vec![0; BUCKETS]);
        for ns in [500, 900, 1030, 5000, 34_000] {
            histogram.0[bucket_of(ns)] += 1;
        }
        // 1030 shares its bucket with 1151.
        assert_eq!(histogram.by_bounds_at(1.0), [(1, 2), (2, 3), (8, 4), (66, 5)]);
    }

    #[test]
    fn quantiles_come_from_the_counts() {
        let mut histogram = Histogram(vec![0; BUCKETS]);
        histogram.0[bucket_of(100)] = 99;
        histogram.0[bucket_of(1_000_000)] = 1;
        assert!((100..=112).contains(&histogram.quantile(0.5)));
        assert!((100..=112).contains(&histogram.quantile(0.99)));
        assert!((1_000_000..1_130_000).contains(&histogram.quantile(0.999)));
        assert_eq!(histogram.len(), 100);
    }
}
