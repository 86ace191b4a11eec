//! The answers of a run, in sentences: they follow only from verdicts.
//!
//! A sweep with `situations = true` measures servers that only differ in themselves. Every one of its loads is a
//! situation, in which every server is compared with two baselines: the mutex engine, which everyone builds first, to
//! show the effect of an engine; and Redis, to show that of the whole server. The verdicts are those of the sweep's
//! tables ([`analysis::against`]): a sentence and a table that compare the same two points say the same.

use crate::judging::analysis::{self, Comparison};
use crate::judging::compare::{self, Verdict};
use crate::judging::summary::{Metric, Summary};
use crate::plan::catalog::is_engine;
use crate::plan::dimension::Dimension;
use crate::plan::point::Point;
use crate::plan::sweep::Sweep;
use crate::results::folder::RunRecord;

/// The baseline of the engines.
const MUTEX: &str = "mutex";
/// The baseline of all servers.
const REDIS: &str = "redis-server";

/// A question and the answer of this run.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The question.
    pub question: String,
    /// The shortest answer.
    pub headline: String,
    /// One sentence for each server.
    pub sentences: Vec<String>,
}

/// The results of one server against the baseline, over all situations.
struct Record<'a> {
    server: String,
    faster: Vec<&'a Comparison<'a>>,
    slower: Vec<&'a Comparison<'a>>,
    small: usize,
    undecided: usize,
}

/// The answers that a run has sweeps for.
pub(crate) fn of(record: &RunRecord, summary: &Summary) -> Vec<Answer> {
    let sweeps: Vec<&Sweep> = record.setup.sweeps.iter().filter(|sweep| sweep.situations).collect();
    let engines = answer(summary, &sweeps, MUTEX, "Locks or actors: which engine is faster, and when?", is_engine);
    let peers = answer(summary, &sweeps, REDIS, "Is it faster than Redis?", |_| true);
    engines.into_iter().chain(peers).collect()
}

fn answer(
    summary: &Summary,
    sweeps: &[&Sweep],
    baseline: &str,
    question: &str,
    is_asked: impl Fn(&str) -> bool,
) -> Option<Answer> {
    let all = sweeps.iter().flat_map(|sweep| analysis::against(summary, sweep, baseline));
    let is_shown = |one: &Comparison| one.metric == Metric::OpsPerSec && is_asked(&one.subject.point.server);
    let found: Vec<Comparison> = all.filter(is_shown).collect();
    let mut servers: Vec<String> = Vec::new();
    for one in &found {
        if !servers.contains(&one.subject.point.server) {
            servers.push(one.subject.point.server.clone());
        }
    }
    let records: Vec<Record> = servers.into_iter().map(|server| Record::of(server, &found)).collect();
    (!records.is_empty()).then(|| Answer {
        question: question.to_owned(),
        headline: headline(baseline, &records),
        sentences: records.iter().map(|one| one.sentence(sweeps, baseline)).collect(),
    })
}

impl<'a> Record<'a> {
    fn of(server: String, all: &'a [Comparison<'a>]) -> Self {
        let own: Vec<&Comparison> = all.iter().filter(|one| one.subject.point.server == server).collect();
        let with = |verdict| own.iter().copied().filter(|one| one.verdict == verdict).collect::<Vec<_>>();
        let (mut faster, mut slower) = (with(Verdict::Better), with(Verdict::Worse));
        faster.sort_by(|a, b| b.difference.ratio.total_cmp(&a.difference.ratio));
        slower.sort_by(|a, b| a.difference.ratio.total_cmp(&b.difference.ratio));
        let small = with(Verdict::NoChange).len() + with(Verdict::Below).len();
        let undecided = own.len() - faster.len() - slower.len() - small;
        Self { server, faster, slower, small, undecided }
    }

    fn situations(&self) -> usize {
        self.faster.len() + self.slower.len() + self.small + self.undecided
    }

    fn sentence(&self, sweeps: &[&Sweep], baseline: &str) -> String {
        let mut parts = Vec::new();
        for (word, found) in [("faster", &self.faster), ("slower", &self.slower)] {
            let most = found.first().map_or(String::new(), |one| {
                let d = &one.difference;
                format!(
                    " (most: {:.2} [{:.2}–{:.2}], {})",
                    d.ratio,
                    d.low,
                    d.high,
                    situation(sweeps, &one.subject.point)
                )
            });
            parts.push(format!("{word} in {}{most}", found.len()));
        }
        let small = compare::smallest_effect(Metric::OpsPerSec) * 100.0;
        parts.push(format!("apart by less than {small:.0} % in {}", self.small));
        parts.push(format!("undecided in {}", self.undecided));
        let (server, count) = (&self.server, self.situations());
        format!("{server} against {baseline}, in {count} situations: {}.", parts.join(", "))
    }
}

fn headline(baseline: &str, records: &[Record]) -> String {
    let beats = |one: &&Record| !one.faster.is_empty();
    let undecided: usize = records.iter().map(|one| one.undecided).sum();
    let situations = records.iter().map(Record::situations).max().unwrap_or(0);
    let winners: Vec<String> = records
        .iter()
        .filter(beats)
        .map(|one| format!("{} is faster in {} of {}", one.server, one.faster.len(), one.situations()))
        .collect();
    // What is ahead by less is told apart below, and not said to be faster.
    let small = compare::smallest_effect(Metric::OpsPerSec) * 100.0;
    match () {
        () if winners.is_empty() && undecided == 0 => {
            format!("Nothing is ahead of {baseline} by {small:.0} % in any of {situations} situations.")
        }
        () if winners.is_empty() => format!(
            "Nothing was found to be ahead of {baseline} by {small:.0} % in any of {situations} situations; {undecided} \
             comparisons decide nothing."
        ),
        () => {
            let losses: usize = records.iter().map(|one| one.slower.len()).sum();
            let losses = if losses == 0 { String::new() } else { format!(", and something slower in {losses}") };
            format!("Against {baseline}: {}{losses}.", winners.join(", "))
        }
    }
}

/// A load in words: the values that its sweep varies.
pub(crate) fn situation(sweeps: &[&Sweep], point: &Point) -> String {
    let Some(sweep) = sweeps.iter().find(|sweep| sweep.name == point.sweep) else { return point.label() };
    let varied = Dimension::all(sweep).into_iter().filter(|one| one.count(sweep) > 1 && *one != Dimension::Variant);
    let words: Vec<String> = varied.map(|one| in_words(&one, point)).collect();
    if words.is_empty() { format!("the sweep {}", sweep.name) } else { words.join(", ") }
}

fn in_words(dimension: &Dimension, point: &Point) -> String {
    let label = dimension.label(point);
    match (dimension, label.as_str()) {
        (Dimension::Ratio, "0:1") => "GET".to_owned(),
        (Dimension::Ratio, "1:0") => "SET".to_owned(),
        (Dimension::Clients, count) => format!("{count} clients"),
        (Dimension::KeyMaximum, count) => format!("{count} keys"),
        (Dimension::DataSize, size) => format!("{size} bytes"),
        (other, label) => format!("{} {label}", other.title()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    const SITUATIONS: &str = "question='?'\nservers=['mutex', 'actor', 'redis-server']\nclients=[50]\n\
        pipeline=[1, 16]\nsituations=true\ntest_seconds=1\nwarm_up_seconds=0\nrepeats=10\n";

    fn answers(rate: impl Fn(&Point) -> f64) -> Vec<Answer> {
        let scattered = |point: &Point, round: u32| rate(point) * (1.0 + f64::from(round) * 1e-3);
        let (run, summary) = testing::run("s", SITUATIONS, scattered);
        of(&run, &summary)
    }

    #[test]
    fn where_the_mutex_engine_is_never_beaten_the_answer_says_so() {
        let found = answers(|point| match point.server.as_str() {
            "mutex" => 2000.0,
            "actor" => 1500.0,
            _ => 1000.0,
        });
        assert_eq!(found[0].headline, "Nothing is ahead of mutex by 5 % in any of 2 situations.");
        assert_eq!(found[0].sentences.len(), 1, "Redis is no engine");
        assert!(
            found[0].sentences[0]
                .starts_with("actor against mutex, in 2 situations: faster in 0, slower in 2 (most: 0.75 [")
        );
        assert_eq!(found[1].headline, "Against redis-server: mutex is faster in 2 of 2, actor is faster in 2 of 2.");
    }

    // Throughput of ten runs a side that overlap by a few: significant among the two comparisons of one engine, and not
    // among all of the sweep, in all metrics and of all servers.
    #[test]
    fn sentences_and_tables_count_the_same_verdicts() {
        for step in [0.0, 4e-3, 5e-3, 6e-3, 7e-3, 8e-3, 1e-2] {
            let scattered = |point: &Point, round: u32| {
                let rate = if point.server == "actor" { 1.0 + 5.0 * step } else { 1.0 };
                1000.0 * rate * (1.0 + f64::from(round) * 1e-2)
            };
            let (run, summary) = testing::run("s", SITUATIONS, scattered);
            let table = analysis::comparisons(&summary, &run.setup.sweeps[0]);
            let is_faster = |one: &&Comparison| {
                (one.verdict, one.metric) == (Verdict::Better, Metric::OpsPerSec) && one.subject.point.server == "actor"
            };
            let faster = table.iter().filter(is_faster).count();
            let sentence = of(&run, &summary).swap_remove(0).sentences.swap_remove(0);
            assert!(sentence.contains(&format!("faster in {faster}")), "{step}: {faster} in the table; {sentence}");
        }
    }

    #[test]
    fn an_engine_that_is_faster_under_one_load_is_said_to_be_so_there() {
        let found = answers(|point| if point.server == "actor" && point.pipeline == 16 { 1500.0 } else { 1000.0 });
        assert_eq!(found[0].headline, "Against mutex: actor is faster in 1 of 2.");
        let expected = "actor against mutex, in 2 situations: faster in 1 (most: 1.50 [1.50–1.50], pipeline 16), slower in 0, \
            apart by less than 5 % in 1, undecided in 0.";
        let rounded = found[0].sentences[0].replace("1.49", "1.50").replace("1.51", "1.50");
        assert_eq!(rounded, expected);
    }
}
