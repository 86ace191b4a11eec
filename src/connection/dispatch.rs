//! The requests of a connection: out of its bytes, to the engine or to what else replies to them.

use super::admission::{
    accepted, is_http, is_ordinary, lacks_value, may_change, may_change_one_of, may_publish, needs_no_password,
    refused, warn_of_attack,
};
use super::local::{self, ConnectionState, LocalCall, Mute};
use super::pending_request::{self, PendingRequest, RequestContext};
use super::{ACCEPTED_AT_ONCE, OUTPUT_HIGH_WATER, monitor};
use crate::base::tsc;
use crate::commands::{self, Command, CommandId, Flags, Request, Subcommands, Transaction};
use crate::config::Directive;
use crate::engine::{Accepts, GATHERED_BYTES_MAX, Session};
use crate::keyspace::Class;
use crate::resp::{Args, CommandError, Limits, Output, RequestParser, Step};
use crate::state::Server;
use crate::state::client_list::Client;
use crate::state::pause::HeldSince;
use crate::stats::stage_latency::Stage;
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The minimum time between two log lines about HTTP.
const ATTACK_PAUSE: Duration = Duration::from_secs(60);

/// A request within the bytes of its read.
struct Found<'a> {
    input: &'a [u8],
    /// The bytes of the read, if they may be shared.
    owner: Option<&'a Bytes>,
    place: Range<usize>,
    args: Args<'a>,
    /// Whether its arguments are within those bytes.
    stands_in_input: bool,
}

impl<'a> Found<'a> {
    /// The bytes of the read, if they may be shared and are hardly more than this request.
    fn owner(&self) -> Option<&'a Bytes> {
        let beyond = self.input.len() - self.place.end;
        self.owner.filter(|_| self.place.start == 0 && beyond <= self.place.len() / 8)
    }

    fn is_last(&self) -> bool {
        self.place.end == self.input.len()
    }

    fn args(&self) -> Args<'a> {
        match self.owner {
            None => self.args,
            Some(_) => self.args.in_shared(self.owner().filter(|_| self.stands_in_input)),
        }
    }

    /// Whether it may wait for others of its read, with which it runs. One whose bytes may be shared is nearly all of
    /// its read; it does not wait for the beginning of the next.
    fn may_be_gathered(&self) -> bool {
        self.stands_in_input && self.place.len() <= GATHERED_BYTES_MAX && self.owner().is_none()
    }
}

/// A command as accepted, or the error that refuses it.
type Accepted = Result<(CommandId, &'static Command), CommandError>;

/// What a request waits for before it is accepted.
#[derive(Debug, Clone, Copy)]
pub(super) enum PausedBy {
    /// The end of a pause, as that of CLIENT PAUSE.
    Pause,
    /// Keys that another request sends away.
    Keys(HeldSince),
}

/// Takes requests out of bytes and makes sure that each gets its reply.
pub(super) struct Requests<S> {
    pub(super) server: Arc<Server>,
    pub(super) client: Arc<Client>,
    pub(super) session: S,
    pub(super) state: ConnectionState,
    /// A request whose reply comes later: no further request is accepted before.
    pub(super) pending: Option<PendingRequest>,
    /// Scripts of the current read, which will run together.
    pub(super) scripts: Option<Box<Transaction>>,
    /// Whether the next request publishes or subscribes, and must run after the replies of those before it.
    pub(super) awaits_replies: bool,
    /// What the next request waits for before it is accepted.
    pub(super) pause: Option<PausedBy>,
    /// Whether the session drops replies.
    pub(super) is_muted: bool,
    /// Whether commands have other names than their own.
    pub(super) has_other_names: bool,
}

impl<S: Session> Requests<S> {
    /// Accepts requests until `input` has no more, it was many, `out` has no room, or the connection must close.
    /// Returns how many bytes they took, and whether it stopped before the parser had seen all of them.
    pub(super) fn accept(
        &mut self,
        parser: &mut RequestParser,
        input: &[u8],
        owner: Option<&Bytes>,
        out: &mut Output,
    ) -> (usize, bool) {
        let limits = Limits {
            bulk_len_max: self.server.config.size(Directive::ProtoMaxBulkLen),
            authenticated: self.is_authenticated(),
        };
        self.awaits_replies = false;
        self.state.look_at_user(&self.server.users);
        let enough = ACCEPTED_AT_ONCE.max(self.server.read_size.get());
        let mut consumed = 0;
        let mut has_stopped = loop {
            let has_enough = out.unsent() > OUTPUT_HIGH_WATER || consumed > enough;
            if has_enough || self.state.is_closing || self.pending.is_some() {
                break true;
            }
            match self.session.accepts() {
                Accepts::Now => {}
                Accepts::AfterGathered if self.session.run_gathered(input, out) => continue,
                Accepts::AfterGathered | Accepts::AfterFlush => break true,
                Accepts::AfterReplies => {
                    self.awaits_replies = true;
                    break true;
                }
            }
            let limits = Limits { authenticated: self.is_authenticated(), ..limits };
            match parser.parse(&input[consumed..], limits) {
                Ok(Step::Incomplete) => break false,
                Ok(Step::Nothing(len)) => {
                    self.state.end_skip();
                    consumed += len;
                }
                Ok(Step::Request(len)) => {
                    let (place, args) = (consumed..consumed + len, parser.args(&input[consumed..]));
                    let stands_in_input = parser.stands_in_input();
                    if !self.accept_one(Found { input, owner, place, args, stands_in_input }, out) {
                        // Its bytes stay, and are parsed again.
                        self.awaits_replies = true;
                        break true;
                    }
                    consumed += len;
                }
                Err(_) if self.scripts.is_some() => {
                    // Their replies come first. The bytes stay, and are parsed again.
                    self.begin_scripts();
                    parser.go_back();
                    break true;
                }
                Err(_) if !self.session.run_gathered(input, out) => break true,
                Err(error) => {
                    self.server.instance.calls.note_error_text("ERR");
                    self.is_muted = self.state.mute != Mute::Nothing;
                    self.session.set_muted(self.is_muted);
                    let resp3 = self.state.context.resp3;
                    self.session.reply_locally(resp3, out.buffer(), |reply| {
                        reply.error(format_args!("ERR Protocol error: {error}"))
                    });
                    self.state.is_closing = true;
                    consumed = input.len();
                }
            }
        };
        self.begin_scripts();
        self.session.run_gathered(input, out);
        if let Some(left) = self.session.take_left() {
            (consumed, has_stopped) = (left.at, true);
            parser.go_back();
        } else if self.state.is_closing {
            consumed = input.len();
        }
        (consumed, has_stopped)
    }

    /// Whether it has given the password, or none is needed any more.
    #[inline]
    fn is_authenticated(&self) -> bool {
        self.state.is_authenticated || needs_no_password(&self.server)
    }

    /// Begins to sample what is accepted next; returns the start time.
    pub(super) fn begin_sample(&mut self) -> u64 {
        self.session.sample();
        tsc::now()
    }

    /// Ends the parsing stage of what was accepted since `start`.
    pub(super) fn end_sample(&self, start: u64) {
        let took = tsc::now().saturating_sub(start);
        self.server.instance.stages.note(Stage::Parse, took.saturating_sub(self.session.ticks_within()));
    }

    /// Accepts the request that the parser found; false if it must wait for earlier replies, or these have no room.
    fn accept_one(&mut self, found: Found<'_>, out: &mut Output) -> bool {
        if self.has_other_names {
            return self.accept_by_names(found, out);
        }
        self.accept_named(commands::find(&found.args[0]), found, out)
    }

    /// The same, where commands have other names than their own.
    #[cold]
    fn accept_by_names(&mut self, found: Found<'_>, out: &mut Output) -> bool {
        let names = self.server.services.names();
        if let Some((id, words)) = names.with_own_name(found.args) {
            return self.accept_named(Some(id), Found { args: words.args(), stands_in_input: false, ..found }, out);
        }
        let named = names.find(&found.args[0]);
        self.accept_named(named, found, out)
    }

    /// The same, when the command of the request's name is known.
    #[inline]
    fn accept_named(&mut self, named: Option<CommandId>, found: Found<'_>, out: &mut Output) -> bool {
        if self.state.mute == Mute::Nothing && !self.is_muted {
            return self.accept_heard(named, found, out);
        }
        self.accept_unheard(named, found, out)
    }

    /// The same, when CLIENT REPLY has been used.
    #[cold]
    fn accept_unheard(&mut self, named: Option<CommandId>, found: Found<'_>, out: &mut Output) -> bool {
        if !self.session.run_gathered(found.input, out) {
            return false;
        }
        let mute = self.state.mute;
        self.is_muted = mute != Mute::Nothing && !self.is_heard_though_muted(named, found.args());
        self.session.set_muted(self.is_muted);
        self.state.end_skip();
        let is_accepted = self.accept_heard(named, found, out);
        if !is_accepted {
            self.state.mute = mute;
        }
        is_accepted
    }

    /// Whether a request is replied although CLIENT REPLY has turned replies off, or skips this one.
    fn is_heard_though_muted(&self, named: Option<CommandId>, args: Args<'_>) -> bool {
        // Where CLIENT is refused, it turns nothing on.
        let may = |id| self.state.login.permits(id, args);
        let is_refused = self.state.multi.is_some() || self.state.is_subscriber_mode() || !named.is_some_and(may);
        let asks_for_replies = !is_refused && local::asks_for_replies(args);
        // It does not end a SKIP.
        let resets = self.state.mute == Mute::All && named.is_some() && args.len() == 1 && args.is(0, "RESET");
        // Their replies are messages, and no errors.
        let is_about_channels = || {
            let named = named.map(commands::command);
            named.is_some_and(|command| command.subscribes() && command.accepts(args.len()))
        };
        asks_for_replies || resets || (self.state.multi.is_none() && is_about_channels())
    }

    /// Begins the gathered scripts, if there are any.
    fn begin_scripts(&mut self) {
        if let Some(scripts) = self.scripts.take() {
            let Self { server, client, session, state, .. } = self;
            self.pending =
                Some(pending_request::begin_together(scripts, &mut RequestContext { server, client, session, state }));
        }
    }

    fn accept_heard(&mut self, named: Option<CommandId>, found: Found<'_>, out: &mut Output) -> bool {
        let args = found.args();
        if let Some(id) = named
            && is_ordinary::<S>(commands::command(id), args, &self.state, &self.server)
            && self.scripts.is_none()
            && (found.may_be_gathered() || !self.session.has_gathered())
        {
            self.client.note_last_command(Some(id));
            self.gather_or_submit(id, args, &found, out);
            return true;
        }
        let is_accepted = self.accept_other(named, args, &found, out);
        if is_accepted {
            self.state.end_asking(args);
        }
        is_accepted
    }

    /// Accepts a request that is not ordinary, or not at this time.
    #[inline(never)]
    fn accept_other(&mut self, named: Option<CommandId>, args: Args<'_>, found: &Found<'_>, out: &mut Output) -> bool {
        if *self.session.tracking() != self.state.next_tracking() && !self.renew_tracking(found, out) {
            return false;
        }
        let Self { server, client, session, state, .. } = self;
        state.look_at_user(&server.users);
        let accepted = accepted(named, args, state, server, client, session);
        if !self.runs_those_before(&accepted, args, found, out) {
            return false;
        }
        let accepted_id = accepted.as_ref().ok().map(|(id, _)| *id);
        self.client.note_last_command(commands::named_in_full(accepted_id.or(named), args));
        match accepted {
            Err(error) => self.refuse(error, named, args, out),
            Ok((id, command)) => {
                if let Some(by) = self.paused_by(id, args) {
                    return self.pause(by);
                }
                if self.state.multi.is_some() && !command.flags.has(Flags::NOT_QUEUED) {
                    let Self { server, client, session, state, .. } = self;
                    queue(server, session, client, state, id, args, out.buffer());
                    return true;
                }
                return self.accept_allowed((id, command), args, found, out);
            }
        }
        true
    }

    /// Begins to tell the keyspace something else about CLIENT TRACKING, once all requests before have their replies;
    /// false if they have not.
    #[cold]
    fn renew_tracking(&mut self, found: &Found<'_>, out: &mut Output) -> bool {
        self.begin_scripts();
        if self.pending.is_some() || !self.session.run_gathered(found.input, out) || self.has_unreplied() {
            return false;
        }
        *self.session.tracking() = self.state.next_tracking();
        true
    }

    /// Makes the messages that another connection redirects to this one reach it.
    #[inline]
    pub(super) fn look_for_redirection(&mut self) {
        if self.state.subscription.is_none() && self.client.queue().is_some() {
            self.state.subscribe(&self.server, &self.client);
        }
    }

    /// Runs the gathered requests that this one cannot be gathered with; false if it must wait for them.
    #[inline]
    fn runs_those_before(&mut self, accepted: &Accepted, args: Args<'_>, found: &Found<'_>, out: &mut Output) -> bool {
        let Self { server, session, state, .. } = self;
        if let Some(scripts) = &self.scripts
            && !(may_join_scripts(accepted, args, state, server, session) && pending_request::has_room(scripts, args))
        {
            self.begin_scripts();
            return false;
        }
        !session.has_gathered()
            || (found.may_be_gathered() && is_for_engine(accepted, args, state, server))
            || session.run_gathered(found.input, out)
    }

    #[cold]
    fn refuse(&mut self, error: CommandError, named: Option<CommandId>, args: Args<'_>, out: &mut Output) {
        let Self { server, client, session, state, .. } = self;
        if is_http(args) {
            server.attacks.come(ATTACK_PAUSE, || warn_of_attack(client));
            state.is_closing = true;
            return;
        }
        if let Some(id) = commands::named_in_full(named, args).filter(|&id| lacks_value(id, args, &error))
            && server.pubsub.has_monitors()
        {
            monitor::show(server, &client.address.monitored(), state.context.database.into(), id, args);
        }
        let error = refused(server, error, named, args, client, state);
        session.reply_locally(state.context.resp3, out.buffer(), |reply| reply.error(error));
    }

    /// What a request must wait for, if anything.
    fn paused_by(&self, id: CommandId, args: Args<'_>) -> Option<PausedBy> {
        let Self { server, state, .. } = self;
        if server.pause.holds(|| self.may_change_or_publish(id, args)) {
            return Some(PausedBy::Pause);
        }
        let changes_one = |held: &_| may_change_one_of(held, (id, args), state, &server.instance);
        server.pause.holds_keys(changes_one).map(PausedBy::Keys)
    }

    fn may_change_or_publish(&self, id: CommandId, args: Args<'_>) -> bool {
        may_change(&self.server.services.scripting, id, args, &self.state) || may_publish(id, &self.state)
    }

    /// Waits until the request may be accepted, or closes the connection if that never comes; returns whether the
    /// request is done with.
    #[cold]
    fn pause(&mut self, by: PausedBy) -> bool {
        if self.server.pause.has_ended_for_good() {
            // No snapshot would have its changes.
            self.state.is_closing = true;
            return true;
        }
        self.pause = Some(by);
        self.client.is_paused.store(true, Ordering::Relaxed);
        false
    }

    /// Takes on a request that runs now; false if it must wait for earlier replies.
    #[inline]
    fn accept_allowed(
        &mut self,
        (id, command): (CommandId, &'static Command),
        args: Args<'_>,
        found: &Found<'_>,
        out: &mut Output,
    ) -> bool {
        let Self { server, client, session, state, .. } = self;
        if comes_after_replies((id, command), args) && session.replied() < session.accepted() {
            return false;
        }
        let defers = command.defers(args, &server.services);
        let is_local = command.request == Request::Local && !defers;
        if server.pubsub.notified() != Class::NONE && !is_local && !session.keeps_events_in_order(id, args) {
            return false;
        }
        // Commands that the connection runs are shown after they have run: one of them may end the monitoring. EXEC
        // follows what it runs.
        if server.pubsub.has_monitors() && !is_local && !command.flags.has(Flags::RUNS_QUEUED) {
            monitor::show(server, &client.address.monitored(), state.context.database.into(), id, args);
        }
        if defers || asks_for_permissions(command, state) || !session.is_batchable(id, args) {
            self.defer((id, command), args, out);
        } else if is_local {
            self.run_here((id, command), args, found, out);
        } else {
            self.gather_or_submit(id, args, found, out);
        }
        true
    }

    /// Hands a request to the engine: to run with others of its read, if there are any.
    #[inline]
    fn gather_or_submit(&mut self, id: CommandId, args: Args<'_>, found: &Found<'_>, out: &mut Output) {
        let Self { session, state, .. } = self;
        let has_company = session.has_gathered() || !found.is_last();
        let may_gather = has_company && found.may_be_gathered();
        if !(may_gather && session.gather(id, args, state.context, found.place.clone())) {
            session.submit(id, args, state.context, out);
        }
    }

    /// Begins a request whose reply comes later, or gathers a script with others.
    fn defer(&mut self, (id, command): (CommandId, &'static Command), args: Args<'_>, out: &mut Output) {
        let Self { server, client, session, state, .. } = self;
        let mut context = RequestContext { server, client, session, state };
        if !command.flags.has(Flags::SCRIPT) {
            self.pending = pending_request::begin(&mut context, id, args, out);
            return;
        }
        pending_request::gather(&mut self.scripts, &context, id, args);
        if self.is_muted {
            // Whether replies are dropped is the same for all that run together.
            self.begin_scripts();
        }
    }

    /// Runs a command that the connection itself runs.
    fn run_here(
        &mut self,
        (id, command): (CommandId, &'static Command),
        args: Args<'_>,
        found: &Found<'_>,
        out: &mut Output,
    ) {
        let Self { server, client, session, state, .. } = self;
        report_slow(server, client, session);
        let request_bytes = found.input.len() - found.place.start;
        let took = run_local(server, client, session, state, id, (args, request_bytes), out.buffer());
        session.note_spent(took);
        state.look_at_user(&server.users);
        // A subcommand that does not exist, or has the wrong arguments, is refused.
        if server.pubsub.has_monitors() && commands::subcommand(id, args).is_ok() {
            monitor::show(server, &client.address.monitored(), state.context.database.into(), id, args);
        }
        if command.flags.has(Flags::MESSAGES)
            && let Some(subscription) = &mut state.subscription
        {
            // Messages that it caused come directly after its reply.
            subscription.take_all_messages(state.context.resp3, out.buffer());
        }
    }

    /// Reports the commands that took long.
    #[inline]
    pub(super) fn note_slow(&mut self) {
        report_slow(&self.server, &self.client, &mut self.session);
    }

    pub(super) fn unpause(&mut self) {
        self.pause = None;
        self.client.is_paused.store(false, Ordering::Relaxed);
    }

    /// Whether a request has no reply yet.
    pub(super) fn has_unreplied(&self) -> bool {
        self.session.replied() < self.session.accepted()
    }

    /// Gives up a waiting request.
    pub(super) async fn end(&mut self) {
        if let Some(transaction) = self.pending.take().and_then(PendingRequest::end) {
            self.session.forget_rest();
            // It may have the keys, whose locks would block the thread.
            self.server.services.scripting.busy.ended().await;
            self.session.begin(transaction);
            self.session.flush().await;
        }
    }

    /// Continues with a request whose reply comes later; true if it made progress.
    pub(super) fn go_on(&mut self, out: &mut Output) -> bool {
        let Some(pending) = self.pending.take() else { return false };
        let was = pending.progress();
        let Self { server, client, session, state, .. } = self;
        self.pending = pending_request::go_on(pending, &mut RequestContext { server, client, session, state }, out);
        self.pending.as_ref().is_none_or(|pending| pending.progress() != was)
    }
}

/// Whether a request goes to the engine directly, without being shown to monitors.
fn is_for_engine(accepted: &Accepted, args: Args<'_>, state: &ConnectionState, server: &Server) -> bool {
    accepted
        .as_ref()
        .is_ok_and(|(_, command)| command.request != Request::Local && !command.defers(args, &server.services))
        && !accepted.as_ref().is_ok_and(|(_, command)| asks_for_permissions(command, state))
        && state.multi.is_none()
        && !server.pause.may_hold()
        && !server.pubsub.has_monitors()
}

/// Whether a request is a script that may run together with those before it, under the same conditions.
fn may_join_scripts<S: Session>(
    accepted: &Accepted,
    args: Args<'_>,
    state: &ConnectionState,
    server: &Server,
    session: &S,
) -> bool {
    let runs_apart = |id, command| asks_for_permissions(command, state) || !session.is_batchable(id, args);
    accepted.as_ref().is_ok_and(|&(id, command)| command.flags.has(Flags::SCRIPT) && runs_apart(id, command))
        && state.multi.is_none()
        && !server.pause.may_hold()
}

/// Whether a request asks what its user may do when it runs, which only a transaction tells it.
#[inline]
fn asks_for_permissions(command: &Command, state: &ConnectionState) -> bool {
    !state.login.user().is_unrestricted() && (command.flags.has(Flags::SCRIPT) || command.keys.may_be_unnamed())
}

#[inline]
fn report_slow<S: Session>(server: &Server, client: &Client, session: &mut S) {
    let slow = session.slow();
    if !slow.is_empty() {
        slow.drain(..).for_each(|slow| server.note_slow(client, slow));
    }
}

/// Queues a command for EXEC.
fn queue<S: Session>(
    server: &Server,
    session: &mut S,
    client: &Client,
    state: &mut ConnectionState,
    id: CommandId,
    args: Args<'_>,
    out: &mut Vec<u8>,
) {
    let multi = state.multi.as_mut().expect("the caller has seen it");
    let queued =
        commands::subcommand(id, args).and_then(|_| match multi.is_refused || multi.transaction.queue(id, args) {
            _ if commands::command(id).flags.has(Flags::NO_MULTI) => {
                Err(CommandError::Text("ERR Command not allowed inside a transaction"))
            }
            true => Ok(()),
            false => Err(CommandError::Text("ERR Transaction is too large")),
        });
    if let Err(error) = &queued {
        multi.refuse();
        local::note_refused(server, id, args, error);
    }
    client.note_queued(multi.transaction.len(), multi.transaction.byte_len());
    session.reply_locally(state.context.resp3, out, |reply| match queued {
        Ok(()) => reply.simple("QUEUED"),
        Err(error) => reply.error(error),
    });
}

fn run_local<S: Session>(
    server: &Server,
    client: &Client,
    session: &mut S,
    state: &mut ConnectionState,
    id: CommandId,
    (args, request_bytes): (Args<'_>, usize),
    out: &mut Vec<u8>,
) -> u64 {
    let mut took = 0;
    session.reply_locally(state.context.resp3, out, |reply| {
        let mut call =
            LocalCall { server, client, state, is_in_exec: false, is_in_script: false, receivers: None, request_bytes };
        took = local::dispatch(id, &mut call, args, reply);
    });
    took
}

/// Whether a request waits for the replies of all earlier ones of its connection. A container whose subcommands run in
/// the connection leaves it to them.
#[inline]
fn comes_after_replies((id, command): (CommandId, &Command), args: Args<'_>) -> bool {
    let waits = |command: &Command| command.flags.has_any(Flags::MESSAGES.and(Flags::AFTER_REPLIES));
    let subcommand = || commands::named_in_full(Some(id), args).map(commands::command);
    waits(command) || command.subcommands == Subcommands::Local && subcommand().is_some_and(waits)
}
