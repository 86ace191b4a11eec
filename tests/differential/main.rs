//! The differential test: random requests of every family, with arguments at the edge, in and out of transactions, in
//! RESP2 and RESP3, against a real redis-server. Replies are equal byte for byte, and so is all data, before and after
//! a restart from the log.
//!
//! Start at `run`. Requests come from `families` (written in the `grammar`, with arguments from `atoms`); replies are
//! judged in `compare`; allowed differences are listed in `differences`, commands that are not tested in `presence`. A
//! difference is reduced by `shrink` and printed with its seed; `SEED=… DIFFERENTIAL_COMMANDS=…` repeats it.

// A test that cannot continue panics with the reason.
#![allow(clippy::unwrap_used, missing_docs)]

mod calls;
mod compare;
mod differences;
mod pair;
mod planted;
mod presence;
mod publishing;
mod replicas;
mod run;
mod scans;
mod scores;
mod scripts;
mod shrink;

use differences::{FROM_7_2, is_wrong_in_7_2};
use harness::{EVERY_BATCHING, EVERY_ENGINE, EVERY_PLACEMENT, RedisOracle, Setup, run_to_its_end};
use pair::Pair;
use run::{Failure, Plan, run, run_on};
use std::time::Duration;

use harness::generator::{Request, parts};

/// The engine with the most shards: everything that can be separate, is.
fn setup(engine: &str) -> Setup {
    let setups = EVERY_ENGINE.into_iter().filter(|setup| setup.engine == engine);
    setups.max_by_key(|setup| setup.shards).expect("an engine")
}

/// The seed of this run.
fn seed() -> u64 {
    parts::seed_or(20_261_121)
}

/// With SOAK as long as SOAK_SECONDS says, and at least a million commands.
fn check(engine: &str) {
    agrees(whole_run(engine));
}

fn whole_run(engine: &str) -> Plan {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let is_soak = number("SOAK").unwrap_or(0) > 0;
    let at_least = Duration::from_secs(if is_soak { number("SOAK_SECONDS").unwrap_or(0) } else { 0 });
    let units = if is_soak { 1_000_000 } else { 50_000 };
    let units = number("DIFFERENTIAL_COMMANDS").map_or(units, |number| number as usize);
    Plan { seed: seed(), setup: setup(engine), flags: &[], units, at_least, tamper: None }
}

/// The program of Redis 8.2, if it is on this machine.
fn redis_8() -> Option<String> {
    program_in("REDIS_8_SERVER")
}

/// The program of Redis 7.2, if it is on this machine.
fn redis_7_2() -> Option<String> {
    program_in("REDIS_72_SERVER")
}

/// A program whose path is in the environment.
fn program_in(variable: &str) -> Option<String> {
    let Ok(program) = std::env::var(variable) else {
        println!("NOT TRIED: {variable} is not set");
        return None;
    };
    let version = run_to_its_end(std::process::Command::new(&program).arg("--version"));
    println!("{variable}: {}", version.stdout.trim());
    Some(program)
}

fn agrees(plan: Plan) {
    is_without_failure(plan, run(plan));
}

fn is_without_failure(plan: Plan, outcome: Result<usize, Box<Failure>>) {
    match outcome {
        Ok(requests) => println!("{}: {requests} requests agree", plan.setup.engine),
        Err(failure) => panic!("{failure}"),
    }
}

/// A short run on each engine, each with another way to run the commands of a read than the default, by the seed.
#[test]
fn the_engines_agree_with_redis_however_the_commands_of_a_read_run() {
    let seed = seed();
    for (index, engine) in ["mutex", "dashmap", "actor"].into_iter().enumerate() {
        let others = &EVERY_BATCHING[1..];
        let flags = &others[(seed as usize + index) % others.len()];
        println!("{engine}: {}", flags.join(" "));
        let (setup, at_least) = (setup(engine), Duration::ZERO);
        agrees(Plan { seed, setup, flags, units: 4_000, at_least, tamper: None });
    }
}

/// A short run with each placement that is not the default.
#[test]
fn the_actor_engine_agrees_with_redis_wherever_it_runs() {
    for placement in &EVERY_PLACEMENT[1..] {
        println!("{}", placement.join(" "));
        let (seed, setup, at_least) = (seed(), setup("actor"), Duration::ZERO);
        agrees(Plan { seed, setup, flags: placement, units: 4_000, at_least, tamper: None });
    }
}

#[test]
fn the_mutex_engine_agrees_with_redis() {
    check("mutex");
}

#[test]
fn the_dashmap_engine_agrees_with_redis() {
    check("dashmap");
}

#[test]
fn the_actor_engine_agrees_with_redis() {
    check("actor");
}

#[test]
fn every_engine_agrees_with_redis_7_2() {
    let Some(program) = redis_7_2() else { return };
    for engine in ["mutex", "dashmap", "actor"] {
        let plan = whole_run(engine);
        let oracle = |flags: &[&str]| RedisOracle::start_master(&program, flags);
        let pair = Pair::start_beside(oracle, FROM_7_2, plan.setup, plan.flags, plan.tamper);
        is_without_failure(plan, run_on(pair, plan, is_wrong_in_7_2));
    }
}
