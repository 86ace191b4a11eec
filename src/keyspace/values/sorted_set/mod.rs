//! Sorted sets: unique members, each with a score, in the order of their scores.
//!
//! Equal scores are ordered by member, byte by byte. A small sorted set is a listpack of alternating members and
//! scores; a large one finds each member by its hash and by its position in the order (`Large`). It grows from one to
//! the other, and does not go back, as in Redis.

mod cut;
mod large;

pub use cut::Cut;

use super::collection::{Collection, Object};
use super::listpack::{Element, Listpack};
use crate::keyspace::encoding_limits::PairLimits;
use crate::keyspace::raw::packed_box::PackedBox;
use crate::keyspace::settings::Settings;
use crate::resp::DoubleText;
use large::Large;
use std::ops::Range;

/// A sorted set.
///
/// Invariant: no score is NaN.
#[derive(Debug, Clone)]
pub struct SortedSet(Encoding);

#[derive(Debug, Clone)]
enum Encoding {
    /// Alternating members and scores, in order.
    Small(Listpack),
    Large(PackedBox<Large>),
}

impl Default for SortedSet {
    fn default() -> Self {
        Self(Encoding::Small(Listpack::new()))
    }
}

impl SortedSet {
    /// How many members there are. O(1)
    pub fn len(&self) -> usize {
        match &self.0 {
            Encoding::Small(pairs) => pairs.len() / 2,
            Encoding::Large(large) => large.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The encoding's name as OBJECT ENCODING replies it: Redis's large one is a skip list.
    pub fn encoding(&self) -> &'static str {
        if self.is_small() { "listpack" } else { "skiplist" }
    }

    /// Whether it is one run of bytes.
    pub fn is_small(&self) -> bool {
        matches!(self.0, Encoding::Small(_))
    }

    /// The run of bytes, if it is one: alternating members and scores.
    pub fn packed(&self) -> Option<&Listpack> {
        match &self.0 {
            Encoding::Small(pairs) => Some(pairs),
            Encoding::Large(_) => None,
        }
    }

    /// The score of a member. O(1)
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        match &self.0 {
            Encoding::Small(pairs) => Some(score_after(pairs, find(pairs, member)?)),
            Encoding::Large(large) => large.score(member),
        }
    }

    /// How many members precede a member, and its score. O(log N)
    pub fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        match &self.0 {
            Encoding::Small(pairs) => {
                let offset = find(pairs, member)?;
                let rank = pairs.offsets().step_by(2).take_while(|&other| other < offset).count();
                Some((rank, score_after(pairs, offset)))
            }
            Encoding::Large(large) => large.rank(member),
        }
    }

    /// How many members precede a cut. O(log N)
    pub fn position(&self, cut: Cut<'_>) -> usize {
        match &self.0 {
            Encoding::Small(_) => {
                let mut digits = itoa::Buffer::new();
                let is_before = |&(member, score): &(Element<'_>, f64)| cut.is_after(member.bytes(&mut digits), score);
                self.range(0..self.len()).take_while(is_before).count()
            }
            Encoding::Large(large) => large.position(cut),
        }
    }

    /// The members of these ranks with their scores, in order. O(log N) to begin
    ///
    /// # Panics
    /// If the range ends after the last member.
    pub fn range(&self, ranks: Range<usize>) -> Elements<'_> {
        assert!(ranks.end <= self.len(), "ranks are below the length");
        match &self.0 {
            Encoding::Small(pairs) => Elements::Small {
                pairs,
                front: pairs.seek(2 * ranks.start),
                // The last score of the range.
                back: (2 * ranks.end).checked_sub(1).and_then(|index| pairs.seek(index)),
                left: ranks.len(),
            },
            Encoding::Large(large) => Elements::Large { left: ranks.len(), scored: large.range(ranks) },
        }
    }

    /// All members with their scores, in order.
    pub fn iter(&self) -> Elements<'_> {
        self.range(0..self.len())
    }

    /// Sets the score of a member, and returns its old score. O(log N)
    pub fn insert(&mut self, limits: PairLimits, member: &[u8], score: f64) -> Option<f64> {
        debug_assert!(!score.is_nan(), "the caller refuses NaN");
        self.grow(limits, member);
        match &mut self.0 {
            Encoding::Small(pairs) => {
                let old = find(pairs, member).map(|offset| (offset, score_after(pairs, offset)));
                if old.is_none_or(|(_, old)| old != score) {
                    if let Some((offset, _)) = old {
                        pairs.remove(offset, 2);
                    }
                    insert_pair(pairs, member, score);
                }
                old.map(|(_, score)| score)
            }
            Encoding::Large(large) => large.insert(member, score),
        }
    }

    /// Removes a member, and returns its score. O(log N)
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        match &mut self.0 {
            Encoding::Small(pairs) => {
                let offset = find(pairs, member)?;
                let score = score_after(pairs, offset);
                pairs.remove(offset, 2);
                Some(score)
            }
            Encoding::Large(large) => large.remove(member),
        }
    }

    /// Removes the members of these ranks. O(log N) for each
    pub fn remove_range(&mut self, ranks: Range<usize>) {
        match &mut self.0 {
            Encoding::Small(pairs) => {
                if let Some(offset) = pairs.seek(2 * ranks.start) {
                    pairs.remove(offset, 2 * ranks.len());
                }
            }
            Encoding::Large(large) => large.remove_range(ranks),
        }
    }

    /// Visits about `count` members in the order of ZSCAN, from the position `start` on; returns where the next ones
    /// start, if there may be any. A small sorted set is visited at once, in order.
    pub fn walk(&self, start: u64, count: usize, visit: &mut dyn FnMut(Element<'_>, f64)) -> Option<u64> {
        match &self.0 {
            Encoding::Small(_) => {
                self.iter().for_each(|(member, score)| visit(member, score));
                None
            }
            Encoding::Large(large) => large.walk(start, count, visit),
        }
    }

    /// Makes it large if it would be too large with this member.
    fn grow(&mut self, limits: PairLimits, member: &[u8]) {
        let Encoding::Small(pairs) = &self.0 else { return };
        let is_full = self.len() >= limits.elements && find(pairs, member).is_none();
        if is_full || member.len() > limits.value || !pairs.has_room_for(Element::Bytes(member)) {
            self.make_large();
        }
    }

    /// An empty one, large if this many elements would make it so.
    pub fn of_so_many(limits: PairLimits, elements: usize) -> Self {
        let mut set = Self::default();
        set.expect(limits, elements);
        set
    }

    /// Makes it large if this many elements would make it so, before they are added: one may be there, or come twice.
    pub fn expect(&mut self, limits: PairLimits, elements: usize) {
        if elements > limits.elements {
            self.make_large();
        }
    }

    /// A set of elements that are all known: it is large from the start if one of them would make it so. A score of -0
    /// keeps its sign then, as in Redis, which it would lose in the small encoding.
    pub fn of_all<'m>(limits: PairLimits, elements: impl ExactSizeIterator<Item = (&'m [u8], f64)> + Clone) -> Self {
        let mut set = Self::of_so_many(limits, elements.len());
        if elements.clone().any(|(member, _)| member.len() > limits.value) {
            set.make_large();
        }
        elements.for_each(|(member, score)| _ = set.insert(limits, member, score));
        set
    }

    /// Makes it large, however few members there are. O(N log N)
    pub fn make_large(&mut self) {
        if self.is_small() {
            self.0 = Encoding::Large(PackedBox::new(self.iter().collect()));
        }
    }
}

/// Where a member is in a listpack of pairs.
fn find(pairs: &Listpack, member: &[u8]) -> Option<usize> {
    pairs.find(pairs.first(), Element::of(member), 2)
}

fn score_after(pairs: &Listpack, offset: usize) -> f64 {
    score_at(pairs, pairs.next(offset).expect("a score follows each member"))
}

fn score_at(pairs: &Listpack, offset: usize) -> f64 {
    match pairs.at(offset) {
        Element::Integer(integer) => integer as f64,
        Element::Bytes(text) => {
            let score = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
            score.expect("a score is a number that was printed")
        }
    }
}

/// Adds a pair before the first that is greater.
fn insert_pair(pairs: &mut Listpack, member: &[u8], score: f64) {
    let mut digits = itoa::Buffer::new();
    let cut = Cut::BeforeElement(score, member);
    let mut is_before = |&offset: &usize| cut.is_after(pairs.at(offset).bytes(&mut digits), score_after(pairs, offset));
    let offset = pairs.offsets().step_by(2).find(|offset| !is_before(offset));
    // First the score, then the member before it, at the same offset.
    let text = DoubleText::shortest(score);
    // Zero has no sign there, as in Redis.
    let score = if score == 0.0 { Element::Integer(0) } else { Element::of(&text) };
    match offset {
        Some(offset) => {
            pairs.insert(offset, score);
            pairs.insert(offset, Element::of(member));
        }
        None => {
            pairs.push_back(Element::of(member));
            pairs.push_back(score);
        }
    }
}

impl Collection for SortedSet {
    type Limits = PairLimits;

    fn limits(settings: &Settings) -> PairLimits {
        settings.encodings.of_sorted_sets()
    }

    fn of(object: &Object) -> Option<&Self> {
        match object {
            Object::SortedSet(set) => Some(set),
            _ => None,
        }
    }

    fn of_mut(object: &mut Object) -> Option<&mut Self> {
        match object {
            Object::SortedSet(set) => Some(set),
            _ => None,
        }
    }

    fn into_object(self) -> Object {
        Object::SortedSet(self)
    }

    fn shrink(&mut self, _limits: PairLimits) -> bool {
        if let Encoding::Large(large) = &mut self.0 {
            large.shrink();
        }
        self.is_empty()
    }
}

/// Members with their scores, in order: see [`SortedSet::range`].
pub enum Elements<'a> {
    /// Of a small sorted set.
    Small {
        /// Alternating members and scores.
        pairs: &'a Listpack,
        /// The next member.
        front: Option<usize>,
        /// The last score.
        back: Option<usize>,
        /// How many members are left.
        left: usize,
    },
    /// Of a large one.
    Large {
        /// How many members are left.
        left: usize,
        /// The elements in order.
        scored: large::Ordered<'a>,
    },
}

impl<'a> Iterator for Elements<'a> {
    type Item = (Element<'a>, f64);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Small { pairs, front, left, .. } => {
                *left = left.checked_sub(1)?;
                let member = front.expect("there are so many as are left");
                let score = pairs.next(member).expect("a score follows each member");
                *front = pairs.next(score);
                Some((pairs.at(member), score_at(pairs, score)))
            }
            Self::Large { left, scored } => {
                *left = left.checked_sub(1)?;
                scored.next()
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let (Self::Small { left, .. } | Self::Large { left, .. }) = *self;
        (left, Some(left))
    }
}

impl DoubleEndedIterator for Elements<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        match self {
            Self::Small { pairs, back, left, .. } => {
                *left = left.checked_sub(1)?;
                let score = back.expect("there are so many as are left");
                let member = pairs.previous(score).expect("a member stands before each score");
                *back = pairs.previous(member);
                Some((pairs.at(member), score_at(pairs, score)))
            }
            Self::Large { left, scored } => {
                *left = left.checked_sub(1)?;
                scored.next_back()
            }
        }
    }
}

impl ExactSizeIterator for Elements<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::encoding_limits::EncodingLimits;
    use proptest::prelude::*;

    fn limits() -> PairLimits {
        EncodingLimits::default().of_sorted_sets()
    }

    /// A simple model: members in order, without an index.
    #[derive(Debug, Default, Clone)]
    struct Model(Vec<(f64, Vec<u8>)>);

    impl Model {
        fn insert(&mut self, member: &[u8], score: f64) -> Option<f64> {
            let old = self.score(member);
            if old != Some(score) {
                self.remove(member);
                self.0.push((score, member.to_vec()));
                self.0.sort_by(|(score, member), (other_score, other)| {
                    cut::compare((*score, member), (*other_score, other))
                });
            }
            old
        }

        fn score(&self, member: &[u8]) -> Option<f64> {
            self.0.iter().find(|(_, other)| other == member).map(|&(score, _)| score)
        }

        fn remove(&mut self, member: &[u8]) -> Option<f64> {
            let at = self.0.iter().position(|(_, other)| other == member)?;
            Some(self.0.remove(at).0)
        }
    }

    #[derive(Debug, Clone)]
    enum Step {
        Insert(u16, f64),
        Remove(u16),
        RemoveRange(usize, usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let score = prop_oneof![
            (-5_i32..5).prop_map(f64::from),
            any::<f64>().prop_filter("no score is NaN", |score| !score.is_nan()),
            Just(f64::INFINITY),
            Just(-0.0),
            Just(0.1),
        ];
        prop_oneof![
            8 => (0_u16..700, score).prop_map(|(member, score)| Step::Insert(member, score)),
            3 => (0_u16..700).prop_map(Step::Remove),
            1 => (0_usize..700, 0_usize..40).prop_map(|(start, len)| Step::RemoveRange(start, len)),
        ]
    }

    /// Members that are integers and members that are not.
    fn member(number: u16) -> Vec<u8> {
        if number.is_multiple_of(3) { number.to_string() } else { format!("member:{number}") }.into_bytes()
    }

    fn elements<'a>(elements: impl Iterator<Item = (Element<'a>, f64)>) -> Vec<(f64, Vec<u8>)> {
        elements.map(|(member, score)| (score, member.to_vec())).collect()
    }

    fn assert_same(set: &SortedSet, model: &Model) {
        assert_eq!(set.len(), model.0.len());
        assert_eq!(elements(set.iter()), model.0);
        let mut reversed = elements(set.iter().rev());
        reversed.reverse();
        assert_eq!(reversed, model.0);
        for (rank, (score, member)) in model.0.iter().enumerate() {
            assert_eq!((set.rank(member), set.score(member)), (Some((rank, *score)), Some(*score)));
        }
        let len = model.0.len();
        for ranks in [0..0, len / 3..len / 2, len / 2..len, len..len] {
            assert_eq!(elements(set.range(ranks.clone())), model.0[ranks]);
        }
        let cuts = [-6.0, -1.0, 0.0, 0.1, 3.0, f64::INFINITY, f64::NEG_INFINITY];
        let cuts = cuts.iter().flat_map(|&score| {
            [Cut::BeforeScore(score), Cut::AfterScore(score), Cut::BeforeElement(score, b"member:4")]
        });
        for cut in cuts {
            let before = model.0.iter().take_while(|(score, member)| cut.is_after(member, *score)).count();
            assert_eq!(set.position(cut), before, "{cut:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn a_sorted_set_does_what_a_sorted_list_does(
            steps in prop::collection::vec(step(), 1..1_500),
            checks in 1_usize..8,
        ) {
            let (mut set, mut model) = (SortedSet::default(), Model::default());
            for (index, step) in steps.iter().enumerate() {
                match *step {
                    Step::Insert(number, score) => {
                        prop_assert_eq!(set.insert(limits(), &member(number), score), model.insert(&member(number), score));
                    }
                    Step::Remove(number) => {
                        prop_assert_eq!(set.remove(&member(number)), model.remove(&member(number)));
                    }
                    Step::RemoveRange(start, len) => {
                        let start = start.min(model.0.len());
                        let end = (start + len).min(model.0.len());
                        set.remove_range(start..end);
                        model.0.drain(start..end);
                    }
                }
                if index % (steps.len() / checks + 1) == 0 {
                    assert_same(&set, &model);
                    assert_same(&set.clone(), &model);
                    prop_assert_eq!(set.shrink(limits()), model.0.is_empty());
                }
            }
            assert_same(&set, &model);
        }

        #[test]
        fn members_of_one_score_are_cut_by_member(numbers in prop::collection::vec(0_u16..400, 1..300), at in 0_u16..400) {
            let mut set = SortedSet::default();
            let mut members: Vec<_> = numbers.into_iter().map(member).collect();
            members.iter().for_each(|member| {
                set.insert(limits(), member, 1.0);
            });
            members.sort();
            members.dedup();
            let at = member(at);
            prop_assert_eq!(set.position(Cut::BeforeMember(&at)), members.partition_point(|member| *member < at));
            prop_assert_eq!(set.position(Cut::AfterMember(&at)), members.partition_point(|member| *member <= at));
        }
    }

    #[test]
    fn many_members_come_and_go_and_leave_their_room() {
        const MEMBERS: u32 = 20_000;
        let mut set = SortedSet::default();
        (0..MEMBERS).for_each(|n| {
            set.insert(limits(), &n.to_le_bytes(), f64::from(n * 7919 % MEMBERS));
        });
        for rank in [0, 1, 511, 512, 9_999, 19_999] {
            let (element, score) = set.range(rank..rank + 1).next().expect("the rank is below the length");
            assert_eq!((score, set.rank(&element.to_vec())), (rank as f64, Some((rank, score))));
        }
        set.remove_range(10..19_990);
        assert!(!set.shrink(limits()));
        let scores: Vec<f64> = set.iter().map(|(_, score)| score).collect();
        assert_eq!(scores, (0..10).chain(19_990..20_000).map(f64::from).collect::<Vec<_>>());
    }

    #[test]
    fn a_walk_over_a_large_sorted_set_gives_what_stays_once_while_it_grows_and_shrinks() {
        for grows in [true, false] {
            let mut set = SortedSet::default();
            (0..2_000).for_each(|n| {
                set.insert(limits(), format!("staying:{n}").as_bytes(), f64::from(n));
            });
            let mut passing = 0..if grows { 0 } else { 20_000 };
            passing.clone().for_each(|n| {
                set.insert(limits(), format!("passing:{n}").as_bytes(), 0.0);
            });
            let (mut seen, mut position) = (std::collections::HashMap::<Vec<u8>, u32>::new(), Some(0));
            while let Some(start) = position {
                position = set.walk(start, 100, &mut |member, _| *seen.entry(member.to_vec()).or_default() += 1);
                if grows {
                    (passing.end..passing.end + 500).for_each(|n| {
                        set.insert(limits(), format!("passing:{n}").as_bytes(), 0.0);
                    });
                    passing.end += 500;
                } else {
                    (passing.start..passing.end.min(passing.start + 500)).for_each(|n| {
                        set.remove(format!("passing:{n}").as_bytes());
                    });
                    passing.start = passing.end.min(passing.start + 500);
                    set.shrink(limits());
                }
            }
            (0..2_000).for_each(|n| assert_eq!(seen.get(format!("staying:{n}").as_bytes()), Some(&1), "staying:{n}"));
            assert!(seen.values().all(|&times| times == 1), "nothing is given twice");
        }
    }
}
