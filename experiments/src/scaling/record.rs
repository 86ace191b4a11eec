//! The raw data: one file of lines.
//!
//! ```text
//! {"format":"shardrace-scaling/1","seed":1,…}             the grid, the driver, the machine
//! {"block":"batch","repeat":1,"engine":"mutex",…}         one line for each trial, in the order in which they ran
//! {"trials":120,"digest":"9f86…"}                         the number of trials, and the digest of the lines above
//! ```

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::base::environment::Environment;

use super::digest;
use super::grid::Grid;

/// The format of the file.
pub(crate) const FORMAT: &str = "shardrace-scaling/1";

/// The first line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// [`FORMAT`].
    pub format: String,
    /// Seed of the order.
    pub seed: u64,
    /// When it began.
    pub started: String,
    /// The digest of the driver.
    pub driver: String,
    /// The grid.
    pub grid: Grid,
    /// The machine.
    pub environment: Environment,
}

/// The driver's output. Fields that an engine does not have are `None`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The engine or reference.
    pub engine: String,
    /// Worker threads.
    pub threads: usize,
    /// Shards of the engine; 0 for a reference.
    pub shards: usize,
    /// Connections for each thread.
    pub connections: usize,
    /// Requests in a batch.
    pub batch: usize,
    /// Percent of requests that read.
    pub reads: u32,
    /// How keys are drawn.
    pub skew: String,
    /// Percent of requests that take several keys.
    pub multi_key: u32,
    /// The type of the keys.
    pub data: String,
    /// Bytes of a value.
    pub value_size: usize,
    /// Number of keys.
    pub keys: usize,
    /// `read` or `command`.
    pub batching: String,
    /// Whether nodes are prefetched.
    pub prefetch: bool,
    /// Seed of the requests.
    pub seed: u64,
    /// Length of the window.
    pub seconds: f64,
    /// Requests in the window.
    pub requests: u64,
    /// Batches in the window.
    pub batches: u64,
    /// Requests, by the worker thread that ran them.
    pub requests_of_threads: Vec<u64>,
    /// Requests, by the connection that sent them.
    pub requests_of_connections: Vec<u64>,
    /// Mean latency of a batch.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// Context switches because a thread waited.
    pub voluntary_switches: u64,
    /// Context switches because another thread had to run.
    pub involuntary_switches: u64,
    /// Nanoseconds on a core, of all threads.
    pub ran_ns: u64,
    /// Nanoseconds in which a thread was ready and waited for a core.
    pub kept_ns: u64,
    /// Bytes of replies.
    pub reply_bytes: u64,
    /// Acquisitions that did not wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock_free: Option<u64>,
    /// Acquisitions that waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock_waits: Option<u64>,
    /// How long they waited in total.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock_wait_ns: Option<u64>,
    /// The median wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock_wait_p50_ns: Option<u64>,
    /// The 99th percentile of waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock_wait_p99_ns: Option<u64>,
    /// Batches whose stages were timed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execute_count: Option<u64>,
    /// Their mean time of parsing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parse_mean_ns: Option<f64>,
    /// Of waiting for locks, or in a mailbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_mean_ns: Option<f64>,
    /// The 99th percentile of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_p99_ns: Option<f64>,
    /// Of running commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execute_mean_ns: Option<f64>,
    /// Of the way back from a shard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub return_mean_ns: Option<f64>,
}

/// A trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Trial {
    /// The block of its point.
    pub block: String,
    /// Which repeat.
    pub repeat: u32,
    /// The cost planted under the lock of the mutex engine, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planted_ns: Option<u64>,
    /// What was found.
    #[serde(flatten)]
    pub found: Found,
}

/// The last line.
#[derive(Debug, Serialize, Deserialize)]
struct Footer {
    trials: usize,
    digest: String,
}

/// A whole file.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// What was asked for.
    pub header: Header,
    /// What was found.
    pub trials: Vec<Trial>,
}

impl Found {
    /// Requests per second.
    pub(crate) fn per_second(&self) -> f64 {
        self.requests as f64 / self.seconds
    }

    /// How evenly requests are spread over threads: Jain's index, 1 if all did the same, 1/n if one did all.
    pub(crate) fn fairness(&self) -> f64 {
        jain(&self.requests_of_threads)
    }

    /// Context switches for a thousand batches.
    pub(crate) fn switches(&self) -> f64 {
        (self.voluntary_switches + self.involuntary_switches) as f64 * 1000.0 / self.batches.max(1) as f64
    }

    /// Share of acquisitions that waited.
    pub(crate) fn waiting_share(&self) -> Option<f64> {
        let (free, waits) = (self.lock_free?, self.lock_waits?);
        Some(waits as f64 / (free + waits).max(1) as f64)
    }

    /// Mean time that a batch waited for locks or in a mailbox: from the engine's stages, or as a reference counts it.
    pub(crate) fn queue_ns(&self) -> Option<f64> {
        self.queue_mean_ns.or_else(|| Some(self.lock_wait_ns? as f64 / self.batches.max(1) as f64))
    }

    /// The share of the cores' time in which this process was ready and others ran.
    pub(crate) fn disturbed(&self) -> f64 {
        self.kept_ns as f64 / (self.seconds * 1e9 * self.threads as f64)
    }

    /// The engine, with its shards if they were chosen.
    pub(crate) fn name(&self) -> String {
        match self.engine.as_str() {
            "dashmap" | "actor" | "actor-pinned" | "actor-inline" => format!("{}/{}", self.engine, self.shards),
            other => other.to_owned(),
        }
    }
}

/// Jain's index of fairness: the square of the sum divided by the number times the sum of squares. 1 if there are none.
///
/// Jain, Chiu, Hawe: A quantitative measure of fairness and discrimination for resource allocation (1984).
pub(crate) fn jain(shares: &[u64]) -> f64 {
    let sum: f64 = shares.iter().map(|&share| share as f64).sum();
    let squares: f64 = shares.iter().map(|&share| (share as f64).powi(2)).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

impl Header {
    /// The header of a run that begins now.
    pub(crate) fn new(grid: &Grid, seed: u64, driver: &[u8], environment: Environment) -> Self {
        let started = humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string();
        let (format, grid, driver) = (FORMAT.to_owned(), grid.clone(), digest(driver));
        Self { format, seed, started, driver, grid, environment }
    }
}

/// A file that is written while it is measured: `NAME.partial.jsonl`, which gets its own name when it is whole.
#[derive(Debug)]
pub(crate) struct Growing {
    path: PathBuf,
    file: File,
    /// All that was written, for the digest in the last line.
    text: String,
    trials: usize,
}

impl Growing {
    /// Writes the first line. That nothing can be written here is an error before anything is measured.
    pub(crate) fn create(whole: &Path, header: &Header) -> Result<Self> {
        if let Some(folder) = whole.parent() {
            fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        }
        let path = whole.with_extension("partial.jsonl");
        let file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        let mut growing = Self { path, file, text: String::new(), trials: 0 };
        growing.line(header)?;
        Ok(growing)
    }

    /// Writes the line of a trial.
    pub(crate) fn append(&mut self, trial: &Trial) -> Result<()> {
        self.trials += 1;
        self.line(trial)
    }

    /// The number of trials.
    pub(crate) fn trials(&self) -> usize {
        self.trials
    }

    /// Writes the last line of a file that ends early, and returns its path; removes one without a trial.
    pub(crate) fn end_early(mut self) -> Result<Option<PathBuf>> {
        if self.trials == 0 {
            fs::remove_file(&self.path).with_context(|| format!("cannot remove {}", self.path.display()))?;
            return Ok(None);
        }
        self.last_line()?;
        Ok(Some(self.path))
    }

    /// Writes the last line, and lets the file replace the one at `whole`.
    pub(crate) fn end(mut self, whole: &Path) -> Result<()> {
        self.last_line()?;
        fs::rename(&self.path, whole).with_context(|| format!("cannot write {}", whole.display()))
    }

    fn last_line(&mut self) -> Result<()> {
        let footer = Footer { trials: self.trials, digest: digest(self.text.as_bytes()) };
        self.line(&footer)
    }

    fn line(&mut self, value: &impl Serialize) -> Result<()> {
        let line = serde_json::to_string(value)? + "\n";
        self.file.write_all(line.as_bytes()).with_context(|| format!("cannot write {}", self.path.display()))?;
        self.text.push_str(&line);
        Ok(())
    }
}

impl Recorded {
    /// Writes a whole file.
    #[cfg(test)]
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let mut growing = Growing::create(path, &self.header)?;
        self.trials.iter().try_for_each(|trial| growing.append(trial))?;
        growing.end(path)
    }

    /// Reads a file, and checks its digest and its consistency.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("in {}", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let lines: Vec<&str> = text.lines().collect();
        let [first, trials @ .., last] = &lines[..] else { anyhow::bail!("it has no first and last line") };
        let header: Header = serde_json::from_str(first)?;
        ensure!(header.format == FORMAT, "the format is {:?}, not {FORMAT:?}", header.format);
        let footer: Footer = serde_json::from_str(last).context("it has no last line")?;
        let body = &text[..text.trim_end().len() - last.len()];
        ensure!(footer.digest == digest(body.as_bytes()), "it is not the file that its last line names");
        ensure!(footer.trials == trials.len(), "it has {} trials, not {}", trials.len(), footer.trials);
        let trials = trials.iter().map(|line| Ok(serde_json::from_str(line)?)).collect::<Result<Vec<Trial>>>()?;
        let recorded = Self { header, trials };
        recorded.must_add_up()?;
        Ok(recorded)
    }

    /// Checks that the requests by thread, by connection and by batch add up to the same number, and Little's law: in a
    /// closed loop connections divided by throughput are the latency.
    fn must_add_up(&self) -> Result<()> {
        for (number, trial) in self.trials.iter().enumerate() {
            let found = &trial.found;
            let sum = |counts: &[u64]| counts.iter().sum::<u64>();
            ensure!(
                sum(&found.requests_of_threads) == found.requests
                    && sum(&found.requests_of_connections) == found.requests
                    && found.batches * found.batch as u64 == found.requests,
                "trial {}: requests of threads, of connections and of batches differ",
                number + 1
            );
            // Batches that begin before the window or end after it are not counted. They are long if a thread was not
            // running then.
            let (took_ns, there_is_ns) = (
                found.mean_ns * found.batches as f64,
                found.requests_of_connections.len() as f64 * found.seconds * 1e9,
            );
            ensure!(
                took_ns < there_is_ns * 1.02 && (found.batches < 1000 || took_ns > there_is_ns * 0.5),
                "trial {}: batches took {took_ns:.0} ns, where its connections have {there_is_ns:.0}",
                number + 1,
            );
        }
        Ok(())
    }

    /// The blocks, in the order of the grid.
    pub(crate) fn blocks(&self) -> Vec<String> {
        self.header.grid.block.iter().map(|block| block.name.clone()).collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A trial with this time of a thread for a batch, half of it within commands.
    pub(crate) fn trial(engine: &str, threads: usize, batch: usize, batch_ns: f64, repeat: u32) -> Trial {
        let (name, shards) = engine.split_once('/').unwrap_or((engine, "0"));
        let (seconds, connections) = (0.5, 8u64);
        let of_connection = (seconds * 1e9 / batch_ns) as u64 / connections * batch as u64;
        let of_connections = vec![of_connection; threads * connections as usize];
        let requests = of_connection * threads as u64 * connections;
        let mean = batch_ns * connections as f64;
        let json = serde_json::json!({
            "block": "model", "repeat": repeat, "engine": name, "threads": threads,
            "shards": shards.parse::<usize>().unwrap(), "connections": connections, "batch": batch, "reads": 50,
            "skew": "uniform", "multi_key": 0, "data": "strings", "value_size": 64, "keys": 100_000,
            "batching": "read", "prefetch": true, "seed": 1, "seconds": seconds, "requests": requests,
            "batches": requests / batch as u64, "requests_of_threads": vec![of_connection * connections; threads],
            "requests_of_connections": of_connections, "mean_ns": mean, "p50_ns": mean as u64, "p90_ns": mean as u64,
            "p99_ns": (mean * 1.2) as u64, "p999_ns": (mean * 1.2) as u64, "max_ns": (mean * 1.2) as u64,
            "voluntary_switches": 10, "involuntary_switches": 5, "ran_ns": 1, "kept_ns": 0, "reply_bytes": 1,
            "execute_mean_ns": batch_ns / 2.0,
        });
        serde_json::from_value(json).unwrap()
    }

    pub(crate) fn recorded(trials: Vec<Trial>) -> Recorded {
        let grid = Grid::parse(
            "question = 'x'\nthreads = [1, 2]\nrepeats = 1\n[[block]]\nname = 'model'\nengines = ['mutex']",
        );
        let header = Header::new(&grid.unwrap(), 7, b"driver", Environment::record());
        Recorded { header, trials }
    }

    fn text_of(trials: Vec<Trial>) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.jsonl");
        recorded(trials).write(&path).unwrap();
        fs::read_to_string(&path).unwrap()
    }

    #[test]
    fn fairness_is_one_where_all_have_the_same_and_one_nth_where_one_has_all() {
        assert_eq!(jain(&[5, 5, 5]), 1.0);
        assert_eq!(jain(&[9, 0, 0]), 1.0 / 3.0);
        assert_eq!(jain(&[0, 0]), 1.0);
        // From the paper's definition: (1 + 3)² / (2 · (1 + 9)).
        assert_eq!(jain(&[1, 3]), 0.8);
    }

    #[test]
    fn a_file_comes_back_as_it_was_and_a_changed_digit_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/scaling.jsonl");
        let one = recorded(vec![trial("mutex", 1, 16, 2000.0, 1), trial("dashmap/8", 2, 16, 2500.0, 1)]);
        one.write(&path).unwrap();
        assert_eq!(Recorded::read(&path).unwrap(), one);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replacen("\"p50_ns\":16000", "\"p50_ns\":16001", 1)).unwrap();
        assert!(format!("{:#}", Recorded::read(&path).unwrap_err()).contains("not the file"));
    }

    #[test]
    fn trials_are_in_the_file_as_soon_as_they_are_done_and_a_run_that_ends_early_replaces_no_whole_file() {
        let folder = tempfile::tempdir().unwrap();
        let (path, partial) = (folder.path().join("x.jsonl"), folder.path().join("x.partial.jsonl"));
        let one = recorded(vec![trial("mutex", 1, 16, 2000.0, 1)]);
        one.write(&path).unwrap();
        assert!(!partial.exists());
        let mut growing = Growing::create(&path, &one.header).unwrap();
        growing.append(&one.trials[0]).unwrap();
        assert_eq!(fs::read_to_string(&partial).unwrap().lines().count(), 2, "a kill would lose nothing");
        growing.append(&one.trials[0]).unwrap();
        assert_eq!(growing.end_early().unwrap(), Some(partial.clone()));
        assert_eq!(
            (Recorded::read(&partial).unwrap().trials.len(), Recorded::read(&path).unwrap().trials.len()),
            (2, 1)
        );
        assert_eq!(Growing::create(&path, &one.header).unwrap().end_early().unwrap(), None);
        assert!(!partial.exists(), "nothing was measured");
        let error = Growing::create(Path::new("/proc/nowhere/x.jsonl"), &one.header).unwrap_err();
        assert!(format!("{error:#}").contains("cannot create"), "{error:#}");
    }

    #[test]
    fn counts_that_contradict_each_other_are_refused() {
        let mut one = trial("mutex", 1, 16, 2000.0, 1);
        one.found.requests += 16;
        let text = text_of(vec![one]);
        assert!(format!("{:#}", Recorded::parse(&text).unwrap_err()).contains("differ"));
        let mut one = trial("mutex", 1, 16, 2000.0, 1);
        one.found.mean_ns *= 2.0;
        let text = text_of(vec![one]);
        assert!(format!("{:#}", Recorded::parse(&text).unwrap_err()).contains("connections have"));
    }
}
