//! A digest of the sources of the server. The build puts it into `shardrace --version`, and the lab compares it with
//! the sources in its folder: a commit says nothing about a binary that was built from another one.
//!
//! Cargo runs the build script again when a file is newer than its last run. Two checkouts that share a target folder
//! can so get the digest of the other: each needs a folder of its own.
//!
//! The build script of the server compiles this file, too (`build.rs`), so it uses the standard library alone.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What a build of the server reads.
pub const PARTS: [&str; 6] =
    [".cargo/config.toml", "Cargo.toml", "Cargo.lock", "src", "actors/Cargo.toml", "actors/src"];

/// FNV-1a over the paths and bytes of all files of [`PARTS`] under `root`, in the order of their paths. It has to
/// detect another version, not an adversary.
pub fn digest(root: &Path) -> io::Result<String> {
    let mut files = Vec::new();
    for part in PARTS {
        list(root, Path::new(part), &mut files)?;
    }
    files.sort();
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut add = |bytes: &[u8]| {
        for &byte in bytes {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for file in files {
        let text = fs::read(root.join(&file))?;
        add(file.as_os_str().as_encoded_bytes());
        add(&(text.len() as u64).to_le_bytes());
        add(&text);
    }
    Ok(format!("{hash:016x}"))
}

/// Adds `path`, or all files below it.
fn list(root: &Path, path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    let place = root.join(path);
    if !place.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(place)? {
        list(root, &path.join(entry?.file_name()), files)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_of_every_byte_and_every_name() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for part in [".cargo", "src/deep", "actors/src"] {
            fs::create_dir_all(root.join(part)).unwrap();
        }
        for file in [
            ".cargo/config.toml",
            "Cargo.toml",
            "Cargo.lock",
            "src/main.rs",
            "src/deep/one.rs",
            "actors/Cargo.toml",
            "actors/src/lib.rs",
        ] {
            fs::write(root.join(file), file).unwrap();
        }
        let before = digest(root).unwrap();
        assert_eq!(digest(root).unwrap(), before);
        fs::write(root.join("src/deep/one.rs"), "src/deep/one.rS").unwrap();
        let changed = digest(root).unwrap();
        fs::rename(root.join("src/deep/one.rs"), root.join("src/deep/two.rs")).unwrap();
        let renamed = digest(root).unwrap();
        assert!(changed != before && renamed != changed);
        fs::remove_file(root.join("Cargo.lock")).unwrap();
        assert!(digest(root).is_err());
    }
}
