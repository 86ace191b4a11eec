//! Listpacks: many small elements in one run of bytes, in the format of Redis.
//!
//! ```text
//! | bytes of all, u32 | elements, u16 | element | element | ... | 0xFF |        (little endian)
//! element: | encoding, with a length or an integer | bytes | backlen |
//!
//! 0xxxxxxx                 integer 0 to 127
//! 10xxxxxx                 string of up to 63 bytes
//! 110xxxxx xxxxxxxx        integer of 13 bits
//! 1110xxxx xxxxxxxx        string of up to 4095 bytes
//! 0xF0, u32                string of up to 2^32 - 1 bytes
//! 0xF1 ... 0xF4            integer of 16, 24, 32, 64 bits
//! ```
//!
//! The backlen is the length of encoding and bytes, so that one can walk backwards: seven bits to a byte, the highest
//! first; all bytes but the first have their top bit set. A count of 65535 means that there are that many or more, and
//! that they were not counted. An element that reads as an integer is stored as one.
//!
//! DUMP, RESTORE and RDB files carry these bytes as they are: <https://github.com/antirez/listpack> has the format.

use crate::base::narrowing::{low_u8, low_u16, low_u32};
use crate::keyspace::raw::thin_buf::ThinBuf;
use crate::resp::parse_i64;

const HEADER: usize = 6;
const END: u8 = 0xFF;
/// The longest listpack: Redis's own bound.
const LEN_MAX: usize = 1 << 30;
/// The count of elements that says that they were not counted.
const UNCOUNTED: usize = u16::MAX as usize;

/// An element as read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element<'a> {
    /// An element that reads as an integer.
    Integer(i64),
    /// Any other.
    Bytes(&'a [u8]),
}

impl<'a> Element<'a> {
    /// An element for these bytes.
    pub fn of(bytes: &'a [u8]) -> Self {
        parse_i64(bytes).map_or(Self::Bytes(bytes), Self::Integer)
    }

    /// The element's bytes; those of an integer are written to `digits`.
    #[inline]
    pub fn bytes<'b>(self, digits: &'b mut itoa::Buffer) -> &'b [u8]
    where
        'a: 'b,
    {
        match self {
            Self::Integer(integer) => digits.format(integer).as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }

    /// The element's bytes as a value of their own.
    pub fn to_vec(self) -> Vec<u8> {
        self.bytes(&mut itoa::Buffer::new()).to_vec()
    }

    /// The integer that the element reads as, if it does.
    pub fn integer(self) -> Option<i64> {
        match self {
            Self::Integer(integer) => Some(integer),
            Self::Bytes(bytes) => parse_i64(bytes),
        }
    }

    /// How many bytes the element has, as a client sees it.
    pub fn len(self) -> usize {
        self.bytes(&mut itoa::Buffer::new()).len()
    }

    /// Whether the element is the empty one.
    pub fn is_empty(self) -> bool {
        self == Self::Bytes(&[])
    }

    /// Whether a client would see the same bytes. (A file may have an integer stored as a string.)
    pub fn is_same(self, other: Element<'_>) -> bool {
        match (self, other) {
            (Self::Integer(one), Element::Integer(other)) => one == other,
            (Self::Bytes(one), Element::Bytes(other)) => one == other,
            (one, other) => one.integer() == other.integer(),
        }
    }

    /// How many bytes the element takes in a listpack, including its backlen.
    pub fn encoded_len(self) -> usize {
        let len = match self {
            Self::Integer(integer) => integer_len(integer),
            Self::Bytes(bytes) => string_head_len(bytes.len()) + bytes.len(),
        };
        len + backlen_len(len)
    }

    /// Writes the element as encoded in a listpack; `out` has exactly its length.
    fn encode(self, out: &mut [u8]) {
        let len = match self {
            Self::Integer(integer) => encode_integer(integer, out),
            Self::Bytes(bytes) => encode_string(bytes, out),
        };
        encode_backlen(len, &mut out[len..]);
    }
}

/// Many small elements in one allocation, in order.
///
/// Offsets of elements are in bytes. They are valid until the listpack changes, and come from the listpack
/// itself: its methods panic if no element begins there, and never read elsewhere.
#[derive(Clone)]
pub struct Listpack(ThinBuf);

impl Default for Listpack {
    fn default() -> Self {
        Self::new()
    }
}

impl Listpack {
    /// A listpack without elements.
    pub fn new() -> Self {
        Self(ThinBuf::new(&[&[0, 0, END]]))
    }

    /// The listpack in untrusted bytes, if they are one: each element is checked. O(N) bytes.
    pub fn from_untrusted(bytes: &[u8]) -> Option<Self> {
        is_listpack(bytes).then(|| Self(ThinBuf::new(&[&bytes[size_of::<u32>()..]])))
    }

    /// The bytes in Redis's format.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    /// How many bytes the format takes.
    #[inline]
    pub fn byte_len(&self) -> usize {
        self.0.len()
    }

    /// How many bytes are allocated.
    pub fn allocated(&self) -> usize {
        self.0.allocated()
    }

    /// How many elements there are. O(1) below 65535, O(N) from there on.
    #[inline]
    pub fn len(&self) -> usize {
        match stored_count(self.as_bytes()) {
            UNCOUNTED => self.offsets().count(),
            count => count,
        }
    }

    /// Whether there is no element.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.byte_len() == HEADER + 1
    }

    /// The offset of the first element.
    #[inline]
    pub fn first(&self) -> Option<usize> {
        (!self.is_empty()).then_some(HEADER)
    }

    /// The offset of the last element.
    #[inline]
    pub fn last(&self) -> Option<usize> {
        self.previous(self.byte_len() - 1)
    }

    /// The offset of the element after one.
    #[inline]
    pub fn next(&self, offset: usize) -> Option<usize> {
        let next = self.end_of(offset);
        (self.as_bytes()[next] != END).then_some(next)
    }

    /// The offset of the element before one, or before the end.
    #[inline]
    pub fn previous(&self, offset: usize) -> Option<usize> {
        if offset <= HEADER {
            return None;
        }
        let (len, backlen_len) = decode_backlen(&self.as_bytes()[..offset]).expect("an element ends with its length");
        Some(offset - len - backlen_len)
    }

    /// The offset of the element `index`; walks from the nearer end. O(N)
    pub fn seek(&self, index: usize) -> Option<usize> {
        let len = self.len();
        if index >= len {
            return None;
        }
        if index <= len / 2 { self.offsets().nth(index) } else { self.offsets().nth_back(len - 1 - index) }
    }

    /// The element at an offset.
    #[inline]
    pub fn at(&self, offset: usize) -> Element<'_> {
        decode(&self.as_bytes()[offset..]).0
    }

    /// The elements in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Element<'_>> + Clone {
        self.offsets().map(|offset| self.at(offset))
    }

    /// The offsets of the elements in order.
    pub fn offsets(&self) -> Offsets<'_> {
        Offsets { listpack: self, front: HEADER, back: self.byte_len() - 1 }
    }

    /// The offset of the first element equal to `wanted`, checking every `stride`th from `start` on. O(N)
    pub fn find(&self, start: Option<usize>, wanted: Element<'_>, stride: usize) -> Option<usize> {
        let bytes = self.as_bytes();
        let mut offset = start?;
        loop {
            let (element, len) = decode(&bytes[offset..]);
            if element.is_same(wanted) {
                return Some(offset);
            }
            offset += len;
            for _ in 1..stride {
                if bytes[offset] == END {
                    return None;
                }
                offset = self.end_of(offset);
            }
            if bytes[offset] == END {
                return None;
            }
        }
    }

    /// Whether an element fits: the total length stays in bounds.
    pub fn has_room_for(&self, element: Element<'_>) -> bool {
        self.byte_len() + element.encoded_len() <= LEN_MAX
    }

    /// Whether two elements fit.
    pub fn has_room_for_both(&self, one: Element<'_>, other: Element<'_>) -> bool {
        self.byte_len() + one.encoded_len() + other.encoded_len() <= LEN_MAX
    }

    /// Adds an element at the front. O(N) bytes
    pub fn push_front(&mut self, element: Element<'_>) {
        self.insert(HEADER, element);
    }

    /// Adds an element at the back.
    #[inline]
    pub fn push_back(&mut self, element: Element<'_>) {
        self.insert(self.byte_len() - 1, element);
    }

    /// Adds an element before the one at `offset`, or before the end; afterwards `offset` is that of the new element.
    /// O(N) bytes
    pub fn insert(&mut self, offset: usize, element: Element<'_>) {
        element.encode(self.0.splice(offset, 0, element.encoded_len()));
        self.count(|count| count + 1);
    }

    /// Puts an element where another is. O(N) bytes
    pub fn replace(&mut self, offset: usize, element: Element<'_>) {
        let old = self.end_of(offset) - offset;
        element.encode(self.0.splice(offset, old, element.encoded_len()));
    }

    /// Removes `count` elements from `offset` on, or as many as there are, and returns how many. Afterwards `offset` is
    /// that of the next element. O(N) bytes
    pub fn remove(&mut self, offset: usize, count: usize) -> usize {
        let mut end = offset;
        let mut removed = 0;
        while removed < count && self.as_bytes()[end] != END {
            end = self.end_of(end);
            removed += 1;
        }
        self.0.splice(offset, end - offset, 0);
        self.count(|count| count - removed);
        removed
    }

    /// Moves the elements from `offset` on to a listpack of their own. O(N) bytes
    pub fn split_off(&mut self, offset: usize) -> Self {
        let mut tail = Self::new();
        let bytes = self.byte_len() - 1 - offset;
        tail.0.splice(HEADER, 0, bytes).copy_from_slice(&self.as_bytes()[offset..][..bytes]);
        let moved = tail.offsets().count();
        tail.count(|_| moved);
        self.0.splice(offset, bytes, 0);
        let left = if stored_count(self.as_bytes()) == UNCOUNTED { None } else { Some(moved) };
        match left {
            Some(moved) => self.count(|count| count - moved),
            None => self.recount(),
        }
        tail
    }

    /// Appends the elements of another listpack. O(N) bytes
    pub fn append(&mut self, other: &Self) {
        let bytes = &other.as_bytes()[HEADER..other.byte_len() - 1];
        let added = other.len();
        self.0.splice(self.byte_len() - 1, 0, bytes.len()).copy_from_slice(bytes);
        self.count(|count| count + added);
    }

    fn recount(&mut self) {
        let count = low_u16(self.offsets().count().min(UNCOUNTED) as u64);
        self.0.rest_mut()[..2].copy_from_slice(&count.to_le_bytes());
    }

    /// Changes the count of elements, if it is known.
    #[inline]
    fn count(&mut self, change: impl FnOnce(usize) -> usize) {
        let count = stored_count(self.as_bytes());
        if count != UNCOUNTED {
            let count = low_u16(change(count).min(UNCOUNTED) as u64);
            self.0.rest_mut()[..2].copy_from_slice(&count.to_le_bytes());
        }
    }

    #[inline]
    fn end_of(&self, offset: usize) -> usize {
        offset + element_len(&self.as_bytes()[offset..])
    }
}

impl std::fmt::Debug for Listpack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The offsets of a listpack's elements: see [`Listpack::offsets`].
#[derive(Debug, Clone)]
pub struct Offsets<'a> {
    listpack: &'a Listpack,
    front: usize,
    /// The end of the last element that has not been returned.
    back: usize,
}

impl Iterator for Offsets<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        (self.front < self.back).then(|| {
            let offset = self.front;
            self.front = self.listpack.end_of(offset);
            offset
        })
    }
}

impl DoubleEndedIterator for Offsets<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<usize> {
        if self.front == self.back {
            return None;
        }
        self.back = self.listpack.previous(self.back)?;
        Some(self.back)
    }
}

fn stored_count(bytes: &[u8]) -> usize {
    usize::from(u16::from_le_bytes([bytes[4], bytes[5]]))
}

fn integer_len(integer: i64) -> usize {
    match integer {
        0..=127 => 1,
        -4096..=4095 => 2,
        -32_768..=32_767 => 3,
        -8_388_608..=8_388_607 => 4,
        -2_147_483_648..=2_147_483_647 => 5,
        _ => 9,
    }
}

fn encode_integer(integer: i64, out: &mut [u8]) -> usize {
    let bytes = integer.to_le_bytes();
    let len = integer_len(integer);
    match len {
        1 => out[0] = bytes[0],
        2 => (out[0], out[1]) = (0b1100_0000 | (bytes[1] & 0b0001_1111), bytes[0]),
        _ => {
            out[0] = match len {
                3 => 0xF1,
                4 => 0xF2,
                5 => 0xF3,
                _ => 0xF4,
            };
            out[1..len].copy_from_slice(&bytes[..len - 1]);
        }
    }
    len
}

fn string_head_len(len: usize) -> usize {
    match len {
        0..64 => 1,
        64..4096 => 2,
        _ => 5,
    }
}

fn encode_string(bytes: &[u8], out: &mut [u8]) -> usize {
    let len = bytes.len();
    let head = string_head_len(len);
    let said = low_u32(len as u64);
    match head {
        1 => out[0] = 0b1000_0000 | low_u8(len as u64),
        2 => (out[0], out[1]) = (0b1110_0000 | low_u8(len as u64 >> 8), low_u8(len as u64)),
        _ => {
            debug_assert_eq!(said as usize, len, "LEN_MAX bounds a listpack");
            out[0] = 0xF0;
            out[1..5].copy_from_slice(&said.to_le_bytes());
        }
    }
    out[head..head + len].copy_from_slice(bytes);
    head + len
}

/// How many bytes the backlen of `len` bytes takes: Redis does not use the last value of each width except the first.
fn backlen_len(len: usize) -> usize {
    match len {
        0..=127 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    }
}

fn encode_backlen(len: usize, out: &mut [u8]) {
    let width = backlen_len(len);
    for (index, byte) in out[..width].iter_mut().enumerate() {
        let more = if index == 0 { 0 } else { 0x80 };
        *byte = low_u8(len as u64 >> (7 * (width - 1 - index))) & 0x7F | more;
    }
}

/// The length at the end of `bytes`, and how many bytes it takes itself.
#[inline]
fn decode_backlen(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut len = 0;
    for width in 1..=5 {
        let byte = *bytes.get(bytes.len().checked_sub(width)?)?;
        len |= usize::from(byte & 0x7F) << (7 * (width - 1));
        if byte & 0x80 == 0 {
            return Some((len, width));
        }
    }
    None
}

/// The length of the element that begins here, including its backlen.
#[inline]
fn element_len(bytes: &[u8]) -> usize {
    let len = head_of(bytes).expect("an element begins at its offset").payload_end();
    len + backlen_len(len)
}

/// The beginning of an element, decoded from the encoding's first byte.
#[derive(Clone, Copy)]
enum Head {
    Small(u8),
    Medium(i64),
    /// An integer of this many bytes after the first.
    Wide(usize),
    /// A string: where it begins, and its length.
    String(usize, usize),
}

impl Head {
    #[inline]
    fn payload_end(self) -> usize {
        match self {
            Self::Small(_) => 1,
            Self::Medium(_) => 2,
            Self::Wide(width) => 1 + width,
            Self::String(start, len) => start + len,
        }
    }
}

/// The beginning of an element; `None` if there is none, or its own length is cut off.
#[inline]
fn head_of(bytes: &[u8]) -> Option<Head> {
    let second = || bytes.get(1).copied().map(usize::from);
    let first = *bytes.first()?;
    Some(match first {
        0..0x80 => Head::Small(first),
        0x80..0xC0 => Head::String(1, usize::from(first & 0x3F)),
        0xC0..0xE0 => {
            let bits = (usize::from(first & 0x1F) << 8 | second()?) as i64;
            // The 13th bit is the sign.
            Head::Medium(if bits < 1 << 12 { bits } else { bits - (1 << 13) })
        }
        0xE0..0xF0 => Head::String(2, usize::from(first & 0x0F) << 8 | second()?),
        0xF0 => Head::String(5, u32::from_le_bytes(bytes.get(1..5)?.try_into().ok()?) as usize),
        0xF1..=0xF3 => Head::Wide(usize::from(first) - 0xEF),
        0xF4 => Head::Wide(8),
        _ => return None,
    })
}

/// The element that begins here, and its length with the backlen.
#[inline]
fn decode(bytes: &[u8]) -> (Element<'_>, usize) {
    let head = head_of(bytes).expect("an element begins at its offset");
    let end = head.payload_end();
    let element = match head {
        Head::Small(value) => Element::Integer(i64::from(value)),
        Head::Medium(value) => Element::Integer(value),
        Head::Wide(width) => Element::Integer(wide_integer(&bytes[1..1 + width])),
        Head::String(start, len) => Element::Bytes(&bytes[start..start + len]),
    };
    (element, end + backlen_len(end))
}

/// A signed integer of up to eight bytes.
fn wide_integer(bytes: &[u8]) -> i64 {
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    let unused = 64 - 8 * low_u32(bytes.len() as u64);
    (i64::from_le_bytes(wide) << unused) >> unused
}

/// Whether bytes are a listpack: its header has its length, and between it and the end are whole elements, as many as
/// it says.
fn is_listpack(bytes: &[u8]) -> bool {
    let len_said = bytes.first_chunk().map(|len| u32::from_le_bytes(*len) as usize);
    if len_said != Some(bytes.len()) || bytes.len() <= HEADER || bytes.len() > LEN_MAX {
        return false;
    }
    let (mut offset, last) = (HEADER, bytes.len() - 1);
    let mut elements = 0;
    while offset < last {
        let Some(len) = checked_element_len(&bytes[offset..last]) else { return false };
        offset += len;
        elements += 1;
    }
    let count = stored_count(bytes);
    bytes[last] == END && (count == UNCOUNTED || count == elements)
}

/// The length of the element that begins here, if it is whole and its two lengths agree.
fn checked_element_len(bytes: &[u8]) -> Option<usize> {
    let len = head_of(bytes)?.payload_end();
    let end = len.checked_add(backlen_len(len))?;
    let backlen = decode_backlen(bytes.get(..end)?)?;
    (backlen == (len, backlen_len(len))).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_bytes_are_those_of_redis() {
        let mut listpack = Listpack::new();
        assert_eq!(listpack.as_bytes(), b"\x07\0\0\0\0\0\xFF");
        for element in ["1", "-1", "hello", "1000", "-40000", "8388607", "2147483647", "-2147483649", ""] {
            listpack.push_back(Element::of(element.as_bytes()));
        }
        let elements: [&[u8]; 9] = [
            b"\x01\x01",
            b"\xDF\xFF\x02",
            b"\x85hello\x06",
            b"\xC3\xE8\x02",
            b"\xF2\xC0\x63\xFF\x04",
            b"\xF2\xFF\xFF\x7F\x04",
            b"\xF3\xFF\xFF\xFF\x7F\x05",
            b"\xF4\xFF\xFF\xFF\x7F\xFF\xFF\xFF\xFF\x09",
            b"\x80\x01",
        ];
        assert_eq!(listpack.as_bytes()[HEADER..listpack.byte_len() - 1], elements.concat());
        assert_eq!(listpack.as_bytes()[..HEADER], [listpack.byte_len() as u8, 0, 0, 0, 9, 0]);
        let long = Element::Bytes(&[b'x'; 5000]);
        listpack.replace(HEADER, long);
        assert_eq!(listpack.as_bytes()[HEADER..HEADER + 5], *b"\xF0\x88\x13\0\0");
        assert_eq!(listpack.as_bytes()[HEADER + 5005..HEADER + 5007], [(5005 >> 7) as u8, 0x80 | (5005 & 0x7F) as u8]);
    }

    #[test]
    fn a_backlen_is_read_as_it_was_written() {
        for len in [0, 1, 127, 128, 16_382, 16_383, 16_384, 2_097_150, 2_097_151, 268_435_454, 268_435_455, 1 << 30] {
            let mut bytes = [0; 5];
            encode_backlen(len, &mut bytes);
            assert_eq!(decode_backlen(&bytes[..backlen_len(len)]), Some((len, backlen_len(len))), "{len}");
        }
    }

    #[test]
    fn many_elements_are_counted_one_by_one() {
        const ELEMENTS: usize = UNCOUNTED + 10;
        let mut listpack = Listpack::new();
        (0..ELEMENTS).for_each(|_| listpack.push_back(Element::Integer(1)));
        assert_eq!(listpack.len(), ELEMENTS);
        assert!(Listpack::from_untrusted(listpack.as_bytes()).is_some());
        let offset = listpack.seek(100).expect("there are that many");
        let tail = listpack.split_off(offset);
        assert_eq!((listpack.len(), tail.len()), (100, ELEMENTS - 100));
        listpack.append(&tail);
        assert_eq!(listpack.len(), ELEMENTS);
        assert_eq!(listpack.remove(HEADER, 20), 20);
        assert_eq!(listpack.len(), ELEMENTS - 20);
    }

    #[test]
    fn what_is_no_listpack_is_refused() {
        let mut listpack = Listpack::new();
        ["a", "12", "-70000", &"x".repeat(200)].iter().for_each(|e| listpack.push_back(Element::of(e.as_bytes())));
        let good = listpack.as_bytes().to_vec();
        assert!(Listpack::from_untrusted(&good).is_some());
        for end in 0..good.len() {
            assert!(Listpack::from_untrusted(&good[..end]).is_none(), "cut at {end}");
        }
        // Whichever byte is changed, an accepted listpack can be walked to its end from both sides.
        for at in 0..good.len() {
            for value in 0..=u8::MAX {
                let mut bytes = good.clone();
                bytes[at] = value;
                if let Some(listpack) = Listpack::from_untrusted(&bytes) {
                    assert_eq!(listpack.iter().count(), listpack.iter().rev().count());
                }
            }
        }
        let missing_end = [8, 0, 0, 0, 0, 0, 1, 1];
        assert!(Listpack::from_untrusted(&missing_end).is_none());
    }

    #[derive(Debug, Clone)]
    enum Step {
        Insert(usize, Vec<u8>),
        Replace(usize, Vec<u8>),
        Remove(usize, usize),
        SplitAndAppend(usize),
        Find(usize, usize),
    }

    fn element() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            any::<i64>().prop_map(|integer| integer.to_string().into_bytes()),
            (any::<i64>(), 0..64u32).prop_map(|(integer, shift)| (integer >> shift).to_string().into_bytes()),
            proptest::collection::vec(any::<u8>(), 0..100),
            (0..6000usize).prop_map(|len| vec![b'x'; len]),
        ]
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (any::<usize>(), element()).prop_map(|(at, element)| Step::Insert(at, element)),
            1 => (any::<usize>(), element()).prop_map(|(at, element)| Step::Replace(at, element)),
            1 => (any::<usize>(), 0..4usize).prop_map(|(at, count)| Step::Remove(at, count)),
            1 => any::<usize>().prop_map(Step::SplitAndAppend),
            1 => (any::<usize>(), 1..4usize).prop_map(|(at, stride)| Step::Find(at, stride)),
        ]
    }

    fn offset(listpack: &Listpack, index: usize) -> usize {
        listpack.seek(index).unwrap_or(listpack.byte_len() - 1)
    }

    fn run(listpack: &mut Listpack, model: &mut Vec<Vec<u8>>, step: Step) {
        match step {
            Step::Insert(at, element) => {
                let at = at % (model.len() + 1);
                listpack.insert(offset(listpack, at), Element::of(&element));
                model.insert(at, element);
            }
            Step::Replace(at, element) if !model.is_empty() => {
                let at = at % model.len();
                listpack.replace(offset(listpack, at), Element::of(&element));
                model[at] = element;
            }
            Step::Remove(at, count) => {
                let at = at % (model.len() + 1);
                let end = (at + count).min(model.len());
                assert_eq!(listpack.remove(offset(listpack, at), count), end - at);
                model.drain(at..end);
            }
            Step::SplitAndAppend(at) => {
                let at = at % (model.len() + 1);
                let tail = listpack.split_off(offset(listpack, at));
                assert_eq!((listpack.len(), tail.len()), (at, model.len() - at));
                listpack.append(&tail);
            }
            Step::Find(at, stride) if !model.is_empty() => {
                let wanted = &model[at % model.len()];
                let index = model.iter().step_by(stride).position(|element| element == wanted);
                let found = listpack.find(listpack.first(), Element::of(wanted), stride);
                assert_eq!(found, index.map(|index| offset(listpack, index * stride)));
            }
            Step::Replace(..) | Step::Find(..) => {}
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_listpack_is_a_list(steps in proptest::collection::vec(step(), 0..120)) {
            let (mut listpack, mut model) = (Listpack::new(), Vec::new());
            for step in steps {
                run(&mut listpack, &mut model, step);
                prop_assert_eq!(listpack.len(), model.len());
                prop_assert!(listpack.iter().map(Element::to_vec).eq(model.iter().cloned()));
                prop_assert!(listpack.iter().rev().map(Element::to_vec).eq(model.iter().rev().cloned()));
            }
            let copy = Listpack::from_untrusted(listpack.as_bytes()).expect("its bytes are a listpack");
            prop_assert_eq!(copy.as_bytes(), listpack.as_bytes());
        }

        #[test]
        fn no_bytes_make_the_validation_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let mut bytes = bytes;
            let len = (bytes.len() as u32).to_le_bytes();
            if let Some(len_said) = bytes.first_chunk_mut() {
                *len_said = len;
            }
            if let Some(listpack) = Listpack::from_untrusted(&bytes) {
                prop_assert_eq!(listpack.iter().count(), listpack.iter().rev().count());
            }
        }
    }
}
