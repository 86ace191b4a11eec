//! Computes every published figure again from raw data, and compares: `experiments verify`.
//!
//! A run must say what its `trials.jsonl` gives, byte by byte, in its report, plots and summaries; and where `raw/` is at
//! hand, `trials.jsonl` what that gives. A document must say at each query what the query gives.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::claims::Claims;
use crate::document::{self, Library};
use crate::observation::Observations;
use crate::report;
use crate::results::RunFolder;

/// What was compared, and every difference, in words.
#[derive(Debug, Default)]
pub struct Findings {
    /// Runs whose files were made again.
    pub runs: usize,
    /// Figures in documents that were evaluated again.
    pub figures: usize,
    /// What differs.
    pub differences: Vec<String>,
}

/// Verifies every run in `results` and the documents, which are relative to `root`.
pub fn all(root: &Path, results: &Path, documents: &[PathBuf], claims: &[Claims]) -> Result<Findings> {
    let mut findings = Findings::default();
    for folder in runs(results)? {
        findings.runs += 1;
        let outcome = run(&folder, claims, &mut findings.differences);
        note_failure(&mut findings.differences, &folder, outcome);
    }
    let mut library = Library::new(root, claims.to_vec());
    for path in documents {
        let outcome = document(&mut library, root, path, &mut findings);
        note_failure(&mut findings.differences, path, outcome);
    }
    Ok(findings)
}

fn note_failure(differences: &mut Vec<String>, path: &Path, outcome: Result<()>) {
    if let Err(error) = outcome {
        differences.push(format!("{}: {error:#}", path.display()));
    }
}

/// The finished runs of a folder: one that is under way has nothing to verify yet.
pub fn runs(results: &Path) -> Result<Vec<PathBuf>> {
    if !results.is_dir() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(results).with_context(|| format!("cannot list {}", results.display()))?;
    let mut folders = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    folders.retain(|folder| folder.join("report.html").exists());
    folders.sort();
    Ok(folders)
}

fn run(folder: &Path, claims: &[Claims], differences: &mut Vec<String>) -> Result<()> {
    let run = RunFolder::open(folder)?;
    let committed = run.committed_observations()?.context("there is no trials.jsonl")?;
    if run.missing().is_empty() && Observations::from_raw(&run)? != committed {
        differences.push(format!("{}: trials.jsonl is not what raw/ gives", folder.display()));
    }
    let files = report::render(&run, &committed, claims)?;
    for (name, expected) in &files {
        let path = folder.join(name);
        match fs::read_to_string(&path) {
            Ok(found) if found == *expected => (),
            Ok(found) => differences.push(first_difference(&path, &found, expected)),
            Err(error) => differences.push(format!("{}: {error}", path.display())),
        }
    }
    let known: BTreeSet<PathBuf> = files.keys().map(|name| folder.join(name)).collect();
    for plot in plots(folder)?.iter().filter(|plot| !known.contains(*plot)) {
        differences.push(format!("{}: the run has no such plot", plot.display()));
    }
    Ok(())
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
    findings.figures += document::count(&text);
    let expected = document::filled(library, path, &text, None)?;
    if text != expected {
        findings.differences.push(first_difference(path, &text, &expected));
    }
    Ok(())
}

/// The first line that differs, around the place where it does.
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
