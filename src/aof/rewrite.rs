//! Rewriting: a base, which has every key once, comes in the place of all that led to it. There is no fork.
//!
//! ```text
//! 1. an increment for each segment is made, and the manifest names it     chain C increments A to N
//! 2. at one point of the order of all commands every segment goes on in it, and an image of its keys begins
//! 3. the image is written to a base for each segment, while commands run and are logged in the increment
//! 4. the bases are synced; the manifest begins with them; what is older is removed        chain C base N increments N to N
//! ```
//!
//! At every step the files that the manifest names hold all that was acknowledged, so a crash loses nothing, and what a
//! crash leaves besides is removed by the next start. Why that is so is argued in docs/adr/0012-rewriting.md.

use super::disk::{Disk, LogFile};
use super::manifest::{ChainEntry, Manifest};
use super::record::{Note, SEGMENT_HEADER, Salt, frame_note_onto, frame_onto, segment_header};
use super::segment::{NextFile, Segment};
use crate::keyspace::{Effects, ImageSink, Node, Value};
use crate::rdb;
use parking_lot::{Condvar, Mutex};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Bytes of a base that wait to be written, from which on the walk pauses.
const WAITING_MAX: usize = 256 * 1024;
/// Bytes that wait though the walk pauses, of keys that change before their turn: who changes more writes them.
const WAITING_HARD_MAX: usize = 8 * 1024 * 1024;
/// Bytes of a base that are synced at once: the last fsync is to be a short one.
const SYNC_STEP: usize = 8 * 1024 * 1024;
/// Buffers above this size are given back when they were written.
const BUFFER_KEPT: usize = 1024 * 1024;
/// The longest value that a record holds.
const VALUE_LEN_MAX: usize = u32::MAX as usize / 2;
/// How long the writing waits for more at most.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// What rewrites the log of a server that runs.
#[derive(Debug)]
pub struct Rewriter {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    manifest: Mutex<Manifest>,
    segments: Vec<Arc<Segment>>,
}

impl Rewriter {
    /// For a log that was recovered.
    pub fn new(disk: Arc<dyn Disk>, dir: PathBuf, manifest: Manifest, segments: Vec<Arc<Segment>>) -> Self {
        Self { disk, dir, manifest: Mutex::new(manifest), segments }
    }

    /// The segments.
    pub fn segments(&self) -> &[Arc<Segment>] {
        &self.segments
    }

    /// Makes the files of a rewriting; `epoch` is the mark that the increments will begin with. Nothing has changed if it
    /// fails.
    pub fn begin(&self, epoch: u64) -> io::Result<Rewrite> {
        let mut manifest = self.manifest.lock();
        let mut longer = manifest.clone();
        let chain = longer.last_mut().expect("a log that is written to has a chain");
        chain.last += 1;
        let chain = chain.clone();
        let parts = self.segments.iter().enumerate().map(|(index, segment)| self.begin_part(&chain, index, segment));
        let parts = parts.collect::<io::Result<Vec<_>>>()?;
        self.disk.sync_dir(&self.dir)?;
        longer.write(&*self.disk, &self.dir)?;
        *manifest = longer;
        Ok(Rewrite { number: chain.last, epoch, parts })
    }

    fn begin_part(&self, chain: &ChainEntry, index: usize, segment: &Arc<Segment>) -> io::Result<Part> {
        let increment = ChainEntry::increment_path(&self.dir, chain.number, index, chain.last);
        let base = ChainEntry::base_path(&self.dir, chain.number, index, chain.last);
        let file = self.new_file(&increment, segment.salt())?;
        file.sync()?;
        let next = NextFile { increment: chain.last, path: increment, file };
        let base = Arc::new(Base::new(self.new_file(&base, segment.salt())?, segment.salt()));
        Ok(Part { segment: Arc::clone(segment), next: Mutex::new(Some(next)), records: Mutex::new(None), base })
    }

    /// A file with a header, in place of what an earlier attempt may have left.
    fn new_file(&self, path: &Path, salt: Salt) -> io::Result<Arc<dyn LogFile>> {
        if self.disk.read(path)?.is_some() {
            self.disk.remove(path)?;
        }
        let file = self.disk.append_to(path)?;
        file.write_all(&segment_header(salt))?;
        Ok(file)
    }

    /// Puts the bases in the place of what led to them. All keys are in them. If it fails, the log stays as it was.
    pub fn finish(&self, rewrite: &Rewrite) -> Result<(), String> {
        let describe = |error: io::Error| error.to_string();
        for part in &rewrite.parts {
            let records = part.records.lock().ok_or("the log could not be written when it began")?;
            part.base.end(records)?;
            // The bases are a state that was only together with the marks that the increments begin with.
            part.segment.settle_in_file().map_err(describe)?;
        }
        let mut manifest = self.manifest.lock();
        self.disk.sync_dir(&self.dir).map_err(describe)?;
        let last = manifest.chains().last().expect("a log that is written to has a chain");
        let chain = ChainEntry { has_base: true, first: rewrite.number, last: rewrite.number, ..last.clone() };
        let shorter = Manifest::of_chains(manifest.boot.clone(), vec![chain]);
        shorter.write(&*self.disk, &self.dir).map_err(describe)?;
        let old = std::mem::replace(&mut *manifest, shorter);
        rewrite.parts.iter().for_each(|part| part.segment.note_base(part.base.len()));
        self.remove_old(&old, &manifest);
        Ok(())
    }

    fn remove_old(&self, old: &Manifest, new: &Manifest) {
        let kept: Vec<PathBuf> = new.files(&self.dir).collect();
        for path in old.files(&self.dir).filter(|path| !kept.contains(path)) {
            if let Err(error) = self.disk.remove(&path)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!("Can't remove {}, which is no part of the log any more: {error}", path.display());
            }
        }
    }
}

/// A rewriting that was begun.
#[derive(Debug)]
pub struct Rewrite {
    number: u32,
    epoch: u64,
    parts: Vec<Part>,
}

/// One segment's part of it.
#[derive(Debug)]
struct Part {
    segment: Arc<Segment>,
    next: Mutex<Option<NextFile>>,
    /// How many records the base stands for, once that is known.
    records: Mutex<Option<u64>>,
    base: Arc<Base>,
}

impl Rewrite {
    /// Where the image of each owner goes.
    pub fn bases(&self) -> impl Iterator<Item = Arc<Base>> {
        self.parts.iter().map(|part| Arc::clone(&part.base))
    }

    /// Lets a segment go on in its increment. Called at the moment at which the image of its owner begins, with the
    /// exclusion of all who append to it.
    pub fn go_on(&self, segment: usize) {
        let part = &self.parts[segment];
        let next = part.next.lock().take().expect("a segment goes on once");
        match part.segment.go_on_in(next, self.epoch) {
            Ok(records) => *part.records.lock() = Some(records),
            Err(error) => part.base.fail(&error),
        }
    }

    /// Writes what waits to be written, and waits for more; until all keys are in the bases.
    pub fn write_until_walked(&self) {
        let mut next = 0;
        while !self.parts.iter().all(|part| part.base.is_walked()) || self.parts.iter().any(|part| part.base.has_some())
        {
            self.parts.iter().for_each(|part| part.base.write_out());
            let part = &self.parts[next % self.parts.len()];
            part.base.wait(WAIT_MAX / self.parts.len() as u32);
            next += 1;
        }
    }

    /// All keys are in the bases.
    pub fn end_walk(&self) {
        self.parts.iter().for_each(|part| part.base.end_walk());
    }

    /// How long the bases are.
    pub fn len(&self) -> u64 {
        self.parts.iter().map(|part| part.base.len()).sum()
    }

    /// Whether there are no bases.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

/// A base while it is written: the keys of one segment.
///
/// Whoever has the keys puts them into a buffer; another thread writes that. A base that has failed takes keys as
/// before, and forgets them: the image goes on to its end, which is what the next one begins from.
#[derive(Debug)]
pub struct Base {
    salt: Salt,
    queue: Mutex<Queue>,
    waiting: AtomicUsize,
    file: Mutex<BaseFile>,
    has_failed: AtomicBool,
    is_walked: AtomicBool,
    filled: Condvar,
}

#[derive(Debug)]
struct Queue {
    bytes: Vec<u8>,
    effects: Effects,
}

#[derive(Debug)]
struct BaseFile {
    file: Arc<dyn LogFile>,
    buffer: Vec<u8>,
    len: u64,
    unsynced: usize,
    error: Option<String>,
}

impl Base {
    fn new(file: Arc<dyn LogFile>, salt: Salt) -> Self {
        let len = SEGMENT_HEADER as u64;
        Self {
            salt,
            queue: Mutex::new(Queue { bytes: Vec::new(), effects: Effects::new(true) }),
            waiting: AtomicUsize::new(0),
            file: Mutex::new(BaseFile { file, buffer: Vec::new(), len, unsynced: 0, error: None }),
            has_failed: AtomicBool::new(false),
            is_walked: AtomicBool::new(false),
            filled: Condvar::new(),
        }
    }

    fn len(&self) -> u64 {
        self.file.lock().len
    }

    fn fail(&self, error: &dyn std::fmt::Display) {
        self.file.lock().error.get_or_insert_with(|| error.to_string());
        self.forget();
    }

    fn forget(&self) {
        self.has_failed.store(true, Ordering::Release);
        self.queue.lock().bytes = Vec::new();
    }

    fn is_walked(&self) -> bool {
        self.is_walked.load(Ordering::Acquire)
    }

    fn has_some(&self) -> bool {
        !self.has_failed.load(Ordering::Acquire) && self.waiting.load(Ordering::Acquire) > 0
    }

    fn end_walk(&self) {
        self.is_walked.store(true, Ordering::Release);
        self.filled.notify_one();
    }

    fn wait(&self, at_most: Duration) {
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

    fn write_to(&self, file: &mut BaseFile) -> io::Result<()> {
        {
            let mut queue = self.queue.lock();
            std::mem::swap(&mut queue.bytes, &mut file.buffer);
        }
        let written = file.file.write_all(&file.buffer);
        let len = file.buffer.len();
        file.buffer.clear();
        file.buffer.shrink_to(BUFFER_KEPT);
        // What was forgotten meanwhile is counted still, which nobody asks for any more.
        self.waiting.fetch_sub(len, Ordering::AcqRel);
        written?;
        file.len += len as u64;
        file.unsynced += len;
        if file.unsynced >= SYNC_STEP {
            file.file.sync()?;
            file.unsynced = 0;
        }
        Ok(())
    }

    /// Writes the end, after which it is on the disk. The error is the first that there was.
    fn end(&self, records: u64) -> Result<(), String> {
        self.write_out();
        let mut file = self.file.lock();
        if let Some(error) = &file.error {
            return Err(error.clone());
        }
        let mut end = Vec::new();
        frame_note_onto(&mut end, self.salt, Note::Base(records));
        file.file.write_all(&end).and_then(|()| file.file.sync()).map_err(|error| error.to_string())?;
        file.len += end.len() as u64;
        Ok(())
    }

    fn add(&self, database: usize, node: &Node) -> Result<(), String> {
        let mut queue = self.queue.lock();
        let Queue { bytes, effects } = &mut *queue;
        effects.select(database);
        tell(effects, node)?;
        let before = bytes.len();
        frame_onto(bytes, self.salt, effects.payload());
        effects.clear();
        self.waiting.fetch_add(bytes.len() - before, Ordering::AcqRel);
        Ok(())
    }
}

/// The effect that makes a node. O(bytes of the value)
fn tell(effects: &mut Effects, node: &Node) -> Result<(), String> {
    let (mut number, mut deadline) = (itoa::Buffer::new(), itoa::Buffer::new());
    let deadline = deadline.format(node.expire_at().unwrap_or(0)).as_bytes();
    let text = match node.value() {
        Value::Integer(integer) => number.format(integer).as_bytes(),
        Value::Text(text) => text,
        Value::Object(_) => {
            let payload = rdb::dump_exactly(node.value());
            if payload.len() > VALUE_LEN_MAX {
                let key = node.key().escape_ascii();
                return Err(format!("the value of the key {key} has {} bytes: a record holds 2 GB", payload.len()));
            }
            effects.add([b"RESTORE", node.key(), deadline, &payload, b"ABSTTL"]);
            return Ok(());
        }
    };
    match node.expire_at() {
        None => effects.add([b"SET", node.key(), text]),
        Some(_) => effects.add([b"SET", node.key(), text, b"PXAT", deadline]),
    }
    Ok(())
}

impl ImageSink for Base {
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
