//! Sockets under epoll. It is cheap because they are registered once and edge-triggered, so a request costs no
//! `epoll_ctl`; a batch leaves in one `write`, straight from one scratch buffer of the thread; and what has arrived is
//! read into another.

use std::io::{self, ErrorKind, Read};
use std::net::TcpStream;
use std::os::fd::AsRawFd;

use mio::event::Event;
use mio::unix::SourceFd;
use mio::{Events, Interest, Token};

use super::sockets::{Arrival, Socket, Sockets};
use crate::driving::event_loop::EventLoop;

const READ_BYTES: usize = 64 * 1024;

/// The sockets of a thread under epoll.
pub(super) struct Epoll {
    event_loop: EventLoop,
    events: Events,
    sockets: Vec<Socket>,
    /// The events of the last wait; those before `told` are done.
    ready: Vec<Ready>,
    told: usize,
    /// A socket that may have more to read than was read.
    reading: Option<Ready>,
    read_buffer: Box<[u8]>,
    /// How much of `read_buffer` the last arrival is.
    read: usize,
    outgoing: Vec<u8>,
}

/// An event of a socket.
#[derive(Clone, Copy)]
struct Ready {
    index: usize,
    is_writable: bool,
    is_readable: bool,
    /// The end of the stream or an error is announced, perhaps after bytes.
    is_closing: bool,
}

impl Epoll {
    pub(super) fn new(event_loop: EventLoop, streams: Vec<TcpStream>) -> io::Result<Self> {
        let register = |(index, stream)| {
            let socket = Socket::new(stream)?;
            let interest = Interest::READABLE | Interest::WRITABLE;
            event_loop.registry().register(&mut SourceFd(&socket.stream.as_raw_fd()), Token(index), interest)?;
            Ok(socket)
        };
        let sockets = streams.into_iter().enumerate().map(register).collect::<io::Result<_>>()?;
        Ok(Self {
            event_loop,
            events: EventLoop::events(),
            sockets,
            ready: Vec::new(),
            told: 0,
            reading: None,
            read_buffer: vec![0; READ_BYTES].into_boxed_slice(),
            read: 0,
            outgoing: Vec::new(),
        })
    }

    /// The next readable socket; sockets before it that are writable again first send their rest.
    fn next_readable(&mut self) -> Option<Result<Ready, Arrival>> {
        while let Some(&ready) = self.ready.get(self.told) {
            self.told += 1;
            if ready.is_writable
                && let Err(error) = self.sockets[ready.index].write_unsent()
            {
                return Some(Err(Arrival { index: ready.index, length: Err(error) }));
            }
            if ready.is_readable || ready.is_closing {
                return Some(Ok(ready));
            }
        }
        None
    }

    /// Reads once; `None` if the socket was empty.
    ///
    /// A read that does not fill the buffer has emptied the socket: the next bytes raise a new
    /// event. Only the end of the stream, announced together with bytes, needs another read.
    fn read(&mut self, ready: Ready) -> Option<Arrival> {
        let length = loop {
            match self.sockets[ready.index].stream.read(&mut self.read_buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                length => break length,
            }
        };
        if let Ok(length @ 1..) = length {
            self.read = length;
            self.reading = (length == self.read_buffer.len() || ready.is_closing).then_some(ready);
        }
        Some(Arrival { index: ready.index, length })
    }
}

impl Sockets for Epoll {
    fn wait(&mut self, due_ns: Option<u64>, now_ns: u64) -> io::Result<bool> {
        let in_vain = self.event_loop.wait(&mut self.events, due_ns, now_ns)?;
        self.told = 0;
        self.ready.clear();
        self.ready.extend(EventLoop::of_sockets(&self.events).map(Ready::of));
        Ok(in_vain)
    }

    fn next(&mut self) -> Option<Arrival> {
        loop {
            let ready = match self.reading.take() {
                Some(ready) => ready,
                None => match self.next_readable()? {
                    Ok(ready) => ready,
                    Err(failed) => return Some(failed),
                },
            };
            if let Some(arrival) = self.read(ready) {
                return Some(arrival);
            }
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.read_buffer[..self.read]
    }

    fn outgoing(&mut self) -> &mut Vec<u8> {
        &mut self.outgoing
    }

    fn send(&mut self, index: usize) -> io::Result<()> {
        let written = self.sockets[index].write(&self.outgoing);
        self.outgoing.clear();
        written
    }

    fn has_unsent(&self, index: usize) -> bool {
        self.sockets[index].has_unsent()
    }
}

impl Ready {
    fn of(event: &Event) -> Self {
        Self {
            index: event.token().0,
            is_writable: event.is_writable(),
            is_readable: event.is_readable(),
            is_closing: event.is_read_closed() || event.is_error(),
        }
    }
}
