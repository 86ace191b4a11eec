//! Images on their way into a file: whoever has the keys encodes them into a buffer, another thread writes that.
//!
//! The walk over the keys pauses while much waits to be written; keys that change before their turn do not wait, and
//! where too much has gathered, who changes them writes it. A spool that has failed takes keys as before, and forgets
//! them: the image goes on to its end, which is what the next one begins from.

use crate::keyspace::{ImageSink, Node};
use parking_lot::{Condvar, Mutex};
use std::fmt::{Debug, Display};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Bytes that wait to be written, from which on the walk pauses.
const WAITING_MAX: usize = 256 * 1024;
/// Bytes that wait though the walk pauses, of keys that change before their turn: who changes more writes them.
const WAITING_HARD_MAX: usize = 8 * 1024 * 1024;
/// Bytes that are synced at once: the last fsync is to be a short one.
const SYNC_STEP: usize = 8 * 1024 * 1024;
/// Buffers above this size are given back when they were written.
const BUFFER_KEPT: usize = 1024 * 1024;

/// How a key is written.
pub trait Encode: Debug + Send {
    /// Appends a node of a database. The error says why it cannot be written. O(bytes of the value)
    fn encode(&mut self, out: &mut Vec<u8>, database: usize, node: &Node) -> Result<(), String>;
}

/// Where it is written to.
pub trait Target: Debug + Send {
    /// Appends all of the bytes.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Sees to it that what was appended survives a power loss.
    fn settle(&mut self) -> io::Result<()>;
}

/// A file while an image is written to it.
#[derive(Debug)]
pub struct Spool<E, T> {
    queue: Mutex<Queue<E>>,
    waiting: AtomicUsize,
    file: Mutex<Out<T>>,
    has_failed: AtomicBool,
    is_walked: AtomicBool,
    filled: Condvar,
}

#[derive(Debug)]
struct Queue<E> {
    bytes: Vec<u8>,
    encoder: E,
}

#[derive(Debug)]
struct Out<T> {
    target: T,
    buffer: Vec<u8>,
    len: u64,
    unsynced: usize,
    error: Option<String>,
}

impl<E: Encode, T: Target> Spool<E, T> {
    /// A spool for a file that has `len` bytes.
    pub fn new(encoder: E, target: T, len: u64) -> Self {
        Self {
            queue: Mutex::new(Queue { bytes: Vec::new(), encoder }),
            waiting: AtomicUsize::new(0),
            file: Mutex::new(Out { target, buffer: Vec::new(), len, unsynced: 0, error: None }),
            has_failed: AtomicBool::new(false),
            is_walked: AtomicBool::new(false),
            filled: Condvar::new(),
        }
    }

    /// How long the file is.
    pub fn len(&self) -> u64 {
        self.file.lock().len
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives up.
    pub fn fail(&self, error: &dyn Display) {
        self.file.lock().error.get_or_insert_with(|| error.to_string());
        self.forget();
    }

    fn forget(&self) {
        self.has_failed.store(true, Ordering::Release);
        self.queue.lock().bytes = Vec::new();
    }

    /// Whether all keys were put in.
    pub fn is_walked(&self) -> bool {
        self.is_walked.load(Ordering::Acquire)
    }

    /// Whether something waits to be written.
    pub fn has_some(&self) -> bool {
        !self.has_failed.load(Ordering::Acquire) && self.waiting.load(Ordering::Acquire) > 0
    }

    /// All keys were put in.
    pub fn end_walk(&self) {
        self.is_walked.store(true, Ordering::Release);
        self.filled.notify_one();
    }

    /// Waits until something waits to be written, or all keys were put in.
    pub fn wait(&self, at_most: Duration) {
        let mut queue = self.queue.lock();
        if queue.bytes.is_empty() && !self.is_walked() {
            self.filled.wait_for(&mut queue, at_most);
        }
    }

    /// Writes what waits; and syncs what has gathered.
    pub fn write_out(&self) {
        let mut file = self.file.lock();
        if let Err(error) = self.write_to(&mut file) {
            file.error.get_or_insert_with(|| error.to_string());
            drop(file);
            self.forget();
        }
    }

    fn write_to(&self, file: &mut Out<T>) -> io::Result<()> {
        {
            let mut queue = self.queue.lock();
            std::mem::swap(&mut queue.bytes, &mut file.buffer);
        }
        let written = file.target.append(&file.buffer);
        let len = file.buffer.len();
        file.buffer.clear();
        file.buffer.shrink_to(BUFFER_KEPT);
        // What was forgotten meanwhile is counted still, which nobody asks for any more.
        self.waiting.fetch_sub(len, Ordering::AcqRel);
        written?;
        file.len += len as u64;
        file.unsynced += len;
        if file.unsynced >= SYNC_STEP {
            file.target.settle()?;
            file.unsynced = 0;
        }
        Ok(())
    }

    /// Writes the end, after which all is on the disk; `write_end` gives how long that is. The error is the first that
    /// there was.
    pub fn end(&self, write_end: impl FnOnce(&mut T) -> io::Result<u64>) -> Result<(), String> {
        self.write_out();
        let mut file = self.file.lock();
        if let Some(error) = &file.error {
            return Err(error.clone());
        }
        let written = write_end(&mut file.target).and_then(|len| file.target.settle().map(|()| len));
        file.len += written.map_err(|error| error.to_string())?;
        Ok(())
    }

    fn add(&self, database: usize, node: &Node) -> Result<(), String> {
        let mut queue = self.queue.lock();
        let Queue { bytes, encoder } = &mut *queue;
        let before = bytes.len();
        encoder.encode(bytes, database, node)?;
        self.waiting.fetch_add(bytes.len() - before, Ordering::AcqRel);
        Ok(())
    }
}

impl<E: Encode, T: Target> ImageSink for Spool<E, T> {
    fn put(&self, database: usize, node: &Node) {
        if self.has_failed.load(Ordering::Acquire) {
            return;
        }
        if let Err(reason) = self.add(database, node) {
            return self.fail(&reason);
        }
        let waiting = self.waiting.load(Ordering::Acquire);
        if waiting >= WAITING_HARD_MAX {
            self.write_out();
        } else if waiting >= WAITING_MAX / 4 {
            self.filled.notify_one();
        }
    }

    fn has_room(&self) -> bool {
        self.has_failed.load(Ordering::Acquire) || self.waiting.load(Ordering::Acquire) < WAITING_MAX
    }
}
