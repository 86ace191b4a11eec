//! What replication needs of the engine: snapshots for replicas, barriers in the feed, and the housekeeping of links.

use crate::aof::Segment;
use crate::base::clock::uptime_ms;
use crate::base::narrowing::size;
use crate::base::planted::is_planted;
use crate::base::tasks::{MayWait, Turn};
use crate::config::Directive;
use crate::engine::{Engine, OwnerSnapshot};
use crate::keyspace::{Effects, SnapshotSink};
use crate::pubsub::Forwarder;
use crate::rdb::{self, FileKeys, FileWriter};
use crate::replication::{
    Cursor, Failover, Filter, Introduction, LinkState, Outlet, Phase, Pipe, Pipes, Reach, Replica, Start, Successor,
};
use crate::scripting::{ChangeListener, Libraries, Scripting};
use crate::snapshot::{SnapshotWriter, Target};
use crate::state::{Server, node_id};
use std::io;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// How often the coordinator runs.
const LOOK: Duration = Duration::from_millis(100);
/// The same while a replica is about to take over, and writes wait.
const LOOK_OFTEN: Duration = Duration::from_millis(10);
/// How long the thread that writes a snapshot waits for more at most.
const WAIT_MAX: Duration = Duration::from_millis(100);
/// How long a server that ends waits until the last bytes of the stream are sent, and how often it checks.
const SENT_MAX: Duration = Duration::from_secs(1);
const LOOK_FOR_SENT: Duration = Duration::from_millis(1);
/// The owner of keys whose lane has the changes of libraries.
const FUNCTIONS_LANE: usize = 0;

/// Coordinates replication until the runtime ends.
pub async fn run<E: Engine>(server: Arc<Server>, engine: Arc<E>) {
    for (lane, segment) in engine.segments().iter().enumerate() {
        segment.flow_into(Arc::clone(&server.replication.feed), lane);
    }
    pass_on(&server, &engine.segments()[FUNCTIONS_LANE]);
    let lanes = engine.segments().len();
    let merging = Arc::clone(&server);
    server.tasks.spawn("merger", async move { merging.replication.merge(lanes).await });
    let mut tending = Tending {
        is_synchronizing: Arc::default(),
        is_fed: false,
        pinged_ms: uptime_ms(),
        attended_ms: uptime_ms(),
        server,
        engine,
    };
    loop {
        tokio::select! {
            () = tending.server.replication.needs_coordination() => {}
            () = tokio::time::sleep(if tending.server.replication.failover().is_some() { LOOK_OFTEN } else { LOOK }) => {}
        }
        tending.look().await;
    }
}

/// Pushes data of no key, which no owner pushes, to the feed: messages, and libraries of functions. All libraries are
/// pushed, so a snapshot may already have them; they go to the lane of one owner, whose barrier says from when on.
fn pass_on(server: &Server, segment: &Arc<Segment>) {
    let (feed, owner) = (Arc::clone(&server.replication.feed), Arc::clone(segment));
    server.pubsub.set_forwarder(Forwarder(Box::new(move |is_shard, channel, message| {
        if owner.is_fed() {
            let name: &[u8] = if is_shard { b"SPUBLISH" } else { b"PUBLISH" };
            feed.push_free(&payload_of([name, channel, message]));
        }
    })));
    let (feed, owner) = (Arc::clone(&server.replication.feed), Arc::clone(segment));
    server.services.scripting.functions.set_listener(ChangeListener(Box::new(move |libraries| {
        if owner.is_fed() {
            let payload = match libraries.is_empty() {
                true => payload_of([b"FUNCTION".as_slice(), b"FLUSH"]),
                false => {
                    let dump = rdb::dump_functions(libraries.sources());
                    payload_of([b"FUNCTION".as_slice(), b"RESTORE", &dump, b"FLUSH"])
                }
            };
            feed.push_effects(FUNCTIONS_LANE, &payload);
        }
    })));
}

/// The payload of a record of one effect.
fn payload_of<'a>(words: impl IntoIterator<Item = &'a [u8], IntoIter: ExactSizeIterator>) -> Vec<u8> {
    let mut effects = Effects::new(true);
    effects.add(words);
    effects.payload().to_vec()
}

/// The replicas that acknowledge, and have their snapshot.
fn online(server: &Server) -> Vec<Arc<Replica>> {
    let is_online = |replica: &Arc<Replica>| replica.phase() == Phase::Online && !replica.is_silent;
    server.replication.replicas().into_iter().filter(is_online).collect()
}

/// Whether there are such replicas.
pub fn has_replicas_online(server: &Server) -> bool {
    !online(server).is_empty()
}

/// Waits until replicas have everything that was pushed, up to `most`, and reports: the server is about to end.
pub async fn let_catch_up(server: &Server, most: Duration) {
    let end = caught_up(server, most).await;
    // If time runs out before the end of the stream is known, replicas are compared with the current offset.
    report_lags(server, end.unwrap_or(server.replication.offset()));
}

/// Waits until replicas have everything that was pushed, up to `most`; returns where that ends.
async fn caught_up(server: &Server, most: Duration) -> Option<u64> {
    let replication = &server.replication;
    let caught_up = async {
        let mut reach = Reach::default();
        loop {
            let heard = replication.heard();
            reach = replication.advance(reach, true);
            match reach.end() {
                Some(end) if replication.reached(reach, false) >= online(server).len() as u64 => return end,
                _ => {}
            }
            // Nothing is heard of a replica that goes.
            _ = tokio::time::timeout(LOOK, heard).await;
        }
    };
    tokio::time::timeout(most, caught_up).await.ok()
}

fn report_lags(server: &Server, end: u64) {
    let online = online(server);
    // Each is read once: it may advance meanwhile.
    let behind = |replica: &Arc<Replica>| end.saturating_sub(replica.acknowledged());
    let lagging: Vec<_> = online.iter().map(|replica| (replica, behind(replica))).filter(|(_, by)| *by > 0).collect();
    for (replica, behind) in &lagging {
        let Introduction { address, port, .. } = &replica.introduction;
        let address = address.as_deref().unwrap_or_default();
        tracing::warn!("Lagging replica {address}:{port} reported offset {behind} behind master");
    }
    tracing::info!("{} of {} replicas are in sync when shutting down.", online.len() - lagging.len(), online.len());
}

/// Lets replicas catch up with what was pushed since, up to `most`, and sends them the end of the stream: they continue
/// there when this server starts again.
pub async fn send_the_rest(server: &Server, most: Duration) {
    let replication = &server.replication;
    if most.is_zero() || !has_replicas_online(server) {
        return;
    }
    if caught_up(server, most).await.is_none() {
        return tracing::warn!("Replicas have not caught up with the last changes");
    }
    replication.set_quiet(true);
    let is_sent = || online(server).iter().all(|replica| replica.lag() == 0);
    let begin = Instant::now();
    while !is_sent() && begin.elapsed() < SENT_MAX {
        tokio::time::sleep(LOOK_FOR_SENT).await;
    }
}

struct Tending<E> {
    server: Arc<Server>,
    engine: Arc<E>,
    /// Whether a full synchronization runs.
    is_synchronizing: Arc<AtomicBool>,
    /// Whether the owners of keys push their changes.
    is_fed: bool,
    /// When the last PING was added to the stream.
    pinged_ms: u64,
    /// When a replica was last attached.
    attended_ms: u64,
}

impl<E: Engine> Tending<E> {
    async fn look(&mut self) {
        let now_ms = uptime_ms();
        let replication = &self.server.replication;
        let replicas = replication.replicas();
        if self.server.is_replica() {
            return self.look_as_replica(&replicas, now_ms).await;
        }
        let has_changed_sides = replication.is_to_be_fed() || replication.is_logged_place_outdated();
        if has_changed_sides && !self.is_synchronizing() {
            self.go_on_as_master().await;
        }
        let replication = &self.server.replication;
        if !replicas.is_empty() {
            self.attended_ms = now_ms;
        }
        if replication.is_given_up() && !self.is_synchronizing() {
            self.end_feed().await;
            self.server.replication.begin_feed_anew();
        } else if self.is_forgotten(now_ms) {
            tracing::info!(
                "Replication backlog freed after {} seconds without connected replicas.",
                self.ttl_ms() / 1000
            );
            self.server.replication.stream.finish();
            self.end_feed().await;
        }
        if self.is_fed && self.server.replication.take_barrier_request() {
            self.put_barrier().await;
        }
        if let Some(failover) = self.server.replication.failover() {
            self.look_at_failover(failover, now_ms).await;
        }
        self.server.look_at_replicas();
        self.note_lags(&replicas);
        self.end_silent(&replicas, now_ms);
        self.ping(&replicas, now_ms);
        let waiting = self.waiting(&replicas, now_ms);
        let has_turn =
            || is_planted("TwoSnapshots") || !self.is_synchronizing() && self.server.services.saves.turn.take();
        if !waiting.is_empty() && has_turn() {
            self.synchronize(waiting);
        }
    }

    /// A server that follows another passes that stream on, and has none of its own: ends the feed of its own changes.
    async fn look_as_replica(&mut self, replicas: &[Arc<Replica>], now_ms: u64) {
        self.attended_ms = now_ms;
        if self.is_fed && !self.is_synchronizing() {
            // Groups that were sent as those of a master come before the end.
            let announced = self.server.log_control.announce_recording().await;
            let barrier = self.server.replication.next_cut();
            self.at_one_point(|segment| Box::new(move || segment.end_feed(barrier))).await;
            drop(announced);
            // No more of it is merged.
            let replication = &self.server.replication;
            let has_all = replication.passed(barrier).await.is_some();
            replication.end_own_feed(has_all);
            if replication.is_given_up() {
                replication.begin_feed_anew();
            }
            self.is_fed = false;
        }
        self.server.look_at_replicas();
        self.note_lags(replicas);
        self.end_silent(replicas, now_ms);
        let waiting = self.waiting(replicas, now_ms);
        if !self.is_fed && !waiting.is_empty() && !self.is_synchronizing() {
            self.synchronize_from_replica(waiting);
        }
    }

    /// A promoted server continues the stream that it followed, if its data belongs to one: changes of its clients are
    /// added to it. Its log then records that the data no longer belongs to its master's stream.
    async fn go_on_as_master(&mut self) {
        // The groups of its master come first.
        drop(self.server.replication.turn().await);
        if let Some(cursor) = self.server.replication.take_place_in_no_stream() {
            let payload: Arc<[u8]> = cursor.payload().into();
            let note = |segment: Arc<Segment>, payload: Arc<[u8]>| move || segment.append_payload(&payload);
            self.at_one_point(|segment| Box::new(note(segment, Arc::clone(&payload)))).await;
        }
        if self.server.replication.is_to_be_fed() {
            self.feed_what_changes().await;
        }
        self.server.pause.end_switch();
    }

    /// Hands the role over when a replica has all of the stream, or at the timeout.
    async fn look_at_failover(&self, failover: Failover, now_ms: u64) {
        let Server { replication, .. } = &*self.server;
        if failover.until_ms.is_some_and(|until_ms| until_ms <= now_ms) {
            return match failover.target.clone().filter(|_| failover.is_forced) {
                Some((host, port)) => {
                    tracing::info!("FAILOVER to {host}:{port} time out exceeded, failing over.");
                    self.server.hand_over((host, port), None);
                }
                None => self.server.abort_failover("Replica never caught up before timeout"),
            };
        }
        if !self.is_fed {
            // A feed begins in its turn only, so that it also ends.
            return;
        }
        // All earlier requests of clients are in the stream before this.
        let cut = replication.next_cut();
        self.at_one_point(|segment| Box::new(move || segment.begin_feed(cut))).await;
        _ = replication.passed(cut).await;
        if let Some(Successor { address, end }) = replication.replica_with_all(failover.target.as_ref()) {
            tracing::info!("Failover target {}:{} is synced, failing over.", address.0, address.1);
            self.server.hand_over(address, Some(end));
        }
    }

    async fn feed_what_changes(&mut self) {
        if !self.server.replication.begin_own_feed() {
            return;
        }
        self.is_fed = true;
        let announced = self.server.log_control.announce_recording().await;
        let barrier = self.server.replication.next_cut();
        self.at_one_point(|segment| Box::new(move || segment.begin_feed(barrier))).await;
        drop(announced);
        _ = self.server.replication.passed(barrier).await;
        self.set_fed(true);
    }

    /// Begins a full synchronization of these replicas of a replica, if its link is up: with the data as it is between
    /// two groups of the stream that it follows; later groups are passed on as they come.
    fn synchronize_from_replica(&mut self, replicas: Vec<Arc<Replica>>) {
        let is_up = self.server.replication.link() == Some(LinkState::Connected);
        if !is_up || !self.server.services.saves.turn.take() {
            return;
        }
        self.spawn_synchronization(replicas);
    }

    /// Synchronizes these replicas in the background, with the right to take a snapshot.
    fn spawn_synchronization(&self, replicas: Vec<Arc<Replica>>) {
        self.is_synchronizing.store(true, Ordering::Release);
        let (server, engine) = (Arc::clone(&self.server), Arc::clone(&self.engine));
        let is_synchronizing = Arc::clone(&self.is_synchronizing);
        self.server.tasks.spawn("synchronization", async move {
            server.services.saves.note_for_replicas(true);
            synchronize(&server, &engine, replicas).await;
            server.services.saves.note_for_replicas(false);
            is_synchronizing.store(false, Ordering::Release);
        });
    }

    fn set_fed(&mut self, is_fed: bool) {
        self.is_fed = is_fed;
        self.server.replication.set_fed(is_fed);
    }

    fn is_synchronizing(&self) -> bool {
        self.is_synchronizing.load(Ordering::Acquire)
    }

    fn ttl_ms(&self) -> u64 {
        self.server.config.number(Directive::ReplBacklogTtl).saturating_mul(1000)
    }

    /// Whether the backlog is unlikely to be requested.
    fn is_forgotten(&self, now_ms: u64) -> bool {
        let ttl_ms = self.ttl_ms();
        self.is_fed && ttl_ms > 0 && !self.is_synchronizing() && now_ms.saturating_sub(self.attended_ms) > ttl_ms
    }

    /// Ends the feed at one point in the order of all commands. Later changes are in no stream: the next one has
    /// another name.
    async fn end_feed(&mut self) {
        let barrier = self.server.replication.next_barrier();
        self.at_one_point(|segment| Box::new(move || segment.end_feed(barrier))).await;
        self.set_fed(false);
    }

    /// Adds a barrier, at which the stream is outside of MULTI.
    async fn put_barrier(&self) {
        let barrier = self.server.replication.next_barrier();
        self.at_one_point(|segment| Box::new(move || segment.begin_feed(barrier))).await;
    }

    async fn at_one_point(&self, act: impl Fn(Arc<Segment>) -> Box<dyn FnOnce() + Send + Sync>) {
        let owners = self
            .engine
            .segments()
            .iter()
            .map(|segment| OwnerSnapshot { sink: None, at_moment: act(Arc::clone(segment)) });
        Arc::clone(&self.engine).begin_snapshot(owners.collect()).await;
    }

    /// Reports how much must be sent to replicas to the housekeeping, which ends those that exceed the soft limit for
    /// too long.
    fn note_lags(&self, replicas: &[Arc<Replica>]) {
        for replica in replicas {
            if let Some(client) = self.server.clients.get(replica.client) {
                client.output_bytes.store(replica.lag(), Ordering::Relaxed);
            }
        }
    }

    /// Ends links to silent replicas.
    fn end_silent(&self, replicas: &[Arc<Replica>], now_ms: u64) {
        let timeout_ms = self.server.config.number(Directive::ReplTimeout).saturating_mul(1000);
        let is_gone = |replica: &&Arc<Replica>| {
            replica.phase() == Phase::Online && !replica.is_silent && replica.silence_ms(now_ms) > timeout_ms
        };
        for replica in replicas.iter().filter(is_gone) {
            if let Some(client) = self.server.clients.get(replica.client) {
                tracing::warn!("Disconnecting timedout replica (streaming sync): {}", client.address);
                client.shut_down(Shutdown::Both);
            }
        }
    }

    fn ping(&mut self, replicas: &[Arc<Replica>], now_ms: u64) {
        let period_ms = self.server.config.number(Directive::ReplPingReplicaPeriod).saturating_mul(1000);
        if !replicas.is_empty() && now_ms.saturating_sub(self.pinged_ms) >= period_ms {
            self.pinged_ms = now_ms;
            self.server.replication.ping();
        }
    }

    /// The replicas for a snapshot that begins now: all that wait, once the first has waited long enough.
    fn waiting(&self, replicas: &[Arc<Replica>], now_ms: u64) -> Vec<Arc<Replica>> {
        let delay_ms = self.server.config.number(Directive::ReplDisklessSyncDelay).saturating_mul(1000);
        let most = self.server.config.size(Directive::ReplDisklessSyncMaxReplicas);
        let waits = |replica: &&Arc<Replica>| replica.phase() == Phase::WaitsForSnapshot && !replica.is_begun();
        let waiting: Vec<_> = replicas.iter().filter(waits).cloned().collect();
        let is_due =
            waiting.iter().any(|replica| replica.waited_ms(now_ms) >= delay_ms) || (most > 0 && waiting.len() >= most);
        if is_due { waiting } else { Vec::new() }
    }

    /// Begins a full synchronization of these replicas, with the right to take a snapshot.
    fn synchronize(&mut self, replicas: Vec<Arc<Replica>>) {
        let replication = &self.server.replication;
        if !replication.begin_own_feed() {
            // It has become a replica since it was looked at.
            return self.server.services.saves.turn.give_back();
        }
        // Changes since the end of the last stream are in none.
        replication.begin_stream(node_id::random(&self.server.instance.randomness));
        self.set_fed(true);
        self.spawn_synchronization(replicas);
    }
}

/// Sends a snapshot to some replicas, to some of them one without keys.
async fn synchronize<E: Engine>(server: &Arc<Server>, engine: &Arc<E>, replicas: Vec<Arc<Replica>>) {
    tracing::info!("Starting a snapshot for SYNC with target: {} replica sockets", replicas.len());
    let bytes_max = size(server.config.output_limits().slave.hard_max());
    let pipe = |replica: &Arc<Replica>| {
        Arc::new(if replica.introduction.takes_eof { Pipe::flowing() } else { Pipe::gathering(bytes_max) })
    };
    let pipes: Vec<Arc<Pipe>> = replicas.iter().map(pipe).collect();
    let of = |filter: Option<Filter>| {
        let wanted = replicas.iter().zip(&pipes).filter(|(replica, _)| replica.introduction.filter == filter);
        Pipes(wanted.map(|(_, pipe)| Arc::clone(pipe)).collect())
    };
    let created_s = server.clock.now_ms() / 1000;
    let whole = of(None);
    // A replica takes the data between two groups of its master, which alone removes expired keys.
    let turn = if server.is_replica() { Some(server.replication.turn().await) } else { None };
    let database = server.replication.position().map_or(0, |(_, database)| database);
    let stream =
        turn.is_some().then(|| OfStream { database, libraries: server.services.scripting.functions.libraries() });
    let keys = FileKeys::with_uses(&server.settings().eviction, created_s);
    let target = SnapshotForReplicas {
        scripting: Arc::clone(&server.services.scripting),
        pipes: whole.clone(),
        created_s,
        stream,
        compresses: server.config.is_on(Directive::Rdbcompression),
        file: None,
    };
    let snapshot = Arc::new(
        SnapshotWriter::new(keys, target, 0, Arc::clone(&server.services.saves.backlog)).giving_up_at(bytes_max),
    );
    let wants_keys = replicas.iter().any(|replica| replica.introduction.filter.is_none());
    let sink = || wants_keys.then(|| Arc::clone(&snapshot) as Arc<dyn SnapshotSink>);
    let cursor = match turn {
        Some(_) => begin_between_groups(server, engine, sink).await,
        None => begin_at_barrier(server, engine, sink).await,
    };
    drop(turn);
    let has_begun = begin(server, cursor, &replicas, &pipes);
    if !has_begun {
        snapshot.fail(&"the feed was given up");
    }
    for filter in [Filter::Nothing, Filter::Functions] {
        let pipes = of(Some(filter));
        let scripting = Arc::clone(&server.services.scripting);
        on_thread(server, &pipes.clone(), move |_| {
            write_without_keys(&scripting, &pipes, filter, created_s);
            Turn::Last
        });
    }
    // A replica that is gone drops its end of the pipe: there must be no other reference.
    drop(replicas);
    let writing = Arc::clone(&snapshot);
    on_thread(server, &whole.clone(), move |may_wait| write(&writing, &whole, may_wait));
    // Writes of a server that becomes a master wait for the end of the walk, and the snapshot is lost.
    let hurries = || snapshot.has_failed() && server.settings().is_switching.load(Ordering::Acquire);
    Arc::clone(engine).walk_snapshot(hurries).await;
    server.services.saves.turn.give_back();
    snapshot.end_walk();
}

/// Begins a snapshot at a barrier in the feed; returns the cursor of the barrier, if there is one.
async fn begin_at_barrier<E: Engine>(
    server: &Server,
    engine: &Arc<E>,
    sink: impl Fn() -> Option<Arc<dyn SnapshotSink>>,
) -> Option<Cursor> {
    let _announced = server.log_control.announce_recording().await;
    let cut = server.replication.next_cut();
    let owners = engine.segments().iter().map(|segment| {
        let segment = Arc::clone(segment);
        OwnerSnapshot { sink: sink(), at_moment: Box::new(move || segment.begin_feed(cut)) }
    });
    Arc::clone(engine).begin_snapshot(owners.collect()).await;
    server.replication.passed(cut).await
}

/// Begins a snapshot while no group of the master is applied; returns the cursor in its stream, if the data belongs to
/// one.
async fn begin_between_groups<E: Engine>(
    server: &Server,
    engine: &Arc<E>,
    sink: impl Fn() -> Option<Arc<dyn SnapshotSink>>,
) -> Option<Cursor> {
    let owner = |_| OwnerSnapshot { sink: sink(), at_moment: Box::new(|| ()) };
    Arc::clone(engine).begin_snapshot((0..engine.owners()).map(owner).collect()).await;
    server.replication.position().map(|_| server.replication.stream.cursor_at_end())
}

/// Begins the links to replicas at the snapshot's cursor in the stream; false if there is no stream any more.
fn begin(server: &Server, cursor: Option<Cursor>, replicas: &[Arc<Replica>], pipes: &[Arc<Pipe>]) -> bool {
    let Some(cursor) = cursor else {
        replicas.iter().for_each(|replica| replica.fail());
        return false;
    };
    let id = server.replication.history().id;
    for (replica, pipe) in replicas.iter().zip(pipes) {
        replica.begin(Start { id: id.clone(), cursor: cursor.fork(), snapshot: Outlet::of(pipe) });
    }
    true
}

/// Fills pipes on a thread of its own; if there is no thread, breaks them.
fn on_thread(server: &Server, pipes: &Pipes, fill: impl FnMut(MayWait) -> Turn + Send + 'static) {
    if pipes.0.is_empty() {
        return;
    }
    if let Err(error) = server.tasks.spawn_turns("sync", fill) {
        pipes.0.iter().for_each(|pipe| pipe.end(Err(format!("there is no thread for it: {error}"))));
    }
}

/// Writes a snapshot without keys.
fn write_without_keys(scripting: &Scripting, pipes: &Pipes, filter: Filter, created_s: u64) {
    let libraries = if filter == Filter::Functions { scripting.functions.libraries() } else { Arc::default() };
    let written = FileWriter::begin(pipes.clone(), created_s, libraries.sources()).and_then(|mut file| file.end());
    let ended = written.map(|_| ()).map_err(|error| error.to_string());
    pipes.0.iter().for_each(|pipe| pipe.end(ended.clone()));
}

/// A snapshot for replicas.
type Snapshot = SnapshotWriter<FileKeys, SnapshotForReplicas>;

/// Writes what was put into the snapshot, and its end where that is all.
fn write(snapshot: &Snapshot, pipes: &Pipes, MayWait(may_wait): MayWait) -> Turn {
    if !snapshot.is_walked() || snapshot.has_some() {
        snapshot.write_out();
        if may_wait {
            snapshot.wait(WAIT_MAX);
        }
        return Turn::More;
    }
    let ended = snapshot.end(|target| target.open()?.end());
    match &ended {
        Ok(()) => tracing::info!("Snapshot for replicas: {} bytes", snapshot.len()),
        Err(reason) => tracing::warn!("The snapshot for replicas has ended early: {reason}"),
    }
    pipes.0.iter().for_each(|pipe| pipe.end(ended.clone()));
    Turn::Last
}

#[derive(Debug)]
struct SnapshotForReplicas {
    scripting: Arc<Scripting>,
    pipes: Pipes,
    created_s: u64,
    /// The state of the stream besides keys, if it is another server's.
    stream: Option<OfStream>,
    compresses: bool,
    file: Option<FileWriter<Pipes>>,
}

/// The state at a position of a master's stream besides keys.
#[derive(Debug)]
struct OfStream {
    /// The database selected there.
    database: u16,
    libraries: Arc<Libraries>,
}

impl SnapshotForReplicas {
    /// The libraries are those of a later moment than the keys: each change of them pushes all of them to the feed.
    fn open(&mut self) -> io::Result<&mut FileWriter<Pipes>> {
        let file = match self.file.take() {
            Some(file) => file,
            None => match &self.stream {
                None => FileWriter::begin(
                    self.pipes.clone(),
                    self.created_s,
                    self.scripting.functions.libraries().sources(),
                )?,
                Some(OfStream { database, libraries }) => {
                    FileWriter::begin_in_stream(self.pipes.clone(), self.created_s, *database, libraries.sources())?
                }
            }
            .compressing(self.compresses),
        };
        Ok(self.file.insert(file))
    }
}

impl Target for SnapshotForReplicas {
    fn append(&mut self, keys: &[u8]) -> io::Result<u64> {
        self.open()?.write(keys)
    }

    fn settle(&mut self) -> io::Result<()> {
        Ok(())
    }
}
