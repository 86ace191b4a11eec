//! The network: where connections come from and go to, and their bytes.
//!
//! It is a seam: [`SystemNetwork`] is the machine's, with TCP and unix sockets; a test brings another, whose
//! connections deliver what the test chooses, when it chooses. Code that reads and writes a connection does not know
//! which network it uses.
//!
//! # Why unsafe
//! A growing buffer is read into without being filled with zeros first: each byte would be written twice.
#![allow(unsafe_code)]

use bytes::BufMut;
use socket2::{SockRef, Socket, TcpKeepalive};
use std::fmt;
use std::io::{self, ErrorKind, IoSlice, Read};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream, lookup_host};

/// A place where connections come from and go to. Errors are those of an operating system.
pub trait Network: fmt::Debug + Send + Sync {
    /// Listens at an address; up to `backlog` connections may wait to be accepted. For port 0 the network chooses one.
    fn listen(&self, address: SocketAddr, backlog: u32) -> io::Result<Listener>;
    /// Listens within this machine, by the name of a file, which goes with the listener. `mode` has the permissions of
    /// the file; 0 for those that the process gives to new files.
    fn listen_at_file(&self, path: &Arc<str>, mode: u32) -> io::Result<Listener>;
    /// Connects to a host, which is a name or an address. `source` is the address to connect from, where that is
    /// possible; empty for whichever the network chooses.
    fn connect<'a>(&'a self, host: &'a str, port: u16, source: &'a str) -> Connecting<'a>;
}

/// A connection that is being made.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send + 'a>>;

/// The machine's network: TCP and unix sockets.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemNetwork;

impl Network for SystemNetwork {
    fn listen(&self, address: SocketAddr, backlog: u32) -> io::Result<Listener> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        if address.is_ipv6() {
            // IPv4 addresses are bound separately.
            SockRef::from(&socket).set_only_v6(true)?;
        }
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(backlog).map(Listener::Tcp)
    }

    fn listen_at_file(&self, path: &Arc<str>, mode: u32) -> io::Result<Listener> {
        remove_left_socket(Path::new(&**path))?;
        let socket = UnixSocket { listener: UnixListener::bind(&**path)?, path: Arc::clone(path) };
        if mode > 0 {
            std::fs::set_permissions(&**path, std::fs::Permissions::from_mode(mode))?;
        }
        Ok(Listener::Unix(socket))
    }

    fn connect<'a>(&'a self, host: &'a str, port: u16, source: &'a str) -> Connecting<'a> {
        Box::pin(async move {
            let stream = match connect_from(source, host, port).await {
                Some(stream) => stream,
                None => TcpStream::connect((host, port)).await?,
            };
            stream.set_nodelay(true)?;
            Ok(Stream::Tcp(stream))
        })
    }
}

/// Connects from an address; `None` if there is none, or no connection from it.
async fn connect_from(source: &str, host: &str, port: u16) -> Option<TcpStream> {
    if source.is_empty() {
        return None;
    }
    let sources: Vec<_> = lookup_host((source, 0)).await.ok()?.collect();
    for address in lookup_host((host, port)).await.ok()? {
        let Some(source) = sources.iter().find(|source| source.is_ipv4() == address.is_ipv4()) else { continue };
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }.ok()?;
        if socket.bind(*source).is_ok()
            && let Ok(stream) = socket.connect(address).await
        {
            return Some(stream);
        }
    }
    None
}

/// Removes the socket of a server that has ended. Any other file of that name stays.
fn remove_left_socket(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() && std::os::unix::net::UnixStream::connect(path).is_err() => {
            std::fs::remove_file(path)
        }
        _ => Ok(()),
    }
}

/// Whether a text can be a host name that we announce: one word that a config file can hold unquoted.
pub fn is_host(text: &str) -> bool {
    let is_of_none =
        |letter: char| letter.is_whitespace() || letter.is_control() || matches!(letter, '"' | '\'' | '\\');
    !text.is_empty() && !text.contains(is_of_none)
}

/// Accepts connections until it is dropped.
#[derive(Debug)]
pub enum Listener {
    /// At an address of this machine.
    Tcp(TcpListener),
    /// Within this machine, by the name of a file.
    Unix(UnixSocket),
    /// At an address of another network.
    Other(Box<dyn Acceptor>),
}

/// A listening unix socket; its file goes with it.
#[derive(Debug)]
pub struct UnixSocket {
    listener: UnixListener,
    path: Arc<str>,
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        // It may have been removed already.
        let _ = std::fs::remove_file(&*self.path);
    }
}

/// A connection, with the addresses of the other end and of this one.
pub type Arrival = (Stream, Address, Address);

/// Accepts the connections of a network that is not the machine's.
pub trait Acceptor: fmt::Debug + Send + Sync {
    /// The address that it listens at.
    fn local_address(&self) -> Address;
    /// The next connection.
    fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<Arrival>>;
}

impl Listener {
    /// The address that it listens at.
    pub fn local_address(&self) -> io::Result<Address> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(Address::Ip),
            Self::Unix(socket) => Ok(Address::Unix(Arc::clone(&socket.path))),
            Self::Other(acceptor) => Ok(acceptor.local_address()),
        }
    }

    /// The next connection.
    pub fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<Arrival>> {
        match self {
            Self::Tcp(listener) => {
                let (stream, address) = ready!(listener.poll_accept(context))?;
                let local_address = stream.local_addr().unwrap_or(address);
                Poll::Ready(Ok((Stream::Tcp(stream), Address::Ip(address), Address::Ip(local_address))))
            }
            Self::Unix(socket) => {
                let (stream, _) = ready!(socket.listener.poll_accept(context))?;
                let address = || Address::Unix(Arc::clone(&socket.path));
                Poll::Ready(Ok((Stream::Unix(stream), address(), address())))
            }
            Self::Other(acceptor) => acceptor.poll_accept(context),
        }
    }
}

/// The bytes of a connection, read and written when it is ready, without waiting.
#[derive(Debug)]
pub enum Stream {
    /// With this machine or another.
    Tcp(TcpStream),
    /// Within this machine, by the name of a file.
    Unix(UnixStream),
    /// On another network, or within another stream.
    Other(Box<dyn Transport>),
}

/// A connection on a network that is not the machine's, or within another one. As with a socket, a read or write that
/// is not ready returns `WouldBlock`, and dropping it closes it.
pub trait Transport: fmt::Debug + Send + Sync {
    /// Whether there is something to read.
    fn poll_read_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>>;
    /// Whether there is room to write.
    fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>>;
    /// Reads what is there; 0 if the other end sends no more.
    fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize>;
    /// Writes what there is room for. What did not all fit is offered again, with the same bytes at its beginning.
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize>;
    /// Ends the connection, or one direction of it.
    fn shut_down(&self, how: Shutdown);
    /// The stream that carries it, if there is one.
    fn carrier(&self) -> Option<&Stream> {
        None
    }
}

/// Bytes that one read from another network appends to a growing buffer.
const OTHER_READ_MAX: usize = 64 * 1024;

/// The name of an end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A TCP address.
    Ip(SocketAddr),
    /// The file of a unix socket: both ends have its name.
    Unix(Arc<str>),
}

/// Does the same for every kind of stream, or something else for another network's if that is given.
macro_rules! each {
    ($self:expr, $stream:ident => $act:expr) => {
        each!($self, $stream => $act, $stream => $act)
    };
    ($self:expr, $stream:ident => $act:expr, $other:ident => $otherwise:expr) => {
        match $self {
            Self::Tcp($stream) => $act,
            Self::Unix($stream) => $act,
            Self::Other($other) => $otherwise,
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

    /// Writes what the socket takes.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        each!(self, stream => stream.try_write(bytes))
    }

    /// Writes what the socket takes of several buffers; another network takes the first.
    pub fn try_write_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        each!(self, stream => stream.try_write_vectored(buffers), other => {
            other.try_write(buffers.iter().find(|buffer| !buffer.is_empty()).map_or(&[], |buffer| buffer))
        })
    }

    /// Writes what the socket takes, if its runtime has not asked yet whether it takes anything, too.
    pub fn write_at_once(&self, bytes: &[u8]) -> io::Result<usize> {
        each!(self, stream => SockRef::from(stream).send(bytes), other => other.try_write(bytes))
    }

    /// Reads once. If fewer bytes arrive than there is room for, nothing more was there: the stream is then no longer
    /// ready, as in tokio's `AsyncRead`, until epoll says so again. `try_read` would ask the kernel once more to find
    /// that out: a second system call for each read of a connection that reads on while its replies are in flight.
    pub fn read_once(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let room = buffer.len();
        match self {
            Self::Other(other) => other.try_read(buffer),
            _ => self.receive_once(room, |mut socket| socket.read(buffer)),
        }
    }

    /// Reads once, too, and appends to a growing buffer.
    pub fn read_buf_once(&self, buffer: &mut impl BufMut) -> io::Result<usize> {
        if let Self::Other(other) = self {
            let mut read = vec![0; buffer.remaining_mut().min(OTHER_READ_MAX)];
            let len = other.try_read(&mut read)?;
            buffer.put_slice(&read[..len]);
            return Ok(len);
        }
        let room = buffer.chunk_mut();
        // SAFETY: nothing is written through this slice but by `recv`, which writes initialised bytes.
        let room = unsafe { room.as_uninit_slice_mut() };
        let len = self.receive_once(room.len(), |socket| socket.recv(room))?;
        // SAFETY: `recv` has initialised as many bytes.
        unsafe { buffer.advance_mut(len) };
        Ok(len)
    }

    /// Receives from a socket into a buffer with `room` for this many bytes.
    fn receive_once(&self, room: usize, receive: impl FnOnce(&Socket) -> io::Result<usize>) -> io::Result<usize> {
        let mut len = 0;
        let receive = |socket: SockRef<'_>| {
            len = receive(&socket)?;
            let is_drained = (1..room).contains(&len);
            if is_drained { Err(ErrorKind::WouldBlock.into()) } else { Ok(()) }
        };
        let result = match self {
            Self::Tcp(stream) => stream.try_io(Interest::READABLE, || receive(SockRef::from(stream))),
            Self::Unix(stream) => stream.try_io(Interest::READABLE, || receive(SockRef::from(stream))),
            Self::Other(_) => unreachable!("another network has no socket"),
        };
        if len > 0 { Ok(len) } else { result.map(|()| 0) }
    }

    /// The same connection, in the network of the runtime that is entered.
    pub fn registered_here(self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(stream) => Self::Tcp(TcpStream::from_std(stream.into_std()?)?),
            Self::Unix(stream) => Self::Unix(UnixStream::from_std(stream.into_std()?)?),
            Self::Other(other) => Self::Other(other),
        })
    }

    /// Ends the connection, or one direction of it.
    pub fn shut_down(&self, how: Shutdown) {
        // An error means that the socket is closed already, which is what is wanted.
        each!(self, stream => drop(SockRef::from(stream).shutdown(how)), other => other.shut_down(how));
    }

    /// Sends small replies at once. If a connection has been silent for `silence_s`, the kernel probes it, and gives it
    /// up after three probes without an answer; 0 for never.
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

    /// The number of its socket; -1 if there is none.
    pub fn socket_number(&self) -> RawFd {
        each!(self, stream => stream.as_raw_fd(), other => other.carrier().map_or(-1, Self::socket_number))
    }

    /// Its TCP socket, if it has one.
    pub fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Self::Tcp(stream) => Some(stream),
            Self::Unix(_) => None,
            Self::Other(other) => other.carrier()?.tcp(),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        each!(self.get_mut(), stream => Pin::new(stream).poll_read(context, into), other => loop {
            ready!(other.poll_read_ready(context))?;
            match other.try_read(into.initialize_unfilled()) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Ok(len) => {
                    into.advance(len);
                    return Poll::Ready(Ok(()));
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        })
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        each!(self.get_mut(), stream => Pin::new(stream).poll_write(context, bytes), other => loop {
            ready!(other.poll_write_ready(context))?;
            match other.try_write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        })
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shut_down(Shutdown::Write);
        Poll::Ready(Ok(()))
    }
}

impl Address {
    /// Its TCP address, if it has one.
    pub fn ip(&self) -> Option<SocketAddr> {
        match self {
            Self::Ip(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }

    /// Whether it can only be on this machine.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Ip(address) => address.ip().is_loopback(),
            Self::Unix(_) => true,
        }
    }

    /// How monitors are shown it.
    pub fn monitored(&self) -> String {
        match self {
            Self::Ip(address) => address.to_string(),
            Self::Unix(path) => format!("unix:{path}"),
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
