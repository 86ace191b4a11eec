//! The bytes of a connection: a TCP or a unix socket, and the names of its ends.

use bytes::BufMut;
use socket2::{SockRef, TcpKeepalive};
use std::fmt;
use std::io::{self, ErrorKind, Read};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};

/// The socket of a connection: read and written where it is ready, never waited for.
#[derive(Debug)]
pub enum Stream {
    /// From this machine or another.
    Tcp(TcpStream),
    /// From this machine, by the name of a file.
    Unix(UnixStream),
}

/// The name of an end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// Of TCP.
    Ip(SocketAddr),
    /// The file of a unix socket: both ends have its name.
    Unix(Arc<str>),
}

macro_rules! each {
    ($self:expr, $stream:ident => $act:expr) => {
        match $self {
            Self::Tcp($stream) => $act,
            Self::Unix($stream) => $act,
        }
    };
}

impl Stream {
    /// Whether there is something to read.
    pub fn poll_read_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => stream.poll_read_ready(context))
    }

    /// Whether there is room to write.
    pub fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => stream.poll_write_ready(context))
    }

    /// Reads into a buffer that grows.
    pub fn try_read_buf(&self, buffer: &mut impl BufMut) -> io::Result<usize> {
        each!(self, stream => stream.try_read_buf(buffer))
    }

    /// Writes what the socket takes.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        each!(self, stream => stream.try_write(bytes))
    }

    /// Reads once. Fewer bytes than there is room for are all that there were: the readiness of the stream ends with them,
    /// as in tokio's `AsyncRead`, and epoll begins it again. `try_read` asks the kernel once more to find that out: a
    /// second system call for each read of a connection that reads on while its replies are on their way.
    pub fn read_once(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut len = 0;
        let read = || {
            len = (&*self.socket()).read(buffer)?;
            let is_drained = (1..buffer.len()).contains(&len);
            if is_drained { Err(ErrorKind::WouldBlock.into()) } else { Ok(()) }
        };
        let result = each!(self, stream => stream.try_io(Interest::READABLE, read));
        if len > 0 { Ok(len) } else { result.map(|()| 0) }
    }

    /// Ends the connection, or a direction of it.
    pub fn shut_down(&self, how: Shutdown) {
        // An error means that the socket is closed already, which is what is wanted.
        let _ = self.socket().shutdown(how);
    }

    /// Sends small replies at once, and lets the kernel ask a connection that has been silent for so long whether it is
    /// there, and three times more before it is taken for gone; 0 for never.
    pub fn prepare(&self, silence_s: u64) -> io::Result<()> {
        const QUESTIONS: u32 = 3;
        let Self::Tcp(stream) = self else { return Ok(()) };
        stream.set_nodelay(true)?;
        if silence_s == 0 {
            return Ok(());
        }
        let between_s = (silence_s / u64::from(QUESTIONS)).max(1);
        let (silence, between) = (Duration::from_secs(silence_s), Duration::from_secs(between_s));
        let keepalive = TcpKeepalive::new().with_time(silence).with_interval(between).with_retries(QUESTIONS);
        SockRef::from(stream).set_tcp_keepalive(&keepalive)
    }

    fn socket(&self) -> SockRef<'_> {
        each!(self, stream => SockRef::from(stream))
    }
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        each!(self, stream => stream.as_raw_fd())
    }
}

impl Address {
    /// Whether it is on this machine, and nowhere else.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Ip(address) => address.ip().is_loopback(),
            Self::Unix(_) => true,
        }
    }

    /// Its host, without the port.
    pub fn host(&self) -> String {
        match self {
            Self::Ip(address) => address.ip().to_string(),
            Self::Unix(path) => path.to_string(),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "{path}:0"),
        }
    }
}
