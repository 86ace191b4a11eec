//! The lab from outside: the `experiments` binary over stand-ins for servers and generator.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use experiments::judging::summary::{Metric, Summary};
use experiments::plan::point::{Point, Trial};
use experiments::results::folder::RunFolder;
use procfs::process::Process;
use serde_json::Value;
use tempfile::TempDir;

const LAB: &str = env!("CARGO_BIN_EXE_experiments");
const STUB: &str = env!("CARGO_BIN_EXE_experiments-stub");

const SWEEP: &str = "question = 'Which is it?'\nservers = ['one', 'two']\nclients = [1, 10]\npipeline = [1, 16]\n\
    test_seconds = 1\nwarm_up_seconds = 0\nrepeats = 3\nretries = 0\nkey_maximum = 7\n";

/// A folder with a sweep, in which the lab is run.
struct Lab {
    folder: TempDir,
}

impl Lab {
    fn new(sweep: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("grid.toml"), sweep).unwrap();
        Self { folder }
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    /// `experiments run` over the stub as servers `one` and `two`, and as generator.
    fn command(&self) -> Command {
        let mut command = self.command_without_servers();
        for name in ["one", "two"] {
            command.args(["--server", &format!("{name}={STUB} serve --port {{port}} --dir {{dir}}")]);
        }
        command
    }

    fn command_without_servers(&self) -> Command {
        let mut command = Command::new(LAB);
        command.current_dir(self.folder.path()).env("TMPDIR", self.folder.path()).env_remove("EXPERIMENTS_SERVERS");
        command.args(["run", "--sweeps", "grid.toml", "--out", "out", "--seed", "11", "--loadgen", STUB]);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }

    fn finish(&self) -> Output {
        self.command().output().unwrap()
    }

    /// Servers and generators have a path below the lab's folder on their command lines.
    fn assert_no_process_is_left(&self) {
        let folder = self.folder.path().to_str().unwrap();
        let of_this_lab =
            |process: &Process| process.cmdline().is_ok_and(|words| words.iter().any(|word| word.contains(folder)));
        let end = Instant::now() + Duration::from_secs(5);
        while procfs::process::all_processes().unwrap().flatten().any(|process| of_this_lab(&process)) {
            assert!(Instant::now() < end, "a process of the lab in {folder} outlived it");
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn summary(&self) -> Summary {
        let run = self.run_folder();
        Summary::of(&run.record, &run.observations().unwrap()).unwrap()
    }

    /// Another command of the lab, run in its folder.
    fn also(&self, words: &[&str]) -> Output {
        Command::new(LAB).current_dir(self.folder.path()).args(words).output().unwrap()
    }

    fn run_folder(&self) -> RunFolder {
        RunFolder::open(&self.out()).unwrap()
    }

    /// Starts a run and returns once at least `count` trials are done.
    fn start_until(&self, count: usize) -> Child {
        self.start_with(self.command(), count)
    }

    /// The same of another command line.
    fn start_with(&self, mut command: Command, count: usize) -> Child {
        let child = command.spawn().unwrap();
        let end = Instant::now() + Duration::from_secs(30);
        while done(&self.out()).len() < count {
            assert!(Instant::now() < end, "{count} trials took too long");
            thread::sleep(Duration::from_millis(5));
        }
        child
    }
}

/// Paths of all trial records below `out`.
fn done(out: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let Ok(sweeps) = fs::read_dir(out.join("raw/grid")) else {
        return found;
    };
    for point in sweeps.map(|entry| entry.unwrap().path()) {
        let files = fs::read_dir(point).unwrap().map(|entry| entry.unwrap().path());
        found.extend(files.filter(|path| path.file_name().unwrap().len() == "r01.json".len()));
    }
    found
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_run_measures_every_point_in_every_round_in_the_recorded_order() {
    let lab = Lab::new(SWEEP);
    let output = lab.finish();
    assert!(output.status.success(), "{}", text(&output));
    let run = lab.run_folder();
    assert_eq!((run.record.order.len(), run.missing().len(), run.record.seed), (24, 0, 11));
    assert_eq!(done(&lab.out()).len(), 24);
    let lines: Vec<String> = text(&output).lines().filter(|line| line.starts_with('[')).map(str::to_owned).collect();
    assert_eq!(lines.len(), 24);
    for (line, trial) in lines.iter().zip(&run.record.order) {
        let expected = format!("{} round {}:", trial.point.label(), trial.round);
        assert!(line.contains(&expected), "{line} is not {expected}");
    }
    assert!(run.stem(&run.record.order[0]).with_file_name("r01-a1.hlog").exists());
}

#[test]
fn figures_in_summary_and_report_equal_the_raw_ones() {
    let lab = Lab::new(SWEEP);
    assert!(lab.finish().status.success());
    let summary = lab.summary();
    let written: Summary = serde_json::from_str(&fs::read_to_string(lab.out().join("summary.json")).unwrap()).unwrap();
    assert_eq!(written.points.len(), summary.points.len());
    let html = fs::read_to_string(lab.out().join("report.html")).unwrap();
    let raw = fs::read_to_string(lab.out().join("trials.jsonl")).unwrap();
    let rate_of =
        |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["ops_per_sec"].as_f64().unwrap();
    assert_eq!(summary.points.len(), 8);
    assert!(
        html.contains("Where the time goes: pipeline 16") && html.contains("data-value=\"1.5\">1.50<small>p99 2.50<")
    );
    for one in &summary.points {
        let rates = &one.figures[&Metric::OpsPerSec];
        assert_eq!((rates.n, &rates.values), (3, &raw_rates(&lab.run_folder(), &one.point)));
        assert_eq!(rates.median, f64::from(1000 * one.point.clients + one.point.pipeline) + 0.5);
        assert_eq!(one.figures[&Metric::P50Us].median, f64::from(one.point.clients) + 0.25);
        assert_eq!(one.figures[&Metric::P99Us].median, f64::from(one.point.pipeline) + 10.75);
        assert_eq!((one.hit_ratio, one.errors), (Some(0.9), 0));
        let is_shown = |metric: &Metric| !matches!(metric, Metric::JainIndex | Metric::SlowestConnection);
        for (_, estimate) in one.figures.iter().filter(|(metric, _)| is_shown(metric)) {
            assert!(html.contains(&format!("data-value=\"{}\"", estimate.median)), "{}", estimate.median);
        }
        // The lines that a point is said to be made of hold its runs.
        let mut of_lines: Vec<f64> =
            one.lines.iter().map(|&line| rate_of(raw.lines().nth(line - 1).unwrap())).collect();
        let mut rates = rates.values.clone();
        of_lines.sort_by(f64::total_cmp);
        rates.sort_by(f64::total_cmp);
        assert_eq!(of_lines, rates);
    }
    assert_eq!(summary.servers["one"]["mem_allocator"], "nothing");
    assert!(!html.contains("<script") && !html.contains("http://cdn") && !html.contains("https://"));
}

/// What the generator's files say, read without the lab.
fn raw_rates(run: &RunFolder, point: &Point) -> Vec<f64> {
    let read = |path: &Path| -> Value { serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap() };
    let rate = |round: u32| {
        let record = run.stem(&Trial { round, point: point.clone() }).with_extension("json");
        let attempt = &read(&record)["attempts"][0];
        read(&record.with_file_name(attempt["loadgen_file"].as_str().unwrap()))["totals"]["ops_per_sec"]
            .as_f64()
            .unwrap()
    };
    (1..=3).map(rate).collect()
}

#[test]
fn a_flag_of_the_generator_is_an_axis_and_a_variant_a_line() {
    let lab =
        Lab::new(&SWEEP.replace("[1, 10]", "[1]").replace("[1, 16]", "[1]").replace("repeats = 3", "repeats = 1"));
    let more = "x = 'cross-shard'\nloadgen = { cross-shard = [0, 50, 100], keys-per-command = [2, 8] }\n\
        [[variant]]\nname = 'fast'\nservers = ['one']\nflags = ['--fast']\n\
        [[variant]]\nname = 'safe'\nservers = ['one']\nflags = ['--safe']\n\
        [[variant]]\nname = 'plain'\nflags = []\n";
    let file = lab.folder.path().join("grid.toml");
    fs::write(&file, fs::read_to_string(&file).unwrap() + more).unwrap();
    let output = lab.finish();
    assert!(output.status.success(), "{}", text(&output));
    let run = lab.run_folder();
    let summary = lab.summary();
    assert_eq!(run.missing().len(), 0);
    assert_eq!((summary.points.len(), summary.trials_done), (18, 18));
    for one in &summary.points {
        let share: f64 = one.point.loadgen["cross-shard"].as_str().parse().unwrap();
        assert_eq!(one.figures[&Metric::OpsPerSec].median, 1001.5 + 10.0 * share);
    }
    let html = fs::read_to_string(lab.out().join("report.html")).unwrap();
    for expected in
        ["<h3>--keys-per-command 2</h3>", "<h3>--keys-per-command 8</h3>", "</svg>one safe<", "<th>--cross-shard</th>"]
    {
        assert!(html.contains(expected), "{expected}");
    }
    assert!(!html.contains("</svg>two plain<"), "a server with one variant is a line by its name");
    let csv = fs::read_to_string(lab.out().join("summary.csv")).unwrap();
    assert!(csv.contains(",\"--cross-shard 50 --keys-per-command 8\",1,1501.500,"), "{csv}");
}

#[test]
fn a_variant_gives_its_server_an_environment() {
    let sweep = SWEEP.replace("[1, 10]", "[1]").replace("[1, 16]", "[1]").replace("repeats = 3", "repeats = 1");
    let variants = "variant = [{ name = 'plain', flags = [] }, \
        { name = 'told', flags = [], environment = { STUB_WORD = 'aloha' } }]\n";
    let lab = Lab::new(&(sweep + variants));
    let output = lab.finish();
    assert!(output.status.success(), "{}", text(&output));
    let run = lab.run_folder();
    for trial in &run.record.order {
        let log = fs::read_to_string(run.stem(trial).with_file_name("r01-a1.server.log")).unwrap();
        assert_eq!(log.contains("its environment says aloha"), trial.point.variant == "told", "{log}");
    }
    let html = fs::read_to_string(lab.out().join("report.html")).unwrap();
    assert!(html.contains("Variant told: <code>STUB_WORD=aloha</code>"));
}

#[test]
fn a_factorial_run_says_its_effects_at_its_end() {
    let variants = "factorial = [['two', 'one']]\nvariant = [\
        { name = 'command', flags = [], factors = { batching = 'command' } },\
        { name = 'read', flags = [], factors = { batching = 'read' } }]\n";
    let lab = Lab::new(&(SWEEP.replace("[1, 10]", "[1]").replace("repeats = 3", "repeats = 1") + variants));
    let said = text(&lab.finish());
    for expected in [
        "throughput, two with batching read by one with batching command:",
        "  server × batching  two × read  1.00 [1.00–1.00]",
        "  pipeline  16  1.01 ",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
}

#[test]
fn how_evenly_connections_are_served_is_kept_and_judged_where_it_is_asked() {
    let asked =
        Lab::new(&(SWEEP.replace("[1, 10]", "[10]").replace("repeats = 3", "repeats = 2") + "fairness = true\n"));
    assert!(asked.finish().status.success());
    for one in &asked.summary().points {
        let of = |metric: Metric| one.figures[&metric].median;
        let slowest = 1.5 + f64::from(one.point.pipeline) - 1.0;
        assert_eq!((of(Metric::JainIndex), of(Metric::SlowestConnection)), (0.75, slowest));
    }
    let html = fs::read_to_string(asked.out().join("report.html")).unwrap();
    assert!(html.contains("data-value=\"16.5\">16.50<") && html.contains("slowest connection: "), "{html}");
    assert!(asked.out().join("plots/grid-1-slowest_connection.svg").exists());
    let document = asked.folder.path().join("fair.md");
    let query =
        "<!--lab run out-->?<!--/lab--> <!--lab figure grid slowest_connection server=one pipeline=16-->?<!--/lab-->";
    fs::write(&document, query).unwrap();
    assert!(asked.also(&["fill", "fair.md"]).status.success());
    // The stand-in has none of the keys that it is asked for.
    assert!(fs::read_to_string(&document).unwrap().contains("-->16.50✗<!--/lab-->"));

    let other = Lab::new(&SWEEP.replace("[1, 10]", "[10]").replace("repeats = 3", "repeats = 1"));
    assert!(other.finish().status.success());
    assert!(other.summary().points.iter().all(|one| one.figures.contains_key(&Metric::JainIndex)));
    assert!(!fs::read_to_string(other.out().join("report.html")).unwrap().contains("slowest connection"));
}

#[test]
fn a_killed_run_is_resumed_to_the_same_set_of_points() {
    let whole = Lab::new(SWEEP);
    assert!(whole.finish().status.success());

    let lab = Lab::new(SWEEP);
    let mut child = lab.start_until(5);
    child.kill().unwrap();
    child.wait().unwrap();
    lab.assert_no_process_is_left();
    let order = lab.run_folder().record.order.clone();
    let before = done(&lab.out());
    let times: Vec<_> = before.iter().map(|path| fs::metadata(path).unwrap().modified().unwrap()).collect();
    assert!((5..24).contains(&before.len()));

    let output = lab.finish();
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("resumed: "), "{}", text(&output));
    let run = lab.run_folder();
    assert_eq!((run.record.order == order, run.record.resumed, run.missing().len()), (true, 1, 0));
    let names = |lab: &Lab| -> BTreeSet<PathBuf> {
        done(&lab.out()).iter().map(|path| path.strip_prefix(lab.out()).unwrap().to_owned()).collect()
    };
    assert_eq!(names(&lab), names(&whole));
    let times_after: Vec<_> = before.iter().map(|path| fs::metadata(path).unwrap().modified().unwrap()).collect();
    assert_eq!(times, times_after, "a trial that was done is not measured again");
}

#[test]
fn a_run_that_is_continued_can_end_after_fewer_rounds_and_a_finished_one_stays() {
    let lab = Lab::new(SWEEP);
    let mut child = lab.start_until(5);
    child.kill().unwrap();
    child.wait().unwrap();
    let order = lab.run_folder().record.order.clone();
    let ended = |rounds: &str| lab.command().args(["--rounds", rounds]).output().unwrap();
    let output = ended("2");
    assert!(output.status.success(), "{}", text(&output));
    let run = lab.run_folder();
    assert_eq!((run.record.order[..] == order[..16], run.missing().len()), (true, 0));
    let planned: Vec<u32> = run.record.setup.planned_repeats.values().copied().collect();
    assert_eq!(planned, [order.last().unwrap().round], "run.json says how many rounds there were to be");
    assert_eq!(run.observations().unwrap().trials.len(), 16);
    let output = ended("1");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("no round is left out of it afterwards"), "{}", text(&output));
}

#[test]
fn a_program_that_is_replaced_while_a_run_is_measuring_ends_it_and_is_named() {
    let lab = Lab::new(SWEEP);
    let server = lab.folder.path().join("server");
    fs::copy(STUB, &server).unwrap();
    let mut command = lab.command_without_servers();
    for (name, path) in [("one", server.to_str().unwrap()), ("two", STUB)] {
        command.args(["--server", &format!("{name}={path} serve --port {{port}} --dir {{dir}}")]);
    }
    let child = lab.start_with(command, 2);
    let other = lab.folder.path().join("other");
    fs::write(&other, [fs::read(STUB).unwrap(), vec![0]].concat()).unwrap();
    fs::set_permissions(&other, fs::metadata(STUB).unwrap().permissions()).unwrap();
    fs::rename(&other, &server).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let expected = format!("the program {} was replaced while the run was measuring", server.display());
    assert!(text(&output).contains(&expected), "{}", text(&output));
    assert!(done(&lab.out()).len() < 24);
}

#[test]
fn a_second_lab_in_the_folder_of_a_run_is_refused_and_the_first_goes_on() {
    let lab = Lab::new(SWEEP);
    let first = lab.start_until(2);
    let output = lab.finish();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("another lab measures in out: wait for its end"), "{}", text(&output));
    let output = first.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!((lab.run_folder().record.resumed, lab.run_folder().missing().len()), (0, 0));
}

#[test]
fn a_server_that_does_not_say_its_version_is_measured_without_and_nothing_of_it_is_left() {
    let lab = Lab::new(&SWEEP.replace("'one', 'two'", "'one'").replace("repeats = 3", "repeats = 1"));
    let server = lab.folder.path().join("slow");
    let waits = format!("[ $1 != --version ] || sh -c 'sleep 600; true' {}", server.display());
    fs::write(&server, format!("#!/bin/sh\n{waits}\nexec {STUB} \"$@\"\n")).unwrap();
    fs::set_permissions(&server, fs::metadata(STUB).unwrap().permissions()).unwrap();
    let mut command = lab.command_without_servers();
    let output =
        command.args(["--server", &format!("one={} serve --port {{port}}", server.display())]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("slow --version did not end within 5s"), "{}", text(&output));
    assert_eq!(lab.run_folder().record.setup.servers[0].program.version, None);
    lab.assert_no_process_is_left();
}

#[test]
fn ctrl_c_ends_the_run_its_server_and_says_how_to_go_on() {
    let lab = Lab::new(SWEEP);
    let child = lab.start_until(2);
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    assert!(text(&output).contains("of 24 trials; the same command"), "{}", text(&output));
    lab.assert_no_process_is_left();
    let output = lab.finish();
    assert!(output.status.success(), "{}", text(&output));
}

#[test]
fn an_absent_peer_is_said_in_the_output_and_in_the_report() {
    let lab =
        Lab::new(&SWEEP.replace("['one', 'two']", "['one', 'valkey-server']").replace("repeats = 3", "repeats = 1"));
    let output = lab.command().env("PATH", "/nowhere").output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("ABSENT: valkey-server: valkey-server is not on PATH"), "{}", text(&output));
    let html = fs::read_to_string(lab.out().join("report.html")).unwrap();
    assert!(html.contains("<strong>valkey-server is absent:</strong>"));
}

#[test]
fn a_variant_for_an_absent_peer_is_left_out_and_named_within_a_budget_too() {
    let sweep = SWEEP.replace("['one', 'two']", "['one', 'valkey-server']").replace("repeats = 3", "repeats = 1");
    let variants = "baseline = 'valkey-server'\n\
        variant = [{ name = 'plain', flags = [], servers = ['one'] }, \
        { name = 'io2', flags = ['--io-threads', '2'], servers = ['valkey-server'] }]\n\
        [short]\nservers = ['one', 'valkey-server']\nclients = [10]\n";
    let lab = Lab::new(&(sweep + variants));
    let output = lab.command().env("PATH", "/nowhere").args(["--budget", "0.2"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("SKIPPED: the variant io2 of grid"), "{}", text(&output));
    assert!(text(&output).contains("valkey-server, its baseline, is absent"), "{}", text(&output));
    assert!(lab.summary().points.iter().all(|one| one.point.server == "one" && one.point.variant == "plain"));
}

#[test]
fn rates_of_an_open_loop_are_shares_of_the_capacity_that_was_measured() {
    let sweep = SWEEP.replace("repeats = 3", "repeats = 1").replace("[1, 10]", "[1]").replace("[1, 16]", "[1]");
    let lab = Lab::new(&(sweep + "rate_percent = [50, 100]\nx = 'rate-limiting'\n"));
    let output = lab.finish();
    assert!(output.status.success(), "{}", text(&output));
    assert!(
        text(&output).contains("capacity: ") && text(&output).contains("of the slowest server in grid"),
        "{}",
        text(&output)
    );
    let rates = lab.run_folder().record.setup.sweeps[0].loadgen["rate-limiting"].clone();
    let rates: Vec<f64> = rates.iter().map(|rate| rate.as_str().parse().unwrap()).collect();
    assert!(rates[1] > 500.0 && (rates[1] / rates[0] - 2.0).abs() < 0.02, "{rates:?}");
    assert!(lab.finish().status.success(), "a run goes on with the rates that it has");
}

#[test]
fn an_open_loop_keeps_how_late_the_generator_was_and_shows_it_beside_the_latency() {
    let sweep = SWEEP.replace("[1, 10]", "[1]").replace("[1, 16]", "[1]");
    let shown = |sweep: &str| {
        let lab = Lab::new(sweep);
        let output = lab.finish();
        assert!(output.status.success(), "{}", text(&output));
        let kept: Vec<_> = lab.run_folder().observations().unwrap().trials.iter().map(|one| one.lag_p99_us).collect();
        assert!(kept.windows(2).all(|pair| pair[0] == pair[1]), "{kept:?}");
        let html = fs::read_to_string(lab.out().join("report.html")).unwrap();
        (kept[0], html.contains("generator's lag p99 µs") || html.contains("generator&#39;s lag p99 µs"))
    };
    assert_eq!(shown(&(sweep.clone() + "loadgen = { rate-limiting = [100] }\n")), (Some(4.5), true));
    assert_eq!(shown(&sweep), (None, false), "a closed loop has no schedule");
}

#[test]
fn requests_that_were_due_and_never_sent_are_kept_and_nothing_follows_from_their_trials() {
    let sweep =
        SWEEP.replace("[1, 10]", "[1]").replace("[1, 16]", "[1]") + "loadgen = { rate-limiting = [100, 5000] }\n";
    let lab = Lab::new(&sweep);
    let output = lab.finish();
    assert!(output.status.success(), "{}", text(&output));
    for one in lab.run_folder().observations().unwrap().trials {
        assert_eq!(one.unsent, if one.trial.contains("5000") { 400 } else { 0 }, "{one:?}");
    }
    for one in lab.summary().points {
        let is_beyond = one.point.loadgen["rate-limiting"].as_str() == "5000";
        assert_eq!(one.unsent, if is_beyond { 3 } else { 0 });
    }
    let html = fs::read_to_string(lab.out().join("report.html")).unwrap();
    assert!(html.contains("3 with requests that were never sent"));
}

#[test]
fn a_server_that_fails_to_start_is_named_with_the_tail_of_its_log() {
    refuses("--crash-at-start", "FATAL: the stub was told to crash at start");
}

#[test]
fn a_server_that_cannot_start_is_told_before_anything_is_measured() {
    let variants = "variant = [{ name = 'plain', flags = [] }, \
        { name = 'late', flags = ['--crash-at-start'], servers = ['two'] }]\n";
    for rates in ["", "rate_percent = [50]\nx = 'rate-limiting'\n"] {
        let lab = Lab::new(&(SWEEP.to_owned() + rates + variants));
        let output = lab.finish();
        assert_eq!(output.status.code(), Some(1), "{}", text(&output));
        for expected in [
            "nothing was measured, as two does not start: ",
            " serve --port {port} --dir {dir} --crash-at-start: the server two on 127.0.0.1:",
            "FATAL: the stub was told to crash at start",
        ] {
            assert!(text(&output).contains(expected), "{expected}: {}", text(&output));
        }
        assert!(!lab.out().exists(), "{}", text(&output));
        lab.assert_no_process_is_left();
    }
}

/// `experiments list | true`, and the same on a full disk.
#[test]
fn output_that_nobody_reads_ends_no_work_and_what_cannot_be_written_is_an_error() {
    let lab = Lab::new(&SWEEP.replace("repeats = 3", "repeats = 1"));
    let into =
        |command: &mut Command, stdout: Stdio, stderr: Stdio| command.stdout(stdout).stderr(stderr).output().unwrap();
    let unread = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        writer
    };
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    let run = into(&mut lab.command(), unread().into(), unread().into());
    assert!(run.status.success() && lab.run_folder().missing().is_empty(), "{run:?}");
    let also = |words: &[&str]| {
        let mut command = Command::new(LAB);
        command.current_dir(lab.folder.path()).args(words);
        command
    };
    fs::remove_file(lab.out().join("report.html")).unwrap();
    for words in [&["list", "--sweeps", "."][..], &["report", "out", "out"]] {
        let output = into(&mut also(words), unread().into(), Stdio::piped());
        assert!(output.status.success() && output.stderr.is_empty(), "{words:?}: {output:?}");
        let output = into(&mut also(words), full().into(), Stdio::piped());
        assert_eq!(output.status.code(), Some(1), "{words:?}: {output:?}");
        assert!(text(&output).contains("cannot write to the standard output: No space left"), "{output:?}");
    }
    assert!(lab.out().join("report.html").exists());
}

#[test]
fn a_server_that_dies_in_the_window_is_named_with_the_tail_of_its_log() {
    refuses("--crash-after-ms 130", "FATAL: the stub was told to crash later");
}

fn refuses(flags: &str, complaint: &str) {
    let lab = Lab::new(&SWEEP.replace("'one', 'two'", "'bad'").replace("test_seconds = 1", "test_seconds = 20"));
    let output = Command::new(LAB)
        .current_dir(lab.folder.path())
        .args(["run", "--sweeps", "grid.toml", "--out", "out", "--loadgen", STUB])
        .args(["--server", &format!("bad={STUB} serve --port {{port}} {flags}")])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(
        text(&output).contains("the server bad on 127.0.0.1:") && text(&output).contains(complaint),
        "{}",
        text(&output)
    );
    assert!(done(&lab.out()).is_empty());
}

#[test]
fn a_trial_under_foreign_load_is_repeated_twice_and_marked() {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop()
                }
            });
        }
        let sweep = SWEEP.replace("retries = 0", "retries = 2").replace("repeats = 3", "repeats = 1");
        let lab =
            Lab::new(&sweep.replace("[1, 10]", "[1]").replace("[1, 16]", "[1]").replace("seconds = 1", "seconds = 5"));
        let output = lab.finish();
        stop.store(true, Ordering::Relaxed);
        assert!(output.status.success(), "{}", text(&output));
        assert!(text(&output).contains("DISTURBED: others used"), "{}", text(&output));
        for record in lab.run_folder().trials().unwrap() {
            let loads: Vec<f64> = record.attempts.iter().map(|one| one.usage.foreign_cores).collect();
            assert_eq!(loads.len(), 3);
            assert!(loads.iter().all(|load| *load >= loads[record.chosen]), "{loads:?}");
        }
        let html = fs::read_to_string(lab.out().join("report.html")).unwrap();
        assert!(html.contains("In 2 of 2 trials something else used more"));
    });
}

#[test]
fn a_prefill_that_did_not_arrive_is_an_error() {
    let lab = Lab::new(&SWEEP.replace("key_maximum = 7", "key_maximum = 8"));
    let output = lab.finish();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("tells of 7 keys after a prefill of 8"), "{}", text(&output));
}

#[test]
fn a_run_is_not_continued_with_other_servers_another_sweep_or_another_seed() {
    let lab = Lab::new(&SWEEP.replace("repeats = 3", "repeats = 1"));
    assert!(lab.finish().status.success());
    let mut other_flags = lab.command();
    other_flags.args(["--server", &format!("three={STUB} serve --port {{port}}")]);
    let output = other_flags.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("cannot be continued"), "{}", text(&output));
    fs::write(lab.folder.path().join("grid.toml"), SWEEP).unwrap();
    assert!(text(&lab.finish()).contains("its sweeps or their servers are others"));
}

#[test]
fn a_report_is_rebuilt_from_the_extract_alone_and_refused_without_any_data() {
    let lab = Lab::new(&SWEEP.replace("repeats = 3", "repeats = 1"));
    assert!(lab.finish().status.success());
    let report = lab.out().join("report.html");
    let first = fs::read_to_string(&report).unwrap();
    fs::remove_dir_all(lab.out().join("raw")).unwrap();
    fs::remove_dir_all(lab.out().join("plots")).unwrap();
    fs::remove_file(&report).unwrap();
    assert!(lab.also(&["report", "out"]).status.success());
    assert_eq!(fs::read_to_string(&report).unwrap(), first);
    assert!(lab.finish().status.success(), "a finished run is not measured again");
    fs::remove_file(lab.out().join("trials.jsonl")).unwrap();
    let output = lab.also(&["report", "out"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("there is nothing to report"), "{}", text(&output));
}

#[test]
fn the_kit_says_how_it_is_used_from_any_folder() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let kit = |words: &[&str]| Command::new("sh").current_dir(root).arg("kit/run").args(words).output().unwrap();
    let help = kit(&["--help"]);
    assert!(help.status.success(), "{}", text(&help));
    assert!(String::from_utf8_lossy(&help.stdout).starts_with("usage: run [--minutes N]"), "{}", text(&help));
    for (words, reason) in [
        (&["--minutes"][..], "run: --minutes needs a value"),
        (&["--minutes", "5", "--out"], "run: --out needs a value"),
        (&["--minute", "5"], "run: there is no flag --minute"),
        (&["--minutes", "few"], "run: --minutes is a whole number, not 'few'"),
    ] {
        let output = kit(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", text(&output));
        assert!(text(&output).contains(reason), "{words:?}: {}", text(&output));
    }
}

/// The choice for cores with these numbers, of a machine of whose cores `siblings` names the threads.
fn chosen(wanted: &str, allowed: &[u32], siblings: impl Fn(u32) -> String) -> String {
    let topology = tempfile::tempdir().unwrap();
    for cpu in allowed {
        let folder = topology.path().join(format!("cpu{cpu}/topology"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("thread_siblings_list"), siblings(*cpu)).unwrap();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("kit/cores");
    let mut child = Command::new("sh");
    let child = child.arg(script).arg(wanted).arg(topology.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = child.spawn().unwrap();
    let lines: String = allowed.iter().map(|cpu| format!("{cpu}\n")).collect();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().replace('\n', ", ")
}

#[test]
fn the_generator_of_the_kit_shares_no_physical_core_with_the_servers() {
    let all: Vec<u32> = (0..8).collect();
    let far = |cpu: u32| format!("{},{}\n", cpu % 4, cpu % 4 + 4);
    let near = |cpu: u32| format!("{}-{}\n", cpu / 2 * 2, cpu / 2 * 2 + 1);
    assert_eq!(chosen("2", &all, far), "generator 3,7, server 0,1,2,4,5,6");
    assert_eq!(chosen("1", &all, far), "generator 3,7, server 0,1,2,4,5,6");
    assert_eq!(chosen("3", &all, near), "generator 4,5,6,7, server 0,1,2,3");
    assert_eq!(chosen("2", &all, |cpu| cpu.to_string()), "generator 6,7, server 0,1,2,3,4,5");
    assert_eq!(chosen("1", &[1, 2, 5], far), "generator 2, server 1,5");
    assert_eq!(chosen("1", &[0, 4], far), "generator 4, server 0", "there is one core");
}

/// Replaces the first of `from` in the file at `path`.
fn edit(path: &Path, from: &str, to: &str) {
    let before = fs::read_to_string(path).unwrap();
    assert!(before.contains(from), "{} does not say {from:?}", path.display());
    fs::write(path, before.replacen(from, to, 1)).unwrap();
}

#[test]
fn editing_one_digit_anywhere_fails_the_check() {
    let lab = Lab::new(&SWEEP.replace("test_seconds = 1", "test_seconds = 0.1"));
    assert!(lab.command().env("STUB_WHOLE_WINDOWS", "1").output().unwrap().status.success());
    let document = lab.folder.path().join("results.md");
    let queries = "We saw <!--lab run none-->?<!--/lab-->:\n\
        <!--lab figure grid ops_per_sec server=one clients=10 pipeline=16-->?<!--/lab--> per second, \
        <!--lab ratio grid ops_per_sec pipeline=1 server=two of clients=10 to clients=1-->?<!--/lab--> times,\n\
        <!--lab sweep grid p99_us-->?<!--/lab-->\n<!--lab verdicts grid ops_per_sec-->?<!--/lab-->\n\
        <!--lab crossings-->?<!--/lab--><!--lab scaling-->?<!--/lab--><!--lab noise-->?<!--/lab-->\n\
        <!--lab claims-->?<!--/lab--><!--lab machine-->?<!--/lab-->\n";
    fs::write(&document, queries).unwrap();
    let output = lab.also(&["fill", "results.md", "--run", "out"]);
    assert!(output.status.success(), "{}", text(&output));
    let filled = fs::read_to_string(&document).unwrap();
    assert!(filled.contains("-->10,016✗<!--/lab--> per second"), "{filled}");
    assert!(filled.contains("-->9.99 [9.99–9.99]✗<!--/lab--> times"), "{filled}");
    assert!(lab.also(&["seal", "results.md", "--commit", "58641ee"]).status.success());

    let verify = || lab.also(&["verify", "results.md", "--results", "."]);
    let output = verify();
    assert!(output.status.success(), "{}", text(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 runs and 10 queries"));
    for (file, from, to) in [
        ("results.md", "10,016", "10,017"),
        ("results.md", "9.99 [9.99", "9.98 [9.99"),
        ("results.md", "| 10 | 11.8", "| 10 | 11.9"),
        ("out/report.html", "data-value=\"10016.5\"", "data-value=\"10017.5\""),
        ("out/report.html", ">10,016<", ">10,018<"),
        ("out/summary.csv", "10016.500", "10016.501"),
        ("out/summary.json", "10016.5", "10016.6"),
        ("out/plots/grid-1-ops_per_sec.svg", "cx=\"", "cx=\"1"),
        ("out/trials.jsonl", "10016.5", "10017.5"),
    ] {
        let path = lab.folder.path().join(file);
        let whole = fs::read_to_string(&path).unwrap();
        edit(&path, from, to);
        let edited = fs::read_to_string(&path).unwrap();
        let output = verify();
        assert_eq!(output.status.code(), Some(1), "{file}: {from} became {to}");
        assert!(fs::read_to_string(&path).unwrap() == edited, "{file}: a look changes nothing");
        assert!(text(&output).contains(file.trim_start_matches("out/")), "{}", text(&output));
        fs::write(&path, whole).unwrap();
    }
    assert!(verify().status.success());
    // In a clone there is no raw/, and nothing that `report` makes but the report: the extract is what figures are held
    // against.
    fs::remove_dir_all(lab.out().join("raw")).unwrap();
    fs::remove_dir_all(lab.out().join("plots")).unwrap();
    fs::remove_file(lab.out().join("summary.json")).unwrap();
    fs::remove_file(lab.out().join("summary.csv")).unwrap();
    assert!(verify().status.success());
}

/// A copy of what `verify` reads of this project.
fn copy_of_the_project() -> TempDir {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let copy = tempfile::tempdir().unwrap();
    for name in ["README.md", "docs", "actors/README.md", "loadgen/README.md", "experiments"] {
        let to = copy.path().join(name);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        let output = Command::new("cp").arg("-r").arg(root.join(name)).arg(&to).output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
    }
    copy
}

/// Changes the last digit of the first decimal of a file that stands outside of comments and code to type.
fn change_a_digit(path: &Path) {
    let whole = fs::read_to_string(path).unwrap();
    let mut lines: Vec<String> = whole.lines().map(str::to_owned).collect();
    let mut in_code = false;
    for line in &mut lines {
        in_code ^= line.starts_with("```");
        let bytes = line.as_bytes().to_vec();
        let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
        // No part of a version.
        let decimal = |at: usize| {
            let before = (0..at).rev().find(|&before| !is_digit(before));
            let after = (at + 2..bytes.len()).find(|&after| !is_digit(after));
            let is_point = |at: Option<usize>| at.is_some_and(|at| bytes[at] == b'.' && is_digit(at + 1));
            is_digit(at) && bytes[at + 1] == b'.' && is_digit(at + 2) && !is_point(before) && !is_point(after)
        };
        if in_code || line.contains("<!--") {
            continue;
        }
        if let Some(at) = (0..line.len().saturating_sub(2)).find(|&at| decimal(at)) {
            let digit = bytes[at + 2] - b'0';
            line.replace_range(at + 2..at + 3, &((digit + 1) % 10).to_string());
            fs::write(path, lines.join("\n") + "\n").unwrap();
            return;
        }
    }
    panic!("{} has no decimal", path.display());
}

/// Makes the first p99 of raw data a tenth larger, which other figures of the trial allow.
fn change_a_percentile(path: &Path) {
    let whole = fs::read_to_string(path).unwrap();
    let (before, after) = whole.split_once("\"p99_us\":").unwrap();
    let (p99, after) = after.split_once(',').unwrap();
    let changed = 1.1 * p99.parse::<f64>().unwrap();
    fs::write(path, format!("{before}\"p99_us\":{changed},{after}")).unwrap();
}

/// Multiplies a number in all repeats of a point.
fn change_all_repeats(path: &Path, point: &str, field: &str, factor: f64) {
    let mut changed = 0;
    let line = |line: &str| {
        if !line.contains(&format!("\"{point}/r")) {
            return line.to_owned();
        }
        changed += 1;
        let mut one: Value = serde_json::from_str(line).unwrap();
        one[field] = (one[field].as_f64().unwrap() * factor).into();
        one.to_string()
    };
    let lines: Vec<String> = fs::read_to_string(path).unwrap().lines().map(line).collect();
    assert!(changed >= 10, "{point} has {changed} repeats");
    fs::write(path, lines.join("\n") + "\n").unwrap();
}

/// Each of these went unnoticed before.
#[test]
fn verify_catches_every_cheat_that_is_known() {
    let copy = copy_of_the_project();
    let file = |name: &str| copy.path().join(name);
    let full = "experiments/results/full-20261126";
    // What is to be said of each cheat: two words of one line.
    let mut expected: Vec<(String, &str)> = Vec::new();

    // A digit of a raw file, which its table in a document would follow.
    edit(&file("docs/results/side-by-side.txt"), "1.69 [1.36-1.81]", "1.70 [1.36-1.81]");
    expected.push(("docs/results/side-by-side.md: docs/results/side-by-side.txt has the digest".to_owned(), ""));
    // The same where the link has a title.
    edit(&file("docs/results/log.md"), "(reads.txt)", "(reads.txt \"raw\")");
    let reads = file("docs/results/reads.txt");
    fs::write(&reads, fs::read_to_string(&reads).unwrap().replace('1', "7")).unwrap();
    expected.push(("docs/results/log.md: docs/results/reads.txt has the digest".to_owned(), ""));
    // A ratio that its own row contradicts.
    edit(&file("docs/results/single-key-cost.txt"), "1.04 [0.89-1.23]", "1.34 [0.89-1.23]");
    expected.push(("docs/results/single-key-cost.txt, line 3".to_owned(), "throughput 1.34"));

    // Any digit of any document.
    for name in [
        "docs/results/families.md",
        "docs/results/generator-cost.md",
        "docs/results/large-commands.md",
        "docs/results/log.md",
        "docs/results/recovery.md",
        "docs/results/rewrite.md",
        "docs/results/side-by-side.md",
        "docs/adr/0017-alignment.md",
        "docs/adr/0019-spinning.md",
        "loadgen/README.md",
        "experiments/README.md",
    ] {
        change_a_digit(&file(name));
        expected.push((format!("{name}, section"), "are not those that were sealed"));
    }
    // A reading of memory, and a digit of the table that is computed from the readings.
    edit(&file("docs/results/memory.txt"), "memory actor 1000000 1", "memory actor 1000000 2");
    expected.push(("docs/results/memory.md: docs/results/memory.txt has the digest".to_owned(), ""));
    change_a_digit(&file("docs/results/memory.md"));
    expected.push(("docs/results/memory.md, line".to_owned(), "raw data give"));

    // Figures in words.
    for (name, figure) in
        [("docs/ARCHITECTURE.md", "five times"), ("docs/durability.md", "~5x"), ("actors/README.md", "3.5–4.0 times")]
    {
        let whole = fs::read_to_string(file(name)).unwrap();
        fs::write(file(name), whole + &format!("\n## Praise\n\nIt is {figure} as quick.\n")).unwrap();
        expected.push((format!("{name}, section"), "has no source"));
    }

    // A sentence behind an annotation, in a document in which only queries give figures.
    let strict = file("docs/results/multi-key.md");
    let whole = fs::read_to_string(&strict).unwrap();
    fs::write(&strict, whole + "\n<!--lab history x-->The actor engine is 99 times as fast.\n").unwrap();
    expected.push(("docs/results/multi-key.md, line".to_owned(), "is no annotation"));
    expected.push(("docs/results/multi-key.md: \"99\" looks like a figure".to_owned(), ""));

    // Raw data of runs: twice the throughput, a trial less, a larger machine.
    let quick = file("experiments/results/quick-20261121-151639/trials.jsonl");
    let whole = fs::read_to_string(&quick).unwrap();
    let (before, after) = whole.split_once("\"ops_per_sec\":").unwrap();
    let (rate, after) = after.split_once(',').unwrap();
    fs::write(&quick, format!("{before}\"ops_per_sec\":{},{after}", 2.0 * rate.parse::<f64>().unwrap())).unwrap();
    expected.push(("quick-20261121-151639/trials.jsonl".to_owned(), "a second, not"));
    let trials = file(&format!("{full}/trials.jsonl"));
    let whole = fs::read_to_string(&trials).unwrap();
    let lines: Vec<&str> =
        whole.lines().enumerate().filter(|(index, _)| *index != 1000).map(|(_, line)| line).collect();
    fs::write(&trials, lines.join("\n") + "\n").unwrap();
    expected.push((format!("{full}/trials.jsonl"), "the plan has it, the trials do not"));
    edit(&file(&format!("{full}/run.json")), "\"cores\": 2", "\"cores\": 64");
    expected.push((format!("README.md: {full}/run.json has the digest"), ""));

    // Another file of `experiments scaling`, in the place of a link to it.
    let scaling = file("experiments/results/why-full-20261128/scaling.jsonl");
    let whole = fs::read_to_string(&scaling).unwrap();
    fs::remove_file(&scaling).unwrap();
    fs::write(&scaling, whole + "\n").unwrap();
    expected.push(("why-full-20261128/scaling.jsonl: no document notes its digest".to_owned(), ""));

    // A report that documents link to, removed.
    let report = "experiments/results/planted-20261124/report.html";
    fs::remove_file(file(report)).unwrap();
    expected.push((format!("docs/results/planted.md: {report} is not there"), ""));

    // The same of a run that stands only in tables over several runs.
    let older = "experiments/results/full-20261122-184336";
    edit(&file(&format!("{older}/run.json")), "\"cores\": 2", "\"cores\": 64");
    expected.push((format!("docs/results.md: {older}/run.json has the digest"), ""));

    // A percentile that its histogram does not have, and another file of histograms.
    let why = "experiments/results/why-20261124";
    change_a_percentile(&file(&format!("{why}/trials.jsonl")));
    expected.push((format!("{why}/trials.jsonl"), "the histogram has"));
    let working_set = file("experiments/results/working-set-20261124/latencies.jsonl");
    let whole = fs::read_to_string(&working_set).unwrap();
    fs::write(&working_set, whole.trim_end()).unwrap();
    expected.push(("working-set-20261124/trials.jsonl".to_owned(), "is not the file that its first line names"));

    let output = Command::new(LAB).current_dir(copy.path()).arg("verify").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output);
    for (place, what) in expected {
        assert!(said.lines().any(|line| line.contains(&place) && line.contains(what)), "{place} … {what}:\n{said}");
    }
}

/// Neighbours of those cheats, each of which went unnoticed before.
#[test]
fn verify_catches_the_neighbours_of_the_cheats_that_are_known() {
    let copy = copy_of_the_project();
    let file = |name: &str| copy.path().join(name);
    let mut expected: Vec<(String, String)> = Vec::new();

    // The CPU time of all repeats of a point, in a run that did not keep what the kernel counted beside it.
    let older = "experiments/results/full-20261123-173054/trials.jsonl";
    for (server, factor, said) in
        [("actor", 0.9, "with 50 clients waiting"), ("redis-server", 1.1, "and has 1 threads")]
    {
        let point = format!("pipeline/{server}.no-aof.c50.p16.r0-1.d64.kR-R");
        change_all_repeats(&file(older), &point, "server_cores", factor);
        expected.push((format!("{older}: {point}: the server used"), said.to_owned()));
    }
    // The length of the windows and the throughput with them.
    for (field, factor) in [("seconds", 0.95), ("ops_per_sec", 1.0 / 0.95)] {
        change_all_repeats(&file(older), "pipeline/mutex.no-aof.c50.p16.r0-1.d64.kR-R", field, factor);
    }
    expected.push((format!("{older}: pipeline/mutex.no-aof.c50.p16"), "s were planned".to_owned()));

    // Figures that no query holds, each in a section of its own.
    for (name, figure, word) in [
        ("docs/ARCHITECTURE.md", "It does double the throughput.", "double"),
        ("docs/durability.md", "It takes half the CPU.", "half"),
        ("docs/security.md", "It costs twice.", "twice"),
        ("docs/tls.md", "It takes a third\nof the time.", "a"),
        ("actors/README.md", "It takes an eighth of the CPU.", "an"),
        ("loadgen/README.md", "It is an order of magnitude faster.", "magnitude"),
        ("docs/scripting.md", "It is five\ntimes as quick.", "five"),
        ("docs/replication.md", "<table><tr><th>actor</th><td>4.7</td></tr></table>", "4.7"),
        ("docs/results/threads.md", "<table><tr><th>actor</th><td>47</td></tr></table>", "47"),
        ("docs/adr/0005-runtime.md", "```text\n$ make measure\nactor 4.7 times mutex\n```", "4.7"),
        ("docs/adr/0006-allocator.md", "```sh\nmake measure\n# GET: 113636.37 requests per second\n```", "113636.37"),
        ("docs/locks-or-actors.md", "The actor engine is 4&#46;7 times as fast.", "4.7"),
    ] {
        let whole = fs::read_to_string(file(name)).unwrap();
        fs::write(file(name), whole + &format!("\n## Praise\n\n{figure}\n")).unwrap();
        expected.push((format!("{name}, section"), format!("{word:?} has no source")));
    }
    expected.push(("docs/locks-or-actors.md: \"4.7\" looks like a figure".to_owned(), String::new()));

    // A document in a folder that nobody listed.
    fs::create_dir_all(file("praise/of/actors")).unwrap();
    fs::write(file("praise/of/actors/README.md"), "# Praise\n\nIt is 4.7 times as quick.\n").unwrap();
    expected.push(("praise/of/actors/README.md, section".to_owned(), "\"4.7\" has no source".to_owned()));

    // Words around a query, in a sentence and in a table, and a query itself, whose answer `fill` puts behind it.
    let unsealed = "its queries, or the words around them, are not those that were sealed".to_owned();
    let dearer = "<!--/lab--> (relaxed) as much CPU as those on one shard";
    edit(&file("docs/results/multi-key.md"), dearer, &dearer.replace("as much", "as little"));
    expected.push(("docs/results/multi-key.md, section".to_owned(), unsealed.clone()));
    edit(
        &file("docs/results.md"),
        "<!--lab verdicts working-set ops_per_sec-->",
        "<!--lab verdicts working-set p99_us-->",
    );
    expected.push(("docs/results.md, section".to_owned(), unsealed));
    // The same beside figures that are history.
    let sealed = "or words or queries beside them, are not those that were sealed at".to_owned();
    edit(&file("README.md"), "| run | keys | actor / mutex |", "| run | keys | mutex / actor |");
    expected.push(("README.md, section".to_owned(), sealed.clone()));
    edit(&file("docs/scaling.md"), "half reads, half writes, uniform", "half reads, half writes, skewed");
    expected.push(("docs/scaling.md, section".to_owned(), sealed.clone()));
    edit(
        &file("docs/results/claimants.md"),
        "side-by-side docs/results/claimants.txt",
        "side-by-side docs/results/side-by-side.txt",
    );
    expected.push(("docs/results/claimants.md, section".to_owned(), sealed));

    let output = Command::new(LAB).current_dir(copy.path()).arg("verify").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output);
    for (place, what) in expected {
        assert!(said.lines().any(|line| line.contains(&place) && line.contains(&what)), "{place} … {what}:\n{said}");
    }
}

/// What `make verify-report` does.
#[test]
fn the_documents_and_reports_of_this_project_say_what_their_runs_give() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let output = Command::new(LAB).current_dir(root).arg("verify").output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
}

#[test]
fn a_budget_takes_the_short_lists_and_fits_the_windows() {
    let lab = Lab::new(&SWEEP.replace("test_seconds = 1", "test_seconds = 9").replace("repeats = 3", "repeats = 2"));
    let file = lab.folder.path().join("grid.toml");
    fs::write(&file, fs::read_to_string(&file).unwrap() + "[short]\nclients = [10]\n").unwrap();
    let output = lab.command().args(["--budget", "0.2"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let run = lab.run_folder();
    assert_eq!((run.record.order.len(), run.record.setup.budget_minutes), (8, Some(0.2)));
    let window = run.record.setup.sweeps[0].test_seconds;
    assert!((0.5..2.0).contains(&window), "{window}");
    assert!(fs::read_to_string(lab.out().join("report.html")).unwrap().contains("budget of 0.2 minutes"));
}

#[test]
fn a_figure_without_a_source_is_an_error_that_says_what_to_type_and_sealing_is_what_it_says() {
    let lab = Lab::new("");
    let document = lab.folder.path().join("README.md");
    fs::write(&document, "# x\n\nIt is 1.4 times as quick.\n").unwrap();
    let verify = || lab.also(&["verify", "README.md", "--results", "."]);
    let said = text(&verify());
    assert!(said.contains("\"1.4\" has no source") && said.contains("make seal COMMIT="), "{said}");
    assert!(lab.also(&["seal", "--commit", "58641ee"]).status.success());
    let output = verify();
    assert!(output.status.success(), "{}", text(&output));
    edit(&document, "1.4", "1.5");
    assert!(text(&verify()).contains("not those that were sealed at 58641ee"));
}

#[test]
fn a_sweep_whose_flag_the_generator_lacks_is_left_out_and_the_report_says_so() {
    let lab = Lab::new(&SWEEP.replace("repeats = 3", "repeats = 1"));
    fs::write(lab.folder.path().join("later.toml"), SWEEP.to_owned() + "[loadgen]\nfrom-the-future = [1]\n").unwrap();
    let mut command = lab.command();
    let output = command.args(["--sweeps", "later.toml"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("SKIPPED: the sweep later: the generator has no --from-the-future yet"));
    let html = fs::read_to_string(lab.out().join("report.html")).unwrap();
    assert!(html.contains("<strong>The sweep later was not run:</strong>"));
}

#[test]
fn a_server_that_the_lab_slows_down_is_stopped_for_a_measured_share() {
    let aa = "question='?'\nservers=['one']\nclients=[1]\ntest_seconds=3\nwarm_up_seconds=0\nrepeats=1\nretries=0\n\
        key_maximum=7\nequals=['a', 'b']\nvariant=[{name='a', flags=[]}, {name='b', flags=[]}, \
        {name='braked', flags=[], stopped_percent=20}]\n";
    let lab = Lab::new(aa);
    let mut command = Command::new(LAB);
    command.current_dir(lab.folder.path()).env("TMPDIR", lab.folder.path());
    command.args(["run", "--sweeps", "grid.toml", "--out", "out", "--loadgen", STUB]);
    command.args(["--server", &format!("one={STUB} serve --port {{port}}")]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    for one in lab.run_folder().observations().unwrap().trials {
        let braked = one.trial.contains("braked");
        assert_eq!(one.stopped_share.is_some(), braked, "{one:?}");
        assert!(!braked || one.stopped_share.is_some_and(|share| share > 0.1), "{one:?}");
    }
}
