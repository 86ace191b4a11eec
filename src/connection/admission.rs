//! Which requests run, and which are refused: in the words of Redis, and in the order of its checks.

use super::local::{ConnectionState, Multi};
use crate::base::routing::slot_of;
use crate::commands::{self, Command, CommandId, Flags};
use crate::config::Directive;
use crate::connection::permissions::{must_be_permitted, note_denial};
use crate::engine::Session;
use crate::keyspace::{Class, Instance};
use crate::resp::{Args, CommandError, quoted};
use crate::scripting::Scripting;
use crate::state::Server;
use crate::state::client_list::Client;
use crate::state::pause::KeysOfDatabases;

/// Whether a request is the first line of an HTTP request, or its second: a browser was tricked into sending it, and
/// its body must not be run.
#[cold]
pub(super) fn is_http(args: Args<'_>) -> bool {
    args.is(0, "POST") || args.is(0, "Host:")
}

pub(super) fn warn_of_attack(client: &Client) {
    tracing::warn!(
        "Possible SECURITY ATTACK detected. It looks like somebody is sending POST or Host: commands to Shardrace. This \
         is likely due to an attacker attempting to use Cross Protocol Scripting to compromise your Shardrace instance. \
         Connection from {} aborted.",
        client.address
    );
}

/// The command of a request, if it exists, has its arguments, and may run now. `named` is the command of its name.
pub(super) fn accepted<S: Session>(
    named: Option<CommandId>,
    args: Args<'_>,
    state: &ConnectionState,
    server: &Server,
    client: &Client,
    session: &mut S,
) -> Result<(CommandId, &'static Command), CommandError> {
    let id = commands::running(named, args)?.ok_or_else(|| unknown_command(args))?;
    let command = commands::command(id);
    if !command.accepts(args.len()) {
        return Err(CommandError::Arity(command.name.to_owned()));
    }
    if command.flags.has(Flags::PROTECTED) {
        must_be_allowed_to_debug(server, client)?;
    }
    if !state.is_authenticated && !command.flags.has(Flags::NO_AUTH) && !needs_no_password(server) {
        return Err(CommandError::Text("NOAUTH Authentication required."));
    }
    if !state.login.user().is_unrestricted() {
        must_be_permitted(id, args, state)?;
    }
    if state.is_subscriber_mode() && !command.flags.has(Flags::SUBSCRIBED) {
        return Err(not_for_subscribers(id, args));
    }
    if S::IS_LOADING && !runs_while_loading(id, args) {
        return Err(CommandError::Text("LOADING Redis is loading the dataset in memory"));
    }
    // Scripts and messages may go to replicas.
    let concerns_data = Flags::READONLY.and(Flags::SCRIPT).and(Flags::PUBLISHES);
    if state.is_monitor() && (command.is_write() || command.flags.has_any(concerns_data)) {
        return Err(CommandError::Text("ERR Replica can't interact with the keyspace"));
    }
    if !server.instance.pressure.is_free() {
        must_find_room(server, (id, command), args, state, session)?;
    }
    if server.log_control.may_refuse() {
        must_not_wait_for_script(server, command, args)?;
        must_be_of_one_slot(server, command, args, state)?;
        must_be_writable(server, command, state)?;
        must_suit_replica(server, id, args, state)?;
    }
    // Inside MULTI such a request is queued, and replies with its error when it runs.
    if state.multi.is_none() && !command.keys.have_values(args) {
        return Err(CommandError::Arity(command.name.to_owned()));
    }
    Ok((id, command))
}

/// Whether a request runs at once: nothing that [`accepted`] checks refuses it, and nothing after that delays it. This
/// holds for nearly all requests, and takes as few checks as possible.
#[inline]
pub(super) fn is_ordinary<S: Session>(
    command: &Command,
    args: Args<'_>,
    state: &ConnectionState,
    server: &Server,
) -> bool {
    !S::IS_LOADING
        && command.is_ordinary
        && command.accepts(args.len())
        && state.is_ordinary()
        && server.instance.pressure.is_free()
        && !server.log_control.may_refuse()
        && !server.pause.may_hold()
        && server.pubsub.notified() == Class::NONE
        && !server.pubsub.has_monitors()
}

/// Refuses keys of several slots, as a cluster does.
#[cold]
fn must_be_of_one_slot(
    server: &Server,
    command: &Command,
    args: Args<'_>,
    state: &ConnectionState,
) -> Result<(), CommandError> {
    if !server.refuses_cross_slot() {
        return Ok(());
    }
    let (mut first, mut is_crossing) = (None, false);
    let mut visit = |key: &[u8]| {
        let slot = slot_of(key);
        is_crossing |= *first.get_or_insert(slot) != slot;
    };
    match &state.multi {
        Some(multi) if command.flags.has(Flags::RUNS_QUEUED) => {
            multi.transaction.for_each_key(&server.instance, |_, key| visit(key))
        }
        _ => command.keys.positions(args).for_each(|position| visit(&args[position])),
    }
    if is_crossing { Err(CommandError::Text(CROSS_SLOT)) } else { Ok(()) }
}

const CROSS_SLOT: &str = "CROSSSLOT Keys in request don't hash to the same slot";

/// Refuses commands that may write if the last snapshot, or the log, could not be written.
#[cold]
fn must_be_writable(server: &Server, command: &Command, state: &ConnectionState) -> Result<(), CommandError> {
    let is_refused =
        writes(command, state) || (command.flags.has(Flags::FAILS_UNSAVED) && server.log_control.has_failed_snapshot());
    server.refuses_writes().filter(|_| is_refused).map_or(Ok(()), Err)
}

/// Refuses commands that clients of a replica may not run.
#[cold]
fn must_suit_replica(
    server: &Server,
    id: CommandId,
    args: Args<'_>,
    state: &ConnectionState,
) -> Result<(), CommandError> {
    if !server.is_replica() {
        return Ok(());
    }
    let ends = |has: &dyn Fn(CommandId, Args<'_>) -> bool| {
        let queued = state.multi.iter().filter(|_| commands::command(id).flags.has(Flags::RUNS_QUEUED));
        queued.flat_map(|multi| multi.transaction.commands()).any(|(id, args)| has(id, args))
    };
    let scripting = &server.services.scripting;
    // A script without declared flags is refused when it writes, or when it begins to run on data that may be old.
    let writes = |id: CommandId, args: Args<'_>| {
        named(id, args).flags.has(Flags::WRITE) || commands::scripting::declares_that_it_writes(scripting, id, args)
    };
    let shows_data = |id: CommandId, args: Args<'_>| {
        !named(id, args).flags.has(Flags::STALE)
            || commands::scripting::declares_that_it_runs_fresh(scripting, id, args)
    };
    let is_write = || writes(id, args) || ends(&writes);
    if let Some(refusal) = server.refuses_to_be_written().filter(|_| is_write()) {
        return Err(refusal);
    }
    let Some(refusal) = server.refuses_as_stale() else { return Ok(()) };
    if shows_data(id, args) || ends(&shows_data) { Err(refusal) } else { Ok(()) }
}

/// The row of what a request names, which may be a subcommand; an invalid one replies with its own error.
fn named(id: CommandId, args: Args<'_>) -> &'static Command {
    commands::command(commands::subcommand(id, args).unwrap_or(id))
}

/// While a script runs for too long, only commands that need no data are accepted.
#[cold]
fn must_not_wait_for_script(server: &Server, command: &Command, args: Args<'_>) -> Result<(), CommandError> {
    let is_allowed = command.flags.has(Flags::ALLOW_BUSY) && (command.suits_busy_script)(args);
    let busy = &server.services.scripting.busy;
    if is_allowed || !busy.is_busy() { Ok(()) } else { Err(CommandError::Text(busy.busy_reply())) }
}

/// Whether a command runs while the data is loaded; an invalid one replies with its own error.
fn runs_while_loading(id: CommandId, args: Args<'_>) -> bool {
    commands::subcommand(id, args).map_or(true, |id| commands::command(id).flags.has(Flags::LOADING))
}

fn not_for_subscribers(id: CommandId, args: Args<'_>) -> CommandError {
    match commands::subcommand(id, args) {
        Err(error) => error,
        Ok(id) => CommandError::Owned(format!(
            "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this \
             context",
            commands::command(id).name
        )),
    }
}

/// Whether a command is a write command, or ends a transaction with one. PFCOUNT is none, and a script is refused when
/// it writes.
fn writes(command: &Command, state: &ConnectionState) -> bool {
    let is_such = |command: &Command| command.flags.has(Flags::WRITE);
    let mut queued = state.multi.iter().flat_map(|multi| multi.transaction.commands());
    is_such(command) || (command.flags.has(Flags::RUNS_QUEUED) && queued.any(|(id, _)| is_such(commands::command(id))))
}

/// Whether a command, or one of the transaction that it ends, may change data. Scripts may declare that they write
/// nothing.
pub(super) fn may_change(scripting: &Scripting, id: CommandId, args: Args<'_>, state: &ConnectionState) -> bool {
    let may_one = |id, args| {
        commands::command(id).is_write() && !commands::scripting::declares_that_it_writes_nothing(scripting, id, args)
    };
    match &state.multi {
        Some(multi) if commands::command(id).flags.has(Flags::RUNS_QUEUED) => {
            multi.transaction.commands().any(|(id, args)| may_one(id, args))
        }
        _ => may_one(id, args),
    }
}

/// Whether a command, or one of the transaction that it ends, may change one of these keys.
pub(super) fn may_change_one_of(
    held: &KeysOfDatabases,
    (id, args): (CommandId, Args<'_>),
    state: &ConnectionState,
    instance: &Instance,
) -> bool {
    let may_one = |(id, args): (CommandId, Args<'_>), database: Option<u16>| {
        let command = commands::command(id);
        let database = database.filter(|_| !command.flags.has(Flags::CROSSES));
        let is_held = |key| held.get(key).is_some_and(|&held| database.is_none_or(|database| database == held));
        let names_one = || command.keys.positions(args).any(|position| is_held(&args[position]));
        command.is_write() && (command.needs_all(args, instance) || names_one())
    };
    match &state.multi {
        // SELECT may be among them.
        Some(multi) if commands::command(id).flags.has(Flags::RUNS_QUEUED) => {
            multi.transaction.commands().any(|queued| may_one(queued, None))
        }
        Some(_) => false,
        None => may_one((id, args), Some(state.context.database)),
    }
}

/// Whether a command, or one of the transaction that it ends, sends messages. Redis treats that almost as a change,
/// because it sends them to its replicas, too.
pub(super) fn may_publish(id: CommandId, state: &ConnectionState) -> bool {
    let ends_such = |multi: &Multi| multi.transaction.commands().any(|(id, _)| commands::publishes(id));
    commands::publishes(id)
        || (commands::command(id).flags.has(Flags::RUNS_QUEUED) && state.multi.as_ref().is_some_and(ends_such))
}

/// Whether connections need not log in.
#[cold]
pub(super) fn needs_no_password(server: &Server) -> bool {
    server.users.is_open()
}

/// Refuses commands that need memory if there is none, and none can be freed.
#[cold]
fn must_find_room<S: Session>(
    server: &Server,
    (id, command): (CommandId, &Command),
    args: Args<'_>,
    state: &ConnectionState,
    session: &mut S,
) -> Result<(), CommandError> {
    let is_queued = is_queued_to_use_memory(id, args, state);
    let runs_script = command.flags.has(Flags::SCRIPT) && state.multi.is_none();
    let ends_with_script = command.flags.has(Flags::RUNS_QUEUED) && has_script(state);
    // A busy script has the keys that would be evicted: their locks would block the thread. The refusal
    // comes later.
    let is_busy = server.services.scripting.busy.is_busy();
    let may_need_memory = may_need_memory(command, state)
        || (runs_script && commands::scripting::declares_that_it_needs_memory(&server.services.scripting, id, args));
    if is_busy || !(is_queued || runs_script || ends_with_script || may_need_memory) {
        return Ok(());
    }
    let has_room = server.finds_room(args.byte_len(), || session.make_room(args.byte_len()));
    if runs_script || ends_with_script {
        // It may need no memory, and finds out when it first needs some.
        server.services.note_memory(!has_room);
    }
    if !has_room && (is_queued || may_need_memory) {
        return Err(CommandError::Text("OOM command not allowed when used memory > 'maxmemory'."));
    }
    Ok(())
}

/// Whether a script is queued.
fn has_script(state: &ConnectionState) -> bool {
    let mut queued = state.multi.iter().flat_map(|multi| multi.transaction.commands());
    queued.any(|(id, _)| commands::command(id).flags.has(Flags::SCRIPT))
}

/// Whether a command comes after MULTI and does not end the transaction: a queue takes memory, whatever is in it. MULTI
/// and WATCH are refused like what is queued, as by Redis; an invalid command gets its own error.
fn is_queued_to_use_memory(id: CommandId, args: Args<'_>, state: &ConnectionState) -> bool {
    let is_valid = || commands::subcommand(id, args).is_ok_and(|id| !commands::command(id).flags.has(Flags::NO_MULTI));
    state.multi.is_some() && !commands::command(id).flags.has(Flags::ENDS_QUEUE) && is_valid()
}

/// Whether a command, or one of the transaction that it ends, may need memory.
fn may_need_memory(command: &Command, state: &ConnectionState) -> bool {
    let ends_such = || state.multi.as_ref().is_some_and(|multi| multi.transaction.needs_memory());
    command.flags.has(Flags::DENYOOM) || (command.flags.has(Flags::RUNS_QUEUED) && ends_such())
}

#[cold]
fn must_be_allowed_to_debug(server: &Server, client: &Client) -> Result<(), CommandError> {
    const TEXT: &str = "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can \
                        run it from a local connection, otherwise you need to set this option in the configuration \
                        file, and then restart the server.";
    if server.allows(Directive::EnableDebugCommand, client) { Ok(()) } else { Err(CommandError::Text(TEXT)) }
}

/// The effect of a refusal on a transaction, and its reply: if EXEC itself is refused, the transaction is gone.
pub(super) fn refused(
    server: &Server,
    error: CommandError,
    named: Option<CommandId>,
    args: Args<'_>,
    client: &Client,
    state: &mut ConnectionState,
) -> CommandError {
    let calls = &server.instance.calls;
    match commands::named_in_full(named, args) {
        Some(id) if lacks_value(id, args, &error) => calls.note_run(id.0, 0, true, true),
        Some(id) => calls.note_rejected(id.0),
        None => {}
    }
    note_denial(named, args, &error, state, client, server);
    let error = unqueued(error, args, client, state);
    server.instance.calls.note_error(&error);
    error
}

/// Whether a request is refused because a key has no value. Redis finds that when the command runs: it was called, and
/// monitors see it.
pub(super) fn lacks_value(id: CommandId, args: Args<'_>, error: &CommandError) -> bool {
    matches!(error, CommandError::Arity(_)) && commands::command(id).accepts(args.len())
}

fn unqueued(error: CommandError, args: Args<'_>, client: &Client, state: &mut ConnectionState) -> CommandError {
    if args.is(0, "EXEC") {
        (state.multi, state.watched) = (None, None);
        client.note_no_transaction();
        if matches!(error, CommandError::Text(CROSS_SLOT)) {
            return error;
        }
        let text = error.to_string();
        let reason = text.strip_prefix("ERR ").unwrap_or(&text);
        return CommandError::Owned(format!("EXECABORT Transaction discarded because of: {reason}"));
    }
    if let Some(multi) = &mut state.multi {
        multi.refuse();
    }
    error
}

fn unknown_command(args: Args<'_>) -> CommandError {
    const QUOTED_MAX: usize = 128;
    let (mut beginning, mut len) = (String::new(), 0);
    for argument in args.from(1).iter() {
        if len >= QUOTED_MAX {
            break;
        }
        let quoted = format!("'{}' ", quoted(argument, QUOTED_MAX - len));
        len += quoted.chars().count();
        beginning.push_str(&quoted);
    }
    let name = quoted(&args[0], QUOTED_MAX);
    CommandError::Owned(format!("ERR unknown command '{name}', with args beginning with: {beginning}"))
}
