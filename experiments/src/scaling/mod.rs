//! `experiments scaling`: the engines without sockets, on one thread up to the number of cores, and a model's
//! predictions for machines with more cores.
//!
//! The driver `shardrace-scaling` runs one engine with one load and prints its measurement. This module runs it for
//! every point of a grid ([`grid`]) several times, in random order, and keeps what it prints in one file ([`record`]).
//! Figures come from that file alone: curves ([`curves`]), and the predictions of a model ([`model`]), which are
//! checked at points that it was not fitted to ([`predictions`]).

pub(crate) mod curves;
pub(crate) mod grid;
pub(crate) mod model;
pub(crate) mod planted;
pub(crate) mod predictions;
pub(crate) mod record;

use std::fs::{self, File};
use std::io::{Read, Seek};
use std::num::NonZeroUsize;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::base::digest::sha256;
use crate::base::environment::Environment;
use crate::base::interrupt::{Interrupt, Interrupted};
use crate::base::output::tell;
use crate::base::rng::Rng;
use crate::measuring::process::OwnedChild;
use crate::plan::catalog::Program;
use grid::{Grid, Point};
use record::{Found, Growing, Header, Recorded, Trial};

/// The name of the driver, which is beside this executable.
const DRIVER: &str = "shardrace-scaling";

/// The environment variable that makes a driver with the feature `planted-cost` waste time under the mutex engine's
/// lock.
const PLANTED: &str = "SHARDRACE_PLANTED_HELD_NS";

/// The options of `experiments scaling`.
#[derive(Debug)]
pub struct Options {
    /// The grid.
    pub grid: PathBuf,
    /// The driver; default: the one beside this executable.
    pub driver: Option<PathBuf>,
    /// The file for the result.
    pub out: PathBuf,
    /// Numbers of threads that replace the grid's.
    pub threads: Vec<usize>,
    /// The time for all of it, in minutes: windows are shortened to fit.
    pub minutes: Option<f64>,
    /// Seed of the order.
    pub seed: u64,
    /// Names of blocks; empty for all.
    pub blocks: Vec<String>,
}

/// The shortest window, in seconds.
const SECONDS_MIN: f64 = 0.1;
/// How often the end of a trial is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How often a trial is tried in whose window no request is done.
const TRIES: u32 = 5;
/// What a trial takes besides its window and warm-up: the start of a process, and filling.
const OVERHEAD_SECONDS: f64 = 0.35;

/// Runs all trials, and writes each into the file as soon as it is done.
pub fn run(options: &Options) -> Result<()> {
    let driver = driver(options.driver.as_deref())?;
    Program::inspect_ours(&driver)?;
    let mut grid = Grid::load(&options.grid)?;
    grid.retain_blocks(&options.blocks)?;
    if !options.threads.is_empty() {
        grid.threads.clone_from(&options.threads);
    }
    // With more threads than cores the trial would measure the scheduler.
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    grid.retain_threads(cores);
    ensure!(!grid.points().is_empty(), "no point of the grid has so few threads as there are cores, {cores}");
    if let Some(minutes) = options.minutes {
        fit(&mut grid, minutes * 60.0);
    }
    let order = order(&grid, options.seed);
    tell(format_args!(
        "{} trials of {:.2} s, about {:.0} minutes",
        order.len(),
        grid.seconds,
        expected_seconds(&grid) / 60.0
    ));
    let interrupt = Interrupt::install()?;
    let header = Header::new(&grid, options.seed, &fs::read(&driver)?, Environment::record());
    let start = Instant::now();
    let mut growing = Growing::create(&options.out, &header)?;
    let ended = measure_all(&driver, &grid, &order, options.seed, &interrupt, &mut growing);
    let number = growing.trials();
    // What was measured before an interrupt or an error is not lost, and replaces no complete file.
    let out = match ended {
        Ok(()) => growing.end(&options.out).map(|()| Some(options.out.clone()))?,
        Err(_) => growing.end_early()?,
    };
    if let Some(out) = out {
        tell(format_args!(
            "{number} of {} trials in {:.0} s: {}",
            order.len(),
            start.elapsed().as_secs_f64(),
            out.display()
        ));
    }
    ended
}

fn measure_all(
    driver: &Path,
    grid: &Grid,
    order: &[(u32, Point)],
    seed: u64,
    interrupt: &Interrupt,
    growing: &mut Growing,
) -> Result<()> {
    for (number, (repeat, point)) in order.iter().enumerate() {
        interrupt.check()?;
        let found = measure_until_done(driver, point, grid, seed.wrapping_add(number as u64), interrupt)?;
        tell(format_args!("{:>4}/{} {} {:.0}/s", number + 1, order.len(), point, found.per_second()));
        growing.append(&Trial { block: point.block.clone(), repeat: *repeat, planted_ns: point.planted_ns, found })?;
    }
    Ok(())
}

/// Measures a point. Where other programs keep the cores for a whole window, no request is done; then the trial is
/// repeated.
fn measure_until_done(driver: &Path, point: &Point, grid: &Grid, seed: u64, interrupt: &Interrupt) -> Result<Found> {
    for _ in 0..TRIES {
        interrupt.check()?;
        let found = measure(driver, point, grid, seed, interrupt)?;
        if found.requests > 0 {
            return Ok(found);
        }
        tell(format_args!(
            "     {point}: no request was done in the window, in which other programs had the cores for {:.2} s; again",
            found.kept_ns as f64 / 1e9
        ));
    }
    bail!("{point}: no request was done in any of {TRIES} windows of {} s", grid.seconds)
}

/// The tables of a file, as documents show them.
pub fn tables(file: &Path) -> Result<String> {
    let recorded = Recorded::read(file)?;
    let mut text = machine(&recorded) + "\n";
    // A machine with few cores measures nothing of some blocks.
    let has_trials = |block: &String| recorded.trials.iter().any(|trial| trial.block == *block);
    for block in recorded.blocks().into_iter().filter(has_trials) {
        let is_planted = recorded.trials.iter().any(|trial| trial.block == block && trial.planted_ns.is_some());
        let table = if is_planted { planted::table(&recorded, &block) } else { curves::table(&recorded, &block) };
        text.push_str(&format!("\n{block}:{}", table?));
    }
    if predictions::Inputs::of(&recorded).is_ok() {
        report_model();
        for table in [predictions::inputs, predictions::checks, predictions::table] {
            text.push_str(&table(&recorded)?);
        }
    }
    Ok(text)
}

/// The predictions from one file beside the measurements in another.
pub fn comparison(predicted: &Path, measured: &Path) -> Result<String> {
    let (predicted, measured) = (Recorded::read(predicted)?, Recorded::read(measured)?);
    report_model();
    let table = predictions::comparison(&predicted, &measured)?;
    Ok(format!("predicted from: {}\n\nmeasured on: {}\n{table}", machine(&predicted), machine(&measured)))
}

/// The model takes its time, with nothing printed.
fn report_model() {
    tell("computing what the model predicts, with intervals from resampled inputs: about a minute");
}

/// The result of a query in a document: `FILE machine`, `FILE curves BLOCK`, `FILE planted BLOCK`, `FILE inputs`, `FILE
/// checks`, `FILE predictions`.
pub(crate) fn query(root: &Path, words: &[&str]) -> Result<String> {
    let [file, kind, rest @ ..] = words else { bail!("a file and a table are needed") };
    let recorded = Recorded::read(&root.join(file))?;
    match (*kind, rest) {
        ("machine", []) => Ok(machine(&recorded)),
        ("curves", [block]) => curves::table(&recorded, block),
        ("planted", [block]) => planted::table(&recorded, block),
        ("inputs", []) => predictions::inputs(&recorded),
        ("checks", []) => predictions::checks(&recorded),
        _ => bail!("there is no table {kind:?} of {rest:?}"),
    }
}

/// The machine and the conditions of a file's measurements.
fn machine(recorded: &Recorded) -> String {
    let Header { environment, grid, seed, driver, started, .. } = &recorded.header;
    format!(
        "{}, driver {}; {started}; {} trials of {:.2} s, seed {seed}",
        environment.machine_and_commit(),
        &driver[..12],
        recorded.trials.len(),
        grid.seconds,
    )
}

/// Fits a grid into a time: shortens windows, and leaves out the last rounds where the shortest windows do not fit. One
/// round is always measured.
fn fit(grid: &mut Grid, seconds: f64) {
    loop {
        let window = seconds / grid.trials() as f64 - grid.warm_up - OVERHEAD_SECONDS;
        grid.seconds = window.max(SECONDS_MIN);
        if window >= SECONDS_MIN || grid.rounds() == 1 {
            break;
        }
        grid.cap_rounds(grid.rounds() - 1);
    }
}

/// How long all trials take.
fn expected_seconds(grid: &Grid) -> f64 {
    grid.trials() as f64 * (grid.seconds + grid.warm_up + OVERHEAD_SECONDS)
}

/// Every point once in each round, each round in a random order, so that drift affects all points alike.
fn order(grid: &Grid, seed: u64) -> Vec<(u32, Point)> {
    let mut rng = Rng::new(seed);
    let points = grid.points();
    let mut order = Vec::new();
    for repeat in 1..=grid.rounds() {
        let mut round = points.clone();
        round.retain(|point| repeat <= grid.repeats_of(&point.block));
        rng.shuffle(&mut round);
        order.extend(round.into_iter().map(|point| (repeat, point)));
    }
    order
}

fn driver(named: Option<&Path>) -> Result<PathBuf> {
    let path = match named {
        Some(path) => path.to_path_buf(),
        None => std::env::current_exe().context("this executable has no path")?.with_file_name(DRIVER),
    };
    ensure!(path.exists(), "there is no {}: `make scaling` builds it, with the feature `scaling`", path.display());
    Ok(path)
}

/// Runs the driver to its end. Like every child of the lab it has a process group of its own, so that a Ctrl-C reaches
/// the lab alone, and it dies with the lab.
fn measure(driver: &Path, point: &Point, grid: &Grid, seed: u64, interrupt: &Interrupt) -> Result<Found> {
    let mut arguments = point.arguments();
    for (flag, value) in [("--seconds", grid.seconds), ("--warm-up", grid.warm_up)] {
        arguments.extend([flag.to_owned(), value.to_string()]);
    }
    arguments.extend(["--seed".to_owned(), seed.to_string()]);
    let [output, errors] = [tempfile::tempfile(), tempfile::tempfile()];
    let (mut output, mut errors) = (output.context("no temporary file")?, errors.context("no temporary file")?);
    let (to_output, to_errors) = (output.try_clone()?, errors.try_clone()?);
    let planted = point.planted_ns.map(|ns| (PLANTED, ns.to_string()));
    let mut child =
        OwnedChild::spawn(driver, arguments, |command| command.envs(planted).stdout(to_output).stderr(to_errors))?;
    let status = loop {
        if let Some(status) = child.0.try_wait().with_context(|| format!("cannot wait for {}", driver.display()))? {
            break status;
        }
        interrupt.sleep(LOOK_EVERY)?;
    };
    must_have_ended_well(point, status, interrupt, &mut errors)?;
    serde_json::from_str(&written(&mut output)?).with_context(|| format!("what {point} printed"))
}

/// Fails if the driver did. One that somebody ended with a signal was interrupted, as the lab may have been.
fn must_have_ended_well(point: &Point, status: ExitStatus, interrupt: &Interrupt, errors: &mut File) -> Result<()> {
    if status.success() {
        return Ok(());
    }
    interrupt.check()?;
    if status.signal().is_some_and(|signal| [SIGINT, SIGTERM].contains(&signal)) {
        return Err(Interrupted.into());
    }
    bail!("{point}: the driver failed ({status}): {}", written(errors)?.trim())
}

/// What was written to a file that a child got.
fn written(file: &mut File) -> Result<String> {
    let mut bytes = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut bytes)).context("cannot read what the driver printed")?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The digest of a file, as the header has it.
fn digest(bytes: &[u8]) -> String {
    sha256(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_has_every_point_and_a_seed_gives_the_order() {
        let grid = Grid::parse(
            "question = 'x'\nthreads = [1, 2]\nrepeats = 3\n[[block]]\nname = 'a'\nengines = ['mutex', 'actor/1']\n\
             batch = [1, 16]",
        )
        .unwrap();
        let found = order(&grid, 5);
        assert_eq!(found.len(), 3 * 2 * 2 * 2);
        for round in found.chunks(8) {
            let mut names: Vec<String> = round.iter().map(|(_, point)| point.to_string()).collect();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), 8);
        }
        let mut more = grid.clone();
        more.block[0].repeats = Some(5);
        assert_eq!(order(&more, 5).len(), 5 * 8);
        assert_eq!(order(&grid, 5), found);
        assert_ne!(order(&grid, 6), found);
    }

    #[test]
    fn a_driver_that_a_signal_ended_was_interrupted_and_any_other_failure_says_why() {
        let grid = "question = 'x'\nthreads = [1]\nrepeats = 1\n[[block]]\nname = 'a'\nengines = ['mutex']";
        let point = Grid::parse(grid).unwrap().points().swap_remove(0);
        let ended = |raw: i32| {
            let mut errors = tempfile::tempfile().unwrap();
            std::io::Write::write_all(&mut errors, b"no such engine").unwrap();
            must_have_ended_well(&point, ExitStatus::from_raw(raw), &Interrupt::default(), &mut errors)
        };
        ended(0).unwrap();
        for signal in [SIGINT, SIGTERM] {
            assert!(ended(signal).unwrap_err().is::<Interrupted>(), "{signal}");
        }
        let failed = ended(1 << 8).unwrap_err();
        assert!(!failed.is::<Interrupted>() && failed.to_string().contains("no such engine"), "{failed}");
    }

    #[test]
    fn windows_are_shortened_until_all_fit_and_then_rounds_are_left_out() {
        let text = "question = 'x'\nthreads = [1]\nrepeats = 3\nwarm_up = 0.2\n[[block]]\nname = 'a'\nengines = ['mutex']\n\
                    batch = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]\n[[block]]\nname = 'b'\nengines = ['mutex']\n\
                    repeats = 7";
        let fitted = |seconds: f64| {
            let mut grid = Grid::parse(text).unwrap();
            fit(&mut grid, seconds);
            grid
        };
        let all = fitted(37.0);
        assert_eq!((all.rounds(), all.trials()), (7, 37));
        assert!((all.seconds - 0.45).abs() < 1e-9);
        assert!((expected_seconds(&all) - 37.0).abs() < 1e-9);
        let fewer = fitted(15.0);
        assert_eq!((fewer.rounds(), fewer.repeats_of("a"), fewer.repeats_of("b")), (2, 2, 2));
        assert!(fewer.seconds >= SECONDS_MIN && expected_seconds(&fewer) <= 15.0 + 1e-9);
        let fewest = fitted(1.0);
        assert_eq!((fewest.rounds(), fewest.trials()), (1, 11));
        assert!((fewest.seconds - SECONDS_MIN).abs() < 1e-9);
    }

    #[test]
    fn the_grid_fits_on_a_machine_of_64_cores_into_the_kit_s_ten_minutes() {
        let mut grid = Grid::parse(include_str!("../../scaling/full.toml")).unwrap();
        grid.retain_threads(64);
        fit(&mut grid, 600.0);
        assert!(expected_seconds(&grid) <= 600.0, "{} trials", grid.trials());
    }
}
