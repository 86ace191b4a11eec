//! Single flags: their text checked, their unit known.

use std::num::NonZeroUsize;
use std::time::Duration;

use super::{Expiry, Stop};
use crate::base::{Error, invalid};

const REQUESTS_DEFAULT: u64 = 100_000;
const SECONDS_MAX: f64 = 1e7;
/// What a set of CPUs has room for on Linux.
const CPUS_MAX: usize = 1024;

pub(super) fn stop(requests: Option<u64>, test_time: Option<f64>) -> Result<Stop, Error> {
    match test_time {
        Some(time) => Ok(Stop::Time(seconds("--test-time", time, 0.001)?)),
        None => Ok(Stop::Requests(requests.unwrap_or(REQUESTS_DEFAULT))),
    }
}

pub(super) fn seconds(flag: &str, value: f64, minimum: f64) -> Result<Duration, Error> {
    if (minimum..=SECONDS_MAX).contains(&value) {
        Ok(Duration::from_secs_f64(value))
    } else {
        invalid(flag, value, format!("expected {minimum} to {SECONDS_MAX} seconds"))
    }
}

pub(super) fn rate(value: f64) -> Result<f64, Error> {
    if (0.001..=1e9).contains(&value) {
        Ok(value)
    } else {
        invalid("--rate-limiting", value, "expected 0.001 to 1e9 requests per second")
    }
}

pub(super) fn percentiles(text: &str) -> Result<Vec<f64>, Error> {
    let parsed: Option<Vec<f64>> = text
        .split(',')
        .map(|percentile| percentile.trim().parse().ok().filter(|p| (0.0..=100.0).contains(p)))
        .collect();
    parsed
        .map_or_else(|| invalid("--print-percentiles", text, "expected numbers from 0 to 100, such as 50,99,99.9"), Ok)
}

pub(super) fn nonzero(value: u32) -> NonZeroUsize {
    NonZeroUsize::new(value as usize).expect("the flag's range begins at 1")
}

/// `MIN-MAX` in seconds.
pub(super) fn expiry(text: &str) -> Result<Expiry, Error> {
    let milliseconds = |text: &str| {
        let seconds: f64 = text.trim().parse().ok()?;
        (0.001..=SECONDS_MAX).contains(&seconds).then_some((seconds * 1000.0).round() as u64)
    };
    let bounds = text.split_once('-').and_then(|(low, high)| Some((milliseconds(low)?, milliseconds(high)?)));
    match bounds.filter(|(low, high)| low <= high) {
        Some((minimum_ms, maximum_ms)) => Ok(Expiry { minimum_ms, maximum_ms }),
        None => invalid("--expiry-range", text, "expected MIN-MAX in seconds, such as 0.5-10"),
    }
}

/// `0-3,6`
pub(super) fn cpus(text: &str) -> Result<Vec<usize>, Error> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (first <= last && last < CPUS_MAX).then_some(first..=last)
    };
    let ranges: Option<Vec<_>> = text.split(',').map(range).collect();
    match ranges {
        Some(ranges) => Ok(ranges.into_iter().flatten().collect()),
        None => invalid("--pin-cpus", text, "expected CPU numbers such as 0-3,6"),
    }
}
