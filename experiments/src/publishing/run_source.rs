//! A run as the source of a document's figures: each query of it is text.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::base::text::{grouped, markdown};
use crate::judging::analysis::{self, Comparison};
use crate::judging::answers;
use crate::judging::claims::{self, Claims, Selector};
use crate::judging::compare::{Difference, Verdict};
use crate::judging::factorial::{self, Analysis};
use crate::judging::noise;
use crate::judging::summary::{FAILED, GENERATOR_BOUND, Metric, PointSummary, STOLEN, Summary, UNSENT};
use crate::plan::dimension::{Dimension, Line};
use crate::plan::sweep::Sweep;
use crate::plan::values::FlagValue;
use crate::publishing::report::{self, Table, figure, title};
use crate::results::folder::RunFolder;
use crate::results::observation::Observations;

/// A run, and what it comes to.
#[derive(Debug)]
pub(crate) struct Source {
    folder: PathBuf,
    run: RunFolder,
    observations: Observations,
    summary: Summary,
}

impl Source {
    /// The run in a folder, relative to the root.
    pub(super) fn read(root: &Path, folder: &Path) -> Result<Self> {
        let run = RunFolder::open(&root.join(folder))?;
        let observations = run.published()?;
        let summary = Summary::of(&run.record, &observations)?;
        Ok(Self { folder: folder.to_path_buf(), run, observations, summary })
    }

    /// A run with the trials of one sweep only.
    pub(super) fn of_sweep(root: &Path, folder: &Path, sweep: &str) -> Result<Self> {
        let run = RunFolder::open(&root.join(folder))?;
        let mut observations = run.published()?;
        observations.trials.retain(|one| one.trial.split('/').next() == Some(sweep));
        let summary = Summary::of(&run.record, &observations)?;
        Ok(Self { folder: folder.to_path_buf(), run, observations, summary })
    }

    /// Whether the run has a sweep of this name.
    pub(super) fn has_sweep(&self, name: &str) -> bool {
        self.sweeps().any(|own| own == name)
    }

    /// The names of its sweeps.
    pub(super) fn sweeps(&self) -> impl Iterator<Item = &str> {
        self.run.record.setup.sweeps.iter().map(|sweep| sweep.name.as_str())
    }

    /// The processor, and how many cores it has.
    pub(super) fn processor(&self) -> String {
        let environment = &self.run.record.environment;
        format!("{}, {} cores", environment.cpu.as_deref().unwrap_or("unknown"), environment.cores)
    }

    /// The result of a query, in the document at `path`: its kind, and its other words.
    pub(super) fn query(&self, path: &Path, kind: &str, words: &[&str], claims: &[Claims]) -> Result<String> {
        match kind {
            "run" => Ok(link(path, &self.folder)),
            "figure" => one_figure(self, words),
            "ratio" => ratio(self, words),
            "machine" => Ok(machine(self)),
            "sweep" => of_sweep(self, words, table),
            "verdicts" => of_sweep(self, words, verdicts),
            "crossings" => Ok(crossings(self)),
            "scaling" => Ok(scaling(self)),
            "noise" => Ok(noise_table(self)),
            "parts" => factorial_tables(self, words, report::parts),
            "effects" => factorial_tables(self, words, report::effects),
            "answers" => Ok(answers_list(self)),
            "claims" => Ok(claims_table(self, claims)),
            _ => bail!("there is no query {kind:?}"),
        }
    }
}

/// The tables of the analyses of one pair of servers in a sweep, one for each block: `SWEEP METRIC SUBJECT BASELINE`.
fn factorial_tables(source: &Source, words: &[&str], make: impl Fn(&Analysis) -> Table) -> Result<String> {
    let (name, metric, rest) = head(words)?;
    let [subject, baseline] = rest else { bail!("a subject and a baseline are needed") };
    of_sweep(source, &[name, metric.key()], |summary, sweep, metric| {
        let own = factorial::of(summary, sweep, metric).into_iter();
        let own = own.filter(|one| one.subject == *subject && one.baseline == *baseline);
        let tables = own.map(|one| {
            let table = make(&one);
            format!("\n\n{}{}:{}", report::caption(&one), flawed(&one), markdown(&table.header, &table.rows))
        });
        let tables: String = tables.collect();
        if tables.is_empty() { "not measured: points of the design are missing".to_owned() } else { tables }
    })
}

/// How many points of a design nothing follows from, as the report says it.
fn flawed(one: &Analysis) -> String {
    match one.flawed {
        0 => String::new(),
        count => format!(" ({count} of its points failed, were unsteady or bound by the generator)"),
    }
}

/// The answers as a list.
fn answers_list(source: &Source) -> String {
    let mut text = String::from("\n\n");
    for one in answers::of(&source.run.record, &source.summary) {
        text.push_str(&format!("- **{}** {}\n", one.question, one.headline));
        one.sentences.iter().for_each(|sentence| text.push_str(&format!("  - {sentence}\n")));
    }
    text.push('\n');
    text
}

fn one_figure(source: &Source, words: &[&str]) -> Result<String> {
    let (sweep, metric, rest) = head(words)?;
    let point = claims::find(&source.summary, sweep, &[&selector(rest)?]).map_err(anyhow::Error::msg)?;
    let estimate = point.figures.get(&metric).with_context(|| format!("no figures of {}", metric.key()))?;
    Ok(format!("{}{}", figure(metric, estimate.median), point.remark(metric).map_or("", symbol)))
}

fn ratio(source: &Source, words: &[&str]) -> Result<String> {
    Ok(difference(source, words)?.text())
}

/// The difference of two points, and the first remark on them.
pub(super) struct Compared {
    pub(super) difference: Difference,
    pub(super) remark: Option<&'static str>,
}

impl Compared {
    /// The ratio with its interval, and the symbol that cells of tables have.
    pub(super) fn text(&self) -> String {
        let Difference { ratio, low, high, .. } = self.difference;
        format!("{}{}", interval(ratio, low, high), self.remark.map_or("", symbol))
    }
}

/// The difference of two points: `SWEEP METRIC SHARED of SUBJECT to BASELINE`.
pub(super) fn difference(source: &Source, words: &[&str]) -> Result<Compared> {
    let (sweep, metric, rest) = head(words)?;
    let place = |word| rest.iter().position(|found| *found == word).with_context(|| format!("no `{word}`"));
    let (of, to) = (place("of")?, place("to")?);
    ensure!(of < to, "`of` comes before `to`");
    let shared = selector(&rest[..of])?;
    let find = |words| claims::find(&source.summary, sweep, &[&shared, &selector(words)?]).map_err(anyhow::Error::msg);
    let (subject, baseline) = (find(&rest[of + 1..to])?, find(&rest[to + 1..])?);
    compared(source.summary.seed, subject, baseline, metric)
}

fn compared(seed: u64, subject: &PointSummary, baseline: &PointSummary, metric: Metric) -> Result<Compared> {
    let found = analysis::comparison(seed, subject, baseline, metric).context("no figures")?;
    let remark = subject.remark(metric).or(baseline.remark(metric));
    Ok(Compared { difference: found.difference, remark })
}

fn head<'a, 'b>(words: &'b [&'a str]) -> Result<(&'a str, Metric, &'b [&'a str])> {
    let [sweep, metric, rest @ ..] = words else { bail!("a sweep and a metric are needed") };
    let known = Metric::ALL.into_iter().find(|known| known.key() == *metric);
    Ok((sweep, known.with_context(|| format!("there is no metric {metric:?}"))?, rest))
}

fn selector(words: &[&str]) -> Result<Selector> {
    let pair = |word: &&str| {
        let (field, value) = word.split_once('=').with_context(|| format!("{word:?} is not FIELD=VALUE"))?;
        Ok((field.to_owned(), FlagValue::from(value)))
    };
    words.iter().map(pair).collect()
}

/// A ratio with its interval.
pub(super) fn interval(value: f64, low: f64, high: f64) -> String {
    format!("{value:.2} [{low:.2}–{high:.2}]")
}

fn of_sweep(source: &Source, words: &[&str], make: impl Fn(&Summary, &Sweep, Metric) -> String) -> Result<String> {
    let (name, metric, _) = head(words)?;
    let setup = &source.run.record.setup;
    if let Some(skipped) = setup.absent.iter().find(|absent| absent.is_sweep && absent.name == name) {
        return Ok(format!("not measured: {}", skipped.reason));
    }
    let sweep = setup.sweeps.iter().find(|sweep| sweep.name == name);
    let sweep = sweep.with_context(|| format!("the run has no sweep {name}"))?;
    Ok(make(&source.summary, sweep, metric))
}

fn machine(source: &Source) -> String {
    let setup = &source.run.record.setup;
    let versions = setup.servers.iter().filter_map(|server| {
        let version = server.program.version.as_ref()?;
        Some(format!("{} ({version})", server.name))
    });
    format!(
        "{}; {} trials, seed {}; servers: {}",
        source.run.record.environment.machine_and_commit(),
        grouped(source.summary.trials_done as f64),
        source.summary.seed,
        versions.collect::<Vec<_>>().join(", "),
    )
}

/// One metric of a sweep: a row for each place and a column for each line, medians with their intervals. Those from
/// which nothing follows have a symbol that is explained below the table.
fn table(summary: &Summary, sweep: &Sweep, metric: Metric) -> String {
    let axis = Dimension::axis_of(sweep);
    let lines = Line::all(sweep, &axis);
    let facets = analysis::facets(summary, sweep, &axis);
    let named = facets.len() > 1;
    let mut header = if named { vec!["load".to_owned()] } else { Vec::new() };
    header.push(axis.title());
    header.extend(lines.iter().map(|line| line.label.clone()));
    let mut rows = Vec::new();
    let mut flaws = BTreeSet::new();
    for (facet, points) in &facets {
        for (position, label) in axis.ticks(sweep) {
            let mut cell = |line: &Line| {
                let here =
                    points.iter().find(|one| line.holds(&one.point) && axis.position(sweep, &one.point) == position);
                let flaw = here.and_then(|one| one.remark(metric));
                flaws.extend(flaw);
                here.and_then(|one| one.figures.get(&metric)).map_or("–".to_owned(), |estimate| {
                    format!(
                        "{} [{}–{}]{}",
                        figure(metric, estimate.median),
                        figure(metric, estimate.low()),
                        figure(metric, estimate.high()),
                        flaw.map_or("", symbol)
                    )
                })
            };
            let mut row = if named { vec![facet.clone()] } else { Vec::new() };
            row.push(label);
            row.extend(lines.iter().map(&mut cell));
            rows.push(row);
        }
    }
    format!("{}{}", markdown(&header, &rows), legend(flaws))
}

/// What the symbols in a table mean.
pub(super) fn legend(remarks: impl IntoIterator<Item = &'static str>) -> String {
    let how_often = |remark| if remark == FAILED { "" } else { " in most runs" };
    remarks.into_iter().map(|remark| format!("{} {remark}{}\n\n", symbol(remark), how_often(remark))).collect()
}

/// The symbol after a cell's figure if the point has a flaw.
fn symbol(flaw: &str) -> &'static str {
    match flaw {
        GENERATOR_BOUND => "†",
        STOLEN => "§",
        UNSENT => "¶",
        FAILED => "✗",
        _ => "‡",
    }
}

/// One metric of a sweep as verdicts: only decided ones, in the order of the sweep.
fn verdicts(summary: &Summary, sweep: &Sweep, metric: Metric) -> String {
    let all = analysis::comparisons(summary, sweep);
    let own: Vec<&Comparison> = all.iter().filter(|one| one.metric == metric).collect();
    let decided = own.iter().filter(|one| one.verdict != Verdict::Inconclusive && one.verdict != Verdict::Invalid);
    let row = |one: &&&Comparison| {
        let difference = &one.difference;
        vec![
            one.subject.point.label(),
            one.verdict.word(metric).to_owned(),
            interval(difference.ratio, difference.low, difference.high),
            format!("{:+.2}", difference.cliffs_delta),
        ]
    };
    let rows: Vec<Vec<String>> = decided.clone().map(|one| row(&one)).collect();
    let header = ["point", title(metric), &format!("against {}", analysis::baseline_name(sweep)), "Cliff's δ"];
    let undecided = own.len() - rows.len();
    format!("{}\n{undecided} of {} comparisons decide nothing.\n", markdown(&header, &rows), own.len())
}

fn crossings(source: &Source) -> String {
    let mut rows = Vec::new();
    for sweep in &source.run.record.setup.sweeps {
        let axis = Dimension::axis_of(sweep);
        for one in analysis::crossings(&source.summary, sweep).into_iter().filter(|one| one.clear) {
            let (low, high) = one.interval;
            rows.push(vec![
                sweep.name.clone(),
                one.facet,
                format!("{} overtakes {}", one.right, one.left),
                format!(
                    "{:.0} [{low:.0}–{high:.0}] {}{}{}",
                    one.at,
                    axis.title(),
                    if one.wake_up { format!(", {}", analysis::WAKE_UP) } else { String::new() },
                    analysis::left_out_words(one.left_out)
                ),
            ]);
        }
    }
    if rows.is_empty() {
        return "\nNo two lines cross clearly.\n".to_owned();
    }
    markdown(&["sweep", "load", "which", "at"], &rows)
}

/// A fit needs several numbers of threads with ten repeats each.
const NO_FIT: &str = "No line has enough numbers of threads, with enough repeats, for a fit.";

fn scaling(source: &Source) -> String {
    let mut rows = Vec::new();
    let mut bad = Vec::new();
    for sweep in &source.run.record.setup.sweeps {
        for one in analysis::scaling(&source.summary, sweep) {
            let name = if one.facet.is_empty() { one.line.clone() } else { format!("{} ({})", one.line, one.facet) };
            let name = name + &analysis::left_out_words(one.left_out);
            let Some([lambda, sigma, kappa]) = one.intervals else {
                let residual = one.fit.worst_residual() * 100.0;
                bad.push(format!("{} {name}, worst residual {residual:.0} %", sweep.name));
                continue;
            };
            let law = one.fit.law;
            rows.push(vec![
                sweep.name.clone(),
                name,
                format!("{} [{}–{}]", grouped(law.lambda), grouped(lambda.0), grouped(lambda.1)),
                format!("{:.3} [{:.3}–{:.3}]", law.sigma, sigma.0, sigma.1),
                format!("{:.1e} [{:.1e}–{:.1e}]", law.kappa, kappa.0, kappa.1),
                format!("{:.0} %", one.fit.worst_residual() * 100.0),
            ]);
        }
    }
    let without = if bad.is_empty() {
        String::new()
    } else {
        format!("\nNo fit shown, the law does not hold: {}.\n", bad.join("; "))
    };
    if rows.is_empty() {
        return if without.is_empty() { format!("\n{NO_FIT}\n") } else { without };
    }
    format!("{}{without}", markdown(&["sweep", "line", "λ", "σ", "κ", "worst residual"], &rows))
}

fn noise_table(source: &Source) -> String {
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let mut text = String::new();
    for sweep in &source.run.record.setup.sweeps {
        let found = noise::of(&source.summary, &source.run.record.setup.sweeps, sweep);
        if found.is_empty() {
            continue;
        }
        let row = |one: &noise::Noise| {
            let (low, high) = one.share_interval;
            let share = one.false_positives as f64 / one.comparisons.max(1) as f64;
            let mut row = vec![
                title(one.metric).to_owned(),
                one.comparisons.to_string(),
                format!("{} [{}–{}]", percent(share), percent(low), percent(high)),
                format!("± {}", percent(one.floor)),
            ];
            row.extend(one.power.iter().map(|(_, power)| format!("{:.0} %", power * 100.0)));
            row
        };
        let mut header =
            ["metric", "comparisons of equals", "false positives", "noise floor"].map(str::to_owned).to_vec();
        header.extend(noise::SLOWDOWNS.iter().map(|slowdown| format!("power at {:.0} %", slowdown * 100.0)));
        text.push_str(&markdown(&header, &found.iter().map(row).collect::<Vec<_>>()));
        text.push_str(&format!("\n{}\n", noise::power_in_words(&found)));
        let injected = noise::injected(&source.summary, &source.observations, sweep);
        let row = |one: &noise::Injected| {
            let d = &one.difference;
            vec![
                one.place.clone(),
                percent(one.stopped_share),
                format!("{:.3} [{:.3}–{:.3}]", d.ratio, d.low, d.high),
                if d.p < 1e-4 { "< 0.0001".to_owned() } else { format!("{:.4}", d.p) },
                format!("{:.0} %", one.power * 100.0),
            ]
        };
        let header = ["load", "server stopped for", "throughput against its equals", "p", "power of this test"];
        text.push_str(&markdown(&header, &injected.iter().map(row).collect::<Vec<_>>()));
    }
    if text.is_empty() {
        return format!("\nThe run compares no equals, or measured them fewer than {} times.\n", noise::RUNS);
    }
    text
}

fn claims_table(source: &Source, claims: &[Claims]) -> String {
    let rows = claims::audit(&source.run.record, &source.summary, claims);
    let row = |row: &claims::Row| {
        let expected = row.claim.expected.map_or("–".to_owned(), |(low, high)| {
            if row.claim.crossing { format!("{low:.0}–{high:.0}") } else { format!("{low:.2}–{high:.2}") }
        });
        let remarks = row.remarks();
        let suffix = if remarks.is_empty() { remarks } else { format!(" ({remarks})") };
        vec![
            format!("{}{suffix}", row.claim.claim),
            row.source.clone(),
            expected,
            row.found.clone(),
            format!("**{}**", row.outcome.word()),
        ]
    };
    let rows: Vec<Vec<String>> = rows.iter().map(row).collect();
    markdown(&["claim", "source", "expected", "found", "verdict"], &rows)
}

/// A link from a document to the report of a run.
fn link(document: &Path, folder: &Path) -> String {
    let up = "../".repeat(document.components().count().saturating_sub(1));
    let folder = folder.display();
    format!("[{folder}]({up}{folder}/report.html)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_from_which_nothing_follows_have_a_symbol_that_is_explained() {
        let sweep = "question='?'\nservers=['s']\nclients=[1, 2, 3]\ntest_seconds=1\nwarm_up_seconds=0\nrepeats=10\n";
        let (run, mut summary) = crate::testing::run("x", sweep, |_, _| 1000.0);
        let made = |summary: &Summary| table(summary, &run.setup.sweeps[0], Metric::OpsPerSec);
        let plain = made(&summary);
        assert!(!plain.contains(['†', '‡']) && plain.contains("| 3 | 1,000 [1,000–1,000] |"), "{plain}");
        summary.points[0].generator_saturated = 10;
        summary.points[1].unsteady = 6;
        summary.points[2].unsteady = 5;
        let shown = made(&summary);
        assert!(shown.contains("| 1 | 1,000 [1,000–1,000]† |\n| 2 | 1,000 [1,000–1,000]‡ |\n"), "{shown}");
        assert!(shown.contains("| 3 | 1,000 [1,000–1,000] |"), "half of the runs are not most: {shown}");
        assert!(shown.contains("\n† ") && shown.contains("\n‡ no steady state was reached in most runs\n"), "{shown}");
        summary.points[2].failed = 1;
        let shown = made(&summary);
        assert!(shown.contains("| 3 | 1,000 [1,000–1,000]✗ |"), "{shown}");
        assert!(shown.contains("\n✗ trials failed (error replies, or keys that were not there)\n"), "{shown}");
    }

    #[test]
    fn a_ratio_in_a_sentence_has_the_symbol_of_the_side_from_which_nothing_follows() {
        let sweep = "question='?'\nservers=['s', 't']\nclients=[1]\ntest_seconds=1\nwarm_up_seconds=0\nrepeats=10\n";
        let (_, mut summary) = crate::testing::run("x", sweep, |_, _| 1000.0);
        let text =
            |summary: &Summary| compared(1, &summary.points[0], &summary.points[1], Metric::OpsPerSec).unwrap().text();
        assert_eq!(text(&summary), "1.00 [1.00–1.00]");
        summary.points[1].generator_saturated = 10;
        assert_eq!(text(&summary), "1.00 [1.00–1.00]†");
        summary.points[0].failed = 1;
        assert_eq!(text(&summary), "1.00 [1.00–1.00]✗", "the first remark");
    }

    #[test]
    fn a_link_leads_from_the_document_to_the_report() {
        let folder = Path::new("experiments/results/full");
        assert_eq!(
            link(Path::new("docs/results.md"), folder),
            "[experiments/results/full](../experiments/results/full/report.html)"
        );
        assert!(link(Path::new("README.md"), folder).contains("](experiments/"));
    }
}
