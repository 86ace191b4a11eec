//! The progress of a run: a bar with the time left on a terminal, plain lines otherwise.

use std::env;
use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::output::tell;

/// Progress over a known number of trials.
///
/// Trials of different sweeps take different times, so the time left is what was planned for the remaining ones, scaled
/// by how well the plan has held so far.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
    total: usize,
    done: usize,
    planned_done: Duration,
    planned_left: Duration,
    began: Instant,
}

impl Progress {
    /// Begins with `done` of `total` trials done already, and `planned` for the others.
    pub fn new(total: usize, done: usize, planned: Duration) -> Self {
        let quiet = !stderr().is_terminal() || env::var("CI").is_ok_and(|value| value == "true");
        let bar = (!quiet).then(|| bar(total, done));
        let began = Instant::now();
        let progress = Self { bar, total, done, planned_done: Duration::ZERO, planned_left: planned, began };
        tell(format_args!("{} trials to go, about {}", total - done, progress.left_text()));
        progress
    }

    /// A trial begins.
    pub fn begin(&self, label: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{} left · {label}", self.left_text()));
        }
    }

    /// A trial ended for which `planned` was planned; `line` says how.
    pub fn end(&mut self, line: &str, planned: Duration) {
        self.done += 1;
        self.planned_done += planned;
        self.planned_left = self.planned_left.saturating_sub(planned);
        match &self.bar {
            Some(bar) => {
                bar.println(line);
                bar.inc(1);
            }
            None => {
                tell(format_args!("[{}/{}] {line}; {} left", self.done, self.total, self.left_text()));
            }
        }
    }

    /// Clears the bar.
    pub fn close(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn left_text(&self) -> String {
        humantime::format_duration(self.left()).to_string()
    }

    /// The time left, in whole seconds.
    fn left(&self) -> Duration {
        let planned = self.planned_done.as_secs_f64();
        let pace = if planned > 0.0 { self.began.elapsed().as_secs_f64() / planned } else { 1.0 };
        Duration::from_secs((self.planned_left.as_secs_f64() * pace).round() as u64)
    }
}

fn bar(total: usize, done: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} · {msg}");
    let bar = ProgressBar::new(total as u64).with_position(done as u64);
    bar.set_style(style.expect("the template is well-formed"));
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}
