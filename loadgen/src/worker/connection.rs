//! A connection of an event loop: its socket, what it waits for, and what the socket did not take.

use std::collections::VecDeque;
use std::io::{ErrorKind, Write};
use std::net::TcpStream;

use mio::{Interest, Registry, Token};

use crate::commands::CommandId;
use crate::resp::ReplyScanner;
use crate::verify::Expected;

/// A connection and its requests without a reply, oldest first.
pub(super) struct Connection {
    pub(super) stream: mio::net::TcpStream,
    pub(super) target: usize,
    pub(super) scanner: ReplyScanner,
    /// Bytes seen of a reply that is not complete.
    pub(super) partial_bytes: u64,
    /// These bytes, where replies are verified.
    pub(super) partial: Vec<u8>,
    /// What the replies outstanding should be, where they are verified.
    pub(super) expected: VecDeque<Expected>,
    pending: VecDeque<Pending>,
    /// The requests in `pending`, counted.
    outstanding: u64,
    /// What the socket did not take at once.
    unsent: Vec<u8>,
    unsent_from: usize,
    /// Open loop: how many of this connection's own requests were sent in this phase.
    pub(super) sent: u64,
}

/// Requests without their replies: some of one command, that have their times in common.
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
    pub(super) fn register(
        registry: &Registry,
        index: usize,
        stream: TcpStream,
        target: usize,
        pipeline: usize,
    ) -> std::io::Result<Self> {
        stream.set_nonblocking(true)?;
        let mut stream = mio::net::TcpStream::from_std(stream);
        registry.register(&mut stream, Token(index), Interest::READABLE | Interest::WRITABLE)?;
        Ok(Self {
            stream,
            target,
            scanner: ReplyScanner::new(),
            partial_bytes: 0,
            partial: Vec::new(),
            expected: VecDeque::new(),
            pending: VecDeque::with_capacity(pipeline),
            outstanding: 0,
            unsent: Vec::new(),
            unsent_from: 0,
            sent: 0,
        })
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

    /// Takes so many of the oldest requests, which are one at least and not more than
    /// [`Self::oldest`] has; none when no request is outstanding.
    #[inline]
    pub(super) fn take_answered(&mut self, count: u64) -> Option<Pending> {
        let oldest = self.pending.front_mut()?;
        let answered = Pending { count, ..*oldest };
        oldest.count -= count;
        if oldest.count == 0 {
            self.pending.pop_front();
            if self.pending.is_empty() {
                // The next one lies where the last one did, and not in memory that is cold.
                self.pending.clear();
            }
        }
        self.outstanding -= count;
        Some(answered)
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.unsent_from < self.unsent.len()
    }

    /// Writes a batch, and keeps what the socket does not take for when it is writable.
    pub(super) fn write(&mut self, batch: &[u8]) -> std::io::Result<()> {
        let written = write_some(&mut self.stream, batch)?;
        if written < batch.len() {
            self.unsent.clear();
            self.unsent.extend_from_slice(&batch[written..]);
            self.unsent_from = 0;
            // The edge may have come and gone since the socket refused: try until it refuses.
            self.write_unsent()?;
        }
        Ok(())
    }

    pub(super) fn write_unsent(&mut self) -> std::io::Result<()> {
        while self.has_unsent() {
            match write_some(&mut self.stream, &self.unsent[self.unsent_from..])? {
                0 => return Ok(()),
                written => self.unsent_from += written,
            }
        }
        Ok(())
    }
}

/// Bytes that the socket took: 0 when it takes none now.
fn write_some(stream: &mut mio::net::TcpStream, bytes: &[u8]) -> std::io::Result<usize> {
    loop {
        match stream.write(bytes) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
            result => return result,
        }
    }
}
