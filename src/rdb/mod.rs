//! Redis's RDB format: the payloads of DUMP and RESTORE, and snapshot files.
//!
//! ```text
//! file:    "REDIS" version (4 digits), or "VALKEY" version (3 digits) | opcode … | 0xFF | CRC-64 of all before, u64
//! opcode:  0xFA name value                 an auxiliary field, about the file
//!          0xFE number                     what follows is of this database
//!          0xFB keys, keys that expire     how many, to make room
//!          0xFC milliseconds i64 | 0xFD seconds i32    when the next key expires
//!          0xF8 seconds | 0xF9 u8          how long the next key was not used, or how often it was
//!          0xF4 slot, keys, keys that expire           how many keys of a slot of a cluster follow
//!          0xF5 code                       a library of functions
//!          type key value                  a key
//! payload: type value | version u16 | CRC-64 of all before, u64
//!
//! length:  00xxxxxx | 01xxxxxx xxxxxxxx | 0x80 u32 | 0x81 u64          (big endian)
//! string:  length bytes | 0xC0 i8 | 0xC1 i16 | 0xC2 i32 | 0xC3 length length LZF
//! ```
//!
//! All other integers are little endian. Values are a string, or counts and strings; or one string that is a listpack,
//! an intset, a ziplist or a zipmap. What is read is rebuilt element by element, because a payload is untrusted. Reads
//! the versions of Redis up to [`VERSION_MAX`], and [`VALKEY`]; writes [`VERSION`], which Redis 7.0 and later read.
//!
//! The format is described at <https://rdb.fnordig.de/file_format.html> and in the source of Redis (`rdb.c`).

mod compression;
mod decode;
mod encode;
mod file;
mod loaded_snapshot;
mod lzf;
mod payload;
mod reader;

mod stream_value;
#[cfg(test)]
mod tests;
mod ziplist;

pub use decode::Loaded;
pub use file::{FileKey, FileKeys, FileSummary, FileWriter, file_is_ours, is_snapshot, read_file};
pub use loaded_snapshot::{load, too_few_databases, twice};
pub use payload::{Refusal, dump, dump_exactly, dump_functions, sealed, undump, undump_functions};

use crate::base::limits::LEN_MAX;
use crc::{CRC_64_REDIS, Crc, Table};
use std::fmt;

/// The version that is written: that of Redis 7.0.
pub const VERSION: u16 = 10;
/// That of Redis 7.2, which has more data of streams.
const VERSION_EXACT: u16 = 11;
/// The newest version of Redis that is read: that of Redis 8.2.
pub const VERSION_MAX: u16 = 12;
/// That of Valkey 9. Numbers in between are unused.
pub const VALKEY: u16 = 80;

static CRC64: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);

/// What is wrong with bytes that should have this format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// They do not have it.
    Bad,
    /// They do not have it, for this reason.
    Because(&'static str),
    /// A collection without elements: such keys do not exist.
    Empty,
    /// A value of an unknown type.
    Unknown(u8),
    /// A string, or a field of a hash with its value, of this many bytes: more than the limit.
    TooLong(u64),
    /// A hash with a field that expires, which is not supported here.
    FieldExpires,
}

impl fmt::Display for Malformed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bad | Self::Empty => out.write_str("it is damaged, or ends"),
            Self::Because(reason) => write!(out, "it is damaged, or ends: {reason}"),
            Self::Unknown(kind) => write!(out, "a value of type {kind}, which is not known here"),
            Self::TooLong(len) => write!(
                out,
                "a string of {len} bytes, or as much of a field with its value; {LEN_MAX} bytes are held at most"
            ),
            Self::FieldExpires => {
                out.write_str("a field of the hash expires, and fields that expire are not supported here")
            }
        }
    }
}

/// The version of Redis whose commands these are: clients use it to decide which ones they can use.
pub const REDIS_VERSION: &str = "7.2.0";

/// The types of values, by the numbers that they have in a file.
mod kind {
    pub const STRING: u8 = 0;
    pub const LIST: u8 = 1;
    pub const SET: u8 = 2;
    pub const SORTED_SET_TEXT: u8 = 3;
    pub const HASH: u8 = 4;
    pub const SORTED_SET: u8 = 5;
    pub const MODULE: u8 = 7;
    pub const HASH_ZIPMAP: u8 = 9;
    pub const LIST_ZIPLIST: u8 = 10;
    pub const SET_INTSET: u8 = 11;
    pub const SORTED_SET_ZIPLIST: u8 = 12;
    pub const HASH_ZIPLIST: u8 = 13;
    pub const LIST_ZIPLISTS: u8 = 14;
    pub const STREAM: u8 = 15;
    pub const HASH_LISTPACK: u8 = 16;
    pub const SORTED_SET_LISTPACK: u8 = 17;
    pub const LIST_LISTPACKS: u8 = 18;
    pub const STREAM_2: u8 = 19;
    pub const SET_LISTPACK: u8 = 20;
    pub const STREAM_3: u8 = 21;
    /// Only of Valkey: a hash of fields with deadlines.
    pub const HASH_OF_VALKEY: u8 = 22;
    pub const HASH_DEADLINES: u8 = 24;
    pub const HASH_LISTPACK_DEADLINES: u8 = 25;
}

/// How a node of a list is stored.
mod container {
    pub const PLAIN: u64 = 1;
    pub const PACKED: u64 = 2;
}
