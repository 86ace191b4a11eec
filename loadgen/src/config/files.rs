//! The files that a run writes: their names, and that no two of them have one.

use std::fs;
use std::path::{self, Path, PathBuf};

use crate::base::{Error, invalid};

/// The files that belong to a prefix.
#[derive(Clone, Debug)]
pub struct HdrPaths {
    /// Latency by interval.
    pub latency_log: PathBuf,
    /// Latency of the whole run, a line for each command.
    pub latency_total: PathBuf,
    /// Service time by interval.
    pub service_log: PathBuf,
    /// Service time of the whole run, a line for each command.
    pub service_total: PathBuf,
    /// Latency of the whole run.
    pub latency_distribution: PathBuf,
    /// The seconds of the run.
    pub csv: PathBuf,
    /// The steps of a ramp.
    pub steps_csv: PathBuf,
    /// Everything else, if no other file is given for it.
    pub json: PathBuf,
}

impl HdrPaths {
    /// The prefix of a step's own files: `PREFIX.step03-5000`.
    pub fn step_prefix(prefix: &Path, number: usize, rate: f64) -> PathBuf {
        let mut path = prefix.as_os_str().to_owned();
        path.push(format!(".step{number:02}-{rate:.0}"));
        path.into()
    }

    /// Makes the folder of the files, where there is none.
    pub fn make_folder(prefix: &Path) -> Result<(), Error> {
        match Self::from_prefix(prefix).json.parent() {
            Some(folder) => fs::create_dir_all(folder).map_err(|source| Error::file(folder, source)),
            None => Ok(()),
        }
    }

    /// `PREFIX.hlog` and so on.
    pub fn from_prefix(prefix: &Path) -> Self {
        let path = |suffix: &str| {
            let mut path = prefix.as_os_str().to_owned();
            path.push(suffix);
            PathBuf::from(path)
        };
        Self {
            latency_log: path(".hlog"),
            latency_total: path(".total.hlog"),
            service_log: path(".service.hlog"),
            service_total: path(".service.total.hlog"),
            latency_distribution: path(".hgrm"),
            csv: path(".csv"),
            steps_csv: path(".steps.csv"),
            json: path(".json"),
        }
    }

    /// All but the JSON.
    fn beside_json(&self) -> [&Path; 7] {
        let logs = [&self.latency_log, &self.latency_total, &self.service_log, &self.service_total];
        let [latency, latency_total, service, service_total] = logs.map(PathBuf::as_path);
        [latency, latency_total, service, service_total, &self.latency_distribution, &self.csv, &self.steps_csv]
    }
}

/// Refuses a JSON that would be written to a file of the prefix: each would destroy the other.
pub(super) fn check_json_out_file(json: Option<&Path>, prefix: Option<&Path>) -> Result<(), Error> {
    let (Some(json), Some(prefix)) = (json, prefix) else {
        return Ok(());
    };
    let place = resolved(json);
    let paths = HdrPaths::from_prefix(prefix);
    match paths.beside_json().into_iter().find(|path| resolved(path) == place) {
        Some(_) => invalid("--json-out-file", json.display(), "--hdr-file-prefix writes another file of that name"),
        None => Ok(()),
    }
}

/// The place that a file has or would have, however it is written. A folder that does not exist yet has no links.
fn resolved(path: &Path) -> PathBuf {
    let in_folder = || Some(fs::canonicalize(path::absolute(path).ok()?.parent()?).ok()?.join(path.file_name()?));
    let exists = fs::canonicalize(path).ok().or_else(in_folder);
    exists.or_else(|| path::absolute(path).ok()).unwrap_or_else(|| path.to_owned())
}
