//! Lists: one listpack while they are small, then a deque of listpacks, as Redis's quicklist is.
//!
//! ```text
//! listpack:   | elements |
//! quicklist:  | elements | -> | elements | -> one large element -> | elements |
//! ```
//!
//! Inserting in the middle splits a full listpack; listpacks that have become small are joined with their neighbours.
//! An element larger than a listpack may be is alone, without a format.

use super::collection::Bytes;
use super::listpack::{Element, Listpack};
use crate::keyspace::encoding_limits::ListLimits;
use crate::keyspace::key_waiters::End;
use crate::keyspace::raw::packed_box::PackedBox;
use std::collections::VecDeque;
use std::ops::Range;

/// Redis's estimate of an element's overhead besides its bytes.
const ELEMENT_OVERHEAD: usize = 8;

/// A list: elements in order, added and taken at both ends.
#[derive(Debug, Clone)]
pub enum List {
    /// A small one.
    Packed(Listpack),
    /// Any other.
    Quick(PackedBox<Quicklist>),
}

/// Chunks of elements in order.
///
/// Invariant: no chunk is empty; `len` counts the elements of all.
#[derive(Debug, Clone, Default)]
pub struct Quicklist {
    chunks: VecDeque<Chunk>,
    len: usize,
}

#[derive(Debug, Clone)]
enum Chunk {
    Packed(Listpack),
    Plain(Bytes),
}

/// Neighbouring elements of a list, as they are stored: see [`List::nodes`].
#[derive(Debug, Clone, Copy)]
pub enum ListNode<'a> {
    /// Some, or many.
    Packed(&'a Listpack),
    /// A large one.
    Plain(&'a [u8]),
}

/// The position of an element, valid until the list changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    chunk: usize,
    offset: usize,
}

impl Default for List {
    fn default() -> Self {
        Self::Packed(Listpack::new())
    }
}

impl List {
    /// The encoding's name as OBJECT ENCODING replies it.
    pub fn encoding(&self) -> &'static str {
        match self {
            Self::Packed(_) => "listpack",
            Self::Quick(_) => "quicklist",
        }
    }

    /// How many elements there are.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Self::Packed(listpack) => listpack.len(),
            Self::Quick(quick) => quick.len,
        }
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Packed(listpack) => listpack.is_empty(),
            Self::Quick(quick) => quick.len == 0,
        }
    }

    /// The elements as they are stored.
    pub fn nodes(&self) -> impl Iterator<Item = ListNode<'_>> {
        let (packed, quick) = match self {
            Self::Packed(listpack) => (Some(ListNode::Packed(listpack)), None),
            Self::Quick(quick) => (None, Some(&quick.chunks)),
        };
        packed.into_iter().chain(quick.into_iter().flatten().map(Chunk::as_node))
    }

    /// About how many allocations it consists of.
    pub fn allocations(&self) -> usize {
        match self {
            Self::Packed(_) => 1,
            Self::Quick(quick) => quick.chunks.len(),
        }
    }

    /// Prepares for elements that are added in one step: whether the list stays small is decided for all of them
    /// together, as in Redis. Elements added without this call are added to the encoding that the list has.
    pub fn prepare<'e>(&mut self, limits: ListLimits, elements: impl ExactSizeIterator<Item = &'e [u8]>) {
        let Self::Packed(listpack) = self else { return };
        let len = listpack.len() + elements.len();
        let (sum, longest) =
            elements.map(<[u8]>::len).fold((0, 0), |(sum, longest): (usize, usize), len| (sum + len, longest.max(len)));
        if !limits.node.allows(listpack.byte_len() + sum, len) || is_large(limits, longest) {
            let chunk = std::mem::take(listpack);
            let len = chunk.len();
            let chunks = if len == 0 { VecDeque::new() } else { VecDeque::from([Chunk::Packed(chunk)]) };
            *self = Self::Quick(PackedBox::new(Quicklist { chunks, len }));
        }
    }

    /// Adds an element at an end. O(1), except for the bytes of one listpack
    #[inline]
    pub fn push(&mut self, limits: ListLimits, element: &[u8], end: End) {
        let parsed = Element::of(element);
        match (self, end) {
            (Self::Packed(listpack), End::Head) => listpack.push_front(parsed),
            (Self::Packed(listpack), End::Tail) => listpack.push_back(parsed),
            (Self::Quick(quick), end) => quick.push(limits, parsed, element.len(), end),
        }
    }

    /// The element at an end.
    pub fn peek(&self, end: End) -> Option<Element<'_>> {
        self.edge(end).map(|position| self.at(position))
    }

    /// The element `index`. O(N), N = listpacks, and elements of one
    pub fn get(&self, index: usize) -> Option<Element<'_>> {
        self.seek(index).map(|position| self.at(position))
    }

    /// Replaces the element `index`, which must exist. O(N), N = listpacks, and bytes of one
    pub fn set(&mut self, limits: ListLimits, index: usize, element: &[u8]) {
        let position = self.seek(index).expect("the caller has looked at the length");
        let parsed = Element::of(element);
        match self {
            Self::Packed(listpack) => listpack.replace(position.offset, parsed),
            Self::Quick(quick) => quick.replace(limits, position, parsed, element.len()),
        }
    }

    /// Adds an element before or after another. O(N) bytes of one listpack
    pub fn insert(&mut self, limits: ListLimits, position: Position, element: &[u8], side: End) {
        self.prepare(limits, std::iter::once(element));
        let parsed = Element::of(element);
        match self {
            Self::Packed(listpack) => {
                let offset = side_of(listpack, position.offset, side);
                listpack.insert(offset, parsed);
            }
            Self::Quick(quick) => quick.insert(limits, position, parsed, element.len(), side),
        }
    }

    /// Removes `count` elements from an end, or all. O(N), N = removed listpacks, and bytes of one
    pub fn truncate(&mut self, count: usize, end: End) {
        match self {
            Self::Packed(listpack) => truncate_packed(listpack, count, end),
            Self::Quick(quick) => quick.truncate(count, end),
        }
    }

    /// Removes an element, and returns the position of the next one towards `towards`. O(N) bytes of one listpack
    pub fn remove(&mut self, limits: ListLimits, position: Position, towards: End) -> Option<Position> {
        match self {
            Self::Packed(listpack) => {
                let Position { chunk, offset } = position;
                let previous = listpack.previous(offset);
                listpack.remove(offset, 1);
                let next = match towards {
                    End::Head => previous,
                    End::Tail => (offset + 1 < listpack.byte_len()).then_some(offset),
                };
                next.map(|offset| Position { chunk, offset })
            }
            Self::Quick(quick) => quick.remove(limits, position, towards),
        }
    }

    /// The elements of a range, in order. O(N), N = listpacks before it, and visited elements
    pub fn range(&self, range: Range<usize>) -> Elements<'_> {
        self.elements(range.start, range.len(), End::Tail)
    }

    /// The elements of a range, the last first.
    pub fn range_back(&self, range: Range<usize>) -> Elements<'_> {
        self.elements(range.end.wrapping_sub(1), range.len(), End::Head)
    }

    fn elements(&self, first: usize, count: usize, towards: End) -> Elements<'_> {
        let next = if count == 0 { None } else { self.seek(first) };
        Elements { list: self, next, left: count, towards }
    }

    /// The position of the element at an end.
    pub fn edge(&self, end: End) -> Option<Position> {
        match (self, end) {
            (Self::Packed(listpack), End::Head) => listpack.first(),
            (Self::Packed(listpack), End::Tail) => listpack.last(),
            (Self::Quick(quick), end) => return quick.edge(end),
        }
        .map(|offset| Position { chunk: 0, offset })
    }

    /// The element at a position.
    #[inline]
    pub fn at(&self, position: Position) -> Element<'_> {
        match self {
            Self::Packed(listpack) => listpack.at(position.offset),
            Self::Quick(quick) => quick.chunks[position.chunk].at(position.offset),
        }
    }

    /// The position of the next element towards an end.
    #[inline]
    pub fn step(&self, position: Position, towards: End) -> Option<Position> {
        match (self, towards) {
            (Self::Packed(listpack), End::Head) => listpack.previous(position.offset),
            (Self::Packed(listpack), End::Tail) => listpack.next(position.offset),
            (Self::Quick(quick), towards) => return quick.step(position, towards),
        }
        .map(|offset| Position { chunk: 0, offset })
    }

    fn seek(&self, index: usize) -> Option<Position> {
        match self {
            Self::Packed(listpack) => listpack.seek(index).map(|offset| Position { chunk: 0, offset }),
            Self::Quick(quick) => quick.seek(index),
        }
    }

    /// Makes a list that has shrunk small again.
    pub fn settle(&mut self, limits: ListLimits) {
        const SMALL_CAPACITY: usize = 64;
        const SPARSE: usize = 8;
        let Self::Quick(quick) = self else { return };
        let chunks = &mut quick.chunks;
        if chunks.capacity() > SMALL_CAPACITY && chunks.len() * SPARSE < chunks.capacity() {
            chunks.shrink_to(chunks.len() * 2);
        }
        if let [Chunk::Packed(listpack)] = chunks.make_contiguous_if_single()
            && limits.node.is_small(listpack.byte_len(), listpack.len())
        {
            *self = Self::Packed(std::mem::take(listpack));
        }
    }
}

/// A deque as a slice, if nothing has to be moved for that.
trait Single<T> {
    /// The only element, or none.
    fn make_contiguous_if_single(&mut self) -> &mut [T];
}

impl<T> Single<T> for VecDeque<T> {
    fn make_contiguous_if_single(&mut self) -> &mut [T] {
        if self.len() == 1 { self.as_mut_slices().0 } else { &mut [] }
    }
}

impl Chunk {
    fn of(limits: ListLimits, element: Element<'_>, len: usize) -> Self {
        match element {
            Element::Bytes(bytes) if is_large(limits, len) => Self::Plain(bytes.into()),
            element => {
                let mut listpack = Listpack::new();
                listpack.push_back(element);
                Self::Packed(listpack)
            }
        }
    }

    fn as_node(&self) -> ListNode<'_> {
        match self {
            Self::Packed(listpack) => ListNode::Packed(listpack),
            Self::Plain(bytes) => ListNode::Plain(bytes),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Packed(listpack) => listpack.len(),
            Self::Plain(_) => 1,
        }
    }

    fn at(&self, offset: usize) -> Element<'_> {
        match self {
            Self::Packed(listpack) => listpack.at(offset),
            Self::Plain(bytes) => Element::Bytes(bytes),
        }
    }

    /// The offset of the element at an end.
    fn edge(&self, end: End) -> usize {
        match (self, end) {
            (Self::Packed(listpack), End::Head) => listpack.first(),
            (Self::Packed(listpack), End::Tail) => listpack.last(),
            (Self::Plain(_), _) => Some(0),
        }
        .expect("no chunk is empty")
    }

    /// The listpack, if an element of `len` bytes may be added to it.
    #[inline]
    fn with_room(&mut self, limits: ListLimits, len: usize) -> Option<&mut Listpack> {
        match self {
            Self::Packed(listpack) if has_room(limits, listpack, len) => Some(listpack),
            _ => None,
        }
    }
}

impl Quicklist {
    fn push(&mut self, limits: ListLimits, element: Element<'_>, len: usize, end: End) {
        self.len += 1;
        match end {
            End::Head => match self.chunks.front_mut().and_then(|chunk| chunk.with_room(limits, len)) {
                Some(listpack) => listpack.push_front(element),
                None => self.chunks.push_front(Chunk::of(limits, element, len)),
            },
            End::Tail => match self.chunks.back_mut().and_then(|chunk| chunk.with_room(limits, len)) {
                Some(listpack) => listpack.push_back(element),
                None => self.chunks.push_back(Chunk::of(limits, element, len)),
            },
        }
    }

    fn edge(&self, end: End) -> Option<Position> {
        let chunk = match end {
            End::Head => 0,
            End::Tail => self.chunks.len().checked_sub(1)?,
        };
        self.chunks.get(chunk).map(|found| Position { chunk, offset: found.edge(end) })
    }

    fn seek(&self, index: usize) -> Option<Position> {
        if index >= self.len {
            return None;
        }
        let (chunk, inside) = if index <= self.len / 2 {
            self.seek_from_head(index)
        } else {
            let (chunk, inside) = self.seek_from_tail(self.len - 1 - index);
            (chunk, self.chunks[chunk].len() - 1 - inside)
        };
        let offset = match &self.chunks[chunk] {
            Chunk::Packed(listpack) => listpack.seek(inside).expect("the chunk has that many elements"),
            Chunk::Plain(_) => 0,
        };
        Some(Position { chunk, offset })
    }

    fn seek_from_head(&self, mut index: usize) -> (usize, usize) {
        let mut chunk = 0;
        while index >= self.chunks[chunk].len() {
            index -= self.chunks[chunk].len();
            chunk += 1;
        }
        (chunk, index)
    }

    fn seek_from_tail(&self, mut index: usize) -> (usize, usize) {
        let mut chunk = self.chunks.len() - 1;
        while index >= self.chunks[chunk].len() {
            index -= self.chunks[chunk].len();
            chunk -= 1;
        }
        (chunk, index)
    }

    #[inline]
    fn step(&self, position: Position, towards: End) -> Option<Position> {
        let Position { chunk, offset } = position;
        let inside = match (&self.chunks[chunk], towards) {
            (Chunk::Packed(listpack), End::Head) => listpack.previous(offset),
            (Chunk::Packed(listpack), End::Tail) => listpack.next(offset),
            (Chunk::Plain(_), _) => None,
        };
        if let Some(offset) = inside {
            return Some(Position { chunk, offset });
        }
        let (chunk, near) = match towards {
            End::Head => (chunk.checked_sub(1)?, End::Tail),
            End::Tail => (chunk + 1, End::Head),
        };
        self.chunks.get(chunk).map(|found| Position { chunk, offset: found.edge(near) })
    }

    fn insert(
        &mut self,
        limits: ListLimits,
        Position { chunk, offset }: Position,
        element: Element<'_>,
        len: usize,
        side: End,
    ) {
        self.len += 1;
        match &self.chunks[chunk] {
            Chunk::Packed(listpack) => {
                let offset = side_of(listpack, offset, side);
                self.put(limits, chunk, offset, element, len);
            }
            Chunk::Plain(_) => {
                self.chunks.insert(chunk + usize::from(side == End::Tail), Chunk::of(limits, element, len))
            }
        }
    }

    /// Puts an element at an offset of a packed chunk, or beside it if the chunk has no room. The chunk may be empty.
    fn put(&mut self, limits: ListLimits, chunk: usize, offset: usize, element: Element<'_>, len: usize) {
        if let Some(listpack) = self.chunks[chunk].with_room(limits, len) {
            listpack.insert(offset, element);
            return;
        }
        let Chunk::Packed(head) = &mut self.chunks[chunk] else { unreachable!("the chunk is packed") };
        let mut tail = head.split_off(offset);
        let mut added = None;
        if !head.is_empty() && has_room(limits, head, len) {
            head.push_back(element);
        } else if !tail.is_empty() && has_room(limits, &tail, len) {
            tail.push_front(element);
        } else {
            added = Some(Chunk::of(limits, element, len));
        }
        let is_headless = head.is_empty();
        if !tail.is_empty() {
            self.chunks.insert(chunk + 1, Chunk::Packed(tail));
        }
        match added {
            Some(added) if is_headless => self.chunks[chunk] = added,
            Some(added) => self.chunks.insert(chunk + 1, added),
            None if is_headless => drop(self.chunks.remove(chunk)),
            None => {}
        }
    }

    fn replace(&mut self, limits: ListLimits, Position { chunk, offset }: Position, element: Element<'_>, len: usize) {
        match &mut self.chunks[chunk] {
            Chunk::Packed(listpack) if has_room(limits, listpack, len) => listpack.replace(offset, element),
            Chunk::Packed(listpack) => {
                listpack.remove(offset, 1);
                self.put(limits, chunk, offset, element, len);
            }
            plain @ Chunk::Plain(_) => *plain = Chunk::of(limits, element, len),
        }
    }

    /// Removes an element, and returns the position of the next one towards `towards`.
    fn remove(&mut self, limits: ListLimits, position: Position, towards: End) -> Option<Position> {
        let Position { chunk, offset } = position;
        let mut next = self.step(position, towards);
        self.len -= 1;
        let is_empty = match &mut self.chunks[chunk] {
            Chunk::Packed(listpack) => {
                listpack.remove(offset, 1);
                listpack.is_empty()
            }
            Chunk::Plain(_) => true,
        };
        if is_empty {
            self.chunks.remove(chunk);
        }
        if let Some(next) = next.as_mut().filter(|_| towards == End::Tail) {
            match next.chunk == chunk {
                true => next.offset = offset,
                false => next.chunk -= usize::from(is_empty),
            }
        }
        next = self.join(limits, chunk, next);
        if chunk == 0 { next } else { self.join(limits, chunk - 1, next) }
    }

    /// Joins a chunk with the next if both together are small; returns where the element at a position is then.
    fn join(&mut self, limits: ListLimits, chunk: usize, position: Option<Position>) -> Option<Position> {
        const EMPTY_LEN: usize = 7;
        let (Some(Chunk::Packed(one)), Some(Chunk::Packed(other))) =
            (self.chunks.get(chunk), self.chunks.get(chunk + 1))
        else {
            return position;
        };
        if !limits.node.allows(2 * (one.byte_len() + other.byte_len()), 2 * (one.len() + other.len())) {
            return position;
        }
        let Some(Chunk::Packed(other)) = self.chunks.remove(chunk + 1) else { unreachable!("it was there") };
        let Chunk::Packed(one) = &mut self.chunks[chunk] else { unreachable!("it was packed") };
        let added = one.byte_len() - EMPTY_LEN;
        one.append(&other);
        position.map(|Position { chunk: at, offset }| match at {
            _ if at == chunk + 1 => Position { chunk, offset: offset + added },
            _ if at > chunk => Position { chunk: at - 1, offset },
            _ => Position { chunk: at, offset },
        })
    }

    fn truncate(&mut self, count: usize, end: End) {
        let mut left = count.min(self.len);
        self.len -= left;
        while left > 0 {
            let edge = match end {
                End::Head => self.chunks.front_mut(),
                End::Tail => self.chunks.back_mut(),
            };
            let edge = edge.expect("as many elements are left as are to go");
            let len = edge.len();
            match edge {
                Chunk::Packed(listpack) if left < len => return truncate_packed(listpack, left, end),
                _ => {
                    left -= len;
                    match end {
                        End::Head => self.chunks.pop_front(),
                        End::Tail => self.chunks.pop_back(),
                    };
                }
            }
        }
    }
}

fn truncate_packed(listpack: &mut Listpack, count: usize, end: End) {
    let kept = listpack.len().saturating_sub(count);
    let first = match end {
        End::Head => listpack.first(),
        End::Tail => listpack.seek(kept),
    };
    if let Some(first) = first {
        listpack.remove(first, count);
    }
}

/// The offset on a side of an element: its own, or the one after it.
fn side_of(listpack: &Listpack, offset: usize, side: End) -> usize {
    match side {
        End::Head => offset,
        End::Tail => listpack.next(offset).unwrap_or(listpack.byte_len() - 1),
    }
}

/// Whether an element of `len` bytes is too large for any listpack of a list.
fn is_large(limits: ListLimits, len: usize) -> bool {
    len > limits.node.bytes || len >= limits.packed
}

#[inline]
fn has_room(limits: ListLimits, listpack: &Listpack, len: usize) -> bool {
    limits.node.allows(listpack.byte_len().saturating_add(len + ELEMENT_OVERHEAD), listpack.len() + 1)
        && len < limits.packed
}

/// Elements of a list, in one direction.
#[derive(Debug, Clone)]
pub struct Elements<'a> {
    list: &'a List,
    next: Option<Position>,
    left: usize,
    towards: End,
}

impl<'a> Iterator for Elements<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        self.left = self.left.checked_sub(1)?;
        let position = self.next?;
        self.next = if self.left == 0 { None } else { self.list.step(position, self.towards) };
        Some(self.list.at(position))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Elements<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::encoding_limits::EncodingLimits;
    use proptest::prelude::*;

    fn limits() -> ListLimits {
        EncodingLimits::default().of_lists()
    }

    #[derive(Debug, Clone)]
    enum Step {
        Push(Vec<u8>, bool),
        Insert(usize, Vec<u8>, bool),
        Set(usize, Vec<u8>),
        Remove(usize, bool),
        Truncate(usize, bool),
        Shrink,
    }

    fn element() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            (0..1000u32).prop_map(|number| number.to_string().into_bytes()),
            (0..3000usize).prop_map(|len| vec![b'x'; len]),
            (8000..9000usize).prop_map(|len| vec![b'y'; len]),
        ]
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (element(), any::<bool>()).prop_map(|(element, side)| Step::Push(element, side)),
            3 => (any::<usize>(), element(), any::<bool>()).prop_map(|(at, element, side)| Step::Insert(at, element, side)),
            2 => (any::<usize>(), element()).prop_map(|(at, element)| Step::Set(at, element)),
            4 => (any::<usize>(), any::<bool>()).prop_map(|(at, side)| Step::Remove(at, side)),
            1 => (0..6usize, any::<bool>()).prop_map(|(count, side)| Step::Truncate(count, side)),
            1 => Just(Step::Shrink),
        ]
    }

    fn end(side: bool) -> End {
        if side { End::Head } else { End::Tail }
    }

    fn run(list: &mut List, model: &mut VecDeque<Vec<u8>>, step: Step) {
        let len = model.len();
        match step {
            Step::Push(element, side) => {
                list.prepare(limits(), std::iter::once(element.as_slice()));
                list.push(limits(), &element, end(side));
                model.insert(if side { 0 } else { len }, element);
            }
            Step::Truncate(count, side) => {
                list.truncate(count, end(side));
                let count = count.min(len);
                model.drain(if side { 0..count } else { len - count..len });
            }
            Step::Shrink => list.settle(limits()),
            _ if len == 0 => {}
            Step::Insert(at, element, side) => {
                let at = at % len;
                list.insert(limits(), list.seek(at).expect("it is there"), &element, end(side));
                model.insert(at + usize::from(!side), element);
            }
            Step::Set(at, element) => {
                list.prepare(limits(), std::iter::once(element.as_slice()));
                list.set(limits(), at % len, &element);
                model[at % len] = element;
            }
            Step::Remove(at, side) => {
                let at = at % len;
                let next = list.remove(limits(), list.seek(at).expect("it is there"), end(side));
                model.remove(at);
                let wanted = if side { at.checked_sub(1) } else { Some(at) };
                let wanted = wanted.and_then(|index| model.get(index)).cloned();
                assert_eq!(next.map(|position| list.at(position).to_vec()), wanted);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]
        #[test]
        fn a_list_is_a_deque_whatever_its_encoding(steps in proptest::collection::vec(step(), 0..150)) {
            let (mut list, mut model) = (List::default(), VecDeque::new());
            for step in steps {
                run(&mut list, &mut model, step);
                prop_assert_eq!(list.len(), model.len());
                prop_assert_eq!(list.is_empty(), model.is_empty());
                prop_assert!(list.range(0..model.len()).map(Element::to_vec).eq(model.iter().cloned()));
                let middle = model.len() / 3..model.len() - model.len() / 4;
                let back = list.range_back(middle.clone()).map(Element::to_vec);
                prop_assert!(back.eq(model.range(middle).rev().cloned()));
                if let List::Quick(quick) = &list {
                    prop_assert!(quick.chunks.iter().all(|chunk| chunk.len() > 0), "no chunk is empty");
                }
            }
        }
    }

    #[test]
    fn a_list_is_large_from_the_limit_on_and_small_again_below_half_of_it() {
        let mut list = List::default();
        let element = [b'x'; 100];
        let mut pushes = 0;
        while list.encoding() == "listpack" {
            list.prepare(limits(), std::iter::once(element.as_slice()));
            list.push(limits(), &element, End::Tail);
            pushes += 1;
        }
        // Each takes 103 bytes; the limit is 8192.
        assert_eq!(pushes, 80);
        while list.encoding() == "quicklist" {
            list.truncate(1, End::Tail);
            list.settle(limits());
        }
        assert_eq!(list.len(), 39);
    }

    #[test]
    fn many_removals_from_the_middle_leave_no_crumbs() {
        let mut list = List::default();
        (0..20_000).for_each(|n: u32| {
            let element = format!("element:{n}");
            list.prepare(limits(), std::iter::once(element.as_bytes()));
            list.push(limits(), element.as_bytes(), End::Tail);
        });
        let mut position = list.edge(End::Head);
        let mut index = 0;
        while let Some(at) = position {
            index += 1;
            position = if index % 20 == 0 { list.step(at, End::Tail) } else { list.remove(limits(), at, End::Tail) };
        }
        let List::Quick(quick) = &list else { panic!("1000 elements of 13 bytes are large") };
        assert!(quick.chunks.len() <= 8, "{} chunks for {} elements", quick.chunks.len(), list.len());
    }
}
