//! The values of a load: how long the next one is, and its bytes.
//!
//! A value is a slice of one random block, so it costs only a copy. If replies are verified it begins with a stamp,
//! which identifies its key.

use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};

use crate::base::fnv::Fnv;
use crate::base::random::scale;
use crate::base::{Error, invalid};

/// The largest value that Redis takes.
pub(crate) const VALUE_BYTES_MAX: usize = 512 * 1024 * 1024;

/// How many places of the random block a value may begin at. A power of two.
pub(crate) const VALUE_OFFSETS: usize = 4096;

/// How long values are.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueSizes {
    /// All alike.
    Fixed(usize),
    /// Every length of a range equally likely.
    Range {
        /// The shortest.
        minimum: usize,
        /// The longest.
        maximum: usize,
    },
    /// Within a range, the k-th length with probability proportional to `1 / k`: mostly short.
    Skewed {
        /// The shortest, and most likely.
        minimum: usize,
        /// The longest.
        maximum: usize,
    },
    /// Some lengths, each with a weight.
    List(Vec<(usize, u32)>),
}

impl ValueSizes {
    /// `MIN-MAX`, and `R` (random) or `Z` (skewed to short ones).
    pub(crate) fn parse_range(text: &str, pattern: &str) -> Result<Self, Error> {
        let bounds = text.split_once('-').and_then(|(low, high)| Some((parse_size(low)?, parse_size(high)?)));
        let Some((minimum, maximum)) = bounds.filter(|(low, high)| low <= high) else {
            return invalid("--data-size-range", text, "expected MIN-MAX in bytes, such as 10-4096, up to 512 MB");
        };
        match pattern {
            "R" => Ok(Self::Range { minimum, maximum }),
            "Z" => Ok(Self::Skewed { minimum, maximum }),
            _ => invalid("--data-size-pattern", pattern, "expected R (random) or Z (mostly short)"),
        }
    }

    /// `SIZE:WEIGHT,SIZE:WEIGHT,…`
    pub(crate) fn parse_list(text: &str) -> Result<Self, Error> {
        let parse = |item: &str| {
            let (size, weight) = item.split_once(':')?;
            Some((parse_size(size)?, weight.trim().parse().ok()?))
        };
        let sizes: Option<Vec<(usize, u32)>> = text.split(',').map(parse).collect();
        match sizes.filter(|sizes| sizes.iter().any(|&(_, weight)| weight > 0)) {
            Some(sizes) => Ok(Self::List(sizes)),
            None => invalid("--data-size-list", text, "expected SIZE:WEIGHT,…, such as 32:90,1024:9,65536:1"),
        }
    }

    /// The longest value there can be.
    pub(crate) fn maximum(&self) -> usize {
        match self {
            Self::Fixed(size) => *size,
            Self::Range { maximum, .. } | Self::Skewed { maximum, .. } => *maximum,
            Self::List(sizes) => sizes.iter().map(|&(size, _)| size).max().unwrap_or(0),
        }
    }

    /// In the form of the flags.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Fixed(size) => size.to_string(),
            Self::Range { minimum, maximum } => format!("{minimum}-{maximum}"),
            Self::Skewed { minimum, maximum } => format!("{minimum}-{maximum} Z"),
            Self::List(sizes) => {
                sizes.iter().map(|(size, weight)| format!("{size}:{weight}")).collect::<Vec<_>>().join(",")
            }
        }
    }
}

fn parse_size(text: &str) -> Option<usize> {
    text.trim().parse().ok().filter(|&size| size <= VALUE_BYTES_MAX)
}

/// The stamp of a value.
pub(crate) type Stamp = [u8; 16];

/// A value that is being written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    pub(crate) size: usize,
    pub(crate) stamp: Stamp,
}

/// Cuts values from a random block.
#[derive(Debug)]
pub(crate) struct Values {
    draw: Draw,
    block: Vec<u8>,
}

#[derive(Debug)]
enum Draw {
    /// The head is prepared: `$32\r\n`.
    Fixed {
        size: usize,
        head: Vec<u8>,
    },
    Range {
        minimum: usize,
        span: u64,
    },
    Skewed {
        minimum: usize,
        zipf: Zipf<f64>,
    },
    /// Cumulative weights, each with its size.
    List {
        sums: Vec<(u64, usize)>,
        total: u64,
    },
}

impl Values {
    /// Every thread of a run cuts from the same block, the seed's.
    pub(crate) fn new(sizes: &ValueSizes, seed: u64) -> Self {
        let block = random_block(&mut SmallRng::seed_from_u64(seed), VALUE_OFFSETS);
        // A value longer than the block repeats it.
        let block = block.iter().copied().cycle().take(VALUE_OFFSETS + sizes.maximum()).collect();
        Self { draw: Draw::of(sizes), block }
    }

    /// The length of the next value.
    #[inline]
    pub(crate) fn next_size(&self, rng: &mut SmallRng) -> usize {
        match &self.draw {
            Draw::Fixed { size, .. } => *size,
            Draw::Range { minimum, span } => minimum + scale(rng.next_u64(), *span) as usize,
            Draw::Skewed { minimum, zipf } => minimum + zipf.sample(rng) as usize - 1,
            Draw::List { sums, total } => {
                let at = scale(rng.next_u64(), *total);
                sums[sums.partition_point(|&(sum, _)| sum <= at)].1
            }
        }
    }

    /// The constant beginning of every value, if there is one; otherwise empty. Callers that append it beforehand
    /// append the values "after their head".
    pub(crate) fn prepared_head(&self) -> &[u8] {
        if let Draw::Fixed { head, .. } = &self.draw { head } else { &[] }
    }

    /// Appends a value as a bulk string.
    #[inline]
    pub(crate) fn append(&self, out: &mut Vec<u8>, rng: &mut SmallRng) {
        out.extend_from_slice(self.prepared_head());
        self.append_after_head(out, rng);
    }

    /// Appends what follows [`Self::prepared_head`]: a value that begins at some place of the block.
    #[inline]
    pub(crate) fn append_after_head(&self, out: &mut Vec<u8>, rng: &mut SmallRng) {
        let size = self.next_size(rng);
        let from = rng.next_u64() as usize % VALUE_OFFSETS;
        self.append_drawn_head(out, size);
        out.extend_from_slice(&self.block[from..from + size]);
        out.extend_from_slice(b"\r\n");
    }

    /// Appends what follows [`Self::prepared_head`] of a value that begins with its stamp, or with as much of it as
    /// fits.
    pub(crate) fn append_stamped_after_head(&self, out: &mut Vec<u8>, written: &Written) {
        let (stamp, rest) = self.stamped(written.size, &written.stamp);
        self.append_drawn_head(out, written.size);
        out.extend_from_slice(stamp);
        out.extend_from_slice(rest);
        out.extend_from_slice(b"\r\n");
    }

    /// Adds the bulk string of a stamped value to a hash.
    pub(crate) fn hash_stamped(&self, hash: &mut Fnv, size: usize, stamp: &Stamp) {
        let (stamp, rest) = self.stamped(size, stamp);
        let mut digits = itoa::Buffer::new();
        for part in [b"$", digits.format(size).as_bytes(), b"\r\n", stamp, rest, b"\r\n"] {
            hash.add(part);
        }
    }

    fn stamped<'a>(&'a self, size: usize, stamp: &'a Stamp) -> (&'a [u8], &'a [u8]) {
        let stamped = size.min(stamp.len());
        (&stamp[..stamped], &self.block[..size - stamped])
    }

    /// Appends the head of a value whose size was drawn.
    #[inline]
    fn append_drawn_head(&self, out: &mut Vec<u8>, size: usize) {
        if !matches!(self.draw, Draw::Fixed { .. }) {
            out.push(b'$');
            out.extend_from_slice(itoa::Buffer::new().format(size).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }
}

impl Draw {
    fn of(sizes: &ValueSizes) -> Self {
        match sizes {
            ValueSizes::Fixed(size) => Draw::Fixed { size: *size, head: format!("${size}\r\n").into_bytes() },
            ValueSizes::Range { minimum, maximum } => {
                Draw::Range { minimum: *minimum, span: (maximum - minimum) as u64 + 1 }
            }
            ValueSizes::Skewed { minimum, maximum } => {
                let zipf = Zipf::new((maximum - minimum + 1) as f64, 1.0).expect("the range holds a size");
                Draw::Skewed { minimum: *minimum, zipf }
            }
            ValueSizes::List(sizes) => {
                let mut total = 0;
                let add = |&(size, weight): &(usize, u32)| {
                    total += u64::from(weight);
                    (total, size)
                };
                let sums = sizes.iter().map(add).collect();
                Draw::List { sums, total }
            }
        }
    }
}

/// An alphanumeric block from which values are cut.
fn random_block(rng: &mut SmallRng, bytes: usize) -> Vec<u8> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    (0..bytes).map(|_| ALPHABET[rng.random_range(0..64)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(sizes: &ValueSizes, count: usize) -> Vec<usize> {
        let mut rng = SmallRng::seed_from_u64(5);
        let values = Values::new(sizes, 5);
        (0..count).map(|_| values.next_size(&mut rng)).collect()
    }

    #[test]
    fn lengths_follow_their_distribution() {
        let range = sizes(&ValueSizes::parse_range("10-109", "R").expect("valid"), 100_000);
        assert!(range.iter().all(|size| (10..=109).contains(size)));
        let mean = range.iter().sum::<usize>() as f64 / 1e5;
        assert!((mean - 59.5).abs() < 0.5, "{mean}");
        let list = sizes(&ValueSizes::parse_list("32:90,1024:9,65536:1,7:0").expect("valid"), 100_000);
        let share = |size| list.iter().filter(|&&other| other == size).count();
        assert!((89_500..90_500).contains(&share(32)) && (8_500..9_500).contains(&share(1024)));
        assert_eq!(share(7), 0);
        let skewed = sizes(&ValueSizes::parse_range("1-100", "Z").expect("valid"), 100_000);
        assert!(skewed.iter().all(|size| (1..=100).contains(size)));
        let ones = skewed.iter().filter(|&&size| size == 1).count();
        // 1 / H(100) of them.
        assert!((18_600..19_950).contains(&ones), "{ones}");
    }

    #[test]
    fn bad_lengths_are_refused() {
        for text in ["", "5", "9-3", "-", "a-b", "0-536870913"] {
            assert!(ValueSizes::parse_range(text, "R").is_err(), "{text:?}");
        }
        for text in ["", "5", "5:0", "5:x", "536870913:1", "5:1,"] {
            assert!(ValueSizes::parse_list(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_value_is_a_bulk_string_of_its_length() {
        let mut rng = SmallRng::seed_from_u64(5);
        for wanted in [ValueSizes::Fixed(5), ValueSizes::Range { minimum: 5, maximum: 5 }] {
            let values = Values::new(&wanted, 5);
            let mut out = Vec::new();
            values.append(&mut out, &mut rng);
            assert!(out.starts_with(b"$5\r\n") && out.ends_with(b"\r\n") && out.len() == 11);
            out.clear();
            let stamp = *b"0123456789abcdef";
            out.extend_from_slice(values.prepared_head());
            values.append_stamped_after_head(&mut out, &Written { size: 5, stamp });
            assert_eq!(out, b"$5\r\n01234\r\n");
            let (mut own, mut other) = (Fnv::default(), Fnv::default());
            values.hash_stamped(&mut own, 5, &stamp);
            other.add(&out);
            assert_eq!(own, other);
        }
    }
}
