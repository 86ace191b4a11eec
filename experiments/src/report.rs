//! The report: one HTML file that needs no network, with plots as inline SVG and every figure taken from the summary.
//! Beside it `summary.json` and `summary.csv` say the same to programs.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use askama::Template;

use crate::chart::{Chart, Mark, Scale, Series, Unit};
use crate::dimension::{Dimension, Line};
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
    swatch: String,
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

/// One plot set and one table: the points of a sweep that differ in their line and along the horizontal axis only.
struct Facet {
    title: String,
    x_title: String,
    /// Repeats per point: one number, or the least and the most.
    n: String,
    /// The lines, with the style of each one's swatch.
    legend: Vec<(String, String)>,
    plots: Vec<(&'static str, String)>,
    rows: Vec<Row>,
}

struct Row {
    x: String,
    line: String,
    swatch: String,
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
        swatch: swatch(colour_of(record, name), 0),
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
    for title in points.iter().map(|one| facet_title(sweep, &axis, &one.point)) {
        if !titles.contains(&title) {
            titles.push(title);
        }
    }
    let members = |title: &String| -> Vec<&PointSummary> {
        points.iter().copied().filter(|one| facet_title(sweep, &axis, &one.point) == *title).collect()
    };
    let facets =
        titles.iter().map(|title| facet(record, sweep, &axis, title, &members(title))).collect::<Result<_>>()?;
    Ok(SweepView { name: sweep.name.clone(), question: sweep.question.clone(), settings: settings(sweep), facets })
}

/// What is the same at every point, and the method's numbers.
fn settings(sweep: &Sweep) -> String {
    let fixed = Dimension::all(sweep).into_iter().filter(|dimension| dimension.count(sweep) == 1);
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

fn facet_title(sweep: &Sweep, axis: &Dimension, point: &Point) -> String {
    let varied = Dimension::all(sweep)
        .into_iter()
        .filter(|dimension| dimension != axis && *dimension != Dimension::Variant && dimension.count(sweep) > 1);
    varied.map(|dimension| format!("{} {}", dimension.title(), dimension.label(point))).collect::<Vec<_>>().join(", ")
}

fn facet(record: &RunRecord, sweep: &Sweep, axis: &Dimension, title: &str, points: &[&PointSummary]) -> Result<Facet> {
    let lines = Line::all(sweep, axis);
    let plot = |&(metric, title, scale, unit): &(Metric, &'static str, Scale, Unit)| {
        let series = lines.iter().map(|line| series(record, sweep, axis, metric, line, points)).collect();
        let chart = Chart { x_title: axis.title(), x_ticks: axis.ticks(sweep), scale, unit, series };
        Ok((title, chart.to_svg()?))
    };
    Ok(Facet {
        title: title.to_owned(),
        x_title: axis.title(),
        n: repeats(points),
        legend: lines.iter().map(|line| (line.label.clone(), line_swatch(record, line))).collect(),
        plots: PLOTS.iter().map(plot).collect::<Result<_>>()?,
        rows: rows(record, sweep, axis, &lines, points),
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
    axis: &Dimension,
    metric: Metric,
    line: &Line,
    points: &[&PointSummary],
) -> Series {
    let own = points.iter().filter(|one| line.holds(&one.point));
    let marks = own.map(|one| {
        let estimate = &one.figures[&metric];
        let x = axis.position(sweep, &one.point);
        Mark { x, low: estimate.low(), value: estimate.median, high: estimate.high() }
    });
    Series { colour: colour_of(record, &line.server), rank: line.rank, marks: marks.collect() }
}

/// The rows of a table, from left to right on the axis, and line by line at each place of it.
fn rows(record: &RunRecord, sweep: &Sweep, axis: &Dimension, lines: &[Line], points: &[&PointSummary]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (position, x) in axis.ticks(sweep) {
        let here = points.iter().filter(|one| axis.position(sweep, &one.point) == position);
        let here: Vec<&PointSummary> = here.copied().collect();
        let on_lines =
            lines.iter().flat_map(|line| here.iter().filter(|one| line.holds(&one.point)).map(move |one| (line, one)));
        rows.extend(on_lines.enumerate().map(|(index, (line, one))| row(record, &x, index == 0, line, one)));
    }
    rows
}

fn row(record: &RunRecord, x: &str, first: bool, line: &Line, one: &PointSummary) -> Row {
    Row {
        x: x.to_owned(),
        line: line.label.clone(),
        swatch: line_swatch(record, line),
        first,
        cells: Metric::ALL.iter().map(|&metric| cell(one, metric)).collect(),
        n: one.records.len(),
        hits: one.hit_ratio.map_or("–".to_owned(), |ratio| format!("{:.1} %", ratio * 100.0)),
        notes: notes(one),
        records: one.records.clone(),
    }
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

fn line_swatch(record: &RunRecord, line: &Line) -> String {
    swatch(colour_of(record, &line.server), line.rank)
}

/// A dot as the plots have it: the first line of a server has full ones, the others hollow ones.
fn swatch((red, green, blue): (u8, u8, u8), rank: usize) -> String {
    let inside = if rank == 0 { format!("rgb({red},{green},{blue})") } else { "#fff".to_owned() };
    format!("border-color:rgb({red},{green},{blue});background:{inside}")
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
    fn loads_that_differ_in_anything_but_the_axis_have_plots_of_their_own() {
        let text =
            "question='?'\nservers=['a']\ntest_seconds=1\nwarm_up_seconds=0\nrepeats=1\nclients=[1,2]\npipeline=[1,16]";
        let both = Sweep::parse("s", text).unwrap();
        let titles: Vec<String> =
            crate::plan::points(&both).iter().map(|point| facet_title(&both, &Dimension::Clients, point)).collect();
        assert_eq!(titles, ["pipeline 1", "pipeline 1", "pipeline 16", "pipeline 16"]);
    }
}
