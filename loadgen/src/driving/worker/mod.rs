//! One thread of the generator: a loop over its share of the connections.
//!
//! It is cheap because all requests of a batch leave together, and are encoded where they are sent from; replies are
//! scanned where they arrived, without being kept; the clock is read once per arrival; and replies that share their
//! times are recorded together. [`sockets`] handles how bytes are sent and received.

mod connection;
mod epoll;
mod group;
mod ring;
mod sockets;

use std::io::ErrorKind;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;

use super::event_loop::{EventLoop, Phase, PhaseEnd, PhaseShare, tick};
use crate::base::Error;
use crate::base::timer::Clock;
use crate::config::{Config, Target};
use crate::record::{Io, Recorder, Served, Verified, latency_histogram};
use crate::requests::Requests;
use crate::resp::{Elements, ReplyKind, ReplyRun};
use crate::workload::commands::CommandSpec;
use crate::workload::keys::{Frontier, Share};
use connection::{Connection, Pending};
use epoll::Epoll;
use group::Group;
use ring::Ring;
pub(crate) use ring::check_io_uring;
use sockets::{Arrival, Sockets};

/// The connections of one thread.
///
/// Invariants: `in_flight` is the sum of all connections' pending requests; between phases
/// nothing is in flight.
pub(crate) struct Worker<'a> {
    config: &'a Config,
    /// By target.
    addresses: Vec<String>,
    share: Share,
    clock: Clock,
    abort: &'a AtomicBool,
    sockets: Box<dyn Sockets>,
    connections: Vec<Connection>,
    requests: Requests,
    commands: Vec<CommandSpec>,
    recorder: Option<Recorder>,
    phase_share: PhaseShare,
    /// Requests of this phase that are not sent yet.
    to_send: u64,
    /// Open loop: requests of this phase that were passed to their connection.
    handed_out: u64,
    in_flight: u64,
    last_reply_ns: u64,
    lag: Histogram<u64>,
    /// The replies of one arrival; empty between arrivals.
    group: Group,
    /// When polling without sleep began, if it found nothing.
    spins_since_ns: Option<u64>,
    spun_ns: u64,
    verified: Option<Verified>,
    error_text: Option<String>,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(
        config: &'a Config,
        io: &Io,
        share: Share,
        frontier: &Frontier,
        clock: Clock,
        abort: &'a AtomicBool,
        streams: Vec<(TcpStream, usize)>,
    ) -> Result<Self, Error> {
        let addresses: Vec<String> = config.targets.iter().map(Target::address).collect();
        let (streams, targets): (Vec<_>, Vec<_>) = streams.into_iter().unzip();
        let connection = |target| Connection::new(target, config.pipeline.get());
        Ok(Self {
            config,
            addresses,
            share,
            clock,
            abort,
            sockets: sockets(config, io, clock, streams)?,
            connections: targets.into_iter().map(connection).collect(),
            requests: Requests::new(config, share, frontier),
            commands: config.commands(),
            recorder: None,
            phase_share: PhaseShare::none(),
            to_send: 0,
            handed_out: 0,
            in_flight: 0,
            last_reply_ns: 0,
            lag: latency_histogram(),
            group: Group::default(),
            spins_since_ns: None,
            spun_ns: 0,
            verified: config.verify.then(Verified::default),
            error_text: None,
        })
    }

    /// The result of checking replies, if they are checked.
    pub(crate) fn verified(&self) -> Option<Verified> {
        self.verified.clone()
    }

    /// The text of the first error reply, if there was one.
    pub(crate) fn error_text(&self) -> Option<&str> {
        self.error_text.as_deref()
    }

    /// Sends the requests of a phase and waits for the reply to each.
    pub(crate) fn run(&mut self, phase: Phase, recorder: Option<Recorder>) -> Result<PhaseEnd, Error> {
        self.begin(phase, recorder);
        loop {
            let now_ns = self.clock.now_ns();
            if let Some(since_ns) = self.spins_since_ns.take() {
                self.spun_ns += now_ns - since_ns;
            }
            if self.phase_share.heed_interrupt(now_ns) {
                self.to_send = self.phase_share.unsent(self.sent());
            }
            if self.phase_share.is_over(now_ns) {
                self.to_send = 0;
            }
            self.send_due(now_ns)?;
            if (self.to_send == 0 && self.in_flight == 0) || self.phase_share.is_given_up(now_ns) {
                break;
            }
            self.check_patience(now_ns)?;
            if let Some(recorder) = &mut self.recorder {
                recorder.roll(now_ns);
            }
            self.wait(now_ns)?;
            while let Some(arrival) = self.sockets.next() {
                self.take(arrival)?;
            }
            if self.abort.load(Ordering::Relaxed) {
                break;
            }
        }
        if let Some(recorder) = self.recorder.take() {
            recorder.finish();
        }
        Ok(PhaseEnd {
            last_reply_ns: self.last_reply_ns,
            unsent: self.phase_share.unsent(self.sent()),
            lag: self.lag.clone(),
            spun: Duration::from_nanos(self.spun_ns),
            interrupted_ns: self.phase_share.interrupted_ns,
            connections: self.connections.iter().map(|connection| connection.served).collect(),
        })
    }

    /// Open loop: the requests of this phase that were sent.
    fn sent(&self) -> u64 {
        self.connections.iter().map(|connection| connection.sent).sum()
    }

    fn begin(&mut self, phase: Phase, recorder: Option<Recorder>) {
        self.recorder = recorder;
        self.phase_share = PhaseShare::of(phase, self.config, self.share);
        self.last_reply_ns = phase.start_ns;
        self.handed_out = 0;
        self.lag.reset();
        self.spins_since_ns = None;
        self.spun_ns = 0;
        for connection in &mut self.connections {
            connection.sent = 0;
            connection.served = Served::default();
        }
        self.to_send = self.phase_share.quota;
    }

    /// Closed loop: the first batch of every connection. Open loop: what is due by now.
    fn send_due(&mut self, now_ns: u64) -> Result<(), Error> {
        let Some(schedule) = self.phase_share.schedule else {
            if self.handed_out == 0 {
                self.handed_out = 1;
                for index in 0..self.connections.len() {
                    let now_ns = self.clock.now_ns();
                    self.refill(index, now_ns)?;
                }
            }
            return Ok(());
        };
        while self.to_send > 0 {
            let intended_ns = schedule.intended_start_ns(self.handed_out);
            if intended_ns > now_ns {
                break;
            }
            let (index, round) = {
                let connections = self.connections.len() as u64;
                ((self.handed_out % connections) as usize, self.handed_out / connections)
            };
            self.handed_out += 1;
            let connection = &self.connections[index];
            let has_room = connection.sent == round && connection.outstanding() < self.config.pipeline.get() as u64;
            if has_room && !self.sockets.has_unsent(index) {
                self.lag.saturating_record(now_ns - intended_ns);
            }
            self.refill(index, now_ns)?;
        }
        Ok(())
    }

    /// The address of the target of connection `index`.
    fn address(&self, index: usize) -> &str {
        &self.addresses[self.connections[index].target]
    }

    fn check_patience(&self, now_ns: u64) -> Result<(), Error> {
        let patience_ns = self.config.reply_timeout.as_nanos() as u64;
        let oldest = || {
            let waiting = self.connections.iter().filter_map(|c| Some((c.oldest()?.sent_ns, c.target)));
            waiting.min()
        };
        if self.in_flight == 0 || now_ns.saturating_sub(self.last_reply_ns) < patience_ns {
            return Ok(());
        }
        let Some((_, target)) = oldest().filter(|&(sent_ns, _)| now_ns.saturating_sub(sent_ns) >= patience_ns) else {
            return Ok(());
        };
        Err(Error::Silent {
            address: self.addresses[target].clone(),
            seconds: self.config.reply_timeout.as_secs_f64(),
            outstanding: self.in_flight,
        })
    }

    fn wait(&mut self, now_ns: u64) -> Result<(), Error> {
        let schedule = self.phase_share.schedule.filter(|_| self.to_send > 0);
        let due_ns = schedule.map(|schedule| schedule.intended_start_ns(self.handed_out));
        let in_vain = self.sockets.wait(due_ns, now_ns).map_err(|source| Error::system("wait for sockets", source))?;
        self.spins_since_ns = in_vain.then_some(now_ns);
        Ok(())
    }

    /// Handles the replies in an arrival, and sends what there is room for then.
    fn take(&mut self, Arrival { index, length }: Arrival) -> Result<(), Error> {
        match length {
            Ok(0) if self.to_send == 0 && self.connections[index].outstanding() == 0 => Ok(()),
            Ok(0) => Err(Error::closed(self.address(index))),
            Ok(_) => {
                let now_ns = self.clock.now_ns();
                self.take_replies(index, now_ns)?;
                self.refill(index, now_ns)
            }
            Err(source) => Err(self.socket_error(index, source)),
        }
    }

    fn take_replies(&mut self, index: usize, now_ns: u64) -> Result<(), Error> {
        if let Some(recorder) = &mut self.recorder {
            recorder.roll(now_ns);
        }
        let connection = &mut self.connections[index];
        let address = &self.addresses[connection.target];
        let group = &mut self.group;
        group.begin(connection.target);
        let arrived = self.sockets.bytes();
        let mut at = 0;
        loop {
            // A verified reply is checked alone.
            let alike = if self.verified.is_some() { None } else { connection.oldest() };
            let most = alike.map_or(1, |oldest| oldest.count);
            let ReplyRun { kind, count, length: bytes } = match connection.scanner.scan_run(&arrived[at..], most) {
                Ok(Some(run)) => run,
                Ok(None) => break,
                Err(error) => return Err(Error::protocol(address, error.to_string())),
            };
            let reply = &arrived[at..at + bytes];
            at += bytes;
            let reply_bytes = std::mem::take(&mut connection.partial_bytes) + bytes as u64;
            let beginning = std::mem::take(&mut connection.partial);
            if kind == ReplyKind::Push {
                continue;
            }
            let answered = connection.take_answered(count).ok_or_else(|| unasked(address))?;
            self.in_flight -= count;
            let spec = &self.commands[usize::from(answered.command)];
            if let Some(verified) = &mut self.verified {
                verified.replies += 1;
                let reply = if beginning.is_empty() { reply } else { &[&beginning, reply].concat() };
                if !connection.expected.pop_front().is_some_and(|expected| expected.is(reply)) {
                    verified.mismatches += 1;
                    verified.first.get_or_insert_with(|| describe(&spec.name, kind, reply_bytes, reply));
                }
            }
            if kind == ReplyKind::Error && self.error_text.is_none() {
                self.error_text = Some(connection.scanner.error_text());
            }
            let elements = || connection.scanner.elements();
            let verdict =
                spec.replies.judge(kind, elements).ok_or_else(|| mismatched(address, &spec.name, kind, elements()))?;
            if let Some(recorder) = &mut self.recorder {
                group.join(&answered, recorder, &mut connection.served, now_ns);
                recorder.count_replies(answered.command, connection.target, count, verdict, reply_bytes);
            }
        }
        connection.partial_bytes += (arrived.len() - at) as u64;
        if self.verified.is_some() {
            connection.partial.extend_from_slice(&arrived[at..]);
        }
        self.last_reply_ns = now_ns;
        if let Some(recorder) = &mut self.recorder {
            group.record(recorder, &mut connection.served, now_ns);
        }
        Ok(())
    }

    /// Sends what connection `index` may send now, as one batch: in a closed loop the next batch,
    /// when the last one is answered; in an open loop what is due, up to the pipeline's depth.
    fn refill(&mut self, index: usize, now_ns: u64) -> Result<(), Error> {
        if self.sockets.has_unsent(index) {
            return Ok(());
        }
        let connection = &mut self.connections[index];
        let outstanding_before = connection.outstanding();
        let room = self.config.pipeline.get() as u64 - outstanding_before;
        let mut allowed = match self.phase_share.schedule {
            None if outstanding_before > 0 || now_ns >= self.phase_share.deadline_ns => 0,
            _ => room.min(self.to_send),
        };
        // Each request of a schedule has its own time, and each verified one its own reply.
        let is_one_by_one = self.phase_share.schedule.is_some() || self.verified.is_some();
        let batch = self.sockets.outgoing();
        while allowed > 0 {
            let mut intended_ns = now_ns;
            if let Some(schedule) = &self.phase_share.schedule {
                let number = connection.sent * self.share.clients as u64 + index as u64;
                intended_ns = schedule.intended_start_ns(number);
                if intended_ns > now_ns {
                    break;
                }
                connection.sent += 1;
            }
            let before = batch.len();
            let most = if is_one_by_one { 1 } else { allowed };
            let (command, count) = self.requests.append_run(batch, index, most);
            allowed -= count;
            connection.await_replies(Pending { intended_ns, sent_ns: now_ns, command, count });
            if self.verified.is_some() {
                connection.expected.extend(self.requests.expected());
            }
            if let Some(recorder) = &mut self.recorder {
                recorder.count_sent(command, connection.target, (batch.len() - before) as u64);
            }
        }
        let sent = connection.outstanding() - outstanding_before;
        self.to_send -= sent;
        self.in_flight += sent;
        if sent == 0 {
            return Ok(());
        }
        self.sockets.send(index).map_err(|source| self.socket_error(index, source))
    }

    fn socket_error(&self, index: usize, source: std::io::Error) -> Error {
        match source.kind() {
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => Error::closed(self.address(index)),
            _ => Error::connection(self.address(index), source),
        }
    }
}

fn sockets(config: &Config, io: &Io, clock: Clock, streams: Vec<TcpStream>) -> Result<Box<dyn Sockets>, Error> {
    match io {
        Io::IoUring => match Ring::new(streams, clock, tick(config)) {
            Ok(ring) => Ok(Box::new(ring)),
            Err(source) => Err(Error::system("set up io_uring (--io epoll does without)", source)),
        },
        Io::Epoll { .. } => match Epoll::new(EventLoop::new(config)?, streams) {
            Ok(epoll) => Ok(Box::new(epoll)),
            Err(source) => Err(Error::system("register sockets with epoll", source)),
        },
    }
}

/// A reply that differs from the model, and how it ends.
#[cold]
fn describe(command: &str, kind: ReplyKind, bytes: u64, reply: &[u8]) -> String {
    const SHOWN_MAX: usize = 64;
    let end = &reply[reply.len().saturating_sub(SHOWN_MAX)..];
    format!("{command} was answered by the kind {kind:?}, {bytes} bytes that end with \"{}\"", end.escape_ascii())
}

#[cold]
fn unasked(address: &str) -> Error {
    Error::protocol(address, "a reply that no request asked for".to_owned())
}

#[cold]
fn mismatched(address: &str, command: &str, reply: ReplyKind, elements: Elements) -> Error {
    let reply = match reply {
        ReplyKind::Array => format!("an array of {}", elements.count),
        other => format!("the kind {other:?}"),
    };
    Error::protocol(address, format!("{command} was answered by {reply}"))
}
