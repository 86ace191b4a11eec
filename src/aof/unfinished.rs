//! The log of an import: a manifest names it only when all of it is on the disk.
//!
//! ```text
//! 1. a manifest says that an import has not come to its end: no server starts with it
//! 2. the segments are written, and synced
//! 3. the manifest that names them takes the place of the other
//! ```
//!
//! Whatever interrupts an import, the next one removes the files that it has left. Where a starting server imports the
//! data it found (see `import::takeover`), the file [`TAKEOVER`](super::manifest::TAKEOVER) is beside the manifest, and
//! the next start begins again.
//!
//! A log that begins while the server runs has a chain of its own, which the file [`BEGINNING`] names (`chain N`) until
//! the manifest does. The files that a crash leaves of it are removed: the log before it, or the snapshot, holds the
//! data.

use super::disk::{self, Disk};
use super::manifest::{Chain, FILE_NAME, Manifest};
use super::recovery::{Log, Recovered, recover_unnamed};
use super::{orphans, write_buffer};
use std::io;
use std::path::{Path, PathBuf};

/// Names the chain of a log that begins while the server runs.
const BEGINNING: &str = "shardrace.beginning";

/// Records that the files of a chain must be removed, unless the manifest names it.
pub fn note_beginning(disk: &dyn Disk, dir: &Path, chain: u32) -> io::Result<()> {
    disk::replace(disk, dir, BEGINNING, format!("chain {chain}\n").as_bytes())
}

/// The chain of a log that has not begun, if there is one: the next start removes its files.
pub fn beginning(disk: &dyn Disk, dir: &Path) -> Result<Option<u32>, String> {
    let path = dir.join(BEGINNING);
    let Some(bytes) = disk.read(&path).map_err(|error| format!("can't read {}: {error}", path.display()))? else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(&bytes);
    let number = text.strip_prefix("chain ").and_then(|rest| rest.trim_end().parse::<u32>().ok());
    number.map(Some).ok_or_else(|| format!("{}: is damaged", path.display()))
}

/// Removes the files of a log that has not begun, and the file that names it. The caller has the lock of the directory.
pub fn remove_beginning(disk: &dyn Disk, dir: &Path) -> Result<(), String> {
    let beginning_path = dir.join(BEGINNING);
    let describe = |path: &Path, error: io::Error| format!("can't remove {}: {error}", path.display());
    let Some(number) = beginning(disk, dir)? else { return Ok(()) };
    if !Manifest::read(disk, dir)?.chains().iter().any(|chain| chain.number == number) {
        for path in orphans::list(disk, dir)?.into_iter().filter(|path| Chain::chain_of(path) == Some(number)) {
            disk.remove(&path).map_err(|error| describe(&path, error))?;
            match disk.remove(&write_buffer::path_of(&path)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(describe(&path, error)),
                _ => {}
            }
        }
        tracing::info!("{}: removed what is left of a log that had not begun", dir.display());
    }
    // A power loss must not take this file alone: without it the files would be unknown ones.
    disk.sync_dir(dir).map_err(|error| format!("can't sync {}: {error}", dir.display()))?;
    disk.remove(&beginning_path).map_err(|error| describe(&beginning_path, error))?;
    disk.sync_dir(dir).map_err(|error| format!("can't sync {}: {error}", dir.display()))
}

/// Begins the log of an import in a directory without a log; also returns how many files of an earlier import were
/// removed. The caller has the lock of the directory.
pub fn begin_import(log: &Log<'_>) -> Result<(Recovered, usize), String> {
    let Log { disk, dir, .. } = *log;
    let describe = |error: io::Error| format!("can't begin a log in {}: {error}", dir.display());
    let removed = if Manifest::is_of_unfinished_import(disk, dir)? {
        remove_files(log)?
    } else if Manifest::read(disk, dir)?.chains().is_empty() {
        orphans::must_be_known(disk, dir, &Manifest::default(), None)?;
        Manifest::of_unfinished_import().write(disk, dir).map_err(describe)?;
        0
    } else {
        return Err(format!("{} holds a log already; import makes a new one", dir.display()));
    };
    Ok((recover_unnamed(log)?, removed))
}

/// Removes what an import has written, if it cannot be finished; the directory is then as it was before.
pub fn remove_import(log: &Log<'_>) -> Result<(), String> {
    if !Manifest::is_of_unfinished_import(log.disk, log.dir)? {
        return Ok(());
    }
    remove_files(log)?;
    let (disk, manifest) = (log.disk, log.dir.join(FILE_NAME));
    let removed = disk.remove(&manifest).and_then(|()| disk.sync_dir(log.dir));
    removed.map_err(|error| format!("can't remove {}: {error}", manifest.display()))
}

/// Removes the files of segments and their buffers, and returns how many there were. The manifest stays, and keeps
/// servers from starting with what is left.
fn remove_files(log: &Log<'_>) -> Result<usize, String> {
    let Log { disk, dir, .. } = *log;
    let files: Vec<PathBuf> = orphans::list_with_functions(disk, dir)?;
    for path in &files {
        disk.remove(path).map_err(|error| format!("can't remove {}: {error}", path.display()))?;
    }
    write_buffer::settle(disk, dir, &Manifest::default())?;
    disk.sync_dir(dir).map_err(|error| format!("can't sync {}: {error}", dir.display()))?;
    Ok(files.len())
}
