//! Commands about the connection itself and about the server.

use super::clients::type_filter;
use super::{LocalCall, LocalFn, Multi, Mute, tracking};
use crate::acl::{DEFAULT, Place};
use crate::base::allocator::Memory;
use crate::base::clock::uptime_ms;
use crate::commands::Outcome;
use crate::commands::arguments::integer;
use crate::commands::cluster::must_have_databases;
use crate::commands::greeting::{Greeting, client_name, readable};
use crate::commands::keys::{database_id, database_number};
use crate::config::Directive;
use crate::connection::permissions::note_wrong_password;
use crate::engine::EngineMetrics;
use crate::resp::{Args, CommandError, Reply, parse_i64, parse_u64, quoted};
use crate::state::Server;
use crate::state::client_list::{Client, describe_link};
use crate::state::info;
use crate::state::memory::MemoryUse;
use crate::state::rewriting::Requested;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The functions of the commands here, by the names of their rows.
pub(super) const FUNCTIONS: &[(&str, LocalFn)] = &[
    ("ping", ping),
    ("echo", echo),
    ("select", select),
    ("quit", quit),
    ("reset", reset),
    ("hello", hello),
    ("auth", auth),
    ("info", info),
    ("stats", stats),
    ("lolwut", lolwut),
    ("time", time),
    ("bgrewriteaof", bgrewriteaof),
    ("multi", multi),
    ("discard", discard),
    ("unwatch", unwatch),
    ("client|id", client_id),
    ("client|getname", client_getname),
    ("client|setname", client_setname),
    ("client|setinfo", client_setinfo),
    ("client|unblock", client_unblock),
    ("client|info", client_info),
    ("client|list", client_list),
    ("client|no-evict", client_no_evict),
    ("client|no-touch", client_no_touch),
    ("memory|stats", memory_stats),
];

/// PING [message]: O(1)
fn ping(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
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
fn echo(_call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.bulk(&args[1]);
    Ok(())
}

/// SELECT index: O(1)
fn select(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let databases = call.server.config.size(Directive::Databases);
    if integer(&args[1])? != 0 {
        must_have_databases(call.server.settings(), "SELECT")?;
    }
    call.choose_database(database_id(database_number(&args[1], databases)?));
    reply.ok();
    Ok(())
}

/// QUIT: O(1)
fn quit(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    call.state.is_closing = true;
    call.client.leave_queue();
    if let Some(subscription) = &mut call.state.subscription
        && subscription.end_monitoring()
    {
        // Nothing follows its reply, not even the line about it that other monitors get.
        subscription.take_all_messages(call.state.context.resp3, reply.buffer());
    }
    reply.ok();
    Ok(())
}

/// RESET: O(1)
fn reset(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    if let Some(subscription) = &mut call.state.subscription {
        subscription.clear();
        // Messages published before come first.
        subscription.take_all_messages(call.state.context.resp3, reply.buffer());
    }
    tracking::end(call);
    call.choose_protocol(false);
    call.choose_database(0);
    call.log_in(Arc::clone(call.server.users.default_account()), call.server.users.is_open());
    call.client.no_evict.store(false, Ordering::Relaxed);
    call.choose_touching(false);
    call.client.is_monitoring.store(false, Ordering::Relaxed);
    call.client.is_readonly.store(false, Ordering::Relaxed);
    call.state.mute = Mute::Nothing;
    call.client.labels.lock().name.clear();
    call.state.multi = None;
    call.client.note_no_transaction();
    call.state.watched = None;
    reply.simple("RESET");
    Ok(())
}

/// MULTI: O(1)
fn multi(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    if call.state.multi.is_some() {
        return Err(CommandError::Text("ERR MULTI calls can not be nested"));
    }
    call.state.multi = Some(Multi::default());
    call.client.note_queued(0, 0);
    reply.ok();
    Ok(())
}

/// DISCARD: O(N), N = queued commands
fn discard(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    call.state.multi.take().ok_or(CommandError::Text("ERR DISCARD without MULTI"))?;
    call.client.note_no_transaction();
    call.state.watched = None;
    reply.ok();
    Ok(())
}

/// UNWATCH: O(1)
fn unwatch(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    call.state.watched = None;
    reply.ok();
    Ok(())
}

/// CLIENT UNBLOCK client-id [TIMEOUT | ERROR]: O(log N), N = connections
fn client_unblock(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
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
fn auth(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (user, password) = match args.len() {
        2 => {
            if call.server.users.default_account().user().needs_no_password() {
                return Err(CommandError::Text(
                    "ERR AUTH <password> called without any password configured for the default user. Are you sure \
                     your configuration is correct?",
                ));
            }
            (DEFAULT, &args[1])
        }
        3 => (&args[1], &args[2]),
        _ => return Err(CommandError::Syntax),
    };
    authenticate(call, args, user, password)?;
    reply.ok();
    Ok(())
}

/// Logs in to the account of a user, if the password is right.
fn authenticate(call: &mut LocalCall<'_>, args: Args<'_>, name: &[u8], password: &[u8]) -> Outcome {
    let Some(account) = call.server.users.authenticate(name, password) else {
        let place = if call.is_in_exec { Place::Multi } else { Place::Toplevel };
        note_wrong_password(name, args, place, call.client, call.server);
        return Err(CommandError::Text("WRONGPASS invalid username-password pair or user is disabled."));
    };
    call.log_in(account, true);
    Ok(())
}

/// HELLO [protover [AUTH username password] [SETNAME clientname]]: O(1)
fn hello(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let Greeting { resp3: version, credentials, name } = Greeting::parse(args)?;
    if let Some((user, password)) = credentials {
        authenticate(call, args, user, password)?;
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
    let mode = info::mode(call.server.settings());
    let role = if call.server.is_replica() { "replica" } else { "master" };
    for (field, value) in [("mode", mode), ("role", role)] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"modules");
    reply.array(0);
}

/// TIME: O(1)
fn time(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let now_us = call.server.clock.now_us();
    reply.array(2);
    reply.bulk_integer((now_us / 1_000_000) as i64);
    reply.bulk_integer((now_us % 1_000_000) as i64);
    Ok(())
}

/// INFO [section [section ...]]: O(1)
fn info(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let sections: Vec<String> =
        args.from(1).iter().map(|section| String::from_utf8_lossy(section).to_lowercase()).collect();
    if call.is_in_script && info::asks_owners(&sections) {
        return Err(CommandError::Text("ERR These sections of INFO are not supported from script"));
    }
    reply.verbatim(&info::render(call.server, &sections));
    Ok(())
}

/// STATS: O(shards)
fn stats(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let figures = info::engine_figures(call.server);
    reply.map(figures.len());
    for (name, value) in figures {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    Ok(())
}

/// CLIENT ID: O(1)
fn client_id(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.integer(call.client.id as i64);
    Ok(())
}

/// CLIENT GETNAME: O(1)
fn client_getname(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let name = call.client.labels.lock().name.clone();
    reply.bulk_or_null(Some(name.as_bytes()).filter(|name| !name.is_empty()));
    Ok(())
}

/// CLIENT SETNAME connection-name: O(1)
fn client_setname(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let name = client_name(&args[2])?;
    call.client.labels.lock().name = name;
    reply.ok();
    Ok(())
}

/// CLIENT SETINFO <LIB-NAME libname | LIB-VER libver>: O(1)
fn client_setinfo(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let is_name = args[2].eq_ignore_ascii_case(b"lib-name");
    let given = quoted(&args[2], usize::MAX);
    if !is_name && !args[2].eq_ignore_ascii_case(b"lib-ver") {
        return Err(CommandError::Owned(format!("ERR Unrecognized option '{given}'")));
    }
    let value = readable(&args[3]).ok_or_else(|| {
        CommandError::Owned(format!("ERR {given} cannot contain spaces, newlines or special characters."))
    })?;
    let mut labels = call.client.labels.lock();
    if is_name {
        labels.lib_name = value;
    } else {
        labels.lib_ver = value;
    }
    reply.ok();
    Ok(())
}

/// CLIENT INFO: O(1)
fn client_info(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.verbatim(&(call.client.describe(uptime_ms(), call.running(args)) + "\n"));
    Ok(())
}

/// CLIENT LIST [TYPE type] [ID client-id [client-id ...]]: O(N), N = connections
fn client_list(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let clients = listed(call.server, args)?;
    let now_ms = uptime_ms();
    let running = |client: &Client| call.running(args).filter(|_| client.id == call.client.id);
    let mut text: String = clients.iter().map(|client| client.describe(now_ms, running(client)) + "\n").collect();
    let link = call.server.replication.described_link();
    if let Some((ends, heard_ms, database)) = link.filter(|(ends, ..)| is_link_listed(args, ends.id)) {
        text += &(describe_link(&ends, heard_ms, database, now_ms) + "\n");
    }
    reply.verbatim(&text);
    Ok(())
}

/// Whether the link to the master is among what CLIENT LIST asks for.
fn is_link_listed(args: Args<'_>, id: u64) -> bool {
    match args.len() {
        2 => true,
        4 if args.is(2, "TYPE") => args.is(3, "master"),
        _ => args.from(3).iter().any(|asked| parse_u64(asked) == Some(id)),
    }
}

/// The connections that CLIENT LIST asks for: those with numbers in the order in which it names them.
fn listed(server: &Server, args: Args<'_>) -> Result<Vec<Arc<Client>>, CommandError> {
    if args.len() == 2 {
        return Ok(server.clients.list());
    }
    if args.is(2, "TYPE") && args.len() == 4 {
        let is_of_type = type_filter(&args[3])?;
        return Ok(server.clients.list().into_iter().filter(|client| is_of_type(client)).collect());
    }
    if !args.is(2, "ID") || args.len() == 3 {
        return Err(CommandError::Syntax);
    }
    let ids = args.from(3).iter().map(parse_i64).collect::<Option<Vec<i64>>>();
    let ids = ids.ok_or(CommandError::Text("ERR Invalid client ID"))?;
    Ok(ids.into_iter().filter_map(|id| server.clients.get(u64::try_from(id).ok()?)).collect())
}

/// CLIENT NO-EVICT <ON | OFF>: O(1)
fn client_no_evict(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    call.client.no_evict.store(on_or_off(args)?, Ordering::Relaxed);
    call.server.evict_clients();
    reply.ok();
    Ok(())
}

/// CLIENT NO-TOUCH <ON | OFF>: O(1)
fn client_no_touch(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
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
fn lolwut(_call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    if args.len() > 2 && args.is(1, "VERSION") {
        integer(&args[2])?;
    }
    reply.verbatim(&format!("Redis ver. {}\n", crate::rdb::REDIS_VERSION));
    Ok(())
}

/// MEMORY STATS: O(shards)
fn memory_stats(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let metrics = call.server.metrics();
    let figures = memory_figures(&MemoryUse::of(call.server, &metrics), &metrics);
    reply.map(figures.len());
    for (name, figure) in figures {
        reply.bulk(name.as_bytes());
        match figure {
            Figure::Whole(number) => reply.integer(number),
            Figure::Fraction(number) => reply.double(number),
        }
    }
    Ok(())
}

/// A figure of MEMORY STATS.
enum Figure {
    Whole(i64),
    Fraction(f64),
}

/// The figures in Redis's order, without those of single databases: their tables are parts of shards, which do not
/// count how much memory they take.
fn memory_figures(used: &MemoryUse, metrics: &EngineMetrics) -> [(&'static str, Figure); 27] {
    let Memory { allocated, peak, resident, active, mapped } = used.all;
    let keys: u64 = metrics.databases.iter().map(|database| database.keys).sum();
    let whole = |bytes: u64| Figure::Whole(bytes as i64);
    let percent = |part: u64, of: u64| Figure::Fraction(part as f64 * 100.0 / of.max(1) as f64);
    let ratio = |of: u64, to: u64| Figure::Fraction(of as f64 / to.max(1) as f64);
    let excess = |of: u64, to: u64| Figure::Whole(of as i64 - to as i64);
    [
        ("peak.allocated", whole(peak)),
        ("total.allocated", whole(allocated)),
        ("startup.allocated", whole(used.startup)),
        ("replication.backlog", whole(used.backlog)),
        ("clients.slaves", whole(used.replicas)),
        ("clients.normal", whole(used.clients)),
        // There are no other nodes.
        ("cluster.links", whole(0)),
        ("aof.buffer", whole(used.log)),
        ("lua.caches", whole(used.scripts)),
        ("functions.caches", whole(used.functions)),
        ("overhead.total", whole(used.overhead())),
        ("keys.count", whole(keys)),
        ("keys.bytes-per-key", whole(used.added().checked_div(keys).unwrap_or(0))),
        ("dataset.bytes", whole(used.dataset())),
        ("dataset.percentage", percent(used.dataset(), used.added())),
        ("peak.percentage", percent(allocated, peak)),
        ("allocator.allocated", whole(allocated)),
        ("allocator.active", whole(active)),
        ("allocator.resident", whole(mapped)),
        ("allocator-fragmentation.ratio", ratio(active, allocated)),
        ("allocator-fragmentation.bytes", excess(active, allocated)),
        ("allocator-rss.ratio", ratio(mapped, active)),
        ("allocator-rss.bytes", excess(mapped, active)),
        ("rss-overhead.ratio", ratio(resident, mapped)),
        ("rss-overhead.bytes", excess(resident, mapped)),
        ("fragmentation", ratio(resident, allocated)),
        ("fragmentation.bytes", excess(resident, allocated)),
    ]
}

/// BGREWRITEAOF: O(1). If there is no log, one begins for it, and ends when it is whole.
fn bgrewriteaof(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    match request_rewriting(call.server)? {
        // In a transaction it begins when that has run.
        Requested::Started if !call.is_in_exec => reply.simple("Background append only file rewriting started"),
        Requested::Started | Requested::Scheduled => reply.simple("Background append only file rewriting scheduled"),
        Requested::Running => {
            return Err(CommandError::Text("ERR Background append only file rewriting already in progress"));
        }
    }
    Ok(())
}

fn request_rewriting(server: &Server) -> Result<Requested, CommandError> {
    const REFUSAL: &str =
        "ERR Can't execute an AOF background rewriting. Please check the server logs for more information.";
    if server.has_log() {
        return Ok(server.rewriting.request());
    }
    let rewriter = server.log_switch.prepare(server).map_err(|reason| {
        tracing::warn!("There can be no log: {reason}");
        CommandError::Text(REFUSAL)
    })?;
    Ok(server.rewriting.begin_log_for_once(rewriter))
}
