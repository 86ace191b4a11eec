//! Snapshots of a running server: SAVE and BGSAVE.
//!
//! All shards stand still while every key is encoded into memory, which is what makes the snapshot one moment; a thread
//! of its own writes that to the disk, under another name until it is whole. SAVE lets all shards stand still until the
//! file is on the disk, as in Redis; BGSAVE only while keys are encoded. Both need memory for the whole file: there is no
//! fork whose pages could be shared.

use super::{FileKey, read_file, write_snapshot};
use crate::keyspace::{Keyspace, Node, Store};
use parking_lot::Mutex;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

/// The snapshots of this process, which has one server: commands know no server.
pub static SAVES: Saves = Saves {
    target: Mutex::new(PathBuf::new()),
    is_saving: AtomicBool::new(false),
    has_failed: AtomicBool::new(false),
    last_save_s: AtomicU64::new(0),
    saves: AtomicU64::new(0),
    changes_at_begin: AtomicU64::new(0),
    changes_saved: AtomicU64::new(0),
    began_s: AtomicI64::new(-1),
    took_s: AtomicI64::new(-1),
};

/// Where snapshots go, and how the last ones went.
#[derive(Debug)]
pub struct Saves {
    target: Mutex<PathBuf>,
    is_saving: AtomicBool,
    has_failed: AtomicBool,
    last_save_s: AtomicU64,
    saves: AtomicU64,
    changes_at_begin: AtomicU64,
    changes_saved: AtomicU64,
    /// Unix time in seconds at which the last one began, and how long it took; both less than 0 for never.
    began_s: AtomicI64,
    took_s: AtomicI64,
}

/// Why there is no snapshot.
#[derive(Debug)]
pub enum NotSaved {
    /// Another one is being made.
    Busy,
    /// It cannot be written; the log of the server says why.
    Failed,
}

impl Saves {
    /// Says where snapshots go. What was there at `now_s` counts as saved.
    pub fn begin_at(&self, target: PathBuf, now_s: u64) {
        *self.target.lock() = target;
        self.last_save_s.store(now_s, Ordering::Relaxed);
    }

    /// Notes how many changes there were before a snapshot begins: at least so many are in it.
    pub fn note_changes(&self, changes: u64) {
        if !self.is_saving() {
            self.changes_at_begin.store(changes, Ordering::Relaxed);
        }
    }

    /// How many changes the last snapshot has.
    pub fn changes_saved(&self) -> u64 {
        self.changes_saved.load(Ordering::Relaxed)
    }

    /// Whether a snapshot is being made.
    pub fn is_saving(&self) -> bool {
        self.is_saving.load(Ordering::Acquire)
    }

    /// Whether the last snapshot could not be written.
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// When the last snapshot was made: Unix time in seconds.
    pub fn last_save_s(&self) -> u64 {
        self.last_save_s.load(Ordering::Relaxed)
    }

    /// How many seconds the last snapshot took; -1 where there was none.
    pub fn took_s(&self) -> i64 {
        self.took_s.load(Ordering::Relaxed)
    }

    /// For how many seconds a snapshot is being made; -1 where none is.
    pub fn takes_s(&self, now_s: u64) -> i64 {
        let began_s = self.began_s.load(Ordering::Relaxed);
        if self.is_saving() { (now_s as i64 - began_s).max(0) } else { -1 }
    }

    /// How many snapshots were made.
    pub fn count(&self) -> u64 {
        self.saves.load(Ordering::Relaxed)
    }

    /// Makes a snapshot; it is on the disk when this returns. O(N)
    pub fn save<S: Store>(&'static self, keyspace: &mut Keyspace<S>) -> Result<(), NotSaved> {
        let writing = self.start(keyspace)?;
        let is_saved = writing.join().expect("the thread does not panic");
        if is_saved { Ok(()) } else { Err(NotSaved::Failed) }
    }

    /// Makes a snapshot, which goes to the disk behind the caller's back. O(N)
    pub fn save_in_background<S: Store>(&'static self, keyspace: &mut Keyspace<S>) -> Result<(), NotSaved> {
        // The thread ends by itself, and says how it went.
        self.start(keyspace).map(drop)
    }

    /// The keys of the last snapshot, as nodes with their databases. The error says what is wrong with it. O(N)
    pub fn load(&self, databases: usize) -> Result<Vec<(usize, Node)>, String> {
        let target = self.target.lock().clone();
        let describe = |reason: String| format!("{}: {reason}", target.display());
        let bytes = std::fs::read(&target).map_err(|error| describe(error.to_string()))?;
        let mut nodes = Vec::new();
        read_file(&bytes, &mut |FileKey { database, key, value, expire_at }| {
            let number = usize::try_from(database).ok().filter(|&number| number < databases);
            let number = number.ok_or_else(|| format!("it has a database {database}"))?;
            nodes.push((number, value.into_node(&key, expire_at)));
            Ok(())
        })
        .map_err(describe)?;
        Ok(nodes)
    }

    fn start<S: Store>(&'static self, keyspace: &mut Keyspace<S>) -> Result<std::thread::JoinHandle<bool>, NotSaved> {
        if self.is_saving.swap(true, Ordering::AcqRel) {
            return Err(NotSaved::Busy);
        }
        let start = std::time::Instant::now();
        self.began_s.store(keyspace.second() as i64, Ordering::Relaxed);
        let mut bytes = Vec::new();
        write_snapshot(keyspace, &mut bytes).expect("memory takes what it is given");
        let (now_s, changes) = (keyspace.second(), self.changes_at_begin.load(Ordering::Relaxed));
        let write = move || {
            let target = self.target.lock().clone();
            let written = write_file(&target, &bytes);
            match &written {
                Ok(()) => {
                    self.last_save_s.store(now_s, Ordering::Relaxed);
                    self.changes_saved.store(changes, Ordering::Relaxed);
                    self.saves.fetch_add(1, Ordering::Relaxed);
                    tracing::info!("DB saved on disk: {}, {} bytes", target.display(), bytes.len());
                }
                Err(error) => tracing::error!("Can't write the snapshot {}: {error}", target.display()),
            }
            self.took_s.store(start.elapsed().as_secs() as i64, Ordering::Relaxed);
            self.has_failed.store(written.is_err(), Ordering::Relaxed);
            self.is_saving.store(false, Ordering::Release);
            written.is_ok()
        };
        std::thread::Builder::new().name("snapshot".into()).spawn(write).map_err(|error| {
            tracing::error!("Can't start a thread to write the snapshot: {error}");
            self.has_failed.store(true, Ordering::Relaxed);
            self.is_saving.store(false, Ordering::Release);
            NotSaved::Failed
        })
    }
}

/// Writes a file that is there as a whole or not at all, whenever power is lost.
fn write_file(target: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = target.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(dir)?;
    let unfinished = dir.join(format!("temp-{}.rdb", std::process::id()));
    let mut file = File::create(&unfinished)?;
    let written = file
        .write_all(bytes)
        .and_then(|()| file.sync_all())
        .and_then(|()| std::fs::rename(&unfinished, target))
        .and_then(|()| File::open(dir)?.sync_all());
    if written.is_err() {
        // It failed already: what is left of it is all that this can change.
        let _ = std::fs::remove_file(&unfinished);
    }
    written
}
