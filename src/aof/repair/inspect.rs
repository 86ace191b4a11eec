//! Inspects a log that no server uses: what its files hold, and what a server would make of it.

use crate::aof::disk::{Disk, LogFile, MappedFile, SystemDisk};
use crate::aof::format::{
    Chain, ControlRecord, CrossShardRecord, Frame, FsyncPolicy, Known, Layout, LogicalSegment, Manifest,
    SEGMENT_HEADER, Salt, Scan, SegmentFiles, beginning, decode, for_each_effect, orphans, write_buffer,
};
use crate::aof::recover::{Log, PassedOver, rehearse_noting};
use crate::aof::write::{LogControl, Segment};
use crate::base::parallel::cores;
use crate::commands;
use crate::keyspace::{Databases, Instance};
use crate::resp::Args;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// A log on the disk.
pub struct Inspection {
    /// Its directory.
    pub dir: PathBuf,
    /// The manifest.
    pub manifest: Manifest,
    /// The current boot of the operating system; empty if it is not known.
    pub boot: String,
    /// Its chains, oldest first.
    pub chains: Vec<InspectedChain>,
}

/// The segments that one layout wrote.
pub struct InspectedChain {
    /// Its number, its layout, and its files, as the manifest names them.
    pub named: Chain,
    /// Whether its tails may be the result of a power loss.
    pub may_have_lost_power: bool,
    /// One per owner of data.
    pub segments: Vec<InspectedSegment>,
}

/// One segment.
pub struct InspectedSegment {
    /// Its first file.
    pub path: PathBuf,
    /// All of its files, in order.
    pub paths: Vec<PathBuf>,
    /// What they hold, as one; empty if they are missing.
    pub bytes: Vec<u8>,
    /// What it contains; otherwise why that is unknown.
    pub scan: Result<Scan, String>,
    /// The write buffer that has lost acknowledged writes, and what is wrong with it.
    pub damaged_buffer: Option<(PathBuf, String)>,
    /// What the manifest says about it.
    known: Option<Known>,
}

/// Something in a segment's file, from a position on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A whole record.
    Record(&'a [u8]),
    /// A whole record of several segments.
    CrossShard(&'a [u8]),
    /// A control record: the frame as it is in the file.
    Control(ControlRecord, &'a [u8]),
    /// So many bytes that are not a whole record.
    Gap(usize),
}

impl Inspection {
    /// Reads the log in `dir`. The error says what cannot be read.
    pub fn of(dir: &Path, boot: String) -> Result<Self, String> {
        let manifest = Manifest::read(&SystemDisk, dir)?;
        let has_lost_power = manifest.may_have_lost_power(&boot);
        let last = manifest.chains().len().saturating_sub(1);
        let chain = |(index, named): (usize, &Chain)| {
            let files = (0..named.layout.shards).map(|segment| named.files(dir, segment));
            let segments =
                files.map(|files| InspectedSegment::read(&files, has_lost_power)).collect::<Result<_, _>>()?;
            let may_have_lost_power = has_lost_power && index == last;
            Ok(InspectedChain { named: named.clone(), may_have_lost_power, segments })
        };
        let chains = manifest.chains().iter().enumerate().map(chain).collect::<Result<_, String>>()?;
        Ok(Self { dir: dir.to_owned(), manifest, boot, chains })
    }

    /// Whether every file ends with a whole record, and none is missing.
    pub fn is_whole(&self) -> bool {
        self.chains.iter().flat_map(|chain| &chain.segments).all(InspectedSegment::is_whole)
    }
}

impl InspectedChain {
    /// Whether a segment of it is damaged: a server refuses it.
    pub fn is_damaged(&self) -> bool {
        self.segments.iter().any(|segment| segment.is_damaged(self.may_have_lost_power))
    }
}

impl InspectedSegment {
    fn read(files: &SegmentFiles, may_have_lost_power: bool) -> Result<Self, String> {
        let paths: Vec<PathBuf> = files.all().cloned().collect();
        let mut damaged = Ok(None);
        if !may_have_lost_power {
            damaged = paths.iter().find_map(|path| write_buffer::damage_of(&SystemDisk, path).transpose()).transpose();
        }
        let damaged_buffer = damaged?;
        let path = paths[0].clone();
        let (bytes, scan) = match LogicalSegment::read(&ReadOnlyDisk::default(), files) {
            Ok(logical) => (logical.bytes, Ok(logical.scan)),
            Err(reason) => (read_as_one(&paths)?, Err(reason)),
        };
        Ok(Self { path, paths, bytes, scan, damaged_buffer, known: files.known })
    }

    /// Whether it begins with a base that is not whole: what is left is not a state that ever was.
    pub fn has_broken_base(&self) -> bool {
        self.scan.as_ref().is_ok_and(|scan| scan.synced == u64::MAX)
    }

    /// Whether it ends with a whole record.
    pub fn is_whole(&self) -> bool {
        self.scan.as_ref().is_ok_and(|scan| scan.salt.is_some() && scan.end == self.bytes.len())
    }

    /// Whether it ends, with a whole record, before a position that was on the disk.
    pub fn is_cut_short(&self) -> bool {
        self.scan.as_ref().is_ok_and(|scan| scan.end == self.bytes.len() && (scan.end as u64) < scan.synced)
    }

    /// Whether a server refuses it.
    pub fn is_damaged(&self, may_have_lost_power: bool) -> bool {
        self.damaged_buffer.is_some() || self.scan.as_ref().map_or(true, |scan| scan.is_damaged(may_have_lost_power))
    }

    /// The end of the part that is as it was written.
    pub fn end(&self) -> usize {
        self.scan.as_ref().map_or(0, |scan| scan.end)
    }

    /// What its records are framed with. If its header is damaged, the manifest may have the salt, or the first record.
    pub fn salt(&self) -> Option<Salt> {
        match &self.scan {
            Ok(scan) => scan.salt,
            Err(_) if self.known.is_some() => self.known.map(|known| known.salt),
            Err(_) => {
                let salt = Salt(u32::from_le_bytes(*self.bytes.get(8..)?.first_chunk()?));
                let first = decode(self.bytes.get(SEGMENT_HEADER..)?, salt);
                (!matches!(first, Frame::Broken | Frame::End)).then_some(salt)
            }
        }
    }

    /// The pieces from a position on, each with its position; also those after damage.
    pub fn pieces(&self, from: usize) -> impl Iterator<Item = (usize, Piece<'_>)> {
        let bytes = self.bytes.as_slice();
        let end = if self.salt().is_some() { bytes.len() } else { 0 };
        let salt = self.salt().unwrap_or(Salt(0));
        let mut position = from.max(SEGMENT_HEADER);
        std::iter::from_fn(move || {
            if position >= end {
                return None;
            }
            let at = position;
            if let Some((piece, len)) = whole_piece(&bytes[at..], salt) {
                position += len;
                return Some((at, piece));
            }
            let is_whole = |&position: &usize| whole_piece(&bytes[position..], salt).is_some();
            position = (at + 1..end).find(is_whole).unwrap_or(end);
            Some((at, Piece::Gap(position - at)))
        })
    }
}

/// The contents of files, with the header of the first only.
fn read_as_one(paths: &[PathBuf]) -> Result<Vec<u8>, String> {
    let mut all = Vec::new();
    for path in paths {
        let bytes =
            write_buffer::read(&SystemDisk, path).map_err(|error| format!("can't read {}: {error}", path.display()))?;
        let bytes = bytes.unwrap_or_default();
        let skipped = if all.is_empty() { 0 } else { SEGMENT_HEADER };
        all.extend_from_slice(bytes.get(skipped..).unwrap_or_default());
    }
    Ok(all)
}

fn whole_piece(bytes: &[u8], salt: Salt) -> Option<(Piece<'_>, usize)> {
    match decode(bytes, salt) {
        Frame::Record(payload, len) => Some((Piece::Record(payload), len)),
        Frame::CrossShard(payload, len) => Some((Piece::CrossShard(payload), len)),
        Frame::Control(record, len) => Some((Piece::Control(record, &bytes[..len]), len)),
        Frame::End | Frame::Broken => None,
    }
}

/// What a repair drops.
#[derive(Debug, Default)]
pub struct Dropped {
    /// Bytes, including those of broken records.
    pub bytes: usize,
    /// Whole records; a record of several segments counts once.
    pub records: usize,
    /// The keys that these records changed.
    pub keys: BTreeSet<Vec<u8>>,
    /// Whether one of these records changed all keys.
    pub concerns_all: bool,
    transactions: HashSet<u64>,
}

impl Dropped {
    /// Adds what a segment holds from a position on.
    pub fn add(&mut self, segment: &InspectedSegment, from: usize) {
        self.bytes += segment.bytes.len().saturating_sub(from);
        for (_, piece) in segment.pieces(from) {
            match piece {
                Piece::Record(payload) => self.add_record(payload),
                Piece::CrossShard(payload) => {
                    let Some(record) = CrossShardRecord::parse(payload) else { continue };
                    if self.transactions.insert(record.number) {
                        self.add_record(record.effects);
                    }
                }
                Piece::Control(..) | Piece::Gap(_) => {}
            }
        }
    }

    fn add_record(&mut self, effects: &[u8]) {
        self.records += 1;
        self.add_effects(effects, |_| true);
    }

    /// Adds the keys of those effects of a record that are dropped.
    pub fn add_effects(&mut self, effects: &[u8], is_dropped: impl Fn(usize) -> bool) {
        let mut next = 0;
        // A payload that is no list of effects has no keys.
        let _ = for_each_effect(effects, &mut Vec::new(), |bytes, spans| {
            let args = Args::new(bytes, spans);
            next += 1;
            if args.is_empty() || args.is(0, "SELECT") || !is_dropped(next - 1) {
                return;
            }
            let Ok(Some(id)) = commands::find_of(args) else { return };
            let mut positions = commands::command(id).keys.positions(args).peekable();
            self.concerns_all |= positions.peek().is_none();
            self.keys.extend(positions.filter_map(|position| args.get(position)).map(<[u8]>::to_vec));
        });
    }
}

/// What a server would make of a log.
#[derive(Debug)]
pub struct Rehearsal {
    /// How many keys it would hold.
    pub keys: usize,
    /// How many databases they need.
    pub databases: usize,
    /// What it would cut: files, and their remaining lengths.
    pub cuts: Vec<(PathBuf, u64)>,
}

/// Recovers the log as a server does, without changing the disk. The error is the server's.
pub fn rehearse(dir: &Path, boot: &str, now_ms: u64) -> Result<Rehearsal, String> {
    buffers_must_be_whole(dir, boot)?;
    let (stores, cuts) = read_only(&Arc::default(), dir, boot, now_ms, None)?;
    let databases = stores.iter().map(|store| store.tables().len()).max().unwrap_or(0);
    Ok(Rehearsal { keys: stores.iter().map(Databases::keys).sum(), databases, cuts })
}

/// What of the log cannot be replayed and would be skipped. The error says why else a server refuses the log.
pub fn find_unfit(dir: &Path, boot: &str, now_ms: u64) -> Result<Vec<PassedOver>, String> {
    let mut passed_over = Vec::new();
    buffers_must_be_whole(dir, boot)?;
    read_only(&Arc::default(), dir, boot, now_ms, Some(&mut passed_over))?;
    Ok(passed_over)
}

fn buffers_must_be_whole(dir: &Path, boot: &str) -> Result<(), String> {
    let manifest = Manifest::read(&SystemDisk, dir)?;
    if manifest.may_have_lost_power(boot) {
        return Ok(());
    }
    write_buffer::must_be_whole(&SystemDisk, dir, &manifest)
}

/// What the log of a running server contains, for DEBUG LOADAOF. The caller excludes all appends to the segments, and
/// nothing else appends to them. The error is for the client.
pub fn read_back(
    instance: &Arc<Instance>,
    dir: &Path,
    boot: &str,
    segments: &[Arc<Segment>],
    manifest: &parking_lot::Mutex<Manifest>,
) -> Result<Vec<Databases>, String> {
    if !segments.iter().all(|segment| segment.write_all_out()) {
        return Err("the log cannot be written".into());
    }
    // A rewrite that ends meanwhile would remove files before they are read.
    let _unchanged = manifest.lock();
    let (stores, cuts) = read_only(instance, dir, boot, 0, None)?;
    if cuts.is_empty() { Ok(stores) } else { Err(format!("the log has whole records up to {cuts:?} only")) }
}

/// Files that would be cut, with their new lengths.
type Cuts = Vec<(PathBuf, u64)>;

fn read_only(
    instance: &Arc<Instance>,
    dir: &Path,
    boot: &str,
    now_ms: u64,
    passed_over: Option<&mut Vec<PassedOver>>,
) -> Result<(Vec<Databases>, Cuts), String> {
    const DATABASES_MAX: usize = 1024;
    let disk = ReadOnlyDisk::default();
    let manifest = Manifest::read(&SystemDisk, dir)?;
    // A starting server removes these before it looks for others.
    let beginning = beginning(&SystemDisk, dir)?;
    orphans::must_be_known(&SystemDisk, dir, &manifest, beginning)?;
    let last = manifest.chains().last();
    let layout = last.map_or(Layout { engine: "mutex".into(), shards: 1 }, |last| last.layout.clone());
    let control = LogControl::new(FsyncPolicy::No);
    let (boot, threads) = (boot.to_owned(), cores());
    let log = Log {
        disk: &disk,
        dir,
        layout,
        databases: DATABASES_MAX,
        threads,
        boot,
        now_ms,
        control,
        instance: Arc::clone(instance),
    };
    let stores = rehearse_noting(&log, passed_over)?;
    let cuts = std::mem::take(&mut *disk.cuts.lock().expect("nobody panics with the cuts"));
    Ok((stores, cuts))
}

/// The files of the operating system, only read; cuts are recorded instead of made.
#[derive(Debug, Default)]
struct ReadOnlyDisk {
    cuts: Mutex<Vec<(PathBuf, u64)>>,
    /// Where what was read of each file ends, without padding. The file may have grown since: a log thread appends a
    /// control record after an fsync.
    ends: Mutex<HashMap<PathBuf, u64>>,
}

impl Disk for ReadOnlyDisk {
    fn make_dir(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        let bytes = write_buffer::read(&SystemDisk, path)?;
        let end =
            bytes.as_deref().and_then(|bytes| bytes.iter().rposition(|byte| *byte != 0)).map_or(0, |last| last + 1);
        self.ends.lock().expect("nobody panics with the ends").insert(path.to_owned(), end as u64);
        Ok(bytes)
    }

    fn map(&self, _path: &Path) -> io::Result<Option<Box<dyn MappedFile>>> {
        Ok(None)
    }

    fn append_to(&self, _path: &Path) -> io::Result<Arc<dyn LogFile>> {
        Ok(Arc::new(Nowhere))
    }

    fn cut(&self, path: &Path, len: u64) -> io::Result<()> {
        let ends = self.ends.lock().expect("nobody panics with the ends");
        if ends.get(path).is_some_and(|end| *end > len) {
            self.cuts.lock().expect("nobody panics with the cuts").push((path.to_owned(), len));
        }
        Ok(())
    }

    fn rename(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        Ok(())
    }

    fn remove(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, _dir: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }

    fn sync_dir(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct Nowhere;

impl LogFile for Nowhere {
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn end(&self) -> u64 {
        0
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_appended_after_what_was_read_is_not_cut() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("segment");
        std::fs::write(&path, b"read\0\0\0").expect("the directory is there");
        let disk = ReadOnlyDisk::default();
        disk.read(&path).expect("the file is there");
        // A log thread appends a control record while others read.
        std::fs::write(&path, b"readnote").expect("the directory is there");
        disk.cut(&path, 4).expect("nothing is cut");
        assert_eq!(*disk.cuts.lock().expect("nobody panics"), []);
        disk.cut(&path, 3).expect("nothing is cut");
        assert_eq!(*disk.cuts.lock().expect("nobody panics"), [(path, 3)]);
    }

    #[test]
    fn a_log_is_read_back_as_it_is_before_its_files_are_replaced_or_after() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let layout = Layout { engine: "mutex".into(), shards: 1 };
        let with_removed_file = Manifest::of_chains("boot".into(), vec![Manifest::default().next_chain(&layout)]);
        with_removed_file.write(&SystemDisk, dir.path()).expect("there is room");
        let manifest = parking_lot::Mutex::new(with_removed_file);
        let mut replaced = manifest.lock();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| read_back(&Arc::default(), dir.path(), "boot", &[], &manifest).map(drop));
            std::thread::sleep(std::time::Duration::from_millis(100));
            *replaced = Manifest::default();
            replaced.write(&SystemDisk, dir.path()).expect("there is room");
            drop(replaced);
            reader.join().expect("it ends").expect("the manifest names no file");
        });
    }
}
