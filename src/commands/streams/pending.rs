//! XPENDING: entries that consumers have not acknowledged.

use super::super::arguments::integer;
use super::super::{CommandError, Outcome};
use super::{group_of, interval_end, interval_start, write_all, write_id};
use crate::keyspace::values::stream::{Group, Pending, StreamId};
use crate::keyspace::{Keyspace, Store, Stream};
use crate::resp::{Args, Reply};

/// XPENDING key group [[IDLE min-idle-time] start end count [consumer]]: O(log N + M), N = entries not acknowledged,
/// M = those replied or skipped by IDLE; O(C) without a range, C = consumers
pub fn xpending<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let range = match args.len() {
        3 => None,
        6..=9 => Some(PendingRange::parse(args)?),
        _ => return Err(CommandError::Syntax),
    };
    let now_ms = keyspace.turn.now_ms() as i64;
    let stream = keyspace.read_collection::<Stream>(&args[1])?;
    let group = group_of(stream, &args[1], &args[2])?;
    match range {
        None => write_summary(group, reply),
        Some(range) => range.write(group, now_ms, reply),
    }
    Ok(())
}

/// How many entries are pending, the first and the last of them, and how many each consumer has.
fn write_summary(group: &Group, reply: &mut Reply<'_>) {
    reply.array(4);
    reply.count(group.pending_len());
    let mut pending = group.pending_from(StreamId::MIN).map(|(id, _)| id);
    let Some(first) = pending.next() else {
        reply.null();
        reply.null();
        return reply.null_array();
    };
    write_id(first, reply);
    write_id(pending.next_back().unwrap_or(first), reply);
    let owners = group.consumers().filter(|(_, consumer)| consumer.pending_len() > 0);
    write_all(owners, reply, |(name, consumer), reply| {
        reply.array(2);
        reply.bulk(name);
        reply.bulk_integer(consumer.pending_len() as i64);
    });
}

/// [IDLE min-idle-time] start end count [consumer]
#[derive(Debug)]
struct PendingRange<'a> {
    idle_ms_min: i64,
    start: StreamId,
    end: StreamId,
    most: usize,
    consumer: Option<&'a [u8]>,
}

impl<'a> PendingRange<'a> {
    fn parse(args: Args<'a>) -> Result<Self, CommandError> {
        let (idle_ms_min, at) = if args.is(3, "IDLE") { (integer(&args[4])?, 5) } else { (0, 3) };
        if args.len() < at + 3 {
            return Err(CommandError::Syntax);
        }
        let most = usize::try_from(integer(&args[at + 2])?).unwrap_or(0);
        let (start, end) = (interval_start(&args[at])?, interval_end(&args[at + 1])?);
        Ok(Self { idle_ms_min, start, end, most, consumer: args.get(at + 3) })
    }

    fn write(&self, group: &Group, now_ms: i64, reply: &mut Reply<'_>) {
        match self.consumer {
            Some(consumer) => self.write_of(group.pending_of(consumer, self.start), now_ms, reply),
            None => self.write_of(group.pending_from(self.start), now_ms, reply),
        }
    }

    fn write_of<'p>(&self, pending: impl Iterator<Item = (StreamId, &'p Pending)>, now_ms: i64, reply: &mut Reply<'_>) {
        let idle_ms = |pending: &Pending| now_ms.wrapping_sub(pending.delivered_ms);
        let in_range = pending.take_while(|(id, _)| *id <= self.end);
        let idle = in_range.filter(|(_, pending)| self.idle_ms_min == 0 || idle_ms(pending) >= self.idle_ms_min);
        write_all(idle.take(self.most), reply, |(id, pending), reply| {
            reply.array(4);
            write_id(id, reply);
            reply.bulk(&pending.consumer);
            reply.integer(idle_ms(pending).max(0));
            reply.integer(pending.deliveries as i64);
        });
    }
}
