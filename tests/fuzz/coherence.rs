//! Whether the replies of commands about a key are coherent: a length and as many elements, each once, in order, found
//! again by a walk, and the same in a copy.

use super::{Request, request};
use harness::Value;
use std::collections::BTreeSet;

/// The kinds of keys, as TYPE calls them, with the families of commands that change them.
pub const TYPES: [(&str, &str); 6] = [
    ("string", "strings"),
    ("list", "lists"),
    ("set", "sets"),
    ("hash", "hashes"),
    ("zset", "sorted sets"),
    ("stream", "streams"),
];

/// The name of a value's type, by its number in a payload.
pub fn type_of(kind: u8) -> &'static str {
    match kind {
        0 => "string",
        1 | 10 | 14 | 18 => "list",
        2 | 11 | 20 => "set",
        4 | 9 | 13 | 16 => "hash",
        3 | 5 | 12 | 17 => "zset",
        15 | 19 | 21 => "stream",
        _ => "none",
    }
}

/// The number of questions for keys of any type, which follow those for its own type.
const FOR_ALL: usize = 7;
/// More elements than any key has.
const ALL: &[u8] = b"1000000000";

/// The requests about a key.
pub fn questions(kind: &str, key: &[u8]) -> Vec<Request> {
    let copy = [b"copy of ", key].concat();
    let own: &[&[&[u8]]] = match kind {
        "string" => &[&[b"STRLEN", key], &[b"GET", key]],
        "list" => &[&[b"LLEN", key], &[b"LRANGE", key, b"0", b"-1"], &[b"LINDEX", key, b"-1"]],
        "set" => &[&[b"SCARD", key], &[b"SMEMBERS", key], &[b"SSCAN", key, b"0", b"COUNT", ALL]],
        "hash" => &[&[b"HLEN", key], &[b"HGETALL", key], &[b"HSCAN", key, b"0", b"COUNT", ALL]],
        "zset" => &[
            &[b"ZCARD", key],
            &[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"],
            &[b"ZSCAN", key, b"0", b"COUNT", ALL],
            &[b"ZCOUNT", key, b"-inf", b"+inf"],
        ],
        "stream" => &[
            &[b"XLEN", key],
            &[b"XRANGE", key, b"-", b"+"],
            &[b"XREVRANGE", key, b"+", b"-"],
            &[b"XINFO", b"STREAM", key],
            &[b"XINFO", b"STREAM", key, b"FULL", b"COUNT", b"0"],
            &[b"XINFO", b"GROUPS", key],
        ],
        _ => panic!("nothing reads the type {kind}"),
    };
    let for_all: [&[&[u8]]; FOR_ALL] = [
        &[b"TYPE", key],
        &[b"OBJECT", b"ENCODING", key],
        &[b"DEBUG", b"OBJECT", key],
        &[b"MEMORY", b"USAGE", key, b"SAMPLES", b"0"],
        &[b"DUMP", key],
        &[b"COPY", key, &copy, b"REPLACE"],
        &[b"DEBUG", b"DIGEST-VALUE", key, &copy],
    ];
    own.iter().copied().chain(for_all).map(request).collect()
}

/// Judges the replies to [`questions`].
pub fn judge(kind: &str, replies: &[Value]) -> Result<(), String> {
    let (own, for_all) = replies.split_at(replies.len() - FOR_ALL);
    if let Some(error) = replies.iter().find(|reply| matches!(reply, Value::Error(_))) {
        return Err(format!("a reply is {error:?}"));
    }
    let [is_of_type, .., digests] = for_all else { panic!("as many replies as questions") };
    ensure("TYPE", is_of_type.text() == kind)?;
    ensure("the payload", !for_all[4].bytes().is_empty())?;
    ensure("the copy", digests.elements()[0] == digests.elements()[1])?;
    let count = |value: &Value| value.integer() as usize;
    let (len, elements) = (count(&own[0]), &own[1]);
    match kind {
        "string" => ensure("STRLEN", len == elements.bytes().len()),
        "list" => {
            let elements = elements.elements();
            ensure("LLEN", len == elements.len() && len > 0)?;
            ensure("LINDEX", elements.last() == Some(&own[2]))
        }
        "set" | "hash" | "zset" => {
            let each = if kind == "set" { 1 } else { 2 };
            let strings = elements.byte_strings();
            ensure("the length", len > 0 && strings.len() == each * len)?;
            let names: BTreeSet<&Vec<u8>> = strings.iter().step_by(each).collect();
            ensure("the members, each once", names.len() == len)?;
            let walked = own[2].elements()[1].byte_strings();
            ensure("the walk", parts(kind, &walked)? == parts(kind, &strings)?)?;
            if kind == "zset" { are_ordered(&strings, len, &own[3]) } else { Ok(()) }
        }
        _ => is_stream(len, own),
    }
}

/// Members, or pairs, in an order that does not depend on the command. Scores are written in two ways.
fn parts(kind: &str, strings: &[Vec<u8>]) -> Result<Vec<Vec<Vec<u8>>>, String> {
    let mut parts: Vec<Vec<Vec<u8>>> = strings.chunks(if kind == "set" { 1 } else { 2 }).map(<[_]>::to_vec).collect();
    if kind == "zset" {
        for pair in &mut parts {
            pair[1] = score(&pair[1])?.to_string().into_bytes();
        }
    }
    parts.sort();
    Ok(parts)
}

fn score(text: &[u8]) -> Result<f64, String> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
    number.filter(|score| !score.is_nan()).ok_or(format!("{} is no score", text.escape_ascii()))
}

fn are_ordered(strings: &[Vec<u8>], len: usize, counted: &Value) -> Result<(), String> {
    let mut scored: Vec<(f64, &Vec<u8>)> = Vec::new();
    for pair in strings.chunks(2) {
        scored.push((score(&pair[1])?, &pair[0]));
    }
    ensure("the order of the scores", scored.is_sorted())?;
    ensure("ZCOUNT", counted.integer() as usize == len)
}

fn is_stream(len: usize, own: &[Value]) -> Result<(), String> {
    let [_, forward, backward, info, full, groups] = own else { panic!("as many replies as questions") };
    let ids = |entries: &Value| entries.elements().iter().map(|entry| id_of(&entry.elements()[0])).collect::<Vec<_>>();
    let mut reversed = backward.elements().to_vec();
    reversed.reverse();
    ensure("XLEN", len == forward.elements().len())?;
    ensure("XREVRANGE", forward.elements() == reversed)?;
    ensure("the order of the IDs", ids(forward).is_sorted_by(|one, other| one < other))?;
    let field = |name: &str| info.field(name).cloned().ok_or(format!("XINFO has no {name}"));
    ensure("XINFO's length", field("length")?.integer() as usize == len)?;
    ensure(
        "last-generated-id",
        ids(forward).last().is_none_or(|last| *last <= id_of(&field("last-generated-id").unwrap())),
    )?;
    let is_entry = |is: &Value, entry: Option<&Value>| entry.map_or(is.is_null(), |entry| entry == is);
    ensure("first-entry", is_entry(&field("first-entry")?, forward.elements().first()))?;
    ensure("last-entry", is_entry(&field("last-entry")?, forward.elements().last()))?;
    ensure("the entries of XINFO FULL", full.field("entries").is_some_and(|entries| entries == forward))?;
    ensure("XINFO GROUPS", full.field("groups").is_some_and(|full| full.elements().len() == groups.elements().len()))?;
    full.field("groups").ok_or("XINFO FULL has no groups")?.elements().iter().try_for_each(is_group)
}

/// A pending entry is pending for one consumer.
fn is_group(group: &Value) -> Result<(), String> {
    let pending = |of: &Value| of.field("pending").map(|pending| pending.elements().len());
    let consumers = group.field("consumers").ok_or("a group has no consumers")?.elements();
    let of_consumers: Option<usize> = consumers.iter().map(pending).sum();
    ensure("what is pending", of_consumers.is_some() && of_consumers == pending(group))
}

fn id_of(id: &Value) -> (u64, u64) {
    let text = id.text();
    let (ms, seq) = text.split_once('-').expect("an ID has two parts");
    (ms.parse().expect("a number"), seq.parse().expect("a number"))
}

fn ensure(what: &str, holds: bool) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("{what} does not fit")) }
}
