//! Groups of consumers: XGROUP, XACK.

use super::super::arguments::integer;
use super::super::{CommandError, Outcome, Services};
use super::log::{Owner, record_given};
use super::{INVALID_ID, id, ids, shown, unknown_arguments};
use crate::keyspace::values::stream::{Group, StreamId};
use crate::keyspace::{Class, KeyWaiters, Keyspace, Store, Stream, hash_of};
use crate::resp::{Args, Reply};

const NO_SUCH_KEY: CommandError = CommandError::Text(
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option \
     to create an empty stream automatically.",
);

/// [MKSTREAM] [ENTRIESREAD entries-read]
#[derive(Debug, Default)]
struct Options {
    makes_stream: bool,
    entries_read: Option<i64>,
}

impl Options {
    fn parse(args: Args<'_>, can_make_stream: bool) -> Result<Self, CommandError> {
        let mut options = Self::default();
        let mut at = 5;
        while at < args.len() {
            if can_make_stream && args.is(at, "MKSTREAM") {
                options.makes_stream = true;
                at += 1;
            } else if args.is(at, "ENTRIESREAD") && at + 1 < args.len() {
                options.entries_read = match integer(&args[at + 1])? {
                    -1 => None,
                    count @ 0.. => Some(count),
                    _ => return Err(CommandError::Text("ERR value for ENTRIESREAD must be positive or -1")),
                };
                at += 2;
            } else {
                return Err(unknown_arguments(args, "XGROUP"));
            }
        }
        Ok(options)
    }
}

/// XGROUP CREATE key group <id | $> [MKSTREAM] [ENTRIESREAD entries-read]: O(1)
pub fn xgroup_create<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    const ARGUMENTS_MAX: usize = 8;
    let options = Options::parse(args, true)?;
    let (key, name) = (&args[2], &args[3]);
    let stream = keyspace.collection_mut_uncounted::<Stream>(key)?;
    let is_new = stream.is_none();
    if is_new && !options.makes_stream {
        return Err(NO_SUCH_KEY);
    }
    if args.len() > ARGUMENTS_MAX {
        return Err(unknown_arguments(args, "XGROUP"));
    }
    let last_id = match (&args[4], stream) {
        (b"$", stream) => stream.map_or(StreamId::MIN, |stream| stream.last_id),
        (given, _) => id(given)?,
    };
    let groups = &mut keyspace.collection_or_new::<Stream>(key)?.groups;
    if groups.contains_key(name) {
        return Err(CommandError::Text("BUSYGROUP Consumer Group name already exists"));
    }
    groups.insert(name.into(), Group::new(last_id, options.entries_read));
    record_group(keyspace, args, last_id);
    if is_new {
        keyspace.note_change(key, 1);
    } else {
        keyspace.stats.note_unwatched_change(1);
    }
    keyspace.notify(Class::STREAM, "xgroup-create", key);
    reply.ok();
    Ok(())
}

/// Adds the effect with the ID that `$` stood for.
fn record_group<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, last_id: StreamId) {
    let last_id = last_id.to_string();
    let mut effect: Vec<&[u8]> = args.iter().collect();
    effect[4] = last_id.as_bytes();
    keyspace.effects.record(effect);
}

/// XGROUP SETID key group <id | $> [ENTRIESREAD entries-read]: O(1)
pub fn xgroup_setid<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    const ARGUMENTS_MAX: usize = 7;
    let options = Options::parse(args, false)?;
    let stream = keyspace.collection_mut::<Stream>(&args[2])?.ok_or(NO_SUCH_KEY)?;
    let newest = stream.last_id;
    let group = group_mut(stream, args)?;
    if args.len() > ARGUMENTS_MAX {
        return Err(unknown_arguments(args, "XGROUP"));
    }
    let last_id = match &args[4] {
        b"$" => newest,
        given => StreamId::parse_bound(given, 0).ok_or(INVALID_ID)?,
    };
    (group.last_id, group.entries_read) = (last_id, options.entries_read);
    record_group(keyspace, args, last_id);
    keyspace.stats.note_unwatched_change(1);
    keyspace.notify(Class::STREAM, "xgroup-setid", &args[2]);
    reply.ok();
    Ok(())
}

/// XGROUP CREATECONSUMER key group consumer: O(1)
pub fn xgroup_createconsumer<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let now_ms = keyspace.turn.now_ms() as i64;
    let stream = keyspace.collection_mut::<Stream>(&args[2])?.ok_or(NO_SUCH_KEY)?;
    let is_new = group_mut(stream, args)?.add_consumer(&args[4], now_ms);
    reply.flag(is_new);
    if is_new {
        record_given(keyspace, Owner { key: &args[2], group: &args[3], consumer: &args[4] }, &[], now_ms);
        keyspace.stats.note_unwatched_change(1);
        keyspace.notify(Class::STREAM, "xgroup-createconsumer", &args[2]);
    }
    Ok(())
}

/// XGROUP DELCONSUMER key group consumer: O(M log N), M = entries it did not acknowledge, N = those of the group
pub fn xgroup_delconsumer<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let stream = keyspace.collection_mut::<Stream>(&args[2])?.ok_or(NO_SUCH_KEY)?;
    let pending = group_mut(stream, args)?.remove_consumer(&args[4]);
    reply.count(pending.unwrap_or(0));
    if pending.is_some() {
        keyspace.stats.note_unwatched_change(1);
        keyspace.notify(Class::STREAM, "xgroup-delconsumer", &args[2]);
    }
    Ok(())
}

/// XGROUP DESTROY key group: O(N), N = entries not acknowledged
pub fn xgroup_destroy<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let stream = keyspace.collection_mut::<Stream>(&args[2])?.ok_or(NO_SUCH_KEY)?;
    let is_gone = stream.groups.remove(&args[3]).is_some();
    reply.flag(is_gone);
    if is_gone {
        keyspace.stats.note_unwatched_change(1);
        keyspace.notify(Class::STREAM, "xgroup-destroy", &args[2]);
        // They check the key again, though no watch on it breaks.
        let is_awaited = |key_waiters: &mut KeyWaiters| key_waiters.is_awaited(&args[2]);
        if keyspace.store.has_key_waiters() && keyspace.store.with_key_waiters(hash_of(&args[2]), &args[2], is_awaited)
        {
            keyspace.ready.push(keyspace.store.selected(), &args[2]);
        }
    }
    Ok(())
}

fn group_mut<'s>(stream: &'s mut Stream, args: Args<'_>) -> Result<&'s mut Group, CommandError> {
    let (key, name) = (&args[2], &args[3]);
    stream.groups.get_mut(name).ok_or_else(|| {
        CommandError::Owned(format!("NOGROUP No such consumer group '{}' for key name '{}'", shown(name), shown(key)))
    })
}

/// XACK key group id [id ...]: O(M log N), M = IDs, N = entries not acknowledged
pub fn xack<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let stream = keyspace.read_collection_mut::<Stream>(&args[1])?;
    let Some(group) = stream.and_then(|stream| stream.groups.get_mut(&args[2])) else {
        reply.integer(0);
        return Ok(());
    };
    let acknowledged = ids(args.from(3))?.into_iter().filter(|&id| group.acknowledge(id)).count();
    reply.count(acknowledged);
    keyspace.stats.note_unwatched_change(acknowledged);
    Ok(())
}

/// XGROUP HELP: O(1)
pub fn xgroup_help(_services: &Services, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    super::xinfo::write_help(
        "XGROUP",
        &[
            "CREATE <key> <groupname> <id|$> [option]",
            "    Create a new consumer group. Options are:",
            "    * MKSTREAM",
            "      Create the empty stream if it does not exist.",
            "    * ENTRIESREAD entries_read",
            "      Set the group's entries_read counter (internal use).",
            "CREATECONSUMER <key> <groupname> <consumer>",
            "    Create a new consumer in the specified group.",
            "DELCONSUMER <key> <groupname> <consumer>",
            "    Remove the specified consumer.",
            "DESTROY <key> <groupname>",
            "    Remove the specified group.",
            "SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
            "    Set the current group ID and entries_read counter.",
        ],
        reply,
    );
    Ok(())
}
