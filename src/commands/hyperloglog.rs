//! The commands of HyperLogLogs, which are strings of a special format.

use super::access;
use super::flag_sets::{READ, WRITE, WRITE_FAST};
use super::row::{Command, Flags, Group, Keys, Request, Row, Run};
use super::text::make_raw;
use super::{CommandError, Outcome, Services};
use crate::commands::documentation::arguments;
use crate::keyspace::values::hyperloglog::{self, Corrupt, Encoding, Union};
use crate::keyspace::{Class, Keyspace, NewValue, Node, Store, Value};
use crate::resp::{Args, Reply, quoted};

/// The rows of the commands here.
pub(super) const fn rows<S: Store>() -> [Row<S>; 5] {
    [
        Run::Plain(pfselftest).row(Command {
            name: "pfselftest",
            arity: 1,
            flags: Flags::ADMIN,
            since: "2.8.9",
            complexity: "O(1), but a hundred thousand elements",
            summary: "Tests the HyperLogLogs of the server.",
            is_internal: true,
            ..Command::of(Group::Hyperloglog)
        }),
        Run::Keyspace(pfadd).row(Command {
            name: "pfadd",
            arity: -2,
            flags: WRITE_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "2.8.9",
            syntax: "key [element [element ...]]",
            arguments: arguments![key("key", 0), string("element").repeated().optional()],
            complexity: "O(N), N = elements",
            summary: "Adds elements to a HyperLogLog.",
            access: Some(access::INSERT),
            ..Command::of(Group::Hyperloglog)
        }),
        Run::Keyspace(pfcount).row(Command {
            name: "pfcount",
            arity: -2,
            flags: READ.and(Flags::CACHES),
            keys: Keys::ALL,
            request: Request::MultiShardView,
            since: "2.8.9",
            syntax: "key [key ...]",
            arguments: arguments![key("key", 0).repeated()],
            complexity: "O(N), N = keys; O(1) where the count of one key is cached",
            summary: "About how many different elements were added to HyperLogLogs.",
            access: Some(access::COUNT),
            ..Command::of(Group::Hyperloglog)
        }),
        Run::Keyspace(pfmerge).row(Command {
            name: "pfmerge",
            arity: -2,
            flags: WRITE,
            keys: Keys::ALL,
            request: Request::MultiShardView,
            since: "2.8.9",
            syntax: "destkey [sourcekey [sourcekey ...]]",
            arguments: arguments![key("destkey", 0), key("sourcekey", 1).repeated().optional()],
            complexity: "O(N), N = keys",
            summary: "Merges HyperLogLogs into one.",
            access: Some(access::MERGE),
            ..Command::of(Group::Hyperloglog)
        }),
        Run::Keyspace(pfdebug).row(Command {
            name: "pfdebug",
            arity: 3,
            flags: WRITE.and(Flags::ADMIN),
            keys: Keys::SECOND,
            request: Request::OneShard,
            since: "2.8.9",
            syntax: "<GETREG | DECODE | ENCODING | TODENSE> key",
            arguments: arguments![string("subcommand"), key("key", 0)],
            complexity: "O(N), N = registers",
            summary: "Shows the inside of a HyperLogLog.",
            access: Some(access::COUNT),
            is_internal: true,
            ..Command::of(Group::Hyperloglog)
        }),
    ]
}

impl From<Corrupt> for CommandError {
    fn from(corrupt: Corrupt) -> Self {
        Self::Owned(corrupt.to_string())
    }
}

/// The bytes of a HyperLogLog.
fn sketch_of(value: Value<'_>) -> Result<(&[u8], Encoding), CommandError> {
    const TEXT: &str = "WRONGTYPE Key is not a valid HyperLogLog string value.";
    match value {
        Value::Object(_) => Err(CommandError::WrongType),
        Value::Integer(_) => Err(CommandError::Text(TEXT)),
        Value::Text(text) => {
            hyperloglog::encoding(text).map(|encoding| (text, encoding)).ok_or(CommandError::Text(TEXT))
        }
    }
}

fn store(node: &mut Node, bytes: &[u8]) {
    node.set(NewValue::Text(bytes), node.expire_at());
    make_raw(node);
}

/// PFADD key [element [element ...]]: O(N), N = elements
pub fn pfadd<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (key, elements) = (&args[1], args.from(2));
    let sparse_len_max = keyspace.sparse_len_max();
    let (changes, became_dense) = match keyspace.node_mut(key) {
        Some(node) => {
            let was_dense = sketch_of(node.value())?.1 == Encoding::Dense;
            let (changes, outcome) = add_to_node(node, elements, sparse_len_max)?;
            if let Err(corrupt) = outcome {
                note_half_done(keyspace, key, changes);
                return Err(corrupt.into());
            }
            (changes, !was_dense && is_dense(node))
        }
        None => {
            let mut bytes = hyperloglog::empty();
            let (changes, outcome) = hyperloglog::add_all(&mut bytes, elements.iter(), sparse_len_max);
            outcome?;
            hyperloglog::forget_count(&mut bytes);
            let node = keyspace.node_or_new(key, || NewValue::Text(&bytes));
            make_raw(node);
            (changes + 1, is_dense(node))
        }
    };
    if became_dense {
        record_dense(keyspace, args, key);
    }
    if changes > 0 {
        keyspace.note_change(key, changes);
        keyspace.notify(Class::STRING, "pfadd", key);
    }
    reply.flag(changes > 0);
    Ok(())
}

/// Adds elements to a HyperLogLog; returns how many changed it, and whether it was found corrupt after them.
fn add_to_node(
    node: &mut Node,
    elements: Args<'_>,
    sparse_len_max: usize,
) -> Result<(usize, Result<(), Corrupt>), CommandError> {
    let (text, encoding) = sketch_of(node.value())?;
    if encoding == Encoding::Dense {
        let text = node.text_mut().expect("a HyperLogLog is a text");
        let changes = elements.iter().filter(|element| hyperloglog::add_to_dense(text, element)).count();
        if changes > 0 {
            hyperloglog::forget_count(text);
        }
        return Ok((changes, Ok(())));
    }
    // A copy of it is short, and grows as needed.
    let mut bytes = text.to_vec();
    let (changes, outcome) = hyperloglog::add_all(&mut bytes, elements.iter(), sparse_len_max);
    if changes > 0 {
        hyperloglog::forget_count(&mut bytes);
        store(node, &bytes);
    }
    Ok((changes, outcome))
}

fn is_dense(node: &Node) -> bool {
    sketch_of(node.value()).is_ok_and(|(_, encoding)| encoding == Encoding::Dense)
}

/// Adds the effect that a command made a HyperLogLog dense: replay has no limit that would do so. The encoding matters,
/// because SETRANGE and other commands may change its bytes.
fn record_dense<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, key: &[u8]) {
    keyspace.effects.record(args.iter());
    keyspace.effects.record([b"PFDEBUG".as_slice(), b"TODENSE", key]);
}

/// Elements were added before damage was found. As in Redis they stay, and no watch on the key breaks. Redis does not
/// log this; here the value is logged, so that it exists after a restart.
fn note_half_done<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8], changes: usize) {
    if changes == 0 {
        return;
    }
    keyspace.stats.note_unwatched_change(changes);
    if keyspace.effects.is_logged()
        && let Some(Value::Text(text)) = keyspace.look(key)
    {
        let bytes = text.to_vec();
        keyspace.effects.record([b"SET", key, &bytes, b"KEEPTTL"]);
    }
}

/// PFCOUNT key [key ...]: O(N), N = keys; O(1) if the count of one key is cached
pub fn pfcount<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    if args.len() > 2 {
        let mut union = Union::default();
        add_all(&mut union, keyspace, args)?;
        reply.integer(union.count() as i64);
        return Ok(());
    }
    let key = &args[1];
    let Some(value) = keyspace.read(key) else {
        reply.integer(0);
        return Ok(());
    };
    let (text, _) = sketch_of(value)?;
    if let Some(count) = hyperloglog::cached_count(text) {
        reply.integer(count as i64);
        return Ok(());
    }
    let count = hyperloglog::count(text)?;
    let node = keyspace.node_mut_uncounted(key).expect("it was just read");
    hyperloglog::cache_count(node.text_mut().expect("a HyperLogLog is a text"), count);
    keyspace.note_change(key, 1);
    reply.integer(count as i64);
    Ok(())
}

/// PFMERGE destkey [sourcekey [sourcekey ...]]: O(N), N = keys
pub fn pfmerge<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let mut union = Union::default();
    add_all(&mut union, keyspace, args)?;
    let key = &args[1];
    let (mut bytes, was_dense) = match keyspace.look(key) {
        Some(value) => {
            let (bytes, encoding) = sketch_of(value)?;
            (bytes.to_vec(), encoding == Encoding::Dense)
        }
        None => (hyperloglog::empty(), false),
    };
    union.write_to(&mut bytes, keyspace.sparse_len_max())?;
    let node = keyspace.node_or_new(key, || NewValue::Text(&[]));
    store(node, &bytes);
    if !was_dense && is_dense(node) {
        record_dense(keyspace, args, key);
    }
    keyspace.note_change(key, 1);
    keyspace.notify(Class::STRING, "pfadd", key);
    reply.ok();
    Ok(())
}

/// Adds the HyperLogLogs of keys, up to one that is none.
fn add_all<S: Store>(union: &mut Union, keyspace: &mut Keyspace<S>, args: Args<'_>) -> Outcome {
    for key in args.from(1).iter() {
        if let Some(value) = keyspace.read(key) {
            union.add(sketch_of(value)?.0)?;
        }
    }
    Ok(())
}

/// PFDEBUG <GETREG | DECODE | ENCODING | TODENSE> key: O(1)
pub fn pfdebug<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let key = &args[2];
    let node = keyspace.node_mut(key).ok_or(CommandError::Text("ERR The specified key does not exist"))?;
    let (text, encoding) = sketch_of(node.value())?;
    let mut bytes = text.to_vec();
    if args.is(1, "GETREG") || args.is(1, "TODENSE") {
        let is_changed = hyperloglog::make_dense(&mut bytes)?;
        if is_changed {
            store(node, &bytes);
            keyspace.note_change(key, 1);
            keyspace.effects.record([b"PFDEBUG".as_slice(), b"TODENSE", key]);
        }
        if args.is(1, "TODENSE") {
            reply.flag(is_changed);
        } else {
            let ranks = hyperloglog::ranks_of_dense(&bytes);
            reply.array(ranks.len());
            ranks.into_iter().for_each(|rank| reply.integer(rank.into()));
        }
    } else if args.is(1, "DECODE") {
        if encoding != Encoding::Sparse {
            return Err(CommandError::Text("ERR HLL encoding is not sparse"));
        }
        reply.bulk(hyperloglog::decoded(&bytes).as_bytes());
    } else if args.is(1, "ENCODING") {
        reply.simple(if encoding == Encoding::Dense { "dense" } else { "sparse" });
    } else {
        let name = quoted(&args[1], usize::MAX);
        return Err(CommandError::Owned(format!("ERR Unknown PFDEBUG subcommand '{name}'")));
    }
    Ok(())
}

/// PFSELFTEST: O(1), but slow
pub fn pfselftest(services: &Services, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let failed = |reason: String| CommandError::Owned(format!("TESTFAILED {reason}"));
    hyperloglog::self_test(&mut services.randomness.generator()).map_err(failed)?;
    reply.ok();
    Ok(())
}
