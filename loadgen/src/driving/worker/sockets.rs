//! How the bytes of a thread's connections are sent and received. The worker is independent of it: its sending and
//! reply handling are the same code for all.

use std::io::{self, ErrorKind, Write};
use std::net::TcpStream;

/// The sockets of a thread, each known by its connection's number.
pub(super) trait Sockets {
    /// Waits until something arrives: until `due_ns` at the latest if something is due, and for a
    /// tick otherwise. Before that, everything passed to [`Self::send`] is sent. Returns whether it only polled,
    /// without sleep and in vain.
    fn wait(&mut self, due_ns: Option<u64>, now_ns: u64) -> io::Result<bool>;

    /// The next arrival, if there is one; releases the bytes of the one before.
    fn next(&mut self) -> Option<Arrival>;

    /// The bytes of the last arrival.
    fn bytes(&self) -> &[u8];

    /// The buffer to which a batch is appended.
    fn outgoing(&mut self) -> &mut Vec<u8>;

    /// Sends what was appended to [`Self::outgoing`] since the last call: before the next wait sleeps
    /// at the latest, and after everything sent to this connection before.
    fn send(&mut self, index: usize) -> io::Result<()>;

    /// Whether the connection did not take everything: then nothing may be added.
    fn has_unsent(&self, index: usize) -> bool;
}

/// An arrival for a connection.
pub(super) struct Arrival {
    pub(super) index: usize,
    /// As returned by `read`: zero bytes are the end of the stream.
    pub(super) length: io::Result<usize>,
}

/// A socket that never blocks, and its unsent bytes.
pub(super) struct Socket {
    pub(super) stream: TcpStream,
    unsent: Vec<u8>,
    unsent_from: usize,
}

impl Socket {
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, unsent: Vec::new(), unsent_from: 0 })
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.unsent_from < self.unsent.len()
    }

    /// Writes a batch, and keeps what the socket does not take until it is writable.
    pub(super) fn write(&mut self, batch: &[u8]) -> io::Result<()> {
        let written = write_some(&mut self.stream, batch)?;
        if written < batch.len() {
            self.keep(&batch[written..]);
            // The edge may have come and gone since the socket refused: try until it refuses.
            self.write_unsent()?;
        }
        Ok(())
    }

    /// Keeps bytes that follow everything written or kept.
    pub(super) fn keep(&mut self, rest: &[u8]) {
        self.unsent.drain(..std::mem::take(&mut self.unsent_from));
        self.unsent.extend_from_slice(rest);
    }

    pub(super) fn write_unsent(&mut self) -> io::Result<()> {
        while self.has_unsent() {
            match write_some(&mut self.stream, &self.unsent[self.unsent_from..])? {
                0 => return Ok(()),
                written => self.unsent_from += written,
            }
        }
        Ok(())
    }
}

/// Bytes that the socket took: 0 when it takes none now.
fn write_some(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match stream.write(bytes) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;
    use std::thread;
    use std::time::Duration;

    use clap::Parser;

    use super::*;
    use crate::base::cpu::raise_open_files_limit;
    use crate::base::timer::Clock;
    use crate::cli::Cli;
    use crate::config::Config;
    use crate::driving::event_loop::EventLoop;
    use crate::driving::worker::epoll::Epoll;
    use crate::driving::worker::ring::Ring;

    const TICK: Duration = Duration::from_millis(20);

    /// So many connections: the sockets of one side, by way of `io`, and the streams of the other.
    fn connected(io: &str, connections: usize) -> Option<(Box<dyn Sockets>, Vec<TcpStream>)> {
        raise_open_files_limit();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let pair = |_| (TcpStream::connect(address).expect("accepts"), listener.accept().expect("connects").0);
        let (ours, theirs) = (0..connections).map(pair).unzip();
        let config = Config::from_flags(Cli::try_parse_from(["loadgen"]).expect("valid").run).expect("valid");
        if io == "epoll" {
            let event_loop = EventLoop::new(&config).expect("epoll");
            return Some((Box::new(Epoll::new(event_loop, ours).expect("epoll")), theirs));
        }
        match Ring::new(ours, Clock::start(), TICK) {
            Ok(ring) => Some((Box::new(ring), theirs)),
            Err(refusal) => {
                println!("io_uring is refused here, and not tested: {refusal}");
                None
            }
        }
    }

    fn for_each_way(connections: usize, test: impl Fn(&mut dyn Sockets, Vec<TcpStream>)) {
        for io in ["epoll", "io_uring"] {
            if let Some((mut sockets, peers)) = connected(io, connections) {
                test(&mut *sockets, peers);
            }
        }
    }

    /// Waits until no more comes for this many waits; returns what came, by connection.
    fn arrived(sockets: &mut dyn Sockets, connections: usize) -> Vec<Vec<u8>> {
        let mut all = vec![Vec::new(); connections];
        let mut idle = 0;
        while idle < 5 {
            idle += 1;
            sockets.wait(Some(u64::MAX), u64::MAX).expect("waits");
            while let Some(Arrival { index, length }) = sockets.next() {
                idle = 0;
                all[index].extend_from_slice(if length.expect("no failure") == 0 { &[] } else { sockets.bytes() });
            }
            thread::sleep(Duration::from_millis(2));
        }
        all
    }

    #[test]
    fn more_connections_than_buffers_and_entries_lose_nothing() {
        const CONNECTIONS: usize = 1500;
        for_each_way(CONNECTIONS, |sockets, mut peers| {
            for round in 0..3_u8 {
                for (index, peer) in (0..).zip(&mut peers) {
                    peer.write_all(&[round, index as u8, (index >> 8_u32) as u8]).expect("takes three bytes");
                }
                for (index, bytes) in (0..).zip(arrived(sockets, CONNECTIONS)) {
                    assert_eq!(bytes, [round, index as u8, (index >> 8_u32) as u8]);
                }
                for index in 0..CONNECTIONS {
                    sockets.outgoing().extend_from_slice(&index.to_le_bytes());
                    sockets.send(index).expect("takes eight bytes");
                }
                sockets.wait(Some(0), 0).expect("waits");
                for (index, peer) in peers.iter_mut().enumerate() {
                    let mut bytes = [0; size_of::<usize>()];
                    peer.read_exact(&mut bytes).expect("eight bytes");
                    assert_eq!(usize::from_le_bytes(bytes), index);
                }
            }
        });
    }

    #[test]
    fn what_does_not_fit_into_a_socket_is_sent_in_order_once_it_is_read() {
        for_each_way(1, |sockets, mut peers| {
            let batch = |number: u32| (0..2_000_u32).flat_map(move |word| (word ^ number << 20).to_le_bytes());
            let mut sent: Vec<u8> = Vec::new();
            while !sockets.has_unsent(0) {
                let number = sent.len() as u32 / 8_000;
                // Some in one call, some before the call for the last.
                for number in [number, number + 1] {
                    if !sockets.has_unsent(0) {
                        sockets.outgoing().extend(batch(number));
                        sockets.send(0).expect("takes or keeps it");
                        sent.extend(batch(number));
                    }
                }
                sockets.wait(Some(0), 0).expect("waits");
            }
            let mut peer = peers.remove(0);
            let expected = sent.len();
            let reader = thread::spawn(move || {
                let mut bytes = vec![0; expected];
                peer.read_exact(&mut bytes).map(|()| bytes)
            });
            while sockets.has_unsent(0) {
                sockets.wait(Some(0), 0).expect("waits");
                assert!(sockets.next().is_none(), "the other side sends nothing");
            }
            assert!(reader.join().expect("no panic").expect("all bytes") == sent);
        });
    }

    #[test]
    fn the_end_of_a_stream_is_told_again_to_whom_sends() {
        for_each_way(2, |sockets, mut peers| {
            peers[1].write_all(b"last").expect("takes four bytes");
            drop(peers.remove(1));
            assert_eq!(arrived(sockets, 2)[1], b"last");
            sockets.outgoing().extend_from_slice(b"more");
            // The failure may be returned at once, or arrive.
            let failed = sockets.send(1).is_err() || {
                let mut told = None;
                while told.is_none() {
                    sockets.wait(Some(0), 0).expect("waits");
                    told = sockets.next();
                }
                matches!(told, Some(Arrival { index: 1, length: Ok(0) | Err(_) }))
            };
            assert!(failed);
        });
    }

    #[test]
    fn what_is_larger_than_a_buffer_arrives_whole() {
        for_each_way(1, |sockets, mut peers| {
            let sent: Vec<u8> = (0..3_000_000_u32).map(|byte| (byte % 251) as u8).collect();
            let mut peer = peers.remove(0);
            let copy = sent.clone();
            let writer = thread::spawn(move || peer.write_all(&copy).map(|()| peer));
            let mut bytes = Vec::new();
            while bytes.len() < sent.len() {
                sockets.wait(Some(0), 0).expect("waits");
                while let Some(arrival) = sockets.next() {
                    assert!(arrival.length.expect("no failure") > 0);
                    bytes.extend_from_slice(sockets.bytes());
                }
            }
            assert!(bytes == sent);
            writer.join().expect("no panic").expect("takes all");
        });
    }

    #[test]
    fn a_wait_ends_when_something_is_due() {
        for_each_way(1, |sockets, _peers| {
            let clock = Clock::start();
            // epoll first reports that there is room to send.
            sockets.wait(Some(0), 0).expect("waits");
            for wait_ns in [0, 200_000, 3_000_000] {
                let now_ns = clock.now_ns();
                let in_vain = sockets.wait(Some(now_ns + wait_ns), now_ns).expect("waits");
                let waited_ns = clock.now_ns() - now_ns;
                assert_eq!(in_vain, wait_ns == 0);
                assert!(waited_ns >= wait_ns && waited_ns < wait_ns + 50_000_000, "{waited_ns} for {wait_ns}");
            }
        });
    }
}
