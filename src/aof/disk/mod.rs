//! Where the log's files are: the seam at which tests inject failing disks and power losses.

mod lock;
mod mapping;
#[cfg(test)]
mod simulated;

use crate::base::directories;
use crate::base::narrowing::size;
use parking_lot::Mutex;
use rustix::fs::OFlags;
use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use lock::DirLock;
use mapping::SystemMappedFile;
pub use mapping::{Input, MappedFile, Mapping};
#[cfg(test)]
pub use simulated::{Failure, Fault, SimDisk};

/// A place for files. Every error is the operating system's.
pub trait Disk: Debug + Send + Sync {
    /// Makes a directory and its missing parents; its name survives a power loss.
    fn make_dir(&self, path: &Path) -> io::Result<()>;
    /// The contents of a file; `None` if there is none.
    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>>;
    /// The contents of a file from a position on; `None` if there is no file, or it is shorter.
    fn read_from(&self, path: &Path, from: u64) -> io::Result<Option<Vec<u8>>> {
        Ok(self.read(path)?.and_then(|bytes| Some(bytes.get(size(from)..)?.to_vec())))
    }
    /// Opens a file that is read from its beginning to its end.
    fn open(&self, path: &Path) -> io::Result<Input> {
        self.read(path)?.map(Input::Read).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
    /// Makes an empty memory-mapped file, replacing a file of that name; `None` if this disk has none.
    fn map(&self, path: &Path) -> io::Result<Option<Box<dyn MappedFile>>>;
    /// Opens a file to append to, and creates it if it is missing.
    fn append_to(&self, path: &Path) -> io::Result<Arc<dyn LogFile>>;
    /// Cuts a file to a length.
    fn cut(&self, path: &Path, len: u64) -> io::Result<()>;
    /// Renames a file, replacing a file of the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// The files in a directory, without directories.
    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>>;
    /// Makes the names in a directory survive a power loss.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
}

/// A file that grows at its end.
///
/// After its end it may be padded with zeros that are on the disk already: an fsync of bytes that overwrite them has no
/// new length and no new extents to put into the file system's journal, which is most of its cost otherwise
/// (docs/adr/0013). Padding that a crash leaves is not part of the log.
pub trait LogFile: Debug + Send + Sync {
    /// Appends bytes, perhaps not all of them, and returns how many. They survive a kill.
    fn write(&self, bytes: &[u8]) -> io::Result<usize>;
    /// The same without the buffer, for callers that sync at once.
    fn write_through(&self, bytes: &[u8]) -> io::Result<usize> {
        self.write(bytes)
    }
    /// The position that the next bytes are appended at.
    fn end(&self) -> u64;
    /// Passes buffered bytes to the file system.
    fn drain(&self) -> io::Result<()> {
        Ok(())
    }
    /// Passes the full parts of a buffer to the file system.
    fn drain_full(&self) -> io::Result<()> {
        Ok(())
    }
    /// Whether parts of a buffer are full.
    fn wants_drain(&self) -> bool {
        false
    }
    /// How many bytes are in a buffer only.
    fn buffered(&self) -> u64 {
        0
    }
    /// Makes buffered bytes survive a power loss in the buffer.
    fn sync_buffer(&self) -> io::Result<()> {
        Ok(())
    }
    /// Makes what was appended and [drained](Self::drain) survive a power loss.
    fn sync(&self) -> io::Result<()>;
    /// No more will be appended; all of it was drained.
    fn close(&self) -> io::Result<()> {
        Ok(())
    }
    /// How many zeros follow the end.
    fn padding(&self) -> u64 {
        0
    }
    /// Adds up to this many zeros after the end. They are on the disk with the next [`sync`](Self::sync).
    fn pad(&self, _len: u64) -> io::Result<()> {
        Ok(())
    }
    /// Removes the zeros after the end. This need not survive a power loss.
    fn trim(&self) -> io::Result<()> {
        Ok(())
    }
}

impl dyn LogFile {
    /// Appends all of the bytes.
    pub fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let len = write_some(self, bytes)?;
            bytes = &bytes[len..];
        }
        Ok(())
    }
}

/// No file: bytes written to it are dropped. A segment writes to it while there is no log.
#[derive(Debug)]
pub struct NoFile;

impl LogFile for NoFile {
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

/// Appends at least one byte.
pub fn write_some(file: &(impl LogFile + ?Sized), bytes: &[u8]) -> io::Result<usize> {
    some_of(|| file.write(bytes))
}

/// How many bytes a write took, which is at least one.
pub fn some_of(write: impl Fn() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match write() {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Replaces a file: written aside, synced, renamed, and the directory synced. A crash leaves the old file or the new
/// one.
pub fn replace(disk: &dyn Disk, dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let aside = dir.join(format!("{name}.new"));
    if disk.read(&aside)?.is_some() {
        disk.remove(&aside)?;
    }
    let written = disk.append_to(&aside).and_then(|file| file.write_all(bytes).and_then(|()| file.sync()));
    if let Err(error) = written.and_then(|()| disk.rename(&aside, &dir.join(name))) {
        // If this one cannot be removed, the next replacement does it.
        drop(disk.remove(&aside));
        return Err(error);
    }
    disk.sync_dir(dir)
}

/// The files of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemDisk;

impl Disk for SystemDisk {
    fn make_dir(&self, path: &Path) -> io::Result<()> {
        directories::make(path)
    }

    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        match std::fs::read(path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn read_from(&self, path: &Path, from: u64) -> io::Result<Option<Vec<u8>>> {
        let mut file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        if file.metadata()?.len() < from {
            return Ok(None);
        }
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    fn open(&self, path: &Path) -> io::Result<Input> {
        Input::open(path)
    }

    fn map(&self, path: &Path) -> io::Result<Option<Box<dyn MappedFile>>> {
        Ok(Some(Box::new(SystemMappedFile::new(path)?)))
    }

    fn append_to(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
        let len = file.metadata()?.len();
        // File systems without direct writes get everything through the page cache.
        let direct = OpenOptions::new().write(true).custom_flags(OFlags::DIRECT.bits() as i32).open(path).ok();
        Ok(Arc::new(SystemFile { file, direct, extent: Mutex::new(Extent { end: len, len }) }))
    }

    fn cut(&self, path: &Path, len: u64) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(path)?;
        file.set_len(len)?;
        file.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                files.push(entry.path());
            }
        }
        Ok(files)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        directories::sync(path)
    }
}

/// A file of the operating system. Nothing else writes to it.
#[derive(Debug)]
struct SystemFile {
    file: File,
    /// The same file past the page cache.
    direct: Option<File>,
    extent: Mutex<Extent>,
}

/// What goes past the page cache begins and ends with a page, in the file and in memory.
const PAGE: usize = 4096;
/// From this many bytes on, direct writes are worth it: below, the copy and the bookkeeping of pages cost less than
/// waiting for the disk, which the log thread can afford. Under `always` an fsync follows smaller writes, and one wait
/// for the disk is better than two.
const DIRECT_MIN: usize = 128 * 1024;

/// How many of the bytes the next write at a position takes, and whether it bypasses the page cache.
fn next_write(position: u64, bytes: &[u8]) -> (usize, bool) {
    let ahead = size(position).wrapping_neg() % PAGE;
    let is_aligned = bytes.as_ptr().addr().wrapping_add(ahead).is_multiple_of(PAGE);
    match bytes.len().saturating_sub(ahead) / PAGE * PAGE {
        pages if pages < DIRECT_MIN || !is_aligned => (bytes.len(), false),
        pages if ahead == 0 => (pages, true),
        _ => (ahead, false),
    }
}

impl SystemFile {
    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        match (next_write(position, bytes), &self.direct) {
            ((len, true), Some(direct)) => match direct.write_at(&bytes[..len], position) {
                // The device's blocks are larger.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => self.file.write_at(bytes, position),
                result => result,
            },
            ((len, false), Some(_)) => self.file.write_at(&bytes[..len], position),
            (_, None) => self.file.write_at(bytes, position),
        }
    }
}

/// Invariant: `end <= len`, and between them are zeros.
#[derive(Debug)]
struct Extent {
    /// Where the next bytes are appended.
    end: u64,
    /// The length of the file.
    len: u64,
}

/// What one write of padding takes.
static ZEROS: [u8; 256 * 1024] = [0; 256 * 1024];

impl LogFile for SystemFile {
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut extent = self.extent.lock();
        let written = self.write_at(bytes, extent.end)?;
        extent.end += written as u64;
        extent.len = extent.len.max(extent.end);
        Ok(written)
    }

    fn end(&self) -> u64 {
        self.extent.lock().end
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn padding(&self) -> u64 {
        let extent = self.extent.lock();
        extent.len - extent.end
    }

    fn pad(&self, len: u64) -> io::Result<()> {
        let mut extent = self.extent.lock();
        let wanted = extent.len + len;
        while extent.len < wanted {
            let zeros = &ZEROS[..ZEROS.len().min(size(wanted - extent.len))];
            match self.file.write_at(zeros, extent.len) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => extent.len += written as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn trim(&self) -> io::Result<()> {
        let mut extent = self.extent.lock();
        if extent.len > extent.end {
            self.file.set_len(extent.end)?;
            extent.len = extent.end;
        }
        Ok(())
    }
}

#[test]
fn what_is_written_goes_over_the_padding_and_trimming_takes_what_is_left() {
    let dir = tempfile::tempdir().expect("there is room");
    let path = dir.path().join("file");
    let file = SystemDisk.append_to(&path).expect("it is made");
    let contents = || std::fs::read(&path).expect("it is there");
    file.write_all(b"one").and_then(|()| file.pad(5)).expect("there is room");
    assert_eq!((contents(), file.padding()), (b"one\0\0\0\0\0".to_vec(), 5));
    file.write_all(b"two").expect("there is room");
    assert_eq!((contents(), file.padding()), (b"onetwo\0\0".to_vec(), 2));
    file.write_all(b"three").expect("there is room");
    assert_eq!((contents(), file.padding()), (b"onetwothree".to_vec(), 0));
    file.pad(ZEROS.len() as u64 + 1).and_then(|()| file.trim()).expect("there is room");
    assert_eq!((contents(), file.padding()), (b"onetwothree".to_vec(), 0));
    // A file that is opened again continues after what is there.
    file.pad(2).expect("there is room");
    SystemDisk.append_to(&path).and_then(|file| file.write_all(b"four")).expect("there is room");
    assert_eq!(contents(), b"onetwothree\0\0four");
}

/// From page-aligned memory every piece gets to its own place.
#[test]
fn pieces_of_every_length_and_alignment_get_to_their_place() {
    let dir = tempfile::tempdir().expect("there is room");
    let path = dir.path().join("file");
    let buffer: Vec<u8> = (0..(1 << 20) + PAGE).map(|number| (number / 3 * 7) as u8).collect();
    let shift = buffer.as_ptr().addr().wrapping_neg() % PAGE;
    let bytes = &buffer[shift..shift + (1 << 20)];
    let mut direct = 0;
    for seed in 0..20 {
        let mut random = fastrand::Rng::with_seed(seed);
        let _ = std::fs::remove_file(&path);
        let file = SystemDisk.append_to(&path).expect("it is made");
        let mut end = 0;
        while end < bytes.len() {
            let len = random.usize(1..300_000).min(bytes.len() - end);
            direct += usize::from(next_write(end as u64, &bytes[end..end + len]).1);
            if random.u8(..4) == 0 {
                file.pad(random.u64(..20_000)).expect("there is room");
            }
            file.write_all(&bytes[end..end + len]).expect("there is room");
            end += len;
            // A piece that is not aligned, then the same.
            if random.bool() {
                let copy = bytes[..end].to_vec();
                assert!(std::fs::read(&path).expect("it is there").starts_with(&copy), "seed {seed}");
            }
        }
        file.trim().expect("there is room");
        assert!(std::fs::read(&path).expect("it is there") == bytes, "seed {seed}");
    }
    assert!(direct > 10, "{direct} writes began past the page cache");
}
