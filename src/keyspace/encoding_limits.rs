//! How large small collections may become before they change their encoding: the directives of CONFIG, for every
//! keyspace of the process.

use std::sync::atomic::{AtomicI64, Ordering};

/// A limit that CONFIG SET may change while commands run: each looks at it anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Limit {
    /// `list-max-listpack-size`: elements of a list's listpack, or from -1 to -5 its size in steps from 4 to 64 KB.
    ListNode,
    /// `set-max-intset-entries`
    SetIntegers,
    /// `set-max-listpack-entries`
    SetEntries,
    /// `set-max-listpack-value`
    SetValue,
    /// `hash-max-listpack-entries`
    HashEntries,
    /// `hash-max-listpack-value`
    HashValue,
    /// `zset-max-listpack-entries`
    SortedSetEntries,
    /// `zset-max-listpack-value`
    SortedSetValue,
    /// DEBUG QUICKLIST-PACKED-THRESHOLD: elements of a list of so many bytes stand alone, whatever its listpacks hold.
    ListPacked,
}

static VALUES: [AtomicI64; 9] = [
    AtomicI64::new(-2),
    AtomicI64::new(512),
    AtomicI64::new(128),
    AtomicI64::new(64),
    AtomicI64::new(512),
    AtomicI64::new(64),
    AtomicI64::new(128),
    AtomicI64::new(64),
    AtomicI64::new(Limit::LIST_PACKED_DEFAULT),
];

impl Limit {
    /// [`ListPacked`](Self::ListPacked) where nobody has set it.
    pub const LIST_PACKED_DEFAULT: i64 = 1 << 30;

    /// Changes the limit for the whole process.
    pub fn set(self, value: i64) {
        VALUES[self as usize].store(value, Ordering::Relaxed);
    }

    /// The limit as it stands, of one that cannot be negative.
    #[inline]
    pub fn get(self) -> usize {
        usize::try_from(self.signed()).unwrap_or(0)
    }

    #[inline]
    fn signed(self) -> i64 {
        VALUES[self as usize].load(Ordering::Relaxed)
    }
}

/// How much one listpack of a list holds: see [`Limit::ListNode`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeLimit {
    /// Bytes at most.
    pub bytes: usize,
    /// Elements at most.
    pub elements: usize,
}

impl NodeLimit {
    /// Where elements are counted, their bytes are limited nevertheless.
    const SAFE_BYTES: usize = 8192;

    /// The limit as it stands.
    pub fn now() -> Self {
        Self::of(Limit::ListNode.signed())
    }

    fn of(directive: i64) -> Self {
        match usize::try_from(directive) {
            Ok(elements) => Self { bytes: Self::SAFE_BYTES, elements: elements.max(1) },
            Err(_) => Self { bytes: 4096 << (-1 - directive.max(-5)), elements: usize::MAX },
        }
    }

    /// Whether so many bytes and elements stay within the limit.
    #[inline]
    pub fn allows(self, bytes: usize, elements: usize) -> bool {
        bytes <= self.bytes && elements <= self.elements
    }

    /// Whether a list that has shrunk to this is small again: half the limit, lest it changes to and fro. Bytes do not
    /// count where elements do.
    pub fn is_small(self, bytes: usize, elements: usize) -> bool {
        let bytes_max = if self.elements == usize::MAX { self.bytes / 2 } else { usize::MAX };
        bytes <= bytes_max && elements <= self.elements / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_limited_by_elements_or_by_one_of_five_sizes() {
        let sizes = [(-1, 4096), (-2, 8192), (-3, 16384), (-4, 32768), (-5, 65536), (-6, 65536), (i64::MIN, 65536)];
        for (directive, bytes) in sizes {
            assert_eq!(NodeLimit::of(directive), NodeLimit { bytes, elements: usize::MAX });
        }
        for (directive, elements) in [(0, 1), (1, 1), (128, 128)] {
            assert_eq!(NodeLimit::of(directive), NodeLimit { bytes: 8192, elements });
        }
    }
}
