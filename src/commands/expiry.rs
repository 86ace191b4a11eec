//! When keys expire: the EXPIRE and TTL families, and the expiry options of other commands.
//!
//! The log only has points in time: a relative time to live would start again with each replay.

use super::arguments::{integer, is};
use super::flag_sets::{READ_FAST, SHRINK_FAST};
use super::row::{Command, Group, Keys, Output, Request, Row, Run};
use super::{CommandError, Outcome};
use crate::commands::documentation::{Argument, arguments};
use crate::keyspace::{Class, Keyspace, Node, Removal, Store};
use crate::resp::{Args, Reply, quoted};

/// The conditions of EXPIRE and its like.
const CONDITIONS: &[Argument] = arguments![token("nx", "NX"), token("xx", "XX"), token("gt", "GT"), token("lt", "LT")];

/// The rows of the commands here.
pub(super) const fn rows<S: Store>() -> [Row<S>; 9] {
    [
        Run::Keyspace(expire).row(Command {
            name: "expire",
            arity: -3,
            flags: SHRINK_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "1.0.0",
            syntax: "key seconds [NX | XX | GT | LT]",
            arguments: arguments![
                key("key", 0),
                integer("seconds"),
                one_of("condition", CONDITIONS).since("7.0.0").optional(),
            ],
            complexity: "O(log N), N = keys that expire",
            summary: "Sets the time to live of a key in seconds.",
            ..Command::of(Group::Generic)
        }),
        Run::Keyspace(pexpire).row(Command {
            name: "pexpire",
            arity: -3,
            flags: SHRINK_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "2.6.0",
            syntax: "key milliseconds [NX | XX | GT | LT]",
            arguments: arguments![
                key("key", 0),
                integer("milliseconds"),
                one_of("condition", CONDITIONS).since("7.0.0").optional(),
            ],
            complexity: "O(log N), N = keys that expire",
            summary: "Sets the time to live of a key in milliseconds.",
            ..Command::of(Group::Generic)
        }),
        Run::Keyspace(expireat).row(Command {
            name: "expireat",
            arity: -3,
            flags: SHRINK_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "1.2.0",
            syntax: "key unix-time-seconds [NX | XX | GT | LT]",
            arguments: arguments![
                key("key", 0),
                unix_time("unix-time-seconds"),
                one_of("condition", CONDITIONS).since("7.0.0").optional(),
            ],
            complexity: "O(log N), N = keys that expire",
            summary: "Sets the second in which a key expires.",
            ..Command::of(Group::Generic)
        }),
        Run::Keyspace(pexpireat).row(Command {
            name: "pexpireat",
            arity: -3,
            flags: SHRINK_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "2.6.0",
            syntax: "key unix-time-milliseconds [NX | XX | GT | LT]",
            arguments: arguments![
                key("key", 0),
                unix_time("unix-time-milliseconds"),
                one_of("condition", CONDITIONS).since("7.0.0").optional(),
            ],
            complexity: "O(log N), N = keys that expire",
            summary: "Sets the millisecond in which a key expires.",
            ..Command::of(Group::Generic)
        }),
        Run::Keyspace(ttl).row(Command {
            name: "ttl",
            arity: 2,
            flags: READ_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            output: Output::Varies,
            since: "1.0.0",
            syntax: "key",
            arguments: arguments![key("key", 0)],
            complexity: "O(1)",
            summary: "The time to live of a key in seconds.",
            ..Command::of(Group::Generic)
        }),
        Run::Keyspace(pttl).row(Command {
            name: "pttl",
            arity: 2,
            flags: READ_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            output: Output::Varies,
            since: "2.6.0",
            syntax: "key",
            arguments: arguments![key("key", 0)],
            complexity: "O(1)",
            summary: "The time to live of a key in milliseconds.",
            ..Command::of(Group::Generic)
        }),
        Run::Keyspace(expiretime).row(Command {
            name: "expiretime",
            arity: 2,
            flags: READ_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "7.0.0",
            syntax: "key",
            arguments: arguments![key("key", 0)],
            complexity: "O(1)",
            summary: "The second in which a key expires.",
            ..Command::of(Group::Generic)
        }),
        Run::Keyspace(pexpiretime).row(Command {
            name: "pexpiretime",
            arity: 2,
            flags: READ_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "7.0.0",
            syntax: "key",
            arguments: arguments![key("key", 0)],
            complexity: "O(1)",
            summary: "The millisecond in which a key expires.",
            ..Command::of(Group::Generic)
        }),
        Run::Keyspace(persist).row(Command {
            name: "persist",
            arity: 2,
            flags: SHRINK_FAST,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "2.2.0",
            syntax: "key",
            arguments: arguments![key("key", 0)],
            complexity: "O(log N), N = keys that expire",
            summary: "Lets a key live for ever.",
            ..Command::of(Group::Generic)
        }),
    ]
}

const MS_PER_S: i64 = 1000;

/// The form of an expiry argument: its unit, and whether it counts from now or from the start of Unix time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeForm {
    /// Seconds from now.
    Ex,
    /// Milliseconds from now.
    Px,
    /// Unix time in seconds.
    ExAt,
    /// Unix time in milliseconds.
    PxAt,
}

impl TimeForm {
    /// The form of an option of SET or GETEX.
    fn named(option: &[u8]) -> Option<Self> {
        match option {
            [_, _] if is(option, "EX") => Some(Self::Ex),
            [_, _] if is(option, "PX") => Some(Self::Px),
            [_, _, _, _] if is(option, "EXAT") => Some(Self::ExAt),
            [_, _, _, _] if is(option, "PXAT") => Some(Self::PxAt),
            _ => None,
        }
    }

    /// Whether it counts from now.
    pub fn is_relative(self) -> bool {
        matches!(self, Self::Ex | Self::Px)
    }

    /// The deadline for a value that is being set: it must be positive. `command` is named in the error.
    pub fn deadline(self, argument: &[u8], now_ms: u64, command: &'static str) -> Result<u64, CommandError> {
        let given = integer(argument)?;
        self.milliseconds(given, now_ms)
            .filter(|&at| given > 0 && at > 0)
            .map(|at| at as u64)
            .ok_or(CommandError::InvalidExpire(command))
    }

    /// Unix time in milliseconds, which may be in the past; `None` if it is out of range.
    fn milliseconds(self, given: i64, now_ms: u64) -> Option<i64> {
        let given = match self {
            Self::Ex | Self::ExAt => given.checked_mul(MS_PER_S)?,
            Self::Px | Self::PxAt => given,
        };
        if self.is_relative() { given.checked_add_unsigned(now_ms) } else { Some(given) }
    }
}

/// The expiry option of a request besides its value: one of EX, PX, EXAT and PXAT, or a word of the command's own, or
/// nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ExpiryOption<'a> {
    /// Nothing.
    #[default]
    Unsaid,
    /// KEEPTTL in SET, PERSIST in GETEX.
    OwnWord,
    /// A time.
    Time(TimeForm, &'a [u8]),
}

impl<'a> ExpiryOption<'a> {
    /// Takes `word`, and its argument from `rest`, if it is about expiry; otherwise returns false. As in Redis an
    /// option may be repeated, and the last one counts, but it may not be combined with another.
    pub fn take(
        &mut self,
        word: &[u8],
        own_word: &str,
        rest: &mut impl Iterator<Item = &'a [u8]>,
    ) -> Result<bool, CommandError> {
        let option = match TimeForm::named(word) {
            Some(form) => Self::Time(form, rest.next().ok_or(CommandError::Syntax)?),
            None if is(word, own_word) => Self::OwnWord,
            None => return Ok(false),
        };
        if !self.goes_with(&option) {
            return Err(CommandError::Syntax);
        }
        *self = option;
        Ok(true)
    }

    fn goes_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Unsaid, _) | (Self::OwnWord, Self::OwnWord) => true,
            (Self::Time(form, _), Self::Time(other, _)) => form == other,
            _ => false,
        }
    }
}

/// Adds the effect that a key was set to a value that expires.
pub fn record_set_until<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8], value: &[u8], deadline: u64) {
    if keyspace.effects.is_logged() {
        let mut digits = itoa::Buffer::new();
        keyspace.effects.record([b"SET", key, value, b"PXAT", digits.format(deadline).as_bytes()]);
    }
}

/// Adds the effect that a key got a deadline.
pub fn record_deadline<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8], deadline: u64) {
    if keyspace.effects.is_logged() {
        let mut digits = itoa::Buffer::new();
        keyspace.effects.record([b"PEXPIREAT", key, digits.format(deadline).as_bytes()]);
    }
}

/// EXPIRE key seconds [NX | XX | GT | LT]: O(log N), N = keys that expire
pub fn expire<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    set_deadline(keyspace, args, reply, TimeForm::Ex, "expire")
}

/// PEXPIRE key milliseconds [NX | XX | GT | LT]: O(log N), N = keys that expire
pub fn pexpire<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    set_deadline(keyspace, args, reply, TimeForm::Px, "pexpire")
}

/// EXPIREAT key unix-time-seconds [NX | XX | GT | LT]: O(log N), N = keys that expire
pub fn expireat<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    set_deadline(keyspace, args, reply, TimeForm::ExAt, "expireat")
}

/// PEXPIREAT key unix-time-milliseconds [NX | XX | GT | LT]: O(log N), N = keys that expire
pub fn pexpireat<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    set_deadline(keyspace, args, reply, TimeForm::PxAt, "pexpireat")
}

fn set_deadline<S: Store>(
    keyspace: &mut Keyspace<S>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    form: TimeForm,
    command: &'static str,
) -> Outcome {
    let conditions = Conditions::parse(args)?;
    let given = integer(&args[2])?;
    let at = form.milliseconds(given, keyspace.turn.now_ms()).ok_or(CommandError::InvalidExpire(command))?;
    let key = &args[1];
    let holds = conditions.hold(keyspace, key, at);
    if !holds {
        keyspace.note_use(key);
    }
    let is_set = holds && apply_deadline(keyspace, key, at, form);
    reply.flag(is_set);
    Ok(())
}

/// Sets the deadline of a key, or removes the key if the deadline has passed; false if there is no such key.
fn apply_deadline<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8], at: i64, form: TimeForm) -> bool {
    let deadline = u64::try_from(at).ok().filter(|&deadline| !keyspace.turn.is_over(deadline));
    let is_found = match deadline {
        Some(_) => keyspace.set_expire_at(key, deadline),
        None => keyspace.remove(key, Removal::Expired),
    };
    if !is_found {
        return false;
    }
    keyspace.note_change(key, 1);
    keyspace.notify(Class::GENERIC, if deadline.is_some() { "expire" } else { "del" }, key);
    match deadline {
        Some(_) if form == TimeForm::PxAt => {}
        Some(deadline) => record_deadline(keyspace, key, deadline),
        None => keyspace.record_removal(key, Removal::Expired),
    }
    true
}

/// The conditions for setting a deadline.
#[derive(Debug, Default)]
struct Conditions {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
}

impl Conditions {
    fn parse(args: Args<'_>) -> Result<Self, CommandError> {
        let mut conditions = Self::default();
        for option in args.from(3).iter() {
            *conditions.named(option).ok_or_else(|| unsupported(option))? = true;
        }
        let Self { nx, xx, gt, lt } = conditions;
        if nx && (xx || gt || lt) {
            const TEXT: &str = "ERR NX and XX, GT or LT options at the same time are not compatible";
            return Err(CommandError::Text(TEXT));
        }
        if gt && lt {
            return Err(CommandError::Text("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(conditions)
    }

    fn named(&mut self, option: &[u8]) -> Option<&mut bool> {
        match option {
            _ if is(option, "NX") => Some(&mut self.nx),
            _ if is(option, "XX") => Some(&mut self.xx),
            _ if is(option, "GT") => Some(&mut self.gt),
            _ if is(option, "LT") => Some(&mut self.lt),
            _ => None,
        }
    }

    /// Whether they hold for the key's current deadline. A key without one counts as living for ever.
    fn hold<S: Store>(&self, keyspace: &mut Keyspace<S>, key: &[u8], at: i64) -> bool {
        let Self { nx, xx, gt, lt } = *self;
        if !(nx || xx || gt || lt) {
            return true;
        }
        match keyspace.peek(key).map(Node::expire_at) {
            None => false,
            Some(None) => !xx && !gt,
            Some(Some(present)) => !nx && (!gt || at > present as i64) && (!lt || at < present as i64),
        }
    }
}

fn unsupported(option: &[u8]) -> CommandError {
    CommandError::Owned(format!("ERR Unsupported option {}", quoted(option, usize::MAX)))
}

/// TTL key: O(1)
pub fn ttl<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let now_ms = keyspace.turn.now_ms();
    reply_deadline(keyspace, &args[1], reply, |at| seconds(at.saturating_sub(now_ms)))
}

/// PTTL key: O(1)
pub fn pttl<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let now_ms = keyspace.turn.now_ms();
    reply_deadline(keyspace, &args[1], reply, |at| at.saturating_sub(now_ms))
}

/// EXPIRETIME key: O(1)
pub fn expiretime<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply_deadline(keyspace, &args[1], reply, seconds)
}

/// PEXPIRETIME key: O(1)
pub fn pexpiretime<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply_deadline(keyspace, &args[1], reply, |at| at)
}

fn reply_deadline<S: Store>(
    keyspace: &mut Keyspace<S>,
    key: &[u8],
    reply: &mut Reply<'_>,
    shown: impl Fn(u64) -> u64,
) -> Outcome {
    const NO_KEY: i64 = -2;
    const FOR_EVER: i64 = -1;
    reply.integer(match keyspace.inspect(key).map(Node::expire_at) {
        None => NO_KEY,
        Some(None) => FOR_EVER,
        Some(Some(at)) => shown(at) as i64,
    });
    Ok(())
}

/// Milliseconds as seconds, rounded as Redis does.
fn seconds(milliseconds: u64) -> u64 {
    (milliseconds + 500) / 1000
}

/// PERSIST key: O(log N), N = keys that expire
pub fn persist<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let is_changed = remove_deadline(keyspace, &args[1]);
    if is_changed {
        keyspace.note_change(&args[1], 1);
        keyspace.notify(Class::GENERIC, "persist", &args[1]);
    } else {
        keyspace.note_use(&args[1]);
    }
    reply.flag(is_changed);
    Ok(())
}

/// Removes the deadline of a key; false if there is no deadline, or no key.
pub fn remove_deadline<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8]) -> bool {
    keyspace.peek(key).is_some_and(|node| node.expire_at().is_some()) && keyspace.set_expire_at(key, None)
}
