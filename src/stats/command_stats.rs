//! Statistics of each command: calls, failures, time. INFO commandstats, latencystats and errorstats show them.
//!
//! Each thread counts in memory of its own, which others only read; a count costs a few instructions and no shared
//! cache line. A server has threads of its own, so a thread's counts belong to its server; if a thread nevertheless
//! counts for several, it looks up its accounts.

use crate::base::narrowing::whole_u64;
use crate::base::tsc;
use crate::resp::CommandError;
use crate::stats::histogram::{Counts, Histogram, add};
use parking_lot::Mutex;
use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::ThreadId;

/// The most rows of the command table: commands are identified here by the numbers of their rows.
pub const ROWS_MAX: usize = 512;
/// The most error codes that are counted separately; further ones are counted as one.
const CODES_MAX: usize = 128;
/// The code of further ones.
const OTHER_CODES: &str = "ERRORSTATS_OVERFLOW";
/// The longest error code that is counted separately, as in Redis; errors with a longer one are counted as `ERR`.
const CODE_LEN_MAX: usize = 30;

/// The statistics of one server.
#[derive(Debug)]
pub struct Calls {
    /// Whether the time of each command is kept in a histogram: `latency-tracking`.
    tracks_latency: AtomicBool,
    /// Ticks from which on a command is reported to the slow log and the latency monitor.
    slow_from: AtomicU64,
    threads: Arc<Threads>,
    /// The counts at the last CONFIG RESETSTAT.
    base: Mutex<Option<Vec<Figures>>>,
    errors: Mutex<BTreeMap<String, u64>>,
}

/// The counts of the threads of one server.
#[derive(Debug, Default)]
struct Threads {
    own: Mutex<Vec<Accounts>>,
    /// Those of threads that also count for another server: they are looked up for every count.
    shared: Mutex<HashMap<ThreadId, Accounts>>,
}

/// One for each row.
type Accounts = Arc<[Account]>;

/// The accounts of a thread, and their server.
struct Mine {
    of: Arc<Threads>,
    accounts: Accounts,
}

thread_local! {
    /// The accounts for the first server which this thread has counted for: a server's threads are its own.
    static MINE: OnceCell<Mine> = const { OnceCell::new() };
}

/// One thread's counts for one command.
#[derive(Debug, Default)]
struct Account {
    calls: AtomicU64,
    ticks: AtomicU64,
    failed: AtomicU64,
    rejected: AtomicU64,
    histogram: OnceLock<Box<Counts>>,
}

/// All threads' counts for one command.
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
    /// The distribution of its durations.
    pub histogram: Histogram,
}

fn new_accounts() -> Accounts {
    (0..ROWS_MAX).map(|_| Account::default()).collect()
}

impl Threads {
    #[cold]
    fn begin(self: &Arc<Self>) -> Mine {
        let accounts = new_accounts();
        self.own.lock().push(Arc::clone(&accounts));
        Mine { of: Arc::clone(self), accounts }
    }

    #[cold]
    fn of_shared_thread(&self) -> Accounts {
        let mut shared = self.shared.lock();
        Arc::clone(shared.entry(std::thread::current().id()).or_insert_with(new_accounts))
    }
}

impl Default for Calls {
    fn default() -> Self {
        Self {
            tracks_latency: AtomicBool::new(true),
            slow_from: AtomicU64::new(u64::MAX),
            threads: Arc::default(),
            base: Mutex::default(),
            errors: Mutex::default(),
        }
    }
}

impl Calls {
    /// Calls `act` with the account of this thread, which is created the first time.
    #[cold]
    #[inline(never)]
    fn found(&self, row: u16, act: &dyn Fn(&Account)) {
        MINE.with(|mine| {
            let mine = mine.get_or_init(|| self.threads.begin());
            match Arc::ptr_eq(&mine.of, &self.threads) {
                true => act(&mine.accounts[usize::from(row)]),
                false => act(&self.threads.of_shared_thread()[usize::from(row)]),
            }
        });
    }

    /// Sets whether the time of each command is kept in a histogram.
    pub fn set_tracks_latency(&self, tracks: bool) {
        self.tracks_latency.store(tracks, Ordering::Relaxed);
    }

    /// Sets from how many ticks on a command is reported to the slow log and the latency monitor.
    pub fn set_slow_from(&self, ticks: u64) {
        self.slow_from.store(ticks, Ordering::Relaxed);
    }

    /// Whether a command was slow enough to be reported.
    #[inline]
    pub fn is_slow(&self, ticks: u64) -> bool {
        ticks >= self.slow_from.load(Ordering::Relaxed)
    }

    /// Counts a command that has run. A part of one that runs on several shards only counts its time.
    #[inline]
    pub fn note_run(&self, row: u16, ticks: u64, is_call: bool, has_failed: bool) {
        let tracks_latency = self.tracks_latency.load(Ordering::Relaxed);
        // Nearly always it has counted for this server before; other cases are kept out of the fast path.
        MINE.with(|mine| match mine.get() {
            Some(mine) if Arc::ptr_eq(&mine.of, &self.threads) => {
                mine.accounts[usize::from(row)].note_run(ticks, tracks_latency, is_call, has_failed);
            }
            _ => self.found(row, &|account| account.note_run(ticks, tracks_latency, is_call, has_failed)),
        });
    }

    /// Counts a command that was refused.
    #[cold]
    pub fn note_rejected(&self, row: u16) {
        self.found(row, &|account| add(&account.rejected, 1));
    }

    /// Counts an error reply, by its code.
    #[cold]
    pub fn note_error(&self, error: &CommandError) {
        if !matches!(error, CommandError::Counted(_)) {
            self.note_error_text(&error.to_string());
        }
    }

    /// Counts an error reply, by the code that it begins with.
    #[cold]
    pub fn note_error_text(&self, text: &str) {
        let code = text.split([' ', '\r', '\n']).next().filter(|code| code.len() <= CODE_LEN_MAX).unwrap_or("ERR");
        let mut errors = self.errors.lock();
        let has_room = errors.len() < CODES_MAX;
        let code = if has_room || errors.contains_key(code) { code } else { OTHER_CODES };
        *errors.entry(code.to_owned()).or_default() += 1;
    }

    /// How many errors of each code were replied.
    pub fn errors(&self) -> Vec<(String, u64)> {
        self.errors.lock().iter().map(|(code, count)| (code.clone(), *count)).collect()
    }

    /// The counts of every command since the start, or since [`reset`](Self::reset).
    fn figures(&self) -> Vec<Figures> {
        let mut figures = self.totals();
        if let Some(base) = &*self.base.lock() {
            figures.iter_mut().zip(base).for_each(|(figures, base)| figures.take_off(base));
        }
        figures
    }

    /// How many commands have run since the start, or since [`reset`](Self::reset).
    pub fn total(&self) -> u64 {
        let of = |thread: &Accounts| thread.iter().map(|account| account.calls.load(Ordering::Relaxed)).sum::<u64>();
        let own: u64 = self.threads.own.lock().iter().map(of).sum();
        let shared: u64 = self.threads.shared.lock().values().map(of).sum();
        let base: u64 = self.base.lock().iter().flatten().map(|figures| figures.calls).sum();
        (own + shared).saturating_sub(base)
    }

    /// Resets the counts.
    pub fn reset(&self) {
        *self.base.lock() = Some(self.totals());
        self.errors.lock().clear();
    }

    fn totals(&self) -> Vec<Figures> {
        let mut totals = vec![Figures::default(); ROWS_MAX];
        let mut add = |thread: &Accounts| {
            totals.iter_mut().zip(thread.iter()).for_each(|(total, account)| total.add(account));
        };
        self.threads.own.lock().iter().for_each(&mut add);
        self.threads.shared.lock().values().for_each(&mut add);
        totals
    }

    /// The rows of the commands that have been called, with their figures.
    pub fn of_all(&self) -> impl Iterator<Item = (usize, Figures)> {
        let numbered = self.figures().into_iter().enumerate();
        numbered.filter(|(_, figures)| figures.calls + figures.failed + figures.rejected > 0)
    }
}

impl Account {
    #[inline]
    fn note_run(&self, ticks: u64, tracks_latency: bool, is_call: bool, has_failed: bool) {
        add(&self.ticks, ticks);
        if is_call {
            add(&self.calls, 1);
            if tracks_latency {
                self.note_latency(ticks);
            }
        }
        if has_failed {
            add(&self.failed, 1);
        }
    }

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
        // The base may be newer than what it is taken off.
        for (count, base) in [
            (&mut self.calls, base.calls),
            (&mut self.ticks, base.ticks),
            (&mut self.failed, base.failed),
            (&mut self.rejected, base.rejected),
        ] {
            *count = count.saturating_sub(base);
        }
        self.histogram.take_off(&base.histogram);
    }

    /// The time of all calls in microseconds.
    pub fn us(&self) -> u64 {
        whole_u64(self.ticks as f64 / tsc::per_us())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_of_two_servers_counts_for_each_what_was_asked_of_it() {
        let servers = [Calls::default(), Calls::default()];
        for (server, calls) in servers.iter().zip([2, 3]) {
            (0..calls).for_each(|_| server.note_run(7, 10, true, false));
            server.note_error_text("ERR of all");
        }
        servers[1].note_rejected(8);
        let calls = |server: &Calls| server.of_all().map(|(row, figures)| (row, figures.calls)).collect::<Vec<_>>();
        assert_eq!(calls(&servers[0]), [(7, 2)]);
        assert_eq!(calls(&servers[1]), [(7, 3), (8, 0)]);
        servers[0].reset();
        assert_eq!((calls(&servers[0]), servers[0].errors()), (vec![], vec![]));
        assert_eq!((calls(&servers[1]).len(), servers[1].errors()), (2, vec![("ERR".to_owned(), 1)]));
    }
}
