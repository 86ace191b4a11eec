//! The work of a replica: it connects to its master, takes over its data, and follows its stream.
//!
//! The groups that the master sends are applied by the engine's transactions, so that clients see only consistent
//! prefixes of the stream. A group is logged like any write, before it is acknowledged to the master. A snapshot is
//! loaded aside while clients see the old data, and replaces it in one step.
//!
//! If something cannot be applied, the link ends with a log line: the data no longer belongs to a stream, and the next
//! link begins with a snapshot. Pauses between such attempts grow, because a snapshot costs the master work.

use crate::aof::Disk;
use crate::base::clock::uptime_ms;
use crate::base::parallel::beside_the_runtime;
use crate::base::planted::is_planted;
use crate::base::tls::ClientConfig;
use crate::commands::{self, Replacement, Services, Transaction};
use crate::config::Directive;
use crate::engine::{Engine, Session};
use crate::keyspace::{Databases, LogPosition};
use crate::rdb;
use crate::replication::link::{Answer, Failure, Group, Introduction, Link, Position, SilenceMax, StreamReader};
use crate::replication::{LinkState, Master, Role, Transfer};
use crate::resp::Output;
use crate::scripting::Libraries;
use crate::state::Server;
use crate::state::listening::Carries;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

/// Bytes of the stream that are read while clients are paused, and applied afterwards; a transaction of the master may
/// be longer.
const HELD_MAX: usize = 64 << 20;

/// How often the replica acknowledges its position to the master, or sends a sign of life.
const TICK: Duration = Duration::from_secs(1);
/// From the end of a link to the next attempt.
const PAUSE: Duration = Duration::from_secs(1);
/// From a refusal to the next attempt: twice as long each time, up to `PAUSE_MAX`.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Why a link has ended.
enum End {
    /// The role has changed.
    Left,
    /// The connection is lost, or there was none: if `was_up`, it is tried again at once.
    Lost { reason: String, was_up: bool },
    /// The stream of the master cannot be applied.
    Refused(String),
}

impl End {
    fn lost(error: impl ToString) -> Self {
        Self::Lost { reason: error.to_string(), was_up: false }
    }
}

impl From<Failure> for End {
    fn from(failure: Failure) -> Self {
        Self::lost(failure)
    }
}

/// Follows one master after another, until the server ends.
pub async fn run<E: Engine>(server: Arc<Server>, engine: Arc<E>, disk: Arc<dyn Disk>) {
    let mut refusals = 0u32;
    loop {
        let mut changes = server.replication.changes();
        let at = *changes.borrow_and_update();
        if server.replication.has_ended() {
            return;
        }
        let pause = match server.replication.role() {
            Role::Master => Duration::MAX,
            Role::Replica(master) => {
                let attempt = Attempt { server: &server, engine: &engine, disk: &disk, master, at, changes: &changes };
                attempt.run(&mut refusals).await
            }
        };
        tokio::select! {
            // The sender lives as long as the server.
            _ = changes.changed() => refusals = 0,
            () = sleep(pause) => {}
        }
    }
}

/// One link to a master, from its beginning to its end.
struct Attempt<'a, E: Engine> {
    server: &'a Arc<Server>,
    engine: &'a Arc<E>,
    disk: &'a Arc<dyn Disk>,
    master: Master,
    /// How often the role had changed when it began: work for an earlier role stops.
    at: u64,
    changes: &'a watch::Receiver<u64>,
}

/// A snapshot loaded aside.
struct Aside {
    replacement: Replacement,
    position: Position,
    /// The database that the stream after it begins in.
    database: u16,
    keys: u64,
}

impl<E: Engine> Attempt<'_, E> {
    /// Connects, follows, and reports how it ended; returns how long to wait before the next attempt.
    async fn run(&self, refusals: &mut u32) -> Duration {
        let Err(end) = self.follow(refusals).await;
        self.server.replication.set_ends(None);
        self.set_link(LinkState::Connect);
        match end {
            End::Left => Duration::ZERO,
            End::Lost { reason, was_up } => {
                tracing::warn!("No link to the master {}: {reason}", self.name());
                if was_up { Duration::ZERO } else { PAUSE }
            }
            End::Refused(reason) => {
                self.server.replication.forget_position();
                let pause = PAUSE.saturating_mul(1 << (*refusals).min(16)).min(PAUSE_MAX);
                *refusals += 1;
                tracing::error!(
                    "REPLICATION HAS ENDED, of the master {}: {reason}. The data stays as it is; in {} s all of it is asked \
                     for again",
                    self.name(),
                    pause.as_secs()
                );
                pause
            }
        }
    }

    fn name(&self) -> String {
        format!("{}:{}", self.master.host, self.master.port)
    }

    async fn follow(&self, refusals: &mut u32) -> Result<std::convert::Infallible, End> {
        self.unless_left(self.server.replication.unfed()).await?;
        // Groups that were sent as those of a master come before all that comes from this one.
        drop(self.unless_left(self.server.log_control.announce_recording()).await?);
        if self.server.replication.is_successor_late() {
            self.server.abort_failover("The failover target lacks the last changes");
            return Err(End::Left);
        }
        self.set_link(LinkState::Connecting);
        tracing::info!("Connecting to MASTER {}", self.name());
        let begun = self.server.replication.position();
        let (mut link, answer) = self.unless_left(self.begin(begun.as_ref().map(|(position, _)| position))).await??;
        self.server.end_failover();
        let database = match (answer, begun) {
            (Answer::Snapshot(position), _) => {
                tracing::info!("Full resync from master: {}:{}", position.id, position.offset);
                let aside = self.take_snapshot(&mut link, position).await?;
                self.put_in_place(&mut link, aside).await?
            }
            (Answer::Stream(id), Some((position, database))) => {
                tracing::info!("Partial resync from master, behind {}:{}", position.id, position.offset);
                let id = id.unwrap_or(position.id);
                self.must_have_functions(&id)?;
                self.server.replication.rename_stream(id);
                database
            }
            (Answer::Stream(_), None) => {
                return Err(End::lost("it goes on with a stream that it was not asked for"));
            }
        };
        let databases = self.server.config.size(Directive::Databases);
        let replication = &self.server.replication;
        // What the libraries of functions may have does not share a group with what they lack: that must not fail.
        let boundary = replication.functions_ahead().map(|Position { offset, .. }| offset);
        let reader = StreamReader::new(replication.offset(), database, databases).with_boundary(boundary);
        let begin = Instant::now();
        let ended = self.follow_stream(link, reader).await;
        // Not as soon as a snapshot is in place: the stream after it may be refused each time.
        if begin.elapsed() >= PAUSE_MAX {
            *refusals = 0;
        }
        ended
    }

    /// Refuses a stream that may lack changes of the libraries of functions that this server has found at its start: it
    /// continues the stream that they were written from, and perhaps from an earlier position.
    fn must_have_functions(&self, stream: &str) -> Result<(), End> {
        match self.server.replication.functions_ahead() {
            Some(Position { id, offset }) if id != stream => Err(End::Refused(format!(
                "the libraries of functions here are those of the stream {id} up to {offset}, which it may not have"
            ))),
            _ => Ok(()),
        }
    }

    /// Runs something that may be dropped when the role changes.
    async fn unless_left<T>(&self, work: impl Future<Output = T>) -> Result<T, End> {
        let mut changes = self.changes.clone();
        tokio::select! {
            biased;
            _ = changes.changed() => Err(End::Left),
            done = work => Ok(done),
        }
    }

    fn set_link(&self, state: LinkState) {
        // If the role has changed meanwhile there is nothing to set.
        _ = self.server.replication.set_link(self.at, state, uptime_ms());
    }

    /// The port at which the master finds this server.
    fn own_port(&self) -> u16 {
        let listening = &self.server.listening;
        match listening.port(Carries::Tls) {
            port if port > 0 && self.server.config.is_on(Directive::TlsReplication) => port,
            _ => listening.main_port(),
        }
    }

    /// What the connection to the master is encrypted with, if it is.
    fn tls(&self) -> io::Result<Option<Arc<ClientConfig>>> {
        if !self.server.config.is_on(Directive::TlsReplication) {
            return Ok(None);
        }
        let contexts = self.server.tls.contexts();
        contexts.map(|contexts| Some(contexts.client)).ok_or_else(|| io::Error::other("TLS is not configured yet"))
    }

    /// Connects, and requests the stream after a position, or everything.
    async fn begin(&self, position: Option<&Position>) -> Result<(Link, Answer), Failure> {
        let config = &self.server.config;
        let announced = config.number(Directive::ReplicaAnnouncePort);
        let introduction = Introduction {
            user: config.text(Directive::Masteruser),
            password: config.text(Directive::Masterauth),
            port: match announced {
                0 => self.own_port(),
                port => u16::try_from(port).expect("its row bounds it"),
            },
            address: config.text(Directive::ReplicaAnnounceIp),
        };
        let master = (&*self.master.host, self.master.port);
        let source = config.text(Directive::BindSourceAddr);
        let counted = Arc::clone(&self.server.replication.counts.received_bytes);
        let server = Arc::clone(self.server);
        let silence_max: SilenceMax = Box::new(move || silence_max(&server));
        let tls = self.tls()?;
        let network = &*self.server.network;
        let mut link = Link::connect(network, master, &source, tls.as_ref(), silence_max, counted).await?;
        self.set_link(LinkState::Handshake);
        tracing::info!("MASTER <-> REPLICA sync started");
        let takes_over = self.server.replication.failover().is_some();
        match link.introduce(&introduction, position, takes_over).await {
            Ok(answer) => Ok((link, answer)),
            Err(failure) => {
                if takes_over && !matches!(failure, Failure::Io(_)) {
                    self.server.abort_failover("Failover target rejected psync request");
                }
                Err(failure)
            }
        }
    }

    /// Receives a snapshot, and loads it aside.
    async fn take_snapshot(&self, link: &mut Link, position: Position) -> Result<Aside, End> {
        self.set_link(LinkState::Sync);
        // Another server of this process may have the same directory.
        let name = format!("temp-sync-{}-{}.rdb", std::process::id(), self.server.listening.main_port());
        let path = Path::new(&self.server.config.text(Directive::Dir)).join(name);
        let received = self.unless_left(self.receive(link, &path)).await;
        let loaded = match received {
            Ok(Ok(())) => self.while_keeping_alive(link, self.load(path.clone(), position)).await,
            Ok(Err(end)) | Err(end) => Err(end),
        };
        let disk = Arc::clone(self.disk);
        // It is not needed any more; if it cannot be removed, the next one overwrites it.
        let _ = beside_the_runtime(move || disk.remove(&path)).await;
        loaded
    }

    /// Writes the received snapshot into a file.
    async fn receive(&self, link: &mut Link, path: &Path) -> Result<(), End> {
        let mut payload = link.begin_payload().await?;
        let bytes = payload.len();
        let how = bytes.map_or("a stream of unknown length".to_owned(), |bytes| format!("{bytes} bytes"));
        tracing::info!("MASTER <-> REPLICA sync: receiving {how} from master");
        let describe = |error: io::Error| End::Refused(format!("can't write {}: {error}", path.display()));
        let (disk, owned) = (Arc::clone(self.disk), path.to_owned());
        let file = beside_the_runtime(move || {
            owned.parent().map_or(Ok(()), |dir| disk.make_dir(dir))?;
            match disk.remove(&owned) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            disk.append_to(&owned)
        });
        let file = file.await.map_err(describe)?;
        while let Some(piece) = link.next_piece(&mut payload).await? {
            self.server.replication.set_transfer(Transfer { bytes, received: payload.received });
            self.server.replication.hear_of_master(uptime_ms(), 0);
            let file = Arc::clone(&file);
            beside_the_runtime(move || file.write_all(&piece)).await.map_err(describe)?;
        }
        Ok(())
    }

    /// Loads a snapshot into stores for the engine's owners.
    async fn load(&self, path: PathBuf, position: Position) -> Result<Aside, End> {
        let (owners, databases) = (self.engine.owners(), self.server.config.size(Directive::Databases));
        let (instance, disk) = (Arc::clone(&self.server.instance), Arc::clone(self.disk));
        let now_ms = self.server.clock.now_ms();
        let load = move || -> Result<Aside, String> {
            let bytes = disk.open(&path).map_err(|error| format!("can't read {}: {error}", path.display()))?;
            let mut stores: Vec<_> =
                (0..owners).map(|index| Databases::of_shard(&instance, databases, index, owners)).collect();
            // Only the master removes expired keys.
            let loaded = rdb::load(&bytes, &mut stores, now_ms, false, &|_| Ok(()))?;
            let sources = loaded.summary.libraries.iter().map(AsRef::as_ref);
            let libraries = Libraries::of(&Services::of(&instance).scripting, sources, false)?;
            let database = loaded.summary.stream_database.unwrap_or(0);
            Ok(Aside { replacement: Replacement { stores, libraries }, position, database, keys: loaded.keys })
        };
        beside_the_runtime(load)
            .await
            .map_err(|reason| End::Refused(format!("the snapshot that it has sent can't be loaded: {reason}")))
    }

    /// Replaces the data by the snapshot; returns the database that the stream after it begins in.
    async fn put_in_place(&self, link: &mut Link, aside: Aside) -> Result<u16, End> {
        let Aside { replacement, position, database, keys } = aside;
        let Server { replication, log_switch, config, .. } = &**self.server;
        let place = async {
            // The log has other data.
            log_switch.suspend(self.server).await;
            self.busy_script_ended().await;
            let _turn = replication.turn().await;
            let is_wanted = replication.begin_snapshot(self.at, position.offset);
            if is_wanted {
                let databases = config.size(Directive::Databases);
                let transaction = Transaction::of_replacement(replacement, databases);
                run_transaction(&mut self.engine.session(0), Box::new(transaction)).await;
                replication.end_snapshot(self.at, position, database);
                self.end_switch_if_left();
            }
            self.resume_log();
            is_wanted
        };
        match self.while_keeping_alive(link, async { Ok(place.await) }).await? {
            true => tracing::info!("MASTER <-> REPLICA sync: Finished with success, keys: {keys}"),
            false => return Err(End::Left),
        }
        Ok(database)
    }

    fn resume_log(&self) {
        if let Err(reason) = self.server.log_switch.resume(self.server) {
            tracing::error!("What the master has sent is not logged: {reason}");
        }
    }

    /// Runs something that must not be dropped, and sends signs of life to the master meanwhile.
    async fn while_keeping_alive<T>(
        &self,
        link: &mut Link,
        work: impl Future<Output = Result<T, End>>,
    ) -> Result<T, End> {
        let mut work = pin!(work);
        let mut tick = interval(TICK);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                // A lost link is noticed when it is read.
                _ = tick.tick() => {
                    let _ = link.keep_alive().await;
                }
            }
        }
    }

    /// Whether what is read is applied later: clients are paused, or a script is busy. It has the keys, and what waits
    /// for them could block the thread that ends it.
    fn is_held(&self) -> bool {
        self.server.pause.is_asked_for() || self.server.services.scripting.busy.is_busy()
    }

    async fn busy_script_ended(&self) {
        self.server.services.scripting.busy.ended().await;
    }

    /// If the role changed while something was applied, writes wait for its end: ends that wait.
    fn end_switch_if_left(&self) {
        if self.changes.has_changed().unwrap_or(true) && !self.server.replication.is_to_be_fed() {
            self.server.pause.end_switch();
        }
    }

    async fn follow_stream(&self, mut link: Link, mut reader: StreamReader) -> Result<std::convert::Infallible, End> {
        let replication = &self.server.replication;
        let up = |error: io::Error| End::Lost { reason: error.to_string(), was_up: true };
        let mut session = self.engine.session(0);
        let mut on_disk = OnDisk::default();
        let mut changes = self.changes.clone();
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut heard = Instant::now();
        replication.set_ends(Some(link.ends(self.server.clients.next_id(), uptime_ms())));
        replication.hear_of_master(uptime_ms(), reader.waiting().1);
        self.set_link(LinkState::Connected);
        let pause = &self.server.pause;
        let mut is_held = false;
        loop {
            let is_full = is_held && reader.waiting().0 >= HELD_MAX;
            tokio::select! {
                biased;
                _ = changes.changed() => return Err(End::Left),
                () = replication.link_ended() => return Err(up(io::Error::other("CLIENT KILL has ended it"))),
                _ = tick.tick() => {
                    self.acknowledge(&mut link, &session, &mut on_disk).await.map_err(up)?;
                    if heard.elapsed() > silence_max(self.server) && !is_full {
                        return Err(up(io::Error::other("it is silent for longer than repl-timeout")));
                    }
                }
                () = async { pause.asked_ended().await; self.busy_script_ended().await }, if is_held => {}
                read = link.read_stream(reader.buffer()), if !is_full => {
                    read.map_err(up)?;
                    heard = Instant::now();
                    replication.hear_of_master(uptime_ms(), reader.waiting().1);
                }
            }
            is_held = self.is_held();
            let mut has_read = !is_full;
            while !is_held && let Some(group) = reader.next_group().map_err(|refusal| End::Refused(refusal.0))? {
                if is_planted("AcknowledgedEarly") {
                    link.acknowledge(group.end, None).await.map_err(up)?;
                    sleep(Duration::from_millis(5)).await;
                }
                if self.apply(&mut session, group).await? {
                    self.acknowledge(&mut link, &session, &mut on_disk).await.map_err(up)?;
                }
                is_held = self.is_held();
                has_read = false;
            }
            if !has_read {
                // Nothing was read meanwhile, whatever the master has sent.
                heard = Instant::now();
            }
        }
    }

    /// Acknowledges to the master what has taken effect, and what of that is on the disk.
    async fn acknowledge(&self, link: &mut Link, session: &E::Session, on_disk: &mut OnDisk) -> io::Result<()> {
        let offset = self.server.replication.offset();
        let is_logged = self.server.has_log() && self.engine.segments().iter().all(|segment| segment.is_named());
        let synced = if is_logged { on_disk.look(session, offset) } else { None };
        link.acknowledge(offset, synced).await
    }

    /// Applies a group; returns whether the master requests an acknowledgement.
    async fn apply(&self, session: &mut E::Session, group: Group) -> Result<bool, End> {
        let Group { mut transaction, bytes, end, database, wants_acknowledgement } = group;
        let replication = &self.server.replication;
        let _turn = replication.turn().await;
        if !replication.begin_group(self.at, end) {
            return Err(End::Left);
        }
        if let Some(transaction) = &mut transaction {
            transaction.note_place(replication.place_after(end, database));
        }
        let refusal = match transaction {
            None => None,
            Some(transaction) => refusal_of(&*run_transaction(session, transaction).await),
        };
        replication.end_group(refusal.is_none().then_some((database, &bytes)));
        self.end_switch_if_left();
        match refusal {
            None => Ok(wants_acknowledgement),
            Some(reason) => Err(End::Refused(reason)),
        }
    }
}

/// How long the master may be silent.
fn silence_max(server: &Server) -> Duration {
    Duration::from_secs(server.config.number(Directive::ReplTimeout))
}

/// How much of the stream is on the disk.
#[derive(Debug, Default)]
struct OnDisk {
    offset: Option<u64>,
    /// The next position to check: it stays until it is on the disk, however much follows.
    wanted: Option<(u64, Vec<LogPosition>)>,
}

impl OnDisk {
    /// Checks how much is on the disk, after everything up to `offset` has taken effect through this session.
    fn look<S: Session>(&mut self, session: &S, offset: u64) -> Option<u64> {
        let (at, log_positions) = self.wanted.take().unwrap_or_else(|| (offset, session.written()));
        match session.log().is_synced(&log_positions) {
            true => self.offset = Some(at),
            false => self.wanted = Some((at, log_positions)),
        }
        self.offset
    }
}

/// Runs a transaction; its changes are in the log when this returns.
async fn run_transaction<S: Session>(session: &mut S, transaction: Box<Transaction>) -> Box<Transaction> {
    let mut out = Output::default();
    session.begin(transaction);
    loop {
        session.flush().await;
        session.collect(&mut out);
        session.slow().clear();
        match session.take_finished() {
            Some(transaction) => return transaction,
            None => session.wait().await,
        }
    }
}

/// The command of a group that failed, though it did not where it ran first.
fn refusal_of(transaction: &Transaction) -> Option<String> {
    const SHOWN: usize = 128;
    transaction.first_error().map(|(id, args, reply)| {
        let name = commands::command(id).name.to_uppercase().replace('|', " ");
        let key = args.get(name.split(' ').count()).map(|key| crate::resp::quoted(key, SHOWN)).unwrap_or_default();
        let error = String::from_utf8_lossy(reply.trim_ascii_end()).into_owned();
        format!("{name} '{key}' of the master fails here: {error}")
    })
}
