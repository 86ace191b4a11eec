//! The server: accepts connections, does the housekeeping, and ends in order.

pub mod background;
mod embedded;
mod pid_file;
mod position;
mod replica;
mod replication;

pub use crate::state::Platform;
pub use embedded::Server as EmbeddedServer;

use crate::aof::{
    DirLock, Disk, FsyncPolicy, Log, LogControl, Manifest, PendingCommits, Progress, Recovered, Rewriter, Segment,
    recover, remove_beginning,
};
use crate::base::bus_error;
use crate::base::clock::{milliseconds, uptime_ms};
use crate::base::limits::Limit;
use crate::base::memory;
use crate::base::narrowing::size;
use crate::base::network::{Address, Stream};
use crate::base::parallel::cores;
use crate::base::runtime;
use crate::base::tasks::Tasks;
use crate::base::ticks;
use crate::commands::Services;
use crate::config::logging::{LogFile, Seldom};
use crate::config::{
    Config, Directive, OutputLimit, fit_maxclients, is_pinned, layout, log_dir, or_default, snapshot_path, threads,
};
use crate::connection;
use crate::engine::{ActorEngine, Batching, DashmapEngine, Engine, EngineParts, Logs, MutexEngine, Session};
use crate::keyspace::{Databases, Instance, Table};
use crate::rdb;
use crate::replication::Replication;
use crate::server::pid_file::PidFile;
use crate::snapshot::FileId;
use crate::state::clients::{Client, Clients};
use crate::state::listening::{Accepted, Listening};
use crate::state::log_switch::{self, LogSwitch};
use crate::state::node_id;
use crate::state::pause::{Pause, Paused};
use crate::state::rewriting::Rewriting;
use crate::state::stopping::{LastSnapshot, Stop, StopRequest};
use crate::state::supervision::Supervisor;
use crate::state::{Server, Stats, Totals};
use crate::stats::slow_log::SlowLog;
use crate::tools::import::takeover::{self, Place};
use actors::{Channels, FlumeChannels, TokioChannels};
use parking_lot::Mutex;
use std::convert::Infallible;
use std::io;
use std::net::Shutdown;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::{oneshot, watch};
use tokio_util::task::TaskTracker;

/// How often the housekeeping runs.
const HOUSEKEEPING: Duration = Duration::from_millis(100);
/// How long connections may take to end when the server stops.
const DRAIN_MAX: Duration = Duration::from_secs(5);
/// Differences between a process and an embedded server.
struct Hooks {
    /// Whether it handles the signals of the process.
    handles_signals: bool,
    /// Called once, when it serves.
    is_ready: Box<dyn FnOnce(&Server) + Send>,
}

/// Runs a server with this configuration, which owns the process, until it is stopped. The error is for the operator.
pub fn run(config: Config, platform: Platform) -> Result<(), String> {
    run_with(config, platform, Hooks { handles_signals: true, is_ready: Box::new(|_| ()) })
}

fn run_with(config: Config, platform: Platform, hooks: Hooks) -> Result<(), String> {
    let instance = Arc::new(Instance::default());
    let (threads, is_pinned) = (threads(&config), is_pinned(&config)?);
    let runtimes = if is_pinned {
        runtime::pinned(threads)
    } else {
        runtime::builder(threads).build().map(|runtime| vec![runtime])
    };
    let runtimes = runtimes.map_err(|error| format!("can't start the runtime: {error}"))?;
    let platform = if is_pinned { on_pinned(&runtimes, platform) } else { platform };
    let result = runtimes[0].block_on(serve_here(Arc::clone(&instance), config, platform, hooks, threads.get()));
    if Services::of(&instance).scripting.busy.is_busy() {
        // Its thread is not waited for: it ends with the process.
        runtimes.into_iter().for_each(Runtime::shutdown_background);
    }
    result
}

/// The platform with a place for each runtime. What has no place runs on the first one.
fn on_pinned(runtimes: &[Runtime], mut platform: Platform) -> Platform {
    if let Tasks::System = platform.tasks {
        platform.tasks = Tasks::Pinned(runtimes.iter().map(|runtime| runtime.handle().clone()).collect());
    }
    platform
}

/// Runs a server with this configuration on the runtime that it is awaited in, until that ends or the server is told to
/// stop: several in one world of a test, which chooses what each stands on.
pub async fn run_within(config: Config, platform: Platform) -> Result<(), String> {
    let hooks = Hooks { handles_signals: false, is_ready: Box::new(|_| ()) };
    serve_here(Arc::new(Instance::default()), config, platform, hooks, 1).await
}

async fn serve_here(
    instance: Arc<Instance>,
    config: Config,
    platform: Platform,
    hooks: Hooks,
    threads: usize,
) -> Result<(), String> {
    is_pinned(&config)?;
    ticks::begin();
    bus_error::begin().map_err(|error| format!("can't handle signals: {error}"))?;
    let listening = Listening::begin(&config, Arc::clone(&platform.network))?;
    let engine = config.text(Directive::Engine);
    let channel = config.text(Directive::Channel);
    let start = Start { instance, config, listening, platform, hooks, threads, cores: cores() };
    match engine.as_str() {
        "mutex" => start.serve(|engine_parts| Arc::new(MutexEngine::new(engine_parts))).await,
        "dashmap" => start.serve(|engine_parts| Arc::new(DashmapEngine::new(engine_parts))).await,
        _ => match channel.as_str() {
            "tokio" => start.serve(start_actors::<TokioChannels>).await,
            _ => start.serve(start_actors::<FlumeChannels>).await,
        },
    }
}

fn start_actors<C: Channels>(engine_parts: EngineParts) -> Arc<ActorEngine<C>> {
    let engine = Arc::new(ActorEngine::new(engine_parts));
    engine.start();
    engine
}

/// Recovers the data and opens the log, for the layout of the engine.
fn lay_foundation(server: &Server, platform: &Platform, cores: usize) -> Loaded {
    let config = &server.config;
    let wanted = config.number(Directive::Shards);
    let layout = layout(config);
    let shards = layout.shards;
    let databases = config.size(Directive::Databases);
    let (control, clock) = (server.log_control.clone(), server.clock.clone());
    let dir = log_dir(config);
    let lock = server.has_log().then(|| DirLock::take(&dir)).transpose()?;
    let recovered = if lock.is_some() {
        let log = Log {
            disk: &*platform.disk,
            dir: &dir,
            layout,
            databases,
            threads: cores,
            boot: platform.boot.clone(),
            now_ms: clock.now_ms(),
            control: control.clone(),
            instance: Arc::clone(&server.instance),
        };
        remove_beginning(&*platform.disk, &dir)?;
        takeover::take_over(&Place {
            dir: Path::new(&config.text(Directive::Dir)),
            snapshot: &config.text(Directive::Dbfilename),
            log: &log,
            disk: &platform.disk,
            control: &control,
        })?;
        let recovered = recover(&log)?;
        let (usage, second) = (server.settings().eviction.usage(), clock.now_ms() / 1000);
        let tables = recovered.stores.iter().flat_map(Databases::tables);
        tables.for_each(|table| table.for_each(&mut |node| node.begin_use(usage, second)));
        recovered
    } else {
        let mut stores: Vec<_> =
            (0..shards).map(|index| Databases::of_part(&server.instance, databases, index, shards)).collect();
        load_snapshot(server, &*platform.disk, &mut stores)?;
        let pending_commits = Arc::new(PendingCommits::default());
        let started = (0..shards).map(|_| Segment::start_without_log(control.clone(), Arc::clone(&pending_commits)));
        let (segments, threads): (Vec<_>, Vec<_>) = started.unzip();
        pending_commits.begin(&segments);
        Recovered { stores, segments, pending_commits, threads, manifest: Manifest::default(), place: None }
    };
    let Recovered { stores, segments, pending_commits, threads, manifest, place } = recovered;
    position::restore(server, &*platform.disk, place, &segments);
    must_fit_cluster(config, &stores)?;
    let disk = Arc::clone(&platform.disk);
    let log = lock.map(|lock| {
        Arc::new(Rewriter::new(&server.instance, Arc::clone(&disk), dir, manifest, segments.clone()).keeping(lock))
    });
    let place = log_switch::Place { disk, boot: platform.boot.clone(), segments: segments.clone() };
    server.log_switch.begin(place, log.clone());
    log.into_iter().for_each(|log| server.rewriting.begin(log));
    let batching = Batching::new(config.number(Directive::Batching) == 0, config.is_on(Directive::Prefetch));
    let engine_parts = EngineParts {
        instance: Arc::clone(&server.instance),
        stores,
        segments,
        pending_commits,
        clock: clock.clone(),
        runs_in_place: config.number(Directive::Local) > 0,
        seed: fastrand::u64(..),
        mailbox_capacity: or_default(config.number(Directive::MailboxCapacity), || 1),
        turn_batches: or_default(config.number(Directive::TurnBatches), || 1),
        reads_in_flight: or_default(config.number(Directive::ReadsInFlight), || 1),
        map_shards: or_default(wanted, || 4 * cores),
        pubsub: Arc::clone(&server.pubsub),
        tasks: server.tasks.clone(),
        due_keys: Arc::clone(&server.due_keys),
        latency: Arc::clone(&server.latency),
        is_multi_key_atomic: config.number(Directive::MultiKey) == 0,
        batching: if server.tasks.is_scheduled() { batching.untimed() } else { batching },
        reply_bytes_max: Arc::clone(&server.reply_bytes_max),
    };
    Ok((engine_parts, Logs { threads, control, clock }))
}

/// A cluster has one database: the keys of others would be unreachable.
fn must_fit_cluster(config: &Config, stores: &[Databases]) -> Result<(), String> {
    let has_others = stores.iter().any(|store| store.tables()[1..].iter().any(|table| table.len() > 0));
    match config.is_on(Directive::ClusterEnabled) && has_others {
        true => Err("You can't have keys in a DB different than DB 0 when in Cluster mode. Exiting.".into()),
        false => Ok(()),
    }
}

/// Loads the snapshot, if there is one: without a log it is all of the data.
fn load_snapshot(server: &Server, disk: &dyn Disk, stores: &mut [Databases]) -> Result<(), String> {
    let start = Instant::now();
    let path = snapshot_path(&server.config);
    let describe = |reason: String| format!("can't load {}: {reason}", path.display());
    let id = match FileId::of(&path) {
        Ok(id) => id,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(describe(error.to_string())),
    };
    let bytes = disk.read(&path).map_err(|error| describe(error.to_string()))?.unwrap_or_default();
    let progress = Progress::new(path.display().to_string(), bytes.len() as u64, &server.log_control);
    let loaded = rdb::load(&bytes, stores, server.clock.now_ms(), &|bytes| progress.add(bytes)).map_err(|reason| {
        describe(format!("{reason}. Refusing to start without what it holds: move it away, or put a whole one there"))
    })?;
    server.services.scripting.load_functions(loaded.summary.libraries.iter().map(AsRef::as_ref)).map_err(describe)?;
    if let Some(words) = loaded.summary.left_out() {
        tracing::warn!("{}: {words}", path.display());
    }
    tracing::info!(
        "Done loading RDB, keys loaded: {}, keys expired: {}, empty keys skipped: {}.",
        loaded.keys,
        loaded.expired,
        loaded.summary.empty_keys
    );
    tracing::info!(
        "DB loaded from disk: {:.3} seconds, {}, of {}",
        start.elapsed().as_secs_f64(),
        path.display(),
        loaded.summary.origin()
    );
    server.services.saves.note_loaded(id, loaded.keys, loaded.expired);
    Ok(())
}

/// Everything that is ready before the data is loaded.
struct Start {
    instance: Arc<Instance>,
    config: Config,
    listening: Listening,
    platform: Platform,
    hooks: Hooks,
    threads: usize,
    cores: usize,
}

impl Start {
    /// Serves until it is stopped: at first with -LOADING, while the log is read; then with the engine that `build`
    /// makes of the data.
    async fn serve<E: Engine>(self, build: impl FnOnce(EngineParts) -> Arc<E>) -> Result<(), String> {
        let Self { instance, config, listening, platform, hooks, threads, cores } = self;
        let server = new_server(instance, config, listening, threads, &platform)?;
        let _pid_file = PidFile::write(&server.config.path(Directive::Pidfile));
        let tasks = TaskTracker::new();
        if hooks.handles_signals {
            stop_by_signals(Arc::clone(&server.stop), platform.log_file.clone())?;
        }
        server.tasks.spawn("housekeeping", keep_house(Arc::clone(&server)));
        server.tasks.spawn("memory", watch_memory(Arc::clone(&server)));

        let file = snapshot_path(&server.config);
        if server.has_log() || file.exists() {
            let what = if server.has_log() { "the append only file" } else { "the snapshot" };
            for place in server.listening.places() {
                tracing::info!("Reading {what}; meanwhile -LOADING is replied on {place}");
            }
        }
        look_around(&server.config);
        server.supervisor.loading();
        let (loaded, engine) = watch::channel(None);
        let disk = Arc::clone(&platform.disk);
        let disk_at_end = Arc::clone(&disk);
        let loading = load(&server, platform, cores)?;
        let (engine_parts, logs) = {
            let admit = |client: Arc<Client>| {
                let place = place_of(client.id, &server);
                let life = serve_early(Arc::clone(&server), client, place, engine.clone());
                server.tasks.spawn_at(place, "connection", tasks.track_future(life));
            };
            tokio::select! {
                biased;
                // The log is as after a crash; the thread that reads it ends with the process.
                _ = server.stop.asked() => return Ok(()),
                result = loading => result.expect("the thread that loads does not panic")?,
                never = accept(&server, admit) => match never {},
            }
        };
        let engine = build(engine_parts);
        assert!(server.engine.set(engine.clone()).is_ok(), "there is one engine");
        loaded.send_replace(Some(Arc::clone(&engine)));

        server.services.saves.begin_at(snapshot_path(&server.config), server.clock.clone());
        announce(&server);
        server.supervisor.ready();
        let hz = server.config.number(Directive::Hz);
        server.tasks.spawn("expiration", Arc::clone(&engine).expire_for_ever(hz));
        server.tasks.spawn("eviction", Arc::clone(&engine).evict_for_ever());
        server.tasks.spawn("epochs", Arc::clone(&engine).end_epochs());
        for thread in &logs.threads {
            server.tasks.spawn("commits", thread.notify_commits(threads < cores));
        }
        server.tasks.spawn("background", background::run(Arc::clone(&server), Arc::clone(&engine)));
        server.tasks.spawn("replication", replication::run(Arc::clone(&server), Arc::clone(&engine)));
        let following = replica::run(Arc::clone(&server), Arc::clone(&engine), disk);
        server.tasks.spawn("replica", tasks.track_future(following));
        let admit = |client: Arc<Client>| {
            let place = place_of(client.id, &server);
            let life = serve(Arc::clone(&server), client, engine.session(place));
            server.tasks.spawn_at(place, "connection", tasks.track_future(life));
        };
        (hooks.is_ready)(&server);
        let (is_saved, left) = loop {
            let (request, left) = tokio::select! {
                ending = must_end(&server) => ending,
                never = accept(&server, &admit) => match never {},
            };
            match save_at_end(&server, &engine, request).await {
                Ok(is_saved) => break (is_saved, left),
                Err(CannotEnd) => {
                    server.stop.give_up();
                    server.pause.end_ending();
                }
            }
        };
        server.supervisor.stopping();
        server.listening.end();
        server.replication.end();
        drain(&server, &tasks, &logs, is_saved, left).await;
        // Changes that were in flight when it was made.
        let changed = || server.metrics().keyspace.changes > server.services.saves.changes_saved();
        let saved = if is_saved && changed() { background::save(&server, &engine).await } else { true };
        // The log's own threads write and sync; this thread has nothing else left to run.
        let finished = logs.finish(server.log_switch.take());
        server.rewriting.end_log(|| false);
        server.services.saves.give_up();
        finished?;
        position::keep(&server, &*disk_at_end);
        if !saved {
            return Err(
                "the last snapshot lacks what was changed while it was made: it could not be written again".into()
            );
        }
        tracing::info!("Shardrace is now ready to exit, bye bye...");
        Ok(())
    }
}

/// Waits until the end is requested, and until replicas have caught up, for at most `shutdown-timeout`. Meanwhile clients
/// read, commands that may write wait, and SHUTDOWN ABORT gives up the end. Also returns how much of the time is left.
async fn must_end(server: &Server) -> (StopRequest, Duration) {
    loop {
        let request = server.stop.asked().await;
        let most = match request.is_now {
            true => Duration::ZERO,
            false => Duration::from_secs(server.config.number(Directive::ShutdownTimeout)),
        };
        if most.is_zero() || !replication::has_replicas_online(server) {
            return (request, most);
        }
        let begin = Instant::now();
        server.pause.begin_ending();
        server.stop.begin_wait(uptime_ms() + milliseconds(most));
        tokio::select! {
            () = replication::let_catch_up(server, most) => {}
            () = server.stop.given_up() => {}
        }
        if server.stop.end_wait() {
            return (request, most.saturating_sub(begin.elapsed()));
        }
        tracing::info!("Shutdown manually aborted.");
        server.pause.end_ending();
    }
}

/// A server cannot end, because it would lose its data.
struct CannotEnd;

/// Makes the last snapshot, if one is needed, and returns whether it was made. Commands that may change data wait
/// meanwhile, and for ever once it is on the disk.
async fn save_at_end<E: Engine>(server: &Server, engine: &Arc<E>, request: StopRequest) -> Result<bool, CannotEnd> {
    if server.has_log() && server.rewriting.is_first() {
        if !request.is_forced {
            tracing::warn!("Writing initial AOF, can't exit.");
            return Err(CannotEnd);
        }
        tracing::warn!("Writing initial AOF. Exit anyway.");
    }
    let is_wanted = match request.snapshot {
        LastSnapshot::AsConfigured => server.config.number(Directive::Save) > 0,
        LastSnapshot::Always => true,
        LastSnapshot::Never => false,
    };
    // A snapshot that waits for a script would wait for ever.
    if !is_wanted || server.services.scripting.busy.is_busy() {
        return Ok(false);
    }
    tracing::info!("Saving the final RDB snapshot before exiting.");
    server.pause.begin(Paused::Writes, FOR_EVER_MS);
    if background::save(server, engine).await {
        return Ok(true);
    }
    if request.is_forced {
        tracing::warn!("Error trying to save the DB. Exit anyway.");
        return Ok(false);
    }
    tracing::warn!("Error trying to save the DB, can't exit.");
    server.pause.end();
    Err(CannotEnd)
}

/// It is kept where it matters.
fn name_of_node(config: &Config) -> Result<String, String> {
    match config.is_on(Directive::ClusterEnabled) {
        true => node_id::kept_in(Path::new(&config.text(Directive::Dir))),
        false => Ok(node_id::random()),
    }
}

fn new_server(
    instance: Arc<Instance>,
    config: Config,
    listening: Listening,
    threads: usize,
    platform: &Platform,
) -> Result<Arc<Server>, String> {
    fit_maxclients(&config)?;
    let services = Arc::clone(Services::of(&instance));
    let server = Arc::new(Server {
        clients: Clients::default(),
        stats: Stats::default(),
        engine: OnceLock::new(),
        started: Instant::now(),
        run_id: node_id::random(),
        replication: Replication::new(node_id::random()),
        supervisor: Supervisor::find(&config.text(Directive::Supervised)),
        node_id: name_of_node(&config)?,
        os: operating_system(),
        pubsub: Arc::default(),
        due_keys: Arc::default(),
        role_change: Mutex::default(),
        listening,
        script_client: OnceLock::new(),
        threads,
        log_control: LogControl::new(FsyncPolicy::from_number(config.choice(Directive::Appendfsync)))
            .with_tasks(platform.tasks.clone()),
        rewriting: Rewriting::new(Arc::clone(&services.saves)),
        log_switch: LogSwitch::new(Arc::clone(&services)),
        pause: Pause::new(Arc::clone(&instance), Arc::clone(&services.saves.backlog)),
        stop: Arc::default(),
        slow_log: SlowLog::default(),
        latency: Arc::default(),
        startup_memory: memory::used(),
        read_size: Limit::new(0),
        reply_bytes_max: Arc::new(Limit::new(0)),
        coarse_uptime_ms: AtomicU64::new(uptime_ms()),
        attacks: Seldom::default(),
        base: Mutex::default(),
        clock: platform.clock.clone(),
        network: Arc::clone(&platform.network),
        tasks: platform.tasks.clone(),
        config,
        instance,
        services,
    });
    connection::serve_scripts(&server);
    if let Some((host, port)) = server.config.master() {
        if server.config.is_on(Directive::ClusterEnabled) {
            return Err("replicaof directive not allowed in cluster mode".into());
        }
        server.follow(host, port);
    }
    // Replayed values get the same encodings.
    server.apply_config();
    if server.refuses_cross_slot() {
        server.log_control.look_at_all();
    }
    Ok(server)
}

/// Loads the data on a thread of its own: connections get replies meanwhile.
fn load(server: &Arc<Server>, platform: Platform, cores: usize) -> Result<oneshot::Receiver<Loaded>, String> {
    let (done, loading) = oneshot::channel();
    let (server, tasks) = (Arc::clone(server), server.tasks.clone());
    let load = move || {
        // The result is dropped if the server was stopped.
        let _ = done.send(lay_foundation(&server, &platform, cores));
    };
    tasks.spawn_thread("load", load).map_err(|error| format!("can't start a thread: {error}"))?;
    Ok(loading)
}

type Loaded = Result<(EngineParts, Logs), String>;

/// A connection's life.
async fn serve<S: Session>(server: Arc<Server>, client: Arc<Client>, session: S) {
    connection::serve(Arc::clone(&server), Arc::clone(&client), session).await;
    depart(&server, &client);
}

/// The life of a connection that comes before the data is loaded.
async fn serve_early<E: Engine>(
    server: Arc<Server>,
    client: Arc<Client>,
    place: usize,
    mut engine: watch::Receiver<Option<Arc<E>>>,
) {
    let session = async {
        let ready = engine.wait_for(Option::is_some).await.ok().and_then(|engine| engine.clone());
        match ready {
            Some(engine) => engine.session(place),
            // The server stops before it has begun, and its connections with it.
            None => std::future::pending().await,
        }
    };
    connection::serve_early(Arc::clone(&server), Arc::clone(&client), session).await;
    depart(&server, &client);
}

fn depart(server: &Server, client: &Client) {
    server.clients.remove(client.id);
    server.stats.departed.lock().add_client(client);
}
/// Warns if the current directory looks as if its data was meant: that is Redis's default.
fn look_around(config: &Config) {
    let dir = PathBuf::from(config.text(Directive::Dir));
    let is_elsewhere = dir.canonicalize().ok() != Path::new(".").canonicalize().ok();
    let names = [config.text(Directive::Dbfilename), config.text(Directive::Appenddirname)];
    let is_only_here = |name: &&String| Path::new(name.as_str()).exists() && !dir.join(name.as_str()).exists();
    if is_elsewhere && let Some(name) = names.iter().find(is_only_here) {
        tracing::warn!(
            "There is {name} in the directory that the server was started in, and --dir is {}: to use it, \
                        start with --dir .",
            dir.display()
        );
    }
}

fn operating_system() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{} {} {}", std::env::consts::OS, release.trim(), std::env::consts::ARCH)
}

fn announce(server: &Server) {
    let metrics = server.metrics();
    tracing::info!(
        "Shardrace {}, engine={}, shards={}, threads={}, pid={}",
        env!("CARGO_PKG_VERSION"),
        metrics.engine,
        metrics.shards.len(),
        server.threads,
        std::process::id()
    );
    if metrics.segments.is_empty() {
        match server.config.text(Directive::Save).as_str() {
            "" => tracing::warn!("No log and no save points: what was written since the last SAVE or BGSAVE is lost."),
            points => tracing::info!("No log; snapshots are made by themselves: save {points}"),
        }
    } else {
        tracing::info!(
            "Persistence: append only file in {}/{}, appendfsync {}",
            server.config.text(Directive::Dir),
            server.config.text(Directive::Appenddirname),
            server.config.text(Directive::Appendfsync)
        );
    }
    for place in server.listening.places() {
        tracing::info!("Ready to accept connections {place}");
    }
}

/// Ends the server on a signal. A second signal ends it at once. SIGHUP reopens the log file; SIGUSR1 does nothing,
/// like SIGPIPE, which Rust's runtime ignores.
fn stop_by_signals(stop: Arc<Stop>, log_file: Option<LogFile>) -> Result<(), String> {
    use tokio::signal::unix::{SignalKind, signal};
    let describe = |error: io::Error| format!("can't listen for signals: {error}");
    let mut terminate = signal(SignalKind::terminate()).map_err(describe)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(describe)?;
    let mut hang_up = signal(SignalKind::hangup()).map_err(describe)?;
    let mut user = signal(SignalKind::user_defined1()).map_err(describe)?;
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                _ = hang_up.recv() => {
                    log_file.iter().for_each(LogFile::reopen);
                    continue;
                }
                _ = user.recv() => continue,
            }
            if !stop.ask(StopRequest::default()) {
                tracing::warn!("You insist... exiting now.");
                std::process::exit(1);
            }
            tracing::info!("User requested shutdown...");
        }
    });
    Ok(())
}

/// Accepts connections until it is dropped.
async fn accept(server: &Server, begin: impl Fn(Arc<Client>)) -> Infallible {
    loop {
        match server.listening.accept().await {
            Ok(accepted) => admit(accepted, server).into_iter().for_each(&begin),
            Err(error) => {
                // Out of files, for example: connections wait in the backlog until some are closed.
                tracing::warn!("Accepting client connection: {error}");
                tokio::time::sleep(HOUSEKEEPING).await;
            }
        }
    }
}

/// Accepts a connection, or refuses it.
fn admit(mut accepted: Accepted, server: &Server) -> Option<Arc<Client>> {
    server.stats.connections.fetch_add(1, Ordering::Relaxed);
    if is_protected_from(&accepted.address, server) {
        return turn_away(&accepted.stream, DENIED, server);
    }
    // A socket that fails here is closed already; its task will notice.
    let _ = accepted.stream.prepare(server.config.number(Directive::TcpKeepalive));
    let id = server.clients.next_id();
    accepted.stream = match server.tasks.take_to(place_of(id, server), accepted.stream) {
        Ok(stream) => stream,
        Err(error) => {
            tracing::warn!("Accepting client connection: {error}");
            return None;
        }
    };
    let client = Arc::new(Client::of(accepted, id));
    if !server.clients.add(&client, server.config.number(Directive::Maxclients)) {
        return turn_away(&client.stream, "-ERR max number of clients reached\r\n", server);
    }
    Some(client)
}

/// Where a connection runs: connections take the places in turn.
fn place_of(id: u64, server: &Server) -> usize {
    size(id % server.tasks.places() as u64)
}

fn is_protected_from(address: &Address, server: &Server) -> bool {
    !address.is_local()
        && server.config.is_on(Directive::ProtectedMode)
        && server.config.text(Directive::Requirepass).is_empty()
}

fn turn_away(stream: &Stream, reason: &str, server: &Server) -> Option<Arc<Client>> {
    server.stats.rejected.fetch_add(1, Ordering::Relaxed);
    // The client may be gone; it would have been refused anyway.
    let _ = stream.write_at_once(reason.as_bytes());
    None
}

/// The error of protected mode for remote connections; the text is Redis's, which clients and users know.
const DENIED: &str = "-DENIED Redis is running in protected mode because protected mode is enabled and no password is set \
    for the default user. In this mode connections are only accepted from the loopback interface. If you want to connect \
    from external computers to Redis you may adopt one of the following solutions: 1) Just disable protected mode \
    sending the command 'CONFIG SET protected-mode no' from the loopback interface by connecting to Redis from the same \
    host the server is running, however MAKE SURE Redis is not publicly accessible from internet if you do so. Use \
    CONFIG REWRITE to make this change permanent. 2) Alternatively you can just disable the protected mode by editing \
    the Redis configuration file, and setting the protected mode option to 'no', and then restarting the server. 3) If \
    you started the server manually just for testing, restart it with the '--protected-mode no' option. 4) Set up an \
    authentication password for the default user. NOTE: You only need to do one of the above things in order for the \
    server to start accepting connections from the outside.\r\n";

/// Measures the memory in use, more often the nearer the limit is.
async fn watch_memory(server: Arc<Server>) {
    loop {
        server.instance.pressure.next_look(server.look_at_memory()).await;
    }
}

/// Updates the coarse clock, and ends connections that idle or read no replies.
async fn keep_house(server: Arc<Server>) {
    const LOOKS_PER_SECOND: u64 = 10;
    let mut before = Totals::default();
    for look in 0u64.. {
        tokio::time::sleep(HOUSEKEEPING).await;
        let now_ms = uptime_ms();
        server.coarse_uptime_ms.store(now_ms, Ordering::Relaxed);
        if !look.is_multiple_of(LOOKS_PER_SECOND) {
            continue;
        }
        let mut totals = *server.stats.departed.lock();
        let (limits, timeout_s) = (server.config.output_limits(), server.config.number(Directive::Timeout));
        for client in server.clients.list() {
            totals.add_client(&client);
            let limit = match () {
                () if client.is_replica() => limits.slave,
                () if client.is_listening() => limits.pubsub,
                () => limits.normal,
            };
            if is_over_soft_limit(&client, limit, now_ms) {
                tracing::warn!(client = client.id, "Client closed for overcoming of output buffer limits.");
                server.stats.over_limit.fetch_add(1, Ordering::Relaxed);
                client.shut_down(Shutdown::Both);
            }
            let idle_ms = now_ms.saturating_sub(client.last_seen_ms.load(Ordering::Relaxed));
            if timeout_s > 0 && client.may_idle_out() && idle_ms > timeout_s * 1000 {
                tracing::debug!(client = client.id, "Closing idle client");
                client.shut_down(Shutdown::Both);
            }
        }
        let stats = &server.stats;
        for (rate, now, before) in [
            (&stats.ops_per_sec, totals.commands, before.commands),
            (&stats.input_per_sec, totals.input_bytes, before.input_bytes),
            (&stats.output_per_sec, totals.output_bytes, before.output_bytes),
        ] {
            rate.store(now.saturating_sub(before), Ordering::Relaxed);
        }
        before = totals;
        // The peak is the highest measurement.
        memory::used();
    }
}

/// Whether a connection's unread replies and messages have exceeded the soft limit for too long.
fn is_over_soft_limit(client: &Client, limit: OutputLimit, now_ms: u64) -> bool {
    let is_over = client.unread_bytes() > limit.soft_max();
    let since_ms = client.output_over_since_ms.load(Ordering::Relaxed);
    if !is_over || since_ms == 0 {
        client.output_over_since_ms.store(if is_over { now_ms } else { 0 }, Ordering::Relaxed);
        return false;
    }
    now_ms.saturating_sub(since_ms) > limit.soft_seconds * 1000
}

/// For how long no changes are permitted when a server ends.
const FOR_EVER_MS: u64 = u64::MAX >> 1;
/// How often it checks whether only connections to replicas are left.
const LOOK_FOR_REPLICAS: Duration = Duration::from_millis(5);
/// How long it waits for connections if a script keeps them from ending.
const DRAIN_BESIDE_SCRIPT: Duration = Duration::from_millis(200);

/// Waits until only connections to replicas are left.
async fn wait_for_others_than_replicas(server: &Server, tasks: &TaskTracker) {
    if server.replication.replicas().is_empty() {
        return tasks.wait().await;
    }
    while tasks.len() > server.replication.replicas().len() {
        tokio::time::sleep(LOOK_FOR_REPLICAS).await;
    }
}

/// Lets connections reply to what they have read, and end; replicas end when they have all changes. Connections that
/// wait for a log that cannot be written end without their replies, and so do writes that came after the last snapshot, or
/// while the server waited for its replicas.
async fn drain(server: &Server, tasks: &TaskTracker, logs: &Logs, is_saved: bool, left: Duration) {
    tasks.close();
    match is_saved || server.pause.is_ending() {
        true => server.pause.end_for_good(),
        false => server.pause.end(),
    }
    let close_all = |how: Shutdown| server.clients.list().iter().for_each(|client| client.shut_down(how));
    let others = server.clients.list().into_iter().filter(|client| !client.is_replica());
    others.for_each(|client| client.shut_down(Shutdown::Read));
    let most = if server.services.scripting.busy.is_busy() { DRAIN_BESIDE_SCRIPT } else { DRAIN_MAX };
    let drained = tokio::time::timeout(most, wait_for_others_than_replicas(server, tasks)).await;
    if drained.is_ok() {
        // Keys do not expire any more either, because their replicas must be where this server ends.
        server.pause.begin(Paused::Writes, FOR_EVER_MS);
        replication::send_the_rest(server, left).await;
    }
    close_all(Shutdown::Read);
    if drained.is_err() || tokio::time::timeout(most, tasks.wait()).await.is_err() {
        if server.services.scripting.busy.is_busy() {
            tracing::warn!("A script runs that does not end: what it has changed is lost");
            return;
        }
        let why = if logs.control.is_failing() {
            "wait for a log that cannot be written"
        } else {
            "do not take their replies"
        };
        tracing::warn!("{} connections {why}: closing them", server.clients.len());
        close_all(Shutdown::Both);
        // Replies sent from now on reach no client.
        logs.control.give_up();
        logs.threads.iter().for_each(|thread| thread.segment().wake_released());
        tasks.wait().await;
    }
}
