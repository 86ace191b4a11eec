//! `loadgen compare`: the percentiles of several runs side by side, how sure their differences
//! relative to the first are, and a plot of latency by percentile.
//!
//! A side is a `.hlog` file, or a directory of the files of repeated runs.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use comfy_table::CellAlignment;
use hdrhistogram::Histogram;

use crate::base::{Error, invalid};
use crate::cli::CompareFlags;
use crate::record::value_at_percentile;
use crate::report::{Caveats, millis, plain_table, unsent_text};

mod difference;
mod html;
mod plot;
mod read;

use difference::{Difference, RUNS_MIN, differences};
pub use read::Dump;

const PERCENTILES: [f64; 9] = [0.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 100.0];
const SIGNIFICANT_DIGITS: u8 = 3;

/// One observation.
#[derive(Clone, Debug)]
struct Run {
    histogram: Histogram<u64>,
    length: Duration,
}

/// One of the compared sides.
#[derive(Clone, Debug)]
struct Side {
    name: String,
    histogram: Histogram<u64>,
    duration: Duration,
    /// One at least.
    runs: Vec<Run>,
    flaws: Flaws,
}

/// Files of the runs that mean less than they seem to.
#[derive(Clone, Debug, Default)]
struct Flaws {
    invalid: Vec<String>,
    interrupted: Vec<String>,
    unsent: Vec<String>,
    errors: Vec<String>,
    /// Requests that were due and never sent, all runs together.
    unsent_requests: u64,
}

fn empty_histogram() -> Histogram<u64> {
    Histogram::new(SIGNIFICANT_DIGITS).expect("three digits are valid")
}

impl Side {
    fn read(path: &Path, tag: Option<&str>) -> Result<Self, Error> {
        let dumps = if path.is_dir() {
            logs_in(path)?.iter().map(|log| Dump::read(log, tag)).collect::<Result<Vec<_>, _>>()?
        } else {
            vec![Dump::read(path, tag)?]
        };
        let flaws = Flaws::of(&dumps);
        let mut histogram = empty_histogram();
        for dump in &dumps {
            histogram.add(&dump.histogram).map_err(|error| Error::format(path, error.to_string()))?;
        }
        let duration = dumps.iter().map(|dump| dump.duration).sum();
        let runs = dumps.into_iter().map(|dump| Run { histogram: dump.histogram, length: dump.duration }).collect();
        Ok(Self { name: path.display().to_string(), histogram, duration, runs, flaws })
    }

    /// What its intervals are based on.
    fn describe(&self) -> String {
        let what = if self.runs.len() == 1 { "run" } else { "runs" };
        let mut text = format!("{} requests in {} {what}", self.histogram.len(), self.runs.len());
        if self.runs.len() < RUNS_MIN {
            text.push_str(&format!(
                " (how much runs differ from each other is not known: a verdict takes {RUNS_MIN} runs on each side)"
            ));
        }
        text.push_str(&self.flaws.describe());
        text
    }

    fn requests_per_second(&self) -> f64 {
        let seconds = self.duration.as_secs_f64();
        if seconds > 0.0 { self.histogram.len() as f64 / seconds } else { 0.0 }
    }

    #[cfg(test)]
    fn for_tests(runs: Vec<Run>) -> Self {
        let mut histogram = empty_histogram();
        runs.iter().for_each(|run| histogram.add(&run.histogram).expect("the same bounds"));
        let duration = runs.iter().map(|run| run.length).sum();
        Self { name: "test".into(), histogram, duration, runs, flaws: Flaws::default() }
    }
}

impl Flaws {
    fn of(dumps: &[Dump]) -> Self {
        let names = |is_flawed: fn(&Caveats) -> bool| {
            let flawed = dumps.iter().filter(|dump| is_flawed(&dump.caveats));
            flawed.map(|dump| dump.path.display().to_string()).collect()
        };
        Self {
            invalid: names(|caveats| !caveats.faults.is_empty()),
            interrupted: names(|caveats| caveats.is_interrupted),
            unsent: names(|caveats| caveats.unsent > 0),
            errors: names(|caveats| caveats.errors > 0),
            unsent_requests: dumps.iter().map(|dump| dump.caveats.unsent).sum(),
        }
    }

    /// To follow the number of runs; empty if there are none.
    fn describe(&self) -> String {
        let mut text = String::new();
        let parts = [
            ("INVALID", &self.invalid),
            ("INTERRUPTED", &self.interrupted),
            ("UNSENT", &self.unsent),
            ("ERROR REPLIES", &self.errors),
        ];
        for (what, files) in parts.into_iter().filter(|(_, files)| !files.is_empty()) {
            text.push_str(&format!("; {what}: {}", files.join(", ")));
        }
        if self.unsent_requests > 0 {
            text.push_str(&format!(": {}", unsent_text(self.unsent_requests)));
        }
        text
    }
}

/// The logs of latency in a directory, by name: not those of service time, and not the totals.
fn logs_in(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(directory).map_err(|source| Error::file(directory, source))?;
    let mut logs: Vec<PathBuf> = Vec::new();
    for entry in entries {
        let path = entry.map_err(|source| Error::file(directory, source))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_other = [".service.hlog", ".total.hlog"].iter().any(|ending| name.ends_with(ending));
        if name.ends_with(".hlog") && !is_other {
            logs.push(path);
        }
    }
    logs.sort();
    if logs.is_empty() {
        return Err(Error::format(directory, "no .hlog files of latency"));
    }
    Ok(logs)
}

/// Reads the sides, prints the tables, and writes plot and page if requested.
pub fn run(flags: &CompareFlags, out: &mut dyn Write) -> Result<(), Error> {
    if !(0.0..=100.0).contains(&flags.margin) {
        return invalid("--margin", flags.margin, "expected 0 to 100 per cent");
    }
    let sides = flags.files.iter().map(|path| Side::read(path, flags.tag.as_deref())).collect::<Result<Vec<_>, _>>()?;
    let differences: Vec<Vec<Difference>> =
        sides[1..].iter().map(|side| differences(&sides[0], side, flags.margin)).collect();
    if let Some(path) = &flags.svg {
        fs::write(path, plot::file(&sides)).map_err(|source| Error::file(path, source))?;
    }
    if let Some(path) = &flags.html {
        fs::write(path, html::page(&sides, &differences, flags.margin)).map_err(|source| Error::file(path, source))?;
    }
    // Last, because a reader of the first lines only must still get the files.
    print(&sides, &differences, flags.margin, out).map_err(|source| Error::file(Path::new("stdout"), source))
}

fn print(sides: &[Side], differences: &[Vec<Difference>], margin: f64, out: &mut dyn Write) -> io::Result<()> {
    let mut table = plain_table();
    let mut header = vec!["latency, ms".to_owned(), sides[0].name.clone()];
    for side in &sides[1..] {
        header.extend([side.name.clone(), "difference".to_owned()]);
    }
    table.set_header(header);
    for (name, value, show) in rows() {
        table.add_row(row(sides, &name, value, show));
    }
    align_right(&mut table);
    writeln!(out, "{table}")?;
    for (side, differences) in sides[1..].iter().zip(differences) {
        writeln!(out, "\n{} against {}", side.name, sides[0].name)?;
        let mut table = plain_table();
        table.set_header(["", "difference", "95 % interval", "verdict"]);
        for difference in differences {
            let name = difference.metric.name();
            let percent = format!("{} %", show_percent(difference.percent));
            table.add_row([name, percent, show_interval(difference), difference.verdict.name(margin)]);
        }
        align_right(&mut table);
        writeln!(out, "{table}")?;
    }
    writeln!(out)?;
    sides.iter().try_for_each(|side| writeln!(out, "{}: {}", side.name, side.describe()))
}

fn align_right(table: &mut comfy_table::Table) {
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

fn show_interval(difference: &Difference) -> String {
    let show = |(low, high)| format!("{} .. {} %", show_percent(low), show_percent(high));
    difference.interval.map_or("too few runs".to_owned(), show)
}

/// Three digits or more are enough for a difference.
fn show_percent(percent: f64) -> String {
    if percent.abs() < 100.0 { format!("{percent:+.1}") } else { format!("{percent:+.0}") }
}

type Value = Box<dyn Fn(&Side) -> f64>;
type Show = fn(f64) -> String;

/// Name, value and form of each row.
fn rows() -> Vec<(String, Value, Show)> {
    let ms: Show = |ns| millis(ns as u64);
    let whole: Show = |count| format!("{count:.0}");
    let percentile = |percentile: f64| -> (String, Value, Show) {
        let value = move |side: &Side| value_at_percentile(&side.histogram, percentile) as f64;
        (format!("p{percentile}"), Box::new(value), ms)
    };
    let mut rows: Vec<(String, Value, Show)> = PERCENTILES.into_iter().map(percentile).collect();
    rows.push(("mean".into(), Box::new(|side: &Side| side.histogram.mean()), ms));
    rows.push(("requests".into(), Box::new(|side: &Side| side.histogram.len() as f64), whole));
    rows.push(("requests/s".into(), Box::new(Side::requests_per_second), whole));
    rows
}

/// Each row's name, and the value of every side.
fn latency_rows(sides: &[Side]) -> Vec<(String, Vec<String>)> {
    let shown = |value: &Value, show: Show| sides.iter().map(|side| show(value(side))).collect();
    rows().into_iter().map(|(name, value, show)| (name, shown(&value, show))).collect()
}

fn row(sides: &[Side], name: &str, value: Value, show: Show) -> Vec<String> {
    let first = value(&sides[0]);
    let mut row = vec![name.to_owned(), show(first)];
    for side in &sides[1..] {
        row.extend([show(value(side)), difference(first, value(side))]);
    }
    row
}

fn difference(first: f64, other: f64) -> String {
    if first == 0.0 { "-".to_owned() } else { format!("{:+.1} %", (other / first - 1.0) * 100.0) }
}
