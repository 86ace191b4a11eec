//! Work on several segments at once, and how far it has got.

use super::control::LogControl;
use parking_lot::Mutex;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Does the work for each item, on as many threads as there are cores; the results are in the order of the items.
pub fn in_parallel<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get).min(items.len());
    if threads < 2 {
        return items.into_iter().map(work).collect();
    }
    let mut results: Vec<Option<R>> = items.iter().map(|_| None).collect();
    let jobs = Mutex::new(items.into_iter().zip(&mut results));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    // In a statement of its own: the lock is not held while the work is done.
                    let job = jobs.lock().next();
                    let Some((item, result)) = job else { break };
                    *result = Some(work(item));
                }
            });
        }
    });
    results.into_iter().map(|result| result.expect("every item was worked on")).collect()
}

/// How much of a log has been replayed; says so every few seconds.
#[derive(Debug)]
pub struct Progress {
    /// What is replayed.
    what: String,
    total: u64,
    done: AtomicU64,
    last_line: Mutex<Instant>,
    /// Where INFO finds it.
    control: LogControl,
}

impl Progress {
    const INTERVAL: Duration = Duration::from_secs(3);

    /// Nothing of so many bytes is done.
    pub fn new(what: String, total: u64, control: &LogControl) -> Self {
        control.note_to_load(total);
        let control = control.clone();
        Self { what, total, done: AtomicU64::new(0), last_line: Mutex::new(Instant::now()), control }
    }

    /// So many bytes more are done. Called once for many of them.
    pub fn add(&self, bytes: u64) {
        self.control.note_loaded(bytes);
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let Some(mut last_line) = self.last_line.try_lock() else { return };
        if last_line.elapsed() >= Self::INTERVAL {
            *last_line = Instant::now();
            let percent = done * 100 / self.total.max(1);
            tracing::info!("Loading {}: {percent}% of {} bytes", self.what, self.total);
        }
    }
}

#[test]
fn results_stand_in_the_order_of_the_items() {
    let squares = in_parallel((0..1000u64).collect(), |number| number * number);
    assert_eq!(squares, (0..1000).map(|number| number * number).collect::<Vec<_>>());
    assert!(in_parallel(Vec::<u64>::new(), |number| number).is_empty());
}
