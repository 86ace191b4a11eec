//! Comparisons: is one point faster than another, by how much, and how sure is that?
//!
//! Values come without the machine's drift ([`crate::statistics::alignment`]). For each pair of points: the ratio of
//! medians with its 95 % interval (bootstrap over runs, both sides drawn anew), Cliff's delta (how often a run of one
//! beats a run of the other), and the p-value of the Mann-Whitney test, computed exactly over all ways to share out the
//! ranks, ties included. The p-values of a sweep are corrected together by Holm's
//! method, so that a sweep of a thousand comparisons finds a difference where there is none as seldom as a sweep of
//! one.
//!
//! Mann, Whitney: On a test of whether one of two random variables is stochastically larger than the other (1947).
//! Cliff: Dominance statistics (1993). Holm: A simple sequentially rejective multiple test procedure (1979).
//!
//! With ten runs on each side the smallest p-value is 2 in 184,756, which survives the correction for 4,600
//! comparisons. With three it is 1 in 10: fewer than four runs can never make a claim, and the verdict says so.

use serde::{Deserialize, Serialize};

use crate::judging::summary::Metric;
use crate::statistics::bootstrap::ratio_interval;

/// The chance of a false alarm in a family of comparisons.
pub const SIGNIFICANCE: f64 = 0.05;

/// Runs on each side below which nothing is decided: the interval of fewer is about their range, or nothing at all.
pub const RUNS_MIN: usize = 10;

/// Runs on both sides together up to which the test is exact.
const EXACT_MAX: usize = 60;

/// A difference between two points in one metric.
///
/// Invariants: `low <= ratio <= high`; `p <= p_adjusted <= 1`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// Median of the subject by median of the baseline.
    pub ratio: f64,
    /// Runs on the side that has fewer.
    pub runs: usize,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end of its 95 % interval.
    pub high: f64,
    /// Share of pairs of runs in which the subject is above the baseline, minus the share in which it is below.
    pub cliffs_delta: f64,
    /// The chance of ranks at least as uneven where both are the same.
    pub p: f64,
    /// The same, corrected for the other comparisons of its family; equal to `p` until [`correct`] is called.
    pub p_adjusted: f64,
}

/// The verdict on a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Better, beyond chance, and not surely by less than matters.
    Better,
    /// Worse, likewise.
    Worse,
    /// The whole interval is within the smallest effect of interest, but there is a difference: nearly every run of one
    /// side is above those of the other, or the interval excludes one.
    Below,
    /// The whole interval is within the smallest effect of interest, and nothing indicates a difference.
    NoChange,
    /// The data are not sufficient.
    Inconclusive,
    /// Error replies or missing keys: the points must not be compared.
    Invalid,
}

/// The smallest effect that matters in `metric`, as a share; smaller ones count as no change.
pub fn smallest_effect(metric: Metric) -> f64 {
    match metric {
        Metric::OpsPerSec | Metric::ServerCpuUsPerOp | Metric::GeneratorCpuUsPerOp | Metric::ServerRssPeakMib => 0.05,
        Metric::P50Us | Metric::P99Us | Metric::P999Us | Metric::SingleKeyP99Us | Metric::LagP99Us => 0.10,
        Metric::JainIndex | Metric::SlowestConnection => 0.10,
    }
}

impl Difference {
    /// Compares the runs of a subject with those of a baseline. `None` if either has no runs, or the baseline is zero.
    pub fn of(subject: &[f64], baseline: &[f64], seed: u64) -> Option<Self> {
        let median = |values: &[f64]| crate::statistics::quantiles::median(&mut values.to_vec());
        let (top, bottom) = (median(subject)?, median(baseline)?);
        if bottom <= 0.0 {
            return None;
        }
        let (low, high) = ratio_interval(subject, baseline, seed)?;
        let p = rank_test(subject, baseline);
        let (ratio, cliffs_delta) = (top / bottom, cliffs_delta(subject, baseline));
        let runs = subject.len().min(baseline.len());
        Some(Self { ratio, runs, low: low.min(ratio), high: high.max(ratio), cliffs_delta, p, p_adjusted: p })
    }

    /// The verdict in `metric`.
    pub fn verdict(&self, metric: Metric) -> Verdict {
        if self.runs < RUNS_MIN {
            return Verdict::Inconclusive;
        }
        let effect = smallest_effect(metric);
        if self.low >= 1.0 / (1.0 + effect) && self.high <= 1.0 + effect {
            return if self.is_consistent() { Verdict::Below } else { Verdict::NoChange };
        }
        if self.p_adjusted >= SIGNIFICANCE || (self.low <= 1.0 && self.high >= 1.0) {
            return Verdict::Inconclusive;
        }
        if (self.ratio > 1.0) == metric.more_is_better() { Verdict::Better } else { Verdict::Worse }
    }
}

/// Cliff's delta from which on a difference is a large one: Romano et al., Appropriate statistics for ordinal level
/// data (2006).
const DELTA_LARGE: f64 = 0.474;

impl Difference {
    /// Whether the sides differ, by however little that exceeds rounding to seven digits.
    fn is_consistent(&self) -> bool {
        (self.ratio - 1.0).abs() > 1e-6 && (self.low > 1.0 || self.high < 1.0 || self.cliffs_delta.abs() >= DELTA_LARGE)
    }
}

impl Verdict {
    /// The word for it in `metric`.
    pub fn word(self, metric: Metric) -> &'static str {
        let (better, worse) = match metric {
            Metric::OpsPerSec
            | Metric::P50Us
            | Metric::P99Us
            | Metric::P999Us
            | Metric::SingleKeyP99Us
            | Metric::LagP99Us => ("faster", "slower"),
            Metric::ServerCpuUsPerOp | Metric::GeneratorCpuUsPerOp => ("cheaper", "dearer"),
            Metric::ServerRssPeakMib => ("smaller", "larger"),
            Metric::JainIndex | Metric::SlowestConnection => ("more even", "less even"),
        };
        match self {
            Self::Better => better,
            Self::Worse => worse,
            // The smallest effects of interest, in words.
            Self::Below if smallest_effect(metric) < 0.1 => "below 5 %",
            Self::Below => "below 10 %",
            Self::NoChange => "no change",
            Self::Inconclusive => "inconclusive",
            Self::Invalid => "invalid",
        }
    }
}

/// Corrects the p-values of a family by Holm's method.
pub fn correct(family: &mut [&mut Difference]) {
    family.sort_by(|a, b| a.p.total_cmp(&b.p));
    let count = family.len();
    let mut least = 0.0f64;
    for (index, one) in family.iter_mut().enumerate() {
        least = least.max((one.p * (count - index) as f64).min(1.0));
        one.p_adjusted = least;
    }
}

fn cliffs_delta(subject: &[f64], baseline: &[f64]) -> f64 {
    let sign = |a: f64, b: f64| f64::from(i8::from(a > b) - i8::from(a < b));
    let sum: f64 = subject.iter().flat_map(|&a| baseline.iter().map(move |&b| sign(a, b))).sum();
    sum / (subject.len() * baseline.len()) as f64
}

/// The two-sided Mann-Whitney test.
pub fn rank_test(subject: &[f64], baseline: &[f64]) -> f64 {
    let ranks = doubled_ranks(subject, baseline);
    if ranks.len() <= EXACT_MAX { exact(&ranks, subject.len()) } else { approximate(&ranks, subject.len()) }
}

/// Twice the rank of every run among all of them, the subject's first; equal runs share the middle of their ranks,
/// which doubling keeps whole.
fn doubled_ranks(subject: &[f64], baseline: &[f64]) -> Vec<usize> {
    let all: Vec<f64> = subject.iter().chain(baseline).copied().collect();
    let rank = |value: &f64| {
        let below = all.iter().filter(|other| *other < value).count();
        let equal = all.iter().filter(|other| *other == value).count();
        2 * below + equal + 1
    };
    all.iter().map(rank).collect()
}

/// Counts, of all ways to choose the subject's ranks, those whose sum is at least as far from the middle.
fn exact(ranks: &[usize], chosen: usize) -> f64 {
    let total: usize = ranks.iter().sum();
    // ways[k][s]: ways to choose k ranks with the sum s.
    let mut ways = vec![vec![0.0f64; total + 1]; chosen + 1];
    ways[0][0] = 1.0;
    for (index, &rank) in ranks.iter().enumerate() {
        for k in (1..=chosen.min(index + 1)).rev() {
            let (fewer, more) = ways.split_at_mut(k);
            for (sum, count) in more[0].iter_mut().enumerate().skip(rank) {
                *count += fewer[k - 1][sum - rank];
            }
        }
    }
    // The middle is total * chosen / n; both sides times n, so that the comparison is of whole numbers.
    let n = ranks.len();
    let distance = |sum: usize| (sum * n).abs_diff(total * chosen);
    let found = distance(ranks[..chosen].iter().sum());
    let extreme: f64 = ways[chosen].iter().enumerate().filter(|(sum, _)| distance(*sum) >= found).map(|(_, w)| w).sum();
    (extreme / ways[chosen].iter().sum::<f64>()).min(1.0)
}

/// The normal approximation with the variance of the actual ranks, including ties.
fn approximate(ranks: &[usize], chosen: usize) -> f64 {
    let (n, a) = (ranks.len() as f64, chosen as f64);
    let mean = ranks.iter().sum::<usize>() as f64 / n;
    let spread: f64 = ranks.iter().map(|&rank| (rank as f64 - mean).powi(2)).sum();
    let variance = a * (n - a) / (n * (n - 1.0)) * spread;
    if variance <= 0.0 {
        return 1.0;
    }
    let sum = ranks[..chosen].iter().sum::<usize>() as f64;
    // Doubled sums are two apart without ties: half of that is the correction for continuity.
    let z = ((sum - a * mean).abs() - 1.0).max(0.0) / variance.sqrt();
    complementary_error(z / std::f64::consts::SQRT_2)
}

/// erfc by the rational approximation 7.1.26 of Abramowitz and Stegun; its error is below 2e-7.
fn complementary_error(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let coefficients = [1.061_405_429, -1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592];
    coefficients.iter().fold(0.0, |sum, coefficient| sum * t + coefficient) * t * (-x * x).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(start: f64) -> Vec<f64> {
        (0..10).map(|i| start + f64::from(i)).collect()
    }

    // Published tables of the U test: for samples of 5 and 5, U = 0 has p = 2/252 and U = 2 has p = 8/252.
    #[test]
    fn p_values_are_those_of_the_tables() {
        let low = [1.0, 2.0, 3.0, 4.0, 5.0];
        assert!((rank_test(&[6.0, 7.0, 8.0, 9.0, 10.0], &low) - 2.0 / 252.0).abs() < 1e-12);
        assert!((rank_test(&[4.5, 4.6, 7.0, 8.0, 9.0], &low) - 8.0 / 252.0).abs() < 1e-12);
        assert!((rank_test(&runs(100.0), &runs(0.0)) - 2.0 / 184_756.0).abs() < 1e-12);
        assert_eq!(rank_test(&low, &low), 1.0);
        assert_eq!(rank_test(&[3.0; 4], &[3.0; 4]), 1.0);
    }

    // Every way to choose 3 of 6 doubled ranks with ties, counted by hand in the obvious way.
    #[test]
    fn ties_are_exact() {
        let (subject, baseline) = ([1.0, 2.0, 2.0], [2.0, 3.0, 3.0]);
        let ranks = doubled_ranks(&subject, &baseline);
        assert_eq!(ranks, [2, 6, 6, 6, 11, 11]);
        let mut extreme = 0;
        for mask in (0u32..64).filter(|mask| mask.count_ones() == 3) {
            let sum: usize = (0..6).filter(|bit| mask >> bit & 1 == 1).map(|bit| ranks[bit]).sum();
            extreme += usize::from(sum.abs_diff(21) >= 7);
        }
        assert!((rank_test(&subject, &baseline) - extreme as f64 / 20.0).abs() < 1e-12);
    }

    #[test]
    fn the_approximation_is_near_the_exact_value() {
        let (a, b): (Vec<f64>, Vec<f64>) =
            ((0..20).map(|i| f64::from(i * 7 % 20)).collect(), (0..20).map(|i| f64::from(i) + 3.4).collect());
        let ranks = doubled_ranks(&a, &b);
        assert!((exact(&ranks, 20) - approximate(&ranks, 20)).abs() < 0.005);
    }

    // "No change" with a delta of -0.94 was found by the audit.
    #[test]
    fn a_small_difference_in_nearly_all_runs_is_below_the_bound_and_not_no_change() {
        let at = |low, high, cliffs_delta| Difference {
            ratio: 0.98,
            runs: 10,
            low,
            high,
            cliffs_delta,
            p: 0.0001,
            p_adjusted: 0.3,
        };
        assert_eq!(at(0.965, 0.995, -0.94).verdict(Metric::OpsPerSec), Verdict::Below);
        assert_eq!(at(0.965, 1.002, -0.94).verdict(Metric::OpsPerSec), Verdict::Below);
        assert_eq!(at(0.965, 1.02, -0.3).verdict(Metric::OpsPerSec), Verdict::NoChange);
        assert_eq!(at(0.90, 0.995, -0.94).verdict(Metric::OpsPerSec), Verdict::Inconclusive);
    }

    // Holm's own order: 0.01 * 4, 0.02 * 3, 0.03 * 2, 0.04 * 1, and never below one before.
    #[test]
    fn the_correction_is_holms() {
        let one = |p| Difference { ratio: 1.0, runs: 10, low: 1.0, high: 1.0, cliffs_delta: 0.0, p, p_adjusted: p };
        let mut family = [one(0.04), one(0.01), one(0.03), one(0.02)];
        correct(&mut family.iter_mut().collect::<Vec<_>>());
        let adjusted = family.map(|one| (one.p_adjusted * 1000.0).round() / 1000.0);
        assert_eq!(adjusted, [0.06, 0.04, 0.06, 0.06]);
    }

    #[test]
    fn verdicts_follow_interval_chance_and_size() {
        let of = |subject: Vec<f64>, baseline: Vec<f64>, metric| {
            Difference::of(&subject, &baseline, 1).unwrap().verdict(metric)
        };
        assert_eq!(of(runs(200.0), runs(100.0), Metric::OpsPerSec), Verdict::Better);
        assert_eq!(of(runs(200.0), runs(100.0), Metric::P99Us), Verdict::Worse);
        assert_eq!(of(runs(1000.0), runs(1001.0), Metric::OpsPerSec), Verdict::NoChange);
        // Beyond chance, but by less than matters.
        assert_eq!(of(runs(1030.0), runs(1000.0), Metric::OpsPerSec), Verdict::Below);
        assert_eq!(Verdict::Below.word(Metric::OpsPerSec), "below 5 %");
        assert_eq!(Verdict::Below.word(Metric::P99Us), "below 10 %");
        let wide = |start: f64| runs(start).iter().map(|run| (run - start) * 10.0 + start).collect::<Vec<f64>>();
        assert_eq!(of(wide(100.0), wide(105.0), Metric::OpsPerSec), Verdict::Inconclusive);
        // A few runs decide nothing, however far apart, or equal, they are.
        assert_eq!(of(vec![1.0], vec![1.0], Metric::OpsPerSec), Verdict::Inconclusive);
        assert_eq!(of(vec![1.0, 2.0, 3.0], vec![7.0, 8.0, 9.0], Metric::OpsPerSec), Verdict::Inconclusive);
        assert_eq!(Verdict::Better.word(Metric::ServerCpuUsPerOp), "cheaper");
    }

    #[test]
    fn the_effect_size_counts_pairs() {
        assert_eq!(cliffs_delta(&[2.0, 3.0], &[1.0, 2.0]), 0.75);
        assert_eq!(cliffs_delta(&runs(0.0), &runs(50.0)), -1.0);
        let difference = Difference::of(&runs(200.0), &runs(100.0), 1).unwrap();
        assert!(difference.low <= difference.ratio && difference.ratio <= difference.high);
        assert!(Difference::of(&[1.0], &[0.0], 1).is_none() && Difference::of(&[], &[1.0], 1).is_none());
    }
}
