//! Commands that run in the connection, about itself or about the server: one function for each, with access to the
//! connection.

mod acl;
mod by_row;
mod clients;
mod cluster;
mod configuration;
mod following;
mod general;
mod graph;
mod observing;
mod pubsub;
mod replication;
mod scripts;
mod tracking;
pub(super) mod waiting;

pub use clients::{asks_for_replies, stop_request};
pub use scripts::serve as serve_scripts;
pub use tracking::ClientTracking;

use crate::acl::{Account, Users};
use crate::base::tsc;
use crate::commands::{
    CommandId, Context, Outcome, Transaction, Watched, named_in_full, plain_function, slow, subcommand,
};
use crate::config::Directive;
use crate::connection::permissions::Login;
use crate::connection::replica_feed;
use crate::keyspace::Tracking;
use crate::pubsub::Subscription;
use crate::replication::Introduction;
use crate::resp::{Args, CommandError, Reply};
use crate::state::Server;
use crate::state::client_list::Client;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The context of a local command.
pub struct LocalCall<'a> {
    /// The server.
    pub server: &'a Server,
    /// The connection as other connections see it.
    pub client: &'a Client,
    /// The connection's own state.
    pub state: &'a mut ConnectionState,
    /// Whether it runs inside EXEC.
    pub is_in_exec: bool,
    /// Whether a script runs it, which holds the data: nobody else can be asked about that.
    pub is_in_script: bool,
    /// How many connections received the message of a PUBLISH, if its transaction has sent it.
    pub receivers: Option<usize>,
    /// Bytes of the request as it came, and of those after it.
    pub request_bytes: usize,
}

impl LocalCall<'_> {
    /// Whether a directive with the values `no`, `yes` and `local` permits something to this connection.
    pub fn may(&self, directive: Directive) -> bool {
        self.server.allows(directive, self.client)
    }

    /// Makes the connection that of a user.
    fn log_in(&mut self, account: Arc<Account>, is_authenticated: bool) {
        self.client.set_account(Arc::clone(&account));
        self.state.log_in(Login::new(account, &self.server.users), is_authenticated);
    }

    fn choose_database(&mut self, number: u16) {
        self.state.context.database = number;
        self.client.database.store(number, Ordering::Relaxed);
    }

    /// The subscription of the connection, created if there is none.
    pub fn subscription(&mut self) -> &mut Subscription {
        self.state.subscribe(self.server, self.client)
    }

    /// The bytes of the running request, and those of its arguments.
    fn running(&self, args: Args<'_>) -> Option<(u64, u64)> {
        Some((self.request_bytes as u64, args.byte_len() as u64))
    }

    fn choose_touching(&mut self, no_touch: bool) {
        self.state.context.no_touch = no_touch;
        self.client.no_touch.store(no_touch, Ordering::Relaxed);
    }

    fn choose_protocol(&mut self, resp3: bool) {
        self.state.context.resp3 = resp3;
        self.client.choose_protocol(resp3);
    }
}

/// State of a connection that commands change.
#[derive(Debug)]
pub struct ConnectionState {
    /// Its protocol, and its selected database.
    pub context: Context,
    /// Whether it may run commands.
    pub is_authenticated: bool,
    /// Its user.
    pub login: Login,
    /// Whether it may run all commands, on all keys and channels.
    may_all: bool,
    /// Whether it closes once its replies are sent.
    pub is_closing: bool,
    /// The commands queued since MULTI.
    pub multi: Option<Multi>,
    /// The keys that it watches, and the watch that breaks when one changes.
    pub watched: Option<Watched>,
    /// Whether all its writes were on the disk when its last EXEC began.
    pub is_synced: bool,
    /// Its subscriptions; none before its first SUBSCRIBE.
    pub subscription: Option<Box<Subscription>>,
    /// What is tracked for it: CLIENT TRACKING.
    pub tracking: Option<Box<ClientTracking>>,
    /// The replies that it does not want.
    pub mute: Mute,
    /// What it has said about itself as a replica.
    pub introduction: Introduction,
    /// Whether it becomes a replica once its replies are sent.
    pub sync: Option<replica_feed::Request>,
}

/// Replies that a connection does not want: CLIENT REPLY.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mute {
    /// No replies are dropped.
    #[default]
    Nothing,
    /// The reply to the next request.
    Next,
    /// All of them.
    All,
}

impl ConnectionState {
    /// The state of a new connection.
    pub fn new(users: &Users) -> Self {
        let login = Login::new(Arc::clone(users.default_account()), users);
        let is_authenticated = users.is_open();
        Self {
            context: Context::default(),
            is_authenticated,
            may_all: is_authenticated && login.user().is_unrestricted(),
            login,
            is_closing: false,
            multi: None,
            watched: None,
            is_synced: false,
            subscription: None,
            tracking: None,
            mute: Mute::Nothing,
            introduction: Introduction::default(),
            sync: None,
        }
    }

    /// Whether it is in no state that its requests depend on.
    #[inline]
    pub fn is_ordinary(&self) -> bool {
        self.may_all && self.multi.is_none() && self.subscription.is_none()
    }

    fn log_in(&mut self, login: Login, is_authenticated: bool) {
        self.may_all = is_authenticated && login.user().is_unrestricted();
        // It may have been deleted since the password was checked.
        self.is_closing |= login.account().is_deleted();
        (self.login, self.is_authenticated) = (login, is_authenticated);
    }

    /// Looks at its user again if users have changed.
    #[inline]
    pub fn look_at_user(&mut self, users: &Users) {
        if !self.login.is_current(users) {
            self.renew_login(users);
        }
    }

    #[cold]
    fn renew_login(&mut self, users: &Users) {
        self.log_in(Login::new(Arc::clone(self.login.account()), users), self.is_authenticated);
    }

    /// The request whose reply CLIENT REPLY SKIP leaves out is there.
    pub fn end_skip(&mut self) {
        if self.mute == Mute::Next {
            self.mute = Mute::Nothing;
        }
    }

    /// The subscription of the connection, created if there is none.
    pub fn subscribe(&mut self, server: &Server, client: &Client) -> &mut Subscription {
        self.subscription.get_or_insert_with(|| {
            let subscriber = client.subscriber(&server.pubsub);
            Box::new(Subscription::new(Arc::clone(&server.pubsub), subscriber))
        })
    }

    /// What its next request tells the keyspace about CLIENT TRACKING.
    #[inline]
    pub fn next_tracking(&self) -> Tracking {
        self.tracking.as_ref().map_or(Tracking::NONE, |tracking| tracking.of_next_request())
    }

    /// A request is accepted: what CLIENT CACHING has asked for ends, unless it is queued, or another of CLIENT's.
    #[inline]
    pub fn end_asking(&mut self, args: Args<'_>) {
        if let Some(tracking) = &mut self.tracking
            && self.multi.is_none()
            && !args.is(0, "CLIENT")
        {
            tracking.end_asking();
        }
    }

    /// Whether it is subscribed to anything.
    pub fn is_listening(&self) -> bool {
        self.subscription.as_ref().is_some_and(|subscription| subscription.is_active())
    }

    /// Whether it is a monitor.
    pub fn is_monitor(&self) -> bool {
        self.subscription.as_ref().is_some_and(|subscription| subscription.is_monitor())
    }

    /// Whether it may only use commands about subscriptions: RESP2 has no other way to distinguish messages from
    /// replies.
    pub fn is_subscriber_mode(&self) -> bool {
        self.subscription.is_some() && !self.context.resp3 && self.is_listening()
    }
}

/// A transaction while it is queued.
#[derive(Debug, Default)]
pub struct Multi {
    /// Its commands.
    pub transaction: Box<Transaction>,
    /// Whether one of them was refused, so that none will run.
    pub is_refused: bool,
}

impl Multi {
    /// Drops the commands, which will not run.
    pub fn refuse(&mut self) {
        self.is_refused = true;
        *self.transaction = Transaction::default();
    }
}

/// The function of a command that runs in the connection.
pub type LocalFn = fn(&mut LocalCall<'_>, Args<'_>, &mut Reply<'_>) -> Outcome;

/// Runs a local command, or the subcommand that its second argument names. Returns the ticks that it has taken.
pub fn dispatch(id: CommandId, call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> u64 {
    let id = match subcommand(id, args) {
        Ok(id) => id,
        Err(error) => {
            note_refused(call.server, id, args, &error);
            reply.error(error);
            return 0;
        }
    };
    if !call.is_in_exec {
        call.client.note_last_command(Some(id));
    }
    let began_at = tsc::now();
    let outcome = match plain_function(id) {
        Some(function) => function(&call.server.services, args, reply),
        None => by_row::of(id)(call, args, reply),
    };
    let took = tsc::now().saturating_sub(began_at);
    call.server.instance.calls.note_run(id.0, took, true, outcome.is_err());
    if let Err(error) = outcome {
        call.server.instance.calls.note_error(&error);
        reply.error(error);
    }
    if call.server.instance.calls.is_slow(took) {
        call.server.note_slow(call.client, slow(id, args, took));
    }
    took
}

/// Counts a request that is refused as one of what it names, be that a subcommand: one that does not exist is no
/// command.
#[cold]
pub fn note_refused(server: &Server, id: CommandId, args: Args<'_>, error: &CommandError) {
    let calls = &server.instance.calls;
    if let Some(named) = named_in_full(Some(id), args) {
        calls.note_rejected(named.0);
    }
    calls.note_error(error);
}
