//! Collections: the values that hold more than one element.

pub use super::hash::Hash;
pub use super::list::List;
pub use super::set::Set;
use super::sorted_set::SortedSet;
use super::stream::Stream;
use crate::keyspace::encoding_limits::{ListLimits, PairLimits, SetLimits};
use crate::keyspace::raw::packed_box::PackedBox;
use crate::keyspace::settings::Settings;

/// An element, member or field: bytes of a fixed length.
pub type Bytes = Box<[u8]>;

/// A collection of any type.
#[derive(Debug, Clone)]
pub enum Object {
    /// See [`List`].
    List(List),
    /// See [`Set`].
    Set(Set),
    /// See [`Hash`](type@Hash).
    Hash(Hash),
    /// See [`SortedSet`].
    SortedSet(SortedSet),
    /// See [`Stream`]; boxed, because it is larger than the others.
    Stream(PackedBox<Stream>),
}

/// The type of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// See [`List`].
    List,
    /// See [`Set`].
    Set,
    /// See [`Hash`](type@Hash).
    Hash,
    /// See [`SortedSet`].
    SortedSet,
    /// See [`Stream`].
    Stream,
}

impl Object {
    /// The type.
    pub fn kind(&self) -> Kind {
        match self {
            Self::List(_) => Kind::List,
            Self::Set(_) => Kind::Set,
            Self::Hash(_) => Kind::Hash,
            Self::SortedSet(_) => Kind::SortedSet,
            Self::Stream(_) => Kind::Stream,
        }
    }

    /// How many elements it has. O(1)
    #[allow(clippy::len_without_is_empty)] // Keys of empty collections do not exist.
    pub fn len(&self) -> usize {
        match self {
            Self::List(list) => list.len(),
            Self::Set(set) => set.len(),
            Self::Hash(hash) => hash.len(),
            Self::SortedSet(set) => set.len(),
            Self::Stream(stream) => stream.len(),
        }
    }

    /// About how many allocations it consists of. O(groups) for a stream, O(1) otherwise
    pub fn allocations(&self) -> usize {
        match self {
            Self::List(list) => list.allocations(),
            Self::Stream(stream) => {
                stream.blocks() + stream.groups.values().map(|group| 1 + group.pending_len()).sum::<usize>()
            }
            Self::Set(_) | Self::Hash(_) | Self::SortedSet(_) => match self.encoding() {
                "listpack" | "intset" => 1,
                _ => self.len(),
            },
        }
    }

    /// The type's name as TYPE replies it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::List(_) => "list",
            Self::Set(_) => "set",
            Self::Hash(_) => "hash",
            Self::SortedSet(_) => "zset",
            Self::Stream(_) => "stream",
        }
    }

    /// The encoding's name as OBJECT ENCODING replies it.
    pub fn encoding(&self) -> &'static str {
        match self {
            Self::List(list) => list.encoding(),
            Self::Set(set) => set.encoding(),
            Self::Hash(hash) => hash.encoding(),
            Self::SortedSet(set) => set.encoding(),
            Self::Stream(_) => "stream",
        }
    }
}

/// A type of collection: how to find it in an [`Object`].
pub trait Collection: Default + Sized {
    /// How large a small one may become.
    type Limits: Copy;
    /// The current limits.
    fn limits(settings: &Settings) -> Self::Limits;
    /// The collection, if the object is of this type.
    fn of(object: &Object) -> Option<&Self>;
    /// The collection, if the object is of this type.
    fn of_mut(object: &mut Object) -> Option<&mut Self>;
    /// The collection as an object.
    fn into_object(self) -> Object;
    /// Shrinks the memory of a collection after removals, once most of it is unused; returns whether no elements are
    /// left. The caller then removes the key: keys of empty collections do not exist.
    fn shrink(&mut self, limits: Self::Limits) -> bool;
}

macro_rules! collection {
    ($type:ident, $limits:ty, $of:ident, $shrink:expr) => {
        impl Collection for $type {
            type Limits = $limits;

            fn limits(settings: &Settings) -> $limits {
                settings.encodings.$of()
            }

            fn of(object: &Object) -> Option<&Self> {
                match object {
                    Object::$type(collection) => Some(collection),
                    _ => None,
                }
            }

            fn of_mut(object: &mut Object) -> Option<&mut Self> {
                match object {
                    Object::$type(collection) => Some(collection),
                    _ => None,
                }
            }

            fn into_object(self) -> Object {
                Object::$type(self)
            }

            fn shrink(&mut self, limits: $limits) -> bool {
                let shrink: fn(&mut Self, $limits) = $shrink;
                shrink(self, limits);
                self.is_empty()
            }
        }
    };
}

collection!(List, ListLimits, of_lists, List::settle);
// Their tables shrink when elements are removed.
collection!(Set, SetLimits, of_sets, |_, _| {});
collection!(Hash, PairLimits, of_hashes, |_, _| {});
