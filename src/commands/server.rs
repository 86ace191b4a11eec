//! Commands that run in the connection: about itself and about the server.

use super::arguments::integer;
use super::cluster::must_have_databases;
use super::keys::{database_id, database_number};
use super::lookup::find_subcommand;
use super::table::{CommandId, command, local_function};
use super::transaction::Transaction;
use super::{CommandError, Context, Outcome};
use crate::base::clock::uptime_ms;
use crate::base::ticks;
use crate::config::Directive;
use crate::keyspace::Watch;
use crate::pubsub::Subscription;
use crate::resp::{Args, Reply, parse_i64, parse_u64, quoted};
use crate::server::Server;
use crate::state::clients::Client;
use crate::stats::calls;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What a local command works on.
pub struct LocalCall<'a> {
    /// The server.
    pub server: &'a Server,
    /// The connection as others see it.
    pub client: &'a Client,
    /// The connection's own state.
    pub state: &'a mut ConnectionState,
    /// Whether it runs inside EXEC.
    pub is_in_exec: bool,
    /// How many got the message of a PUBLISH, where its transaction has sent it.
    pub receivers: Option<usize>,
    /// Bytes of the request, as it came, and of what came behind it.
    pub request_bytes: usize,
}

impl LocalCall<'_> {
    /// Whether a directive of `no`, `yes` and `local` allows this connection something.
    pub fn may(&self, directive: Directive) -> bool {
        self.server.allows(directive, self.client)
    }

    fn choose_database(&mut self, number: u16) {
        self.state.context.database = number;
        self.client.database.store(number, Ordering::Relaxed);
    }

    /// The subscription of the connection, made where there is none.
    pub fn subscription(&mut self) -> &mut Subscription {
        self.state.subscription.get_or_insert_with(|| {
            let subscription = Box::new(Subscription::new(Arc::clone(&self.server.pubsub)));
            // The first of this connection is its only one.
            _ = self.client.subscriber.set(Arc::clone(subscription.subscriber()));
            subscription
        })
    }

    /// The bytes of the request that is run, and those of its arguments.
    fn running(&self, args: Args<'_>) -> Option<(u64, u64)> {
        Some((self.request_bytes as u64, args.byte_len() as u64))
    }

    fn choose_touching(&mut self, no_touch: bool) {
        self.state.context.no_touch = no_touch;
        self.client.no_touch.store(no_touch, Ordering::Relaxed);
    }

    fn choose_protocol(&mut self, resp3: bool) {
        self.state.context.resp3 = resp3;
        self.client.resp3.store(resp3, Ordering::Relaxed);
    }
}

/// State of a connection that commands change.
#[derive(Debug)]
pub struct ConnectionState {
    /// The protocol that it speaks, and the database that it has selected.
    pub context: Context,
    /// Whether it may run commands.
    pub is_authenticated: bool,
    /// Whether it closes when its replies are out.
    pub is_closing: bool,
    /// What it has queued since MULTI.
    pub multi: Option<Multi>,
    /// The keys that it watches, and what breaks when one changes.
    pub watched: Option<Watched>,
    /// Whether all that it had written was on the disk when its last EXEC began.
    pub is_synced: bool,
    /// What it listens to; none before its first SUBSCRIBE.
    pub subscription: Option<Box<Subscription>>,
    /// The replies that it does not want.
    pub mute: Mute,
}

/// Replies that a connection does not want: CLIENT REPLY.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mute {
    /// It wants all.
    #[default]
    Nothing,
    /// That to the next request.
    Next,
    /// All of them.
    All,
}

impl ConnectionState {
    /// Whether it listens to anything.
    pub fn is_listening(&self) -> bool {
        self.subscription.as_ref().is_some_and(|subscription| subscription.is_active())
    }

    /// Whether it watches the commands of all.
    pub fn is_monitor(&self) -> bool {
        self.subscription.as_ref().is_some_and(|subscription| subscription.is_monitor())
    }

    /// Whether it may only use the commands about subscriptions: RESP2 has no other way to tell messages from replies.
    pub fn is_subscriber_mode(&self) -> bool {
        self.subscription.is_some() && !self.context.resp3 && self.is_listening()
    }
}

/// What WATCH has gathered: what breaks, and the keys with their databases.
pub type Watched = (Arc<Watch>, Vec<(u16, Box<[u8]>)>);

/// A transaction while it is queued.
#[derive(Debug, Default)]
pub struct Multi {
    /// Its commands.
    pub transaction: Box<Transaction>,
    /// Whether one of them was refused, so that none will run.
    pub is_refused: bool,
}

impl Multi {
    /// Forgets the commands, which will not run.
    pub fn refuse(&mut self) {
        self.is_refused = true;
        *self.transaction = Transaction::default();
    }
}

/// The function of a command that runs in the connection.
pub type LocalFn = fn(&mut LocalCall<'_>, Args<'_>, &mut Reply<'_>) -> Outcome;

/// Runs a local command, or the subcommand that its second argument names.
pub fn dispatch_local(id: CommandId, call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) {
    let id = match subcommand(id, args) {
        Ok(id) => id,
        Err(error) => {
            calls::note_error(&error);
            return reply.error(error);
        }
    };
    call.client.last_command.store(id.0, Ordering::Relaxed);
    let began_at = ticks::now();
    let outcome = local_function(id)(call, args, reply);
    let took = ticks::now().saturating_sub(began_at);
    calls::note_run(id.0, took, true, outcome.is_err());
    if let Err(error) = outcome {
        calls::note_error(&error);
        reply.error(error);
    }
    if calls::is_slow(took) {
        call.server.note_slow(call.client, super::slow(id, args, took));
    }
}

/// The subcommand that the arguments of a container name; any other command itself.
pub fn subcommand(id: CommandId, args: Args<'_>) -> Result<CommandId, CommandError> {
    let container = command(id);
    let Some(name) = args.get(1).filter(|_| is_container(container.name)) else {
        return Ok(id);
    };
    let found = find_subcommand(container, name).ok_or_else(|| unknown_subcommand(container.name, name))?;
    match command(found).accepts(args.len()) {
        true => Ok(found),
        false => Err(CommandError::Arity(command(found).name.into())),
    }
}

/// Whether a command does nothing by itself, or can have a subcommand.
fn is_container(name: &str) -> bool {
    matches!(
        name,
        "client"
            | "cluster"
            | "command"
            | "config"
            | "function"
            | "latency"
            | "memory"
            | "object"
            | "pubsub"
            | "script"
            | "slowlog"
            | "xgroup"
            | "xinfo"
    )
}

fn unknown_subcommand(container: &str, name: &[u8]) -> CommandError {
    let name = quoted(name, 128);
    CommandError::Owned(format!("ERR unknown subcommand '{name}'. Try {} HELP.", container.to_uppercase()))
}

/// A container without a subcommand: its arity keeps requests from getting here.
pub fn container(_call: &mut LocalCall<'_>, args: Args<'_>, _reply: &mut Reply<'_>) -> Outcome {
    Err(CommandError::Arity(String::from_utf8_lossy(&args[0]).to_lowercase()))
}

/// PING [message]: O(1)
pub fn ping(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    match args.len() {
        1 | 2 if call.state.is_subscriber_mode() => {
            reply.array(2);
            reply.bulk(b"pong");
            reply.bulk(args.get(1).unwrap_or_default());
        }
        1 => reply.simple("PONG"),
        2 => reply.bulk(&args[1]),
        _ => return Err(CommandError::Arity("ping".into())),
    }
    Ok(())
}

/// ECHO message: O(1)
pub fn echo(_call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.bulk(&args[1]);
    Ok(())
}

/// SELECT index: O(1)
pub fn select(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let databases = call.server.config.size(Directive::Databases);
    if integer(&args[1])? != 0 {
        must_have_databases("SELECT")?;
    }
    call.choose_database(database_id(database_number(&args[1], databases)?));
    reply.ok();
    Ok(())
}

/// QUIT: O(1)
pub fn quit(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    call.state.is_closing = true;
    reply.ok();
    Ok(())
}

/// RESET: O(1)
pub fn reset(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    if let Some(subscription) = &mut call.state.subscription {
        subscription.clear();
        // What was published before comes before.
        subscription.take_all_messages(call.state.context.resp3, reply.buffer());
    }
    call.choose_protocol(false);
    call.choose_database(0);
    call.state.is_authenticated = call.server.config.text(Directive::Requirepass).is_empty();
    call.client.no_evict.store(false, Ordering::Relaxed);
    call.choose_touching(false);
    call.client.is_monitoring.store(false, Ordering::Relaxed);
    call.state.mute = Mute::Nothing;
    call.client.labels.lock().name.clear();
    call.state.multi = None;
    call.client.note_no_transaction();
    call.state.watched = None;
    reply.simple("RESET");
    Ok(())
}

/// MULTI: O(1)
pub fn multi(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    if call.state.multi.is_some() {
        return Err(CommandError::Text("ERR MULTI calls can not be nested"));
    }
    call.state.multi = Some(Multi::default());
    call.client.note_queued(0, 0);
    reply.ok();
    Ok(())
}

/// DISCARD: O(N), N = queued commands
pub fn discard(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    call.state.multi.take().ok_or(CommandError::Text("ERR DISCARD without MULTI"))?;
    call.client.note_no_transaction();
    call.state.watched = None;
    reply.ok();
    Ok(())
}

/// UNWATCH: O(1)
pub fn unwatch(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    call.state.watched = None;
    reply.ok();
    Ok(())
}

/// CLIENT UNBLOCK client-id [TIMEOUT | ERROR]: O(log N), N = connections
pub fn client_unblock(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let with_error = match args.len() {
        3 => false,
        4 if args.is(3, "TIMEOUT") => false,
        4 if args.is(3, "ERROR") => true,
        4 => return Err(CommandError::Text("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")),
        _ => {
            let name = quoted(&args[1], 128);
            return Err(CommandError::Owned(format!(
                "ERR unknown subcommand or wrong number of arguments for '{name}'. Try CLIENT HELP."
            )));
        }
    };
    let id = parse_i64(&args[2]).ok_or(CommandError::NotInteger)?;
    let client = u64::try_from(id).ok().and_then(|id| call.server.clients.get(id));
    let waiter = client.and_then(|client| client.waiter.lock().clone());
    reply.integer(i64::from(waiter.is_some_and(|waiter| waiter.unblock(with_error))));
    Ok(())
}

/// AUTH [username] password: O(1)
pub fn auth(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (user, password) = match args.len() {
        2 => {
            if call.server.config.text(Directive::Requirepass).is_empty() {
                return Err(CommandError::Text(
                    "ERR AUTH <password> called without any password configured for the default user. Are you sure \
                     your configuration is correct?",
                ));
            }
            (b"default".as_slice(), &args[1])
        }
        3 => (&args[1], &args[2]),
        _ => return Err(CommandError::Syntax),
    };
    authenticate(call, user, password)?;
    reply.ok();
    Ok(())
}

/// Checks a password; the comparison takes the same time wherever the difference is.
fn authenticate(call: &mut LocalCall<'_>, user: &[u8], password: &[u8]) -> Outcome {
    let wanted = call.server.config.text(Directive::Requirepass);
    let wanted = wanted.as_bytes();
    let differs =
        wanted.iter().zip(password).fold(wanted.len() != password.len(), |differs, (a, b)| differs | (a != b));
    if user != b"default" || (differs && !wanted.is_empty()) {
        call.server.stats.wrong_passwords.fetch_add(1, Ordering::Relaxed);
        return Err(CommandError::Text("WRONGPASS invalid username-password pair or user is disabled."));
    }
    call.state.is_authenticated = true;
    Ok(())
}

/// What a HELLO asks for.
#[derive(Debug)]
pub struct Greeting<'a> {
    /// Whether it is RESP3, where a version is chosen.
    pub resp3: Option<bool>,
    /// User and password.
    pub credentials: Option<(&'a [u8], &'a [u8])>,
    name: Option<String>,
}

impl<'a> Greeting<'a> {
    /// Reads the arguments of a HELLO.
    pub fn parse(args: Args<'a>) -> Result<Self, CommandError> {
        let resp3 = match args.get(1) {
            None => None,
            Some(text) => match parse_i64(text) {
                None => return Err(CommandError::Text("ERR Protocol version is not an integer or out of range")),
                Some(version @ 2..=3) => Some(version == 3),
                Some(_) => return Err(CommandError::Text("NOPROTO unsupported protocol version")),
            },
        };
        let (mut name, mut credentials) = (None, None);
        let mut position = 2;
        while position < args.len() {
            let left = args.len() - position - 1;
            let after = |count| args.get(position + count).expect("as many are left");
            if args.is(position, "AUTH") && left >= 2 {
                credentials = Some((after(1), after(2)));
                position += 3;
            } else if args.is(position, "SETNAME") && left >= 1 {
                name = Some(client_name(after(1))?);
                position += 2;
            } else {
                let option = quoted(after(0), usize::MAX);
                return Err(CommandError::Owned(format!("ERR Syntax error in HELLO option '{option}'")));
            }
        }
        Ok(Self { resp3, credentials, name })
    }
}

/// HELLO [protover [AUTH username password] [SETNAME clientname]]: O(1)
pub fn hello(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let Greeting { resp3: version, credentials, name } = Greeting::parse(args)?;
    if let Some((user, password)) = credentials {
        authenticate(call, user, password)?;
    }
    if !call.state.is_authenticated {
        return Err(CommandError::Text(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH \
             <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the \
             same time",
        ));
    }
    if let Some(name) = name {
        call.client.labels.lock().name = name;
    }
    if let Some(resp3) = version {
        call.choose_protocol(resp3);
    }
    reply.set_resp3(call.state.context.resp3);
    write_hello(call, reply);
    Ok(())
}

fn write_hello(call: &LocalCall<'_>, reply: &mut Reply<'_>) {
    reply.map(7);
    for (field, value) in [("server", "redis"), ("version", crate::rdb::REDIS_VERSION)] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"proto");
    reply.integer(if call.state.context.resp3 { 3 } else { 2 });
    reply.bulk(b"id");
    reply.integer(call.client.id as i64);
    let mode = crate::state::info::mode();
    for (field, value) in [("mode", mode), ("role", "master")] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"modules");
    reply.array(0);
}

/// TIME: O(1)
pub fn time(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let now_us = call.server.clock.now_us();
    reply.array(2);
    reply.bulk_integer((now_us / 1_000_000) as i64);
    reply.bulk_integer((now_us % 1_000_000) as i64);
    Ok(())
}

/// INFO [section [section ...]]: O(1)
pub fn info(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let sections: Vec<String> =
        args.from(1).iter().map(|section| String::from_utf8_lossy(section).to_lowercase()).collect();
    reply.verbatim(&crate::state::info::render(call.server, &sections));
    Ok(())
}

/// STATS: O(shards)
pub fn stats(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let figures = crate::state::info::engine_figures(call.server);
    reply.map(figures.len());
    for (name, value) in figures {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    Ok(())
}

/// CLIENT ID: O(1)
pub fn client_id(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.integer(call.client.id as i64);
    Ok(())
}

/// CLIENT GETNAME: O(1)
pub fn client_getname(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let name = call.client.labels.lock().name.clone();
    reply.bulk_or_null(Some(name.as_bytes()).filter(|name| !name.is_empty()));
    Ok(())
}

/// CLIENT SETNAME connection-name: O(1)
pub fn client_setname(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let name = client_name(&args[2])?;
    call.client.labels.lock().name = name;
    reply.ok();
    Ok(())
}

/// A name keeps CLIENT LIST readable: no spaces, newlines or special characters.
fn client_name(name: &[u8]) -> Result<String, CommandError> {
    readable(name).ok_or(CommandError::Text("ERR Client names cannot contain spaces, newlines or special characters."))
}

fn readable(text: &[u8]) -> Option<String> {
    text.iter().all(|byte| (b'!'..=b'~').contains(byte)).then(|| String::from_utf8_lossy(text).into_owned())
}

/// CLIENT SETINFO <LIB-NAME libname | LIB-VER libver>: O(1)
pub fn client_setinfo(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let attribute = String::from_utf8_lossy(&args[2]).to_lowercase();
    if !matches!(attribute.as_str(), "lib-name" | "lib-ver") {
        let given = quoted(&args[2], usize::MAX);
        return Err(CommandError::Owned(format!("ERR Unrecognized option '{given}'")));
    }
    let value = readable(&args[3]).ok_or_else(|| {
        CommandError::Owned(format!("ERR {attribute} cannot contain spaces, newlines or special characters."))
    })?;
    let mut labels = call.client.labels.lock();
    if attribute == "lib-name" {
        labels.lib_name = value;
    } else {
        labels.lib_ver = value;
    }
    reply.ok();
    Ok(())
}

/// CLIENT INFO: O(1)
pub fn client_info(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.verbatim(&(call.client.describe(uptime_ms(), call.running(args)) + "\n"));
    Ok(())
}

/// CLIENT LIST [TYPE type] [ID client-id [client-id ...]]: O(N), N = connections
pub fn client_list(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let wanted: Box<dyn Fn(&Client) -> bool> = if args.len() == 2 {
        Box::new(|_| true)
    } else if args.is(2, "TYPE") && args.len() == 4 {
        Box::new(super::clients::type_filter(&args[3])?)
    } else if args.is(2, "ID") && args.len() > 3 {
        let ids = args.from(3).iter().map(|id| parse_u64(id).filter(|&id| id > 0));
        let ids: Vec<u64> = ids.collect::<Option<_>>().ok_or(CommandError::Text("ERR Invalid client ID"))?;
        Box::new(move |client| ids.contains(&client.id))
    } else {
        return Err(CommandError::Syntax);
    };
    let now_ms = uptime_ms();
    let lines = call.server.clients.list().into_iter().filter(|client| wanted(client));
    let running = |client: &Client| call.running(args).filter(|_| client.id == call.client.id);
    let text: String = lines.map(|client| client.describe(now_ms, running(&client)) + "\n").collect();
    reply.verbatim(&text);
    Ok(())
}

/// CLIENT NO-EVICT <ON | OFF>: O(1)
pub fn client_no_evict(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    call.client.no_evict.store(on_or_off(args)?, Ordering::Relaxed);
    reply.ok();
    Ok(())
}

/// CLIENT NO-TOUCH <ON | OFF>: O(1)
pub fn client_no_touch(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let no_touch = on_or_off(args)?;
    call.choose_touching(no_touch);
    reply.ok();
    Ok(())
}

fn on_or_off(args: Args<'_>) -> Result<bool, CommandError> {
    match (args.is(2, "ON"), args.is(2, "OFF")) {
        (true, _) => Ok(true),
        (_, true) => Ok(false),
        _ => Err(CommandError::Syntax),
    }
}

/// LOLWUT [VERSION version]: O(1)
pub fn lolwut(_call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.verbatim(&format!("Redis ver. {}\n", crate::rdb::REDIS_VERSION));
    Ok(())
}
