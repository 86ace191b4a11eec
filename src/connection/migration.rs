//! MIGRATE: moves keys to another server, or copies them.
//!
//! Redis does nothing else until the target has replied. Here only commands that may change one of the keys wait, and
//! none if they are copied. The keys are read in one step, sent while the shards go on, and those that the target has
//! taken are removed in a second step. A command that was accepted before may still have changed one in between, and
//! one may have expired: so they are watched, and sent again if one has. One that has gone is then removed from the
//! target, too.

use super::pending_request::RequestContext;
use crate::base::network::Network;
use crate::base::tls::ClientConfig;
use crate::commands::{self, Bounds, CommandId, Ending, MigrateRequest, READONLY, Transaction, Watched};
use crate::config::Directive;
use crate::engine::Session;
use crate::keyspace::Caller;
use crate::replication::link::{CachedLink, CachedLinks, Link, Login, Target};
use crate::resp::{Args, CommandError, Limits, OwnedArgs, Replies, Reply, RequestParser, Step};
use crate::state::Server;
use crate::state::pause::{HeldSince, Hold};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};

/// How many bytes are sent at once: the target may be silent for a time before it has taken them.
const SENT_AT_ONCE: usize = 64 * 1024;

type Key = Box<[u8]>;

/// A request of MIGRATE that has no reply yet.
#[derive(Debug)]
pub struct Migration {
    asked: Asked,
    stage: Stage,
}

/// What it waits for.
#[derive(Debug)]
enum Stage {
    /// Another request that sends some of its keys.
    Queued(HeldSince),
    /// The engine, which reads the keys.
    Reading(Watched),
    /// The target, to which these keys were sent.
    Sending(Watched, Vec<Key>, Arc<Exchange>, DropGuard),
    /// The end of a pause, during which nothing is removed.
    Paused(Watched, Vec<Key>),
    /// The engine, which removes the keys that the target has taken.
    Removing(Vec<Key>),
}

/// The request, and what has come of it.
#[derive(Debug)]
struct Asked {
    id: CommandId,
    /// The arguments.
    words: Vec<Key>,
    /// Where the keys are in them.
    keys: Range<usize>,
    /// Makes commands wait that may change keys which are to be removed.
    hold: Option<Hold>,
    target: Target,
    /// The database of the target.
    database: i64,
    /// How long the target may be silent.
    timeout: Duration,
    is_copy: bool,
    /// The keys that the target has taken, but that have changed here since.
    outdated: Vec<Key>,
    /// The first error of the target; the keys that it does not concern are moved.
    error: Option<String>,
}

impl Migration {
    /// Begins a request.
    pub fn begin<S: Session>(
        context: &mut RequestContext<'_, S>,
        id: CommandId,
        args: Args<'_>,
    ) -> Result<Self, CommandError> {
        let request = MigrateRequest::parse(args)?;
        let mut asked = Asked {
            id,
            words: args.iter().map(Key::from).collect(),
            keys: request.keys,
            hold: None,
            target: Target {
                host: String::from_utf8_lossy(request.host).into_owned(),
                // Nobody listens at 0: connecting fails.
                port: std::str::from_utf8(request.port).ok().and_then(|port| port.parse().ok()).unwrap_or(0),
                login: request
                    .login
                    .map(|(user, password)| Login { user: user.map(Key::from), password: password.into() }),
                is_encrypted: context.server.config.is_on(Directive::TlsCluster),
            },
            database: request.database,
            timeout: request.timeout,
            is_copy: request.is_copy,
            outdated: Vec::new(),
            error: None,
        };
        let stage = asked.begin(context);
        Ok(Self { asked, stage })
    }

    /// The number of its stage: when that changes, it has made progress.
    pub fn stage(&self) -> u8 {
        match self.stage {
            Stage::Queued(_) => 0,
            Stage::Reading(_) => 1,
            Stage::Sending(..) => 2,
            Stage::Paused(..) => 3,
            Stage::Removing(_) => 4,
        }
    }

    /// Whether it waits for something other than the engine.
    pub fn is_waiting(&self) -> bool {
        matches!(self.stage, Stage::Queued(_) | Stage::Sending(..) | Stage::Paused(..))
    }

    /// Waits until [`go_on`](Self::go_on) may make progress. Dropping the future loses nothing.
    pub async fn changed(&self, server: &Server) {
        match &self.stage {
            Stage::Reading(_) | Stage::Removing(_) => {}
            Stage::Queued(since) => server.pause.released(*since).await,
            Stage::Sending(_, _, exchange, _) => exchange.ended().await,
            Stage::Paused(..) => server.pause.ended().await,
        }
    }

    /// Continues; `None` once it has its reply.
    pub fn go_on<S: Session>(self, context: &mut RequestContext<'_, S>, out: &mut Vec<u8>) -> Option<Self> {
        let Self { mut asked, stage } = self;
        let stage = match stage {
            Stage::Reading(watched) => match context.session.take_finished() {
                None => Some(Stage::Reading(watched)),
                Some(read) => asked.send(watched, *read, context, out),
            },
            Stage::Sending(watched, keys, exchange, end) => match exchange.take() {
                None => Some(Stage::Sending(watched, keys, exchange, end)),
                Some(outcome) => asked.end_sending(watched, keys, outcome, context, out),
            },
            Stage::Queued(_) | Stage::Paused(..) if context.server.pause.has_ended_for_good() => {
                // No snapshot would have the change.
                context.state.is_closing = true;
                None
            }
            Stage::Queued(_) => Some(asked.begin(context)),
            Stage::Paused(watched, keys) => Some(asked.remove(watched, keys, context)),
            Stage::Removing(keys) => match context.session.take_finished() {
                None => Some(Stage::Removing(keys)),
                Some(removal) => asked.end_removal(keys, &removal, context, out),
            },
        };
        stage.map(|stage| Self { asked, stage })
    }
}

impl Asked {
    /// Begins to read the keys, and holds them if they are to be removed; or waits, if another request holds some.
    fn begin<S: Session>(&mut self, context: &mut RequestContext<'_, S>) -> Stage {
        if self.is_copy {
            return self.read(context);
        }
        match context.server.pause.hold(context.state.context.database, self.words[self.keys.clone()].to_vec()) {
            Err(since) => Stage::Queued(since),
            Ok(hold) => {
                self.hold = Some(hold);
                self.read(context)
            }
        }
    }

    /// Begins to read the keys.
    fn read<S: Session>(&self, context: &mut RequestContext<'_, S>) -> Stage {
        let watched = Watched::default();
        let caller = Caller { watch: Some(Arc::clone(&watched.watch)), ..Caller::default() };
        let bounds = bounds(context.server);
        let words: OwnedArgs = self.words.iter().collect();
        let transaction = Transaction::of_one(self.id, words.args(), context.state.context, bounds, caller);
        context.session.begin(Box::new(transaction));
        Stage::Reading(watched)
    }

    /// Sends what was read.
    fn send<S: Session>(
        &mut self,
        mut watched: Watched,
        mut read: Transaction,
        context: &mut RequestContext<'_, S>,
        out: &mut Vec<u8>,
    ) -> Option<Stage> {
        let len = read.reply_ends().map(|(_, _, end)| end).last().unwrap_or(0);
        let replies = read.take_replies();
        let requests = replies.at(0..len);
        if requests.starts_with(b"-") {
            return self.reply(context, out, |reply| reply.raw(requests));
        }
        let Some(keys) = keys_of(requests) else {
            self.error = Some("ERR a value is too large to be sent".to_owned());
            return self.end(context, out);
        };
        if keys.is_empty() && self.outdated.is_empty() {
            return self.reply(context, out, |reply| reply.simple("NOKEY"));
        }
        watched.add(context.state.context.database, keys.iter().map(|key| &**key));
        let left: HashSet<&Key> = keys.iter().collect();
        let gone: Vec<Key> = self.outdated.drain(..).filter(|key| !left.contains(key)).collect();
        let mut removals = Vec::new();
        gone.iter().for_each(|key| push_request(&mut removals, &[b"DEL", key]));
        let exchange = Arc::new(Exchange::default());
        let end = CancellationToken::new();
        let sender = Sender {
            requests: replies,
            requests_len: len,
            removals,
            replies: keys.len() + gone.len(),
            target: self.target.clone(),
            database: self.database,
            timeout: self.timeout,
            source: context.server.config.text(Directive::BindSourceAddr),
            network: Arc::clone(&context.server.network),
            links: Arc::clone(&context.server.links),
            tls: context.server.tls.contexts().filter(|_| self.target.is_encrypted).map(|contexts| contexts.client),
        };
        let (done, ended) = (Arc::clone(&exchange), end.clone());
        context.server.tasks.spawn("migrate", async move {
            let outcome = ended.run_until_cancelled(sender.run()).await;
            done.end(outcome.unwrap_or_default());
        });
        Some(Stage::Sending(watched, keys, exchange, end.drop_guard()))
    }

    /// The target has replied, or will not.
    fn end_sending<S: Session>(
        &mut self,
        watched: Watched,
        keys: Vec<Key>,
        outcome: Outcome,
        context: &mut RequestContext<'_, S>,
        out: &mut Vec<u8>,
    ) -> Option<Stage> {
        let Outcome { taken, error } = outcome;
        self.error = self.error.take().or(error);
        let taken: Vec<Key> =
            keys.into_iter().zip(taken).filter(|(_, is_taken)| *is_taken).map(|(key, _)| key).collect();
        match self.is_copy || taken.is_empty() {
            true => self.end(context, out),
            false => Some(self.remove(watched, taken, context)),
        }
    }

    /// Removes the keys that the target has taken, unless one has changed.
    fn remove<S: Session>(&self, watched: Watched, keys: Vec<Key>, context: &mut RequestContext<'_, S>) -> Stage {
        if context.server.pause.holds(|| true) {
            return Stage::Paused(watched, keys);
        }
        let words: OwnedArgs = std::iter::once(b"DEL".as_slice()).chain(keys.iter().map(AsRef::as_ref)).collect();
        let mut transaction = Transaction::default();
        transaction.push(commands::find(b"DEL").expect("it is a command"), words.args());
        transaction.close(Some(watched), context.state.context, bounds(context.server), None);
        context.session.begin(Box::new(transaction));
        Stage::Removing(keys)
    }

    /// The keys are removed, or one had changed.
    fn end_removal<S: Session>(
        &mut self,
        keys: Vec<Key>,
        removal: &Transaction,
        context: &mut RequestContext<'_, S>,
        out: &mut Vec<u8>,
    ) -> Option<Stage> {
        match removal.ending() {
            // It ends: only what was accepted before the keys were held, and time, can have changed one.
            Ending::Aborted => Some(self.send_again(keys, context)),
            Ending::Refused => {
                self.error.get_or_insert_with(|| READONLY.to_owned());
                self.end(context, out)
            }
            Ending::Done | Ending::Open | Ending::Blocked => self.end(context, out),
        }
    }

    /// Reads the keys again, to replace what the target has taken of them.
    fn send_again<S: Session>(&mut self, keys: Vec<Key>, context: &mut RequestContext<'_, S>) -> Stage {
        let options = ["MIGRATE", "", "", "", &self.database.to_string(), "0", "REPLACE", "KEYS"];
        self.words = options.into_iter().map(|word| Key::from(word.as_bytes())).chain(keys.iter().cloned()).collect();
        self.outdated = keys;
        self.read(context)
    }

    /// Replies what has come of it.
    fn end<S: Session>(&self, context: &mut RequestContext<'_, S>, out: &mut Vec<u8>) -> Option<Stage> {
        match &self.error {
            None => self.reply(context, out, |reply| reply.ok()),
            Some(error) => {
                context.server.instance.calls.note_run(self.id.0, 0, false, true);
                context.server.instance.calls.note_error_text(error);
                self.reply(context, out, |reply| reply.error(error))
            }
        }
    }

    fn reply<S: Session>(
        &self,
        context: &mut RequestContext<'_, S>,
        out: &mut Vec<u8>,
        write: impl FnOnce(&mut Reply<'_>),
    ) -> Option<Stage> {
        context.session.reply_locally(context.state.context.resp3, out, write);
        None
    }
}

/// What is read is not sent to the client.
fn bounds(server: &Server) -> Bounds {
    Bounds { databases: server.config.size(Directive::Databases), reply_bytes_max: usize::MAX }
}

/// The keys of requests that each have one, as their first argument; `None` if one is longer than a request may be.
fn keys_of(mut requests: &[u8]) -> Option<Vec<Key>> {
    let limits = Limits { bulk_len_max: usize::MAX >> 1, authenticated: true };
    let mut parser = RequestParser::default();
    let mut keys = Vec::new();
    while !requests.is_empty() {
        let Ok(Step::Request(len)) = parser.parse(requests, limits) else { return None };
        keys.push(Key::from(&parser.args(requests)[1]));
        requests = &requests[len..];
    }
    Some(keys)
}

fn push_request(requests: &mut Vec<u8>, words: &[&[u8]]) {
    requests.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        requests.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        requests.extend_from_slice(word);
        requests.extend_from_slice(b"\r\n");
    }
}

/// What has come of sending keys.
#[derive(Debug, Default)]
struct Outcome {
    /// Whether the target has taken each; shorter if it has not replied to all.
    taken: Vec<bool>,
    /// The first error.
    error: Option<String>,
}

/// The outcome of sending, when it is there.
#[derive(Debug, Default)]
struct Exchange {
    outcome: Mutex<Option<Outcome>>,
    has_ended: Notify,
}

impl Exchange {
    fn end(&self, outcome: Outcome) {
        *self.outcome.lock() = Some(outcome);
        self.has_ended.notify_one();
    }

    fn take(&self) -> Option<Outcome> {
        self.outcome.lock().take()
    }

    async fn ended(&self) {
        if self.outcome.lock().is_none() {
            self.has_ended.notified().await;
        }
    }
}

/// Why nothing more comes from a target.
#[derive(Debug, Clone, Copy)]
enum Failed {
    Connecting,
    Writing,
    Reading,
}

impl Failed {
    /// As Redis says it, in whose words the target is once the client.
    fn text(self) -> String {
        let what = match self {
            Self::Connecting => "connecting to the client",
            Self::Writing => "writing to target instance",
            Self::Reading => "reading to target instance",
        };
        format!("IOERR error or timeout {what}")
    }
}

/// Sends requests to a target, and reads its replies.
struct Sender {
    /// The first requests, as the engine has written them.
    requests: Replies,
    requests_len: usize,
    /// The other requests.
    removals: Vec<u8>,
    /// How many replies all of them have.
    replies: usize,
    target: Target,
    database: i64,
    timeout: Duration,
    source: String,
    network: Arc<dyn Network>,
    links: Arc<CachedLinks>,
    tls: Option<Arc<ClientConfig>>,
}

impl Sender {
    async fn run(self) -> Outcome {
        if let Some(link) = self.links.take(&self.target) {
            let mut outcome = Outcome::default();
            match self.exchange(link, &mut outcome).await {
                // The target has closed the connection since it was used, most probably before it read these requests.
                Err((error, _)) if outcome.taken.is_empty() && error.kind() != ErrorKind::TimedOut => {}
                ended => return outcome.or_failed(ended),
            }
        }
        let mut outcome = Outcome::default();
        let ended = match self.connect().await {
            Ok(link) => self.exchange(CachedLink { link, database: None }, &mut outcome).await,
            Err(error) => Err((error, Failed::Connecting)),
        };
        outcome.or_failed(ended)
    }

    async fn connect(&self) -> io::Result<Link> {
        if self.target.is_encrypted && self.tls.is_none() {
            return Err(io::Error::other("TLS is not configured yet"));
        }
        let timeout = self.timeout;
        let address = (self.target.host.as_str(), self.target.port);
        let counted = Arc::new(AtomicU64::new(0));
        Link::connect(&*self.network, address, &self.source, self.tls.as_ref(), Box::new(move || timeout), counted)
            .await
    }

    /// Sends everything, then reads all replies; keeps the connection if it may be used again.
    async fn exchange(&self, link: CachedLink, outcome: &mut Outcome) -> Result<(), (io::Error, Failed)> {
        let CachedLink { mut link, database } = link;
        let selects = database != Some(self.database);
        let mut greeting = Vec::new();
        if let Some(Login { user, password }) = &self.target.login {
            let words: Vec<&[u8]> =
                std::iter::once(b"AUTH".as_slice()).chain(user.as_deref()).chain([&**password]).collect();
            push_request(&mut greeting, &words);
        }
        if selects {
            push_request(&mut greeting, &[b"SELECT", self.database.to_string().as_bytes()]);
        }
        let (written, read) = (|error| (error, Failed::Writing), |error| (error, Failed::Reading));
        link.send_raw(&greeting).await.map_err(written)?;
        for _ in 0..usize::from(self.target.login.is_some()) + usize::from(selects) {
            outcome.note(&link.line().await.map_err(read)?);
        }
        // Where the database is not selected, or the user refused, nothing is sent: a connection that was used before
        // is logged in already.
        if outcome.error.is_none() {
            let requests = self.requests.at(0..self.requests_len);
            for piece in requests.chunks(SENT_AT_ONCE).chain(self.removals.chunks(SENT_AT_ONCE)) {
                link.send_raw(piece).await.map_err(written)?;
            }
            for _ in 0..self.replies {
                let is_taken = outcome.note(&link.line().await.map_err(read)?);
                outcome.taken.push(is_taken);
            }
        }
        let database = outcome.error.is_none().then_some(self.database);
        self.links.keep(self.target.clone(), CachedLink { link, database });
        Ok(())
    }
}

impl Outcome {
    /// Notes a reply of the target; false if it is an error.
    fn note(&mut self, reply: &str) -> bool {
        let Some(error) = reply.strip_prefix('-') else { return true };
        self.error.get_or_insert_with(|| format!("ERR Target instance replied with error: {error}"));
        false
    }

    /// The outcome, with an error if nothing more came from the target. Its own errors come first.
    fn or_failed(self, ended: Result<(), (io::Error, Failed)>) -> Self {
        let failed = ended.err().map(|(error, failed)| {
            tracing::debug!("MIGRATE: {}: {error}", failed.text());
            failed.text()
        });
        Self { error: self.error.or(failed), ..self }
    }
}
