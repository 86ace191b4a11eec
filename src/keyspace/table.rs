//! Hash tables of elements: what large sets and hashes are.
//!
//! A slot is a thin pointer to an element, which is one allocation: a member, or a field with its value. No table keeps
//! its elements in an array, so one is drawn at random by drawing buckets until one is taken; tables that have become
//! sparse shrink, which bounds the draws.

use super::hashing::hash_of;
use super::thin::{LENGTH, Thin};
use super::walk::{Homes, walk};
use hashbrown::HashTable;

/// An element that is found by a part of it.
pub trait Keyed {
    /// The member or the field.
    fn key(&self) -> &[u8];
}

/// A member of a set.
#[derive(Clone)]
pub struct Member(Thin);

impl Member {
    /// A member of these bytes.
    pub fn new(bytes: &[u8]) -> Self {
        Self(Thin::new(&[bytes]))
    }
}

impl Keyed for Member {
    #[inline]
    fn key(&self) -> &[u8] {
        &self.0.bytes()[LENGTH..]
    }
}

/// A field of a hash with its value.
///
/// ```text
/// | length of all, u32 | length of the field, u32 | field | value |
/// ```
#[derive(Clone)]
pub struct Field(Thin);

impl Field {
    const NAME: usize = LENGTH + size_of::<u32>();

    /// A field with its value.
    pub fn new(name: &[u8], value: &[u8]) -> Self {
        Self(Thin::new(&[&(name.len() as u32).to_le_bytes(), name, value]))
    }

    /// The value.
    #[inline]
    pub fn value(&self) -> &[u8] {
        &self.0.bytes()[self.value_start()..]
    }

    /// Changes the value.
    pub fn set_value(&mut self, value: &[u8]) {
        let start = self.value_start();
        self.0.splice(start, self.0.len() - start, value.len()).copy_from_slice(value);
    }

    #[inline]
    fn value_start(&self) -> usize {
        let len = self.0.bytes()[LENGTH..].first_chunk().expect("every field says how long its name is");
        Self::NAME + u32::from_le_bytes(*len) as usize
    }
}

impl Keyed for Field {
    #[inline]
    fn key(&self) -> &[u8] {
        &self.0.bytes()[Self::NAME..self.value_start()]
    }
}

/// Elements in a hash table.
#[derive(Clone)]
pub struct ElementTable<E>(HashTable<E>);

impl<E: Keyed> ElementTable<E> {
    /// A table with room for so many elements.
    pub fn with_capacity(capacity: usize) -> Self {
        Self(HashTable::with_capacity(capacity))
    }

    /// How many elements there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The element of a key. O(1)
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<&E> {
        self.0.find(hash_of(key), |element| element.key() == key)
    }

    /// The element of a key. O(1)
    #[inline]
    pub fn get_mut(&mut self, key: &[u8]) -> Option<&mut E> {
        self.0.find_mut(hash_of(key), |element| element.key() == key)
    }

    /// Adds an element whose key is not there. O(1) amortised
    pub fn insert(&mut self, element: E) {
        self.0.insert_unique(hash_of(element.key()), element, |element| hash_of(element.key()));
    }

    /// Removes the element of a key. O(1) amortised
    pub fn remove(&mut self, key: &[u8]) -> Option<E> {
        let (element, _) = self.0.find_entry(hash_of(key), |element| element.key() == key).ok()?.remove();
        self.shrink();
        Some(element)
    }

    /// The elements in no order.
    pub fn iter(&self) -> impl Iterator<Item = &E> {
        self.0.iter()
    }

    /// A bucket at random that has an element. O(1) expected; there must be an element.
    pub fn random_bucket(&self, random: &mut fastrand::Rng) -> usize {
        assert!(!self.is_empty(), "collections without elements do not exist");
        loop {
            let bucket = random.usize(..self.0.num_buckets());
            if self.0.get_bucket(bucket).is_some() {
                return bucket;
            }
        }
    }

    /// The element in a bucket that has one.
    #[inline]
    pub fn at(&self, bucket: usize) -> &E {
        self.0.get_bucket(bucket).expect("a bucket is used before the table changes")
    }

    /// Removes the element in a bucket that has one. O(1) amortised
    pub fn remove_at(&mut self, bucket: usize) -> E {
        let entry = self.0.get_bucket_entry(bucket).ok().expect("a bucket is used before the table changes");
        let (element, _) = entry.remove();
        self.shrink();
        element
    }

    /// Visits the next elements in an order that does not change, about `count`, from the position `start` of 48 bits
    /// on; gives where those after them start, if there may be any.
    pub fn walk(&self, start: u64, count: usize, visit: &mut dyn FnMut(&E)) -> Option<u64> {
        walk(std::iter::once(self), 1, start, count, visit)
    }

    /// A table that held many elements once should not keep their room for ever, nor shrink and grow in turn.
    fn shrink(&mut self) {
        const SMALL: usize = 64;
        const SPARSE: usize = 8;
        if self.0.capacity() > SMALL && self.len() * SPARSE < self.0.capacity() {
            self.0.shrink_to(self.len() * 2, |element| hash_of(element.key()));
        }
    }
}

impl<E: Keyed> Homes for ElementTable<E> {
    type Item = E;

    fn hash(item: &E) -> u64 {
        hash_of(item.key())
    }

    fn items(&self) -> usize {
        self.len()
    }

    fn homes(&self) -> usize {
        self.0.num_buckets()
    }

    fn for_each<'a>(&'a self, visit: impl FnMut(&'a E))
    where
        E: 'a,
    {
        self.0.iter().for_each(visit);
    }

    fn for_each_candidate(&self, hash: u64, visit: impl FnMut(&E)) {
        self.0.iter_hash(hash).for_each(visit);
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
    fn a_table_that_was_large_shrinks() {
        let mut table = ElementTable::with_capacity(0);
        (0..10_000).for_each(|n| table.insert(Member::new(format!("{n}").as_bytes())));
        for n in 10..10_000 {
            table.remove(format!("{n}").as_bytes()).expect("it was inserted");
        }
        assert!(table.0.num_buckets() <= 128, "{} buckets for 10", table.0.num_buckets());
    }
}
