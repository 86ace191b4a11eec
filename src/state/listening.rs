//! Where connections come from: the addresses of `bind`, at `port` and at `tls-port`; and `unixsocket`.

use crate::base::network::{Address, Listener, Network, Stream};
use crate::config::{Config, Directive};
use parking_lot::Mutex;
use rustix::io::Errno;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Addresses of `bind` at most.
const ADDRESSES_MAX: usize = 16;

/// All listening sockets. CONFIG SET replaces them while a task waits for connections.
#[derive(Debug)]
pub struct Listening {
    network: Arc<dyn Network>,
    open: Mutex<Open>,
}

#[derive(Debug)]
struct Open {
    plain: Port,
    encrypted: Port,
    unix: Option<UnixSocket>,
    /// Which of them is polled first, in turn.
    next: usize,
    /// The task that waits.
    waker: Option<Waker>,
}

/// One port, at all addresses.
#[derive(Debug, Default)]
struct Port {
    listeners: Vec<Listener>,
    /// Its number, also while none of its addresses is to be had any more; 0 for none.
    number: u16,
}

/// What a TCP port is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carries {
    /// The protocol as it is.
    Plain,
    /// The protocol within TLS.
    Tls,
}

/// What listens at a file, and its name.
#[derive(Debug)]
struct UnixSocket {
    listener: Listener,
    path: Arc<str>,
}

/// An accepted connection.
#[derive(Debug)]
pub struct Accepted {
    /// Its socket.
    pub stream: Stream,
    /// Whether TLS begins on it.
    pub carries: Carries,
    /// The remote end.
    pub address: Address,
    /// The local end.
    pub local_address: Address,
}

impl Listening {
    /// Listens where the configuration says.
    pub fn begin(config: &Config, network: Arc<dyn Network>) -> Result<Self, String> {
        let unix = unix_socket(config, &*network)?;
        let begin = |number| {
            let listeners = listen(config, number, &*network, &mut Vec::new()).map_err(|refusal| refusal.reason)?;
            Ok::<Port, String>(Port::of(listeners))
        };
        let encrypted = match wanted_port(config, Carries::Tls) {
            0 => Port::default(),
            number => begin(number)?,
        };
        // Port 0 lets the system choose one, unless there is another way in.
        let plain = match wanted_port(config, Carries::Plain) {
            0 if unix.is_some() || encrypted.number > 0 => Port::default(),
            number => begin(number)?,
        };
        if plain.listeners.is_empty() && encrypted.listeners.is_empty() && unix.is_none() {
            return Err("bind names no address: there is nowhere to listen".into());
        }
        Ok(Self { network, open: Mutex::new(Open { plain, encrypted, unix, next: 0, waker: None }) })
    }

    /// A TCP port; 0 where there is none.
    pub fn port(&self, carries: Carries) -> u16 {
        let open = self.open.lock();
        match carries {
            Carries::Plain => open.plain.number,
            Carries::Tls => open.encrypted.number,
        }
    }

    /// The port that clients are told: that for TLS where it is the only one.
    pub fn main_port(&self) -> u16 {
        let open = self.open.lock();
        if open.plain.number > 0 { open.plain.number } else { open.encrypted.number }
    }

    /// The TCP addresses that it listens on for connections that are not encrypted.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.open.lock().plain.addresses().collect()
    }

    /// What it listens on, for log lines.
    pub fn places(&self) -> Vec<String> {
        let open = self.open.lock();
        let plain = open.plain.addresses().map(|address| format!("tcp on {address}"));
        let encrypted = open.encrypted.addresses().map(|address| format!("tls on {address}"));
        plain.chain(open.unix.iter().map(|unix| format!("unix on {}", unix.path))).chain(encrypted).collect()
    }

    /// What it listens on, for INFO.
    pub fn described(&self) -> Vec<String> {
        let open = self.open.lock();
        let of_port = |name: &str, port: &Port| {
            let addresses: String = port.addresses().map(|address| format!("bind={},", address.ip())).collect();
            (!port.listeners.is_empty()).then(|| format!("name={name},{addresses}port={}", port.number))
        };
        let unix = open.unix.iter().map(|unix| format!("name=unix,bind={}", unix.path));
        of_port("tcp", &open.plain).into_iter().chain(unix).chain(of_port("tls", &open.encrypted)).collect()
    }

    /// Listens on other addresses, or another port; if that fails, on the old ones. Port 0 means what it does at the
    /// start.
    pub fn move_to(&self, config: &Config, carries: Carries, number: u16) -> Result<(), String> {
        let mut open = self.open.lock();
        let is_needless = match carries {
            Carries::Plain => open.unix.is_some() || open.encrypted.number > 0,
            Carries::Tls => true,
        };
        let port = match carries {
            Carries::Plain => &mut open.plain,
            Carries::Tls => &mut open.encrypted,
        };
        if number == 0 && is_needless {
            *port = Port::default();
            return Ok(());
        }
        let open_before = &mut port.listeners;
        let mut result = listen(config, number, &*self.network, open_before);
        if result.as_ref().is_err_and(|refusal| refusal.is_in_use)
            && open_before.iter().any(|listener| has_port(listener, number))
        {
            result = self.listen_anew(config, number, open_before);
        }
        let result = result.map(|listeners| port.listeners = listeners).map_err(|refusal| refusal.reason);
        // If even the old addresses are not to be had any more, the next attempt is for the same port.
        if !port.listeners.is_empty() {
            port.number = port_of(&port.listeners);
        }
        open.waker.take().into_iter().for_each(Waker::wake);
        result
    }

    /// Gives the addresses up before it listens on others: all addresses are not free while one is in use.
    fn listen_anew(&self, config: &Config, port: u16, open: &mut Vec<Listener>) -> Result<Vec<Listener>, Refusal> {
        let before: Vec<SocketAddr> = open.drain(..).filter_map(|listener| tcp_address(&listener)).collect();
        listen(config, port, &*self.network, open).inspect_err(|_| {
            let backlog = backlog(config);
            *open = before.into_iter().filter_map(|address| self.network.listen(address, backlog).ok()).collect();
        })
    }

    /// Stops listening.
    pub fn end(&self) {
        let mut open = self.open.lock();
        open.plain.listeners.clear();
        open.encrypted.listeners.clear();
        open.unix = None;
    }

    /// Waits for a connection.
    pub async fn accept(&self) -> io::Result<Accepted> {
        poll_fn(|context| self.open.lock().poll_accept(context)).await
    }
}

impl Port {
    fn of(listeners: Vec<Listener>) -> Self {
        Self { number: port_of(&listeners), listeners }
    }

    fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.listeners.iter().filter_map(tcp_address)
    }
}

impl Open {
    fn poll_accept(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Accepted>> {
        let count = self.plain.listeners.len() + self.encrypted.listeners.len() + usize::from(self.unix.is_some());
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
    fn poll_accept_at(&self, index: usize, context: &mut Context<'_>) -> Poll<io::Result<Accepted>> {
        let plain = self.plain.listeners.iter().map(|listener| (listener, Carries::Plain));
        let encrypted = self.encrypted.listeners.iter().map(|listener| (listener, Carries::Tls));
        let unix = self.unix.iter().map(|unix| (&unix.listener, Carries::Plain));
        let Some((listener, carries)) = plain.chain(encrypted).chain(unix).nth(index) else { return Poll::Pending };
        let accepted = |(stream, address, local_address)| Accepted { stream, carries, address, local_address };
        listener.poll_accept(context).map_ok(accepted)
    }
}

/// The port that the configuration wants.
pub fn wanted_port(config: &Config, carries: Carries) -> u16 {
    let directive = match carries {
        Carries::Plain => Directive::Port,
        Carries::Tls => Directive::TlsPort,
    };
    u16::try_from(config.number(directive)).expect("the row of the directive bounds it")
}

fn backlog(config: &Config) -> u32 {
    u32::try_from(config.number(Directive::TcpBacklog)).expect("the row of the directive bounds it")
}

fn port_of(listeners: &[Listener]) -> u16 {
    listeners.first().and_then(tcp_address).map_or(0, |address| address.port())
}

fn tcp_address(listener: &Listener) -> Option<SocketAddr> {
    listener.local_address().ok()?.ip()
}

/// Why it cannot listen where it should.
#[derive(Debug)]
struct Refusal {
    reason: String,
    /// Whether something listens there.
    is_in_use: bool,
}

fn has_port(listener: &Listener, port: u16) -> bool {
    tcp_address(listener).is_some_and(|address| address.port() == port)
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
    let before: Vec<Option<SocketAddr>> = open.iter().map(tcp_address).collect();
    let mut listeners = Vec::new();
    for name in names {
        match listen_at(name, port, backlog(config), network, open) {
            Ok(listener) => {
                port = tcp_address(&listener).map_or(port, |address| address.port());
                listeners.push(listener);
            }
            Err(error) if may_be_missing(name, &error) => {}
            Err(error) => {
                let was_open = |listener: &Listener| before.contains(&tcp_address(listener));
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
        let is_it = |listener: &Listener| tcp_address(listener) == Some(address);
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

fn unix_socket(config: &Config, network: &dyn Network) -> Result<Option<UnixSocket>, String> {
    let path: Arc<str> = config.text(Directive::Unixsocket).into();
    if path.is_empty() {
        return Ok(None);
    }
    match network.listen_at_file(&path, config.narrow(Directive::Unixsocketperm)) {
        Ok(listener) => Ok(Some(UnixSocket { listener, path })),
        Err(error) => Err(format!("can't listen on {path}: {error}")),
    }
}
