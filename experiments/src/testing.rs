//! Invented runs, for unit tests of what is made from runs.

use crate::base::environment::Environment;
use crate::judging::summary::Summary;
use crate::plan::catalog::Program;
use crate::plan::point::Point;
use crate::plan::sweep::Sweep;
use crate::results::folder::{RunRecord, Setup};
use crate::results::observation::{Observation, Observations};

/// A run of one sweep in which the throughput at a point, in a round, is the result of `rate`.
pub fn run(name: &str, sweep: &str, rate: impl Fn(&Point, u32) -> f64) -> (RunRecord, Summary) {
    run_of(Sweep::parse(name, sweep).expect("the sweep of a test is valid"), rate)
}

/// [`run`], for an existing sweep.
pub fn run_of(sweep: Sweep, rate: impl Fn(&Point, u32) -> f64) -> (RunRecord, Summary) {
    let setup = Setup {
        sweeps: vec![sweep],
        servers: Vec::new(),
        absent: Vec::new(),
        generator: Program { path: "loadgen".into(), digest: String::new(), version: None },
        budget_minutes: None,
        planned_repeats: Default::default(),
    };
    let record = RunRecord::new(setup, 1, Environment::record());
    let summary = Summary::of(&record, &observations(&record, rate)).expect("a summary of whole observations");
    (record, summary)
}

/// The trials of a run, with the rate at a point, in a round.
pub fn observations(record: &RunRecord, rate: impl Fn(&Point, u32) -> f64) -> Observations {
    let trials = record.order.iter().zip(0..).map(|(trial, started)| Observation {
        started_unix_ms: started,
        ..observation(&trial.path_stem(), rate(&trial.point, trial.round))
    });
    Observations { servers: Default::default(), trials: trials.collect(), latencies: None }
}

/// A flawless trial with this rate.
pub fn observation(trial: &str, rate: f64) -> Observation {
    Observation {
        trial: trial.to_owned(),
        started_unix_ms: 0,
        seconds: 1.0,
        requests: rate as u64,
        errors: 0,
        hits: 1,
        misses: 0,
        ops_per_sec: rate,
        mean_us: None,
        p50_us: 1e6 / rate,
        p99_us: 2e6 / rate,
        p999_us: 3e6 / rate,
        single_key_p99_us: None,
        lag_p99_us: None,
        generator_cpu_us_per_op: 1.0,
        generator_threads: 1,
        generator_faults: Vec::new(),
        unsent: 0,
        server_cores: 0.5,
        generator_cores: 0.5,
        foreign_cores: 0.0,
        stolen_cores: None,
        busy_cores: None,
        machine_cores: None,
        rss_prefilled_bytes: 1 << 20,
        rss_peak_bytes: 2 << 20,
        generator_rss_bytes: 0,
        attempts: 1,
        drift: None,
        slices: Vec::new(),
        stopped_share: None,
        stages: Default::default(),
        fairness: None,
        layout: None,
    }
}
