//! Which request comes next, and its bytes.
//!
//! A request is four copies: a head encoded beforehand (it depends on the command and the number
//! of digits of the key), the key's digits, and for a SET the head of the value and a slice of a
//! random block. A request over several keys repeats the same for each, and puts each key's place
//! in its tag behind the digits.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::config::Config;
use crate::keys::{KeySource, Share, random_block};
use crate::multi_key::MultiKeyDraw;

/// The commands a workload is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum CommandKind {
    /// `SET key value`
    Set,
    /// `GET key`
    Get,
    /// `MSET key value [key value ...]`
    MSet,
    /// `MGET key [key ...]`
    MGet,
}

impl CommandKind {
    /// Every kind, at the index that it casts to.
    pub const ALL: [CommandKind; 4] = [CommandKind::Set, CommandKind::Get, CommandKind::MSet, CommandKind::MGet];

    /// The command's name, as sent and as the tag of its histograms.
    pub fn name(self) -> &'static str {
        match self {
            CommandKind::Set => "SET",
            CommandKind::Get => "GET",
            CommandKind::MSet => "MSET",
            CommandKind::MGet => "MGET",
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
    sets: Turns,
    multi_key: Option<MultiKeyDraw>,
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
            sets: Turns::new(u64::from(config.ratio.set), u64::from(config.ratio.set) + u64::from(config.ratio.get)),
            multi_key: config.multi_key.map(|multi_key| MultiKeyDraw::new(&multi_key, config.tags())),
            set_keys: KeySource::new(config.set_pattern, config.tags(), share),
            get_keys: KeySource::new(config.get_pattern, config.tags(), share),
            encoder: Encoder::new(config, &mut rng),
            rng,
        }
    }

    /// Appends the next request of connection number `client` of this thread.
    #[inline]
    pub fn append_next(&mut self, out: &mut Vec<u8>, client: usize) -> CommandKind {
        let is_set = self.sets.next();
        let keys = if is_set { &mut self.set_keys } else { &mut self.get_keys };
        let mut member = 0;
        if let Some(multi_key) = &mut self.multi_key {
            if let Some(tags) = multi_key.next(is_set, keys, &mut self.rng, client) {
                return self.encoder.append_multi_key(out, is_set, tags, &mut self.rng);
            }
            member = multi_key.member(&mut self.rng);
        }
        let tag = keys.next(&mut self.rng, client);
        if is_set {
            self.encoder.append_set(out, tag, member, self.rng.next_u64() as usize);
            CommandKind::Set
        } else {
            self.encoder.append_get(out, tag, member);
            CommandKind::Get
        }
    }
}

/// Spreads a part of the requests evenly between the others: exact in every `total`, without bursts.
///
/// Invariant: `owed < total`.
#[derive(Debug)]
pub(crate) struct Turns {
    part: u64,
    total: u64,
    owed: u64,
}

impl Turns {
    /// `part` of every `total` requests, of which there is one at least.
    pub(crate) fn new(part: u64, total: u64) -> Self {
        Self { part, total, owed: 0 }
    }

    /// Whether the next request belongs to the part.
    #[inline]
    pub(crate) fn next(&mut self) -> bool {
        self.owed += self.part;
        if self.owed < self.total {
            return false;
        }
        self.owed -= self.total;
        true
    }
}

/// Writes requests from prepared pieces.
#[derive(Debug)]
pub(crate) struct Encoder {
    /// By the number of the tag's digits: the request up to them.
    set_heads: Vec<Vec<u8>>,
    get_heads: Vec<Vec<u8>>,
    /// By the same, a further key of a request.
    key_heads: Vec<Vec<u8>>,
    mset_head: Vec<u8>,
    mget_head: Vec<u8>,
    /// By member: what follows the digits. Nothing, where a key is on its own.
    endings: Vec<Vec<u8>>,
    value_head: Vec<u8>,
    block: Vec<u8>,
    data_size: usize,
}

impl Encoder {
    pub(crate) fn new(config: &Config, rng: &mut SmallRng) -> Self {
        let (keys, data_size) = (config.keys_per_tag(), config.data_size);
        let opening = if keys == 1 { config.key_prefix.clone() } else { format!("{}{{", config.key_prefix) };
        let endings = key_endings(keys);
        let heads = |command: &str| {
            let head = |digits: usize| {
                let length = opening.len() + digits + endings[0].len();
                format!("{command}${length}\r\n{opening}").into_bytes()
            };
            (0..=KEY_DIGITS_MAX).map(head).collect()
        };
        let mut block = random_block(rng, VALUE_OFFSETS);
        // A value longer than the block repeats it.
        block = block.iter().copied().cycle().take(VALUE_OFFSETS + data_size).collect();
        Self {
            set_heads: heads("*3\r\n$3\r\nSET\r\n"),
            get_heads: heads("*2\r\n$3\r\nGET\r\n"),
            key_heads: heads(""),
            mset_head: format!("*{}\r\n$4\r\nMSET\r\n", 1 + 2 * keys).into_bytes(),
            mget_head: format!("*{}\r\n$4\r\nMGET\r\n", 1 + keys).into_bytes(),
            endings,
            value_head: format!("\r\n${data_size}\r\n").into_bytes(),
            block,
            data_size,
        }
    }

    #[inline]
    pub(crate) fn append_set(&self, out: &mut Vec<u8>, tag: u64, member: usize, random: usize) {
        self.append_key(out, &self.set_heads, tag, member);
        self.append_value(out, random);
    }

    #[inline]
    fn append_get(&self, out: &mut Vec<u8>, tag: u64, member: usize) {
        self.append_key(out, &self.get_heads, tag, member);
        out.extend_from_slice(b"\r\n");
    }

    /// Appends an MSET or an MGET of the k-th member of the k-th tag, for each k.
    #[inline(never)]
    fn append_multi_key(&self, out: &mut Vec<u8>, is_set: bool, tags: &[u64], rng: &mut SmallRng) -> CommandKind {
        if is_set {
            out.extend_from_slice(&self.mset_head);
            for (member, &tag) in tags.iter().enumerate() {
                self.append_key(out, &self.key_heads, tag, member);
                self.append_value(out, rng.next_u64() as usize);
            }
            CommandKind::MSet
        } else {
            out.extend_from_slice(&self.mget_head);
            for (member, &tag) in tags.iter().enumerate() {
                self.append_key(out, &self.key_heads, tag, member);
                out.extend_from_slice(b"\r\n");
            }
            CommandKind::MGet
        }
    }

    // Always, because with four callers the compiler would call it, at 30 instructions a request.
    #[inline(always)]
    fn append_key(&self, out: &mut Vec<u8>, heads: &[Vec<u8>], tag: u64, member: usize) {
        let mut buffer = itoa::Buffer::new();
        let digits = buffer.format(tag).as_bytes();
        out.extend_from_slice(&heads[digits.len()]);
        out.extend_from_slice(digits);
        let ending = &self.endings[member];
        if !ending.is_empty() {
            out.extend_from_slice(ending);
        }
    }

    #[inline]
    fn append_value(&self, out: &mut Vec<u8>, random: usize) {
        let from = random % VALUE_OFFSETS;
        out.extend_from_slice(&self.value_head);
        out.extend_from_slice(&self.block[from..from + self.data_size]);
        out.extend_from_slice(b"\r\n");
    }
}

/// What follows the digits of a key, by member; all of one length. A key on its own ends with them.
fn key_endings(keys_per_tag: usize) -> Vec<Vec<u8>> {
    if keys_per_tag == 1 {
        return vec![Vec::new()];
    }
    let digits = (keys_per_tag - 1).to_string().len();
    (0..keys_per_tag).map(|member| format!("}}:{member:0digits$}").into_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

    fn encoder(flags: &[&str]) -> Encoder {
        let cli = Cli::try_parse_from([&["loadgen"], flags].concat()).expect("valid flags");
        Encoder::new(&Config::from_flags(cli.run).expect("valid flags"), &mut SmallRng::seed_from_u64(1))
    }

    #[test]
    fn the_share_is_exact_in_every_cycle_and_spread_within_it() {
        for (part, total) in [(1, 11), (10, 11), (5, 10), (3, 10), (0, 1), (1, 1), (1, 1000)] {
            let mut turns = Turns::new(part, total);
            for _ in 0..3 {
                let taken = (0..total).filter(|_| turns.next()).count();
                assert_eq!(taken as u64, part, "{part} of {total}");
            }
        }
        let mut even = Turns::new(5, 10);
        assert!((0..10).all(|n| even.next() == (n % 2 == 1)));
    }

    #[test]
    fn requests_are_encoded_as_arrays_of_bulks() {
        let encoder = encoder(&["--key-prefix", "k-", "--data-size", "3"]);
        let mut out = Vec::new();
        encoder.append_get(&mut out, 120, 0);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$5\r\nk-120\r\n");
        out.clear();
        encoder.append_set(&mut out, u64::MAX, 0, 5);
        let value = String::from_utf8(encoder.block[5..8].to_vec()).expect("alphanumeric");
        let expected = format!("*3\r\n$3\r\nSET\r\n$22\r\nk-18446744073709551615\r\n$3\r\n{value}\r\n");
        assert_eq!(out, expected.as_bytes());
    }

    #[test]
    fn keys_of_a_request_are_members_of_tags() {
        let encoder =
            encoder(&["--key-prefix", "k-", "--data-size", "0", "--keys-per-command", "20", "--key-maximum", "200"]);
        let mut rng = SmallRng::seed_from_u64(1);
        let (mut mget, mut mset, mut get) = (Vec::new(), Vec::new(), Vec::new());
        let tags: Vec<u64> = (1..=20).collect();
        encoder.append_multi_key(&mut mget, false, &tags, &mut rng);
        assert!(mget.starts_with(b"*21\r\n$4\r\nMGET\r\n$8\r\nk-{1}:00\r\n$8\r\nk-{2}:01\r\n"));
        assert!(mget.ends_with(b"$9\r\nk-{20}:19\r\n"));
        encoder.append_multi_key(&mut mset, true, &[9; 20], &mut rng);
        assert!(mset.starts_with(b"*41\r\n$4\r\nMSET\r\n$8\r\nk-{9}:00\r\n$0\r\n\r\n$8\r\nk-{9}:01\r\n$0\r\n\r\n"));
        encoder.append_get(&mut get, 10, 7);
        assert_eq!(get, b"*2\r\n$3\r\nGET\r\n$9\r\nk-{10}:07\r\n");
    }

    #[test]
    fn values_of_any_size_fit_the_block() {
        for size in [0, 1, VALUE_OFFSETS, 3 * VALUE_OFFSETS + 1] {
            let mut out = Vec::new();
            encoder(&["--data-size", &size.to_string()]).append_set(&mut out, 1, 0, VALUE_OFFSETS - 1);
            assert!(out.len() > size);
        }
    }
}
