//! Lists.

use super::access;
use super::arguments::{count, integer, is, number_of_keys, position, positions, positive, reply_element};
use super::flag_sets::{READ, READ_FAST, SHRINK, SHRINK_FAST, WRITE, WRITE_FAST};
use super::row::{Command, Group, Keys, Request, Row, Run};
use super::{CommandError, Outcome};
use crate::base::lengthy;
use crate::commands::documentation::arguments;
use crate::keyspace::{Class, Collection, End, Keyspace, List, ListLimits, Store};
use crate::resp::{Args, Reply};

/// The rows of the commands here.
pub(super) const fn rows<S: Store>() -> [Row<S>; 13] {
    [
        Run::Keyspace(lpush).row(Command {
            name: "lpush",
            arity: -3,
            flags: WRITE_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "1.0.0",
            syntax: "key element [element ...]",
            arguments: arguments![key("key", 0), string("element").repeated()],
            complexity: "O(N), N = elements given",
            summary: "Adds elements at the head of a list.",
            access: Some(access::INSERT),
            ..Command::of(Group::List)
        }),
        Run::Keyspace(rpush).row(Command {
            name: "rpush",
            arity: -3,
            flags: WRITE_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "1.0.0",
            syntax: "key element [element ...]",
            arguments: arguments![key("key", 0), string("element").repeated()],
            complexity: "O(N), N = elements given",
            summary: "Adds elements at the tail of a list.",
            access: Some(access::INSERT),
            ..Command::of(Group::List)
        }),
        Run::Keyspace(lpushx).row(Command {
            name: "lpushx",
            arity: -3,
            flags: WRITE_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "2.2.0",
            syntax: "key element [element ...]",
            arguments: arguments![key("key", 0), string("element").repeated()],
            complexity: "O(N), N = elements given",
            summary: "Adds elements at the head of a list that exists.",
            access: Some(access::INSERT),
            ..Command::of(Group::List)
        }),
        Run::Keyspace(rpushx).row(Command {
            name: "rpushx",
            arity: -3,
            flags: WRITE_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "2.2.0",
            syntax: "key element [element ...]",
            arguments: arguments![key("key", 0), string("element").repeated()],
            complexity: "O(N), N = elements given",
            summary: "Adds elements at the tail of a list that exists.",
            access: Some(access::INSERT),
            ..Command::of(Group::List)
        }),
        Run::Keyspace(lpop).row(Command {
            name: "lpop",
            arity: -2,
            flags: SHRINK_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "1.0.0",
            syntax: "key [count]",
            arguments: arguments![key("key", 0), integer("count").since("6.2.0").optional()],
            complexity: "O(N), N = elements taken",
            summary: "Takes elements from the head of a list.",
            access: Some(access::TAKE),
            ..Command::of(Group::List)
        }),
        Run::Keyspace(rpop).row(Command {
            name: "rpop",
            arity: -2,
            flags: SHRINK_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "1.0.0",
            syntax: "key [count]",
            arguments: arguments![key("key", 0), integer("count").since("6.2.0").optional()],
            complexity: "O(N), N = elements taken",
            summary: "Takes elements from the tail of a list.",
            access: Some(access::TAKE),
            ..Command::of(Group::List)
        }),
        Run::Keyspace(lmpop).row(Command {
            name: "lmpop",
            arity: -4,
            flags: SHRINK,
            keys: Keys::COUNTED,
            request: Request::MultiShardView,
            since: "7.0.0",
            syntax: "numkeys key [key ...] <LEFT | RIGHT> [COUNT count]",
            arguments: arguments![
                integer("numkeys"),
                key("key", 0).repeated(),
                one_of("where", arguments![token("left", "LEFT"), token("right", "RIGHT")]),
                integer("count").after("COUNT").optional(),
            ],
            complexity: "O(N + M), N = keys, M = elements taken",
            summary: "Takes elements from the first list that exists.",
            access: Some(access::TAKE),
            ..Command::of(Group::List)
        }),
        Run::Keyspace(rpoplpush).row(Command {
            name: "rpoplpush",
            arity: 3,
            flags: WRITE,
            keys: Keys::TWO,
            request: Request::MultiShardView,
            since: "1.2.0",
            syntax: "source destination",
            arguments: arguments![key("source", 0), key("destination", 1)],
            deprecated_since: Some("6.2.0"),
            complexity: "O(1)",
            summary: "Moves the last element of a list to the head of another.",
            access: Some(access::MOVE),
            ..Command::of(Group::List)
        }),
        Run::Keyspace(lmove).row(Command {
            name: "lmove",
            arity: 5,
            flags: WRITE,
            keys: Keys::TWO,
            request: Request::MultiShardView,
            since: "6.2.0",
            syntax: "source destination <LEFT | RIGHT> <LEFT | RIGHT>",
            arguments: arguments![
                key("source", 0),
                key("destination", 1),
                one_of("wherefrom", arguments![token("left", "LEFT"), token("right", "RIGHT")]),
                one_of("whereto", arguments![token("left", "LEFT"), token("right", "RIGHT")]),
            ],
            complexity: "O(1)",
            summary: "Moves an element from an end of a list to an end of another.",
            access: Some(access::MOVE),
            ..Command::of(Group::List)
        }),
        Run::Keyspace(lrange).row(Command {
            name: "lrange",
            arity: 4,
            flags: READ,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "1.0.0",
            syntax: "key start stop",
            arguments: arguments![key("key", 0), integer("start"), integer("stop")],
            complexity: "O(N), N = elements replied",
            summary: "A range of the elements of a list.",
            ..Command::of(Group::List)
        }),
        Run::Keyspace(llen).row(Command {
            name: "llen",
            arity: 2,
            flags: READ_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "1.0.0",
            syntax: "key",
            arguments: arguments![key("key", 0)],
            complexity: "O(1)",
            summary: "The length of a list.",
            access: Some(access::LOOK),
            ..Command::of(Group::List)
        }),
        Run::Keyspace(lindex).row(Command {
            name: "lindex",
            arity: 3,
            flags: READ,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "1.0.0",
            syntax: "key index",
            arguments: arguments![key("key", 0), integer("index")],
            complexity: "O(N), N = distance to the nearer end",
            summary: "An element of a list.",
            ..Command::of(Group::List)
        }),
        Run::Keyspace(lset).row(Command {
            name: "lset",
            arity: 4,
            flags: WRITE,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "1.0.0",
            syntax: "key index element",
            arguments: arguments![key("key", 0), integer("index"), string("element")],
            complexity: "O(N), N = distance to the nearer end",
            summary: "Replaces an element of a list.",
            ..Command::of(Group::List)
        }),
    ]
}

/// LEFT or RIGHT
pub fn parse_end(argument: &[u8]) -> Result<End, CommandError> {
    match argument {
        _ if is(argument, "LEFT") => Ok(End::Head),
        _ if is(argument, "RIGHT") => Ok(End::Tail),
        _ => Err(CommandError::Syntax),
    }
}

/// LPUSH key element [element ...]: O(N), N = elements given
pub fn lpush<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    push(keyspace, args, reply, End::Head)
}

/// RPUSH key element [element ...]: O(N), N = elements given
pub fn rpush<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    push(keyspace, args, reply, End::Tail)
}

/// LPUSHX key element [element ...]: O(N), N = elements given
pub fn lpushx<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    push_existing(keyspace, args, reply, End::Head)
}

/// RPUSHX key element [element ...]: O(N), N = elements given
pub fn rpushx<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    push_existing(keyspace, args, reply, End::Tail)
}

fn push<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>, end: End) -> Outcome {
    let limits = keyspace.settings().limits::<List>();
    let list = keyspace.collection_or_new::<List>(&args[1])?;
    push_elements(limits, list, args.from(2), end);
    reply.count(list.len());
    note_pushed(keyspace, &args[1], args.len() - 2, end);
    Ok(())
}

fn push_existing<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>, end: End) -> Outcome {
    let limits = keyspace.settings().limits::<List>();
    let Some(list) = keyspace.collection_mut::<List>(&args[1])? else {
        reply.integer(0);
        return Ok(());
    };
    push_elements(limits, list, args.from(2), end);
    reply.count(list.len());
    note_pushed(keyspace, &args[1], args.len() - 2, end);
    Ok(())
}

fn note_pushed<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8], count: usize, end: End) {
    keyspace.note_change(key, count);
    let event = match end {
        End::Head => "lpush",
        End::Tail => "rpush",
    };
    keyspace.notify(Class::LIST, event, key);
}

/// Records that elements were taken from a list, and removes it if it is empty.
pub fn note_popped<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8], count: usize, end: End, is_empty: bool) {
    if count > 0 {
        keyspace.notify(Class::LIST, pop_event(end), key);
    }
    if is_empty {
        keyspace.remove_emptied(key);
    }
    keyspace.note_change(key, count);
}

fn pop_event(end: End) -> &'static str {
    match end {
        End::Head => "lpop",
        End::Tail => "rpop",
    }
}

fn push_elements(limits: ListLimits, list: &mut List, elements: Args<'_>, end: End) {
    list.prepare(limits, elements.iter());
    elements.iter().for_each(|element| list.push(limits, element, end));
}

/// LPOP key [count]: O(N), N = elements taken
pub fn lpop<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    match args.len() {
        2 => pop(keyspace, args, reply, End::Head),
        3 => pop_many(keyspace, args, reply, End::Head),
        _ => Err(CommandError::Arity("lpop".to_owned())),
    }
}

/// RPOP key [count]: O(N), N = elements taken
pub fn rpop<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    match args.len() {
        2 => pop(keyspace, args, reply, End::Tail),
        3 => pop_many(keyspace, args, reply, End::Tail),
        _ => Err(CommandError::Arity("rpop".to_owned())),
    }
}

fn pop<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>, end: End) -> Outcome {
    let key = &args[1];
    let limits = keyspace.settings().limits::<List>();
    let Some(list) = keyspace.collection_mut::<List>(key)? else {
        reply.null();
        return Ok(());
    };
    reply_element(reply, list.peek(end).expect("keys of empty lists do not exist"));
    list.truncate(1, end);
    let is_empty = list.shrink(limits);
    note_popped(keyspace, key, 1, end, is_empty);
    Ok(())
}

fn pop_many<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>, end: End) -> Outcome {
    let key = &args[1];
    let wanted = count(&args[2])?;
    let limits = keyspace.settings().limits::<List>();
    let Some(list) = keyspace.collection_mut::<List>(key)? else {
        reply.null_array();
        return Ok(());
    };
    let taken = pop_elements(list, wanted, end, reply);
    let is_empty = list.shrink(limits);
    note_popped(keyspace, key, taken, end, is_empty);
    Ok(())
}

/// Takes at most `wanted` elements and replies them; returns how many.
pub fn pop_elements(list: &mut List, wanted: usize, end: End, reply: &mut Reply<'_>) -> usize {
    let len = list.len();
    let taken = wanted.min(len);
    let elements = match end {
        End::Head => list.range(0..taken),
        End::Tail => list.range_back(len - taken..len),
    };
    reply.array(taken);
    elements.for_each(|element| reply_element(reply, element));
    list.truncate(taken, end);
    taken
}

/// LMPOP numkeys key [key ...] <LEFT | RIGHT> [COUNT count]: O(N + M), N = keys, M = elements taken
pub fn lmpop<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let keys = number_of_keys(&args[1])?;
    let options = keys.checked_add(2).map(|after_keys| args.from(after_keys)).ok_or(CommandError::Syntax)?;
    let (end, wanted) = end_and_count(options)?;
    for key in args.from(2).iter().take(keys) {
        if pop_from(keyspace, key, wanted, end, reply)? {
            return Ok(());
        }
    }
    reply.null_array();
    Ok(())
}

/// <LEFT | RIGHT> [COUNT count]
pub(super) fn end_and_count(options: Args<'_>) -> Result<(End, usize), CommandError> {
    let end = parse_end(options.get(0).ok_or(CommandError::Syntax)?)?;
    let count = match options.get(2).filter(|_| options.is(1, "COUNT")) {
        Some(count) => positive(count, "ERR count should be greater than 0")?,
        None if options.len() == 1 => return Ok((end, 1)),
        None => return Err(CommandError::Syntax),
    };
    if options.len() > 3 { Err(CommandError::Syntax) } else { Ok((end, count)) }
}

/// Takes elements from a list and replies them with its key; false if there is no such list.
fn pop_from<S: Store>(
    keyspace: &mut Keyspace<S>,
    key: &[u8],
    wanted: usize,
    end: End,
    reply: &mut Reply<'_>,
) -> Result<bool, CommandError> {
    let limits = keyspace.settings().limits::<List>();
    let Some(list) = keyspace.collection_mut::<List>(key)? else { return Ok(false) };
    reply.array(2);
    reply.bulk(key);
    let taken = pop_elements(list, wanted, end, reply);
    let is_empty = list.shrink(limits);
    note_popped(keyspace, key, taken, end, is_empty);
    record_popped(keyspace, key, taken, end);
    Ok(true)
}

/// Adds the effect that elements were taken from one end of a list, whatever other keys were requested.
fn record_popped<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8], taken: usize, end: End) {
    if keyspace.effects.is_logged() {
        let name: &[u8] = match end {
            End::Head => b"LPOP",
            End::Tail => b"RPOP",
        };
        keyspace.effects.record([name, key, itoa::Buffer::new().format(taken).as_bytes()]);
    }
}

/// RPOPLPUSH source destination: O(1)
pub fn rpoplpush<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    move_element(keyspace, args, reply, End::Tail, End::Head)
}

/// LMOVE source destination <LEFT | RIGHT> <LEFT | RIGHT>: O(1)
pub fn lmove<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (from, to) = (parse_end(&args[3])?, parse_end(&args[4])?);
    move_element(keyspace, args, reply, from, to)
}

fn move_element<S: Store>(
    keyspace: &mut Keyspace<S>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    from: End,
    to: End,
) -> Outcome {
    let (source, destination) = (&args[1], &args[2]);
    if !keyspace.holds::<List>(source)? {
        reply.null();
        return Ok(());
    }
    keyspace.holds::<List>(destination)?;
    reply.bulk(&move_one(keyspace, source, destination, from, to));
    Ok(())
}

/// Moves an element from a list to another, which may not exist yet, and returns it.
pub fn move_one<S: Store>(
    keyspace: &mut Keyspace<S>,
    source: &[u8],
    destination: &[u8],
    from: End,
    to: End,
) -> Vec<u8> {
    const LOOKED_AT: &str = "the caller has looked at both keys";
    let list = keyspace.collection_mut::<List>(source).ok().flatten().expect(LOOKED_AT);
    let element = list.peek(from).expect("keys of empty lists do not exist").to_vec();
    list.truncate(1, from);
    // If the source has become empty, it is removed only after the element was added: it may be the destination, too.
    let limits = keyspace.settings().limits::<List>();
    let list = keyspace.collection_or_new::<List>(destination).expect(LOOKED_AT);
    list.prepare(limits, std::iter::once(element.as_slice()));
    list.push(limits, &element, to);
    note_pushed(keyspace, destination, 1, to);
    let list = keyspace.collection_mut_uncounted::<List>(source).expect(LOOKED_AT);
    let is_empty = list.is_some_and(|list| list.shrink(limits));
    keyspace.notify(Class::LIST, pop_event(from), source);
    if is_empty {
        keyspace.remove_emptied(source);
    }
    if source != destination {
        // Redis counts one change.
        keyspace.note_touched(source);
    }
    element
}

/// LRANGE key start stop: O(N), N = elements replied
pub fn lrange<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (start, stop) = (integer(&args[2])?, integer(&args[3])?);
    let Some(list) = keyspace.read_collection::<List>(&args[1])? else {
        reply.array(0);
        return Ok(());
    };
    let elements = list.range(positions(start, stop, list.len()));
    reply.array(elements.len());
    lengthy::run(elements.len(), || elements.for_each(|element| reply_element(reply, element)));
    Ok(())
}

/// LLEN key: O(1)
pub fn llen<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.count(keyspace.read_collection::<List>(&args[1])?.map_or(0, List::len));
    Ok(())
}

/// LINDEX key index: O(N), N = distance to the nearer end
pub fn lindex<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let Some(list) = keyspace.read_collection::<List>(&args[1])? else {
        reply.null();
        return Ok(());
    };
    match position(integer(&args[2])?, list.len()).and_then(|at| list.get(at)) {
        Some(element) => reply_element(reply, element),
        None => reply.null(),
    }
    Ok(())
}

/// LSET key index element: O(N), N = distance to the nearer end
pub fn lset<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let limits = keyspace.settings().limits::<List>();
    let list = keyspace.collection_mut::<List>(&args[1])?.ok_or(CommandError::NoSuchKey)?;
    let index = integer(&args[2])?;
    // Redis makes room before it looks for the element.
    list.prepare(limits, std::iter::once(&args[3]));
    let at = position(index, list.len()).ok_or(CommandError::IndexOutOfRange)?;
    list.set(limits, at, &args[3]);
    list.settle(limits);
    keyspace.note_change(&args[1], 1);
    keyspace.notify(Class::LIST, "lset", &args[1]);
    reply.ok();
    Ok(())
}
