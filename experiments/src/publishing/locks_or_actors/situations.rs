//! Situations: a load on a number of cores, the engines there, and which of them is ahead of which.
//!
//! A measured pair is judged by the ratio of the medians of both engines' rounds, of one block of the file where there
//! is one that has both: ahead if the bootstrap's interval excludes one and is not within 5 % of it (10 % for p99). It
//! is *sure* if the rank test says so, too, corrected by Holm's method over the pairs of its block; three rounds never
//! are. A predicted pair is judged by the intervals of both predictions: ahead if they do not overlap.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::judging::compare::{self, Difference, SIGNIFICANCE};
use crate::judging::summary::Metric;
use crate::scaling::predictions::{Inputs, Prediction, Range, predictions_of};
use crate::scaling::record::{Found, Recorded};
use crate::statistics::bootstrap::Estimate;

/// The engines that the page is about, whether they were measured or not.
pub(super) const ENGINES: [&str; 3] = ["mutex", "dashmap", "actor"];
/// How names of variants of the actor engine begin: those with a core for each shard.
pub(super) const VARIANT: &str = "actor-";
/// Shards of the map for each core, and at least: the server's default, and what the model was given.
const MAP_SHARDS: (usize, usize) = (4, 8);

/// A load: all that a trial has besides its engine and threads.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Load {
    pub(super) batch: usize,
    reads: u32,
    skew: String,
    multi_key: u32,
    data: String,
    value_size: usize,
    batching: String,
    prefetch: bool,
    connections: usize,
}

/// A load on a number of cores.
#[derive(Debug)]
pub(super) struct Situation {
    pub(super) load: Load,
    pub(super) cores: usize,
    pub(super) is_predicted: bool,
    pub(super) engines: Vec<String>,
    /// Each pair once.
    pairs: Vec<Pair>,
}

/// Two engines in a situation.
#[derive(Debug)]
struct Pair {
    subject: String,
    baseline: String,
    /// The blocks of the file that it is from; none if it is predicted.
    blocks: Vec<String>,
    /// Rounds of the engine that has fewer; 0 if it is predicted.
    rounds: usize,
    rate: Judged,
    p99: Judged,
}

/// A ratio and what follows from it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Judged {
    pub(super) ratio: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) place: Place,
    pub(super) is_sure: bool,
}

/// The place of one engine relative to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Ahead,
    Behind,
    /// Apart by less than matters.
    Near,
    /// The data do not decide.
    Open,
}

/// One engine seen from another, in one metric.
#[derive(Debug, Clone, Copy)]
pub(super) struct Against<'a> {
    pub(super) other: &'a str,
    pub(super) judged: Judged,
}

/// A point of the figure.
#[derive(Debug, Clone)]
pub(super) struct Spot {
    pub(super) engine: String,
    pub(super) cores: usize,
    pub(super) batch: usize,
    pub(super) is_predicted: bool,
    pub(super) rounds: usize,
    pub(super) rate: (f64, f64, f64),
    pub(super) p99_ns: (f64, f64, f64),
}

/// All that a file says.
#[derive(Debug)]
pub(super) struct Situations {
    /// Cores of the machine that was measured.
    pub(super) machine_cores: usize,
    /// Measured ones before predicted ones; each by load and cores.
    pub(super) all: Vec<Situation>,
    /// The ordinary load by engine and cores.
    pub(super) spots: Vec<Spot>,
    /// What is predicted, or why nothing is.
    pub(super) predicted: Result<Vec<Prediction>, String>,
}

/// The rounds of one engine at one place of one block.
#[derive(Debug, Clone)]
struct Rounds {
    block: String,
    engine: String,
    shards: usize,
    rate: Vec<f64>,
    p99_ns: Vec<f64>,
}

impl Load {
    fn of(found: &Found) -> Self {
        Self {
            batch: found.batch,
            reads: found.reads,
            skew: found.skew.clone(),
            multi_key: found.multi_key,
            data: found.data.clone(),
            value_size: found.value_size,
            batching: found.batching.clone(),
            prefetch: found.prefetch,
            connections: found.connections,
        }
    }

    /// The load that a grid has where it names no other, which the predictions are for.
    fn ordinary(batch: usize) -> Self {
        Self {
            batch,
            reads: 50,
            skew: "uniform".to_owned(),
            multi_key: 0,
            data: "strings".to_owned(),
            value_size: 64,
            batching: "read".to_owned(),
            prefetch: true,
            connections: 8,
        }
    }

    pub(super) fn is_ordinary(&self) -> bool {
        *self == Self::ordinary(self.batch)
    }

    /// What distinguishes it from the ordinary load, and its batch.
    pub(super) fn words(&self) -> String {
        let usual = Self::ordinary(self.batch);
        let mut words = Vec::new();
        let mut add = |differs: bool, text: String| words.extend(differs.then_some(text));
        add(
            self.reads != usual.reads,
            match self.reads {
                0 => "writes alone".to_owned(),
                100 => "reads alone".to_owned(),
                share => format!("{share} % reads"),
            },
        );
        let skew = if self.skew == "one" { "one key".to_owned() } else { self.skew.replace(':', " ") };
        add(self.skew != usual.skew, skew);
        add(self.multi_key != usual.multi_key, format!("{} % multi-key", self.multi_key));
        add(self.data != usual.data, self.data.clone());
        add(self.value_size != usual.value_size, format!("values of {} bytes", self.value_size));
        add(self.batching != usual.batching, format!("--batching {}", self.batching));
        add(self.prefetch != usual.prefetch, "--prefetch no".to_owned());
        add(self.connections != usual.connections, format!("{} connections a thread", self.connections));
        if words.is_empty() || self.batch != 16 {
            words.insert(0, format!("batch {}", self.batch));
        }
        words.join(" and ")
    }
}

impl Load {
    /// Whether it was measured with the flags that an engine has by default.
    pub(super) fn has_default_flags(&self) -> bool {
        let usual = Self::ordinary(self.batch);
        (&self.batching, self.prefetch) == (&usual.batching, usual.prefetch)
    }
}

impl Judged {
    fn of(difference: &Difference, metric: Metric) -> Self {
        let Difference { ratio, low, high, .. } = *difference;
        let effect = compare::smallest_effect(metric);
        let is_sure = difference.p_adjusted < SIGNIFICANCE;
        let place = if low >= 1.0 / (1.0 + effect) && high <= 1.0 + effect {
            Place::Near
        } else if low <= 1.0 && high >= 1.0 {
            Place::Open
        } else {
            Self::place(ratio, metric)
        };
        Self { ratio, low, high, place, is_sure }
    }

    fn predicted(subject: Range, baseline: Range, metric: Metric) -> Self {
        let (ratio, low, high) =
            (subject.middle / baseline.middle, subject.low / baseline.high, subject.high / baseline.low);
        let place = if low <= 1.0 && high >= 1.0 { Place::Open } else { Self::place(ratio, metric) };
        Self { ratio, low, high, place, is_sure: false }
    }

    fn place(ratio: f64, metric: Metric) -> Place {
        if (ratio > 1.0) == (metric != Metric::P99Us) { Place::Ahead } else { Place::Behind }
    }

    /// The same, seen from the other engine.
    fn turned(self) -> Self {
        let place = match self.place {
            Place::Ahead => Place::Behind,
            Place::Behind => Place::Ahead,
            same => same,
        };
        Self { ratio: 1.0 / self.ratio, low: 1.0 / self.high, high: 1.0 / self.low, place, is_sure: self.is_sure }
    }
}

impl Situation {
    /// An engine against each of the others, in throughput or p99.
    pub(super) fn against(&self, engine: &str, metric: Metric) -> Vec<Against<'_>> {
        let own = self.pairs.iter().filter_map(|pair| {
            let judged = if metric == Metric::P99Us { pair.p99 } else { pair.rate };
            if pair.subject == engine {
                Some(Against { other: &pair.baseline, judged })
            } else if pair.baseline == engine {
                Some(Against { other: &pair.subject, judged: judged.turned() })
            } else {
                None
            }
        });
        own.collect()
    }

    /// The engines that no other one is ahead of.
    pub(super) fn unbeaten(&self, metric: Metric) -> Vec<&str> {
        let is_unbeaten = |engine: &&String| {
            let against = self.against(engine, metric);
            !against.is_empty() && against.iter().all(|one| one.judged.place != Place::Behind)
        };
        self.engines.iter().filter(is_unbeaten).map(String::as_str).collect()
    }

    /// The engine that is ahead of every other, and the closest of these.
    pub(super) fn leader(&self, metric: Metric) -> Option<(&str, Against<'_>)> {
        self.engines.iter().find_map(|engine| {
            let against = self.against(engine, metric);
            let is_ahead =
                against.len() + 1 == self.engines.len() && against.iter().all(|one| one.judged.place == Place::Ahead);
            let distance = |one: &Against<'_>| one.judged.ratio.ln().abs();
            let closest = against.into_iter().min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
            is_ahead.then_some((engine.as_str(), closest))
        })
    }

    /// Whether the leader's lead over every other is sure.
    pub(super) fn is_sure(&self, engine: &str, metric: Metric) -> bool {
        self.against(engine, metric).iter().all(|one| one.judged.is_sure)
    }

    /// The blocks that it is from, and the rounds of the pair that has the fewest.
    pub(super) fn sources(&self) -> (Vec<&str>, usize) {
        let mut blocks: Vec<&str> = Vec::new();
        for block in self.pairs.iter().flat_map(|pair| &pair.blocks) {
            if !blocks.contains(&block.as_str()) {
                blocks.push(block);
            }
        }
        (blocks, self.pairs.iter().map(|pair| pair.rounds).min().unwrap_or(0))
    }
}

impl Situations {
    pub(super) fn of(recorded: &Recorded) -> Result<Self> {
        let measured = measured(recorded);
        let mut all = judged(&measured, recorded);
        let mut spots = spots(&measured, recorded.header.seed);
        let predicted = match Inputs::of(recorded) {
            Ok(inputs) => {
                let said = predictions_of(&inputs);
                all.extend(foretold(&said));
                spots.extend(said.iter().map(Spot::of));
                Ok(said)
            }
            Err(error) => Err(format!("{error:#}")),
        };
        Ok(Self { machine_cores: recorded.header.environment.cores, all, spots, predicted })
    }

    /// The engines of the page, those that the file lacks, too; variants last.
    pub(super) fn engines(&self) -> Vec<String> {
        let mut engines: Vec<String> = ENGINES.map(str::to_owned).to_vec();
        let found = self.all.iter().flat_map(|one| &one.engines).chain(self.spots.iter().map(|spot| &spot.engine));
        let mut variants: Vec<String> = found.filter(|name| name.starts_with(VARIANT)).cloned().collect();
        variants.sort();
        variants.dedup();
        // The mailboxes that remain before those that do not.
        variants.sort_by_key(|name| name.ends_with("inline"));
        engines.extend(variants);
        engines
    }
}

impl Spot {
    fn of(one: &Prediction) -> Self {
        let triple = |range: Range| (range.low, range.middle, range.high);
        Self {
            engine: one.engine.name().to_owned(),
            cores: one.cores,
            batch: one.batch,
            is_predicted: true,
            rounds: 0,
            rate: triple(one.per_second),
            p99_ns: triple(one.p99_ns),
        }
    }
}

type Places = BTreeMap<(Load, usize), Vec<Rounds>>;

/// The rounds of every engine of the page, at every load and number of threads, in the order of the blocks. Of an
/// engine with several numbers of shards the server's choice is taken.
fn measured(recorded: &Recorded) -> Places {
    let mut places: Places = BTreeMap::new();
    let order = recorded.blocks();
    let is_asked = |name: &str| ENGINES.contains(&name) || name.starts_with(VARIANT);
    for trial in recorded.trials.iter().filter(|trial| trial.planted_ns.is_none() && is_asked(&trial.found.engine)) {
        let found = &trial.found;
        let here = places.entry((Load::of(found), found.threads)).or_default();
        let is_own =
            |one: &&mut Rounds| one.block == trial.block && one.engine == found.engine && one.shards == found.shards;
        let p99_ns = found.p99_ns as f64;
        match here.iter_mut().find(is_own) {
            Some(own) => {
                own.rate.push(found.per_second());
                own.p99_ns.push(p99_ns);
            }
            None => here.push(Rounds {
                block: trial.block.clone(),
                engine: found.engine.clone(),
                shards: found.shards,
                rate: vec![found.per_second()],
                p99_ns: vec![p99_ns],
            }),
        }
    }
    for ((_, threads), here) in &mut places {
        let wanted = |engine: &str| match engine {
            "mutex" => 0,
            "dashmap" => (MAP_SHARDS.0 * threads).next_power_of_two().max(MAP_SHARDS.1),
            _ => *threads,
        };
        let off = |one: &Rounds| one.shards.abs_diff(wanted(&one.engine));
        let rank = |one: &Rounds| order.iter().position(|name| *name == one.block).unwrap_or(order.len());
        here.sort_by(|a, b| (rank(a), &a.engine, off(a)).cmp(&(rank(b), &b.engine, off(b))));
        here.dedup_by(|later, kept| later.block == kept.block && later.engine == kept.engine);
    }
    places
}

/// The rounds of two engines in the block that has the most of both. Without such a block, the most rounds of each: the
/// rounds of all blocks took turns.
fn together<'a>(here: &'a [Rounds], subject: &str, baseline: &str) -> Option<(&'a Rounds, &'a Rounds)> {
    let of = |name: &str| here.iter().filter(move |one| one.engine == name).collect::<Vec<_>>();
    let (own, others) = (of(subject), of(baseline));
    let shared = own.iter().filter_map(|one| Some((*one, *others.iter().find(|other| other.block == one.block)?)));
    let fewest = |(one, other): &(&Rounds, &Rounds)| one.rate.len().min(other.rate.len());
    let most = |of: &[&'a Rounds]| first_largest(of.iter().copied(), |one| one.rate.len());
    first_largest(shared, fewest).or_else(|| Some((most(&own)?, most(&others)?)))
}

/// The first of the largest: blocks are in the order of the grid.
fn first_largest<T>(all: impl Iterator<Item = T>, key: impl Fn(&T) -> usize) -> Option<T> {
    all.reduce(|best, one| if key(&one) > key(&best) { one } else { best })
}

/// A pair before its block's correction.
struct Compared {
    place: (Load, usize),
    subject: String,
    baseline: String,
    blocks: Vec<String>,
    rate: Difference,
    p99: Difference,
}

fn judged(places: &Places, recorded: &Recorded) -> Vec<Situation> {
    let seed = recorded.header.seed;
    let mut compared = Vec::new();
    for (place, here) in places {
        let engines = engines_of(here);
        for (index, subject) in engines.iter().enumerate() {
            for baseline in &engines[index + 1..] {
                let Some((one, other)) = together(here, subject, baseline) else { continue };
                let of = |a: &[f64], b: &[f64]| Difference::of(a, b, seed);
                let (Some(rate), Some(p99)) = (of(&one.rate, &other.rate), of(&one.p99_ns, &other.p99_ns)) else {
                    continue;
                };
                let mut blocks = vec![one.block.clone(), other.block.clone()];
                blocks.dedup();
                let (place, subject, baseline) = (place.clone(), subject.clone(), baseline.clone());
                compared.push(Compared { place, subject, baseline, blocks, rate, p99 });
            }
        }
    }
    for block in recorded.blocks() {
        let mut own: Vec<&mut Compared> = compared.iter_mut().filter(|one| one.blocks[0] == block).collect();
        compare::correct(&mut own.iter_mut().map(|one| &mut one.rate).collect::<Vec<_>>());
        compare::correct(&mut own.iter_mut().map(|one| &mut one.p99).collect::<Vec<_>>());
    }
    let mut situations: Vec<Situation> = places
        .iter()
        .map(|((load, cores), here)| Situation {
            load: load.clone(),
            cores: *cores,
            is_predicted: false,
            engines: engines_of(here),
            pairs: compared.iter().filter(|one| one.place.0 == *load && one.place.1 == *cores).map(Pair::of).collect(),
        })
        .collect();
    situations.retain(|one| !one.pairs.is_empty());
    situations
}

impl Pair {
    fn of(one: &Compared) -> Self {
        Self {
            subject: one.subject.clone(),
            baseline: one.baseline.clone(),
            blocks: one.blocks.clone(),
            rounds: one.rate.runs,
            rate: Judged::of(&one.rate, Metric::OpsPerSec),
            p99: Judged::of(&one.p99, Metric::P99Us),
        }
    }
}

fn engines_of(here: &[Rounds]) -> Vec<String> {
    let mut engines: Vec<String> = here.iter().map(|one| one.engine.clone()).collect();
    let rank = |name: &str| ENGINES.iter().position(|known| *known == name).unwrap_or(ENGINES.len());
    engines.sort_by(|a, b| (rank(a), a).cmp(&(rank(b), b)));
    engines.dedup();
    engines
}

/// The ordinary load of each engine and number of threads, from the block that has the most rounds.
fn spots(places: &Places, seed: u64) -> Vec<Spot> {
    let mut spots = Vec::new();
    for ((load, cores), here) in places.iter().filter(|((load, _), _)| load.is_ordinary()) {
        for engine in engines_of(here) {
            let own = here.iter().filter(|one| one.engine == engine);
            let Some(most) = first_largest(own, |one| one.rate.len()) else { continue };
            let triple =
                |values: &[f64]| Estimate::of(values.to_vec(), seed).map(|one| (one.low(), one.median, one.high()));
            if let (Some(rate), Some(p99_ns)) = (triple(&most.rate), triple(&most.p99_ns)) {
                let (cores, batch, rounds) = (*cores, load.batch, most.rate.len());
                spots.push(Spot { engine, cores, batch, is_predicted: false, rounds, rate, p99_ns });
            }
        }
    }
    spots
}

/// The situations of the predictions.
fn foretold(said: &[Prediction]) -> Vec<Situation> {
    let mut places: Vec<(usize, usize)> = said.iter().map(|one| (one.batch, one.cores)).collect();
    places.sort_unstable();
    places.dedup();
    let situation = |(batch, cores): (usize, usize)| {
        let here: Vec<&Prediction> = said.iter().filter(|one| (one.batch, one.cores) == (batch, cores)).collect();
        let mut pairs = Vec::new();
        for (index, one) in here.iter().enumerate() {
            for other in &here[index + 1..] {
                pairs.push(Pair {
                    subject: one.engine.name().to_owned(),
                    baseline: other.engine.name().to_owned(),
                    blocks: Vec::new(),
                    rounds: 0,
                    rate: Judged::predicted(one.per_second, other.per_second, Metric::OpsPerSec),
                    p99: Judged::predicted(one.p99_ns, other.p99_ns, Metric::P99Us),
                });
            }
        }
        let engines = here.iter().map(|one| one.engine.name().to_owned()).collect();
        Situation { load: Load::ordinary(batch), cores, is_predicted: true, engines, pairs }
    };
    places.into_iter().map(situation).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{invented, with_variant};
    use super::*;
    use crate::scaling::grid::Grid;

    fn at(all: &Situations, cores: usize, batch: usize) -> &Situation {
        all.all.iter().find(|one| (one.cores, one.load.batch) == (cores, batch)).unwrap()
    }

    #[test]
    fn the_ordinary_load_is_what_a_grid_has_where_it_names_no_other() {
        let text = "question = 'x'\nthreads = [1]\nrepeats = 1\n[[block]]\nname = 'a'\nengines = ['mutex']";
        let block = &Grid::parse(text).unwrap().block[0];
        let usual = Load::ordinary(block.batch[0]);
        assert_eq!((usual.batch, usual.reads, usual.multi_key), (16, block.reads[0], block.multi_key[0]));
        assert_eq!((&usual.skew, &usual.data, &usual.batching), (&block.skew[0], &block.data[0], &block.batching[0]));
        assert_eq!((usual.value_size, usual.connections), (block.value_size[0], block.connections[0]));
        assert_eq!((usual.prefetch, &block.prefetch[..]), (true, &["yes".to_owned()][..]));
        assert_eq!(usual.words(), "batch 16");
        assert_eq!(Load { reads: 100, ..usual.clone() }.words(), "reads alone");
        assert_eq!(Load { skew: "zipf:0.99".into(), batch: 64, ..usual }.words(), "batch 64 and zipf 0.99");
    }

    #[test]
    fn the_engine_that_was_made_faster_leads_and_seven_rounds_are_sure_of_it() {
        let all = Situations::of(&invented(7)).unwrap();
        for batch in [1, 16, 64] {
            let (one, two) = (at(&all, 1, batch), at(&all, 2, batch));
            let (leader, closest) = one.leader(Metric::OpsPerSec).unwrap();
            assert_eq!((leader, closest.other), ("mutex", "actor"));
            assert!((closest.judged.ratio - 1.1).abs() < 0.02 && closest.judged.low > 1.05, "{closest:?}");
            assert_eq!(two.leader(Metric::OpsPerSec).unwrap().0, "actor");
            assert!(one.is_sure("mutex", Metric::OpsPerSec) && two.is_sure("actor", Metric::OpsPerSec));
            assert_eq!(two.unbeaten(Metric::P99Us), ["actor"]);
        }
    }

    #[test]
    fn three_rounds_indicate_and_are_never_sure() {
        let all = Situations::of(&invented(3)).unwrap();
        let one = at(&all, 1, 16);
        assert_eq!(one.leader(Metric::OpsPerSec).unwrap().0, "mutex");
        assert!(!one.is_sure("mutex", Metric::OpsPerSec));
    }

    #[test]
    fn intervals_that_hold_one_decide_nothing_and_equals_are_near() {
        let difference = |low, high| Difference {
            ratio: f64::midpoint(low, high),
            runs: 7,
            low,
            high,
            cliffs_delta: 0.0,
            p: 0.001,
            p_adjusted: 0.01,
        };
        let place = |low, high, metric| Judged::of(&difference(low, high), metric).place;
        assert_eq!(place(0.97, 1.04, Metric::OpsPerSec), Place::Near);
        assert_eq!(place(0.97, 1.20, Metric::OpsPerSec), Place::Open);
        assert_eq!(place(1.01, 1.20, Metric::OpsPerSec), Place::Ahead);
        assert_eq!(place(1.01, 1.20, Metric::P99Us), Place::Behind);
        let range = |low, high| Range { middle: f64::midpoint(low, high), low, high };
        let apart = Judged::predicted(range(3.0, 4.0), range(1.0, 2.0), Metric::OpsPerSec);
        assert_eq!((apart.place, apart.low), (Place::Ahead, 1.5));
        assert_eq!(apart.turned().place, Place::Behind);
        assert_eq!(Judged::predicted(range(1.5, 4.0), range(1.0, 2.0), Metric::OpsPerSec).place, Place::Open);
    }

    #[test]
    fn a_variant_of_any_name_is_compared_within_the_block_that_has_it() {
        let all = Situations::of(&with_variant(invented(7), 1.0)).unwrap();
        assert_eq!(all.engines(), ["mutex", "dashmap", "actor", "actor-inline"]);
        let two = at(&all, 2, 16);
        let is_of = |pair: &&Pair, other: &str| pair.baseline == "actor-inline" && pair.subject == other;
        let blocks = |other: &str| &two.pairs.iter().find(|pair| is_of(pair, other)).unwrap().blocks[..];
        assert_eq!(blocks("mutex"), ["placement"], "both are in it");
        assert_eq!(blocks("actor"), ["model", "placement"], "they are in no block together");
        assert_eq!(two.leader(Metric::OpsPerSec).unwrap().0, "actor-inline");
    }

    #[test]
    fn planted_costs_and_references_are_not_on_the_page() {
        let mut recorded = invented(3);
        let mut planted = recorded.trials[0].clone();
        planted.planted_ns = Some(100);
        let mut reference = recorded.trials[0].clone();
        reference.found.engine = "ref-mutex".into();
        recorded.trials = vec![planted, reference];
        let all = Situations::of(&recorded).unwrap();
        assert!(all.all.is_empty() && all.spots.is_empty() && all.predicted.is_err());
    }
}
