//! Where the time of a request goes: INFO stages.
//!
//! One read in so many (`stages-sample`, on average: which ones is drawn) is sampled on its way through the server, and
//! the time of each stage goes into a histogram. An unsampled read costs a countdown, and each of its steps a
//! comparison. The stages of a read's requests, in order:
//!
//! | stage | from | to |
//! |---|---|---|
//! | read | before the system call that reads | its end |
//! | parse | parsing of a read's requests | they are in batches (actor), or have run (mutex, dashmap) less queue, execute and log |
//! | queue | a batch is sent | its shard begins with it (actor); all waiting for locks (mutex, dashmap) |
//! | execute | there | the last of the batch's commands has run (actor); all running of commands (mutex, dashmap) |
//! | log | the shard's turn has run | its records are in the log's buffer (actor); all appending to it (mutex, dashmap) |
//! | return | the batch has run | its connection has it (actor), less log: the rest of the shard's turn is in it |
//! | sync | the connection has the replies | the log allows to show them; where there is a log |
//! | reorder | there | the turn of its last reply has come; for a command in parts, its first part is back to its last (actor) |
//! | write | before the system call that takes the replies, or the first of them | its end |
//!
//! Times are those of a read's whole part in a stage, not of one command: they grow with a pipeline's depth. The time
//! of a connection between two of its stages is in none. A transaction is a batch of its own; one over several shards
//! logs within execute.

use crate::base::randomness::Randomness;
use crate::base::tsc;
use crate::stats::histogram::{Counts, Histogram};
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The stages of the requests of one server.
#[derive(Debug)]
pub struct Stages {
    /// One read in this many is sampled; 0 for none: `stages-sample`.
    sample: AtomicU32,
    /// The seed of the next draw. Threads share it without a lock.
    next_seed: AtomicU64,
    times: [Times; Stage::ALL.len()],
}

thread_local! {
    /// Reads of this thread until one is sampled: a part of a draw, valid for every server.
    static LEFT: Cell<u32> = const { Cell::new(1) };
}

/// A stage of a request's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The system call that reads.
    Read,
    /// Parsing, routing, and putting into batches.
    Parse,
    /// Waiting for the owner of the data.
    Queue,
    /// Running the commands.
    Execute,
    /// Handing the records to the log.
    Log,
    /// The way back from the owner.
    Return,
    /// Waiting for the log.
    Sync,
    /// Waiting for the replies before.
    Reorder,
    /// The system call that writes.
    Write,
}

impl Stage {
    /// All, in their order.
    pub const ALL: [Self; 9] = [
        Self::Read,
        Self::Parse,
        Self::Queue,
        Self::Execute,
        Self::Log,
        Self::Return,
        Self::Sync,
        Self::Reorder,
        Self::Write,
    ];

    /// The name as INFO shows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Parse => "parse",
            Self::Queue => "queue",
            Self::Execute => "execute",
            Self::Log => "log",
            Self::Return => "return",
            Self::Sync => "sync",
            Self::Reorder => "reorder",
            Self::Write => "write",
        }
    }
}

impl Stages {
    /// The stages of a new server.
    pub fn new(randomness: &Randomness) -> Self {
        Self {
            sample: AtomicU32::new(0),
            next_seed: AtomicU64::new(randomness.number()),
            times: [const { Times::new() }; Stage::ALL.len()],
        }
    }

    /// Sets of how many reads one is sampled from now on; 0 for none.
    pub fn set_sample(&self, sample: u32) {
        self.sample.store(sample, Ordering::Relaxed);
    }

    /// Whether the read that begins now is sampled.
    #[inline]
    pub fn samples_next_read(&self) -> bool {
        let sample = self.sample.load(Ordering::Relaxed);
        sample != 0 && self.is_drawn(sample)
    }

    fn is_drawn(&self, sample: u32) -> bool {
        let distance_max = sample.saturating_mul(2) - 1;
        LEFT.with(|left| {
            // It may have been drawn for another sample.
            let now = left.get().min(distance_max);
            let is_drawn = now <= 1;
            left.set(if is_drawn { self.draw_distance(distance_max) } else { now - 1 });
            is_drawn
        })
    }

    /// Draws the distance to the next: a fixed one might always hit the same connection.
    fn draw_distance(&self, most: u32) -> u32 {
        fastrand::Rng::with_seed(self.next_seed.fetch_add(1, Ordering::Relaxed)).u32(1..=most)
    }

    /// Records how many ticks a stage took. O(1)
    pub fn note(&self, stage: Stage, ticks: u64) {
        let times = &self.times[stage as usize];
        times.counts.note_among_others(ticks);
        times.sum.fetch_add(ticks, Ordering::Relaxed);
        times.max.fetch_max(ticks, Ordering::Relaxed);
    }

    /// Records a stage that began at `start` and ends now; returns its end.
    pub fn note_since(&self, stage: Stage, start: u64) -> u64 {
        let end = tsc::now();
        // Another core's counter may be a little behind.
        self.note(stage, end.saturating_sub(start));
        end
    }

    /// The times of a stage since the start, or since [`reset`](Self::reset).
    pub fn figures(&self, stage: Stage) -> Figures {
        let times = &self.times[stage as usize];
        let mut histogram = Histogram::default();
        histogram.add(&times.counts);
        let per_us = tsc::per_us();
        let count = histogram.len();
        let max = times.max.load(Ordering::Relaxed);
        let us = |ticks: u64| ticks as f64 / per_us;
        let quantile = |share| if count == 0 { 0.0 } else { us(histogram.quantile(share).min(max)) };
        Figures {
            count,
            mean_us: us(times.sum.load(Ordering::Relaxed)) / count.max(1) as f64,
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
            p999_us: quantile(0.999),
            max_us: us(max),
        }
    }

    /// Removes all times.
    pub fn reset(&self) {
        self.times.iter().for_each(Times::reset);
    }
}

/// The times of one stage, in ticks. All threads write them: only sampled reads come here.
#[derive(Debug)]
struct Times {
    counts: Counts,
    sum: AtomicU64,
    max: AtomicU64,
}

impl Times {
    const fn new() -> Self {
        Self { counts: Counts::new(), sum: AtomicU64::new(0), max: AtomicU64::new(0) }
    }

    fn reset(&self) {
        self.counts.reset();
        self.sum.store(0, Ordering::Relaxed);
        self.max.store(0, Ordering::Relaxed);
    }
}

/// The figures of a stage: microseconds, to an eighth in quantiles.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    pub count: u64,
    pub mean_us: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub max_us: f64,
}

/// As INFO shows it.
impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { count, mean_us, p50_us, p99_us, p999_us, max_us } = self;
        write!(f, "count={count},mean={mean_us:.3},p50={p50_us:.3},p99={p99_us:.3},p999={p999_us:.3},max={max_us:.3}")
    }
}

/// The stages of a read whose commands run where it was read: the sums over its commands.
#[derive(Debug, Default)]
pub struct Laps {
    /// Whether the read is sampled.
    is_on: bool,
    queue: u64,
    execute: u64,
    log: u64,
}

impl Laps {
    /// Begins a sampled read.
    pub fn begin(&mut self) {
        *self = Self { is_on: true, ..Self::default() };
    }

    /// When a lap begins; `None` for an unsampled read.
    #[inline]
    pub fn start(&self) -> Option<u64> {
        self.is_on.then(tsc::now)
    }

    /// Ends a lap; the next begins.
    #[inline]
    pub fn lap(&mut self, stage: Stage, start: &mut Option<u64>) {
        if let Some(since) = start {
            let now = tsc::now();
            let took = now.saturating_sub(*since);
            *since = now;
            match stage {
                Stage::Queue => self.queue += took,
                Stage::Execute => self.execute += took,
                Stage::Log => self.log += took,
                _ => unreachable!("a command that runs here has no other stages"),
            }
        }
    }

    /// The ticks of all laps.
    pub fn sum(&self) -> u64 {
        self.queue + self.execute + self.log
    }

    /// Ends the read, records its stages if it was sampled and ran a command, and returns whether it was.
    pub fn end(&mut self, stages: &Stages, has_run: bool, has_logged: bool) -> bool {
        if !self.is_on {
            return false;
        }
        let Self { queue, execute, log, .. } = std::mem::take(self);
        if has_run {
            stages.note(Stage::Queue, queue);
            stages.note(Stage::Execute, execute);
            if has_logged {
                stages.note(Stage::Log, log);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_read_in_so_many_is_sampled_on_average_and_each_at_one() {
        let stages = Stages::new(&Randomness::System);
        let drawn = |sample: u32, reads: u32| (0..reads).filter(|_| stages.is_drawn(sample)).count();
        let many = drawn(64, 64_000);
        assert!((800..1_250).contains(&many), "{many} of 64,000");
        stages.is_drawn(u32::MAX);
        assert_eq!(drawn(1, 100), 100, "what was drawn for another sample is forgotten");
    }

    #[test]
    fn figures_are_those_of_what_was_noted() {
        tsc::begin();
        let per_us = tsc::per_us();
        let stages = Stages::new(&Randomness::System);
        (1..=1_000).for_each(|us| stages.note(Stage::Queue, (f64::from(us) * per_us) as u64));
        let found = stages.figures(Stage::Queue);
        assert_eq!(found.count, 1_000);
        for (found, wanted) in [(found.mean_us, 500.5), (found.max_us, 1_000.0)] {
            assert!((found / wanted - 1.0).abs() < 0.02, "{found} for {wanted}");
        }
        for (found, wanted) in [(found.p50_us, 500.0), (found.p99_us, 990.0), (found.p999_us, 999.0)] {
            assert!((wanted * 0.98..=wanted * 1.15).contains(&found), "{found} for {wanted}");
        }
        assert_eq!(stages.figures(Stage::Execute).count, 0);
        stages.reset();
        let none = stages.figures(Stage::Queue);
        assert_eq!((none.count, none.mean_us, none.p50_us, none.max_us), (0, 0.0, 0.0, 0.0));
    }
}
