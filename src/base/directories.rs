//! Directories whose names survive a power loss.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Makes a directory and its missing parents, and syncs the entry of every level.
///
/// Levels that exist are synced, too: a start that was killed may have made them. A parent that cannot be read is left
/// out: the process that made it has to sync it.
pub fn make(path: &Path) -> io::Result<()> {
    let entries = with_entries(path);
    let first_there = entries.iter().position(|(level, _)| level.exists()).unwrap_or(entries.len());
    std::fs::create_dir_all(path)?;
    // Files are no safer than the name of their directory, even if it was there.
    let made = first_there.max(1);
    entries.iter().take(made).try_for_each(|(_, parent)| sync(parent))?;
    entries.iter().skip(made).for_each(|(_, parent)| drop(sync(parent)));
    Ok(())
}

/// Makes the names in a directory survive a power loss.
pub fn sync(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// A directory and its parents, the innermost first, each with the directory that its name is in.
fn with_entries(path: &Path) -> Vec<(&Path, PathBuf)> {
    let levels = path.ancestors().filter(|level| level.file_name().is_some());
    let entry = |level: &Path| level.parent().filter(|parent| !parent.as_os_str().is_empty()).map(Path::to_owned);
    levels.map(|level| (level, entry(level).unwrap_or_else(|| ".".into()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_has_its_entry_in_the_one_above_it() {
        let entries = |path: &'static str| {
            let entries = with_entries(Path::new(path)).into_iter();
            entries.map(|(level, parent)| format!("{} in {}", level.display(), parent.display())).collect::<Vec<_>>()
        };
        assert_eq!(entries("/a/b/c"), ["/a/b/c in /a/b", "/a/b in /a", "/a in /"]);
        assert_eq!(entries("a/b"), ["a/b in a", "a in ."]);
        assert!(entries("/").is_empty() && entries("..").is_empty());
    }

    #[test]
    fn levels_that_are_missing_are_made_and_an_error_is_that_of_the_system() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("a/b/c");
        make(&path).and_then(|()| make(&path)).expect("there is room");
        assert!(path.is_dir());
        std::fs::write(path.join("file"), "").expect("there is room");
        make(&path.join("file/d")).expect_err("a file is no directory");
    }
}
