//! Requests whose reply comes later: EXEC, commands over several shards that need them together, and commands that wait
//! for something to take. The connection accepts no other request meanwhile; earlier replies leave as usual.

use super::OUTPUT_HIGH_WATER;
use super::local::waiting::{self, Copies};
use super::local::{self, ConnectionState, LocalCall, Multi, Mute};
use super::migration::Migration;
use super::monitor;
use super::permissions;
use crate::base::tsc;
use crate::commands::{self, Bounds, CommandId, Ending, Pending, Transaction, debug};
use crate::config::Directive;
use crate::engine::Session;
use crate::keyspace::{Caller, Wait, Waiter};
use crate::resp::{Args, CommandError, Output, Reply, Span};
use crate::state::Server;
use crate::state::client_list::{Client, Request};
use crate::state::stopping::Stop;
use crate::stats::slow_log::Slow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;

/// The error of CLIENT UNBLOCK ERROR.
const UNBLOCKED: &str = "UNBLOCKED client unblocked via CLIENT UNBLOCK";

/// The event that the connection waits for before it accepts another request.
#[derive(Debug)]
pub enum PendingRequest {
    /// A transaction is in flight.
    Running(Kind, Option<WaitSlot>),
    /// The rest of requests that run together: their replies had no more room.
    Resting(Box<Transaction>),
    /// A command found nothing to take.
    Waiting { slot: WaitSlot, transaction: Box<Transaction> },
    /// SHUTDOWN: the server ends, or cannot.
    Stopping(CommandId, Arc<Stop>),
    /// It waits for time to pass, or for copies.
    Asleep(WaitSlot, Sleep, Box<Asked>),
    /// MIGRATE.
    Migrating(Box<Migration>),
}

/// The request of a sleeping connection.
#[derive(Debug)]
pub struct Asked {
    id: CommandId,
    /// Its entry in the slow log.
    slow: Slow,
    began_at: u64,
}

impl Asked {
    fn now(id: CommandId, args: Args<'_>) -> Box<Self> {
        Box::new(Self { id, slow: commands::slow(id, args, 0), began_at: tsc::now() })
    }
}

/// The kinds of sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sleep {
    /// WAIT or WAITAOF.
    Copies(Copies),
    /// DEBUG SLEEP.
    Debug,
}

/// `EXEC`, in any case.
type ExecName = [u8; 4];

/// How the replies of a transaction are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// EXEC: an array.
    Exec {
        /// Its row.
        id: CommandId,
        /// Its name as it came.
        name: ExecName,
        /// When it was requested.
        began_at: u64,
    },
    /// One command, or several requests that run together: a reply for each.
    Each,
}

/// A waiter's slot in the lines of some keys, given up when dropped.
#[derive(Debug)]
pub struct WaitSlot {
    waiter: Arc<Waiter>,
    client: Arc<Client>,
    /// When it is given up; none for never.
    until: Option<Instant>,
}

impl WaitSlot {
    fn take(client: &Arc<Client>, resp3: bool, wait: Option<Duration>) -> Self {
        let waiter = Arc::new(Waiter::new(resp3));
        Self { waiter, client: Arc::clone(client), until: wait.and_then(|wait| Instant::now().checked_add(wait)) }
    }

    /// Lets CLIENT KILL and a change of the role end it, before its command is sent to the keys.
    fn announce(&self) {
        *self.client.taker.lock() = Some(Arc::clone(&self.waiter));
        if self.client.is_killed.load(Ordering::Acquire) {
            _ = self.waiter.give_up();
        }
    }

    /// Makes the wait visible: CLIENT LIST shows it, CLIENT UNBLOCK ends it.
    fn show(&self, transaction: &Transaction) {
        let request = transaction.commands().next().map(|(id, args)| Request::of(id, args));
        *self.client.waiting_request.lock() = request;
        *self.client.waiter.lock() = Some(Arc::clone(&self.waiter));
        self.client.waits_until.store(self.until.is_some(), Ordering::Relaxed);
    }
}

impl Drop for WaitSlot {
    fn drop(&mut self) {
        // A reply that was already delivered stays so, though nobody reads it: what was taken is not put back.
        let _ = self.waiter.give_up();
        *self.client.waiter.lock() = None;
        *self.client.waiting_request.lock() = None;
        *self.client.taker.lock() = None;
        self.client.waits_until.store(false, Ordering::Relaxed);
    }
}

/// The parts of a connection that pending requests need.
pub struct RequestContext<'a, S> {
    pub server: &'a Server,
    pub client: &'a Arc<Client>,
    pub session: &'a mut S,
    pub state: &'a mut ConnectionState,
}

/// Begins a request whose reply comes later; `None` if it was replied at once after all.
pub fn begin<S: Session>(
    context: &mut RequestContext<'_, S>,
    id: CommandId,
    args: Args<'_>,
    out: &mut Output,
) -> Option<PendingRequest> {
    let command = commands::command(id);
    let begun = match command.pending {
        Pending::Exec => return begin_exec(context, id, args, out),
        Pending::Replicas => {
            return begin_wait(waiting::parse_wait(args, context.server), Asked::now(id, args), context, out.buffer());
        }
        Pending::Migration => match Migration::begin(context, id, args) {
            Ok(migration) => return Some(PendingRequest::Migrating(Box::new(migration))),
            Err(error) => Err(error),
        },
        Pending::Shutdown => return begin_shutdown(context, id, args, out.buffer()),
        Pending::Logs => {
            return begin_wait(
                waiting::parse_wait_aof(args, context.server),
                Asked::now(id, args),
                context,
                out.buffer(),
            );
        }
        Pending::Debug if let Some(time) = debug::sleep(args) => {
            return Some(PendingRequest::Asleep(
                WaitSlot::take(context.client, context.state.context.resp3, Some(time)),
                Sleep::Debug,
                Asked::now(id, args),
            ));
        }
        Pending::Watch if context.state.multi.is_some() => {
            Err(CommandError::Text("ERR WATCH inside MULTI is not allowed"))
        }
        Pending::Watch if S::IS_LOADING => return begin_early_watch(context, id, args, out.buffer()),
        Pending::Watch => Ok((watching(context, args), None)),
        Pending::Snapshot | Pending::Flush => {
            context.server.services.saves.note_changes(context.server.metrics().keyspace.changes);
            let saves = matches!(command.pending, Pending::Flush);
            Ok((Caller { saves, ..Caller::default() }, None))
        }
        Pending::AtKeys(timeout) => {
            let slot = WaitSlot::take(context.client, context.state.context.resp3, timeout(args));
            slot.announce();
            Ok((Caller { waiter: Some(Arc::clone(&slot.waiter)), ..Caller::default() }, Some(slot)))
        }
        Pending::Transaction | Pending::Debug | Pending::Never => Ok((Caller::default(), None)),
    };
    match begun {
        Err(error) => {
            reply_error(context, id, out.buffer(), error);
            None
        }
        Ok((mut caller, slot)) => {
            caller.permissions = permissions::of_connection(context.server, context.client, context.state);
            let bounds = bounds(context.server, context.state);
            let transaction = Transaction::of_one(id, args, context.state.context, bounds, caller);
            context.session.begin(Box::new(transaction));
            Some(PendingRequest::Running(Kind::Each, slot))
        }
    }
}

/// How many requests of one read run together at most.
const TOGETHER_MAX: usize = 64;

/// Whether a script fits among the gathered ones.
pub fn has_room(gathered: &Transaction, args: Args<'_>) -> bool {
    gathered.len() < TOGETHER_MAX && gathered.has_room(args)
}

/// Gathers a script that needs several shards with those before it: they run as one transaction, so the shards are lent
/// once.
pub fn gather<S: Session>(
    gathered: &mut Option<Box<Transaction>>,
    context: &RequestContext<'_, S>,
    id: CommandId,
    args: Args<'_>,
) {
    match gathered {
        Some(gathered) => gathered.push(id, args),
        None => {
            let bounds = bounds(context.server, context.state);
            let permissions = permissions::of_connection(context.server, context.client, context.state);
            let caller = Caller { permissions, ..Caller::default() };
            let first = Transaction::of_one(id, args, context.state.context, bounds, caller);
            *gathered = Some(Box::new(first.divisible()));
        }
    }
}

/// Begins requests that run together.
pub fn begin_together<S: Session>(gathered: Box<Transaction>, context: &mut RequestContext<'_, S>) -> PendingRequest {
    context.session.begin(gathered);
    PendingRequest::Running(Kind::Each, None)
}

/// SHUTDOWN: the connection ends with the server, or is notified that the server does not end.
fn begin_shutdown<S: Session>(
    context: &mut RequestContext<'_, S>,
    id: CommandId,
    args: Args<'_>,
    out: &mut Vec<u8>,
) -> Option<PendingRequest> {
    match local::stop_request(args, &context.server.stop) {
        Err(error) => {
            reply_error(context, id, out, error);
            None
        }
        Ok(None) => {
            context.server.instance.calls.note_run(id.0, 0, true, false);
            context.session.reply_locally(context.state.context.resp3, out, |reply| reply.ok());
            None
        }
        Ok(Some(request)) => {
            tracing::info!("User requested shutdown...");
            context.client.is_stopping.store(true, Ordering::Relaxed);
            context.server.stop.ask(request);
            Some(PendingRequest::Stopping(id, Arc::clone(&context.server.stop)))
        }
    }
}

/// WATCH while the data is loaded: loading does not notify watches, so the watch is broken when the data is there (see
/// [`end_early_watch`]).
fn begin_early_watch<S: Session>(
    context: &mut RequestContext<'_, S>,
    id: CommandId,
    args: Args<'_>,
    out: &mut Vec<u8>,
) -> Option<PendingRequest> {
    watching(context, args);
    context.server.instance.calls.note_run(id.0, 0, true, false);
    context.session.reply_locally(context.state.context.resp3, out, |reply| reply.ok());
    None
}

/// Breaks the watches that a connection has so far: their keys were loaded.
pub fn end_early_watch(state: &ConnectionState) {
    state.watched.iter().for_each(|watched| watched.watch.break_it());
}

/// WAIT and WAITAOF: wait for replicas, and for disks.
fn begin_wait<S: Session>(
    parsed: Result<(Copies, Duration), CommandError>,
    asked: Box<Asked>,
    context: &mut RequestContext<'_, S>,
    out: &mut Vec<u8>,
) -> Option<PendingRequest> {
    let (copies, time) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            reply_error(context, asked.id, out, error);
            return None;
        }
    };
    let resp3 = context.state.context.resp3;
    let slot = WaitSlot::take(context.client, resp3, Some(time).filter(|time| !time.is_zero()));
    let still = wait_for_copies(slot, copies, asked, false, context, out);
    if let Some(PendingRequest::Asleep(slot, ..)) = &still {
        slot.show(&Transaction::default());
    }
    still
}

/// Replies to WAIT or WAITAOF if there is nothing left to wait for.
fn wait_for_copies<S: Session>(
    slot: WaitSlot,
    copies: Copies,
    asked: Box<Asked>,
    is_over: bool,
    context: &mut RequestContext<'_, S>,
    out: &mut Vec<u8>,
) -> Option<PendingRequest> {
    let RequestContext { server, session, state, .. } = context;
    // Earlier requests are executed first.
    let has_executed_all = session.replied() >= session.accepted();
    let copies = copies.advanced(&server.replication, has_executed_all);
    let is_synced = || has_executed_all && server.has_log() && session.log().is_synced(&session.written());
    let local = u64::from(copies.on_disk && is_synced());
    let replicas = copies.reached(&server.replication);
    if let Some(error) = copies.refusal(server) {
        reply_error(context, asked.id, out, error);
        return None;
    }
    let is_content = has_executed_all && copies.is_content(local, replicas);
    if !is_over && !is_content {
        return Some(PendingRequest::Asleep(slot, Sleep::Copies(copies), asked));
    }
    server.instance.calls.note_run(asked.id.0, 0, true, false);
    session.reply_locally(state.context.resp3, out, |reply| copies.reply(local, replicas, reply));
    None
}

/// Adds the keys to the watched ones.
fn watching<S: Session>(context: &mut RequestContext<'_, S>, args: Args<'_>) -> Caller {
    let RequestContext { client, state, .. } = context;
    let watched = state.watched.get_or_insert_default();
    watched.add(state.context.database, args.from(1).iter());
    client.note_watch(&watched.watch, watched.size());
    Caller { watch: Some(Arc::clone(&watched.watch)), ..Caller::default() }
}

fn begin_exec<S: Session>(
    context: &mut RequestContext<'_, S>,
    id: CommandId,
    args: Args<'_>,
    out: &mut Output,
) -> Option<PendingRequest> {
    let name = *args[0].first_chunk().expect("it is the name of EXEC");
    let refusal = match context.state.multi.take() {
        None => "ERR EXEC without MULTI",
        Some(Multi { is_refused: true, .. }) => {
            context.state.watched = None;
            "EXECABORT Transaction discarded because of previous errors."
        }
        Some(Multi { mut transaction, .. }) => {
            // The reply of WAITAOF in it: writes of the transaction itself do not count.
            let has_log = context.server.has_log();
            context.state.is_synced = has_log && context.session.log().is_synced(&context.session.written());
            let watched = context.state.watched.take();
            let watch = watched.as_ref().map(|watched| Arc::clone(&watched.watch));
            let permissions = permissions::of_connection(context.server, context.client, context.state);
            // In steps, commands could not ask what their user may do.
            let is_free = permissions.is_none();
            transaction.close(watched, context.state.context, bounds(context.server, context.state), permissions);
            let is_local = |(id, _)| commands::command(id).request == commands::Request::Local;
            // While the data is loaded it usually contains only local commands.
            let is_early = S::IS_LOADING && transaction.commands().all(is_local);
            // A watch is looked at where the keys are, in the same step as the commands.
            let is_in_steps = watch.is_none() && is_free && !context.session.is_atomic();
            if is_early || (is_in_steps && is_scattered(context.session, &transaction)) {
                scatter(context, &transaction, out);
                context.client.note_no_transaction();
                show_exec(context, id, name);
                context.server.instance.calls.note_run(id.0, 0, true, false);
                return None;
            }
            if context.server.pubsub.has_monitors() {
                transaction.show_as(context.client.address.monitored().into());
            }
            if S::IS_LOADING {
                // It runs once the data is loaded.
                watch.iter().for_each(|watch| watch.break_it());
            }
            context.session.begin(transaction);
            return Some(PendingRequest::Running(Kind::Exec { id, name, began_at: tsc::now() }, None));
        }
    };
    context.client.note_no_transaction();
    reply_error(context, id, out.buffer(), CommandError::Text(refusal));
    show_exec(context, id, name);
    None
}

/// Shows EXEC to the monitors, after the commands that it has run.
fn show_exec<S: Session>(context: &RequestContext<'_, S>, id: CommandId, name: ExecName) {
    show(context, id, Args::new(&name, &[Span::new(0, name.len())]));
}

fn show<S: Session>(context: &RequestContext<'_, S>, id: CommandId, args: Args<'_>) {
    let RequestContext { server, client, state, .. } = context;
    if server.pubsub.has_monitors() {
        monitor::show(server, &client.address.monitored(), state.context.database.into(), id, args);
    }
}

fn bounds(server: &Server, state: &ConnectionState) -> Bounds {
    let databases = server.config.size(Directive::Databases);
    Bounds { databases, reply_bytes_max: server.output_max(state.is_listening()) }
}

fn reply_error<S: Session>(context: &mut RequestContext<'_, S>, id: CommandId, out: &mut Vec<u8>, error: CommandError) {
    context.server.instance.calls.note_run(id.0, 0, true, true);
    context.server.instance.calls.note_error(&error);
    context.session.reply_locally(context.state.context.resp3, out, |reply| reply.error(error));
}

fn is_scattered<S: Session>(session: &S, transaction: &Transaction) -> bool {
    transaction.commands().all(|(id, args)| {
        let command = commands::command(id);
        session.is_batchable(id, args) && command.keys.have_values(args) && !command.may_defer()
    })
}

/// `--multi-key relaxed`: submits the commands of a transaction one by one.
fn scatter<S: Session>(context: &mut RequestContext<'_, S>, transaction: &Transaction, out: &mut Output) {
    let resp3 = context.state.context.resp3;
    if transaction.is_broken() {
        return context.session.reply_locally(resp3, out.buffer(), |reply| reply.null_array());
    }
    let bytes_max = context.server.output_max(context.state.is_listening());
    context.session.reply_locally(resp3, out.buffer(), |reply| reply.array(transaction.len()));
    for (id, args) in transaction.commands() {
        if let Some(error) = transaction.refusal(id, args) {
            context.server.instance.calls.note_error(&error);
            context.session.reply_locally(context.state.context.resp3, out.buffer(), |reply| reply.error(error));
        } else if commands::command(id).request == commands::Request::Local {
            let RequestContext { server, client, session, state } = context;
            // What SUBSCRIBE and the like reply are messages.
            let is_message = state.mute == Mute::All && commands::command(id).subscribes();
            if is_message || local::asks_for_replies(args) {
                session.set_muted(false);
            }
            session.reply_locally(state.context.resp3, out.buffer(), |reply| {
                let mut call = LocalCall {
                    server,
                    client,
                    state,
                    is_in_exec: true,
                    is_in_script: false,
                    receivers: None,
                    request_bytes: 0,
                };
                local::dispatch(id, &mut call, args, reply);
            });
            if state.mute == Mute::All {
                session.set_muted(true);
            }
            show(context, id, args);
        } else {
            show(context, id, args);
            // HELLO and SELECT may have changed it.
            context.session.submit(id, args, context.state.context, out);
        }
        out.end_reply();
        if out.is_over_limit() || out.unsent() > bytes_max {
            out.give_up();
        }
    }
}

impl PendingRequest {
    /// Whether it waits for something other than the engine.
    pub fn is_waiting(&self) -> bool {
        match self {
            Self::Waiting { .. } | Self::Asleep(..) | Self::Stopping(..) => true,
            Self::Migrating(migration) => migration.is_waiting(),
            Self::Running(..) | Self::Resting(_) => false,
        }
    }

    /// What it waits for, as a value that differs once it has made progress.
    pub fn progress(&self) -> impl PartialEq + use<> {
        let stage = match self {
            Self::Migrating(migration) => migration.stage(),
            _ => 0,
        };
        (std::mem::discriminant(self), stage)
    }

    /// Whether messages may overtake it: those that it causes come after its reply.
    pub fn lets_messages_pass(&self) -> bool {
        match self {
            Self::Running(..) | Self::Resting(_) => false,
            Self::Asleep(..) | Self::Stopping(..) => true,
            Self::Migrating(migration) => migration.is_waiting(),
            Self::Waiting { slot, .. } => slot.waiter.state() == Wait::Waiting,
        }
    }

    /// What must still run when the connection ends: a waiter that was called passes its turn to the next in the line.
    pub fn end(self) -> Option<Box<Transaction>> {
        let Self::Waiting { slot, transaction, .. } = self else { return None };
        // What it was already served stays served.
        let _ = slot.waiter.give_up();
        slot.waiter.take_call().then_some(transaction)
    }

    /// Waits until [`go_on`] may make progress, for a session that itself waits for nothing. Dropping the future loses
    /// nothing.
    pub async fn changed<S: Session>(&self, session: &S, server: &Server) {
        let replication = &server.replication;
        match self {
            Self::Stopping(_, stop) => return stop.given_up().await,
            // The connection checks for room after it has written.
            Self::Resting(_) => return std::future::pending().await,
            Self::Migrating(migration) => return migration.changed(server).await,
            _ => {}
        }
        // A transaction that the session does not wait for is back.
        let (Self::Waiting { slot, .. } | Self::Asleep(slot, ..)) = self else { return };
        // It was killed, and ends with its connection, which its reader finds closed.
        if matches!(self, Self::Waiting { .. }) && slot.waiter.state() == Wait::Gone {
            return std::future::pending().await;
        }
        if let Some(served) = slot.waiter.served() {
            session.log().released(&served.log_positions).await;
            return served.until_it_may_leave().await;
        }
        if slot.waiter.is_called() {
            return server.services.scripting.busy.ended().await;
        }
        let changed = async {
            match self {
                Self::Asleep(_, Sleep::Copies(copies), _) => {
                    let heard = replication.heard();
                    let log_positions = session.written();
                    let waits_for_disk = copies.local > 0 && !session.log().is_synced(&log_positions);
                    // An event between the last check and this one does not notify any more.
                    let is_content = copies.is_content(u64::from(!waits_for_disk), copies.reached(replication));
                    if is_content || copies.refusal(server).is_some() || copies.advanced(replication, false) != *copies
                    {
                        return;
                    }
                    let synced = async {
                        match waits_for_disk {
                            true => session.log().synced(&log_positions).await,
                            false => std::future::pending().await,
                        }
                    };
                    tokio::select! { () = slot.waiter.changed() => {} () = heard => {} () = synced => {} }
                }
                _ => slot.waiter.changed().await,
            }
        };
        match slot.until {
            None => changed.await,
            Some(until) => _ = tokio::time::timeout_at(until, changed).await,
        }
    }
}

/// Continues with a pending request; `None` once it has its reply.
pub fn go_on<S: Session>(
    pending: PendingRequest,
    context: &mut RequestContext<'_, S>,
    out: &mut Output,
) -> Option<PendingRequest> {
    match pending {
        PendingRequest::Running(kind, slot) => match context.session.take_finished() {
            None => Some(PendingRequest::Running(kind, slot)),
            Some(transaction) => finish(kind, slot, transaction, context, out),
        },
        PendingRequest::Resting(transaction) if out.unsent() < OUTPUT_HIGH_WATER => {
            Some(begin_together(transaction, context))
        }
        PendingRequest::Resting(_) => Some(pending),
        PendingRequest::Waiting { slot, transaction } => wait_on(slot, transaction, context, out.buffer()),
        PendingRequest::Stopping(_, ref stop) if stop.request().is_some() => Some(pending),
        PendingRequest::Stopping(id, _) => {
            context.client.is_stopping.store(false, Ordering::Relaxed);
            reply_error(context, id, out.buffer(), CommandError::Text("ERR Errors trying to SHUTDOWN. Check logs."));
            None
        }
        PendingRequest::Asleep(slot, sleep, asked) => sleep_on(slot, sleep, asked, context, out.buffer()),
        PendingRequest::Migrating(migration) => {
            let migration = migration.go_on(context, out.buffer())?;
            Some(PendingRequest::Migrating(Box::new(migration)))
        }
    }
}

fn sleep_on<S: Session>(
    slot: WaitSlot,
    sleep: Sleep,
    asked: Box<Asked>,
    context: &mut RequestContext<'_, S>,
    out: &mut Vec<u8>,
) -> Option<PendingRequest> {
    let is_over = slot.until.is_some_and(|until| until <= Instant::now());
    let resp3 = context.state.context.resp3;
    let state = slot.waiter.state();
    if let Sleep::Copies(copies) = sleep
        && state != Wait::Failed
    {
        let is_over = is_over || state != Wait::Waiting;
        return wait_for_copies(slot, copies, asked, is_over, context, out);
    }
    if state == Wait::Waiting && !is_over {
        return Some(PendingRequest::Asleep(slot, sleep, asked));
    }
    let Asked { id, mut slow, began_at } = *asked;
    slow.ticks = tsc::now().saturating_sub(began_at);
    // WAIT does no work while it waits.
    let took = if sleep == Sleep::Debug { slow.ticks } else { 0 };
    context.server.instance.calls.note_run(id.0, took, true, state == Wait::Failed);
    if context.server.instance.calls.is_slow(took) {
        context.server.note_slow(context.client, slow);
    }
    if state == Wait::Failed {
        context.server.instance.calls.note_error_text(UNBLOCKED);
        context.session.reply_locally(resp3, out, |reply| reply.error(UNBLOCKED));
    } else {
        context.session.reply_locally(resp3, out, |reply| reply.ok());
    }
    None
}

fn finish<S: Session>(
    kind: Kind,
    slot: Option<WaitSlot>,
    transaction: Box<Transaction>,
    context: &mut RequestContext<'_, S>,
    out: &mut Output,
) -> Option<PendingRequest> {
    match (transaction.ending(), kind) {
        (Ending::Open, _) => unreachable!("an engine gives back what has run"),
        (Ending::Blocked, _) => {
            let slot = slot.expect("only a command with a waiter waits");
            slot.show(&transaction);
            // From now on a change of its user ends the wait.
            context.state.look_at_user(&context.server.users);
            if let Some(error) = permissions::refuses_waiting(context.client, context.state.login.user()) {
                _ = slot.waiter.refuse(&error);
            }
            return wait_on(slot, transaction, context, out.buffer());
        }
        (Ending::Aborted, _) => {
            context.session.reply_locally(context.state.context.resp3, out.buffer(), |reply| reply.null_array())
        }
        (Ending::Refused, _) => {
            let error =
                CommandError::Owned(format!("EXECABORT Transaction discarded because of: {}", commands::READONLY));
            context.server.instance.calls.note_error(&error);
            context.session.reply_locally(context.state.context.resp3, out.buffer(), |reply| reply.error(error));
        }
        (Ending::Done, Kind::Each) => return write_each(transaction, context, out).map(PendingRequest::Resting),
        (Ending::Done, Kind::Exec { .. }) => write_all(*transaction, context, out),
    }
    if let Kind::Exec { id, name, began_at } = kind {
        context.client.note_no_transaction();
        show_exec(context, id, name);
        context.server.instance.calls.note_run(id.0, tsc::now().saturating_sub(began_at), true, false);
    }
    None
}

/// Writes the existing replies in order; returns the commands that have not run.
fn write_each<S: Session>(
    mut transaction: Box<Transaction>,
    context: &mut RequestContext<'_, S>,
    out: &mut Output,
) -> Option<Box<Transaction>> {
    let mut replies = transaction.take_replies();
    let mut moved = 0;
    for (_, _, end) in transaction.reply_ends() {
        match context.session.take_turn() {
            true if transaction.is_over_limit() => out.give_up(),
            true => replies.move_all(moved..end, out),
            false => {}
        }
        moved = end;
    }
    transaction.take_rest()
}

/// Writes an array of the replies. Local commands run now, each where its reply belongs.
fn write_all<S: Session>(mut transaction: Transaction, context: &mut RequestContext<'_, S>, out: &mut Output) {
    let RequestContext { server, client, session, state } = context;
    let mut target = ReplyTarget { is_heard: session.take_turn(), out, unheard: Output::default() };
    let bytes_max = server.output_max(state.is_listening());
    let mut resp3 = state.context.resp3;
    Reply::new(target.out().buffer(), resp3).array(transaction.len());
    let mut replies = transaction.take_replies();
    let mut is_over_limit = transaction.is_over_limit();
    let mut receivers = transaction.receivers();
    let (mut moved, whole) = (0, transaction.reply_ends().map(|(_, _, end)| end).last().unwrap_or(0));
    for (id, args, end) in transaction.left() {
        if !is_over_limit {
            replies.move_all(moved..end, target.out());
            moved = end;
        }
        let receivers = if commands::publishes(id) { receivers.next() } else { None };
        target.is_heard |= local::asks_for_replies(args);
        // What SUBSCRIBE and the like reply are messages.
        let is_heard = target.is_heard;
        target.is_heard |= commands::command(id).subscribes();
        let mut call =
            LocalCall { server, client, state, is_in_exec: true, is_in_script: false, receivers, request_bytes: 0 };
        let reply = &mut Reply::new(target.out().buffer(), resp3);
        match transaction.refusal(id, args) {
            Some(error) => {
                server.instance.calls.note_error(&error);
                reply.error(error);
            }
            None => _ = local::dispatch(id, &mut call, args, reply),
        }
        resp3 = reply.is_resp3();
        target.is_heard = is_heard && state.mute != Mute::All;
        is_over_limit |= target.out().unsent() > bytes_max;
        if is_over_limit {
            target.out().give_up();
        }
    }
    match is_over_limit {
        true => target.out().give_up(),
        false => replies.move_all(moved..whole, target.out()),
    }
}

/// Where the replies of a transaction go: CLIENT REPLY in it decides which of them are heard.
struct ReplyTarget<'a> {
    is_heard: bool,
    out: &'a mut Output,
    unheard: Output,
}

impl ReplyTarget<'_> {
    fn out(&mut self) -> &mut Output {
        if self.is_heard { self.out } else { &mut self.unheard }
    }
}

fn wait_on<S: Session>(
    slot: WaitSlot,
    transaction: Box<Transaction>,
    context: &mut RequestContext<'_, S>,
    out: &mut Vec<u8>,
) -> Option<PendingRequest> {
    let resp3 = context.state.context.resp3;
    // End the wait before looking for a call, so that a later caller finds nobody waiting.
    if slot.until.is_some_and(|until| until <= Instant::now()) {
        _ = slot.waiter.unblock(false);
    }
    let state = slot.waiter.state();
    // A busy script may have its keys: their locks would block the thread, perhaps the last one that could end the
    // script.
    let is_to_run = slot.waiter.is_called() && slot.waiter.served().is_none();
    if is_to_run && context.server.services.scripting.busy.is_busy() {
        return Some(PendingRequest::Waiting { slot, transaction });
    }
    if slot.waiter.take_call() {
        context.session.begin(transaction);
        return Some(PendingRequest::Running(Kind::Each, Some(slot)));
    }
    match state {
        Wait::Served => {
            let served = slot.waiter.served().expect("served is what it was");
            if context.session.log().is_released(&served.log_positions) && served.may_leave() {
                context.session.note_written(&served.log_positions);
                note_served(&transaction, context, &served.reply);
                context.session.reply_locally(resp3, out, |reply| reply.raw(&served.reply));
                return None;
            }
        }
        Wait::Failed => {
            note_served(&transaction, context, format!("-{UNBLOCKED}").as_bytes());
            context.server.instance.calls.note_error_text(UNBLOCKED);
            context.session.reply_locally(resp3, out, |reply| reply.error(UNBLOCKED));
            return None;
        }
        Wait::Unblocked => return time_out(&transaction, context, out),
        Wait::Waiting | Wait::Called | Wait::Claimed | Wait::Gone => {}
    }
    Some(PendingRequest::Waiting { slot, transaction })
}

/// Counts a command that has waited and has its reply now. Its duration is the time of its own connection: the rest is
/// counted for the command that served it.
fn note_served<S: Session>(transaction: &Transaction, context: &RequestContext<'_, S>, reply: &[u8]) {
    let (id, args) = transaction.commands().next().expect("it has one command");
    if reply.strip_prefix(b"-").is_some_and(|text| text.starts_with(permissions::DENIED.as_bytes())) {
        return context.server.instance.calls.note_rejected(id.0);
    }
    context.server.instance.calls.note_run(id.0, 0, true, reply.first() == Some(&b'-'));
    if context.server.instance.calls.is_slow(0) {
        context.server.note_slow(context.client, commands::slow(id, args, 0));
    }
}

fn time_out<S: Session>(
    transaction: &Transaction,
    context: &mut RequestContext<'_, S>,
    out: &mut Vec<u8>,
) -> Option<PendingRequest> {
    note_served(transaction, context, b"");
    context.session.reply_locally(context.state.context.resp3, out, |reply| reply.null_array());
    None
}
