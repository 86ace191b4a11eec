//! The summary: each point's figures over its repeats, computed only from its observations. `summary.json`,
//! `summary.csv` and the report all print this one table.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::measuring::stages::{self, Stages};
use crate::plan::layout::Layout;
use crate::plan::point::Point;
use crate::plan::schedule;
use crate::plan::sweep::Sweep;
use crate::results::folder::RunRecord;
use crate::results::observation::{Observation, Observations};
use crate::statistics::alignment::{self, Drift, Measured, Response};
use crate::statistics::bootstrap::Estimate;

/// The layout of `summary.json`.
pub(crate) const FORMAT: &str = "shardrace-summary/1";

const MIB: f64 = (1 << 20) as f64;

/// A figure that every trial yields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Replies per second.
    OpsPerSec,
    /// Median latency, in microseconds.
    P50Us,
    /// 99th percentile of latency.
    P99Us,
    /// 99.9th percentile of latency.
    P999Us,
    /// 99th percentile of the commands of one key, if commands of several keys ran beside them.
    SingleKeyP99Us,
    /// 99th percentile of how late the generator's own requests left, in an open loop: it is part of every latency.
    LagP99Us,
    /// The server's CPU time per reply, in microseconds.
    ServerCpuUsPerOp,
    /// The server's largest resident memory, in MiB.
    ServerRssPeakMib,
    /// The generator's CPU time per reply, in microseconds.
    GeneratorCpuUsPerOp,
    /// Jain's index of what each connection got.
    JainIndex,
    /// Mean latency of the connection that waited longest, by that of the median one.
    SlowestConnection,
}

impl Metric {
    /// Every metric, in the order of the columns.
    pub(crate) const ALL: [Self; 11] = [
        Self::OpsPerSec,
        Self::P50Us,
        Self::P99Us,
        Self::P999Us,
        Self::SingleKeyP99Us,
        Self::LagP99Us,
        Self::ServerCpuUsPerOp,
        Self::ServerRssPeakMib,
        Self::GeneratorCpuUsPerOp,
        Self::JainIndex,
        Self::SlowestConnection,
    ];

    /// The name in JSON and CSV.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::OpsPerSec => "ops_per_sec",
            Self::P50Us => "p50_us",
            Self::P99Us => "p99_us",
            Self::P999Us => "p999_us",
            Self::SingleKeyP99Us => "single_key_p99_us",
            Self::LagP99Us => "lag_p99_us",
            Self::ServerCpuUsPerOp => "server_cpu_us_per_op",
            Self::ServerRssPeakMib => "server_rss_peak_mib",
            Self::GeneratorCpuUsPerOp => "generator_cpu_us_per_op",
            Self::JainIndex => "jain_index",
            Self::SlowestConnection => "slowest_connection",
        }
    }

    /// Whether higher values are better.
    pub(crate) fn more_is_better(self) -> bool {
        matches!(self, Self::OpsPerSec | Self::JainIndex)
    }

    /// Whether it changes with the speed of the machine.
    fn drifts(self) -> bool {
        !matches!(self, Self::ServerRssPeakMib | Self::JainIndex | Self::SlowestConnection)
    }

    fn of(self, found: &Observation) -> Option<f64> {
        Some(match self {
            Self::OpsPerSec => found.ops_per_sec,
            Self::P50Us => found.p50_us,
            Self::P99Us => found.p99_us,
            Self::P999Us => found.p999_us,
            Self::SingleKeyP99Us => return found.single_key_p99_us,
            Self::LagP99Us => return found.lag_p99_us,
            Self::ServerCpuUsPerOp => found.server_cores * 1e6 / found.ops_per_sec,
            Self::ServerRssPeakMib => found.rss_peak_bytes as f64 / MIB,
            Self::GeneratorCpuUsPerOp => found.generator_cpu_us_per_op,
            Self::JainIndex => return found.fairness.map(|fairness| fairness.jain),
            Self::SlowestConnection => return found.fairness.map(|fairness| fairness.slowest),
        })
    }

    /// How many cores the hypervisor may take away on average before the figure is its own: half of the share of
    /// requests beyond a percentile, because all that arrive while a core is gone may be among them. `None` if the
    /// figure is no high percentile.
    fn stolen_cores_max(self) -> Option<f64> {
        match self {
            Self::P99Us | Self::SingleKeyP99Us => Some(0.005),
            Self::P999Us => Some(0.0005),
            _ => None,
        }
    }
}

/// The figures of one point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PointSummary {
    /// The point.
    pub point: Point,
    /// Figures by metric; all have the same `n`. [`Metric::SingleKeyP99Us`] and [`Metric::LagP99Us`] exist only
    /// where they are meaningful.
    pub figures: BTreeMap<Metric, Estimate>,
    /// GETs that found a value, over all repeats; `None` without GETs.
    pub hit_ratio: Option<f64>,
    /// Error replies, over all repeats.
    pub errors: u64,
    /// Repeats in which other processes used the machine even in the best attempt.
    pub disturbed: usize,
    /// Repeats in which the generator was the bottleneck: the server may be faster than shown.
    pub generator_saturated: usize,
    /// Repeats of an open loop in which requests were due and never sent: the load was another, and nobody knows how
    /// long those would have waited.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unsent: usize,
    /// Repeats whose window was not in a steady state.
    pub unsteady: usize,
    /// The cores that the hypervisor took away in each repeat that recorded it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stolen_cores: Vec<f64>,
    /// Repeats that read keys and found fewer of them than the sweep demands, or had error replies.
    pub failed: usize,
    /// The lines of `trials.jsonl`, counted from 1, in the order of the rounds.
    pub lines: Vec<usize>,
    /// Where the time of requests went, by medians over the repeats; empty if the server does not report it.
    #[serde(default, skip_serializing_if = "Stages::is_empty")]
    pub stages: Stages,
    /// The threads and shards of the server, if all repeats kept the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<Layout>,
}

/// The remark on a point with trials that failed.
pub(crate) const FAILED: &str = "trials failed (error replies, or keys that were not there)";
/// The flaw of a point whose load was all that the generator could produce.
pub(crate) const GENERATOR_BOUND: &str = "the generator was the bottleneck";
/// The flaw of a point whose load was less than the one that was asked for.
pub(crate) const UNSENT: &str = "requests that were due were never sent";
/// The flaw of a high percentile that is the machine's.
pub(crate) const STOLEN: &str = "the hypervisor took cores away for longer than the percentile allows";

fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl PointSummary {
    /// Repeats in which the hypervisor took so much away that a figure may be its own.
    pub(crate) fn stolen(&self, metric: Metric) -> usize {
        let Some(most) = metric.stolen_cores_max() else { return 0 };
        self.stolen_cores.iter().filter(|cores| **cores > most).count()
    }

    /// Why nothing follows from a figure, if that holds for more than half of the repeats.
    pub(crate) fn flaw(&self, metric: Metric) -> Option<&'static str> {
        let is_most = |count: usize| 2 * count > self.lines.len();
        match () {
            () if is_most(self.generator_saturated) => Some(GENERATOR_BOUND),
            () if is_most(self.unsent) => Some(UNSENT),
            () if is_most(self.unsteady) => Some("no steady state was reached"),
            () if is_most(self.stolen(metric)) => Some(STOLEN),
            () => None,
        }
    }

    /// Why nothing follows from its figures; `None` if something does.
    pub(crate) fn remark(&self, metric: Metric) -> Option<&'static str> {
        if self.failed > 0 { Some(FAILED) } else { self.flaw(metric) }
    }
}

/// The figures of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// [`FORMAT`].
    pub format: String,
    /// The seed of the run; it seeds the intervals as well.
    pub seed: u64,
    /// Trials planned.
    pub trials: usize,
    /// Trials done.
    pub trials_done: usize,
    /// Points with at least one trial, in the order of the grids.
    pub points: Vec<PointSummary>,
    /// Each server's INFO about itself: version and allocator.
    pub servers: BTreeMap<String, BTreeMap<String, String>>,
}

impl Summary {
    /// Computes the figures of `run` from its observations.
    pub fn of(run: &RunRecord, observations: &Observations) -> Result<Self> {
        let mut by_point: BTreeMap<&str, Vec<(usize, &Observation)>> = BTreeMap::new();
        for (index, one) in observations.trials.iter().enumerate() {
            let point = one.trial.rsplit_once('/').map_or("", |(point, _)| point);
            // Line 1 is the head.
            by_point.entry(point).or_default().push((index + 2, one));
        }
        let mut points = Vec::new();
        for sweep in &run.setup.sweeps {
            let (mut own_points, mut starts) = (Vec::new(), Vec::new());
            for point in schedule::points(sweep) {
                let place = format!("{}/{}", sweep.name, point.slug());
                if let Some(own) = by_point.get(place.as_str()) {
                    own_points.push(summarize(run.seed, sweep, point, own)?);
                    starts.push(own.iter().map(|(_, one)| one.started_unix_ms).collect());
                }
            }
            align(&mut own_points, &starts);
            points.append(&mut own_points);
        }
        Ok(Self {
            format: FORMAT.to_owned(),
            seed: run.seed,
            trials: run.order.len(),
            trials_done: observations.trials.len(),
            points,
            servers: observations.servers.clone(),
        })
    }

    /// The points of a sweep.
    pub(crate) fn of_sweep<'a, 'b>(&'a self, sweep: &'b str) -> impl Iterator<Item = &'a PointSummary> + use<'a, 'b> {
        self.points.iter().filter(move |one| one.point.sweep == sweep)
    }

    /// One line per point: its coordinates, then median, low and high of each metric.
    pub(crate) fn to_csv(&self) -> String {
        let mut csv = String::from("sweep,server,variant,clients,pipeline,ratio,data_size,key_pattern,loadgen,n");
        for metric in Metric::ALL {
            let key = metric.key();
            csv.push_str(&format!(",{key},{key}_low,{key}_high"));
        }
        csv.push_str(",hit_ratio,errors,disturbed,generator_saturated,unsteady,failed\n");
        self.points.iter().for_each(|point| csv.push_str(&csv_line(point)));
        csv
    }
}

/// Removes the machine's drift from the points of a sweep, whose trials began at `starts`.
fn align(points: &mut [PointSummary], starts: &[Vec<u64>]) {
    for metric in Metric::ALL.into_iter().filter(|metric| metric.drifts()) {
        let mut trials = Vec::new();
        for (point, (one, starts)) in points.iter().zip(starts).enumerate() {
            let values = one.figures.get(&metric).map_or(&[][..], |estimate| &estimate.values);
            trials.extend(values.iter().zip(starts).map(|(&value, &started)| Measured { point, started, value }));
        }
        let mut aligned = alignment::aligned(&trials).into_iter();
        let drifts = alignment::drifts(&trials).unwrap_or_default();
        let mut lines: BTreeMap<(String, String), Vec<Drift>> = BTreeMap::new();
        let mut own = drifts.iter().copied();
        for one in points.iter_mut() {
            let Some(estimate) = one.figures.get_mut(&metric) else { continue };
            estimate.aligned = aligned.by_ref().take(estimate.n).collect();
            let own: Vec<Drift> = own.by_ref().take(estimate.n).collect();
            estimate.response = Response::of(&own);
            lines.entry(line_of(&one.point)).or_default().extend(own);
        }
        for one in points.iter_mut() {
            let line = line_of(&one.point);
            if let (Some(estimate), Some(drifts)) = (one.figures.get_mut(&metric), lines.get(&line)) {
                estimate.line_response = Response::of(drifts);
            }
        }
    }
}

/// The line of a point: its points respond to the machine alike, more or less.
fn line_of(point: &Point) -> (String, String) {
    (point.server.clone(), point.variant.clone())
}

fn csv_line(summary: &PointSummary) -> String {
    let Point { sweep, server, variant, clients, pipeline, ratio, data_size, key_pattern, key_maximum, loadgen } =
        &summary.point;
    let keys = key_maximum.iter().map(|keys| format!("--key-maximum {keys}"));
    let flags = loadgen.iter().map(|(flag, value)| format!("--{flag} {value}"));
    let flags: Vec<String> = keys.chain(flags).collect();
    let n = summary.lines.len();
    // A value may hold commas.
    let flags = format!("\"{}\"", flags.join(" "));
    let mut line =
        format!("{sweep},{server},{variant},{clients},{pipeline},{ratio},{data_size},{key_pattern},{flags},{n}");
    for metric in Metric::ALL {
        match summary.figures.get(&metric) {
            Some(one) => line.push_str(&format!(",{:.3},{:.3},{:.3}", one.median, one.low(), one.high())),
            None => line.push_str(",,,"),
        }
    }
    let hits = summary.hit_ratio.map_or(String::new(), |ratio| format!("{ratio:.4}"));
    let PointSummary { errors, disturbed, generator_saturated, unsteady, failed, .. } = summary;
    line.push_str(&format!(",{hits},{errors},{disturbed},{generator_saturated},{unsteady},{failed}\n"));
    line
}

fn summarize(seed: u64, sweep: &Sweep, point: Point, found: &[(usize, &Observation)]) -> Result<PointSummary> {
    let trials: Vec<&Observation> = found.iter().map(|(_, one)| *one).collect();
    let mut figures = BTreeMap::new();
    for metric in Metric::ALL {
        let values: Option<Vec<f64>> = trials.iter().map(|one| metric.of(one)).collect();
        if let Some(values) = values {
            figures.insert(metric, Estimate::of(values, seed).context("a point in the summary has a trial")?);
        }
    }
    let (hits, misses) = trials.iter().fold((0, 0), |(hits, misses), one| (hits + one.hits, misses + one.misses));
    let count = |is: &dyn Fn(&Observation) -> bool| trials.iter().filter(|one| is(one)).count();
    let failed = |one: &Observation| one.errors > 0 || one.hit_ratio().is_some_and(|found| found < sweep.hit_ratio_min);
    let is_open_loop = point.is_open_loop();
    Ok(PointSummary {
        point,
        figures,
        hit_ratio: (hits + misses > 0).then(|| hits as f64 / (hits + misses) as f64),
        errors: trials.iter().map(|one| one.errors).sum(),
        disturbed: count(&Observation::disturbed),
        generator_saturated: count(&|one| one.generator_bound(is_open_loop)),
        unsent: count(&|one| one.unsent > 0),
        unsteady: count(&Observation::unsteady),
        stolen_cores: trials.iter().filter_map(|one| one.stolen_cores).collect(),
        failed: count(&failed),
        lines: found.iter().map(|(line, _)| *line).collect(),
        stages: stages::medians(&trials.iter().map(|one| &one.stages).collect::<Vec<_>>()),
        layout: trials
            .first()
            .and_then(|one| one.layout)
            .filter(|&first| trials.iter().all(|one| one.layout == Some(first))),
    })
}
