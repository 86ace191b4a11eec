//! The targets: the engines, built as the server builds them but without a log, and the references.

use super::connection::Socketless;
use super::measure::{Found, measure, start_pinned, start_runtime};
use super::options::Options;
use super::processes::Kernel;
use super::references;
use crate::aof::{FsyncPolicy, LogControl, LogThread, PendingCommits, Segment};
use crate::base::clock::Clock;
use crate::base::limits::Limit;
use crate::base::narrowing::whole_u64;
use crate::base::randomness::Randomness;
use crate::base::tasks::Tasks;
use crate::base::tsc;
use crate::config::{Config, Directive};
use crate::engine::{ActorEngine, Batching, DashmapEngine, Engine, EngineComponents, MutexEngine};
use crate::keyspace::{Databases, Instance};
use crate::stats::stage_latency::{Figures, Stage};
use actors::FlumeChannels;
use std::num::NonZeroUsize;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// The server's default threshold of the slow log. Here nothing keeps the slow commands.
const SLOW_FROM_US: f64 = 10_000.0;

/// Shards of the map for each thread: the server's default for each core.
const MAP_SHARDS_PER_THREAD: usize = 4;

/// The measurement, and the engine's own counts.
#[derive(Debug)]
pub struct Measured {
    /// What the connections measured.
    pub found: Found,
    /// Shards of the engine; 0 for a reference.
    pub shards: usize,
    /// Where the time of the sampled batches went, within the window.
    pub stages: Vec<(&'static str, Figures)>,
    /// The engine's counts of its lock over the whole time, if it has them.
    pub lock: Option<EngineLock>,
}

/// The mutex engine's counts of its lock.
#[derive(Debug, Clone, Copy)]
pub struct EngineLock {
    /// Acquisitions that did not wait.
    pub free: u64,
    /// Acquisitions that waited.
    pub waited: u64,
    /// The median wait.
    pub p50_ns: u64,
    /// The 99th percentile of the waits.
    pub p99_ns: u64,
}

/// Measures what `options` name.
pub fn measure_target(options: &Options) -> Result<Measured, String> {
    tsc::begin();
    Kernel::look();
    match options.engine.as_str() {
        "mutex" => drive(options, 1, |engine_components| Arc::new(MutexEngine::new(engine_components))),
        "dashmap" => drive(options, 1, |engine_components| Arc::new(DashmapEngine::new(engine_components))),
        "actor" | "actor-pinned" | "actor-inline" => {
            drive(options, options.shards.unwrap_or(options.threads), |engine_components| {
                let engine = Arc::new(ActorEngine::<FlumeChannels>::new(engine_components));
                engine.start();
                engine
            })
        }
        _ => {
            let found = references::measure(options)?;
            Ok(Measured { found, shards: 0, stages: Vec::new(), lock: None })
        }
    }
}

fn drive<E: Engine>(
    options: &Options,
    owners: usize,
    build: impl FnOnce(EngineComponents) -> Arc<E>,
) -> Result<Measured, String> {
    let (runtimes, tasks) = if options.is_pinned() {
        let runtimes = start_pinned(options)?;
        let handles = runtimes.iter().map(|runtime| runtime.handle().clone()).collect();
        (runtimes, Tasks::Pinned(handles))
    } else {
        (vec![start_runtime(options, options.threads, 0)?], Tasks::System)
    };
    let (engine_components, log) = components_of(options, owners, tasks)?;
    let instance = Arc::clone(&engine_components.instance);
    let entered = runtimes[0].enter();
    let engine = build(engine_components);
    drop(entered);
    let begin = |place| Socketless::new(engine.session(place), Arc::clone(&instance));
    let found = measure(options, &runtimes, options.threads, begin, || instance.stages.reset())?;
    let metrics = engine.metrics();
    let lock = metrics.lock_waits.map(|waits| EngineLock {
        free: metrics.lock_free,
        waited: waits.count,
        p50_ns: waits.p50,
        p99_ns: waits.p99,
    });
    let stages = [Stage::Parse, Stage::Queue, Stage::Execute, Stage::Return, Stage::Reorder];
    let stages = stages.map(|stage| (stage.name(), instance.stages.figures(stage)));
    runtimes.into_iter().for_each(Runtime::shutdown_background);
    drop(log);
    Ok(Measured {
        found,
        shards: if metrics.map_shards > 0 { metrics.map_shards } else { metrics.shards.len() },
        stages: stages.to_vec(),
        lock,
    })
}

/// An instance with the settings that a server has by default, and random numbers of this seed.
pub fn instance(seed: u64) -> Arc<Instance> {
    let config = Config::default();
    let instance = Arc::new(Instance::new(Randomness::seeded(seed)));
    config.apply_to(&instance.settings);
    instance.calls.set_tracks_latency(config.is_on(Directive::LatencyTracking));
    instance.calls.set_slow_from(whole_u64(SLOW_FROM_US * tsc::per_us()));
    instance.stages.set_sample(config.narrow(Directive::StagesSample));
    instance
}

/// The components that the server builds an engine from, without a log and without keys.
fn components_of(options: &Options, owners: usize, tasks: Tasks) -> Result<(EngineComponents, Vec<LogThread>), String> {
    let config = Config::default();
    let (control, pending_commits) = (LogControl::new(FsyncPolicy::No), Arc::new(PendingCommits::default()));
    let started = (0..owners).map(|_| Segment::start_without_log(control.clone(), Arc::clone(&pending_commits)));
    let (segments, log): (Vec<_>, Vec<_>) = started.collect::<Result<_, _>>()?;
    pending_commits.begin(&segments);
    let instance = instance(options.seed);
    let databases = config.size(Directive::Databases);
    let number = |directive, otherwise| {
        let set = usize::try_from(config.number(directive)).ok().and_then(NonZeroUsize::new);
        set.unwrap_or(otherwise)
    };
    let map_shards = options.shards.and_then(NonZeroUsize::new);
    let engine_components = EngineComponents {
        instance: Arc::clone(&instance),
        stores: (0..owners).map(|index| Databases::of_shard(&instance, databases, index, owners)).collect(),
        segments,
        pending_commits,
        clock: Clock::default(),
        tasks,
        runs_in_place: options.runs_in_place(),
        mailbox_capacity: number(Directive::MailboxCapacity, NonZeroUsize::MIN),
        turn_batches: number(Directive::TurnBatches, NonZeroUsize::MIN),
        reads_in_flight: number(Directive::ReadsInFlight, NonZeroUsize::MIN),
        map_shards: map_shards
            .or(NonZeroUsize::new(MAP_SHARDS_PER_THREAD * options.threads))
            .unwrap_or(NonZeroUsize::MIN),
        is_multi_key_atomic: true,
        batching: Batching::new(options.is_by_read(), options.prefetches(), owners.div_ceil(options.threads)),
        pubsub: Arc::default(),
        due_keys: Arc::default(),
        latency: Arc::default(),
        reply_bytes_max: Arc::new(Limit::new(u64::MAX)),
    };
    Ok((engine_components, log))
}
