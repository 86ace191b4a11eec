//! How what was appended gets into the file: by whoever commits or by the log thread, one at a time.

use super::{NOWHERE, NextFile, Queue, Segment};
use crate::aof::FsyncPolicy;
use crate::aof::disk::{LogFile, some_of};
use crate::base::narrowing::size;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Buffers above this size are given back after they are written.
const BUFFER_KEPT: usize = 1024 * 1024;

/// As much of them as stays when the log is idle.
const BUFFER_KEPT_IDLE: usize = 16 * 1024;

/// What is taken by the writer.
#[derive(Debug)]
pub struct Writer {
    /// Where it is written to.
    pub(super) file: Arc<dyn LogFile>,
    /// Its name.
    pub(super) path: PathBuf,
    /// The file that is written to when all that was taken is written.
    pub(super) next: Option<NextFile>,
    /// Files that were written to before, and of which not all may be on the disk.
    pub(super) unsynced: Vec<Arc<dyn LogFile>>,
    /// Swapped with the queue, so that appending goes on while this is written.
    pub(super) buffer: Vec<u8>,
    /// How much of it the operating system has taken.
    taken: usize,
    /// Where it ends in the log.
    pub(super) end: u64,
}

impl Writer {
    /// The files of which not all may be on the disk, in order.
    pub(super) fn files(&self) -> Vec<Arc<dyn LogFile>> {
        self.unsynced.iter().chain([&self.file]).cloned().collect()
    }

    /// Forgets what was taken and not written.
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
    /// Writes everything appended so far; false when the operating system does not take it all.
    pub fn write_all_out(&self) -> bool {
        self.write_out() >= self.appended()
    }

    /// Writes everything appended so far, unless the log is failing; gives the position it reaches.
    pub(super) fn write_out(&self) -> u64 {
        let mut writer = self.writer.lock();
        self.take_queue(&mut writer);
        self.write_taken_unless_failing(&mut writer);
        self.written.load(Ordering::Acquire)
    }

    /// Writes everything appended so far, and where the log is failing what waits in the other segments too; gives the
    /// position it reaches.
    pub(super) fn write_out_or_try_again(&self) -> u64 {
        if !self.control.is_failing() {
            return self.write_out();
        }
        self.pending_commits.write_in_order();
        self.written.load(Ordering::Acquire)
    }

    /// Takes what was appended, where all that was taken before is written.
    fn take_queue(&self, writer: &mut Writer) {
        if writer.buffer.is_empty() {
            let mut queue = self.queue.lock();
            self.swap_buffers(&mut queue, writer);
            writer.end = self.appended();
        }
    }

    /// Lets the writer take what was appended, and appending go on in the buffer that it had.
    pub(super) fn swap_buffers(&self, queue: &mut Queue, writer: &mut Writer) {
        std::mem::swap(&mut queue.bytes, &mut writer.buffer);
        self.note_taken_room(writer);
    }

    /// Gives back what a load has left of its buffers.
    pub(super) fn give_back_room(&self) {
        let mut writer = self.writer.lock();
        self.queue.lock().bytes.shrink_to(BUFFER_KEPT_IDLE);
        writer.buffer.shrink_to(BUFFER_KEPT_IDLE);
        self.note_taken_room(&writer);
    }

    fn note_taken_room(&self, writer: &Writer) {
        self.taken_room.store(writer.buffer.capacity() as u64, Ordering::Relaxed);
    }

    /// Writes what the writer has taken, unless the log is failing. That is looked at when it has been taken: a
    /// transaction that saw what another segment could not write was appended after that had failed.
    pub(super) fn write_taken_unless_failing(&self, writer: &mut Writer) {
        if !self.control.is_failing() {
            self.write_taken(writer, NOWHERE);
        }
    }

    /// Writes what was appended before `limit`, where a record ends; false when the operating system does not take it.
    /// For who sees to the order over all segments.
    pub(in crate::aof) fn write_up_to(&self, limit: u64) -> bool {
        let mut writer = self.writer.lock();
        // What could not be written may stand in a file's buffer.
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

    /// Writes what the writer has taken, up to a limit; false when the operating system does not take it all.
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
        // Noted before it is given back: what was free already and counted as taken would let others take it again.
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

    /// Ends the failing of all segments of a log if everything appended is written. While that is looked at nothing is
    /// appended: whoever has read what waits somewhere may write from then on, and that is not to be there without it.
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

    /// Gives the file system what stands in the files' buffers; false when it does not take it all.
    pub(super) fn drain(&self, drain: impl Fn(&dyn LogFile) -> std::io::Result<()>) -> bool {
        let files = self.writer.lock().files();
        match files.iter().try_for_each(|file| drain(&**file)) {
            Ok(()) => true,
            Err(error) => {
                self.note_write_failure(&self.writer.lock(), &error);
                false
            }
        }
    }

    fn note_write_failure(&self, writer: &Writer, error: &std::io::Error) {
        if self.control.policy() == FsyncPolicy::Always {
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
