//! Snapshot files: every key of every database at one moment.

use super::decode::Loaded;
use super::encode::{write_kind, write_length, write_raw, write_value};
use super::reader::Reader;
use super::{CRC64, Malformed, VERSION, VERSION_MAX, kind};
use crate::keyspace::{LEN_MAX, Node};
use crate::spool::Encode;
use std::borrow::Cow;
use std::io::{self, Write};

const MAGIC: &[u8] = b"REDIS";
/// Versions before this have no checksum.
const FIRST_WITH_CRC: u32 = 5;

mod opcode {
    pub const FUNCTION: u8 = 0xF5;
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

/// A snapshot while it is written: what it begins with stands there.
#[derive(Debug)]
pub struct FileWriter<W> {
    out: W,
    digest: Digest,
}

struct Digest(crc::Digest<'static, u64, crc::Table<16>>);

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Digest")
    }
}

impl<W: Write> FileWriter<W> {
    /// Begins a snapshot of a Unix time in seconds.
    pub fn begin(out: W, created_s: u64) -> io::Result<Self> {
        let mut file = Self { out, digest: Digest(CRC64.digest()) };
        let mut start = format!("REDIS{VERSION:04}").into_bytes();
        let created = created_s.to_string();
        for (name, value) in [("redis-ver", crate::info::REDIS_VERSION), ("redis-bits", "64"), ("ctime", &created)] {
            start.push(opcode::AUX);
            write_raw(&mut start, name.as_bytes());
            write_raw(&mut start, value.as_bytes());
        }
        file.write(&start)?;
        Ok(file)
    }

    /// Appends what [`FileKeys`] has made of keys.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.digest.0.update(bytes);
        self.out.write_all(bytes)
    }

    /// Writes the end; gives how long it is.
    pub fn end(&mut self) -> io::Result<u64> {
        self.write(&[opcode::END])?;
        let crc = std::mem::replace(&mut self.digest, Digest(CRC64.digest())).0.finalize();
        self.out.write_all(&crc.to_le_bytes())?;
        Ok(1 + size_of_val(&crc) as u64)
    }

    /// What it is written to.
    pub fn out(&self) -> &W {
        &self.out
    }
}

/// How the keys of a snapshot are written: in any order, each behind the number of its database where that is another
/// one than that of the key before. Those that had expired when it began are left out.
#[derive(Debug)]
pub struct FileKeys {
    now_ms: u64,
    database: Option<usize>,
}

impl FileKeys {
    /// Before the first key of a snapshot of a Unix time in milliseconds.
    pub fn at(now_ms: u64) -> Self {
        Self { now_ms, database: None }
    }
}

impl Encode for FileKeys {
    fn encode(&mut self, out: &mut Vec<u8>, database: usize, node: &Node) -> Result<(), String> {
        if node.expire_at().is_some_and(|at| at <= self.now_ms) {
            return Ok(());
        }
        if self.database.replace(database) != Some(database) {
            out.push(opcode::SELECT);
            write_length(out, database as u64);
        }
        if let Some(at) = node.expire_at() {
            out.push(opcode::EXPIRE_MS);
            out.extend_from_slice(&at.to_le_bytes());
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
}

/// What was in a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileSummary {
    /// The version of the format.
    pub version: u32,
    /// The version of the server that wrote it, as it says.
    pub server: String,
    /// How many keys there were.
    pub keys: u64,
    /// How many bytes the snapshot takes: a log may follow it.
    pub len: usize,
    /// Values of modules, functions and the like that were passed over.
    pub passed_over: u64,
}

/// Reads a file; gives each key to `take`. The error says what is wrong with the file, and where.
pub fn read_file(bytes: &[u8], take: &mut dyn FnMut(FileKey<'_>) -> Result<(), String>) -> Result<FileSummary, String> {
    let (version, rest) = header(bytes)?;
    let mut file = FileReader {
        reader: Reader::new(rest),
        summary: FileSummary { version, ..FileSummary::default() },
        database: 0,
        expire_at: None,
    };
    loop {
        let at = bytes.len() - file.reader.left();
        match file.next(take) {
            Ok(true) => {}
            Ok(false) => break,
            Err(Stop::Refused(reason)) => return Err(reason),
            Err(Stop::Malformed(malformed)) => return Err(describe(malformed, at)),
        }
    }
    let end = bytes.len() - file.reader.left();
    let mut summary = file.summary;
    summary.len = end;
    if version >= FIRST_WITH_CRC {
        let crc = file.reader.array().map(u64::from_le_bytes).map_err(|_| "it ends before its checksum".to_owned())?;
        // Zero stands for none: `rdbchecksum no`.
        if crc != 0 && crc != CRC64.checksum(&bytes[..end]) {
            return Err("its checksum is wrong: it is damaged".into());
        }
        summary.len += 8;
    }
    Ok(summary)
}

fn header(bytes: &[u8]) -> Result<(u32, &[u8]), String> {
    let rest = bytes.strip_prefix(MAGIC).ok_or("it is no RDB file")?;
    let (digits, rest) = rest.split_first_chunk::<4>().ok_or("it is no RDB file")?;
    let version = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).ok_or("it is no RDB file")?;
    if version == 0 || version > u32::from(VERSION_MAX) {
        return Err(format!("it is of RDB version {version}; versions up to {VERSION_MAX} can be read"));
    }
    Ok((version, rest))
}

fn describe(malformed: Malformed, at: usize) -> String {
    match malformed {
        Malformed::Unknown(kind) => format!("at byte {at}: a value of type {kind}, which is not known here"),
        Malformed::Bad | Malformed::Empty => format!("at byte {at}: it is damaged, or ends"),
        Malformed::TooLong(len) => format!("at byte {at}: {}", too_long(len)),
    }
}

fn too_long(len: u64) -> String {
    format!("a string of {len} bytes, or as much of a field with its value; {LEN_MAX} bytes are held at most")
}

/// Why reading ends before the end.
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
    reader: Reader<'a>,
    summary: FileSummary,
    database: u64,
    expire_at: Option<u64>,
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
            opcode::RESIZE => _ = (reader.length()?, reader.length()?),
            opcode::IDLE => _ = reader.length()?,
            opcode::FREQUENCY => _ = reader.byte()?,
            opcode::AUX => {
                let (name, value) = (reader.string()?, reader.string()?);
                if name.as_ref() == b"redis-ver" {
                    self.summary.server = String::from_utf8_lossy(&value).into_owned();
                }
            }
            opcode::FUNCTION => {
                reader.string()?;
                self.summary.passed_over += 1;
            }
            opcode::MODULE_AUX => {
                let _module = reader.length()?;
                pass_over_module(reader)?;
                self.summary.passed_over += 1;
            }
            kind => self.key(kind, take)?,
        }
        Ok(true)
    }

    fn key(&mut self, kind: u8, take: &mut dyn FnMut(FileKey<'_>) -> Result<(), String>) -> Result<(), Stop> {
        let key = self.reader.string()?;
        let expire_at = self.expire_at.take();
        if kind == kind::MODULE {
            let _module = self.reader.length()?;
            pass_over_module(&mut self.reader)?;
            self.summary.passed_over += 1;
            return Ok(());
        }
        let value = match Loaded::read(kind, &mut self.reader) {
            // Redis passes over these, too: versions of it have written them.
            Err(Malformed::Empty) => return Ok(()),
            Err(Malformed::TooLong(len)) => {
                return Err(Stop::Refused(format!("the value of the key {}: {}", key.escape_ascii(), too_long(len))));
            }
            value => value?,
        };
        self.summary.keys += 1;
        take(FileKey { database: self.database, key, value, expire_at }).map_err(Stop::Refused)
    }
}

/// A time before 1970 has come as well as any.
fn deadline(ms: i64) -> u64 {
    u64::try_from(ms).unwrap_or(0).max(1)
}

/// Passes over what a module has written: parts, each with its type.
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
