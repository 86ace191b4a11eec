//! What all threads of the generator share, whatever they send: how long a phase lasts and what is due in it, and how a
//! thread waits for its sockets.

use std::io::{self, ErrorKind};
use std::time::Duration;

use hdrhistogram::Histogram;
use mio::{Events, Poll, Registry, Token};

use crate::base::schedule::{Schedule, share_of};
use crate::base::timer::Alarm;
use crate::base::{Error, interrupt};
use crate::config::{Config, Stop};
use crate::record::Served;
use crate::workload::keys::Share;

const EVENTS_MAX: usize = 1024;
/// How often a thread without events checks the clock: it closes intervals, and notices that replies are missing, or
/// that another thread has failed.
const TICK: Duration = Duration::from_millis(100);
/// Before events that are due sooner than this, the thread polls instead of sleeping.
const SPIN_NS: u64 = 10_000;
/// How long after the end of a timed open loop requests that were due in it may still begin.
const LATE_STARTS_NS: u64 = 1_000_000_000;
/// How long an interrupted run waits for outstanding replies.
const LAST_REPLIES_NS: u64 = 1_000_000_000;

const ALARM: Token = Token(usize::MAX);

/// A warm-up or the measured window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phase {
    pub(crate) start_ns: u64,
    pub(crate) stop: Stop,
}

/// How a phase ended for one thread.
#[derive(Clone, Debug)]
pub(crate) struct PhaseEnd {
    pub(crate) last_reply_ns: u64,
    /// Requests that were due and never sent, because the target did not keep up.
    pub(crate) unsent: u64,
    /// Open loop: how late requests left that were due while their connection had room.
    pub(crate) lag: Histogram<u64>,
    /// CPU time that went into waiting for the next due time by polling.
    pub(crate) spun: Duration,
    /// When it was interrupted, if it was.
    pub(crate) interrupted_ns: Option<u64>,
    /// What each connection was served; empty if connections are what is measured.
    pub(crate) connections: Vec<Served>,
}

/// One thread's share of a phase.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PhaseShare {
    /// When its requests are due; `None` in a closed loop.
    pub(crate) schedule: Option<Schedule>,
    /// How many requests to send; unlimited in a timed closed loop.
    pub(crate) quota: u64,
    /// When a closed loop stops sending.
    pub(crate) deadline_ns: u64,
    /// When it was interrupted, if it was.
    pub(crate) interrupted_ns: Option<u64>,
}

impl PhaseShare {
    /// This thread's share of a phase.
    pub(crate) fn of(phase: Phase, config: &Config, share: Share) -> Self {
        let (thread, threads) = (share.thread, share.threads);
        let deadline_ns = match phase.stop {
            Stop::Requests(_) => u64::MAX,
            Stop::Time(time) => phase.start_ns + time.as_nanos() as u64,
        };
        let schedule = config.rate.map(|rate| Schedule::new(phase.start_ns, rate, thread, threads));
        let quota = match (phase.stop, schedule) {
            (Stop::Requests(total), _) => share_of(total, thread as u64, threads as u64),
            (Stop::Time(_), Some(schedule)) => schedule.due_before(deadline_ns),
            (Stop::Time(_), None) => u64::MAX,
        };
        Self { schedule, quota, deadline_ns, interrupted_ns: None }
    }

    /// Before the first phase: nothing to send.
    pub(crate) fn none() -> Self {
        Self { schedule: None, quota: 0, deadline_ns: u64::MAX, interrupted_ns: None }
    }

    /// Ends the phase now, if the run was interrupted: later requests are not due any more. Returns true once.
    pub(crate) fn heed_interrupt(&mut self, now_ns: u64) -> bool {
        if self.interrupted_ns.is_some() || !interrupt::is_asked() {
            return false;
        }
        self.interrupted_ns = Some(now_ns);
        self.deadline_ns = self.deadline_ns.min(now_ns);
        if let Some(schedule) = &self.schedule {
            self.quota = self.quota.min(schedule.due_before(now_ns + 1));
        }
        true
    }

    /// Whether it has stopped waiting for outstanding replies.
    pub(crate) fn is_given_up(&self, now_ns: u64) -> bool {
        self.interrupted_ns.is_some_and(|interrupted_ns| now_ns >= interrupted_ns + LAST_REPLIES_NS)
    }

    /// Whether no request may begin any more, not even one that was due in time.
    pub(crate) fn is_over(&self, now_ns: u64) -> bool {
        let grace_ns = if self.schedule.is_some() { LATE_STARTS_NS } else { 0 };
        now_ns >= self.deadline_ns.saturating_add(grace_ns)
    }

    /// How many requests were due and not sent; in a closed loop none are due.
    pub(crate) fn unsent(&self, sent: u64) -> u64 {
        self.schedule.map_or(0, |_| self.quota.saturating_sub(sent))
    }
}

/// How long a thread waits at most.
pub(crate) fn tick(config: &Config) -> Duration {
    TICK.min(config.reply_timeout)
}

/// Whether sleeping until then might take longer.
pub(crate) fn is_due_soon(due_ns: Option<u64>, now_ns: u64) -> bool {
    due_ns.is_some_and(|due_ns| due_ns <= now_ns.saturating_add(SPIN_NS))
}

/// Waits for sockets, or until something is due.
pub(crate) struct EventLoop {
    poll: Poll,
    alarm: Alarm,
    tick: Duration,
}

impl EventLoop {
    pub(crate) fn new(config: &Config) -> Result<Self, Error> {
        let poll = Poll::new().map_err(|source| Error::system("create an epoll instance", source))?;
        let alarm =
            Alarm::register(poll.registry(), ALARM).map_err(|source| Error::system("create a timer", source))?;
        Ok(Self { poll, alarm, tick: tick(config) })
    }

    /// Where sockets are registered, under any token but the greatest.
    pub(crate) fn registry(&self) -> &Registry {
        self.poll.registry()
    }

    /// Room for what one wait may bring.
    pub(crate) fn events() -> Events {
        Events::with_capacity(EVENTS_MAX)
    }

    /// Waits for events until `due_ns` at the latest, if something is due, and for a tick otherwise.
    /// Returns whether it polled without sleeping, and found nothing.
    pub(crate) fn wait(&mut self, events: &mut Events, due_ns: Option<u64>, now_ns: u64) -> io::Result<bool> {
        let is_due_soon = is_due_soon(due_ns, now_ns);
        if let Some(due_ns) = due_ns.filter(|_| !is_due_soon) {
            self.alarm.wake_at(due_ns, now_ns)?;
        }
        let timeout = if is_due_soon { Duration::ZERO } else { self.tick };
        match self.poll.poll(events, Some(timeout)) {
            Err(error) if error.kind() != ErrorKind::Interrupted => Err(error),
            _ => Ok(is_due_soon && events.is_empty()),
        }
    }

    /// The events of sockets.
    pub(crate) fn of_sockets(events: &Events) -> impl Iterator<Item = &mio::event::Event> {
        events.iter().filter(|event| event.token() != ALARM)
    }
}
