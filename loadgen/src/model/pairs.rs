//! The model of SETs and GETs, small enough for many keys.

use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::Expected;
use crate::base::fnv::Fnv;
use crate::config::Config;
use crate::resp::Protocol;
use crate::workload::keys::KeyRange;
use crate::workload::values::{Stamp, Values, Written};

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
            let prefilled = config.prefill_keys();
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
        Expected::of_hash(self.expected)
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
    rng: SmallRng,
}

impl PrefillSizes {
    pub(crate) fn new(config: &Config) -> Self {
        let values = Values::new(&config.value_sizes, config.seed);
        Self { values, rng: SmallRng::seed_from_u64(config.seed) }
    }

    pub(crate) fn next(&mut self) -> usize {
        self.values.next_size(&mut self.rng)
    }
}

/// The first version of the key at this offset, as prefill writes it.
pub(crate) fn first_version(offset: u64, size: usize) -> Written {
    Written { size, stamp: stamp(offset as usize, 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_differ_by_key_and_by_version() {
        let mut stamps: Vec<Stamp> = (0..100).flat_map(|place| (1..100).map(move |v| stamp(place, v))).collect();
        stamps.sort_unstable();
        stamps.dedup();
        assert_eq!(stamps.len(), 9900);
    }
}
