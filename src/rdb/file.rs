//! Snapshot files: every key of every database at one moment.

use super::compression::Compression;
use super::decode::Loaded;
use super::encode::{write_kind, write_length, write_raw, write_value};
use super::reader::Reader;
use super::{CRC64, Malformed, VALKEY, VERSION, VERSION_MAX, kind};
use crate::keyspace::{Encode, Eviction, FormerUse, Node, Settings, Usage};
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

const MAGIC: &[u8] = b"REDIS";
const MAGIC_OF_VALKEY: &[u8] = b"VALKEY";
/// The name of the first auxiliary field in a file written here.
const OUR_FIELD: &str = "shardrace-ver";
/// The name of the auxiliary field with the database of a stream.
const STREAM_DATABASE: &str = "repl-stream-db";
/// What a library of functions begins with.
pub const FUNCTION: u8 = 0xF5;
/// Versions before this have no checksum.
const FIRST_WITH_CRC: u32 = 5;

pub mod opcode {
    pub const SLOT_INFO: u8 = 0xF4;
    pub const FUNCTION: u8 = super::FUNCTION;
    pub const MODULE_AUX: u8 = 0xF7;
    pub const IDLE: u8 = 0xF8;
    pub const FREQUENCY: u8 = 0xF9;
    pub const AUX: u8 = 0xFA;
    pub const RESIZE: u8 = 0xFB;
    pub const EXPIRE_MS: u8 = 0xFC;
    pub const EXPIRE_S: u8 = 0xFD;
    pub const SELECT: u8 = 0xFE;
    pub const END: u8 = 0xFF;
}

/// A snapshot while it is written, after its beginning.
#[derive(Debug)]
pub struct FileWriter<W> {
    out: W,
    digest: Digest,
    /// If strings are compressed.
    compression: Option<Compression>,
}

struct Digest(crc::Digest<'static, u64, crc::Table<16>>);

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Digest")
    }
}

impl<W: Write> FileWriter<W> {
    /// Begins a snapshot of a Unix time in seconds, with libraries of functions by their sources.
    pub fn begin<'a>(out: W, created_s: u64, libraries: impl Iterator<Item = &'a [u8]>) -> io::Result<Self> {
        Self::begin_with(out, created_s, None, libraries)
    }

    /// The same for a snapshot that is followed by a stream of changes with this database selected.
    pub fn begin_in_stream<'a>(
        out: W,
        created_s: u64,
        database: u16,
        libraries: impl Iterator<Item = &'a [u8]>,
    ) -> io::Result<Self> {
        Self::begin_with(out, created_s, Some(database), libraries)
    }

    fn begin_with<'a>(
        out: W,
        created_s: u64,
        database: Option<u16>,
        libraries: impl Iterator<Item = &'a [u8]>,
    ) -> io::Result<Self> {
        let mut file = Self { out, digest: Digest(CRC64.digest()), compression: None };
        let mut start = format!("REDIS{VERSION:04}").into_bytes();
        let created = created_s.to_string();
        let database = database.map(|database| database.to_string());
        let fields = [
            (OUR_FIELD, env!("CARGO_PKG_VERSION")),
            ("redis-ver", super::REDIS_VERSION),
            ("redis-bits", "64"),
            ("ctime", &created),
        ];
        for (name, value) in fields.into_iter().chain(database.iter().map(|database| (STREAM_DATABASE, &**database))) {
            start.push(opcode::AUX);
            write_raw(&mut start, name.as_bytes());
            write_raw(&mut start, value.as_bytes());
        }
        write_functions(&mut start, libraries);
        file.append(&start)?;
        Ok(file)
    }

    /// Compresses the strings of keys, if `compresses` is true.
    pub fn compressing(self, compresses: bool) -> Self {
        Self { compression: compresses.then(Compression::default), ..self }
    }

    /// Appends whole keys encoded by [`FileKeys`], and returns how many bytes that were.
    pub fn write(&mut self, keys: &[u8]) -> io::Result<u64> {
        let Some(mut compression) = self.compression.take() else { return self.append(keys) };
        let written = self.append(compression.of(keys));
        self.compression = Some(compression);
        written
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<u64> {
        self.digest.0.update(bytes);
        self.out.write_all(bytes)?;
        Ok(bytes.len() as u64)
    }

    /// Writes the end, and returns the length.
    pub fn end(&mut self) -> io::Result<u64> {
        self.append(&[opcode::END])?;
        let crc = std::mem::replace(&mut self.digest, Digest(CRC64.digest())).0.finalize();
        self.out.write_all(&crc.to_le_bytes())?;
        Ok(1 + size_of_val(&crc) as u64)
    }

    /// The output.
    pub fn out(&self) -> &W {
        &self.out
    }
}

/// Writes libraries of functions. O(N), N = bytes
pub fn write_functions<'a>(out: &mut Vec<u8>, sources: impl Iterator<Item = &'a [u8]>) {
    for source in sources {
        out.push(FUNCTION);
        write_raw(out, source);
    }
}

/// The encoding of a snapshot's keys: in any order, each preceded by the number of its database if that differs from
/// the previous key's, and by how many keys of it follow. Keys that are due are there, too, as in Redis: a command
/// whose clock was read before may still keep one.
#[derive(Debug, Default)]
pub struct FileKeys {
    /// How uses are recorded, and in which second they are read, if the file has them.
    uses: Option<(Usage, u64)>,
    database: Option<usize>,
    /// How many keys of each database will follow, and how many of them with deadlines, until the file says so.
    announced: Vec<(u64, u64)>,
}

impl FileKeys {
    /// With the uses of the keys up to this second, if the policy depends on them.
    pub fn with_uses(eviction: &Eviction, second: u64) -> Self {
        Self { uses: eviction.needed_usage().map(|usage| (usage, second)), ..Self::default() }
    }

    /// A Redis makes room for this many keys at once. The numbers may be too large, and several may follow each other.
    fn write_announced(&mut self, out: &mut Vec<u8>, database: usize) {
        let announced = self.announced.get_mut(database).map(std::mem::take).filter(|&(nodes, _)| nodes > 0);
        if let Some((nodes, deadlines)) = announced {
            out.push(opcode::RESIZE);
            write_length(out, nodes);
            write_length(out, deadlines);
        }
    }
}

impl Encode for FileKeys {
    fn announce(&mut self, database: usize, nodes: usize, deadlines: usize) {
        if self.announced.len() <= database {
            self.announced.resize(database + 1, (0, 0));
        }
        let (all, with_deadlines) = &mut self.announced[database];
        *all += nodes as u64;
        *with_deadlines += deadlines as u64;
    }

    fn encode(&mut self, out: &mut Vec<u8>, database: usize, node: &Node) -> Result<(), String> {
        if self.database.replace(database) != Some(database) {
            out.push(opcode::SELECT);
            write_length(out, database as u64);
            self.write_announced(out, database);
        }
        if let Some(at) = node.expire_at() {
            out.push(opcode::EXPIRE_MS);
            out.extend_from_slice(&at.to_le_bytes());
        }
        match self.uses {
            Some((Usage::LastUse, second)) => {
                out.push(opcode::IDLE);
                write_length(out, node.idle_seconds(second).into());
            }
            Some((Usage::Counter(counting), second)) => {
                out.extend_from_slice(&[opcode::FREQUENCY, node.frequency(second, counting)]);
            }
            None => {}
        }
        write_kind(out, node.value());
        write_raw(out, node.key());
        write_value(out, node.value());
        Ok(())
    }
}

/// A key of a file.
#[derive(Debug)]
pub struct FileKey<'a> {
    /// The number of its database.
    pub database: u64,
    /// Its name.
    pub key: Cow<'a, [u8]>,
    /// What it holds.
    pub value: Loaded,
    /// When it expires: Unix time in milliseconds.
    pub expire_at: Option<u64>,
    /// What is known of its uses.
    pub former_use: FormerUse,
    /// The position in the file where it ends.
    pub end: usize,
}

/// The contents of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileSummary {
    /// The version of the format.
    pub version: u32,
    /// The version of the server that wrote it, as it states.
    pub server: String,
    /// How many keys there were.
    pub keys: u64,
    /// How many further keys had no elements and were skipped.
    pub empty_keys: u64,
    /// The length of the snapshot: a log may follow it.
    pub len: usize,
    /// The database selected in the stream of changes that follows it, if the file says so.
    pub stream_database: Option<u16>,
    /// The sources of the libraries of functions.
    pub libraries: Vec<Box<[u8]>>,
    /// The modules whose own data, besides keys, was skipped.
    pub modules: Vec<String>,
    /// Keys with values of modules, which were skipped.
    pub module_keys: u64,
    /// The first of them, with its module.
    pub module_key: Option<(String, String)>,
}

impl FileSummary {
    /// What wrote it, as text.
    pub fn origin(&self) -> String {
        let Self { server, version, .. } = self;
        let server = if server.is_empty() { "a Redis of an unknown version" } else { server };
        format!("{server} (RDB {version})")
    }

    /// What was skipped besides keys, as text; `None` if nothing was.
    pub fn left_out(&self) -> Option<String> {
        let modules = self.modules.join(", ");
        (!modules.is_empty()).then(|| format!("data of modules is not loaded ({modules})"))
    }

    /// Refuses a file with keys that cannot be loaded.
    pub fn must_have_all_keys(&self) -> Result<(), String> {
        match &self.module_key {
            None => Ok(()),
            Some((key, module)) => Err(format!(
                "the key {key} holds a value of the module {module}, which is not known here, as {} in all do; \
                 `shardrace import` leaves them out",
                self.module_keys
            )),
        }
    }
}

/// Whether the bytes of a file begin like those written here.
fn is_ours(start: &[u8]) -> bool {
    let mut field = vec![opcode::AUX];
    write_raw(&mut field, OUR_FIELD.as_bytes());
    start.get(MAGIC.len() + 4..).is_some_and(|rest| rest.starts_with(&field)) && start.starts_with(MAGIC)
}

/// The same for a file.
pub fn file_is_ours(path: &Path) -> io::Result<bool> {
    const START_LEN: u64 = 64;
    let mut start = Vec::new();
    File::open(path)?.take(START_LEN).read_to_end(&mut start)?;
    Ok(is_ours(&start))
}

/// Reads a file for a server with these settings, and passes each key to `take`. The error says what is wrong with the
/// file, and where.
pub fn read_file(
    bytes: &[u8],
    settings: &Settings,
    take: &mut dyn FnMut(FileKey<'_>) -> Result<(), String>,
) -> Result<FileSummary, String> {
    let (version, rest) = header(bytes)?;
    let mut reader = Reader::new(rest);
    reader.is_of_valkey = version == u32::from(VALKEY);
    let mut file = FileReader {
        len: bytes.len(),
        settings,
        reader,
        summary: FileSummary { version, ..FileSummary::default() },
        database: 0,
        expire_at: None,
        former_use: FormerUse::default(),
    };
    loop {
        let at = bytes.len() - file.reader.left();
        match file.next(take) {
            Ok(true) => {}
            Ok(false) => break,
            Err(Stop::Refused(reason)) => return Err(format!("at byte {at}: {reason}")),
            Err(Stop::Malformed(malformed)) => return Err(format!("at byte {at}: {malformed}")),
        }
    }
    let end = bytes.len() - file.reader.left();
    let mut summary = file.summary;
    summary.len = end;
    if version >= FIRST_WITH_CRC {
        let crc = file
            .reader
            .array()
            .map(u64::from_le_bytes)
            .map_err(|_| format!("at byte {end}: it ends before its checksum"))?;
        // Zero means that there is none: `rdbchecksum no`.
        if crc != 0 && crc != CRC64.checksum(&bytes[..end]) {
            return Err(format!("at byte {end}: its checksum is wrong (CRC error): it is damaged"));
        }
        summary.len += 8;
    }
    Ok(summary)
}

/// Whether bytes begin like a snapshot.
pub fn is_snapshot(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC) || bytes.starts_with(MAGIC_OF_VALKEY)
}

/// The version of a file, and what follows it.
fn header(bytes: &[u8]) -> Result<(u32, &[u8]), String> {
    const NONE: &str = "it is no RDB file";
    let (is_of_valkey, rest, digits) = match (bytes.strip_prefix(MAGIC), bytes.strip_prefix(MAGIC_OF_VALKEY)) {
        (Some(rest), _) => (false, rest, 4),
        (_, Some(rest)) => (true, rest, 3),
        _ => return Err(NONE.into()),
    };
    let (digits, rest) = rest.split_at_checked(digits).ok_or(NONE)?;
    let version: u32 = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).ok_or(NONE)?;
    let is_known = match is_of_valkey {
        true => version == u32::from(VALKEY),
        false => (1..=u32::from(VERSION_MAX)).contains(&version),
    };
    let whose = if is_of_valkey { "of Valkey's RDB version" } else { "of RDB version" };
    match is_known {
        true => Ok((version, rest)),
        false => Err(format!(
            "it is {whose} {version}; those of Redis up to {VERSION_MAX} and that of Valkey, {VALKEY}, can be read"
        )),
    }
}

/// Why reading stops early.
enum Stop {
    Malformed(Malformed),
    Refused(String),
}

impl From<Malformed> for Stop {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

struct FileReader<'a> {
    len: usize,
    settings: &'a Settings,
    reader: Reader<'a>,
    summary: FileSummary,
    database: u64,
    expire_at: Option<u64>,
    former_use: FormerUse,
}

impl FileReader<'_> {
    /// Reads what an opcode or a type begins; false at the end.
    fn next(&mut self, take: &mut dyn FnMut(FileKey<'_>) -> Result<(), String>) -> Result<bool, Stop> {
        let reader = &mut self.reader;
        match reader.byte()? {
            opcode::END => return Ok(false),
            opcode::SELECT => self.database = reader.length()?,
            opcode::EXPIRE_MS => self.expire_at = Some(deadline(i64::from_le_bytes(reader.array()?))),
            opcode::EXPIRE_S => {
                let seconds = i64::from(i32::from_le_bytes(reader.array()?));
                self.expire_at = Some(deadline(seconds * 1000));
            }
            opcode::SLOT_INFO => _ = (reader.length()?, reader.length()?, reader.length()?),
            opcode::RESIZE => _ = (reader.length()?, reader.length()?),
            opcode::IDLE => self.former_use.idle_s = Some(reader.length()?),
            opcode::FREQUENCY => self.former_use.frequency = Some(reader.byte()?),
            opcode::AUX => {
                let (name, value) = (reader.string()?, reader.string()?);
                let value = String::from_utf8_lossy(&value);
                match name.as_ref() {
                    // Ours has the version of Redis after its own.
                    name if name == OUR_FIELD.as_bytes() => self.summary.server = format!("Shardrace {value}"),
                    b"valkey-ver" => self.summary.server = format!("Valkey {value}"),
                    b"redis-ver" if self.summary.server.is_empty() => self.summary.server = format!("Redis {value}"),
                    name if name == STREAM_DATABASE.as_bytes() => self.summary.stream_database = value.parse().ok(),
                    _ => {}
                }
            }
            opcode::FUNCTION => self.summary.libraries.push(reader.string()?.as_ref().into()),
            opcode::MODULE_AUX => {
                let module = module_name(reader.length()?);
                pass_over_module(reader)?;
                self.summary.modules.push(module);
            }
            kind => self.key(kind, take)?,
        }
        Ok(true)
    }

    fn key(&mut self, kind: u8, take: &mut dyn FnMut(FileKey<'_>) -> Result<(), String>) -> Result<(), Stop> {
        let key = self.reader.string()?;
        let expire_at = self.expire_at.take();
        let former_use = std::mem::take(&mut self.former_use);
        if kind == kind::MODULE {
            let module = module_name(self.reader.length()?);
            pass_over_module(&mut self.reader)?;
            self.summary.module_keys += 1;
            self.summary.module_key.get_or_insert_with(|| (key.escape_ascii().to_string(), module));
            return Ok(());
        }
        let value = match Loaded::read(kind, &mut self.reader, self.settings) {
            Err(Malformed::Empty) => {
                self.pass_over_empty(&key);
                return Ok(());
            }
            Err(malformed @ (Malformed::TooLong(_) | Malformed::FieldExpires)) => {
                return Err(Stop::Refused(format!("the value of the key {}: {malformed}", key.escape_ascii())));
            }
            value => value?,
        };
        self.summary.keys += 1;
        let end = self.len - self.reader.left();
        take(FileKey { database: self.database, key, value, expire_at, former_use, end }).map_err(Stop::Refused)
    }
}

impl FileReader<'_> {
    /// Versions of Redis have written keys without elements: Redis skips them, too.
    fn pass_over_empty(&mut self, key: &[u8]) {
        const SHOWN: u64 = 10;
        if self.summary.empty_keys < SHOWN {
            tracing::info!("skipping empty key: {}", key.escape_ascii());
        }
        self.summary.empty_keys += 1;
    }
}

/// The name of a module: nine characters of six bits each, before ten bits of a version.
fn module_name(id: u64) -> String {
    const CHARACTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    (0..9).rev().map(|place| char::from(CHARACTERS[(id >> (10 + 6 * place) & 63) as usize])).collect()
}

/// A time before 1970 has also passed.
fn deadline(ms: i64) -> u64 {
    u64::try_from(ms).unwrap_or(0).max(1)
}

/// Skips the data of a module: parts, each with its type.
fn pass_over_module(reader: &mut Reader<'_>) -> Result<(), Malformed> {
    loop {
        match reader.length()? {
            0 => return Ok(()),
            1 | 2 => _ = reader.length()?,
            3 => _ = reader.take(4)?,
            4 => _ = reader.take(8)?,
            5 => _ = reader.string()?,
            _ => return Err(Malformed::Bad),
        }
    }
}
