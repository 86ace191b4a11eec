//! Everything logged can be replayed: every write command of the table with numbers, IDs and times at their limits, and
//! other commands on the remaining keys. Replay knows no time, no client's limit and no other configuration.

use crc::{CRC_64_REDIS, Crc};
use harness::{Client, Data, EVERY_ENGINE, Server, Setup, Value, effort, wait_until, words};

const DEBUG: [&str; 2] = ["--enable-debug-command", "yes"];

const INTEGERS: [&str; 19] = [
    "-9223372036854775808",
    "-9223372036854775807",
    "-2147483649",
    "-1",
    "0",
    "1",
    "2",
    "255",
    "2147483647",
    "2147483648",
    "4294967296",
    "9223372036854775",
    "9223372036854775806",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "-0",
    "01",
    "",
];

/// Times and times to live: no key expires during a test.
const TIMES: [&str; 16] = [
    "-9223372036854775808",
    "-1",
    "0",
    "1000000000",
    "2147483647",
    "2147483648",
    "4294967296",
    "4000000000000",
    "9223372036854775",
    "9223372036854776",
    "9223372036854775806",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "-0",
    "",
];

/// Positions in strings: no test makes a string of 512 MB.
const OFFSETS: [&str; 9] =
    ["-1", "0", "1", "7", "100", "4097", "1099511627776", "9223372036854775807", "-9223372036854775808"];

const FLOATS: [&str; 19] = [
    "inf",
    "-inf",
    "+Infinity",
    "nan",
    "1e308",
    "-1.7976931348623157e308",
    "5e-324",
    "1e-400",
    "1e400",
    "0.1",
    "-0",
    "-0.0",
    "0x1p3",
    "0x1p-1074",
    ".5",
    "9007199254740993",
    "123456789012345678901234567890",
    "3.0e3",
    "",
];

const IDS: [&str; 19] = [
    "0-0",
    "0-1",
    "0-*",
    "1-1",
    "1-*",
    "2",
    "2-1",
    "5-5",
    "0-18446744073709551615",
    "9223372036854775807-9223372036854775808",
    "18446744073709551615",
    "18446744073709551615-*",
    "18446744073709551615-18446744073709551614",
    "18446744073709551615-18446744073709551615",
    "18446744073709551616-0",
    "*",
    "$",
    ">",
    "-",
];

/// A kind of key: its contents, and the commands run on it after each command. `K` stands for the key, and `K1`, `K2`
/// for others that belong to it.
struct Kind {
    fill: &'static [&'static str],
    commands: &'static [&'static str],
    afterwards: &'static [&'static str],
}

/// `{i}` stands for an integer, `{t}` for a time, `{o}` for a position in a string, `{f}` for a float, `{d}` for an ID,
/// `{p}` for a payload of DUMP: each takes all values of its kind, while the others keep their first values.
const KINDS: [Kind; 7] = [
    Kind {
        fill: &["SET K 5", "SET K1 text"],
        commands: &[
            "SET K {i}",
            "SET K v EX {t}",
            "SET K v PX {t}",
            "SET K v EXAT {t}",
            "SET K v PXAT {t} GET",
            "SET K v KEEPTTL XX",
            "SETNX K2 {i}",
            "SETEX K {t} v",
            "PSETEX K {t} v",
            "MSET K {i} K2 {f}",
            "MSETNX K2 {i} K3 {f}",
            "GETSET K {i}",
            "GETDEL K",
            "GETEX K EX {t}",
            "GETEX K PX {t}",
            "GETEX K EXAT {t}",
            "GETEX K PXAT {t}",
            "GETEX K PERSIST",
            "APPEND K {i}",
            "INCR K",
            "DECR K",
            "INCRBY K {i}",
            "DECRBY K {i}",
            "INCRBYFLOAT K {f}",
            "INCRBYFLOAT K1 {f}",
            "SETRANGE K {o} {i}",
            "SETBIT K {o} 1",
            "BITFIELD K SET u8 {o} 200 OVERFLOW FAIL INCRBY i64 #{o} {i}",
            "BITFIELD K2 OVERFLOW SAT INCRBY u63 {o} {i}",
            "BITFIELD K2 OVERFLOW WRAP SET i64 {o} {i}",
            "BITOP NOT K2 K",
            "BITOP XOR K K K1",
            "EXPIRE K {t}",
            "PEXPIRE K {t} NX",
            "EXPIREAT K {t} LT",
            "PEXPIREAT K {t}",
            "PERSIST K",
            "COPY K K2",
            "COPY K K1 REPLACE",
            "COPY K K2 DB {i} REPLACE",
            "MOVE K {i}",
            "RENAME K K1",
            "RENAMENX K K2",
            "DEL K {i} {f}",
            "UNLINK K K1",
            "RESTORE K2 {t} {p}",
            "RESTORE K {t} {p} REPLACE",
            "RESTORE K2 {t} {p} ABSTTL",
            "RESTORE-ASKING K2 {t} {p} ABSTTL REPLACE",
            "RESTORE K2 0 {p} IDLETIME {i}",
            "RESTORE K2 0 {p} FREQ {i}",
        ],
        afterwards: &[
            "INCR K",
            "INCRBY K 9223372036854775807",
            "INCRBYFLOAT K 0.1",
            "HINCRBYFLOAT K f 0.1",
            "APPEND K 7",
            "SETRANGE K 3 xy",
            "PEXPIRE K 100000000 GT",
            "GETEX K PX 100000000",
            "SETBIT K 5 1",
            "BITFIELD K INCRBY u8 0 200",
            "INCR K2",
            "SETRANGE K2 0 9",
            "INCR K2",
        ],
    },
    Kind {
        fill: &["HSET K f 5 g text h 9223372036854775807"],
        commands: &[
            "HSET K f {i} {f} {i}",
            "HMSET K f {f}",
            "HSETNX K {i} {f}",
            "HDEL K f {i}",
            "HINCRBY K f {i}",
            "HINCRBY K h {i}",
            "HINCRBY K none {i}",
            "HINCRBYFLOAT K f {f}",
            "HINCRBYFLOAT K none {f}",
        ],
        afterwards: &["HINCRBY K f 1", "HINCRBYFLOAT K f 0.1", "HINCRBY K f 1", "HINCRBYFLOAT K h 1e17", "HDEL K g"],
    },
    Kind {
        fill: &["RPUSH K a b 1 01 9223372036854775807 a"],
        commands: &[
            "LPUSH K {i} {f}",
            "RPUSH K {i} {f}",
            "LPUSHX K {i}",
            "RPUSHX K {i}",
            "LPOP K {i}",
            "RPOP K {i}",
            "LMPOP 1 K LEFT COUNT {i}",
            "BLMPOP {f} 1 K RIGHT COUNT 1",
            "BLMPOP 0 1 K RIGHT COUNT {i}",
            "BLPOP K {f}",
            "BRPOP K {f}",
            "BLMOVE K K1 LEFT RIGHT {f}",
            "BRPOPLPUSH K K1 {f}",
            "LMOVE K K LEFT RIGHT",
            "RPOPLPUSH K K1",
            "LSET K {i} x",
            "LSET K 0 {i}",
            "LINSERT K BEFORE {i} x",
            "LINSERT K AFTER a {i}",
            "LREM K {i} a",
            "LREM K 0 {i}",
            "LTRIM K {i} {i}",
            "LTRIM K 0 {i}",
            "SORT K ALPHA LIMIT {i} {i} STORE K1",
            "SORT K ALPHA LIMIT 0 {i} DESC STORE K",
        ],
        afterwards: &[
            "LINSERT K BEFORE b x",
            "LMOVE K K1 LEFT RIGHT",
            "LPOP K 1",
            "SORT K1 ALPHA STORE K2",
            "LPOP K2 9",
        ],
    },
    Kind {
        fill: &["SADD K a b 1 9223372036854775807 -9223372036854775808", "SADD K1 a 1"],
        commands: &[
            "SADD K {i} {f}",
            "SADD K2 {i}",
            "SREM K {i} a",
            "SPOP K {i}",
            "SMOVE K K2 {i}",
            "SMOVE K K2 1",
            "SINTERSTORE K2 K K1",
            "SUNIONSTORE K K K1",
            "SDIFFSTORE K K K1",
        ],
        afterwards: &["SADD K 01 1 9223372036854775808", "SPOP K 1", "SMOVE K K2 1", "SUNIONSTORE K1 K K2", "SPOP K"],
    },
    Kind {
        fill: &["ZADD K 1 a inf b -inf c 0 d -0 e", "ZADD K1 -inf b 2 a"],
        commands: &[
            "ZADD K {f} a {f} new",
            "ZADD K GT CH {f} a",
            "ZADD K LT {f} b {f} other",
            "ZADD K NX {f} n",
            "ZADD K XX INCR {f} b",
            "ZADD K INCR {f} d",
            "ZADD K2 INCR {f} first",
            "ZINCRBY K {f} a",
            "ZINCRBY K {f} none",
            "ZREM K a {f}",
            "ZPOPMIN K {i}",
            "ZPOPMAX K {i}",
            "ZMPOP 1 K MIN COUNT {i}",
            "BZPOPMIN K {f}",
            "BZPOPMAX K {f}",
            "BZMPOP {f} 1 K MAX COUNT 2",
            "ZREMRANGEBYRANK K {i} {i}",
            "ZREMRANGEBYSCORE K {f} {f}",
            "ZREMRANGEBYSCORE K ({f} +inf",
            "ZREMRANGEBYLEX K [{i} +",
            "ZRANGESTORE K2 K {i} -1",
            "ZRANGESTORE K2 K -inf {f} BYSCORE LIMIT 0 {i}",
            "ZUNIONSTORE K2 2 K K1 WEIGHTS {f} {f}",
            "ZINTERSTORE K2 2 K K1 WEIGHTS 1 {f} AGGREGATE SUM",
            "ZUNIONSTORE K2 {i} K K1",
            "ZDIFFSTORE K2 2 K K1",
            "GEOADD K2 {f} {f} here",
            "GEOADD K2 180 85.05112878 a -180 -85.05112878 b",
            "GEORADIUS K2 {f} 0 {f} km STORE K1",
            "GEORADIUSBYMEMBER K a {f} km STOREDIST K2",
            "GEOSEARCHSTORE K2 K FROMLONLAT 0 0 BYRADIUS {f} km COUNT 2 ANY",
            "GEOSEARCHSTORE K2 K FROMMEMBER a BYBOX {f} {f} km STOREDIST",
        ],
        afterwards: &[
            "ZINCRBY K 1 a",
            "ZINCRBY K -inf b",
            "ZADD K INCR inf d",
            "ZADD K GT CH 5 a",
            "ZUNIONSTORE K2 2 K K2 WEIGHTS inf -1",
            "ZINCRBY K2 -inf a",
            "ZPOPMIN K",
            "SUNIONSTORE K1 K K1",
        ],
    },
    Kind {
        fill: &[
            "XADD K 1-1 f v",
            "XADD K 2-1 f v g w",
            "XADD K 3-1 f v",
            "XGROUP CREATE K g 0",
            "XREADGROUP GROUP g c COUNT 1 STREAMS K >",
        ],
        commands: &[
            "XADD K {d} f v",
            "XADD K1 {d} f v",
            "XADD K NOMKSTREAM MAXLEN = {i} * f v",
            "XADD K MAXLEN ~ {i} LIMIT {i} * f v",
            "XADD K MINID = {d} * f v",
            "XADD K MINID ~ {d} LIMIT 1 * f v",
            "XDEL K {d} 1-1",
            "XTRIM K MAXLEN {i}",
            "XTRIM K MAXLEN ~ 1 LIMIT {i}",
            "XTRIM K MINID {d}",
            "XSETID K {d}",
            "XSETID K 18446744073709551615-5 ENTRIESADDED {i}",
            "XSETID K {d} ENTRIESADDED 9223372036854775807 MAXDELETEDID {d}",
            "XGROUP CREATE K n {d}",
            "XGROUP CREATE K n 0 ENTRIESREAD {i}",
            "XGROUP CREATE K1 n {d} MKSTREAM ENTRIESREAD {i}",
            "XGROUP SETID K g {d}",
            "XGROUP SETID K g 1-1 ENTRIESREAD {i}",
            "XGROUP SETID K g {d} ENTRIESREAD 9223372036854775807",
            "XGROUP CREATECONSUMER K g {i}",
            "XGROUP DELCONSUMER K g c",
            "XGROUP DESTROY K g",
            "XREADGROUP GROUP g {i} COUNT {i} STREAMS K >",
            "XREADGROUP GROUP g c BLOCK {i} NOACK STREAMS K >",
            "XREADGROUP GROUP g c STREAMS K {d}",
            "XACK K g {d} 1-1",
            "XCLAIM K g d {i} 1-1 2-1",
            "XCLAIM K g d 0 {d} FORCE",
            "XCLAIM K g d 0 1-1 IDLE {i}",
            "XCLAIM K g d 0 1-1 TIME {i} JUSTID",
            "XCLAIM K g d 0 1-1 RETRYCOUNT {i}",
            "XCLAIM K g d 0 1-1 2-1 FORCE RETRYCOUNT {i} JUSTID LASTID {d}",
            "XAUTOCLAIM K g d {i} {d} COUNT 2",
            "XAUTOCLAIM K g d 0 - COUNT 1 JUSTID",
            "RESTORE K1 {t} {p}",
        ],
        afterwards: &[
            "XGROUP CREATE K n 0 ENTRIESREAD 9223372036854775807",
            "XREADGROUP GROUP n c COUNT 1 STREAMS K >",
            "XREADGROUP GROUP g c COUNT 1 STREAMS K >",
            "XADD K * f v",
            "XREADGROUP GROUP g e NOACK STREAMS K >",
            "XREADGROUP GROUP n e STREAMS K >",
            "XREADGROUP GROUP g c STREAMS K 0",
            "XCLAIM K g d 0 1-1 2-1 LASTID 9-9",
            "XCLAIM K n d 0 1-1 2-1 LASTID 18446744073709551615-18446744073709551615",
            "XAUTOCLAIM K g e 0 0 COUNT 2",
            "XACK K g 1-1",
            "XTRIM K MAXLEN ~ 1",
            "XDEL K 2-1",
            "XGROUP CREATE K1 n 0",
            "XADD K1 * f v",
            "XREADGROUP GROUP n c STREAMS K1 >",
            "XADD K1 18446744073709551615-18446744073709551615 f v",
            "XREADGROUP GROUP n d STREAMS K1 >",
            "XGROUP SETID K1 n 0 ENTRIESREAD 9223372036854775807",
            "XREADGROUP GROUP n d STREAMS K1 >",
        ],
    },
    Kind {
        fill: &["PFADD K a b c", "SET K1 text"],
        commands: &[
            "PFADD K {i} {f}",
            "PFADD K2",
            "PFADD K1 a",
            "PFMERGE K2 K K2",
            "PFCOUNT K",
            "PFDEBUG TODENSE K",
            "SETRANGE K {o} {i}",
            "SETBIT K {o} 1",
            "APPEND K {i}",
        ],
        afterwards: &[
            "PFADD K d",
            "PFCOUNT K",
            "PFMERGE K2 K",
            "PFCOUNT K2 K",
            "SETRANGE K2 16 zzz",
            "PFADD K2 e f",
            "PFCOUNT K2",
        ],
    },
];

/// Commands over all keys: they come last.
const LAST: [&str; 8] =
    ["SWAPDB 0 {i}", "SWAPDB {i} 1", "FLUSHDB", "SET s 1", "SWAPDB 0 1", "SET s 2", "FLUSHALL", "SET s 3"];

/// A stream with a group whose count of entries read exceeds what XGROUP accepts, with one whose count is unknown, and
/// with as many entries added as possible.
fn stream_payloads() -> Vec<Vec<u8>> {
    static CRC64: Crc<u64> = Crc::<u64>::new(&CRC_64_REDIS);
    let long = |number: u64| [&[0x81][..], &number.to_be_bytes()].concat();
    let numbers = [0, 1, i64::MAX as u64, 1 << 63, u64::MAX - 1, u64::MAX];
    let pairs = numbers.iter().flat_map(|added| numbers.iter().map(move |read| (*added, *read)));
    let payload = |(added, read): (u64, u64)| {
        // No block; length 0, last ID 7-0, first ID 0-0, greatest deleted ID 0-0.
        let mut payload = vec![19, 0, 0, 7, 0, 0, 0, 0, 0];
        payload.extend(long(added));
        // One group with the name `n`, at 5-0, with nothing pending and no consumer.
        payload.extend([1, 1, b'n', 5, 0]);
        payload.extend(long(read));
        payload.extend([0, 0, 10, 0]);
        let crc = CRC64.checksum(&payload);
        payload.extend(crc.to_le_bytes());
        payload
    };
    pairs.map(payload).collect()
}

/// The values of a word with a slot; none for a word without one.
fn values_of(word: &str, payloads: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let texts: &[&str] = match () {
        () if word.contains("{i}") => &INTEGERS,
        () if word.contains("{t}") => &TIMES,
        () if word.contains("{o}") => &OFFSETS,
        () if word.contains("{f}") => &FLOATS,
        () if word.contains("{d}") => &IDS,
        () if word == "{p}" => return payloads.to_vec(),
        () => return Vec::new(),
    };
    let slot = ["{i}", "{t}", "{o}", "{f}", "{d}"].into_iter().find(|slot| word.contains(slot)).expect("it has one");
    texts.iter().map(|text| word.replace(slot, text).into_bytes()).collect()
}

type Request = Vec<Vec<u8>>;

/// A command with each of its slots at every limit, once with the others at their first values, and once with all of
/// them alike.
fn requests_of(command: &str, payloads: &[Vec<u8>]) -> Vec<Request> {
    const FIRST: usize = 5;
    let words: Vec<&str> = command.split(' ').collect();
    let values: Vec<Vec<Vec<u8>>> = words.iter().map(|word| values_of(word, payloads)).collect();
    let most = values.iter().map(Vec::len).max().unwrap_or(0);
    let fill = |place_of: &dyn Fn(usize) -> usize| -> Request {
        let word = |(index, word): (usize, &&str)| match &values[index][..] {
            [] => word.as_bytes().to_vec(),
            values => values[place_of(index) % values.len()].clone(),
        };
        words.iter().enumerate().map(word).collect()
    };
    let slots = (0..words.len()).filter(|&index| !values[index].is_empty());
    let single = slots.flat_map(|slot| (0..values[slot].len()).map(move |place| (slot, place)));
    let single = single.map(|(slot, place)| fill(&|index| if index == slot { place } else { FIRST }));
    single.chain((0..most.max(1)).map(|place| fill(&|_| place))).collect()
}

/// A request with the names of its keys filled in.
fn with_keys(request: &Request, key: &str) -> Request {
    let name = |word: &Vec<u8>| match word.as_slice() {
        [b'K', digit @ ..] if digit.len() < 2 => [key.as_bytes(), digit].concat(),
        _ => word.clone(),
    };
    request.iter().map(name).collect()
}

fn plain(line: &str) -> Request {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// What is run on one of the setups, kind by kind. In the short form each limit is tested on one of them; in the long
/// form all on all.
fn families(payload: &[u8], setup: usize) -> Vec<Vec<Request>> {
    let share = effort("EDGES_SHARE", 1);
    let is_for_setup = |number: usize| (number + setup) % EVERY_ENGINE.len() < share;
    let mut families = Vec::new();
    for (number, Kind { fill, commands, afterwards }) in KINDS.iter().enumerate() {
        let is_of_streams = commands[0].starts_with("XADD");
        let payloads = if is_of_streams { stream_payloads() } else { vec![payload.to_vec(), b"none".to_vec()] };
        let mut family = Vec::new();
        for (place, command) in commands.iter().enumerate() {
            let requests = requests_of(command, &payloads).into_iter().enumerate();
            for (variant, request) in requests.filter(|(variant, _)| is_for_setup(place + variant)) {
                let key = format!("{number}:{place}:{variant}:");
                let lines = |lines: &[&str]| lines.iter().map(|line| with_keys(&plain(line), &key)).collect::<Vec<_>>();
                family.extend(lines(fill));
                family.push(with_keys(&request, &key));
                family.extend(lines(afterwards));
            }
        }
        families.push(family);
    }
    families
}

/// Digests of all databases, the deadlines, and the state of each stream except when consumers sent requests in vain,
/// which is not logged.
fn state(client: &mut Client) -> Vec<String> {
    let mut state = vec![client.value(&words("DEBUG DIGEST")).text()];
    for database in 0..16 {
        client.expect(&format!("SELECT {database}"), "+OK\r\n");
        let mut keys = client.value(&["KEYS", "*"]).byte_strings();
        keys.sort();
        let ask = |command: &[&str], keys: &[Vec<u8>], client: &mut Client| {
            let request = |key: &Vec<u8>| {
                let words = command.iter().map(|word| word.as_bytes().to_vec());
                words.map(|word| if word == b"KEY" { key.clone() } else { word }).collect::<Request>()
            };
            client.pipeline(&keys.iter().map(request).collect::<Vec<_>>())
        };
        let types = ask(&["TYPE", "KEY"], &keys, client);
        let deadlines = ask(&["PEXPIRETIME", "KEY"], &keys, client);
        let streams: Vec<Vec<u8>> =
            keys.iter().zip(&types).filter(|(_, kind)| kind.text() == "stream").map(|(key, _)| key.clone()).collect();
        let known = ask(&["XINFO", "STREAM", "KEY", "FULL", "COUNT", "0"], &streams, client);
        let named = |(key, value): (&Vec<u8>, String)| format!("{database} {} {value}", key.escape_ascii());
        state.extend(keys.iter().zip(deadlines.iter().map(|at| format!("{at:?}"))).map(named));
        state.extend(streams.iter().zip(known.iter().map(without_seen_times)).map(named));
    }
    client.expect("SELECT 0", "+OK\r\n");
    state
}

fn without_seen_times(value: &Value) -> String {
    let Value::Array(elements) = value else { return format!("{value:?}") };
    let mut shown = Vec::new();
    let mut elements = elements.iter();
    while let Some(element) = elements.next() {
        let is_seen_time = *element == Value::Bulk(b"seen-time".to_vec());
        shown.push(without_seen_times(element));
        if is_seen_time {
            elements.next();
        }
    }
    format!("[{}]", shown.join(", "))
}

#[track_caller]
fn assert_same(found: &[String], wanted: &[String], what: &str) {
    let differences: Vec<(&String, &String)> =
        wanted.iter().zip(found).filter(|(wanted, found)| wanted != found).take(5).collect();
    assert!(found == wanted, "{what}: {} and {} lines, {differences:#?}", wanted.len(), found.len());
}

fn restart(data: &Data, setup: Setup, flags: &[&str]) -> Server {
    data.start(setup, &[&DEBUG[..], flags].concat())
}

/// Every directive with which another configuration could lead to a different log.
const OTHER_CONFIGURATION: [&str; 22] = [
    "--proto-max-bulk-len",
    "1mb",
    "--hll-sparse-max-bytes",
    "0",
    "--list-max-listpack-size",
    "1",
    "--set-max-intset-entries",
    "0",
    "--set-max-listpack-entries",
    "0",
    "--hash-max-listpack-entries",
    "0",
    "--zset-max-listpack-entries",
    "0",
    "--stream-node-max-entries",
    "1",
    "--stream-node-max-bytes",
    "1",
    "--maxmemory",
    "1",
    "--client-query-buffer-limit",
    "1mb",
];

#[test]
fn every_write_command_at_its_edges_can_be_replayed() {
    for (index, setup) in EVERY_ENGINE.into_iter().enumerate() {
        println!("on {setup:?}");
        let server = Server::start(setup, &DEBUG);
        let mut client = server.client();
        client.expect("SET source text", "+OK\r\n");
        let payload = client.value(&["DUMP", "source"]).bytes().to_vec();
        families(&payload, index).iter().for_each(|family| drop(client.pipeline(family)));
        let wanted = state(&mut client);
        client.expect("DEBUG LOADAOF", "+OK\r\n");
        assert_same(&state(&mut client), &wanted, "LOADAOF");
        let server = restart(&server.kill(), setup, &[]);
        assert_same(&state(&mut server.client()), &wanted, "restarted");
        server.client().expect("BGREWRITEAOF", "+Background append only file rewriting started\r\n");
        wait_until("it is rewritten", || server.info_number("aof_rewrite_in_progress") == 0);
        assert_eq!(server.info()["aof_last_bgrewrite_status"], "ok", "{}", server.log());
        let server = restart(&server.kill(), setup, &OTHER_CONFIGURATION);
        assert_same(&state(&mut server.client()), &wanted, "restarted with another configuration");
        let (status, data, log) = server.stop();
        assert!(status.success(), "{log}");
        let server = restart(&data, setup, &[]);
        let mut client = server.client();
        for command in LAST {
            client.pipeline(&requests_of(command, &[]));
        }
        let wanted = state(&mut client);
        let server = restart(&server.kill(), setup, &[]);
        assert_same(&state(&mut server.client()), &wanted, "restarted after commands over all keys");
    }
}

/// A write command without a line would be one whose effects no test has replayed.
#[test]
fn the_edges_have_every_write_command_of_the_table() {
    let lines = KINDS.iter().flat_map(|kind| kind.commands).copied().chain(LAST);
    let lines: Vec<String> = lines.map(str::to_lowercase).collect();
    let server = Server::start(EVERY_ENGINE[0], &[]);
    let rows = server.client().value(&["COMMAND"]);
    let mut missing = Vec::new();
    let mut look = |row: &Value| {
        let (name, flags) = (row.elements()[0].text(), &row.elements()[2]);
        let is_write = flags.elements().iter().any(|flag| flag.text() == "write");
        let line = name.replace('|', " ");
        // Libraries are in a file of their own: tests/wire/functions.rs tests kills, rewrites and damages.
        // MIGRATE needs another server: tests/wire/migration.rs tests a restart.
        let is_logged = is_write && !name.starts_with("function|") && name != "migrate";
        if is_logged && !lines.iter().any(|other| *other == line || other.starts_with(&format!("{line} "))) {
            missing.push(name);
        }
    };
    for row in rows.elements() {
        look(row);
        row.elements()[9].elements().iter().for_each(&mut look);
    }
    assert!(missing.is_empty(), "add them to the edges: {missing:?}");
}

/// Restarts, and compares: the digests after DEBUG LOADAOF, after a kill and after a stop.
fn assert_replays(server: Server, flags: &[&str]) {
    let setup = server.setup();
    let mut client = server.client();
    let wanted = state(&mut client);
    client.expect("DEBUG LOADAOF", "+OK\r\n");
    assert_same(&state(&mut client), &wanted, "LOADAOF");
    let server = restart(&server.kill(), setup, flags);
    assert_same(&state(&mut server.client()), &wanted, "killed");
    let (status, data, log) = server.stop();
    assert!(status.success(), "{log}");
    let server = restart(&data, setup, flags);
    assert_same(&state(&mut server.client()), &wanted, "stopped");
}

#[test]
fn a_group_that_has_read_more_than_can_be_counted_knows_no_count_and_is_replayed() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let server = Server::start(setup, &DEBUG);
        let mut client = server.client();
        client.expect("XADD s 1-1 f v", "$3\r\n1-1\r\n");
        client.expect("XADD s 2-1 f v", "$3\r\n2-1\r\n");
        client.expect("XGROUP CREATE s g 0 ENTRIESREAD 9223372036854775807", "+OK\r\n");
        let read = |client: &mut Client| {
            let groups = client.value(&["XINFO", "GROUPS", "s"]);
            let group = &groups.elements()[0];
            let fields = group.elements();
            let at = fields.iter().position(|field| *field == Value::Bulk(b"entries-read".to_vec())).unwrap();
            fields[at + 1].clone()
        };
        assert_eq!(read(&mut client), Value::Integer(i64::MAX));
        client.call(&words("XREADGROUP GROUP g c COUNT 1 STREAMS s >"));
        assert_eq!(read(&mut client), Value::NullBulk);
        // It is known again if the stream determines it.
        client.call(&words("XREADGROUP GROUP g c COUNT 1 STREAMS s >"));
        assert_eq!(read(&mut client), Value::Integer(2));
        assert_replays(server, &[]);
    }
}

/// Strings longer than the later `proto-max-bulk-len`, made by every command that checks it.
#[test]
fn no_limit_of_clients_applies_to_replay() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let server = Server::start(setup, &DEBUG);
        let mut client = server.client();
        client.expect("SETRANGE range 3000000 x", ":3000001\r\n");
        client.expect("SETRANGE range 2000000 y", ":3000001\r\n");
        client.expect("APPEND range more", ":3000005\r\n");
        client.expect("SETBIT bits 16000000 1", ":0\r\n");
        client.expect("BITFIELD field SET u8 #1500000 7", "*1\r\n:0\r\n");
        client.expect("CONFIG SET proto-max-bulk-len 1mb", "+OK\r\n");
        let refused = client.value(&["APPEND", "range", "more"]);
        assert!(matches!(&refused, Value::Error(text) if text.starts_with(b"ERR string exceeds")), "{refused:?}");
        assert_replays(server, &["--proto-max-bulk-len", "1mb"]);
    }
}

/// What is done to the bytes of a dense one may damage a sparse one.
#[test]
fn a_hyperloglog_is_dense_after_a_restart_as_it_was_before() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let server = Server::start(setup, &DEBUG);
        let mut client = server.client();
        client.expect("PFADD sparse a b c", ":1\r\n");
        client.expect("CONFIG SET hll-sparse-max-bytes 0", "+OK\r\n");
        for line in ["PFADD dense a b c", "PFADD sparse d", "PFMERGE merged dense sparse", "PFMERGE empty"] {
            client.call(&words(line));
        }
        for key in ["dense", "sparse", "merged"] {
            client.expect(&format!("PFDEBUG ENCODING {key}"), "+dense\r\n");
            // Registers of zeros there; opcodes that leave out most registers here.
            client.expect(&format!(r#"SETRANGE {key} 16 "{}""#, r"\x00".repeat(100)), ":12304\r\n");
            client.expect(&format!("PFADD {key} e f g h i j k l"), ":1\r\n");
        }
        assert_replays(server, &["--hll-sparse-max-bytes", "3000"]);
    }
}
