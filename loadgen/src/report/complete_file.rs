//! A file that gets its name when it is complete: until then it is `NAME.partial`, and an older file of that name stays
//! whole.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::base::Error;

/// A report being written. If it is dropped before [`PartialFile::complete`], nothing remains.
pub struct PartialFile {
    path: PathBuf,
    /// Where it is written until it is complete; `None` if the name belongs to no regular file (a pipe, a device),
    /// which is written directly.
    partial: Option<PathBuf>,
    file: BufWriter<File>,
}

impl PartialFile {
    /// Creates it, so that a bad path fails before the run and not after it.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let is_special = fs::metadata(path).is_ok_and(|metadata| !metadata.is_file());
        // A link stays one: its target is replaced.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let partial = (!is_special).then(|| {
            let mut name = target.clone().into_os_string();
            name.push(".partial");
            PathBuf::from(name)
        });
        let file = File::create(partial.as_deref().unwrap_or(path)).map_err(|source| Error::file(path, source))?;
        Ok(Self { path: target, partial, file: BufWriter::new(file) })
    }

    /// The written file gets its name.
    pub fn complete(mut self) -> Result<(), Error> {
        let written = self.file.flush().and_then(|()| match &self.partial {
            Some(partial) => fs::rename(partial, &self.path),
            None => Ok(()),
        });
        written.map_err(|source| Error::file(&self.path, source))?;
        self.partial = None;
        Ok(())
    }

    /// The error with the file's name.
    pub(crate) fn error(&self, source: io::Error) -> Error {
        Error::file(&self.path, source)
    }
}

impl Write for PartialFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if let Some(partial) = &self.partial {
            // The run failed, and says why; a remaining file is visible by its name.
            let _ = fs::remove_file(partial);
        }
    }
}

/// Creates, writes and completes a file.
pub(crate) fn write_file(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Error> {
    let mut file = PartialFile::create(path)?;
    write(&mut file).map_err(|source| file.error(source))?;
    file.complete()
}
