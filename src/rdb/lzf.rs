//! LZF, with which Redis compresses long strings. Only decompression.
//!
//! ```text
//! 000nnnnn                      n + 1 bytes follow as they are
//! nnnooooo oooooooo             n + 2 bytes from o + 1 bytes before, for n from 1 to 6
//! 111ooooo nnnnnnnn oooooooo    n + 9 bytes from o + 1 bytes before
//! ```
//!
//! A copy may overlap what it writes: it repeats. <http://oldhome.schmorp.de/marc/liblzf.html> has the format.

/// The most bytes that three bytes expand to.
const COPY_MAX: usize = 264;

/// The `len` bytes that `packed` expands to, if it has that length. Memory is allocated as bytes come, not according to
/// `len`.
pub fn decompress(packed: &[u8], len: usize) -> Option<Vec<u8>> {
    if len > packed.len().checked_mul(COPY_MAX)? {
        return None;
    }
    let mut out = Vec::new();
    let mut rest = packed;
    while let Some((&control, behind)) = rest.split_first() {
        rest = if control < 0b10_0000 {
            let (literal, behind) = behind.split_at_checked(usize::from(control) + 1)?;
            out.extend_from_slice(literal);
            behind
        } else {
            copy(control, behind, &mut out)?
        };
        if out.len() > len {
            return None;
        }
    }
    (out.len() == len).then_some(out)
}

/// Repeats a part of the output; returns the input after the instruction.
fn copy<'a>(control: u8, rest: &'a [u8], out: &mut Vec<u8>) -> Option<&'a [u8]> {
    const LONG: usize = 7;
    let short = usize::from(control >> 5);
    let (more, rest) = if short == LONG { rest.split_first()? } else { (&0, rest) };
    let (&low, rest) = rest.split_first()?;
    let distance = (usize::from(control & 0b1_1111) << 8 | usize::from(low)) + 1;
    let count = short + usize::from(*more) + 2;
    let start = out.len().checked_sub(distance)?;
    for index in start..start + count {
        let byte = out[index];
        out.push(byte);
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_redis_compressed_comes_back() {
        // "a" and a copy of 99 more from one byte before, as Redis stores 100 of them.
        assert_eq!(decompress(b"\x01aa\xE0\x59\x00", 100), Some(vec![b'a'; 100]));
        assert_eq!(decompress(b"\x02abc\x20\x02", 6), Some(b"abcabc".to_vec()));
        assert_eq!(decompress(b"", 0), Some(Vec::new()));
    }

    #[test]
    fn what_is_no_lzf_is_refused() {
        for (packed, len) in [
            (b"\x01a".as_slice(), 2),
            (b"\x00a\x20", 4),
            (b"\x00a\x20\x05", 4),
            (b"\x00a\xE0", 10),
            (b"\x00a", 2),
            (b"\x01ab", 1),
            (b"\x00a", usize::MAX),
            (b"", 1),
        ] {
            assert_eq!(decompress(packed, len), None, "{packed:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn any_bytes_give_so_many_or_none(packed in proptest::collection::vec(any::<u8>(), 0..200), len in 0..4000usize) {
            prop_assert!(decompress(&packed, len).is_none_or(|out| out.len() == len));
        }
    }
}
