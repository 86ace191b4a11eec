//! Collections: the values that hold more than one element.

use super::hashing::ProcessHash;
use super::stream::Stream;
use std::collections::VecDeque;

/// An element, member or field: bytes of a fixed length.
pub type Bytes = Box<[u8]>;

/// A list: elements pushed and popped at both ends.
pub type List = VecDeque<Bytes>;
/// A set: unique members, one of which can be drawn at random in O(1).
pub type Set = indexmap::IndexSet<Bytes, ProcessHash>;
/// A hash: unique fields with a value each.
pub type Hash = indexmap::IndexMap<Bytes, Bytes, ProcessHash>;

/// A collection of any type.
#[derive(Debug, Clone)]
pub enum Object {
    /// See [`List`].
    List(List),
    /// See [`Set`].
    Set(Set),
    /// See [`Hash`](type@Hash).
    Hash(Hash),
    /// See [`Stream`]; boxed, because it is larger than the others.
    Stream(Box<Stream>),
}

impl Object {
    /// The type's name as TYPE replies it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::List(_) => "list",
            Self::Set(_) => "set",
            Self::Hash(_) => "hash",
            Self::Stream(_) => "stream",
        }
    }
}

/// A type of collection: how it is found in an [`Object`].
pub trait Collection: Default + Sized {
    /// The collection, if the object is of this type.
    fn of(object: &Object) -> Option<&Self>;
    /// The collection, if the object is of this type.
    fn of_mut(object: &mut Object) -> Option<&mut Self>;
    /// The collection as an object.
    fn into_object(self) -> Object;
    /// Gives back the room of elements that were removed, once most of it is unused; gives whether none are left.
    /// The caller then removes the key: keys of empty collections do not exist.
    fn shrink(&mut self) -> bool;
}

/// Room up to this many elements is kept whatever it holds.
const SMALL_CAPACITY: usize = 64;
/// Room for more than this many times the elements is given back.
const SPARSE: usize = 8;

macro_rules! collection {
    ($type:ident) => {
        impl Collection for $type {
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

            fn shrink(&mut self) -> bool {
                if self.capacity() > SMALL_CAPACITY && self.len() * SPARSE < self.capacity() {
                    self.shrink_to(self.len() * 2);
                }
                self.is_empty()
            }
        }
    };
}

collection!(List);
collection!(Set);
collection!(Hash);
