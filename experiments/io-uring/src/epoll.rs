//! One epoll_wait for many events, a read and a write for each ready connection.
use std::io;

use crate::resp::{Input, Store};
use crate::{Options, check};

const EVENTS: usize = 1024;
const LISTENER: u64 = u64::MAX;

struct Connection {
    fd: i32,
    input: Input,
    unsent: Vec<u8>,
    is_queued: bool,
}

struct Loop {
    epoll: i32,
    connections: Vec<Option<Box<Connection>>>,
    store: Store,
    out: Vec<u8>,
    buffer: Vec<u8>,
    /// Connections with replies of this round: connection, from, to.
    queued: Vec<(usize, usize, usize)>,
    edge: bool,
    late: bool,
}

pub fn run(listener: i32, options: &Options) -> io::Result<()> {
    let mut this = Loop {
        epoll: check(unsafe { libc::epoll_create1(0) })?,
        connections: Vec::new(),
        store: Store::new(),
        out: Vec::new(),
        buffer: vec![0; 64 * 1024],
        queued: Vec::new(),
        edge: options.edge,
        late: options.late,
    };
    this.control(libc::EPOLL_CTL_ADD, listener, libc::EPOLLIN, LISTENER)?;
    let mut events = vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS];
    let nap = libc::timespec { tv_sec: 0, tv_nsec: i64::from(options.nap_usec) * 1000 };
    if options.nap_usec > 0 {
        check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) })?;
    }
    let mut last = options.wait;
    loop {
        if options.nap_usec > 0 && (1..options.wait).contains(&last) {
            unsafe { libc::nanosleep(&nap, std::ptr::null_mut()) };
        }
        let found = unsafe { libc::epoll_wait(this.epoll, events.as_mut_ptr(), EVENTS as i32, -1) };
        let found = check(found)? as usize;
        last = found;
        this.store.counters.waits += 1;
        this.store.counters.events += found as u64;
        for event in &events[..found] {
            let (number, kind) = (event.u64, event.events as i32);
            if number == LISTENER {
                this.accept(listener)?;
                continue;
            }
            let index = number as usize;
            if kind & libc::EPOLLOUT != 0 {
                this.write_unsent(index)?;
            }
            if kind & (libc::EPOLLIN | libc::EPOLLHUP | libc::EPOLLERR) != 0 {
                this.read(index)?;
            }
        }
        this.flush()?;
    }
}

impl Loop {
    fn control(&self, operation: i32, fd: i32, events: i32, number: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: events as u32, u64: number };
        check(unsafe { libc::epoll_ctl(self.epoll, operation, fd, &mut event) }).map(drop)
    }

    fn accept(&mut self, listener: i32) -> io::Result<()> {
        loop {
            let fd = unsafe {
                libc::accept4(listener, std::ptr::null_mut(), std::ptr::null_mut(), libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC)
            };
            if fd < 0 {
                return Ok(());
            }
            let index = fd as usize;
            if self.connections.len() <= index {
                self.connections.resize_with(index + 1, || None);
            }
            let connection = Connection { fd, input: Input::default(), unsent: Vec::new(), is_queued: false };
            self.connections[index] = Some(Box::new(connection));
            let edge = if self.edge { libc::EPOLLET | libc::EPOLLOUT } else { 0 };
            self.control(libc::EPOLL_CTL_ADD, fd, libc::EPOLLIN | edge, index as u64)?;
        }
    }

    fn read(&mut self, index: usize) -> io::Result<()> {
        loop {
            let Some(connection) = self.connections[index].as_mut() else { return Ok(()) };
            let fd = connection.fd;
            let length = unsafe { libc::recv(fd, self.buffer.as_mut_ptr().cast(), self.buffer.len(), 0) };
            if length < 0 && io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock {
                return Ok(());
            }
            if length <= 0 {
                return self.close(index);
            }
            let length = length as usize;
            let from = self.out.len();
            if connection.input.take(&mut self.store, &self.buffer[..length], &mut self.out).is_err() {
                self.out.truncate(from);
                return self.close(index);
            }
            let to = self.out.len();
            if to > from {
                connection.is_queued = true;
                self.queued.push((index, from, to));
                if !self.late {
                    self.flush()?;
                }
            }
            if length < self.buffer.len() || !self.edge {
                return Ok(());
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let out = std::mem::take(&mut self.out);
        for (index, from, to) in std::mem::take(&mut self.queued) {
            self.send(index, &out[from..to])?;
        }
        self.out = out;
        self.out.clear();
        Ok(())
    }

    fn send(&mut self, index: usize, bytes: &[u8]) -> io::Result<()> {
        let Some(connection) = self.connections[index].as_mut() else { return Ok(()) };
        let fd = connection.fd;
        connection.is_queued = false;
        if !connection.unsent.is_empty() {
            connection.unsent.extend_from_slice(bytes);
            return Ok(());
        }
        self.store.counters.sends += 1;
        let sent = unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
        if sent < 0 && io::Error::last_os_error().kind() != io::ErrorKind::WouldBlock {
            return self.close(index);
        }
        let sent = sent.max(0) as usize;
        if sent < bytes.len() {
            connection.unsent.extend_from_slice(&bytes[sent..]);
            if !self.edge {
                self.control(libc::EPOLL_CTL_MOD, fd, libc::EPOLLIN | libc::EPOLLOUT, index as u64)?;
            }
        }
        Ok(())
    }

    fn write_unsent(&mut self, index: usize) -> io::Result<()> {
        let Some(connection) = self.connections[index].as_mut() else { return Ok(()) };
        if connection.unsent.is_empty() {
            return Ok(());
        }
        let bytes = std::mem::take(&mut connection.unsent);
        if !self.edge {
            let fd = connection.fd;
            self.control(libc::EPOLL_CTL_MOD, fd, libc::EPOLLIN, index as u64)?;
        }
        self.send(index, &bytes)
    }

    fn close(&mut self, index: usize) -> io::Result<()> {
        if let Some(connection) = self.connections[index].take() {
            check(unsafe { libc::close(connection.fd) })?;
        }
        Ok(())
    }
}
