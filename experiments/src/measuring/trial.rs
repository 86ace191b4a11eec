//! One trial: fresh server, prefill, warm-up, window; repeated if other processes used the machine meanwhile.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::base::interrupt::Interrupt;
use crate::measuring::generator::{self, Measurement, OutputFiles};
use crate::measuring::process::{Extra, RunningServer};
use crate::measuring::sampler::{self, Sample, Usage};
use crate::measuring::throttle::Throttle;
use crate::plan::catalog::{Program, Server};
use crate::plan::point::Trial;
use crate::plan::sweep::Sweep;

/// The layout of a trial's record.
pub(crate) const FORMAT: &str = "shardrace-trial/1";

/// How often a window may pass without the lab having its turn to look, on a machine that is busy with other things.
const UNSEEN_MAX: usize = 5;

/// Cores used by other processes above which a trial counts as disturbed.
pub(crate) const FOREIGN_CORES_MAX: f64 = 0.25;

/// The record of one trial; written last, so that its presence means the trial is complete.
///
/// Invariants: `chosen < attempts.len()`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// [`FORMAT`].
    pub format: String,
    /// What was measured.
    pub trial: Trial,
    /// Every attempt, disturbed ones included.
    pub attempts: Vec<Attempt>,
    /// The attempt with the least foreign load: the first quiet one, if there is one.
    pub chosen: usize,
}

/// One attempt at a trial. Throughput and latency are only in the generator's file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// The generator's JSON, beside the record.
    pub loadgen_file: String,
    /// Cores in use over the window.
    pub usage: Usage,
    /// The server's resident memory after prefill.
    pub server_rss_bytes_prefilled: u64,
    /// The server's largest resident memory from start to end.
    pub server_rss_bytes_peak: u64,
    /// Share of the window in which the lab had stopped the server; `None` if it never does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_share: Option<f64>,
    /// The server's INFO after the window.
    pub info: BTreeMap<String, String>,
    /// Its INFO stages after the window, including the warm-up; empty if it has none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stages: BTreeMap<String, String>,
    /// The readings that `usage` is made from.
    pub samples: Vec<Sample>,
}

/// What a trial needs besides itself.
#[derive(Debug)]
pub struct Bench<'a> {
    /// The generator.
    pub generator: &'a Program,
    /// The server under test.
    pub server: &'a Server,
    /// The sweep of the trial.
    pub sweep: &'a Sweep,
    /// Asks the trial to stop.
    pub interrupt: &'a Interrupt,
}

impl TrialRecord {
    /// The attempt that counts.
    pub(crate) fn chosen(&self) -> &Attempt {
        &self.attempts[self.chosen]
    }
}

impl Attempt {
    /// Whether other processes used the machine more than a trial tolerates.
    pub(crate) fn disturbed(&self) -> bool {
        self.usage.foreign_cores > FOREIGN_CORES_MAX
    }
}

/// Runs `trial`, and writes its files beside `stem`, a path without an extension.
pub(crate) fn run(bench: &Bench, trial: &Trial, stem: &Path) -> Result<TrialRecord> {
    let folder = stem.parent().expect("a stem lies in the folder of its point");
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let (mut attempts, mut unseen) = (Vec::new(), 0);
    while attempts.len() <= bench.sweep.retries as usize {
        let Some(attempt) = attempt(bench, trial, stem, attempts.len() + 1)? else {
            unseen += 1;
            ensure!(unseen <= UNSEEN_MAX, "the window of {} was never sampled", stem.display());
            continue;
        };
        let quiet = !attempt.disturbed();
        attempts.push(attempt);
        if quiet {
            break;
        }
    }
    let chosen = least_disturbed(&attempts);
    Ok(TrialRecord { format: FORMAT.to_owned(), trial: trial.clone(), attempts, chosen })
}

/// The choice only depends on foreign load, never on the result.
fn least_disturbed(attempts: &[Attempt]) -> usize {
    let by_load = |&a: &usize, &b: &usize| attempts[a].usage.foreign_cores.total_cmp(&attempts[b].usage.foreign_cores);
    (0..attempts.len()).min_by(by_load).expect("a trial has at least one attempt")
}

fn attempt(bench: &Bench, trial: &Trial, stem: &Path, number: usize) -> Result<Option<Attempt>> {
    let mut prefix = stem.as_os_str().to_owned();
    prefix.push(format!("-a{number}"));
    let files = OutputFiles::new(prefix.into());
    let variant = bench.sweep.variant(&trial.point.variant);
    let flags = bench.server.dialect(&variant.flags).expect("a sweep keeps only servers that take its flags");
    let extra = Extra { flags: &flags, environment: &variant.environment };
    let mut server = RunningServer::start(bench.server, extra, &files.server_log(), bench.interrupt)?;
    if bench.sweep.prefills(&trial.point) {
        generator::prefill(bench.generator, &mut server, bench.sweep, &trial.point, &files, bench.interrupt)?;
    }
    if !trial.point.has_own_commands() {
        check_prefill(&server, bench.sweep.keys_of(&trial.point))?;
    }
    let server_rss_bytes_prefilled = sampler::resident_bytes(server.pid())?;
    server.forget_stages()?;
    let throttle = variant.stopped_percent.map(|percent| Throttle::apply(server.pid(), percent)).transpose()?;
    let samples = generator::measure(bench.generator, &mut server, bench.sweep, &trial.point, &files, bench.interrupt)?;
    let stages = server.stages();
    let json = files.json();
    let (start, end) = Measurement::read(&json)?.window();
    let stopped_share = throttle.map(|throttle| throttle.release(start, end));
    let Some(usage) = sampler::usage(&samples, start, end) else { return Ok(None) };
    Ok(Some(Attempt {
        loadgen_file: file_name(&json),
        usage,
        server_rss_bytes_prefilled,
        server_rss_bytes_peak: sampler::peak_resident_bytes(server.pid())?,
        stopped_share,
        info: server.info(),
        stages,
        samples,
    }))
}

/// A server that holds fewer keys than it was sent would answer the GETs of another sweep.
fn check_prefill(server: &RunningServer, expected: u64) -> Result<()> {
    let Some(found) = server.key_count() else {
        return Ok(());
    };
    ensure!(
        u64::try_from(found) == Ok(expected),
        "the server on {} tells of {found} keys after a prefill of {expected}",
        server.address()
    );
    Ok(())
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
