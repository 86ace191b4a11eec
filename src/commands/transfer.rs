//! DUMP and RESTORE: a value as bytes, for another server or another day.

use super::access;
use super::arguments::{integer, is};
use super::flag_sets::{READ, WRITE};
use super::row::{Categories, Command, Group, Keys, Output, Request, Row, Run};
use super::{CommandError, Outcome};
use crate::base::lengthy;
use crate::commands::documentation::arguments;
use crate::keyspace::{Class, FormerUse, Keyspace, Removal, Store, Value};
use crate::rdb::{self, Loaded, Refusal};
use crate::resp::{Args, Reply, quoted};

/// How many characters of a key an error shows at most.
const KEY_SHOWN: usize = 128;

/// The rows of the commands here.
pub(super) const fn rows<S: Store>() -> [Row<S>; 2] {
    [
        Run::Keyspace(dump).row(Command {
            name: "dump",
            arity: 2,
            flags: READ,
            keys: Keys::ONE,
            request: Request::OneShard,
            output: Output::Varies,
            since: "2.6.0",
            syntax: "key",
            arguments: arguments![key("key", 0)],
            complexity: "O(N), N = bytes of the value",
            summary: "What a key holds as bytes for RESTORE, of this server or of Redis 7.0 and later.",
            ..Command::of(Group::Generic)
        }),
        Run::Keyspace(restore).row(Command {
            name: "restore",
            arity: -4,
            flags: WRITE,
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "2.6.0",
            syntax: "key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]",
            arguments: arguments![
                key("key", 0),
                integer("ttl"),
                string("serialized-value"),
                token("replace", "REPLACE").since("3.0.0").optional(),
                token("absttl", "ABSTTL").since("5.0.0").optional(),
                integer("seconds").after("IDLETIME").since("5.0.0").optional(),
                integer("frequency").after("FREQ").since("5.0.0").optional(),
            ],
            complexity: "O(N), N = bytes of the value",
            summary: "Sets a key to what a DUMP has given, of this server or of a Redis up to 7.2.",
            access: Some(access::OVERWRITE),
            categories: Categories::DANGEROUS,
            ..Command::of(Group::Generic)
        }),
    ]
}

/// DUMP key: O(N), N = bytes of the value
pub fn dump<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let payload = keyspace.read_node(&args[1]).map(|node| dumped(node.value()));
    reply.bulk_or_null(payload.as_deref());
    Ok(())
}

fn dumped(value: Value<'_>) -> Vec<u8> {
    lengthy::run(value.elements(), || rdb::dump(value))
}

/// The options of RESTORE.
#[derive(Debug, Default)]
struct Options {
    is_replacing: bool,
    is_absolute: bool,
    former_use: FormerUse,
}

impl Options {
    fn parse(args: Args<'_>) -> Result<Self, CommandError> {
        let mut options = Self::default();
        let mut words = args.from(4).iter().peekable();
        while let Some(word) = words.next() {
            let has_argument = words.peek().is_some();
            let FormerUse { idle_s, frequency } = &mut options.former_use;
            match word {
                _ if is(word, "REPLACE") => options.is_replacing = true,
                _ if is(word, "ABSTTL") => options.is_absolute = true,
                _ if is(word, "IDLETIME") && has_argument && frequency.is_none() => {
                    let idle = integer(words.next().unwrap_or_default())?;
                    let idle = u64::try_from(idle);
                    let text = CommandError::Text("ERR Invalid IDLETIME value, must be >= 0");
                    *idle_s = Some(idle.map_err(|_| text)?);
                }
                _ if is(word, "FREQ") && has_argument && idle_s.is_none() => {
                    let number = integer(words.next().unwrap_or_default())?;
                    let text = CommandError::Text("ERR Invalid FREQ value, must be >= 0 and <= 255");
                    *frequency = Some(u8::try_from(number).map_err(|_| text)?);
                }
                _ => return Err(CommandError::Syntax),
            }
        }
        Ok(options)
    }
}

/// RESTORE key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]: O(N), N = bytes of the
/// value
pub fn restore<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (key, payload) = (&args[1], &args[3]);
    let options = Options::parse(args)?;
    let was_there = keyspace.contains(key);
    if was_there && !options.is_replacing {
        keyspace.note_use(key);
        return Err(CommandError::Text("BUSYKEY Target key name already exists."));
    }
    let deadline = deadline(integer(&args[2])?, options.is_absolute, keyspace.now_ms())?;
    let value = rdb::undump(payload, keyspace.settings()).map_err(|refusal| refused(key, refusal))?;
    if deadline.is_some_and(|deadline| keyspace.is_over(deadline)) {
        // It has expired already: the old value is only removed.
        if keyspace.remove(key, Removal::Replaced) {
            keyspace.note_change(key, 1);
            keyspace.notify(Class::GENERIC, "del", key);
            keyspace.tell_removal(key, Removal::Replaced);
        }
    } else {
        store(keyspace, key, value, deadline, options.former_use);
        tell(keyspace, key, payload, deadline);
    }
    reply.ok();
    Ok(())
}

fn refused(key: &[u8], refusal: Refusal) -> CommandError {
    match refusal {
        Refusal::Footer => CommandError::Text("ERR DUMP payload version or checksum are wrong"),
        Refusal::Value(reason) => {
            tracing::debug!("RESTORE of {}: bad data format: {reason}", quoted(key, KEY_SHOWN));
            CommandError::Text("ERR Bad data format")
        }
        Refusal::FieldExpires => CommandError::Owned(format!(
            "ERR the value of the key {}: a field of the hash expires, and fields that expire are not supported: see \
             HPERSIST",
            quoted(key, KEY_SHOWN)
        )),
    }
}

/// When the key expires, if at all.
fn deadline(ttl: i64, is_absolute: bool, now_ms: u64) -> Result<Option<u64>, CommandError> {
    let ttl = u64::try_from(ttl).map_err(|_| CommandError::Text("ERR Invalid TTL value, must be >= 0"))?;
    let deadline = if is_absolute { ttl } else { ttl.saturating_add(now_ms).min(i64::MAX as u64) };
    Ok((ttl > 0).then_some(deadline))
}

fn store<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8], value: Loaded, deadline: Option<u64>, former: FormerUse) {
    keyspace.replace(value.into_node(key, deadline));
    let (usage, second) = (keyspace.usage(), keyspace.second());
    if let Some(node) = keyspace.peek(key) {
        // The old value is gone, with its uses.
        node.continue_use(usage, second, former);
    }
    keyspace.notify(Class::GENERIC, "restore", key);
    keyspace.note_change(key, 1);
}

fn tell<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8], payload: &[u8], deadline: Option<u64>) {
    if keyspace.effects().is_logged() {
        let mut digits = itoa::Buffer::new();
        let deadline = digits.format(deadline.unwrap_or(0)).as_bytes();
        let sealed = rdb::sealed(payload, keyspace.settings());
        keyspace.effects().tell([b"RESTORE", key, deadline, &sealed, b"REPLACE", b"ABSTTL"]);
    }
}
