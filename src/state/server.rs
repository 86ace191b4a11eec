//! The server as seen by connections, commands and the housekeeping; it accepts nothing and runs nothing.

use super::client_eviction::ClientMemory;
use super::client_list::{Client, Clients};
use super::listening::Listening;
use super::log_switch::LogSwitch;
use super::oom_score::OomScore;
use super::pause::Pause;
use super::rewriting::Rewriting;
use super::stopping::Stop;
use super::supervision::Supervisor;
use super::tls::Tls;
use crate::acl::{Reason, Users};
use crate::aof::{LogControl, Segment};
use crate::base::allocator;
use crate::base::clock::{Clock, milliseconds, uptime, uptime_ms};
use crate::base::limits::Limit;
use crate::base::narrowing::whole_u64;
use crate::base::network::Network;
use crate::base::pressure::Look;
use crate::base::tasks::Tasks;
use crate::base::tsc;
use crate::commands::Services;
use crate::config::logging::Seldom;
use crate::config::{Config, Directive, clients_that_fit, snapshot_path};
use crate::engine::{EngineMetrics, Metered};
use crate::keyspace::{DueKeysRule, Instance, Policy, Settings};
use crate::pubsub::PubSub;
use crate::replication::link::CachedLinks;
use crate::replication::{ReplicaLimits, Replication, Role};
use crate::resp::CommandError;
use crate::snapshot::Refusal;
use crate::stats::latency;
use crate::stats::slow_log::{Slow, SlowLog};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The least size of the backlog: Redis takes this for a smaller one.
const REPL_BACKLOG_MIN: u64 = 16 * 1024;

/// What connections, commands and the housekeeping share.
pub struct Server {
    /// The configuration.
    pub config: Config,
    /// What its keyspaces share.
    pub instance: Arc<Instance>,
    /// The services for its commands: those of the instance.
    pub services: Arc<Services>,
    /// The connections that are open.
    pub clients: Clients,
    /// The score of the process for the kernel.
    pub oom_score: OomScore,
    /// What they may take together.
    pub(crate) client_memory: ClientMemory,
    /// The users.
    pub users: Arc<Users>,
    /// Counters of events.
    pub stats: Stats,
    /// The engine's figures; unset while the data is loaded.
    pub(crate) engine: OnceLock<Arc<dyn Metered>>,
    /// The subscriptions to channels.
    pub pubsub: Arc<PubSub>,
    /// The source of time.
    pub clock: Clock,
    /// Where its master is.
    pub network: Arc<dyn Network>,
    /// What encrypted connections are made with.
    pub tls: Tls,
    /// Connections to the targets of MIGRATE.
    pub links: Arc<CachedLinks>,
    /// How several things run at once.
    pub tasks: Tasks,
    /// When the server started.
    pub started: Instant,
    /// A random name of this run.
    pub run_id: String,
    /// The supervisor to notify when it is ready.
    pub supervisor: Supervisor,
    /// The name of the node in a cluster.
    pub node_id: String,
    /// The operating system.
    pub os: String,
    /// The role, and the stream of changes.
    pub replication: Replication,
    /// What happens to keys whose time has come: decided by the master, if there is one.
    pub due_keys: Arc<DueKeysRule>,
    /// Held while that rule, or whether there are too few replicas for a write, changes.
    pub(crate) role_change: Mutex<()>,
    /// Where connections come from.
    pub listening: Listening,
    /// Threads of the runtime.
    pub threads: usize,
    /// The policy of the log, and its failures.
    pub log_control: LogControl,
    /// The rewriting of the log.
    pub rewriting: Rewriting,
    /// What begins and ends it.
    pub log_switch: LogSwitch,
    /// The client of all scripts, once one needs one.
    pub script_client: OnceLock<Arc<Client>>,
    /// Whether connections accept requests.
    pub pause: Pause,
    /// Ends the server.
    pub stop: Arc<Stop>,
    /// Commands that took long.
    pub slow_log: SlowLog,
    /// What took longer than it should.
    pub latency: Arc<latency::Monitor>,
    /// When a log line last reported HTTP.
    pub attacks: Seldom,
    /// Bytes in use before there was data.
    pub startup_memory: u64,
    /// How many bytes one read takes at most.
    pub(crate) read_size: Limit,
    /// How many bytes one reply, or the replies of a transaction, may have.
    pub(crate) reply_bytes_max: Arc<Limit>,
    /// The time of the last housekeeping.
    pub(crate) coarse_uptime_ms: AtomicU64,
    /// The counters at the last CONFIG RESETSTAT.
    pub(crate) base: Mutex<Totals>,
}

impl Server {
    /// The settings of commands that CONFIG SET changes.
    pub fn settings(&self) -> &Settings {
        &self.instance.settings
    }

    /// The engine's figures; those of an empty one while the data is loaded.
    pub fn metrics(&self) -> EngineMetrics {
        self.engine.get().map_or_else(EngineMetrics::default, |engine| engine.metrics())
    }

    /// Whether the data is being loaded.
    pub fn is_loading(&self) -> bool {
        self.engine.get().is_none()
    }

    /// Whether a directive with the values `no`, `yes` and `local` permits something to a connection.
    pub fn allows(&self, directive: Directive, client: &Client) -> bool {
        match self.config.text(directive).as_str() {
            "yes" => true,
            "local" => client.address.is_local(),
            _ => false,
        }
    }

    /// Whether a request with keys of several slots is refused.
    pub fn refuses_cross_slot(&self) -> bool {
        self.settings().refuses_cross_slot()
    }

    /// Whether writes are logged.
    pub fn has_log(&self) -> bool {
        self.config.is_on(Directive::Appendonly) && !self.log_switch.is_suspended()
    }

    /// Applies changes of the configuration to the places that keep copies for speed.
    pub fn apply_config(&self) {
        self.log_control.set_policy(self.config.choice(Directive::Appendfsync));
        self.services.saves.aim_at(snapshot_path(&self.config));
        self.config.apply_to(self.settings());
        // One read brings no more requests than may wait.
        let query_max = self.config.number(Directive::ClientQueryBufferLimit);
        self.read_size.set(self.config.number(Directive::ReadSize).min(query_max));
        let limits = self.config.output_limits();
        self.reply_bytes_max.set(limits.normal.hard_max());
        self.replication.stream.set_limits(
            self.config.number(Directive::ReplBacklogSize).max(REPL_BACKLOG_MIN),
            ReplicaLimits {
                hard_max: limits.slave.hard_max(),
                soft_max: limits.slave.soft_max(),
                soft_ms: limits.slave.soft_seconds.saturating_mul(1000),
            },
        );
        self.pubsub.tracking().set_keys_max(self.config.number(Directive::TrackingTableMaxKeys));
        self.pubsub.trim_tracking();
        self.pubsub.set_queue_bytes_max(limits.pubsub.hard_max(), limits.normal.hard_max());
        self.pubsub.set_notified(self.config.events());
        self.users.set_all_channels(self.config.text(Directive::AclPubsubDefault) == "allchannels");
        self.users.denials.set_len_max(self.config.size(Directive::AcllogMaxLen));
        self.apply_role();
        self.look_at_replicas();
        self.look_at_memory();
        self.limit_clients(self.config.client_bytes_max());
        self.instance.pressure.look_again();
        self.instance.calls.set_tracks_latency(self.config.is_on(Directive::LatencyTracking));
        self.instance.stages.set_sample(self.config.narrow(Directive::StagesSample));
        let control = self.log_control.clone();
        self.services.saves.set_policy(
            self.config.number(Directive::Save) > 0,
            self.config.is_on(Directive::StopWritesOnBgsaveError),
            Refusal(Box::new(move |is_refused| control.set_failed_snapshot(is_refused))),
        );
        self.services.saves.set_compresses(self.config.is_on(Directive::Rdbcompression));
        self.services.scripting.busy.set_threshold_ms(self.config.number(Directive::BusyReplyThreshold));
        self.instance.calls.set_slow_from(self.slow_from());
        self.latency.set_threshold_ms(self.config.number(Directive::LatencyMonitorThreshold));
    }

    /// Ticks from which on the slow log or the latency monitor may record a command.
    fn slow_from(&self) -> u64 {
        let slow_us = self.config.signed(Directive::SlowlogLogSlowerThan);
        let latency_ms = self.config.number(Directive::LatencyMonitorThreshold);
        let slow_us = u64::try_from(slow_us).unwrap_or(u64::MAX);
        let latency_us = if latency_ms == 0 { u64::MAX } else { latency_ms.saturating_mul(1000) };
        // A value that is not exact counts as never.
        whole_u64(slow_us.min(latency_us) as f64 * tsc::per_us())
    }

    /// Records a command that took long.
    pub fn note_slow(&self, client: &Client, slow: Slow) {
        let us = whole_u64(slow.ticks as f64 / tsc::per_us());
        let at_s = self.clock.now_ms() / 1000;
        let event = if slow.is_fast { "fast-command" } else { "command" };
        self.latency.note(event, latency::Sample { at_s, ms: us / 1000 });
        let least_us = self.config.signed(Directive::SlowlogLogSlowerThan);
        if !slow.is_skipped && u64::try_from(least_us).is_ok_and(|least_us| us >= least_us) {
            let client = match slow.is_of_script {
                true => <(String, String)>::default(),
                false => (client.address.to_string(), client.labels.lock().name.clone()),
            };
            let most = self.config.size(Directive::SlowlogMaxLen);
            self.slow_log.push(slow, us, at_s, client, most);
        }
    }

    /// Whether a command that needs memory may run, with arguments of this many bytes. If more is in use than
    /// `maxmemory`, `make_room` evicts some keys, if any can be evicted.
    #[cold]
    pub fn finds_room(&self, argument_bytes: usize, make_room: impl FnOnce()) -> bool {
        if !self.instance.pressure.is_over() {
            if self.instance.pressure.has_used_up(argument_bytes) {
                self.look_at_memory();
            }
            if !self.instance.pressure.is_over() {
                return true;
            }
        }
        let policy = self.settings().eviction.policy();
        if !policy.evicts() {
            return false;
        }
        make_room();
        let is_paused = self.settings().is_frozen();
        is_paused || !self.instance.pressure.is_over() || self.evictable(policy) > 0
    }

    /// Whether eviction may keep the limit. Where no key may be evicted, only refusing commands does.
    fn may_evict(&self) -> bool {
        let policy = self.settings().eviction.policy();
        // Counting the keys takes locks, which a busy script may hold.
        let may_count = policy.spares_lasting() && !self.services.scripting.busy.is_busy();
        policy.evicts() && (!may_count || self.evictable(policy) > 0)
    }

    fn evictable(&self, policy: Policy) -> u64 {
        self.engine.get().map_or(0, |engine| engine.evictable(policy.spares_lasting()))
    }

    /// Measures the memory in use; returns when to measure again.
    pub(crate) fn look_at_memory(&self) -> Duration {
        // The master evicts, and sends the evictions.
        let is_left_to_master = self.is_replica() && self.config.is_on(Directive::ReplicaIgnoreMaxmemory);
        let most = if is_left_to_master { 0 } else { self.config.number(Directive::Maxmemory) };
        let brought = self.instance.pressure.brought();
        let segments = self.segments();
        let used = if most > 0 { Segment::used_beside_buffers(segments, allocator::used) } else { 0 };
        let used = used.saturating_sub(self.replication.uncounted_memory());
        let evicts = most > 0 && self.may_evict();
        self.instance.pressure.note(Look { at: uptime(), brought, used, most, evicts })
    }

    /// Bytes in use that do not count towards `maxmemory`: the buffers of the log, which eviction adds to.
    pub fn uncounted_memory(&self) -> u64 {
        Segment::buffers_of(self.segments()) + self.replication.uncounted_memory()
    }

    /// Refuses writes from now on if there are too few replicas, and permits them again if there are enough. A replica
    /// refuses them in other words.
    pub fn look_at_replicas(&self) {
        // Others that look now must not set what they saw before a change of the role after it.
        let _change = self.role_change.lock();
        let least = self.config.size(Directive::MinReplicasToWrite);
        let max_lag_s = self.config.number(Directive::MinReplicasMaxLag);
        let lacks = least > 0
            && max_lag_s > 0
            && self.replication.role() == Role::Master
            && self.replication.good_replicas(uptime_ms(), max_lag_s) < least;
        if self.replication.set_lacks_replicas(lacks) {
            self.log_control.look_at_all_while(lacks);
        }
    }

    /// Whether changes and messages are pushed to the feed of replication.
    pub fn feeds_replicas(&self) -> bool {
        self.segments().iter().any(|segment| segment.is_fed())
    }

    fn segments(&self) -> &[Arc<Segment>] {
        self.engine.get().map_or(&[], |engine| engine.segments())
    }

    /// Why writes are refused now: the last snapshot, or the log, could not be written.
    pub fn refuses_writes(&self) -> Option<CommandError> {
        const NO_SNAPSHOT: &str = "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to \
                                   persist to disk. Commands that may modify the data set are disabled, because this \
                                   instance is configured to report errors during writes if RDB snapshotting fails \
                                   (stop-writes-on-bgsave-error option). Please check the Redis logs for details \
                                   about the RDB error.";
        if self.log_control.has_failed_snapshot() {
            return Some(CommandError::Text(NO_SNAPSHOT));
        }
        match self.log_control.failure() {
            Some(reason) => Some(CommandError::Owned(format!("MISCONF Errors writing to the AOF file: {reason}"))),
            None => self.lacks_replicas(),
        }
    }

    fn lacks_replicas(&self) -> Option<CommandError> {
        const TEXT: &str = "NOREPLICAS Not enough good replicas to write.";
        self.replication.lacks_replicas().then_some(CommandError::Text(TEXT))
    }

    /// The same error, for a script that may write.
    pub fn refuses_scripts(&self) -> Option<CommandError> {
        const NO_SNAPSHOT: &str = "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to \
                                   persist to disk. Writable scripts are blocked. Use 'no-writes' flag for read only \
                                   scripts.";
        if self.log_control.has_failed_snapshot() {
            return Some(CommandError::Text(NO_SNAPSHOT));
        }
        let Some(reason) = self.log_control.failure() else { return self.lacks_replicas() };
        Some(CommandError::Owned(format!(
            "MISCONF Redis is configured to persist data to AOF, but it's currently unable to persist to disk. Writable \
             scripts are blocked. Use 'no-writes' flag for read only scripts. AOF error: {reason}"
        )))
    }

    /// How many unsent bytes a connection may have before it is closed at once.
    pub fn output_max(&self, is_listening: bool) -> usize {
        match is_listening {
            true => usize::try_from(self.pubsub.queue_bytes_max()).unwrap_or(usize::MAX),
            false => self.reply_bytes_max.get(),
        }
    }

    /// [`uptime_ms`] at the last housekeeping.
    pub fn coarse_uptime_ms(&self) -> u64 {
        self.coarse_uptime_ms.load(Ordering::Relaxed)
    }

    /// How many of the wanted connections the limit on open files, raised as far as possible, permits.
    pub fn clients_that_fit(&self, wanted: u64) -> u64 {
        clients_that_fit(&self.config, wanted)
    }

    /// The counters since the start, or since CONFIG RESETSTAT.
    pub fn totals_since_reset(&self, metrics: &EngineMetrics) -> Totals {
        self.totals(metrics).since(*self.base.lock())
    }

    /// Resets the counters.
    pub fn reset_stats(&self) {
        *self.base.lock() = self.totals(&self.metrics());
        self.instance.calls.reset();
        self.instance.stages.reset();
        self.instance.freeing.reset();
        self.replication.counts.reset();
        self.rewriting.forget_failures();
    }

    /// What the connections have sent and were sent since the start, also those that have ended, and how many commands
    /// have run since the start or CONFIG RESETSTAT.
    pub(crate) fn traffic(&self) -> Totals {
        // The lock is held meanwhile: a connection that departs is counted once.
        let departed = self.stats.departed.lock();
        let mut totals = *departed;
        self.clients.for_each_unfinished(|client| totals.add_client(client));
        drop(departed);
        totals.commands = self.instance.calls.total();
        totals.master_bytes = self.replication.counts.received_bytes.load(Ordering::Relaxed);
        totals.replica_bytes = self.replication.counts.sent_bytes.load(Ordering::Relaxed);
        totals.input_bytes += totals.master_bytes;
        totals
    }

    /// Ends the part of a connection whose task has ended.
    pub(crate) fn depart(&self, client: &Client) {
        client.leave_queue();
        let mut departed = self.stats.departed.lock();
        self.clients.remove(client.id);
        departed.add_client(client);
        drop(departed);
        self.client_memory.forget(client);
    }

    fn totals(&self, metrics: &EngineMetrics) -> Totals {
        let mut totals = self.traffic();
        totals.connections = self.stats.connections.load(Ordering::Relaxed);
        totals.rejected = self.stats.rejected.load(Ordering::Relaxed);
        totals.over_limit = self.stats.over_limit.load(Ordering::Relaxed);
        totals.evicted_clients = self.stats.evicted_clients.load(Ordering::Relaxed);
        totals.hits = metrics.keyspace.hits;
        totals.misses = metrics.keyspace.misses;
        totals.expired = metrics.keyspace.expired;
        totals.evicted = self.instance.pressure.evicted();
        totals.denied = DENIED.map(|reason| self.users.denials.count(reason));
        totals.exceeded_ms = milliseconds(self.instance.pressure.exceeded(uptime()).0);
        totals.snapshots = self.services.saves.count();
        totals.rewrites = self.rewriting.metrics().count;
        totals.delayed_fsyncs = metrics.segments.iter().map(|segment| segment.stalls).sum();
        totals
    }
}

/// Counters of events.
#[derive(Debug, Default)]
pub struct Stats {
    /// Connections accepted.
    pub connections: AtomicU64,
    /// Connections refused for `maxclients`.
    pub rejected: AtomicU64,
    /// Connections closed for the output limit.
    pub over_limit: AtomicU64,
    /// Connections closed for `maxmemory-clients`.
    pub evicted_clients: AtomicU64,
    /// Commands a second, over the last second.
    pub ops_per_sec: AtomicU64,
    /// Bytes read a second, over the last second.
    pub input_per_sec: AtomicU64,
    /// Bytes written a second, over the last second.
    pub output_per_sec: AtomicU64,
    /// Bytes read from a master a second, over the last second.
    pub master_per_sec: AtomicU64,
    /// Bytes written to replicas a second, over the last second.
    pub replica_per_sec: AtomicU64,
    /// The counters of connections that have ended.
    pub(crate) departed: Mutex<Totals>,
}

/// The order of what was denied: logins, commands, keys, channels.
const DENIED: [Reason; 4] = [Reason::Auth, Reason::Command, Reason::Key, Reason::Channel];

/// Sums for INFO.
#[derive(Debug, Default, Clone, Copy)]
pub struct Totals {
    /// Connections accepted.
    pub connections: u64,
    /// Connections refused.
    pub rejected: u64,
    /// Connections closed for the output limit.
    pub over_limit: u64,
    /// Connections closed for `maxmemory-clients`.
    pub evicted_clients: u64,
    /// Commands run, also by EXEC and by scripts; refused ones are not.
    pub commands: u64,
    /// Bytes read, also from masters.
    pub input_bytes: u64,
    /// Bytes written, also to replicas.
    pub output_bytes: u64,
    /// Bytes read from masters.
    pub master_bytes: u64,
    /// Bytes written to replicas.
    pub replica_bytes: u64,
    /// Lookups that found their key.
    pub hits: u64,
    /// Lookups that did not.
    pub misses: u64,
    /// Keys that expired.
    pub expired: u64,
    /// Keys that were evicted.
    pub evicted: u64,
    /// For how many milliseconds memory was over the limit.
    pub exceeded_ms: u64,
    /// What was denied, in the order of [`DENIED`].
    pub denied: [u64; 4],
    /// Snapshots made.
    pub snapshots: u64,
    /// Rewrites of the log that finished.
    pub rewrites: u64,
    /// Fsyncs that writers had to wait for.
    pub delayed_fsyncs: u64,
}

impl Totals {
    pub(crate) fn add_client(&mut self, client: &Client) {
        self.input_bytes += client.input_bytes.load(Ordering::Relaxed);
        self.output_bytes += client.sent_bytes.load(Ordering::Relaxed);
    }

    /// Another connection may have reset the counters since these were read.
    fn since(self, base: Totals) -> Totals {
        Totals {
            connections: self.connections.saturating_sub(base.connections),
            rejected: self.rejected.saturating_sub(base.rejected),
            over_limit: self.over_limit.saturating_sub(base.over_limit),
            evicted_clients: self.evicted_clients.saturating_sub(base.evicted_clients),
            // They are counted anew after a reset.
            commands: self.commands,
            input_bytes: self.input_bytes.saturating_sub(base.input_bytes),
            output_bytes: self.output_bytes.saturating_sub(base.output_bytes),
            master_bytes: self.master_bytes.saturating_sub(base.master_bytes),
            replica_bytes: self.replica_bytes.saturating_sub(base.replica_bytes),
            hits: self.hits.saturating_sub(base.hits),
            misses: self.misses.saturating_sub(base.misses),
            expired: self.expired.saturating_sub(base.expired),
            evicted: self.evicted.saturating_sub(base.evicted),
            exceeded_ms: self.exceeded_ms.saturating_sub(base.exceeded_ms),
            denied: std::array::from_fn(|index| self.denied[index].saturating_sub(base.denied[index])),
            snapshots: self.snapshots.saturating_sub(base.snapshots),
            rewrites: self.rewrites.saturating_sub(base.rewrites),
            delayed_fsyncs: self.delayed_fsyncs.saturating_sub(base.delayed_fsyncs),
        }
    }
}
