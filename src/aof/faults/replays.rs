//! The log of commands leads to the state that they made, on any number of shards and on any day: keys expire while
//! commands run, and replay does not know the time.

use super::*;

const KEYS: usize = 3;
const MEMBERS: [&str; 6] = ["a", "b", "c", "d", "1", "2"];

/// Commands that change data, or may. `{s}` and the like stand for a key of one type, `{k}` for a key of any type,
/// `{n}` for a small number, `{m}` for a member.
const COMMANDS: [&str; 107] = [
    "SET {s} {m}",
    "SET {s} {n} PX {n}",
    "SET {s} {n} KEEPTTL",
    "SET {s} {m} GET XX",
    "SETNX {s} {n}",
    "MSETNX {s} 1 {s} 2",
    "MSET {s} 1 {k} 2",
    "GETSET {s} {n}",
    "GETDEL {s}",
    "GETEX {s} PX {n}",
    "GETEX {s} PERSIST",
    "APPEND {s} {m}",
    "INCRBY {s} {n}",
    "INCRBYFLOAT {s} 0.{n}",
    "SETRANGE {s} {n} {m}",
    "SETBIT {s} {n} 1",
    "BITFIELD {s} INCRBY u8 {n} {n} GET u4 0",
    "BITOP AND {s} {s} {s}",
    "BITOP OR {s} {s} {s}",
    "BITOP NOT {s} {s}",
    "PFADD {p} {m} {n}",
    "PFMERGE {p} {p} {p}",
    "PFCOUNT {p} {p}",
    "PFCOUNT {p}",
    "DEL {k} {k}",
    "UNLINK {k}",
    "RENAME {k} {k}",
    "RENAMENX {k} {k}",
    "COPY {k} {k} REPLACE",
    "COPY {k} {k} DB 1 REPLACE",
    "COPY {k} {k}",
    "MOVE {k} 1",
    "SWAPDB 0 1",
    "FLUSHDB",
    "EXPIRE {k} 0",
    "PEXPIRE {k} {n}",
    "PEXPIRE {k} {n} NX",
    "PEXPIRE {k} {n} GT",
    "PEXPIRE {k} {n} LT",
    "PERSIST {k}",
    "SORT {l} ALPHA STORE {l}",
    "SORT {e} ALPHA DESC LIMIT 1 2 STORE {l}",
    "SORT {z} BY nosort STORE {l}",
    "LPUSH {l} {m} {n}",
    "RPUSH {l} {m} {n} {m}",
    "RPUSHX {l} {m}",
    "LPOP {l} 2",
    "RPOP {l}",
    "LMPOP 2 {l} {l} LEFT COUNT 2",
    "RPOPLPUSH {l} {l}",
    "LMOVE {l} {l} RIGHT LEFT",
    "BLMOVE {l} {l} LEFT RIGHT 0",
    "BLPOP {l} {l} 0",
    "BLMPOP 0 2 {l} {l} RIGHT COUNT 3",
    "LSET {l} 0 {m}",
    "LINSERT {l} BEFORE {m} {n}",
    "LREM {l} 1 {m}",
    "LTRIM {l} 0 4",
    "SADD {e} {m} {n} {m}",
    "SREM {e} {m}",
    "SPOP {e}",
    "SPOP {e} 2",
    "SMOVE {e} {e} {m}",
    "SINTERSTORE {e} {e} {e}",
    "SUNIONSTORE {e} {e} {e}",
    "SDIFFSTORE {e} {e} {e}",
    "SRANDMEMBER {e} 2",
    "HSET {h} {m} {n} {m} {m}",
    "HSETNX {h} {m} {n}",
    "HINCRBY {h} x {n}",
    "HINCRBYFLOAT {h} x 0.{n}",
    "HDEL {h} {m}",
    "ZADD {z} {n} {m} {n} {m}",
    "ZADD {z} GT {n} {m}",
    "ZADD {z} INCR 0.{n} {m}",
    "ZINCRBY {z} 0.{n} {m}",
    "ZREM {z} {m}",
    "ZRANDMEMBER {z} 2",
    "ZPOPMIN {z}",
    "ZMPOP 2 {z} {z} MAX COUNT 2",
    "BZPOPMAX {z} {z} 0",
    "ZREMRANGEBYRANK {z} 0 0",
    "ZREMRANGEBYSCORE {z} 0 {n}",
    "ZRANGESTORE {z} {z} 0 1",
    "ZUNIONSTORE {z} 2 {z} {e} WEIGHTS 2 0.{n}",
    "ZINTERSTORE {z} 2 {z} {z} AGGREGATE MAX",
    "ZDIFFSTORE {z} 2 {z} {e}",
    "ZUNIONSTORE {z} 1 {z}",
    "GEOADD {g} {n} {n} {m}",
    "GEOSEARCHSTORE {g} {g} FROMLONLAT 5 5 BYRADIUS 900 km",
    "GEOSEARCHSTORE {z} {g} FROMLONLAT 5 5 BYBOX 900 900 km ASC STOREDIST",
    "GEORADIUS {g} 5 5 900 km STORE {g}",
    "XADD {x} * f {n}",
    "XADD {x} MAXLEN ~ 4 * f {m} g {m}",
    "XTRIM {x} MAXLEN 3",
    "XTRIM {x} MAXLEN ~ 1 LIMIT 0",
    "XGROUP CREATE {x} g $ MKSTREAM",
    "XGROUP CREATE {x} h 0",
    "XGROUP SETID {x} g $",
    "XREADGROUP GROUP g {m} COUNT 2 STREAMS {x} >",
    "XREADGROUP GROUP h {m} NOACK STREAMS {x} >",
    "XREADGROUP GROUP h {m} STREAMS {x} >",
    "XAUTOCLAIM {x} h {m} 5 0",
    "XACK {x} h {n}-0",
    "XGROUP DELCONSUMER {x} h {m}",
    "RESTORE {k} {n} <dump> REPLACE",
    "RESTORE {k} 0 <dump>",
];

fn choose(template: &str, random: &mut fastrand::Rng) -> String {
    let types = ["s", "l", "e", "h", "z", "g", "x", "p"];
    let word = |word: &str, random: &mut fastrand::Rng| {
        let fill = |name: &str, random: &mut fastrand::Rng| match name {
            "n" => random.usize(1..30).to_string(),
            "m" => MEMBERS[random.usize(..MEMBERS.len())].to_owned(),
            // Sometimes a key of another type, for what a command does before it fails.
            "k" => format!("{}{}", types[random.usize(..types.len())], random.usize(..KEYS)),
            _ if random.u8(..40) == 0 => format!("{}{}", types[random.usize(..types.len())], random.usize(..KEYS)),
            kind => format!("{kind}{}", random.usize(..KEYS)),
        };
        match word.split_once('{') {
            Some((before, name)) => format!("{before}{}", fill(name.trim_end_matches('}'), random)),
            None => word.to_owned(),
        }
    };
    template.split(' ').map(|template| word(template, random)).collect::<Vec<_>>().join(" ")
}

pub(super) fn stores(count: usize) -> Vec<Databases> {
    let instance = Arc::default();
    (0..count).map(|index| Databases::of_shard(&instance, DATABASES, index, count)).collect()
}

/// Runs commands as one step, and returns what they log.
fn run(stores: &mut [Databases], commands: &[String], now_ms: u64, random: &mut fastrand::Rng) -> Vec<u8> {
    // Commands that only fill stay in the first database.
    let is_crossing = now_ms > NOW_MS + 10;
    let store = MultiShardView::new(stores.len(), stores.iter_mut().enumerate());
    let mut keyspace = Keyspace::new(store, now_ms, random.fork(), Effects::new(true));
    for command in commands {
        let (bytes, spans) = parse(command);
        let args = Args::new(&bytes, &spans);
        let id = commands::find_of(args).expect("the command is right").expect("there is one");
        keyspace.select(usize::from(is_crossing && random.u8(..8) == 0));
        // A failing command is as good as any: its changes before the failure are logged.
        commands::execute(id, &mut keyspace, args, &mut Reply::new(&mut Vec::new(), false));
    }
    keyspace.effects.payload().to_vec()
}

/// The time of a consumer's last request that returned nothing is not logged; Redis does not log it either.
pub(super) fn without_seen_times(keys: Vec<String>) -> Vec<String> {
    let without = |key: String| {
        let mut parts = key.split("seen-time :");
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |text, part| text + part.trim_start_matches(|letter: char| letter.is_ascii_digit()))
    };
    keys.into_iter().map(without).collect()
}

#[test]
fn what_is_logged_leads_to_the_same_state_on_any_number_of_shards() {
    let given = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let soak = std::env::var("SOAK").is_ok_and(|soak| soak != "0");
    let seed: u64 = given.unwrap_or_else(|| fastrand::u64(..));
    println!("SEED={seed}");
    for round in 0..if soak { 2000 } else { 12 } {
        compare(seed.wrapping_add(round));
    }
}

/// Stores, and copies made from the log.
struct Copied {
    first: Vec<Databases>,
    copies: [Vec<Databases>; 2],
    random: fastrand::Rng,
}

impl Copied {
    fn new(seed: u64) -> Self {
        Self { first: stores(2), copies: [stores(1), stores(3)], random: fastrand::Rng::with_seed(seed) }
    }

    /// Runs commands as one step, and compares.
    fn step(&mut self, commands: &[String], now_ms: u64, what: &str) {
        let effects = run(&mut self.first, commands, now_ms, &mut self.random);
        let logged = effects.escape_ascii();
        let wanted = without_seen_times(describe(&mut self.first));
        for copy in &mut self.copies {
            let lent = MultiShardView::new(copy.len(), copy.iter_mut().enumerate());
            let applied = if effects.is_empty() { Ok(()) } else { Replay::new().apply(&effects, lent, None) };
            applied.unwrap_or_else(|reason| panic!("{what}, {commands:?}: {reason}: {logged}"));
            let found = without_seen_times(describe(copy));
            let is_missing = |key: &&String| !found.contains(key);
            let missing: Vec<&String> = wanted.iter().filter(is_missing).collect();
            assert!(wanted == found, "{what}, {} shards, {commands:?}: {missing:?}, but {logged}", copy.len());
        }
    }
}

fn compare(seed: u64) {
    let mut copied = Copied::new(seed);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut now_ms = NOW_MS;
    for step in 0..400 {
        now_ms += random.u64(..12);
        let commands = any_commands(&mut random);
        copied.step(&commands, now_ms, &format!("SEED={seed}, step {step}"));
    }
}

/// One command, or several.
fn any_commands(random: &mut fastrand::Rng) -> Vec<String> {
    // Most keys should live for a while, though sometimes a flush comes.
    let count = if random.u8(..4) == 0 { 5 } else { 1 };
    let templates = (0..count).map(|_| match random.usize(..COMMANDS.len()) {
        index if COMMANDS[index].starts_with("FLUSH") && random.u8(..8) > 0 => COMMANDS[0],
        index => COMMANDS[index],
    });
    let templates: Vec<&str> = templates.collect();
    templates.iter().map(|template| choose(template, random)).collect()
}

/// Runs commands of any kind as one step, and returns what they log.
pub(super) fn run_any(stores: &mut [Databases], now_ms: u64, random: &mut fastrand::Rng) -> Vec<u8> {
    let commands = any_commands(random);
    run(stores, &commands, now_ms, random)
}

/// Each command meets keys that have expired but were not removed yet: as sources, as destinations, and as both.
#[test]
fn a_command_that_meets_keys_that_have_expired_is_logged_after_their_removal() {
    const FILL: [&str; 9] = [
        "SET s# 5",
        "RPUSH l# a b c",
        "SADD e# a b c 1 2",
        "HSET h# a 1 b 2 x 3",
        "ZADD z# 1 a 2 b 3 c",
        "GEOADD g# 5 5 a 5.1 5.1 b",
        "XADD x# 1-1 f v",
        "XGROUP CREATE x# h 0",
        "PFADD p# a b c",
    ];
    for (index, template) in COMMANDS.into_iter().enumerate() {
        for round in 0..6 {
            let mut copied = Copied::new(round);
            let mut random = fastrand::Rng::with_seed(round * 1000 + index as u64);
            for key in 0..KEYS {
                let fill = FILL.map(|command| command.replace('#', &key.to_string()));
                copied.step(&fill, NOW_MS, "filled");
                for kind in ["s", "l", "e", "h", "z", "g", "x", "p"].into_iter().filter(|_| random.bool()) {
                    copied.step(&[format!("PEXPIRE {kind}{key} 5")], NOW_MS, "filled");
                }
            }
            copied.step(&[choose(template, &mut random)], NOW_MS + 10, &format!("{template}, round {round}"));
        }
    }
}

/// The log would not know an empty stream that an error left over: its groups could not be made again. The entry holds
/// pages of zeros that are never read.
#[test]
fn an_entry_that_is_too_large_leaves_no_stream_behind() {
    const LEN: usize = (1 << 30) + 1;
    let (words, mut spans) = parse("XADD key 1-1 field");
    let mut bytes = vec![0; words.len() + LEN];
    bytes[..words.len()].copy_from_slice(&words);
    let number = |number: usize| u32::try_from(number).expect("it is less than 4 GB");
    spans.push(Span { start: number(words.len()), len: number(LEN) });
    let mut stores = stores(1);
    let store = MultiShardView::new(1, stores.iter_mut().enumerate());
    let mut keyspace = Keyspace::new(store, NOW_MS, fastrand::Rng::with_seed(0), Effects::new(true));
    let args = Args::new(&bytes, &spans);
    let id = commands::find_of(args).expect("the command is right").expect("there is one");
    let mut reply = Vec::new();
    commands::execute(id, &mut keyspace, args, &mut Reply::new(&mut reply, false));
    assert_eq!(reply, b"-ERR Elements are too large to be stored\r\n");
    assert!(keyspace.store.is_empty() && keyspace.effects.payload().is_empty());
}
