//! Consecutive replies in several buffers: none of them grows much beyond a megabyte and one reply.
//!
//! A single buffer would copy its contents each time it grows, and once more when it is passed on. A full buffer is
//! only moved: from a transaction or a batch to the output of its connection, where it is freed as soon as it is sent.

use crate::base::buffers;
use std::collections::VecDeque;
use std::ops::Range;

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
    bytes: Vec<u8>,
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
        let start = self.full_len;
        self.full_len += bytes.len();
        self.full.push(Full { start, bytes });
    }

    /// Removes what was appended after the first `len` bytes, which is at most the reply that has not ended.
    pub fn truncate(&mut self, len: usize) {
        self.last.truncate(len - self.full_len);
    }

    /// Removes all replies. The memory of the last buffer stays.
    pub fn clear(&mut self) {
        self.full = Vec::new();
        self.full_len = 0;
        self.last.clear();
    }

    /// Frees memory of the last buffer beyond so many bytes.
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
        } else if range.len() < MOVED {
            out.buffer().extend_from_slice(self.at(range));
        } else {
            self.move_all(range, out);
        }
    }

    /// Moves whole replies to `out`; full buffers are not copied.
    pub fn move_all(&mut self, range: Range<usize>, out: &mut Output) {
        let Range { mut start, end } = range;
        while start < end {
            let (buffer_start, buffer) = if start < self.full_len {
                let index = self.index_of(start);
                (self.full[index].start, &mut self.full[index].bytes)
            } else {
                (self.full_len, &mut self.last)
            };
            let here = start - buffer_start..buffer.len().min(end - buffer_start);
            start = buffer_start + here.end;
            if here.len() == buffer.len() && here.len() >= MOVED {
                out.append_buffer(std::mem::take(buffer));
            } else {
                out.buffer().extend_from_slice(&buffer[here]);
            }
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
    full: VecDeque<Vec<u8>>,
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
            self.append_buffer(std::mem::take(&mut replies.last));
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

    fn append_buffer(&mut self, bytes: Vec<u8>) {
        self.end_buffer();
        self.last = bytes;
        self.end_buffer();
    }

    fn end_buffer(&mut self) {
        if !self.last.is_empty() {
            self.full_len += self.last.len();
            self.full.push_back(std::mem::take(&mut self.last));
        }
    }

    /// The next bytes to send: at most `most`, and none only if nothing is unsent.
    #[inline]
    pub fn next(&self, most: usize) -> &[u8] {
        let first = self.full.front().unwrap_or(&self.last);
        &first[self.sent..first.len().min(self.sent.saturating_add(most))]
    }

    /// Records that so many bytes of [`next`](Self::next) were sent.
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
        assert_eq!(out.full.iter().map(Vec::len).collect::<Vec<_>>(), [6, 10 + 3 * FULL, 5 + 2 * FULL]);
        assert_eq!(address_of(&out.full[2]), large);
        assert_eq!(sent(&mut out, 1000), [b"before", &all[..]].concat());
        assert_eq!(replies.len(), 0);
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
            let held = out.full.iter().map(Vec::capacity).sum::<usize>() + out.last.capacity();
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
        replies.full.push(Full { start: 0, bytes: Vec::new() });
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
            lens in prop::collection::vec(prop_oneof![0usize..200, MOVED - 5..MOVED + 5, FULL - 5..FULL + 5], 1..12),
            cuts in prop::collection::vec(any::<bool>(), 12),
            slice in 1usize..3 * FULL,
        ) {
            let (mut replies, ends, all) = replies_of(&lens);
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
