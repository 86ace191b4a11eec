//! How sure a difference is: Welch's t-interval over whole runs (B. L. Welch, "The generalization of
//! Student's problem when several different population variances are involved", 1947).
//!
//! A run is one observation: of each metric one value, its logarithm taken, so that a difference of
//! means is a ratio. Requests and seconds of one run share whatever made that run fast or slow, so
//! they say nothing about how much runs differ; with fewer than three runs on a side there is no result. Welch's
//! degrees of freedom are themselves estimated, by chance too high as often as too low, and with three runs on a side
//! that matters: they are rounded down, as tables ask for, which keeps false alarms at 5 % whatever the two sides'
//! spreads are. Resampling three runs (the percentile bootstrap) says too much: with as few, it takes chance for a
//! difference in one of five comparisons. The tests simulate both.

use hdrhistogram::Histogram;

use super::{Run, Side};
use crate::base::students_t::t_975;
use crate::record::value_at_percentile;

/// With fewer runs on a side there is no interval: what few runs share is chance.
pub(super) const RUNS_MIN: usize = 3;
/// The precision of values in histograms: equal values may differ by this.
const RESOLUTION: f64 = 1e-3;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Metric {
    Percentile(f64),
    Mean,
    RequestsPerSecond,
}

/// The result for the difference of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Faster,
    Slower,
    /// There is a difference, and it is within the margin.
    Below,
    NoChange,
    Inconclusive,
    /// Too few runs.
    CannotTell,
}

/// The difference of one metric, relative to the first side, in per cent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Difference {
    pub(super) metric: Metric,
    /// Of the runs' geometric means.
    pub(super) percent: f64,
    /// Holds the true difference in 95 of 100 comparisons; none with too few runs.
    pub(super) interval: Option<(f64, f64)>,
    pub(super) verdict: Verdict,
}

/// A mean of runs, and the interval that holds the true one in 95 of 100 cases.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mean {
    pub(super) value: f64,
    pub(super) interval: Option<(f64, f64)>,
}

impl Metric {
    pub(super) const ALL: [Metric; 9] = [
        Metric::Percentile(50.0),
        Metric::Percentile(75.0),
        Metric::Percentile(90.0),
        Metric::Percentile(95.0),
        Metric::Percentile(99.0),
        Metric::Percentile(99.9),
        Metric::Percentile(99.99),
        Metric::Mean,
        Metric::RequestsPerSecond,
    ];

    pub(super) fn name(self) -> String {
        match self {
            Metric::Percentile(percentile) => format!("p{percentile}"),
            Metric::Mean => "mean".to_owned(),
            Metric::RequestsPerSecond => "requests/s".to_owned(),
        }
    }

    fn of(self, run: &Run) -> f64 {
        match self {
            Metric::Percentile(percentile) => value_at_percentile(&run.histogram, percentile) as f64,
            Metric::Mean => run.histogram.mean(),
            Metric::RequestsPerSecond => run.histogram.len() as f64 / run.length.as_secs_f64().max(1e-9),
        }
    }
}

impl Verdict {
    /// The word for it, where this many per cent are the margin.
    pub(super) fn name(self, margin_percent: f64) -> String {
        match self {
            Verdict::Faster => "faster".to_owned(),
            Verdict::Slower => "slower".to_owned(),
            Verdict::Below => format!("below {margin_percent} %"),
            Verdict::NoChange => "no change".to_owned(),
            Verdict::Inconclusive => "inconclusive".to_owned(),
            Verdict::CannotTell => "cannot tell".to_owned(),
        }
    }

    /// An interval within the margin is "no change" only if it holds zero: otherwise there is a difference, however
    /// small. One beyond the margin has a side if it excludes zero.
    fn of(metric: Metric, interval: Option<(f64, f64)>, margin_percent: f64) -> Self {
        let Some((low, high)) = interval else {
            return Verdict::CannotTell;
        };
        let holds_zero = low <= 0.0 && high >= 0.0;
        let is_within = -margin_percent <= low && high <= margin_percent;
        let more_is_faster = metric == Metric::RequestsPerSecond;
        match (is_within, holds_zero) {
            (true, true) => Verdict::NoChange,
            (true, false) => Verdict::Below,
            (false, true) => Verdict::Inconclusive,
            (false, false) if (low > 0.0) == more_is_faster => Verdict::Faster,
            (false, false) => Verdict::Slower,
        }
    }
}

/// The differences of `other` from `first`.
pub(super) fn differences(first: &Side, other: &Side, margin_percent: f64) -> Vec<Difference> {
    let difference = |metric: Metric| {
        let [first, other] = [first, other].map(|side| Sample::of(side.runs.iter().map(|run| metric.of(run))));
        let interval = welch(first, other).map(|(low, high)| (percent(low), percent(high)));
        let verdict = Verdict::of(metric, interval, margin_percent);
        Difference { metric, percent: percent(other.mean - first.mean), interval, verdict }
    };
    Metric::ALL.into_iter().map(difference).collect()
}

/// The latency at a quantile, the mean of runs.
pub(super) fn mean_at_quantile(side: &Side, quantile: f64) -> Mean {
    let at = |histogram: &Histogram<u64>| histogram.value_at_quantile(quantile) as f64;
    let sample = Sample::of(side.runs.iter().map(|run| at(&run.histogram)));
    let interval = (sample.count >= RUNS_MIN).then(|| {
        let reach = t_975(sample.count as f64 - 1.0) * sample.error_squared().sqrt();
        ((sample.mean - reach).exp(), (sample.mean + reach).exp())
    });
    Mean { value: sample.mean.exp(), interval }
}

fn percent(log_ratio: f64) -> f64 {
    log_ratio.exp_m1() * 100.0
}

/// Mean and variance of the logarithms of some values.
#[derive(Clone, Copy, Debug)]
struct Sample {
    count: usize,
    mean: f64,
    variance: f64,
}

impl Sample {
    /// Values below one (a nanosecond, a request a second) count as one. There is one at least.
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let logs: Vec<f64> = values.map(|value| value.max(1.0).ln()).collect();
        let count = logs.len();
        let mean = logs.iter().sum::<f64>() / count as f64;
        let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
        let rounding = RESOLUTION * RESOLUTION / 12.0;
        Self { count, mean, variance: (squares / (count as f64 - 1.0).max(1.0)).max(rounding) }
    }

    /// The square of the mean's standard error.
    fn error_squared(&self) -> f64 {
        self.variance / self.count as f64
    }
}

/// The 95 % interval of the difference of the means; none with too few values.
fn welch(first: Sample, other: Sample) -> Option<(f64, f64)> {
    if first.count.min(other.count) < RUNS_MIN {
        return None;
    }
    let parts = [first, other].map(|sample| (sample.error_squared(), sample.count as f64 - 1.0));
    let error_squared: f64 = parts.iter().map(|(part, _)| part).sum();
    let degrees = error_squared.powi(2) / parts.iter().map(|(part, degrees)| part.powi(2) / degrees).sum::<f64>();
    let (difference, reach) = (other.mean - first.mean, t_975((degrees + 1e-9).floor()) * error_squared.sqrt());
    Some((difference - reach, difference + reach))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};
    use rand_distr::{Distribution, StandardNormal};

    use super::*;
    use crate::record::latency_histogram;

    /// Runs of 1,000 requests around this many microseconds.
    fn side(mean_us: f64, spread_us: f64, runs: usize, seed: u64) -> Side {
        let mut rng = SmallRng::seed_from_u64(seed);
        let run = |_| {
            let mut histogram = latency_histogram();
            let own = mean_us + spread_us * (rng.random::<f64>() - 0.5);
            for _ in 0..1000 {
                histogram.record(((own + 10.0 * rng.random::<f64>()) * 1000.0) as u64).expect("in range");
            }
            Run { histogram, length: Duration::from_secs(1) }
        };
        Side::for_tests((0..runs).map(run).collect())
    }

    fn p50(first: &Side, other: &Side) -> Difference {
        differences(first, other, 2.0)[0]
    }

    #[test]
    fn a_difference_that_is_there_is_found_with_its_direction() {
        let (base, slower) = (side(100.0, 4.0, 20, 1), side(110.0, 4.0, 20, 2));
        let difference = p50(&base, &slower);
        let (low, high) = difference.interval.expect("enough runs");
        assert!(low < difference.percent && difference.percent < high && low > 5.0 && high < 13.0, "{difference:?}");
        assert_eq!(difference.verdict, Verdict::Slower);
        assert_eq!(p50(&slower, &base).verdict, Verdict::Faster);
    }

    #[test]
    fn no_difference_is_no_change_and_a_wide_interval_is_inconclusive() {
        assert_eq!(p50(&side(100.0, 1.0, 20, 1), &side(100.0, 1.0, 20, 2)).verdict, Verdict::NoChange);
        assert_eq!(p50(&side(100.0, 90.0, 6, 1), &side(101.0, 90.0, 6, 2)).verdict, Verdict::Inconclusive);
    }

    #[test]
    fn of_one_run_or_two_nothing_is_said_however_far_they_are_apart() {
        for runs in [1, 2] {
            let few = p50(&side(100.0, 1.0, runs, 1), &side(200.0, 1.0, 20, 2));
            assert_eq!((few.interval, few.verdict), (None, Verdict::CannotTell));
        }
    }

    #[test]
    fn runs_that_agree_to_the_last_digit_of_their_histograms_may_differ_by_it() {
        let run = |value: u64| {
            let mut histogram = latency_histogram();
            histogram.record_n(value, 100).expect("in range");
            Run { histogram, length: Duration::from_secs(1) }
        };
        let of = |value: u64| Side::for_tests(vec![run(value), run(value), run(value)]);
        let difference = differences(&of(1_000_000), &of(1_000_600), 0.0)[0];
        assert_eq!(difference.verdict, Verdict::Inconclusive, "{difference:?}");
    }

    #[test]
    fn a_difference_that_excludes_zero_is_none_of_no_change_but_below_the_margin() {
        for interval in [(0.5, 1.5), (-1.5, -0.5)] {
            let verdict = Verdict::of(Metric::Mean, Some(interval), 2.0);
            assert_eq!((verdict, verdict.name(2.0)), (Verdict::Below, "below 2 %".to_owned()));
        }
        assert_eq!(Verdict::Below.name(0.5), "below 0.5 %");
    }

    #[test]
    fn more_requests_a_second_are_faster() {
        let of = |metric, interval| Verdict::of(metric, Some(interval), 2.0);
        assert_eq!(of(Metric::RequestsPerSecond, (3.0, 5.0)), Verdict::Faster);
        assert_eq!(of(Metric::RequestsPerSecond, (-5.0, -3.0)), Verdict::Slower);
        assert_eq!(of(Metric::RequestsPerSecond, (1.0, 5.0)), Verdict::Faster);
        assert_eq!(of(Metric::Mean, (3.0, 5.0)), Verdict::Slower);
        assert_eq!(of(Metric::Mean, (-0.5, 1.5)), Verdict::NoChange);
        assert_eq!(of(Metric::Mean, (-1.0, 3.0)), Verdict::Inconclusive);
    }

    const TRIALS: usize = 20_000;

    /// How runs of one side differ from each other, in per cent.
    #[derive(Clone, Copy)]
    enum Noise {
        /// Normally distributed.
        Normal(f64),
        /// The same, and one run in ten is a tenth slower.
        Outliers(f64),
    }

    impl Noise {
        fn draw(self, rng: &mut SmallRng) -> f64 {
            let normal: f64 = StandardNormal.sample(rng);
            match self {
                Noise::Normal(percent) => normal * percent / 100.0,
                Noise::Outliers(percent) => {
                    normal * percent / 100.0 + if rng.random_range(0..10) == 0 { 0.1 } else { 0.0 }
                }
            }
        }
    }

    type Method = fn(&[f64], &[f64], &mut SmallRng) -> (f64, f64);

    fn by_welch(first: &[f64], other: &[f64], _: &mut SmallRng) -> (f64, f64) {
        welch(Sample::of(first.iter().copied()), Sample::of(other.iter().copied())).expect("three runs at least")
    }

    /// The former method of `compare`, to compare with: runs drawn again, with replacement.
    fn by_bootstrap(first: &[f64], other: &[f64], rng: &mut SmallRng) -> (f64, f64) {
        let mut drawn: Vec<f64> = (0..200)
            .map(|_| {
                let mut mean = |side: &[f64]| {
                    let sum: f64 = (0..side.len()).map(|_| side[rng.random_range(0..side.len())]).sum();
                    sum / side.len() as f64
                };
                let first = mean(first);
                (mean(other) / first).ln()
            })
            .collect();
        drawn.sort_by(f64::total_cmp);
        (drawn[5], drawn[194])
    }

    /// The share of comparisons whose interval excludes zero, if the true difference is this many per cent.
    fn told_apart(method: Method, runs: usize, noise: [Noise; 2], truth_percent: f64, trials: usize) -> f64 {
        let mut rng = SmallRng::seed_from_u64(20);
        let told = (0..trials).filter(|_| {
            let mut side = |noise: Noise, shift: f64| -> Vec<f64> {
                (0..runs).map(|_| 1e6 * (1.0 + shift) * (1.0 + noise.draw(&mut rng))).collect()
            };
            let (first, other) = (side(noise[0], 0.0), side(noise[1], truth_percent / 100.0));
            let (low, high) = method(&first, &other, &mut rng);
            low > 0.0 || high < 0.0
        });
        told.count() as f64 / trials as f64
    }

    /// The worst cases are those in which one side varies several times as much as the other.
    #[test]
    fn false_alarms_are_five_per_cent_at_most_whatever_the_sides_vary_by() {
        for (runs, ratio) in [(3, 2.0), (3, 3.0), (3, 4.0), (3, 8.0), (4, 3.0), (5, 4.0)] {
            let noise = [Noise::Normal(0.5), Noise::Normal(0.5 * ratio)];
            let alarms = told_apart(by_welch, runs, noise, 0.0, TRIALS);
            assert!(alarms < 0.05 + 0.003, "{runs} runs, {ratio} times as wide: {alarms}");
        }
    }

    /// The published table is this simulation's.
    #[test]
    fn false_alarms_are_five_per_cent_and_the_table_in_the_readme_is_theirs() {
        use Noise::{Normal, Outliers};
        let row = |runs: usize| {
            let alarms = |noise: [Noise; 2]| told_apart(by_welch, runs, noise, 0.0, TRIALS);
            let alarms = [[Normal(2.0); 2], [Normal(1.0), Normal(5.0)], [Outliers(1.0); 2]].map(alarms);
            // 20,000 trials are sure to 0.3 points.
            assert!(alarms.iter().all(|alarms| *alarms < 0.05 + 0.003), "{runs} runs: {alarms:?}");
            let before = told_apart(by_bootstrap, runs, [Normal(2.0); 2], 0.0, TRIALS / 4);
            let found = [3.0, 10.0].map(|truth| told_apart(by_welch, runs, [Normal(1.0); 2], truth, TRIALS));
            let cells: Vec<String> =
                alarms.iter().chain([&before]).chain(&found).map(|share| format!("{:.1} %", share * 100.0)).collect();
            format!("| {runs} | {} |", cells.join(" | "))
        };
        let table = [3, 4, 5, 10].map(row).join("\n");
        assert!(include_str!("../../README.md").contains(&table), "loadgen/README.md lacks\n{table}");
    }
}
