//! Compresses the strings of encoded keys.
//!
//! The owners of the keys only copy them. The thread that writes a snapshot calls this, so no client waits for it.

use super::encode::write_compressed;
use super::file::opcode;
use super::lzf::Compressor;
use super::reader::Reader;
use super::{Malformed, kind};

/// Shorter strings are written unchanged, as in Redis.
const LEN_MIN: usize = 21;
/// How many bytes of a string must be saved, as in Redis.
const SAVED_MIN: usize = 4;
/// Larger buffers are freed after use.
const BUFFER_KEPT: usize = 1 << 20;

/// Compresses keys encoded by [`FileKeys`](super::FileKeys).
#[derive(Debug, Default)]
pub struct Compression {
    compressor: Compressor,
    out: Vec<u8>,
    /// The string at hand.
    packed: Vec<u8>,
}

impl Compression {
    /// These whole keys, with their strings compressed. O(bytes)
    pub fn of(&mut self, keys: &[u8]) -> &[u8] {
        self.out.clear();
        self.out.shrink_to(BUFFER_KEPT);
        self.packed.shrink_to(BUFFER_KEPT);
        let mut walk = Walk { keys, reader: Reader::new(keys), copied: 0, compression: self };
        let walked = walk.all();
        // A string that is too long to be read stays as it is, with what follows.
        debug_assert!(matches!(walked, Ok(()) | Err(Malformed::TooLong(_))), "keys that are written can be read");
        let copied = walk.copied;
        self.out.extend_from_slice(&keys[copied..]);
        &self.out
    }
}

/// A walk over encoded keys.
struct Walk<'a> {
    keys: &'a [u8],
    reader: Reader<'a>,
    /// Up to where they are in the output.
    copied: usize,
    compression: &'a mut Compression,
}

impl Walk<'_> {
    fn all(&mut self) -> Result<(), Malformed> {
        while self.reader.left() > 0 {
            match self.reader.byte()? {
                opcode::SELECT => self.lengths(1)?,
                opcode::RESIZE => self.lengths(2)?,
                opcode::EXPIRE_MS => _ = self.reader.take(8)?,
                opcode::IDLE => self.lengths(1)?,
                opcode::FREQUENCY => _ = self.reader.byte()?,
                kind => {
                    self.string()?;
                    self.value(kind)?;
                }
            }
        }
        Ok(())
    }

    fn value(&mut self, kind: u8) -> Result<(), Malformed> {
        match kind {
            kind::STRING | kind::SET_INTSET | kind::HASH_LISTPACK | kind::SORTED_SET_LISTPACK => self.string(),
            kind::LIST_LISTPACKS => self.each(|walk| {
                walk.lengths(1)?;
                walk.string()
            }),
            kind::SET => self.each(Self::string),
            kind::HASH => self.each(|walk| {
                walk.string()?;
                walk.string()
            }),
            kind::SORTED_SET => self.each(|walk| {
                walk.string()?;
                walk.skip(size_of::<f64>())
            }),
            kind::STREAM_2 => self.stream(),
            unknown => Err(Malformed::Unknown(unknown)),
        }
    }

    /// [`stream_value`](super::stream_value) has the format.
    fn stream(&mut self) -> Result<(), Malformed> {
        const ID_LEN: usize = 16;
        self.each(|walk| {
            walk.string()?;
            walk.string()
        })?;
        // The number of entries, three IDs, and how many entries there ever were.
        self.lengths(1 + 3 * 2 + 1)?;
        self.each(|walk| {
            walk.string()?;
            walk.lengths(2 + 1)?;
            walk.each(|walk| {
                walk.skip(ID_LEN + size_of::<u64>())?;
                walk.lengths(1)
            })?;
            walk.each(|walk| {
                walk.string()?;
                walk.skip(size_of::<u64>())?;
                walk.each(|walk| walk.skip(ID_LEN))
            })
        })
    }

    /// A count, and this many parts.
    fn each(&mut self, mut part: impl FnMut(&mut Self) -> Result<(), Malformed>) -> Result<(), Malformed> {
        (0..self.reader.length()?).try_for_each(|_| part(self))
    }

    fn lengths(&mut self, count: usize) -> Result<(), Malformed> {
        (0..count).try_for_each(|_| self.reader.length().map(drop))
    }

    fn skip(&mut self, len: usize) -> Result<(), Malformed> {
        self.reader.take(len).map(drop)
    }

    fn string(&mut self) -> Result<(), Malformed> {
        let at = self.position();
        let Some(text) = self.reader.plain_string()?.filter(|text| text.len() >= LEN_MIN) else { return Ok(()) };
        let Compression { compressor, out, packed } = &mut *self.compression;
        packed.clear();
        if compressor.compress(text, packed, text.len() - SAVED_MIN) {
            out.extend_from_slice(&self.keys[self.copied..at]);
            write_compressed(out, packed, text.len());
            self.copied = self.position();
        }
        Ok(())
    }

    fn position(&self) -> usize {
        self.keys.len() - self.reader.left()
    }
}
