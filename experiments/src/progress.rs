//! How far a run is: a bar with the time left on a terminal, plain lines anywhere else.

use std::env;
use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Progress over a known number of trials.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
    total: usize,
    done_before: usize,
    done: usize,
    began: Instant,
}

impl Progress {
    /// Begins with `done` of `total` trials done already.
    pub fn new(total: usize, done: usize) -> Self {
        let quiet = !stderr().is_terminal() || env::var("CI").is_ok_and(|value| value == "true");
        let bar = (!quiet).then(|| bar(total, done));
        Self { bar, total, done_before: done, done, began: Instant::now() }
    }

    /// A trial begins.
    pub fn begin(&self, label: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(label.to_owned());
        }
    }

    /// A trial ended; `line` says how.
    pub fn end(&mut self, line: &str) {
        self.done += 1;
        match &self.bar {
            Some(bar) => {
                bar.println(line);
                bar.inc(1);
            }
            None => {
                eprintln!("[{}/{}] {line}; {} left", self.done, self.total, humantime::format_duration(self.left()))
            }
        }
    }

    /// Clears the bar.
    pub fn close(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// The time left, at the pace so far, in whole seconds.
    fn left(&self) -> Duration {
        let measured = (self.done - self.done_before).max(1);
        let seconds = self.began.elapsed().as_secs_f64() / measured as f64 * (self.total - self.done) as f64;
        Duration::from_secs(seconds.round() as u64)
    }
}

fn bar(total: usize, done: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} · {eta} left · {msg}");
    let bar = ProgressBar::new(total as u64).with_position(done as u64);
    bar.set_style(style.expect("the template is well-formed"));
    bar.reset_eta();
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}
