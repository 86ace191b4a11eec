//! The key waiters: transactions that watch a key, and connections that wait for an element or an entry of it.

use super::hashing::hash_of;
use super::waiter::Waiter;
use crate::keyspace::values::collection::Kind;
use crate::keyspace::values::stream::Reading;
use hashbrown::HashTable;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// What WATCH promises a connection: that its next transaction runs only if no watched key has changed.
#[derive(Debug, Default)]
pub struct Watch {
    is_broken: AtomicBool,
}

impl Watch {
    /// Whether a watched key has changed. Final for the owner of the keys; a hint for other threads.
    pub fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Acquire)
    }

    /// Breaks it: a watched key has changed, or may have.
    pub fn break_it(&self) {
        self.is_broken.store(true, Ordering::Release);
    }
}

/// Which end of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The left.
    Head,
    /// The right.
    Tail,
}

/// What a blocked connection wants to do with a key once it holds something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockedOperation {
    /// Take an element: BLPOP, BRPOP.
    Pop(End),
    /// Take up to this many elements: BLMPOP.
    PopMany(End, usize),
    /// Move an element from this end to that end of the list of a key: BLMOVE, BRPOPLPUSH.
    Move(End, End, Box<[u8]>),
    /// Take the element with the lowest score (head) or the highest (tail): BZPOPMIN, BZPOPMAX.
    PopElement(End),
    /// Take up to this many elements: BZMPOP.
    PopElements(End, usize),
}

impl BlockedOperation {
    /// Whether a collection of a type can serve it. A queue may hold operations for several types.
    pub fn is_for(&self, kind: Kind) -> bool {
        match self {
            Self::Pop(_) | Self::PopMany(..) | Self::Move(..) => kind == Kind::List,
            Self::PopElement(_) | Self::PopElements(..) => kind == Kind::SortedSet,
        }
    }
}

/// A connection in the queue of a key.
#[derive(Debug, Clone)]
pub struct Queued {
    /// The waiter.
    pub waiter: Arc<Waiter>,
    /// Its operation.
    pub operation: BlockedOperation,
}

/// A connection that waits for entries of a stream. It removes nothing, so each reader is served in turn.
#[derive(Debug, Clone)]
pub struct Reader {
    /// The waiter.
    pub waiter: Arc<Waiter>,
    /// What it reads.
    pub reading: Arc<Reading>,
}

/// The key waiters of a part of the keyspace.
///
/// Those that went away are dropped when their key changes, and by sweeps: each that is added sweeps a little, and the
/// owner of the keys sweeps from time to time. Their memory is bounded by that of the live ones, and is free soon after
/// their connections have gone.
#[derive(Debug, Default)]
pub struct KeyWaiters {
    watching: Queues<Watching>,
    waiting: Queues<Queued>,
    reading: Queues<Reader>,
}

/// One transaction that watches a key.
#[derive(Debug)]
struct Watching {
    watch: Weak<Watch>,
    /// Whether the key's time had come, though it was still there: for the client there was none. Its removal changes
    /// nothing then.
    was_over: bool,
}

/// What a sweep looks at for each key waiter that is added: several, so that those that went away stay fewer than the
/// others.
const SWEPT_BY_ADDING: usize = 4;
/// What the owner's sweep looks at: at most a fraction of a millisecond.
const SWEPT_BY_OWNER: usize = 2048;
/// A table with more room than this is made smaller when most of it is empty.
const ROOM_KEPT: usize = 64;

impl KeyWaiters {
    /// Whether there are no key waiters.
    pub fn is_empty(&self) -> bool {
        self.watching.is_empty() && self.waiting.is_empty() && self.reading.is_empty()
    }

    /// Adds a watch to a key, whose time may have come although it is still there.
    pub fn watch(&mut self, key: &[u8], watch: &Arc<Watch>, was_over: bool) {
        let watches = self.watching.at(key);
        // Those that went away would be looked at again with the next watch, for as long as the key does not change.
        let mut index = 0;
        while let Some(other) = watches.get(index) {
            match other {
                _ if other.is_of(watch) => return,
                _ if other.is_gone() => _ = watches.swap_remove_back(index),
                _ => index += 1,
            }
        }
        watches.push_back(Watching { watch: Arc::downgrade(watch), was_over });
        self.watching.sweep(SWEPT_BY_ADDING);
    }

    /// Whether the time of a key that is still there had come when it was watched.
    pub fn was_over(&self, key: &[u8], watch: &Arc<Watch>) -> bool {
        self.watching.get(key).is_some_and(|all| all.iter().any(|one| one.is_of(watch) && one.was_over))
    }

    /// Appends a waiter to the queue of a key, unless it is there already: at the end, if the command names the key
    /// twice, or anywhere, if it `may_be_there` because the command has run before.
    pub fn wait(&mut self, key: &[u8], waiter: &Arc<Waiter>, operation: &BlockedOperation, may_be_there: bool) {
        let queue = self.waiting.at(key);
        let is_it = |other: &Queued| Arc::ptr_eq(&other.waiter, waiter);
        let is_there = queue.back().is_some_and(is_it) || (may_be_there && queue.iter().any(is_it));
        if !is_there {
            queue.push_back(Queued { waiter: Arc::clone(waiter), operation: operation.clone() });
            self.waiting.sweep(SWEPT_BY_ADDING);
        }
    }

    /// Adds a reader to a key, unless it is there already: see [`wait`](Self::wait).
    pub fn read(&mut self, key: &[u8], waiter: &Arc<Waiter>, reading: &Arc<Reading>, may_be_there: bool) {
        let readers = self.reading.at(key);
        let is_it = |other: &Reader| Arc::ptr_eq(&other.waiter, waiter);
        let is_there = readers.back().is_some_and(is_it) || (may_be_there && readers.iter().any(is_it));
        if !is_there {
            readers.push_back(Reader { waiter: Arc::clone(waiter), reading: Arc::clone(reading) });
            self.reading.sweep(SWEPT_BY_ADDING);
        }
    }

    /// The readers of a key that still wait, in order of arrival.
    pub fn readers(&mut self, key: &[u8]) -> Vec<Reader> {
        let Some(readers) = self.reading.get_mut(key) else { return Vec::new() };
        readers.retain(|reader| !reader.is_gone());
        let waiting: Vec<Reader> = readers.iter().cloned().collect();
        if waiting.is_empty() {
            self.reading.remove(key);
        }
        waiting
    }

    /// Breaks the watches on a changed key, and returns whether a connection waits for it. If the key was
    /// removed, watches set while it did not exist are kept.
    pub fn note_change(&mut self, key: &[u8], is_gone: bool) -> bool {
        if let Some(watches) = self.watching.get_mut(key) {
            watches.retain_mut(|watching| is_gone && std::mem::take(&mut watching.was_over) || watching.break_it());
            if watches.is_empty() {
                self.watching.remove(key);
            }
        }
        self.is_awaited(key)
    }

    /// Whether a connection waits for a key.
    pub fn is_awaited(&self, key: &[u8]) -> bool {
        self.waiting.get(key).is_some() || self.reading.get(key).is_some()
    }

    /// The first waiter in the queue of a key that still waits for a collection of this type.
    pub fn first_in_line(&mut self, key: &[u8], kind: Kind) -> Option<Queued> {
        let queue = self.waiting.get_mut(key)?;
        while queue.front().is_some_and(Queued::is_gone) {
            queue.pop_front();
        }
        if queue.is_empty() {
            self.waiting.remove(key);
            return None;
        }
        queue.iter().find(|place| place.operation.is_for(kind) && !place.is_gone()).cloned()
    }

    /// The keys with waiters. A key with several kinds of waiters occurs several times.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.watching.keys().chain(self.waiting.keys()).chain(self.reading.keys())
    }

    /// Drops some of those that went away. Returns whether that is worth doing again soon: many of those that it looked
    /// at had gone, and it has not looked at all.
    pub fn sweep(&mut self) -> bool {
        let swept = [
            self.watching.sweep(SWEPT_BY_OWNER),
            self.waiting.sweep(SWEPT_BY_OWNER),
            self.reading.sweep(SWEPT_BY_OWNER),
        ];
        swept.contains(&true)
    }
}

/// What waits at a key, and may have gone away since.
trait Waits {
    fn is_gone(&self) -> bool;
}

impl Waits for Watching {
    fn is_gone(&self) -> bool {
        self.watch.strong_count() == 0
    }
}

impl Waits for Queued {
    fn is_gone(&self) -> bool {
        !self.waiter.is_waiting()
    }
}

impl Waits for Reader {
    fn is_gone(&self) -> bool {
        !self.waiter.is_waiting()
    }
}

/// The queues of keys with key waiters of one kind: none is empty.
#[derive(Debug)]
struct Queues<W> {
    table: HashTable<(Box<[u8]>, VecDeque<W>)>,
    /// The bucket where the next sweep begins.
    next_bucket: usize,
    /// What sweeps may still look at; negative after a long queue, which was looked at whole.
    credit: isize,
}

impl<W> Default for Queues<W> {
    fn default() -> Self {
        Self { table: HashTable::new(), next_bucket: 0, credit: 0 }
    }
}

impl<W: Waits> Queues<W> {
    fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.table.iter().map(|(key, _)| &key[..])
    }

    fn get(&self, key: &[u8]) -> Option<&VecDeque<W>> {
        self.table.find(hash_of(key), |(other, _)| **other == *key).map(|(_, queue)| queue)
    }

    fn get_mut(&mut self, key: &[u8]) -> Option<&mut VecDeque<W>> {
        self.table.find_mut(hash_of(key), |(other, _)| **other == *key).map(|(_, queue)| queue)
    }

    /// The queue of a key, to which the caller adds one if it is new.
    fn at(&mut self, key: &[u8]) -> &mut VecDeque<W> {
        let entry = self.table.entry(hash_of(key), |(other, _)| **other == *key, |(other, _)| hash_of(other));
        &mut entry.or_insert_with(|| (key.into(), VecDeque::new())).into_mut().1
    }

    fn remove(&mut self, key: &[u8]) {
        if let Ok(entry) = self.table.find_entry(hash_of(key), |(other, _)| **other == *key) {
            entry.remove();
        }
        self.release_if_empty();
    }

    /// Looks at the next buckets, at most at all of them once, and drops those that went away. Buckets and key waiters
    /// together are `count`, on average: a long queue is looked at whole, and later sweeps look at less. Returns
    /// whether at least a quarter of them had gone, and some are left.
    fn sweep(&mut self, count: usize) -> bool {
        let (mut seen, mut gone) = (0, 0);
        self.credit = self.credit.saturating_add_unsigned(count);
        for _ in 0..self.table.num_buckets() {
            if self.credit <= 0 || self.is_empty() {
                break;
            }
            let (before, after) = self.sweep_bucket();
            seen += before;
            gone += before - after;
            self.credit = self.credit.saturating_sub_unsigned(before + 1);
        }
        self.credit = self.credit.min(0);
        self.release_if_empty();
        gone > 0 && gone * 4 >= seen && !self.is_empty()
    }

    /// Drops those that went away from the queue in the next bucket; returns how many it had, and has.
    fn sweep_bucket(&mut self) -> (usize, usize) {
        if self.next_bucket >= self.table.num_buckets() {
            self.next_bucket = 0;
            self.shrink();
        }
        let bucket = self.next_bucket;
        self.next_bucket += 1;
        let Ok(mut entry) = self.table.get_bucket_entry(bucket) else { return (0, 0) };
        let (_, queue) = entry.get_mut();
        let before = queue.len();
        queue.retain(|one| !one.is_gone());
        let after = queue.len();
        if after == 0 {
            entry.remove();
        }
        (before, after)
    }

    fn shrink(&mut self) {
        let (len, room) = (self.table.len(), self.table.capacity());
        if room > ROOM_KEPT && len * 8 < room {
            self.table.shrink_to(len * 2, |(key, _)| hash_of(key));
        }
    }

    fn release_if_empty(&mut self) {
        if self.table.is_empty() && self.table.capacity() > ROOM_KEPT {
            *self = Self::default();
        }
    }
}

impl Watching {
    fn is_of(&self, watch: &Arc<Watch>) -> bool {
        std::ptr::eq(self.watch.as_ptr(), Arc::as_ptr(watch))
    }

    /// Breaks the watch. Always returns false, so that the caller removes it.
    fn break_it(&self) -> bool {
        if let Some(watch) = self.watch.upgrade() {
            watch.break_it();
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_removal_of_a_key_breaks_no_watch_of_a_client_for_whom_there_was_none() {
        let mut key_waiters = KeyWaiters::default();
        let (saw_it, saw_none) = (Arc::new(Watch::default()), Arc::new(Watch::default()));
        key_waiters.watch(b"k", &saw_it, false);
        key_waiters.watch(b"k", &saw_none, true);
        assert!(key_waiters.was_over(b"k", &saw_none) && !key_waiters.was_over(b"k", &saw_it));
        key_waiters.note_change(b"k", true);
        assert!(saw_it.is_broken() && !saw_none.is_broken());
        // It is another key from now on.
        key_waiters.note_change(b"k", true);
        assert!(saw_none.is_broken());
    }

    #[test]
    fn a_change_breaks_the_watches_on_its_key_alone() {
        let mut key_waiters = KeyWaiters::default();
        let (one, other) = (Arc::new(Watch::default()), Arc::new(Watch::default()));
        key_waiters.watch(b"a", &one, false);
        key_waiters.watch(b"b", &other, false);
        assert!(!key_waiters.note_change(b"a", false));
        assert!(one.is_broken() && !other.is_broken());
    }

    #[test]
    fn a_line_is_served_in_order_of_arrival_and_forgets_who_went_away() {
        let mut key_waiters = KeyWaiters::default();
        let waiters: Vec<_> = (0..3).map(|_| Arc::new(Waiter::new(false))).collect();
        waiters.iter().for_each(|waiter| key_waiters.wait(b"k", waiter, &BlockedOperation::Pop(End::Head), true));
        assert!(key_waiters.note_change(b"k", false));
        assert!(waiters[0].give_up());
        assert!(Arc::ptr_eq(&key_waiters.first_in_line(b"k", Kind::List).expect("two are left").waiter, &waiters[1]));
        waiters[1..].iter().for_each(|waiter| assert!(waiter.give_up()));
        assert!(key_waiters.first_in_line(b"k", Kind::List).is_none());
        assert!(key_waiters.is_empty());
    }

    #[test]
    fn a_key_serves_those_who_wait_for_its_type() {
        let mut key_waiters = KeyWaiters::default();
        let (for_list, for_set) = (Arc::new(Waiter::new(false)), Arc::new(Waiter::new(false)));
        key_waiters.wait(b"k", &for_list, &BlockedOperation::Pop(End::Head), true);
        key_waiters.wait(b"k", &for_set, &BlockedOperation::PopElement(End::Head), true);
        assert!(Arc::ptr_eq(&key_waiters.first_in_line(b"k", Kind::SortedSet).expect("one waits").waiter, &for_set));
        assert!(for_set.give_up());
        assert!(key_waiters.first_in_line(b"k", Kind::SortedSet).is_none());
        assert!(Arc::ptr_eq(&key_waiters.first_in_line(b"k", Kind::List).expect("one waits").waiter, &for_list));
    }

    #[test]
    fn readers_of_a_key_are_given_in_order_of_arrival_without_those_who_went_away() {
        let mut key_waiters = KeyWaiters::default();
        let reading = Arc::new(Reading { streams: Vec::new(), most: 1, group: None });
        let waiters: Vec<_> = (0..3).map(|_| Arc::new(Waiter::new(false))).collect();
        waiters.iter().chain(&waiters).for_each(|waiter| key_waiters.read(b"k", waiter, &reading, true));
        assert!(key_waiters.note_change(b"k", false) && waiters[1].give_up());
        let readers = key_waiters.readers(b"k");
        assert_eq!(readers.len(), 2);
        assert!(Arc::ptr_eq(&readers[0].waiter, &waiters[0]) && Arc::ptr_eq(&readers[1].waiter, &waiters[2]));
        assert!(waiters[0].give_up() && waiters[2].give_up());
        assert!(key_waiters.readers(b"k").is_empty() && key_waiters.is_empty());
    }

    #[test]
    fn those_who_went_away_take_no_memory_for_ever() {
        let mut key_waiters = KeyWaiters::default();
        for number in 0..10_000_u32 {
            key_waiters.watch(&number.to_le_bytes(), &Arc::new(Watch::default()), false);
            let waiter = Arc::new(Waiter::new(false));
            key_waiters.wait(b"k", &waiter, &BlockedOperation::Pop(End::Tail), true);
            waiter.give_up();
        }
        assert!(key_waiters.watching.table.len() <= 64, "{} keys", key_waiters.watching.table.len());
        assert!(key_waiters.waiting.get(b"k").expect("the last is there").len() <= 64);
    }

    #[test]
    fn sweeps_of_the_owner_free_all_that_a_connection_has_left_and_nothing_else() {
        const KEYS: u32 = 10_000;
        let mut key_waiters = KeyWaiters::default();
        let [stays, goes] = [0, 1].map(|_| Arc::new(Watch::default()));
        let waiter = Arc::new(Waiter::new(false));
        for number in 0..KEYS {
            key_waiters.watch(&number.to_le_bytes(), if number % 100 == 0 { &stays } else { &goes }, false);
            key_waiters.wait(&number.to_le_bytes(), &waiter, &BlockedOperation::Pop(End::Tail), true);
        }
        assert!(!(0..100).any(|_| key_waiters.sweep()), "all are there");
        assert_eq!(key_waiters.watching.table.len(), KEYS as usize);
        drop(goes);
        assert!(waiter.give_up());
        let sweeps = (0..1000).take_while(|_| key_waiters.sweep()).count();
        assert!((2..100).contains(&sweeps), "{sweeps} sweeps");
        // Those that are left are too few among the live ones to be hurried after.
        (0..100).for_each(|_| _ = key_waiters.sweep());
        assert_eq!(key_waiters.watching.table.len(), KEYS as usize / 100);
        assert!(key_waiters.watching.table.capacity() <= 8 * KEYS as usize / 100);
        assert!(key_waiters.waiting.is_empty() && key_waiters.waiting.table.capacity() == 0);
        assert!(!key_waiters.note_change(&0_u32.to_le_bytes(), false) && stays.is_broken());
    }

    #[test]
    fn a_long_line_is_not_looked_at_again_for_each_that_joins_it() {
        let mut key_waiters = KeyWaiters::default();
        let waiters: Vec<_> = (0..10_000).map(|_| Arc::new(Waiter::new(false))).collect();
        let looks = waiters.iter().filter(|waiter| {
            let credit = key_waiters.waiting.credit;
            key_waiters.wait(b"k", waiter, &BlockedOperation::Pop(End::Head), false);
            key_waiters.waiting.credit < credit
        });
        let looks = looks.count();
        assert!(looks < 100, "{looks}");
    }

    #[test]
    fn a_watch_meets_none_that_went_away_at_its_key() {
        let mut key_waiters = KeyWaiters::default();
        let others: Vec<_> = (0..1000).map(|_| Arc::new(Watch::default())).collect();
        let rest = Arc::new(Watch::default());
        for (number, other) in others.iter().enumerate() {
            key_waiters.watch(b"hot", other, false);
            key_waiters.watch(&number.to_le_bytes(), &rest, false);
        }
        drop(others);
        let watch = Arc::new(Watch::default());
        key_waiters.watch(b"hot", &watch, false);
        assert_eq!(key_waiters.watching.get(b"hot").expect("one watches it").len(), 1);
    }
}
