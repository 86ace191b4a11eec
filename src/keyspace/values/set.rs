//! Sets: an intset or a listpack while they are small, then a hash table.

use super::intset::Intset;
use super::listpack::{Element, Listpack};
use crate::keyspace::encoding_limits::SetLimits;
use crate::keyspace::raw::packed_box::PackedBox;
use crate::keyspace::values::element_table::{ElementTable, Keyed, Member};
use crate::resp::parse_i64;

/// A set: unique members, one of which can be drawn at random in O(1).
#[derive(Clone)]
pub enum Set {
    /// Integers only, and few.
    Integers(Intset),
    /// Few and short ones.
    Packed(Listpack),
    /// Any other.
    Table(PackedBox<ElementTable<Member>>),
}

/// The position of a member, valid until the set changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Spot(usize);

impl Default for Set {
    fn default() -> Self {
        Self::Integers(Intset::new())
    }
}

impl Set {
    /// An empty set in the encoding that suits a first member and the number of members added with it.
    pub fn for_members(limits: SetLimits, first: &[u8], count: usize) -> Self {
        if count <= limits.integers && parse_i64(first).is_some() {
            Self::default()
        } else if count <= limits.elements {
            Self::packed()
        } else {
            Self::Table(PackedBox::new(ElementTable::with_capacity(0)))
        }
    }

    /// An empty set for few members.
    pub fn packed() -> Self {
        Self::Packed(Listpack::new())
    }

    /// Prepares for this many members that are added in one step: if they are too many for a small set, it becomes
    /// large at once.
    pub fn prepare(&mut self, limits: SetLimits, count: usize) {
        let is_too_small = match self {
            Self::Integers(_) => count > limits.integers,
            Self::Packed(_) => count > limits.elements,
            Self::Table(_) => false,
        };
        if is_too_small {
            self.become_table();
        }
    }

    /// The encoding's name as OBJECT ENCODING replies it.
    pub fn encoding(&self) -> &'static str {
        match self {
            Self::Integers(_) => "intset",
            Self::Packed(_) => "listpack",
            Self::Table(_) => "hashtable",
        }
    }

    /// How many members there are.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Self::Integers(integers) => integers.len(),
            Self::Packed(listpack) => listpack.len(),
            Self::Table(table) => table.len(),
        }
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether there is such a member. O(1)
    pub fn contains(&self, member: &[u8]) -> bool {
        match self {
            Self::Integers(integers) => parse_i64(member).is_some_and(|integer| integers.contains(integer)),
            Self::Packed(listpack) => listpack.find(listpack.first(), Element::of(member), 1).is_some(),
            Self::Table(table) => table.get(member).is_some(),
        }
    }

    /// Whether there is this member, given as an element of another set.
    pub fn contains_element(&self, member: Element<'_>) -> bool {
        match (self, member) {
            (Self::Integers(integers), Element::Integer(integer)) => integers.contains(integer),
            _ => self.contains(member.bytes(&mut itoa::Buffer::new())),
        }
    }

    /// Adds a member; false if it is there already. O(1) amortised
    pub fn insert(&mut self, limits: SetLimits, member: &[u8]) -> bool {
        match self {
            Self::Integers(_) => self.insert_into_integers(limits, member),
            Self::Packed(_) => self.insert_into_packed(limits, member),
            Self::Table(table) => {
                let is_new = table.get(member).is_none();
                if is_new {
                    table.insert(Member::new(member));
                }
                is_new
            }
        }
    }

    fn insert_into_integers(&mut self, limits: SetLimits, member: &[u8]) -> bool {
        let Self::Integers(integers) = self else { unreachable!("the caller has looked") };
        let Some(integer) = parse_i64(member) else {
            self.leave_integers(limits, member);
            return self.insert(limits, member);
        };
        let is_new = integers.insert(integer);
        // The limit may have been lowered: a member that is there already changes nothing.
        if is_new && integers.len() > limits.integers {
            self.become_table();
        }
        is_new
    }

    /// Changes the encoding for a member that is no integer.
    fn leave_integers(&mut self, limits: SetLimits, member: &[u8]) {
        let Self::Integers(integers) = self else { unreachable!("the caller has looked") };
        let longest = integers.iter().next().into_iter().chain(integers.iter().next_back());
        let longest = longest.map(|integer| Element::Integer(integer).len()).chain([member.len()]).max();
        if integers.len() < limits.elements && longest <= Some(limits.value) {
            let mut listpack = Listpack::new();
            integers.iter().for_each(|integer| listpack.push_back(Element::Integer(integer)));
            *self = Self::Packed(listpack);
        } else {
            self.become_table();
        }
    }

    fn insert_into_packed(&mut self, limits: SetLimits, member: &[u8]) -> bool {
        let Self::Packed(listpack) = self else { unreachable!("the caller has looked") };
        let parsed = Element::of(member);
        if listpack.find(listpack.first(), parsed, 1).is_some() {
            return false;
        }
        let is_small = listpack.len() < limits.elements && member.len() <= limits.value;
        if is_small && listpack.has_room_for(parsed) {
            listpack.push_back(parsed);
            return true;
        }
        self.become_table();
        self.insert(limits, member)
    }

    fn become_table(&mut self) {
        let mut table = ElementTable::with_capacity(self.len() + 1);
        let mut digits = itoa::Buffer::new();
        self.iter().for_each(|member| table.insert(Member::new(member.bytes(&mut digits))));
        *self = Self::Table(PackedBox::new(table));
    }

    /// Adds members of other sets.
    pub fn extend<'a>(&mut self, limits: SetLimits, members: impl Iterator<Item = Element<'a>>) {
        let mut digits = itoa::Buffer::new();
        members.for_each(|member| _ = self.insert(limits, member.bytes(&mut digits)));
    }

    /// Makes a table a small set, if its members are few and short. Integers do not become an intset, as in Redis.
    pub fn become_packed(&mut self, limits: SetLimits) {
        if !matches!(self, Self::Table(_)) || self.len() > limits.elements {
            return;
        }
        let mut packed = Self::packed();
        packed.extend(limits, self.iter());
        *self = packed;
    }

    /// Makes a set of integers an intset, if they are few enough.
    pub fn become_integers(&mut self, limits: SetLimits) {
        if matches!(self, Self::Integers(_)) || self.len() > limits.integers {
            return;
        }
        let mut integers = Intset::new();
        for member in self.iter() {
            let Some(integer) = member.integer() else { return };
            integers.insert(integer);
        }
        *self = Self::Integers(integers);
    }

    /// Removes a member; false if it is not there. O(1) amortised
    pub fn remove(&mut self, member: &[u8]) -> bool {
        match self {
            Self::Integers(integers) => parse_i64(member).is_some_and(|integer| integers.remove(integer)),
            Self::Packed(listpack) => match listpack.find(listpack.first(), Element::of(member), 1) {
                Some(offset) => listpack.remove(offset, 1) > 0,
                None => false,
            },
            Self::Table(table) => table.remove(member).is_some(),
        }
    }

    /// A random member; there must be one. O(1) expected
    pub fn random(&self, random: &mut fastrand::Rng) -> Spot {
        Spot(match self {
            Self::Integers(integers) => random.usize(..integers.len()),
            Self::Packed(listpack) => {
                listpack.seek(random.usize(..listpack.len())).expect("the index is below the length")
            }
            Self::Table(table) => table.random_bucket(random),
        })
    }

    /// The member at a spot.
    pub fn at(&self, Spot(spot): Spot) -> Element<'_> {
        match self {
            Self::Integers(integers) => Element::Integer(integers.get(spot).expect("a spot is of this set")),
            Self::Packed(listpack) => listpack.at(spot),
            Self::Table(table) => Element::Bytes(table.at(spot).key()),
        }
    }

    /// Removes the member at a spot.
    pub fn remove_at(&mut self, Spot(spot): Spot) {
        match self {
            Self::Integers(integers) => drop(integers.remove_at(spot)),
            Self::Packed(listpack) => drop(listpack.remove(spot, 1)),
            Self::Table(table) => drop(table.remove_at(spot)),
        }
    }

    /// The members; those of an intset in ascending order.
    pub fn iter(&self) -> Box<dyn Iterator<Item = Element<'_>> + '_> {
        match self {
            Self::Integers(integers) => Box::new(integers.iter().map(Element::Integer)),
            Self::Packed(listpack) => Box::new(listpack.iter()),
            Self::Table(table) => Box::new(table.iter().map(|member| Element::Bytes(member.key()))),
        }
    }

    /// Visits about `count` members in an order that does not change, from the position `start` on; returns where the
    /// next ones start, if there may be any. A small set is one page.
    pub fn walk(&self, start: u64, count: usize, visit: &mut dyn FnMut(Element<'_>)) -> Option<u64> {
        match self {
            Self::Table(table) => table.walk(start, count, &mut |member| visit(Element::Bytes(member.key()))),
            _ => {
                self.iter().for_each(visit);
                None
            }
        }
    }
}

impl std::fmt::Debug for Set {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::encoding_limits::EncodingLimits;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn limits() -> SetLimits {
        EncodingLimits::default().of_sets()
    }

    fn member() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            8 => (0..300u32).prop_map(|number| number.to_string().into_bytes()),
            1 => (0..300u32).prop_map(|number| format!("member:{number}").into_bytes()),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_set_is_a_set_whatever_its_encoding(
            seed in any::<u64>(),
            steps in proptest::collection::vec((0..5u8, member()), 0..600),
            last in proptest::option::of(Just([b'x'; 65])),
        ) {
            let mut random = fastrand::Rng::with_seed(seed);
            let (mut set, mut model) = (Set::default(), BTreeSet::new());
            let last = last.map(|member| (4, member.to_vec()));
            for (step, member) in steps.into_iter().chain(last) {
                prop_assert_eq!(set.contains(&member), model.contains(&member));
                match step {
                    0 => prop_assert_eq!(set.remove(&member), model.remove(&member)),
                    1 if !set.is_empty() => {
                        let spot = set.random(&mut random);
                        let drawn = set.at(spot).to_vec();
                        set.remove_at(spot);
                        prop_assert!(model.remove(&drawn));
                    }
                    _ => prop_assert_eq!(set.insert(limits(), &member), model.insert(member)),
                }
                prop_assert_eq!(set.len(), model.len());
            }
            prop_assert_eq!(set.iter().map(Element::to_vec).collect::<BTreeSet<_>>(), model.clone());
            let mut walked = BTreeSet::new();
            let mut next = Some(0);
            while let Some(start) = next {
                next = set.walk(start, 10, &mut |member| { walked.insert(member.to_vec()); });
            }
            prop_assert_eq!(walked, model);
        }
    }

    #[test]
    fn a_set_changes_its_encoding_where_redis_does() {
        let mut set = Set::default();
        (0..512).for_each(|n| assert!(set.insert(limits(), n.to_string().as_bytes())));
        assert_eq!(set.encoding(), "intset");
        let mut mixed = set.clone();
        mixed.insert(limits(), b"x");
        assert_eq!(mixed.encoding(), "hashtable");
        set.insert(limits(), b"512");
        assert_eq!(set.encoding(), "hashtable");
        let mut set = Set::default();
        (0..127).for_each(|n| assert!(set.insert(limits(), n.to_string().as_bytes())));
        set.insert(limits(), b"x");
        assert_eq!((set.encoding(), set.len()), ("listpack", 128));
        let mut long = set.clone();
        set.insert(limits(), b"y");
        assert_eq!(set.encoding(), "hashtable");
        long.remove(b"x");
        long.insert(limits(), &[b'x'; 64]);
        assert_eq!(long.encoding(), "listpack");
        long.remove(b"1");
        long.insert(limits(), &[b'x'; 65]);
        assert_eq!(long.encoding(), "hashtable");
    }
}
