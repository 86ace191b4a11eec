//! Sets.

use super::access;
use super::arguments::{cardinality_limit, count, number_of_keys, reply_element};
use super::flag_sets::{READ, READ_FAST, SHRINK_FAST, WRITE, WRITE_FAST};
use super::random::{Members, reply_random, wanted};
use super::row::{Command, Group, Keys, Output, Request, Row, Run};
use super::{CommandError, Outcome};
use crate::base::lengthy;
use crate::commands::documentation::arguments;
use crate::keyspace::{Class, Collection, Element, Keyspace, NewValue, Object, Removal, Set, SetLimits, Store};
use crate::resp::{Args, Reply};

/// The rows of the commands here.
pub(super) const fn rows<S: Store>() -> [Row<S>; 16] {
    [
        Run::Keyspace(sadd).row(Command {
            name: "sadd",
            arity: -3,
            flags: WRITE_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "1.0.0",
            syntax: "key member [member ...]",
            arguments: arguments![key("key", 0), string("member").repeated()],
            complexity: "O(N), N = members given",
            summary: "Adds members to a set.",
            access: Some(access::INSERT),
            ..Command::of(Group::Set)
        }),
        Run::Keyspace(srem).row(Command {
            name: "srem",
            arity: -3,
            flags: SHRINK_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "1.0.0",
            syntax: "key member [member ...]",
            arguments: arguments![key("key", 0), string("member").repeated()],
            complexity: "O(N), N = members given",
            summary: "Removes members from a set.",
            access: Some(access::DELETE),
            ..Command::of(Group::Set)
        }),
        Run::Keyspace(smembers).row(Command {
            name: "smembers",
            arity: 2,
            flags: READ,
            keys: Keys::ONE,
            request: Request::OneShard,
            output: Output::Unordered,
            since: "1.0.0",
            syntax: "key",
            arguments: arguments![key("key", 0)],
            complexity: "O(N), N = members",
            summary: "The members of a set.",
            ..Command::of(Group::Set)
        }),
        Run::Keyspace(sismember).row(Command {
            name: "sismember",
            arity: 3,
            flags: READ_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "1.0.0",
            syntax: "key member",
            arguments: arguments![key("key", 0), string("member")],
            complexity: "O(1)",
            summary: "Whether a set has a member.",
            access: Some(access::LOOK),
            ..Command::of(Group::Set)
        }),
        Run::Keyspace(smismember).row(Command {
            name: "smismember",
            arity: -3,
            flags: READ_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "6.2.0",
            syntax: "key member [member ...]",
            arguments: arguments![key("key", 0), string("member").repeated()],
            complexity: "O(N), N = members given",
            summary: "Which of several members a set has.",
            ..Command::of(Group::Set)
        }),
        Run::Keyspace(scard).row(Command {
            name: "scard",
            arity: 2,
            flags: READ_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "1.0.0",
            syntax: "key",
            arguments: arguments![key("key", 0)],
            complexity: "O(1)",
            summary: "How many members a set has.",
            access: Some(access::LOOK),
            ..Command::of(Group::Set)
        }),
        Run::Keyspace(spop).row(Command {
            name: "spop",
            arity: -2,
            flags: SHRINK_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            output: Output::Varies,
            since: "1.0.0",
            syntax: "key [count]",
            arguments: arguments![key("key", 0), integer("count").since("3.2.0").optional()],
            complexity: "O(N), N = members taken",
            summary: "Takes random members from a set.",
            access: Some(access::TAKE),
            ..Command::of(Group::Set)
        }),
        Run::Keyspace(srandmember).row(Command {
            name: "srandmember",
            arity: -2,
            flags: READ,
            keys: Keys::ONE,
            request: Request::OneShard,
            output: Output::Varies,
            since: "1.0.0",
            syntax: "key [count]",
            arguments: arguments![key("key", 0), integer("count").since("2.6.0").optional()],
            complexity: "O(N), N = members replied",
            summary: "Random members of a set.",
            ..Command::of(Group::Set)
        }),
        Run::Keyspace(smove).row(Command {
            name: "smove",
            arity: 4,
            flags: SHRINK_FAST,
            keys: Keys::TWO,
            request: Request::MultiShardView,
            since: "1.0.0",
            syntax: "source destination member",
            arguments: arguments![key("source", 0), key("destination", 1), string("member")],
            complexity: "O(1)",
            summary: "Moves a member from a set to another.",
            access: Some(access::MOVE),
            ..Command::of(Group::Set)
        }),
        Run::Keyspace(sinter).row(Command {
            name: "sinter",
            arity: -2,
            flags: READ,
            keys: Keys::ALL,
            request: Request::MultiShardView,
            output: Output::Unordered,
            since: "1.0.0",
            syntax: "key [key ...]",
            arguments: arguments![key("key", 0).repeated()],
            complexity: "O(N * M), N = members of the smallest set, M = keys",
            summary: "The members that all sets have.",
            ..Command::of(Group::Set)
        }),
        Run::Keyspace(sinterstore).row(Command {
            name: "sinterstore",
            arity: -3,
            flags: WRITE,
            keys: Keys::ALL,
            request: Request::MultiShardView,
            since: "1.0.0",
            syntax: "destination key [key ...]",
            arguments: arguments![key("destination", 0), key("key", 1).repeated()],
            complexity: "O(N * M), N = members of the smallest set, M = keys",
            summary: "Stores the members that all sets have.",
            access: Some(access::INTERSECT),
            ..Command::of(Group::Set)
        }),
        Run::Keyspace(sunion).row(Command {
            name: "sunion",
            arity: -2,
            flags: READ,
            keys: Keys::ALL,
            request: Request::MultiShardView,
            output: Output::Unordered,
            since: "1.0.0",
            syntax: "key [key ...]",
            arguments: arguments![key("key", 0).repeated()],
            complexity: "O(N), N = members of all sets",
            summary: "The members that any of the sets has.",
            ..Command::of(Group::Set)
        }),
        Run::Keyspace(sunionstore).row(Command {
            name: "sunionstore",
            arity: -3,
            flags: WRITE,
            keys: Keys::ALL,
            request: Request::MultiShardView,
            since: "1.0.0",
            syntax: "destination key [key ...]",
            arguments: arguments![key("destination", 0), key("key", 1).repeated()],
            complexity: "O(N), N = members of all sets",
            summary: "Stores the members that any of the sets has.",
            access: Some(access::STORE),
            ..Command::of(Group::Set)
        }),
        Run::Keyspace(sdiff).row(Command {
            name: "sdiff",
            arity: -2,
            flags: READ,
            keys: Keys::ALL,
            request: Request::MultiShardView,
            output: Output::Unordered,
            since: "1.0.0",
            syntax: "key [key ...]",
            arguments: arguments![key("key", 0).repeated()],
            complexity: "O(N * M), N = members of the first set, M = keys",
            summary: "The members of the first set that no other has.",
            ..Command::of(Group::Set)
        }),
        Run::Keyspace(sdiffstore).row(Command {
            name: "sdiffstore",
            arity: -3,
            flags: WRITE,
            keys: Keys::ALL,
            request: Request::MultiShardView,
            since: "1.0.0",
            syntax: "destination key [key ...]",
            arguments: arguments![key("destination", 0), key("key", 1).repeated()],
            complexity: "O(N * M), N = members of the first set, M = keys",
            summary: "Stores the members of the first set that no other has.",
            access: Some(access::STORE),
            ..Command::of(Group::Set)
        }),
        Run::Keyspace(sintercard).row(Command {
            name: "sintercard",
            arity: -3,
            flags: READ,
            keys: Keys::COUNTED,
            request: Request::MultiShardView,
            since: "7.0.0",
            syntax: "numkeys key [key ...] [LIMIT limit]",
            arguments: arguments![
                integer("numkeys"),
                key("key", 0).repeated(),
                integer("limit").after("LIMIT").optional(),
            ],
            complexity: "O(N * M), N = members of the smallest set, M = keys",
            summary: "How many members all sets have.",
            ..Command::of(Group::Set)
        }),
    ]
}

/// SADD key member [member ...]: O(N), N = members given
pub fn sadd<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let members = args.from(2);
    let limits = keyspace.settings().limits::<Set>();
    let set = set_or_new(keyspace, &args[1], &members[0], members.len())?;
    set.prepare(limits, members.len());
    let added = members.iter().filter(|member| set.insert(limits, member)).count();
    if added > 0 {
        keyspace.note_change(&args[1], added);
        keyspace.notify(Class::SET, "sadd", &args[1]);
    }
    reply.count(added);
    Ok(())
}

/// The set of a key, created empty if there is none, in the encoding that suits its first members.
fn set_or_new<'a, S: Store>(
    keyspace: &'a mut Keyspace<S>,
    key: &[u8],
    first: &[u8],
    count: usize,
) -> Result<&'a mut Set, CommandError> {
    let limits = keyspace.settings().limits::<Set>();
    let make = || NewValue::Object(Object::Set(Set::for_members(limits, first, count)));
    keyspace.node_or_new(key, make).object_mut().and_then(Set::of_mut).ok_or(CommandError::WrongType)
}

/// SREM key member [member ...]: O(N), N = members given
pub fn srem<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let key = &args[1];
    let limits = keyspace.settings().limits::<Set>();
    let Some(set) = keyspace.collection_mut::<Set>(key)? else {
        reply.integer(0);
        return Ok(());
    };
    let removed = args.from(2).iter().filter(|member| set.remove(member)).count();
    let is_empty = set.shrink(limits);
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
    let len = members.map_or(0, Set::len);
    reply.set(len);
    lengthy::run(len, || members.into_iter().flat_map(Set::iter).for_each(|member| reply_element(reply, member)));
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

/// Moves a member; false if the source has no such member. A set that is its own destination does not change.
fn move_member<S: Store>(
    keyspace: &mut Keyspace<S>,
    source: &[u8],
    destination: &[u8],
    member: &[u8],
) -> Result<bool, CommandError> {
    let limits = keyspace.settings().limits::<Set>();
    let Some(set) = keyspace.collection_mut::<Set>(source)? else {
        keyspace.note_use(destination);
        return Ok(false);
    };
    let has_member = set.contains(member);
    if !has_member || source == destination {
        keyspace.collection_mut::<Set>(destination)?;
        return Ok(has_member);
    }
    keyspace.holds::<Set>(destination)?;
    let set = keyspace.collection_mut_uncounted::<Set>(source)?.expect("the source was found above");
    set.remove(member);
    let is_empty = set.shrink(limits);
    keyspace.notify(Class::SET, "srem", source);
    if is_empty {
        keyspace.remove_emptied(source);
    }
    let is_added = set_or_new(keyspace, destination, member, 1)?.insert(limits, member);
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
    let sets = keyspace.read_all(args.from(2).iter().take(keys), |value| value.collection::<Set>())?;
    reply.count(lengthy::run(members_of(&sets), || common_members(&sets).take(limit).count()));
    Ok(())
}

/// Combines several sets, some of which may not exist.
type Combine = fn(SetLimits, &[Option<&Set>]) -> Set;

fn reply_combined<S: Store>(
    keyspace: &mut Keyspace<S>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    combine: Combine,
) -> Outcome {
    let limits = keyspace.settings().limits::<Set>();
    let sets = keyspace.read_all(args.from(1).iter(), |value| value.collection::<Set>())?;
    lengthy::run(members_of(&sets), || {
        let set = combine(limits, &sets);
        reply.set(set.len());
        set.iter().for_each(|member| reply_element(reply, member));
    });
    Ok(())
}

/// Stores the combination of several sets, replacing the destination. It may be one of the sets.
fn store_combined<S: Store>(
    keyspace: &mut Keyspace<S>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    combine: Combine,
    event: &'static str,
) -> Outcome {
    let destination = &args[1];
    let limits = keyspace.settings().limits::<Set>();
    let sets = keyspace.read_all(args.from(2).iter(), |value| value.collection::<Set>())?;
    let set = lengthy::run(members_of(&sets), || combine(limits, &sets));
    let len = set.len();
    if len > 0 {
        keyspace.set(destination, NewValue::Object(set.into_object()), None);
        keyspace.note_change(destination, 1);
        keyspace.notify(Class::SET, event, destination);
    } else if keyspace.remove_stored(destination) {
        keyspace.note_change(destination, 1);
        keyspace.notify(Class::GENERIC, "del", destination);
    }
    reply.count(len);
    Ok(())
}

/// How many members sets have together.
fn members_of(sets: &[Option<&Set>]) -> usize {
    sets.iter().flatten().map(|set| set.len()).sum()
}

/// The members that all sets have. Integers become an intset again, whatever encoding they come from.
fn intersection(limits: SetLimits, sets: &[Option<&Set>]) -> Set {
    let smallest = sets.iter().flatten().min_by_key(|set| set.len());
    let mut common = if matches!(smallest, Some(Set::Integers(_))) { Set::default() } else { Set::packed() };
    common.extend(limits, common_members(sets));
    common.become_integers(limits);
    common
}

/// The members that all sets have: those of the smallest that the others have too.
fn common_members<'a>(sets: &[Option<&'a Set>]) -> impl Iterator<Item = Element<'a>> {
    let mut sets: Vec<&Set> = sets.iter().copied().collect::<Option<_>>().unwrap_or_default();
    sets.sort_by_key(|set| set.len());
    let smallest = sets.first().copied();
    let members = smallest.into_iter().flat_map(Set::iter);
    members.filter(move |&member| sets[1..].iter().all(|set| set.contains_element(member)))
}

fn union(limits: SetLimits, sets: &[Option<&Set>]) -> Set {
    let mut all = Set::default();
    all.extend(limits, sets.iter().flatten().flat_map(|set| set.iter()));
    all
}

/// The members of the first set that no other has.
fn difference(limits: SetLimits, sets: &[Option<&Set>]) -> Set {
    let mut left = Set::default();
    if let Some((Some(first), others)) = sets.split_first() {
        let others: Vec<&Set> = others.iter().copied().flatten().collect();
        let is_left = |member: &Element<'_>| !others.iter().any(|set| set.contains_element(*member));
        left.extend(limits, first.iter().filter(is_left));
    }
    left
}

/// If SPOP takes this many members for each that it leaves, Redis makes a new set of the rest: a small one, if they are
/// few.
const TAKEN_PER_LEFT: usize = 5;

/// SPOP key [count]: O(N), N = members taken
pub fn spop<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    match args.len() {
        2 => pop(keyspace, &args[1], reply),
        3 => pop_many(keyspace, &args[1], count(&args[2])?, reply),
        _ => Err(CommandError::Syntax),
    }
}

fn pop<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8], reply: &mut Reply<'_>) -> Outcome {
    let mut random = keyspace.random.fork();
    let is_logged = keyspace.effects.is_logged();
    let Some(set) = keyspace.collection_mut::<Set>(key)? else {
        reply.null();
        return Ok(());
    };
    let mut taken = Vec::new();
    take_random(set, &mut random, reply, is_logged.then_some(&mut taken));
    let is_empty = set.is_empty();
    keyspace.notify(Class::SET, "spop", key);
    if is_empty {
        keyspace.remove_emptied(key);
    }
    keyspace.note_change(key, 1);
    record_removed(keyspace, key, &taken);
    Ok(())
}

fn pop_many<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8], wanted: usize, reply: &mut Reply<'_>) -> Outcome {
    let mut random = keyspace.random.fork();
    let is_logged = keyspace.effects.is_logged();
    let limits = keyspace.settings().limits::<Set>();
    let Some(set) = keyspace.collection_mut::<Set>(key)? else {
        reply.set(0);
        return Ok(());
    };
    if wanted >= set.len() {
        // Redis reads the set as SUNION does: a hit.
        keyspace.inspect(key);
        return pop_all(keyspace, key, reply);
    }
    let leaves_few = (set.len() - wanted).saturating_mul(TAKEN_PER_LEFT) <= wanted;
    reply.set(wanted);
    let mut taken = Vec::new();
    for _ in 0..wanted {
        take_random(set, &mut random, reply, is_logged.then_some(&mut taken));
    }
    if leaves_few {
        set.become_packed(limits);
    }
    if wanted > 0 {
        keyspace.note_change(key, wanted);
        keyspace.notify(Class::SET, "spop", key);
    }
    record_removed(keyspace, key, &taken);
    Ok(())
}

fn pop_all<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8], reply: &mut Reply<'_>) -> Outcome {
    let Some(set) = keyspace.collection_mut::<Set>(key)? else { return Ok(()) };
    let len = set.len();
    reply.set(len);
    set.iter().for_each(|member| reply_element(reply, member));
    keyspace.notify(Class::SET, "spop", key);
    keyspace.remove_emptied(key);
    keyspace.note_change(key, len);
    keyspace.record_removal(key, Removal::Replaced);
    Ok(())
}

/// Removes a random member from a set, which has one, and replies it; records it for the log if there is one.
fn take_random(set: &mut Set, random: &mut fastrand::Rng, reply: &mut Reply<'_>, taken: Option<&mut Vec<Vec<u8>>>) {
    let spot = set.random(random);
    let member = set.at(spot);
    reply_element(reply, member);
    if let Some(taken) = taken {
        taken.push(member.to_vec());
    }
    set.remove_at(spot);
}

/// Adds the effect of which members were removed; a change without a log is its own effect.
fn record_removed<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8], members: &[Vec<u8>]) {
    keyspace.effects.record_over(&[b"SREM", key], members.iter().map(Vec::as_slice), &[]);
}

/// SRANDMEMBER key [count]: O(N), N = members replied
pub fn srandmember<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    match args.len() {
        2 => random_member(keyspace, &args[1], reply),
        3 => random_members(keyspace, args, reply),
        _ => Err(CommandError::Syntax),
    }
}

fn random_member<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8], reply: &mut Reply<'_>) -> Outcome {
    let mut random = keyspace.random.fork();
    match keyspace.read_collection::<Set>(key)? {
        Some(set) => reply_element(reply, set.at(set.random(&mut random))),
        None => reply.null(),
    }
    Ok(())
}

fn random_members<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let wanted = wanted(&args[2])?;
    let mut random = keyspace.random.fork();
    match keyspace.read_collection::<Set>(&args[1])? {
        Some(set) => reply_random(&Members(set), wanted, &mut random, reply),
        None => {
            reply.array(0);
            Ok(())
        }
    }
}
