//! `--verify`: what every reply must be, from a model of the keys.
//!
//! So that each reply has exactly one right answer, every connection is restricted to its own keys (the pattern still
//! chooses, and the chosen key is replaced by the nearest one of the connection's), and all keys are deleted before the
//! run, or set by `--prefill`. Values begin with a stamp of key and version, so an old value, or another key's, is
//! detected.
//!
//! The expected reply itself is not kept, only its hash (FNV-1a) when the request is made.
//!
//! [`Model`] is for SETs and GETs, and small enough for many keys; [`crate::mirror::Mirror`] is for the commands of
//! workload files.

use crate::config::{Config, KeyRange};
use crate::resp::Protocol;
use crate::values::Values;

/// The stamp of a value.
pub(crate) type Stamp = [u8; 16];

/// A value that is being written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    pub(crate) size: usize,
    pub(crate) stamp: Stamp,
}

/// The expected reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Expected {
    /// Of all bytes, or of the first line where elements have no order.
    hash: Fnv,
    /// Elements in any order: how many bulk strings form a unit, and the sum of the hashes of the units.
    unordered: Option<(usize, u64)>,
}

impl Expected {
    /// These bytes.
    pub(crate) fn exactly(reply: &[u8]) -> Self {
        Self { hash: Fnv::of(reply), unordered: None }
    }

    /// The elements of this aggregate of bulk strings, `together` as a unit, in any order.
    pub(crate) fn unordered(reply: &[u8], together: usize) -> Self {
        let (head, sum) = sum_of_elements(reply, together).expect("the model makes aggregates of bulk strings");
        Self { hash: Fnv::of(head), unordered: Some((together, sum)) }
    }

    /// Whether a reply is the expected one.
    pub(crate) fn is(&self, reply: &[u8]) -> bool {
        match self.unordered {
            None => self.hash == Fnv::of(reply),
            Some((together, expected)) => sum_of_elements(reply, together)
                .is_some_and(|(head, sum)| self.hash == Fnv::of(head) && expected == sum),
        }
    }
}

/// The first line, and the sum of the hashes of what follows; `None` if that is not bulk strings.
fn sum_of_elements(reply: &[u8], together: usize) -> Option<(&[u8], u64)> {
    let (head, mut rest) = split_line(reply)?;
    let mut sum = 0_u64;
    while !rest.is_empty() {
        let mut after = rest;
        for _ in 0..together {
            let (length, body) = split_line(after)?;
            let length: usize = std::str::from_utf8(length.strip_prefix(b"$")?).ok()?.trim_end().parse().ok()?;
            after = body.get(length.checked_add(2)?..)?;
        }
        sum = sum.wrapping_add(Fnv::of(&rest[..rest.len() - after.len()]).0);
        rest = after;
    }
    Some((head, sum))
}

/// A line with its end, and what follows.
fn split_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    Some(bytes.split_at(end + 1))
}

/// The state of a key. All zeros is a key that does not exist, so that a large model costs memory only for the keys in
/// use.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    version: u32,
    /// The value's size plus one; zero if there is none.
    size_and_one: u32,
}

/// The contents of the keys of one thread.
#[derive(Debug)]
pub(crate) struct Model {
    entries: Vec<Entry>,
    tags: KeyRange,
    members: usize,
    null: &'static [u8],
    expected: Fnv,
}

impl Model {
    /// All keys as they are after deleting and prefill.
    pub(crate) fn new(config: &Config) -> Self {
        let keys = usize::try_from(config.keys.count()).expect("the configuration bounds the keys of --verify");
        let mut model = Self {
            entries: vec![Entry::default(); keys],
            tags: config.tags(),
            members: config.keys_per_tag(),
            null: if config.protocol == Protocol::Resp3 { b"_\r\n" } else { b"$-1\r\n" },
            expected: Fnv::default(),
        };
        if config.prefill {
            let prefilled = crate::prefill::prefill_keys(config);
            let mut sizes = PrefillSizes::new(config);
            for offset in 0..prefilled {
                model.written(offset as usize, sizes.next());
            }
        }
        model
    }

    /// A key is being written: returns its new value; the expected reply is a status.
    pub(crate) fn set(&mut self, tag: u64, member: usize, size: usize) -> Written {
        self.expect(b"+OK\r\n");
        let place = self.place(tag, member);
        self.written(place, size)
    }

    /// A key is being read: its value or a null.
    pub(crate) fn get(&mut self, tag: u64, member: usize, values: &Values) {
        self.expected = Fnv::default();
        self.append_value(tag, member, values);
    }

    /// Several keys are being read.
    pub(crate) fn get_all(&mut self, tags: &[u64], values: &Values) {
        self.expect(format!("*{}\r\n", tags.len()).as_bytes());
        for (member, &tag) in tags.iter().enumerate() {
            self.append_value(tag, member, values);
        }
    }

    /// The expected reply to the last request.
    pub(crate) fn expected(&self) -> Expected {
        Expected { hash: self.expected, unordered: None }
    }

    fn place(&self, tag: u64, member: usize) -> usize {
        (tag - self.tags.minimum) as usize * self.members + member
    }

    fn written(&mut self, place: usize, size: usize) -> Written {
        let entry = &mut self.entries[place];
        entry.version += 1;
        entry.size_and_one = u32::try_from(size + 1).expect("values are at most 512 MB");
        Written { size, stamp: stamp(place, entry.version) }
    }

    fn expect(&mut self, reply: &[u8]) {
        self.expected = Fnv::default();
        self.expected.add(reply);
    }

    fn append_value(&mut self, tag: u64, member: usize, values: &Values) {
        let place = self.place(tag, member);
        let Entry { version, size_and_one } = self.entries[place];
        match size_and_one.checked_sub(1) {
            None => self.expected.add(self.null),
            Some(size) => values.hash_stamped(&mut self.expected, size as usize, &stamp(place, version)),
        }
    }
}

/// Sixteen digits that no other key and no other version has.
fn stamp(place: usize, version: u32) -> Stamp {
    // An odd factor makes every (place, version) another number as long as both are below 2^32.
    let mixed = ((place as u64) << 32 | u64::from(version)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut stamp = [0; 16];
    for (n, digit) in stamp.iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[(mixed >> (60 - 4 * n)) as usize & 15];
    }
    stamp
}

/// The sizes of the keys that prefill sets, in order: for prefill itself, and for the model.
pub(crate) struct PrefillSizes {
    values: Values,
    rng: rand::rngs::SmallRng,
}

impl PrefillSizes {
    pub(crate) fn new(config: &Config) -> Self {
        use rand::SeedableRng;
        let values = Values::new(&config.value_sizes, config.seed);
        Self { values, rng: rand::rngs::SmallRng::seed_from_u64(config.seed) }
    }

    pub(crate) fn next(&mut self) -> usize {
        self.values.next_size(&mut self.rng)
    }
}

/// The first version of the key at this offset, as prefill writes it.
pub(crate) fn first_version(offset: u64, size: usize) -> Written {
    Written { size, stamp: stamp(offset as usize, 1) }
}

/// FNV-1a over 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }
}

impl Fnv {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut hash = Self::default();
        hash.add(bytes);
        hash
    }

    #[inline]
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_fnv_1a_and_does_not_mind_splits() {
        let hash = |parts: &[&[u8]]| {
            let mut fnv = Fnv::default();
            parts.iter().for_each(|part| fnv.add(part));
            fnv
        };
        assert_eq!(hash(&[b"a"]), Fnv(0xAF63_DC4C_8601_EC8C));
        assert_eq!(hash(&[b"foobar"]), Fnv(0x8594_4171_F739_67E8));
        assert_eq!(hash(&[b"foo", b"", b"bar"]), hash(&[b"foobar"]));
    }

    #[test]
    fn stamps_differ_by_key_and_by_version() {
        let mut stamps: Vec<Stamp> = (0..100).flat_map(|place| (1..100).map(move |v| stamp(place, v))).collect();
        stamps.sort_unstable();
        stamps.dedup();
        assert_eq!(stamps.len(), 9900);
    }

    #[test]
    fn elements_without_an_order_may_come_in_any_and_must_all_be_there() {
        let expected = Expected::unordered(b"*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n", 2);
        assert!(expected.is(b"*4\r\n$1\r\nb\r\n$1\r\n2\r\n$1\r\na\r\n$1\r\n1\r\n"));
        for wrong in [
            &b"*4\r\n$1\r\na\r\n$1\r\n2\r\n$1\r\nb\r\n$1\r\n1\r\n"[..],
            b"*2\r\n$1\r\nb\r\n$1\r\n2\r\n",
            b"%2\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n",
            b"*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n",
            b"-ERR no\r\n",
            b"*4\r\n$99999999999999999999\r\n",
            b"",
        ] {
            assert!(!expected.is(wrong), "{}", wrong.escape_ascii());
        }
    }
}
