//! What commands do with their keys, in the words of key specifications: COMMAND INFO and COMMAND GETKEYSANDFLAGS.
//!
//! `RO` only reads a value, `RW` changes it, `OW` overwrites it, `RM` removes it. Of what the value holds, and not only
//! of its type, length or being there, `access` tells that it is shown or copied, `update`, `insert` and `delete` what
//! becomes of it.

use super::row::{Command, Flags};
use crate::resp::Args;

/// What a command does with its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// With the first of them.
    pub first: Words,
    /// With the others.
    pub rest: Words,
}

/// The words for one key.
pub type Words = &'static [&'static str];

const LOOK: Words = &["RO"];
const READ: Words = &["RO", "access"];
const COUNT: Words = &["RW", "access"];
const UPDATE: Words = &["RW", "update"];
const INSERT: Words = &["RW", "insert"];
const DELETE: Words = &["RW", "delete"];
const READ_UPDATE: Words = &["RW", "access", "update"];
const READ_INSERT: Words = &["RW", "access", "insert"];
const TAKE: Words = &["RW", "access", "delete"];
const OVERWRITE: Words = &["OW", "update"];
const CREATE: Words = &["OW", "insert"];
const REMOVE: Words = &["RM", "delete"];
const NO_KEY: Words = &["not_key"];

/// What a command does with its keys; of one where its arguments decide, the most that it may do. O(1)
pub fn of(row: &Command) -> Access {
    let same = |words| Access { first: words, rest: words };
    match row.name {
        _ if row.flags.has(Flags::NOT_KEYS) => same(NO_KEY),
        "exists" | "hexists" | "hlen" | "hstrlen" | "llen" | "memory|usage" | "object|encoding" | "object|freq"
        | "object|idletime" | "object|refcount" | "scard" | "sismember" | "strlen" | "touch" | "type" | "watch"
        | "xlen" | "zcard" => same(LOOK),
        "pfcount" | "pfdebug" => same(COUNT),
        "append"
        | "hsetnx"
        | "linsert"
        | "lpush"
        | "lpushx"
        | "pfadd"
        | "rpush"
        | "rpushx"
        | "sadd"
        | "xgroup|create"
        | "xgroup|createconsumer" => same(INSERT),
        "hdel" | "lrem" | "ltrim" | "srem" | "xautoclaim" | "xdel" | "xgroup|delconsumer" | "xgroup|destroy"
        | "xtrim" | "zrem" | "zremrangebylex" | "zremrangebyrank" | "zremrangebyscore" => same(DELETE),
        "bitfield" | "decr" | "decrby" | "eval" | "evalsha" | "fcall" | "getex" | "getset" | "hincrby"
        | "hincrbyfloat" | "incr" | "incrby" | "incrbyfloat" | "move" | "set" | "setbit" | "zincrby" => {
            same(READ_UPDATE)
        }
        "blmpop" | "blpop" | "brpop" | "bzmpop" | "bzpopmax" | "bzpopmin" | "getdel" | "lmpop" | "lpop" | "rpop"
        | "spop" | "zmpop" | "zpopmax" | "zpopmin" => same(TAKE),
        "mset" | "psetex" | "restore" | "setex" => same(OVERWRITE),
        "msetnx" | "setnx" => same(CREATE),
        "del" | "unlink" => same(REMOVE),
        "blmove" | "brpoplpush" | "lmove" | "rpoplpush" | "smove" => Access { first: TAKE, rest: INSERT },
        "bitop" | "geosearchstore" | "sdiffstore" | "sunionstore" | "zdiffstore" | "zinterstore" | "zrangestore"
        | "zunionstore" => Access { first: OVERWRITE, rest: READ },
        "copy" | "georadius" | "georadiusbymember" | "sort" => Access { first: READ, rest: OVERWRITE },
        "pfmerge" => Access { first: READ_INSERT, rest: READ },
        "rename" => Access { first: TAKE, rest: OVERWRITE },
        "renamenx" => Access { first: TAKE, rest: CREATE },
        "sinterstore" => Access { first: UPDATE, rest: READ },
        // What XREADGROUP writes is beside the entries.
        "xreadgroup" => same(READ),
        _ if row.is_write() => same(UPDATE),
        _ => same(READ),
    }
}

/// What a request does with its keys. O(N), N = arguments of BITFIELD and SET
pub fn of_request(row: &Command, request: Args<'_>) -> Access {
    let same = |words| Access { first: words, rest: words };
    match row.name {
        "set" if !(3..request.len()).any(|at| request.is(at, "GET")) => same(OVERWRITE),
        "bitfield" if has_reads_only(request) => same(READ),
        _ => of(row),
    }
}

/// Whether a BITFIELD has no operation but GET.
fn has_reads_only(request: Args<'_>) -> bool {
    let mut at = 2;
    while at < request.len() {
        at += match () {
            () if request.is(at, "GET") => 3,
            () if request.is(at, "OVERFLOW") => 2,
            () => return false,
        };
    }
    at == request.len()
}

/// Whether only a request itself tells what becomes of its keys.
pub fn is_variable(row: &Command) -> bool {
    matches!(row.name, "bitfield" | "set")
}
