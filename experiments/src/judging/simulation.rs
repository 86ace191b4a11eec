//! How often the lab's own checks err, by simulation: `experiments simulate`.
//!
//! Each check judges invented runs whose truth is known: equals that must not differ, a ratio that the interval must
//! hold, a step that must be seen. The seed is fixed, so the table is the same everywhere; docs/results/lab-checks.txt
//! has it, and a test compares. What the lab does on a machine that drifts is simulated in `src/coverage.rs`.

use anyhow::{Context, Result, ensure};

use crate::base::rng::Rng;
use crate::base::text::markdown;
use crate::judging::compare::{self, Difference, SIGNIFICANCE, Verdict};
use crate::judging::noise::wilson;
use crate::judging::summary::Metric;
use crate::statistics::bootstrap::Estimate;
use crate::statistics::steadiness::step;

/// The seed of the committed table.
pub const SEED: u64 = 2026;

/// Runs on each side of a comparison: what the lab asks for.
const RUNS: usize = compare::RUNS_MIN;
/// Comparisons that are corrected together.
const FAMILY: usize = 10;
/// A share of intervals of 95 % that may miss: the bootstrap of ten runs is not exact.
const MISSES_MAX: f64 = 0.07;
/// Slices of a window of eight seconds.
const SLICES: usize = 80;

/// A check and how often it erred.
#[derive(Debug)]
struct Checked {
    /// What errs.
    check: &'static str,
    /// What was simulated, and what counts as an error.
    simulated: &'static str,
    trials: usize,
    errors: usize,
    /// The share that is allowed.
    bound: f64,
}

/// How runs scatter around their median.
#[derive(Debug, Clone, Copy)]
enum Scatter {
    /// Normally, with this standard deviation.
    Normal(f64),
    /// The same, and one run in ten is at half its speed.
    Disturbed(f64),
}

impl Scatter {
    /// As many runs as a side has, whose median is about `rate`.
    fn runs(self, rate: f64, rng: &mut Rng) -> Vec<f64> {
        (0..RUNS).map(|_| rate * self.draw(rng)).collect()
    }

    fn draw(self, rng: &mut Rng) -> f64 {
        match self {
            Self::Normal(deviation) => (deviation * normal(rng)).exp(),
            Self::Disturbed(deviation) => {
                let speed = if rng.below(10) == 0 { 0.5 } else { 1.0 };
                speed * (deviation * normal(rng)).exp()
            }
        }
    }
}

/// The sum of twelve uniform numbers, which is nearly normal.
fn normal(rng: &mut Rng) -> f64 {
    (0..12).map(|_| rng.below(1_000_001) as f64 / 1e6).sum::<f64>() - 6.0
}

/// All checks, simulated from a seed.
fn checks(seed: u64) -> Vec<Checked> {
    let mut rng = Rng::new(seed);
    let mut checks = Vec::new();
    let mut add = |check, simulated, bound, trials, errs: &mut dyn FnMut(&mut Rng) -> bool| {
        let errors = (0..trials).filter(|_| errs(&mut rng)).count();
        checks.push(Checked { check, simulated, trials, errors, bound });
    };
    let (even, uneven) = (Scatter::Normal(0.05), Scatter::Disturbed(0.05));
    let few = Scatter::Normal(0.03);
    add(
        "faster, slower",
        "10 comparisons of equals, corrected together, scatter 5 %: one is said to differ",
        0.05,
        400,
        &mut |rng| differs(rng, even, compare::correct),
    );
    add("faster, slower", "the same, and one run in ten is at half its speed", 0.05, 400, &mut |rng| {
        differs(rng, uneven, compare::correct)
    });
    add("rank test", "two sides of equals, scatter 5 %: p below 0.05", 0.05, 4000, &mut |rng| {
        compare::rank_test(&even.runs(1.0, rng), &even.runs(1.0, rng)) < SIGNIFICANCE
    });
    add(
        "no change, below 5 %",
        "sides that differ by 6 %, scatter 3 %: said to be apart by less than 5 %",
        0.05,
        2000,
        &mut |rng| {
            let verdict = difference(few, 1.06, rng).verdict(Metric::OpsPerSec);
            matches!(verdict, Verdict::NoChange | Verdict::Below)
        },
    );
    add("interval of a ratio", "a ratio of 1.10, scatter 5 %: the interval misses it", MISSES_MAX, 2000, &mut |rng| {
        misses(&difference(even, 1.1, rng), 1.1)
    });
    add("interval of a ratio", "the same, and one run in ten is at half its speed", MISSES_MAX, 2000, &mut |rng| {
        misses(&difference(uneven, 1.1, rng), 1.1)
    });
    add(
        "interval of a median",
        "ten runs, scatter 5 %: the interval misses their median",
        MISSES_MAX,
        2000,
        &mut |rng| {
            let seed = rng.below(1 << 30) as u64;
            let found = Estimate::of(even.runs(1.0, rng), seed).expect("a side has runs");
            found.low() > 1.0 || found.high() < 1.0
        },
    );
    add("unsteady", "80 slices of a steady window, scatter 15 %: a step is found", 0.05, 4000, &mut |rng| {
        step(&window(rng, 0.15, 1.0)).is_some()
    });
    add(
        "unsteady",
        "80 slices, scatter 5 %, a fall by 30 % at any place but the first and last 8: none is found",
        0.05,
        4000,
        &mut |rng| step(&window(rng, 0.05, 0.7)).is_none(),
    );
    checks
}

fn difference(scatter: Scatter, ratio: f64, rng: &mut Rng) -> Difference {
    let (above, below) = (scatter.runs(ratio, rng), scatter.runs(1.0, rng));
    Difference::of(&above, &below, rng.below(1 << 30) as u64).expect("a side has runs")
}

fn misses(found: &Difference, ratio: f64) -> bool {
    found.low > ratio || found.high < ratio
}

/// Whether a family of equals has a verdict that two of them differ.
fn differs(rng: &mut Rng, scatter: Scatter, correct: impl Fn(&mut [&mut Difference])) -> bool {
    let mut family: Vec<Difference> = (0..FAMILY).map(|_| difference(scatter, 1.0, rng)).collect();
    correct(&mut family.iter_mut().collect::<Vec<_>>());
    let verdicts = family.iter().map(|one| one.verdict(Metric::OpsPerSec));
    verdicts.into_iter().any(|verdict| matches!(verdict, Verdict::Better | Verdict::Worse))
}

/// The slices of a window whose rate becomes `factor` of what it was at a place that is drawn.
fn window(rng: &mut Rng, spread: f64, factor: f64) -> Vec<u64> {
    let at = SLICES / 10 + rng.below(SLICES - 2 * (SLICES / 10) + 1);
    let rate = |index: usize| if index < at { 1.0 } else { factor };
    (0..SLICES).map(|index| (100_000.0 * rate(index) * (1.0 + spread * normal(rng)).max(0.0)) as u64).collect()
}

impl Checked {
    /// The share of trials in which it erred.
    fn share(&self) -> f64 {
        self.errors as f64 / self.trials as f64
    }

    fn row(&self) -> String {
        let (low, high) = wilson(self.errors, self.trials);
        let percent = |share: f64| format!("{:.1}", share * 100.0);
        let cells = [
            self.check.to_owned(),
            self.simulated.to_owned(),
            self.trials.to_string(),
            self.errors.to_string(),
            format!("{} % [{}–{}]", percent(self.share()), percent(low), percent(high)),
            format!("{:.0} %", self.bound * 100.0),
        ];
        cells.join(" | ")
    }
}

/// The table, as the committed file has it.
pub fn table(seed: u64) -> String {
    table_of(seed, &checks(seed))
}

fn table_of(seed: u64, checks: &[Checked]) -> String {
    let rows: Vec<String> = checks.iter().map(|one| one.row() + "\n").collect();
    format!(
        "# `experiments simulate --seed {seed}`: how often the lab's checks err, with Wilson's 95 % intervals\n\
         check | simulated, and what counts as an error | trials | errors | share | bound\n{}",
        rows.concat()
    )
}

/// The table of such a file for a document.
pub(crate) fn as_markdown(text: &str) -> Result<String> {
    let mut rows = text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(" | ").collect::<Vec<_>>());
    let header = rows.next().context("the file has no table")?;
    let rows: Vec<Vec<String>> = rows.map(|row| row.into_iter().map(str::to_owned).collect()).collect();
    ensure!(rows.iter().all(|row| row.len() == header.len()), "a row has more or fewer cells than the first");
    Ok(markdown(&header, &rows))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_check_errs_as_seldom_as_is_published() {
        let checks = checks(SEED);
        for one in &checks {
            // Not above it beyond the chance of the simulation itself.
            assert!(wilson(one.errors, one.trials).0 <= one.bound, "{}", one.row());
        }
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/results/lab-checks.txt");
        let published = fs::read_to_string(&file).unwrap();
        let table = table_of(SEED, &checks);
        assert!(published == table, "{} has another table than the simulation:\n{table}", file.display());
    }

    fn share(trials: usize, mut errs: impl FnMut(&mut Rng) -> bool) -> f64 {
        let mut rng = Rng::new(7);
        (0..trials).filter(|_| errs(&mut rng)).count() as f64 / trials as f64
    }

    #[test]
    fn a_check_that_is_broken_is_seen_to_err_too_often() {
        let even = Scatter::Normal(0.05);
        let uncorrected = share(300, |rng| differs(rng, even, |_| ()));
        assert!(uncorrected > 0.05, "families without the correction: {uncorrected}");
        let halved = share(500, |rng| {
            let mut found = difference(even, 1.1, rng);
            (found.low, found.high) = ((found.low * found.ratio).sqrt(), (found.high * found.ratio).sqrt());
            misses(&found, 1.1)
        });
        assert!(halved > MISSES_MAX, "intervals of half the width: {halved}");
        let blind = share(500, |rng| step(&window(rng, 0.05, 0.9)).is_none());
        assert!(blind > 0.05, "a fall below the least step: {blind}");
    }
}
