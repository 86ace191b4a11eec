//! A run on disk.
//!
//! ```text
//! <name>/run.json                     plan, seed, order, environment, servers; written before the first trial
//! <name>/raw/<sweep>/<point>/r01.json one trial's record; its presence means that the trial is done
//!                        .../r01-a1.*  what the generator and the server of its first attempt wrote
//! <name>/trials.jsonl                 the extract of all records that figures are made from (`observation`)
//! <name>/latencies.jsonl              the histograms of their percentiles (`latencies`)
//! <name>/summary.json .csv report.html plots/ made from run.json and trials.jsonl
//! ```
//!
//! `run.json` and every record appear by rename: a run killed at any moment leaves only whole files, and trials without
//! a record are missing.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::base::environment::Environment;
use crate::base::files::{now, to_json, write_whole};
use crate::measuring::trial::{self, TrialRecord};
use crate::plan::catalog::{Absent, Program, Server};
use crate::plan::point::Trial;
use crate::plan::schedule;
use crate::plan::sweep::Sweep;
use crate::results::lock::Lock;
use crate::results::observation::Observations;

/// The layout of `run.json`.
pub(crate) const FORMAT: &str = "shardrace-run/1";

/// The file that a finished run has.
pub(crate) const REPORT: &str = "report.html";

/// The file of `experiments scaling` beside a run.
pub(crate) const SCALING: &str = "scaling.jsonl";

/// What a run measures: fixed when it begins, and equal whenever it is resumed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// The sweeps; they name only servers that are present.
    pub sweeps: Vec<Sweep>,
    /// Those servers.
    pub servers: Vec<Server>,
    /// Servers that the sweeps named and the machine lacked.
    pub absent: Vec<Absent>,
    /// The generator.
    pub generator: Program,
    /// The minutes that the windows were shortened to fit; `None` if the sweeps run as written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_minutes: Option<f64>,
    /// The repeats that a sweep was written with, if the run has fewer of it; not in runs that did not keep it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub planned_repeats: BTreeMap<String, u32>,
}

/// The content of `run.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// [`FORMAT`].
    pub format: String,
    /// What is measured.
    pub setup: Setup,
    /// Determines `order`.
    pub seed: u64,
    /// When it began, in RFC 3339.
    pub started: String,
    /// When its last trial was done.
    pub finished: Option<String>,
    /// How often it was resumed.
    pub resumed: u32,
    /// Where it began.
    pub environment: Environment,
    /// All trials, in the order they run; on disk their path stems.
    #[serde(skip)]
    pub order: Vec<Trial>,
    #[serde(rename = "order")]
    stems: Vec<Stem>,
}

/// A trial in `run.json`: its path stem, or, in older runs, all of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Stem {
    Path(String),
    Whole(Trial),
}

/// A run and the folder that holds it.
#[derive(Debug)]
pub struct RunFolder {
    /// The folder.
    pub path: PathBuf,
    /// Its `run.json`.
    pub record: RunRecord,
}

impl Setup {
    /// The server called `name`.
    pub(crate) fn server(&self, name: &str) -> &Server {
        self.servers.iter().find(|server| server.name == name).expect("sweeps name only servers that are present")
    }

    /// Every program that trials start.
    pub(crate) fn programs(&self) -> impl Iterator<Item = &Program> {
        self.servers.iter().map(|server| &server.program).chain([&self.generator])
    }

    /// The sweep called `name`.
    pub(crate) fn sweep(&self, name: &str) -> &Sweep {
        self.sweeps.iter().find(|sweep| sweep.name == name).expect("trials come from the setup's sweeps")
    }

    /// In words, why a run with setup `other` cannot be continued with this one.
    pub(crate) fn difference(&self, other: &Self) -> Option<&'static str> {
        // Rates that were measured when the run began belong to it.
        let asked = |setup: &Self| {
            let mut sweeps = setup.sweeps.clone();
            sweeps.iter_mut().for_each(Sweep::forget_rates);
            sweeps
        };
        if asked(self) != asked(other) {
            return Some("its sweeps or their servers are others");
        }
        if self.generator.digest != other.generator.digest {
            return Some("the generator was rebuilt since");
        }
        let key = |setup: &Self| -> Vec<_> {
            let servers = setup.servers.iter();
            servers.map(|s| (s.name.clone(), s.program.digest.clone(), s.arguments.clone(), s.files.clone())).collect()
        };
        (key(self) != key(other)).then_some("a server was rebuilt or is started otherwise")
    }
}

impl RunRecord {
    /// The plan of a new run.
    pub(crate) fn new(setup: Setup, seed: u64, environment: Environment) -> Self {
        let order = schedule::order(&setup.sweeps, seed);
        Self {
            format: FORMAT.to_owned(),
            stems: order.iter().map(|trial| Stem::Path(trial.path_stem())).collect(),
            order,
            setup,
            seed,
            started: now(),
            finished: None,
            resumed: 0,
            environment,
        }
    }

    /// Finds the trials that the stems name in the grids of the sweeps.
    fn restore_order(&mut self) -> Result<()> {
        let trials = schedule::order(&self.setup.sweeps, 0);
        let trials: HashMap<String, Trial> = trials.into_iter().map(|trial| (trial.path_stem(), trial)).collect();
        let find = |stem: &Stem| match stem {
            Stem::Path(path) => trials.get(path).cloned().with_context(|| format!("no sweep has the trial {path:?}")),
            Stem::Whole(trial) => Ok(trial.clone()),
        };
        self.order = self.stems.iter().map(find).collect::<Result<_>>()?;
        Ok(())
    }
}

impl RunFolder {
    /// Begins a run in `path`.
    pub(crate) fn create(path: &Path, setup: Setup, seed: u64) -> Result<Self> {
        fs::create_dir_all(path).with_context(|| format!("cannot create {}", path.display()))?;
        let record = RunRecord::new(setup, seed, Environment::record());
        let folder = Self { path: path.to_path_buf(), record };
        folder.save()?;
        Ok(folder)
    }

    /// Opens the run in `path`.
    pub fn open(path: &Path) -> Result<Self> {
        let file = path.join("run.json");
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let mut record: RunRecord = serde_json::from_str(&text).with_context(|| format!("in {}", file.display()))?;
        record.restore_order().with_context(|| format!("in {}", file.display()))?;
        ensure!(record.format == FORMAT, "{} has the format {:?}, not {FORMAT:?}", file.display(), record.format);
        Ok(Self { path: path.to_path_buf(), record })
    }

    /// The newest unfinished run under `results` that `setup` can continue, and its lock: one that another lab measures
    /// is no run to continue. With `rounds` it may have been begun with more of them: it ends after these.
    pub(crate) fn find_unfinished(results: &Path, setup: &Setup, rounds: Option<u32>) -> Option<(Self, Lock)> {
        let entries = fs::read_dir(results).ok()?;
        let mut found: Vec<Self> = entries.filter_map(|entry| Self::open(&entry.ok()?.path()).ok()).collect();
        // Only in memory: the command that continues the run ends it.
        found.retain_mut(|run| rounds.is_none_or(|rounds| run.end_after(rounds).is_ok()));
        found.retain(|run| run.record.finished.is_none() && run.record.setup.difference(setup).is_none());
        let here = Environment::record();
        found.retain(|run| run.record.environment.other_machine(&here).is_none());
        found.sort_by(|a, b| b.record.started.cmp(&a.record.started));
        found.into_iter().find_map(|run| Some((Lock::take(&run.path).ok()??, run))).map(|(lock, run)| (run, lock))
    }

    /// Trials without a record, in the order of the plan.
    pub fn missing(&self) -> Vec<&Trial> {
        self.record.order.iter().filter(|trial| !self.record_path(trial).exists()).collect()
    }

    /// Lets an unfinished run of one sweep end after this many whole rounds. Trials of later ones count for nothing.
    pub(crate) fn end_after(&mut self, rounds: u32) -> Result<()> {
        let place = self.path.display();
        ensure!(self.record.finished.is_none(), "{place} is finished: no round is left out of it afterwards");
        let record = &mut self.record;
        for sweep in record.setup.sweeps.iter_mut().filter(|sweep| sweep.repeats > rounds) {
            record.setup.planned_repeats.entry(sweep.name.clone()).or_insert(sweep.repeats);
            sweep.repeats = rounds;
        }
        let order = schedule::order(&record.setup.sweeps, record.seed);
        ensure!(record.order.starts_with(&order), "{place}: only a run of one sweep can end early");
        record.stems.truncate(order.len());
        record.order = order;
        Ok(())
    }

    /// Counts a resumption.
    pub(crate) fn note_resumption(&mut self) -> Result<()> {
        self.record.resumed += 1;
        self.save()
    }

    /// Marks the run as complete.
    pub(crate) fn note_end(&mut self) -> Result<()> {
        ensure!(self.missing().is_empty(), "{}: a run with missing trials is not at its end", self.path.display());
        self.record.finished = Some(now());
        self.save()
    }

    /// The trial's files, without their endings.
    pub fn stem(&self, trial: &Trial) -> PathBuf {
        self.path.join("raw").join(trial.path_stem())
    }

    /// Writes a trial's record: from now on it is done.
    pub(crate) fn save_trial(&self, record: &TrialRecord) -> Result<()> {
        write_whole(&self.record_path(&record.trial), &to_json(record)?)
    }

    /// Every trial that is done, in the order of the plan.
    pub fn trials(&self) -> Result<Vec<TrialRecord>> {
        let paths = self.record.order.iter().map(|trial| (trial, self.record_path(trial)));
        let done = paths.filter(|(_, path)| path.exists());
        done.map(|(trial, path)| read_trial(trial, &path)).collect()
    }

    /// The results that documents show: the contents of `trials.jsonl`. Reading them changes no file.
    pub(crate) fn published(&self) -> Result<Observations> {
        let file = self.trials_file();
        let name = self.path.display();
        let missing = || format!("{} is not there: `experiments report {name}` makes it of raw/", file.display());
        self.committed_observations()?.with_context(missing)
    }

    /// The contents of `trials.jsonl`; `None` without that file.
    pub(crate) fn committed_observations(&self) -> Result<Option<Observations>> {
        let file = self.trials_file();
        if !file.exists() {
            return Ok(None);
        }
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        Observations::parse(&text).map(Some).with_context(|| format!("in {}", file.display()))
    }

    /// Where the extract of all trials is.
    pub(crate) fn trials_file(&self) -> PathBuf {
        self.path.join("trials.jsonl")
    }

    /// The file of `experiments scaling` whose figure the report begins with, if it is there.
    pub(crate) fn scaling_file(&self) -> Option<PathBuf> {
        Some(self.path.join(SCALING)).filter(|file| file.exists())
    }

    /// Where the histograms of the percentiles are.
    pub(crate) fn latencies_file(&self) -> PathBuf {
        self.path.join("latencies.jsonl")
    }

    fn record_path(&self, trial: &Trial) -> PathBuf {
        self.stem(trial).with_extension("json")
    }

    fn save(&self) -> Result<()> {
        write_whole(&self.path.join("run.json"), &to_json(&self.record)?)
    }
}

/// The finished runs of a folder: a run in progress has nothing to verify yet.
pub fn runs(results: &Path) -> Result<Vec<PathBuf>> {
    let mut folders = folders(results)?;
    folders.retain(|folder| folder.join(REPORT).exists());
    Ok(folders)
}

fn folders(results: &Path) -> Result<Vec<PathBuf>> {
    if !results.is_dir() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(results).with_context(|| format!("cannot list {}", results.display()))?;
    let mut folders = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    folders.sort();
    Ok(folders)
}

/// Finished runs with raw data, including older ones of which only these are kept.
pub(crate) fn raw_runs(results: &Path) -> Result<Vec<PathBuf>> {
    let mut folders = folders(results)?;
    folders.retain(|folder| {
        folder.join("trials.jsonl").exists() && RunFolder::open(folder).is_ok_and(|run| run.record.finished.is_some())
    });
    Ok(folders)
}

fn read_trial(trial: &Trial, path: &Path) -> Result<TrialRecord> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let record: TrialRecord = serde_json::from_str(&text).with_context(|| format!("in {}", path.display()))?;
    if record.format != trial::FORMAT || record.trial != *trial || record.chosen >= record.attempts.len() {
        bail!("{} is not the record of its trial; remove it to measure the trial again", path.display());
    }
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWEEP: &str = "question='?'\nservers=['s']\nclients=[1]\ntest_seconds=1\nwarm_up_seconds=0\nrepeats=3\n";

    #[test]
    fn a_run_that_another_lab_measures_is_not_continued() {
        let results = tempfile::tempdir().unwrap();
        let setup = crate::testing::run("grid", SWEEP, |_, _| 1.0).0.setup;
        let path = results.path().join("one");
        RunFolder::create(&path, setup.clone(), 1).unwrap();
        let lock = Lock::take(&path).unwrap();
        assert!(RunFolder::find_unfinished(results.path(), &setup, None).is_none());
        drop(lock);
        assert_eq!(RunFolder::find_unfinished(results.path(), &setup, None).unwrap().0.path, path);
    }

    #[test]
    fn a_run_of_another_machine_or_of_a_rebuilt_program_behind_a_wrapper_is_not_continued() {
        let results = tempfile::tempdir().unwrap();
        let mut setup = crate::testing::run("grid", SWEEP, |_, _| 1.0).0.setup;
        let program = Program { path: "/usr/bin/env".into(), digest: "1".to_owned(), version: None };
        let files = [("/opt/server".to_owned(), "2".to_owned())].into();
        setup.servers = vec![Server { name: "s".to_owned(), program, arguments: Vec::new(), files }];
        let mut run = RunFolder::create(&results.path().join("one"), setup.clone(), 1).unwrap();
        let mut rebuilt = setup.clone();
        rebuilt.servers[0].files.insert("/opt/server".to_owned(), "3".to_owned());
        assert_eq!(setup.difference(&rebuilt), Some("a server was rebuilt or is started otherwise"));
        assert!(RunFolder::find_unfinished(results.path(), &setup, None).is_some());
        run.record.environment.cores += 1;
        run.save().unwrap();
        assert!(RunFolder::find_unfinished(results.path(), &setup, None).is_none());
    }

    #[test]
    fn a_run_that_was_begun_with_more_rounds_is_continued_with_fewer_and_not_with_more() {
        let results = tempfile::tempdir().unwrap();
        let setup = crate::testing::run("grid", SWEEP, |_, _| 1.0).0.setup;
        RunFolder::create(&results.path().join("one"), setup.clone(), 1).unwrap();
        let found = |repeats: u32, rounds: Option<u32>| {
            let mut asked = setup.clone();
            asked.sweeps[0].repeats = repeats;
            RunFolder::find_unfinished(results.path(), &asked, rounds).is_some()
        };
        assert!(found(2, Some(2)) && found(3, Some(9)));
        assert!(!found(2, None) && !found(4, Some(9)));
    }

    #[test]
    fn a_run_that_ends_early_keeps_how_many_repeats_were_planned_and_older_runs_without_it_are_read() {
        let results = tempfile::tempdir().unwrap();
        let setup = crate::testing::run("grid", SWEEP, |_, _| 1.0).0.setup;
        let path = results.path().join("one");
        let mut run = RunFolder::create(&path, setup, 1).unwrap();
        let planned = |path: &Path| RunFolder::open(path).unwrap().record.setup.planned_repeats;
        assert!(planned(&path).is_empty(), "nothing was left out");
        assert!(!fs::read_to_string(path.join("run.json")).unwrap().contains("planned_repeats"), "as in older runs");
        run.end_after(5).unwrap();
        assert!(run.record.setup.planned_repeats.is_empty());
        run.end_after(2).unwrap();
        run.end_after(1).unwrap();
        run.note_resumption().unwrap();
        assert_eq!(planned(&path), [("grid".to_owned(), 3)].into());
    }
}
