//! The parts of a difference between two servers.
//!
//! A sweep whose variants set `factors` to levels is a factorial design: every level of every factor is measured with
//! every other, on every server and under every load. Then the effect of one factor is separated from the others by
//! averaging over them, which a comparison of two configurations never does.
//!
//! All of it is computed on logarithms of medians, so that effects are ratios and add up: 1.05 for `batching` says that
//! batching alone multiplies the figure by that. Intervals are bootstraps over the repeats of every point.
//!
//! - **Parts** take one difference apart, that of the subject with all factors at their last level from the baseline
//!   with all at their first. A part is the mean change that a factor makes over all orders in which they can be
//!   changed one after another, so the parts multiply to the whole. The rest, which no factor explains, is the server's
//!   own.
//! - **Effects** are those of an analysis of variance: of a level against the first one, averaged over everything else;
//!   and of two factors together, the effect of their levels beyond the product of both. A share is of the sum of
//!   squares.
//!
//! Shapley: A value for n-person games (1953), for the parts. Fisher: The arrangement of field experiments (1926).

use std::collections::BTreeMap;

use crate::base::rng::Rng;
use crate::judging::analysis;
use crate::judging::summary::{Metric, PointSummary, Summary};
use crate::plan::dimension::Dimension;
use crate::plan::point::Point;
use crate::plan::sweep::Sweep;
use crate::statistics::bootstrap::resampled_median;
use crate::statistics::quantiles::{median, middle_95_percent};

/// Draws for the intervals.
const RESAMPLES: usize = 1_000;

/// The name of the factor whose levels are the servers.
const SERVER: &str = "server";

/// A ratio with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// The ratio of medians.
    pub ratio: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// The difference of two servers, and its causes.
#[derive(Debug, Clone)]
pub struct Analysis {
    /// The server that is explained.
    pub subject: String,
    /// The server that it is compared with.
    pub baseline: String,
    /// The constant coordinates, such as `SET:GET 0:1`; empty if the sweep has one such block.
    pub block: String,
    /// The factors of the variants: name, first level, last level.
    pub factors: Vec<(String, String, String)>,
    /// A row for each load, and last the mean of all loads.
    pub loads: Vec<Parts>,
    /// Main effects and interactions of two factors.
    pub effects: Vec<Effect>,
    /// Points that failed, were unsteady or limited by the generator.
    pub flawed: usize,
}

/// A difference under one load, in parts.
#[derive(Debug, Clone)]
pub struct Parts {
    /// The load; `None` for the mean of all.
    pub load: Option<String>,
    /// The subject with all factors at their last levels by the baseline with all at their first.
    pub whole: Ratio,
    /// What each factor contributes, in their order.
    pub of_factors: Vec<Ratio>,
    /// The rest: the server itself.
    pub rest: Ratio,
    /// Subject by baseline where both have all factors at their first levels.
    pub equal_first: Ratio,
    /// Subject by baseline where both have all factors at their last levels.
    pub equal_last: Ratio,
}

/// An effect of the analysis of variance.
#[derive(Debug, Clone)]
pub struct Effect {
    /// The factor, or two.
    pub factors: Vec<String>,
    /// The levels that are compared with the first ones.
    pub levels: Vec<String>,
    /// The change.
    pub ratio: Ratio,
    /// Share of the sum of squares that the factor, or the interaction, has with all of its levels.
    pub share: f64,
}

/// The cells of a design: one for each combination of levels.
struct Design<'a> {
    factors: Vec<Factor>,
    /// In the order of the levels, the last factor's fastest.
    cells: Vec<&'a PointSummary>,
}

struct Factor {
    name: String,
    levels: Vec<String>,
    /// Whether it belongs to the variants, and not to the load.
    of_variant: bool,
}

/// The analyses of a sweep in one metric: of each of its pairs, in each block. A block with a missing point has none.
pub(crate) fn of(summary: &Summary, sweep: &Sweep, metric: Metric) -> Vec<Analysis> {
    let blocks = sweep.ratio.iter();
    let pairs = || sweep.factorial.iter();
    blocks
        .flat_map(|ratio| {
            pairs().filter_map(move |(subject, baseline)| {
                let design = Design::of(summary, sweep, (subject, baseline), &ratio.to_string())?;
                let block = format!("{} {ratio}", Dimension::Ratio.title());
                let block = if sweep.ratio.len() > 1 { block } else { String::new() };
                design.analysis(summary.seed, metric, (subject, baseline), block)
            })
        })
        .collect()
}

impl<'a> Design<'a> {
    fn of(summary: &'a Summary, sweep: &Sweep, (subject, baseline): (&str, &str), ratio: &str) -> Option<Self> {
        let mut factors = vec![factor(SERVER, [baseline, subject].map(str::to_owned).to_vec(), true)];
        factors.extend(factors_of(sweep));
        let loads = Dimension::all(sweep).into_iter().filter(|one| is_load(one, sweep));
        factors.extend(loads.map(|one| factor(&one.title(), one.labels(sweep), false)));
        let by_levels: BTreeMap<Vec<String>, &PointSummary> = summary
            .of_sweep(&sweep.name)
            .filter(|one| one.point.ratio.to_string() == ratio)
            .map(|one| (levels_of(sweep, &one.point), one))
            .collect();
        let cells = combinations(&factors).into_iter().map(|levels| by_levels.get(&levels).copied());
        Some(Self { cells: cells.collect::<Option<_>>()?, factors })
    }

    /// The repeats of all cells: without the drift of the machine if all are shown to respond to it alike, and as
    /// measured otherwise.
    fn repeats(&self, metric: Metric) -> Option<Vec<&[f64]>> {
        let all_alike = self.cells.iter().all(|one| analysis::responds_alike(self.cells[0], one, metric));
        let of = |one: &'a PointSummary| {
            let figures = one.figures.get(&metric)?;
            Some(if all_alike { &figures.aligned[..] } else { &figures.values[..] })
        };
        self.cells.iter().map(|one| of(one)).collect()
    }

    fn analysis(
        &self,
        seed: u64,
        metric: Metric,
        (subject, baseline): (&str, &str),
        block: String,
    ) -> Option<Analysis> {
        let values = self.repeats(metric)?;
        if values.iter().any(|runs| runs.iter().any(|value| *value <= 0.0)) {
            return None;
        }
        let (found, draws) = medians(&values, seed)?;
        let ratio = |contrast: &[f64]| Ratio::of(contrast, &found, &draws);
        let is_flawed = |one: &&&PointSummary| one.failed > 0 || one.flaw(metric).is_some();
        let own = self.factors.iter().filter(|one| one.of_variant && one.name != SERVER);
        let ends = own.map(|one| (one.name.clone(), one.levels[0].clone(), one.last().to_owned()));
        Some(Analysis {
            subject: subject.to_owned(),
            baseline: baseline.to_owned(),
            block,
            factors: ends.collect(),
            loads: self.loads(&ratio),
            effects: self.effects(&found, &ratio),
            flawed: self.cells.iter().filter(is_flawed).count(),
        })
    }

    /// The parts under each load, and their mean.
    fn loads(&self, ratio: &dyn Fn(&[f64]) -> Ratio) -> Vec<Parts> {
        let loads: Vec<Vec<usize>> = positions(self.factors.iter().filter(|one| !one.of_variant));
        let mut rows: Vec<Parts> =
            loads.iter().map(|load| self.parts(Some(self.describe(load)), std::slice::from_ref(load), ratio)).collect();
        if loads.len() > 1 {
            rows.push(self.parts(None, &loads, ratio));
        }
        rows
    }

    fn parts(&self, load: Option<String>, loads: &[Vec<usize>], ratio: &dyn Fn(&[f64]) -> Ratio) -> Parts {
        let count = self.factors.iter().filter(|one| one.of_variant).count();
        let all: Vec<usize> = (0..count).collect();
        let server = [0];
        let own: Vec<usize> = (1..count).collect();
        let change = |from: &[usize], to: &[usize]| {
            let mut contrast = vec![0.0; self.cells.len()];
            for load in loads {
                contrast[self.corner(to, load)] += 1.0 / loads.len() as f64;
                contrast[self.corner(from, load)] -= 1.0 / loads.len() as f64;
            }
            contrast
        };
        let part = |factor: usize| {
            let others: Vec<usize> = all.iter().copied().filter(|one| *one != factor).collect();
            let mut contrast = vec![0.0; self.cells.len()];
            for before in subsets(&others) {
                let after: Vec<usize> = before.iter().copied().chain([factor]).collect();
                let weight = share_of_orders(before.len(), count);
                add(&mut contrast, &change(&before, &after), weight);
            }
            ratio(&contrast)
        };
        Parts {
            load,
            whole: ratio(&change(&[], &all)),
            of_factors: own.iter().map(|&factor| part(factor)).collect(),
            rest: part(0),
            equal_first: ratio(&change(&[], &server)),
            equal_last: ratio(&change(&own, &all)),
        }
    }

    /// The cell in which these factors of the variants are at their last level and the others at their first.
    fn corner(&self, last: &[usize], load: &[usize]) -> usize {
        let mut load = load.iter();
        let mut variant = 0;
        let places = self.factors.iter().map(|factor| {
            if !factor.of_variant {
                return *load.next().expect("a load has a level of each of its factors");
            }
            variant += 1;
            if last.contains(&(variant - 1)) { factor.levels.len() - 1 } else { 0 }
        });
        self.index(&places.collect::<Vec<_>>())
    }

    fn index(&self, places: &[usize]) -> usize {
        self.factors.iter().zip(places).fold(0, |index, (factor, place)| index * factor.levels.len() + place)
    }

    fn describe(&self, load: &[usize]) -> String {
        let factors = self.factors.iter().filter(|one| !one.of_variant);
        let words = factors.zip(load).map(|(factor, &place)| format!("{} {}", factor.name, factor.levels[place]));
        words.collect::<Vec<_>>().join(", ")
    }

    fn effects(&self, found: &[f64], ratio: &dyn Fn(&[f64]) -> Ratio) -> Vec<Effect> {
        let count = self.factors.len();
        let mains = (0..count).map(|one| vec![one]);
        let pairs = (0..count).flat_map(|one| (one + 1..count).map(move |other| vec![one, other]));
        let total = squares(found);
        mains.chain(pairs).flat_map(|factors| self.effects_of(&factors, found, total, ratio)).collect()
    }

    /// Each combination of levels of one or two factors beyond their first.
    fn effects_of(&self, factors: &[usize], found: &[f64], total: f64, ratio: &dyn Fn(&[f64]) -> Ratio) -> Vec<Effect> {
        let cells = positions(self.factors.iter());
        let share = if total > 0.0 { self.squares_of(factors, &cells, found) / total } else { 0.0 };
        let levels = positions(factors.iter().map(|&one| &self.factors[one]));
        let changed = levels.into_iter().filter(|places| places.iter().all(|place| *place > 0));
        let effect = |places: Vec<usize>| {
            let others: f64 = factors.iter().map(|&one| self.factors[one].levels.len() as f64).product();
            let weight = others / cells.len() as f64;
            // For one factor: level minus first. For two: the effect of both, minus that of each alone.
            let contrast = cells.iter().map(|cell| {
                let sign = |(&factor, &place): (&usize, &usize)| match cell[factor] {
                    at if at == place => 1.0,
                    0 => -1.0,
                    _ => 0.0,
                };
                weight * factors.iter().zip(&places).map(sign).product::<f64>()
            });
            Effect {
                factors: factors.iter().map(|&one| self.factors[one].name.clone()).collect(),
                levels: factors.iter().zip(&places).map(|(&one, &at)| self.factors[one].levels[at].clone()).collect(),
                ratio: ratio(&contrast.collect::<Vec<_>>()),
                share,
            }
        };
        changed.map(effect).collect()
    }

    /// The sum of squares of a factor, or of the interaction of two.
    fn squares_of(&self, factors: &[usize], cells: &[Vec<usize>], found: &[f64]) -> f64 {
        let mean_at = |fixed: &[(usize, usize)]| {
            let here = cells.iter().zip(found).filter(|(cell, _)| fixed.iter().all(|&(one, at)| cell[one] == at));
            let (sum, count) = here.fold((0.0, 0.0), |(sum, count), (_, value)| (sum + value, count + 1.0));
            sum / count
        };
        let grand = mean_at(&[]);
        let deviation = |places: Vec<usize>| {
            let fixed: Vec<(usize, usize)> = factors.iter().copied().zip(places).collect();
            match fixed[..] {
                [one, other] => mean_at(&fixed) - mean_at(&[one]) - mean_at(&[other]) + grand,
                _ => mean_at(&fixed) - grand,
            }
        };
        let levels = positions(factors.iter().map(|&one| &self.factors[one]));
        let weight = cells.len() as f64 / levels.len() as f64;
        levels.into_iter().map(|places| weight * deviation(places).powi(2)).sum()
    }
}

impl Factor {
    fn last(&self) -> &str {
        self.levels.last().map_or("", String::as_str)
    }
}

impl Ratio {
    fn of(contrast: &[f64], found: &[f64], draws: &[Vec<f64>]) -> Self {
        let value = |cells: &[f64]| contrast.iter().zip(cells).map(|(weight, cell)| weight * cell).sum::<f64>();
        let mut drawn: Vec<f64> = draws.iter().map(|cells| value(cells)).collect();
        let (low, high) = middle_95_percent(&mut drawn).expect("there are draws");
        Self { ratio: value(found).exp(), low: low.exp(), high: high.exp() }
    }
}

/// The logarithms of the cells' medians: as measured, and for each draw.
fn medians(values: &[&[f64]], seed: u64) -> Option<(Vec<f64>, Vec<Vec<f64>>)> {
    let middle = |runs: &&[f64]| median(&mut runs.to_vec()).map(f64::ln);
    let found: Vec<f64> = values.iter().map(middle).collect::<Option<_>>()?;
    let mut rng = Rng::new(seed);
    let mut space = Vec::new();
    let mut drawn = |runs: &&[f64]| {
        space.resize(runs.len(), 0.0);
        resampled_median(runs, &mut space, &mut rng).ln()
    };
    let draws = (0..RESAMPLES).map(|_| values.iter().map(&mut drawn).collect()).collect();
    Some((found, draws))
}

fn factor(name: &str, levels: Vec<String>, of_variant: bool) -> Factor {
    Factor { name: name.to_owned(), levels, of_variant }
}

/// The factors of a sweep's variants, with their levels in the order of the file.
fn factors_of(sweep: &Sweep) -> Vec<Factor> {
    let Some(first) = sweep.variants.iter().find(|variant| !variant.factors.is_empty()) else { return Vec::new() };
    let levels = |name: &String| {
        let mut levels: Vec<String> = Vec::new();
        for level in sweep.variants.iter().filter_map(|variant| variant.factors.get(name)) {
            if !levels.contains(level) {
                levels.push(level.clone());
            }
        }
        levels
    };
    // A factor that a short form leaves at a single level is none.
    let all = first.factors.keys().map(|name| factor(name, levels(name), true));
    all.filter(|one| one.levels.len() > 1).collect()
}

/// Whether a dimension is a factor of the load. Mixes of commands are analysed separately.
fn is_load(dimension: &Dimension, sweep: &Sweep) -> bool {
    !matches!(dimension, Dimension::Variant | Dimension::Ratio) && dimension.count(sweep) > 1
}

/// The levels of all factors at a point, in the order of [`Design::factors`].
fn levels_of(sweep: &Sweep, point: &Point) -> Vec<String> {
    let variant = sweep.variant(&point.variant);
    let loads = Dimension::all(sweep).into_iter().filter(|one| is_load(one, sweep));
    let own = factors_of(sweep).into_iter().map(|one| variant.factors.get(&one.name).cloned().unwrap_or_default());
    std::iter::once(point.server.clone()).chain(own).chain(loads.map(|one| one.label(point))).collect()
}

/// Every combination of levels, the last factor's fastest.
fn combinations(factors: &[Factor]) -> Vec<Vec<String>> {
    let names = |places: Vec<usize>| factors.iter().zip(places).map(|(one, at)| one.levels[at].clone()).collect();
    positions(factors.iter()).into_iter().map(names).collect()
}

/// Every combination of places among levels, the last factor's fastest.
fn positions<'a>(factors: impl Iterator<Item = &'a Factor>) -> Vec<Vec<usize>> {
    factors.fold(vec![Vec::new()], |all, factor| {
        let longer = |places: &Vec<usize>| {
            let places = places.clone();
            (0..factor.levels.len()).map(move |at| places.iter().copied().chain([at]).collect::<Vec<_>>())
        };
        all.iter().flat_map(longer).collect()
    })
}

fn subsets(items: &[usize]) -> Vec<Vec<usize>> {
    let chosen =
        |mask: usize| items.iter().enumerate().filter(move |(bit, _)| mask >> bit & 1 == 1).map(|(_, &one)| one);
    (0..1usize << items.len()).map(|mask| chosen(mask).collect()).collect()
}

/// The share of the orders of `count` factors in which a given one comes directly after a given set of `before`.
fn share_of_orders(before: usize, count: usize) -> f64 {
    let factorial = |n: usize| (1..=n).product::<usize>() as f64;
    factorial(before) * factorial(count - before - 1) / factorial(count)
}

fn add(contrast: &mut [f64], other: &[f64], weight: f64) {
    contrast.iter_mut().zip(other).for_each(|(sum, one)| *sum += weight * one);
}

fn squares(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values.iter().map(|value| (value - mean).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::results::folder::RunFolder;
    use crate::testing;

    const DESIGN: &str = "question='?'\nservers=['mutex', 'actor']\nclients=[50]\npipeline=[1, 16]\n\
        key_maximum=[1000, 2000000]\nratio=['0:1', '1:0']\ntest_seconds=1\nwarm_up_seconds=0\nrepeats=10\n\
        factorial=[['actor', 'mutex']]\n\
        variant=[{name='cn', flags=[], factors={batching='command', prefetch='no'}},\
        {name='cy', flags=[], factors={batching='command', prefetch='yes'}},\
        {name='rn', flags=[], factors={batching='read', prefetch='no'}},\
        {name='ry', flags=[], factors={batching='read', prefetch='yes'}}]\n";

    /// Rounds scatter by a few hundredths, each point in its own way.
    fn scatter(point: &Point, round: u32) -> f64 {
        let seed = point.slug().bytes().fold(u64::from(round), |hash, byte| hash.wrapping_mul(31) + u64::from(byte));
        1.0 + (Rng::new(seed).below(2001) as f64 / 1000.0 - 1.0) * 0.005
    }

    fn analyses(rate: impl Fn(&Point) -> f64) -> Vec<Analysis> {
        let (run, summary) = testing::run("why", DESIGN, |point, round| rate(point) * scatter(point, round));
        of(&summary, &run.setup.sweeps[0], Metric::OpsPerSec)
    }

    fn read(point: &Point) -> bool {
        point.variant.starts_with('r')
    }

    fn prefetches(point: &Point) -> bool {
        point.variant.ends_with('y')
    }

    fn near(found: Ratio, expected: f64) {
        assert!((found.ratio / expected - 1.0).abs() < 0.012, "{found:?}, not {expected}");
        assert!(found.low <= found.ratio && found.ratio <= found.high, "{found:?}");
    }

    fn effect(found: &Analysis, factors: &[&str], level: &str) -> Effect {
        let own = |one: &&Effect| one.factors == factors && one.levels.last().is_some_and(|last| last == level);
        found.effects.iter().find(own).expect("the effect is there").clone()
    }

    #[test]
    fn a_difference_is_taken_apart_into_the_effects_that_it_was_made_of() {
        let rate = |point: &Point| {
            let batching = if read(point) { 1.3 } else { 1.0 };
            let prefetch = if prefetches(point) { 1.5 } else { 1.0 };
            let own = if point.server == "actor" { 0.9 } else { 1.0 };
            1e5 * f64::from(point.pipeline) * batching * prefetch * own
        };
        let found = analyses(rate);
        assert_eq!(found.iter().map(|one| one.block.as_str()).collect::<Vec<_>>(), ["SET:GET 0:1", "SET:GET 1:0"]);
        let one = &found[0];
        assert_eq!(one.factors[0], ("batching".to_owned(), "command".to_owned(), "read".to_owned()));
        assert_eq!((one.loads.len(), one.loads[4].load.as_ref()), (5, None));
        assert_eq!(one.loads[0].load.as_deref(), Some("pipeline 1, keys 1000"));
        let mean = &one.loads[4];
        near(mean.whole, 1.3 * 1.5 * 0.9);
        near(mean.of_factors[0], 1.3);
        near(mean.of_factors[1], 1.5);
        near(mean.rest, 0.9);
        near(mean.equal_first, 0.9);
        near(mean.equal_last, 0.9);
        for row in &one.loads {
            let product = row.rest.ratio * row.of_factors.iter().map(|part| part.ratio).product::<f64>();
            assert!((product / row.whole.ratio - 1.0).abs() < 1e-9, "the parts multiply to the whole");
        }
        near(effect(one, &["server"], "actor").ratio, 0.9);
        near(effect(one, &["pipeline"], "16").ratio, 16.0);
        near(effect(one, &["server", "prefetch"], "yes").ratio, 1.0);
        assert!(effect(one, &["pipeline"], "16").share > 0.9);
    }

    /// The finding that parts are for: an engine that is faster because of a prefetch, if the keys are not cached.
    #[test]
    fn a_factor_that_works_under_one_load_and_on_one_server_is_found_there_and_nowhere_else() {
        let rate = |point: &Point| {
            let helps = prefetches(point) && point.key_maximum == Some(2_000_000) && point.server == "actor";
            if helps { 2.0e5 } else { 1.0e5 }
        };
        let one = &analyses(rate)[0];
        let at = |load: &str| one.loads.iter().find(|row| row.load.as_deref() == Some(load)).unwrap();
        let (cached, not) = (at("pipeline 16, keys 1000"), at("pipeline 16, keys 2000000"));
        near(cached.whole, 1.0);
        near(cached.of_factors[1], 1.0);
        near(not.whole, 2.0);
        near(not.of_factors[0], 1.0);
        // It needs both: half of it is the server's, half the prefetch's.
        near(not.of_factors[1], 2f64.sqrt());
        near(not.rest, 2f64.sqrt());
        near(not.equal_first, 1.0);
        near(not.equal_last, 2.0);
    }

    #[test]
    fn a_planted_cost_of_five_percent_is_attributed_to_its_factor() {
        let rate = |point: &Point| if point.server == "mutex" && !read(point) { 0.95e5 } else { 1e5 };
        let one = &analyses(rate)[0];
        // The mutex server pays for each command, and not for a read's batch.
        near(effect(one, &["server", "batching"], "read").ratio, 0.95);
        near(effect(one, &["batching"], "read").ratio, 0.95f64.powf(-0.5));
        let others = [("prefetch", "yes"), ("pipeline", "16"), ("keys", "2000000")];
        for (name, level) in others {
            near(effect(one, &[name], level).ratio, 1.0);
            near(effect(one, &["server", name], level).ratio, 1.0);
        }
        let planted = effect(one, &["server", "batching"], "read").ratio;
        assert!(planted.high < 1.0, "{planted:?}");
    }

    /// The result of `make planted`: docs/results/planted.md.
    #[test]
    fn a_cost_that_was_planted_in_the_mutex_engine_is_attributed_to_its_lock_and_batching() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("results/planted-20261124");
        let run = RunFolder::open(&folder).unwrap();
        let summary = Summary::of(&run.record, &run.observations().unwrap()).unwrap();
        for (metric, dearer) in [(Metric::OpsPerSec, false), (Metric::ServerCpuUsPerOp, true)] {
            let one = &of(&summary, &run.record.setup.sweeps[0], metric)[0];
            let planted = effect(one, &["server", "batching"], "read");
            let excludes_one = if dearer { planted.ratio.high < 1.0 } else { planted.ratio.low > 1.0 };
            assert!(excludes_one, "{metric:?}: {planted:?}");
            for other in ["prefetch", "pipeline"] {
                let found = one.effects.iter().find(|effect| effect.factors == ["server", other]).unwrap();
                assert!(found.share < planted.share / 10.0, "{metric:?}: {found:?}");
            }
            let prefetch = effect(one, &["server", "prefetch"], "yes").ratio;
            assert!(prefetch.low < 1.0 && 1.0 < prefetch.high, "{metric:?}: {prefetch:?}");
            // With one acquisition for a read's batch hardly any of it is left.
            let equal = one.loads.last().unwrap().equal_last;
            assert!(equal.low < 1.0 && 1.0 < equal.high, "{metric:?}: {equal:?}");
        }
    }

    /// Sixteen cells of ten runs that scatter by 2 %, half of them 5 % faster.
    #[test]
    fn intervals_cover_a_known_effect_about_as_often_as_they_say() {
        let mut rng = Rng::new(7);
        let contrast: Vec<f64> = (0..16).map(|cell| if cell < 8 { -0.125 } else { 0.125 }).collect();
        let covered = (0..60).filter(|&seed| {
            let mut run = |cell: usize| {
                let planted = if cell < 8 { 1.0 } else { 1.05 };
                planted * (1.0 + (rng.below(2001) as f64 / 1000.0 - 1.0) * 0.02)
            };
            let cells: Vec<Vec<f64>> = (0..16).map(|cell| (0..10).map(|_| run(cell)).collect()).collect();
            let values: Vec<&[f64]> = cells.iter().map(Vec::as_slice).collect();
            let (found, draws) = medians(&values, seed).unwrap();
            let ratio = Ratio::of(&contrast, &found, &draws);
            ratio.low <= 1.05 && 1.05 <= ratio.high
        });
        let covered = covered.count();
        assert!((53..=60).contains(&covered), "{covered} of 60");
    }

    #[test]
    fn a_design_with_a_missing_point_is_not_analysed() {
        let (run, mut summary) = testing::run("why", DESIGN, |_, _| 1e5);
        summary.points.retain(|one| one.point.slug() != summary_slug());
        let found = of(&summary, &run.setup.sweeps[0], Metric::OpsPerSec);
        assert_eq!(found.len(), 1, "the block without its point has no analysis");
        assert_eq!(found[0].block, "SET:GET 1:0");
    }

    fn summary_slug() -> String {
        "actor.ry.c50.p16.r0-1.d64.kR-R.n2000000".to_owned()
    }
}
