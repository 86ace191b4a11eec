//! ZPOPMIN, ZPOPMAX and ZMPOP.

use super::{Shown, end_removal};
use crate::commands::arguments::{count, is, number_of_keys, positive};
use crate::commands::{CommandError, Outcome};
use crate::keyspace::{End, Keyspace, SortedSet, Store};
use crate::resp::{Args, Reply};

/// ZPOPMIN key [count]: O(M * log N), M = elements taken
pub fn zpopmin<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    pop(keyspace, args, End::Head, reply)
}

/// ZPOPMAX key [count]: O(M * log N), M = elements taken
pub fn zpopmax<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    pop(keyspace, args, End::Tail, reply)
}

fn pop<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, end: End, reply: &mut Reply<'_>) -> Outcome {
    let (most, shown) = match args.len() {
        2 => (1, Shown::Flat),
        3 => (count(&args[2])?, Shown::with_scores(true, reply)),
        _ => return Err(CommandError::Syntax),
    };
    if !keyspace.holds::<SortedSet>(&args[1])? || most == 0 {
        reply.array(0);
        return Ok(());
    }
    take(keyspace, &args[1], end, most).reply(shown, reply);
    Ok(())
}

/// ZMPOP numkeys key [key ...] <MIN | MAX> [COUNT count]: O(K) + O(M * log N), K = keys, M = elements taken
pub fn zmpop<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let keys = number_of_keys(&args[1])?;
    let (end, most) = end_and_count(args, keys.saturating_add(2))?;
    for key in args.from(2).iter().take(keys) {
        if keyspace.holds::<SortedSet>(key)? {
            reply_with_key(keyspace, key, end, most, reply);
            return Ok(());
        }
    }
    reply.null_array();
    Ok(())
}

/// <MIN | MAX> [COUNT count], which begin at an argument.
pub fn end_and_count(args: Args<'_>, at: usize) -> Result<(End, usize), CommandError> {
    let end = match args.get(at).ok_or(CommandError::Syntax)? {
        word if is(word, "MIN") => End::Head,
        word if is(word, "MAX") => End::Tail,
        _ => return Err(CommandError::Syntax),
    };
    if args.len() == at + 1 {
        return Ok((end, 1));
    }
    match args.get(at + 2).filter(|_| args.is(at + 1, "COUNT")) {
        Some(most) => {
            let most = positive(most, "ERR count should be greater than 0")?;
            if args.len() > at + 3 { Err(CommandError::Syntax) } else { Ok((end, most)) }
        }
        None => Err(CommandError::Syntax),
    }
}

/// Takes elements from a key that has some, and replies them with the key.
pub fn reply_with_key<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8], end: End, most: usize, reply: &mut Reply<'_>) {
    reply.array(2);
    reply.bulk(key);
    take(keyspace, key, end, most).reply(Shown::Pairs, reply);
}

/// The removed elements, in the order of removal.
pub struct Taken(Vec<(Vec<u8>, f64)>);

impl Taken {
    pub(super) fn reply(&self, shown: Shown, reply: &mut Reply<'_>) {
        shown.head(self.0.len(), reply);
        self.0.iter().for_each(|(member, score)| shown.element(member, *score, reply));
    }

    /// The element, if only one was to be taken.
    pub fn only(&self) -> (&[u8], f64) {
        let (member, score) = &self.0[0];
        (member, *score)
    }
}

/// Takes at most this many elements from the sorted set of a key, which has some, and logs which.
pub fn take<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8], end: End, most: usize) -> Taken {
    let set = keyspace.collection_mut::<SortedSet>(key).ok().flatten().expect("the caller has looked at the key");
    let taken = most.min(set.len());
    let ranks = match end {
        End::Head => 0..taken,
        End::Tail => set.len() - taken..set.len(),
    };
    let mut elements: Vec<_> = set.range(ranks.clone()).map(|(member, score)| (member.to_vec(), score)).collect();
    if end == End::Tail {
        elements.reverse();
    }
    set.remove_range(ranks);
    let event = match end {
        End::Head => "zpopmin",
        End::Tail => "zpopmax",
    };
    end_removal(keyspace, key, taken, event);
    if keyspace.effects.is_logged() {
        keyspace.effects.record_over(&[b"ZREM", key], elements.iter().map(|(member, _)| &**member), &[]);
    }
    Taken(elements)
}
