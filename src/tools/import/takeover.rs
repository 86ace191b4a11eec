//! A server that starts with a log in the directory of a Redis: turns the Redis's data into a log of ours, once.
//!
//! | in the directories, in this order | what a start does |
//! |---|---|
//! | a log of ours | continues it, and says what is beside it and does not count (see `beside`) |
//! | a log of ours, and a log of Redis beside it in the same directory | is refused: it is unknown which one counts |
//! | a log of Redis (`appendonlydir/` with its manifest, or `appendonly.aof` of before version 7) | takes that over |
//! | a snapshot (`dbfilename`) | takes that over |
//!
//! The machinery of `shardrace import` takes it over, and the original files are kept under other names:
//!
//! ```text
//! 1. all of it is read; what cannot be is a reason to refuse the start, and nothing is changed
//! 2. shardrace.takeover says which files get which names; then as an import (see `aof::recover`)
//! 3. when the manifest names the new log, the files get their names, and shardrace.takeover goes
//! ```
//!
//! Before the manifest of 3 the Redis can be started again, and a start of ours begins again; after it a start of ours
//! continues with 3. The file holds a line `FROM` and a line `TO` for each move, both below `--dir`.

use super::beside;
use super::redis_log::{self, files_of_log, find_manifest};
use super::{Import, Target};
use crate::aof::{self, Disk, Log, LogControl, Manifest, Progress, TAKEOVER, remove_import};
use crate::rdb::file_is_ours;
use crate::snapshot::name_aside;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The log of Redis before version 7, under `--dir`.
pub(super) const OLD_LOG: &str = "appendonly.aof";

/// The environment of a starting server that has a log.
#[derive(Debug)]
pub struct Destination<'a> {
    /// `--dir`.
    pub dir: &'a Path,
    /// The name of the snapshot in it.
    pub snapshot: &'a str,
    /// The new log, whose directory the caller has locked.
    pub log: &'a Log<'a>,
    /// The disk of the log.
    pub disk: &'a Arc<dyn Disk>,
    /// Where INFO reads the progress.
    pub control: &'a LogControl,
}

/// Takes over the data of a Redis if there is no log of ours. The error says what cannot be taken over, and what to do.
pub fn take_over(destination: &Destination<'_>) -> Result<(), String> {
    let dir = destination.log.dir;
    let pending = Moves::read(destination)?;
    if Manifest::is_of_unfinished_import(&**destination.disk, dir)? {
        if pending.is_none() {
            // A manual import: the start is refused because of that.
            return Ok(());
        }
        remove_import(destination.log)?;
    } else if !Manifest::read(&**destination.disk, dir)?.chains().is_empty() {
        if let Some(moves) = pending {
            moves.make(destination);
        }
        return beside::of_log(destination);
    }
    match Source::find(destination)? {
        Some(source) => source.take_over(destination),
        None => forget(dir),
    }
}

/// Forgets an unfinished takeover, because the directory of the log is used otherwise.
pub fn forget(dir: &Path) -> Result<(), String> {
    let path = dir.join(TAKEOVER);
    match std::fs::remove_file(&path) {
        Ok(()) => sync_dir(dir).map_err(|error| format!("can't sync {}: {error}", dir.display())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(format!("can't remove {}: {error}", path.display())),
    }
}

/// The data of a Redis.
enum Source {
    /// The directory of a log, which will be that of ours, and its manifest.
    Log(PathBuf),
    /// The one file of a log.
    OldLog(PathBuf),
    Snapshot(PathBuf),
}

impl Source {
    /// What a Redis with a log would load; if that is nothing, the snapshot.
    fn find(destination: &Destination<'_>) -> Result<Option<Self>, String> {
        if let Some(manifest) = find_manifest(destination.log.dir)? {
            return Ok(Some(Self::Log(manifest)));
        }
        let (old, snapshot) = (destination.dir.join(OLD_LOG), destination.dir.join(destination.snapshot));
        Ok(match () {
            () if old.is_file() => Some(Self::OldLog(old)),
            () if snapshot.is_file() => Some(Self::Snapshot(snapshot)),
            () => None,
        })
    }

    fn take_over(&self, destination: &Destination<'_>) -> Result<(), String> {
        let mut import = Import::new(&destination.log.instance, destination.log.databases);
        tracing::info!("There is no log of this server yet: taking over {}", self.path().display());
        self.read_into(&mut import, destination).map_err(|reason| self.refusal(&reason))?;
        let moves = self.moves(destination).map_err(|reason| self.refusal(&reason))?;
        moves.write(destination)?;
        let Log { dir, layout, boot, .. } = destination.log;
        let target = Target {
            disk: Arc::clone(destination.disk),
            dir: dir.to_path_buf(),
            layout: layout.clone(),
            boot: boot.clone(),
        };
        if let Err(reason) = import.write_log(&target) {
            return Err(match forget(dir) {
                Ok(()) => self.refusal(&reason),
                Err(left) => format!("{}; {left}", self.refusal(&reason)),
            });
        }
        import.report.lines().for_each(|line| tracing::info!("{line}"));
        drop(import);
        moves.make(destination);
        beside::of_log(destination)
    }

    fn read_into(&self, import: &mut Import, destination: &Destination<'_>) -> Result<(), String> {
        let path = self.path();
        let files = if path.is_dir() { redis_log::files(path)? } else { vec![path.to_owned()] };
        let len = |path: &PathBuf| std::fs::metadata(path).map_or(0, |file| file.len());
        import.progress =
            Some(Progress::new(path.display().to_string(), files.iter().map(len).sum(), destination.control));
        match self {
            Self::Snapshot(path) => import.read_snapshot_file(path)?,
            Self::Log(_) | Self::OldLog(_) => import.read(path)?,
        }
        import.refusal.take().map_or(Ok(()), |reason| Err(format!("{}: {reason}", path.display())))
    }

    /// A file, or a directory.
    fn path(&self) -> &Path {
        match self {
            Self::Log(manifest) => manifest.parent().expect("it was found in a directory"),
            Self::OldLog(path) | Self::Snapshot(path) => path,
        }
    }

    fn refusal(&self, reason: &str) -> String {
        let path = self.path().display();
        format!(
            "the data of another server cannot be taken over: {reason}. Nothing of it was changed. To start without it, \
             move it away: mv {path} {path}.away"
        )
    }

    /// The files, and the names under which they are kept.
    fn moves(&self, destination: &Destination<'_>) -> Result<Moves, String> {
        let path = self.path();
        let moves = match self {
            // The next snapshot replaces it, as it would have anyway.
            Self::Snapshot(path) if file_is_ours(path).unwrap_or(false) => Vec::new(),
            Self::OldLog(_) | Self::Snapshot(_) => vec![(path.to_owned(), name_aside(path, "redis"))],
            Self::Log(manifest) => {
                let aside = name_aside(path, "redis");
                let names = files_of_log(manifest).map_err(|error| format!("{}: {error}", path.display()))?;
                names.into_iter().map(|name| (path.join(&name), aside.join(&name))).collect()
            }
        };
        Moves::new(moves, destination.dir)
    }
}

/// Which files get which names, below `--dir`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Moves(Vec<(String, String)>);

impl Moves {
    fn new(moves: Vec<(PathBuf, PathBuf)>, dir: &Path) -> Result<Self, String> {
        let below = |path: &Path| {
            let name = path.strip_prefix(dir).ok().and_then(Path::to_str).filter(|name| !name.contains('\n'));
            name.map(str::to_owned).ok_or_else(|| format!("{}: not a name that can be noted", path.display()))
        };
        let moves = moves.iter().map(|(from, to)| Ok((below(from)?, below(to)?)));
        moves.collect::<Result<_, String>>().map(Self)
    }

    /// The moves recorded by a takeover; `None` if none are.
    fn read(destination: &Destination<'_>) -> Result<Option<Self>, String> {
        let path = destination.log.dir.join(TAKEOVER);
        let bytes = destination.disk.read(&path).map_err(|error| format!("can't read {}: {error}", path.display()))?;
        let Some(bytes) = bytes else { return Ok(None) };
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        let moves = lines.chunks(2).map(|lines| match lines {
            [from, to] => Ok(((*from).to_owned(), (*to).to_owned())),
            _ => Err(format!("{}: is damaged", path.display())),
        });
        moves.collect::<Result<_, _>>().map(|moves| Some(Self(moves)))
    }

    fn write(&self, destination: &Destination<'_>) -> Result<(), String> {
        let text: String = self.0.iter().map(|(from, to)| format!("{from}\n{to}\n")).collect();
        let dir = destination.log.dir;
        aof::replace(&**destination.disk, dir, TAKEOVER, text.as_bytes())
            .map_err(|error| format!("can't write {}: {error}", dir.join(TAKEOVER).display()))
    }

    /// Renames the files. If one cannot be renamed, the next start tries again: no snapshot overwrites another
    /// server's, and no log a file that is not ours.
    fn make(&self, destination: &Destination<'_>) {
        let made =
            self.0.iter().try_for_each(|(from, to)| move_aside(&destination.dir.join(from), &destination.dir.join(to)));
        let log_dir = destination.log.dir;
        let made = made.and_then(|()| self.sync(destination)).map_err(|error| error.to_string());
        if let Err(reason) = made.and_then(|()| forget(log_dir)) {
            tracing::warn!("What was taken over keeps its name for now: {reason}");
        }
    }

    fn sync(&self, destination: &Destination<'_>) -> io::Result<()> {
        let mut dirs = vec![destination.dir.to_owned(), destination.log.dir.to_owned()];
        dirs.extend(self.0.iter().filter_map(|(_, to)| destination.dir.join(to).parent().map(Path::to_owned)));
        dirs.sort();
        dirs.dedup();
        dirs.iter().try_for_each(|dir| sync_dir(dir))
    }
}

/// Renames a file, unless an earlier start has.
fn move_aside(from: &Path, to: &Path) -> io::Result<()> {
    let with_path = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", from.display()));
    match from.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(with_path(error)),
        Ok(_) if to.symlink_metadata().is_ok() => {
            let reason = format!("{} is there already", to.display());
            return Err(with_path(io::Error::new(ErrorKind::AlreadyExists, reason)));
        }
        Ok(_) => {}
    }
    tracing::info!("{} was taken over, and is kept as {}", from.display(), to.display());
    to.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::rename(from, to)).map_err(with_path)
}

fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
