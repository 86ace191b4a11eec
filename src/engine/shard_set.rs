//! A set of the shards of a table.

/// Shards of a table, each with whether its data is changed. They come out in order: they are locked in it.
#[derive(Debug, Default)]
pub struct ShardSet {
    /// For 64 shards each: those in the set, and those of them that are changed.
    words: Vec<(u64, u64)>,
}

impl ShardSet {
    /// Removes all, and makes room for as many shards as a table has.
    pub fn clear(&mut self, shards: usize) {
        self.words.clear();
        self.words.resize(shards.div_ceil(64), (0, 0));
    }

    /// Adds a shard. It counts as changed if it is ever added as such.
    #[inline]
    pub fn add(&mut self, shard: usize, is_changed: bool) {
        let (members, changed) = &mut self.words[shard / 64];
        *members |= 1 << (shard % 64);
        *changed |= u64::from(is_changed) << (shard % 64);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.words.iter().map(|(members, _)| members.count_ones() as usize).sum()
    }

    /// Each in order, with whether it is changed.
    pub fn iter(&self) -> impl Iterator<Item = (usize, bool)> {
        self.words.iter().enumerate().flat_map(|(word, &(members, changed))| {
            let rests = std::iter::successors(Some(members), |rest| Some(rest & rest.wrapping_sub(1)));
            rests.take_while(|rest| *rest != 0).map(move |rest| {
                let bit = rest.trailing_zeros();
                (word * 64 + bit as usize, changed >> bit & 1 == 1)
            })
        })
    }

    /// The memory that it holds.
    pub fn held_bytes(&self) -> usize {
        self.words.capacity() * size_of::<(u64, u64)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_come_out_once_and_in_order_whatever_their_number() {
        let mut set = ShardSet::default();
        for shards in [2, 64, 128, 1024] {
            set.clear(shards);
            assert_eq!((set.len(), set.iter().count()), (0, 0), "of {shards}");
            for (shard, is_changed) in [(shards - 1, false), (0, true), (shards / 2, false), (0, false)] {
                set.add(shard, is_changed);
            }
            set.add(shards - 1, true);
            let mut expected = vec![(0, true), (shards / 2, shards == 2), (shards - 1, true)];
            expected.dedup();
            assert_eq!(set.iter().collect::<Vec<_>>(), expected, "of {shards}");
            assert_eq!(set.len(), expected.len(), "of {shards}");
        }
    }
}
