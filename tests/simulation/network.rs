//! A network in memory, with delays, partial reads, slow links, partitions, and connections cut at any byte.
//!
//! All hosts of a world share one network. The world sets its time once per step, and what is due then arrives. A
//! connection is two [`Pipe`]s, one per direction. A pipe keeps the order of its bytes; there is no order between
//! connections.

use fastrand::Rng;
use shardrace::internals::base::{Acceptor, Address, Arrival, Connecting, Listener, Network, Stream, Transport};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::poll_fn;
use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

/// How many bytes of one direction may be sent and not read before the sender waits.
const WINDOW: usize = 32 * 1024;
/// The port that all servers listen on.
pub const PORT: u16 = 6379;

/// The number of a host: the last byte of its address.
pub type Host = u8;

pub fn address_of(host: Host) -> String {
    format!("10.0.0.{host}")
}

fn host_of(address: &str) -> Option<Host> {
    address.strip_prefix("10.0.0.")?.parse().ok()
}

/// The quality of a link between two hosts.
#[derive(Debug, Clone, Copy)]
pub struct Quality {
    /// The shortest and the longest delay of bytes.
    pub delay_ms: (u64, u64),
    /// Bytes per millisecond.
    pub rate: usize,
    /// Whether the hosts are partitioned. What is sent meanwhile arrives later.
    pub is_parted: bool,
}

/// The network of a world.
#[derive(Clone)]
pub struct Net(Arc<Mutex<State>>);

struct State {
    now_ms: u64,
    random: Rng,
    plain: Quality,
    links: BTreeMap<(Host, Host), Quality>,
    listeners: BTreeMap<Host, Waiting>,
    connections: Vec<Connection>,
    /// The connections on which something may still arrive.
    live: Vec<usize>,
    /// A hash of all bytes that have arrived, and when.
    trace: u64,
    arrived: u64,
    /// The file that `TRACE=path` names: all arrivals, to compare two runs of a seed.
    log: Option<std::fs::File>,
}

/// Connections that the listener has not accepted yet.
#[derive(Default)]
struct Waiting {
    queue: VecDeque<usize>,
    waker: Option<Waker>,
}

struct Connection {
    /// The host that connected, and the host that it connected to.
    hosts: [Host; 2],
    phase: Phase,
    /// When it is established.
    due_ms: u64,
    /// The bytes from the first host, and those from the second.
    pipes: [Pipe; 2],
    connecting: Option<Waker>,
    /// For each host, whether it has dropped its end.
    gone: [bool; 2],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Connecting,
    Open,
    Refused,
    /// It was reset.
    Broken,
}

/// One direction of a connection.
#[derive(Default)]
struct Pipe {
    sent: VecDeque<(u64, Vec<u8>)>,
    sent_bytes: usize,
    arrived: VecDeque<u8>,
    /// When the last byte that was sent arrives.
    last_due_ms: u64,
    /// How many bytes have arrived so far.
    total: u64,
    /// The connection breaks when this many have arrived.
    breaks_at: Option<u64>,
    /// The sender has ended; the reader sees the end after the last byte.
    is_ended: bool,
    /// The reader reads no more.
    is_deaf: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Net {
    pub fn new(seed: u64, plain: Quality) -> Self {
        Self(Arc::new(Mutex::new(State {
            now_ms: 0,
            random: Rng::with_seed(seed),
            plain,
            links: BTreeMap::new(),
            listeners: BTreeMap::new(),
            connections: Vec::new(),
            live: Vec::new(),
            trace: 0xcbf2_9ce4_8422_2325,
            arrived: 0,
            log: std::env::var_os("TRACE").map(|path| std::fs::File::create(path).unwrap()),
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// The network, as one host uses it.
    pub fn of_host(&self, host: Host) -> Arc<dyn Network> {
        Arc::new(OfHost { net: self.clone(), host })
    }

    /// Sets the time; what is due arrives. Returns the milliseconds until more is due, at most `most`.
    pub fn advance(&self, now_ms: u64, most: u64) -> u64 {
        let mut state = self.state();
        state.now_ms = now_ms;
        let live = std::mem::take(&mut state.live);
        for &index in &live {
            state.arrive(index);
        }
        state.live = live.into_iter().filter(|&index| state.connections[index].is_live()).collect();
        let due = |connection: &Connection| {
            let bytes = connection.pipes.iter().filter_map(|pipe| pipe.sent.front().map(|(due_ms, _)| *due_ms));
            bytes.chain((connection.phase == Phase::Connecting).then_some(connection.due_ms)).min()
        };
        let live = state.live.iter().map(|&index| &state.connections[index]);
        let arrives = |connection: &&Connection| !state.quality(connection.hosts).is_parted;
        let next = live.filter(arrives).filter_map(due).min().unwrap_or(u64::MAX);
        next.saturating_sub(now_ms).clamp(1, most)
    }

    /// A hash of all bytes that have arrived, and when; and how many.
    pub fn trace(&self) -> (u64, u64) {
        let state = self.state();
        (state.trace, state.arrived)
    }

    pub fn set_quality(&self, hosts: (Host, Host), quality: Quality) {
        self.state().links.insert(in_order(hosts.0, hosts.1), quality);
    }

    /// Gives the link the quality of all others.
    pub fn heal(&self, hosts: (Host, Host)) {
        self.state().links.remove(&in_order(hosts.0, hosts.1));
    }

    pub fn heal_all(&self) {
        let mut state = self.state();
        state.links.clear();
        state
            .connections
            .iter_mut()
            .flat_map(|connection| &mut connection.pipes)
            .for_each(|pipe| pipe.breaks_at = None);
    }

    /// Connections between two hosts break after this many more bytes in one direction.
    pub fn cut_after(&self, hosts: (Host, Host), bytes: u64) {
        let mut state = self.state();
        let way = usize::from(state.random.bool());
        for connection in &mut state.connections {
            if in_order(connection.hosts[0], connection.hosts[1]) == in_order(hosts.0, hosts.1)
                && connection.phase == Phase::Open
            {
                let pipe = &mut connection.pipes[way];
                pipe.breaks_at = Some(pipe.total + bytes);
            }
        }
    }

    /// Removes a host: its listener is gone, and its connections break.
    pub fn crash(&self, host: Host) {
        let mut state = self.state();
        state.listeners.remove(&host);
        for connection in state.connections.iter_mut().filter(|connection| connection.hosts.contains(&host)) {
            connection.break_off();
        }
    }
}

fn in_order(one: Host, other: Host) -> (Host, Host) {
    (one.min(other), one.max(other))
}

impl State {
    fn quality(&self, hosts: [Host; 2]) -> Quality {
        self.links.get(&in_order(hosts[0], hosts[1])).copied().unwrap_or(self.plain)
    }

    fn delay_ms(&mut self, quality: Quality) -> u64 {
        self.random.u64(quality.delay_ms.0..=quality.delay_ms.1)
    }

    fn note(&mut self, bytes: &[u8]) {
        let time = self.now_ms.to_le_bytes();
        for byte in time.iter().chain(bytes) {
            self.trace = (self.trace ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.arrived += bytes.len() as u64;
    }

    fn arrive(&mut self, index: usize) {
        let now_ms = self.now_ms;
        let hosts = self.connections[index].hosts;
        if self.quality(hosts).is_parted {
            return;
        }
        if self.connections[index].phase == Phase::Connecting && self.connections[index].due_ms <= now_ms {
            self.answer(index);
        }
        for way in 0..2 {
            self.deliver(index, way);
        }
    }

    fn answer(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        match self.listeners.get_mut(&connection.hosts[1]) {
            Some(listener) => {
                connection.phase = Phase::Open;
                listener.queue.push_back(index);
                listener.waker.take().into_iter().for_each(Waker::wake);
            }
            None => connection.phase = Phase::Refused,
        }
        connection.connecting.take().into_iter().for_each(Waker::wake);
        self.note(&[0xfe, index as u8]);
    }

    fn deliver(&mut self, index: usize, way: usize) {
        loop {
            let now_ms = self.now_ms;
            let pipe = &mut self.connections[index].pipes[way];
            if pipe.sent.front().is_none_or(|(due_ms, _)| *due_ms > now_ms) {
                return;
            }
            let (_, mut bytes) = pipe.sent.pop_front().unwrap();
            pipe.sent_bytes -= bytes.len();
            let left = pipe.breaks_at.map(|at| at.saturating_sub(pipe.total) as usize);
            let is_cut = left.is_some_and(|left| left <= bytes.len());
            bytes.truncate(left.unwrap_or(usize::MAX));
            pipe.total += bytes.len() as u64;
            if !pipe.is_deaf {
                pipe.arrived.extend(&bytes);
            }
            pipe.reader.take().into_iter().for_each(Waker::wake);
            self.note(&[index as u8, way as u8]);
            self.note(&bytes);
            if let Some(log) = &mut self.log {
                let hosts = self.connections[index].hosts;
                let (from, to) = (hosts[way], hosts[1 - way]);
                writeln!(log, "{now_ms} {from}>{to} ({index}) {}", bytes.escape_ascii()).unwrap();
            }
            if is_cut {
                self.connections[index].break_off();
                return;
            }
        }
    }
}

impl Connection {
    fn break_off(&mut self) {
        if matches!(self.phase, Phase::Open | Phase::Connecting) {
            self.phase = if self.phase == Phase::Open { Phase::Broken } else { Phase::Refused };
        }
        self.connecting.take().into_iter().for_each(Waker::wake);
        for pipe in &mut self.pipes {
            pipe.sent.clear();
            pipe.sent_bytes = 0;
            pipe.reader.take().into_iter().for_each(Waker::wake);
            pipe.writer.take().into_iter().for_each(Waker::wake);
        }
    }
}

/// The network, as one host uses it.
struct OfHost {
    net: Net,
    host: Host,
}

impl fmt::Debug for OfHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the network of host {}", self.host)
    }
}

impl Network for OfHost {
    fn listen(&self, address: SocketAddr, _: u32) -> io::Result<Listener> {
        if address != SocketAddr::from((Ipv4Addr::new(10, 0, 0, self.host), PORT)) {
            return Err(io::Error::new(ErrorKind::AddrNotAvailable, format!("{address} is not of host {}", self.host)));
        }
        self.net.state().listeners.insert(self.host, Waiting::default());
        Ok(Listener::Other(Box::new(At { net: self.net.clone(), host: self.host })))
    }

    fn listen_at_file(&self, path: &Arc<str>, _: u32) -> io::Result<Listener> {
        Err(io::Error::new(ErrorKind::Unsupported, format!("{path}: simulated hosts have no unix sockets")))
    }

    fn connect<'a>(&'a self, host: &'a str, port: u16, _source: &'a str) -> Connecting<'a> {
        Box::pin(async move {
            let to = host_of(host).filter(|_| port == PORT).ok_or(ErrorKind::HostUnreachable)?;
            let index = {
                let mut state = self.net.state();
                let hosts = [self.host, to];
                let quality = state.quality(hosts);
                let due_ms = state.now_ms + state.delay_ms(quality);
                let pipes = Default::default();
                let phase = Phase::Connecting;
                state.connections.push(Connection { hosts, phase, due_ms, pipes, connecting: None, gone: [false; 2] });
                let index = state.connections.len() - 1;
                state.live.push(index);
                index
            };
            let end = End { net: self.net.clone(), index, side: 0 };
            poll_fn(|context| {
                let mut state = self.net.state();
                let connection = &mut state.connections[index];
                match connection.phase {
                    Phase::Connecting => {
                        connection.connecting = Some(context.waker().clone());
                        Poll::Pending
                    }
                    Phase::Open => Poll::Ready(Ok(())),
                    Phase::Refused | Phase::Broken => Poll::Ready(Err(io::Error::from(ErrorKind::ConnectionRefused))),
                }
            })
            .await?;
            Ok(Stream::Other(Box::new(end)))
        })
    }
}

/// A listening host.
struct At {
    net: Net,
    host: Host,
}

impl fmt::Debug for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the listener of host {}", self.host)
    }
}

impl Acceptor for At {
    fn local_address(&self) -> Address {
        Address::Ip((IpAddr::from([10, 0, 0, self.host]), PORT).into())
    }

    fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<Arrival>> {
        let mut state = self.net.state();
        let Some(listener) = state.listeners.get_mut(&self.host) else { return Poll::Pending };
        let Some(index) = listener.queue.pop_front() else {
            listener.waker = Some(context.waker().clone());
            return Poll::Pending;
        };
        let from = state.connections[index].hosts[0];
        let from = Address::Ip(SocketAddr::from(([10, 0, 0, from], 10_000 + (index % 50_000) as u16)));
        let stream = Stream::Other(Box::new(End { net: self.net.clone(), index, side: 1 }));
        Poll::Ready(Ok((stream, from, self.local_address())))
    }
}

impl Drop for At {
    fn drop(&mut self) {
        self.net.state().listeners.remove(&self.host);
    }
}

/// One end of a connection.
struct End {
    net: Net,
    index: usize,
    side: usize,
}

impl fmt::Debug for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "side {} of connection {}", self.side, self.index)
    }
}

impl Transport for End {
    fn poll_read_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.net.state();
        let connection = &mut state.connections[self.index];
        let is_broken = connection.phase != Phase::Open;
        let pipe = &mut connection.pipes[1 - self.side];
        if is_broken || !pipe.arrived.is_empty() || pipe.is_deaf || (pipe.is_ended && pipe.sent.is_empty()) {
            return Poll::Ready(Ok(()));
        }
        pipe.reader = Some(context.waker().clone());
        Poll::Pending
    }

    fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.net.state();
        let connection = &mut state.connections[self.index];
        let is_open = connection.phase == Phase::Open && !connection.gone[1 - self.side];
        let pipe = &mut connection.pipes[self.side];
        if is_open && pipe.sent_bytes + pipe.arrived.len() >= WINDOW {
            pipe.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.net.state();
        let have = state.connections[self.index].pipes[1 - self.side].arrived.len();
        // A read may return a part of what has arrived.
        let some = if have > 1 && state.random.u8(..) < 64 { state.random.usize(1..have) } else { have };
        let connection = &mut state.connections[self.index];
        let is_broken = connection.phase != Phase::Open;
        let pipe = &mut connection.pipes[1 - self.side];
        if have == 0 {
            return match () {
                () if is_broken => Err(ErrorKind::ConnectionReset.into()),
                () if pipe.is_deaf || (pipe.is_ended && pipe.sent.is_empty()) => Ok(0),
                () => Err(ErrorKind::WouldBlock.into()),
            };
        }
        let len = some.min(buffer.len());
        buffer.iter_mut().zip(pipe.arrived.drain(..len)).for_each(|(to, byte)| *to = byte);
        pipe.writer.take().into_iter().for_each(Waker::wake);
        Ok(len)
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.net.state();
        let hosts = state.connections[self.index].hosts;
        let quality = state.quality(hosts);
        let delay_ms = state.delay_ms(quality);
        let now_ms = state.now_ms;
        let connection = &mut state.connections[self.index];
        let is_gone = connection.gone[1 - self.side];
        let pipe = &mut connection.pipes[self.side];
        if connection.phase != Phase::Open || is_gone || pipe.is_ended {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let room = WINDOW.saturating_sub(pipe.sent_bytes + pipe.arrived.len());
        let len = room.min(bytes.len());
        if len == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        pipe.last_due_ms = pipe.last_due_ms.max(now_ms + delay_ms) + (len / quality.rate) as u64;
        pipe.sent.push_back((pipe.last_due_ms, bytes[..len].to_vec()));
        pipe.sent_bytes += len;
        Ok(len)
    }

    fn shut_down(&self, how: Shutdown) {
        let mut state = self.net.state();
        let connection = &mut state.connections[self.index];
        if matches!(how, Shutdown::Read | Shutdown::Both) {
            let pipe = &mut connection.pipes[1 - self.side];
            pipe.is_deaf = true;
            pipe.reader.take().into_iter().for_each(Waker::wake);
        }
        if matches!(how, Shutdown::Write | Shutdown::Both) {
            connection.end(self.side);
        }
    }
}

impl Connection {
    /// Whether something may still arrive: it is not closed, and one end is there.
    fn is_live(&self) -> bool {
        matches!(self.phase, Phase::Connecting | Phase::Open) && self.gone != [true; 2]
    }

    /// Ends the bytes from one side.
    fn end(&mut self, side: usize) {
        let pipe = &mut self.pipes[side];
        pipe.is_ended = true;
        pipe.reader.take().into_iter().for_each(Waker::wake);
        pipe.writer.take().into_iter().for_each(Waker::wake);
    }
}

impl Drop for End {
    fn drop(&mut self) {
        // A test that panicked may have poisoned the lock.
        let Ok(mut state) = self.net.0.lock() else { return };
        let connection = &mut state.connections[self.index];
        connection.gone[self.side] = true;
        connection.end(self.side);
        // Nobody reads what arrives here any more.
        let pipe = &mut connection.pipes[1 - self.side];
        pipe.is_deaf = true;
        pipe.arrived.clear();
        pipe.writer.take().into_iter().for_each(Waker::wake);
    }
}
