//! Whether there is a log: it may begin and end while commands run (`CONFIG SET appendonly`).
//!
//! ```text
//! off --begin_in--> begun --note_named--> named
//!  ^                  |                     |
//!  |              leave_file            end_log, leave_file
//!  +------------------+---------------------+
//! ```

use super::{FileEnd, NextFile, Segment};
use crate::aof::disk::NoFile;
use crate::aof::record::Salt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

const OFF: u8 = 0;
const BEGUN: u8 = 1;
const NAMED: u8 = 2;

/// What a segment is a part of: no log, one that no manifest names yet, or one that a manifest names.
#[derive(Debug)]
pub(super) struct Phase(AtomicU8);

impl Phase {
    pub(super) fn off() -> Self {
        Self(AtomicU8::new(OFF))
    }

    pub(super) fn named() -> Self {
        Self(AtomicU8::new(NAMED))
    }

    pub(super) fn is_named(&self) -> bool {
        self.0.load(Ordering::Acquire) == NAMED
    }

    fn set(&self, phase: u8) {
        self.0.store(phase, Ordering::Release);
    }
}

impl Segment {
    /// Whether what changes is to be appended. It changes with the exclusion of all who append to any segment.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.phase.0.load(Ordering::Relaxed) != OFF
    }

    /// Whether a manifest names its files: a start has what they hold.
    pub fn is_named(&self) -> bool {
        self.phase.is_named()
    }

    /// Begins a log in a file, framed with this salt; otherwise as [`go_on_in`](Self::go_on_in).
    pub fn begin_in(&self, next: NextFile, salt: Salt, epoch: u64) -> io::Result<u64> {
        self.salt.store(salt.0, Ordering::Relaxed);
        let records = self.go_on_in(next, epoch)?;
        self.phase.set(BEGUN);
        Ok(records)
    }

    /// A manifest names its files from now on.
    pub(in crate::aof) fn note_named(&self) {
        self.phase.set(NAMED);
        self.wake_released();
    }

    /// Ends the log with a mark; nothing is appended to it any more. The caller excludes all who append to any segment.
    pub fn end_log(&self, epoch: u64) {
        self.append_epoch(epoch);
        self.phase.set(OFF);
        self.wakeup.wants_sync.store(true, Ordering::Release);
        self.wakeup.wake();
    }

    /// Lets go of its files, after [`end_log`](Self::end_log). What is not on the disk by then is not waited for: replies
    /// that did are released, and a failure ends. Gives where the last file ends, and how many bytes were not synced.
    pub fn leave_file(&self) -> (FileEnd, u64) {
        let (file, path, before, unsynced) = {
            let mut writer = self.writer.lock();
            let mut queue = self.queue.lock();
            queue.bytes.clear();
            writer.forget();
            let before = std::mem::take(&mut writer.unsynced);
            let file = std::mem::replace(&mut writer.file, Arc::new(NoFile));
            // A file that it would have gone on in holds nothing.
            writer.next = None;
            let path = std::mem::take(&mut writer.path);
            let end = self.appended();
            writer.end = end;
            self.written.store(end, Ordering::Release);
            let unsynced = end - self.synced.swap(end, Ordering::AcqRel);
            (file, path, before, unsynced)
        };
        before.iter().chain([&file]).for_each(|file| self.end_file(&**file));
        for is_failing in [&self.is_unwritable, &self.is_broken] {
            if is_failing.swap(false, Ordering::AcqRel) {
                self.control.note_recovery();
            }
        }
        self.joints.settle();
        self.wake_released();
        (FileEnd { path, len: file.end() }, unsynced)
    }

    /// Whether all that was appended is on the disk.
    pub fn is_all_synced(&self) -> bool {
        self.synced.load(Ordering::Acquire) >= self.appended()
    }
}
