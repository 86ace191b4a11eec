//! The figure at the top of the page: every server, or every line of a sweep, as a ratio to what it is compared with.

use anyhow::Result;

use super::figures::{colour_of_line, line_swatch};
use super::sweeps::Plot;
use crate::judging::analysis::{self, Comparison};
use crate::judging::answers;
use crate::judging::summary::{Metric, PointSummary, Summary};
use crate::plan::dimension::{Dimension, Line};
use crate::plan::sweep::Sweep;
use crate::publishing::chart::{Chart, Datum, Scale, Series, Unit};
use crate::results::folder::RunRecord;

/// The baseline in sweeps of situations.
const BASELINE: &str = "mutex";

/// The figure, if the run has a sweep for it, and its lines.
#[derive(Default)]
pub(super) struct First {
    pub(super) plot: Option<Plot>,
    pub(super) legend: Vec<(String, String)>,
}

/// What is drawn: the lines of a sweep relative to another, in one metric.
struct Shown<'a> {
    sweep: &'a Sweep,
    metric: Metric,
    title: String,
    lines: Vec<Line>,
    baseline: Line,
    /// Whether the servers only differ in themselves.
    same_flags: bool,
}

/// Throughput relative to that of the mutex engine, along the axis of the first sweep of situations, under its last
/// load; without such sweeps, what the first sweep asks for, relative to its baseline.
pub(super) fn first_figure(record: &RunRecord, summary: &Summary, sweeps: &[&Sweep]) -> Result<First> {
    let alone = answers::answered_alone(record);
    let is_alone = |sweep: &Sweep| alone.iter().any(|one| one.name == sweep.name);
    let shown = sweeps.iter().find_map(|sweep| Shown::of_situations(sweep));
    let shown = shown.or_else(|| sweeps.iter().find_map(|sweep| Shown::of_factors(sweep)));
    let shown =
        shown.or_else(|| sweeps.iter().filter(|sweep| is_alone(sweep)).find_map(|sweep| Shown::of_sweep(sweep)));
    let Some(shown) = shown else { return Ok(First::default()) };
    shown.figure(record, summary)
}

impl<'a> Shown<'a> {
    fn of_situations(sweep: &'a Sweep) -> Option<Self> {
        let is_baseline = |server: &str| server == BASELINE;
        (sweep.situations && sweep.servers.iter().any(|name| is_baseline(name))).then_some(())?;
        let line = |server: &String| Line { server: server.clone(), variant: None, label: server.clone(), rank: 0 };
        Some(Self {
            sweep,
            metric: Metric::OpsPerSec,
            title: format!("Throughput, as a ratio to that of the {BASELINE} engine (1 is equal)"),
            lines: sweep.servers.iter().filter(|name| !is_baseline(name)).map(line).collect(),
            baseline: line(&BASELINE.to_owned()),
            same_flags: true,
        })
    }

    /// `None` if the sweep compares something else than its lines.
    fn of_sweep(sweep: &'a Sweep) -> Option<Self> {
        let name = analysis::baseline_name(sweep);
        let (mut baseline, lines): (Vec<Line>, Vec<Line>) =
            Line::all(sweep, &Dimension::axis_of(sweep)).into_iter().partition(|line| line.label == name);
        Some(Self {
            sweep,
            metric: answers::asked(sweep),
            title: format!("{}, as a ratio to that of {name} (1 is equal)", answers::asked_in_words(sweep)),
            lines,
            baseline: baseline.pop()?,
            same_flags: false,
        })
    }

    /// The servers of pairs that are taken apart, with all factors at their first levels and at their last ones.
    fn of_factors(sweep: &'a Sweep) -> Option<Self> {
        let mut shown = Self::of_sweep(sweep).filter(|_| !sweep.factorial.is_empty())?;
        let ends = [sweep.variants.first()?, sweep.variants.last()?].map(|variant| Some(variant.name.clone()));
        shown.lines.retain(|line| ends.contains(&line.variant));
        Some(shown)
    }

    fn figure(&self, record: &RunRecord, summary: &Summary) -> Result<First> {
        let axis = Dimension::axis_of(self.sweep);
        let facets = analysis::facets(summary, self.sweep, &axis);
        let Some((load, points)) = facets.last() else { return Ok(First::default()) };
        let series = self.lines.iter().map(|line| {
            let own = points.iter().filter(|one| line.holds(&one.point));
            let data = own.filter_map(|one| self.datum(summary.seed, &axis, one, points)).collect();
            Series { colour: colour_of_line(record, self.sweep, line), rank: line.rank, data }
        });
        let series: Vec<Series> = series.collect();
        let shown: usize = series.iter().map(|one| one.data.len()).sum();
        if shown == 0 {
            return Ok(First::default());
        }
        let asked = points.iter().filter(|one| self.lines.iter().any(|line| line.holds(&one.point))).count();
        let x_ticks = axis.shown_ticks(self.sweep);
        let chart = Chart { x_title: axis.title(), x_ticks, scale: Scale::Ratio, unit: Unit::Count, series };
        let title = format!(
            "{}{}{load}{}",
            self.title,
            if load.is_empty() { "" } else { ", " },
            analysis::left_out_words(asked - shown)
        );
        let plot = Plot { title, file: "plots/first.svg".to_owned(), svg: chart.to_svg()? };
        let legend = self.lines.iter().map(|line| (line.label.clone(), line_swatch(record, self.sweep, line)));
        Ok(First { plot: Some(plot), legend: legend.collect() })
    }

    fn datum(&self, seed: u64, axis: &Dimension, one: &PointSummary, points: &[&PointSummary]) -> Option<Datum> {
        let here = axis.label(&one.point);
        let is_beside = |other: &&&PointSummary| {
            let alike = !self.same_flags || other.point.variant == one.point.variant;
            alike && self.baseline.holds(&other.point) && axis.label(&other.point) == here
        };
        let baseline = points.iter().find(is_beside)?;
        // Nothing follows from a point that failed or whose load was not the one that was asked for.
        if one.remark(self.metric).or(baseline.remark(self.metric)).is_some() {
            return None;
        }
        let Comparison { difference, .. } = analysis::comparison(seed, one, baseline, self.metric)?;
        let x = axis.position(self.sweep, &one.point);
        Some(Datum { x, low: difference.low, value: difference.ratio, high: difference.high })
    }
}
