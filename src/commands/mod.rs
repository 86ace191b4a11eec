//! The commands: one row in the table and one function each, for all engines.
//!
//! A command is a synchronous function over a [`Keyspace`], generic over where the nodes live. Its row says everything
//! else: arity, flags, which arguments are keys, how it spreads over shards and how the parts' replies become one.
//! Routing, `COMMAND`, the arity errors and docs/COMMANDS.md are read from the rows.

mod arguments;
pub mod blocking;
mod error;
pub mod expiry;
mod float;
pub mod glob;
mod hashes;
pub mod introspection;
mod keys;
mod lists;
mod lookup;
mod pubsub;
mod row;
mod scan;
mod server;
mod sets;
mod strings;
mod table;
mod transaction;

pub use error::{CommandError, Outcome};
pub use lookup::{find, find_subcommand};
pub use row::{Command, Flags, Group, Keys, Request, Response};
pub use scan::Cursor;
pub use server::{ConnectionState, LocalCall, LocalFn, Multi, Watched, dispatch_local, subcommand};
pub use table::{COMMANDS, CommandFn, CommandId, Functions, command};
pub use transaction::{Ending, Transaction};

use crate::keyspace::{Keyspace, Store};
use crate::resp::{Args, Reply};
use blocking::serve_ready;

/// Runs one command over the keyspace: writes its one reply, tells the log what it changed, and serves those who waited
/// for that.
pub fn execute<S: Store>(id: CommandId, keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) {
    let has_replied = run_one(id, keyspace, args, reply);
    debug_assert!(has_replied, "a command waits only in a transaction of its own");
    if keyspace.has_ready() {
        serve_ready(keyspace);
    }
}

/// Runs one command; false when it wrote no reply because its connection waits now.
fn run_one<S: Store>(id: CommandId, keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> bool {
    let dirty = keyspace.dirty();
    let outcome = Functions::<S>::get(id)(keyspace, args, reply);
    let waits = outcome == Err(CommandError::Waits);
    if let Err(error) = outcome
        && !waits
    {
        reply.error(error);
    }
    let changes = keyspace.dirty() - dirty;
    keyspace.effects().end_command(changes, args);
    !waits
}
