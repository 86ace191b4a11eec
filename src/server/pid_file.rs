//! `pidfile`: a file with the process ID of the server, for tools that stop it by that.

use std::path::{Path, PathBuf};

/// The file; dropping it removes it, if it still has the ID of this process.
#[derive(Debug)]
pub struct PidFile(Option<PathBuf>);

impl PidFile {
    /// Writes it; none if the path is empty. If it cannot be written the server runs without it.
    pub fn write(path: &str) -> Self {
        if path.is_empty() {
            return Self(None);
        }
        // The directory of the data may not exist yet.
        let made = Path::new(path).parent().map_or(Ok(()), std::fs::create_dir_all);
        match made.and_then(|()| std::fs::write(path, content())) {
            Ok(()) => Self(Some(path.into())),
            Err(error) => {
                tracing::warn!("Failed to write PID file {path}: {error}");
                Self(None)
            }
        }
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let Some(path) = &self.0 else { return };
        if std::fs::read_to_string(path).is_ok_and(|text| text == content()) {
            // A file that stays names a process that has ended, as after a crash.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn content() -> String {
    format!("{}\n", std::process::id())
}
