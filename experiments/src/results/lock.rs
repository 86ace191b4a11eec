//! One lab at a time measures in the folder of a run: two would write the same records, and disturb each other.

use std::fs::{File, TryLockError};
use std::path::Path;

use anyhow::{Context, Result};

/// The lock on the folder of a run. The kernel releases it with the process that holds it, however that ends.
#[derive(Debug)]
pub(crate) struct Lock {
    _folder: File,
}

impl Lock {
    /// Locks `folder`; `None` if another lab has it.
    pub(crate) fn take(folder: &Path) -> Result<Option<Self>> {
        let file = File::open(folder).with_context(|| format!("cannot open {}", folder.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { _folder: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error).with_context(|| format!("cannot lock {}", folder.display())),
        }
    }
}
