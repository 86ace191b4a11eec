//! A blocking connection: for the connect phase of the generator, prefill, and control commands of measurements.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use super::{ReplyScanner, Scanned, Value, encode_request};
use crate::base::Error;

const READ_BYTES: usize = 16 * 1024;

/// The version of RESP that a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2, the default of a connection.
    Resp2,
    /// RESP3, requested with `HELLO 3`.
    Resp3,
}

/// A blocking RESP connection.
///
/// Invariant: `buffer` holds the bytes that came after the last reply returned, and `scanned` of them have passed the
/// scanner.
pub struct Client {
    stream: TcpStream,
    address: String,
    timeout: Duration,
    buffer: Vec<u8>,
    scanned: usize,
    scanner: ReplyScanner,
}

impl Client {
    /// Connects to `address` ("host:port"); connecting, and each later wait for a reply, takes at
    /// most `timeout`.
    pub fn connect(address: &str, timeout: Duration) -> Result<Self, Error> {
        let stream = connect_any(address, timeout).map_err(|source| Error::connect(address, source))?;
        let prepared = stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(timeout)))
            .and_then(|()| stream.set_write_timeout(Some(timeout)));
        prepared.map_err(|source| Error::connection(address, source))?;
        Ok(Self {
            stream,
            address: address.to_owned(),
            timeout,
            buffer: Vec::new(),
            scanned: 0,
            scanner: ReplyScanner::new(),
        })
    }

    /// Authenticates, and requests RESP3 if wanted.
    pub fn handshake(&mut self, protocol: Protocol, user: Option<&str>, password: Option<&str>) -> Result<(), Error> {
        if let Some(password) = password {
            let reply = match user {
                Some(user) => self.call(&[b"AUTH", user.as_bytes(), password.as_bytes()])?,
                None => self.call(&[b"AUTH", password.as_bytes()])?,
            };
            self.refuse_error("AUTH", reply)?;
        }
        if protocol == Protocol::Resp3 {
            let reply = self.call(&[b"HELLO", b"3"])?;
            self.refuse_error("HELLO 3", reply)?;
        }
        Ok(())
    }

    /// Sends one request and waits for its reply. An error reply is a [`Value::Error`].
    pub fn call(&mut self, arguments: &[&[u8]]) -> Result<Value, Error> {
        let mut request = Vec::new();
        encode_request(&mut request, arguments);
        self.send(&request)?;
        self.receive()
    }

    /// Sends encoded requests; their replies wait for [`Client::receive`].
    pub fn send(&mut self, requests: &[u8]) -> Result<(), Error> {
        self.stream.write_all(requests).map_err(|source| Error::connection(&self.address, source))
    }

    /// The next reply, in request order. Push frames are dropped.
    pub fn receive(&mut self) -> Result<Value, Error> {
        loop {
            let reply = self.receive_any()?;
            if !matches!(reply, Value::Push(_)) {
                return Ok(reply);
            }
        }
    }

    /// The socket, for an event loop. No request may be outstanding on it.
    pub fn into_stream(self) -> TcpStream {
        self.stream
    }

    fn receive_any(&mut self) -> Result<Value, Error> {
        loop {
            let scanned = self
                .scanner
                .scan(&self.buffer[self.scanned..])
                .map_err(|error| Error::protocol(&self.address, error.to_string()))?;
            if let Scanned::Reply { length, .. } = scanned {
                let end = self.scanned + length;
                let value = Value::from_complete(&self.buffer[..end]);
                self.buffer.drain(..end);
                self.scanned = 0;
                return Ok(value);
            }
            self.scanned = self.buffer.len();
            self.read_more()?;
        }
    }

    fn read_more(&mut self) -> Result<(), Error> {
        let mut chunk = [0; READ_BYTES];
        match self.stream.read(&mut chunk) {
            Ok(0) => Err(Error::closed(&self.address)),
            Ok(length) => {
                self.buffer.extend_from_slice(&chunk[..length]);
                Ok(())
            }
            // Nothing yet; the caller tries again.
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                let seconds = self.timeout.as_secs_f64();
                Err(Error::Silent { address: self.address.clone(), seconds, outstanding: 1 })
            }
            Err(source) => Err(Error::connection(&self.address, source)),
        }
    }

    fn refuse_error(&self, command: &str, reply: Value) -> Result<(), Error> {
        match reply {
            Value::Error(text) => Err(Error::protocol(&self.address, format!("{command} was refused: {text}"))),
            _ => Ok(()),
        }
    }
}

fn connect_any(address: &str, timeout: Duration) -> std::io::Result<TcpStream> {
    let mut last = std::io::Error::new(std::io::ErrorKind::NotFound, "the name has no address");
    for candidate in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&candidate, timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}
