//! `--connect-storm`: connections instead of requests. Each connects, authenticates if necessary, sends a PING, and is
//! closed when that is answered; then its place is free for the next one.
//!
//! What is measured, as the command CONNECT, is the time from the connection's intended start to
//! the reply to its PING: a connection that only the kernel has accepted is not served. A connection that fails, or is
//! answered by an error (`max number of clients reached`), counts as an error. Connections are closed with a reset, so
//! that their ports are free at once.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use mio::event::Event;
use mio::net::TcpStream;
use mio::{Events, Interest, Token};
use nix::sys::socket::{setsockopt, sockopt};

use super::event_loop::{EventLoop, Phase, PhaseEnd, PhaseShare};
use crate::base::Error;
use crate::base::timer::Clock;
use crate::config::Config;
use crate::record::{Recorder, latency_histogram};
use crate::resp::{Protocol, ReplyKind, ReplyScanner, Scanned, encode_request};
use crate::workload::commands::Verdict;
use crate::workload::keys::Share;

const READ_BYTES: usize = 16 * 1024;
const CONNECT: u8 = 0;

/// The connections of one thread.
///
/// Invariants: a slot is in `free` or has a stream, never both; between phases all are free.
pub(crate) struct Storm<'a> {
    config: &'a Config,
    share: Share,
    clock: Clock,
    abort: &'a AtomicBool,
    event_loop: EventLoop,
    /// By target.
    addresses: Vec<SocketAddr>,
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// What each connection sends, and how many replies it gets.
    greeting: Vec<u8>,
    replies: usize,
    recorder: Option<Recorder>,
    phase_share: PhaseShare,
    /// Connections of this phase that have not begun.
    to_start: u64,
    started: u64,
    /// Due connections wait for a free slot.
    is_behind: bool,
    last_reply_ns: u64,
    lag: Histogram<u64>,
    served: u64,
    error_text: Option<String>,
}

struct Slot {
    stream: Option<TcpStream>,
    scanner: ReplyScanner,
    has_sent: bool,
    replies_left: usize,
    received: u64,
    target: usize,
    intended_ns: u64,
    began_ns: u64,
}

/// The state of a slot after an event.
enum Progress {
    Waiting,
    Done(Verdict),
    Failed(io::Error),
}

impl<'a> Storm<'a> {
    pub(crate) fn new(config: &'a Config, share: Share, clock: Clock, abort: &'a AtomicBool) -> Result<Self, Error> {
        let addresses = config.targets.iter().map(|target| resolve(&target.address())).collect::<Result<_, _>>()?;
        let (greeting, replies) = greeting(config);
        Ok(Self {
            config,
            share,
            clock,
            abort,
            event_loop: EventLoop::new(config)?,
            addresses,
            slots: (0..share.clients).map(|_| Slot::new()).collect(),
            free: (0..share.clients).rev().collect(),
            greeting,
            replies,
            recorder: None,
            phase_share: PhaseShare::none(),
            to_start: 0,
            started: 0,
            is_behind: false,
            last_reply_ns: 0,
            lag: latency_histogram(),
            served: 0,
            error_text: None,
        })
    }

    pub(crate) fn error_text(&self) -> Option<&str> {
        self.error_text.as_deref()
    }

    /// Makes the connections of a phase and waits for the end of each.
    pub(crate) fn run(&mut self, phase: Phase, recorder: Option<Recorder>) -> Result<PhaseEnd, Error> {
        self.begin(phase, recorder);
        let mut events = EventLoop::events();
        loop {
            let now_ns = self.clock.now_ns();
            if self.phase_share.heed_interrupt(now_ns) {
                self.to_start = self.phase_share.unsent(self.started);
            }
            if self.phase_share.is_over(now_ns) {
                self.to_start = 0;
            }
            self.start_due()?;
            if (self.to_start == 0 && self.free.len() == self.slots.len()) || self.phase_share.is_given_up(now_ns) {
                break;
            }
            self.check_patience(now_ns)?;
            if let Some(recorder) = &mut self.recorder {
                recorder.roll(now_ns);
            }
            self.wait(&mut events, now_ns)?;
            for event in EventLoop::of_sockets(&events) {
                self.serve(event);
            }
            if self.abort.load(Ordering::Relaxed) {
                break;
            }
        }
        if let Some(recorder) = self.recorder.take() {
            recorder.finish();
        }
        self.check_served()?;
        Ok(PhaseEnd {
            last_reply_ns: self.last_reply_ns,
            unsent: self.phase_share.unsent(self.started),
            lag: self.lag.clone(),
            spun: Duration::ZERO,
            interrupted_ns: self.phase_share.interrupted_ns,
            connections: Vec::new(),
        })
    }

    fn begin(&mut self, phase: Phase, recorder: Option<Recorder>) {
        self.recorder = recorder;
        self.phase_share = PhaseShare::of(phase, self.config, self.share);
        self.last_reply_ns = phase.start_ns;
        self.started = 0;
        self.is_behind = false;
        self.lag.reset();
        self.to_start = self.phase_share.quota;
    }

    /// Starts what is due by now, as long as there are free slots. In a closed loop all is due.
    fn start_due(&mut self) -> Result<(), Error> {
        while self.to_start > 0 {
            let now_ns = self.clock.now_ns();
            let intended_ns =
                self.phase_share.schedule.map_or(now_ns, |schedule| schedule.intended_start_ns(self.started));
            if intended_ns > now_ns || (self.phase_share.schedule.is_none() && now_ns >= self.phase_share.deadline_ns) {
                self.is_behind = false;
                return Ok(());
            }
            let Some(index) = self.free.pop() else {
                self.is_behind = true;
                return Ok(());
            };
            if self.phase_share.schedule.is_some() && !self.is_behind {
                self.lag.saturating_record(now_ns - intended_ns);
            }
            self.to_start -= 1;
            self.started += 1;
            self.open(index, intended_ns, now_ns)?;
        }
        Ok(())
    }

    fn open(&mut self, index: usize, intended_ns: u64, now_ns: u64) -> Result<(), Error> {
        let target = self.started as usize % self.addresses.len();
        let opened = TcpStream::connect(self.addresses[target]).and_then(|mut stream| {
            let interest = Interest::READABLE | Interest::WRITABLE;
            self.event_loop.registry().register(&mut stream, Token(index), interest).map(|()| stream)
        });
        let slot = &mut self.slots[index];
        *slot = Slot { target, intended_ns, began_ns: now_ns, replies_left: self.replies, ..Slot::new() };
        if let Some(recorder) = &mut self.recorder {
            recorder.count_sent(CONNECT, target, self.greeting.len() as u64);
        }
        match opened {
            Ok(stream) => slot.stream = Some(stream),
            // No file descriptors or ports are left: that is the generator's fault, not the target's.
            Err(source) if source.kind() != ErrorKind::ConnectionRefused => {
                return Err(Error::connect(&self.config.targets[target].address(), source));
            }
            Err(source) => self.close(index, Progress::Failed(source)),
        }
        Ok(())
    }

    fn check_patience(&self, now_ns: u64) -> Result<(), Error> {
        let patience_ns = self.config.reply_timeout.as_nanos() as u64;
        let waiting = || self.slots.iter().filter(|slot| slot.stream.is_some());
        match waiting().min_by_key(|slot| slot.began_ns) {
            Some(oldest) if now_ns.saturating_sub(oldest.began_ns) >= patience_ns => Err(Error::Silent {
                address: self.config.targets[oldest.target].address(),
                seconds: self.config.reply_timeout.as_secs_f64(),
                outstanding: waiting().count() as u64,
            }),
            _ => Ok(()),
        }
    }

    /// Waits for events; while slots are free, not longer than until a connection is due. In a closed
    /// loop that is at once.
    fn wait(&mut self, events: &mut Events, now_ns: u64) -> Result<(), Error> {
        let due_ns = || self.phase_share.schedule.map_or(now_ns, |schedule| schedule.intended_start_ns(self.started));
        let due_ns = (self.to_start > 0 && !self.free.is_empty()).then(due_ns);
        // How long it polled without sleep is not separated from its work.
        let waited = self.event_loop.wait(events, due_ns, now_ns);
        waited.map(drop).map_err(|source| Error::system("wait for sockets", source))
    }

    fn serve(&mut self, event: &Event) {
        let slot = &mut self.slots[event.token().0];
        match slot.advance(&self.greeting, event) {
            Progress::Waiting => {}
            end => self.close(event.token().0, end),
        }
    }

    /// Counts how the connection ended, and frees its slot.
    fn close(&mut self, index: usize, end: Progress) {
        let now_ns = self.clock.now_ns();
        let slot = &mut self.slots[index];
        let verdict = match &end {
            Progress::Waiting => return,
            Progress::Done(verdict) => *verdict,
            Progress::Failed(_) => Verdict::Error,
        };
        if verdict == Verdict::Error && self.error_text.is_none() {
            self.error_text = Some(match end {
                Progress::Failed(error) => error.to_string(),
                _ => slot.scanner.error_text(),
            });
        }
        self.served += u64::from(verdict != Verdict::Error);
        self.last_reply_ns = now_ns;
        if let Some(recorder) = &mut self.recorder {
            recorder.roll(now_ns);
            recorder.count_replies(CONNECT, slot.target, 1, verdict, slot.received);
            recorder.record_latency(CONNECT, slot.target, now_ns - slot.began_ns, now_ns - slot.intended_ns, 1);
        }
        if let Some(stream) = slot.stream.take() {
            let linger = nix::libc::linger { l_onoff: 1, l_linger: 0 };
            // Fails only for an invalid socket, which would then be closed slowly.
            let _ = setsockopt(&stream, sockopt::Linger, &linger);
        }
        self.free.push(index);
    }

    /// A storm without a served connection has measured nothing.
    fn check_served(&self) -> Result<(), Error> {
        match &self.error_text {
            Some(text) if self.served == 0 && self.started > 0 => {
                Err(Error::connect(&self.config.targets[0].address(), io::Error::other(text.clone())))
            }
            _ => Ok(()),
        }
    }
}

impl Slot {
    fn new() -> Self {
        Self {
            stream: None,
            scanner: ReplyScanner::new(),
            has_sent: false,
            replies_left: 0,
            received: 0,
            target: 0,
            intended_ns: 0,
            began_ns: 0,
        }
    }

    /// Sends the greeting once it is connected, and reads its replies.
    fn advance(&mut self, greeting: &[u8], event: &Event) -> Progress {
        let Some(stream) = &mut self.stream else {
            return Progress::Waiting;
        };
        if let Ok(Some(error)) | Err(error) = stream.take_error() {
            return Progress::Failed(error);
        }
        if event.is_writable() && !self.has_sent {
            match stream.write(greeting) {
                Ok(written) if written == greeting.len() => self.has_sent = true,
                Ok(_) => return Progress::Failed(io::Error::other("the socket takes no greeting")),
                Err(error) if matches!(error.kind(), ErrorKind::NotConnected | ErrorKind::WouldBlock) => {}
                Err(error) => return Progress::Failed(error),
            }
        }
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            return self.read();
        }
        Progress::Waiting
    }

    fn read(&mut self) -> Progress {
        let Some(stream) = &mut self.stream else {
            return Progress::Waiting;
        };
        let mut buffer = [0; READ_BYTES];
        loop {
            let length = match stream.read(&mut buffer) {
                Ok(0) => return Progress::Failed(ErrorKind::UnexpectedEof.into()),
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Progress::Waiting,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Progress::Failed(error),
            };
            self.received += length as u64;
            let mut at = 0;
            loop {
                match self.scanner.scan(&buffer[at..length]) {
                    Ok(Scanned::Incomplete) => break,
                    Ok(Scanned::Reply { kind: ReplyKind::Error, .. }) => return Progress::Done(Verdict::Error),
                    Ok(Scanned::Reply { kind, length }) => {
                        at += length;
                        self.replies_left -= usize::from(kind != ReplyKind::Push);
                        if self.replies_left == 0 {
                            return Progress::Done(Verdict::Done);
                        }
                    }
                    Err(error) => return Progress::Failed(io::Error::other(error)),
                }
            }
        }
    }
}

fn resolve(address: &str) -> Result<SocketAddr, Error> {
    let none = || io::Error::new(ErrorKind::NotFound, "the name has no address");
    let first = address.to_socket_addrs().and_then(|mut all| all.next().ok_or_else(none));
    first.map_err(|source| Error::connect(address, source))
}

/// What a connection sends, and how many replies it expects.
fn greeting(config: &Config) -> (Vec<u8>, usize) {
    let mut greeting = Vec::new();
    let mut replies = 1;
    if let Some(credentials) = &config.credentials {
        let user = credentials.user.as_deref().unwrap_or("default");
        encode_request(&mut greeting, &[b"AUTH", user.as_bytes(), credentials.password.as_bytes()]);
        replies += 1;
    }
    if config.protocol == Protocol::Resp3 {
        encode_request(&mut greeting, &[b"HELLO", b"3"]);
        replies += 1;
    }
    encode_request(&mut greeting, &[b"PING"]);
    (greeting, replies)
}
