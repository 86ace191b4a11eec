//! What the binary does during a run: the histogram files and the live line.

use std::path::Path;
use std::time::{Duration, SystemTime};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use loadgen::config::{Config, Stop};
use loadgen::record::{Interval, Outcome, value_at_percentile};
use loadgen::report::hdr::HdrFiles;
use loadgen::{Error, Observer};

/// The histogram files and the progress bar of a run.
pub(crate) struct Session {
    hdr_files: Option<HdrFiles>,
    progress: ProgressBar,
    stop: Stop,
    requests: u64,
    elapsed: Duration,
}

impl Session {
    pub(crate) fn begin(config: &Config) -> Result<Self, Error> {
        let names = || config.commands().into_iter().map(|command| command.name).collect();
        let hdr_files = |prefix: &Path| HdrFiles::create(prefix, names());
        Ok(Self {
            hdr_files: config.hdr_file_prefix.as_deref().map(hdr_files).transpose()?,
            progress: progress_bar(config.quiet),
            stop: config.stop,
            requests: 0,
            elapsed: Duration::ZERO,
        })
    }
}

impl Session {
    /// The run is over: clears the live line, and completes the files.
    pub(crate) fn end(self, outcome: &Outcome) -> Result<(), Error> {
        self.progress.finish_and_clear();
        self.hdr_files.map_or(Ok(()), |files| files.finish(outcome))
    }
}

impl Observer for Session {
    fn prefilled(&mut self, done: u64, total: u64) {
        self.progress.set_length(total);
        self.progress.set_position(done);
        self.progress.set_message("prefill");
    }

    fn window_begins(&mut self, run: u32, at: SystemTime) -> Result<(), Error> {
        self.requests = 0;
        self.elapsed = Duration::ZERO;
        self.progress.set_message(format!("run {run}"));
        self.progress.set_position(0);
        self.progress.set_length(match self.stop {
            Stop::Requests(requests) => requests,
            Stop::Time(time) => time.as_secs().max(1),
        });
        self.hdr_files.as_mut().map_or(Ok(()), |files| files.window_begins(at))
    }

    fn interval(&mut self, interval: &Interval, began: Duration, length: Duration) -> Result<(), Error> {
        self.requests += interval.requests();
        self.elapsed = began + length;
        self.progress.set_position(match self.stop {
            Stop::Requests(_) => self.requests,
            Stop::Time(_) => self.elapsed.as_secs(),
        });
        if !self.progress.is_hidden() {
            self.progress.set_message(live(interval, length));
        }
        self.hdr_files.as_mut().map_or(Ok(()), |files| files.interval(interval, began, length))
    }
}

/// The last second, as text.
fn live(interval: &Interval, length: Duration) -> String {
    let total = interval.total();
    let ms = |percentile| value_at_percentile(total.latency(), percentile) as f64 / 1e6;
    let rate = total.requests as f64 / length.as_secs_f64().max(1e-9);
    let hits = total.hit_ratio().map_or(String::new(), |ratio| format!(", {:.1} % hits", ratio * 100.0));
    let errors = if total.errors > 0 { format!(", {} errors", total.errors) } else { String::new() };
    format!("{rate:.0} ops/s, p50 {:.3} ms, p99 {:.3} ms{hits}{errors}", ms(50.0), ms(99.0))
}

/// indicatif itself hides it if stderr is not a terminal.
fn progress_bar(quiet: bool) -> ProgressBar {
    let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
    let progress = if quiet || ci {
        ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden())
    } else {
        ProgressBar::no_length()
    };
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {elapsed_precise} (left {eta}) {msg}")
        .expect("the template is valid");
    progress.with_style(style)
}
