//! Lists.

use super::arguments::{count, integer, position, positions};
use super::{CommandError, Outcome};
use crate::keyspace::{Collection, Keyspace, List, Store};
use crate::resp::{Args, Reply};

/// The end of a list that a command works at.
#[derive(Debug, Clone, Copy)]
enum End {
    Head,
    Tail,
}

/// LPUSH key element [element ...]: O(N), N = elements given
pub fn lpush<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    push(keyspace, args, reply, End::Head)
}

/// RPUSH key element [element ...]: O(N), N = elements given
pub fn rpush<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    push(keyspace, args, reply, End::Tail)
}

/// LPUSHX key element [element ...]: O(N), N = elements given
pub fn lpushx<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    push_existing(keyspace, args, reply, End::Head)
}

/// RPUSHX key element [element ...]: O(N), N = elements given
pub fn rpushx<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    push_existing(keyspace, args, reply, End::Tail)
}

fn push<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>, end: End) -> Outcome {
    let list = keyspace.collection_or_new::<List>(&args[1])?;
    push_elements(list, args.from(2), end);
    reply.count(list.len());
    keyspace.note_change(&args[1], args.len() - 2);
    Ok(())
}

fn push_existing<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>, end: End) -> Outcome {
    let Some(list) = keyspace.collection_mut::<List>(&args[1])? else {
        reply.integer(0);
        return Ok(());
    };
    push_elements(list, args.from(2), end);
    reply.count(list.len());
    keyspace.note_change(&args[1], args.len() - 2);
    Ok(())
}

fn push_elements(list: &mut List, elements: Args<'_>, end: End) {
    for element in elements.iter() {
        match end {
            End::Head => list.push_front(element.into()),
            End::Tail => list.push_back(element.into()),
        }
    }
}

/// LPOP key [count]: O(N), N = elements taken
pub fn lpop<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    match args.len() {
        2 => pop(keyspace, args, reply, End::Head),
        3 => pop_many(keyspace, args, reply, End::Head),
        _ => Err(CommandError::Arity("lpop".to_owned())),
    }
}

/// RPOP key [count]: O(N), N = elements taken
pub fn rpop<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    match args.len() {
        2 => pop(keyspace, args, reply, End::Tail),
        3 => pop_many(keyspace, args, reply, End::Tail),
        _ => Err(CommandError::Arity("rpop".to_owned())),
    }
}

fn pop<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>, end: End) -> Outcome {
    let key = &args[1];
    let Some(list) = keyspace.collection_mut::<List>(key)? else {
        reply.null();
        return Ok(());
    };
    let element = match end {
        End::Head => list.pop_front(),
        End::Tail => list.pop_back(),
    };
    reply.bulk_or_null(element.as_deref());
    if list.shrink() {
        keyspace.remove(key);
    }
    keyspace.note_change(key, 1);
    Ok(())
}

fn pop_many<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>, end: End) -> Outcome {
    let key = &args[1];
    let wanted = count(&args[2])?;
    let Some(list) = keyspace.collection_mut::<List>(key)? else {
        reply.null_array();
        return Ok(());
    };
    let taken = wanted.min(list.len());
    reply.array(taken);
    match end {
        End::Head => list.drain(..taken).for_each(|element| reply.bulk(&element)),
        End::Tail => list.drain(list.len() - taken..).rev().for_each(|element| reply.bulk(&element)),
    }
    if list.shrink() {
        keyspace.remove(key);
    }
    keyspace.note_change(key, taken);
    Ok(())
}

/// LRANGE key start stop: O(N), N = elements replied
pub fn lrange<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (start, stop) = (integer(&args[2])?, integer(&args[3])?);
    let Some(list) = keyspace.read_collection::<List>(&args[1])? else {
        reply.array(0);
        return Ok(());
    };
    let elements = list.range(positions(start, stop, list.len()));
    reply.array(elements.len());
    elements.for_each(|element| reply.bulk(element));
    Ok(())
}

/// LLEN key: O(1)
pub fn llen<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.count(keyspace.read_collection::<List>(&args[1])?.map_or(0, List::len));
    Ok(())
}

/// LINDEX key index: O(1)
pub fn lindex<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let Some(list) = keyspace.read_collection::<List>(&args[1])? else {
        reply.null();
        return Ok(());
    };
    let element = position(integer(&args[2])?, list.len()).map(|at| &*list[at]);
    reply.bulk_or_null(element);
    Ok(())
}

/// LSET key index element: O(1)
pub fn lset<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let list = keyspace.collection_mut::<List>(&args[1])?.ok_or(CommandError::NoSuchKey)?;
    let at = position(integer(&args[2])?, list.len()).ok_or(CommandError::IndexOutOfRange)?;
    list[at] = args[3].into();
    keyspace.note_change(&args[1], 1);
    reply.ok();
    Ok(())
}
