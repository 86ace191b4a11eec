//! The commands: one row in the table and one function each, for all engines.
//!
//! A command is a synchronous function over a [`Keyspace`], generic over where the nodes are stored. Its row has
//! everything else: arity, flags, which arguments are keys, how it spreads over shards and how the replies of its parts
//! are joined. Routing, `COMMAND`, the arity errors and docs/COMMANDS.md use the rows.

mod access;
pub(crate) mod arguments;
mod bitfield;
mod bits;
pub mod blocking;
pub(crate) mod cluster;
pub mod debug;
mod digest;
mod documentation;
pub(crate) mod double;
pub mod expiry;
mod flag_sets;
mod float;
pub mod foreign;
pub mod functions;
mod geo;
pub(crate) mod greeting;
mod hashes;
mod hyperloglog;
pub mod introspection;
pub(crate) mod keys;
mod lcs;
mod list_edits;
mod lists;
mod lookup;
mod memory;
mod modules;
mod object;
mod of_connection;
mod random;
mod renaming;
mod row;
mod saving;
mod scan;
pub mod scripting;
mod services;
mod sets;
mod sort;
mod sorted_sets;
mod streams;
mod strings;
mod table;
mod text;
mod transaction;
mod transfer;

pub use introspection::{CATEGORIES, is_category, is_in_category, keys_used};
pub use lookup::{find, find_of, find_row, named_in_full, running, subcommand};
pub use renaming::Names;
#[cfg(test)]
pub use row::Group;
use row::OtherDatabase;
pub use row::{Channels, Command, Flags, InStream, Pending, Request, Response, Subcommands};
pub use scan::{joined as joined_pages, pages};
pub use services::{Services, services};
pub use table::{COMMANDS, COUNT, CommandId, Functions, command, plain_function};
pub use transaction::{Bounds, Ending, Replacement, Transaction, Watched};
pub use transfer::MigrateRequest;

use crate::keyspace::{Instance, Keyspace, Store};
use crate::resp::{Args, CommandError, Reply, parse_i64};
use crate::stats::slow_log::Slow;
use blocking::serve_ready;

/// The slow log entry of a command.
pub fn slow(id: CommandId, args: Args<'_>, ticks: u64) -> Slow {
    let row = command(id);
    let (is_fast, is_skipped) = (row.flags.has(Flags::FAST), row.flags.has(Flags::SKIP_SLOWLOG));
    let mut slow = Slow::new(args, ticks, is_fast, is_skipped, |position| (row.is_secret)(args, position));
    slow.has_own_keys = row.request == Request::MultiShard;
    slow
}

/// Whether a command sends a message to a channel.
pub fn publishes(id: CommandId) -> bool {
    command(id).flags.has(Flags::PUBLISHES)
}

/// A command writes its reply, or returns an error before it has written any.
pub type Outcome = Result<(), CommandError>;

/// The state of its connection that a command depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Context {
    /// Whether the connection speaks RESP3.
    pub resp3: bool,
    /// Whether its commands do not count as uses of their keys: CLIENT NO-TOUCH.
    pub no_touch: bool,
    /// The database that it has selected.
    pub database: u16,
}

/// The databases that a command may concern besides the selected one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crossing {
    /// None.
    Nowhere,
    /// This one.
    To(usize),
    /// Any.
    Everywhere,
}

/// Which other databases a command may concern. An invalid number is none: the command replies with the error.
pub fn crossing(id: CommandId, args: Args<'_>, databases: usize, instance: &Instance) -> Crossing {
    let row = command(id);
    if !row.flags.has(Flags::CROSSES) || (row.touches_named_keys_only)(args, instance) {
        return Crossing::Nowhere;
    }
    let position = match row.other_database {
        OtherDatabase::At(position) => Some(position),
        OtherDatabase::OfOption => database_of_option(args),
        OtherDatabase::Unnamed | OtherDatabase::Both => return Crossing::Everywhere,
    };
    let number = position
        .and_then(|position| args.get(position))
        .and_then(parse_i64)
        .and_then(|number| keys::parse_database(number, databases).ok());
    number.map_or(Crossing::Nowhere, Crossing::To)
}

/// The highest number of a database in a request, if it has one.
pub fn highest_database(id: CommandId, args: Args<'_>) -> Option<usize> {
    let number =
        |position: usize| args.get(position).and_then(parse_i64).and_then(|number| usize::try_from(number).ok());
    match command(id).other_database {
        OtherDatabase::At(position) => number(position),
        OtherDatabase::OfOption => database_of_option(args).and_then(number),
        OtherDatabase::Both => number(1).max(number(2)),
        OtherDatabase::Unnamed => None,
    }
}

/// The position of the number after the last DB.
fn database_of_option(args: Args<'_>) -> Option<usize> {
    (3..args.len()).rfind(|&position| args.is(position, "DB")).map(|position| position + 1)
}

/// Why clients of a replica may not write.
pub const READONLY: &str = "READONLY You can't write against a read only replica.";

/// Runs one command over the keyspace: writes its one reply, logs its changes, and serves their waiters.
pub fn execute<S: Store>(id: CommandId, keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) {
    execute_part(id, keyspace, args, reply, true);
}

/// Refuses a write that was accepted when this server was still a master: it would be in no stream.
#[cold]
fn refuse_late<S: Store>(id: CommandId, keyspace: &mut Keyspace<S>, reply: &mut Reply<'_>, counts: bool) {
    let error = CommandError::Text(READONLY);
    if counts {
        let calls = &keyspace.instance().calls;
        calls.note_rejected(id.0);
        calls.note_error(&error);
    }
    keyspace.effects.end_refused();
    reply.error(error);
}

/// Like [`execute`]; if the parts of a command run on several shards, one of them `counts` as a call. All parts have
/// the same rule for due keys (`Turn::due_keys`), so that all of them are refused, or none.
pub fn execute_part<S: Store>(
    id: CommandId,
    keyspace: &mut Keyspace<S>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    counts: bool,
) {
    if keyspace.turn.due_keys.only_master_writes() && command(id).flags.has(Flags::WRITE) {
        return refuse_late(id, keyspace, reply, counts);
    }
    let has_replied = run_one(id, keyspace, args, reply, counts);
    debug_assert!(has_replied, "a command waits only in a transaction of its own");
    if !keyspace.ready.is_empty() {
        serve_ready(keyspace);
    }
}

/// Records what a command has read, for a connection with CLIENT TRACKING: the keys of a read-only command, whether or
/// not they exist. A script only calls commands that read.
#[cold]
fn note_tracked_reads<S: Store>(id: CommandId, keyspace: &mut Keyspace<S>, args: Args<'_>) {
    let row = command(subcommand(id, args).unwrap_or(id));
    if row.flags.has(Flags::READONLY)
        && !row.flags.has_any(Flags::SCRIPT.and(Flags::NOT_KEYS))
        && !keyspace.saw_expired()
    {
        let reader = keyspace.turn.caller.tracking.number();
        row.keys.positions(args).for_each(|position| keyspace.notices.push_read(reader, &args[position]));
    }
}

/// Runs one command; false if it wrote no reply because its connection waits now.
fn run_one<S: Store>(
    id: CommandId,
    keyspace: &mut Keyspace<S>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    counts: bool,
) -> bool {
    let changes_before = keyspace.stats.changes;
    let outcome = Functions::<S>::get(id)(keyspace, args, reply);
    let waits = outcome == Err(CommandError::Waits);
    let has_failed = outcome.is_err();
    if let Err(error) = outcome
        && !waits
    {
        // A command that met an expired key which it may not remove runs once more. What one part refuses, all do.
        if counts && !keyspace.saw_expired() {
            keyspace.instance().calls.note_error(&error);
        }
        reply.error(error);
    }
    let changes = keyspace.stats.changes - changes_before;
    keyspace.effects.end_command(changes, args);
    if keyspace.turn.caller.tracking.remembers_reads() {
        note_tracked_reads(id, keyspace, args);
    }
    if !waits && !keyspace.turn.is_replaying() && !keyspace.saw_expired() {
        note_run(id, keyspace, args, counts, has_failed);
    }
    !waits
}

/// Records that a command has run, and how long it took. Inlined: as a call it cost a GET at pipeline 16 some 1.6 %
/// more instructions.
#[inline(always)]
fn note_run<S: Store>(id: CommandId, keyspace: &mut Keyspace<S>, args: Args<'_>, counts: bool, has_failed: bool) {
    let ticks = keyspace.timing.end();
    let calls = &keyspace.instance().calls;
    calls.note_run(id.0, ticks, counts, counts && has_failed);
    if calls.is_slow(ticks) {
        keyspace.timing.note_slow(slow(id, args, ticks));
    }
}
