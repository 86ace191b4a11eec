//! `pidfile`: a file that says which process the server is, for whoever stops it by that.

use std::path::{Path, PathBuf};

/// The file; dropping it removes it, where it still says this process.
#[derive(Debug)]
pub struct PidFile(Option<PathBuf>);

impl PidFile {
    /// Writes it; none where the path is empty. A server whose file cannot be written serves without one.
    pub fn write(path: &str) -> Self {
        if path.is_empty() {
            return Self(None);
        }
        // The directory of the data may not be there yet.
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
            // A file that stays names a process that is gone, which is what a crash leaves, too.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn content() -> String {
    format!("{}\n", std::process::id())
}
