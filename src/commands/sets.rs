//! Sets.

use super::arguments::{count, integer, is, number_of_keys};
use super::{CommandError, Outcome};
use crate::keyspace::{Bytes, Class, Collection, Keyspace, NewValue, ProcessHash, Set, Store};
use crate::resp::{Args, Reply};
use std::collections::HashSet;

/// SADD key member [member ...]: O(N), N = members given
pub fn sadd<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let set = keyspace.collection_or_new::<Set>(&args[1])?;
    // Looked up before it is copied: a member that is there costs no allocation.
    let added = args.from(2).iter().filter(|&member| !set.contains(member) && set.insert(member.into())).count();
    if added > 0 {
        keyspace.note_change(&args[1], added);
        keyspace.notify(Class::SET, "sadd", &args[1]);
    }
    reply.count(added);
    Ok(())
}

/// SREM key member [member ...]: O(N), N = members given
pub fn srem<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let key = &args[1];
    let Some(set) = keyspace.collection_mut::<Set>(key)? else {
        reply.integer(0);
        return Ok(());
    };
    let removed = args.from(2).iter().filter(|&member| set.swap_remove(member)).count();
    let is_empty = set.shrink();
    if removed > 0 {
        keyspace.notify(Class::SET, "srem", key);
    }
    if is_empty {
        keyspace.remove_emptied(key);
    }
    keyspace.note_change(key, removed);
    reply.count(removed);
    Ok(())
}

/// SMEMBERS key: O(N), N = members
pub fn smembers<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let members = keyspace.read_collection::<Set>(&args[1])?;
    reply.set(members.map_or(0, Set::len));
    members.into_iter().flatten().for_each(|member| reply.bulk(member));
    Ok(())
}

/// SISMEMBER key member: O(1)
pub fn sismember<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let set = keyspace.read_collection::<Set>(&args[1])?;
    reply.flag(set.is_some_and(|set| set.contains(&args[2])));
    Ok(())
}

/// SMISMEMBER key member [member ...]: O(N), N = members given
pub fn smismember<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let set = keyspace.read_collection::<Set>(&args[1])?;
    reply.array(args.len() - 2);
    for member in args.from(2).iter() {
        reply.flag(set.is_some_and(|set| set.contains(member)));
    }
    Ok(())
}

/// SCARD key: O(1)
pub fn scard<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.count(keyspace.read_collection::<Set>(&args[1])?.map_or(0, Set::len));
    Ok(())
}

/// SMOVE source destination member: O(1)
pub fn smove<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (source, destination, member) = (&args[1], &args[2], &args[3]);
    let is_moved = move_member(keyspace, source, destination, member)?;
    reply.flag(is_moved);
    Ok(())
}

/// Moves a member; false when the source has no such member. A set that is its own destination stays as it is.
fn move_member<S: Store>(
    keyspace: &mut Keyspace<S>,
    source: &[u8],
    destination: &[u8],
    member: &[u8],
) -> Result<bool, CommandError> {
    let Some(set) = keyspace.collection_mut::<Set>(source)? else { return Ok(false) };
    let has_member = set.contains(member);
    keyspace.collection_mut::<Set>(destination)?;
    if !has_member || source == destination {
        return Ok(has_member);
    }
    let set = keyspace.collection_mut::<Set>(source)?.expect("the source was found above");
    let member = set.swap_take(member).expect("the source has the member");
    let is_empty = set.shrink();
    keyspace.notify(Class::SET, "srem", source);
    if is_empty {
        keyspace.remove_emptied(source);
    }
    let is_added = keyspace.collection_or_new::<Set>(destination)?.insert(member);
    keyspace.note_change(source, 1);
    if is_added {
        keyspace.note_change(destination, 1);
        keyspace.notify(Class::SET, "sadd", destination);
    }
    Ok(true)
}

/// SINTER key [key ...]: O(N * M), N = members of the smallest set, M = keys
pub fn sinter<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply_combined(keyspace, args, reply, intersection)
}

/// SUNION key [key ...]: O(N), N = members of all sets
pub fn sunion<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply_combined(keyspace, args, reply, union)
}

/// SDIFF key [key ...]: O(N * M), N = members of the first set, M = keys
pub fn sdiff<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply_combined(keyspace, args, reply, difference)
}

/// SINTERSTORE destination key [key ...]: O(N * M), N = members of the smallest set, M = keys
pub fn sinterstore<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    store_combined(keyspace, args, reply, intersection, "sinterstore")
}

/// SUNIONSTORE destination key [key ...]: O(N), N = members of all sets
pub fn sunionstore<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    store_combined(keyspace, args, reply, union, "sunionstore")
}

/// SDIFFSTORE destination key [key ...]: O(N * M), N = members of the first set, M = keys
pub fn sdiffstore<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    store_combined(keyspace, args, reply, difference, "sdiffstore")
}

/// SINTERCARD numkeys key [key ...] [LIMIT limit]: O(N * M), N = members of the smallest set, M = keys
pub fn sintercard<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let keys = number_of_keys(&args[1])?;
    if keys > args.len() - 2 {
        return Err(CommandError::Text("ERR Number of keys can't be greater than number of args"));
    }
    let limit = cardinality_limit(args.from(2 + keys))?;
    let sets = keyspace.read_collections::<Set>(args.from(2).iter().take(keys))?;
    reply.count(common_members(&sets).take(limit).count());
    Ok(())
}

/// How many members SINTERCARD counts at most. The last LIMIT is the one; 0 is for no limit.
fn cardinality_limit(options: Args<'_>) -> Result<usize, CommandError> {
    let mut limit = 0;
    let mut words = options.iter();
    while let Some(word) = words.next() {
        let value = words.next().filter(|_| is(word, "LIMIT")).ok_or(CommandError::Syntax)?;
        limit = count(value).map_err(|_| CommandError::Text("ERR LIMIT can't be negative"))?;
    }
    Ok(if limit == 0 { usize::MAX } else { limit })
}

/// What members several sets give, of which some may not exist.
type Combine = for<'a> fn(&[Option<&'a Set>]) -> Vec<&'a Bytes>;

fn reply_combined<S: Store>(
    keyspace: &mut Keyspace<S>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    combine: Combine,
) -> Outcome {
    let members = combine(&keyspace.read_collections::<Set>(args.from(1).iter())?);
    reply.set(members.len());
    members.into_iter().for_each(|member| reply.bulk(member));
    Ok(())
}

/// Stores what several sets give, in place of whatever the destination holds. It may be one of the sets.
fn store_combined<S: Store>(
    keyspace: &mut Keyspace<S>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    combine: Combine,
    event: &'static str,
) -> Outcome {
    let destination = &args[1];
    let members = combine(&keyspace.read_collections::<Set>(args.from(2).iter())?);
    let set: Set = members.into_iter().cloned().collect();
    let len = set.len();
    if len > 0 {
        keyspace.set(destination, NewValue::Object(Box::new(set.into_object())), None);
        keyspace.note_change(destination, 1);
        keyspace.notify(Class::SET, event, destination);
    } else if keyspace.remove(destination) {
        keyspace.note_change(destination, 1);
        keyspace.notify(Class::GENERIC, "del", destination);
    }
    reply.count(len);
    Ok(())
}

fn intersection<'a>(sets: &[Option<&'a Set>]) -> Vec<&'a Bytes> {
    common_members(sets).collect()
}

/// The members that all sets have: those of the smallest that the others have too.
fn common_members<'a>(sets: &[Option<&'a Set>]) -> impl Iterator<Item = &'a Bytes> {
    let mut sets: Vec<&Set> = sets.iter().copied().collect::<Option<_>>().unwrap_or_default();
    sets.sort_by_key(|set| set.len());
    let smallest = sets.first().copied();
    smallest.into_iter().flatten().filter(move |&member| sets[1..].iter().all(|set| set.contains(member)))
}

fn union<'a>(sets: &[Option<&'a Set>]) -> Vec<&'a Bytes> {
    let mut seen = HashSet::with_hasher(ProcessHash);
    sets.iter().copied().flatten().flatten().filter(|&member| seen.insert(member)).collect()
}

/// The members of the first set that no other has.
fn difference<'a>(sets: &[Option<&'a Set>]) -> Vec<&'a Bytes> {
    let Some((Some(first), others)) = sets.split_first() else { return Vec::new() };
    let others: Vec<&Set> = others.iter().copied().flatten().collect();
    first.iter().filter(|&member| !others.iter().any(|set| set.contains(member))).collect()
}

/// SPOP key [count]: O(N), N = members taken
pub fn spop<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    match args.len() {
        2 => pop(keyspace, &args[1], reply),
        3 => pop_many(keyspace, &args[1], count(&args[2])?, reply),
        _ => Err(CommandError::Syntax),
    }
}

fn pop<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8], reply: &mut Reply<'_>) -> Outcome {
    let mut random = keyspace.random().fork();
    let Some(set) = keyspace.collection_mut::<Set>(key)? else {
        reply.null();
        return Ok(());
    };
    let member = take_random(set, &mut random);
    reply.bulk(&member);
    let is_empty = set.shrink();
    keyspace.notify(Class::SET, "spop", key);
    if is_empty {
        keyspace.remove_emptied(key);
    }
    keyspace.note_change(key, 1);
    keyspace.effects().tell([b"SREM", key, &member]);
    Ok(())
}

fn pop_many<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8], wanted: usize, reply: &mut Reply<'_>) -> Outcome {
    let mut random = keyspace.random().fork();
    let is_logged = keyspace.effects().is_logged();
    let Some(set) = keyspace.collection_mut::<Set>(key)? else {
        reply.set(0);
        return Ok(());
    };
    if wanted >= set.len() {
        return pop_all(keyspace, key, reply);
    }
    reply.set(wanted);
    let mut taken = Vec::new();
    for _ in 0..wanted {
        let member = take_random(set, &mut random);
        reply.bulk(&member);
        if is_logged {
            taken.push(member);
        }
    }
    set.shrink();
    if wanted > 0 {
        keyspace.note_change(key, wanted);
        keyspace.notify(Class::SET, "spop", key);
    }
    tell_removed(keyspace, key, &taken);
    Ok(())
}

fn pop_all<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8], reply: &mut Reply<'_>) -> Outcome {
    let Some(set) = keyspace.collection_mut::<Set>(key)? else { return Ok(()) };
    let len = set.len();
    reply.set(len);
    set.iter().for_each(|member| reply.bulk(member));
    keyspace.notify(Class::SET, "spop", key);
    keyspace.remove_emptied(key);
    keyspace.note_change(key, len);
    keyspace.effects().tell([b"DEL", key]);
    Ok(())
}

/// Takes a random member out of a set, which has one: keys of empty sets do not exist.
fn take_random(set: &mut Set, random: &mut fastrand::Rng) -> Bytes {
    set.swap_remove_index(random.usize(..set.len())).expect("the index is below the length")
}

fn tell_removed<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8], members: &[Bytes]) {
    if !members.is_empty() {
        let mut effect: Vec<&[u8]> = vec![b"SREM", key];
        effect.extend(members.iter().map(|member| &**member));
        keyspace.effects().tell(effect);
    }
}

/// SRANDMEMBER key [count]: O(N), N = members replied
pub fn srandmember<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    match args.len() {
        2 => random_member(keyspace, &args[1], reply),
        3 => random_members(keyspace, &args[1], wanted_members(&args[2])?, reply),
        _ => Err(CommandError::Syntax),
    }
}

fn random_member<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8], reply: &mut Reply<'_>) -> Outcome {
    let mut random = keyspace.random().fork();
    match keyspace.read_collection::<Set>(key)? {
        Some(set) => reply.bulk(&set[random.usize(..set.len())]),
        None => reply.null(),
    }
    Ok(())
}

/// How many members SRANDMEMBER is to reply.
#[derive(Debug, Clone, Copy)]
enum Wanted {
    /// Different ones: a count that is not negative.
    Distinct(usize),
    /// Any, each drawn anew: a negative count.
    Repeated(usize),
}

fn wanted_members(argument: &[u8]) -> Result<Wanted, CommandError> {
    const TEXT: &str = "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807";
    match integer(argument)? {
        i64::MIN => Err(CommandError::Text(TEXT)),
        count if count < 0 => Ok(Wanted::Repeated(count.unsigned_abs() as usize)),
        count => Ok(Wanted::Distinct(count as usize)),
    }
}

fn random_members<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8], wanted: Wanted, reply: &mut Reply<'_>) -> Outcome {
    let mut random = keyspace.random().fork();
    let Some(set) = keyspace.read_collection::<Set>(key)? else {
        reply.array(0);
        return Ok(());
    };
    match wanted {
        Wanted::Repeated(count) => reply_repeated(set, count, &mut random, reply),
        Wanted::Distinct(count) => {
            reply_distinct(set, count.min(set.len()), &mut random, reply);
            Ok(())
        }
    }
}

/// Replies `count` random members, each drawn anew. A reply is bounded: Redis would write until its memory is full.
fn reply_repeated(set: &Set, count: usize, random: &mut fastrand::Rng, reply: &mut Reply<'_>) -> Outcome {
    const REPLY_LEN_MAX: usize = 512 * 1024 * 1024;
    const ELEMENT_LEN_MIN: usize = b"$0\r\n\r\n".len();
    const TOO_LONG: CommandError = CommandError::Text("ERR value is out of range, the reply would be too long");
    if count > REPLY_LEN_MAX / ELEMENT_LEN_MIN {
        return Err(TOO_LONG);
    }
    let mark = reply.mark();
    reply.array(count);
    for _ in 0..count {
        reply.bulk(&set[random.usize(..set.len())]);
        if reply.mark() - mark > REPLY_LEN_MAX {
            reply.truncate(mark);
            return Err(TOO_LONG);
        }
    }
    Ok(())
}

/// Replies `count` different members, at most all of them.
fn reply_distinct(set: &Set, count: usize, random: &mut fastrand::Rng, reply: &mut Reply<'_>) {
    /// A sparse sample draws indices until enough differ; up to this share few draws are in vain.
    const SPARSE: usize = 3;
    reply.array(count);
    if count <= set.len() / SPARSE {
        sparse_sample(set.len(), count, random, |index| reply.bulk(&set[index]));
    } else {
        dense_sample(set.len(), count, random, |index| reply.bulk(&set[index]));
    }
}

/// Draws `count` different indices below `len`, in O(count).
fn sparse_sample(len: usize, count: usize, random: &mut fastrand::Rng, mut draw: impl FnMut(usize)) {
    let mut drawn = HashSet::new();
    while drawn.len() < count {
        let index = random.usize(..len);
        if drawn.insert(index) {
            draw(index);
        }
    }
}

/// Draws `count` different indices below `len`, in ascending order and O(len): each with the chance that is left.
fn dense_sample(len: usize, count: usize, random: &mut fastrand::Rng, mut draw: impl FnMut(usize)) {
    let mut missing = count;
    for index in 0..len {
        if random.usize(..len - index) < missing {
            missing -= 1;
            draw(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_distinct_indices_and_reaches_every_one() {
        type Sample = fn(usize, usize, &mut fastrand::Rng, &mut dyn FnMut(usize));
        let samples: [Sample; 2] = [
            |len, count, random, draw| sparse_sample(len, count, random, draw),
            |len, count, random, draw| {
                dense_sample(len, count, random, draw);
            },
        ];
        let mut random = fastrand::Rng::with_seed(1);
        for sample in samples {
            let mut seen = HashSet::new();
            for _ in 0..200 {
                let mut drawn = HashSet::new();
                sample(10, 4, &mut random, &mut |index| assert!(drawn.insert(index), "{index} came twice"));
                assert_eq!(drawn.len(), 4);
                seen.extend(drawn);
            }
            assert_eq!(seen, (0..10).collect());
        }
    }
}
