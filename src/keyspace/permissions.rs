//! What the user of a connection may do, for commands that know only when they run which commands they call, or which
//! keys they read.

use crate::resp::Args;
use std::fmt::Debug;

/// What a user may do. Commands are named by the numbers of their rows: those of subcommands, if there are such.
pub trait Permissions: Debug + Send + Sync {
    /// Why a command of EXEC may not run any more, as the text of its reply. It is recorded as denied.
    fn refuses_queued(&self, command: u16, args: Args<'_>) -> Option<String>;
    /// Why a command that a script calls may not run. It is recorded as denied.
    fn refuses_called(&self, command: u16, args: Args<'_>) -> Option<String>;
    /// Whether a command may run.
    fn permit(&self, command: u16, args: Args<'_>) -> bool;
    /// Whether a command may run and read keys that it does not name.
    fn permit_all_keys(&self, command: u16, args: Args<'_>) -> bool;
}
