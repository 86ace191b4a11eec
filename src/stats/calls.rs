//! What was asked of each command: calls, failures, time. INFO commandstats, latencystats and errorstats read it.
//!
//! Each thread counts by itself in memory of its own, which others only read; a count costs a few instructions and no
//! shared cache line. A process has one server, so the counts are the process's.

use crate::base::narrowing::whole_u64;
use crate::base::ticks;
use crate::resp::CommandError;
use crate::stats::histogram::{Counts, Histogram, add};
use parking_lot::Mutex;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Rows that the command table may have: commands are known here by the numbers of their rows.
pub const ROWS_MAX: usize = 512;
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
    histogram: OnceLock<Box<Counts>>,
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

fn with_mine<R>(row: u16, act: impl FnOnce(&Account) -> R) -> R {
    MINE.with(|mine| act(&mine.get_or_init(register)[usize::from(row)]))
}

#[cold]
fn register() -> Arc<[Account]> {
    let mine: Arc<[Account]> = (0..ROWS_MAX).map(|_| Account::default()).collect();
    THREADS.lock().push(Arc::clone(&mine));
    mine
}

/// Counts a command that has run. A part of one that runs on several shards counts its time alone.
#[inline]
pub fn note_run(row: u16, ticks: u64, is_call: bool, has_failed: bool) {
    with_mine(row, |account| {
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
pub fn note_rejected(row: u16) {
    with_mine(row, |account| add(&account.rejected, 1));
}

/// Counts an error that is replied, by its code.
#[cold]
pub fn note_error(error: &CommandError) {
    if !matches!(error, CommandError::Counted(_)) {
        note_error_text(&error.to_string());
    }
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
    let mut totals = vec![Figures::default(); ROWS_MAX];
    for thread in &*THREADS.lock() {
        totals.iter_mut().zip(thread.iter()).for_each(|(total, account)| total.add(account));
    }
    totals
}

/// The rows of the commands that have been asked for, with their figures.
pub fn of_all() -> impl Iterator<Item = (usize, Figures)> {
    let numbered = figures().into_iter().enumerate();
    numbered.filter(|(_, figures)| figures.calls + figures.failed + figures.rejected > 0)
}

impl Account {
    #[inline]
    fn note_latency(&self, ticks: u64) {
        self.histogram.get_or_init(Box::default).note(ticks);
    }
}

impl Figures {
    fn add(&mut self, account: &Account) {
        self.calls += account.calls.load(Ordering::Relaxed);
        self.ticks += account.ticks.load(Ordering::Relaxed);
        self.failed += account.failed.load(Ordering::Relaxed);
        self.rejected += account.rejected.load(Ordering::Relaxed);
        if let Some(counts) = account.histogram.get() {
            self.histogram.add(counts);
        }
    }

    fn take_off(&mut self, base: &Self) {
        self.calls -= base.calls;
        self.ticks -= base.ticks;
        self.failed -= base.failed;
        self.rejected -= base.rejected;
        self.histogram.take_off(&base.histogram);
    }

    /// The time of all calls in microseconds.
    pub fn us(&self) -> u64 {
        whole_u64(self.ticks as f64 / ticks::per_us())
    }
}

/// Whether a command was slow enough to be told of.
#[inline]
pub fn is_slow(ticks: u64) -> bool {
    ticks >= SLOW_FROM.load(Ordering::Relaxed)
}
