//! MEMORY: the memory of keys, and of the process.
//!
//! The allocator is not asked per key: the size of a key is computed from its encoding (see the files of the types in
//! `keyspace`), each allocation rounded up as small ones are. It is accurate to some per cent.

use super::access;
use super::flag_sets::READ;
use super::lookup::container;
use super::row::{Command, Group, InScript, Keys, Output, Policies, Request, Row, Run};
use super::{CommandError, Outcome, Services};
use crate::base::narrowing::{size, whole_u64};
use crate::commands::documentation::arguments;
use crate::keyspace::values::stream::StreamId;
use crate::keyspace::{Hash, Keyspace, List, ListNode, Node, Object, Set, SortedSet, Store, Stream, Value};
use crate::resp::{Args, Reply, parse_i64};

/// The rows of the commands here.
pub(super) const fn rows<S: Store>() -> [Row<S>; 6] {
    [
        Run::Plain(container).row(Command {
            name: "memory",
            since: "4.0.0",
            summary: "Commands about memory.",
            ..Command::container_of(Group::Server)
        }),
        Run::Keyspace(usage).row(Command {
            name: "memory|usage",
            arity: -3,
            flags: READ,
            keys: Keys::OF_SUBCOMMAND,
            request: Request::OneShard,
            since: "4.0.0",
            syntax: "key [SAMPLES count]",
            arguments: arguments![key("key", 0), integer("count").after("SAMPLES").optional()],
            complexity: "O(N), N = samples",
            summary: "About how many bytes a key takes with its value.",
            access: Some(access::LOOK),
            ..Command::of(Group::Server)
        }),
        Run::Plain(doctor).row(Command {
            name: "memory|doctor",
            arity: 2,
            output: Output::Varies,
            since: "4.0.0",
            complexity: "O(1)",
            summary: "How memory is used, in a sentence.",
            in_script: InScript::QueriesOwners,
            policies: Some(Policies::SHARDS_SPECIAL),
            ..Command::of(Group::Server)
        }),
        Run::Plain(malloc_stats).row(Command {
            name: "memory|malloc-stats",
            arity: 2,
            output: Output::Varies,
            since: "4.0.0",
            complexity: "O(1)",
            summary: "What the allocator says of itself.",
            policies: Some(Policies::SHARDS_SPECIAL),
            ..Command::of(Group::Server)
        }),
        Run::Plain(purge).row(Command {
            name: "memory|purge",
            arity: 2,
            since: "4.0.0",
            complexity: "O(N), N = free memory",
            summary: "Gives free memory back to the system.",
            policies: Some(Policies::SHARDS_SUCCEED),
            ..Command::of(Group::Server)
        }),
        Run::Plain(help).row(Command { name: "memory|help", since: "4.0.0", ..Command::help_of(Group::Server) }),
    ]
}

/// How many elements are sampled for the size of all, by default.
const SAMPLES: usize = 5;
/// Allocators hand out multiples of this.
const GRAIN: usize = 16;
/// A slot of a hash table with its control byte, at a load of three quarters.
const SLOT: usize = 12;

/// MEMORY USAGE key [SAMPLES count]: O(N), N = samples
pub fn usage<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    const NEGATIVE: &str = "ERR syntax error";
    let mut samples = SAMPLES;
    let mut position = 3;
    while position < args.len() {
        if !args.is(position, "SAMPLES") || position + 1 == args.len() {
            return Err(CommandError::Syntax);
        }
        let count = parse_i64(&args[position + 1]).ok_or(CommandError::NotInteger)?;
        let count = usize::try_from(count).map_err(|_| CommandError::Text(NEGATIVE))?;
        samples = if count == 0 { usize::MAX } else { count };
        position += 2;
    }
    match keyspace.store.stored(&args[2]).map(|node| of_node(node, samples)) {
        Some(bytes) => reply.count(bytes),
        None => reply.null(),
    }
    Ok(())
}

fn of_node(node: &Node, samples: usize) -> usize {
    const HEADER: usize = 8;
    const WORD: usize = 8;
    let fixed = HEADER + node.key().len() + if node.expire_at().is_some() { 2 * WORD + SLOT } else { 0 };
    let value = match node.value() {
        Value::Integer(_) => allocation(fixed + WORD),
        Value::Text(text) => allocation(fixed + WORD + text.len()),
        Value::Object(object) => allocation(fixed + size_of::<Object>()) + of_object(object, samples),
    };
    SLOT + value
}

fn of_object(object: &Object, samples: usize) -> usize {
    match object {
        Object::List(list) => of_list(list, samples),
        Object::Set(set) => of_set(set, samples),
        Object::Hash(hash) => of_hash(hash, samples),
        Object::SortedSet(set) => of_sorted_set(set, samples),
        Object::Stream(stream) => of_stream(stream, samples),
    }
}

fn allocation(bytes: usize) -> usize {
    bytes.next_multiple_of(GRAIN)
}

/// The size of `len` elements, estimated from samples.
fn of_elements(len: usize, samples: usize, sizes: impl Iterator<Item = usize>) -> usize {
    let (count, sum) = sizes.take(samples).fold((0, 0), |(count, sum): (usize, usize), size| (count + 1, sum + size));
    if count == 0 { 0 } else { size(whole_u64(sum as f64 / count as f64 * len as f64)) }
}

fn of_list(list: &List, samples: usize) -> usize {
    const CHUNK: usize = 24;
    let size = |node: ListNode<'_>| match node {
        ListNode::Packed(listpack) => CHUNK + allocation(listpack.allocated()),
        ListNode::Plain(bytes) => CHUNK + allocation(bytes.len()),
    };
    of_elements(list.nodes().count(), samples, list.nodes().map(size))
}

fn of_set(set: &Set, samples: usize) -> usize {
    const LENGTH: usize = 4;
    match set {
        Set::Integers(integers) => allocation(integers.to_bytes().len()),
        Set::Packed(listpack) => allocation(listpack.allocated()),
        Set::Table(_) => {
            of_elements(set.len(), samples, set.iter().map(|member| SLOT + allocation(LENGTH + member.len())))
        }
    }
}

fn of_hash(hash: &Hash, samples: usize) -> usize {
    const LENGTHS: usize = 8;
    match hash {
        Hash::Packed(listpack) => allocation(listpack.allocated()),
        Hash::Table(_) => {
            let sizes = hash.iter().map(|(field, value)| SLOT + allocation(LENGTHS + field.len() + value.len()));
            of_elements(hash.len(), samples, sizes)
        }
    }
}

fn of_sorted_set(set: &SortedSet, samples: usize) -> usize {
    const SHARED: usize = 16;
    const IN_ORDER: usize = 24;
    match set.packed() {
        Some(listpack) => allocation(listpack.allocated()),
        None => {
            let sizes = set.iter().map(|(member, _)| SLOT + IN_ORDER + allocation(SHARED + member.len()));
            of_elements(set.len(), samples, sizes)
        }
    }
}

fn of_stream(stream: &Stream, samples: usize) -> usize {
    const ENTRY: usize = 8;
    let entries = stream.range(StreamId::MIN, StreamId::MAX);
    let sizes =
        entries.map(|entry| ENTRY + entry.fields().map(|(name, value)| name.len() + value.len()).sum::<usize>());
    size_of::<Stream>() + of_elements(stream.len(), samples, sizes)
}

/// MEMORY DOCTOR: O(1)
pub fn doctor(_services: &Services, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    const MB: u64 = 1 << 20;
    let memory = crate::base::allocator::read();
    let ratio = memory.resident as f64 / memory.allocated.max(1) as f64;
    let (allocated, resident) = (memory.allocated / MB, memory.resident / MB);
    let advice = match ratio {
        _ if memory.allocated < 5 * MB => "There is too little data to say more.",
        1.5.. => "Much of that is room that was given back and not returned to the system: keys were removed lately.",
        _ => "That is as it should be.",
    };
    reply.verbatim(&format!("{allocated} MB are in use, {resident} MB are resident. {advice}\n"));
    Ok(())
}

/// MEMORY MALLOC-STATS: O(1)
pub fn malloc_stats(_services: &Services, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let statistics = crate::base::allocator::statistics();
    reply.verbatim(statistics.as_deref().unwrap_or("Stats not supported for the current allocator"));
    Ok(())
}

/// MEMORY PURGE: O(N), N = free memory
pub fn purge(_services: &Services, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    if !crate::base::allocator::purge() {
        return Err(CommandError::Text("ERR Error purging dirty pages"));
    }
    reply.ok();
    Ok(())
}

/// MEMORY HELP: O(1)
pub fn help(_services: &Services, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    const LINES: [&str; 13] = [
        "MEMORY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "DOCTOR",
        "    Return memory problems reports.",
        "MALLOC-STATS",
        "    Return what the allocator says of itself.",
        "PURGE",
        "    Return free memory to the system.",
        "STATS",
        "    Return information about the memory usage of the server.",
        "USAGE <key> [SAMPLES <count>]",
        "    Return memory in bytes used by <key> and its value. Nested values are",
        "    sampled up to <count> times (default: 5, 0 means sample all).",
        "HELP",
    ];
    const LAST: &str = "    Print this help.";
    reply.array(LINES.len() + 1);
    LINES.iter().chain([&LAST]).for_each(|line| reply.simple(line));
    Ok(())
}
