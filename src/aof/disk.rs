//! Where the log's files live: the seam through which tests bring failing disks and lost power.

use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
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
pub trait LogFile: Debug + Send + Sync {
    /// Appends bytes, perhaps not all of them; gives how many.
    fn write(&self, bytes: &[u8]) -> io::Result<usize>;
    /// Sees to it that what was appended survives a power loss.
    fn sync(&self) -> io::Result<()>;
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
        Ok(Arc::new(OpenOptions::new().create(true).append(true).open(path)?))
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

impl LogFile for File {
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut file = self;
        Write::write(&mut file, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}
