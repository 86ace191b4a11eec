//! The life of a server: it begins to listen, loads its data, serves, and ends in order.

mod accepting;
pub mod background;
pub mod daemon;
mod embedded;
mod housekeeping;
mod pid_file;
mod position;
mod replica;
mod replication_tasks;
mod shutdown;
mod startup;

pub use crate::state::Platform;
pub use embedded::Server as EmbeddedServer;

use crate::aof::Disk;
use crate::base::bus_error;
use crate::base::parallel::cores;
use crate::base::runtime;
use crate::base::tasks::Tasks;
use crate::base::tsc;
use crate::commands::Services;
use crate::config::{Config, Directive, is_pinned, snapshot_path, threads};
use crate::engine::{ActorEngine, DashmapEngine, Engine, EngineComponents, Logs, MutexEngine};
use crate::keyspace::Instance;
use crate::state::Server;
use crate::state::client_list::Client;
use crate::state::listening::Listening;
use accepting::{accept, place_of, serve, serve_early};
use actors::{Channels, FlumeChannels, TokioChannels};
use housekeeping::{keep_house, measure_memory};
use pid_file::PidFile;
use shutdown::{CannotEnd, drain, must_end, save_again, save_at_end, stop_by_signals};
use startup::{Loaded, announce, give_up_loading, load, lock_dir, new_server, warn_about_other_data};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::{oneshot, watch};
use tokio_util::task::TaskTracker;

/// Differences between a process and an embedded server.
struct Hooks {
    /// Whether it handles the signals of the process.
    handles_signals: bool,
    /// Called once, when it listens; the data is not loaded yet. The error is for the operator.
    is_listening: fn() -> io::Result<()>,
    /// Called once, when it serves.
    is_ready: Box<dyn FnOnce(&Server) + Send>,
}

/// How long a server that has ended waits for threads that still do something: none of them has anything to lose.
const LAST_THREADS_MAX: Duration = Duration::from_secs(1);

/// Runs a server with this configuration, which owns the process, until it is stopped. The error is for the operator.
pub fn run(config: Config, platform: Platform) -> Result<(), String> {
    let is_listening = daemon::report_listening;
    run_with(config, platform, Hooks { handles_signals: true, is_listening, is_ready: Box::new(|_| ()) })
}

fn run_with(config: Config, platform: Platform, hooks: Hooks) -> Result<(), String> {
    let instance = Arc::new(Instance::new(platform.randomness.clone()));
    let (threads, is_pinned) = (threads(&config), is_pinned(&config)?);
    // Each runtime has a spare thread. One more: the allocator starts one meanwhile.
    let count = threads.get() + if is_pinned { threads.get() } else { 1 } + 1;
    runtime::must_have_threads(count).map_err(|error| format!("can't start {count} threads: {error}"))?;
    let runtimes = if is_pinned {
        runtime::pinned(threads)
    } else {
        runtime::builder(threads).build().map(|runtime| vec![runtime])
    };
    let runtimes = runtimes.map_err(|error| format!("can't start the runtime: {error}"))?;
    runtimes.iter().for_each(runtime::keep_spare_thread);
    let platform = if is_pinned { on_pinned(&runtimes, platform) } else { platform };
    let result = runtimes[0].block_on(serve_here(Arc::clone(&instance), config, platform, hooks, threads.get()));
    let is_script_running = Services::of(&instance).scripting.busy.is_busy();
    runtime::end(runtimes, if is_script_running { Duration::ZERO } else { LAST_THREADS_MAX });
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
    let hooks = Hooks { handles_signals: false, is_listening: || Ok(()), is_ready: Box::new(|_| ()) };
    let instance = Arc::new(Instance::new(platform.randomness.clone()));
    serve_here(instance, config, platform, hooks, 1).await
}

async fn serve_here(
    instance: Arc<Instance>,
    config: Config,
    platform: Platform,
    hooks: Hooks,
    threads: usize,
) -> Result<(), String> {
    is_pinned(&config)?;
    tsc::begin();
    bus_error::begin().map_err(|error| format!("can't handle signals: {error}"))?;
    let listening = Listening::begin(&config, Arc::clone(&platform.network))?;
    let engine = config.text(Directive::Engine);
    let channel = config.text(Directive::Channel);
    let start = Start { instance, config, listening, platform, hooks, threads, cores: cores() };
    match engine.as_str() {
        "mutex" => start.serve(|engine_components| Arc::new(MutexEngine::new(engine_components))).await,
        "dashmap" => start.serve(|engine_components| Arc::new(DashmapEngine::new(engine_components))).await,
        _ => match channel.as_str() {
            "tokio" => start.serve(start_actors::<TokioChannels>).await,
            _ => start.serve(start_actors::<FlumeChannels>).await,
        },
    }
}

fn start_actors<C: Channels>(engine_components: EngineComponents) -> Arc<ActorEngine<C>> {
    let engine = Arc::new(ActorEngine::new(engine_components));
    engine.start();
    engine
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
    async fn serve<E: Engine>(self, build: impl FnOnce(EngineComponents) -> Arc<E>) -> Result<(), String> {
        let Self { instance, config, listening, platform, hooks, threads, cores } = self;
        let server = new_server(instance, config, listening, threads, &platform)?;
        // First: a server that has the directory locked may have written the file of this name.
        let lock = lock_dir(&server)?;
        let _pid_file = PidFile::write(&server.config.path(Directive::Pidfile));
        let tasks = TaskTracker::new();
        if hooks.handles_signals {
            server.oom_score.own();
            server.apply_oom_score().unwrap_or_else(|error| tracing::warn!("oom-score-adj: {error}"));
            stop_by_signals(Arc::clone(&server), platform.log_file.clone())?;
        }
        (hooks.is_listening)().map_err(|error| format!("can't give up the standard streams: {error}"))?;
        server.instance.freeing.begin(server.tasks.clone());
        server.tasks.spawn("housekeeping", keep_house(Arc::clone(&server)));
        server.tasks.spawn("memory", measure_memory(Arc::clone(&server)));

        report_loading(&server);
        warn_about_other_data(&server.config);
        server.supervisor.loading();
        let (loaded, engine) = watch::channel(None);
        let disk = Arc::clone(&platform.disk);
        let mut loading = load(&server, platform, cores, lock)?;
        let Some((engine_components, logs)) = reply_while_loading(&server, &tasks, &engine, &mut loading).await? else {
            // The log is as after a crash.
            server.listening.end();
            give_up_loading(&server, loading, LAST_THREADS_MAX).await;
            return Ok(());
        };
        let engine = build(engine_components);
        assert!(server.engine.set(engine.clone()).is_ok(), "there is one engine");
        loaded.send_replace(Some(Arc::clone(&engine)));

        server.services.saves.begin_at(snapshot_path(&server.config), server.clock.clone());
        announce(&server);
        server.supervisor.ready();
        let running = Running { server, engine, logs, tasks, disk };
        running.spawn_work(threads < cores);
        (hooks.is_ready)(&running.server);
        let (is_saved, left) = running.serve_until_stopped().await;
        running.end(is_saved, left).await
    }
}

/// Says which data is read, and where connections are refused meanwhile.
fn report_loading(server: &Server) {
    if server.has_log() || snapshot_path(&server.config).exists() {
        let what = if server.has_log() { "the append only file" } else { "the snapshot" };
        for place in server.listening.places() {
            tracing::info!("Reading {what}; meanwhile -LOADING is replied on {place}");
        }
    }
}

/// How long the data is loaded before connections are accepted. Until then they wait in the kernel's queue: clients of
/// a server that is loaded by then do not see -LOADING, as with Redis, which looks at its clients each 2 MB.
const LOADING_UNSEEN: Duration = Duration::from_millis(200);

/// Accepts connections until the data is loaded; `None` if the server is stopped before.
async fn reply_while_loading<E: Engine>(
    server: &Arc<Server>,
    tasks: &TaskTracker,
    engine: &watch::Receiver<Option<Arc<E>>>,
    loading: &mut oneshot::Receiver<Loaded>,
) -> Result<Option<(EngineComponents, Logs)>, String> {
    let admit = |client: Arc<Client>| {
        let place = place_of(client.id, server);
        let life = serve_early(Arc::clone(server), Arc::clone(&client), place, engine.clone());
        spawn_connection(server, tasks, &client, life);
    };
    let accept_later = async {
        tokio::time::sleep(LOADING_UNSEEN).await;
        accept(server, admit).await
    };
    tokio::select! {
        biased;
        _ = server.stop.asked() => Ok(None),
        result = loading => result.expect("the thread that loads does not panic").map(Some),
        never = accept_later => match never {},
    }
}

/// Starts a connection's life at its place.
fn spawn_connection<F>(server: &Server, tasks: &TaskTracker, client: &Client, life: F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let life = tasks.track_future(life);
    client.note_task(size_of_val(&life));
    server.tasks.spawn_at(place_of(client.id, server), "connection", life);
}

/// A server with its data.
struct Running<E> {
    server: Arc<Server>,
    engine: Arc<E>,
    logs: Logs,
    /// The connections, and what follows a master.
    tasks: TaskTracker,
    disk: Arc<dyn Disk>,
}

impl<E: Engine> Running<E> {
    /// Starts what is done beside the connections. A core may be left over for tasks that wait awake.
    fn spawn_work(&self, has_spare_core: bool) {
        let Self { server, engine, logs, tasks, disk } = self;
        let hz = server.config.number(Directive::Hz);
        server.tasks.spawn("expiration", Arc::clone(engine).expire_for_ever(hz));
        server.tasks.spawn("eviction", Arc::clone(engine).evict_for_ever());
        server.tasks.spawn("epochs", Arc::clone(engine).end_epochs());
        for thread in &logs.threads {
            server.tasks.spawn("commits", thread.notify_commits(has_spare_core));
        }
        server.tasks.spawn("background", background::run(Arc::clone(server), Arc::clone(engine)));
        server.tasks.spawn("replication", replication_tasks::run(Arc::clone(server), Arc::clone(engine)));
        let following = replica::run(Arc::clone(server), Arc::clone(engine), Arc::clone(disk));
        server.tasks.spawn("replica", tasks.track_future(following));
    }

    /// Accepts connections until the server must end and can. Returns whether a snapshot was saved, and how much time
    /// is left to send replicas the rest.
    async fn serve_until_stopped(&self) -> (bool, Duration) {
        let Self { server, engine, tasks, .. } = self;
        let admit = |client: Arc<Client>| {
            let place = place_of(client.id, server);
            let life = serve(Arc::clone(server), Arc::clone(&client), engine.session(place));
            spawn_connection(server, tasks, &client, life);
        };
        loop {
            let (request, left) = tokio::select! {
                ending = must_end(server) => ending,
                never = accept(server, &admit) => match never {},
            };
            // A script can make the last snapshot wait: a new connection must be able to end it.
            let ended = tokio::select! {
                ended = save_at_end(server, engine, request) => ended,
                never = accept(server, &admit) => match never {},
            };
            match ended {
                Ok(is_saved) => return (is_saved, left),
                Err(CannotEnd) => {
                    server.stop.give_up();
                    server.pause.end_ending();
                }
            }
        }
    }

    /// Ends the connections, then the logs.
    async fn end(self, is_saved: bool, left: Duration) -> Result<(), String> {
        let Self { server, engine, logs, tasks, disk } = self;
        server.supervisor.stopping();
        server.listening.end();
        server.replication.end();
        drain(&server, &tasks, &logs, is_saved, left).await;
        let saved = !is_saved || save_again(&server, &engine).await;
        // The log's own threads write and sync; this thread has nothing else left to run.
        let finished = logs.finish(server.log_switch.take());
        server.rewriting.end_log(|| false);
        server.services.saves.give_up();
        // A request that had waited for one script, and began to run when that was ended, may be another.
        server.services.scripting.busy.end();
        finished?;
        position::keep(&server, &*disk);
        if !saved {
            return Err(
                "the last snapshot lacks what was changed while it was made: it could not be written again".into()
            );
        }
        tracing::info!("Shardrace is now ready to exit, bye bye...");
        Ok(())
    }
}
