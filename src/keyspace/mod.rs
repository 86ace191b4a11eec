//! The keyspace: keys, values, expiry, and the changes of a command.
//!
//! It is synchronous and knows no engine: an engine supplies a [`Store`] as wide as the command needs, exclusive to it
//! while the command runs.

mod changing;
mod command_turn;
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
mod removal;
mod serving;
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
mod whole_databases;

pub use command_turn::{Caller, Turn};
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
pub use removal::Removal;
pub use serving::{ReadyKeys, ServedWaiters};
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
pub use waiter::{BECAME_REPLICA, LogPosition, Wait, WaitQueues, Waiter};
pub use walk::{Homes, POSITION_BITS, walk};
pub use whole_databases::{clear_database, replace_all, replace_by_others, swap_databases};

use crate::base::limits::LEN_MAX;
use std::sync::Arc;
use timing::Timing;

/// Counts of what commands found and changed, and of expired keys.
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

impl KeyspaceStats {
    /// Adds counts from elsewhere.
    pub fn add(&mut self, other: Self) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.expired += other.expired;
        self.changes += other.changes;
    }

    /// Records changes that break no watch and wake no waiter: those of the groups of a stream, as in Redis.
    pub fn note_unwatched_change(&mut self, changes: usize) {
        self.changes += changes as u64;
    }
}

/// Keys and values while a command, or a turn of commands, runs over them.
///
/// Its own functions find, put in and take out what keys hold. What else a command needs has functions of its own.
///
/// Invariants: a key whose deadline has come at the time of [`Turn::set_due`] is never shown; every change is counted
/// in `stats` and, if a log is kept, added to `effects`.
#[derive(Debug)]
pub struct Keyspace<S> {
    /// The store of the nodes.
    pub store: S,
    /// What holds for the commands that run.
    pub turn: Turn,
    /// Random numbers: seeded by the engine, so that tests can choose them.
    pub random: fastrand::Rng,
    /// The counts so far.
    pub stats: KeyspaceStats,
    /// The effects that the running command adds to the log.
    pub effects: Effects,
    /// The events of keys, to be published by the engine, which chooses beforehand which are kept.
    pub notices: Notices,
    /// Changed keys that may hold something for their waiters.
    pub ready: ReadyKeys,
    /// The waiters that the running command served.
    pub served: ServedWaiters,
    /// How long commands take.
    pub timing: Timing,
    saw_expired: bool,
}

impl<S: Store> Keyspace<S> {
    /// A keyspace over `store`; `effects` says whether a log is kept.
    pub fn new(store: S, now_ms: u64, random: fastrand::Rng, effects: Effects) -> Self {
        Self {
            turn: Turn::new(now_ms, store.instance().settings.eviction.usage(), false),
            store,
            random,
            stats: KeyspaceStats::default(),
            effects,
            notices: Notices::default(),
            ready: ReadyKeys::default(),
            served: ServedWaiters::default(),
            timing: Timing::begin(),
            saw_expired: false,
        }
    }

    /// A keyspace in which the effects of a log are replayed. Its time is always 0, so that no key expires: everything
    /// that depended on time is in the effects. Nothing is random either: the same log leads to the same state on any
    /// day.
    pub fn of_replay(store: S) -> Self {
        let turn = Turn::new(0, store.instance().settings.eviction.usage(), true);
        Self { turn, ..Self::new(store, 0, fastrand::Rng::with_seed(0), Effects::new(false)) }
    }

    /// Sets the time, also that by which keys are due.
    pub fn set_now(&mut self, now_ms: u64) {
        let usage = self.settings().eviction.usage();
        self.turn.set_now(now_ms, usage);
    }

    /// The longest string that a command may make, in bytes.
    pub fn string_len_max(&self) -> usize {
        /// How far after the byte that it begins in a field of BITFIELD may end.
        const FIELD: usize = size_of::<u64>();
        if self.turn.was_accepted_before() { LEN_MAX - FIELD } else { self.settings().string_len_max.get() }
    }

    /// The longest HyperLogLog in the sparse encoding, in bytes. There is no limit during replay: if one became dense
    /// because of its length, that is an effect of its own.
    pub fn sparse_len_max(&self) -> usize {
        if self.turn.is_replaying() { usize::MAX } else { self.settings().hll_sparse_len_max.get() }
    }

    /// Selects the database that commands run in.
    #[inline]
    pub fn select(&mut self, database: usize) {
        self.store.select(database);
        self.effects.select(database);
    }

    /// Runs `act` in another database.
    pub fn within<R>(&mut self, database: usize, act: impl FnOnce(&mut Self) -> R) -> R {
        let selected = self.store.selected();
        self.select(database);
        let result = act(self);
        self.select(selected);
        result
    }

    /// Runs `act` in each database that may hold keys, or key waiters.
    pub fn within_each(&mut self, mut act: impl FnMut(&mut Self)) {
        (0..self.store.in_use()).for_each(|database| self.within(database, &mut act));
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

    /// Reports an event of a key to its subscribers. A command calls this once for each event, in Redis's order, where
    /// it makes the change. O(1) without subscribers; else O(length of the key).
    #[inline]
    pub fn notify(&mut self, class: Class, event: &'static str, key: &[u8]) {
        if self.notices.wants(class) {
            self.notices.push(self.store.selected(), event, key);
        }
    }

    /// Whether a read-only command met a key that should be removed, or a value that should change its encoding.
    pub fn saw_expired(&self) -> bool {
        self.saw_expired
    }
}
