//! `--verify`: what every reply must be, from a model of the keys.
//!
//! So that each reply has exactly one right answer, every connection keeps to keys of its own (the
//! pattern still chooses, and the key chosen is taken to the nearest one of the connection's), and
//! all keys are deleted before the run, or set by `--prefill`. Values begin with a stamp of key and
//! version, so an old value, or another key's, is told from the right one.
//!
//! A reply is not kept to be compared: its bytes are hashed as they come (FNV-1a, which does not
//! mind how they are split), and so is what they should be when the request is made.

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

/// What a verified command does to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// SET key value
    Set,
    /// GET key
    Get,
    /// GETDEL key
    GetDel,
    /// DEL key, UNLINK key
    Delete,
    /// EXISTS key
    Exists,
    /// STRLEN key
    Length,
}

impl Effect {
    /// What a command of these words does; none for one that the model does not know.
    pub(crate) fn of(words: &[&str]) -> Option<Self> {
        let [command, "__key__", rest @ ..] = words else {
            return None;
        };
        match (command.to_ascii_uppercase().as_str(), rest) {
            ("SET", ["__data__"]) => Some(Self::Set),
            ("GET", []) => Some(Self::Get),
            ("GETDEL", []) => Some(Self::GetDel),
            ("DEL" | "UNLINK", []) => Some(Self::Delete),
            ("EXISTS", []) => Some(Self::Exists),
            ("STRLEN", []) => Some(Self::Length),
            _ => None,
        }
    }
}

/// The state of a key. All zero is a key that is not there, so that a large model costs memory only
/// for the keys in use.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    version: u32,
    /// The value's size and one; zero when there is none.
    size_and_one: u32,
}

/// What the keys of one thread hold.
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

    /// A key is being written: its new value, and the status that answers it.
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

    /// A command of a workload file; the value when it writes one.
    pub(crate) fn apply(&mut self, effect: Effect, key: u64, size: usize, values: &Values) -> Option<Written> {
        let place = self.place(key, 0);
        let there = self.entries[place].size_and_one > 0;
        match effect {
            Effect::Set => return Some(self.set(key, 0, size)),
            Effect::Get => self.get(key, 0, values),
            Effect::GetDel => {
                self.get(key, 0, values);
                self.entries[place].size_and_one = 0;
            }
            Effect::Delete => {
                self.expect(if there { b":1\r\n" } else { b":0\r\n" });
                self.entries[place].size_and_one = 0;
            }
            Effect::Exists => self.expect(if there { b":1\r\n" } else { b":0\r\n" }),
            Effect::Length => {
                let length = self.entries[place].size_and_one.saturating_sub(1);
                self.expect(format!(":{length}\r\n").as_bytes());
            }
        }
        None
    }

    /// The hash of the reply to the last request.
    pub(crate) fn expected(&self) -> Fnv {
        self.expected
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

/// The sizes that prefill gives to the keys, in their order: for prefill itself, and for the model.
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
    fn only_commands_that_the_model_knows_have_an_effect() {
        assert_eq!(Effect::of(&["set", "__key__", "__data__"]), Some(Effect::Set));
        assert_eq!(Effect::of(&["UNLINK", "__key__"]), Some(Effect::Delete));
        for words in
            [&["SET", "__key__", "x"][..], &["SET", "__key__", "__data__", "EX", "5"], &["GET", "k"], &["INCR"]]
        {
            assert_eq!(Effect::of(words), None, "{words:?}");
        }
    }
}
