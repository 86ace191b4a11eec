//! The answers of a run, in sentences: they follow only from verdicts.
//!
//! A sweep with `situations = true` measures servers that only differ in themselves. Every one of its loads is a
//! situation, in which every server is compared with two baselines: the mutex engine, which everyone builds first, to
//! show the effect of an engine; and Redis, to show that of the whole server. The verdicts are those of the sweep's
//! tables ([`analysis::against`]): a sentence and a table that compare the same two points say the same.
//!
//! A run without such sweeps, and without pairs to take apart, is answered by each of its sweeps: every line is
//! compared with the sweep's own baseline, in the metric that the sweep is about.

use crate::judging::analysis::{self, Comparison};
use crate::judging::compare::{self, Verdict};
use crate::judging::summary::{Metric, Summary};
use crate::plan::catalog::is_engine;
use crate::plan::dimension::{Dimension, Line};
use crate::plan::point::Point;
use crate::plan::sweep::Sweep;
use crate::plan::values::RATE;
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

/// Lines of a sweep from which on there is one sentence for each server, so that the answer fits on a screen.
const LINES_MAX: usize = 10;

/// The results of one server or line against the baseline, over all situations.
struct Record<'a> {
    server: String,
    metric: Metric,
    faster: Vec<&'a Comparison<'a>>,
    slower: Vec<&'a Comparison<'a>>,
    small: usize,
    undecided: usize,
    all: Vec<&'a Comparison<'a>>,
}

/// The answers that a run has sweeps for.
pub(crate) fn of(record: &RunRecord, summary: &Summary) -> Vec<Answer> {
    let sweeps: Vec<&Sweep> = record.setup.sweeps.iter().filter(|sweep| sweep.situations).collect();
    let engines = answer(summary, &sweeps, MUTEX, "Locks or actors: which engine is faster, and when?", is_engine);
    let peers = answer(summary, &sweeps, REDIS, "Is it faster than Redis?", |_| true);
    let of_sweeps = answered_alone(record).into_iter().filter_map(|sweep| of_sweep(summary, sweep));
    engines.into_iter().chain(peers).chain(of_sweeps).collect()
}

/// The sweeps whose own questions a run answers: all but equals, where none has situations or is taken apart.
pub(crate) fn answered_alone(record: &RunRecord) -> Vec<&Sweep> {
    let sweeps = &record.setup.sweeps;
    if sweeps.iter().any(|sweep| sweep.situations || !sweep.factorial.is_empty()) {
        return Vec::new();
    }
    sweeps.iter().filter(|sweep| sweep.equals.is_empty()).collect()
}

/// The metric that the question of a sweep is about: what requests wait where the rate is given, how evenly
/// connections are served where that is asked, and throughput.
pub(crate) fn asked(sweep: &Sweep) -> Metric {
    match () {
        () if !sweep.rate_percent.is_empty() => Metric::P99Us,
        () if sweep.fairness => Metric::SlowestConnection,
        () => Metric::OpsPerSec,
    }
}

/// That metric in words.
pub(crate) fn asked_in_words(sweep: &Sweep) -> &'static str {
    match asked(sweep) {
        Metric::P99Us => "Latency p99",
        Metric::SlowestConnection => "How much longer the slowest connection waits than the median one",
        _ => "Throughput",
    }
}

/// The answer to the question of a sweep: its lines, or its servers where there are many, against its baseline.
fn of_sweep(summary: &Summary, sweep: &Sweep) -> Option<Answer> {
    let metric = asked(sweep);
    let found: Vec<Comparison> =
        analysis::comparisons(summary, sweep).into_iter().filter(|one| one.metric == metric).collect();
    let axis = Dimension::axis_of(sweep);
    let lines = Line::all(sweep, &axis);
    let is_short = lines.len() <= LINES_MAX;
    let name_of = |one: &Comparison| {
        let line = lines.iter().find(|line| line.holds(&one.subject.point));
        line.filter(|_| is_short).map_or_else(|| one.subject.point.server.clone(), |line| line.label.clone())
    };
    let mut names: Vec<String> = Vec::new();
    for name in found.iter().map(name_of) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let baseline = analysis::baseline_name(sweep);
    let records = names.into_iter().map(|name| {
        let own = found.iter().filter(|one| name_of(one) == name).collect();
        Record::over(name, metric, own)
    });
    // What differs between the points that a sentence is about.
    let of_line = |one: &Comparison| situation(&[sweep], &one.subject.point);
    let of_server = |one: &Comparison| format!("{}, {}", one.subject.point.variant, of_line(one));
    let whole = Record::over(String::new(), metric, found.iter().collect());
    let of_any = |one: &Comparison| {
        let line = lines.iter().find(|line| line.holds(&one.subject.point));
        format!("{}, {}", line.map_or(one.subject.point.server.as_str(), |line| line.label.as_str()), of_line(one))
    };
    let sentence = |one: Record| match is_short {
        true => format!("{}: {}{}.", one.server, one.ends(sweep, &axis), one.counts(of_line)),
        false => format!("{}, in {} comparisons: {}.", one.server, one.situations(), one.counts(of_server)),
    };
    (!found.is_empty()).then(|| Answer {
        question: sweep.question.clone(),
        headline: format!(
            "{}, against {baseline}, in {} comparisons: {}.",
            asked_in_words(sweep),
            whole.situations(),
            whole.counts(of_any)
        ),
        sentences: records.map(sentence).collect(),
    })
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
        let own = all.iter().filter(|one| one.subject.point.server == server).collect();
        Self::over(server, Metric::OpsPerSec, own)
    }

    fn over(server: String, metric: Metric, own: Vec<&'a Comparison<'a>>) -> Self {
        let with = |verdict| {
            let mut found: Vec<&Comparison> = own.iter().copied().filter(|one| one.verdict == verdict).collect();
            let size = |one: &Comparison| one.difference.ratio.ln().abs();
            found.sort_by(|a, b| size(b).total_cmp(&size(a)));
            found
        };
        let (faster, slower) = (with(Verdict::Better), with(Verdict::Worse));
        let small = with(Verdict::NoChange).len() + with(Verdict::Below).len();
        let undecided = own.len() - faster.len() - slower.len() - small;
        Self { server, metric, faster, slower, small, undecided, all: own }
    }

    fn situations(&self) -> usize {
        self.all.len()
    }

    fn sentence(&self, sweeps: &[&Sweep], baseline: &str) -> String {
        let (server, count) = (&self.server, self.situations());
        let counts = self.counts(|one| situation(sweeps, &one.subject.point));
        format!("{server} against {baseline}, in {count} situations: {counts}.")
    }

    /// How many comparisons came out how, and the largest difference of each kind with its place. What none came out
    /// as is not named.
    fn counts(&self, place: impl Fn(&Comparison) -> String) -> String {
        let small = compare::smallest_effect(self.metric) * 100.0;
        let kinds = [
            (Verdict::Better.word(self.metric).to_owned(), self.faster.len(), self.faster.first()),
            (Verdict::Worse.word(self.metric).to_owned(), self.slower.len(), self.slower.first()),
            (format!("apart by less than {small:.0} %"), self.small, None),
            ("undecided".to_owned(), self.undecided, None),
        ];
        let parts = kinds.into_iter().filter(|(_, count, _)| *count > 0).map(|(word, count, most)| {
            let most = most.map_or(String::new(), |one| format!(" (most: {}, {})", in_figures(one), place(one)));
            let is_all = count == self.situations() && count > 1;
            let count = if is_all { "all".to_owned() } else { count.to_string() };
            format!("{word} in {count}{most}")
        });
        parts.collect::<Vec<_>>().join(", ")
    }

    /// The ratios at both ends of the axis, where nothing else differs between the comparisons.
    fn ends(&self, sweep: &Sweep, axis: &Dimension) -> String {
        let mut along: Vec<(f64, &Comparison)> =
            self.all.iter().map(|&one| (axis.position(sweep, &one.subject.point), one)).collect();
        along.sort_by(|a, b| a.0.total_cmp(&b.0));
        if along.is_empty() || along.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return String::new();
        }
        let ends = if along.len() == 1 { &along[..] } else { &[along[0], along[along.len() - 1]][..] };
        let text =
            |(_, one): &(f64, &Comparison)| format!("{} at {}", in_figures(one), in_words(axis, &one.subject.point));
        format!("{}; ", ends.iter().map(text).collect::<Vec<_>>().join(", "))
    }
}

fn in_figures(one: &Comparison) -> String {
    let d = &one.difference;
    format!("{:.2} [{:.2}–{:.2}]", d.ratio, d.low, d.high)
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
    let label = dimension.shown(&dimension.label(point));
    match (dimension, label.as_str()) {
        (Dimension::Ratio, "0:1") => "GET".to_owned(),
        (Dimension::Ratio, "1:0") => "SET".to_owned(),
        (Dimension::Clients, "1") => "1 client".to_owned(),
        (Dimension::Clients, count) => format!("{count} clients"),
        (Dimension::KeyMaximum, count) => format!("{count} keys"),
        (Dimension::DataSize, size) => format!("{size} bytes"),
        (Dimension::Flag(flag), rate) if flag == RATE => format!("{rate} requests a second"),
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
        assert!(found[0].sentences[0].starts_with("actor against mutex, in 2 situations: slower in all (most: 0.75 ["));
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
            let expected = if faster == 2 { "faster in all (".to_owned() } else { format!("faster in {faster} (") };
            let is_said = sentence.contains(if faster == 0 { "faster" } else { &expected });
            assert_eq!(is_said, faster > 0, "{step}: {faster} in the table; {sentence}");
        }
    }

    #[test]
    fn an_engine_that_is_faster_under_one_load_is_said_to_be_so_there() {
        let found = answers(|point| if point.server == "actor" && point.pipeline == 16 { 1500.0 } else { 1000.0 });
        assert_eq!(found[0].headline, "Against mutex: actor is faster in 1 of 2.");
        let expected = "actor against mutex, in 2 situations: faster in 1 (most: 1.50 [1.50–1.50], pipeline 16), \
            apart by less than 5 % in 1.";
        let rounded = found[0].sentences[0].replace("1.49", "1.50").replace("1.51", "1.50");
        assert_eq!(rounded, expected);
    }

    const AXIS: &str = "question='Why?'\nservers=['mutex', 'actor']\nclients=[10, 50, 500]\nbaseline='mutex'\n\
        test_seconds=1\nwarm_up_seconds=0\nrepeats=10\n";

    fn of_axis(sweep: &str, rate: impl Fn(&Point) -> f64) -> Vec<Answer> {
        let (run, summary) = testing::run("s", sweep, |point, round| rate(point) * (1.0 + f64::from(round) * 1e-3));
        of(&run, &summary)
    }

    #[test]
    fn a_sweep_without_situations_answers_its_question_at_both_ends_of_its_axis() {
        let rate = |point: &Point| match (point.server.as_str(), point.clients) {
            ("actor", 10) => 500.0,
            ("actor", 500) => 2000.0,
            _ => 1000.0,
        };
        let found = of_axis(AXIS, rate);
        assert_eq!(found.len(), 1);
        let rounded = |text: &str| text.replace("0.49", "0.50").replace("1.99", "2.00").replace("2.01", "2.00");
        assert_eq!(found[0].question, "Why?");
        assert_eq!(
            rounded(&found[0].headline),
            "Throughput, against mutex, in 3 comparisons: faster in 1 (most: 2.00 [2.00–2.00], actor, 500 clients), \
             slower in 1 (most: 0.50 [0.50–0.50], actor, 10 clients), apart by less than 5 % in 1."
        );
        let sentence = rounded(&found[0].sentences[0]);
        let start = "actor: 0.50 [0.50–0.50] at 10 clients, 2.00 [2.00–2.00] at 500 clients; faster in 1 (most: 2.00 ";
        assert!(found[0].sentences.len() == 1 && sentence.starts_with(start), "{sentence}");
        // Where the other one is ahead the answer is another.
        let reversed = of_axis(AXIS, |point| 1e6 / rate(point));
        assert!(reversed[0].headline.contains("actor, 10 clients), slower in 1"), "{}", reversed[0].headline);
    }

    #[test]
    fn sweeps_of_situations_answer_for_a_run_and_a_pair_that_is_taken_apart_does() {
        assert!(of_axis(&format!("{AXIS}situations=true\n"), |_| 1000.0).iter().all(|one| one.question != "Why?"));
        let factors = "variant=[{name='a', flags=[], factors={f='x'}}, {name='b', flags=['--b'], factors={f='y'}}]\n";
        assert!(
            of_axis(
                &format!("{AXIS}factorial=[['actor', 'mutex']]\n{factors}").replace("baseline='mutex'\n", ""),
                |_| 1000.0
            )
            .is_empty()
        );
    }

    #[test]
    fn many_lines_are_answered_by_server_and_few_by_line() {
        let variants = |count: usize| {
            let names: Vec<String> =
                (0..count).map(|index| format!("{{name='v{index}', flags=['--x', '{index}']}}")).collect();
            AXIS.replace("baseline='mutex'", &format!("baseline='mutex v0'\nvariant=[{}]", names.join(", ")))
        };
        for (count, sentences) in [(2, 3), (5, 9), (6, 2)] {
            let found = of_axis(&variants(count), |point| if point.variant == "v1" { 2000.0 } else { 1000.0 });
            assert_eq!(found[0].sentences.len(), sentences, "{:?}", found[0].sentences);
            assert!(found[0].headline.contains(" v1, "), "{}", found[0].headline);
        }
    }

    #[test]
    fn the_question_of_an_open_loop_is_what_requests_wait() {
        let sweep = |more: &str| Sweep::parse("s", &format!("{AXIS}{more}")).unwrap();
        assert_eq!(asked(&sweep("rate_percent=[30]\nfairness=true\n")), Metric::P99Us);
        assert_eq!(asked(&sweep("fairness=true\n")), Metric::SlowestConnection);
        assert_eq!(asked(&sweep("")), Metric::OpsPerSec);
    }
}
