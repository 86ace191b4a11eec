//! How sure a difference is: the percentile bootstrap (B. Efron, "Bootstrap methods: another look
//! at the jackknife", 1979).
//!
//! What is drawn again, with replacement, is whole *units*: the runs of a directory, or the seconds
//! of a single log. Requests of one second are not independent of each other, so they are never
//! drawn apart. Seconds of one run say nothing about what differs from run to run: an interval from
//! them is too narrow, and reports say which of the two it is.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::Side;

/// Enough for the ends of a 95 % interval to be steady to a few per cent of its width.
const RESAMPLES: usize = 1000;
/// With fewer units on a side there is no interval: what few units have in common is chance.
const UNITS_MIN: usize = 3;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Metric {
    Percentile(f64),
    Mean,
    RequestsPerSecond,
}

/// What the difference of a metric comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Faster,
    Slower,
    NoChange,
    Inconclusive,
}

/// The difference of one metric, relative to the first side, in per cent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Difference {
    pub(super) metric: Metric,
    pub(super) percent: f64,
    /// 95 % of the resamples lie in it; none with too few units.
    pub(super) interval: Option<(f64, f64)>,
    pub(super) verdict: Verdict,
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
}

impl Verdict {
    pub(super) fn name(self) -> &'static str {
        match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::NoChange => "no change",
            Verdict::Inconclusive => "inconclusive",
        }
    }

    /// An interval that excludes zero has a side; one that holds it is "no change" only if all of it
    /// is within the margin.
    fn of(metric: Metric, interval: Option<(f64, f64)>, margin_percent: f64) -> Self {
        let Some((low, high)) = interval else {
            return Verdict::Inconclusive;
        };
        let more_is_faster = metric == Metric::RequestsPerSecond;
        if -margin_percent <= low && high <= margin_percent {
            Verdict::NoChange
        } else if low > 0.0 {
            if more_is_faster { Verdict::Faster } else { Verdict::Slower }
        } else if high < 0.0 {
            if more_is_faster { Verdict::Slower } else { Verdict::Faster }
        } else {
            Verdict::Inconclusive
        }
    }
}

/// The differences of `other` from `first`.
pub(super) fn differences(first: &Side, other: &Side, margin_percent: f64, seed: u64) -> Vec<Difference> {
    let sides = [first, other].map(Units::of);
    let mut rng = SmallRng::seed_from_u64(seed);
    let whole = sides.each_ref().map(Units::whole);
    let has_intervals = sides.iter().all(|side| side.units.len() >= UNITS_MIN);
    let resamples: Vec<[Vec<f64>; 2]> = if has_intervals {
        (0..RESAMPLES).map(|_| sides.each_ref().map(|side| side.resample(&mut rng))).collect()
    } else {
        Vec::new()
    };
    let difference = |place: usize, metric: Metric| {
        let percent = relative(whole[0][place], whole[1][place]);
        let interval = has_intervals.then(|| {
            let mut drawn: Vec<f64> = resamples.iter().map(|[a, b]| relative(a[place], b[place])).collect();
            drawn.sort_by(f64::total_cmp);
            (drawn[RESAMPLES * 25 / 1000], drawn[RESAMPLES * 975 / 1000 - 1])
        });
        Difference { metric, percent, interval, verdict: Verdict::of(metric, interval, margin_percent) }
    };
    Metric::ALL.into_iter().enumerate().map(|(place, metric)| difference(place, metric)).collect()
}

fn relative(first: f64, other: f64) -> f64 {
    if first == 0.0 { 0.0 } else { (other / first - 1.0) * 100.0 }
}

/// The units of a side, without the values that none of them holds.
struct Units {
    /// Ascending.
    values: Vec<u64>,
    units: Vec<Sparse>,
}

struct Sparse {
    /// Places in `values`, and how often.
    counts: Vec<(usize, u64)>,
    seconds: f64,
}

impl Units {
    fn of(side: &Side) -> Self {
        let mut values: Vec<u64> = side
            .units
            .iter()
            .flat_map(|unit| unit.histogram.iter_recorded().map(|step| step.value_iterated_to()))
            .collect();
        values.sort_unstable();
        values.dedup();
        let sparse = |unit: &super::Unit| Sparse {
            counts: unit
                .histogram
                .iter_recorded()
                .map(|step| {
                    let place = values.binary_search(&step.value_iterated_to()).expect("all values were collected");
                    (place, step.count_at_value())
                })
                .collect(),
            seconds: unit.length.as_secs_f64(),
        };
        let units = side.units.iter().map(sparse).collect();
        Self { values, units }
    }

    fn whole(&self) -> Vec<f64> {
        self.metrics(&vec![1; self.units.len()])
    }

    fn resample(&self, rng: &mut SmallRng) -> Vec<f64> {
        let mut times = vec![0; self.units.len()];
        for _ in 0..self.units.len() {
            times[rng.random_range(0..self.units.len())] += 1;
        }
        self.metrics(&times)
    }

    /// All metrics of the units, each taken so many times.
    fn metrics(&self, times: &[u64]) -> Vec<f64> {
        let mut counts = vec![0_u64; self.values.len()];
        let mut seconds = 0.0;
        for (unit, &times) in self.units.iter().zip(times) {
            seconds += unit.seconds * times as f64;
            unit.counts.iter().filter(|_| times > 0).for_each(|&(place, count)| counts[place] += count * times);
        }
        let total: u64 = counts.iter().sum();
        let metric = |metric: Metric| match metric {
            Metric::Percentile(percentile) => self.value_at(&counts, total, percentile),
            Metric::Mean => {
                let sum: f64 =
                    self.values.iter().zip(&counts).map(|(&value, &count)| value as f64 * count as f64).sum();
                sum / total.max(1) as f64
            }
            Metric::RequestsPerSecond => total as f64 / f64::max(seconds, 1e-9),
        };
        Metric::ALL.into_iter().map(metric).collect()
    }

    fn value_at(&self, counts: &[u64], total: u64, percentile: f64) -> f64 {
        let rank = ((percentile / 100.0).next_down() * total as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        for (&value, &count) in self.values.iter().zip(counts) {
            below += count;
            if below >= rank {
                return value as f64;
            }
        }
        0.0
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Unit;
    use super::*;
    use crate::record::latency_histogram;

    /// Seconds of 1,000 requests around so many microseconds.
    fn side(mean_us: f64, spread_us: f64, units: usize, seed: u64) -> Side {
        let mut rng = SmallRng::seed_from_u64(seed);
        let unit = |_| {
            let mut histogram = latency_histogram();
            let own = mean_us + spread_us * (rng.random::<f64>() - 0.5);
            for _ in 0..1000 {
                histogram.record(((own + 10.0 * rng.random::<f64>()) * 1000.0) as u64).expect("in range");
            }
            Unit { histogram, length: Duration::from_secs(1) }
        };
        Side::for_tests((0..units).map(unit).collect())
    }

    fn p50(first: &Side, other: &Side) -> Difference {
        differences(first, other, 2.0, 1)[0]
    }

    #[test]
    fn a_difference_that_is_there_is_found_with_its_direction() {
        let (base, slower) = (side(100.0, 4.0, 20, 1), side(110.0, 4.0, 20, 2));
        let difference = p50(&base, &slower);
        let (low, high) = difference.interval.expect("enough units");
        assert!(low < difference.percent && difference.percent < high && low > 5.0 && high < 13.0, "{difference:?}");
        assert_eq!(difference.verdict, Verdict::Slower);
        assert_eq!(p50(&slower, &base).verdict, Verdict::Faster);
    }

    #[test]
    fn no_difference_is_no_change_and_a_wide_interval_is_inconclusive() {
        assert_eq!(p50(&side(100.0, 1.0, 20, 1), &side(100.0, 1.0, 20, 2)).verdict, Verdict::NoChange);
        assert_eq!(p50(&side(100.0, 90.0, 6, 1), &side(101.0, 90.0, 6, 2)).verdict, Verdict::Inconclusive);
        let few = p50(&side(100.0, 1.0, 2, 1), &side(200.0, 1.0, 2, 2));
        assert_eq!((few.interval, few.verdict), (None, Verdict::Inconclusive));
    }

    /// Of intervals that are to hold the truth in 95 of 100 cases, most do.
    #[test]
    fn intervals_cover_the_true_difference() {
        let covered = (0..60).filter(|&seed| {
            let difference = p50(&side(100.0, 20.0, 15, seed), &side(105.0, 20.0, 15, seed + 1000));
            let (low, high) = difference.interval.expect("enough units");
            // The medians are 5 us above the means' lower ends: 105 and 110.
            (low..high).contains(&((110.0 / 105.0 - 1.0) * 100.0))
        });
        let covered = covered.count();
        assert!(covered >= 50, "{covered} of 60");
    }

    #[test]
    fn more_requests_a_second_are_faster() {
        let of = |metric, interval| Verdict::of(metric, Some(interval), 2.0);
        assert_eq!(of(Metric::RequestsPerSecond, (3.0, 5.0)), Verdict::Faster);
        assert_eq!(of(Metric::RequestsPerSecond, (-5.0, -3.0)), Verdict::Slower);
        assert_eq!(of(Metric::Mean, (0.5, 1.5)), Verdict::NoChange);
        assert_eq!(of(Metric::Mean, (-1.0, 3.0)), Verdict::Inconclusive);
    }
}
