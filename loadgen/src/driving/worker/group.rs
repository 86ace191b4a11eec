//! Replies that share their times are recorded together: a pipelined batch costs one record for each command in it.

use super::connection::Pending;
use crate::record::{Recorder, Served};
use crate::workload::commands::{COMMANDS_MAX, CommandId};

/// Replies that came in one read to requests with the same times.
///
/// Invariant: a command without its bit in `seen` has a count of zero.
#[derive(Default)]
pub(super) struct Group {
    target: usize,
    intended_ns: u64,
    sent_ns: u64,
    /// A bit for each command that has a count.
    seen: u32,
    counts: [u64; COMMANDS_MAX],
}

const _: () = assert!(COMMANDS_MAX <= u32::BITS as usize);

impl Group {
    /// Begins with a connection to this target; records what there was.
    pub(super) fn begin(&mut self, target: usize) {
        debug_assert_eq!(self.seen, 0, "a group is recorded before the next one begins");
        self.target = target;
    }

    /// Adds replies; if their requests have other times, the group so far is recorded first.
    #[inline]
    pub(super) fn join(&mut self, requests: &Pending, recorder: &mut Recorder, served: &mut Served, now_ns: u64) {
        if self.sent_ns != requests.sent_ns || self.intended_ns != requests.intended_ns {
            self.record(recorder, served, now_ns);
            (self.intended_ns, self.sent_ns) = (requests.intended_ns, requests.sent_ns);
        }
        self.seen |= 1 << requests.command;
        self.counts[usize::from(requests.command)] += requests.count;
    }

    /// Records the group, for the run and for its connection, and empties it.
    pub(super) fn record(&mut self, recorder: &mut Recorder, served: &mut Served, now_ns: u64) {
        let (service_ns, latency_ns) = (now_ns - self.sent_ns, now_ns - self.intended_ns);
        let mut rest = std::mem::take(&mut self.seen);
        while rest != 0 {
            let command = rest.trailing_zeros() as CommandId;
            let count = std::mem::take(&mut self.counts[usize::from(command)]);
            recorder.record_latency(command, self.target, service_ns, latency_ns, count);
            served.count(latency_ns, count);
            rest &= rest - 1;
        }
    }
}
