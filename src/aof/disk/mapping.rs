//! Files as memory.

#![allow(unsafe_code)]

use memmap2::{Advice, Mmap, MmapMut, MmapOptions};
use rustix::fs::FallocateFlags;
use rustix::io::{Errno, retry_on_intr};
use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::ops::Deref;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A memory-mapped file, in parts.
pub trait MappedFile: Debug + Send + Sync {
    /// Extends it by a part of zeros.
    fn grow(&mut self, len: usize) -> io::Result<Box<dyn Mapping>>;
    /// Makes what was put into it survive a power loss.
    fn sync(&self) -> io::Result<()>;
    /// Removes its name.
    fn unlink(&self) -> io::Result<()>;
}

/// A part of a file as memory: what is put there survives a kill, and perhaps a power loss.
pub trait Mapping: Debug + Send + Sync {
    /// Copies bytes to a position in it.
    fn put(&mut self, at: usize, bytes: &[u8]);
    /// Stores a word at a position that is a multiple of its length: all of it at once, after everything that was put
    /// or stored before, whenever the process is killed.
    fn store(&mut self, at: usize, word: u64);
    /// All of its bytes.
    fn get(&self) -> &[u8];
}

/// The numbers (statfs(2)) of file systems on which a page that was written once keeps its space: ext4, XFS, tmpfs, and
/// overlayfs, which leaves new files to one of these. Where each write of a page takes new space (btrfs, ZFS), a store
/// that finds a full disk would end the process with SIGBUS.
const KEEPING_ROOM: [u64; 4] = [0xef53, 0x5846_5342, 0x0102_1994, 0x794c_7630];

/// Extends a file by zeros that have their space. They are written where the file system cannot allocate without that.
fn allocate(file: &File, from: u64, len: usize) -> io::Result<()> {
    match retry_on_intr(|| rustix::fs::fallocate(file, FallocateFlags::empty(), from, len as u64)) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => file.write_all_at(&vec![0; len], from),
        result => Ok(result?),
    }
}

fn keeps_room(file: &File) -> io::Result<bool> {
    Ok(KEEPING_ROOM.contains(&(rustix::fs::fstatfs(file)?.f_type as u64)))
}

/// A file that is read from beginning to end. It is mapped where possible: the system loads pages as they are read, and
/// can reclaim them when it needs the memory.
pub enum Input {
    /// A file of a disk. If it is cut meanwhile, or cannot be read, the process ends with a message: see
    /// [`crate::base::bus_error`].
    Mapped(Mmap),
    /// What came through a pipe.
    Read(Vec<u8>),
}

impl Input {
    /// Opens a file.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        if !file.metadata()?.is_file() {
            return std::fs::read(path).map(Self::Read);
        }
        // SAFETY: the operator must not change the file while it is read, as for every mapped file. What Redis does is
        // safe: it appends after the mapped part, and renames a new file over another.
        let bytes = unsafe { Mmap::map(&file) }?;
        bytes.advise(Advice::Sequential)?;
        Ok(Self::Mapped(bytes))
    }
}

impl Deref for Input {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(bytes) => bytes,
            Self::Read(bytes) => bytes,
        }
    }
}

/// A memory-mapped file of the operating system.
///
/// The file system has allocated all its parts: no store finds a full disk.
#[derive(Debug)]
pub struct SystemMappedFile {
    file: File,
    path: PathBuf,
    len: usize,
}

impl SystemMappedFile {
    /// An empty file, replacing a file of that name.
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
        // At its place, whatever an attempt before has left of one on a full disk.
        if let Err(error) = allocate(&self.file, self.len as u64, len) {
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

    fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
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
        copy_past_caches(&mut self.0[at..at + bytes.len()], bytes);
    }

    fn store(&mut self, at: usize, word: u64) {
        let place = self.0[at..at + size_of::<u64>()].as_mut_ptr().cast::<u64>();
        assert!(place.is_aligned(), "a mapping begins with a page");
        // SAFETY: the place has the bytes of a word, is aligned, and is borrowed mutably, so nothing else uses it.
        unsafe { AtomicU64::from_ptr(place) }.store(word.to_le(), Ordering::Release);
    }

    fn get(&self) -> &[u8] {
        &self.0
    }
}

/// Bytes from which on a copy bypasses the caches.
#[cfg(any(test, target_arch = "x86_64"))]
const STREAMED_MIN: usize = 512;

/// Copies data that this process does not read again soon: in whole lines past the caches, which then keep the keys
/// (docs/adr/0018). All of it is in memory when this returns, before any later store.
#[cfg(target_arch = "x86_64")]
fn copy_past_caches(to: &mut [u8], from: &[u8]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    const LINE: usize = 64;
    const WORD: usize = size_of::<__m128i>();

    assert_eq!(to.len(), from.len());
    let head = to.as_ptr().align_offset(LINE);
    if from.len() < STREAMED_MIN {
        return to.copy_from_slice(from);
    }
    let (head_from, from) = from.split_at(head);
    let (head_to, to) = to.split_at_mut(head);
    head_to.copy_from_slice(head_from);
    let (lines_from, tail_from) = from.as_chunks::<LINE>();
    let (lines_to, tail_to) = to.as_chunks_mut::<LINE>();
    for (to, from) in lines_to.iter_mut().zip(lines_from) {
        for at in (0..LINE).step_by(WORD) {
            // SAFETY: both lines have a word at `at`. That of `to` is aligned, as the first line is and all before it
            // have LINE bytes. The instructions are those of every x86_64.
            unsafe {
                let word = _mm_loadu_si128(from.as_ptr().add(at).cast());
                _mm_stream_si128(to.as_mut_ptr().add(at).cast(), word);
            }
        }
    }
    tail_to.copy_from_slice(tail_from);
    // SAFETY: every x86_64 has it. Without it, streamed stores may become visible after later stores.
    unsafe { _mm_sfence() };
}

/// There is no such store here.
#[cfg(not(target_arch = "x86_64"))]
fn copy_past_caches(to: &mut [u8], from: &[u8]) {
    to.copy_from_slice(from);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, SeekFrom, Write};
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_part_has_all_of_its_space_after_a_full_disk_has_taken_a_piece_of_it() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("file");
        let Ok(mut file) = SystemMappedFile::new(&path) else { return };
        let first = file.grow(8192).expect("there is room");
        // What is left of a write that failed.
        (&file.file)
            .seek(SeekFrom::Start(8192))
            .and_then(|_| (&file.file).write_all(&[0; 5000]))
            .expect("there is room");
        file.file.set_len(8192).expect("it can be cut");
        let mut second = file.grow(8192).expect("there is room");
        second.put(8191, b"x");
        assert_eq!((first.get().len(), second.get().len()), (8192, 8192));
        let bytes = std::fs::read(&path).expect("it is there");
        assert_eq!((bytes.len(), bytes[16383]), (16384, b'x'));
        let blocks = std::fs::metadata(&path).expect("it is there").blocks();
        assert!(blocks * 512 >= 16384, "{blocks} blocks");
    }

    #[test]
    fn copies_past_the_caches_are_copies_wherever_they_begin_and_end() {
        let from: Vec<u8> = (0..STREAMED_MIN + 300).map(|number| (number * 7 % 251) as u8).collect();
        for start in 0..130 {
            for len in [0, 1, STREAMED_MIN - 1, STREAMED_MIN, STREAMED_MIN + 1, STREAMED_MIN + 63, STREAMED_MIN + 169] {
                let mut to = vec![255; from.len() + 130];
                copy_past_caches(&mut to[start..start + len], &from[..len]);
                assert_eq!(to[start..start + len], from[..len], "{len} bytes at {start}");
                assert!(to[..start].iter().chain(&to[start + len..]).all(|byte| *byte == 255), "more than {len} bytes");
            }
        }
    }
}
