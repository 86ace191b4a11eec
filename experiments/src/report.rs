//! The report: one HTML file that needs no network, with plots as inline SVG and every figure taken from the summary.
//! Beside it `summary.json` and `summary.csv` say the same to programs, and `plots/` holds each plot alone.
//!
//! A report is a function of `run.json`, `trials.jsonl` and the claims: [`render`] makes the text of all its files, so
//! that `verify` can make them again and compare.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use askama::Template;

use crate::analysis::{self, Comparison, JUDGED};
use crate::chart::{Chart, Mark, Scale, Series, Unit};
use crate::claims::{self, Claims};
use crate::compare::{SIGNIFICANCE, Verdict, smallest_effect};
use crate::dimension::{Dimension, Line};
use crate::noise;
use crate::observation::Observations;
use crate::results::{RunFolder, RunRecord, to_json, write_whole};
use crate::summary::{Metric, PointSummary, Summary};
use crate::sweep::{Sweep, Variant};

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
const PLOTS: [(Metric, &str, Scale, Unit); 5] = [
    (Metric::OpsPerSec, "Throughput, operations per second", Scale::Linear, Unit::Count),
    (Metric::P99Us, "Latency p99", Scale::Logarithmic, Unit::Microseconds),
    (Metric::SingleKeyP99Us, "Latency p99 of the commands of one key", Scale::Logarithmic, Unit::Microseconds),
    (Metric::ServerCpuUsPerOp, "Server CPU per operation", Scale::Linear, Unit::Microseconds),
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
    budget: Option<f64>,
    claims: Vec<ClaimView>,
    noise: Vec<NoiseView>,
    sweeps: Vec<SweepView>,
    skipped: Vec<(String, String)>,
}

struct ClaimView {
    claim: String,
    source: String,
    expected: String,
    found: String,
    outcome: &'static str,
    class: &'static str,
    note: String,
    sweep: Option<String>,
    lines: Vec<usize>,
}

/// The noise that an A/A sweep found.
struct NoiseView {
    sweep: String,
    slowdowns: Vec<String>,
    rows: Vec<NoiseRow>,
    injected: Vec<InjectedRow>,
}

struct NoiseRow {
    metric: &'static str,
    comparisons: usize,
    false_positives: String,
    floor: String,
    power: Vec<String>,
}

struct InjectedRow {
    place: String,
    stopped: String,
    found: String,
    p: String,
    verdict: &'static str,
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
    /// Names and flags of the variants.
    variants: Vec<(String, String)>,
    baseline: String,
    verdicts: String,
    facets: Vec<Facet>,
    crossings: Vec<CrossingView>,
    scaling: Vec<ScalingView>,
}

struct CrossingView {
    facet: String,
    text: String,
    share: String,
    clear: bool,
}

struct ScalingView {
    facet: String,
    line: String,
    /// The parameters with their intervals; empty where the fit is bad.
    parameters: Vec<String>,
    quality: String,
    residuals: String,
}

/// One plot set and one table: the points of a sweep that differ in their line and along the horizontal axis only.
struct Facet {
    title: String,
    x_title: String,
    /// Repeats per point: one number, or the least and the most.
    n: String,
    /// The lines, with the style of each one's swatch.
    legend: Vec<(String, String)>,
    plots: Vec<Plot>,
    columns: Vec<&'static str>,
    judged: Vec<&'static str>,
    rows: Vec<Row>,
}

struct Plot {
    title: &'static str,
    /// The file that holds it alone.
    file: String,
    svg: String,
}

struct Row {
    x: String,
    line: String,
    swatch: String,
    /// The first row of its group of equal `x`.
    first: bool,
    cells: Vec<Cell>,
    variation: String,
    judgements: Vec<Judgement>,
    n: usize,
    hits: String,
    notes: String,
    lines: Vec<usize>,
}

/// A verdict with the ratio that it rests on.
#[derive(Default)]
struct Judgement {
    word: &'static str,
    class: &'static str,
    ratio: String,
    detail: String,
}

struct Cell {
    value: f64,
    text: String,
    interval: String,
}

/// Writes all files of the report, and returns the path of `report.html`.
pub fn write(run: &RunFolder, claims: &[Claims]) -> Result<PathBuf> {
    let files = render(run, &run.observations()?, claims)?;
    let plots = run.path.join("plots");
    if plots.exists() {
        fs::remove_dir_all(&plots).with_context(|| format!("cannot empty {}", plots.display()))?;
    }
    fs::create_dir_all(&plots).with_context(|| format!("cannot create {}", plots.display()))?;
    for (name, text) in &files {
        write_whole(&run.path.join(name), text)?;
    }
    Ok(run.path.join("report.html"))
}

/// The text of every file of the report, by its path in the run's folder.
pub fn render(run: &RunFolder, observations: &Observations, claims: &[Claims]) -> Result<BTreeMap<String, String>> {
    let record = &run.record;
    let summary = Summary::of(record, observations)?;
    let name = run.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let page = page(name, record, &summary, observations, claims)?;
    let mut files = BTreeMap::new();
    for plot in page.sweeps.iter().flat_map(|sweep| &sweep.facets).flat_map(|facet| &facet.plots) {
        files.insert(plot.file.clone(), plot.svg.clone());
    }
    files.insert("summary.json".to_owned(), to_json(&summary)?);
    files.insert("summary.csv".to_owned(), summary.to_csv());
    files.insert("report.html".to_owned(), page.render().context("cannot render the report")?);
    Ok(files)
}

fn page(
    name: String,
    record: &RunRecord,
    summary: &Summary,
    observations: &Observations,
    claims: &[Claims],
) -> Result<Page> {
    let sweeps = &record.setup.sweeps;
    let absent = record.setup.absent.iter().filter(|absent| !absent.is_sweep);
    let skipped = record.setup.absent.iter().filter(|absent| absent.is_sweep);
    let pair = |absent: &crate::catalog::Absent| (absent.name.clone(), absent.reason.clone());
    Ok(Page {
        name,
        started: record.started.clone(),
        seed: record.seed,
        resumed: record.resumed,
        trials: summary.trials,
        trials_done: summary.trials_done,
        disturbed: summary.points.iter().map(|point| point.disturbed).sum(),
        machine: machine(record),
        servers: record.setup.servers.iter().map(|server| server_view(record, summary, &server.name)).collect(),
        absent: absent.map(pair).collect(),
        skipped: skipped.map(pair).collect(),
        budget: record.setup.budget_minutes,
        claims: claims::audit(record, summary, claims).into_iter().map(claim_view).collect(),
        noise: sweeps.iter().filter_map(|sweep| noise_view(summary, observations, sweep)).collect(),
        sweeps: sweeps.iter().map(|sweep| sweep_view(record, summary, sweep)).collect::<Result<_>>()?,
    })
}

fn claim_view(row: claims::Row) -> ClaimView {
    let expected = row.claim.expected.map_or(String::new(), |(low, high)| {
        if row.claim.crossing { format!("{low:.0}–{high:.0}") } else { format!("{low:.2}–{high:.2}") }
    });
    ClaimView {
        claim: row.claim.claim,
        source: row.source,
        expected,
        found: row.found,
        outcome: row.outcome.word(),
        class: match row.outcome {
            claims::Outcome::Reproduced => "good",
            claims::Outcome::NotReproduced => "bad",
            _ => "open",
        },
        note: row.claim.note,
        sweep: row.claim.sweep,
        lines: row.lines,
    }
}

fn noise_view(summary: &Summary, observations: &Observations, sweep: &Sweep) -> Option<NoiseView> {
    let found = noise::of(summary, sweep);
    let injected = noise::injected(summary, observations, sweep);
    (!found.is_empty()).then(|| NoiseView {
        sweep: sweep.name.clone(),
        slowdowns: noise::SLOWDOWNS.iter().map(|slowdown| format!("{:.0} %", slowdown * 100.0)).collect(),
        rows: found.iter().map(noise_row).collect(),
        injected: injected.iter().map(injected_row).collect(),
    })
}

fn noise_row(found: &noise::Noise) -> NoiseRow {
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let share = found.false_positives as f64 / found.comparisons.max(1) as f64;
    let (low, high) = found.share_interval;
    NoiseRow {
        metric: title(found.metric),
        comparisons: found.comparisons,
        false_positives: format!(
            "{} = {} [{} – {}]",
            found.false_positives,
            percent(share),
            percent(low),
            percent(high)
        ),
        floor: format!("± {}", percent(found.floor)),
        power: found.power.iter().map(|(_, power)| format!("{:.0} %", power * 100.0)).collect(),
    }
}

fn injected_row(found: &noise::Injected) -> InjectedRow {
    let one = &found.difference;
    InjectedRow {
        place: found.place.clone(),
        stopped: format!("{:.1} %", found.stopped_share * 100.0),
        found: format!("{:.3} [{:.3} – {:.3}]", one.ratio, one.low, one.high),
        p: probability(one.p),
        verdict: if one.p < SIGNIFICANCE && one.ratio < 1.0 { "found" } else { "not found" },
    }
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

fn sweep_view(record: &RunRecord, summary: &Summary, sweep: &Sweep) -> Result<SweepView> {
    let axis = Dimension::axis_of(sweep);
    // Equals are judged as noise, not as faster or slower.
    let comparisons = if sweep.equals.is_empty() { analysis::comparisons(summary, sweep) } else { Vec::new() };
    let facets = analysis::facets(summary, sweep, &axis);
    let facets = facets.iter().enumerate();
    let facets = facets.map(|(number, (title, points))| {
        let place = FacetPlace { record, sweep, axis: &axis, number, title };
        facet(&place, points, &comparisons)
    });
    Ok(SweepView {
        name: sweep.name.clone(),
        question: sweep.question.clone(),
        settings: settings(sweep),
        variants: sweep.variants.iter().map(variant_view).collect(),
        baseline: analysis::baseline_name(sweep),
        verdicts: verdict_counts(&comparisons),
        facets: facets.collect::<Result<_>>()?,
        crossings: analysis::crossings(summary, sweep).iter().map(|one| crossing_view(&axis, one)).collect(),
        scaling: analysis::scaling(summary, sweep).iter().map(scaling_view).collect(),
    })
}

fn variant_view(variant: &Variant) -> (String, String) {
    let mut flags = variant.flags.join(" ");
    if let Some(percent) = variant.stopped_percent {
        flags.push_str(&format!(", stopped by the lab for {percent} % of the time"));
    }
    (variant.name.clone(), flags)
}

/// How many comparisons of each metric came out how.
fn verdict_counts(comparisons: &[Comparison]) -> String {
    let of_metric = |metric: Metric| {
        let count = |verdict| comparisons.iter().filter(|one| one.metric == metric && one.verdict == verdict).count();
        let verdicts = [Verdict::Better, Verdict::Worse, Verdict::NoChange, Verdict::Inconclusive, Verdict::Invalid];
        let counted = verdicts.into_iter().map(|verdict| (count(verdict), verdict)).filter(|(count, _)| *count > 0);
        let words: Vec<String> = counted.map(|(count, verdict)| format!("{count} {}", verdict.word(metric))).collect();
        (!words.is_empty()).then(|| format!("{}: {}", title(metric), words.join(", ")))
    };
    JUDGED.into_iter().filter_map(of_metric).collect::<Vec<_>>().join("; ")
}

fn crossing_view(axis: &Dimension, one: &analysis::Crossing) -> CrossingView {
    let (low, high) = one.interval;
    CrossingView {
        facet: one.facet.clone(),
        text: format!(
            "{} overtakes {} at {} {} [{} – {}]",
            one.right,
            one.left,
            short_number(one.at),
            axis.title(),
            short_number(low),
            short_number(high)
        ),
        share: format!("{:.0} %", one.share * 100.0),
        clear: one.clear,
    }
}

fn scaling_view(one: &analysis::Scaling) -> ScalingView {
    let law = one.fit.law;
    let parameters = one.intervals.map_or(Vec::new(), |intervals| {
        let values = [law.lambda, law.sigma, law.kappa];
        let text = |(value, (low, high)): (f64, (f64, f64))| {
            format!("{} [{} – {}]", significant(value), significant(low), significant(high))
        };
        let mut texts: Vec<String> = values.into_iter().zip(intervals).map(text).collect();
        texts.push(law.peak().map_or("none".to_owned(), short_number));
        texts
    });
    let residual = |residual: &f64| format!("{:+.0} %", residual * 100.0);
    ScalingView {
        facet: one.facet.clone(),
        line: one.line.clone(),
        parameters,
        quality: format!("R² {:.3}, worst {:.0} %", one.fit.r_squared, one.fit.worst_residual() * 100.0),
        residuals: one.fit.residuals.iter().map(residual).collect::<Vec<_>>().join(", "),
    }
}

/// A place on an axis at the precision that such places deserve.
fn short_number(value: f64) -> String {
    if value < 10.0 { format!("{value:.1}") } else { grouped(value) }
}

/// Three digits.
fn significant(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 1000.0 => grouped(value),
        size if size >= 1e-3 => format!("{value:.*}", (2 - size.log10().floor() as i32).max(0) as usize),
        _ => format!("{value:.2e}"),
    }
}

fn probability(p: f64) -> String {
    if p < 0.001 { "< 0.001".to_owned() } else { format!("{p:.3}") }
}

/// The name of a metric, as a column has it.
pub fn title(metric: Metric) -> &'static str {
    match metric {
        Metric::OpsPerSec => "ops/s",
        Metric::P50Us => "p50 µs",
        Metric::P99Us => "p99 µs",
        Metric::P999Us => "p99.9 µs",
        Metric::SingleKeyP99Us => "one-key p99 µs",
        Metric::ServerCpuUsPerOp => "server CPU µs/op",
        Metric::ServerRssPeakMib => "peak MiB",
        Metric::GeneratorCpuUsPerOp => "generator CPU µs/op",
    }
}

/// What is the same at every point, and the method's numbers.
fn settings(sweep: &Sweep) -> String {
    let fixed = Dimension::all(sweep).into_iter().filter(|dimension| dimension.count(sweep) == 1);
    let point = crate::plan::points(sweep).swap_remove(0);
    let fixed: Vec<String> =
        fixed.map(|dimension| format!("{} {}", dimension.title(), dimension.label(&point))).collect();
    format!(
        "{}; {} keys, all prefilled; {} s warm-up, {} s window, {} repeats, {}; {} generator thread{}; smallest effect \
         of interest {} in throughput and CPU, {} in latency",
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
        format_args!("{:.0} %", smallest_effect(Metric::OpsPerSec) * 100.0),
        format_args!("{:.0} %", smallest_effect(Metric::P99Us) * 100.0),
    )
}

/// Which facet of which sweep.
struct FacetPlace<'a> {
    record: &'a RunRecord,
    sweep: &'a Sweep,
    axis: &'a Dimension,
    number: usize,
    title: &'a str,
}

fn facet(place: &FacetPlace, points: &[&PointSummary], comparisons: &[Comparison]) -> Result<Facet> {
    let (record, sweep, axis) = (place.record, place.sweep, place.axis);
    let lines = Line::all(sweep, axis);
    let has = |metric: &Metric| points.iter().all(|one| one.figures.contains_key(metric));
    let plot = |&(metric, title, scale, unit): &(Metric, &'static str, Scale, Unit)| {
        let series = lines.iter().map(|line| series(record, sweep, axis, metric, line, points)).collect();
        let chart = Chart { x_title: axis.title(), x_ticks: axis.ticks(sweep), scale, unit, series };
        let file = format!("plots/{}-{}-{}.svg", sweep.name, place.number + 1, metric.key());
        Ok(Plot { title, file, svg: chart.to_svg()? })
    };
    let columns: Vec<Metric> = Metric::ALL.into_iter().filter(has).collect();
    let judged = if comparisons.is_empty() { Vec::new() } else { JUDGED.into_iter().filter(has).collect() };
    Ok(Facet {
        title: place.title.to_owned(),
        x_title: axis.title(),
        n: repeats(points),
        legend: lines.iter().map(|line| (line.label.clone(), line_swatch(record, line))).collect(),
        plots: PLOTS.iter().filter(|(metric, ..)| has(metric)).map(plot).collect::<Result<_>>()?,
        columns: columns.iter().map(|&metric| title(metric)).collect(),
        judged: judged.iter().map(|&metric| title(metric)).collect(),
        rows: rows(place, &lines, points, &RowParts { columns: &columns, judged: &judged, comparisons }),
    })
}

/// What each row of a facet shows.
struct RowParts<'a> {
    columns: &'a [Metric],
    judged: &'a [Metric],
    comparisons: &'a [Comparison<'a>],
}

fn repeats(points: &[&PointSummary]) -> String {
    let counts = || points.iter().map(|one| one.lines.len());
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
fn rows(place: &FacetPlace, lines: &[Line], points: &[&PointSummary], parts: &RowParts) -> Vec<Row> {
    let mut rows = Vec::new();
    for (position, x) in place.axis.ticks(place.sweep) {
        let here = points.iter().filter(|one| place.axis.position(place.sweep, &one.point) == position);
        let here: Vec<&PointSummary> = here.copied().collect();
        let on_lines =
            lines.iter().flat_map(|line| here.iter().filter(|one| line.holds(&one.point)).map(move |one| (line, one)));
        rows.extend(on_lines.enumerate().map(|(index, (line, one))| Row {
            x: x.clone(),
            first: index == 0,
            ..row(place.record, line, one, parts)
        }));
    }
    rows
}

fn row(record: &RunRecord, line: &Line, one: &PointSummary, parts: &RowParts) -> Row {
    Row {
        x: String::new(),
        line: line.label.clone(),
        swatch: line_swatch(record, line),
        first: false,
        cells: parts.columns.iter().map(|&metric| cell(one, metric)).collect(),
        variation: analysis::variation(one).map_or("–".to_owned(), |share| format!("{:.1} %", share * 100.0)),
        judgements: parts.judged.iter().map(|&metric| judgement(parts.comparisons, one, metric)).collect(),
        n: one.lines.len(),
        hits: one.hit_ratio.map_or("–".to_owned(), |ratio| format!("{:.1} %", ratio * 100.0)),
        notes: notes(one),
        lines: one.lines.clone(),
    }
}

fn cell(one: &PointSummary, metric: Metric) -> Cell {
    let estimate = &one.figures[&metric];
    let interval = estimate
        .interval
        .map_or("no interval".to_owned(), |(low, high)| format!("{} – {}", figure(metric, low), figure(metric, high)));
    Cell { value: estimate.median, text: figure(metric, estimate.median), interval }
}

/// What a point is against its baseline; empty for a baseline itself.
fn judgement(comparisons: &[Comparison], one: &PointSummary, metric: Metric) -> Judgement {
    let own = |found: &&Comparison| found.metric == metric && found.subject.point == one.point;
    let Some(found) = comparisons.iter().find(own) else { return Judgement::default() };
    let difference = &found.difference;
    Judgement {
        word: found.verdict.word(metric),
        class: match found.verdict {
            Verdict::Better => "good",
            Verdict::Worse => "bad",
            _ => "open",
        },
        ratio: format!("{:.2} [{:.2} – {:.2}]", difference.ratio, difference.low, difference.high),
        detail: format!("δ {:+.2}, p {}", difference.cliffs_delta, probability(difference.p_adjusted)),
    }
}

fn notes(one: &PointSummary) -> String {
    let counted = [
        (one.errors as usize, "error replies"),
        (one.failed, "failed"),
        (one.disturbed, "disturbed"),
        (one.generator_saturated, "generator-bound"),
        (one.unsteady, "unsteady"),
    ];
    let notes = counted.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
    notes.collect::<Vec<_>>().join(", ")
}

/// A figure at the precision that its metric deserves.
pub fn figure(metric: Metric, value: f64) -> String {
    match metric {
        Metric::OpsPerSec => grouped(value),
        Metric::P50Us | Metric::P99Us | Metric::P999Us | Metric::SingleKeyP99Us if value >= 100.0 => grouped(value),
        Metric::P50Us | Metric::P99Us | Metric::P999Us | Metric::SingleKeyP99Us => format!("{value:.1}"),
        Metric::ServerCpuUsPerOp | Metric::GeneratorCpuUsPerOp => format!("{value:.2}"),
        Metric::ServerRssPeakMib => format!("{value:.1}"),
    }
}

/// A whole number with its thousands apart.
pub fn grouped(value: f64) -> String {
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
    fn parameters_have_three_digits() {
        let texts = [0.0, 0.012_345, 0.5, 12.345, 123_456.0, 1.234e-7].map(significant);
        assert_eq!(texts, ["0", "0.0123", "0.500", "12.3", "123,456", "1.23e-7"]);
    }

    #[test]
    fn loads_that_differ_in_anything_but_the_axis_have_plots_of_their_own() {
        let text =
            "question='?'\nservers=['a']\ntest_seconds=1\nwarm_up_seconds=0\nrepeats=1\nclients=[1,2]\npipeline=[1,16]";
        let both = Sweep::parse("s", text).unwrap();
        let (_, summary) = crate::testing::run("s", text, |_, _| 1.0);
        let facets = analysis::facets(&summary, &both, &Dimension::Clients);
        let titles: Vec<(&str, usize)> = facets.iter().map(|(title, points)| (title.as_str(), points.len())).collect();
        assert_eq!(titles, [("pipeline 1", 2), ("pipeline 16", 2)]);
    }
}
