//! The syntax of figures in Markdown: each is between two comments, the first of which says where it comes from.
//!
//! ```text
//! <!--lab run experiments/results/full-20261122-->…<!--/lab-->                      the run that what follows is from
//! <!--lab figure clients p99_us server=actor clients=500-->1,234<!--/lab-->         a median
//! <!--lab ratio clients ops_per_sec clients=500 of server=actor to server=mutex-->1.42 [1.38–1.47]<!--/lab-->
//! <!--lab run experiments/results/why-20261124 for why-->…<!--/lab-->   `fill --run` changes it to runs of that sweep
//! <!--lab parts why ops_per_sec actor mutex-->   what a difference is made of; `effects` has the analysis of variance
//! <!--lab answers-->                                                                what follows from all verdicts
//! <!--lab claims-->                                                                 the audit, as a table
//! <!--lab driven experiments/results/scaling-20261126c/scaling.jsonl curves batch-->   of `experiments scaling`
//! <!--lab driven none answer-->     … as sentences; there is no file yet
//! <!--lab driven FILE figure docs/images/locks-or-actors.svg-->   … as an image: `fill` writes, `verify` compares
//! …
//! <!--/lab-->
//! ```
//!
//! A document is its own template: [`filled`](super::document::filled) evaluates every query and puts the result
//! between the comments, so a document with correct figures does not change. Readers of the page see no comments.
//!
//! A document with `<!--lab strict-->` has figures only between such comments: anything outside that looks like a
//! measurement is an error, except in blocks of code.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use crate::publishing::blocks::blocks;
use crate::publishing::stray_figures;

pub(super) const OPEN: &str = "<!--lab ";
pub(super) const OPEN_END: &str = "-->";
pub(super) const CLOSE: &str = "<!--/lab-->";
pub(crate) const STRICT: &str = "<!--lab strict-->";

/// The annotation of a section that is history.
pub(crate) const HISTORY: &str = "<!--lab history ";
/// The annotation of a file whose digest is noted.
pub(crate) const RAW: &str = "<!--lab raw ";
/// The annotation of a section that has figures from queries alone: the digest of the words around them.
pub(crate) const WORDS: &str = "<!--lab words ";
/// Digits of the digest of a section: it has to detect a change, and to be readable in a diff.
pub(crate) const SECTION_DIGITS: usize = 12;
/// Digits of the digest of a raw file.
pub(crate) const FILE_DIGITS: usize = 16;

/// Annotations that are no queries: a strict document, and the records of `seal`.
const ANNOTATIONS: [&str; 4] = [STRICT, HISTORY, WORDS, RAW];

/// What a line begins with that is to be an annotation.
const BEGINNINGS: [&str; 4] = ["<!--lab strict", "<!--lab history", "<!--lab words", "<!--lab raw"];

/// The name of no run, in a `run` query.
pub(crate) const NO_RUN: &str = "none";

/// The commit and the digest of a line that is an annotation of history.
pub(crate) fn history(line: &str) -> Option<(&str, &str)> {
    words_of(line, HISTORY, SECTION_DIGITS)
}

/// The digest of a line that is an annotation of words.
pub(crate) fn words(line: &str) -> Option<&str> {
    let digest = line.strip_prefix(WORDS)?.strip_suffix(OPEN_END)?;
    is_digest(digest, SECTION_DIGITS).then_some(digest)
}

/// The file and the digest of a line that is an annotation of a raw file.
pub(crate) fn raw(line: &str) -> Option<(&str, &str)> {
    words_of(line, RAW, FILE_DIGITS)
}

/// The two words of an annotation. It has to be the whole line: readers of the page would see a sentence after it, and
/// no check looks at lines that are annotations.
fn words_of<'a>(line: &'a str, annotation: &str, digits: usize) -> Option<(&'a str, &'a str)> {
    let (name, digest) = line.strip_prefix(annotation)?.strip_suffix(OPEN_END)?.split_once(' ')?;
    let is_name = !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || "<>".contains(c));
    (is_name && is_digest(digest, digits)).then_some((name, digest))
}

fn is_digest(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a line is an annotation and nothing else.
pub(crate) fn is_annotation(line: &str) -> bool {
    line == STRICT || history(line).is_some() || words(line).is_some() || raw(line).is_some()
}

/// Lines that begin like an annotation and are none, with their numbers from 1.
pub(crate) fn broken_annotations(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let begins = |line: &str| BEGINNINGS.iter().any(|beginning| line.starts_with(beginning));
    (1..).zip(text.lines()).filter(move |(_, line)| begins(line) && !is_annotation(line))
}

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
    with_queries_as(text, |_| String::new())
}

/// A text with its queries and without their results.
pub(crate) fn without_results(text: &str) -> Result<String> {
    with_queries_as(text, |query| format!("{OPEN}{query}{OPEN_END}"))
}

fn with_queries_as(text: &str, shown: impl Fn(&str) -> String) -> Result<String> {
    let mut result = String::new();
    let mut rest = text;
    while let Some(start) = next_query(rest) {
        let (query, after) = rest[start + OPEN.len()..].split_once(OPEN_END).context("a query without its end")?;
        result.push_str(&rest[..start]);
        result.push_str(&shown(query.trim()));
        rest = after.split_once(CLOSE).context("a query without its end")?.1;
    }
    result.push_str(rest);
    Ok(result)
}

pub(super) fn next_query(text: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let start = from + text[from..].find(OPEN)?;
        if !ANNOTATIONS.iter().any(|annotation| text[start..].starts_with(annotation)) {
            return Some(start);
        }
        from = start + OPEN.len();
    }
}

/// The first query whose result is part of a longer number for readers of the page, who see no comments: with a digit
/// directly before or after it, perhaps with a point between, or an HTML entity, which may be a digit.
pub(crate) fn lengthened(text: &str) -> Result<Option<String>> {
    let mut rest = text;
    while let Some(start) = next_query(rest) {
        let (before, from) = rest.split_at(start);
        let (query, after) = from.split_once(CLOSE).context("a query without its end")?;
        if ends_in_digit(before) || begins_with_digit(after) {
            return Ok(Some(format!("{query}{CLOSE}")));
        }
        rest = after;
    }
    Ok(None)
}

fn ends_in_digit(text: &str) -> bool {
    let is_entity = |(_, name): (&str, &str)| {
        name.strip_suffix(';').is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'#'))
    };
    let last = |text: &str| text.bytes().last().is_some_and(|byte| byte.is_ascii_digit());
    last(text.strip_suffix(['.', ',']).unwrap_or(text)) || text.rsplit_once('&').is_some_and(is_entity)
}

fn begins_with_digit(text: &str) -> bool {
    let first = |text: &str| text.bytes().next().is_some_and(|byte| byte.is_ascii_digit());
    first(text.strip_prefix(['.', ',']).unwrap_or(text)) || text.starts_with('&')
}

/// Fails at a number outside of queries that has the form of a measurement.
pub(super) fn no_stray_figures(text: &str) -> Result<()> {
    // A block of code holds commands, or their output.
    let parts: Vec<&str> = text.split("```").collect();
    ensure!(parts.len() % 2 == 1, "a block of code without its end");
    let prose: String = parts.into_iter().step_by(2).collect();
    let own: Vec<&str> = prose.lines().filter(|line| !is_annotation(line)).collect();
    let outside = without_queries(&own.join("\n"))?;
    let in_digits = |block: Vec<&str>| {
        let block = block.join("\n");
        let read = stray_figures::as_read(&block);
        stray_figures::numeric(&read).map(str::to_owned).or_else(|| stray_figures::html_cell(&block))
    };
    if let Some(figure) = blocks(&outside).into_iter().find_map(in_digits) {
        bail!("{figure:?} looks like a figure, and no query says where it comes from");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_that_is_part_of_a_longer_number_is_refused() {
        let query = "<!--lab figure a b-->1.4<!--/lab-->";
        for text in
            ["2QUERY", "2.QUERY", "&#50;QUERY", "QUERY5", "QUERY.5", "QUERY,000", "QUERY&#50;", "QUERY and QUERY5"]
        {
            assert!(lengthened(&text.replace("QUERY", query)).unwrap().is_some(), "{text}");
        }
        for text in
            ["QUERY", "1 QUERY 2", "a; QUERY.", "A & B;\nQUERY, 5", "QUERY-fold", "(QUERY)", "QUERY. 5", "| QUERY |"]
        {
            assert_eq!(lengthened(&text.replace("QUERY", query)).unwrap(), None, "{text}");
        }
    }

    #[test]
    fn an_annotation_is_a_whole_line_and_what_only_begins_like_one_is_reported() {
        let whole = "<!--lab strict-->\n<!--lab history 58641ee 9f86d081884c-->\n<!--lab words 9f86d081884c-->\n\
            <!--lab raw docs/results/x.txt 3a7bd3e2360a3d29-->\n";
        assert!(whole.lines().all(is_annotation));
        assert_eq!(broken_annotations(whole).count(), 0);
        for line in [
            "<!--lab history x-->It is 99 times as fast",
            "<!--lab history 58641ee 9f86d081884c-->It is 99 times as fast",
            "<!--lab history 58641ee 9f86d081884c--> it is 99 times as fast <!--9f86d081884c-->",
            "<!--lab raw x 3a7bd3e2360a3d29-->12 ms-->",
            "<!--lab raw x 3a7b-->",
            "<!--lab words 9f86d081884c-->12 ms",
            "<!--lab words 9f86-->",
            "<!--lab strict-->12 ms",
            "<!--lab strict -->",
            "<!--lab history-->12 ms",
        ] {
            assert!(!is_annotation(line), "{line}");
            assert_eq!(broken_annotations(&format!("# x\n{line}\n")).collect::<Vec<_>>(), [(2, line)]);
        }
        let strict = "<!--lab strict-->\n<!--lab history x-->It is 99 times as fast\n";
        assert!(no_stray_figures(strict).unwrap_err().to_string().contains("\"99\" looks like a figure"));
    }
}
