//! How large small collections may become before they change their encoding: the directives of CONFIG. A command reads
//! the limits of the type that it changes when it begins.

use std::sync::atomic::{AtomicI64, Ordering};

/// A limit that CONFIG SET may change while commands run; each command reads it again.
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
    /// DEBUG QUICKLIST-PACKED-THRESHOLD: list elements of this many bytes are alone, whatever a listpack may hold.
    ListPacked,
}

impl Limit {
    /// The default of [`ListPacked`](Self::ListPacked).
    pub const LIST_PACKED_DEFAULT: i64 = 1 << 30;
}

/// The limits of one server.
#[derive(Debug)]
pub struct EncodingLimits([AtomicI64; 9]);

impl Default for EncodingLimits {
    fn default() -> Self {
        Self([-2, 512, 128, 64, 512, 64, 128, 64, Limit::LIST_PACKED_DEFAULT].map(AtomicI64::new))
    }
}

impl EncodingLimits {
    /// Changes a limit.
    pub fn set(&self, limit: Limit, value: i64) {
        self.0[limit as usize].store(value, Ordering::Relaxed);
    }

    /// A limit as it was set.
    #[inline]
    pub fn signed(&self, limit: Limit) -> i64 {
        self.0[limit as usize].load(Ordering::Relaxed)
    }

    /// A limit that cannot be negative.
    #[inline]
    fn get(&self, limit: Limit) -> usize {
        usize::try_from(self.signed(limit)).unwrap_or(0)
    }

    /// The current limits of lists.
    #[inline]
    pub fn of_lists(&self) -> ListLimits {
        ListLimits { node: NodeLimit::of(self.signed(Limit::ListNode)), packed: self.get(Limit::ListPacked) }
    }

    /// The current limits of sets.
    #[inline]
    pub fn of_sets(&self) -> SetLimits {
        SetLimits {
            integers: self.get(Limit::SetIntegers),
            elements: self.get(Limit::SetEntries),
            value: self.get(Limit::SetValue),
        }
    }

    /// The current limits of hashes.
    #[inline]
    pub fn of_hashes(&self) -> PairLimits {
        PairLimits { elements: self.get(Limit::HashEntries), value: self.get(Limit::HashValue) }
    }

    /// The current limits of sorted sets.
    #[inline]
    pub fn of_sorted_sets(&self) -> PairLimits {
        PairLimits { elements: self.get(Limit::SortedSetEntries), value: self.get(Limit::SortedSetValue) }
    }
}

/// How large a small hash, or a small sorted set, may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairLimits {
    /// Fields, or members.
    pub elements: usize,
    /// Bytes of a field, a value or a member.
    pub value: usize,
}

/// How large a small set may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetLimits {
    /// Members of a set of integers only.
    pub integers: usize,
    /// Members.
    pub elements: usize,
    /// Bytes of a member.
    pub value: usize,
}

/// How large the listpacks of a list may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListLimits {
    /// How much one holds.
    pub node: NodeLimit,
    /// Elements of this many bytes are in no listpack.
    pub packed: usize,
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
    /// Where elements are counted, their bytes are limited as well.
    const SAFE_BYTES: usize = 8192;

    fn of(directive: i64) -> Self {
        match usize::try_from(directive) {
            Ok(elements) => Self { bytes: Self::SAFE_BYTES, elements: elements.max(1) },
            Err(_) => Self { bytes: 4096 << (-1 - directive.max(-5)), elements: usize::MAX },
        }
    }

    /// Whether this many bytes and elements stay within the limit.
    #[inline]
    pub fn allows(self, bytes: usize, elements: usize) -> bool {
        bytes <= self.bytes && elements <= self.elements
    }

    /// Whether a list that has shrunk to this is small again: half the limit, so that it does not alternate. Bytes do
    /// not count if elements do.
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
