//! Open loops at several rates, one after another: given steps, or the search for the knee, the highest rate at which
//! the 99th percentile of latency keeps its limit.
//!
//! The search doubles the rate until it fails, then halves the ratio between the highest rate that held and the lowest
//! that failed, until that is within the precision. A failing rate is tried once more before that counts, since one
//! stall of the machine is not a property of the target.
//!
//! The generator's own lag is part of every latency. A rate that fails while the lag alone takes up
//! half of the limit says nothing about the target, and a limit that an idle generator's lag exceeds
//! cannot be searched for at all.

use crate::base::{Error, invalid};
use crate::config::{Config, Knee, Ramp};
use crate::record::{Found, Outcome, RampOutcome, Step, value_at_percentile};

/// The most steps of a search.
const SEARCH_STEPS_MAX: usize = 60;
/// The part of the limit that the generator's own lag may take up before a failure counts as its own.
const LAG_OF_LIMIT_MAX: f64 = 0.5;
/// A generator that is busy for less of its time lags because it wakes late, not because of its load.
const IDLE_MAX: f64 = 0.5;

/// Runs all steps. `run_step` receives the number of the step, starting at 1, and its configuration.
pub fn run_ramp(
    config: &Config,
    ramp: &Ramp,
    mut run_step: impl FnMut(usize, &Config) -> Result<Outcome, Error>,
) -> Result<RampOutcome, Error> {
    let mut steps: Vec<Step> = Vec::new();
    let mut run_at = |steps: &mut Vec<Step>, rate: f64, limit_ms: Option<f64>| {
        let number = steps.len() + 1;
        let config = Config { rate: Some(rate), prefill: config.prefill && number == 1, ..config.clone() };
        let outcome = match run_step(number, &config) {
            // Between two steps: the first ones are measured.
            Err(Error::Interrupted) if number > 1 => return Ok(false),
            outcome => outcome?,
        };
        let is_whole = !outcome.is_interrupted;
        let failures = failures(&outcome, limit_ms);
        steps.push(Step { rate, outcome, failures });
        Ok::<bool, Error>(is_whole)
    };
    let mut is_interrupted = false;
    let found = match ramp {
        Ramp::Steps(rates) => {
            for &rate in rates {
                is_interrupted = !run_at(&mut steps, rate, None)?;
                if is_interrupted {
                    break;
                }
            }
            None
        }
        Ramp::FindKnee(knee) => {
            let mut search = Search::new(knee);
            while let Some(rate) = search.next_rate().filter(|_| steps.len() < SEARCH_STEPS_MAX) {
                is_interrupted = !run_at(&mut steps, rate, Some(knee.p99_limit_ms))?;
                if is_interrupted {
                    break;
                }
                let step = steps.last().expect("a step was run");
                check_lag(knee, step, &search)?;
                search.learn(rate, step.failures.is_empty(), is_generators_failure(knee, step));
            }
            let found = search.found();
            let held = steps.iter().rev().find(|step| Some(step.rate) == found.holds && step.failures.is_empty());
            Some(Found { lag_p99_ms: held.map(Step::lag_p99_ms), ..found })
        }
    };
    Ok(RampOutcome { steps, found, is_interrupted })
}

/// Refuses a limit that the generator alone misses, before any target could: nothing has held, this rate fails for
/// the second time, and a generator with little to do sends too late for it.
fn check_lag(knee: &Knee, step: &Step, search: &Search) -> Result<(), Error> {
    let lag_ms = step.lag_p99_ms();
    let is_final = search.holds.is_none() && search.doubtful == Some(step.rate) && !step.failures.is_empty();
    let busy = step.outcome.health.busy_max;
    if !is_final || lag_ms <= knee.p99_limit_ms || busy >= IDLE_MAX {
        return Ok(());
    }
    let why = format!(
        "the generator's own lag is above it: at {} ops/s 1 % of the requests left {lag_ms:.3} ms late or more, \
         its threads busy {:.0} % of the time; ask for more than that, or run it on a machine of its own",
        step.rate,
        busy * 100.0
    );
    invalid("--p99-limit", knee.p99_limit_ms, why)
}

/// Whether the generator was the bottleneck at a step, or its lag too near the limit to decide.
fn is_generators_failure(knee: &Knee, step: &Step) -> bool {
    !step.outcome.faults().is_empty() || step.lag_p99_ms() > knee.p99_limit_ms * LAG_OF_LIMIT_MAX
}

fn failures(outcome: &Outcome, limit_ms: Option<f64>) -> Vec<String> {
    let mut failures = Vec::new();
    if outcome.is_interrupted {
        failures.push("interrupted".to_owned());
    }
    if outcome.unsent > 0 {
        failures.push(format!("{} requests were due and never sent", outcome.unsent));
    }
    let totals = outcome.totals();
    if totals.errors > 0 {
        failures.push(format!("{} error replies", totals.errors));
    }
    let p99_ms = value_at_percentile(totals.latency(), 99.0) as f64 / 1e6;
    if let Some(limit_ms) = limit_ms.filter(|&limit_ms| p99_ms > limit_ms) {
        failures.push(format!("p99 {p99_ms:.3} ms is above {limit_ms} ms"));
    }
    failures
}

/// The state of the search.
///
/// Invariant: `holds < fails`, where both are known.
#[derive(Debug)]
struct Search {
    next: f64,
    precision: f64,
    holds: Option<f64>,
    fails: Option<f64>,
    /// The rate that has failed once.
    doubtful: Option<f64>,
    generator_bound: bool,
}

impl Search {
    fn new(knee: &Knee) -> Self {
        Self {
            next: knee.first_rate,
            precision: 1.0 + knee.precision_percent / 100.0,
            holds: None,
            fails: None,
            doubtful: None,
            generator_bound: false,
        }
    }

    /// `None` if the knee is known precisely enough, or there is none between 0.001 and 1e9.
    fn next_rate(&self) -> Option<f64> {
        let near = |(holds, fails): (f64, f64)| fails / holds <= self.precision;
        let is_known = self.holds.zip(self.fails).is_some_and(near);
        (!is_known && (0.001..=1e9).contains(&self.next)).then_some(self.next)
    }

    fn learn(&mut self, rate: f64, held: bool, generator_bound: bool) {
        if held {
            self.holds = Some(rate);
        } else if self.doubtful != Some(rate) {
            self.doubtful = Some(rate);
            return;
        } else {
            self.fails = Some(rate);
            self.generator_bound = generator_bound;
        }
        self.next = match (self.holds, self.fails) {
            (Some(holds), Some(fails)) => (holds * fails).sqrt(),
            (Some(holds), None) => holds * 2.0,
            (None, fails) => fails.unwrap_or(rate) / 2.0,
        };
        // Whole numbers are easier to repeat, if they are fine enough.
        if self.next > 1000.0 {
            self.next = self.next.round();
        }
    }

    fn found(&self) -> Found {
        let (holds, fails, generator_bound) = (self.holds, self.fails, self.generator_bound);
        Found { holds, fails, generator_bound, lag_p99_ms: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(first_rate: f64, holds: impl Fn(f64) -> bool) -> (Found, usize) {
        let mut search = Search::new(&Knee { first_rate, p99_limit_ms: 1.0, precision_percent: 5.0 });
        let mut steps = 0;
        while let Some(rate) = search.next_rate() {
            search.learn(rate, holds(rate), false);
            steps += 1;
            assert!(steps < 200, "{search:?}");
        }
        (search.found(), steps)
    }

    #[test]
    fn the_search_ends_around_the_knee_wherever_it_begins() {
        for knee in [7.0, 1000.0, 43_210.0, 999_999.0] {
            for first_rate in [1.0, 1000.0, 1e6] {
                let (found, steps) = search(first_rate, |rate| rate <= knee);
                let (holds, fails) = (found.holds.expect("one holds"), found.fails.expect("one fails"));
                assert!(holds <= knee && knee < fails, "{found:?}");
                assert!(fails / holds <= 1.05 && steps < 60, "{found:?} after {steps}");
            }
        }
    }

    #[test]
    fn a_single_failure_is_forgiven_and_a_knee_that_is_not_there_is_not_found() {
        let failed_once = std::cell::Cell::new(false);
        let (found, _) = search(1000.0, |rate| rate <= 8000.0 && (rate < 4000.0 || failed_once.replace(true)));
        assert!(found.holds.expect("one holds") > 7600.0, "{found:?}");
        assert_eq!(search(1000.0, |_| false).0.holds, None);
        assert_eq!(search(1000.0, |_| true).0.fails, None);
    }
}
