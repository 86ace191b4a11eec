//! Requests of pairs, from prepared pieces.
//!
//! A request is encoded beforehand, up to the bytes of its value, for each number of digits that its
//! key may have: it is copied whole, and the digits are filled in; the value of a SET is a slice of a
//! random block. A request over several keys repeats this for each, and puts each key's place in its tag after the
//! digits.

use rand::Rng;
use rand::rngs::SmallRng;

use crate::base::random::scale;
use crate::config::{Config, Expiry};
use crate::workload::key_names::{KEY_DIGITS_MAX, key_endings};
use crate::workload::values::{Values, Written};

/// Writes SETs and GETs.
#[derive(Debug)]
pub(crate) struct Encoder {
    /// A SET up to its value.
    set: Form,
    get: Form,
    /// A further key of an MSET, up to its value.
    key_to_value: Form,
    /// A further key of an MGET.
    bare_key: Form,
    mset_head: Vec<u8>,
    mget_head: Vec<u8>,
    /// By member: what follows the digits. Empty if a key is on its own.
    endings: Vec<Vec<u8>>,
    /// The greatest tag if none are inserted, and its digits.
    tag_maximum: u64,
    digits_maximum: usize,
    values: Values,
    expiry: Option<Expiry>,
}

/// The prepared form of a key.
///
/// Invariant: a text has room for its digits, and for an ending, from `digits_from` on.
#[derive(Debug)]
struct Form {
    /// By the number of the tag's digits.
    texts: Vec<Text>,
}

#[derive(Debug)]
struct Text {
    bytes: Vec<u8>,
    digits_from: usize,
}

impl Encoder {
    pub(crate) fn new(config: &Config) -> Self {
        let keys = config.keys_per_tag();
        let opening = if keys == 1 { config.key_prefix.clone() } else { format!("{}{{", config.key_prefix) };
        let endings = key_endings(keys);
        let tag_maximum = config.tags().maximum;
        let values = Values::new(&config.value_sizes, config.seed);
        let form = |command: &str, after: &[u8]| Form::new(command, &opening, &endings[0], after);
        let to_value = [b"\r\n", values.prepared_head()].concat();
        let set_arguments = if config.expiry.is_some() { 5 } else { 3 };
        Self {
            set: form(&format!("*{set_arguments}\r\n$3\r\nSET\r\n"), &to_value),
            get: form("*2\r\n$3\r\nGET\r\n", b"\r\n"),
            key_to_value: form("", &to_value),
            bare_key: form("", b"\r\n"),
            mset_head: format!("*{}\r\n$4\r\nMSET\r\n", 1 + 2 * keys).into_bytes(),
            mget_head: format!("*{}\r\n$4\r\nMGET\r\n", 1 + keys).into_bytes(),
            endings,
            tag_maximum,
            digits_maximum: digits_of(tag_maximum),
            values,
            expiry: config.expiry,
        }
    }

    #[inline]
    pub(crate) fn append_set(&self, out: &mut Vec<u8>, tag: u64, member: usize, rng: &mut SmallRng) {
        self.append_form(out, &self.set, tag, member);
        self.values.append_after_head(out, rng);
        if let Some(expiry) = self.expiry {
            append_expiry(out, expiry, rng);
        }
    }

    /// Appends a SET of a value that begins with its stamp.
    pub(crate) fn append_set_stamped(&self, out: &mut Vec<u8>, tag: u64, member: usize, written: &Written) {
        self.append_form(out, &self.set, tag, member);
        self.values.append_stamped_after_head(out, written);
    }

    pub(crate) fn values(&self) -> &Values {
        &self.values
    }

    #[inline]
    pub(crate) fn append_get(&self, out: &mut Vec<u8>, tag: u64, member: usize) {
        self.append_form(out, &self.get, tag, member);
    }

    pub(crate) fn append_multi_key_head(&self, out: &mut Vec<u8>, is_set: bool) {
        out.extend_from_slice(if is_set { &self.mset_head } else { &self.mget_head });
    }

    /// Appends a key of a request over several, such as MGET.
    #[inline]
    pub(crate) fn append_further_key(&self, out: &mut Vec<u8>, tag: u64, member: usize) {
        self.append_form(out, &self.bare_key, tag, member);
    }

    /// Appends a key of an MSET and its value.
    #[inline]
    pub(crate) fn append_further_pair(&self, out: &mut Vec<u8>, tag: u64, member: usize, rng: &mut SmallRng) {
        self.append_form(out, &self.key_to_value, tag, member);
        self.values.append_after_head(out, rng);
    }

    /// Appends a key of an MSET and its value, which begins with its stamp.
    pub(crate) fn append_further_pair_stamped(&self, out: &mut Vec<u8>, tag: u64, member: usize, written: &Written) {
        self.append_form(out, &self.key_to_value, tag, member);
        self.values.append_stamped_after_head(out, written);
    }

    /// How many digits a tag has. Within the range few tags have far fewer than the greatest, so counting down from
    /// those takes a step or two.
    #[inline]
    fn digits(&self, tag: u64) -> usize {
        if tag > self.tag_maximum {
            return digits_of(tag);
        }
        let mut digits = self.digits_maximum;
        while digits > 1 && tag < TENS[digits - 1] {
            digits -= 1;
        }
        digits
    }

    // Always inlined: with several callers the compiler would call it, at 30 instructions a request.
    #[inline(always)]
    fn append_form(&self, out: &mut Vec<u8>, form: &Form, tag: u64, member: usize) {
        let digits = self.digits(tag);
        let Text { bytes, digits_from } = &form.texts[digits];
        let digits_from = out.len() + digits_from;
        out.extend_from_slice(bytes);
        let (places, rest) = out[digits_from..].split_at_mut(digits);
        fill_in(places, tag);
        let ending = &self.endings[member];
        if !ending.is_empty() {
            rest[..ending.len()].copy_from_slice(ending);
        }
    }
}

impl Form {
    fn new(command: &str, opening: &str, ending: &[u8], after: &[u8]) -> Self {
        let text = |digits: usize| {
            let before = format!("{command}${}\r\n{opening}", opening.len() + digits + ending.len());
            let digits_from = before.len();
            Text { bytes: [before.as_bytes(), &vec![b'0'; digits], ending, after].concat(), digits_from }
        };
        Self { texts: (0..=KEY_DIGITS_MAX).map(text).collect() }
    }
}

fn digits_of(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

/// Writes a number with as many digits as there are places, two at a time.
#[inline]
fn fill_in(places: &mut [u8], number: u64) {
    let mut rest = number;
    let mut pairs = places.rchunks_exact_mut(2);
    for pair in &mut pairs {
        pair.copy_from_slice(&TWO_DIGITS[(rest % 100) as usize]);
        rest /= 100;
    }
    if let [first] = pairs.into_remainder() {
        *first = b'0' + rest as u8;
    }
}

/// The powers of ten.
const TENS: [u64; KEY_DIGITS_MAX] = {
    let mut tens = [1; KEY_DIGITS_MAX];
    let mut at = 1;
    while at < KEY_DIGITS_MAX {
        tens[at] = tens[at - 1] * 10;
        at += 1;
    }
    tens
};

/// The numbers from 0 to 99.
static TWO_DIGITS: [[u8; 2]; 100] = {
    let mut texts = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        texts[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    texts
};

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
    fn keys_have_the_digits_of_their_number_whatever_the_range() {
        let tens = (0..KEY_DIGITS_MAX as u32).map(|power| 10u64.pow(power));
        let edges = tens.flat_map(|ten| [ten - 1, ten, ten + 1]);
        let numbers: Vec<u64> = edges.chain([42, 305, 4067, 1_234_567_890_123, u64::MAX]).collect();
        for maximum in ["1", "99", "100000"] {
            let encoder = encoder(&["--key-prefix", "k", "--key-minimum", "0", "--key-maximum", maximum]);
            for number in &numbers {
                let mut out = Vec::new();
                encoder.append_get(&mut out, *number, 0);
                let key = format!("k{number}");
                assert_eq!(out, format!("*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len()).as_bytes());
            }
        }
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
