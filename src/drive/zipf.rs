//! Exact draws from a Zipf distribution: a binary search in the table of cumulative weights.
//!
//! Requests are prepared before the measurement, so this need not be fast. A generator under load would approximate
//! the distribution.

/// Draws numbers from 0 on; n is drawn (n + 1)^-exponent times as often as 0.
#[derive(Debug, Clone)]
pub struct Zipf {
    /// For each number its weight and that of all before it. Invariant: not empty, and ascending.
    cumulated: Vec<f64>,
}

impl Zipf {
    /// The distribution over this many numbers, at least one.
    pub fn new(count: usize, exponent: f64) -> Self {
        assert!(count > 0, "there is a number to draw");
        let mut sum = 0.0;
        let weights = (1..=count).map(|rank| (rank as f64).powf(-exponent));
        let cumulated = weights.map(|weight| {
            sum += weight;
            sum
        });
        Self { cumulated: cumulated.collect() }
    }

    /// Maps a random number in [0, 1) to a draw.
    pub fn draw(&self, random: f64) -> usize {
        let total = self.cumulated[self.cumulated.len() - 1];
        let at = self.cumulated.partition_point(|&until| until <= random * total);
        at.min(self.cumulated.len() - 1)
    }
}

// A test that cannot go on says where and why by panicking.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_drawn_as_often_as_the_law_says() {
        let (zipf, mut random) = (Zipf::new(1000, 0.99), fastrand::Rng::with_seed(7));
        let mut counts = vec![0u32; 1000];
        let draws = 400_000;
        (0..draws).for_each(|_| counts[zipf.draw(random.f64())] += 1);
        let total: f64 = (1..=1000).map(|rank| f64::from(rank).powf(-0.99)).sum();
        for rank in [1u32, 2, 3, 10, 100] {
            let expected = f64::from(rank).powf(-0.99) / total * f64::from(draws);
            let found = f64::from(counts[rank as usize - 1]);
            assert!((found - expected).abs() < 4.0 * expected.sqrt(), "rank {rank}: {found}, not {expected}");
        }
    }

    #[test]
    fn an_exponent_of_nought_draws_all_alike_and_the_ends_are_in_range() {
        let zipf = Zipf::new(4, 0.0);
        let drawn: Vec<usize> = [0.0, 0.24, 0.26, 0.51, 0.76, 0.999_999].iter().map(|&at| zipf.draw(at)).collect();
        assert_eq!(drawn, [0, 0, 1, 2, 3, 3]);
        assert_eq!(Zipf::new(1, 0.99).draw(0.999_999_999), 0);
        // Rounding may make the product as large as the total.
        assert_eq!(Zipf::new(3, 0.99).draw(1.0), 2);
    }
}
