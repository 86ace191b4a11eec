//! Commands that wait until writes are safe: WAIT and WAITAOF.

use super::{LocalCall, LocalFn};
use crate::commands::Outcome;
use crate::commands::arguments::{count, integer};
use crate::commands::blocking::parse_timeout_ms;
use crate::keyspace::BECAME_REPLICA;
use crate::replication::{Reach, Replication, Role};
use crate::resp::{Args, CommandError, Reply};
use crate::state::Server;
use std::time::Duration;

/// The functions of the commands here, by the names of their rows.
pub(super) const FUNCTIONS: &[(&str, LocalFn)] = &[("wait", wait), ("waitaof", waitaof)];

/// The error for waiting for a log of a server without one.
const WITHOUT_LOG: &str = "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.";

/// WAIT numreplicas timeout, inside MULTI or a script: replies how many have the writes, and does not wait for more.
/// O(replicas)
fn wait(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (copies, _) = parse_wait(args, call.server)?;
    copies.reply_now(call, reply);
    Ok(())
}

/// WAITAOF numlocal numreplicas timeout, inside MULTI: replies what is on the disk, and does not wait for more.
/// O(replicas)
fn waitaof(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (copies, _) = parse_wait_aof(args, call.server)?;
    copies.reply_now(call, reply);
    Ok(())
}

/// What WAIT or WAITAOF waits for: copies of all that was written before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copies {
    /// Logs of this server: none or one.
    pub local: u64,
    /// The number of replicas.
    replicas: u64,
    /// Whether they must be on disks: WAITAOF.
    pub on_disk: bool,
    /// The position that replicas must reach.
    reach: Reach,
}

impl Copies {
    /// Updates the position; `has_executed_all` says whether all earlier requests were executed.
    pub fn advanced(self, replication: &Replication, has_executed_all: bool) -> Self {
        Self { reach: replication.advance(self.reach, has_executed_all), ..self }
    }

    /// Why the wait can never end: the server follows another, or has no log any more.
    pub fn refusal(self, server: &Server) -> Option<CommandError> {
        if server.replication.role() != Role::Master {
            return Some(CommandError::Text(BECAME_REPLICA));
        }
        (self.local > 0 && !server.has_log()).then_some(CommandError::Text(WITHOUT_LOG))
    }

    /// How many replicas have reached the position.
    pub fn reached(self, replication: &Replication) -> u64 {
        replication.reached(self.reach, self.on_disk)
    }

    /// Whether this many logs of this server, and of replicas, are enough.
    pub fn is_content(self, has_local: u64, has_replicas: u64) -> bool {
        has_local >= self.local && has_replicas >= self.replicas
    }

    /// Replies how many replicas have the writes; WAITAOF also how many logs of this server.
    pub fn reply(self, local: u64, replicas: u64, reply: &mut Reply<'_>) {
        if self.on_disk {
            reply.array(2);
            reply.integer(local as i64);
        }
        reply.integer(replicas as i64);
    }

    fn reply_now(self, call: &LocalCall<'_>, reply: &mut Reply<'_>) {
        let replication = &call.server.replication;
        self.reply(u64::from(call.state.is_synced), self.advanced(replication, true).reached(replication), reply);
    }
}

/// What WAIT waits for, and how long; zero for ever.
pub fn parse_wait(args: Args<'_>, server: &Server) -> Result<(Copies, Duration), CommandError> {
    const OF_REPLICA: &str = "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a \
                              replica is configured to be writable (which is not the default) writes to replicas are \
                              just local and are not propagated.";
    if server.replication.role() != Role::Master {
        return Err(CommandError::Text(OF_REPLICA));
    }
    let replicas = u64::try_from(integer(&args[1])?).unwrap_or(0);
    let time = Duration::from_millis(parse_timeout_ms(&args[2], server.clock.now_ms())?);
    Ok((Copies { local: 0, replicas, on_disk: false, reach: Reach::default() }, time))
}

/// What WAITAOF waits for, and how long; zero for ever.
pub fn parse_wait_aof(args: Args<'_>, server: &Server) -> Result<(Copies, Duration), CommandError> {
    const OF_REPLICA: &str = "ERR WAITAOF cannot be used with replica instances. Please also note that writes to \
                              replicas are just local and are not propagated.";
    let local = u64::try_from(integer(&args[1])?).ok().filter(|local| *local <= 1);
    let local = local.ok_or(CommandError::Text("ERR value is out of range, value must between 0 and 1"))?;
    let replicas = count(&args[2])? as u64;
    let time = Duration::from_millis(parse_timeout_ms(&args[3], server.clock.now_ms())?);
    if server.replication.role() != Role::Master {
        return Err(CommandError::Text(OF_REPLICA));
    }
    if local > 0 && !server.has_log() {
        return Err(CommandError::Text(WITHOUT_LOG));
    }
    Ok((Copies { local, replicas, on_disk: true, reach: Reach::default() }, time))
}
