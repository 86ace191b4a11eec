//! The configuration: one table of directives that drives the flags, the config file, CONFIG GET and SET.
//!
//! A value is checked when it is given; afterwards it is a number (or a text), whose meaning is in its type.

mod command_line;
mod directive_rows;
mod directives;
mod ephemeral;
mod intake;
mod layout;
pub mod logging;
mod on_signal;
mod output_limits;
pub(crate) mod rewritten_file;

pub use directive_rows::{DIRECTIVES, Directive, QUERY_BYTES_MAX};
pub use directives::{DirectiveRow, Effect, Kind, index_of, parameter, parameters};
pub use ephemeral::TemporaryDir;
pub use layout::{
    boot_id, clients_that_fit, fit_maxclients, is_pinned, layout, log_dir, or_default, snapshot_path, threads,
};
pub use on_signal::OnSignal;
pub use output_limits::{OutputLimit, OutputLimits};

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use command_line::CommandLine;
use intake::Intake;
use parking_lot::{Mutex, MutexGuard, RwLock};

use crate::base::narrowing::{low_u32, size};
use crate::keyspace::{Class, Eviction, Limit, Policy, Settings};
use crate::resp::{parse_i64, parse_memory, parse_u64};
use crate::snapshot::SavePoints;

/// The directives that are limits of small collections.
const LIMITS: [(Directive, Limit); 8] = [
    (Directive::ListMaxListpackSize, Limit::ListNode),
    (Directive::SetMaxIntsetEntries, Limit::SetIntegers),
    (Directive::SetMaxListpackEntries, Limit::SetEntries),
    (Directive::SetMaxListpackValue, Limit::SetValue),
    (Directive::HashMaxListpackEntries, Limit::HashEntries),
    (Directive::HashMaxListpackValue, Limit::HashValue),
    (Directive::ZsetMaxListpackEntries, Limit::SortedSetEntries),
    (Directive::ZsetMaxListpackValue, Limit::SortedSetValue),
];

/// The values of all directives.
#[derive(Debug)]
pub struct Config {
    /// Numbers, bytes, and positions in a choice.
    numbers: Vec<AtomicU64>,
    /// Texts as given.
    texts: RwLock<Vec<String>>,
    /// The users of the file: a name, and rules.
    users: Mutex<Vec<Vec<String>>>,
    /// Commands, and their other names.
    renamings: Mutex<Vec<[String; 2]>>,
    /// Held by a client that changes several things one after another, or writes the file.
    changing: Mutex<()>,
    /// The file that it was read from.
    file: Option<PathBuf>,
    /// What it was read from on the standard input, if it was.
    stdin: Option<Vec<u8>>,
    /// Warnings for the operator: a line for each given directive without effect.
    warnings: Vec<String>,
    /// The directory that is removed with the server, if there is one.
    dir: Option<TemporaryDir>,
}

impl Config {
    /// Keeps other clients from changing it, or writing the file.
    pub fn begin_change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock()
    }

    /// Reads the command line, and the config file it names. The error is the text to print; the server exits with 1.
    pub fn from_command_line(arguments: impl IntoIterator<Item = std::ffi::OsString>) -> Result<Self, CommandLineEnd> {
        let CommandLine { file, reads_stdin, options } = CommandLine::parse(arguments)?;
        let stdin = reads_stdin.then(whole_stdin).transpose().map_err(CommandLineEnd::Refused)?;
        let mut config = Self { file: file.as_ref().map(PathBuf::from), ..Self::default() };
        let mut intake = Intake::of(&config);
        let read = || -> Result<Vec<String>, String> {
            file.iter().try_for_each(|path| intake.read_file(path))?;
            stdin.iter().try_for_each(|text| intake.read_stdin(text))?;
            options.iter().try_for_each(|(name, words)| intake.take_flag(name, words))?;
            intake.end()
        };
        config.warnings = read().map_err(CommandLineEnd::Refused)?;
        config.stdin = stdin;
        Ok(config)
    }

    /// What it was read from on the standard input, if it was.
    pub fn stdin(&self) -> Option<&[u8]> {
        self.stdin.as_deref()
    }

    /// Warnings about it for the operator.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// When automatic snapshots are made.
    pub fn save_points(&self) -> SavePoints {
        SavePoints::parse(&self.text(Directive::Save)).expect("a value is checked when it is given")
    }

    /// A number, a number of bytes, or the position of a word in its choice.
    pub fn number(&self, directive: Directive) -> u64 {
        self.numbers[directive as usize].load(Ordering::Relaxed)
    }

    /// A number of things, or of bytes.
    pub fn size(&self, directive: Directive) -> usize {
        size(self.number(directive))
    }

    /// The position of a word in its choice.
    pub fn choice(&self, directive: Directive) -> u8 {
        u8::try_from(self.number(directive)).expect("a choice has few words")
    }

    /// A number whose row says that 32 bits hold it.
    pub fn narrow(&self, directive: Directive) -> u32 {
        u32::try_from(self.number(directive)).expect("the row of the directive bounds it")
    }

    /// A number that may be negative.
    pub fn signed(&self, directive: Directive) -> i64 {
        self.number(directive) as i64
    }

    /// Whether a yes/no directive says yes.
    pub fn is_on(&self, directive: Directive) -> bool {
        self.number(directive) == 1
    }

    /// The file that it was read from.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// The value as text.
    pub fn text(&self, directive: Directive) -> String {
        self.texts.read()[directive as usize].clone()
    }

    /// The file that a text names: one without a directory is in `dir`, because Redis changes to it. Empty for none.
    pub fn path(&self, directive: Directive) -> String {
        match self.text(directive) {
            name if name.is_empty() => name,
            name => Path::new(&self.text(Directive::Dir)).join(name).to_string_lossy().into_owned(),
        }
    }

    /// The users that it names: a name, and rules.
    pub fn users(&self) -> Vec<Vec<String>> {
        self.users.lock().clone()
    }

    /// The commands that have other names, each with that.
    pub fn renamings(&self) -> Vec<[String; 2]> {
        self.renamings.lock().clone()
    }

    /// The limits on output that connections do not read.
    pub fn output_limits(&self) -> OutputLimits {
        let text = self.text(Directive::ClientOutputBufferLimit);
        OutputLimits::DEFAULT.changed(&text).expect("a value is checked when it is given")
    }

    /// The scores of the process for the kernel; none if it keeps its own.
    pub fn oom_scores(&self) -> Option<OomScores> {
        let mode = self.text(Directive::OomScoreAdj);
        let [master, replica, _] =
            scores(&self.text(Directive::OomScoreAdjValues)).expect("a value is checked when it is given");
        (mode != "no").then_some(OomScores { are_relative: mode != "absolute", master, replica })
    }

    /// How a signal ends the server: the value of one of the two directives that say so.
    pub fn on_signal(&self, directive: Directive) -> OnSignal {
        OnSignal::parse(&self.text(directive)).expect("a value is checked when it is given")
    }

    /// Bytes that connections may take together; none for any number. As in Redis the least is 128 KB: with less nobody
    /// could give the server another configuration.
    pub fn client_bytes_max(&self) -> Option<u64> {
        const LEAST: u64 = 128 * 1024;
        let text = self.text(Directive::MaxmemoryClients);
        let most = match text.strip_suffix('%').and_then(|percent| parse_u64(percent.as_bytes())) {
            Some(percent) => u128::from(self.number(Directive::Maxmemory)) * u128::from(percent) / 100,
            None => self.number(Directive::MaxmemoryClients).into(),
        };
        (most > 0).then(|| u64::try_from(most).expect("a part is no larger than the whole").max(LEAST))
    }

    /// The host and port of the master, if there is one.
    pub fn master(&self) -> Option<(String, u16)> {
        master(&self.text(Directive::Replicaof)).expect("a value is checked when it is given")
    }

    /// The percentiles that INFO latencystats shows.
    pub fn latency_percentiles(&self) -> Vec<f64> {
        percentiles(&self.text(Directive::LatencyTrackingInfoPercentiles)).expect("a value is checked when it is given")
    }

    /// Which events of keys are published.
    pub fn events(&self) -> Class {
        // Not from the text: `A` hides an `n`.
        Class::from_bits(self.narrow(Directive::NotifyKeyspaceEvents))
    }

    /// Applies the directives that commands use.
    pub fn apply_to(&self, settings: &Settings) {
        for (directive, limit) in LIMITS {
            settings.encodings.set(limit, self.number(directive) as i64);
        }
        for (limit, directive) in [
            (&settings.string_len_max, Directive::ProtoMaxBulkLen),
            (&settings.hll_sparse_len_max, Directive::HllSparseMaxBytes),
            (&settings.stream_node_bytes_max, Directive::StreamNodeMaxBytes),
            (&settings.stream_node_entries_max, Directive::StreamNodeMaxEntries),
        ] {
            limit.set(self.number(directive));
        }
        let later = &settings.freed_later;
        for (setting, directive) in [
            (&later.deleted, Directive::LazyfreeLazyUserDel),
            (&later.flushed, Directive::LazyfreeLazyUserFlush),
            (&later.replaced, Directive::LazyfreeLazyServerDel),
            (&later.expired, Directive::LazyfreeLazyExpire),
            (&later.synchronized, Directive::ReplicaLazyFlush),
        ] {
            setting.store(self.is_on(directive), Ordering::Relaxed);
        }
        let is_cluster = self.is_on(Directive::ClusterEnabled);
        settings.is_cluster.store(is_cluster, Ordering::Relaxed);
        let refuses_cross_slot = is_cluster && !self.is_on(Directive::ClusterAllowCrossSlot);
        settings.refuses_cross_slot.store(refuses_cross_slot, Ordering::Relaxed);
        self.apply_eviction(&settings.eviction);
    }

    fn apply_eviction(&self, eviction: &Eviction) {
        eviction.set_policy(Policy::from_number(self.number(Directive::MaxmemoryPolicy)));
        for (limit, directive) in [
            (&eviction.samples, Directive::MaxmemorySamples),
            (&eviction.lfu_log_factor, Directive::LfuLogFactor),
            (&eviction.lfu_decay_time, Directive::LfuDecayTime),
        ] {
            limit.store(self.narrow(directive), Ordering::Relaxed);
        }
    }

    /// The value of a directive as CONFIG GET replies it.
    pub fn get(&self, index: usize) -> String {
        match DIRECTIVES[index].kind {
            Kind::Memory(..) => self.numbers[index].load(Ordering::Relaxed).to_string(),
            Kind::MemoryOrPercent if !self.texts.read()[index].ends_with('%') => {
                self.numbers[index].load(Ordering::Relaxed).to_string()
            }
            Kind::Dir => absolute(&self.texts.read()[index]),
            _ => self.texts.read()[index].clone(),
        }
    }

    /// Whether a directive already has a value.
    pub fn has(&self, index: usize, value: &str) -> bool {
        match DIRECTIVES[index].kind {
            Kind::Memory(..) => parse_memory(value) == Some(self.numbers[index].load(Ordering::Relaxed)),
            Kind::MemoryOrPercent if !value.ends_with('%') => {
                parse_memory(value).map(|it| it.to_string()) == Some(self.get(index))
            }
            Kind::Dir => absolute(value) == self.get(index),
            _ => self.get(index).eq_ignore_ascii_case(value),
        }
    }

    /// What is wrong with a value of a directive, if anything is.
    pub fn check(index: usize, value: &str) -> Result<(), String> {
        check(&DIRECTIVES[index], value).map(drop)
    }

    /// Checks and sets several directives, all or none; the error has the place of the first refused one among them.
    pub fn set(&self, values: &[(usize, String)]) -> Result<(), (usize, String)> {
        for (place, (index, value)) in values.iter().enumerate() {
            check(&DIRECTIVES[*index], value).map_err(|reason| (place, reason))?;
        }
        for (index, value) in values {
            self.assign(&DIRECTIVES[*index], value).expect("the value was checked above");
        }
        Ok(())
    }

    /// The current values of directives, for [`restore`](Self::restore).
    pub fn values_of(&self, indices: impl Iterator<Item = usize>) -> Vec<(usize, u64, String)> {
        let texts = self.texts.read();
        indices.map(|index| (index, self.numbers[index].load(Ordering::Relaxed), texts[index].clone())).collect()
    }

    /// Restores earlier values.
    pub fn restore(&self, values: Vec<(usize, u64, String)>) {
        let mut texts = self.texts.write();
        for (index, number, text) in values {
            self.numbers[index].store(number, Ordering::Relaxed);
            texts[index] = text;
        }
    }

    fn assign(&self, row: &'static DirectiveRow, value: &str) -> Result<(), String> {
        let index = index_of(row.name).expect("the row is in the table");
        let number = check(row, value)?;
        self.numbers[index].store(number, Ordering::Relaxed);
        let mut texts = self.texts.write();
        texts[index] = match row.kind {
            Kind::Choice(words) => words[size(number)].to_owned(),
            Kind::Clamped(..) => number.to_string(),
            Kind::OutputLimit => OutputLimits::DEFAULT.changed(&texts[index])?.changed(value)?.to_string(),
            Kind::OnSignal => OnSignal::parse(value)?.to_string(),
            Kind::OomScores => scores(value)?.map(|score| score.to_string()).join(" "),
            Kind::Events => Class::from_bits(low_u32(number)).to_string(),
            Kind::SavePoints => SavePoints::parse(value)?.to_string(),
            Kind::Master => master(value)?.map_or_else(String::new, |(host, port)| format!("{host} {port}")),
            Kind::Percentiles => percentiles(value)?.iter().map(f64::to_string).collect::<Vec<_>>().join(" "),
            _ => value.to_owned(),
        };
        Ok(())
    }
}

impl Default for Config {
    fn default() -> Self {
        let number = |row: &DirectiveRow| AtomicU64::new(check(row, row.default).expect("a default is a valid value"));
        Self {
            numbers: DIRECTIVES.iter().map(number).collect(),
            texts: RwLock::new(DIRECTIVES.iter().map(|row| row.default.to_owned()).collect()),
            users: Mutex::default(),
            renamings: Mutex::default(),
            changing: Mutex::default(),
            file: None,
            stdin: None,
            warnings: Vec::new(),
            dir: None,
        }
    }
}

/// How readily the kernel ends the process when memory is short, by what the server is: see `state::oom_score`.
#[derive(Debug, Clone, Copy)]
pub struct OomScores {
    /// Whether they are added to the score that the process had before.
    pub are_relative: bool,
    /// That of a master.
    pub master: i64,
    /// That of a replica.
    pub replica: i64,
}

/// Why there is no configuration to run with.
#[derive(Debug)]
pub enum CommandLineEnd {
    /// The user asked for help or the version; the text.
    Asked(String),
    /// Something was wrong; what and why.
    Refused(String),
}

/// Of a master, a replica, and a child.
fn scores(text: &str) -> Result<[i64; 3], &'static str> {
    const NO_SCORE: &str = "Invalid oom-score-adj-values, elements must be between -2000 and 2000.";
    let words: Vec<&str> = text.split_whitespace().collect();
    let words = <[&str; 3]>::try_from(words).map_err(|_| "wrong number of arguments")?;
    let scores = words.map(|word| parse_i64(word.as_bytes()).filter(|score| (-2000..=2000).contains(score)));
    match scores {
        [Some(master), Some(replica), Some(child)] => Ok([master, replica, child]),
        _ => Err(NO_SCORE),
    }
}

fn whole_stdin() -> Result<Vec<u8>, String> {
    let mut text = Vec::new();
    io::stdin().read_to_end(&mut text).map_err(|error| format!("can't read the standard input: {error}"))?;
    Ok(text)
}

fn absolute(path: &str) -> String {
    // It fails only for an empty path.
    std::path::absolute(path).map_or_else(|_| path.to_owned(), |path| path.to_string_lossy().into_owned())
}

/// The number for a value, or why there is none.
fn check(row: &DirectiveRow, value: &str) -> Result<u64, String> {
    let in_range = |number: Option<i128>, least: u64, most: u64| match number {
        Some(number) if (i128::from(least)..=i128::from(most)).contains(&number) => {
            Ok(u64::try_from(number).expect("the range begins at 0 or above"))
        }
        Some(_) => Err(format!("argument must be between {least} and {most} inclusive")),
        None => Err("argument couldn't be parsed into an integer".into()),
    };
    match row.kind {
        Kind::Integer(least, most) => in_range(parse_i64(value.as_bytes()).map(i128::from), least, most),
        Kind::Clamped(least, most) => in_range(parse_i64(value.as_bytes()).map(i128::from), 0, i32::MAX as u64)
            .map(|number| number.clamp(least, most)),
        Kind::Signed(least, most) => match parse_i64(value.as_bytes()) {
            // The number keeps its bits; its readers know that it has a sign.
            Some(number) if (least..=most).contains(&number) => Ok(number as u64),
            Some(_) => Err(format!("argument must be between {least} and {most} inclusive")),
            None => Err("argument couldn't be parsed into an integer".into()),
        },
        Kind::Memory(least, most) => match parse_memory(value) {
            Some(bytes) => in_range(Some(bytes.into()), least, most),
            None => Err("argument must be a memory value".into()),
        },
        Kind::MemoryOrPercent => match value.strip_suffix('%').map(|percent| parse_u64(percent.as_bytes())) {
            Some(Some(0..=100)) => Ok(0),
            Some(Some(_)) => Err("percentage argument must be less or equal to 100".into()),
            Some(None) => Err("argument must be a memory or percent value".into()),
            None => parse_memory(value).ok_or_else(|| "argument must be a memory or percent value".into()),
        },
        Kind::Choice(words) => {
            let position = words.iter().position(|word| word.eq_ignore_ascii_case(value));
            position.map(|position| position as u64).ok_or_else(|| match words {
                ["no", "yes"] => "argument must be 'yes' or 'no'".into(),
                _ => format!("argument(s) must be one of the following: {}", words.join(", ")),
            })
        }
        Kind::Octal(most) => match u64::from_str_radix(value, 8) {
            Ok(number) if number <= most => Ok(number),
            Ok(_) => Err(format!("argument must be between 0 and {most:o} inclusive")),
            Err(_) => Err("argument couldn't be parsed as an octal number".into()),
        },
        Kind::FileName if value.contains(['/', '\\']) => Err(format!("{} can't be a path, just a filename", row.name)),
        Kind::DirName if value.is_empty() => Err(format!("{} can't be empty", row.name)),
        Kind::DirName if value.contains(['/', '\\']) => Err(format!("{} can't be a path, just a dirname", row.name)),
        Kind::Text
        | Kind::Words
        | Kind::FileName
        | Kind::DirName
        | Kind::Dir
        | Kind::Include
        | Kind::Line
        | Kind::User
        | Kind::Renaming => Ok(0),
        Kind::OutputLimit => OutputLimits::DEFAULT.changed(value).map(|_| 0).map_err(str::to_owned),
        Kind::OnSignal => OnSignal::parse(value).map(|_| 0),
        Kind::OomScores => scores(value).map(|_| 0).map_err(str::to_owned),
        Kind::Percentiles => percentiles(value).map(|_| 0).map_err(str::to_owned),
        Kind::Master => master(value).map(|_| 0).map_err(str::to_owned),
        Kind::SavePoints => SavePoints::parse(value).map(|points| points.iter().count() as u64).map_err(str::to_owned),
        Kind::Events => {
            Class::parse(value).map(|classes| u64::from(classes.bits())).ok_or_else(|| UNKNOWN_EVENTS.into())
        }
    }
}

/// HOST PORT, or none.
fn master(text: &str) -> Result<Option<(String, u16)>, &'static str> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.as_slice() {
        [] => Ok(None),
        [no, one] if no.eq_ignore_ascii_case("no") && one.eq_ignore_ascii_case("one") => Ok(None),
        [host, port] => match port.parse() {
            Ok(port) => Ok(Some(((*host).to_owned(), port))),
            Err(_) => Err("Invalid master port"),
        },
        _ => Err("wrong number of arguments"),
    }
}

const UNKNOWN_EVENTS: &str = "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.";

fn percentiles(text: &str) -> Result<Vec<f64>, &'static str> {
    let numbers = text
        .split_whitespace()
        .map(|word| word.parse::<f64>().map_err(|_| "Invalid latency-tracking-info-percentiles parameters"));
    numbers
        .map(|number| {
            number.and_then(|number| match (0.0..=100.0).contains(&number) {
                true => Ok(number),
                false => Err("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]"),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::save_points;

    fn parse(arguments: &[&str]) -> Result<Config, String> {
        let arguments = ["shardrace"].iter().chain(arguments).map(Into::into);
        Config::from_command_line(arguments).map_err(|end| match end {
            CommandLineEnd::Asked(text) | CommandLineEnd::Refused(text) => text,
        })
    }

    #[test]
    fn memory_units_are_those_of_redis_conf() {
        for (text, bytes) in
            [("", 0), ("1", 1), ("1k", 1000), ("1KB", 1024), ("2mb", 2 << 20), ("1gb", 1 << 30), ("3g", 3_000_000_000)]
        {
            assert_eq!(parse_memory(text), Some(bytes));
        }
        for text in ["x", "1kbb", "-1", "1.5mb", "99999999999999999999", "99999999999gb"] {
            assert_eq!(parse_memory(text), None, "{text}");
        }
    }

    #[test]
    fn hz_outside_its_bounds_becomes_the_nearer_of_them() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        for (value, hz) in [("0", 1), ("1", 1), ("500", 500), ("501", 500)] {
            std::fs::write(file.path(), format!("hz {value}\n")).expect("written");
            let config = parse(&[file.path().to_str().expect("a text path")]).expect("valid");
            assert_eq!(config.number(Directive::Hz), hz);
            assert_eq!(config.text(Directive::Hz), hz.to_string());
        }
        assert!(parse(&["--hz", "-1"]).is_err());
    }

    #[test]
    fn output_limits_change_for_the_classes_that_are_named() {
        let config = Config::default();
        assert_eq!(config.output_limits(), OutputLimits::DEFAULT);
        let index = Directive::ClientOutputBufferLimit as usize;
        config.set(&[(index, "replica 1 2 3 pubsub 1mb 1k 9".to_owned())]).expect("valid");
        assert_eq!(config.get(index), "normal 0 0 0 slave 1 2 3 pubsub 1048576 1000 9");
        for (value, reason) in [
            (" ", "Wrong number"),
            ("pubsub 1 2", "Wrong number"),
            ("master 1 2 3", "Invalid client class"),
            ("pubsub 1 2 x", "Error in hard"),
            ("pubsub -1 2 3", "Error in hard"),
        ] {
            let (_, told) = config.set(&[(index, value.to_owned())]).expect_err("invalid");
            assert!(told.contains(reason), "{value}: {told}");
        }
    }

    #[test]
    fn a_bad_flag_is_refused_with_its_name_and_reason() {
        for (arguments, wanted) in [
            (["--port", "abc"], "--port abc: argument couldn't be parsed into an integer"),
            (["--port", "70000"], "--port 70000: argument must be between 0 and 65535 inclusive"),
            (["--engine", "magic"], "--engine magic: argument(s) must be one of the following: mutex, dashmap, actor"),
            (["--appendonly", "perhaps"], "--appendonly perhaps: argument must be 'yes' or 'no'"),
            (["--save", "60 1 5"], "--save 60 1 5: Invalid save parameters"),
            (["--nosuch", "1"], "--nosuch"),
        ] {
            let error = parse(&arguments).expect_err("the flag is bad");
            assert!(error.contains(wanted), "{error}");
        }
    }

    #[test]
    fn save_points_add_up_over_lines_and_flags_and_the_default_depends_on_the_log() {
        let saved = |arguments: &[&str]| parse(arguments).expect("valid").text(Directive::Save);
        assert_eq!(saved(&[]), "");
        assert_eq!(saved(&["--appendonly", "no"]), save_points::REDIS_DEFAULT);
        assert_eq!(saved(&["--appendonly", "no", "--save", ""]), "");
        assert_eq!(saved(&["--appendonly", "no", "--save", "\"\""]), "");
        assert_eq!(saved(&["--save", "60 1"]), "60 1");
        assert_eq!(saved(&["--save", "60 1", "--save", "300 100"]), "60 1 300 100");
        assert_eq!(saved(&["--save", "60 1", "--save", "", "--save", "5 6"]), "5 6");
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), "save 3600 1 300 100\nsave 60 10000\n").expect("written");
        let path = file.path().to_str().expect("a text path");
        assert_eq!(saved(&[path]), save_points::REDIS_DEFAULT);
        assert_eq!(saved(&[path, "--save", "7 8"]), "3600 1 300 100 60 10000 7 8");
        assert_eq!(saved(&[path, "--save", "", "--save", "7 8"]), "7 8");
        std::fs::write(file.path(), "save 3600 1\nsave \n").expect("written");
        assert_eq!(saved(&[path, "--appendonly", "no"]), "");
    }

    #[test]
    fn the_flag_after_the_file_may_lack_its_dashes() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let path = file.path().to_str().expect("a text path");
        let config = parse(&[path, "loglevel", "verbose", "--maxmemory '700mb'", "--port", "7001"]).expect("valid");
        assert_eq!(config.text(Directive::Loglevel), "verbose");
        assert_eq!(config.number(Directive::Maxmemory), 700 << 20);
        assert_eq!(config.number(Directive::Port), 7001);
        for (words, wanted) in [(&["nosuch", "1"][..], "nosuch"), (&["port"], "wrong number of arguments")] {
            let error = parse(&[&[path], words].concat()).expect_err("it is no flag");
            assert!(error.contains(wanted), "{error}");
        }
    }

    #[test]
    fn flags_override_the_config_file_and_a_bad_line_is_named() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), "# comment\nport 7000\nrequirepass \"a b\"\nENGINE mutex\n").expect("written");
        let path = file.path().to_str().expect("a text path");
        let config = parse(&[path, "--port", "7001"]).expect("valid");
        assert_eq!(config.number(Directive::Port), 7001);
        assert_eq!(config.text(Directive::Requirepass), "a b");
        assert_eq!(config.text(Directive::Engine), "mutex");
        for (line, wanted) in [("prot 1", "unknown directive 'prot'"), ("port", "wrong number"), ("port x", "couldn't")]
        {
            std::fs::write(file.path(), format!("\n{line}\n")).expect("written");
            let error = parse(&[path]).expect_err("the line is bad");
            assert!(error.contains("line 2") && error.contains(wanted), "{error}");
        }
    }
}
