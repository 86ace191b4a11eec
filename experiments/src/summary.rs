//! The summary: each point's figures over its repeats, computed from raw records and the generator's files and from
//! nothing else. `summary.json`, `summary.csv` and the report all print this one table.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::bootstrap::Estimate;
use crate::generator::Measurement;
use crate::plan::{self, Point};
use crate::results::RunFolder;
use crate::trial::TrialRecord;

/// The layout of `summary.json`.
pub const FORMAT: &str = "shardrace-summary/1";

const MIB: f64 = (1 << 20) as f64;

/// Share of its threads' time above which the generator may have been the bottleneck.
const GENERATOR_SATURATED: f64 = 0.95;

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
    /// The server's CPU time per reply, in microseconds.
    ServerCpuUsPerOp,
    /// The server's largest resident memory, in MiB.
    ServerRssPeakMib,
    /// The generator's CPU time per reply, in microseconds.
    GeneratorCpuUsPerOp,
}

impl Metric {
    /// Every metric, in the order of the columns.
    pub const ALL: [Self; 7] = [
        Self::OpsPerSec,
        Self::P50Us,
        Self::P99Us,
        Self::P999Us,
        Self::ServerCpuUsPerOp,
        Self::ServerRssPeakMib,
        Self::GeneratorCpuUsPerOp,
    ];

    /// The name in JSON and CSV.
    pub fn key(self) -> &'static str {
        match self {
            Self::OpsPerSec => "ops_per_sec",
            Self::P50Us => "p50_us",
            Self::P99Us => "p99_us",
            Self::P999Us => "p999_us",
            Self::ServerCpuUsPerOp => "server_cpu_us_per_op",
            Self::ServerRssPeakMib => "server_rss_peak_mib",
            Self::GeneratorCpuUsPerOp => "generator_cpu_us_per_op",
        }
    }

    fn of(self, record: &TrialRecord, found: &Measurement) -> Result<f64> {
        let attempt = record.chosen();
        Ok(match self {
            Self::OpsPerSec => found.totals.ops_per_sec,
            Self::P50Us => found.latency_us("p50")?,
            Self::P99Us => found.latency_us("p99")?,
            Self::P999Us => found.latency_us("p99.9")?,
            Self::ServerCpuUsPerOp => attempt.usage.server_cores * 1e6 / found.totals.ops_per_sec,
            Self::ServerRssPeakMib => attempt.server_rss_bytes_peak as f64 / MIB,
            Self::GeneratorCpuUsPerOp => found.generator.cpu_us_per_op,
        })
    }
}

/// The figures of one point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PointSummary {
    /// The point.
    pub point: Point,
    /// Figures by metric; all have the same `n`.
    pub figures: BTreeMap<Metric, Estimate>,
    /// GETs that found a value, over all repeats; none without GETs.
    pub hit_ratio: Option<f64>,
    /// Error replies, over all repeats.
    pub errors: u64,
    /// Repeats in which others used the machine even in the best attempt.
    pub disturbed: usize,
    /// Repeats in which the generator's threads were busy nearly all the time: the server may be faster than shown.
    pub generator_saturated: usize,
    /// The records, relative to the run's folder, in the order of the rounds.
    pub records: Vec<String>,
}

/// A run in figures.
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
    /// What each server's INFO said of itself: version and allocator.
    pub servers: BTreeMap<String, BTreeMap<String, String>>,
}

/// The fields of INFO that say what a server is.
const IDENTITY: [&str; 5] = ["redis_version", "valkey_version", "mem_allocator", "engine", "shards"];

impl Summary {
    /// Reads every record of `run`.
    pub fn of(run: &RunFolder) -> Result<Self> {
        let records = run.trials()?;
        let mut points = Vec::new();
        for point in run.record.setup.sweeps.iter().flat_map(plan::points) {
            let own: Vec<&TrialRecord> = records.iter().filter(|record| record.trial.point == point).collect();
            if !own.is_empty() {
                points.push(summarize(run, point, &own)?);
            }
        }
        Ok(Self {
            format: FORMAT.to_owned(),
            seed: run.record.seed,
            trials: run.record.order.len(),
            trials_done: records.len(),
            points,
            servers: identities(&records),
        })
    }

    /// One line per point: its coordinates, then median, low and high of each metric.
    pub fn to_csv(&self) -> String {
        let mut csv = String::from("sweep,server,variant,clients,pipeline,ratio,data_size,key_pattern,loadgen,n");
        for metric in Metric::ALL {
            let key = metric.key();
            csv.push_str(&format!(",{key},{key}_low,{key}_high"));
        }
        csv.push_str(",hit_ratio,errors,disturbed,generator_saturated\n");
        self.points.iter().for_each(|point| csv.push_str(&csv_line(point)));
        csv
    }
}

fn csv_line(summary: &PointSummary) -> String {
    let Point { sweep, server, variant, clients, pipeline, ratio, data_size, key_pattern, loadgen } = &summary.point;
    let flags: Vec<String> = loadgen.iter().map(|(flag, value)| format!("--{flag} {value}")).collect();
    let n = summary.records.len();
    // A value may hold commas.
    let flags = format!("\"{}\"", flags.join(" "));
    let mut line =
        format!("{sweep},{server},{variant},{clients},{pipeline},{ratio},{data_size},{key_pattern},{flags},{n}");
    for estimate in Metric::ALL.map(|metric| &summary.figures[&metric]) {
        line.push_str(&format!(",{:.3},{:.3},{:.3}", estimate.median, estimate.low(), estimate.high()));
    }
    let hits = summary.hit_ratio.map_or(String::new(), |ratio| format!("{ratio:.4}"));
    line.push_str(&format!(",{hits},{},{},{}\n", summary.errors, summary.disturbed, summary.generator_saturated));
    line
}

fn summarize(run: &RunFolder, point: Point, records: &[&TrialRecord]) -> Result<PointSummary> {
    let found: Vec<Measurement> = records.iter().map(|record| measurement(run, record)).collect::<Result<_>>()?;
    let pairs: Vec<(&TrialRecord, &Measurement)> = records.iter().copied().zip(&found).collect();
    let mut figures = BTreeMap::new();
    for metric in Metric::ALL {
        let values = pairs.iter().map(|(record, found)| metric.of(record, found)).collect::<Result<Vec<f64>>>()?;
        let estimate = Estimate::of(values, run.record.seed).context("a point in the summary has a trial")?;
        figures.insert(metric, estimate);
    }
    let (hits, misses) = found.iter().fold((0, 0), |(h, m), one| (h + one.totals.hits, m + one.totals.misses));
    Ok(PointSummary {
        point,
        figures,
        hit_ratio: (hits + misses > 0).then(|| hits as f64 / (hits + misses) as f64),
        errors: found.iter().map(|one| one.totals.errors).sum(),
        disturbed: records.iter().filter(|record| record.chosen().disturbed()).count(),
        generator_saturated: pairs.iter().filter(|(record, found)| saturated(record, found)).count(),
        records: records.iter().map(|record| format!("raw/{}.json", record.trial.path_stem())).collect(),
    })
}

fn measurement(run: &RunFolder, record: &TrialRecord) -> Result<Measurement> {
    let stem = run.stem(&record.trial);
    let folder = stem.parent().unwrap_or(Path::new(""));
    Measurement::read(&folder.join(&record.chosen().loadgen_file))
}

fn saturated(record: &TrialRecord, found: &Measurement) -> bool {
    record.chosen().usage.generator_cores > GENERATOR_SATURATED * f64::from(found.generator.threads)
}

fn identities(records: &[TrialRecord]) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut servers = BTreeMap::new();
    for record in records {
        let info = &record.chosen().info;
        let known = IDENTITY.iter().filter_map(|&field| Some((field.to_owned(), info.get(field)?.clone())));
        servers.entry(record.trial.point.server.clone()).or_insert_with(|| known.collect());
    }
    servers
}
