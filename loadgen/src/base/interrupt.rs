//! Ctrl-C: the run ends early, and what it has measured is written. The second one ends the process at once.
//!
//! Signals belong to the process, so this is a global. SIGINT, SIGTERM and SIGHUP are blocked on every thread, and one
//! thread waits for them: no handler interrupts other code.

use std::fs;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use nix::sys::signal::{SigSet, Signal};

use super::Error;

/// The exit code that shells show for a process that SIGINT ended.
pub const EXIT_CODE: u8 = 130;

static IS_ASKED: AtomicBool = AtomicBool::new(false);

/// Listens for the signals. Must be called before any other thread starts, because threads inherit the mask.
pub fn listen() -> Result<(), Error> {
    let mut signals: SigSet = [Signal::SIGINT, Signal::SIGTERM].into_iter().collect();
    if !is_hangup_ignored() {
        signals.add(Signal::SIGHUP);
    }
    signals.thread_block().map_err(|source| Error::system("block signals", source.into()))?;
    let waiter = thread::Builder::new().name("signals".into()).spawn(move || {
        // Fails only for a set without valid signals.
        while signals.wait().is_ok() {
            if IS_ASKED.swap(true, Ordering::Relaxed) {
                process::exit(i32::from(EXIT_CODE));
            }
        }
    });
    waiter.map(drop).map_err(|source| Error::system("start a thread", source))
}

/// Whether the terminal may close, as it may for what `nohup` starts. A thread that waits for a blocked signal gets it
/// even then.
fn is_hangup_ignored() -> bool {
    let hangup = 1_u64 << (Signal::SIGHUP as i32 - 1);
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & hangup != 0)
}

/// Whether the run must end early.
#[inline]
pub(crate) fn is_asked() -> bool {
    IS_ASKED.load(Ordering::Relaxed)
}

/// An error once the run must end early: for the steps before the measurement.
pub(crate) fn check() -> Result<(), Error> {
    if is_asked() { Err(Error::Interrupted) } else { Ok(()) }
}
