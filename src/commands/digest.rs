//! DEBUG DIGEST and DIGEST-VALUE: a fingerprint of the data, the same as Redis's for the same data.
//!
//! Two ways to add bytes to a digest of 20 bytes, both by SHA-1: *join* is an exclusive or with the hash of the bytes,
//! so that order does not matter; *mix* does that and hashes the result, so that order matters. Members and fields are
//! joined, elements and entries are mixed, keys are joined. As in `debug.c` of Redis.

use crate::keyspace::values::stream::StreamId;
use crate::keyspace::{Element, Keyspace, Node, Object, Store, Value};
use crate::resp::DoubleText;
use sha1::{Digest as _, Sha1};

/// A digest that grows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Digest([u8; 20]);

impl Digest {
    /// The digest of all keys of all databases. O(N), N = bytes of all keys
    pub fn of_all<S: Store>(keyspace: &mut Keyspace<S>) -> Self {
        let mut whole = Self::default();
        for database in 0..keyspace.store.in_use() {
            keyspace.within(database, |keyspace| {
                if keyspace.store.is_empty() {
                    return;
                }
                let number = u32::try_from(database).expect("a database's number has 16 bits");
                whole.mix(&number.to_be_bytes());
                keyspace.for_each(&mut |node| {
                    let mut digest = Self::default();
                    digest.mix(node.key());
                    digest.add_value(node);
                    whole.join(&digest.0);
                });
            });
        }
        whole
    }

    /// The digest of one value, and of whether it expires. O(N), N = its bytes
    pub fn of_value(node: &Node) -> Self {
        let mut digest = Self::default();
        digest.add_value(node);
        digest
    }

    /// In hexadecimal digits.
    pub fn to_hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn join(&mut self, bytes: &[u8]) {
        let hash = Sha1::digest(bytes);
        self.0.iter_mut().zip(hash).for_each(|(byte, other)| *byte ^= other);
    }

    fn mix(&mut self, bytes: &[u8]) {
        self.join(bytes);
        self.0 = Sha1::digest(self.0).into();
    }

    fn mix_element(&mut self, element: Element<'_>) {
        self.mix(element.bytes(&mut itoa::Buffer::new()));
    }

    fn add_value(&mut self, node: &Node) {
        self.mix(&type_number(node.value()).to_be_bytes());
        match node.value() {
            Value::Integer(integer) => self.mix(itoa::Buffer::new().format(integer).as_bytes()),
            Value::Text(text) => self.mix(text),
            Value::Object(object) => self.add_collection(object),
        }
        if node.expire_at().is_some() {
            self.join(b"!!expire!!");
        }
    }

    fn add_collection(&mut self, object: &Object) {
        match object {
            Object::List(list) => list.range(0..list.len()).for_each(|element| self.mix_element(element)),
            Object::Set(set) => set.iter().for_each(|member| self.join(member.bytes(&mut itoa::Buffer::new()))),
            Object::Hash(hash) => hash.iter().for_each(|(field, value)| {
                self.join_pair(|pair| {
                    pair.mix_element(field);
                    pair.mix_element(value);
                });
            }),
            Object::SortedSet(set) => set.iter().for_each(|(member, score)| {
                self.join_pair(|pair| {
                    pair.mix_element(member);
                    pair.mix(&DoubleText::precise(score));
                });
            }),
            Object::Stream(stream) => {
                for entry in stream.range(StreamId::MIN, StreamId::MAX) {
                    self.mix(format!("{}.{}", entry.id.ms, entry.id.seq).as_bytes());
                    for (name, value) in entry.fields() {
                        self.mix(name);
                        self.mix(value);
                    }
                }
            }
        }
    }

    fn join_pair(&mut self, fill: impl FnOnce(&mut Self)) {
        let mut pair = Self::default();
        fill(&mut pair);
        self.join(&pair.0);
    }
}

/// The number of a type in Redis.
fn type_number(value: Value<'_>) -> u32 {
    match value {
        Value::Integer(_) | Value::Text(_) => 0,
        Value::Object(Object::List(_)) => 1,
        Value::Object(Object::Set(_)) => 2,
        Value::Object(Object::SortedSet(_)) => 3,
        Value::Object(Object::Hash(_)) => 4,
        Value::Object(Object::Stream(_)) => 6,
    }
}
