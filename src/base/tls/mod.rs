//! TLS over a connection: what is read from it is decrypted, and what is written to it is encrypted.
//!
//! The protocol is rustls's. Here is how its two directions share one connection: reading may have to write first (an
//! answer of the handshake), writing may have to read first, and neither may wait.

mod contexts;
mod version_1;

pub use contexts::{ClientAuth, Contexts, Identity, Settings};
pub use rustls::ClientConfig;

use super::network::{Stream, Transport};
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, Connection, IoState, ServerConfig, ServerConnection};
use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// Bytes that one write encrypts: some records, each of which has up to 16 KB.
const ENCRYPTED_AT_ONCE: usize = 64 * 1024;
/// Bytes that one read takes from the carrier: a record.
const RECEIVED_AT_ONCE: usize = 16 * 1024;
/// With this many decrypted bytes that nobody has read, no more are decrypted: rustls refuses more than 16 KB.
const DECRYPTED_MAX: usize = 12 * 1024;

/// What a record of the handshake begins with, and so does every connection.
const HANDSHAKE: u8 = 22;

/// A stream that encrypts what another one carries.
#[derive(Debug)]
struct TlsStream {
    carrier: Stream,
    /// Of one task, but for the end of the connection, which may come from elsewhere.
    session: Mutex<Session>,
}

#[derive(Debug)]
struct Session {
    connection: Connection,
    /// What has come from the carrier and is not decrypted yet.
    arrived: Vec<u8>,
    /// Bytes that were encrypted, but not all taken by the carrier: they count as written when it has them all.
    unsent: usize,
    /// Whether anything has come.
    has_begun: bool,
}

/// The server's end of a connection that a client has made: the handshake takes place while it is read.
pub fn accept(carrier: Stream, config: &Arc<ServerConfig>) -> io::Result<Stream> {
    let connection = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
    Ok(TlsStream::over(carrier, connection.into()))
}

/// The client's end of a connection to a host. Returns when the handshake is over.
pub async fn connect(carrier: Stream, host: &str, config: &Arc<ClientConfig>) -> io::Result<Stream> {
    // The name is neither sent nor checked: any name will do.
    let name = ServerName::try_from(host.to_owned()).unwrap_or(IpAddr::from(Ipv4Addr::UNSPECIFIED).into());
    let connection = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
    let stream = TlsStream::over(carrier, connection.into());
    poll_fn(|context| stream.poll_write_ready(context)).await?;
    Ok(stream)
}

impl TlsStream {
    fn over(carrier: Stream, mut connection: Connection) -> Stream {
        connection.set_buffer_limit(Some(ENCRYPTED_AT_ONCE));
        Stream::Other(Box::new(Self {
            carrier,
            session: Mutex::new(Session { connection, arrived: Vec::new(), unsent: 0, has_begun: false }),
        }))
    }
}

impl Session {
    /// Writes what is encrypted. Whether the carrier has taken all of it.
    fn is_flushed(&mut self, carrier: &Stream) -> io::Result<bool> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut Carried(carrier)) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Reads from the carrier, unless something of it is left to decrypt, and decrypts. Returns 0 at its end.
    fn receive(&mut self, carrier: &Stream) -> io::Result<usize> {
        // An error comes again.
        self.connection.process_new_packets().map_err(invalid)?;
        let (mut bytes, left) = ([0; RECEIVED_AT_ONCE], std::mem::take(&mut self.arrived));
        let arrived = match left.is_empty() {
            true => {
                let len = carrier.read_once(&mut bytes)?;
                &bytes[..len]
            }
            false => &*left,
        };
        if arrived.is_empty() {
            // So that the end is not taken for a pause.
            return self.connection.read_tls(&mut io::empty());
        }
        if !std::mem::replace(&mut self.has_begun, true) && arrived[0] != HANDSHAKE {
            // A client without TLS would take an alert for a strange reply.
            return Err(io::Error::new(ErrorKind::InvalidData, "it does not begin with a handshake of TLS"));
        }
        self.decrypt(arrived).inspect_err(|_| {
            // The other end is told what is wrong, if it still listens.
            let _ = self.is_flushed(carrier);
        })?;
        Ok(arrived.len())
    }

    fn decrypt(&mut self, mut arrived: &[u8]) -> io::Result<()> {
        // After the other end has closed the connection, nothing is taken any more.
        while !arrived.is_empty() && self.connection.read_tls(&mut arrived)? > 0 {
            let state = self.connection.process_new_packets().map_err(invalid)?;
            if state.plaintext_bytes_to_read() > DECRYPTED_MAX {
                self.arrived = arrived.to_vec();
                break;
            }
        }
        Ok(())
    }

    /// Whether a read returns something without the carrier: bytes, the end, or an error.
    fn is_readable(&mut self) -> bool {
        let is_readable = |state: IoState| state.plaintext_bytes_to_read() > 0 || state.peer_has_closed();
        !self.arrived.is_empty() || self.connection.process_new_packets().map_or(true, is_readable)
    }
}

fn invalid(error: rustls::Error) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}

impl Transport for TlsStream {
    fn poll_read_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut session = self.session.lock();
        // Nobody else writes what the protocol itself has to say.
        while !session.is_flushed(&self.carrier)? {
            match self.carrier.poll_write_ready(context) {
                Poll::Ready(result) => result?,
                Poll::Pending => break,
            }
        }
        if session.is_readable() {
            return Poll::Ready(Ok(()));
        }
        self.carrier.poll_read_ready(context)
    }

    fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut session = self.session.lock();
        loop {
            if !session.is_flushed(&self.carrier)? {
                ready!(self.carrier.poll_write_ready(context))?;
                continue;
            }
            if !session.connection.is_handshaking() {
                return Poll::Ready(Ok(()));
            }
            ready!(self.carrier.poll_read_ready(context))?;
            match session.receive(&self.carrier) {
                Ok(0) => return Poll::Ready(Err(ErrorKind::UnexpectedEof.into())),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut session = self.session.lock();
        let mut read = 0;
        loop {
            match session.connection.reader().read(&mut buffer[read..]) {
                Ok(0) => return Ok(read),
                Ok(len) => read += len,
                // It has ended without saying so, as most clients do.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(read),
                Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                Err(_) => {
                    let received = session.receive(&self.carrier);
                    // What comes of it may be an answer; if it has to wait, the next `poll_read_ready` sends it.
                    let flushed = session.is_flushed(&self.carrier);
                    match received.and_then(|len| flushed.map(|_| len)) {
                        Ok(_) => {}
                        // What has been read is not lost, and the error comes again.
                        Err(_) if read > 0 => return Ok(read),
                        Err(error) => return Err(error),
                    }
                }
            }
            if read == buffer.len() {
                return Ok(read);
            }
        }
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut session = self.session.lock();
        if !session.is_flushed(&self.carrier)? || session.connection.is_handshaking() {
            return Err(ErrorKind::WouldBlock.into());
        }
        if session.unsent == 0 {
            session.unsent = session.connection.writer().write(bytes)?;
            if !session.is_flushed(&self.carrier)? {
                return Err(ErrorKind::WouldBlock.into());
            }
        }
        Ok(std::mem::take(&mut session.unsent))
    }

    fn shut_down(&self, how: Shutdown) {
        if how != Shutdown::Read {
            self.say_goodbye();
        }
        self.carrier.shut_down(how);
    }

    fn carrier(&self) -> Option<&Stream> {
        Some(&self.carrier)
    }
}

impl TlsStream {
    /// Tells the other end that no more comes, so that it can tell this from an attack.
    fn say_goodbye(&self) {
        let mut session = self.session.lock();
        if session.connection.is_handshaking() {
            return;
        }
        session.connection.send_close_notify();
        // The connection may be gone, or have no room: then it ends without.
        let _ = session.is_flushed(&self.carrier);
    }
}

impl Drop for TlsStream {
    fn drop(&mut self) {
        self.say_goodbye();
    }
}

/// A stream as rustls reads and writes it.
struct Carried<'a>(&'a Stream);

impl Read for Carried<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_once(buffer)
    }
}

impl Write for Carried<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, records: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(records)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::base::network::Transport;
    use fastrand::Rng;
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    use std::collections::VecDeque;
    use std::task::Waker;

    /// One direction: its bytes, and how many there is room for at the moment.
    #[derive(Debug, Default)]
    struct Direction {
        bytes: VecDeque<u8>,
        room: usize,
        is_closed: bool,
    }

    /// An end of a connection that takes and gives a few bytes at a time, whenever the test lets it.
    #[derive(Debug)]
    struct Narrow {
        incoming: Arc<Mutex<Direction>>,
        outgoing: Arc<Mutex<Direction>>,
    }

    impl Transport for Narrow {
        fn poll_read_ready(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            let incoming = self.incoming.lock();
            if incoming.bytes.is_empty() && !incoming.is_closed { Poll::Pending } else { Poll::Ready(Ok(())) }
        }

        fn poll_write_ready(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            if self.outgoing.lock().room == 0 { Poll::Pending } else { Poll::Ready(Ok(())) }
        }

        fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
            let mut incoming = self.incoming.lock();
            if incoming.bytes.is_empty() && !incoming.is_closed {
                return Err(ErrorKind::WouldBlock.into());
            }
            incoming.bytes.read(buffer)
        }

        fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
            let mut outgoing = self.outgoing.lock();
            let len = bytes.len().min(outgoing.room);
            if len == 0 {
                return Err(ErrorKind::WouldBlock.into());
            }
            outgoing.room -= len;
            outgoing.bytes.extend(&bytes[..len]);
            Ok(len)
        }

        fn shut_down(&self, _: Shutdown) {
            self.outgoing.lock().is_closed = true;
        }
    }

    fn contexts(versions: &str) -> Contexts {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: String| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let (mut params, key) = (CertificateParams::default(), KeyPair::generate().unwrap());
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca_file = file("ca", params.self_signed(&key).unwrap().pem());
        let (authority, key) = (Issuer::new(params, key), KeyPair::generate().unwrap());
        let signed = CertificateParams::default().signed_by(&key, &authority).unwrap();
        let settings = Settings {
            identity: Identity { cert: file("cert", signed.pem()), key: file("key", key.serialize_pem()) },
            ca_file,
            connects: true,
            protocols: versions.to_owned(),
            sessions_max: 10,
            ..Settings::default()
        };
        settings.load().unwrap()
    }

    /// One end in the test: what it has to say, and what it has heard.
    struct End {
        stream: Stream,
        says: Vec<u8>,
        said: usize,
        heard: Vec<u8>,
    }

    impl End {
        /// Writes and reads as a connection's task does: when it is ready, until it is not.
        fn go_on(&mut self, random: &mut Rng) {
            let mut context = Context::from_waker(Waker::noop());
            if self.said < self.says.len() && self.stream.poll_write_ready(&mut context).map(Result::unwrap).is_ready()
            {
                // What is offered again may be longer.
                let len = random.usize(1..=100_000).min(self.says.len() - self.said);
                match self.stream.try_write(&self.says[self.said..][..len]) {
                    Ok(len) => self.said += len,
                    Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
                }
            }
            while self.stream.poll_read_ready(&mut context).map(Result::unwrap).is_ready() {
                let mut buffer = vec![0; random.usize(1..=70_000)];
                match self.stream.read_once(&mut buffer) {
                    Ok(len) => self.heard.extend(&buffer[..len]),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::WouldBlock);
                        break;
                    }
                }
            }
        }
    }

    #[test]
    fn bytes_arrive_as_they_were_however_little_passes_at_a_time() {
        let given = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
        let seed: u64 = given.unwrap_or_else(|| fastrand::u64(..));
        println!("SEED={seed}");
        let mut random = Rng::with_seed(seed);
        for round in 0..60 {
            let contexts = contexts(if round % 2 == 0 { "TLSv1.3" } else { "TLSv1.2" });
            let directions = [Arc::<Mutex<Direction>>::default(), Arc::default()];
            let carrier = |number: usize| {
                let (incoming, outgoing) = (Arc::clone(&directions[number]), Arc::clone(&directions[1 - number]));
                Stream::Other(Box::new(Narrow { incoming, outgoing }))
            };
            let name = ServerName::try_from("any.test").unwrap();
            let client = ClientConnection::new(Arc::clone(&contexts.client), name).unwrap();
            let streams = [accept(carrier(0), &contexts.server).unwrap(), TlsStream::over(carrier(1), client.into())];
            let mut ends = streams.map(|stream| {
                let len = *random.choice(&[0, 1, 100, 20_000, 300_000]).unwrap();
                let says = std::iter::repeat_with(|| random.u8(..)).take(len).collect();
                End { stream, says, said: 0, heard: Vec::new() }
            });
            let most = *random.choice(&[20, 1000, 100_000]).unwrap();
            let mut turns = 0;
            let is_over = |ends: &[End; 2]| {
                let has_said = ends.iter().all(|end| end.said == end.says.len());
                has_said && ends[0].heard.len() >= ends[1].says.len() && ends[1].heard.len() >= ends[0].says.len()
            };
            while !is_over(&ends) {
                turns += 1;
                assert!(turns < 10_000_000, "SEED={seed}, round {round}: nothing moves");
                directions[random.usize(0..2)].lock().room += random.usize(0..=most);
                ends[random.usize(0..2)].go_on(&mut random);
            }
            assert!(ends[0].heard == ends[1].says && ends[1].heard == ends[0].says, "SEED={seed}, round {round}");
        }
    }

    #[test]
    fn the_end_of_a_stream_is_read_after_its_bytes_whether_it_is_said_or_not() {
        for is_said in [true, false] {
            let contexts = contexts("");
            let directions = [Arc::<Mutex<Direction>>::default(), Arc::default()];
            directions.iter().for_each(|direction| direction.lock().room = usize::MAX);
            let carrier = |number: usize| {
                let (incoming, outgoing) = (Arc::clone(&directions[number]), Arc::clone(&directions[1 - number]));
                Stream::Other(Box::new(Narrow { incoming, outgoing }))
            };
            let name = ServerName::try_from("any.test").unwrap();
            let client = ClientConnection::new(Arc::clone(&contexts.client), name).unwrap();
            let mut random = Rng::with_seed(1);
            let end = |stream| End { stream, says: Vec::new(), said: 0, heard: Vec::new() };
            let (mut server, mut client) =
                (end(accept(carrier(0), &contexts.server).unwrap()), end(TlsStream::over(carrier(1), client.into())));
            client.says = b"the last words".to_vec();
            for _ in 0..10 {
                client.go_on(&mut random);
                server.go_on(&mut random);
            }
            assert_eq!(server.heard, b"the last words");
            match is_said {
                true => client.stream.shut_down(Shutdown::Write),
                false => directions[0].lock().is_closed = true,
            }
            let mut context = Context::from_waker(Waker::noop());
            assert!(server.stream.poll_read_ready(&mut context).is_ready());
            assert_eq!(server.stream.read_once(&mut [0; 10]).unwrap(), 0);
        }
    }
}
