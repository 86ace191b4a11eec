//! How the bytes of a thread's connections come and go. The worker does not know which way: what it
//! sends, and what it makes of a reply, is one code for all.

use std::io::{self, ErrorKind, Write};
use std::net::TcpStream;

/// The sockets of a thread, each known by its connection's number.
pub(super) trait Sockets {
    /// Waits until something arrives: until `due_ns` at the latest if something is due, and for a
    /// tick otherwise. What was given to [`Self::send`] is on its way before that. Says whether all it
    /// did was to look again, without sleep and in vain.
    fn wait(&mut self, due_ns: Option<u64>, now_ns: u64) -> io::Result<bool>;

    /// What has arrived and was not told yet, if anything; gives up the bytes of the one before.
    fn next(&mut self) -> Option<Arrival>;

    /// The bytes of the last arrival.
    fn bytes(&self) -> &[u8];

    /// Where a batch is appended.
    fn outgoing(&mut self) -> &mut Vec<u8>;

    /// Sends what was appended to [`Self::outgoing`] since the last call: before the next wait sleeps
    /// at the latest, and after all that was sent to this connection before.
    fn send(&mut self, index: usize) -> io::Result<()>;

    /// Whether the connection did not take all that was sent: then nothing is to be added.
    fn has_unsent(&self, index: usize) -> bool;
}

/// Something that came for a connection.
pub(super) struct Arrival {
    pub(super) index: usize,
    /// As `read` says it: zero bytes are the end of the stream.
    pub(super) length: io::Result<usize>,
}

/// A socket that never blocks, and what it did not take.
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

    /// Writes a batch, and keeps what the socket does not take for when it is writable.
    pub(super) fn write(&mut self, batch: &[u8]) -> io::Result<()> {
        let written = write_some(&mut self.stream, batch)?;
        if written < batch.len() {
            self.keep(&batch[written..]);
            // The edge may have come and gone since the socket refused: try until it refuses.
            self.write_unsent()?;
        }
        Ok(())
    }

    /// Keeps bytes that come after all that was written or kept.
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
