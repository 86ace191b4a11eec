//! The figure at the top of the page: every server as a ratio to the mutex engine.

use anyhow::Result;

use super::figures::{colour_of, swatch};
use super::sweeps::Plot;
use crate::judging::analysis::{self, Comparison};
use crate::judging::summary::{Metric, PointSummary, Summary};
use crate::plan::dimension::Dimension;
use crate::plan::point::Point;
use crate::plan::sweep::Sweep;
use crate::publishing::chart::{Chart, Datum, Scale, Series, Unit};
use crate::results::folder::RunRecord;

const BASELINE: &str = "mutex";

/// The figure, if the run has a sweep for it, and its lines.
#[derive(Default)]
pub(super) struct First {
    pub(super) plot: Option<Plot>,
    pub(super) legend: Vec<(String, String)>,
}

/// Throughput relative to that of the mutex engine, along the axis of the first sweep of situations, under its last
/// load.
pub(super) fn first_figure(record: &RunRecord, summary: &Summary, sweeps: &[&Sweep]) -> Result<First> {
    let has_baseline = |sweep: &&&Sweep| sweep.situations && sweep.servers.iter().any(|name| name == BASELINE);
    let Some(sweep) = sweeps.iter().find(has_baseline) else { return Ok(First::default()) };
    let axis = Dimension::axis_of(sweep);
    let facets = analysis::facets(summary, sweep, &axis);
    let Some((title, points)) = facets.last() else { return Ok(First::default()) };
    let servers: Vec<&String> = sweep.servers.iter().filter(|name| *name != BASELINE).collect();
    let series = servers.iter().map(|server| {
        let own = points.iter().filter(|one| one.point.server == **server);
        let datum = |one: &&&PointSummary| datum(summary.seed, sweep, &axis, one, points);
        Series { colour: colour_of(record, server), rank: 0, data: own.filter_map(|one| datum(&one)).collect() }
    });
    let series: Vec<Series> = series.collect();
    let shown: usize = series.iter().map(|one| one.data.len()).sum();
    let asked = points.iter().filter(|one| one.point.server != BASELINE).count();
    let chart =
        Chart { x_title: axis.title(), x_ticks: axis.ticks(sweep), scale: Scale::Linear, unit: Unit::Count, series };
    let title = format!(
        "Throughput by that of the {BASELINE} engine (1 is equal){}{title}{}",
        if title.is_empty() { "" } else { ", " },
        analysis::left_out_words(asked - shown)
    );
    let plot = Plot { title, file: "plots/first.svg".to_owned(), svg: chart.to_svg()? };
    let legend = servers.iter().map(|server| ((*server).clone(), swatch(colour_of(record, server), 0)));
    Ok(First { plot: Some(plot), legend: legend.collect() })
}

fn datum(seed: u64, sweep: &Sweep, axis: &Dimension, one: &PointSummary, points: &[&PointSummary]) -> Option<Datum> {
    let wanted = Point { server: BASELINE.to_owned(), ..one.point.clone() };
    let baseline = points.iter().find(|other| other.point == wanted)?;
    // Nothing follows from a point that failed or whose load was not the one that was asked for.
    if one.remark(Metric::OpsPerSec).or(baseline.remark(Metric::OpsPerSec)).is_some() {
        return None;
    }
    let Comparison { difference, .. } = analysis::comparison(seed, one, baseline, Metric::OpsPerSec)?;
    let x = axis.position(sweep, &one.point);
    Some(Datum { x, low: difference.low, value: difference.ratio, high: difference.high })
}
