//! Reads entries by their IDs: XLEN, XRANGE, XREVRANGE.

use super::super::arguments::integer;
use super::super::{CommandError, Outcome};
use super::{interval_end, interval_start, write_entries};
use crate::keyspace::{Keyspace, Store, Stream};
use crate::resp::{Args, Reply};

/// XLEN key: O(1)
pub fn xlen<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.count(keyspace.read_collection::<Stream>(&args[1])?.map_or(0, Stream::len));
    Ok(())
}

/// XRANGE key start end [COUNT count]: O(log N + M), N = blocks of 100 entries, M = entries replied
pub fn xrange<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    range(keyspace, args, reply, false)
}

/// XREVRANGE key end start [COUNT count]: O(log N + M), N = blocks of 100 entries, M = entries replied
pub fn xrevrange<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    range(keyspace, args, reply, true)
}

fn range<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>, is_reversed: bool) -> Outcome {
    let (start, end) = if is_reversed { (3, 2) } else { (2, 3) };
    let start = interval_start(&args[start])?;
    let end = interval_end(&args[end])?;
    let most = count(args.from(4))?;
    let Some(stream) = keyspace.read_collection::<Stream>(&args[1])? else {
        reply.array(0);
        return Ok(());
    };
    match most {
        Some(0) => reply.null_array(),
        most if is_reversed => {
            write_entries(stream.range_reversed(start, end).take(most.unwrap_or(usize::MAX)), reply);
        }
        most => write_entries(stream.range(start, end).take(most.unwrap_or(usize::MAX)), reply),
    }
    Ok(())
}

/// [COUNT count], any number of times; the last one counts. `None` for all.
fn count(options: Args<'_>) -> Result<Option<usize>, CommandError> {
    let mut count = None;
    for at in (0..options.len()).step_by(2) {
        let value = options.get(at + 1).filter(|_| options.is(at, "COUNT")).ok_or(CommandError::Syntax)?;
        count = Some(usize::try_from(integer(value)?).unwrap_or(0));
    }
    Ok(count)
}
