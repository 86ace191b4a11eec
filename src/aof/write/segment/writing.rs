//! How appended records get into the file: the committing thread or the log thread writes them, one at a time.

use super::{NOWHERE, NextFile, Queue, Segment};
use crate::aof::disk::{LogFile, some_of};
use crate::aof::format::FsyncPolicy;
use crate::base::narrowing::size;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Larger buffers are freed after they are written.
const BUFFER_KEPT: usize = 1024 * 1024;

/// How much of them stays while the log is idle.
const BUFFER_KEPT_IDLE: usize = 16 * 1024;

/// The records that the writer has taken.
#[derive(Debug)]
pub struct Writer {
    /// Where it is written to.
    pub(super) file: Arc<dyn LogFile>,
    /// Its name.
    pub(super) path: PathBuf,
    /// The file that is written to when all that was taken is written.
    pub(super) next: Option<NextFile>,
    /// Files that were written to before and may not be on the disk completely.
    pub(super) unsynced: Vec<Arc<dyn LogFile>>,
    /// Swapped with the queue, so that appends continue while this is written.
    pub(super) buffer: Vec<u8>,
    /// How much of it the operating system has taken.
    taken: usize,
    /// Where it ends in the log.
    pub(super) end: u64,
}

impl Writer {
    /// The files that may not be on the disk completely, in order.
    pub(super) fn files(&self) -> Vec<Arc<dyn LogFile>> {
        self.unsynced.iter().chain([&self.file]).cloned().collect()
    }

    /// Drops what was taken and not written.
    pub(super) fn forget(&mut self) {
        self.buffer.clear();
        self.taken = 0;
    }

    /// A writer of this file, which has taken nothing.
    pub fn new(path: PathBuf, file: Arc<dyn LogFile>) -> Self {
        Self { file, path, next: None, unsynced: Vec::new(), buffer: Vec::new(), taken: 0, end: 0 }
    }
}

impl Segment {
    /// Writes everything appended so far; false if the operating system does not accept all of it.
    pub fn write_all_out(&self) -> bool {
        self.write_out() >= self.appended()
    }

    /// Writes everything appended so far, unless the log is failing, and returns the position it reaches.
    pub(super) fn write_out(&self) -> u64 {
        let mut writer = self.writer.lock();
        self.take_queue(&mut writer);
        self.write_taken_unless_failing(&mut writer);
        self.written.load(Ordering::Acquire)
    }

    /// Writes everything appended so far, and, if the log is failing, what waits in the other segments too. Returns the
    /// position it reaches.
    pub(super) fn write_out_or_try_again(&self) -> u64 {
        if !self.control.is_failing() {
            return self.write_out();
        }
        self.pending_commits.write_in_order();
        self.written.load(Ordering::Acquire)
    }

    /// Takes appended records, if all that was taken before is written.
    fn take_queue(&self, writer: &mut Writer) {
        if writer.buffer.is_empty() {
            let mut queue = self.queue.lock();
            self.swap_buffers(&mut queue, writer);
            writer.end = self.appended();
        }
    }

    /// Hands the appended records to the writer; appends continue in the buffer that it had.
    pub(super) fn swap_buffers(&self, queue: &mut Queue, writer: &mut Writer) {
        std::mem::swap(&mut queue.bytes, &mut writer.buffer);
        self.note_taken_room(writer);
    }

    /// Frees the buffer space left over after a load.
    pub(super) fn give_back_room(&self) {
        let mut writer = self.writer.lock();
        self.queue.lock().bytes.shrink_to(BUFFER_KEPT_IDLE);
        writer.buffer.shrink_to(BUFFER_KEPT_IDLE);
        self.note_taken_room(&writer);
    }

    fn note_taken_room(&self, writer: &Writer) {
        self.taken_room.store(writer.buffer.capacity() as u64, Ordering::Relaxed);
    }

    /// Writes what the writer has taken, unless the log is failing. That is checked after taking: a transaction that
    /// saw data which another segment could not write was appended after that segment had failed.
    pub(super) fn write_taken_unless_failing(&self, writer: &mut Writer) {
        if !self.control.is_failing() {
            self.write_taken(writer, NOWHERE);
        }
    }

    /// Writes records before `limit`, which is the end of a record; false if the operating system does not accept them.
    /// The caller keeps the order over all segments.
    pub(in crate::aof) fn write_up_to(&self, limit: u64) -> bool {
        let mut writer = self.writer.lock();
        // Data that could not be written may be in a file's buffer.
        if self.is_unwritable.load(Ordering::Acquire) && writer.files().iter().any(|file| file.drain().is_err()) {
            return false;
        }
        loop {
            self.take_queue(&mut writer);
            if writer.buffer.is_empty() {
                return true;
            }
            if !self.write_taken(&mut writer, limit) {
                return false;
            }
            if writer.end >= limit {
                return true;
            }
        }
    }

    /// Writes what the writer has taken, up to a limit; false if the operating system does not accept all of it.
    fn write_taken(&self, writer: &mut Writer, limit: u64) -> bool {
        let begin = writer.end - writer.buffer.len() as u64;
        let wanted = size(limit.min(writer.end).saturating_sub(begin));
        let is_synced_at_once = self.control.policy() == FsyncPolicy::Always;
        while writer.taken < wanted {
            let (file, bytes) = (&writer.file, &writer.buffer[writer.taken..wanted]);
            match some_of(|| if is_synced_at_once { file.write_through(bytes) } else { file.write(bytes) }) {
                Ok(len) => writer.taken += len,
                Err(error) => {
                    self.note_write_failure(writer, &error);
                    return false;
                }
            }
        }
        self.written.fetch_max(begin + wanted as u64, Ordering::Release);
        if writer.file.wants_drain() {
            self.wakeup.wake();
        }
        if writer.taken < writer.buffer.len() {
            return true;
        }
        writer.buffer.clear();
        // Stored before the memory is freed: freed memory that still counted as taken would be taken a second time.
        self.taken_room.store(writer.buffer.capacity().min(BUFFER_KEPT) as u64, Ordering::Relaxed);
        writer.buffer.shrink_to(BUFFER_KEPT);
        writer.taken = 0;
        if let Some(NextFile { path, file, .. }) = writer.next.take() {
            writer.path = path;
            let before = std::mem::replace(&mut writer.file, file);
            writer.unsynced.push(before);
        }
        true
    }

    /// Ends the failing state of all segments of a log if everything appended is written. Nothing is appended during
    /// the check: otherwise a client that has read unwritten data could write from then on, and its write could survive
    /// without that data.
    pub(in crate::aof) fn end_failing_if_all_is_written(segments: &[Arc<Self>]) -> bool {
        let queues: Vec<_> = segments.iter().map(|segment| segment.queue.lock()).collect();
        if segments.iter().any(|segment| segment.written.load(Ordering::Acquire) < segment.appended()) {
            return false;
        }
        let is_mended = |segment: &&Arc<Self>| segment.is_unwritable.swap(false, Ordering::AcqRel);
        let mended: Vec<_> = segments.iter().filter(is_mended).collect();
        mended.iter().for_each(|segment| segment.control.note_recovery());
        drop(queues);
        for segment in mended {
            let path = segment.writer.lock().path.clone();
            tracing::warn!("The append-only file {} can be written again", path.display());
        }
        true
    }

    /// Passes the contents of the files' buffers to the file system; false if it does not accept all of them.
    pub(super) fn drain(
        &self,
        files: &[Arc<dyn LogFile>],
        drain: impl Fn(&dyn LogFile) -> std::io::Result<()>,
    ) -> bool {
        match files.iter().try_for_each(|file| drain(&**file)) {
            Ok(()) => true,
            Err(error) => {
                self.note_write_failure(&self.writer.lock(), &error);
                false
            }
        }
    }

    /// The files that may not be on the disk completely, in order.
    pub(super) fn files(&self) -> Vec<Arc<dyn LogFile>> {
        self.writer.lock().files()
    }

    /// Whether a failure ends the process: nothing that it covers may be acknowledged. A log that no manifest names yet
    /// covers nothing: it is given up, and the data is where it was before.
    pub(super) fn must_not_fail(&self) -> bool {
        self.control.policy() == FsyncPolicy::Always && self.is_named()
    }

    fn note_write_failure(&self, writer: &Writer, error: &std::io::Error) {
        if self.must_not_fail() {
            fail("write", &writer.path, error);
        }
        if !self.is_unwritable.swap(true, Ordering::AcqRel) {
            tracing::error!("Can't write the append-only file {}: {error}. Writes are refused.", writer.path.display());
            self.control.note_failure(error);
        }
    }
}

/// The log cannot be trusted any more: nothing that it covers may be acknowledged.
pub fn fail(what: &str, path: &std::path::Path, error: &std::io::Error) -> ! {
    tracing::error!("Can't {what} the append-only file {}: {error}. Exiting.", path.display());
    std::process::exit(1);
}
