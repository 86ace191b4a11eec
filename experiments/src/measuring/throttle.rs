//! A throttle on a server: stops its process for a share of the time, as a slowdown whose size is known.
//!
//! An A/A sweep has to show that the method sees a difference where there is one. A flag that makes the server slower
//! would be code for this experiment alone, and its effect would not be known. SIGSTOP needs no code in the server,
//! works on every server alike, and the time between stop and continuation is measured: a server that is stopped for 3
//! % of the window has 97 % of it to work in. How much throughput that costs depends on whether the server was the
//! bottleneck, so the finding is compared with the measured share, not with the requested one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

use crate::measuring::sampler::unix_seconds;

/// A stop and what follows take this long together: short enough that a window holds many.
const PERIOD: Duration = Duration::from_millis(20);

/// A thread that stops and continues a process until [`Throttle::release`].
#[derive(Debug)]
pub struct Throttle {
    released: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<(f64, f64)>>>,
}

impl Throttle {
    /// Stops `pid` for `percent` of the time from now on.
    pub fn apply(pid: i32, percent: f64) -> Result<Self> {
        let pid = Pid::from_raw(pid).context("a server has a process id above zero")?;
        let released = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&released);
        let stop = PERIOD.mul_f64(percent / 100.0);
        let thread = thread::spawn(move || {
            let mut stops = Vec::new();
            while !flag.load(Ordering::Relaxed) {
                thread::sleep(PERIOD - stop);
                let begun = unix_seconds();
                // Fails only when the server has ended, which the lab notices elsewhere.
                let stopped = kill_process(pid, Signal::STOP);
                thread::sleep(stop);
                let continued = kill_process(pid, Signal::CONT);
                if stopped.and(continued).is_err() {
                    break;
                }
                stops.push((begun, unix_seconds()));
            }
            stops
        });
        Ok(Self { released, thread: Some(thread) })
    }

    /// Lets the process run, and returns the share of `[start, end]` (seconds since 1970) for which it was stopped.
    pub fn release(mut self, start: f64, end: f64) -> f64 {
        let stops = self.join();
        let inside = |&(from, to): &(f64, f64)| (to.min(end) - from.max(start)).max(0.0);
        stops.iter().map(inside).sum::<f64>() / (end - start)
    }

    fn join(&mut self) -> Vec<(f64, f64)> {
        self.released.store(true, Ordering::Relaxed);
        self.thread.take().map_or_else(Vec::new, |thread| thread.join().unwrap_or_default())
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        self.join();
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use procfs::process::Process;

    use super::*;

    #[test]
    fn a_throttled_process_is_stopped_for_about_the_share_and_runs_again_afterwards() {
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let begun = unix_seconds();
        let throttle = Throttle::apply(pid, 20.0).unwrap();
        thread::sleep(Duration::from_millis(500));
        let share = throttle.release(begun, begun + 0.4);
        let state = Process::new(pid).unwrap().stat().unwrap().state;
        child.kill().unwrap();
        child.wait().unwrap();
        // A busy machine wakes the throttle late, which makes stops longer, never shorter than asked for by much.
        assert!((0.1..0.8).contains(&share), "{share}");
        // It sleeps, or has just been woken and waits for a core; stopped it is not.
        assert!(matches!(state, 'S' | 'R'), "{state}");
    }
}
