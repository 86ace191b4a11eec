//! The conclusions from a sweep's figures: which server is faster than the baseline, where lines cross, how throughput
//! scales.
//!
//! The compared pairs are fixed by the sweep (`contrast`, `baseline`) before anything is measured; all of them, in all
//! metrics that get a verdict, are one family for the correction.

use crate::base::rng::Rng;
use crate::judging::compare::{self, Difference, Verdict};
use crate::judging::summary::{Metric, PointSummary, Summary};
use crate::plan::dimension::{Dimension, Line};
use crate::plan::point::Point;
use crate::plan::sweep::Sweep;
use crate::statistics::alignment;
use crate::statistics::bootstrap::resampled_median;
use crate::statistics::quantiles::{median, middle_95_percent};
use crate::statistics::usl::{Fit, Law};

/// The metrics that get a verdict.
const JUDGED: [Metric; 4] = [Metric::OpsPerSec, Metric::P99Us, Metric::SingleKeyP99Us, Metric::ServerCpuUsPerOp];

/// The metrics that get a verdict in a sweep: the more there are, the more evidence each verdict needs.
pub fn judged(sweep: &Sweep) -> Vec<Metric> {
    let fairness = sweep.fairness.then_some(Metric::SlowestConnection);
    JUDGED.into_iter().chain(fairness).collect()
}

/// Draws for the intervals of crossings and of the law's parameters.
const RESAMPLES: usize = 1_000;

/// Share of the draws that must have a crossing for it to be clear.
const CLEAR: f64 = 0.95;

/// One point against its baseline in one metric.
#[derive(Debug, Clone)]
pub struct Comparison<'a> {
    /// The point.
    pub subject: &'a PointSummary,
    /// The point that it is compared with.
    pub baseline: &'a PointSummary,
    /// The metric.
    pub metric: Metric,
    /// The difference.
    pub difference: Difference,
    /// The verdict on it.
    pub verdict: Verdict,
}

/// Where two lines change places along a numeric axis.
#[derive(Debug, Clone)]
pub struct Crossing {
    /// The coordinates that are the same on both lines, without the axis.
    pub facet: String,
    /// The line that is faster to the left.
    pub left: String,
    /// The line that is faster to the right.
    pub right: String,
    /// Where, by the medians of the aligned values.
    pub at: f64,
    /// The middle 95 % of where the draws cross.
    pub interval: (f64, f64),
    /// Share of the draws that cross here, in the same direction.
    pub share: f64,
    /// Whether the draws agree that there is a crossing, and the nearest differences beyond chance on both sides of it
    /// are in its direction.
    pub clear: bool,
    /// Places of the two lines that were left out, because nothing follows from one of them.
    pub left_out: usize,
    /// Whether it is at so few clients that the waking of idle cores decides, and not the servers.
    pub wake_up: bool,
}

/// Clients below which a crossing along them is an artefact of waking: threads sleep between requests.
pub const CLIENTS_AWAKE: f64 = 10.0;

/// The remark for a crossing below [`CLIENTS_AWAKE`].
pub const WAKE_UP: &str = "a wake-up artefact: with fewer than ten clients threads sleep between requests";

/// The scalability law along a line.
#[derive(Debug, Clone)]
pub struct Scaling {
    /// The load.
    pub facet: String,
    /// The line.
    pub line: String,
    /// The fit to the medians.
    pub fit: Fit,
    /// The most threads that it was fitted to.
    pub threads_max: f64,
    /// 95 % intervals of λ, σ and κ over draws of the runs; `None` if the fit is not good.
    pub intervals: Option<[(f64, f64); 3]>,
    /// Numbers of threads that were left out, because nothing follows from their point.
    pub left_out: usize,
}

/// What a reader is told of places that were left out.
pub fn left_out_words(count: usize) -> String {
    match count {
        0 => String::new(),
        1 => " (without one place from which nothing follows)".to_owned(),
        _ => format!(" (without {count} places from which nothing follows)"),
    }
}

/// The baseline of a sweep, in words.
pub fn baseline_name(sweep: &Sweep) -> String {
    let first = || match contrast(sweep) {
        Some(dimension) => dimension.labels(sweep).swap_remove(0),
        None => Line::all(sweep, &Dimension::axis_of(sweep)).swap_remove(0).label,
    };
    let named = sweep.baseline.clone().filter(|name| match contrast(sweep) {
        Some(dimension) => dimension.labels(sweep).contains(name),
        None => Line::all(sweep, &Dimension::axis_of(sweep)).iter().any(|line| line.label == *name),
    });
    named.unwrap_or_else(first)
}

/// Every point of a sweep against its baseline, corrected together.
pub fn comparisons<'a>(summary: &'a Summary, sweep: &'a Sweep) -> Vec<Comparison<'a>> {
    against(summary, sweep, &baseline_name(sweep))
}

/// Every point of a sweep against the baseline of this name, in every metric that gets a verdict: one family for the
/// correction. All verdicts of a sweep come from here, those of tables and those of sentences.
pub fn against<'a>(summary: &'a Summary, sweep: &'a Sweep, baseline: &str) -> Vec<Comparison<'a>> {
    let compared = |(subject, baseline, metric)| comparison(summary.seed, subject, baseline, metric);
    let mut found: Vec<Comparison> = pairs(summary, sweep, baseline).into_iter().filter_map(compared).collect();
    compare::correct(&mut found.iter_mut().map(|one| &mut one.difference).collect::<Vec<_>>());
    for one in &mut found {
        one.verdict = verdict(one);
    }
    found
}

/// How many comparisons a sweep's verdicts are corrected for.
pub fn family_size(summary: &Summary, sweep: &Sweep) -> usize {
    pairs(summary, sweep, &baseline_name(sweep)).len()
}

/// What is compared with the baseline of this name.
fn pairs<'a>(summary: &'a Summary, sweep: &'a Sweep, name: &str) -> Vec<(&'a PointSummary, &'a PointSummary, Metric)> {
    let points: Vec<&PointSummary> = summary.of_sweep(&sweep.name).collect();
    let axis = Dimension::axis_of(sweep);
    let lines = Line::all(sweep, &axis);
    let is_baseline = |point: &Point| match contrast(sweep) {
        Some(dimension) => dimension.label(point) == name,
        None => lines.iter().any(|line| line.label == name && line.holds(point)),
    };
    let mut found = Vec::new();
    for &subject in points.iter().filter(|one| !is_baseline(&one.point)) {
        let load = rest(sweep, &axis, &subject.point);
        let partner = |one: &&&PointSummary| is_baseline(&one.point) && rest(sweep, &axis, &one.point) == load;
        if let Some(&baseline) = points.iter().find(partner) {
            let has = |metric: &Metric| sides(subject, baseline, *metric).is_some();
            found.extend(judged(sweep).into_iter().filter(has).map(|metric| (subject, baseline, metric)));
        }
    }
    found
}

/// The single comparison of two points, uncorrected.
pub fn comparison<'a>(
    seed: u64,
    subject: &'a PointSummary,
    baseline: &'a PointSummary,
    metric: Metric,
) -> Option<Comparison<'a>> {
    let (above, below) = sides(subject, baseline, metric)?;
    let difference = Difference::of(above, below, seed)?;
    let mut one = Comparison { subject, baseline, metric, difference, verdict: Verdict::Invalid };
    one.verdict = verdict(&one);
    Some(one)
}

/// The repeats of two points for a comparison: without the drift of the machine if both are shown to respond to it
/// alike, and as measured otherwise.
pub fn sides<'a>(
    subject: &'a PointSummary,
    baseline: &'a PointSummary,
    metric: Metric,
) -> Option<(&'a [f64], &'a [f64])> {
    let (above, below) = (subject.figures.get(&metric)?, baseline.figures.get(&metric)?);
    let alike = responds_alike(subject, baseline, metric);
    Some(if alike { (&above.aligned, &below.aligned) } else { (&above.values, &below.values) })
}

/// Whether two points are shown to respond to the machine alike.
pub fn responds_alike(subject: &PointSummary, baseline: &PointSummary, metric: Metric) -> bool {
    let (Some(above), Some(below)) = (subject.figures.get(&metric), baseline.figures.get(&metric)) else {
        return false;
    };
    let line = |one: &PointSummary| (one.point.server.clone(), one.point.variant.clone());
    match line(subject) == line(baseline) {
        true => alignment::respond_alike(&above.response, &below.response),
        false => alignment::respond_alike(&above.line_response, &below.line_response),
    }
}

fn verdict(one: &Comparison) -> Verdict {
    let sides = [one.subject, one.baseline];
    match () {
        () if sides.iter().any(|side| side.failed > 0) => Verdict::Invalid,
        () if sides.iter().any(|side| side.flaw(one.metric).is_some()) => Verdict::Inconclusive,
        () => one.difference.verdict(one.metric),
    }
}

/// The dimension that is contrasted; `None` if it is the line.
fn contrast(sweep: &Sweep) -> Option<Dimension> {
    Dimension::all(sweep).into_iter().find(|dimension| dimension.field() == sweep.contrast)
}

/// The coordinates of a point that are equal on both sides of a comparison.
fn rest(sweep: &Sweep, axis: &Dimension, point: &Point) -> Vec<String> {
    let contrast = contrast(sweep);
    let of_line = |dimension: &Dimension| *dimension == Dimension::Variant && *axis != Dimension::Variant;
    let is_rest = |dimension: &Dimension| match &contrast {
        Some(contrast) => dimension != contrast,
        None => !of_line(dimension),
    };
    let mut rest: Vec<String> =
        Dimension::all(sweep).iter().filter(|one| is_rest(one)).map(|one| one.label(point)).collect();
    if contrast.is_some() {
        rest.push(point.server.clone());
    }
    rest
}

/// Where throughput of two lines crosses, for every two lines and every place where their medians cross. At a given
/// rate all have the throughput that is due.
pub fn crossings(summary: &Summary, sweep: &Sweep) -> Vec<Crossing> {
    let axis = Dimension::axis_of(sweep);
    if !axis.is_logarithmic(sweep) || !sweep.equals.is_empty() || !sweep.rate_percent.is_empty() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (facet, points) in facets(summary, sweep, &axis) {
        let lines: Vec<(String, Vec<Place>)> = along_lines(sweep, &axis, &points);
        for (index, first) in lines.iter().enumerate() {
            for second in &lines[index + 1..] {
                let own = crossings_of(summary.seed, &facet, first, second);
                found.extend(
                    own.into_iter()
                        .map(|one| Crossing { wake_up: axis == Dimension::Clients && one.at < CLIENTS_AWAKE, ..one }),
                );
            }
        }
    }
    found
}

/// Flags of servers that say how many threads run commands or do their I/O.
const THREAD_FLAGS: [&str; 2] = ["--threads", "--io-threads"];

/// The law along threads, for every server that a sweep runs with several numbers of threads and otherwise equal flags,
/// if there are enough runs for its intervals. Never along clients: these are load, and add no capacity.
pub fn scaling(summary: &Summary, sweep: &Sweep) -> Vec<Scaling> {
    let mut found = Vec::new();
    for (facet, points) in loads(summary, sweep) {
        for (line, mut places) in along_threads(sweep, &points) {
            let all = places.len();
            places.retain(|place| place.remark().is_none());
            let left_out = all - places.len();
            if places.iter().any(|place| place.rates().len() < compare::RUNS_MIN) {
                continue;
            }
            let medians = places.iter().map(|place| (place.x, place.point.figures[&Metric::OpsPerSec].median));
            let Some(fit) = Fit::of(&medians.collect::<Vec<_>>()) else { continue };
            let intervals = if fit.is_good() { parameter_intervals(summary.seed, &places) } else { None };
            let threads_max = places.iter().map(|place| place.x).fold(0.0, f64::max);
            found.push(Scaling { facet: facet.clone(), line, fit, threads_max, intervals, left_out });
        }
    }
    found
}

/// The points of a sweep by their load.
fn loads<'a>(summary: &'a Summary, sweep: &'a Sweep) -> Vec<(String, Vec<&'a PointSummary>)> {
    facets(summary, sweep, &Dimension::Variant)
}

/// The points of each server by its flags without the number of threads, in the order of that number. Servers with as
/// many shards as threads are one line, too: there a thread brings its shard.
fn along_threads<'a>(sweep: &Sweep, points: &[&'a PointSummary]) -> Vec<(String, Vec<Place<'a>>)> {
    let mut lines: Vec<(String, Vec<Place>)> = Vec::new();
    for &point in points {
        let flags = &sweep.variant(&point.point.variant).flags;
        let Some(at) = flags.iter().position(|flag| THREAD_FLAGS.contains(&flag.as_str())) else { continue };
        let Some(x) = flags.get(at + 1).and_then(|threads| threads.parse().ok()) else { continue };
        let mut others = [&flags[..at], &flags[at + 2..]].concat();
        if let Some(at) = others.windows(2).position(|pair| pair[0] == "--shards" && pair[1] == flags[at + 1]) {
            others.splice(at..at + 2, ["--shards".to_owned(), "threads".to_owned()]);
        }
        let others = others.join(" ");
        let line = format!("{} {others}", point.point.server).trim_end().to_owned();
        let place = Place { x, point };
        match lines.iter_mut().find(|(known, _)| *known == line) {
            Some((_, places)) => places.push(place),
            None => lines.push((line, vec![place])),
        }
    }
    lines.iter_mut().for_each(|(_, places)| places.sort_by(|a, b| a.x.total_cmp(&b.x)));
    lines
}

/// A point of a line and its position.
struct Place<'a> {
    x: f64,
    point: &'a PointSummary,
}

impl Place<'_> {
    /// Why nothing follows from its throughput.
    fn remark(&self) -> Option<&'static str> {
        self.point.remark(Metric::OpsPerSec)
    }

    fn rates(&self) -> &[f64] {
        &self.point.figures[&Metric::OpsPerSec].values
    }
}

/// Throughput of two places, prepared for comparison.
fn rates<'a>(one: &Place<'a>, other: &Place<'a>) -> (&'a [f64], &'a [f64]) {
    sides(one.point, other.point, Metric::OpsPerSec).expect("every point has a throughput")
}

/// The points of a sweep by the coordinates besides the line and the axis.
pub fn facets<'a>(summary: &'a Summary, sweep: &'a Sweep, axis: &Dimension) -> Vec<(String, Vec<&'a PointSummary>)> {
    let mut facets: Vec<(String, Vec<&PointSummary>)> = Vec::new();
    for one in summary.of_sweep(&sweep.name) {
        let title = facet_title(sweep, axis, &one.point);
        match facets.iter_mut().find(|(known, _)| *known == title) {
            Some((_, members)) => members.push(one),
            None => facets.push((title, vec![one])),
        }
    }
    facets
}

fn facet_title(sweep: &Sweep, axis: &Dimension, point: &Point) -> String {
    let varied = Dimension::all(sweep)
        .into_iter()
        .filter(|dimension| dimension != axis && *dimension != Dimension::Variant && dimension.count(sweep) > 1);
    let words = |one: Dimension| format!("{} {}", one.title(), one.shown(&one.label(point)));
    varied.map(words).collect::<Vec<_>>().join(", ")
}

fn along_lines<'a>(sweep: &Sweep, axis: &Dimension, points: &[&'a PointSummary]) -> Vec<(String, Vec<Place<'a>>)> {
    let places = |line: &Line| {
        let own = points.iter().filter(|one| line.holds(&one.point));
        let place = |point: &&'a PointSummary| Some(Place { x: axis.label(&point.point).parse().ok()?, point });
        let mut places: Vec<Place> = own.filter_map(place).collect();
        places.sort_by(|a, b| a.x.total_cmp(&b.x));
        places
    };
    Line::all(sweep, axis).iter().map(|line| (line.label.clone(), places(line))).collect()
}

/// A place where the lines of a pair change places.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Change {
    at: f64,
    /// Whether the first line overtakes the second.
    rises: bool,
}

/// The crossings of two lines. Places from which nothing follows are left out.
fn crossings_of(seed: u64, facet: &str, first: &(String, Vec<Place>), second: &(String, Vec<Place>)) -> Vec<Crossing> {
    let mut shared: Vec<(&Place, &Place)> =
        first.1.iter().filter_map(|a| Some((a, second.1.iter().find(|b| b.x == a.x)?))).collect();
    let all = shared.len();
    shared.retain(|(a, b)| a.remark().or(b.remark()).is_none());
    let left_out = all - shared.len();
    let found = changes(&shared, |rates| median(&mut rates.to_vec()).expect("a point has trials"));
    if found.is_empty() {
        return Vec::new();
    }
    let (draws, compared) = (drawn_changes(seed, &shared), compared(seed, &shared));
    let crossing = |(index, change): (usize, &Change)| {
        let mut places: Vec<f64> = draws.iter().filter_map(|drawn| counterpart(&found, index, drawn)).collect();
        let share = places.len() as f64 / RESAMPLES as f64;
        let (at, rises) = (change.at, change.rises);
        let interval = middle_95_percent(&mut places).unwrap_or((at, at));
        let clear = share >= CLEAR && differs_on_both_sides(&compared, *change);
        let (left, right) = if rises { (&second.0, &first.0) } else { (&first.0, &second.0) };
        let (facet, left, right) = (facet.to_owned(), left.clone(), right.clone());
        Crossing { facet, left, right, at, interval, share, clear, left_out, wake_up: false }
    };
    found.iter().enumerate().map(crossing).collect()
}

/// The changes in each draw of the runs.
fn drawn_changes(seed: u64, shared: &[(&Place, &Place)]) -> Vec<Vec<Change>> {
    let mut rng = Rng::new(seed);
    let mut draw = Vec::new();
    let mut resampled = || {
        changes(shared, |rates| {
            draw.resize(rates.len(), 0.0);
            resampled_median(rates, &mut draw, &mut rng)
        })
    };
    (0..RESAMPLES).map(|_| resampled()).collect()
}

/// Where a draw has one of the changes that were found: at its own change in the same direction that is nearer to this
/// one than to the others.
fn counterpart(found: &[Change], index: usize, drawn: &[Change]) -> Option<f64> {
    let distance = |one: &Change, other: &Change| (one.at / other.at).ln().abs();
    let nearest_to = |one: &Change| {
        let alike = (0..found.len()).filter(|&at| found[at].rises == one.rises);
        alike.min_by(|&a, &b| distance(&found[a], one).total_cmp(&distance(&found[b], one)))
    };
    let own = drawn.iter().filter(|one| nearest_to(one) == Some(index));
    own.min_by(|a, b| distance(a, &found[index]).total_cmp(&distance(b, &found[index]))).map(|one| one.at)
}

/// Every place where the ratio of the lines passes one, between measured places on a logarithmic axis.
fn changes(shared: &[(&Place, &Place)], mut value: impl FnMut(&[f64]) -> f64) -> Vec<Change> {
    let ratio = |(a, b): &(&Place, &Place)| {
        let (above, below) = rates(a, b);
        (a.x.ln(), (value(above) / value(below)).ln())
    };
    sign_changes(&shared.iter().map(ratio).collect::<Vec<_>>())
}

/// Every place where a line through these points passes zero. It passes at a point that is zero itself, if the points
/// around that have different signs.
fn sign_changes(points: &[(f64, f64)]) -> Vec<Change> {
    let mut found = Vec::new();
    let mut last: Option<(f64, f64)> = None;
    let mut zero: Option<f64> = None;
    for &(x, y) in points {
        if y == 0.0 {
            zero = zero.or(Some(x));
            continue;
        }
        if let Some((x0, y0)) = last
            && y0 * y < 0.0
        {
            let at = zero.unwrap_or(x0 + (x - x0) * y0 / (y0 - y));
            found.push(Change { at: at.exp(), rises: y > 0.0 });
        }
        (last, zero) = (Some((x, y)), None);
    }
    found
}

/// The difference of the lines at each place, corrected together.
fn compared(seed: u64, shared: &[(&Place, &Place)]) -> Vec<(f64, Difference)> {
    let difference = |a, b| {
        let (above, below) = rates(a, b);
        Difference::of(above, below, seed)
    };
    let mut compared: Vec<(f64, Difference)> =
        shared.iter().filter_map(|(a, b)| Some((a.x, difference(a, b)?))).collect();
    compare::correct(&mut compared.iter_mut().map(|(_, one)| one).collect::<Vec<_>>());
    compared
}

/// Whether the nearest place to the left at which the lines differ beyond chance has them as before the change, and the
/// nearest one to the right as after it.
fn differs_on_both_sides(compared: &[(f64, Difference)], change: Change) -> bool {
    let mut sure = compared.iter().filter(|(_, one)| one.p_adjusted < compare::SIGNIFICANCE);
    let left = sure.clone().rfind(|(x, _)| *x <= change.at);
    let right = sure.find(|(x, _)| *x > change.at);
    let is_above = |one: &(f64, Difference)| one.1.ratio > 1.0;
    left.is_some_and(|one| is_above(one) != change.rises) && right.is_some_and(|one| is_above(one) == change.rises)
}

fn parameter_intervals(seed: u64, places: &[Place]) -> Option<[(f64, f64); 3]> {
    let mut rng = Rng::new(seed);
    let mut laws: Vec<Law> = Vec::new();
    for _ in 0..RESAMPLES {
        let mut median = |place: &Place| resampled_median(place.rates(), &mut vec![0.0; place.rates().len()], &mut rng);
        let drawn: Vec<(f64, f64)> = places.iter().map(|place| (place.x, median(place))).collect();
        laws.extend(Fit::of(&drawn).map(|fit| fit.law));
    }
    let interval = |parameter: fn(&Law) -> f64| middle_95_percent(&mut laws.iter().map(parameter).collect::<Vec<_>>());
    Some([interval(|law| law.lambda)?, interval(|law| law.sigma)?, interval(|law| law.kappa)?])
}

/// Standard deviation by mean of a point's throughput; `None` for a single run.
pub fn variation(point: &PointSummary) -> Option<f64> {
    let rates = &point.figures[&Metric::OpsPerSec].values;
    let n = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / n;
    let squares: f64 = rates.iter().map(|rate| (rate - mean).powi(2)).sum();
    (rates.len() > 1 && mean > 0.0).then(|| (squares / (n - 1.0)).sqrt() / mean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::folder::RunRecord;
    use crate::testing;

    const GRID: &str = "question='?'\nservers=['slow', 'quick']\nclients=[1, 10, 100, 1000]\nratio=['1:0', '0:1']\n\
        test_seconds=1\nwarm_up_seconds=0\nrepeats=10\n";

    /// `slow` does 1000 per second at any number of clients; `quick` 500 at one client and 4000 at a thousand.
    fn found(text: &str) -> (RunRecord, Summary) {
        testing::run("grid", text, |point, round| {
            let rate = if point.server == "slow" { 1000.0 } else { 500.0 * f64::from(point.clients).powf(0.3) };
            rate * (1.0 + f64::from(round) * 1e-3)
        })
    }

    /// A sweep whose axis distinguishes its lines would have one line, and compare nothing.
    #[test]
    fn shipped_sweeps_compare_something_in_full_and_in_short() {
        let home = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("sweeps");
        for sweep in crate::plan::sweep::load_folder(&home).unwrap() {
            for sweep in [sweep.clone(), sweep.reduced().unwrap()] {
                let (run, summary) = testing::run_of(sweep, |_, round| 1000.0 + f64::from(round));
                let sweep = &run.setup.sweeps[0];
                assert!(!comparisons(&summary, sweep).is_empty(), "{}, {} points", sweep.name, summary.points.len());
            }
        }
    }

    #[test]
    fn nothing_follows_from_points_that_were_mostly_unsteady_bound_by_the_generator_or_without_all_requests() {
        let flaws: [fn(&mut PointSummary); 3] = [
            |one| one.unsteady = one.lines.len() / 2 + 1,
            |one| one.generator_saturated = one.lines.len(),
            |one| one.unsent = one.lines.len(),
        ];
        for flaw in flaws {
            let (run, mut summary) = found(GRID);
            let decided = |summary: &Summary| {
                let all = comparisons(summary, &run.setup.sweeps[0]);
                all.iter().filter(|one| one.verdict != Verdict::Inconclusive).count()
            };
            assert!(decided(&summary) > 0);
            summary.points.iter_mut().for_each(flaw);
            assert_eq!(decided(&summary), 0);
        }
    }

    #[test]
    fn a_p99_decides_nothing_where_the_hypervisor_took_cores_away_in_most_repeats() {
        let (run, mut summary) = found(GRID);
        let mut decided = |stolen: f64, repeats: fn(usize) -> usize| {
            for one in &mut summary.points {
                one.stolen_cores = vec![0.0; one.lines.len()];
                let some = repeats(one.lines.len());
                one.stolen_cores[..some].fill(stolen);
            }
            let all = comparisons(&summary, &run.setup.sweeps[0]);
            let of =
                |metric| all.iter().filter(|one| one.metric == metric && one.verdict != Verdict::Inconclusive).count();
            (of(Metric::OpsPerSec), of(Metric::P99Us))
        };
        let (throughput, tail) = decided(0.0, |all| all);
        assert!(throughput > 0 && tail > 0);
        assert_eq!(decided(0.006, |all| all), (throughput, 0));
        assert_eq!(decided(0.006, |all| all / 2), (throughput, tail));
        assert_eq!(decided(0.004, |all| all), (throughput, tail));
    }

    #[test]
    fn lines_are_compared_with_the_first_or_the_one_that_is_named() {
        let (run, summary) = found(GRID);
        let all = comparisons(&summary, &run.setup.sweeps[0]);
        assert_eq!(all.len(), 4 * 2 * 3);
        assert!(all.iter().all(|one| one.baseline.point.server == "slow" && one.subject.point.server == "quick"));
        assert!(all.iter().all(|one| one.baseline.point.clients == one.subject.point.clients));
        let at = |clients| {
            all.iter().find(|one| one.subject.point.clients == clients && one.metric == Metric::OpsPerSec).unwrap()
        };
        assert_eq!((at(1).verdict, at(1000).verdict), (Verdict::Worse, Verdict::Better));
        assert!(at(1).difference.p_adjusted > at(1).difference.p);
        let (run, summary) = found(&format!("baseline='quick'\n{GRID}"));
        assert!(comparisons(&summary, &run.setup.sweeps[0]).iter().all(|one| one.baseline.point.server == "quick"));
    }

    #[test]
    fn a_field_can_be_the_contrast() {
        let (run, summary) = found(&format!("contrast='ratio'\n{GRID}"));
        let all = comparisons(&summary, &run.setup.sweeps[0]);
        assert_eq!(all.len(), 4 * 2 * 3);
        let sides = |one: &Comparison| (one.subject.point.ratio.to_string(), one.baseline.point.ratio.to_string());
        assert!(all.iter().all(|one| sides(one) == ("0:1".to_owned(), "1:0".to_owned())));
        assert!(all.iter().all(|one| one.verdict == Verdict::NoChange), "{all:?}");
    }

    // 500 n^0.3 = 1000 at n = 2^(10/3), which is 10.08.
    #[test]
    fn a_crossing_is_found_where_it_is() {
        let (run, summary) = found(GRID);
        let all = crossings(&summary, &run.setup.sweeps[0]);
        assert_eq!(all.len(), 2, "one for each ratio");
        let one = &all[0];
        assert!((one.at - 10.08).abs() < 0.05 && one.interval.0 <= one.at && one.at <= one.interval.1, "{one:?}");
        assert_eq!((one.left.as_str(), one.right.as_str(), one.clear, one.share), ("slow", "quick", true, 1.0));
    }

    #[test]
    fn every_place_where_two_lines_change_places_is_a_crossing_with_its_own_direction() {
        let (run, summary) = testing::run("grid", GRID, |point, round| {
            let is_slow_here = point.server == "quick" && [1, 100].contains(&point.clients);
            let is_quick_here = point.server == "quick" && !is_slow_here;
            let rate = if is_slow_here {
                500.0
            } else if is_quick_here {
                2000.0
            } else {
                1000.0
            };
            rate * (1.0 + f64::from(round) * 1e-3)
        });
        let all = crossings(&summary, &run.setup.sweeps[0]);
        let of_one: Vec<(&str, bool)> = all.iter().take(3).map(|one| (one.right.as_str(), one.clear)).collect();
        assert_eq!(of_one, [("quick", true), ("slow", true), ("quick", true)]);
        assert!(all[0].at < 10.0 && (10.0..100.0).contains(&all[1].at) && all[2].at > 100.0, "{all:?}");
        assert_eq!(all.len(), 2 * 3, "for each ratio");
    }

    #[test]
    fn a_draw_counts_for_the_nearest_crossing_in_its_own_direction_alone() {
        let change = |at: f64, rises| Change { at, rises };
        let found = [change(10.0, true), change(100.0, false), change(1000.0, true)];
        let drawn = [change(12.0, true), change(90.0, false)];
        assert_eq!(counterpart(&found, 0, &drawn), Some(12.0));
        assert_eq!(counterpart(&found, 1, &drawn), Some(90.0));
        assert_eq!(counterpart(&found, 2, &drawn), None, "the draw has no second rise");
        assert_eq!(counterpart(&found[..1], 0, &[change(10.0, false)]), None, "it crosses in the other direction");
    }

    #[test]
    fn a_line_that_touches_zero_passes_it_only_if_it_goes_on_to_the_other_side() {
        let places = |ys: [f64; 4]| {
            let points: Vec<(f64, f64)> = (1..).map(|x: i32| f64::from(x)).zip(ys).collect();
            sign_changes(&points).into_iter().map(|one| (one.at.ln(), one.rises)).collect::<Vec<_>>()
        };
        assert_eq!(places([-1.0, 0.0, 1.0, 2.0]).len(), 1);
        assert!((places([-1.0, 0.0, 1.0, 2.0])[0].0 - 2.0).abs() < 1e-9);
        assert_eq!(places([-1.0, 0.0, -1.0, -2.0]), []);
        assert_eq!(places([-1.0, 1.0, -1.0, 1.0]).iter().map(|one| one.1).collect::<Vec<_>>(), [true, false, true]);
    }

    #[test]
    fn crossings_and_laws_leave_out_places_from_which_nothing_follows_and_say_how_many() {
        let (run, mut summary) = found(GRID);
        summary.points.iter_mut().filter(|one| one.point.clients == 10).for_each(|one| one.failed = 1);
        let all = crossings(&summary, &run.setup.sweeps[0]);
        assert!(all.len() == 2 && all.iter().all(|one| one.left_out == 1), "{all:?}");
        let variant = |threads: u32| format!("{{name='t{threads}', flags=['--threads', '{threads}']}}");
        let variants: Vec<String> = [1, 2, 4, 8, 16].map(variant).into();
        let text = GRID.replace("[1, 10, 100, 1000]", "[50]") + &format!("variant=[{}]\n", variants.join(", "));
        let (run, mut summary) = testing::run("grid", &text, |point, round| {
            let threads: f64 = point.variant[1..].parse().unwrap();
            1000.0 * threads * (1.0 + f64::from(round) * 1e-4)
        });
        let left_out = |summary: &Summary| -> Vec<usize> {
            scaling(summary, &run.setup.sweeps[0]).iter().map(|one| one.left_out).collect()
        };
        assert_eq!(left_out(&summary), [0; 4]);
        summary.points.iter_mut().filter(|one| one.point.variant == "t2").for_each(|one| one.unsteady = 10);
        assert_eq!(left_out(&summary), [1; 4]);
    }

    /// The shipped sweep of threads as a machine with so many cores runs it, whose servers do all that a core can with
    /// each thread, but for a twentieth.
    fn scaling_on(cores: usize) -> Vec<Scaling> {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("sweeps/threads.toml");
        let mut sweep = Sweep::read(&file).unwrap();
        sweep.keep_fitting(cores);
        (sweep.pipeline, sweep.key_maximum) = (vec![16], vec![10_000]);
        let of = sweep.clone();
        let (run, summary) = testing::run_of(sweep, |point, round| {
            let flags = &of.variant(&point.variant).flags;
            let threads =
                flags.windows(2).find(|pair| pair[0] == "--threads").map_or(1.0, |pair| pair[1].parse().unwrap());
            1000.0 * threads / (1.0 + 0.05 * (threads - 1.0)) * (1.0 + f64::from(round) * 1e-4)
        });
        scaling(&summary, &run.setup.sweeps[0])
    }

    #[test]
    fn the_sweep_of_threads_has_a_law_for_each_engine_where_it_has_four_numbers_of_threads_and_none_of_two() {
        assert!(scaling_on(2).is_empty() && scaling_on(4).is_empty(), "two numbers of threads, and three");
        for cores in [5, 9, 64] {
            let all = scaling_on(cores);
            let lines: Vec<&str> = all.iter().map(|one| one.line.as_str()).collect();
            let expected =
                ["mutex --appendonly no", "dashmap --appendonly no", "actor --appendonly no --shards threads"];
            assert_eq!(lines, expected, "{cores} cores");
            assert!(
                all.iter().all(|one| (one.fit.law.sigma - 0.05).abs() < 5e-3 && one.intervals.is_some()),
                "{all:?}"
            );
        }
    }

    #[test]
    fn at_a_given_rate_nothing_overtakes_anything() {
        let (run, summary) = found(GRID);
        let mut sweep = run.setup.sweeps[0].clone();
        assert!(!crossings(&summary, &sweep).is_empty());
        sweep.rate_percent = vec![50];
        assert!(crossings(&summary, &sweep).is_empty());
    }

    #[test]
    fn lines_within_noise_have_no_clear_crossing() {
        let (run, summary) = testing::run("grid", GRID, |point, round| {
            let wave = f64::from((round * 7 + point.clients % 13) % 11);
            if point.server == "slow" { 1000.0 } else { 995.0 + wave }
        });
        assert!(crossings(&summary, &run.setup.sweeps[0]).iter().all(|one| !one.clear));
    }

    #[test]
    fn crossings_below_ten_clients_are_marked_as_artefacts_of_waking() {
        let crossing = |text: &str, crossing_at: f64| {
            let (run, summary) = testing::run("grid", text, |point, round| {
                let x = f64::from(point.clients.max(point.pipeline));
                let rate = if point.server == "slow" { 1000.0 } else { 1000.0 * (x / crossing_at).powf(0.3) };
                rate * (1.0 + f64::from(round) * 1e-3)
            });
            crossings(&summary, &run.setup.sweeps[0]).swap_remove(0)
        };
        assert!(crossing(GRID, 3.0).wake_up);
        assert!(!crossing(GRID, 30.0).wake_up);
        let along_pipeline = GRID.replace("clients=[1, 10, 100, 1000]", "clients=[50]\npipeline=[1, 4, 160]");
        assert!(!crossing(&along_pipeline.replace("[50]", "[1]"), 3.0).wake_up);
    }

    #[test]
    fn the_law_is_fitted_along_threads_and_never_along_clients() {
        let (run, summary) = found(GRID);
        assert!(scaling(&summary, &run.setup.sweeps[0]).is_empty());
        let variant =
            |threads: u32| format!("{{name='t{threads}', flags=['--appendonly', 'no', '--threads', '{threads}']}}");
        let variants: Vec<String> = [1, 2, 4, 8].map(variant).into();
        let text = GRID.replace("[1, 10, 100, 1000]", "[50]") + &format!("variant=[{}]\n", variants.join(", "));
        // One lock: no more with more threads.
        let (run, summary) = testing::run("grid", &text, |point, round| {
            let threads: f64 = point.variant[1..].parse().unwrap();
            (if point.server == "slow" { 1000.0 } else { 1000.0 * threads }) * (1.0 + f64::from(round) * 1e-4)
        });
        let all = scaling(&summary, &run.setup.sweeps[0]);
        assert_eq!(all.len(), 4, "two servers at two ratios");
        let of = |line: &str| all.iter().find(|one| one.line == line).unwrap();
        assert!((of("slow --appendonly no").fit.law.sigma - 1.0).abs() < 1e-3, "{all:?}");
        assert!(of("quick --appendonly no").fit.law.sigma < 1e-3, "{all:?}");
        assert!(all.iter().all(|one| one.intervals.is_some() == one.fit.is_good()));
    }
}
