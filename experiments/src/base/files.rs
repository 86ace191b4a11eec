//! Files of results: written whole or not at all, in JSON that people can read.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

/// Replaces the file at `path` in one step.
pub fn write_whole(path: &Path, content: &str) -> Result<()> {
    let folder = path.parent().expect("results lie in a folder");
    let write = || -> std::io::Result<()> {
        let mut file = tempfile::Builder::new().permissions(readable()).tempfile_in(folder)?;
        file.write_all(content.as_bytes())?;
        file.persist(path)?;
        Ok(())
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// JSON in the form of results: readable for humans, too.
pub(crate) fn to_json<T: Serialize>(value: &T) -> Result<String> {
    let mut text = serde_json::to_string_pretty(value).context("cannot write a result as JSON")?;
    text.push('\n');
    Ok(text)
}

/// Now, in RFC 3339 without fractions.
pub(crate) fn now() -> String {
    humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string()
}

fn readable() -> fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o644)
}
