//! The keyspace: keys, values, expiry, and the changes of a command.
//!
//! It is synchronous and knows no engine: an engine supplies a [`Store`] as wide as the command needs, exclusive to it
//! while the command runs.

mod changing;
mod databases;
mod deadlines;
mod due_keys;
mod effects;
mod encoding_limits;
mod eviction;
mod expiry;
mod hashing;
mod instance;
mod key_waiters;
mod multi_shard;
mod node_table;
mod notices;
mod permissions;
mod raw;
mod reading;
mod settings;
mod snapshotting;
mod store;
mod stream_place;
mod timing;
mod tracking;
mod usage;
pub mod values;
mod waiter;
mod waiting_connections;
mod walk;

pub use changing::Removal;
pub use databases::Databases;
pub use deadlines::Deadlines;
pub use due_keys::{DueKeys, DueKeysRule};
pub use effects::{EFFECT_LEN_MAX, Effects};
#[cfg(test)]
pub use encoding_limits::EncodingLimits;
pub use encoding_limits::{Limit, ListLimits, PairLimits, SetLimits};
pub use eviction::{Evictable, draw as draw_evictable};
pub use hashing::{ProcessHash, choose_seed as choose_hash_seed, hash_of};
pub use instance::Instance;
pub use key_waiters::{BlockedOperation, End, KeyWaiters, Queued, Reader, Watch};
pub use multi_shard::MultiShardView;
pub use node_table::NodeTable;
pub use notices::{Class, Notice, Notices};
pub use permissions::Permissions;
pub use raw::node::{NewValue, Node, Value};
pub use settings::Settings;
pub use snapshotting::{Added, Encode, STEP as SNAPSHOT_STEP, SnapshotSink, Snapshotting, Spot as SnapshotSpot};
pub use store::{Store, Table};
pub use stream_place::StreamPlace;
pub use tracking::Tracking;
pub use usage::{Eviction, FormerUse, Policy, Usage};
pub use values::collection::{Bytes, Collection, Hash, List, Object, Set};
pub use values::element_table::Field;
pub use values::hash::FieldSpot;
pub use values::intset::Intset;
pub use values::list::ListNode;
pub use values::listpack::{Element, Listpack};
pub use values::set::Spot;
pub use values::sorted_set::{Cut, SortedSet};
pub use values::stream::Stream;
pub use waiter::{BECAME_REPLICA, LogPosition, Served, Wait, WaitQueues, Waiter};
pub use walk::{Homes, POSITION_BITS, walk};

use crate::base::limits::LEN_MAX;
use std::collections::VecDeque;
use std::sync::Arc;
use timing::Timing;
use tokio_util::sync::CancellationToken;

/// Counts of what commands found and of expired keys.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct KeyspaceStats {
    /// Lookups by reading commands that found their key.
    pub hits: u64,
    /// Lookups by reading commands that did not.
    pub misses: u64,
    /// Keys removed because their time had come.
    pub expired: u64,
    /// Changes that commands made.
    pub changes: u64,
}

/// Keys and values while a command, or a turn of commands, runs over them.
///
/// Invariants: time stands still between [`set_now`](Self::set_now) calls; a key whose deadline has come at the time of
/// [`set_due`](Self::set_due) is never shown; every change is counted in `dirty` and, if a log is kept, added to
/// `effects`.
#[derive(Debug)]
pub struct Keyspace<S> {
    store: S,
    now_ms: u64,
    /// Keys with deadlines up to then are due.
    due_ms: u64,
    /// The second of `now_ms`.
    second: u64,
    /// How uses of keys are recorded at that time.
    usage: Usage,
    random: fastrand::Rng,
    stats: KeyspaceStats,
    dirty: u64,
    effects: Effects,
    is_replaying: bool,
    saw_expired: bool,
    /// Whether commands count as uses of their keys: see [`set_notes_uses`](Self::set_notes_uses).
    notes_uses: bool,
    due_keys: DueKeys,
    caller: Caller,
    /// Changed keys with waiters, with their databases, in the order of change.
    ready: VecDeque<(usize, Box<[u8]>)>,
    /// With more of them, those that are there twice go.
    ready_max: usize,
    /// The waiters that the running command served, with their replies.
    served: Vec<(Arc<Waiter>, Vec<u8>, Option<CancellationToken>)>,
    /// What the waiters served from now on must wait for.
    served_after: Option<CancellationToken>,
    /// The events of keys.
    notices: Notices,
    timing: Timing,
}

/// What a connection passes to commands that need more than their arguments.
#[derive(Debug, Default, Clone)]
pub struct Caller {
    /// The watch that breaks when a watched key changes.
    pub watch: Option<Arc<Watch>>,
    /// Waits if a command finds nothing to take; without it, commands do not wait.
    pub waiter: Option<Arc<Waiter>>,
    /// Whether its commands are those of EXEC.
    pub is_in_exec: bool,
    /// Whether its commands are called by a script.
    pub is_in_script: bool,
    /// Whether its command has access to all keys, and must save what it leaves of them: FLUSHALL.
    pub saves: bool,
    /// What its user may do, unless that is everything.
    pub permissions: Option<Arc<dyn Permissions>>,
    /// Whether it is the master, whose commands have run there: for them keys whose time has come are like others, and
    /// the limits of clients do not apply.
    pub is_master: bool,
    /// The connection with CLIENT TRACKING that it is.
    pub tracking: Tracking,
}

impl<S: Store> Keyspace<S> {
    /// A keyspace over `store`; `effects` says whether a log is kept.
    pub fn new(store: S, now_ms: u64, random: fastrand::Rng, effects: Effects) -> Self {
        Self {
            usage: store.instance().settings.eviction.usage(),
            store,
            now_ms,
            due_ms: now_ms,
            second: now_ms / 1000,
            random,
            stats: KeyspaceStats::default(),
            dirty: 0,
            effects,
            is_replaying: false,
            saw_expired: false,
            notes_uses: true,
            due_keys: DueKeys::default(),
            caller: Caller::default(),
            ready: VecDeque::new(),
            ready_max: 0,
            served: Vec::new(),
            served_after: None,
            notices: Notices::default(),
            timing: Timing::begin(),
        }
    }

    /// A keyspace in which the effects of a log are replayed. Its time is always 0, so that no key expires: everything
    /// that depended on time is in the effects. Nothing is random either: the same log leads to the same state on any
    /// day.
    pub fn of_replay(store: S) -> Self {
        let keyspace = Self::new(store, 0, fastrand::Rng::with_seed(0), Effects::new(false));
        Self { is_replaying: true, ..keyspace }
    }

    /// How long commands take.
    #[inline]
    pub fn timing(&mut self) -> &mut Timing {
        &mut self.timing
    }

    /// Unix time in milliseconds, the same for all commands of this turn.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Whether the effects of a log are replayed.
    pub fn is_replaying(&self) -> bool {
        self.is_replaying
    }

    /// Whether commands have been accepted before, by a master or before a replay: limits of clients do not apply to
    /// them, nor what this version checks and the master's does not.
    pub fn was_accepted_before(&self) -> bool {
        self.is_replaying() || self.caller.is_master
    }

    /// The longest string that a command may make, in bytes.
    pub fn string_len_max(&self) -> usize {
        /// How far after the byte that it begins in a field of BITFIELD may end.
        const FIELD: usize = size_of::<u64>();
        if self.was_accepted_before() { LEN_MAX - FIELD } else { self.settings().string_len_max.get() }
    }

    /// The longest HyperLogLog in the sparse encoding, in bytes. There is no limit during replay: if one became dense
    /// because of its length, that is an effect of its own.
    pub fn sparse_len_max(&self) -> usize {
        if self.is_replaying() { usize::MAX } else { self.settings().hll_sparse_len_max.get() }
    }

    /// Sets the time by which keys are due. It is earlier than now where a command over several shards has waited for
    /// one of them. New deadlines and displayed times count from now.
    #[inline]
    pub fn set_due(&mut self, due_ms: u64) {
        self.due_ms = due_ms;
    }

    /// The time by which keys are due.
    pub fn due_ms(&self) -> u64 {
        self.due_ms
    }

    /// Sets the time, also that by which keys are due.
    pub fn set_now(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        self.due_ms = now_ms;
        self.second = now_ms / 1000;
        self.usage = self.settings().eviction.usage();
    }

    /// The counts so far.
    pub fn stats(&self) -> KeyspaceStats {
        KeyspaceStats { changes: self.stats.changes + self.dirty, ..self.stats }
    }

    /// Selects the database that commands run in.
    #[inline]
    pub fn select(&mut self, database: usize) {
        self.store.select(database);
        self.effects.select(database);
    }

    /// Sets whether commands count as uses of their keys, and returns whether they did. Those of a connection with
    /// CLIENT NO-TOUCH do not.
    #[inline]
    pub fn set_notes_uses(&mut self, notes_uses: bool) -> bool {
        std::mem::replace(&mut self.notes_uses, notes_uses)
    }

    /// Sets what happens to keys whose time has come. The engine does so before commands run.
    #[inline]
    pub fn set_due_keys(&mut self, due_keys: DueKeys) {
        self.due_keys = due_keys;
    }

    /// Whether only the master removes keys whose time has come.
    pub fn keeps_due_keys(&self) -> bool {
        self.due_keys != DueKeys::Removed
    }

    /// Whether only the master removes elements, so that connections which wait for one wait in vain.
    pub fn serves_no_takers(&self) -> bool {
        self.due_keys == DueKeys::Kept
    }

    /// Whether only the master writes. Requests are checked when they are accepted; this is for those that were
    /// accepted before the server became a replica.
    #[inline]
    pub fn leaves_writes_to_master(&self) -> bool {
        self.due_keys == DueKeys::Kept && !self.is_replaying
    }

    /// How many databases there are.
    pub fn databases(&self) -> usize {
        self.store.databases()
    }

    /// The database that commands run in.
    pub fn database(&self) -> usize {
        self.store.selected()
    }

    /// Runs `act` in another database.
    pub fn within<R>(&mut self, database: usize, act: impl FnOnce(&mut Self) -> R) -> R {
        let selected = self.database();
        self.select(database);
        let result = act(self);
        self.select(selected);
        result
    }

    /// What the keyspaces of the same server share.
    #[inline]
    pub fn instance(&self) -> &Arc<Instance> {
        self.store.instance()
    }

    /// The settings of the server that CONFIG SET changes.
    #[inline]
    pub fn settings(&self) -> &Settings {
        &self.store.instance().settings
    }

    /// How large small collections of a type may become now.
    #[inline]
    pub fn limits<C: Collection>(&self) -> C::Limits {
        C::limits(self.settings())
    }

    /// How uses of keys are recorded.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// The store of the nodes.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Returns the parts: the store, the random numbers, and the effects.
    pub fn into_parts(self) -> (S, fastrand::Rng, Effects) {
        (self.store, self.random, self.effects)
    }

    /// Random numbers: seeded by the engine, so that tests can choose them.
    pub fn random(&mut self) -> &mut fastrand::Rng {
        &mut self.random
    }

    /// The effects that the running command adds to the log.
    pub fn effects(&mut self) -> &mut Effects {
        &mut self.effects
    }

    /// Reports an event of a key to its subscribers. A command calls this once for each event, in Redis's order, where
    /// it makes the change. O(1) without subscribers; else O(length of the key).
    #[inline]
    pub fn notify(&mut self, class: Class, event: &'static str, key: &[u8]) {
        if self.notices.wants(class) {
            self.notices.push(self.store.selected(), event, key);
        }
    }

    /// Whether subscribers learn of events of a class.
    pub fn notifies(&self, class: Class) -> bool {
        self.notices.wants(class)
    }

    /// The events, to be published by the engine, which chooses beforehand which are kept.
    #[inline]
    pub fn notices(&mut self) -> &mut Notices {
        &mut self.notices
    }

    /// Sets the caller whose commands run.
    pub fn set_caller(&mut self, caller: Caller) {
        self.caller = caller;
    }

    /// The caller whose commands run.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Sets whether a script calls the commands that run.
    pub fn set_in_script(&mut self, is_in_script: bool) {
        self.caller.is_in_script = is_in_script;
    }

    /// Whether a key belongs to the store, or to another.
    pub fn covers(&self, key: &[u8]) -> bool {
        self.store.covers(key)
    }

    /// The store of the nodes, to lend it.
    pub fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }

    /// Adds counts from elsewhere.
    pub fn add_stats(&mut self, stats: KeyspaceStats) {
        self.stats.hits += stats.hits;
        self.stats.misses += stats.misses;
        self.stats.expired += stats.expired;
        self.stats.changes += stats.changes;
    }

    /// Changes made so far.
    pub fn dirty(&self) -> u64 {
        self.dirty
    }

    /// Whether a read-only command met a key that should be removed, or a value that should change its encoding.
    pub fn saw_expired(&self) -> bool {
        self.saw_expired
    }
}
