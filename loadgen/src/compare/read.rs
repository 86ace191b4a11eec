//! A histogram log as one run: its latencies, how long it measured, and what makes them mean less than they seem to.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::Value as Json;

use super::empty_histogram;
use crate::base::Error;
use crate::report::Caveats;
use crate::report::dump::{Log, LogInterval};

/// Endings of a run's logs.
const ENDINGS: [&str; 4] = [".service.total.hlog", ".total.hlog", ".service.hlog", ".hlog"];
/// The log's and the JSON's start of one run differ by less.
const START_APART_MS_MAX: u128 = 1000;

/// A histogram log, read and added up.
#[derive(Clone, Debug)]
pub struct Dump {
    /// Where it was read from.
    pub path: PathBuf,
    /// All its intervals (with the wanted tag), in nanoseconds.
    pub histogram: Histogram<u64>,
    /// How long the run measured, all tags together.
    pub duration: Duration,
    /// What its run says of itself; nothing if it is not known.
    pub caveats: Caveats,
}

impl Dump {
    /// Reads a `.hlog` file, all tags or one. A log without such intervals is an error.
    pub fn read(path: &Path, tag: Option<&str>) -> Result<Self, Error> {
        let log = Log::read(path)?;
        let is_wanted = |interval: &&LogInterval| tag.is_none() || interval.tag.as_deref() == tag;
        let wanted: Vec<_> = log.intervals.iter().filter(is_wanted).collect();
        if wanted.is_empty() {
            let what = tag.map_or("no intervals".to_owned(), |tag| format!("no intervals tagged {tag}"));
            return Err(Error::format(path, what));
        }
        let mut histogram = empty_histogram();
        for interval in wanted {
            histogram.add(&interval.histogram).map_err(|error| Error::format(path, error.to_string()))?;
        }
        let prefix = prefix_of(path);
        let json = prefix.as_deref().and_then(|prefix| json_of(prefix, &log));
        let caveats = json.map(|json| Caveats::of_json(&json)).or_else(|| log.caveats.clone());
        let said = caveats.as_ref().map(|caveats| caveats.measured).filter(|measured| !measured.is_zero());
        let duration =
            said.or_else(|| total_length(prefix.as_deref()?, &log)).unwrap_or_else(|| covered(&log.intervals));
        Ok(Self { path: path.to_owned(), histogram, duration, caveats: caveats.unwrap_or_default() })
    }
}

/// The prefix of the files of the log's run.
fn prefix_of(log: &Path) -> Option<PathBuf> {
    let name = log.file_name()?.to_str()?;
    ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)).map(|name| log.with_file_name(name))
}

/// The file of the same prefix with this ending.
fn beside(prefix: &Path, ending: &str) -> PathBuf {
    let mut path = prefix.as_os_str().to_owned();
    path.push(ending);
    path.into()
}

/// The JSON beside the log. One of another run is none: it may be left over from before.
fn json_of(prefix: &Path, log: &Log) -> Option<Json> {
    let text = fs::read_to_string(beside(prefix, ".json")).ok()?;
    let json: Json = serde_json::from_str(&text).ok()?;
    let started_ms = u128::from(json["started_unix_ms"].as_u64()?);
    let is_of_log = started_ms.abs_diff(log.base.as_millis()) < START_APART_MS_MAX
        && json["totals"]["requests"].as_u64() == Some(requests(log));
    is_of_log.then_some(json)
}

/// The length that the log of totals beside this one has: earlier versions wrote seconds without replies nowhere else.
fn total_length(prefix: &Path, log: &Log) -> Option<Duration> {
    let total = Log::read(&beside(prefix, ".total.hlog")).ok()?;
    let is_of_log = total.base == log.base && requests(&total) == requests(log);
    is_of_log.then(|| covered(&total.intervals)).filter(|length| !length.is_zero())
}

fn requests(log: &Log) -> u64 {
    log.intervals.iter().map(|interval| interval.histogram.len()).sum()
}

/// The time that intervals cover: those of several tags cover the same time, and pauses between them are not measured.
fn covered(intervals: &[LogInterval]) -> Duration {
    let mut spans: Vec<_> = intervals.iter().map(|one| (one.began, one.began.saturating_add(one.length))).collect();
    spans.sort_unstable();
    let (mut covered, mut until) = (Duration::ZERO, Duration::ZERO);
    for (began, end) in spans {
        covered += end.saturating_sub(began.max(until));
        until = until.max(end);
    }
    covered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_of_several_tags_cover_their_time_once_and_pauses_not_at_all() {
        let interval = |began_ms, length_ms| LogInterval {
            tag: None,
            began: Duration::from_millis(began_ms),
            length: Duration::from_millis(length_ms),
            histogram: empty_histogram(),
        };
        let intervals = [(0, 1000), (0, 1000), (1000, 500), (1000, 500), (3500, 1000), (3800, 100), (4000, 1000)];
        let intervals = intervals.map(|(began_ms, length_ms)| interval(began_ms, length_ms));
        assert_eq!(covered(&intervals), Duration::from_millis(3000));
        assert_eq!(covered(&[]), Duration::ZERO);
    }

    #[test]
    fn each_log_of_a_run_has_its_prefix() {
        for ending in ENDINGS {
            assert_eq!(prefix_of(Path::new(&format!("runs/a.b{ending}"))), Some(PathBuf::from("runs/a.b")));
        }
        assert_eq!(prefix_of(Path::new("runs/a.txt")), None);
    }
}
