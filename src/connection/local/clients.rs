//! CLIENT KILL, REPLY, PAUSE and UNPAUSE; MONITOR; SHUTDOWN: a connection's effects on others, and on itself.

use super::{LocalCall, LocalFn, Mute};
use crate::acl::{Account, Users};
use crate::base::clock::uptime_ms;
use crate::base::network::Address;
use crate::commands::Outcome;
use crate::replication::Ends;
use crate::resp::{Args, CommandError, Reply, parse_i64, quoted};
use crate::state::client_list::Client;
use crate::state::pause::Paused;
use crate::state::stopping::{LastSnapshot, Stop, StopRequest};
use std::mem::discriminant;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The functions of the commands here, by the names of their rows.
pub(super) const FUNCTIONS: &[(&str, LocalFn)] = &[
    ("monitor", monitor),
    ("shutdown", shutdown),
    ("client|kill", kill),
    ("client|reply", reply),
    ("client|pause", pause),
    ("client|unpause", unpause),
];

/// The connections that CLIENT KILL and LIST select by a type.
pub fn type_filter(name: &[u8]) -> Result<fn(&Client) -> bool, CommandError> {
    match String::from_utf8_lossy(name).to_lowercase().as_str() {
        "normal" => Ok(|client| !client.is_listening() && !client.is_replica()),
        "pubsub" => Ok(Client::is_listening),
        "replica" | "slave" => Ok(Client::is_replica),
        "master" => Ok(|_| false),
        _ => {
            let given = quoted(name, usize::MAX);
            Err(CommandError::Owned(format!("ERR Unknown client type '{given}'")))
        }
    }
}

/// What CLIENT KILL selects by.
enum Filter {
    Id(u64),
    /// The type; and whether it is that of the link to the master, which is no client.
    Type(fn(&Client) -> bool, bool),
    Address(Wanted),
    LocalAddress(Wanted),
    /// The link to the master has no user.
    User(Arc<Account>),
    /// Seconds that it has been there at least, and the uptime now, in milliseconds.
    Age(u64, u64),
}

fn has_age(connected_ms: u64, (seconds, now_ms): (u64, u64)) -> bool {
    now_ms.saturating_sub(connected_ms) / 1000 >= seconds
}

/// An address as it was given, and parsed where it is written as CLIENT LIST writes it.
struct Wanted {
    text: Vec<u8>,
    ip: Option<SocketAddr>,
}

impl Wanted {
    fn new(text: &[u8]) -> Self {
        let parsed = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
        let ip = parsed.filter(|ip: &SocketAddr| ip.to_string().as_bytes() == text);
        Self { text: text.to_vec(), ip }
    }

    fn is(&self, address: &Address) -> bool {
        match address {
            Address::Ip(ip) => self.ip == Some(*ip),
            Address::Unix(path) => self.text.strip_suffix(b":0") == Some(path.as_bytes()),
        }
    }
}

impl Filter {
    fn selects(&self, client: &Client) -> bool {
        match self {
            Self::Id(id) => client.id == *id,
            Self::Type(is_meant, _) => is_meant(client),
            Self::Address(wanted) => wanted.is(&client.address),
            Self::LocalAddress(wanted) => wanted.is(&client.local_address),
            Self::User(account) => Arc::ptr_eq(&client.account(), account),
            Self::Age(seconds, now_ms) => has_age(client.connected_ms, (*seconds, *now_ms)),
        }
    }

    fn selects_link(&self, ends: &Ends) -> bool {
        match self {
            Self::Id(id) => ends.id == *id,
            Self::User(_) => false,
            Self::Age(seconds, now_ms) => has_age(ends.connected_ms, (*seconds, *now_ms)),
            Self::Type(_, is_master) => *is_master,
            Self::Address(wanted) => ends.master.as_bytes() == wanted.text,
            Self::LocalAddress(wanted) => ends.local.as_bytes() == wanted.text,
        }
    }
}

/// The filters of CLIENT KILL.
struct Filters {
    filters: Vec<Filter>,
    spares_me: bool,
}

impl Filters {
    fn parse(args: Args<'_>, users: &Users) -> Result<Self, CommandError> {
        let mut filters = Self { filters: Vec::new(), spares_me: true };
        if args.len() == 3 {
            filters.spares_me = false;
            filters.filters.push(Filter::Address(Wanted::new(&args[2])));
            return Ok(filters);
        }
        for position in (2..args.len()).step_by(2) {
            let value = args.get(position + 1).ok_or(CommandError::Syntax)?;
            filters.add(args, position, value, users)?;
        }
        Ok(filters)
    }

    /// The one connection that can be meant, if there is an ID.
    fn id(&self) -> Option<u64> {
        self.filters.iter().find_map(|filter| match filter {
            Filter::Id(id) => Some(*id),
            _ => None,
        })
    }

    /// Adds a filter; the last of each kind counts.
    fn set(&mut self, filter: Filter) {
        self.filters.retain(|other| discriminant(other) != discriminant(&filter));
        self.filters.push(filter);
    }

    fn add(&mut self, args: Args<'_>, position: usize, value: &[u8], users: &Users) -> Outcome {
        const NO_ID: &str = "ERR client-id should be greater than 0";
        if args.is(position, "ID") {
            let id = parse_i64(value).and_then(|id| u64::try_from(id).ok()).filter(|&id| id > 0);
            let id = id.ok_or(CommandError::Text(NO_ID))?;
            self.set(Filter::Id(id));
        } else if args.is(position, "TYPE") {
            self.set(Filter::Type(type_filter(value)?, value.eq_ignore_ascii_case(b"master")));
        } else if args.is(position, "ADDR") {
            self.set(Filter::Address(Wanted::new(value)));
        } else if args.is(position, "LADDR") {
            self.set(Filter::LocalAddress(Wanted::new(value)));
        } else if args.is(position, "USER") {
            let account = users
                .get(value)
                .ok_or_else(|| CommandError::Owned(format!("ERR No such user '{}'", quoted(value, usize::MAX))))?;
            self.set(Filter::User(account));
        } else if args.is(position, "MAXAGE") {
            let seconds = parse_i64(value).ok_or(CommandError::Text("ERR maxage is not an integer or out of range"))?;
            let seconds = u64::try_from(seconds).ok().filter(|&seconds| seconds > 0);
            let seconds = seconds.ok_or(CommandError::Text("ERR maxage should be greater than 0"))?;
            self.set(Filter::Age(seconds, uptime_ms()));
        } else if args.is(position, "SKIPME") {
            self.spares_me = match () {
                () if value.eq_ignore_ascii_case(b"yes") => true,
                () if value.eq_ignore_ascii_case(b"no") => false,
                () => return Err(CommandError::Syntax),
            };
        } else {
            return Err(CommandError::Syntax);
        }
        Ok(())
    }
}

/// CLIENT KILL <ip:port | [ID client-id] [TYPE type] [USER username] [ADDR ip:port] [LADDR ip:port] [MAXAGE seconds]
/// [SKIPME <YES | NO>]>: O(N), N = connections. The link to a master is ended like a connection of a client; a replica
/// links again at once.
fn kill(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let filters = Filters::parse(args, &call.server.users)?;
    let is_me = |client: &Client| client.id == call.client.id;
    let clients = match filters.id() {
        Some(id) => call.server.clients.get(id).into_iter().collect(),
        None => call.server.clients.list(),
    };
    let is_meant = |client: &Arc<Client>| filters.filters.iter().all(|filter| filter.selects(client));
    let killed: Vec<_> =
        clients.into_iter().filter(is_meant).filter(|client| !(filters.spares_me && is_me(client))).collect();
    for client in &killed {
        end_client(call, client);
    }
    let is_link_meant = |ends: &Ends| filters.filters.iter().all(|filter| filter.selects_link(ends));
    let is_link_killed = call.server.replication.end_link(is_link_meant);
    match (args.len(), killed.len() + usize::from(is_link_killed)) {
        (3, 0) => return Err(CommandError::Text("ERR No such client")),
        (3, _) => reply.ok(),
        (_, count) => reply.count(count),
    }
    Ok(())
}

/// Ends a connection; that of the running command when it has its reply.
pub fn end_client(call: &mut LocalCall<'_>, client: &Client) {
    if client.id == call.client.id {
        call.state.is_closing = true;
        return;
    }
    call.server.end_client(client);
}

/// CLIENT REPLY <ON | OFF | SKIP>: O(1)
fn reply(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    if args.is(2, "ON") {
        call.state.mute = Mute::Nothing;
        reply.ok();
    } else if args.is(2, "OFF") {
        call.state.mute = Mute::All;
    } else if args.is(2, "SKIP") {
        if call.state.mute != Mute::All {
            call.state.mute = Mute::Next;
        }
    } else {
        return Err(CommandError::Syntax);
    }
    Ok(())
}

/// Whether a request is CLIENT REPLY ON, which is replied itself.
pub fn asks_for_replies(args: Args<'_>) -> bool {
    args.len() == 3 && args.is(0, "CLIENT") && args.is(1, "REPLY") && args.is(2, "ON")
}

/// CLIENT PAUSE timeout [WRITE | ALL]: O(1)
fn pause(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let paused = match args.len() {
        3 => Paused::All,
        4 if args.is(3, "ALL") => Paused::All,
        4 if args.is(3, "WRITE") => Paused::Writes,
        4 => return Err(CommandError::Text("ERR CLIENT PAUSE mode must be WRITE or ALL")),
        _ => return Err(CommandError::Arity("client|pause".into())),
    };
    let timeout = parse_i64(&args[2]).ok_or(CommandError::Text("ERR timeout is not an integer or out of range"))?;
    let timeout = u64::try_from(timeout).map_err(|_| CommandError::Text("ERR timeout is negative"))?;
    // Redis uses the time of day, which must not overflow.
    let until_ms = call.server.clock.now_ms().checked_add(timeout).filter(|&until| i64::try_from(until).is_ok());
    until_ms.ok_or(CommandError::Text("ERR timeout is out of range"))?;
    call.server.pause.begin(paused, timeout);
    reply.ok();
    Ok(())
}

/// CLIENT UNPAUSE: O(1)
fn unpause(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    call.server.pause.end();
    reply.ok();
    Ok(())
}

/// MONITOR: O(1)
fn monitor(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    if call.is_in_exec {
        return Err(CommandError::Text("ERR MONITOR isn't allowed for DENY BLOCKING client"));
    }
    call.subscription().monitor();
    call.client.is_monitoring.store(true, Ordering::Relaxed);
    reply.ok();
    Ok(())
}

/// `SHUTDOWN [NOSAVE | SAVE] [NOW] [FORCE] [ABORT]`: O(N), N = bytes of the log not yet written, and of all keys where
/// a snapshot is made. ABORT is replied; otherwise only a server that cannot end replies: see `pending_request.rs`.
fn shutdown(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    match stop_request(args, &call.server.stop)? {
        None => reply.ok(),
        Some(request) => {
            tracing::info!("User requested shutdown...");
            call.server.stop.ask(request);
        }
    }
    Ok(())
}

/// The options of a SHUTDOWN; none if it was ABORT, and the end was given up.
pub fn stop_request(args: Args<'_>, stop: &Stop) -> Result<Option<StopRequest>, CommandError> {
    let options = args.from(1);
    let has = |word: &str| options.iter().any(|option| option.eq_ignore_ascii_case(word.as_bytes()));
    let is_known = |option: &[u8]| {
        ["NOSAVE", "SAVE", "NOW", "FORCE", "ABORT"].iter().any(|word| option.eq_ignore_ascii_case(word.as_bytes()))
    };
    let aborts_with_more = has("ABORT") && !options.iter().all(|option| option.eq_ignore_ascii_case(b"ABORT"));
    if !options.iter().all(is_known) || aborts_with_more || (has("SAVE") && has("NOSAVE")) {
        return Err(CommandError::Syntax);
    }
    if has("ABORT") {
        return match stop.abort() {
            true => Ok(None),
            false => Err(CommandError::Text("ERR No shutdown in progress.")),
        };
    }
    let snapshot = match (has("SAVE"), has("NOSAVE")) {
        (true, _) => LastSnapshot::Always,
        (_, true) => LastSnapshot::Never,
        _ => LastSnapshot::AsConfigured,
    };
    Ok(Some(StopRequest { snapshot, is_forced: has("FORCE"), is_now: has("NOW"), is_of_client: true }))
}
