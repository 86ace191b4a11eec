//! Segment files: a header, then records, framed and checksummed, so that changed bytes are detected.
//!
//! ```text
//! segment: magic 8 | salt u32 | CRC-32 of salt u32 | records
//! record:  length u64 | CRC-32 of payload u32 | CRC-32 of salt, length and payload's CRC u32 | payload
//! payload: effects of one command or transaction (see `keyspace::Effects`)  (all integers little endian)
//! ```
//!
//! A change over several shards at once is written whole into the segment of each. The length then has its highest bit
//! set, and before the effects are the number of the transaction and its shards, each with the number of records before
//! it there, all of which it may have seen; 0 if it read nothing, as MSET:
//!
//! ```text
//! payload: number u64 | shards u16 | (shard u16 | records u64) for each, in ascending order | effects
//! ```
//!
//! Control records have the second highest bit of the length set:
//!
//! ```text
//! payload: 1 u8 | epoch u64 | policy u8      the end of an epoch: one point in the order of all commands
//! payload: 2 u8 | position u64               the file is on the disk up to this position
//! payload: 3 u8 | increment u64              the end of the file: the segment goes on in the increment of this number
//! payload: 4 u8 | records u64                the end of a base: so many records of the segment are in it
//! ```
//!
//! The last record may be followed by zeros: space allocated ahead (see `LogFile::pad`). They are not part of the log.
//!
//! The check of the header distinguishes a damaged length from a torn end; the salt, random for each file, keeps
//! clients from storing values that look like records of it.

use super::fsync_policy::FsyncPolicy;
use crate::base::narrowing::{low_u8, size};
use crate::base::randomness::Randomness;
use crate::keyspace::{EFFECT_LEN_MAX, Effects};
use crate::resp::Span;
use crc::{CRC_32_ISO_HDLC, Crc};
use std::ops::BitXor;
use std::sync::Arc;

const MAGIC: &[u8; 8] = b"SRAOF\x00\x00\x01";
const FRAME_HEADER: usize = 16;

/// Makes the record headers of one segment unique to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Salt(pub u32);

impl Salt {
    /// One that nobody can guess.
    pub fn draw(randomness: &Randomness) -> Self {
        let mut bytes = [0; 4];
        randomness.fill(&mut bytes);
        Self(u32::from_le_bytes(bytes))
    }

    /// The CRC-32 of salt, length and payload's CRC. A CRC is linear: it is the CRC with zeros in the place of the
    /// payload's CRC, which therefore need not be known first, combined with the changes that its four bytes make.
    fn check(self, len: u64, payload_crc: u32) -> u32 {
        let bytes = (u128::from(self.0) | u128::from(len) << 32).to_le_bytes();
        let changes =
            CHANGED_BY.iter().zip(payload_crc.to_le_bytes()).map(|(changed_by, byte)| changed_by[usize::from(byte)]);
        crc32fast::hash(&bytes) ^ changes.fold(0, BitXor::bitxor)
    }
}

/// How each value of each of the last four of 16 bytes changes their CRC-32.
static CHANGED_BY: [[u32; 256]; 4] = {
    const CRC: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);
    let mut changed_by = [[0; 256]; 4];
    let (mut index, mut value) = (0, 0);
    while index < 4 {
        let mut bytes = [0; 16];
        bytes[12 + index] = low_u8(value as u64);
        changed_by[index][value] = CRC.checksum(&bytes) ^ CRC.checksum(&[0; 16]);
        value = (value + 1) % 256;
        index += (value == 0) as usize;
    }
    changed_by
};

/// The size of a segment's header.
pub const SEGMENT_HEADER: usize = 16;

/// How many bytes of an increment are on the disk before a manifest begins with it: its header, and a mark that all
/// segments have.
pub const BEGIN_LEN: usize = SEGMENT_HEADER + FRAME_HEADER + 10;

/// The header of a segment with this salt.
pub fn segment_header(salt: Salt) -> [u8; SEGMENT_HEADER] {
    let mut header = [0; SEGMENT_HEADER];
    let salt = salt.0.to_le_bytes();
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&salt);
    header[12..].copy_from_slice(&crc32fast::hash(&salt).to_le_bytes());
    header
}

/// The beginning of a segment file.
#[derive(Debug, PartialEq, Eq)]
pub enum Header {
    /// A whole header.
    Whole(Salt),
    /// A header that the file ends within.
    Torn,
    /// Something else.
    Foreign,
}

/// Reads the header of a segment.
pub fn decode_header(bytes: &[u8]) -> Header {
    let magic_len = bytes.len().min(MAGIC.len());
    if bytes[..magic_len] != MAGIC[..magic_len] {
        return Header::Foreign;
    }
    if bytes.len() < SEGMENT_HEADER {
        return Header::Torn;
    }
    if crc32fast::hash(&bytes[8..12]) == u32_at(bytes, 12) {
        Header::Whole(Salt(u32_at(bytes, 8)))
    } else {
        Header::Foreign
    }
}

/// Marks the length of a cross-shard record.
const CROSS_SHARD: u64 = 1 << 63;
/// Marks the length of a control record.
const CONTROL: u64 = 1 << 62;

/// Appends a record with this payload.
pub fn frame_onto(out: &mut Vec<u8>, salt: Salt, payload: &[u8]) {
    frame(out, salt, payload, 0);
}

/// Appends a control record.
pub fn frame_control_onto(out: &mut Vec<u8>, salt: Salt, record: ControlRecord) {
    let mut payload = [0; 10];
    let len = match record {
        ControlRecord::Epoch(epoch, policy) => {
            payload[0] = 1;
            payload[1..9].copy_from_slice(&epoch.to_le_bytes());
            payload[9] = policy as u8;
            10
        }
        ControlRecord::Synced(number) | ControlRecord::GoesOn(number) | ControlRecord::Base(number) => {
            payload[0] = match record {
                ControlRecord::GoesOn(_) => 3,
                ControlRecord::Base(_) => 4,
                ControlRecord::Synced(_) | ControlRecord::Epoch(..) => 2,
            };
            payload[1..9].copy_from_slice(&number.to_le_bytes());
            9
        }
    };
    frame(out, salt, &payload[..len], CONTROL);
}

/// A control record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlRecord {
    /// All records before it belong to an epoch that has ended, here and in all other segments: Unix time in
    /// milliseconds, and the policy at that time.
    Epoch(u64, FsyncPolicy),
    /// The file was on the disk up to this position when this was written.
    Synced(u64),
    /// The file ends; the increment of this number follows.
    GoesOn(u64),
    /// The base ends: it holds the state after this many records of the segment.
    Base(u64),
}

impl ControlRecord {
    fn parse(payload: &[u8]) -> Option<Self> {
        let (&kind, rest) = payload.split_first()?;
        let (number, rest) = rest.split_first_chunk::<8>()?;
        let number = u64::from_le_bytes(*number);
        match (kind, rest) {
            (1, &[policy]) => Some(Self::Epoch(number, FsyncPolicy::checked(policy)?)),
            (2, []) => Some(Self::Synced(number)),
            (3, []) => Some(Self::GoesOn(number)),
            (4, []) => Some(Self::Base(number)),
            _ => None,
        }
    }
}

/// Appends a record with a payload of [`cross_shard_payload`].
pub fn frame_cross_shard_onto(out: &mut Vec<u8>, salt: Salt, payload: &[u8]) {
    frame(out, salt, payload, CROSS_SHARD);
}

/// A shard whose segment has a cross-shard record, and how many records the record depends on there.
pub type Participant = (usize, u64);

/// The payload of a record that is in the segments of all `participants`.
pub fn cross_shard_payload(number: u64, participants: &[Participant], effects: &[u8]) -> Vec<u8> {
    let mut payload = number.to_le_bytes().to_vec();
    let number = |number: usize| u16::try_from(number).expect("there are 1024 shards at most").to_le_bytes();
    payload.extend(number(participants.len()));
    for &(shard, records) in participants {
        payload.extend(number(shard));
        payload.extend(records.to_le_bytes());
    }
    payload.extend_from_slice(effects);
    payload
}

/// The record of a command over several shards that reads nothing, such as MSET: the same for each of them. Whichever
/// segment survives restores the whole command.
#[derive(Debug, Clone)]
pub struct CommandRecord(Arc<[u8]>);

impl CommandRecord {
    /// The record of a command in a database, with a random number.
    pub fn new<'a>(
        number: u64,
        database: usize,
        words: impl ExactSizeIterator<Item = &'a [u8]>,
        shards: &[usize],
    ) -> Self {
        let mut effects = Effects::new(true);
        effects.select(database);
        effects.add(words);
        // Its effect does not depend on earlier records.
        let participants: Vec<Participant> = shards.iter().map(|&shard| (shard, 0)).collect();
        Self(cross_shard_payload(number, &participants, effects.payload()).into())
    }

    /// What a segment's frame is put around.
    pub fn payload(&self) -> &[u8] {
        &self.0
    }
}

/// A record of several segments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrossShardRecord<'a> {
    /// Which one: its copies have the same number.
    pub number: u64,
    /// The shards whose segments have it.
    pub participants: Vec<Participant>,
    /// Its changes.
    pub effects: &'a [u8],
}

impl<'a> CrossShardRecord<'a> {
    /// Reads a payload of [`cross_shard_payload`].
    pub fn parse(payload: &'a [u8]) -> Option<Self> {
        let (number, rest) = payload.split_first_chunk::<8>()?;
        let (count, rest) = rest.split_first_chunk::<2>()?;
        let (participants, effects) = rest.split_at_checked(10 * usize::from(u16::from_le_bytes(*count)))?;
        let participant = |bytes: &[u8; 10]| {
            let (shard, records) = bytes.split_first_chunk::<2>().expect("ten bytes are more than two");
            let records = records.first_chunk::<8>().expect("eight of ten are left");
            (usize::from(u16::from_le_bytes(*shard)), u64::from_le_bytes(*records))
        };
        let participants = participants.as_chunks::<10>().0.iter().map(participant).collect();
        Some(Self { number: u64::from_le_bytes(*number), participants, effects })
    }
}

/// How many bytes the record with this payload takes, frame included.
pub fn framed_len(payload: &[u8]) -> u64 {
    (FRAME_HEADER + payload.len()) as u64
}

fn frame(out: &mut Vec<u8>, salt: Salt, payload: &[u8], flag: u64) {
    let len = payload.len() as u64 | flag;
    let crc = crc32fast::hash(payload);
    let header = u128::from(len) | u128::from(crc) << 64 | u128::from(salt.check(len, crc)) << 96;
    out.reserve(FRAME_HEADER + payload.len());
    out.extend_from_slice(&header.to_le_bytes());
    out.extend_from_slice(payload);
}

/// The frame at the start of some bytes of a segment.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A whole record, and how many bytes it takes.
    Record(&'a [u8], usize),
    /// A whole record of several segments, and how many bytes it takes.
    CrossShard(&'a [u8], usize),
    /// A control record, and how many bytes it takes.
    Control(ControlRecord, usize),
    /// Nothing: the end.
    End,
    /// Not a whole record: the bytes end within it, or they were changed.
    Broken,
}

/// Reads the record at the start of `bytes`.
pub fn decode(bytes: &[u8], salt: Salt) -> Frame<'_> {
    if bytes.is_empty() {
        return Frame::End;
    }
    let Some((header, rest)) = bytes.split_at_checked(FRAME_HEADER) else { return Frame::Broken };
    let len = u64::from_le_bytes(*header.first_chunk().expect("a header is longer"));
    let crc = u32_at(header, 8);
    if salt.check(len, crc) != u32_at(header, 12) {
        return Frame::Broken;
    }
    // With one salt in four billion, zeros would be an empty record.
    if header.iter().all(|byte| *byte == 0) {
        return Frame::Broken;
    }
    match rest.get(..payload_len(len)) {
        Some(payload) if crc32fast::hash(payload) != crc => Frame::Broken,
        Some(payload) => frame_of(len, payload),
        None => Frame::Broken,
    }
}

/// Reads the record at the start of `bytes`, where [`decode`] has found a whole record or the end before: it is not
/// checked again.
pub fn decode_again(bytes: &[u8]) -> Frame<'_> {
    if bytes.is_empty() {
        return Frame::End;
    }
    let (header, rest) = bytes.split_at(FRAME_HEADER);
    let len = u64::from_le_bytes(*header.first_chunk().expect("a header is longer"));
    frame_of(len, &rest[..payload_len(len)])
}

/// The length of the payload, from the length in the header.
fn payload_len(len: u64) -> usize {
    size(len & !(CROSS_SHARD | CONTROL))
}

/// The kind of a record, from the length in its header.
fn frame_of(len: u64, payload: &[u8]) -> Frame<'_> {
    let framed_len = FRAME_HEADER + payload.len();
    if len & CONTROL != 0 {
        return ControlRecord::parse(payload).map_or(Frame::Broken, |record| Frame::Control(record, framed_len));
    }
    if len & CROSS_SHARD != 0 { Frame::CrossShard(payload, framed_len) } else { Frame::Record(payload, framed_len) }
}

/// Calls `apply` with the arguments of each effect of a payload: `(bytes, spans)` as `Args` takes them. The bytes are
/// those of the effect, so a payload may be longer than spans reach. `None` if it is not a list of effects.
pub fn for_each_effect<'p>(
    payload: &'p [u8],
    spans: &mut Vec<Span>,
    mut apply: impl FnMut(&'p [u8], &[Span]),
) -> Option<()> {
    let mut rest = payload;
    while !rest.is_empty() {
        let (effect, after) = split_effect(rest, spans)?;
        apply(effect, spans);
        rest = after;
    }
    Some(())
}

/// The first of some effects, the spans of its arguments, and the bytes after it. `None` if there is no whole effect,
/// or one that is longer than [`EFFECT_LEN_MAX`].
fn split_effect<'p>(bytes: &'p [u8], spans: &mut Vec<Span>) -> Option<(&'p [u8], &'p [u8])> {
    const NUMBER: usize = size_of::<u32>();
    let count = u32::from_le_bytes(*bytes.first_chunk()?);
    let mut position = NUMBER;
    spans.clear();
    for _ in 0..count {
        let len = u32::from_le_bytes(*bytes.get(position..)?.first_chunk()?);
        position += NUMBER;
        spans.push(Span { start: u32::try_from(position).ok()?, len });
        position += Span { start: 0, len }.range().end;
    }
    if position > EFFECT_LEN_MAX { None } else { bytes.split_at_checked(position) }
}

fn u32_at(bytes: &[u8], start: usize) -> u32 {
    let four = bytes[start..].first_chunk::<4>().expect("the caller holds four bytes");
    u32::from_le_bytes(*four)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALT: Salt = Salt(0x1234_5678);

    #[test]
    fn a_record_reads_back_and_a_cut_or_changed_one_does_not() {
        let mut bytes = Vec::new();
        frame_onto(&mut bytes, SALT, b"payload");
        let whole = bytes.len();
        assert_eq!(decode(&bytes, SALT), Frame::Record(b"payload", whole));
        assert_eq!(decode_again(&bytes), Frame::Record(b"payload", whole));
        assert_eq!(decode(&bytes, Salt(1)), Frame::Broken);
        assert_eq!((decode(&[], SALT), decode_again(&[])), (Frame::End, Frame::End));
        for cut in 1..whole {
            assert_eq!(decode(&bytes[..cut], SALT), Frame::Broken, "cut at {cut}");
        }
        for position in 0..whole {
            let mut damaged = bytes.clone();
            damaged[position] ^= 1;
            assert_eq!(decode(&damaged, SALT), Frame::Broken, "byte {position}");
        }
        assert_eq!(decode(&[0; 100], SALT), Frame::Broken);
        // The salt whose check of zeros is zero.
        let salt = Salt(0xc758_f1d7);
        assert_eq!(salt.check(0, 0), 0);
        assert_eq!(decode(&[0; 100], salt), Frame::Broken);
    }

    #[test]
    fn the_check_of_a_header_is_the_crc_of_salt_length_and_payload_s_crc() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..10_000 {
            let (salt, len, crc) = (random.u32(..), random.u64(..) >> random.u32(0..64), random.u32(..));
            let bytes = [&salt.to_le_bytes()[..], &len.to_le_bytes(), &crc.to_le_bytes()].concat();
            assert_eq!(Salt(salt).check(len, crc), crc32fast::hash(&bytes), "salt {salt}, length {len}, CRC {crc}");
        }
    }

    /// Pages of zeros that are never read take no memory.
    #[test]
    fn effects_after_the_first_4_gb_of_a_payload_are_read_as_those_before() {
        const LONG: u32 = 1 << 30;
        let mut payload = Vec::new();
        let mut ends = Vec::new();
        let total = 5 * (LONG as usize + 64);
        let mut bytes = vec![0; total];
        for number in 0..5u8 {
            payload.clear();
            payload.extend([3, 0, 0, 0, 3, 0, 0, 0, b'S', b'E', b'T', 1, 0, 0, 0, number]);
            payload.extend(LONG.to_le_bytes());
            let start = ends.last().copied().unwrap_or(0);
            bytes[start..start + payload.len()].copy_from_slice(&payload);
            ends.push(start + payload.len() + LONG as usize);
        }
        bytes.truncate(*ends.last().expect("there are five"));
        assert!(bytes.len() > u32::MAX as usize);
        let mut found = Vec::new();
        let read = for_each_effect(&bytes, &mut Vec::new(), |effect, spans| {
            let args = crate::resp::Args::new(effect, spans);
            found.push((args[0].to_vec(), args[1].to_vec(), args[2].len()));
        });
        let wanted: Vec<_> = (0..5).map(|number| (b"SET".to_vec(), vec![number], LONG as usize)).collect();
        assert_eq!((read, found), (Some(()), wanted));
    }

    #[test]
    fn an_effect_that_is_longer_than_spans_reach_is_none() {
        const LONG: u32 = 3 << 30;
        let mut bytes = vec![0; 2 * LONG as usize + 64];
        bytes[..8].copy_from_slice(&[[2, 0, 0, 0], LONG.to_le_bytes()].concat());
        bytes[8 + LONG as usize..][..4].copy_from_slice(&LONG.to_le_bytes());
        bytes.truncate(12 + 2 * LONG as usize);
        assert_eq!(for_each_effect(&bytes, &mut Vec::new(), |_, _| unreachable!("it is too long")), None);
        // Its second argument ends with it.
        let short = 100_u32;
        bytes[8 + LONG as usize..][..4].copy_from_slice(&short.to_le_bytes());
        bytes.truncate(12 + (LONG + short) as usize);
        let mut lens = Vec::new();
        let read = for_each_effect(&bytes, &mut Vec::new(), |_, spans| lens.extend(spans.iter().map(|span| span.len)));
        assert_eq!((read, lens), (Some(()), vec![LONG, short]));
    }

    #[test]
    fn a_cross_shard_record_reads_back() {
        let mut bytes = Vec::new();
        let payload = cross_shard_payload(7, &[(0, 9), (2, 0), (500, u64::MAX)], b"effects");
        frame_cross_shard_onto(&mut bytes, SALT, &payload);
        assert_eq!(decode(&bytes, SALT), Frame::CrossShard(&payload, bytes.len()));
        assert_eq!(decode_again(&bytes), Frame::CrossShard(&payload, bytes.len()));
        let record =
            CrossShardRecord { number: 7, participants: vec![(0, 9), (2, 0), (500, u64::MAX)], effects: b"effects" };
        assert_eq!(CrossShardRecord::parse(&payload), Some(record));
        (0..40).for_each(|cut| assert_eq!(CrossShardRecord::parse(&payload[..cut]), None, "cut at {cut}"));
    }

    #[test]
    fn control_records_read_back() {
        let epochs = [ControlRecord::Epoch(7, FsyncPolicy::Always), ControlRecord::Epoch(u64::MAX, FsyncPolicy::No)];
        for record in epochs.into_iter().chain([
            ControlRecord::Synced(9),
            ControlRecord::GoesOn(2),
            ControlRecord::Base(u64::MAX),
        ]) {
            let mut bytes = Vec::new();
            frame_control_onto(&mut bytes, SALT, record);
            assert_eq!(decode(&bytes, SALT), Frame::Control(record, bytes.len()));
            assert_eq!(decode_again(&bytes), Frame::Control(record, bytes.len()));
        }
        let mut bytes = Vec::new();
        frame(&mut bytes, SALT, b"?", CONTROL);
        assert_eq!(decode(&bytes, SALT), Frame::Broken, "a record of a kind that is not known");
    }

    #[test]
    fn a_header_reads_back_and_a_changed_one_is_foreign() {
        let header = segment_header(SALT);
        assert_eq!(decode_header(&header), Header::Whole(SALT));
        for cut in 0..header.len() {
            assert_eq!(decode_header(&header[..cut]), Header::Torn, "cut at {cut}");
        }
        for position in 0..header.len() {
            let mut damaged = header;
            damaged[position] ^= 1;
            assert_eq!(decode_header(&damaged), Header::Foreign, "byte {position}");
        }
    }
}
