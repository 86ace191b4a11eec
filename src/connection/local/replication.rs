//! Commands about replication.

use super::{LocalCall, LocalFn};
use crate::base::network::is_host;
use crate::commands::Outcome;
use crate::commands::arguments::integer;
use crate::config::Directive;
use crate::connection::replica_feed::{Request, Wanted};
use crate::replication::{Filter, Introduction, LinkState, Master, Phase, Role};
use crate::resp::{Args, CommandError, Reply, quoted};

/// The functions of the commands here, by the names of their rows.
pub(super) const FUNCTIONS: &[(&str, LocalFn)] =
    &[("role", role), ("sync", sync), ("psync", psync), ("replconf", replconf)];

/// Bytes of an address at most, as in Redis.
const ADDRESS_LEN_MAX: usize = 255;
/// How many bytes of the name of a stream are shown.
const ID_SHOWN: usize = 64;

/// ROLE: O(1)
fn role(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let replication = &call.server.replication;
    match replication.role() {
        Role::Master => {
            reply.array(3);
            reply.bulk(b"master");
            write_offset(replication.offset(), reply);
            write_replicas(call, reply);
        }
        Role::Replica(Master { host, port, link }) => {
            reply.array(5);
            reply.bulk(b"slave");
            reply.bulk(host.as_bytes());
            reply.integer(port.into());
            reply.bulk(link.name().as_bytes());
            match link {
                LinkState::Connected => write_offset(replication.offset(), reply),
                _ => reply.integer(-1),
            }
        }
    }
    Ok(())
}

fn write_replicas(call: &LocalCall<'_>, reply: &mut Reply<'_>) {
    let replicas = call.server.replication.replicas();
    let online: Vec<_> = replicas.iter().filter(|replica| replica.phase() == Phase::Online).collect();
    reply.array(online.len());
    for replica in online {
        reply.array(3);
        reply.bulk(replica.introduction.address.as_deref().unwrap_or_default().as_bytes());
        reply.bulk(replica.introduction.port.to_string().as_bytes());
        reply.bulk(replica.acknowledged().to_string().as_bytes());
    }
}

/// SYNC: O(N), N = bytes of all keys
fn sync(call: &mut LocalCall<'_>, _args: Args<'_>, _reply: &mut Reply<'_>) -> Outcome {
    must_have_one_stream(call)?;
    attach(call, Wanted::Sync)
}

/// PSYNC replicationid offset: O(1), or O(N) where all keys are sent, N = bytes of them
///
/// The link sends its reply.
fn psync(call: &mut LocalCall<'_>, args: Args<'_>, _reply: &mut Reply<'_>) -> Outcome {
    must_have_one_stream(call)?;
    if args.len() > 3 && args.is(3, "FAILOVER") {
        take_over(call, &args[1])?;
    }
    let (id, next) = (&args[1], integer(&args[2]));
    let next = next.inspect_err(|_| {
        tracing::warn!("Replica {} asks for synchronization but with a wrong offset", call.client.address);
    })?;
    let asks = id != b"?";
    let position = u64::try_from(next).ok().and_then(|next| next.checked_sub(1));
    let asked = position.filter(|_| asks).zip(std::str::from_utf8(id).ok());
    let continuation = asked.and_then(|(position, id)| call.server.replication.continued(id, position));
    attach(call, Wanted::Psync { is_refused: asks && continuation.is_none(), continuation })
}

/// Refuses replicas, also one that would make this server its master: parts that take effect one by one have no place
/// in a single stream.
fn must_have_one_stream(call: &LocalCall<'_>) -> Outcome {
    match call.server.config.number(Directive::MultiKey) > 0 {
        true => Err(CommandError::Text("NOMASTERLINK Replication needs `--multi-key atomic`")),
        false => Ok(()),
    }
}

/// Becomes a master, because the master that this server follows asks for it.
fn take_over(call: &LocalCall<'_>, id: &[u8]) -> Outcome {
    tracing::info!("Failover request received for replid {}.", quoted(id, ID_SHOWN));
    if !call.server.is_replica() {
        return Err(CommandError::Text("ERR PSYNC FAILOVER can't be sent to a master."));
    }
    if !id.eq_ignore_ascii_case(call.server.replication.history().id.as_bytes()) {
        return Err(CommandError::Text("ERR PSYNC FAILOVER replid must match my replid."));
    }
    call.server.promote();
    tracing::info!("MASTER MODE enabled (failover request from '{}')", call.client.address);
    Ok(())
}

/// Makes the connection a replica once all its replies are sent.
fn attach(call: &mut LocalCall<'_>, wanted: Wanted) -> Outcome {
    if call.server.replication.failover().is_some() {
        return Err(CommandError::Text("NOMASTERLINK Can't SYNC while failing over"));
    }
    // A replica passes on the stream that it receives, while it receives one.
    if call.server.replication.link().is_some_and(|link| link != LinkState::Connected) {
        return Err(CommandError::Text("NOMASTERLINK Can't SYNC while not connected with my master"));
    }
    // A snapshot would have libraries of later than its position, and the stream changes them again.
    if call.server.replication.functions_ahead().is_some() {
        return Err(CommandError::Text("NOMASTERLINK Can't SYNC while the functions are ahead of the data"));
    }
    let introduction = call.state.introduction.clone();
    call.state.sync = Some(Request { introduction, wanted });
    call.state.is_closing = true;
    Ok(())
}

/// REPLCONF [option value ...]: O(1)
fn replconf(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    if args.len().is_multiple_of(2) {
        return Err(CommandError::Syntax);
    }
    for at in (1..args.len()).step_by(2) {
        // A connection that is no replica has nothing to acknowledge, and gets no reply.
        if args.is(at, "ACK") || args.is(at, "GETACK") {
            return Ok(());
        }
        introduce(&mut call.state.introduction, args, at)?;
    }
    reply.ok();
    Ok(())
}

fn introduce(introduction: &mut Introduction, args: Args<'_>, at: usize) -> Outcome {
    let value = &args[at + 1];
    if args.is(at, "LISTENING-PORT") {
        introduction.port = u16::try_from(integer(value)?).unwrap_or_default();
    } else if args.is(at, "IP-ADDRESS") {
        introduction.address = address(value)?;
    } else if args.is(at, "CAPA") {
        introduction.takes_eof |= value.eq_ignore_ascii_case(b"eof");
        introduction.takes_new_id |= value.eq_ignore_ascii_case(b"psync2");
    } else if args.is(at, "RDB-ONLY") {
        introduction.wants_snapshot_alone = match integer(value)? {
            0 => false,
            1 => true,
            _ => return Err(CommandError::Text("ERR value is out of range, value must between 0 and 1")),
        };
    } else if args.is(at, "RDB-FILTER-ONLY") {
        introduction.filter = Some(filter(value)?);
    } else if !args.is(at, "VERSION") {
        let option = quoted(&args[at], usize::MAX);
        return Err(CommandError::Owned(format!("ERR Unrecognized REPLCONF option: {option}")));
    }
    Ok(())
}

fn filter(value: &[u8]) -> Result<Filter, CommandError> {
    let mut words = value.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).peekable();
    let wanted = if words.peek().is_none() { Filter::Nothing } else { Filter::Functions };
    match words.find(|word| !word.eq_ignore_ascii_case(b"functions")) {
        None => Ok(wanted),
        Some(word) => {
            let word = quoted(word, usize::MAX);
            Err(CommandError::Owned(format!("ERR Unsupported rdb-filter-only option: {word}")))
        }
    }
}

fn address(value: &[u8]) -> Result<Option<String>, CommandError> {
    if value.len() > ADDRESS_LEN_MAX {
        let len = value.len();
        let text = format!("ERR REPLCONF ip-address provided by replica instance is too long: {len} bytes");
        return Err(CommandError::Owned(text));
    }
    let address = String::from_utf8_lossy(value).into_owned();
    match address.is_empty() || is_host(&address) {
        true => Ok(Some(address).filter(|address| !address.is_empty())),
        // FAILOVER could not follow it.
        false => Err(CommandError::Text("ERR REPLCONF ip-address provided by replica instance is no address")),
    }
}

fn write_offset(offset: u64, reply: &mut Reply<'_>) {
    reply.integer(i64::try_from(offset).expect("no stream gets as long as 2^63 bytes"));
}
