//! `loadgen compare`: the percentiles of several `.hlog` files side by side, the differences
//! relative to the first, and a plot of latency by percentile.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use comfy_table::CellAlignment;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

use crate::Error;
use crate::cli::CompareFlags;
use crate::record::value_at_percentile;
use crate::report::{millis, plain_table};

mod plot;

const PERCENTILES: [f64; 9] = [0.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 100.0];
const SIGNIFICANT_DIGITS: u8 = 3;

/// A histogram log, read and added up.
#[derive(Clone, Debug)]
pub struct Dump {
    /// Where it was read from.
    pub path: PathBuf,
    /// All its intervals (with the wanted tag), in nanoseconds.
    pub histogram: Histogram<u64>,
    /// From the first interval's begin to the last one's end.
    pub duration: Duration,
}

impl Dump {
    /// Reads a `.hlog` file, all tags or one. A log without such intervals is an error.
    pub fn read(path: &Path, tag: Option<&str>) -> Result<Self, Error> {
        let text = fs::read(path).map_err(|source| Error::file(path, source))?;
        let mut histogram = Histogram::new(SIGNIFICANT_DIGITS).expect("three digits are valid");
        let mut span: Option<(Duration, Duration)> = None;
        let mut deserializer = Deserializer::new();
        for entry in IntervalLogIterator::new(&text) {
            let entry = entry.map_err(|_| Error::format(path, "not a histogram log"))?;
            let LogEntry::Interval(interval) = entry else {
                continue;
            };
            if tag.is_some() && interval.tag().map(|tag| tag.as_str()) != tag {
                continue;
            }
            let part: Histogram<u64> = base64_histogram(interval.encoded_histogram(), &mut deserializer)
                .ok_or_else(|| Error::format(path, "an interval holds no valid histogram"))?;
            histogram.add(&part).map_err(|error| Error::format(path, error.to_string()))?;
            let (began, ended) = (interval.start_timestamp(), interval.start_timestamp() + interval.duration());
            span = Some(span.map_or((began, ended), |(first, last)| (first.min(began), last.max(ended))));
        }
        match span {
            Some((first, last)) => Ok(Self { path: path.to_owned(), histogram, duration: last - first }),
            None => Err(Error::format(
                path,
                tag.map_or("no intervals".to_owned(), |tag| format!("no intervals tagged {tag}")),
            )),
        }
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }
}

fn base64_histogram(encoded: &str, deserializer: &mut Deserializer) -> Option<Histogram<u64>> {
    use base64::Engine;
    let bytes = base64::engine::general_purpose::STANDARD.decode(encoded).ok()?;
    deserializer.deserialize(&mut bytes.as_slice()).ok()
}

/// Reads the files, prints the table, and writes the plot where one is wanted.
pub fn run(flags: &CompareFlags, out: &mut dyn Write) -> Result<(), Error> {
    let dumps = flags.files.iter().map(|path| Dump::read(path, flags.tag.as_deref())).collect::<Result<Vec<_>, _>>()?;
    print(&dumps, out).map_err(|source| Error::file(Path::new("stdout"), source))?;
    if let Some(path) = &flags.svg {
        fs::write(path, plot::latency_by_percentile(&dumps)).map_err(|source| Error::file(path, source))?;
    }
    Ok(())
}

fn print(dumps: &[Dump], out: &mut dyn Write) -> io::Result<()> {
    let mut table = plain_table();
    let mut header = vec!["latency, ms".to_owned(), dumps[0].name()];
    for dump in &dumps[1..] {
        header.extend([dump.name(), "difference".to_owned()]);
    }
    table.set_header(header);
    for percentile in PERCENTILES {
        let value = |dump: &Dump| value_at_percentile(&dump.histogram, percentile) as f64;
        table.add_row(row(dumps, &format!("p{percentile}"), value, |ns| millis(ns as u64)));
    }
    table.add_row(row(dumps, "mean", |dump| dump.histogram.mean(), |ns| millis(ns as u64)));
    table.add_row(row(dumps, "requests", |dump| dump.histogram.len() as f64, |count| format!("{count:.0}")));
    table.add_row(row(dumps, "requests/s", requests_per_second, |rate| format!("{rate:.0}")));
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    writeln!(out, "{table}")
}

fn row(dumps: &[Dump], name: &str, value: impl Fn(&Dump) -> f64, show: impl Fn(f64) -> String) -> Vec<String> {
    let first = value(&dumps[0]);
    let mut row = vec![name.to_owned(), show(first)];
    for dump in &dumps[1..] {
        row.extend([show(value(dump)), difference(first, value(dump))]);
    }
    row
}

fn difference(first: f64, other: f64) -> String {
    if first == 0.0 { "-".to_owned() } else { format!("{:+.1} %", (other / first - 1.0) * 100.0) }
}

fn requests_per_second(dump: &Dump) -> f64 {
    let seconds = dump.duration.as_secs_f64();
    if seconds > 0.0 { dump.histogram.len() as f64 / seconds } else { 0.0 }
}
