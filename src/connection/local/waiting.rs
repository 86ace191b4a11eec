//! Commands that wait until writes are safe: WAIT and WAITAOF.

use super::LocalCall;
use crate::commands::Outcome;
use crate::commands::arguments::{count, integer};
use crate::commands::blocking::parse_timeout_ms;
use crate::replication::{Reach, Role};
use crate::resp::{Args, CommandError, Reply};
use crate::state::Server;
use std::time::Duration;

/// The arguments of WAITAOF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Logs {
    /// Logs of this server: none or one.
    pub local: u64,
    /// Logs of replicas.
    pub replicas: u64,
    /// The timeout; zero for none.
    pub time: Duration,
}

/// The arguments of WAIT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copies {
    /// The number of replicas.
    pub replicas: u64,
    /// The timeout; zero for none.
    pub time: Duration,
}

/// WAIT numreplicas timeout, inside MULTI or a script: replies how many have the writes, and does not wait for more.
/// O(replicas)
pub fn wait(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    wait_for_replicas(args, call.server)?;
    reply.integer(reached_now(call.server, false) as i64);
    Ok(())
}

/// WAITAOF numlocal numreplicas timeout, inside MULTI: replies what is on the disk, and does not wait for more.
/// O(replicas)
pub fn waitaof(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    wait_for_logs(args, call.server)?;
    write_logs(u64::from(call.state.is_synced), reached_now(call.server, true), reply);
    Ok(())
}

/// How many replicas have everything pushed so far.
fn reached_now(server: &Server, on_disk: bool) -> u64 {
    let replication = &server.replication;
    replication.reached(replication.advance(Reach::default(), true), on_disk)
}

/// The reply of WAITAOF: how many logs of this server, and of replicas, have the writes.
pub fn write_logs(local: u64, replicas: u64, reply: &mut Reply<'_>) {
    reply.array(2);
    reply.integer(local as i64);
    reply.integer(replicas as i64);
}

/// Parses WAIT.
pub fn wait_for_replicas(args: Args<'_>, server: &Server) -> Result<Copies, CommandError> {
    const OF_REPLICA: &str = "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a \
                              replica is configured to be writable (which is not the default) writes to replicas are \
                              just local and are not propagated.";
    if server.replication.role() != Role::Master {
        return Err(CommandError::Text(OF_REPLICA));
    }
    let replicas = u64::try_from(integer(&args[1])?).unwrap_or(0);
    let time = Duration::from_millis(parse_timeout_ms(&args[2], server.clock.now_ms())?);
    Ok(Copies { replicas, time })
}

/// The error for waiting for a log of a server without one.
pub const WITHOUT_LOG: &str = "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.";

/// Parses WAITAOF.
pub fn wait_for_logs(args: Args<'_>, server: &Server) -> Result<Logs, CommandError> {
    let local = u64::try_from(integer(&args[1])?).ok().filter(|local| *local <= 1);
    let local = local.ok_or(CommandError::Text("ERR value is out of range, value must between 0 and 1"))?;
    let replicas = count(&args[2])? as u64;
    let time = Duration::from_millis(parse_timeout_ms(&args[3], server.clock.now_ms())?);
    if server.replication.role() != Role::Master {
        return Err(CommandError::Text(
            "ERR WAITAOF cannot be used with replica instances. Please also note that writes to replicas are just local \
             and are not propagated.",
        ));
    }
    if local > 0 && !server.has_log() {
        return Err(CommandError::Text(WITHOUT_LOG));
    }
    Ok(Logs { local, replicas, time })
}
