//! SAVE, BGSAVE and LASTSAVE: snapshots that a Redis loads.

use super::flag_sets::STATUS;
use super::row::{Categories, Command, Flags, Group, Keys, Output, Pending, Request, Row, Run};
use super::{CommandError, Outcome, Services, services};
use crate::commands::documentation::arguments;
use crate::keyspace::{Keyspace, Store};
use crate::resp::{Args, Reply};
use crate::snapshot::{NotSaved, Saves};
use std::sync::Arc;

/// The flags of commands that write a snapshot.
const SAVE: Flags = Flags::ADMIN.and(Flags::NOSCRIPT).and(Flags::NO_ASYNC_LOADING).and(Flags::CROSSES);

/// The rows of the commands here.
pub(super) const fn rows<S: Store>() -> [Row<S>; 3] {
    [
        Run::Plain(lastsave).row(Command {
            name: "lastsave",
            arity: 1,
            flags: STATUS.and(Flags::FAST),
            output: Output::Varies,
            since: "1.0.0",
            complexity: "O(1)",
            summary: "When the last snapshot was made: Unix time in seconds.",
            categories: Categories::ADMIN.and(Categories::DANGEROUS),
            ..Command::of(Group::Server)
        }),
        Run::Keyspace(save).row(Command {
            name: "save",
            arity: 1,
            flags: SAVE.and(Flags::NO_MULTI),
            keys: Keys::EVERYTHING,
            request: Request::MultiShardView,
            since: "1.0.0",
            complexity: "O(N), N = bytes of all keys",
            summary: "Writes a snapshot of all databases to `dbfilename`; nothing else runs until it is on the disk.",
            pending: Pending::Snapshot,
            ..Command::of(Group::Server)
        }),
        Run::Keyspace(bgsave).row(Command {
            name: "bgsave",
            arity: -1,
            flags: SAVE,
            keys: Keys::EVERYTHING,
            request: Request::MultiShardView,
            since: "1.0.0",
            syntax: "[SCHEDULE]",
            arguments: arguments![token("schedule", "SCHEDULE").since("3.2.2").optional()],
            complexity: "O(1), and in slices O(N), N = bytes of all keys",
            summary: "Writes a snapshot of all databases to `dbfilename` while commands run.",
            pending: Pending::Snapshot,
            ..Command::of(Group::Server)
        }),
    ]
}

/// SAVE: O(N), N = bytes of all keys
pub fn save<S: Store>(keyspace: &mut Keyspace<S>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let saves = Arc::clone(&services(keyspace).saves);
    saves.save(keyspace).map_err(refusal)?;
    reply.ok();
    Ok(())
}

/// BGSAVE [SCHEDULE]: O(1), and then O(N), N = bytes of all keys, in slices. In a transaction it waits for the end of
/// the transaction.
pub fn bgsave<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let may_wait = args.len() == 2 && args.is(1, "SCHEDULE");
    if args.len() > 1 && !may_wait {
        return Err(CommandError::Syntax);
    }
    let saves = Arc::clone(&services(keyspace).saves);
    if keyspace.turn.caller.is_in_exec {
        if saves.is_saving() {
            return Err(refusal(NotSaved::Busy));
        }
        return schedule(&saves, reply);
    }
    match saves.save_in_background(keyspace) {
        Err(NotSaved::InTheWay) if may_wait => schedule(&saves, reply),
        saved => {
            saved.map_err(refusal)?;
            reply.simple("Background saving started");
            Ok(())
        }
    }
}

fn schedule(saves: &Saves, reply: &mut Reply<'_>) -> Outcome {
    saves.schedule();
    reply.simple("Background saving scheduled");
    Ok(())
}

fn refusal(reason: NotSaved) -> CommandError {
    CommandError::Text(match reason {
        NotSaved::Busy => "ERR Background save already in progress",
        NotSaved::InTheWay => {
            "ERR Another child process is active (AOF?): can't BGSAVE right now. Use BGSAVE SCHEDULE in order to \
             schedule a BGSAVE whenever possible."
        }
        NotSaved::Failed => "ERR",
    })
}

/// LASTSAVE: O(1)
pub fn lastsave(services: &Services, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.integer(services.saves.last_save_s() as i64);
    Ok(())
}
