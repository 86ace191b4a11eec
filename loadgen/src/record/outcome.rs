//! The outcome of a run, from which all reports are made.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hdrhistogram::Histogram;

use super::{Health, Io};
use crate::base::cpu::CpuTime;
use crate::config::Config;
use crate::record::{CommandStats, Interval, SLICE, Served, value_at_percentile};

/// The counts and latencies of all runs, added up.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// When the first measured window began.
    pub started: SystemTime,
    /// The measured windows' length.
    pub duration: Duration,
    /// The commands' names, by their places in the load.
    pub names: Vec<String>,
    /// By the place of a command in its load.
    pub commands: Vec<CommandStats>,
    /// One row a second.
    pub series: Vec<Second>,
    /// Replies in each 100 ms; the last one of a run covers what is left.
    pub slices: Vec<u64>,
    /// What each connection was served; empty for a storm, and for merged files.
    pub connections: Vec<Served>,
    /// CPU time of this process in user mode, within the windows.
    pub cpu_user: Duration,
    /// CPU time of this process in the kernel, within the windows.
    pub cpu_system: Duration,
    /// Open loop: requests that were due and never sent, because the target did not keep up.
    pub unsent: u64,
    /// The targets' addresses and what was counted for each; empty when there is only one.
    pub targets: Vec<(String, CommandStats)>,
    /// How the generator's own threads did.
    pub health: Health,
    /// Replies that were checked against the model, including the warm-up; `None` without `--verify`.
    pub verified: Option<Verified>,
    /// How long connecting took, all runs together.
    pub connecting: Duration,
    /// The text of the first error reply.
    pub error_text: Option<String>,
    /// How bytes were sent and received; `None` for merged files.
    pub io: Option<Io>,
    /// Whether Ctrl-C ended it early.
    pub is_interrupted: bool,
    runs: u32,
}

/// The result of checking replies against the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Replies that were checked: all.
    pub replies: u64,
    /// Replies that differ from the model.
    pub mismatches: u64,
    /// A description of the first of them.
    pub first: Option<String>,
}

impl Verified {
    pub(crate) fn add(&mut self, other: Self) {
        self.replies += other.replies;
        self.mismatches += other.mismatches;
        self.first = self.first.take().or(other.first);
    }
}

/// A row of the series.
#[derive(Clone, Copy, Debug)]
pub struct Second {
    /// When it ended, in seconds of measured time.
    pub end_s: f64,
    /// Replies in it.
    pub requests: u64,
    /// Error replies among them.
    pub errors: u64,
    /// Keys that were read and had a value.
    pub hits: u64,
    /// Keys that were read and had none.
    pub misses: u64,
    /// Mean latency.
    pub mean_ns: f64,
    /// Median latency.
    pub p50_ns: u64,
    /// 99th percentile of latency.
    pub p99_ns: u64,
    /// 99.9th percentile of latency.
    pub p999_ns: u64,
    /// The longest latency.
    pub max_ns: u64,
}

impl Second {
    pub(crate) fn new(
        end_s: f64,
        latency: &Histogram<u64>,
        requests: u64,
        errors: u64,
        hits: u64,
        misses: u64,
    ) -> Self {
        let at = |percentile| value_at_percentile(latency, percentile);
        Self {
            end_s,
            requests,
            errors,
            hits,
            misses,
            mean_ns: latency.mean(),
            p50_ns: at(50.0),
            p99_ns: at(99.0),
            p999_ns: at(99.9),
            max_ns: latency.max(),
        }
    }
}

impl Outcome {
    pub(crate) fn new(config: &Config) -> Self {
        let names = config.commands().into_iter().map(|command| command.name).collect();
        let open_loop = config.rate.is_some();
        let mut outcome = Self::empty(names, open_loop);
        if config.targets.len() > 1 {
            let targets = config.targets.iter().map(|target| (target.address(), CommandStats::new(open_loop)));
            outcome.targets = targets.collect();
        }
        outcome
    }

    /// Nothing counted, for commands of these names.
    pub(crate) fn empty(names: Vec<String>, open_loop: bool) -> Self {
        Self {
            started: SystemTime::now(),
            duration: Duration::ZERO,
            commands: names.iter().map(|_| CommandStats::new(open_loop)).collect(),
            names,
            series: Vec::new(),
            slices: Vec::new(),
            connections: Vec::new(),
            cpu_user: Duration::ZERO,
            cpu_system: Duration::ZERO,
            unsent: 0,
            targets: Vec::new(),
            health: Health::new(),
            verified: None,
            connecting: Duration::ZERO,
            error_text: None,
            io: None,
            is_interrupted: false,
            runs: 0,
        }
    }

    /// All commands as one.
    pub fn totals(&self) -> CommandStats {
        let mut totals = self.commands[0].clone();
        for command in &self.commands[1..] {
            totals.add(command);
        }
        totals
    }

    /// Each command's name and what was counted.
    pub fn by_name(&self) -> impl Iterator<Item = (&str, &CommandStats)> {
        self.names.iter().map(String::as_str).zip(&self.commands)
    }

    /// Replies per second of the measured window.
    pub fn per_second(&self, count: u64) -> f64 {
        let seconds = self.duration.as_secs_f64();
        if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
    }

    /// The generator's own CPU time for each reply, in microseconds.
    pub fn cpu_us_per_op(&self) -> f64 {
        let requests: u64 = self.commands.iter().map(|command| command.requests).sum();
        let cpu_us = (self.cpu_user + self.cpu_system).as_secs_f64() * 1e6;
        if requests > 0 { cpu_us / requests as f64 } else { 0.0 }
    }

    /// Why the run says more about the generator than about the target; empty if it is valid.
    pub fn faults(&self) -> Vec<String> {
        self.health.faults(self)
    }

    /// Milliseconds since 1970 at the start of the first window.
    pub fn started_unix_ms(&self) -> u64 {
        self.started.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
    }

    pub(crate) fn begin_run(&mut self) {
        if self.runs == 0 {
            self.started = SystemTime::now();
        }
        self.runs += 1;
    }

    pub(crate) fn add_interval(&mut self, interval: &Interval, began: Duration, length: Duration) {
        for (own, other) in self.commands.iter_mut().zip(&interval.commands) {
            own.add(other);
        }
        for ((_, own), other) in self.targets.iter_mut().zip(&interval.targets) {
            own.add(other);
        }
        let slices = length.as_nanos().div_ceil(SLICE.as_nanos()) as usize;
        self.slices.extend(&interval.slices[..slices.min(interval.slices.len())]);
        let total = interval.total();
        let end_s = (self.duration + began + length).as_secs_f64();
        self.series.push(Second::new(end_s, total.latency(), total.requests, total.errors, total.hits, total.misses));
    }

    /// A run's connections, in their order: the same ones in each run.
    pub(crate) fn add_connections<'a>(&mut self, connections: impl Iterator<Item = &'a Served>) {
        for (number, served) in connections.enumerate() {
            match self.connections.get_mut(number) {
                Some(own) => own.add(served),
                None => self.connections.push(*served),
            }
        }
    }

    pub(crate) fn add_verified(&mut self, verified: Option<Verified>) {
        if let Some(verified) = verified {
            self.verified.get_or_insert_default().add(verified);
        }
    }

    pub(crate) fn end_thread(&mut self, unsent: u64, error_text: Option<String>) {
        self.unsent += unsent;
        self.error_text = self.error_text.take().or(error_text);
    }

    pub(crate) fn end_run(&mut self, duration: Duration, cpu: CpuTime) {
        self.duration += duration;
        self.cpu_user += cpu.user;
        self.cpu_system += cpu.system;
    }
}
