//! CLIENT TRACKING: which connections have read which keys, and messages to them when the keys change, so that clients
//! may keep what they have read.
//!
//! ```text
//! keys      key → the trackers that have read it since it last changed    STRIPES tables by the hash of the key
//! prefixes  prefix → the trackers that learn of all changes of its keys   BCAST
//! trackers  number → the tracker, and where its messages go
//! ```
//!
//! It works on the notices of an engine that has the keys: reads and changes of a key come in their order. As in Redis
//! a key is the same key in all databases, and a tracker that has gone stays in the table until its keys change; there
//! its number finds nobody.

use super::Subscriber;
use super::message::{Message, array_of};
use super::subscriber::Limits;
use crate::base::narrowing::size;
use crate::base::planted::is_planted;
use crate::keyspace::{LogPosition, Notice, ProcessHash, Tracking, hash_of};
use indexmap::IndexMap;
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::Waker;

/// Tables of keys: connections that read different keys seldom contend.
const STRIPES: usize = 64;
/// Room for keys that an empty table keeps.
const KEPT: usize = 64;
/// With this many readers of a key, those that have gone are looked for before there is room for more.
const READERS_KEPT: usize = 16;
/// The most keys that are forgotten at once because there are too many.
const FORGOTTEN_AT_ONCE: usize = 10_000;

/// What a connection wants to learn of.
#[derive(Debug, Default)]
pub struct Wishes {
    /// The connection that gets the messages instead, by its number and its queue.
    pub redirection: Option<Redirection>,
    /// Not of its own changes: NOLOOP.
    pub spares_own: bool,
    /// Of all changes of keys with one of its prefixes, instead of those that it has read: BCAST.
    pub is_by_prefix: bool,
    /// The prefixes that are new.
    pub prefixes: Vec<Box<[u8]>>,
}

/// Where the messages go instead.
#[derive(Debug)]
pub struct Redirection {
    /// The number of the client.
    pub client: u64,
    /// Its queue.
    pub queue: Arc<Subscriber>,
}

/// A connection with CLIENT TRACKING.
#[derive(Debug)]
pub struct Tracker {
    number: u32,
    queue: Arc<Subscriber>,
    redirection: Option<Redirection>,
    spares_own: bool,
    /// Its prefixes, if it has BCAST.
    prefixes: Option<Vec<Box<[u8]>>>,
    /// Whether a message found that the other connection has gone.
    is_redirection_lost: AtomicBool,
}

impl Tracker {
    /// The number of the client that gets its messages; 0 if it gets them itself.
    pub fn redirects_to(&self) -> u64 {
        self.redirection.as_ref().map_or(0, |redirection| redirection.client)
    }

    /// Whether it is not told of its own changes.
    pub fn spares_own(&self) -> bool {
        self.spares_own
    }

    /// Whether it learns of changes by prefixes.
    pub fn is_by_prefix(&self) -> bool {
        self.prefixes.is_some()
    }

    /// Its prefixes.
    pub fn prefixes(&self) -> &[Box<[u8]>] {
        self.prefixes.as_deref().unwrap_or_default()
    }

    /// Whether a message found that the connection which gets them has gone.
    pub fn is_redirection_lost(&self) -> bool {
        self.is_redirection_lost.load(Ordering::Relaxed)
    }

    /// What its commands tell the keyspace.
    pub fn tracking(&self, remembers_reads: bool) -> Tracking {
        Tracking::new(self.number, remembers_reads && !self.is_by_prefix())
    }
}

/// The readers of each key, by number, sorted.
type Readers = IndexMap<Box<[u8]>, Vec<u32>, ProcessHash>;
type Trackers = BTreeMap<u32, Arc<Tracker>>;

/// How much is tracked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tracked {
    /// Connections with CLIENT TRACKING.
    pub clients: usize,
    /// Keys that were read.
    pub keys: usize,
    /// Readers of all keys together.
    pub items: usize,
    /// Prefixes.
    pub prefixes: usize,
}

/// The trackers, and what they track.
///
/// Invariants: no key is without readers, no prefix without trackers. Locks are taken in this order: `trackers`,
/// `prefixes`, that of a stripe of `keys`.
#[derive(Debug)]
pub struct TrackingTable {
    keys: Box<[Mutex<Readers>]>,
    key_count: AtomicUsize,
    item_count: AtomicUsize,
    /// `tracking-table-max-keys`
    keys_max: AtomicU64,
    trackers: RwLock<Trackers>,
    prefixes: RwLock<BTreeMap<Box<[u8]>, Vec<u32>>>,
    /// The number that was given last.
    last_number: Mutex<u32>,
    /// Where the next key is forgotten.
    next_forgotten: AtomicUsize,
}

impl Default for TrackingTable {
    fn default() -> Self {
        Self {
            keys: (0..STRIPES).map(|_| Mutex::default()).collect(),
            key_count: AtomicUsize::new(0),
            item_count: AtomicUsize::new(0),
            keys_max: AtomicU64::new(0),
            trackers: RwLock::default(),
            prefixes: RwLock::default(),
            last_number: Mutex::new(0),
            next_forgotten: AtomicUsize::new(0),
        }
    }
}

/// Messages on their way to queues: their connections are woken at the end.
struct Delivery<'a> {
    log_positions: &'a [LogPosition],
    limits: Limits,
    woken: Vec<Waker>,
}

impl Delivery<'_> {
    fn send(&mut self, tracker: &Tracker, message: &Message) {
        let waker = match &tracker.redirection {
            None => tracker.queue.push(message, self.log_positions, self.limits),
            Some(Redirection { client, queue }) if queue.has_left() => {
                tracker.is_redirection_lost.store(true, Ordering::Relaxed);
                tracker.queue.push(&Message::RedirectionLost(*client), self.log_positions, self.limits)
            }
            Some(Redirection { queue, .. }) => queue.push(&message.redirected(), self.log_positions, self.limits),
        };
        self.woken.extend(waker);
    }

    fn end(self) {
        self.woken.into_iter().for_each(Waker::wake);
    }
}

/// What commands have read and changed, taken in notice by notice.
pub(super) struct Intake<'a> {
    table: &'a TrackingTable,
    delivery: Delivery<'a>,
    has_prefixes: bool,
    /// The changed keys, with the connections that changed them last.
    changed: BTreeMap<&'a [u8], u32>,
    /// What a planted bug remembers too late.
    late: Vec<(&'a [u8], u32)>,
}

impl<'a> Intake<'a> {
    /// Takes in the next notice: remembers what was read, and tells those that have read what is changed.
    pub(super) fn take(&mut self, notice: Notice<'a>) {
        match notice {
            Notice::Read { reader, key } if is_planted("RememberedLate") => self.late.push((key, reader)),
            Notice::Read { reader, key } => self.table.remember(key, reader, &mut self.delivery),
            Notice::Changed { by, key } => {
                self.table.invalidate(key, by, &mut self.delivery);
                if self.has_prefixes {
                    self.changed.insert(key, by);
                }
            }
            Notice::Flushed => self.table.flush(&mut self.delivery),
            Notice::Event { .. } | Notice::Message { .. } => {}
        }
    }

    /// Tells those with prefixes of all changes, and wakes the connections.
    pub(super) fn end(mut self) {
        if !self.changed.is_empty() {
            self.table.broadcast(&self.changed, &mut self.delivery);
        }
        self.late.iter().for_each(|(key, reader)| self.table.remember(key, *reader, &mut self.delivery));
        self.delivery.end();
    }
}

impl TrackingTable {
    /// Begins to track for a connection, or changes what is tracked for it: `former` is what it was. Its prefixes stay,
    /// if it still wants some. `is_tracked` is what the keyspaces of the server look at.
    pub fn track(
        &self,
        former: Option<&Tracker>,
        queue: &Arc<Subscriber>,
        wishes: Wishes,
        is_tracked: &AtomicBool,
    ) -> Arc<Tracker> {
        let Wishes { redirection, spares_own, is_by_prefix, prefixes: added } = wishes;
        let mut trackers = self.trackers.write();
        let number = former.map_or_else(|| self.free_number(&trackers), |former| former.number);
        let mut prefixes = former.map(|former| former.prefixes().to_vec()).unwrap_or_default();
        let mut all = self.prefixes.write();
        for prefix in added {
            if !prefixes.contains(&prefix) {
                all.entry(prefix.clone()).or_default().push(number);
                prefixes.push(prefix);
            }
        }
        drop(all);
        let tracker = Arc::new(Tracker {
            number,
            queue: Arc::clone(queue),
            redirection,
            spares_own,
            prefixes: is_by_prefix.then_some(prefixes),
            is_redirection_lost: AtomicBool::new(false),
        });
        trackers.insert(number, Arc::clone(&tracker));
        is_tracked.store(true, Ordering::Relaxed);
        tracker
    }

    /// Stops tracking for a connection.
    pub fn untrack(&self, tracker: &Tracker, is_tracked: &AtomicBool) {
        let mut trackers = self.trackers.write();
        trackers.remove(&tracker.number);
        let mut prefixes = self.prefixes.write();
        for prefix in tracker.prefixes() {
            let Some(numbers) = prefixes.get_mut(prefix) else { continue };
            numbers.retain(|&number| number != tracker.number);
            if numbers.is_empty() {
                prefixes.remove(prefix);
            }
        }
        if trackers.is_empty() {
            is_tracked.store(false, Ordering::Relaxed);
            // Before another connection may track.
            self.forget_all();
        }
    }

    fn free_number(&self, trackers: &Trackers) -> u32 {
        let mut last = self.last_number.lock();
        loop {
            *last = if *last >= Tracking::NUMBER_MAX { 1 } else { *last + 1 };
            if !trackers.contains_key(&last) {
                return *last;
            }
        }
    }

    /// Begins to take in what commands have read and changed. The caller has exclusive access to the keys.
    pub(super) fn begin<'a>(&'a self, log_positions: &'a [LogPosition], limits: Limits) -> Intake<'a> {
        let has_prefixes = !self.prefixes.read().is_empty();
        let delivery = Delivery { log_positions, limits, woken: Vec::new() };
        Intake { table: self, delivery, has_prefixes, changed: BTreeMap::new(), late: Vec::new() }
    }

    fn stripe(&self, key: &[u8]) -> &Mutex<Readers> {
        // The tables use the low bits and the top seven.
        &self.keys[size(hash_of(key) >> 32) % STRIPES]
    }

    /// O(log N), N = readers of the key, and O(N) if they are moved
    fn remember(&self, key: &[u8], reader: u32, delivery: &mut Delivery<'_>) {
        let mut stripe = self.stripe(key).lock();
        let readers = match stripe.get_mut(key) {
            Some(readers) => readers,
            None => {
                self.key_count.fetch_add(1, Ordering::Relaxed);
                stripe.entry(key.into()).or_default()
            }
        };
        if let Err(place) = readers.binary_search(&reader) {
            readers.insert(place, reader);
            self.item_count.fetch_add(1, Ordering::Relaxed);
        }
        let is_full = readers.len() == readers.capacity() && readers.len() >= READERS_KEPT;
        drop(stripe);
        if is_full {
            self.drop_gone_readers(key);
        }
        // Two, so that there are fewer after each where the limit has come down.
        self.forget_surplus(2, delivery);
    }

    #[cold]
    fn drop_gone_readers(&self, key: &[u8]) {
        let trackers = self.trackers.read();
        let mut stripe = self.stripe(key).lock();
        let Some(readers) = stripe.get_mut(key) else { return };
        let before = readers.len();
        readers.retain(|number| trackers.contains_key(number));
        self.item_count.fetch_sub(before - readers.len(), Ordering::Relaxed);
        if readers.is_empty() {
            stripe.swap_remove(key);
            self.key_count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// O(N), N = readers of the key
    fn invalidate(&self, key: &[u8], by: u32, delivery: &mut Delivery<'_>) {
        let mut stripe = self.stripe(key).lock();
        let Some(readers) = stripe.swap_remove(key) else { return };
        shrink(&mut stripe);
        drop(stripe);
        self.notify_readers(key, &readers, by, delivery);
    }

    /// Sends a message about a key to its readers, which were removed.
    fn notify_readers(&self, key: &[u8], readers: &[u32], by: u32, delivery: &mut Delivery<'_>) {
        self.key_count.fetch_sub(1, Ordering::Relaxed);
        self.item_count.fetch_sub(readers.len(), Ordering::Relaxed);
        let message = Message::Invalidated { keys: Some(array_of(&[key])), is_redirected: false };
        let trackers = self.trackers.read();
        for tracker in readers.iter().filter_map(|number| trackers.get(number)) {
            if !(tracker.is_by_prefix() || tracker.spares_own && tracker.number == by) {
                delivery.send(tracker, &message);
            }
        }
    }

    /// O(N), N = keys and trackers
    fn flush(&self, delivery: &mut Delivery<'_>) {
        self.forget_all();
        let message = Message::Invalidated { keys: None, is_redirected: false };
        self.trackers.read().values().for_each(|tracker| delivery.send(tracker, &message));
    }

    fn forget_all(&self) {
        for stripe in &self.keys {
            let forgotten = std::mem::take(&mut *stripe.lock());
            self.key_count.fetch_sub(forgotten.len(), Ordering::Relaxed);
            self.item_count.fetch_sub(forgotten.values().map(Vec::len).sum(), Ordering::Relaxed);
        }
    }

    /// One message for each prefix and tracker, with the keys in order. O(P * K), P = prefixes, K = changed keys
    fn broadcast(&self, changed: &BTreeMap<&[u8], u32>, delivery: &mut Delivery<'_>) {
        let trackers = self.trackers.read();
        for (prefix, numbers) in self.prefixes.read().iter() {
            let meant = || changed.iter().filter(|(key, _)| key.starts_with(prefix));
            if meant().next().is_none() {
                continue;
            }
            let message = |keys: &[&[u8]]| Message::Invalidated { keys: Some(array_of(keys)), is_redirected: false };
            let all: Vec<&[u8]> = meant().map(|(key, _)| *key).collect();
            let about_all = message(&all);
            for tracker in numbers.iter().filter_map(|number| trackers.get(number)) {
                if !tracker.spares_own {
                    delivery.send(tracker, &about_all);
                    continue;
                }
                let of_others: Vec<&[u8]> =
                    meant().filter(|(_, by)| **by != tracker.number).map(|(key, _)| *key).collect();
                match of_others.len() {
                    0 => {}
                    len if len == all.len() => delivery.send(tracker, &about_all),
                    _ => delivery.send(tracker, &message(&of_others)),
                }
            }
        }
    }

    /// Sets how many keys may be tracked; 0 for any number. Where there are more, some are forgotten: see
    /// [`trim`](Self::trim).
    pub fn set_keys_max(&self, keys_max: u64) {
        self.keys_max.store(keys_max, Ordering::Relaxed);
    }

    /// Forgets some keys if there are too many, and tells their readers that they have changed.
    pub fn trim(&self, limits: Limits) {
        if self.surplus() > 0 {
            let mut delivery = Delivery { log_positions: &[], limits, woken: Vec::new() };
            self.forget_surplus(FORGOTTEN_AT_ONCE, &mut delivery);
            delivery.end();
        }
    }

    fn surplus(&self) -> usize {
        let keys_max = usize::try_from(self.keys_max.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
        if keys_max == 0 { 0 } else { self.key_count.load(Ordering::Relaxed).saturating_sub(keys_max) }
    }

    fn forget_surplus(&self, most: usize, delivery: &mut Delivery<'_>) {
        for _ in 0..self.surplus().min(most) {
            self.forget_one(delivery);
        }
    }

    /// Forgets a key of the next table that has one: any, as tables have no order.
    fn forget_one(&self, delivery: &mut Delivery<'_>) {
        for _ in 0..STRIPES {
            let number = self.next_forgotten.fetch_add(1, Ordering::Relaxed);
            let mut stripe = self.keys[number % STRIPES].lock();
            let Some(index) = number.checked_rem(stripe.len()) else { continue };
            let (key, readers) = stripe.swap_remove_index(index).expect("the index is within the table");
            shrink(&mut stripe);
            drop(stripe);
            return self.notify_readers(&key, &readers, Tracking::NONE.number(), delivery);
        }
    }

    /// How much is tracked.
    pub fn counts(&self) -> Tracked {
        Tracked {
            clients: self.trackers.read().len(),
            keys: self.key_count.load(Ordering::Relaxed),
            items: self.item_count.load(Ordering::Relaxed),
            prefixes: self.prefixes.read().len(),
        }
    }
}

fn shrink(stripe: &mut Readers) {
    if stripe.capacity() > KEPT.max(4 * stripe.len()) {
        stripe.shrink_to(2 * stripe.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::Notices;

    const LIMITS: Limits = Limits { subscribed: u64::MAX, normal: u64::MAX };

    struct World {
        table: TrackingTable,
        is_tracked: AtomicBool,
    }

    impl World {
        fn new() -> Self {
            Self { table: TrackingTable::default(), is_tracked: AtomicBool::new(false) }
        }

        fn tracker(&self, wishes: Wishes) -> Arc<Tracker> {
            let queue = Arc::new(Subscriber::new(1));
            queue.set_resp3(true);
            self.table.track(None, &queue, wishes, &self.is_tracked)
        }

        fn take_in(&self, fill: impl FnOnce(&mut Notices)) {
            let mut notices = Notices::default();
            fill(&mut notices);
            let mut intake = self.table.begin(&[], LIMITS);
            notices.iter().for_each(|notice| intake.take(notice));
            intake.end();
        }
    }

    fn taken(tracker: &Tracker) -> String {
        let mut out = Vec::new();
        let (last, _) = tracker.queue.received();
        tracker.queue.take(last, true, &mut out, usize::MAX, &mut Vec::new());
        String::from_utf8(out).expect("the test's keys are text").replace(">2\r\n$10\r\ninvalidate\r\n", ">")
    }

    #[test]
    fn a_reader_is_told_once_of_a_change_after_its_read_and_of_none_before() {
        let world = World::new();
        let (one, other) = (world.tracker(Wishes::default()), world.tracker(Wishes::default()));
        assert!(world.is_tracked.load(Ordering::Relaxed));
        world.take_in(|notices| {
            notices.push_change(0, b"k");
            notices.push_read(one.number, b"k");
            notices.push_change(one.number, b"k");
            notices.push_read(other.number, b"k");
            notices.push_change(0, b"l");
        });
        assert_eq!((taken(&one).as_str(), taken(&other).as_str()), (">*1\r\n$1\r\nk\r\n", ""));
        world.take_in(|notices| notices.push_change(0, b"k"));
        assert_eq!((taken(&one).as_str(), taken(&other).as_str()), ("", ">*1\r\n$1\r\nk\r\n"));
        assert_eq!(world.table.counts(), Tracked { clients: 2, keys: 0, items: 0, prefixes: 0 });
    }

    #[test]
    fn one_that_wants_no_own_changes_is_told_of_those_of_others_alone() {
        let world = World::new();
        let reads = world.tracker(Wishes { spares_own: true, ..Wishes::default() });
        let listens = world.tracker(Wishes {
            spares_own: true,
            is_by_prefix: true,
            prefixes: vec![b"k".as_slice().into()],
            ..Wishes::default()
        });
        world.take_in(|notices| {
            notices.push_read(reads.number, b"k1");
            notices.push_read(reads.number, b"k2");
            notices.push_change(reads.number, b"k1");
            notices.push_change(listens.number, b"k2");
        });
        assert_eq!(taken(&reads), ">*1\r\n$2\r\nk2\r\n");
        assert_eq!(taken(&listens), ">*1\r\n$2\r\nk1\r\n");
    }

    #[test]
    fn a_prefix_has_one_message_with_each_key_once_and_in_order() {
        let world = World::new();
        let prefixes = [b"a".as_slice(), b"b"].map(Box::from).to_vec();
        let tracker = world.tracker(Wishes { is_by_prefix: true, prefixes, ..Wishes::default() });
        world.take_in(|notices| {
            [b"a2", b"c1", b"b1", b"a1", b"a2"].iter().for_each(|key| notices.push_change(0, key.as_slice()));
        });
        assert_eq!(taken(&tracker), ">*2\r\n$2\r\na1\r\n$2\r\na2\r\n>*1\r\n$2\r\nb1\r\n");
        world.table.untrack(&tracker, &world.is_tracked);
        assert_eq!(world.table.counts(), Tracked { clients: 0, keys: 0, items: 0, prefixes: 0 });
        assert!(!world.is_tracked.load(Ordering::Relaxed));
    }

    #[test]
    fn with_too_many_keys_some_are_forgotten_and_their_readers_told() {
        let world = World::new();
        let tracker = world.tracker(Wishes::default());
        let read = |from: usize, to: usize| {
            world.take_in(|notices| {
                (from..to).for_each(|number| notices.push_read(tracker.number, format!("k{number}").as_bytes()));
            });
        };
        read(0, 1000);
        assert_eq!((world.table.counts().keys, taken(&tracker)), (1000, String::new()));
        world.table.set_keys_max(900);
        read(1000, 1010);
        assert_eq!(world.table.counts().keys, 990);
        world.table.trim(LIMITS);
        assert_eq!(world.table.counts(), Tracked { clients: 1, keys: 900, items: 900, prefixes: 0 });
        assert_eq!(taken(&tracker).matches('>').count(), 110);
    }

    #[test]
    fn readers_that_have_gone_take_no_memory_without_end() {
        let world = World::new();
        let stays = world.tracker(Wishes::default());
        for _ in 0..1_000 {
            let goes = world.tracker(Wishes::default());
            world.take_in(|notices| notices.push_read(goes.number, b"k"));
            world.table.untrack(&goes, &world.is_tracked);
        }
        assert!(world.table.counts().items <= READERS_KEPT, "{:?}", world.table.counts());
        world.table.untrack(&stays, &world.is_tracked);
        assert_eq!(world.table.counts().items, 0);
    }

    #[test]
    fn a_flush_is_told_to_all_whatever_they_have_read() {
        let world = World::new();
        let all = [world.tracker(Wishes::default()), world.tracker(Wishes::default())];
        world.take_in(|notices| {
            notices.push_read(all[0].number, b"k");
            notices.push_flushed();
        });
        assert!(all.iter().all(|tracker| taken(tracker) == ">_\r\n"));
        assert_eq!(world.table.counts().keys, 0);
    }

    #[test]
    fn a_number_is_not_given_twice_while_it_is_in_use() {
        let world = World::new();
        let first = world.tracker(Wishes::default());
        *world.table.last_number.lock() = Tracking::NUMBER_MAX - 1;
        let numbers = [(); 3].map(|()| world.tracker(Wishes::default()).number);
        assert_eq!((first.number, numbers), (1, [Tracking::NUMBER_MAX, 2, 3]));
    }
}
