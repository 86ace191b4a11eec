//! How the keys of a base, and of an import, are written: each as a record of the effect that makes it, `SET` or
//! `RESTORE`. A collection whose DUMP is longer than a record holds is written as several records, each of which adds
//! some of its elements (for a stream, some of its effects).

mod streams;

use crate::aof::disk::{LogFile, NoFile};
use crate::aof::format::{Salt, frame_onto};
use crate::keyspace::{Effects, Element, Encode, Node, Object, Stream, Value};
use crate::rdb;
use crate::resp::DoubleText;
use crate::snapshot::{SnapshotWriter, Target};
use std::io;
use std::sync::Arc;
use streams::emit_stream;

/// The longest value that a record holds.
const VALUE_LEN_MAX: usize = u32::MAX as usize / 2;
/// From this many bytes of elements on, a record with a part of a collection takes no more.
const PIECE_LEN: usize = 1024 * 1024;
/// What a word counts besides its bytes: a piece of empty words has to end, too.
const WORD: usize = 8;

/// A base while it is written: the keys of one segment.
pub type Base = SnapshotWriter<Records, Arc<dyn LogFile>>;

/// The records of keys, framed.
#[derive(Debug)]
pub struct Records {
    salt: Salt,
    keys: KeyPayloads,
}

impl Records {
    /// Records that are framed with this.
    pub fn new(salt: Salt) -> Self {
        Self { salt, keys: KeyPayloads::default() }
    }
}

impl Encode for Records {
    fn encode(&mut self, out: &mut Vec<u8>, database: usize, node: &Node) -> Result<(), String> {
        let salt = self.salt;
        self.keys.of_key(database, node, &mut |payload| {
            frame_onto(out, salt, payload);
            Ok(())
        })
    }
}

/// Receives the payload of a record.
type Put<'a> = dyn FnMut(&[u8]) -> Result<(), String> + 'a;

/// The payloads of the records that make keys, in a log that has none of them yet.
#[derive(Debug)]
pub struct KeyPayloads {
    effects: Effects,
    value_len_max: usize,
    piece_len: usize,
}

impl Default for KeyPayloads {
    fn default() -> Self {
        Self { effects: Effects::new(true), value_len_max: VALUE_LEN_MAX, piece_len: PIECE_LEN }
    }
}

impl KeyPayloads {
    /// Passes the payloads of a key's records to `put`, in order. The error is that of `put`, or says why there is no
    /// record for the key. O(bytes of the value)
    pub fn of_key(&mut self, database: usize, node: &Node, put: &mut Put<'_>) -> Result<(), String> {
        self.effects.select(database);
        let (mut number, mut deadline) = (itoa::Buffer::new(), itoa::Buffer::new());
        let deadline = deadline.format(node.expire_at().unwrap_or(0)).as_bytes();
        let text = match node.value() {
            Value::Integer(integer) => number.format(integer).as_bytes(),
            Value::Text(text) => text,
            Value::Object(object) => {
                let payload = rdb::dump_exactly(node.value());
                if payload.len() > self.value_len_max {
                    drop(payload);
                    return self.in_pieces(node, object, put);
                }
                return self.add([b"RESTORE", node.key(), deadline, &payload, b"ABSTTL"], put);
            }
        };
        match node.expire_at() {
            None => self.add([b"SET", node.key(), text], put),
            Some(_) => self.add([b"SET", node.key(), text, b"PXAT", deadline], put),
        }
    }

    fn add<'a>(
        &mut self,
        effect: impl IntoIterator<Item = &'a [u8], IntoIter: ExactSizeIterator>,
        put: &mut Put<'_>,
    ) -> Result<(), String> {
        self.effects.add(effect);
        self.put(put)
    }

    /// Ends a record.
    fn put(&mut self, put: &mut Put<'_>) -> Result<(), String> {
        let outcome = put(self.effects.payload());
        self.effects.clear();
        outcome
    }

    /// Writes a collection, some of its elements in each record.
    fn in_pieces(&mut self, node: &Node, object: &Object, put: &mut Put<'_>) -> Result<(), String> {
        match elements(object) {
            Elements::Added(command, elements) => self.in_additions(node.key(), command, elements, put)?,
            Elements::OfStream(stream) => self.in_effects(node.key(), stream, put)?,
        }
        match node.expire_at() {
            None => Ok(()),
            Some(at) => self.add([b"PEXPIREAT", node.key(), itoa::Buffer::new().format(at).as_bytes()], put),
        }
    }

    fn in_additions(
        &mut self,
        key: &[u8],
        command: &[u8],
        mut elements: Words<'_>,
        put: &mut Put<'_>,
    ) -> Result<(), String> {
        loop {
            let mut piece = vec![command.to_vec(), key.to_vec()];
            let mut len = 0;
            while len < self.piece_len
                && let Some(words) = elements.next()
            {
                len += words.iter().map(|word| word.len() + WORD).sum::<usize>();
                piece.extend(words);
            }
            if len == 0 {
                break;
            }
            self.add(piece.iter().map(Vec::as_slice).collect::<Vec<_>>(), put)?;
        }
        Ok(())
    }

    /// Writes a stream: in each record as many of its effects as make a piece.
    fn in_effects(&mut self, key: &[u8], stream: &Stream, put: &mut Put<'_>) -> Result<(), String> {
        emit_stream(key, stream, self.piece_len, &mut |effect| {
            self.effects.add(effect.iter().copied());
            if self.effects.payload().len() < self.piece_len { Ok(()) } else { self.put(put) }
        })?;
        if self.effects.payload().is_empty() { Ok(()) } else { self.put(put) }
    }
}

/// The arguments of the command for each element.
type Words<'a> = Box<dyn Iterator<Item = Vec<Vec<u8>>> + 'a>;

/// What makes a collection.
enum Elements<'a> {
    /// The command that adds elements, and its arguments for each.
    Added(&'static [u8], Words<'a>),
    /// A stream is more than its entries.
    OfStream(&'a Stream),
}

fn elements(object: &Object) -> Elements<'_> {
    let (command, words): (&[u8], Words<'_>) = match object {
        Object::List(list) => (b"RPUSH", Box::new(list.range(0..list.len()).map(|element| vec![element.to_vec()]))),
        Object::Set(set) => (b"SADD", Box::new(set.iter().map(|member| vec![member.to_vec()]))),
        Object::Hash(hash) => (b"HSET", Box::new(hash.iter().map(|(name, value)| vec![name.to_vec(), value.to_vec()]))),
        Object::SortedSet(set) => {
            let pair =
                |(member, score): (Element<'_>, f64)| vec![DoubleText::shortest(score).to_vec(), member.to_vec()];
            (b"ZADD", Box::new(set.iter().map(pair)))
        }
        Object::Stream(stream) => return Elements::OfStream(stream),
    };
    Elements::Added(command, words)
}

impl Target for Arc<dyn LogFile> {
    fn append(&mut self, keys: &[u8]) -> io::Result<u64> {
        self.write_all(keys).map(|()| keys.len() as u64)
    }

    fn settle(&mut self) -> io::Result<()> {
        self.sync()
    }

    fn discard(&mut self) {
        *self = Arc::new(NoFile);
    }
}

#[cfg(test)]
impl KeyPayloads {
    /// As if a record held no more than `value_len_max`, and a piece of a collection no more than `piece_len`.
    pub fn with_limits(value_len_max: usize, piece_len: usize) -> Self {
        Self { value_len_max, piece_len, ..Self::default() }
    }
}

#[cfg(test)]
impl Records {
    /// As if a record held no more than `value_len_max`, and a piece of a collection no more than `piece_len`.
    pub fn with_limits(salt: Salt, value_len_max: usize, piece_len: usize) -> Self {
        Self { salt, keys: KeyPayloads::with_limits(value_len_max, piece_len) }
    }
}
