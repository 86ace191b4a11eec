//! REPLICAOF: which master the server follows; FAILOVER: which replica takes over.

use super::{LocalCall, LocalFn};
use crate::base::clock::uptime_ms;
use crate::base::network::is_host;
use crate::commands::Outcome;
use crate::commands::arguments::integer;
use crate::config::Directive;
use crate::replication::{Failover, Phase, Role};
use crate::resp::{Args, CommandError, Reply, parse_i64, quoted};

/// The functions of the commands here, by the names of their rows.
pub(super) const FUNCTIONS: &[(&str, LocalFn)] =
    &[("failover", failover), ("replicaof", replicaof), ("slaveof", replicaof)];

/// REPLICAOF host port | NO ONE, and SLAVEOF: O(1). What it begins continues after its reply.
fn replicaof(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    if call.server.config.is_on(Directive::ClusterEnabled) {
        return Err(CommandError::Text("ERR REPLICAOF not allowed in cluster mode."));
    }
    let failover = call.server.replication.failover_guard();
    if failover.is_some() {
        return Err(CommandError::Text("ERR REPLICAOF not allowed while failing over."));
    }
    match args.is(1, "NO") && args.is(2, "ONE") {
        true => promote(call),
        false => {
            let port = parse_i64(&args[2]).and_then(|port| u16::try_from(port).ok());
            let port = port.ok_or(CommandError::Text("ERR Invalid master port"))?;
            let host = quoted(&args[1], usize::MAX);
            if !is_host(&host) {
                // Redis would look for it for ever. The configuration, and its file, cannot hold it.
                return Err(CommandError::Text("ERR Invalid master host"));
            }
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

/// FAILOVER [TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]: O(1). What it begins continues after its reply.
fn failover(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    if call.server.config.is_on(Directive::ClusterEnabled) {
        const TEXT: &str = "ERR FAILOVER not allowed in cluster mode. Use CLUSTER FAILOVER command instead.";
        return Err(CommandError::Text(TEXT));
    }
    let replication = &call.server.replication;
    if args.len() == 2 && args.is(1, "ABORT") {
        if replication.failover().is_none() {
            return Err(CommandError::Text("ERR No failover in progress."));
        }
        call.server.abort_failover("Failover manually aborted");
        reply.ok();
        return Ok(());
    }
    let asked = failover_of(args)?;
    let mut running = replication.failover_guard();
    if running.is_some() {
        return Err(CommandError::Text("ERR FAILOVER already in progress."));
    }
    if call.server.is_replica() {
        return Err(CommandError::Text("ERR FAILOVER is not valid when server is a replica."));
    }
    if replication.replicas().is_empty() {
        return Err(CommandError::Text("ERR FAILOVER requires connected replicas."));
    }
    if asked.is_forced && (asked.until_ms.is_none() || asked.target.is_none()) {
        const TEXT: &str = "ERR FAILOVER with force option requires both a timeout and target HOST and IP.";
        return Err(CommandError::Text(TEXT));
    }
    match &asked.target {
        Some((host, port)) => {
            let replica = replication.replica_at(host, *port);
            let replica = replica.ok_or(CommandError::Text("ERR FAILOVER target HOST and PORT is not a replica."))?;
            if replica.phase() != Phase::Online {
                return Err(CommandError::Text("ERR FAILOVER target replica is not online."));
            }
            tracing::info!("FAILOVER requested to {host}:{port}.");
        }
        None => tracing::info!("FAILOVER requested to any replica."),
    }
    call.server.begin_failover(&mut running, asked);
    reply.ok();
    Ok(())
}

fn failover_of(args: Args<'_>) -> Result<Failover, CommandError> {
    let mut asked = Failover { target: None, until_ms: None, is_forced: false, is_in_progress: false, end: None };
    let mut at = 1;
    while at < args.len() {
        if args.is(at, "TIMEOUT") && at + 1 < args.len() && asked.until_ms.is_none() {
            let timeout_ms = u64::try_from(integer(&args[at + 1])?).ok().filter(|timeout_ms| *timeout_ms > 0);
            let timeout_ms = timeout_ms.ok_or(CommandError::Text("ERR FAILOVER timeout must be greater than 0"))?;
            asked.until_ms = Some(uptime_ms().saturating_add(timeout_ms));
            at += 1;
        } else if args.is(at, "TO") && at + 2 < args.len() && asked.target.is_none() {
            // An invalid port belongs to no replica.
            let port = u16::try_from(integer(&args[at + 2])?).unwrap_or_default();
            asked.target = Some((quoted(&args[at + 1], usize::MAX), port));
            at += 2;
        } else if args.is(at, "FORCE") && !asked.is_forced {
            asked.is_forced = true;
        } else {
            return Err(CommandError::Syntax);
        }
        at += 1;
    }
    Ok(asked)
}
