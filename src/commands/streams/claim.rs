//! Assigns entries to other consumers: XCLAIM, XAUTOCLAIM.

use super::super::arguments::is;
use super::super::{CommandError, Outcome};
use super::log::{Given, Owner, give, record_given, record_gone, record_progress};
use super::{group_of, id, interval_start, no_such_group, write_entry, write_id};
use crate::keyspace::values::stream::{Group, Pending, StreamId};
use crate::keyspace::{Class, Keyspace, Store, Stream};
use crate::resp::{Args, Reply, parse_i64};

/// XCLAIM key group consumer min-idle-time id [id ...] [IDLE ms] [TIME unix-time-milliseconds] [RETRYCOUNT count]
/// [FORCE] [JUSTID] [LASTID lastid]: O(M log N), M = IDs, N = entries not acknowledged
pub fn xclaim<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let owner = Owner { key: &args[1], group: &args[2], consumer: &args[3] };
    let (now_ms, is_replaying) = (keyspace.turn.now_ms() as i64, keyspace.turn.is_replaying());
    let stream = keyspace.read_collection_mut::<Stream>(owner.key)?;
    group_of(stream.as_deref(), owner.key, owner.group)?;
    let stream = stream.ok_or_else(|| no_such_group(owner.key, owner.group))?;
    let claim = Claim::parse(args, now_ms, is_replaying)?;

    let mut group = lend_group(stream, owner);
    let moves_on = claim.last_id > group.last_id;
    group.last_id = group.last_id.max(claim.last_id);
    let is_new = group.add_consumer(owner.consumer, now_ms);
    let (given, gone) = claim.claim(stream, &mut group, owner.consumer);
    write_claimed(stream, &given, claim.only_ids, reply);
    // The log says when it was active.
    note_asked(&mut group, owner.consumer, now_ms, !given.is_empty() && !is_replaying);
    claim.note_replayed(&mut group, owner.consumer);
    let (last_id, entries_read) = (group.last_id, group.entries_read);
    give_back(stream, owner, group);

    if is_new || !given.is_empty() {
        record_given(keyspace, owner, &given, claim.delivered_ms);
    }
    record_gone(keyspace, owner.key, owner.group, &gone);
    if moves_on {
        record_progress(keyspace, owner.key, owner.group, last_id, entries_read);
    }
    // As in Redis, the new last ID is no change of its own where an entry changes, too.
    let claims = (given.len() + gone.len()).max(usize::from(moves_on));
    keyspace.stats.note_unwatched_change(claims + usize::from(is_new));
    if is_new {
        keyspace.notify(Class::STREAM, "xgroup-createconsumer", owner.key);
    }
    Ok(())
}

/// Takes a group out of its stream, so that both can be used; [`give_back`] puts it back.
fn lend_group(stream: &mut Stream, owner: Owner<'_>) -> Group {
    let place = stream.groups.get_mut(owner.group).expect("the caller has found the group");
    std::mem::replace(place, Group::new(StreamId::MIN, None))
}

fn give_back(stream: &mut Stream, owner: Owner<'_>, group: Group) {
    *stream.groups.get_mut(owner.group).expect("its place was kept") = group;
}

fn note_asked(group: &mut Group, consumer: &[u8], now_ms: i64, was_given: bool) {
    let consumer = group.consumer_mut(consumer).expect("the caller has added it");
    consumer.seen_ms = now_ms;
    if was_given {
        consumer.active_ms = Some(now_ms);
    }
}

/// An array of the entries, or of their IDs. They exist.
fn write_claimed(stream: &Stream, given: &Given, only_ids: bool, reply: &mut Reply<'_>) {
    reply.array(given.len());
    for &(id, _) in given {
        match stream.get(id).filter(|_| !only_ids) {
            Some(entry) => write_entry(&entry, reply),
            None => write_id(id, reply),
        }
    }
}

/// Whether an entry has waited long enough to be taken from its consumer.
fn is_idle(pending: &Pending, idle_ms_min: i64, now_ms: i64) -> bool {
    idle_ms_min <= 0 || now_ms.wrapping_sub(pending.delivered_ms) >= idle_ms_min
}

/// The arguments of XCLAIM.
#[derive(Debug)]
struct Claim {
    now_ms: i64,
    idle_ms_min: i64,
    ids: Vec<StreamId>,
    /// When the entries count as delivered.
    delivered_ms: i64,
    /// RETRYCOUNT.
    deliveries: Option<u64>,
    forces: bool,
    only_ids: bool,
    last_id: StreamId,
    /// SEEN, only in the log.
    seen_ms: Option<i64>,
    /// ACTIVE, only in the log.
    active_ms: Option<i64>,
}

impl Claim {
    fn parse(args: Args<'_>, now_ms: i64, is_replaying: bool) -> Result<Self, CommandError> {
        let idle_ms_min = number(&args[4], "ERR Invalid min-idle-time argument for XCLAIM")?;
        let ids: Vec<StreamId> = args.from(5).iter().map_while(|argument| StreamId::parse(argument, 0)).collect();
        let mut claim = Self {
            now_ms,
            idle_ms_min,
            delivered_ms: now_ms,
            deliveries: None,
            forces: false,
            only_ids: false,
            last_id: StreamId::MIN,
            seen_ms: None,
            active_ms: None,
            ids,
        };
        let mut at = 5 + claim.ids.len();
        while let Some(option) = args.get(at) {
            at += claim.parse_option(option, args.get(at + 1), is_replaying)?;
        }
        // A client with a wrong clock is no reason to fail.
        if !is_replaying && !(0..=now_ms).contains(&claim.delivered_ms) {
            claim.delivered_ms = now_ms;
        }
        Ok(claim)
    }

    /// Parses an option, and returns how many arguments it took.
    fn parse_option(&mut self, option: &[u8], value: Option<&[u8]>, is_replaying: bool) -> Result<usize, CommandError> {
        let Some(value) = value.filter(|_| !is(option, "FORCE") && !is(option, "JUSTID")) else {
            match option {
                _ if is(option, "FORCE") => self.forces = true,
                _ if is(option, "JUSTID") => self.only_ids = true,
                _ => return Err(unknown_option(option)),
            }
            return Ok(1);
        };
        match option {
            _ if is(option, "IDLE") => {
                let idle_ms = number(value, "ERR Invalid IDLE option argument for XCLAIM")?;
                self.delivered_ms = self.now_ms.wrapping_sub(idle_ms);
            }
            _ if is(option, "TIME") => {
                self.delivered_ms = number(value, "ERR Invalid TIME option argument for XCLAIM")?;
            }
            _ if is(option, "RETRYCOUNT") => {
                let count = number(value, "ERR Invalid RETRYCOUNT option argument for XCLAIM")?;
                // A count beyond 2^63 is logged as Redis replies it: negative.
                self.deliveries = (count >= 0 || is_replaying).then_some(count as u64);
            }
            _ if is(option, "LASTID") => self.last_id = id(value)?,
            _ if is_replaying && is(option, "SEEN") => self.seen_ms = parse_i64(value),
            _ if is_replaying && is(option, "ACTIVE") => self.active_ms = parse_i64(value),
            _ => return Err(unknown_option(option)),
        }
        Ok(2)
    }

    /// Assigns the entries to a consumer; returns those assigned, and those that are no longer in the stream and so no
    /// longer pending.
    fn claim(&self, stream: &Stream, group: &mut Group, consumer: &[u8]) -> (Vec<(StreamId, u64)>, Vec<StreamId>) {
        let (mut given, mut gone) = (Vec::new(), Vec::new());
        for &id in &self.ids {
            let pending = group.pending(id);
            if stream.get(id).is_none() {
                if group.acknowledge(id) {
                    gone.push(id);
                }
                continue;
            }
            let before = match pending {
                Some(pending) if !is_idle(pending, self.idle_ms_min, self.now_ms) => continue,
                Some(pending) => pending.deliveries,
                None if self.forces => 1,
                None => continue,
            };
            let counted = if self.only_ids { before } else { before.wrapping_add(1) };
            let deliveries = self.deliveries.unwrap_or(counted);
            give(group, consumer, &[(id, deliveries)], self.delivered_ms);
            given.push((id, deliveries));
        }
        (given, gone)
    }

    fn note_replayed(&self, group: &mut Group, consumer: &[u8]) {
        let consumer = group.consumer_mut(consumer).expect("the caller has added it");
        consumer.seen_ms = self.seen_ms.unwrap_or(consumer.seen_ms);
        consumer.active_ms = self.active_ms.or(consumer.active_ms);
    }
}

fn number(argument: &[u8], otherwise: &'static str) -> Result<i64, CommandError> {
    parse_i64(argument).ok_or(CommandError::Text(otherwise))
}

fn unknown_option(option: &[u8]) -> CommandError {
    CommandError::Owned(format!("ERR Unrecognized XCLAIM option '{}'", super::shown(option)))
}

/// XAUTOCLAIM key group consumer min-idle-time start [COUNT count] [JUSTID]: O(M log N), M = entries visited, N =
/// entries not acknowledged
pub fn xautoclaim<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let owner = Owner { key: &args[1], group: &args[2], consumer: &args[3] };
    let now_ms = keyspace.turn.now_ms() as i64;
    let mut walk = Walk::parse(args, now_ms).inspect_err(|_| _ = keyspace.inspect(owner.key))?;
    let stream = keyspace.read_collection_mut::<Stream>(owner.key)?;
    group_of(stream.as_deref(), owner.key, owner.group)?;
    let stream = stream.ok_or_else(|| no_such_group(owner.key, owner.group))?;
    walk.check_memory()?;

    let mut group = lend_group(stream, owner);
    let is_new = group.add_consumer(owner.consumer, now_ms);
    let next = walk.claim(stream, &mut group, owner.consumer);
    let Walk { given, gone, only_ids, .. } = walk;
    reply.array(3);
    write_id(next, reply);
    write_claimed(stream, &given, only_ids, reply);
    reply.array(gone.len());
    gone.iter().for_each(|&id| write_id(id, reply));
    note_asked(&mut group, owner.consumer, now_ms, !given.is_empty());
    give_back(stream, owner, group);

    if is_new || !given.is_empty() {
        record_given(keyspace, owner, &given, now_ms);
    }
    record_gone(keyspace, owner.key, owner.group, &gone);
    keyspace.stats.note_unwatched_change(given.len() + gone.len() + usize::from(is_new));
    if is_new {
        keyspace.notify(Class::STREAM, "xgroup-createconsumer", owner.key);
    }
    Ok(())
}

/// The arguments of XAUTOCLAIM, and its result.
#[derive(Debug)]
struct Walk {
    now_ms: i64,
    idle_ms_min: i64,
    start: StreamId,
    most: usize,
    only_ids: bool,
    given: Vec<(StreamId, u64)>,
    gone: Vec<StreamId>,
}

impl Walk {
    fn parse(args: Args<'_>, now_ms: i64) -> Result<Self, CommandError> {
        const COUNT: &str = "ERR COUNT must be > 0";
        /// Redis uses this bound to avoid an overflow of bytes.
        const COUNT_MAX: usize = isize::MAX.cast_unsigned() / 16;
        let idle_ms_min = number(&args[4], "ERR Invalid min-idle-time argument for XAUTOCLAIM")?;
        let start = interval_start(&args[5])?;
        let (given, gone) = (Vec::new(), Vec::new());
        let mut walk = Self { now_ms, idle_ms_min, start, most: 100, only_ids: false, given, gone };
        let mut at = 6;
        while at < args.len() {
            if args.is(at, "JUSTID") {
                walk.only_ids = true;
                at += 1;
            } else if args.is(at, "COUNT") && at + 1 < args.len() {
                let count = usize::try_from(number(&args[at + 1], COUNT)?).ok();
                let count = count.filter(|count| (1..=COUNT_MAX).contains(count));
                walk.most = count.ok_or(CommandError::Text(COUNT))?;
                at += 2;
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(walk)
    }

    /// Refuses a count for which Redis cannot have the memory on any machine: 16 bytes each, 47 bits of addresses.
    fn check_memory(&self) -> Outcome {
        const COUNT_MAX: usize = 1 << 43;
        if self.most < COUNT_MAX {
            return Ok(());
        }
        const TEXT: &str = "ERR Insufficient memory, failed allocating transient memory, COUNT too high.";
        Err(CommandError::Text(TEXT))
    }

    /// Walks over pending entries and assigns those that have waited long enough to a consumer; returns the ID to
    /// continue from.
    fn claim(&mut self, stream: &Stream, group: &mut Group, consumer: &[u8]) -> StreamId {
        const LOOKS_PER_ENTRY: usize = 10;
        let mut looks = self.most * LOOKS_PER_ENTRY;
        let mut from = Some(self.start);
        let next = |group: &Group, from: Option<StreamId>| {
            let (id, pending) = group.pending_from(from?).next()?;
            Some((id, pending.clone()))
        };
        while looks > 0 && self.given.len() + self.gone.len() < self.most {
            let Some((id, pending)) = next(group, from) else { break };
            looks -= 1;
            from = id.next();
            if stream.get(id).is_none() {
                group.acknowledge(id);
                self.gone.push(id);
            } else if is_idle(&pending, self.idle_ms_min, self.now_ms) {
                let before = pending.deliveries;
                let deliveries = if self.only_ids { before } else { before.wrapping_add(1) };
                give(group, consumer, &[(id, deliveries)], self.now_ms);
                self.given.push((id, deliveries));
            }
        }
        next(group, from).map_or(StreamId::MIN, |(id, _)| id)
    }
}
