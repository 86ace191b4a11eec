//! A disk in memory for tests: it fails on demand, and loses power.
//!
//! A power loss may lose written data that was not synced, in part or with zeros in its place, and names that were
//! given since their directory was synced. A kill loses nothing that was written.

use super::{Disk, LogFile, MappedFile, Mapping};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

/// How calls fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// EIO.
    Broken,
    /// ENOSPC.
    Full,
    /// A write takes half of the bytes, and the next writes fail as on a full disk. Other calls succeed.
    Short,
}

/// Which calls fail: this many of them, starting with this number.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    /// The number of the first call.
    pub first: u64,
    /// How many.
    pub calls: u64,
    /// How.
    pub failure: Failure,
}

/// A disk whose clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct SimDisk(Arc<Mutex<State>>);

#[derive(Debug, Clone, Default)]
struct State {
    /// The contents of all files that ever were, by number.
    files: Vec<Content>,
    names: BTreeMap<PathBuf, usize>,
    /// The names as they were when their directories were synced.
    synced_names: BTreeMap<PathBuf, usize>,
    calls: u64,
    fault: Option<Fault>,
    /// How many writes, and how many fsyncs, have failed since the fault was set.
    failed: (u64, u64),
    /// Files with this in their names are not synced, though fsync succeeds.
    unsynced: Option<&'static str>,
    /// Files with this in their names accept no writes.
    full: Option<&'static str>,
    /// The disk after each write, once a test asks for it.
    moments: Option<Vec<SimDisk>>,
}

#[derive(Debug, Clone, Default)]
struct Content {
    bytes: Vec<u8>,
    /// How much of it certainly survives.
    synced: usize,
    /// The zeros at its end that were added ahead.
    padding: usize,
}

/// How much a file is padded at most at a time; small, so that many writes go beyond it.
const PADDING_MAX: usize = 300;

impl SimDisk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nobody panics with the state")
    }

    /// Makes calls fail, counted from now on.
    pub fn fail(&self, fault: Fault) {
        let mut state = self.state();
        (state.calls, state.fault, state.failed) = (0, Some(fault), (0, 0));
    }

    /// Plants a bug: files with this in their names are never synced.
    pub fn ignore_syncs_of(&self, name: &'static str) {
        self.state().unsynced = Some(name);
    }

    /// Makes every write to files with this in their names fail as on a full disk.
    pub fn fill(&self, name: &'static str) {
        self.state().full = Some(name);
    }

    /// From now on keeps what a kill after each write would leave.
    pub fn keep_moments(&self) {
        self.state().moments = Some(Vec::new());
    }

    /// What a kill after each write would have left.
    pub fn take_moments(&self) -> Vec<Self> {
        self.state().moments.replace(Vec::new()).unwrap_or_default()
    }

    /// Ends all failures, and returns how many calls there were since they began.
    pub fn heal(&self) -> u64 {
        let mut state = self.state();
        (state.fault, state.full) = (None, None);
        state.calls
    }

    /// How many writes, and how many fsyncs of files, have failed.
    pub fn failed(&self) -> (u64, u64) {
        self.state().failed
    }

    /// The disk as another process finds it if this one is killed now.
    pub fn after_kill(&self) -> Self {
        self.state().after_kill()
    }

    /// The disk as it is after a power loss now.
    pub fn after_power_loss(&self, random: &mut fastrand::Rng) -> Self {
        let mut state = self.state().healed();
        state.files.iter_mut().for_each(|file| file.lose_power(random));
        let (new, old) = (std::mem::take(&mut state.names), std::mem::take(&mut state.synced_names));
        for path in new.keys().chain(old.keys()).collect::<BTreeSet<_>>() {
            let (new, old) = (new.get(path), old.get(path));
            if let Some(file) = if random.bool() { new } else { old } {
                state.names.insert(path.clone(), *file);
            }
        }
        state.synced_names = state.names.clone();
        Self(Arc::new(Mutex::new(state)))
    }

    /// The files and their contents.
    pub fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let state = self.state();
        state.names.iter().map(|(path, &file)| (path.clone(), state.files[file].bytes.clone())).collect()
    }

    /// Makes a file of these bytes, all synced.
    pub fn put(&self, path: &Path, bytes: &[u8]) {
        let mut state = self.state();
        let file = state.files.len();
        state.files.push(Content { bytes: bytes.to_vec(), synced: bytes.len(), padding: 0 });
        state.names.insert(path.to_owned(), file);
        state.synced_names.insert(path.to_owned(), file);
    }
}

impl Content {
    fn lose_power(&mut self, random: &mut fastrand::Rng) {
        let kept = random.usize(self.synced..=self.bytes.len());
        match random.u8(..5) {
            // A file system may record the length before the bytes.
            0 => self.bytes[kept..].fill(0),
            // And later bytes before earlier ones.
            1 => {
                let end = random.usize(kept..=self.bytes.len());
                self.bytes[kept..end].fill(0);
            }
            _ => self.bytes.truncate(kept),
        }
        (self.synced, self.padding) = (self.bytes.len(), 0);
    }

    /// Where the next bytes are appended.
    fn end(&self) -> usize {
        self.bytes.len() - self.padding
    }
}

impl State {
    /// A copy on a disk that never fails.
    fn healed(&self) -> Self {
        Self { fault: None, full: None, moments: None, ..self.clone() }
    }

    fn after_kill(&self) -> SimDisk {
        SimDisk(Arc::new(Mutex::new(self.healed())))
    }

    fn keep_moment(&mut self) {
        if let Some(mut moments) = self.moments.take() {
            moments.push(self.after_kill());
            self.moments = Some(moments);
        }
    }

    /// Whether a file has a name with this in it.
    fn is_named(&self, file: usize, part: Option<&'static str>) -> bool {
        let mut names = self.names.iter().filter(|(_, number)| **number == file);
        part.is_some_and(|part| names.any(|(path, _)| path.to_string_lossy().contains(part)))
    }

    /// Counts a call, and returns how it must fail, if it must.
    fn call(&mut self) -> Option<(Failure, u64)> {
        let number = self.calls;
        self.calls += 1;
        let fault = self.fault?;
        let nth = number.checked_sub(fault.first)?;
        (nth < fault.calls).then_some((fault.failure, nth))
    }

    /// A call other than a write.
    fn call_other(&mut self) -> io::Result<()> {
        match self.call() {
            Some((Failure::Broken, _)) => Err(errno(5)),
            Some((Failure::Full, _)) => Err(errno(28)),
            Some((Failure::Short, _)) | None => Ok(()),
        }
    }

    fn content(&mut self, path: &Path) -> io::Result<&mut Content> {
        let file = *self.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(&mut self.files[file])
    }
}

fn errno(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

impl Disk for SimDisk {
    fn make_dir(&self, _path: &Path) -> io::Result<()> {
        self.state().call_other()
    }

    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        let mut state = self.state();
        state.call_other()?;
        Ok(state.content(path).ok().map(|content| content.bytes.clone()))
    }

    fn map(&self, path: &Path) -> io::Result<Option<Box<dyn MappedFile>>> {
        let mut state = self.state();
        state.call_other()?;
        let file = state.files.len();
        state.files.push(Content::default());
        state.names.insert(path.to_owned(), file);
        Ok(Some(Box::new(SimMappedFile { disk: self.clone(), file })))
    }

    fn append_to(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        let mut state = self.state();
        state.call_other()?;
        let next = state.files.len();
        let file = *state.names.entry(path.to_owned()).or_insert(next);
        if file == next {
            state.files.push(Content::default());
        }
        // A file that is opened again does not know its padding.
        state.files[file].padding = 0;
        Ok(Arc::new(SimFile { disk: self.clone(), file }))
    }

    fn cut(&self, path: &Path, len: u64) -> io::Result<()> {
        let mut state = self.state();
        state.call_other()?;
        let content = state.content(path)?;
        content.bytes.truncate(len as usize);
        (content.synced, content.padding) = (content.bytes.len(), 0);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.call_other()?;
        let file = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.names.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.call_other()?;
        state.names.remove(path).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        let mut state = self.state();
        state.call_other()?;
        Ok(state.names.keys().filter(|name| name.parent() == Some(dir)).cloned().collect())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.call_other()?;
        let State { names, synced_names, .. } = &mut *state;
        synced_names.retain(|name, _| name.parent() != Some(path));
        let in_dir = names.iter().filter(|(name, _)| name.parent() == Some(path));
        synced_names.extend(in_dir.map(|(name, file)| (name.clone(), *file)));
        Ok(())
    }
}

#[derive(Debug)]
struct SimMappedFile {
    disk: SimDisk,
    file: usize,
}

impl MappedFile for SimMappedFile {
    fn grow(&mut self, len: usize) -> io::Result<Box<dyn Mapping>> {
        let mut state = self.disk.state();
        state.call_other()?;
        let bytes = &mut state.files[self.file].bytes;
        let start = bytes.len();
        bytes.resize(start + len, 0);
        Ok(Box::new(SimMapping { disk: self.disk.clone(), file: self.file, start, bytes: vec![0; len] }))
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        state.call_other()?;
        let content = &mut state.files[self.file];
        content.synced = content.bytes.len();
        Ok(())
    }

    fn unlink(&self) -> io::Result<()> {
        self.disk.state().names.retain(|_, file| *file != self.file);
        Ok(())
    }
}

#[derive(Debug)]
struct SimMapping {
    disk: SimDisk,
    file: usize,
    start: usize,
    bytes: Vec<u8>,
}

impl Mapping for SimMapping {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        let state = &mut *self.disk.state();
        let start = self.start + at;
        // The process may be killed in the middle of it.
        for (number, byte) in bytes.iter().enumerate() {
            state.files[self.file].bytes[start + number] = *byte;
            if number == bytes.len() / 2 || number + 1 == bytes.len() {
                state.keep_moment();
            }
        }
    }

    fn store(&mut self, at: usize, word: u64) {
        let word = word.to_le_bytes();
        self.bytes[at..at + word.len()].copy_from_slice(&word);
        let state = &mut *self.disk.state();
        let start = self.start + at;
        state.files[self.file].bytes[start..start + word.len()].copy_from_slice(&word);
        state.keep_moment();
    }

    fn get(&self) -> &[u8] {
        &self.bytes
    }
}

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    file: usize,
}

impl LogFile for SimFile {
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.disk.state();
        let full = state.full;
        let len = match state.call() {
            None if state.is_named(self.file, full) => {
                state.failed.0 += 1;
                return Err(errno(28));
            }
            None => bytes.len(),
            Some((Failure::Short, 0)) if bytes.len() > 1 => bytes.len() / 2,
            Some((failure, _)) => {
                state.failed.0 += 1;
                return Err(errno(if failure == Failure::Broken { 5 } else { 28 }));
            }
        };
        let content = &mut state.files[self.file];
        let (end, over) = (content.end(), len.min(content.padding));
        content.bytes[end..end + over].copy_from_slice(&bytes[..over]);
        content.bytes.extend_from_slice(&bytes[over..len]);
        content.padding -= over;
        state.keep_moment();
        Ok(len)
    }

    fn end(&self) -> u64 {
        self.disk.state().files[self.file].end() as u64
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        if let Err(error) = state.call_other() {
            state.failed.1 += 1;
            return Err(error);
        }
        let unsynced = state.unsynced;
        if state.is_named(self.file, unsynced) {
            return Ok(());
        }
        let content = &mut state.files[self.file];
        content.synced = content.end();
        Ok(())
    }

    fn padding(&self) -> u64 {
        self.disk.state().files[self.file].padding as u64
    }

    fn pad(&self, len: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        state.call_other()?;
        let content = &mut state.files[self.file];
        let len = PADDING_MAX.min(len as usize);
        content.bytes.resize(content.bytes.len() + len, 0);
        content.padding += len;
        Ok(())
    }

    fn trim(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        state.call_other()?;
        let content = &mut state.files[self.file];
        content.bytes.truncate(content.end());
        content.padding = 0;
        Ok(())
    }
}

#[test]
fn what_was_synced_survives_a_power_loss_and_the_rest_perhaps_not() {
    let (disk, dir) = (SimDisk::default(), Path::new("dir"));
    let file = disk.append_to(&dir.join("a")).expect("no fault");
    file.write_all(b"synced").and_then(|()| file.sync()).expect("no fault");
    disk.sync_dir(dir).expect("no fault");
    file.write_all(b"not").expect("no fault");
    disk.append_to(&dir.join("b")).expect("no fault");
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let files = disk.after_power_loss(&mut fastrand::Rng::with_seed(seed)).files();
        let a = &files[&dir.join("a")];
        assert!(a.starts_with(b"synced") && a.len() <= 9, "{a:?}");
        seen.insert((a.clone(), files.contains_key(&dir.join("b"))));
    }
    assert!(seen.len() > 8, "{seen:?}");
    assert_eq!(disk.after_kill().files()[&dir.join("a")], b"syncednot");
}
