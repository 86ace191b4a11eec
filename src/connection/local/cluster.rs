//! CLUSTER, and the commands that clients of a cluster send to a node: `cluster-enabled yes` makes one node that owns
//! all slots.
//!
//! There is no other node and no bus, so nothing moves. Commands that would change the cluster are refused, with
//! Redis's error where a single Redis node with all slots would refuse them, too.

use super::{LocalCall, LocalFn};
use crate::base::network::Address;
use crate::base::routing::{SLOTS, slot_of};
use crate::commands::Outcome;
use crate::commands::cluster::{checked_slot, must_be_enabled};
use crate::config::Directive;
use crate::keyspace::Settings;
use crate::resp::{Args, CommandError, Reply, parse_i64, quoted};
use crate::state::listening::Carries;
use std::sync::atomic::Ordering;

/// The functions of the commands here, by the names of their rows.
pub(super) const FUNCTIONS: &[(&str, LocalFn)] = &[
    ("readonly", readonly),
    ("readwrite", readwrite),
    ("asking", asking),
    ("cluster|slots", slots),
    ("cluster|shards", shards),
    ("cluster|nodes", nodes),
    ("cluster|info", info),
    ("cluster|myid", myid),
    ("cluster|myshardid", myshardid),
    ("cluster|keyslot", keyslot),
    ("cluster|links", links),
    ("cluster|replicas", replicas),
    ("cluster|slaves", replicas),
    ("cluster|meet", meet),
    ("cluster|addslots", addslots),
    ("cluster|addslotsrange", addslotsrange),
    ("cluster|delslots", delslots),
    ("cluster|delslotsrange", delslotsrange),
    ("cluster|flushslots", flushslots),
    ("cluster|forget", forget),
    ("cluster|replicate", replicate),
    ("cluster|count-failure-reports", count_failure_reports),
    ("cluster|failover", failover),
    ("cluster|setslot", setslot),
    ("cluster|bumpepoch", bumpepoch),
    ("cluster|set-config-epoch", set_config_epoch),
    ("cluster|saveconfig", saveconfig),
    ("cluster|reset", reset),
    ("cluster|help", help),
];

/// The one node, as a connection reaches it.
struct Myself<'a> {
    id: &'a str,
    /// The name of the shard, which follows from that of the node.
    shard: String,
    ip: String,
    port: u16,
}

impl<'a> Myself<'a> {
    fn of(call: &LocalCall<'a>) -> Result<Self, CommandError> {
        must_be_enabled(call.server.settings())?;
        let server = call.server;
        let announced = server.config.text(Directive::ClusterAnnounceIp);
        let ip = if announced.is_empty() { reached(&call.client.local_address) } else { announced };
        let port = match server.config.number(Directive::ClusterAnnouncePort) {
            0 => match call.client.carries {
                Carries::Tls => server.listening.port(Carries::Tls),
                Carries::Plain => server.listening.main_port(),
            },
            port => u16::try_from(port).expect("the directive is a port"),
        };
        Ok(Self { id: &server.node_id, shard: server.node_id.chars().rev().collect(), ip, port })
    }

    fn is_named(&self, id: &[u8]) -> bool {
        self.id.as_bytes().eq_ignore_ascii_case(id)
    }
}

/// An address at which clients reach the server: that of this connection. A connection through a unix socket is from
/// this machine.
fn reached(local: &Address) -> String {
    match local {
        Address::Ip(address) => address.ip().to_canonical().to_string(),
        Address::Unix(_) => "127.0.0.1".to_owned(),
    }
}

/// CLUSTER MYID: O(1)
fn myid(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.bulk(Myself::of(call)?.id.as_bytes());
    Ok(())
}

/// CLUSTER MYSHARDID: O(1)
fn myshardid(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.bulk(Myself::of(call)?.shard.as_bytes());
    Ok(())
}

/// CLUSTER SLOTS: O(1)
fn slots(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let Myself { id, ip, port, .. } = Myself::of(call)?;
    reply.array(1);
    reply.array(3);
    reply.integer(0);
    reply.integer(SLOTS as i64 - 1);
    reply.array(4);
    reply.bulk(ip.as_bytes());
    reply.integer(port.into());
    reply.bulk(id.as_bytes());
    reply.map(0);
    Ok(())
}

/// CLUSTER SHARDS: O(1)
fn shards(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let Myself { id, ip, port, .. } = Myself::of(call)?;
    reply.array(1);
    reply.map(2);
    reply.bulk(b"slots");
    reply.array(2);
    reply.integer(0);
    reply.integer(SLOTS as i64 - 1);
    reply.bulk(b"nodes");
    reply.array(1);
    reply.map(7);
    reply.bulk(b"id");
    reply.bulk(id.as_bytes());
    reply.bulk(b"port");
    reply.integer(port.into());
    for (name, value) in [("ip", ip.as_str()), ("endpoint", &ip), ("role", "master")] {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"replication-offset");
    reply.integer(0);
    reply.bulk(b"health");
    reply.bulk(b"online");
    Ok(())
}

/// CLUSTER NODES: O(1)
fn nodes(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let Myself { id, ip, port, .. } = Myself::of(call)?;
    // The port of the bus is 0: there is none.
    reply.verbatim(&format!("{id} {ip}:{port}@0 myself,master - 0 0 1 connected 0-{}\n", SLOTS - 1));
    Ok(())
}

/// CLUSTER INFO: O(1)
fn info(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    must_be_enabled(call.server.settings())?;
    let lines = [
        ("cluster_state", "ok".to_owned()),
        ("cluster_slots_assigned", SLOTS.to_string()),
        ("cluster_slots_ok", SLOTS.to_string()),
        ("cluster_slots_pfail", "0".to_owned()),
        ("cluster_slots_fail", "0".to_owned()),
        ("cluster_known_nodes", "1".to_owned()),
        ("cluster_size", "1".to_owned()),
        ("cluster_current_epoch", "1".to_owned()),
        ("cluster_my_epoch", "1".to_owned()),
        ("cluster_stats_messages_sent", "0".to_owned()),
        ("cluster_stats_messages_received", "0".to_owned()),
        ("total_cluster_links_buffer_limit_exceeded", "0".to_owned()),
    ];
    let text: String = lines.iter().map(|(name, value)| format!("{name}:{value}\r\n")).collect();
    reply.verbatim(&text);
    Ok(())
}

/// CLUSTER LINKS: O(1)
fn links(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    must_be_enabled(call.server.settings())?;
    reply.array(0);
    Ok(())
}

/// CLUSTER KEYSLOT key: O(N), N = bytes of the key
fn keyslot(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    must_be_enabled(call.server.settings())?;
    reply.integer(slot_of(&args[2]) as i64);
    Ok(())
}

/// CLUSTER REPLICAS node-id, CLUSTER SLAVES node-id: O(1)
fn replicas(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    if !Myself::of(call)?.is_named(&args[2]) {
        return Err(unknown_node(&args[2]));
    }
    reply.array(0);
    Ok(())
}

fn unknown_node(id: &[u8]) -> CommandError {
    CommandError::Owned(format!("ERR Unknown node {}", quoted(id, usize::MAX)))
}

fn slot(word: &[u8]) -> Result<usize, CommandError> {
    parse_i64(word).and_then(checked_slot).ok_or(CommandError::Text("ERR Invalid or out of range slot"))
}

/// CLUSTER MEET ip port [bus-port]: O(1)
fn meet(call: &mut LocalCall<'_>, args: Args<'_>, _reply: &mut Reply<'_>) -> Outcome {
    must_be_enabled(call.server.settings())?;
    if args.len() > 5 {
        return Err(CommandError::Syntax);
    }
    for (position, name) in [(3, "base"), (4, "bus")] {
        if let Some(port) = args.get(position).filter(|port| parse_i64(port).is_none()) {
            let port = quoted(port, usize::MAX);
            return Err(CommandError::Owned(format!("ERR Invalid {name} port specified: {port}")));
        }
    }
    Err(CommandError::Text("ERR This node is a cluster by itself: it has no bus to meet others by"))
}

/// CLUSTER ADDSLOTS slot [slot ...]: O(N), N = slots
fn addslots(call: &mut LocalCall<'_>, args: Args<'_>, _reply: &mut Reply<'_>) -> Outcome {
    must_be_enabled(call.server.settings())?;
    let slots = args.from(2).iter().map(slot).collect::<Result<Vec<_>, _>>()?;
    Err(CommandError::Owned(format!("ERR Slot {} is already busy", slots[0])))
}

/// CLUSTER ADDSLOTSRANGE start end [start end ...]: O(N), N = ranges
fn addslotsrange(call: &mut LocalCall<'_>, args: Args<'_>, _reply: &mut Reply<'_>) -> Outcome {
    let first = first_of_ranges(call.server.settings(), "addslotsrange", args)?;
    Err(CommandError::Owned(format!("ERR Slot {first} is already busy")))
}

/// CLUSTER DELSLOTS slot [slot ...]: O(N), N = slots
fn delslots(call: &mut LocalCall<'_>, args: Args<'_>, _reply: &mut Reply<'_>) -> Outcome {
    must_be_enabled(call.server.settings())?;
    args.from(2).iter().try_for_each(|word| slot(word).map(drop))?;
    Err(KEEPS_ITS_SLOTS)
}

/// CLUSTER DELSLOTSRANGE start end [start end ...]: O(N), N = ranges
fn delslotsrange(call: &mut LocalCall<'_>, args: Args<'_>, _reply: &mut Reply<'_>) -> Outcome {
    first_of_ranges(call.server.settings(), "delslotsrange", args)?;
    Err(KEEPS_ITS_SLOTS)
}

/// CLUSTER FLUSHSLOTS: O(1)
fn flushslots(call: &mut LocalCall<'_>, _args: Args<'_>, _reply: &mut Reply<'_>) -> Outcome {
    must_be_enabled(call.server.settings())?;
    if has_keys(call) {
        return Err(CommandError::Text("ERR DB must be empty to perform CLUSTER FLUSHSLOTS."));
    }
    Err(KEEPS_ITS_SLOTS)
}

const KEEPS_ITS_SLOTS: CommandError = CommandError::Text("ERR This node is the only one: it keeps all slots");

fn first_of_ranges(settings: &Settings, name: &str, args: Args<'_>) -> Result<usize, CommandError> {
    must_be_enabled(settings)?;
    if !args.len().is_multiple_of(2) {
        let reason = format!("ERR wrong number of arguments for 'cluster|{name}' command");
        return Err(CommandError::Owned(reason));
    }
    for position in (2..args.len()).step_by(2) {
        let (start, end) = (slot(&args[position])?, slot(&args[position + 1])?);
        if start > end {
            let reason = format!("ERR start slot number {start} is greater than end slot number {end}");
            return Err(CommandError::Owned(reason));
        }
    }
    slot(&args[2])
}

fn has_keys(call: &LocalCall<'_>) -> bool {
    call.server.metrics().databases.iter().any(|database| database.keys > 0)
}

/// CLUSTER FORGET node-id: O(1)
fn forget(call: &mut LocalCall<'_>, args: Args<'_>, _reply: &mut Reply<'_>) -> Outcome {
    Err(match Myself::of(call)?.is_named(&args[2]) {
        true => CommandError::Text("ERR I tried hard but I can't forget myself..."),
        false => unknown_node(&args[2]),
    })
}

/// CLUSTER REPLICATE node-id: O(1)
fn replicate(call: &mut LocalCall<'_>, args: Args<'_>, _reply: &mut Reply<'_>) -> Outcome {
    Err(match Myself::of(call)?.is_named(&args[2]) {
        true => CommandError::Text("ERR Can't replicate myself"),
        false => unknown_node(&args[2]),
    })
}

/// CLUSTER COUNT-FAILURE-REPORTS node-id: O(1)
fn count_failure_reports(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    if !Myself::of(call)?.is_named(&args[2]) {
        return Err(unknown_node(&args[2]));
    }
    reply.integer(0);
    Ok(())
}

/// CLUSTER FAILOVER [FORCE | TAKEOVER]: O(1)
fn failover(call: &mut LocalCall<'_>, args: Args<'_>, _reply: &mut Reply<'_>) -> Outcome {
    must_be_enabled(call.server.settings())?;
    let is_option = |word: &[u8]| word.eq_ignore_ascii_case(b"force") || word.eq_ignore_ascii_case(b"takeover");
    if args.len() > 3 || args.get(2).is_some_and(|word| !is_option(word)) {
        return Err(CommandError::Syntax);
    }
    Err(CommandError::Text("ERR You should send CLUSTER FAILOVER to a replica"))
}

/// CLUSTER SETSLOT slot <IMPORTING node-id | MIGRATING node-id | NODE node-id | STABLE>: O(1)
fn setslot(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    const INVALID: &str = "ERR Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP";
    let myself = Myself::of(call)?;
    let slot = slot(&args[2])?;
    let action = args[3].to_ascii_lowercase();
    match (action.as_slice(), args.get(4), args.len()) {
        (b"importing", Some(_), 5) => {
            return Err(CommandError::Owned(format!("ERR I'm already the owner of hash slot {slot}")));
        }
        (b"migrating", Some(id), 5) if !myself.is_named(id) => {
            let id = quoted(id, usize::MAX);
            return Err(CommandError::Owned(format!("ERR I don't know about node {id}")));
        }
        (b"migrating", Some(_), 5) => return Err(KEEPS_ITS_SLOTS),
        (b"node", Some(id), 5) if !myself.is_named(id) => return Err(unknown_node(id)),
        // No slot moves, and each belongs to this node.
        (b"node", Some(_), 5) | (b"stable", None, 4) => {}
        _ => return Err(CommandError::Text(INVALID)),
    }
    reply.ok();
    Ok(())
}

/// CLUSTER BUMPEPOCH: O(1). One node always has the greatest epoch.
fn bumpepoch(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    must_be_enabled(call.server.settings())?;
    reply.simple("STILL 1");
    Ok(())
}

/// CLUSTER SET-CONFIG-EPOCH config-epoch: O(1)
fn set_config_epoch(call: &mut LocalCall<'_>, args: Args<'_>, _reply: &mut Reply<'_>) -> Outcome {
    must_be_enabled(call.server.settings())?;
    let epoch = parse_i64(&args[2]).ok_or(CommandError::NotInteger)?;
    Err(match epoch < 0 {
        true => CommandError::Owned(format!("ERR Invalid config epoch specified: {epoch}")),
        false => CommandError::Text("ERR Node config epoch is already non-zero"),
    })
}

/// CLUSTER SAVECONFIG: O(1). The name of the node is on the disk from the start, and nothing else changes.
fn saveconfig(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    must_be_enabled(call.server.settings())?;
    reply.ok();
    Ok(())
}

/// CLUSTER RESET [HARD | SOFT]: O(1)
fn reset(call: &mut LocalCall<'_>, args: Args<'_>, _reply: &mut Reply<'_>) -> Outcome {
    must_be_enabled(call.server.settings())?;
    let is_option = |word: &[u8]| word.eq_ignore_ascii_case(b"hard") || word.eq_ignore_ascii_case(b"soft");
    if args.len() > 3 || args.get(2).is_some_and(|word| !is_option(word)) {
        return Err(CommandError::Syntax);
    }
    if has_keys(call) {
        return Err(CommandError::Text("ERR CLUSTER RESET can't be called with master nodes containing keys"));
    }
    Err(KEEPS_ITS_SLOTS)
}

/// CLUSTER HELP: O(1)
fn help(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    const LINES: &[&str] = &[
        "CLUSTER <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "COUNTKEYSINSLOT <slot>",
        "    Return the number of keys in <slot>.",
        "GETKEYSINSLOT <slot> <count>",
        "    Return key names stored by current node in a slot.",
        "INFO",
        "    Return information about the cluster.",
        "KEYSLOT <key>",
        "    Return the hash slot for <key>.",
        "LINKS",
        "    Return information about all network links between this node and its peers.",
        "    There are none.",
        "MYID",
        "    Return the node id.",
        "MYSHARDID",
        "    Return the node's shard id.",
        "NODES",
        "    Return cluster configuration seen by node. Output format:",
        "    <id> <ip:port@bus-port[,hostname]> <flags> <master> <pings> <pongs> <epoch> <link> <slot> ...",
        "REPLICAS <node-id>",
        "    Return <node-id> replicas. There are none.",
        "SHARDS",
        "    Return information about slot range mappings and the nodes associated with them.",
        "SLOTS",
        "    Return information about slots range mappings. Each range is made of:",
        "    start, end, master and replicas IP addresses, ports and ids",
        "HELP",
        "    Print this help.",
    ];
    must_be_enabled(call.server.settings())?;
    reply.array(LINES.len());
    LINES.iter().for_each(|line| reply.simple(line));
    Ok(())
}

/// READONLY: O(1). It matters for nodes that do not own a slot, and this one owns all; CLIENT LIST shows it.
fn readonly(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    set_readonly(call, reply, true)
}

/// READWRITE: O(1). Ends READONLY.
fn readwrite(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    set_readonly(call, reply, false)
}

fn set_readonly(call: &mut LocalCall<'_>, reply: &mut Reply<'_>, is_readonly: bool) -> Outcome {
    must_be_enabled(call.server.settings())?;
    call.client.is_readonly.store(is_readonly, Ordering::Relaxed);
    reply.ok();
    Ok(())
}

/// ASKING: O(1). It matters for nodes that do not own a slot, and this one owns all.
fn asking(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    must_be_enabled(call.server.settings())?;
    reply.ok();
    Ok(())
}
