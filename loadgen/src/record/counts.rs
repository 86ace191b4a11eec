//! What is counted: per thread during a run, in intervals of one second, without locks.

use std::sync::mpsc::SyncSender;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::workload::commands::{CommandId, Verdict};

/// The length of an interval.
pub const INTERVAL: Duration = Duration::from_secs(1);

/// Replies are counted by slices of an interval, too: they show what changes within a second.
pub const SLICE: Duration = Duration::from_millis(100);
const SLICE_NS: u64 = SLICE.as_nanos() as u64;
const SLICES: usize = (INTERVAL.as_nanos() / SLICE.as_nanos()) as usize;

/// Latencies are nanoseconds, kept to three digits, up to one hour (longer ones count as that).
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

/// An empty histogram of latencies in nanoseconds.
pub fn latency_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, SIGNIFICANT_DIGITS).expect("constant bounds are valid")
}

/// The value that `percentile` % of the recorded ones do not exceed.
///
/// The quotient is rounded down by one step, like in Java's library: 99.9 / 100 is a little more than 0.999 in binary,
/// and would select one value too many.
pub fn value_at_percentile(histogram: &Histogram<u64>, percentile: f64) -> u64 {
    histogram.value_at_quantile((percentile / 100.0).next_down().max(0.0))
}

/// Counts and latencies of one command.
#[derive(Clone, Debug)]
pub struct CommandStats {
    /// Replies, including error replies.
    pub requests: u64,
    /// Error replies.
    pub errors: u64,
    /// Keys that were read and had a value.
    pub hits: u64,
    /// Keys that were read and had none.
    pub misses: u64,
    /// Bytes of the requests that were answered, and of those in flight.
    pub bytes_sent: u64,
    /// Bytes of the replies.
    pub bytes_received: u64,
    /// From sending to reply.
    pub service: Histogram<u64>,
    /// From intended start to reply; `None` in a closed loop, where it is the service time.
    pub intended: Option<Histogram<u64>>,
}

impl CommandStats {
    /// Nothing counted yet.
    pub(crate) fn new(open_loop: bool) -> Self {
        Self {
            requests: 0,
            errors: 0,
            hits: 0,
            misses: 0,
            bytes_sent: 0,
            bytes_received: 0,
            service: latency_histogram(),
            intended: open_loop.then(latency_histogram),
        }
    }

    /// Latency as a client of the schedule sees it: corrected for coordinated omission.
    pub fn latency(&self) -> &Histogram<u64> {
        self.intended.as_ref().unwrap_or(&self.service)
    }

    /// The share of the keys read that had a value; `None` if nothing was read.
    pub fn hit_ratio(&self) -> Option<f64> {
        let read = self.hits + self.misses;
        (read > 0).then(|| self.hits as f64 / read as f64)
    }

    #[inline]
    fn count_replies(&mut self, count: u64, verdict: Verdict, bytes: u64) {
        self.requests += count;
        self.bytes_received += bytes;
        match verdict {
            Verdict::Done => {}
            Verdict::Found { hits, misses } => {
                self.hits += hits * count;
                self.misses += misses * count;
            }
            Verdict::Error => self.errors += count,
        }
    }

    fn record_latency(&mut self, service_ns: u64, latency_ns: u64, count: u64) {
        self.service.saturating_record_n(service_ns, count);
        if let Some(intended) = &mut self.intended {
            intended.saturating_record_n(latency_ns, count);
        }
    }

    /// Adds the counts of another thread, interval or command.
    pub(crate) fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.hits += other.hits;
        self.misses += other.misses;
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        add_histogram(&mut self.service, &other.service);
        if let (Some(own), Some(other)) = (&mut self.intended, &other.intended) {
            add_histogram(own, other);
        }
    }
}

fn add_histogram(total: &mut Histogram<u64>, part: &Histogram<u64>) {
    if !part.is_empty() {
        total.add(part).expect("all histograms have the same bounds");
    }
}

/// What is counted separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Commands of the load.
    pub commands: usize,
    /// Targets.
    pub targets: usize,
    /// Whether latency and service time differ.
    pub open_loop: bool,
}

/// The counts of one second of the measured window, per command.
#[derive(Clone, Debug)]
pub struct Interval {
    /// Its number: it covers the seconds `index..index + 1` of the window.
    pub index: u64,
    /// By the place of a command in its load.
    pub commands: Vec<CommandStats>,
    /// By target; empty when there is only one.
    pub targets: Vec<CommandStats>,
    /// Replies of all commands in each [`SLICE`].
    pub slices: [u64; SLICES],
}

impl Interval {
    /// An interval with nothing counted.
    pub(crate) fn new(index: u64, counted: Counted) -> Self {
        let stats = |count: usize| (0..count).map(|_| CommandStats::new(counted.open_loop)).collect();
        let targets = if counted.targets > 1 { counted.targets } else { 0 };
        Self { index, commands: stats(counted.commands), targets: stats(targets), slices: [0; SLICES] }
    }

    /// Adds another thread's part of the same interval.
    pub(crate) fn add(&mut self, other: &Self) {
        let own = self.commands.iter_mut().chain(&mut self.targets);
        for (own, other) in own.zip(other.commands.iter().chain(&other.targets)) {
            own.add(other);
        }
        self.slices.iter_mut().zip(other.slices).for_each(|(own, other)| *own += other);
    }

    /// All commands as one.
    pub fn total(&self) -> CommandStats {
        let mut total = self.commands[0].clone();
        for command in &self.commands[1..] {
            total.add(command);
        }
        total
    }

    /// Replies of all commands.
    pub fn requests(&self) -> u64 {
        self.commands.iter().map(|command| command.requests).sum()
    }
}

/// What one connection was served within the measured window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Replies.
    pub requests: u64,
    /// Their latencies, added up.
    pub latency_ns: u128,
    /// The longest of them.
    pub latency_ns_max: u64,
}

impl Served {
    #[inline]
    pub(crate) fn count(&mut self, latency_ns: u64, requests: u64) {
        self.requests += requests;
        self.latency_ns += u128::from(latency_ns) * u128::from(requests);
        self.latency_ns_max = self.latency_ns_max.max(latency_ns);
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.latency_ns += other.latency_ns;
        self.latency_ns_max = self.latency_ns_max.max(other.latency_ns_max);
    }
}

/// Counts for one thread and hands each full interval to the collector.
#[derive(Debug)]
pub(crate) struct Recorder {
    current: Interval,
    /// Which slice of the interval is counted, and when it ends.
    slice: usize,
    boundary_ns: u64,
    counted: Counted,
    intervals: SyncSender<Interval>,
}

impl Recorder {
    pub(crate) fn new(start_ns: u64, counted: Counted, intervals: SyncSender<Interval>) -> Self {
        Self { current: Interval::new(0, counted), slice: 0, boundary_ns: start_ns + SLICE_NS, counted, intervals }
    }

    /// Requests of this many bytes together were sent.
    #[inline]
    pub(crate) fn count_sent(&mut self, command: CommandId, target: usize, bytes: u64) {
        self.current.commands[usize::from(command)].bytes_sent += bytes;
        if let Some(stats) = self.current.targets.get_mut(target) {
            stats.bytes_sent += bytes;
        }
    }

    /// Counts this many equal replies, of this many bytes together.
    #[inline]
    pub(crate) fn count_replies(
        &mut self,
        command: CommandId,
        target: usize,
        count: u64,
        verdict: Verdict,
        bytes: u64,
    ) {
        self.current.slices[self.slice] += count;
        self.current.commands[usize::from(command)].count_replies(count, verdict, bytes);
        if let Some(stats) = self.current.targets.get_mut(target) {
            stats.count_replies(count, verdict, bytes);
        }
    }

    /// Records the times that `count` requests share.
    pub(crate) fn record_latency(
        &mut self,
        command: CommandId,
        target: usize,
        service_ns: u64,
        latency_ns: u64,
        count: u64,
    ) {
        self.current.commands[usize::from(command)].record_latency(service_ns, latency_ns, count);
        if let Some(stats) = self.current.targets.get_mut(target) {
            stats.record_latency(service_ns, latency_ns, count);
        }
    }

    /// Passes on the intervals that ended by `now_ns`, including empty ones: the collector counts them.
    #[inline]
    pub(crate) fn roll(&mut self, now_ns: u64) {
        while now_ns >= self.boundary_ns {
            self.boundary_ns += SLICE_NS;
            self.slice += 1;
            if self.slice == SLICES {
                self.slice = 0;
                self.hand_on();
            }
        }
    }

    /// Passes on the last, unfinished interval.
    pub(crate) fn finish(mut self) {
        self.hand_on();
    }

    fn hand_on(&mut self) {
        let next = Interval::new(self.current.index + 1, self.counted);
        let full = std::mem::replace(&mut self.current, next);
        // The collector goes away only when the run has failed; its error is the one to report.
        let _ = self.intervals.send(full);
    }
}
