//! The load generator as a child process: its arguments for prefill and measurement, and the JSON it leaves.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::base::interrupt::Interrupt;
use crate::measuring::process::{OwnedChild, RunningServer, tail_of};
use crate::measuring::sampler::Sample;
use crate::plan::catalog::Program;
use crate::plan::point::Point;
use crate::plan::sweep::Sweep;

/// The layout of the generator's JSON that this crate reads.
pub(crate) const FORMAT: &str = "shardrace-loadgen/1";

/// How long a run of the generator may take beyond warm-up and window: connecting, writing its files.
const SLACK: Duration = Duration::from_secs(60);
/// The end of the name of the generator's JSON.
const JSON_ENDING: &str = ".loadgen.json";
const PREFILL_LIMIT: Duration = Duration::from_secs(600);
const SAMPLE_EVERY: Duration = Duration::from_millis(50);

/// The part of the generator's JSON that the report needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// [`FORMAT`].
    pub format: String,
    /// When the window began, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Length of the window.
    pub duration_s: f64,
    /// Over all commands.
    pub totals: Totals,
    /// By command, in capital letters.
    #[serde(default)]
    pub commands: BTreeMap<String, Totals>,
    /// The generator's own cost.
    pub generator: GeneratorCost,
    /// Second by second.
    #[serde(default)]
    pub series: Vec<SeriesRow>,
    /// Replies by tenths of a second; the last one may cover less, or more.
    #[serde(default)]
    pub slices_100ms: Vec<u64>,
    /// Why the generator calls its own measurement invalid; empty if it does not.
    #[serde(default)]
    pub faults: Vec<String>,
    /// Requests of an open loop that were due and never sent: the latency of those that were says less than it seems.
    #[serde(default)]
    pub unsent: u64,
    /// What each connection got; `None` if they were not counted separately.
    #[serde(default)]
    pub connections: Option<Connections>,
}

/// How evenly the connections were served.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Connections {
    /// How many there were.
    pub count: u32,
    /// Those that got a reply.
    pub served: u32,
    /// Replies per second of each connection.
    pub ops_per_sec: Spread,
    /// Mean latency of each connection that got a reply.
    pub mean_latency_us: Option<Spread>,
}

/// A figure over the connections.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle one.
    pub median: f64,
    /// The greatest.
    pub max: f64,
    /// Jain's index: 1 if all are the same, 1/n if one of n has everything.
    pub jain: f64,
}

/// One second of the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SeriesRow {
    /// Replies in it.
    pub ops: u64,
}

/// Results over the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Replies received.
    pub requests: u64,
    /// Error replies among them.
    pub errors: u64,
    /// GETs that found a value.
    pub hits: u64,
    /// GETs that found none.
    pub misses: u64,
    /// Replies per second.
    pub ops_per_sec: f64,
    /// Latency by name of the statistic, `p50` to `max`.
    pub latency_us: BTreeMap<String, f64>,
}

/// The cost of the generator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GeneratorCost {
    /// CPU time per request.
    pub cpu_us_per_op: f64,
    /// Threads it ran on.
    pub threads: u32,
    /// How late requests left that could have left in time, by name of the statistic; `None` in a closed loop.
    #[serde(default)]
    pub schedule_lag_us: Option<BTreeMap<String, f64>>,
}

/// The files of one attempt: all begin with the same prefix.
#[derive(Debug, Clone)]
pub struct OutputFiles {
    prefix: PathBuf,
}

impl Totals {
    /// A latency statistic; an error names the one that is missing.
    pub(crate) fn latency_us(&self, statistic: &str) -> Result<f64> {
        let value = self.latency_us.get(statistic);
        value.copied().with_context(|| format!("the generator's JSON has no latency {statistic}"))
    }
}

impl GeneratorCost {
    /// A statistic of its lag; `None` in a closed loop.
    pub(crate) fn lag_us(&self, statistic: &str) -> Option<f64> {
        self.schedule_lag_us.as_ref()?.get(statistic).copied()
    }
}

impl Measurement {
    /// Reads the JSON at `path` and checks that it measured something.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let found: Self = serde_json::from_str(&text).with_context(|| format!("in {}", path.display()))?;
        ensure!(found.format == FORMAT, "{} has the format {:?}, not {FORMAT:?}", path.display(), found.format);
        ensure!(found.totals.requests > 0, "{}: the generator got no reply in its window", path.display());
        Ok(found)
    }

    /// The larger of GET's and SET's statistic, if commands of several keys ran beside them.
    pub(crate) fn single_key_latency_us(&self, statistic: &str) -> Option<f64> {
        let ran = |name: &&str| self.commands.get(*name).filter(|command| command.requests > 0);
        ["MGET", "MSET"].iter().find_map(ran)?;
        let latencies = ["GET", "SET"].iter().filter_map(ran).filter_map(|one| one.latency_us(statistic).ok());
        latencies.reduce(f64::max)
    }

    /// Replies in each whole tenth of a second of the window.
    pub(crate) fn slices(&self) -> &[u64] {
        // The generator's last row is the rest of the window.
        let whole = (self.duration_s * 10.0 + 1e-6) as usize;
        &self.slices_100ms[..whole.min(self.slices_100ms.len())]
    }

    /// The window in seconds since 1970.
    pub(crate) fn window(&self) -> (f64, f64) {
        let start = self.started_unix_ms as f64 / 1e3;
        (start, start + self.duration_s)
    }
}

impl OutputFiles {
    /// Files that begin with `prefix`.
    pub(crate) fn new(prefix: PathBuf) -> Self {
        Self { prefix }
    }

    /// The generator's JSON.
    pub(crate) fn json(&self) -> PathBuf {
        self.with_ending(JSON_ENDING)
    }

    /// The server's output.
    pub(crate) fn server_log(&self) -> PathBuf {
        self.with_ending(".server.log")
    }

    /// The histograms over the whole window, one for each command, beside the generator's JSON.
    pub(crate) fn totals_log(json: &Path) -> PathBuf {
        let name = json.file_name().unwrap_or_default().to_string_lossy();
        json.with_file_name(name.replace(JSON_ENDING, ".total.hlog"))
    }

    fn generator_log(&self) -> PathBuf {
        self.with_ending(".loadgen.log")
    }

    fn with_ending(&self, ending: &str) -> PathBuf {
        let mut path = self.prefix.clone().into_os_string();
        path.push(ending);
        path.into()
    }
}

/// Sets every key of the key space once. The generator does it before its window, which a single request keeps short.
pub(crate) fn prefill(
    generator: &Program,
    server: &mut RunningServer,
    sweep: &Sweep,
    point: &Point,
    files: &OutputFiles,
    interrupt: &Interrupt,
) -> Result<()> {
    let mut arguments = common_arguments(server.address(), sweep, point);
    arguments.extend(["--prefill", "--clients", "1", "--requests", "1"].map(str::to_owned));
    if !point.has_own_commands() {
        // The parameters of a pattern are refused without it.
        arguments.extend(["--ratio", "0:1", "--key-pattern", &point.key_pattern].map(str::to_owned));
    }
    run(generator, &arguments, server, &files.generator_log(), PREFILL_LIMIT, interrupt).map(drop)
}

/// Runs warm-up and window, and returns the readings taken during them.
pub(crate) fn measure(
    generator: &Program,
    server: &mut RunningServer,
    sweep: &Sweep,
    point: &Point,
    files: &OutputFiles,
    interrupt: &Interrupt,
) -> Result<Vec<Sample>> {
    let mut arguments = common_arguments(server.address(), sweep, point);
    let of_requests = [("--ratio", point.ratio.to_string()), ("--key-pattern", point.key_pattern.clone())];
    let values = [
        ("--clients", point.clients.to_string()),
        // Each thread needs a connection.
        ("--threads", sweep.threads.min(point.clients).to_string()),
        ("--pipeline", point.pipeline.to_string()),
        ("--warm-up", sweep.warm_up_seconds.to_string()),
        ("--test-time", sweep.test_seconds.to_string()),
        ("--json-out-file", files.json().display().to_string()),
        ("--hdr-file-prefix", files.prefix.display().to_string()),
    ];
    let of_requests = of_requests.into_iter().filter(|_| !point.has_own_commands());
    for (flag, value) in of_requests.chain(values) {
        arguments.extend([flag.to_owned(), value]);
    }
    let limit = Duration::from_secs_f64(sweep.warm_up_seconds + sweep.test_seconds) + SLACK;
    run(generator, &arguments, server, &files.generator_log(), limit, interrupt)
}

/// The target, and the form of keys and values, unless a workload determines it.
fn common_arguments(address: SocketAddr, sweep: &Sweep, point: &Point) -> Vec<String> {
    let target = [("--server", address.ip().to_string()), ("--port", address.port().to_string())];
    let data = [("--data-size", point.data_size.to_string()), ("--key-maximum", sweep.keys_of(point).to_string())];
    let data = data.into_iter().filter(|_| !point.has_own_commands());
    let own = target.into_iter().chain(data).flat_map(|(flag, value)| [flag.to_owned(), value]);
    own.chain(point.loadgen.iter().flat_map(|(flag, value)| value.words(flag))).collect()
}

/// Runs the generator to its end, reading all counters meanwhile.
fn run(
    generator: &Program,
    arguments: &[String],
    server: &mut RunningServer,
    log: &Path,
    limit: Duration,
    interrupt: &Interrupt,
) -> Result<Vec<Sample>> {
    let output = File::create(log).with_context(|| format!("cannot create {}", log.display()))?;
    let errors = output.try_clone().with_context(|| format!("cannot share {}", log.display()))?;
    let mut child =
        OwnedChild::spawn(&generator.path, arguments.to_vec(), |command| command.stdout(output).stderr(errors))?;
    let end = Instant::now() + limit;
    let mut samples = Vec::new();
    while Instant::now() < end {
        server.ensure_alive()?;
        // Before asking for the exit status, which ends the child's entry in /proc.
        samples.push(Sample::take(server.pid(), child.pid())?);
        if let Some(status) = child.0.try_wait().context("cannot wait for the generator")? {
            server.ensure_alive()?;
            if !status.success() {
                let what = format!("the generator failed ({status}) against {}", server.address());
                let tail = tail_of(log);
                note(log, &what)?;
                bail!("{what}; {tail}");
            }
            return Ok(samples);
        }
        interrupt.sleep(SAMPLE_EVERY)?;
    }
    bail!("the generator did not end within {limit:?} against {}; {}", server.address(), tail_of(log))
}

/// Appends a line to a log. On a full disk that fails, too, and says why the log does not.
fn note(log: &Path, what: &str) -> Result<()> {
    let written = File::options().append(true).open(log).and_then(|mut file| writeln!(file, "lab: {what}"));
    written.with_context(|| format!("{what}; cannot write to {}", log.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_that_a_full_disk_keeps_out_of_the_log_is_told_with_that() {
        let error = note(Path::new("/dev/full"), "the generator failed").unwrap_err();
        let told = format!("{error:#}");
        assert!(told.contains("the generator failed; cannot write to /dev/full: No space left on device"), "{told}");
    }
}
