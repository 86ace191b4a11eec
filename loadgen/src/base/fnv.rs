//! The hash of expected replies.

/// FNV-1a over 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }
}

impl Fnv {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut hash = Self::default();
        hash.add(bytes);
        hash
    }

    pub(crate) fn value(self) -> u64 {
        self.0
    }

    #[inline]
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_fnv_1a_and_does_not_mind_splits() {
        let hash = |parts: &[&[u8]]| {
            let mut fnv = Fnv::default();
            parts.iter().for_each(|part| fnv.add(part));
            fnv
        };
        assert_eq!(hash(&[b"a"]), Fnv(0xAF63_DC4C_8601_EC8C));
        assert_eq!(hash(&[b"foobar"]), Fnv(0x8594_4171_F739_67E8));
        assert_eq!(hash(&[b"foo", b"", b"bar"]), hash(&[b"foobar"]));
    }
}
