//! The report: one HTML file that needs no network, with plots as inline SVG and every figure taken from the summary.
//! Beside it `summary.json` and `summary.csv` have the same for programs, and `plots/` holds each plot alone.
//!
//! A report is a function of `run.json`, `trials.jsonl`, the claims, and `scaling.jsonl` if that is beside them:
//! [`render`] makes the text of all its files, so that `verify` can make them again and compare.

mod conclusions;
mod figures;
mod first;
mod sweeps;
mod why;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use askama::Template;

use self::conclusions::{ClaimView, NoiseView, claim_view, noise_view};
use self::figures::{colour_of, swatch};
pub(crate) use self::figures::{figure, title};
use self::first::first_figure;
use self::sweeps::{Plot, SweepView, sweep_view};
pub(crate) use self::why::{Table, caption, effects, parts};
use crate::base::files::{to_json, write_whole};
use crate::judging::answers;
use crate::judging::claims::{self, Claims};
use crate::judging::summary::Summary;
use crate::plan::layout::Layout;
use crate::plan::sweep::Sweep;
use crate::publishing::locks_or_actors::{Answer, Shown};
use crate::results::folder::{RunFolder, RunRecord};
use crate::results::observation::Observations;

/// Sweeps in the order of the argument; any other follows.
const ARGUMENT: [&str; 19] = [
    "quick",
    "why",
    "working-set",
    "pipeline",
    "clients",
    "open-loop",
    "threads",
    "hot-key",
    "large-commands",
    "fairness",
    "multi-key",
    "ten-thousand",
    "fsync",
    "value-size",
    "workloads",
    "mailbox",
    "batch-bound",
    "channels",
    "aa",
];

#[derive(Template)]
#[template(path = "report.html")]
struct Page {
    /// What the page answers.
    question: String,
    name: String,
    started: String,
    seed: u64,
    resumed: u32,
    trials: usize,
    trials_done: usize,
    /// Trials in which other processes used the machine.
    disturbed: usize,
    machine: Vec<(&'static str, String)>,
    servers: Vec<ServerView>,
    absent: Vec<(String, String)>,
    budget: Option<f64>,
    /// How long the windows are.
    windows: String,
    /// Whether a sweep has fewer repeats than it plans.
    fewer_repeats: bool,
    /// Whether the budget left the lists of the sweeps as written.
    whole: bool,
    claims: Vec<ClaimView>,
    noise: Vec<NoiseView>,
    /// Engines by number of cores, without sockets; `None` without a file of that.
    cores: Option<Shown>,
    answers: Vec<answers::Answer>,
    /// Whether they are about situations.
    has_situations: bool,
    /// The figure at the top of the answers; `None` without a sweep for it.
    first: Option<Plot>,
    /// The lines of that figure.
    first_legend: Vec<(String, String)>,
    sweeps: Vec<SweepView>,
    skipped: Vec<(String, String)>,
}

struct ServerView {
    name: String,
    swatch: String,
    version: String,
    itself: String,
    command: String,
    digest: String,
}

/// Writes all files of the report, and returns the path of `report.html`.
pub fn write(run: &RunFolder, claims: &[Claims]) -> Result<PathBuf> {
    let cores = run.scaling_file().map(|file| Answer::of(&file)).transpose()?;
    let files = render(run, &run.observations()?, claims, cores.as_ref())?;
    let plots = run.path.join("plots");
    if plots.exists() {
        fs::remove_dir_all(&plots).with_context(|| format!("cannot empty {}", plots.display()))?;
    }
    fs::create_dir_all(&plots).with_context(|| format!("cannot create {}", plots.display()))?;
    for (name, text) in &files {
        write_whole(&run.path.join(name), text)?;
    }
    Ok(run.path.join("report.html"))
}

/// The text of every file of the report, by its path in the run's folder.
///
/// `cores` is what [`RunFolder::scaling_file`] returns.
pub(crate) fn render(
    run: &RunFolder,
    observations: &Observations,
    claims: &[Claims],
    cores: Option<&Answer>,
) -> Result<BTreeMap<String, String>> {
    let record = &run.record;
    let summary = Summary::of(record, observations)?;
    let name = run.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut page = page(name, record, &summary, observations, claims)?;
    page.cores = cores.map(Answer::shown);
    // One figure at the top, so that it fits on a screen.
    page.first = page.first.filter(|_| cores.is_none() || page.has_situations);
    page.question = question(&page);
    let mut files = BTreeMap::new();
    if let Some(plot) = &page.first {
        files.insert(plot.file.clone(), plot.svg.clone());
    }
    for plot in page.sweeps.iter().flat_map(|sweep| &sweep.facets).flat_map(|facet| &facet.plots) {
        files.insert(plot.file.clone(), plot.svg.clone());
    }
    files.insert("summary.json".to_owned(), to_json(&summary)?);
    files.insert("summary.csv".to_owned(), summary.to_csv());
    files.insert("report.html".to_owned(), page.render().context("cannot render the report")?);
    Ok(files)
}

fn page(
    name: String,
    record: &RunRecord,
    summary: &Summary,
    observations: &Observations,
    claims: &[Claims],
) -> Result<Page> {
    let mut sweeps: Vec<&Sweep> = record.setup.sweeps.iter().collect();
    sweeps.sort_by_key(|sweep| ARGUMENT.iter().position(|name| *name == sweep.name).unwrap_or(ARGUMENT.len()));
    let first = first_figure(record, summary, &sweeps)?;
    let absent = record.setup.absent.iter().filter(|absent| !absent.is_sweep);
    let skipped = record.setup.absent.iter().filter(|absent| absent.is_sweep);
    let pair = |absent: &crate::plan::catalog::Absent| (absent.name.clone(), absent.reason.clone());
    Ok(Page {
        question: String::new(),
        name,
        started: record.started.clone(),
        seed: record.seed,
        resumed: record.resumed,
        trials: summary.trials,
        trials_done: summary.trials_done,
        disturbed: summary.points.iter().map(|point| point.disturbed).sum(),
        machine: machine(record),
        servers: record.setup.servers.iter().map(|server| server_view(record, summary, &server.name)).collect(),
        absent: absent.map(pair).collect(),
        skipped: skipped.map(pair).collect(),
        budget: record.setup.budget_minutes,
        windows: windows(record),
        fewer_repeats: !record.setup.planned_repeats.is_empty(),
        whole: record.setup.sweeps.iter().any(|sweep| sweep.short.is_some()),
        claims: claims::audit(record, summary, claims).into_iter().map(claim_view).collect(),
        noise: sweeps
            .iter()
            .filter_map(|sweep| noise_view(summary, observations, &record.setup.sweeps, sweep))
            .collect(),
        cores: None,
        answers: answers::of(record, summary),
        has_situations: sweeps.iter().any(|sweep| sweep.situations),
        first: first.plot,
        first_legend: first.legend,
        sweeps: sweeps.iter().map(|sweep| sweep_view(record, summary, sweep)).collect::<Result<_>>()?,
    })
}

/// The question of a page that answers one; that of the project for one that answers several.
fn question(page: &Page) -> String {
    let of_sweeps = page.sweeps.iter().filter(|sweep| !sweep.why.is_empty()).map(|sweep| &sweep.question);
    let mut questions = page.answers.iter().map(|one| &one.question).chain(of_sweeps);
    match (questions.next(), questions.next()) {
        (Some(only), None) if page.cores.is_none() => only.clone(),
        _ => "Are locks or actors faster, and when?".to_owned(),
    }
}

fn machine(record: &RunRecord) -> Vec<(&'static str, String)> {
    let environment = &record.environment;
    let unknown = || "unknown".to_owned();
    let text = |value: &Option<String>| value.clone().unwrap_or_else(unknown);
    let commit = match (&environment.git_sha, environment.git_dirty) {
        (Some(sha), Some(true)) => format!("{sha}, with uncommitted changes"),
        (sha, _) => text(sha),
    };
    let generator = &record.setup.generator;
    let caches = (!environment.caches.is_empty()).then(|| ("Caches", environment.caches.join(", ")));
    let mut facts = vec![
        ("CPU", text(&environment.cpu)),
        (
            "Cores",
            format!("{}{}", environment.cores, if environment.virtual_machine { ", virtual machine" } else { "" }),
        ),
    ];
    facts.extend(caches);
    facts.extend([
        ("Governor", environment.governor.clone().unwrap_or_else(|| "not exposed".to_owned())),
        ("Memory", environment.memory_bytes.map_or_else(unknown, |bytes| format!("{} MiB", bytes >> 20))),
        ("Kernel", text(&environment.kernel)),
        ("System", text(&environment.system)),
        ("Open files", environment.open_files.map_or_else(unknown, |files| files.to_string())),
        ("Load before", environment.load_average.map_or_else(unknown, |load| format!("{load:.2}"))),
        ("rustc on PATH", text(&environment.rustc)),
        ("Commit", commit),
        ("Generator", format!("{} ({}), on the same machine", text(&generator.version), generator.digest)),
        ("Lab built as", environment.profile.clone()),
    ]);
    facts
}

fn server_view(record: &RunRecord, summary: &Summary, name: &str) -> ServerView {
    let server = record.setup.server(name);
    let itself = itself(record, summary, name);
    ServerView {
        name: name.to_owned(),
        swatch: swatch(colour_of(record, name), 0),
        version: server.program.version.clone().unwrap_or_else(|| "unknown".to_owned()),
        itself: if itself.is_empty() { "says nothing".to_owned() } else { itself.join(", ") },
        command: server.command_line(),
        digest: server.program.digest.clone(),
    }
}

/// How long the windows of a run within a budget are: some sweeps ask for longer ones.
fn windows(record: &RunRecord) -> String {
    let lengths = record.setup.sweeps.iter().map(|sweep| sweep.test_seconds);
    let (least, most) = lengths.fold((f64::MAX, 0.0_f64), |(least, most), one| (least.min(one), most.max(one)));
    if least < most {
        format!("short windows, of {least} to {most} s")
    } else {
        "short windows of equal length".to_owned()
    }
}

/// Fields of INFO that are of a variant of the server, and not of the server.
const OF_VARIANT: [&str; 2] = ["io_threads_active", "shards"];

/// What a server says of itself. INFO is kept of one trial, so threads and shards in it are of one variant: they are
/// shown if there is no other, or as the trials of all variants kept them. Those of the dashmap engine are shards of
/// its table: what INFO calls its shards is one, and is not shown.
fn itself(record: &RunRecord, summary: &Summary, name: &str) -> Vec<String> {
    let own = || summary.points.iter().filter(|one| one.point.server == name);
    let planned = own().map(|one| {
        let flags = &record.setup.sweep(&one.point.sweep).variant(&one.point.variant).flags;
        Layout::planned(name, flags, record.environment.cores)
    });
    let has_one_layout = planned.collect::<BTreeSet<_>>().len() < 2;
    let layouts: BTreeSet<Layout> = own().filter_map(|one| one.layout).collect();
    let info = summary.servers.get(name);
    let has_table = info.and_then(|info| info.get("engine")).is_some_and(|engine| engine == "dashmap");
    let is_shown = |field: &str| match field {
        "shards" if has_table => false,
        _ => !OF_VARIANT.contains(&field) || (has_one_layout && layouts.is_empty()),
    };
    let told = info.into_iter().flatten().filter(|(field, _)| is_shown(field));
    let told = told.map(|(field, value)| format!("{field} {value}"));
    let of = if has_table { " of its table" } else { "" };
    told.chain(layouts.iter().map(|layout| format!("{}{of}", layout.words()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publishing::locks_or_actors::tests::invented;
    use crate::testing;

    #[test]
    fn the_figure_over_cores_and_its_sentences_come_first_where_there_is_a_file_of_them() {
        let sweep = "question='?'\nservers=['mutex']\nclients=[1, 10]\ntest_seconds=1\nwarm_up_seconds=0\nrepeats=3\n";
        let (record, _) = testing::run("grid", sweep, |_, _| 1000.0);
        let observations = testing::observations(&record, |_, _| 1000.0);
        let run = RunFolder { path: PathBuf::from("run"), record };
        let page = |cores: Option<&Answer>| render(&run, &observations, &[], cores).unwrap()["report.html"].clone();
        let without = page(None);
        assert!(!without.contains("On how many cores?") && !without.contains("data:image"), "{without}");
        let with = page(Some(&Answer::from(invented(7)).unwrap()));
        assert!(with.contains(" src=\"data:image/svg+xml,%3Csvg"), "{with}");
        let place = |what: &str| with.find(what).unwrap_or_else(|| panic!("no {what} in {with}"));
        assert!(place("<li>Use mutex when 1 core") < place("<picture>") && place("<picture>") < place("Run run."));
        let other = Answer::from(invented(3)).unwrap();
        assert_ne!(page(Some(&other)), with, "another file gives another report");
    }

    #[test]
    fn threads_and_shards_are_said_of_a_server_only_as_all_its_variants_had_them() {
        let sweep = "question='?'\nservers=['mutex']\nclients=[1]\ntest_seconds=1\nwarm_up_seconds=0\nrepeats=3\n\
            variant=[{name='t1', flags=['--threads', '1']}, {name='t2', flags=['--threads', '2']}]\n";
        let (record, mut summary) = testing::run("grid", sweep, |_, _| 1000.0);
        let told = [("engine", "mutex"), ("io_threads_active", "2"), ("shards", "1")];
        let told = told.map(|(field, value)| (field.to_owned(), value.to_owned()));
        summary.servers.insert("mutex".to_owned(), told.into());
        assert_eq!(itself(&record, &summary, "mutex"), ["engine mutex"], "the two threads are of one variant");
        for (one, threads) in summary.points.iter_mut().zip(1..) {
            one.layout = Some(Layout { threads, shards: 1 });
        }
        assert_eq!(itself(&record, &summary, "mutex"), ["engine mutex", "1 thread, 1 shard", "2 threads, 1 shard"]);
        summary.points.truncate(1);
        summary.points[0].layout = None;
        assert_eq!(itself(&record, &summary, "mutex"), ["engine mutex", "io_threads_active 2", "shards 1"]);
    }

    #[test]
    fn the_shards_of_dashmap_are_those_of_its_table() {
        let sweep = "question='?'\nservers=['dashmap']\nclients=[1]\ntest_seconds=1\nwarm_up_seconds=0\nrepeats=3\n";
        let (record, mut summary) = testing::run("grid", sweep, |_, _| 1000.0);
        let told = [("engine", "dashmap"), ("shards", "1")].map(|(field, value)| (field.to_owned(), value.to_owned()));
        summary.servers.insert("dashmap".to_owned(), told.into());
        assert_eq!(itself(&record, &summary, "dashmap"), ["engine dashmap"], "an older run did not keep them");
        summary.points[0].layout = Some(Layout { threads: 1, shards: 8 });
        assert_eq!(itself(&record, &summary, "dashmap"), ["engine dashmap", "1 thread, 8 shards of its table"]);
    }

    #[test]
    fn a_budget_has_windows_of_equal_length_only_where_they_are() {
        let page = |seconds: &str| {
            let sweep = |name: &str, seconds: &str| {
                let rest = "question='?'\nservers=['mutex']\nclients=[1]\nwarm_up_seconds=0\nrepeats=3\n";
                Sweep::parse(name, &format!("{rest}test_seconds={seconds}\n")).unwrap()
            };
            let (mut record, _) = testing::run_of(sweep("a", "1"), |_, _| 1000.0);
            record.setup.sweeps.push(sweep("b", seconds));
            windows(&record)
        };
        assert_eq!(page("1"), "short windows of equal length");
        assert_eq!(page("2.2"), "short windows, of 1 to 2.2 s");
    }

    #[test]
    fn a_run_with_fewer_repeats_than_planned_says_so_and_does_not_claim_all_of_them() {
        let sweep = "question='?'\nservers=['mutex']\nclients=[1, 10]\ntest_seconds=1\nwarm_up_seconds=0\nrepeats=3\n";
        let (mut record, _) = testing::run("grid", sweep, |_, _| 1000.0);
        record.setup.budget_minutes = Some(5.0);
        let shown = |record: RunRecord| {
            let observations = testing::observations(&record, |_, _| 1000.0);
            let run = RunFolder { path: PathBuf::from("run"), record };
            render(&run, &observations, &[], None).unwrap()["report.html"].clone()
        };
        let whole = shown(record.clone());
        assert!(whole.contains("3 repeats") && whole.contains("and all of their repeats"));
        assert!(!whole.contains("than planned"));
        record.setup.planned_repeats.insert("grid".to_owned(), 10);
        let fewer = shown(record);
        assert!(fewer.contains("3 of 10 planned repeats") && fewer.contains("fewer repeats than planned"), "{fewer}");
        assert!(!fewer.contains("all of their repeats"));
    }

    #[test]
    fn the_machine_has_its_caches_where_the_run_recorded_them() {
        let sweep = "question='?'\nservers=['mutex']\nclients=[1]\ntest_seconds=1\nwarm_up_seconds=0\nrepeats=3\n";
        let (mut record, _) = testing::run("one", sweep, |_, _| 1000.0);
        let shown = |record: &RunRecord| machine(record).into_iter().find(|(name, _)| *name == "Caches");
        record.environment.caches = vec!["L1d 32K".to_owned(), "L2 1024K".to_owned()];
        assert_eq!(shown(&record), Some(("Caches", "L1d 32K, L2 1024K".to_owned())));
        record.environment.caches.clear();
        assert_eq!(shown(&record), None);
    }

    #[test]
    fn a_factorial_sweep_is_answered_at_the_top_with_the_parts_of_the_difference() {
        let design = "question='Why?'\nservers=['mutex', 'actor']\nclients=[50]\nkey_maximum=[1000, 2000]\n\
            test_seconds=1\nwarm_up_seconds=0\nrepeats=10\nfactorial=[['actor', 'mutex']]\n\
            variant=[{name='n', flags=[], factors={prefetch='no'}},\
            {name='y', flags=[], factors={prefetch='yes'}}]\n";
        // The actor engine does 0.8 of the other, and twice as much with the factor.
        let rate = |point: &crate::plan::point::Point, _: u32| {
            1000.0 * if point.server == "actor" { 0.8 } else { 1.0 } * if point.variant == "y" { 2.0 } else { 1.0 }
        };
        let (record, _) = testing::run("why", design, rate);
        let observations = testing::observations(&record, rate);
        let run = RunFolder { path: PathBuf::from("run"), record };
        let page = render(&run, &observations, &[], None).unwrap()["report.html"].clone();
        let sentence = "<li>actor with prefetch yes does 1.60 [1.60–1.60] times the operations of mutex with prefetch \
            no: prefetch 2.00 [2.00–2.00] × the channel 0.80 [0.80–0.80]. With the same flags for both it does \
            0.80 [0.80–0.80] times as many (prefetch yes), and 0.80 [0.80–0.80] times as many (prefetch no). Means \
            over all loads.</li>";
        let place = |what: &str| page.find(what).unwrap_or_else(|| panic!("no {what} in {page}"));
        assert!(place("<h1>Why?</h1>") < place(sentence) && place(sentence) < place("Run run."));
    }

    #[test]
    fn a_sweep_without_situations_is_answered_at_the_top_with_one_figure() {
        let sweep = "question='How far?'\nservers=['mutex', 'actor']\nclients=[1, 10]\nbaseline='mutex'\n\
            test_seconds=1\nwarm_up_seconds=0\nrepeats=10\n";
        let rate = |point: &crate::plan::point::Point, _: u32| if point.server == "actor" { 2000.0 } else { 1000.0 };
        let (record, _) = testing::run("s", sweep, rate);
        let observations = testing::observations(&record, rate);
        let run = RunFolder { path: PathBuf::from("run"), record };
        let files = render(&run, &observations, &[], None).unwrap();
        let page = &files["report.html"];
        let place = |what: &str| page.find(what).unwrap_or_else(|| panic!("no {what} in {page}"));
        assert!(
            place("<h1>How far?</h1>") < place("<strong>Throughput, against mutex, in 2 comparisons: faster in all")
                && place("<strong>Throughput, against mutex") < place("Run run.")
        );
        assert!(place("<li>actor: 2.00 [2.00–2.00] at 1 client, 2.00 ") < place("Run run."));
        assert!(
            place("Throughput, as a ratio to that of mutex (1 is equal)") < place("Run run.")
                && files.contains_key("plots/first.svg")
        );
        assert!(!page.contains("A situation is a load"), "{page}");
        // Beside the figure over cores there is no other.
        let cores = Answer::from(invented(7)).unwrap();
        assert!(!render(&run, &observations, &[], Some(&cores)).unwrap().contains_key("plots/first.svg"));
    }
}
