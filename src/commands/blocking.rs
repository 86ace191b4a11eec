//! Commands that wait for something to take: BLPOP and the like.
//!
//! A command that finds nothing puts its connection in the line of each of its keys. A change of such a key serves the
//! waiters in its line, in order of arrival, before anything else runs over it. The shard that was pushed to cannot
//! move an element to a key of another shard: it calls the first waiter, which runs its command again, over both keys,
//! and keeps its place meanwhile. Other commands may run in between (docs/adr/0007). A command claims its own wait
//! before it takes anything, because the wait may have been ended by another thread.

use super::access;
use super::arguments::{number_of_keys, reply_element};
use super::flag_sets::{WAITING_MOVE, WAITING_TAKE};
use super::float::Extended;
use super::lists::{self, end_and_count, parse_end};
use super::row::{Command, Group, Keys, Pending, ReadingOptions, Request, Row, Run};
use super::sorted_sets::pop_waiting;
use super::{CommandError, Outcome, streams};
use crate::commands::documentation::arguments;
use crate::keyspace::{BECAME_REPLICA, BlockedOperation, Collection, End, Keyspace, List, Queued, Store, Tracking};
use crate::resp::{Args, Reply, parse_i64};
use std::time::Duration;

/// The rows of the commands here.
pub(super) const fn rows<S: Store>() -> [Row<S>; 5] {
    [
        Run::Keyspace(blpop).row(Command {
            name: "blpop",
            arity: -3,
            flags: WAITING_TAKE,
            keys: Keys::BUT_LAST,
            request: Request::MultiShardView,
            since: "2.0.0",
            syntax: "key [key ...] timeout",
            arguments: arguments![key("key", 0).repeated(), double("timeout")],
            complexity: "O(N), N = keys",
            summary: "Takes an element from the head of the first list that has one, or waits for one.",
            access: Some(access::TAKE),
            pending: Pending::AtKeys(timeout_last),
            ..Command::of(Group::List)
        }),
        Run::Keyspace(brpop).row(Command {
            name: "brpop",
            arity: -3,
            flags: WAITING_TAKE,
            keys: Keys::BUT_LAST,
            request: Request::MultiShardView,
            since: "2.0.0",
            syntax: "key [key ...] timeout",
            arguments: arguments![key("key", 0).repeated(), double("timeout")],
            complexity: "O(N), N = keys",
            summary: "Takes an element from the tail of the first list that has one, or waits for one.",
            access: Some(access::TAKE),
            pending: Pending::AtKeys(timeout_last),
            ..Command::of(Group::List)
        }),
        Run::Keyspace(blmpop).row(Command {
            name: "blmpop",
            arity: -5,
            flags: WAITING_TAKE,
            keys: Keys::COUNTED_SECOND,
            request: Request::MultiShardView,
            since: "7.0.0",
            syntax: "timeout numkeys key [key ...] <LEFT | RIGHT> [COUNT count]",
            arguments: arguments![
                double("timeout"),
                integer("numkeys"),
                key("key", 0).repeated(),
                one_of("where", arguments![token("left", "LEFT"), token("right", "RIGHT")]),
                integer("count").after("COUNT").optional(),
            ],
            complexity: "O(N+M), N = keys, M = elements taken",
            summary: "Takes elements from the first list that has some, or waits for some.",
            access: Some(access::TAKE),
            pending: Pending::AtKeys(timeout_first),
            ..Command::of(Group::List)
        }),
        Run::Keyspace(blmove).row(Command {
            name: "blmove",
            arity: 6,
            flags: WAITING_MOVE,
            keys: Keys::TWO,
            request: Request::MultiShardView,
            since: "6.2.0",
            syntax: "source destination <LEFT | RIGHT> <LEFT | RIGHT> timeout",
            arguments: arguments![
                key("source", 0),
                key("destination", 1),
                one_of("wherefrom", arguments![token("left", "LEFT"), token("right", "RIGHT")]),
                one_of("whereto", arguments![token("left", "LEFT"), token("right", "RIGHT")]),
                double("timeout"),
            ],
            complexity: "O(1)",
            summary: "Moves an element from one list to another, or waits for one.",
            access: Some(access::MOVE),
            pending: Pending::AtKeys(timeout_last),
            ..Command::of(Group::List)
        }),
        Run::Keyspace(brpoplpush).row(Command {
            name: "brpoplpush",
            arity: 4,
            flags: WAITING_MOVE,
            keys: Keys::TWO,
            request: Request::MultiShardView,
            since: "2.2.0",
            syntax: "source destination timeout",
            arguments: arguments![key("source", 0), key("destination", 1), double("timeout")],
            deprecated_since: Some("6.2.0"),
            complexity: "O(1)",
            summary: "Moves an element from the tail of one list to the head of another, or waits for one.",
            access: Some(access::MOVE),
            pending: Pending::AtKeys(timeout_last),
            ..Command::of(Group::List)
        }),
    ]
}

/// BLPOP key [key ...] timeout: O(N), N = keys
pub fn blpop<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    pop_first(keyspace, args, reply, End::Head)
}

/// BRPOP key [key ...] timeout: O(N), N = keys
pub fn brpop<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    pop_first(keyspace, args, reply, End::Tail)
}

fn pop_first<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>, end: End) -> Outcome {
    let last = args.len() - 1;
    parse_timeout(&args[last], keyspace.turn.now_ms())?;
    for position in 1..last {
        let key = &args[position];
        if has_elements(keyspace, key)? {
            claim_own_wait(keyspace, key)?;
            pop_with_key(keyspace, key, end, reply);
            return Ok(());
        }
    }
    wait_for(keyspace, (1..last).map(|position| &args[position]), &BlockedOperation::Pop(end), reply)
}

/// BLMPOP timeout numkeys key [key ...] <LEFT | RIGHT> [COUNT count]: O(N), N = keys and elements taken
pub fn blmpop<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let after_keys = 3_usize.saturating_add(number_of_keys(&args[2])?);
    let (end, most) = end_and_count(args.from(after_keys))?;
    parse_timeout(&args[1], keyspace.turn.now_ms())?;
    for position in 3..after_keys {
        let key = &args[position];
        if has_elements(keyspace, key)? {
            claim_own_wait(keyspace, key)?;
            pop_many_with_key(keyspace, key, end, most, reply);
            return Ok(());
        }
    }
    wait_for(keyspace, (3..after_keys).map(|position| &args[position]), &BlockedOperation::PopMany(end, most), reply)
}

/// BLMOVE source destination <LEFT | RIGHT> <LEFT | RIGHT> timeout: O(1)
pub fn blmove<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (from, to) = (parse_end(&args[3])?, parse_end(&args[4])?);
    move_first(keyspace, args, reply, from, to)
}

/// BRPOPLPUSH source destination timeout: O(1)
pub fn brpoplpush<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    move_first(keyspace, args, reply, End::Tail, End::Head)
}

fn move_first<S: Store>(
    keyspace: &mut Keyspace<S>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    from: End,
    to: End,
) -> Outcome {
    let (source, destination) = (&args[1], &args[2]);
    parse_timeout(&args[args.len() - 1], keyspace.turn.now_ms())?;
    let has_source = match has_elements(keyspace, source) {
        // A key that is no longer a list ends no wait.
        Err(_) if keyspace.turn.caller.is_in_line() => return Err(CommandError::Waits),
        has_source => has_source?,
    };
    if has_source {
        claim_own_wait(keyspace, source)?;
        if let Err(error) = has_elements(keyspace, destination) {
            // The element stays, for the next in the line.
            keyspace.ready.push(keyspace.store.selected(), source);
            return Err(error);
        }
        move_one(keyspace, source, destination, from, to, reply);
        return Ok(());
    }
    let operation = BlockedOperation::Move(from, to, destination.into());
    if keyspace.turn.caller.wait_in_line(&mut keyspace.store, std::iter::once(source), &operation) {
        return Err(CommandError::Waits);
    }
    reply.null();
    Ok(())
}

/// Serves the waiters of changed keys.
pub fn serve_ready<S: Store>(keyspace: &mut Keyspace<S>) {
    // What they change is no change of the caller's own.
    let tracking = keyspace.turn.caller.tracking;
    keyspace.turn.caller.tracking = Tracking::NONE;
    streams::serve_readers(keyspace);
    while let Some((key, first)) = keyspace.next_ready() {
        if !serve(keyspace, &key, first) {
            keyspace.ready.pass_over(keyspace.store.selected(), &key);
        }
    }
    keyspace.turn.caller.tracking = tracking;
}

/// Serves the first waiter in the line of a key that holds what it waits for, or finds that it went away; false if no
/// waiter can be served now.
fn serve<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8], Queued { waiter, operation }: Queued) -> bool {
    if keyspace.turn.due_keys.only_master_writes() {
        // Whether that ended its wait or the wait was over: the next in the line is checked.
        _ = waiter.refuse(BECAME_REPLICA);
        return true;
    }
    if let BlockedOperation::Move(_, _, destination) = &operation
        && !keyspace.store.covers(destination)
    {
        // A waiter that went away meanwhile passes its turn to the next.
        return !waiter.call();
    }
    // Without queues it waits no more.
    let Some(queues) = waiter.queues() else { return true };
    let key = first_filled(keyspace, &queues.keys, &operation).unwrap_or(key);
    if !waiter.claim() {
        return true;
    }
    let mut encoded = Vec::new();
    let reply = &mut Reply::new(&mut encoded, waiter.resp3());
    match operation {
        BlockedOperation::Pop(end) => pop_with_key(keyspace, key, end, reply),
        BlockedOperation::PopMany(end, most) => pop_many_with_key(keyspace, key, end, most, reply),
        BlockedOperation::Move(from, to, destination) => match has_elements(keyspace, &destination) {
            Ok(_) => move_one(keyspace, key, &destination, from, to, reply),
            Err(error) => {
                keyspace.instance().calls.note_error(&error);
                reply.error(error);
            }
        },
        BlockedOperation::PopElement(..) | BlockedOperation::PopElements(..) => {
            pop_waiting(keyspace, key, &operation, reply)
        }
    }
    keyspace.effects.end_serving();
    keyspace.served.push(waiter, encoded);
    true
}

/// The first of a waiter's keys that holds what its operation takes: it is served from there, as if its command ran
/// again, whichever of them was filled first. A key of a shard that is not at hand would have served it when filled.
fn first_filled<'k, S: Store>(
    keyspace: &mut Keyspace<S>,
    keys: &'k [Box<[u8]>],
    operation: &BlockedOperation,
) -> Option<&'k [u8]> {
    // The only key is the one that is ready.
    let is_choice = keys.len() > 1;
    keys.iter().filter(|_| is_choice).map(|key| &**key).find(|key| keyspace.holds_for(key, operation))
}

/// Claims the caller, so that it is not served otherwise. If its wait has ended already, the element is for the next in
/// the line.
pub fn claim_own_wait<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8]) -> Outcome {
    if keyspace.turn.caller.claim() {
        return Ok(());
    }
    keyspace.ready.push(keyspace.store.selected(), key);
    Err(CommandError::Waits)
}

/// Whether a key holds a list; an error if it holds something else.
fn has_elements<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8]) -> Result<bool, CommandError> {
    keyspace.holds::<List>(key)
}

fn pop_with_key<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8], end: End, reply: &mut Reply<'_>) {
    reply.array(2);
    reply.bulk(key);
    let list = list_of(keyspace, key);
    reply_element(reply, list.peek(end).expect("a list that is kept is not empty"));
    list.truncate(1, end);
    end_taking(keyspace, key, end, 1);
    keyspace.effects.record([pop_name(end), key]);
}

fn pop_many_with_key<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8], end: End, most: usize, reply: &mut Reply<'_>) {
    reply.array(2);
    reply.bulk(key);
    let taken = lists::pop_elements(list_of(keyspace, key), most, end, reply);
    end_taking(keyspace, key, end, taken);
    keyspace.effects.record([pop_name(end), key, taken.to_string().as_bytes()]);
}

fn move_one<S: Store>(
    keyspace: &mut Keyspace<S>,
    source: &[u8],
    destination: &[u8],
    from: End,
    to: End,
    reply: &mut Reply<'_>,
) {
    let element = lists::move_one(keyspace, source, destination, from, to);
    keyspace.effects.record([b"LMOVE", source, destination, end_name(from), end_name(to)]);
    reply.bulk(&element);
}

fn list_of<'a, S: Store>(keyspace: &'a mut Keyspace<S>, key: &[u8]) -> &'a mut List {
    keyspace.collection_mut::<List>(key).ok().flatten().expect("the caller has looked at the list")
}

/// Removes a list that has become empty, and records what was taken.
fn end_taking<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8], end: End, taken: usize) {
    let limits = keyspace.settings().limits::<List>();
    let list = keyspace.collection_mut_uncounted::<List>(key).ok().flatten();
    let is_empty = list.is_some_and(|list| list.shrink(limits));
    lists::note_popped(keyspace, key, taken, end, is_empty);
}

/// Puts the caller in the queues of keys that hold nothing to take; a caller that does not wait gets nothing.
pub fn wait_for<'k, S: Store>(
    keyspace: &mut Keyspace<S>,
    keys: impl Iterator<Item = &'k [u8]> + Clone,
    operation: &BlockedOperation,
    reply: &mut Reply<'_>,
) -> Outcome {
    if keyspace.turn.caller.wait_in_line(&mut keyspace.store, keys, operation) {
        return Err(CommandError::Waits);
    }
    reply.null_array();
    Ok(())
}

fn pop_name(end: End) -> &'static [u8] {
    match end {
        End::Head => b"LPOP",
        End::Tail => b"RPOP",
    }
}

fn end_name(end: End) -> &'static [u8] {
    match end {
        End::Head => b"LEFT",
        End::Tail => b"RIGHT",
    }
}

// How long a request waits, `None` for no limit. An invalid timeout does not matter: the command replies with the error
// and does not wait.

/// The timeout is the last argument, in seconds.
pub fn timeout_last(args: Args<'_>) -> Option<Duration> {
    limit(parse_timeout(&args[args.len() - 1], 0).ok()?)
}

/// The timeout is the first argument, in seconds.
pub fn timeout_first(args: Args<'_>) -> Option<Duration> {
    limit(parse_timeout(&args[1], 0).ok()?)
}

/// The timeout is that of the option BLOCK, in milliseconds.
pub fn timeout_of_streams(args: Args<'_>) -> Option<Duration> {
    limit(parse_timeout_ms(args.get(ReadingOptions::of(args).block_at?)?, 0).ok()?)
}

fn limit(ms: u64) -> Option<Duration> {
    Some(Duration::from_millis(ms)).filter(|wait| !wait.is_zero())
}

/// A timeout in milliseconds. Its end must not overflow.
pub fn parse_timeout_ms(argument: &[u8], now_ms: u64) -> Result<u64, CommandError> {
    let ms = parse_i64(argument).ok_or(CommandError::Text("ERR timeout is not an integer or out of range"))?;
    match u64::try_from(ms) {
        Err(_) => Err(CommandError::Text("ERR timeout is negative")),
        Ok(_) if ms > i64::MAX - now_ms as i64 => Err(CommandError::Text("ERR timeout is out of range")),
        Ok(ms) => Ok(ms),
    }
}

/// A timeout in seconds, perhaps with a fraction, as milliseconds. Its end must not overflow.
pub fn parse_timeout(argument: &[u8], now_ms: u64) -> Result<u64, CommandError> {
    const TOO_LONG: CommandError = CommandError::Text("ERR timeout is out of range");
    const NEGATIVE: CommandError = CommandError::Text("ERR timeout is negative");
    let seconds = Extended::parse(argument);
    let seconds = seconds.ok_or(CommandError::Text("ERR timeout is not a float or out of range"))?;
    match seconds.ceil_of_thousandfold() {
        // An infinite value has lost its sign.
        None if argument.starts_with(b"-") => Err(NEGATIVE),
        None => Err(TOO_LONG),
        Some(ms) if ms > i64::MAX - now_ms as i64 => Err(TOO_LONG),
        Some(ms) => u64::try_from(ms).map_err(|_| NEGATIVE),
    }
}
