//! The syntax of figures in Markdown: each is between two comments, the first of which says where it comes from.
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
//! A document is its own template: [`filled`](super::document::filled) evaluates every query and puts the result between the comments, so a
//! document with correct figures does not change. Readers of the page see no comments.
//!
//! A document with `<!--lab strict-->` has figures only between such comments: anything outside that looks like a
//! measurement is an error, except in blocks of code.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use crate::publishing::stray_figures;

pub(super) const OPEN: &str = "<!--lab ";
pub(super) const OPEN_END: &str = "-->";
pub(super) const CLOSE: &str = "<!--/lab-->";
pub(crate) const STRICT: &str = "<!--lab strict-->";

/// Marks that are no queries: a strict document, and the records of `seal`.
const MARKS: [&str; 3] = [STRICT, "<!--lab history ", "<!--lab raw "];

/// The name of no run, in a `run` query.
pub(crate) const NO_RUN: &str = "none";

/// The number of figures in a document.
pub fn count(text: &str) -> usize {
    text.matches(CLOSE).count()
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

pub(super) fn next_query(text: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let start = from + text[from..].find(OPEN)?;
        if !MARKS.iter().any(|mark| text[start..].starts_with(mark)) {
            return Some(start);
        }
        from = start + OPEN.len();
    }
}

/// Fails at a number outside of queries that has the form of a measurement.
pub(super) fn no_stray_figures(text: &str) -> Result<()> {
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
