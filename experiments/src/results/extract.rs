//! The extract of a run: `trials.jsonl` and `latencies.jsonl`, made of everything below `raw/`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::base::digest::sha256;
use crate::base::files::write_whole;
use crate::measuring::generator::{Measurement, OutputFiles};
use crate::measuring::trial::TrialRecord;
use crate::results::folder::RunFolder;
use crate::results::latencies;
use crate::results::observation::{Observation, Observations};

/// The fields of INFO that identify a server.
const IDENTITY: [&str; 7] =
    ["redis_version", "valkey_version", "dragonfly_version", "mem_allocator", "engine", "shards", "io_threads_active"];

impl RunFolder {
    /// The results of the run: from `raw/` if that holds everything in `trials.jsonl`, which is then rewritten;
    /// otherwise from `trials.jsonl`, as in every clone of the repository.
    pub fn observations(&self) -> Result<Observations> {
        let file = self.trials_file();
        let committed = self.committed_observations()?;
        let known = committed.as_ref().map_or(0, |committed| committed.trials.len());
        let raw = self.record.order.len() - self.missing().len();
        if raw > 0 && raw >= known {
            let mut found = Observations::from_raw(self)?;
            if self.record.finished.is_some()
                && let Some(committed) = &committed
            {
                found = found.like_kept(committed);
            }
            if committed.as_ref() != Some(&found) {
                if let Some(latencies) = found.latencies_from_raw(self)? {
                    write_whole(&self.latencies_file(), &latencies)?;
                }
                write_whole(&file, &found.to_text()?)?;
            }
            return Ok(found);
        }
        committed.filter(|committed| !committed.trials.is_empty()).with_context(|| {
            format!("{} holds no trial and there is no raw/ beside it: there is nothing to report", file.display())
        })
    }
}

impl Observations {
    /// Extracts from everything below `raw/`.
    pub(crate) fn from_raw(run: &RunFolder) -> Result<Self> {
        let records = run.trials()?;
        let trials = records.iter().map(|record| Observation::of(record, &measurement(run, record)?));
        let trials = trials.collect::<Result<Vec<_>>>()?;
        let latencies = latencies_text(run, &records, &trials)?;
        Ok(Self { servers: identities(&records), trials, latencies: latencies.as_deref().map(sha256) })
    }

    /// The text of `latencies.jsonl`, from everything below `raw/`; `None` if the generator left no histograms.
    pub(crate) fn latencies_from_raw(&self, run: &RunFolder) -> Result<Option<String>> {
        latencies_text(run, &run.trials()?, &self.trials)
    }
}

fn measurement(run: &RunFolder, record: &TrialRecord) -> Result<Measurement> {
    Measurement::read(&generator_file(run, record))
}

/// The generator's file of the attempt that counts.
fn generator_file(run: &RunFolder, record: &TrialRecord) -> PathBuf {
    let stem = run.stem(&record.trial);
    stem.parent().unwrap_or(Path::new("")).join(&record.chosen().loadgen_file)
}

fn latencies_text(run: &RunFolder, records: &[TrialRecord], trials: &[Observation]) -> Result<Option<String>> {
    let mut lines = Vec::new();
    for (record, one) in records.iter().zip(trials) {
        lines.extend(latencies::lines_of(one, &OutputFiles::totals_log(&generator_file(run, record)))?);
    }
    if lines.is_empty() { Ok(None) } else { latencies::to_text(&lines).map(Some) }
}

fn identities(records: &[TrialRecord]) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut servers = BTreeMap::new();
    for record in records {
        let info = &record.chosen().info;
        let known = IDENTITY.iter().filter_map(|&field| Some((field.to_owned(), info.get(field)?.clone())));
        servers.entry(record.trial.point.server.clone()).or_insert_with(|| known.collect());
    }
    servers
}
