//! ZRANDMEMBER.

use super::{Shown, is_with_scores};
use crate::base::narrowing::size;
use crate::commands::random::{Urn, reply_random, wanted};
use crate::commands::{CommandError, Outcome};
use crate::keyspace::{Keyspace, SortedSet, Store};
use crate::resp::{Args, Reply};

/// ZRANDMEMBER key [count [WITHSCORES]]: O(M * log N), M = elements replied
pub fn zrandmember<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let mut random = keyspace.random.fork();
    if args.len() == 2 {
        match keyspace.read_collection::<SortedSet>(&args[1])? {
            Some(set) => {
                let elements = Elements { set, shown: Shown::Members };
                elements.reply(elements.draw(&mut random), reply);
            }
            None => reply.null(),
        }
        return Ok(());
    }
    let wanted = wanted(&args[2])?;
    let with_scores = match args.len() {
        3 => false,
        4 if is_with_scores(&args[3]) => true,
        _ => return Err(CommandError::Syntax),
    };
    if with_scores && wanted.count() > size(i64::MAX.unsigned_abs()) / 2 {
        return Err(CommandError::Text("ERR value is out of range"));
    }
    let Some(set) = keyspace.read_collection::<SortedSet>(&args[1])? else {
        reply.array(0);
        return Ok(());
    };
    let shown = Shown::with_scores(with_scores, reply);
    reply_random(&Elements { set, shown }, wanted, &mut random, reply)
}

/// The elements of a sorted set; the place of one is its rank.
struct Elements<'a> {
    set: &'a SortedSet,
    shown: Shown,
}

impl Urn for Elements<'_> {
    type Spot = usize;

    fn len(&self) -> usize {
        self.set.len()
    }

    fn is_drawn_at_once(&self) -> bool {
        !self.set.is_small()
    }

    fn draw(&self, random: &mut fastrand::Rng) -> usize {
        random.usize(..self.set.len())
    }

    fn reply(&self, rank: usize, reply: &mut Reply<'_>) {
        let (member, score) = self.set.range(rank..rank + 1).next().expect("the rank is below the length");
        self.shown.element(member.bytes(&mut itoa::Buffer::new()), score, reply);
    }

    fn reply_picked(&self, mut pick: impl FnMut() -> bool, reply: &mut Reply<'_>) {
        let mut digits = itoa::Buffer::new();
        let picked = self.set.iter().filter(|_| pick());
        picked.for_each(|(member, score)| self.shown.element(member.bytes(&mut digits), score, reply));
    }

    fn begin(&self, count: usize, reply: &mut Reply<'_>) {
        self.shown.head(count, reply);
    }
}
