//! Whether the method finds a cost that was planted under the lock of one engine.
//!
//! A driver with the feature `planted-cost` wastes some nanoseconds at each acquisition of the mutex engine's lock.
//! Trials with and without it run in one random order. The effect is the difference of the median times of a batch,
//! with its interval: it must appear in the mutex engine and in no other.

use anyhow::{Result, ensure};

use super::record::{Recorded, Trial};
use crate::base::rng::Rng;
use crate::base::text::grouped;
use crate::base::text::markdown;
use crate::statistics::bootstrap::resampled_median;
use crate::statistics::quantiles::{median, middle_95_percent};

/// Resamples for an interval.
const RESAMPLES: usize = 2_000;

/// The effect of a planted cost on the time of a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The engine.
    pub engine: String,
    /// Worker threads.
    pub threads: usize,
    /// Requests in a batch.
    pub batch: usize,
    /// The planted cost.
    pub planted_ns: u64,
    /// The time of a thread for a batch without it.
    pub without_ns: f64,
    /// The additional time with it, with its 95 % interval.
    pub more_ns: (f64, f64, f64),
}

impl Difference {
    /// Whether the interval lies above zero.
    pub(crate) fn is_found(&self) -> bool {
        self.more_ns.1 > 0.0
    }
}

/// The effects at every place of a block.
pub(crate) fn differences(recorded: &Recorded, block: &str) -> Vec<Difference> {
    let own: Vec<&Trial> = recorded.trials.iter().filter(|trial| trial.block == block).collect();
    let place = |trial: &Trial| (trial.found.name(), trial.found.threads, trial.found.batch);
    let mut places: Vec<_> = own.iter().map(|trial| (place(trial), trial.planted_ns.unwrap_or(0))).collect();
    places.sort();
    places.dedup();
    let times = |(engine, threads, batch): &(String, usize, usize), planted: u64| -> Vec<f64> {
        let here = own.iter().filter(|trial| {
            place(trial) == (engine.clone(), *threads, *batch) && trial.planted_ns.unwrap_or(0) == planted
        });
        here.map(|trial| trial.found.threads as f64 * trial.found.seconds * 1e9 / trial.found.batches as f64).collect()
    };
    let planted = places.iter().filter(|(_, planted_ns)| *planted_ns > 0);
    let found = planted.filter_map(|(place, planted_ns)| {
        let (with, without) = (times(place, *planted_ns), times(place, 0));
        let without_ns = median(&mut without.clone())?;
        let more = median(&mut with.clone())? - without_ns;
        let mut rng = Rng::new(recorded.header.seed);
        let (mut of_with, mut of_without) = (with.clone(), without.clone());
        let mut draws: Vec<f64> = (0..RESAMPLES)
            .map(|_| {
                resampled_median(&with, &mut of_with, &mut rng) - resampled_median(&without, &mut of_without, &mut rng)
            })
            .collect();
        let (low, high) = middle_95_percent(&mut draws)?;
        let (engine, threads, batch) = place.clone();
        Some(Difference { engine, threads, batch, planted_ns: *planted_ns, without_ns, more_ns: (more, low, high) })
    });
    found.collect()
}

/// The effects as a table.
pub(crate) fn table(recorded: &Recorded, block: &str) -> Result<String> {
    let found = differences(recorded, block);
    ensure!(!found.is_empty(), "nothing was planted in a block {block:?}");
    let rows = found.iter().map(|one| {
        let (more, low, high) = one.more_ns;
        vec![
            one.engine.clone(),
            one.threads.to_string(),
            one.batch.to_string(),
            one.planted_ns.to_string(),
            grouped(one.without_ns),
            format!("{more:+.0} [{low:+.0} – {high:+.0}]"),
            if one.is_found() { "yes" } else { "no" }.to_owned(),
        ]
    });
    let header = ["engine", "threads", "batch", "planted, ns", "a batch without it, ns", "more with it, ns", "slower"];
    Ok(markdown(&header, &rows.collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scaling::record::tests::{recorded, trial};

    #[test]
    fn a_planted_cost_is_found_in_its_engine_and_in_no_other() {
        let mut trials = Vec::new();
        for (repeat, noise) in (1..=7).zip([-20.0, 15.0, 0.0, -8.0, 12.0, 5.0, -3.0]) {
            for (engine, planted, ns) in
                [("mutex", 0, 2000.0), ("mutex", 100, 2100.0), ("actor/1", 0, 2200.0), ("actor/1", 100, 2200.0)]
            {
                let noise = if planted == 0 { noise } else { -noise };
                let mut one = trial(engine, 1, 16, ns + noise, repeat);
                one.planted_ns = Some(planted);
                trials.push(one);
            }
        }
        let found = differences(&recorded(trials), "model");
        assert_eq!(found.iter().map(|one| one.engine.as_str()).collect::<Vec<_>>(), ["actor/1", "mutex"]);
        assert!(!found[0].is_found() && found[1].is_found(), "{found:?}");
        let (more, low, high) = found[1].more_ns;
        assert!((more - 100.0).abs() < 15.0 && low < more && more < high, "{found:?}");
    }
}
