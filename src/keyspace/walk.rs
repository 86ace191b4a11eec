//! The order in which SCAN walks the keys, and SSCAN and HSCAN the elements of sets and hashes: it does not change when
//! tables grow or shrink.
//!
//! ```text
//! position, 48 bits: | subtable | low bits of the hash, the lowest on top |
//! ```
//!
//! The position of a key in the order follows from its hash alone, so a key that exists from the first page to the last
//! is returned exactly once. A page is found without reading the rest: a hash table starts its search for a key at the
//! bucket named by the low bits of its hash, its home. With the lowest bit on top, the keys of a home are neighbours in
//! the order, whatever the size of the table; when a table doubles, each home becomes two that are neighbours.
//!
//! That hash tables choose homes by the low bits, and compare only if the top seven bits agree, is how hashbrown works,
//! not what it promises; the tests here would detect a change.

/// The length of a position.
pub const POSITION_BITS: u32 = 48;
/// The top bits of a hash that a table compares before it reads a key.
pub const TAG_BITS: u32 = 7;
/// A table with more homes for each key than this is not walked home by home: most would be empty.
const HOMES_PER_KEY_MAX: usize = 16;

/// A hash table, as the walk sees it.
pub trait Homes {
    /// What it contains.
    type Item;
    /// The hash of an item's key.
    fn hash(&self, item: &Self::Item) -> u64;
    /// How many items it has.
    fn items(&self) -> usize;
    /// How many homes: a power of two.
    fn homes(&self) -> usize;
    /// Visits every item.
    fn for_each<'a>(&'a self, visit: impl FnMut(&'a Self::Item))
    where
        Self::Item: 'a;
    /// Visits the items that a search for a key of this hash compares with: these include all that share its home and
    /// its top seven bits.
    fn for_each_candidate(&self, hash: u64, visit: impl FnMut(&Self::Item));
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
    for (subtable, table) in
        tables.enumerate().skip(crate::base::narrowing::size(first)).filter(|(_, table)| table.items() > 0)
    {
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
        let next = if is_sparse || table.items() <= self.left { self.sort_out(table) } else { self.visit_homes(table) };
        next.filter(|&next| next >> self.offset_bits == 0)
    }

    /// Reads all keys of the table and takes the first ones in order.
    fn sort_out(&mut self, table: &T) -> Option<u64> {
        let mut found = Vec::new();
        table.for_each(|item| found.push((self.offset_of(table.hash(item)), item)));
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

    /// Takes the keys home by home.
    fn visit_homes(&mut self, table: &T) -> Option<u64> {
        let home_bits = table.homes().trailing_zeros();
        let width = self.offset_bits - home_bits;
        let mut home = self.from >> width;
        while home >> home_bits == 0 && self.left > 0 {
            self.visit_home(table, (home << (64 - home_bits)).reverse_bits());
            home += 1;
        }
        Some(home << width)
    }

    /// Takes the keys of the home that these low bits of a hash choose.
    fn visit_home(&mut self, table: &T, home: u64) {
        let mask = (table.homes() as u64 - 1) | u64::MAX << (64 - TAG_BITS);
        for tag in 0..1 << TAG_BITS {
            let hash = home | tag << (64 - TAG_BITS);
            table.for_each_candidate(hash, |item| {
                let own = table.hash(item);
                if (own ^ hash) & mask == 0 && self.offset_of(own) >= self.from {
                    (self.visit)(item);
                    self.left = self.left.saturating_sub(1);
                }
            });
        }
    }

    fn offset_of(&self, hash: u64) -> u64 {
        hash.reverse_bits() >> (64 - self.offset_bits)
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
