//! Intsets: few integers in ascending order, in the format of Redis.
//!
//! ```text
//! Redis's:  | bytes of an integer, u32: 2, 4 or 8 | integers, u32 | integer | integer | ...      (little endian)
//! here:     | bytes of all, u32 | bytes of an integer, u32 | integer | integer | ...
//! ```
//!
//! All integers take as many bytes as the widest; an intset never becomes narrower. DUMP, RESTORE and RDB files carry
//! Redis's form, which [`to_bytes`](Intset::to_bytes) returns: it has the same length; here the length in bytes that a
//! [`ThinBuf`] needs replaces the count.

use crate::base::narrowing::low_u32;
use crate::keyspace::raw::thin_buf::ThinBuf;

const HEADER: usize = 8;

/// Different integers in ascending order, in one allocation.
#[derive(Clone)]
pub struct Intset(ThinBuf);

impl Default for Intset {
    fn default() -> Self {
        Self::new()
    }
}

impl Intset {
    /// An intset without integers.
    pub fn new() -> Self {
        Self(ThinBuf::new(&[&2_u32.to_le_bytes()]))
    }

    /// The intset in untrusted bytes, if they are one: each integer is checked. O(N)
    pub fn from_untrusted(bytes: &[u8]) -> Option<Self> {
        let (width_said, rest) = bytes.split_first_chunk()?;
        let (len_said, integers) = rest.split_first_chunk()?;
        let (width, len) = (u32::from_le_bytes(*width_said) as usize, u32::from_le_bytes(*len_said) as usize);
        let is_sound = matches!(width, 2 | 4 | 8)
            && len > 0
            && bytes.len() <= ThinBuf::LEN_MAX
            && len.checked_mul(width) == Some(integers.len());
        let intset = is_sound.then(|| Self(ThinBuf::new(&[width_said, integers])))?;
        intset.iter().is_sorted_by(|one, next| one < next).then_some(intset)
    }

    /// The bytes in Redis's format. O(N)
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.0.bytes()[4..].to_vec();
        bytes.splice(4..4, u32::try_from(self.len()).expect("LEN_MAX bounds its bytes").to_le_bytes());
        bytes
    }

    /// How many bytes are allocated.
    pub fn allocated(&self) -> usize {
        self.0.allocated()
    }

    /// How many integers there are.
    #[inline]
    pub fn len(&self) -> usize {
        (self.0.len() - HEADER) / self.width()
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.len() == HEADER
    }

    /// The integer at `index` in ascending order.
    #[inline]
    pub fn get(&self, index: usize) -> Option<i64> {
        (index < self.len()).then(|| self.at(index))
    }

    /// The integers in ascending order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = i64> + ExactSizeIterator + Clone {
        (0..self.len()).map(|index| self.at(index))
    }

    /// Whether an integer is there. O(log N)
    pub fn contains(&self, integer: i64) -> bool {
        width_for(integer) <= self.width() && self.search(integer).is_ok()
    }

    /// Adds an integer; false if it is there already. O(N)
    pub fn insert(&mut self, integer: i64) -> bool {
        if width_for(integer) > self.width() {
            self.widen(width_for(integer));
        }
        let Err(index) = self.search(integer) else { return false };
        let width = self.width();
        self.0.splice(HEADER + index * width, 0, width).copy_from_slice(&integer.to_le_bytes()[..width]);
        true
    }

    /// Removes an integer; false if it is not there. O(N)
    pub fn remove(&mut self, integer: i64) -> bool {
        if !self.contains(integer) {
            return false;
        }
        let index = self.search(integer).expect("the integer is there");
        self.remove_at(index);
        true
    }

    /// Removes the integer at `index` and returns it. O(N)
    ///
    /// # Panics
    /// If there are not that many.
    pub fn remove_at(&mut self, index: usize) -> i64 {
        let integer = self.at(index);
        let width = self.width();
        self.0.splice(HEADER + index * width, width, 0);
        integer
    }

    /// Where an integer is, or would be inserted.
    fn search(&self, integer: i64) -> Result<usize, usize> {
        let (mut start, mut end) = (0, self.len());
        // Many sets are filled in ascending order.
        if end > 0 && self.at(end - 1) < integer {
            return Err(end);
        }
        while start < end {
            let middle = start.midpoint(end);
            match self.at(middle).cmp(&integer) {
                std::cmp::Ordering::Less => start = middle + 1,
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Greater => end = middle,
            }
        }
        Err(start)
    }

    fn widen(&mut self, width: usize) {
        let integers: Vec<u8> = self.iter().flat_map(|integer| integer.to_le_bytes().into_iter().take(width)).collect();
        self.0 = ThinBuf::new(&[&low_u32(width as u64).to_le_bytes(), &integers]);
    }

    #[inline]
    fn width(&self) -> usize {
        usize::from(self.0.bytes()[4])
    }

    #[inline]
    fn at(&self, index: usize) -> i64 {
        let bytes = self.0.bytes();
        match self.width() {
            2 => i64::from(i16::from_le_bytes(chunk(bytes, index))),
            4 => i64::from(i32::from_le_bytes(chunk(bytes, index))),
            _ => i64::from_le_bytes(chunk(bytes, index)),
        }
    }
}

impl std::fmt::Debug for Intset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[inline]
fn chunk<const WIDTH: usize>(bytes: &[u8], index: usize) -> [u8; WIDTH] {
    *bytes[HEADER + index * WIDTH..].first_chunk().expect("the index is below the length")
}

/// How many bytes an integer needs.
fn width_for(integer: i64) -> usize {
    if i16::try_from(integer).is_ok() {
        2
    } else if i32::try_from(integer).is_ok() {
        4
    } else {
        8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_bytes_are_those_of_redis() {
        let mut intset = Intset::new();
        assert!([3, -1, 3].map(|integer| intset.insert(integer)).into_iter().eq([true, true, false]));
        assert_eq!(intset.to_bytes(), b"\x02\0\0\0\x02\0\0\0\xFF\xFF\x03\0");
        intset.insert(40_000);
        assert_eq!(intset.to_bytes(), b"\x04\0\0\0\x03\0\0\0\xFF\xFF\xFF\xFF\x03\0\0\0\x40\x9C\0\0");
        intset.remove(40_000);
        assert_eq!(intset.to_bytes()[..8], *b"\x04\0\0\0\x02\0\0\0");
    }

    #[test]
    fn what_is_no_intset_is_refused() {
        let good = b"\x02\0\0\0\x02\0\0\0\xFF\xFF\x03\0";
        assert!(Intset::from_untrusted(good).is_some());
        for end in 0..good.len() {
            assert!(Intset::from_untrusted(&good[..end]).is_none(), "cut at {end}");
        }
        for bad in [
            b"\x02\0\0\0\x02\0\0\0\x03\0\xFF\xFF".as_slice(),
            b"\x02\0\0\0\x02\0\0\0\x03\0\x03\0",
            b"\x03\0\0\0\x02\0\0\0\xFF\xFF\x03\0\0\0",
            b"\x02\0\0\0\xFF\xFF\xFF\xFF\xFF\xFF\x03\0",
            b"\x02\0\0\0\0\0\0\0",
        ] {
            assert!(Intset::from_untrusted(bad).is_none(), "{}", bad.escape_ascii());
        }
    }

    fn integer() -> impl Strategy<Value = i64> {
        prop_oneof![4 => -20..20i64, 1 => (any::<i64>(), 0..64u32).prop_map(|(integer, shift)| integer >> shift)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn an_intset_is_a_set_in_order(steps in proptest::collection::vec((any::<bool>(), integer()), 0..200)) {
            let (mut intset, mut model) = (Intset::new(), BTreeSet::new());
            for (is_insert, integer) in steps {
                prop_assert_eq!(intset.contains(integer), model.contains(&integer));
                if is_insert {
                    prop_assert_eq!(intset.insert(integer), model.insert(integer));
                } else {
                    prop_assert_eq!(intset.remove(integer), model.remove(&integer));
                }
                prop_assert!(intset.iter().eq(model.iter().copied()));
                prop_assert_eq!(intset.get(model.len()), None);
            }
            if !intset.is_empty() {
                let copy = Intset::from_untrusted(&intset.to_bytes()).expect("its bytes are an intset");
                prop_assert!(copy.iter().eq(model));
            }
        }
    }
}
