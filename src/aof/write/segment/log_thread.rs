//! The log thread of a segment: it syncs, and writes where no other thread does.

use super::writing::fail;
use super::{FileEnd, Segment};
use crate::aof::disk::LogFile;
use crate::aof::format::FsyncPolicy;
use crate::aof::format::write_buffer;
use crate::aof::write::group_commit::CommitPacer;
use crate::base::narrowing::clamped_u64;
use crate::base::tasks::{MayWait, Tasks, Turn};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;

/// How long a written record may wait for its fsync under `everysec` where no epoch ends.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// How often a file that could not be written is tried again.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// Under `always`, how long an fsync is delayed at most so that more replies share it: this many times the duration of
/// the last one, and never longer than this.
const GATHERING_FACTOR: u32 = 2;
const GATHERING_MAX: Duration = Duration::from_millis(1);
/// The notifier stays awake where this many replies share an fsync, and fsyncs follow each other closely.
const SPIN_SHARED_MIN: usize = 16;
const SPIN_ROUND_MAX: Duration = Duration::from_millis(1);
/// Under `always`, how many zeros a file is padded with at a time: one long fsync instead of many short ones.
const PADDING: u64 = 4 * 1024 * 1024;
/// More zeros are added when fewer than this are left. One fsync seldom covers more.
const PADDING_MIN: u64 = 256 * 1024;

/// Ends the log thread of a segment, with all written and synced. If it is dropped, the thread ends later.
#[derive(Debug)]
pub struct LogThread {
    segment: Arc<Segment>,
    /// None where a scheduler runs it: then it has no more turns when this ends.
    thread: Option<std::thread::JoinHandle<()>>,
}

/// What a log thread remembers from turn to turn.
struct LogLoop {
    last_sync: Instant,
    patience: Duration,
    pacer: CommitPacer,
}

impl LogLoop {
    fn begin() -> Self {
        Self { last_sync: Instant::now(), patience: Duration::ZERO, pacer: CommitPacer::default() }
    }
}

impl LogThread {
    /// Starts it. The error says that the operating system starts no more threads.
    pub(super) fn start(segment: Arc<Segment>) -> Result<Self, String> {
        let shared = Arc::clone(&segment);
        let mut log = LogLoop::begin();
        if let Tasks::Other(_) = segment.control.tasks() {
            let turns = move |may_wait| shared.take_turn(&mut log, may_wait);
            segment.control.tasks().spawn_turns("log", turns).expect("a scheduler has room for tasks");
            return Ok(Self { segment, thread: None });
        }
        let run = move || {
            while shared.take_turn(&mut log, MayWait(true)) == Turn::More {}
            shared.end_log_thread();
        };
        let thread = std::thread::Builder::new().name("log".into()).spawn(run);
        let thread = thread.map_err(|error| format!("can't start a thread for a segment of the log: {error}"))?;
        Ok(Self { segment, thread: Some(thread) })
    }

    /// The segment.
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    /// Wakes, on the runtime, the connections that wait for the log; see [`Segment::notify_commits`].
    pub fn notify_commits(&self, has_spare_core: bool) -> impl Future<Output = ()> + Send + 'static {
        Arc::clone(&self.segment).notify_commits(has_spare_core)
    }

    /// Makes it write and sync what is left, and end.
    fn ask_to_end(&self) {
        self.segment.wakeup.stop.store(true, Ordering::Release);
        self.segment.wakeup.wake();
    }

    /// The same; waits for that, and returns where the file ends. The error says what could not be written, and in
    /// which file.
    pub fn finish(mut self) -> Result<FileEnd, String> {
        self.ask_to_end();
        match self.thread.take() {
            Some(thread) => thread.join().expect("the log thread does not panic"),
            None => self.segment.end_log_thread(),
        }
        self.segment.end_of_file()
    }
}

impl Drop for LogThread {
    fn drop(&mut self) {
        self.ask_to_end();
    }
}

impl Segment {
    /// Waits until something is to be done, where it may, and does it.
    fn take_turn(&self, log: &mut LogLoop, MayWait(may_wait): MayWait) -> Turn {
        if self.wakeup.stop.load(Ordering::Acquire) {
            return Turn::Last;
        }
        let policy = self.control.policy();
        if policy == FsyncPolicy::Always && may_wait {
            let spins = self.notifier.spins.load(Ordering::Relaxed);
            self.wakeup.gather(&self.group_commit, log.patience, spins);
        }
        let at_most = if self.control.is_failing() { RETRY_INTERVAL } else { SYNC_INTERVAL };
        let was_woken = self.wakeup.wait(if may_wait { at_most } else { Duration::ZERO });
        self.wakeup.clear();
        if !was_woken {
            self.give_back_room();
        }
        let is_wanted = self.wakeup.wants_sync.swap(false, Ordering::AcqRel);
        let is_due = match self.control.policy() {
            FsyncPolicy::Always => true,
            FsyncPolicy::Everysec => is_wanted || log.last_sync.elapsed() >= SYNC_INTERVAL,
            // A change of policy may have left replies waiting; or the log ends.
            FsyncPolicy::No => is_wanted || !self.waiters.lock().is_empty(),
        };
        if is_due {
            self.sync_for_group(log, may_wait);
        } else if self.control.is_failing() {
            self.pending_commits.write_in_order();
            self.wake_released();
        } else if was_woken {
            self.drain(&self.files(), |file| file.drain_full());
        } else {
            self.drain(&self.files(), |file| file.drain());
        }
        Turn::More
    }

    /// Syncs, and notes how long that took and for how many: what the next ones are paced by.
    fn sync_for_group(&self, log: &mut LogLoop, may_wait: bool) {
        let shared = self.group_commit.begin();
        let begin = Instant::now();
        log.pacer.note_gathering(shared, begin - log.last_sync);
        self.sync();
        let end = Instant::now();
        let took = end - begin;
        let seen = self.group_commit.end(shared, took, &mut log.pacer);
        // Time does not go on while somebody stays awake where a scheduler runs it all.
        let spins = may_wait && seen >= SPIN_SHARED_MIN && end - log.last_sync <= SPIN_ROUND_MAX;
        self.notifier.spins.store(spins, Ordering::Relaxed);
        log.last_sync = end;
        log.patience = (took * GATHERING_FACTOR).min(GATHERING_MAX);
    }

    fn end_log_thread(&self) {
        self.sync();
        let files = self.writer.lock().files();
        files.iter().for_each(|file| self.end_file(&**file));
    }

    /// Where the file ends, if all of it is written and synced; otherwise what is not.
    fn end_of_file(&self) -> Result<FileEnd, String> {
        let (appended, written) = (self.appended(), self.written.load(Ordering::Acquire));
        let writer = self.writer.lock();
        if self.synced.load(Ordering::Acquire) >= appended {
            return Ok(FileEnd { path: writer.path.clone(), len: writer.file.end() });
        }
        let path = writer.path.display();
        let buffered: u64 = writer.files().iter().map(|file| file.buffered()).sum();
        let mut left = Vec::new();
        if buffered > 0 {
            let buffer = write_buffer::path_of(&writer.path);
            left.push(format!(
                "{buffered} bytes stand only in {}, from which the next start puts them into it: leave that there",
                buffer.display()
            ));
        }
        // No client data follows the mark of the end.
        let lost = self.mark.load(Ordering::Acquire).saturating_sub(written);
        if lost > 0 {
            left.push(format!("{lost} bytes are lost, for which no success was replied"));
        }
        if left.is_empty() {
            left.push("all is written, and a power loss may take what no fsync has covered".into());
        }
        let reason = self.control.failure().unwrap_or_else(|| "an earlier write or fsync failed".into());
        Err(format!("can't write the append-only file {path} to its end ({reason}): {}", left.join("; ")))
    }

    /// Under `always` a file is padded, so that an fsync does not change its length. If padding fails on a full disk,
    /// each record makes the file longer.
    fn pad(&self) {
        let file = &self.writer.lock().file;
        let padding = file.padding();
        if self.control.policy() != FsyncPolicy::Always {
            if padding > 0 {
                self.trim(&**file);
            }
        } else if padding < PADDING_MIN
            && let Err(error) = file.pad(PADDING)
        {
            tracing::debug!("Can't pad the append-only file: {error}");
        }
    }

    /// No more is appended to the file. What its buffer still holds is left to the next start.
    pub(super) fn end_file(&self, file: &dyn LogFile) {
        self.trim(file);
        // The buffer's space is allocated, so this works on a full disk.
        if let Err(error) = file.drain().and_then(|()| file.close()).or_else(|_| file.sync_buffer()) {
            tracing::warn!("Can't sync the write buffer of the append-only file: {error}");
        }
    }

    /// Zeros are legal at the end of a file: if they stay, only space is lost.
    fn trim(&self, file: &dyn LogFile) {
        if let Err(error) = file.trim() {
            tracing::debug!("Can't trim the append-only file: {error}");
        }
    }

    fn sync(&self) {
        let end = self.write_out_or_try_again();
        // What is appended meanwhile is not drained, not even into a file that has ended meanwhile.
        let files = self.files();
        if self.drain(&files, |file| file.drain()) {
            self.sync_up_to(end, &files);
        }
        self.pending_commits.settle();
        self.wake_released();
    }

    /// Syncs files that have everything up to `end`.
    fn sync_up_to(&self, end: u64, files: &[Arc<dyn LogFile>]) {
        let before = self.synced.load(Ordering::Acquire);
        if end > before && self.is_broken.load(Ordering::Acquire) {
            self.note_sync_failure(&std::io::Error::other("an earlier fsync failed"));
        } else if end > before {
            self.pad();
            let start = Instant::now();
            self.is_syncing.store(true, Ordering::Relaxed);
            let synced = self.sync_files(files);
            self.is_syncing.store(false, Ordering::Relaxed);
            match synced {
                Ok(()) => self.note_sync(start.elapsed(), end - before, end),
                Err(error) => self.note_sync_failure(&error),
            }
        }
    }

    /// Syncs the last of drained files, after those before it: no record reaches the disk before the records that
    /// precede it.
    fn sync_files(&self, files: &[Arc<dyn LogFile>]) -> std::io::Result<()> {
        let (file, before) = files.split_last().expect("a segment has a file");
        for file in before {
            file.sync()?;
            self.end_file(&**file);
        }
        let is_synced = |file: &Arc<dyn LogFile>| before.iter().any(|synced| Arc::ptr_eq(file, synced));
        self.writer.lock().unsynced.retain(|file| !is_synced(file));
        file.sync()
    }

    /// Closes the files before the current one, synced or not: they are no longer part of the log.
    pub fn close_files_before(&self) {
        let before = std::mem::take(&mut self.writer.lock().unsynced);
        before.iter().for_each(|file| self.end_file(&**file));
    }

    fn note_sync(&self, took: Duration, bytes: u64, end: u64) {
        let mut fsyncs = self.fsyncs.lock();
        fsyncs.us.saturating_record(clamped_u64(took.as_micros()));
        fsyncs.bytes.saturating_record(bytes);
        drop(fsyncs);
        self.synced.store(end, Ordering::Release);
        self.is_stalled.store(false, Ordering::Release);
    }

    /// The kernel may have dropped pages that it could not write: a second fsync would lie, so there is none.
    pub(super) fn note_sync_failure(&self, error: &std::io::Error) {
        if self.must_not_fail() {
            fail("fsync", &self.writer.lock().path, error);
        }
        if self.is_broken.swap(true, Ordering::AcqRel) {
            return;
        }
        self.is_stalled.store(false, Ordering::Release);
        tracing::error!(
            "Can't fsync the append-only file {}: {error}. Writes are refused.",
            self.writer.lock().path.display()
        );
        self.control.note_failure(error);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{NextFile, Opened};
    use super::*;
    use crate::aof::format::{SEGMENT_HEADER, Salt};
    use crate::aof::{LogControl, PendingCommits};
    use parking_lot::Mutex;
    use std::path::PathBuf;

    /// A file with a buffer, of which only what is drained can be synced. What is given as `after` happens after a
    /// drain.
    #[derive(Default)]
    struct Buffered {
        /// How many bytes are written, drained and synced.
        bytes: Mutex<[u64; 3]>,
        after: Mutex<Option<Box<dyn FnOnce() + Send>>>,
        fails: Mutex<bool>,
    }

    impl std::fmt::Debug for Buffered {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            self.bytes.lock().fmt(f)
        }
    }

    impl LogFile for Buffered {
        fn write(&self, bytes: &[u8]) -> std::io::Result<usize> {
            self.bytes.lock()[0] += bytes.len() as u64;
            Ok(bytes.len())
        }

        fn end(&self) -> u64 {
            self.bytes.lock()[0]
        }

        fn drain(&self) -> std::io::Result<()> {
            {
                let mut bytes = self.bytes.lock();
                bytes[1] = bytes[0];
            }
            let after = self.after.lock().take();
            after.into_iter().for_each(|after| after());
            Ok(())
        }

        fn sync(&self) -> std::io::Result<()> {
            if std::mem::take(&mut *self.fails.lock()) {
                return Err(std::io::Error::other("a page is lost"));
            }
            let mut bytes = self.bytes.lock();
            bytes[2] = bytes[1];
            Ok(())
        }
    }

    fn started(file: &Arc<Buffered>) -> (Arc<Segment>, LogThread) {
        let opened = Opened {
            path: PathBuf::from("first"),
            file: Arc::clone(file) as Arc<dyn LogFile>,
            len: SEGMENT_HEADER as u64,
            before: 0,
            base: 0,
            salt: Salt(1),
            records: 0,
        };
        let control = LogControl::new(FsyncPolicy::Everysec);
        Segment::start(opened, control, Arc::new(PendingCommits::default())).expect("there are threads")
    }

    fn append(segment: &Segment) {
        segment.append_payload(b"a record");
        segment.commit(segment.appended());
    }

    #[test]
    fn a_file_that_ends_while_it_is_synced_is_synced_to_its_end() {
        let (first, second) = (Arc::new(Buffered::default()), Arc::new(Buffered::default()));
        let (segment, thread) = started(&first);
        append(&segment);
        let (going_on, file) = (Arc::clone(&segment), Arc::clone(&second));
        *first.after.lock() = Some(Box::new(move || {
            append(&going_on);
            let next = NextFile { increment: 2, path: PathBuf::from("second"), file };
            going_on.go_on_in(next, 1).expect("the log can be written");
        }));
        segment.end_epoch();
        let end = {
            while second.end() == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            segment.appended()
        };
        while segment.metrics().unsynced_bytes > segment.appended() - end {
            segment.end_epoch();
            std::thread::sleep(Duration::from_millis(1));
        }
        let [written, _, synced] = *first.bytes.lock();
        assert_eq!(synced, written, "what follows it counts as synced");
        thread.finish().expect("nothing fails");
    }

    #[test]
    fn an_fsync_that_fails_at_the_end_of_a_rewriting_is_not_forgotten() {
        let first = Arc::new(Buffered::default());
        let (segment, thread) = started(&first);
        append(&segment);
        *first.fails.lock() = true;
        assert!(segment.settle_in_file().is_err());
        assert!(segment.control.is_failing(), "writes are refused");
        append(&segment);
        assert!(thread.finish().is_err(), "what came before is not said to be on the disk");
    }

    #[test]
    fn under_always_a_log_that_no_manifest_names_is_given_up_and_not_the_process() {
        let control = LogControl::new(FsyncPolicy::Always);
        let started = Segment::start_without_log(control.clone(), Arc::new(PendingCommits::default()));
        let (segment, thread) = started.expect("there are threads");
        let file = Arc::new(Buffered::default());
        *file.fails.lock() = true;
        let next = NextFile { increment: 1, path: PathBuf::from("first"), file };
        segment.begin_in(next, Salt(1), 1).expect("it begins");
        append(&segment);
        while !control.is_failing() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(segment.settle_in_file().is_err(), "no manifest may name it");
        segment.leave_file();
        assert!(!control.is_failing(), "writes go on without it");
        thread.finish().expect("nothing is left to write");
    }
}
