//! What came of several rates.

use crate::record::{Outcome, value_at_percentile};

/// A rate that was run.
#[derive(Clone, Debug)]
pub struct Step {
    /// Requests per second that were asked for.
    pub rate: f64,
    /// Its outcome.
    pub outcome: Outcome,
    /// Why the rate does not hold the limit; empty if it does. Without a limit: why the rate was not kept.
    pub failures: Vec<String>,
}

/// All steps, in the order they were run, and what the search found.
#[derive(Clone, Debug)]
pub struct RampOutcome {
    /// The steps.
    pub steps: Vec<Step>,
    /// The knee, if it was searched for.
    pub found: Option<Found>,
    /// Whether Ctrl-C ended it early; its last step is then incomplete, or the one after it is missing.
    pub is_interrupted: bool,
}

/// The knee.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// The highest rate that held; `None` if none did.
    pub holds: Option<f64>,
    /// The lowest rate that failed; `None` if none did.
    pub fails: Option<f64>,
    /// Whether the generator was the bottleneck at the lowest rate that failed.
    pub generator_bound: bool,
    /// The generator's own lag (99th percentile) at the highest rate that held.
    pub lag_p99_ms: Option<f64>,
}

impl Step {
    /// Replies per second.
    pub fn achieved(&self) -> f64 {
        self.outcome.per_second(self.outcome.totals().requests)
    }

    /// How late requests left that could have left in time, 99th percentile.
    pub fn lag_p99_ms(&self) -> f64 {
        value_at_percentile(&self.outcome.health.lag, 99.0) as f64 / 1e6
    }

    /// A percentile of latency, or of service time, in milliseconds.
    pub fn latency_ms(&self, percentile: f64) -> f64 {
        value_at_percentile(self.outcome.totals().latency(), percentile) as f64 / 1e6
    }
}
