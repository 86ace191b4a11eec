//! What happens before a server serves: it is made, its data is loaded, and it says where it listens.

use super::Platform;
use super::position;
use crate::acl::Users;
use crate::aof::{
    DirLock, Disk, FsyncPolicy, Log, LogControl, Manifest, PendingCommits, Progress, Recovered, Rewriter, Segment,
    recover, remove_beginning,
};
use crate::base::allocator;
use crate::base::clock::uptime_ms;
use crate::base::limits::Limit;
use crate::base::randomness::Randomness;
use crate::commands::{Names, Services};
use crate::config::logging::Seldom;
use crate::config::{Config, Directive, fit_maxclients, layout, log_dir, or_default, snapshot_path, threads};
use crate::connection;
use crate::engine::{Batching, EngineComponents, Logs};
use crate::keyspace::{Databases, Instance, Table};
use crate::pubsub::PubSub;
use crate::rdb;
use crate::replication::Replication;
use crate::snapshot::FileId;
use crate::state::client_eviction::ClientMemory;
use crate::state::client_list::Clients;
use crate::state::listening::Listening;
use crate::state::log_switch::{self, LogSwitch};
use crate::state::node_id;
use crate::state::oom_score::OomScore;
use crate::state::pause::Pause;
use crate::state::rewriting::Rewriting;
use crate::state::supervision::Supervisor;
use crate::state::tls::Tls;
use crate::state::{Server, Stats};
use crate::stats::slow_log::SlowLog;
use crate::tools::import::beside;
use crate::tools::import::takeover::{self, Destination};
use parking_lot::Mutex;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// It is kept where it matters.
fn name_of_node(config: &Config, randomness: &Randomness) -> Result<String, String> {
    match config.is_on(Directive::ClusterEnabled) {
        true => node_id::kept_in(Path::new(&config.text(Directive::Dir)), randomness),
        false => Ok(node_id::random(randomness)),
    }
}

pub(super) fn new_server(
    instance: Arc<Instance>,
    config: Config,
    listening: Listening,
    threads: usize,
    platform: &Platform,
) -> Result<Arc<Server>, String> {
    fit_maxclients(&config)?;
    let tls = Tls::begin(&config)?;
    let services = Arc::clone(Services::of(&instance));
    services.name_commands(names_at_start(&config)?);
    let users = users_at_start(&config)?;
    let server = Arc::new(Server {
        users,
        clients: Clients::default(),
        oom_score: OomScore::default(),
        client_memory: ClientMemory::default(),
        stats: Stats::default(),
        engine: OnceLock::new(),
        started: Instant::now(),
        run_id: node_id::random(&platform.randomness),
        replication: Replication::new(node_id::random(&platform.randomness)),
        supervisor: Supervisor::find(&config.text(Directive::Supervised)),
        node_id: name_of_node(&config, &platform.randomness)?,
        os: operating_system(),
        pubsub: own_channels(),
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
        startup_memory: allocator::used(),
        read_size: Limit::new(0),
        reply_bytes_max: Arc::new(Limit::new(0)),
        coarse_uptime_ms: AtomicU64::new(uptime_ms()),
        attacks: Seldom::default(),
        base: Mutex::default(),
        clock: platform.clock.clone(),
        network: Arc::clone(&platform.network),
        links: Arc::default(),
        tls,
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

/// The names of commands, with those of the directive `rename-command`.
fn names_at_start(config: &Config) -> Result<Names, String> {
    let mut names = Names::default();
    for [name, other] in config.renamings() {
        names.rename(&name, &other).map_err(|error| format!("rename-command {name} \"{other}\": {error}"))?;
    }
    Ok(names)
}

/// The users of the directive `user`, or of the file `aclfile`.
fn users_at_start(config: &Config) -> Result<Arc<Users>, String> {
    let users = Users::default();
    users.set_all_channels(config.text(Directive::AclPubsubDefault) == "allchannels");
    users.set_default_password(&config.text(Directive::Requirepass));
    let (configured, file) = (config.users(), config.path(Directive::Aclfile));
    if !configured.is_empty() && !file.is_empty() {
        return Err("users are either lines 'user' of the configuration, or in the file 'aclfile', not both".into());
    }
    users.add_configured(&configured)?;
    if !file.is_empty() {
        users.load(&file).map_err(|errors| format!("aborting because of ACL errors: {errors}"))?;
    }
    Ok(Arc::new(users))
}

/// Takes the directory of the log, if there is to be one.
pub(super) fn lock_dir(server: &Server) -> Result<Option<DirLock>, String> {
    server.has_log().then(|| DirLock::take(&log_dir(&server.config))).transpose()
}

/// Loads the data on a thread of its own: connections get replies meanwhile. `lock` is that of a log's directory.
pub(super) fn load(
    server: &Arc<Server>,
    platform: Platform,
    cores: usize,
    lock: Option<DirLock>,
) -> Result<oneshot::Receiver<Loaded>, String> {
    let (done, loading) = oneshot::channel();
    let (server, tasks) = (Arc::clone(server), server.tasks.clone());
    let load = move || {
        if let Err(Ok((_, logs))) = done.send(load_engine(&server, &platform, cores, lock)) {
            end_unserved(&server, logs);
        }
    };
    tasks.spawn_thread("load", load).map_err(|error| format!("can't start a thread: {error}"))?;
    Ok(loading)
}

/// Gives up the loading of a server that was stopped meanwhile, and waits at most so long for its end.
pub(super) async fn give_up_loading(server: &Server, loading: oneshot::Receiver<Loaded>, most: Duration) {
    server.log_control.give_up_loading();
    if let Ok(Ok(Ok((_, logs)))) = tokio::time::timeout(most, loading).await {
        end_unserved(server, logs);
    }
}

/// Ends a log that was read too late.
fn end_unserved(server: &Server, logs: Logs) {
    if let Err(reason) = logs.finish(server.log_switch.take()) {
        tracing::warn!("The log of a server that was stopped while it loaded its data: {reason}");
    }
}

pub(super) type Loaded = Result<(EngineComponents, Logs), String>;

/// Recovers the data and opens the log, for the layout of the engine.
fn load_engine(server: &Server, platform: &Platform, cores: usize, lock: Option<DirLock>) -> Loaded {
    let recovered = match lock {
        Some(_) => recover_log(server, platform, cores)?,
        None => load_without_log(server, platform)?,
    };
    let Recovered { stores, segments, pending_commits, threads, manifest, place } = recovered;
    position::restore(server, &*platform.disk, place, &manifest, &segments);
    must_fit_cluster(&server.config, &stores)?;
    let disk = Arc::clone(&platform.disk);
    let dir = log_dir(&server.config);
    let log = lock.map(|lock| {
        Arc::new(Rewriter::new(&server.instance, Arc::clone(&disk), dir, manifest, segments.clone()).keeping(lock))
    });
    let place = log_switch::LogTarget { disk, boot: platform.boot.clone(), segments: segments.clone() };
    server.log_switch.begin(place, log.clone());
    log.into_iter().for_each(|log| server.rewriting.begin(log));
    let logs = Logs { threads, control: server.log_control.clone(), clock: server.clock.clone() };
    Ok((engine_components(server, cores, stores, segments, pending_commits), logs))
}

/// The data of the log, which takes over a snapshot or a log of Redis where there is one.
fn recover_log(server: &Server, platform: &Platform, cores: usize) -> Result<Recovered, String> {
    let config = &server.config;
    let (control, dir) = (server.log_control.clone(), log_dir(config));
    let log = Log {
        disk: &*platform.disk,
        dir: &dir,
        layout: layout(config),
        databases: config.size(Directive::Databases),
        threads: cores,
        boot: platform.boot.clone(),
        now_ms: server.clock.now_ms(),
        control: control.clone(),
        instance: Arc::clone(&server.instance),
    };
    remove_beginning(&*platform.disk, &dir)?;
    takeover::take_over(&Destination {
        dir: Path::new(&config.text(Directive::Dir)),
        snapshot: &config.text(Directive::Dbfilename),
        log: &log,
        disk: &platform.disk,
        control: &control,
    })?;
    let recovered = recover(&log)?;
    let (usage, second) = (server.settings().eviction.usage(), server.clock.now_ms() / 1000);
    let tables = recovered.stores.iter().flat_map(Databases::tables);
    tables.for_each(|table| table.for_each(&mut |node| node.begin_use(usage, second)));
    Ok(recovered)
}

/// The data of the snapshot, and segments that log nothing.
fn load_without_log(server: &Server, platform: &Platform) -> Result<Recovered, String> {
    let shards = layout(&server.config).shards;
    let databases = server.config.size(Directive::Databases);
    let mut stores: Vec<_> =
        (0..shards).map(|index| Databases::of_shard(&server.instance, databases, index, shards)).collect();
    beside::of_snapshot(&snapshot_path(&server.config), &log_dir(&server.config));
    load_snapshot(server, &*platform.disk, &mut stores)?;
    let pending_commits = Arc::new(PendingCommits::default());
    let start = |_| Segment::start_without_log(server.log_control.clone(), Arc::clone(&pending_commits));
    let (segments, threads): (Vec<_>, Vec<_>) = (0..shards).map(start).collect::<Result<_, _>>()?;
    pending_commits.begin(&segments);
    Ok(Recovered { stores, segments, pending_commits, threads, manifest: Manifest::default(), place: None })
}

fn engine_components(
    server: &Server,
    cores: usize,
    stores: Vec<Databases>,
    segments: Vec<Arc<Segment>>,
    pending_commits: Arc<PendingCommits>,
) -> EngineComponents {
    let config = &server.config;
    let shards_per_thread = layout(config).shards.div_ceil(threads(config).get());
    let is_by_read = config.number(Directive::Batching) == 0;
    let batching = Batching::new(is_by_read, config.is_on(Directive::Prefetch), shards_per_thread);
    EngineComponents {
        instance: Arc::clone(&server.instance),
        stores,
        segments,
        pending_commits,
        clock: server.clock.clone(),
        runs_in_place: config.number(Directive::Local) > 0,
        mailbox_capacity: or_default(config.number(Directive::MailboxCapacity), || 1),
        turn_batches: or_default(config.number(Directive::TurnBatches), || 1),
        reads_in_flight: or_default(config.number(Directive::ReadsInFlight), || 1),
        map_shards: or_default(config.number(Directive::Shards), || 4 * cores),
        pubsub: Arc::clone(&server.pubsub),
        tasks: server.tasks.clone(),
        due_keys: Arc::clone(&server.due_keys),
        latency: Arc::clone(&server.latency),
        is_multi_key_atomic: config.number(Directive::MultiKey) == 0,
        batching: if server.tasks.is_scheduled() { batching.untimed() } else { batching },
        reply_bytes_max: Arc::clone(&server.reply_bytes_max),
    }
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
    let note = |bytes| {
        progress.add(bytes);
        progress.must_go_on()
    };
    let loaded = rdb::load(&bytes, stores, server.clock.now_ms(), true, &note).map_err(|reason| {
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

/// The channels of a new server, and their subscribers.
fn own_channels() -> Arc<PubSub> {
    #[cfg(feature = "planted-cost")]
    if crate::base::planted::is_global("channels") {
        static PLANTED: OnceLock<Arc<PubSub>> = OnceLock::new();
        return Arc::clone(PLANTED.get_or_init(Arc::default));
    }
    Arc::default()
}

/// Warns if the current directory looks as if its data was meant: that is Redis's default.
pub(super) fn warn_about_other_data(config: &Config) {
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

pub(super) fn announce(server: &Server) {
    let metrics = server.metrics();
    let of_map = match metrics.map_shards {
        0 => String::new(),
        count => format!(", map_shards={count}"),
    };
    tracing::info!(
        "Shardrace {}, engine={}, shards={}{of_map}, threads={}, pid={}",
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
