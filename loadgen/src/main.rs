//! The `loadgen` binary: flags in, a run or a comparison, reports out.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::Parser;
use clap::error::ErrorKind;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use loadgen::cli::{Cli, Command};
use loadgen::config::{Config, Stop};
use loadgen::outcome::Outcome;
use loadgen::record::Interval;
use loadgen::report::hdr::HdrFiles;
use loadgen::{Error, Observer, compare, report};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let result = match cli.command {
        Some(Command::Compare(flags)) => compare::run(&flags, &mut io::stdout().lock()),
        None => Config::from_flags(cli.run).and_then(|config| measure(&config)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("loadgen: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Help and version are answers; anything else is an error, and exits as all errors do.
fn usage(error: &clap::Error) -> ExitCode {
    // Nowhere is left to say that stderr is gone.
    let _ = error.print();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn measure(config: &Config) -> Result<(), Error> {
    let json_file = config.json_out_file.as_deref().map(create).transpose()?;
    let mut session = Session::begin(config)?;
    let outcome = loadgen::run(config, &mut session)?;
    session.progress.finish_and_clear();
    if let Some(files) = session.hdr_files {
        files.finish(&outcome)?;
    }
    if let (Some(mut file), Some(path)) = (json_file, &config.json_out_file) {
        let text = format!("{:#}\n", report::to_json(config, &outcome));
        file.write_all(text.as_bytes()).map_err(|source| Error::File { path: path.clone(), source })?;
    }
    if !config.quiet {
        print(config, &outcome).map_err(|source| Error::File { path: "stdout".into(), source })?;
    }
    warn(&outcome);
    Ok(())
}

fn create(path: &Path) -> Result<File, Error> {
    File::create(path).map_err(|source| Error::File { path: path.to_owned(), source })
}

fn print(config: &Config, outcome: &Outcome) -> io::Result<()> {
    let mut out = io::stdout().lock();
    report::print_summary(&mut out, config, outcome)?;
    if !config.hide_histogram {
        report::print_distribution(&mut out, outcome.totals().latency())?;
    }
    Ok(())
}

/// What makes a result mean less than it seems to.
fn warn(outcome: &Outcome) {
    let errors = outcome.totals().errors;
    if errors > 0 {
        let text = outcome.error_text.as_deref().unwrap_or("before the measured window");
        eprintln!("loadgen: warning: {errors} error replies, the first: {text}");
    }
    if outcome.unsent > 0 {
        eprintln!(
            "loadgen: warning: the target did not keep up with the rate: {} requests were due and never sent, \
             so latencies are lower than the schedule's would be",
            outcome.unsent
        );
    }
}

/// What goes on beside a run: the histogram files and the progress bar.
struct Session {
    hdr_files: Option<HdrFiles>,
    progress: ProgressBar,
    stop: Stop,
    requests: u64,
    elapsed: Duration,
}

impl Session {
    fn begin(config: &Config) -> Result<Self, Error> {
        Ok(Self {
            hdr_files: config.hdr_file_prefix.as_deref().map(HdrFiles::create).transpose()?,
            progress: progress_bar(config.quiet),
            stop: config.stop,
            requests: 0,
            elapsed: Duration::ZERO,
        })
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
        self.progress.set_message(format!("{} ops/s", interval.requests()));
        self.hdr_files.as_mut().map_or(Ok(()), |files| files.interval(interval, began, length))
    }
}

/// Hidden by indicatif itself when stderr is no terminal.
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
