//! HDR histogram files, as the Java, Python and Go libraries write and read them.
//!
//! ```text
//! PREFIX.hlog           latency from the intended start, an interval a second, tagged with the command's name
//! PREFIX.total.hlog     latency, one interval: the whole run
//! PREFIX.service.hlog, PREFIX.service.total.hlog      service time, the same way
//! PREFIX.hgrm           latency, the whole run and all commands, as a percentile distribution
//! ```
//! Histograms hold nanoseconds; the maximum on each line of a log, and the distribution, are in
//! milliseconds. Each log ends with [`Caveats`] on its run.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, IntervalLogWriterError, Tag};

use crate::base::Error;
pub use crate::config::HdrPaths;
use crate::record::{CommandStats, Interval, Outcome};
use crate::report::Caveats;
use crate::report::complete_file::{PartialFile, write_file};
use crate::report::csv::write_csv;

const NS_PER_MS: f64 = 1e6;
const TICKS_PER_HALF_DISTANCE: u32 = 5;

/// The files of a run, written during the run.
pub struct HdrFiles {
    paths: HdrPaths,
    latency: IntervalLog,
    service: IntervalLog,
    names: Vec<String>,
    first_window: Option<SystemTime>,
    window_offset: Duration,
}

impl HdrFiles {
    /// Creates the files for the commands with these names, so that a bad path fails before the run and not after it.
    pub fn create(prefix: &Path, names: Vec<String>) -> Result<Self, Error> {
        let paths = HdrPaths::from_prefix(prefix);
        Ok(Self {
            latency: IntervalLog::create(&paths.latency_log)?,
            service: IntervalLog::create(&paths.service_log)?,
            paths,
            names,
            first_window: None,
            window_offset: Duration::ZERO,
        })
    }

    /// A measured window begins. Times in the logs count from the first one.
    pub fn window_begins(&mut self, at: SystemTime) -> Result<(), Error> {
        match self.first_window {
            Some(first) => self.window_offset = at.duration_since(first).unwrap_or(self.window_offset),
            None => {
                self.first_window = Some(at);
                self.latency.write_header(at)?;
                self.service.write_header(at)?;
            }
        }
        Ok(())
    }

    /// Appends an interval that began `began` after its window did.
    pub fn interval(&mut self, interval: &Interval, began: Duration, length: Duration) -> Result<(), Error> {
        for (name, stats) in self.names.iter().zip(&interval.commands) {
            let began = self.window_offset + began;
            if stats.requests > 0 {
                self.latency.write(stats.latency(), began, length, name)?;
                self.service.write(&stats.service, began, length, name)?;
            }
        }
        // A run that is killed leaves its measurements so far under another name.
        self.latency.flush()?;
        self.service.flush()
    }

    /// Writes the distribution, the totals and the seconds. The logs of intervals are complete, and
    /// take their names.
    pub fn finish(self, outcome: &Outcome) -> Result<(), Error> {
        let caveats = Caveats::of(outcome);
        self.latency.complete(&caveats)?;
        self.service.complete(&caveats)?;
        let totals: CommandStats = outcome.totals();
        write_file(&self.paths.latency_distribution, |file| write_distribution(file, totals.latency()))?;
        write_file(&self.paths.csv, |file| write_csv(file, outcome))?;
        let start = self.first_window.unwrap_or(outcome.started);
        let counted: Vec<_> = outcome.by_name().filter(|(_, stats)| stats.requests > 0).collect();
        let latency = counted.iter().map(|&(name, stats)| (name, stats.latency()));
        write_total(&self.paths.latency_total, start, &caveats, latency)?;
        let service = counted.iter().map(|&(name, stats)| (name, &stats.service));
        write_total(&self.paths.service_total, start, &caveats, service)
    }
}

/// A log of one interval, the whole run, with a line for each command.
pub(crate) fn write_total<'a>(
    path: &Path,
    start: SystemTime,
    caveats: &Caveats,
    histograms: impl Iterator<Item = (&'a str, &'a Histogram<u64>)>,
) -> Result<(), Error> {
    let mut log = IntervalLog::create(path)?;
    log.write_header(start)?;
    for (name, histogram) in histograms {
        log.write(histogram, Duration::ZERO, caveats.measured, name)?;
    }
    log.complete(caveats)
}

/// One `.hlog` file.
pub(crate) struct IntervalLog {
    path: PathBuf,
    file: PartialFile,
    serializer: V2DeflateSerializer,
    scratch: Vec<u8>,
}

impl IntervalLog {
    pub(crate) fn create(path: &Path) -> Result<Self, Error> {
        Ok(Self {
            path: path.to_owned(),
            file: PartialFile::create(path)?,
            serializer: V2DeflateSerializer::new(),
            scratch: Vec::new(),
        })
    }

    pub(crate) fn write_header(&mut self, start: SystemTime) -> Result<(), Error> {
        let mut builder = IntervalLogWriterBuilder::new();
        builder
            .add_comment("[Histogram log format version 1.3]")
            .add_comment("[Values in nanoseconds]")
            .with_start_time(start)
            .with_base_time(start)
            .with_max_value_divisor(NS_PER_MS);
        builder
            .begin_log_with(&mut self.file, &mut self.serializer)
            .map(drop)
            .and_then(|()| {
                self.file.write_all(
                    b"\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n",
                )
            })
            .map_err(|source| Error::file(&self.path, source))
    }

    pub(crate) fn write(
        &mut self,
        histogram: &Histogram<u64>,
        began: Duration,
        length: Duration,
        tag: &str,
    ) -> Result<(), Error> {
        self.scratch.clear();
        self.format_line(histogram, began, length, tag)
            .map_err(|error| Error::format(&self.path, error.to_string()))?;
        // The library's writer repeats its divisor each time; once is enough.
        let line = self.scratch.split_inclusive(|&byte| byte == b'\n').find(|line| !line.starts_with(b"#"));
        let line = line.expect("a histogram was written");
        self.file.write_all(line).map_err(|source| Error::file(&self.path, source))
    }

    fn format_line(
        &mut self,
        histogram: &Histogram<u64>,
        began: Duration,
        length: Duration,
        tag: &str,
    ) -> Result<(), IntervalLogWriterError<hdrhistogram::serialization::V2DeflateSerializeError>> {
        let tag = Tag::new(tag).expect("command names hold no comma, space or line end");
        IntervalLogWriterBuilder::new()
            .with_max_value_divisor(NS_PER_MS)
            .begin_log_with(&mut self.scratch, &mut self.serializer)?
            .write_histogram(histogram, began, length, Some(tag))
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.file.flush().map_err(|source| Error::file(&self.path, source))
    }

    pub(crate) fn complete(mut self, caveats: &Caveats) -> Result<(), Error> {
        caveats.write(&mut self.file).map_err(|source| Error::file(&self.path, source))?;
        self.file.complete()
    }
}

/// Writes a percentile distribution in the form of Java's `outputPercentileDistribution`, in
/// milliseconds.
pub fn write_distribution(out: &mut dyn Write, histogram: &Histogram<u64>) -> io::Result<()> {
    writeln!(out, "{:>12} {:>14} {:>10} {:>14}\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)")?;
    let mut total = 0;
    for step in histogram.iter_quantiles(TICKS_PER_HALF_DISTANCE) {
        total += step.count_since_last_iteration();
        let value = step.value_iterated_to() as f64 / NS_PER_MS;
        let quantile = step.quantile_iterated_to();
        if quantile < 1.0 {
            writeln!(out, "{value:12.3} {quantile:2.12} {total:>10} {:14.2}", 1.0 / (1.0 - quantile))?;
        } else {
            writeln!(out, "{value:12.3} {quantile:2.12} {total:>10}")?;
        }
    }
    let sub_buckets = (2 * 10_u64.pow(u32::from(histogram.sigfig()))).next_power_of_two();
    writeln!(
        out,
        "#[Mean    = {:12.3}, StdDeviation   = {:12.3}]",
        histogram.mean() / NS_PER_MS,
        histogram.stdev() / NS_PER_MS
    )?;
    writeln!(
        out,
        "#[Max     = {:12.3}, Total count    = {:>12}]",
        histogram.max() as f64 / NS_PER_MS,
        histogram.len()
    )?;
    writeln!(out, "#[Buckets = {:>12}, SubBuckets     = {sub_buckets:>12}]", histogram.buckets())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::dump::Log;

    #[test]
    fn each_log_of_an_invalid_run_says_so() {
        let directory = tempfile::tempdir().expect("a directory");
        let prefix = directory.path().join("run");
        let names = vec!["GET".to_owned()];
        let mut outcome = Outcome::empty(names.clone(), false);
        outcome.health.busy_max = 0.99;
        outcome.duration = Duration::from_millis(2500);
        outcome.commands[0].requests = 1;
        outcome.commands[0].service.record(1000).expect("in range");
        let interval = Interval { index: 0, commands: outcome.commands.clone(), targets: Vec::new(), slices: [0; 10] };
        let mut files = HdrFiles::create(&prefix, names).expect("created");
        files.window_begins(SystemTime::now()).expect("written");
        files.interval(&interval, Duration::ZERO, Duration::from_secs(1)).expect("written");
        files.finish(&outcome).expect("written");
        let paths = HdrPaths::from_prefix(&prefix);
        for path in [paths.latency_log, paths.latency_total, paths.service_log, paths.service_total] {
            let caveats = Log::read(&path).expect("a log").caveats.expect("it says something of its run");
            assert_eq!((caveats.measured, caveats.faults.len()), (outcome.duration, 1), "{}", path.display());
            assert!(caveats.faults[0].contains("busy 99 %"), "{caveats:?}");
        }
    }
}
