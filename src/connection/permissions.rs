//! What the user of a connection may do: its login, the check of a request, and what EXEC, scripts and SORT ask.

use super::local::ConnectionState;
use crate::acl::{Account, Denial, Entry, Place, Reason, User, Users};
use crate::base::clock::{Clock, uptime_ms};
use crate::commands::{self, CommandId};
use crate::keyspace::Permissions;
use crate::resp::{Args, CommandError};
use crate::state::Server;
use crate::state::client_list::Client;
use std::sync::Arc;

/// The beginning of the error of a request that its user may not make.
pub const DENIED: &str = "NOPERM ";

/// The account of a connection, and the user that it was when the connection last looked.
#[derive(Debug)]
pub struct Login {
    account: Arc<Account>,
    user: Arc<User>,
    /// The version of all users at that time.
    version: u64,
}

impl Login {
    /// A login to an account.
    pub fn new(account: Arc<Account>, users: &Users) -> Self {
        // A change after this changes the version again.
        let version = users.version();
        Self { user: account.user(), account, version }
    }

    /// The account.
    pub fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// The user.
    pub fn user(&self) -> &User {
        &self.user
    }

    /// Whether no user has changed since.
    #[inline]
    pub fn is_current(&self, users: &Users) -> bool {
        self.version == users.version()
    }

    /// Whether a request may run. An invalid subcommand has its own error.
    fn check(&self, id: CommandId, args: Args<'_>) -> Result<(), (CommandId, Denial)> {
        match commands::subcommand(id, args) {
            Ok(id) if !self.user.is_unrestricted() => self.user.check(id, args).map_err(|denial| (id, denial)),
            _ => Ok(()),
        }
    }

    /// Whether a request may run.
    pub fn permits(&self, id: CommandId, args: Args<'_>) -> bool {
        self.check(id, args).is_ok()
    }
}

/// Refuses what the user of a connection may not do.
#[cold]
pub fn must_be_permitted(id: CommandId, args: Args<'_>, state: &ConnectionState) -> Result<(), CommandError> {
    state.login.check(id, args).map_err(|(id, denial)| {
        CommandError::Owned(format!("{DENIED}{}", reason(&state.login.account.name, id, denial)))
    })
}

/// Records that a request was refused, if its user may not do that.
#[cold]
pub fn note_denial(
    named: Option<CommandId>,
    args: Args<'_>,
    error: &CommandError,
    state: &ConnectionState,
    client: &Client,
    server: &Server,
) {
    // Other refusals come before, or do not depend on the user.
    let is_denial = matches!(error, CommandError::Owned(text) if text.starts_with(DENIED));
    if let Some(Err((id, denial))) = named.filter(|_| is_denial).map(|id| state.login.check(id, args)) {
        let place = if state.multi.is_some() { Place::Multi } else { Place::Toplevel };
        let entry = entry(&state.login.account, client, (id, args, denial), place, server.clock.now_ms());
        server.users.denials.note(entry);
    }
}

/// Records a login that was denied.
#[cold]
pub fn note_wrong_password(name: &[u8], args: Args<'_>, place: Place, client: &Client, server: &Server) {
    let client = client.describe(uptime_ms(), None);
    server.users.denials.note(Entry::new(Reason::Auth, place, &args[0], name, client, server.clock.now_ms()));
}

fn entry(
    account: &Account,
    client: &Client,
    (id, args, denial): (CommandId, Args<'_>, Denial),
    place: Place,
    now_ms: u64,
) -> Entry {
    let (reason, object) = match denial {
        Denial::Command => (Reason::Command, commands::command(id).name.as_bytes()),
        Denial::Key(position) => (Reason::Key, &args[position]),
        Denial::Channel(position) => (Reason::Channel, &args[position]),
    };
    Entry::new(reason, place, object, &account.name, client.describe(uptime_ms(), None), now_ms)
}

/// Why a request is denied, without its arguments.
fn reason(user: &[u8], id: CommandId, denial: Denial) -> String {
    match denial {
        Denial::Command => {
            let (user, command) = (String::from_utf8_lossy(user), commands::command(id).name);
            format!("User {user} has no permissions to run the '{command}' command")
        }
        Denial::Key(_) => "No permissions to access a key".into(),
        Denial::Channel(_) => "No permissions to access a channel".into(),
    }
}

/// Why the request of a client that waits may not be served: its user has changed. The text of its reply.
pub fn refuses_waiting(client: &Client, user: &User) -> Option<String> {
    if user.is_unrestricted() {
        return None;
    }
    let waiting = client.waiting_request.lock();
    let (id, args) = waiting.as_ref()?.command();
    let denial = user.check(id, args).err()?;
    Some(format!("{DENIED}{}", reason(&client.account().name, id, denial)))
}

/// Why a request is denied, with the key or channel.
pub fn describe(user: &[u8], id: CommandId, args: Args<'_>, denial: Denial) -> Vec<u8> {
    let (position, kind) = match denial {
        Denial::Command => return reason(user, id, denial).into_bytes(),
        Denial::Key(position) => (position, &b"key"[..]),
        Denial::Channel(position) => (position, &b"channel"[..]),
    };
    [b"User ", user, b" has no permissions to access the '", &args[position], b"' ", kind].concat()
}

/// What the user of a connection may do, for commands that ask when they run; none if that is everything.
pub fn of_connection(server: &Server, client: &Arc<Client>, state: &ConnectionState) -> Option<Arc<dyn Permissions>> {
    let Login { account, user, .. } = &state.login;
    let guard = || Guard {
        users: Arc::clone(&server.users),
        clock: server.clock.clone(),
        account: Arc::clone(account),
        user: Arc::clone(user),
        client: Arc::clone(client),
    };
    (!user.is_unrestricted()).then(|| Arc::new(guard()) as Arc<dyn Permissions>)
}

/// A user with limits.
#[derive(Debug)]
struct Guard {
    users: Arc<Users>,
    clock: Clock,
    account: Arc<Account>,
    user: Arc<User>,
    client: Arc<Client>,
}

impl Guard {
    /// Why a command is denied, after recording that.
    fn denial(&self, command: u16, args: Args<'_>, place: Place) -> Option<Denial> {
        let id = CommandId(command);
        let denial = self.user.check(id, args).err()?;
        self.users.denials.note(entry(&self.account, &self.client, (id, args, denial), place, self.clock.now_ms()));
        Some(denial)
    }
}

impl Permissions for Guard {
    fn refuses_queued(&self, command: u16, args: Args<'_>) -> Option<String> {
        let reason = match self.denial(command, args, Place::Multi)? {
            Denial::Command => "no permission to execute the command or subcommand",
            Denial::Key(_) => "no permission to touch the specified keys",
            Denial::Channel(_) => "no permission to access one of the channels used as arguments",
        };
        Some(format!(
            "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This \
             command is no longer allowed for the following reason: {reason}"
        ))
    }

    fn refuses_called(&self, command: u16, args: Args<'_>) -> Option<String> {
        self.denial(command, args, Place::Lua).map(|denial| reason(&self.account.name, CommandId(command), denial))
    }

    fn permit(&self, command: u16, args: Args<'_>) -> bool {
        self.user.check(CommandId(command), args).is_ok()
    }

    fn permit_all_keys(&self, command: u16, args: Args<'_>) -> bool {
        self.user.reads_all_keys(CommandId(command), args)
    }
}
