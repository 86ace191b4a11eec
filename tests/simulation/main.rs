//! A master, two replicas and clients in one simulated world: one thread, a network in memory, and a clock that the
//! world advances. The servers run the production code, from accepting a connection to the link of a replica. A seed
//! chooses what the network, the clock and the scheduler do; the same seed repeats it.
//!
//! | module | what it is |
//! |---|---|
//! | `world` | hosts, each with its own runtime; steps; crashes |
//! | `network` | delays, partial reads, slow links, partitions, connections cut at any byte |
//! | `scheduler` | delays tasks that are ready |
//! | `simulated` | the disk of each host, which loses power |
//! | `load` | the clients, and what they may observe |
//! | `scenario` | the faults in one run of a world, and the checks at its end |
//!
//! A failing seed is printed. `SEED=n` runs that seed alone and prints its events; `LINES=info` also prints what its
//! servers log, and `TRACE=path` writes what went through its network. The test is short by default; `SOAK=1
//! SOAK_SECONDS=n` runs it for n seconds.

// A test that cannot go on says where and why by panicking.
#![allow(clippy::unwrap_used, missing_docs)]

mod client;
mod load;
mod network;
mod scenario;
mod scheduler;
#[expect(dead_code, reason = "the tests of the log in the library use the rest of it")]
#[path = "../../src/aof/disk/simulated.rs"]
mod simulated;
mod world;

use scenario::{Outcome, Scenario};
// The traits that the simulated disk implements.
use shardrace::internals::aof::{Disk, LogFile, MappedFile, Mapping};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tracing::Level;
use tracing_subscriber::fmt::MakeWriter;

/// The seed of hashes, so that tables are walked in the same order in every process.
const HASH_SEED: u64 = 1;
/// Worlds of a short run.
const SEEDS: u64 = 200;

/// Runs a world on a new thread, so that worlds share no thread-local state.
fn run(scenario: &Scenario) -> Result<Outcome, String> {
    shardrace::internals::keyspace::choose_hash_seed(HASH_SEED);
    let dirs: Vec<_> = (0..scenario::NODES).map(|_| tempfile::tempdir().unwrap()).collect();
    let paths = dirs.iter().map(|dir| dir.path().to_owned()).collect();
    let scenario = scenario.clone();
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(lines.level())
        .with_writer(lines.clone())
        .with_ansi(false)
        .without_time()
        .finish();
    let live = move || tracing::subscriber::with_default(subscriber, || scenario.run(paths));
    let life = std::thread::Builder::new().name("world".into()).spawn(live).unwrap();
    let mut outcome = life.join().map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned())).unwrap_or_default()
    })?;
    outcome.violations.extend(lines.errors());
    Ok(outcome)
}

/// Checks that the servers of a world log no error. `LINES=info` prints what they log up to that level.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    fn level(&self) -> Level {
        std::env::var("LINES").map_or(Level::ERROR, |level| level.parse().expect("LINES is a level"))
    }

    fn errors(&self) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned();
        text.lines().filter(|line| line.trim_start().starts_with("ERROR")).map(str::to_owned).collect()
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.level() != Level::ERROR {
            eprint!("{}", String::from_utf8_lossy(bytes));
        }
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

fn judge(scenario: &Scenario) -> Result<Outcome, String> {
    let outcome = run(scenario).map_err(|reason| format!("{scenario}: {reason}"))?;
    match outcome.violations.is_empty() {
        true => Ok(outcome),
        false => {
            let violations = outcome.violations.iter().take(5).cloned().collect::<Vec<_>>().join("\n  ");
            Err(format!("{scenario}:\n  {violations}\nwhat had happened:\n  {}", outcome.happened.join("\n  ")))
        }
    }
}

fn seed_of_environment() -> Option<u64> {
    std::env::var("SEED").ok().map(|seed| seed.parse().expect("SEED is a number"))
}

fn soak() -> Option<Duration> {
    std::env::var_os("SOAK")?;
    let seconds = std::env::var("SOAK_SECONDS").map_or(600, |seconds| seconds.parse().expect("a number of seconds"));
    Some(Duration::from_secs(seconds))
}

#[test]
fn the_same_seed_gives_the_same_bytes_at_the_same_times() {
    for seed in seed_of_environment().map_or(0..9, |seed| seed..seed + 1) {
        let scenario = Scenario::of(seed);
        let (one, other) = (run(&scenario).unwrap(), run(&scenario).unwrap());
        assert_eq!(one, other, "{scenario}");
    }
}

#[test]
fn replicas_show_consistent_prefixes_and_end_as_their_master_whatever_happens() {
    if let Some(seed) = seed_of_environment() {
        let outcome = judge(&Scenario::of(seed)).unwrap_or_else(|reason| panic!("{reason}"));
        println!("{outcome:#?}");
        return;
    }
    let begin = Instant::now();
    let soak = soak();
    let first = if soak.is_some() { fastrand::u64(..1 << 40) } else { 0 };
    let next = AtomicU64::new(first);
    let results = Mutex::new((Vec::new(), BTreeMap::<&str, u64>::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let is_over = soak.map_or(seed >= SEEDS, |length| begin.elapsed() > length);
                    if is_over {
                        return;
                    }
                    let judged = judge(&Scenario::of(seed));
                    let mut results = results.lock().unwrap();
                    match judged {
                        Ok(outcome) => count(&mut results.1, &outcome),
                        Err(reason) => {
                            eprintln!("{reason}");
                            results.0.push(reason);
                        }
                    }
                }
            });
        }
    });
    let (failures, counts) = results.into_inner().unwrap();
    println!("{counts:?} in {:.1} s", begin.elapsed().as_secs_f64());
    assert!(failures.is_empty(), "{} worlds are not right, the first:\n{}", failures.len(), failures[0]);
}

fn count(counts: &mut BTreeMap<&str, u64>, outcome: &Outcome) {
    for (name, count) in [
        ("worlds", 1),
        ("simulated seconds", outcome.took_ms / 1000),
        ("bytes", outcome.bytes),
        ("writes", outcome.counts.writes),
        ("reads", outcome.counts.reads),
        ("reads of what is behind", outcome.counts.behind),
        ("waits", outcome.counts.waited),
        ("copies", outcome.counts.copies),
        ("transfers", outcome.counts.transfers),
    ] {
        *counts.entry(name).or_default() += count;
    }
}
