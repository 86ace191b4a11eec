//! The report: one HTML file that needs no network, with plots as inline SVG and every figure taken from the summary.
//! Beside it `summary.json` and `summary.csv` say the same to programs.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use askama::Template;

use crate::chart::{Chart, Mark, Scale, Series, Unit};
use crate::plan::{Point, Trial};
use crate::results::{RunFolder, RunRecord, to_json, write_whole};
use crate::summary::{Metric, PointSummary, Summary};
use crate::sweep::Sweep;

/// Colours that people with colour blindness tell apart (Okabe and Ito), by server, then for servers of other names.
const COLOURS: [(&str, (u8, u8, u8)); 8] = [
    ("mutex", (230, 159, 0)),
    ("dashmap", (0, 158, 115)),
    ("actor", (0, 114, 178)),
    ("redis-server", (213, 94, 0)),
    ("valkey-server", (204, 121, 167)),
    ("", (86, 180, 233)),
    ("", (90, 90, 90)),
    ("", (150, 130, 20)),
];

/// The plots of a facet.
const PLOTS: [(Metric, &str, Scale, Unit); 6] = [
    (Metric::OpsPerSec, "Throughput, operations per second", Scale::Linear, Unit::Count),
    (Metric::ServerCpuUsPerOp, "Server CPU per operation", Scale::Linear, Unit::Microseconds),
    (Metric::P50Us, "Latency p50", Scale::Logarithmic, Unit::Microseconds),
    (Metric::P99Us, "Latency p99", Scale::Logarithmic, Unit::Microseconds),
    (Metric::P999Us, "Latency p99.9", Scale::Logarithmic, Unit::Microseconds),
    (Metric::ServerRssPeakMib, "Server memory, peak resident", Scale::Linear, Unit::Mebibytes),
];

#[derive(Template)]
#[template(path = "report.html")]
struct Page {
    name: String,
    started: String,
    seed: u64,
    resumed: u32,
    trials: usize,
    trials_done: usize,
    /// Trials done in which others used the machine.
    disturbed: usize,
    machine: Vec<(&'static str, String)>,
    servers: Vec<ServerView>,
    absent: Vec<(String, String)>,
    sweeps: Vec<SweepView>,
    order: Vec<(String, u32, String)>,
}

struct ServerView {
    name: String,
    colour: String,
    version: String,
    itself: String,
    command: String,
    digest: String,
}

struct SweepView {
    name: String,
    question: String,
    settings: String,
    facets: Vec<Facet>,
}

/// One plot set and one table: the points of a sweep that differ in server and in the horizontal axis only.
struct Facet {
    title: String,
    x_title: &'static str,
    /// Repeats per point: one number, or the least and the most.
    n: String,
    legend: Vec<(String, String)>,
    plots: Vec<(&'static str, String)>,
    rows: Vec<Row>,
}

struct Row {
    x: String,
    server: String,
    colour: String,
    /// The first row of its group of equal `x`.
    first: bool,
    cells: Vec<Cell>,
    n: usize,
    hits: String,
    notes: String,
    records: Vec<String>,
}

struct Cell {
    value: f64,
    text: String,
    interval: String,
}

/// A coordinate that a sweep may vary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dimension {
    Clients,
    Pipeline,
    Variant,
    DataSize,
    Ratio,
    KeyPattern,
}

/// Writes `report.html`, `summary.json` and `summary.csv`, and returns the first's path.
pub fn write(run: &RunFolder) -> Result<PathBuf> {
    let summary = Summary::of(run)?;
    ensure!(
        summary.trials_done > 0,
        "{} holds no trial: raw data are not committed; measure with --out",
        run.path.join("raw").display()
    );
    write_whole(&run.path.join("summary.json"), &to_json(&summary)?)?;
    write_whole(&run.path.join("summary.csv"), &summary.to_csv())?;
    let path = run.path.join("report.html");
    write_whole(&path, &html(run, &summary)?)?;
    Ok(path)
}

fn html(run: &RunFolder, summary: &Summary) -> Result<String> {
    let record = &run.record;
    let page = Page {
        name: run.path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        started: record.started.clone(),
        seed: record.seed,
        resumed: record.resumed,
        trials: summary.trials,
        trials_done: summary.trials_done,
        disturbed: summary.points.iter().map(|point| point.disturbed).sum(),
        machine: machine(record),
        servers: record.setup.servers.iter().map(|server| server_view(record, summary, &server.name)).collect(),
        absent: record.setup.absent.iter().map(|absent| (absent.name.clone(), absent.reason.clone())).collect(),
        sweeps: record.setup.sweeps.iter().map(|sweep| sweep_view(record, summary, sweep)).collect::<Result<_>>()?,
        order: record.order.iter().map(order_line).collect(),
    };
    page.render().context("cannot render the report")
}

fn machine(record: &RunRecord) -> Vec<(&'static str, String)> {
    let environment = &record.environment;
    let unknown = || "unknown".to_owned();
    let text = |value: &Option<String>| value.clone().unwrap_or_else(unknown);
    let commit = match (&environment.git_sha, environment.git_dirty) {
        (Some(sha), Some(true)) => format!("{sha}, with uncommitted changes"),
        (sha, _) => text(sha),
    };
    let generator = &record.setup.generator;
    vec![
        ("CPU", text(&environment.cpu)),
        (
            "Cores",
            format!("{}{}", environment.cores, if environment.virtual_machine { ", virtual machine" } else { "" }),
        ),
        ("Governor", environment.governor.clone().unwrap_or_else(|| "not exposed".to_owned())),
        ("Memory", environment.memory_bytes.map_or_else(unknown, |bytes| format!("{} MiB", bytes >> 20))),
        ("Kernel", text(&environment.kernel)),
        ("System", text(&environment.system)),
        ("Open files", environment.open_files.map_or_else(unknown, |files| files.to_string())),
        ("Load before", environment.load_average.map_or_else(unknown, |load| format!("{load:.2}"))),
        ("rustc on PATH", text(&environment.rustc)),
        ("Commit", commit),
        ("Generator", format!("{} ({}), on the same machine", text(&generator.version), generator.digest)),
        ("Lab built as", environment.profile.clone()),
    ]
}

fn server_view(record: &RunRecord, summary: &Summary, name: &str) -> ServerView {
    let server = record.setup.server(name);
    let itself = summary.servers.get(name).into_iter().flatten();
    let itself: Vec<String> = itself.map(|(field, value)| format!("{field} {value}")).collect();
    ServerView {
        name: name.to_owned(),
        colour: css(colour_of(record, name)),
        version: server.program.version.clone().unwrap_or_else(|| "unknown".to_owned()),
        itself: if itself.is_empty() { "says nothing".to_owned() } else { itself.join(", ") },
        command: server.command_line(),
        digest: server.program.digest.clone(),
    }
}

fn order_line(trial: &Trial) -> (String, u32, String) {
    (trial.point.sweep.clone(), trial.round, trial.point.slug())
}

fn sweep_view(record: &RunRecord, summary: &Summary, sweep: &Sweep) -> Result<SweepView> {
    let points: Vec<&PointSummary> = summary.points.iter().filter(|one| one.point.sweep == sweep.name).collect();
    let axis = Dimension::axis_of(sweep);
    let mut titles: Vec<String> = Vec::new();
    for title in points.iter().map(|one| facet_title(sweep, axis, &one.point)) {
        if !titles.contains(&title) {
            titles.push(title);
        }
    }
    let members = |title: &String| -> Vec<&PointSummary> {
        points.iter().copied().filter(|one| facet_title(sweep, axis, &one.point) == *title).collect()
    };
    let facets =
        titles.iter().map(|title| facet(record, sweep, axis, title, &members(title))).collect::<Result<_>>()?;
    Ok(SweepView { name: sweep.name.clone(), question: sweep.question.clone(), settings: settings(sweep), facets })
}

/// What is the same at every point, and the method's numbers.
fn settings(sweep: &Sweep) -> String {
    let fixed = Dimension::ALL.iter().filter(|dimension| dimension.count(sweep) == 1);
    let point = crate::plan::points(sweep).swap_remove(0);
    let fixed: Vec<String> =
        fixed.map(|dimension| format!("{} {}", dimension.title(), dimension.label(&point))).collect();
    format!(
        "{}; {} keys, all prefilled; {} s warm-up, {} s window, {} repeats, {}; {} generator thread{}",
        fixed.join(", "),
        grouped(sweep.key_maximum as f64),
        sweep.warm_up_seconds,
        sweep.test_seconds,
        sweep.repeats,
        match sweep.retries {
            0 => "disturbed trials are marked, not repeated".to_owned(),
            retries => format!("disturbed trials are repeated up to {retries} times"),
        },
        sweep.threads,
        if sweep.threads == 1 { "" } else { "s" },
    )
}

fn facet_title(sweep: &Sweep, axis: Dimension, point: &Point) -> String {
    let varied = Dimension::ALL.iter().filter(|dimension| **dimension != axis && dimension.count(sweep) > 1);
    varied.map(|dimension| format!("{} {}", dimension.title(), dimension.label(point))).collect::<Vec<_>>().join(", ")
}

fn facet(record: &RunRecord, sweep: &Sweep, axis: Dimension, title: &str, points: &[&PointSummary]) -> Result<Facet> {
    let plot = |&(metric, title, scale, unit): &(Metric, &'static str, Scale, Unit)| {
        let series = sweep.servers.iter().map(|server| series(record, sweep, axis, metric, server, points)).collect();
        let x_title = axis.title().to_owned();
        let chart = Chart { x_title, x_ticks: axis.ticks(sweep), scale, unit, series };
        Ok((title, chart.to_svg()?))
    };
    Ok(Facet {
        title: title.to_owned(),
        x_title: axis.title(),
        n: repeats(points),
        legend: sweep.servers.iter().map(|name| (name.clone(), css(colour_of(record, name)))).collect(),
        plots: PLOTS.iter().map(plot).collect::<Result<_>>()?,
        rows: rows(record, axis, points),
    })
}

fn repeats(points: &[&PointSummary]) -> String {
    let counts = || points.iter().map(|one| one.records.len());
    match (counts().min(), counts().max()) {
        (Some(least), Some(most)) if least < most => format!("{least}–{most}"),
        (_, most) => most.unwrap_or(0).to_string(),
    }
}

fn series(
    record: &RunRecord,
    sweep: &Sweep,
    axis: Dimension,
    metric: Metric,
    server: &str,
    points: &[&PointSummary],
) -> Series {
    let own = points.iter().filter(|one| one.point.server == server);
    let marks = own.map(|one| {
        let estimate = &one.figures[&metric];
        let x = axis.position(sweep, &one.point);
        Mark { x, low: estimate.low(), value: estimate.median, high: estimate.high() }
    });
    Series { colour: colour_of(record, server), marks: marks.collect() }
}

fn rows(record: &RunRecord, axis: Dimension, points: &[&PointSummary]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for one in points {
        let x = axis.label(&one.point);
        let first = rows.last().is_none_or(|row| row.x != x);
        rows.push(Row {
            x,
            server: one.point.server.clone(),
            colour: css(colour_of(record, &one.point.server)),
            first,
            cells: Metric::ALL.iter().map(|&metric| cell(one, metric)).collect(),
            n: one.records.len(),
            hits: one.hit_ratio.map_or("–".to_owned(), |ratio| format!("{:.1} %", ratio * 100.0)),
            notes: notes(one),
            records: one.records.clone(),
        });
    }
    rows
}

fn cell(one: &PointSummary, metric: Metric) -> Cell {
    let estimate = &one.figures[&metric];
    let interval = estimate
        .interval
        .map_or("no interval".to_owned(), |(low, high)| format!("{} – {}", figure(metric, low), figure(metric, high)));
    Cell { value: estimate.median, text: figure(metric, estimate.median), interval }
}

fn notes(one: &PointSummary) -> String {
    let mut notes = Vec::new();
    if one.errors > 0 {
        notes.push(format!("{} error replies", one.errors));
    }
    if one.disturbed > 0 {
        notes.push(format!("{} disturbed", one.disturbed));
    }
    if one.generator_saturated > 0 {
        notes.push(format!("{} generator-bound", one.generator_saturated));
    }
    notes.join(", ")
}

/// A figure at the precision that its metric deserves.
fn figure(metric: Metric, value: f64) -> String {
    match metric {
        Metric::OpsPerSec => grouped(value),
        Metric::P50Us | Metric::P99Us | Metric::P999Us if value >= 100.0 => grouped(value),
        Metric::P50Us | Metric::P99Us | Metric::P999Us => format!("{value:.1}"),
        Metric::ServerCpuUsPerOp | Metric::GeneratorCpuUsPerOp => format!("{value:.2}"),
        Metric::ServerRssPeakMib => format!("{value:.1}"),
    }
}

/// A whole number with its thousands apart.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| str::from_utf8(group).unwrap_or("")).collect();
    groups.join(",")
}

fn colour_of(record: &RunRecord, server: &str) -> (u8, u8, u8) {
    let known = |name: &str| COLOURS.iter().find(|(known, _)| *known == name).map(|(_, colour)| *colour);
    known(server).unwrap_or_else(|| {
        let others: Vec<&str> =
            record.setup.servers.iter().map(|s| s.name.as_str()).filter(|name| known(name).is_none()).collect();
        let spare = COLOURS.iter().filter(|(known, _)| known.is_empty()).map(|(_, colour)| *colour);
        let place = others.iter().position(|name| *name == server).unwrap_or(0);
        spare.cycle().nth(place).expect("there are spare colours")
    })
}

fn css((red, green, blue): (u8, u8, u8)) -> String {
    format!("rgb({red},{green},{blue})")
}

impl Dimension {
    const ALL: [Self; 6] =
        [Self::Clients, Self::Pipeline, Self::Variant, Self::DataSize, Self::Ratio, Self::KeyPattern];

    /// The horizontal axis of a sweep: the first dimension that varies.
    fn axis_of(sweep: &Sweep) -> Self {
        Self::ALL.into_iter().find(|dimension| dimension.count(sweep) > 1).unwrap_or(Self::Clients)
    }

    fn count(self, sweep: &Sweep) -> usize {
        self.labels(sweep).len()
    }

    fn labels(self, sweep: &Sweep) -> Vec<String> {
        match self {
            Self::Clients => sweep.clients.iter().map(u32::to_string).collect(),
            Self::Pipeline => sweep.pipeline.iter().map(u32::to_string).collect(),
            Self::Variant => sweep.variants.iter().map(|variant| variant.name.clone()).collect(),
            Self::DataSize => sweep.data_size.iter().map(u32::to_string).collect(),
            Self::Ratio => sweep.ratio.iter().map(ToString::to_string).collect(),
            Self::KeyPattern => sweep.key_pattern.clone(),
        }
    }

    fn label(self, point: &Point) -> String {
        match self {
            Self::Clients => point.clients.to_string(),
            Self::Pipeline => point.pipeline.to_string(),
            Self::Variant => point.variant.clone(),
            Self::DataSize => point.data_size.to_string(),
            Self::Ratio => point.ratio.to_string(),
            Self::KeyPattern => point.key_pattern.clone(),
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Clients => "clients",
            Self::Pipeline => "pipeline",
            Self::Variant => "variant",
            Self::DataSize => "value bytes",
            Self::Ratio => "SET:GET",
            Self::KeyPattern => "keys SET:GET",
        }
    }

    /// Numbers lie on a logarithmic axis, names at equal distances.
    fn position(self, sweep: &Sweep, point: &Point) -> f64 {
        match self {
            Self::Clients => f64::from(point.clients).log10(),
            Self::Pipeline => f64::from(point.pipeline).log10(),
            Self::DataSize => f64::from(point.data_size).log10(),
            Self::Variant | Self::Ratio | Self::KeyPattern => {
                let label = self.label(point);
                self.labels(sweep).iter().position(|known| *known == label).unwrap_or(0) as f64
            }
        }
    }

    fn ticks(self, sweep: &Sweep) -> Vec<(f64, String)> {
        let mut ticks: Vec<(f64, String)> = Vec::new();
        for point in crate::plan::points(sweep) {
            let tick = (self.position(sweep, &point), self.label(&point));
            if !ticks.contains(&tick) {
                ticks.push(tick);
            }
        }
        ticks.sort_by(|a, b| a.0.total_cmp(&b.0));
        ticks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_grouped_by_thousands() {
        assert_eq!(
            [grouped(0.4), grouped(999.0), grouped(1234.0), grouped(1_234_567.0)],
            ["0", "999", "1,234", "1,234,567"]
        );
    }

    #[test]
    fn the_axis_is_the_first_dimension_that_varies() {
        let head = "question='?'\nservers=['a']\ntest_seconds=1\nwarm_up_seconds=0\nrepeats=1\n";
        let sweep = |rest: &str| Sweep::parse("s", &format!("{head}{rest}")).unwrap();
        assert_eq!(Dimension::axis_of(&sweep("clients=[1,2]\npipeline=[1,16]")), Dimension::Clients);
        assert_eq!(Dimension::axis_of(&sweep("clients=[50]\npipeline=[1,16]")), Dimension::Pipeline);
        let both = sweep("clients=[1,2]\npipeline=[1,16]");
        let titles: Vec<String> =
            crate::plan::points(&both).iter().map(|point| facet_title(&both, Dimension::Clients, point)).collect();
        assert_eq!(titles, ["pipeline 1", "pipeline 1", "pipeline 16", "pipeline 16"]);
    }
}
