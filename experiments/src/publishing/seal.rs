//! Seals: figures in documents that come from no query, and raw files that documents are based on.
//!
//! ```text
//! ## Measured
//! <!--lab history 58641ee0c2d1 9f86d081884c-->
//!
//! At pipeline 16 it did 1.4 times as many.
//! …
//! <!--lab raw docs/results/side-by-side.txt 3a7bd3e2360a3d29-->
//! ```
//!
//! A section of a document, from its heading to the next one, that has figures outside of queries is *history*: it
//! tells what was measured at the commit that it names. The second word is the digest of all blocks of it
//! ([`super::blocks`]: paragraphs, items, tables) that hold a digit, a figure in words or a query, without what the
//! queries return: one changed digit, or one word beside it, and `verify` fails. After a new measurement the section is
//! sealed again (`experiments seal`), under the commit that was measured, and the diff shows that this was done. Blocks
//! without figures may be changed freely, and spaces.
//!
//! A section whose figures are all from queries was measured when the run was that they name. What it says of them is
//! sealed by the digest alone: `<!--lab words 9f86d081884c-->`.
//!
//! A document that links to a raw file in docs/results or to the plan or the trials of a run, makes a table of one, or
//! shows a run, has the digests of these.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::base::digest::sha256;
use crate::publishing::blocks::{blocks, is_heading};
use crate::publishing::queries::{self, FILE_DIGITS, HISTORY, NO_RUN, OPEN, RAW, SECTION_DIGITS, STRICT, WORDS};
use crate::publishing::stray_figures;
use crate::results::folder::{REPORT, SCALING};

const END: &str = "-->";
/// Where raw files in text are.
const RAW_FOLDER: &str = "docs/results";
/// Where the claims of others are.
const CLAIMS_FOLDER: &str = "experiments/claims";
/// Where runs are.
const RUNS_FOLDER: &str = "experiments/results";
/// The files of a run that everything else is made from: the trials name the digest of their histograms.
const RUN_FILES: [&str; 2] = ["run.json", "trials.jsonl"];

/// Documents that tests write and compare: they contain no measurements.
const GENERATED: [&str; 2] = ["docs/COMMANDS.md", "docs/CONFIG.md"];
/// Folders that git does not list: its own, what is built, what a server stores, what a run leaves behind.
const IGNORED: [&str; 4] = [".git", "target", "data", "raw"];

/// The command to run.
const ADVICE: &str =
    "give it a query, or type `make seal COMMIT=<the commit that was measured>` and commit what changed";
/// The same of words alone.
const READ_AGAIN: &str = "read them again, and type `make seal`";

/// All hand-written documents below `root`, in order: those that git knows or would add, or all without git.
pub fn documents(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = match git(root, &["ls-files", "-z", "--cached", "--others", "--exclude-standard"]) {
        Some(listed) => listed.split('\0').map(PathBuf::from).collect(),
        None => files_below(root, Path::new(""))?,
    };
    found.retain(|path| is_document(path) && root.join(path).is_file());
    found.sort();
    found.dedup();
    Ok(found)
}

fn is_document(path: &Path) -> bool {
    let is_markdown =
        path.extension().is_some_and(|ending| ["md", "markdown"].iter().any(|one| ending.eq_ignore_ascii_case(one)));
    is_markdown && !GENERATED.iter().any(|generated| path == Path::new(generated))
}

fn files_below(root: &Path, folder: &Path) -> Result<Vec<PathBuf>> {
    let whole = root.join(folder);
    let mut found = Vec::new();
    for entry in fs::read_dir(&whole).with_context(|| format!("cannot list {}", whole.display()))? {
        let entry = entry.with_context(|| format!("cannot list {}", whole.display()))?;
        let path = folder.join(entry.file_name());
        // No links: what they lead to is found where it is.
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.push(path);
        } else if !IGNORED.iter().any(|ignored| entry.file_name() == *ignored) {
            found.extend(files_below(root, &path)?);
        }
    }
    Ok(found)
}

/// The raw files of the project in text.
pub(crate) fn raw_files(root: &Path) -> Result<Vec<PathBuf>> {
    files_of(root, RAW_FOLDER, "txt")
}

/// The files in a folder whose names end like this, in order; none without the folder.
fn files_of(root: &Path, folder: &str, ending: &str) -> Result<Vec<PathBuf>> {
    let Ok(entries) = fs::read_dir(root.join(folder)) else { return Ok(Vec::new()) };
    let mut found = entries.map(|entry| Ok(Path::new(folder).join(entry?.file_name()))).collect::<Result<Vec<_>>>()?;
    found.retain(|path| path.extension().is_some_and(|extension| extension == ending));
    found.sort();
    Ok(found)
}

/// A section: a heading with what follows, up to the next heading. The first one may have no heading.
struct Section<'a> {
    /// The line number of its first line, from 1.
    number: usize,
    lines: Vec<&'a str>,
}

/// The seal of a section.
#[derive(Debug, PartialEq)]
struct Seal {
    /// `None` where all of its figures are from queries.
    commit: Option<String>,
    digest: String,
}

impl Seal {
    fn line(&self) -> String {
        match &self.commit {
            Some(commit) => format!("{HISTORY}{commit} {}{END}", self.digest),
            None => format!("{WORDS}{}{END}", self.digest),
        }
    }
}

fn sections(text: &str) -> Vec<Section<'_>> {
    let mut sections = vec![Section { number: 1, lines: Vec::new() }];
    let mut in_code = false;
    for (index, line) in text.lines().enumerate() {
        in_code ^= line.trim_start().starts_with("```");
        if !in_code && is_heading(line) {
            sections.push(Section { number: index + 1, lines: Vec::new() });
        }
        sections.last_mut().expect("there is a first section").lines.push(line);
    }
    sections
}

impl Section<'_> {
    fn seal(&self) -> Option<Seal> {
        let history = |line: &&str| {
            let (commit, digest) = queries::history(line)?;
            Some(Seal { commit: Some(commit.to_owned()), digest: digest.to_owned() })
        };
        let words = |line: &&str| Some(Seal { commit: None, digest: queries::words(line)?.to_owned() });
        self.lines.iter().find_map(|line| history(line).or_else(|| words(line)))
    }

    /// Its text without annotations.
    fn own_text(&self) -> String {
        let lines: Vec<&str> = self.lines.iter().filter(|line| !queries::is_annotation(line)).copied().collect();
        lines.join("\n")
    }

    /// The lines that a seal covers.
    fn covered(&self) -> Result<Vec<String>> {
        let text = queries::without_results(&self.own_text())?;
        let blocks = blocks(&text);
        let holds_figure = |block: &[&str]| {
            let is_part = |line: &&str| line.bytes().any(|byte| byte.is_ascii_digit()) || line.starts_with('|');
            block.iter().any(is_part) || stray_figures::first(&block.join("\n")).is_some()
        };
        let has_query = |block: &[&str]| block.iter().any(|line| line.contains(OPEN));
        // What stands before a block of queries alone says what their tables are about.
        let introduces = |index: usize| blocks.get(index + 1).is_some_and(|next| next[0].starts_with(OPEN));
        let is_covered =
            |&index: &usize| holds_figure(&blocks[index]) || has_query(&blocks[index]) || introduces(index);
        let bare = |line: &&str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        Ok((0..blocks.len()).filter(is_covered).flat_map(|index| blocks[index].iter().map(bare)).collect())
    }

    fn digest(&self) -> Result<String> {
        Ok(sha256(self.covered()?.join("\n"))[..SECTION_DIGITS].to_owned())
    }

    /// The first figure in it that comes from no query.
    fn figure(&self) -> Result<Option<String>> {
        let text = queries::without_queries(&self.own_text())?;
        Ok(blocks(&text).iter().find_map(|block| stray_figures::first(&block.join("\n"))))
    }

    fn has_query(&self) -> bool {
        queries::next_query(&self.own_text()).is_some()
    }

    /// The seal that it has to have; history that it has already keeps its commit.
    fn wanted(&self, commit: &str) -> Result<Option<Seal>> {
        let digest = self.digest()?;
        if self.figure()?.is_none() {
            return Ok(self.has_query().then_some(Seal { commit: None, digest }));
        }
        let kept = self.seal().filter(|seal| seal.digest == digest).and_then(|seal| seal.commit);
        Ok(Some(Seal { commit: Some(kept.unwrap_or_else(|| commit.to_owned())), digest }))
    }

    /// What is wrong with its seal.
    fn complaint(&self, root: &Path) -> Result<Option<String>> {
        let figure = self.figure()?;
        Ok(match (self.seal(), figure) {
            (Some(Seal { commit: Some(commit), digest }), _) => {
                if digest == self.digest()? {
                    unknown_commit(root, &commit)
                } else {
                    Some(format!(
                        "its figures, or words or queries beside them, are not those that were sealed at {commit}; {ADVICE}"
                    ))
                }
            }
            (_, Some(figure)) => Some(format!("{figure:?} has no source; {ADVICE}")),
            (Some(seal), None) if seal.digest != self.digest()? => {
                Some(format!("its queries, or the words around them, are not those that were sealed; {READ_AGAIN}"))
            }
            (None, None) if self.has_query() => {
                Some(format!("the words around its queries are not sealed; {READ_AGAIN}"))
            }
            _ => None,
        })
    }
}

/// What is wrong with the figures of a document that come from no query, in words.
pub(crate) fn unsealed(root: &Path, path: &Path, text: &str) -> Result<Vec<String>> {
    let broken =
        |(number, line): (usize, &str)| format!("{}, line {number}: {line:?} is no annotation", path.display());
    let mut found: Vec<String> = queries::broken_annotations(text).map(broken).collect();
    let longer = queries::lengthened(text)?;
    found.extend(longer.map(|query| format!("{}: a digit or an entity stands directly at {query:?}", path.display())));
    for section in sections(text) {
        let place = format!("{}, section at line {}", path.display(), section.number);
        found.extend(section.complaint(root)?.map(|what| format!("{place}: {what}")));
    }
    found.extend(changed_files(root, path, text)?);
    found.extend(missing_reports(root, path, text)?);
    Ok(found)
}

/// The reports of the runs that a document has figures of: it links to them, and a run without one is not checked as a
/// finished run.
fn missing_reports(root: &Path, path: &Path, text: &str) -> Result<Vec<String>> {
    let runs: BTreeSet<String> = queries::queries(text)?.iter().filter_map(|query| run_of(query)).collect();
    let reports = runs.iter().map(|run| Path::new(run).join(REPORT)).filter(|report| !root.join(report).is_file());
    Ok(reports.map(|report| format!("{}: {} is not there", path.display(), report.display())).collect())
}

/// The run that a `run` query names.
fn run_of(query: &str) -> Option<String> {
    let run = query.strip_prefix("run ")?.split(" for ").next()?.trim();
    (run != NO_RUN).then(|| run.to_owned())
}

/// Files that a document rests on whose digests are not those that it records. Every annotation is held against its
/// file, also where no link leads to it: an annotation is what makes a file count as quoted.
fn changed_files(root: &Path, path: &Path, text: &str) -> Result<Vec<String>> {
    let noted = noted(text);
    let mut files: BTreeSet<PathBuf> = rests_on(root, path, text)?.into_iter().collect();
    files.extend(noted.iter().map(|(file, _)| file.clone()));
    let mut found = Vec::new();
    for file in files {
        let name = file.display();
        let of_file: Vec<&String> = noted.iter().filter(|(one, _)| *one == file).map(|(_, digest)| digest).collect();
        match digest_of(root, &file) {
            Err(error) => found.push(format!("{}: {error:#}", path.display())),
            Ok(_) if of_file.is_empty() => {
                found.push(format!("{}: no digest of {name} is noted; type `make seal`", path.display()));
            }
            Ok(digest) => found.extend(of_file.iter().filter(|noted| ***noted != digest).map(|noted| {
                format!(
                    "{}: {name} has the digest {digest}, not {noted}: the file was changed, or type `make seal`",
                    path.display()
                )
            })),
        }
    }
    Ok(found)
}

/// The sealed document: annotations of sections that are history, and digests of the raw files that it is based on. A
/// section whose figures did not change keeps its annotation; others become history of `commit`.
pub fn sealed(root: &Path, path: &Path, text: &str, commit: &str) -> Result<String> {
    let mut lines: Vec<String> = Vec::new();
    for section in sections(text) {
        let is_record = |line: &str| line != STRICT && queries::is_annotation(line);
        let mut own = section.lines.iter().copied().filter(|line| !is_record(line));
        if let Some(seal) = section.wanted(commit)? {
            let begins_with_heading = section.lines.first().is_some_and(|line| line.starts_with('#'));
            lines.extend(own.by_ref().take(usize::from(begins_with_heading)).map(str::to_owned));
            lines.push(seal.line());
        }
        lines.extend(own.map(str::to_owned));
    }
    // A link to a file may be of a kind that is not recognized: what has a digest keeps it while the file is there.
    let kept = noted(text).into_iter().map(|(file, _)| file).filter(|file| root.join(file).is_file()).collect();
    with_digests_besides(root, path, &(lines.join("\n") + "\n"), kept)
}

/// The document `after` queries were made to name another run or file: seals that were whole `before` hold the same
/// words around the new queries.
pub fn renewed(before: &str, after: &str) -> Result<String> {
    let (old, new) = (sections(before), sections(after));
    ensure!(old.len() == new.len(), "a query returns a heading");
    let mut lines: Vec<String> = Vec::new();
    for (old, new) in old.iter().zip(&new) {
        let digest = new.digest()?;
        let is_whole = old.seal().is_some_and(|seal| old.digest().is_ok_and(|digest| digest == seal.digest));
        let renewed = new.seal().filter(|_| is_whole).map(|seal| (seal.line(), Seal { digest, ..seal }.line()));
        lines.extend(new.lines.iter().map(|line| match &renewed {
            Some((from, to)) if line == from => to.clone(),
            _ => (*line).to_owned(),
        }));
    }
    Ok(lines.join("\n") + "\n")
}

/// The document with the digests of the raw files that it is based on, at its end.
pub fn with_digests(root: &Path, path: &Path, text: &str) -> Result<String> {
    with_digests_besides(root, path, text, BTreeSet::new())
}

/// The same, with the digests of other files besides.
fn with_digests_besides(root: &Path, path: &Path, text: &str, mut files: BTreeSet<PathBuf>) -> Result<String> {
    let mut annotations = Vec::new();
    files.extend(rests_on(root, path, text)?);
    for file in files {
        annotations.push(format!("{RAW}{} {}{END}\n", file.display(), digest_of(root, &file)?));
    }
    let had_annotations = text.lines().any(|line| queries::raw(line).is_some());
    if annotations.is_empty() && !had_annotations {
        return Ok(text.to_owned());
    }
    let lines: Vec<&str> = text.lines().filter(|line| queries::raw(line).is_none()).collect();
    let mut text = lines.join("\n").trim_end().to_owned() + "\n";
    if !annotations.is_empty() {
        text.push_str(&format!("\n{}", annotations.concat()));
    }
    Ok(text)
}

fn digest_of(root: &Path, file: &Path) -> Result<String> {
    let bytes = fs::read(root.join(file)).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(sha256(bytes)[..FILE_DIGITS].to_owned())
}

/// The digests in a document, in its order: a file may have several annotations, each of which has to be right.
fn noted(text: &str) -> Vec<(PathBuf, String)> {
    text.lines().filter_map(queries::raw).map(|(file, digest)| (PathBuf::from(file), digest.to_owned())).collect()
}

/// The targets of links, without their titles and parts of pages: `[a](b "title")`, `[a](<b>#part)`, and `[a]: b` on a
/// line of its own.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let referred = |line: &'_ str| line.trim_start().starts_with('[');
    let referred = text.lines().filter(move |line| referred(line)).filter_map(|line| line.split_once("]: "));
    text.split("](").skip(1).chain(referred.map(|(_, rest)| rest)).filter_map(target)
}

/// The target that a text begins with.
fn target(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let whole = match text.strip_prefix('<') {
        Some(rest) => rest.split_once('>')?.0,
        None => text.split(|c: char| c.is_whitespace() || c == ')').next()?,
    };
    whole.split('#').next()
}

/// The raw files that a document links to, makes tables of, or shows the run of, and the claims that it audits.
fn rests_on(root: &Path, path: &Path, text: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let folder = path.parent().unwrap_or(Path::new(""));
    for link in links(text) {
        let file = normal(&folder.join(link));
        if file.starts_with(RAW_FOLDER) && file.extension().is_some_and(|extension| extension == "txt") {
            found.push(file);
        } else if file.starts_with(RUNS_FOLDER) {
            let is_run_file = file.file_name().is_some_and(|name| RUN_FILES.iter().any(|one| name == *one));
            let run = if is_run_file { file.parent().unwrap_or(&file) } else { &file };
            if root.join(run).join(RUN_FILES[0]).is_file() {
                found.extend(RUN_FILES.map(|name| run.join(name)));
            }
        }
    }
    for query in queries::queries(text)? {
        if let Some(file) = query.strip_prefix("side-by-side ").or_else(|| query.strip_prefix("checks ")) {
            found.push(PathBuf::from(file.trim()));
        }
        if let Some(rest) = query.strip_prefix("driven ") {
            let file = rest.split_whitespace().next().filter(|file| *file != NO_RUN);
            found.extend(file.map(PathBuf::from));
        }
        if query.split_whitespace().next() == Some("claims") {
            found.extend(files_of(root, CLAIMS_FOLDER, "toml")?);
        }
        if let Some(run) = run_of(&query) {
            found.extend(RUN_FILES.map(|name| Path::new(&run).join(name)));
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

/// A path without `..` in it.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => (),
            part => normal.push(part),
        }
    }
    normal
}

/// Raw files whose digest is in no document.
pub(crate) fn unquoted(root: &Path, documents: &[PathBuf]) -> Result<Vec<String>> {
    let mut quoted = Vec::new();
    for path in documents {
        quoted.extend(noted(&fs::read_to_string(root.join(path)).unwrap_or_default()));
    }
    let quoted: BTreeSet<PathBuf> = quoted.into_iter().map(|(file, _)| file).collect();
    let files = raw_files(root)?.into_iter().chain(committed_runs(root));
    let unquoted = files.filter(|file| !quoted.contains(file));
    Ok(unquoted.map(|file| format!("{}: no document links to it and notes its digest", file.display())).collect())
}

/// Files of `experiments scaling` beside runs, by link or as copies, whose digest no document notes for such a file:
/// the report of the run begins with them, so an exchanged file and a report made from it would go unnoticed.
pub(crate) fn unquoted_scaling(root: &Path, documents: &[PathBuf], runs: &[PathBuf]) -> Result<Vec<String>> {
    let mut digests = BTreeSet::new();
    for path in documents {
        let noted = noted(&fs::read_to_string(root.join(path)).unwrap_or_default()).into_iter();
        digests.extend(noted.filter(|(file, _)| file.ends_with(SCALING)).map(|(_, digest)| digest));
    }
    let mut found = Vec::new();
    // Links that lead nowhere, too.
    for file in runs.iter().map(|run| run.join(SCALING)).filter(|file| root.join(file).symlink_metadata().is_ok()) {
        let digest = digest_of(root, &file)?;
        if !digests.contains(&digest) {
            let name = file.display();
            found.push(format!("{name}: no document notes its digest {digest} for a file of `experiments scaling`"));
        }
    }
    Ok(found)
}

/// The plans of the runs that are committed; none if there is no repository to ask.
pub(super) fn committed_runs(root: &Path) -> Vec<PathBuf> {
    let listed = git(root, &["ls-files", RUNS_FOLDER]).unwrap_or_default();
    listed.lines().map(PathBuf::from).filter(|file| file.file_name().is_some_and(|name| name == RUN_FILES[0])).collect()
}

/// Why a commit is unknown; `None` if there is no repository, or one without its history, to check.
fn unknown_commit(root: &Path, commit: &str) -> Option<String> {
    if commit.len() < 7 || !commit.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Some(format!("{commit:?} is not a commit"));
    }
    let has_past = git(root, &["rev-parse", "--is-shallow-repository"]).is_some_and(|answer| answer == "false");
    let found = || git(root, &["cat-file", "-e", &format!("{commit}^{{commit}}")]).is_some();
    (has_past && !found()).then(|| format!("there is no commit {commit}"))
}

/// The newest commit that stays when a branch is rebased: where it left main, or the checkout's if there is no main.
pub fn present_commit(root: &Path) -> Result<String> {
    let commit = git(root, &["merge-base", "HEAD", "main"]).or_else(|| git(root, &["rev-parse", "HEAD"]));
    let commit = commit.context("there is no git repository to ask for the commit: name it with --commit")?;
    ensure!(commit.len() >= SECTION_DIGITS, "git names the commit {commit:?}");
    Ok(commit[..SECTION_DIGITS].to_owned())
}

/// The last commit that changed a document which is unchanged since; not one of a branch, which may be rebased.
pub fn commit_of(root: &Path, path: &Path) -> Option<String> {
    let (name, present) = (path.to_str()?, present_commit(root).ok()?);
    git(root, &["diff", "--quiet", &present, "--", name])?;
    let commit = git(root, &["log", "-1", "--format=%H", &present, "--", name])?;
    commit.get(..SECTION_DIGITS).map(str::to_owned)
}

fn git(root: &Path, words: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(words).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: &str = "58641ee0c2d1";
    const TEXT: &str = "# What came of it\n\nTwo engines.\n\n## Measured\n\nAt pipeline 16 it did 1.4 times as many.\n\n\
        | load | actor |\n|---|---|\n| P1 | 12 |\n\nIt is five times\nthat. See [raw](../raw.txt).\n\n## Use\n\n```sh\nsleep 2\n```\n";

    fn whole() -> (tempfile::TempDir, String) {
        let root = tempfile::tempdir().unwrap();
        let text = sealed(root.path(), Path::new("docs/x.md"), TEXT, COMMIT).unwrap();
        (root, text)
    }

    fn unsealed_in(root: &Path, text: &str) -> Vec<String> {
        unsealed(root, Path::new("docs/x.md"), text).unwrap()
    }

    #[test]
    fn a_section_with_figures_is_sealed_and_sealing_again_changes_nothing() {
        let (root, text) = whole();
        assert_eq!(text.matches(HISTORY).count(), 1, "{text}");
        assert!(text.contains("## Measured\n<!--lab history 58641ee0c2d1 "), "{text}");
        assert_eq!(unsealed_in(root.path(), &text), Vec::<String>::new());
        assert_eq!(sealed(root.path(), Path::new("docs/x.md"), &text, "1111111").unwrap(), text);
        let advice = &unsealed_in(root.path(), TEXT)[0];
        assert!(
            advice.contains("line 5") && advice.contains("1.4") && advice.contains("make seal COMMIT="),
            "{advice}"
        );
    }

    #[test]
    fn a_changed_figure_or_a_word_beside_it_breaks_the_seal_and_other_words_do_not() {
        let (root, text) = whole();
        for (from, to) in [
            ("1.4", "1.5"),
            ("as many", "as few"),
            ("| 12 |", "| 13 |"),
            ("five times", "six times"),
            ("that. See", "less. See"),
            ("| actor |", "| mutex |"),
        ] {
            let found = unsealed_in(root.path(), &text.replace(from, to));
            assert_eq!(found.len(), 1, "{from} became {to}");
        }
        let other = text.replace("## Use\n", "## Use\n\nType this:\n").replace("Two engines", "Both engines");
        assert_eq!(unsealed_in(root.path(), &other), Vec::<String>::new());
        let again = sealed(root.path(), Path::new("docs/x.md"), &text.replace("1.4", "1.5"), "1111111").unwrap();
        assert!(again.contains("<!--lab history 1111111 "), "{again}");
    }

    const QUERY: &str = "<!--lab figure a b server=actor-->1.4<!--/lab-->";

    #[test]
    fn a_query_and_the_words_around_it_are_sealed_and_what_it_returns_is_not() {
        let root = tempfile::tempdir().unwrap();
        let path = Path::new("docs/x.md");
        let table = QUERY.replace("1.4", "\n\n| a |\n|---|\n| 7 |\n");
        let plain = format!(
            "# Actors\n\nOne engine.\n\nIt is {QUERY} times\nas fast.\n\n| slower |\n|---|\n| {QUERY} |\n\n\
             ## By load\n\nFaster by load:\n\n{table}\n"
        );
        assert!(unsealed_in(root.path(), &plain)[0].contains("the words around its queries are not sealed"));
        let text = sealed(root.path(), path, &plain, COMMIT).unwrap();
        assert_eq!((text.matches(WORDS).count(), text.matches(HISTORY).count()), (2, 0), "{text}");
        assert_eq!(unsealed_in(root.path(), &text), Vec::<String>::new());
        for (from, to) in [
            ("as fast", "as slow"),
            ("| slower |", "| faster |"),
            ("Faster by load", "Slower by load"),
            ("server=actor-->1.4<!--/lab--> times", "server=mutex-->1.4<!--/lab--> times"),
            ("<!--lab words ", "<!--lab words 9f86d081884c-->\n<!--lab words "),
        ] {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text, "{from}");
            assert_eq!(unsealed_in(root.path(), &changed).len(), 1, "{from} became {to}");
        }
        for (from, to) in [("One engine", "An engine"), ("-->1.4<", "-->1.5<"), ("| 7 |", "| 8 |")] {
            assert_eq!(unsealed_in(root.path(), &text.replace(from, to)), Vec::<String>::new(), "{from}");
        }
        let stray = text.replace("One engine", "Double the speed");
        assert!(unsealed_in(root.path(), &stray)[0].contains("\"Double\" has no source"));
    }

    #[test]
    fn a_seal_that_was_whole_is_renewed_for_another_run_and_a_broken_one_is_not() {
        let root = tempfile::tempdir().unwrap();
        let text = format!("# x\n\nIt is {QUERY}.\n\n# y\n\nIt was 2.5 then and {QUERY} now.\n");
        let text = sealed(root.path(), Path::new("docs/x.md"), &text, COMMIT).unwrap();
        let other = text.replace("server=actor", "server=mutex");
        assert_eq!(unsealed_in(root.path(), &other).len(), 2);
        let whole = renewed(&text, &other).unwrap();
        assert_eq!(unsealed_in(root.path(), &whole), Vec::<String>::new(), "{whole}");
        assert!(whole.contains(COMMIT), "{whole}");
        let edited = |text: &str| text.replace("It is", "It is not").replace("2.5", "2.6");
        assert_eq!(renewed(&edited(&text), &edited(&other)).unwrap(), edited(&other));
    }

    #[test]
    fn a_multiple_that_a_line_break_splits_and_output_in_a_block_of_code_need_a_seal() {
        let root = tempfile::tempdir().unwrap();
        for (text, figure) in [
            ("It is five\ntimes as fast.", "five"),
            ("> It is 7\n> times as fast.", "7"),
            ("```sh\n$ measure\n4.7 times\n```", "4.7"),
            ("```text\nGET: 113636.37 requests per second\n```", "113636.37"),
            ("<table><tr><td>mutex</td><td>4.7</td></tr></table>", "4.7"),
            ("<table>\n<tr><th>mutex</th>\n<td>47</td></tr></table>", "47"),
        ] {
            let text = format!("# x\n\n{text}\n");
            let found = unsealed_in(root.path(), &text);
            assert!(found.len() == 1 && found[0].contains(&format!("{figure:?} has no source")), "{text}: {found:?}");
        }
    }

    #[test]
    fn a_document_is_found_in_any_folder_and_not_among_what_is_built() {
        let root = tempfile::tempdir().unwrap();
        for name in ["NEW.md", "a/b/c/new.md", ".github/x.MD", "target/y.md", "a/raw/z.md", "docs/CONFIG.md", "a/x.txt"]
        {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "# x\n").unwrap();
        }
        let found = || documents(root.path()).unwrap();
        let expected = [".github/x.MD", "NEW.md", "a/b/c/new.md"].map(PathBuf::from);
        assert_eq!(found(), expected);
        git(root.path(), &["init", "--quiet"]).unwrap();
        fs::write(root.path().join(".gitignore"), "/target\nraw\n").unwrap();
        assert_eq!(found(), expected, "what git would add is a document before it is added");
    }

    #[test]
    fn a_table_of_bare_numbers_needs_a_seal_or_a_query_and_a_session_does_not() {
        let root = tempfile::tempdir().unwrap();
        let table = "# x\n\n| client | calls |\n|---|---|\n| Jedis 5.2.0 | 112 |\n";
        assert!(unsealed_in(root.path(), table)[0].contains("\"112\" has no source"));
        let text = sealed(root.path(), Path::new("docs/x.md"), table, COMMIT).unwrap();
        assert_eq!(unsealed_in(root.path(), &text), Vec::<String>::new());
        assert_eq!(unsealed_in(root.path(), &text.replace("112", "113")).len(), 1);
        let session = "# x\n\n```\n127.0.0.1:6379> INCRBY visits 41\n(integer) 41\n```\n";
        assert_eq!(unsealed_in(root.path(), session), Vec::<String>::new());
    }

    #[test]
    fn a_raw_file_that_is_linked_has_its_digest_in_the_document() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("docs/results")).unwrap();
        let file = root.path().join("docs/results/raw.txt");
        fs::write(&file, "rows 1\n").unwrap();
        let path = Path::new("docs/results/x.md");
        let text = sealed(root.path(), path, "# x\n\n[rows](raw.txt)\n", COMMIT).unwrap();
        assert!(text.contains("<!--lab raw docs/results/raw.txt "), "{text}");
        assert_eq!(unsealed(root.path(), path, &text).unwrap(), Vec::<String>::new());
        fs::write(root.path().join(path), &text).unwrap();
        assert_eq!(unquoted(root.path(), &[path.to_path_buf()]).unwrap(), Vec::<String>::new());
        assert_eq!(unquoted(root.path(), &[]).unwrap().len(), 1);
        fs::write(&file, "rows 2\n").unwrap();
        assert!(unsealed(root.path(), path, &text).unwrap()[0].contains("has the digest"));
        fs::remove_file(&file).unwrap();
        assert!(unsealed(root.path(), path, &text).unwrap()[0].contains("cannot read"));
    }

    #[test]
    fn sealing_the_documents_of_this_repository_changes_none_of_them() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let documents = documents(root).unwrap();
        assert!(documents.len() > 50, "{documents:?}");
        for path in documents {
            let text = fs::read_to_string(root.join(&path)).unwrap();
            assert_eq!(sealed(root, &path, &text, COMMIT).unwrap(), text, "{}", path.display());
        }
    }

    #[test]
    fn every_annotation_is_held_against_its_file_whatever_a_link_to_it_looks_like() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("docs/results")).unwrap();
        let file = root.path().join("docs/results/raw.txt");
        let path = Path::new("docs/results/x.md");
        fs::write(&file, "rows 1\n").unwrap();
        let linked = sealed(root.path(), path, "# x\n\n[rows](raw.txt)\n", COMMIT).unwrap();
        for link in
            ["[rows](raw.txt \"raw\")", "[rows](<raw.txt>)", "[rows](raw.txt#end)", "[rows]\n\n[rows]: raw.txt 'raw'"]
        {
            let text = format!("# x\n\n{link}\n");
            assert!(sealed(root.path(), path, &text, COMMIT).unwrap().contains("<!--lab raw docs/"), "{link}");
        }
        let annotation = linked.lines().last().unwrap();
        let unlinked = linked.replace("[rows](raw.txt)", "rows");
        let wrong =
            annotation.replace("raw.txt ", "raw.txt 0").replace("-->", "")[..annotation.len() - 3].to_owned() + "-->";
        assert_eq!(unsealed(root.path(), path, &unlinked).unwrap(), Vec::<String>::new());
        let twice = linked.replace(annotation, &format!("{wrong}\n{annotation}"));
        assert_eq!(unsealed(root.path(), path, &twice).unwrap().len(), 1, "{twice}");
        fs::write(&file, "rows 2\n").unwrap();
        assert!(unsealed(root.path(), path, &unlinked).unwrap()[0].contains("has the digest"));
    }

    #[test]
    fn a_scaling_file_beside_a_run_is_one_whose_digest_a_document_notes() {
        let root = tempfile::tempdir().unwrap();
        let runs = ["scaling", "full"].map(|name| Path::new(RUNS_FOLDER).join(name));
        runs.iter().for_each(|run| fs::create_dir_all(root.path().join(run)).unwrap());
        let [file, link] = runs.clone().map(|run| root.path().join(run).join(SCALING));
        fs::write(&file, "ops 1\n").unwrap();
        std::os::unix::fs::symlink("../scaling/scaling.jsonl", &link).unwrap();
        let path = PathBuf::from("x.md");
        let found = || unquoted_scaling(root.path(), std::slice::from_ref(&path), &runs[1..]).unwrap();
        assert_eq!(found().len(), 1);
        let query = format!("<!--lab driven {} answer-->x<!--/lab-->\n", runs[0].join(SCALING).display());
        fs::write(root.path().join(&path), with_digests(root.path(), &path, &query).unwrap()).unwrap();
        assert_eq!(found(), Vec::<String>::new());
        fs::remove_file(&link).unwrap();
        fs::copy(&file, &link).unwrap();
        assert_eq!(found(), Vec::<String>::new());
        fs::write(&link, "ops 2\n").unwrap();
        assert!(found()[0].starts_with("experiments/results/full/scaling.jsonl: no document notes"), "{:?}", found());
    }

    #[test]
    fn claims_that_a_document_audits_have_their_digests_in_it() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join(CLAIMS_FOLDER);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("one.toml"), "expected = [1.1, 1.2]\n").unwrap();
        let path = Path::new("x.md");
        let text = sealed(root.path(), path, "<!--lab claims-->x<!--/lab-->\n", COMMIT).unwrap();
        assert_eq!(unsealed(root.path(), path, &text).unwrap(), Vec::<String>::new());
        fs::write(folder.join("one.toml"), "expected = [0.1, 9.2]\n").unwrap();
        assert!(unsealed(root.path(), path, &text).unwrap()[0].contains("claims/one.toml has the digest"));
        fs::write(folder.join("two.toml"), "").unwrap();
        assert!(unsealed(root.path(), path, &text).unwrap()[1].contains("no digest of experiments/claims/two.toml"));
    }

    #[test]
    fn a_run_that_is_linked_has_the_digests_of_its_plan_and_its_trials_in_the_document() {
        let root = tempfile::tempdir().unwrap();
        let run = root.path().join("experiments/results/full");
        fs::create_dir_all(&run).unwrap();
        RUN_FILES.iter().for_each(|name| fs::write(run.join(name), "cores 2").unwrap());
        let git = |words: &[&str]| git(root.path(), words).expect("git is there");
        git(&["init", "--quiet"]);
        git(&["add", RUNS_FOLDER]);
        assert_eq!(unquoted(root.path(), &[]).unwrap().len(), 1, "the run is committed, and no document knows it");
        let path = Path::new("docs/x.md");
        let linking = |to: &str| sealed(root.path(), path, &format!("# x\n\n[full]({to})\n"), COMMIT).unwrap();
        for to in ["../experiments/results/full", "../experiments/results/full/", "../experiments/results"] {
            let count = if to.ends_with("results") { 0 } else { RUN_FILES.len() };
            assert_eq!(linking(to).matches(RAW).count(), count, "{to}");
        }
        let text = linking("../experiments/results/full/run.json");
        assert_eq!(text.matches(RAW).count(), RUN_FILES.len(), "{text}");
        fs::create_dir_all(root.path().join("docs")).unwrap();
        fs::write(root.path().join(path), &text).unwrap();
        assert_eq!(unquoted(root.path(), &[path.to_path_buf()]).unwrap(), Vec::<String>::new());
        for name in RUN_FILES {
            fs::write(run.join(name), "cores 64").unwrap();
            assert!(unsealed(root.path(), path, &text).unwrap()[0].contains("has the digest"), "{name}");
            fs::write(run.join(name), "cores 2").unwrap();
        }
        assert_eq!(unsealed(root.path(), path, &text).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn what_is_no_commit_seals_nothing() {
        let (root, text) = whole();
        assert!(unsealed_in(root.path(), &text.replace(COMMIT, "yesterday"))[0].contains("not a commit"));
    }
}
