//! The keyspace: keys, values, expiry, and what a command changed.
//!
//! Synchronous, and knows no engine: an engine supplies a [`Store`] as wide as the command needs, exclusive to it for
//! as long as the command runs.

mod databases;
mod deadlines;
mod due_keys;
mod effects;
mod encoding_limits;
mod eviction;
mod hashing;
mod imaging;
mod instance;
mod joint;
mod listeners;
mod notices;
mod raw;
mod segmented;
mod settings;
mod store;
mod stream_place;
mod usage;
pub mod values;
mod waiter;
mod walk;

pub use databases::Databases;
pub use deadlines::Deadlines;
pub use due_keys::{DueKeys, DueKeysRule};
pub use effects::{EFFECT_LEN_MAX, Effects};
pub use encoding_limits::{EncodingLimits, Limit, ListLimits, PairLimits, SetLimits};
pub use eviction::{Evictable, draw as draw_evictable};
pub use hashing::{ProcessHash, hash_of};
pub use imaging::{Encode, ImageSink, Imaging, STEP as IMAGE_STEP, Spot as ImageSpot};
pub use instance::Instance;
pub use joint::Joint;
pub use listeners::{End, InLine, Listeners, Reader, Watch, Wish};
pub use notices::{Class, Notice, Notices};
pub use raw::node::{NewValue, Node, Value};
pub use segmented::Segmented;
pub use settings::Settings;
pub use store::{Store, Table};
pub use stream_place::StreamPlace;
pub use usage::{Eviction, Policy, Usage};
pub use values::element_table::{ElementTable, Field, Keyed, Member};
pub use values::hash::FieldSpot;
pub use values::intset::Intset;
pub use values::list::{Elements, ListNode, Position, Quicklist};
pub use values::listpack::{Entry, Listpack};
pub use values::object::{Bytes, Collection, Hash, Kind, List, Object, Set};
pub use values::set::Spot;
pub use values::sorted_set::{Cut, SortedSet};
pub use values::stream::Stream;
pub use waiter::{BECAME_REPLICA, Lines, LogMark, Served, Wait, Waiter};
pub use walk::{Homes, POSITION_BITS, walk};

use crate::base::limits::LEN_MAX;
use crate::base::ticks;
use crate::resp::CommandError;
use crate::stats::slow_log::Slow;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use tokio_util::sync::CancellationToken;

/// Counts of what commands found and what expired.
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
/// Invariants: time stands still between [`set_now`](Self::set_now) calls; a key whose deadline has come is never shown;
/// whatever changes is counted in `dirty` and, where a log is kept, told in `effects`.
#[derive(Debug)]
pub struct Keyspace<S> {
    store: S,
    now_ms: u64,
    /// The second of that.
    second: u64,
    /// What uses of keys are noted as, by then.
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
    /// Changed keys that somebody waits for, with their databases, in the order in which they changed.
    ready: VecDeque<(usize, Box<[u8]>)>,
    /// Who was served by the running command, and what.
    served: Vec<(Arc<Waiter>, Vec<u8>, Option<CancellationToken>)>,
    /// What those who are served now have to wait for.
    served_behind: Option<CancellationToken>,
    /// What was said about keys.
    notices: Notices,
    /// When the running command began.
    began_at: u64,
    /// Commands that took long.
    slow: Vec<Slow>,
}

/// What a connection brings to commands that need more of it than their arguments.
#[derive(Debug, Default, Clone)]
pub struct Caller {
    /// What breaks when a key that it watches changes.
    pub watch: Option<Arc<Watch>>,
    /// What waits where a command finds nothing to take; without it nothing waits.
    pub waiter: Option<Arc<Waiter>>,
    /// Whether its commands are those of EXEC.
    pub is_in_exec: bool,
    /// Whether its commands are called by a script.
    pub is_in_script: bool,
    /// Whether its command has all keys before it, and is to save what it leaves of them: FLUSHALL.
    pub saves: bool,
    /// Whether it is the master, whose commands have run there: to them keys whose time has come are like others, and the
    /// limits of clients do not count.
    pub is_master: bool,
}

impl<S: Store> Keyspace<S> {
    /// A keyspace over `store`; `effects` says whether a log is kept.
    pub fn new(store: S, now_ms: u64, random: fastrand::Rng, effects: Effects) -> Self {
        Self {
            usage: store.instance().settings.eviction.usage(),
            store,
            now_ms,
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
            served: Vec::new(),
            served_behind: None,
            notices: Notices::default(),
            began_at: ticks::now(),
            slow: Vec::new(),
        }
    }

    /// A keyspace in which the effects of a log are replayed. Its time stands at 0, so that nothing in it expires: what
    /// depended on time is in the effects. And nothing is left to chance: the same log makes the same state on any day.
    pub fn of_replay(store: S) -> Self {
        let keyspace = Self::new(store, 0, fastrand::Rng::with_seed(0), Effects::new(false));
        Self { is_replaying: true, ..keyspace }
    }

    /// Takes the time for the command that runs next, if it runs later than the one before it ended.
    #[inline]
    pub fn start_timing(&mut self) {
        self.began_at = ticks::now();
    }

    /// When the running command began.
    pub fn began_at(&self) -> u64 {
        self.began_at
    }

    /// Goes on with a command that began then, and has run others.
    pub fn start_timing_at(&mut self, began_at: u64) {
        self.began_at = began_at;
    }

    /// The ticks since the running command began, which ends now; the next begins.
    #[inline]
    pub fn end_timing(&mut self) -> u64 {
        let now = ticks::now();
        now.saturating_sub(std::mem::replace(&mut self.began_at, now))
    }

    /// When the last command ended, in ticks, or the timing of the next was started.
    #[inline]
    pub fn timed_until(&self) -> u64 {
        self.began_at
    }

    /// Notes that the running command took long.
    #[cold]
    pub fn note_slow(&mut self, slow: Slow) {
        self.slow.push(slow);
    }

    /// The commands that took long, to hand over.
    #[inline]
    pub fn slow(&mut self) -> &mut Vec<Slow> {
        &mut self.slow
    }

    /// Unix time in milliseconds, as it stands for the commands of this turn.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Whether the effects of a log are replayed.
    pub fn is_replaying(&self) -> bool {
        self.is_replaying
    }

    /// The longest string that a command may make, in bytes. While the effects of a log are replayed, and for the master,
    /// the limits of clients do not count: what was accepted once, whatever they were then, is not refused.
    pub fn string_len_max(&self) -> usize {
        /// A field of BITFIELD may end so far behind the byte that it begins in.
        const FIELD: usize = size_of::<u64>();
        if self.is_replaying() || self.caller.is_master {
            LEN_MAX - FIELD
        } else {
            self.settings().string_len_max.get()
        }
    }

    /// The longest HyperLogLog in the sparse encoding, in bytes. While the effects of a log are replayed there is none:
    /// where one became dense for its length, that is an effect.
    pub fn sparse_len_max(&self) -> usize {
        if self.is_replaying() { usize::MAX } else { self.settings().hll_sparse_len_max.get() }
    }

    /// Moves time on.
    pub fn set_now(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        self.second = now_ms / 1000;
        self.usage = self.settings().eviction.usage();
    }

    /// What was found, what expired and what changed, so far.
    pub fn stats(&self) -> KeyspaceStats {
        KeyspaceStats { changes: self.stats.changes + self.dirty, ..self.stats }
    }

    /// Forgets the counts: CONFIG RESETSTAT.
    pub fn reset_stats(&mut self) {
        self.stats = KeyspaceStats::default();
    }

    /// Makes a database the one that commands run in.
    #[inline]
    pub fn select(&mut self, database: usize) {
        self.store.select(database);
        self.effects.select(database);
    }

    /// Chooses whether commands count as uses of their keys. Those of a connection with CLIENT NO-TOUCH do not.
    #[inline]
    pub fn set_notes_uses(&mut self, notes_uses: bool) {
        self.notes_uses = notes_uses;
    }

    /// Chooses what becomes of keys whose time has come. The engine does before commands run.
    #[inline]
    pub fn set_due_keys(&mut self, due_keys: DueKeys) {
        self.due_keys = due_keys;
    }

    /// Whether keys whose time has come are the master's to remove.
    pub fn keeps_due_keys(&self) -> bool {
        self.due_keys != DueKeys::Removed
    }

    /// Whether the master alone takes anything away: whoever waits for something to take waits in vain.
    pub fn serves_no_takers(&self) -> bool {
        self.due_keys == DueKeys::Kept
    }

    /// How many databases there are.
    pub fn databases(&self) -> usize {
        self.store.databases()
    }

    /// The database that commands run in.
    pub fn database(&self) -> usize {
        self.store.selected()
    }

    /// Does something in another database.
    pub fn within<R>(&mut self, database: usize, act: impl FnOnce(&mut Self) -> R) -> R {
        let selected = self.database();
        self.select(database);
        let result = act(self);
        self.select(selected);
        result
    }

    /// What the keyspaces of the same server have in common.
    #[inline]
    pub fn instance(&self) -> &Arc<Instance> {
        self.store.instance()
    }

    /// What CONFIG SET changes of the server.
    #[inline]
    pub fn settings(&self) -> &Settings {
        &self.store.instance().settings
    }

    /// How large small collections of a type may become now.
    #[inline]
    pub fn limits<C: Collection>(&self) -> C::Limits {
        C::limits(self.settings())
    }

    /// What uses of keys are noted as.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Where the nodes live.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Gives the parts back: the store, the random numbers, and the effects.
    pub fn into_parts(self) -> (S, fastrand::Rng, Effects) {
        (self.store, self.random, self.effects)
    }

    /// Random numbers: seeded by the engine, so that tests can choose them.
    pub fn random(&mut self) -> &mut fastrand::Rng {
        &mut self.random
    }

    /// What the running command adds to the log.
    pub fn effects(&mut self) -> &mut Effects {
        &mut self.effects
    }

    /// Notes that the running command has made `changes` to a key. Every command tells this, once for each key that is
    /// not as it was before, after the change; here is where those learn of it who wait for keys or watch them.
    pub fn note_change(&mut self, key: &[u8], changes: usize) {
        self.dirty += changes as u64;
        if changes > 0 && self.store.has_listeners() {
            self.tell_listeners(key);
        }
    }

    /// Notes that the running command has left a key as it was, though it breaks watches on it; or has changed it, and
    /// counts the change elsewhere.
    pub fn note_touched(&mut self, key: &[u8]) {
        if self.store.has_listeners() {
            self.tell_listeners(key);
        }
    }

    /// Notes changes that break no watch and that nobody waits for: those of the groups of a stream, as in Redis.
    pub fn note_unwatched_change(&mut self, changes: usize) {
        self.dirty += changes as u64;
    }

    /// Lets those look again who wait for a key, though no watch on it breaks.
    pub fn wake_line(&mut self, key: &[u8]) {
        if self.store.has_listeners()
            && self.store.with_listeners(hash_of(key), key, |listeners| listeners.is_awaited(key))
        {
            self.note_ready(key);
        }
    }

    #[cold]
    fn tell_listeners(&mut self, key: &[u8]) {
        let has_line = self.store.with_listeners(hash_of(key), key, |listeners| listeners.note_change(key));
        if has_line {
            self.note_ready(key);
        }
    }

    /// Says that something happened to a key, for those who subscribed to such events. A command says it once for each
    /// event, in Redis's order, where its change is made. O(1) while nobody wants to know; else O(length of the key).
    #[inline]
    pub fn notify(&mut self, class: Class, event: &'static str, key: &[u8]) {
        if self.notices.wants(class) {
            self.notices.push(self.store.selected(), event, key);
        }
    }

    /// Sends a message to a channel, in its place among the events; gives where it will be told how many got it.
    /// O(length)
    pub fn publish(&mut self, channel: &[u8], is_shard: bool, message: &[u8]) -> Arc<AtomicUsize> {
        self.notices.push_message(channel, is_shard, message)
    }

    /// Chooses which events are kept for [`notices`](Self::notices). The engine does before commands run.
    #[inline]
    pub fn set_notified(&mut self, classes: Class) {
        self.notices.set_wanted(classes);
    }

    /// Whether something was said about keys.
    #[inline]
    pub fn has_notices(&self) -> bool {
        !self.notices.is_empty()
    }

    /// What was said about keys, to hand over.
    pub fn notices(&mut self) -> &mut Notices {
        &mut self.notices
    }

    /// Makes `caller` the one whose commands run.
    pub fn set_caller(&mut self, caller: Caller) {
        self.caller = caller;
    }

    /// Whether the command is one of EXEC.
    pub fn is_caller_in_exec(&self) -> bool {
        self.caller.is_in_exec
    }

    /// Notes that a script calls the commands that run, or no longer does.
    pub fn set_in_script(&mut self, is_in_script: bool) {
        self.caller.is_in_script = is_in_script;
    }

    /// Whether a script calls the commands that run.
    pub fn is_in_script(&self) -> bool {
        self.caller.is_in_script
    }

    /// Whether the running command is to save what it leaves of all keys.
    pub fn is_to_save(&self) -> bool {
        self.caller.saves
    }

    /// Watches a key for the caller.
    pub fn watch(&mut self, key: &[u8]) {
        // A key whose time has come goes first: its going is no change that the watch should see.
        self.contains(key);
        if let Some(watch) = &self.caller.watch {
            self.store.with_listeners(hash_of(key), key, |listeners| listeners.watch(key, watch));
        }
    }

    /// Puts the caller in the lines of keys that hold nothing to take; false when it does not wait.
    pub fn wait_in_line<'k, K>(&mut self, keys: K, wish: &Wish) -> bool
    where
        K: IntoIterator<Item = &'k [u8], IntoIter: Clone>,
    {
        let Some(waiter) = &self.caller.waiter else { return false };
        let keys = keys.into_iter();
        waiter.note_in_line(|| Lines {
            database: self.store.selected(),
            keys: keys.clone().map(Box::from).collect(),
            ends_without_key: false,
        });
        for key in keys {
            self.store.with_listeners(hash_of(key), key, |listeners| listeners.wait(key, waiter, wish));
        }
        true
    }

    /// Makes the caller a reader of streams that have nothing for it; false when it does not wait.
    pub fn read_in_line(&mut self, reading: &Arc<values::stream::Reading>) -> bool {
        let Some(waiter) = &self.caller.waiter else { return false };
        waiter.note_in_line(|| Lines {
            database: self.store.selected(),
            keys: reading.streams.iter().map(|(key, _)| key.clone()).collect(),
            ends_without_key: reading.group.is_some(),
        });
        for (key, _) in &reading.streams {
            self.store.with_listeners(hash_of(key), key, |listeners| listeners.read(key, waiter, reading));
        }
        true
    }

    /// The readers that wait for a key, in order of arrival.
    pub fn readers_of(&mut self, key: &[u8]) -> Vec<Reader> {
        self.store.with_listeners(hash_of(key), key, |listeners| listeners.readers(key))
    }

    /// The changed keys that somebody waits for, with their databases, each once, in the order in which they changed
    /// first.
    pub fn ready_keys(&self) -> Vec<(usize, Box<[u8]>)> {
        let mut seen = HashSet::new();
        self.ready.iter().filter(|ready| seen.insert(*ready)).cloned().collect()
    }

    /// Takes the right to serve the caller, if it is one that may wait; false when its wait is over.
    pub fn claim_caller(&self) -> bool {
        self.caller.waiter.as_ref().is_none_or(|waiter| waiter.claim())
    }

    /// Whether the caller has found nothing to take, and its command is run again.
    pub fn is_caller_in_line(&self) -> bool {
        self.caller.waiter.as_ref().is_some_and(|waiter| waiter.is_in_line())
    }

    /// Notes that a key has something for those who wait for it.
    pub fn note_ready(&mut self, key: &[u8]) {
        self.ready.push_back((self.database(), key.into()));
    }

    /// A changed key that has something for somebody who waits for it, with the first in its line; its database is
    /// selected.
    pub fn next_ready(&mut self) -> Option<(Box<[u8]>, InLine)> {
        while let Some((database, key)) = self.ready.pop_front() {
            self.store.select(database);
            self.effects.select(database);
            if let Some(first) = self.first_in_line(&key) {
                self.ready.push_front((database, key.clone()));
                return Some((key, first));
            }
        }
        None
    }

    fn first_in_line(&mut self, key: &[u8]) -> Option<InLine> {
        let hash = hash_of(key);
        let place = self.locate_live(hash, key)?;
        // The object stays where it is while its listeners are asked.
        let kind = match self.store.at(place, hash, key).value() {
            Value::Object(object) => object.kind(),
            Value::Integer(_) | Value::Text(_) => return None,
        };
        self.store.with_listeners(hash, key, |listeners| listeners.first_in_line(key, kind))
    }

    /// The key that was ready has nothing more to take, or not for who is first in its line.
    pub fn pass_over_ready(&mut self, key: &[u8]) {
        let database = self.database();
        self.ready.retain(|(number, ready)| (*number, &**ready) != (database, key));
    }

    /// Whether a changed key may have something for those who wait.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Notes the reply of a waiter that was claimed: it leaves when the log allows it.
    pub fn note_served(&mut self, waiter: Arc<Waiter>, reply: Vec<u8>) {
        self.served.push((waiter, reply, self.served_behind.clone()));
    }

    /// Lets those who are served from now on wait for an end as well, or no more.
    pub fn serve_behind(&mut self, end: Option<CancellationToken>) {
        self.served_behind = end;
    }

    /// Gives the replies of those who were served, once what they show is in the log at `marks`.
    pub fn deliver(&mut self, marks: &[LogMark]) {
        for (waiter, reply, behind) in self.served.drain(..) {
            waiter.serve(Served { reply, marks: marks.to_vec(), behind });
        }
    }

    /// Whether [`deliver`](Self::deliver) has something to give.
    pub fn has_served(&self) -> bool {
        !self.served.is_empty()
    }

    /// Whether a key belongs to the store, or to another.
    pub fn covers(&self, key: &[u8]) -> bool {
        self.store.covers(key)
    }

    /// Where the nodes live, to lend it.
    pub fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }

    /// Adds counts of what was found elsewhere.
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

    /// Whether a command that may not write met a key that should be removed, or a value to be kept in another way.
    pub fn saw_expired(&self) -> bool {
        self.saw_expired
    }

    /// The value of a key, for a command that reads: counted as a hit or a miss.
    pub fn read(&mut self, key: &[u8]) -> Option<Value<'_>> {
        self.read_node(key).map(Node::value)
    }

    /// The node of a key, for a command that reads: counted as a hit or a miss, and as its last use.
    pub fn read_node(&mut self, key: &[u8]) -> Option<&Node> {
        let hash = hash_of(key);
        let place = self.locate_noticed(hash, key)?;
        let node = self.store.at(place, hash, key);
        if self.notes_uses {
            node.touch(self.usage, self.second, &mut self.random);
        }
        Some(node)
    }

    /// The second of Unix time in which commands of this turn run.
    pub fn second(&self) -> u64 {
        self.second
    }

    /// The node of a key, for a command that looks at what is about the value: counted as a hit or a miss, not as a use.
    pub fn inspect(&mut self, key: &[u8]) -> Option<&Node> {
        let hash = hash_of(key);
        let place = self.locate_noticed(hash, key)?;
        Some(self.store.at(place, hash, key))
    }

    /// Where a key lives, counted as a hit or a miss, of which those are told who want to know.
    fn locate_noticed(&mut self, hash: u64, key: &[u8]) -> Option<S::Place> {
        let place = self.locate_counted(hash, key);
        if place.is_none() {
            self.notify(Class::KEY_MISS, "keymiss", key);
        }
        place
    }

    /// As [`inspect`](Self::inspect), but nobody is told that there is no such key.
    pub fn inspect_unnoticed(&mut self, key: &[u8]) -> Option<&Node> {
        let hash = hash_of(key);
        let place = self.locate_counted(hash, key)?;
        Some(self.store.at(place, hash, key))
    }

    /// Where a key lives, counted as a hit or a miss.
    fn locate_counted(&mut self, hash: u64, key: &[u8]) -> Option<S::Place> {
        let place = self.locate_shown(hash, key);
        match place {
            Some(_) => self.stats.hits += 1,
            None => self.stats.misses += 1,
        }
        place
    }

    /// The node of a key, uncounted.
    pub fn peek(&mut self, key: &[u8]) -> Option<&Node> {
        let hash = hash_of(key);
        let place = self.locate_live(hash, key)?;
        Some(self.store.at(place, hash, key))
    }

    /// The node of a key as it is stored, uncounted, though the key may have expired.
    pub fn stored(&self, key: &[u8]) -> Option<&Node> {
        let hash = hash_of(key);
        Some(self.store.at(self.store.locate(hash, key)?, hash, key))
    }

    /// Whether a key exists, uncounted.
    pub fn contains(&mut self, key: &[u8]) -> bool {
        self.locate_live(hash_of(key), key).is_some()
    }

    /// The node of a key, to change its value in place. Its deadline is changed by [`set_expire_at`](Self::set_expire_at).
    pub fn node_mut(&mut self, key: &[u8]) -> Option<&mut Node> {
        let hash = hash_of(key);
        let place = self.locate_live(hash, key)?;
        let node = self.store.at_mut(place, hash, key);
        if self.notes_uses {
            node.touch(self.usage, self.second, &mut self.random);
        }
        Some(node)
    }

    /// The collection of a key, for a command that reads: counted as a hit or a miss.
    pub fn read_collection<C: Collection>(&mut self, key: &[u8]) -> Result<Option<&C>, CommandError> {
        match self.read(key) {
            None => Ok(None),
            Some(Value::Object(object)) => C::of(object).map(Some).ok_or(CommandError::WrongType),
            Some(Value::Integer(_) | Value::Text(_)) => Err(CommandError::WrongType),
        }
    }

    /// The collections of several keys together, for a command that reads: each is counted as a hit or a miss.
    pub fn read_collections<'k, C: Collection>(
        &mut self,
        keys: impl Iterator<Item = &'k [u8]> + Clone,
    ) -> Result<Vec<Option<&C>>, CommandError> {
        // First those that have expired go, which changes the store; then it is only looked at.
        for key in keys.clone() {
            self.read_collection::<C>(key)?;
        }
        Ok(keys.map(|key| self.collection(key)).collect())
    }

    /// The collections of several keys together, of whatever types, for a command that reads: each is counted as a hit
    /// or a miss.
    pub fn read_objects<'k>(
        &mut self,
        keys: impl Iterator<Item = &'k [u8]> + Clone,
    ) -> Result<Vec<Option<&Object>>, CommandError> {
        // As above.
        for key in keys.clone() {
            if matches!(self.read(key), Some(Value::Integer(_) | Value::Text(_))) {
                return Err(CommandError::WrongType);
            }
        }
        Ok(keys.map(|key| self.object(key)).collect())
    }

    fn object(&self, key: &[u8]) -> Option<&Object> {
        let node = self.stored(key)?;
        match node.value() {
            Value::Object(object) if !self.hides(node) => Some(object),
            _ => None,
        }
    }

    fn collection<C: Collection>(&self, key: &[u8]) -> Option<&C> {
        match self.look(key)? {
            Value::Object(object) => C::of(object),
            Value::Integer(_) | Value::Text(_) => None,
        }
    }

    /// The values of several keys together, for a command that reads: each is counted as a hit or a miss.
    pub fn read_all<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]> + Clone) -> Vec<Option<Value<'_>>> {
        // First those that have expired go, which changes the store; then it is only looked at.
        keys.clone().for_each(|key| _ = self.read(key));
        keys.map(|key| self.look(key)).collect()
    }

    /// The value of a key, uncounted, beside other values that are looked at. A key that has expired is passed over.
    pub fn look(&self, key: &[u8]) -> Option<Value<'_>> {
        let node = self.stored(key)?;
        (!self.hides(node)).then(|| node.value())
    }

    /// The collection of a key, uncounted, for a command that reads.
    pub fn peek_collection<C: Collection>(&mut self, key: &[u8]) -> Result<Option<&C>, CommandError> {
        match self.peek(key).map(Node::value) {
            None => Ok(None),
            Some(Value::Object(object)) => C::of(object).map(Some).ok_or(CommandError::WrongType),
            Some(Value::Integer(_) | Value::Text(_)) => Err(CommandError::WrongType),
        }
    }

    /// The collection of a key, for a command that writes.
    pub fn collection_mut<C: Collection>(&mut self, key: &[u8]) -> Result<Option<&mut C>, CommandError> {
        match self.node_mut(key) {
            None => Ok(None),
            Some(node) => node.object_mut().and_then(C::of_mut).map(Some).ok_or(CommandError::WrongType),
        }
    }

    /// Makes a sorted set that is small large: Redis's SORT does that to those that it reads. Where nothing may be
    /// changed it is noted, and the command runs once more where it may. O(N log N) where it is small
    pub fn enlarge_sorted_set(&mut self, key: &[u8]) {
        let hash = hash_of(key);
        let Some(place) = self.locate_shown(hash, key) else { return };
        let is_small = match self.store.at(place, hash, key).value() {
            Value::Object(Object::SortedSet(set)) => set.is_small(),
            _ => false,
        };
        match is_small {
            true if self.store.is_writable() => {
                if let Some(Object::SortedSet(set)) = self.store.at_mut(place, hash, key).object_mut() {
                    set.make_large();
                }
            }
            true => self.saw_expired = true,
            false => {}
        }
    }

    /// The node of a key, made with a first value where there is none.
    pub fn node_or_new<'v>(&mut self, key: &[u8], first: impl FnOnce() -> NewValue<'v>) -> &mut Node {
        let hash = hash_of(key);
        match self.locate_live(hash, key) {
            Some(place) => {
                let node = self.store.at_mut(place, hash, key);
                if self.notes_uses {
                    node.touch(self.usage, self.second, &mut self.random);
                }
                node
            }
            None => {
                self.notify(Class::NEW, "new", key);
                let node = self.store.insert(hash, Node::new(key, first(), None));
                node.begin_use(self.usage, self.second);
                node
            }
        }
    }

    /// The collection of a key, made empty where there is none. The caller puts something in.
    pub fn collection_or_new<C: Collection>(&mut self, key: &[u8]) -> Result<&mut C, CommandError> {
        let node = self.node_or_new(key, || NewValue::Object(C::default().into_object()));
        node.object_mut().and_then(C::of_mut).ok_or(CommandError::WrongType)
    }

    /// Sets a key to a value, whatever it was, expiring at `expire_at` if at all.
    pub fn set(&mut self, key: &[u8], value: NewValue<'_>, expire_at: Option<u64>) {
        let hash = hash_of(key);
        let Some(place) = self.locate_live(hash, key) else {
            self.store.insert(hash, Node::new(key, value, expire_at)).begin_use(self.usage, self.second);
            self.change_deadline(hash, key, None, expire_at);
            self.notify(Class::NEW, "new", key);
            return;
        };
        let node = self.store.at_mut(place, hash, key);
        let old = node.expire_at();
        node.set(value, expire_at);
        node.touch(self.usage, self.second, &mut self.random);
        self.change_deadline(hash, key, old, expire_at);
    }

    /// Changes when a key expires; false when there is no such key.
    pub fn set_expire_at(&mut self, key: &[u8], expire_at: Option<u64>) -> bool {
        let hash = hash_of(key);
        let Some(place) = self.locate_live(hash, key) else { return false };
        let node = self.store.at_mut(place, hash, key);
        let old = node.expire_at();
        node.set_expire_at(expire_at);
        if self.notes_uses {
            node.touch(self.usage, self.second, &mut self.random);
        }
        self.change_deadline(hash, key, old, expire_at);
        true
    }

    /// Removes a key; false when there is no such key.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        let hash = hash_of(key);
        self.locate_live(hash, key).is_some() && self.take(hash, key).is_some()
    }

    /// Removes the key of a collection that has become empty, and says so.
    pub fn remove_emptied(&mut self, key: &[u8]) {
        self.remove(key);
        self.notify(Class::GENERIC, "del", key);
    }

    /// Moves a key to another database, which has no such key; false when there is none.
    pub fn move_to(&mut self, key: &[u8], database: usize) -> bool {
        let hash = hash_of(key);
        if self.locate_live(hash, key).is_none() {
            return false;
        }
        let Some(node) = self.take(hash, key) else { return false };
        node.touch(self.usage, self.second, &mut self.random);
        self.within(database, |keyspace| keyspace.replace(node));
        true
    }

    /// Moves what a key holds to another, in place of what that held, with its deadline; false when there is no such
    /// key.
    pub fn rename(&mut self, from: &[u8], to: &[u8]) -> bool {
        if !self.contains(from) {
            return false;
        }
        let Some(node) = self.take(hash_of(from), from) else { return false };
        node.touch(self.usage, self.second, &mut self.random);
        self.replace(node.renamed(to));
        true
    }

    /// Copies what a key holds to another, perhaps of another database, in place of what that held, with its deadline;
    /// false when there is no such key.
    pub fn copy(&mut self, from: &[u8], database: usize, to: &[u8]) -> bool {
        let Some(node) = self.peek(from).map(|node| node.copied(to)) else { return false };
        node.begin_use(self.usage, self.second);
        self.within(database, |keyspace| keyspace.replace(node));
        true
    }

    /// Takes in a node in place of another of its key.
    fn replace(&mut self, node: Node) {
        let hash = hash_of(node.key());
        self.remove(node.key());
        self.change_deadline(hash, node.key(), None, node.expire_at());
        self.notify(Class::NEW, "new", node.key());
        self.store.insert(hash, node);
    }

    /// How many keys there are, those included whose time has come but who have not been removed.
    pub fn len(&self) -> usize {
        self.store.len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all keys of the database; each counts as a change.
    pub fn clear(&mut self) {
        self.dirty += self.store.len() as u64;
        for key in self.listened_keys() {
            if self.contains(&key) {
                self.tell_listeners(&key);
            }
        }
        self.store.clear();
    }

    /// Removes all keys of all databases; each counts as a change.
    pub fn clear_all(&mut self) {
        for database in 0..self.store.in_use() {
            self.within(database, Self::clear);
        }
    }

    /// Puts nodes, with their databases, in place of all that there are. What they hold is the same: nobody is told, and
    /// nothing is logged. O(N)
    pub fn replace_all(&mut self, nodes: impl Iterator<Item = (usize, Node)>) {
        for database in 0..self.store.in_use() {
            self.within(database, |keyspace| keyspace.store.clear());
        }
        let (usage, second) = (self.usage, self.second);
        for (database, node) in nodes {
            self.within(database, |keyspace| {
                let hash = hash_of(node.key());
                node.begin_use(usage, second);
                keyspace.change_deadline(hash, node.key(), None, node.expire_at());
                keyspace.store.insert(hash, node);
            });
        }
    }

    /// Puts nodes, with their databases, in place of all that there are, which were others: those who listen to a key learn
    /// of it where it was there before, or is now. Nothing is logged. O(N)
    pub fn replace_by_others(&mut self, nodes: impl Iterator<Item = (usize, Node)>) {
        self.tell_all_listeners();
        self.replace_all(nodes);
        self.tell_all_listeners();
    }

    /// Tells those who listen to keys that are there.
    fn tell_all_listeners(&mut self) {
        for database in 0..self.store.in_use() {
            self.within(database, |keyspace| {
                for key in keyspace.listened_keys() {
                    if keyspace.contains(&key) {
                        keyspace.tell_listeners(&key);
                    }
                }
            });
        }
    }

    /// Exchanges two databases. Those who listen to a key learn of it where it is there before or after.
    pub fn swap_databases(&mut self, one: usize, other: usize) {
        self.dirty += 1;
        // A database changed for itself is the same: nothing happens to its keys, and nobody who watches them is told.
        if one == other {
            return;
        }
        // What has expired goes before, so that its going is seen where it was.
        for key in [one, other].map(|database| self.within(database, |keyspace| keyspace.listened_keys())).concat() {
            for database in [one, other] {
                self.within(database, |keyspace| keyspace.contains(&key));
            }
        }
        self.store.swap(one, other);
        for (database, swapped) in [(one, other), (other, one)] {
            for key in self.within(database, |keyspace| keyspace.listened_keys()) {
                let was_there = self.within(swapped, |keyspace| keyspace.contains(&key));
                self.within(database, |keyspace| {
                    if keyspace.contains(&key) || was_there {
                        keyspace.tell_listeners(&key);
                    }
                });
            }
        }
    }

    /// The keys of the store that somebody listens to.
    fn listened_keys(&self) -> Vec<Vec<u8>> {
        let mut keys = Vec::new();
        if self.store.has_listeners() {
            self.store.for_each_listened(&mut |key| keys.push(key.to_vec()));
        }
        keys.retain(|key| self.covers(key));
        keys
    }

    /// Visits every key that has not expired, in no order.
    pub fn for_each(&self, visit: &mut dyn FnMut(&Node)) {
        self.store.for_each(&mut |node| {
            if !self.hides(node) {
                visit(node);
            }
        });
    }

    /// Visits the next keys in the order of SCAN, about `count`, from the position `start` on, each with whether it has
    /// expired; gives where those after them start, if there may be any.
    pub fn walk(&self, shard: usize, start: u64, count: usize, visit: &mut dyn FnMut(&Node, bool)) -> Option<u64> {
        self.store.walk(shard, start, count, &mut |node| visit(node, self.hides(node)))
    }

    /// Removes a key that a command which reads has found expired.
    pub fn remove_expired(&mut self, key: &[u8]) {
        self.locate_shown(hash_of(key), key);
    }

    /// A key at random that has not expired, if one is found in a bounded number of draws.
    pub fn random_key(&mut self) -> Option<Vec<u8>> {
        const DRAWS_MAX: usize = 100;
        let Self { store, random, now_ms, .. } = self;
        (0..DRAWS_MAX)
            .map_while(|_| store.random(&mut |n| random.usize(..n)))
            .find(|node| !is_due(node, *now_ms))
            .map(|node| node.key().to_vec())
    }

    /// Removes the key of the deadline `(at, hash)` of a database, which has come; gives whether there was one.
    pub fn expire(&mut self, database: usize, (at, hash): (u64, u64)) -> bool {
        self.select(database);
        let Some(node) = self.store.remove_due((at, hash)) else { return false };
        self.note_expired(node.key());
        true
    }

    /// Where a key stands that has not expired. One that has is removed now, or noted where nothing may be changed.
    #[inline]
    fn locate_live(&mut self, hash: u64, key: &[u8]) -> Option<S::Place> {
        let place = self.store.locate(hash, key)?;
        if !self.hides(self.store.at(place, hash, key)) {
            return Some(place);
        }
        if self.due_keys != DueKeys::Kept {
            self.meet_expired(hash, key);
        }
        None
    }

    /// As above, for a command that reads: CLIENT PAUSE keeps one that has expired, and so does a replica.
    #[inline]
    fn locate_shown(&mut self, hash: u64, key: &[u8]) -> Option<S::Place> {
        let place = self.store.locate(hash, key)?;
        if !self.hides(self.store.at(place, hash, key)) {
            return Some(place);
        }
        if self.due_keys == DueKeys::Removed && !self.settings().is_frozen() {
            self.meet_expired(hash, key);
        }
        None
    }

    /// Whether a node is not shown, because its time has come.
    #[inline]
    fn hides(&self, node: &Node) -> bool {
        is_due(node, self.now_ms) && !self.caller.is_master
    }

    #[cold]
    fn meet_expired(&mut self, hash: u64, key: &[u8]) {
        if self.store.is_writable() {
            self.take(hash, key);
            self.note_expired(key);
        } else {
            self.saw_expired = true;
        }
    }

    fn note_expired(&mut self, key: &[u8]) {
        self.stats.expired += 1;
        if self.store.has_listeners() {
            self.tell_listeners(key);
        }
        self.notify(Class::EXPIRED, "expired", key);
        self.effects.add([b"DEL".as_slice(), key]);
    }

    fn take(&mut self, hash: u64, key: &[u8]) -> Option<Node> {
        let node = self.store.remove(hash, key)?;
        self.change_deadline(hash, key, node.expire_at(), None);
        Some(node)
    }

    fn change_deadline(&mut self, hash: u64, key: &[u8], old: Option<u64>, new: Option<u64>) {
        if old != new {
            self.store.with_deadlines(hash, key, |deadlines| deadlines.change(hash, old, new));
        }
    }
}

fn is_due(node: &Node, now_ms: u64) -> bool {
    node.expire_at().is_some_and(|at| at <= now_ms)
}
