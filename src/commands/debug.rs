//! DEBUG: subcommands that the tests of clients need. `enable-debug-command` says which connections may use them.

use super::digest::Digest;
use super::flag_sets::ADMIN;
use super::float::Extended;
use super::row::{Command, Flags, Group, KeyFinder, Keys, OptionKeys, Pending, Request, Row, Run};
use super::text::checked_len;
use super::{CommandError, Outcome, services};
use crate::base::allocator;
use crate::base::lengthy;
use crate::keyspace::{
    Databases, Instance, Keyspace, Limit, List, ListNode, NewValue, Node, Object, Settings, Store, Value, replace_all,
};
use crate::rdb;
use crate::resp::{Args, Reply, parse_i64, parse_memory, quoted};
use parking_lot::Mutex;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Some subcommands name keys, others concern all.
const KEYS: Keys =
    Keys { options: OptionKeys::Found(&KeyFinder { named: keys, may_be_any: concerns_all, notes: &[] }), ..Keys::NONE };

/// The rows of the commands here.
pub(super) const fn rows<S: Store>() -> [Row<S>; 1] {
    [Run::Keyspace(debug).row(Command {
        name: "debug",
        arity: -2,
        flags: ADMIN.and(Flags::PROTECTED),
        keys: KEYS,
        request: Request::MultiShardView,
        since: "1.0.0",
        syntax: "<DIGEST | DIGEST-VALUE key [key ...] | LOADAOF | MALLCTL name | OBJECT key | POPULATE count [prefix [size]] | PROTOCOL type | QUICKLIST-PACKED-THRESHOLD size | RELOAD | SET-ACTIVE-EXPIRE <0 | 1> | SET-DISABLE-DENY-SCRIPTS <0 | 1> | SET-SKIP-CHECKSUM-VALIDATION <0 | 1> | SLEEP seconds | HELP>",
        complexity: "as the subcommand",
        summary: "For tests of clients; see enable-debug-command.",
        is_internal: true,
        pending: Pending::Debug,
        ..Command::of(Group::Server)
    })]
}

/// The log that a server appends to, if there is one.
#[derive(Debug, Default)]
pub struct OpenLog(Mutex<Option<Arc<dyn ReadBack>>>);

/// A log that can be read back.
pub trait ReadBack: Debug + Send + Sync {
    /// Its data, in as many parts as there are owners. The caller has all shards. O(bytes of the log)
    fn read_back(&self, instance: &Arc<Instance>) -> Result<Vec<Databases>, String>;
}

impl OpenLog {
    /// Sets the log.
    pub fn begin(&self, log: Arc<dyn ReadBack>) {
        *self.0.lock() = Some(log);
    }

    /// There is no log any more.
    pub fn end(&self) {
        *self.0.lock() = None;
    }

    fn read_back(&self, instance: &Arc<Instance>) -> Result<Vec<Databases>, String> {
        let log = self.0.lock();
        log.as_ref().ok_or("there is no log: appendonly is no")?.read_back(instance)
    }
}

const HELP: [&str; 31] = [
    "DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "DIGEST",
    "    Output a hex signature representing the current DB content.",
    "DIGEST-VALUE <key> [<key> ...]",
    "    Output a hex signature of the values of all the specified keys.",
    "ERROR <string>",
    "    Reply with an error of these words.",
    "LOADAOF",
    "    Write the log out, and replace the data by what the log gives back.",
    "MALLCTL <name>",
    "    Show a number that the allocator tells by this name.",
    "OBJECT <key>",
    "    Show how the value of a key is stored.",
    "POPULATE <count> [<prefix>] [<size>]",
    "    Set the keys <prefix>:0, <prefix>:1 ... that are not there; as any change, in the log and for replicas, too.",
    "PROTOCOL <type>",
    "    Reply with a test value of the specified type.",
    "QUICKLIST-PACKED-THRESHOLD <size>",
    "    Let elements of lists of so many bytes stand alone; 0 restores the default.",
    "RELOAD",
    "    Save the RDB on disk, and replace the data by what the file gives back.",
    "SET-ACTIVE-EXPIRE <0|1>",
    "    Whether expired keys are removed though nobody asks for them.",
    "SET-DISABLE-DENY-SCRIPTS <0|1>",
    "    Whether scripts may call DEBUG.",
    "SET-SKIP-CHECKSUM-VALIDATION <0|1>",
    "    Let RESTORE take payloads with a wrong checksum. What they hold is checked all the same.",
    "SLEEP <seconds>",
    "    Reply after <seconds>; other connections are served meanwhile, unless it is in a transaction.",
    "HELP",
    "    Print this help.",
];

/// DEBUG subcommand [argument ...]: O(1); DIGEST, RELOAD and LOADAOF O(N), N = bytes of all keys
pub fn debug<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    match args.len() {
        2 if args.is(1, "HELP") => {
            reply.array(HELP.len());
            HELP.iter().for_each(|line| reply.simple(line));
        }
        2 if args.is(1, "DIGEST") => reply.simple(&Digest::of_all(keyspace).to_hex()),
        2.. if args.is(1, "DIGEST-VALUE") => digest_values(keyspace, args, reply),
        3 if args.is(1, "ERROR") => reply.error(String::from_utf8_lossy(&args[2])),
        2 if args.is(1, "LOADAOF") => {
            load_log(keyspace)?;
            reply.ok();
        }
        3 if args.is(1, "MALLCTL") => {
            let unknown = CommandError::Text("ERR No such file or directory");
            reply.integer(allocator::value_of(&args[2]).ok_or(unknown)?);
        }
        3 if args.is(1, "OBJECT") => {
            let (second, fill) = (keyspace.turn.second(), keyspace.settings().encodings.signed(Limit::ListNode));
            let node = keyspace.store.stored(&args[2]).ok_or(CommandError::NoSuchKey)?;
            reply.simple(&described(node, second, fill));
        }
        3..=5 if args.is(1, "POPULATE") => {
            populate(keyspace, args)?;
            reply.ok();
        }
        3 if args.is(1, "PROTOCOL") => protocol(&args[2], reply)?,
        3 if args.is(1, "QUICKLIST-PACKED-THRESHOLD") => {
            set_packed_threshold(keyspace.settings(), &args[2])?;
            reply.ok();
        }
        2.. if args.is(1, "RELOAD") => {
            reload(keyspace, args)?;
            reply.ok();
        }
        3 if args.is(1, "SET-ACTIVE-EXPIRE") => {
            keyspace
                .settings()
                .expires_actively
                .store(parse_i64(&args[2]).is_some_and(|number| number != 0), Ordering::Relaxed);
            reply.ok();
        }
        3 if args.is(1, "SET-DISABLE-DENY-SCRIPTS") => {
            let lets_scripts = parse_i64(&args[2]).is_some_and(|number| number != 0);
            services(keyspace).lets_scripts_debug.store(lets_scripts, Ordering::Relaxed);
            reply.ok();
        }
        3 if args.is(1, "SET-SKIP-CHECKSUM-VALIDATION") => {
            keyspace
                .settings()
                .trusts_payloads
                .store(parse_i64(&args[2]).is_some_and(|number| number != 0), Ordering::Relaxed);
            reply.ok();
        }
        // Outside of a transaction the connection sleeps. A transaction delays all others that need its shards.
        3 if args.is(1, "SLEEP") => {
            let time = sleep(args).expect("it is a DEBUG SLEEP");
            std::thread::sleep(time);
            reply.ok();
        }
        _ => {
            let name = quoted(&args[1], 128);
            let text = format!("ERR unknown subcommand or wrong number of arguments for '{name}'. Try DEBUG HELP.");
            return Err(CommandError::Owned(text));
        }
    }
    Ok(())
}

/// The positions of the keys that a subcommand names.
fn keys(args: Args<'_>) -> Range<usize> {
    match args.len() {
        3 if args.is(1, "OBJECT") => 2..3,
        len @ 3.. if args.is(1, "DIGEST-VALUE") => 2..len,
        _ => 0..0,
    }
}

/// Whether a subcommand concerns every key.
fn concerns_all(args: Args<'_>) -> bool {
    ["DIGEST", "LOADAOF", "POPULATE", "RELOAD"].iter().any(|name| args.is(1, name))
}

fn digest_values<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>, reply: &mut Reply<'_>) {
    let keys = args.from(2);
    reply.array(keys.len());
    for key in keys.iter() {
        let digest = keyspace.peek(key).map(Digest::of_value).unwrap_or_default();
        reply.simple(&digest.to_hex());
    }
}

/// Sets strings where no keys are: `value:N` at `prefix:N`, cut or filled up with zeros to a size.
fn populate<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>) -> Outcome {
    let positive = |argument: &[u8]| {
        let number = parse_i64(argument).and_then(|number| usize::try_from(number).ok());
        number.ok_or(CommandError::Text("ERR value is out of range, must be positive"))
    };
    let count = positive(&args[2])?;
    let prefix = args.get(3).unwrap_or(b"key");
    let len_max = keyspace.string_len_max();
    let size = args.get(4).map(|size| checked_len(0, positive(size)?, len_max)).transpose()?;
    for number in 0..count {
        let key = [prefix, format!(":{number}").as_bytes()].concat();
        if keyspace.contains(&key) {
            continue;
        }
        let mut value = format!("value:{number}").into_bytes();
        value.resize(size.unwrap_or(value.len()), 0);
        keyspace.set(&key, NewValue::of_string(&value), None);
        keyspace.note_change(&key, 1);
        keyspace.effects.add([b"SET".as_slice(), &key, &value]);
    }
    keyspace.effects.leave_out_own();
    Ok(())
}

fn load_log<S: Store>(keyspace: &mut Keyspace<S>) -> Outcome {
    // Changes that have not been logged would be lost.
    if !keyspace.effects.payload().is_empty() {
        return Err(CommandError::Text("ERR DEBUG LOADAOF is not allowed after changes of its own transaction"));
    }
    let stores = services(keyspace)
        .log
        .read_back(keyspace.instance())
        .map_err(|reason| CommandError::Owned(format!("ERR {reason}")))?;
    let (usage, second) = (keyspace.turn.usage(), keyspace.turn.second());
    let nodes = stores.into_iter().flat_map(Databases::into_nodes);
    replace_all(keyspace, nodes.inspect(|(_, node)| node.begin_use(usage, second)));
    tracing::warn!("Append Only File loaded by DEBUG LOADAOF");
    Ok(())
}

/// Redis's options would change the data without the log.
fn reload<S: Store>(keyspace: &mut Keyspace<S>, args: Args<'_>) -> Outcome {
    if args.len() > 2 {
        return Err(CommandError::Text("ERR DEBUG RELOAD has no options here: it saves, flushes and loads"));
    }
    let saves = Arc::clone(&services(keyspace).saves);
    saves.save(keyspace).map_err(|_| CommandError::Text("ERR"))?;
    let mut nodes = saves.load(keyspace).map_err(|reason| {
        tracing::error!("DEBUG RELOAD: {reason}");
        CommandError::Text("ERR Error trying to load the RDB dump, check server logs.")
    })?;
    // A master drops keys that are due, as Redis does. The log learns that they are gone.
    let now_ms = if keyspace.turn.due_keys.stay() { 0 } else { keyspace.turn.now_ms() };
    let is_due = |(_, node): &mut (usize, Node)| node.expire_at().is_some_and(|at| at < now_ms);
    for (database, node) in nodes.extract_if(.., is_due) {
        keyspace.within(database, |keyspace| keyspace.effects.add([b"DEL".as_slice(), node.key()]));
    }
    replace_all(keyspace, nodes.into_iter());
    tracing::warn!("DB reloaded by DEBUG RELOAD");
    Ok(())
}

fn set_packed_threshold(settings: &Settings, argument: &[u8]) -> Outcome {
    const MOST: u64 = (1 << 32) - (1 << 20);
    const REFUSAL: &str = "ERR argument must be a memory value bigger than 1 and smaller than 4gb";
    let text = std::str::from_utf8(argument).ok();
    let bytes = text.and_then(parse_memory).filter(|&bytes| bytes <= MOST).ok_or(CommandError::Text(REFUSAL))?;
    settings.encodings.set(Limit::ListPacked, if bytes == 0 { Limit::LIST_PACKED_DEFAULT } else { bytes as i64 });
    Ok(())
}

/// A reply of each type, for tests of clients.
fn protocol(name: &[u8], reply: &mut Reply<'_>) -> Outcome {
    const UNKNOWN: &str = "ERR Wrong protocol type name. Please use one of the following: \
                           string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false";
    match name.to_ascii_lowercase().as_slice() {
        b"string" => reply.bulk(b"Hello World"),
        b"integer" => reply.integer(12345),
        b"double" => reply.double_text(b"3.141"),
        b"bignum" => reply.big_number("1234567999999999999999999999999999999"),
        b"null" => reply.null(),
        b"array" => {
            reply.array(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        b"set" => {
            reply.set(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        b"map" => {
            reply.map(3);
            for number in 0..3 {
                reply.integer(number);
                reply.boolean(number == 1);
            }
        }
        b"attrib" => {
            if reply.is_resp3() {
                reply.attribute(1);
                reply.bulk(b"key-popularity");
                reply.array(2);
                reply.bulk(b"key:123");
                reply.integer(90);
            }
            reply.bulk(b"Some real reply following the attribute");
        }
        b"push" if !reply.is_resp3() => {
            return Err(CommandError::Text("ERR RESP2 is not supported by this command"));
        }
        b"push" => {
            reply.push(2);
            reply.bulk(b"server-cpu-usage");
            reply.integer(42);
            reply.bulk(b"Some real reply following the push reply");
        }
        b"true" => reply.boolean(true),
        b"false" => reply.boolean(false),
        b"verbatim" => reply.verbatim("This is a verbatim\nstring"),
        _ => return Err(CommandError::Text(UNKNOWN)),
    }
    Ok(())
}

/// How long a DEBUG SLEEP takes; `None` for other subcommands.
pub fn sleep(args: Args<'_>) -> Option<Duration> {
    if args.len() != 3 || !args.is(1, "SLEEP") {
        return None;
    }
    let ms = Extended::parse(&args[2]).and_then(Extended::ceil_of_thousandfold).unwrap_or(0);
    Some(Duration::from_millis(u64::try_from(ms).unwrap_or(0)))
}

/// Redis's description of a value, as far as it applies here. `fill` is `list-max-listpack-size`.
fn described(node: &Node, second: u64, fill: i64) -> String {
    /// What DUMP adds to a value: its type, the version and the checksum.
    const AROUND: usize = 11;
    /// Redis keeps this many bits.
    const USAGE_MASK: u32 = (1 << 24) - 1;
    let encoding = node.encoding();
    let len = lengthy::run(node.value().elements(), || rdb::dump(node.value())).len() - AROUND;
    let address = std::ptr::from_ref(node).addr();
    let (usage, idle) = (node.usage() & USAGE_MASK, node.idle_seconds(second));
    let nodes = match node.value() {
        Value::Object(Object::List(list)) if encoding == "quicklist" => described_nodes(list, fill),
        _ => String::new(),
    };
    format!(
        "Value at:{address:#x} refcount:1 encoding:{encoding} serializedlength:{len} lru:{usage} \
         lru_seconds_idle:{idle}{nodes}"
    )
}

fn described_nodes(list: &List, fill: i64) -> String {
    let (mut nodes, mut bytes) = (0_usize, 0);
    for node in list.nodes() {
        nodes += 1;
        bytes += match node {
            ListNode::Packed(listpack) => listpack.as_bytes().len(),
            ListNode::Plain(element) => element.len(),
        };
    }
    let average = list.len() as f64 / nodes as f64;
    format!(
        " ql_nodes:{nodes} ql_avg_node:{average:.2} ql_listpack_max:{fill} ql_compressed:0 ql_uncompressed_size:{bytes}"
    )
}
