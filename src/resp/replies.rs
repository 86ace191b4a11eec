//! Consecutive replies in several buffers: none of them grows much beyond a megabyte and one reply.
//!
//! A single buffer would copy its contents each time it grows, and once more when it is passed on. A full buffer is
//! only moved: from a transaction or a batch to the output of its connection, where it is freed as soon as it is sent.

use super::{SHARED_MIN, SharedBulk};
use crate::base::buffers;
use bytes::Bytes;
use std::collections::VecDeque;
use std::ops::{Deref, Range};

/// Bytes from which on a buffer is full: the next reply begins another.
pub const FULL: usize = 1024 * 1024;
/// Bytes from which on a buffer is moved instead of copied.
const MOVED: usize = 64 * 1024;

/// Replies, or other data for a client, in order.
///
/// Invariants: no reply is in two buffers; a position counts the bytes of all buffers.
#[derive(Debug, Default)]
pub struct Replies {
    full: Vec<Full>,
    /// How many bytes are in `full`.
    full_len: usize,
    last: Vec<u8>,
}

/// A buffer that takes no more replies.
#[derive(Debug)]
struct Full {
    /// The position of its first byte.
    start: usize,
    bytes: Buffer,
}

/// A buffer with nothing to be appended.
#[derive(Debug)]
enum Buffer {
    Own(Vec<u8>),
    /// One reply, which has other owners, too.
    Shared(Bytes),
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

impl Buffer {
    /// Bytes of memory that belong to this buffer alone.
    fn capacity(&self) -> usize {
        match self {
            Self::Own(bytes) => bytes.capacity(),
            Self::Shared(_) => 0,
        }
    }

    /// Takes it, unless copying it costs less.
    fn take_if_large(&mut self) -> Option<Self> {
        match self {
            Self::Own(bytes) if bytes.len() < MOVED => None,
            Self::Own(bytes) => Some(Self::Own(std::mem::take(bytes))),
            Self::Shared(bytes) => Some(Self::Shared(std::mem::take(bytes))),
        }
    }
}

impl Replies {
    /// How many bytes there are: the position of the next one.
    #[inline]
    pub fn len(&self) -> usize {
        self.full_len + self.last.len()
    }

    /// The buffer for the next reply, which is appended whole.
    #[inline]
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.last
    }

    /// Ends a reply that has been appended, and returns its end position.
    #[inline]
    pub fn end_reply(&mut self) -> usize {
        if self.last.len() >= FULL {
            self.end_buffer();
        }
        self.len()
    }

    #[cold]
    fn end_buffer(&mut self) {
        let bytes = std::mem::take(&mut self.last);
        self.push_full(Buffer::Own(bytes));
    }

    fn push_full(&mut self, bytes: Buffer) {
        let start = self.full_len;
        self.full_len += bytes.len();
        self.full.push(Full { start, bytes });
    }

    /// Appends a string as a whole reply.
    #[cold]
    pub fn append_shared(&mut self, bulk: SharedBulk) {
        if !self.last.is_empty() {
            self.end_buffer();
        }
        self.push_full(Buffer::Shared(bulk.into_encoded()));
    }

    /// Removes what was appended after the first `len` bytes, which is at most the last reply.
    pub fn truncate(&mut self, len: usize) {
        if len < self.full_len {
            let shared = self.full.pop().expect("a reply that is not in the last buffer is in one of its own");
            self.full_len = shared.start;
        }
        self.last.truncate(len - self.full_len);
    }

    /// Removes all replies. The memory of the last buffer stays.
    pub fn clear(&mut self) {
        self.full = Vec::new();
        self.full_len = 0;
        self.last.clear();
    }

    /// Frees memory of the last buffer beyond this many bytes.
    pub fn shrink_to(&mut self, bytes: usize) {
        self.last.shrink_to(bytes);
    }

    /// Bytes of memory that it takes.
    pub fn capacity(&self) -> usize {
        self.full.iter().map(|full| full.bytes.capacity()).sum::<usize>() + self.last.capacity()
    }

    /// The bytes of one reply, or of several in one buffer.
    #[inline]
    pub fn at(&self, range: Range<usize>) -> &[u8] {
        match range.start.checked_sub(self.full_len) {
            Some(start) => &self.last[start..range.end - self.full_len],
            None => self.at_full(range),
        }
    }

    #[cold]
    fn at_full(&self, range: Range<usize>) -> &[u8] {
        let Full { start, bytes } = &self.full[self.index_of(range.start)];
        &bytes[range.start - start..range.end - start]
    }

    /// The full buffer that holds the byte at `position`.
    fn index_of(&self, position: usize) -> usize {
        self.full.partition_point(|full| full.start <= position) - 1
    }

    /// Moves one reply, or several in one buffer, to `out`; copies them if there are others beside them.
    #[inline]
    pub fn move_one(&mut self, range: Range<usize>, out: &mut Output) {
        if range.is_empty() {
            // It may be in a buffer that has been moved.
        } else if range.len() < SHARED_MIN {
            out.buffer().extend_from_slice(self.at(range));
        } else {
            self.move_all(range, out);
        }
    }

    /// Moves whole replies to `out`; full buffers are not copied.
    pub fn move_all(&mut self, range: Range<usize>, out: &mut Output) {
        let Range { mut start, end } = range;
        while start < end {
            if start >= self.full_len {
                return self.move_of_last(start - self.full_len..end - self.full_len, out);
            }
            let index = self.index_of(start);
            let Full { start: buffer_start, bytes } = &mut self.full[index];
            let here = start - *buffer_start..bytes.len().min(end - *buffer_start);
            start = *buffer_start + here.end;
            match if here.len() == bytes.len() { bytes.take_if_large() } else { None } {
                Some(whole) => out.append_buffer(whole),
                None => out.buffer().extend_from_slice(&bytes[here]),
            }
        }
    }
}

impl Replies {
    fn move_of_last(&mut self, range: Range<usize>, out: &mut Output) {
        if range.len() == self.last.len() && range.len() >= MOVED {
            out.append_buffer(Buffer::Own(std::mem::take(&mut self.last)));
        } else {
            out.buffer().extend_from_slice(&self.last[range]);
        }
    }
}

/// The next bytes for a socket, in several buffers.
///
/// Invariants: `sent` bytes of the first buffer were sent, and fewer than it holds unless it is empty; `full_len` is
/// what the buffers of `full` hold, none of which is empty.
#[derive(Debug, Default)]
pub struct Output {
    /// Buffers that leave before `last`.
    full: VecDeque<Buffer>,
    full_len: usize,
    last: Vec<u8>,
    sent: usize,
    is_over_limit: bool,
}

impl Output {
    /// Bytes that were not sent.
    #[inline]
    pub fn unsent(&self) -> usize {
        self.full_len + self.last.len() - self.sent
    }

    /// Bytes that its buffers have besides what was not sent: O(N), N = buffers.
    pub fn free(&self) -> usize {
        let full: usize = self.full.iter().map(|full| full.capacity().max(full.len())).sum();
        full + self.last.capacity() - self.unsent()
    }

    /// The buffer for replies and messages.
    #[inline]
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        if self.last.capacity() == 0 {
            self.last = buffers::take();
        }
        &mut self.last
    }

    /// The length of [`buffer`](Self::buffer) up to which fewer than `bytes` are unsent.
    pub fn room(&self, bytes: usize) -> usize {
        (self.last.len() + bytes).saturating_sub(self.unsent())
    }

    /// Appends all replies of a batch; if this buffer is empty, the batch gets its memory.
    #[inline]
    pub fn append(&mut self, replies: &mut Replies) {
        if !replies.full.is_empty() {
            self.append_full(replies);
        }
        if self.last.is_empty() {
            std::mem::swap(&mut self.last, &mut replies.last);
        } else if replies.last.len() < MOVED {
            self.last.extend_from_slice(&replies.last);
        } else {
            self.append_buffer(Buffer::Own(std::mem::take(&mut replies.last)));
        }
    }

    #[cold]
    fn append_full(&mut self, replies: &mut Replies) {
        replies.full_len = 0;
        replies.full.drain(..).for_each(|full| self.append_buffer(full.bytes));
    }

    /// Ends a reply that has been appended, if many may follow.
    #[inline]
    pub fn end_reply(&mut self) {
        if self.last.len() >= FULL {
            self.end_buffer();
        }
    }

    /// Appends a string as a whole reply.
    #[cold]
    pub fn append_shared(&mut self, bulk: SharedBulk) {
        self.append_buffer(Buffer::Shared(bulk.into_encoded()));
    }

    fn append_buffer(&mut self, bytes: Buffer) {
        self.end_buffer();
        if !bytes.is_empty() {
            self.full_len += bytes.len();
            self.full.push_back(bytes);
        }
    }

    fn end_buffer(&mut self) {
        if !self.last.is_empty() {
            self.full_len += self.last.len();
            self.full.push_back(Buffer::Own(std::mem::take(&mut self.last)));
        }
    }

    /// The next bytes to send: at most `most`, and none only if nothing is unsent.
    #[inline]
    pub fn next(&self, most: usize) -> &[u8] {
        let first = self.full.front().map_or(&self.last[..], |first| first);
        &first[self.sent..first.len().min(self.sent.saturating_add(most))]
    }

    /// Records that this many bytes of [`next`](Self::next) were sent.
    #[inline]
    pub fn note_sent(&mut self, bytes: usize) {
        self.sent += bytes;
        if self.full.is_empty() && self.sent == self.last.len() {
            self.last.clear();
            self.sent = 0;
        } else {
            self.note_part_sent();
        }
    }

    /// A buffer is freed when it is sent. One that continued to grow while it is sent would be copied, or never be sent
    /// completely.
    #[cold]
    fn note_part_sent(&mut self) {
        self.end_reply();
        if let Some(first) = self.full.front().filter(|first| first.len() == self.sent) {
            self.full_len -= first.len();
            self.sent = 0;
            self.full.pop_front();
        }
    }

    /// Drops unsent bytes for good: they exceed the limit, and the connection must close.
    #[cold]
    pub fn give_up(&mut self) {
        *self = Self { is_over_limit: true, ..Self::default() };
    }

    /// Whether replies were dropped because they exceeded the limit.
    #[inline]
    pub fn is_over_limit(&self) -> bool {
        self.is_over_limit
    }

    /// Returns the buffer while nothing is unsent.
    #[inline]
    pub fn give_back_buffer(&mut self, is_tight: bool) {
        if self.unsent() == 0 && self.last.capacity() > 0 {
            buffers::give(std::mem::take(&mut self.last), is_tight);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Replies of these lengths, each of one letter, and where they end.
    fn replies_of(lens: &[usize]) -> (Replies, Vec<usize>, Vec<u8>) {
        let (mut replies, mut all) = (Replies::default(), Vec::new());
        let mut ends = vec![0];
        for (letter, &len) in (b'a'..=b'z').cycle().zip(lens) {
            replies.buffer().extend(std::iter::repeat_n(letter, len));
            all.resize(all.len() + len, letter);
            ends.push(replies.end_reply());
        }
        (replies, ends, all)
    }

    /// A string of this length and letter, in a read that brought it.
    fn shared(letter: u8, len: usize) -> SharedBulk {
        let head = format!("$3\r\nSET\r\n$1\r\nk\r\n${len}\r\n");
        let read = Bytes::from([head.as_bytes(), &vec![letter; len], b"\r\n"].concat());
        SharedBulk::around(&read, head.len()..head.len() + len).expect("it is encoded")
    }

    /// Replies of these lengths, some of which are shared strings, and where they end.
    fn mixed_replies_of(lens: &[(usize, bool)]) -> (Replies, Vec<usize>, Vec<u8>) {
        let (mut replies, mut all) = (Replies::default(), Vec::new());
        let mut ends = vec![0];
        for (letter, &(len, is_shared)) in (b'a'..=b'z').cycle().zip(lens) {
            let bulk = shared(letter, len);
            all.extend_from_slice(bulk.encoded());
            match is_shared {
                true => replies.append_shared(bulk),
                false => replies.buffer().extend_from_slice(bulk.encoded()),
            }
            ends.push(replies.end_reply());
        }
        (replies, ends, all)
    }

    /// Sends everything, in slices; returns the bytes sent.
    fn sent(out: &mut Output, slice: usize) -> Vec<u8> {
        let mut sent = Vec::new();
        while out.unsent() > 0 {
            let next = out.next(slice).to_vec();
            assert!((1..=slice).contains(&next.len()));
            out.note_sent(next.len());
            sent.extend(next);
        }
        assert!(out.next(slice).is_empty());
        sent
    }

    fn address_of(bytes: &[u8]) -> *const u8 {
        bytes.as_ptr()
    }

    #[test]
    fn a_large_reply_reaches_the_output_without_a_copy() {
        let (mut replies, ends, all) = replies_of(&[10, 3 * FULL, 5, 2 * FULL]);
        let large = replies.at(ends[2]..ends[4]).as_ptr();
        let mut out = Output::default();
        out.buffer().extend_from_slice(b"before");
        out.append(&mut replies);
        assert_eq!(out.full.iter().map(|buffer| buffer.len()).collect::<Vec<_>>(), [6, 10 + 3 * FULL, 5 + 2 * FULL]);
        assert_eq!(address_of(&out.full[2]), large);
        assert_eq!(sent(&mut out, 1000), [b"before", &all[..]].concat());
        assert_eq!(replies.len(), 0);
    }

    #[test]
    fn a_shared_string_reaches_the_output_without_a_copy_however_it_is_moved() {
        let bulk = shared(b'x', SHARED_MIN);
        let address = address_of(bulk.encoded());
        let replies = || {
            let mut replies = Replies::default();
            replies.buffer().extend_from_slice(b"+before\r\n");
            replies.append_shared(bulk.clone());
            replies.buffer().extend_from_slice(b"+after\r\n");
            replies
        };
        let len = bulk.encoded().len();
        let mut outs: [Output; 3] = Default::default();
        outs[0].append(&mut replies());
        replies().move_all(0..9 + len, &mut outs[1]);
        replies().move_one(9..9 + len, &mut outs[2]);
        for out in &outs {
            assert!(out.full.iter().any(|buffer| address_of(buffer) == address && buffer.len() == len));
        }
    }

    #[test]
    fn a_shared_string_that_exceeds_a_limit_is_removed() {
        let mut replies = Replies::default();
        replies.buffer().extend_from_slice(b"+before\r\n");
        let start = replies.end_reply();
        replies.append_shared(shared(b'x', SHARED_MIN));
        replies.truncate(start);
        assert_eq!((replies.len(), replies.at(0..start)), (9, &b"+before\r\n"[..]));
        replies.buffer().extend_from_slice(b"+after\r\n");
        let mut out = Output::default();
        out.append(&mut replies);
        assert_eq!(sent(&mut out, 100), b"+before\r\n+after\r\n");
    }

    #[test]
    fn a_small_reply_goes_where_the_others_are() {
        let (mut replies, ends, all) = replies_of(&[10, 20]);
        let mut out = Output::default();
        out.buffer().push(b'x');
        replies.move_one(0..ends[1], &mut out);
        replies.move_all(ends[1]..ends[2], &mut out);
        assert!(out.full.is_empty());
        assert_eq!(sent(&mut out, 7), [b"x", &all[..]].concat());
    }

    #[test]
    fn what_is_sent_is_freed_buffer_by_buffer() {
        let (mut replies, _, all) = replies_of(&[FULL; 8]);
        let mut out = Output::default();
        out.append(&mut replies);
        for left in (0..8).rev() {
            (0..4).for_each(|_| out.note_sent(out.next(FULL / 4).len()));
            let held = out.full.iter().map(Buffer::capacity).sum::<usize>() + out.last.capacity();
            assert!(held <= left * FULL + FULL / 4, "{held} bytes are held for {left} MB");
        }
        assert_eq!((out.unsent(), all.len()), (0, 8 * FULL));
    }

    #[test]
    fn an_output_that_is_never_empty_does_not_keep_what_is_sent() {
        let mut out = Output::default();
        for _ in 0..1000 {
            out.buffer().extend([b'x'; FULL / 10]);
            let most = out.unsent() - 1;
            while out.unsent() > 1 {
                out.note_sent(out.next(most).len().min(out.unsent() - 1));
            }
        }
        assert!(out.full_len + out.last.capacity() < 4 * FULL, "{} bytes for one", out.last.capacity());
    }

    #[test]
    fn what_an_output_has_and_what_of_it_is_free_are_all_of_its_buffers() {
        let mut out = Output::default();
        assert_eq!(out.free(), 0);
        out.append_buffer(Buffer::Own(Vec::with_capacity(300)));
        assert_eq!(out.free(), 0, "an empty one is dropped");
        let mut own = Vec::with_capacity(300);
        own.extend_from_slice(b"own");
        out.append_buffer(Buffer::Own(own));
        out.append_buffer(Buffer::Shared(Bytes::from_static(b"shared")));
        out.last = Vec::with_capacity(200);
        out.last.extend_from_slice(b"last");
        assert_eq!((out.unsent(), out.free()), (13, 297 + 196));
        out.note_sent(2);
        assert_eq!((out.unsent(), out.free()), (11, 299 + 196));
        out.note_sent(1);
        assert_eq!((out.unsent(), out.free()), (10, 196));
    }

    #[test]
    fn an_output_that_was_given_up_says_so_for_good() {
        let mut out = Output::default();
        out.buffer().push(b'x');
        out.give_up();
        assert!(out.is_over_limit() && out.unsent() == 0);
        out.buffer().push(b'x');
        out.note_sent(1);
        assert!(out.is_over_limit());
    }

    #[test]
    fn a_position_past_4_gb_is_as_good_as_any() {
        let start = usize::try_from(u32::MAX).expect("64 bits") + 10;
        let mut replies = Replies { full_len: start, ..Replies::default() };
        replies.full.push(Full { start: 0, bytes: Buffer::Own(Vec::new()) });
        replies.buffer().extend_from_slice(b"first");
        let first = replies.end_reply();
        replies.buffer().extend_from_slice(b"second");
        let second = replies.end_reply();
        assert_eq!((replies.at(start..first), replies.at(first..second)), (&b"first"[..], &b"second"[..]));
        replies.truncate(first);
        assert_eq!(replies.len(), first);
    }

    proptest! {
        #[test]
        fn replies_come_out_as_they_went_in_however_they_are_moved(
            lens in prop::collection::vec(
                (prop_oneof![0usize..200, SHARED_MIN - 20..MOVED + 5, FULL - 20..FULL + 5], any::<bool>()),
                1..12,
            ),
            cuts in prop::collection::vec(any::<bool>(), 12),
            slice in 1usize..3 * FULL,
        ) {
            let (mut replies, ends, all) = mixed_replies_of(&lens);
            for (range, bytes) in ends.windows(2).map(|pair| (pair[0]..pair[1], &all[pair[0]..pair[1]])) {
                prop_assert!(replies.at(range) == bytes);
            }
            let mut out = Output::default();
            let mut from = 0;
            for (index, pair) in ends.windows(2).enumerate() {
                if cuts[index] {
                    replies.move_all(from..pair[0], &mut out);
                    replies.move_one(pair[0]..pair[1], &mut out);
                    from = pair[1];
                }
            }
            replies.move_all(from..all.len(), &mut out);
            prop_assert_eq!(out.unsent(), all.len());
            prop_assert!(sent(&mut out, slice.max(all.len() / 1000)) == all);
        }
    }
}
