//! Documents with figures: their queries ([`queries`](super::queries)) are evaluated, and the results put between the
//! comments.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use loadgen::base::students_t::t_975;

use crate::base::files::write_whole;
use crate::base::text::markdown;
use crate::judging::claims::Claims;
use crate::judging::simulation;
use crate::measuring::growth;
use crate::publishing::locks_or_actors::{self, Answer};
use crate::publishing::queries::{CLOSE, NO_RUN, OPEN, OPEN_END, STRICT, next_query, no_stray_figures};
use crate::publishing::run_source::{Compared, Source, difference, interval, legend};
use crate::publishing::seal;
use crate::publishing::side_by_side;
use crate::results::folder;
use crate::scaling;

/// The text in the place of a figure before there is a run.
const NOT_MEASURED: &str = "not measured yet";

/// The folder of runs that are compared with each other.
const RESULTS: &str = "experiments/results";

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

    /// What a file of `experiments scaling` yields: tables, or parts of the page that answers.
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

    /// What follows from a file of `experiments scaling`. Each file is judged once, also where links lead to it.
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
            self.runs.insert(folder.to_path_buf(), Source::read(&self.root, folder)?);
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
        let sweeps: Vec<String> = self.source(named)?.sweeps().map(str::to_owned).collect();
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
    if kind == "checks" {
        let [file] = words[..] else { bail!("the file is needed, and nothing else") };
        let text = fs::read_to_string(library.root.join(file)).with_context(|| format!("cannot read {file}"))?;
        return simulation::as_markdown(&text);
    }
    if kind == "between" {
        return between(library, &words);
    }
    if kind == "driven" {
        return library.driven(path, &words);
    }
    let Some(run) = run else { return Ok(NOT_MEASURED.to_owned()) };
    let claims = library.claims.clone();
    library.source(run)?.query(path, kind, &words, &claims)
}

/// The ratio of two points in every run that has both, and the combined ratio of runs and machines. An interval within
/// a run says nothing about another machine.
fn between(library: &mut Library, words: &[&str]) -> Result<String> {
    let mut all = Vec::new();
    // A run that somebody has just made is in no document yet.
    let committed = seal::committed_runs(&library.root);
    for folder in folder::raw_runs(&library.root.join(RESULTS))? {
        let folder = folder.strip_prefix(&library.root).unwrap_or(&folder).to_path_buf();
        let is_committed = committed.iter().any(|file| file.parent() == Some(&folder));
        if !is_committed && !committed.is_empty() {
            continue;
        }
        let source = Source::of_sweep(&library.root, &folder, words.first().copied().unwrap_or_default())?;
        let Ok(found) = difference(&source, words) else { continue };
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        all.push((name, source.processor(), found));
    }
    Ok(between_table(&all))
}

/// A row for each run, and the ratio between them, without the runs from which nothing follows: these have a symbol.
fn between_table(all: &[(String, String, Compared)]) -> String {
    let row = |(run, machine, found): &(String, String, Compared)| vec![run.clone(), machine.clone(), found.text()];
    let mut rows: Vec<Vec<String>> = all.iter().map(row).collect();
    let sound = all.iter().filter(|(.., found)| found.remark.is_none());
    let ratios: Vec<f64> = sound.map(|(.., found)| found.difference.ratio.ln()).collect();
    let remarks: BTreeSet<&'static str> = all.iter().filter_map(|(.., found)| found.remark).collect();
    let together = between_runs(&ratios).map_or("–".to_owned(), |(middle, low, high)| interval(middle, low, high));
    let kind = if ratios.len() > 2 { "between runs, 95 %" } else { "between runs, least and greatest" };
    rows.push(vec![format!("**{kind}**"), format!("{} runs", ratios.len()), format!("**{together}**")]);
    format!("{}{}", markdown(&["run", "machine", "ratio"], &rows), legend(remarks))
}

/// The geometric mean of ratios, given as logarithms, with its interval by Student's t; for two, with their range.
fn between_runs(ratios: &[f64]) -> Option<(f64, f64, f64)> {
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
    let half = t_975((count - 1) as f64) * (variance / count as f64).sqrt();
    Some((mean.exp(), (mean - half).exp(), (mean + half).exp()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judging::compare::Difference;
    use crate::judging::summary::GENERATOR_BOUND;
    use crate::publishing::queries::{count, queries, with_driven};

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
    fn what_runs_differ_by_is_an_interval_of_its_own() {
        assert_eq!(between_runs(&[0.1]), None);
        let (middle, low, high) = between_runs(&[1.14f64.ln(), 0.79f64.ln()]).unwrap();
        assert!((middle - 0.949).abs() < 1e-3 && (low - 0.79).abs() < 1e-9 && (high - 1.14).abs() < 1e-9);
        // Of logarithms 0, 0.1 and 0.2 the mean's standard error is 0.1 by the root of three.
        let (_, low, high) = between_runs(&[0.0, 0.1, 0.2]).unwrap();
        assert!(
            (high.ln() - 0.1 - 4.3027 * 0.1 / 3f64.sqrt()).abs() < 1e-9 && (low.ln() + high.ln() - 0.2).abs() < 1e-9
        );
    }

    /// Of twelve runs Student's t is 2.201, and not the 2 of many.
    #[test]
    fn the_interval_of_a_dozen_runs_is_still_students() {
        let ratios: Vec<f64> = (0..12).map(|run| f64::from(run % 2)).collect();
        let (middle, _, high) = between_runs(&ratios).unwrap();
        let error = (12.0 * 0.25 / 11.0 / 12.0_f64).sqrt();
        let t = (high.ln() - middle.ln()) / error;
        assert!((t - 2.201).abs() < 0.005, "{t}");
    }

    #[test]
    fn a_run_from_which_nothing_follows_has_a_symbol_and_is_no_part_of_the_mean() {
        let run = |ratio: f64, remark| {
            let difference =
                Difference { ratio, runs: 10, low: ratio, high: ratio, cliffs_delta: 1.0, p: 0.0, p_adjusted: 0.0 };
            ("run".to_owned(), "cpu".to_owned(), Compared { difference, remark })
        };
        let text = between_table(&[run(2.0, None), run(2.0, None), run(8.0, Some(GENERATOR_BOUND))]);
        assert!(text.contains("| 8.00 [8.00–8.00]† |") && text.contains("| 2 runs | **2.00 ["), "{text}");
        assert!(text.contains(&format!("\n† {GENERATOR_BOUND} in most runs\n")), "{text}");
    }
}
