//! `experiments run`: from the command line to a finished run and its report.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::base::environment::Environment;
use crate::base::files::now;
use crate::base::interrupt::Interrupt;
use crate::base::output::tell;
use crate::base::progress::Progress;
use crate::judging::answers;
use crate::judging::claims;
use crate::judging::factorial;
use crate::judging::summary::{Metric, Summary};
use crate::measuring::generator::Measurement;
use crate::measuring::process::{Extra, RunningServer};
use crate::measuring::programs::Programs;
use crate::measuring::sampler;
use crate::measuring::trial::{self, Bench, TrialRecord};
use crate::plan::budget::{self, Lists};
use crate::plan::catalog::{self, Absent, Definition, Lookup, Program, Server};
use crate::plan::point::{Point, Trial};
use crate::plan::schedule;
use crate::plan::sweep::{self, Sweep};
use crate::plan::values::RATE;
use crate::publishing::report;
use crate::results::folder::{RunFolder, Setup};
use crate::results::lock::Lock;
use crate::statistics::quantiles::median;

/// Files that a server has open besides its connections.
const FILES_BESIDES: u64 = 64;

/// How often a held run checks whether it still is.
const LOOK_FOR_HOLD_EVERY: Duration = Duration::from_millis(200);

/// How many trials determine the capacity of a server.
const CALIBRATIONS: u32 = 3;

/// The options of `experiments run`.
#[derive(Debug)]
pub struct Options {
    /// Sweeps by file, folder or name; empty means those of the repository.
    pub sweeps: Vec<PathBuf>,
    /// Where names of sweeps are looked up.
    pub sweeps_home: PathBuf,
    /// Where runs without a folder of their own go.
    pub results_home: PathBuf,
    /// The folder of the run.
    pub out: Option<PathBuf>,
    /// The quick sweep, or a shortened version of those that are named.
    pub quick: bool,
    /// Begin a new run even if an unfinished one could be continued.
    pub fresh: bool,
    /// Servers that replace or join those of the sweeps.
    pub definitions: Vec<Definition>,
    /// The generator; the sibling of this executable when absent.
    pub generator: Option<PathBuf>,
    /// Determines the order; drawn from the clock if absent.
    pub seed: Option<u64>,
    /// Minutes that the run has to fit; `None` means the sweeps as written.
    pub budget_minutes: Option<f64>,
    /// Whether the lists of the sweeps stay as written in spite of a budget.
    pub whole: bool,
    /// Whether points are repeated fewer times where the budget is too small for all rounds.
    pub fewer_rounds: bool,
    /// While this file exists, no trial begins.
    pub hold: Option<PathBuf>,
    /// The most rounds of each sweep.
    pub rounds: Option<u32>,
    /// Threads of the generator in every sweep, if not what the sweeps say.
    pub generator_threads: Option<u32>,
    /// Whether all peers on PATH join all sweeps.
    pub join_peers: bool,
    /// Where the claims of others are.
    pub claims_home: PathBuf,
}

/// Runs missing trials and writes the report.
pub fn run(options: &Options) -> Result<()> {
    let interrupt = Interrupt::install()?;
    // Servers and generator inherit the limit; if it is too low, the generator reports it.
    let _ = rlimit::increase_nofile_limit(u64::MAX);
    let setup = setup(options, &interrupt)?;
    for absent in &setup.absent {
        let what = if absent.is_sweep { "SKIPPED: the sweep" } else { "ABSENT:" };
        tell(format_args!(
            "{what} {}: {}. The run goes on without it, and the report says so.",
            absent.name, absent.reason
        ));
    }
    let claims = claims::load(&options.claims_home)?;
    let (mut run, _lock) = open_or_create(options, setup, &interrupt)?;
    announce(&run);
    let outcome =
        if run.record.finished.is_some() { Ok(()) } else { measure_missing(&run, options.hold.as_deref(), &interrupt) };
    if let Err(error) = outcome {
        let (total, missing) = (run.record.order.len(), run.missing().len());
        let place = run.path.display();
        return Err(error.context(format!(
            "stopped after {} of {total} trials; the same command, or --out {place}, continues",
            total - missing
        )));
    }
    if run.record.finished.is_none() {
        run.note_end()?;
    }
    let report = report::write(&run, &claims)?;
    conclude(&run)?;
    tell(format_args!("report: {}", report.display()));
    Ok(())
}

/// Prints a few lines of results: the answers, and the parts of differences.
fn conclude(run: &RunFolder) -> Result<()> {
    let summary = Summary::of(&run.record, &run.observations()?)?;
    for one in answers::of(&run.record, &summary) {
        tell(format_args!("{} {}", one.question, one.headline));
        one.sentences.iter().for_each(|sentence| tell(format_args!("  {sentence}")));
    }
    for sweep in &run.record.setup.sweeps {
        for one in factorial::of(&summary, sweep, Metric::OpsPerSec) {
            tell(format_args!("throughput, {}:", report::caption(&one)));
            report::effects(&one).rows.iter().for_each(|row| tell(format_args!("  {}", row.join("  "))));
        }
    }
    Ok(())
}

/// Resolves sweeps, servers and generator; a sweep keeps only the servers that are present, and a sweep that its
/// programs cannot run is left out.
fn setup(options: &Options, interrupt: &Interrupt) -> Result<Setup> {
    let mut sweeps = sweep::load(&options.sweeps, &options.sweeps_home, options.quick)?;
    let (mut servers, mut absent): (Vec<Server>, Vec<Absent>) = (Vec::new(), Vec::new());
    let peers = if options.join_peers { catalog::peers_here() } else { Vec::new() };
    // A peer's own name sets its path; any other name is a new server, for all sweeps.
    let new = options
        .definitions
        .iter()
        .map(Definition::name)
        .filter(|name| options.join_peers || !catalog::PEERS.contains(name));
    for name in new.chain(peers) {
        sweeps.iter_mut().for_each(|sweep| join(sweep, name));
    }
    for name in distinct_servers(&sweeps) {
        // A server that says nothing about itself takes its time.
        interrupt.check()?;
        match catalog::look_up(&name, &options.definitions)? {
            Lookup::Present(server) => servers.push(server),
            Lookup::Absent(peer) => absent.push(peer),
        }
    }
    let generator = match &options.generator {
        Some(path) => std::path::absolute(path).with_context(|| format!("no generator at {}", path.display()))?,
        None => catalog::sibling("loadgen")?,
    };
    let generator = Program::inspect(&generator)?;
    let helps = Helps::ask(&generator, &servers);
    interrupt.check()?;
    let (mut kept, mut planned) = (Vec::new(), BTreeMap::new());
    // Those that servers may run on, which inherit the limits of this process.
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    for mut sweep in sweeps {
        sweep.check_servers()?;
        let able = |name: &String| servers.iter().any(|server| server.name == *name && can_run(server, &sweep));
        let present: Vec<String> = sweep.servers.iter().filter(|name| able(name)).cloned().collect();
        for unable in servers.iter().filter(|server| sweep.servers.contains(&server.name) && !can_run(server, &sweep)) {
            let reason = format!("it lacks flags that the sweep {} gives", sweep.name);
            absent.push(Absent { name: unable.name.clone(), reason, is_sweep: false });
        }
        ensure!(!present.is_empty(), "no server of the sweep {} is on this machine", sweep.name);
        for variant in sweep.keep_servers(present) {
            tell(format_args!("SKIPPED: the variant {variant} of {}: it is for servers that are absent.", sweep.name));
        }
        for variant in sweep.keep_fitting(cores) {
            tell(format_args!("SKIPPED: the variant {variant} of {}: it takes more than {cores} cores.", sweep.name));
        }
        if let Some(baseline) = sweep.forget_absent_baseline() {
            let name = &sweep.name;
            tell(format_args!("{name} is compared with its first server: {baseline}, its baseline, is absent."));
        }
        if let Some(threads) = options.generator_threads {
            sweep.threads = threads;
        }
        let as_run =
            if options.budget_minutes.is_some() && !options.whole { sweep.clone().reduced()? } else { sweep.clone() };
        match helps.lacking(&sweep).or_else(|| too_many_files(&as_run)) {
            Some(reason) => absent.push(Absent { name: sweep.name, reason, is_sweep: true }),
            None => {
                planned.insert(sweep.name.clone(), as_run.repeats);
                kept.push(sweep);
            }
        }
    }
    ensure!(!kept.is_empty(), "no sweep can be run: {}", absent.last().map_or("", |absent| absent.reason.as_str()));
    if let Some(minutes) = options.budget_minutes {
        let lists = if options.whole { Lists::Whole } else { Lists::Short };
        kept = match options.fewer_rounds {
            true => budget::fit_with_fewer_repeats(&kept, minutes, lists)?,
            false => budget::fit(kept, minutes, lists)?,
        };
    }
    if let Some(rounds) = options.rounds {
        kept.iter_mut().for_each(|sweep| sweep.repeats = sweep.repeats.min(rounds));
    }
    planned.retain(|name, repeats| kept.iter().any(|sweep| sweep.name == *name && sweep.repeats < *repeats));
    let (budget_minutes, planned_repeats) = (options.budget_minutes, planned);
    Ok(Setup { sweeps: kept, servers, absent, generator, budget_minutes, planned_repeats })
}

/// Whether a server accepts the flags of all its variants.
fn can_run(server: &Server, sweep: &Sweep) -> bool {
    sweep.variants_of(&server.name).iter().all(|variant| server.dialect(&variant.flags).is_some())
}

/// A sweep with more connections than a process may have files would fail in the middle of the run.
fn too_many_files(sweep: &Sweep) -> Option<String> {
    let needed = u64::from(sweep.clients.iter().copied().max()?) + FILES_BESIDES;
    let limit = rlimit::Resource::NOFILE.get_soft().ok()?;
    (needed > limit).then(|| format!("it needs {needed} open files in a process, and the limit is {limit} (ulimit -n)"))
}

/// The flags of the programs. A program without `--help` is believed to have all.
struct Helps {
    generator: Option<String>,
    engines: Option<String>,
}

impl Helps {
    fn ask(generator: &Program, servers: &[Server]) -> Self {
        let engine = servers.iter().find(|server| catalog::is_engine(&server.name));
        Self { generator: generator.help(), engines: engine.and_then(|server| server.program.help()) }
    }

    /// The first flag of a sweep that a program does not have, in words: the sweep waits for a version that has it.
    fn lacking(&self, sweep: &Sweep) -> Option<String> {
        let knows = |help: &Option<String>, flag: &str| {
            help.as_ref().is_none_or(|help| help.split_whitespace().any(|word| word.trim_end_matches(',') == flag))
        };
        let of_generator = sweep.loadgen.keys().map(|flag| format!("--{flag}"));
        if let Some(flag) = of_generator.into_iter().find(|flag| !knows(&self.generator, flag)) {
            return Some(format!("the generator has no {flag} yet"));
        }
        let engines = sweep.servers.iter().filter(|name| catalog::is_engine(name));
        let mut flags = engines.flat_map(|name| sweep.variants_of(name)).flat_map(|variant| &variant.flags);
        let lacking = flags.find(|flag| flag.starts_with("--") && !knows(&self.engines, flag));
        lacking.map(|flag| format!("the server has no {flag} yet"))
    }
}

/// Adds a server to a sweep that has flags for servers which it does not name. Sweeps of one engine's flags have none,
/// and a sweep that measures noise needs no more servers.
fn join(sweep: &mut Sweep, name: &str) {
    let open = sweep.variants.iter().any(|variant| variant.servers.is_empty()) && sweep.equals.is_empty();
    if open && !sweep.servers.iter().any(|server| server == name) {
        sweep.servers.push(name.to_owned());
    }
}

fn distinct_servers(sweeps: &[Sweep]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in sweeps.iter().flat_map(|sweep| &sweep.servers) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

fn open_or_create(options: &Options, setup: Setup, interrupt: &Interrupt) -> Result<(RunFolder, Lock)> {
    if let Some(path) = &options.out {
        return if path.join("run.json").exists() {
            resume(options, path, &setup, locked(path)?)
        } else {
            create(options, path, checked(options, setup, interrupt)?)
        };
    }
    let unfinished = || RunFolder::find_unfinished(&options.results_home, &setup, options.rounds);
    match (!options.fresh).then(unfinished).flatten() {
        Some((run, lock)) => resume(options, &run.path, &setup, lock),
        None => {
            let path = options.results_home.join(default_name(options, &setup));
            create(options, &path, checked(options, setup, interrupt)?)
        }
    }
}

/// The setup of a new run whose servers start, with the rates of its open loops.
fn checked(options: &Options, setup: Setup, interrupt: &Interrupt) -> Result<Setup> {
    wait_while_held(options.hold.as_deref(), interrupt)?;
    check_starts(&setup, interrupt)?;
    calibrated(setup, interrupt)
}

/// Starts each server once as each of its variants: that one cannot start would be noticed in its first trial, which
/// may be hours later. Nothing of this is measured or kept.
fn check_starts(setup: &Setup, interrupt: &Interrupt) -> Result<()> {
    let starts = distinct_starts(setup);
    tell(format_args!("each server is started once before anything is measured: {} starts", starts.len()));
    for (server, flags, environment) in &starts {
        let folder = tempfile::tempdir().context("no temporary folder")?;
        let log = folder.path().join(format!("{}.server.log", server.name));
        let started = RunningServer::start(server, Extra { flags, environment }, &log, interrupt);
        let command = || [&[server.command_line()], &flags[..]].concat().join(" ");
        if let Ok(running) = &started {
            let is_it = server.must_be_its_engine(&running.info());
            is_it.with_context(|| format!("nothing was measured: {}", command()))?;
        }
        if let Err(error) = started {
            interrupt.check()?;
            // The error names the log in it.
            let _ = folder.keep();
            return Err(error.context(format!(
                "nothing was measured, as {} does not start: {}",
                server.name,
                command()
            )));
        }
    }
    Ok(())
}

/// Every server of the sweeps, with the flags and the environment of each variant.
fn distinct_starts(setup: &Setup) -> Vec<(&Server, Vec<String>, &BTreeMap<String, String>)> {
    let mut starts = Vec::new();
    for sweep in &setup.sweeps {
        for server in sweep.servers.iter().map(|name| setup.server(name)) {
            for variant in sweep.variants_of(&server.name) {
                let flags = server.dialect(&variant.flags).expect("a sweep keeps only servers that take its flags");
                let start = (server, flags, &variant.environment);
                if !starts.contains(&start) {
                    starts.push(start);
                }
            }
        }
    }
    starts
}

/// Measures the capacity of the servers of an open-loop sweep, and sets its rates by the slowest of them.
fn calibrated(mut setup: Setup, interrupt: &Interrupt) -> Result<Setup> {
    for index in 0..setup.sweeps.len() {
        if !setup.sweeps[index].rate_percent.is_empty() {
            let capacity = capacity(&setup, &setup.sweeps[index], interrupt)?;
            tell(format_args!("capacity: {capacity:.0} ops/s of the slowest server in {}", setup.sweeps[index].name));
            setup.sweeps[index].set_rates(capacity);
        }
    }
    Ok(setup)
}

/// The throughput of the slowest server at any load of a sweep, without its rates: the median of a few trials.
fn capacity(setup: &Setup, sweep: &Sweep, interrupt: &Interrupt) -> Result<f64> {
    let folder = tempfile::tempdir().context("no temporary folder")?;
    let mut points: Vec<Point> = Vec::new();
    for mut point in schedule::points(sweep) {
        point.loadgen.remove(RATE);
        if !points.contains(&point) {
            points.push(point);
        }
    }
    let mut slowest = f64::INFINITY;
    for point in points {
        let server = setup.server(&point.server);
        let bench = Bench { generator: &setup.generator, server, sweep, interrupt };
        let mut rates = Vec::new();
        for round in 1..=CALIBRATIONS {
            let trial = Trial { round, point: point.clone() };
            let stem = folder.path().join(trial.path_stem());
            let record = run_trial(&bench, &trial, &stem)?;
            let json = stem.with_file_name(&record.chosen().loadgen_file);
            rates.push(Measurement::read(&json)?.totals.ops_per_sec);
        }
        slowest = slowest.min(median(&mut rates).expect("there are calibrations"));
    }
    Ok(slowest)
}

fn create(options: &Options, path: &Path, setup: Setup) -> Result<(RunFolder, Lock)> {
    let seed = options.seed.unwrap_or_else(|| (sampler::unix_seconds() * 1e3) as u64);
    fs::create_dir_all(path).with_context(|| format!("cannot create {}", path.display()))?;
    let lock = locked(path)?;
    // Servers were started since it was looked for.
    ensure!(!path.join("run.json").exists(), "{} holds a run that began meanwhile", path.display());
    Ok((RunFolder::create(path, setup, seed)?, lock))
}

/// The lock on the folder of a run that is named.
fn locked(path: &Path) -> Result<Lock> {
    let taken = || format!("another lab measures in {}: wait for its end, or name another folder", path.display());
    Lock::take(path)?.with_context(taken)
}

fn resume(options: &Options, path: &Path, setup: &Setup, lock: Lock) -> Result<(RunFolder, Lock)> {
    let mut run = RunFolder::open(path)?;
    let place = path.display();
    if options.fresh {
        bail!("{place} holds a run already; --fresh needs another --out");
    }
    if let Some(rounds) = options.rounds {
        run.end_after(rounds)?;
    }
    if let Some(difference) = run.record.setup.difference(setup) {
        bail!("{place} holds a run that cannot be continued: {difference}. Name another folder with --out.");
    }
    // A report of a finished run can be made anywhere.
    let other_machine = run.record.environment.other_machine(&Environment::record());
    if let Some(difference) = other_machine.filter(|_| run.record.finished.is_none()) {
        bail!("{place} holds a run of another machine: {difference}. Name another folder with --out.");
    }
    if let Some(seed) = options.seed.filter(|&seed| seed != run.record.seed) {
        bail!("{place} holds a run with the seed {}, not {seed}", run.record.seed);
    }
    if run.record.finished.is_some() {
        tell(format_args!("{place} is finished; its report is written again."));
    } else {
        run.note_resumption()?;
    }
    Ok((run, lock))
}

fn default_name(options: &Options, setup: &Setup) -> String {
    let names: Vec<&str> = setup.sweeps.iter().map(|sweep| sweep.name.as_str()).collect();
    let what = if options.sweeps.is_empty() && !options.quick { "full".to_owned() } else { names.join("+") };
    let time = now().replace([':', '-', 'Z'], "").replace('T', "-");
    format!("{what}-{time}")
}

fn announce(run: &RunFolder) {
    let (total, missing) = (run.record.order.len(), run.missing().len());
    tell(format_args!("run: {}", run.path.display()));
    tell(format_args!("seed: {} (gives the order of the {total} trials)", run.record.seed));
    if let Some(minutes) = run.record.setup.budget_minutes {
        let windows = run.record.setup.sweeps.iter().map(|sweep| sweep.test_seconds);
        let (shortest, longest) = windows.fold((f64::MAX, 0.0_f64), |(low, high), one| (low.min(one), high.max(one)));
        let asked =
            if shortest < longest { format!(", up to {longest} s for sweeps that ask for it") } else { String::new() };
        tell(format_args!("budget: {minutes} minutes, which gives windows of {shortest} s{asked}"));
    }
    if missing < total {
        tell(format_args!("resumed: {} of {total} trials are done, {missing} are missing", total - missing));
    }
    for server in &run.record.setup.servers {
        tell(format_args!("server: {} = {}", server.name, server.command_line()));
    }
}

fn measure_missing(run: &RunFolder, hold: Option<&Path>, interrupt: &Interrupt) -> Result<()> {
    let (missing, setup) = (run.missing(), &run.record.setup);
    let planned = |trial: &Trial| budget::trial_duration(setup.sweep(&trial.point.sweep), &trial.point);
    let left = missing.iter().map(|trial| planned(trial)).sum();
    let mut programs = Programs::default();
    let mut progress = Progress::new(run.record.order.len(), run.record.order.len() - missing.len(), left);
    for trial in missing {
        wait_while_held(hold, interrupt)?;
        progress.begin(&trial.point.label());
        let bench = Bench {
            generator: &setup.generator,
            server: setup.server(&trial.point.server),
            sweep: setup.sweep(&trial.point.sweep),
            interrupt,
        };
        let outcome = programs.check(setup.programs()).and_then(|()| measure(run, &bench, trial));
        if outcome.is_err() {
            progress.close();
        }
        progress.end(&outcome?, planned(trial));
    }
    progress.close();
    Ok(())
}

/// Waits for its turn on a shared machine. No part of a trial runs then, so none is delayed.
fn wait_while_held(hold: Option<&Path>, interrupt: &Interrupt) -> Result<()> {
    while hold.is_some_and(Path::exists) {
        interrupt.sleep(LOOK_FOR_HOLD_EVERY)?;
    }
    Ok(())
}

fn measure(run: &RunFolder, bench: &Bench, trial: &Trial) -> Result<String> {
    let record = run_trial(bench, trial, &run.stem(trial))?;
    run.save_trial(&record)?;
    describe(run, &record)
}

fn run_trial(bench: &Bench, trial: &Trial, stem: &Path) -> Result<TrialRecord> {
    bench.interrupt.check()?;
    trial::run(bench, trial, stem)
        .with_context(|| format!("in round {} of {} ({})", trial.round, trial.point.label(), trial.point.sweep))
}

fn describe(run: &RunFolder, record: &TrialRecord) -> Result<String> {
    let attempt = record.chosen();
    let found = Measurement::read(&run.stem(&record.trial).with_file_name(&attempt.loadgen_file))?;
    let disturbed = if attempt.disturbed() {
        format!(", DISTURBED: others used {:.2} cores", attempt.usage.foreign_cores)
    } else {
        String::new()
    };
    let repeated = match record.attempts.len() {
        1 => String::new(),
        attempts => format!(", {attempts} attempts"),
    };
    Ok(format!(
        "{} {} round {}: {:.0} ops/s, p99 {:.0} µs, {:.2} cores{disturbed}{repeated}",
        record.trial.point.sweep,
        record.trial.point.label(),
        record.trial.round,
        found.totals.ops_per_sec,
        found.totals.latency_us("p99")?,
        attempt.usage.server_cores,
    ))
}
