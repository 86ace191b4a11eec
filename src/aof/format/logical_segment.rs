//! The files of one segment, read as one: its base, and its increments in the order in which one leads to the next.
//!
//! ```text
//! base:       header | records of all keys | control record 4
//! increment:  header | records | control record 3: goes on in increment N
//! last:       header | records
//! ```
//!
//! An increment may be padded with zeros, which are left out too.
//!
//! All of them exist and share one salt. Only the first header is kept, so positions here are those of one long file. A
//! file that does not end with a control record naming the next one has lost its tail, or was the last one when the
//! server ended: the files after it follow a hole, and are not part of the log.

use super::manifest::{Known, SegmentFiles};
use super::record::{ControlRecord, SEGMENT_HEADER, Salt, frame_control_onto};
use super::segment_scan::Scan;
use crate::aof::disk::Disk;
use std::io;
use std::path::{Path, PathBuf};

/// One segment.
#[derive(Debug)]
pub struct LogicalSegment {
    /// What its files hold.
    pub bytes: Vec<u8>,
    /// The scan of its bytes.
    pub scan: Scan,
    files: Vec<SegmentFile>,
}

/// One of its files.
#[derive(Debug)]
struct SegmentFile {
    path: PathBuf,
    /// The number of the increment; none for the base.
    increment: Option<u32>,
    /// Where its first record is in `bytes`.
    start: usize,
    /// How long the file is, without its padding.
    len: usize,
    /// The zeros at its end.
    padding: usize,
    /// Whether the files before lead to it.
    is_reached: bool,
}

impl LogicalSegment {
    /// Reads the files. The error names the one that cannot be read, is missing, or is not of this segment.
    pub fn read(disk: &dyn Disk, files: &SegmentFiles) -> Result<Self, String> {
        let mut logical = Self { bytes: Vec::new(), scan: Scan::of_nothing(), files: Vec::new() };
        let mut salt = files.known.map(|known| known.salt);
        let mut expected = files.increments.first().map(|(number, _)| u64::from(*number));
        if let Some(path) = &files.base {
            let (bytes, scan) = read_one(disk, path, &mut salt)?;
            if !logical.begin_with_base(path, bytes, scan) {
                expected = None;
            }
        }
        for (number, path) in &files.increments {
            let (mut bytes, scan) = read_one(disk, path, &mut salt)?;
            let padding = scan.padding(&bytes);
            bytes.truncate(bytes.len() - padding);
            if expected == Some(u64::from(*number)) && logical.is_whole() {
                logical.go_on_with(path, *number, bytes, scan);
                expected = logical.scan.goes_on;
            } else {
                logical.add_after_hole(path, *number, &bytes, &scan);
            }
            logical.files.last_mut().expect("it was just added").padding = padding;
        }
        logical.note_known(files.known)?;
        Ok(logical)
    }

    /// Checks the length of the last file that the manifest says was on the disk.
    fn note_known(&mut self, known: Option<Known>) -> Result<(), String> {
        let last = self.files.last().expect("a segment has an increment");
        if let (true, Some(next)) = (last.is_reached, self.scan.goes_on) {
            return Err(format!(
                "{}: it goes on in increment {next}, which the manifest does not name: the manifest is an older one, or \
                 of another log. Refusing to start with a part of the data",
                last.path.display()
            ));
        }
        let known = known.map_or(0, |known| known.len).saturating_sub(SEGMENT_HEADER as u64);
        if known > 0 {
            let synced =
                if last.is_reached { known.saturating_add(last.start as u64) } else { self.scan.end as u64 + 1 };
            self.scan.synced = self.scan.synced.max(synced);
        }
        Ok(())
    }

    /// Whether everything so far is as it was written.
    fn is_whole(&self) -> bool {
        self.scan.end == self.bytes.len()
    }

    /// A base was on the disk before any other file named it; returns whether it is whole.
    fn begin_with_base(&mut self, path: &Path, bytes: Vec<u8>, mut scan: Scan) -> bool {
        let is_whole = scan.base_end > 0 && scan.base_end == bytes.len();
        scan.synced = if is_whole { bytes.len() as u64 } else { u64::MAX };
        self.add(path, None, SEGMENT_HEADER, &bytes, true);
        // What is left of it is not a state that ever was.
        if !is_whole {
            scan.end = scan.end.min(bytes.len().saturating_sub(1));
        }
        (self.bytes, self.scan) = (bytes, scan);
        is_whole
    }

    fn go_on_with(&mut self, path: &Path, number: u32, bytes: Vec<u8>, scan: Scan) {
        if self.files.is_empty() {
            self.add(path, Some(number), SEGMENT_HEADER, &bytes, true);
            (self.bytes, self.scan) = (bytes, scan);
            return;
        }
        let start = self.bytes.len();
        self.add(path, Some(number), start, &bytes, true);
        self.bytes.extend_from_slice(&bytes[SEGMENT_HEADER..]);
        self.scan.go_on_with(scan, start - SEGMENT_HEADER);
    }

    fn add_after_hole(&mut self, path: &Path, number: u32, bytes: &[u8], scan: &Scan) {
        self.add(path, Some(number), self.bytes.len(), bytes, false);
        self.bytes.extend_from_slice(&bytes[SEGMENT_HEADER..]);
        self.scan.goes_on = None;
        self.scan.has_more |= scan.end > SEGMENT_HEADER || scan.has_more;
        if scan.synced > SEGMENT_HEADER as u64 {
            // The earlier files were on the disk before this one.
            self.scan.synced = self.scan.synced.max(self.scan.end as u64 + 1);
        }
    }

    fn add(&mut self, path: &Path, increment: Option<u32>, start: usize, bytes: &[u8], is_reached: bool) {
        let (path, len) = (path.to_owned(), bytes.len());
        self.files.push(SegmentFile { path, increment, start, len, padding: 0, is_reached });
    }

    /// What its records are framed with.
    pub fn salt(&self) -> Salt {
        self.scan.salt.expect("a file without a whole header is refused")
    }

    /// The first of its files, which names it.
    pub fn path(&self) -> &Path {
        &self.files[0].path
    }

    /// The file of a position, and the position in that file.
    pub fn place(&self, position: usize) -> (&Path, usize) {
        let (index, offset) = self.find(position);
        (&self.files[index].path, offset)
    }

    /// The file of a position, and the position in that file. A position between two files belongs to the later one.
    fn find(&self, position: usize) -> (usize, usize) {
        let has = |file: &SegmentFile| file.is_reached && file.start <= position;
        let index = self.files.iter().rposition(has).unwrap_or(0);
        let start = self.files[index].start;
        (index, if index == 0 { position } else { position - start + SEGMENT_HEADER })
    }

    /// The file that is written to.
    pub fn last_path(&self) -> &Path {
        &self.files.last().expect("a segment has an increment").path
    }

    /// How long the files before the last one are when it is cut at `end`, and how long the base is.
    pub fn before_last(&self, end: usize) -> (usize, usize) {
        let last = self.files.last().expect("a segment has an increment");
        let base = self.files[0].increment.map_or(self.files[0].len, |_| 0);
        (if self.has_several() { end.min(last.start) } else { 0 }, base)
    }

    /// Whether there are several files, each of which has to lead to the next.
    pub fn has_several(&self) -> bool {
        self.files.len() > 1
    }

    /// Cuts what follows `end`, makes the last file continue from there with everything before it on the disk, and
    /// returns that file's length. After a crash on the way the next start does the same.
    pub fn mend(&self, disk: &dyn Disk, end: usize) -> io::Result<usize> {
        let (index, offset) = self.find(end);
        let last = self.files.len() - 1;
        for file in self.files[index + 1..].iter().rev() {
            file.cut(disk, SEGMENT_HEADER)?;
        }
        self.files[index].cut(disk, offset)?;
        if index < last {
            let increment = self.files[last].increment.expect("the last file is an increment");
            let mut tail = Vec::new();
            frame_control_onto(&mut tail, self.salt(), ControlRecord::GoesOn(increment.into()));
            let file = disk.append_to(&self.files[index].path)?;
            file.write_all(&tail).and_then(|()| file.sync())?;
        }
        // After a kill only the operating system has them, and what is appended now may reach the disk first.
        for file in &self.files {
            disk.append_to(&file.path)?.sync()?;
        }
        Ok(if index == last { offset } else { SEGMENT_HEADER })
    }
}

impl SegmentFile {
    fn cut(&self, disk: &dyn Disk, len: usize) -> io::Result<()> {
        if self.len + self.padding > len { disk.cut(&self.path, len as u64) } else { Ok(()) }
    }
}

/// Reads a file of a segment with this salt, or sets the salt if it is the first. The manifest names a file only once
/// the file is on the disk with its header, so a file without one was replaced.
fn read_one(disk: &dyn Disk, path: &Path, salt: &mut Option<Salt>) -> Result<(Vec<u8>, Scan), String> {
    const REFUSING: &str = "Refusing to start with a part of the data; `shardrace check-aof` tells what could be saved";
    let path_shown = path.display();
    let bytes = disk.read(path).map_err(|error| format!("can't read {path_shown}: {error}"))?;
    let bytes = bytes.ok_or_else(|| format!("{path_shown} is missing, and the manifest names it. {REFUSING}"))?;
    let scan = Scan::of(&bytes, path)?;
    let Some(found) = scan.salt else {
        let what = if bytes.is_empty() { "is empty" } else { "ends within its header" };
        return Err(format!("{path_shown} {what}: what it held was taken away. {REFUSING}"));
    };
    let wanted = *salt.get_or_insert(found);
    if found != wanted {
        return Err(format!(
            "{path_shown} is of another segment, or of another log: its salt is {:08x}, and that of this segment \
             {:08x}. {REFUSING}",
            found.0, wanted.0
        ));
    }
    Ok((bytes, scan))
}
