//! The histograms of the percentiles of a run: `latencies.jsonl`, so that anyone can compute them again.
//!
//! ```text
//! {"trial":"clients/actor.no-aof.c1.p1.r1-1.d64.kR-R/r01","histogram":"HISTFAAA…"}
//! {"trial":"multi-key/…/r01","command":"GET","histogram":"HISTFAAA…"}
//! ```
//!
//! A line holds the latencies of all commands of a trial in nanoseconds; further lines those of GET and SET alone, if a
//! figure is made of them. The histograms are in HdrHistogram's compressed form (V2, deflated, base64), which the Java,
//! Python and Go libraries read too: some hundred bytes to a few thousand each. The first line of `trials.jsonl` has
//! the digest of the file.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use loadgen::record::value_at_percentile;
use loadgen::report::dump::Log;
use serde::{Deserialize, Serialize};

use crate::results::observation::{Observation, rounded};

/// A histogram, and its command; `None` for all commands.
type OfCommand = (Option<String>, Histogram<u64>);

/// A histogram in the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The trial, as named in `trials.jsonl`.
    pub trial: String,
    /// The command of the latencies; `None` for all commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// HdrHistogram's compressed form in base64.
    pub histogram: String,
}

/// The lines of a trial, from the log of its generator with one histogram for each command. Empty without such a log.
pub fn lines_of(one: &Observation, log: &Path) -> Result<Vec<Line>> {
    if !log.exists() {
        return Ok(Vec::new());
    }
    let read = Log::read(log).with_context(|| format!("cannot read {}", log.display()))?;
    let mut all: Option<Histogram<u64>> = None;
    let mut lines = Vec::new();
    for interval in read.intervals {
        let command = interval.tag.filter(|tag| one.single_key_p99_us.is_some() && is_single_key(tag));
        if let Some(command) = command {
            lines.push(line(&one.trial, Some(command), &interval.histogram)?);
        }
        match &mut all {
            None => all = Some(interval.histogram),
            Some(all) => all.add(interval.histogram).context("the histograms of a log have equal bounds")?,
        }
    }
    let all = all.with_context(|| format!("{} holds no histogram", log.display()))?;
    lines.insert(0, line(&one.trial, None, &all)?);
    Ok(lines)
}

fn is_single_key(command: &str) -> bool {
    ["GET", "SET"].contains(&command)
}

fn line(trial: &str, command: Option<String>, histogram: &Histogram<u64>) -> Result<Line> {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(histogram, &mut bytes).context("cannot write a histogram")?;
    Ok(Line { trial: trial.to_owned(), command, histogram: STANDARD.encode(bytes) })
}

/// The text of `latencies.jsonl`.
pub fn to_text(lines: &[Line]) -> Result<String> {
    let mut text = String::new();
    for line in lines {
        text.push_str(&serde_json::to_string(line).context("cannot write a result as JSON")?);
        text.push('\n');
    }
    Ok(text)
}

/// What differs from the histograms in `text`, in words, for each trial of `trials`.
pub fn differences(text: &str, trials: &[Observation]) -> Result<Vec<String>> {
    let mut by_trial: BTreeMap<String, Vec<OfCommand>> = BTreeMap::new();
    let mut deserializer = Deserializer::new();
    for (index, line) in text.lines().enumerate() {
        let line: Line = serde_json::from_str(line).with_context(|| format!("in line {}", index + 1))?;
        let bytes = STANDARD.decode(&line.histogram).with_context(|| format!("in line {}", index + 1))?;
        let histogram = deserializer.deserialize(&mut bytes.as_slice());
        let histogram = histogram.with_context(|| format!("line {} holds no histogram", index + 1))?;
        by_trial.entry(line.trial).or_default().push((line.command, histogram));
    }
    let mut found = Vec::new();
    for one in trials {
        let own = by_trial.remove(&one.trial).unwrap_or_default();
        if let Err(error) = check(one, &own) {
            found.push(format!("{}: {error}", one.trial));
        }
    }
    found.extend(by_trial.keys().map(|trial| format!("{trial}: there are histograms and no such trial")));
    Ok(found)
}

fn check(one: &Observation, own: &[(Option<String>, Histogram<u64>)]) -> Result<()> {
    let all = own.iter().find(|(command, _)| command.is_none()).context("it has no histogram")?;
    let all = &all.1;
    ensure!(all.len() == one.requests, "{} latencies of {} requests", all.len(), one.requests);
    for (name, percentile, stated) in
        [("p50", 50.0, one.p50_us), ("p99", 99.0, one.p99_us), ("p99.9", 99.9, one.p999_us)]
    {
        let computed = micros(all, percentile);
        ensure!(computed == stated, "{name} is {stated} µs, the histogram has {computed}");
    }
    if let Some(stated) = one.single_key_p99_us {
        let of_command = own.iter().filter(|(command, _)| command.is_some());
        let computed = of_command.map(|(_, histogram)| micros(histogram, 99.0)).reduce(f64::max);
        ensure!(computed == Some(stated), "p99 of one key is {stated} µs, the histograms have {computed:?}");
    }
    if let Some(stated) = one.mean_us {
        // A histogram knows latencies to three digits.
        let computed = all.mean() / 1e3;
        ensure!((computed / stated - 1.0).abs() < 2e-3, "the mean is {stated} µs, the histogram has {computed}");
    }
    Ok(())
}

fn micros(histogram: &Histogram<u64>, percentile: f64) -> f64 {
    rounded(value_at_percentile(histogram, percentile) as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::observation;
    use loadgen::record::latency_histogram;

    fn measured() -> (Observation, String) {
        let mut histogram = latency_histogram();
        (1..=2000u64).for_each(|value| histogram.record(value * 1000).unwrap());
        let one = Observation {
            requests: 2000,
            p50_us: micros(&histogram, 50.0),
            p99_us: micros(&histogram, 99.0),
            p999_us: micros(&histogram, 99.9),
            mean_us: Some(rounded(histogram.mean() / 1e3)),
            ..observation("s/p/r01", 2000.0)
        };
        let text = to_text(&[line("s/p/r01", None, &histogram).unwrap()]).unwrap();
        (one, text)
    }

    #[test]
    fn percentiles_are_computed_again_from_the_histograms() {
        let (one, text) = measured();
        assert!((one.p50_us - 1000.0).abs() < 2.0, "{one:?}");
        assert_eq!(differences(&text, std::slice::from_ref(&one)).unwrap(), Vec::<String>::new());
        let changes: [fn(&mut Observation); 4] = [
            |one| one.p50_us += 0.5,
            |one| one.p999_us *= 0.9,
            |one| one.requests -= 1,
            |one| one.mean_us = Some(900.0),
        ];
        for change in changes {
            let mut changed = one.clone();
            change(&mut changed);
            assert_eq!(differences(&text, &[changed]).unwrap().len(), 1);
        }
    }

    #[test]
    fn a_trial_without_histogram_and_a_histogram_without_trial_are_differences() {
        let (one, text) = measured();
        assert_eq!(differences("", std::slice::from_ref(&one)).unwrap().len(), 1);
        assert_eq!(differences(&text, &[]).unwrap().len(), 1);
        assert!(differences(&text.replace("HISTF", "HISTG"), &[one]).is_err());
    }
}
