//! One trial in one line: exactly the values from which figures are made.
//!
//! A trial leaves some ten kilobytes below `raw/`: the generator's JSON and dumps, logs, hundreds of samples. Those
//! stay where they were measured. `trials.jsonl` is committed, the extract that this module makes of them:
//!
//! ```text
//! {"format":"shardrace-trials/1","servers":{"actor":{"engine":"actor","shards":"2"}}}
//! {"trial":"clients/actor.no-aof.c1.p1.r1-1.d64.kR-R/r01","ops_per_sec":15012.4,…}
//! ```
//!
//! The first line holds each server's description of itself; every further line is a trial, in the order of the plan.
//! Summary, verdicts, fits, report and documents are computed from this file, even if `raw/` is there, so that they are
//! the same on every machine. Figures are kept to seven digits: more than any instrument here has.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::measuring::generator::{Connections, Measurement};
use crate::measuring::sampler::{self, Sample};
use crate::measuring::stages::{self, Stages};
use crate::measuring::trial::{FOREIGN_CORES_MAX, TrialRecord};
use crate::plan::layout::Layout;
use crate::statistics::steadiness;

/// The layout of `trials.jsonl`.
pub(crate) const FORMAT: &str = "shardrace-trials/1";

/// Share of its threads' time above which the generator may have been the bottleneck.
const GENERATOR_SATURATED: f64 = 0.95;

/// Relative difference between the two halves of a window above which a trial was not in a steady state.
pub(crate) const DRIFT_MAX: f64 = 0.15;

/// Seconds of window from which on the generator's per-second series says more about steadiness than CPU time.
const SERIES_ROWS_MIN: usize = 4;

/// The result of one trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// The trial, as named by [`crate::plan::point::Trial::path_stem`].
    pub trial: String,
    /// When the window began, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Length of the window.
    pub seconds: f64,
    /// Replies in it.
    pub requests: u64,
    /// Error replies among them.
    pub errors: u64,
    /// Keys that were read and found.
    pub hits: u64,
    /// Keys that were read and not found.
    pub misses: u64,
    /// Replies per second.
    pub ops_per_sec: f64,
    /// Mean latency; `None` in runs that did not keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_us: Option<f64>,
    /// Median latency.
    pub p50_us: f64,
    /// 99th percentile of latency.
    pub p99_us: f64,
    /// 99.9th percentile of latency.
    pub p999_us: f64,
    /// The 99th percentile of commands of one key only, if commands of several keys ran beside them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub single_key_p99_us: Option<f64>,
    /// The 99th percentile of how late requests left that could have left in time: the generator's part of the
    /// latency. `None` in a closed loop, and in runs that did not keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_p99_us: Option<f64>,
    /// The generator's CPU time per request.
    pub generator_cpu_us_per_op: f64,
    /// The generator's threads.
    pub generator_threads: u32,
    /// Why the generator itself calls the measurement invalid; empty if it does not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub generator_faults: Vec<String>,
    /// Requests of an open loop that were due in the window and never sent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unsent: u64,
    /// Cores the server used over the window.
    pub server_cores: f64,
    /// Cores the generator used.
    pub generator_cores: f64,
    /// Cores everything else used.
    pub foreign_cores: f64,
    /// The part of it that was the hypervisor's: cores it took away while they had work; `None` in runs that did not
    /// keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stolen_cores: Option<f64>,
    /// Cores in use by all together, by the kernel's counters; `None` in runs that did not keep them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_cores: Option<f64>,
    /// Cores of the machine, by its own counters; `None` in runs that did not record them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_cores: Option<f64>,
    /// The server's resident memory after prefill.
    pub rss_prefilled_bytes: u64,
    /// The server's largest resident memory.
    pub rss_peak_bytes: u64,
    /// The generator's largest resident memory in the window; 0 in runs that did not record it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub generator_rss_bytes: u64,
    /// Attempts that were made.
    pub attempts: usize,
    /// How much more the second half of the window did than the first, as a share; `None` if too little was sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<f64>,
    /// Replies in each whole tenth of a second of the window; empty in runs that did not keep them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<u64>,
    /// Share of the window in which the lab had stopped the server: the slowdown that an A/A sweep injects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_share: Option<f64>,
    /// Where the time of requests went, if the server reports it.
    #[serde(default, skip_serializing_if = "Stages::is_empty")]
    pub stages: Stages,
    /// How evenly the connections were served; `None` for fewer than two, and in runs that did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fairness: Option<Fairness>,
    /// The threads and shards that the server said it had; `None` of servers that do not say it, and in runs that did
    /// not keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<Layout>,
}

/// How evenly the connections of a trial were served.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Fairness {
    /// Jain's index of what each connection got: of its throughput in a closed loop, and of its mean latency in an open
    /// one, where all have the same rate.
    pub jain: f64,
    /// The mean latency of the connection that waited longest, by that of the median one.
    pub slowest: f64,
}

impl Fairness {
    fn of(found: &Connections, is_open_loop: bool) -> Option<Self> {
        let latency = found.mean_latency_us.filter(|latency| found.served > 1 && latency.median > 0.0)?;
        let jain = if is_open_loop { latency.jain } else { found.ops_per_sec.jain };
        Some(Self { jain: rounded(jain), slowest: rounded(latency.max / latency.median) })
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The observations of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Observations {
    /// Each server's INFO about itself.
    pub servers: BTreeMap<String, BTreeMap<String, String>>,
    /// One for each trial that is done, in the order of the plan.
    pub trials: Vec<Observation>,
    /// SHA-256 of `latencies.jsonl`, the histograms of the percentiles; `None` in runs that did not keep them.
    pub latencies: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Head {
    format: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    latencies: Option<String>,
    servers: BTreeMap<String, BTreeMap<String, String>>,
}

impl Observation {
    /// Extracts from the record of a trial and what its generator wrote.
    pub(crate) fn of(record: &TrialRecord, found: &Measurement) -> Result<Self> {
        let attempt = record.chosen();
        let totals = &found.totals;
        Ok(Self {
            trial: record.trial.path_stem(),
            started_unix_ms: found.started_unix_ms,
            seconds: rounded(found.duration_s),
            requests: totals.requests,
            errors: totals.errors,
            hits: totals.hits,
            misses: totals.misses,
            ops_per_sec: rounded(totals.ops_per_sec),
            mean_us: totals.latency_us("mean").ok().map(rounded),
            p50_us: rounded(totals.latency_us("p50")?),
            p99_us: rounded(totals.latency_us("p99")?),
            p999_us: rounded(totals.latency_us("p99.9")?),
            single_key_p99_us: found.single_key_latency_us("p99").map(rounded),
            lag_p99_us: found.generator.lag_us("p99").map(rounded),
            generator_cpu_us_per_op: rounded(found.generator.cpu_us_per_op),
            generator_threads: found.generator.threads,
            generator_faults: found.faults.clone(),
            unsent: found.unsent,
            server_cores: rounded(attempt.usage.server_cores),
            generator_cores: rounded(attempt.usage.generator_cores),
            foreign_cores: rounded(attempt.usage.foreign_cores),
            stolen_cores: Some(rounded(attempt.usage.stolen_cores)),
            busy_cores: attempt.usage.busy_cores.map(rounded),
            machine_cores: Some(rounded(attempt.usage.machine_cores)).filter(|cores| *cores > 0.0),
            rss_prefilled_bytes: attempt.server_rss_bytes_prefilled,
            rss_peak_bytes: attempt.server_rss_bytes_peak,
            generator_rss_bytes: attempt.usage.generator_rss_bytes_max,
            attempts: record.attempts.len(),
            drift: drift(found, &attempt.samples).map(rounded),
            slices: found.slices().to_vec(),
            stopped_share: attempt.stopped_share.map(rounded),
            stages: stages::parse(&attempt.stages),
            fairness: found.connections.as_ref().and_then(|one| Fairness::of(one, record.trial.point.is_open_loop())),
            layout: Layout::told(&attempt.info),
        })
    }

    /// Whether other processes used the machine even in the best attempt.
    pub(crate) fn disturbed(&self) -> bool {
        self.foreign_cores > FOREIGN_CORES_MAX
    }

    /// Whether the generator's threads were busy nearly all the time, or the generator reports that it was the
    /// bottleneck. In an open loop a thread polls until the next request is due, and only the generator knows what of
    /// its time was work, and whether requests left late.
    pub(crate) fn generator_bound(&self, is_open_loop: bool) -> bool {
        let busy = self.generator_cores > GENERATOR_SATURATED * f64::from(self.generator_threads);
        (busy && !is_open_loop) || !self.generator_faults.is_empty()
    }

    /// Whether the halves of the window differ by more than [`DRIFT_MAX`], or throughput made a step within it.
    pub(crate) fn unsteady(&self) -> bool {
        self.drift.is_some_and(|drift| drift.abs() > DRIFT_MAX) || steadiness::step(&self.slices).is_some()
    }

    /// Share of the keys read that were found; `None` if none were read.
    pub(crate) fn hit_ratio(&self) -> Option<f64> {
        let asked = self.hits + self.misses;
        (asked > 0).then(|| self.hits as f64 / asked as f64)
    }
}

impl Observations {
    /// Reads the text of `trials.jsonl`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut lines = text.lines();
        let head: Head = serde_json::from_str(lines.next().unwrap_or_default()).context("in the first line")?;
        ensure!(head.format == FORMAT, "the format is {:?}, not {FORMAT:?}", head.format);
        let read = |(index, line)| serde_json::from_str(line).with_context(|| format!("in line {}", index + 2));
        let trials = lines.enumerate().map(read).collect::<Result<_>>()?;
        Ok(Self { servers: head.servers, trials, latencies: head.latencies })
    }

    /// The same as a run keeps it that was extracted before trials kept the layout of their server, or the generator's
    /// lag: what is committed does not change.
    pub(crate) fn like_kept(mut self, committed: &Self) -> Self {
        let lacks = |has: fn(&Observation) -> bool| !committed.trials.is_empty() && !committed.trials.iter().any(has);
        if lacks(|one| one.layout.is_some()) {
            self.trials.iter_mut().for_each(|one| one.layout = None);
        }
        if lacks(|one| one.lag_p99_us.is_some()) {
            self.trials.iter_mut().for_each(|one| one.lag_p99_us = None);
        }
        self
    }

    /// The text of `trials.jsonl`.
    pub(crate) fn to_text(&self) -> Result<String> {
        let (latencies, servers) = (self.latencies.clone(), self.servers.clone());
        let head = Head { format: FORMAT.to_owned(), latencies, servers };
        let mut text = serde_json::to_string(&head).context("cannot write a result as JSON")?;
        text.push('\n');
        for trial in &self.trials {
            text.push_str(&serde_json::to_string(trial).context("cannot write a result as JSON")?);
            text.push('\n');
        }
        Ok(text)
    }
}

/// The second half of the window against the first: replies if the series is long enough, otherwise CPU time of server
/// and generator, which follows the replies closely and is sampled twenty times a second.
fn drift(found: &Measurement, samples: &[Sample]) -> Option<f64> {
    // What comes after the last whole second are the replies that were on their way when the window ended.
    let whole = (found.duration_s + 1e-6) as usize;
    let rows = &found.series[..whole.min(found.series.len())];
    let (first, second) = if rows.len() >= SERIES_ROWS_MIN {
        let half = rows.len() / 2;
        let replies =
            |part: &[_]| part.iter().map(|row: &crate::measuring::generator::SeriesRow| row.ops as f64).sum::<f64>();
        (replies(&rows[..half]), replies(&rows[rows.len() - half..]))
    } else {
        let (start, end) = found.window();
        let middle = f64::midpoint(start, end);
        let cores =
            |from, to| sampler::usage(samples, from, to).map(|usage| usage.server_cores + usage.generator_cores);
        (cores(start, middle)?, cores(middle, end)?)
    };
    (first > 0.0).then(|| second / first - 1.0)
}

/// To seven digits.
pub(crate) fn rounded(value: f64) -> f64 {
    format!("{value:.6e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measuring::generator::Spread;

    #[test]
    fn fairness_is_of_throughput_in_a_closed_loop_and_of_latency_in_an_open_one() {
        let spread = |median, max, jain| Spread { median, max, jain };
        let latency = Some(spread(100.0, 250.0, 0.8));
        let mut found =
            Connections { count: 4, served: 4, ops_per_sec: spread(10.0, 12.0, 0.9), mean_latency_us: latency };
        assert_eq!(Fairness::of(&found, false), Some(Fairness { jain: 0.9, slowest: 2.5 }));
        assert_eq!(Fairness::of(&found, true), Some(Fairness { jain: 0.8, slowest: 2.5 }));
        found.served = 1;
        assert_eq!(Fairness::of(&found, false), None);
    }

    #[test]
    fn replies_that_were_on_their_way_when_the_window_ended_are_no_drift() {
        let measured = |duration_s: f64, rows: &[u64]| -> Measurement {
            let series: Vec<_> = rows.iter().map(|ops| serde_json::json!({"ops": ops})).collect();
            let zeros = serde_json::json!({"requests": 0, "errors": 0, "hits": 0, "misses": 0, "ops_per_sec": 0.0,
                "latency_us": {"mean": 0.0, "p50": 0.0, "p99": 0.0, "p999": 0.0, "max": 0.0}});
            let cost = serde_json::json!({"cpu_us_per_op": 0.0, "threads": 1});
            let found = serde_json::json!({"format": "", "started_unix_ms": 0, "duration_s": duration_s,
                "totals": zeros, "generator": cost, "series": series});
            serde_json::from_value(found).expect("a measurement")
        };
        assert_eq!(drift(&measured(5.0003, &[1000, 1000, 1000, 1000, 1000, 3]), &[]), Some(0.0));
        assert_eq!(drift(&measured(4.0003, &[1000, 1000, 500, 500, 3]), &[]), Some(-0.5));
    }

    #[test]
    fn figures_keep_seven_digits() {
        assert_eq!(
            [rounded(110_885.053_184_788), rounded(0.000_123_456_789), rounded(0.0)],
            [110_885.1, 0.000_123_456_8, 0.0]
        );
    }

    #[test]
    fn what_is_written_is_read_back_and_another_format_is_refused() {
        let line = r#"{"trial":"s/p/r01","started_unix_ms":1,"seconds":1.0,"requests":1,"errors":0,"hits":3,"misses":1,
            "ops_per_sec":1.5,"p50_us":1.0,"p99_us":2.0,"p999_us":3.0,"generator_cpu_us_per_op":1.0,"generator_threads":1,
            "server_cores":0.5,"generator_cores":0.96,"foreign_cores":0.3,"rss_prefilled_bytes":1,"rss_peak_bytes":2,
            "attempts":1,"drift":-0.2,"stages":{"queue":{"count":2,"mean":1.5,"p50":1.0,"p99":2.0,"p999":2.0,"max":2.0}}}"#
            .replace('\n', "");
        let text = format!("{{\"format\":\"{FORMAT}\",\"servers\":{{}}}}\n{line}\n");
        let observations = Observations::parse(&text).unwrap();
        assert_eq!(Observations::parse(&observations.to_text().unwrap()).unwrap(), observations);
        let one = &observations.trials[0];
        assert_eq!((one.disturbed(), one.generator_bound(false), one.unsteady()), (true, true, true));
        assert!(!one.generator_bound(true), "it polled, perhaps");
        let late = Observation { generator_faults: vec!["late".to_owned()], ..one.clone() };
        assert!(late.generator_bound(true), "it says so itself");
        let mut told = observations.clone();
        told.trials[0].layout = Some(crate::plan::layout::Layout { threads: 2, shards: 8 });
        assert_eq!(Observations::parse(&told.to_text().unwrap()).unwrap(), told);
        assert_eq!(told.clone().like_kept(&observations), observations, "what is committed without it stays as it is");
        assert_eq!(told.clone().like_kept(&told), told);
        let mut late = observations.clone();
        late.trials[0].lag_p99_us = Some(4.5);
        assert_eq!(Observations::parse(&late.to_text().unwrap()).unwrap(), late);
        assert_eq!(late.clone().like_kept(&observations), observations, "nor does a lag that was not kept");
        assert_eq!(late.clone().like_kept(&late), late);
        assert_eq!(one.hit_ratio(), Some(0.75));
        let error = Observations::parse(&text.replace("trials/1", "trials/9")).unwrap_err();
        assert!(error.to_string().contains("shardrace-trials/9"), "{error}");
    }
}
