//! The noise floor: the conclusions of an A/A sweep about the method itself.
//!
//! Such a sweep measures variants that only differ in their names (`equals`), and one that the lab slows down by a
//! known share (`stopped_percent`). It answers three questions:
//!
//! - How often does the test see a difference where there is none? Counted over all pairs of equals, each ten rounds of
//!   the run apart, in the order they were measured: about 5 % are to be below p = 0.05.
//! - How small a difference gets a verdict? The runs of equals are one pool; two draws of ten, one of them made slower
//!   by a known share, are judged, many times. The share that is judged to be worse is the power. A verdict is
//!   corrected for its family, so the power is that of the smallest p-value in a family as large as those of the run.
//! - Does the test find a real one? The slowed variant against its equals, beside the share for which it was stopped,
//!   and beside the power of that test, which has more runs than ten, and no family.
//!
//! All three take values as any comparison does: without the machine's drift where the points are shown to respond to
//! it alike, and as measured elsewhere. The power of values without drift would not be that of comparisons of others.

use std::collections::BTreeMap;

use crate::base::rng::Rng;
use crate::judging::analysis;
use crate::judging::compare::{Difference, RUNS_MIN, SIGNIFICANCE, Verdict, rank_test};
use crate::judging::summary::{Metric, PointSummary, Summary};
use crate::plan::dimension::Dimension;
use crate::plan::point::Point;
use crate::plan::sweep::Sweep;
use crate::results::observation::Observations;

/// Runs on each side of a comparison: the minimum of the method.
pub(crate) const RUNS: usize = RUNS_MIN;

/// The slowdowns whose power is stated, as shares. Those below the smallest effect of interest get no verdict.
pub(crate) const SLOWDOWNS: [f64; 5] = [0.05, 0.08, 0.10, 0.15, 0.20];

/// Pairs of draws for each figure of power.
const DRAWS: usize = 400;

/// The noise of an A/A sweep in one metric.
#[derive(Debug, Clone)]
pub struct Noise {
    /// The metric.
    pub metric: Metric,
    /// Comparisons of equals.
    pub comparisons: usize,
    /// Those with p below 0.05.
    pub false_positives: usize,
    /// The 95 % interval of their share (Wilson). Comparisons share runs, so it is somewhat too narrow.
    pub share_interval: (f64, f64),
    /// The distance from one that 95 of 100 ratios of equals do not exceed.
    pub floor: f64,
    /// Comparisons in the family that the power is stated for.
    pub family: usize,
    /// Each of [`SLOWDOWNS`] with the share of draws in which the verdict was that it is worse.
    pub power: Vec<(f64, f64)>,
}

/// A slowdown that was really made, and the difference that was found.
#[derive(Debug, Clone)]
pub(crate) struct Injected {
    /// The load and the server.
    pub place: String,
    /// Median share of the window for which the server was stopped.
    pub stopped_share: f64,
    /// The slowed variant by its equals, all of their runs together.
    pub difference: Difference,
    /// How often such a test, of as many runs, finds a slowdown by that share.
    pub power: f64,
}

/// Points that measure the same thing.
struct Group<'a> {
    place: String,
    equals: Vec<&'a PointSummary>,
    slowed: Option<&'a PointSummary>,
}

/// The noise of one of a run's sweeps, metric by metric; empty if the sweep has no equals.
pub(crate) fn of(summary: &Summary, sweeps: &[Sweep], sweep: &Sweep) -> Vec<Noise> {
    let groups = groups(summary, sweep);
    if groups.iter().all(|group| group.equals.len() < 2) {
        return Vec::new();
    }
    let family = usual_family(summary, sweeps);
    analysis::judged(sweep).into_iter().filter_map(|metric| noise(summary.seed, metric, family, &groups)).collect()
}

/// The size of the middle one of the families of a run.
fn usual_family(summary: &Summary, sweeps: &[Sweep]) -> usize {
    let compares = sweeps.iter().filter(|sweep| sweep.equals.is_empty());
    let mut sizes: Vec<usize> = compares.map(|sweep| analysis::family_size(summary, sweep)).collect();
    sizes.retain(|size| *size > 0);
    sizes.sort_unstable();
    sizes.get(sizes.len() / 2).copied().unwrap_or(1)
}

/// The slowdowns of a sweep in throughput: the lab stops the server, so throughput must fall.
pub(crate) fn injected(summary: &Summary, observations: &Observations, sweep: &Sweep) -> Vec<Injected> {
    let found = |group: Group| {
        let slowed = group.slowed?;
        let metric = Metric::OpsPerSec;
        let all: Vec<&PointSummary> = group.equals.iter().copied().chain([slowed]).collect();
        let values = values_of(&all, metric);
        let (pool, own) = values.split_at(group.equals.len());
        let (pool, own) = (pool.concat(), own.concat());
        let mut shares: Vec<f64> =
            slowed.lines.iter().filter_map(|line| observations.trials.get(line - 2)?.stopped_share).collect();
        let stopped_share = crate::statistics::quantiles::median(&mut shares)?;
        let difference = Difference::of(&own, &pool, summary.seed)?;
        let sizes = (own.len(), pool.len());
        let is_found = |slowed: &[f64], plain: &[f64]| rank_test(slowed, plain) < SIGNIFICANCE;
        let power = power_of(&[pool], sizes, 1.0 - stopped_share, summary.seed, is_found);
        Some(Injected { place: group.place, stopped_share, difference, power })
    };
    groups(summary, sweep).into_iter().filter_map(found).collect()
}

fn groups<'a>(summary: &'a Summary, sweep: &Sweep) -> Vec<Group<'a>> {
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    // Trials that failed measured something else than their equals.
    for one in summary.of_sweep(&sweep.name).filter(|one| one.failed == 0) {
        let place = place(sweep, &one.point);
        let group = || Group { place: place.clone(), equals: Vec::new(), slowed: None };
        let group = groups.entry(place.clone()).or_insert_with(group);
        if sweep.equals.contains(&one.point.variant) {
            group.equals.push(one);
        } else if sweep.variant(&one.point.variant).stopped_percent.is_some() {
            group.slowed = Some(one);
        }
    }
    groups.into_values().collect()
}

/// Everything about a point except its variant.
fn place(sweep: &Sweep, point: &Point) -> String {
    let varied = Dimension::all(sweep)
        .into_iter()
        .filter(|dimension| *dimension != Dimension::Variant && dimension.count(sweep) > 1);
    let load = varied.map(|dimension| format!(", {} {}", dimension.title(), dimension.label(point)));
    format!("{}{}", point.server, load.collect::<String>())
}

/// The repeats of points that are compared with each other: without the machine's drift if all are shown to respond to
/// it alike.
fn values_of<'a>(points: &[&'a PointSummary], metric: Metric) -> Vec<&'a [f64]> {
    let mut pairs = (1..points.len()).flat_map(|end| points[..end].iter().map(move |one| (*one, points[end])));
    let alike = pairs.all(|(one, other)| analysis::responds_alike(one, other, metric));
    let figures = points.iter().filter_map(|one| one.figures.get(&metric));
    figures.map(|figure| if alike { figure.aligned.as_slice() } else { &figure.values }).collect()
}

fn noise(seed: u64, metric: Metric, family: usize, groups: &[Group]) -> Option<Noise> {
    let mut found: Vec<Difference> = Vec::new();
    for group in groups {
        for (index, first) in group.equals.iter().enumerate() {
            for second in &group.equals[index + 1..] {
                let Some((first, second)) = analysis::sides(first, second, metric) else { continue };
                let rounds = first.chunks_exact(RUNS).zip(second.chunks_exact(RUNS));
                found.extend(rounds.filter_map(|(a, b)| Difference::of(a, b, seed)));
            }
        }
    }
    let mut distances: Vec<f64> = found.iter().map(|one| one.ratio.max(1.0 / one.ratio) - 1.0).collect();
    distances.sort_by(f64::total_cmp);
    let floor = *distances.get((distances.len() * 95).div_ceil(100).checked_sub(1)?)?;
    let false_positives = found.iter().filter(|one| one.p < SIGNIFICANCE).count();
    Some(Noise {
        metric,
        comparisons: found.len(),
        false_positives,
        share_interval: wilson(false_positives, found.len()),
        floor,
        family,
        power: SLOWDOWNS.iter().map(|&slowdown| (slowdown, power(seed, metric, family, groups, slowdown))).collect(),
    })
}

/// How often a slowdown is found between two draws, of this many each, from the runs of equals.
fn power_of(
    pools: &[Vec<f64>],
    sizes: (usize, usize),
    factor: f64,
    seed: u64,
    is_found: impl Fn(&[f64], &[f64]) -> bool,
) -> f64 {
    let mut rng = Rng::new(seed);
    let mut found = 0;
    for draw in 0..DRAWS {
        let pool = &pools[draw % pools.len()];
        let mut runs = |count: usize, factor: f64| -> Vec<f64> {
            (0..count).map(|_| factor * pool[rng.below(pool.len())]).collect()
        };
        let (slowed, plain) = (runs(sizes.0, factor), runs(sizes.1, 1.0));
        found += usize::from(is_found(&slowed, &plain));
    }
    found as f64 / DRAWS as f64
}

/// How often the verdict on a slowdown is that it is worse.
fn power(seed: u64, metric: Metric, family: usize, groups: &[Group], slowdown: f64) -> f64 {
    let pool = |group: &Group| values_of(&group.equals, metric).concat();
    let pools: Vec<Vec<f64>> = groups.iter().map(pool).filter(|pool| !pool.is_empty()).collect();
    let factor = if metric.more_is_better() { 1.0 - slowdown } else { 1.0 + slowdown };
    let is_worse = |slowed: &[f64], plain: &[f64]| {
        // Drawing the interval takes far longer than the test, and cannot mend what the test does not find.
        let p_adjusted = rank_test(slowed, plain) * family as f64;
        p_adjusted < SIGNIFICANCE
            && Difference::of(slowed, plain, seed)
                .is_some_and(|one| Difference { p_adjusted, ..one }.verdict(metric) == Verdict::Worse)
    };
    power_of(&pools, (RUNS, RUNS), factor, seed, is_worse)
}

/// What the power of these is the power of.
pub(crate) fn power_in_words(found: &[Noise]) -> String {
    let family = found.first().map_or(1, |one| one.family);
    format!(
        "Power: how often {RUNS} repeats a side have the verdict \"slower\" (or \"dearer\") on such a slowdown, if its p is the \
         smallest of {family} comparisons, the middle family of this run."
    )
}

/// The 95 % interval of a share, after Wilson: Probable inference (1927).
pub(crate) fn wilson(count: usize, all: usize) -> (f64, f64) {
    if all == 0 {
        return (0.0, 1.0);
    }
    let (n, z) = (all as f64, 1.96_f64);
    let share = count as f64 / n;
    let middle = share + z * z / (2.0 * n);
    let width = z * (share * (1.0 - share) / n + z * z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + z * z / n;
    (((middle - width) / scale).max(0.0), ((middle + width) / scale).min(1.0))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::testing;

    const AA: &str = "question='?'\nservers=['s']\nclients=[1, 2, 3, 4]\ntest_seconds=1\nwarm_up_seconds=0\nrepeats=20\n\
        equals=['a', 'b', 'c', 'd']\nvariant=[{name='a', flags=[]}, {name='b', flags=[]}, {name='c', flags=[]}, \
        {name='d', flags=[]}, {name='braked', flags=[], stopped_percent=3}]\n";

    /// Runs that scatter by about `spread` around a thousand; the braked ones around 970.
    fn measured(spread: f64, sweep: &str) -> (Sweep, Summary) {
        let rng = RefCell::new(Rng::new(5));
        let (run, summary) = testing::run("aa", sweep, |point, _| {
            let mut rng = rng.borrow_mut();
            let wobble: f64 = (0..12).map(|_| rng.below(1_000_001) as f64 / 1e6).sum::<f64>() - 6.0;
            let rate = if point.variant == "braked" { 970.0 } else { 1000.0 };
            rate * (1.0 + spread * wobble)
        });
        (run.setup.sweeps[0].clone(), summary)
    }

    #[test]
    fn equals_differ_about_as_often_as_the_test_says() {
        let clients: Vec<String> = (1..=25).map(|clients: u32| clients.to_string()).collect();
        let (sweep, summary) = measured(0.02, &AA.replace("1, 2, 3, 4", &clients.join(", ")));
        let noise = of(&summary, &[], &sweep);
        let one = noise.iter().find(|one| one.metric == Metric::OpsPerSec).unwrap();
        assert_eq!(one.comparisons, 25 * 6 * 2);
        assert!((6..=27).contains(&one.false_positives), "{one:?}");
        assert!((0.005..0.06).contains(&one.floor), "{one:?}");
    }

    // A t test of two samples of ten that are 1.5 standard deviations apart has the power 0.89; ranks lose little.
    #[test]
    fn the_power_of_the_test_is_what_theory_says() {
        let pool: Vec<f64> = (0..400).map(|index| 1000.0 + 20.0 * normal(index)).collect();
        let is_found = |slowed: &[f64], plain: &[f64]| rank_test(slowed, plain) < SIGNIFICANCE;
        let power = |factor| power_of(std::slice::from_ref(&pool), (RUNS, RUNS), factor, 3, is_found);
        assert!((0.75..0.97).contains(&power(0.97)), "{}", power(0.97));
        assert!(power(1.0) < 0.10, "without a slowdown about one in twenty is found: {}", power(1.0));
    }

    /// One of many values that scatter as a normal distribution does.
    fn normal(index: u64) -> f64 {
        let mut rng = Rng::new(index);
        (0..12).map(|_| rng.below(1_000_001) as f64 / 1e6).sum::<f64>() - 6.0
    }

    #[test]
    fn power_is_that_of_the_verdict_with_its_family_and_grows_with_the_slowdown() {
        let (sweep, summary) = measured(0.04, AA);
        let groups = groups(&summary, &sweep);
        let power_in = |family, slowdown| power(3, Metric::OpsPerSec, family, &groups, slowdown);
        let powers = SLOWDOWNS.map(|slowdown| power_in(1, slowdown));
        assert!(powers.windows(2).all(|pair| pair[0] <= pair[1] + 0.02), "{powers:?}");
        assert!(powers[4] > 0.95, "{powers:?}");
        assert!(power_in(300, 0.08) < power_in(1, 0.08) - 0.2, "a family takes power");
        let (sweep, summary) = measured(0.002, AA);
        let groups = super::groups(&summary, &sweep);
        assert_eq!(power(3, Metric::OpsPerSec, 1, &groups, 0.03), 0.0, "what is surely below 5 % is not slower");
    }

    #[test]
    fn the_family_of_a_run_is_the_middle_one_of_its_sweeps() {
        let (run, summary) = testing::run("grid", GRID, |_, round| 1000.0 + f64::from(round));
        let family = analysis::family_size(&summary, &run.setup.sweeps[0]);
        assert_eq!(family, analysis::comparisons(&summary, &run.setup.sweeps[0]).len());
        assert_eq!(usual_family(&summary, &run.setup.sweeps), family);
        assert_eq!(usual_family(&summary, &[]), 1);
    }

    const GRID: &str = "question='?'\nservers=['a', 'b', 'c']\nclients=[1, 2]\ntest_seconds=1\nwarm_up_seconds=0\n\
        repeats=10\n";

    #[test]
    fn power_is_that_of_the_values_that_comparisons_use() {
        let (sweep, mut summary) = measured(0.02, AA);
        let power = |summary: &Summary| of(summary, &[], &sweep).swap_remove(0).power;
        let before = power(&summary);
        // Nothing shows that these points respond to the machine alike, so no comparison uses what alignment makes of
        // them.
        for figure in summary.points.iter_mut().flat_map(|one| one.figures.values_mut()) {
            figure.aligned.fill(figure.median);
        }
        assert_eq!(power(&summary), before);
    }

    #[test]
    fn points_with_trials_that_failed_are_no_equals() {
        let (sweep, mut summary) = measured(0.01, AA);
        let comparisons = |summary: &Summary| {
            of(summary, &[], &sweep).iter().find(|one| one.metric == Metric::OpsPerSec).unwrap().comparisons
        };
        assert_eq!(comparisons(&summary), 4 * 6 * 2);
        summary.points.iter_mut().filter(|one| one.point.variant == "a").for_each(|one| one.failed = 1);
        assert_eq!(comparisons(&summary), 4 * 3 * 2, "three equals make three pairs");
    }

    #[test]
    fn an_injected_slowdown_is_found_and_its_size_lies_in_the_interval() {
        let (sweep, summary) = measured(0.01, AA);
        let trials = summary.points.iter().flat_map(|point| &point.lines).max().unwrap() - 1;
        let line = r#"{"trial":"x","started_unix_ms":1,"seconds":1.0,"requests":1,"errors":0,"hits":3,"misses":1,
            "ops_per_sec":1.5,"p50_us":1.0,"p99_us":2.0,"p999_us":3.0,"generator_cpu_us_per_op":1.0,"generator_threads":1,
            "server_cores":0.5,"generator_cores":0.96,"foreign_cores":0.3,"rss_prefilled_bytes":1,"rss_peak_bytes":2,
            "attempts":1,"stopped_share":0.031}"#;
        let observations = Observations {
            servers: BTreeMap::new(),
            trials: vec![serde_json::from_str(line).unwrap(); trials],
            latencies: None,
        };
        let all = injected(&summary, &observations, &sweep);
        assert_eq!(all.len(), 4);
        for one in all {
            assert_eq!(one.stopped_share, 0.031);
            assert!(one.difference.p < SIGNIFICANCE && one.difference.ratio < 1.0, "{one:?}");
            assert!(one.difference.low < 0.975 && one.difference.high > 0.965, "{one:?}");
        }
    }

    #[test]
    fn the_interval_of_a_share_is_wilsons() {
        let (low, high) = wilson(5, 100);
        assert!((low - 0.0215).abs() < 5e-4 && (high - 0.1118).abs() < 5e-4, "{low} {high}");
        assert_eq!(wilson(0, 0), (0.0, 1.0));
    }
}
