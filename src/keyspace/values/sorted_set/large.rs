//! The large encoding of a sorted set: an order-statistic tree and a hash table that share the members.
//!
//! The tree is indexset's: leaves of up to [`LEAF`] elements under a Fenwick tree of their lengths, which finds ranks
//! in O(log N). It keeps scores beside the pointers, so that few comparisons follow one. Of two crates this one needed
//! less memory for 500,000 members of 8 to 13 bytes: 87 bytes each inserted in order, 85 in random order, while
//! wabi_tree 0.1.5 needed 123 and 103; leaves of 256 needed 100 and 90, those of 1024 moved more bytes at each
//! insertion.

use super::cut::{Cut, compare};
use crate::keyspace::raw::scored::Scored;
use crate::keyspace::values::element_table::{ElementTable, Keyed};
use crate::keyspace::values::listpack::Element;
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::ops::Range;

/// Elements in a leaf of the tree at most.
const LEAF: usize = 512;
/// The tree of up to this many members is never rebuilt.
const SMALL_LEN: usize = 64;
/// A tree with room for more than this many times its members is rebuilt.
const SPARSE: usize = 8;

/// Members by hash and in order.
///
/// Invariants: both hold the same elements; `Ranked::score` is the score of its element, which leaves the order before
/// its score changes.
pub struct Large {
    members: ElementTable<Scored>,
    order: indexset::BTreeSet<Ranked>,
    /// The most members since the order was made.
    most: usize,
}

impl Default for Large {
    fn default() -> Self {
        Self { members: ElementTable::with_capacity(0), order: new_order(), most: 0 }
    }
}

fn new_order() -> indexset::BTreeSet<Ranked> {
    indexset::BTreeSet::with_maximum_node_size(LEAF)
}

impl Large {
    pub fn len(&self) -> usize {
        self.members.len()
    }

    fn find(&self, member: &[u8]) -> Option<&Scored> {
        self.members.get(member)
    }

    pub fn score(&self, member: &[u8]) -> Option<f64> {
        self.find(member).map(Scored::score)
    }

    pub fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        let scored = self.find(member)?;
        Some((self.order.rank(&Ranked::of(scored)), scored.score()))
    }

    pub fn position(&self, cut: Cut<'_>) -> usize {
        self.order.rank::<dyn Point + '_>(&cut)
    }

    pub fn range(&self, ranks: Range<usize>) -> Ordered<'_> {
        Ordered((!ranks.is_empty()).then(|| self.order.range_idx(ranks.start..=ranks.end - 1)))
    }

    pub fn insert(&mut self, member: &[u8], score: f64) -> Option<f64> {
        match self.members.get_mut(member) {
            Some(scored) => {
                let old = scored.score();
                if old != score {
                    let was_there = self.order.remove(&Ranked::of(scored));
                    debug_assert!(was_there, "both hold the same elements");
                    scored.set_score(score);
                    self.order.insert(Ranked::of(scored));
                }
                Some(old)
            }
            None => {
                self.add(Scored::new(member, score));
                None
            }
        }
    }

    fn add(&mut self, scored: Scored) {
        self.order.insert(Ranked::of(&scored));
        self.members.insert(scored);
        self.most = self.most.max(self.len());
    }

    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let scored = self.members.remove(member)?;
        let was_there = self.order.remove(&Ranked::of(&scored));
        debug_assert!(was_there, "both hold the same elements");
        Some(scored.score())
    }

    pub fn remove_range(&mut self, ranks: Range<usize>) {
        for _ in ranks.clone() {
            let Ranked { scored, .. } = self.order.pop_index(ranks.start);
            self.members.remove(scored.member()).expect("both hold the same elements");
        }
    }

    /// Shrinks the memory after removals, once most of it is unused.
    pub fn shrink(&mut self) {
        if self.most > SMALL_LEN && self.len() * SPARSE < self.most {
            // Leaves never merge: the tree is rebuilt.
            let mut order = new_order();
            self.order.iter().for_each(|ranked| {
                order.insert(ranked.clone());
            });
            self.order = order;
            self.most = self.len();
        }
    }

    pub fn walk(&self, start: u64, count: usize, visit: &mut dyn FnMut(Element<'_>, f64)) -> Option<u64> {
        self.members.walk(start, count, &mut |scored| visit(Element::Bytes(scored.member()), scored.score()))
    }
}

impl<'a> FromIterator<(Element<'a>, f64)> for Large {
    /// The members are different from each other.
    fn from_iter<I: IntoIterator<Item = (Element<'a>, f64)>>(elements: I) -> Self {
        let mut large = Self::default();
        let mut digits = itoa::Buffer::new();
        for (member, score) in elements {
            large.add(Scored::new(member.bytes(&mut digits), score));
        }
        large
    }
}

/// A copy shares nothing: a score changes only while one sorted set has it.
impl Clone for Large {
    fn clone(&self) -> Self {
        self.range(0..self.len()).collect()
    }
}

impl std::fmt::Debug for Large {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.order.iter().map(|ranked| &ranked.scored)).finish()
    }
}

impl Keyed for Scored {
    #[inline]
    fn key(&self) -> &[u8] {
        self.member()
    }

    #[inline]
    fn prefetch(&self) {
        Scored::prefetch(self);
    }
}

/// Elements in order: see [`Large::range`].
pub struct Ordered<'a>(Option<indexset::Range<'a, Ranked>>);

impl<'a> Iterator for Ordered<'a> {
    type Item = (Element<'a>, f64);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.as_mut()?.next().map(Ranked::element)
    }
}

impl DoubleEndedIterator for Ordered<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.as_mut()?.next_back().map(Ranked::element)
    }
}

/// An element in the order, with a copy of its score.
#[derive(Clone)]
pub struct Ranked {
    score: f64,
    scored: Scored,
}

impl Ranked {
    fn of(scored: &Scored) -> Self {
        Self { score: scored.score(), scored: scored.clone() }
    }

    fn element(&self) -> (Element<'_>, f64) {
        (Element::Bytes(self.scored.member()), self.score)
    }

    #[inline]
    fn key(&self) -> (f64, &[u8]) {
        (self.score, self.scored.member())
    }
}

impl Ord for Ranked {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        // Members are compared only if the scores are equal.
        match self.score.partial_cmp(&other.score).expect("no score is NaN") {
            Ordering::Equal => self.scored.member().cmp(other.scored.member()),
            by_score => by_score,
        }
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ranked {}

/// A target of a search in the order: an element, or a cut between elements.
trait Point {
    fn at(&self) -> At<'_>;
}

enum At<'a> {
    Element(&'a Ranked),
    Cut(Cut<'a>),
}

impl Point for Ranked {
    fn at(&self) -> At<'_> {
        At::Element(self)
    }
}

impl Point for Cut<'_> {
    fn at(&self) -> At<'_> {
        At::Cut(*self)
    }
}

impl<'a> Borrow<dyn Point + 'a> for Ranked {
    fn borrow(&self) -> &(dyn Point + 'a) {
        self
    }
}

impl Ord for dyn Point + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        let side = |element: &Ranked, cut: Cut<'_>| {
            if cut.is_after(element.scored.member(), element.score) { Ordering::Less } else { Ordering::Greater }
        };
        match (self.at(), other.at()) {
            (At::Element(one), At::Element(other)) => compare(one.key(), other.key()),
            (At::Element(element), At::Cut(cut)) => side(element, cut),
            (At::Cut(cut), At::Element(element)) => side(element, cut).reverse(),
            (At::Cut(_), At::Cut(_)) => unreachable!("a cut is looked for among elements"),
        }
    }
}

impl PartialOrd for dyn Point + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for dyn Point + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for dyn Point + '_ {}
