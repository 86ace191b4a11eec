//! Ctrl-C and SIGTERM as a flag that every wait checks, so that no server outlives the run that started it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGINT, SIGTERM};

/// How often waits check the flag.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Set once a signal has asked the run to stop. Clones share the flag.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

/// The error that carries an interrupt up to `main`.
#[derive(Debug)]
pub struct Interrupted;

impl Interrupt {
    /// Routes SIGINT and SIGTERM to the flag.
    pub(crate) fn install() -> Result<Self> {
        let interrupt = Self::default();
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&interrupt.0)).context("cannot listen for signals")?;
        }
        Ok(interrupt)
    }

    /// Fails with [`Interrupted`] once a signal has come.
    pub(crate) fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) { Err(Interrupted.into()) } else { Ok(()) }
    }

    /// Sleeps, unless a signal comes.
    pub(crate) fn sleep(&self, duration: Duration) -> Result<()> {
        let end = Instant::now() + duration;
        loop {
            self.check()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(LOOK_EVERY));
        }
    }
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}
