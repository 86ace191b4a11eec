//! The order in which SCAN walks the keys, and SSCAN and HSCAN the elements of sets and hashes: it does not change when
//! tables grow or shrink.
//!
//! ```text
//! position, 48 bits: | subtable | bits of the hash from the fifth on, the lowest on top | its lowest four bits |
//! ```
//!
//! The position of a key in the order follows from its hash alone, so a key that exists from the first page to the last
//! is returned exactly once. A page is found without reading the rest: a hash table starts its search for a key at the
//! bucket named by the low bits of its hash, its home. The keys of a block of 16 homes are neighbours in the order,
//! whatever the size of the table; when a table doubles, each block becomes two that are neighbours.
//!
//! A block is read once, with the buckets after it: what did not fit into a home is found there. Its keys' misses of
//! the cache overlap. Where a search may go on beyond these buckets, it is asked for every key that it would compare
//! with.
//!
//! That hash tables choose homes by the low bits, compare only if the top seven bits agree, and search group after
//! group up to one that has an empty bucket, is how hashbrown works, not what it promises; the tests here would detect
//! a change.

use crate::base::narrowing::size;

/// The length of a position.
pub const POSITION_BITS: u32 = 48;
const TAG_BITS: u32 = 7;
/// The top bits of a hash, which a table compares before it reads a key.
pub const TAG: u64 = u64::MAX << (u64::BITS - TAG_BITS);
/// A table with more homes for each key than this is not walked block by block: most would be empty.
const HOMES_PER_KEY_MAX: usize = 16;
/// A table with fewer homes than this is not, either: a block and the buckets after it would be all of it.
const HOMES_MIN: usize = 128;
/// The low bits of a hash that tell the homes of a block apart.
pub const BLOCK_BITS: u32 = 4;
/// The homes of a block.
const BLOCK: usize = 1 << BLOCK_BITS;
/// The buckets that a search reads together: hashbrown's group, or two of them where it has narrower ones.
const GROUP: usize = if cfg!(target_arch = "x86_64") { 16 } else { 8 };

/// A hash table, as the walk sees it.
pub trait Homes {
    /// What it contains.
    type Item;
    /// The hash of an item's key.
    fn hash(&self, item: &Self::Item) -> u64;
    /// How many items it has.
    fn items(&self) -> usize;
    /// How many homes, each with a bucket: a power of two.
    fn homes(&self) -> usize;
    /// How many items it has room for, with those that it has, before it grows.
    fn room(&self) -> usize;
    /// The item in a bucket.
    fn item_at(&self, bucket: usize) -> Option<&Self::Item>;
    /// Asks the processor to bring the key of an item into the cache.
    fn prefetch(item: &Self::Item);
    /// Visits every item.
    fn for_each<'a>(&'a self, visit: impl FnMut(&'a Self::Item))
    where
        Self::Item: 'a;
    /// Visits the items that a search for a key of this hash compares with: these include all that share its home and
    /// its top seven bits.
    fn for_each_candidate<'a>(&'a self, hash: u64, visit: impl FnMut(&'a Self::Item))
    where
        Self::Item: 'a;
}

/// Visits about `count` keys in the order, from the position `start` on; returns where the next ones start, if there
/// may be any. The number of `tables` is `subtables`, a power of two.
pub fn walk<'t, T: Homes + 't>(
    tables: impl Iterator<Item = &'t T>,
    subtables: usize,
    start: u64,
    count: usize,
    visit: &mut dyn FnMut(&T::Item),
) -> Option<u64> {
    assert!(subtables.is_power_of_two(), "a subtable is chosen by bits of the hash");
    let offset_bits = POSITION_BITS - subtables.trailing_zeros();
    let (first, from) = (start >> offset_bits, start & ((1 << offset_bits) - 1));
    let mut left = count;
    for (subtable, table) in tables.enumerate().skip(size(first)).filter(|(_, table)| table.items() > 0) {
        let base = (subtable as u64) << offset_bits;
        if left == 0 {
            return Some(base);
        }
        // The start is in the first subtable, and does not matter in the others.
        let from = if subtable as u64 == first { from } else { 0 };
        let mut page: Page<'_, T> = Page { offset_bits, from, left, visit };
        if let Some(next) = page.fill(table) {
            return Some(base + next);
        }
        left = page.left;
    }
    None
}

/// A page that is being filled from one table. Offsets are positions within its subtable.
struct Page<'v, T: Homes> {
    offset_bits: u32,
    from: u64,
    left: usize,
    visit: &'v mut dyn FnMut(&T::Item),
}

impl<T: Homes> Page<'_, T> {
    /// Takes from the table what the page has room for; returns the offset where the rest starts, if there may be any.
    fn fill(&mut self, table: &T) -> Option<u64> {
        let is_sparse = table.homes() / HOMES_PER_KEY_MAX > table.items();
        let is_read_whole = is_sparse || table.homes() < HOMES_MIN || table.items() <= self.left;
        let next = if is_read_whole { self.visit_all(table) } else { self.visit_blocks(table) };
        next.filter(|&next| next >> self.offset_bits == 0)
    }

    fn visit_all(&mut self, table: &T) -> Option<u64> {
        let mut found = Vec::new();
        table.for_each(|item| found.push((self.offset_of(table.hash(item)), item)));
        self.take_first(&mut found)
    }

    fn visit_blocks(&mut self, table: &T) -> Option<u64> {
        let block_bits = table.homes().trailing_zeros() - BLOCK_BITS;
        let width = self.offset_bits - block_bits;
        let has_tombstones = table.room() < table.homes() / 8 * 7;
        let mut found = Vec::with_capacity(BLOCK);
        let mut block = self.from >> width;
        while block >> block_bits == 0 && self.left > 0 {
            let first_home = size((block << (u64::BITS - block_bits)).reverse_bits()) << BLOCK_BITS;
            found.clear();
            Block { table, first_home, has_tombstones }.visit(|hash, item| found.push((self.offset_of(hash), item)));
            if let Some(next) = self.take_first(&mut found) {
                return Some(next);
            }
            block += 1;
        }
        Some(block << width)
    }

    /// Takes the first of these items in order, as many as the page has room for; returns the offset where the rest
    /// starts, if there is any.
    fn take_first(&mut self, found: &mut Vec<(u64, &T::Item)>) -> Option<u64> {
        found.retain(|&(offset, _)| offset >= self.from);
        let mut next = None;
        if found.len() > self.left {
            let (_, &mut (last, _), _) = found.select_nth_unstable_by_key(self.left - 1, |&(offset, _)| offset);
            found.retain(|&(offset, _)| offset <= last);
            next = Some(last + 1);
        }
        found.iter().for_each(|(_, item)| (self.visit)(item));
        self.left = self.left.saturating_sub(found.len());
        next
    }

    fn offset_of(&self, hash: u64) -> u64 {
        let low = hash & (BLOCK as u64 - 1);
        (hash >> BLOCK_BITS).reverse_bits() >> (u64::BITS - self.offset_bits + BLOCK_BITS) << BLOCK_BITS | low
    }
}

/// Neighbouring homes of a table.
struct Block<'t, T> {
    table: &'t T,
    first_home: usize,
    /// Whether the table has buckets that are vacant, but at which a search does not end.
    has_tombstones: bool,
}

impl<'t, T: Homes> Block<'t, T> {
    /// Visits the items of these homes, with their hashes.
    fn visit(&self, mut visit: impl FnMut(u64, &'t T::Item)) {
        let near = self.first_home..self.first_home + BLOCK + GROUP;
        near.clone().filter_map(|bucket| self.item_at(bucket)).for_each(T::prefetch);
        for item in near.clone().filter_map(|bucket| self.item_at(bucket)) {
            let hash = self.table.hash(item);
            if self.home_of(hash) & !(BLOCK - 1) == self.first_home {
                visit(hash, item);
            }
        }
        for home in (self.first_home..self.first_home + BLOCK).filter(|&home| self.may_go_on_after(home)) {
            self.for_each_of(home, |hash, item| {
                let is_it = |bucket| self.item_at(bucket).is_some_and(|other| std::ptr::eq(other, item));
                if !near.clone().any(is_it) {
                    visit(hash, item);
                }
            });
        }
    }

    fn item_at(&self, bucket: usize) -> Option<&'t T::Item> {
        self.table.item_at(bucket & (self.table.homes() - 1))
    }

    fn home_of(&self, hash: u64) -> usize {
        size(hash & (self.table.homes() as u64 - 1))
    }

    /// Whether a search from a home may go on after its first group. It ends there if one of its buckets is empty; a
    /// vacant bucket may also be a tombstone. Then the search for an item of the next group tells whether it gets
    /// there.
    fn may_go_on_after(&self, home: usize) -> bool {
        let has_vacant = (home..home + GROUP).any(|bucket| self.item_at(bucket).is_none());
        if !has_vacant || !self.has_tombstones {
            return !has_vacant;
        }
        let mut next_group = (home + GROUP..home + 2 * GROUP).filter_map(|bucket| self.item_at(bucket));
        next_group.next().is_none_or(|item| {
            let mut is_found = false;
            let searched = home as u64 | self.table.hash(item) & TAG;
            self.table.for_each_candidate(searched, |candidate| is_found |= std::ptr::eq(candidate, item));
            is_found
        })
    }

    /// Visits the items of a home, wherever they are.
    fn for_each_of(&self, home: usize, mut visit: impl FnMut(u64, &'t T::Item)) {
        for tag in 0..1 << TAG_BITS {
            let searched = home as u64 | tag << (u64::BITS - TAG_BITS);
            self.table.for_each_candidate(searched, |item| {
                let hash = self.table.hash(item);
                if self.home_of(hash) == home && hash & TAG == searched & TAG {
                    visit(hash, item);
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{NewValue, Node, NodeTable, Table, hash_of};
    use super::*;
    use hashbrown::HashTable;
    use std::collections::HashMap;

    fn insert(store: &mut NodeTable, key: &str) {
        store.insert_node(Node::new(key.as_bytes(), NewValue::Integer(0), None));
    }

    fn remove(store: &mut NodeTable, key: &str) {
        store.remove(hash_of(key.as_bytes()), key.as_bytes()).expect("the key was inserted");
    }

    fn walk_all(store: &mut NodeTable, count: usize, mut between: impl FnMut(&mut NodeTable)) -> HashMap<String, u32> {
        let mut seen = HashMap::new();
        let mut position = Some(0);
        while let Some(start) = position {
            let mut page = 0_usize;
            position = store.walk(0, start, count, &mut |node| {
                *seen.entry(String::from_utf8_lossy(node.key()).into_owned()).or_default() += 1;
                page += 1;
            });
            assert!(page.saturating_sub(count) < 32, "a page of {page} keys, not {count}");
            assert!(position.is_none_or(|next| next > start && next >> POSITION_BITS == 0), "the walk goes on");
            between(store);
        }
        seen
    }

    #[test]
    fn a_walk_gives_every_key_once() {
        for keys in [0, 1, 7, 300, 20_000] {
            for count in [1, 10, 1000, usize::MAX] {
                if keys / count.min(1000) > 3_000 {
                    continue;
                }
                let mut store = NodeTable::default();
                (0..keys).for_each(|n| insert(&mut store, &format!("key:{n}")));
                let seen = walk_all(&mut store, count, |_| {});
                assert_eq!((seen.len(), seen.values().all(|&times| times == 1)), (keys, true), "{keys} by {count}");
            }
        }
    }

    #[test]
    fn a_large_table_with_few_keys_is_walked_in_pages_too() {
        const KEYS: usize = 100;
        let mut table = HashTable::with_capacity(100 * KEYS);
        for n in 0..KEYS {
            let node = Node::new(format!("key:{n}").as_bytes(), NewValue::Integer(0), None);
            table.insert_unique(hash_of(node.key()), node, |node: &Node| hash_of(node.key()));
        }
        let mut pages = Vec::new();
        let mut position = Some(0);
        while let Some(start) = position {
            let mut page = 0;
            position = walk([&table].into_iter(), 1, start, 10, &mut |_| page += 1);
            pages.push(page);
        }
        assert_eq!(pages, [10; KEYS / 10]);
    }

    /// Numbers that are their own hashes.
    struct Numbers(HashTable<u64>);

    impl Homes for Numbers {
        type Item = u64;

        fn hash(&self, number: &u64) -> u64 {
            *number
        }

        fn items(&self) -> usize {
            self.0.len()
        }

        fn homes(&self) -> usize {
            self.0.num_buckets()
        }

        fn room(&self) -> usize {
            self.0.capacity()
        }

        fn item_at(&self, bucket: usize) -> Option<&u64> {
            self.0.get_bucket(bucket)
        }

        fn prefetch(_: &u64) {}

        fn for_each<'a>(&'a self, visit: impl FnMut(&'a u64)) {
            self.0.iter().for_each(visit);
        }

        fn for_each_candidate<'a>(&'a self, hash: u64, visit: impl FnMut(&'a u64)) {
            self.0.iter_hash(hash).for_each(visit);
        }
    }

    impl Numbers {
        /// How many are not in the buckets that are read with their home's block.
        fn far(&self) -> usize {
            let mask = self.homes() - 1;
            let is_far = |bucket: &usize| {
                self.item_at(*bucket).is_some_and(|&number| {
                    let first_home = size(number) & mask & !(BLOCK - 1);
                    bucket.wrapping_sub(first_home) & mask >= BLOCK + GROUP
                })
            };
            (0..self.homes()).filter(is_far).count()
        }
    }

    #[test]
    fn items_far_from_their_homes_and_beyond_tombstones_are_given_once() {
        const HOMES: usize = 1024;
        let mut random = fastrand::Rng::with_seed(5);
        let mut table = Numbers(HashTable::with_capacity(HOMES / 8 * 7));
        let room = table.room();
        let mut numbers: Vec<u64> = Vec::new();
        let (mut far, mut far_with_tombstones) = (0, 0);
        for round in 0..60 * HOMES {
            // As full as it can be without growing.
            while !numbers.is_empty() && table.room() < table.items() + 8 {
                let number = numbers.swap_remove(random.usize(..numbers.len()));
                let (removed, _) = table.0.find_entry(number, |&it| it == number).expect("it was inserted").remove();
                assert_eq!(removed, number);
            }
            numbers.push(random.u64(..));
            table.0.insert_unique(numbers[numbers.len() - 1], numbers[numbers.len() - 1], |&number| number);
            assert_eq!(table.homes(), HOMES, "a table that grows has no tombstones");
            if round % 97 > 0 {
                continue;
            }
            let mut seen = Vec::new();
            let mut position = Some(0);
            while let Some(start) = position {
                position = walk([&table].into_iter(), 1, start, 50, &mut |&number| seen.push(number));
            }
            seen.sort_unstable();
            let mut all = numbers.clone();
            all.sort_unstable();
            assert!(seen == all, "round {round}: {} of {}", seen.len(), all.len());
            far += table.far();
            far_with_tombstones += if table.room() < room { table.far() } else { 0 };
        }
        assert!(far > far_with_tombstones && far_with_tombstones > 100, "{far} far, {far_with_tombstones} of them");
    }

    #[test]
    fn a_page_has_as_many_keys_as_it_should() {
        let mut store = NodeTable::default();
        (0..20_000).for_each(|n| insert(&mut store, &format!("key:{n}")));
        for count in [1, 3, 10, 100] {
            let mut position = Some(0);
            for _ in 0..50 {
                let mut page = 0;
                position = store.walk(0, position.expect("it is not the last"), count, &mut |_| page += 1);
                assert_eq!(page, count);
            }
        }
    }

    #[test]
    fn a_key_that_stays_is_given_once_while_the_tables_grow_and_shrink() {
        const STAYING: usize = 3_000;
        const PASSING: usize = 1_000;
        for grows_first in [true, false] {
            let mut store = NodeTable::default();
            (0..STAYING).for_each(|n| insert(&mut store, &format!("staying:{n}")));
            let mut passing = 0..if grows_first { 0 } else { 40 * PASSING };
            passing.clone().for_each(|n| insert(&mut store, &format!("passing:{n}")));
            let mut pages = 0;
            let seen = walk_all(&mut store, 50, |store| {
                pages += 1;
                if (pages / 10 % 2 == 0) == grows_first {
                    (passing.end..passing.end + PASSING).for_each(|n| insert(store, &format!("passing:{n}")));
                    passing.end += PASSING;
                } else {
                    let gone = passing.start..passing.end.min(passing.start + PASSING);
                    gone.clone().for_each(|n| remove(store, &format!("passing:{n}")));
                    passing.start = gone.end;
                }
            });
            for n in 0..STAYING {
                assert_eq!(seen.get(&format!("staying:{n}")), Some(&1), "staying:{n}, {pages} pages");
            }
            assert!(seen.values().all(|&times| times == 1), "nothing is given twice");
        }
    }
}
