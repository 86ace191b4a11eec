//! A run: chapters of random requests from one seed, each with its comparisons of all data, before and after a restart.

use super::pair::{Difference, Pair, Tamper, script};
use super::shrink::shrink;
use super::{Request, publishing, scans};
use harness::Setup;
use harness::generator::requests::{Generator, LINKS, Unit};
use std::time::{Duration, Instant};

/// Requests after which all data is compared.
const UNITS_PER_ROUND: usize = 1_000;
/// Rounds from an empty keyspace to the next; the server starts again before the last one.
const ROUNDS_PER_CHAPTER: usize = 25;
/// Requests on one connection before it is the other's turn, at most.
const UNITS_PER_TURN: usize = 150;

/// The parameters of a run.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub seed: u64,
    pub setup: Setup,
    /// Flags of our server.
    pub flags: &'static [&'static str],
    pub units: usize,
    /// Continues until then, even after all units are done.
    pub at_least: Duration,
    pub tamper: Option<Tamper>,
}

/// A difference with a small history that leads to it.
#[derive(Debug)]
pub struct Failure {
    pub seed: u64,
    pub setup: Setup,
    pub history: Vec<Unit>,
    pub difference: Difference,
}

/// Runs a plan beside Redis 7.0. Returns the number of requests sent.
pub fn run(plan: Plan) -> Result<usize, Box<Failure>> {
    run_on(Pair::start(plan.setup, plan.flags, plan.tamper), plan, |_| false)
}

/// Runs a plan beside any version of Redis, without the requests for which it cannot judge.
pub fn run_on(mut pair: Pair, plan: Plan, leaves_out: fn(&Request) -> bool) -> Result<usize, Box<Failure>> {
    let _guard = SeedShown(plan);
    let start = Instant::now();
    let mut generator = Generator::new(plan.seed);
    let mut units_done = 0;
    let mut requests = 0;
    while units_done < plan.units || start.elapsed() < plan.at_least {
        let rounds = (plan.units.saturating_sub(units_done)).div_ceil(UNITS_PER_ROUND).clamp(2, ROUNDS_PER_CHAPTER);
        requests += chapter(&mut pair, &mut generator, plan, rounds, leaves_out)?;
        units_done += rounds * UNITS_PER_ROUND;
    }
    Ok(requests)
}

fn chapter(
    pair: &mut Pair,
    generator: &mut Generator,
    plan: Plan,
    rounds: usize,
    leaves_out: fn(&Request) -> bool,
) -> Result<usize, Box<Failure>> {
    let is_left_out = |unit: &Unit| unit.steps.iter().any(|step| leaves_out(&step.request));
    pair.clear();
    generator.forget_connections();
    let mut history: Vec<Unit> = Vec::new();
    for round in 0..rounds {
        let is_last = round + 1 == rounds;
        let first = history.len();
        if is_last {
            history.push(Unit::RESTART);
            generator.forget_connections();
        }
        // The encoding of a value is not stored: a log only has the value.
        let units = round_of(generator).into_iter().filter(|unit| !is_last || !unit.asks_for_encoding());
        history.extend(units.filter(|unit| !is_left_out(unit)));
        let outcome = pair.play(&history[first..]).and_then(|()| pair.compare_data());
        if let Err(mut difference) = outcome {
            difference.units_sent = difference.units_sent.saturating_add(first);
            let (history, difference) = shrink(pair, &history, *difference);
            return Err(Box::new(Failure { seed: plan.seed, setup: plan.setup, history, difference }));
        }
        scans::compare(pair, generator.source());
        publishing::compare(pair, generator.source());
    }
    let requests = history.iter().map(|unit| unit.steps.len()).sum();
    history.push(Unit::RESTART);
    match pair.play(&history[history.len() - 1..]) {
        Ok(()) => Ok(requests),
        Err(difference) => {
            let (history, difference) = shrink(pair, &history, *difference);
            Err(Box::new(Failure { seed: plan.seed, setup: plan.setup, history, difference }))
        }
    }
}

fn round_of(generator: &mut Generator) -> Vec<Unit> {
    let mut units = Vec::with_capacity(UNITS_PER_ROUND);
    while units.len() < UNITS_PER_ROUND {
        let link = generator.source().below(LINKS);
        let turn = 1 + generator.source().below(UNITS_PER_TURN);
        units.extend((0..turn.min(UNITS_PER_ROUND - units.len())).map(|_| generator.next(link)));
    }
    units
}

/// Prints the seed on a panic: of a server that died, or does not reply.
struct SeedShown(Plan);

impl Drop for SeedShown {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("SEED={} {:?} {}", self.0.seed, self.0.setup, self.0.flags.join(" "));
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { seed, setup, history, difference } = self;
        writeln!(f, "SEED={seed} {setup:?}: the replies differ after (1> in RESP2, 2> in RESP3)")?;
        write!(f, "{}", script(history))?;
        writeln!(f, "at {}", difference.at)?;
        writeln!(f, "  ours   {}", difference.ours)?;
        write!(f, "  oracle {}", difference.oracle)
    }
}
