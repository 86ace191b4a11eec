//! REPLICAOF: whom the server follows.

use super::LocalCall;
use crate::commands::Outcome;
use crate::config::Directive;
use crate::replication::Role;
use crate::resp::{Args, CommandError, Reply, parse_i64, quoted};

/// REPLICAOF host port | NO ONE, and SLAVEOF: O(1). What it begins goes on behind its reply.
pub fn replicaof(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    if call.server.config.is_on(Directive::ClusterEnabled) {
        return Err(CommandError::Text("ERR REPLICAOF not allowed in cluster mode."));
    }
    match args.is(1, "NO") && args.is(2, "ONE") {
        true => promote(call),
        false => {
            let port = parse_i64(&args[2]).and_then(|port| u16::try_from(port).ok());
            let port = port.ok_or(CommandError::Text("ERR Invalid master port"))?;
            let host = quoted(&args[1], usize::MAX);
            if is_followed(call, &host, port) {
                reply.simple("OK Already connected to specified master");
                return Ok(());
            }
            follow(call, host, port);
        }
    }
    reply.ok();
    Ok(())
}

fn promote(call: &LocalCall<'_>) {
    if call.server.is_replica() {
        call.server.promote();
        tracing::info!("MASTER MODE enabled (user request from '{}')", call.client.address);
    }
}

fn follow(call: &LocalCall<'_>, host: String, port: u16) {
    tracing::info!("REPLICAOF {host}:{port} enabled (user request from '{}')", call.client.address);
    call.server.follow(host, port);
}

fn is_followed(call: &LocalCall<'_>, host: &str, port: u16) -> bool {
    match call.server.replication.role() {
        Role::Master => false,
        Role::Replica(master) => master.host.eq_ignore_ascii_case(host) && master.port == port,
    }
}
