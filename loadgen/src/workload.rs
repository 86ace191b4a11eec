//! Which request comes next, and its bytes.
//!
//! A request is four copies: a head encoded beforehand (it depends on the command and the number
//! of digits of the key), the key's digits, and for a SET the head of the value and a slice of a
//! random block.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::config::{Config, Ratio};
use crate::keys::{KeySource, Share, random_block};

/// The commands a workload is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum CommandKind {
    /// `SET key value`
    Set,
    /// `GET key`
    Get,
}

impl CommandKind {
    /// Every kind, at the index that it casts to.
    pub const ALL: [CommandKind; 2] = [CommandKind::Set, CommandKind::Get];

    /// The command's name, as sent and as the tag of its histograms.
    pub fn name(self) -> &'static str {
        match self {
            CommandKind::Set => "SET",
            CommandKind::Get => "GET",
        }
    }
}

/// How many places of the random block a value may begin at. A power of two.
const VALUE_OFFSETS: usize = 4096;
const KEY_DIGITS_MAX: usize = 20;

/// The endless sequence of requests of one thread; the same for the same seed.
#[derive(Debug)]
pub struct Workload {
    rng: SmallRng,
    mix: Mix,
    set_keys: KeySource,
    get_keys: KeySource,
    encoder: Encoder,
}

impl Workload {
    /// The requests of one thread.
    pub fn new(config: &Config, share: Share) -> Self {
        let seed = config.seed.wrapping_add((share.thread as u64) << 32);
        let mut rng = SmallRng::seed_from_u64(seed);
        Self {
            mix: Mix::new(config.ratio),
            set_keys: KeySource::new(config.set_pattern, config.keys, share),
            get_keys: KeySource::new(config.get_pattern, config.keys, share),
            encoder: Encoder::new(&config.key_prefix, config.data_size, &mut rng),
            rng,
        }
    }

    /// Appends the next request of connection number `client` of this thread.
    #[inline]
    pub fn append_next(&mut self, out: &mut Vec<u8>, client: usize) -> CommandKind {
        let kind = self.mix.next();
        match kind {
            CommandKind::Set => {
                let key = self.set_keys.next(&mut self.rng, client);
                self.encoder.append_set(out, key, self.rng.next_u64() as usize);
            }
            CommandKind::Get => {
                let key = self.get_keys.next(&mut self.rng, client);
                self.encoder.append_get(out, key);
            }
        }
        kind
    }
}

/// Spreads SETs evenly between GETs: exact in every `set + get` requests, without bursts.
///
/// Invariant: `owed < set + get`.
#[derive(Debug)]
struct Mix {
    set: u64,
    total: u64,
    owed: u64,
}

impl Mix {
    fn new(ratio: Ratio) -> Self {
        Self { set: u64::from(ratio.set), total: u64::from(ratio.set) + u64::from(ratio.get), owed: 0 }
    }

    #[inline]
    fn next(&mut self) -> CommandKind {
        self.owed += self.set;
        if self.owed < self.total {
            return CommandKind::Get;
        }
        self.owed -= self.total;
        CommandKind::Set
    }
}

/// Writes requests from prepared pieces.
#[derive(Debug)]
pub(crate) struct Encoder {
    set_heads: Vec<Vec<u8>>,
    get_heads: Vec<Vec<u8>>,
    value_head: Vec<u8>,
    block: Vec<u8>,
    data_size: usize,
}

impl Encoder {
    pub(crate) fn new(key_prefix: &str, data_size: usize, rng: &mut SmallRng) -> Self {
        let heads = |command: &str, arguments: usize| {
            let head = |digits: usize| {
                let (name, key) = (command.len(), key_prefix.len() + digits);
                format!("*{arguments}\r\n${name}\r\n{command}\r\n${key}\r\n{key_prefix}").into_bytes()
            };
            (0..=KEY_DIGITS_MAX).map(head).collect()
        };
        let mut block = random_block(rng, VALUE_OFFSETS);
        // A value longer than the block repeats it.
        block = block.iter().copied().cycle().take(VALUE_OFFSETS + data_size).collect();
        Self {
            set_heads: heads("SET", 3),
            get_heads: heads("GET", 2),
            value_head: format!("\r\n${data_size}\r\n").into_bytes(),
            block,
            data_size,
        }
    }

    #[inline]
    pub(crate) fn append_set(&self, out: &mut Vec<u8>, key: u64, random: usize) {
        let mut buffer = itoa::Buffer::new();
        let digits = buffer.format(key).as_bytes();
        let from = random % VALUE_OFFSETS;
        out.extend_from_slice(&self.set_heads[digits.len()]);
        out.extend_from_slice(digits);
        out.extend_from_slice(&self.value_head);
        out.extend_from_slice(&self.block[from..from + self.data_size]);
        out.extend_from_slice(b"\r\n");
    }

    #[inline]
    fn append_get(&self, out: &mut Vec<u8>, key: u64) {
        let mut buffer = itoa::Buffer::new();
        let digits = buffer.format(key).as_bytes();
        out.extend_from_slice(&self.get_heads[digits.len()]);
        out.extend_from_slice(digits);
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_exact_in_every_cycle_and_spread_within_it() {
        for (set, get) in [(1, 10), (10, 1), (5, 5), (3, 7), (0, 1), (1, 0), (1, 999)] {
            let mut mix = Mix::new(Ratio { set, get });
            for _ in 0..3 {
                let cycle: Vec<_> = (0..set + get).map(|_| mix.next()).collect();
                let sets = cycle.iter().filter(|&&kind| kind == CommandKind::Set).count();
                assert_eq!(sets, set as usize, "{set}:{get}");
            }
        }
        let mut even = Mix::new(Ratio { set: 5, get: 5 });
        assert!((0..10).all(|n| (even.next() == CommandKind::Set) == (n % 2 == 1)));
    }

    #[test]
    fn requests_are_encoded_as_arrays_of_bulks() {
        let mut rng = SmallRng::seed_from_u64(1);
        let encoder = Encoder::new("k-", 3, &mut rng);
        let mut out = Vec::new();
        encoder.append_get(&mut out, 120);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$5\r\nk-120\r\n");
        out.clear();
        encoder.append_set(&mut out, u64::MAX, 5);
        let value = String::from_utf8(encoder.block[5..8].to_vec()).expect("alphanumeric");
        let expected = format!("*3\r\n$3\r\nSET\r\n$22\r\nk-18446744073709551615\r\n$3\r\n{value}\r\n");
        assert_eq!(out, expected.as_bytes());
    }

    #[test]
    fn values_of_any_size_fit_the_block() {
        let mut rng = SmallRng::seed_from_u64(1);
        for size in [0, 1, VALUE_OFFSETS, 3 * VALUE_OFFSETS + 1] {
            let mut out = Vec::new();
            Encoder::new("", size, &mut rng).append_set(&mut out, 1, VALUE_OFFSETS - 1);
            assert!(out.len() > size);
        }
    }
}
