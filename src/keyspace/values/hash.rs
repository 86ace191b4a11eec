//! Hashes: a listpack of alternating fields and values while they are small, then a hash table.

use super::listpack::{Element, Listpack};
use crate::keyspace::encoding_limits::PairLimits;
use crate::keyspace::raw::packed_box::PackedBox;
use crate::keyspace::values::element_table::{ElementTable, Field, Keyed};

/// A hash: unique fields with a value each.
#[derive(Clone)]
pub enum Hash {
    /// Few fields, short ones with short values.
    Packed(Listpack),
    /// Any other.
    Table(PackedBox<ElementTable<Field>>),
}

/// A field and its value are neighbours.
const PAIR: usize = 2;

/// The position of a field, valid until the hash changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FieldSpot(usize);

impl Default for Hash {
    fn default() -> Self {
        Self::Packed(Listpack::new())
    }
}

impl Hash {
    /// Prepares for fields and values, given alternately, that are set in one step: if they are too many or too long
    /// for a small hash, it becomes large at once.
    pub fn prepare<'e>(&mut self, limits: PairLimits, mut pairs: impl ExactSizeIterator<Item = &'e [u8]>) {
        if matches!(self, Self::Packed(_))
            && (pairs.len() / PAIR > limits.elements || pairs.any(|part| part.len() > limits.value))
        {
            self.become_table();
        }
    }

    /// The encoding's name as OBJECT ENCODING replies it.
    pub fn encoding(&self) -> &'static str {
        match self {
            Self::Packed(_) => "listpack",
            Self::Table(_) => "hashtable",
        }
    }

    /// How many fields there are.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Self::Packed(listpack) => listpack.len() / PAIR,
            Self::Table(table) => table.len(),
        }
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a field. O(1)
    #[inline]
    pub fn get(&self, name: &[u8]) -> Option<Element<'_>> {
        match self {
            Self::Packed(listpack) => {
                let offset = listpack.find(listpack.first(), Element::of(name), PAIR)?;
                Some(listpack.at(value_offset(listpack, offset)))
            }
            Self::Table(table) => table.get(name).map(|field| Element::Bytes(field.value())),
        }
    }

    /// Whether there is such a field. O(1)
    pub fn contains(&self, name: &[u8]) -> bool {
        self.get(name).is_some()
    }

    /// Sets a field to a value, and returns whether the field is new. O(1) amortised
    pub fn set(&mut self, limits: PairLimits, name: &[u8], value: &[u8]) -> bool {
        match self {
            Self::Packed(_) => self.set_packed(limits, name, value),
            Self::Table(table) => match table.get_mut(name) {
                Some(field) => {
                    field.set_value(value);
                    false
                }
                None => {
                    table.insert(Field::new(name, value));
                    true
                }
            },
        }
    }

    fn set_packed(&mut self, limits: PairLimits, name: &[u8], value: &[u8]) -> bool {
        let Self::Packed(listpack) = self else { unreachable!("the caller has looked") };
        let (field, new_value) = (Element::of(name), Element::of(value));
        let is_long = name.len().max(value.len()) > limits.value;
        if is_long || !listpack.has_room_for_both(field, new_value) {
            self.become_table();
            return self.set(limits, name, value);
        }
        let offset = listpack.find(listpack.first(), field, PAIR);
        match offset {
            Some(offset) => listpack.replace(value_offset(listpack, offset), new_value),
            None => {
                listpack.push_back(field);
                listpack.push_back(new_value);
            }
        }
        // The limit may have become lower since.
        if listpack.len() / PAIR > limits.elements {
            self.become_table();
        }
        offset.is_none()
    }

    fn become_table(&mut self) {
        let mut table = ElementTable::with_capacity(self.len() + 1);
        for (name, value) in self.iter() {
            let (mut name_digits, mut value_digits) = (itoa::Buffer::new(), itoa::Buffer::new());
            table.insert(Field::new(name.bytes(&mut name_digits), value.bytes(&mut value_digits)));
        }
        *self = Self::Table(PackedBox::new(table));
    }

    /// Removes a field; false if it is not there. O(1) amortised
    pub fn remove(&mut self, name: &[u8]) -> bool {
        match self {
            Self::Packed(listpack) => match listpack.find(listpack.first(), Element::of(name), PAIR) {
                Some(offset) => listpack.remove(offset, PAIR) > 0,
                None => false,
            },
            Self::Table(table) => table.remove(name).is_some(),
        }
    }

    /// The fields with their values.
    pub fn iter(&self) -> Box<dyn Iterator<Item = (Element<'_>, Element<'_>)> + '_> {
        match self {
            Self::Packed(listpack) => {
                let mut elements = listpack.iter();
                Box::new(std::iter::from_fn(move || Some((elements.next()?, elements.next()?))))
            }
            Self::Table(table) => Box::new(table.iter().map(pair_of)),
        }
    }

    /// A random field; there must be one. O(1) expected
    pub fn random(&self, random: &mut fastrand::Rng) -> FieldSpot {
        FieldSpot(match self {
            Self::Packed(listpack) => {
                let index = PAIR * random.usize(..self.len());
                listpack.seek(index).expect("the index is below the length")
            }
            Self::Table(table) => table.random_bucket(random),
        })
    }

    /// The field at a spot with its value.
    pub fn at(&self, FieldSpot(spot): FieldSpot) -> (Element<'_>, Element<'_>) {
        match self {
            Self::Packed(listpack) => (listpack.at(spot), listpack.at(value_offset(listpack, spot))),
            Self::Table(table) => pair_of(table.at(spot)),
        }
    }

    /// Visits about `count` fields in an order that does not change, from the position `start` on; returns where the
    /// next ones start, if there may be any. A small hash is one page.
    pub fn walk(&self, start: u64, count: usize, visit: &mut dyn FnMut((Element<'_>, Element<'_>))) -> Option<u64> {
        match self {
            Self::Table(table) => table.walk(start, count, &mut |field| visit(pair_of(field))),
            Self::Packed(_) => {
                self.iter().for_each(visit);
                None
            }
        }
    }
}

fn pair_of(field: &Field) -> (Element<'_>, Element<'_>) {
    (Element::Bytes(field.key()), Element::Bytes(field.value()))
}

fn value_offset(listpack: &Listpack, field: usize) -> usize {
    listpack.next(field).expect("a value follows each field")
}

impl std::fmt::Debug for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::encoding_limits::EncodingLimits;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn limits() -> PairLimits {
        EncodingLimits::default().of_hashes()
    }

    fn text() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            9 => (0..200u32).prop_map(|number| number.to_string().into_bytes()),
            3 => (0..200u32).prop_map(|number| format!("text:{number}").into_bytes()),
            1 => (0..64usize).prop_map(|len| vec![b'x'; len]),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_hash_is_a_map_whatever_its_encoding(
            seed in any::<u64>(),
            steps in proptest::collection::vec((0..5u8, text(), text()), 0..400),
        ) {
            let mut random = fastrand::Rng::with_seed(seed);
            let (mut hash, mut model) = (Hash::default(), BTreeMap::new());
            for (step, name, value) in steps {
                match step {
                    0 => prop_assert_eq!(hash.remove(&name), model.remove(&name).is_some()),
                    1 if !hash.is_empty() => {
                        let (name, value) = hash.at(hash.random(&mut random));
                        prop_assert_eq!(model.get(&name.to_vec()), Some(&value.to_vec()));
                    }
                    _ => prop_assert_eq!(hash.set(limits(), &name, &value), model.insert(name.clone(), value).is_none()),
                }
                prop_assert_eq!(hash.len(), model.len());
                prop_assert_eq!(hash.get(&name).map(Element::to_vec), model.get(&name).cloned());
            }
            let all: BTreeMap<_, _> = hash.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
            prop_assert_eq!(&all, &model);
            let mut walked = BTreeMap::new();
            let mut next = Some(0);
            while let Some(start) = next {
                next = hash.walk(start, 10, &mut |(name, value)| { walked.insert(name.to_vec(), value.to_vec()); });
            }
            prop_assert_eq!(walked, model);
        }
    }

    #[test]
    fn a_hash_changes_its_encoding_where_redis_does() {
        let mut hash = Hash::default();
        (0..512).for_each(|n| assert!(hash.set(limits(), n.to_string().as_bytes(), b"value")));
        assert_eq!(hash.encoding(), "listpack");
        let mut long = hash.clone();
        hash.set(limits(), b"512", b"value");
        assert_eq!(hash.encoding(), "hashtable");
        long.set(limits(), b"1", &[b'x'; 64]);
        assert_eq!(long.encoding(), "listpack");
        long.set(limits(), b"1", &[b'x'; 65]);
        assert_eq!((long.encoding(), long.len()), ("hashtable", 512));
        let mut hash = Hash::default();
        hash.prepare(limits(), [b"field".as_slice(), &[b'x'; 65]].into_iter());
        assert_eq!(hash.encoding(), "hashtable");
    }
}
