//! A disk of real files that keeps a book of what was synced. It syncs by waiting: only the book knows what a power
//! loss would take.

use super::book::{Book, Places, append};
use shardrace::internals::aof::{Disk, LogFile, MappedFile, SystemDisk};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The behaviour of the disk, and its faults.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Behaviour {
    /// How long an fsync takes at most, in microseconds; each takes a random part of it.
    pub sync_us: u64,
    /// How long an fsync takes in milliseconds once the file `slow` is in the directory of the journal.
    pub slow_ms: u64,
    /// Planted: an fsync returns at once, and is done when it would have returned. To clients this is a server that
    /// releases replies when they are written.
    pub is_early: bool,
    /// Files cannot be mapped, so written data is in the files at once.
    pub is_unmapped: bool,
    /// The first write or fsync that fails; all later ones fail, too.
    pub fails_from: Option<(u64, Failure)>,
}

/// How calls fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// EIO.
    Broken,
    /// ENOSPC.
    Full,
    /// The first write takes half of its bytes, and later ones none, as on a full disk. fsyncs succeed.
    Short,
}

impl Failure {
    pub const ALL: [Self; 3] = [Self::Broken, Self::Full, Self::Short];

    fn error(self) -> io::Error {
        io::Error::from_raw_os_error(if self == Self::Broken { 5 } else { 28 })
    }
}

/// See the module.
#[derive(Debug, Clone)]
pub struct TrackingDisk {
    places: Places,
    behaviour: Behaviour,
    /// The next file's number. Locked while a file is renamed.
    next: Arc<Mutex<usize>>,
    /// Writes and fsyncs so far.
    calls: Arc<AtomicU64>,
}

impl TrackingDisk {
    /// A disk with a book that has begun.
    pub fn new(places: Places, behaviour: Behaviour) -> Self {
        places.catch_up();
        let next = Book::read(&places).synced.len();
        Self { places, behaviour, next: Arc::new(Mutex::new(next)), calls: Arc::default() }
    }

    /// Counts a write or an fsync: returns how it fails, if it does, and whether it is the first.
    fn call(&self) -> Option<(Failure, bool)> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let (first, failure) = self.behaviour.fails_from?;
        (number >= first).then_some((failure, number == first))
    }

    fn note(&self, line: &str) {
        append(&self.places.journal(), line);
    }

    /// Records a new file, and returns its number.
    fn note_new(&self, next: &mut usize, path: &Path) -> io::Result<usize> {
        // A kill may have come between the link and its line in the journal.
        let number = self.places.file(*next);
        if number.exists() {
            std::fs::remove_file(&number)?;
        }
        std::fs::hard_link(path, number)?;
        self.note(&format!("file {next} {}", name_of(path)));
        *next += 1;
        Ok(*next - 1)
    }

    fn number_of(&self, path: &Path) -> usize {
        Book::read(&self.places).names[name_of(path)]
    }
}

fn name_of(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).expect("files of the log have plain names")
}

impl Disk for TrackingDisk {
    fn make_dir(&self, path: &Path) -> io::Result<()> {
        std::fs::create_dir_all(path)
    }

    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        // The test that starts the server may want to see it while it loads.
        while [".aof", ".rdb"].iter().any(|end| name_of(path).ends_with(end)) && self.places.hold().exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        SystemDisk.read(path)
    }

    fn map(&self, path: &Path) -> io::Result<Option<Box<dyn MappedFile>>> {
        if self.behaviour.is_unmapped {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let mut next = self.next.lock().unwrap();
        let mapped = SystemDisk.map(path)?;
        self.note_new(&mut next, path)?;
        Ok(mapped)
    }

    fn append_to(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        let mut next = self.next.lock().unwrap();
        let is_new = !path.exists();
        let file = SystemDisk.append_to(path)?;
        let number = if is_new { self.note_new(&mut next, path)? } else { self.number_of(path) };
        let end = AtomicU64::new(std::fs::metadata(path)?.len());
        Ok(Arc::new(TrackedFile { file, end, number, disk: self.clone() }))
    }

    fn cut(&self, path: &Path, len: u64) -> io::Result<()> {
        // Recorded first: a kill in between leaves more than is known to be on the disk, and never less.
        self.note(&format!("sync {} {len}", self.number_of(path)));
        std::fs::OpenOptions::new().write(true).open(path)?.set_len(len)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let _guard = self.next.lock().unwrap();
        SystemDisk.rename(from, to)?;
        self.note(&format!("name {} {}", name_of(from), name_of(to)));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let _guard = self.next.lock().unwrap();
        SystemDisk.remove(path)?;
        self.note(&format!("remove {}", name_of(path)));
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        SystemDisk.list(dir)
    }

    fn sync_dir(&self, _path: &Path) -> io::Result<()> {
        self.note("dir");
        Ok(())
    }
}

#[derive(Debug)]
struct TrackedFile {
    file: Arc<dyn LogFile>,
    /// Where the next bytes are appended: what follows is padding.
    end: AtomicU64,
    number: usize,
    disk: TrackingDisk,
}

/// How much a file is padded at most at a time; small, so that many writes go beyond it.
const PADDING_MAX: u64 = 10_000;

impl LogFile for TrackedFile {
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let written = match self.disk.call() {
            None => self.file.write(bytes),
            Some((Failure::Short, true)) if bytes.len() > 1 => self.file.write(&bytes[..bytes.len() / 2]),
            Some((failure, _)) => Err(failure.error()),
        }?;
        self.end.fetch_add(written as u64, Ordering::AcqRel);
        Ok(written)
    }

    fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    fn sync(&self) -> io::Result<()> {
        if let Some((failure @ (Failure::Broken | Failure::Full), _)) = self.disk.call() {
            return Err(failure.error());
        }
        let TrackingDisk { places, behaviour, .. } = &self.disk;
        // Data written during the sync may be left out.
        let len = self.end.load(Ordering::Acquire);
        let (number, disk) = (self.number, self.disk.clone());
        let sync = move |time: Duration| {
            std::thread::sleep(time);
            disk.note(&format!("sync {number} {len}"));
        };
        if behaviour.is_early {
            std::thread::spawn(move || sync(Duration::from_millis(30)));
        } else if behaviour.slow_ms > 0 && places.slow().exists() {
            sync(Duration::from_millis(behaviour.slow_ms));
        } else {
            sync(Duration::from_micros(fastrand::u64(0..=behaviour.sync_us)));
        }
        Ok(())
    }

    fn padding(&self) -> u64 {
        self.file.padding()
    }

    fn pad(&self, len: u64) -> io::Result<()> {
        match self.disk.call() {
            None => self.file.pad(len.min(PADDING_MAX)),
            Some((failure, _)) => Err(failure.error()),
        }
    }

    fn trim(&self) -> io::Result<()> {
        self.file.trim()
    }
}
