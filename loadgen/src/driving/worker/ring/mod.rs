//! Sockets under io_uring. It is cheap because one system call submits the batches of many connections, and returns
//! what has arrived for many others.
//!
//! - A receive is asked for once for each connection ("multishot"), and completes with every piece that
//!   arrives, in a buffer of the kernel's choice ([`buffers`]). When it ends for want of a buffer, it is
//!   asked for again.
//! - Batches are collected in one buffer until the next wait, or until they are many. A send never waits
//!   in the kernel (`MSG_DONTWAIT`), and completes with a message only if it did not take all; the
//!   rest is written when the socket is writable. So a batch's bytes are the kernel's during the call
//!   that submits it, and no longer.
//! - The kernel works for a ring only while its thread is in that call (`DEFER_TASKRUN`).

// The crate cannot know how long the memory of a request lives; this module ensures it.
#![allow(unsafe_code)]

mod buffers;

use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Duration;

use io_uring::types::{CancelBuilder, Fixed, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue};
use nix::libc;

use super::sockets::{Arrival, Socket, Sockets};
use crate::base::timer::Clock;
use crate::driving::event_loop::is_due_soon;
use buffers::Buffers;

/// The most requests that are submitted together; also the most batches.
const ENTRIES: u32 = 256;
/// The most completions that the ring has room for; the kernel keeps further ones itself.
const COMPLETIONS_MAX: usize = 32 * 1024;
/// Receive buffers, one for each connection within these limits: each arriving piece takes one.
const BUFFERS: std::ops::RangeInclusive<usize> = 64..=512;
/// Batches are submitted when they have this many bytes together.
const OUTGOING_BYTES: usize = 32 * 1024;
/// A larger batch is written alone: a system call costs little compared with copying it.
const BATCH_BYTES_MAX: usize = 128 * 1024;

/// The sockets of a thread under io_uring.
pub(super) struct Ring {
    ring: IoUring,
    /// Outlive all requests: freed in `drop`, if the kernel has returned them.
    buffers: ManuallyDrop<Buffers>,
    flow: Flow,
    /// The buffer and the length of the last arrival.
    told: Option<(u16, usize)>,
    clock: Clock,
    tick: Duration,
}

/// Data for the kernel, and data from it.
struct Flow {
    sockets: Vec<RingSocket>,
    /// Batches, one after another, and perhaps the beginning of another one.
    outgoing: Vec<u8>,
    batches: Vec<Batch>,
    /// Requests for the next submission, other than sends.
    requests: Vec<squeue::Entry>,
    arrivals: VecDeque<Received>,
}

struct RingSocket {
    socket: Socket,
    /// It has a batch that was not submitted.
    is_queued: bool,
    /// The end of its stream was reported, and no receive is requested since.
    has_ended: bool,
}

/// The bytes `from..to` of `outgoing`, for a connection.
struct Batch {
    index: usize,
    from: usize,
    to: usize,
}

/// A completion: of a receive, or of a send that failed.
struct Received {
    index: usize,
    /// Bytes; zero at the end of the stream; negative, an error.
    result: i32,
    buffer: Option<u16>,
}

/// The kind of a completion; the rest of its `user_data` is the connection or the batch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Receive,
    /// Of the batch with this number in `batches`.
    Send,
    Writable,
}

/// How long a submission waits for a completion.
#[derive(Clone, Copy)]
enum Patience {
    /// It only submits.
    None,
    /// It takes what is there.
    Look,
    Until(Duration),
}

/// Whether this machine permits using io_uring as [`Ring`] does.
pub(crate) fn check_io_uring() -> io::Result<()> {
    Ring::new(Vec::new(), Clock::start(), Duration::ZERO).map(drop)
}

impl Ring {
    pub(super) fn new(streams: Vec<TcpStream>, clock: Clock, tick: Duration) -> io::Result<Self> {
        let completions = (2 * streams.len()).next_power_of_two().clamp(2 * ENTRIES as usize, COMPLETIONS_MAX);
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_submit_all()
            .setup_cqsize(completions as u32)
            .build(ENTRIES)?;
        let mut buffers = Buffers::new(streams.len().clamp(*BUFFERS.start(), *BUFFERS.end()) as u16);
        buffers.lend(&ring.submitter())?;
        let files: Vec<_> = streams.iter().map(AsRawFd::as_raw_fd).collect();
        let requests = (0..files.len()).map(receive).collect();
        let sockets = streams.into_iter().map(RingSocket::new).collect::<io::Result<_>>()?;
        let flow = Flow { sockets, outgoing: Vec::new(), batches: Vec::new(), requests, arrivals: VecDeque::new() };
        // From here on, `drop` handles the buffers: before, no request uses them.
        let ring = Self { ring, buffers: ManuallyDrop::new(buffers), flow, told: None, clock, tick };
        if !files.is_empty() {
            ring.ring.submitter().register_files(&files)?;
        }
        Ok(ring)
    }

    /// Submits everything, waits as requested, and takes completions. Afterwards the batches are with their sockets.
    fn enter(&mut self, patience: Patience) -> io::Result<()> {
        for request in std::mem::take(&mut self.flow.requests) {
            // SAFETY: neither a receive nor a poll names memory of ours; buffers are lent apart.
            unsafe { self.push(&request)? };
        }
        for number in 0..self.flow.batches.len() {
            let request = self.flow.send_request(number);
            // SAFETY: the bytes are in `outgoing`, which does not change until all requests are submitted, below; and a
            // send that may not wait is done with them then.
            unsafe { self.push(&request)? };
        }
        self.submit(patience)?;
        self.take_completions()?;
        self.flow.forget_batches();
        Ok(())
    }

    /// Adds a request, for which there is room once others are submitted.
    ///
    /// # Safety
    /// The memory that it names must live and not change until it was submitted, or, if it may wait, until
    /// it has completed.
    unsafe fn push(&mut self, request: &squeue::Entry) -> io::Result<()> {
        // SAFETY: by the caller.
        while unsafe { self.ring.submission().push(request) }.is_err() {
            self.submit(Patience::None)?;
        }
        Ok(())
    }

    /// Returns when the kernel has taken every request.
    fn submit(&mut self, patience: Patience) -> io::Result<()> {
        loop {
            match enter(&mut self.ring, patience) {
                // The time is over, or a signal came, both during the wait; or completions must be taken first.
                Err(error) if matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EBUSY)) => {}
                result => drop(result?),
            }
            if self.ring.submission().is_empty() {
                return Ok(());
            }
            self.take_completions()?;
        }
    }

    /// Takes completions, including those that the kernel kept for lack of room.
    fn take_completions(&mut self) -> io::Result<()> {
        loop {
            for completion in self.ring.completion() {
                self.flow.complete(&completion, &mut self.buffers);
            }
            if !self.ring.submission().cq_overflow() {
                return Ok(());
            }
            match enter(&mut self.ring, Patience::Look) {
                Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EBUSY)) => {}
                result => drop(result?),
            }
        }
    }
}

/// One `io_uring_enter`.
fn enter(ring: &mut IoUring, patience: Patience) -> io::Result<usize> {
    match patience {
        Patience::None => ring.submitter().submit(),
        Patience::Look => {
            let length = ring.submission().len() as u32;
            // SAFETY: no argument is passed; what the requests name, `push` was promised.
            unsafe { ring.submitter().enter::<libc::sigset_t>(length, 0, EnterFlags::GETEVENTS.bits(), None) }
        }
        Patience::Until(time) => {
            let timeout = Timespec::from(time);
            ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&timeout))
        }
    }
}

impl Sockets for Ring {
    fn wait(&mut self, due_ns: Option<u64>, now_ns: u64) -> io::Result<bool> {
        let mut now_ns = now_ns;
        let has_batches = !self.flow.batches.is_empty();
        if has_batches && due_ns.is_some() {
            // Sending takes time, and due requests do not wait for it.
            self.enter(Patience::None)?;
            now_ns = self.clock.now_ns();
        }
        let looks = is_due_soon(due_ns, now_ns) || !self.flow.arrivals.is_empty();
        self.enter(match due_ns {
            _ if looks => Patience::Look,
            Some(due_ns) => Patience::Until(Duration::from_nanos(due_ns - now_ns).min(self.tick)),
            None => Patience::Until(self.tick),
        })?;
        Ok(looks && !has_batches && self.flow.arrivals.is_empty())
    }

    fn next(&mut self) -> Option<Arrival> {
        if let Some((buffer, _)) = self.told.take() {
            self.buffers.give_back(buffer);
        }
        let Received { index, result, buffer } = self.flow.arrivals.pop_front()?;
        let length = match usize::try_from(result) {
            Ok(length) => Ok(length),
            Err(_) => Err(io::Error::from_raw_os_error(-result)),
        };
        self.told = buffer.map(|buffer| (buffer, result as usize));
        Some(Arrival { index, length })
    }

    fn bytes(&self) -> &[u8] {
        self.told.map_or(&[], |(buffer, length)| self.buffers.bytes(buffer, length))
    }

    fn outgoing(&mut self) -> &mut Vec<u8> {
        &mut self.flow.outgoing
    }

    fn send(&mut self, index: usize) -> io::Result<()> {
        if self.flow.sockets[index].is_queued {
            // A batch that the socket does not take must not be overtaken by this one.
            self.enter(Patience::None)?;
        }
        self.flow.queue(index)?;
        if self.flow.batches.len() == ENTRIES as usize || self.flow.outgoing.len() >= OUTGOING_BYTES {
            self.enter(Patience::None)?;
        }
        Ok(())
    }

    fn has_unsent(&self, index: usize) -> bool {
        self.flow.sockets[index].socket.has_unsent()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let submitter = self.ring.submitter();
        // A request that has ended, or was never made, is not found; then there is nothing to do.
        let cancelled = match submitter.register_sync_cancel(None, CancelBuilder::any()) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
            result => result,
        };
        if cancelled.and_then(|()| self.buffers.withdraw(&submitter)).is_ok() {
            // SAFETY: no request is left that could use the buffers, and the kernel has forgotten them. They are
            // not used after this. Where it refuses, they are leaked.
            unsafe { ManuallyDrop::drop(&mut self.buffers) };
        }
    }
}

impl Flow {
    /// Makes a batch of what was appended to `outgoing`, or passes it to the socket if that is better.
    fn queue(&mut self, index: usize) -> io::Result<()> {
        let from = self.batches.last().map_or(0, |last| last.to);
        let to = self.outgoing.len();
        let RingSocket { socket, is_queued, has_ended } = &mut self.sockets[index];
        if std::mem::take(has_ended) {
            // Reports again that it has ended, now that it matters.
            self.requests.push(receive(index));
        }
        if socket.has_unsent() {
            socket.keep(&self.outgoing[from..]);
            self.outgoing.truncate(from);
        } else if to - from > BATCH_BYTES_MAX {
            socket.write(&self.outgoing[from..])?;
            self.requests.extend(socket.has_unsent().then(|| writable(index)));
            self.outgoing.truncate(from);
        } else {
            *is_queued = true;
            self.batches.push(Batch { index, from, to });
        }
        Ok(())
    }

    fn send_request(&self, number: usize) -> squeue::Entry {
        let Batch { index, from, to } = self.batches[number];
        let bytes = &self.outgoing[from..to];
        // All or nothing counts as success, and only a failure completes with a message.
        opcode::Send::new(Fixed(index as u32), bytes.as_ptr(), bytes.len() as u32)
            .flags(libc::MSG_DONTWAIT | libc::MSG_WAITALL | libc::MSG_NOSIGNAL)
            .build()
            .flags(squeue::Flags::SKIP_SUCCESS)
            .user_data(user_data(Kind::Send, number))
    }

    fn complete(&mut self, completion: &cqueue::Entry, buffers: &mut Buffers) {
        let (kind, number) = parse_user_data(completion.user_data());
        match kind {
            Kind::Receive => self.received(number, completion, buffers),
            Kind::Send => self.fell_short(number, completion.result()),
            Kind::Writable => {
                let written = self.sockets[number].socket.write_unsent();
                self.go_on_writing(number, written);
            }
        }
    }

    fn received(&mut self, index: usize, completion: &cqueue::Entry, buffers: &mut Buffers) {
        let (result, flags) = (completion.result(), completion.flags());
        let buffer = cqueue::buffer_select(flags);
        let goes_on = result > 0 || matches!(-result, libc::ENOBUFS | libc::EINTR);
        if goes_on && !cqueue::more(flags) {
            self.requests.push(receive(index));
        }
        if result > 0 {
            self.arrivals.push_back(Received { index, result, buffer });
            return;
        }
        buffer.into_iter().for_each(|buffer| buffers.give_back(buffer));
        if !goes_on {
            self.sockets[index].has_ended = result == 0;
            self.arrivals.push_back(Received { index, result, buffer: None });
        }
    }

    /// A batch of which the socket took only a part, or nothing.
    fn fell_short(&mut self, number: usize, result: i32) {
        let Batch { index, from, to } = self.batches[number];
        let taken = match result {
            0.. => Ok(result as usize),
            _ if -result == libc::EAGAIN => Ok(0),
            _ => Err(io::Error::from_raw_os_error(-result)),
        };
        let kept = taken.map(|taken| self.sockets[index].socket.keep(&self.outgoing[from + taken..to]));
        self.go_on_writing(index, kept);
    }

    /// Requests a completion when the socket is writable, if that is awaited; reports a failure.
    fn go_on_writing(&mut self, index: usize, written: io::Result<()>) {
        match written {
            Ok(()) => self.requests.extend(self.sockets[index].socket.has_unsent().then(|| writable(index))),
            Err(error) => {
                let result = -error.raw_os_error().unwrap_or(libc::EIO);
                self.arrivals.push_back(Received { index, result, buffer: None });
            }
        }
    }

    /// The batches were submitted; keeps what comes after them.
    fn forget_batches(&mut self) {
        let sent = self.batches.last().map_or(0, |last| last.to);
        self.outgoing.drain(..sent);
        for batch in self.batches.drain(..) {
            self.sockets[batch.index].is_queued = false;
        }
    }
}

impl RingSocket {
    fn new(stream: TcpStream) -> io::Result<Self> {
        Ok(Self { socket: Socket::new(stream)?, is_queued: false, has_ended: false })
    }
}

/// Requests everything that will arrive.
fn receive(index: usize) -> squeue::Entry {
    opcode::RecvMulti::new(Fixed(index as u32), buffers::GROUP).build().user_data(user_data(Kind::Receive, index))
}

/// Requests a completion once the socket is writable.
fn writable(index: usize) -> squeue::Entry {
    opcode::PollAdd::new(Fixed(index as u32), libc::POLLOUT as u32).build().user_data(user_data(Kind::Writable, index))
}

fn user_data(kind: Kind, number: usize) -> u64 {
    (number as u64) << 2 | kind as u64
}

fn parse_user_data(user_data: u64) -> (Kind, usize) {
    let kind = match user_data & 3 {
        0 => Kind::Receive,
        1 => Kind::Send,
        _ => Kind::Writable,
    };
    (kind, (user_data >> 2) as usize)
}
