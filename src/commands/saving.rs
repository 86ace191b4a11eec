//! SAVE, BGSAVE and LASTSAVE: snapshots that a Redis loads. BGREWRITEAOF: a shorter log.

use super::server::LocalCall;
use super::{CommandError, Outcome};
use crate::keyspace::{Keyspace, Store};
use crate::resp::{Args, Reply};
use crate::server::Server;
use crate::snapshot::{NotSaved, SAVES};
use crate::state::rewriting::Requested;

/// SAVE: O(N), N = bytes of all keys
pub fn save<S: Store>(keyspace: &mut Keyspace<S>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    SAVES.save(keyspace).map_err(refusal)?;
    reply.ok();
    Ok(())
}

/// BGSAVE [SCHEDULE]: O(1), and then O(N), N = bytes of all keys, in slices. In a transaction it waits for the end of
/// that.
pub fn bgsave<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let may_wait = args.len() == 2 && args.is(1, "SCHEDULE");
    if args.len() > 1 && !may_wait {
        return Err(CommandError::Syntax);
    }
    if keyspace.is_caller_in_exec() {
        if SAVES.is_saving() {
            return Err(refusal(NotSaved::Busy));
        }
        return schedule(reply);
    }
    match SAVES.save_in_background(keyspace) {
        Err(NotSaved::InTheWay) if may_wait => schedule(reply),
        saved => {
            saved.map_err(refusal)?;
            reply.simple("Background saving started");
            Ok(())
        }
    }
}

fn schedule(reply: &mut Reply<'_>) -> Outcome {
    SAVES.schedule();
    reply.simple("Background saving scheduled");
    Ok(())
}

fn refusal(reason: NotSaved) -> CommandError {
    CommandError::Text(match reason {
        NotSaved::Busy => "ERR Background save already in progress",
        NotSaved::InTheWay => {
            "ERR Another child process is active (AOF?): can't BGSAVE right now. Use BGSAVE SCHEDULE in order to \
             schedule a BGSAVE whenever possible."
        }
        NotSaved::Failed => "ERR",
    })
}

/// BGREWRITEAOF: O(1). Where there is no log, one begins for it, and ends when it is whole.
pub fn bgrewriteaof(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    match request_rewriting(call.server)? {
        Requested::Started => reply.simple("Background append only file rewriting started"),
        Requested::Scheduled => reply.simple("Background append only file rewriting scheduled"),
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

/// LASTSAVE: O(1)
pub fn lastsave(_call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.integer(SAVES.last_save_s() as i64);
    Ok(())
}
