//! Files of segments that the manifest does not name.

use super::manifest::{Chain, FILE_NAME, Manifest};
use super::record::BEGIN_LEN;
use super::segment_scan::Scan;
use super::write_buffer;
use crate::aof::disk::Disk;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Removes the files of an unfinished rewrite.
pub fn remove(disk: &dyn Disk, dir: &Path, manifest: &Manifest) {
    for path in leftovers(disk, dir, manifest) {
        match disk.remove(&path) {
            Ok(()) => tracing::info!("Removed {}, which is no part of the log", path.display()),
            Err(error) => tracing::warn!("Can't remove {}, which is no part of the log: {error}", path.display()),
        }
    }
}

/// Refuses to start if there are segment files with data that the manifest does not name and that no operation of ours
/// leaves: the manifest that names them is lost, or this one is older or of another log. The first start may have ended
/// before it wrote the manifest; the files it left hold no records. Nor are the files of the chain `beginning` unknown.
pub fn must_be_known(disk: &dyn Disk, dir: &Path, manifest: &Manifest, beginning: Option<u32>) -> Result<(), String> {
    let named: BTreeSet<PathBuf> = manifest.files(dir).collect();
    let is_beginning = |path: &PathBuf| beginning.is_some() && Chain::chain_of(path) == beginning;
    let is_unknown = |path: &PathBuf| !named.contains(path) && !manifest.may_have_left(path) && !is_beginning(path);
    for path in list(disk, dir)?.into_iter().filter(is_unknown) {
        let bytes =
            write_buffer::read(disk, &path).map_err(|error| format!("can't read {}: {error}", path.display()))?;
        let bytes = bytes.unwrap_or_default();
        // A power loss leaves zeros, or any bytes, of a file that was not synced yet, where the first start wrote.
        if bytes.len() <= BEGIN_LEN || bytes.iter().all(|&byte| byte == 0) {
            continue;
        }
        let scan = Scan::of(&bytes, &path)?;
        if scan.records > 0 || scan.has_more {
            let path = path.display();
            let records = scan.records;
            return Err(match manifest.chains() {
                [] => format!(
                    "{path} holds {records} records, and there is no {FILE_NAME} beside it. Refusing to start without \
                     them: put the manifest back, or move the files of the log away"
                ),
                _ => format!(
                    "{path} holds {records} records, and {FILE_NAME} does not name it: the manifest is an older one, or \
                     of another log, or a repair has not come to its end. Refusing to start without them: put the \
                     right manifest back, or move the file away"
                ),
            });
        }
    }
    Ok(())
}

/// The segment files that the manifest does not name. Those of future chains hold no data.
fn leftovers(disk: &dyn Disk, dir: &Path, manifest: &Manifest) -> Vec<PathBuf> {
    let named: BTreeSet<PathBuf> = manifest.files(dir).collect();
    let last = manifest.chains().iter().map(|chain| chain.number).max().unwrap_or(0);
    let is_left = |path: &PathBuf| Chain::chain_of(path).is_some_and(|chain| chain <= last) && !named.contains(path);
    let files = disk.list(dir).unwrap_or_default().into_iter();
    files.filter(|path| is_left(path) || is_left_of_functions(path, dir, manifest)).collect()
}

/// Whether a file holds libraries of functions other than those that the manifest names.
fn is_left_of_functions(path: &Path, dir: &Path, manifest: &Manifest) -> bool {
    Manifest::is_of_functions(path) && manifest.functions(dir).is_none_or(|named| named != path)
}

/// The files with libraries of functions other than those that the manifest names.
pub fn left_of_functions(disk: &dyn Disk, dir: &Path, manifest: &Manifest) -> Vec<PathBuf> {
    let files = disk.list(dir).unwrap_or_default().into_iter();
    files.filter(|path| is_left_of_functions(path, dir, manifest)).collect()
}

/// Every file with the name of a segment file, or of a file with libraries of functions.
pub fn list_with_functions(disk: &dyn Disk, dir: &Path) -> Result<Vec<PathBuf>, String> {
    let files = disk.list(dir).map_err(|error| format!("can't read {}: {error}", dir.display()))?.into_iter();
    Ok(files.filter(|path| Chain::chain_of(path).is_some() || Manifest::is_of_functions(path)).collect())
}

/// Every file with the name of a segment file.
pub fn list(disk: &dyn Disk, dir: &Path) -> Result<Vec<PathBuf>, String> {
    let files = disk.list(dir).map_err(|error| format!("can't read {}: {error}", dir.display()))?;
    Ok(files.into_iter().filter(|path| Chain::chain_of(path).is_some()).collect())
}
