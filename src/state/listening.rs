//! Where connections come from: the addresses of `bind` at one port, and `unixsocket`.

use crate::base::network::{Address, Listener, Network, Stream};
use crate::config::{Config, Directive};
use parking_lot::Mutex;
use rustix::io::Errno;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::task::{Context, Poll, Waker};
use tokio::net::UnixListener;

/// Addresses of `bind` at most.
const ADDRESSES_MAX: usize = 16;

/// All listening sockets. CONFIG SET replaces them while a task waits for connections.
#[derive(Debug)]
pub struct Listening {
    network: Arc<dyn Network>,
    open: Mutex<Open>,
    port: AtomicU16,
}

#[derive(Debug)]
struct Open {
    tcp: Vec<Listener>,
    unix: Option<UnixSocket>,
    /// Which of them is polled first, in turn.
    next: usize,
    /// The task that waits.
    waker: Option<Waker>,
}

/// A listening unix socket; its file goes with it.
#[derive(Debug)]
struct UnixSocket {
    listener: UnixListener,
    path: Arc<str>,
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        // It may have been removed already.
        let _ = std::fs::remove_file(&*self.path);
    }
}

/// An accepted connection.
#[derive(Debug)]
pub struct Accepted {
    /// Its socket.
    pub stream: Stream,
    /// The remote end.
    pub address: Address,
    /// The local end.
    pub local_address: Address,
}

impl Listening {
    /// Listens where the configuration says.
    pub fn begin(config: &Config, network: Arc<dyn Network>) -> Result<Self, String> {
        let unix = unix_socket(config)?;
        let port = port(config);
        // Port 0 lets the system choose one, unless there is another way in.
        let tcp = match port == 0 && unix.is_some() {
            true => Vec::new(),
            false => listen(config, port, &*network, &mut Vec::new()).map_err(|refusal| refusal.reason)?,
        };
        if tcp.is_empty() && unix.is_none() {
            return Err("bind names no address: there is nowhere to listen".into());
        }
        let port = AtomicU16::new(port_of(&tcp));
        Ok(Self { network, open: Mutex::new(Open { tcp, unix, next: 0, waker: None }), port })
    }

    /// The TCP port; 0 where there is none.
    pub fn port(&self) -> u16 {
        self.port.load(Ordering::Relaxed)
    }

    /// The TCP addresses that it listens on.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.open.lock().tcp.iter().filter_map(|listener| listener.local_address().ok()).collect()
    }

    /// What it listens on, for log lines.
    pub fn places(&self) -> Vec<String> {
        let open = self.open.lock();
        let tcp = open.tcp.iter().filter_map(|listener| listener.local_address().ok());
        tcp.map(|address| format!("tcp on {address}"))
            .chain(open.unix.iter().map(|unix| format!("unix on {}", unix.path)))
            .collect()
    }

    /// What it listens on, for INFO.
    pub fn described(&self) -> Vec<String> {
        let open = self.open.lock();
        let address = |listener: &Listener| listener.local_address().map(|address| format!("bind={},", address.ip()));
        let addresses: String = open.tcp.iter().filter_map(|listener| address(listener).ok()).collect();
        let tcp = (!open.tcp.is_empty()).then(|| format!("name=tcp,{addresses}port={}", self.port()));
        tcp.into_iter().chain(open.unix.iter().map(|unix| format!("name=unix,bind={}", unix.path))).collect()
    }

    /// Listens on other addresses, or another port; if that fails, on the old ones. Port 0 means what it does at the
    /// start.
    pub fn move_to(&self, config: &Config, port: u16) -> Result<(), String> {
        let mut open = self.open.lock();
        if port == 0 && open.unix.is_some() {
            open.tcp.clear();
            self.port.store(0, Ordering::Relaxed);
            return Ok(());
        }
        let mut result = listen(config, port, &*self.network, &mut open.tcp);
        if result.as_ref().is_err_and(|refusal| refusal.is_in_use)
            && open.tcp.iter().any(|listener| has_port(listener, port))
        {
            result = self.listen_anew(config, port, &mut open.tcp);
        }
        let result = result.map(|listeners| open.tcp = listeners).map_err(|refusal| refusal.reason);
        // If even the old addresses are not to be had any more, the next attempt is for the same port.
        if !open.tcp.is_empty() {
            self.port.store(port_of(&open.tcp), Ordering::Relaxed);
        }
        open.waker.take().into_iter().for_each(Waker::wake);
        result
    }

    /// Gives the addresses up before it listens on others: all addresses are not free while one is in use.
    fn listen_anew(&self, config: &Config, port: u16, open: &mut Vec<Listener>) -> Result<Vec<Listener>, Refusal> {
        let before: Vec<SocketAddr> = open.drain(..).filter_map(|listener| listener.local_address().ok()).collect();
        listen(config, port, &*self.network, open).inspect_err(|_| {
            let backlog = backlog(config);
            *open = before.into_iter().filter_map(|address| self.network.listen(address, backlog).ok()).collect();
        })
    }

    /// Stops listening.
    pub fn end(&self) {
        let mut open = self.open.lock();
        open.tcp.clear();
        open.unix = None;
    }

    /// Waits for a connection.
    pub async fn accept(&self) -> io::Result<Accepted> {
        poll_fn(|context| self.open.lock().poll_accept(context)).await
    }
}

impl Open {
    fn poll_accept(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Accepted>> {
        let count = self.tcp.len() + usize::from(self.unix.is_some());
        for turn in 0..count {
            let index = (self.next + turn) % count;
            if let Poll::Ready(result) = self.poll_accept_at(index, context) {
                self.next = index + 1;
                return Poll::Ready(result);
            }
        }
        self.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Accepts from one of the sockets: the unix socket comes after the others.
    fn poll_accept_at(&mut self, index: usize, context: &mut Context<'_>) -> Poll<io::Result<Accepted>> {
        if let Some(listener) = self.tcp.get_mut(index) {
            let accepted = |(stream, address, local_address)| Accepted {
                stream,
                address: Address::Ip(address),
                local_address: Address::Ip(local_address),
            };
            return listener.poll_accept(context).map_ok(accepted);
        }
        let Some(unix) = &self.unix else { return Poll::Pending };
        let address = Address::Unix(Arc::clone(&unix.path));
        let accepted = |stream| Accepted { stream: Stream::Unix(stream), local_address: address.clone(), address };
        unix.listener.poll_accept(context).map_ok(|(stream, _)| accepted(stream))
    }
}

fn port(config: &Config) -> u16 {
    u16::try_from(config.number(Directive::Port)).expect("the row of the directive bounds it")
}

fn backlog(config: &Config) -> u32 {
    u32::try_from(config.number(Directive::TcpBacklog)).expect("the row of the directive bounds it")
}

fn port_of(listeners: &[Listener]) -> u16 {
    listeners.first().and_then(|listener| listener.local_address().ok()).map_or(0, |address| address.port())
}

/// Why it cannot listen where it should.
#[derive(Debug)]
struct Refusal {
    reason: String,
    /// Whether something listens there.
    is_in_use: bool,
}

fn has_port(listener: &Listener, port: u16) -> bool {
    listener.local_address().is_ok_and(|address| address.port() == port)
}

/// Listens on the addresses of `bind`; with port 0, all get the port that the system chooses for the first. Of the
/// `open` listeners those are taken whose addresses are among them, so that no connection which waits there is lost.
/// If it fails, all stay open.
fn listen(
    config: &Config,
    mut port: u16,
    network: &dyn Network,
    open: &mut Vec<Listener>,
) -> Result<Vec<Listener>, Refusal> {
    let bind = config.text(Directive::Bind);
    let names: Vec<&str> = bind.split_whitespace().collect();
    if names.len() > ADDRESSES_MAX {
        return Err(Refusal { reason: "Too many bind addresses specified.".into(), is_in_use: false });
    }
    let before: Vec<Option<SocketAddr>> = open.iter().map(|listener| listener.local_address().ok()).collect();
    let mut listeners = Vec::new();
    for name in names {
        match listen_at(name, port, backlog(config), network, open) {
            Ok(listener) => {
                port = listener.local_address().map_or(port, |address| address.port());
                listeners.push(listener);
            }
            Err(error) if may_be_missing(name, &error) => {}
            Err(error) => {
                let was_open = |listener: &Listener| before.contains(&listener.local_address().ok());
                open.extend(listeners.into_iter().filter(was_open));
                let reason = format!("can't listen on {}:{port}: {error}", name.trim_start_matches('-'));
                return Err(Refusal { reason, is_in_use: error.kind() == io::ErrorKind::AddrInUse });
            }
        }
    }
    Ok(listeners)
}

/// Whether an address may be missing: if the kernel has no such addresses at all, or a `-` before it says that this
/// machine may not have it.
fn may_be_missing(name: &str, error: &io::Error) -> bool {
    let is_optional = name.starts_with('-');
    match Errno::from_io_error(error) {
        Some(Errno::ADDRNOTAVAIL) => is_optional,
        Some(
            Errno::NOPROTOOPT | Errno::PROTONOSUPPORT | Errno::SOCKTNOSUPPORT | Errno::PFNOSUPPORT | Errno::AFNOSUPPORT,
        ) => true,
        _ => false,
    }
}

/// Listens on an address, or on the first usable one of a name.
fn listen_at(
    name: &str,
    port: u16,
    backlog: u32,
    network: &dyn Network,
    open: &mut Vec<Listener>,
) -> io::Result<Listener> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses(name.strip_prefix('-').unwrap_or(name), port)? {
        let is_it = |listener: &Listener| listener.local_address().is_ok_and(|it| it == address);
        if let Some(position) = open.iter().position(is_it) {
            return Ok(open.remove(position));
        }
        match network.listen(address, backlog) {
            Ok(listener) => return Ok(listener),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// The addresses of a name; a name with a colon is IPv6, any other IPv4.
fn addresses(name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let any: Option<IpAddr> = match name {
        "*" => Some(Ipv4Addr::UNSPECIFIED.into()),
        "::*" => Some(Ipv6Addr::UNSPECIFIED.into()),
        _ => None,
    };
    if let Some(any) = any {
        return Ok(vec![(any, port).into()]);
    }
    let is_ipv6 = name.contains(':');
    Ok((name, port).to_socket_addrs()?.filter(|address| address.is_ipv6() == is_ipv6).collect())
}

fn unix_socket(config: &Config) -> Result<Option<UnixSocket>, String> {
    let path = config.text(Directive::Unixsocket);
    if path.is_empty() {
        return Ok(None);
    }
    let describe = |error: io::Error| format!("can't listen on {path}: {error}");
    remove_left_socket(Path::new(&path)).map_err(describe)?;
    let unix = UnixSocket { listener: UnixListener::bind(&path).map_err(describe)?, path: path.as_str().into() };
    let mode = config.narrow(Directive::Unixsocketperm);
    if mode > 0 {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).map_err(describe)?;
    }
    Ok(Some(unix))
}

/// Removes the socket of a server that has ended. Any other file of that name stays.
fn remove_left_socket(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() && UnixStream::connect(path).is_err() => {
            std::fs::remove_file(path)
        }
        _ => Ok(()),
    }
}
