//! `experiments scaling`: the engines without sockets, on one thread up to the number of cores, and a model's predictions
//! for machines with more cores.
//!
//! The driver `shardrace-scaling` runs one engine with one load and prints its measurement. This module runs it for every
//! point of a grid ([`grid`]) several times, in random order, and keeps what it prints in one file ([`record`]). Figures
//! come from that file alone: curves ([`curves`]), and the predictions of a model ([`model`]), which are checked at points
//! that it was not fitted to ([`predictions`]).

pub mod curves;
pub mod grid;
pub mod model;
pub mod planted;
pub mod predictions;
pub mod record;

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::base::digest::sha256;
use crate::base::environment::Environment;
use crate::base::interrupt::Interrupt;
use crate::base::rng::Rng;
use crate::plan::catalog::Program;
use grid::{Grid, Point};
use record::{Found, Header, Recorded, Trial};

/// The name of the driver, which is beside this executable.
const DRIVER: &str = "shardrace-scaling";

/// The environment variable that makes a driver with the feature `planted-cost` waste time under the mutex engine's lock.
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
/// What a trial takes besides its window and warm-up: the start of a process, and filling.
const OVERHEAD_SECONDS: f64 = 0.35;

/// Runs all trials, then writes the file.
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
    let order = order(&grid, options.seed);
    ensure!(!order.is_empty(), "no point of the grid has so few threads as there are cores, {cores}");
    if let Some(minutes) = options.minutes {
        grid.seconds = window(minutes * 60.0, order.len(), grid.warm_up);
    }
    let interrupt = Interrupt::install()?;
    let header = Header::new(&grid, options.seed, &fs::read(&driver)?, Environment::record());
    let start = Instant::now();
    let mut trials = Vec::new();
    for (number, (repeat, point)) in order.iter().enumerate() {
        interrupt.check()?;
        let found = measure(&driver, point, &grid, options.seed.wrapping_add(number as u64))?;
        eprintln!("{:>4}/{} {} {:.0}/s", number + 1, order.len(), point, found.per_second());
        trials.push(Trial { block: point.block.clone(), repeat: *repeat, planted_ns: point.planted_ns, found });
    }
    let recorded = Recorded { header, trials };
    recorded.write(&options.out)?;
    eprintln!("{} trials in {:.0} s: {}", order.len(), start.elapsed().as_secs_f64(), options.out.display());
    Ok(())
}

/// The tables of a file, as documents show them.
pub fn tables(file: &Path) -> Result<String> {
    let recorded = Recorded::read(file)?;
    let mut text = machine(&recorded) + "\n";
    for block in recorded.blocks() {
        let is_planted = recorded.trials.iter().any(|trial| trial.block == block && trial.planted_ns.is_some());
        let table = if is_planted { planted::table(&recorded, &block) } else { curves::table(&recorded, &block) };
        text.push_str(&format!("\n{block}:{}", table?));
    }
    if predictions::Inputs::of(&recorded).is_ok() {
        for table in [predictions::inputs, predictions::checks, predictions::table] {
            text.push_str(&table(&recorded)?);
        }
    }
    Ok(text)
}

/// The predictions from one file beside the measurements in another.
pub fn comparison(predicted: &Path, measured: &Path) -> Result<String> {
    let (predicted, measured) = (Recorded::read(predicted)?, Recorded::read(measured)?);
    let table = predictions::comparison(&predicted, &measured)?;
    Ok(format!("predicted from: {}\n\nmeasured on: {}\n{table}", machine(&predicted), machine(&measured)))
}

/// The result of a query in a document: `FILE machine`, `FILE curves BLOCK`, `FILE planted BLOCK`, `FILE inputs`, `FILE
/// checks`, `FILE predictions`.
pub fn query(root: &Path, words: &[&str]) -> Result<String> {
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
    let unknown = || "unknown".to_owned();
    format!(
        "{}, {} cores{}, Linux {}; commit {}{}, driver {}; {}; {} trials of {:.2} s, seed {seed}",
        environment.cpu.clone().unwrap_or_else(unknown),
        environment.cores,
        if environment.virtual_machine { " of a virtual machine" } else { "" },
        environment.kernel.clone().unwrap_or_else(unknown),
        environment.git_sha.as_ref().map_or_else(unknown, |sha| sha.chars().take(12).collect()),
        if environment.git_dirty == Some(true) { " with uncommitted changes" } else { "" },
        &driver[..12],
        started,
        recorded.trials.len(),
        grid.seconds,
    )
}

/// The length of a window with which all trials fit.
fn window(seconds: f64, trials: usize, warm_up: f64) -> f64 {
    (seconds / trials.max(1) as f64 - warm_up - OVERHEAD_SECONDS).max(SECONDS_MIN)
}

/// Every point once in each round, each round in a random order, so that drift affects all points alike.
fn order(grid: &Grid, seed: u64) -> Vec<(u32, Point)> {
    let mut rng = Rng::new(seed);
    let points = grid.points();
    let mut order = Vec::new();
    let rounds = points.iter().map(|point| grid.repeats_of(&point.block)).max().unwrap_or(0);
    for repeat in 1..=rounds {
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

fn measure(driver: &Path, point: &Point, grid: &Grid, seed: u64) -> Result<Found> {
    let output = Command::new(driver)
        .envs(point.planted_ns.map(|ns| (PLANTED, ns.to_string())))
        .args(point.arguments())
        .args(["--seconds", &grid.seconds.to_string(), "--warm-up", &grid.warm_up.to_string()])
        .args(["--seed", &seed.to_string()])
        .output()
        .with_context(|| format!("cannot start {}", driver.display()))?;
    if !output.status.success() {
        bail!("{point}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let found: Found = serde_json::from_slice(&output.stdout).with_context(|| format!("what {point} printed"))?;
    ensure!(found.requests > 0, "{point}: no request was done in the window");
    Ok(found)
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
    fn windows_are_shortened_until_all_fit_and_not_further() {
        assert!((window(100.0, 100, 0.2) - 0.45).abs() < 1e-9);
        assert!((window(1.0, 100, 0.2) - SECONDS_MIN).abs() < 1e-9);
    }
}
