//! Ctrl-C: the run ends early, and what it measured so far is written. The second one ends the
//! process at once.
//!
//! Signals are the process's, so this is a global. SIGINT and SIGTERM are blocked on every thread,
//! and one thread waits for them: no handler runs in the middle of anything.

use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use nix::sys::signal::{SigSet, Signal};

use crate::Error;

/// What shells show for a process that SIGINT ended.
pub const EXIT_CODE: u8 = 130;

static IS_ASKED: AtomicBool = AtomicBool::new(false);

/// Watches for the signals. To be called before any other thread starts, for they inherit the mask.
pub fn watch() -> Result<(), Error> {
    let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM].into_iter().collect();
    signals.thread_block().map_err(|source| Error::system("block signals", source.into()))?;
    let waiter = thread::Builder::new().name("signals".into()).spawn(move || {
        // Fails for a set of no valid signals alone.
        while signals.wait().is_ok() {
            if IS_ASKED.swap(true, Ordering::Relaxed) {
                process::exit(i32::from(EXIT_CODE));
            }
        }
    });
    waiter.map(drop).map_err(|source| Error::system("start a thread", source))
}

/// Whether the run is to end early.
#[inline]
pub(crate) fn is_asked() -> bool {
    IS_ASKED.load(Ordering::Relaxed)
}

/// An error once the run is to end early: for what comes before anything is measured.
pub(crate) fn check() -> Result<(), Error> {
    if is_asked() { Err(Error::Interrupted) } else { Ok(()) }
}
