//! A transaction: commands that run as one, over all of their keys.
//!
//! EXEC hands one to the engine, which runs it over a keyspace as wide as its keys. A single command that needs more of
//! its connection than its arguments (WATCH, BLPOP) is a transaction of one.

use super::access;
use super::blocking::serve_ready;
use super::flag_sets::AT_ONCE;

use super::row::{Command, Flags, Group, Keys, Pending, PlainFn, Request, Row, Run};
use super::scripting::keeping_tasks;
use super::{
    CommandId, Context, Crossing, Outcome, command, crossing, note_run, plain_function, publishes, refuse_late,
    run_one, services, subcommand,
};
use crate::commands::documentation::arguments;
use crate::keyspace::{
    Caller, Databases, Effects, Instance, Keyspace, LogPosition, Permissions, ProcessHash, Settings, Store,
    StreamPlace, Tracking, Watch, replace_by_others,
};
use crate::resp::{Args, CommandError, FULL, Replies, Reply, Span};
use crate::scripting::Libraries;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio_util::sync::{CancellationToken, DropGuard};

/// The rows of the commands here.
pub(super) const fn rows<S: Store>() -> [Row<S>; 1] {
    [Run::Keyspace(watch).row(Command {
        name: "watch",
        arity: -2,
        flags: AT_ONCE,
        keys: Keys::ALL,
        request: Request::MultiShardView,
        since: "2.2.0",
        syntax: "key [key ...]",
        arguments: arguments![key("key", 0).repeated()],
        complexity: "O(N), N = keys",
        summary: "Lets the next transaction run only if these keys do not change.",
        access: Some(access::LOOK),
        pending: Pending::Watch,
        ..Command::of(Group::Transactions)
    })]
}

/// The state of WATCH.
#[derive(Debug, Default)]
pub struct Watched {
    /// What breaks when a key changes.
    pub watch: Arc<Watch>,
    /// The keys of each database.
    keys: BTreeMap<u16, HashSet<Box<[u8]>, ProcessHash>>,
    key_count: usize,
    key_bytes: usize,
}

impl Watched {
    /// Adds keys of a database to the watched ones.
    pub fn add<'k>(&mut self, database: u16, keys: impl Iterator<Item = &'k [u8]>) {
        let known = self.keys.entry(database).or_default();
        keys.for_each(|key| {
            if !known.contains(key) {
                known.insert(key.into());
                self.key_count += 1;
                self.key_bytes += key.len();
            }
        });
    }

    /// How many keys are watched, and their bytes.
    pub fn size(&self) -> (usize, usize) {
        (self.key_count, self.key_bytes)
    }

    fn keys(&self) -> impl Iterator<Item = (usize, &[u8])> {
        self.keys.iter().flat_map(|(database, keys)| keys.iter().map(move |key| (usize::from(*database), &**key)))
    }
}

/// WATCH key [key ...]: O(N), N = keys
pub fn watch<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    args.from(1).iter().for_each(|key| keyspace.turn.watch(&mut keyspace.store, key));
    reply.ok();
    Ok(())
}

/// The most commands of one transaction.
const COMMANDS_MAX: usize = 500_000;
/// The most bytes of their arguments.
const BYTES_MAX: usize = 256 * 1024 * 1024;
/// The same for what a master sends as one: it has run there, so only what a [`Span`] can say bounds it.
const BYTES_OF_MASTER_MAX: usize = u32::MAX as usize;

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ending {
    /// It has not run.
    #[default]
    Open,
    /// Every command ran.
    Done,
    /// A watched key had changed: nothing ran.
    Aborted,
    /// It is to write, and the server has become a replica since it was accepted: nothing ran.
    Refused,
    /// Its one command found nothing to take, and waits.
    Blocked,
}

/// The limits of a transaction.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// How many databases there are.
    pub databases: usize,
    /// The most bytes of replies: see `client-output-buffer-limit`.
    pub reply_bytes_max: usize,
}

/// One command of a transaction.
#[derive(Debug, Clone, Copy)]
struct Queued {
    id: CommandId,
    spans_end: usize,
    reply_end: usize,
    /// Whether its connection runs it when the transaction has run.
    is_left: bool,
}

/// Commands in order, and their replies once they have run. Local commands (PING, CLIENT …) keep their places and are
/// run by the connection, but for those that show what others change.
#[derive(Debug, Default)]
pub struct Transaction {
    arena: Vec<u8>,
    spans: Vec<Span>,
    commands: Vec<Queued>,
    /// The watched keys, with what breaks when one changes.
    watched: Option<Watched>,
    caller: Caller,
    context: Context,
    /// How many databases there are.
    databases: usize,
    replies: Replies,
    /// Bytes of replies above which they are dropped: see `client-output-buffer-limit`.
    reply_bytes_max: usize,
    is_over_limit: bool,
    /// Whether it may stop between two commands when its replies fill a buffer.
    is_divisible: bool,
    /// How many commands have run.
    ran: usize,
    ending: Ending,
    /// The log positions that cover what the replies show.
    pub log_positions: Vec<LogPosition>,
    /// Dropped when it is over, including the part that its connection runs: connections that it has served wait for
    /// that.
    end: Option<DropGuard>,
    /// How many connections received each message that it has sent.
    receivers: Vec<Arc<AtomicUsize>>,
    /// Replaces all data before its commands run.
    replacement: Option<Replacement>,
    /// The position of the data in the stream of a master after it has run.
    place: Option<StreamPlace>,
    /// Who runs it, if monitors are shown its commands.
    shown_as: Option<Box<str>>,
}

/// Data that replaces the current data: the snapshot of a master.
#[derive(Debug)]
pub struct Replacement {
    /// The keys.
    pub stores: Vec<Databases>,
    /// The libraries of functions.
    pub libraries: Libraries,
}

impl Transaction {
    /// A transaction of one command, with what it needs of its connection.
    pub fn of_one(id: CommandId, args: Args<'_>, context: Context, bounds: Bounds, caller: Caller) -> Self {
        let Bounds { databases, reply_bytes_max } = bounds;
        let mut transaction = Self { context, databases, reply_bytes_max, caller, ..Self::default() };
        transaction.push(id, args);
        transaction
    }

    /// Lets it stop between two commands, so that its connection can take their replies before it continues.
    pub fn divisible(self) -> Self {
        Self { is_divisible: true, ..self }
    }

    /// The commands that have not run, as a transaction of their own.
    pub fn take_rest(&mut self) -> Option<Box<Self>> {
        if self.ran >= self.commands.len() {
            return None;
        }
        let Self { context, databases, reply_bytes_max, is_divisible, .. } = *self;
        let caller = self.caller.clone();
        let mut rest = Self { context, databases, reply_bytes_max, is_divisible, caller, ..Self::default() };
        self.commands().skip(self.ran).for_each(|(id, args)| rest.push(id, args));
        Some(Box::new(rest))
    }

    /// The commands of a master, to run as one: they are added until it begins.
    pub fn of_master(context: Context, databases: usize) -> Self {
        let caller = Caller { is_master: true, ..Caller::default() };
        Self { context, databases, caller, reply_bytes_max: usize::MAX, ..Self::default() }
    }

    /// Sets what its commands tell the keyspace about CLIENT TRACKING.
    pub fn set_tracking(&mut self, tracking: Tracking) {
        self.caller.tracking = tracking;
    }

    /// Records, with its changes, the position of the data in the stream of its master after them.
    pub fn note_place(&mut self, place: StreamPlace) {
        self.place = Some(place);
    }

    /// Replaces all current data.
    pub fn of_replacement(replacement: Replacement, databases: usize) -> Self {
        Self { replacement: Some(replacement), ..Self::of_master(Context::default(), databases) }
    }

    /// The first command whose reply is an error, with that reply.
    pub fn first_error(&self) -> Option<(CommandId, Args<'_>, &[u8])> {
        let mut start = 0;
        self.reply_ends().find_map(|(id, args, end)| {
            let reply = self.replies.at(std::mem::replace(&mut start, end)..end);
            reply.starts_with(b"-").then_some((id, args, reply))
        })
    }

    /// Adds a command; false if there is no more room.
    #[must_use]
    pub fn queue(&mut self, id: CommandId, args: Args<'_>) -> bool {
        let has_room = self.has_room(args);
        if has_room {
            self.push(id, args);
        }
        has_room
    }

    /// Whether there is room for another command.
    pub fn has_room(&self, args: Args<'_>) -> bool {
        // Even empty arguments take memory.
        let bytes = self.arena.len() + args.byte_len() + (self.spans.len() + args.len()) * size_of::<Span>();
        match self.caller.is_master {
            true => bytes <= BYTES_OF_MASTER_MAX,
            false => self.commands.len() < COMMANDS_MAX && bytes <= BYTES_MAX,
        }
    }

    /// Adds a command for which there is [room](Self::has_room).
    pub fn push(&mut self, id: CommandId, args: Args<'_>) {
        for argument in args.iter() {
            self.spans.push(Span::new(self.arena.len(), argument.len()));
            self.arena.extend_from_slice(argument);
        }
        self.commands.push(Queued { id, spans_end: self.spans.len(), reply_end: 0, is_left: true });
    }

    /// Prepares it to run: with its watches, and its initial context.
    pub fn close(
        &mut self,
        watched: Option<Watched>,
        context: Context,
        bounds: Bounds,
        permissions: Option<Arc<dyn Permissions>>,
    ) {
        self.watched = watched;
        self.caller.permissions = permissions;
        self.caller.is_in_exec = true;
        self.context = context;
        Bounds { databases: self.databases, reply_bytes_max: self.reply_bytes_max } = bounds;
    }

    /// Shows its commands to monitors when they run, as commands of `client`.
    pub fn show_as(&mut self, client: Box<str>) {
        self.shown_as = Some(client);
    }

    /// How many commands there are.
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// Bytes of their arguments.
    pub fn byte_len(&self) -> usize {
        self.arena.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Why a queued command may not run any more: permissions have changed since.
    pub fn refusal(&self, id: CommandId, args: Args<'_>) -> Option<CommandError> {
        refusal(&self.caller, id, args)
    }

    /// How it ended.
    pub fn ending(&self) -> Ending {
        self.ending
    }

    /// Whether a key that it watches is known to have changed.
    pub fn is_broken(&self) -> bool {
        self.watched.as_ref().is_some_and(|watched| watched.watch.is_broken())
    }

    /// The commands with their arguments.
    pub fn commands(&self) -> impl Iterator<Item = (CommandId, Args<'_>)> {
        let mut start = 0;
        self.commands.iter().map(move |queued| {
            let args = Args::new(&self.arena, &self.spans[start..queued.spans_end]);
            start = queued.spans_end;
            (queued.id, args)
        })
    }

    /// How many connections received each message that it has sent; empty if its connection must send them.
    pub fn receivers(&self) -> impl Iterator<Item = usize> {
        self.receivers.iter().map(|receivers| receivers.load(Ordering::Acquire))
    }

    /// The replies of the commands that have run, to be taken by the caller.
    pub fn take_replies(&mut self) -> Replies {
        std::mem::take(&mut self.replies)
    }

    /// The commands that have run with their arguments, and the ends of their replies.
    pub fn reply_ends(&self) -> impl Iterator<Item = (CommandId, Args<'_>, usize)> {
        self.commands().zip(&self.commands[..self.ran]).map(|((id, args), queued)| (id, args, queued.reply_end))
    }

    /// The same of those that are left to the connection.
    pub fn left(&self) -> impl Iterator<Item = (CommandId, Args<'_>, usize)> {
        self.reply_ends().zip(&self.commands).filter(|(_, queued)| queued.is_left).map(|(command, _)| command)
    }

    /// Whether its replies were dropped because they exceeded the output limit.
    pub fn is_over_limit(&self) -> bool {
        self.is_over_limit
    }

    /// Whether it needs the whole keyspace: also to show what earlier scripts of the connection, on other shards, have
    /// made known.
    pub fn needs_all(&self, instance: &Instance) -> bool {
        let needs_all = |id: CommandId, args: Args<'_>| match command(id).request {
            Request::Local => status_of_scripts(id, args).is_some(),
            _ => command(id).needs_all(args, instance),
        };
        self.replacement.is_some() || self.commands().any(|(id, args)| needs_all(id, args))
    }

    /// Calls `visit` with each key that its commands name or that it watches, and its database; with a key that may
    /// move from one database to another, for both.
    pub fn for_each_key(&self, instance: &Instance, mut visit: impl FnMut(usize, &[u8])) {
        let mut context = self.context;
        for (id, args) in self.commands() {
            let other = match crossing(id, args, self.databases, instance) {
                Crossing::To(other) => Some(other),
                Crossing::Nowhere | Crossing::Everywhere => None,
            };
            // Local commands have no keys, though their channels may look like some.
            let is_keyed = command(id).request != Request::Local;
            for database in std::iter::once(context.database.into()).chain(other).filter(|_| is_keyed) {
                command(id).keys.positions(args).for_each(|position| visit(database, &args[position]));
            }
            context = context_after(&instance.settings, context, id, args, self.databases);
        }
        self.watched.iter().flat_map(Watched::keys).for_each(|(database, key)| visit(database, key));
    }

    /// Lets the connections that it has served have their replies before the part that its own connection runs.
    pub fn release_served(&mut self) {
        self.end = None;
    }

    /// Whether it may write, according to its commands' rows.
    pub fn is_write(&self) -> bool {
        self.commands().any(|(id, _)| command(id).is_write())
    }

    /// Whether one of its commands may need more memory.
    pub fn needs_memory(&self) -> bool {
        self.commands().any(|(id, _)| command(id).flags.has(Flags::DENYOOM))
    }

    /// Runs it over a keyspace that has all of its keys.
    pub fn run<S: Store>(&mut self, keyspace: &mut Keyspace<S>) {
        let runs_scripts = || self.commands().any(|(id, _)| command(id).flags.has(Flags::SCRIPT));
        let holds_locks = keyspace.settings().has_locks() && runs_scripts();
        keeping_tasks(holds_locks, || self.run_and_serve(keyspace));
        self.record_place(&mut keyspace.effects);
    }

    /// A transaction without changes leaves the data at its position. If a command has failed, the data belongs to no
    /// stream.
    fn record_place(&mut self, effects: &mut Effects) {
        let Some(place) = self.place.take().filter(|_| !effects.payload().is_empty()) else { return };
        match self.first_error() {
            None => place.record(effects),
            Some(_) => StreamPlace::none_at(place.offset).record(effects),
        }
    }

    fn run_and_serve<S: Store>(&mut self, keyspace: &mut Keyspace<S>) {
        self.replies.clear();
        self.receivers.clear();
        if let Some(replacement) = self.replacement.take() {
            replacement.take_place(keyspace);
        }
        self.ending = match self.has_lost_its_watch(keyspace) {
            true => Ending::Aborted,
            false if self.caller.is_in_exec && self.is_late(keyspace) && self.changes_data() => Ending::Refused,
            false => self.run_commands(keyspace),
        };
        if keyspace.ready.is_empty() {
            return;
        }
        if self.commands().any(|(id, _)| command(id).request == Request::Local) {
            let end = CancellationToken::new();
            keyspace.served.after = Some(end.clone());
            self.end = Some(end.drop_guard());
        }
        serve_ready(keyspace);
        keyspace.served.after = None;
    }

    /// A watched key whose time has come since has changed, whether or not it has been removed.
    fn has_lost_its_watch<S: Store>(&self, keyspace: &mut Keyspace<S>) -> bool {
        let Some(watched) = &self.watched else { return false };
        for (database, key) in watched.keys() {
            keyspace.select(database);
            keyspace.turn.check_watched(&mut keyspace.store, key, &watched.watch);
        }
        watched.watch.is_broken()
    }

    /// Whether only the master writes by now, and this is not from it.
    fn is_late<S: Store>(&self, keyspace: &Keyspace<S>) -> bool {
        keyspace.turn.due_keys.only_master_writes() && !self.caller.is_master
    }

    fn changes_data(&self) -> bool {
        self.commands().any(|(id, _)| command(id).flags.has(Flags::WRITE))
    }

    /// Whether messages are sent where it runs. If it also subscribes, its connection sends them after it has run.
    fn sends_messages(&self) -> bool {
        self.commands().any(|(id, _)| publishes(id)) && !self.commands().any(|(id, _)| command(id).subscribes())
    }

    fn run_commands<S: Store>(&mut self, keyspace: &mut Keyspace<S>) -> Ending {
        let sends_messages = self.sends_messages();
        let is_late = self.is_late(keyspace);
        let Self { arena, spans, commands, caller, replies, databases, receivers, shown_as, .. } = self;
        let shown_as = shown_as.take().and_then(|who| Some((services(keyspace).host()?, who)));
        let mut context = self.context;
        self.is_over_limit = false;
        keyspace.select(context.database.into());
        keyspace.turn.caller = caller.clone();
        let mut has_blocked = false;
        let mut start = 0;
        self.ran = 0;
        for queued in commands.iter_mut() {
            let args = Args::new(arena, &spans[start..queued.spans_end]);
            let show = |is_before: bool, database: u16| {
                // A script comes before what it calls, as in Redis.
                if let Some((host, who)) = &shown_as
                    && command(queued.id).flags.has(Flags::SCRIPT) == is_before
                {
                    host.show(who, database.into(), queued.id, args);
                }
            };
            show(true, context.database);
            queued.is_left = false;
            if is_late && command(queued.id).flags.has(Flags::WRITE) {
                refuse_late(queued.id, keyspace, &mut Reply::new(replies.buffer(), context.resp3), true);
            } else if command(queued.id).request != Request::Local
                && let Some(error) = refusal(caller, queued.id, args)
            {
                keyspace.instance().calls.note_error(&error);
                Reply::new(replies.buffer(), context.resp3).error(error);
            } else if command(queued.id).request != Request::Local {
                keyspace.turn.notes_uses = !context.no_touch;
                let mut shared = None;
                let reply = &mut Reply::or_shared(replies.buffer(), &mut shared, context.resp3);
                has_blocked |= !run_one(queued.id, keyspace, args, reply, true);
                if let Some(bulk) = shared {
                    replies.append_shared(bulk);
                }
            } else if let Some((id, status)) = status_of_scripts(queued.id, args)
                && refusal(caller, queued.id, args).is_none()
            {
                show_status(id, status, keyspace, args, &mut Reply::new(replies.buffer(), context.resp3));
            } else if sends_messages && publishes(queued.id) && !may_publish(caller, queued.id, args) {
                // Its connection replies why.
                queued.is_left = true;
                receivers.push(Arc::default());
            } else if sends_messages && publishes(queued.id) {
                queued.is_left = true;
                let is_shard = command(queued.id).flags.has(Flags::NOT_KEYS);
                receivers.push(keyspace.notices.push_message(&args[1], is_shard, &args[2]));
            } else {
                queued.is_left = true;
                context = context_after(keyspace.settings(), context, queued.id, args, *databases);
                keyspace.select(context.database.into());
            }
            show(false, context.database);
            queued.reply_end = replies.end_reply();
            self.is_over_limit |= replies.len() > self.reply_bytes_max;
            if self.is_over_limit {
                // It continues, because it is one step; but the connection will be closed.
                replies.clear();
            }
            start = queued.spans_end;
            self.ran += 1;
            if self.is_divisible {
                // These are separate requests: a client that waits for what one leaves is served before the next.
                if !keyspace.ready.is_empty() {
                    serve_ready(keyspace);
                    keyspace.select(context.database.into());
                }
                if replies.len() >= FULL {
                    break;
                }
            }
        }
        keyspace.turn.caller = Caller::default();
        if has_blocked { Ending::Blocked } else { Ending::Done }
    }
}

/// Why a command of EXEC may not run any more. An invalid subcommand has its own error.
fn refusal(caller: &Caller, id: CommandId, args: Args<'_>) -> Option<CommandError> {
    let permissions = caller.permissions.as_ref().filter(|_| caller.is_in_exec)?;
    let id = subcommand(id, args).ok()?;
    permissions.refuses_queued(id.0, args).map(CommandError::Owned)
}

/// The function of a command without keys that shows which scripts and libraries are known: others of the transaction
/// may change that, so it runs in its turn.
fn status_of_scripts(id: CommandId, args: Args<'_>) -> Option<(CommandId, PlainFn)> {
    let id = subcommand(id, args).ok()?;
    let is_it = command(id).group == Group::Scripting && command(id).flags.has(Flags::AFTER_REPLIES);
    plain_function(id).filter(|_| is_it).map(|function| (id, function))
}

fn show_status<S: Store>(
    id: CommandId,
    status: PlainFn,
    keyspace: &mut Keyspace<S>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) {
    let outcome = status(services(keyspace), args, reply);
    note_run(id, keyspace, args, true, outcome.is_err());
    if let Err(error) = outcome {
        keyspace.instance().calls.note_error(&error);
        reply.error(error);
    }
}

fn may_publish(caller: &Caller, id: CommandId, args: Args<'_>) -> bool {
    caller.permissions.as_ref().is_none_or(|permissions| permissions.permit(id.0, args))
}

impl Replacement {
    /// Libraries are not written to the disk here: the log that begins after this has them. O(N), N = keys
    fn take_place<S: Store>(self, keyspace: &mut Keyspace<S>) {
        let Self { stores, libraries } = self;
        replace_by_others(keyspace, stores.into_iter().flat_map(Databases::into_nodes));
        let replace = |current: &mut Libraries| {
            *current = libraries;
            Ok(())
        };
        services(keyspace).scripting.functions.change(replace, |_| Ok(())).expect("nothing of it can fail");
    }
}

/// The context after a command. It may be a subcommand that changes it.
fn context_after(settings: &Settings, context: Context, id: CommandId, args: Args<'_>, databases: usize) -> Context {
    let change = command(subcommand(id, args).unwrap_or(id)).context_after;
    change.map_or(context, |change| change(settings, context, args, databases))
}

#[test]
fn many_arguments_have_room_and_too_many_commands_have_none() {
    use crate::resp::Args;
    let spans = vec![Span::new(0, 0); 6_000];
    let empty = Args::new(b"", &spans);
    let mut transaction = Transaction::default();
    let id = CommandId::of_index(0);
    assert!(transaction.queue(id, empty) && transaction.queue(id, empty));
    let mut transaction = Transaction::default();
    let one = Args::new(b"", &spans[..1]);
    assert!((0..COMMANDS_MAX).all(|_| transaction.queue(id, one)));
    assert!(!transaction.queue(id, one));
}

#[test]
fn what_has_run_on_a_master_has_room_whatever_clients_may_queue() {
    let spans = [Span::new(0, 0)];
    let one = Args::new(b"", &spans);
    let mut transaction = Transaction::of_master(Context::default(), 1);
    assert!((0..=COMMANDS_MAX).all(|_| transaction.queue(CommandId::of_index(0), one)));
}

#[test]
fn a_write_that_comes_too_late_for_a_master_is_refused_unless_it_is_of_its_own_master() {
    use crate::keyspace::DueKeys;
    let databases = Databases::of_shard(&Arc::default(), 16, 0, 1);
    let mut keyspace = Keyspace::new(databases, 1, fastrand::Rng::with_seed(1), Effects::new(true));
    keyspace.turn.due_keys = DueKeys::Kept;
    let mut run = |mut transaction: Transaction| {
        let spans = [Span::new(0, 3), Span::new(3, 1), Span::new(4, 1)];
        transaction.push(super::find(b"SET").expect("it is a command"), Args::new(b"SETkv", &spans));
        transaction.run(&mut keyspace);
        let is_refused = transaction.first_error().is_some();
        (transaction.ending(), is_refused, keyspace.effects.payload().is_empty())
    };
    let of_client = || Transaction { databases: 16, reply_bytes_max: usize::MAX, ..Transaction::default() };
    let mut queued = of_client();
    queued.close(None, Context::default(), Bounds { databases: 16, reply_bytes_max: usize::MAX }, None);
    assert_eq!(run(queued), (Ending::Refused, false, true));
    assert_eq!(run(of_client()), (Ending::Done, true, true));
    assert_eq!(run(Transaction::of_master(Context::default(), 16)), (Ending::Done, false, false));
}
