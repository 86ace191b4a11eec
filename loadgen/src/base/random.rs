//! Random bits, as numbers of a range.

/// Maps 64 random bits to `0..count`, each value equally likely up to `count / 2^64`.
#[inline]
pub(crate) fn scale(bits: u64, count: u64) -> u64 {
    ((u128::from(bits) * u128::from(count)) >> 64) as u64
}
