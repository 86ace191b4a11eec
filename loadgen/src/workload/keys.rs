//! The keys of a load, and which comes next.
//!
//! The zipfian pattern is drawn by rejection-inversion (W. Hörmann and G. Derflinger, "Rejection-
//! inversion to generate variates from monotone discrete distributions", 1996), as `rand_distr`
//! has it; `latest` is YCSB's skewed-latest: the same, counted back from the newest key
//! (B. Cooper et al., "Benchmarking cloud serving systems with YCSB", SoCC 2010).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rand::Rng;
use rand::rngs::SmallRng;
use rand_distr::{Distribution, Normal, Zipf};

use crate::base::random::scale;

/// The order in which keys are taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KeyPattern {
    /// `R`: every key equally likely.
    Uniform,
    /// `Z`: the k-th key has probability proportional to `1 / k^exponent`.
    Zipfian {
        /// 0 is uniform.
        exponent: f64,
    },
    /// `G`: normally distributed, cut off at the range's ends.
    Gaussian {
        /// The most likely key number.
        median: f64,
        /// In keys.
        deviation: f64,
    },
    /// `H`: the first keys take a larger share of the requests than theirs.
    Hotspot {
        /// The share of the keys that is hot.
        keys_percent: f64,
        /// The share of the requests that they take.
        requests_percent: f64,
    },
    /// `S`: one after another, all connections together.
    Sequential,
    /// `P`: one after another, in a range of its own for each connection.
    PerClient,
    /// `L`: zipfian, counted back from the newest key.
    Latest {
        /// 0 is uniform.
        exponent: f64,
    },
    /// `I`: new keys, one after another beyond the range.
    Insert,
}

/// The key numbers. Invariant: `minimum <= maximum`, and there are fewer than 2^64 of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// The smallest.
    pub minimum: u64,
    /// The largest.
    pub maximum: u64,
}

/// One thread's part of a run: thread `thread` of `threads`, with `clients` of the `clients_total` connections,
/// starting with number `first_client`.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// Number of this thread.
    pub thread: usize,
    /// Threads in total.
    pub threads: usize,
    /// Number, among all, of this thread's first connection.
    pub first_client: usize,
    /// Connections of this thread.
    pub clients: usize,
    /// Connections in total.
    pub clients_total: usize,
}

/// The number of the newest key, shared by all threads: inserts increment it, and `latest` counts back from it.
///
/// A key is new from the moment its insert is encoded, so that a read may reach the target before
/// the insert does, and miss.
#[derive(Clone, Debug)]
pub struct Frontier(Arc<AtomicU64>);

impl Frontier {
    /// Before any insert, the newest key is the range's last.
    pub fn of(range: KeyRange) -> Self {
        Self(Arc::new(AtomicU64::new(range.maximum)))
    }

    #[inline]
    fn newest(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    fn insert(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }
}

/// A sequence of key numbers within a range, in the order of a pattern.
#[derive(Debug)]
pub(crate) struct KeySource {
    range: KeyRange,
    order: Order,
    /// The connection whose keys are taken, if each has its own.
    owner: Option<Owner>,
    share: Share,
}

/// The keys whose position in the range is a connection's number modulo all connections.
#[derive(Clone, Copy, Debug)]
struct Owner {
    first_client: u64,
    clients: u64,
}

#[derive(Debug)]
enum Order {
    Uniform,
    Zipfian(Zipf<f64>),
    Gaussian(Normal<f64>),
    Hotspot { hot_keys: u64, hot_requests: u64 },
    Sequential { next: u64, step: u64 },
    PerClient(Vec<Cursor>),
    Latest { zipf: Zipf<f64>, frontier: Frontier },
    Insert(Frontier),
}

/// After this many draws outside the range a gaussian key is moved to its edge.
const GAUSSIAN_DRAWS_MAX: usize = 64;

/// Invariant: `first <= next < end`, all relative to the range's minimum.
#[derive(Debug)]
struct Cursor {
    first: u64,
    next: u64,
    end: u64,
}

impl KeyPattern {
    /// As `--key-pattern` has it.
    pub(crate) fn letter(self) -> char {
        match self {
            KeyPattern::Uniform => 'R',
            KeyPattern::Zipfian { .. } => 'Z',
            KeyPattern::Gaussian { .. } => 'G',
            KeyPattern::Hotspot { .. } => 'H',
            KeyPattern::Sequential => 'S',
            KeyPattern::PerClient => 'P',
            KeyPattern::Latest { .. } => 'L',
            KeyPattern::Insert => 'I',
        }
    }
}

impl KeyRange {
    /// How many keys there are.
    pub fn count(&self) -> u64 {
        self.maximum - self.minimum + 1
    }

    /// The numbers of the tags, with this many keys to each; they begin with the same one.
    pub(crate) fn tags(&self, keys_per_tag: usize) -> Self {
        let count = self.count() / keys_per_tag as u64;
        Self { minimum: self.minimum, maximum: self.minimum + (count - 1) }
    }
}

impl KeySource {
    /// The keys that one thread takes.
    pub(crate) fn new(pattern: KeyPattern, range: KeyRange, share: Share, frontier: &Frontier) -> Self {
        let zipf = |exponent| {
            let zipf = Zipf::new(range.count() as f64, exponent);
            zipf.expect("the range holds a key and the exponent is not negative")
        };
        let order = match pattern {
            KeyPattern::Uniform => Order::Uniform,
            KeyPattern::Zipfian { exponent } => Order::Zipfian(zipf(exponent)),
            KeyPattern::Gaussian { median, deviation } => {
                let normal = Normal::new(median - range.minimum as f64, deviation);
                Order::Gaussian(normal.expect("the deviation is finite"))
            }
            KeyPattern::Hotspot { keys_percent, requests_percent } => Order::Hotspot {
                hot_keys: (range.count() as f64 * keys_percent / 100.0).ceil().max(1.0) as u64,
                hot_requests: (requests_percent / 100.0 * u64::MAX as f64) as u64,
            },
            KeyPattern::Sequential => {
                let next = share.thread as u64 % range.count();
                Order::Sequential { next, step: share.threads as u64 % range.count() }
            }
            KeyPattern::PerClient => {
                let clients = share.first_client..share.first_client + share.clients;
                Order::PerClient(clients.map(|client| Cursor::of(client, share.clients_total, range)).collect())
            }
            KeyPattern::Latest { exponent } => Order::Latest { zipf: zipf(exponent), frontier: frontier.clone() },
            KeyPattern::Insert => Order::Insert(frontier.clone()),
        };
        Self { range, order, owner: None, share }
    }

    /// Restricts each connection to its own keys, if `wanted`: the nearest to the chosen key.
    pub(crate) fn own_keys_only(mut self, wanted: bool) -> Self {
        let Share { first_client, clients_total, .. } = self.share;
        let owner = Owner { first_client: first_client as u64, clients: clients_total as u64 };
        self.owner = wanted.then_some(owner);
        self
    }

    /// The next key, for connection number `client` of this thread.
    #[inline]
    pub(crate) fn next(&mut self, rng: &mut SmallRng, client: usize) -> u64 {
        let count = self.range.count();
        let offset = match &mut self.order {
            Order::Uniform => scale(rng.next_u64(), count),
            // A rank beyond 2^53 keys is rounded; the range still holds.
            Order::Zipfian(zipf) => (zipf.sample(rng) as u64).clamp(1, count) - 1,
            Order::Sequential { next, step } => {
                let offset = *next;
                *next = ((u128::from(offset) + u128::from(*step)) % u128::from(count)) as u64;
                offset
            }
            Order::PerClient(cursors) => cursors[client].advance(),
            Order::Gaussian(normal) => gaussian(normal, rng, count),
            Order::Hotspot { hot_keys, hot_requests } => hotspot(*hot_keys, *hot_requests, rng, count),
            Order::Latest { zipf, frontier } => {
                let back = (zipf.sample(rng) as u64).clamp(1, count) - 1;
                return frontier.newest().saturating_sub(back);
            }
            Order::Insert(frontier) => return frontier.insert(),
        };
        self.range.minimum + self.owner.map_or(offset, |owner| owner.nearest(offset, count, client))
    }
}

impl Owner {
    /// The connection's own key that is nearest below `offset`, or the one after that.
    ///
    /// There are as many keys as connections at least.
    fn nearest(self, offset: u64, count: u64, client: usize) -> u64 {
        let own = offset - offset % self.clients + self.first_client + client as u64;
        if own < count { own } else { own - self.clients }
    }
}

/// Draws outside the range are drawn again, which leaves a truncated normal distribution.
fn gaussian(normal: &Normal<f64>, rng: &mut SmallRng, count: u64) -> u64 {
    let mut draw = 0.0;
    for _ in 0..GAUSSIAN_DRAWS_MAX {
        draw = normal.sample(rng).round();
        if (0.0..count as f64).contains(&draw) {
            return draw as u64;
        }
    }
    draw.clamp(0.0, (count - 1) as f64) as u64
}

/// The hot keys are the first ones of the range.
fn hotspot(hot_keys: u64, hot_requests: u64, rng: &mut SmallRng, count: u64) -> u64 {
    if rng.next_u64() < hot_requests || hot_keys >= count {
        scale(rng.next_u64(), hot_keys.min(count))
    } else {
        hot_keys + scale(rng.next_u64(), count - hot_keys)
    }
}

impl Cursor {
    /// An even part of the range; where there are fewer keys than clients, parts overlap.
    fn of(client: usize, clients: usize, range: KeyRange) -> Self {
        let cut = |n: usize| (u128::from(range.count()) * n as u128 / clients as u128) as u64;
        let first = cut(client).min(range.count() - 1);
        Self { first, next: first, end: cut(client + 1).max(first + 1) }
    }

    fn advance(&mut self) -> u64 {
        let key = self.next;
        self.next = if key + 1 == self.end { self.first } else { key + 1 };
        key
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    const RANGE: KeyRange = KeyRange { minimum: 10, maximum: 109 };

    fn share(thread: usize, threads: usize) -> Share {
        Share { thread, threads, first_client: thread, clients: 1, clients_total: threads }
    }

    fn draw(pattern: KeyPattern, share: Share, count: usize) -> Vec<u64> {
        let mut rng = SmallRng::seed_from_u64(7);
        let mut keys = KeySource::new(pattern, RANGE, share, &Frontier::of(RANGE));
        (0..count).map(|_| keys.next(&mut rng, 0)).collect()
    }

    #[test]
    fn the_zipfian_pattern_has_the_calculated_probabilities() {
        const DRAWS: usize = 1_000_000;
        for exponent in [0.0, 0.5, 0.99, 1.0, 1.5] {
            let mut seen = [0_u64; 100];
            for key in draw(KeyPattern::Zipfian { exponent }, share(0, 1), DRAWS) {
                seen[(key - RANGE.minimum) as usize] += 1;
            }
            let weights: Vec<f64> = (1..=100).map(|rank| f64::from(rank).powf(-exponent)).collect();
            let total: f64 = weights.iter().sum();
            for (rank, (&seen, weight)) in seen.iter().zip(&weights).enumerate() {
                let expected = DRAWS as f64 * weight / total;
                // Five standard deviations of a Poisson count: one false alarm in a million.
                let tolerance = 5.0 * expected.sqrt();
                let difference = (seen as f64 - expected).abs();
                assert!(difference < tolerance, "exponent {exponent}, rank {rank}: {seen} for {expected:.0}");
            }
        }
    }

    #[test]
    fn the_uniform_pattern_reaches_every_key_about_equally() {
        let mut seen = [0_u64; 100];
        for key in draw(KeyPattern::Uniform, share(0, 1), 100_000) {
            seen[(key - RANGE.minimum) as usize] += 1;
        }
        assert!(seen.iter().all(|&seen| (841..1159).contains(&seen)), "{seen:?}");
    }

    #[test]
    fn threads_share_the_sequence_and_wrap() {
        let mut keys = draw(KeyPattern::Sequential, share(0, 2), 50);
        keys.extend(draw(KeyPattern::Sequential, share(1, 2), 50));
        keys.sort_unstable();
        assert_eq!(keys, (10..=109).collect::<Vec<_>>());
        assert_eq!(draw(KeyPattern::Sequential, share(0, 1), 101)[100], 10);
    }

    #[test]
    fn clients_walk_ranges_of_their_own() {
        assert_eq!(draw(KeyPattern::PerClient, share(1, 3), 34), (43..=75).chain([43]).collect::<Vec<_>>());
        let few_keys = KeyRange { minimum: 5, maximum: 6 };
        let mut rng = SmallRng::seed_from_u64(1);
        for client in 0..9 {
            let key = KeySource::new(KeyPattern::PerClient, few_keys, share(client, 9), &Frontier::of(few_keys))
                .next(&mut rng, 0);
            assert!((5..=6).contains(&key));
        }
    }

    #[test]
    fn the_gaussian_pattern_has_the_calculated_mean_and_deviation_and_stays_in_its_range() {
        let keys = draw(KeyPattern::Gaussian { median: 60.0, deviation: 10.0 }, share(0, 1), 100_000);
        assert!(keys.iter().all(|key| (10..=109).contains(key)));
        let mean = keys.iter().sum::<u64>() as f64 / 1e5;
        let variance = keys.iter().map(|&key| (key as f64 - mean).powi(2)).sum::<f64>() / 1e5;
        // Five standard errors of the mean: 10 / sqrt(100,000) each.
        assert!((mean - 60.0).abs() < 0.16, "{mean}");
        assert!((variance.sqrt() - 10.0).abs() < 0.15, "{variance}");
        let edge = draw(KeyPattern::Gaussian { median: 10.0, deviation: 1e9 }, share(0, 1), 1000);
        assert!(edge.iter().all(|key| (10..=109).contains(key)));
    }

    #[test]
    fn a_hotspot_takes_its_share_of_the_requests() {
        let pattern = KeyPattern::Hotspot { keys_percent: 20.0, requests_percent: 80.0 };
        let keys = draw(pattern, share(0, 1), 100_000);
        let hot = keys.iter().filter(|&&key| key < 30).count();
        assert!((79_300..80_700).contains(&hot), "{hot}");
        let distinct = |range: std::ops::Range<u64>| range.filter(|key| keys.contains(key)).count();
        assert_eq!((distinct(10..30), distinct(30..110)), (20, 80));
    }

    #[test]
    fn inserts_follow_the_range_and_latest_counts_back_from_them() {
        let frontier = Frontier::of(RANGE);
        let mut rng = SmallRng::seed_from_u64(7);
        let mut inserts = KeySource::new(KeyPattern::Insert, RANGE, share(0, 1), &frontier);
        let mut latest = KeySource::new(KeyPattern::Latest { exponent: 0.99 }, RANGE, share(0, 1), &frontier);
        assert_eq!((0..5).map(|_| inserts.next(&mut rng, 0)).collect::<Vec<_>>(), [110, 111, 112, 113, 114]);
        let mut seen = [0_u64; 115];
        (0..100_000).for_each(|_| seen[latest.next(&mut rng, 0) as usize] += 1);
        let total: f64 = (1..=100).map(|rank| f64::from(rank).powf(-0.99)).sum();
        let expected = 1e5 / total;
        assert!((seen[114] as f64 - expected).abs() < 5.0 * expected.sqrt(), "{} for {expected}", seen[114]);
        assert_eq!(seen[..15].iter().sum::<u64>(), 0);
    }
}
