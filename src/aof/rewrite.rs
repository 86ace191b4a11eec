//! Rewriting: a base, which has every key once, replaces the records that led to it. There is no fork.
//!
//! ```text
//! 1. an increment for each segment is made, and the manifest names it     chain C increments A to N
//! 2. at one point of the order of all commands every segment goes on in it, and a snapshot of its keys begins
//! 3. the snapshot is written to a base for each segment, while commands run and are logged in the increment
//! 4. the bases are synced; the manifest begins with them; what is older is removed        chain C base N increments N to N
//! ```
//!
//! At every step the files that the manifest names hold everything acknowledged, so a crash loses nothing, and the next
//! start removes whatever else a crash leaves. docs/adr/0012-rewriting.md argues why.

use super::base::{Base, Records};
use super::disk::{Disk, LogFile};
use super::lock::DirLock;
use super::manifest::{ChainEntry, Known, Layout, Manifest};
use super::record::{BEGIN_LEN, ControlRecord, SEGMENT_HEADER, Salt, frame_control_onto, segment_header};
use super::segment::{FileEnd, NextFile, Segment};
use super::unfinished;
use super::write_buffer;
use crate::base::tasks::MayWait;
use crate::commands::Services;
use crate::keyspace::Instance;
use crate::scripting::Libraries;
use parking_lot::Mutex;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
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
    manifest: Mutex<Manifest>,
    segments: Vec<Arc<Segment>>,
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
            manifest: Mutex::new(manifest),
            segments,
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

    /// Makes the files of a rewrite; `epoch` is the mark that the increments will begin with. If it fails, nothing has
    /// changed.
    pub fn begin(&self, epoch: u64) -> io::Result<Rewrite> {
        self.must_have_dir()?;
        let mut manifest = self.manifest.lock();
        let mut longer = manifest.clone();
        let chain = longer.last_mut().expect("a log that is written to has a chain");
        chain.last += 1;
        chain.known = self.known(|_| SEGMENT_HEADER as u64);
        let chain = chain.clone();
        let parts = self.begin_parts(&chain, Segment::salt)?;
        self.disk.sync_dir(&self.dir)?;
        longer.write(&*self.disk, &self.dir)?;
        *manifest = longer;
        Ok(Rewrite { chain, epoch, parts })
    }

    /// The same where there is no log, for one in this layout. The manifest does not name it before it is whole; until
    /// then a file of its own does.
    pub fn begin_log(&self, epoch: u64, layout: &Layout) -> io::Result<Rewrite> {
        self.must_have_dir()?;
        self.services.scripting.functions.hold(|libraries| self.keep_functions(libraries))?;
        let chain = self.manifest.lock().next_chain(layout);
        // The name of the directory may be new.
        self.dir.parent().map_or(Ok(()), |parent| self.disk.sync_dir(parent))?;
        unfinished::note_beginning(&*self.disk, &self.dir, chain.number)?;
        let parts = self.begin_parts(&chain, |_| Salt(fastrand::u32(..)))?;
        self.disk.sync_dir(&self.dir)?;
        Ok(Rewrite { chain, epoch, parts })
    }

    /// Writes the libraries of functions into a file of their own and names it in the manifest; if no manifest names
    /// the log yet, later, together with the log.
    pub fn keep_functions(&self, libraries: &Libraries) -> io::Result<()> {
        self.must_have_dir()?;
        let mut manifest = self.manifest.lock();
        let mut other = manifest.clone();
        other.keep_functions(&*self.disk, &self.dir, libraries)?;
        if !other.chains().is_empty() {
            other.write(&*self.disk, &self.dir)?;
        }
        let (old, new) = (manifest.functions(&self.dir), other.functions(&self.dir));
        *manifest = other;
        if let Some(old) = old.filter(|old| Some(old) != new.as_ref())
            && let Err(error) = self.disk.remove(&old)
        {
            tracing::warn!("Can't remove {}, which is no part of the log any more: {error}", old.display());
        }
        Ok(())
    }

    /// Removes the files of a log that could not begin. Its segments have closed them.
    pub fn remove_beginning(&self) -> Result<(), String> {
        unfinished::remove_beginning(&*self.disk, &self.dir)
    }

    /// Fails if the directory is not the one that is locked any more.
    pub fn must_have_dir(&self) -> io::Result<()> {
        self.lock.as_ref().map_or(Ok(()), |lock| lock.must_be_of(&self.dir))
    }

    fn begin_parts(&self, chain: &ChainEntry, salt: impl Fn(&Segment) -> Salt) -> io::Result<Vec<Part>> {
        let segments = self.segments.iter().enumerate();
        segments.map(|(index, segment)| self.begin_part(chain, index, segment, salt(segment))).collect()
    }

    fn begin_part(&self, chain: &ChainEntry, index: usize, segment: &Arc<Segment>, salt: Salt) -> io::Result<Part> {
        let increment = ChainEntry::increment_path(&self.dir, chain.number, index, chain.last);
        let base = ChainEntry::base_path(&self.dir, chain.number, index, chain.last);
        let file = self.new_file(&increment, salt)?;
        file.sync()?;
        let file = write_buffer::append_buffered(&*self.disk, &increment, salt)?;
        let next = NextFile { increment: chain.last, path: increment, file };
        let (file, backlog) = (self.new_file(&base, salt)?, Arc::clone(&self.services.saves.backlog));
        let base = Arc::new(Base::new(Records::new(salt), file, SEGMENT_HEADER as u64, backlog));
        Ok(Part { segment: Arc::clone(segment), salt, next: Mutex::new(Some(next)), records: Mutex::new(None), base })
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

    /// Replaces the files that led to the bases by the bases. All keys are in them. If it fails, the log stays as it
    /// was.
    pub fn finish(&self, rewrite: &Rewrite) -> Result<(), String> {
        let describe = |error: io::Error| error.to_string();
        self.must_have_dir().map_err(describe)?;
        for part in &rewrite.parts {
            let records = part.records.lock().ok_or("the log could not be written when it began")?;
            end(&part.base, part.salt, records)?;
            // The bases are a consistent state only together with the marks that the increments begin with.
            part.segment.settle_in_file().map_err(describe)?;
        }
        let mut manifest = self.manifest.lock();
        self.disk.sync_dir(&self.dir).map_err(describe)?;
        // More is on the disk, but a start after a power loss may cut everything after the mark that all segments have.
        let known = self.known(|_| BEGIN_LEN as u64);
        let number = rewrite.chain.last;
        let chain = ChainEntry { has_base: true, first: number, last: number, known, ..rewrite.chain.clone() };
        let shorter = Manifest::of_chains(manifest.boot.clone(), vec![chain]).with_functions_of(&manifest);
        shorter.write(&*self.disk, &self.dir).map_err(describe)?;
        let old = std::mem::replace(&mut *manifest, shorter);
        for part in &rewrite.parts {
            part.segment.note_base(part.base.len());
            // Under `appendfsync no` no other code would.
            part.segment.close_files_before();
            part.segment.note_named();
        }
        unfinished::remove_beginning(&*self.disk, &self.dir)?;
        self.remove_old(&old, &manifest);
        Ok(())
    }

    /// Records in the manifest where the segments end, all with one mark. They get no more appends, and all of them is
    /// on the disk.
    pub fn close(&self, ends: &[FileEnd]) -> io::Result<()> {
        self.must_have_dir()?;
        let mut manifest = self.manifest.lock();
        let chain = manifest.last_mut().expect("a log that is written to has a chain");
        let last = |index| ChainEntry::increment_path(&self.dir, chain.number, index, chain.last);
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
    chain: ChainEntry,
    epoch: u64,
    parts: Vec<Part>,
}

/// One segment's part of it.
#[derive(Debug)]
struct Part {
    segment: Arc<Segment>,
    /// What the records of its files are framed with.
    salt: Salt,
    next: Mutex<Option<NextFile>>,
    /// How many records the base replaces, once that is known.
    records: Mutex<Option<u64>>,
    base: Arc<Base>,
}

impl Rewrite {
    /// The snapshot writer of each owner.
    pub fn bases(&self) -> impl Iterator<Item = Arc<Base>> {
        self.parts.iter().map(|part| Arc::clone(&part.base))
    }

    /// Makes a segment continue in its increment. Called when the snapshot of its owner begins, while all appends to it
    /// are excluded.
    pub fn go_on(&self, segment: usize) {
        let part = &self.parts[segment];
        let next = part.next.lock().take().expect("a segment goes on once");
        let gone_on = match part.segment.is_on() {
            true => part.segment.go_on_in(next, self.epoch),
            false => part.segment.begin_in(next, part.salt, self.epoch),
        };
        match gone_on {
            Ok(records) => *part.records.lock() = Some(records),
            Err(error) => part.base.fail(&error),
        }
    }

    /// Writes what waits to be written, and waits a little for more, each turn for another of the bases; false when all
    /// keys were in them.
    pub fn write_out(&self, turn: usize, MayWait(may_wait): MayWait) -> bool {
        if self.parts.iter().all(|part| part.base.is_walked()) && !self.parts.iter().any(|part| part.base.has_some()) {
            return false;
        }
        self.parts.iter().for_each(|part| part.base.write_out());
        if may_wait {
            let part = &self.parts[turn % self.parts.len()];
            part.base.wait(WAIT_MAX / u32::try_from(self.parts.len()).expect("`shards` is at most 1024"));
        }
        true
    }

    /// All keys are in the bases.
    pub fn end_walk(&self) {
        self.parts.iter().for_each(|part| part.base.end_walk());
    }

    /// How long the bases are.
    pub fn len(&self) -> u64 {
        self.parts.iter().map(|part| part.base.len()).sum()
    }
}

/// Ends a base that replaces so many records.
fn end(base: &Base, salt: Salt, records: u64) -> Result<(), String> {
    let mut note = Vec::new();
    frame_control_onto(&mut note, salt, ControlRecord::Base(records));
    base.end(|file| file.write_all(&note).map(|()| note.len() as u64))
}
