//! Snapshots of a running server: SAVE and BGSAVE.
//!
//! Both write one moment of all keys to a temporary name, until the file is whole and on the disk. BGSAVE takes a
//! snapshot: commands continue to run, and a key that changes is written first (see `keyspace::snapshotting`). SAVE
//! stops all shards until the file is on the disk, as in Redis.
//!
//! A file of that name that was neither written nor loaded here belongs to someone else, and may still be wanted: it is
//! renamed first.

use super::save_points::RETRY_MS;
use super::turn::Turn;
use super::writer::{Backlog, SnapshotWriter, Target};
use crate::base::clock::{Clock, uptime, uptime_ms};
use crate::base::{affinity, directories};
use crate::keyspace::{Added, Eviction, Keyspace, Node, SnapshotSink, Store};
use crate::rdb::{FileKey, FileKeys, FileWriter, file_is_ours, read_file};
use crate::scripting::{Libraries, Scripting};
use parking_lot::Mutex;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::Notify;

/// How long the writer waits for more at most.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// The snapshots of a server: their file, and the results of the last ones.
#[derive(Debug)]
pub struct Saves {
    scripting: Arc<Scripting>,
    /// The right to take a snapshot of the server's keys: one at a time.
    pub turn: Turn,
    /// The server's snapshot writers with too many unwritten bytes.
    pub backlog: Arc<Backlog>,
    target: Mutex<PathBuf>,
    /// The file of the running snapshot: `target` may change meanwhile.
    running: Mutex<Option<PathBuf>>,
    clock: Mutex<Clock>,
    is_saving: AtomicBool,
    /// Whether one is made for replicas.
    is_for_replicas: AtomicBool,
    /// Whether a background snapshot must begin as soon as it can.
    is_scheduled: AtomicBool,
    wakeup: Notify,
    /// A snapshot whose keys must be walked over.
    begun: Mutex<Option<Begun>>,
    has_failed: AtomicBool,
    /// Whether the server is stopping. Locked while a file is created, so that none is created afterwards.
    is_given_up: Mutex<bool>,
    last_save_s: AtomicU64,
    /// When the last one was made, and when one was begun last, by [`uptime_ms`].
    last_save_ms: AtomicU64,
    last_try_ms: AtomicU64,
    saves: AtomicU64,
    changes_at_begin: AtomicU64,
    changes_saved: AtomicU64,
    /// When the running one began, by [`uptime`].
    began_s: AtomicU64,
    /// How long the last one took; negative if there was none.
    took_s: AtomicI64,
    /// The file that the data was loaded from at the start, if any.
    loaded: Mutex<Option<FileId>>,
    /// The file that the start found and did not load, though its data may be nowhere else.
    passed_over: Mutex<Option<FileId>>,
    /// Called when writes must be refused because a snapshot failed; and whether they are, and whether there are
    /// automatic snapshots.
    refusal: Mutex<Option<Refusal>>,
    stops_writes: AtomicBool,
    has_points: AtomicBool,
    /// Whether strings are compressed.
    compresses: AtomicBool,
    /// How many keys it had, without expired ones, and how many expired ones.
    loaded_keys: AtomicU64,
    loaded_expired: AtomicU64,
}

/// Receives whether writes are refused because the last snapshot could not be written.
pub struct Refusal(pub Box<dyn Fn(bool) + Send + Sync>);

impl std::fmt::Debug for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Refusal")
    }
}

/// Distinguishes a file from another that gets its name later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileId {
    device: u64,
    inode: u64,
    len: u64,
    modified: Option<SystemTime>,
}

impl FileId {
    /// The ID of the file with a name. A device or a pipe may have no end.
    pub fn of(path: &Path) -> io::Result<Self> {
        let file = std::fs::metadata(path)?;
        if !file.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        Ok(Self { device: file.dev(), inode: file.ino(), len: file.len(), modified: file.modified().ok() })
    }
}

/// Why there is no snapshot.
#[derive(Debug)]
pub enum NotSaved {
    /// Another one is being made.
    Busy,
    /// Another snapshot is being taken: the log is rewritten.
    InTheWay,
    /// It cannot be written; the log of the server says why.
    Failed,
}

impl Saves {
    /// No snapshots yet, for a server with these functions.
    pub fn new(scripting: Arc<Scripting>) -> Self {
        Self {
            scripting,
            turn: Turn::default(),
            backlog: Arc::default(),
            target: Mutex::new(PathBuf::new()),
            running: Mutex::new(None),
            clock: Mutex::new(Clock::System),
            is_saving: AtomicBool::new(false),
            is_for_replicas: AtomicBool::new(false),
            is_scheduled: AtomicBool::new(false),
            wakeup: Notify::new(),
            has_failed: AtomicBool::new(false),
            is_given_up: Mutex::new(false),
            last_save_s: AtomicU64::new(0),
            last_save_ms: AtomicU64::new(0),
            last_try_ms: AtomicU64::new(0),
            saves: AtomicU64::new(0),
            changes_at_begin: AtomicU64::new(0),
            changes_saved: AtomicU64::new(0),
            begun: Mutex::new(None),
            began_s: AtomicU64::new(0),
            took_s: AtomicI64::new(-1),
            loaded: Mutex::new(None),
            passed_over: Mutex::new(None),
            refusal: Mutex::new(None),
            stops_writes: AtomicBool::new(false),
            has_points: AtomicBool::new(false),
            compresses: AtomicBool::new(true),
            loaded_keys: AtomicU64::new(0),
            loaded_expired: AtomicU64::new(0),
        }
    }

    /// Sets whether there are automatic snapshots, and whether writes are refused if the last one failed.
    pub fn set_policy(&self, has_points: bool, stops_writes: bool, refusal: Refusal) {
        self.has_points.store(has_points, Ordering::Relaxed);
        self.stops_writes.store(stops_writes, Ordering::Relaxed);
        self.refusal.lock().get_or_insert(refusal);
        self.refuse_writes_or_not();
    }

    /// Sets whether the strings of snapshots are compressed.
    pub fn set_compresses(&self, compresses: bool) {
        self.compresses.store(compresses, Ordering::Relaxed);
    }

    fn refuse_writes_or_not(&self) {
        let is_required = self.has_points.load(Ordering::Relaxed) && self.stops_writes.load(Ordering::Relaxed);
        if let Some(Refusal(refuse)) = &*self.refusal.lock() {
            refuse(is_required && self.has_failed());
        }
    }

    /// Whether FLUSHALL saves what it leaves before it replies.
    pub fn saves_flushes(&self) -> bool {
        self.has_points.load(Ordering::Relaxed)
    }

    /// All data was removed, in this many changes: if there are automatic snapshots, the file must be emptied, too. In
    /// a transaction, and while another snapshot is made, that is done right afterwards.
    pub fn save_flush<S: Store>(self: &Arc<Self>, keyspace: &mut Keyspace<S>, changes: u64) {
        if keyspace.turn.is_replaying() || !self.saves_flushes() {
            return;
        }
        if !keyspace.turn.caller.saves || self.is_saving() {
            return self.schedule();
        }
        self.changes_at_begin.fetch_add(changes, Ordering::Relaxed);
        match self.save(keyspace) {
            Err(NotSaved::Busy | NotSaved::InTheWay) => self.schedule(),
            // A failure is in the log and in INFO: no client has requested the snapshot.
            Ok(()) | Err(NotSaved::Failed) => {}
        }
    }

    /// Records that the data was loaded from this file, which the next snapshot may replace.
    pub fn note_loaded(&self, file: FileId, keys: u64, expired: u64) {
        *self.loaded.lock() = Some(file);
        self.loaded_keys.store(keys, Ordering::Relaxed);
        self.loaded_expired.store(expired, Ordering::Relaxed);
    }

    /// Records that this file was not loaded, and may hold what nothing else does: the next snapshot does not replace
    /// it.
    pub fn note_passed_over(&self, file: Option<FileId>) {
        *self.passed_over.lock() = file;
    }

    /// How many keys, not counting expired ones, were loaded from a file at the start, and how many expired ones.
    pub fn loaded(&self) -> (u64, u64) {
        (self.loaded_keys.load(Ordering::Relaxed), self.loaded_expired.load(Ordering::Relaxed))
    }

    /// Sets the file of snapshots, and the clock. The current data counts as saved.
    pub fn begin_at(&self, target: PathBuf, clock: Clock) {
        *self.target.lock() = target;
        *self.clock.lock() = clock;
        self.last_save_s.store(self.now_s(), Ordering::Relaxed);
        self.last_save_ms.store(uptime_ms(), Ordering::Relaxed);
    }

    /// Milliseconds since the last snapshot, or the start; `None` while no automatic one may begin.
    pub fn elapsed_ms(&self) -> Option<u64> {
        let since = |moment: &AtomicU64| uptime_ms().saturating_sub(moment.load(Ordering::Relaxed));
        let may_try = !self.is_saving() && (!self.has_failed() || since(&self.last_try_ms) > RETRY_MS);
        may_try.then(|| since(&self.last_save_ms))
    }

    /// Sets the file of snapshots from now on.
    pub fn aim_at(&self, target: PathBuf) {
        *self.target.lock() = target;
    }

    fn now_s(&self) -> u64 {
        self.clock.lock().now_ms() / 1000
    }

    /// Records how many changes there were before a snapshot begins: it has at least these.
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

    /// Whether a snapshot is being made in the background, for the file or for replicas: what clients see as a BGSAVE.
    pub fn is_in_progress(&self) -> bool {
        self.is_saving() || self.is_for_replicas.load(Ordering::Relaxed)
    }

    /// Records that a snapshot for replicas begins, or has ended.
    pub fn note_for_replicas(&self, is_for_replicas: bool) {
        self.is_for_replicas.store(is_for_replicas, Ordering::Relaxed);
    }

    /// Whether the last snapshot could not be written.
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// When the last snapshot was made: Unix time in seconds.
    pub fn last_save_s(&self) -> u64 {
        self.last_save_s.load(Ordering::Relaxed)
    }

    /// How many seconds the last snapshot took; -1 if there was none.
    pub fn took_s(&self) -> i64 {
        self.took_s.load(Ordering::Relaxed)
    }

    /// For how many seconds a snapshot has been running; -1 if none is.
    pub fn takes_s(&self) -> i64 {
        self.takes_s_at(uptime().as_secs())
    }

    fn takes_s_at(&self, now_s: u64) -> i64 {
        let took_s = now_s.saturating_sub(self.began_s.load(Ordering::Relaxed));
        if self.is_saving() { took_s.cast_signed() } else { -1 }
    }

    /// How many snapshots were made.
    pub fn count(&self) -> u64 {
        self.saves.load(Ordering::Acquire)
    }

    /// Makes a snapshot; it is on the disk when this returns. A failure refuses no writes, as in Redis: the client
    /// receives the error. O(N)
    pub fn save<S: Store>(self: &Arc<Self>, keyspace: &mut Keyspace<S>) -> Result<(), NotSaved> {
        let mut begun = self.begin(keyspace.turn.now_ms(), &keyspace.settings().eviction)?;
        begun.start_writing();
        keyspace.store.announce(&*begun.snapshot);
        for database in 0..keyspace.store.in_use() {
            let mut put = |node: &Node| {
                begun.snapshot.put(database, node, Added::InTurn);
                begun.snapshot.wait_for_room();
            };
            // Every key, with those that clients do not see any more.
            keyspace.within(database, |keyspace| keyspace.store.for_each(&mut put));
        }
        begun.snapshot.end_walk();
        if self.end_refusing(begun, false) { Ok(()) } else { Err(NotSaved::Failed) }
    }

    /// Begins a snapshot of all keys as they are now, in a store of all shards; it is made in the background.
    /// O(databases)
    pub fn save_in_background<S: Store>(self: &Arc<Self>, keyspace: &mut Keyspace<S>) -> Result<(), NotSaved> {
        if self.is_in_progress() {
            return Err(NotSaved::Busy);
        }
        if !self.turn.take() {
            return Err(NotSaved::InTheWay);
        }
        let begun = self.begin(keyspace.turn.now_ms(), &keyspace.settings().eviction);
        let begun = begun.inspect_err(|_| self.turn.give_back())?;
        keyspace.store.begin_snapshot(Arc::clone(&begun.snapshot) as Arc<dyn SnapshotSink>);
        *self.begun.lock() = Some(begun);
        self.wakeup.notify_one();
        Ok(())
    }

    /// Requests a background snapshot as soon as one can begin.
    pub fn schedule(&self) {
        self.is_scheduled.store(true, Ordering::Release);
    }

    /// Whether a snapshot is scheduled.
    pub fn is_scheduled(&self) -> bool {
        self.is_scheduled.load(Ordering::Acquire)
    }

    /// Waits until a snapshot was begun.
    pub async fn wait_for_request(&self) {
        self.wakeup.notified().await;
    }

    /// The snapshot that was begun, whose keys must be walked over.
    pub fn take_begun(&self) -> Option<Begun> {
        self.begun.lock().take()
    }

    /// Begins the scheduled snapshot, with this many changes before it; `None` if it cannot begin.
    pub fn begin_scheduled(self: &Arc<Self>, now_ms: u64, changes: u64, eviction: &Eviction) -> Option<Begun> {
        self.note_changes(changes);
        let begun = self.begin(now_ms, eviction);
        if !matches!(begun, Err(NotSaved::Busy)) {
            self.is_scheduled.store(false, Ordering::Release);
        }
        begun.ok()
    }

    /// Begins a snapshot: keys are put into the returned value.
    fn begin(self: &Arc<Self>, now_ms: u64, eviction: &Eviction) -> Result<Begun, NotSaved> {
        if self.is_saving.swap(true, Ordering::AcqRel) {
            return Err(NotSaved::Busy);
        }
        self.began_s.store(uptime().as_secs(), Ordering::Relaxed);
        self.last_try_ms.store(uptime_ms(), Ordering::Relaxed);
        let unfinished = self.unfinished();
        let path = unfinished.path.clone();
        *self.running.lock() = Some(path.clone());
        let file = SnapshotFile {
            saves: Arc::clone(self),
            path,
            created_s: now_ms / 1000,
            libraries: self.scripting.functions.libraries(),
            compresses: self.compresses.load(Ordering::Relaxed),
            file: None,
        };
        let keys = FileKeys::with_uses(eviction, now_ms / 1000);
        let snapshot = Arc::new(Snapshot::new(keys, file, 0, Arc::clone(&self.backlog)));
        Ok(Begun { snapshot, unfinished, writing: None, started: Instant::now() })
    }

    fn unfinished(&self) -> Unfinished {
        Unfinished {
            loaded: self.loaded.lock().clone(),
            passed_over: self.passed_over.lock().clone(),
            ..Unfinished::beside(self.target.lock().clone())
        }
    }

    /// Waits until a snapshot with all its keys is on the disk, and returns whether it is.
    pub fn end(&self, begun: Begun) -> bool {
        self.end_refusing(begun, true)
    }

    /// The same; if `refuses` is true, a failure refuses writes.
    fn end_refusing(&self, mut begun: Begun, refuses: bool) -> bool {
        let started = begun.started;
        let made = match begun.writing.take() {
            Some(Ok(writing)) => writing.join().expect("the thread that writes does not panic"),
            Some(Err(error)) => Err(format!("for there is no thread for it: {error}")),
            None => unreachable!("a snapshot is written before it ends"),
        };
        self.note_end(started, made, refuses)
    }

    fn note_end(&self, started: Instant, made: Result<u64, String>, refuses: bool) -> bool {
        match &made {
            Ok(len) => {
                self.last_save_s.store(self.now_s(), Ordering::Relaxed);
                self.last_save_ms.store(uptime_ms(), Ordering::Relaxed);
                self.changes_saved.store(self.changes_at_begin.load(Ordering::Relaxed), Ordering::Relaxed);
                tracing::info!("DB saved on disk: {}, {len} bytes", self.target.lock().display());
            }
            Err(reason) => tracing::error!("Can't write the snapshot {reason}"),
        }
        self.took_s.store(started.elapsed().as_secs() as i64, Ordering::Relaxed);
        if made.is_ok() || refuses {
            self.has_failed.store(made.is_err(), Ordering::Relaxed);
        }
        self.refuse_writes_or_not();
        *self.running.lock() = None;
        self.is_saving.store(false, Ordering::Release);
        // A thread that sees the new count may begin the next one.
        self.saves.fetch_add(u64::from(made.is_ok()), Ordering::Release);
        made.is_ok()
    }

    /// Removes the file of a running snapshot: the server ends, and with it the thread that writes it.
    pub fn give_up(&self) {
        *self.is_given_up.lock() = true;
        // A whole file has its final name already, and keeps it for the next server.
        if let Some(path) = &*self.running.lock()
            && let Err(error) = std::fs::remove_file(path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!("Can't remove {}: {error}", path.display());
        }
    }

    /// The keys of the last snapshot, as nodes with their databases. The error says why it cannot be loaded. O(N)
    pub fn load<S: Store>(&self, keyspace: &Keyspace<S>) -> Result<Vec<(usize, Node)>, String> {
        let (usage, second) = (keyspace.turn.usage(), keyspace.turn.second());
        let target = self.target.lock().clone();
        let describe = |reason: String| format!("{}: {reason}", target.display());
        let bytes = std::fs::read(&target).map_err(|error| describe(error.to_string()))?;
        let mut nodes = Vec::new();
        read_file(&bytes, keyspace.settings(), &mut |FileKey {
                                                         database, key, value, expire_at, former_use, ..
                                                     }| {
            let number = usize::try_from(database).ok().filter(|&number| number < keyspace.store.databases());
            let number = number.ok_or_else(|| format!("it has a database {database}"))?;
            let node = value.into_node(&key, expire_at);
            node.continue_use(usage, second, former_use);
            nodes.push((number, node));
            Ok(())
        })
        .map_err(describe)?;
        Ok(nodes)
    }
}

/// A snapshot while keys are put into it.
pub type Snapshot = SnapshotWriter<FileKeys, SnapshotFile>;

/// A snapshot that was begun.
#[derive(Debug)]
pub struct Begun {
    /// The writer of its keys.
    pub snapshot: Arc<Snapshot>,
    unfinished: Unfinished,
    writing: Option<io::Result<Writing>>,
    started: Instant,
}

impl Begun {
    /// Starts the thread that writes it. The snapshot was begun under the locks of all keys.
    pub fn start_writing(&mut self) {
        let (unfinished, shared) = (self.unfinished.clone(), Arc::clone(&self.snapshot));
        let write = affinity::beside(move || unfinished.write(&shared));
        let writing = std::thread::Builder::new().name("snapshot".into()).spawn(write);
        if let Err(error) = &writing {
            self.snapshot.fail(error);
        }
        self.writing = Some(writing);
    }
}

impl Drop for Begun {
    /// A snapshot that was not ended belongs to a server that has stopped: the thread that writes would wait for more
    /// for ever.
    fn drop(&mut self) {
        if self.writing.is_some() {
            self.snapshot.fail(&"the server stops");
            self.snapshot.end_walk();
        }
    }
}

/// The thread that writes a snapshot. It returns the length of the file, or the error.
type Writing = std::thread::JoinHandle<Result<u64, String>>;

/// The file of a snapshot. The thread that writes it creates it, because a snapshot is begun under the locks of all
/// keys.
#[derive(Debug)]
pub struct SnapshotFile {
    saves: Arc<Saves>,
    path: PathBuf,
    created_s: u64,
    /// The libraries at the moment at which it was begun.
    libraries: Arc<Libraries>,
    compresses: bool,
    file: Option<FileWriter<File>>,
}

impl SnapshotFile {
    fn open(&mut self) -> io::Result<&mut FileWriter<File>> {
        let file = match self.file.take() {
            Some(file) => file,
            None => {
                let is_given_up = self.saves.is_given_up.lock();
                if *is_given_up {
                    return Err(io::Error::other("the server ends"));
                }
                // It was made and synced at the start, and may have been removed since.
                self.path.parent().filter(|dir| !dir.is_dir()).map_or(Ok(()), directories::make)?;
                FileWriter::begin(File::create(&self.path)?, self.created_s, self.libraries.sources())?
                    .compressing(self.compresses)
            }
        };
        Ok(self.file.insert(file))
    }
}

impl Target for SnapshotFile {
    fn append(&mut self, keys: &[u8]) -> io::Result<u64> {
        self.open()?.write(keys)
    }

    fn settle(&mut self) -> io::Result<()> {
        self.open()?.out().sync_all()
    }

    fn discard(&mut self) {
        self.file = None;
        // Perhaps it was not made. If it cannot be removed now, the end of the snapshot tries again.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A file that replaces another when it is whole: after any power loss one of them is there.
#[derive(Debug, Clone)]
struct Unfinished {
    path: PathBuf,
    dir: PathBuf,
    target: PathBuf,
    /// The file that was loaded, which may be replaced.
    loaded: Option<FileId>,
    /// The file that was not, which may not.
    passed_over: Option<FileId>,
}

impl Unfinished {
    fn beside(target: PathBuf) -> Self {
        let dir = target.parent().unwrap_or(Path::new(".")).to_owned();
        let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Self {
            // Another server of this process may have a snapshot of another name there. A name may be as long as any.
            path: dir.join(format!("temp-{}-{name:.48}", std::process::id())),
            dir,
            target,
            loaded: None,
            passed_over: None,
        }
    }

    /// Writes the contents of the snapshot until it is complete, and renames the file.
    fn write(&self, snapshot: &Snapshot) -> Result<u64, String> {
        while !snapshot.is_walked() || snapshot.has_some() {
            snapshot.write_out();
            snapshot.wait(WAIT_MAX);
        }
        let named = || {
            let len = std::fs::metadata(&self.path)?.len();
            self.keep_foreign()?;
            std::fs::rename(&self.path, &self.target).and_then(|()| File::open(&self.dir)?.sync_all())?;
            Ok(len)
        };
        let written = snapshot
            .end(|file| file.open()?.end())
            .and_then(|()| named().map_err(|error: io::Error| error.to_string()));
        if written.is_err() {
            // It failed already, perhaps before there was a file: removing the rest is all that can be done.
            let _ = std::fs::remove_file(&self.path);
        }
        written.map_err(|reason| format!("{}: {reason}", self.target.display()))
    }

    /// Keeps a file that was neither written nor loaded here under another name.
    fn keep_foreign(&self) -> io::Result<()> {
        let is_file = self.target.symlink_metadata().is_ok_and(|file| !file.is_dir());
        let is = |file: &Option<FileId>| file.is_some() && FileId::of(&self.target).ok() == *file;
        let is_passed_over = is(&self.passed_over);
        // A file that cannot be read is not known to be ours.
        let is_ours = || is(&self.loaded) || file_is_ours(&self.target).unwrap_or(false);
        if !is_file || (!is_passed_over && is_ours()) {
            return Ok(());
        }
        let aside = name_aside(&self.target, if is_passed_over { "old" } else { "redis" });
        let (target, name) = (self.target.display(), aside.display());
        tracing::warn!("{target} was neither written nor loaded by this server since it began: keeping it as {name}");
        // Then there is no moment without a file of that name. Some file systems have no links.
        std::fs::hard_link(&self.target, &aside).or_else(|_| std::fs::rename(&self.target, &aside))
    }
}

/// The first unused name of the form `NAME.WORD-N`.
pub fn name_aside(path: &Path, word: &str) -> PathBuf {
    let name = |number: u64| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{word}-{number}"));
        PathBuf::from(name)
    };
    let is_free = |path: &PathBuf| path.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound);
    (1..).map(name).find(is_free).expect("there are more numbers than files")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_save_was_when_it_ended() {
        let saves = Arc::new(Saves::new(Arc::default()));
        let dir = tempfile::tempdir().expect("a temporary directory");
        let now_us = Arc::new(AtomicU64::new(1_000_000_000));
        let clock = Clock::Manual(Arc::clone(&now_us));
        saves.begin_at(dir.path().join("dump.rdb"), clock.clone());
        assert_eq!(saves.last_save_s(), 1000);
        now_us.store(2_000_000_000, Ordering::Relaxed);
        let mut begun = saves.begin_scheduled(clock.now_ms(), 0, &Eviction::default()).expect("it begins");
        begun.start_writing();
        now_us.store(2_030_000_000, Ordering::Relaxed);
        assert_eq!(saves.last_save_s(), 1000);
        // The clock was set forward; the duration is measured by another.
        assert!((0..30).contains(&saves.takes_s()), "{} s", saves.takes_s());
        assert!(saves.takes_s_at(uptime().as_secs() + 3600) >= 3600);
        begun.snapshot.end_walk();
        assert!(saves.end(begun));
        assert_eq!(saves.last_save_s(), 2030);
    }

    #[test]
    fn two_servers_of_a_process_make_snapshots_in_one_directory() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let of = |name: &str| {
            let saves = Arc::new(Saves::new(Arc::default()));
            saves.begin_at(dir.path().join(name), Clock::System);
            let mut begun = saves.begin_scheduled(1, 0, &Eviction::default()).expect("it begins");
            begun.start_writing();
            (saves, begun)
        };
        let both = ["one.rdb", "other.rdb"].map(of);
        std::thread::sleep(Duration::from_millis(50));
        for (saves, begun) in both {
            begun.snapshot.end_walk();
            assert!(saves.end(begun));
        }
        assert!(["one.rdb", "other.rdb"].iter().all(|name| dir.path().join(name).exists()));
    }

    #[test]
    fn no_file_is_made_when_the_server_has_given_up() {
        let saves = Arc::new(Saves::new(Arc::default()));
        let dir = tempfile::tempdir().expect("a temporary directory");
        saves.begin_at(dir.path().join("dump.rdb"), Clock::System);
        let mut begun = saves.begin_scheduled(1, 0, &Eviction::default()).expect("it begins");
        saves.give_up();
        begun.start_writing();
        begun.snapshot.end_walk();
        assert!(!saves.end(begun));
        assert_eq!(dir.path().read_dir().expect("a directory").count(), 0);
    }

    /// A snapshot that is being written, and how many files there are beside it.
    fn begun_in(dir: &Path) -> (Arc<Saves>, Begun, impl Fn() -> usize) {
        let saves = Arc::new(Saves::new(Arc::default()));
        saves.begin_at(dir.join("dump.rdb"), Clock::System);
        let mut begun = saves.begin_scheduled(1, 0, &Eviction::default()).expect("it begins");
        begun.start_writing();
        let dir = dir.to_owned();
        let files = move || dir.read_dir().expect("a directory").count();
        wait_until(|| files() == 1);
        (saves, begun, files)
    }

    fn wait_until(is_so: impl Fn() -> bool) {
        let begin = Instant::now();
        while !is_so() {
            assert!(begin.elapsed() < Duration::from_secs(20), "it does not come");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn the_file_of_a_failed_snapshot_is_gone_before_the_walk_ends() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (saves, begun, files) = begun_in(dir.path());
        begun.snapshot.fail(&"the disk is full");
        wait_until(|| files() == 0);
        begun.snapshot.end_walk();
        assert!(!saves.end(begun) && files() == 0);
    }

    #[test]
    fn a_server_that_ends_removes_the_file_of_a_snapshot_whose_target_has_changed() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (saves, begun, files) = begun_in(dir.path());
        saves.aim_at(dir.path().join("other.rdb"));
        saves.give_up();
        assert_eq!(files(), 0);
        // The thread that writes ends with the server.
        let snapshot = Arc::downgrade(&begun.snapshot);
        drop(begun);
        wait_until(|| snapshot.strong_count() == 0);
    }
}
