//! Rewriting: a base, which has every key once, replaces the records that led to it. There is no fork.
//!
//! ```text
//! 1. an increment for each segment is made, and the manifest names it     chain C increments A to N
//! 2. at one point of the order of all commands every segment goes on in it, and a snapshot of its keys begins
//! 3. the snapshot is written to a base for each segment, while commands run and are logged in the increment
//! 4. the bases are synced; the manifest begins with them; what is older is removed   chain C base N increments N to N
//! ```
//!
//! At every step the files that the manifest names hold everything acknowledged, so a crash loses nothing, and the next
//! start removes whatever else a crash leaves. docs/adr/0012-rewriting.md argues why.

use super::base::{Base, Records};
use super::buffered_file::append_buffered;
use super::segment::{FileEnd, NextFile, Segment};
use crate::aof::disk::{DirLock, Disk, LogFile};
use crate::aof::format::{
    BEGIN_LEN, Chain, ControlRecord, Known, Layout, Manifest, SEGMENT_HEADER, Salt, frame_control_onto, note_beginning,
    orphans, remove_beginning, segment_header, write_buffer,
};
use crate::base::tasks::MayWait;
use crate::commands::Services;
use crate::keyspace::{Instance, StreamPlace};
use crate::scripting::Libraries;
use parking_lot::Mutex;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// File descriptors that a segment has at most, in the middle of a rewrite. An appended file has two, one of them for
/// direct writes, and its write buffer one: the previous file, until all of it is on the disk; the increment; the base,
/// which has no buffer.
pub const FILES_PER_SEGMENT: u64 = 3 + 3 + 2;

/// How long the writer waits for more at most.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// Rewrites the log of a running server, and its manifest.
#[derive(Debug)]
pub struct Rewriter {
    services: Arc<Services>,
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// Locked while the files that it names are replaced or removed, and while they are read.
    manifest: Arc<Mutex<Manifest>>,
    segments: Vec<Arc<Segment>>,
    /// The number of the last chain that a log began with here. The manifest may name it although writing the manifest
    /// failed, so no other log gets it.
    begun: AtomicU32,
    /// The right to use the directory.
    lock: Option<DirLock>,
}

impl Rewriter {
    /// A rewriter for the log of a recovered server, in a directory that the caller locks.
    pub fn new(
        instance: &Instance,
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        manifest: Manifest,
        segments: Vec<Arc<Segment>>,
    ) -> Self {
        Self {
            services: Arc::clone(Services::of(instance)),
            disk,
            dir,
            manifest: Arc::new(Mutex::new(manifest)),
            segments,
            begun: AtomicU32::new(0),
            lock: None,
        }
    }

    /// Keeps the lock of the directory for as long as this lives.
    pub fn keeping(self, lock: DirLock) -> Self {
        Self { lock: Some(lock), ..self }
    }

    /// The directory of the log's files.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The manifest. While it is locked, no file that it names is removed.
    pub fn manifest(&self) -> Arc<Mutex<Manifest>> {
        Arc::clone(&self.manifest)
    }

    /// Whether a manifest names the files that the segments append to.
    pub fn is_named(&self) -> bool {
        self.segments.iter().all(|segment| segment.is_named())
    }

    /// Whether changes are appended to the segments.
    pub fn is_on(&self) -> bool {
        self.segments.iter().any(|segment| segment.is_on())
    }

    /// The segments.
    pub fn segments(&self) -> &[Arc<Segment>] {
        &self.segments
    }

    /// Makes the files of a rewrite; `epoch` is the mark that the increments will begin with. If it fails, the log goes
    /// on as before.
    pub fn begin(&self, epoch: u64) -> io::Result<Rewrite> {
        self.must_have_dir()?;
        let mut manifest = self.manifest.lock();
        let mut longer = manifest.clone();
        let chain = longer.last_mut().expect("a log that is written to has a chain");
        chain.last += 1;
        chain.known = self.known(|_| SEGMENT_HEADER as u64);
        let chain = chain.clone();
        let segments = self.begin_segments(&chain, Segment::salt)?;
        let written = self.disk.sync_dir(&self.dir).and_then(|()| {
            // Before it is written: if only the fsync of the directory fails, the manifest that is read names the
            // increments already, and the next rewrite must not replace them.
            *manifest = longer;
            manifest.write(&*self.disk, &self.dir)
        });
        written.inspect_err(|_| self.remove_bases(&chain))?;
        Ok(Rewrite { chain, epoch, segments, are_removed: AtomicBool::new(false) })
    }

    /// The same where there is no log, for one in this layout. The manifest does not name it before it is whole; until
    /// then a file of its own does.
    pub fn begin_log(&self, epoch: u64, layout: &Layout) -> io::Result<Rewrite> {
        self.must_have_dir()?;
        // The file that names those of an earlier attempt is about to be replaced.
        self.remove_beginning().map_err(io::Error::other)?;
        // The position that this log begins with is of later.
        self.services.scripting.functions.hold(|libraries| self.keep_functions(libraries, None))?;
        let mut chain = self.manifest.lock().next_chain(layout);
        chain.number = chain.number.max(self.begun.load(Ordering::Relaxed) + 1);
        self.begun.store(chain.number, Ordering::Relaxed);
        // The name of the directory may be new.
        self.dir.parent().map_or(Ok(()), |parent| self.disk.sync_dir(parent))?;
        note_beginning(&*self.disk, &self.dir, chain.number)?;
        let segments = self.begin_segments(&chain, |_| Salt::draw(&self.services.randomness))?;
        self.disk.sync_dir(&self.dir)?;
        Ok(Rewrite { chain, epoch, segments, are_removed: AtomicBool::new(false) })
    }

    /// Writes the libraries of functions into a file of their own and names it in the manifest; if no manifest names
    /// the log yet, later, together with the log. Until then an earlier log keeps its libraries. `place` is what they
    /// have of the stream of a master.
    pub fn keep_functions(&self, libraries: &Libraries, place: Option<StreamPlace>) -> io::Result<()> {
        self.must_have_dir()?;
        let mut manifest = self.manifest.lock();
        let mut other = manifest.clone();
        other.keep_functions(&*self.disk, &self.dir, libraries, place)?;
        if !self.is_named() {
            *manifest = other;
            return Ok(());
        }
        other.write(&*self.disk, &self.dir)?;
        let old = manifest.functions(&self.dir);
        *manifest = other;
        old.iter().for_each(|old| self.remove_left(old));
        Ok(())
    }

    /// Removes the files of a log that could not begin. Its segments have closed them.
    pub fn remove_beginning(&self) -> Result<(), String> {
        remove_beginning(&*self.disk, &self.dir)
    }

    /// Fails if the directory is not the one that is locked any more.
    pub fn must_have_dir(&self) -> io::Result<()> {
        self.lock.as_ref().map_or(Ok(()), |lock| lock.must_be_of(&self.dir))
    }

    fn begin_segments(&self, chain: &Chain, salt: impl Fn(&Segment) -> Salt) -> io::Result<Vec<SegmentRewrite>> {
        let segments = self.segments.iter().enumerate();
        let begun = segments.map(|(index, segment)| self.begin_segment(chain, index, segment, salt(segment)));
        begun.collect::<io::Result<_>>().inspect_err(|_| self.remove_bases(chain))
    }

    fn begin_segment(
        &self,
        chain: &Chain,
        index: usize,
        segment: &Arc<Segment>,
        salt: Salt,
    ) -> io::Result<SegmentRewrite> {
        let increment = Chain::increment_path(&self.dir, chain.number, index, chain.last);
        let base = Chain::base_path(&self.dir, chain.number, index, chain.last);
        let file = self.new_file(&increment, salt)?;
        file.sync()?;
        let file = append_buffered(&*self.disk, &increment, salt)?;
        let next = NextFile { increment: chain.last, path: increment, file };
        let next = Next(Mutex::new(Some(next)));
        let (file, backlog) = (self.new_file(&base, salt)?, Arc::clone(&self.services.saves.backlog));
        let base = Arc::new(Base::new(Records::new(salt), file, SEGMENT_HEADER as u64, backlog));
        Ok(SegmentRewrite { segment: Arc::clone(segment), salt, next, records: Mutex::new(None), base })
    }

    /// A file with a header, replacing what an earlier attempt may have left.
    fn new_file(&self, path: &Path, salt: Salt) -> io::Result<Arc<dyn LogFile>> {
        if self.disk.read(path)?.is_some() {
            self.disk.remove(path)?;
        }
        let file = self.disk.append_to(path)?;
        file.write_all(&segment_header(salt))?;
        Ok(file)
    }

    /// Writes what waits, and waits a little for more, each turn for another of the bases; false when all keys were in
    /// them. Once one of them cannot be written, the others are of no use, and a full disk needs their room.
    pub fn write_out(&self, rewrite: &Rewrite, turn: usize, may_wait: MayWait) -> bool {
        let goes_on = rewrite.write_out(turn, may_wait);
        if rewrite.give_up_if_failed() {
            self.remove_bases(&rewrite.chain);
        }
        goes_on
    }

    /// Replaces the files that led to the bases by the bases. All keys are in them. If it fails, the log stays as it
    /// was.
    pub fn finish(&self, rewrite: &Rewrite) -> Result<(), String> {
        self.settle(rewrite).inspect_err(|_| self.remove_bases(&rewrite.chain))?;
        self.name_bases(rewrite)
    }

    /// Puts on the disk what the manifest will name. None names it yet.
    fn settle(&self, rewrite: &Rewrite) -> Result<(), String> {
        let describe = |error: io::Error| error.to_string();
        self.must_have_dir().map_err(describe)?;
        for own in &rewrite.segments {
            let records = own.records.lock().ok_or_else(|| own.reason_not_begun())?;
            end(&own.base, own.salt, records)?;
            // The bases are a consistent state only together with the marks that the increments begin with.
            own.segment.settle_in_file().map_err(describe)?;
        }
        self.disk.sync_dir(&self.dir).map_err(describe)
    }

    /// Lets the manifest begin with the bases. If that fails, it may name them nevertheless: they stay.
    fn name_bases(&self, rewrite: &Rewrite) -> Result<(), String> {
        let mut manifest = self.manifest.lock();
        // More is on the disk, but a start after a power loss may cut everything after the mark that all segments have.
        let known = self.known(|_| BEGIN_LEN as u64);
        let number = rewrite.chain.last;
        let chain = Chain { has_base: true, first: number, last: number, known, ..rewrite.chain.clone() };
        let shorter = Manifest::of_chains(manifest.boot.clone(), vec![chain]).with_functions_of(&manifest);
        shorter.write(&*self.disk, &self.dir).map_err(|error| error.to_string())?;
        let old = std::mem::replace(&mut *manifest, shorter);
        for own in &rewrite.segments {
            own.segment.note_base(own.base.len());
            // Under `appendfsync no` no other code would.
            own.segment.close_files_before();
            own.segment.note_named();
        }
        if let Err(reason) = self.remove_beginning() {
            // The log has begun: the next start sees that, too, and tries again.
            tracing::warn!("A note about a log that has begun stays until the next start: {reason}");
        }
        self.remove_old(&old, &manifest);
        Ok(())
    }

    /// Removes the bases of a rewrite that has failed before a manifest named them.
    fn remove_bases(&self, chain: &Chain) {
        // Another directory in its place is somebody else's.
        if self.must_have_dir().is_err() {
            return;
        }
        for index in 0..self.segments.len() {
            self.remove_left(&Chain::base_path(&self.dir, chain.number, index, chain.last));
        }
    }

    /// Records in the manifest where the segments end, all with one mark. They get no more appends, and all of them is
    /// on the disk.
    pub fn close(&self, ends: &[FileEnd]) -> io::Result<()> {
        self.must_have_dir()?;
        let mut manifest = self.manifest.lock();
        let chain = manifest.last_mut().expect("a log that is written to has a chain");
        let last = |index| Chain::increment_path(&self.dir, chain.number, index, chain.last);
        // A rewrite may have made a file that the segment has not continued in.
        let known =
            self.known(|index| if ends[index].path == last(index) { ends[index].len } else { SEGMENT_HEADER as u64 });
        chain.known = known;
        manifest.write(&*self.disk, &self.dir)
    }

    /// What the manifest says of the segments, whose last files have these lengths on the disk.
    fn known(&self, len_of: impl Fn(usize) -> u64) -> Vec<Known> {
        let known = |(index, segment): (usize, &Arc<Segment>)| Known { salt: segment.salt(), len: len_of(index) };
        self.segments.iter().enumerate().map(known).collect()
    }

    fn remove_old(&self, old: &Manifest, new: &Manifest) {
        let kept: Vec<PathBuf> = new.files(&self.dir).collect();
        for path in old.files(&self.dir).filter(|path| !kept.contains(path)) {
            // A crash before this is done leaves a buffer without a file, which the next start removes.
            drop(self.disk.remove(&write_buffer::path_of(&path)));
            self.remove_left(&path);
        }
        orphans::left_of_functions(&*self.disk, &self.dir, new).iter().for_each(|path| self.remove_left(path));
    }

    fn remove_left(&self, path: &Path) {
        if let Err(error) = self.disk.remove(path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!("Can't remove {}, which is no part of the log any more: {error}", path.display());
        }
    }
}

/// A rewriting that was begun.
#[derive(Debug)]
pub struct Rewrite {
    chain: Chain,
    epoch: u64,
    segments: Vec<SegmentRewrite>,
    /// Whether the bases were given up and removed.
    are_removed: AtomicBool,
}

/// The rewriting of one segment.
#[derive(Debug)]
struct SegmentRewrite {
    segment: Arc<Segment>,
    /// What the records of its files are framed with.
    salt: Salt,
    next: Next,
    /// How many records the base replaces, once that is known.
    records: Mutex<Option<u64>>,
    base: Arc<Base>,
}

impl SegmentRewrite {
    /// Why its segment did not continue in the next file.
    fn reason_not_begun(&self) -> String {
        let was_asked = self.next.0.lock().is_none();
        let reason =
            if was_asked { "the log could not be written when it began" } else { "the server ended before it began" };
        reason.to_owned()
    }
}

/// The file that a segment has not continued in yet. Its write buffer goes with it if the segment never does.
#[derive(Debug)]
struct Next(Mutex<Option<NextFile>>);

impl Drop for Next {
    fn drop(&mut self) {
        if let Some(next) = self.0.get_mut().take()
            && let Err(error) = next.file.close()
        {
            tracing::warn!("Can't remove the write buffer of {}: {error}", next.path.display());
        }
    }
}

impl Rewrite {
    /// The snapshot writer of each owner.
    pub fn bases(&self) -> impl Iterator<Item = Arc<Base>> {
        self.segments.iter().map(|own| Arc::clone(&own.base))
    }

    /// Makes a segment continue in its increment. Called when the snapshot of its owner begins, while all appends to it
    /// are excluded.
    pub fn go_on(&self, segment: usize) {
        let own = &self.segments[segment];
        let next = own.next.0.lock().take().expect("a segment goes on once");
        let gone_on = match own.segment.is_on() {
            true => own.segment.go_on_in(next, self.epoch),
            false => own.segment.begin_in(next, own.salt, self.epoch),
        };
        match gone_on {
            Ok(records) => *own.records.lock() = Some(records),
            Err(error) => own.base.fail(&error),
        }
    }

    fn write_out(&self, turn: usize, MayWait(may_wait): MayWait) -> bool {
        if self.segments.iter().all(|own| own.base.is_walked()) && !self.segments.iter().any(|own| own.base.has_some())
        {
            return false;
        }
        self.segments.iter().for_each(|own| own.base.write_out());
        if may_wait {
            let own = &self.segments[turn % self.segments.len()];
            own.base.wait(WAIT_MAX / u32::try_from(self.segments.len()).expect("`shards` is at most 1024"));
        }
        true
    }

    /// If a base cannot be written, gives up all of them; true the first time.
    fn give_up_if_failed(&self) -> bool {
        let Some(reason) = self.segments.iter().find_map(|own| own.base.failure()) else { return false };
        self.give_up(&reason);
        self.segments.iter().for_each(|own| own.base.write_out());
        !self.are_removed.swap(true, Ordering::Relaxed)
    }

    /// Gives up the bases: nothing more is written to them.
    pub fn give_up(&self, reason: &str) {
        self.segments.iter().for_each(|own| own.base.fail(&reason));
    }

    /// All keys are in the bases.
    pub fn end_walk(&self) {
        self.segments.iter().for_each(|own| own.base.end_walk());
    }

    /// How long the bases are.
    pub fn len(&self) -> u64 {
        self.segments.iter().map(|own| own.base.len()).sum()
    }
}

/// Ends a base that replaces this many records.
fn end(base: &Base, salt: Salt, records: u64) -> Result<(), String> {
    let mut record = Vec::new();
    frame_control_onto(&mut record, salt, ControlRecord::Base(records));
    base.end(|file| file.write_all(&record).map(|()| record.len() as u64))
}
