//! Requests of pairs, from prepared pieces.
//!
//! A request is four copies: a head encoded beforehand (it depends on the command and the number
//! of digits of the key), the key's digits, and for a SET the head of the value and a slice of a
//! random block. A request over several keys repeats the same for each, and puts each key's place
//! in its tag behind the digits.

use rand::Rng;
use rand::rngs::SmallRng;

use crate::config::{Config, Expiry};
use crate::values::{Values, scale};
use crate::verify::Written;

pub(crate) const KEY_DIGITS_MAX: usize = 20;

/// Writes SETs and GETs.
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
    values: Values,
    expiry: Option<Expiry>,
}

impl Encoder {
    pub(crate) fn new(config: &Config) -> Self {
        let keys = config.keys_per_tag();
        let opening = if keys == 1 { config.key_prefix.clone() } else { format!("{}{{", config.key_prefix) };
        let endings = key_endings(keys);
        let heads = |command: &str| {
            let head = |digits: usize| {
                let length = opening.len() + digits + endings[0].len();
                format!("{command}${length}\r\n{opening}").into_bytes()
            };
            (0..=KEY_DIGITS_MAX).map(head).collect()
        };
        let set_arguments = if config.expiry.is_some() { 5 } else { 3 };
        Self {
            set_heads: heads(&format!("*{set_arguments}\r\n$3\r\nSET\r\n")),
            get_heads: heads("*2\r\n$3\r\nGET\r\n"),
            key_heads: heads(""),
            mset_head: format!("*{}\r\n$4\r\nMSET\r\n", 1 + 2 * keys).into_bytes(),
            mget_head: format!("*{}\r\n$4\r\nMGET\r\n", 1 + keys).into_bytes(),
            endings,
            values: Values::new(&config.value_sizes, config.seed),
            expiry: config.expiry,
        }
    }

    #[inline]
    pub(crate) fn append_set(&self, out: &mut Vec<u8>, tag: u64, member: usize, rng: &mut SmallRng) {
        self.append_key(out, &self.set_heads, tag, member);
        self.append_value(out, rng);
        if let Some(expiry) = self.expiry {
            append_expiry(out, expiry, rng);
        }
    }

    /// Appends a SET of a value that begins with its stamp.
    pub(crate) fn append_set_stamped(&self, out: &mut Vec<u8>, tag: u64, member: usize, written: &Written) {
        self.append_key(out, &self.set_heads, tag, member);
        self.append_value_stamped(out, written);
    }

    /// Appends the end of the key's line and a value that begins with its stamp.
    pub(crate) fn append_value_stamped(&self, out: &mut Vec<u8>, written: &Written) {
        out.extend_from_slice(b"\r\n");
        self.values.append_stamped(out, written);
    }

    pub(crate) fn values(&self) -> &Values {
        &self.values
    }

    #[inline]
    pub(crate) fn append_get(&self, out: &mut Vec<u8>, tag: u64, member: usize) {
        self.append_key(out, &self.get_heads, tag, member);
        out.extend_from_slice(b"\r\n");
    }

    pub(crate) fn append_multi_key_head(&self, out: &mut Vec<u8>, is_set: bool) {
        out.extend_from_slice(if is_set { &self.mset_head } else { &self.mget_head });
    }

    /// Appends a key of a request over several, without its line end.
    #[inline]
    pub(crate) fn append_further_key(&self, out: &mut Vec<u8>, tag: u64, member: usize) {
        self.append_key(out, &self.key_heads, tag, member);
    }

    /// Appends the end of the key's line and a value.
    #[inline]
    pub(crate) fn append_value(&self, out: &mut Vec<u8>, rng: &mut SmallRng) {
        out.extend_from_slice(b"\r\n");
        self.values.append(out, rng);
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
}

fn append_expiry(out: &mut Vec<u8>, expiry: Expiry, rng: &mut SmallRng) {
    let mut buffer = itoa::Buffer::new();
    let span = expiry.maximum_ms - expiry.minimum_ms + 1;
    let digits = buffer.format(expiry.minimum_ms + scale(rng.next_u64(), span)).as_bytes();
    let mut length = itoa::Buffer::new();
    out.extend_from_slice(b"$2\r\nPX\r\n$");
    out.extend_from_slice(length.format(digits.len()).as_bytes());
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(digits);
    out.extend_from_slice(b"\r\n");
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
    use rand::SeedableRng;

    use super::*;
    use crate::cli::Cli;

    fn encoder(flags: &[&str]) -> Encoder {
        let cli = Cli::try_parse_from([&["loadgen"], flags].concat()).expect("valid flags");
        Encoder::new(&Config::from_flags(cli.run).expect("valid flags"))
    }

    fn rng() -> SmallRng {
        SmallRng::seed_from_u64(1)
    }

    #[test]
    fn requests_are_encoded_as_arrays_of_bulks() {
        let encoder = encoder(&["--key-prefix", "k-", "--data-size", "3"]);
        let mut out = Vec::new();
        encoder.append_get(&mut out, 120, 0);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$5\r\nk-120\r\n");
        out.clear();
        encoder.append_set(&mut out, u64::MAX, 0, &mut rng());
        let text = String::from_utf8(out).expect("alphanumeric");
        let value = text.strip_prefix("*3\r\n$3\r\nSET\r\n$22\r\nk-18446744073709551615\r\n$3\r\n");
        assert_eq!(value.map(str::len), Some("xyz\r\n".len()), "{text}");
    }

    #[test]
    fn a_set_with_an_expiry_has_it_in_milliseconds_within_its_range() {
        let encoder = encoder(&["--key-prefix", "k", "--data-size", "0", "--expiry-range", "0.5-10"]);
        let mut rng = rng();
        for _ in 0..100 {
            let mut out = Vec::new();
            encoder.append_set(&mut out, 1, 0, &mut rng);
            let text = String::from_utf8(out).expect("ASCII");
            let rest = text.strip_prefix("*5\r\n$3\r\nSET\r\n$2\r\nk1\r\n$0\r\n\r\n$2\r\nPX\r\n$").expect("the head");
            let (length, digits) = rest.trim_end().split_once("\r\n").expect("a length");
            assert_eq!(length.parse(), Ok(digits.len()));
            assert!((500..=10_000).contains(&digits.parse::<u64>().expect("digits")), "{digits}");
        }
    }

    #[test]
    fn keys_of_a_request_are_members_of_tags() {
        let encoder =
            encoder(&["--key-prefix", "k-", "--data-size", "0", "--keys-per-command", "20", "--key-maximum", "200"]);
        let mut rng = rng();
        let (mut mget, mut mset, mut get) = (Vec::new(), Vec::new(), Vec::new());
        let tags: Vec<u64> = (1..=20).collect();
        encoder.append_multi_key(&mut mget, false, &tags, &mut rng, None);
        assert!(mget.starts_with(b"*21\r\n$4\r\nMGET\r\n$8\r\nk-{1}:00\r\n$8\r\nk-{2}:01\r\n"));
        assert!(mget.ends_with(b"$9\r\nk-{20}:19\r\n"));
        encoder.append_multi_key(&mut mset, true, &[9; 20], &mut rng, None);
        assert!(mset.starts_with(b"*41\r\n$4\r\nMSET\r\n$8\r\nk-{9}:00\r\n$0\r\n\r\n$8\r\nk-{9}:01\r\n$0\r\n\r\n"));
        encoder.append_get(&mut get, 10, 7);
        assert_eq!(get, b"*2\r\n$3\r\nGET\r\n$9\r\nk-{10}:07\r\n");
    }

    #[test]
    fn values_of_any_size_fit_the_block() {
        for size in [0, 1, 4096, 3 * 4096 + 1] {
            let mut out = Vec::new();
            encoder(&["--data-size", &size.to_string()]).append_set(&mut out, 1, 0, &mut rng());
            assert!(out.len() > size);
        }
    }
}
