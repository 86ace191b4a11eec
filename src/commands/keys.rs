//! Commands for keys of any type.

use super::access;
use super::arguments::{integer, is};
use super::cluster::must_have_databases;
use super::flag_sets::{READ, READ_FAST, SHRINK, SHRINK_FAST, WRITE};
use super::row::{
    Categories, Command, Flags, Group, Keys, OtherDatabase, Output, Pending, Policies, Request, Response, Row, Run,
};
use super::{CommandError, Outcome, services};
use crate::base::{glob, lengthy};
use crate::commands::documentation::{Argument, arguments};
use crate::keyspace::{Class, Keyspace, Removal, Store, Value, clear_database, swap_databases};
use crate::resp::{Args, Reply};
use std::sync::Arc;

/// The arguments of FLUSHDB and FLUSHALL.
const FLUSH: &[Argument] = arguments![
    one_of("flush-type", arguments![token("async", "ASYNC").since("4.0.0"), token("sync", "SYNC").since("6.2.0")])
        .optional()
];

/// The rows of the commands here.
pub(super) const fn rows<S: Store>() -> [Row<S>; 15] {
    [
        Run::Keyspace(del).row(Command {
            name: "del",
            arity: -2,
            flags: SHRINK,
            keys: Keys::ALL,
            request: Request::MultiShard,
            response: Response::Sum,
            since: "1.0.0",
            syntax: "key [key ...]",
            arguments: arguments![key("key", 0).repeated()],
            complexity: "O(N), N = keys and their elements",
            summary: "Removes keys.",
            access: Some(access::REMOVE),
            ..Command::of(Group::Generic)
        }),
        Run::Keyspace(unlink).row(Command {
            name: "unlink",
            arity: -2,
            flags: SHRINK_FAST,
            keys: Keys::ALL,
            request: Request::MultiShard,
            response: Response::Sum,
            since: "4.0.0",
            syntax: "key [key ...]",
            arguments: arguments![key("key", 0).repeated()],
            complexity: "O(N), N = keys; large values are freed on another thread",
            summary: "Removes keys without waiting until their memory is free.",
            access: Some(access::REMOVE),
            ..Command::of(Group::Generic)
        }),
        Run::Keyspace(exists).row(Command {
            name: "exists",
            arity: -2,
            flags: READ_FAST,
            keys: Keys::ALL,
            request: Request::MultiShard,
            response: Response::Sum,
            since: "1.0.0",
            syntax: "key [key ...]",
            arguments: arguments![key("key", 0).repeated()],
            complexity: "O(N), N = keys",
            summary: "How many of the keys exist.",
            access: Some(access::LOOK),
            ..Command::of(Group::Generic)
        }),
        Run::Keyspace(touch).row(Command {
            name: "touch",
            arity: -2,
            flags: READ_FAST,
            keys: Keys::ALL,
            request: Request::MultiShard,
            response: Response::Sum,
            since: "3.2.1",
            syntax: "key [key ...]",
            arguments: arguments![key("key", 0).repeated()],
            complexity: "O(N), N = keys",
            summary: "How many of the keys exist; marks them as used.",
            access: Some(access::LOOK),
            ..Command::of(Group::Generic)
        }),
        Run::Keyspace(type_of).row(Command {
            name: "type",
            arity: 2,
            flags: READ_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "1.0.0",
            syntax: "key",
            arguments: arguments![key("key", 0)],
            complexity: "O(1)",
            summary: "The type of the value of a key.",
            access: Some(access::LOOK),
            ..Command::of(Group::Generic)
        }),
        Run::Keyspace(rename).row(Command {
            name: "rename",
            arity: 3,
            flags: SHRINK,
            keys: Keys::TWO,
            request: Request::MultiShardView,
            since: "1.0.0",
            syntax: "key newkey",
            arguments: arguments![key("key", 0), key("newkey", 1)],
            complexity: "O(1), and the elements of what newkey held",
            summary: "Moves what a key holds to another key.",
            access: Some(access::RENAME),
            ..Command::of(Group::Generic)
        }),
        Run::Keyspace(renamenx).row(Command {
            name: "renamenx",
            arity: 3,
            flags: SHRINK_FAST,
            keys: Keys::TWO,
            request: Request::MultiShardView,
            since: "1.0.0",
            syntax: "key newkey",
            arguments: arguments![key("key", 0), key("newkey", 1)],
            complexity: "O(1)",
            summary: "Moves what a key holds to a key that does not exist.",
            access: Some(access::RENAME_NEW),
            ..Command::of(Group::Generic)
        }),
        Run::Keyspace(copy).row(Command {
            name: "copy",
            arity: -3,
            flags: WRITE.and(Flags::CROSSES),
            keys: Keys::TWO,
            request: Request::MultiShardView,
            since: "6.2.0",
            syntax: "source destination [DB destination-db] [REPLACE]",
            arguments: arguments![
                key("source", 0),
                key("destination", 1),
                integer("destination-db").after("DB").optional(),
                token("replace", "REPLACE").optional(),
            ],
            complexity: "O(N), N = elements or bytes of the value",
            summary: "Copies what a key holds to another key.",
            access: Some(access::COPY),
            other_database: OtherDatabase::OfOption,
            ..Command::of(Group::Generic)
        }),
        Run::Keyspace(keys).row(Command {
            name: "keys",
            arity: 2,
            flags: READ,
            request: Request::AllShards,
            response: Response::Concatenated,
            output: Output::Unordered,
            since: "1.0.0",
            syntax: "pattern",
            arguments: arguments![pattern("pattern")],
            complexity: "O(N), N = keys of the database",
            summary: "The keys that match a pattern.",
            categories: Categories::DANGEROUS,
            ..Command::of(Group::Generic)
        }),
        Run::Keyspace(randomkey).row(Command {
            name: "randomkey",
            arity: 1,
            flags: READ,
            request: Request::AllShards,
            response: Response::AnyByKeys,
            output: Output::Varies,
            since: "1.0.0",
            complexity: "O(1)",
            summary: "A key at random.",
            ..Command::of(Group::Generic)
        }),
        Run::Keyspace(dbsize).row(Command {
            name: "dbsize",
            arity: 1,
            flags: READ_FAST,
            request: Request::AllShards,
            response: Response::Sum,
            since: "1.0.0",
            complexity: "O(shards)",
            summary: "How many keys there are.",
            ..Command::of(Group::Server)
        }),
        Run::Keyspace(flushdb).row(Command {
            name: "flushdb",
            arity: -1,
            flags: SHRINK,
            request: Request::AllShards,
            response: Response::AllSucceeded,
            since: "1.0.0",
            syntax: "[ASYNC | SYNC]",
            arguments: FLUSH,
            complexity: "O(N), N = keys",
            summary: "Removes all keys of the database.",
            categories: Categories::DANGEROUS,
            ..Command::of(Group::Server)
        }),
        Run::Keyspace(flushall).row(Command {
            name: "flushall",
            arity: -1,
            flags: SHRINK.and(Flags::CROSSES),
            request: Request::AllShards,
            response: Response::AllSucceeded,
            since: "1.0.0",
            syntax: "[ASYNC | SYNC]",
            arguments: FLUSH,
            complexity: "O(N), N = keys of all databases",
            summary: "Removes all keys of all databases.",
            categories: Categories::DANGEROUS,
            pending: Pending::Flush,
            ..Command::of(Group::Server)
        }),
        Run::Keyspace(swapdb).row(Command {
            name: "swapdb",
            arity: 3,
            flags: SHRINK_FAST.and(Flags::CROSSES),
            request: Request::AllShards,
            since: "4.0.0",
            syntax: "index1 index2",
            arguments: arguments![integer("index1"), integer("index2")],
            complexity: "O(N), N = shards, and keys that somebody listens to",
            summary: "Exchanges two databases.",
            other_database: OtherDatabase::Both,
            categories: Categories::DANGEROUS,
            pending: Pending::Transaction,
            policies: Some(Policies::NONE),
            ..Command::of(Group::Server)
        }),
        Run::Keyspace(move_to).row(Command {
            name: "move",
            arity: 3,
            flags: SHRINK_FAST.and(Flags::CROSSES),
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "1.0.0",
            syntax: "key db",
            arguments: arguments![key("key", 0), integer("db")],
            complexity: "O(1)",
            summary: "Moves a key to another database.",
            access: Some(access::READ_UPDATE),
            other_database: OtherDatabase::At(2),
            ..Command::of(Group::Generic)
        }),
    ]
}

/// DEL key [key ...]: O(N), N = keys and their elements
pub fn del<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    remove(keyspace, args, Removal::Deleted, reply)
}

/// UNLINK key [key ...]: O(N), N = keys
pub fn unlink<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    remove(keyspace, args, Removal::Unlinked, reply)
}

fn remove<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, removal: Removal, reply: &mut Reply<'_>) -> Outcome {
    let mut removed = 0;
    for key in args.from(1).iter() {
        if keyspace.remove(key, removal) {
            keyspace.note_change(key, 1);
            keyspace.notify(Class::GENERIC, "del", key);
            removed += 1;
        }
    }
    reply.count(removed);
    Ok(())
}

/// TOUCH key [key ...]: O(N), N = keys
pub fn touch<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    // That is its purpose, even if other commands of the connection do not count.
    let notes_uses = std::mem::replace(&mut keyspace.turn.notes_uses, true);
    reply.count(args.from(1).iter().filter(|key| keyspace.read(key).is_some()).count());
    keyspace.turn.notes_uses = notes_uses;
    Ok(())
}

/// EXISTS key [key ...]: O(N), N = keys
pub fn exists<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.count(args.from(1).iter().filter(|key| keyspace.inspect(key).is_some()).count());
    Ok(())
}

/// TYPE key: O(1)
pub fn type_of<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.simple(keyspace.inspect(&args[1]).map_or("none", |node| type_name(node.value())));
    Ok(())
}

/// The type's name as TYPE replies it.
pub fn type_name(value: Value<'_>) -> &'static str {
    match value {
        Value::Integer(_) | Value::Text(_) => "string",
        Value::Object(object) => object.type_name(),
    }
}

/// RENAME key newkey: O(1), and the elements of the old value of newkey
pub fn rename<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (from, to) = (&args[1], &args[2]);
    must_exist(keyspace, from)?;
    if from == to {
        keyspace.note_use(from);
    } else {
        move_key(keyspace, from, to);
    }
    reply.ok();
    Ok(())
}

/// RENAMENX key newkey: O(1)
pub fn renamenx<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (from, to) = (&args[1], &args[2]);
    must_exist(keyspace, from)?;
    // A key that is renamed to itself exists.
    let is_free = !keyspace.contains(to);
    if is_free {
        move_key(keyspace, from, to);
    } else {
        keyspace.note_use(from);
        if from != to {
            keyspace.note_use(to);
        }
    }
    reply.flag(is_free);
    Ok(())
}

fn must_exist<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8]) -> Outcome {
    keyspace.contains(key).then_some(()).ok_or(CommandError::NoSuchKey)
}

fn move_key<S: Store>(keyspace: &mut Keyspace<S>, from: &[u8], to: &[u8]) {
    if keyspace.rename(from, to) {
        // Redis counts one change.
        keyspace.note_touched(from);
        keyspace.note_change(to, 1);
        keyspace.notify(Class::GENERIC, "rename_from", from);
        keyspace.notify(Class::GENERIC, "rename_to", to);
    }
}

/// COPY source destination [DB destination-db] [REPLACE]: O(N), N = elements or bytes of the value
pub fn copy<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (from, to) = (&args[1], &args[2]);
    let (database, is_replacing) = copy_options(keyspace, args)?;
    if from == to && database == keyspace.store.selected() {
        return Err(CommandError::Text("ERR source and destination objects are the same"));
    }
    let is_found = keyspace.read(from).is_some();
    let is_copied = is_found
        && (is_replacing || !keyspace.within(database, |keyspace| keyspace.contains(to)))
        && keyspace.copy(from, database, to);
    if is_copied {
        keyspace.within(database, |keyspace| {
            keyspace.note_change(to, 1);
            keyspace.notify(Class::GENERIC, "copy_to", to);
        });
    } else if is_found {
        keyspace.within(database, |keyspace| keyspace.note_use(to));
    }
    reply.flag(is_copied);
    Ok(())
}

/// The destination database of a COPY, and whether it may replace an existing key.
fn copy_options<S: Store>(keyspace: &Keyspace<S>, args: Args<'_>) -> Result<(usize, bool), CommandError> {
    let (mut database, mut is_replacing) = (keyspace.store.selected(), false);
    // A cluster has one.
    let databases = if keyspace.settings().is_cluster() { 1 } else { keyspace.store.databases() };
    let mut words = args.from(3).iter();
    while let Some(word) = words.next() {
        match word {
            _ if is(word, "REPLACE") => is_replacing = true,
            _ if is(word, "DB") => database = database_number(words.next().ok_or(CommandError::Syntax)?, databases)?,
            _ => return Err(CommandError::Syntax),
        }
    }
    Ok((database, is_replacing))
}

/// The number of one of `databases` databases, as a request has it.
pub fn database_number(argument: &[u8], databases: usize) -> Result<usize, CommandError> {
    const NO_INDEX: &str = "ERR value is out of range, value must between -2147483648 and 2147483647";
    match i32::try_from(integer(argument)?) {
        Ok(number) => parse_database(number.into(), databases),
        Err(_) => Err(CommandError::Text(NO_INDEX)),
    }
}

/// The number of a database, as passed with each command.
pub fn database_id(number: usize) -> u16 {
    u16::try_from(number).expect("`databases` is at most 1024")
}

/// The same number, as an integer.
pub fn parse_database(number: i64, databases: usize) -> Result<usize, CommandError> {
    let number = usize::try_from(number).ok().filter(|&number| number < databases);
    number.ok_or(CommandError::Text("ERR DB index is out of range"))
}

/// MOVE key db: O(1)
pub fn move_to<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    must_have_databases(keyspace.settings(), "MOVE")?;
    let key = &args[1];
    let database = database_number(&args[2], keyspace.store.databases())?;
    if database == keyspace.store.selected() {
        return Err(CommandError::Text("ERR source and destination objects are the same"));
    }
    let is_moved = !keyspace.within(database, |keyspace| keyspace.contains(key)) && keyspace.move_to(key, database);
    if is_moved {
        keyspace.note_change(key, 1);
        keyspace.notify(Class::GENERIC, "move_from", key);
        keyspace.within(database, |keyspace| {
            // Redis counts one change.
            keyspace.note_touched(key);
            keyspace.notify(Class::GENERIC, "move_to", key);
        });
    }
    reply.flag(is_moved);
    Ok(())
}

/// SWAPDB index1 index2: O(N), N = shards, and keys with key waiters
pub fn swapdb<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    must_have_databases(keyspace.settings(), "SWAPDB")?;
    let number = |argument, text| {
        let number = integer(argument).ok().and_then(|number| i32::try_from(number).ok());
        number.map(i64::from).ok_or(CommandError::Text(text))
    };
    let one = number(&args[1], "ERR invalid first DB index")?;
    let other = number(&args[2], "ERR invalid second DB index")?;
    let (one, other) =
        (parse_database(one, keyspace.store.databases())?, parse_database(other, keyspace.store.databases())?);
    swap_databases(keyspace, one, other);
    reply.ok();
    Ok(())
}

/// KEYS pattern: O(N), N = keys of the database
pub fn keys<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let pattern = &args[1];
    // Redis's rules let only the empty pattern match an empty key; a lone star is a special case.
    let matches = |key: &[u8]| pattern == b"*" || glob::matches(pattern, key);
    let mut encoded = Vec::new();
    let mut keys = Reply::new(&mut encoded, reply.is_resp3());
    let mut count = 0;
    lengthy::run(keyspace.store.len(), || {
        keyspace.for_each(&mut |node| {
            if matches(node.key()) {
                keys.bulk(node.key());
                count += 1;
            }
        });
    });
    reply.array(count);
    reply.raw(&encoded);
    Ok(())
}

/// RANDOMKEY: O(1)
pub fn randomkey<S: Store>(keyspace: &mut Keyspace<S>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.bulk_or_null(keyspace.random_key().as_deref());
    Ok(())
}

/// DBSIZE: O(shards)
pub fn dbsize<S: Store>(keyspace: &mut Keyspace<S>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.count(keyspace.store.len());
    Ok(())
}

/// FLUSHDB [ASYNC | SYNC]: O(N), N = keys; with ASYNC O(1)
pub fn flushdb<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let removal = flush_mode(args)?;
    keyspace.note_flushed();
    clear_database(keyspace, removal);
    reply.ok();
    Ok(())
}

/// FLUSHALL [ASYNC | SYNC]: O(N), N = keys of all databases; with ASYNC O(databases). With save points, the snapshot
/// has no key either when this returns.
pub fn flushall<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let removal = flush_mode(args)?;
    let before = keyspace.stats.changes;
    keyspace.note_flushed();
    keyspace.within_each(|keyspace| clear_database(keyspace, removal));
    let changes = keyspace.stats.changes - before;
    let saves = Arc::clone(&services(keyspace).saves);
    saves.save_flush(keyspace, changes);
    reply.ok();
    Ok(())
}

fn flush_mode(args: Args<'_>) -> Result<Removal, CommandError> {
    match args.get(1) {
        None => Ok(Removal::Flushed),
        Some(mode) if args.len() == 2 && is(mode, "ASYNC") => Ok(Removal::Unlinked),
        Some(mode) if args.len() == 2 && is(mode, "SYNC") => Ok(Removal::FlushedAtOnce),
        Some(_) => Err(CommandError::Syntax),
    }
}
