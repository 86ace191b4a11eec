//! Conversions to narrower numbers, each named for what happens to values that do not fit.
//!
//! `as` does not say that, and has truncated a length more than once: clippy refuses it where it may lose bits
//! (`cast_possible_truncation`, on in `lib.rs`). A length that must fit is converted by `try_from`, with the name of
//! the invariant that bounds it; intended truncation, and conversions that lose nothing, are here.

#![allow(clippy::cast_possible_truncation, reason = "here it is said what becomes of it")]

// Lengths, offsets and counts are 64 bits wide, in memory as on disk.
const _: () = assert!(usize::BITS == u64::BITS, "Shardrace is built for 64-bit machines");

/// A 64-bit number as a length or an index: nothing is lost.
#[inline]
pub const fn size(number: u64) -> usize {
    number as usize
}

/// The lowest 8 bits.
#[inline]
pub const fn low_u8(bits: u64) -> u8 {
    bits as u8
}

/// The lowest 16 bits.
#[inline]
pub const fn low_u16(bits: u64) -> u16 {
    bits as u16
}

/// The lowest 32 bits.
#[inline]
pub const fn low_u32(bits: u64) -> u32 {
    bits as u32
}

/// The lowest 64 bits.
#[inline]
pub const fn low_u64(bits: u128) -> u64 {
    bits as u64
}

/// A number, clamped to the highest value: for the units of a duration, for example.
#[inline]
pub fn clamped_u64(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// The whole part of a number; 0 for negative numbers and NaN, and the highest value for larger ones.
#[inline]
pub const fn whole_u64(number: f64) -> u64 {
    number as u64
}

/// The whole part of a number; the nearest value if it is out of range, and 0 for NaN.
#[inline]
pub const fn whole_i64(number: f64) -> i64 {
    number as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_bits_are_kept_and_high_ones_cut() {
        let bits = 0x0123_4567_89ab_cdef;
        assert_eq!((low_u8(bits), low_u16(bits), low_u32(bits)), (0xef, 0xcdef, 0x89ab_cdef));
        assert_eq!(low_u64(u128::from(bits) << 8 | 1), 0x2345_6789_abcd_ef01);
        assert_eq!(size(u64::MAX), usize::MAX);
    }

    #[test]
    fn what_is_above_is_the_highest() {
        let most = u128::from(u64::MAX);
        assert_eq!(
            [most - 1, most, most + 1, u128::MAX].map(clamped_u64),
            [u64::MAX - 1, u64::MAX, u64::MAX, u64::MAX]
        );
    }

    #[test]
    fn whole_parts_stay_within_their_type() {
        assert_eq!((whole_u64(2.9), whole_u64(-1.0), whole_u64(f64::NAN), whole_u64(1e30)), (2, 0, 0, u64::MAX));
        assert_eq!((whole_i64(-2.9), whole_i64(f64::NAN), whole_i64(-1e30)), (-2, 0, i64::MIN));
    }
}
