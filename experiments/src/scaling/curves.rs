//! Curves: the measurements, by number of threads.

use anyhow::{Result, ensure};

use super::record::{Found, Recorded};
use crate::base::text::grouped;
use crate::base::text::markdown;
use crate::statistics::bootstrap::{Estimate, ratio_interval};
use crate::statistics::quantiles::median;

/// The fields that the repeats of a point share.
type Place = (String, usize, [String; 9]);

/// The repeats of one point.
struct Point<'a> {
    place: Place,
    found: Vec<&'a Found>,
}

fn place(found: &Found) -> Place {
    let fields = [
        found.batch.to_string(),
        found.reads.to_string(),
        found.skew.clone(),
        found.multi_key.to_string(),
        found.data.clone(),
        found.value_size.to_string(),
        found.batching.clone(),
        if found.prefetch { "yes" } else { "no" }.to_owned(),
        found.connections.to_string(),
    ];
    (found.name(), found.threads, fields)
}

/// The names of these fields.
const FIELDS: [&str; 9] =
    ["batch", "reads %", "skew", "multi-key %", "data", "value bytes", "batching", "prefetch", "connections"];

fn points<'a>(recorded: &'a Recorded, block: &str) -> Vec<Point<'a>> {
    let mut points: Vec<Point<'a>> = Vec::new();
    for trial in recorded.trials.iter().filter(|trial| trial.block == block) {
        let place = place(&trial.found);
        match points.iter_mut().find(|point| point.place == place) {
            Some(point) => point.found.push(&trial.found),
            None => points.push(Point { place, found: vec![&trial.found] }),
        }
    }
    // Trials ran in random order.
    points.sort_by(|a, b| {
        let key = |point: &Point<'_>| {
            let (name, threads, fields) = &point.place;
            (fields.clone(), rank(name), name.clone(), *threads)
        };
        key(a).cmp(&key(b))
    });
    points
}

/// Engines before references.
fn rank(name: &str) -> usize {
    ["mutex", "dashmap", "actor", "ref-", "map-"].iter().position(|kind| name.starts_with(kind)).unwrap_or(9)
}

impl Point<'_> {
    fn estimate(&self, seed: u64, figure: impl Fn(&Found) -> f64) -> Estimate {
        Estimate::of(self.found.iter().map(|found| figure(found)).collect(), seed).expect("a point has a repeat")
    }

    fn median(&self, figure: impl Fn(&Found) -> f64) -> f64 {
        median(&mut self.found.iter().map(|found| figure(found)).collect::<Vec<_>>()).expect("a point has a repeat")
    }

    fn rates(&self) -> Vec<f64> {
        self.found.iter().map(|found| found.per_second()).collect()
    }

    /// Throughput by that of one thread, which is as uncertain itself.
    fn growth(&self, one: &Point<'_>, seed: u64) -> String {
        let ratio = self.median(Found::per_second) / one.median(Found::per_second);
        let (low, high) = ratio_interval(&self.rates(), &one.rates(), seed).expect("there are draws");
        format!("{ratio:.2} [{:.2}–{:.2}]", low.min(ratio), high.max(ratio))
    }

    fn cells(&self, seed: u64, one: Option<&Point<'_>>, varying: &[usize]) -> Vec<String> {
        let (name, threads, fields) = &self.place;
        let rate = self.estimate(seed, |found| found.per_second() / 1e3);
        let growth = one.map_or("–".to_owned(), |one| self.growth(one, seed));
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let first = self.found[0];
        let wait = match (first.waiting_share(), first.queue_ns()) {
            (Some(_), _) => percent(self.median(|found| found.waiting_share().unwrap_or(0.0))),
            (None, _) => "–".to_owned(),
        };
        let queue = match first.queue_ns() {
            Some(_) => grouped(self.median(|found| found.queue_ns().unwrap_or(0.0))),
            None => "–".to_owned(),
        };
        let mut cells: Vec<String> = varying.iter().map(|&field| fields[field].clone()).collect();
        cells.extend([name.clone(), threads.to_string()]);
        cells.push(format!("{} [{}–{}]", grouped(rate.median), grouped(rate.low()), grouped(rate.high())));
        cells.push(growth);
        cells.push(format!("{:.1}", self.median(|found| found.p99_ns as f64 / 1e3)));
        cells.push(format!("{:.3}", self.median(Found::fairness)));
        cells.push(format!("{:.1}", self.median(Found::switches)));
        cells.extend([wait, queue, percent(self.median(Found::disturbed))]);
        cells
    }
}

/// A block as a table: a row for each engine and number of threads.
pub fn table(recorded: &Recorded, block: &str) -> Result<String> {
    let points = points(recorded, block);
    ensure!(!points.is_empty(), "there is no block {block:?}");
    let varying: Vec<usize> = (0..FIELDS.len())
        .filter(|&field| points.iter().any(|point| point.place.2[field] != points[0].place.2[field]))
        .collect();
    let rows = points.iter().map(|point| {
        let (name, threads, fields) = &point.place;
        // An actor of one shard for each thread grows with its threads.
        let of_one_shard = name.split_once('/').filter(|(engine, _)| engine.starts_with("actor"));
        let of_one_shard = of_one_shard.map(|(engine, _)| format!("{engine}/1"));
        let is_base = |other: &&Point<'_>| {
            let (base, base_threads, base_fields) = &other.place;
            let is_same = base == name || of_one_shard.as_ref() == Some(base);
            *base_threads == 1 && base_fields == fields && is_same
        };
        let one =
            if *threads == 1 { None } else { points.iter().filter(is_base).max_by_key(|one| one.place.0 == *name) };
        point.cells(recorded.header.seed, one, &varying)
    });
    let mut header: Vec<&str> = varying.iter().map(|&field| FIELDS[field]).collect();
    header.extend([
        "engine",
        "threads",
        "thousand requests/s",
        "by its 1 thread",
        "p99 of a batch, µs",
        "fairness",
        "switches per 1,000 batches",
        "acquisitions that wait",
        "ns a batch waits",
        "disturbed",
    ]);
    Ok(markdown(&header, &rows.collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scaling::record::tests::{recorded, trial};

    #[test]
    fn a_block_is_a_row_for_each_engine_and_number_of_threads() {
        let trials = [("mutex", 1, 2000.0), ("mutex", 2, 2500.0), ("actor/1", 1, 2000.0), ("actor/2", 2, 2000.0)];
        let trials = trials.iter().flat_map(|&(engine, threads, ns)| {
            (1..=3).map(move |repeat| trial(engine, threads, 16, ns * f64::from(repeat + 97) / 99.0, repeat))
        });
        let text = table(&recorded(trials.collect()), "model").unwrap();
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| ")).collect();
        assert_eq!(rows.len(), 1 + 4, "{text}");
        let mutex = rows.iter().find(|row| row.starts_with("| mutex | 2 |")).unwrap();
        assert!(mutex.contains("| 1.60 ["), "two threads at 2500 ns by one at 2000: {mutex}");
        let actor = rows.iter().find(|row| row.starts_with("| actor/2 | 2 |")).unwrap();
        assert!(actor.contains("| 2.00 ["), "it grows from the one shard of one thread: {actor}");
        assert!(table(&recorded(Vec::new()), "model").is_err());
    }

    #[test]
    fn growth_is_as_uncertain_as_the_one_thread_that_it_is_measured_by() {
        let noisy = [1600.0, 2000.0, 2500.0].into_iter().zip(1..).map(|(ns, repeat)| trial("mutex", 1, 16, ns, repeat));
        let steady = (1..=3).map(|repeat| trial("mutex", 2, 16, 2000.0, repeat));
        let text = table(&recorded(noisy.chain(steady).collect()), "model").unwrap();
        assert!(text.contains("| 2.00 [1.60–2.50] |"), "{text}");
    }
}
