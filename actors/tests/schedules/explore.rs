//! Runs a scenario under many schedules.
//!
//! | variable | meaning |
//! |---|---|
//! | `SHUTTLE_RANDOM_SEED=N` | the seed of both schedulers; without it a fixed one, so that a run can be repeated |
//! | `SHUTTLE_SCHEDULER=random\|pct` | only this scheduler |
//! | `SCHEDULES=N` | N schedules per scenario and scheduler, in place of the test's own number |
//! | `SHUTTLE_REPLAY=…` | exactly the one schedule that a failure printed |
//!
//! If a test explores all schedules of a scenario, there is nothing to choose.
//!
//! A failure prints its schedule, the seed and the command that runs it again. To replay:
//! `SHUTTLE_REPLAY=<schedule> cargo test -p actors --test schedules <test>`.

use shuttle::scheduler::{DfsScheduler, PctScheduler, RandomScheduler};
use shuttle::{Config, Runner};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};

const DEFAULT_SEED: u64 = 0x5eed;

/// The changes of priority that PCT makes in one schedule, plus one.
const PCT_DEPTH: usize = 4;

/// How many schedules are run before a scenario counts as too large for all of its schedules: about two seconds.
const ALL_SCHEDULES_MAX: usize = 200_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheduler {
    Random,
    Pct,
}

/// Runs `scenario` under `schedules` random schedules and as many of PCT's.
pub fn explore(schedules: usize, scenario: impl Fn() + Send + Sync + Clone + 'static) {
    if let Ok(schedule) = std::env::var("SHUTTLE_REPLAY") {
        return shuttle::replay(scenario, schedule.trim());
    }
    println!("SHUTTLE_RANDOM_SEED={} SCHEDULES={}", seed(), schedule_count(schedules));
    for scheduler in chosen_schedulers() {
        if let Err(failure) = run(scheduler, schedule_count(schedules), scenario.clone()) {
            eprintln!(
                "{scheduler:?} found it; all its schedules again: SHUTTLE_RANDOM_SEED={} SHUTTLE_SCHEDULER={} \
                 SCHEDULES={}\nonly the one that failed: SHUTTLE_REPLAY=<schedule printed above>\n\
                 both with: cargo test -p actors --test schedules {}",
                seed(),
                format!("{scheduler:?}").to_lowercase(),
                schedule_count(schedules),
                std::thread::current().name().unwrap_or("<test>"),
            );
            resume_unwind(failure);
        }
    }
}

/// Runs `scenario`, which must fail, under one scheduler; returns how it failed, or `None`. A bug is searched for in as
/// many schedules as its test says, or more.
pub fn failure_of(
    scheduler: Scheduler,
    schedules: usize,
    scenario: impl Fn() + Send + Sync + 'static,
) -> Option<String> {
    println!("{scheduler:?} SHUTTLE_RANDOM_SEED={}", seed());
    let failure = run(scheduler, schedules.max(schedule_count(schedules)), scenario).err()?;
    let text = failure.downcast_ref::<String>().cloned();
    text.or_else(|| failure.downcast_ref::<&str>().map(ToString::to_string))
}

/// Runs `scenario` under every possible schedule, and returns how many there are.
///
/// Their number grows with the steps like a factorial. A scenario with too many is refused: a part of them, in the
/// order of the search, differ only at their ends and show less than as many random ones.
pub fn explore_all(scenario: impl Fn() + Send + Sync + 'static) -> usize {
    if let Ok(schedule) = std::env::var("SHUTTLE_REPLAY") {
        shuttle::replay(scenario, schedule.trim());
        return 1;
    }
    let schedules = Runner::new(DfsScheduler::new(Some(ALL_SCHEDULES_MAX), false), Config::new()).run(scenario);
    assert!(schedules < ALL_SCHEDULES_MAX, "these are not all of its schedules: take steps from the scenario");
    schedules
}

/// The results of `scenario` under each random schedule.
pub fn traces(schedules: usize, scenario: impl Fn() -> Vec<u64> + Send + Sync + 'static) -> Vec<Vec<u64>> {
    let traces = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&traces);
    let scheduler = RandomScheduler::new_from_seed(DEFAULT_SEED, schedules);
    Runner::new(scheduler, Config::new()).run(move || {
        into.lock().expect("one schedule runs at a time").push(scenario());
    });
    let traces = traces.lock().expect("all schedules have run");
    traces.clone()
}

fn run(
    scheduler: Scheduler,
    schedules: usize,
    scenario: impl Fn() + Send + Sync + 'static,
) -> Result<usize, Box<dyn std::any::Any + Send>> {
    let mut config = Config::new();
    config.ungraceful_shutdown_config.immediately_return_on_panic = true;
    catch_unwind(AssertUnwindSafe(|| match scheduler {
        Scheduler::Random => Runner::new(RandomScheduler::new_from_seed(seed(), schedules), config).run(scenario),
        Scheduler::Pct => Runner::new(PctScheduler::new_from_seed(seed(), PCT_DEPTH, schedules), config).run(scenario),
    }))
}

fn chosen_schedulers() -> Vec<Scheduler> {
    match std::env::var("SHUTTLE_SCHEDULER").as_deref() {
        Ok("random") => vec![Scheduler::Random],
        Ok("pct") => vec![Scheduler::Pct],
        Ok(other) => panic!("SHUTTLE_SCHEDULER is random or pct, not {other}"),
        Err(_) => vec![Scheduler::Random, Scheduler::Pct],
    }
}

fn seed() -> u64 {
    number_of("SHUTTLE_RANDOM_SEED").unwrap_or(DEFAULT_SEED)
}

fn schedule_count(default: usize) -> usize {
    number_of("SCHEDULES").map_or(default, |count| count as usize)
}

fn number_of(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|error| panic!("{variable}={value}: {error}")))
}
