//! Whether the generator itself was the bottleneck: then the run measured it instead of the target.
//!
//! Two things are measured on each thread, within the measured window:
//! - its CPU time. A thread that is busy all the time has more work than it can do.
//! - in an open loop, its schedule's lag: how late a request leaves that was due while its
//!   connection had room. (When the connection had none, the target is late, not the generator.)
//!
//! One thing is measured of the machine, which says nothing about the generator: how long the hypervisor of a virtual
//! machine took its cores away.

use std::fs;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::{Outcome, latency_histogram, value_at_percentile};
use crate::base::cpu::thread_cpu_time;

/// The share of the window that a thread may be busy.
const BUSY_MAX: f64 = 0.95;
/// The share of the window that a thread may wait for a CPU before that is reported.
const WAITING_MAX: f64 = 0.2;
/// The part of the latency's 99th percentile that the schedule's lag may be, at its own. The lag is in every latency of
/// an open loop, so a server is not told from another by a percentile of which it is a larger part.
const LAG_OF_LATENCY_MAX: f64 = 0.25;

/// Cores that the hypervisor may take away on average before that is reported: half of the requests beyond the 99th
/// percentile may come while one is gone.
const STOLEN_MAX: f64 = 0.005;

/// How a thread has spent its time since it began.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ThreadTime {
    cpu: Duration,
    /// Ready to run, and no CPU free.
    waiting: Duration,
}

impl ThreadTime {
    /// Of the calling thread. Waiting is zero if the kernel does not report it.
    pub(crate) fn now() -> Self {
        let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let mut fields = text.split_whitespace().map_while(|field| field.parse().ok().map(Duration::from_nanos));
        match (fields.next(), fields.next()) {
            (Some(cpu), Some(waiting)) => Self { cpu, waiting },
            _ => Self { cpu: thread_cpu_time(), waiting: Duration::ZERO },
        }
    }

    pub(crate) fn since(self, earlier: Self) -> Self {
        Self { cpu: self.cpu.saturating_sub(earlier.cpu), waiting: self.waiting.saturating_sub(earlier.waiting) }
    }
}

/// How the generator's threads did in all runs.
#[derive(Clone, Debug)]
pub struct Health {
    /// The largest share of a window that a thread was busy; waiting for the next due time by
    /// polling is not.
    pub busy_max: f64,
    /// The largest share of a window that a thread was ready, and no CPU was free.
    pub waiting_max: f64,
    /// The most cores that the hypervisor took away from the machine, on average over a window.
    pub stolen_max: f64,
    /// How late requests left that could have left in time. Empty in a closed loop.
    pub lag: Histogram<u64>,
}

impl Health {
    pub(crate) fn new() -> Self {
        Self { busy_max: 0.0, waiting_max: 0.0, stolen_max: 0.0, lag: latency_histogram() }
    }

    /// Adds a thread's window; during `spun` of its CPU time it only waited for a due time.
    pub(crate) fn add_thread(&mut self, time: ThreadTime, spun: Duration, lag: &Histogram<u64>, window: Duration) {
        // The kernel counts a wait when it ends, so that a short window can get one that began before it.
        let share = |time: Duration| (time.as_secs_f64() / window.as_secs_f64().max(1e-9)).min(1.0);
        self.busy_max = self.busy_max.max(share(time.cpu.saturating_sub(spun)));
        self.waiting_max = self.waiting_max.max(share(time.waiting));
        self.lag.add(lag).expect("all histograms have the same bounds");
    }

    /// Adds what the hypervisor took away during a window.
    pub(crate) fn add_machine(&mut self, stolen: Duration, window: Duration) {
        self.stolen_max = self.stolen_max.max(stolen.as_secs_f64() / window.as_secs_f64().max(1e-9));
    }

    /// Why the run says more about the generator than about the target; empty when it does not.
    pub fn faults(&self, outcome: &Outcome) -> Vec<String> {
        let mut faults = Vec::new();
        if self.busy_max > BUSY_MAX {
            faults.push(format!(
                "a thread of the generator was busy {:.0} % of the time: give it more threads or less to do",
                self.busy_max * 100.0
            ));
        }
        if self.lag.is_empty() {
            return faults;
        }
        let lag_ns = value_at_percentile(&self.lag, 99.0);
        let latency_ns = value_at_percentile(outcome.totals().latency(), 99.0);
        if lag_ns as f64 > latency_ns as f64 * LAG_OF_LATENCY_MAX {
            faults.push(format!(
                "the generator lagged behind its own schedule: 1 % of the requests left {:.3} ms late or more, and 1 % of \
                 the replies took {:.3} ms or more",
                lag_ns as f64 / 1e6,
                latency_ns as f64 / 1e6
            ));
        }
        faults
    }

    /// Remarks that do not make the run invalid.
    pub fn remarks(&self) -> impl Iterator<Item = String> {
        let waited = (self.waiting_max > WAITING_MAX).then(|| {
            format!(
                "a thread of the generator waited for a CPU {:.0} % of the time: it shares them with others",
                self.waiting_max * 100.0
            )
        });
        let stolen = (self.stolen_max > STOLEN_MAX).then(|| {
            format!(
                "the hypervisor took {:.1} % of a core away: the 99th percentile and those above it may be its own",
                self.stolen_max * 100.0
            )
        });
        waited.into_iter().chain(stolen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_works_is_seen_to() {
        let before = ThreadTime::now();
        let began = std::time::Instant::now();
        let mut sum = 0_u64;
        while began.elapsed() < Duration::from_millis(60) {
            sum = std::hint::black_box(sum.wrapping_mul(3).wrapping_add(1));
        }
        let time = ThreadTime::now().since(before);
        assert!(time.cpu + time.waiting > Duration::from_millis(30), "{time:?}");
    }

    fn outcome() -> Outcome {
        use clap::Parser;
        let cli = crate::cli::Cli::try_parse_from(["loadgen"]).expect("valid");
        let mut outcome = Outcome::new(&crate::config::Config::from_flags(cli.run).expect("valid"));
        outcome.commands[0].service.record_n(2_000_000, 1000).expect("in range");
        outcome
    }

    #[test]
    fn a_busy_thread_or_a_lagging_schedule_makes_a_run_invalid() {
        let ms = Duration::from_millis;
        let faults = |cpu, waiting, spun, lag_ns| {
            let mut outcome = outcome();
            let mut lag = latency_histogram();
            lag.record_n(lag_ns, 100).expect("in range");
            let time = ThreadTime { cpu: ms(cpu), waiting: ms(waiting) };
            outcome.health.add_thread(time, ms(spun), &lag, ms(1000));
            (outcome.faults().join(";"), outcome.health.remarks().next())
        };
        assert_eq!(faults(900, 0, 0, 1), (String::new(), None));
        assert!(faults(970, 0, 0, 1).0.contains("busy 97 %"));
        assert_eq!(faults(999, 0, 400, 1).0, "", "polling for a due time is no work");
        // The latency is two milliseconds.
        assert!(faults(100, 0, 0, 600_000).0.contains("left 0.600 ms late"), "{}", faults(100, 0, 0, 600_000).0);
        assert_eq!(faults(100, 0, 0, 400_000).0, "");
        assert!(faults(100, 300, 0, 1).1.is_some_and(|remark| remark.contains("30 %")));
        assert!(faults(100, 1710, 0, 1).1.is_some_and(|remark| remark.contains("100 %")), "no more than all of it");
    }

    #[test]
    fn a_machine_that_is_taken_away_is_remarked() {
        let ms = Duration::from_millis;
        let mut health = Health::new();
        health.add_machine(ms(4), ms(1000));
        assert_eq!(health.remarks().next(), None);
        health.add_machine(ms(60), ms(5000));
        assert!(health.remarks().next().is_some_and(|remark| remark.contains("took 1.2 % of a core away")));
    }
}
