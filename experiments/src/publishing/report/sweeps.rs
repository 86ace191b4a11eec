//! The part of the page that shows one sweep: plots and a table for each of its facets.

use anyhow::Result;

use super::conclusions::{self, CrossingView, ScalingView};
use super::figures::{colour_of_line, figure, line_swatch, probability, significant, title};
use super::why::{self, Table};
use crate::base::text::grouped;
use crate::judging::analysis::{self, Comparison};
use crate::judging::compare::{Verdict, smallest_effect};
use crate::judging::factorial::{self, Analysis};
use crate::judging::summary::{Metric, PointSummary, Summary};
use crate::measuring::stages::{self, StageTimes};
use crate::plan::dimension::{Dimension, Line};
use crate::plan::sweep::{Sweep, Variant};
use crate::publishing::chart::{Chart, Datum, Scale, Series, Unit};
use crate::results::folder::RunRecord;

/// The plots of a facet.
const PLOTS: [(Metric, &str, Scale, Unit); 8] = [
    (Metric::OpsPerSec, "Throughput, operations per second", Scale::Linear, Unit::Count),
    (Metric::P50Us, "Latency p50", Scale::Logarithmic, Unit::Microseconds),
    (Metric::P99Us, "Latency p99", Scale::Logarithmic, Unit::Microseconds),
    (Metric::P999Us, "Latency p99.9", Scale::Logarithmic, Unit::Microseconds),
    (Metric::SingleKeyP99Us, "Latency p99 of the commands of one key", Scale::Logarithmic, Unit::Microseconds),
    (
        Metric::SlowestConnection,
        "Mean latency of the slowest connection, by the median one's",
        Scale::Ratio,
        Unit::Count,
    ),
    (Metric::ServerCpuUsPerOp, "Server CPU per operation", Scale::Logarithmic, Unit::Microseconds),
    (Metric::ServerRssPeakMib, "Server memory, peak resident", Scale::Linear, Unit::Mebibytes),
];

/// A table of a factorial analysis.
pub(super) struct WhyView {
    /// The sentence at the top of the page; of throughput alone.
    pub(super) answer: Option<String>,
    pub(super) caption: String,
    pub(super) parts: Table,
    pub(super) effects: Table,
    /// Points from which nothing follows.
    pub(super) flawed: usize,
}

pub(super) struct SweepView {
    pub(super) name: String,
    pub(super) question: String,
    pub(super) settings: String,
    /// Names and flags of the variants.
    pub(super) variants: Vec<(String, String)>,
    pub(super) baseline: String,
    pub(super) verdicts: String,
    pub(super) why: Vec<WhyView>,
    pub(super) facets: Vec<Facet>,
    pub(super) crossings: Vec<CrossingView>,
    pub(super) scaling: Vec<ScalingView>,
}

/// One plot set and one table: the points of a sweep that differ in their line and along the horizontal axis only.
pub(super) struct Facet {
    pub(super) title: String,
    pub(super) x_title: String,
    /// Repeats per point: one number, or the least and the most.
    pub(super) n: String,
    /// The lines, with the style of each one's swatch.
    pub(super) legend: Vec<(String, String)>,
    pub(super) plots: Vec<Plot>,
    pub(super) columns: Vec<&'static str>,
    pub(super) rows: Vec<Row>,
    /// The stages that some server reports, as columns.
    pub(super) stages: Vec<String>,
    pub(super) stage_rows: Vec<StageRow>,
}

/// Where the time of a point's requests went.
pub(super) struct StageRow {
    pub(super) x: String,
    pub(super) line: String,
    pub(super) swatch: String,
    /// Mean and 99th percentile of each stage; `None` for one that the point does not have.
    pub(super) cells: Vec<Option<Cell>>,
}

pub(super) struct Plot {
    pub(super) title: String,
    /// The file that holds it alone.
    pub(super) file: String,
    pub(super) svg: String,
}

pub(super) struct Row {
    pub(super) x: String,
    pub(super) line: String,
    pub(super) swatch: String,
    /// The first row of its group of equal `x`.
    pub(super) first: bool,
    pub(super) cells: Vec<Cell>,
    pub(super) variation: String,
    pub(super) n: usize,
    pub(super) hits: String,
    pub(super) remarks: String,
    pub(super) lines: Vec<usize>,
}

/// A verdict with its ratio.
#[derive(Default)]
pub(super) struct Judgement {
    pub(super) word: &'static str,
    pub(super) class: &'static str,
    pub(super) ratio: String,
    pub(super) detail: String,
}

pub(super) struct Cell {
    pub(super) value: f64,
    pub(super) text: String,
    pub(super) interval: String,
    /// The verdict against the baseline; empty if it is not judged.
    pub(super) judgement: Judgement,
}

/// Which facet of which sweep.
struct FacetPlace<'a> {
    record: &'a RunRecord,
    sweep: &'a Sweep,
    axis: &'a Dimension,
    number: usize,
    title: &'a str,
}

/// The contents of each row of a facet.
struct RowContext<'a> {
    columns: &'a [Metric],
    judged: &'a [Metric],
    comparisons: &'a [Comparison<'a>],
}

pub(super) fn sweep_view(record: &RunRecord, summary: &Summary, sweep: &Sweep) -> Result<SweepView> {
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
        settings: settings(sweep, record.setup.planned_repeats.get(&sweep.name).copied()),
        variants: sweep.variants.iter().map(variant_view).collect(),
        baseline: analysis::baseline_name(sweep),
        verdicts: conclusions::verdict_counts(&comparisons),
        why: why_views(summary, sweep),
        facets: facets.collect::<Result<_>>()?,
        crossings: analysis::crossings(summary, sweep)
            .iter()
            .map(|one| conclusions::crossing_view(&axis, one))
            .collect(),
        scaling: analysis::scaling(summary, sweep).iter().map(conclusions::scaling_view).collect(),
    })
}

/// The parts of differences, in throughput and in CPU time.
fn why_views(summary: &Summary, sweep: &Sweep) -> Vec<WhyView> {
    let metrics = [Metric::OpsPerSec, Metric::ServerCpuUsPerOp].into_iter();
    let analyses =
        metrics.flat_map(|metric| factorial::of(summary, sweep, metric).into_iter().map(move |one| (metric, one)));
    let view = |(metric, one): (Metric, Analysis)| WhyView {
        answer: (metric == Metric::OpsPerSec).then(|| why::answer(&one)).flatten(),
        caption: format!("{}, {}", title(metric), why::caption(&one)),
        parts: why::parts(&one),
        effects: why::effects(&one),
        flawed: one.flawed,
    };
    analyses.map(view).collect()
}

fn variant_view(variant: &Variant) -> (String, String) {
    let environment = variant.environment.iter().map(|(name, value)| format!("{name}={value}"));
    let mut flags = environment.chain(variant.flags.iter().cloned()).collect::<Vec<_>>().join(" ");
    if let Some(percent) = variant.stopped_percent {
        flags.push_str(&format!(", stopped by the lab for {percent} % of the time"));
    }
    (variant.name.clone(), flags)
}

/// The values that are the same at every point, and the method's numbers.
fn settings(sweep: &Sweep, planned_repeats: Option<u32>) -> String {
    let fixed = Dimension::all(sweep).into_iter().filter(|one| one.count(sweep) == 1 && *one != Dimension::KeyMaximum);
    let point = crate::plan::schedule::points(sweep).swap_remove(0);
    let fixed: Vec<String> =
        fixed.map(|dimension| format!("{} {}", dimension.title(), dimension.label(&point))).collect();
    format!(
        "{}; {}all keys prefilled; {} s warm-up, {} s window, {}, {}; {} generator thread{}; smallest effect \
         of interest {} in throughput and CPU, {} in latency",
        fixed.join(", "),
        match sweep.key_maximum[..] {
            [keys] => format!("{} keys; ", grouped(keys as f64)),
            _ => String::new(),
        },
        sweep.warm_up_seconds,
        sweep.test_seconds,
        match planned_repeats {
            Some(planned) => format!("{} of {planned} planned repeats", sweep.repeats),
            None => format!("{} repeats", sweep.repeats),
        },
        match sweep.retries {
            0 => "disturbed trials are marked, not repeated".to_owned(),
            1 => "disturbed trials are repeated once".to_owned(),
            retries => format!("disturbed trials are repeated up to {retries} times"),
        },
        sweep.threads,
        if sweep.threads == 1 { "" } else { "s" },
        format_args!("{:.0} %", smallest_effect(Metric::OpsPerSec) * 100.0),
        format_args!("{:.0} %", smallest_effect(Metric::P99Us) * 100.0),
    )
}

fn facet(place: &FacetPlace, points: &[&PointSummary], comparisons: &[Comparison]) -> Result<Facet> {
    let (record, sweep, axis) = (place.record, place.sweep, place.axis);
    let lines = Line::all(sweep, axis);
    let has = |metric: &Metric| points.iter().all(|one| one.figures.contains_key(metric));
    let plot = |&(metric, title, scale, unit): &(Metric, &'static str, Scale, Unit)| {
        let series = lines.iter().map(|line| series(record, sweep, axis, metric, line, points)).collect();
        let chart = Chart { x_title: axis.title(), x_ticks: axis.shown_ticks(sweep), scale, unit, series };
        let file = format!("plots/{}-{}-{}.svg", sweep.name, place.number + 1, metric.key());
        Ok(Plot { title: title.to_owned(), file, svg: chart.to_svg()? })
    };
    let stages = stages::names(points.iter().map(|one| &one.stages));
    let columns: Vec<Metric> =
        Metric::ALL.into_iter().filter(|metric| has(metric) && is_shown(sweep, *metric)).collect();
    let judged = if comparisons.is_empty() { Vec::new() } else { analysis::judged(sweep) };
    Ok(Facet {
        title: place.title.to_owned(),
        x_title: axis.title(),
        n: repeats(points),
        legend: lines.iter().map(|line| (line.label.clone(), line_swatch(record, sweep, line))).collect(),
        plots: PLOTS
            .iter()
            .filter(|(metric, ..)| has(metric) && is_plotted(sweep, *metric))
            .map(plot)
            .collect::<Result<_>>()?,
        columns: columns.iter().map(|&metric| title(metric)).collect(),
        rows: rows(place, &lines, points, &RowContext { columns: &columns, judged: &judged, comparisons }),
        stage_rows: stage_rows(place, &lines, points, &stages),
        stages,
    })
}

/// How evenly connections were served is a column if requested; every summary has it.
fn is_shown(sweep: &Sweep, metric: Metric) -> bool {
    sweep.fairness || !matches!(metric, Metric::JainIndex | Metric::SlowestConnection)
}

/// The median and the far tail have plots in open loops, where they are not a function of throughput.
fn is_plotted(sweep: &Sweep, metric: Metric) -> bool {
    is_shown(sweep, metric) && (!matches!(metric, Metric::P50Us | Metric::P999Us) || !sweep.rate_percent.is_empty())
}

fn stage_rows(place: &FacetPlace, lines: &[Line], points: &[&PointSummary], stages: &[String]) -> Vec<StageRow> {
    let cell = |times: &StageTimes| Cell {
        value: times.mean,
        text: significant(times.mean),
        interval: format!("p99 {}", significant(times.p99)),
        judgement: Judgement::default(),
    };
    let row = |(x, line, one): (&String, &Line, &PointSummary)| StageRow {
        x: x.clone(),
        line: line.label.clone(),
        swatch: line_swatch(place.record, place.sweep, line),
        cells: stages.iter().map(|name| one.stages.get(name).map(cell)).collect(),
    };
    let telling: Vec<&PointSummary> = points.iter().copied().filter(|one| !one.stages.is_empty()).collect();
    in_order(place, lines, &telling, row)
}

/// The results of `make` for each point, from left to right on the axis, and line by line at each place of it.
fn in_order<T>(
    place: &FacetPlace,
    lines: &[Line],
    points: &[&PointSummary],
    make: impl Fn((&String, &Line, &PointSummary)) -> T,
) -> Vec<T> {
    let mut made = Vec::new();
    for (position, x) in &place.axis.shown_ticks(place.sweep) {
        let is_here = |one: &&&PointSummary| place.axis.position(place.sweep, &one.point) == *position;
        for line in lines {
            let own = points.iter().filter(is_here).filter(|one| line.holds(&one.point));
            made.extend(own.map(|one| make((x, line, one))));
        }
    }
    made
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
    let data = own.map(|one| {
        let estimate = &one.figures[&metric];
        let x = axis.position(sweep, &one.point);
        Datum { x, low: estimate.low(), value: estimate.median, high: estimate.high() }
    });
    Series { colour: colour_of_line(record, sweep, line), rank: line.rank, data: data.collect() }
}

/// The rows of a table; the first at each place of the axis says so.
fn rows(place: &FacetPlace, lines: &[Line], points: &[&PointSummary], context: &RowContext) -> Vec<Row> {
    let make = |(x, line, one): (&String, &Line, &PointSummary)| Row { x: x.clone(), ..row(place, line, one, context) };
    let mut rows = in_order(place, lines, points, make);
    let mut before = None;
    for row in &mut rows {
        row.first = before.as_ref() != Some(&row.x);
        before = Some(row.x.clone());
    }
    rows
}

fn row(place: &FacetPlace, line: &Line, one: &PointSummary, context: &RowContext) -> Row {
    Row {
        x: String::new(),
        line: line.label.clone(),
        swatch: line_swatch(place.record, place.sweep, line),
        first: false,
        cells: context.columns.iter().map(|&metric| judged_cell(one, metric, context)).collect(),
        variation: analysis::variation(one).map_or("–".to_owned(), |share| format!("{:.1} %", share * 100.0)),
        n: one.lines.len(),
        hits: one.hit_ratio.map_or("–".to_owned(), |ratio| format!("{:.1} %", ratio * 100.0)),
        remarks: remarks(one),
        lines: one.lines.clone(),
    }
}

fn cell(one: &PointSummary, metric: Metric) -> Cell {
    let estimate = &one.figures[&metric];
    let interval = estimate
        .interval
        .map_or("no interval".to_owned(), |(low, high)| format!("{} – {}", figure(metric, low), figure(metric, high)));
    Cell { value: estimate.median, text: figure(metric, estimate.median), interval, judgement: Judgement::default() }
}

fn judged_cell(one: &PointSummary, metric: Metric, context: &RowContext) -> Cell {
    let is_judged = context.judged.contains(&metric);
    let judgement = if is_judged { judgement(context.comparisons, one, metric) } else { Judgement::default() };
    Cell { judgement, ..cell(one, metric) }
}

/// The verdict on a point against its baseline; empty for a baseline itself.
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

fn remarks(one: &PointSummary) -> String {
    let counted = [
        (one.errors as usize, "error replies"),
        (one.failed, "failed"),
        (one.disturbed, "disturbed"),
        (one.generator_saturated, "generator-bound"),
        (one.unsent, "with requests that were never sent"),
        (one.unsteady, "unsteady"),
        (one.stolen(Metric::P99Us), "with a p99 that may be the hypervisor's"),
    ];
    let remarks = counted.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
    remarks.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

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
