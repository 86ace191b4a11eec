//! Strings.

use super::access;
use super::arguments::{integer, is};
use super::expiry::{ExpiryOption, TimeForm, record_deadline, record_set_until, remove_deadline};
use super::flag_sets::{READ, READ_FAST, SHRINK_FAST, WRITE, WRITE_FAST};
use super::float::Extended;
use super::row::{Command, Group, Keys, Request, Response, Row, Run};
use super::text::{checked_len, lengthen, make_text, text_of};
use super::{CommandError, Outcome};
use crate::base::narrowing::size;
use crate::commands::documentation::arguments;
use crate::keyspace::{Class, Keyspace, NewValue, Node, Removal, Store, Value};
use crate::resp::{Args, Reply};

/// The rows of the commands here.
pub(super) const fn rows<S: Store>() -> [Row<S>; 21] {
    [
        Run::Keyspace(set).row(Command {
            name: "set",
            arity: -3,
            flags: WRITE,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "1.0.0",
            syntax: "key value [NX | XX] [GET] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]",
            arguments: arguments![
                key("key", 0),
                string("value"),
                one_of("condition", arguments![token("nx", "NX"), token("xx", "XX")]).since("2.6.12").optional(),
                token("get", "GET").since("6.2.0").optional(),
                one_of(
                    "expiration",
                    arguments![
                        integer("seconds").after("EX").since("2.6.12"),
                        integer("milliseconds").after("PX").since("2.6.12"),
                        unix_time("unix-time-seconds").after("EXAT").since("6.2.0"),
                        unix_time("unix-time-milliseconds").after("PXAT").since("6.2.0"),
                        token("keepttl", "KEEPTTL").since("6.0.0"),
                    ],
                )
                .optional(),
            ],
            complexity: "O(1)",
            summary: "Sets a key to a string, whatever it held.",
            access: Some(access::READ_UPDATE),
            access_of: Some(access_of_set),
            ..Command::of(Group::String)
        }),
        Run::Keyspace(get).row(Command {
            name: "get",
            arity: 2,
            flags: READ_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "1.0.0",
            syntax: "key",
            arguments: arguments![key("key", 0)],
            complexity: "O(1)",
            summary: "The string of a key.",
            ..Command::of(Group::String)
        }),
        Run::Keyspace(getset).row(Command {
            name: "getset",
            arity: 3,
            flags: WRITE_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "1.0.0",
            syntax: "key value",
            arguments: arguments![key("key", 0), string("value")],
            deprecated_since: Some("6.2.0"),
            complexity: "O(1)",
            summary: "Sets a key and replies what it held.",
            access: Some(access::READ_UPDATE),
            ..Command::of(Group::String)
        }),
        Run::Keyspace(getdel).row(Command {
            name: "getdel",
            arity: 2,
            flags: SHRINK_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "6.2.0",
            syntax: "key",
            arguments: arguments![key("key", 0)],
            complexity: "O(1)",
            summary: "Replies the string of a key and removes the key.",
            access: Some(access::TAKE),
            ..Command::of(Group::String)
        }),
        Run::Keyspace(getex).row(Command {
            name: "getex",
            arity: -2,
            flags: SHRINK_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "6.2.0",
            syntax: "key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST]",
            arguments: arguments![
                key("key", 0),
                one_of(
                    "expiration",
                    arguments![
                        integer("seconds").after("EX"),
                        integer("milliseconds").after("PX"),
                        unix_time("unix-time-seconds").after("EXAT"),
                        unix_time("unix-time-milliseconds").after("PXAT"),
                        token("persist", "PERSIST"),
                    ],
                )
                .optional(),
            ],
            complexity: "O(1)",
            summary: "Replies the string of a key and changes when it expires.",
            access: Some(access::READ_UPDATE),
            ..Command::of(Group::String)
        }),
        Run::Keyspace(setnx).row(Command {
            name: "setnx",
            arity: 3,
            flags: WRITE_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "1.0.0",
            syntax: "key value",
            arguments: arguments![key("key", 0), string("value")],
            deprecated_since: Some("2.6.12"),
            complexity: "O(1)",
            summary: "Sets a key that does not exist.",
            access: Some(access::CREATE),
            ..Command::of(Group::String)
        }),
        Run::Keyspace(setex).row(Command {
            name: "setex",
            arity: 4,
            flags: WRITE,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "2.0.0",
            syntax: "key seconds value",
            arguments: arguments![key("key", 0), integer("seconds"), string("value")],
            deprecated_since: Some("2.6.12"),
            complexity: "O(1)",
            summary: "Sets a key with a time to live in seconds.",
            access: Some(access::OVERWRITE),
            ..Command::of(Group::String)
        }),
        Run::Keyspace(psetex).row(Command {
            name: "psetex",
            arity: 4,
            flags: WRITE,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "2.6.0",
            syntax: "key milliseconds value",
            arguments: arguments![key("key", 0), integer("milliseconds"), string("value")],
            deprecated_since: Some("2.6.12"),
            complexity: "O(1)",
            summary: "Sets a key with a time to live in milliseconds.",
            access: Some(access::OVERWRITE),
            ..Command::of(Group::String)
        }),
        Run::Keyspace(mget).row(Command {
            name: "mget",
            arity: -2,
            flags: READ_FAST,
            keys: Keys::ALL,
            request: Request::MultiShard,
            response: Response::InKeyOrder,
            since: "1.0.0",
            syntax: "key [key ...]",
            arguments: arguments![key("key", 0).repeated()],
            complexity: "O(N), N = keys",
            summary: "The strings of several keys.",
            ..Command::of(Group::String)
        }),
        Run::Keyspace(mset).row(Command {
            name: "mset",
            arity: -3,
            flags: WRITE,
            keys: Keys::PAIRS,
            request: Request::MultiShard,
            response: Response::AllSucceeded,
            since: "1.0.1",
            syntax: "key value [key value ...]",
            arguments: arguments![block("data", arguments![key("key", 0), string("value")]).repeated()],
            complexity: "O(N), N = keys",
            summary: "Sets several keys.",
            access: Some(access::OVERWRITE),
            ..Command::of(Group::String)
        }),
        Run::Keyspace(msetnx).row(Command {
            name: "msetnx",
            arity: -3,
            flags: WRITE,
            keys: Keys::PAIRS,
            request: Request::MultiShardView,
            since: "1.0.1",
            syntax: "key value [key value ...]",
            arguments: arguments![block("data", arguments![key("key", 0), string("value")]).repeated()],
            complexity: "O(N), N = keys",
            summary: "Sets several keys to strings if none of them exists.",
            access: Some(access::CREATE),
            ..Command::of(Group::String)
        }),
        Run::Keyspace(append).row(Command {
            name: "append",
            arity: 3,
            flags: WRITE_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "2.0.0",
            syntax: "key value",
            arguments: arguments![key("key", 0), string("value")],
            complexity: "O(1) amortised",
            summary: "Appends to the string of a key.",
            access: Some(access::INSERT),
            ..Command::of(Group::String)
        }),
        Run::Keyspace(strlen).row(Command {
            name: "strlen",
            arity: 2,
            flags: READ_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "2.2.0",
            syntax: "key",
            arguments: arguments![key("key", 0)],
            complexity: "O(1)",
            summary: "The length of the string of a key, in bytes.",
            access: Some(access::LOOK),
            ..Command::of(Group::String)
        }),
        Run::Keyspace(incr).row(Command {
            name: "incr",
            arity: 2,
            flags: WRITE_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "1.0.0",
            syntax: "key",
            arguments: arguments![key("key", 0)],
            complexity: "O(1)",
            summary: "Adds one to the integer of a key.",
            access: Some(access::READ_UPDATE),
            ..Command::of(Group::String)
        }),
        Run::Keyspace(decr).row(Command {
            name: "decr",
            arity: 2,
            flags: WRITE_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "1.0.0",
            syntax: "key",
            arguments: arguments![key("key", 0)],
            complexity: "O(1)",
            summary: "Subtracts one from the integer of a key.",
            access: Some(access::READ_UPDATE),
            ..Command::of(Group::String)
        }),
        Run::Keyspace(incrby).row(Command {
            name: "incrby",
            arity: 3,
            flags: WRITE_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "1.0.0",
            syntax: "key increment",
            arguments: arguments![key("key", 0), integer("increment")],
            complexity: "O(1)",
            summary: "Adds to the integer of a key.",
            access: Some(access::READ_UPDATE),
            ..Command::of(Group::String)
        }),
        Run::Keyspace(decrby).row(Command {
            name: "decrby",
            arity: 3,
            flags: WRITE_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "1.0.0",
            syntax: "key decrement",
            arguments: arguments![key("key", 0), integer("decrement")],
            complexity: "O(1)",
            summary: "Subtracts from the integer of a key.",
            access: Some(access::READ_UPDATE),
            ..Command::of(Group::String)
        }),
        Run::Keyspace(incrbyfloat).row(Command {
            name: "incrbyfloat",
            arity: 3,
            flags: WRITE_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "2.6.0",
            syntax: "key increment",
            arguments: arguments![key("key", 0), double("increment")],
            complexity: "O(1)",
            summary: "Adds to the number of a key.",
            access: Some(access::READ_UPDATE),
            ..Command::of(Group::String)
        }),
        Run::Keyspace(getrange).row(Command {
            name: "getrange",
            arity: 4,
            flags: READ,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "2.4.0",
            syntax: "key start end",
            arguments: arguments![key("key", 0), integer("start"), integer("end")],
            complexity: "O(N), N = length of the reply",
            summary: "A part of the string of a key.",
            ..Command::of(Group::String)
        }),
        Run::Keyspace(setrange).row(Command {
            name: "setrange",
            arity: 4,
            flags: WRITE,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "2.2.0",
            syntax: "key offset value",
            arguments: arguments![key("key", 0), integer("offset"), string("value")],
            complexity: "O(N), N = length of the value",
            summary: "Overwrites a part of the string of a key.",
            ..Command::of(Group::String)
        }),
        Run::Keyspace(getrange).row(Command {
            name: "substr",
            arity: 4,
            flags: READ,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "1.0.0",
            syntax: "key start end",
            arguments: arguments![key("key", 0), integer("start"), integer("end")],
            deprecated_since: Some("2.0.0"),
            complexity: "O(N), N = length of the reply",
            summary: "A part of the string of a key; an old name of GETRANGE.",
            ..Command::of(Group::String)
        }),
    ]
}

/// Sets a key to argument 2; a large one is not copied if the bytes that hold it may be shared.
#[inline(always)]
fn set_to_value<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, deadline: Option<u64>) {
    if args.owner().is_some() {
        return set_to_shared(keyspace, args, deadline);
    }
    keyspace.set(&args[1], NewValue::of_string(&args[2]), deadline);
    note_set(keyspace, &args[1]);
}

#[cold]
fn set_to_shared<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, deadline: Option<u64>) {
    let value = args.shared(2).map_or_else(|| NewValue::of_string(&args[2]), NewValue::Shared);
    keyspace.set(&args[1], value, deadline);
    note_set(keyspace, &args[1]);
}

/// SET key value [NX | XX] [GET] [EX seconds | PX milliseconds | EXAT unix-time-seconds |
/// PXAT unix-time-milliseconds | KEEPTTL]: O(1)
pub fn set<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    if args.len() > 3 {
        return set_with_options(keyspace, args, reply);
    }
    set_to_value(keyspace, args, None);
    reply.ok();
    Ok(())
}

/// Reports that a key was set to a string.
fn note_set<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8]) {
    keyspace.note_change(key, 1);
    keyspace.notify(Class::STRING, "set", key);
}

fn set_with_options<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (key, value) = (&args[1], &args[2]);
    let SetOptions { condition, replies_old, expiry } = SetOptions::parse(args)?;
    let deadline = match expiry {
        ExpiryOption::Time(form, argument) => Some(form.deadline(argument, keyspace.turn.now_ms(), "set")?),
        ExpiryOption::OwnWord | ExpiryOption::Unsaid => None,
    };
    if replies_old {
        reply_only_string(reply, keyspace.read_node(key))?;
    }
    let is_set = condition.is_none_or(|wanted| keyspace.contains(key) == (wanted == Condition::Exists));
    if is_set {
        let kept = if expiry == ExpiryOption::OwnWord { deadline_of(keyspace, key) } else { None };
        set_to_value(keyspace, args, deadline.or(kept));
        if deadline.is_some() {
            keyspace.notify(Class::GENERIC, "expire", key);
        }
        record_deadline_of_set(keyspace, key, value, expiry, deadline);
    } else {
        keyspace.note_use(key);
    }
    match (replies_old, is_set) {
        (true, _) => {}
        (false, true) => reply.ok(),
        (false, false) => reply.null(),
    }
    Ok(())
}

/// The options of SET.
#[derive(Debug, Default)]
struct SetOptions<'a> {
    condition: Option<Condition>,
    replies_old: bool,
    expiry: ExpiryOption<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    /// NX
    IsNew,
    /// XX
    Exists,
}

impl<'a> SetOptions<'a> {
    fn parse(args: Args<'a>) -> Result<Self, CommandError> {
        let mut options = Self::default();
        let mut words = args.from(3).iter();
        while let Some(word) = words.next() {
            let is_taken = options.expiry.take(word, "KEEPTTL", &mut words)? || options.take(word);
            if !is_taken {
                return Err(CommandError::Syntax);
            }
        }
        Ok(options)
    }

    fn take(&mut self, word: &[u8]) -> bool {
        if is(word, "GET") {
            self.replies_old = true;
            return true;
        }
        let condition = match word {
            _ if is(word, "NX") => Condition::IsNew,
            _ if is(word, "XX") => Condition::Exists,
            _ => return false,
        };
        *self.condition.get_or_insert(condition) == condition
    }
}

fn deadline_of<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8]) -> Option<u64> {
    keyspace.peek(key).and_then(Node::expire_at)
}

/// A SET without a deadline, or with a point in time, is its own effect.
fn record_deadline_of_set<S: Store>(
    keyspace: &mut Keyspace<S>,
    key: &[u8],
    value: &[u8],
    expiry: ExpiryOption<'_>,
    deadline: Option<u64>,
) {
    match (expiry, deadline) {
        (ExpiryOption::Time(TimeForm::PxAt, _), _) | (_, None) => {}
        (_, Some(deadline)) => record_set_until(keyspace, key, value, deadline),
    }
}

/// Replies a value that must be a string, as the whole reply of a command.
#[inline]
fn reply_only_string(reply: &mut Reply<'_>, node: Option<&Node>) -> Outcome {
    if let Some(bulk) = node.and_then(Node::shared) {
        reply.shared_bulk(bulk);
        return Ok(());
    }
    reply_string(reply, node.map(Node::value))
}

/// Replies a value that must be a string.
fn reply_string(reply: &mut Reply<'_>, value: Option<Value<'_>>) -> Outcome {
    match value {
        None => reply.null(),
        Some(Value::Text(text)) => reply.bulk(text),
        Some(Value::Integer(integer)) => reply.bulk_integer(integer),
        Some(Value::Object(_)) => return Err(CommandError::WrongType),
    }
    Ok(())
}

/// SETNX key value: O(1)
pub fn setnx<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let is_new = !keyspace.contains(&args[1]);
    if is_new {
        keyspace.set(&args[1], NewValue::of_string(&args[2]), None);
        note_set(keyspace, &args[1]);
    } else {
        keyspace.note_use(&args[1]);
    }
    reply.flag(is_new);
    Ok(())
}

/// SETEX key seconds value: O(1)
pub fn setex<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    set_until(keyspace, args, reply, TimeForm::Ex, "setex")
}

/// PSETEX key milliseconds value: O(1)
pub fn psetex<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    set_until(keyspace, args, reply, TimeForm::Px, "psetex")
}

fn set_until<S: Store>(
    keyspace: &mut Keyspace<S>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    form: TimeForm,
    command: &'static str,
) -> Outcome {
    let (key, value) = (&args[1], &args[3]);
    let deadline = form.deadline(&args[2], keyspace.turn.now_ms(), command)?;
    keyspace.set(key, NewValue::of_string(value), Some(deadline));
    note_set(keyspace, key);
    keyspace.notify(Class::GENERIC, "expire", key);
    record_set_until(keyspace, key, value, deadline);
    reply.ok();
    Ok(())
}

/// GET key: O(1)
pub fn get<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply_only_string(reply, keyspace.read_node(&args[1]))
}

/// GETSET key value: O(1)
pub fn getset<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply_only_string(reply, keyspace.read_node(&args[1]))?;
    keyspace.set(&args[1], NewValue::of_string(&args[2]), None);
    note_set(keyspace, &args[1]);
    Ok(())
}

/// GETDEL key: O(1)
pub fn getdel<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let key = &args[1];
    reply_only_string(reply, keyspace.read_node(key))?;
    if keyspace.remove(key, Removal::Deleted) {
        keyspace.note_change(key, 1);
        keyspace.notify(Class::GENERIC, "del", key);
        keyspace.effects.record([b"DEL", key]);
    }
    Ok(())
}

/// GETEX key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST]: O(1)
pub fn getex<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let key = &args[1];
    let now_ms = keyspace.turn.now_ms();
    let expiry = getex_option(args)?;
    let node = keyspace.read_node(key);
    let change = match (expiry, node.map(Node::value)) {
        (_, Some(Value::Object(_))) => return Err(CommandError::WrongType),
        (ExpiryOption::Unsaid, _) | (_, None) => None,
        (ExpiryOption::OwnWord, _) => Some(None),
        (ExpiryOption::Time(form, argument), _) => Some(Some(form.deadline(argument, now_ms, "getex")?)),
    };
    reply_only_string(reply, node)?;
    // The read was its use.
    let notes_uses = std::mem::replace(&mut keyspace.turn.notes_uses, false);
    match change {
        None => {}
        Some(None) => persist(keyspace, key),
        Some(Some(deadline)) => expire_at(keyspace, key, deadline),
    }
    keyspace.turn.notes_uses = notes_uses;
    Ok(())
}

fn getex_option(args: Args<'_>) -> Result<ExpiryOption<'_>, CommandError> {
    let mut expiry = ExpiryOption::default();
    let mut words = args.from(2).iter();
    while let Some(word) = words.next() {
        if !expiry.take(word, "PERSIST", &mut words)? {
            return Err(CommandError::Syntax);
        }
    }
    Ok(expiry)
}

fn persist<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8]) {
    if remove_deadline(keyspace, key) {
        keyspace.note_change(key, 1);
        keyspace.notify(Class::GENERIC, "persist", key);
        keyspace.effects.record([b"PERSIST", key]);
    }
}

/// Sets the deadline of an existing key; a deadline in the past removes it.
fn expire_at<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8], deadline: u64) {
    if keyspace.turn.is_over(deadline) {
        keyspace.remove(key, Removal::Expired);
        keyspace.notify(Class::GENERIC, "del", key);
        keyspace.record_removal(key, Removal::Expired);
    } else {
        keyspace.set_expire_at(key, Some(deadline));
        keyspace.notify(Class::GENERIC, "expire", key);
        record_deadline(keyspace, key, deadline);
    }
    keyspace.note_change(key, 1);
}

/// MGET key [key ...]: O(N), N = keys
pub fn mget<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.array(args.len() - 1);
    for key in args.from(1).iter() {
        if reply_string(reply, keyspace.read(key)).is_err() {
            reply.null();
        }
    }
    Ok(())
}

/// MSET key value [key value ...]: O(N), N = keys
pub fn mset<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    if args.len().is_multiple_of(2) {
        return Err(CommandError::Arity("mset".to_owned()));
    }
    set_pairs(keyspace, args);
    reply.ok();
    Ok(())
}

fn set_pairs<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>) {
    for index in (1..args.len()).step_by(2) {
        keyspace.set(&args[index], NewValue::of_string(&args[index + 1]), None);
        note_set(keyspace, &args[index]);
    }
}

/// MSETNX key value [key value ...]: O(N), N = keys
pub fn msetnx<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    if args.len().is_multiple_of(2) {
        return Err(CommandError::Arity("msetnx".to_owned()));
    }
    let taken = args.from(1).iter().step_by(2).find(|key| keyspace.contains(key));
    match taken {
        None => set_pairs(keyspace, args),
        Some(key) => keyspace.note_use(key),
    }
    reply.flag(taken.is_none());
    Ok(())
}

/// APPEND key value: O(1) amortised
pub fn append<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (key, suffix, len_max) = (&args[1], &args[2], keyspace.string_len_max());
    let len = match keyspace.node_mut(key) {
        Some(node) => append_to(node, suffix, len_max)?,
        None => {
            keyspace.set(key, NewValue::of_string(suffix), None);
            suffix.len()
        }
    };
    keyspace.note_change(key, 1);
    keyspace.notify(Class::STRING, "append", key);
    reply.count(len);
    Ok(())
}

/// Appends to the string of a node, and returns its new length.
fn append_to(node: &mut Node, suffix: &[u8], len_max: usize) -> Result<usize, CommandError> {
    let start = make_text(node)?;
    let len = checked_len(start, suffix.len(), len_max)?;
    let (text, _) = lengthen(node, len)?;
    text[start..].copy_from_slice(suffix);
    Ok(len)
}

/// STRLEN key: O(1)
pub fn strlen<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let len = match keyspace.read(&args[1]) {
        None => 0,
        Some(value) => text_of(value, &mut itoa::Buffer::new())?.len(),
    };
    reply.count(len);
    Ok(())
}

/// INCR key: O(1)
pub fn incr<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    add(keyspace, &args[1], 1, reply)
}

/// DECR key: O(1)
pub fn decr<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    add(keyspace, &args[1], -1, reply)
}

/// INCRBY key increment: O(1)
pub fn incrby<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    add(keyspace, &args[1], integer(&args[2])?, reply)
}

/// DECRBY key decrement: O(1)
pub fn decrby<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let decrement = integer(&args[2])?;
    let increment = decrement.checked_neg().ok_or(CommandError::Text("ERR decrement would overflow"))?;
    add(keyspace, &args[1], increment, reply)
}

fn add<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8], increment: i64, reply: &mut Reply<'_>) -> Outcome {
    let node = keyspace.node_or_new(key, || NewValue::Integer(0));
    let sum = integer_of(node.value())?.checked_add(increment).ok_or(CommandError::Overflow)?;
    node.set(NewValue::Integer(sum), node.expire_at());
    keyspace.note_change(key, 1);
    keyspace.notify(Class::STRING, "incrby", key);
    reply.integer(sum);
    Ok(())
}

/// The integer that a string is: a text may have become one by APPEND or SETRANGE.
fn integer_of(value: Value<'_>) -> Result<i64, CommandError> {
    match value {
        Value::Integer(integer) => Ok(integer),
        Value::Text(text) => integer(text),
        Value::Object(_) => Err(CommandError::WrongType),
    }
}

/// INCRBYFLOAT key increment: O(1)
pub fn incrbyfloat<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let key = &args[1];
    let summed = float_sum(keyspace.peek(key), &args[2]);
    if summed.is_err() {
        keyspace.note_use(key);
    }
    let (sum, deadline) = summed?;
    let text = sum.to_string();
    // A text, even if it looks like an integer, so that OBJECT ENCODING is as in Redis.
    keyspace.set(key, NewValue::Text(text.as_bytes()), deadline);
    keyspace.note_change(key, 1);
    keyspace.notify(Class::STRING, "incrbyfloat", key);
    keyspace.effects.record([b"SET", key, text.as_bytes(), b"KEEPTTL"]);
    reply.bulk(text.as_bytes());
    Ok(())
}

/// The sum of a number and an increment, and when its key expires.
fn float_sum(node: Option<&Node>, increment: &[u8]) -> Result<(Extended, Option<u64>), CommandError> {
    let (old, deadline) = match node {
        None => (Extended::from(0), None),
        Some(node) => (float_of(node.value())?, node.expire_at()),
    };
    let increment = Extended::parse(increment).ok_or(CommandError::NotFloat)?;
    let sum = old.plus(increment).ok_or(CommandError::Text("ERR increment would produce NaN or Infinity"))?;
    Ok((sum, deadline))
}

fn float_of(value: Value<'_>) -> Result<Extended, CommandError> {
    match value {
        Value::Integer(integer) => Ok(Extended::from(integer)),
        Value::Text(text) => Extended::parse(text).ok_or(CommandError::NotFloat),
        Value::Object(_) => Err(CommandError::WrongType),
    }
}

/// GETRANGE key start end: O(N), N = length of the reply
pub fn getrange<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (start, end) = (integer(&args[2])?, integer(&args[3])?);
    let mut digits = itoa::Buffer::new();
    let text = match keyspace.read(&args[1]) {
        None => &[],
        Some(value) => text_of(value, &mut digits)?,
    };
    reply.bulk(substring(text, start, end));
    Ok(())
}

/// The bytes from `start` to `end`, both included; negative positions count from the end. Unlike in a list, an end
/// before the first byte is the first byte.
fn substring(text: &[u8], start: i64, end: i64) -> &[u8] {
    if start < 0 && end < 0 && start > end {
        return &[];
    }
    let from_start = |index: i64| if index < 0 { (index + text.len() as i64).max(0) } else { index };
    let end = from_start(end).saturating_add(1).min(text.len() as i64);
    let start = from_start(start).min(end);
    &text[size(start.cast_unsigned())..size(end.cast_unsigned())]
}

/// SETRANGE key offset value: O(N), N = length of the value
pub fn setrange<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (key, value, len_max) = (&args[1], &args[3], keyspace.string_len_max());
    let Ok(offset) = usize::try_from(integer(&args[2])?) else {
        return Err(CommandError::Text("ERR offset is out of range"));
    };
    let len = match keyspace.node_mut(key) {
        // Nothing is overwritten: an integer stays one.
        Some(node) if value.is_empty() => text_of(node.value(), &mut itoa::Buffer::new())?.len(),
        Some(node) => overwrite(node, offset, value, len_max)?,
        None if value.is_empty() => 0,
        None => {
            checked_len(offset, value.len(), len_max)?;
            overwrite(keyspace.node_or_new(key, || NewValue::Text(&[])), offset, value, len_max)?
        }
    };
    if !value.is_empty() {
        keyspace.note_change(key, 1);
        keyspace.notify(Class::STRING, "setrange", key);
    }
    reply.count(len);
    Ok(())
}

/// Overwrites a part of the string of a node, and returns its new length.
fn overwrite(node: &mut Node, offset: usize, value: &[u8], len_max: usize) -> Result<usize, CommandError> {
    // The error for another type comes first, and an integer stays one if there is an error.
    text_of(node.value(), &mut itoa::Buffer::new())?;
    let end = checked_len(offset, value.len(), len_max)?;
    make_text(node)?;
    let (text, _) = lengthen(node, end)?;
    text[offset..end].copy_from_slice(value);
    Ok(text.len())
}

/// A SET without GET does not show the value that it overwrites.
fn access_of_set(request: Args<'_>) -> access::Access {
    match (3..request.len()).any(|at| request.is(at, "GET")) {
        true => access::READ_UPDATE,
        false => access::OVERWRITE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_substring_is_cut_to_the_text() {
        let text = b"Hello";
        for (start, end, part) in [
            (0, -1, "Hello"),
            (1, 3, "ell"),
            (-3, -1, "llo"),
            (0, 100, "Hello"),
            (5, 9, ""),
            (3, 1, ""),
            (-1, -3, ""),
            (-100, -50, "H"),
            (0, -100, "H"),
            (i64::MIN, i64::MAX, "Hello"),
            (i64::MAX, i64::MIN, ""),
        ] {
            assert_eq!(substring(text, start, end), part.as_bytes(), "{start} {end}");
        }
        assert_eq!(substring(b"", 0, -1), b"");
    }
}
