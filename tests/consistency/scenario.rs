//! Servers whose consistency is tested, and for how long.

use harness::{Client, EVERY_ENGINE, RedisOracle, Server, Setup, another_batching, other_placements, seed};
use std::time::{Duration, Instant};

/// A server in one shape.
#[derive(Debug, Clone, Copy)]
pub enum Scenario {
    /// redis-server, which runs one command at a time: a checker that finds an anomaly here is wrong.
    Redis,
    /// Ours, with its defaults.
    Atomic(Setup),
    /// Ours, with the commands of a read run in another way.
    Batched(Setup, [&'static str; 4]),
    /// Ours, with connections and shards on other threads than by default, or without mailboxes between those of a
    /// thread.
    Placed(Setup, [&'static str; 4]),
    /// Ours, with commands over several keys scattered without order.
    Relaxed(Setup),
}

impl Scenario {
    /// Starts it.
    pub fn start(self) -> Running {
        println!("on {self:?}");
        let flags = ["--appendonly", "no"];
        match self {
            Self::Redis => Running::Redis(RedisOracle::start()),
            Self::Atomic(setup) => Running::Ours(Server::start(setup, &flags)),
            Self::Batched(setup, batching) => {
                let server = Server::start(setup, &[&flags[..], &batching].concat());
                let info = server.info();
                assert_eq!([&info["batching"], &info["prefetch"]], [batching[1], batching[3]]);
                Running::Ours(server)
            }
            Self::Placed(setup, placement) => {
                let server = Server::start(setup, &[&flags[..], &placement].concat());
                let info = server.info();
                assert_eq!([&info["placement"], &info["local"]], [placement[1], placement[3]]);
                Running::Ours(server)
            }
            Self::Relaxed(setup) => {
                Running::Ours(Server::start(setup, &[&flags[..], &["--multi-key", "relaxed"]].concat()))
            }
        }
    }

    /// The same, with the commands of a read run in this way; `None` if that does not apply.
    fn batched(self, batching: [&'static str; 4]) -> Option<Self> {
        if let Self::Atomic(setup) = self { Some(Self::Batched(setup, batching)) } else { None }
    }

    /// The same with each other placement; nothing if that does not apply.
    fn placed(self) -> impl Iterator<Item = Self> {
        let is_same = move |setup| matches!(self, Self::Atomic(own) if own == setup);
        other_placements()
            .filter(move |&(setup, _)| is_same(setup))
            .map(|(setup, placement)| Self::Placed(setup, placement))
    }
}

/// A running server. Dropping it ends it.
pub enum Running {
    Redis(RedisOracle),
    Ours(Server),
}

impl Running {
    /// A new connection to the server, now empty.
    pub fn empty(&self) -> Client {
        let mut client = self.client();
        client.expect("FLUSHALL", "+OK\r\n");
        client
    }

    /// A new connection.
    pub fn client(&self) -> Client {
        match self {
            Self::Redis(oracle) => oracle.client(),
            Self::Ours(server) => server.client(),
        }
    }
}

/// Scenarios without any torn reads or writes: ours.
pub fn atomic() -> Vec<Scenario> {
    EVERY_ENGINE.map(Scenario::Atomic).to_vec()
}

/// Scenarios in which torn reads and writes are permitted.
pub fn relaxed() -> Vec<Scenario> {
    let has_shards = |setup: &Setup| setup.engine != "mutex" && setup.shards > 1;
    EVERY_ENGINE.into_iter().filter(has_shards).map(Scenario::Relaxed).collect()
}

/// The verdict of a checker on one attempt.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    Clean,
    /// What is wrong.
    Anomaly(String),
    /// The checker gave up, and why. Never a pass, and never an anomaly.
    Undecided(String),
}

/// Checks that no attempt finds an anomaly, for as long as the tests run; on ours also with the commands of a read run
/// in another way, which the seed chooses, and with other placements. Each attempt gets a seed of its own.
pub fn never(scenarios: &[Scenario], attempt: impl Fn(&Running, u64) -> Verdict) {
    let seed = seed();
    let batched = scenarios.iter().filter_map(|scenario| scenario.batched(another_batching(seed)));
    let placed = scenarios.iter().flat_map(|scenario| scenario.placed());
    let scenarios: Vec<Scenario> = scenarios.iter().copied().chain(batched).chain(placed).collect();
    for scenario in &scenarios {
        let running = scenario.start();
        let end = Instant::now() + length_of_tests() / scenarios.len() as u32;
        for step in 0.. {
            match attempt(&running, seed.wrapping_add(step)) {
                Verdict::Clean => {}
                Verdict::Anomaly(anomaly) => panic!("{scenario:?}, SEED={seed}, attempt {step}: {anomaly}"),
                Verdict::Undecided(why) => panic!("{scenario:?}, SEED={seed}: the test is set up badly: {why}"),
            }
            if Instant::now() >= end {
                println!("{} attempts", step + 1);
                break;
            }
        }
    }
}

/// Checks that some attempt finds an anomaly: a checker that finds none where there must be some proves nothing.
pub fn must_be_found(scenarios: &[Scenario], attempt: impl Fn(&Running, u64) -> Verdict) {
    const TIME_TO_FIND: Duration = Duration::from_secs(60);
    let seed = seed();
    for scenario in scenarios {
        let (running, start) = (scenario.start(), Instant::now());
        let found = (0..).take_while(|_| start.elapsed() < TIME_TO_FIND).find_map(|step| {
            let verdict = attempt(&running, seed.wrapping_add(step));
            if let Verdict::Anomaly(anomaly) = verdict { Some((step + 1, anomaly)) } else { None }
        });
        let (attempts, anomaly) = found.unwrap_or_else(|| {
            panic!("{scenario:?}, SEED={seed}: no anomaly in {TIME_TO_FIND:?}, so the checker has no teeth")
        });
        println!("found in attempt {attempts}, after {:?}: {anomaly}", start.elapsed());
    }
}

/// How long one test runs over all its scenarios.
fn length_of_tests() -> Duration {
    let read = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match read("SOAK") {
        Some(1..) => Duration::from_secs(read("SOAK_SECONDS").unwrap_or(600)),
        _ => Duration::from_secs(3),
    }
}
