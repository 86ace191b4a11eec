//! OBJECT: how values are kept, and when they were used.

use super::arguments::is;
use super::{CommandError, Outcome};
use crate::keyspace::{Keyspace, Node, Store, Value};
use crate::resp::{Args, Reply, quoted};

/// OBJECT <ENCODING key | FREQ key | IDLETIME key | REFCOUNT key | HELP>: O(1)
pub fn object<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    match &args[1] {
        word if is(word, "ENCODING") => {
            reply.bulk_or_null(node_of(keyspace, args, "encoding")?.map(|node| node.encoding().as_bytes()));
        }
        word if is(word, "REFCOUNT") => reply_or_null(reply, node_of(keyspace, args, "refcount")?.map(references)),
        word if is(word, "IDLETIME") => {
            let second = keyspace.second();
            let idle = node_of(keyspace, args, "idletime")?.map(|node| i64::from(node.idle_seconds(second)));
            reply_or_null(reply, idle);
        }
        word if is(word, "FREQ") => frequency(node_of(keyspace, args, "freq")?, reply)?,
        word if is(word, "HELP") && args.len() == 2 => help(reply),
        word if is(word, "HELP") => return Err(wrong_arity("help")),
        word => {
            let name = quoted(word, 128);
            return Err(CommandError::Owned(format!("ERR unknown subcommand '{name}'. Try OBJECT HELP.")));
        }
    }
    Ok(())
}

/// The node that a subcommand asks about.
fn node_of<'a, S: Store>(
    keyspace: &'a mut Keyspace<S>,
    args: Args<'_>,
    subcommand: &str,
) -> Result<Option<&'a Node>, CommandError> {
    if args.len() == 3 { Ok(keyspace.inspect_unnoticed(&args[2])) } else { Err(wrong_arity(subcommand)) }
}

fn wrong_arity(subcommand: &str) -> CommandError {
    CommandError::Arity(format!("object|{subcommand}"))
}

fn reply_or_null(reply: &mut Reply<'_>, integer: Option<i64>) {
    match integer {
        Some(integer) => reply.integer(integer),
        None => reply.null(),
    }
}

/// Redis shares the objects of small integers, and counts no references to those.
fn references(node: &Node) -> i64 {
    const SHARED: i64 = i32::MAX as i64;
    match node.value() {
        Value::Integer(0..10_000) => SHARED,
        _ => 1,
    }
}

/// No policy here counts how often keys are used.
fn frequency(node: Option<&Node>, reply: &mut Reply<'_>) -> Outcome {
    const NOT_TRACKED: &str = "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note \
                               that when switching between policies at runtime LRU and LFU data will take some time \
                               to adjust.";
    if node.is_some() {
        return Err(CommandError::Text(NOT_TRACKED));
    }
    reply.null();
    Ok(())
}

fn help(reply: &mut Reply<'_>) {
    const LINES: [&str; 13] = [
        "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "ENCODING <key>",
        "    Return the kind of internal representation used in order to store the value",
        "    associated with a <key>.",
        "FREQ <key>",
        "    Return the access frequency index of the <key>. The returned integer is",
        "    proportional to the logarithm of the recent access frequency of the key.",
        "IDLETIME <key>",
        "    Return the idle time of the <key>, that is the approximated number of",
        "    seconds elapsed since the last access to the key.",
        "REFCOUNT <key>",
        "    Return the number of references of the value associated with the specified",
        "    <key>.",
    ];
    const LAST: [&str; 2] = ["HELP", "    Prints this help."];
    reply.array(LINES.len() + LAST.len());
    LINES.iter().chain(&LAST).for_each(|line| reply.simple(line));
}
