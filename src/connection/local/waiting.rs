//! Commands that wait for what was written to be safe: WAIT and WAITAOF.

use super::LocalCall;
use crate::commands::Outcome;
use crate::commands::arguments::{count, integer};
use crate::commands::blocking::parse_timeout_ms;
use crate::resp::{Args, CommandError, Reply};
use crate::state::Server;
use std::time::Duration;

/// What WAITAOF waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Logs {
    /// Logs of this server: none or one.
    pub local: u64,
    /// Logs of replicas.
    pub replicas: u64,
    /// Until this time is over; zero for as long as it takes.
    pub time: Duration,
}

/// WAIT numreplicas timeout, inside MULTI or a script: there are no replicas, and it does not wait for some. O(1)
pub fn wait(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    wait_for_replicas(args, call.server.clock.now_ms())?;
    reply.integer(0);
    Ok(())
}

/// WAITAOF numlocal numreplicas timeout, inside MULTI: says what is on the disk, and does not wait for more. O(1)
pub fn waitaof(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    wait_for_logs(args, call.server)?;
    write_logs(u64::from(call.state.is_synced), reply);
    Ok(())
}

/// The reply of WAITAOF: how many logs of this server, and of replicas, have what was written.
pub fn write_logs(local: u64, reply: &mut Reply<'_>) {
    reply.array(2);
    reply.integer(local as i64);
    reply.integer(0);
}

/// How long WAIT waits, zero for as long as it takes; nothing when it asks for no replica.
pub fn wait_for_replicas(args: Args<'_>, now_ms: u64) -> Result<Option<Duration>, CommandError> {
    let replicas = integer(&args[1])?;
    let ms = parse_timeout_ms(&args[2], now_ms)?;
    Ok((replicas > 0).then(|| Duration::from_millis(ms)))
}

/// What WAITAOF waits for.
pub fn wait_for_logs(args: Args<'_>, server: &Server) -> Result<Logs, CommandError> {
    let local = u64::try_from(integer(&args[1])?).ok().filter(|local| *local <= 1);
    let local = local.ok_or(CommandError::Text("ERR value is out of range, value must between 0 and 1"))?;
    let replicas = count(&args[2])? as u64;
    let time = Duration::from_millis(parse_timeout_ms(&args[3], server.clock.now_ms())?);
    if local > 0 && !server.has_log() {
        return Err(CommandError::Text("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled."));
    }
    Ok(Logs { local, replicas, time })
}
