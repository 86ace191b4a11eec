//! Data beside what a start loads: nothing of it is touched, and a line says what it is and which of the two is newer.
//! An operator who ran another server there, or this one with another `appendonly`, would miss the newer data
//! otherwise.

use super::redis_log::{files_of_log, find_manifest};
use super::takeover::{Destination, OLD_LOG};
use crate::aof::DirLock;
use crate::commands::Services;
use crate::config::logging::Stamp;
use crate::rdb::file_is_ours;
use crate::snapshot::FileId;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How much later than the log a snapshot of ours must be to be worth a line: SAVE and a kill leave one that is a
/// little later, and holds the same.
const LATER_MIN: Duration = Duration::from_secs(60);

/// Looks for data beside a log of ours, which counts. The error is that another log is in its directory.
pub(super) fn of_log(place: &Destination<'_>) -> Result<(), String> {
    must_be_alone(place.log.dir)?;
    let log = Log { dir: place.log.dir, written: last_written(&files_in(place.log.dir)) };
    let snapshot = place.dir.join(place.snapshot);
    if snapshot.is_file() {
        log.look_at_snapshot(&snapshot, place);
    }
    let mut others = vec![place.dir.join(OLD_LOG)];
    others.retain(|path| path.is_file());
    others.extend(logs_of_redis(place.dir).filter(|dir| *dir != place.log.dir));
    for other in others.iter().filter(|other| log.is_before(other, Duration::ZERO)) {
        tracing::warn!(
            "{} is not loaded: the log in {} counts{}",
            other.display(),
            log.dir.display(),
            log.words(other)
        );
    }
    Ok(())
}

/// Looks for a log where there shall be none: the snapshot counts, if there is one.
pub fn of_snapshot(snapshot: &Path, log_dir: &Path) {
    let is_log = |path: &PathBuf| path.extension().is_some_and(|end| end == "manifest");
    let (files, dir) = (files_in(log_dir), log_dir.display());
    let (of_log, of_snapshot) = (last_written(&files), last_written(&[snapshot.to_owned()]));
    if !files.iter().any(is_log) || of_log < of_snapshot {
        return;
    }
    let instead = match of_snapshot {
        Some(_) => format!("the snapshot {} counts (written {})", snapshot.display(), moment(of_snapshot)),
        None => format!("there is no snapshot {}, so the server begins empty", snapshot.display()),
    };
    tracing::warn!(
        "There is a log in {dir} (last written {}), and appendonly is no: it is not loaded, and {instead}. To start with \
         the log: --appendonly yes",
        moment(of_log)
    );
}

fn must_be_alone(dir: &Path) -> Result<(), String> {
    let Some(manifest) = find_manifest(dir)? else { return Ok(()) };
    let names = files_of_log(&manifest).map_err(|error| format!("{}: {error}", dir.display()))?;
    let theirs: Vec<PathBuf> = names.iter().map(|name| dir.join(name)).collect();
    let mut ours = files_in(dir);
    ours.retain(|path| !theirs.contains(path));
    let (of_theirs, of_ours, dir) = (moment(last_written(&theirs)), moment(last_written(&ours)), dir.display());
    Err(format!(
        "{} names a log of Redis beside a log of this server, which was not made of it: a Redis was started there since. \
         Its log was last written {of_theirs}, that of this server {of_ours}. Refusing to choose. To go on with the log \
         of this server, move the other one away: mkdir {dir}.redis && mv {dir}/{}* {dir}.redis/. To go on with that of \
         the Redis, take ours away: mkdir {dir}.ours && mv {dir}/shardrace.* {dir}/chain-* {dir}.ours/",
        manifest.display(),
        manifest.file_stem().unwrap_or_default().to_string_lossy()
    ))
}

/// A log of ours, which counts.
struct Log<'a> {
    dir: &'a Path,
    written: Option<SystemTime>,
}

impl Log<'_> {
    fn look_at_snapshot(&self, path: &Path, place: &Destination<'_>) {
        let (name, dir) = (path.display(), self.dir.display());
        if !file_is_ours(path).unwrap_or(false) {
            tracing::warn!(
                "{name} is of another server, and not loaded: the log in {dir} counts. The first SAVE or BGSAVE keeps it \
                 under another name{}",
                self.words(path)
            );
        } else if self.is_before(path, LATER_MIN) {
            // It may be of a time without a log, and hold what nothing else does.
            Services::of(&place.log.instance).saves.note_passed_over(FileId::of(path).ok());
            tracing::warn!(
                "{name} is not loaded: the log in {dir} counts. The first SAVE or BGSAVE keeps it under another name{}",
                self.words(path)
            );
        }
    }

    /// Whether something was written later than the log, by more than a time.
    fn is_before(&self, path: &Path, by: Duration) -> bool {
        let of_other = written_below(path);
        of_other.zip(self.written).is_some_and(|(other, log)| other.duration_since(log).is_ok_and(|later| later > by))
    }

    /// When each was written; and what to do, if the other one is newer.
    fn words(&self, path: &Path) -> String {
        let (of_other, of_log) = (moment(written_below(path)), moment(self.written));
        if !self.is_before(path, Duration::ZERO) {
            return format!(" (it was written {of_other}, the log {of_log})");
        }
        let dir = self.dir.display();
        format!(
            ". It is NEWER than the log: it was written {of_other}, the log {of_log}. To start with what it holds, stop \
             this server and move the log away: mv {dir} {dir}.away"
        )
    }
}

/// When a file, or the last of the files in a directory, was written.
fn written_below(path: &Path) -> Option<SystemTime> {
    if path.is_dir() { last_written(&files_in(path)) } else { last_written(&[path.to_owned()]) }
}

fn last_written(paths: &[PathBuf]) -> Option<SystemTime> {
    paths.iter().filter_map(|path| path.metadata().and_then(|file| file.modified()).ok()).max()
}

/// The files of a directory, without the lock, which every start may make; empty if it cannot be read: what counts is
/// read elsewhere, and fails there.
fn files_in(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.is_file() && !DirLock::is_at(path)).collect()
}

/// The directories below `dir` with a log of Redis.
fn logs_of_redis(dir: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.is_dir() && matches!(find_manifest(path), Ok(Some(_))))
}

fn moment(time: Option<SystemTime>) -> String {
    time.map_or_else(|| "at an unknown time".to_owned(), |time| Stamp(time).to_string())
}
