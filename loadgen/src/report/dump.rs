//! Histogram logs, read back interval by interval.
//!
//! ```
//! use loadgen::record::{latency_histogram, value_at_percentile};
//! use loadgen::report::dump::Log;
//!
//! let log = Log::read("tests/golden/run.hlog".as_ref())?;
//! let mut reads = latency_histogram();
//! for interval in log.intervals.iter().filter(|interval| interval.tag.as_deref() == Some("GET")) {
//!     reads.add(&interval.histogram).expect("all logs have the same bounds");
//! }
//! assert_eq!(reads.len(), 3000);
//! println!("p99: {} ns", value_at_percentile(&reads, 99.0));
//! # Ok::<(), loadgen::Error>(())
//! ```

use std::fs;
use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

use crate::base::Error;
use crate::report::Caveats;

/// A `.hlog` file.
#[derive(Clone, Debug)]
pub struct Log {
    /// The time from which its intervals count, since 1970.
    pub base: Duration,
    /// In the order of the file.
    pub intervals: Vec<LogInterval>,
    /// What it says of its run, if a run of this program wrote it to its end.
    pub caveats: Option<Caveats>,
}

/// A line of the log.
#[derive(Clone, Debug)]
pub struct LogInterval {
    /// The command, if the log has tags.
    pub tag: Option<String>,
    /// Since the log's base.
    pub began: Duration,
    /// Its length.
    pub length: Duration,
    /// Latencies in nanoseconds.
    pub histogram: Histogram<u64>,
}

impl Log {
    /// Reads a file. One without intervals is an error.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = fs::read(path).map_err(|source| Error::file(path, source))?;
        let (mut start, mut base) = (Duration::ZERO, None);
        let mut intervals = Vec::new();
        let mut deserializer = Deserializer::new();
        for entry in IntervalLogIterator::new(&text) {
            match entry.map_err(|_| Error::format(path, "not a histogram log"))? {
                LogEntry::StartTime(time) => start = time,
                LogEntry::BaseTime(time) => base = Some(time),
                LogEntry::Interval(line) => {
                    let histogram = decode(line.encoded_histogram(), &mut deserializer)
                        .ok_or_else(|| Error::format(path, "an interval holds no valid histogram"))?;
                    intervals.push(LogInterval {
                        tag: line.tag().map(|tag| tag.as_str().to_owned()),
                        began: line.start_timestamp(),
                        length: line.duration(),
                        histogram,
                    });
                }
            }
        }
        if intervals.is_empty() {
            return Err(Error::format(path, "no intervals"));
        }
        Ok(Self { base: base.unwrap_or(start), intervals, caveats: Caveats::read(&text) })
    }
}

fn decode(encoded: &str, deserializer: &mut Deserializer) -> Option<Histogram<u64>> {
    let bytes = STANDARD.decode(encoded).ok()?;
    deserializer.deserialize(&mut bytes.as_slice()).ok()
}
