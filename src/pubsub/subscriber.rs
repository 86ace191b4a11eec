//! A subscriber's queue: publishers put messages in, and its connection takes them out when it has room.
//!
//! A publisher never waits: a queue that would exceed `client-output-buffer-limit pubsub` is emptied instead and its
//! connection is closed.

use super::Kind;
use super::message::Message;
use crate::keyspace::LogPosition;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

/// Room for messages that an empty queue keeps.
const KEPT: usize = 64;
/// How many messages are taken out of the queue at once: publishers wait no longer than that takes.
const TAKEN_TOGETHER: usize = 64;

/// A connection that has subscribed, for publishers and CLIENT LIST.
#[derive(Debug)]
pub struct Subscriber {
    id: u64,
    queue: Mutex<Queue>,
    /// How many channels, patterns and shard channels it is subscribed to.
    counts: [AtomicUsize; 3],
    /// Bytes of their names.
    name_bytes: AtomicUsize,
    /// Bytes that its connection has taken out and not sent.
    unsent: AtomicU64,
    /// Whether its connection speaks RESP3. A hint: what leaves is decided when it is taken out.
    is_resp3: AtomicBool,
    /// Whether its connection has ended.
    has_left: AtomicBool,
}

/// How many bytes of messages may wait: of a connection that is subscribed to something, and of others.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// `client-output-buffer-limit pubsub`
    pub subscribed: u64,
    /// `client-output-buffer-limit normal`, or the other if that has none.
    pub normal: u64,
}

/// Messages that wait for their connection.
///
/// Invariants: `bytes` is the cost of `messages`; `received` counts every message that was put in; nothing is put into
/// a queue that has overflowed.
#[derive(Debug, Default)]
struct Queue {
    messages: VecDeque<Message>,
    bytes: u64,
    received: u64,
    taken: u64,
    /// The log positions that must be reached before the messages are shown.
    log_positions: Vec<LogPosition>,
    waker: Option<Waker>,
    /// Whether the waker is for messages, or only for an overflow.
    wakes_for_messages: bool,
    is_overflowed: bool,
}

impl Queue {
    fn overflow(&mut self) -> Option<Waker> {
        self.is_overflowed = true;
        self.messages = VecDeque::new();
        self.bytes = 0;
        self.waker.take()
    }

    fn note_log_positions(&mut self, log_positions: &[LogPosition]) {
        for &(segment, lsn) in log_positions {
            match self.log_positions.iter_mut().find(|(known, _)| *known == segment) {
                Some((_, known)) => *known = lsn.max(*known),
                None => self.log_positions.push((segment, lsn)),
            }
        }
    }
}

/// The cost of a message in a queue, in bytes. A message shared by several queues counts in each.
fn cost(message: &Message) -> u64 {
    (message.len() + size_of::<Message>()) as u64
}

impl Subscriber {
    /// A subscriber without subscriptions.
    pub fn new(id: u64) -> Self {
        Self {
            id,
            queue: Mutex::default(),
            counts: Default::default(),
            name_bytes: AtomicUsize::new(0),
            unsent: AtomicU64::new(0),
            is_resp3: AtomicBool::new(false),
            has_left: AtomicBool::new(false),
        }
    }

    /// Its number in the registry.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// How many names of a kind it is subscribed to.
    pub fn count(&self, kind: Kind) -> usize {
        self.counts[kind as usize].load(Ordering::Relaxed)
    }

    /// How many names it is subscribed to, and the bytes of these.
    pub fn names(&self) -> (usize, usize) {
        (Kind::ALL.into_iter().map(|kind| self.count(kind)).sum(), self.name_bytes.load(Ordering::Relaxed))
    }

    /// Sets how many names of a kind it is subscribed to, and the bytes of all names.
    pub(super) fn set_names(&self, kind: Kind, count: usize, bytes: usize) {
        self.counts[kind as usize].store(count, Ordering::Relaxed);
        self.name_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Whether it is subscribed to anything.
    pub fn is_listening(&self) -> bool {
        Kind::ALL.into_iter().any(|kind| self.count(kind) > 0)
    }

    /// Bytes in the queue.
    pub fn queued_bytes(&self) -> u64 {
        self.queue.lock().bytes
    }

    /// Messages in the queue.
    pub fn queued(&self) -> usize {
        self.queue.lock().messages.len()
    }

    /// Sets how many bytes the connection has taken out and not sent: they count towards the limit.
    pub fn set_unsent(&self, bytes: u64) {
        self.unsent.store(bytes, Ordering::Relaxed);
    }

    /// Sets which protocol its connection speaks.
    pub fn set_resp3(&self, is_resp3: bool) {
        self.is_resp3.store(is_resp3, Ordering::SeqCst);
    }

    /// Records that its connection has ended, or is about to: nothing is redirected to it any more.
    pub fn leave(&self) {
        self.has_left.store(true, Ordering::Release);
    }

    /// Whether that is so.
    pub fn has_left(&self) -> bool {
        self.has_left.load(Ordering::Acquire)
    }

    /// Puts a message in: O(1). Returns the waker of the connection, if it waits. What could not be sent to it is not
    /// put in: it may have no need to look.
    pub(super) fn push(&self, message: &Message, log_positions: &[LogPosition], limits: Limits) -> Option<Waker> {
        let is_listening = self.is_listening();
        if !message.is_for(self.is_resp3.load(Ordering::SeqCst), is_listening) {
            return None;
        }
        let bytes_max = if is_listening { limits.subscribed } else { limits.normal };
        let mut queue = self.queue.lock();
        if queue.is_overflowed {
            return None;
        }
        queue.received += 1;
        let bytes = queue.bytes + cost(message);
        if bytes + self.unsent.load(Ordering::Relaxed) > bytes_max {
            return queue.overflow();
        }
        queue.bytes = bytes;
        queue.note_log_positions(log_positions);
        queue.messages.push_back(message.clone());
        if queue.wakes_for_messages { queue.waker.take() } else { None }
    }

    /// How many messages were put in so far, and whether all of them were taken out.
    pub fn received(&self) -> (u64, bool) {
        let queue = self.queue.lock();
        (queue.received, queue.messages.is_empty())
    }

    /// Whether the queue has overflowed: the connection must close.
    pub fn is_overflowed(&self) -> bool {
        self.queue.lock().is_overflowed
    }

    /// Appends messages to `out` until the one numbered `last` (counting from 1) is out or `out` is longer than `room`;
    /// true if that one is out. Adds to `log_positions` the log positions that must be reached before they are sent.
    pub fn take(
        &self,
        last: u64,
        resp3: bool,
        out: &mut Vec<u8>,
        room: usize,
        log_positions: &mut Vec<LogPosition>,
    ) -> bool {
        let mut taken = Vec::new();
        loop {
            let is_done = {
                let mut queue = self.queue.lock();
                let mut len = out.len();
                while taken.len() < TAKEN_TOGETHER && queue.taken < last && len <= room {
                    let Some(message) = queue.messages.pop_front() else { break };
                    queue.taken += 1;
                    queue.bytes -= cost(&message);
                    len += message.len();
                    taken.push(message);
                }
                if queue.messages.is_empty() && queue.messages.capacity() > KEPT {
                    queue.messages = VecDeque::new();
                }
                log_positions.append(&mut queue.log_positions);
                queue.is_overflowed || queue.taken >= last
            };
            // Copied while publishers continue.
            let is_listening = self.is_listening();
            taken.drain(..).for_each(|message: Message| message.append(out, resp3, is_listening));
            if is_done || out.len() > room {
                return is_done;
            }
        }
    }

    /// Ready when there are messages, if `for_messages`, or when the queue has overflowed.
    pub fn poll(&self, context: &mut Context<'_>, for_messages: bool) -> Poll<()> {
        let mut queue = self.queue.lock();
        if queue.is_overflowed || (for_messages && !queue.messages.is_empty()) {
            return Poll::Ready(());
        }
        queue.wakes_for_messages = for_messages;
        match &mut queue.waker {
            Some(waker) => waker.clone_from(context.waker()),
            None => queue.waker = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    const NO_LIMITS: Limits = Limits { subscribed: u64::MAX, normal: u64::MAX };

    fn published(text: &'static str) -> Message {
        Message::Published(Bytes::from(text))
    }

    fn up_to(normal: u64) -> Limits {
        Limits { normal, ..NO_LIMITS }
    }

    fn taken(subscriber: &Subscriber, last: u64, room: usize) -> (String, bool) {
        let mut out = Vec::new();
        let is_done = subscriber.take(last, false, &mut out, room, &mut Vec::new());
        (String::from_utf8(out).expect("the test's messages are text"), is_done)
    }

    #[test]
    fn messages_come_out_in_order_up_to_the_one_that_is_asked_for() {
        let subscriber = Subscriber::new(1);
        for text in ["a", "b", "c"] {
            assert!(subscriber.push(&published(text), &[], NO_LIMITS).is_none());
        }
        assert_eq!(subscriber.received(), (3, false));
        assert_eq!(taken(&subscriber, 2, usize::MAX), ("ab".to_owned(), true));
        assert_eq!(taken(&subscriber, 2, usize::MAX), (String::new(), true));
        assert_eq!(taken(&subscriber, 3, usize::MAX), ("c".to_owned(), true));
        assert_eq!((subscriber.received(), subscriber.queued_bytes()), ((3, true), 0));
    }

    #[test]
    fn what_has_no_room_stays_in_the_queue() {
        let subscriber = Subscriber::new(1);
        let message = Message::Published(Bytes::from(vec![b'x'; 100]));
        (0..1_000).for_each(|_| _ = subscriber.push(&message, &[], NO_LIMITS));
        let (text, is_done) = taken(&subscriber, 1_000, 5_000);
        assert!(!is_done && text.len() <= 5_100, "{}", text.len());
        assert_eq!(subscriber.queued_bytes(), (1_000 - text.len() as u64 / 100) * cost(&message));
        assert_eq!(text.len() + taken(&subscriber, 1_000, usize::MAX).0.len(), 100_000);
    }

    #[test]
    fn a_queue_over_its_limit_is_emptied_and_says_so() {
        let subscriber = Subscriber::new(1);
        let message = Message::Published(Bytes::from(vec![b'x'; 1_000]));
        let limit = up_to(10 * cost(&message));
        (0..10).for_each(|_| _ = subscriber.push(&message, &[], limit));
        assert!(!subscriber.is_overflowed());
        let mut context = Context::from_waker(Waker::noop());
        assert!(subscriber.poll(&mut context, false).is_pending());
        assert!(subscriber.push(&message, &[], limit).is_some(), "its connection is woken to close");
        assert!(subscriber.is_overflowed() && subscriber.queued_bytes() == 0 && subscriber.queued() == 0);
        assert!(subscriber.poll(&mut context, false).is_ready());
        assert!(subscriber.push(&message, &[], limit).is_none());
        assert_eq!(taken(&subscriber, u64::MAX, usize::MAX), (String::new(), true));
    }

    #[test]
    fn what_was_taken_and_not_sent_counts_to_the_limit() {
        let subscriber = Subscriber::new(1);
        subscriber.set_unsent(1_000);
        _ = subscriber.push(&published("x"), &[], up_to(1_001));
        assert!(subscriber.is_overflowed());
    }

    #[test]
    fn only_who_waits_for_messages_is_woken_by_one() {
        let subscriber = Subscriber::new(1);
        let mut context = Context::from_waker(Waker::noop());
        assert!(subscriber.poll(&mut context, false).is_pending());
        assert!(subscriber.push(&published("x"), &[], NO_LIMITS).is_none());
        assert!(subscriber.poll(&mut context, true).is_ready());
        taken(&subscriber, 1, usize::MAX);
        assert!(subscriber.poll(&mut context, true).is_pending());
        assert!(subscriber.push(&published("x"), &[], NO_LIMITS).is_some());
        assert!(subscriber.push(&published("x"), &[], NO_LIMITS).is_none(), "once is enough");
    }

    #[test]
    fn marks_are_the_furthest_of_each_segment() {
        let subscriber = Subscriber::new(1);
        for log_positions in [&[(0, 5)][..], &[(1, 7), (0, 3)], &[(0, 9)]] {
            _ = subscriber.push(&published("x"), log_positions, NO_LIMITS);
        }
        let mut log_positions = Vec::new();
        subscriber.take(3, false, &mut Vec::new(), usize::MAX, &mut log_positions);
        assert_eq!(log_positions, [(0, 9), (1, 7)]);
    }
}
