//! DUMP, RESTORE and MIGRATE: a value as bytes, for another server or another day.

use super::access;
use super::arguments::{integer, is};
use super::flag_sets::{READ, WRITE};
use super::row::{Categories, Command, Flags, Group, Keys, Output, Pending, Request, Row, Run};
use super::{CommandError, Outcome};
use crate::base::lengthy;
use crate::commands::documentation::{Argument, arguments};
use crate::keyspace::{Class, FormerUse, Keyspace, Removal, Store, Value};
use crate::rdb::{self, Loaded, Refusal};
use crate::resp::{Args, Reply, quoted};
use std::ops::Range;
use std::time::Duration;

/// How many characters of a key an error shows at most.
const KEY_SHOWN: usize = 128;

/// What RESTORE and RESTORE-ASKING have after the name.
const RESTORED: &str = "key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]";
const ARGUMENTS_OF_RESTORE: &[Argument] = arguments![
    key("key", 0),
    integer("ttl"),
    string("serialized-value"),
    token("replace", "REPLACE").since("3.0.0").optional(),
    token("absttl", "ABSTTL").since("5.0.0").optional(),
    integer("seconds").after("IDLETIME").since("5.0.0").optional(),
    integer("frequency").after("FREQ").since("5.0.0").optional(),
];

/// The rows of the commands here.
pub(super) const fn rows<S: Store>() -> [Row<S>; 4] {
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
            syntax: RESTORED,
            arguments: ARGUMENTS_OF_RESTORE,
            complexity: "O(N), N = bytes of the value",
            summary: "Sets a key to what a DUMP has given, of this server or of a Redis up to 7.2.",
            access: Some(access::OVERWRITE),
            categories: Categories::DANGEROUS,
            ..Command::of(Group::Generic)
        }),
        Run::Keyspace(restore).row(Command {
            name: "restore-asking",
            arity: -4,
            flags: WRITE.and(Flags::ASKING),
            keys: Keys::ONE,
            request: Request::OneShard,
            since: "3.0.0",
            syntax: RESTORED,
            arguments: ARGUMENTS_OF_RESTORE,
            complexity: "O(N), N = bytes of the value",
            summary: "As RESTORE: the nodes of a Redis Cluster send it for MIGRATE.",
            access: Some(access::OVERWRITE),
            categories: Categories::DANGEROUS.and(Categories::KEYSPACE),
            is_internal: true,
            ..Command::of(Group::Server)
        }),
        Run::Keyspace(migrate).row(Command {
            name: "migrate",
            arity: -6,
            flags: Flags::WRITE,
            keys: Keys::third_or(keys_of_option),
            request: Request::MultiShardView,
            output: Output::Varies,
            since: "2.6.0",
            syntax: "host port key | \"\" destination-db timeout [COPY] [REPLACE] [AUTH password | AUTH2 username password] [KEYS key [key ...]]",
            arguments: arguments![
                string("host"),
                integer("port"),
                one_of("key-selector", arguments![key("key", 0), token("empty-string", "\"\"")]),
                integer("destination-db"),
                integer("timeout"),
                token("copy", "COPY").since("3.0.0").optional(),
                token("replace", "REPLACE").since("3.0.0").optional(),
                one_of(
                    "authentication",
                    arguments![
                        string("auth").shown("password").after("AUTH").since("4.0.7"),
                        block("auth2", arguments![string("username"), string("password")]).after("AUTH2").since("6.0.0"),
                    ],
                )
                .optional(),
                key("keys", 1).shown("key").after("KEYS").since("3.0.6").optional().repeated(),
            ],
            complexity: "O(N), N = bytes of the values",
            summary: "Moves keys to another server, or copies them.",
            access: Some(access::TAKE),
            is_secret: is_credential,
            pending: Pending::Migration,
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
    let deadline = deadline(integer(&args[2])?, options.is_absolute, keyspace.turn.now_ms())?;
    let value = rdb::undump(payload, keyspace.settings()).map_err(|refusal| refused(key, refusal))?;
    if deadline.is_some_and(|deadline| keyspace.turn.is_over(deadline)) {
        // It has expired already: the old value is only removed.
        if keyspace.remove(key, Removal::Replaced) {
            keyspace.note_change(key, 1);
            keyspace.notify(Class::GENERIC, "del", key);
            keyspace.record_removal(key, Removal::Replaced);
        }
    } else {
        store(keyspace, key, value, deadline, options.former_use);
        record_value(keyspace, key, payload, deadline);
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
    let (usage, second) = (keyspace.turn.usage(), keyspace.turn.second());
    if let Some(node) = keyspace.peek(key) {
        // The old value is gone, with its uses.
        node.continue_use(usage, second, former);
    }
    keyspace.notify(Class::GENERIC, "restore", key);
    keyspace.note_change(key, 1);
}

fn record_value<S: Store>(keyspace: &mut Keyspace<S>, key: &[u8], payload: &[u8], deadline: Option<u64>) {
    if keyspace.effects.is_logged() {
        let mut digits = itoa::Buffer::new();
        let deadline = digits.format(deadline.unwrap_or(0)).as_bytes();
        let sealed = rdb::sealed(payload, keyspace.settings());
        keyspace.effects.record([b"RESTORE", key, deadline, &sealed, b"REPLACE", b"ABSTTL"]);
    }
}

/// A request of MIGRATE.
#[derive(Debug)]
pub struct MigrateRequest<'a> {
    /// The other server.
    pub host: &'a [u8],
    /// Its port, as it was given.
    pub port: &'a [u8],
    /// Its database.
    pub database: i64,
    /// How long it may be silent.
    pub timeout: Duration,
    /// Whether the keys stay.
    pub is_copy: bool,
    /// Whether they replace those of the other server.
    pub is_replacing: bool,
    /// Its user, if one is named, and the password.
    pub login: Option<(Option<&'a [u8]>, &'a [u8])>,
    /// The positions of the keys.
    pub keys: Range<usize>,
}

impl<'a> MigrateRequest<'a> {
    /// Parses a request.
    pub fn parse(args: Args<'a>) -> Result<Self, CommandError> {
        const TIMEOUT: Duration = Duration::from_secs(1);
        let (mut is_copy, mut is_replacing, mut login, mut keys) = (false, false, None, 3..4);
        let mut at = FIRST_OPTION;
        while let Some(word) = args.get(at) {
            match option_of(word) {
                Some(MigrateOption::Copy) => is_copy = true,
                Some(MigrateOption::Replace) => is_replacing = true,
                Some(MigrateOption::Auth) => {
                    login = Some((None, args.get(at + 1).ok_or(CommandError::Syntax)?));
                }
                Some(MigrateOption::Auth2) => {
                    let password = args.get(at + 2).ok_or(CommandError::Syntax)?;
                    login = Some((args.get(at + 1), password));
                }
                Some(MigrateOption::Keys) if !args[3].is_empty() => {
                    return Err(CommandError::Text(
                        "ERR When using MIGRATE KEYS option, the key argument must be set to the empty string",
                    ));
                }
                Some(MigrateOption::Keys) => {
                    keys = at + 1..args.len();
                    break;
                }
                None => return Err(CommandError::Syntax),
            }
            at += 1 + option_of(word).map_or(0, MigrateOption::arguments);
        }
        let timeout = integer(&args[5])?;
        let database = integer(&args[4])?;
        let timeout = u64::try_from(timeout).ok().filter(|&ms| ms > 0).map_or(TIMEOUT, Duration::from_millis);
        let word = |position| args.get(position).expect("its arity");
        Ok(Self { host: word(1), port: word(2), database, timeout, is_copy, is_replacing, login, keys })
    }
}

/// The position of the first option of MIGRATE.
const FIRST_OPTION: usize = 6;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MigrateOption {
    Copy,
    Replace,
    Auth,
    Auth2,
    Keys,
}

impl MigrateOption {
    /// How many arguments of its own it has. All that follow KEYS are keys.
    fn arguments(self) -> usize {
        match self {
            Self::Copy | Self::Replace | Self::Keys => 0,
            Self::Auth => 1,
            Self::Auth2 => 2,
        }
    }
}

fn option_of(word: &[u8]) -> Option<MigrateOption> {
    use MigrateOption::{Auth, Auth2, Copy, Keys, Replace};
    let all = [("COPY", Copy), ("REPLACE", Replace), ("AUTH", Auth), ("AUTH2", Auth2), ("KEYS", Keys)];
    all.into_iter().find(|(name, _)| is(word, name)).map(|(_, option)| option)
}

/// The options of a request that may be invalid, with their positions.
fn options_of(args: Args<'_>) -> impl Iterator<Item = (usize, MigrateOption)> {
    let mut at = FIRST_OPTION;
    std::iter::from_fn(move || {
        loop {
            let option = option_of(args.get(at)?);
            let position = at;
            at += match option {
                Some(MigrateOption::Keys) => args.len(),
                Some(option) => 1 + option.arguments(),
                None => 1,
            };
            if let Some(option) = option {
                return Some((position, option));
            }
        }
    })
}

/// The positions of the keys after the word KEYS; none if the request is invalid because it also has another key.
fn keys_of_option(args: Args<'_>) -> Option<Range<usize>> {
    let (at, _) = options_of(args).find(|&(_, option)| option == MigrateOption::Keys)?;
    Some(if args[3].is_empty() { at + 1..args.len() } else { 0..0 })
}

/// The arguments of AUTH and AUTH2.
fn is_credential(args: Args<'_>, position: usize) -> bool {
    let is_login = |option| matches!(option, MigrateOption::Auth | MigrateOption::Auth2);
    options_of(args).any(|(at, option)| is_login(option) && (at + 1..=at + option.arguments()).contains(&position))
}

/// MIGRATE host port key | "" destination-db timeout [COPY] [REPLACE] [AUTH password | AUTH2 username password] [KEYS
/// key [key ...]]: O(N), N = bytes of the values
///
/// This is its first step, whose reply is not for the client but for the target: a RESTORE of each key that is there.
/// They are watched, so that the connection knows whether they have changed when the target has them.
pub fn migrate<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    if keyspace.turn.caller.watch.is_none() {
        return Err(CommandError::Text(
            "ERR MIGRATE in a transaction or a script is not supported: its keys would wait for another server",
        ));
    }
    let request = MigrateRequest::parse(args)?;
    let now_ms = keyspace.turn.now_ms();
    for key in request.keys.map(|position| &args[position]) {
        let found = keyspace.read_node(key).map(|node| (dumped(node.value()), node.expire_at()));
        let Some((payload, deadline)) = found else { continue };
        keyspace.turn.watch(&mut keyspace.store, key);
        // As in Redis, relative: the clocks of the two may differ.
        let ttl = deadline.map_or(0, |deadline| deadline.saturating_sub(now_ms).max(1));
        let mut digits = itoa::Buffer::new();
        let words: [&[u8]; 5] = [b"RESTORE", key, digits.format(ttl).as_bytes(), &payload, b"REPLACE"];
        let words = &words[..words.len() - usize::from(!request.is_replacing)];
        reply.array(words.len());
        words.iter().for_each(|word| reply.bulk(word));
    }
    Ok(())
}

#[test]
fn the_keys_and_secrets_of_a_migration_are_found_whatever_its_options_are_called() {
    use crate::resp::Span;
    let of = |text: &'static str| -> (Vec<usize>, Vec<usize>) {
        let words: Vec<&str> = text.split(' ').map(|word| if word == "-" { "" } else { word }).collect();
        let (mut arena, mut spans) = (Vec::new(), Vec::new());
        for word in words {
            spans.push(Span::new(arena.len(), word.len()));
            arena.extend_from_slice(word.as_bytes());
        }
        let args = Args::new(&arena, &spans);
        let keys = Keys::third_or(keys_of_option).positions(args).collect();
        (keys, (0..args.len()).filter(|&position| is_credential(args, position)).collect())
    };
    let none = Vec::new;
    assert_eq!(of("MIGRATE h 1 k 0 10"), (vec![3], none()));
    assert_eq!(of("MIGRATE h 1 - 0 10"), (vec![3], none()));
    assert_eq!(of("MIGRATE h 1 - 0 10 keys a b"), (vec![7, 8], none()));
    assert_eq!(of("MIGRATE h 1 - 0 10 COPY AUTH KEYS KEYS a b"), (vec![10, 11], vec![8]));
    assert_eq!(of("MIGRATE h 1 - 0 10 AUTH2 KEYS AUTH KEYS KEYS"), (vec![10], vec![7, 8]));
    assert_eq!(of("MIGRATE h 1 k 0 10 KEYS a"), (none(), none()));
    assert_eq!(of("MIGRATE h 1 - 0 10 KEYS"), (none(), none()));
    assert_eq!(of("MIGRATE h 1 k 0 10 NONSENSE AUTH p"), (vec![3], vec![8]));
}
