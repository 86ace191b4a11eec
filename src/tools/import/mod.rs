//! `shardrace import PATH --dir DIR`: brings the data of a Redis into a new log of ours.
//!
//! PATH is a snapshot (`dump.rdb`), a log (`appendonly.aof`), or a directory with a log in several files
//! (`appendonlydir`). Its keys are first read into memory, in the same form as in the server; the file is mapped, so
//! that the system can reclaim its memory. Then each key is written to the log, like in a rewrite, in the layout given
//! by the other flags (`--engine`, `--shards`). A server that is started with the same flags has every key. Until all
//! of it is on the disk no server starts with it; a failed import removes what it has written, and after a killed one
//! the next import does.

pub mod beside;
mod redis_log;
pub mod takeover;

use crate::aof::{
    DirLock, Disk, FsyncPolicy, Input, KeyPayloads, Layout, Log, LogControl, Manifest, Progress, Recovered, Rewriter,
    SystemDisk, begin_import, remove_import,
};
use crate::base::bus_error;
use crate::base::clock::Clock;
use crate::base::narrowing::size;
use crate::base::parallel::cores;
use crate::base::routing::shard_of;
use crate::commands::Services;
use crate::config::{CommandLineEnd, Config, Directive, boot_id, layout, log_dir};
use crate::engine::Logs;
use crate::keyspace::{Databases, Instance, Keyspace, Node, Store};
use crate::rdb::{self, FileKey, FileSummary, too_few_databases, twice};
use redis_log::RedisLog;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of the log that are written at once.
const CHUNK: u64 = 1024 * 1024;

/// Runs the command line; returns the message for the operator.
pub fn run(arguments: impl Iterator<Item = OsString>) -> Result<String, String> {
    const USAGE: &str = "usage: shardrace import PATH --dir DIR [--engine ENGINE] [--shards N] [--databases N]";
    let mut arguments = arguments;
    let binary = arguments.next().unwrap_or_default();
    let path = arguments.nth(1).map(PathBuf::from);
    if path.as_ref().is_some_and(|word| word.as_os_str() == "--help" || word.as_os_str() == "-h") {
        return Ok(format!(
            "{USAGE}\n\nMakes a log in DIR of the keys at PATH: a snapshot, a log, or a directory of Redis."
        ));
    }
    let path = path.filter(|path| !path.to_string_lossy().starts_with('-')).ok_or(USAGE)?;
    let flags = std::iter::once(binary).chain(arguments);
    let config = Config::from_command_line(flags).map_err(|end| match end {
        CommandLineEnd::Asked(text) | CommandLineEnd::Refused(text) => text,
    })?;
    let instance = Arc::new(Instance::default());
    config.apply_to(&instance.settings);
    bus_error::begin().map_err(|error| format!("can't handle signals: {error}"))?;
    let dir = log_dir(&config);
    let is_unfinished = Manifest::is_of_unfinished_import(&SystemDisk, &dir)?;
    if !is_unfinished && !Manifest::read(&SystemDisk, &dir)?.chains().is_empty() {
        return Err(format!("{} holds a log already; import makes a new one", dir.display()));
    }
    let mut import = Import::new(&instance, config.size(Directive::Databases));
    import.read(&path)?;
    let _lock = DirLock::take(&dir)?;
    takeover::forget(&dir)?;
    let (disk, boot) = (Arc::new(SystemDisk), boot_id());
    import.write_log(&Target { disk, dir, layout: layout(&config), boot })?;
    Ok(import.report.trim_end().to_owned())
}

/// The log that an import writes. The caller has the lock of its directory.
struct Target {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    layout: Layout,
    boot: String,
}

/// What has been read so far.
struct Import {
    keyspace: Keyspace<Databases>,
    report: String,
    /// Keys with values of modules that were left out; the first, and why.
    left_out: u64,
    refusal: Option<String>,
    /// Receives the progress of reading.
    progress: Option<Progress>,
    payloads: KeyPayloads,
}

impl Import {
    fn new(instance: &Arc<Instance>, databases: usize) -> Self {
        let stores = Databases::of_shard(instance, databases, 0, 1);
        // Expired keys are removed when everything is read.
        Self {
            keyspace: Keyspace::of_replay(stores),
            report: String::new(),
            left_out: 0,
            refusal: None,
            progress: None,
            payloads: KeyPayloads::default(),
        }
    }

    fn read(&mut self, path: &Path) -> Result<(), String> {
        if !path.is_dir() {
            return self.read_file(path, true);
        }
        let files = redis_log::files(path)?;
        files.iter().enumerate().try_for_each(|(index, path)| self.read_file(path, index + 1 == files.len()))
    }

    /// Reads a snapshot, a log, or a snapshot followed by a log. Only the last file may end within a command.
    fn read_file(&mut self, path: &Path, is_last: bool) -> Result<(), String> {
        let describe = |reason: String| format!("{}: {reason}", path.display());
        let file = Input::open(path).map_err(|error| describe(error.to_string()))?;
        let bytes = &file[..];
        let mut log_start = 0;
        if rdb::is_snapshot(bytes) {
            log_start = self.read_snapshot(path, bytes)?;
        }
        if log_start < bytes.len() || log_start == 0 {
            let log = self.read_log(bytes, log_start).map_err(describe)?;
            if log.cut_bytes() > 0 && !is_last {
                let at = bytes.len() - log.cut_bytes();
                return Err(describe(format!("at byte {at}: it ends within a command, and other files follow it")));
            }
            self.say(&format!("{}: log, {} commands{}", path.display(), log.applied, log.left_out()));
        }
        Ok(())
    }

    fn read_log<'a>(&mut self, bytes: &'a [u8], start: usize) -> Result<RedisLog<'a>, String> {
        let Self { keyspace, progress, .. } = self;
        keyspace.select(0);
        let mut steps = Steps { progress: progress.as_ref(), noted: start };
        let mut log = RedisLog::new(bytes, start);
        log.replay(keyspace, &mut |end| steps.note(end))?;
        steps.end(bytes.len());
        Ok(log)
    }

    fn say(&mut self, line: &str) {
        writeln!(self.report, "{line}").expect("writing to memory does not fail");
    }

    /// Reads a snapshot and nothing else.
    fn read_snapshot_file(&mut self, path: &Path) -> Result<(), String> {
        let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        self.read_snapshot(path, &bytes).map(drop)
    }

    /// Reads the snapshot at the beginning of a file, and returns its length.
    fn read_snapshot(&mut self, path: &Path, bytes: &[u8]) -> Result<usize, String> {
        let summary = self.take_keys(bytes).map_err(|reason| format!("{}: {reason}", path.display()))?;
        let left_out = summary.left_out().map(|words| format!("; {words}")).unwrap_or_default();
        self.say(&format!("{}: snapshot of {}, {} keys{left_out}", path.display(), summary.origin(), summary.keys));
        Ok(summary.len)
    }

    fn take_keys(&mut self, bytes: &[u8]) -> Result<FileSummary, String> {
        let Self { keyspace, progress, .. } = self;
        let mut steps = Steps { progress: progress.as_ref(), noted: 0 };
        let instance = Arc::clone(keyspace.instance());
        let summary = rdb::read_file(
            bytes,
            &instance.settings,
            &mut |FileKey { database, key, value, expire_at, end, .. }| {
                steps.note(end)?;
                let number = usize::try_from(database).ok().filter(|&number| number < keyspace.store.databases());
                keyspace.select(number.ok_or_else(|| too_few_databases(database))?);
                if keyspace.peek(&key).is_some() {
                    return Err(twice(&key, database));
                }
                value.store_in(keyspace, &key, expire_at);
                Ok(())
            },
        )?;
        steps.end(summary.len);
        if !summary.libraries.is_empty() {
            Services::of(&instance).scripting.load_functions(summary.libraries.iter().map(AsRef::as_ref))?;
        }
        self.left_out += summary.module_keys;
        self.refusal = self.refusal.take().or(summary.must_have_all_keys().err());
        Ok(summary)
    }

    /// Writes each key to the segment of its owner, and all of it to the disk.
    fn write_log(&mut self, target: &Target) -> Result<(), String> {
        let Target { disk, dir, layout, boot } = target;
        let clock = Clock::System;
        let control = LogControl::new(FsyncPolicy::No);
        let log = Log {
            disk: &**disk,
            dir,
            layout: layout.clone(),
            databases: self.keyspace.store.databases(),
            threads: cores(),
            boot: boot.clone(),
            now_ms: clock.now_ms(),
            control: control.clone(),
            instance: Arc::clone(self.keyspace.instance()),
        };
        let (recovered, removed) = begin_import(&log).map_err(|reason| remove_what_is_left(&log, reason))?;
        if removed > 0 {
            self.say(&format!("{}: removed what an import has left that did not come to its end", dir.display()));
        }
        let written = self.write_keys(&recovered, dir, clock.now_ms());
        let Recovered { segments, threads, mut manifest, .. } = recovered;
        let written = written.and_then(|written| {
            let kept = manifest.keep_functions(
                &**disk,
                dir,
                &Services::of(self.keyspace.instance()).scripting.functions.libraries(),
                None,
            );
            kept.map(|()| written)
                .map_err(|error| format!("can't write the libraries of functions in {}: {error}", dir.display()))
        });
        // An incomplete log is named by no manifest.
        let is_whole = written.is_ok();
        let rewriter =
            || Arc::new(Rewriter::new(self.keyspace.instance(), Arc::clone(disk), dir.clone(), manifest, segments));
        let logs = Logs { threads, control: control.clone(), clock };
        let finished = logs.finish(is_whole.then(rewriter)).map_err(|reason| match control.failure() {
            Some(failure) => format!("can't write the log in {}: {failure}", dir.display()),
            None => reason,
        });
        let written = written.and_then(|written| finished.map(|()| written));
        let Written { keys, databases, expired } = written.map_err(|reason| remove_what_is_left(&log, reason))?;
        let Layout { engine, shards } = layout;
        self.say(&format!(
            "{keys} keys in {databases} databases written to {} (engine={engine}, shards={shards})",
            dir.display()
        ));
        self.say(&format!("{expired} keys had expired"));
        if self.left_out > 0 {
            self.say(&format!("{} keys with values of modules were left out", self.left_out));
        }
        Ok(())
    }

    fn write_keys(&mut self, recovered: &Recovered, dir: &Path, now_ms: u64) -> Result<Written, String> {
        let Self { keyspace, payloads, .. } = self;
        let mut writer = LogWriter { recovered, dir, now_ms, payloads, keys: 0, expired: 0 };
        let mut databases = 0;
        for database in 0..keyspace.store.in_use() {
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

/// The result of an import.
struct Written {
    keys: u64,
    databases: usize,
    expired: u64,
}

/// Why an import failed, and what is left of it if that cannot be removed.
fn remove_what_is_left(log: &Log<'_>, reason: String) -> String {
    match remove_import(log) {
        Ok(()) => reason,
        Err(left) => format!("{reason}; {left}: no server starts with what is left, and the next import removes it"),
    }
}

/// The position in a file up to which progress was reported.
struct Steps<'a> {
    progress: Option<&'a Progress>,
    noted: usize,
}

impl Steps<'_> {
    /// Records that the file is read up to `end`.
    fn note(&mut self, end: usize) -> Result<(), String> {
        if end - self.noted >= size(CHUNK) {
            self.end(end);
            self.progress.map_or(Ok(()), Progress::must_go_on)?;
        }
        Ok(())
    }

    fn end(&mut self, end: usize) {
        self.progress.inspect(|progress| progress.add((end - self.noted) as u64));
        self.noted = end;
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aof::recover;
    use crate::commands;
    use crate::keyspace::MultiShardView;
    use crate::resp::{Args, Reply, Span};

    const DATABASES: usize = 3;
    const LAYOUTS: [(&str, usize); 3] = [("mutex", 1), ("dashmap", 2), ("actor", 3)];

    /// A command in the form of Redis's log.
    fn logged(command: &str) -> String {
        let words: Vec<&str> = command.split(' ').collect();
        let parts = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
        format!("*{}\r\n", words.len()) + &parts.collect::<String>()
    }

    /// The lines of a reply, sorted: fields and members come in any order.
    fn read<S: Store>(keyspace: &mut Keyspace<S>, command: &str) -> Vec<String> {
        let (mut bytes, mut spans, mut replies) = (Vec::new(), Vec::new(), Vec::new());
        for word in command.split(' ') {
            spans.push(Span::new(bytes.len(), word.len()));
            bytes.extend_from_slice(word.as_bytes());
        }
        let args = Args::new(&bytes, &spans);
        let id = commands::find_of(args).expect("it is whole").expect("there is such a command");
        commands::execute(id, keyspace, args, &mut Reply::new(&mut replies, false));
        let mut lines: Vec<String> = String::from_utf8_lossy(&replies).lines().map(String::from).collect();
        lines.sort();
        lines
    }

    fn describe<S: Store>(keyspace: &mut Keyspace<S>) -> Vec<Vec<String>> {
        keyspace.select(2);
        let mut described: Vec<_> = ["list", "hash", "set", "sorted", "stream", "text"]
            .iter()
            .flat_map(|key| ["TYPE", "PEXPIRETIME"].map(|command| format!("{command} {key}")))
            .map(|command| read(keyspace, &command))
            .collect();
        for command in [
            "LRANGE list 0 -1",
            "LINDEX list 77",
            "HGETALL hash",
            "SMEMBERS set",
            "ZRANGE sorted 0 -1 WITHSCORES",
            "XRANGE stream - +",
            "XINFO STREAM stream FULL",
            "GET text",
            "DBSIZE",
        ] {
            described.push(read(keyspace, command));
        }
        described
    }

    /// The imported data, as loaded by a server that starts with the log; and how often each command is in the log.
    fn started(dir: &Path, layout: &Layout) -> (Vec<Vec<String>>, usize) {
        let count = |path: PathBuf| {
            let bytes = std::fs::read(path).expect("it is there");
            let all = |word: &[u8]| bytes.windows(word.len()).filter(|window| window == &word).count();
            [b"RPUSH".as_slice(), b"HSET", b"SADD", b"ZADD", b"XSETID"].map(all).into_iter().sum::<usize>()
        };
        let files = std::fs::read_dir(dir).expect("a directory").map(|file| file.expect("a file").path());
        let pieces = files.filter(|path| path.is_file()).map(count).sum();
        let mut recovered = recover(&Log {
            disk: &SystemDisk,
            dir,
            layout: layout.clone(),
            databases: DATABASES,
            threads: 2,
            boot: "boot".into(),
            now_ms: 1_800_000_000_000,
            control: LogControl::new(FsyncPolicy::No),
            instance: Arc::default(),
        })
        .expect("a server starts");
        let shards = recovered.stores.len();
        let described =
            describe(&mut Keyspace::of_replay(MultiShardView::new(shards, recovered.stores.iter_mut().enumerate())));
        recovered.threads.into_iter().for_each(|thread| drop(thread.finish()));
        (described, pieces)
    }

    #[test]
    fn what_is_longer_than_a_record_is_imported_in_pieces_into_every_layout() {
        const PIECE: usize = 60;
        let all = |word: fn(usize) -> String| (0..200).map(word).collect::<Vec<_>>().join(" ");
        let mut log = logged("SELECT 2");
        for command in [
            format!("RPUSH list {}", all(|number| number.to_string())),
            format!("HSET hash {}", all(|number| format!("f{number} {number}"))),
            format!("SADD set {}", all(|number| format!("m{number}"))),
            format!("ZADD sorted {}", all(|number| format!("{}.5 m{number}", number / 3))),
            "SET text whatever".into(),
            "PEXPIREAT hash 4000000000000".into(),
            "PEXPIREAT stream 4000000000000".into(),
        ] {
            log += &logged(&command);
        }
        let mut stream: String = (1..50).map(|number| logged(&format!("XADD stream {number}-1 f {number}"))).collect();
        stream += &logged("XGROUP CREATE stream g 5-1 ENTRIESREAD 5");
        stream += &logged("XCLAIM stream g ann 0 2-1 9-1 TIME 1700000000000 RETRYCOUNT 3 FORCE JUSTID LASTID 9-1");
        stream += &logged("XDEL stream 9-1 30-1");
        stream += &logged("PEXPIREAT stream 4000000000000");
        log += &stream;
        for (engine, shards) in LAYOUTS {
            let dir = tempfile::tempdir().expect("a temporary directory");
            let path = dir.path().join("appendonly.aof");
            std::fs::write(&path, &log).expect("written");
            let mut import = Import::new(&Arc::default(), DATABASES);
            import.payloads = KeyPayloads::with_limits(PIECE, PIECE);
            import.read(&path).expect("it is a log");
            let wanted = describe(&mut import.keyspace);
            assert!(wanted.iter().all(|lines| !lines.is_empty() && !lines[0].starts_with('-')), "{wanted:?}");
            let (disk, boot, layout) = (Arc::new(SystemDisk), "boot".into(), Layout { engine: engine.into(), shards });
            let target = Target { disk, dir: dir.path().join("log"), layout, boot };
            let _lock = DirLock::take(&target.dir).expect("no server has it");
            import.write_log(&target).expect("nothing fails");
            let (described, pieces) = started(&target.dir, &target.layout);
            assert_eq!(described, wanted, "{engine}");
            assert!(pieces > 40, "{engine}: {pieces} pieces");
        }
    }
}
