//! The log of a Redis: commands as clients send them, in one file or in several.
//!
//! ```text
//! file appendonly.aof.1.base.rdb seq 1 type b
//! file appendonly.aof.1.incr.aof seq 1 type i          appendonly.aof.manifest
//! ```
//!
//! A file of type `h` is history: the base file contains it. A tail that is no whole command, or an incomplete
//! transaction, is the result of a crash; Redis cuts it as well.

use crate::aof::MANIFEST;
use crate::base::limits::LEN_MAX;
use crate::commands::{self, Flags};
use crate::keyspace::{Databases, Keyspace, Store};
use crate::rdb::too_few_databases;
use crate::resp::{Args, Limits, Reply, RequestParser, Step, parse_u64, split_line};
use std::path::{Path, PathBuf};

/// The longest argument: the longest value that is stored.
const ARGUMENT_MAX: usize = LEN_MAX;

/// The files of a log in a directory, in order.
pub fn files(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let manifest = manifest_in(dir)?;
    let describe = |reason: String| format!("{}: {reason}", manifest.display());
    let text = std::fs::read(&manifest).map_err(|error| describe(error.to_string()))?;
    let lines = text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with(b"#"));
    let mut files = Vec::new();
    for line in lines {
        let file = file_of(line).ok_or_else(|| describe(format!("not understood: {}", line.escape_ascii())))?;
        files.extend(file.map(|name| manifest.with_file_name(name)));
    }
    Ok(files)
}

fn manifest_in(dir: &Path) -> Result<PathBuf, String> {
    find_manifest(dir)?.ok_or_else(|| format!("{}: there is no manifest of a log in it", dir.display()))
}

/// The manifest of a Redis log in a directory, if there is one. Our own does not count, nor does one that Redis had not
/// written to its end when it was killed (`temp-appendonly.aof.manifest`).
pub fn find_manifest(dir: &Path) -> Result<Option<PathBuf>, String> {
    let describe = |error: std::io::Error| format!("{}: {error}", dir.display());
    let paths = std::fs::read_dir(dir).map_err(describe)?.map(|entry| entry.map(|entry| entry.path()));
    let paths = paths.collect::<Result<Vec<_>, _>>().map_err(describe)?;
    let is_of_redis = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default();
        let is_unfinished = name.as_encoded_bytes().starts_with(b"temp-");
        path.extension().is_some_and(|end| end == "manifest") && name != MANIFEST && !is_unfinished
    };
    let mut manifests = paths.into_iter().filter(is_of_redis);
    match (manifests.next(), manifests.next()) {
        (manifest, None) => Ok(manifest),
        (_, Some(_)) => Err(format!("{}: there are several manifests in it", dir.display())),
    }
}

/// The names of all files of a Redis log: they begin with its name, like that of its manifest.
pub fn files_of_log(manifest: &Path) -> std::io::Result<Vec<String>> {
    let log_name = manifest.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let dir = manifest.parent().expect("it was found in a directory");
    let names =
        std::fs::read_dir(dir)?.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<std::io::Result<Vec<_>>>()?;
    names.retain(|name| name.starts_with(&log_name));
    Ok(names)
}

/// The file that a line of the manifest names, unless it is history.
fn file_of(line: &[u8]) -> Option<Option<String>> {
    let words = split_line(line)?;
    let (mut name, mut kind) = (None, None);
    for pair in words.chunks(2) {
        let [key, value] = pair else { return None };
        match key.as_slice() {
            b"file" => name = Some(String::from_utf8(value.clone()).ok()?),
            b"type" => kind = Some(value.clone()),
            _ => {}
        }
    }
    // A name is not a path: nothing else is opened.
    let name = name.filter(|name| !name.contains('/'))?;
    match kind?.as_slice() {
        b"b" | b"i" => Some(Some(name)),
        b"h" => Some(None),
        _ => None,
    }
}

/// Commands to be replayed.
pub struct RedisLog<'a> {
    bytes: &'a [u8],
    position: usize,
    /// How many commands were applied.
    pub applied: u64,
    /// How many commands about scripts were skipped.
    pub scripts: u64,
}

impl<'a> RedisLog<'a> {
    /// The log that begins at a position of a file.
    pub fn new(bytes: &'a [u8], position: usize) -> Self {
        Self { bytes, position, applied: 0, scripts: 0 }
    }

    /// Applies every command, and reports progress to `note`. The error says what is wrong, and where.
    /// `note` may end that.
    pub fn replay(
        &mut self,
        keyspace: &mut Keyspace<Databases>,
        note: &mut dyn FnMut(usize) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut replies = Vec::new();
        let mut parser = RequestParser::default();
        // The end of the last transaction found: one that begins within it has the same end.
        let mut end = 0;
        while let Some(len) = self.next_command(&mut parser)? {
            let start = self.position;
            let args = parser.args(&self.bytes[start..]);
            self.position += len;
            note(self.position)?;
            let is = |name: &str| args.len() == 1 && args.is(0, name);
            if is("MULTI") {
                if self.position > end {
                    let Some(found) = self.end_of_transaction()? else {
                        // None of it counts.
                        self.position = start;
                        break;
                    };
                    end = found;
                }
            } else if args.is(0, "SCRIPT") {
                // It changes no key. Commands that call scripts are refused.
                self.scripts += 1;
            } else if !is("EXEC") {
                apply(keyspace, args, &mut replies).map_err(|reason| format!("at byte {start}: {reason}"))?;
                self.applied += 1;
            }
        }
        Ok(())
    }

    /// Bytes at the end that are not a whole command or transaction, and were left out.
    pub fn cut_bytes(&self) -> usize {
        self.bytes.len() - self.position
    }

    /// What was left out, if anything, as text.
    pub fn left_out(&self) -> String {
        let cut = match self.cut_bytes() {
            0 => String::new(),
            cut => format!("; the last {cut} bytes are no whole command or transaction, and were left out"),
        };
        let scripts = match self.scripts {
            0 => String::new(),
            scripts => format!("; {scripts} commands about scripts were left out"),
        };
        cut + &scripts
    }

    /// The length of the next command; `None` at the end, or if it is cut off.
    fn next_command(&mut self, parser: &mut RequestParser) -> Result<Option<usize>, String> {
        const LIMITS: Limits = Limits { bulk_len_max: ARGUMENT_MAX, authenticated: true };
        loop {
            let rest = &self.bytes[self.position..];
            match rest.first() {
                None => return Ok(None),
                // An annotation of the time.
                Some(b'#') => match rest.iter().position(|&byte| byte == b'\n') {
                    Some(end) => self.position += end + 1,
                    None => return Ok(None),
                },
                Some(b'*') => match parser.parse(rest, LIMITS) {
                    Ok(Step::Request(len)) => return Ok(Some(len)),
                    Ok(Step::Nothing(len)) => self.position += len,
                    Ok(Step::Incomplete) => return Ok(None),
                    Err(error) => {
                        let within = within(parser.args(rest));
                        return Err(format!(
                            "at byte {}: {error}{within}; {ARGUMENT_MAX} bytes are held at most",
                            self.position
                        ));
                    }
                },
                Some(_) => return Err(format!("at byte {}: no command begins there", self.position)),
            }
        }
    }

    /// The position of the EXEC of the transaction whose commands come next; `None` if it is cut off.
    fn end_of_transaction(&self) -> Result<Option<usize>, String> {
        let mut ahead = Self::new(self.bytes, self.position);
        let mut parser = RequestParser::default();
        while let Some(len) = ahead.next_command(&mut parser)? {
            if parser.args(&ahead.bytes[ahead.position..]).is(0, "EXEC") {
                return Ok(Some(ahead.position));
            }
            ahead.position += len;
        }
        Ok(None)
    }
}

/// The command of an error, as far as its arguments are known.
fn within(args: Args<'_>) -> String {
    match (args.get(0), args.get(1)) {
        (Some(name), Some(key)) => format!(" in {} of the key {}", name.escape_ascii(), key.escape_ascii()),
        _ => String::new(),
    }
}

fn apply(keyspace: &mut Keyspace<Databases>, args: Args<'_>, replies: &mut Vec<u8>) -> Result<(), String> {
    let name = args.get(0).expect("a request has a name");
    if args.is(0, "SELECT") {
        let number = args.get(1).and_then(parse_u64).ok_or("selects no database")?;
        let known = usize::try_from(number).ok().filter(|&number| number < keyspace.store.databases());
        keyspace.select(known.ok_or_else(|| too_few_databases(number))?);
        return Ok(());
    }
    let found = commands::find_of(args).map_err(|error| error.to_string())?;
    let is_right = |id: &commands::CommandId| {
        let command = commands::command(*id);
        // Only old versions of Redis log scripts themselves.
        command.is_write() && !command.flags.has(Flags::SCRIPT) && command.accepts(args.len())
    };
    let Some(id) = found.filter(is_right) else { return apply_foreign(keyspace, args, replies) };
    replies.clear();
    commands::execute(id, keyspace, args, &mut Reply::new(replies, false));
    match replies.first() {
        Some(b'-') => {
            let reason = String::from_utf8_lossy(replies);
            Err(format!("{} fails{}: {}", name.escape_ascii(), within(args), reason.trim_end()))
        }
        _ => Ok(()),
    }
}

/// Applies a command that has no row.
fn apply_foreign(keyspace: &mut Keyspace<Databases>, args: Args<'_>, replies: &mut Vec<u8>) -> Result<(), String> {
    let name = args.get(0).expect("a request has a name");
    match commands::foreign::translated(args) {
        Ok(Some(words)) => apply(keyspace, words.args(), replies),
        Ok(None) => Err(format!("the command {} is not known here", name.escape_ascii())),
        Err(reason) => Err(format!("the command {} cannot be applied here: {reason}", name.escape_ascii())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_manifest_that_redis_has_not_written_to_its_end_is_none() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let find = || find_manifest(dir.path()).expect("there are not several");
        std::fs::write(dir.path().join("temp-appendonly.aof.manifest"), "file appe").expect("it is written");
        assert_eq!(find(), None);
        let manifest = dir.path().join("appendonly.aof.manifest");
        std::fs::write(&manifest, "").expect("it is written");
        assert_eq!(find(), Some(manifest));
    }

    /// How many commands of a log with this many MULTI and one EXEC are applied, and how long that takes: the shortest
    /// of several runs.
    fn replay_nested(depth: usize) -> (u64, f64) {
        let log = ["*1\r\n$5\r\nMULTI\r\n".repeat(depth), "*1\r\n$4\r\nEXEC\r\n".into()].concat();
        let times = (0..3).map(|_| {
            let store = Databases::of_shard(&std::sync::Arc::default(), 1, 0, 1);
            let mut keyspace = Keyspace::of_replay(store);
            let start = Instant::now();
            let mut redis_log = RedisLog::new(log.as_bytes(), 0);
            redis_log.replay(&mut keyspace, &mut |_| Ok(())).expect("it is a log");
            assert_eq!(redis_log.left_out(), "");
            (redis_log.applied, start.elapsed().as_secs_f64())
        });
        times.min_by(|one, other| one.1.total_cmp(&other.1)).expect("there are some")
    }

    #[test]
    fn nested_transactions_take_time_that_grows_with_their_number_and_not_with_its_square() {
        let (few, many) = (replay_nested(500), replay_nested(16 * 500));
        assert_eq!((few.0, many.0), (0, 0));
        // Scanning the rest for each would take 256 times as long.
        assert!(many.1 < 80.0 * few.1, "{few:?}, {many:?}");
    }
}
