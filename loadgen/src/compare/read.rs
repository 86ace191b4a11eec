//! A histogram log as one run: its latencies, and what makes them mean less than they seem to.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::Value as Json;

use super::empty_histogram;
use crate::base::Error;
use crate::report::Notes;
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
    /// From the first interval's begin to the last one's end.
    pub duration: Duration,
    /// What its run says of itself; nothing if it is not known.
    pub notes: Notes,
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
        for interval in &wanted {
            histogram.add(&interval.histogram).map_err(|error| Error::format(path, error.to_string()))?;
        }
        let prefix = prefix_of(path);
        let json = prefix.as_deref().and_then(|prefix| json_of(prefix, &log));
        let notes = json.map(|json| Notes::of_json(&json)).or_else(|| log.notes.clone());
        let first = wanted.iter().map(|interval| interval.began).min().unwrap_or_default();
        let last = wanted.iter().map(|interval| interval.began + interval.length).max().unwrap_or_default();
        let duration = last.saturating_sub(first);
        Ok(Self { path: path.to_owned(), histogram, duration, notes: notes.unwrap_or_default() })
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

fn requests(log: &Log) -> u64 {
    log.intervals.iter().map(|interval| interval.histogram.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_log_of_a_run_has_its_prefix() {
        for ending in ENDINGS {
            assert_eq!(prefix_of(Path::new(&format!("runs/a.b{ending}"))), Some(PathBuf::from("runs/a.b")));
        }
        assert_eq!(prefix_of(Path::new("runs/a.txt")), None);
    }
}
