//! The measurement: worker threads, each on its own core, with connections on them; a warm-up and a window.

use super::connection::{Client, Replies, Waits};
use super::load::{Batch, Load};
use super::options::Options;
use super::processes::{Kernel, pin};
use crate::base::narrowing::whole_u64;
use crate::base::{runtime, tsc};
use hdrhistogram::Histogram;
use std::cell::Cell;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// The longest latency that is recorded exactly: a minute.
const BATCH_NS_MAX: u64 = 60_000_000_000;

/// How often to check whether all connections have started.
const LOOK_WHETHER_READY: Duration = Duration::from_millis(1);

/// What was measured in the window.
#[derive(Debug)]
pub struct Found {
    /// Length of the window.
    pub seconds: f64,
    /// Requests, by the thread that ran them.
    pub requests_of_threads: Vec<u64>,
    /// Requests, by the connection that sent them.
    pub requests_of_connections: Vec<u64>,
    /// Nanoseconds from when a connection takes a batch until it has all replies.
    pub batches_ns: Histogram<u64>,
    /// Waits for locks, counted by the clients.
    pub waits: Waits,
    /// The kernel's counts for this process.
    pub kernel: Kernel,
    /// Bytes of replies over the whole time.
    pub reply_bytes: u64,
}

/// The phase that all connections are in.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    WarmUp,
    Window,
    End,
}

thread_local! {
    /// The number of this worker thread.
    static NUMBER: Cell<usize> = const { Cell::new(0) };
}

/// A counter that one thread writes, on its own cache line.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Count(AtomicU64);

/// What all connections share.
#[derive(Debug)]
struct Shared {
    phase: AtomicU8,
    /// Connections that have sent each of their batches once, or have failed.
    ready: AtomicUsize,
    of_threads: Vec<Count>,
}

impl Shared {
    fn is(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::Relaxed) == phase as u8
    }

    /// Counts for this thread; no other thread writes there.
    fn count(&self, requests: u64) {
        let count = &self.of_threads[NUMBER.get()].0;
        count.store(count.load(Ordering::Relaxed) + requests, Ordering::Relaxed);
    }
}

/// What one connection measured.
struct Outcome {
    requests: u64,
    batches_ticks: Histogram<u64>,
    waits: Waits,
    reply_bytes: u64,
}

/// The server's runtime, with each thread on its own core from `first_core` on.
pub fn start_runtime(options: &Options, threads: usize, first_core: usize) -> Result<Runtime, String> {
    let mut builder = runtime::builder(NonZeroUsize::new(threads).ok_or("there are no threads")?);
    let (next, pins) = (AtomicUsize::new(0), !options.no_pinning);
    builder.on_thread_start(move || {
        let number = next.fetch_add(1, Ordering::Relaxed);
        // The threads for blocking work start after the workers; nothing here uses them.
        NUMBER.set(number % threads);
        if pins {
            pin(first_core + number);
        }
    });
    builder.build().map_err(|error| format!("can't start the runtime: {error}"))
}

/// The same threads, with a runtime for each.
pub fn start_pinned(options: &Options) -> Result<Vec<Runtime>, String> {
    let start = |number: usize| {
        let (mut builder, pins) = (runtime::builder(NonZeroUsize::MIN), !options.no_pinning);
        builder.on_thread_start(move || {
            NUMBER.set(number);
            if pins {
                pin(number);
            }
        });
        builder.build().map_err(|error| format!("can't start a runtime: {error}"))
    };
    (0..options.threads).map(start).collect()
}

/// Fills the keyspace and measures. `begin` makes a client at a place, which is the number of its runtime; `begins` is
/// called when the window begins.
pub fn measure<C: Client>(
    options: &Options,
    runtimes: &[Runtime],
    workers: usize,
    mut begin: impl FnMut(usize) -> C,
    begins: impl FnOnce(),
) -> Result<Found, String> {
    let load = Load::new(options)?;
    let mut random = fastrand::Rng::with_seed(options.seed);
    let filler = begin(0);
    let first = &runtimes[0];
    first.block_on(first.spawn(fill(filler, load.filling()))).expect("it does not panic")?;

    let connections = workers * options.connections;
    let of_threads = (0..workers).map(|_| Count::default()).collect();
    let phase = AtomicU8::new(Phase::WarmUp as u8);
    let shared = Arc::new(Shared { phase, ready: AtomicUsize::new(0), of_threads });
    let tasks: Vec<JoinHandle<Result<Outcome, String>>> = (0..connections)
        .map(|number| {
            let place = number % runtimes.len();
            runtimes[place].spawn(serve(begin(place), load.prepared(&mut random), Arc::clone(&shared)))
        })
        .collect();
    while shared.ready.load(Ordering::Relaxed) < connections {
        std::thread::sleep(LOOK_WHETHER_READY);
    }
    std::thread::sleep(Duration::from_secs_f64(options.warm_up));
    let before = Kernel::look();
    begins();
    let start = Instant::now();
    shared.phase.store(Phase::Window as u8, Ordering::Relaxed);
    std::thread::sleep(Duration::from_secs_f64(options.seconds));
    shared.phase.store(Phase::End as u8, Ordering::Relaxed);
    let seconds = start.elapsed().as_secs_f64();
    let kernel = Kernel::look().since(&before);
    let outcomes: Vec<Outcome> = first.block_on(async {
        let mut outcomes = Vec::new();
        for task in tasks {
            outcomes.push(task.await.expect("it does not panic")?);
        }
        Ok::<_, String>(outcomes)
    })?;
    Ok(together(seconds, kernel, &shared, &outcomes))
}

/// Sends all batches, and checks the replies.
async fn fill<C: Client>(mut client: C, batches: Vec<Batch>) -> Result<(), String> {
    let mut replies = Replies { looks_for_errors: true, ..Replies::default() };
    for batch in &batches {
        client.call(batch, &mut replies).await;
    }
    replies.error.map_or(Ok(()), |error| Err(format!("filling the keyspace was replied {error}")))
}

/// One connection: sends one batch after the other until the window has ended.
async fn serve<C: Client>(mut client: C, batches: Vec<Batch>, shared: Arc<Shared>) -> Result<Outcome, String> {
    let mut batches_ticks = Histogram::new_with_max(BATCH_NS_MAX, 3).expect("three digits up to that are in its range");
    let mut replies = Replies { looks_for_errors: true, ..Replies::default() };
    let (mut requests, mut waits) = (0, Waits::default());
    let mut next = batches.iter().cycle();
    for _ in 0..batches.len() {
        client.call(next.next().expect("a cycle has no end"), &mut replies).await;
    }
    shared.ready.fetch_add(1, Ordering::Relaxed);
    if let Some(error) = replies.error.take() {
        return Err(format!("a request was replied {error}"));
    }
    replies.looks_for_errors = false;
    let mut since = tsc::now();
    while !shared.is(Phase::End) {
        let is_measured = shared.is(Phase::Window);
        let batch = next.next().expect("a cycle has no end");
        client.call(batch, &mut replies).await;
        let now = tsc::now();
        // A batch that ends after the window does not count.
        if is_measured && shared.is(Phase::Window) {
            batches_ticks.saturating_record(now.saturating_sub(since));
            requests += batch.requests;
            shared.count(batch.requests);
        } else if !is_measured {
            waits = client.waits();
        }
        since = now;
    }
    let at_end = client.waits();
    let waits =
        Waits { free: at_end.free - waits.free, count: at_end.count - waits.count, ticks: at_end.ticks - waits.ticks };
    Ok(Outcome { requests, batches_ticks, waits, reply_bytes: replies.bytes })
}

fn together(seconds: f64, kernel: Kernel, shared: &Shared, outcomes: &[Outcome]) -> Found {
    let ns_per_tick = 1000.0 / tsc::per_us();
    let mut batches_ns = Histogram::new_with_max(BATCH_NS_MAX, 3).expect("three digits up to that are in its range");
    let mut waits = Waits::default();
    for outcome in outcomes {
        waits += outcome.waits;
        for bucket in outcome.batches_ticks.iter_recorded() {
            let ns = whole_u64(bucket.value_iterated_to() as f64 * ns_per_tick);
            batches_ns.saturating_record_n(ns, bucket.count_at_value());
        }
    }
    Found {
        seconds,
        requests_of_threads: shared.of_threads.iter().map(|count| count.0.load(Ordering::Relaxed)).collect(),
        requests_of_connections: outcomes.iter().map(|outcome| outcome.requests).collect(),
        batches_ns,
        waits,
        kernel,
        reply_bytes: outcomes.iter().map(|outcome| outcome.reply_bytes).sum(),
    }
}
