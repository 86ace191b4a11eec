//! HyperLogLog: how many different elements were seen, in 12 KB at most, with a standard error of 0.81 %.
//!
//! The value is a string in Redis's format, so that each server reads what the other wrote:
//!
//! ```text
//! "HYLL" | encoding u8 (0 dense, 1 sparse) | 3 bytes 0 | cached count u64 | registers      (little endian)
//! ```
//!
//! The highest bit of the cached count says that it is out of date. There are 2^14 registers: the low bits of an
//! element's hash choose one, and it keeps the longest run of zeros, plus one, that the high bits began with. See
//! `dense` and `sparse` for their encodings in the string, `estimate` for the count.

mod dense;
mod estimate;
mod sparse;

use crate::base::narrowing::{low_u8, low_u32, size, whole_u64};
use sparse::{Changing, Raised};
use std::fmt;

/// Registers of a HyperLogLog.
pub const REGISTERS: usize = 1 << INDEX_BITS;
const INDEX_BITS: u32 = 14;
/// The longest run that a hash can begin with: all of its high bits.
const RANK_MAX: u8 = low_u8((u64::BITS - INDEX_BITS + 1) as u64);

const MAGIC: &[u8; 4] = b"HYLL";
const ENCODING_AT: usize = 4;
const COUNT_AT: usize = 8;
const HEADER_LEN: usize = 16;
const OUTDATED: u8 = 0x80;

/// How registers are encoded in the string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Six bits for each.
    Dense,
    /// Runs of equal ones.
    Sparse,
}

/// The string has the header of a HyperLogLog, but invalid registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Corrupt;

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("INVALIDOBJ Corrupted HLL object detected")
    }
}

/// The encoding of a HyperLogLog; `None` if the string is none.
pub fn encoding(bytes: &[u8]) -> Option<Encoding> {
    if bytes.len() < HEADER_LEN || !bytes.starts_with(MAGIC) {
        return None;
    }
    match bytes[ENCODING_AT] {
        0 if bytes.len() == HEADER_LEN + dense::LEN => Some(Encoding::Dense),
        1 => Some(Encoding::Sparse),
        _ => None,
    }
}

/// A HyperLogLog without elements.
pub fn empty() -> Vec<u8> {
    let mut bytes = vec![0; HEADER_LEN];
    bytes[..MAGIC.len()].copy_from_slice(MAGIC);
    bytes[ENCODING_AT] = 1;
    bytes.extend_from_slice(&sparse::EMPTY);
    bytes
}

/// The count that was cached, if it is up to date.
pub fn cached_count(bytes: &[u8]) -> Option<u64> {
    let count = u64::from_le_bytes(*bytes[COUNT_AT..].first_chunk().expect("the caller has seen the header"));
    (bytes[HEADER_LEN - 1] & OUTDATED == 0).then_some(count)
}

/// Caches the count.
pub fn cache_count(bytes: &mut [u8], count: u64) {
    bytes[COUNT_AT..HEADER_LEN].copy_from_slice(&count.to_le_bytes());
}

/// Marks the cached count as out of date.
pub fn forget_count(bytes: &mut [u8]) {
    bytes[HEADER_LEN - 1] |= OUTDATED;
}

/// Adds an element to a dense one, O(1), and returns whether a register changed.
pub fn add_to_dense(bytes: &mut [u8], element: &[u8]) -> bool {
    let (index, rank) = place_of(element);
    dense::raise(&mut bytes[HEADER_LEN..], index, rank)
}

/// Adds elements, each in O(N) bytes to a sparse one; returns how many changed a register, and whether the string was
/// found corrupt, which stops it: elements added before stay. One that would get longer than `sparse_len_max` becomes
/// dense.
pub fn add_all<'a>(
    bytes: &mut Vec<u8>,
    elements: impl IntoIterator<Item = &'a [u8]>,
    sparse_len_max: usize,
) -> (usize, Result<(), Corrupt>) {
    let mut whole = Changing { bytes, byte_after: 0 };
    let mut changes = 0;
    for element in elements {
        let (index, rank) = place_of(element);
        match raise(&mut whole, index, rank, sparse_len_max) {
            Ok(is_raised) => changes += usize::from(is_raised),
            Err(corrupt) => return (changes, Err(corrupt)),
        }
    }
    (changes, Ok(()))
}

/// Raises a register to `rank` if it is lower, and returns whether it was.
fn raise(whole: &mut Changing<'_>, index: usize, rank: u8, sparse_len_max: usize) -> Result<bool, Corrupt> {
    if whole.bytes[ENCODING_AT] == 1 {
        match whole.raise(index, rank, sparse_len_max)? {
            Raised::No => return Ok(false),
            Raised::Yes => {
                forget_count(whole.bytes);
                return Ok(true);
            }
            Raised::DoesNotFit => _ = make_dense(whole.bytes)?,
        }
    }
    Ok(dense::raise(&mut whole.bytes[HEADER_LEN..], index, rank))
}

/// Makes a sparse one dense, O(1), and returns whether it was sparse.
pub fn make_dense(bytes: &mut Vec<u8>) -> Result<bool, Corrupt> {
    if bytes[ENCODING_AT] == 0 {
        return Ok(false);
    }
    let mut dense = vec![0; HEADER_LEN + dense::LEN];
    dense[..HEADER_LEN].copy_from_slice(&bytes[..HEADER_LEN]);
    dense[ENCODING_AT] = 0;
    sparse::for_each_run(&bytes[HEADER_LEN..], |range, rank| {
        if rank > 0 {
            range.for_each(|index| _ = dense::raise(&mut dense[HEADER_LEN..], index, rank));
        }
    })?;
    *bytes = dense;
    Ok(true)
}

/// About how many different elements were added. O(1)
pub fn count(bytes: &[u8]) -> Result<u64, Corrupt> {
    let mut histogram = [0; estimate::RANKS];
    let registers = &bytes[HEADER_LEN..];
    match bytes[ENCODING_AT] {
        0 => dense::for_each(registers, |_, rank| histogram[usize::from(rank)] += 1),
        _ => {
            sparse::for_each_run(registers, |range, rank| histogram[usize::from(rank)] += low_u32(range.len() as u64))?
        }
    }
    Ok(estimate::cardinality(&histogram))
}

/// The opcodes of a sparse one, as PFDEBUG DECODE shows them.
pub fn decoded(bytes: &[u8]) -> String {
    sparse::decoded(&bytes[HEADER_LEN..])
}

/// The registers of a dense one.
pub fn ranks_of_dense(bytes: &[u8]) -> Vec<u8> {
    let mut ranks = Vec::with_capacity(REGISTERS);
    dense::for_each(&bytes[HEADER_LEN..], |_, rank| ranks.push(rank));
    ranks
}

/// The registers of a union, one byte each.
pub struct Union {
    ranks: Box<[u8]>,
    has_dense: bool,
}

impl Default for Union {
    fn default() -> Self {
        Self { ranks: vec![0; REGISTERS].into(), has_dense: false }
    }
}

impl Union {
    /// Adds another HyperLogLog. O(1)
    pub fn add(&mut self, bytes: &[u8]) -> Result<(), Corrupt> {
        let registers = &bytes[HEADER_LEN..];
        let ranks = &mut self.ranks;
        if bytes[ENCODING_AT] == 0 {
            self.has_dense = true;
            dense::for_each(registers, |index, rank| ranks[index] = ranks[index].max(rank));
            return Ok(());
        }
        sparse::for_each_run(registers, |range, rank| {
            ranks[range].iter_mut().for_each(|present| *present = (*present).max(rank));
        })
    }

    /// About how many different elements were added to all of them together.
    pub fn count(&self) -> u64 {
        let mut histogram = [0; estimate::RANKS];
        self.ranks.iter().for_each(|rank| histogram[usize::from(*rank)] += 1);
        estimate::cardinality(&histogram)
    }

    /// Writes the union to one of its parts.
    pub fn write_to(&self, bytes: &mut Vec<u8>, sparse_len_max: usize) -> Result<(), Corrupt> {
        if self.has_dense {
            make_dense(bytes)?;
        }
        let mut whole = Changing { bytes, byte_after: 0 };
        for (index, &rank) in self.ranks.iter().enumerate().filter(|(_, rank)| **rank > 0) {
            // One that ended within an opcode can lose a register by a change; Redis ignores that.
            let _ = raise(&mut whole, index, rank, sparse_len_max);
        }
        forget_count(bytes);
        Ok(())
    }
}

/// The register of an element, and the rank that it raises it to.
fn place_of(element: &[u8]) -> (usize, u8) {
    const SEED: u64 = 0xadc8_3b19;
    let hash = murmur64a(element, SEED);
    let index = size(hash) % REGISTERS;
    let rank = (hash >> INDEX_BITS).trailing_zeros() + 1;
    (index, low_u8(rank.into()).min(RANK_MAX))
}

/// MurmurHash2 in its 64-bit variant (Austin Appleby, public domain), reading little endian.
fn murmur64a(bytes: &[u8], seed: u64) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    const R: u32 = 47;
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(M);
    let (words, rest) = bytes.as_chunks();
    for word in words {
        let mixed = u64::from_le_bytes(*word).wrapping_mul(M);
        hash = (hash ^ (mixed ^ mixed >> R).wrapping_mul(M)).wrapping_mul(M);
    }
    if !rest.is_empty() {
        let tail = rest.iter().rev().fold(0, |tail, &byte| tail << 8 | u64::from(byte));
        hash = (hash ^ tail).wrapping_mul(M);
    }
    hash = (hash ^ hash >> R).wrapping_mul(M);
    hash ^ hash >> R
}

/// Checks that registers keep their values, both encodings agree, and estimates are near the truth.
pub fn self_test(random: &mut fastrand::Rng) -> Result<(), String> {
    /// By how many standard errors an estimate may be off.
    const ERRORS_MAX: f64 = 6.0;
    const ELEMENTS: u64 = 100_000;
    dense::self_test(random)?;
    let seed = random.u64(..);
    let (mut sparse, mut dense) = (empty(), empty());
    make_dense(&mut dense).map_err(|error| error.to_string())?;
    let mut checkpoint = 1;
    for number in 1..=ELEMENTS {
        let element = (number ^ seed).to_le_bytes();
        add_to_dense(&mut dense, &element);
        add_all(&mut sparse, [&element[..]], 3000).1.map_err(|error| error.to_string())?;
        if number < checkpoint {
            continue;
        }
        let (one, other) = (count(&dense), count(&sparse));
        if one != other {
            return Err("dense/sparse disagree".to_owned());
        }
        let error = one.unwrap_or(0).abs_diff(number);
        let error_max = whole_u64((1.04 / (REGISTERS as f64).sqrt() * ERRORS_MAX * number as f64).ceil());
        if error > error_max {
            return Err(format!("Too big error. card:{number} abserr:{error}"));
        }
        checkpoint *= 10;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A simple model: the highest rank of each register.
    fn naive(elements: &[Vec<u8>]) -> Vec<u8> {
        let mut ranks = vec![0; REGISTERS];
        for (index, rank) in elements.iter().map(|element| place_of(element)) {
            ranks[index] = ranks[index].max(rank);
        }
        ranks
    }

    fn ranks(bytes: &[u8]) -> Vec<u8> {
        let mut union = Union::default();
        union.add(bytes).expect("the test's is well formed");
        union.ranks.to_vec()
    }

    fn elements(count: usize) -> impl Strategy<Value = Vec<Vec<u8>>> {
        proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 0..count)
    }

    #[test]
    fn the_self_test_passes() {
        assert_eq!(self_test(&mut fastrand::Rng::with_seed(1)), Ok(()));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn every_encoding_holds_the_registers_by_the_book(elements in elements(2_000), sparse_len_max in 0..6000usize) {
            let (mut bytes, mut dense) = (empty(), empty());
            make_dense(&mut dense).expect("an empty one is well formed");
            for element in &elements {
                let (changes, added) = add_all(&mut bytes, [&element[..]], sparse_len_max);
                added.expect("it is well formed");
                prop_assert_eq!(changes == 1, add_to_dense(&mut dense, element));
            }
            prop_assert_eq!(ranks(&bytes), naive(&elements));
            prop_assert_eq!(ranks_of_dense(&dense), naive(&elements));
            prop_assert_eq!(count(&bytes), count(&dense));
            prop_assert!(bytes.len() == HEADER_LEN + dense::LEN || bytes.len() <= sparse_len_max.max(HEADER_LEN + 2));
        }

        #[test]
        fn a_union_is_as_if_all_had_been_added_to_one(a in elements(800), b in elements(800), is_dense: bool) {
            let filled = |elements: &[Vec<u8>]| {
                let mut bytes = empty();
                let (_, added) = add_all(&mut bytes, elements.iter().map(Vec::as_slice), 3000);
                added.expect("it is well formed");
                bytes
            };
            let (mut left, right) = (filled(&a), filled(&b));
            if is_dense {
                make_dense(&mut left).expect("it is well formed");
            }
            let mut union = Union::default();
            union.add(&left).expect("it is well formed");
            union.add(&right).expect("it is well formed");
            union.write_to(&mut left, 3000).expect("it is well formed");
            let all = naive(&[a, b].concat());
            prop_assert_eq!(ranks(&left), all);
            prop_assert_eq!(count(&left), Ok(union.count()));
            prop_assert_eq!(cached_count(&left), None);
        }

        #[test]
        fn what_is_corrupt_is_told_and_breaks_nothing(
            body in proptest::collection::vec(any::<u8>(), 0..60),
            damaged in elements(60),
            flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            element: Vec<u8>,
            sparse_len_max in 0..4000usize,
        ) {
            let mut whole = empty();
            add_all(&mut whole, damaged.iter().map(Vec::as_slice), 3000).1.expect("it is well formed");
            for (at, byte) in flips {
                let at = HEADER_LEN + at.index(whole.len() - HEADER_LEN);
                whole[at] = byte;
            }
            for bytes in [[&empty()[..HEADER_LEN], &body].concat(), whole] {
                prop_assert_eq!(encoding(&bytes), Some(Encoding::Sparse));
                let counted = count(&bytes);
                prop_assert_eq!(Union::default().add(&bytes).is_ok(), counted.is_ok());
                prop_assert_eq!(make_dense(&mut bytes.clone()).is_ok(), counted.is_ok());
                decoded(&bytes);
                let mut changed = bytes.clone();
                let (changes, added) = add_all(&mut changed, [&element[..]], sparse_len_max);
                prop_assert!(counted.is_err() || added.is_ok());
                prop_assert!(changes == 1 || changed == bytes);
            }
        }
    }
}
