//! The page "locks or actors, on how many cores?": a figure, sentences and tables, made from one file of `experiments
//! scaling`.
//!
//! Everything follows from `situations`: which engine is ahead of which, under which load, on how many cores, and
//! whether that was measured or is predicted only. Nothing is typed by hand: another file makes other sentences.

mod figure;
mod sentences;
mod situations;

use std::path::Path;

use anyhow::{Result, bail};

use crate::base::text::markdown;
use crate::scaling::record::Recorded;
use crate::scaling::{curves, predictions};
use figure::Layout;
use situations::Situations;

/// The document that has the tables that sentences link to.
pub const PAGE: &str = "docs/locks-or-actors.md";

/// The queries that this module has results for.
pub(crate) const KINDS: [&str; 7] = ["figure", "answer", "standings", "situations", "gaps", "blocks", "predictions"];

/// What follows from a file.
#[derive(Debug)]
pub struct Answer {
    recorded: Recorded,
    situations: Situations,
}

/// What a report shows of a file, as plain text.
#[derive(Debug)]
pub(crate) struct Shown {
    /// The figure.
    pub svg: String,
    /// The same for a phone.
    pub narrow_svg: String,
    /// What is in the figure, and what is not.
    pub caption: String,
    /// When to use which engine.
    pub sentences: Vec<String>,
}

/// The result of a query, and the file that it makes.
#[derive(Debug, PartialEq)]
pub struct Made {
    /// The text for the document.
    pub text: String,
    /// The content of the file that the query names.
    pub file: Option<String>,
}

impl Answer {
    /// Reads a file and judges it.
    pub(crate) fn of(file: &Path) -> Result<Self> {
        Self::from(Recorded::read(file)?)
    }

    pub(crate) fn from(recorded: Recorded) -> Result<Self> {
        let situations = Situations::of(&recorded)?;
        Ok(Self { recorded, situations })
    }

    /// What a report shows.
    pub(crate) fn shown(&self) -> Shown {
        Shown {
            svg: figure::svg(&self.situations, Layout::Wide),
            narrow_svg: figure::svg(&self.situations, Layout::Narrow),
            caption: plain(&figure::caption(&self.situations)),
            sentences: sentences::all(&self.situations, PAGE).iter().map(|sentence| plain(sentence)).collect(),
        }
    }

    /// The result of one of [`KINDS`], in the document at `path`; a figure also names the file that it is in.
    pub(crate) fn query(&self, path: &Path, words: &[&str]) -> Result<Made> {
        let text = match words {
            ["figure", file] => {
                let alt = "Throughput and 99th percentile of a batch by number of cores, for each engine";
                let text = format!("\n\n![{alt}]({})\n\n{}\n\n", link(path, file), figure::caption(&self.situations));
                return Ok(Made { text, file: Some(figure::svg(&self.situations, Layout::Wide)) });
            }
            ["answer"] => sentences::answer(&self.situations, &link(path, PAGE)),
            ["standings"] => sentences::standings(&self.situations),
            ["situations"] => sentences::table(&self.situations, &link(path, PAGE)),
            ["gaps"] => sentences::gaps(&self.recorded, &self.situations),
            ["blocks"] => self.blocks()?,
            ["predictions"] => match &self.situations.predicted {
                Ok(said) => predictions::table_of(said),
                Err(missing) => bail!("{missing}"),
            },
            _ => bail!("there is no query {words:?}"),
        };
        Ok(Made { text, file: None })
    }

    /// The tables that the sentences are made from, each with the anchor that they link to.
    fn blocks(&self) -> Result<String> {
        let mut text = String::new();
        for block in self.recorded.blocks() {
            if self.recorded.trials.iter().any(|trial| trial.block == block) {
                text.push_str(&format!("\n\n<a id=\"block-{block}\"></a>**Block {block}**, measured:"));
                text.push_str(&curves::table(&self.recorded, &block)?);
            }
        }
        if let Ok(said) = &self.situations.predicted {
            text.push_str("\n\n<a id=\"predictions\"></a>**Predictions** of the model:");
            text.push_str(&predictions::table_of(said));
            text.push_str("\n\n**The model where it can be checked**:");
            text.push_str(&predictions::checks(&self.recorded)?);
        }
        if text.is_empty() { Ok(markdown(&["nothing was measured"], &[])) } else { Ok(text) }
    }
}

/// Markdown of one paragraph without its markup: emphasis, and links but for their text.
fn plain(markdown: &str) -> String {
    let mut text = String::new();
    let mut rest = markdown;
    while let Some((before, after)) = rest.split_once('[') {
        text.push_str(before);
        // Brackets around an interval are no link.
        rest = match after.split_once(']') {
            Some((name, after)) if after.starts_with('(') => {
                text.push_str(name);
                after.split_once(')').map_or("", |(_, after)| after)
            }
            _ => {
                text.push('[');
                after
            }
        };
    }
    (text + rest).replace('*', "")
}

/// A link from a document to a file, both relative to the root; empty from a document to itself.
fn link(document: &Path, file: &str) -> String {
    if document == Path::new(file) {
        return String::new();
    }
    // Documents are in the root or in a folder of it, and a link within a folder is short.
    let folder = document.parent().unwrap_or(Path::new(""));
    match Path::new(file).strip_prefix(folder) {
        Ok(within) => within.display().to_string(),
        Err(_) => format!("{}{file}", "../".repeat(folder.components().count())),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::scaling::record::Trial;
    use crate::scaling::record::tests::{recorded, trial};

    /// A machine of two cores: on one thread a batch costs the mutex engine least, on two the actor engine. `rounds`
    /// rounds, with the model's inputs.
    pub(crate) fn invented(rounds: u32) -> Recorded {
        let mut trials = Vec::new();
        for batch in [1, 16, 64] {
            let work = 300.0 + 150.0 * batch as f64;
            for (engine, threads, factor) in [
                ("mutex", 1, 1.0),
                ("mutex", 2, 1.9),
                ("dashmap/8", 1, 1.2),
                ("dashmap/8", 2, 1.6),
                ("actor/1", 1, 1.1),
                ("actor/2", 1, 1.3),
                ("actor/2", 2, 1.3),
            ] {
                for repeat in 1..=rounds {
                    let noise = 1.0 + f64::from(repeat) / 1000.0;
                    trials.push(trial(engine, threads, batch, work * factor * noise, repeat));
                }
            }
        }
        recorded(trials)
    }

    /// Adds a shared-nothing variant to the block `placement`, in place of mailboxes.
    pub(crate) fn with_variant(mut recorded: Recorded, factor: f64) -> Recorded {
        let own = recorded.trials.iter().filter(|trial| trial.found.engine == "actor" && trial.found.threads == 2);
        let add = |like: &Trial, engine: &str| {
            let work = 300.0 + 150.0 * like.found.batch as f64;
            let noise = 1.0 + f64::from(like.repeat) / 1000.0;
            let ns = work * noise * if engine == "mutex" { 1.9 } else { factor };
            let name = if engine == "mutex" { "mutex".to_owned() } else { format!("{engine}/2") };
            let mut one = trial(&name, 2, like.found.batch, ns, like.repeat);
            one.block = "placement".to_owned();
            one
        };
        let more: Vec<Trial> = own.flat_map(|one| [add(one, "mutex"), add(one, "actor-inline")]).collect();
        recorded.trials.extend(more);
        let mut block = recorded.header.grid.block[0].clone();
        block.name = "placement".to_owned();
        recorded.header.grid.block.push(block);
        recorded
    }

    pub(crate) fn answered(recorded: Recorded, words: &[&str]) -> Made {
        Answer::from(recorded).unwrap().query(Path::new("README.md"), words).unwrap()
    }

    #[test]
    fn links_lead_from_a_document_to_the_file() {
        let figure = "docs/images/x.svg";
        assert_eq!(link(Path::new("README.md"), figure), figure);
        assert_eq!(link(Path::new(PAGE), figure), "images/x.svg");
        assert_eq!(link(Path::new("docs/adr/1.md"), figure), "../../docs/images/x.svg");
        assert_eq!(link(Path::new(PAGE), PAGE), "");
    }

    #[test]
    fn a_table_is_at_the_place_that_sentences_link_to() {
        let made = answered(invented(7), &["blocks"]).text;
        assert!(made.contains("<a id=\"block-model\"></a>") && made.contains("<a id=\"predictions\"></a>"), "{made}");
        let said = answered(invented(7), &["answer"]).text;
        assert!(said.contains("(docs/locks-or-actors.md#block-model)"), "{said}");
        assert!(said.contains("(docs/locks-or-actors.md#predictions)"), "{said}");
    }

    #[test]
    fn the_same_file_gives_the_same_text_and_another_file_another() {
        let text = |recorded| answered(recorded, &["answer"]).text;
        assert_eq!(text(invented(7)), text(invented(7)));
        let mut other = invented(7);
        other.trials.iter_mut().filter(|one| one.found.engine == "mutex").for_each(|one| one.found.seconds *= 3.0);
        assert_ne!(text(invented(7)), text(other));
    }

    #[test]
    fn what_a_report_shows_is_plain_text_and_keeps_its_intervals() {
        let shown = Answer::from(invented(7)).unwrap().shown();
        let mutex = &shown.sentences[0];
        assert!(mutex.starts_with("Use mutex when 1 core serves") && mutex.contains(": up to 1.10 ["), "{mutex}");
        assert!(mutex.contains(", model)") && !mutex.contains("]("), "{mutex}");
        assert!(shown.caption.starts_with("Batches of 16 requests"), "{}", shown.caption);
        assert_eq!(
            plain("**Use** it (1.2 [1.1–1.3] of *b*, [m](x#m), [n](#n))."),
            "Use it (1.2 [1.1–1.3] of b, m, n)."
        );
    }
}
