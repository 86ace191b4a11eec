//! ZRANDMEMBER.

use super::{Shown, is_with_scores};
use crate::commands::sets::{REPLY_LEN_MAX, TOO_LONG, Wanted, dense_sample, sparse_sample, wanted_members};
use crate::commands::{CommandError, Outcome};
use crate::keyspace::{Keyspace, SortedSet, Store};
use crate::resp::{Args, Reply};

/// ZRANDMEMBER key [count [WITHSCORES]]: O(M * log N), M = elements replied
pub fn zrandmember<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let mut random = keyspace.random().fork();
    if args.len() == 2 {
        match keyspace.read_collection::<SortedSet>(&args[1])? {
            Some(set) => reply_element(set, random.usize(..set.len()), Shown::Members, reply),
            None => reply.null(),
        }
        return Ok(());
    }
    let wanted = wanted_members(&args[2])?;
    let with_scores = match args.len() {
        3 => false,
        4 if is_with_scores(&args[3]) => true,
        _ => return Err(CommandError::Syntax),
    };
    let (Wanted::Distinct(count) | Wanted::Repeated(count)) = wanted;
    if with_scores && count > i64::MAX as usize / 2 {
        return Err(CommandError::Text("ERR value is out of range"));
    }
    let Some(set) = keyspace.read_collection::<SortedSet>(&args[1])? else {
        reply.array(0);
        return Ok(());
    };
    let shown = Shown::with_scores(with_scores, reply);
    match wanted {
        Wanted::Repeated(count) => return reply_repeated(set, count, shown, &mut random, reply),
        Wanted::Distinct(count) => reply_distinct(set, count.min(set.len()), shown, &mut random, reply),
    }
    Ok(())
}

fn reply_element(set: &SortedSet, rank: usize, shown: Shown, reply: &mut Reply<'_>) {
    let (member, score) = set.range(rank..rank + 1).next().expect("the rank is below the length");
    shown.element(member.bytes(&mut itoa::Buffer::new()), score, reply);
}

/// Replies `count` random elements, each drawn anew. A reply is bounded: Redis would write until its memory is full.
fn reply_repeated(
    set: &SortedSet,
    count: usize,
    shown: Shown,
    random: &mut fastrand::Rng,
    reply: &mut Reply<'_>,
) -> Outcome {
    const ELEMENT_LEN_MIN: usize = b"$0\r\n\r\n".len();
    if count > REPLY_LEN_MAX / ELEMENT_LEN_MIN {
        return Err(TOO_LONG);
    }
    let mark = reply.mark();
    shown.head(count, reply);
    for _ in 0..count {
        reply_element(set, random.usize(..set.len()), shown, reply);
        if reply.mark() - mark > REPLY_LEN_MAX {
            reply.truncate(mark);
            return Err(TOO_LONG);
        }
    }
    Ok(())
}

/// Replies `count` different elements, at most all of them.
fn reply_distinct(set: &SortedSet, count: usize, shown: Shown, random: &mut fastrand::Rng, reply: &mut Reply<'_>) {
    /// A sparse sample draws ranks until enough differ; up to this share few draws are in vain.
    const SPARSE: usize = 3;
    shown.head(count, reply);
    if count <= set.len() / SPARSE {
        sparse_sample(set.len(), count, random, |rank| reply_element(set, rank, shown, reply));
    } else {
        let mut digits = itoa::Buffer::new();
        let mut elements = set.iter().enumerate();
        dense_sample(set.len(), count, random, |drawn| {
            let (_, (member, score)) = elements.find(|&(rank, _)| rank == drawn).expect("the rank is below the length");
            shown.element(member.bytes(&mut digits), score, reply);
        });
    }
}
