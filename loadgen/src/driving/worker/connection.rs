//! A connection of a worker: its outstanding requests. Its socket is in [`super::sockets`].

use std::collections::VecDeque;

use crate::model::Expected;
use crate::record::Served;
use crate::resp::ReplyScanner;
use crate::workload::commands::CommandId;

/// A connection and its requests without a reply, oldest first.
pub(super) struct Connection {
    pub(super) target: usize,
    pub(super) scanner: ReplyScanner,
    /// Bytes seen of an incomplete reply.
    pub(super) partial_bytes: u64,
    /// These bytes, if replies are verified.
    pub(super) partial: Vec<u8>,
    /// The expected outstanding replies, if they are verified.
    pub(super) expected: VecDeque<Expected>,
    pending: VecDeque<Pending>,
    /// The requests in `pending`, counted.
    outstanding: u64,
    /// Open loop: how many of this connection's own requests were sent in this phase.
    pub(super) sent: u64,
    /// What it was served in the measured window.
    pub(super) served: Served,
}

/// Requests without their replies: some of one command, which share their times.
///
/// Invariant: `count > 0`.
#[derive(Clone, Copy)]
pub(super) struct Pending {
    pub(super) intended_ns: u64,
    pub(super) sent_ns: u64,
    pub(super) command: CommandId,
    pub(super) count: u64,
}

impl Connection {
    pub(super) fn new(target: usize, pipeline: usize) -> Self {
        Self {
            target,
            scanner: ReplyScanner::new(),
            partial_bytes: 0,
            partial: Vec::new(),
            expected: VecDeque::new(),
            pending: VecDeque::with_capacity(pipeline),
            outstanding: 0,
            sent: 0,
            served: Served::default(),
        }
    }

    /// How many requests have no reply.
    pub(super) fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// The requests whose replies come next.
    pub(super) fn oldest(&self) -> Option<&Pending> {
        self.pending.front()
    }

    pub(super) fn await_replies(&mut self, requests: Pending) {
        self.outstanding += requests.count;
        let times = |of: &Pending| (of.intended_ns, of.sent_ns, of.command);
        match self.pending.back_mut() {
            Some(last) if times(last) == times(&requests) => last.count += requests.count,
            _ => self.pending.push_back(requests),
        }
    }

    /// Takes this many of the oldest requests, at least one and at most as many as [`Self::oldest`] has; `None` if no
    /// request is outstanding.
    #[inline]
    pub(super) fn take_answered(&mut self, count: u64) -> Option<Pending> {
        let oldest = self.pending.front_mut()?;
        let answered = Pending { count, ..*oldest };
        oldest.count -= count;
        if oldest.count == 0 {
            self.pending.pop_front();
            if self.pending.is_empty() {
                // The next one is stored where the last one was, not in cold memory.
                self.pending.clear();
            }
        }
        self.outstanding -= count;
        Some(answered)
    }
}
