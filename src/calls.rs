//! What was asked of each command: calls, failures, time. INFO commandstats, latencystats and errorstats read it.
//!
//! Each thread counts by itself in memory of its own, which others only read; a count costs a few instructions and no
//! shared cache line. A process has one server, so the counts are the process's.

use crate::commands::{COMMANDS, CommandError, CommandId, command};
use crate::ticks;
use parking_lot::Mutex;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Buckets of a histogram: eight for each doubling, up to 2^41 ticks.
const BUCKETS: usize = 312;
/// Different codes of errors that are counted; further ones are counted as one.
const CODES_MAX: usize = 128;
/// What further ones are counted as.
const OTHER_CODES: &str = "ERRORSTATS_OVERFLOW";

/// Whether the time of each command is kept in a histogram: `latency-tracking`.
pub static TRACKS_LATENCY: AtomicBool = AtomicBool::new(true);
/// Ticks from which on a command is told to the slow log and the latency monitor.
pub static SLOW_FROM: AtomicU64 = AtomicU64::new(u64::MAX);

static THREADS: Mutex<Vec<Arc<[Account]>>> = Mutex::new(Vec::new());
/// What had been counted when CONFIG RESETSTAT came.
static BASE: Mutex<Option<Vec<Figures>>> = Mutex::new(None);
static ERRORS: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

thread_local! {
    static MINE: OnceCell<Arc<[Account]>> = const { OnceCell::new() };
}

/// What one thread has counted of one command.
#[derive(Debug, Default)]
struct Account {
    calls: AtomicU64,
    ticks: AtomicU64,
    failed: AtomicU64,
    rejected: AtomicU64,
    histogram: OnceLock<Box<[AtomicU32; BUCKETS]>>,
}

/// What all threads have counted of one command.
#[derive(Debug, Default, Clone)]
pub struct Figures {
    /// How often it ran.
    pub calls: u64,
    /// For how long, in ticks.
    pub ticks: u64,
    /// How often it replied an error.
    pub failed: u64,
    /// How often it was refused before it ran.
    pub rejected: u64,
    /// How often it took how long.
    pub histogram: Histogram,
}

/// Durations in ticks, counted in buckets that are an eighth of their value wide at most.
#[derive(Debug, Default, Clone)]
pub struct Histogram(Vec<u64>);

/// Adds to a counter that only this thread changes.
#[inline]
fn add(counter: &AtomicU64, value: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(value), Ordering::Relaxed);
}

fn with_mine<R>(id: CommandId, act: impl FnOnce(&Account) -> R) -> R {
    MINE.with(|mine| act(&mine.get_or_init(register)[usize::from(id.0)]))
}

#[cold]
fn register() -> Arc<[Account]> {
    let mine: Arc<[Account]> = COMMANDS.iter().map(|_| Account::default()).collect();
    THREADS.lock().push(Arc::clone(&mine));
    mine
}

/// Counts a command that has run. A part of one that runs on several shards counts its time alone.
#[inline]
pub fn note_run(id: CommandId, ticks: u64, is_call: bool, has_failed: bool) {
    with_mine(id, |account| {
        add(&account.ticks, ticks);
        if is_call {
            add(&account.calls, 1);
            if TRACKS_LATENCY.load(Ordering::Relaxed) {
                account.note_latency(ticks);
            }
        }
        if has_failed {
            add(&account.failed, 1);
        }
    });
}

/// Counts a command that was refused.
#[cold]
pub fn note_rejected(id: CommandId) {
    with_mine(id, |account| add(&account.rejected, 1));
}

/// Counts an error that is replied, by its code.
#[cold]
pub fn note_error(error: &CommandError) {
    note_error_text(&error.to_string());
}

/// Counts an error that is replied, by the code that it begins with.
#[cold]
pub fn note_error_text(text: &str) {
    let code = text.split([' ', '\r', '\n']).next().unwrap_or_default();
    let mut errors = ERRORS.lock();
    let has_room = errors.len() < CODES_MAX;
    let code = if has_room || errors.contains_key(code) { code } else { OTHER_CODES };
    *errors.entry(code.to_owned()).or_default() += 1;
}

/// How many errors of each code were replied.
pub fn errors() -> Vec<(String, u64)> {
    ERRORS.lock().iter().map(|(code, count)| (code.clone(), *count)).collect()
}

/// What has been counted since the start, or since [`reset`]: for every command.
pub fn figures() -> Vec<Figures> {
    let mut figures = totals();
    if let Some(base) = &*BASE.lock() {
        figures.iter_mut().zip(base).for_each(|(figures, base)| figures.take_off(base));
    }
    figures
}

/// Starts the counts anew.
pub fn reset() {
    *BASE.lock() = Some(totals());
    ERRORS.lock().clear();
}

fn totals() -> Vec<Figures> {
    let mut totals = vec![Figures::default(); COMMANDS.len()];
    for thread in &*THREADS.lock() {
        totals.iter_mut().zip(thread.iter()).for_each(|(total, account)| total.add(account));
    }
    totals
}

/// The commands that have been asked for, with their figures.
pub fn of_all() -> impl Iterator<Item = (CommandId, Figures)> {
    let numbered = figures().into_iter().enumerate();
    numbered
        .map(|(index, figures)| (CommandId(index as u16), figures))
        .filter(|(_, figures)| figures.calls + figures.failed + figures.rejected > 0)
}

impl Account {
    #[inline]
    fn note_latency(&self, ticks: u64) {
        let histogram = self.histogram.get_or_init(|| Box::new([const { AtomicU32::new(0) }; BUCKETS]));
        let bucket = &histogram[bucket_of(ticks)];
        bucket.store(bucket.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }
}

impl Figures {
    fn add(&mut self, account: &Account) {
        self.calls += account.calls.load(Ordering::Relaxed);
        self.ticks += account.ticks.load(Ordering::Relaxed);
        self.failed += account.failed.load(Ordering::Relaxed);
        self.rejected += account.rejected.load(Ordering::Relaxed);
        if let Some(histogram) = account.histogram.get() {
            self.histogram.0.resize(BUCKETS, 0);
            let counts = self.histogram.0.iter_mut().zip(histogram.iter());
            counts.for_each(|(sum, count)| *sum += u64::from(count.load(Ordering::Relaxed)));
        }
    }

    fn take_off(&mut self, base: &Self) {
        self.calls -= base.calls;
        self.ticks -= base.ticks;
        self.failed -= base.failed;
        self.rejected -= base.rejected;
        self.histogram.0.iter_mut().zip(&base.histogram.0).for_each(|(count, base)| *count -= base);
    }

    /// The time of all calls in microseconds.
    pub fn us(&self) -> u64 {
        (self.ticks as f64 / ticks::per_us()) as u64
    }
}

impl Histogram {
    /// How many durations were counted.
    pub fn len(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The duration in ticks below or at which this share of all lies, to an eighth.
    pub fn quantile(&self, share: f64) -> u64 {
        let wanted = ((self.len() as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let bucket = self.0.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        bucket.map_or(0, |bucket| start_of(bucket + 1) - 1)
    }

    /// For each power of two in microseconds from the first that has some to the last: how many took no longer.
    pub fn by_powers(&self) -> Vec<(u64, u64)> {
        let per_us = ticks::per_us();
        let mut powers: Vec<(u64, u64)> = Vec::new();
        let mut seen = 0;
        for (bucket, count) in self.0.iter().enumerate().filter(|(_, count)| **count > 0) {
            seen += count;
            let us = (start_of(bucket) as f64 / per_us).ceil().max(1.0) as u64;
            let power = us.next_power_of_two();
            match powers.last_mut() {
                Some((last, sum)) if *last == power => *sum = seen,
                _ => powers.push((power, seen)),
            }
        }
        powers
    }
}

/// The bucket of a duration.
#[inline]
fn bucket_of(ticks: u64) -> usize {
    if ticks < 8 {
        return ticks as usize;
    }
    let shift = (60 - ticks.leading_zeros()) as usize;
    ((shift << 3) + (ticks >> shift) as usize).min(BUCKETS - 1)
}

/// The least duration of a bucket.
fn start_of(bucket: usize) -> u64 {
    if bucket < 16 {
        return bucket as u64;
    }
    (8 + (bucket & 7) as u64) << ((bucket >> 3) - 1)
}

/// Whether a command was slow enough to be told of.
#[inline]
pub fn is_slow(ticks: u64) -> bool {
    ticks >= SLOW_FROM.load(Ordering::Relaxed)
}

/// The name of a command as INFO writes it.
pub fn name_of(id: CommandId) -> &'static str {
    command(id).name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_lies_in_its_bucket() {
        for ticks in (0..5000).chain([1 << 20, (1 << 33) + 12345, 1 << 40]) {
            let bucket = bucket_of(ticks);
            assert!(start_of(bucket) <= ticks && ticks < start_of(bucket + 1), "{ticks} in {bucket}");
            assert!(start_of(bucket + 1) - start_of(bucket) <= 1 + ticks / 8, "{bucket} is too wide");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_come_from_the_counts() {
        let mut histogram = Histogram(vec![0; BUCKETS]);
        histogram.0[bucket_of(100)] = 99;
        histogram.0[bucket_of(1_000_000)] = 1;
        assert!((100..=112).contains(&histogram.quantile(0.5)));
        assert!((100..=112).contains(&histogram.quantile(0.99)));
        assert!((1_000_000..1_130_000).contains(&histogram.quantile(0.999)));
        assert_eq!(histogram.len(), 100);
    }
}
