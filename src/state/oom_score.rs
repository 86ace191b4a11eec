//! `oom-score-adj`: how readily the kernel ends the process when memory is short.

use crate::config::OomScores;
use parking_lot::Mutex;
use std::io;
use std::sync::OnceLock;

/// The file with the score of the process, which the kernel adds to its own.
const PATH: &str = "/proc/self/oom_score_adj";
/// What the kernel accepts.
const LEAST: i64 = -1000;
const MOST: i64 = 1000;

/// The score of the process, as far as it is the server's to set.
#[derive(Debug, Default)]
pub struct OomScore {
    /// What is set before it is changed: the score of the process otherwise; none while the server leaves that.
    base: Mutex<Option<i64>>,
    /// Set if the process is the server's. A server within another program leaves its score.
    owns_process: OnceLock<()>,
}

impl OomScore {
    /// Lets it change the score from now on.
    pub fn own(&self) {
        self.owns_process.get_or_init(|| ());
    }

    /// Sets the score; without `scores` it becomes what it was before.
    pub fn apply(&self, scores: Option<OomScores>, is_replica: bool) -> io::Result<()> {
        if self.owns_process.get().is_none() {
            return Ok(());
        }
        let mut base = self.base.lock();
        match (scores, *base) {
            (None, None) => {}
            (None, Some(before)) => {
                set(before)?;
                *base = None;
            }
            (Some(scores), before) => {
                let before = before.map_or_else(current, Ok)?;
                let own = if is_replica { scores.replica } else { scores.master };
                set(if scores.are_relative { before + own } else { own })?;
                *base = Some(before);
            }
        }
        Ok(())
    }
}

fn current() -> io::Result<i64> {
    let text = std::fs::read_to_string(PATH)?;
    text.trim().parse().map_err(|_| io::Error::other(format!("{PATH} has no number")))
}

fn set(score: i64) -> io::Result<()> {
    let score = score.clamp(LEAST, MOST);
    std::fs::write(PATH, score.to_string())
        .map_err(|error| io::Error::other(format!("can't write {score} to {PATH}: {error}")))
}
