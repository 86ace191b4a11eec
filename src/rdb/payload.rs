//! The payloads of DUMP and RESTORE: one value, a version and a checksum.

use super::decode::Loaded;
use super::encode::{write_kind, write_value};
use super::file::{FUNCTION, write_functions};
use super::reader::Reader;
use super::{CRC64, Malformed, VALKEY, VERSION, VERSION_EXACT, VERSION_MAX, kind, stream_value};
use crate::keyspace::{Object, Settings, Value};
use std::borrow::Cow;

const VERSION_LEN: usize = 2;
const CRC_LEN: usize = 8;
/// The most bytes that the compressed strings of one payload may expand to: a few bytes can become hundreds.
const EXPANSION_MAX: usize = 1 << 30;

/// Why a payload is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Its version is too new, or it was changed.
    Footer,
    /// It is not a value, for this reason.
    Value(Malformed),
    /// It is a hash with a field that expires.
    FieldExpires,
}

/// The payload of a value. O(N)
pub fn dump(value: Value<'_>) -> Vec<u8> {
    let mut payload = Vec::new();
    write_kind(&mut payload, value);
    write_value(&mut payload, value);
    end(payload, VERSION)
}

/// The payload of a value with all its data, which Redis before 7.2 does not read. O(N)
pub fn dump_exactly(value: Value<'_>) -> Vec<u8> {
    let Value::Object(Object::Stream(stream)) = value else { return dump(value) };
    let mut payload = vec![kind::STREAM_3];
    stream_value::write_of(&mut payload, stream, kind::STREAM_3);
    end(payload, VERSION_EXACT)
}

fn end(mut payload: Vec<u8>, version: u16) -> Vec<u8> {
    payload.extend_from_slice(&version.to_le_bytes());
    let crc = CRC64.checksum(&payload);
    payload.extend_from_slice(&crc.to_le_bytes());
    payload
}

/// The payload of libraries of functions. O(N), N = bytes
pub fn dump_functions<'a>(sources: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut payload = Vec::new();
    write_functions(&mut payload, sources);
    end(payload, VERSION)
}

/// The sources of a payload of libraries of functions; the error is a reply. O(N), N = bytes
pub fn undump_functions(payload: &[u8], settings: &Settings) -> Result<Vec<Box<[u8]>>, &'static str> {
    /// The first byte of libraries before the first Redis with functions.
    const EARLY_FUNCTION: u8 = 0xF6;
    let (libraries, _) =
        without_footer(payload, settings).map_err(|_| "ERR DUMP payload version or checksum are wrong")?;
    let mut reader = Reader::within(libraries, EXPANSION_MAX);
    let mut sources = Vec::new();
    while reader.left() > 0 {
        match reader.byte() {
            Ok(FUNCTION) => {}
            Ok(EARLY_FUNCTION) => return Err("ERR Pre-GA function format not supported"),
            _ => return Err("ERR given type is not a function"),
        }
        let source = reader.string().map_err(|_| "ERR Failed loading library code")?;
        sources.push(source.as_ref().into());
    }
    Ok(sources)
}

/// The bytes before the version and the checksum, which are valid, and the version.
fn without_footer<'p>(payload: &'p [u8], settings: &Settings) -> Result<(&'p [u8], u16), Refusal> {
    let (rest, crc) = payload.split_last_chunk::<CRC_LEN>().ok_or(Refusal::Footer)?;
    let (value, version) = rest.split_last_chunk::<VERSION_LEN>().ok_or(Refusal::Footer)?;
    let version = u16::from_le_bytes(*version);
    let is_known = version <= VERSION_MAX || version == VALKEY;
    if !is_known || !(u64::from_le_bytes(*crc) == CRC64.checksum(rest) || settings.trusts_payloads()) {
        return Err(Refusal::Footer);
    }
    Ok((value, version))
}

/// The value of a payload. O(N)
pub fn undump(payload: &[u8], settings: &Settings) -> Result<Loaded, Refusal> {
    let (value, version) = without_footer(payload, settings)?;
    let mut reader = Reader::within(value, EXPANSION_MAX);
    reader.is_of_valkey = version == VALKEY;
    let kind = reader.byte().map_err(Refusal::Value)?;
    Loaded::read(kind, &mut reader, settings).map_err(|malformed| match malformed {
        Malformed::FieldExpires => Refusal::FieldExpires,
        other => Refusal::Value(other),
    })
}

/// An accepted payload, with the checksum that it should have: what is logged is replayed by a server that checks it.
/// O(1) if it was checked
pub fn sealed<'p>(payload: &'p [u8], settings: &Settings) -> Cow<'p, [u8]> {
    match payload.split_last_chunk::<CRC_LEN>() {
        Some((rest, _)) if settings.trusts_payloads() => {
            let crc = CRC64.checksum(rest).to_le_bytes();
            Cow::Owned([rest, &crc].concat())
        }
        _ => Cow::Borrowed(payload),
    }
}
