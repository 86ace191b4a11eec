//! The configuration of a short-lived server.

use super::{Config, Directive, parameter};
use crate::base::randomness::Randomness;
use std::path::{Path, PathBuf};

/// A directory that is created here, and removed when this is dropped.
#[derive(Debug)]
pub struct TemporaryDir(PathBuf);

impl TemporaryDir {
    fn new() -> std::io::Result<Self> {
        let name = format!("shardrace-{}-{:016x}", std::process::id(), Randomness::System.number());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryDir {
    fn drop(&mut self) {
        // It may have been removed; what stays is in the system's temporary directory.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Config {
    /// The configuration of a short-lived server, as tests need it: on a free port of 127.0.0.1, with a temporary
    /// directory that is removed with the server, without a log and without save points. Everything else has its
    /// default; see [`with`](Self::with).
    ///
    /// # Panics
    /// If no temporary directory can be created.
    pub fn ephemeral() -> Self {
        let dir = TemporaryDir::new().expect("a temporary directory can be made");
        let path = dir.path().display().to_string();
        let config = Self { dir: Some(dir), ..Self::default() };
        for (directive, value) in [
            (Directive::Port, "0"),
            (Directive::Bind, "127.0.0.1"),
            (Directive::Dir, &path),
            (Directive::Appendonly, "no"),
            (Directive::Save, ""),
        ] {
            config.set(&[(directive as usize, value.to_owned())]).expect("they are valid values");
        }
        config
    }

    /// The same with another value of a directive, as by CONFIG SET. The error says what is wrong with the value.
    pub fn with(self, directive: &str, value: &str) -> Result<Self, String> {
        let index = parameter(&directive.to_lowercase()).ok_or_else(|| format!("there is no directive {directive}"))?;
        let set = self.set(&[(index, value.to_owned())]);
        set.map(|()| self).map_err(|(_, reason)| format!("{directive} '{value}': {reason}"))
    }

    /// The directory that is removed with the server, if there is one.
    pub fn take_temporary_dir(&mut self) -> Option<TemporaryDir> {
        self.dir.take()
    }
}
