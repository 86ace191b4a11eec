//! What the small logs hold: every write command of the table.

use crate::commands::COMMANDS;

/// Commands before [`STEPS`](super::STEPS), whose keys they would remove.
const FLUSHES: [&str; 4] = ["SET <0>gone 1; SET <1>gone 2", "FLUSHDB", "SET <1>gone 1", "FLUSHALL"];

/// Commands after them: those that they leave out. Each line is one step.
const OTHERS: [&str; 51] = [
    "SETNX <0>nx 1",
    "SETEX <1>ex 50 v; PSETEX <1>pex 70000 v",
    "MSETNX <0>msn 1 <1>msn 2",
    "GETSET <0>nx 5; INCR <0>nx; DECR <0>nx; DECRBY <0>nx 3",
    "SET <1>gd v",
    "GETDEL <1>gd",
    "EXPIRE <0>nx 100; PEXPIREAT <1>ex 4000000000000",
    "PFADD <1>hll c d e",
    "PFMERGE <0>hll <1>hll",
    "PFADD <0>hll x y z; PFCOUNT <0>hll",
    "PFDEBUG TODENSE <0>hll",
    "RENAMENX <0>nx <1>nx2",
    "RESTORE <0>restored 0 <dump>; RESTORE-ASKING <1>restored 0 <dump>",
    "LPUSH <0>q a b c d e f g h; LPUSHX <0>q z; RPUSHX <0>q y; RPOP <0>q",
    "LMPOP 2 <1>none <0>q LEFT COUNT 2",
    "RPOPLPUSH <0>q <1>q",
    "BLPOP <0>q 0; BRPOP <0>q 0",
    "BLMOVE <0>q <1>q LEFT RIGHT 0",
    "BRPOPLPUSH <1>q <0>q 0",
    "BLMPOP 0 1 <0>q RIGHT",
    "EPOCH",
    "SADD <0>s1 a b c d; SREM <0>s1 d",
    "SADD <1>s2 b c",
    "SINTERSTORE <1>si <0>s1 <1>s2",
    "SDIFFSTORE <0>sd <0>s1 <1>s2",
    "HMSET <0>hm a 1 b 2; HINCRBYFLOAT <0>hm a 0.5; HSETNX <0>hm c 3",
    "ZADD <0>zr 1 a 2 b 3 c 4 d 5 e 6 f 7 g 8 h 9 i 10 j",
    "ZADD <1>zr 0 a 0 b 0 e",
    "ZREMRANGEBYRANK <0>zr 0 0; ZREMRANGEBYSCORE <0>zr 2 2",
    "ZREMRANGEBYLEX <1>zr [a [a",
    "ZPOPMIN <0>zr; ZMPOP 1 <0>zr MAX; BZPOPMIN <0>zr 0; BZPOPMAX <0>zr 0; BZMPOP 0 1 <0>zr MAX",
    "ZUNIONSTORE <1>zu 2 <0>zr <1>zr",
    "ZINTERSTORE <1>zi 2 <1>zu <1>zr",
    "ZDIFFSTORE <0>zd 2 <1>zu <1>zr",
    "GEORADIUS <1>geo 15 37 500 km STORE <0>gr",
    "GEORADIUSBYMEMBER <1>geo Palermo 500 km STORE <1>gm",
    "GEOSEARCHSTORE <0>gs <1>geo FROMLONLAT 15 37 BYRADIUS 500 km",
    "XADD <1>st 1-1 f v; XADD <1>st 2-1 f v; XADD <1>st 3-1 f v; XADD <1>st 4-1 f v",
    "XGROUP CREATE <1>st g 0; XGROUP CREATE <1>st h 0; XGROUP CREATECONSUMER <1>st g bob",
    "XREADGROUP GROUP g alice COUNT 3 STREAMS <1>st >",
    "XACK <1>st g 1-1",
    "XCLAIM <1>st g bob 0 2-1",
    "XAUTOCLAIM <1>st g carol 0 0 COUNT 1",
    "XDEL <1>st 4-1; XSETID <1>st 9-9",
    "XGROUP SETID <1>st g 1-1; XGROUP DELCONSUMER <1>st g bob",
    "XGROUP DESTROY <1>st h",
    "UNLINK <0>hm <1>q",
    "EVAL redis.call('set',KEYS[1],1)redis.call('rpush',KEYS[2],2) 2 <0>ev <1>ev",
    "EVALSHA 008b8c948904240564c7a7555b6c34710a43a621 2 <1>ev2 <0>ev2",
    "SWAPDB 0 3",
    "SET <0>last 1; SET <1>last 2",
];

/// Write commands that are not logged under their own names: a function logs what it calls, as a script does, libraries
/// are in a file of their own, which tests/wire/functions.rs removes and damages, and MIGRATE, which needs another
/// server, removes keys as DEL does.
const ELSEWHERE: [&str; 6] =
    ["fcall", "function|delete", "function|flush", "function|load", "function|restore", "migrate"];

/// Steps with every write command of the table.
pub fn every_write_command() -> Vec<&'static str> {
    FLUSHES.into_iter().chain(super::STEPS).chain(OTHERS).collect()
}

/// A write command without a step would be one whose log no test has cut or damaged.
#[test]
fn the_steps_have_every_write_command_of_the_table() {
    let steps = every_write_command();
    let commands: Vec<String> = steps.iter().flat_map(|step| step.split("; ")).map(str::to_lowercase).collect();
    let is_there = |name: &str| {
        let words = name.replace('|', " ");
        commands
            .iter()
            .any(|command| command.strip_prefix(&words).is_some_and(|rest| rest.is_empty() || rest.starts_with(' ')))
    };
    let rows = COMMANDS.iter().filter(|row| row.is_write());
    let names = rows.map(|row| row.name).filter(|name| !ELSEWHERE.contains(name));
    let missing: Vec<&str> = names.filter(|name| !is_there(name)).collect();
    assert!(missing.is_empty(), "add them to the steps: {missing:?}");
}
