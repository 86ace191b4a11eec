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
use crate::aof::format::Salt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

const OFF: u8 = 0;
const BEGUN: u8 = 1;
const NAMED: u8 = 2;
/// The bits that say so.
const LOG: u8 = 3;
/// Set while changes are pushed to the feed of replication, with a log or without.
const FED: u8 = 4;

/// What a segment belongs to: no log, a log that no manifest names yet, or one that a manifest names.
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
        self.0.load(Ordering::Acquire) & LOG == NAMED
    }

    /// A manifest may name the files of a segment at any time, so each caller changes only its own bits.
    fn set(&self, bits: u8, phase: u8) {
        let change = |now: u8| Some(now & !bits | phase);
        let changed = self.0.fetch_update(Ordering::Release, Ordering::Relaxed, change);
        changed.expect("the change is always made");
    }
}

impl Segment {
    /// Whether changes are recorded: for the log, for replication, or both. It changes while all appends to every
    /// segment are excluded.
    #[inline]
    pub fn is_recorded(&self) -> bool {
        self.phase.0.load(Ordering::Relaxed) != OFF
    }

    /// Whether changes are appended to a log. It changes as [`is_recorded`](Self::is_recorded) does.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.phase.0.load(Ordering::Relaxed) & LOG != OFF
    }

    /// Whether changes are pushed to the feed, and whether they are appended to a log, in one load.
    #[inline]
    pub(super) fn ways(&self) -> (bool, bool) {
        let phase = self.phase.0.load(Ordering::Relaxed);
        (phase & FED != 0, phase & LOG != OFF)
    }

    /// Whether changes are pushed to the feed. It changes as [`is_recorded`](Self::is_recorded) does.
    #[inline]
    pub fn is_fed(&self) -> bool {
        self.phase.0.load(Ordering::Relaxed) & FED != 0
    }

    pub(in crate::aof) fn set_fed(&self, is_fed: bool) {
        self.phase.set(FED, if is_fed { FED } else { 0 });
    }

    /// Whether a manifest names its files: the next start loads what they hold.
    pub fn is_named(&self) -> bool {
        self.phase.is_named()
    }

    /// Begins a log in a file, framed with this salt; otherwise like [`go_on_in`](Self::go_on_in).
    pub fn begin_in(&self, next: NextFile, salt: Salt, epoch: u64) -> io::Result<u64> {
        self.salt.store(salt.0, Ordering::Relaxed);
        let records = self.go_on_in(next, epoch)?;
        self.phase.set(LOG, BEGUN);
        Ok(records)
    }

    /// A manifest names its files from now on.
    pub(in crate::aof) fn note_named(&self) {
        self.phase.set(LOG, NAMED);
        self.wake_released();
    }

    /// Ends the log with a mark; no more is appended to it. The caller excludes all appends to every segment.
    pub fn end_log(&self, epoch: u64) {
        self.append_epoch(epoch);
        self.phase.set(LOG, OFF);
        self.wakeup.wants_sync.store(true, Ordering::Release);
        self.wakeup.wake();
    }

    /// Closes its files, after [`end_log`](Self::end_log). It does not wait for what is not on the disk by then:
    /// waiting replies are released, and a failure ends. Returns where the last file ends, and how many bytes were not
    /// synced.
    pub fn leave_file(&self) -> (FileEnd, u64) {
        let (file, path, before, unsynced) = {
            let mut writer = self.writer.lock();
            let mut queue = self.queue.lock();
            queue.bytes.clear();
            writer.forget();
            let before = std::mem::take(&mut writer.unsynced);
            let file = std::mem::replace(&mut writer.file, Arc::new(NoFile));
            // A file that it would have continued in holds nothing.
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
        self.pending_commits.settle();
        self.wake_released();
        (FileEnd { path, len: file.end() }, unsynced)
    }

    /// Whether all that was appended is on the disk.
    pub fn is_all_synced(&self) -> bool {
        self.synced.load(Ordering::Acquire) >= self.appended()
    }
}
