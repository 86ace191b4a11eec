//! The slots of keys: CLUSTER COUNTKEYSINSLOT and GETKEYSINSLOT, and the requests that a node of a cluster refuses.

use super::row::{Command, Flags, Group, Keys, Output, Request, Row, Run};
use super::{CommandError, Outcome};
use crate::base::routing::{SLOTS, slot_of};
use crate::commands::documentation::arguments;
use crate::keyspace::{Keyspace, Settings, Store};
use crate::resp::{Args, Reply, parse_i64};

/// The rows of the commands here.
pub(super) const fn rows<S: Store>() -> [Row<S>; 2] {
    [
        Run::Keyspace(countkeysinslot).row(Command {
            name: "cluster|countkeysinslot",
            arity: 3,
            flags: Flags::STALE,
            keys: Keys::EVERYTHING,
            request: Request::MultiShardView,
            since: "3.0.0",
            syntax: "slot",
            arguments: arguments![integer("slot")],
            complexity: "O(N), N = keys",
            summary: "How many keys there are in a slot.",
            ..Command::of(Group::Cluster)
        }),
        Run::Keyspace(getkeysinslot).row(Command {
            name: "cluster|getkeysinslot",
            arity: 4,
            flags: Flags::STALE,
            keys: Keys::EVERYTHING,
            request: Request::MultiShardView,
            output: Output::Varies,
            since: "3.0.0",
            syntax: "slot count",
            arguments: arguments![integer("slot"), integer("count")],
            complexity: "O(N), N = keys",
            summary: "Some keys of a slot.",
            ..Command::of(Group::Cluster)
        }),
    ]
}

const DISABLED: CommandError = CommandError::Text("ERR This instance has cluster support disabled");

/// Refuses if this is no cluster.
pub fn must_be_enabled(settings: &Settings) -> Outcome {
    if settings.is_cluster() { Ok(()) } else { Err(DISABLED) }
}

/// Refuses requests for another database: a cluster has one.
pub fn must_have_databases(settings: &Settings, name: &str) -> Outcome {
    match settings.is_cluster() {
        true => Err(CommandError::Owned(format!("ERR {name} is not allowed in cluster mode"))),
        false => Ok(()),
    }
}

/// CLUSTER COUNTKEYSINSLOT slot: O(N), N = keys
pub fn countkeysinslot<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    must_be_enabled(keyspace.settings())?;
    let slot = parse_i64(&args[2]).ok_or(CommandError::NotInteger)?;
    let slot = checked_slot(slot).ok_or(CommandError::Text("ERR Invalid slot"))?;
    let mut count = 0;
    keyspace.for_each(&mut |node| count += i64::from(slot_of(node.key()) == slot));
    reply.integer(count);
    Ok(())
}

/// CLUSTER GETKEYSINSLOT slot count: O(N), N = keys
pub fn getkeysinslot<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    const INVALID: CommandError = CommandError::Text("ERR Invalid slot or number of keys");
    must_be_enabled(keyspace.settings())?;
    let [slot, most] = [2, 3].map(|position| parse_i64(&args[position]).ok_or(CommandError::NotInteger));
    let slot = slot?;
    let most = usize::try_from(most?).map_err(|_| INVALID)?;
    let slot = checked_slot(slot).ok_or(INVALID)?;
    let mut keys: Vec<Vec<u8>> = Vec::new();
    keyspace.for_each(&mut |node| {
        if keys.len() < most && slot_of(node.key()) == slot {
            keys.push(node.key().to_vec());
        }
    });
    reply.array(keys.len());
    keys.iter().for_each(|key| reply.bulk(key));
    Ok(())
}

/// The slot of this number, if there is one.
pub fn checked_slot(slot: i64) -> Option<usize> {
    usize::try_from(slot).ok().filter(|&slot| slot < SLOTS)
}
