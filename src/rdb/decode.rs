//! Reads values. Collections are built element by element, in the encodings that fit their sizes here.

use super::reader::{Reader, parse_score};
use super::{Malformed, container, kind, stream_value, ziplist};
use crate::keyspace::{
    Collection, Element, End, Field, Hash, Intset, Keyspace, List, ListLimits, Listpack, NewValue, Node, Object,
    PairLimits, Set, SetLimits, Settings, SortedSet, Store,
};

/// A value that was read.
#[derive(Debug)]
pub enum Loaded {
    /// A string.
    Text(Vec<u8>),
    /// A collection.
    Object(Object),
}

impl Loaded {
    /// Sets a key to the value, replacing any other, expiring at `expire_at` if at all.
    pub fn store_in<S: Store>(self, keyspace: &mut Keyspace<S>, key: &[u8], expire_at: Option<u64>) {
        match self {
            Self::Text(text) => keyspace.set(key, NewValue::of_string(&text), expire_at),
            Self::Object(object) => keyspace.set(key, NewValue::Object(object), expire_at),
        }
    }

    /// A node of the value.
    pub fn into_node(self, key: &[u8], expire_at: Option<u64>) -> Node {
        match self {
            Self::Text(text) => Node::new(key, NewValue::of_string(&text), expire_at),
            Self::Object(object) => Node::new(key, NewValue::Object(object), expire_at),
        }
    }

    /// Reads a value of a type, for a server with these settings. O(N) bytes; memory in proportion to them.
    pub fn read(kind: u8, reader: &mut Reader<'_>, settings: &Settings) -> Result<Self, Malformed> {
        Self::read_any(kind, reader, settings).map_err(|malformed| match malformed {
            Malformed::Bad => named(kind),
            // No version of Redis has empty ones.
            Malformed::Empty if kind == kind::HASH_ZIPMAP => named(kind),
            other => other,
        })
    }

    fn read_any(kind: u8, reader: &mut Reader<'_>, settings: &Settings) -> Result<Self, Malformed> {
        match kind {
            kind::STRING => reader.string().map(|text| Self::Text(text.into_owned())),
            kind::LIST | kind::LIST_ZIPLIST | kind::LIST_ZIPLISTS | kind::LIST_LISTPACKS => {
                list(kind, reader, List::limits(settings))
            }
            kind::SET | kind::SET_INTSET | kind::SET_LISTPACK => set(kind, reader, Set::limits(settings)),
            kind::HASH | kind::HASH_ZIPMAP | kind::HASH_ZIPLIST | kind::HASH_LISTPACK => {
                hash(kind, reader, Hash::limits(settings))
            }
            kind::HASH_DEADLINES | kind::HASH_LISTPACK_DEADLINES => {
                hash_with_deadlines(kind, reader, Hash::limits(settings))
            }
            kind::HASH_OF_VALKEY if reader.is_of_valkey => hash_with_deadlines(kind, reader, Hash::limits(settings)),
            kind::SORTED_SET | kind::SORTED_SET_TEXT | kind::SORTED_SET_ZIPLIST | kind::SORTED_SET_LISTPACK => {
                sorted_set(kind, reader, SortedSet::limits(settings))
            }
            kind::STREAM | kind::STREAM_2 | kind::STREAM_3 => {
                Ok(Self::Object(stream_value::read(kind, reader)?.into_object()))
            }
            _ => Err(Malformed::Unknown(kind)),
        }
    }
}

/// The error for bytes that are not a value of a type, in Redis's words.
fn named(kind: u8) -> Malformed {
    Malformed::Because(match kind {
        kind::LIST_ZIPLIST | kind::LIST_ZIPLISTS => "Ziplist integrity check failed.",
        kind::LIST_LISTPACKS => "Quicklist listpack integrity check failed.",
        kind::SET_INTSET => "Intset integrity check failed.",
        kind::SET_LISTPACK => "Set listpack integrity check failed.",
        kind::HASH_ZIPMAP => "Zipmap integrity check failed.",
        kind::HASH_ZIPLIST => "Hash ziplist integrity check failed.",
        kind::HASH_LISTPACK | kind::HASH_LISTPACK_DEADLINES => "Hash listpack integrity check failed.",
        kind::SORTED_SET_ZIPLIST => "Zset ziplist integrity check failed.",
        kind::SORTED_SET_LISTPACK => "Zset listpack integrity check failed.",
        kind::STREAM | kind::STREAM_2 | kind::STREAM_3 => "Stream integrity check failed.",
        _ => return Malformed::Bad,
    })
}

/// The collection as a value; an error if it has no elements.
fn loaded<C: Collection>(collection: C, is_empty: bool) -> Result<Loaded, Malformed> {
    if is_empty { Err(Malformed::Empty) } else { Ok(Loaded::Object(collection.into_object())) }
}

fn ensure(holds: bool) -> Result<(), Malformed> {
    if holds { Ok(()) } else { Err(Malformed::Bad) }
}

/// The listpack in a string.
pub fn listpack(bytes: &[u8]) -> Result<Listpack, Malformed> {
    Listpack::from_untrusted(bytes).ok_or(Malformed::Bad)
}

fn list(kind: u8, reader: &mut Reader<'_>, limits: ListLimits) -> Result<Loaded, Malformed> {
    let mut list = List::default();
    let mut digits = itoa::Buffer::new();
    let mut push = |element: Element<'_>| {
        let element = element.bytes(&mut digits);
        list.prepare(limits, std::iter::once(element));
        list.push(limits, element, End::Tail);
        Ok(())
    };
    let nodes = if kind == kind::LIST_ZIPLIST { 1 } else { reader.length()? };
    for _ in 0..nodes {
        match kind {
            kind::LIST => push(Element::Bytes(&reader.string()?))?,
            kind::LIST_LISTPACKS => match reader.length()? {
                container::PLAIN => {
                    // An empty element is in a listpack.
                    let element = reader.string()?;
                    ensure(!element.is_empty())?;
                    push(Element::Bytes(&element))?;
                }
                container::PACKED => listpack(&reader.string()?)?.iter().try_for_each(&mut push)?,
                _ => return Err(Malformed::Bad),
            },
            _ => ziplist::for_each_element(&reader.string()?, &mut push)?,
        }
    }
    let is_empty = list.is_empty();
    loaded(list, is_empty)
}

fn set(kind: u8, reader: &mut Reader<'_>, limits: SetLimits) -> Result<Loaded, Malformed> {
    let set = match kind {
        kind::SET => {
            let count = reader.length()?;
            members(limits, count, (0..count).map(|_| reader.string()))?
        }
        kind::SET_LISTPACK => {
            let listpack = listpack(&reader.string()?)?;
            members(limits, listpack.len() as u64, listpack.iter().map(|element| Ok(element.to_vec())))?
        }
        _ => {
            let integers = Intset::from_untrusted(&reader.string()?).ok_or(Malformed::Bad)?;
            members(limits, integers.len() as u64, integers.iter().map(|integer| Ok(integer.to_string().into_bytes())))?
        }
    };
    let is_empty = set.is_empty();
    loaded(set, is_empty)
}

fn members<M: AsRef<[u8]>>(
    limits: SetLimits,
    count: u64,
    members: impl Iterator<Item = Result<M, Malformed>>,
) -> Result<Set, Malformed> {
    let mut set = None;
    for member in members {
        let member = member?;
        let member = member.as_ref();
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        ensure(set.get_or_insert_with(|| Set::for_members(limits, member, count)).insert(limits, member))?;
    }
    Ok(set.unwrap_or_default())
}

fn hash(kind: u8, reader: &mut Reader<'_>, limits: PairLimits) -> Result<Loaded, Malformed> {
    let mut hash = Hash::default();
    match kind {
        kind::HASH => {
            for _ in 0..reader.length()? {
                set_field(limits, &mut hash, &reader.string()?, &reader.string()?)?;
            }
        }
        kind::HASH_ZIPMAP => {
            ziplist::for_each_pair(&reader.string()?, |name, value| ensure(hash.set(limits, name, value)))?;
        }
        _ => for_each_pair(kind == kind::HASH_ZIPLIST, &reader.string()?, |name, value| {
            ensure(hash.set(limits, name, value.bytes(&mut itoa::Buffer::new())))
        })?,
    }
    let is_empty = hash.is_empty();
    loaded(hash, is_empty)
}

fn set_field(limits: PairLimits, hash: &mut Hash, name: &[u8], value: &[u8]) -> Result<(), Malformed> {
    let len = name.len() + value.len();
    if len > Field::LEN_MAX {
        return Err(Malformed::TooLong(len as u64));
    }
    ensure(hash.set(limits, name, value))
}

/// A hash in the form for fields that expire. It is accepted if no field does.
fn hash_with_deadlines(kind: u8, reader: &mut Reader<'_>, limits: PairLimits) -> Result<Loaded, Malformed> {
    const NONE_IN_VALKEY: i64 = -1;
    let lasting = |lasts: bool| if lasts { Ok(()) } else { Err(Malformed::FieldExpires) };
    let mut hash = Hash::default();
    if kind == kind::HASH_OF_VALKEY {
        for _ in 0..reader.length()? {
            set_field(limits, &mut hash, &reader.string()?, &reader.string()?)?;
            lasting(i64::from_le_bytes(reader.array()?) == NONE_IN_VALKEY)?;
        }
    } else {
        let _earliest = reader.take(8)?;
        if kind == kind::HASH_DEADLINES {
            for _ in 0..reader.length()? {
                lasting(reader.length()? == 0)?;
                set_field(limits, &mut hash, &reader.string()?, &reader.string()?)?;
            }
        } else {
            let listpack = listpack(&reader.string()?)?;
            let elements: Vec<Vec<u8>> = listpack.iter().map(|element| element.to_vec()).collect();
            let (fields, rest) = elements.as_chunks::<3>();
            ensure(rest.is_empty())?;
            for [name, value, deadline] in fields {
                lasting(deadline == b"0")?;
                ensure(hash.set(limits, name, value))?;
            }
        }
    }
    let is_empty = hash.is_empty();
    loaded(hash, is_empty)
}

/// A sorted set that was large, so a zero in it has its sign; its encoding here depends on its elements.
fn large_sorted_set(kind: u8, reader: &mut Reader<'_>, limits: PairLimits) -> Result<Loaded, Malformed> {
    let count = reader.length()?;
    let mut set = SortedSet::of_so_many(limits, usize::try_from(count).unwrap_or(usize::MAX));
    let next = |reader: &mut Reader<'_>| {
        let member = reader.string()?.to_vec();
        let score = if kind == kind::SORTED_SET { reader.score() } else { reader.text_score() }?;
        ensure(!score.is_nan())?;
        Ok((member, score))
    };
    if set.is_small() {
        let elements = (0..count).map(|_| next(reader)).collect::<Result<Vec<_>, Malformed>>()?;
        set = SortedSet::of_all(limits, elements.iter().map(|(member, score)| (&**member, *score)));
        ensure(set.len() == elements.len())?;
    } else {
        for _ in 0..count {
            let (member, score) = next(reader)?;
            ensure(set.insert(limits, &member, score).is_none())?;
        }
    }
    let is_empty = set.is_empty();
    loaded(set, is_empty)
}

fn sorted_set(kind: u8, reader: &mut Reader<'_>, limits: PairLimits) -> Result<Loaded, Malformed> {
    let mut set = SortedSet::default();
    let mut insert = |member: &[u8], score: f64| {
        ensure(!score.is_nan())?;
        ensure(set.insert(limits, member, score).is_none())
    };
    match kind {
        kind::SORTED_SET | kind::SORTED_SET_TEXT => return large_sorted_set(kind, reader, limits),
        _ => for_each_pair(kind == kind::SORTED_SET_ZIPLIST, &reader.string()?, |member, score| {
            let score = match score {
                Element::Integer(integer) => integer as f64,
                Element::Bytes(text) => parse_score(text)?,
            };
            insert(member, score)
        })?,
    }
    let is_empty = set.is_empty();
    loaded(set, is_empty)
}

/// Calls `visit` with pairs of elements, of a ziplist or a listpack.
fn for_each_pair(
    is_ziplist: bool,
    bytes: &[u8],
    mut visit: impl FnMut(&[u8], Element<'_>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    let mut first: Option<Vec<u8>> = None;
    let mut take = |element: Element<'_>| match first.take() {
        None => {
            first = Some(element.to_vec());
            Ok(())
        }
        Some(first) => visit(&first, element),
    };
    if is_ziplist {
        ziplist::for_each_element(bytes, &mut take)?;
    } else {
        listpack(bytes)?.iter().try_for_each(&mut take)?;
    }
    ensure(first.is_none())
}
