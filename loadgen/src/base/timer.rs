//! The clock of a run, and a timer finer than epoll's milliseconds.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

/// Nanoseconds since the process prepared its run; the same on every thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    epoch: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { epoch: Instant::now() }
    }

    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }
}

/// Wakes an event loop at a time given in nanoseconds: an open loop that slept whole
/// milliseconds would add them to the latencies it reports.
///
/// Registered edge-triggered and never read: setting it again discards what expired.
#[derive(Debug)]
pub(crate) struct Alarm {
    timer: TimerFd,
    armed_for_ns: u64,
}

impl Alarm {
    pub(crate) fn register(registry: &Registry, token: Token) -> io::Result<Self> {
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)?;
        registry.register(&mut SourceFd(&timer.as_fd().as_raw_fd()), token, Interest::READABLE)?;
        Ok(Self { timer, armed_for_ns: 0 })
    }

    /// Requests a wake-up at `due_ns`, which is after `now_ns`.
    pub(crate) fn wake_at(&mut self, due_ns: u64, now_ns: u64) -> io::Result<()> {
        if self.armed_for_ns == due_ns {
            return Ok(());
        }
        let wait = TimeSpec::from_duration(Duration::from_nanos((due_ns - now_ns).max(1)));
        self.timer.set(Expiration::OneShot(wait), TimerSetTimeFlags::empty())?;
        self.armed_for_ns = due_ns;
        Ok(())
    }
}
