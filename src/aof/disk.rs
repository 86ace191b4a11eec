//! Where the log's files live: the seam through which tests bring failing disks and lost power.

use parking_lot::Mutex;
use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A place for files. Every error is the operating system's.
pub trait Disk: Debug + Send + Sync {
    /// Makes a directory, and those above it, where they are not there; its name survives a power loss.
    fn make_dir(&self, path: &Path) -> io::Result<()>;
    /// What a file holds; `None` where there is none.
    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>>;
    /// Opens a file to append to; it is made where there is none.
    fn append_to(&self, path: &Path) -> io::Result<Arc<dyn LogFile>>;
    /// Cuts a file to a length.
    fn cut(&self, path: &Path, len: u64) -> io::Result<()>;
    /// Gives a file another name, in place of what has that name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// The files in a directory; directories are left out.
    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>>;
    /// Sees to it that the names in a directory survive a power loss.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
}

/// A file that grows at its end.
///
/// Behind its end it may be padded with zeros that are on the disk already: an fsync of what is written over them has no
/// new length and no new extents to put into the file system's journal, which is most of what it takes otherwise
/// (docs/adr/0013). What a crash leaves of the padding is no part of the log.
pub trait LogFile: Debug + Send + Sync {
    /// Appends bytes, perhaps not all of them; gives how many.
    fn write(&self, bytes: &[u8]) -> io::Result<usize>;
    /// Sees to it that what was appended survives a power loss.
    fn sync(&self) -> io::Result<()>;
    /// How many zeros stand behind the end.
    fn padding(&self) -> u64 {
        0
    }
    /// Adds up to so many zeros behind the end. They are on the disk with the next [`sync`](Self::sync).
    fn pad(&self, _len: u64) -> io::Result<()> {
        Ok(())
    }
    /// Takes the zeros behind the end away. It need not survive a power loss.
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

/// Appends at least one byte.
pub fn write_some(file: &(impl LogFile + ?Sized), bytes: &[u8]) -> io::Result<usize> {
    loop {
        match file.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Replaces a file: written aside, synced, renamed, and the directory synced. A crash leaves the old one or the new.
pub fn replace(disk: &dyn Disk, dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let aside = dir.join(format!("{name}.new"));
    if disk.read(&aside)?.is_some() {
        disk.remove(&aside)?;
    }
    let file = disk.append_to(&aside)?;
    file.write_all(bytes)?;
    file.sync()?;
    disk.rename(&aside, &dir.join(name))?;
    disk.sync_dir(dir)
}

/// The files of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemDisk;

impl Disk for SystemDisk {
    fn make_dir(&self, path: &Path) -> io::Result<()> {
        std::fs::create_dir_all(path)?;
        // Whoever made it: its files are no safer than its name.
        path.parent().filter(|parent| !parent.as_os_str().is_empty()).map_or(Ok(()), |parent| self.sync_dir(parent))
    }

    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        match std::fs::read(path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn append_to(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
        let len = file.metadata()?.len();
        Ok(Arc::new(SystemFile { file, extent: Mutex::new(Extent { end: len, len }) }))
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
        File::open(path)?.sync_all()
    }
}

/// A file of the operating system. Nobody else writes to it.
#[derive(Debug)]
struct SystemFile {
    file: File,
    extent: Mutex<Extent>,
}

/// Invariant: `end <= len`, and between them are zeros.
#[derive(Debug)]
struct Extent {
    /// Where it is appended to.
    end: u64,
    /// How long the file is.
    len: u64,
}

/// What is padded at a time.
static ZEROS: [u8; 256 * 1024] = [0; 256 * 1024];

impl LogFile for SystemFile {
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut extent = self.extent.lock();
        let written = self.file.write_at(bytes, extent.end)?;
        extent.end += written as u64;
        extent.len = extent.len.max(extent.end);
        Ok(written)
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
            let zeros = &ZEROS[..ZEROS.len().min((wanted - extent.len) as usize)];
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
    // Who opens it again goes on behind what is there.
    file.pad(2).expect("there is room");
    SystemDisk.append_to(&path).and_then(|file| file.write_all(b"four")).expect("there is room");
    assert_eq!(contents(), b"onetwothree\0\0four");
}
