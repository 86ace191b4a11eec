//! The model of `--verify` for workload files: a keyspace that executes the requests, and so knows the reply to each.
//!
//! It reads the requests as they are sent. All keys belong to one connection, so requests take effect
//! in the order in which they are made. What it cannot predict is refused before the run, by name: commands it does not
//! have, keys that connections share, and times to live that may end within a run.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use super::Expected;
use crate::resp::Protocol;

const WRONG_TYPE: &[u8] = b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
const NO_INTEGER: &[u8] = b"-ERR value is not an integer or out of range\r\n";
const NO_HASH_INTEGER: &[u8] = b"-ERR hash value is not an integer\r\n";

type Bytes = Vec<u8>;

/// The contents of the keys of one thread.
#[derive(Debug)]
pub(crate) struct Mirror {
    keys: HashMap<Bytes, Entry>,
    protocol: Protocol,
    expected: Expected,
}

#[derive(Debug)]
struct Entry {
    value: Thing,
    expires: bool,
}

/// Invariant: only a text may be empty.
#[derive(Debug)]
enum Thing {
    Text(Bytes),
    List(VecDeque<Bytes>),
    Hash(BTreeMap<Bytes, Bytes>),
    Set(BTreeSet<Bytes>),
    /// By member. Scores are whole numbers.
    Sorted(BTreeMap<Bytes, i64>),
}

impl Mirror {
    /// No keys.
    pub(crate) fn new(protocol: Protocol) -> Self {
        Self { keys: HashMap::new(), protocol, expected: Expected::default() }
    }

    /// The expected reply to the last request.
    pub(crate) fn expected(&self) -> Expected {
        self.expected
    }

    /// Executes a request that [`unverifiable`](crate::workload::verifiable::unverifiable) permits.
    pub(crate) fn apply(&mut self, request: &[u8]) {
        self.apply_all(request, 1);
    }

    /// Executes this many requests.
    pub(crate) fn apply_all(&mut self, requests: &[u8], count: u64) {
        let mut rest = requests;
        for _ in 0..count {
            let words = arguments(&mut rest);
            self.obey(&words);
        }
    }

    fn obey(&mut self, words: &[&[u8]]) {
        let (name, key, rest) = (words[0].to_ascii_uppercase(), words[1], &words[2..]);
        let name = std::str::from_utf8(&name).expect("known commands are ASCII");
        let reply = self.reply(name, key, rest);
        self.expected = match (name, reply) {
            ("HGETALL", Some(reply)) => Expected::unordered(&reply, 2),
            ("SMEMBERS", Some(reply)) => Expected::unordered(&reply, 1),
            (_, Some(reply)) => Expected::exactly(&reply),
            (_, None) => Expected::exactly(WRONG_TYPE),
        };
    }

    /// The reply, with elements without an order in any; `None` if the key holds another type.
    fn reply(&mut self, name: &str, key: &[u8], rest: &[&[u8]]) -> Option<Bytes> {
        match name {
            "SET" | "SETNX" | "GET" | "GETDEL" | "STRLEN" | "APPEND" | "INCR" | "DECR" | "INCRBY" | "DECRBY" => {
                self.text(name, key, rest)
            }
            "LPUSH" | "RPUSH" | "LPOP" | "RPOP" | "LLEN" | "LRANGE" => self.list(name, key, rest),
            "SADD" | "SREM" | "SISMEMBER" | "SCARD" | "SMEMBERS" => self.set(name, key, rest),
            _ if name.starts_with('H') => self.hash(name, key, rest),
            _ if name.starts_with('Z') => self.sorted(name, key, rest),
            _ => Some(self.any(name, key)),
        }
    }

    fn any(&mut self, name: &str, key: &[u8]) -> Bytes {
        let is_there = self.keys.contains_key(key);
        match name {
            "DEL" | "UNLINK" => {
                self.keys.remove(key);
                integer(is_there)
            }
            "EXISTS" => integer(is_there),
            "EXPIRE" | "PEXPIRE" => {
                self.keys.entry(key.to_vec()).and_modify(|entry| entry.expires = true);
                integer(is_there)
            }
            "PERSIST" => integer(self.keys.get_mut(key).is_some_and(|entry| std::mem::take(&mut entry.expires))),
            "TYPE" => {
                let kind = self.keys.get(key).map_or("none", |entry| match entry.value {
                    Thing::Text(_) => "string",
                    Thing::List(_) => "list",
                    Thing::Hash(_) => "hash",
                    Thing::Set(_) => "set",
                    Thing::Sorted(_) => "zset",
                });
                format!("+{kind}\r\n").into_bytes()
            }
            _ => unreachable!("{name} is none of those that the model knows"),
        }
    }

    fn text(&mut self, name: &str, key: &[u8], rest: &[&[u8]]) -> Option<Bytes> {
        if name == "SET" {
            let entry = Entry { value: Thing::Text(rest[0].to_vec()), expires: rest.len() > 1 };
            self.keys.insert(key.to_vec(), entry);
            return Some(b"+OK\r\n".to_vec());
        }
        if name == "SETNX" && self.keys.contains_key(key) {
            return Some(integer(0));
        }
        let found = match self.keys.get(key).map(|entry| &entry.value) {
            None => None,
            Some(Thing::Text(text)) => Some(text.clone()),
            Some(_) => return None,
        };
        let changed = match name {
            "GET" => return Some(self.bulk(found.as_deref())),
            "GETDEL" => {
                self.keys.remove(key);
                return Some(self.bulk(found.as_deref()));
            }
            "STRLEN" => return Some(integer(found.map_or(0, |text| text.len()))),
            "SETNX" => (rest[0].to_vec(), integer(1)),
            "APPEND" => {
                let text = [&found.unwrap_or_default(), rest[0]].concat();
                let length = integer(text.len());
                (text, length)
            }
            _ => {
                let by = rest.first().map_or(1, |by| number(by).expect("the form was checked"));
                let by = if name.starts_with("DECR") { -by } else { by };
                let sum = found.map_or(Some(0), |text| number(&text)).and_then(|value| value.checked_add(by));
                let Some(sum) = sum else { return Some(NO_INTEGER.to_vec()) };
                (sum.to_string().into_bytes(), integer(sum))
            }
        };
        let (text, reply) = changed;
        let expires = self.keys.get(key).is_some_and(|entry| entry.expires);
        self.keys.insert(key.to_vec(), Entry { value: Thing::Text(text), expires });
        Some(reply)
    }

    fn list(&mut self, name: &str, key: &[u8], rest: &[&[u8]]) -> Option<Bytes> {
        let Thing::List(list) = self.thing(key, || Thing::List(VecDeque::new())) else { return None };
        let mut popped = None;
        let reply = match name {
            "LPUSH" => {
                rest.iter().for_each(|value| list.push_front(value.to_vec()));
                Some(integer(list.len()))
            }
            "RPUSH" => {
                rest.iter().for_each(|value| list.push_back(value.to_vec()));
                Some(integer(list.len()))
            }
            "LLEN" => Some(integer(list.len())),
            "LRANGE" => {
                Some(array(list.iter().skip(range(rest, list.len()).start).take(range(rest, list.len()).len())))
            }
            _ => {
                popped = if name == "LPOP" { list.pop_front() } else { list.pop_back() };
                None
            }
        };
        self.forget_empty(key);
        Some(reply.unwrap_or_else(|| self.bulk(popped.as_deref())))
    }

    fn hash(&mut self, name: &str, key: &[u8], rest: &[&[u8]]) -> Option<Bytes> {
        let is_resp3 = self.protocol == Protocol::Resp3;
        let null = self.bulk(None);
        let Thing::Hash(hash) = self.thing(key, || Thing::Hash(BTreeMap::new())) else { return None };
        let value = |field: &[u8]| hash.get(field).map_or(null.clone(), |value| bulk(value));
        let reply = match name {
            "HGET" => value(rest[0]),
            "HMGET" => {
                let values: Vec<Bytes> = rest.iter().map(|field| value(field)).collect();
                [format!("*{}\r\n", values.len()).into_bytes(), values.concat()].concat()
            }
            "HGETALL" => {
                let head = if is_resp3 { format!("%{}\r\n", hash.len()) } else { format!("*{}\r\n", 2 * hash.len()) };
                let pairs: Vec<Bytes> = hash.iter().map(|(field, value)| [bulk(field), bulk(value)].concat()).collect();
                [head.into_bytes(), pairs.concat()].concat()
            }
            "HEXISTS" => integer(hash.contains_key(rest[0])),
            "HLEN" => integer(hash.len()),
            "HSET" => {
                let pairs = rest.chunks(2).map(|pair| hash.insert(pair[0].to_vec(), pair[1].to_vec()));
                integer(pairs.filter(Option::is_none).count())
            }
            "HDEL" => integer(rest.iter().filter(|field| hash.remove(**field).is_some()).count()),
            _ => {
                let by = number(rest[1]).expect("the form was checked");
                match hash.get(rest[0]).map_or(Some(0), |value| number(value)).and_then(|value| value.checked_add(by)) {
                    None => NO_HASH_INTEGER.to_vec(),
                    Some(sum) => {
                        hash.insert(rest[0].to_vec(), sum.to_string().into_bytes());
                        integer(sum)
                    }
                }
            }
        };
        self.forget_empty(key);
        Some(reply)
    }

    fn set(&mut self, name: &str, key: &[u8], rest: &[&[u8]]) -> Option<Bytes> {
        let is_resp3 = self.protocol == Protocol::Resp3;
        let Thing::Set(set) = self.thing(key, || Thing::Set(BTreeSet::new())) else { return None };
        let reply = match name {
            "SADD" => integer(rest.iter().filter(|member| set.insert(member.to_vec())).count()),
            "SREM" => integer(rest.iter().filter(|member| set.remove(**member)).count()),
            "SISMEMBER" => integer(set.contains(rest[0])),
            "SCARD" => integer(set.len()),
            _ => {
                let mut members = array(set.iter());
                members[0] = if is_resp3 { b'~' } else { b'*' };
                members
            }
        };
        self.forget_empty(key);
        Some(reply)
    }

    fn sorted(&mut self, name: &str, key: &[u8], rest: &[&[u8]]) -> Option<Bytes> {
        let (is_resp3, null) = (self.protocol == Protocol::Resp3, self.bulk(None));
        let score = |score: i64| {
            if is_resp3 { format!(",{score}\r\n").into_bytes() } else { bulk(score.to_string().as_bytes()) }
        };
        let Thing::Sorted(sorted) = self.thing(key, || Thing::Sorted(BTreeMap::new())) else { return None };
        let reply = match name {
            "ZADD" => {
                let wanted = number(rest[0]).expect("the form was checked");
                integer(sorted.insert(rest[1].to_vec(), wanted).is_none())
            }
            "ZINCRBY" => {
                let sum = sorted.entry(rest[1].to_vec()).or_default();
                *sum += number(rest[0]).expect("the form was checked");
                score(*sum)
            }
            "ZSCORE" => sorted.get(rest[0]).map_or(null, |found| score(*found)),
            "ZREM" => integer(rest.iter().filter(|member| sorted.remove(**member).is_some()).count()),
            "ZCARD" => integer(sorted.len()),
            _ => {
                let mut members: Vec<(&i64, &Bytes)> = sorted.iter().map(|(member, score)| (score, member)).collect();
                members.sort_unstable();
                array(members[range(rest, members.len())].iter().map(|(_, member)| *member))
            }
        };
        self.forget_empty(key);
        Some(reply)
    }

    /// The value of the key, or an empty one, which must be passed to [`Self::forget_empty`].
    fn thing(&mut self, key: &[u8], empty: impl FnOnce() -> Thing) -> &mut Thing {
        let entry = self.keys.entry(key.to_vec());
        &mut entry.or_insert_with(|| Entry { value: empty(), expires: false }).value
    }

    fn forget_empty(&mut self, key: &[u8]) {
        let is_empty = self.keys.get(key).is_some_and(|entry| match &entry.value {
            Thing::Text(_) => false,
            Thing::List(list) => list.is_empty(),
            Thing::Hash(hash) => hash.is_empty(),
            Thing::Set(set) => set.is_empty(),
            Thing::Sorted(sorted) => sorted.is_empty(),
        });
        if is_empty {
            self.keys.remove(key);
        }
    }

    fn bulk(&self, text: Option<&[u8]>) -> Bytes {
        match (text, self.protocol) {
            (Some(text), _) => bulk(text),
            (None, Protocol::Resp2) => b"$-1\r\n".to_vec(),
            (None, Protocol::Resp3) => b"_\r\n".to_vec(),
        }
    }
}

/// Removes a request, which the generator itself has encoded, and returns its arguments.
fn arguments<'a>(rest: &mut &'a [u8]) -> Vec<&'a [u8]> {
    let count = line(rest);
    let argument = |_| {
        let length = line(rest);
        let (argument, after) = rest.split_at(length);
        *rest = &after[2..];
        argument
    };
    (0..count).map(argument).collect()
}

/// Removes a line, and returns its number.
fn line(rest: &mut &[u8]) -> usize {
    let end = rest.iter().position(|byte| *byte == b'\r').expect("requests are well formed");
    let found = number(&rest[1..end]).expect("requests are well formed");
    *rest = &rest[end + 2..];
    usize::try_from(found).expect("requests have no negative lengths")
}

/// A number as Redis accepts it: no sign except a minus, no leading zeros.
fn number(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    text.parse().ok().filter(|number: &i64| number.to_string() == text)
}

fn integer(number: impl TryInto<i64>) -> Bytes {
    let number: i64 = number.try_into().ok().expect("counts are below 2^63");
    format!(":{number}\r\n").into_bytes()
}

fn bulk(text: &[u8]) -> Bytes {
    [format!("${}\r\n", text.len()).as_bytes(), text, b"\r\n"].concat()
}

fn array<'a>(elements: impl Iterator<Item = &'a Bytes>) -> Bytes {
    let elements: Vec<Bytes> = elements.map(|element| bulk(element)).collect();
    [format!("*{}\r\n", elements.len()).into_bytes(), elements.concat()].concat()
}

/// The places between two, which may count back from the end.
fn range(bounds: &[&[u8]], length: usize) -> std::ops::Range<usize> {
    let place = |at: usize| {
        let place = number(bounds[at]).expect("the form was checked");
        if place < 0 { place + length as i64 } else { place }
    };
    let (first, last) = (place(0).max(0), place(1).min(length as i64 - 1));
    if first > last { 0..0 } else { first as usize..last as usize + 1 }
}
