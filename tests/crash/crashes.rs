//! The crash loop: servers that are killed while clients write, and machines that lose power.

use super::book::Loss;
use super::history::{Broken, History, Kind, Promise, check};
use super::model::{State, read_state};
use super::process::Machine;
use super::tracking::Behaviour;
use harness::{Client, EVERY_ENGINE, Server, Setup, another_batching, other_placements, request, seed};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

pub const CLIENTS: usize = 6;
const POLICIES: [&str; 3] = ["always", "everysec", "no"];
/// What a power loss may cost under everysec: a second, and another one if the disk is slow.
const EVERYSEC_LOSS: Duration = Duration::from_secs(2);
/// Servers that run at the same time.
const BESIDE_EACH_OTHER: usize = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Crash {
    Kill,
    PowerLoss,
}

/// A scenario that is run and crashed repeatedly.
#[derive(Debug, Clone)]
struct Scenario {
    /// The server's setup; if there are several, they alternate with each start.
    setups: Vec<Setup>,
    policy: &'static str,
    /// The promised policy; a different one in tests of the test.
    judged_as: &'static str,
    flags: Vec<&'static str>,
    is_early: bool,
    /// Planted: the power loss is not reported.
    hides_power_loss: bool,
    /// Whether the log is rewritten all the time.
    rewrites: bool,
    crashes: Vec<Crash>,
}

impl Scenario {
    fn new(setups: &[Setup], policy: &'static str) -> Self {
        Self {
            setups: setups.to_vec(),
            policy,
            judged_as: policy,
            flags: Vec::new(),
            is_early: false,
            hides_power_loss: false,
            rewrites: true,
            crashes: vec![Crash::Kill, Crash::PowerLoss, Crash::PowerLoss],
        }
    }

    fn promise(&self, crash: Crash) -> Promise {
        match (crash, self.judged_as) {
            (Crash::Kill, _) | (_, "always") => Promise::All,
            (_, "everysec") => Promise::Before(EVERYSEC_LOSS),
            _ => Promise::Consistent,
        }
    }

    /// How long clients write: long enough that something is promised.
    fn length(&self, crash: Crash, random: &mut fastrand::Rng) -> Duration {
        let ms = match (crash, self.judged_as) {
            (Crash::PowerLoss, "everysec") => random.u64(2200..3600),
            _ => random.u64(100..600),
        };
        Duration::from_millis(ms)
    }

    /// Runs once through the crashes; returns how many steps were acknowledged.
    fn run(&self, seed: u64) -> Result<usize, Broken> {
        let mut random = fastrand::Rng::with_seed(seed);
        let flags = [&["--appendfsync", self.policy], &self.flags[..]].concat();
        // A planted fault concerns the contents of the files, not what has gone with their buffers.
        let is_unmapped = self.hides_power_loss || random.u8(..4) == 0;
        let behaviour = Behaviour { sync_us: 4000, is_early: self.is_early, is_unmapped, ..Behaviour::default() };
        let mut machine = Machine::new(&flags, behaviour);
        let mut histories: Vec<History> = (0..CLIENTS).map(|client| History::new(client, random.u64(..))).collect();
        let mut acknowledged = 0;
        let mut server = machine.start(*random.choice(&self.setups).unwrap());
        for &crash in &self.crashes {
            let length = self.length(crash, &mut random);
            let rewriting = self.rewrites.then(|| random.fork());
            let crashed = write_until_killed(server, &mut histories, length, rewriting);
            acknowledged += histories.iter().map(History::acknowledged).sum::<usize>();
            self.crash(crash, &mut machine, &mut random);
            let setup = *random.choice(&self.setups).unwrap();
            self.crash_while_starting(crash, &mut machine, setup, &mut random);
            server = machine.try_start(setup).map_err(|what| Broken { kind: Kind::Refused, what })?;
            let found = read_states(&mut server.client());
            check(&histories, &found, self.promise(crash), crashed)
                .map_err(|broken| Broken { what: format!("{crash:?}, {setup:?}, {}", broken.what), ..broken })?;
            histories.iter_mut().zip(found).for_each(|(history, found)| history.begin_with(found));
        }
        Ok(acknowledged)
    }

    fn crash(&self, crash: Crash, machine: &mut Machine, random: &mut fastrand::Rng) {
        match crash {
            Crash::Kill => {}
            // If only its end is missing, it looks like a kill.
            Crash::PowerLoss if self.hides_power_loss => machine.places().lose_power(Loss::End, random),
            Crash::PowerLoss => machine.lose_power(random),
        }
    }

    /// Recovery is killed, too, or loses power, at some point.
    fn crash_while_starting(&self, crash: Crash, machine: &mut Machine, setup: Setup, random: &mut fastrand::Rng) {
        // A power loss would take data that a kill has left.
        let may_lose_power = !self.hides_power_loss && self.promise(crash) == self.promise(Crash::PowerLoss);
        for _ in 0..random.u8(..3) {
            let mut child = machine.command(setup).stderr(std::process::Stdio::null()).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(random.u64(..60)));
            child.kill().expect("the child is ours");
            child.wait().expect("the child is ours");
            if random.bool() && may_lose_power {
                machine.lose_power(random);
            }
        }
    }
}

/// Lets clients write for so long, and kills the server; returns when.
fn write_until_killed(
    server: Server,
    histories: &mut [History],
    length: Duration,
    rewriting: Option<fastrand::Rng>,
) -> Instant {
    let connections: Vec<Client> = histories.iter().map(|_| server.client()).collect();
    std::thread::scope(|scope| {
        for (history, mut connection) in histories.iter_mut().zip(connections) {
            scope.spawn(move || history.run(&mut connection, CLIENTS));
        }
        if let Some(random) = rewriting {
            let connection = server.client();
            scope.spawn(move || rewrite_until_killed(connection, random));
        }
        std::thread::sleep(length);
        let crashed = Instant::now();
        drop(server.kill());
        crashed
    })
}

/// Rewrites that were begun.
static REWRITES: AtomicUsize = AtomicUsize::new(0);

/// Requests rewrites of the log repeatedly.
fn rewrite_until_killed(mut connection: Client, mut random: fastrand::Rng) {
    loop {
        connection.send_if_open(&request(&["BGREWRITEAOF"]));
        let Some(replies) = connection.values_if_open(1) else { return };
        let reply = replies[0].text();
        match reply.as_str() {
            "Background append only file rewriting started" => _ = REWRITES.fetch_add(1, Ordering::Relaxed),
            other => assert_eq!(other, "ERR Background append only file rewriting already in progress"),
        }
        std::thread::sleep(Duration::from_millis(random.u64(5..150)));
    }
}

/// The keys of all clients.
pub fn read_states(connection: &mut Client) -> Vec<State> {
    (0..CLIENTS).map(|client| read_state(connection, client)).collect()
}

/// How often the scenarios are run: once, or for as long as SOAK says.
fn rounds() -> impl Iterator<Item = u64> {
    let read = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let soak = read("SOAK").filter(|soak| *soak > 0).map(|_| read("SOAK_SECONDS").unwrap_or(600));
    let (start, seed) = (Instant::now(), seed());
    let goes_on = move |round: &u64| match soak {
        Some(seconds) => start.elapsed().as_secs() < seconds,
        None => *round == 0,
    };
    (0..).take_while(goes_on).map(move |round| seed.wrapping_add(round << 32))
}

/// Runs scenarios at the same time; none may break a promise.
fn never(scenarios: &[Scenario]) {
    for seed in rounds() {
        let jobs = std::sync::Mutex::new(scenarios.iter().zip(seed..));
        std::thread::scope(|scope| {
            for _ in 0..BESIDE_EACH_OTHER {
                scope.spawn(|| {
                    loop {
                        let job = jobs.lock().unwrap().next();
                        let Some((scenario, seed)) = job else { return };
                        match scenario.run(seed) {
                            Ok(steps) => println!("{scenario:?}: {steps} steps were acknowledged"),
                            Err(broken) => panic!("{scenario:?}, SEED={seed}: {broken:?}"),
                        }
                    }
                });
            }
        });
    }
    // Several for each server: earlier ones have finished.
    let (rewrites, starts) = (REWRITES.load(Ordering::Relaxed), 3 * scenarios.len());
    println!("{rewrites} rewritings were begun");
    assert!(rewrites > starts, "{rewrites} rewritings for {starts} starts");
}

/// Runs a scenario until it breaks a promise: a test that does not detect that proves nothing.
fn must_be_found(scenario: &Scenario, kinds: &[Kind]) {
    const TIME_TO_FIND: Duration = Duration::from_secs(60);
    let (seed, start) = (seed(), Instant::now());
    for attempt in 0.. {
        if let Err(broken) = scenario.run(seed.wrapping_add(attempt)) {
            assert!(kinds.contains(&broken.kind), "{scenario:?}: {broken:?}");
            return println!("found in attempt {attempt}, after {:?}: {broken:?}", start.elapsed());
        }
        assert!(start.elapsed() < TIME_TO_FIND, "{scenario:?}, SEED={seed}: nothing found, so the test has no teeth");
    }
}

#[test]
fn what_was_promised_survives_kills_and_power_losses() {
    let scenarios = POLICIES.iter().flat_map(|policy| EVERY_ENGINE.map(|setup| Scenario::new(&[setup], policy)));
    never(&scenarios.collect::<Vec<_>>());
}

/// Commands of a read that run together have the same promise as single ones.
#[test]
fn what_was_promised_survives_kills_and_power_losses_however_the_commands_of_a_read_run() {
    let batching = another_batching(seed());
    let scenario = |setup| Scenario { flags: batching.to_vec(), ..Scenario::new(&[setup], "always") };
    never(&EVERY_ENGINE.map(scenario));
}

#[test]
fn what_was_promised_survives_kills_and_power_losses_wherever_shards_run() {
    let scenario = |(setup, placement): (Setup, [&'static str; 4])| Scenario {
        flags: placement.to_vec(),
        ..Scenario::new(&[setup], "always")
    };
    never(&other_placements().map(scenario).collect::<Vec<_>>());
}

#[test]
fn what_was_promised_survives_kills_and_power_losses_with_another_engine_at_each_start() {
    let crashes = vec![Crash::Kill, Crash::Kill, Crash::PowerLoss, Crash::Kill, Crash::PowerLoss];
    let scenarios = ["always", "no", "always"];
    let scenarios =
        scenarios.map(|policy| Scenario { crashes: crashes.clone(), ..Scenario::new(&EVERY_ENGINE, policy) });
    never(&scenarios);
}

const MUTEX: Setup = EVERY_ENGINE[0];
const SEVEN_SHARDS: Setup = EVERY_ENGINE[4];

/// The second of everysec is detected where none is permitted.
#[test]
fn everysec_judged_as_always_is_found() {
    for setup in [MUTEX, SEVEN_SHARDS] {
        let scenario = Scenario { judged_as: "always", ..Scenario::new(&[setup], "everysec") };
        must_be_found(&scenario, &[Kind::Lost]);
    }
}

/// Planted: replies leave when their records are written, and not yet synced.
#[test]
fn replies_that_do_not_wait_for_the_disk_are_found() {
    for setup in [MUTEX, SEVEN_SHARDS] {
        let scenario = Scenario { is_early: true, ..Scenario::new(&[setup], "always") };
        must_be_found(&scenario, &[Kind::Lost, Kind::Torn, Kind::Reordered, Kind::Resurrected, Kind::Refused]);
    }
}

/// Planted: the power loss is not reported, so the segments are not cut at one point.
#[test]
fn segments_that_end_each_for_itself_are_found() {
    must_be_found(&each_for_itself(&[]), &[Kind::Reordered, Kind::Resurrected]);
}

/// Planted: transactions are scattered over their shards, each part logged separately.
#[test]
fn transactions_in_parts_are_found() {
    must_be_found(&each_for_itself(&["--multi-key", "relaxed"]), &[Kind::Torn, Kind::Reordered, Kind::Resurrected]);
}

fn each_for_itself(flags: &[&'static str]) -> Scenario {
    Scenario {
        flags: flags.to_vec(),
        hides_power_loss: true,
        rewrites: false,
        crashes: vec![Crash::PowerLoss],
        ..Scenario::new(&[SEVEN_SHARDS], "no")
    }
}

/// The meaning of a log does not depend on its reader, nor on how often it is read.
#[test]
fn a_log_that_is_replayed_twice_gives_the_same_state() {
    let machine = Machine::new(&[], Behaviour::default());
    let mut histories: Vec<History> = (0..CLIENTS).map(|client| History::new(client, 1 + client as u64)).collect();
    let server = machine.start(SEVEN_SHARDS);
    write_until_killed(server, &mut histories, Duration::from_millis(500), None);
    let first = read_states(&mut machine.copy().start(SEVEN_SHARDS).client());
    assert!(first.iter().all(|state| state.len() > 3), "{first:?}");
    for setup in EVERY_ENGINE {
        let copy = machine.copy();
        for _ in 0..2 {
            let server = copy.start(setup);
            assert_eq!(read_states(&mut server.client()), first, "{setup:?}");
            drop(server.kill());
        }
    }
}
