//! OBJECT: how values are stored, and when they were used.

use super::access;
use super::flag_sets::READ;
use super::lookup::container;
use super::row::{Command, Group, Keys, Output, Request, Row, Run};
use super::{CommandError, Outcome, Services};
use crate::commands::documentation::arguments;
use crate::keyspace::{Keyspace, Node, Store, Value};
use crate::resp::{Args, Reply};

/// The rows of the commands here.
pub(super) const fn rows<S: Store>() -> [Row<S>; 6] {
    [
        Run::Plain(container).row(Command {
            name: "object",
            since: "2.2.3",
            summary: "Commands about how values are kept.",
            ..Command::container_of(Group::Generic)
        }),
        Run::Keyspace(encoding).row(Command {
            name: "object|encoding",
            arity: 3,
            flags: READ,
            keys: Keys::OF_SUBCOMMAND,
            request: Request::OneShard,
            output: Output::Varies,
            since: "2.2.3",
            syntax: "key",
            arguments: arguments![key("key", 0)],
            complexity: "O(1)",
            summary: "How the value of a key is kept.",
            access: Some(access::LOOK),
            ..Command::of(Group::Generic)
        }),
        Run::Keyspace(refcount).row(Command {
            name: "object|refcount",
            arity: 3,
            flags: READ,
            keys: Keys::OF_SUBCOMMAND,
            request: Request::OneShard,
            output: Output::Varies,
            since: "2.2.3",
            syntax: "key",
            arguments: arguments![key("key", 0)],
            complexity: "O(1)",
            summary: "How many references there are to the value of a key.",
            access: Some(access::LOOK),
            ..Command::of(Group::Generic)
        }),
        Run::Keyspace(idletime).row(Command {
            name: "object|idletime",
            arity: 3,
            flags: READ,
            keys: Keys::OF_SUBCOMMAND,
            request: Request::OneShard,
            output: Output::Varies,
            since: "2.2.3",
            syntax: "key",
            arguments: arguments![key("key", 0)],
            complexity: "O(1)",
            summary: "Seconds since a key was used.",
            access: Some(access::LOOK),
            ..Command::of(Group::Generic)
        }),
        Run::Keyspace(freq).row(Command {
            name: "object|freq",
            arity: 3,
            flags: READ,
            keys: Keys::OF_SUBCOMMAND,
            request: Request::OneShard,
            output: Output::Varies,
            since: "4.0.0",
            syntax: "key",
            arguments: arguments![key("key", 0)],
            complexity: "O(1)",
            summary: "How often a key is used, where that is counted.",
            access: Some(access::LOOK),
            ..Command::of(Group::Generic)
        }),
        Run::Plain(help).row(Command { name: "object|help", since: "6.2.0", ..Command::help_of(Group::Generic) }),
    ]
}

/// OBJECT ENCODING key: O(1)
pub fn encoding<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.bulk_or_null(keyspace.inspect_unnoticed(&args[2]).map(|node| node.encoding().as_bytes()));
    Ok(())
}

/// OBJECT REFCOUNT key: O(1)
pub fn refcount<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply_or_null(reply, keyspace.inspect_unnoticed(&args[2]).map(references));
    Ok(())
}

/// OBJECT IDLETIME key: O(1)
pub fn idletime<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    const NOT_TRACKED: &str = "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when \
                               switching between policies at runtime LRU and LFU data will take some time to adjust.";
    let second = keyspace.turn.second();
    let idle = keyspace.inspect_unnoticed(&args[2]).map(|node| i64::from(node.idle_seconds(second)));
    if idle.is_some() && keyspace.settings().eviction.policy().counts_uses() {
        return Err(CommandError::Text(NOT_TRACKED));
    }
    reply_or_null(reply, idle);
    Ok(())
}

/// OBJECT FREQ key: O(1)
pub fn freq<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    const NOT_TRACKED: &str = "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note \
                               that when switching between policies at runtime LRU and LFU data will take some time \
                               to adjust.";
    let (second, counting) = (keyspace.turn.second(), keyspace.settings().eviction.counting());
    let frequency = keyspace.inspect_unnoticed(&args[2]).map(|node| i64::from(node.frequency(second, counting)));
    if frequency.is_some() && !keyspace.settings().eviction.policy().counts_uses() {
        return Err(CommandError::Text(NOT_TRACKED));
    }
    reply_or_null(reply, frequency);
    Ok(())
}

fn reply_or_null(reply: &mut Reply<'_>, integer: Option<i64>) {
    match integer {
        Some(integer) => reply.integer(integer),
        None => reply.null(),
    }
}

/// Redis shares the objects of small integers, and does not count references to them.
fn references(node: &Node) -> i64 {
    const SHARED: i64 = i32::MAX as i64;
    match node.value() {
        Value::Integer(0..10_000) => SHARED,
        _ => 1,
    }
}

/// OBJECT HELP: O(1)
pub fn help(_services: &Services, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
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
    const LAST: [&str; 2] = ["HELP", "    Print this help."];
    reply.array(LINES.len() + LAST.len());
    LINES.iter().chain(&LAST).for_each(|line| reply.simple(line));
    Ok(())
}
