//! The audit of raw data: do `run.json` and `trials.jsonl` agree with the plan, with arithmetic, and with each other?
//!
//! A report that follows from its raw data proves nothing if these were edited. But a trial measures the same thing in
//! several ways, and one changed digit contradicts the others:
//!
//! - the trials are those of the plan that follows from seed and sweeps, each once, one after the other in time;
//! - requests by seconds is the throughput, and slices of 100 ms add up to the requests;
//! - in an open loop there are as many requests as were due;
//! - what the generator used by its own account is what /proc saw of it;
//! - what the server used is what the kernel counted of all processes, less the generator's and what others used; and
//!   by the generator's, it is about what it was in the other repeats of the same point;
//! - a server that always has requests waiting is busy, and uses no more cores than it has threads;
//! - windows are as long as planned;
//! - GETs among the requests are what the mix asks for;
//! - in a closed loop the mean latency is that of Little's law: requests in flight by throughput;
//! - percentiles grow, peaks lie above what was there before;
//! - a server has the threads and shards that its flags say;
//! - servers of ours were built from the sources in the folder of the run, and run the engine that they are named
//!   after;
//! - the cores that are named are those whose time the kernel counted, and nobody used more of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::plan::catalog::{self, Server};
use crate::plan::layout::{Layout, number_of};
use crate::plan::point::{Point, Trial};
use crate::plan::schedule;
use crate::plan::sweep::Sweep;
use crate::plan::values::RATE;
use crate::results::folder::RunRecord;
use crate::results::observation::{Observation, Observations};
use crate::statistics::quantiles::median;

/// The largest difference of requests by seconds from the throughput: both have seven digits.
const ROUNDING: f64 = 2e-6;
/// A closed loop has a little less in flight than its clients may have: a client is busy between reply and request.
const LITTLE_MIN: f64 = 0.4;
/// And never more, except requests that began before the window and ended in it.
const LITTLE_MAX: f64 = 1.05;
/// Share of the window that a round of all clients may last for the law to hold.
const ROUND_MAX: f64 = 0.1;
/// The generator's CPU time by its own account, by that of /proc.
const GENERATOR_CPU: (f64, f64) = (0.75, 1.4);
/// The server's CPU time by the generator's, by the median of that over the repeats of its point. Both slow down with
/// the machine; in 18,840 trials that used enough CPU it was never off by more than 1.93.
const SERVER_CPU: f64 = 2.2;
/// Repeats from which on a point has such a median.
const REPEATS_MIN: usize = 3;
/// Clients of a closed loop from which on requests are always waiting.
const CLIENTS_BUSY: u32 = 50;
/// The least share of a core that a server then uses, in the middle repeat: at 1,706 points it was 0.934 or more.
const SERVER_BUSY_MIN: f64 = 0.9;
/// The most that it uses of each of its threads: at 1,451 points it was 1.001 or less.
const SERVER_BUSY_MAX: f64 = 1.03;
/// Milliseconds for which a window may last longer than planned, besides twice its p99.9: replies in flight are
/// awaited.
const WINDOW_MS: f64 = 30.0;
/// Cores by which a sum of rounded ones may be off.
const CORES_ROUNDING: f64 = 1e-5;
/// Connections from which on the two accounts cover different times: connecting takes long.
const CLIENTS_MANY: u32 = 5_000;
/// CPU seconds below which ticks of 10 ms say too little.
const CPU_SECONDS_MIN: f64 = 0.2;
/// Share of the requests by which GETs may deviate from their part of the mix.
const MIX: f64 = 0.01;
/// GETs by which they may deviate besides.
const MIX_GETS: f64 = 20.0;
/// Share of cores by which the kernel's counters may differ from its own number of cores.
const CORES: f64 = 0.1;

/// All contradictions, in words.
pub fn contradictions(run: &RunRecord, observations: &Observations) -> Vec<String> {
    let mut found = plan_of(run, observations);
    let planned: HashMap<String, &Trial> = run.order.iter().map(|trial| (trial.path_stem(), trial)).collect();
    for (one, trial) in observations.trials.iter().filter_map(|one| Some((one, planned.get(&one.trial)?))) {
        let sweep = run.setup.sweep(&trial.point.sweep);
        found.extend(of_trial(sweep, trial, one).into_iter().map(|what| format!("{}: {what}", one.trial)));
    }
    found.extend(repeats(observations));
    found.extend(idle(run, observations));
    found.extend(machine(run, observations));
    found.extend(builds(run));
    found.extend(engines(run, observations));
    found
}

/// The servers of ours against the sources in the folder whose commit the run names.
fn builds(run: &RunRecord) -> Vec<String> {
    let Some(sources) = &run.environment.sources else { return Vec::new() };
    let ours = run.setup.servers.iter().filter(|server| catalog::is_engine(&server.name));
    let built = ours.map(|server| (&server.name, server.program.sources().unwrap_or("unknown")));
    let other = built.filter(|(_, built)| built != sources);
    other.map(|(name, built)| format!("{name} was built from the sources {built}, the folder had {sources}")).collect()
}

/// The names of engines against what the servers said of themselves.
fn engines(run: &RunRecord, observations: &Observations) -> Vec<String> {
    let info = |server: &Server| observations.servers.get(&server.name).map(|info| server.must_be_its_engine(info));
    run.setup.servers.iter().filter_map(info).filter_map(Result::err).map(|error| error.to_string()).collect()
}

/// The trials against the plan, and against the clock.
fn plan_of(run: &RunRecord, observations: &Observations) -> Vec<String> {
    let stems: Vec<String> = run.order.iter().map(Trial::path_stem).collect();
    let mut found = Vec::new();
    let drawn: Vec<String> = schedule::order(&run.setup.sweeps, run.seed).iter().map(Trial::path_stem).collect();
    if drawn != stems {
        found.push(format!("the order is not the one that the seed {} gives", run.seed));
    }
    let mut missing: BTreeSet<&str> = stems.iter().map(String::as_str).collect();
    for one in &observations.trials {
        if !missing.remove(one.trial.as_str()) {
            found.push(format!("{}: the plan has it once, or not at all", one.trial));
        }
    }
    if run.finished.is_some() {
        found.extend(missing.iter().map(|trial| format!("{trial}: the plan has it, the trials do not")));
    } else {
        found.push("the run is not finished: nothing says which trials are missing".to_owned());
    }
    found.extend(times(run, observations));
    found
}

/// One trial at a time, within the run.
fn times(run: &RunRecord, observations: &Observations) -> Vec<String> {
    let mut found = Vec::new();
    let end = |one: &Observation| one.started_unix_ms as f64 + one.seconds * 1e3;
    for pair in observations.trials.windows(2) {
        // The generator keeps whole milliseconds.
        if (pair[1].started_unix_ms as f64) < end(&pair[0]) - 2.0 {
            found.push(format!("{}: it began before {} ended", pair[1].trial, pair[0].trial));
        }
    }
    let unix_ms = |time: &str| {
        let time = humantime::parse_rfc3339(time).ok()?;
        Some(time.duration_since(std::time::UNIX_EPOCH).ok()?.as_millis() as f64)
    };
    let (began, ended) = (unix_ms(&run.started), run.finished.as_deref().and_then(unix_ms));
    if let (Some(first), Some(began)) = (observations.trials.first(), began)
        && (first.started_unix_ms as f64) < began
    {
        found.push(format!("{}: it began before the run", first.trial));
    }
    // The end of the run is kept in whole seconds.
    if let (Some(last), Some(ended)) = (observations.trials.last(), ended)
        && end(last) > ended + 1e3
    {
        found.push(format!("{}: it ended after the run", last.trial));
    }
    found
}

/// What the kernel's peak may be short of what it has just said that is resident: each core counts up to 32 pages by
/// itself before others see them.
const RSS_LAG: u64 = 4 * 32 * 4096;

fn of_trial(sweep: &Sweep, trial: &Trial, one: &Observation) -> Vec<String> {
    let mut found = Vec::new();
    let requests = one.ops_per_sec * one.seconds;
    if (requests - one.requests as f64).abs() > 1.0 + ROUNDING * requests {
        let rate = one.requests as f64 / one.seconds;
        found.push(format!(
            "{} requests in {} s are {rate:.1} a second, not {}",
            one.requests, one.seconds, one.ops_per_sec
        ));
    }
    found.extend(window(sweep, one));
    let sliced: u64 = one.slices.iter().sum();
    if sliced > one.requests || (!one.slices.is_empty() && is_short_of(one, sliced)) {
        found.push(format!("its slices hold {sliced} of {} requests", one.requests));
    }
    let percentiles = [one.p50_us, one.p99_us, one.p999_us];
    let peak_max = one.rss_peak_bytes + RSS_LAG;
    if !percentiles.is_sorted() || one.errors > one.requests || one.rss_prefilled_bytes > peak_max {
        found.push("percentiles, errors or memory do not grow as they must".to_owned());
    }
    found.extend(due(sweep, trial, one));
    found.extend(fairness(trial, one));
    found.extend(mix(trial, one));
    found.extend(generator(trial, one));
    found.extend(busy(one));
    found.extend(latency(trial, one));
    found.extend(layout(sweep, trial, one));
    if one.disturbed() && one.attempts != sweep.retries as usize + 1 {
        found.push(format!("it was disturbed and kept after {} attempts", one.attempts));
    }
    found
}

/// Sending stops when the planned time is over, and what is in flight then is awaited.
fn window(sweep: &Sweep, one: &Observation) -> Option<String> {
    let planned = sweep.test_seconds;
    let longest = planned + WINDOW_MS / 1e3 + 2.0 * one.p999_us / 1e6;
    (one.seconds < planned * (1.0 - ROUNDING) || one.seconds > longest)
        .then(|| format!("its window lasted {} s, and {planned} s were planned", one.seconds))
}

/// Slices cover all of the window except less than one of them, in which the server cannot have done most of its work.
fn is_short_of(one: &Observation, sliced: u64) -> bool {
    let covered = one.slices.len() as f64 * 0.1 / one.seconds;
    covered > 0.8 && (sliced as f64) < 0.5 * covered * one.requests as f64
}

/// The requests of an open loop are those that were due, if all were sent. Connections of a storm are not requests.
fn due(sweep: &Sweep, trial: &Trial, one: &Observation) -> Option<String> {
    let point = &trial.point;
    if one.unsent > 0 || point.is_storm() || point.has_own_commands() {
        return None;
    }
    let rate: f64 = point.rate()?.as_str().parse().ok()?;
    let due = rate * sweep.test_seconds;
    ((one.requests as f64 - due).abs() > 1.0 + ROUNDING * due).then(|| {
        format!("{} requests, and {due:.0} were due at {rate} a second; none is said to be unsent", one.requests)
    })
}

/// Jain's index of n connections is between 1/n and 1, and the longest wait is not shorter than the median one.
fn fairness(trial: &Trial, one: &Observation) -> Option<String> {
    let found = one.fairness?;
    let clients = f64::from(trial.point.clients);
    let holds = (1.0 / clients - 1e-6..=1.0 + 1e-6).contains(&found.jain) && found.slowest >= 1.0 - 1e-6;
    (!holds).then(|| {
        format!(
            "of {clients} connections the slowest waits {} times as long, Jain's index is {}",
            found.slowest, found.jain
        )
    })
}

/// What the server said of its threads and shards against the flags that it was given.
fn layout(sweep: &Sweep, trial: &Trial, one: &Observation) -> Option<String> {
    let told = one.layout?;
    let flags = &sweep.variant(&trial.point.variant).flags;
    let is_so = |name: &str, told: u32| number_of(flags, name).is_none_or(|given| given == told);
    // A table has the next power of two.
    let shards_are_so = trial.point.server != "actor" || is_so("--shards", told.shards);
    (!is_so("--threads", told.threads) || !shards_are_so)
        .then(|| format!("the server says that it has {}, and its flags are {flags:?}", told.words()))
}

/// GETs among the requests.
fn mix(trial: &Trial, one: &Observation) -> Option<String> {
    let point = &trial.point;
    let several_keys = ["keys-per-command", "multi-key", "rate", RATE];
    if point.has_own_commands() || several_keys.iter().any(|flag| point.loadgen.contains_key(*flag)) {
        return None;
    }
    let (sets, gets) = (f64::from(point.ratio.sets), f64::from(point.ratio.gets));
    let expected = gets / (sets + gets) * one.requests as f64;
    let found = (one.hits + one.misses) as f64;
    let room = MIX * one.requests as f64 + MIX_GETS;
    ((found - expected).abs() > room)
        .then(|| format!("{found} GETs among {} requests of the mix {}", one.requests, point.ratio))
}

/// The generator's cost by its own account and by that of /proc.
fn generator(trial: &Trial, one: &Observation) -> Option<String> {
    if trial.point.clients >= CLIENTS_MANY || one.generator_cores * one.seconds < CPU_SECONDS_MIN {
        return None;
    }
    let own = one.generator_cpu_us_per_op * one.ops_per_sec / 1e6;
    let share = own / one.generator_cores;
    (!(GENERATOR_CPU.0..=GENERATOR_CPU.1).contains(&share))
        .then(|| format!("the generator says that it used {own:.2} cores, /proc says {:.2}", one.generator_cores))
}

/// The cores of server, generator and others against those that the kernel counted as busy. Others cannot use less than
/// none, where the counters of processes run ahead of the machine's.
fn busy(one: &Observation) -> Option<String> {
    let busy = one.busy_cores?;
    let used = one.server_cores + one.generator_cores + one.foreign_cores;
    let holds =
        if one.foreign_cores > 0.0 { (used - busy).abs() < CORES_ROUNDING } else { used > busy - CORES_ROUNDING };
    (!holds).then(|| format!("{used:.4} cores were in use, the kernel counted {busy:.4}"))
}

/// What the server used by what the generator used, against the other repeats of the point.
fn repeats(observations: &Observations) -> Vec<String> {
    let mut points: BTreeMap<&str, Vec<(&Observation, f64)>> = BTreeMap::new();
    for one in &observations.trials {
        let is_enough = one.server_cores.min(one.generator_cores) * one.seconds >= CPU_SECONDS_MIN;
        if let Some((point, _)) = one.trial.rsplit_once('/').filter(|_| is_enough) {
            points.entry(point).or_default().push((one, one.server_cores / one.generator_cores));
        }
    }
    points.values().filter(|own| own.len() >= REPEATS_MIN).flat_map(|own| unlike(own)).collect()
}

/// The repeats of a point that are not like the middle one.
fn unlike(repeats: &[(&Observation, f64)]) -> Vec<String> {
    let middle = median(&mut repeats.iter().map(|(_, share)| *share).collect::<Vec<_>>()).expect("a point has repeats");
    let is_off = |share: f64| !(middle / SERVER_CPU..=middle * SERVER_CPU).contains(&share);
    let words = |(one, share): &(&Observation, f64)| {
        let trial = &one.trial;
        format!("{trial}: the server used {share:.2} times the CPU of the generator, in the middle repeat {middle:.2}")
    };
    repeats.iter().filter(|(_, share)| is_off(*share)).map(words).collect()
}

/// Servers that used less or more CPU than they can have, in the middle repeat of a point: a closed loop of many
/// clients always has requests waiting, so the server or the generator is busy all the time, or waits for a core that
/// others use or the hypervisor takes. If all repeats of a point were changed alike they agree with each other, and not
/// with this.
fn idle(run: &RunRecord, observations: &Observations) -> Vec<String> {
    let planned: HashMap<String, &Trial> = run.order.iter().map(|trial| (trial.path_stem(), trial)).collect();
    let mut points: BTreeMap<&str, Vec<&Observation>> = BTreeMap::new();
    for one in &observations.trials {
        let point = one.trial.rsplit_once('/').map(|(point, _)| point);
        if let (Some(point), true) = (point, planned.get(&one.trial).is_some_and(|trial| is_loaded(run, &trial.point)))
        {
            points.entry(point).or_default().push(one);
        }
    }
    let middle = |own: &[&Observation], value: fn(&Observation) -> f64| {
        median(&mut own.iter().map(|one| value(one)).collect::<Vec<_>>()).expect("a point has repeats")
    };
    let known = points.into_iter().filter(|(_, own)| own.len() >= REPEATS_MIN);
    known
        .filter_map(|(name, own)| {
            let point = &planned[&own[0].trial].point;
            let used = middle(&own, |one| one.server_cores);
            let is_bound = own.iter().filter(|one| one.generator_bound(false)).count() * 2 > own.len();
            let generator = middle(&own, |one| one.generator_cores);
            let taken = middle(&own, |one| one.foreign_cores + one.stolen_cores.unwrap_or(0.0));
            if used + taken < SERVER_BUSY_MIN && !is_bound {
                return Some(format!(
                    "{name}: the server used {used:.2} cores in the middle repeat and the generator {generator:.2}, \
                     with {} clients waiting",
                    point.clients
                ));
            }
            let threads = threads_alone(run, point)?;
            (used > SERVER_BUSY_MAX * f64::from(threads)).then(|| {
                format!("{name}: the server used {used:.2} cores in the middle repeat, and has {threads} threads")
            })
        })
        .collect()
}

/// Whether a server has work all the time, and waits for nothing else.
fn is_loaded(run: &RunRecord, point: &Point) -> bool {
    let variant = run.setup.sweep(&point.sweep).variant(&point.variant);
    let waits = variant.flags.iter().any(|flag| flag == "always") || variant.stopped_percent.is_some();
    point.clients >= CLIENTS_BUSY && !point.is_open_loop() && !point.is_storm() && !waits
}

/// The threads of a server that has no log to write with another one.
fn threads_alone(run: &RunRecord, point: &Point) -> Option<u32> {
    let flags = &run.setup.sweep(&point.sweep).variant(&point.variant).flags;
    let has_no_log = flags.windows(2).any(|pair| pair[0] == "--appendonly" && pair[1] == "no");
    let planned = Layout::planned(&point.server, flags, run.environment.cores).filter(|_| has_no_log)?;
    Some(planned.threads)
}

/// Little's law: in flight by throughput is the mean latency.
fn latency(trial: &Trial, one: &Observation) -> Option<String> {
    let point = &trial.point;
    if point.has_own_commands() || point.is_open_loop() {
        return None;
    }
    let in_flight = f64::from(point.clients) * f64::from(point.pipeline);
    let law = in_flight * 1e6 / one.ops_per_sec;
    // If the window holds only a few rounds of all clients, those at its ends weigh too much.
    if law > ROUND_MAX * one.seconds * 1e6 {
        return None;
    }
    // Without the mean: half of the latencies are the median at least, one in a hundred p99, one in a thousand p99.9.
    let least = 0.49 * one.p50_us + 0.009 * one.p99_us + 0.001 * one.p999_us;
    let (low, high) = one.mean_us.map_or((least, None), |mean| (mean, Some(mean)));
    let contradicts = low > LITTLE_MAX * law || high.is_some_and(|mean| mean < LITTLE_MIN * law);
    contradicts.then(|| {
        format!(
            "{in_flight} in flight at {:.0} a second are {law:.1} µs each, the latencies are {low:.1} µs{}",
            one.ops_per_sec,
            if high.is_some() { "" } else { " at least" }
        )
    })
}

/// The cores that `run.json` names.
fn machine(run: &RunRecord, observations: &Observations) -> Vec<String> {
    let named = run.environment.cores as f64;
    let mut found = Vec::new();
    let mut counted: Vec<f64> = observations.trials.iter().filter_map(|one| one.machine_cores).collect();
    if let Some(counted) = median(&mut counted)
        && (counted / named - 1.0).abs() > CORES
    {
        found.push(format!("run.json has {named} cores, the kernel counted the time of {counted:.2}"));
    }
    for one in &observations.trials {
        let used = one.server_cores + one.generator_cores + one.foreign_cores;
        if used > named * (1.0 + CORES) {
            found.push(format!("{}: {used:.2} cores were in use of {named}", one.trial));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::plan::catalog::Program;
    use crate::results::observation::Fairness;
    use crate::testing::{self, observation};

    /// What is changed, and how verify names it.
    type Change<T> = (fn(&mut T), &'static str);

    const SWEEP: &str =
        "question='?'\nservers=['s', 't']\nclients=[1, 50]\ntest_seconds=1\nwarm_up_seconds=0\nrepeats=3\n";

    /// A run whose raw data agree, of servers that do 1,000 requests a second for each client.
    fn measured() -> (RunRecord, Observations) {
        measured_in(SWEEP)
    }

    fn measured_in(sweep: &str) -> (RunRecord, Observations) {
        let (mut run, _) = testing::run("grid", sweep, |_, _| 1000.0);
        run.environment.cores = 2;
        run.started = "2026-11-24T00:00:00Z".to_owned();
        run.finished = Some("2026-11-24T00:01:00Z".to_owned());
        let began = 1_795_478_400_000;
        let trial = |(index, trial): (usize, &Trial)| {
            let rate = 1000.0 * f64::from(trial.point.clients);
            Observation {
                started_unix_ms: began + 1100 * index as u64,
                requests: rate as u64,
                hits: rate as u64 / 2,
                mean_us: Some(950.0),
                p50_us: 900.0,
                p99_us: 2000.0,
                p999_us: 3000.0,
                generator_cpu_us_per_op: 0.5e6 / rate,
                server_cores: 0.95,
                busy_cores: Some(1.45),
                machine_cores: Some(2.01),
                slices: vec![rate as u64 / 10; 10],
                ..observation(&trial.path_stem(), rate)
            }
        };
        let trials = run.order.iter().enumerate().map(trial).collect();
        (run, Observations { servers: Default::default(), trials, latencies: None })
    }

    #[test]
    fn raw_data_that_agree_have_no_contradiction() {
        let (run, observations) = measured();
        assert_eq!(contradictions(&run, &observations), Vec::<String>::new());
    }

    #[test]
    fn one_changed_figure_of_a_trial_contradicts_the_others() {
        let changes: [Change<Observation>; 18] = [
            (|one| one.ops_per_sec *= 2.0, "a second, not"),
            (|one| one.requests *= 2, "a second, not"),
            (|one| one.seconds /= 2.0, "a second, not"),
            (|one| (one.seconds, one.ops_per_sec) = (0.95, one.ops_per_sec / 0.95), "1 s were planned"),
            (|one| (one.seconds, one.ops_per_sec) = (1.05, one.ops_per_sec / 1.05), "1 s were planned"),
            (|one| one.slices[3] *= 20, "slices"),
            (|one| one.hits += 900, "GETs"),
            (|one| one.mean_us = Some(90.0), "in flight"),
            (|one| one.mean_us = Some(1500.0), "in flight"),
            (|one| one.p99_us = 9000.0, "percentiles"),
            (|one| one.generator_cpu_us_per_op *= 2.0, "/proc"),
            (|one| one.server_cores = 7.0, "cores were in use"),
            (|one| one.server_cores -= 0.1, "the kernel counted 1.45"),
            (|one| one.foreign_cores = 0.2, "the kernel counted 1.45"),
            (|one| one.server_cores *= 2.5, "in the middle repeat 1.90"),
            (|one| one.foreign_cores = 0.5, "disturbed"),
            (|one| one.fairness = Some(Fairness { jain: 1.2, slowest: 1.5 }), "Jain"),
            (|one| one.fairness = Some(Fairness { jain: 0.9, slowest: 0.5 }), "Jain"),
        ];
        for (change, word) in changes {
            let (run, mut observations) = measured();
            change(&mut observations.trials[4]);
            let found = contradictions(&run, &observations);
            assert!(found.iter().any(|what| what.contains(word)), "{word}: {found:?}");
        }
    }

    // Of a run that did not keep what the kernel counted. The other repeats of the point say the same.
    #[test]
    fn all_repeats_of_a_point_that_are_changed_alike_contradict_a_server_that_always_has_work() {
        let sweep = SWEEP.replace("'s', 't'", "'mutex', 'actor'");
        for (factor, expected) in
            [(1.0, ""), (0.8, "used 0.76 cores"), (1.2, "used 1.14 cores in the middle repeat, and")]
        {
            let (run, mut observations) = measured_in(&sweep);
            for one in &mut observations.trials {
                one.busy_cores = None;
                if one.trial.contains("mutex") && one.trial.contains(".c50.") {
                    one.server_cores *= factor;
                }
            }
            let found = contradictions(&run, &observations);
            assert!(found.iter().all(|what| what.contains(expected) && what.contains("mutex")), "{factor}: {found:?}");
            assert_eq!(found.len(), usize::from(factor != 1.0), "{factor}: {found:?}");
        }
        // A server waits for a generator that has no time left, and for a core that others have.
        let changes: [fn(&mut Observation); 3] =
            [|one| one.generator_cores = 0.97, |one| one.foreign_cores = 0.3, |one| one.stolen_cores = Some(0.3)];
        for change in changes {
            let (run, mut observations) = measured_in(&sweep);
            observations.trials.iter_mut().for_each(|one| {
                (one.busy_cores, one.server_cores) = (None, 0.7);
                change(one);
            });
            assert_eq!(idle(&run, &observations), Vec::<String>::new());
        }
    }

    #[test]
    fn threads_or_shards_that_no_flag_gave_contradict_the_plan() {
        let (mut run, mut observations) = measured();
        let flags = ["--threads", "2", "--shards", "4"].map(str::to_owned);
        run.setup.sweeps[0].variants[0].flags = flags.to_vec();
        let mut found = |threads, shards| {
            observations.trials[0].layout = Some(Layout { threads, shards });
            contradictions(&run, &observations)
        };
        assert_eq!(found(2, 1), Vec::<String>::new(), "an engine with one lock has one shard whatever its flags are");
        assert!(found(3, 1)[0].contains("says that it has 3 threads, 1 shard"));
        run.setup.sweeps[0].servers = vec!["actor".to_owned()];
        run.order.iter_mut().for_each(|trial| trial.point.server = "actor".to_owned());
        let sweep = &run.setup.sweeps[0];
        let one = Observation { layout: Some(Layout { threads: 2, shards: 2 }), ..observations.trials[0].clone() };
        assert!(layout(sweep, &run.order[0], &one).is_some_and(|what| what.contains("2 shards")));
    }

    #[test]
    fn a_server_that_was_built_from_other_sources_contradicts_the_folder() {
        let (mut run, observations) = measured();
        let program = |version: &str| Program {
            path: "shardrace".into(),
            digest: String::new(),
            version: Some(format!("shardrace 0.1.0{version}")),
        };
        let server = |name: &str, version| Server {
            name: name.to_owned(),
            program: program(version),
            arguments: Vec::new(),
            files: Default::default(),
        };
        run.environment.sources = Some("a1".to_owned());
        run.setup.servers = vec![
            server("mutex", " (sources a1)"),
            server("planted", " (sources b2)"),
            server("actor", " (sources a1)"),
        ];
        assert_eq!(contradictions(&run, &observations), Vec::<String>::new());
        for (version, built) in [(" (sources b2)", "b2"), ("", "unknown")] {
            run.setup.servers[0] = server("mutex", version);
            let expected = format!("mutex was built from the sources {built}, the folder had a1");
            assert_eq!(contradictions(&run, &observations), [expected]);
        }
    }

    #[test]
    fn a_server_that_runs_another_engine_than_that_of_its_name_is_found() {
        let (mut run, mut observations) = measured();
        let program = Program { path: "shardrace".into(), digest: String::new(), version: None };
        let server = |name: &str| Server {
            name: name.to_owned(),
            program: program.clone(),
            arguments: Vec::new(),
            files: Default::default(),
        };
        run.setup.servers = vec![server("mutex"), server("other")];
        let said = |engine: &str| BTreeMap::from([("engine".to_owned(), engine.to_owned())]);
        observations.servers.insert("other".to_owned(), said("actor"));
        for engine in ["mutex", "actor"] {
            observations.servers.insert("mutex".to_owned(), said(engine));
            let found = contradictions(&run, &observations);
            let is_found = found.iter().any(|what| what.contains("\"mutex\" runs the engine \"actor\""));
            assert_eq!(is_found, engine == "actor", "{found:?}");
        }
    }

    #[test]
    fn requests_of_an_open_loop_are_those_that_were_due_unless_some_were_never_sent() {
        let sweep = format!("{}loadgen = {{ rate-limiting = [1000] }}\n", SWEEP.replace("[1, 50]", "[1]"));
        let (run, _) = testing::run("grid", &sweep, |_, _| 1000.0);
        let found = |requests: u64, unsent: u64| {
            let one = Observation { requests, unsent, ..observation(&run.order[0].path_stem(), 1000.0) };
            due(&run.setup.sweeps[0], &run.order[0], &one)
        };
        assert_eq!((found(1000, 0), found(900, 100)), (None, None));
        assert!(found(900, 0).unwrap().contains("900 requests, and 1000 were due at 1000 a second"));
    }

    // Throughput and requests doubled together: the generator's CPU and the latency say no.
    #[test]
    fn figures_that_are_changed_together_contradict_what_is_left() {
        let (run, mut observations) = measured();
        let one = &mut observations.trials[4];
        (one.ops_per_sec, one.requests, one.hits) = (one.ops_per_sec * 2.0, one.requests * 2, one.hits * 2);
        one.slices.iter_mut().for_each(|slice| *slice *= 2);
        let found = contradictions(&run, &observations);
        assert!(found.iter().any(|what| what.contains("in flight")) && found.len() == 2, "{found:?}");
        observations.trials[4].mean_us = None;
        observations.trials[4].p50_us = 1900.0;
        assert!(contradictions(&run, &observations)[1].contains("at least"));
    }

    #[test]
    fn the_trials_are_those_of_the_plan_each_once_and_one_after_the_other() {
        let changes: [Change<Observations>; 4] = [
            (|all| drop(all.trials.remove(5)), "the trials do not"),
            (|all| all.trials[5] = all.trials[6].clone(), "once, or not at all"),
            (|all| all.trials[5].trial = "grid/other/r01".to_owned(), "once, or not at all"),
            (|all| all.trials[5].started_unix_ms -= 1000, "began before"),
        ];
        for (change, word) in changes {
            let (run, mut observations) = measured();
            change(&mut observations);
            let found = contradictions(&run, &observations);
            assert!(found.iter().any(|what| what.contains(word)), "{word}: {found:?}");
        }
        let changes: [Change<RunRecord>; 4] = [
            (|run| run.finished = None, "not finished"),
            (|run| run.seed += 1, "the seed"),
            (|run| run.started = "2026-11-24T00:00:09Z".to_owned(), "before the run"),
            (|run| run.finished = Some("2026-11-24T00:00:09Z".to_owned()), "after the run"),
        ];
        for (change, word) in changes {
            let (mut run, observations) = measured();
            change(&mut run);
            let found = contradictions(&run, &observations);
            assert!(found.iter().any(|what| what.contains(word)), "{word}: {found:?}");
        }
    }

    #[test]
    fn cores_that_the_machine_does_not_have_are_noticed() {
        for cores in [1, 3, 64] {
            let (mut run, observations) = measured();
            run.environment.cores = cores;
            assert!(contradictions(&run, &observations)[0].contains("cores, the kernel counted"));
        }
    }
}
