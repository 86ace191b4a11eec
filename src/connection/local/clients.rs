//! CLIENT KILL, REPLY, PAUSE and UNPAUSE; MONITOR; SHUTDOWN: a connection's effects on others, and on itself.

use super::{LocalCall, Mute};
use crate::base::network::Address;
use crate::commands::Outcome;
use crate::resp::{Args, CommandError, Reply, parse_i64, quoted};
use crate::state::clients::Client;
use crate::state::pause::Paused;
use crate::state::stopping::{LastSnapshot, StopRequest};
use std::net::Shutdown;
use std::sync::Arc;

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

/// Whether a connection is selected.
type Test = Box<dyn Fn(&Client) -> bool>;

/// The filters of CLIENT KILL.
struct Filters {
    tests: Vec<Test>,
    spares_me: bool,
}

impl Filters {
    fn parse(args: Args<'_>) -> Result<Self, CommandError> {
        let mut filters = Self { tests: Vec::new(), spares_me: true };
        if args.len() == 3 {
            filters.spares_me = false;
            filters.add_address(&args[2], |client| &client.address);
            return Ok(filters);
        }
        for position in (2..args.len()).step_by(2) {
            let value = args.get(position + 1).ok_or(CommandError::Syntax)?;
            filters.add(args, position, value)?;
        }
        Ok(filters)
    }

    fn add(&mut self, args: Args<'_>, position: usize, value: &[u8]) -> Outcome {
        const NO_ID: &str = "ERR client-id should be greater than 0";
        if args.is(position, "ID") {
            let id = parse_i64(value).and_then(|id| u64::try_from(id).ok()).filter(|&id| id > 0);
            let id = id.ok_or(CommandError::Text(NO_ID))?;
            self.tests.push(Box::new(move |client| client.id == id));
        } else if args.is(position, "TYPE") {
            self.tests.push(Box::new(type_filter(value)?));
        } else if args.is(position, "ADDR") {
            self.add_address(value, |client| &client.address);
        } else if args.is(position, "LADDR") {
            self.add_address(value, |client| &client.local_address);
        } else if args.is(position, "USER") {
            if value != b"default" {
                let given = quoted(value, usize::MAX);
                return Err(CommandError::Owned(format!("ERR No such user '{given}'")));
            }
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

    fn add_address(&mut self, wanted: &[u8], address: fn(&Client) -> &Address) {
        let wanted = wanted.to_vec();
        self.tests.push(Box::new(move |client| address(client).to_string().as_bytes() == wanted));
    }
}

/// CLIENT KILL <ip:port | [ID client-id] [TYPE type] [USER username] [ADDR ip:port] [LADDR ip:port] [SKIPME <YES | NO>]>:
/// O(N), N = connections
pub fn kill(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let filters = Filters::parse(args)?;
    let is_me = |client: &Client| client.id == call.client.id;
    let clients = call.server.clients.list();
    let is_meant = |client: &Arc<Client>| filters.tests.iter().all(|test| test(client));
    let killed: Vec<_> =
        clients.into_iter().filter(is_meant).filter(|client| !(filters.spares_me && is_me(client))).collect();
    for client in &killed {
        if is_me(client) {
            call.state.is_closing = true;
        } else {
            // It is gone for all others from now on; its task will notice.
            call.server.clients.remove(client.id);
            client.shut_down(Shutdown::Both);
        }
    }
    match (args.len(), killed.len()) {
        (3, 0) => return Err(CommandError::Text("ERR No such client")),
        (3, _) => reply.ok(),
        (_, count) => reply.count(count),
    }
    Ok(())
}

/// CLIENT REPLY <ON | OFF | SKIP>: O(1)
pub fn reply(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
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

/// CLIENT PAUSE timeout [WRITE | ALL]: O(1)
pub fn pause(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
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
pub fn unpause(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    call.server.pause.end();
    reply.ok();
    Ok(())
}

/// MONITOR: O(1)
pub fn monitor(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    if call.is_in_exec {
        return Err(CommandError::Text("ERR MONITOR isn't allowed for DENY BLOCKING client"));
    }
    call.subscription().monitor();
    call.client.is_monitoring.store(true, std::sync::atomic::Ordering::Relaxed);
    reply.ok();
    Ok(())
}

/// `SHUTDOWN [NOSAVE | SAVE] [NOW] [FORCE] [ABORT]`: O(N), N = bytes of the log not yet written, and of all keys where
/// a snapshot is made. It is replied only if the server cannot end: see `pending_request.rs`.
pub fn shutdown(call: &mut LocalCall<'_>, args: Args<'_>, _reply: &mut Reply<'_>) -> Outcome {
    let request = stop_request(args)?;
    tracing::info!("User requested shutdown...");
    call.server.stop.ask(request);
    Ok(())
}

/// The options of a SHUTDOWN.
pub fn stop_request(args: Args<'_>) -> Result<StopRequest, CommandError> {
    let options = args.from(1);
    let has = |word: &str| options.iter().any(|option| option.eq_ignore_ascii_case(word.as_bytes()));
    let is_known = |option: &[u8]| {
        ["NOSAVE", "SAVE", "NOW", "FORCE", "ABORT"].iter().any(|word| option.eq_ignore_ascii_case(word.as_bytes()))
    };
    if !options.iter().all(is_known) || (has("ABORT") && options.len() > 1) || (has("SAVE") && has("NOSAVE")) {
        return Err(CommandError::Syntax);
    }
    if has("ABORT") {
        return Err(CommandError::Text("ERR No shutdown in progress."));
    }
    let snapshot = match (has("SAVE"), has("NOSAVE")) {
        (true, _) => LastSnapshot::Always,
        (_, true) => LastSnapshot::Never,
        _ => LastSnapshot::AsConfigured,
    };
    Ok(StopRequest { snapshot, is_forced: has("FORCE") })
}
