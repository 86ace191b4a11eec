//! The commands: one row in the table and one function each, for all engines.
//!
//! A command is a synchronous function over a [`Keyspace`], generic over where the nodes live. Its row says everything
//! else: arity, flags, which arguments are keys, how it spreads over shards and how the parts' replies become one.
//! Routing, `COMMAND`, the arity errors and docs/COMMANDS.md are read from the rows.

mod arguments;
mod error;
pub mod expiry;
mod float;
pub mod glob;
mod hashes;
pub mod introspection;
mod keys;
mod lists;
mod lookup;
mod row;
mod scan;
mod server;
mod sets;
mod strings;
mod table;

pub use error::{CommandError, Outcome};
pub use lookup::{find, find_subcommand};
pub use row::{Command, Flags, Group, Keys, Request, Response};
pub use scan::Cursor;
pub use server::{ConnectionState, LocalCall, LocalFn, dispatch_local};
pub use table::{COMMANDS, CommandFn, CommandId, Functions, command};

use crate::keyspace::{Keyspace, Store};
use crate::resp::{Args, Reply};

/// Runs one command over the keyspace: writes its one reply, and tells the log what it changed.
pub fn execute<S: Store>(id: CommandId, keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) {
    let dirty = keyspace.dirty();
    if let Err(error) = Functions::<S>::get(id)(keyspace, args, reply) {
        reply.error(error);
    }
    let changes = keyspace.dirty() - dirty;
    keyspace.effects().end_command(changes, args);
}
