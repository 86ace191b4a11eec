//! `loadgen merge`: the files of several generators that ran at the same time, as one run.
//!
//! Seconds are matched by the clock: each log has its start time. If the clocks of hosts differ by more than a second,
//! so do their rows in the merged series; totals are not affected.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use hdrhistogram::Histogram;
use serde_json::Value as Json;

use crate::base::{Error, complain};
use crate::cli::MergeFlags;
use crate::record::{CommandStats, Outcome, Second, Verified, latency_histogram, value_at_percentile};
use crate::report::dump::{Log, LogInterval};
use crate::report::hdr::{HdrPaths, IntervalLog, write_distribution, write_total};
use crate::report::{Caveats, merged_json, seconds_of, unsent_text, write_csv, write_file};

/// The share of the time in which not all generators ran, above which the sum means little.
const APART_MAX: f64 = 0.2;

/// The files of one generator.
struct Input {
    name: String,
    latency: Log,
    service: Log,
    json: Json,
    caveats: Caveats,
}

/// Histograms by second since the first generator began, and by tag.
type Seconds = BTreeMap<(u64, String), Histogram<u64>>;

/// Reads all files, writes the merged ones, and prints what it did.
pub fn run(flags: &MergeFlags, out: &mut dyn Write) -> Result<(), Error> {
    refuse_same(&flags.prefixes, &flags.out)?;
    let inputs = flags.prefixes.iter().map(|prefix| Input::read(prefix)).collect::<Result<Vec<_>, _>>()?;
    let names = tags(&inputs);
    let base = inputs.iter().map(|input| input.latency.base).min().expect("the flags name two at least");
    let latency = seconds(base, inputs.iter().map(|input| &input.latency));
    let service = seconds(base, inputs.iter().map(|input| &input.service));
    let outcome = merged_outcome(&inputs, &names, base, &latency, &service)?;
    let caveats = merged_caveats(&inputs, outcome.duration);
    let paths = HdrPaths::from_prefix(&flags.out);
    HdrPaths::make_folder(&flags.out)?;
    let start = UNIX_EPOCH + base;
    for (path, seconds) in [(&paths.latency_log, &latency), (&paths.service_log, &service)] {
        let mut log = IntervalLog::create(path)?;
        log.write_header(start)?;
        for ((second, tag), histogram) in seconds {
            let began = Duration::from_secs(*second);
            let length = outcome.duration.saturating_sub(began).min(Duration::from_secs(1));
            log.write(histogram, began, length, tag)?;
        }
        log.complete(&caveats)?;
    }
    let by_name = || outcome.by_name().filter(|(_, stats)| stats.requests > 0);
    write_total(&paths.latency_total, start, &caveats, by_name().map(|(name, s)| (name, s.latency())))?;
    write_total(&paths.service_total, start, &caveats, by_name().map(|(name, s)| (name, &s.service)))?;
    let totals = outcome.totals();
    write_file(&paths.latency_distribution, |file| write_distribution(file, totals.latency()))?;
    write_file(&paths.csv, |file| write_csv(file, &outcome))?;
    let json = merged_json(&outcome, &caveats, &inputs.iter().map(|input| &input.json).collect::<Vec<_>>(), &paths);
    write_file(&paths.json, |file| writeln!(file, "{json:#}"))?;
    let ms = |percentile| value_at_percentile(totals.latency(), percentile) as f64 / 1e6;
    writeln!(
        out,
        "{} generators, {} requests, {:.0} ops/s, p50 {:.3} ms, p99 {:.3} ms, p99.9 {:.3} ms: {}",
        inputs.len(),
        totals.requests,
        outcome.per_second(totals.requests),
        ms(50.0),
        ms(99.0),
        ms(99.9),
        paths.json.display(),
    )
    .map_err(|source| Error::file(Path::new("stdout"), source))?;
    warn(&inputs, base, outcome.duration);
    Ok(())
}

/// Refuses prefixes of the same files, which would count a run twice; and what would overwrite a run with the sum.
fn refuse_same(prefixes: &[PathBuf], out: &Path) -> Result<(), Error> {
    let mut files = BTreeMap::new();
    for prefix in prefixes {
        let path = HdrPaths::from_prefix(prefix).json;
        let file = identity(&path).map_err(|source| Error::file(&path, source))?;
        if let Some(other) = files.insert(file, prefix) {
            return Err(Error::format(&path, format!("{} and {} are one run", other.display(), prefix.display())));
        }
    }
    let path = HdrPaths::from_prefix(out).json;
    match identity(&path).ok().and_then(|file| files.get(&file)) {
        Some(prefix) => Err(Error::format(&path, format!("--out is {}, one of the runs", prefix.display()))),
        None => Ok(()),
    }
}

/// What tells one file from another, whatever it is called.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::metadata(path).map(|file| (file.dev(), file.ino()))
}

impl Input {
    fn read(prefix: &Path) -> Result<Self, Error> {
        let paths = HdrPaths::from_prefix(prefix);
        let text = fs::read_to_string(&paths.json).map_err(|source| Error::file(&paths.json, source))?;
        let json: Json = serde_json::from_str(&text).map_err(|error| Error::format(&paths.json, error.to_string()))?;
        if json["format"] != "shardrace-loadgen/1" {
            return Err(Error::format(&paths.json, "not the JSON of a run"));
        }
        if json["config"]["run-count"].as_u64().is_some_and(|runs| runs > 1) {
            // Their rates would not add up, and the series does not say when each window began.
            let what = "a run with --run-count above 1: its windows are not at the same time as those of others";
            return Err(Error::format(&paths.json, what));
        }
        Ok(Self {
            name: prefix.display().to_string(),
            latency: Log::read(&paths.latency_log)?,
            service: Log::read(&paths.service_log)?,
            caveats: Caveats::of_json(&json),
            json,
        })
    }

    /// When its window began, since 1970, and how long that was.
    fn window(&self) -> (Duration, Duration) {
        (self.latency.base, seconds_of(&self.json["duration_s"]))
    }
}

/// All tags, in the order of first occurrence.
fn tags(inputs: &[Input]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for interval in inputs.iter().flat_map(|input| &input.latency.intervals) {
        let tag = tag(interval);
        if !names.contains(&tag) {
            names.push(tag);
        }
    }
    names
}

fn tag(interval: &LogInterval) -> String {
    interval.tag.clone().unwrap_or_else(|| "all".to_owned())
}

fn seconds<'a>(base: Duration, logs: impl Iterator<Item = &'a Log>) -> Seconds {
    let mut seconds = Seconds::new();
    for log in logs {
        let offset = log.base.saturating_sub(base);
        for interval in &log.intervals {
            let second = (offset + interval.began).as_secs();
            let merged = seconds.entry((second, tag(interval))).or_insert_with(latency_histogram);
            add(merged, &interval.histogram);
        }
    }
    seconds
}

/// A log of another maker may hold values beyond ours: they count as the longest.
fn add(total: &mut Histogram<u64>, other: &Histogram<u64>) {
    if total.add(other).is_err() {
        for step in other.iter_recorded() {
            total.saturating_record_n(step.value_iterated_to(), step.count_at_value());
        }
    }
}

fn merged_outcome(
    inputs: &[Input],
    names: &[String],
    base: Duration,
    latency: &Seconds,
    service: &Seconds,
) -> Result<Outcome, Error> {
    let mut outcome = Outcome::empty(names.to_vec(), true);
    outcome.started = UNIX_EPOCH + base;
    for input in inputs {
        let (began, length) = input.window();
        outcome.duration = outcome.duration.max(began + length - base);
        let generator = &input.json["generator"];
        outcome.cpu_user += seconds_of(&generator["cpu_user_s"]);
        outcome.cpu_system += seconds_of(&generator["cpu_system_s"]);
        outcome.add_verified(verified(&input.json["verified"]));
        for (name, stats) in names.iter().zip(&mut outcome.commands) {
            add_counts(stats, &input.json["commands"][name.as_str()]);
        }
    }
    for (name, stats) in names.iter().zip(&mut outcome.commands) {
        let own = |seconds: &Seconds, total: &mut Histogram<u64>| {
            seconds.iter().filter(|((_, tag), _)| tag == name).for_each(|(_, one)| add(total, one));
        };
        own(service, &mut stats.service);
        own(latency, stats.intended.get_or_insert_with(latency_histogram));
        if stats.requests != stats.service.len() {
            let what = format!(
                "{name}: the logs hold {} requests, the JSON files {}: are they of the same runs?",
                stats.service.len(),
                stats.requests
            );
            return Err(Error::format(&PathBuf::from(&inputs[0].name), what));
        }
    }
    outcome.series = series(inputs, base, latency, outcome.duration);
    Ok(outcome)
}

/// What the inputs lack, the sum lacks.
fn merged_caveats(inputs: &[Input], duration: Duration) -> Caveats {
    Caveats {
        measured: duration,
        is_interrupted: inputs.iter().any(|input| input.caveats.is_interrupted),
        unsent: inputs.iter().map(|input| input.caveats.unsent).sum(),
        errors: inputs.iter().map(|input| input.caveats.errors).sum(),
        faults: inputs.iter().flat_map(|input| input.caveats.faults.clone()).collect(),
    }
}

/// `None` without `--verify`.
fn verified(json: &Json) -> Option<Verified> {
    let count = |name: &str| json[name].as_u64();
    let first = json["first"].as_str().map(str::to_owned);
    Some(Verified { replies: count("replies")?, mismatches: count("mismatches")?, first })
}

fn add_counts(stats: &mut CommandStats, json: &Json) {
    let count = |name: &str| json[name].as_u64().unwrap_or(0);
    stats.requests += count("requests");
    stats.errors += count("errors");
    stats.hits += count("hits");
    stats.misses += count("misses");
    stats.bytes_sent += count("bytes_sent");
    stats.bytes_received += count("bytes_received");
}

fn series(inputs: &[Input], base: Duration, latency: &Seconds, duration: Duration) -> Vec<Second> {
    let mut merged: BTreeMap<u64, (Histogram<u64>, [u64; 3])> = BTreeMap::new();
    let nothing = || (latency_histogram(), [0; 3]);
    for ((second, _), one) in latency {
        add(&mut merged.entry(*second).or_insert_with(nothing).0, one);
    }
    for input in inputs {
        let offset = input.latency.base.saturating_sub(base);
        for row in input.json["series"].as_array().into_iter().flatten() {
            // By its begin, as intervals are: only then its counts and its histogram meet in one second.
            let second = (offset + begin_of(row)).as_secs();
            let counts = ["errors", "hits", "misses"].map(|name| row[name].as_u64().unwrap_or(0));
            if counts != [0; 3] {
                let own = &mut merged.entry(second).or_insert_with(nothing).1;
                own.iter_mut().zip(counts).for_each(|(own, count)| *own += count);
            }
        }
    }
    let row = |(second, (histogram, [errors, hits, misses])): (u64, (Histogram<u64>, [u64; 3]))| {
        let end_s = ((second + 1) as f64).min(duration.as_secs_f64());
        Second::new(end_s, &histogram, histogram.len(), errors, hits, misses)
    };
    merged.into_iter().map(row).collect()
}

/// When a row of a series began: at a whole second of its run, a second or less before its end.
fn begin_of(row: &Json) -> Duration {
    let end = seconds_of(&row["t_s"]);
    Duration::from_secs((end.as_secs_f64().ceil() as u64).saturating_sub(1))
}

/// Rates of runs that did not overlap do not add up.
fn warn(inputs: &[Input], base: Duration, duration: Duration) {
    let latest_start = inputs.iter().map(|input| input.window().0).max().unwrap_or(base);
    let ends = inputs.iter().map(|input| input.window().0 + input.window().1);
    let earliest_end = ends.min().unwrap_or(base);
    let together = earliest_end.saturating_sub(latest_start).as_secs_f64();
    let apart = 1.0 - together / duration.as_secs_f64().max(1e-9);
    if apart > APART_MAX {
        complain(format_args!(
            "warning: all generators ran together in only {:.0} % of the time: the rate is not what they reached",
            (1.0 - apart) * 100.0
        ));
    }
    inputs.iter().for_each(warn_of);
}

/// Says what makes one of the runs mean less than it seems to, and so the sum.
fn warn_of(input: &Input) {
    let Input { name, caveats, .. } = input;
    for fault in &caveats.faults {
        complain(format_args!("warning: {name} is INVALID: {fault}"));
    }
    if caveats.is_interrupted {
        complain(format_args!("warning: {name} was interrupted after {:.1} s", caveats.measured.as_secs_f64()));
    }
    if caveats.unsent > 0 {
        complain(format_args!("warning: {name}: {}", unsent_text(caveats.unsent)));
    }
    if caveats.errors > 0 {
        complain(format_args!("warning: {name}: {} of the replies were errors", caveats.errors));
    }
    match verified(&input.json["verified"]) {
        Some(Verified { replies, mismatches, .. }) if mismatches > 0 => {
            complain(format_args!("warning: {name}: {mismatches} of {replies} replies are not what the model has"))
        }
        _ => {}
    }
}
