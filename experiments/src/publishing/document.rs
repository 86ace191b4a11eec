//! Figures in Markdown: each is between two comments, the first of which says where it comes from.
//!
//! ```text
//! <!--lab run experiments/results/full-20261122-->…<!--/lab-->                      the run that what follows is from
//! <!--lab figure clients p99_us server=actor clients=500-->1,234<!--/lab-->         a median
//! <!--lab ratio clients ops_per_sec clients=500 of server=actor to server=mutex-->1.42 [1.38–1.47]<!--/lab-->
//! <!--lab run experiments/results/why-20261124 for why-->…<!--/lab-->     `fill --run` changes it to runs of that sweep alone
//! <!--lab parts why ops_per_sec actor mutex-->      what a difference is made of; `effects` has the analysis of variance
//! <!--lab answers-->                                                                what follows from all verdicts
//! <!--lab claims-->                                                                 the audit, as a table
//! <!--lab driven experiments/results/scaling-20261126c/scaling.jsonl curves batch-->   of `experiments scaling`
//! <!--lab driven none answer-->     … as sentences; there is no file yet
//! <!--lab driven FILE figure docs/images/locks-or-actors.svg-->       … as an image, which `fill` writes and `verify` compares
//! …
//! <!--/lab-->
//! ```
//!
//! A document is its own template: [`filled`] evaluates every query and puts the result between the comments, so a
//! document with correct figures does not change. Readers of the page see no comments.
//!
//! A document with `<!--lab strict-->` has figures only between such comments: anything outside that looks like a
//! measurement is an error, except in blocks of code.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::base::files::write_whole;
use crate::base::text::{grouped, markdown};
use crate::judging::analysis::{self, Comparison};
use crate::judging::answers;
use crate::judging::claims::{self, Claims, Selector};
use crate::judging::compare::{Difference, Verdict};
use crate::judging::factorial::{self, Analysis};
use crate::judging::noise;
use crate::judging::summary::{GENERATOR_BOUND, Metric, STOLEN, Summary};
use crate::measuring::growth;
use crate::plan::dimension::{Dimension, Line};
use crate::plan::sweep::Sweep;
use crate::plan::values::FlagValue;
use crate::publishing::locks_or_actors::{self, Answer};
use crate::publishing::report::{self, Table, figure, title};
use crate::publishing::side_by_side;
use crate::publishing::stray_figures;
use crate::results::folder::{self, RunFolder};
use crate::results::observation::Observations;
use crate::scaling;

const OPEN: &str = "<!--lab ";
const OPEN_END: &str = "-->";
const CLOSE: &str = "<!--/lab-->";
pub(crate) const STRICT: &str = "<!--lab strict-->";

/// Marks that are no queries: a strict document, and the records of `seal`.
const MARKS: [&str; 3] = [STRICT, "<!--lab history ", "<!--lab raw "];

/// The text in the place of a figure before there is a run.
const NOT_MEASURED: &str = "not measured yet";

/// The name of no run, in a `run` query.
pub(crate) const NO_RUN: &str = "none";

/// The folder of runs that are compared with each other.
const RESULTS: &str = "experiments/results";

/// The source of a document's figures.
#[derive(Debug)]
pub(crate) struct Source {
    folder: PathBuf,
    run: RunFolder,
    observations: Observations,
    summary: Summary,
}

impl Source {
    /// A run with the trials of one sweep only.
    fn of_sweep(root: &Path, folder: &Path, sweep: &str) -> Result<Self> {
        let run = RunFolder::open(&root.join(folder))?;
        let mut observations = run.published()?;
        observations.trials.retain(|one| one.trial.split('/').next() == Some(sweep));
        let summary = Summary::of(&run.record, &observations)?;
        Ok(Self { folder: folder.to_path_buf(), run, observations, summary })
    }
}

/// Evaluates queries, reading each run once.
#[derive(Debug)]
pub struct Library {
    /// Paths of runs are relative to this: the root of the repository.
    root: PathBuf,
    claims: Vec<Claims>,
    runs: BTreeMap<PathBuf, Source>,
    answers: BTreeMap<PathBuf, Answer>,
    /// Files that queries of the documents made so far: what documents show beside their text.
    made: BTreeMap<PathBuf, String>,
}

impl Source {
    fn has_sweep(&self, name: &str) -> bool {
        self.run.record.setup.sweeps.iter().any(|sweep| sweep.name == name)
    }
}

impl Library {
    /// A library of the runs below `root`.
    pub fn new(root: &Path, claims: Vec<Claims>) -> Self {
        Self {
            root: root.to_path_buf(),
            claims,
            runs: BTreeMap::new(),
            answers: BTreeMap::new(),
            made: BTreeMap::new(),
        }
    }

    /// The files that the queries evaluated so far have made, relative to the root.
    pub(crate) fn made(&self) -> &BTreeMap<PathBuf, String> {
        &self.made
    }

    /// Writes these files, and returns their paths.
    pub fn write_made(&self) -> Result<Vec<PathBuf>> {
        for (path, content) in &self.made {
            let whole = self.root.join(path);
            let folder = whole.parent().unwrap_or(&self.root);
            fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
            write_whole(&whole, content)?;
        }
        Ok(self.made.keys().cloned().collect())
    }

    /// What a file of `experiments scaling` gives: tables, or parts of the page that answers.
    fn driven(&mut self, document: &Path, words: &[&str]) -> Result<String> {
        match words {
            [file, ..] if *file == NO_RUN => Ok(NOT_MEASURED.to_owned()),
            [file, rest @ ..] if rest.first().is_some_and(|kind| locks_or_actors::KINDS.contains(kind)) => {
                let made = self.answer(Path::new(file))?.query(document, rest)?;
                if let (["figure", path], Some(content)) = (rest, made.file) {
                    self.made.insert(PathBuf::from(path), content);
                }
                Ok(made.text)
            }
            _ => scaling::query(&self.root, words),
        }
    }

    /// What a file of `experiments scaling` gives. Each file is judged once, also where links lead to it.
    pub(crate) fn answer(&mut self, file: &Path) -> Result<&Answer> {
        let named = self.root.join(file);
        let file = fs::canonicalize(&named).with_context(|| format!("cannot read {}", named.display()))?;
        if !self.answers.contains_key(&file) {
            let answer = Answer::of(&file)?;
            self.answers.insert(file.clone(), answer);
        }
        Ok(&self.answers[&file])
    }

    fn source(&mut self, folder: &Path) -> Result<&Source> {
        if !self.runs.contains_key(folder) {
            let run = RunFolder::open(&self.root.join(folder))?;
            let observations = run.published()?;
            let summary = Summary::of(&run.record, &observations)?;
            let source = Source { folder: folder.to_path_buf(), run, observations, summary };
            self.runs.insert(folder.to_path_buf(), source);
        }
        Ok(&self.runs[folder])
    }

    /// Whether a run can replace the one that a document names: it has the wanted sweep, or all sweeps of the old run.
    /// Otherwise contents of the document would be lost.
    fn may_replace(&mut self, named: &Path, wanted: &str, other: &Path) -> Result<bool> {
        if !wanted.is_empty() {
            return Ok(self.source(other)?.has_sweep(wanted));
        }
        if named == Path::new(NO_RUN) {
            return Ok(true);
        }
        let sweeps =
            self.source(named)?.run.record.setup.sweeps.iter().map(|sweep| sweep.name.clone()).collect::<Vec<_>>();
        let other = self.source(other)?;
        Ok(sweeps.iter().all(|name| other.has_sweep(name)))
    }
}

/// The text of a document with every figure replaced by the result of its query. `path` is the document's, relative to
/// the root; `other_run` replaces the run that it names.
pub fn filled(library: &mut Library, path: &Path, text: &str, other_run: Option<&Path>) -> Result<String> {
    if text.lines().any(|line| line == STRICT) {
        no_stray_figures(text)?;
    }
    let mut result = String::new();
    let mut run: Option<PathBuf> = None;
    let mut rest = text;
    while let Some(start) = next_query(rest) {
        let (before, from) = rest.split_at(start);
        let (query, after) = from[OPEN.len()..].split_once(OPEN_END).context("a query without its end")?;
        let (_, after) = after.split_once(CLOSE).with_context(|| format!("no {CLOSE} after the query {query:?}"))?;
        ensure!(!from[OPEN.len()..from.len() - after.len() - CLOSE.len()].contains(OPEN), "no {CLOSE} after {query:?}");
        let mut query = query.trim().to_owned();
        if let Some(named) = query.strip_prefix("run ") {
            let (named, wanted) = named.trim().split_once(" for ").unwrap_or((named.trim(), ""));
            let other = match other_run {
                Some(other) if library.may_replace(Path::new(named), wanted, other)? => Some(other),
                _ => None,
            };
            let named = other.map_or_else(|| PathBuf::from(named), Path::to_path_buf);
            let wanted = if wanted.is_empty() { String::new() } else { format!(" for {wanted}") };
            query = format!("run {}{wanted}", named.display());
            run = (named != Path::new(NO_RUN)).then_some(named);
        }
        let value = value(library, path, run.as_deref(), &query).with_context(|| format!("in the query {query:?}"))?;
        result.push_str(&format!("{before}{OPEN}{query}{OPEN_END}{value}{CLOSE}"));
        rest = after;
    }
    result.push_str(rest);
    Ok(result)
}

/// The text of a document whose queries of files of `experiments scaling` name this file.
pub(crate) fn with_driven(text: &str, file: &Path) -> String {
    let start = format!("{OPEN}driven ");
    let mut parts = text.split(&start);
    let mut result = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.split_once(' ').map_or("", |(_, rest)| rest);
        result.push_str(&format!("{start}{} {rest}", file.display()));
    }
    result
}

/// The number of figures in a document.
pub fn count(text: &str) -> usize {
    text.matches(CLOSE).count()
}

fn next_query(text: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let start = from + text[from..].find(OPEN)?;
        if !MARKS.iter().any(|mark| text[start..].starts_with(mark)) {
            return Some(start);
        }
        from = start + OPEN.len();
    }
}

fn value(library: &mut Library, path: &Path, run: Option<&Path>, query: &str) -> Result<String> {
    let mut words = query.split_whitespace();
    let kind = words.next().unwrap_or_default();
    let words: Vec<&str> = words.collect();
    if kind == "side-by-side" {
        return side_by_side::table(&library.root, &words);
    }
    if kind == "memory" {
        let [file] = words[..] else { bail!("the file is needed, and nothing else") };
        let text = fs::read_to_string(library.root.join(file)).with_context(|| format!("cannot read {file}"))?;
        return Ok(format!("\n\n{}\n", growth::table(&growth::read(&text)?)));
    }
    if kind == "between" {
        return between(library, &words);
    }
    if kind == "driven" {
        return library.driven(path, &words);
    }
    let Some(run) = run else { return Ok(NOT_MEASURED.to_owned()) };
    let claims = library.claims.clone();
    let source = library.source(run)?;
    match kind {
        "run" => Ok(link(path, &source.folder)),
        "figure" => one_figure(source, &words),
        "ratio" => ratio(source, &words),
        "machine" => Ok(machine(source)),
        "sweep" => of_sweep(source, &words, table),
        "verdicts" => of_sweep(source, &words, verdicts),
        "crossings" => Ok(crossings(source)),
        "scaling" => Ok(scaling(source)),
        "noise" => Ok(noise_table(source)),
        "parts" => factorial_tables(source, &words, report::parts),
        "effects" => factorial_tables(source, &words, report::effects),
        "answers" => Ok(answers_list(source)),
        "claims" => Ok(claims_table(source, &claims)),
        _ => bail!("there is no query {kind:?}"),
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
            format!("\n\n{}:{}", report::caption(&one), markdown(&table.header, &table.rows))
        });
        let tables: String = tables.collect();
        if tables.is_empty() { "not measured: points of the design are missing".to_owned() } else { tables }
    })
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

/// A link from a document to the report of a run.
fn link(document: &Path, folder: &Path) -> String {
    let up = "../".repeat(document.components().count().saturating_sub(1));
    let folder = folder.display();
    format!("[{folder}]({up}{folder}/report.html)")
}

fn one_figure(source: &Source, words: &[&str]) -> Result<String> {
    let (sweep, metric, rest) = head(words)?;
    let point = claims::find(&source.summary, sweep, &[&selector(rest)?]).map_err(anyhow::Error::msg)?;
    let estimate = point.figures.get(&metric).with_context(|| format!("no figures of {}", metric.key()))?;
    Ok(figure(metric, estimate.median))
}

fn ratio(source: &Source, words: &[&str]) -> Result<String> {
    let found = difference(source, words)?;
    Ok(interval(found.ratio, found.low, found.high))
}

fn difference(source: &Source, words: &[&str]) -> Result<Difference> {
    let (sweep, metric, rest) = head(words)?;
    let place = |word| rest.iter().position(|found| *found == word).with_context(|| format!("no `{word}`"));
    let (of, to) = (place("of")?, place("to")?);
    ensure!(of < to, "`of` comes before `to`");
    let shared = selector(&rest[..of])?;
    let find = |words| claims::find(&source.summary, sweep, &[&shared, &selector(words)?]).map_err(anyhow::Error::msg);
    let (subject, baseline) = (find(&rest[of + 1..to])?, find(&rest[to + 1..])?);
    let found = analysis::comparison(source.summary.seed, subject, baseline, metric).context("no figures")?;
    Ok(found.difference)
}

/// The ratio of two points in every run that has both, and the combined ratio of runs and machines. An interval within
/// a run says nothing about another machine.
fn between(library: &mut Library, words: &[&str]) -> Result<String> {
    let (mut rows, mut ratios) = (Vec::new(), Vec::new());
    for folder in folder::raw_runs(&library.root.join(RESULTS))? {
        let folder = folder.strip_prefix(&library.root).unwrap_or(&folder).to_path_buf();
        let source = Source::of_sweep(&library.root, &folder, words.first().copied().unwrap_or_default())?;
        let Ok(found) = difference(&source, words) else { continue };
        let environment = &source.run.record.environment;
        rows.push(vec![
            folder.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            format!("{}, {} cores", environment.cpu.as_deref().unwrap_or("unknown"), environment.cores),
            interval(found.ratio, found.low, found.high),
        ]);
        ratios.push(found.ratio.ln());
    }
    let together = between_runs(&ratios).map_or("–".to_owned(), |(middle, low, high)| interval(middle, low, high));
    let kind = if ratios.len() > 2 { "between runs, 95 %" } else { "between runs, least and greatest" };
    rows.push(vec![format!("**{kind}**"), format!("{} runs", ratios.len()), format!("**{together}**")]);
    Ok(markdown(&["run", "machine", "ratio"], &rows))
}

/// The geometric mean of ratios, given as logarithms, with its interval by Student's t; for two, with their range.
fn between_runs(ratios: &[f64]) -> Option<(f64, f64, f64)> {
    const STUDENT: [f64; 10] = [12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    let count = ratios.len();
    if count < 2 {
        return None;
    }
    let mean = ratios.iter().sum::<f64>() / count as f64;
    if count == 2 {
        let (low, high) = (ratios[0].min(ratios[1]), ratios[0].max(ratios[1]));
        return Some((mean.exp(), low.exp(), high.exp()));
    }
    let variance = ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum::<f64>() / (count - 1) as f64;
    let half = STUDENT.get(count - 2).unwrap_or(&2.0) * (variance / count as f64).sqrt();
    Some((mean.exp(), (mean - half).exp(), (mean + half).exp()))
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

fn interval(value: f64, low: f64, high: f64) -> String {
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
/// which nothing follows have a mark that is explained below the table.
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
                let flaw = here.and_then(|one| one.flaw(metric));
                flaws.extend(flaw);
                here.and_then(|one| one.figures.get(&metric)).map_or("–".to_owned(), |estimate| {
                    format!(
                        "{} [{}–{}]{}",
                        figure(metric, estimate.median),
                        figure(metric, estimate.low()),
                        figure(metric, estimate.high()),
                        flaw.map_or("", mark)
                    )
                })
            };
            let mut row = if named { vec![facet.clone()] } else { Vec::new() };
            row.push(label);
            row.extend(lines.iter().map(&mut cell));
            rows.push(row);
        }
    }
    let legend: String = flaws.iter().map(|flaw| format!("{} {flaw} in most runs\n\n", mark(flaw))).collect();
    format!("{}{legend}", markdown(&header, &rows))
}

/// The mark after a cell's figure if the point has a flaw.
fn mark(flaw: &str) -> &'static str {
    match flaw {
        GENERATOR_BOUND => "†",
        STOLEN => "§",
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
                    "{:.0} [{low:.0}–{high:.0}] {}{}",
                    one.at,
                    axis.title(),
                    if one.wake_up { format!(", {}", analysis::WAKE_UP) } else { String::new() }
                ),
            ]);
        }
    }
    if rows.is_empty() {
        return "\nNo two lines cross clearly.\n".to_owned();
    }
    markdown(&["sweep", "load", "which", "at"], &rows)
}

fn scaling(source: &Source) -> String {
    let mut rows = Vec::new();
    let mut bad = Vec::new();
    for sweep in &source.run.record.setup.sweeps {
        for one in analysis::scaling(&source.summary, sweep) {
            let name = if one.facet.is_empty() { one.line.clone() } else { format!("{} ({})", one.line, one.facet) };
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
        return if without.is_empty() { "\nThe runs are too few for a fit.\n".to_owned() } else { without };
    }
    format!("{}{without}", markdown(&["sweep", "line", "λ", "σ", "κ", "worst residual"], &rows))
}

fn noise_table(source: &Source) -> String {
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let mut text = String::new();
    for sweep in &source.run.record.setup.sweeps {
        let found = noise::of(&source.summary, sweep);
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
        let header = ["load", "server stopped for", "throughput against its equals", "p", "power of this comparison"];
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
        let note = if remarks.is_empty() { remarks } else { format!(" ({remarks})") };
        vec![
            format!("{}{note}", row.claim.claim),
            row.source.clone(),
            expected,
            row.found.clone(),
            format!("**{}**", row.outcome.word()),
        ]
    };
    let rows: Vec<Vec<String>> = rows.iter().map(row).collect();
    markdown(&["claim", "source", "expected", "found", "verdict"], &rows)
}

/// Fails at a number outside of queries that has the form of a measurement.
fn no_stray_figures(text: &str) -> Result<()> {
    // A block of code holds commands, or their output.
    let parts: Vec<&str> = text.split("```").collect();
    ensure!(parts.len() % 2 == 1, "a block of code without its end");
    let prose: String = parts.into_iter().step_by(2).collect();
    let own: Vec<&str> = prose.lines().filter(|line| !MARKS.iter().any(|mark| line.starts_with(mark))).collect();
    let outside = without_queries(&own.join("\n"))?;
    if let Some(figure) = stray_figures::numeric(&outside) {
        bail!("{figure:?} looks like a figure, and no query says where it comes from");
    }
    Ok(())
}

/// A text without its queries and their results.
pub(crate) fn without_queries(text: &str) -> Result<String> {
    let mut outside = String::new();
    let mut rest = text;
    while let Some(start) = next_query(rest) {
        outside.push_str(&rest[..start]);
        rest = rest[start..].split_once(CLOSE).context("a query without its end")?.1;
    }
    outside.push_str(rest);
    Ok(outside)
}

/// The queries of a document.
pub(crate) fn queries(text: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = next_query(rest) {
        let (query, after) = rest[start + OPEN.len()..].split_once(OPEN_END).context("a query without its end")?;
        found.push(query.trim().to_owned());
        rest = after;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(text: &str) -> Result<String> {
        filled(&mut Library::new(Path::new("."), Vec::new()), Path::new("docs/x.md"), text, None)
    }

    #[test]
    fn without_a_run_figures_are_not_measured_and_filling_again_changes_nothing() {
        let text = "a <!--lab run none-->x<!--/lab--> b <!--lab figure s p99_us-->12<!--/lab--> c";
        let once = fill(text).unwrap();
        assert_eq!(
            once,
            format!(
                "a <!--lab run none-->{NOT_MEASURED}<!--/lab--> b <!--lab figure s p99_us-->{NOT_MEASURED}<!--/lab--> c"
            )
        );
        assert_eq!(fill(&once).unwrap(), once);
        assert_eq!(count(&once), 2);
    }

    #[test]
    fn every_query_of_a_driven_file_names_the_new_one_and_none_is_not_measured() {
        let text =
            "a <!--lab driven none answer-->x<!--/lab--> b <!--lab driven old/x.jsonl curves batch-->y<!--/lab-->";
        let filled = fill(&text.replace("old/x.jsonl", "none")).unwrap();
        assert_eq!(filled.matches(NOT_MEASURED).count(), 2, "{filled}");
        let named = with_driven(text, Path::new("new/z.jsonl"));
        let queries = queries(&named).unwrap();
        assert_eq!(queries, ["driven new/z.jsonl answer", "driven new/z.jsonl curves batch"]);
        assert!(named.starts_with("a <!--lab driven new/z.jsonl answer-->x<!--/lab--> b "), "{named}");
    }

    #[test]
    fn a_run_of_few_sweeps_does_not_take_the_place_of_one_of_more() {
        let (all, few) = ("experiments/results/full-20261123-173054", "experiments/results/why-20261124");
        let mut library = Library::new(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), Vec::new());
        for (named, expected) in [
            (all.to_owned(), all.to_owned()),
            (few.to_owned(), few.to_owned()),
            (NO_RUN.to_owned(), few.to_owned()),
            (format!("{all} for why"), format!("{few} for why")),
            (format!("{all} for pipeline"), format!("{all} for pipeline")),
        ] {
            let text = format!("{OPEN}run {named}{OPEN_END}x{CLOSE}");
            let filled = filled(&mut library, Path::new("docs/x.md"), &text, Some(Path::new(few))).unwrap();
            assert!(filled.starts_with(&format!("{OPEN}run {expected}{OPEN_END}")), "{named}: {filled}");
        }
    }

    #[test]
    fn broken_queries_are_errors() {
        for text in ["<!--lab figure a", "<!--lab figure a-->1", "<!--lab run none-->1 <!--lab claims-->2<!--/lab-->"] {
            assert!(fill(text).is_err(), "{text}");
        }
        let error = fill("<!--lab run nowhere/at-all-->x<!--/lab-->").unwrap_err();
        assert!(format!("{error:#}").contains("nowhere/at-all"), "{error:#}");
    }

    #[test]
    fn a_strict_document_has_no_figure_without_a_query() {
        let strict = |text: &str| fill(&format!("<!--lab strict-->\n{text}"));
        let behind_code = "```\ntrue\n```\nand 1.4";
        for stray in ["is 1.4 of it", "(1,234)", "by 17 %", "17% more", "3x", "takes 5 ms.", "| 1.5 |", behind_code] {
            assert!(strict(stray).unwrap_err().to_string().contains("looks like a figure"), "{stray}");
        }
        let query = "<!--lab run none-->1.5<!--/lab-->";
        let code = "```sh\nsleep 1.5\n```";
        for plain in ["with 10 repeats", "redis-server 7.0.15", "2026-11-21", "p99", query, code] {
            strict(plain).unwrap();
        }
        assert!(strict("```sh\nsleep 1").unwrap_err().to_string().contains("without its end"));
    }

    #[test]
    fn points_from_which_nothing_follows_are_marked_and_the_mark_is_explained() {
        let sweep = "question='?'\nservers=['s']\nclients=[1, 2, 3]\ntest_seconds=1\nwarm_up_seconds=0\nrepeats=10\n";
        let (run, mut summary) = crate::testing::run("x", sweep, |_, _| 1000.0);
        let made = |summary: &Summary| table(summary, &run.setup.sweeps[0], Metric::OpsPerSec);
        let plain = made(&summary);
        assert!(!plain.contains(['†', '‡']) && plain.contains("| 3 | 1,000 [1,000–1,000] |"), "{plain}");
        summary.points[0].generator_saturated = 10;
        summary.points[1].unsteady = 6;
        summary.points[2].unsteady = 5;
        let marked = made(&summary);
        assert!(marked.contains("| 1 | 1,000 [1,000–1,000]† |\n| 2 | 1,000 [1,000–1,000]‡ |\n"), "{marked}");
        assert!(marked.contains("| 3 | 1,000 [1,000–1,000] |"), "half of the runs are not most: {marked}");
        assert!(
            marked.contains("\n† ") && marked.contains("\n‡ no steady state was reached in most runs\n"),
            "{marked}"
        );
    }

    #[test]
    fn what_runs_differ_by_is_an_interval_of_its_own() {
        assert_eq!(between_runs(&[0.1]), None);
        let (middle, low, high) = between_runs(&[1.14f64.ln(), 0.79f64.ln()]).unwrap();
        assert!((middle - 0.949).abs() < 1e-3 && (low - 0.79).abs() < 1e-9 && (high - 1.14).abs() < 1e-9);
        // Of logarithms 0, 0.1 and 0.2 the mean's standard error is 0.1 by the root of three.
        let (_, low, high) = between_runs(&[0.0, 0.1, 0.2]).unwrap();
        assert!(
            (high.ln() - 0.1 - 4.303 * 0.1 / 3f64.sqrt()).abs() < 1e-9 && (low.ln() + high.ln() - 0.2).abs() < 1e-9
        );
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
