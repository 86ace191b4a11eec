//! Hash tables of elements: the large sets and hashes.
//!
//! A slot is a thin pointer to an element, which is one allocation: a member, or a field with its value. Tables do not
//! keep their elements in an array, so a random one is found by drawing buckets until one is full; sparse tables
//! shrink, which bounds the draws.

use crate::base::narrowing::low_u8;
use crate::keyspace::hashing::hash_of;
use crate::keyspace::raw::thin_bytes::ThinBytes;
use crate::keyspace::walk::{BLOCK_BITS, Homes, TAG, walk};
use hashbrown::HashTable;
use std::ops::Range;

/// An element that is found by its key, a part of it.
pub trait Keyed {
    /// The member or the field.
    fn key(&self) -> &[u8];
    /// Asks the processor to bring the key into the cache.
    fn prefetch(&self);
}

/// A member of a set.
#[derive(Clone)]
pub struct Member(ThinBytes);

impl Member {
    /// A member of these bytes.
    pub fn new(bytes: &[u8]) -> Self {
        Self(ThinBytes::new(&[bytes]))
    }
}

impl Keyed for Member {
    #[inline]
    fn key(&self) -> &[u8] {
        self.0.bytes()
    }

    #[inline]
    fn prefetch(&self) {
        self.0.prefetch();
    }
}

/// A field of a hash with its value.
///
/// ```text
/// | length of the field, u8 below 255 | field | value |      | 255 | length of the field, u32 | field | value |
/// ```
#[derive(Clone)]
pub struct Field(ThinBytes);

impl Field {
    const LONG: u8 = u8::MAX;

    /// The longest name and value together.
    pub const LEN_MAX: usize = ThinBytes::LEN_MAX - Self::LONG_PREFIX;
    const LONG_PREFIX: usize = 1 + size_of::<u32>();

    /// A field with its value.
    ///
    /// # Panics
    /// If both together are longer than [`LEN_MAX`](Self::LEN_MAX).
    pub fn new(name: &[u8], value: &[u8]) -> Self {
        Self(match u8::try_from(name.len()) {
            Ok(len) if len < Self::LONG => ThinBytes::new(&[&[len], name, value]),
            _ => {
                let len = u32::try_from(name.len()).expect("Field::LEN_MAX bounds a name");
                ThinBytes::new(&[&[Self::LONG], &len.to_le_bytes(), name, value])
            }
        })
    }

    /// The value.
    #[inline]
    pub fn value(&self) -> &[u8] {
        &self.0.bytes()[self.name().end..]
    }

    /// Changes the value.
    pub fn set_value(&mut self, value: &[u8]) {
        let start = self.name().end;
        let place = &mut self.0.bytes_mut()[start..];
        if place.len() == value.len() {
            place.copy_from_slice(value);
        } else {
            *self = Self::new(self.key(), value);
        }
    }

    /// Where the field's name is.
    #[inline]
    fn name(&self) -> Range<usize> {
        const NAMED: &str = "every field says how long its name is";
        let (&first, rest) = self.0.bytes().split_first().expect(NAMED);
        if first < Self::LONG {
            return 1..1 + usize::from(first);
        }
        let len = u32::from_le_bytes(*rest.first_chunk().expect(NAMED)) as usize;
        Self::LONG_PREFIX..Self::LONG_PREFIX + len
    }
}

impl Keyed for Field {
    #[inline]
    fn key(&self) -> &[u8] {
        &self.0.bytes()[self.name()]
    }

    #[inline]
    fn prefetch(&self) {
        self.0.prefetch();
    }
}

/// Elements in a hash table, or in many small ones if there are many.
///
/// A hash table that doubles moves every element at once, and a shard that does so answers no client meanwhile. Split
/// by a few bits of the hash, each subtable doubles at a time of its own and moves 1/256 of the elements.
#[derive(Clone)]
pub struct ElementTable<E>(Tables<E>);

#[derive(Clone)]
enum Tables<E> {
    Whole(Subtable<E>),
    Split(Box<Split<E>>),
}

/// One table per value of a few bits of a hash, in the order of [`walk`](crate::keyspace::walk): the lowest bit counts
/// most.
#[derive(Clone)]
struct Split<E> {
    subtables: Vec<Subtable<E>>,
    len: usize,
    /// No subtable has more buckets than this.
    widest: usize,
}

/// The bits of a hash that choose a subtable.
const SUBTABLE_BITS: u32 = 8;
const SUBTABLES: usize = 1 << SUBTABLE_BITS;
/// From this many elements on, the table is split: all that fit in 2^14 buckets.
const SPLIT_LEN: usize = (1 << 14) / 8 * 7;
/// With fewer elements than this, the subtables become one table again.
const WHOLE_LEN: usize = SPLIT_LEN / SPARSE;
/// A table with room for more than this many times its elements shrinks.
const SPARSE: usize = 8;

impl<E: Keyed> ElementTable<E> {
    /// A table with room for this many elements.
    pub fn with_capacity(capacity: usize) -> Self {
        Self(if capacity <= SPLIT_LEN {
            Tables::Whole(Subtable::new(0, capacity))
        } else {
            Tables::Split(Box::new(Split::with_capacity(capacity)))
        })
    }

    /// How many elements there are.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.0 {
            Tables::Whole(subtable) => subtable.table.len(),
            Tables::Split(split) => split.len,
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element of a key. O(1)
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<&E> {
        let hash = hash_of(key);
        let subtable = self.subtable(subtable_of(hash));
        subtable.table.find(subtable.inner(hash), |element| element.key() == key)
    }

    /// The element of a key, whose own key must not change. O(1)
    #[inline]
    pub fn get_mut(&mut self, key: &[u8]) -> Option<&mut E> {
        let hash = hash_of(key);
        let subtable = self.subtable_mut(subtable_of(hash));
        subtable.table.find_mut(subtable.inner(hash), |element| element.key() == key)
    }

    /// Adds an element whose key is not there. O(1) amortised
    pub fn insert(&mut self, element: E) {
        match &mut self.0 {
            Tables::Whole(subtable) if subtable.table.len() < SPLIT_LEN => {
                subtable.insert(hash_of(element.key()), element)
            }
            Tables::Whole(subtable) => {
                let mut split = Split::with_capacity(subtable.table.len() + 1);
                std::mem::take(&mut subtable.table).into_iter().for_each(|element| split.insert(element));
                split.insert(element);
                self.0 = Tables::Split(Box::new(split));
            }
            Tables::Split(split) => split.insert(element),
        }
    }

    /// Removes the element of a key. O(1) amortised
    pub fn remove(&mut self, key: &[u8]) -> Option<E> {
        let hash = hash_of(key);
        let subtable = self.subtable_mut(subtable_of(hash));
        let (element, _) =
            subtable.table.find_entry(subtable.inner(hash), |element| element.key() == key).ok()?.remove();
        self.shrink(subtable_of(hash));
        Some(element)
    }

    /// The elements in no order.
    pub fn iter(&self) -> impl Iterator<Item = &E> {
        self.subtables().iter().flat_map(|subtable| subtable.table.iter())
    }

    /// A random bucket with an element. O(1) expected; there must be an element.
    pub fn random_bucket(&self, random: &mut fastrand::Rng) -> usize {
        assert!(!self.is_empty(), "collections without elements do not exist");
        let subtables = self.subtables();
        let buckets = match &self.0 {
            Tables::Whole(subtable) => subtable.table.num_buckets(),
            Tables::Split(split) => split.widest,
        };
        loop {
            let (subtable, bucket) = (random.usize(..subtables.len()), random.usize(..buckets));
            let table = &subtables[subtable].table;
            if bucket < table.num_buckets() && table.get_bucket(bucket).is_some() {
                return bucket << SUBTABLE_BITS | subtable;
            }
        }
    }

    /// The element in a full bucket.
    #[inline]
    pub fn at(&self, bucket: usize) -> &E {
        let table = &self.subtable(bucket % SUBTABLES).table;
        table.get_bucket(bucket >> SUBTABLE_BITS).expect("a bucket is used before the table changes")
    }

    /// Removes the element in a full bucket. O(1) amortised
    pub fn remove_at(&mut self, bucket: usize) -> E {
        let subtable = bucket % SUBTABLES;
        let entry = self.subtable_mut(subtable).table.get_bucket_entry(bucket >> SUBTABLE_BITS);
        let (element, _) = entry.ok().expect("a bucket is used before the table changes").remove();
        self.shrink(subtable);
        element
    }

    /// Visits about `count` elements in an order that does not change, from the position `start` of 48 bits on; returns
    /// where the next ones start, if there may be any.
    pub fn walk(&self, start: u64, count: usize, visit: &mut dyn FnMut(&E)) -> Option<u64> {
        let subtables = self.subtables();
        walk(subtables.iter(), subtables.len(), start, count, visit)
    }

    fn subtables(&self) -> &[Subtable<E>] {
        match &self.0 {
            Tables::Whole(subtable) => std::slice::from_ref(subtable),
            Tables::Split(split) => &split.subtables,
        }
    }

    /// The subtable with this index, if there are several.
    #[inline]
    fn subtable(&self, index: usize) -> &Subtable<E> {
        match &self.0 {
            Tables::Whole(subtable) => subtable,
            Tables::Split(split) => &split.subtables[index],
        }
    }

    #[inline]
    fn subtable_mut(&mut self, index: usize) -> &mut Subtable<E> {
        match &mut self.0 {
            Tables::Whole(subtable) => subtable,
            Tables::Split(split) => &mut split.subtables[index],
        }
    }

    /// After the removal of an element from a subtable: a table that once held many should neither keep their memory
    /// for ever nor shrink and grow in turns.
    fn shrink(&mut self, subtable: usize) {
        match &mut self.0 {
            Tables::Whole(subtable) => drop(subtable.shrink()),
            Tables::Split(split) => {
                split.len -= 1;
                if split.subtables[subtable].shrink() {
                    split.widest =
                        split.subtables.iter().map(|subtable| subtable.table.num_buckets()).max().unwrap_or_default();
                }
                if split.len < WHOLE_LEN {
                    let mut whole = Subtable::new(0, 2 * split.len);
                    let elements = std::mem::take(&mut split.subtables)
                        .into_iter()
                        .flat_map(|subtable| subtable.table.into_iter());
                    elements.for_each(|element| whole.insert(hash_of(element.key()), element));
                    self.0 = Tables::Whole(whole);
                }
            }
        }
    }
}

impl<E: Keyed> Split<E> {
    fn with_capacity(capacity: usize) -> Self {
        let subtables: Vec<_> = (0..SUBTABLES).map(|_| Subtable::new(SUBTABLE_BITS, capacity / SUBTABLES)).collect();
        let widest = subtables[0].table.num_buckets();
        Self { subtables, len: 0, widest }
    }

    fn insert(&mut self, element: E) {
        let hash = hash_of(element.key());
        let subtable = &mut self.subtables[subtable_of(hash)];
        subtable.insert(hash, element);
        self.len += 1;
        self.widest = self.widest.max(subtable.table.num_buckets());
    }
}

/// The bits of a hash after those of a block of the walk, the lowest on top: which of [`SUBTABLES`] subtables an
/// element is in.
#[inline]
fn subtable_of(hash: u64) -> usize {
    const { assert!(SUBTABLE_BITS == u8::BITS) };
    usize::from(low_u8(hash >> BLOCK_BITS).reverse_bits())
}

/// A hash table of the elements whose hashes have the same `bits` bits after those of a block of the walk.
#[derive(Clone)]
struct Subtable<E> {
    table: HashTable<E>,
    bits: u32,
}

impl<E: Keyed> Subtable<E> {
    fn new(bits: u32, capacity: usize) -> Self {
        Self { table: HashTable::with_capacity(capacity), bits }
    }

    /// A hash without the bits that all elements of the subtable share: the remaining low bits choose the bucket. The
    /// top bits, which the table compares, stay.
    #[inline]
    fn inner(&self, hash: u64) -> u64 {
        inner_hash(hash, self.bits)
    }

    fn insert(&mut self, hash: u64, element: E) {
        let bits = self.bits;
        let rehash = |element: &E| inner_hash(hash_of(element.key()), bits);
        self.table.insert_unique(inner_hash(hash, bits), element, rehash);
    }

    /// Shrinks the table if it has become sparse, and returns whether it did.
    fn shrink(&mut self) -> bool {
        const SMALL: usize = 64;
        let is_sparse = self.table.capacity() > SMALL && self.table.len() * SPARSE < self.table.capacity();
        if is_sparse {
            let bits = self.bits;
            self.table.shrink_to(self.table.len() * 2, |element| inner_hash(hash_of(element.key()), bits));
        }
        is_sparse
    }
}

#[inline]
fn inner_hash(hash: u64, bits: u32) -> u64 {
    const BLOCK: u64 = (1 << BLOCK_BITS) - 1;
    hash & (TAG | BLOCK) | (hash & !TAG) >> bits & !BLOCK
}

impl<E: Keyed> Homes for Subtable<E> {
    type Item = E;

    fn hash(&self, item: &E) -> u64 {
        self.inner(hash_of(item.key()))
    }

    fn items(&self) -> usize {
        self.table.len()
    }

    fn homes(&self) -> usize {
        self.table.num_buckets()
    }

    fn room(&self) -> usize {
        self.table.capacity()
    }

    fn item_at(&self, bucket: usize) -> Option<&E> {
        self.table.get_bucket(bucket)
    }

    fn prefetch(element: &E) {
        element.prefetch();
    }

    fn for_each<'a>(&'a self, visit: impl FnMut(&'a E))
    where
        E: 'a,
    {
        self.table.iter().for_each(visit);
    }

    fn for_each_candidate<'a>(&'a self, hash: u64, visit: impl FnMut(&'a E))
    where
        E: 'a,
    {
        self.table.iter_hash(hash).for_each(visit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn a_field_keeps_its_name_whatever_its_value_becomes() {
        let mut field = Field::new(b"name", b"value");
        for value in [b"".as_slice(), b"longer than before", &[b'x'; 1000], b"short"] {
            field.set_value(value);
            assert_eq!((field.key(), field.value()), (b"name".as_slice(), value));
        }
        let long = Field::new(&[b'n'; 300], b"value");
        assert_eq!((long.key(), long.value()), ([b'n'; 300].as_slice(), b"value".as_slice()));
        assert_eq!((Field::new(b"", b"").key(), Member::new(b"").key()), (b"".as_slice(), b"".as_slice()));
    }

    #[test]
    fn a_table_is_a_map_and_gives_every_element_at_random() {
        let mut random = fastrand::Rng::with_seed(3);
        let (mut table, mut model) = (ElementTable::with_capacity(0), HashMap::new());
        for _ in 0..20_000 {
            let (name, value) = (random.u8(..).to_string(), random.u16(..).to_string());
            let (name, value) = (name.as_bytes(), value.as_bytes());
            match random.u8(..4) {
                0 => assert_eq!(table.remove(name).is_some(), model.remove(name).is_some()),
                1 if !table.is_empty() => {
                    let element: Field = table.remove_at(table.random_bucket(&mut random));
                    assert_eq!(model.remove(element.key()).as_deref(), Some(element.value()));
                }
                _ => {
                    match table.get_mut(name) {
                        Some(field) => field.set_value(value),
                        None => table.insert(Field::new(name, value)),
                    }
                    model.insert(name.to_vec(), value.to_vec());
                }
            }
            assert_eq!(table.get(name).map(|field| field.value().to_vec()), model.get(name).cloned());
        }
        assert_eq!(table.len(), model.len());
        let mut drawn = HashMap::new();
        for _ in 0..model.len() * 40 {
            *drawn.entry(table.at(table.random_bucket(&mut random)).key().to_vec()).or_insert(0) += 1;
        }
        assert!(model.keys().all(|key| drawn.contains_key(key)), "seed 3");
    }

    #[test]
    fn a_table_is_split_and_made_whole_without_a_change_that_a_walk_could_see() {
        const STAYING: usize = 500;
        let mut random = fastrand::Rng::with_seed(4);
        let name = |n: usize| format!("member:{n}").into_bytes();
        let mut table = ElementTable::with_capacity(0);
        (0..STAYING).for_each(|n| table.insert(Member::new(&name(n))));
        let (mut seen, mut pages, mut was_split) = (HashMap::new(), 0, 0);
        let mut next = Some(0);
        while let Some(start) = next {
            next = table.walk(start, 20, &mut |member| *seen.entry(member.key().to_vec()).or_insert(0) += 1);
            pages += 1;
            // Between two pages it grows beyond the bound, or shrinks far below it.
            let passing = STAYING..STAYING + SPLIT_LEN + 1_000;
            if pages % 2 == 1 {
                passing.for_each(|n| table.insert(Member::new(&name(n))));
                was_split += usize::from(matches!(table.0, Tables::Split(_)));
                let drawn = table.at(table.random_bucket(&mut random)).key().to_vec();
                assert!(table.get(&drawn).is_some());
            } else {
                passing.for_each(|n| assert!(table.remove(&name(n)).is_some()));
                assert!(matches!(table.0, Tables::Whole(_)));
            }
            assert_eq!(table.iter().count(), table.len());
        }
        assert!(was_split > 5, "split {was_split} times");
        assert!((0..STAYING).all(|n| seen.get(&name(n)) == Some(&1)), "{pages} pages, seed 4");
        assert!(seen.values().all(|&times| times == 1), "nothing is given twice");
    }

    #[test]
    fn a_table_that_was_large_shrinks() {
        let mut table = ElementTable::with_capacity(0);
        (0..3 * SPLIT_LEN).for_each(|n| table.insert(Member::new(format!("{n}").as_bytes())));
        for n in 10..3 * SPLIT_LEN {
            table.remove(format!("{n}").as_bytes()).expect("it was inserted");
        }
        let buckets: usize = table.subtables().iter().map(|subtable| subtable.table.num_buckets()).sum();
        assert!(buckets <= 128, "{buckets} buckets for 10");
    }
}
