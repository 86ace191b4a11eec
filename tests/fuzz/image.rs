//! All data of a server, as commands show it: two images must agree.

use super::Request;
use harness::{Client, Value};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The digest of DEBUG, and more: the digest does not include deadlines, nor the groups of streams.
#[derive(Debug, Clone)]
pub struct Image {
    /// Not if a score is a zero with a sign.
    digest: Option<Value>,
    keys: BTreeMap<(usize, Vec<u8>), About>,
}

/// What is known of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
struct About {
    kind: Value,
    deadline: Value,
    /// DEBUG's digest; for a sorted set its members and scores.
    content: Value,
    /// For a stream: its IDs, its groups, and the pending entries.
    stream: Option<Value>,
}

/// When a consumer last received something: a file in the version of Redis 7.0 does not have it.
const NOT_IN_A_SNAPSHOT: &str = "active-time";
/// A large sorted set keeps the sign of a zero, and a small one does not, as in Redis. A restart may change which one a
/// key is.
const SIGNED_ZERO: &[u8] = b"-0";
/// Not worth a write to the log: requests of a consumer that returned nothing, and the division of entries into blocks.
const NOT_IN_THE_LOG: [&str; 3] = ["seen-time", "radix-tree-keys", "radix-tree-nodes"];

impl Image {
    /// The current data. The connection is in no transaction, and uses RESP2.
    pub fn of(client: &mut Client) -> Self {
        let databases = client.value(&["CONFIG", "GET", "databases"]).elements()[1].text();
        let databases: usize = databases.parse().expect("CONFIG GET gives a number");
        let (mut keys, mut has_signed_zero) = (BTreeMap::new(), false);
        let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect::<Request>();
        for database in 0..databases {
            let names = client.pipeline(&[words(&["SELECT", &database.to_string()]), words(&["KEYS", "*"])]);
            let names = names[1].byte_strings();
            let ask = |name: &Vec<u8>| {
                let about = |command: &[&str]| [words(command), vec![name.clone()]].concat();
                let full = [about(&["XINFO", "STREAM"]), words(&["FULL", "COUNT", "0"])].concat();
                let scores = [about(&["ZRANGE"]), words(&["0", "-1", "WITHSCORES"])].concat();
                [about(&["TYPE"]), about(&["PEXPIRETIME"]), about(&["DEBUG", "DIGEST-VALUE"]), full, scores]
            };
            let replies = client.pipeline(&names.iter().flat_map(ask).collect::<Vec<_>>());
            for (name, replies) in names.into_iter().zip(replies.chunks(5)) {
                let [kind, deadline, mut content] = [0, 1, 2].map(|at| replies[at].clone());
                let stream = (kind.text() == "stream").then(|| without(&replies[3], &NOT_IN_THE_LOG));
                if kind.text() == "zset" {
                    content = replies[4].clone();
                    has_signed_zero |= lose_signs(&mut content);
                }
                keys.insert((database, name), About { kind, deadline, content, stream });
            }
        }
        client.expect("SELECT 0", "+OK\r\n");
        let digest = client.value(&["DEBUG", "DIGEST"]);
        Self { digest: (!has_signed_zero).then_some(digest), keys }
    }

    /// The part that a snapshot keeps.
    pub fn in_a_snapshot(mut self) -> Self {
        for about in self.keys.values_mut() {
            about.stream = about.stream.as_ref().map(|stream| without(stream, &[NOT_IN_A_SNAPSHOT]));
        }
        self
    }

    /// Reports the difference, and its keys.
    pub fn same_as(&self, before: &Self, when: &str) -> Result<(), String> {
        let is_same_digest = self.digest.is_none() || before.digest.is_none() || self.digest == before.digest;
        if is_same_digest && self.keys == before.keys {
            return Ok(());
        }
        let mut text = format!("{when}, the data differs: digest {:?}, was {:?}\n", self.digest, before.digest);
        for key in before.keys.keys().chain(self.keys.keys().filter(|key| !before.keys.contains_key(key))) {
            let (is, was) = (self.keys.get(key), before.keys.get(key));
            if is != was {
                let (database, name) = key;
                let _ = writeln!(text, "  db{database} {}\n    is  {is:?}\n    was {was:?}", name.escape_ascii());
            }
        }
        Err(text)
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }
}

/// Removes the signs of zeros from scores; returns whether there was one.
fn lose_signs(members: &mut Value) -> bool {
    let Value::Array(elements) = members else { return false };
    let mut has_lost = false;
    for score in elements.iter_mut().skip(1).step_by(2).filter(|score| score.bytes() == SIGNED_ZERO) {
        (*score, has_lost) = (Value::Bulk(b"0".to_vec()), true);
    }
    has_lost
}

/// A reply without the values after some of its names.
fn without(value: &Value, names: &[&str]) -> Value {
    let Value::Array(elements) = value else { return value.clone() };
    let mut is_dropped = false;
    let mut kept = Vec::with_capacity(elements.len());
    for element in elements {
        kept.push(if is_dropped { Value::Null } else { without(element, names) });
        is_dropped = matches!(element, Value::Bulk(name) if names.iter().any(|other| other.as_bytes() == name));
    }
    Value::Array(kept)
}
