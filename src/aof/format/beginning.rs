//! A log that begins while the server runs has a chain of its own, which the file [`BEGINNING`] names (`chain N`) until
//! the manifest does. The files that a crash leaves of it are removed: the log before it, or the snapshot, holds the
//! data.

use super::manifest::{Chain, Manifest};
use super::{orphans, write_buffer};
use crate::aof::disk::{self, Disk};
use std::io;
use std::path::Path;

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
