//! The stream: the bytes sent to replicas, kept while they may be requested.
//!
//! ```text
//!            begin                                             end
//!              |-- block --|-- block --|-- block --|-- tail --|
//!                     ^ a replica that lags        ^ another
//! ```
//!
//! Blocks are shared by the backlog and all replicas: a link copies nothing. They are kept while the backlog is within
//! its size, and while a replica has not read them; a replica that lags by more than its limit is cut.

use super::ReplicaLimits;
use crate::base::narrowing::size;
use crate::base::planted::is_planted;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::Notify;

/// Bytes of a block: the backlog is trimmed by blocks. With the two counters of an [`Arc`] one takes 64 KB, which is a
/// size of the allocator's; a byte more would take 80.
const BLOCK_LEN: usize = if cfg!(test) { 16 } else { 64 * 1024 - 2 * size_of::<usize>() };
/// The memory of a block.
const BLOCK_MEMORY: u64 = (size_of::<Block>() + 2 * size_of::<usize>() + BLOCK_LEN) as u64;

/// The kept bytes of the stream.
#[derive(Debug)]
pub struct Stream {
    kept: Mutex<Kept>,
    /// Its end: `master_repl_offset` in INFO.
    end: AtomicU64,
}

/// Invariants: blocks follow each other without a gap, the first begins at `begin`, `tail` follows the last, and no
/// reader is before `begin`.
#[derive(Debug, Default)]
struct Kept {
    is_active: bool,
    begin: u64,
    blocks: VecDeque<Block>,
    tail: Vec<u8>,
    backlog_bytes: u64,
    limits: ReplicaLimits,
    readers: Vec<Arc<Reader>>,
}

#[derive(Debug, Clone)]
struct Block {
    begin: u64,
    bytes: Arc<[u8]>,
}

/// A reader of the stream.
#[derive(Debug)]
struct Reader {
    /// The next byte that it reads.
    position: AtomicU64,
    /// Whether it lagged too far, or the stream has ended: it reads no more.
    is_cut: AtomicBool,
    /// Whether it was cut because it lagged.
    has_lagged: AtomicBool,
    wakeup: Notify,
}

/// A cursor in the stream: the bytes after it are kept until it moves on, or is dropped.
#[derive(Debug)]
pub struct Cursor {
    stream: Arc<Stream>,
    reader: Arc<Reader>,
}

/// Reports how far a cursor lags behind the end of the stream.
#[derive(Debug)]
pub struct Gauge {
    stream: Arc<Stream>,
    reader: Arc<Reader>,
}

impl Gauge {
    /// How many bytes are in between; `None` if the cursor is gone.
    pub fn lag(&self) -> u64 {
        let is_gone = self.reader.is_cut.load(Ordering::Acquire) || Arc::strong_count(&self.reader) == 1;
        if is_gone { 0 } else { self.stream.end().saturating_sub(self.reader.position.load(Ordering::Acquire)) }
    }
}

/// Bytes of the stream that are sent together.
#[derive(Debug)]
pub struct Chunk {
    bytes: Arc<[u8]>,
    range: Range<usize>,
}

impl Chunk {
    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.range.clone()]
    }
}

/// The backlog, for INFO.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backlog {
    /// Whether anything is kept.
    pub is_active: bool,
    /// Its length while no replica lags.
    pub size: u64,
    /// The first offset that it has, counted from 1 as Redis does; 0 if nothing is kept.
    pub first: u64,
    /// How long it is.
    pub len: u64,
    /// The memory that it takes, with what is kept for replicas that lag.
    pub memory: u64,
    /// The memory of what is kept only because a replica lags.
    pub lagging: u64,
}

impl Stream {
    /// An empty stream.
    pub fn new() -> Self {
        Self { kept: Mutex::default(), end: AtomicU64::new(0) }
    }

    /// Where it ends.
    pub fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// Sets the size of the backlog, and how far a replica may lag.
    pub fn set_limits(&self, backlog_bytes: u64, limits: ReplicaLimits) {
        let mut kept = self.kept.lock();
        kept.backlog_bytes = backlog_bytes;
        kept.limits = limits;
        kept.trim();
    }

    /// Keeps bytes from here on.
    pub fn begin(&self) {
        let mut kept = self.kept.lock();
        if !kept.is_active {
            kept.is_active = true;
            kept.begin = self.end();
        }
    }

    /// Stops keeping bytes, and cuts all readers: the stream continues elsewhere.
    pub fn finish(&self) {
        let mut kept = self.kept.lock();
        kept.is_active = false;
        kept.blocks.clear();
        kept.tail = Vec::new();
        kept.begin = self.end();
        kept.readers.drain(..).for_each(|reader| reader.cut());
    }

    /// Cuts all readers: they reconnect, and receive the new name of the stream.
    pub fn cut_all(&self) {
        self.kept.lock().readers.drain(..).for_each(|reader| reader.cut());
    }

    /// Moves the end of a stream that keeps nothing.
    pub fn set_end(&self, end: u64) {
        let mut kept = self.kept.lock();
        assert!(kept.blocks.is_empty() && kept.tail.is_empty(), "what is kept ends at the end");
        kept.begin = end;
        self.end.store(end, Ordering::Release);
    }

    /// Appends bytes.
    pub fn append(&self, bytes: &[u8]) {
        let mut kept = self.kept.lock();
        if kept.is_active {
            kept.append(bytes, self.end());
        }
        let is_counted = !(is_planted("PingNotCounted") && bytes.ends_with(b"PING\r\n"));
        self.end.fetch_add(if is_counted { bytes.len() as u64 } else { 0 }, Ordering::Release);
        kept.cut_those_who_lag(self.end());
        kept.trim();
        kept.readers.iter().for_each(|reader| reader.wakeup.notify_one());
    }

    /// A cursor at the end.
    pub fn cursor_at_end(self: &Arc<Self>) -> Cursor {
        let mut kept = self.kept.lock();
        Cursor { stream: Arc::clone(self), reader: kept.add_reader(self.end()) }
    }

    /// A cursor at this offset, if it is kept.
    pub fn cursor_at(self: &Arc<Self>, offset: u64) -> Option<Cursor> {
        let mut kept = self.kept.lock();
        let begin = kept.begin + u64::from(is_planted("BacklogShort"));
        let is_kept = kept.is_active && (begin..=self.end()).contains(&offset);
        is_kept.then(|| Cursor { stream: Arc::clone(self), reader: kept.add_reader(offset) })
    }

    /// What is kept.
    pub fn backlog(&self) -> Backlog {
        let kept = self.kept.lock();
        let first = if kept.is_active { kept.begin + 1 } else { 0 };
        let len = if kept.is_active { self.end() - kept.begin } else { 0 };
        Backlog {
            is_active: kept.is_active,
            size: kept.backlog_bytes,
            first,
            len,
            memory: kept.memory(),
            lagging: kept.lagging_memory(),
        }
    }
}

impl Default for Stream {
    fn default() -> Self {
        Self::new()
    }
}

impl Kept {
    /// Appends bytes at the end. However many they are, the tail stays small: its memory is kept.
    fn append(&mut self, mut bytes: &[u8], end: u64) {
        let mut begin = end - self.tail.len() as u64;
        while self.tail.len() + bytes.len() >= BLOCK_LEN {
            let (first, rest) = bytes.split_at(BLOCK_LEN - self.tail.len());
            let block = match self.tail.is_empty() {
                true => first.into(),
                false => [&self.tail, first].concat().into(),
            };
            self.blocks.push_back(Block { begin, bytes: block });
            self.tail.clear();
            begin += BLOCK_LEN as u64;
            bytes = rest;
        }
        self.tail.extend_from_slice(bytes);
    }

    fn add_reader(&mut self, position: u64) -> Arc<Reader> {
        let reader = Arc::new(Reader {
            position: AtomicU64::new(position),
            is_cut: AtomicBool::new(false),
            has_lagged: AtomicBool::new(false),
            wakeup: Notify::new(),
        });
        self.readers.push(Arc::clone(&reader));
        reader
    }

    /// Drops blocks that no reader needs, as long as the rest has the size of the backlog.
    fn trim(&mut self) {
        let positions = self.readers.iter().map(|reader| reader.position.load(Ordering::Acquire));
        let needed = positions.min().unwrap_or(u64::MAX);
        while let Some(Block { begin, bytes }) = self.blocks.front() {
            let end = begin + bytes.len() as u64;
            if end > needed || self.len() - (bytes.len() as u64) < self.backlog_bytes {
                break;
            }
            self.begin = end;
            self.blocks.pop_front();
        }
    }

    fn len(&self) -> u64 {
        let blocks = self.blocks.back().map_or(0, |last| last.begin + last.bytes.len() as u64 - self.begin);
        blocks + self.tail.len() as u64
    }

    fn memory(&self) -> u64 {
        self.blocks.len() as u64 * BLOCK_MEMORY + self.tail.capacity() as u64
    }

    /// The memory of the blocks that would be dropped if there were no readers.
    fn lagging_memory(&self) -> u64 {
        let beyond = self.len().saturating_sub(self.backlog_bytes) / BLOCK_LEN as u64;
        beyond.min(self.blocks.len() as u64) * BLOCK_MEMORY
    }

    fn cut_those_who_lag(&mut self, end: u64) {
        // As in Redis: replicas that may request the backlog may lag by it.
        let most = self.limits.hard_max.max(self.backlog_bytes);
        self.readers.retain(|reader| {
            let lags = end - reader.position.load(Ordering::Acquire) > most;
            if lags {
                reader.has_lagged.store(true, Ordering::Release);
                reader.cut();
            }
            !lags
        });
    }

    fn chunk_at(&self, position: u64) -> Option<Chunk> {
        let index = self.blocks.partition_point(|block| block.begin <= position);
        if let Some(Block { begin, bytes }) = index.checked_sub(1).map(|index| &self.blocks[index])
            && position < begin + bytes.len() as u64
        {
            return Some(Chunk { bytes: Arc::clone(bytes), range: size(position - begin)..bytes.len() });
        }
        let tail_begin = self.begin + self.len() - self.tail.len() as u64;
        let tail = &self.tail[size(position.checked_sub(tail_begin)?)..];
        (!tail.is_empty()).then(|| Chunk { bytes: tail.into(), range: 0..tail.len() })
    }
}

impl Reader {
    fn cut(&self) {
        self.is_cut.store(true, Ordering::Release);
        self.wakeup.notify_one();
    }
}

impl Cursor {
    /// Its position.
    pub fn position(&self) -> u64 {
        self.reader.position.load(Ordering::Acquire)
    }

    /// Whether it lagged too far, or the stream has ended: there is nothing more to read.
    pub fn is_cut(&self) -> bool {
        self.reader.is_cut.load(Ordering::Acquire)
    }

    /// Whether it was cut because it lagged.
    pub fn has_lagged(&self) -> bool {
        self.reader.has_lagged.load(Ordering::Acquire)
    }

    /// The bytes at this cursor; `None` at the end of the stream.
    pub fn read(&self) -> Option<Chunk> {
        if self.is_cut() { None } else { self.stream.kept.lock().chunk_at(self.position()) }
    }

    /// Moves on.
    pub fn advance(&self, bytes: usize) {
        self.reader.position.fetch_add(bytes as u64, Ordering::AcqRel);
    }

    /// How many bytes follow it.
    pub fn lag(&self) -> u64 {
        self.stream.end().saturating_sub(self.position())
    }

    /// A gauge that reports its lag.
    pub fn gauge(&self) -> Gauge {
        Gauge { stream: Arc::clone(&self.stream), reader: Arc::clone(&self.reader) }
    }

    /// Waits until something was appended, or it was cut.
    pub async fn changed(&self) {
        self.reader.wakeup.notified().await;
    }

    /// Another cursor at the same position.
    pub fn fork(&self) -> Self {
        let mut kept = self.stream.kept.lock();
        let reader = kept.add_reader(self.position());
        if self.is_cut() {
            reader.cut();
        }
        Self { stream: Arc::clone(&self.stream), reader }
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        let mut kept = self.stream.kept.lock();
        kept.readers.retain(|reader| !Arc::ptr_eq(reader, &self.reader));
        kept.trim();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(backlog_bytes: u64, hard_max: u64) -> Arc<Stream> {
        let stream = Arc::new(Stream::new());
        stream.set_limits(backlog_bytes, ReplicaLimits { hard_max, ..ReplicaLimits::default() });
        stream.begin();
        stream
    }

    fn bytes(range: Range<u64>) -> Vec<u8> {
        range.map(|at| (at * 7 % 251) as u8).collect()
    }

    fn read_all(cursor: &Cursor) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(chunk) = cursor.read() {
            all.extend_from_slice(chunk.bytes());
            cursor.advance(chunk.bytes().len());
        }
        all
    }

    #[test]
    fn every_offset_of_the_backlog_reads_what_was_written_there_and_none_before_it_is_given() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..50 {
            let size = random.u64(1..200);
            let stream = stream(size, u64::MAX);
            let mut end = 0;
            for _ in 0..60 {
                let added = random.u64(1..50);
                stream.append(&bytes(end..end + added));
                end += added;
                let backlog = stream.backlog();
                assert!(backlog.len >= size.min(end), "{backlog:?} at {end}");
                assert!(backlog.len < size + 2 * BLOCK_LEN as u64, "{backlog:?}");
                assert_eq!(backlog.first + backlog.len, end + 1);
                for offset in 0..=end + 1 {
                    let is_kept = offset + 1 >= backlog.first && offset <= end;
                    let cursor = stream.cursor_at(offset);
                    assert_eq!(cursor.is_some(), is_kept, "{offset} of {backlog:?}");
                    if let Some(cursor) = cursor {
                        assert_eq!(read_all(&cursor), bytes(offset..end), "from {offset}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_a_replica_has_before_it_is_kept_until_it_lags_by_more_than_its_limit() {
        let stream = stream(10, 100);
        let cursor = stream.cursor_at_end();
        stream.append(&bytes(0..100));
        assert_eq!(stream.backlog().len, 100);
        assert!(!cursor.is_cut());
        assert!(stream.backlog().lagging >= 5 * BLOCK_MEMORY, "{:?}", stream.backlog());
        assert_eq!(read_all(&cursor), bytes(0..100));
        stream.append(&bytes(100..101));
        assert_eq!(stream.backlog().lagging, 0, "{:?}", stream.backlog());
        assert!(stream.backlog().len < 50, "{:?}", stream.backlog());
        stream.append(&bytes(101..200));
        assert!(!cursor.is_cut());
        stream.append(&bytes(200..201));
        assert!(cursor.is_cut() && cursor.read().is_none());
        assert!(stream.backlog().len < 50, "{:?}", stream.backlog());
    }

    #[test]
    fn much_that_is_appended_at_once_leaves_no_memory_behind() {
        let stream = stream(10, 0);
        stream.append(&bytes(0..7));
        stream.append(&bytes(7..10_000));
        assert!(stream.backlog().len < 50, "{:?}", stream.backlog());
        assert!(stream.kept.lock().tail.capacity() < 50, "{} bytes", stream.kept.lock().tail.capacity());
    }

    #[test]
    fn nothing_is_kept_of_a_stream_that_nobody_asks_for() {
        let stream = stream(1000, 1000);
        let cursor = stream.cursor_at_end();
        stream.append(b"some bytes");
        stream.finish();
        assert!(cursor.is_cut());
        stream.append(b"others");
        assert_eq!((stream.end(), stream.backlog().len), (16, 0));
        assert!(stream.cursor_at(16).is_none());
        stream.begin();
        stream.append(b"!");
        assert_eq!(read_all(&stream.cursor_at(16).expect("it is kept")), b"!");
        assert!(stream.cursor_at(15).is_none());
    }
}
