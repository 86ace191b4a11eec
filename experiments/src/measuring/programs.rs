//! Whether the programs of a run are still those that it began with. If a build replaces one meanwhile, the run has
//! figures of two programs under the digest of the first.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::plan::catalog::{Program, digest_of};

/// What changes when a file is replaced or written: device, inode, size, and time of the last change in nanoseconds.
type Identity = (u64, u64, u64, i128);

/// The identities under which programs had the digest of the run.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    known: HashMap<PathBuf, Identity>,
}

impl Programs {
    /// Fails, with its name, at a program that has another digest than when the run began. Its bytes are only read when
    /// its file looks different: a digest before each trial would take longer than some trials.
    pub(crate) fn check<'a>(&mut self, programs: impl IntoIterator<Item = &'a Program>) -> Result<()> {
        for program in programs {
            let path = &program.path;
            let identity = identity_of(path).with_context(|| gone(path))?;
            if self.known.get(path) == Some(&identity) {
                continue;
            }
            let digest = digest_of(path).with_context(|| gone(path))?;
            ensure!(
                digest == program.digest,
                "the program {} was replaced while the run was measuring: its digest is {digest}, and was {}",
                path.display(),
                program.digest
            );
            self.known.insert(path.clone(), identity);
        }
        Ok(())
    }
}

fn gone(path: &Path) -> String {
    format!("the program {}, which the run began with, cannot be read", path.display())
}

fn identity_of(path: &Path) -> std::io::Result<Identity> {
    // Of the file that a link leads to.
    let file = fs::metadata(path)?;
    let changed = i128::from(file.mtime()) * 1_000_000_000 + i128::from(file.mtime_nsec());
    Ok((file.dev(), file.ino(), file.size(), changed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_replaced_is_named_and_the_same_bytes_in_another_file_are_the_same_program() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("server");
        fs::write(&path, "one").unwrap();
        let program = Program { path: path.clone(), digest: digest_of(&path).unwrap(), version: None };
        let mut programs = Programs::default();
        programs.check([&program]).unwrap();
        let replace = |content: &str| {
            fs::write(path.with_extension("new"), content).unwrap();
            fs::rename(path.with_extension("new"), &path).unwrap();
        };
        replace("one");
        programs.check([&program]).unwrap();
        replace("two");
        let said = programs.check([&program]).unwrap_err().to_string();
        assert!(said.contains(path.to_str().unwrap()) && said.contains("was replaced"), "{said}");
        fs::remove_file(&path).unwrap();
        assert!(programs.check([&program]).unwrap_err().to_string().contains("cannot be read"));
    }
}
