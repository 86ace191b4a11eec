//! How far the reading of the log has got.

use crate::aof::write::LogControl;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How much of a log has been replayed; logs it every few seconds.
#[derive(Debug)]
pub struct Progress {
    /// What is replayed.
    what: String,
    total: u64,
    done: AtomicU64,
    last_line: Mutex<Instant>,
    /// Where INFO reads it.
    control: LogControl,
}

impl Progress {
    const INTERVAL: Duration = Duration::from_secs(3);

    /// No byte of `total` is done.
    pub fn new(what: String, total: u64, control: &LogControl) -> Self {
        control.note_to_load(total);
        let control = control.clone();
        Self { what, total, done: AtomicU64::new(0), last_line: Mutex::new(Instant::now()), control }
    }

    /// Whether nobody waits for the rest any more.
    pub fn is_given_up(&self) -> bool {
        self.control.is_loading_given_up()
    }

    /// An error if nobody waits for the rest any more.
    pub fn must_go_on(&self) -> Result<(), String> {
        if self.is_given_up() { Err("the server was stopped while it loaded its data".into()) } else { Ok(()) }
    }

    /// Adds bytes that are done. Called once for many of them.
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
