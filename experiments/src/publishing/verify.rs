//! Computes every published figure again from raw data, and compares: `experiments verify`.
//!
//! A run's report must follow from its `trials.jsonl`, byte by byte, and so must its plots and summaries where they are
//! (they are not committed); if `raw/` exists,
//! `trials.jsonl` must follow from that. A document must have the result of each of its queries, and an image that a
//! query makes must be what it makes.
//!
//! Raw data must not contradict themselves ([`crate::judging::audit`], [`crate::results::latencies`],
//! [`crate::judging::ratios`]), and every figure of every document has a query or a seal ([`crate::publishing::seal`]).

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::base::digest::sha256;
use crate::judging::audit;
use crate::judging::claims::Claims;
use crate::judging::ratios;
use crate::publishing::document::{self, Library};
use crate::publishing::queries;
use crate::publishing::report;
use crate::publishing::seal;
use crate::results::folder::{REPORT, RunFolder, raw_runs, runs};
use crate::results::latencies;
use crate::results::observation::Observations;

/// Where the images of documents are.
const IMAGES: &str = "docs/images";

/// What was compared, and every difference, in words.
#[derive(Debug, Default)]
pub struct Findings {
    /// Runs whose files were made again.
    pub runs: usize,
    /// Documents that were read, besides the named ones.
    pub documents: usize,
    /// Figures in documents that were evaluated again.
    pub figures: usize,
    /// What differs.
    pub differences: Vec<String>,
}

/// Verifies every run in `results` and the documents, which are relative to `root`.
pub fn all(root: &Path, results: &Path, documents: &[PathBuf], claims: &[Claims]) -> Result<Findings> {
    let mut findings = Findings::default();
    let mut library = Library::new(root, claims.to_vec());
    for folder in runs(results)? {
        findings.runs += 1;
        let outcome = run(&folder, claims, &mut library, &mut findings.differences);
        note_failure(&mut findings.differences, &folder, outcome);
    }
    for folder in raw_runs(results)?.iter().filter(|folder| !folder.join(REPORT).exists()) {
        let outcome = raw_run(folder, &mut findings.differences);
        note_failure(&mut findings.differences, folder, outcome);
    }
    for path in seal::raw_files(root)? {
        let text = fs::read_to_string(root.join(&path)).with_context(|| format!("cannot read {}", path.display()))?;
        let found = ratios::contradictions(&text).into_iter();
        findings.differences.extend(found.map(|what| format!("{}, {what}", path.display())));
    }
    let written = seal::documents(root)?;
    let others = documents.iter().filter(|path| !written.contains(path));
    for path in written.iter().chain(others) {
        let outcome = document(&mut library, root, path, &mut findings);
        note_failure(&mut findings.differences, path, outcome);
    }
    images(&library, root, &mut findings.differences)?;
    findings.documents = written.len();
    findings.differences.extend(seal::unquoted(root, &written)?);
    findings.differences.extend(seal::unquoted_scaling(root, &written, &runs(results)?)?);
    Ok(findings)
}

fn note_failure(differences: &mut Vec<String>, path: &Path, outcome: Result<()>) {
    if let Err(error) = outcome {
        differences.push(format!("{}: {error:#}", path.display()));
    }
}

fn raw_run(folder: &Path, differences: &mut Vec<String>) -> Result<()> {
    let run = RunFolder::open(folder)?;
    let committed = run.published()?;
    let contradictions =
        audit::contradictions(&run.record, &committed).into_iter().chain(percentiles(&run, &committed)?);
    differences.extend(contradictions.map(|what| format!("{}: {what}", run.trials_file().display())));
    Ok(())
}

fn run(folder: &Path, claims: &[Claims], library: &mut Library, differences: &mut Vec<String>) -> Result<()> {
    let run = RunFolder::open(folder)?;
    let committed = run.published()?;
    if run.missing().is_empty() && Observations::from_raw(&run)?.like_kept(&committed) != committed {
        let folder = folder.display();
        differences.push(format!("{folder}: trials.jsonl is not what raw/ gives: `experiments report {folder}`"));
    }
    raw_run(folder, differences)?;
    let cores = match run.scaling_file() {
        // The library's paths are relative to the root.
        Some(file) => Some(library.answer(&std::path::absolute(file)?)?),
        None => None,
    };
    let files = report::render(&run, &committed, claims, cores)?;
    for (name, expected) in &files {
        let path = folder.join(name);
        match fs::read_to_string(&path) {
            Ok(found) if found == *expected => (),
            Ok(found) => differences.push(first_difference(&path, &found, expected)),
            // `experiments report` makes it anew: it is not committed.
            Err(error) if error.kind() == io::ErrorKind::NotFound && name != REPORT => (),
            Err(error) => differences.push(format!("{}: {error}", path.display())),
        }
    }
    let known: BTreeSet<PathBuf> = files.keys().map(|name| folder.join(name)).collect();
    for plot in plots(folder)?.iter().filter(|plot| !known.contains(*plot)) {
        differences.push(format!("{}: the run has no such plot", plot.display()));
    }
    Ok(())
}

/// How the histograms of a run contradict its percentiles.
fn percentiles(run: &RunFolder, committed: &Observations) -> Result<Vec<String>> {
    let Some(digest) = &committed.latencies else { return Ok(Vec::new()) };
    let file = run.latencies_file();
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut found =
        latencies::differences(&text, &committed.trials).with_context(|| format!("in {}", file.display()))?;
    if sha256(&text) != *digest {
        found.push(format!("{} is not the file that its first line names", file.display()));
    }
    Ok(found)
}

fn plots(folder: &Path) -> Result<Vec<PathBuf>> {
    let plots = folder.join("plots");
    if !plots.is_dir() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(&plots).with_context(|| format!("cannot list {}", plots.display()))?;
    entries.map(|entry| Ok(entry?.path())).collect()
}

fn document(library: &mut Library, root: &Path, path: &Path, findings: &mut Findings) -> Result<()> {
    let text = fs::read_to_string(root.join(path)).context("cannot read it")?;
    findings.figures += queries::count(&text);
    // Before the queries: one without an answer must not hide a broken seal.
    findings.differences.extend(seal::unsealed(root, path, &text)?);
    let expected = document::filled(library, path, &text, None)?;
    if text != expected {
        findings.differences.push(first_difference(path, &text, &expected));
    }
    Ok(())
}

/// How images differ from what the queries of all documents make. None may be there that no query makes.
fn images(library: &Library, root: &Path, differences: &mut Vec<String>) -> Result<()> {
    for (path, expected) in library.made() {
        match fs::read_to_string(root.join(path)) {
            Ok(found) if found == *expected => (),
            Ok(found) => differences.push(first_difference(path, &found, expected)),
            Err(error) => differences.push(format!("{}: {error}", path.display())),
        }
    }
    let Ok(entries) = fs::read_dir(root.join(IMAGES)) else { return Ok(()) };
    for entry in entries {
        let path = Path::new(IMAGES).join(entry?.file_name());
        if !library.made().contains_key(&path) {
            differences.push(format!("{}: no query of a document makes it", path.display()));
        }
    }
    Ok(())
}

/// The first differing line, around the difference.
fn first_difference(path: &Path, found: &str, expected: &str) -> String {
    let (mut ours, mut theirs) = (found.lines(), expected.lines());
    for number in 1.. {
        let (line, other) = (ours.next(), theirs.next());
        if line != other || line.is_none() {
            let (line, other) = (line.unwrap_or("(the end)"), other.unwrap_or("(the end)"));
            let same = line.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
            let around = |text: &str| text.chars().skip(same.saturating_sub(40)).take(80).collect::<String>();
            return format!(
                "{}, line {number}: says {:?}, raw data give {:?}",
                path.display(),
                around(line),
                around(other)
            );
        }
    }
    unreachable!("texts that differ differ in a line")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_shown_with_what_is_around_it() {
        let text = first_difference(Path::new("x.md"), "one\ntwo 17\n", "one\ntwo 18\n");
        assert_eq!(text, "x.md, line 2: says \"two 17\", raw data give \"two 18\"");
        assert!(first_difference(Path::new("x"), "one", "one\ntwo").contains("says \"(the end)\""));
    }
}
