//! A node: one key with its value, in one allocation behind one pointer.
//!
//! ```text
//! | key_len u32 | state u32 | word 8 bytes, or collection 10 | [expire_at 8 bytes] | key | text |
//! state: | second of the last access, 27 bits | parity | grew in place | has expiry | kind, 2 bits |
//! ```
//!
//! `word` is an integer's value, a text's length and capacity (32 bits each), or the address of a shared text. A
//! collection is stored in its place, and points to its elements. The second of the last access is that of Unix time,
//! modulo 2^27: four years. If the eviction policy counts uses, a counter is stored instead: see `usage`. The parity
//! says whether a node is in a snapshot of the keys yet: see `snapshotting`.
//!
//! # Why unsafe
//! A table slot of 8 bytes and one allocation per key are what keeps a small string at or under Redis's memory: a table
//! has up to 2.3 slots per key, so a safe `(Box<[u8]>, Value)` slot of 40 bytes costs about 70 bytes more per key, and
//! a second allocation is a second cache miss on every read. Rust has no safe type with a header and two unsized tails.
//! Everything unsafe about that is in this file; its interface is safe.
#![allow(unsafe_code)]

use super::cache_lines::prefetch;
use crate::base::limits::LEN_MAX;
use crate::base::narrowing::low_u32;
use crate::keyspace::hashing::hash_of;
use crate::keyspace::usage::{self, Counting, FormerUse, Frequency, Usage};
use crate::keyspace::values::collection::{Collection, Object, Set};
use crate::resp::{CommandError, SHARED_MIN, SharedBulk, parse_i64};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error, realloc};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// A length as a node holds it.
///
/// # Panics
/// If it exceeds [`LEN_MAX`].
#[inline]
fn held(len: usize) -> u32 {
    assert!(len <= LEN_MAX, "LEN_MAX bounds a key and a text");
    u32::try_from(len).expect("LEN_MAX is a number of 32 bits")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum Kind {
    Integer,
    Text,
    Object,
    /// A large text in bytes that replies share: of the read that brought it, or of its own.
    Shared,
}

#[repr(C)]
struct Header {
    key_len: u32,
    state: State,
}

/// What a node is, and when it was last used: only the latter changes while other threads read the node.
struct State(AtomicU32);

impl State {
    const KIND: u32 = 0b11;
    const HAS_EXPIRY: u32 = 0b100;
    const GREW: u32 = 0b1000;
    const PARITY: u32 = 0b1_0000;
    const CLOCK_SHIFT: u32 = u32::BITS - usage::BITS;

    fn new(kind: Kind, has_expiry: bool) -> Self {
        Self(AtomicU32::new(kind as u32 | if has_expiry { Self::HAS_EXPIRY } else { 0 }))
    }

    #[inline]
    fn bits(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    fn kind(&self) -> Kind {
        match self.bits() & Self::KIND {
            0 => Kind::Integer,
            1 => Kind::Text,
            2 => Kind::Object,
            _ => Kind::Shared,
        }
    }

    #[inline]
    fn has_expiry(&self) -> bool {
        self.bits() & Self::HAS_EXPIRY != 0
    }

    fn has_grown(&self) -> bool {
        self.bits() & Self::GREW != 0
    }

    fn set_grown(&mut self, has_grown: bool) {
        let bits = self.0.get_mut();
        *bits = *bits & !Self::GREW | if has_grown { Self::GREW } else { 0 };
    }

    #[inline]
    fn parity(&self) -> bool {
        self.bits() & Self::PARITY != 0
    }

    #[inline]
    fn set_parity(&mut self, parity: bool) {
        let bits = self.0.get_mut();
        *bits = *bits & !Self::PARITY | if parity { Self::PARITY } else { 0 };
    }

    fn usage(&self) -> u32 {
        self.bits() >> Self::CLOCK_SHIFT
    }

    /// These bits with other bits of usage.
    #[inline]
    fn with_usage(bits: u32, usage: u32) -> u32 {
        usage << Self::CLOCK_SHIFT | bits & !(u32::MAX << Self::CLOCK_SHIFT)
    }

    /// Sets the bits of usage. Of two concurrent calls either may win; the other bits are the same for both.
    #[inline]
    fn set_usage(&self, usage: u32) {
        self.0.store(Self::with_usage(self.bits(), usage), Ordering::Relaxed);
    }

    /// Records a use in this second.
    #[inline]
    fn note_use(&self, usage: Usage, second: u64, random: &mut fastrand::Rng) {
        let bits = self.bits();
        let wanted = Self::with_usage(bits, low_u32(second));
        // Written once a second at most: cores that read the same node would take its cache line from each other. A
        // counter whose bits happen to equal this second loses a use, which is as if it had not counted.
        if wanted != bits {
            match usage {
                Usage::LastUse => self.0.store(wanted, Ordering::Relaxed),
                Usage::Counter(counting) => self.count_use(second, counting, random),
            }
        }
    }

    #[cold]
    fn count_use(&self, second: u64, counting: Counting, random: &mut fastrand::Rng) {
        let usage = self.usage();
        let used = Frequency::from_bits(usage).used(second, counting, random).bits();
        if used != usage {
            self.set_usage(used);
        }
    }
}

#[repr(C)]
union Word {
    integer: i64,
    text: TextSize,
    shared: NonNull<SharedBulk>,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct TextSize {
    len: u32,
    capacity: u32,
}

const HEADER: usize = size_of::<Header>();
const EXPIRY: usize = size_of::<u64>();
const ALIGN: usize = 8;
/// A larger type of collection must be boxed: every collection's node has room for the largest.
const OBJECT_SIZE_MAX: usize = 10;
const _: () = {
    assert!(size_of::<Object>() <= OBJECT_SIZE_MAX);
    assert!(align_of::<Object>() <= ALIGN && align_of::<Word>() <= ALIGN && HEADER.is_multiple_of(ALIGN));
};
/// Allocators hand out multiples of this for small sizes: the rounding leaves room for a text to grow.
const GRAIN: usize = 16;

/// A value as read.
#[derive(Debug, Clone, Copy)]
pub enum Value<'a> {
    /// A string that was stored as a canonical decimal `i64`.
    Integer(i64),
    /// Any other string; one that grew by APPEND or SETRANGE may look like an integer.
    Text(&'a [u8]),
    /// A collection.
    Object(&'a Object),
}

impl<'a> Value<'a> {
    /// The collection, if it is one of this type.
    pub fn collection<C: Collection>(self) -> Result<&'a C, CommandError> {
        match self {
            Self::Object(object) => C::of(object).ok_or(CommandError::WrongType),
            Self::Integer(_) | Self::Text(_) => Err(CommandError::WrongType),
        }
    }

    /// How many elements it has; a string is one. O(1)
    pub fn elements(&self) -> usize {
        match self {
            Self::Object(object) => object.len(),
            Self::Integer(_) | Self::Text(_) => 1,
        }
    }

    /// About how many allocations it consists of. O(groups) for a stream, O(1) otherwise
    pub fn allocations(&self) -> usize {
        match self {
            Self::Object(object) => object.allocations(),
            Self::Integer(_) | Self::Text(_) => 1,
        }
    }
}

/// A value to be stored.
#[derive(Debug)]
pub enum NewValue<'a> {
    /// A string that is a canonical decimal `i64`.
    Integer(i64),
    /// Any other string; copied.
    Text(&'a [u8]),
    /// A large string in bytes that have several owners, not copied.
    Shared(SharedBulk),
    /// A collection.
    Object(Object),
}

impl<'a> NewValue<'a> {
    /// A string in the form in which it is stored: as an integer if it is one, and shared if it is large, so that no
    /// reply copies it.
    #[inline]
    pub fn of_string(text: &'a [u8]) -> Self {
        const INTEGER_LEN_MAX: usize = 20;
        if text.len() <= INTEGER_LEN_MAX {
            parse_i64(text).map_or(Self::Text(text), Self::Integer)
        } else if text.len() < SHARED_MIN {
            Self::Text(text)
        } else {
            Self::Shared(SharedBulk::new(text))
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Self::Integer(_) => Kind::Integer,
            Self::Text(_) => Kind::Text,
            Self::Shared(_) => Kind::Shared,
            Self::Object(_) => Kind::Object,
        }
    }
}

/// Owns one key and its value.
///
/// Invariants: `pointer` came from the global allocator with `Node::layout`'s layout; the kind says which
/// field of `word` is valid, or that there is an object; `len <= capacity` for a text.
pub struct Node {
    pointer: NonNull<Header>,
}

// SAFETY: a node owns what it points to, exclusively, and everything in it (`Object` included) is Send.
unsafe impl Send for Node {}
// SAFETY: through `&Node` only reads are possible, except for the clock, which is atomic, and `Object` is Sync.
unsafe impl Sync for Node {}
const _: () = {
    const fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<Object>();
};

impl Node {
    /// A node for `key`, holding `value`, expiring at `expire_at` (Unix time in milliseconds) if at all.
    ///
    /// # Panics
    /// If the key or a text is longer than [`LEN_MAX`].
    pub fn new(key: &[u8], value: NewValue<'_>, expire_at: Option<u64>) -> Self {
        let kind = value.kind();
        let fixed = fixed_size(kind, expire_at.is_some()) + key.len();
        let text = if let NewValue::Text(text) = &value { *text } else { &[] };
        if let NewValue::Shared(bulk) = &value {
            held(bulk.text().len());
        }
        let (key_len, text_len) = (held(key.len()), held(text.len()));
        let capacity = if kind == Kind::Text { roomy_capacity(fixed, text.len()) } else { 0 };
        let layout = layout_of(fixed + capacity);
        // SAFETY: the layout's size is at least HEADER, which is not zero.
        let Some(pointer) = NonNull::new(unsafe { alloc(layout) }) else { handle_alloc_error(layout) };
        let header = Header { key_len, state: State::new(kind, expire_at.is_some()) };
        let mut node = Self { pointer: pointer.cast() };
        // SAFETY: the allocation is large enough for the header, the value, the expiry, the key and the text, in this
        // order, aligned to `ALIGN`, and overlaps no argument because it is new. The header is written first: it says
        // where the others are.
        unsafe {
            node.pointer.write(header);
            match value {
                NewValue::Integer(integer) => node.set_word(Word { integer }),
                NewValue::Text(_) => {
                    let size = TextSize { len: text_len, capacity: roomy(capacity) };
                    node.set_word(Word { text: size });
                }
                NewValue::Shared(bulk) => node.set_word(Word { shared: NonNull::from(Box::leak(Box::new(bulk))) }),
                NewValue::Object(object) => node.object_start().write(object),
            }
            node.key_start().copy_from_nonoverlapping(key.as_ptr(), key.len());
            node.text_start().copy_from_nonoverlapping(text.as_ptr(), text.len());
        }
        if let Some(at) = expire_at {
            node.write_expiry(at);
        }
        node
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        // SAFETY: `key_len` initialised bytes begin at `key_start`.
        unsafe { std::slice::from_raw_parts(self.key_start(), self.header().key_len as usize) }
    }

    /// The value.
    pub fn value(&self) -> Value<'_> {
        // SAFETY: the kind says which field of the union is valid; an object's pointer is owned by this node.
        unsafe {
            match self.header().state.kind() {
                Kind::Integer => Value::Integer(self.word().integer),
                Kind::Text => Value::Text(std::slice::from_raw_parts(self.text_start(), self.text_size().len as usize)),
                Kind::Object => Value::Object(&*self.object_start()),
                Kind::Shared => Value::Text(self.word().shared.as_ref().text()),
            }
        }
    }

    /// The text with its encoding, if it is shared.
    #[inline]
    pub fn shared(&self) -> Option<&SharedBulk> {
        // SAFETY: the kind says that there is the address of a bulk string, which this node owns.
        (self.header().state.kind() == Kind::Shared).then(|| unsafe { self.word().shared.as_ref() })
    }

    /// The collection, if the value is one.
    pub fn object_mut(&mut self) -> Option<&mut Object> {
        match self.header().state.kind() {
            // SAFETY: the kind says that `object` is valid; the node owns it and is borrowed exclusively.
            Kind::Object => Some(unsafe { &mut *self.object_start() }),
            Kind::Integer | Kind::Text | Kind::Shared => None,
        }
    }

    /// The collection, if it holds one of this type.
    pub fn collection<C: Collection>(&self) -> Result<&C, CommandError> {
        self.value().collection()
    }

    /// The collection, if it holds one of this type.
    pub fn collection_mut<C: Collection>(&mut self) -> Result<&mut C, CommandError> {
        self.object_mut().and_then(C::of_mut).ok_or(CommandError::WrongType)
    }

    /// The text's bytes, if the value is a text. Shared ones are copied first.
    pub fn text_mut(&mut self) -> Option<&mut [u8]> {
        self.own_text();
        match self.header().state.kind() {
            Kind::Text => {
                // SAFETY: `len` initialised bytes begin at `text_start`; the node is borrowed exclusively.
                Some(unsafe { std::slice::from_raw_parts_mut(self.text_start(), self.text_size().len as usize) })
            }
            Kind::Integer | Kind::Object | Kind::Shared => None,
        }
    }

    /// Asks the processor to bring the node's beginning into the cache: header, key, and the value if it is short.
    #[inline]
    pub fn prefetch(&self) {
        prefetch::<2>(self.pointer.cast());
    }

    /// Records that the node is used in this second of Unix time. If uses are counted, random numbers decide whether
    /// this one counts.
    #[inline]
    pub fn touch(&self, usage: Usage, second: u64, random: &mut fastrand::Rng) {
        self.header().state.note_use(usage, second, random);
    }

    /// Records that the node is new in this second.
    #[inline]
    pub fn begin_use(&self, usage: Usage, second: u64) {
        match usage {
            Usage::LastUse => self.set_last_use(second),
            Usage::Counter(_) => self.set_frequency(Frequency::FIRST, second),
        }
    }

    /// The same for a node that was used elsewhere. What does not fit the policy is dropped.
    pub fn continue_use(&self, usage: Usage, second: u64, former: FormerUse) {
        match (usage, former) {
            (Usage::Counter(_), FormerUse { frequency: Some(frequency), .. }) => self.set_frequency(frequency, second),
            (Usage::LastUse, FormerUse { idle_s: Some(idle_s), .. }) => {
                self.set_last_use(second.saturating_sub(idle_s));
            }
            _ => self.begin_use(usage, second),
        }
    }

    /// Sets this second as that of its last use, if uses are not counted.
    pub fn set_last_use(&self, second: u64) {
        self.header().state.set_usage(low_u32(second));
    }

    /// Sets the counter of uses in this second, if uses are counted.
    pub fn set_frequency(&self, counter: u8, second: u64) {
        self.header().state.set_usage(Frequency::new(counter, second).bits());
    }

    /// For how many seconds before this second of Unix time the node has not been used, if uses are not counted.
    pub fn idle_seconds(&self, second: u64) -> u32 {
        usage::idle_seconds(self.usage(), second)
    }

    /// The decayed counter of uses in this second, if uses are counted.
    pub fn frequency(&self, second: u64, counting: Counting) -> u8 {
        Frequency::from_bits(self.usage()).at(second, counting)
    }

    /// The bits that say when, or how often, the node was used.
    pub fn usage(&self) -> u32 {
        self.header().state.usage()
    }

    /// The parity that a snapshot of the keys, or the table, has set: see `snapshotting`.
    #[inline]
    pub fn parity(&self) -> bool {
        self.header().state.parity()
    }

    /// Changes the parity. It stays when the value or the deadline changes.
    #[inline]
    pub fn set_parity(&mut self, parity: bool) {
        self.header_mut().state.set_parity(parity);
    }

    /// The encoding's name as OBJECT ENCODING replies it. Redis keeps short strings in one allocation with their object
    /// until they are changed in place; here all are, but clients ask.
    pub fn encoding(&self) -> &'static str {
        const EMBEDDED_LEN_MAX: usize = 44;
        match self.value() {
            Value::Integer(_) => "int",
            Value::Text(text) if text.len() <= EMBEDDED_LEN_MAX && !self.header().state.has_grown() => "embstr",
            Value::Text(_) => "raw",
            Value::Object(object) => object.encoding(),
        }
    }

    /// When the key expires: Unix time in milliseconds.
    pub fn expire_at(&self) -> Option<u64> {
        // SAFETY: with an expiry, eight initialised bytes follow the value, aligned or not.
        self.header().state.has_expiry().then(|| unsafe { self.expiry_start().read_unaligned() })
    }

    /// Whether this is a key of the deadline `(at, hash)`: its hash is this one, and its own deadline no later.
    pub fn is_of_deadline(&self, (at, hash): (u64, u64)) -> bool {
        self.expire_at().is_some_and(|deadline| deadline <= at) && hash_of(self.key()) == hash
    }

    /// Changes when the key expires.
    pub fn set_expire_at(&mut self, expire_at: Option<u64>) {
        match expire_at {
            Some(at) if self.header().state.has_expiry() => self.write_expiry(at),
            None if !self.header().state.has_expiry() => {}
            _ => self.rebuild(expire_at),
        }
    }

    /// Changes the value and when the key expires. A text of similar length is written in place; what cannot be written
    /// over is returned.
    pub fn set(&mut self, value: NewValue<'_>, expire_at: Option<u64>) -> Option<Self> {
        let same_layout = self.header().state.has_expiry() == expire_at.is_some();
        match value {
            NewValue::Integer(integer) if same_layout && self.header().state.kind() == Kind::Integer => {
                self.set_word(Word { integer });
            }
            NewValue::Text(text) if same_layout && self.fits(text.len()) => {
                let capacity = self.text_size().capacity;
                self.set_word(Word { text: TextSize { len: held(text.len()), capacity } });
                self.header_mut().state.set_grown(false);
                // SAFETY: `fits` checked the capacity; the argument cannot overlap what `&mut self` borrows.
                unsafe { self.text_start().copy_from_nonoverlapping(text.as_ptr(), text.len()) };
            }
            value => {
                let node = self.with_value(value, expire_at);
                return Some(std::mem::replace(self, node));
            }
        }
        if let Some(at) = expire_at {
            self.write_expiry(at);
        }
        None
    }

    /// A node of the same key, usage and parity.
    fn with_value(&self, value: NewValue<'_>, expire_at: Option<u64>) -> Self {
        let mut node = Self::new(self.key(), value, expire_at);
        node.header().state.set_usage(self.usage());
        node.set_parity(self.parity());
        node
    }

    /// Makes the text `len` bytes long, zero-filled where it grows, and returns its bytes. `growth` is extra room for
    /// later growth.
    ///
    /// # Panics
    /// If the value is not a text.
    pub fn resize_text(&mut self, len: usize, growth: usize) -> &mut [u8] {
        self.own_text();
        assert!(self.header().state.kind() == Kind::Text, "only a text is resized");
        let new = held(len);
        self.header_mut().state.set_grown(true);
        if len > self.text_size().capacity as usize {
            self.grow_text(len + growth);
        }
        let TextSize { len: old, capacity } = self.text_size();
        if len > old as usize {
            // SAFETY: `old..len` lies within the capacity.
            unsafe { self.text_start().add(old as usize).write_bytes(0, len - old as usize) };
        }
        self.set_word(Word { text: TextSize { len: new, capacity } });
        self.text_mut().expect("the kind was checked above")
    }

    /// Copies a shared text into the node, where it can be changed.
    fn own_text(&mut self) {
        let Some(bulk) = self.shared() else { return };
        let node = self.with_value(NewValue::Text(bulk.text()), self.expire_at());
        *self = node;
    }

    fn grow_text(&mut self, capacity: usize) {
        let old = self.layout();
        let fixed = old.size() - self.text_size().capacity as usize;
        let capacity = roomy_capacity(fixed, capacity.min(LEN_MAX));
        let new = layout_of(fixed + capacity);
        // SAFETY: the pointer came from this allocator with `old`; the new size is not zero.
        let grown = unsafe { realloc(self.pointer.as_ptr().cast(), old, new.size()) };
        let Some(grown) = NonNull::new(grown) else { handle_alloc_error(new) };
        self.pointer = grown.cast();
        let len = self.text_size().len;
        self.set_word(Word { text: TextSize { len, capacity: roomy(capacity) } });
    }

    /// Whether a text of `len` bytes fits in place without wasting more than it uses.
    fn fits(&self, len: usize) -> bool {
        self.header().state.kind() == Kind::Text && {
            let capacity = self.text_size().capacity as usize;
            len <= capacity && capacity - len <= len.max(GRAIN)
        }
    }

    /// The value and the expiry under another key. A collection moves; a text moves if the keys have the same length,
    /// and is copied otherwise.
    pub fn renamed(mut self, key: &[u8]) -> Self {
        if key.len() == self.key().len() {
            // SAFETY: `key_len` bytes begin at `key_start`; the argument cannot overlap what this node owns.
            unsafe { self.key_start().copy_from_nonoverlapping(key.as_ptr(), key.len()) };
            return self;
        }
        let (has_grown, usage) = (self.header().state.has_grown(), self.usage());
        let object = self.take_object();
        let mut node = Self::new(key, self.new_value(object), self.expire_at());
        node.header_mut().state.set_grown(has_grown);
        node.header().state.set_usage(usage);
        node
    }

    /// A copy of the value and the expiry under another key.
    pub fn copied(&self, key: &[u8]) -> Self {
        let object = match self.value() {
            Value::Object(object) => Some(object.clone()),
            Value::Integer(_) | Value::Text(_) => None,
        };
        let mut node = Self::new(key, self.new_value(object), self.expire_at());
        node.header_mut().state.set_grown(self.header().state.has_grown());
        node
    }

    /// The same key and value in a layout with or without an expiry.
    fn rebuild(&mut self, expire_at: Option<u64>) {
        let object = self.take_object();
        let mut node = self.with_value(self.new_value(object), expire_at);
        node.header_mut().state.set_grown(self.header().state.has_grown());
        *self = node;
    }

    /// Takes the collection out, if the value is one, and leaves an empty one.
    fn take_object(&mut self) -> Option<Object> {
        self.object_mut().map(|object| std::mem::replace(object, Object::Set(Set::default())))
    }

    /// The collection given, or the string of this node, as the value of a new one.
    fn new_value(&self, object: Option<Object>) -> NewValue<'_> {
        if let Some(object) = object {
            return NewValue::Object(object);
        }
        if let Some(bulk) = self.shared() {
            return NewValue::Shared(bulk.clone());
        }
        match self.value() {
            Value::Integer(integer) => NewValue::Integer(integer),
            Value::Text(text) => NewValue::Text(text),
            Value::Object(_) => unreachable!("the collection is taken out or copied first"),
        }
    }

    fn write_expiry(&mut self, at: u64) {
        debug_assert!(self.header().state.has_expiry());
        // SAFETY: with an expiry, eight bytes follow the value.
        unsafe { self.expiry_start().write_unaligned(at) };
    }

    fn header(&self) -> &Header {
        // SAFETY: the header is initialised for as long as the node lives.
        unsafe { self.pointer.as_ref() }
    }

    fn header_mut(&mut self) -> &mut Header {
        // SAFETY: as above, borrowed exclusively.
        unsafe { self.pointer.as_mut() }
    }

    /// Where the value begins: a word, or an object.
    fn value_start(&self) -> *mut u8 {
        // SAFETY: a value follows the header.
        unsafe { self.pointer.as_ptr().cast::<u8>().add(HEADER) }
    }

    fn object_start(&self) -> *mut Object {
        self.value_start().cast()
    }

    fn word(&self) -> Word {
        debug_assert!(self.header().state.kind() != Kind::Object);
        // SAFETY: callers have a value that is no collection, so there is a word here, aligned to `ALIGN`.
        unsafe { self.value_start().cast::<Word>().read() }
    }

    fn set_word(&mut self, word: Word) {
        debug_assert!(self.header().state.kind() != Kind::Object);
        // SAFETY: as above, borrowed exclusively.
        unsafe { self.value_start().cast::<Word>().write(word) };
    }

    fn text_size(&self) -> TextSize {
        debug_assert!(self.header().state.kind() == Kind::Text);
        // SAFETY: callers have a text; and any eight bytes are two valid u32.
        unsafe { self.word().text }
    }

    fn expiry_start(&self) -> *mut u64 {
        // SAFETY: the value lies within the allocation, and what follows begins within it or at its end.
        unsafe { self.value_start().add(value_size(self.header().state.kind())).cast() }
    }

    fn key_start(&self) -> *mut u8 {
        let state = &self.header().state;
        // SAFETY: the key begins within the allocation or at its end.
        unsafe { self.pointer.as_ptr().cast::<u8>().add(fixed_size(state.kind(), state.has_expiry())) }
    }

    fn text_start(&self) -> *mut u8 {
        // SAFETY: the text begins within the allocation or at its end.
        unsafe { self.key_start().add(self.header().key_len as usize) }
    }

    fn layout(&self) -> Layout {
        let header = self.header();
        let text = if header.state.kind() == Kind::Text { self.text_size().capacity as usize } else { 0 };
        let fixed = fixed_size(header.state.kind(), header.state.has_expiry());
        layout_of(fixed + header.key_len as usize + text)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let layout = self.layout();
        // SAFETY: the node owns its object and its allocation, and nothing uses them after this.
        unsafe {
            match self.header().state.kind() {
                Kind::Object => self.object_start().drop_in_place(),
                Kind::Shared => drop(Box::from_raw(self.word().shared.as_ptr())),
                Kind::Integer | Kind::Text => {}
            }
            dealloc(self.pointer.as_ptr().cast(), layout);
        }
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node")
            .field("key", &String::from_utf8_lossy(self.key()))
            .field("value", &self.value())
            .field("expire_at", &self.expire_at())
            .finish()
    }
}

/// Nodes are equal when their keys are: a keyspace holds one node per key.
impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Node {}

impl std::hash::Hash for Node {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

/// The bytes before the key.
#[inline]
fn fixed_size(kind: Kind, has_expiry: bool) -> usize {
    HEADER + value_size(kind) + if has_expiry { EXPIRY } else { 0 }
}

#[inline]
fn value_size(kind: Kind) -> usize {
    match kind {
        Kind::Integer | Kind::Text | Kind::Shared => size_of::<Word>(),
        Kind::Object => size_of::<Object>(),
    }
}

/// The capacity for a text of `len` bytes after `fixed` bytes that fills the allocation up to the next grain.
fn roomy_capacity(fixed: usize, len: usize) -> usize {
    (fixed + len).next_multiple_of(GRAIN) - fixed
}

/// A capacity as a node holds it.
fn roomy(capacity: usize) -> u32 {
    u32::try_from(capacity).expect("a capacity is up to a grain more than LEN_MAX")
}

fn layout_of(size: usize) -> Layout {
    Layout::from_size_align(size, ALIGN).expect("LEN_MAX keeps a node's size far from isize::MAX")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::encoding_limits::EncodingLimits;
    use crate::keyspace::values::collection::Set;
    use bytes::Bytes;

    fn set_of_one() -> Set {
        let mut set = Set::default();
        set.insert(EncodingLimits::default().of_sets(), b"member");
        set
    }

    fn text(node: &Node) -> &[u8] {
        match node.value() {
            Value::Text(text) => text,
            other => panic!("expected a text, got {other:?}"),
        }
    }

    #[test]
    fn a_string_is_stored_as_an_integer_if_it_is_one_and_shared_if_it_is_large() {
        let value_of = |text: &[u8]| {
            let node = Node::new(b"key", NewValue::of_string(text), None);
            assert_eq!(node.shared().map_or(text, SharedBulk::text), text);
            (node.encoding(), node.shared().is_some())
        };
        assert_eq!(value_of(b"-9223372036854775808"), ("int", false));
        assert_eq!(value_of(b"9223372036854775808"), ("embstr", false));
        assert_eq!(value_of(b""), ("embstr", false));
        assert_eq!(value_of(&[b'1'; SHARED_MIN - 1]), ("raw", false));
        assert_eq!(value_of(&[b'1'; SHARED_MIN]), ("raw", true));
    }

    #[test]
    fn a_shared_text_is_copied_when_it_is_changed_and_freed_by_its_last_owner() {
        let read = Bytes::from([b"$80\r\n", &[b'x'; 80][..], b"\r\n"].concat());
        let shared = || NewValue::Shared(SharedBulk::around(&read, 5..85).expect("it is encoded"));
        for expire_at in [None, Some(7)] {
            let mut node = Node::new(b"key", shared(), expire_at);
            assert_eq!((text(&node), node.expire_at(), node.encoding()), (&read[5..85], expire_at, "raw"));
            assert_eq!(text(&node).as_ptr(), read[5..].as_ptr(), "it is not copied");
            node.set_parity(true);
            node.set_last_use(12345);
            node.set_expire_at(Some(9));
            node.set_expire_at(expire_at);
            assert_eq!(text(&node).as_ptr(), read[5..].as_ptr(), "nor when the deadline changes");
            let (copied, renamed) = (node.copied(b"other"), node.copied(b"key").renamed(b"long name"));
            assert_eq!((text(&copied), text(&renamed), renamed.key()), (&read[5..85], &read[5..85], &b"long name"[..]));
            node.resize_text(82, 0)[81] = b'z';
            assert_eq!((text(&node).len(), &text(&node)[79..]), (82, &b"x\0z"[..]));
            assert!(node.parity() && node.usage() == 12345 && node.expire_at() == expire_at);
            node.set(shared(), None);
            node.text_mut().expect("it is a text").fill(b'y');
            assert_eq!((text(&node), text(&copied)), (&[b'y'; 80][..], &read[5..85]), "others keep what they share");
            node.set(NewValue::Integer(3), None);
            node.set(shared(), Some(1));
            node.set(NewValue::Text(b"short"), Some(1));
        }
        assert!(read.is_unique(), "no node holds it any more");
    }

    #[test]
    fn a_node_holds_what_it_was_given() {
        for key_len in [0, 1, 7, 8, 100] {
            let key = vec![b'k'; key_len];
            for expire_at in [None, Some(u64::MAX), Some(0)] {
                let node = Node::new(&key, NewValue::Text(b"value"), expire_at);
                assert_eq!(
                    (node.key(), text(&node), node.expire_at()),
                    (key.as_slice(), b"value".as_slice(), expire_at)
                );
                let node = Node::new(&key, NewValue::Integer(-5), expire_at);
                assert!(matches!(node.value(), Value::Integer(-5)));
                assert_eq!((node.key(), node.expire_at()), (key.as_slice(), expire_at));
            }
        }
    }

    #[test]
    fn a_length_is_held_as_it_is_or_not_at_all() {
        const GB: usize = 1 << 30;
        for len in [0, 1, GB, LEN_MAX] {
            assert_eq!(held(len) as usize, len);
        }
        for len in [LEN_MAX + 1, 2 * GB + 5, 4 * GB, 4 * GB + 5, usize::MAX] {
            assert!(std::panic::catch_unwind(|| held(len)).is_err(), "{len}");
        }
    }

    #[test]
    fn setting_keeps_the_key_whatever_the_old_and_new_shape() {
        type Make = fn() -> NewValue<'static>;
        let values: [Make; 5] = [
            || NewValue::Integer(7),
            || NewValue::Text(b""),
            || NewValue::Text(b"short"),
            || NewValue::Text(&[b'x'; 1000]),
            || NewValue::Object(Object::Set(Set::default())),
        ];
        for from in values {
            for to in values {
                for (old, new) in [(None, None), (None, Some(1)), (Some(1), None), (Some(1), Some(2))] {
                    let mut node = Node::new(b"key", from(), old);
                    node.set(to(), new);
                    assert_eq!(format!("{node:?}"), format!("{:?}", Node::new(b"key", to(), new)));
                    node.set_expire_at(old);
                    assert_eq!(format!("{node:?}"), format!("{:?}", Node::new(b"key", to(), old)));
                }
            }
        }
    }

    #[test]
    fn a_text_grows_with_zeros_and_shrinks() {
        let mut node = Node::new(b"k", NewValue::Text(b"ab"), Some(9));
        node.resize_text(5, 0)[4] = b'e';
        assert_eq!(text(&node), b"ab\0\0e");
        node.resize_text(1, 0);
        assert_eq!(text(&node), b"a");
        node.resize_text(5000, 5000);
        assert_eq!(text(&node)[..3], *b"a\0\0");
        assert_eq!((node.key(), node.expire_at()), (b"k".as_slice(), Some(9)));
    }

    #[test]
    fn a_node_is_renamed_and_copied_with_all_it_holds() {
        type Make = fn() -> NewValue<'static>;
        let values: [Make; 3] =
            [|| NewValue::Integer(7), || NewValue::Text(b"some text"), || NewValue::Object(Object::Set(set_of_one()))];
        for value in values {
            for expire_at in [None, Some(9)] {
                for key in [b"".as_slice(), b"yek", b"a longer key"] {
                    let wanted = format!("{:?}", Node::new(key, value(), expire_at));
                    let node = Node::new(b"key", value(), expire_at);
                    assert_eq!(format!("{:?}", node.copied(key)), wanted);
                    assert_eq!(format!("{:?}", node.renamed(key)), wanted);
                }
            }
        }
    }

    #[test]
    fn a_node_knows_when_it_was_used_whatever_else_changes() {
        let random = &mut fastrand::Rng::with_seed(1);
        let mut node = Node::new(b"key", NewValue::Text(b"text"), None);
        node.touch(Usage::LastUse, 1_700_000_000, random);
        node.set_expire_at(Some(7));
        assert_eq!(node.idle_seconds(1_700_000_010), 10);
        assert_eq!((text(&node), node.expire_at()), (b"text".as_slice(), Some(7)));
        node.set(NewValue::Integer(1), None);
        assert_eq!(node.idle_seconds(1_700_000_010), 10);
        node.set(NewValue::Text(b"text"), None);
        node.touch(Usage::LastUse, u64::from(u32::MAX), random);
        assert_eq!(node.idle_seconds(u64::from(u32::MAX) + 2), 2);
        let (same, longer) = (node.copied(b"yek"), node.renamed(b"a longer key"));
        assert_eq!(longer.idle_seconds(u64::from(u32::MAX) + 2), 2);
        assert_eq!(same.usage(), 0, "a copy is new");
        let node = longer;
        assert_eq!(node.encoding(), "embstr");
    }

    #[test]
    fn a_text_is_embedded_while_it_is_short_and_has_not_grown() {
        let mut node = Node::new(b"key", NewValue::Text(&[b'x'; 44]), None);
        assert_eq!(node.encoding(), "embstr");
        node.resize_text(10, 0);
        assert_eq!(node.encoding(), "raw");
        assert_eq!((node.copied(b"k").encoding(), node.copied(b"k").renamed(b"other").encoding()), ("raw", "raw"));
        node.set_expire_at(Some(7));
        assert_eq!(node.encoding(), "raw");
        node.set(NewValue::Text(b"x"), Some(7));
        assert_eq!(node.encoding(), "embstr");
        node.set(NewValue::Text(&[b'x'; 45]), None);
        assert_eq!(node.encoding(), "raw");
    }

    #[test]
    fn a_text_of_similar_length_is_written_in_place() {
        let mut node = Node::new(b"key", NewValue::Text(&[b'a'; 64]), None);
        let before = node.pointer;
        node.set(NewValue::Text(&[b'b'; 60]), None);
        assert_eq!(node.pointer, before);
        node.set(NewValue::Text(b"b"), None);
        assert_ne!(text(&node).len(), 60);
    }
}
