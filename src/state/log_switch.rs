//! `CONFIG SET appendonly`: the log begins and ends while the server runs.
//!
//! It begins like a rewrite (docs/adr/0012): at one point in the order of all commands every owner of keys begins to
//! log and a snapshot of its keys begins; when all of them are in the bases, the manifest names both. Until then a
//! start finds the old state. It ends at such a point, too: earlier changes are in the log, and later ones are not.
//!
//! A log needs a directory that is empty, or that holds a log which this server has written: anything else in its place
//! is kept under another name (`appendonlydir.old-1`).

use crate::aof::{DirLock, Disk, Manifest, Rewriter, Segment, read_back};
use crate::base::parallel::beside_the_runtime;
use crate::commands::Services;
use crate::commands::debug::ReadBack;
use crate::config::Directive;
use crate::config::log_dir;
use crate::engine::{Engine, OwnerSnapshot};
use crate::keyspace::{Databases, Instance};
use crate::snapshot::name_aside;
use crate::state::Server;
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::Instant;

/// How long the end of a log waits for the disk.
const END_MAX: Duration = Duration::from_secs(5);
/// How often it checks whether everything is on the disk.
const LOOK_FOR_END: Duration = Duration::from_millis(1);

/// Begins and ends the log of a server.
#[derive(Debug)]
pub struct LogSwitch {
    /// Where DEBUG LOADAOF finds the log.
    services: Arc<Services>,
    /// Set once the data is loaded.
    target: OnceLock<LogTarget>,
    /// The rewriter of the current log, or of the last one: it keeps the directory.
    rewriter: Mutex<Option<Arc<Rewriter>>>,
    /// Whether there is no log for now, whatever the configuration says.
    is_suspended: AtomicBool,
}

/// What a log needs.
#[derive(Debug)]
pub struct LogTarget {
    /// The disk for its files.
    pub disk: Arc<dyn Disk>,
    /// The name of this boot of the operating system.
    pub boot: String,
    /// The segment of each owner of keys.
    pub segments: Vec<Arc<Segment>>,
}

/// The files of a log that is appended to, for DEBUG LOADAOF.
#[derive(Debug)]
struct Files {
    dir: PathBuf,
    /// The current boot of the operating system.
    boot: String,
    segments: Vec<Arc<Segment>>,
    manifest: Arc<Mutex<Manifest>>,
}

impl ReadBack for Files {
    fn read_back(&self, instance: &Arc<Instance>) -> Result<Vec<Databases>, String> {
        read_back(instance, &self.dir, &self.boot, &self.segments, &self.manifest)
    }
}

impl LogSwitch {
    /// The switch of a server with these services, before its data is loaded.
    pub fn new(services: Arc<Services>) -> Self {
        Self { services, target: OnceLock::new(), rewriter: Mutex::default(), is_suspended: AtomicBool::new(false) }
    }

    /// Sets that the data is loaded, perhaps from a log.
    ///
    /// # Panics
    /// If it was set before.
    pub fn begin(&self, target: LogTarget, rewriter: Option<Arc<Rewriter>>) {
        assert!(self.target.set(target).is_ok(), "the data is loaded once");
        self.note_log(rewriter.as_deref());
        *self.rewriter.lock() = rewriter;
    }

    /// Prepares the directory of the configuration for a log. The error says why there can be none.
    pub fn prepare(&self, server: &Server) -> Result<Arc<Rewriter>, String> {
        let target = self.target.get().ok_or("the data is being loaded")?;
        let wanted = server.config.number(Directive::Maxclients);
        let fitting = server.clients_that_fit(wanted);
        if fitting < wanted {
            return Err(format!("the limit on open files leaves {fitting} connections beside a log: lower maxclients"));
        }
        let dir = log_dir(&server.config);
        let mut kept = self.rewriter.lock();
        let is_on = target.segments.iter().any(|segment| segment.is_on());
        // A directory that was removed is made again, and one that somebody put in its place is kept.
        let may_be_used = |rewriter: &Rewriter| rewriter.dir() == dir && (is_on || rewriter.must_have_dir().is_ok());
        if let Some(rewriter) = kept.as_ref().filter(|rewriter| may_be_used(rewriter)) {
            return Ok(Arc::clone(rewriter));
        }
        if is_on {
            return Err("the log in another directory has not ended yet".into());
        }
        *kept = None;
        let manifest = Manifest::of_chains(target.boot.clone(), Vec::new());
        let lock = take_empty(&dir)?;
        let rewriter =
            Rewriter::new(&server.instance, Arc::clone(&target.disk), dir, manifest, target.segments.clone())
                .keeping(lock);
        Ok(Arc::clone(kept.insert(Arc::new(rewriter))))
    }

    /// Whether there is no log for now, whatever the configuration says: other data is replacing its contents.
    pub fn is_suspended(&self) -> bool {
        self.is_suspended.load(Ordering::Acquire)
    }

    /// Ends the log while other data replaces the current data. A start finds its contents until
    /// [`resume`](Self::resume) has begun a new one.
    pub async fn suspend(&self, server: &Server) {
        let segments = &self.target.get().expect("the data is there").segments;
        self.is_suspended.store(true, Ordering::Release);
        while segments.iter().any(|segment| segment.is_on()) {
            server.rewriting.look();
            tokio::time::sleep(LOOK_FOR_END).await;
        }
    }

    /// Begins a new log if the configuration has one. The error says why it cannot.
    pub fn resume(&self, server: &Server) -> Result<(), String> {
        self.is_suspended.store(false, Ordering::Release);
        if server.has_log() {
            server.rewriting.begin_log(self.prepare(server)?);
        }
        Ok(())
    }

    /// Sets, for DEBUG LOADAOF, where the log is that a manifest names.
    fn note_log(&self, rewriter: Option<&Rewriter>) {
        let target = self.target.get().expect("the data is loaded before it is logged");
        match rewriter {
            Some(rewriter) => self.services.log.begin(Arc::new(Files {
                dir: rewriter.dir().to_owned(),
                boot: target.boot.clone(),
                segments: target.segments.clone(),
                manifest: rewriter.manifest(),
            })),
            None => self.services.log.end(),
        }
    }

    /// Records that the log that began is whole.
    pub fn note_begun(&self, rewriter: &Rewriter) {
        self.note_log(Some(rewriter));
        tracing::info!("The log in {} has begun", rewriter.dir().display());
    }

    /// Records that the log could not begin: nothing is logged, and its files are removed.
    pub async fn abandon<E: Engine>(&self, server: &Server, engine: &Arc<E>, rewriter: &Arc<Rewriter>) {
        if rewriter.is_on() {
            end(server, engine, rewriter).await;
        }
        let shared = Arc::clone(rewriter);
        if let Err(reason) = beside_the_runtime(move || shared.remove_beginning()).await {
            tracing::warn!("What is left of a log that could not begin stays until the next start: {reason}");
        }
    }

    /// Ends the log if the configuration says so. Its contents can still be read.
    pub async fn end_if_unwanted<E: Engine>(&self, server: &Server, engine: &Arc<E>) {
        let is_wanted = || server.has_log() || server.rewriting.is_for_once();
        let Some(rewriter) = server.rewriting.begin_end_of_log(is_wanted) else { return };
        if rewriter.is_on() {
            end(server, engine, &rewriter).await;
            tracing::info!("The log in {} has ended", rewriter.dir().display());
        }
        server.replication.rouse_waiting();
        server.rewriting.end_log(is_wanted);
    }

    /// Ends with the server: returns the rewriter, which records where the log ends. With it goes the lock of the
    /// directory.
    pub fn take(&self) -> Option<Arc<Rewriter>> {
        self.rewriter.lock().take()
    }
}

/// Locks an empty directory. An existing one is kept under another name.
fn take_empty(dir: &Path) -> Result<DirLock, String> {
    let lock = DirLock::take(dir)?;
    let describe = |error: std::io::Error| format!("{}: {error}", dir.display());
    let names = std::fs::read_dir(dir).map_err(describe)?;
    let names = names.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>().map_err(describe)?;
    if names.iter().all(|path| DirLock::is_at(path)) {
        return Ok(lock);
    }
    let aside = name_aside(dir, "old");
    std::fs::rename(dir, &aside)
        .map_err(|error| format!("{}: can't be kept as {}: {error}", dir.display(), aside.display()))?;
    tracing::warn!("{} holds what this server has not written: it is kept as {}", dir.display(), aside.display());
    drop(lock);
    DirLock::take(dir)
}

/// Ends a log at one point in the order of all commands, and records that in its manifest.
async fn end<E: Engine>(server: &Server, engine: &Arc<E>, rewriter: &Arc<Rewriter>) {
    let epoch = server.log_control.next_epoch(server.clock.now_ms());
    let is_named = rewriter.is_named();
    let owners = rewriter.segments().iter().map(|segment| {
        let segment = Arc::clone(segment);
        OwnerSnapshot { sink: None, at_moment: Box::new(move || segment.end_log(epoch)) }
    });
    Arc::clone(engine).begin_snapshot(owners.collect()).await;
    let begin = Instant::now();
    while !rewriter.segments().iter().all(|segment| segment.is_all_synced()) && begin.elapsed() < END_MAX {
        tokio::time::sleep(LOOK_FOR_END).await;
    }
    let shared = Arc::clone(rewriter);
    beside_the_runtime(move || leave(&shared, is_named)).await;
}

fn leave(rewriter: &Rewriter, is_named: bool) {
    let (ends, unsynced): (Vec<_>, Vec<_>) = rewriter.segments().iter().map(|segment| segment.leave_file()).unzip();
    if !is_named {
        return;
    }
    let unsynced: u64 = unsynced.iter().sum();
    let noted = match unsynced {
        0 => rewriter.close(&ends).map_err(|error| format!("can't write its manifest: {error}")),
        bytes => Err(format!("{bytes} bytes of it are not on the disk")),
    };
    if let Err(reason) = noted {
        tracing::error!("The log in {} has ended, but {reason}", rewriter.dir().display());
    }
}
