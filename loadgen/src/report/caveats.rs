//! What a histogram log says of its run beyond the latencies: comment lines at its end, which other programs skip. The
//! log says it itself, because it may be read where the JSON of its run is not.
//!
//! ```text
//! #[loadgen measured: 3.000184 s]
//! #[loadgen interrupted]
//! #[loadgen unsent: 120]
//! #[loadgen errors: 7]
//! #[loadgen fault: a thread of the generator was busy 97 % of the time: give it more threads or less to do]
//! ```

use std::io::{self, Write};
use std::time::Duration;

use serde_json::Value as Json;

use super::json::seconds_of;
use crate::record::Outcome;

const BEGIN: &str = "#[loadgen ";
const MEASURED: &str = "measured: ";
const INTERRUPTED: &str = "interrupted";
const UNSENT: &str = "unsent: ";
const ERRORS: &str = "errors: ";
const FAULT: &str = "fault: ";

/// How long a run measured, and what makes its latencies mean less than they seem to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caveats {
    /// The measured windows' length.
    pub measured: Duration,
    /// Whether Ctrl-C ended it early.
    pub is_interrupted: bool,
    /// Requests that were due and never sent.
    pub unsent: u64,
    /// Error replies, whose latencies are those of no work.
    pub errors: u64,
    /// Why the run says more about the generator than about the target; empty if it is valid.
    pub faults: Vec<String>,
}

impl Caveats {
    /// Those of a run that has ended.
    pub(crate) fn of(outcome: &Outcome) -> Self {
        Self {
            measured: outcome.duration,
            is_interrupted: outcome.is_interrupted,
            unsent: outcome.unsent,
            errors: outcome.commands.iter().map(|command| command.errors).sum(),
            faults: outcome.faults(),
        }
    }

    /// Those of a run with this JSON.
    pub(crate) fn of_json(json: &Json) -> Self {
        let faults = json["faults"].as_array().into_iter().flatten().filter_map(Json::as_str);
        let mut faults: Vec<String> = faults.map(str::to_owned).collect();
        if faults.is_empty() && json["valid"] == false {
            faults.push("its JSON says so".to_owned());
        }
        Self {
            measured: seconds_of(&json["duration_s"]),
            is_interrupted: json["interrupted"] == true,
            unsent: json["unsent"].as_u64().unwrap_or(0),
            errors: json["totals"]["errors"].as_u64().unwrap_or(0),
            faults,
        }
    }

    /// Those in the text of a log; `None` if it has none: another program wrote it, or an earlier version, or the run
    /// was killed.
    pub(crate) fn read(log: &[u8]) -> Option<Self> {
        let (mut caveats, mut has_caveats) = (Self::default(), false);
        for line in log.split(|byte| *byte == b'\n').filter(|line| line.starts_with(BEGIN.as_bytes())) {
            let line = String::from_utf8_lossy(line);
            let caveat = line.trim_end().trim_start_matches(BEGIN);
            caveats.add(caveat.strip_suffix(']').unwrap_or(caveat));
            has_caveats = true;
        }
        has_caveats.then_some(caveats)
    }

    fn add(&mut self, caveat: &str) {
        if let Some(seconds) = caveat.strip_prefix(MEASURED) {
            let seconds = seconds.trim_end_matches(" s").parse::<f64>().unwrap_or(0.0);
            self.measured = seconds_of(&seconds.into());
        } else if let Some(unsent) = caveat.strip_prefix(UNSENT) {
            self.unsent = unsent.parse().unwrap_or(0);
        } else if let Some(errors) = caveat.strip_prefix(ERRORS) {
            self.errors = errors.parse().unwrap_or(0);
        } else if let Some(fault) = caveat.strip_prefix(FAULT) {
            self.faults.push(fault.to_owned());
        }
        self.is_interrupted |= caveat == INTERRUPTED;
    }

    /// Writes them as comment lines.
    pub(crate) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{BEGIN}{MEASURED}{:.6} s]", self.measured.as_secs_f64())?;
        if self.is_interrupted {
            writeln!(out, "{BEGIN}{INTERRUPTED}]")?;
        }
        if self.unsent > 0 {
            writeln!(out, "{BEGIN}{UNSENT}{}]", self.unsent)?;
        }
        if self.errors > 0 {
            writeln!(out, "{BEGIN}{ERRORS}{}]", self.errors)?;
        }
        // A fault of a merged file is as anyone wrote it; a comment is one line.
        self.faults.iter().try_for_each(|fault| writeln!(out, "{BEGIN}{FAULT}{}]", fault.replace(['\n', '\r'], " ")))
    }
}

/// What requests that were due and never sent say of their run.
pub fn unsent_text(requests: u64) -> String {
    format!(
        "the target did not keep up with the rate: {requests} requests were due and never sent, \
         so latencies are lower than the schedule's would be"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caveats_are_read_as_they_were_written_and_a_log_without_them_has_none() {
        let caveats = Caveats {
            measured: Duration::from_micros(3_000_184),
            is_interrupted: true,
            unsent: 120,
            errors: 7,
            faults: vec!["busy: 97 %, [all of it]".to_owned(), "late".to_owned()],
        };
        let mut log = b"#[StartTime: 1795295254.751 (seconds since epoch)]\nTag=A,0.000,1.000,3.910,HIST\n".to_vec();
        assert_eq!(Caveats::read(&log), None);
        caveats.write(&mut log).expect("written");
        assert_eq!(Caveats::read(&log), Some(caveats));
        let nothing = Caveats { measured: Duration::from_secs(1), ..Caveats::default() };
        let mut log = Vec::new();
        nothing.write(&mut log).expect("written");
        assert_eq!(Caveats::read(&log), Some(nothing));
    }

    #[test]
    fn a_fault_of_two_lines_is_one_comment() {
        let mut log = Vec::new();
        let caveats = Caveats { faults: vec!["one\ntwo".to_owned()], ..Caveats::default() };
        caveats.write(&mut log).expect("written");
        assert_eq!(Caveats::read(&log).expect("noted").faults, ["one two"]);
    }
}
