//! Which key comes next.

use rand::rngs::SmallRng;
use rand::{Rng, RngExt};
use rand_distr::{Distribution, Zipf};

use crate::config::{KeyPattern, KeyRange};

/// The part of a run that one thread carries: thread `thread` of `threads`, with `clients` of the
/// `clients_total` connections, the first of which is number `first_client`.
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

/// A sequence of key numbers within a range, in the order of a pattern.
#[derive(Debug)]
pub struct KeySource {
    range: KeyRange,
    order: Order,
}

#[derive(Debug)]
enum Order {
    Uniform,
    Zipfian(Zipf<f64>),
    Sequential { next: u64, step: u64 },
    PerClient(Vec<Cursor>),
}

/// Invariant: `first <= next < end`, all relative to the range's minimum.
#[derive(Debug)]
struct Cursor {
    first: u64,
    next: u64,
    end: u64,
}

impl KeySource {
    /// The keys that one thread takes.
    pub fn new(pattern: KeyPattern, range: KeyRange, share: Share) -> Self {
        let order = match pattern {
            KeyPattern::Uniform => Order::Uniform,
            KeyPattern::Zipfian { exponent } => {
                let zipf = Zipf::new(range.count() as f64, exponent);
                Order::Zipfian(zipf.expect("the range holds a key and the exponent is not negative"))
            }
            KeyPattern::Sequential => {
                let next = share.thread as u64 % range.count();
                Order::Sequential { next, step: share.threads as u64 % range.count() }
            }
            KeyPattern::PerClient => {
                let clients = share.first_client..share.first_client + share.clients;
                Order::PerClient(clients.map(|client| Cursor::of(client, share.clients_total, range)).collect())
            }
        };
        Self { range, order }
    }

    /// The next key, for connection number `client` of this thread.
    #[inline]
    pub fn next(&mut self, rng: &mut SmallRng, client: usize) -> u64 {
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
        };
        self.range.minimum + offset
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

/// Maps 64 random bits to `0..count`, each value equally likely up to `count / 2^64`.
#[inline]
fn scale(bits: u64, count: u64) -> u64 {
    ((u128::from(bits) * u128::from(count)) >> 64) as u64
}

/// An alphanumeric block from which values are cut.
pub(crate) fn random_block(rng: &mut SmallRng, bytes: usize) -> Vec<u8> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    (0..bytes).map(|_| ALPHABET[rng.random_range(0..64)]).collect()
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
        let mut keys = KeySource::new(pattern, RANGE, share);
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
            let key = KeySource::new(KeyPattern::PerClient, few_keys, share(client, 9)).next(&mut rng, 0);
            assert!((5..=6).contains(&key));
        }
    }
}
