//! The log of an import: a manifest names it only when all of it is on the disk.
//!
//! ```text
//! 1. a manifest says that an import has not come to its end: no server starts with it
//! 2. the segments are written, and synced
//! 3. the manifest that names them takes the place of the other
//! ```
//!
//! Whatever interrupts an import, the next one removes the files that it has left. Where a starting server imports the
//! data it found (see `import::takeover`), the file [`TAKEOVER`](crate::aof::format::TAKEOVER) is beside the
//! manifest, and the next start begins again.

use super::recovery::{Log, Recovered, recover_unnamed};
use crate::aof::format::{MANIFEST, Manifest, orphans, write_buffer};
use std::io;
use std::path::PathBuf;

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
    let (disk, manifest) = (log.disk, log.dir.join(MANIFEST));
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
