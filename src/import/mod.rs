//! `shardrace import PATH --dir DIR`: brings the data of a Redis into a new log of ours.
//!
//! PATH is a snapshot (`dump.rdb`), a log (`appendonly.aof`), or a directory with a log in several files
//! (`appendonlydir`). Its keys are read into memory first, as the server itself would hold them; the file is mapped, so that
//! it takes no memory beside them that the system could not have back. Then each key goes to the log, as it does where
//! one is rewritten, in the layout that the other flags (`--engine`, `--shards`) ask for. A server that is started
//! with the same flags has every key. Until all of it is on the disk no server starts with it; an import that fails
//! removes what it has written, and one that was killed leaves that to the next.

mod redis_log;

use crate::aof::{
    DirLock, FsyncPolicy, Input, KeyPayloads, Log, LogControl, Manifest, Recovered, Rewriter, SystemDisk, begin_import,
    remove_import,
};
use crate::bus_error;
use crate::clock::Clock;
use crate::config::{CommandLineEnd, Config, Directive};
use crate::engine::Logs;
use crate::keyspace::{Databases, Keyspace, Node, Store};
use crate::parallel::cores;
use crate::rdb::{self, FileKey, FileSummary};
use crate::routing::shard_of;
use crate::server;
use redis_log::RedisLog;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of the log that are written at once.
const CHUNK: u64 = 1024 * 1024;

/// Runs the command line; gives what is to be told to the operator.
pub fn run(arguments: impl Iterator<Item = OsString>) -> Result<String, String> {
    const USAGE: &str = "usage: shardrace import PATH --dir DIR [--engine ENGINE] [--shards N] [--databases N]";
    let mut arguments = arguments;
    let binary = arguments.next().unwrap_or_default();
    let path = arguments.nth(1).map(PathBuf::from).filter(|path| !path.to_string_lossy().starts_with('-'));
    let path = path.ok_or(USAGE)?;
    let flags = std::iter::once(binary).chain(arguments);
    let config = Config::from_command_line(flags).map_err(|end| match end {
        CommandLineEnd::Asked(text) | CommandLineEnd::Refused(text) => text,
    })?;
    config.apply_limits();
    server::apply_limits(&config);
    bus_error::begin().map_err(|error| format!("can't handle signals: {error}"))?;
    let dir = server::log_dir(&config);
    let is_unfinished = Manifest::is_of_unfinished_import(&SystemDisk, &dir)?;
    if !is_unfinished && !Manifest::read(&SystemDisk, &dir)?.chains().is_empty() {
        return Err(format!("{} holds a log already; import makes a new one", dir.display()));
    }
    let mut import = Import::new(config.size(Directive::Databases));
    import.read(&path)?;
    import.write_log(&config, &dir)
}

/// What was read so far.
struct Import {
    keyspace: Keyspace<Databases>,
    report: String,
    passed_over: u64,
    payloads: KeyPayloads,
}

impl Import {
    fn new(databases: usize) -> Self {
        let stores = Databases::of_part(databases, 0, 1);
        // A key that expired does so once everything is read.
        Self {
            keyspace: Keyspace::of_replay(stores),
            report: String::new(),
            passed_over: 0,
            payloads: KeyPayloads::default(),
        }
    }

    fn read(&mut self, path: &Path) -> Result<(), String> {
        if path.is_dir() {
            return redis_log::files(path)?.iter().try_for_each(|path| self.read_file(path));
        }
        self.read_file(path)
    }

    /// Reads a snapshot, a log, or a snapshot with a log behind it.
    fn read_file(&mut self, path: &Path) -> Result<(), String> {
        let describe = |reason: String| format!("{}: {reason}", path.display());
        let file = Input::open(path).map_err(|error| describe(error.to_string()))?;
        let bytes = &file[..];
        let mut log_start = 0;
        if bytes.starts_with(b"REDIS") {
            let summary = self.read_snapshot(bytes).map_err(describe)?;
            let FileSummary { version, server, keys, len, .. } = summary;
            let server = if server.is_empty() { "an unknown version" } else { &server };
            self.say(&format!("{}: snapshot of Redis {server} (RDB {version}), {keys} keys", path.display()));
            log_start = len;
        }
        if log_start < bytes.len() || log_start == 0 {
            self.keyspace.select(0);
            let mut log = RedisLog::new(bytes, log_start);
            log.replay(&mut self.keyspace).map_err(describe)?;
            self.say(&format!("{}: log, {} commands{}", path.display(), log.applied, log.cut()));
        }
        Ok(())
    }

    fn say(&mut self, line: &str) {
        writeln!(self.report, "{line}").expect("writing to memory does not fail");
    }

    fn read_snapshot(&mut self, bytes: &[u8]) -> Result<FileSummary, String> {
        let keyspace = &mut self.keyspace;
        let summary = rdb::read_file(bytes, &mut |FileKey { database, key, value, expire_at }| {
            let number = usize::try_from(database).ok().filter(|&number| number < keyspace.databases());
            keyspace.select(number.ok_or_else(|| too_few_databases(database))?);
            value.store_in(keyspace, &key, expire_at);
            Ok(())
        })?;
        self.passed_over += summary.passed_over;
        Ok(summary)
    }

    /// Writes each key to the segment of its owner, and all of it to the disk.
    fn write_log(mut self, config: &Config, dir: &Path) -> Result<String, String> {
        let clock = Clock::System;
        let layout = server::layout(config);
        let control = LogControl::new(FsyncPolicy::No);
        let lock = DirLock::take(dir)?;
        let log = Log {
            disk: &SystemDisk,
            dir,
            layout: layout.clone(),
            databases: self.keyspace.databases(),
            threads: cores(),
            boot: server::boot_id(),
            now_ms: clock.now_ms(),
            control: control.clone(),
        };
        let (recovered, removed) = begin_import(&log).map_err(|reason| remove_what_is_left(&log, reason))?;
        if removed > 0 {
            self.say(&format!("{}: removed what an import has left that did not come to its end", dir.display()));
        }
        let written = self.write_keys(&recovered, dir, clock.now_ms());
        let Recovered { segments, threads, manifest, .. } = recovered;
        // What is not whole is named by no manifest.
        let is_whole = written.is_ok();
        let rewriter = || Arc::new(Rewriter::new(Arc::new(SystemDisk), dir.to_owned(), manifest, segments));
        let logs = Logs { threads, control: control.clone(), clock, lock: None, rewriter: is_whole.then(rewriter) };
        let finished = logs.finish().map_err(|reason| match control.failure() {
            Some(failure) => format!("can't write the log in {}: {failure}", dir.display()),
            None => reason,
        });
        let written = written.and_then(|written| finished.map(|()| written));
        let Written { keys, databases, expired } = written.map_err(|reason| remove_what_is_left(&log, reason))?;
        drop(lock);
        let (engine, shards) = (layout.engine, layout.shards);
        let target = dir.display();
        let passed_over = self.passed_over;
        self.say(&format!(
            "{keys} keys in {databases} databases written to {target} (engine={engine}, shards={shards})"
        ));
        self.say(&format!("{expired} keys had expired; {passed_over} functions or values of modules were passed over"));
        Ok(self.report.trim_end().to_owned())
    }

    fn write_keys(&mut self, recovered: &Recovered, dir: &Path, now_ms: u64) -> Result<Written, String> {
        let Self { keyspace, payloads, .. } = self;
        let mut writer = LogWriter { recovered, dir, now_ms, payloads, keys: 0, expired: 0 };
        let mut databases = 0;
        for database in 0..keyspace.store().in_use() {
            keyspace.select(database);
            let keys_before = writer.keys;
            let mut outcome = Ok(());
            keyspace.for_each(&mut |node| {
                if outcome.is_ok() {
                    outcome = writer.write(database, node);
                }
            });
            outcome?;
            databases += usize::from(writer.keys > keys_before);
        }
        Ok(Written { keys: writer.keys, databases, expired: writer.expired })
    }
}

/// What an import has written.
struct Written {
    keys: u64,
    databases: usize,
    expired: u64,
}

/// Why an import failed, and what is left of it where that cannot be removed.
fn remove_what_is_left(log: &Log<'_>, reason: String) -> String {
    match remove_import(log) {
        Ok(()) => reason,
        Err(left) => format!("{reason}; {left}: no server starts with what is left, and the next import removes it"),
    }
}

fn too_few_databases(database: u64) -> String {
    format!("it has a database {database}: `--databases` allows for fewer")
}

struct LogWriter<'a> {
    recovered: &'a Recovered,
    dir: &'a Path,
    now_ms: u64,
    payloads: &'a mut KeyPayloads,
    keys: u64,
    expired: u64,
}

impl LogWriter<'_> {
    fn write(&mut self, database: usize, node: &Node) -> Result<(), String> {
        if node.expire_at().is_some_and(|at| at <= self.now_ms) {
            self.expired += 1;
            return Ok(());
        }
        let segments = &self.recovered.segments;
        let segment = &segments[shard_of(node.key(), segments.len())];
        let dir = self.dir;
        self.payloads.of_key(database, node, &mut |payload| {
            let before = segment.appended();
            segment.append_payload(payload);
            if segment.appended() / CHUNK != before / CHUNK {
                segment.commit(segment.appended());
            }
            match segment.control().failure() {
                Some(failure) => Err(format!("can't write the log in {}: {failure}", dir.display())),
                None => Ok(()),
            }
        })?;
        self.keys += 1;
        Ok(())
    }
}
