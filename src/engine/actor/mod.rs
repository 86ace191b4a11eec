//! The actor engine: N shards, each the only owner of a table and a segment of the log; no locks on the data.
//!
//! A connection's session gathers the commands of one read into one batch per shard, sends the batches through bounded
//! channels, and puts the replies into request order. See the `actors` crate for the moving parts.

mod batch;
mod session;
mod shard;

use super::eviction::PAUSE as EVICTION_PAUSE;
use super::expiration;
use super::metrics::{DatabaseMetrics, EngineMetrics, ShardMetrics, log_metrics};
use super::snapshots::{OwnerSnapshot, pause};
use super::{Batching, Engine, EngineComponents, LogView, Metered};
use crate::aof::{EPOCH, LogControl, Segment};
use crate::base::buffers;
use crate::base::clock::Clock;
use crate::base::tasks::Tasks;
use crate::keyspace::{DueKeysRule, Instance, KeyspaceStats, Store};
use crate::pubsub::PubSub;
use actors::{Channels, Home, Mailbox, Port, Router, Sequencer, TurnLimit, run_shard, run_shard_at_home};
use batch::Batch;
use parking_lot::Mutex;
use session::ActorSession;
use shard::{Gauges, KeyspaceShard};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::runtime::{Handle, RuntimeFlavor};

/// The interface to the shards, through mailboxes of a family of channels.
pub struct ActorEngine<C: Channels> {
    instance: Arc<Instance>,
    router: Router<KeyspaceShard, C>,
    gauges: Arc<[Gauges]>,
    segments: Vec<Arc<Segment>>,
    pubsub: Arc<PubSub>,
    due_keys: Arc<DueKeysRule>,
    clock: Clock,
    tasks: Tasks,
    /// Whether a batch for a shard at the place of its connection runs there.
    runs_in_place: bool,
    is_multi_key_atomic: bool,
    batching: Batching,
    turn_limit: TurnLimit,
    /// From how many reads of a connection batches may be in flight at once, for each shard.
    reads_in_flight: usize,
    /// What has not been started yet.
    unstarted: Mutex<Option<Unstarted<C>>>,
}

struct Unstarted<C: Channels> {
    shards: Vec<(KeyspaceShard, Mailbox<KeyspaceShard, C>)>,
    /// Where their states are, if batches run in place.
    homes: Option<Vec<Home<KeyspaceShard, C>>>,
    sequencer: Sequencer<KeyspaceShard, C>,
}

impl<C: Channels> ActorEngine<C> {
    /// An engine with one shard per store of `engine_components`.
    pub fn new(engine_components: EngineComponents) -> Self {
        let EngineComponents {
            instance,
            stores,
            segments,
            pending_commits,
            clock,
            runs_in_place,
            mailbox_capacity,
            reply_bytes_max,
            pubsub,
            due_keys,
            latency,
            ..
        } = engine_components;
        let is_multi_key_atomic = engine_components.is_multi_key_atomic;
        let batching = engine_components.batching;
        let turn_limit = TurnLimit(engine_components.turn_batches.get());
        let reads_in_flight = engine_components.reads_in_flight.get();
        let gauges: Arc<[Gauges]> = stores.iter().map(|store| Gauges::new(store.databases())).collect();
        let (mut router, mailboxes, mut sequencer) = Router::new(stores.len(), mailbox_capacity.get());
        let homes = runs_in_place.then(|| router.open_homes());
        let timeline = {
            let clock = clock.clone();
            sequencer.keep_time(move || clock.now_ms())
        };
        let common = shard::Common {
            pubsub: Arc::clone(&pubsub),
            due_keys: Arc::clone(&due_keys),
            latency,
            pending_commits,
            clock: clock.clone(),
            timeline,
            reply_bytes_max,
            batching,
        };
        let shards = stores.into_iter().enumerate().map(|(index, store)| {
            let segment = Arc::clone(&segments[index]);
            KeyspaceShard::new(
                store,
                segment,
                instance.randomness.generator(),
                shard::GaugesOf { all: Arc::clone(&gauges), index },
                common.clone(),
            )
        });
        let unstarted = Mutex::new(Some(Unstarted { shards: shards.zip(mailboxes).collect(), homes, sequencer }));
        Self {
            instance,
            router,
            gauges,
            segments,
            pubsub,
            due_keys,
            clock,
            tasks: engine_components.tasks,
            runs_in_place,
            is_multi_key_atomic,
            batching,
            turn_limit,
            reads_in_flight,
            unstarted,
        }
    }

    /// Starts the shards and the sequencer on the current runtime.
    pub fn start(&self) {
        let Unstarted { shards, homes, sequencer } = self.unstarted.lock().take().expect("the engine is started once");
        let limit = self.turn_limit;
        let runtime = Handle::current();
        let is_plain = runtime.runtime_flavor() == RuntimeFlavor::CurrentThread;
        let is_fifo = !self.tasks.is_scheduled() && (is_plain || cfg!(tokio_unstable));
        let runs_in_order = runtime.metrics().num_workers() == 1 && is_fifo;
        for (index, (mut shard, mailbox)) in shards.into_iter().enumerate() {
            if runs_in_order {
                shard.set_in_order();
            }
            let home = homes.as_ref().map(|homes| homes[index].clone());
            self.tasks.spawn_at(self.place_of(index), "shard", async move {
                match home {
                    Some(home) => run_shard_at_home(shard, home, mailbox, limit).await,
                    None => run_shard::<_, C>(shard, mailbox, limit).await,
                };
            });
        }
        self.tasks.spawn("sequencer", sequencer.run());
    }

    fn shards(&self) -> usize {
        self.router.shards()
    }

    /// Where a shard runs.
    fn place_of(&self, shard: usize) -> usize {
        shard % self.tasks.places()
    }

    /// Whether there is a log.
    fn is_logging(&self) -> bool {
        self.segments[0].is_on()
    }

    /// Whether changes are recorded: that begins and ends for all shards at one point in the order of all commands.
    fn is_recording(&self) -> bool {
        self.segments[0].is_recorded()
    }

    /// Whether changes may be recorded when something sent now gets its place. Checked in this order, because an
    /// announcement is withdrawn once the recording has begun.
    fn is_to_record(&self) -> bool {
        self.control().is_recording_announced() || self.is_recording()
    }

    fn control(&self) -> &LogControl {
        self.segments[0].control()
    }

    fn log(&self) -> LogView<'_> {
        LogView(&self.segments)
    }

    /// Whether the log permits showing the replies of a batch.
    fn is_released(&self, batch: &Batch) -> bool {
        let of_transaction = || batch.transaction.as_ref().is_none_or(|it| self.log().is_released(&it.log_positions));
        self.segments[batch.shard()].is_released(batch.lsn) && of_transaction()
    }

    /// Waits until the log permits showing the replies of a batch.
    async fn released(&self, batch: &Batch) {
        self.segments[batch.shard()].released(batch.lsn).await;
        if let Some(transaction) = &batch.transaction {
            self.log().released(&transaction.log_positions).await;
        }
    }
}

impl<C: Channels> Engine for ActorEngine<C> {
    type Session = ActorSession<C>;

    fn session(self: &Arc<Self>, place: usize) -> ActorSession<C> {
        ActorSession::new(Arc::clone(self), place)
    }

    /// Ends epochs as a group over all shards: one point in the order of all commands, so that nothing before it on one
    /// shard has seen anything after it on another.
    async fn end_epochs(self: Arc<Self>) {
        let mut port = Port::new(self.router.clone(), self.shards());
        loop {
            tokio::time::sleep(EPOCH).await;
            if !self.segments.iter().any(|segment| segment.has_appended()) {
                continue;
            }
            let epoch = self.segments[0].control().next_epoch(self.clock.now_ms());
            let parts = (0..self.shards()).map(|shard| (shard, Batch::epoch(shard, epoch))).collect();
            if port.send_group(parts).await.is_err() {
                return;
            }
            for _ in 0..self.shards() {
                port.recv().await.recycle(self.instance.pressure.is_tight());
            }
        }
    }

    fn owners(&self) -> usize {
        self.shards()
    }

    /// A group over all shards: one point in the order of all commands, as for epochs.
    async fn begin_snapshot(self: Arc<Self>, owners: Vec<OwnerSnapshot>) {
        let mut port = Port::new(self.router.clone(), self.shards());
        let parts =
            owners.into_iter().enumerate().map(|(shard, owner)| (shard, Batch::snapshot(shard, owner))).collect();
        if port.send_group(parts).await.is_ok() {
            for _ in 0..self.shards() {
                port.recv().await.recycle(self.instance.pressure.is_tight());
            }
        }
    }

    async fn walk_snapshot(self: Arc<Self>, hurries: impl Fn() -> bool + Send) {
        let mut port = Port::new(self.router.clone(), self.shards());
        let mut incomplete: VecDeque<usize> = (0..self.shards()).collect();
        // Several slices on one thread would delay commands by their sum.
        let threads = self.tasks.threads();
        while !incomplete.is_empty() {
            let asked = incomplete.len().min(threads);
            for shard in incomplete.drain(..asked) {
                if port.send(shard, Batch::walk(shard)).await.is_err() {
                    return;
                }
            }
            for _ in 0..asked {
                let batch = port.recv().await;
                if !batch.is_snapshot_complete() {
                    incomplete.push_back(batch.shard());
                }
                batch.recycle(self.instance.pressure.is_tight());
            }
            pause(hurries()).await;
        }
    }

    /// Sends each shard a batch that asks it to pay its share of the debt, repeatedly while there is one.
    async fn evict_for_ever(self: Arc<Self>) {
        let mut port = Port::new(self.router.clone(), self.shards());
        loop {
            let debt = self.instance.pressure.debt_to_pay().await;
            let spares_lasting = self.instance.settings.eviction.policy().spares_lasting();
            let counts: Vec<u64> = self.gauges.iter().map(|gauges| gauges.evictable(spares_lasting)).collect();
            let total: u64 = counts.iter().sum();
            let mut asked = 0;
            for (shard, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
                let share = i128::from(debt) * i128::from(count) / i128::from(total) + 1;
                let share = i64::try_from(share).expect("it is a part of the debt, and one byte");
                if port.send(shard, Batch::eviction(shard, share)).await.is_err() {
                    return;
                }
                asked += 1;
            }
            let mut keys = 0;
            for _ in 0..asked {
                let batch = port.recv().await;
                keys += batch.evicted();
                batch.recycle(self.instance.pressure.is_tight());
            }
            if keys == 0 {
                tokio::time::sleep(EVICTION_PAUSE).await;
            }
        }
    }

    /// Sends each shard a batch that asks it to remove due keys, repeatedly while more are due.
    async fn expire_for_ever(self: Arc<Self>, hz: u64) {
        let period = expiration::period(hz);
        let mut port = Port::new(self.router.clone(), self.shards());
        let mut asked: Vec<usize> = Vec::new();
        loop {
            if asked.is_empty() {
                tokio::time::sleep(period).await;
                Batch::trim_pool();
                buffers::trim();
                // An idle shard is not woken.
                let now_ms = self.clock.now_ms();
                asked.extend((0..self.shards()).filter(|&shard| self.gauges[shard].has_due(now_ms)));
            }
            for &shard in &asked {
                if port.send(shard, Batch::expiration(shard)).await.is_err() {
                    return;
                }
            }
            let mut more = Vec::new();
            for _ in asked.drain(..) {
                let batch = port.recv().await;
                if batch.expires_more() {
                    more.push(batch.shard());
                }
                batch.recycle(self.instance.pressure.is_tight());
            }
            asked = more;
        }
    }
}

impl<C: Channels> Metered for ActorEngine<C> {
    fn evictable(&self, spares_lasting: bool) -> u64 {
        self.gauges.iter().map(|gauges| gauges.evictable(spares_lasting)).sum()
    }

    fn segments(&self) -> &[Arc<Segment>] {
        &self.segments
    }

    fn metrics(&self) -> EngineMetrics {
        let sum = |figure: fn(&Gauges) -> u64| self.gauges.iter().map(figure).sum();
        EngineMetrics {
            engine: "actor",
            shards: self.gauges.iter().enumerate().map(|(index, gauges)| self.shard_metrics(index, gauges)).collect(),
            databases: self.databases(),
            map_shards: 0,
            keyspace: KeyspaceStats {
                hits: sum(|gauges| gauges.hits.load(Ordering::Relaxed)),
                misses: sum(|gauges| gauges.misses.load(Ordering::Relaxed)),
                expired: sum(|gauges| gauges.expired.load(Ordering::Relaxed)),
                changes: sum(|gauges| gauges.changes.load(Ordering::Relaxed)),
            },
            expire_lag_ms: self.gauges.iter().map(|g| g.expire_lag_ms.load(Ordering::Relaxed)).max().unwrap_or(0),
            lock_waits: None,
            lock_free: 0,
            segments: log_metrics(&self.segments),
        }
    }
}

impl<C: Channels> ActorEngine<C> {
    fn databases(&self) -> Vec<DatabaseMetrics> {
        let count = self.gauges[0].databases.len();
        let mut databases = vec![DatabaseMetrics::default(); count];
        for gauges in self.gauges.iter() {
            for (total, own) in databases.iter_mut().zip(&gauges.databases) {
                total.keys += own.keys.load(Ordering::Relaxed);
                total.expires += own.expires.load(Ordering::Relaxed);
                total.deadlines_ms += f64::from_bits(own.deadlines_ms.load(Ordering::Relaxed));
            }
        }
        databases
    }

    fn shard_metrics(&self, index: usize, gauges: &Gauges) -> ShardMetrics {
        ShardMetrics {
            keys: gauges.databases.iter().map(|database| database.keys.load(Ordering::Relaxed)).sum(),
            expires: gauges.databases.iter().map(|database| database.expires.load(Ordering::Relaxed)).sum(),
            commands: gauges.commands.load(Ordering::Relaxed),
            queue_depth: self.router.queue_depth(index) as u64,
            largest_batch: gauges.largest_batch.load(Ordering::Relaxed),
            turns: gauges.turns.load(Ordering::Relaxed),
            batches: gauges.batches.load(Ordering::Relaxed),
            in_place: gauges.in_place.load(Ordering::Relaxed),
        }
    }
}

// A test that cannot continue panics with the reason.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::aof::{
        CrossShardRecord, Fed, FedPiece, Feed, Frame, FsyncPolicy, LogControl, PendingCommits, decode_again,
        for_each_effect,
    };
    use crate::base::limits::Limit;
    use crate::commands::{Context, find};
    use crate::engine::Session;
    use crate::keyspace::{Databases, DueKeys};
    use crate::resp::{Args, Limits, Output, RequestParser, Step};
    use std::num::NonZeroUsize;

    const SHARDS: usize = 3;

    fn engine() -> (Arc<ActorEngine<actors::FlumeChannels>>, LogControl, Vec<crate::aof::LogThread>) {
        let (control, pending_commits) = (LogControl::new(FsyncPolicy::No), Arc::new(PendingCommits::default()));
        let started = (0..SHARDS).map(|_| Segment::start_without_log(control.clone(), Arc::clone(&pending_commits)));
        let (segments, threads): (Vec<_>, Vec<_>) = started.collect::<Result<_, _>>().unwrap();
        pending_commits.begin(&segments);
        let some = |count| NonZeroUsize::new(count).unwrap();
        let instance = Arc::default();
        let engine_components = EngineComponents {
            instance: Arc::clone(&instance),
            stores: (0..SHARDS).map(|index| Databases::of_shard(&instance, 16, index, SHARDS)).collect(),
            segments,
            pending_commits,
            clock: Clock::default(),
            tasks: Tasks::System,
            runs_in_place: false,
            mailbox_capacity: some(64),
            turn_batches: some(64),
            reads_in_flight: some(4),
            map_shards: some(1),
            is_multi_key_atomic: true,
            batching: Batching::new(true, true, 1),
            pubsub: Arc::default(),
            due_keys: Arc::default(),
            latency: Arc::default(),
            reply_bytes_max: Arc::new(Limit::new(u64::MAX)),
        };
        (Arc::new(ActorEngine::new(engine_components)), control, threads)
    }

    fn submit(session: &mut ActorSession<actors::FlumeChannels>, request: &[u8]) {
        let mut parser = RequestParser::default();
        let limits = Limits { bulk_len_max: 1 << 20, authenticated: true };
        let mut at = 0;
        while let Step::Request(len) = parser.parse(&request[at..], limits).unwrap() {
            let args: Args<'_> = parser.args(&request[at..]);
            session.submit(find(&args[0]).unwrap(), args, Context::default(), &mut Output::default());
            at += len;
        }
    }

    /// The contents of the feed: the shards of each record with its effects.
    fn fed(feed: &Feed) -> Vec<(Vec<usize>, Vec<String>)> {
        let mut all = Vec::new();
        let fed = feed.take(Fed::default());
        let mut rest = &fed.bytes[..];
        for piece in &fed.pieces {
            let mut bytes = rest.split_off(..piece.len()).unwrap();
            let FedPiece::Records { lane, .. } = *piece else { continue };
            loop {
                let (shards, effects, len) = match decode_again(bytes) {
                    Frame::Record(payload, len) => (vec![lane], payload, len),
                    Frame::CrossShard(payload, len) => {
                        let record = CrossShardRecord::parse(payload).unwrap();
                        (record.participants.iter().map(|(shard, _)| *shard).collect(), record.effects, len)
                    }
                    _ => break,
                };
                let mut words = Vec::new();
                for_each_effect(effects, &mut Vec::new(), |bytes, spans| {
                    words.push(
                        Args::new(bytes, spans)
                            .iter()
                            .map(|word| String::from_utf8_lossy(word))
                            .collect::<Vec<_>>()
                            .join(" "),
                    );
                });
                all.push((shards, words));
                bytes = &bytes[len..];
            }
        }
        all
    }

    #[tokio::test]
    async fn a_command_that_was_accepted_before_anything_is_recorded_is_recorded_whole() {
        let (engine, control, threads) = engine();
        engine.start();
        let feed = Arc::new(Feed::default());
        engine.segments().iter().enumerate().for_each(|(lane, segment)| segment.flow_into(Arc::clone(&feed), lane));
        let mut session = engine.session(0);
        // It is gathered but not sent: its connection may wait for room.
        submit(&mut session, b"MSET one 1 two 2 three 3 four 4\r\nFLUSHALL\r\nGET a\r\n");
        begin_feed(&engine, &control).await;
        _ = replies(&mut session).await;
        let all = fed(&feed);
        let of = |word: &str| all.iter().filter(|(_, effects)| effects[0].starts_with(word)).collect::<Vec<_>>();
        let (set, flush) = (of("MSET"), of("FLUSHALL"));
        assert_eq!(flush.len(), SHARDS, "each has a copy: {all:?}");
        assert!(flush.iter().all(|(shards, effects)| shards.len() == SHARDS && effects == &["FLUSHALL"]), "{flush:?}");
        assert!(set.len() > 1, "{all:?}");
        for (shards, effects) in &set {
            assert_eq!((shards.len(), effects.len()), (set.len(), 1), "{set:?}");
            let words: Vec<&str> = effects[0].split(' ').collect();
            let mut pairs: Vec<_> = words[1..].chunks(2).collect();
            pairs.sort_unstable();
            assert_eq!(pairs, [["four", "4"], ["one", "1"], ["three", "3"], ["two", "2"]]);
        }
        drop(threads);
    }

    /// Sends what is submitted, and waits for its replies.
    async fn replies(session: &mut ActorSession<actors::FlumeChannels>) -> String {
        session.flush().await;
        let mut out = Output::default();
        loop {
            session.collect(&mut out);
            if session.replied() == session.accepted() {
                return String::from_utf8_lossy(out.buffer()).into_owned();
            }
            session.wait().await;
        }
    }

    const READONLY: &str = "-READONLY You can't write against a read only replica.\r\n";
    const PAIRS: &[u8] = b"MSET one 1 two 2 three 3 four 4\r\nDEL nothing five six seven\r\n";
    const VALUES: &[u8] = b"MGET one two three four\r\n";

    #[tokio::test]
    async fn parts_that_are_sent_after_the_server_has_become_a_replica_are_refused_and_leave_the_next_records_alone() {
        let (engine, control, threads) = engine();
        engine.start();
        let feed = Arc::new(Feed::default());
        for (lane, segment) in engine.segments().iter().enumerate() {
            segment.flow_into(Arc::clone(&feed), lane);
        }
        begin_feed(&engine, &control).await;
        let mut session = engine.session(0);
        submit(&mut session, PAIRS);
        engine.due_keys.replace(DueKeys::Kept);
        assert_eq!(replies(&mut session).await, READONLY.repeat(2));
        submit(&mut session, VALUES);
        assert_eq!(replies(&mut session).await, format!("*4\r\n{}", "$-1\r\n".repeat(4)));
        assert!(fed(&feed).is_empty());
        engine.due_keys.replace(DueKeys::Removed);
        submit(&mut session, b"SET one 1\r\nSET two 2\r\nSET three 3\r\nSET four 4\r\n");
        assert_eq!(replies(&mut session).await, "+OK\r\n".repeat(4));
        assert_eq!(fed(&feed).len(), 4);
        drop(threads);
    }

    #[tokio::test]
    async fn parts_that_were_sent_before_the_server_became_a_replica_run_whole() {
        let (engine, control, threads) = engine();
        let mut session = engine.session(0);
        submit(&mut session, PAIRS);
        // No shard runs yet.
        session.flush().await;
        engine.due_keys.replace(DueKeys::Kept);
        engine.start();
        assert_eq!(replies(&mut session).await, "+OK\r\n:0\r\n");
        submit(&mut session, VALUES);
        assert!(!replies(&mut session).await.contains("$-1"));
        drop((control, threads));
    }

    async fn begin_feed(engine: &Arc<ActorEngine<actors::FlumeChannels>>, control: &LogControl) {
        let announced = control.announce_recording().await;
        let owners = engine.segments().iter().map(|segment| {
            let segment = Arc::clone(segment);
            OwnerSnapshot { sink: None, at_moment: Box::new(move || segment.begin_feed(1)) }
        });
        Arc::clone(engine).begin_snapshot(owners.collect()).await;
        drop(announced);
    }

    #[tokio::test]
    async fn recording_begins_when_what_was_sent_without_knowing_of_it_is_on_its_way() {
        let (_engine, control, threads) = engine();
        let sending = control.begin_sending();
        assert!(!control.is_recording_announced());
        let announcing = control.announce_recording();
        tokio::pin!(announcing);
        let is_waiting = tokio::time::timeout(std::time::Duration::ZERO, announcing.as_mut()).await.is_err();
        assert!(is_waiting && control.is_recording_announced());
        // Senders that come now see it, and are not waited for.
        drop(sending);
        drop(announcing.await);
        assert!(!control.is_recording_announced());
        drop(threads);
    }
}
