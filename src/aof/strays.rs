//! Files of segments that the manifest does not name.

use super::disk::Disk;
use super::manifest::{ChainEntry, FILE_NAME, Manifest};
use super::record::SEGMENT_HEADER;
use super::scan::Scan;
use super::write_buffer;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Bytes that a start writes to a new segment, before there is a manifest: a header and an epoch, which are no data.
const FIRST_WRITE: usize = SEGMENT_HEADER + 26;

/// Removes what a rewriting that did not come to its end has left.
pub fn remove(disk: &dyn Disk, dir: &Path, manifest: &Manifest) {
    for path in leftovers(disk, dir, manifest) {
        match disk.remove(&path) {
            Ok(()) => tracing::info!("Removed {}, which is no part of the log", path.display()),
            Err(error) => tracing::warn!("Can't remove {}, which is no part of the log: {error}", path.display()),
        }
    }
}

/// Refuses to begin a new log beside segments that hold something: the manifest that names them is lost. The first start
/// may have ended before it wrote the manifest; what it left holds no records.
pub fn must_be_empty(disk: &dyn Disk, dir: &Path) -> Result<(), String> {
    for path in list(disk, dir)? {
        let bytes =
            write_buffer::read(disk, &path).map_err(|error| format!("can't read {}: {error}", path.display()))?;
        let bytes = bytes.unwrap_or_default();
        // What a power loss leaves of a file that was not synced yet: zeros, or anything, where the first start wrote.
        if bytes.len() <= FIRST_WRITE || bytes.iter().all(|&byte| byte == 0) {
            continue;
        }
        let scan = Scan::of(&bytes, &path)?;
        if scan.records > 0 || scan.has_more {
            return Err(format!(
                "{} holds {} records, and there is no {FILE_NAME} beside it. Refusing to start without them: put the \
                 manifest back, or move the files of the log away",
                path.display(),
                scan.records
            ));
        }
    }
    Ok(())
}

/// The files of segments that the manifest does not name. Those of chains that are to come are somebody else's.
fn leftovers(disk: &dyn Disk, dir: &Path, manifest: &Manifest) -> Vec<PathBuf> {
    let named: BTreeSet<PathBuf> = manifest.files(dir).collect();
    let last = manifest.chains().iter().map(|chain| chain.number).max().unwrap_or(0);
    let is_left =
        |path: &PathBuf| ChainEntry::chain_of(path).is_some_and(|chain| chain <= last) && !named.contains(path);
    list(disk, dir).unwrap_or_default().into_iter().filter(is_left).collect()
}

/// Every file that has the name of a segment's.
fn list(disk: &dyn Disk, dir: &Path) -> Result<Vec<PathBuf>, String> {
    let files = disk.list(dir).map_err(|error| format!("can't read {}: {error}", dir.display()))?;
    Ok(files.into_iter().filter(|path| ChainEntry::chain_of(path).is_some()).collect())
}
