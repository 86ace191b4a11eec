//! Random elements: SRANDMEMBER and HRANDFIELD.

use super::arguments::{integer, reply_element};
use super::{CommandError, Outcome};
use crate::base::lengthy;
use crate::base::narrowing::size;
use crate::keyspace::{FieldSpot, Hash, Set, Spot};
use crate::resp::Reply;
use std::collections::HashSet;

/// How many elements must be replied.
#[derive(Debug, Clone, Copy)]
pub enum Wanted {
    /// Different ones: a count that is not negative.
    Distinct(usize),
    /// Any, each drawn independently: a negative count.
    Repeated(usize),
}

impl Wanted {
    /// How many.
    pub fn count(self) -> usize {
        match self {
            Self::Distinct(count) | Self::Repeated(count) => count,
        }
    }
}

/// Reads a count.
pub fn wanted(argument: &[u8]) -> Result<Wanted, CommandError> {
    const TEXT: &str = "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807";
    match integer(argument)? {
        i64::MIN => Err(CommandError::Text(TEXT)),
        count if count < 0 => Ok(Wanted::Repeated(size(count.unsigned_abs()))),
        count => Ok(Wanted::Distinct(size(count.unsigned_abs()))),
    }
}

/// A collection to draw from; there is at least one element.
pub trait Urn {
    /// The place of an element.
    type Spot: Copy + Eq + std::hash::Hash;
    /// How many elements there are.
    fn len(&self) -> usize;
    /// Whether one draw takes constant time, instead of a walk over all.
    fn is_drawn_at_once(&self) -> bool;
    /// Draws an element.
    fn draw(&self, random: &mut fastrand::Rng) -> Self::Spot;
    /// Replies a drawn element.
    fn reply(&self, spot: Self::Spot, reply: &mut Reply<'_>);
    /// Replies the elements that `pick` chooses, in some order.
    fn reply_picked(&self, pick: impl FnMut() -> bool, reply: &mut Reply<'_>);
    /// Begins a reply of this many elements.
    fn begin(&self, count: usize, reply: &mut Reply<'_>) {
        reply.array(count);
    }
}

/// The members of a set.
pub struct Members<'a>(pub &'a Set);

impl Urn for Members<'_> {
    type Spot = Spot;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn is_drawn_at_once(&self) -> bool {
        !matches!(self.0, Set::Packed(_))
    }

    fn draw(&self, random: &mut fastrand::Rng) -> Spot {
        self.0.random(random)
    }

    fn reply(&self, spot: Spot, reply: &mut Reply<'_>) {
        reply_element(reply, self.0.at(spot));
    }

    fn reply_picked(&self, mut pick: impl FnMut() -> bool, reply: &mut Reply<'_>) {
        self.0.iter().filter(|_| pick()).for_each(|member| reply_element(reply, member));
    }
}

/// The fields of a hash.
pub struct Fields<'a> {
    /// The hash.
    pub hash: &'a Hash,
    /// Whether values are replied too.
    pub with_values: bool,
}

impl Fields<'_> {
    fn reply_pair(
        &self,
        (field, value): (crate::keyspace::Element<'_>, crate::keyspace::Element<'_>),
        reply: &mut Reply<'_>,
    ) {
        if self.with_values && reply.is_resp3() {
            reply.array(2);
        }
        reply_element(reply, field);
        if self.with_values {
            reply_element(reply, value);
        }
    }
}

impl Urn for Fields<'_> {
    type Spot = FieldSpot;

    fn len(&self) -> usize {
        self.hash.len()
    }

    fn is_drawn_at_once(&self) -> bool {
        matches!(self.hash, Hash::Table(_))
    }

    fn draw(&self, random: &mut fastrand::Rng) -> FieldSpot {
        self.hash.random(random)
    }

    fn reply(&self, spot: FieldSpot, reply: &mut Reply<'_>) {
        self.reply_pair(self.hash.at(spot), reply);
    }

    fn reply_picked(&self, mut pick: impl FnMut() -> bool, reply: &mut Reply<'_>) {
        self.hash.iter().filter(|_| pick()).for_each(|pair| self.reply_pair(pair, reply));
    }

    fn begin(&self, count: usize, reply: &mut Reply<'_>) {
        let is_flat = self.with_values && !reply.is_resp3();
        reply.array(if is_flat { 2 * count } else { count });
    }
}

/// Replies random elements.
pub fn reply_random(urn: &impl Urn, wanted: Wanted, random: &mut fastrand::Rng, reply: &mut Reply<'_>) -> Outcome {
    match wanted {
        Wanted::Repeated(count) => lengthy::run(count, || reply_repeated(urn, count, random, reply)),
        Wanted::Distinct(count) => {
            let count = count.min(urn.len());
            lengthy::run(count, || reply_distinct(urn, count, random, reply));
            Ok(())
        }
    }
}

/// Replies `count` random elements, each drawn independently. The reply is bounded: Redis would write until its memory
/// is full.
fn reply_repeated(urn: &impl Urn, count: usize, random: &mut fastrand::Rng, reply: &mut Reply<'_>) -> Outcome {
    const REPLY_LEN_MAX: usize = 512 * 1024 * 1024;
    const ELEMENT_LEN_MIN: usize = b"$0\r\n\r\n".len();
    const TOO_LONG: CommandError = CommandError::Text("ERR value is out of range, the reply would be too long");
    if count > REPLY_LEN_MAX / ELEMENT_LEN_MIN {
        return Err(TOO_LONG);
    }
    let start = reply.position();
    urn.begin(count, reply);
    for _ in 0..count {
        urn.reply(urn.draw(random), reply);
        if reply.position() - start > REPLY_LEN_MAX {
            reply.truncate(start);
            return Err(TOO_LONG);
        }
    }
    Ok(())
}

/// Replies `count` different elements, at most all of them.
fn reply_distinct(urn: &impl Urn, count: usize, random: &mut fastrand::Rng, reply: &mut Reply<'_>) {
    /// Up to this share of the elements, few draws are repeated.
    const SPARSE: usize = 3;
    urn.begin(count, reply);
    if urn.is_drawn_at_once() && count <= urn.len() / SPARSE {
        reply_sparse(urn, count, random, reply);
    } else {
        urn.reply_picked(picks(urn.len(), count, random), reply);
    }
}

/// Draws until `count` elements differ, in O(count).
fn reply_sparse(urn: &impl Urn, count: usize, random: &mut fastrand::Rng, reply: &mut Reply<'_>) {
    let mut drawn = HashSet::new();
    while drawn.len() < count {
        let spot = urn.draw(random);
        if drawn.insert(spot) {
            urn.reply(spot, reply);
        }
    }
}

/// Picks `count` of `len` elements in one walk over them: each with the remaining probability.
fn picks(len: usize, count: usize, random: &mut fastrand::Rng) -> impl FnMut() -> bool {
    let (mut left, mut missing) = (len, count);
    move || {
        let is_picked = random.usize(..left) < missing;
        left -= 1;
        missing -= usize::from(is_picked);
        is_picked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::EncodingLimits;

    fn sample(set: &Set, count: usize, random: &mut fastrand::Rng) -> Vec<u8> {
        let mut out = Vec::new();
        reply_distinct(&Members(set), count, random, &mut Reply::new(&mut out, false));
        out
    }

    #[test]
    fn a_sample_has_distinct_members_and_reaches_every_one() {
        let mut random = fastrand::Rng::with_seed(1);
        for prefix in ["", "a", &"long".repeat(20)] {
            let mut set = Set::default();
            (10..40).for_each(|n| {
                assert!(set.insert(EncodingLimits::default().of_sets(), format!("{prefix}{n}").as_bytes()))
            });
            for count in [1, 5, 10, 11, 29, 30] {
                let mut seen = HashSet::new();
                for _ in 0..300 {
                    let reply = String::from_utf8(sample(&set, count, &mut random)).expect("members are text");
                    let members: HashSet<String> = reply.lines().skip(2).step_by(2).map(str::to_owned).collect();
                    assert_eq!((members.len(), reply.lines().count()), (count, 1 + 2 * count), "{}", set.encoding());
                    seen.extend(members);
                }
                assert_eq!(seen.len(), 30, "{count} of {}", set.encoding());
            }
        }
    }
}
