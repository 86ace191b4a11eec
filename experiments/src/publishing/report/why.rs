//! A factorial analysis for the page and the documents.

use crate::judging::factorial::{Analysis, Effect, Parts, Ratio};

/// A table: its header and its rows.
pub(crate) struct Table {
    pub(crate) header: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// The subject of the analysis, in words.
pub(crate) fn caption(one: &Analysis) -> String {
    let block = block(one);
    let (subject, baseline) = (&one.subject, &one.baseline);
    format!(
        "{block}{subject} with {} by {baseline} with {}",
        levels(one, |found| &found.2),
        levels(one, |found| &found.1)
    )
}

/// The answer in a sentence: the mean of all loads, of throughput.
pub(super) fn answer(one: &Analysis) -> Option<String> {
    let mean = one.loads.iter().find(|row| row.load.is_none())?;
    let factors = one.factors.iter().zip(&mean.of_factors);
    let mut causes: Vec<String> = factors.map(|((name, ..), &ratio)| format!("{name} {}", text(ratio))).collect();
    causes.push(format!("{} {}", rest_of(one), text(mean.rest)));
    let (first, last) = (levels(one, |found| &found.1), levels(one, |found| &found.2));
    let (block, subject, baseline) = (block(one), &one.subject, &one.baseline);
    Some(format!(
        "{block}{subject} with {last} does {} times the operations of {baseline} with {first}: {}. With the same flags \
         for both it does {} times as many ({last}), and {} times as many ({first}). Means over all loads.",
        text(mean.whole),
        causes.join(" × "),
        text(mean.equal_last),
        text(mean.equal_first),
    ))
}

fn block(one: &Analysis) -> String {
    if one.block.is_empty() { String::new() } else { format!("{}: ", one.block) }
}

/// One level of each factor.
fn levels(one: &Analysis, place: fn(&(String, String, String)) -> &String) -> String {
    one.factors.iter().map(|found| format!("{} {}", found.0, place(found))).collect::<Vec<_>>().join(", ")
}

/// A row for each load: the whole and its parts, which multiply to it.
pub(crate) fn parts(one: &Analysis) -> Table {
    let mut header = vec!["load".to_owned(), "whole".to_owned()];
    header.extend(one.factors.iter().map(|(name, ..)| format!("of it {name}")));
    header.push(format!("of it the rest: {}", rest_of(one)));
    header.push(format!("both with {}", levels(one, |found| &found.1)));
    header.push(format!("both with {}", levels(one, |found| &found.2)));
    Table { header, rows: one.loads.iter().map(parts_row).collect() }
}

/// What distinguishes two servers besides the factors.
fn rest_of(one: &Analysis) -> &'static str {
    match (one.subject.as_str(), one.baseline.as_str()) {
        ("actor", _) | (_, "actor") => "the channel",
        ("dashmap", "mutex") => "the locks of shards",
        _ => "the server itself",
    }
}

fn parts_row(row: &Parts) -> Vec<String> {
    let mut cells = vec![row.load.clone().unwrap_or_else(|| "mean of all".to_owned()), text(row.whole)];
    cells.extend(row.of_factors.iter().copied().map(text));
    cells.extend([row.rest, row.equal_first, row.equal_last].map(text));
    cells
}

/// Main effects and interactions.
pub(crate) fn effects(one: &Analysis) -> Table {
    let header = ["effect", "level", "changes it by", "share of the sum of squares"].map(str::to_owned).to_vec();
    let row = |effect: &Effect| {
        vec![
            effect.factors.join(" × "),
            effect.levels.join(" × "),
            text(effect.ratio),
            format!("{:.1} %", effect.share * 100.0),
        ]
    };
    Table { header, rows: one.effects.iter().map(row).collect() }
}

fn text(ratio: Ratio) -> String {
    format!("{:.2} [{:.2}–{:.2}]", ratio.ratio, ratio.low, ratio.high)
}
