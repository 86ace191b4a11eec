//! A run from its first connection to its last reply.
//!
//! Per run: start the threads, connect everything, warm up, wait until every reply is in, then
//! open the measured window for all threads at one instant. The main thread takes the threads'
//! intervals, merges those of the same second, and shows each to the [`Observer`].

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant, SystemTime};

use super::connect::connect;
use super::event_loop::{Phase, PhaseEnd};
use super::io::choose;
use super::prefill::{delete_keys, prefill};
use super::storm::Storm;
use super::worker::Worker;
use crate::base::cpu::{CpuTime, pin_thread, raise_open_files_limit, stolen_time};
use crate::base::schedule::share_of;
use crate::base::timer::Clock;
use crate::base::{Error, interrupt};
use crate::config::{Config, Stop};
use crate::record::{Counted, INTERVAL, Interval, Io, Outcome, Recorder, ThreadTime, Verified};
use crate::workload::keys::{Frontier, Share};

/// Intervals that a thread may be ahead of the collector before it waits.
const INTERVALS_QUEUED_PER_THREAD: usize = 4;

/// Receives the events of a run. All calls come from the calling thread.
pub trait Observer {
    /// `done` of `total` keys are prefilled.
    fn prefilled(&mut self, _done: u64, _total: u64) {}
    /// The measured window of a run begins now.
    fn window_begins(&mut self, _run: u32, _at: SystemTime) -> Result<(), Error> {
        Ok(())
    }
    /// All threads have finished an interval; its commands are merged. `began` counts from the
    /// start of the window, `length` is a second except for the last one.
    fn interval(&mut self, _interval: &Interval, _began: Duration, _length: Duration) -> Result<(), Error> {
        Ok(())
    }
}

/// Runs the configuration, `-x` times, and adds up the outcomes.
pub fn run(config: &Config, observer: &mut dyn Observer) -> Result<Outcome, Error> {
    raise_open_files_limit();
    let io = choose(config)?;
    if config.verify {
        config.targets.iter().try_for_each(|target| delete_keys(config, target))?;
    }
    if config.prefill {
        let (keys, targets) = (config.prefill_keys(), config.targets.len() as u64);
        for (number, target) in (0..).zip(&config.targets) {
            prefill(config, target, |done| observer.prefilled(number * keys + done, targets * keys))?;
        }
    }
    let mut outcome = Outcome::new(config);
    outcome.io = Some(io);
    let frontier = Frontier::of(config.tags());
    for number in 1..=config.run_count {
        match run_once(config, number, &frontier, observer, &mut outcome) {
            Ok(()) => {}
            // Between two runs: the first ones are measured.
            Err(Error::Interrupted) if number > 1 => outcome.is_interrupted = true,
            Err(error) => return Err(error),
        }
        if outcome.is_interrupted {
            break;
        }
    }
    Ok(outcome)
}

/// What the threads of one run share.
struct Rendezvous {
    barrier: Barrier,
    /// A thread could not connect: none begins. Set before the first rendezvous, read after it.
    is_off: AtomicBool,
    abort: AtomicBool,
    start_ns: AtomicU64,
    clock: Clock,
    io: Io,
}

impl Rendezvous {
    /// Waits for all threads, and agrees on one instant.
    fn agree_on_start(&self) -> u64 {
        if self.barrier.wait().is_leader() {
            self.start_ns.store(self.clock.now_ns(), Ordering::Release);
        }
        self.barrier.wait();
        self.start_ns.load(Ordering::Acquire)
    }
}

/// The result of a thread.
struct ThreadEnd {
    connecting: Duration,
    phase: PhaseEnd,
    time: ThreadTime,
    verified: Option<Verified>,
    error_text: Option<String>,
}

fn run_once(
    config: &Config,
    number: u32,
    frontier: &Frontier,
    observer: &mut dyn Observer,
    outcome: &mut Outcome,
) -> Result<(), Error> {
    let shares = shares(config);
    let thread_count = shares.len();
    let rendezvous = Rendezvous {
        barrier: Barrier::new(thread_count + 1),
        is_off: AtomicBool::new(false),
        abort: AtomicBool::new(false),
        start_ns: AtomicU64::new(0),
        clock: Clock::start(),
        io: outcome.io.clone().expect("chosen before the first run"),
    };
    let (sender, intervals) = sync_channel(INTERVALS_QUEUED_PER_THREAD * thread_count);
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for share in shares {
            let (rendezvous, sender) = (&rendezvous, sender.clone());
            threads.push(scope.spawn(move || {
                thread_body(config, share, frontier, rendezvous, sender)
                    .inspect_err(|_| rendezvous.abort.store(true, Ordering::Relaxed))
            }));
        }
        drop(sender);
        rendezvous.barrier.wait();
        if rendezvous.is_off.load(Ordering::Acquire) {
            // Nothing was sent yet, and nothing must be shown.
            return join_all(threads).map(drop);
        }
        if config.warm_up > Duration::ZERO {
            rendezvous.agree_on_start();
        }
        let start_ns = rendezvous.agree_on_start();
        let (cpu, stolen) = (CpuTime::now(), stolen_time());
        outcome.begin_run();
        let collected = observer
            .window_begins(number, SystemTime::now())
            .and_then(|()| collect(&intervals, thread_count, observer, outcome));
        if collected.is_err() {
            rendezvous.abort.store(true, Ordering::Relaxed);
            // Lets a thread that waits for room in the channel continue, and see the flag.
            drop(intervals);
        }
        let ends = join_all(threads)?;
        let (cpu, stolen) = (CpuTime::now().since(cpu), stolen_time().saturating_sub(stolen));
        let duration = window_length(config, start_ns, &ends);
        for interval in collected? {
            let began = Duration::from_secs(interval.index);
            let length = duration.saturating_sub(began).min(INTERVAL);
            observe(observer, outcome, &interval, began, length)?;
        }
        outcome.end_run(duration, cpu);
        outcome.health.add_machine(stolen, duration);
        let connecting_before = outcome.connecting;
        outcome.is_interrupted |= ends.iter().any(|end| end.phase.interrupted_ns.is_some());
        outcome.add_connections(ends.iter().flat_map(|end| &end.phase.connections));
        for end in ends {
            outcome.health.add_thread(end.time, end.phase.spun, &end.phase.lag, duration);
            outcome.add_verified(end.verified);
            outcome.end_thread(end.phase.unsent, end.error_text);
            outcome.connecting = outcome.connecting.max(connecting_before + end.connecting);
        }
        Ok(())
    })
}

/// The first error in the order of threads, if any; threads that were only stopped have none.
fn join_all(threads: Vec<ScopedJoinHandle<'_, Result<Option<ThreadEnd>, Error>>>) -> Result<Vec<ThreadEnd>, Error> {
    let join = |thread: ScopedJoinHandle<'_, _>| thread.join().expect("threads return their errors");
    // All are joined before the first error counts.
    let ends: Vec<_> = threads.into_iter().map(join).collect();
    ends.into_iter().filter_map(Result::transpose).collect()
}

fn shares(config: &Config) -> Vec<Share> {
    let (clients, threads) = (config.clients.get(), config.threads.get());
    let mut first_client = 0;
    let share = |thread| {
        let own = share_of(clients as u64, thread as u64, threads as u64) as usize;
        let share = Share { thread, threads, first_client, clients: own, clients_total: clients };
        first_client += own;
        share
    };
    (0..threads).map(share).collect()
}

/// The connections of a thread, each with the number of its target.
fn connect_all(config: &Config, share: Share) -> Result<Vec<(TcpStream, usize)>, Error> {
    let connect = |client: usize| {
        interrupt::check()?;
        let target = client % config.targets.len();
        Ok((connect(config, &config.targets[target])?.into_stream(), target))
    };
    (share.first_client..share.first_client + share.clients).map(connect).collect()
}

/// One thread, from connecting to its last reply; `None` if another one could not connect.
fn thread_body(
    config: &Config,
    share: Share,
    frontier: &Frontier,
    rendezvous: &Rendezvous,
    intervals: SyncSender<Interval>,
) -> Result<Option<ThreadEnd>, Error> {
    let began = Instant::now();
    let ready = pin(config, share.thread).and_then(|()| {
        let streams = if config.connect_storm { Vec::new() } else { connect_all(config, share)? };
        let connecting = began.elapsed();
        Ok((connecting, Generator::new(config, share, frontier, rendezvous, streams)?))
    });
    if ready.is_err() {
        rendezvous.is_off.store(true, Ordering::Release);
    }
    // Every thread reaches this, failed or not: the others wait here.
    rendezvous.barrier.wait();
    let (connecting, mut worker) = ready?;
    if rendezvous.is_off.load(Ordering::Acquire) {
        return Ok(None);
    }
    let mut warm = Ok(());
    if config.warm_up > Duration::ZERO {
        let start_ns = rendezvous.agree_on_start();
        let phase = Phase { start_ns, stop: Stop::Time(config.warm_up) };
        warm = worker.run(phase, None).and_then(|_| interrupt::check());
        if warm.is_err() {
            rendezvous.abort.store(true, Ordering::Relaxed);
        }
    }
    // As above.
    let start_ns = rendezvous.agree_on_start();
    warm?;
    let before = ThreadTime::now();
    let counted =
        Counted { commands: config.commands().len(), targets: config.targets.len(), open_loop: config.rate.is_some() };
    let recorder = Recorder::new(start_ns, counted, intervals);
    let phase = worker.run(Phase { start_ns, stop: config.stop }, Some(recorder))?;
    let time = ThreadTime::now().since(before);
    let error_text = worker.error_text().map(str::to_owned);
    Ok(Some(ThreadEnd { connecting, phase, time, verified: worker.verified(), error_text }))
}

/// The generator of a thread.
// One for each thread: nothing is gained by a smaller one.
#[allow(clippy::large_enum_variant)]
enum Generator<'a> {
    Load(Worker<'a>),
    Storm(Storm<'a>),
}

impl<'a> Generator<'a> {
    fn new(
        config: &'a Config,
        share: Share,
        frontier: &Frontier,
        rendezvous: &'a Rendezvous,
        streams: Vec<(TcpStream, usize)>,
    ) -> Result<Self, Error> {
        let (clock, abort) = (rendezvous.clock, &rendezvous.abort);
        if config.connect_storm {
            Storm::new(config, share, clock, abort).map(Self::Storm)
        } else {
            Worker::new(config, &rendezvous.io, share, frontier, clock, abort, streams).map(Self::Load)
        }
    }

    fn run(&mut self, phase: Phase, recorder: Option<Recorder>) -> Result<PhaseEnd, Error> {
        match self {
            Self::Load(worker) => worker.run(phase, recorder),
            Self::Storm(storm) => storm.run(phase, recorder),
        }
    }

    fn verified(&self) -> Option<Verified> {
        match self {
            Self::Load(worker) => worker.verified(),
            Self::Storm(_) => None,
        }
    }

    fn error_text(&self) -> Option<&str> {
        match self {
            Self::Load(worker) => worker.error_text(),
            Self::Storm(storm) => storm.error_text(),
        }
    }
}

fn pin(config: &Config, thread: usize) -> Result<(), Error> {
    match config.pin_cpus.len() {
        0 => Ok(()),
        cpus => pin_thread(config.pin_cpus[thread % cpus])
            .map_err(|source| Error::system("bind a thread to its CPU (--pin-cpus)", source)),
    }
}

/// Merges the threads' intervals, and observes each one that every thread has finished. Returns
/// those that not every thread reached: most often the last one.
fn collect(
    intervals: &Receiver<Interval>,
    threads: usize,
    observer: &mut dyn Observer,
    outcome: &mut Outcome,
) -> Result<Vec<Interval>, Error> {
    let mut open: BTreeMap<u64, (Interval, usize)> = BTreeMap::new();
    let mut complete: Option<Interval> = None;
    for interval in intervals {
        let index = interval.index;
        let parts = match open.get_mut(&index) {
            Some((merged, parts)) => {
                merged.add(&interval);
                *parts += 1;
                *parts
            }
            None => {
                open.insert(index, (interval, 1));
                1
            }
        };
        if parts == threads {
            let (merged, _) = open.remove(&index).expect("it was just there");
            // The newest complete interval may be the last of the run, and shorter than a second:
            // its length is known when the run has ended.
            if let Some(full) = complete.replace(merged) {
                observe(observer, outcome, &full, Duration::from_secs(full.index), crate::record::INTERVAL)?;
            }
        }
    }
    Ok(complete.into_iter().chain(open.into_values().map(|(interval, _)| interval)).collect())
}

fn observe(
    observer: &mut dyn Observer,
    outcome: &mut Outcome,
    interval: &Interval,
    began: Duration,
    length: Duration,
) -> Result<(), Error> {
    if interval.requests() > 0 || length > Duration::ZERO {
        outcome.add_interval(interval, began, length);
        observer.interval(interval, began, length)?;
    }
    Ok(())
}

/// From the start to the last reply, and at least the requested time, or until it was interrupted.
fn window_length(config: &Config, start_ns: u64, ends: &[ThreadEnd]) -> Duration {
    let last_reply_ns = ends.iter().map(|end| end.phase.last_reply_ns).max().unwrap_or(start_ns);
    let until_last_reply = Duration::from_nanos(last_reply_ns - start_ns);
    let interrupted_ns = ends.iter().filter_map(|end| end.phase.interrupted_ns).max();
    let asked_for = match (interrupted_ns, config.stop) {
        (Some(interrupted_ns), _) => Duration::from_nanos(interrupted_ns.saturating_sub(start_ns)),
        (None, Stop::Requests(_)) => Duration::ZERO,
        (None, Stop::Time(time)) => time,
    };
    asked_for.max(until_last_reply)
}
