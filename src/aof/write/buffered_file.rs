//! Appends to a log file by way of its [write buffer](write_buffer).
//!
//! Appended bytes are copied into the buffer, and under `everysec` and `no` a reply waits for nothing else: no system
//! call. The log thread writes them to the file in large pieces (docs/adr/0018).

use crate::aof::disk::{Disk, LogFile, MappedFile, Mapping, write_some};
use crate::aof::format::Salt;
use crate::aof::format::write_buffer::{self, ALIGNMENT, DESCRIPTOR_STEP, Descriptor, MAGIC, SLOT_HEADER, SLOT_LEN};
use crate::base::narrowing::size;
use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// How many slots a buffer has at first: one is filled, one is written out.
const SLOTS_MIN: usize = 2;
/// How many it has at most. On a slow disk they wait to be written out; when all are full, appends wait.
const SLOTS_MAX: usize = if cfg!(test) { 4 } else { 16 };

/// Opens a file with this salt for appending, with a buffer if the disk has memory for one.
pub fn append_buffered(disk: &dyn Disk, path: &Path, salt: Salt) -> io::Result<Arc<dyn LogFile>> {
    let file = disk.append_to(path)?;
    let buffer = disk.map(&write_buffer::path_of(path)).and_then(|slots| slots.map(Slots::new).transpose());
    match buffer {
        Ok(Some(slots)) => Ok(Arc::new(BufferedFile::new(file, slots, salt))),
        Ok(None) => Ok(file),
        Err(error) => {
            tracing::warn!("{} has no write buffer, and is slower for that: {error}", path.display());
            Ok(file)
        }
    }
}

/// A log file with a buffer before it.
///
/// Invariants: the contents of the slots (the full ones in order, then the one being filled) follow the contents of the
/// file; one slot at a time is written out.
#[derive(Debug)]
struct BufferedFile {
    file: Arc<dyn LogFile>,
    salt: Salt,
    state: Mutex<State>,
    /// Held while slots are written out.
    turn: Mutex<()>,
}

#[derive(Debug)]
struct State {
    filling: Option<Slot>,
    full: VecDeque<Slot>,
    slots: Slots,
    /// Where the file ends, including the contents of the slots.
    end: u64,
    /// The number of the next descriptor.
    number: u64,
}

/// The empty slots.
#[derive(Debug)]
struct Slots {
    /// The last one used is the next one taken: it is in the processor's cache.
    free: Vec<Box<dyn Mapping>>,
    count: usize,
    buffer: Box<dyn MappedFile>,
}

impl Slots {
    fn new(buffer: Box<dyn MappedFile>) -> io::Result<Self> {
        let mut slots = Self { free: Vec::with_capacity(SLOTS_MAX), count: 0, buffer };
        (0..SLOTS_MIN).try_for_each(|_| slots.grow())?;
        Ok(slots)
    }

    fn grow(&mut self) -> io::Result<()> {
        let mut slot = self.buffer.grow(SLOT_HEADER + SLOT_LEN)?;
        let (magic, at) = MAGIC;
        slot.store(at, magic);
        self.free.push(slot);
        self.count += 1;
        Ok(())
    }

    /// One to fill, if there is one. On a full disk only the existing ones are used.
    fn take(&mut self) -> Option<Box<dyn Mapping>> {
        if self.free.is_empty() && self.count < SLOTS_MAX {
            let _ = self.grow();
        }
        self.free.pop()
    }
}

/// A slot with contents.
#[derive(Debug)]
struct Slot {
    mapping: Box<dyn Mapping>,
    /// The position of its bytes in the file.
    base: u64,
    len: usize,
    crc: crc32fast::Hasher,
    /// Which descriptor is written next.
    is_second: bool,
    /// How many of its bytes the file has.
    handed_over: usize,
}

impl Slot {
    fn new(mapping: Box<dyn Mapping>, base: u64) -> Self {
        Self { mapping, base, len: 0, crc: crc32fast::Hasher::new(), is_second: false, handed_over: 0 }
    }

    /// The position of its bytes in the mapping.
    fn start(&self) -> usize {
        SLOT_HEADER + size(self.base % ALIGNMENT)
    }

    fn room(&self) -> usize {
        self.mapping.get().len() - self.start() - self.len
    }

    /// Adds as many bytes as fit, and returns how many those are.
    fn add(&mut self, bytes: &[u8], number: u64, salt: Salt) -> usize {
        let added = &bytes[..bytes.len().min(self.room())];
        self.mapping.put(self.start() + self.len, added);
        self.len += added.len();
        self.crc.update(added);
        let crc = self.crc.clone().finalize();
        let descriptor = Descriptor {
            number,
            base: self.base,
            len: u32::try_from(self.len).expect("a slot is shorter"),
            crc,
            salt: Some(salt),
        };
        self.put_descriptor(&descriptor);
        self.is_second = !self.is_second;
        added.len()
    }

    /// Writes a descriptor so that a kill leaves all of it, or none.
    fn put_descriptor(&mut self, descriptor: &Descriptor) {
        let start = usize::from(self.is_second) * DESCRIPTOR_STEP;
        let words = descriptor.to_words();
        self.mapping.store(start, 0);
        for (index, word) in words.iter().enumerate().skip(1) {
            self.mapping.store(start + index * size_of::<u64>(), *word);
        }
        self.mapping.store(start, words[0]);
    }

    /// Writes the rest of it to the file.
    fn hand_over(&mut self, file: &dyn LogFile) -> io::Result<()> {
        while self.handed_over < self.len {
            let start = self.start();
            let left = &self.mapping.get()[start + self.handed_over..start + self.len];
            self.handed_over += write_some(file, left)?;
        }
        Ok(())
    }
}

impl BufferedFile {
    fn new(file: Arc<dyn LogFile>, slots: Slots, salt: Salt) -> Self {
        let end = file.end();
        let state = State { filling: None, full: VecDeque::with_capacity(SLOTS_MAX), slots, end, number: 1 };
        Self { file, salt, state: Mutex::new(state), turn: Mutex::new(()) }
    }

    /// Puts as many bytes as fit into a slot; `None` if all are full.
    fn put(&self, bytes: &[u8]) -> Option<usize> {
        let state = &mut *self.state.lock();
        let slot = match &mut state.filling {
            Some(slot) => slot,
            none => none.insert(Slot::new(state.slots.take()?, state.end)),
        };
        let len = slot.add(bytes, state.number, self.salt);
        state.number += 1;
        state.end += len as u64;
        if slot.room() == 0 {
            state.full.extend(state.filling.take());
        }
        Some(len)
    }

    /// Writes out the first slots, at most this many; the caller holds `turn`.
    fn hand_over(&self, _turn: &MutexGuard<'_, ()>, slots: usize, which: Which) -> io::Result<()> {
        for _ in 0..slots {
            let Some(mut slot) = ({ self.state.lock() }).next(which) else { break };
            let result = slot.hand_over(&*self.file);
            let mut state = self.state.lock();
            match result {
                Ok(()) => state.slots.free.push(slot.mapping),
                Err(error) => {
                    state.full.push_front(slot);
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

/// Which slots are written out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    /// The full ones. They end with a page, so the contents of the next bypass the page cache as well.
    Full,
    /// The one being filled, too.
    All,
}

impl State {
    fn next(&mut self, which: Which) -> Option<Slot> {
        self.full.pop_front().or_else(|| self.filling.take_if(|_| which == Which::All))
    }
}

impl LogFile for BufferedFile {
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        // Bytes longer than a slot gain nothing from a copy.
        if bytes.len() >= SLOT_LEN {
            return self.write_through(bytes);
        }
        loop {
            if let Some(len) = self.put(bytes) {
                return Ok(len);
            }
            // The log thread is late, perhaps in an fsync.
            self.hand_over(&self.turn.lock(), 1, Which::Full)?;
        }
    }

    fn write_through(&self, bytes: &[u8]) -> io::Result<usize> {
        let turn = self.turn.lock();
        self.hand_over(&turn, SLOTS_MAX, Which::All)?;
        let len = self.file.write(bytes)?;
        self.state.lock().end += len as u64;
        Ok(len)
    }

    fn end(&self) -> u64 {
        self.state.lock().end
    }

    fn drain(&self) -> io::Result<()> {
        self.hand_over(&self.turn.lock(), SLOTS_MAX, Which::All)
    }

    fn drain_full(&self) -> io::Result<()> {
        self.hand_over(&self.turn.lock(), SLOTS_MAX, Which::Full)
    }

    fn wants_drain(&self) -> bool {
        !self.state.lock().full.is_empty()
    }

    fn buffered(&self) -> u64 {
        self.end() - self.file.end()
    }

    fn sync_buffer(&self) -> io::Result<()> {
        self.state.lock().slots.buffer.sync()
    }

    fn close(&self) -> io::Result<()> {
        self.state.lock().slots.buffer.unlink()
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn padding(&self) -> u64 {
        self.file.padding()
    }

    fn pad(&self, len: u64) -> io::Result<()> {
        // After what was written out, not between that and the rest of a slot.
        let _turn = self.turn.lock();
        self.file.pad(len)
    }

    fn trim(&self) -> io::Result<()> {
        let _turn = self.turn.lock();
        self.file.trim()
    }
}
