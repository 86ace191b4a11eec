//! One server per directory: a lock on a file in it, which the operating system releases when the process ends, however
//! it ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;

const FILE_NAME: &str = "shardrace.lock";

/// The right to use a log's directory, while this value lives.
#[derive(Debug)]
pub struct DirLock {
    _file: File,
}

impl DirLock {
    /// Takes the right to use `dir`, and creates it if it is missing. The error is for the operator.
    pub fn take(dir: &Path) -> Result<Self, String> {
        std::fs::create_dir_all(dir).map_err(|error| format!("can't create {}: {error}", dir.display()))?;
        Self::take_existing(dir)
    }

    /// Whether a path is that of the lock.
    pub fn is_at(path: &Path) -> bool {
        path.file_name().is_some_and(|name| name == FILE_NAME)
    }

    /// Takes the right to use an existing directory.
    pub fn take_existing(dir: &Path) -> Result<Self, String> {
        let path = dir.join(FILE_NAME);
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(|error| format!("can't open {}: {error}", path.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
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
}
