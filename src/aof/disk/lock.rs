//! One server per directory: a lock on a file in it, which the operating system releases when the process ends, however
//! it ends.

use crate::base::directories;
use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const FILE_NAME: &str = "shardrace.lock";

/// The right to use a log's directory, while this value lives.
#[derive(Debug)]
pub struct DirLock {
    file: File,
}

impl DirLock {
    /// Takes the right to use `dir`, and creates it if it is missing. The error is for the operator.
    pub fn take(dir: &Path) -> Result<Self, String> {
        directories::make(dir).map_err(|error| format!("can't create {}: {error}", dir.display()))?;
        Self::take_existing(dir)
    }

    /// Whether a path is that of the lock.
    pub fn is_at(path: &Path) -> bool {
        path.file_name().is_some_and(|name| name == FILE_NAME)
    }

    /// Fails unless `dir` is still the directory that was locked. Somebody may have moved it away, and put a backup or
    /// the directory of another server in its place: that must not be written to.
    pub fn must_be_of(&self, dir: &Path) -> io::Result<()> {
        let path = dir.join(FILE_NAME);
        let with_path = |error: io::Error| io::Error::new(error.kind(), format!("{error}: {}", path.display()));
        let id = |file: Metadata| (file.dev(), file.ino());
        let (there, locked) = (std::fs::metadata(&path).map_err(with_path)?, self.file.metadata()?);
        match id(there) == id(locked) {
            true => Ok(()),
            false => Err(io::Error::other(format!("{} is not the file that this server has locked", path.display()))),
        }
    }

    /// Takes the right to use an existing directory.
    pub fn take_existing(dir: &Path) -> Result<Self, String> {
        let path = dir.join(FILE_NAME);
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(|error| format!("can't open {}: {error}", path.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { file }),
            Err(TryLockError::WouldBlock) => {
                Err(format!("{} is in use: another server (or check-aof) has it locked", dir.display()))
            }
            Err(TryLockError::Error(error)) => Err(format!("can't lock {}: {error}", path.display())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_locked_until_the_lock_is_dropped() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("log");
        let lock = DirLock::take(&path).expect("nobody has it");
        let refused = DirLock::take(&path).expect_err("it is taken");
        assert!(refused.contains(path.to_str().expect("a text path")) && refused.contains("in use"), "{refused}");
        drop(lock);
        DirLock::take(&path).expect("it was let go");
    }

    #[test]
    fn another_directory_of_the_same_name_is_not_the_one_that_is_locked() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (path, away) = (dir.path().join("log"), dir.path().join("away"));
        let lock = DirLock::take(&path).expect("nobody has it");
        lock.must_be_of(&path).expect("it is there");
        std::fs::rename(&path, &away).expect("it is moved");
        lock.must_be_of(&path).expect_err("it is gone");
        let other = DirLock::take(&path).expect("nobody has this one");
        let error = lock.must_be_of(&path).expect_err("it is another's");
        assert!(error.to_string().contains(path.to_str().expect("a text path")), "{error}");
        other.must_be_of(&path).expect("it is there");
        lock.must_be_of(&away).expect("it is there");
    }
}
