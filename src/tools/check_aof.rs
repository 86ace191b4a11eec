//! `shardrace check-aof`: explains a log, and repairs it.

use crate::aof::{Chain, DirLock, InspectedChain, InspectedSegment, Inspection, Plan, find_unfit, rehearse, time_text};
use crate::base::clock::Clock;
use crate::config::boot_id;
use crate::tools::output::{Output, complain};
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const NAME: &str = "shardrace check-aof";
/// How many keys are shown.
const KEYS_SHOWN: usize = 10;
/// How many parts of records that cannot be replayed are shown, if they are not repaired.
const UNFIT_SHOWN: usize = 10;
/// The default number of databases.
const DATABASES: usize = 16;

fn flags() -> Command {
    let flag = |name: &'static str, help: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    Command::new(NAME)
        .bin_name(NAME)
        .about("Explains a log that no server uses, and repairs it. Exits with 1 when something is wrong with it.")
        .arg(Arg::new("dir").value_name("DIR").required(true).help("The log's directory, or the --dir it is in"))
        .arg(flag(
            "fix",
            "Cut what a server would cut; and where a segment is damaged, everything since the last epoch before that",
        ))
        .arg(flag("salvage", "Keep every whole record, also after damage, but for what cannot be replayed"))
        .arg(
            Arg::new("truncate-to").long("truncate-to").value_name("TIME").help(
                "Cut at the last epoch that ended at this time or before: Unix seconds or milliseconds, or RFC 3339. Where the \
                 clock went back, an epoch is named after a later time",
            ),
        )
        .group(ArgGroup::new("repair").args(["fix", "salvage", "truncate-to"]))
}

/// Runs with these arguments, the name of the program first.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut out = Output::default();
    let code = match flags().try_get_matches_from(arguments) {
        Ok(matches) => run_with(&matches, &mut out),
        Err(error) if error.use_stderr() => {
            // Where the standard error is closed nobody can be told.
            let _ = error.print();
            ExitCode::FAILURE
        }
        Err(help) => {
            write!(out, "{help}");
            ExitCode::SUCCESS
        }
    };
    out.finish(NAME, code)
}

fn run_with(matches: &ArgMatches, out: &mut Output) -> ExitCode {
    let dir = Path::new(matches.get_one::<String>("dir").expect("it is required"));
    let repair = match matches.get_one::<String>("truncate-to").map(|text| parse_time(text)) {
        Some(None) => return refuse("--truncate-to: TIME is Unix seconds or milliseconds, or as 2026-01-31T12:00:00Z"),
        Some(Some(ms)) => Repair::Truncate(ms),
        None if matches.get_flag("fix") => Repair::Fix,
        None if matches.get_flag("salvage") => Repair::Salvage,
        None => Repair::None,
    };
    match check(dir, repair, out) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => refuse(&reason),
    }
}

fn refuse(reason: &str) -> ExitCode {
    complain(format_args!("{NAME}: {reason}"));
    ExitCode::FAILURE
}

#[derive(Debug, Clone, Copy)]
enum Repair {
    None,
    Fix,
    Salvage,
    Truncate(u64),
}

/// Explains the log, and repairs it if requested; returns whether a server would now start with all of it.
fn check(dir: &Path, repair: Repair, out: &mut Output) -> Result<bool, String> {
    let dir = log_dir(dir)?;
    let _lock = DirLock::take_existing(&dir)?;
    let log = Inspection::of(&dir, boot_id())?;
    explain(&log, out);
    let start = explain_start(&dir, &log.boot, out);
    let plan = match repair {
        Repair::None => return Ok(start == Start::Whole && log.is_whole()),
        Repair::Fix => Plan::fix(&log),
        Repair::Salvage => Plan::salvage(&log)?,
        Repair::Truncate(ms) => Plan::truncate(&log, ms)?,
    };
    let mut is_repaired = carry_out(&plan, &log, out)?;
    if matches!(repair, Repair::Salvage) {
        is_repaired |= leave_out_unfit(&dir, out)?;
    }
    if is_repaired {
        let log = Inspection::of(&dir, boot_id())?;
        return Ok(explain_start(&dir, &log.boot, out) == Start::Whole && log.is_whole());
    }
    match start {
        Start::Refused => {
            writeln!(out, "Nothing was done: no file is damaged. What --salvage can leave out is told above.")
        }
        Start::Whole | Start::Cut => writeln!(out, "There is nothing to do."),
    }
    Ok(start == Start::Whole && log.is_whole())
}

/// Carries a plan out, and prints what it does; returns whether it does anything.
fn carry_out(plan: &Plan, log: &Inspection, out: &mut Output) -> Result<bool, String> {
    if plan.is_empty() {
        return Ok(false);
    }
    plan.actions.iter().for_each(|action| writeln!(out, "The repair {action}"));
    explain_dropped(plan, out);
    let backup = plan.carry_out(log, &backup_name(&log.dir));
    let backup = backup.map_err(|error| format!("can't repair {}: {error}; the old log stands", log.dir.display()))?;
    writeln!(out, "Repaired. The log as it was is in {}", backup.display());
    Ok(true)
}

/// A name that does not exist in the directory yet.
fn backup_name(dir: &Path) -> String {
    let now_ms = Clock::System.now_ms();
    let names = (now_ms..).map(|ms| format!("before-repair-{ms}"));
    { names }.find(|name| !dir.join(name).exists()).expect("there are more names than files")
}

/// Leaves out parts of a whole log that cannot be replayed; returns whether there are any.
fn leave_out_unfit(dir: &Path, out: &mut Output) -> Result<bool, String> {
    let log = Inspection::of(dir, boot_id())?;
    let unfit = find_unfit(dir, &log.boot, Clock::System.now_ms())?;
    carry_out(&Plan::leave_out(&log, &unfit), &log, out)
}

/// The directory with the manifest: the given one, or one in it.
fn log_dir(dir: &Path) -> Result<PathBuf, String> {
    let candidates = [dir.to_owned(), dir.join("appendonlydir")];
    let found = candidates.into_iter().find(|dir| dir.join("shardrace.manifest").exists());
    found.ok_or_else(|| format!("{} holds no log: there is no shardrace.manifest in it", dir.display()))
}

fn explain(log: &Inspection, out: &mut Output) {
    writeln!(out, "Log in {}", log.dir.display());
    if log.manifest.boot != log.boot {
        writeln!(out, "The machine was started again since it was written: power may have been lost.");
    }
    for chain in &log.chains {
        let Chain { number, layout, .. } = &chain.named;
        writeln!(out, "Chain {number}: engine {}, {} segments", layout.engine, layout.shards);
        chain.segments.iter().for_each(|segment| explain_segment(chain, segment, out));
    }
}

fn explain_segment(chain: &InspectedChain, segment: &InspectedSegment, out: &mut Output) {
    let names = segment.paths.iter().map(|path| path.file_name().unwrap_or_default().to_string_lossy());
    // Positions count through all of them.
    let name = names.collect::<Vec<_>>().join(" + ");
    let len = segment.bytes.len();
    let scan = match &segment.scan {
        Ok(scan) => scan,
        Err(reason) => return writeln!(out, "  {name}: {len} bytes: DAMAGED: {reason}"),
    };
    let transactions = scan.transactions.len();
    let epochs = match &scan.epochs[..] {
        [] => "no epoch".to_owned(),
        [first, .., last] => {
            format!("{} epochs from {} to {}", scan.epochs.len(), time_text(first.0), time_text(last.0))
        }
        [only] => format!("1 epoch at {}", time_text(only.0)),
    };
    writeln!(out, "  {name}: {len} bytes, {} records ({transactions} of several shards), {epochs}", scan.records);
    if let Some((buffer, reason)) = &segment.damaged_buffer {
        writeln!(out, "    DAMAGED: {}: {reason}", buffer.display());
    }
    let broken = len - scan.end;
    if segment.is_cut_short() {
        writeln!(out, "    DAMAGED: it ends at byte {len}, and more of it has been on the disk");
    } else if broken > 0 && scan.is_damaged(chain.may_have_lost_power) {
        let after = segment.pieces(scan.end).filter(|(_, piece)| !matches!(piece, crate::aof::Piece::Gap(_))).count();
        writeln!(out, "    DAMAGED at byte {}: {after} whole records follow", scan.end);
    } else if broken > 0 {
        writeln!(out, "    TORN: the last {broken} bytes, from byte {} on, are no whole record", scan.end);
    }
}

/// The result of starting a server with a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// It starts with all of it.
    Whole,
    /// It starts, and cuts something.
    Cut,
    /// It does not start.
    Refused,
}

/// Prints what a server would make of the log.
fn explain_start(dir: &Path, boot: &str, out: &mut Output) -> Start {
    match rehearse(dir, boot, Clock::System.now_ms()) {
        Ok(rehearsal) => {
            let databases = match rehearsal.databases {
                ..=DATABASES => String::new(),
                more => format!(" that has {more} databases"),
            };
            writeln!(out, "A server{databases} starts with it: {} keys", rehearsal.keys);
            for (path, len) in &rehearsal.cuts {
                writeln!(out, "  and cuts {} at byte {len}", path.display());
            }
            if rehearsal.cuts.is_empty() { Start::Whole } else { Start::Cut }
        }
        Err(reason) => {
            writeln!(out, "A server refuses it: {reason}");
            explain_unfit(dir, boot, out);
            Start::Refused
        }
    }
}

/// Prints which parts of the log cannot be replayed, if that is known.
fn explain_unfit(dir: &Path, boot: &str, out: &mut Output) {
    let unfit = find_unfit(dir, boot, Clock::System.now_ms()).unwrap_or_default();
    for unfit in unfit.iter().take(UNFIT_SHOWN) {
        writeln!(out, "  UNFIT: record at byte {} of {}: {}", unfit.at, unfit.path.display(), unfit.unfit.reason);
    }
    if unfit.len() > UNFIT_SHOWN {
        writeln!(out, "  ... and {} more", unfit.len() - UNFIT_SHOWN);
    }
}

fn explain_dropped(plan: &Plan, out: &mut Output) {
    let dropped = &plan.dropped;
    let keys = if dropped.concerns_all { "all keys".into() } else { format!("{} keys", dropped.keys.len()) };
    writeln!(out, "Dropped: {} bytes, {} whole records, of {keys}", dropped.bytes, dropped.records);
    for key in dropped.keys.iter().take(KEYS_SHOWN) {
        writeln!(out, "  {}", key.escape_ascii());
    }
    if dropped.keys.len() > KEYS_SHOWN {
        writeln!(out, "  ...");
    }
}

/// A time in Unix milliseconds.
fn parse_time(text: &str) -> Option<u64> {
    /// Seconds stay below this number for the next thousands of years, and milliseconds are above it.
    const MS_FROM: u64 = 100_000_000_000;
    if let Ok(number) = text.parse::<u64>() {
        return if number < MS_FROM { number.checked_mul(1000) } else { Some(number) };
    }
    let time = time::OffsetDateTime::parse(text, &time::format_description::well_known::Rfc3339).ok()?;
    u64::try_from(time.unix_timestamp_nanos() / 1_000_000).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_milliseconds_or_rfc_3339() {
        assert_eq!(parse_time("1700000000"), Some(1_700_000_000_000));
        assert_eq!(parse_time("1700000000123"), Some(1_700_000_000_123));
        assert_eq!(parse_time("2023-11-14T22:13:20Z"), Some(1_700_000_000_000));
        assert_eq!(parse_time("2023-11-14T23:13:20.5+01:00"), Some(1_700_000_000_500));
        for text in ["", "yesterday", "-1", "2023-11-14", "1969-01-01T00:00:00Z"] {
            assert_eq!(parse_time(text), None, "{text}");
        }
    }
}
