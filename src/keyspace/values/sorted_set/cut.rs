//! Cuts between the members of a sorted set.

use std::cmp::Ordering;

/// A place between members, defined by the members before it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cut<'a> {
    /// After all lower scores.
    BeforeScore(f64),
    /// After all lower scores and this one.
    AfterScore(f64),
    /// After all lower members, whatever their scores: useful if all scores are the same.
    BeforeMember(&'a [u8]),
    /// After all lower members and this one, whatever their scores.
    AfterMember(&'a [u8]),
    /// After all lower scores, and within this score after all lower members.
    BeforeElement(f64, &'a [u8]),
}

impl Cut<'_> {
    /// Whether it is after an element.
    pub fn is_after(self, member: &[u8], score: f64) -> bool {
        match self {
            Self::BeforeScore(cut) => score < cut,
            Self::AfterScore(cut) => score <= cut,
            Self::BeforeMember(cut) => member < cut,
            Self::AfterMember(cut) => member <= cut,
            Self::BeforeElement(cut_score, cut) => compare((score, member), (cut_score, cut)).is_lt(),
        }
    }
}

/// The order of a sorted set: by score, then by member.
#[inline]
pub fn compare((score, member): (f64, &[u8]), (other_score, other): (f64, &[u8])) -> Ordering {
    let by_score = score.partial_cmp(&other_score).expect("no score is NaN");
    by_score.then_with(|| member.cmp(other))
}
