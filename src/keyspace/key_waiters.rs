//! The key waiters: transactions that watch a key, and connections that wait for an element or an entry of it.

use super::hashing::ProcessHash;
use super::waiter::Waiter;
use crate::keyspace::values::collection::Kind;
use crate::keyspace::values::stream::Reading;
use std::collections::{HashMap, VecDeque};
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
    /// Whether a collection of a type can serve it. A line may hold operations for several types.
    pub fn is_for(&self, kind: Kind) -> bool {
        match self {
            Self::Pop(_) | Self::PopMany(..) | Self::Move(..) => kind == Kind::List,
            Self::PopElement(_) | Self::PopElements(..) => kind == Kind::SortedSet,
        }
    }
}

/// A connection in the line of a key.
#[derive(Debug, Clone)]
pub struct InLine {
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
/// Those that went away are dropped when their key changes, and by a sweep each time the number of entries has doubled:
/// their memory is bounded by that of the live ones.
#[derive(Debug, Default)]
pub struct KeyWaiters {
    watching: HashMap<Box<[u8]>, Vec<Watching>, ProcessHash>,
    waiting: HashMap<Box<[u8]>, VecDeque<InLine>, ProcessHash>,
    reading: HashMap<Box<[u8]>, Vec<Reader>, ProcessHash>,
    entries: usize,
    sweep_at: usize,
}

/// One transaction that watches a key.
#[derive(Debug)]
struct Watching {
    watch: Weak<Watch>,
    /// Whether the key's time had come, though it was still there: for the client there was none. Its removal changes
    /// nothing then.
    was_over: bool,
}

/// With fewer entries than this nothing is swept.
const SWEEP_MIN: usize = 64;

impl KeyWaiters {
    /// Whether there are no key waiters.
    pub fn is_empty(&self) -> bool {
        self.watching.is_empty() && self.waiting.is_empty() && self.reading.is_empty()
    }

    /// Adds a watch to a key, whose time may have come although it is still there.
    pub fn watch(&mut self, key: &[u8], watch: &Arc<Watch>, was_over: bool) {
        let watches = self.watching.entry(key.into()).or_default();
        if !watches.iter().any(|other| other.is_of(watch)) {
            watches.push(Watching { watch: Arc::downgrade(watch), was_over });
            self.note_entry();
        }
    }

    /// Whether the time of a key that is still there had come when it was watched.
    pub fn was_over(&self, key: &[u8], watch: &Arc<Watch>) -> bool {
        self.watching.get(key).is_some_and(|all| all.iter().any(|one| one.is_of(watch) && one.was_over))
    }

    /// Appends a waiter to the line of a key, unless it is there already: at the end, if the command names the key
    /// twice, or anywhere, if it `may_be_there` because the command has run before.
    pub fn wait(&mut self, key: &[u8], waiter: &Arc<Waiter>, operation: &BlockedOperation, may_be_there: bool) {
        let line = self.waiting.entry(key.into()).or_default();
        let is_it = |other: &InLine| Arc::ptr_eq(&other.waiter, waiter);
        let is_there = line.back().is_some_and(is_it) || (may_be_there && line.iter().any(is_it));
        if !is_there {
            line.push_back(InLine { waiter: Arc::clone(waiter), operation: operation.clone() });
            self.note_entry();
        }
    }

    /// Adds a reader to a key, unless it is there already: see [`wait`](Self::wait).
    pub fn read(&mut self, key: &[u8], waiter: &Arc<Waiter>, reading: &Arc<Reading>, may_be_there: bool) {
        let readers = self.reading.entry(key.into()).or_default();
        let is_it = |other: &Reader| Arc::ptr_eq(&other.waiter, waiter);
        let is_there = readers.last().is_some_and(is_it) || (may_be_there && readers.iter().any(is_it));
        if !is_there {
            readers.push(Reader { waiter: Arc::clone(waiter), reading: Arc::clone(reading) });
            self.note_entry();
        }
    }

    /// The readers of a key that still wait, in order of arrival.
    pub fn readers(&mut self, key: &[u8]) -> Vec<Reader> {
        let Some(readers) = self.reading.get_mut(key) else { return Vec::new() };
        readers.retain(|reader| reader.waiter.is_waiting());
        let waiting = readers.clone();
        if waiting.is_empty() {
            self.reading.remove(key);
        }
        waiting
    }

    /// Breaks the watches on a changed key, and returns whether a connection waits for it. If the key was
    /// removed, watches set while it did not exist are kept.
    pub fn note_change(&mut self, key: &[u8], is_gone: bool) -> bool {
        if let Some(mut watches) = self.watching.remove(key) {
            watches.retain_mut(|watching| is_gone && std::mem::take(&mut watching.was_over) || watching.break_it());
            if !watches.is_empty() {
                self.watching.insert(key.into(), watches);
            }
        }
        self.is_awaited(key)
    }

    /// Whether a connection waits for a key.
    pub fn is_awaited(&self, key: &[u8]) -> bool {
        self.waiting.contains_key(key) || self.reading.contains_key(key)
    }

    /// The first waiter in the line of a key that still waits for a collection of this type.
    pub fn first_in_line(&mut self, key: &[u8], kind: Kind) -> Option<InLine> {
        let line = self.waiting.get_mut(key)?;
        while line.front().is_some_and(|first| !first.waiter.is_waiting()) {
            line.pop_front();
        }
        if line.is_empty() {
            self.waiting.remove(key);
            return None;
        }
        line.iter().find(|place| place.operation.is_for(kind) && place.waiter.is_waiting()).cloned()
    }

    /// The keys with waiters. A key with several kinds of waiters occurs several times.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.watching.keys().chain(self.waiting.keys()).chain(self.reading.keys()).map(|key| &key[..])
    }

    fn note_entry(&mut self) {
        self.entries += 1;
        if self.entries > self.sweep_at.max(SWEEP_MIN) {
            self.sweep();
        }
    }

    fn sweep(&mut self) {
        self.watching.retain(|_, watches| {
            watches.retain(|watching| watching.watch.strong_count() > 0);
            !watches.is_empty()
        });
        self.waiting.retain(|_, line| {
            line.retain(|place| place.waiter.is_waiting());
            !line.is_empty()
        });
        self.reading.retain(|_, readers| {
            readers.retain(|reader| reader.waiter.is_waiting());
            !readers.is_empty()
        });
        self.entries = self.watching.values().map(Vec::len).sum::<usize>()
            + self.waiting.values().map(VecDeque::len).sum::<usize>()
            + self.reading.values().map(Vec::len).sum::<usize>();
        self.sweep_at = 2 * self.entries;
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
        assert!(key_waiters.watching.len() <= 2 * SWEEP_MIN, "{} keys", key_waiters.watching.len());
        assert!(key_waiters.waiting[b"k".as_slice()].len() <= 2 * SWEEP_MIN);
    }
}
