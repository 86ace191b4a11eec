//! Hashes.

use super::arguments::integer;
use super::{CommandError, Outcome};
use crate::keyspace::{Bytes, Class, Collection, Hash, Keyspace, Store};
use crate::resp::{Args, Reply, parse_i64};

/// HSET key field value [field value ...]: O(N), N = fields given
pub fn hset<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let added = set_fields(keyspace, args, "hset")?;
    reply.count(added);
    Ok(())
}

/// HMSET key field value [field value ...]: O(N), N = fields given
pub fn hmset<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    set_fields(keyspace, args, "hmset")?;
    reply.ok();
    Ok(())
}

/// Sets fields to values; gives how many are new.
fn set_fields<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, command: &str) -> Result<usize, CommandError> {
    if !args.len().is_multiple_of(2) {
        return Err(CommandError::Arity(command.to_owned()));
    }
    let hash = keyspace.collection_or_new::<Hash>(&args[1])?;
    let len = hash.len();
    for index in (2..args.len()).step_by(2) {
        set_field(hash, &args[index], &args[index + 1]);
    }
    let added = hash.len() - len;
    keyspace.note_change(&args[1], args.len() / 2 - 1);
    keyspace.notify(Class::HASH, "hset", &args[1]);
    Ok(added)
}

/// Sets a field. One that is there costs no copy of its name, and keeps its allocation when the length stays.
fn set_field(hash: &mut Hash, field: &[u8], value: &[u8]) {
    match hash.get_mut(field) {
        Some(old) if old.len() == value.len() => old.copy_from_slice(value),
        Some(old) => *old = value.into(),
        None => {
            hash.insert(field.into(), value.into());
        }
    }
}

/// HSETNX key field value: O(1)
pub fn hsetnx<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let hash = keyspace.collection_or_new::<Hash>(&args[1])?;
    let is_new = !hash.contains_key(&args[2]);
    if is_new {
        hash.insert(args[2].into(), args[3].into());
    }
    if is_new {
        keyspace.note_change(&args[1], 1);
        keyspace.notify(Class::HASH, "hset", &args[1]);
    }
    reply.flag(is_new);
    Ok(())
}

/// HGET key field: O(1)
pub fn hget<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let hash = keyspace.read_collection::<Hash>(&args[1])?;
    reply.bulk_or_null(value_of(hash, &args[2]));
    Ok(())
}

/// HMGET key field [field ...]: O(N), N = fields given
pub fn hmget<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let hash = keyspace.read_collection::<Hash>(&args[1])?;
    reply.array(args.len() - 2);
    args.from(2).iter().for_each(|field| reply.bulk_or_null(value_of(hash, field)));
    Ok(())
}

fn value_of<'a>(hash: Option<&'a Hash>, field: &[u8]) -> Option<&'a [u8]> {
    hash?.get(field).map(Bytes::as_ref)
}

/// HGETALL key: O(N), N = fields
pub fn hgetall<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let hash = keyspace.read_collection::<Hash>(&args[1])?;
    reply.map(hash.map_or(0, Hash::len));
    for (field, value) in hash.into_iter().flatten() {
        reply.bulk(field);
        reply.bulk(value);
    }
    Ok(())
}

/// HKEYS key: O(N), N = fields
pub fn hkeys<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let hash = keyspace.read_collection::<Hash>(&args[1])?;
    reply.array(hash.map_or(0, Hash::len));
    hash.into_iter().flat_map(Hash::keys).for_each(|field| reply.bulk(field));
    Ok(())
}

/// HVALS key: O(N), N = fields
pub fn hvals<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let hash = keyspace.read_collection::<Hash>(&args[1])?;
    reply.array(hash.map_or(0, Hash::len));
    hash.into_iter().flat_map(Hash::values).for_each(|value| reply.bulk(value));
    Ok(())
}

/// HDEL key field [field ...]: O(N), N = fields given
pub fn hdel<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let key = &args[1];
    let Some(hash) = keyspace.collection_mut::<Hash>(key)? else {
        reply.integer(0);
        return Ok(());
    };
    let removed = args.from(2).iter().filter(|&field| hash.swap_remove(field).is_some()).count();
    let is_empty = hash.shrink();
    if removed > 0 {
        keyspace.notify(Class::HASH, "hdel", key);
    }
    if is_empty {
        keyspace.remove_emptied(key);
    }
    keyspace.note_change(key, removed);
    reply.count(removed);
    Ok(())
}

/// HEXISTS key field: O(1)
pub fn hexists<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let hash = keyspace.read_collection::<Hash>(&args[1])?;
    reply.flag(hash.is_some_and(|hash| hash.contains_key(&args[2])));
    Ok(())
}

/// HLEN key: O(1)
pub fn hlen<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.count(keyspace.read_collection::<Hash>(&args[1])?.map_or(0, Hash::len));
    Ok(())
}

/// HINCRBY key field increment: O(1)
pub fn hincrby<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (key, field, increment) = (&args[1], &args[2], integer(&args[3])?);
    // Nothing fails once a hash had to be made: a field that is new starts at zero.
    let hash = keyspace.collection_or_new::<Hash>(key)?;
    let old = hash.get(field).map_or(Ok(0), |value| integer_of(value))?;
    let sum = old.checked_add(increment).ok_or(CommandError::Overflow)?;
    set_field(hash, field, itoa::Buffer::new().format(sum).as_bytes());
    keyspace.note_change(key, 1);
    keyspace.notify(Class::HASH, "hincrby", key);
    reply.integer(sum);
    Ok(())
}

fn integer_of(value: &[u8]) -> Result<i64, CommandError> {
    parse_i64(value).ok_or(CommandError::Text("ERR hash value is not an integer"))
}
