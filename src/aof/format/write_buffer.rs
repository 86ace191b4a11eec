//! The write buffer of a log file: memory that is a file, so that its contents survive a kill (docs/adr/0018).
//! `write/buffered_file.rs` writes it.
//!
//! ```text
//! NAME.aof.write-buffer:  slot | slot | ...       a slot:  header | bytes of the file
//! header: a descriptor | magic number | a descriptor
//! descriptor: number (8 bytes) | the offset of its bytes in the file (8) | how many (4) | their CRC-32 (4)
//!             | the file's salt (4) | CRC-32 of these (4)
//! ```
//!
//! A slot has two descriptors that are written in turn, so a kill always leaves one that is whole and describes bytes
//! that are there. The number of a descriptor is 0 while the rest of it is written. So a kill leaves a descriptor whole
//! or without a number, and one that is neither was damaged later; the magic number says that the descriptors of a slot
//! were written like this.
//! Slots are reused once the file has their bytes; a descriptor may describe bytes that the file already has.
//! Since the file only grows, writing those bytes again changes nothing: all whole descriptors can be written back,
//! after a kill and after a power loss. This holds for the file that they were written for, which is identified by the
//! salt; descriptors of servers before format 4 of the manifest have none.

use super::manifest::{Chain, Manifest};
use super::record::{Header, SEGMENT_HEADER, Salt, decode_header};
use crate::aof::disk::Disk;
use crate::base::narrowing::size;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// The space before a slot's bytes.
pub const SLOT_HEADER: usize = if cfg!(test) { 128 } else { 4096 };
/// Bytes in a slot: enough that the system call and the disk request cost little per byte. Tests have short logs.
pub const SLOT_LEN: usize = if cfg!(test) { 64 } else { 1024 * 1024 };
/// A byte of the file has an address with the same remainder: whole pages can bypass the page cache.
pub const ALIGNMENT: u64 = if cfg!(test) { 16 } else { 4096 };
const DESCRIPTOR_LEN: usize = 32;
/// The distance from the first descriptor to the second.
pub const DESCRIPTOR_STEP: usize = 64;
/// The magic number of a slot, and its position. Servers before it wrote descriptors in any order, which a kill could
/// tear.
pub const MAGIC: (u64, usize) = (u64::from_le_bytes(*b"in order"), DESCRIPTOR_LEN);
/// The end of a buffer's name, after the name of its file. It implies the length of the slots.
const SUFFIX: &str = ".write-buffer";
/// The end in format 2 of the manifest, and the length of its slots.
const FORMAT_2: (&str, usize) = (".buffer", 256 * 1024);

/// The path of a file's buffer.
pub fn path_of(file: &Path) -> PathBuf {
    with_suffix(file, SUFFIX)
}

fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// The file that a buffer belongs to, and the length of the buffer's slots.
fn file_of(buffer: &Path) -> Option<(PathBuf, usize)> {
    let name = buffer.to_str()?;
    let (file, slot_len) = [(SUFFIX, SLOT_LEN), FORMAT_2]
        .into_iter()
        .find_map(|(suffix, slot_len)| Some((PathBuf::from(name.strip_suffix(suffix)?), slot_len)))?;
    Chain::chain_of(&file).map(|_| (file, slot_len))
}

/// The description of a slot's contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptor {
    /// A later one has a greater number.
    pub number: u64,
    /// The position of its bytes in the file.
    pub base: u64,
    /// How many.
    pub len: u32,
    /// Their CRC-32.
    pub crc: u32,
    /// The file's salt; servers before format 4 of the manifest wrote none.
    pub salt: Option<Salt>,
}

impl Descriptor {
    fn to_bytes(self) -> [u8; DESCRIPTOR_LEN] {
        let mut bytes = [0; DESCRIPTOR_LEN];
        bytes[..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.base.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.len.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.crc.to_le_bytes());
        let checked = self.salt.map_or(24, |salt| {
            bytes[24..28].copy_from_slice(&salt.0.to_le_bytes());
            28
        });
        let check = crc32fast::hash(&bytes[..checked]);
        bytes[checked..checked + 4].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// Its bytes, as words that are stored one by one.
    pub fn to_words(self) -> [u64; DESCRIPTOR_LEN / size_of::<u64>()] {
        let bytes = self.to_bytes();
        let (words, _) = bytes.as_chunks();
        std::array::from_fn(|index| u64::from_le_bytes(words[index]))
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.first_chunk::<DESCRIPTOR_LEN>()?;
        let word = |at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().expect("it is within a descriptor"));
        let long = |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().expect("it is within a descriptor"));
        let is_whole_with = |len: usize| crc32fast::hash(&bytes[..len]) == word(len);
        // A server before format 4 wrote no salt.
        let salt = is_whole_with(28).then(|| Salt(word(24)));
        let descriptor = Self { number: long(0), base: long(8), len: word(16), crc: word(20), salt };
        // The CRC of zeros may be zero.
        let is_whole = (salt.is_some() || is_whole_with(24)) && descriptor.number > 0;
        (is_whole && descriptor.base.checked_add(descriptor.len.into()).is_some()).then_some(descriptor)
    }

    /// Where its bytes end in the file.
    fn end(self) -> u64 {
        self.base + u64::from(self.len)
    }

    /// The bytes that it describes, if they are there.
    fn bytes_in(self, slot: &[u8]) -> Option<&[u8]> {
        let start = SLOT_HEADER + size(self.base % ALIGNMENT);
        let bytes = slot.get(start..start + self.len as usize)?;
        (crc32fast::hash(bytes) == self.crc).then_some(bytes)
    }
}

/// A piece of the file, and its position there.
type Piece<'a> = (u64, &'a [u8]);

/// The last contiguous part of the file that a buffer holds, in pieces. It includes everything that the file lacks; a
/// slot that was not used for long describes an earlier part. The error says why it is not a buffer of a file with this
/// salt.
fn pieces(buffer: &[u8], slot_len: usize, salt: Option<Salt>) -> io::Result<Vec<Piece<'_>>> {
    let descriptors: Vec<(Descriptor, &[u8])> =
        buffer.chunks_exact(SLOT_HEADER + slot_len).filter_map(descriptor).collect();
    let is_other =
        |(descriptor, _): &(Descriptor, &[u8])| salt.is_some() && descriptor.salt.is_some() && descriptor.salt != salt;
    if descriptors.iter().any(is_other) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is the write buffer of another file"));
    }
    let mut pieces: Vec<Piece<'_>> =
        descriptors.into_iter().map(|(descriptor, bytes)| (descriptor.base, bytes)).collect();
    pieces.sort_by_key(|(base, _)| *base);
    let goes_on = |pair: &[Piece<'_>]| pair[0].0 + pair[0].1.len() as u64 == pair[1].0;
    let first = pieces.windows(2).rposition(|pair| !goes_on(pair)).map_or(0, |before| before + 1);
    Ok(pieces.split_off(first))
}

/// The last whole descriptor of a slot, with the bytes that it describes.
fn descriptor(slot: &[u8]) -> Option<(Descriptor, &[u8])> {
    descriptors(slot).find_map(|descriptor| Some((descriptor, descriptor.bytes_in(slot)?)))
}

/// The whole descriptors of a slot, the last one first.
fn descriptors(slot: &[u8]) -> impl Iterator<Item = Descriptor> {
    let mut descriptors = [0, DESCRIPTOR_STEP].map(|at| Descriptor::parse(slot.get(at..at + DESCRIPTOR_LEN)?));
    descriptors.sort_by_key(|descriptor| std::cmp::Reverse(descriptor.map(|descriptor| descriptor.number)));
    descriptors.into_iter().flatten()
}

/// Whether a descriptor of a slot, or the magic number beside it, is one that no kill leaves.
fn has_damaged_descriptor(slot: &[u8]) -> bool {
    let word = |at: usize| u64::from_le_bytes(*slot[at..].first_chunk().expect("a slot begins with its header"));
    let (magic, at) = MAGIC;
    match word(at) {
        0 => false,
        found => {
            let is_damaged = |at: usize| word(at) != 0 && Descriptor::parse(&slot[at..at + DESCRIPTOR_LEN]).is_none();
            found != magic || is_damaged(0) || is_damaged(DESCRIPTOR_STEP)
        }
    }
}

/// Copies the contents of a buffer to their positions in the bytes of its file, given from `from` on; returns where
/// they differ from before.
///
/// Where the file's bytes differ from the buffer's, it was never synced up to there: the bytes after that are not part
/// of the log.
fn put_back(bytes: &mut Vec<u8>, from: u64, pieces: &[Piece<'_>]) -> Option<u64> {
    let mut changed = None;
    for (base, piece) in pieces {
        // After a hole, or before `from`: the file has it.
        let Some(at) = base.checked_sub(from).map(size).filter(|&at| at <= bytes.len()) else { continue };
        let same = bytes[at..].iter().zip(*piece).take_while(|(one, other)| one == other).count();
        if same < piece.len() {
            bytes.truncate(at + same);
            bytes.extend_from_slice(&piece[same..]);
            changed = changed.or(Some(base + same as u64));
        }
    }
    changed
}

/// The contents of a file, including those of its buffer.
pub fn read(disk: &dyn Disk, path: &Path) -> io::Result<Option<Vec<u8>>> {
    let Some(mut bytes) = disk.read(path)? else { return Ok(None) };
    let salt = match decode_header(&bytes[..bytes.len().min(SEGMENT_HEADER)]) {
        Header::Whole(salt) => Some(salt),
        Header::Torn | Header::Foreign => None,
    };
    for (suffix, slot_len) in [FORMAT_2, (SUFFIX, SLOT_LEN)] {
        let buffer = with_suffix(path, suffix);
        if let Some(held) = disk.read(&buffer)? {
            let describe = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", buffer.display()));
            put_back(&mut bytes, 0, &pieces(&held, slot_len, salt).map_err(describe)?);
        }
    }
    Ok(Some(bytes))
}

/// Refuses buffers that are not as a kill left them: what they held was acknowledged, and no power was lost that could
/// have taken it. Nothing is changed.
pub fn must_be_whole(disk: &dyn Disk, dir: &Path, manifest: &Manifest) -> Result<(), String> {
    for file in manifest.salts(dir).map(|(file, _)| file) {
        if let Some((buffer, reason)) = damage_of(disk, &file)? {
            return Err(format!(
                "{} is damaged: {reason}. It held writes that were acknowledged, and the machine was not started again \
                 since. Refusing to start with a part of the data; `shardrace check-aof` tells what could be saved. If \
                 {} is a copy that was made while its server ran, `shardrace check-aof --fix` makes it one that loads",
                buffer.display(),
                dir.display()
            ));
        }
    }
    Ok(())
}

/// The buffer of a file that is not as a kill left it, and what is wrong with it.
pub fn damage_of(disk: &dyn Disk, file: &Path) -> Result<Option<(PathBuf, String)>, String> {
    for (suffix, slot_len) in [FORMAT_2, (SUFFIX, SLOT_LEN)] {
        let buffer = with_suffix(file, suffix);
        let describe = |error: io::Error| format!("can't read {}: {error}", buffer.display());
        let Some(held) = disk.read(&buffer).map_err(describe)? else { continue };
        if let Some(reason) = damage(disk, file, &held, slot_len).map_err(describe)? {
            return Ok(Some((buffer, reason)));
        }
    }
    Ok(None)
}

/// Writes the contents of all buffers to their files and removes the buffers: the first thing a server does. The names
/// are as they are on the disk then: a buffer that came back with a power loss would belong to another file.
pub fn settle(disk: &dyn Disk, dir: &Path, manifest: &Manifest) -> Result<(), String> {
    let files = disk.list(dir).map_err(|error| format!("can't read {}: {error}", dir.display()))?;
    let named: BTreeMap<PathBuf, Option<Salt>> = manifest.salts(dir).collect();
    let mut is_changed = false;
    for buffer in files {
        let Some((file, slot_len)) = file_of(&buffer) else { continue };
        let describe = |error: io::Error| format!("can't settle {}: {error}", buffer.display());
        if let Some(salt) = named.get(&file) {
            settle_one(disk, &file, &buffer, slot_len, *salt).map_err(describe)?;
        }
        disk.remove(&buffer).map_err(describe)?;
        is_changed = true;
    }
    if is_changed {
        disk.sync_dir(dir).map_err(|error| format!("can't sync {}: {error}", dir.display()))?;
    }
    Ok(())
}

fn settle_one(disk: &dyn Disk, file: &Path, buffer: &Path, slot_len: usize, salt: Option<Salt>) -> io::Result<()> {
    let held = disk.read(buffer)?.unwrap_or_default();
    let pieces = pieces(&held, slot_len, salt)?;
    if let Some(reason) = damage(disk, file, &held, slot_len)? {
        let buffer = buffer.display();
        tracing::warn!("{buffer} is damaged, as a power loss may leave it: {reason}. Writes that it held are lost");
    }
    put_into_file(disk, file, &pieces)
}

fn put_into_file(disk: &dyn Disk, file: &Path, pieces: &[Piece<'_>]) -> io::Result<()> {
    let Some(&(from, _)) = pieces.first() else { return Ok(()) };
    let Some(mut bytes) = disk.read_from(file, from)? else { return Ok(()) };
    let len = bytes.len() as u64;
    let Some(changed) = put_back(&mut bytes, from, pieces) else { return Ok(()) };
    if changed < from + len {
        disk.cut(file, changed)?;
    }
    let file = disk.append_to(file)?;
    file.write_all(&bytes[size(changed - from)..])?;
    file.sync()
}

/// What is wrong with a buffer beside its file if a kill alone cannot have left them; a power loss can. How much is
/// lost is unknown, because nothing after a hole is restored.
///
/// After a kill bytes are there before their descriptor, the descriptor of a slot that is used again describes bytes
/// that the file has, and the file has everything before the slots that it lacks. At most one descriptor is not whole,
/// and it has no number. The last slot may be a part of zeros, if the kill came while the buffer grew.
///
/// Only the end of the file is read: what slots describe before the last pieces is left out.
fn damage(disk: &dyn Disk, file: &Path, buffer: &[u8], slot_len: usize) -> io::Result<Option<String>> {
    let slots = buffer.chunks_exact(SLOT_HEADER + slot_len);
    if slots.remainder().iter().any(|&byte| byte != 0) {
        return Ok(Some(format!("it ends at byte {}, within what it holds", buffer.len())));
    }
    let slot_start = |index: usize| index * (SLOT_HEADER + slot_len);
    if let Some(index) = slots.clone().position(has_damaged_descriptor) {
        return Ok(Some(format!("what it says at byte {} about its contents is wrong", slot_start(index))));
    }
    let pieces = pieces(buffer, slot_len, None)?;
    let from = pieces.first().map_or(0, |(base, _)| *base);
    let last = |slot| descriptors(slot).next();
    let lost = |(index, slot)| last(slot).filter(|last| last.bytes_in(slot).is_none()).map(|last| (index, last));
    let lost: Vec<(usize, Descriptor)> =
        slots.enumerate().filter_map(lost).filter(|(_, last)| last.end() > from).collect();
    let begin = lost.iter().map(|(_, last)| last.base).fold(from, u64::min);
    let Some(mut bytes) = disk.read_from(file, begin)?.filter(|bytes| begin + bytes.len() as u64 >= from) else {
        return missing(disk, file, from);
    };
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let changed = put_back(&mut bytes, begin, &pieces);
    if let Some(at) = changed.filter(|_| used > bytes.len()) {
        return Ok(Some(format!("it differs from {} at byte {at} of that", file.display())));
    }
    let is_in_file = |last: &Descriptor| {
        let start = size(last.base - begin);
        let bytes = start.checked_add(last.len as usize).and_then(|end| bytes.get(start..end));
        bytes.is_some_and(|bytes| crc32fast::hash(bytes) == last.crc)
    };
    let gone = lost.iter().find(|(_, last)| !is_in_file(last));
    Ok(gone.map(|(index, last)| {
        let (begin, end) = (last.base, last.end());
        format!("its checksum for bytes {begin} to {end} of the file is wrong, at byte {}", slot_start(*index))
    }))
}

/// The file does not reach the contents of its buffer. If it is not there at all, that is not for the buffer to say.
fn missing(disk: &dyn Disk, file: &Path, at: u64) -> io::Result<Option<String>> {
    let is_there = disk.read_from(file, 0)?.is_some();
    Ok(is_there.then(|| format!("what it holds goes on at byte {at} of {}, which ends before that", file.display())))
}

#[cfg(test)]
mod tests {
    use super::super::manifest::{Known, Layout};
    use super::super::record::segment_header;
    use super::*;
    use crate::aof::disk::SimDisk;
    use crate::aof::write::append_buffered;

    const SALT: Salt = Salt(9);

    fn path() -> PathBuf {
        Path::new("/log").join("chain-1.segment-0.aof")
    }

    /// What a server finds on a disk.
    fn found(disk: &SimDisk) -> Vec<u8> {
        found_and_damaged(disk).0
    }

    /// The same, and whether a start refuses it, if no power was lost.
    fn found_and_damaged(disk: &SimDisk) -> (Vec<u8>, bool) {
        let damaged = damage_of(disk, &path()).expect("nothing fails").is_some();
        let layout = Layout { engine: "mutex".into(), shards: 1 };
        let manifest = Manifest::of_chains(String::new(), vec![Chain::new(1, layout)]);
        let seen = read(disk, &path()).expect("nothing fails").unwrap_or_default();
        settle(disk, Path::new("/log"), &manifest).expect("nothing fails");
        let files = disk.files();
        assert_eq!(files.len(), 1, "a buffer is left: {files:?}");
        assert_eq!(files[&path()], seen, "a reader sees what a server does");
        (seen, damaged)
    }

    /// Bytes that identify their position: no part of them occurs twice.
    fn bytes(from: usize, len: usize) -> Vec<u8> {
        (from..from + len).map(|at| (at * 7919 / 13 + at) as u8).collect()
    }

    #[test]
    fn what_was_written_is_there_after_a_kill_at_any_moment_and_what_was_synced_after_a_power_loss() {
        for seed in 0..60 {
            let mut random = fastrand::Rng::with_seed(seed);
            let disk = SimDisk::default();
            let file = append_buffered(&disk, &path(), SALT).expect("nothing fails");
            disk.sync_dir(Path::new("/log")).expect("nothing fails");
            let (mut written, mut synced) = (0, 0);
            for _ in 0..60 {
                disk.keep_moments();
                let before = written;
                match random.u8(..10) {
                    0 => file.drain().expect("nothing fails"),
                    1 => {
                        file.drain().and_then(|()| file.pad(40)).and_then(|()| file.sync()).expect("nothing fails");
                        synced = written;
                    }
                    2 => file.trim().expect("nothing fails"),
                    3 => written += file.write_through(&bytes(written, 20)).expect("nothing fails"),
                    _ => {
                        let most = if random.u8(..8) == 0 { 400 } else { 40 };
                        let len = random.usize(1..most);
                        written += file.write(&bytes(written, len)).expect("nothing fails");
                    }
                }
                assert_eq!(file.end(), written as u64);
                for moment in disk.take_moments() {
                    let (found, is_damaged) = found_and_damaged(&moment);
                    let found = without_padding(found, written);
                    assert!(!is_damaged, "seed {seed}: a kill loses nothing");
                    assert!((before..=written).contains(&found), "seed {seed}: {found} of {before} to {written}");
                }
                assert_eq!(without_padding(found(&disk.after_kill()), written), written, "seed {seed}");
                let found = found(&disk.after_power_loss(&mut random));
                assert!(found.starts_with(&bytes(0, synced)), "seed {seed}: what was synced is not there");
            }
        }
    }

    /// How much of the written bytes is there. Only zeros may follow.
    fn without_padding(found: Vec<u8>, written: usize) -> usize {
        let expected = bytes(0, written);
        let same = found.iter().zip(&expected).take_while(|(one, other)| one == other).count();
        assert!(found[same..].iter().all(|&byte| byte == 0), "something else stands at {same}");
        same
    }

    #[test]
    fn a_buffer_of_a_file_that_the_log_does_not_have_is_taken_away() {
        let disk = SimDisk::default();
        let stray = Path::new("/log").join("chain-1.segment-7.incr-3.aof.write-buffer");
        disk.put(&stray, &[1; 500]);
        disk.put(&path(), b"log");
        assert_eq!(found(&disk), b"log");
    }

    #[test]
    fn a_buffer_of_format_2_is_put_back_by_who_reads_and_by_who_starts() {
        let (suffix, slot_len) = FORMAT_2;
        let disk = SimDisk::default();
        disk.put(&path(), &bytes(0, 10));
        let slot = |base: usize, number| {
            let content = bytes(base, 10);
            let crc = crc32fast::hash(&content);
            let descriptor = Descriptor { number, base: base as u64, len: 10, crc, salt: None };
            let mut slot = vec![0; SLOT_HEADER + slot_len];
            slot[..DESCRIPTOR_LEN].copy_from_slice(&descriptor.to_bytes());
            let start = SLOT_HEADER + base % ALIGNMENT as usize;
            slot[start..start + 10].copy_from_slice(&content);
            slot
        };
        disk.put(&with_suffix(&path(), suffix), &[slot(10, 1), slot(20, 2)].concat());
        assert_eq!(found(&disk), bytes(0, 30));
    }

    #[test]
    fn a_buffer_of_another_file_is_refused_by_name_and_changes_nothing() {
        let disk = SimDisk::default();
        disk.put(&path(), &segment_header(Salt(8)));
        let file = append_buffered(&disk, &path(), SALT).expect("nothing fails");
        file.write_all(&bytes(16, 30)).expect("nothing fails");
        let mut chain = Chain::new(1, Layout { engine: "mutex".into(), shards: 1 });
        chain.known = vec![Known { salt: Salt(8), len: 16 }];
        let manifest = Manifest::of_chains(String::new(), vec![chain]);
        let disk = disk.after_kill();
        let refused = settle(&disk, Path::new("/log"), &manifest).expect_err("it is of another file");
        assert!(refused.contains("chain-1.segment-0.aof.write-buffer: it is the write buffer of another"), "{refused}");
        let refused = read(&disk, &path()).expect_err("it is of another file").to_string();
        assert!(refused.contains("chain-1.segment-0.aof.write-buffer: it is the write buffer of another"), "{refused}");
        assert_eq!(disk.files()[&path()].len(), 16);
    }

    #[test]
    fn a_buffer_with_any_byte_changed_gives_nothing_else_than_what_was_written() {
        let disk = SimDisk::default();
        let file = append_buffered(&disk, &path(), SALT).expect("nothing fails");
        (0..9).for_each(|part| file.write_all(&bytes(part * 20, 20)).expect("nothing fails"));
        let buffer = disk.files()[&path_of(&path())].clone();
        for position in 0..buffer.len() {
            let mut damaged = buffer.clone();
            damaged[position] ^= 1 << (position % 8);
            let disk = disk.after_kill();
            disk.put(&path_of(&path()), &damaged);
            let (found, is_damaged) = found_and_damaged(&disk);
            assert!(bytes(0, 180).starts_with(&found), "byte {position}");
            assert!(is_damaged || found.len() == 180, "byte {position}: {} bytes, and no damage", found.len());
        }
    }
}
