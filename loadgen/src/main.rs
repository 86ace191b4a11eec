//! The `loadgen` binary: flags in, a run or a comparison, reports out.

mod session;

use std::env;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use loadgen::base::{complain, interrupt};
use loadgen::cli::{Cli, Command, foreign};
use loadgen::config::{Config, Ramp};
use loadgen::record::{Outcome, RampOutcome, Verified};
use loadgen::report::PartialFile;
use loadgen::report::hdr::HdrPaths;
use loadgen::workload::file::WorkloadFile;
use loadgen::{Error, compare, merge, report, run_ramp};
use serde_json::Value as Json;
use session::Session;

/// With fewer hits than this, a run measures something other than it seems to.
const HIT_RATIO_MIN: f64 = 0.9;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error, &arguments),
    };
    let result = match cli.command {
        Some(Command::Compare(flags)) => compare::run(&flags, &mut io::stdout().lock()),
        Some(Command::Merge(flags)) => merge::run(&flags, &mut io::stdout().lock()),
        Some(Command::Workloads) => list_workloads(),
        None => Config::from_flags(cli.run).and_then(|config| measure(&config)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error @ Error::Interrupted) => {
            complain(error);
            ExitCode::from(interrupt::EXIT_CODE)
        }
        Err(error) => {
            complain(error);
            ExitCode::FAILURE
        }
    }
}

/// Help and version are answers; anything else is an error, and exits like all errors.
fn usage(error: &clap::Error, arguments: &[String]) -> ExitCode {
    if let Some(answer) = foreign::answer(arguments) {
        complain(answer);
        return ExitCode::FAILURE;
    }
    // If that fails, nothing can be reported.
    let is_printed = error.print().and_then(|()| io::stdout().flush()).is_ok();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion if is_printed => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn list_workloads() -> Result<(), Error> {
    let mut out = io::stdout().lock();
    let shipped = WorkloadFile::shipped();
    printed(shipped.iter().try_for_each(|workload| writeln!(out, "{:14} {}", workload.name, workload.about)))
}

fn measure(config: &Config) -> Result<(), Error> {
    interrupt::listen()?;
    config.hdr_file_prefix.as_deref().map_or(Ok(()), HdrPaths::make_folder)?;
    let prefixed = config.hdr_file_prefix.as_deref().map(|prefix| HdrPaths::from_prefix(prefix).json);
    let json_path = config.json_out_file.clone().or(prefixed);
    // Created first, so that a bad path fails before the run and not after it.
    let json_file = json_path.as_deref().map(PartialFile::create).transpose()?;
    // Made only if it is written: it takes a considerable part of a short run.
    let write = |json: &dyn Fn() -> Json| match (json_file, json_path) {
        (Some(mut file), Some(path)) => {
            writeln!(file, "{:#}", json()).map_err(|source| Error::File { path, source })?;
            file.complete()
        }
        _ => Ok(()),
    };
    match &config.ramp {
        Some(ramp) => {
            let outcome = climb(config, ramp)?;
            write(&|| report::ramp_to_json(config, &outcome))?;
            check_whole(outcome.is_interrupted)
        }
        None => {
            let outcome = run_once(config)?;
            write(&|| report::to_json(config, &outcome))?;
            check_verified(&outcome)?;
            check_whole(outcome.is_interrupted)
        }
    }
}

/// A run at one rate, or at full speed.
fn run_once(config: &Config) -> Result<Outcome, Error> {
    let outcome = observed(config)?;
    if !config.quiet {
        printed(print(config, &outcome))?;
    }
    warn(&outcome, config.prefill);
    Ok(outcome)
}

/// A run that Ctrl-C ended is a failure, after everything is written.
fn check_whole(is_interrupted: bool) -> Result<(), Error> {
    if is_interrupted { Err(Error::Interrupted) } else { Ok(()) }
}

/// Replies that contradict the model are a failure, after everything is written.
fn check_verified(outcome: &Outcome) -> Result<(), Error> {
    match &outcome.verified {
        Some(Verified { replies, mismatches, first }) if *mismatches > 0 => {
            let first = first.as_deref().unwrap_or_default();
            Err(Error::Mismatch(format!(
                "{mismatches} of {replies} replies are not what the model has, the first: {first}"
            )))
        }
        _ => Ok(()),
    }
}

fn observed(config: &Config) -> Result<Outcome, Error> {
    let mut session = Session::begin(config)?;
    let outcome = loadgen::run(config, &mut session)?;
    session.end(&outcome)?;
    Ok(outcome)
}

/// A run at each rate of a ramp.
fn climb(config: &Config, ramp: &Ramp) -> Result<RampOutcome, Error> {
    let prefix = config.hdr_file_prefix.as_deref();
    let outcome = run_ramp(config, ramp, |number, step| {
        let rate = step.rate.unwrap_or_default();
        let own_prefix = prefix.map(|prefix| HdrPaths::step_prefix(prefix, number, rate));
        observed(&Config { hdr_file_prefix: own_prefix, ..step.clone() })
    })?;
    if !config.quiet {
        printed(report::print_ramp(&mut io::stdout().lock(), config, &outcome))?;
    }
    if let Some(path) = prefix.map(|prefix| HdrPaths::from_prefix(prefix).steps_csv) {
        let mut file = PartialFile::create(&path)?;
        report::write_ramp_csv(&mut file, &outcome).map_err(|source| Error::File { path, source })?;
        file.complete()?;
    }
    warn_of_steps(&outcome, config.prefill);
    Ok(outcome)
}

/// Whoever reads no more than the first lines wants the files nevertheless.
fn printed(result: io::Result<()>) -> Result<(), Error> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|source| Error::File { path: "stdout".into(), source }),
    }
}

fn print(config: &Config, outcome: &Outcome) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if config.brief {
        return report::print_brief(&mut out, outcome);
    }
    report::print_summary(&mut out, config, outcome)?;
    if !config.hide_histogram {
        report::print_distribution(&mut out, outcome.totals().latency())?;
    }
    Ok(())
}

/// Warns about whatever makes a result mean less than it seems to.
fn warn(outcome: &Outcome, prefilled: bool) {
    if outcome.is_interrupted {
        complain(format_args!(
            "warning: interrupted after {:.1} s: this is what was measured until then",
            outcome.duration.as_secs_f64()
        ));
    }
    if let Some(ratio) = outcome.totals().hit_ratio() {
        warn_of_misses(ratio, "", prefilled);
    }
    let errors: u64 = outcome.commands.iter().map(|command| command.errors).sum();
    if errors > 0 {
        let text = outcome.error_text.as_deref().unwrap_or("before the measured window");
        complain(format_args!("warning: {errors} error replies, the first: {text}"));
    }
    for fault in outcome.faults() {
        complain(format_args!("warning: the run is INVALID: {fault}"));
    }
    for remark in outcome.health.remarks() {
        complain(format_args!("warning: {remark}"));
    }
    if outcome.unsent > 0 {
        complain(format_args!("warning: {}", report::unsent_text(outcome.unsent)));
    }
}

/// Warns if the step with the fewest hits has too few; the SETs of each step make hits of the later ones. What else a
/// step lacks is in the table.
fn warn_of_steps(outcome: &RampOutcome, prefilled: bool) {
    let ratios = outcome.steps.iter().filter_map(|step| Some((step.outcome.totals().hit_ratio()?, step.rate)));
    if let Some((ratio, rate)) = ratios.min_by(|one, other| one.0.total_cmp(&other.0)) {
        warn_of_misses(ratio, &format!(" at {rate} ops/s"), prefilled);
    }
}

fn warn_of_misses(ratio: f64, place: &str, prefilled: bool) {
    if ratio >= HIT_RATIO_MIN {
        return;
    }
    let hint = if prefilled { "" } else { "; --prefill sets every key first" };
    complain(format_args!(
        "warning: {:.1} % of the keys that were read{place} had a value: this measures misses{hint}",
        ratio * 100.0
    ));
}
