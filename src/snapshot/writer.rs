//! The snapshot writer: the owners of the keys encode them into a buffer, and another thread writes it to the file.
//!
//! The walk over the keys pauses while many bytes are unwritten. Keys that change before their turn do not wait,
//! because the changing thread may not wait for a disk; if too many bytes have gathered, connections accept no commands
//! that may change more until they are written ([`Backlog`]). A failed writer accepts keys as before, and drops them:
//! the snapshot continues to its end, from which the next one begins.

use crate::base::narrowing::size;
use crate::keyspace::{Added, Encode, Node, SnapshotSink};
use parking_lot::{Condvar, Mutex};
use std::fmt::{Debug, Display};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// Unwritten bytes at which the walk pauses.
const WAITING_MAX: usize = 256 * 1024;
/// Unwritten bytes, with those of keys that change before their turn, at which no more keys may change.
const WAITING_HARD_MAX: usize = 8 * 1024 * 1024;
/// Bytes that are synced at a time: the last fsync should be short.
const SYNC_STEP: usize = 8 * 1024 * 1024;
/// Larger buffers are freed after they are written.
const BUFFER_KEPT: usize = 1024 * 1024;

/// The snapshot writers of a server with too many unwritten bytes.
#[derive(Debug, Default)]
pub struct Backlog {
    full: AtomicUsize,
    ended: Notify,
}

impl Backlog {
    /// Whether there is one.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.full.load(Ordering::Acquire) > 0
    }

    /// Waits until there is none.
    pub async fn ended(&self) {
        loop {
            let ended = self.ended.notified();
            if !self.is_full() {
                return;
            }
            ended.await;
        }
    }

    fn begin(&self) {
        self.full.fetch_add(1, Ordering::AcqRel);
    }

    fn end(&self) {
        self.full.fetch_sub(1, Ordering::AcqRel);
        self.ended.notify_waiters();
    }
}

/// The destination of a snapshot.
pub trait Target: Debug + Send {
    /// Appends whole keys, in its own form; returns how many bytes that were.
    fn append(&mut self, keys: &[u8]) -> io::Result<u64>;
    /// Makes what was appended survive a power loss.
    fn settle(&mut self) -> io::Result<()>;
    /// Gives up what was appended: nothing more follows, and what it holds open is closed.
    fn discard(&mut self) {}
}

/// A file while a snapshot is written to it.
#[derive(Debug)]
pub struct SnapshotWriter<E, T> {
    queue: Mutex<Queue<E>>,
    waiting: AtomicUsize,
    file: Mutex<Out<T>>,
    /// The first error.
    error: Mutex<Option<String>>,
    has_failed: AtomicBool,
    is_walked: AtomicBool,
    /// Unwritten bytes of keys that changed before their turn at which it gives up, if no change may wait for it.
    waiting_max: Option<usize>,
    filled: Condvar,
    /// Signalled when there are fewer unwritten bytes.
    written: Condvar,
}

#[derive(Debug)]
struct Queue<E> {
    bytes: Vec<u8>,
    encoder: E,
    backlog: Arc<Backlog>,
    /// Whether it is part of the backlog.
    is_full: bool,
    /// How many of the unwritten bytes are of keys that came in their turn: of those in `bytes`, and of those that are
    /// being written.
    walked: usize,
    walked_in_writing: usize,
}

impl<E> Queue<E> {
    fn set_full(&mut self, is_full: bool) {
        match (std::mem::replace(&mut self.is_full, is_full), is_full) {
            (false, true) => self.backlog.begin(),
            (true, false) => self.backlog.end(),
            _ => {}
        }
    }
}

impl<E> Drop for Queue<E> {
    fn drop(&mut self) {
        self.set_full(false);
    }
}

#[derive(Debug)]
struct Out<T> {
    target: T,
    buffer: Vec<u8>,
    len: u64,
    unsynced: usize,
    is_discarded: bool,
}

impl<E: Encode, T: Target> SnapshotWriter<E, T> {
    /// A writer for a file that already has `len` bytes, of a server with this backlog.
    pub fn new(encoder: E, target: T, len: u64, backlog: Arc<Backlog>) -> Self {
        Self {
            queue: Mutex::new(Queue {
                bytes: Vec::new(),
                encoder,
                backlog,
                is_full: false,
                walked: 0,
                walked_in_writing: 0,
            }),
            waiting: AtomicUsize::new(0),
            file: Mutex::new(Out { target, buffer: Vec::new(), len, unsynced: 0, is_discarded: false }),
            error: Mutex::default(),
            has_failed: AtomicBool::new(false),
            is_walked: AtomicBool::new(false),
            waiting_max: None,
            filled: Condvar::new(),
            written: Condvar::new(),
        }
    }

    /// A writer that no change of keys ever waits for: at this many unwritten bytes of keys that changed before their
    /// turn it gives up. A key that comes in its turn does not count, however large it is: the walk waits for room.
    pub fn giving_up_at(self, waiting_max: usize) -> Self {
        Self { waiting_max: Some(waiting_max), ..self }
    }

    /// The length of the file.
    pub fn len(&self) -> u64 {
        self.file.lock().len
    }

    /// Gives up.
    pub fn fail(&self, error: &dyn Display) {
        self.error.lock().get_or_insert_with(|| error.to_string());
        self.has_failed.store(true, Ordering::Release);
        let mut queue = self.queue.lock();
        queue.bytes = Vec::new();
        queue.set_full(false);
        self.written.notify_all();
    }

    /// Why it has given up, if it has.
    pub fn failure(&self) -> Option<String> {
        self.error.lock().clone()
    }

    /// Whether it is given up.
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// Whether all keys were added.
    pub fn is_walked(&self) -> bool {
        self.is_walked.load(Ordering::Acquire)
    }

    /// Whether there are unwritten bytes.
    pub fn has_some(&self) -> bool {
        !self.has_failed() && self.waiting.load(Ordering::Acquire) > 0
    }

    /// Records that all keys were added.
    pub fn end_walk(&self) {
        // Under the lock: the writing thread either sees it before it waits, or waits already.
        let _queue = self.queue.lock();
        self.is_walked.store(true, Ordering::Release);
        self.filled.notify_one();
    }

    /// Waits until there are unwritten bytes, or all keys were added.
    pub fn wait(&self, at_most: Duration) {
        let mut queue = self.queue.lock();
        if queue.bytes.is_empty() && !self.is_walked() {
            self.filled.wait_for(&mut queue, at_most);
        }
    }

    /// Waits until the walk may continue: for a caller that stops everything until all is written.
    pub fn wait_for_room(&self) {
        let mut queue = self.queue.lock();
        while !self.has_room() {
            self.filled.notify_one();
            self.written.wait(&mut queue);
        }
    }

    /// Writes what waits, and syncs what has gathered. For the writing thread. A writer that has failed gives up its
    /// file at once: the walk may take long, and a full disk needs the room.
    pub fn write_out(&self) {
        let mut file = self.file.lock();
        if file.is_discarded {
            return;
        }
        if let Err(error) = self.write_to(&mut file) {
            self.fail(&error);
        }
        if self.has_failed() {
            file.target.discard();
            file.is_discarded = true;
        }
    }

    fn write_to(&self, file: &mut Out<T>) -> io::Result<()> {
        {
            let mut queue = self.queue.lock();
            std::mem::swap(&mut queue.bytes, &mut file.buffer);
            queue.walked_in_writing = std::mem::take(&mut queue.walked);
        }
        let written = file.target.append(&file.buffer);
        let len = file.buffer.len();
        file.buffer.clear();
        file.buffer.shrink_to(BUFFER_KEPT);
        self.note_written(len);
        let written = written?;
        file.len += written;
        file.unsynced += size(written);
        if file.unsynced >= SYNC_STEP {
            file.target.settle()?;
            file.unsynced = 0;
        }
        Ok(())
    }

    fn note_written(&self, len: usize) {
        let mut queue = self.queue.lock();
        queue.walked_in_writing = 0;
        // Dropped bytes are still counted, but the count is not needed any more.
        let before = self.waiting.fetch_sub(len, Ordering::AcqRel);
        if before - len < WAITING_HARD_MAX {
            queue.set_full(false);
        }
        self.written.notify_all();
    }

    /// Writes the end, after which everything is on the disk; `write_end` returns its length. The error is the first
    /// one.
    pub fn end(&self, write_end: impl FnOnce(&mut T) -> io::Result<u64>) -> Result<(), String> {
        self.write_out();
        if let Some(error) = &*self.error.lock() {
            return Err(error.clone());
        }
        let mut file = self.file.lock();
        let written = write_end(&mut file.target).and_then(|len| file.target.settle().map(|()| len));
        file.len += written.map_err(|error| error.to_string())?;
        Ok(())
    }

    fn add(&self, database: usize, node: &Node, added: Added) -> Result<(), String> {
        let mut queue = self.queue.lock();
        let Queue { bytes, encoder, .. } = &mut *queue;
        let before = bytes.len();
        encoder.encode(bytes, database, node)?;
        let len = bytes.len() - before;
        let waiting = self.waiting.fetch_add(len, Ordering::AcqRel) + len;
        if added == Added::InTurn {
            queue.walked += len;
        }
        match self.waiting_max {
            Some(most) if waiting.saturating_sub(queue.walked + queue.walked_in_writing) > most => {
                return Err(format!("{most} bytes of keys that have changed wait to be taken"));
            }
            Some(_) => {}
            None if waiting >= WAITING_HARD_MAX && !self.has_failed() => queue.set_full(true),
            None => {}
        }
        Ok(())
    }
}

impl<E: Encode, T: Target> SnapshotSink for SnapshotWriter<E, T> {
    fn announce(&self, database: usize, nodes: usize, deadlines: usize) {
        self.queue.lock().encoder.announce(database, nodes, deadlines);
    }

    fn put(&self, database: usize, node: &Node, added: Added) {
        if self.has_failed() {
            return;
        }
        if let Err(reason) = self.add(database, node, added) {
            return self.fail(&reason);
        }
        if self.waiting.load(Ordering::Acquire) >= WAITING_MAX / 4 {
            self.filled.notify_one();
        }
    }

    fn has_room(&self) -> bool {
        self.has_failed() || self.waiting.load(Ordering::Acquire) < WAITING_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::NewValue;
    use crate::snapshot::Saves;

    /// Each key is a megabyte.
    #[derive(Debug)]
    struct Large;

    impl Encode for Large {
        fn encode(&mut self, out: &mut Vec<u8>, _: usize, _: &Node) -> Result<(), String> {
            out.resize(out.len() + (1 << 20), b'x');
            Ok(())
        }
    }

    /// Which threads have used it.
    #[derive(Debug, Clone, Default)]
    struct Users(Arc<Mutex<Vec<std::thread::ThreadId>>>);

    impl Target for Users {
        fn append(&mut self, keys: &[u8]) -> io::Result<u64> {
            self.0.lock().push(std::thread::current().id());
            Ok(keys.len() as u64)
        }

        fn settle(&mut self) -> io::Result<()> {
            self.append(b"").map(drop)
        }
    }

    #[test]
    fn who_puts_keys_in_never_writes_and_writes_wait_while_too_many_wait() {
        let (users, saves) = (Users::default(), Arc::new(Saves::new(Arc::default())));
        let writer = SnapshotWriter::new(Large, users.clone(), 0, Arc::clone(&saves.backlog));
        let node = Node::new(b"key", NewValue::Integer(1), None);
        let puts = |count: usize| (0..count).for_each(|_| writer.put(0, &node, Added::BeforeChange));
        puts(7);
        assert!(!saves.backlog.is_full() && !writer.has_room());
        puts(13);
        assert_eq!(*users.0.lock(), [], "the one that put it in has written it");
        assert!(saves.backlog.is_full(), "nothing keeps more from changing");
        let pause = crate::state::pause::Pause::new(Arc::default(), Arc::clone(&saves.backlog));
        assert!(pause.holds(|| true) && !pause.holds(|| false));

        std::thread::scope(|scope| drop(scope.spawn(|| writer.write_out())));
        assert_eq!(users.0.lock().len(), 2, "it was written, and synced");
        assert!(!saves.backlog.is_full() && writer.has_room() && !pause.holds(|| true));
        puts(8);
        assert!(saves.backlog.is_full());
        writer.fail(&"the disk is gone");
        assert!(!saves.backlog.is_full() && writer.has_room());
    }

    #[test]
    fn what_changes_before_its_turn_is_bounded_and_a_key_in_its_turn_may_have_any_size() {
        let saves = Arc::new(Saves::new(Arc::default()));
        let writer = SnapshotWriter::new(Large, Users::default(), 0, Arc::clone(&saves.backlog));
        let writer = writer.giving_up_at(5 << 19);
        let node = Node::new(b"key", NewValue::Integer(1), None);
        for _ in 0..3 {
            // One in its turn, and two that change while it waits; half a one more would be too much.
            writer.put(0, &node, Added::InTurn);
            (0..2).for_each(|_| writer.put(0, &node, Added::BeforeChange));
            assert_eq!(writer.failure(), None);
            std::thread::scope(|scope| drop(scope.spawn(|| writer.write_out())));
        }
        (0..10).for_each(|_| writer.put(0, &node, Added::InTurn));
        assert!(writer.failure().is_none() && !writer.has_room());
        (0..3).for_each(|_| writer.put(0, &node, Added::BeforeChange));
        assert!(writer.failure().is_some_and(|reason| reason.starts_with("2621440 bytes of keys")));
    }
}
