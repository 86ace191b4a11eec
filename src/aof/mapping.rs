//! Files as memory.

#![allow(unsafe_code)]

use super::disk::{MappedFile, Mapping};
use memmap2::{MmapMut, MmapOptions};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The numbers (statfs(2)) of file systems on which a page that was written once has its room for good: ext4, XFS, tmpfs,
/// and overlayfs, which leaves new files to one of these. Where each write of a page takes new room (btrfs, ZFS), a store
/// that finds a full disk would end the process with SIGBUS.
const KEEPING_ROOM: [u64; 4] = [0xef53, 0x5846_5342, 0x0102_1994, 0x794c_7630];

fn keeps_room(file: &File) -> io::Result<bool> {
    Ok(KEEPING_ROOM.contains(&(rustix::fs::fstatfs(file)?.f_type as u64)))
}

/// A file of the operating system that is memory.
///
/// The file system has given it the room of all its parts: no store finds a full disk.
#[derive(Debug)]
pub struct SystemMappedFile {
    file: File,
    path: PathBuf,
    len: usize,
}

impl SystemMappedFile {
    /// An empty one, in place of what has that name.
    pub fn new(path: &Path) -> io::Result<Self> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        if !keeps_room(&file)? {
            std::fs::remove_file(path)?;
            return Err(io::Error::new(
                ErrorKind::Unsupported,
                "its file system is not one known to keep a page's room",
            ));
        }
        Ok(Self { file, path: path.to_owned(), len: 0 })
    }
}

impl MappedFile for SystemMappedFile {
    fn grow(&mut self, len: usize) -> io::Result<Box<dyn Mapping>> {
        if let Err(error) = self.file.write_all(&vec![0; len]) {
            // What a full disk has taken of it would shift the next part.
            self.file.set_len(self.len as u64)?;
            return Err(error);
        }
        let mut options = MmapOptions::new();
        options.offset(self.len as u64).len(len);
        // SAFETY: the file was made here, in a directory that this server has the lock of, so no other process changes
        // it; and no two mappings share a byte.
        let bytes = unsafe { options.map_mut(&self.file) }?;
        self.len += len;
        Ok(Box::new(SystemMapping(bytes)))
    }

    fn unlink(&self) -> io::Result<()> {
        std::fs::remove_file(&self.path)
    }
}

/// A part of it.
#[derive(Debug)]
struct SystemMapping(MmapMut);

impl Mapping for SystemMapping {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn get(&self) -> &[u8] {
        &self.0
    }
}
