//! Small files that are replaced as a whole: a crash leaves the old one or the new one.

use super::{directories, worker};
use std::fs::{OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

/// The permissions of a file where there was none: as of one that holds a password.
const MODE: u32 = 0o600;

/// How many links lead from a name to a file at most.
const LINKS_MAX: usize = 40;

/// Writes a file that is no link, with the permissions of the one before it. The tasks of this thread run on another
/// one while it waits for the disk.
pub fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    worker::wait(|| {
        let aside = path.with_extension(format!("{}.new", std::process::id()));
        let replaced = write_aside(&aside, text, path).and_then(|()| std::fs::rename(&aside, path));
        if replaced.is_err() {
            // There may be no such file. The error says more than that it cannot be removed.
            let _ = std::fs::remove_file(&aside);
        }
        replaced?;
        directories::sync(path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new(".")))
    })
}

/// The path to which links lead; there may be no file.
pub fn resolve_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        match std::fs::read_link(&path) {
            Ok(target) => path = path.parent().unwrap_or(Path::new("")).join(target),
            // It is no link.
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many levels of symbolic links"))
}

/// Writes a new file with the permissions of the old one, because it can hold a password.
fn write_aside(aside: &Path, text: &[u8], old: &Path) -> io::Result<()> {
    let old = match std::fs::metadata(old) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        known => Some(known?),
    };
    let mode = old.as_ref().map_or(MODE, |old| old.permissions().mode());
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(mode & 0o600).open(aside)?;
    if let Some(old) = old {
        // Only root may give a file away. Otherwise it belongs to the user of this server, who can write it again.
        let _ = fchown(&file, Some(old.uid()), Some(old.gid()));
    }
    file.set_permissions(Permissions::from_mode(mode))?;
    file.write_all(text)?;
    file.sync_all()
}
