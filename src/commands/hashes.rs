//! Hashes.

use super::access;
use super::arguments::{integer, reply_element};
use super::flag_sets::{READ, READ_FAST, SHRINK_FAST, WRITE_FAST};
use super::float::Extended;
use super::random::{Fields, reply_random, wanted};
use super::row::{Command, Group, Keys, Output, Request, Row, Run};
use super::{CommandError, Outcome};
use crate::base::lengthy;
use crate::base::narrowing::size;
use crate::commands::documentation::arguments;
use crate::keyspace::{Class, Collection, Element, Hash, Keyspace, Store};
use crate::resp::{Args, Reply};

/// The rows of the commands here.
pub(super) const fn rows<S: Store>() -> [Row<S>; 15] {
    [
        Run::Keyspace(hset).row(Command {
            name: "hset",
            arity: -4,
            flags: WRITE_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "2.0.0",
            syntax: "key field value [field value ...]",
            arguments: arguments![
                key("key", 0),
                block("data", arguments![string("field"), string("value")]).repeated()
            ],
            complexity: "O(N), N = fields given",
            summary: "Sets fields of a hash.",
            ..Command::of(Group::Hash)
        }),
        Run::Keyspace(hmset).row(Command {
            name: "hmset",
            arity: -4,
            flags: WRITE_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "2.0.0",
            syntax: "key field value [field value ...]",
            arguments: arguments![
                key("key", 0),
                block("data", arguments![string("field"), string("value")]).repeated()
            ],
            deprecated_since: Some("4.0.0"),
            complexity: "O(N), N = fields given",
            summary: "Sets fields of a hash; replies OK.",
            ..Command::of(Group::Hash)
        }),
        Run::Keyspace(hget).row(Command {
            name: "hget",
            arity: 3,
            flags: READ_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "2.0.0",
            syntax: "key field",
            arguments: arguments![key("key", 0), string("field")],
            complexity: "O(1)",
            summary: "The value of a field of a hash.",
            ..Command::of(Group::Hash)
        }),
        Run::Keyspace(hmget).row(Command {
            name: "hmget",
            arity: -3,
            flags: READ_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "2.0.0",
            syntax: "key field [field ...]",
            arguments: arguments![key("key", 0), string("field").repeated()],
            complexity: "O(N), N = fields given",
            summary: "The values of several fields of a hash.",
            ..Command::of(Group::Hash)
        }),
        Run::Keyspace(hgetall).row(Command {
            name: "hgetall",
            arity: 2,
            flags: READ,
            keys: Keys::ONE,
            request: Request::OneShard,
            output: Output::Unordered,
            since: "2.0.0",
            syntax: "key",
            arguments: arguments![key("key", 0)],
            complexity: "O(N), N = fields",
            summary: "All fields and values of a hash.",
            ..Command::of(Group::Hash)
        }),
        Run::Keyspace(hdel).row(Command {
            name: "hdel",
            arity: -3,
            flags: SHRINK_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "2.0.0",
            syntax: "key field [field ...]",
            arguments: arguments![key("key", 0), string("field").repeated()],
            complexity: "O(N), N = fields given",
            summary: "Removes fields from a hash.",
            access: Some(access::DELETE),
            ..Command::of(Group::Hash)
        }),
        Run::Keyspace(hexists).row(Command {
            name: "hexists",
            arity: 3,
            flags: READ_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "2.0.0",
            syntax: "key field",
            arguments: arguments![key("key", 0), string("field")],
            complexity: "O(1)",
            summary: "Whether a hash has a field.",
            access: Some(access::LOOK),
            ..Command::of(Group::Hash)
        }),
        Run::Keyspace(hlen).row(Command {
            name: "hlen",
            arity: 2,
            flags: READ_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "2.0.0",
            syntax: "key",
            arguments: arguments![key("key", 0)],
            complexity: "O(1)",
            summary: "How many fields a hash has.",
            access: Some(access::LOOK),
            ..Command::of(Group::Hash)
        }),
        Run::Keyspace(hkeys).row(Command {
            name: "hkeys",
            arity: 2,
            flags: READ,
            keys: Keys::ONE,
            request: Request::OneShard,
            output: Output::Unordered,
            since: "2.0.0",
            syntax: "key",
            arguments: arguments![key("key", 0)],
            complexity: "O(N), N = fields",
            summary: "The fields of a hash.",
            ..Command::of(Group::Hash)
        }),
        Run::Keyspace(hvals).row(Command {
            name: "hvals",
            arity: 2,
            flags: READ,
            keys: Keys::ONE,
            request: Request::OneShard,
            output: Output::Unordered,
            since: "2.0.0",
            syntax: "key",
            arguments: arguments![key("key", 0)],
            complexity: "O(N), N = fields",
            summary: "The values of a hash.",
            ..Command::of(Group::Hash)
        }),
        Run::Keyspace(hincrby).row(Command {
            name: "hincrby",
            arity: 4,
            flags: WRITE_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "2.0.0",
            syntax: "key field increment",
            arguments: arguments![key("key", 0), string("field"), integer("increment")],
            complexity: "O(1)",
            summary: "Adds to the integer of a field of a hash.",
            access: Some(access::READ_UPDATE),
            ..Command::of(Group::Hash)
        }),
        Run::Keyspace(hincrbyfloat).row(Command {
            name: "hincrbyfloat",
            arity: 4,
            flags: WRITE_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "2.6.0",
            syntax: "key field increment",
            arguments: arguments![key("key", 0), string("field"), double("increment")],
            complexity: "O(1)",
            summary: "Adds to the number of a field of a hash.",
            access: Some(access::READ_UPDATE),
            ..Command::of(Group::Hash)
        }),
        Run::Keyspace(hstrlen).row(Command {
            name: "hstrlen",
            arity: 3,
            flags: READ_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "3.2.0",
            syntax: "key field",
            arguments: arguments![key("key", 0), string("field")],
            complexity: "O(1)",
            summary: "The length of the value of a field of a hash, in bytes.",
            access: Some(access::LOOK),
            ..Command::of(Group::Hash)
        }),
        Run::Keyspace(hrandfield).row(Command {
            name: "hrandfield",
            arity: -2,
            flags: READ,
            keys: Keys::ONE,
            request: Request::OneShard,
            output: Output::Varies,
            since: "6.2.0",
            syntax: "key [count [WITHVALUES]]",
            arguments: arguments![
                key("key", 0),
                block("options", arguments![integer("count"), token("withvalues", "WITHVALUES").optional()],)
                    .optional(),
            ],
            complexity: "O(N), N = fields replied",
            summary: "Random fields of a hash.",
            ..Command::of(Group::Hash)
        }),
        Run::Keyspace(hsetnx).row(Command {
            name: "hsetnx",
            arity: 4,
            flags: WRITE_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "2.0.0",
            syntax: "key field value",
            arguments: arguments![key("key", 0), string("field"), string("value")],
            complexity: "O(1)",
            summary: "Sets a field of a hash that does not exist.",
            access: Some(access::INSERT),
            ..Command::of(Group::Hash)
        }),
    ]
}

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

/// Sets fields to values, and returns how many are new.
fn set_fields<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, command: &str) -> Result<usize, CommandError> {
    if !args.len().is_multiple_of(2) {
        return Err(CommandError::Arity(command.to_owned()));
    }
    let limits = keyspace.settings().limits::<Hash>();
    let hash = keyspace.collection_or_new::<Hash>(&args[1])?;
    hash.prepare(limits, args.from(2).iter());
    let mut added = 0;
    for index in (2..args.len()).step_by(2) {
        added += usize::from(hash.set(limits, &args[index], &args[index + 1]));
    }
    keyspace.note_change(&args[1], args.len() / 2 - 1);
    keyspace.notify(Class::HASH, "hset", &args[1]);
    Ok(added)
}

/// HSETNX key field value: O(1)
pub fn hsetnx<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let limits = keyspace.settings().limits::<Hash>();
    let hash = keyspace.collection_or_new::<Hash>(&args[1])?;
    let is_new = !hash.contains(&args[2]);
    if is_new {
        hash.prepare(limits, args.from(2).iter());
        hash.set(limits, &args[2], &args[3]);
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
    reply_value(reply, hash, &args[2]);
    Ok(())
}

/// HMGET key field [field ...]: O(N), N = fields given
pub fn hmget<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let hash = keyspace.read_collection::<Hash>(&args[1])?;
    reply.array(args.len() - 2);
    args.from(2).iter().for_each(|field| reply_value(reply, hash, field));
    Ok(())
}

fn reply_value(reply: &mut Reply<'_>, hash: Option<&Hash>, field: &[u8]) {
    match hash.and_then(|hash| hash.get(field)) {
        Some(value) => reply_element(reply, value),
        None => reply.null(),
    }
}

/// HSTRLEN key field: O(1)
pub fn hstrlen<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let hash = keyspace.read_collection::<Hash>(&args[1])?;
    reply.count(hash.and_then(|hash| hash.get(&args[2])).map_or(0, Element::len));
    Ok(())
}

/// HGETALL key: O(N), N = fields
pub fn hgetall<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let hash = keyspace.read_collection::<Hash>(&args[1])?;
    let len = hash.map_or(0, Hash::len);
    reply.map(len);
    lengthy::run(len, || {
        for (field, value) in hash.into_iter().flat_map(Hash::iter) {
            reply_element(reply, field);
            reply_element(reply, value);
        }
    });
    Ok(())
}

/// HKEYS key: O(N), N = fields
pub fn hkeys<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let hash = keyspace.read_collection::<Hash>(&args[1])?;
    let len = hash.map_or(0, Hash::len);
    reply.array(len);
    lengthy::run(len, || hash.into_iter().flat_map(Hash::iter).for_each(|(field, _)| reply_element(reply, field)));
    Ok(())
}

/// HVALS key: O(N), N = fields
pub fn hvals<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let hash = keyspace.read_collection::<Hash>(&args[1])?;
    let len = hash.map_or(0, Hash::len);
    reply.array(len);
    lengthy::run(len, || hash.into_iter().flat_map(Hash::iter).for_each(|(_, value)| reply_element(reply, value)));
    Ok(())
}

/// HDEL key field [field ...]: O(N), N = fields given
pub fn hdel<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let key = &args[1];
    let limits = keyspace.settings().limits::<Hash>();
    let Some(hash) = keyspace.collection_mut::<Hash>(key)? else {
        reply.integer(0);
        return Ok(());
    };
    let removed = args.from(2).iter().filter(|&field| hash.remove(field)).count();
    let is_empty = hash.shrink(limits);
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
    reply.flag(hash.is_some_and(|hash| hash.contains(&args[2])));
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
    // Nothing fails after a hash had to be created: a new field starts at zero.
    let limits = keyspace.settings().limits::<Hash>();
    let hash = keyspace.collection_or_new::<Hash>(key)?;
    let old = hash.get(field).map_or(Ok(0), integer_of)?;
    let sum = old.checked_add(increment).ok_or(CommandError::Overflow)?;
    hash.set(limits, field, itoa::Buffer::new().format(sum).as_bytes());
    keyspace.note_change(key, 1);
    keyspace.notify(Class::HASH, "hincrby", key);
    reply.integer(sum);
    Ok(())
}

fn integer_of(value: Element<'_>) -> Result<i64, CommandError> {
    value.integer().ok_or(CommandError::Text("ERR hash value is not an integer"))
}

/// HINCRBYFLOAT key field increment: O(1)
pub fn hincrbyfloat<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (key, field) = (&args[1], &args[2]);
    let increment = match Extended::parse(&args[3]).ok_or(CommandError::NotFloat)? {
        Extended::Infinite => return Err(CommandError::Text("ERR value is NaN or Infinity")),
        finite => finite,
    };
    // Nothing fails after a hash had to be created: a new field starts at zero.
    let limits = keyspace.settings().limits::<Hash>();
    let hash = keyspace.collection_or_new::<Hash>(key)?;
    let old = hash.get(field).map_or(Ok(Extended::from(0)), float_of)?;
    let sum = old.plus(increment).ok_or(CommandError::Text("ERR increment would produce NaN or Infinity"))?;
    let text = sum.to_string();
    hash.set(limits, field, text.as_bytes());
    keyspace.note_change(key, 1);
    keyspace.notify(Class::HASH, "hincrbyfloat", key);
    keyspace.effects.record([b"HSET", key, field, text.as_bytes()]);
    reply.bulk(text.as_bytes());
    Ok(())
}

fn float_of(value: Element<'_>) -> Result<Extended, CommandError> {
    match value {
        Element::Integer(integer) => Ok(Extended::from(integer)),
        Element::Bytes(text) => Extended::parse(text).ok_or(CommandError::Text("ERR hash value is not a float")),
    }
}

/// HRANDFIELD key [count [WITHVALUES]]: O(N), N = fields replied
pub fn hrandfield<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let mut random = keyspace.random.fork();
    if args.len() == 2 {
        match keyspace.read_collection::<Hash>(&args[1])? {
            Some(hash) => reply_element(reply, hash.at(hash.random(&mut random)).0),
            None => reply.null(),
        }
        return Ok(());
    }
    let wanted = wanted(&args[2])?;
    let with_values = match args.len() {
        3 => false,
        4 if args.is(3, "WITHVALUES") => true,
        _ => return Err(CommandError::Syntax),
    };
    if with_values && wanted.count() > size(i64::MAX.unsigned_abs()) / 2 {
        return Err(CommandError::Text("ERR value is out of range"));
    }
    match keyspace.read_collection::<Hash>(&args[1])? {
        Some(hash) => reply_random(&Fields { hash, with_values }, wanted, &mut random, reply),
        None => {
            reply.array(0);
            Ok(())
        }
    }
}
